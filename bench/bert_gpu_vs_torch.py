#!/usr/bin/env python3
"""Fine-tunes BERT in plain PyTorch on a GPU, on what `stet bench train --dump` wrote: the rival of stet's own fine-tuning.

    stet bench train --model bert --init FOLDER --data train.tsv --valid test.tsv --steps 0 --dump TRAIN ...
    stet bench train --model bert --init FOLDER --data test.tsv --valid train.tsv --steps 0 --dump TEST ...
    python3 bench/bert_gpu_vs_torch.py TRAIN TEST [--seeds 1,2,3] [--epochs 2] [--batch 32] [--lr 5e-5] [--max-steps 0]

Both read the same pieces and begin with the same weights. PyTorch has what it is fast with: bf16 autocast,
scaled_dot_product_attention (without a mask, hence flash attention, where no text of the batch is padded), fused AdamW, all texts on
the GPU beforehand, batches of texts of like length (the rule of stet's --length-pool) padded to the longest, no number read back
within an epoch. One line of JSON for each seed: seconds of each epoch's steps, accuracy on TEST after the last. Needs no
transformers; exits with 77 without PyTorch."""
import argparse
import json
import os
import struct
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)

TYPES = {"F32": torch.float32, "I32": torch.int32, "I64": torch.int64}


def read_safetensors(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8 : 8 + n])
    out = {}
    for name, t in head.items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            data = bytearray(raw[8 + n + begin : 8 + n + end])
            out[name] = torch.frombuffer(data, dtype=TYPES[t["dtype"]]).reshape(t["shape"]).clone()
    return out


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, f = c["hidden_size"], c["intermediate_size"]
        self.heads, self.p = c["num_attention_heads"], 0.1
        self.query, self.key, self.value, self.out = (nn.Linear(h, h) for _ in range(4))
        self.up, self.down = nn.Linear(h, f), nn.Linear(f, h)
        self.norm1, self.norm2 = (nn.LayerNorm(h, eps=c["layer_norm_eps"]) for _ in range(2))

    def forward(self, x, mask):
        b, n, h = x.shape
        q, k, v = (w(x).view(b, n, self.heads, -1).transpose(1, 2) for w in (self.query, self.key, self.value))
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.p if self.training else 0)
        o = self.out(o.transpose(1, 2).reshape(b, n, h))
        x = self.norm1(x + F.dropout(o, self.p, self.training))
        return self.norm2(x + F.dropout(self.down(F.gelu(self.up(x))), self.p, self.training))


NAMES = {"query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
         "out": "attention.output.dense", "up": "intermediate.dense", "down": "output.dense",
         "norm1": "attention.output.LayerNorm", "norm2": "output.LayerNorm"}


class Bert(nn.Module):
    def __init__(self, c, classes):
        super().__init__()
        h = c["hidden_size"]
        self.words, self.positions, self.types = (nn.Embedding(n, h) for n in
                                                  (c["vocab_size"], c["max_position_embeddings"], c["type_vocab_size"]))
        self.norm = nn.LayerNorm(h, eps=c["layer_norm_eps"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.pooler, self.classifier = nn.Linear(h, h), nn.Linear(h, classes)

    def load(self, w):
        plain = {"bert.embeddings.word_embeddings": "words", "bert.embeddings.position_embeddings": "positions",
                 "bert.embeddings.token_type_embeddings": "types", "bert.embeddings.LayerNorm": "norm",
                 "bert.pooler.dense": "pooler", "classifier": "classifier"}
        for i in range(len(self.layers)):
            for ours, theirs in NAMES.items():
                plain[f"bert.encoder.layer.{i}.{theirs}"] = f"layers.{i}.{ours}"
        own = dict(self.named_parameters())
        for name, value in w.items():
            stem, end = name.rsplit(".", 1)
            own.pop(f"{plain[stem]}.{end}").data.copy_(value)
        assert not own, f"not in the file: {sorted(own)}"

    def forward(self, ids, mask):
        x = self.words(ids) + self.positions.weight[: ids.shape[1]] + self.types.weight[0]
        x = F.dropout(self.norm(x), 0.1, self.training)
        for layer in self.layers:
            x = layer(x, mask)
        x = torch.tanh(self.pooler(x[:, 0]))
        return self.classifier(F.dropout(x, 0.1, self.training))


def read_texts(folder, limit, device):
    """All texts as one padded matrix on the GPU, their lengths on the host."""
    b = read_safetensors(os.path.join(folder, "batches.safetensors"))
    vocab = open(os.path.join(folder, "vocab.txt"), encoding="utf-8").read().split("\n")
    first, last = vocab.index("[CLS]"), vocab.index("[SEP]")
    n = len(b["text"]) - 1
    ids, length = torch.zeros(n, limit, dtype=torch.int64), []
    for i in range(n):
        t = b["ids"][b["text"][i] : b["text"][i + 1]][: limit - 2]
        length.append(len(t) + 2)
        ids[i, 0], ids[i, 1 : len(t) + 1], ids[i, len(t) + 1] = first, t, last
    return ids.to(device), torch.tensor(length), b["label"].long().to(device)


def epoch_order(length, batch, pool, gen):
    order = torch.randperm(len(length), generator=gen)
    parts = [p[torch.argsort(length[p], descending=True, stable=True)] for p in order.split(batch * pool)]
    batches = list(torch.cat(parts).split(batch))
    return [batches[i] for i in torch.randperm(len(batches), generator=gen)]


def inputs(texts, pick, on_gpu):
    ids, length, _ = texts
    longest = int(length[pick].max())
    x = ids[on_gpu, :longest]
    padded = int(length[pick].min()) < longest
    return x, (x != 0)[:, None, None, :] if padded else None


def accuracy(model, texts, device):
    model.eval()
    order, right = torch.argsort(texts[1], descending=True), []
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
        for pick in order.split(256):
            on_gpu = pick.to(device)
            right.append((model(*inputs(texts, pick, on_gpu)).argmax(1) == texts[2][on_gpu]).sum())
    model.train()
    return sum(int(r) for r in right) / len(order)


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def fine_tune(a, config, weights, train, test, seed, device):
    torch.manual_seed(seed)
    gen = torch.Generator().manual_seed(seed)
    model = Bert(config, len(weights["classifier.bias"]))
    model.load(weights)
    nn.init.normal_(model.classifier.weight, std=0.02)
    model.to(device).train()
    bare = [p for n, p in model.named_parameters() if n.endswith(".bias") or "norm" in n]
    rest = [p for n, p in model.named_parameters() if not (n.endswith(".bias") or "norm" in n)]
    opt = torch.optim.AdamW([{"params": rest, "weight_decay": 0.01}, {"params": bare, "weight_decay": 0}], lr=a.lr,
                            fused=device.type == "cuda")
    steps = (len(train[1]) + a.batch - 1) // a.batch * a.epochs
    warm = int(0.1 * steps + 0.5)
    rate = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: (s + 1) / warm if s < warm else max(0, steps - s - 1) / (steps - warm))
    seconds, done, losses = [], 0, []
    for _ in range(a.epochs):
        batches = epoch_order(train[1], a.batch, 16, gen)
        wait(device)
        began = time.perf_counter()
        for pick in batches[: a.max_steps or None]:
            on_gpu = pick.to(device, non_blocking=True)
            with torch.autocast(device.type, torch.bfloat16):
                loss = F.cross_entropy(model(*inputs(train, pick, on_gpu)), train[2][on_gpu])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1)
            opt.step()
            opt.zero_grad(set_to_none=True)
            rate.step()
            losses.append(loss.detach())
            done += 1
        wait(device)
        seconds.append(time.perf_counter() - began)
    row = {"seed": seed, "batch": a.batch, "steps": done, "epoch_s": seconds, "loss": float(torch.stack(losses[-100:]).mean())}
    if test:
        began = time.perf_counter()
        row["accuracy"] = accuracy(model, test, device)
        row["eval_s"] = time.perf_counter() - began
    return row


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("train")
    ap.add_argument("test", nargs="?", help="without it: times only")
    ap.add_argument("--seeds", default="1")
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--lr", type=float, default=5e-5)
    ap.add_argument("--max-steps", type=int, default=0, help="of an epoch; 0: all")
    a = ap.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = json.load(open(os.path.join(a.train, "config.json")))
    limit = config["max_len"]
    began = time.perf_counter()
    train = read_texts(a.train, limit, device)
    test = read_texts(a.test, limit, device) if a.test else None
    weights = read_safetensors(os.path.join(a.train, "model.safetensors"))
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"PyTorch {torch.__version__}, {name}; read {len(train[1])} texts in {time.perf_counter() - began:.1f} s", file=sys.stderr)
    for seed in a.seeds.split(","):
        print(json.dumps(fine_tune(a, config, weights, train, test, int(seed), device)), flush=True)


if __name__ == "__main__":
    main()
