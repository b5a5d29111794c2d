/* Writes M3ED-style HDF5: a dataset for each of x, y, p and t, and the first event of each millisecond. */
#include "check.h"
#include "eventio/hdf5/codec.h"
#include "eventio/hdf5/store/store.h"
#include "eventio/writers/methods.h"

#include <stdlib.h>
#include <string.h>

enum { X, Y, P, T, MAP, COLUMNS };

typedef struct M3edWriter {
    Hdf5Columns all;
    Hdf5Column column[COLUMNS];
    uint64_t next_ms; /* next entry of the index */
    char camera[32];
} M3edWriter;

/* Builds the head of the file; also before the columns are stored, to know its size. */
static void buildHead(const cusEventWriter *w, Hdf5Head *h) {
    static const char *const names[COLUMNS] = {"x", "y", "p", "t", "ms_map_idx"};
    const M3edWriter *m = w->state;
    const int64_t size[2] = {w->options.width, w->options.height};
    uint64_t at[COLUMNS];
    eventio_headStart(h);
    Hdf5Dataset pair = {.type = eventio_integerType(8, 1), .rank = 1, .shape = {2}, .bytes = sizeof size};
    pair.address = eventio_putBytes(h, size, sizeof size);
    eventio_objectStart(h);
    eventio_putDataset(h, &pair);
    const uint64_t resolution = eventio_objectEnd(h);
    eventio_objectStart(h);
    eventio_putGroup(h);
    eventio_putLink(h, "resolution", resolution);
    const uint64_t calib = eventio_objectEnd(h);
    for (int k = 0; k < COLUMNS; ++k) {
        eventio_objectStart(h);
        eventio_putDataset(h, &m->column[k].set);
        at[k] = eventio_objectEnd(h);
    }
    eventio_objectStart(h);
    eventio_putGroup(h);
    for (int k = 0; k < COLUMNS; ++k)
        eventio_putLink(h, names[k], at[k]);
    eventio_putLink(h, "calib", calib);
    const uint64_t camera = eventio_objectEnd(h);
    eventio_objectStart(h);
    eventio_putGroup(h);
    eventio_putLink(h, m->camera, camera);
    const uint64_t prophesee = eventio_objectEnd(h);
    eventio_objectStart(h);
    eventio_putGroup(h);
    eventio_putLink(h, "prophesee", prophesee);
    eventio_headFinish(h, eventio_objectEnd(h), m->all.end);
}

static cusStatus create(cusEventWriter *w) {
    const Hdf5Type types[COLUMNS] = {eventio_integerType(2, 0), eventio_integerType(2, 0), eventio_integerType(1, 1),
                                     eventio_integerType(8, 1), eventio_integerType(8, 0)};
    const size_t chunk = (size_t)w->options.chunk, batch = eventio_batchOf(13 * chunk);
    M3edWriter *m = calloc(1, sizeof *m);
    CUSI_REQUIRE(m, CUS_ERROR_NO_MEMORY, "%s: out of host memory", w->function);
    w->state = m;
    strncpy(m->camera, w->options.camera ? w->options.camera : "left", sizeof m->camera - 1);
    m->all = (Hdf5Columns){.output = &w->output, .threads = w->threads};
    int good = 1;
    for (int k = 0; k < COLUMNS; ++k)
        good = good && eventio_columnCreate(&m->column[k], &types[k], chunk, k == MAP ? 1 : batch,
                                            eventio_filterOf(w, EVENTIO_FILTER_LZF));
    CUSI_REQUIRE(good && eventio_columnsCreate(&m->all, m->column, COLUMNS), CUS_ERROR_NO_MEMORY, "%s: out of host memory",
                 w->function);
    Hdf5Head head;
    buildHead(w, &head);
    m->all.end = eventio_headBytes(&head);
    return CUS_OK;
}

/* ms_map_idx[m] is the first event with t >= 1000 m. */
static cusStatus indexTimes(M3edWriter *m, uint64_t first, size_t n, const int64_t *t) {
    Hdf5Column *map = &m->column[MAP];
    if (first == 0) { /* whole chunks of zeros before the first event are not stored: zero is the fill value */
        map->skipped = (uint64_t)t[0] / 1000 / map->set.chunk[0];
        m->next_ms = map->set.shape[0] = map->skipped * map->set.chunk[0];
    }
    for (size_t i = 0; i < n; ++i)
        for (const uint64_t event = first + i; (uint64_t)t[i] >= 1000 * m->next_ms; ++m->next_ms)
            CUS_TRY(eventio_columnAppend(&m->all, map, &event));
    return CUS_OK;
}

static cusStatus write(cusEventWriter *w, const cusEventArrays *e) {
    M3edWriter *m = w->state;
    const void *const columns[MAP] = {e->x, e->y, e->p, e->t};
    const size_t capacity = m->column[T].batch * (size_t)m->column[T].set.chunk[0];
    m->all.function = w->function;
    for (size_t done = 0; done < e->count;) {
        const size_t room = capacity - m->column[T].filled, now = e->count - done < room ? e->count - done : room;
        CUS_TRY(indexTimes(m, w->count + done, now, e->t + done));
        for (int k = 0; k < MAP; ++k)
            eventio_columnFill(&m->column[k], (const uint8_t *)columns[k] + done * m->column[k].set.type.number.size, now);
        done += now;
        for (int k = 0; k < MAP && m->column[k].filled == capacity; ++k)
            CUS_TRY(eventio_columnStore(&m->all, &m->column[k], 0));
    }
    return CUS_OK;
}

static cusStatus finish(cusEventWriter *w) {
    M3edWriter *m = w->state;
    Hdf5Head head;
    m->all.function = w->function;
    for (int k = 0; k < COLUMNS; ++k)
        CUS_TRY(eventio_columnFinish(&m->all, &m->column[k]));
    buildHead(w, &head);
    return eventio_outputWrite(&w->output, 0, head.bytes, eventio_headBytes(&head), w->function);
}

static void destroy(cusEventWriter *w) {
    M3edWriter *m = w->state;
    for (int k = 0; m && k < COLUMNS; ++k)
        eventio_columnFree(&m->column[k]);
    if (m)
        eventio_columnsFree(&m->all);
    free(m);
}

const EventWriterMethods eventio_writeM3ed = {.max_side = 65536,
                                              .is_hdf5 = 1,
                                              .max_chunk = 4194304,
                                              .default_chunk = 40000,
                                              .create = create,
                                              .check = eventio_checkSpan,
                                              .write = write,
                                              .finish = finish,
                                              .destroy = destroy};
