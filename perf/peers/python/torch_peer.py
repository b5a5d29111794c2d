"""The work in PyTorch: whole arrays, no custom kernels."""
import math

import numpy as np
from numpy_reference import STACK, THRESHOLD, heat_table, mdes_starts


def good_size(n):
    """The next even size without a prime factor above 7."""
    n += n % 2
    while True:
        rest = n
        for prime in (2, 3, 5, 7):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return n
        n += 2


class Torch:
    name = "torch"

    def __init__(self):
        import torch
        import torch.nn.functional as functional
        if not torch.cuda.is_available():
            raise ImportError("no GPU for it")
        self.np, self.functional = torch, functional
        self.l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.starts = self.put(mdes_starts(STACK))
        self.heat = self.put(heat_table())

    def put(self, array):
        return self.np.from_numpy(np.ascontiguousarray(array)).cuda()

    def get(self, array):
        return array.cpu().numpy()

    def event(self):
        return self.np.cuda.Event(enable_timing=True)

    def elapsed(self, start, stop):
        stop.synchronize()
        return start.elapsed_time(stop)

    def integral(self, src):
        return src.cumsum(0, dtype=self.np.int32).cumsum(1, dtype=self.np.int32)

    def squares(self, src):
        wide = src.double()
        return (wide * wide).cumsum(0).cumsum(1)

    def template(self, templ, rows, cols):
        """Prepared once: the spectrum, at a size that cuFFT likes, and the sum of squares."""
        values, size = templ.double() - templ.double().mean(), (good_size(rows), good_size(cols))
        spectrum = self.np.fft.rfft2(values.float(), s=size).conj()
        return spectrum, size, templ.double().mean(), (templ.double() ** 2).sum(), templ.shape

    def window_sums(self, values, h, w):
        table = self.functional.pad(values, (1, 0, 1, 0)).cumsum(0).cumsum(1)
        return table[h:, w:] - table[:-h, w:] - table[h:, :-w] + table[:-h, :-w]

    def match(self, frame, prepared):
        """S2 - 2 corr + T2, the template without its mean in the transform, so that float is precise enough."""
        spectrum, size, mean, squares, (h, w) = prepared
        rows, cols = frame.shape
        values = frame.float()
        corr = self.np.fft.irfft2(self.np.fft.rfft2(values, s=size) * spectrum, s=size)[:rows - h + 1, :cols - w + 1]
        wide = frame.double()
        scores = self.window_sums(wide * wide, h, w) - 2 * (corr + mean * self.window_sums(wide, h, w)) + squares
        return scores.argmin()

    def heatmap(self, prev, cur):
        return self.heat[(cur.short() - prev.short()).abs().sum(2)]

    def encode(self, ref, cur):
        difference = (cur.short() - ref.short()).flatten()
        positions = (difference.abs() > THRESHOLD).nonzero().flatten()
        ref.flatten()[positions] = cur.flatten()[positions]
        return positions, difference[positions].to(self.np.uint8)

    def keys(self, x, y, p, stack, shape):
        """Index of each event's counter in the frames of all stacks, which follow each other; positive first."""
        n = self.np.arange(x.numel(), device="cuda") // stack
        return ((n * shape[0] + y) * shape[1] + x) * 2 + (p == 0)

    def counted(self, counts):
        return counts.clamp(max=255).to(self.np.uint8)

    def histogram_scatter_add(self, x, y, p, stack, shape):
        keys = self.keys(x, y, p, stack, shape)
        counts = self.np.zeros(math.ceil(x.numel() / stack) * shape[0] * shape[1] * 2, dtype=self.np.int32, device="cuda")
        return self.counted(counts.scatter_add_(0, keys, self.np.ones_like(keys, dtype=self.np.int32)))

    def histogram_index_put(self, x, y, p, stack, shape):
        keys = self.keys(x, y, p, stack, shape)
        counts = self.np.zeros(math.ceil(x.numel() / stack) * shape[0] * shape[1] * 2, dtype=self.np.int32, device="cuda")
        return self.counted(counts.index_put_((keys,), self.np.ones((), dtype=self.np.int32, device="cuda"), accumulate=True))

    def histogram_bincount(self, x, y, p, stack, shape):
        size = math.ceil(x.numel() / stack) * shape[0] * shape[1] * 2
        return self.counted(self.keys(x, y, p, stack, shape).bincount(minlength=size))

    histograms = {"scatter_add_": histogram_scatter_add, "index_put_": histogram_index_put, "bincount": histogram_bincount}

    def mdes_tencode(self, x, y, p, t, shape):
        """One stack: the last event of each pixel is the one with the largest index; a channel shows it if it is recent enough."""
        np_, n = self.np, x.numel()
        index = np_.arange(n, device="cuda", dtype=np_.int32)
        key = y.long() * shape[1] + x
        last = np_.full((shape[0] * shape[1],), -1, dtype=np_.int32, device="cuda")
        last.scatter_reduce_(0, key, index, "amax")
        seen, at = last >= 0, last.clamp(min=0)
        polarity = p[at] != 0
        starts = self.starts if n == STACK else self.put(mdes_starts(n))
        value = polarity.to(np_.uint8) * 255
        mdes = np_.where(seen[:, None] & (last[:, None] >= starts), value[:, None], 128)
        age = (255 * (t[-1] - t[at]) // (t[-1] - t[0]).clamp(min=1)).to(np_.uint8)
        tencode = np_.stack([255 - value, age, value], 1) * seen[:, None]
        return mdes.view(*shape, 10), tencode.view(*shape, 3)

    def voxels(self, x, y, p, t, bins, shape):
        """One stack, bin after bin as is usual in PyTorch; an extra bin receives the zero share of the last event."""
        time = (bins - 1) * (t - t[0]).double() / (t[-1] - t[0]).clamp(min=1)
        first = time.floor()
        share, sign = (time - first).float(), (p != 0).float() * 2 - 1
        size = shape[0] * shape[1]
        key = first.long() * size + y.long() * shape[1] + x
        grid = self.np.zeros((bins + 1) * size, device="cuda")
        grid.index_add_(0, key, sign * (1 - share)).index_add_(0, key + size, sign * share)
        return grid[:bins * size].view(bins, *shape)

    def contour(self, left, right, shifts, window, fills, levels=10, threshold=0.2):
        np_, functional = self.np, self.functional

        def edges(image):
            p = functional.pad(image.float()[None, None], (1, 1, 1, 1), mode="circular")[0, 0]
            ul, u, ur, l, r, dl, d, dr = (p[i:i + image.shape[0], k:k + image.shape[1]] for i, k in
                                          ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)))
            differ = lambda a, b: 2 * (a - b).abs() > threshold * (a + b)  # noqa: E731
            return (differ(ul + l + dl, ur + r + dr) | differ(ul + u + ur, dl + d + dr) | differ(ul + u + l, dr + d + r)
                    | differ(dl + d + l, ur + u + r))
        a, b = edges(left), edges(right)
        best, elevation = np_.zeros_like(a, dtype=np_.float32), np_.zeros_like(a, dtype=np_.int32)
        k = window // 2
        for s in range(shifts):
            same = (a == b.roll(-s, 1)).float()
            wide = functional.pad(same[None, None], (k, k, k, k), mode="circular")
            rows = functional.avg_pool2d(wide, (1, window), 1, divisor_override=1)
            score = functional.avg_pool2d(rows, (window, 1), 1, divisor_override=1)[0, 0] * same
            better = (score > 0) & (score >= best)
            best = np_.where(better, score, best)
            elevation = np_.where(better, s + 1, elevation)
        for _ in range(fills):
            around = (elevation.roll(1, 0) + elevation.roll(-1, 0) + elevation.roll(1, 1) + elevation.roll(-1, 1)) // 4
            elevation = np_.where(elevation > 0, elevation, around)
        least = elevation.min()
        interval = ((elevation.max() - least) // levels).clamp(min=1)
        return elevation, np_.where((elevation - least) % interval == 0, 255, 0).to(np_.uint8)
