#!/usr/bin/env python3
"""tests/torture/torture.py STET PRELOAD [--quick|--kills N] [--only NAME] [--part I/N] - every command on the models of a small
demonstration, with its n-th allocation or system call failing, for n = 1, 2, ... until the command succeeds.

A failure is: a signal or a hang; an exit with 0 and another answer; an exit that blames the input or the command line; no
message; a file of the input that changed. See fail.c for how calls are made to fail, and for whose are left out."""

import argparse
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

FAULTS = ("malloc", "write", "fsync", "rename", "open", "read", "mmap", "thread", "close", "stat", "remove")  # alone, and with
# all that follow; and what is no fault: calls that do a part of the work, or are interrupted once
PARTS = ("short", "intr")
IO = "write+fsync+rename+open"


class Server:
    """The program with its arguments, ready to be run again and again."""

    def __init__(self, stet, preload, args):
        ask_r, ask_w = os.pipe()
        answer_r, answer_w = os.pipe()

        def wire():
            os.dup2(ask_r, 198)
            os.dup2(answer_w, 199)

        env = dict(os.environ, LD_PRELOAD=preload, TORTURE="1")
        self.process = subprocess.Popen([stet] + args, preexec_fn=wire, close_fds=False, env=env,
                                        stdin=subprocess.DEVNULL)
        os.close(ask_r)
        os.close(answer_w)
        self.ask, self.answer = os.fdopen(ask_w, "w"), os.fdopen(answer_r)

    def run(self, kinds, at, how):
        self.ask.write(f"{kinds} {at} {how}\n")
        self.ask.flush()
        status, made = map(int, self.answer.readline().split())
        return status, made

    def close(self):
        self.ask.close()
        self.process.wait()


def content(path):
    """Bytes of a file, or names and bytes of a folder."""
    if os.path.isdir(path):
        parts = [name.encode() + b"\0" + content(os.path.join(path, name)) for name in sorted(os.listdir(path))]
        return b"\0".join(parts)
    return open(path, "rb").read() if os.path.exists(path) else b"(none)"


def plain(data):
    """Without what differs from run to run."""
    data = re.sub(rb'"(\w*seconds|started|finished|date|ms|rate)": ?[-0-9.e+]+', b"", data)
    return re.sub(rb"[0-9.]+ (s|ms|seconds)\b", b"", data)


class Command:
    def __init__(self, name, args, makes=(), before=None, share=1, timed=False):
        self.name, self.args, self.makes, self.before = name, args.split(), makes, before
        self.share = share  # of the points, for what takes long
        self.timed = timed  # its files tell times: only that they are there is compared

    def clean(self):
        for path in self.makes:
            shutil.rmtree(path, ignore_errors=True)
            if os.path.lexists(path):
                os.unlink(path)
        if self.before:
            self.before()

    def result(self):
        if self.timed:
            return b" ".join(os.path.join(at, f).encode() for path in self.makes for at, _, files in sorted(os.walk(path))
                             for f in sorted(files))
        made = b"\0".join(plain(content(path)) for path in self.makes if not path.endswith(".log"))
        return plain(content("torture.out")) + made


def used_folder():
    shutil.copytree("standard", "again")


def half_folder():
    shutil.copytree("half-way", "half")


def half_log():
    open("out.jsonl", "w").writelines(open("whole.jsonl").readlines()[:2])


def commands():
    texts, model = "--data test.tsv --synonyms sets --limit 3", "standard"
    return [
        Command("version", "--version"),
        Command("help", "help train"),
        Command("man", "man"),
        Command("completion", "completion bash"),
        Command("info", "info --json"),
        Command("data-info", "data info test.tsv --json"),
        Command("data-convert", "data convert test.tsv out.jsonl -q", ["out.jsonl"]),
        Command("data-convert-gz", "data convert test.tsv out.jsonl.gz -q", ["out.jsonl.gz"]),
        Command("data-convert-xz", "data convert test.tsv.xz out.tsv.zst -q", ["out.tsv.zst"]),
        Command("synonyms-build", "synonyms build --neighbours words.json --symmetric -o built -q", ["built"]),
        Command("synonyms-vectors", "synonyms build --nearest vectors.txt --top 4 -o near -q", ["near"]),
        Command("synonyms-show", "synonyms show sets good --json"),
        Command("synonyms-stats", "synonyms stats sets --data test.tsv --json"),
        Command("tag", "tag run he finds a door"),
        Command("tag-train", "tag train --data bank.conllu --epochs 2 -o tagger.gz -q", ["tagger.gz"]),
        Command("tag-eval", "tag eval builtin bank.conllu --json"),
        Command("embed", "embed --data test.tsv --dim 8 --epochs 2 -o vec.txt -q", ["vec.txt"]),
        Command("train", "train --data small.tsv --vectors vectors.txt --epochs 2 --patience 0 --batch 16 -o fresh -q", ["fresh"]),
        Command("train-again", "train --data small.tsv --vectors vectors.txt --epochs 2 --patience 0 --batch 16 --seed 5 -o again -q",
                ["again"], before=used_folder),
        Command("train-sum", "train --data small.tsv --vectors vectors.txt --model sum --score-hidden 4 --epochs 1 --batch 16 -o added -q",
                ["added"]),
        Command("train-bilstm", "train --data small.tsv --vectors vectors.txt --model bilstm --hidden 4 --epochs 1 --batch 16 -o both -q",
                ["both"]),
        Command("train-s4", "train --data small.tsv --vectors vectors.txt --model s4 --channels 4 --state 4 --epochs 1 --batch 16 "
                "-o stated -q", ["stated"]),
        Command("train-certified", "train --data small.tsv --vectors vectors.txt --synonyms sets --word-scores --defense certified "
                "--filters 8 --epochs 1 --batch 16 -o proven -q", ["proven"]),
        Command("train-resume", "train --data small.tsv --vectors vectors.txt --epochs 3 --patience 0 --batch 16 --resume -o half -q",
                ["half"], before=half_folder),
        Command("train-defended", "train --data small.tsv --vectors vectors.txt --synonyms sets --smooth 4 --defense gbm "
                "--gbm-of logits --epochs 1 --batch 16 -o robust-fresh -q", ["robust-fresh"]),
        Command("train-bert", "train --data small.tsv --model bert --bert-layers 1 --bert-hidden 8 --bert-inner 8 --bert-pieces 60 "
                "--bert-positions 32 --max-len 32 --epochs 1 -o pieces -q", ["pieces"]),
        Command("train-taught", "train --data small.tsv --vectors vectors.txt --teacher standard --epochs 1 --batch 16 -o taught -q",
                ["taught"]),
        Command("bench-train", "bench train --data small.tsv --vectors vectors.txt --steps 2 --json"),
        Command("ensemble", "ensemble standard robust -o two -q", ["two"]),
        Command("data-get", "data get file:///proc/self/cwd/test.tsv.xz -o got -q", ["got"]),
        Command("eval", f"eval {model} --data test.tsv --limit 20 --no-record --json"),
        Command("eval-record", "eval again --data test.tsv --limit 20 --json", ["again"], before=used_folder),
        Command("try", f"try {model} --synonyms sets --time-limit 1000"),
        Command("predict", f"predict {model} --file tag.txt --json"),
        Command("predict-certify", f"predict {model} --certify --synonyms sets --file tag.txt --json"),
        Command("augment", f"augment {model} {texts} --attack pwws -o flipped.tsv -q", ["flipped.tsv"]),
        Command("attack", f"attack {model} {texts} --attack pwws,greedy --no-record --json --log out.jsonl --html page.html -q",
                ["out.jsonl", "page-pwws.html", "page-greedy.html"]),
        Command("certify", f"certify {model} {texts} --no-record --json -o out.cert -q", ["out.cert"]),
        Command("certify-record", f"certify again --data test.tsv --synonyms sets --limit 3 --json -o out.cert -q", ["again", "out.cert"],
                before=used_folder),
        Command("certify-export", f"certify {model} {texts} --no-record --json --export asked -q", ["asked"]),
        Command("verify-exact", "verify proved.cert --model robust --exact --json", share=0.3),
        Command("verify", "verify proved.cert --model robust --data test.tsv --synonyms sets --json"),
        Command("attack-record", f"attack again --data test.tsv --synonyms sets --limit 3 --attack ga,pso --json -q", ["again"],
                before=used_folder),
        Command("attack-resume", f"attack {model} {texts} --attack textfooler --no-record --json --log out.jsonl -q", ["out.jsonl"],
                before=half_log),
        Command("attack-victim", f"attack --victim-cmd ./victim.sh {texts} --attack pwws --no-record --json -q", share=0.2),
        Command("sandwich", f"sandwich {model} {texts} --attack pwws,greedy --json -q"),
        Command("inspect", f"inspect {model} --no-record --json"),
        Command("report", f"report {model} robust -o page.html -q", ["page.html"]),
        Command("report-markdown", f"report {model} robust --markdown"),
        Command("report-json", f"report {model} robust --json"),
        Command("demo", "demo --texts 200 --epochs 1 --limit 2 -o shown -q --json", ["shown"], share=0.02, timed=True),
        Command("sweep", "sweep -o swept --betas 0 --test test.tsv -q --json -- --data small.tsv --vectors vectors.txt "
                "--epochs 1 --batch 16", ["swept"], share=0.1, timed=True),
        Command("reproduce", "reproduce table1 --data small.tsv --test test.tsv --vectors vectors.txt --synonyms sets "
                "--paper-synonyms sets --models cnn --defenses standard --attacks pwws --limit 2 -o paper -q -- --epochs 1 --batch 16",
                ["paper"], share=0.05, timed=True),
    ]


VICTIM = """#!/bin/sh
# A program under attack: the first class, and a little surer of it the longer the request.
while read -r line; do
    n=$(printf '%s' "$line" | grep -o '","' | wc -l)
    row="[0.9,0.1]"
    rows=$row
    while [ "$n" -gt 0 ]; do rows="$rows,$row"; n=$((n - 1)); done
    echo "{\\"probabilities\\":[$rows]}"
done
"""


def set_up(stet, preload):
    """A small demonstration, and the files that the commands above speak of."""
    def run(*args):
        subprocess.run([stet, *args], check=True, stdout=subprocess.DEVNULL)

    run("demo", "--texts", "200", "--epochs", "1", "--limit", "4", "-o", "demo", "-q")
    for model in ("standard", "robust"):
        shutil.copytree(os.path.join("demo", model), model)
    shutil.copy("demo/synonyms.subst", "sets")
    shutil.copy("demo/vectors.txt", "vectors.txt")
    open("small.tsv", "w").writelines(open("demo/train.tsv").readlines()[:40])
    open("test.tsv", "w").writelines(open("demo/test.tsv").readlines()[:30])
    open("tag.txt", "w").write("a good film\nhe finds a door behind the wall\n")
    open("words.json", "w").write('{"good": ["fine", "great"], "bad": ["poor", "awful"], "old": ["elderly"]}')
    open("bank.conllu", "w").write("".join(f"{i}\t{w}\t_\t_\t{t}\t_\t_\t_\t_\t_\n" for i, (w, t) in enumerate(
        (("He", "PRP"), ("finds", "VBZ"), ("a", "DT"), ("door", "NN"), (".", ".")), 1)) + "\n")
    run("data", "convert", "test.tsv", "test.tsv.xz", "-q")
    open("victim.sh", "w").write(VICTIM)
    os.chmod("victim.sh", 0o755)
    shutil.copy("tag.txt", "torture.in")
    train = Server(stet, preload, "train --data small.tsv --vectors vectors.txt --epochs 3 --patience 0 --batch 16 -o half-way -q".split())
    _, made = train.run(IO, 0, "fail")
    shutil.rmtree("half-way")
    train.run(IO, made * 2 // 3, "kill")
    train.close()
    run("attack", "standard", "--data", "test.tsv", "--synonyms", "sets", "--limit", "3", "--attack", "textfooler", "--no-record",
        "--log", "whole.jsonl", "-q")
    run("certify", "robust", "--data", "test.tsv", "--synonyms", "sets", "--limit", "3", "--no-record", "-o", "proved.cert", "-q")


def judge(command, status, reference, part=False):
    if os.WIFSIGNALED(status):
        return f"signal {signal.Signals(os.WTERMSIG(status)).name}"
    code = os.WEXITSTATUS(status)
    err = content("torture.err").decode(errors="replace").strip()
    if code == 0:
        if "warning: results not kept" in err: # said, and nothing printed is wrong
            return None
        if command.result() != reference:
            return "exit 0 and another answer"
    elif part:
        return f"exit {code} where nothing failed: {err[-200:]}"
    elif code != 1:
        return f"exit {code}: {err[-200:]}"
    elif not err:
        return "no message"
    return None


KEEP = ["standard", "robust", "test.tsv", "small.tsv", "sets", "vectors.txt", "words.json", "proved.cert", "tag.txt", "half-way",
        "whole.jsonl"]


def fingerprint():
    return {path: hashlib.sha256(content(path)).digest() for path in KEEP}


def points(made, most):  # of one kind of call
    """1, 2, ..., made; where that is too many, `most` of them, spread evenly from the first to the last."""
    if made <= most:
        return range(1, made + 1)
    return [1 + i * (made - 1) // (most - 1) for i in range(most)]


def walk(stet, preload, command, most, totals):
    command.clean()
    server = Server(stet, preload, command.args)
    status, _ = server.run("none", 0, "fail")
    reference, inputs, bad = command.result(), fingerprint(), 0
    if status != 0:
        print(f"{command.name}: fails by itself ({status}): {content('torture.err')[:300]!r}")
        return 1
    for kind in FAULTS + PARTS:
        command.clean()
        _, made = server.run(kind, 0, "fail")
        for how in ("fail", "rest") if kind != "intr" else ("fail",):
            for n in points(made, max(int(command.share * (most if kind == "malloc" else max(most // 4, 2))), 2)):
                command.clean()
                status, _ = server.run(kind, n, how)
                totals[kind] = totals.get(kind, 0) + 1
                why = judge(command, status, reference, kind in PARTS)
                if why:
                    bad += 1
                    if bad <= 20:
                        print(f"{command.name}: {kind} {n} of {made} {how}: {why}", flush=True)
            if inputs != fingerprint():
                bad += 1
                print(f"{command.name}: {kind} {how}: an input file changed")
                inputs = fingerprint()
    server.close()
    command.clean()
    return bad


def kills(stet, preload, count, totals):
    """kill -9 at every I/O call of a training, fresh and in a used folder: the folder holds the old model, the new one or
    none, and the same command ends in the same bytes."""
    bad = 0
    for command in [c for c in commands() if c.name in ("train", "train-again")]:
        command.args[command.args.index("--epochs") + 1] = "14"
        folder = command.makes[0]
        show = lambda: subprocess.run([stet, "predict", folder, "--json", "a fine film"], capture_output=True).stdout
        weights = lambda: content(os.path.join(folder, "model.safetensors"))
        command.clean()
        old = show()
        server = Server(stet, preload, command.args)
        _, made = server.run(IO, 0, "fail")
        new, end = show(), weights()
        seen = set()
        for n in points(made, count // 2):
            command.clean()
            status, _ = server.run(IO, n, "kill")
            totals["kill"] = totals.get("kill", 0) + 1
            # a kill may come between the epochs' saves: any answer of a whole model is right, a mixed one does not load
            now = subprocess.run([stet, "predict", folder, "--json", "a fine film"], capture_output=True)
            seen.add("old" if now.stdout == old else "new" if now.stdout == new else "an epoch between" if now.returncode == 0 else "none")
            loads = now.returncode == 0 or not os.path.exists(os.path.join(folder, "config.json"))
            again = subprocess.run([stet, *command.args], capture_output=True)
            left = [f for f in os.listdir(folder) if ".tmp-" in f]
            if not loads or again.returncode != 0 or weights() != end or left:
                bad += 1
                print(f"{command.name}: killed at {n} of {made}: loads {loads} ({now.stderr[-150:]!r}), "
                      f"again {again.returncode} {again.stderr[-150:]!r}, same {weights() == end}, left {left}")
        server.close()
        print(f"{command.name}: killed at {len(points(made, count // 2))} of {made} calls; found {sorted(seen)}")
    return bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument("stet")
    p.add_argument("preload")
    p.add_argument("--quick", action="store_true", help="a few points of each command")
    p.add_argument("--most", type=int, default=2000, help="points of a command and kind of call")
    p.add_argument("--kills", type=int, default=500)
    p.add_argument("--only", help="the command of this name")
    p.add_argument("--part", default="1/1", metavar="I/N", help="every N-th command from the I-th on: N walks side by side are one")
    a = p.parse_args()
    stet, preload = os.path.abspath(a.stet), os.path.abspath(a.preload)
    os.environ.update(OMP_NUM_THREADS="1", LC_ALL="C")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where fsync costs nothing
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        os.chdir(folder)
        set_up(stet, preload)
        totals, bad = {}, 0
        first, step = map(int, a.part.split("/"))
        for command in commands()[first - 1 :: step]:
            if command.name != a.only if a.only else a.quick and command.share < 1:
                continue
            before = sum(totals.values())
            found = walk(stet, preload, command, 5 if a.quick else a.most, totals)
            print(f"{command.name}: {sum(totals.values()) - before} points, {f'{found} FAILURES' if found else 'ok'}", flush=True)
            bad += found
        if (not a.only or a.only == "kills") and first == 1:
            bad += kills(stet, preload, 12 if a.quick else a.kills, totals)
        os.chdir("/")
    print(f"{sum(totals.values())} points:", ", ".join(f"{n} {k}" for k, n in totals.items()), f"; {bad} failures")
    return bad > 0


sys.exit(main())
