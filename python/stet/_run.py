"""Attack and certify texts, all at once or as a stream."""

from __future__ import annotations

from ctypes import POINTER, byref, c_char_p, c_void_p, cast
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Union, overload

from . import _c
from ._c import lib
from ._data import Labels, PathLike, SynonymsLike, dataset, label_numbers, synonyms_of, tokenizer_number
from ._model import Model
from ._results import Attacked, AttackSummary, Certified, CertifySummary, Results, summary_of
from ._victim import Victim

_TEXTS_AT_ONCE = 32
Progress = Callable[[str, int, int, str], None]


class _Plan(NamedTuple):
    """A run that is ready: `start(take, job)` makes the call, with `take(line)` for every text."""

    start: Callable[[Callable[[bytes], None], _c.Job], Any]
    record: Callable[[bytes, int], Any]  # of a line and its number
    progress: Optional[Progress]
    threads: int


def _all(plan: _Plan) -> Results:
    lines: List[bytes] = []
    summary = _c.Job(lambda job: plan.start(lines.append, job), plan.progress, plan.threads).run()
    return Results([plan.record(line, i) for i, line in enumerate(lines)], summary)


def _stream(plan: _Plan) -> Iterator[Any]:
    job = _c.Job(lambda job: plan.start(job.post, job), plan.progress, plan.threads)
    try:
        job.start()
        for i, line in enumerate(job.mail()):
            yield plan.record(line, i)
        job.outcome()
    finally:
        job.stop()


# ---- attack -----------------------------------------------------------------------------------


def _victim_data(victim: Victim, texts: Sequence[str], labels: Optional[Labels],
                 classes: Optional[Sequence[str]]) -> Any:
    probe = victim.ask(texts if labels is None else texts[:1])
    names = [str(c) for c in classes or victim.classes or range(probe.shape[1])]
    if len(names) != probe.shape[1]:
        raise _c.UsageError(f"{len(names)} names of classes, but the victim gives {probe.shape[1]} probabilities")
    numbers = probe.argmax(axis=1) if labels is None else label_numbers(labels, names)
    return dataset(texts, numbers, names)


def _attack_plan(victim: Any, texts: Sequence[str], labels: Optional[Labels], synonyms: SynonymsLike,
                 attack: str, profile: str, seed: int, stop: Optional[PathLike], tagger: Optional[PathLike],
                 time_limit: float, log: Optional[PathLike], tokenizer: str, classes: Optional[Sequence[str]],
                 encode: Optional[Callable], batch: int, name: Optional[str], progress: Optional[Progress],
                 settings: Dict[str, Any]) -> _Plan:
    a = _c.args_of(_c.AttackArgs)
    sets = synonyms_of(synonyms)
    other = None if isinstance(victim, Model) else Victim(victim, encode)
    if other is None:
        a.model = victim._handle.p
        a.prover = cast(lib.stet_certify_prover, c_void_p)
        data = victim._dataset(texts, labels)
    elif len(texts) == 0:
        raise _c.UsageError("there are no texts")
    else:
        data = _victim_data(other, texts, labels, classes)
        a.victim_name = _c.encode(name or other.name)
        a.tokenizer = tokenizer_number(tokenizer)
        if batch < 1:
            raise _c.UsageError(f"batch {batch}: expected at least one text")
        a.victim_batch = batch
    tags = None
    if tagger is not None:
        tags = (_c.Handle(lib.stet_tagger_free, lib.stet_tagger_builtin) if tagger == "builtin" else
                _c.Handle(lib.stet_tagger_free, lib.stet_tagger_load, _c.path(tagger)))
        a.tagger = tags.p
    how = _c.settings(settings)
    a.data, a.sets = data.p, cast(byref(sets._sets), POINTER(_c.Sets))
    a.attack, a.profile, a.seed, a.time_limit = _c.encode(attack), _c.encode(profile), seed, time_limit
    a.settings, a.stop, a.log = cast(how, POINTER(c_char_p)), _c.path(stop), _c.path(log)
    keep = (victim, sets, data, tags, how)

    def start(take: Callable[[bytes], None], job: _c.Job) -> AttackSummary:
        out = _c.AttackResult()
        a.each = _c.line_fn(lambda _user, line: take(line))
        if other is not None:
            a.victim = other.callback(job)
        lib.stet_attack_run(byref(a), byref(out))
        assert keep
        return summary_of(AttackSummary, out)

    # Many texts at once ask a victim of Python together; the library's work beside it is small.
    return _Plan(start, lambda line, i: Attacked(line, texts[i]), progress, 0 if other is None else _TEXTS_AT_ONCE)


@overload
def attack(victim: Any, texts: str, labels: Union[int, str, None] = None, *, synonyms: SynonymsLike,
           **how: Any) -> Attacked: ...
@overload
def attack(victim: Any, texts: Sequence[str], labels: Optional[Labels] = None, *, synonyms: SynonymsLike,
           **how: Any) -> Results[Attacked]: ...
def attack(victim: Any, texts: Any, labels: Any = None, *, synonyms: SynonymsLike, **how: Any) -> Any:
    """Swap words for their substitutes until the classifier changes its mind.

    victim: a stet model, or any classifier: a function of a list of texts, an object with
        predict_proba() (a scikit-learn pipeline), a Hugging Face text-classification pipeline, or a
        PyTorch module with `encode`. It gives a row of probabilities, or logits, for each text.
    texts: one string, or several.
    labels: the classes to be left, as numbers or names; None: the victim's own answers.
    synonyms: a file, "builtin", a dictionary or a stet.Synonyms.

    Further arguments: attack ("pwws", "ga", "pso", "textfooler", "greedy", ...), profile
    ("openattack", "textattack", "gbm-paper", "original"), seed, stop (words that stay: a file or
    "builtin"), tagger ("builtin" or a file), time_limit (seconds for a text), log (a journal: what
    is in it is not attacked again), progress (called as progress(what, done, total, note)). For
    victims that are not stet models: encode (makes of a list of texts what a PyTorch module takes),
    batch (texts in one call at most; the questions of many texts under attack are asked together),
    classes (names), tokenizer ("word", "keras"), name (in the log). Everything else is a setting of
    the attack, such as max_change=0.1.

    Returns an Attacked for one text, Results with a `summary` for several.

    >>> stet.attack(lambda texts: my_model(texts), texts, labels, synonyms="words.subst").summary.aua
    """
    if isinstance(texts, str):
        return _all(_plan_of_attack(victim, [texts], None if labels is None else [labels], synonyms, **how))[0]
    return _all(_plan_of_attack(victim, texts, labels, synonyms, **how))


def iter_attack(victim: Any, texts: Sequence[str], labels: Optional[Labels] = None, *, synonyms: SynonymsLike,
                **how: Any) -> Iterator[Attacked]:
    """The same as attack(), text by text as they finish, in their order."""
    return _stream(_plan_of_attack(victim, texts, labels, synonyms, **how))


def _plan_of_attack(victim: Any, texts: Sequence[str], labels: Optional[Labels], synonyms: SynonymsLike, *,
                    attack: str = "pwws", profile: str = "openattack", seed: int = 1,
                    stop: Optional[PathLike] = None, tagger: Optional[PathLike] = None, time_limit: float = 0,
                    log: Optional[PathLike] = None, tokenizer: str = "word",
                    classes: Optional[Sequence[str]] = None, encode: Optional[Callable] = None, batch: int = 64,
                    name: Optional[str] = None, progress: Optional[Progress] = None,
                    **settings: Any) -> _Plan:
    return _attack_plan(victim, list(texts), labels, synonyms, attack, profile, seed, stop, tagger, time_limit,
                        log, tokenizer, classes, encode, batch, name, progress, settings)


# ---- certify ----------------------------------------------------------------------------------


def _how(method: str, budget: Optional[int], largest: bool, complete: bool, time_limit: float,
         refine: int) -> _c.CertifyHow:
    if budget is not None and budget < 1:
        raise _c.UsageError(f"budget {budget}: expected at least one word, or None for any number")
    return _c.CertifyHow(_c.encode(method), _c.ANY if budget is None else budget, largest, complete,
                         time_limit, refine)


def _certify_plan(model: Model, texts: Sequence[str], labels: Optional[Labels], synonyms: SynonymsLike, *,
                  method: str = "auto", budget: Optional[int] = None, largest: bool = False,
                  complete: bool = False, time_limit: float = 10, refine: int = 30, harm: bool = False,
                  file: Optional[PathLike] = None, progress: Optional[Progress] = None) -> _Plan:
    a = _c.args_of(_c.CertifyArgs)
    sets, data = synonyms_of(synonyms), model._dataset(texts, labels)
    a.model, a.data, a.sets = model._handle.p, data.p, cast(byref(sets._sets), POINTER(_c.Sets))
    a.how, a.harm = _how(method, budget, largest, complete, time_limit, refine), harm
    a.file, a.model_name = _c.path(file), _c.path(model.path or "model")
    keep = (model, sets, data)

    def start(take: Callable[[bytes], None], _job: _c.Job) -> CertifySummary:
        out = _c.CertifyResult()
        a.line = _c.line_fn(lambda _user, line: take(line))
        lib.stet_certify_run(byref(a), byref(out))
        assert keep
        try:
            return summary_of(CertifySummary, out)
        finally:
            lib.stet_certify_result_deinit(byref(out))

    return _Plan(start, lambda line, i: Certified(line, texts[i], model.classes), progress, 0)


def _certify_one(model: Model, text: str, label: Any, synonyms: SynonymsLike, *, method: str = "auto",
                 budget: Optional[int] = None, largest: bool = True, complete: bool = True,
                 time_limit: float = 10, refine: int = 30) -> Certified:
    sets, data, out = synonyms_of(synonyms), _c.encode(text), c_void_p()
    how = _how(method, budget, largest, complete, time_limit, refine)
    number = -1 if label is None else int(label_numbers([label], model.classes)[0])

    def work() -> Certified:
        lib.stet_text_certify(model._handle, byref(sets._sets), data, number, byref(how), byref(out))
        try:
            line = cast(out, POINTER(c_char_p))[0]  # the first field of every result: json
            return Certified(line, text, model.classes, None if number < 0 else number)
        finally:
            lib.stet_result_free(out)

    return _c.run(work)


@overload
def certify(model: Model, texts: str, labels: Union[int, str, None] = None, *, synonyms: SynonymsLike,
            **how: Any) -> Certified: ...
@overload
def certify(model: Model, texts: Sequence[str], labels: Optional[Labels] = None, *, synonyms: SynonymsLike,
            **how: Any) -> Results[Certified]: ...
def certify(model: Model, texts: Any, labels: Any = None, *, synonyms: SynonymsLike, **how: Any) -> Any:
    """Prove that no combination of substitutes changes the model's answer.

    labels: the classes that ought to stand; None: the model's own answers.
    synonyms: a file, "builtin", a dictionary or a stet.Synonyms.

    Further arguments: method ("auto": from cheap to expensive), budget (words that may change at
    once; None: any number), largest (where that fails, find the largest budget that can be proved),
    complete (look for a counter-example, then split until one or the other is found), time_limit
    (seconds for a text with `complete`), refine; and for several texts harm (find the worst
    substitutes too), file (certificates for stet.verify; a run that was stopped goes on from there),
    progress. One text is looked at thoroughly: largest and complete are on unless you say no.

    Returns a Certified for one text, Results with a `summary` for several.

    >>> stet.certify(model, "a fine film", synonyms="words.subst").verdict
    """
    if isinstance(texts, str):
        return _certify_one(model, texts, labels, synonyms, **how)
    return _all(_certify_plan(model, list(texts), labels, synonyms, **how))


def iter_certify(model: Model, texts: Sequence[str], labels: Optional[Labels] = None, *, synonyms: SynonymsLike,
                 **how: Any) -> Iterator[Certified]:
    """The same as certify(), text by text as they finish, in their order."""
    return _stream(_certify_plan(model, list(texts), labels, synonyms, **how))
