"""Writes the files of this folder with the libraries that own the formats.

    python3 -m venv v && v/bin/pip install numpy==2.4.6 safetensors==0.8.0
    v/bin/python tests/data/io/make.py
"""
import os

import numpy as np
from safetensors.numpy import save_file

here = os.path.dirname(os.path.abspath(__file__))
x = (np.arange(6, dtype=np.float32) * 0.5).reshape(2, 3)


def path(name):
    return os.path.join(here, name)


save_file(
    {
        "w": x,
        "n": np.array(-5, dtype=np.int64),
        "empty": np.zeros((0, 4), np.float16),
        "i16": np.arange(3, dtype=np.int16),
        "flag": np.array([True, False]),
    },
    path("reference.safetensors"),
    metadata={"made by": "safetensors"},
)
np.save(path("v1.npy"), x)
for version in (2, 3):
    with open(path(f"v{version}.npy"), "wb") as f:
        np.lib.format.write_array(f, np.arange(4, dtype=np.int64) - 2, version=(version, 0))
np.save(path("fortran.npy"), np.asfortranarray(x))
np.save(path("big_endian.npy"), x.astype(">f4"))
np.savez(path("stored.npz"), x=x, n=np.array(7, dtype=np.int32), flag=np.array([True, False, True]))
np.savez_compressed(
    path("deflated.npz"),
    x=np.zeros((64, 64), np.float32) + np.arange(64, dtype=np.float32),
    n=np.array(7, dtype=np.int32),
)
