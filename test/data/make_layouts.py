#!/usr/bin/env python3
"""Writes recordings (/events) in every layout of this h5py's HDF5 into a folder, each with a file NAME.raw of its x, y, p and t, one
after the other."""
import os
import sys

import h5py
import numpy as np

folder = sys.argv[1]
random = np.random.default_rng(1)
versions = [v for v in ("earliest", "v108", "v110", "v112", "v114", "v200", "latest")]
# Events, chunk, and whether the datasets can grow: no, without limit, to four times their size.
shapes = [(900, None, "no"), (900, 900, "no"), (900, 1000, "any"), (900, 7, "no"), (900, 7, "any"), (2200, 1, "any"), (100, 13, "four")]
filters = [{}, {"compression": "gzip"}, {"compression": "lzf", "shuffle": True}, {"compression": "gzip", "shuffle": True, "fletcher32": True}]


def create(group, name, values, early, **how):
    if not early:
        return group.create_dataset(name, data=values, **how)
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(how["chunks"])
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    space = h5py.h5s.create_simple(values.shape)
    dataset = h5py.h5d.create(group.id, name.encode(), h5py.h5t.py_create(values.dtype), space, dcpl=properties)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    return h5py.Dataset(dataset)


number = 0
for version in versions:
    for n, chunk, grows in shapes:
        for k, how in enumerate(filters):
            early = k == 2 and grows == "no" and chunk is not None
            if (chunk is None and how) or (k == 1 and number % 2):
                number += 1
                continue
            columns = {
                "x": random.integers(0, 640, n).astype("u2"),
                "y": random.integers(0, 480, n).astype("u2"),
                "p": random.integers(0, 2, n).astype("u1"),
                "t": np.cumsum(random.integers(0, 5, n)).astype("i8"),
            }
            options = {} if early else dict(how)
            if chunk:
                options["chunks"] = (chunk,)
            if grows != "no":
                options["maxshape"] = (None if grows == "any" else 4 * n,)
            path = os.path.join(folder, f"{number}.h5")
            try:
                file = h5py.File(path, "w", libver=(version, "latest"), track_order=bool(number % 2))
            except ValueError:  # a version that this h5py does not know
                break
            with file:
                group = file.create_group("events", track_order=number % 3 == 0)
                for i in range(number % 40):
                    group[f"link {i}"] = h5py.SoftLink("/nowhere")
                for name, values in columns.items():
                    dataset = create(group, name, values, early, **options)
                    for i in range(number % 13):
                        dataset.attrs[f"attribute {i}"] = i
            with open(path + ".raw", "wb") as raw:
                for values in columns.values():
                    raw.write(values.tobytes())
            number += 1
