"""A stet model in the hands of other frameworks.

>>> stet.adapters.textattack(model)      # a ModelWrapper
>>> stet.adapters.textattack_results(model, model.attack(...))   # as its AttackResult, for its loggers and metrics
>>> stet.adapters.openattack(model)      # a Classifier, OpenAttack's victim
>>> stet.adapters.Classifier(...)        # a scikit-learn estimator: fit, predict, predict_proba

None of these frameworks is needed to import this module.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Sequence

import numpy as np

from ._data import SynonymsLike
from ._model import Model
from ._results import Attacked
from ._run import attack, certify
from ._train import train


def textattack(model: Model) -> Any:
    """A textattack ModelWrapper: lists of texts in, probabilities out."""
    from textattack.models.wrappers import ModelWrapper  # type: ignore[import-not-found]

    class StetModelWrapper(ModelWrapper):  # type: ignore[misc]
        def __init__(self, model: Model) -> None:
            self.model = model

        def __call__(self, text_input_list: Sequence[str], **_: Any) -> np.ndarray:
            # Rows that miss 1 by more than 1e-6 would be taken for logits.
            prob = self.model.predict_proba(list(text_input_list)).astype(np.float64)
            return prob / prob.sum(axis=1, keepdims=True)

    return StetModelWrapper(model)


def textattack_results(model: Model, results: Iterable[Attacked]) -> List[Any]:
    """What stet.attack() found, as textattack's AttackResult: for its loggers and metrics."""
    from textattack.attack_results import (FailedAttackResult, SkippedAttackResult,  # type: ignore[import-not-found]
                                           SuccessfulAttackResult)
    from textattack.goal_function_results import ClassificationGoalFunctionResult, GoalFunctionResultStatus as Status
    from textattack.shared import AttackedText

    results = list(results)
    found = [r.adversarial or r.text for r in results]
    kinds = {"success": (SuccessfulAttackResult, Status.SUCCEEDED), "wrong": (SkippedAttackResult, Status.SKIPPED)}
    if not results:
        return []

    def state(r: Attacked, text: str, prob: np.ndarray, status: int, queries: int) -> Any:
        label = model.classes.index(r.label)
        return ClassificationGoalFunctionResult(AttackedText(text), prob, int(prob.argmax()), status,
                                                float(1 - prob[label]), queries, label)

    out = []
    for r, text, p, q in zip(results, found, model.predict_proba([r.text for r in results]), model.predict_proba(found)):
        kind, status = kinds.get(r.outcome, (FailedAttackResult, Status.SEARCHING))
        first = state(r, r.text, p, Status.SKIPPED if r.outcome == "wrong" else Status.SEARCHING, 1)
        out.append(kind(first) if kind is SkippedAttackResult else kind(first, state(r, text, q, status, r.queries)))
    return out


def openattack(model: Model) -> Any:
    """An OpenAttack Classifier, the victim of its attacks."""
    from OpenAttack import Classifier as Base  # type: ignore[import-not-found]

    class StetVictim(Base):  # type: ignore[misc]
        def get_pred(self, input_: Sequence[str]) -> np.ndarray:
            return model.predict(list(input_))

        def get_prob(self, input_: Sequence[str]) -> np.ndarray:
            return model.predict_proba(list(input_))

    return StetVictim()


try:
    from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
except ImportError:
    class ClassifierMixin:  # type: ignore[no-redef]
        """Without scikit-learn: score() alone."""

        def score(self, X: Sequence[str], y: Any) -> float:
            return float((self.predict(X) == np.asarray(y)).mean())  # type: ignore[attr-defined]

    class BaseEstimator:  # type: ignore[no-redef]
        pass


class Classifier(ClassifierMixin, BaseEstimator):
    """A scikit-learn estimator of texts: what stet.train() takes, fit to texts and labels.

    >>> Classifier(synonyms="words.subst", recipe="robust").fit(texts, labels).predict(texts)

    `settings` are further settings of stet.train, such as {"epochs": 4}. After fit() the stet model
    is `model_`; certify() and attack() take labels as fit() does.
    """

    def __init__(self, model: str = "cnn", synonyms: Optional[SynonymsLike] = None, recipe: Optional[str] = None,
                 vectors: Any = None, seed: int = 1, settings: Optional[Dict[str, Any]] = None) -> None:
        self.model, self.synonyms, self.recipe = model, synonyms, recipe
        self.vectors, self.seed, self.settings = vectors, seed, settings

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags

    def fit(self, X: Sequence[str], y: Any = None) -> "Classifier":
        """Train on texts and their labels, numbers or names."""
        texts, labels = _texts(X), _labels(y)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("the labels have only one class")
        if len(texts) != len(labels):
            raise ValueError(f"there are {len(texts)} texts and {len(labels)} labels")
        # Numbers that sort as they count: the library's classes are then in the order of classes_.
        self.model_ = train(texts, numbers.tolist(), model=self.model, synonyms=self.synonyms, recipe=self.recipe,
                            vectors=self.vectors, seed=self.seed, **(self.settings or {}))
        return self

    def _fitted(self) -> Model:
        if not hasattr(self, "model_"):
            try:
                from sklearn.exceptions import NotFittedError  # type: ignore[import-untyped]
            except ImportError:
                NotFittedError = RuntimeError
            raise NotFittedError("this Classifier is not fitted yet: call fit() first")
        return self.model_

    def predict_proba(self, X: Sequence[str]) -> np.ndarray:
        """Probabilities of the classes in the order of classes_."""
        return self._fitted().predict_proba(_texts(X))

    def predict(self, X: Sequence[str]) -> np.ndarray:
        """The labels."""
        numbers = self._fitted().predict(_texts(X))
        return self.classes_[numbers]

    def _numbers(self, y: Any) -> Optional[np.ndarray]:
        return None if y is None else np.searchsorted(self.classes_, np.asarray(y))

    def _sets(self, synonyms: Optional[SynonymsLike]) -> SynonymsLike:
        if synonyms is None and self.synonyms is None:
            raise ValueError("there are no substitution sets: say synonyms=")
        return self.synonyms if synonyms is None else synonyms  # type: ignore[return-value]

    def certify(self, X: Sequence[str], y: Any = None, *, synonyms: Optional[SynonymsLike] = None, **how: Any) -> Any:
        """stet.certify() with the substitution sets of the training, or others."""
        return certify(self._fitted(), _texts(X), self._numbers(y), synonyms=self._sets(synonyms), **how)

    def attack(self, X: Sequence[str], y: Any = None, *, synonyms: Optional[SynonymsLike] = None, **how: Any) -> Any:
        """stet.attack() with the substitution sets of the training, or others."""
        return attack(self._fitted(), _texts(X), self._numbers(y), synonyms=self._sets(synonyms), **how)


def _labels(y: Any) -> np.ndarray:
    if y is None:
        raise ValueError("Classifier requires y to be passed, but the target y is None: it learns from labelled texts")
    try:
        from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
        from sklearn.utils.validation import column_or_1d  # type: ignore[import-untyped]
    except ImportError:
        return np.asarray(y)
    check_classification_targets(y)
    return column_or_1d(y, warn=True)


def _texts(X: Any) -> List[str]:
    if isinstance(X, str):
        raise ValueError("expected a list of texts, not one string")
    return [str(x) if isinstance(x, np.str_) else x for x in X]
