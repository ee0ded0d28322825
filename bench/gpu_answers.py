#!/usr/bin/env python3
"""Attacks, certificates, predictions and evaluation of one model, on the GPU and on all cores of the same machine.

    python3 bench/gpu_answers.py MODEL DATA SYNONYMS [--stet build/cuda/stet] [--attacks pwws] [--texts 1000]
                                 [--cpu-texts N] [--methods ibp] [--certify N] [--device cuda]

First the answers: outcome, queries and adversarial text of every attacked text, and every claim of the certificates, must be
the same on both; the program ends with 1 where they are not. Then one line of JSON for each command: wall, user and system
seconds of the whole command, and "seconds", the time that it gives itself, which has no reading of model and data in it. The line with
one text is what a command costs before its first text. --cpu-texts: attack fewer texts on the CPU (the first ones);
--certify: certify so many texts (all of DATA unless given; the files that are compared are of 500). Ends with 77 without a GPU."""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

CERTIFIED_IN_FILES = 500


def run(stet, *args):
    """Its standard output, and what it cost."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([stet, *map(str, args)], stdout=subprocess.PIPE, check=False)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"gpu_answers: {' '.join(map(str, args))}: exit {done.returncode}")
    cost = {"wall": wall, "user": after.ru_utime - before.ru_utime, "system": after.ru_stime - before.ru_stime}
    return done.stdout, {k: round(v, 3) for k, v in cost.items()}


def tell(name, device, texts, cost, line=None):
    out = {"name": name, "device": device, "texts": texts, **cost}
    if line is not None:
        out["seconds"] = round(json.loads(line.splitlines()[-1])["seconds"], 3)
    print(json.dumps(out), flush=True)


def answers_of(path, number, keys):
    """{text: what the log or the file says of it}; the first line is its head."""
    with open(path) as f:
        lines = [json.loads(line) for line in list(f)[1:]]
    return {o[number]: [o.get(k) for k in keys] for o in lines if number in o}


def same(what, one, other):
    shared = one.keys() & other.keys()
    wrong = [i for i in sorted(shared) if one[i] != other[i]]
    if wrong or not shared:
        sys.exit(f"gpu_answers: {what}: {len(wrong)} of {len(shared)} texts differ: {wrong[:10]}")
    print(f"{what}: the same answers to {len(shared)} texts", file=sys.stderr)


def attacks(a, common, folder):
    for name in a.attacks.split(","):
        logs = []
        for device, texts in ((a.device, 1), (a.device, a.texts), (a.device, a.cpu_texts), ("cpu", a.cpu_texts)):
            logs.append(os.path.join(folder, f"{name}-{len(logs)}.jsonl"))
            out, cost = run(a.stet, "attack", a.model, *common, "--attack", name, "--limit", texts, "--device", device,
                            "--seed", 1, "--log", logs[-1])
            tell(name, device, texts, cost, out)
        keys = ("outcome", "queries", "adversarial")
        same(name, answers_of(logs[2], "index", keys), answers_of(logs[3], "index", keys))


def certificates(a, common, folder):
    limit = ["--limit", a.certify] if a.certify else []
    for name in a.methods.split(","):
        args = ["certify", a.model, *common, "--method", name]
        files = []
        for device in (a.device, "cpu"):
            files.append(os.path.join(folder, f"{name}-{len(files)}.cert"))
            run(a.stet, *args, "--limit", CERTIFIED_IN_FILES, "--device", device, "-o", files[-1])
        keys = ("verdict", "claims")
        same(name, answers_of(files[0], "text", keys), answers_of(files[1], "text", keys))
        for device, some in ((a.device, ["--limit", 1]), (a.device, limit), ("cpu", limit)):
            out, cost = run(a.stet, *args, *some, "--device", device)
            tell(name, device, json.loads(out.splitlines()[-1])["n"], cost, out)


def predictions(a):
    with open(a.data, "rb") as f:
        texts = sum(1 for _ in f)
    for device in (a.device, "cpu"):
        out, cost = run(a.stet, "predict", a.model, "--file", a.data, "--json", "--device", device)
        if out.count(b"\n") != texts:
            sys.exit(f"gpu_answers: predict: {out.count(bytes([10]))} answers to {texts} texts")
        tell("predict", device, texts, cost)
        _, cost = run(a.stet, "eval", a.model, "--data", a.data, "--json", "--no-record", "--device", device)
        tell("eval", device, texts, cost)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("data")
    p.add_argument("synonyms")
    p.add_argument("--stet", default="build/cuda/stet")
    p.add_argument("--attacks", default="pwws")
    p.add_argument("--texts", type=int, default=1000)
    p.add_argument("--cpu-texts", type=int)
    p.add_argument("--methods", default="ibp")
    p.add_argument("--certify", type=int)
    p.add_argument("--device", default="cuda")
    a = p.parse_args()
    a.cpu_texts = min(a.cpu_texts or a.texts, a.texts)
    machine = json.loads(run(a.stet, "info", "--json")[0])
    if a.device == "cuda" and machine["gpu"].startswith("none"):
        print("skipped: no GPU: " + machine["gpu"], file=sys.stderr)
        sys.exit(77)
    print(json.dumps({k: machine[k] for k in ("version", "compiler", "simd", "threads", "gpu")}), flush=True)
    common = ["--data", a.data, "--synonyms", a.synonyms, "--json", "--no-record", "-q"]
    with tempfile.TemporaryDirectory() as folder:
        if a.attacks:
            attacks(a, common, folder)
        if a.methods:
            certificates(a, common, folder)
    predictions(a)


if __name__ == "__main__":
    main()
