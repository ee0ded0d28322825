#!/usr/bin/env python3
"""Training steps of stet and of PyTorch on the same batches of the same machine, in one run.

    python3 bench/train_vs_torch.py build/release/stet --data train.tsv.xz --vectors glove.txt [--vectors more.txt]
            [--models cnn,bilstm,s4,certified] [--steps 16] [--threads 2] [--shuffle pool|plain] [--json]
            [--device cuda] [--tf32] [--compile] [--synonyms sets.subst] [--max-len 512] [--filters 128]

`stet bench train --dump` writes the untrained model and its batches; PyTorch loads both, takes the same steps with the same
optimiser (no dropout on either side), the losses of the first 40 are compared, then the times. A model whose losses differ
is not timed, and the exit status is 1. The PyTorch models are written the
way its users write them: frozen nn.Embedding, padding to the longest text of the batch, Conv1d and max for the CNN, packed
sequences for the BiLSTM, FFT convolution with a kernel by doubling for S4. `--shuffle plain` draws batches at random, as a
DataLoader does; `--shuffle pool` sorts by length within pools of 16 batches, which is stet's default and spares PyTorch most of its
padding. Both sides always take the same steps.

`certified` is the TextCNN trained on intervals over the substitution sets with vectors that learn: every distinct word and
substitute projected once, extremes over the sets, SparseAdam for the rows of the step.

With `--device cuda` both compute on the GPU, and PyTorch is written the fast way: all batches lie there, padded to a multiple of
64 words so that sizes come again, and cuDNN has tried its algorithms on each size before the clock starts; Adam is fused; nothing
is read back before the last step. The BiLSTM is two padded cuDNN calls, the second over texts turned around: packed sequences
are ten times slower there. S4's kernel needs no inverse and few products (baby steps and giant steps). `--tf32` lets both round
their products to TF32; `--compile` compiles PyTorch's loss.
Exits with 77 where PyTorch is not installed.
"""
import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time

try:
    import torch
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)
from torch import nn
from torch.nn import functional as F


DEVICE = torch.device("cpu")


def load_file(path):
    """The tensors of a safetensors file, on the CPU."""
    kinds = {"F32": torch.float32, "F64": torch.float64, "I32": torch.int32, "I64": torch.int64}
    with open(path, "rb") as f:
        head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = bytearray(f.read())
    head.pop("__metadata__", None)
    out = {}
    for name, t in head.items():
        first, end = t["data_offsets"]
        kind = kinds[t["dtype"]]
        x = torch.frombuffer(data, dtype=kind, offset=first, count=(end - first) // kind.itemsize) if end > first else torch.empty(0, dtype=kind)
        out[name] = x.reshape(t["shape"]).clone()
    return out


class Batch:
    """Texts (tensors of ids) on the device: padded ids (B, L), lengths (B), all ids one after the other."""

    def __init__(self, texts, multiple=1):
        self.longest = max(len(t) for t in texts)
        wide = -(-max(5, self.longest) // multiple) * multiple
        ids = torch.zeros(len(texts), wide, dtype=torch.int64)
        for i, t in enumerate(texts):
            ids[i, : len(t)] = t
        self.lengths_on_host = torch.tensor([len(t) for t in texts])
        self.lengths = self.lengths_on_host.to(DEVICE)
        self.ids = ids.to(DEVICE)
        self.flat = torch.cat(texts).to(DEVICE)


def pool(y, lengths, k):
    """Max over the windows (B, windows, F) of each text; windows over padding do not count."""
    dead = torch.arange(y.shape[1], device=DEVICE)[None] > (lengths - k).clamp(min=0)[:, None]
    return F.relu(y.masked_fill(dead[:, :, None], -math.inf).amax(1))


class TextCNN(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(w["embedding.weight"], freeze=True)
        convs = [w[f"convs.{i}.weight"] for i in range(3)]
        self.convs = nn.ModuleList(nn.Conv1d(c.shape[1], c.shape[0], c.shape[2]) for c in convs)
        self.fc = nn.Linear(w["fc.weight"].shape[1], w["fc.weight"].shape[0])
        self.load_state_dict({k: v for k, v in w.items()})

    def forward(self, x):
        rows = self.embedding(x.ids).transpose(1, 2)
        place = torch.arange(x.ids.shape[1], device=DEVICE)[None]
        pooled = []
        for conv in self.convs:
            y = conv(rows)
            # windows over padding do not count
            dead = place[:, : y.shape[2]] > (x.lengths - conv.kernel_size[0]).clamp(min=0)[:, None]
            pooled.append(F.relu(y.masked_fill(dead[:, None], -math.inf).amax(2)))
        return self.fc(torch.cat(pooled, 1))

    def loss(self, x, label):
        return F.cross_entropy(self(x), label)


class CertifiedCNN(nn.Module):
    """The loss of `stet train --defense certified --kappa 0.3 --ramp 0`: 0.7 of the clean and 0.3 of the worst case's."""

    def __init__(self, w, sets):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(w["embedding.weight"], freeze=False, sparse=True)
        convs = [w[f"convs.{i}.weight"] for i in range(3)]
        self.convs = nn.ModuleList(nn.Conv1d(c.shape[1], c.shape[0], c.shape[2]) for c in convs)
        self.fc = nn.Linear(w["fc.weight"].shape[1], w["fc.weight"].shape[0])
        self.load_state_dict({k: v for k, v in w.items()})
        # a word and its substitutes, the word itself in the places left
        count = (sets["start"][1:] - sets["start"][:-1]).long()
        n, most = len(count), int(count.max())
        table = torch.arange(n)[:, None].repeat(1, most + 1)
        owner = torch.repeat_interleave(torch.arange(n), count)
        place = torch.arange(len(owner)) - torch.repeat_interleave(sets["start"][:-1].long(), count)
        table[owner, place + 1] = sets["word"].long()
        self.register_buffer("sets", table, persistent=False)

    def features(self, table, index, lengths, k):
        """(B, F) from projections (V + 1, k, F), the last row of zeros."""
        windows = index.shape[1] - k + 1
        y = 0
        for l in range(k):
            y = y + table[:, l].index_select(0, index[:, l : l + windows].reshape(-1)).view(len(index), windows, -1)
        return y

    def loss(self, batch, label):
        lengths = batch.lengths
        words, of = torch.unique(batch.flat, return_inverse=True)
        V = len(words)
        index = torch.full(batch.ids.shape, V, device=DEVICE)
        index[torch.arange(index.shape[1], device=DEVICE)[None] < lengths[:, None]] = of
        rows, sets = torch.unique(self.sets[words], return_inverse=True)
        x = self.embedding(rows)
        sides = [[], [], []]
        for conv in self.convs:
            n, d, k = conv.weight.shape
            p = x @ conv.weight.permute(1, 2, 0).reshape(d, k * n)
            mine = p.index_select(0, sets.reshape(-1)).view(V, sets.shape[1], k * n)
            for side, table in zip(sides, (mine[:, 0], mine.amin(1), mine.amax(1))):
                table = torch.cat([table, table.new_zeros(1, k * n)]).view(V + 1, k, n)
                side.append(pool(self.features(table, index, lengths, k) + conv.bias, lengths, k))
        value, lo, hi = (torch.cat(side, 1) for side in sides)
        w, b = self.fc.weight, self.fc.bias
        d = w[None] - w[label][:, None]  # (B, K, features)
        worst = b[None] - b[label][:, None] + (d.clamp(min=0) * hi[:, None] + d.clamp(max=0) * lo[:, None]).sum(2)
        return 0.7 * F.cross_entropy(self.fc(value), label) + 0.3 * F.cross_entropy(worst, label)


class BiLSTM(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(w["embedding.weight"], freeze=True)
        h, d = w["lstm.weight_hh_l0"].shape[1], w["lstm.weight_ih_l0"].shape[1]
        self.lstm = nn.LSTM(d, h, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * h, w["fc.weight"].shape[0])
        self.load_state_dict({k: v for k, v in w.items()})

    def one_way(self, ids, lengths, weights):
        """The last states (B, H) of one direction over padded texts, by cuDNN."""
        zero = torch.zeros(1, len(ids), self.lstm.hidden_size, device=DEVICE)
        y = torch.lstm(self.embedding(ids), (zero, zero), weights, True, 1, 0.0, self.training, False, True)[0]
        return y[torch.arange(len(ids), device=DEVICE), lengths - 1]

    def loss(self, x, label):
        return F.cross_entropy(self(x), label)

    def forward(self, x):
        if DEVICE.type == "cpu":
            packed = nn.utils.rnn.pack_padded_sequence(self.embedding(x.ids[:, : x.longest]), x.lengths_on_host, batch_first=True,
                                                       enforce_sorted=False)
            _, (h, _) = self.lstm(packed)
            return self.fc(torch.cat([h[0], h[1]], 1))
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        ways = [[getattr(self.lstm, n + end) for n in names] for end in ("", "_reverse")]
        turned = x.ids.gather(1, (x.lengths[:, None] - 1 - torch.arange(x.ids.shape[1], device=DEVICE)[None]).clamp(min=0))
        return self.fc(torch.cat([self.one_way(ids, x.lengths, w) for ids, w in zip((x.ids, turned), ways)], 1))


class S4(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(w["embedding.weight"], freeze=True)
        self.encoder = nn.Linear(w["encoder.weight"].shape[1], w["encoder.weight"].shape[0])
        h = self.encoder.out_features
        layer = nn.Module()
        layer.s4 = nn.Module()
        for name in ("log_a_real", "a_imag", "p", "b", "c", "log_dt", "d"):
            layer.s4.register_parameter(name, nn.Parameter(w[f"layers.0.s4.{name}"].clone()))
        layer.mix = nn.Linear(h, 2 * h)
        layer.norm = nn.LayerNorm(h)
        self.layers = nn.ModuleList([layer])
        self.fc = nn.Linear(h, w["fc.weight"].shape[0])
        self.load_state_dict({k: v for k, v in w.items()})

    @staticmethod
    def kernel(s, length):
        """K_l = 2 Re(C Abar^l Bbar) with Abar = (I - A dt/2)^-1 (I + A dt/2), A = diag(lam) - P P^*. The inverse is that of a
        diagonal and one product (Sherman and Morrison); l = i + j STEP, so that Abar^STEP is the highest power there is."""
        STEP = 32
        lam = -torch.exp(s.log_a_real) - 1j * s.a_imag
        P, B, C = (torch.view_as_complex(x) for x in (s.p, s.b, s.c))
        both = lambda z: torch.cat([z, z.conj()], 1)
        lam, P, B = both(lam), both(P), both(B)
        C = torch.cat([C, torch.zeros_like(C)], 1)
        half = (torch.exp(s.log_dt) / 2)[:, None]
        d = 1 / (1 - half * lam)
        q = d * P
        q = q * (half / (1 + half * (P.conj() * q).sum(1, keepdim=True)))
        left = lambda x: d[:, :, None] * x - q[:, :, None] * ((P.conj() * d)[:, None] @ x)
        forward = torch.diag_embed(1 + half * lam) - half[:, :, None] * P[:, :, None] * P.conj()[:, None]
        power, z = left(forward), left((2 * half * B)[:, :, None])
        while z.shape[2] < STEP:
            z = torch.cat([z, power @ z], 2)
            power = power @ power
        rows = [C[:, None]]
        while len(rows) * STEP < length:
            rows.append(rows[-1] @ power)
        return 2 * (torch.cat(rows, 1) @ z).flatten(1)[:, :length].real

    def loss(self, x, label):
        return F.cross_entropy(self(x), label)

    def forward(self, x):
        u = self.encoder(self.embedding(x.ids))
        L = x.ids.shape[1]
        for layer in self.layers:
            k = torch.fft.rfft(self.kernel(layer.s4, L), 2 * L)
            y = torch.fft.irfft(torch.fft.rfft(u.transpose(1, 2), n=2 * L) * k, n=2 * L)[..., :L].transpose(1, 2) + u * layer.s4.d
            u = layer.norm(u + F.glu(layer.mix(F.gelu(y)), dim=2))
        keep = (torch.arange(L, device=DEVICE)[None] < x.lengths[:, None]).to(u.dtype)
        return self.fc((u * keep[:, :, None]).sum(1) / x.lengths[:, None])


def optimizers(kind, model, lr):
    """One or two."""
    if kind == "certified":
        vectors = model.embedding.weight
        return [optimizer(kind, [(n, p) for n, p in model.named_parameters() if p is not vectors], lr), torch.optim.SparseAdam([vectors], lr=1e-3)]
    return [optimizer(kind, list(model.named_parameters()), lr)]


def optimizer(kind, parameters, lr):
    train = [(n, p) for n, p in parameters if p.requires_grad]
    fused = DEVICE.type == "cuda"
    if kind != "s4":
        return torch.optim.Adam([p for _, p in train], lr=lr, weight_decay=1e-4, fused=fused)
    state = [p for n, p in train if ".s4." in n and not n.endswith(".d")]
    rest = [p for n, p in train if not (".s4." in n and not n.endswith(".d"))]
    return torch.optim.AdamW([{"params": rest, "lr": lr, "weight_decay": 1e-2}, {"params": state, "lr": 5e-3, "weight_decay": 0}], fused=fused)


MODELS = {"cnn": (TextCNN, 1e-4), "bilstm": (BiLSTM, 1e-3), "s4": (S4, 5e-4), "certified": (CertifiedCNN, 1e-4)}
WARM_UP = 10  # as stet bench train: of many steps, the first are not timed
COMPARED = 40  # losses; after many steps rounding alone takes two runs apart


def try_sizes(model, loss_of, batches):
    """One pass of each size, whose gradients are thrown away: what a library chooses once, it chooses here."""
    seen = set()
    for x, label in batches:
        if x.ids.shape not in seen:
            seen.add(x.ids.shape)
            loss_of(x, label).backward()
    model.zero_grad()


def torch_steps(kind, folder, steps, compiled):
    weights = load_file(os.path.join(folder, "model.safetensors"))
    b = load_file(os.path.join(folder, "batches.safetensors"))
    build, lr = MODELS[kind]
    model = build(weights, load_file(os.path.join(folder, "sets.safetensors"))) if kind == "certified" else build(weights)
    model = model.to(DEVICE)
    opts = optimizers(kind, model, lr)
    steps = min(steps, len(b["batch"]) - 1)
    at, text = b["batch"].tolist(), b["text"].tolist()
    batches = []
    for s in range(steps):
        texts = [b["ids"][text[i] : text[i + 1]].long() for i in range(at[s], at[s + 1])]
        batches.append((Batch(texts, 64 if DEVICE.type == "cuda" else 1), b["label"][at[s] : at[s + 1]].long().to(DEVICE)))
    loss_of = torch.compile(model.loss) if compiled else model.loss
    if DEVICE.type == "cuda":
        try_sizes(model, loss_of, batches)
    wait = torch.cuda.synchronize if DEVICE.type == "cuda" else lambda: None
    warm_up = WARM_UP if steps > 2 * WARM_UP else 0
    losses, start = [], time.perf_counter()
    for s, (x, label) in enumerate(batches):
        if s == warm_up:
            wait()
            start = time.perf_counter()
        loss = loss_of(x, label)
        for opt in opts:
            opt.zero_grad()
        loss.backward()
        for opt in opts:
            opt.step()
        losses.append(loss.detach())
    wait()
    seconds = time.perf_counter() - start
    return [x.item() for x in losses], seconds / (steps - warm_up)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("stet")
    ap.add_argument("--data", required=True)
    ap.add_argument("--vectors", action="append", required=True)
    ap.add_argument("--models", default="cnn,bilstm,s4")
    ap.add_argument("--steps", type=int, default=16, help="steps that both take")
    ap.add_argument("--shuffle", choices=["plain", "pool"], default="plain")
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--json", action="store_true")
    ap.add_argument("--device", default="cpu")
    ap.add_argument("--tf32", action="store_true")
    ap.add_argument("--compile", action="store_true")
    ap.add_argument("--synonyms")
    ap.add_argument("--max-len", default="512")
    ap.add_argument("--filters", default="128")
    a = ap.parse_args()
    global DEVICE
    DEVICE = torch.device(a.device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = a.tf32
    torch.backends.cudnn.benchmark = True
    torch.set_num_threads(a.threads)
    print(f"{platform.processor() or platform.machine()}, {a.threads} threads, PyTorch {torch.__version__}", file=sys.stderr)
    failed = False
    for kind in a.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            cmd = [a.stet, "bench", "train", "--data", a.data, "--model", "cnn" if kind == "certified" else kind, "--max-len", a.max_len,
                   "--device", a.device, "--steps", str(a.steps), "--dump", folder,
                   "--dropout", "0", "--threads", str(a.threads), "--length-pool", "1" if a.shuffle == "plain" else "16", "--json", "-q"]
            if kind in ("cnn", "certified"):
                cmd += ["--filters", a.filters]
            if kind == "certified":
                cmd += ["--synonyms", a.synonyms, "--defense", "certified", "--kappa", "0.3", "--ramp", "0", "--tune-vectors", "1e-3"]
            if a.tf32:
                cmd += ["--precision", "tf32"]
            for v in a.vectors:
                cmd += ["--vectors", v]
            ours = json.loads(subprocess.run(cmd, check=True, stdout=subprocess.PIPE).stdout)
            losses, seconds = torch_steps(kind, folder, a.steps, a.compile)
        pairs = list(zip(ours["losses"], losses))[:COMPARED]
        worst = max(abs(x - y) / max(1e-3, abs(y)) for x, y in pairs)
        if worst > (1e-2 if a.tf32 else 1e-3):
            print(f"{kind}: not timed, losses differ by {worst:.2g}: {pairs}", file=sys.stderr, flush=True)
            failed = True
            continue
        theirs = seconds * ours["steps_per_epoch"]
        row = {"model": kind, "stet_epoch_s": ours["epoch_seconds"], "torch_epoch_s": theirs, "ratio": theirs / ours["epoch_seconds"],
               "loss_difference": worst, "steps": ours["steps"], "steps_per_epoch": ours["steps_per_epoch"], "shuffle": a.shuffle,
               "device": a.device, "tf32": a.tf32, "compiled": a.compile, "max_len": int(a.max_len), "filters": int(a.filters)}
        if a.json:
            print(json.dumps(row), flush=True)
        else:
            print(f"{kind:9s} stet {row['stet_epoch_s']:8.3f} s an epoch, PyTorch {theirs:8.3f} s: {row['ratio']:.1f}x "
                  f"(losses agree to {worst:.1e} over {len(pairs)} steps)", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
