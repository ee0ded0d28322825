"""Train a model; check certificates; write a report."""

from __future__ import annotations

import os
import tempfile
from ctypes import POINTER, byref, c_bool, c_char_p, c_size_t, c_uint64, c_void_p, cast, string_at
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _c
from ._c import lib
from ._data import Labels, PathLike, Synonyms, SynonymsLike, dataset, synonyms_of, tokenizer_number
from ._model import Model

# Options of `stet train` that the struct calls otherwise.
_FIELDS = {"lr": "rate", "state_lr": "state_rate", "weight_decay": "decay", "tune_vectors": "vector_rate",
           "score_lr": "score_rate"}
_SCHEDULES = ["constant", "cosine", "step", "linear", "own"]
_TAKEN = {"out", "resume", "device", "data", "format", "valid", "valid_fraction", "vectors", "n_vectors",
          "synonyms", "model", "model_settings", "defense_settings", "size"}


@dataclass(frozen=True)
class TrainSummary:
    """Numbers of a training run; accuracy and losses are of the best epoch."""

    epochs: int
    best_epoch: int
    steps: int
    n_train: int
    n_valid: int
    n_words: int
    valid_accuracy: float
    valid_loss: float
    train_loss: float
    seconds: float


def _kinds() -> Dict[str, int]:
    return {lib.stet_model_kind_name(i).decode(): i for i in range(lib.stet_model_kinds())}


def _names(opts: Any) -> List[str]:
    out, i = [], 0
    while opts and opts[i].type != 0:
        if opts[i].name:
            out.append(opts[i].name.decode())
        i += 1
    return out


def _recipe(kind: str, name: str) -> Dict[str, Any]:
    """["--filters", "256", "--word-scores"] as {"filters": "256", "word_scores": True}."""
    args = lib.stet_model_kind_recipe(_kinds()[kind], _c.encode(name))
    if not args:
        raise _c.UsageError(f"recipe {name!r}: a model of kind {kind!r} has no such recipe")
    out: Dict[str, Any] = {}
    key, i = "", 0
    while args[i]:
        word = args[i].decode()
        if word.startswith("--"):
            key = word[2:].replace("-", "_")
            out[key] = True
        else:
            out[key] = word
        i += 1
    return out


def _value(kind: Any, value: Any) -> Any:
    if kind is c_char_p:
        return _c.encode(value)
    if kind is c_bool:
        return bool(value)
    return int(value) if kind in (c_size_t, c_uint64) else float(value)


def _set(a: Any, kind: str, settings: Dict[str, Any]) -> Tuple[Any, Any]:
    """Settings by their names on the command line: of training, of the kind of model, of defences."""
    types = dict(a._fields_)
    own = _names(lib.stet_model_kind_options(_kinds()[kind]))
    of_model: Dict[str, Any] = {}
    of_defense: Dict[str, Any] = {}
    for name, value in settings.items():
        field = _FIELDS.get(name, name)
        if name == "schedule":
            if value not in _SCHEDULES:
                raise _c.UsageError(f"schedule {value!r}: expected one of {', '.join(_SCHEDULES)}")
            a.schedule = _SCHEDULES.index(value)
        elif name == "tokenizer":
            a.tokenizer = tokenizer_number(value)
        elif field in types and field not in _TAKEN:
            setattr(a, field, _value(types[field], value))
        elif name.replace("_", "-") in own:
            of_model[name] = value
        else:
            of_defense[name] = value  # the library says so where there is none of that name
    m, d = _c.settings(of_model), _c.settings(of_defense)
    a.model_settings, a.defense_settings = cast(m, POINTER(c_char_p)), cast(d, POINTER(c_char_p))
    return m, d


def _class_names(labels: Labels) -> Tuple[List[int], List[str]]:
    """Classes in the order in which the library sorts them: numbers by value, names by bytes."""
    values = np.asarray(labels).tolist()
    if all(isinstance(v, int) for v in values):
        names = sorted(set(values))
    else:
        values = [str(v) for v in values]
        names = sorted(set(values), key=lambda v: v.encode("utf-8"))
    number = {v: i for i, v in enumerate(names)}
    return [number[v] for v in values], [str(v) for v in names]


def _embed(data: _c.Handle, how: Dict[str, Any], tokenizer: int, path: str) -> str:
    a, t = _c.args_of(_c.EmbedOptions), _c.Vectors()
    for name, value in how.items():
        setattr(a, name, value)
    vocab = c_void_p()
    lib.stet_embed_train(data, tokenizer, byref(a), byref(vocab), byref(t))
    try:
        lib.stet_vectors_save_text(byref(t), vocab, path.encode())
    finally:
        lib.stet_vocab_free(vocab)
        lib.stet_vectors_deinit(byref(t))
    return path


def _data_file(data: Any, labels: Optional[Labels], path: str) -> Union[PathLike, str]:
    if isinstance(data, (str, os.PathLike)):
        if labels is not None:
            raise _c.UsageError("a file of data has its own labels")
        return data
    if labels is None:
        raise _c.UsageError("training needs labels")
    numbers, names = _class_names(labels)
    lib.stet_dataset_save(dataset(list(data), numbers, names), path.encode())
    return path


def train(data: Union[PathLike, Sequence[str]], labels: Optional[Labels] = None, *,
          out: Optional[PathLike] = None, vectors: Union[PathLike, Sequence[PathLike], None] = None,
          synonyms: Optional[SynonymsLike] = None, model: str = "cnn", recipe: Optional[str] = None,
          valid: Union[PathLike, float] = 0.1, resume: bool = False, device: Optional[str] = None,
          embed: Optional[Dict[str, Any]] = None, progress: Optional[Callable] = None,
          **settings: Any) -> Model:
    """Train a classifier.

    data, labels: texts and their classes, as numbers or names; or the path of a data set.
    out: the run folder; None: the model is kept in memory only (model.save() writes it).
    vectors: files of word vectors; None: they are trained on the texts, as `embed` says
        (dim, window, epochs, min_count, seed, rate).
    synonyms: substitution sets; their words join the vocabulary, and defences use them.
    model: "cnn", "bilstm", "s4", "s4cnn" or "sum".
    recipe: "robust": the settings that prove most texts.
    valid: a file, or the share of the texts that is held out.

    Every other option of `stet train` has its name with `_` for `-`: defense, epochs, batch, lr,
    filters, hidden, smooth, seed, ... Returns the model; `model.training` has the numbers.

    >>> model = stet.train(texts, labels, synonyms="words.subst", recipe="robust")
    """
    if model not in _kinds():
        raise _c.UsageError(f"model {model!r}: expected one of {', '.join(_kinds())}")
    with tempfile.TemporaryDirectory(prefix="stet-") as tmp:
        a, result = _c.args_of(_c.TrainArgs), _c.TrainResult()
        keep: List[Any] = [_set(a, model, {**(_recipe(model, recipe) if recipe else {}), **settings})]
        source = _data_file(data, labels, os.path.join(tmp, "data.jsonl"))
        run = os.fspath(out) if out is not None else os.path.join(tmp, "run")
        a.model, a.data, a.out, a.resume = _c.encode(model), _c.path(source), _c.path(run), resume
        a.device = None if device is None else _c.encode(device)
        if isinstance(valid, (int, float)):
            a.valid_fraction = valid
        else:
            a.valid = _c.path(valid)
        if synonyms is not None:
            a.synonyms = _c.path(_set_file(synonyms, os.path.join(tmp, "words.subst")))

        def work() -> None:
            files = vectors
            if files is None:
                how = _c.args_of(_c.DataOptions)
                texts = _c.Handle(lib.stet_dataset_free, lib.stet_dataset_load, _c.path(source), byref(how))
                files = _embed(texts, embed or {}, a.tokenizer, os.path.join(tmp, "vectors.txt"))
            paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
            keep.append(_c.strings([os.fsencode(p) for p in paths]))
            a.vectors, a.n_vectors = cast(keep[-1], POINTER(c_char_p)), len(paths)
            lib.stet_train(byref(a), byref(result))

        _c.run(work, progress)
        trained = Model(run)
        if out is None:
            trained.path = None
        trained.training = TrainSummary(**{f: getattr(result, f) for f in TrainSummary.__dataclass_fields__})
        return trained


def _set_file(synonyms: SynonymsLike, path: str) -> str:
    s = synonyms_of(synonyms)
    if s.path is not None:
        return s.path
    s.save(path)
    return path


# ---- verify and report ------------------------------------------------------------------------


@dataclass(frozen=True)
class Verified:
    """What checking a file of certificates found."""

    texts: int
    failed: int  # lines that do not hold
    claims: int  # bounds derived anew that stand
    certified: int  # verdicts that stand
    broken: int
    wrong: int
    undecided: int
    seconds: float
    likely: int  # statements of a statistical file that follow from its counts of votes
    confidence: float  # of those; 0: the file is one of proofs
    failures: List[Tuple[int, str]]  # line and reason, for each that failed

    def __bool__(self) -> bool:
        """Everything holds."""
        return self.failed == 0


def verify(file: PathLike, model: Union[PathLike, Model], texts: Optional[Sequence[str]] = None,
           labels: Optional[Labels] = None, *, synonyms: Optional[SynonymsLike] = None, exact: bool = False) -> Verified:
    """Check certificates (certify(..., file=...)) with code that shares nothing with the certifier.

    texts, labels, synonyms: what the certificates should be about, as certify() got it. Words, labels and
        substitutes must be theirs; without texts only the sets as a whole are compared.

    >>> assert stet.verify("cert.jsonl", "runs/robust", texts, labels, synonyms="words.subst")
    """
    folder = model.path if isinstance(model, Model) else model
    if folder is None:
        raise _c.UsageError("the model is in no folder: save it, and verify with that")
    if labels is not None and texts is None:
        raise _c.UsageError("labels without texts")
    known = model if isinstance(model, Model) else Model(os.fspath(model)) if texts is not None else None
    data = known._dataset(texts, labels) if known is not None and texts is not None else None
    sets = None if synonyms is None else synonyms_of(synonyms)
    how, out = _c.args_of(_c.VerifyOptions), _c.VerifyResult()
    failures: List[Tuple[int, str]] = []
    how.failed = _c.failed_fn(lambda _user, line, why: failures.append((line, why.decode("utf-8", "replace"))))
    how.exact = exact
    _c.run(lambda: lib.stet_verify_against(_c.path(file), _c.path(folder), data, None if sets is None else
                                           byref(sets._sets), byref(how), byref(out)))
    return Verified(**{f: getattr(out, f) for f in Verified.__dataclass_fields__ if f != "failures"}, failures=failures)


def report(runs: Union[PathLike, Sequence[PathLike]], path: Optional[PathLike] = None, *,
           title: Optional[str] = None, format: Optional[str] = None) -> Optional[str]:
    """One page about run folders: what was measured, how they were trained, what was flipped.

    format: "html", "markdown" or "json"; None: told by the name, else HTML. Without a path the page
    is returned as a string.
    """
    folders = [runs] if isinstance(runs, (str, os.PathLike)) else list(runs)
    formats = ["html", "markdown", "json"]
    end = os.path.splitext(os.fspath(path))[1] if path is not None else ""
    form = format or {".md": "markdown", ".json": "json"}.get(end, "html")
    if form not in formats:
        raise _c.UsageError(f"format {form!r}: expected one of {', '.join(formats)}")
    a, dirs = _c.args_of(_c.ReportArgs), _c.strings([os.fsencode(f) for f in folders])
    a.dirs, a.n_dirs, a.format = cast(dirs, POINTER(c_char_p)), len(folders), formats.index(form)
    a.title = None if title is None else _c.encode(title)
    if path is not None:
        lib.stet_report_write(byref(a), _c.path(path))
        return None
    page = c_void_p()
    lib.stet_report(byref(a), byref(page))
    try:
        return string_at(page).decode("utf-8")
    finally:
        lib.stet_free(page)
