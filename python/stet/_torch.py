"""PyTorch classifiers as stet models."""

from __future__ import annotations

import json
import os
import struct
import tempfile
from ctypes import POINTER, byref, c_int32, c_uint32, c_uint64, cast
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _c
from ._c import lib
from ._data import PathLike
from ._model import Model

_UNKNOWN = ("<unk>", "[UNK]", "<UNK>", "UNK", "unk")
_PADDING = ("<pad>", "[PAD]", "<PAD>", "PAD", "pad")
_CLOSE = 1e-3  # logits that differ by less are the same network in another order of sums


class _Parts(NamedTuple):
    """What was found in a module, with stet's names."""

    kind: str
    settings: List[Dict[str, Any]]  # to be tried one after the other: a module does not say how it pools
    tensors: Dict[str, np.ndarray]
    embedding: Optional[np.ndarray]
    classes: int


def _array(t: Any) -> np.ndarray:
    return t.detach().cpu().numpy().astype(np.float32)


def _unsupported(why: str) -> _c.NotSupported:
    return _c.NotSupported(f"from_torch: {why}")


def _conv(conv: Any) -> np.ndarray:
    """(filters, dim, width), of a Conv1d over words or a Conv2d with kernels (width, dim)."""
    w = _array(conv.weight)
    if any(p not in (0, "valid") for p in np.ravel(conv.padding)) or set(np.ravel(conv.stride)) != {1} \
            or set(np.ravel(conv.dilation)) != {1} or conv.groups != 1:
        raise _unsupported("convolutions with padding, stride, dilation or groups are no TextCNN of stet")
    return w if w.ndim == 3 else np.ascontiguousarray(w[:, 0].transpose(0, 2, 1))


def _head(linear: Any) -> Tuple[np.ndarray, np.ndarray]:
    w = _array(linear.weight)
    b = np.zeros(len(w), np.float32) if linear.bias is None else _array(linear.bias)
    if len(w) == 1:  # one logit for the second of two classes
        w, b = np.concatenate([np.zeros_like(w), w]), np.concatenate([np.zeros_like(b), b])
    return w, b


def _parts(module: Any) -> _Parts:
    from torch import nn

    found: Dict[type, List[Any]] = {nn.Embedding: [], nn.LSTM: [], nn.Linear: [], nn.Conv1d: [], nn.Conv2d: []}
    for m in module.modules():
        for kind, of_kind in found.items():
            if isinstance(m, kind):
                of_kind.append(m)
    convs, lstms = found[nn.Conv1d] + found[nn.Conv2d], found[nn.LSTM]
    if len(found[nn.Linear]) != 1 or len(found[nn.Embedding]) > 1 or bool(convs) == (len(lstms) == 1):
        raise _unsupported("expected one embedding, convolutions side by side or one LSTM, and one linear layer; "
                           f"the module has {len(found[nn.Embedding])}, {len(convs)}, {len(lstms)} and "
                           f"{len(found[nn.Linear])}")
    tensors: Dict[str, np.ndarray] = {}
    if convs:
        weights = [_conv(c) for c in convs]
        filters = {len(w) for w in weights}
        if len(filters) != 1:
            raise _unsupported("expected as many filters of every width")
        for i, (conv, w) in enumerate(zip(convs, weights)):
            tensors[f"convs.{i}.weight"] = w
            tensors[f"convs.{i}.bias"] = np.zeros(len(w), np.float32) if conv.bias is None else _array(conv.bias)
        settings = [{"kernels": ",".join(str(w.shape[2]) for w in weights), "filters": filters.pop()}]
    else:
        lstm = lstms[0]
        if not lstm.bidirectional or lstm.num_layers != 1 or lstm.proj_size or not lstm.bias:
            raise _unsupported("expected an LSTM with one layer, both directions, biases and no projection")
        tensors = {"lstm." + name: _array(p) for name, p in lstm.named_parameters()}
        settings = [{"hidden": lstm.hidden_size, **pool} for pool in ({}, {"pool": "max"}, {"pool": "mean"})]
    tensors["fc.weight"], tensors["fc.bias"] = _head(found[nn.Linear][0])
    table = _array(found[nn.Embedding][0].weight) if found[nn.Embedding] else None
    return _Parts("cnn" if convs else "bilstm", settings, tensors, table, len(tensors["fc.bias"]))


# ---- the model folder -------------------------------------------------------------------------


def _words(vocab: Any) -> Dict[str, int]:
    for name in ("get_stoi", "stoi"):  # torchtext
        if hasattr(vocab, name):
            vocab = getattr(vocab, name)
            vocab = vocab() if callable(vocab) else vocab
    return dict(vocab) if isinstance(vocab, Mapping) else {w: i for i, w in enumerate(vocab)}


def _table(vocab: Dict[str, int], rows: np.ndarray, unk: Optional[str]) -> Tuple[List[str], np.ndarray, np.ndarray]:
    """stet's words and rows, <pad> and <unk> first, and which row of the module each of its rows is."""
    if vocab and max(vocab.values()) >= len(rows):
        raise _c.UsageError(f"from_torch: the vocabulary has number {max(vocab.values())}, but there are only "
                            f"{len(rows)} vectors")
    pad = next((w for w in _PADDING if w in vocab), None)
    unk = unk if unk is not None else next((w for w in _UNKNOWN if w in vocab), None)
    if unk is not None and unk not in vocab:
        raise _c.UsageError(f"from_torch: the vocabulary has no {unk!r}")
    words = [w for w in vocab if w not in (pad, unk)]
    zero = np.zeros((1, rows.shape[1]), np.float32)
    of = np.array([vocab[w] for w in words], np.int64)
    table = np.concatenate([zero if pad is None else rows[[vocab[pad]]], zero if unk is None else rows[[vocab[unk]]],
                            rows[of]])
    return ["<pad>", "<unk>"] + words, np.ascontiguousarray(table, np.float32), of


def _write(folder: str, config: Dict[str, Any], tensors: Dict[str, np.ndarray], words: Sequence[str]) -> None:
    header: Dict[str, Any] = {}
    at = 0
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        for t in tensors.values():
            f.write(np.ascontiguousarray(t, "<f4").tobytes())
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as f:
        f.write("".join(w + "\n" for w in words))
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)


# ---- is it the same function? -----------------------------------------------------------------


def _logits(model: Model, ids: np.ndarray) -> np.ndarray:
    """Of texts given as rows of the model's table, (n, length)."""
    n, length = ids.shape
    flat, start = np.ascontiguousarray(ids.ravel(), np.uint32), np.arange(n + 1, dtype=np.uint64) * np.uint64(length)
    label, out = np.zeros(n, np.int32), np.empty((n, len(model.classes)), np.float32)
    corpus = _c.Corpus(n, n * length, len(model.classes), cast(flat.ctypes.data, POINTER(c_uint32)),
                       cast(start.ctypes.data, POINTER(c_uint64)), cast(label.ctypes.data, POINTER(c_int32)))
    lib.stet_model_logits(model._handle, byref(corpus), out.ctypes.data)
    return out


def _difference(model: Model, of: np.ndarray, forward: Callable[[np.ndarray], Any], least: int) -> float:
    """The largest difference of logits on texts of random words, of several lengths."""
    rng, most = np.random.default_rng(1), 0.0
    for length in (least, least + 7, least + 40):
        ids = rng.integers(0, len(of), (8, length))
        want = np.asarray(forward(of[ids]), np.float64).reshape(8, -1)
        got = _logits(model, ids + 2).astype(np.float64)
        if want.shape[1] == 1:
            got = got[:, 1:] - got[:, :1]
        if want.shape != got.shape:
            raise _unsupported(f"the module gives {want.shape[1]} numbers for a text, its last layer {got.shape[1]}")
        most = max(most, float(np.abs(want - got).max() / max(1.0, np.abs(want).max())))
    return most


def _forward(module: Any, call: Callable, vectors: Optional[np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    import torch
    place = next(module.parameters()).device

    def forward(ids: np.ndarray) -> np.ndarray:
        x = torch.as_tensor(ids if vectors is None else vectors[ids], device=place)
        with torch.inference_mode():
            return call(x).cpu().numpy()

    return forward


def from_torch(module: Any, vocab: Union[Mapping[str, int], Sequence[str]], vectors: Optional[np.ndarray] = None, *,
               classes: Optional[Sequence[str]] = None, unk: Optional[str] = None, tokenizer: str = "word",
               max_len: int = 512, forward: Optional[Callable[[Any], Any]] = None,
               out: Optional[PathLike] = None) -> Model:
    """A trained PyTorch classifier as a stet model, to attack and to certify.

    module: a TextCNN (embedding, convolutions side by side, ReLU, max over time, linear) or a BiLSTM
        (embedding, one bidirectional layer, last states or max or mean over the words, linear).
    vocab: the words: a dictionary of numbers, or a list. `unk` is the word that stands for unknown
        ones; None: the usual one. Without one they are read as a zero vector.
    vectors: word vectors (words, dim), where the module has no embedding of its own.
    forward: module(ids) for a LongTensor (texts, words), where that is not how the module is called.
    out: a folder for the model; None: it is kept in memory only.

    The module's code cannot be read, so the result is compared with it: texts of random words must
    get the same logits from both. Otherwise NotSupported is raised.

    >>> model = stet.from_torch(net, vocab, classes=["negative", "positive"])
    """
    was_training = module.training
    module.eval()
    try:
        parts, words = _parts(module), _words(vocab)
        if parts.embedding is None and vectors is None:
            raise _c.UsageError("from_torch: the module has no embedding, so it needs vectors")
        rows = np.asarray(vectors if parts.embedding is None else parts.embedding, np.float32)
        names, table, of = _table(words, rows, unk)
        if classes is not None and len(classes) != parts.classes:
            raise _c.UsageError(f"from_torch: {len(classes)} classes, but the module has {parts.classes}")
        ask = _forward(module, forward or module, rows if parts.embedding is None else None)
        least, nearest = 8, float("inf")
        for settings in parts.settings:
            config = {"format": 1, "model": parts.kind, "settings": settings,
                      "classes": [str(c) for c in classes or range(parts.classes)], "dim": table.shape[1],
                      "max_len": max_len, "tokenizer": tokenizer, "words": len(names)}
            with tempfile.TemporaryDirectory(prefix="stet-") as tmp:
                _write(tmp, config, {**parts.tensors, "embedding.weight": table}, names)
                model = Model(tmp)
            model.path = None
            if "kernels" in settings:
                least = max(least, *map(int, settings["kernels"].split(",")))
            difference = _difference(model, of, ask, least)
            nearest = min(nearest, difference)
            if difference <= _CLOSE:
                if out is not None:
                    model.save(out)
                    model.path = os.fspath(out)
                return model
        raise _unsupported(f"a {parts.kind} of stet with these weights answers otherwise (logits differ by up to "
                           f"{nearest:.2g}): the module does something else between its layers")
    finally:
        module.train(was_training)
