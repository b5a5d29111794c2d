#!/usr/bin/env python3
"""Makes the small HDF5 recordings beside it, as other programs store them (h5py, with the filters of hdf5plugin).
Event i of each: x (7 i) mod 640, y (11 i) mod 480, p i mod 2 (i div 3 mod 2 in DSEC), t 50 i + i mod 7 sorted, as the tests
know."""
import os
import sys

import h5py
import hdf5plugin
import numpy as np

folder = os.path.dirname(os.path.abspath(__file__))
n = 5000
i = np.arange(n)
x, y, p, t = (7 * i % 640).astype("u2"), (11 * i % 480).astype("u2"), (i % 2), 50 * i + i % 7


def store(name, group, columns, **how):
    with h5py.File(os.path.join(folder, name), "w") as f:
        g = f.create_group(group)
        for key, value in columns.items():
            g.create_dataset(key, data=value, **how)
        return name


m3ed = {"x": x, "y": y, "p": p.astype("i1"), "t": t.astype("i8")}
store("m3ed_lzf.h5", "prophesee/left", m3ed, chunks=(1000,), compression="lzf")
with h5py.File(os.path.join(folder, "m3ed_lzf.h5"), "a") as f:
    g = f.create_group("prophesee/right")
    for key, value in m3ed.items():
        # Another chunk size for each column, polarity as -1 and 1, shuffled.
        value = np.where(value > 0, 1, -1).astype("i1") if key == "p" else value
        g.create_dataset(key, data=value[:2000], chunks=(300 + 100 * ord(key) % 7,), compression="lzf", shuffle=True)
    g["calib/resolution"] = np.array([640, 480])
store("m3ed_contiguous.h5", "prophesee/right", {**m3ed, "x": x.astype(">u2"), "p": p.astype("i4")})
store("m3ed_gzip.h5", "prophesee/left", m3ed, chunks=(1000,), compression="gzip")
store("m3ed_bitshuffle.h5", "prophesee/left", {k: v[:1000] for k, v in m3ed.items()}, chunks=(1000,), **hdf5plugin.Bitshuffle())
dsec = {"x": x, "y": y, "p": (i // 3 % 2).astype("u1"), "t": t.astype("u4")}
store("dsec_blosc.h5", "events", dsec, chunks=(1000,), **hdf5plugin.Blosc(cname="zstd", clevel=5, shuffle=1))
# Blocks of 700 bytes: x and y of a chunk have three, the last of 600.
store("dsec_lz4.h5", "events", dsec, chunks=(1000,), **hdf5plugin.LZ4(nbytes=700))
store("dsec_zstd.h5", "events", dsec, chunks=(1000,), shuffle=True, **hdf5plugin.Zstd())
for name in ("dsec_blosc.h5", "dsec_lz4.h5", "dsec_zstd.h5"):
    with h5py.File(os.path.join(folder, name), "a") as f:
        f["t_offset"] = np.int64(60_000_000_000)
        f["ms_to_idx"] = np.searchsorted(t, 1000 * np.arange(t[-1] // 1000 + 1)).astype("u8")
store("other.h5", "something", {"x": x[:10]})
