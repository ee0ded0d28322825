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


def _state_spaces(module: Any) -> List[Any]:
    """Submodules that hold a diagonal state matrix and a step, as S4 and S4D have them."""
    return [m for m in module.modules() if {"log_dt", "log_a_real", "a_imag", "c"} <= {
        name.lower() for name, _ in m.named_parameters(recurse=False)}]


def _complex(t: Any) -> np.ndarray:
    """(channels, pairs), of a complex tensor or of one with real and imaginary parts; one leading 1 is dropped."""
    x = t.detach().cpu()
    x = (x if x.is_complex() else x[..., 0] + 1j * x[..., 1]).numpy().astype(np.complex128)
    return x[0] if x.ndim == 3 and len(x) == 1 else x


def _state_space(module: Any, space: Any) -> Dict[str, np.ndarray]:
    """stet's parameters: Lambda = -exp(log_a_real) - i a_imag, low-rank p, b, c, discretised by the bilinear rule.

    Without p and b the module is an S4D: its Lambda is -exp(log_A_real) + i A_imag, discretised by zero-order hold. A bilinear
    step with another Lambda and B gives the very same discrete system.
    """
    own = {name.lower(): p for name, p in space.named_parameters(recurse=False)}
    if "d" not in own:  # beside the kernel
        parent = next(m for m in module.modules() if any(c is space for c in m.children()))
        own.update({n.lower(): p for n, p in parent.named_parameters(recurse=False) if n.lower() == "d"})
    if "d" not in own or ("p" in own) != ("b" in own):
        raise _unsupported("expected a state space with log_dt, log_a_real, a_imag, c and d, with or without p and b")
    real, imag, step = (own[n].detach().cpu().numpy().astype(np.float64) for n in ("log_a_real", "a_imag", "log_dt"))
    c = _complex(own["c"])
    if "p" in own:
        p, b = _complex(own["p"]), _complex(own["b"])
    else:
        lam, dt = -np.exp(real) + 1j * imag, np.exp(step)[:, None]
        bar = np.exp(lam * dt)
        moved = 2 / dt * (bar - 1) / (bar + 1)
        b, p = (bar - 1) / lam * (1 - dt / 2 * moved) / dt, np.zeros_like(c)
        real, imag = np.log(-moved.real), -moved.imag
    pair = {name: np.stack([x.real, x.imag], axis=-1) for name, x in (("p", p), ("b", b), ("c", c))}
    return {"log_a_real": real, "a_imag": imag, "log_dt": step, "d": _array(own["d"]).ravel(), **pair}


def _s4(module: Any, spaces: List[Any], linears: List[Any], norms: List[Any]) -> Tuple[List[Dict[str, Any]], Dict[str, np.ndarray]]:
    """The layers of an S4 classifier, all linear maps but the last in the order in which the module has them."""
    layers, (h, n) = len(spaces), _complex(next(p for k, p in spaces[0].named_parameters() if k.lower() == "c")).shape
    weights = [_array(m.weight).reshape(len(m.weight), -1) for m in linears]
    if len(linears) not in (layers, layers + 1) or len(norms) not in (0, layers):
        raise _unsupported(f"expected an S4 with a linear map after each of its {layers} layers, at most one before them, and as "
                           f"many layer norms or none; the module has {len(linears)} linear maps and {len(norms)} layer norms")
    biases = [np.zeros(len(w), np.float32) if m.bias is None else _array(m.bias) for m, w in zip(linears, weights)]
    if len(linears) == layers:
        weights.insert(0, np.eye(h, dtype=np.float32))
        biases.insert(0, np.zeros(h, np.float32))
    if any(w.shape != ((2 if norms else 1) * h, h) for w in weights[1:]):
        raise _unsupported("expected a gated linear map with a layer norm, or a square one without, after every state space")
    tensors = {"encoder.weight": weights[0], "encoder.bias": biases[0]}
    for i, space in enumerate(spaces):
        at = f"layers.{i}."
        tensors.update({f"{at}s4.{name}": x.astype(np.float32) for name, x in _state_space(module, space).items()})
        tensors.update({f"{at}mix.weight": weights[i + 1], f"{at}mix.bias": biases[i + 1]})
        if norms:
            tensors.update({f"{at}norm.weight": _array(norms[i].weight), f"{at}norm.bias": _array(norms[i].bias)})
    shape = {"channels": h, "state": 2 * n, "layers": layers, **({} if norms else {"s4-block": "relu"})}
    return [{**shape, **pool} for pool in ({}, {"s4-pool": "max"})], tensors


def _parts(module: Any) -> _Parts:
    from torch import nn

    found: Dict[type, List[Any]] = {kind: [] for kind in (nn.Embedding, nn.LSTM, nn.Linear, nn.Conv1d, nn.Conv2d,
                                                          nn.LayerNorm)}
    for m in module.modules():
        for kind, of_kind in found.items():
            if isinstance(m, kind):
                of_kind.append(m)
    convs, lstms, spaces = found[nn.Conv1d] + found[nn.Conv2d], found[nn.LSTM], _state_spaces(module)
    tables = [_array(e.weight) for e in found[nn.Embedding]]
    if spaces and len(tables) < 2 and found[nn.Linear]:
        head = found[nn.Linear][-1]
        maps = [m for m in module.modules() if m is not head and (
            isinstance(m, nn.Linear) or (isinstance(m, nn.Conv1d) and m.kernel_size == (1,)))]
        settings, tensors = _s4(module, spaces, maps, found[nn.LayerNorm])
        tensors["fc.weight"], tensors["fc.bias"] = _head(head)
        return _Parts("s4", settings, tensors, tables[0] if tables else None, len(tensors["fc.bias"]))
    if len(found[nn.Linear]) != 1 or len(tables) > 1 or bool(convs) == (len(lstms) == 1):
        raise _unsupported("expected one embedding, convolutions side by side, one LSTM or an S4, and one linear layer; "
                           f"the module has {len(tables)}, {len(convs)}, {len(lstms)}, {len(spaces)} and "
                           f"{len(found[nn.Linear])}")
    tensors = {}
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
    return _Parts("cnn" if convs else "bilstm", settings, tensors, tables[0] if tables else None, len(tensors["fc.bias"]))


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

    module: a TextCNN (embedding, convolutions side by side, ReLU, max over time, linear), a BiLSTM
        (embedding, one bidirectional layer, last states or max or mean over the words, linear), or an
        S4 or S4D (docs/pytorch.md).
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
        raise _unsupported(f"stet's {parts.kind} with these weights answers otherwise (logits differ by up to "
                           f"{nearest:.2g}): the module does something else between its layers")
    finally:
        module.train(was_training)
