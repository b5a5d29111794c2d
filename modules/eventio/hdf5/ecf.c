/* ECF chunks as rows of Metavision's type or as columns; ecf.h describes the format. */
#include "ecf.h"
#include "eventio/hdf5/codec.h"

enum { ROW = 16, X = 0, Y = 2, P = 4, T = 8 }; /* an event as HDF5 has it: x, y, p 16 bits, t 64 bits */

int eventio_ecfDecode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size) {
    static const uint64_t no_time = UINT64_MAX;
    if (in_size < CUSI_ECF_HEADER || out_size % ROW)
        return 0;
    const size_t count = cusi_ecfNumber(in, 4) >> 2, rows = out_size / ROW;
    if (count > rows)
        return 0;
    if (out_size) /* out may be NULL otherwise */
        memset(out, 0, out_size);
    for (size_t i = count; i < rows; ++i) /* not events; their time shows if one is read */
        memcpy(out + i * ROW + T, &no_time, 8);
    if (!out_size) /* the chunk has no events */
        return 1;
    const CusiEcfOut to = {out + X, out + Y, out + P, out + T, ROW, ROW, ROW, 1};
    return cusi_ecfDecode(in, in_size, &to);
}

int eventio_ecfDecodeColumns(const uint8_t *in, size_t in_size, size_t n, uint8_t *x, uint8_t *y, uint8_t *p, uint8_t *t) {
    const CusiEcfOut to = {x, y, p, t, 2, 1, 8, 0};
    return in_size >= CUSI_ECF_HEADER && cusi_ecfNumber(in, 4) >> 2 == n && cusi_ecfDecode(in, in_size, &to);
}
