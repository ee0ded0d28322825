#!/usr/bin/env python3
"""A classifier in PyTorch attacked from Python and through the pipe, on the same weights and texts, in one run on one machine.

    python3 bench/victim_vs_pipe.py build/release/stet RUN --data test.tsv --synonyms words.subst [--attack pwws] [--texts 200]
            [--old OLDER_STET] [--torch-threads N] [--repeat 3] [--json]

RUN is a TextCNN or BiLSTM of `stet train`, which PyTorch loads (model.safetensors). The ways are `stet attack --victim-cmd`, a
program that speaks JSON lines, with one process for each core; the same of an older stet, if one is given; and stet.attack(module,
...). All three end in the same class and the same function from texts to probabilities. Every way is taken --repeat times, in turn;
the time is the shortest. Starting PyTorch is left out: a pipe's time is from its first question to its last answer, a Python call's
is the call. Processor time, of the program behind the pipe or of Python, is for machines that others use as well. The outcomes are compared first. Needs the package stet (PYTHONPATH=python STET_LIBRARY=build/release/libstet.so will do);
exits with 77 where it or PyTorch is not installed.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import train_vs_torch  # exits with 77 without PyTorch
from train_vs_torch import MODELS, load_file, torch

try:
    import stet
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)


class Victim(torch.nn.Module):
    def __init__(self, folder):
        super().__init__()
        with open(os.path.join(folder, "config.json")) as f:
            config = json.load(f)
        self.max_len = config["max_len"]
        self.model = MODELS[config["model"]][0](load_file(os.path.join(folder, "model.safetensors"))).eval()
        with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as f:
            self.id = {w.rstrip("\n"): i for i, w in enumerate(f)}

    def encode(self, texts):
        unknown = self.id["<unk>"]
        return [torch.tensor([self.id.get(w, unknown) for w in stet.tokenize(t)[: self.max_len]]) for t in texts]

    def forward(self, ids):
        return self.model(ids)


def serve(folder, threads, times):
    """The program at the other end of the pipe. `times` is a folder for when it began and ended, by the clock and by processor time."""
    if threads:
        torch.set_num_threads(threads)
    victim, start = Victim(folder), None
    for line in sys.stdin:
        start = start or (time.time(), time.process_time())
        with torch.inference_mode():
            prob = torch.softmax(victim(victim.encode(json.loads(line)["texts"])).double(), 1)
        answer, mine = json.dumps({"probabilities": prob.tolist()}), os.path.join(times, str(os.getpid()))
        with open(mine + ".new", "w") as out:  # once answered, it may be killed
            print(*start, time.time(), time.process_time(), file=out)
        os.replace(mine + ".new", mine)
        print(answer, flush=True)


def by_pipe(program, a, data):
    with tempfile.TemporaryDirectory() as tmp:
        log = os.path.join(tmp, "log")
        os.mkdir(os.path.join(tmp, "times"))
        victim = f"exec {sys.executable} {os.path.abspath(__file__)} --serve {os.path.abspath(a.run)} {a.torch_threads} {tmp}/times"
        subprocess.run([program, "attack", "--victim-cmd", victim, "--data", data, "--synonyms", a.synonyms, "--attack", a.attack,
                        "--log", log, "--victim-timeout", "300", "-q"], check=True, stdout=subprocess.DEVNULL)
        seen = [[float(x) for x in open(f"{tmp}/times/{name}").read().split()] for name in os.listdir(f"{tmp}/times")]
        with open(log) as f:
            outcomes = [json.loads(line)["outcome"] for line in list(f)[1:]]
    return max(s[2] for s in seen) - min(s[0] for s in seen), sum(s[3] - s[1] for s in seen), outcomes


def by_python(victim, a, texts, labels):
    start, cpu = time.perf_counter(), time.process_time()
    results = stet.attack(victim, texts, labels, synonyms=a.synonyms, attack=a.attack, encode=victim.encode)
    return time.perf_counter() - start, time.process_time() - cpu, [r.outcome for r in results]


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("stet")
    ap.add_argument("run")
    ap.add_argument("--data", required=True)
    ap.add_argument("--synonyms", required=True)
    ap.add_argument("--attack", default="pwws")
    ap.add_argument("--texts", type=int, default=200)
    ap.add_argument("--old", help="an older stet, to compare its pipe")
    ap.add_argument("--torch-threads", type=int, default=0, help="0: as PyTorch has it")
    ap.add_argument("--repeat", type=int, default=3)
    ap.add_argument("--json", action="store_true")
    a = ap.parse_args()
    if a.torch_threads:
        torch.set_num_threads(a.torch_threads)
    texts, labels, classes = stet.read(a.data)
    texts, labels = texts[: a.texts], labels[: a.texts]
    victim = Victim(a.run)
    best, outcomes = {}, {}
    with tempfile.TemporaryDirectory() as tmp:
        data = os.path.join(tmp, "texts.tsv")
        with open(data, "w", encoding="utf-8") as f:
            f.writelines(f"{classes[y]}\t{t}\n" for t, y in zip(texts, labels))
        ways = {"python": lambda: by_python(victim, a, texts, labels), "pipe": lambda: by_pipe(a.stet, a, data)}
        if a.old:
            ways["old pipe"] = lambda: by_pipe(a.old, a, data)
        for _ in range(a.repeat):
            for way, go in ways.items():
                seconds, cpu, outcomes[way] = go()
                best[way] = [min(x) for x in zip((seconds, cpu), best.get(way, (seconds, cpu)))]
    for way, seen in outcomes.items():
        if seen != outcomes["python"]:
            sys.exit(f"{way} and Python differ on {sum(x != y for x, y in zip(seen, outcomes['python']))} texts")
    rows = [{"way": way, "attack": a.attack, "texts": len(texts), "torch_threads": torch.get_num_threads(),
             "texts_per_second": len(texts) / s, "cpu_ms_per_text": 1e3 * cpu / len(texts),
             "ratio": s / best["python"][0], "ratio_cpu": cpu / best["python"][1]} for way, (s, cpu) in best.items()]
    for r in rows:
        print(json.dumps(r) if a.json else f"{r['way']:9s} {r['texts_per_second']:7.1f} texts/s, {r['cpu_ms_per_text']:7.1f} ms of "
              f"processor time a text; Python is {r['ratio']:.1f} times as fast, {r['ratio_cpu']:.1f} by processor time")
    return None


if __name__ == "__main__":
    sys.exit(main())
