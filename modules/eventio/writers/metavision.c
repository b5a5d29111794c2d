/* Writes Metavision's HDF5 as OpenEB does: /CD/events compressed with ECF, /EXT_TRIGGER/events, and an index of each. */
#include "check.h"
#include "eventio/hdf5/codec.h"
#include "eventio/hdf5/store/store.h"
#include "eventio/writers/methods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS, INDEX, TRIGGERS, TRIGGER_INDEX, COLUMNS };
enum {
    ROW = 16,
    CHUNK = 16384,
    INDEX_US = 2000
}; /* bytes of an event; rows in a chunk of the other datasets; microseconds per entry of an index */

/* A place in the recording: the number of an event and its time after the first. */
typedef struct Place {
    uint64_t event;
    int64_t time;
} Place;

/* The index of events or triggers. */
typedef struct Index {
    uint64_t rows, entries; /* rows indexed; entries so far */
    int64_t first_time;
    Place last, now; /* where the last period with events began, and the one before it */
} Index;

typedef struct MetavisionWriter {
    Hdf5Columns all;
    Hdf5Column column[COLUMNS];
    size_t head_bytes;
    Index events, triggers;
} MetavisionWriter;

/* Puts /GROUP with events and indexes. `offset` is text number `number` of the heap. */
static uint64_t putPair(Hdf5Head *h, const Hdf5Column *events, const Hdf5Column *index, int has_offset, const char *offset,
                        uint64_t heap, uint32_t number) {
    eventio_objectStart(h);
    eventio_putDataset(h, &events->set);
    const uint64_t events_at = eventio_objectEnd(h);
    eventio_objectStart(h);
    eventio_putDataset(h, &index->set);
    if (has_offset)
        eventio_putTextAttribute(h, "offset", offset, heap, number);
    const uint64_t index_at = eventio_objectEnd(h);
    eventio_objectStart(h);
    eventio_putGroup(h);
    eventio_putLink(h, "events", events_at);
    eventio_putLink(h, "indexes", index_at);
    return eventio_objectEnd(h);
}

/* Builds the head of the file. Attributes are text of variable size, which OpenEB expects. The offset is subtracted
 * from the times of the index. */
static void buildHead(const cusEventWriter *w, Hdf5Head *h) {
    const MetavisionWriter *m = w->state;
    char geometry[24], offset[24], trigger_offset[24];
    snprintf(geometry, sizeof geometry, "%dx%d", w->options.width, w->options.height);
    snprintf(offset, sizeof offset, "%lld", -(long long)m->events.first_time);
    snprintf(trigger_offset, sizeof trigger_offset, "%lld", -(long long)m->triggers.first_time);
    const char *const texts[] = {"1.0", geometry, offset, trigger_offset};
    eventio_headStart(h);
    const uint64_t heap = eventio_putTexts(h, texts, m->triggers.rows ? 4 : 3);
    const uint64_t events = putPair(h, &m->column[EVENTS], &m->column[INDEX], m->events.rows > 0, offset, heap, 3);
    const uint64_t triggers =
        putPair(h, &m->column[TRIGGERS], &m->column[TRIGGER_INDEX], m->triggers.rows > 0, trigger_offset, heap, 4);
    eventio_objectStart(h);
    eventio_putGroup(h);
    eventio_putLink(h, "CD", events);
    eventio_putLink(h, "EXT_TRIGGER", triggers);
    eventio_putTextAttribute(h, "version", texts[0], heap, 1);
    eventio_putTextAttribute(h, "geometry", texts[1], heap, 2);
    eventio_headFinish(h, eventio_objectEnd(h), m->all.end);
}

static void setTypes(Hdf5Type types[COLUMNS]) {
    const Hdf5Type u16 = eventio_integerType(2, 0), i16 = eventio_integerType(2, 1), i64 = eventio_integerType(8, 1);
    memset(types, 0, COLUMNS * sizeof *types);
    for (int k = 0; k < COLUMNS; ++k)
        types[k].number = (Hdf5Number){.class = HDF5_COMPOUND, .size = k == TRIGGERS ? 24 : 16};
    eventio_addMember(&types[EVENTS], "x", 0, u16);
    eventio_addMember(&types[EVENTS], "y", 2, u16);
    eventio_addMember(&types[EVENTS], "p", 4, i16);
    eventio_addMember(&types[EVENTS], "t", 8, i64);
    eventio_addMember(&types[INDEX], "id", 0, eventio_integerType(8, 0));
    eventio_addMember(&types[INDEX], "ts", 8, i64);
    types[TRIGGER_INDEX] = types[INDEX];
    eventio_addMember(&types[TRIGGERS], "p", 0, i16);
    eventio_addMember(&types[TRIGGERS], "t", 8, i64);
    eventio_addMember(&types[TRIGGERS], "id", 16, i16);
}

static cusStatus create(cusEventWriter *w) {
    Hdf5Type types[COLUMNS];
    setTypes(types);
    MetavisionWriter *m = calloc(1, sizeof *m);
    CUSI_REQUIRE(m, CUS_ERROR_NO_MEMORY, "%s: out of host memory", w->function);
    w->state = m;
    m->all = (Hdf5Columns){.output = &w->output, .threads = w->threads};
    m->events.now.time = m->events.last.time = m->triggers.now.time = m->triggers.last.time = -1;
    const size_t chunk = (size_t)w->options.chunk;
    int good = eventio_columnCreate(&m->column[EVENTS], &types[EVENTS], chunk, eventio_batchOf(ROW * chunk),
                                    eventio_filterOf(w, EVENTIO_FILTER_ECF));
    for (int k = INDEX; k < COLUMNS; ++k)
        good = good && eventio_columnCreate(&m->column[k], &types[k], CHUNK, 1, 0);
    CUSI_REQUIRE(good && eventio_columnsCreate(&m->all, m->column, COLUMNS), CUS_ERROR_NO_MEMORY, "%s: out of host memory",
                 w->function);
    Hdf5Head head;
    buildHead(w, &head);
    m->all.end = m->head_bytes = eventio_headBytes(&head) + HDF5_HEAD_STEP; /* room, since the offset is not known yet */
    return CUS_OK;
}

/* Entry k, for the 2 ms from k * 2 ms after the first event on, is where the last period with events before it begins;
 * entry 0 is {0, -1}. */
static cusStatus indexRow(MetavisionWriter *m, Index *index, Hdf5Column *column, int64_t t) {
    index->first_time = index->rows ? index->first_time : t;
    const int64_t time = t - index->first_time;
    while ((uint64_t)time / INDEX_US + 1 > index->entries) {
        if (index->rows != index->now.event)
            index->last = index->now;
        CUS_TRY(eventio_columnAppend(&m->all, column, &index->last));
        ++index->entries;
        index->now = (Place){index->rows, time};
    }
    ++index->rows;
    return CUS_OK;
}

static void putRow(uint8_t *row, const cusEventArrays *e, size_t i) {
    memcpy(row, &e->x[i], 2);
    memcpy(row + 2, &e->y[i], 2);
    row[4] = e->p[i];
    memset(row + 5, 0, 3);
    memcpy(row + 8, &e->t[i], 8);
}

static cusStatus write(cusEventWriter *w, const cusEventArrays *e) {
    MetavisionWriter *m = w->state;
    Hdf5Column *events = &m->column[EVENTS];
    const size_t capacity = events->batch * (size_t)events->set.chunk[0];
    m->all.function = w->function;
    for (size_t i = 0; i < e->count; ++i) {
        CUS_TRY(indexRow(m, &m->events, &m->column[INDEX], e->t[i]));
        putRow(events->waiting + events->filled * ROW, e, i);
        if (++events->filled == capacity)
            CUS_TRY(eventio_columnStore(&m->all, events, 0));
    }
    return CUS_OK;
}

static cusStatus trigger(cusEventWriter *w, const cusEventTrigger *t) {
    MetavisionWriter *m = w->state;
    const int64_t first = m->triggers.rows ? m->triggers.first_time : t->t;
    const int16_t value = t->value != 0;
    uint8_t row[24] = {0};
    m->all.function = w->function;
    CUSI_REQUIRE((t->t - first) / 1000 <= eventio_longestSpan(m->triggers.rows), CUS_ERROR_VALUE,
                 "%s: a trigger has time %lld us, too long after the first: indexes has an entry for every two ms",
                 w->function, (long long)t->t);
    CUS_TRY(indexRow(m, &m->triggers, &m->column[TRIGGER_INDEX], t->t));
    memcpy(row, &value, 2);
    memcpy(row + 8, &t->t, 8);
    memcpy(row + 16, &t->id, 2);
    return eventio_columnAppend(&m->all, &m->column[TRIGGERS], row);
}

static cusStatus finish(cusEventWriter *w) {
    MetavisionWriter *m = w->state;
    Hdf5Head head;
    m->all.function = w->function;
    if (m->events.entries)
        CUS_TRY(eventio_columnAppend(&m->all, &m->column[INDEX], &m->events.now));
    if (m->triggers.entries)
        CUS_TRY(eventio_columnAppend(&m->all, &m->column[TRIGGER_INDEX], &m->triggers.now));
    for (int k = 0; k < COLUMNS; ++k)
        CUS_TRY(eventio_columnFinish(&m->all, &m->column[k]));
    buildHead(w, &head);
    return eventio_outputWrite(&w->output, 0, head.bytes, m->head_bytes, w->function);
}

static void destroy(cusEventWriter *w) {
    MetavisionWriter *m = w->state;
    for (int k = 0; m && k < COLUMNS; ++k)
        eventio_columnFree(&m->column[k]);
    if (m)
        eventio_columnsFree(&m->all);
    free(m);
}

const EventWriterMethods eventio_writeMetavision = {.max_side = 2048,
                                                    .is_hdf5 = 1,
                                                    .max_chunk = 65535,
                                                    .default_chunk = CHUNK,
                                                    .create = create,
                                                    .check = eventio_checkSpan,
                                                    .write = write,
                                                    .trigger = trigger,
                                                    .max_trigger_id = INT16_MAX,
                                                    .finish = finish,
                                                    .destroy = destroy};
