/* The events of one message, by their layout. */
#include "check.h"
#include "eventio/packets/packets.h"

#include <string.h>

static inline uint64_t load64(const uint8_t *p) {
    return (uint64_t)cusi_load32(p) | (uint64_t)cusi_load32(p + 4) << 32;
}

/* Nanoseconds are cut to whole microseconds. */
static inline int64_t toMicroseconds(int32_t seconds, uint32_t nanoseconds) {
    return (int64_t)seconds * 1000000 + nanoseconds / 1000;
}

static void deliverAedat4(const uint8_t *in, size_t n, CusiEvents out) {
    for (size_t i = 0; i < n; ++i, in += 16) {
        out.t[i] = (int64_t)load64(in);
        out.x[i] = (uint16_t)cusi_load16(in + 8);
        out.y[i] = (uint16_t)cusi_load16(in + 10);
        out.p[i] = in[12];
    }
}

/* Seconds of ROS 1 have no sign, but no clock of today needs their highest bit. */
static void deliverRos(const uint8_t *in, size_t n, CusiEvents out) {
    for (size_t i = 0; i < n; ++i, in += 13) {
        out.x[i] = (uint16_t)cusi_load16(in);
        out.y[i] = (uint16_t)cusi_load16(in + 2);
        out.t[i] = (int64_t)cusi_load32(in + 4) * 1000000 + cusi_load32(in + 8) / 1000;
        out.p[i] = in[12];
    }
}

/* Elements start at every 16 bytes, but every x except the first lies in the padding before, since its alignment is 2
 * bytes. */
static void deliverCdr(const Message *m, size_t first, size_t n, CusiEvents out) {
    const uint8_t *in = m->bytes + 16 * first;
    for (size_t i = 0; i < n; ++i, in += 16) {
        const uint8_t *x = first + i ? in - 2 : in;
        uint32_t column = cusi_load16(x), row = cusi_load16(x + 2);
        uint32_t seconds = cusi_load32(in + 4), nanoseconds = cusi_load32(in + 8);
        if (m->big_endian) {
            column = __builtin_bswap16((uint16_t)column);
            row = __builtin_bswap16((uint16_t)row);
            seconds = __builtin_bswap32(seconds);
            nanoseconds = __builtin_bswap32(nanoseconds);
        }
        out.x[i] = (uint16_t)column;
        out.y[i] = (uint16_t)row;
        out.t[i] = toMicroseconds((int32_t)seconds, nanoseconds);
        out.p[i] = in[12];
    }
}

static void deliverMono(const Message *m, size_t first, size_t n, CusiEvents out) {
    const uint8_t *in = m->bytes + 8 * first;
    for (size_t i = 0; i < n; ++i, in += 8) {
        const uint32_t place = cusi_load32(in + 4);
        out.t[i] = (int64_t)((m->base + cusi_load32(in)) / 1000);
        out.x[i] = (uint16_t)place;
        out.y[i] = (uint16_t)(place >> 16 & 0x7fff);
        out.p[i] = (uint8_t)(place >> 31);
    }
}

/* The counter of microseconds has 31 bits; a step back within a message is a wrap. */
static void deliverLibcaer(Message *m, size_t first, size_t n, CusiEvents out) {
    const uint8_t *in = m->bytes + 8 * first;
    for (size_t i = 0; i < n; ++i, in += 8) {
        const uint32_t word = cusi_load32(in), low = cusi_load32(in + 4);
        if (low < m->last_low)
            m->base += ((uint64_t)1 << 31) * 1000;
        m->last_low = low;
        out.t[i] = (int64_t)((m->base + (uint64_t)low * 1000) / 1000);
        out.x[i] = (uint16_t)(word >> 17);
        out.y[i] = (uint16_t)(word >> 2 & 0x7fff);
        out.p[i] = (uint8_t)(word >> 1 & 1);
    }
}

/* Creates the decoder. It delivers bad events too: seeking counts them, and reader.c checks what is read. */
cusStatus eventio_createEvt3(const cusEventReader *reader, PacketReader *p) {
    cusEventDecoderOptions options = cusEventDecoderDefaults();
    options.format = CUS_EVENTS_EVT3;
    options.bad_events = reader->options.bad_events;
    options.unchecked = 1;
    CUS_TRY(cusEventDecoderCreate(&p->decoder, &options));
    return cusEventDecoderGetState(p->decoder, &p->place.evt3);
}

static void addCounts(cusEventCounts *sum, cusEventCounts *counted, const cusEventCounts *counts) {
    sum->triggers_rising += counts->triggers_rising - counted->triggers_rising;
    sum->triggers_falling += counts->triggers_falling - counted->triggers_falling;
    sum->untimed += counts->untimed - counted->untimed;
    sum->bad_words += counts->bad_words - counted->bad_words;
    *counted = *counts;
}

/* Adds the place in the file; the decoder's error has the place within the topic's words. */
cusStatus eventio_describeEvt3(const PacketReader *p, cusStatus status) {
    const char *colon = strchr(cusLastError(), ':');
    return cusi_fail(status, "cusEventReaderRead: EVT3 in a packet before byte %llu of the file%s",
                     (unsigned long long)p->place.offset, colon ? colon : "");
}

static cusStatus deliverEvt3(cusEventReader *reader, PacketReader *p, size_t n, CusiEvents out, size_t *count) {
    Message *m = &p->message;
    const cusEventBuffers buffers = {.x = out.x, .y = out.y, .p = out.p, .t = out.t, .capacity = n};
    cusEventDecoded done;
    const cusStatus status = cusEventDecoderRun(p->decoder, m->bytes, m->size, &buffers, &done, NULL);
    addCounts(&reader->counts, &p->counted, &done.counts);
    *count = (size_t)done.count;
    m->bytes += done.used;
    m->size -= (size_t)done.used;
    if (status != CUS_OK && status != CUS_ERROR_CAPACITY) {
        p->lost = 1; /* the decoder may look past the last event; it reports the damage again */
        return *count == n ? CUS_OK : eventio_describeEvt3(p, status);
    }
    return cusEventDecoderGetState(p->decoder, &p->place.evt3);
}

int eventio_isMessageDone(const PacketReader *p) {
    const Message *m = &p->message;
    return m->layout == LAYOUT_EVT3 ? !m->size && !p->place.evt3.vector : m->next == m->count;
}

cusStatus eventio_deliverMessage(cusEventReader *reader, PacketReader *p, size_t n, CusiEvents out, size_t *count) {
    Message *m = &p->message;
    if (m->layout == LAYOUT_EVT3)
        return deliverEvt3(reader, p, n, out, count);
    const size_t left = m->count - m->next, first = m->next;
    n = n < left ? n : left;
    if (m->layout == LAYOUT_AEDAT4)
        deliverAedat4(m->bytes + 16 * first, n, out);
    else if (m->layout == LAYOUT_ROS)
        deliverRos(m->bytes + 13 * first, n, out);
    else if (m->layout == LAYOUT_CDR)
        deliverCdr(m, first, n, out);
    else if (m->layout == LAYOUT_MONO)
        deliverMono(m, first, n, out);
    else
        deliverLibcaer(m, first, n, out);
    m->next += n;
    *count = n;
    return CUS_OK;
}
