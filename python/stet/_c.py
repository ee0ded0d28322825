"""The C library as ctypes sees it: structs, functions, errors, jobs.

Structs are those of include/stet, field by field; tests/test_abi.py holds them against the headers.
Every call releases the GIL while the library works.
"""

from __future__ import annotations

import ctypes
import logging
import os
import _thread
import threading
import weakref
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char_p, c_double, c_float, c_int,
                    c_int32, c_size_t, c_uint32, c_uint64, c_ubyte, c_void_p)
from typing import Any, Callable, Iterable, Optional

ANY = c_size_t(-1).value

# ---- errors -----------------------------------------------------------------------------------


class Error(RuntimeError):
    """What the library could not do, in its own words."""


class UsageError(Error, ValueError):
    """Arguments that do not fit together."""


class FileError(Error, OSError):
    """A file that cannot be read or written."""


class FormatError(Error, ValueError):
    """A file or a value that is malformed."""


class DeviceError(Error):
    """The accelerator failed."""


class NotSupported(Error, NotImplementedError):
    """This model, device or build cannot do that."""


class Interrupted(Error):
    """The job was stopped."""


class OutOfMemory(Error, MemoryError):
    """There is no memory for it."""


OK, EUSAGE, EIO, EFORMAT, ENOMEM, EDEVICE, ENOTSUP, EINTR = range(8)
_ERRORS = {EUSAGE: UsageError, EIO: FileError, EFORMAT: FormatError, ENOMEM: OutOfMemory,
           EDEVICE: DeviceError, ENOTSUP: NotSupported, EINTR: Interrupted}


def _check(status: int) -> None:
    if status != OK:
        message = lib.stet_last_error() or lib.stet_status_text(status)
        raise _ERRORS.get(status, Error)(message.decode("utf-8", "replace"))


# ---- structs ----------------------------------------------------------------------------------

log_fn = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
progress_fn = CFUNCTYPE(None, c_void_p, c_char_p, c_uint64, c_uint64, c_char_p)
line_fn = CFUNCTYPE(None, c_void_p, c_char_p)
victim_fn = CFUNCTYPE(c_int, c_void_p, POINTER(c_char_p), c_size_t, c_size_t, POINTER(c_double))
failed_fn = CFUNCTYPE(None, c_void_p, c_size_t, c_char_p)


class Str(Structure):
    _fields_ = [("data", c_char_p), ("len", c_size_t)]


class Token(Structure):
    _fields_ = [("start", c_uint32), ("end", c_uint32), ("word", c_uint32), ("len", c_uint32)]


class Tokens(Structure):
    _fields_ = [("v", POINTER(Token)), ("n", c_size_t), ("cap", c_size_t), ("words", c_void_p),
                ("words_n", c_size_t), ("words_cap", c_size_t)]


class Sets(Structure):
    _fields_ = [("words", c_void_p), ("texts", c_void_p)]


class Opt(Structure):
    _fields_ = [("name", c_char_p), ("letter", ctypes.c_char), ("type", c_int), ("offset", c_size_t),
                ("def_", c_char_p), ("min", c_double), ("max", c_double), ("arg", c_char_p),
                ("help", c_char_p)]


class DataOptions(Structure):
    _fields_ = [("size", c_size_t), ("format", c_int), ("label", c_char_p), ("text", c_char_p),
                ("header", c_int), ("skip_bad", c_bool), ("unlabelled", c_bool), ("like", c_void_p)]


class Corpus(Structure):
    _fields_ = [("n_texts", c_size_t), ("n_tokens", c_size_t), ("n_classes", c_size_t),
                ("ids", POINTER(c_uint32)), ("start", POINTER(c_uint64)), ("label", POINTER(c_int32))]


class Vectors(Structure):
    _fields_ = [("n", c_size_t), ("dim", c_size_t), ("data", POINTER(c_float)),
                ("known", POINTER(c_ubyte)), ("n_known", c_size_t)]


class EmbedOptions(Structure):
    _fields_ = [("size", c_size_t), ("dim", c_size_t), ("window", c_size_t), ("epochs", c_size_t),
                ("min_count", c_uint64), ("seed", c_uint64), ("rate", c_double), ("x_max", c_double),
                ("alpha", c_double)]


class TrainArgs(Structure):
    _fields_ = [("size", c_size_t), ("out", c_char_p), ("resume", c_bool), ("device", c_char_p),
                ("data", c_char_p), ("format", DataOptions), ("valid", c_char_p),
                ("valid_fraction", c_double), ("vectors", POINTER(c_char_p)), ("n_vectors", c_size_t),
                ("synonyms", c_char_p), ("smooth", c_double), ("smooth_frequency", c_double),
                ("tokenizer", c_int), ("max_len", c_size_t), ("max_words", c_size_t),
                ("min_count", c_uint64), ("model", c_char_p), ("model_settings", POINTER(c_char_p)),
                ("defense", c_char_p), ("defense_settings", POINTER(c_char_p)), ("batch", c_size_t),
                ("epochs", c_size_t), ("patience", c_size_t), ("length_pool", c_size_t),
                ("rate", c_double), ("state_rate", c_double), ("decay", c_double),
                ("dropout", c_double), ("clip", c_double), ("word_scores", c_bool),
                ("score_rate", c_double), ("score_decay", c_double), ("vector_rate", c_double),
                ("schedule", c_int), ("seed", c_uint64), ("save_every", c_size_t)]


class TrainResult(Structure):
    _fields_ = [(n, c_size_t) for n in ("epochs", "best_epoch", "steps", "n_train", "n_valid", "n_words")] + [
        (n, c_double) for n in ("valid_accuracy", "valid_loss", "train_loss", "seconds",
                                "seconds_per_epoch", "smooth_residual")]


class AttackArgs(Structure):
    _fields_ = [("size", c_size_t), ("model", c_void_p), ("command", c_char_p), ("timeout", c_double),
                ("tokenizer", c_int), ("data", c_void_p), ("index", POINTER(c_size_t)),
                ("n_index", c_size_t), ("sets", POINTER(Sets)), ("stop", c_char_p),
                ("tagger", c_void_p), ("similarity", c_void_p), ("similarity_user", c_void_p),
                ("attack", c_char_p), ("profile", c_char_p), ("settings", POINTER(c_char_p)),
                ("seed", c_uint64), ("time_limit", c_double), ("log", c_char_p), ("html", c_char_p),
                ("each", line_fn), ("each_user", c_void_p), ("victim", victim_fn),
                ("victim_user", c_void_p), ("victim_name", c_char_p), ("shard", c_size_t),
                ("shards", c_size_t)]


class AttackResult(Structure):
    _fields_ = [(n, c_size_t) for n in ("n", "correct", "succeeded", "errors", "unconfirmed", "decided",
                                        "timeouts", "resumed")] + [
        (n, c_double) for n in ("clean", "aua", "success_rate", "queries_mean", "evaluations_mean",
                                "queries_success_mean", "queries_failure_mean", "changed_mean",
                                "candidates_mean", "attackable_mean", "seconds")]


class CertifyHow(Structure):
    _fields_ = [("method", c_char_p), ("budget", c_size_t), ("largest", c_bool), ("complete", c_bool),
                ("time_limit", c_double), ("refine", c_size_t)]


class CertifyArgs(Structure):
    _fields_ = [("size", c_size_t), ("model", c_void_p), ("data", c_void_p),
                ("index", POINTER(c_size_t)), ("n_index", c_size_t), ("sets", POINTER(Sets)),
                ("how", CertifyHow), ("harm", c_bool), ("file", c_char_p), ("export_dir", c_char_p),
                ("model_name", c_char_p), ("each", c_void_p), ("each_user", c_void_p),
                ("line", line_fn), ("line_user", c_void_p), ("shard", c_size_t), ("shards", c_size_t)]


class CertifyResult(Structure):
    _fields_ = [("n", c_size_t), ("correct", c_size_t), ("verdicts", c_size_t * 5),
                ("clean", c_double), ("certified", c_double), ("broken", c_double),
                ("undecided", c_double), ("likely", c_double), ("margin_lo", c_double),
                ("margin_hi", c_double), ("margin_bins", c_size_t * 20), ("slack_mean", c_double),
                ("candidates_mean", c_double), ("attackable_mean", c_double), ("seconds", c_double),
                ("budget_at_least", POINTER(c_size_t)), ("n_budget", c_size_t),
                ("index", POINTER(c_size_t)), ("verdict", POINTER(c_int)), ("method", c_char_p),
                ("unbounded", c_size_t), ("reason", c_char_p), ("resumed", c_size_t)]


class VerifyOptions(Structure):
    _fields_ = [("size", c_size_t), ("match", c_void_p), ("failed", failed_fn), ("user", c_void_p),
                ("data_sha256", c_char_p), ("sets_sha256", c_char_p), ("exact", c_bool)]


class VerifyResult(Structure):
    _fields_ = [(n, c_size_t) for n in ("budget", "texts", "failed", "certified", "broken", "wrong",
                                        "undecided", "claims", "exact")] + [
        ("least", c_double), ("seconds", c_double)]


class ReportArgs(Structure):
    _fields_ = [("size", c_size_t), ("dirs", POINTER(c_char_p)), ("n_dirs", c_size_t),
                ("title", c_char_p), ("format", c_int), ("no_bounds", c_bool), ("sheets", c_void_p),
                ("n_sheets", c_size_t)]


# What a Python name is called in C; the tests use it.
C_NAMES = {Str: "stet_str", Token: "stet_token", Tokens: "stet_tokens", Sets: "stet_sets", Opt: "stet_opt", DataOptions: "stet_data_options",
           Corpus: "stet_corpus", Vectors: "stet_vectors", EmbedOptions: "stet_embed_options",
           TrainArgs: "stet_train_args", TrainResult: "stet_train_result",
           AttackArgs: "stet_attack_args", AttackResult: "stet_attack_result",
           CertifyHow: "stet_certify_how", CertifyArgs: "stet_certify_args",
           CertifyResult: "stet_certify_result", VerifyOptions: "stet_verify_options",
           VerifyResult: "stet_verify_result", ReportArgs: "stet_report_args"}

# ---- functions --------------------------------------------------------------------------------

_p, _s, _n, _out = c_void_p, c_char_p, c_size_t, POINTER(c_void_p)
_strings = POINTER(c_char_p)

_CALLS = {  # that return a status
    "stet_job_new": [_out],
    "stet_model_load": [_s, _out],
    "stet_model_save": [_p, _s],
    "stet_model_logits": [_p, POINTER(Corpus), _p],
    "stet_model_encode": [_p, _p, POINTER(Corpus)],
    "stet_texts_predict": [_p, _strings, _n, _p, _p],
    "stet_text_predict": [_p, _s, _out],
    "stet_text_certify": [_p, POINTER(Sets), _s, c_int, POINTER(CertifyHow), _out],
    "stet_text_explain": [_p, POINTER(Sets), _s, c_int, _out],
    "stet_dataset_load": [_s, POINTER(DataOptions), _out],
    "stet_dataset_new": [POINTER(Str), POINTER(c_int), _n, _strings, _n, _out],
    "stet_dataset_save": [_p, _s],
    "stet_builtin_corpus": [_n, c_uint64, _out],
    "stet_sets_load": [_s, POINTER(Sets)],
    "stet_subst_save": [_p, _s],
    "stet_subst_builder_new": [_out],
    "stet_subst_add_list": [_p, _s, _strings, _n],
    "stet_subst_add_wordnet": [_p, _p, _p, c_int],
    "stet_subst_keep_vocab": [_p, _p],
    "stet_subst_keep_same_pos": [_p, _p],
    "stet_subst_keep_top": [_p, _n],
    "stet_subst_drop_stop_words": [_p, _s],
    "stet_subst_build": [_p, _out],
    "stet_counter_new": [_out],
    "stet_counter_add_dataset": [_p, _p, c_int],
    "stet_vocab_build": [_p, c_uint64, _n, _out],
    "stet_wordnet_open": [_s, _out],
    "stet_tagger_builtin": [_out],
    "stet_tagger_load": [_s, _out],
    "stet_embed_train": [_p, c_int, POINTER(EmbedOptions), _out, POINTER(Vectors)],
    "stet_vectors_save_text": [POINTER(Vectors), _p, _s],
    "stet_tokenizer_parse": [_s, POINTER(c_int)],
    "stet_tokenize": [c_int, _s, _n, POINTER(Tokens)],
    "stet_train": [POINTER(TrainArgs), POINTER(TrainResult)],
    "stet_attack_run": [POINTER(AttackArgs), POINTER(AttackResult)],
    "stet_certify_run": [POINTER(CertifyArgs), POINTER(CertifyResult)],
    "stet_verify_file": [_s, _s, POINTER(VerifyOptions), POINTER(VerifyResult)],
    "stet_report": [POINTER(ReportArgs), POINTER(c_void_p)],
    "stet_report_write": [POINTER(ReportArgs), _s],
}
_OTHERS = {  # that return something else
    "stet_last_error": (_s, []), "stet_status_text": (_s, [c_int]), "stet_set_error": (None, [_s]),
    "stet_version": (_s, []), "stet_version_number": (c_int, []),
    "stet_set_logger": (None, [log_fn, _p]), "stet_set_threads": (None, [c_int]),
    "stet_threads": (c_int, []), "stet_free": (None, [_p]),
    "stet_job_free": (None, [_p]), "stet_job_use": (_p, [_p]), "stet_job_interrupt": (None, [_p]),
    "stet_job_set_logger": (None, [_p, log_fn, _p]), "stet_job_set_threads": (None, [_p, c_int]),
    "stet_job_set_progress": (None, [_p, progress_fn, _p]),
    "stet_model_free": (None, [_p]), "stet_model_kind": (_s, [_p]), "stet_model_classes": (_n, [_p]),
    "stet_model_class_name": (_s, [_p, _n]), "stet_model_max_len": (_n, [_p]),
    "stet_model_kinds": (_n, []), "stet_model_kind_name": (_s, [_n]),
    "stet_model_kind_options": (POINTER(Opt), [_n]),
    "stet_model_kind_recipe": (_strings, [_n, _s]),
    "stet_result_free": (None, [_p]),
    "stet_dataset_size": (_n, [_p]), "stet_dataset_text": (Str, [_p, _n]),
    "stet_dataset_label": (c_int, [_p, _n]), "stet_dataset_classes": (_n, [_p]),
    "stet_dataset_class_name": (_s, [_p, _n]), "stet_dataset_free": (None, [_p]),
    "stet_sets_free": (None, [POINTER(Sets)]),
    "stet_subst_words": (_n, [_p]), "stet_subst_pairs": (_n, [_p]),
    "stet_subst_word_id": (c_uint32, [_p, _s, _n]), "stet_subst_word": (_s, [_p, c_uint32]),
    "stet_subst_of": (POINTER(c_uint32), [_p, c_uint32, POINTER(c_size_t)]),
    "stet_token_word": (_s, [POINTER(Tokens), _n]), "stet_tokens_deinit": (None, [POINTER(Tokens)]),
    "stet_subst_builder_free": (None, [_p]), "stet_counter_free": (None, [_p]),
    "stet_vocab_free": (None, [_p]), "stet_vectors_deinit": (None, [POINTER(Vectors)]),
    "stet_wordnet_free": (None, [_p]), "stet_tagger_free": (None, [_p]),
    "stet_corpus_deinit": (None, [POINTER(Corpus)]),
    "stet_certify_result_deinit": (None, [POINTER(CertifyResult)]),
    "stet_attacks": (_n, []), "stet_attack_name": (_s, [_n]),
    "stet_defenses": (_n, []), "stet_defense_name": (_s, [_n]),
}
for _name, _type in [(C_NAMES[t], t) for t in (DataOptions, EmbedOptions, TrainArgs, AttackArgs,
                                               CertifyHow, CertifyArgs, VerifyOptions, ReportArgs)]:
    _OTHERS[_name + "_init"] = (None, [POINTER(_type), _n])


def _open() -> ctypes.CDLL:
    here = os.path.join(os.path.dirname(__file__), "libstet.so")
    path = os.environ.get("STET_LIBRARY") or (here if os.path.exists(here) else "libstet.so.0.1")
    try:
        found = ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"stet: cannot load its C library: {e}") from None
    for name, args in _CALLS.items():
        f = getattr(found, name)
        f.argtypes, f.restype = args, _check
    for name, (result, args) in _OTHERS.items():
        f = getattr(found, name)
        f.argtypes, f.restype = args, result
    if found.stet_version_number() // 100 != 1:
        raise ImportError(f"stet: {path} is version {found.stet_version().decode()}, expected 0.1")
    return found


lib = _open()

# ---- values -----------------------------------------------------------------------------------


def encode(text: Any) -> bytes:
    """A string for C. It may hold no NUL, which would cut it short."""
    if not isinstance(text, str):
        raise TypeError(f"expected a string, not {type(text).__name__}")
    if "\0" in text:
        raise UsageError("a text holds a NUL character")
    return text.encode("utf-8")


def path(p: Any) -> Optional[bytes]:
    return None if p is None else os.fsencode(p)


def strings(items: Iterable[Any]) -> "ctypes.Array[c_char_p]":
    """NULL at the end."""
    items = [i if isinstance(i, bytes) else encode(i) for i in items]
    return (c_char_p * (len(items) + 1))(*items, None)


def settings(pairs: dict) -> "ctypes.Array[c_char_p]":
    """{"max_change": 0.1} as "max-change=0.1"."""
    said = {True: "yes", False: "no"}
    return strings(f"{k.replace('_', '-')}={said[v] if isinstance(v, bool) else v}" for k, v in pairs.items())


def args_of(kind: Any) -> Any:
    """Arguments with their defaults."""
    a = kind()
    getattr(lib, C_NAMES[kind] + "_init")(byref(a), ctypes.sizeof(a))
    return a


class Handle:
    """A pointer that is released when nothing refers to it any more."""

    def __init__(self, release: Callable, make: Callable, *args: Any) -> None:
        out = c_void_p()
        make(*args, byref(out))
        self.p = self._as_parameter_ = out  # pass the handle itself to calls: it lives as long as they do
        weakref.finalize(self, release, c_void_p(out.value)).atexit = False


# ---- messages ---------------------------------------------------------------------------------

_log = logging.getLogger("stet")
_LEVELS = [logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG]


@log_fn
def _logger(_user: Any, level: int, message: bytes) -> None:
    _log.log(_LEVELS[level], message.decode("utf-8", "replace"))


lib.stet_set_logger(_logger, None)

# ---- jobs -------------------------------------------------------------------------------------


class Job:
    """Work on a thread of its own, so that Ctrl-C reaches Python while the library works.

    `work(job)` makes the calls. What it raises is raised by run(); stop() ends it early.
    """

    def __init__(self, work: Callable[["Job"], Any], progress: Optional[Callable] = None,
                 threads: int = 0, done: Optional[Callable[[], None]] = None) -> None:
        self._job = c_void_p()
        self._work, self._done = work, done
        self._ended, self._started = threading.Event(), False
        self.result: Any = None
        self.error: Optional[BaseException] = None
        lib.stet_job_new(byref(self._job))
        lib.stet_job_set_logger(self._job, _logger, None)
        lib.stet_job_set_threads(self._job, threads)
        if progress:
            self._progress = progress_fn(self._report(progress))
            lib.stet_job_set_progress(self._job, self._progress, None)

    def _report(self, progress: Callable) -> Callable:
        def report(_user: Any, what: bytes, done: int, total: int, note: bytes) -> None:
            try:
                progress((what or b"").decode(), done, total, (note or b"").decode())
            except BaseException as e:
                self.fail(e)
        return report

    def _main(self) -> None:
        before = lib.stet_job_use(self._job)
        try:
            self.result = self._work(self)
        except BaseException as e:
            self.error = self.error or e
        lib.stet_job_use(before)
        self._ended.set()
        if self._done:
            self._done()

    def fail(self, error: BaseException) -> None:
        """A callback raised this: end the work and let run() raise it."""
        self.error = self.error or error
        lib.stet_job_interrupt(self._job)

    def start(self) -> None:
        """From here on stop() must follow, whatever happens."""
        self._started = True
        _thread.start_new_thread(self._main, ())  # unlike Thread.start() it does not wait: no Ctrl-C gets in

    def stop(self) -> None:
        if self._started:
            lib.stet_job_interrupt(self._job)
            self._ended.wait()
        if self._job:
            lib.stet_job_free(self._job)
        self._job, self._started = c_void_p(), False

    def run(self) -> Any:
        """All of it: what work() returns, or what it raised."""
        try:
            self.start()
            self._ended.wait()
        finally:
            self.stop()
        return self.outcome()

    def outcome(self) -> Any:
        if self.error:
            raise self.error
        return self.result


def run(work: Callable[[], Any], progress: Optional[Callable] = None) -> Any:
    """Run `work()` as a job and return what it returns; Ctrl-C ends it."""
    return Job(lambda _job: work(), progress).run()
