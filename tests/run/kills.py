#!/usr/bin/env python3
"""kills.py STET [N] - kill -9 at N random moments each of `certify -o` and `attack --log`, until the work is done, again and
again: the file that comes out in the end is byte for byte that of an undisturbed run. Also shards: their logs, one after
the other, are the log of the whole."""
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

stet, kills = str(Path(sys.argv[1]).resolve()), int(sys.argv[2]) if len(sys.argv) > 2 else 10
chance = random.Random(7)
tmp = tempfile.TemporaryDirectory()
work = Path(tmp.name)


def run(*args):
    done = subprocess.run([stet, *args], cwd=work, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAIL: stet {' '.join(args)}: {done.stderr}")
    return done.stdout


def killed(args, seconds):
    """Runs it for that long; True if it had to be killed."""
    p = subprocess.Popen([stet, *args], cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, err = p.communicate(timeout=seconds)
        if p.returncode != 0:
            sys.exit(f"FAIL: stet {' '.join(args)}: {err.decode()}")
        return False
    except subprocess.TimeoutExpired:
        p.kill()
        p.communicate()
        return True


run("demo", "--texts", "400", "--epochs", "3", "--limit", "5", "-o", "d", "-q")
source = ["--data", "d/train.tsv", "--synonyms", "d/synonyms.subst", "-q", "--no-record"]
certify = ["certify", "d/standard", *source, "--largest", "-o"]
attack = ["attack", "d/standard", *source, "--attack", "pwws,ga,greedy", "--show", "0", "--log"]
bad = 0
for name, command, file in (("certify -o", certify, "c.jsonl"), ("attack --log", attack, "a.jsonl")):
    start = time.time()
    printed = run(*command, "whole-" + file, "--json")
    whole, took = (work / ("whole-" + file)).read_bytes(), time.time() - start
    done, rounds, left = 0, 0, set()
    while done < kills:
        (work / file).unlink(missing_ok=True)
        rounds += 1
        while killed([*command, file], chance.uniform(0, took * 0.6)):
            done += 1
            now = work / (file + ".part") if name == "certify -o" else work / file
            left.add(now.stat().st_size if now.exists() else 0)
            # Killed between its last write and its end, the work is done.
            if name == "certify -o" and (work / file).exists() and (work / file).read_bytes() != whole:
                print(f"{name}: an unfinished file has its name")
                bad = 1
        if (work / file).read_bytes() != whole:
            print(f"{name}: killed and resumed, the file differs")
            bad = 1
        if (work / (file + ".part")).exists():
            print(f"{name}: a part is left behind")
            bad = 1
    print(f"{name}: {done} kills, {rounds} files of {len(whole)} bytes, {len(left)} different sizes when killed; one run {took:.1f} s")
    if len(left) < min(5, kills // 4):
        print(f"{name}: the kills came at too few moments to mean anything")
        bad = 1

# Three processes share the texts; together they did what one does.
parts = b""
for i in (1, 2, 3):
    run(*attack[:-1], "--shard", f"{i}/3", "--log", f"s{i}.jsonl")
    parts += (work / f"s{i}.jsonl").read_bytes()
(work / "all.jsonl").write_bytes(parts)
joined = run(*attack, "all.jsonl", "--json")
if (work / "all.jsonl").read_bytes() != parts:
    print("the logs of all shards are not the log of the whole: something was attacked again")
    bad = 1
strip = lambda text: [line.split('"resumed"')[0] for line in text.replace("all.jsonl", "whole-a.jsonl").splitlines()]
if strip(joined) != strip(printed):
    print(f"shards: {joined} against {printed}")
    bad = 1
counts = [int(line.split('"texts":')[1].split(",")[0]) for i in (1, 2) for line in
          [run(*certify, f"c{i}.jsonl", "--shard", f"{i}/2") and "" or (work / f"c{i}.jsonl").read_text().split("\n")[0]]]
lines = [line for i in (1, 2) for line in (work / f"c{i}.jsonl").read_text().splitlines()[1:]]
if sum(counts) != len(lines) or lines != (work / "whole-c.jsonl").read_text().splitlines()[1:]:
    print("the certificates of two shards are not those of the whole")
    bad = 1
for shard in ("0/2", "3/2", "1", "1/2x", "x"):
    done = subprocess.run([stet, *certify, "x.jsonl", "--shard", shard], cwd=work, capture_output=True, text=True)
    if done.returncode != 2 or "--shard" not in done.stderr:
        print(f"--shard {shard}: {done.returncode} {done.stderr}")
        bad = 1
sys.exit(bad)
