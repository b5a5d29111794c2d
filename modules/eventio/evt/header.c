/* Parses the "% " headers of Prophesee's files, and detects the formats without an index. */
#include "eventio/evt/header.h"
#include "check.h"
#include "event_words.h"
#include "eventio/text.h"
#include "eventio/validate.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct TextHeader {
    size_t bytes;
    int evt_major, evt_minor; /* 0: not given */
    char endianness[8];       /* EVT 2.1: "legacy", "little", "big"; "": not given */
    int is_dat;               /* whether there is a line that only DAT files have */
    int dat_version;
    int width, height;
    int model_width, model_height; /* the sensor that the camera's name implies; 0: unknown */
    char camera[32];
} TextHeader;

/* Returns whether `line` starts with `name`; *value is what follows it and its blanks. */
static int hasField(const char *line, const char *name, const char **value) {
    const size_t n = strlen(name);
    if (strncmp(line, name, n) != 0)
        return 0;
    *value = line + n + strspn(line + n, " \t");
    return 1;
}

static int isSensorSide(int64_t value) {
    return value >= 1 && value <= 65536;
}

static void setSize(TextHeader *header, int64_t width, int64_t height) {
    if (isSensorSide(width) && isSensorSide(height)) {
        header->width = (int)width;
        header->height = (int)height;
    }
}

/* Finds the sensor by the plugin name that cameras write. A geometry line takes precedence. */
static void setModelSize(TextHeader *header, const char *plugin) {
    static const struct {
        const char *part;
        int width, height;
    } known[] = {{"gen41", 1280, 720}, {"imx636", 1280, 720}, {"imx646", 1280, 720}, {"gen42", 1280, 720},
                 {"gen31", 640, 480},  {"gen3", 640, 480},    {"gen4", 1280, 720},   {"genx320", 320, 320}};
    header->model_width = header->model_height = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (strstr(plugin, known[i].part)) {
            header->model_width = known[i].width;
            header->model_height = known[i].height;
            return;
        }
}

/* Returns a part of a version. A part that is too large must not become a known one. */
static int versionNumber(const char *text, char **rest) {
    const long value = strtol(text, rest, 10);
    return value < 0 || value > INT_MAX ? INT_MAX : (int)value;
}

/* Parses "3.0", for example. */
static void setEvtVersion(TextHeader *header, const char *text) {
    char *rest;
    header->evt_major = versionNumber(text, &rest);
    header->evt_minor = *rest == '.' ? versionNumber(rest + 1, &rest) : 0;
}

static void setEndianness(TextHeader *header, const char *text) {
    const size_t n = strcspn(text, "; \t");
    memset(header->endianness, 0, sizeof header->endianness);
    memcpy(header->endianness, text, n < sizeof header->endianness ? n : sizeof header->endianness - 1);
}

/* Parses "EVT3;height=720;width=1280" or "EVT21;endianness=legacy;height=720;width=1280", for example. */
static void parseFormatField(TextHeader *header, const char *value) {
    if (strncmp(value, "EVT21", 5) == 0)
        setEvtVersion(header, "2.1");
    else if (strncmp(value, "EVT", 3) == 0)
        setEvtVersion(header, value + 3);
    else if (strncmp(value, "DAT", 3) == 0)
        header->is_dat = 1;
    const char *width = strstr(value, ";width="), *height = strstr(value, ";height=");
    if (width && height)
        setSize(header, strtol(width + 7, NULL, 10), strtol(height + 8, NULL, 10));
    const char *endianness = strstr(value, ";endianness=");
    if (endianness)
        setEndianness(header, endianness + 12);
}

static void parseLine(TextHeader *header, const char *line) {
    const char *value;
    char *rest;
    if (hasField(line, "evt ", &value)) {
        setEvtVersion(header, value);
    } else if (hasField(line, "format ", &value)) {
        parseFormatField(header, value);
    } else if (hasField(line, "endianness ", &value)) {
        setEndianness(header, value);
    } else if (hasField(line, "geometry ", &value)) {
        const long width = strtol(value, &rest, 10);
        if (*rest == 'x')
            setSize(header, width, strtol(rest + 1, NULL, 10));
    } else if (hasField(line, "Width ", &value)) {
        const long width = strtol(value, NULL, 10);
        header->width = isSensorSide(width) ? (int)width : 0;
    } else if (hasField(line, "Height ", &value)) {
        const long height = strtol(value, NULL, 10);
        header->height = isSensorSide(height) ? (int)height : 0;
    } else if (hasField(line, "Version ", &value)) {
        header->dat_version = versionNumber(value, &rest);
    } else if (hasField(line, "Data file containing ", &value)) {
        header->is_dat = 1;
    } else if (hasField(line, "plugin_name ", &value)) {
        setModelSize(header, value);
        const size_t n = strcspn(value, " \t\r");
        memcpy(header->camera, value, n < sizeof header->camera ? n : sizeof header->camera - 1);
    }
}

/* Parses the "% " lines at the start of the file. */
static cusStatus parseHeader(const char *function, const uint8_t *bytes, size_t n, TextHeader *header) {
    while (header->bytes + 2 <= n && bytes[header->bytes] == '%' && bytes[header->bytes + 1] == ' ') {
        const uint8_t *text = bytes + header->bytes + 2;
        const uint8_t *newline = memchr(text, '\n', n - header->bytes - 2);
        CUSI_REQUIRE(newline || n >= EVENTIO_HEADER_BYTES, CUS_ERROR_TRUNCATED,
                     "%s: the file ends within its header, at byte %zu", function, n);
        CUSI_REQUIRE(newline, CUS_ERROR_FORMAT, "%s: the header is longer than %d bytes", function, EVENTIO_HEADER_BYTES);
        char line[256];
        size_t length = (size_t)(newline - text);
        length = length < sizeof line ? length : sizeof line - 1;
        memcpy(line, text, length);
        line[length] = 0;
        line[strcspn(line, "\r")] = 0;
        header->bytes = (size_t)(newline + 1 - bytes);
        if (strcmp(line, "end") == 0)
            break;
        parseLine(header, line);
    }
    /* The header ends where the next two bytes say so, and a DAT file's are more than events. */
    CUSI_REQUIRE(header->bytes + 2 <= n || n < EVENTIO_HEADER_BYTES, CUS_ERROR_FORMAT,
                 "%s: the header is longer than %d bytes", function, EVENTIO_HEADER_BYTES);
    return CUS_OK;
}

static int isEvt21Type(int type) {
    return type <= CUSI_EVT2_ON || type == CUSI_EVT2_TIME_HIGH || type == CUSI_EVT2_TRIGGER || type >= CUSI_EVT2_OTHERS;
}

/* Returns whether the words look like those of the legacy order, for a file whose header does not say. */
static int looksLikeEvt21Legacy(const uint8_t *bytes, size_t n) {
    if (n < 8)
        return 0;
    /* Recordings start with the time. In one that does not, masks read as types are often undefined. */
    const int time_last = bytes[7] >> 4 == CUSI_EVT2_TIME_HIGH, time_first = bytes[3] >> 4 == CUSI_EVT2_TIME_HIGH;
    if (time_last != time_first)
        return time_first;
    size_t undefined_last = 0, undefined_first = 0;
    for (size_t at = 0; at + 8 <= n; at += 8) {
        undefined_last += !isEvt21Type(bytes[at + 7] >> 4);
        undefined_first += !isEvt21Type(bytes[at + 3] >> 4);
    }
    return undefined_first < undefined_last;
}

/* Chooses the order of the halves; `events` are the first n bytes after the header. */
static cusStatus chooseEvt21(const char *function, const TextHeader *header, const uint8_t *events, size_t n,
                             EventHeader *out) {
    const char *order = header->endianness;
    CUSI_REQUIRE(!order[0] || strcmp(order, "little") == 0 || strcmp(order, "legacy") == 0, CUS_ERROR_UNSUPPORTED,
                 "%s: endianness of EVT 2.1 is %s, expected little or legacy", function, order);
    out->legacy = order[0] ? strcmp(order, "legacy") == 0 : looksLikeEvt21Legacy(events, n);
    return CUS_OK;
}

static cusStatus chooseEvt(const char *function, TextHeader *header, cusEventInfo *info, const uint8_t *bytes, size_t n,
                           EventHeader *out) {
    const int major = header->evt_major, minor = header->evt_minor;
    CUSI_REQUIRE((major == 2 && minor <= 1 && minor >= 0) || ((major == 3 || major == 4) && minor == 0),
                 CUS_ERROR_UNSUPPORTED, "%s: encoding is EVT %d.%d, expected EVT 2.0, 2.1, 3.0 or 4.0", function, major,
                 minor);
    info->format = major == 4 ? CUS_EVENTS_EVT4 : major == 3 ? CUS_EVENTS_EVT3 : minor ? CUS_EVENTS_EVT21 : CUS_EVENTS_EVT2;
    if (info->format == CUS_EVENTS_EVT21)
        CUS_TRY(chooseEvt21(function, header, bytes + header->bytes, n - header->bytes, out));
    if (!header->width || !header->height)
        setSize(header, header->model_width, header->model_height);
    return CUS_OK;
}

/* Reads the type byte and the size byte that follow the "% " lines. */
static cusStatus chooseDat(const char *function, const cusEventReader *reader, TextHeader *header, cusEventInfo *info,
                           const uint8_t *bytes, size_t n) {
    CUSI_REQUIRE(n >= header->bytes + 2, CUS_ERROR_TRUNCATED, "%s: the file ends after its header, at byte %zu", function,
                 n);
    const int type = bytes[header->bytes], size = bytes[header->bytes + 1];
    if (size != 8 || (type != 0 && type != 12))
        return cusi_fail(CUS_ERROR_FORMAT,
                         header->is_dat
                             ? "%s: DAT with records of type %d and %d bytes, expected type 0 or 12 and 8 bytes"
                             : "%s: the \"%% \" header names no EVT encoding and no DAT records follow it (first "
                               "bytes %d, %d); for a RAW file set the option `format`",
                         function, type, size);
    CUSI_REQUIRE(header->dat_version != 1, CUS_ERROR_UNSUPPORTED, "%s: DAT version is 1, expected 2", function);
    info->format = CUS_EVENTS_DAT;
    header->bytes += 2;
    info->count = (int64_t)((reader->source.size - header->bytes) / 8);
    return CUS_OK;
}

cusStatus eventio_readHeader(cusEventReader *reader, const uint8_t *bytes, size_t n, EventHeader *out) {
    static const char function[] = "cusEventReaderOpen";
    const cusEventFormat requested = reader->options.format;
    cusEventInfo *info = &reader->info;
    TextHeader header = {0};
    int64_t width = 0, height = 0;
    *out = (EventHeader){.start = {.time_high = -1, .time = -1, .last_time = -1}};
    CUS_TRY(parseHeader(function, bytes, n, &header));
    if (!header.evt_major && (requested == CUS_EVENTS_EVT2 || requested == CUS_EVENTS_EVT21 ||
                              requested == CUS_EVENTS_EVT3 || requested == CUS_EVENTS_EVT4)) {
        header.evt_major = requested == CUS_EVENTS_EVT4 ? 4 : requested == CUS_EVENTS_EVT3 ? 3 : 2;
        header.evt_minor = requested == CUS_EVENTS_EVT21;
    }
    if (header.evt_major) {
        CUS_TRY(chooseEvt(function, &header, info, bytes, n, out));
    } else if (header.bytes) {
        CUS_TRY(chooseDat(function, reader, &header, info, bytes, n));
    } else if (eventio_looksLikeText(bytes, n, &out->start, &reader->text, &width, &height)) {
        info->format = CUS_EVENTS_TEXT;
        setSize(&header, width, height);
    } else {
        return cusi_fail(CUS_ERROR_FORMAT,
                         "%s: not an event recording: not HDF5, no \"%% \" header, not text of four columns", function);
    }
    if (info->format != CUS_EVENTS_TEXT)
        out->start.offset = header.bytes;
    if (header.width && header.height) {
        info->width = header.width;
        info->height = header.height;
    }
    memcpy(info->camera, header.camera, sizeof info->camera);
    return eventio_checkFormat(reader);
}
