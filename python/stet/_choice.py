"""Choosing settings without looking at the test texts."""

from __future__ import annotations

from ctypes import byref, c_void_p
from typing import List, Sequence, Tuple

import numpy as np

from . import _c
from ._c import lib
from ._data import Data, dataset, take


def block(data: Data, number: int = 1, share: float = 0.1) -> Tuple[Data, Data]:
    """A block of the data to be held out, and the rest to train on.

    Of every class a stretch of the given share, in the order of the data: block 1 is the last one, 2
    the one before. Neighbours, who are often about the same thing, are together on one side.

    >>> held_out, rest = stet.block(stet.read("train.tsv"), 1)
    """
    if number < 1:
        raise _c.UsageError(f"block {number}: they are numbered from 1")
    whole = dataset(data.texts, data.labels, data.classes)
    out = [c_void_p(), c_void_p()]
    lib.stet_block_cut(whole, number - 1, share, byref(out[0]), byref(out[1]))
    try:
        return take(out[0]), take(out[1])
    finally:
        for part in out:
            lib.stet_dataset_free(part)


def frontier(clean: Sequence[float], certified: Sequence[float]) -> List[int]:
    """Which settings no other beats in both clean and certified accuracy, by rising clean accuracy.

    >>> [settings[i] for i in stet.frontier(clean, certified)]
    """
    x, y = np.ascontiguousarray(clean, np.float64), np.ascontiguousarray(certified, np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise _c.UsageError("expected as many clean as certified accuracies")
    chosen = np.empty(len(x), np.uintp)
    n = lib.stet_frontier(x.ctypes.data, y.ctypes.data, len(x), chosen.ctypes.data)
    return chosen[:n].tolist()
