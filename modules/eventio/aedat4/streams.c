/* The streams of an AEDAT4 file, from the XML of its header:
 *   <node name="outInfo"> <node name="0"> <attr key="typeIdentifier" ...>EVTS</attr>
 *                                         <node name="info"> <attr key="sizeX" ...>346</attr> sizeY, source
 * One pass over the tags; nothing but names, keys and texts of these few is kept. */
#include "eventio/aedat4/aedat4.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 32 };

/* The state of the pass. */
typedef struct Walk {
    int depth;              /* number of open nodes */
    int list, stream, info; /* depths of outInfo, of the stream in it, and of its info; 0: not within one */
    Aedat4Stream now;
} Walk;

/* A part of the text. */
typedef struct Span {
    const char *at;
    size_t size;
} Span;

static int equals(Span s, const char *text) {
    return s.size == strlen(text) && memcmp(s.at, text, s.size) == 0;
}

static void copy(Span s, char *to, size_t capacity) {
    const size_t n = s.size < capacity - 1 ? s.size : capacity - 1;
    memcpy(to, s.at, n);
    to[n] = '\0';
}

static int number(Span s, long most) {
    char digits[16];
    copy(s, digits, sizeof digits);
    char *rest;
    const long value = strtol(digits, &rest, 10);
    return s.size && s.size < sizeof digits && !*rest && value >= 0 && value <= most ? (int)value : -1;
}

static Span findText(Span in, const char *text) {
    const char *found = memmem(in.at, in.size, text, strlen(text));
    return found ? (Span){found, in.size - (size_t)(found - in.at)} : (Span){NULL, 0};
}

/* Returns the value of `attribute`, given as name=" and looked for in a tag. */
static Span valueOf(Span tag, const char *attribute) {
    const Span none = {"", 0}, found = findText(tag, attribute);
    if (!found.at)
        return none;
    const size_t skip = strlen(attribute);
    const char *end = memchr(found.at + skip, '"', found.size - skip);
    return end ? (Span){found.at + skip, (size_t)(end - found.at) - skip} : none;
}

static void openNode(Walk *w, Span name) {
    ++w->depth;
    if (!w->list && equals(name, "outInfo")) {
        w->list = w->depth;
    } else if (w->list && !w->stream && w->depth == w->list + 1) {
        w->stream = w->depth;
        w->now = (Aedat4Stream){.number = number(name, INT32_MAX)};
    } else if (w->stream && !w->info && w->depth == w->stream + 1 && equals(name, "info")) {
        w->info = w->depth;
    }
}

/* Returns 0 if there are too many streams. */
static int closeNode(Walk *w, Aedat4 *file) {
    if (w->depth == w->stream) {
        w->stream = 0;
        if (w->now.number >= 0 && (strcmp(w->now.type, "EVTS") == 0 || strcmp(w->now.type, "TRIG") == 0)) {
            if (file->stream_count == AEDAT4_STREAMS)
                return 0;
            file->streams[file->stream_count++] = w->now;
        }
    }
    w->info = w->depth == w->info ? 0 : w->info;
    w->list = w->depth == w->list ? 0 : w->list;
    --w->depth;
    return 1;
}

static void useAttribute(Walk *w, Span key, Span text) {
    if (w->depth == w->stream && equals(key, "typeIdentifier"))
        copy(text, w->now.type, sizeof w->now.type);
    else if (w->info && w->depth == w->info && equals(key, "sizeX"))
        w->now.width = number(text, 65536);
    else if (w->info && w->depth == w->info && equals(key, "sizeY"))
        w->now.height = number(text, 65536);
    else if (w->info && w->depth == w->info && equals(key, "source"))
        copy(text, w->now.source, sizeof w->now.source);
}

int eventio_aedat4Streams(const char *xml, size_t size, Aedat4 *file) {
    Walk w = {0};
    for (Span rest = {xml, size};;) {
        const char *open = rest.size ? memchr(rest.at, '<', rest.size) : NULL;
        if (!open)
            return w.depth == 0;
        const char *close = memchr(open, '>', rest.size - (size_t)(open - rest.at));
        if (!close)
            return 0;
        const Span tag = {open + 1, (size_t)(close - open) - 1};
        const int is_empty = tag.size && close[-1] == '/';
        rest = (Span){close + 1, (size_t)(rest.at + rest.size - close) - 1};
        if (tag.size >= 5 && memcmp(tag.at, "node ", 5) == 0) {
            if (w.depth == MAX_DEPTH)
                return 0;
            openNode(&w, valueOf(tag, " name=\""));
            if (is_empty && !closeNode(&w, file))
                return 0;
        } else if (equals(tag, "/node")) {
            if (w.depth == 0 || !closeNode(&w, file))
                return 0;
        } else if (tag.size >= 5 && memcmp(tag.at, "attr ", 5) == 0 && !is_empty) {
            const char *end = rest.size ? memchr(rest.at, '<', rest.size) : NULL;
            if (!end)
                return 0;
            useAttribute(&w, valueOf(tag, " key=\""), (Span){rest.at, (size_t)(end - rest.at)});
        }
    }
}
