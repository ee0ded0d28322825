#!/usr/bin/env python3
"""Attacks of stet and of OpenAttack on the same weights, texts and candidates, in one run on one machine.

    python3 bench/attack_vs_python.py build/release/stet RUN... --data test.tsv.xz --neighbours counterfitted_neighbors.json.xz
            [--attacks pwws,textfooler] [--texts 12] [--repeat 20] [--batch 32] [--threads 2] [--seed 1] [--json]

RUN is a folder of `stet train` (CNN or BiLSTM). OpenAttack (pip install OpenAttack) runs its own PWWSAttacker and TextFoolerAttacker;
this script gives them a victim (the model in PyTorch, model.safetensors; every list of texts that the attacker asks is evaluated in
batches of --batch, 1 being one text a forward pass, as many scripts have it), a substitute (the neighbour file) and a tokeniser (white space). No stop words on either side. TextFooler's sentence encoder and
tags are off on both sides: every candidate is similar and of the right part of speech.

Texts are reviews reduced to lower-case words, cut at the model's length, so that both sides read the same tokens. First the probabilities
of both are compared, then the attacks' verdicts, changed words and queries, then the time of all attacks on the texts that are classified
right. stet attacks the texts --repeat times over, because its start (one product over the vocabulary) would otherwise outweigh so
few texts; that start is in its wall time. Neither side keeps anything from one text for the next. Processor time is for machines that
others use as well: of stet, what the repeats after the first cost; of Python, what the attacks cost. Take it with --threads 1.
Exits with 77 where PyTorch or OpenAttack is not installed.
"""
import argparse
import json
import lzma
import os
import platform
import random
import re
import resource
import subprocess
import sys
import tempfile
import time

from train_vs_torch import MODELS, Batch, load_file, torch  # exits with 77 without PyTorch

try:
    import OpenAttack
    from OpenAttack.attackers import textfooler
    from OpenAttack.exceptions import WordNotInDictionaryException
    from OpenAttack.tags import TAG_English
    from OpenAttack.text_process.tokenizer import Tokenizer
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)


class Words(Tokenizer):
    TAGS = {TAG_English}

    def do_tokenize(self, x, pos_tagging=True):
        return [(w, "other") for w in x.split()] if pos_tagging else x.split()

    def do_detokenize(self, x):
        return " ".join(x)


class Neighbours(OpenAttack.substitute.word.WordSubstitute):
    TAGS = {TAG_English}

    def __init__(self, lists):
        self.lists = lists

    def substitute(self, word, pos):
        if not self.lists.get(word):
            raise WordNotInDictionaryException()
        return [(w, 1.0) for w in self.lists[word]]


class AlwaysAlike:
    """In place of the Universal Sentence Encoder, which would have to be downloaded."""

    TAGS = {TAG_English}

    def calc_score(self, a, b):
        return 1.0


class Victim(OpenAttack.Classifier):
    def __init__(self, folder, batch):
        self.batch = batch
        config = json.load(open(os.path.join(folder, "config.json")))
        self.max_len = config["max_len"]
        self.model = MODELS[config["model"]][0](load_file(os.path.join(folder, "model.safetensors"))).eval()
        with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as f:
            self.id = {w.rstrip("\n"): i for i, w in enumerate(f)}
        self.unknown = self.id["<unk>"]
        self.queries = 0

    @torch.no_grad()
    def get_prob(self, texts):
        self.queries += len(texts)
        ids = [torch.tensor([self.id.get(w, self.unknown) for w in t.split()[: self.max_len]]) for t in texts]
        parts = [self.model(Batch(ids[i : i + self.batch])) for i in range(0, len(ids), self.batch)]
        return torch.softmax(torch.cat(parts), 1).numpy()

    def get_pred(self, texts):
        return self.get_prob(texts).argmax(1)


def read_texts(path, n, longest, seed):
    with (lzma.open(path, "rt", encoding="utf-8") if path.endswith(".xz") else open(path, encoding="utf-8")) as f:
        rows = [line.rstrip("\n").split("\t", 1) for line in f]
    out = []
    for label, text in random.Random(seed).sample(rows, n):
        words = re.findall("[a-z]+", text.replace("<br", " ").lower())
        out.append((int(label), " ".join(words[:longest])))
    return out


def run_stet(stet, folder, texts, repeat, attack, sets, threads):
    with tempfile.TemporaryDirectory() as tmp:
        data, log = os.path.join(tmp, "texts.tsv"), os.path.join(tmp, "log.jsonl")
        with open(data, "w") as f:
            for _ in range(repeat):
                f.writelines(f"{label}\t{text}\n" for label, text in texts)
        cmd = [stet, "attack", folder, "--data", data, "--synonyms", sets, "--attack", attack, "--profile", "openattack",
               "--threads", str(threads), "--log", log, "--no-record", "--json", "-q"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = json.loads(subprocess.run(cmd, check=True, stdout=subprocess.PIPE).stdout)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        out["cpu"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        lines = [json.loads(line) for line in open(log)][1:]
    return out, [r for r in lines if r["index"] < len(texts)]


def run_openattack(attack, victim, sets, texts):
    tools = {"tokenizer": Words(), "substitute": Neighbours(sets), "filter_words": []}
    textfooler.UniversalSentenceEncoder = AlwaysAlike
    attacker = {"pwws": OpenAttack.attackers.PWWSAttacker, "textfooler": OpenAttack.attackers.TextFoolerAttacker}[attack](**tools)
    rows, seconds, cpu = [], 0.0, 0.0
    for label, text in texts:
        if victim.get_pred([text])[0] != label:
            rows.append(None)
            continue
        victim.queries = 0
        start, start_cpu = time.perf_counter(), time.process_time()
        found = attacker(victim, {"x": text, "y": label})
        seconds += time.perf_counter() - start
        cpu += time.process_time() - start_cpu
        changed = sum(a != b for a, b in zip(text.split(), found.split())) if found else 0
        rows.append((found is not None, changed, victim.queries))
    return rows, seconds, cpu


def compare(a, folder, attack, sets, texts):
    kind = json.load(open(os.path.join(folder, "config.json")))["model"]
    victim = Victim(folder, a.batch)
    once, lines = run_stet(a.stet, folder, texts, 1, attack, a.neighbours, a.threads)
    prob = victim.get_prob([t for _, t in texts])
    worst = max(abs(prob[i][texts[i][0]] - r["before"]) for i, r in enumerate(lines))
    if worst > 1e-4:
        sys.exit(f"{kind}: probabilities differ by {worst:.2g}")
    theirs, seconds, cpu = run_openattack(attack, victim, sets, texts)
    many, _ = run_stet(a.stet, folder, texts, a.repeat, attack, a.neighbours, a.threads)
    right = [i for i, t in enumerate(theirs) if t]
    ours = [lines[i]["outcome"] == "success" for i in right]
    same = sum(ours[k] == theirs[i][0] and lines[i]["changed"] == theirs[i][1] for k, i in enumerate(right))
    n = len(right)
    per_text = many["seconds"] / a.repeat / n
    cpu_per_text = (many["cpu"] - once["cpu"]) / (a.repeat - 1) / n
    return {"model": kind, "attack": attack, "batch": a.batch, "threads": a.threads, "texts": len(texts), "right": n, "probabilities_differ": float(worst),
            "words_mean": sum(len(texts[i][1].split()) for i in right) / n,
            "stet_aua": once["aua"], "openattack_aua": sum(not theirs[i][0] for i in right) / len(texts), "same_result": same,
            "stet_queries": once["queries_mean"], "openattack_queries": sum(theirs[i][2] for i in right) / n,
            "stet_s_per_text": per_text, "stet_once_s_per_text": once["seconds"] / n, "openattack_s_per_text": seconds / n,
            "ratio": seconds / n / per_text, "ratio_once": seconds / once["seconds"],
            "stet_cpu_s_per_text": cpu_per_text, "openattack_cpu_s_per_text": cpu / n, "ratio_cpu": cpu / n / cpu_per_text}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("stet")
    ap.add_argument("run", nargs="+")
    ap.add_argument("--data", required=True)
    ap.add_argument("--neighbours", required=True, help="JSON map of words, plain or .xz")
    ap.add_argument("--attacks", default="pwws,textfooler")
    ap.add_argument("--texts", type=int, default=12)
    ap.add_argument("--repeat", type=int, default=20, help="at least 2")
    ap.add_argument("--batch", type=int, default=32, help="of PyTorch")
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--json", action="store_true")
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    with (lzma.open if a.neighbours.endswith(".xz") else open)(a.neighbours, "rt", encoding="utf-8") as f:
        sets = json.load(f)
    print(f"{platform.processor() or platform.machine()}, {a.threads} threads, PyTorch {torch.__version__}, "
          f"OpenAttack {OpenAttack.__version__}", file=sys.stderr)
    for folder in a.run:
        longest = json.load(open(os.path.join(folder, "config.json")))["max_len"]
        texts = read_texts(a.data, a.texts, longest, a.seed)
        for attack in a.attacks.split(","):
            r = compare(a, folder, attack, sets, texts)
            if a.json:
                print(json.dumps(r), flush=True)
                continue
            print(f"{r['model']:7s}{attack:11s} {r['right']} texts of {r['words_mean']:.0f} words: stet {1e3 * r['stet_s_per_text']:.2f} ms, OpenAttack "
                  f"{1e3 * r['openattack_s_per_text']:.0f} ms a text: {r['ratio']:.0f}x, {r['ratio_cpu']:.0f}x of processor time; AUA {100 * r['stet_aua']:.1f} and "
                  f"{100 * r['openattack_aua']:.1f}, {r['same_result']} of {r['right']} with the same verdict and changed words, "
                  f"{r['stet_queries']:.0f} and {r['openattack_queries']:.0f} queries, probabilities agree to {r['probabilities_differ']:.0e}", flush=True)


if __name__ == "__main__":
    main()
