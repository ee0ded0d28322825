"""Train over a grid of settings and seeds, and choose among them."""

from __future__ import annotations

import os
from ctypes import POINTER, byref, c_char_p, cast
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from . import _c
from ._c import lib
from ._data import PathLike

_LISTS = {"beta": "betas", "kappa": "kappas", "smooth": "smooths"}
Value = Union[str, int, float]


@dataclass(frozen=True)
class SweepPoint:
    """A run of the grid that came to its end. A number that was not measured is not there."""

    dir: str
    numbers: Dict[str, float]  # "valid_accuracy", "certified", ...
    error: Optional[str]  # why it failed; None: it did not
    found: bool  # it was complete before
    done: int  # points that are complete,
    n: int  # of so many


@dataclass(frozen=True)
class SweepCell:
    """One combination of settings: means over its seeds, and their sample deviations."""

    settings: Dict[str, str]
    seeds: int  # that are complete
    mean: Dict[str, float]
    spread: Dict[str, float]
    chosen: bool  # on the frontier: no other beats it


@dataclass(frozen=True)
class Sweep:
    """What a sweep measured."""

    cells: List[SweepCell]
    final: List[SweepCell]  # the chosen ones, trained on all texts and measured on `test`
    points: int
    failed: int  # points that did not come to their end; then nothing is chosen

    @property
    def frontier(self) -> List[SweepCell]:
        """The chosen cells."""
        return [c for c in self.cells if c.chosen]


def _text(value: Any) -> str:
    return os.fsdecode(value) if isinstance(value, (str, bytes, os.PathLike)) else str(value)


def _list(values: Union[Value, Iterable[Value]]) -> str:
    return _text(values) if isinstance(values, (str, int, float)) else ",".join(map(_text, values))


def _words(train: Mapping[str, Any]) -> List[str]:
    """{"lr": 0.01, "word_scores": True} as ["--lr=0.01", "--word-scores"]."""
    out = []
    for name, value in train.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            out.append(f"--{option}" if value else f"--no-{option}")
        elif value is not None:
            several = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
            out += [f"--{option}={_text(v)}" for v in (value if several else [value])]
    return out


def _numbers(values: Any) -> Dict[str, float]:
    about = lib.stet_sweep_numbers()
    return {about[m].key.decode(): values[m] for m in range(_c.SWEEP_MEASURES) if values[m] == values[m]}


def _point(p: Any) -> SweepPoint:
    p = cast(p, POINTER(_c.SweepPoint)).contents
    return SweepPoint(os.fsdecode(p.dir), _numbers(p.value), p.error.decode("utf-8", "replace") if p.error else None,
                      p.found, p.done, p.n)


def _cells(r: Any, cell: Any, n: int) -> List[SweepCell]:
    return [SweepCell({r.axis[x].decode(): c.value[x].decode() for x in range(r.n_axes)}, c.seeds, _numbers(c.mean),
                      _numbers(c.spread), c.chosen) for c in cell[:n]]


def sweep(out: PathLike, over: Mapping[str, Union[Value, Iterable[Value]]], train: Mapping[str, Any], *,
          seeds: Union[Value, Sequence[Value]] = 1, test: Optional[PathLike] = None, attack: Optional[str] = None,
          certify: bool = False, synonyms: Optional[PathLike] = None, limit: int = 0, seed: int = 1, blocks: int = 0,
          block_share: float = 0.1, jobs: int = 1, each: Optional[Callable[[SweepPoint], None]] = None,
          progress: Optional[Callable[[str, int, int, str], None]] = None) -> Sweep:
    """Train over a grid of settings, measure every model, and compare: what `stet sweep` does.

    out: a folder; every point of the grid is a run folder in it. The same call goes on where a sweep was
        stopped: what is there is not computed again.
    over: values of options of training, {"beta": [0, 1e-4], "epochs": [5, 10]}; a point for each combination.
        They name folders as they are written here: "1e-4" as a string, if that is to be the name.
    train: the other options of training, {"data": "train.tsv", "vectors": "glove.txt", "model": "cnn"}, with
        the names of `stet train` and `_` for `-`. Data and sets are files.
    seeds: a run for each.
    test: a file of texts to measure on. attack, certify: accuracy under this attack, and the certified share,
        with the substitution sets `synonyms`, on a sample of `limit` texts (0: all) that `seed` draws.
    blocks: choose settings without looking at the test texts: hold out so many blocks of the training data in
        turn, certify them, and keep the settings that no other beats in both clean and certified accuracy
        (`frontier`). With `test` these are then trained on all texts and measured there (`final`).
    jobs: points at a time; they share the threads.
    each: called with every point as soon as it is complete or has failed.

    >>> s = stet.sweep("sweeps/cnn", {"kappa": [0, 0.5, 0.9]}, {"data": "train.tsv", "vectors": "glove.txt",
    ...                "synonyms": "jia.subst"}, seeds=[1, 2, 3], blocks=2, jobs=2)
    >>> [c.settings["kappa"] for c in s.frontier]
    """
    a, r = _c.args_of(_c.SweepArgs), _c.SweepResult()
    lists = {_LISTS[k]: _list(v) for k, v in over.items() if k in _LISTS}
    others = _c.strings(f"{k.replace('_', '-')}={_list(v)}" for k, v in over.items() if k not in _LISTS)
    words = _c.strings([os.fsencode(w) for w in _words(train)])
    for name, values in lists.items():
        setattr(a, name, _c.encode(values))
    if min(limit, seed, blocks, jobs) < 0:
        raise _c.UsageError("limit, seed, blocks and jobs are numbers of at least 0")
    a.over, a.n_over = cast(others, POINTER(c_char_p)), len(others) - 1
    a.train, a.n_train = cast(words, POINTER(c_char_p)), len(words) - 1
    a.out, a.seeds, a.test, a.synonyms = _c.path(out), _c.encode(_list(seeds)), _c.path(test), _c.path(synonyms)
    a.attack, a.certify, a.limit, a.seed = None if attack is None else _c.encode(attack), certify, limit, seed
    a.blocks, a.block_share, a.jobs = blocks, block_share, jobs

    def work(job: _c.Job) -> Sweep:
        a.each = _c.point_fn(lambda _user, p: job.post(_point(p)))
        lib.stet_sweep(byref(a), byref(r))
        try:
            return Sweep(_cells(r, r.cell, r.n_cells), _cells(r, r.final, r.n_final), r.points, r.failed)
        finally:
            lib.stet_sweep_result_deinit(byref(r))

    job = _c.Job(work, progress)
    try:
        job.start()
        for point in job.mail():
            if each:
                each(point)
    finally:
        job.stop()
    return job.outcome()
