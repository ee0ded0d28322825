#!/usr/bin/env python3
"""Training steps of stet and of PyTorch on the same batches of the same machine, in one run.

    python3 bench/train_vs_torch.py build/release/stet --data train.tsv.xz --vectors glove.txt [--vectors more.txt]
            [--models cnn,bilstm,s4] [--steps 16] [--threads 2] [--shuffle pool|plain] [--json]

`stet bench train --dump` writes the untrained model and its batches; PyTorch loads both, takes the same steps with the same
optimiser (no dropout on either side), the losses are compared first, then the times. The PyTorch models are written the
way its users write them: frozen nn.Embedding, padding to the longest text of the batch, Conv1d and max for the CNN, packed
sequences for the BiLSTM, FFT convolution with a kernel by doubling for S4. `--shuffle plain` draws batches at random, as a
DataLoader does; `--shuffle pool` sorts by length within pools of 16 batches, which is stet's default and spares PyTorch most of its
padding. Both sides always take the same steps.
Exits with 77 where PyTorch is not installed.
"""
import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import torch
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)
from torch import nn
from torch.nn import functional as F


def padded(texts, at_least=1):
    longest = max(at_least, max(len(t) for t in texts))
    out = torch.zeros(len(texts), longest, dtype=torch.long)
    for i, t in enumerate(texts):
        out[i, : len(t)] = t
    return out


class TextCNN(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(w["embedding.weight"], freeze=True)
        convs = [w[f"convs.{i}.weight"] for i in range(3)]
        self.convs = nn.ModuleList(nn.Conv1d(c.shape[1], c.shape[0], c.shape[2]) for c in convs)
        self.fc = nn.Linear(w["fc.weight"].shape[1], w["fc.weight"].shape[0])
        self.load_state_dict({k: v for k, v in w.items()})

    def forward(self, texts):
        x = self.embedding(padded(texts, 5)).transpose(1, 2)
        lengths = torch.tensor([len(t) for t in texts])
        pooled = []
        for conv in self.convs:
            y = conv(x)
            k = conv.kernel_size[0]  # windows over padding do not count
            dead = torch.arange(y.shape[2])[None] > (lengths - k).clamp(min=0)[:, None]
            pooled.append(F.relu(y.masked_fill(dead[:, None], -math.inf).amax(2)))
        return self.fc(torch.cat(pooled, 1))


class BiLSTM(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(w["embedding.weight"], freeze=True)
        h, d = w["lstm.weight_hh_l0"].shape[1], w["lstm.weight_ih_l0"].shape[1]
        self.lstm = nn.LSTM(d, h, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * h, w["fc.weight"].shape[0])
        self.load_state_dict({k: v for k, v in w.items()})

    def forward(self, texts):
        lengths = torch.tensor([len(t) for t in texts])
        x = nn.utils.rnn.pack_padded_sequence(self.embedding(padded(texts)), lengths, batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(x)
        return self.fc(torch.cat([h[0], h[1]], 1))


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
        """K_l = 2 Re(C Abar^l Bbar) by doubling: log2(length) batched products."""
        lam = -torch.exp(s.log_a_real) - 1j * s.a_imag
        P, B, C = (torch.view_as_complex(x) for x in (s.p, s.b, s.c))
        both = lambda z: torch.cat([z, z.conj()], 1)
        A = torch.diag_embed(both(lam)) - both(P)[:, :, None] * both(P).conj()[:, None, :]
        half = (torch.exp(s.log_dt) / 2)[:, None, None]
        eye = torch.eye(A.shape[1], dtype=A.dtype)
        left = torch.linalg.inv(eye - half * A)
        power = left @ (eye + half * A)
        z = left @ (2 * half * both(B)[:, :, None])
        while z.shape[2] < length:
            z = torch.cat([z, power @ z], 2)
            power = power @ power
        return 2 * torch.einsum("hn,hnl->hl", C, z[:, : C.shape[1], :length]).real

    def forward(self, texts):
        lengths = torch.tensor([len(t) for t in texts])
        ids = padded(texts)
        u = self.encoder(self.embedding(ids))
        L = ids.shape[1]
        for layer in self.layers:
            k = torch.fft.rfft(self.kernel(layer.s4, L), 2 * L)
            y = torch.fft.irfft(torch.fft.rfft(u.transpose(1, 2), 2 * L) * k, 2 * L)[..., :L].transpose(1, 2) + u * layer.s4.d
            u = layer.norm(u + F.glu(layer.mix(F.gelu(y)), dim=2))
        keep = (torch.arange(L)[None] < lengths[:, None]).to(u.dtype)
        return self.fc((u * keep[:, :, None]).sum(1) / lengths[:, None])


def optimizer(kind, model, lr):
    train = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    if kind != "s4":
        return torch.optim.Adam([p for _, p in train], lr=lr, weight_decay=1e-4)
    state = [p for n, p in train if ".s4." in n and not n.endswith(".d")]
    rest = [p for n, p in train if not (".s4." in n and not n.endswith(".d"))]
    return torch.optim.AdamW([{"params": rest, "lr": lr, "weight_decay": 1e-2}, {"params": state, "lr": 5e-3, "weight_decay": 0}])


MODELS = {"cnn": (TextCNN, 1e-4), "bilstm": (BiLSTM, 1e-3), "s4": (S4, 5e-4)}


def torch_steps(kind, folder, steps):
    weights = load_file(os.path.join(folder, "model.safetensors"))
    b = load_file(os.path.join(folder, "batches.safetensors"))
    build, lr = MODELS[kind]
    model = build(weights)
    opt = optimizer(kind, model, lr)
    losses, seconds = [], []
    for s in range(min(steps, len(b["batch"]) - 1)):
        first, last = b["batch"][s].item(), b["batch"][s + 1].item()
        texts = [b["ids"][b["text"][i] : b["text"][i + 1]].long() for i in range(first, last)]
        label = b["label"][first:last].long()
        start = time.perf_counter()
        loss = F.cross_entropy(model(texts), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        seconds.append(time.perf_counter() - start)
        losses.append(loss.item())
    return losses, seconds


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
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    print(f"{platform.processor() or platform.machine()}, {a.threads} threads, PyTorch {torch.__version__}", file=sys.stderr)
    for kind in a.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            cmd = [a.stet, "bench", "train", "--data", a.data, "--model", kind, "--steps", str(a.steps), "--dump", folder,
                   "--dropout", "0", "--threads", str(a.threads), "--length-pool", "1" if a.shuffle == "plain" else "16", "--json", "-q"]
            for v in a.vectors:
                cmd += ["--vectors", v]
            ours = json.loads(subprocess.run(cmd, check=True, stdout=subprocess.PIPE).stdout)
            losses, seconds = torch_steps(kind, folder, a.steps)
        worst = max(abs(x - y) / max(1e-3, abs(y)) for x, y in zip(ours["losses"], losses))
        if worst > 1e-3:
            sys.exit(f"{kind}: losses differ by {worst:.2g}: {ours['losses'][:len(losses)]} against {losses}")
        theirs = statistics.mean(seconds) * ours["steps_per_epoch"]
        row = {"model": kind, "stet_epoch_s": ours["epoch_seconds"], "torch_epoch_s": theirs, "ratio": theirs / ours["epoch_seconds"],
               "loss_difference": worst, "steps": ours["steps"], "shuffle": a.shuffle}
        if a.json:
            print(json.dumps(row), flush=True)
        else:
            print(f"{kind:7s} stet {row['stet_epoch_s']:7.1f} s an epoch, PyTorch {theirs:7.1f} s: {row['ratio']:.1f}x "
                  f"(losses agree to {worst:.1e} over {len(losses)} steps)", flush=True)


if __name__ == "__main__":
    main()
