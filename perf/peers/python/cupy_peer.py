"""The work in CuPy: whole arrays, no custom kernels."""
import math

import numpy as np
from numpy_reference import STACK, THRESHOLD, heat_table, mdes_starts


class Cupy:
    name = "cupy"

    def __init__(self):
        import cupy
        import cupyx
        import cupyx.scipy.signal
        self.np, self.x = cupy, cupyx
        self.l2 = cupy.cuda.Device().attributes["L2CacheSize"]
        self.starts = self.put(mdes_starts(STACK))
        self.heat = self.put(heat_table())

    def put(self, array):
        return self.np.asarray(array)

    def get(self, array):
        return self.np.asnumpy(array)

    def event(self):
        return self.np.cuda.Event()

    def elapsed(self, start, stop):
        stop.synchronize()
        return self.np.cuda.get_elapsed_time(start, stop)

    def integral(self, src):
        return src.cumsum(0, dtype=np.int32).cumsum(1, dtype=np.int32)

    def squares(self, src):
        wide = src.astype(np.float64)
        return (wide * wide).cumsum(0).cumsum(1)

    def template(self, templ, _rows, _cols):
        mean = templ.astype(np.float64).mean()
        turned = (templ - mean).astype(np.float32)[::-1, ::-1]
        return turned, mean, (templ.astype(np.float64) ** 2).sum(), templ.shape

    def window_sums(self, values, h, w):
        table = self.np.pad(values, ((1, 0), (1, 0))).cumsum(0).cumsum(1)
        return table[h:, w:] - table[:-h, w:] - table[h:, :-w] + table[:-h, :-w]

    def match(self, frame, prepared):
        turned, mean, squares, (h, w) = prepared
        corr = self.x.scipy.signal.fftconvolve(frame.astype(np.float32), turned, mode="valid")
        wide = frame.astype(np.float64)
        scores = self.window_sums(wide * wide, h, w) - 2 * (corr + mean * self.window_sums(wide, h, w)) + squares
        return scores.argmin()

    def heatmap(self, prev, cur):
        return self.heat[self.np.abs(cur.astype(np.int16) - prev.astype(np.int16)).sum(2)]

    def encode(self, ref, cur):
        difference = (cur.astype(np.int16) - ref.astype(np.int16)).ravel()
        positions = self.np.flatnonzero(self.np.abs(difference) > THRESHOLD)
        ref.ravel()[positions] = cur.ravel()[positions]
        return positions, difference[positions].astype(np.uint8)

    def keys(self, x, y, p, stack, shape):
        n = self.np.arange(x.size) // stack
        return ((n * shape[0] + y) * shape[1] + x) * 2 + (p == 0)

    def counted(self, counts):
        return self.np.minimum(counts, 255).astype(np.uint8)

    def histogram_add_at(self, x, y, p, stack, shape):
        counts = self.np.zeros(math.ceil(x.size / stack) * shape[0] * shape[1] * 2, np.uint32)
        self.np.add.at(counts, self.keys(x, y, p, stack, shape), np.uint32(1))
        return self.counted(counts)

    def histogram_bincount(self, x, y, p, stack, shape):
        size = math.ceil(x.size / stack) * shape[0] * shape[1] * 2
        return self.counted(self.np.bincount(self.keys(x, y, p, stack, shape), minlength=size))

    histograms = {"add.at": histogram_add_at, "bincount": histogram_bincount}

    def mdes_tencode(self, x, y, p, t, shape):
        np_, n = self.np, x.size
        last = np_.full(shape[0] * shape[1], -1, np.int32)
        np_.maximum.at(last, y.astype(np.int32) * shape[1] + x, np_.arange(n, dtype=np.int32))
        seen, at = last >= 0, np_.maximum(last, 0)
        polarity = p[at] != 0
        starts = self.starts if n == STACK else self.put(mdes_starts(n))
        value = np_.where(polarity, np.uint8(255), np.uint8(0))
        mdes = np_.where(seen[:, None] & (last[:, None] >= starts), value[:, None], np.uint8(128))
        age = 255 * (t[-1] - t[at]) // np_.maximum(t[-1] - t[0], 1)
        tencode = np_.stack([255 - value, age.astype(np.uint8), value], 1) * seen[:, None]
        return mdes.reshape(*shape, 10), tencode.reshape(*shape, 3)

    def voxels(self, x, y, p, t, bins, shape):
        np_ = self.np
        time = (bins - 1) * (t - t[0]) / np_.maximum(t[-1] - t[0], 1)
        first = np_.floor(time)
        share, sign = (time - first).astype(np.float32), np_.where(p != 0, np.float32(1), np.float32(-1))
        size = shape[0] * shape[1]
        key = first.astype(np.int64) * size + y.astype(np.int64) * shape[1] + x
        grid = np_.zeros((bins + 1) * size, np.float32)
        np_.add.at(grid, key, sign * (1 - share))
        np_.add.at(grid, key + size, sign * share)
        return grid[:bins * size].reshape(bins, *shape)

    contour = None  # written the same way as in PyTorch it is slower, since CuPy's pads copy
