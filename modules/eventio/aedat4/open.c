/* Opens AEDAT4: the header, the stream of events to read, and the table of packets, which gives their number and an
 * index. */
#include "check.h"
#include "eventio/aedat4/aedat4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION_BYTES = 14, PACKET_HEADER_BYTES = 8, MAX_RATIO = 1100 };

static inline int64_t load64(const uint8_t *p) {
    return (int64_t)((uint64_t)cusi_load32(p) | (uint64_t)cusi_load32(p + 4) << 32);
}

/* ---- Header ------------------------------------------------------------------------------------------------------ */

static cusStatus badHeader(const char *what) {
    return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderOpen: the header of the AEDAT4 file is damaged: expected %s", what);
}

/* The field is 0: none; 1, 2: LZ4; 3, 4: zstd. */
static cusStatus setCompression(Aedat4 *file, const uint8_t *field) {
    const uint32_t value = field ? cusi_load32(field) : 0;
    if (value > 4)
        return badHeader("a compression of 0 to 4");
    file->codec = value == 0 ? CODEC_NONE : value <= 2 ? CODEC_LZ4 : CODEC_ZSTD;
    return CUS_OK;
}

static cusStatus readHeader(cusEventReader *reader, PacketReader *p, Aedat4 *file) {
    const uint8_t *bytes, *compression, *position, *xml;
    FlatTable root;
    size_t xml_size;
    CUS_TRY(eventio_view(reader, p, VERSION_BYTES, 4, &bytes));
    const uint32_t size = cusi_load32(bytes);
    CUS_TRY(eventio_view(reader, p, VERSION_BYTES + 4, size, &bytes));
    if (!eventio_flatRoot(bytes, size, "IOHE", &root) || !eventio_flatField(&root, 0, 4, &compression) ||
        !eventio_flatField(&root, 1, 8, &position) || !eventio_flatVector(&root, 2, 1, &xml, &xml_size))
        return badHeader("an IOHeader");
    CUS_TRY(setCompression(file, compression));
    if (!eventio_aedat4Streams((const char *)xml, xml_size, file))
        return badHeader("XML with the streams");
    const int64_t table = position ? load64(position) : -1;
    p->place.offset = VERSION_BYTES + 4 + (uint64_t)size;
    if (table != -1 && table < (int64_t)p->place.offset)
        return badHeader("a table of packets behind the header");
    file->table = table < 0 ? 0 : (uint64_t)table;
    const int is_cut = file->table >= reader->source.size;
    file->damage = file->table && is_cut ? CUS_ERROR_TRUNCATED : CUS_OK;
    file->end = file->table && !is_cut ? file->table : reader->source.size;
    return CUS_OK;
}

/* ---- The stream -------------------------------------------------------------------------------------------------- */

/* Returns whether `wanted` is the source of the stream, or its number. */
static int isWanted(const Aedat4Stream *s, const char *wanted) {
    char number[16];
    snprintf(number, sizeof number, "%d", (int)s->number);
    return s->type[0] == 'E' && (!wanted || strcmp(wanted, number) == 0 || strcmp(wanted, s->source) == 0);
}

/* Chooses the first wanted stream that has events; without events, the first wanted one. */
static cusStatus chooseStream(cusEventReader *reader, PacketReader *p, Aedat4 *file) {
    const char *wanted = reader->options.camera;
    int first = -1, several = 0;
    for (int k = file->stream_count - 1; k >= 0; --k)
        if (isWanted(&file->streams[k], wanted)) {
            several = first >= 0;
            first = k;
        }
    CUSI_REQUIRE(first >= 0, CUS_ERROR_FORMAT, "cusEventReaderOpen: the AEDAT4 file has no stream of events%s%s%s",
                 wanted ? " named \"" : "", wanted ? wanted : "", wanted ? "\"" : "");
    file->chosen = first;
    if (!several)
        return CUS_OK;
    const PacketPlace start = p->place;
    file->chosen = -1;
    for (int found = 1; found;) {
        const cusStatus status = eventio_aedat4Next(reader, p, &found);
        if (status == CUS_ERROR_IO || status == CUS_ERROR_NO_MEMORY)
            return status;
        found = found && status == CUS_OK;
        if (found && p->message.count && isWanted(&file->streams[file->current], wanted)) {
            file->chosen = file->current;
            break;
        }
    }
    file->chosen = file->chosen < 0 ? first : file->chosen;
    p->checkpoint_count = p->skipped = 0;
    return eventio_restorePlace(p, &start);
}

/* Sets info.camera to the camera's name, or to the stream's number if the name is empty or not unique. */
static void describeStream(cusEventReader *reader, const Aedat4 *file) {
    const Aedat4Stream *chosen = &file->streams[file->chosen];
    int same = 0;
    for (int k = 0; k < file->stream_count; ++k)
        same += file->streams[k].type[0] == 'E' && strcmp(file->streams[k].source, chosen->source) == 0;
    if (same > 1 || !chosen->source[0])
        snprintf(reader->info.camera, sizeof reader->info.camera, "%d", (int)chosen->number);
    else
        memcpy(reader->info.camera, chosen->source, sizeof chosen->source);
    if (chosen->width > 0 && chosen->height > 0) {
        reader->info.width = chosen->width;
        reader->info.height = chosen->height;
    }
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

typedef struct Entry {
    int64_t offset, count, last;
    int32_t stream, size;
} Entry;

static int readEntry(const FlatTable *list, const uint8_t *elements, size_t i, Entry *entry) {
    const uint8_t *offset, *packet, *count, *last;
    FlatTable line;
    if (!eventio_flatElement(list, elements, i, &line) || !eventio_flatField(&line, 0, 8, &offset) ||
        !eventio_flatField(&line, 1, 8, &packet) || !eventio_flatField(&line, 2, 8, &count) ||
        !eventio_flatField(&line, 4, 8, &last))
        return 0;
    *entry = (Entry){.offset = offset ? load64(offset) : 0,
                     .count = count ? load64(count) : 0,
                     .last = last ? load64(last) : 0,
                     .stream = packet ? (int32_t)cusi_load32(packet) : 0,
                     .size = packet ? (int32_t)cusi_load32(packet + 4) : 0};
    return 1;
}

/* Makes a checkpoint of each packet of the chosen stream. *damaged: the table cannot belong to this file. */
static cusStatus useTable(const cusEventReader *reader, PacketReader *p, Aedat4 *file, const FlatTable *root,
                          int *damaged) {
    const uint8_t *elements;
    size_t lines;
    PacketPlace place = p->place;
    *damaged = 1;
    if (!eventio_flatVector(root, 0, 4, &elements, &lines))
        return CUS_OK;
    CUS_TRY(eventio_addPlace(p, &place)); /* the start */
    for (size_t i = 0; i < lines; ++i) {
        Entry e;
        if (!readEntry(root, elements, i, &e))
            return CUS_OK;
        if (e.stream != file->streams[file->chosen].number)
            continue;
        const int64_t start = e.offset - PACKET_HEADER_BYTES;
        if (e.offset < PACKET_HEADER_BYTES || (uint64_t)start < place.offset + (place.index > 0) || e.size < 0 ||
            (uint64_t)e.offset > file->end || (uint64_t)e.size > file->end - (uint64_t)e.offset || e.count < 0 ||
            (place.index + (uint64_t)e.count) / MAX_RATIO > reader->source.size / 8)
            return CUS_OK;
        place.offset = (uint64_t)start;
        if (place.index > 0)
            CUS_TRY(eventio_addPlace(p, &place));
        place.index += (uint64_t)e.count;
        place.time = e.count && e.last > place.time ? e.last : place.time;
    }
    *damaged = 0;
    file->has_table = p->complete = 1;
    file->count = p->total = place.index;
    return CUS_OK;
}

/* A file without a table, or with a damaged one, is read from front to back. */
static cusStatus readTable(cusEventReader *reader, PacketReader *p, Aedat4 *file) {
    if (!file->table || file->damage != CUS_OK)
        return CUS_OK;
    const PacketPlace start = p->place;
    const uint64_t size = reader->source.size - file->table;
    FlatTable root;
    int damaged = 1;
    if (size > p->max_chunk)
        return CUS_OK;
    cusStatus status = eventio_aedat4Unpack(reader, p, file->table, size, "FTAB", &root);
    if (status == CUS_ERROR_IO || status == CUS_ERROR_NO_MEMORY || status == CUS_ERROR_UNSUPPORTED)
        return status;
    if (status == CUS_ERROR_CAPACITY)
        status = CUS_OK; /* a long recording is read without the table */
    else if (status == CUS_OK) {
        CUS_TRY(useTable(reader, p, file, &root, &damaged));
        status = damaged ? CUS_ERROR_FORMAT : CUS_OK;
    }
    file->damage = status;
    if (!p->complete)
        p->checkpoint_count = p->skipped = 0;
    return eventio_restorePlace(p, &start);
}

static cusStatus openAedat4(cusEventReader *reader, PacketReader *p) {
    Aedat4 *file = calloc(1, sizeof *file);
    CUSI_REQUIRE(file, CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: out of host memory");
    p->state = file;
    reader->info.format = CUS_EVENTS_AEDAT4;
    CUS_TRY(readHeader(reader, p, file));
    CUS_TRY(chooseStream(reader, p, file));
    describeStream(reader, file);
    return readTable(reader, p, file);
}

static void closeAedat4(PacketReader *p) {
    free(p->state);
}

static cusStatus copyAedat4(const PacketReader *from, PacketReader *to) {
    to->state = malloc(sizeof(Aedat4));
    CUSI_REQUIRE(to->state, CUS_ERROR_NO_MEMORY, "cusEventReaderReadTriggers: out of host memory");
    memcpy(to->state, from->state, sizeof(Aedat4));
    return CUS_OK;
}

const PacketFormat eventio_aedat4 = {openAedat4, eventio_aedat4Next, closeAedat4, copyAedat4, eventio_aedat4TakeTriggers};
