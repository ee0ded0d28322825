"""Models: load one, ask it."""

from __future__ import annotations

import os
import tempfile
from ctypes import POINTER, byref, c_char_p, c_void_p, cast
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union, overload

import numpy as np

from . import _c
from ._c import lib
from ._data import Labels, PathLike, SynonymsLike, dataset, label_numbers, synonyms_of
from ._results import Explained

_FEW = 64  # so many texts are answered before anybody could press Ctrl-C


class Prediction(NamedTuple):
    """A model's answer to one text."""

    label: str
    number: int  # of the class
    probability: float
    probabilities: np.ndarray


class Model:
    """A text classifier. It never changes once it is loaded: threads may share it."""

    training: Any = None  #: of stet.train(): the numbers of the run (TrainSummary)

    def __init__(self, path: PathLike) -> None:
        self.path: Optional[str] = os.fspath(path)
        self._open(path)

    def _open(self, path: PathLike) -> None:
        self._handle = _c.Handle(lib.stet_model_free, lib.stet_model_load, _c.path(path))
        p = self._handle.p
        self.kind: str = lib.stet_model_kind(p).decode()
        self.classes: List[str] = [lib.stet_model_class_name(p, c).decode()
                                   for c in range(lib.stet_model_classes(p))]
        self.max_len: int = lib.stet_model_max_len(p)

    def __getstate__(self) -> Dict[str, Any]:
        """For pickle, copy and joblib: the files of the model's folder."""
        with tempfile.TemporaryDirectory(prefix="stet-") as tmp:
            self.save(tmp)
            return {"path": self.path, "training": self.training,
                    "files": {str(f.relative_to(tmp)): f.read_bytes() for f in Path(tmp).rglob("*") if f.is_file()}}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory(prefix="stet-") as tmp:
            for name, data in state["files"].items():
                file = Path(tmp) / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            self._open(tmp)
        self.path, self.training = state["path"], state["training"]

    def __repr__(self) -> str:
        return f"<stet.Model {self.kind}, classes {', '.join(self.classes)}>"

    def _dataset(self, texts: Sequence[str], labels: Optional[Labels]) -> _c.Handle:
        numbers = self.predict(texts) if labels is None else label_numbers(labels, self.classes)
        return dataset(texts, numbers, self.classes)

    def predict_proba(self, texts: Sequence[str]) -> np.ndarray:
        """Class probabilities (n, classes), batched and on all threads."""
        return self._answers(texts)[0]

    @overload
    def predict(self, texts: str) -> Prediction: ...  # type: ignore[overload-overlap]
    @overload
    def predict(self, texts: Sequence[str]) -> np.ndarray: ...
    def predict(self, texts: Any) -> Any:
        """The answer to one text, or the numbers of the classes of several.

        >>> model.predict("a fine film").label
        >>> model.predict(texts)
        """
        if not isinstance(texts, str):
            return self._answers(texts)[1]
        prob, number = self._answers([texts])
        n = int(number[0])
        return Prediction(self.classes[n], n, float(prob[0, n]), prob[0])

    __call__ = predict_proba

    def _answers(self, texts: Sequence[str]) -> Any:
        if isinstance(texts, str):
            raise TypeError("expected a list of texts, not one string")
        data = _c.strings(texts)
        n = len(data) - 1
        prob, number = np.empty((n, len(self.classes)), np.float32), np.empty(n, np.int32)

        def work() -> None:
            lib.stet_texts_predict(self._handle, data, n, prob.ctypes.data, number.ctypes.data)

        if n > 0:
            work() if n <= _FEW else _c.run(work)
        return prob, number.astype(np.int64)

    def logits(self, texts: Sequence[str]) -> np.ndarray:
        """What the softmax is taken of, (n, classes)."""
        data = dataset(texts, [0] * len(texts), self.classes)
        corpus = _c.Corpus()
        out = np.empty((len(texts), len(self.classes)), np.float32)

        def work() -> None:
            lib.stet_model_encode(self._handle, data, byref(corpus))
            lib.stet_model_logits(self._handle, byref(corpus), out.ctypes.data)

        try:
            _c.run(work)
        finally:
            lib.stet_corpus_deinit(byref(corpus))
        return out

    def attack(self, texts: Any, labels: Any = None, *, synonyms: SynonymsLike, **how: Any) -> Any:
        """stet.attack() on this model."""
        from ._run import attack
        return attack(self, texts, labels, synonyms=synonyms, **how)

    def certify(self, texts: Any, labels: Any = None, *, synonyms: SynonymsLike, **how: Any) -> Any:
        """stet.certify() on this model."""
        from ._run import certify
        return certify(self, texts, labels, synonyms=synonyms, **how)

    def explain(self, text: str, *, synonyms: Optional[SynonymsLike] = None,
                label: Union[int, str, None] = None) -> Explained:
        """Which words carry the answer: one word changed at a time."""
        sets = None if synonyms is None else synonyms_of(synonyms)
        number = -1 if label is None else int(label_numbers([label], self.classes)[0])
        out = c_void_p()
        lib.stet_text_explain(self._handle, byref(sets._sets) if sets else None, _c.encode(text), number,
                              byref(out))
        try:
            return Explained(cast(out, POINTER(c_char_p))[0], text, self.classes)
        finally:
            lib.stet_result_free(out)

    def save(self, path: PathLike) -> None:
        """Write the model folder: configuration, weights, vocabulary."""
        lib.stet_model_save(self._handle, _c.path(path))


def load(path: PathLike) -> Model:
    """Load the model of a folder that `stet train` or stet.train() wrote.

    >>> model = stet.load("runs/robust")
    """
    return Model(path)
