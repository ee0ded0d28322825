"""The C library as ctypes sees it: structs, functions, errors, jobs.

Structs are read from the library's own headers, include/stet; a test compares them with a C compiler's.
Every call releases the GIL while the library works.
"""

from __future__ import annotations

import ctypes
import logging
import os
import queue
import re
import threading
import _thread
import weakref
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int,
                    c_int32, c_int64, c_size_t, c_ubyte, c_uint32, c_uint64, c_void_p)
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Tuple

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
point_fn = CFUNCTYPE(None, c_void_p, c_void_p)

_SCALARS = {"size_t": c_size_t, "double": c_double, "float": c_float, "int": c_int, "bool": c_bool, "char": c_char,
            "uint64_t": c_uint64, "int64_t": c_int64, "uint32_t": c_uint32, "int32_t": c_int32,
            "unsigned char": c_ubyte}
_FUNCTIONS = {"stet_victim_fn": victim_fn, "stet_verify_failed": failed_fn,
              "stet_attack_args.each": line_fn, "stet_certify_args.line": line_fn,
              "stet_sweep_args.each": point_fn}


class _Headers:
    """The structs of the headers that came with the library, so that the two always agree."""

    def __init__(self) -> None:
        here = os.path.dirname(os.path.abspath(__file__))
        places = [os.path.join(here, "include"), os.path.join(here, "..", "..", "include")]
        folder = next((p for p in places if os.path.isdir(os.path.join(p, "stet"))), None)
        if folder is None:
            raise ImportError("stet: the headers of its C library are missing")
        text = ""
        for name in sorted(os.listdir(os.path.join(folder, "stet"))):
            with open(os.path.join(folder, "stet", name), encoding="utf-8") as f:
                text += re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
        self.bodies = dict(re.findall(r"typedef struct (stet_\w+) \{(.*?)\n\} \1;", text, re.S))
        self.enums = set(re.findall(r"typedef enum (stet_\w+)", text))
        self.constants: Dict[str, int] = {}
        for body in re.findall(r"enum \w*\s*\{([^#}]*)\}", text):
            value = -1
            for name, given in re.findall(r"(STET_\w+)(?:\s*=\s*(\d+))?", body):
                value = int(given) if given else value + 1
                self.constants[name] = value
        self.made: Dict[str, Any] = {}

    def struct(self, name: str) -> Any:
        if name not in self.made:
            fields = [f for decl in self.bodies[name].split(";") for f in self._fields(name, " ".join(decl.split()))]
            self.made[name] = type(name, (Structure,), {"_fields_": fields})
        return self.made[name]

    def _fields(self, owner: str, decl: str) -> Iterator[Tuple[str, Any]]:
        """Of one declaration: "const char *from, *to"."""
        function = re.search(r"\(\*(\w+)\)\(", decl)
        if function:
            yield function[1], _FUNCTIONS.get(f"{owner}.{function[1]}", c_void_p)
        elif decl:
            base, names = re.match(r"(?:struct )?(unsigned char|\w+) ?(.*)", decl.replace("const ", "")).groups()  # type: ignore
            for declarator in names.split(","):
                name, length = re.search(r"(\w+)(?:\[(\w+)\])?$", declarator).groups()  # type: ignore
                kind = self._type(base, declarator.count("*"))
                yield name, kind if length is None else kind * int(self.constants.get(length, length))

    def _type(self, base: str, stars: int) -> Any:
        if base in _FUNCTIONS:
            return _FUNCTIONS[base]
        if base == "char" and stars:
            return c_char_p if stars == 1 else POINTER(c_char_p)
        kind = _SCALARS.get(base) or (c_int if base in self.enums else None)
        if kind is None and base in self.bodies and stars < 2:
            kind = self.struct(base)
        if stars == 0:
            return kind
        return c_void_p if kind is None or stars > 1 else POINTER(kind)


_headers = _Headers()
[Str, Tokens, Sets, Opt, DataOptions, Corpus, Vectors, EmbedOptions, TrainArgs, TrainResult, AttackArgs,
           AttackResult, CertifyHow, CertifyArgs, CertifyResult, VerifyOptions, VerifyResult, ReportArgs, SweepNumber,
           SweepPoint, SweepArgs, SweepResult] = [
    _headers.struct("stet_" + name) for name in (
        "str", "tokens", "sets", "opt", "data_options", "corpus", "vectors", "embed_options", "train_args",
        "train_result", "attack_args", "attack_result", "certify_how", "certify_args", "certify_result",
        "verify_options", "verify_result", "report_args", "sweep_number", "sweep_point", "sweep_args",
        "sweep_result")]
SWEEP_MEASURES = _headers.constants["STET_SWEEP_MEASURES"]

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
    "stet_verify_against": [_s, _s, _p, POINTER(Sets), POINTER(VerifyOptions), POINTER(VerifyResult)],
    "stet_sweep": [POINTER(SweepArgs), POINTER(SweepResult)],
    "stet_block_cut": [_p, _n, c_double, _out, _out],
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
    "stet_tokens_deinit": (None, [POINTER(Tokens)]),
    "stet_subst_builder_free": (None, [_p]), "stet_counter_free": (None, [_p]),
    "stet_vocab_free": (None, [_p]), "stet_vectors_deinit": (None, [POINTER(Vectors)]),
    "stet_wordnet_free": (None, [_p]), "stet_tagger_free": (None, [_p]),
    "stet_corpus_deinit": (None, [POINTER(Corpus)]),
    "stet_certify_result_deinit": (None, [POINTER(CertifyResult)]),
    "stet_sweep_result_deinit": (None, [POINTER(SweepResult)]),
    "stet_sweep_numbers": (POINTER(SweepNumber), []),
    "stet_frontier": (_n, [_p, _p, _n, _p]),
    "stet_attacks": (_n, []), "stet_attack_name": (_s, [_n]),
    "stet_defenses": (_n, []), "stet_defense_name": (_s, [_n]),
}
for _kind in (DataOptions, EmbedOptions, TrainArgs, AttackArgs, CertifyHow, CertifyArgs, VerifyOptions, ReportArgs,
              SweepArgs):
    _OTHERS[_kind.__name__ + "_init"] = (None, [POINTER(_kind), _n])


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
    getattr(lib, kind.__name__ + "_init")(byref(a), ctypes.sizeof(a))
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


class _Call:
    """Something that the caller's thread does for the work."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function, self._done = function, threading.Event()
        self._result: Any = None
        self._error: Optional[BaseException] = None

    def make(self) -> None:
        try:
            self._result = self._function()
        except BaseException as e:
            self._error = e
        self._done.set()

    def refuse(self) -> None:
        self._error = Interrupted("interrupted")
        self._done.set()

    def wait(self) -> Any:
        self._done.wait()
        if self._error:
            raise self._error
        return self._result


class Job:
    """Work on a thread of its own, so that Ctrl-C reaches Python while the library works.

    `work(job)` makes the calls. What it raises is raised by run(); stop() ends it early. Between start()
    and stop() the caller's thread takes the mail: what the work posts, and functions that it wants called
    over there.
    """

    def __init__(self, work: Callable[["Job"], Any], progress: Optional[Callable] = None, threads: int = 0) -> None:
        self._job = c_void_p()
        self._work = work
        self._mail: "queue.Queue[Any]" = queue.Queue(1024)  # None: the work has ended
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
        self._mail.put(None)

    def post(self, item: Any) -> None:
        """By the work: mail() gives it."""
        self._mail.put(item)

    def on_caller(self, function: Callable[[], Any]) -> Any:
        """By the work: what the function returns, called on the caller's thread. PyTorch, for one, computes on all cores
        only in the thread that it was loaded in."""
        call = _Call(function)
        self._mail.put(call)
        return call.wait()

    def mail(self) -> Iterator[Any]:
        """Whatever was posted, until the work ends."""
        for item in iter(self._next, None):
            if isinstance(item, _Call):
                item.make()
            else:
                yield item

    def _next(self) -> Any:
        while True:
            try:
                return self._mail.get(timeout=0.5)
            except queue.Empty:
                pass  # where another thread caught the signal of a Ctrl-C, Python looks at it now

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
            while not (self._ended.is_set() and self._mail.empty()):  # nobody may wait for room or for an answer
                try:
                    item = self._mail.get(timeout=0.05)
                except queue.Empty:
                    continue
                if isinstance(item, _Call):
                    item.refuse()
        if self._job:
            lib.stet_job_free(self._job)
        self._job, self._started = c_void_p(), False

    def run(self) -> Any:
        """All of it: what work() returns, or what it raised."""
        try:
            self.start()
            for _ in self.mail():
                pass
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
