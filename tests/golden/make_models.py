#!/usr/bin/env python3
"""Reference tensors for the three models, made with PyTorch in double precision.

Writes cnn.safetensors, bilstm.safetensors and s4.safetensors beside itself: word vectors, initial weights under the names
of a stet model, six texts, the logits of those texts, and the losses of ten full-batch training steps (Adam with
coupled L2; AdamW with two groups for S4). tests/model/test_reference.c takes the same steps.

    python3 tests/golden/make_models.py        (needs torch and safetensors)
"""
import math
import os

import torch
from safetensors.torch import save_file

D, WORDS, K = 6, 20, 3
LENGTHS = [9, 7, 7, 4, 2, 1]
STEPS = 10
torch.set_default_dtype(torch.float64)


def texts(gen):
    ids = [torch.randint(1, WORDS, (n,), generator=gen) for n in LENGTHS]
    label = torch.randint(0, K, (len(LENGTHS),), generator=gen)
    return ids, label


class CNN(torch.nn.Module):
    kernels, filters = (2, 3), 4

    def __init__(self):
        super().__init__()
        self.convs = torch.nn.ModuleList(torch.nn.Conv1d(D, self.filters, k) for k in self.kernels)
        self.fc = torch.nn.Linear(len(self.kernels) * self.filters, K)

    def forward(self, table, ids):
        rows = []
        for one in ids:
            x = table[one]
            pooled = []
            for conv, k in zip(self.convs, self.kernels):
                y = torch.cat([x, torch.zeros(max(0, k - len(x)), D)])  # short texts go on with zero vectors
                pooled.append(torch.relu(conv(y.T[None])).amax(2)[0])
            rows.append(torch.cat(pooled))
        return self.fc(torch.stack(rows))


class BiLSTM(torch.nn.Module):
    hidden = 5

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(D, self.hidden, batch_first=True, bidirectional=True)
        self.fc = torch.nn.Linear(2 * self.hidden, K)

    def forward(self, table, ids):
        rows = []
        for one in ids:
            _, (h, _) = self.lstm(table[one][None])
            rows.append(torch.cat([h[0, 0], h[1, 0]]))
        return self.fc(torch.stack(rows))


class StateSpace(torch.nn.Module):
    """One S4 layer by its dense recurrence, a channel at a time."""

    def __init__(self, channels, n, gen):
        super().__init__()
        p = torch.nn.Parameter
        self.log_a_real = p(torch.full((channels, n), math.log(0.5)) + 0.1 * torch.randn(channels, n, generator=gen))
        self.a_imag = p(torch.arange(1.0, n + 1).repeat(channels, 1) * 2)
        self.p = p(torch.randn(channels, n, 2, generator=gen))
        self.b = p(torch.randn(channels, n, 2, generator=gen))
        self.c = p(torch.randn(channels, n, 2, generator=gen))
        self.log_dt = p(torch.linspace(math.log(0.01), math.log(0.3), channels))
        self.d = p(torch.randn(channels, generator=gen))

    def forward(self, u):  # (T, channels)
        out = []
        for h in range(u.shape[1]):
            lam = -torch.exp(self.log_a_real[h]) - 1j * self.a_imag[h]
            both = lambda z: torch.cat([z, z.conj()])
            P, B, C = (both(torch.view_as_complex(w[h].contiguous())) for w in (self.p, self.b, self.c))
            A = torch.diag(both(lam)) - torch.outer(P, P.conj())
            dt, eye = torch.exp(self.log_dt[h]), torch.eye(len(P), dtype=torch.complex128)
            left = torch.linalg.inv(eye - dt / 2 * A)
            Ab, Bb = left @ (eye + dt / 2 * A), left @ (dt * B)
            z, y = torch.zeros_like(P), []
            for t in range(u.shape[0]):
                z = Ab @ z + Bb * u[t, h]
                y.append((C @ z).real + self.d[h] * u[t, h])
            out.append(torch.stack(y))
        return torch.stack(out, 1)


class S4(torch.nn.Module):
    channels, state = 4, 6

    def __init__(self, gen):
        super().__init__()
        self.encoder = torch.nn.Linear(D, self.channels)
        layer = torch.nn.Module()
        layer.s4 = StateSpace(self.channels, self.state // 2, gen)
        layer.mix = torch.nn.Linear(self.channels, 2 * self.channels)
        layer.norm = torch.nn.LayerNorm(self.channels)
        self.layers = torch.nn.ModuleList([layer])
        self.fc = torch.nn.Linear(self.channels, K)

    def forward(self, table, ids):
        rows = []
        for one in ids:
            u = self.encoder(table[one])
            for layer in self.layers:
                y = torch.nn.functional.gelu(layer.s4(u))
                u = layer.norm(u + torch.nn.functional.glu(layer.mix(y), dim=1))
            rows.append(u.mean(0))
        return self.fc(torch.stack(rows))


def optimizer(model):
    if not isinstance(model, S4):
        return torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-2)
    state = [w for n, w in model.named_parameters() if ".s4." in n and not n.endswith(".d")]
    rest = [w for n, w in model.named_parameters() if not (".s4." in n and not n.endswith(".d"))]
    return torch.optim.AdamW([{"params": rest, "lr": 1e-2, "weight_decay": 1e-2}, {"params": state, "lr": 2e-2, "weight_decay": 0}])


def make(name, model, gen):
    ids, label = texts(gen)
    table = torch.randn(WORDS, D, generator=gen)
    table = table.float().double()  # vectors are single precision in every build
    table[0] = 0
    out = {n: w.detach().clone() for n, w in model.named_parameters()}
    out["embedding.weight"] = table
    out["ids"] = torch.cat(ids).to(torch.int32)
    out["lengths"] = torch.tensor(LENGTHS, dtype=torch.int32)
    out["label"] = label.to(torch.int32)
    out["logits"] = model(table, ids).detach()
    opt, losses = optimizer(model), []
    for _ in range(STEPS):
        loss = torch.nn.functional.cross_entropy(model(table, ids), label)
        losses.append(loss.item())
        opt.zero_grad()
        loss.backward()
        opt.step()
    out["losses"] = torch.tensor(losses)
    out["logits_after"] = model(table, ids).detach()
    save_file(out, os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".safetensors"))
    print(name, losses[0], losses[-1])


if __name__ == "__main__":
    for name, build in (("cnn", lambda g: CNN()), ("bilstm", lambda g: BiLSTM()), ("s4", S4)):
        torch.manual_seed(7)
        g = torch.Generator().manual_seed(11)
        make(name, build(g), g)
