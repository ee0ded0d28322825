#!/usr/bin/env python3
"""BERT in stet beside transformers and PyTorch: the same logits, the same steps of training, and the time of both.

    python3 bench/bert_vs_torch.py build/release/stet --init FOLDER --data train.tsv.xz [--texts test.tsv] [--steps 4]
            [--batch 16] [--max-len 256] [--threads 2] [--shuffle plain|pool] [--json]

`stet bench train --dump` writes the model with its new classifier and the batches. transformers loads that folder, so saving is
tried too. First 100 reviews (`--texts`, label<TAB>text): its own tokeniser, padding and attention, against `stet predict`; then
the steps, with AdamW, two groups and clipping, losses compared before times. PyTorch's dropout is off, as is ours. Padding is to
the longest text of a batch; `--shuffle pool` sorts by length in pools of 16 batches, which is stet's default and spares it most.
Times: the wall's, and processor time of all threads, which a busy machine does not spoil. Exits with 77 without PyTorch.
"""
import argparse
import json
import math
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time

try:
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)
from torch.nn import functional as F


def texts_of(path, n):
    """Texts without <br />, which stet reads as white space, and their lines as stet wants them."""
    lines = open(path, encoding="utf-8").read().split("\n")[:n]
    return [re.sub(r"<br\s*/?>", " ", line.split("\t", 1)[1]) for line in lines if "\t" in line]


def compare_logits(stet, folder, path, n, threads):
    texts = texts_of(path, n)
    out = subprocess.run([stet, "predict", folder, "--json", "-q", "--threads", str(threads)], input="\n".join(texts).encode(),
                         check=True, stdout=subprocess.PIPE).stdout
    ours = [list(json.loads(line)["probabilities"].values()) for line in out.decode().splitlines()]
    assert len(ours) == len(texts)
    tokens = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    limit = json.load(open(os.path.join(folder, "config.json")))["max_len"]
    worst = 0
    with torch.no_grad():
        for text, p in zip(texts, ours):
            x = tokens(text, truncation=True, max_length=limit, split_special_tokens=True, return_tensors="pt")
            want = F.softmax(model(**x).logits[0].double(), 0)
            worst = max(worst, max(abs(math.log(a) - math.log(b.item())) for a, b in zip(p, want)))
    return len(texts), worst


def groups(model, decay):
    bare = [p for n, p in model.named_parameters() if n.endswith(".bias") or "LayerNorm" in n]
    rest = [p for n, p in model.named_parameters() if not (n.endswith(".bias") or "LayerNorm" in n)]
    return [{"params": rest, "weight_decay": decay}, {"params": bare, "weight_decay": 0}]


def torch_steps(folder, steps, rate):
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()  # eval: no dropout
    limit = json.load(open(os.path.join(folder, "config.json")))["max_len"]
    words = open(os.path.join(folder, "vocab.txt"), encoding="utf-8").read().split("\n")
    first, last = words.index("[CLS]"), words.index("[SEP]")
    b = load_file(os.path.join(folder, "batches.safetensors"))
    opt = torch.optim.AdamW(groups(model, 0.01), lr=rate)
    losses, wall, cpu, pieces, padded = [], [], [], 0, 0
    for s in range(steps):
        begin, end = b["batch"][s].item(), b["batch"][s + 1].item()
        ids = [[first] + b["ids"][b["text"][i] : b["text"][i + 1]].tolist()[: limit - 2] + [last] for i in range(begin, end)]
        longest = max(len(t) for t in ids)
        pieces, padded = pieces + sum(len(t) for t in ids), padded + longest * len(ids)
        x = torch.tensor([t + [0] * (longest - len(t)) for t in ids])
        mask = torch.tensor([[1] * len(t) + [0] * (longest - len(t)) for t in ids])
        label = b["label"][begin:end].long()
        t0, c0 = time.perf_counter(), time.process_time()
        loss = F.cross_entropy(model(input_ids=x, attention_mask=mask).logits, label)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        opt.step()
        wall.append(time.perf_counter() - t0)
        cpu.append(time.process_time() - c0)
        losses.append(loss.item())
    skip = 1 if steps > 1 else 0  # the first step warms up
    n = steps - skip
    return losses, sum(wall[skip:]) / n, sum(cpu[skip:]) / n, pieces, padded


def stet_steps(a, steps, dump):
    cmd = [a.stet, "bench", "train", "--model", "bert", "--init", a.init, "--data", a.data, "--steps", str(steps), "--dropout", "0",
           "--schedule", "constant", "--lr", str(a.lr), "--batch", str(a.batch), "--max-len", str(a.max_len), "--threads",
           str(a.threads), "--length-pool", "1" if a.shuffle == "plain" else "16", "--json", "-q"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(cmd + (["--dump", dump] if dump else []), check=True, stdout=subprocess.PIPE).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(out), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("stet")
    ap.add_argument("--init", required=True)
    ap.add_argument("--data", required=True)
    ap.add_argument("--texts")
    ap.add_argument("--n-texts", type=int, default=100)
    ap.add_argument("--steps", type=int, default=4, help="steps that both take")
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--max-len", type=int, default=256)
    ap.add_argument("--lr", type=float, default=2e-5)
    ap.add_argument("--shuffle", choices=["plain", "pool"], default="plain")
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--json", action="store_true")
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    print(f"{platform.processor() or platform.machine()}, {a.threads} threads, PyTorch {torch.__version__}", file=sys.stderr)
    row = {"batch": a.batch, "max_len": a.max_len, "shuffle": a.shuffle, "threads": a.threads, "steps": a.steps}
    with tempfile.TemporaryDirectory() as folder:
        _, one = stet_steps(a, 1, None)
        ours, all_cpu = stet_steps(a, a.steps + 1, folder)
        if a.texts:
            row["texts"], row["logit_difference"] = compare_logits(a.stet, folder, a.texts, a.n_texts, a.threads)
            print(f"logits of {row['texts']} texts agree to {row['logit_difference']:.1e}", file=sys.stderr)
            if row["logit_difference"] > 1e-4:
                sys.exit("the logits differ: nothing to time")
        losses, wall, cpu, pieces, padded = torch_steps(folder, a.steps + 1, a.lr)
    worst = max(abs(x - y) for x, y in zip(ours["losses"], losses))
    if worst > 1e-3:
        sys.exit(f"losses differ by {worst:.2g}: {ours['losses'][:len(losses)]} against {losses}")
    row.update(stet_s=ours["seconds"] / ours["steps"], torch_s=wall, stet_cpu_s=(all_cpu - one) / a.steps, torch_cpu_s=cpu,
               loss_difference=worst, padding=padded / pieces)
    row["ratio"], row["cpu_ratio"] = row["torch_s"] / row["stet_s"], row["torch_cpu_s"] / row["stet_cpu_s"]
    if a.json:
        print(json.dumps(row))
    else:
        print(f"a step: stet {row['stet_s']:.2f} s, PyTorch {wall:.2f} s: {row['ratio']:.2f}x; processor time {row['stet_cpu_s']:.2f} s and "
              f"{cpu:.2f} s: {row['cpu_ratio']:.2f}x (losses agree to {worst:.1e}; padding costs PyTorch {row['padding']:.2f}x)")


if __name__ == "__main__":
    main()
