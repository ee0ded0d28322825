"""Labelled texts and substitution sets."""

from __future__ import annotations

import functools
import os
import weakref
from ctypes import addressof, byref, c_int, c_size_t, c_void_p, string_at
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _c
from ._c import lib

PathLike = Union[str, "os.PathLike[str]"]
Labels = Union[Sequence[int], Sequence[str], np.ndarray]


class Data(NamedTuple):
    """Texts with their labels: numbers of `classes`, or -1 for none."""

    texts: List[str]
    labels: np.ndarray
    classes: List[str]


def take(d: Any) -> Data:
    """All that a data set of the library holds."""
    n = lib.stet_dataset_size(d)
    strs = (lib.stet_dataset_text(d, i) for i in range(n))
    return Data([s.data.decode("utf-8") for s in strs],
                np.array([lib.stet_dataset_label(d, i) for i in range(n)], np.int64),
                [lib.stet_dataset_class_name(d, c).decode() for c in range(lib.stet_dataset_classes(d))])


def read(path: PathLike, *, label: Optional[str] = None, text: Optional[str] = None,
         skip_bad: bool = False, unlabelled: bool = False) -> Data:
    """Read a TSV, CSV, JSON lines, fastText or aclImdb data set, plain or compressed.

    `label` and `text` name columns where they are not the usual ones.

    >>> texts, labels, classes = stet.read("test.tsv")
    """
    how = _c.args_of(_c.DataOptions)
    how.label = None if label is None else _c.encode(label)
    how.text = None if text is None else _c.encode(text)
    how.skip_bad, how.unlabelled = skip_bad, unlabelled
    return take(_c.Handle(lib.stet_dataset_free, lib.stet_dataset_load, _c.path(path), byref(how)))


def demo_data(n: int = 1000, seed: int = 1) -> Data:
    """Film reviews from a grammar, to try things on; their substitution sets are "builtin"."""
    return take(_c.Handle(lib.stet_dataset_free, lib.stet_builtin_corpus, n, seed))


def label_numbers(labels: Any, classes: Sequence[str]) -> np.ndarray:
    """Numbers of classes, of labels given as numbers or as names."""
    a = np.asarray(labels)
    if a.dtype.kind in "iu":
        out = a.astype(np.int64)
    else:
        number = {name: i for i, name in enumerate(classes)}
        unknown = [x for x in a.tolist() if x not in number]
        if unknown:
            raise _c.UsageError(f"label {unknown[0]!r} is none of the classes {', '.join(classes)}")
        out = np.array([number[x] for x in a.tolist()], np.int64)
    if out.ndim != 1:
        raise _c.UsageError("expected one label for each text")
    return out


def dataset(texts: Sequence[str], labels: Any, classes: Sequence[str]) -> _c.Handle:
    """Texts with numbers of classes as the library holds them."""
    if len(texts) != len(labels):
        raise _c.UsageError(f"{len(texts)} texts but {len(labels)} labels")
    data = [_c.encode(t) for t in texts]
    strs = (_c.Str * max(1, len(data)))(*[_c.Str(d, len(d)) for d in data])
    numbers = (c_int * max(1, len(data)))(*[int(x) for x in labels])
    return _c.Handle(lib.stet_dataset_free, lib.stet_dataset_new, strs, numbers, len(data),
                     _c.strings(classes), len(classes))


# ---- substitution sets ------------------------------------------------------------------------


class Synonyms:
    """Which words may stand in for which.

    >>> stet.Synonyms("words.subst")                      # a file, or "builtin"
    >>> stet.Synonyms({"film": ["movie", "picture"]})     # a dictionary
    >>> stet.Synonyms.wordnet(texts)                      # WordNet's, for the words of these texts
    """

    def __init__(self, source: Union[PathLike, Mapping[str, Sequence[str]]]) -> None:
        self.path: Optional[str] = None
        self._sets = _c.Sets()
        if isinstance(source, Mapping):
            self._build(source)
        else:
            self.path = os.fspath(source)
            lib.stet_sets_load(_c.path(source), byref(self._sets))
        self._own()

    def _own(self) -> None:
        # The copy outlives self; the library's objects never move.
        copy = _c.Sets(self._sets.words, self._sets.texts)
        weakref.finalize(self, lambda: lib.stet_sets_free(byref(copy))).atexit = False

    def _build(self, source: Mapping[str, Sequence[str]]) -> None:
        b = _c.Handle(lib.stet_subst_builder_free, lib.stet_subst_builder_new)
        for word, others in source.items():
            if isinstance(others, str):
                raise TypeError(f"substitutes of {word!r}: expected a list of words")
            others = list(others)
            lib.stet_subst_add_list(b, _c.encode(word), _c.strings(others), len(others))
        self._finish(b)

    def _finish(self, builder: _c.Handle) -> None:
        out = _c.c_void_p()
        lib.stet_subst_build(builder, byref(out))
        self._sets.words = out

    @classmethod
    def wordnet(cls, texts: Sequence[str], top: int = 8, tokenizer: str = "word") -> "Synonyms":
        """WordNet's synonyms for the words of the texts: one part of speech, at most `top` for
        each, function words stay; what `stet synonyms build --data` makes."""
        kind = tokenizer_number(tokenizer)
        data = dataset(texts, [-1] * len(texts), [])
        counter = _c.Handle(lib.stet_counter_free, lib.stet_counter_new)
        lib.stet_counter_add_dataset(counter, data, kind)
        words = _c.Handle(lib.stet_vocab_free, lib.stet_vocab_build, counter, 1, 0)
        net = _c.Handle(lib.stet_wordnet_free, lib.stet_wordnet_open, None)
        tagger = _c.Handle(lib.stet_tagger_free, lib.stet_tagger_builtin)
        b = _c.Handle(lib.stet_subst_builder_free, lib.stet_subst_builder_new)
        lib.stet_subst_add_wordnet(b, net, words, WN_TEXTATTACK)
        lib.stet_subst_keep_vocab(b, words)
        lib.stet_subst_keep_same_pos(b, tagger)
        lib.stet_subst_keep_top(b, top)
        lib.stet_subst_drop_stop_words(b, b"builtin")
        self = cls.__new__(cls)
        self.path, self._sets = None, _c.Sets()
        self._finish(b)
        self._own()
        return self

    def __getitem__(self, word: str) -> List[str]:
        """The substitutes of a word; none is an empty list."""
        if not self._sets.words:
            raise TypeError("these sets are of texts, not of words")
        key, n = _c.encode(word), c_size_t()
        i = lib.stet_subst_word_id(self._sets.words, key, len(key))
        if i == 2**32 - 1:
            return []
        ids = lib.stet_subst_of(self._sets.words, i, byref(n))
        return [lib.stet_subst_word(self._sets.words, ids[k]).decode() for k in range(n.value)]

    def __iter__(self) -> Iterator[str]:
        """Every word that takes part in a pair."""
        return (lib.stet_subst_word(self._sets.words, i).decode() for i in range(len(self)))

    def __len__(self) -> int:
        return lib.stet_subst_words(self._sets.words) if self._sets.words else 0

    def save(self, path: PathLike) -> None:
        """Write the sets, for --synonyms of the command line too."""
        if not self._sets.words:
            raise TypeError("these sets are of texts, not of words")
        lib.stet_subst_save(self._sets.words, _c.path(path))

    def __reduce__(self) -> Any:
        """For pickle and copy: sets of words as they are, sets of texts by their file."""
        return (Synonyms, ({w: self[w] for w in self} if self._sets.words else self.path,))

    def __repr__(self) -> str:
        pairs = lib.stet_subst_pairs(self._sets.words) if self._sets.words else 0
        return f"<stet.Synonyms: {len(self)} words, {pairs} pairs>"


WN_TEXTATTACK = 1
SynonymsLike = Union[Synonyms, PathLike, Mapping[str, Sequence[str]]]


def synonyms_of(s: SynonymsLike) -> Synonyms:
    return s if isinstance(s, Synonyms) else Synonyms(s)


@functools.lru_cache(None)
def tokenizer_number(name: str) -> int:
    out = c_int()
    lib.stet_tokenizer_parse(_c.encode(name), byref(out))
    return out.value


def tokenize(text: str, tokenizer: str = "word") -> List[str]:
    """The words of a text as models read them; for classifiers of one's own that are to be imported.

    >>> stet.tokenize("Don't miss it!")
    ['do', "n't", 'miss', 'it', '!']
    """
    data, tokens = _c.encode(text), _c.Tokens()
    try:
        lib.stet_tokenize(tokenizer_number(tokenizer), data, len(data), byref(tokens))
        if tokens.n == 0:
            return []
        all_words = c_void_p.from_address(addressof(tokens) + _c.Tokens.words.offset)  # NUL after each
        return string_at(all_words.value, tokens.words_n).decode("utf-8").split("\0")[:tokens.n]
    finally:
        lib.stet_tokens_deinit(byref(tokens))
