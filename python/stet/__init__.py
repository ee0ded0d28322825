"""Text classifiers that keep their answer when words are swapped for synonyms, and proofs of it.

>>> import stet
>>> model = stet.load("runs/robust")
>>> model.predict("a fine film").label
>>> model.certify("a fine film", synonyms="words.subst").verdict
>>> stet.attack(any_classifier, texts, labels, synonyms="words.subst").summary.aua

docs/python.md has a page about it.
"""

from typing import TYPE_CHECKING, Any

from ._c import (DeviceError, Error, FileError, FormatError, Interrupted, NotSupported, OutOfMemory,
                 UsageError, lib as _lib)
from ._choice import block, frontier
from ._data import Data, Synonyms, demo_data, read, tokenize
from ._model import Model, Prediction, load
from ._results import Attacked, AttackSummary, Certified, CertifySummary, Explained, Results, Swap
from ._run import attack, certify, iter_attack, iter_certify
from ._sweep import Sweep, SweepCell, SweepPoint, sweep
from ._torch import from_torch
from ._train import TrainSummary, Verified, report, train, verify

if TYPE_CHECKING:
    from . import adapters

__version__: str = _lib.stet_version().decode()


def set_threads(n: int) -> None:
    """Worker threads of the library; 0: one per core. Results do not depend on it."""
    _lib.stet_set_threads(n)


def __getattr__(name: str) -> Any:
    if name != "adapters":
        raise AttributeError(f"module 'stet' has no attribute {name!r}")
    from importlib import import_module  # only now: it imports scikit-learn, which takes a second
    return import_module(".adapters", __name__)
