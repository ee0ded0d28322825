"""Any classifier of Python as the victim of an attack: batches of texts in, probabilities out."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from . import _c

Predict = Callable[[List[str]], np.ndarray]


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _is_distribution(x: np.ndarray) -> bool:
    return bool((x >= 0).all() and np.allclose(x.sum(axis=1), 1, atol=1e-3))


def _of_torch(module: Any, encode: Optional[Callable]) -> Predict:
    """A module that takes what `encode(texts)` gives, or the list of texts, and gives logits."""
    import torch

    def ask(texts: List[str]) -> np.ndarray:
        with torch.inference_mode():
            x = module(encode(texts) if encode else texts)
            x = getattr(x, "logits", x)
            return torch.softmax(x.double(), dim=1).cpu().numpy()

    return ask


def _of_hugging_face(pipe: Any) -> Tuple[Predict, List[str]]:
    """A text-classification pipeline: a list of {label, score} for every text."""
    pipe.model.eval()
    names = list(pipe.model.config.id2label.values())
    place = {name: i for i, name in enumerate(names)}

    def ask(texts: List[str]) -> np.ndarray:
        out = np.zeros((len(texts), len(names)))
        for row, scores in zip(out, pipe(texts, top_k=None, truncation=True, batch_size=32)):
            for s in scores:
                row[place[s["label"]]] = s["score"]
        return out

    return ask, names


def _kind(victim: Any) -> str:
    modules = [c.__module__.split(".")[0] for c in type(victim).__mro__]
    if hasattr(victim, "predict_proba"):
        return "sklearn"
    if "torch" in modules:
        return "torch"
    if "transformers" in modules and hasattr(victim, "tokenizer"):
        return "transformers"
    if callable(victim):
        return "callable"
    raise TypeError(f"{type(victim).__name__} is no classifier: expected a stet model, a function of a list "
                    "of texts, or an object with predict_proba()")


class Victim:
    """What an attack asks. `classes` are names, or None where nobody knows them."""

    def __init__(self, victim: Any, encode: Optional[Callable] = None) -> None:
        kind = _kind(victim)
        self.name = getattr(victim, "__qualname__", None) or type(victim).__qualname__
        self.classes: Optional[List[str]] = None
        if kind == "sklearn":
            self._ask: Predict = victim.predict_proba
            if hasattr(victim, "classes_"):
                self.classes = [str(c) for c in victim.classes_]
        elif kind == "torch":
            victim.eval()
            self._ask = _of_torch(victim, encode)
        elif kind == "transformers":
            self._ask, self.classes = _of_hugging_face(victim)
        else:
            self._ask = victim

    def ask(self, texts: Sequence[str]) -> np.ndarray:
        """Probabilities (n, classes). Rows that are no distribution are taken as logits."""
        out = np.asarray(self._ask(list(texts)), np.float64)
        if out.ndim == 1 and len(out) == len(texts):  # of the second of two classes
            out = np.stack([1 - out, out], axis=1)
        if out.ndim != 2 or len(out) != len(texts):
            raise _c.UsageError(f"the victim gave an array of shape {out.shape} for {len(texts)} texts; "
                                "expected a row of probabilities for each")
        if not np.isfinite(out).all():
            raise _c.UsageError("the victim gave a number that is not finite")
        return out if _is_distribution(out) else _softmax(out)

    def callback(self, job: _c.Job) -> Any:
        """As the library wants it. The victim is called on the thread that started the job; what it raises ends the run."""

        def answer(_user: Any, texts: Any, n: int, n_classes: int, prob: Any) -> int:
            try:
                asked = [texts[i].decode("utf-8") for i in range(n)]
                got = job.on_caller(lambda: self.ask(asked))
                if got.shape[1] != n_classes:
                    raise _c.UsageError(f"the victim gave {got.shape[1]} probabilities, expected {n_classes}")
                np.ctypeslib.as_array(prob, (n, n_classes))[:] = got
                return _c.OK
            except BaseException as e:
                job.fail(e)
                return _c.EINTR

        return _c.victim_fn(answer)
