#!/usr/bin/env python3
"""tests/scale/scale.py STET - commands on data of twice the size take about twice the time, and no more memory than
docs/performance.md states: 1 million texts of 1,000 classes and 500,000 words, a text of 5 million words, sets of 300,000
words, one word with 200,000 substitutes, 60,000 classes; a result of 400,000 strings that breaks off is refused as fast."""

import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile

STET = os.path.abspath(sys.argv[1])
SHARE = float(os.environ.get("STET_SCALE", "1"))  # of the sizes above
MB = 1 << 20
RATIO = 3.5  # of user time, for twice the data


def run(*args, want=0):
    """User seconds and the most memory (bytes) of a command that ends with this exit code."""
    process = subprocess.Popen([STET, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    message = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != want:
        sys.exit(f"stet {' '.join(args)}: status {status}: {message.decode()[-300:]}")
    return usage.ru_utime, usage.ru_maxrss * 1024


def words(n):
    return ["w%x" % i for i in range(n)]


def corpus(path, texts, n_words, classes):
    rng, w = random.Random(1), words(n_words)
    with open(path, "w") as f:
        for i in range(texts):
            some = [w[(7 * i + 37 * j) % n_words] for j in range(4)] + [w[rng.randrange(n_words)] for _ in range(3)]
            f.write("c%d\tk%d %s\n" % (i % classes, i % classes, " ".join(some)))


def vectors(path, n_words, classes):
    rng = random.Random(2)
    with open(path, "w") as f:
        for w in words(n_words) + ["k%d" % k for k in range(classes)]:
            f.write(w + " " + " ".join("%.3f" % rng.uniform(-1, 1) for _ in range(8)) + "\n")


def long_text(path, n):
    rng, w = random.Random(3), words(300000)
    with open(path, "w") as f:
        f.write("c0\t" + " ".join(w[rng.randrange(len(w))] for _ in range(n)) + "\n")
        f.writelines("c%d\tshort %d\n" % (k % 2, k) for k in range(20))


def sets(path, n):
    rng, w = random.Random(4), words(n)
    json.dump({x: [w[rng.randrange(n)] for _ in range(8)] for x in w}, open(path, "w"))


def hub(path, n):
    json.dump({"hub": words(n)}, open(path, "w"))


def broken(folder, n):
    os.makedirs(f"{folder}/results")
    with open(f"{folder}/results/eval.json", "w") as f:
        f.write('{"schema":1,"command":"eval","x":[' + ",".join('"%d"' % i for i in range(n)))


bad = 0


def judge(name, args, size, most, want=0):
    """args(half) and args(whole) are the command on half of the data and on all of it."""
    global bad
    half, _ = run(*args("half"), want=want)
    whole, memory = run(*args("whole"), want=want)
    slow = whole > RATIO * half and whole > 0.5
    large = memory > most
    bad += slow + large
    print(f"{name}: {size}: {half:.2f} s, twice of it {whole:.2f} s, {memory // MB} MB"
          + (" TOO SLOW" if slow else "") + (f" MORE THAN {most // MB} MB" if large else ""), flush=True)


def make_data(texts, n_words, classes):
    for name, share in (("half", 0.5), ("whole", 1)):
        corpus(f"{name}.tsv", int(texts * share), int(n_words * share), classes)
        vectors(f"{name}.vec", int(n_words * share), classes)
        long_text(f"{name}-long.tsv", int(5e6 * SHARE * share))
        open(f"{name}-long.txt", "w").write(open(f"{name}-long.tsv").readline()[3:])
        sets(f"{name}-sets.json", int(3e5 * SHARE * share))
        hub(f"{name}-hub.json", int(2e5 * SHARE * share))
        corpus(f"{name}-classes.tsv", int(60000 * share), 1000, int(60000 * share))
        broken(f"{name}-broken", int(4e5 * share))


def main():
    texts, n_words, classes = int(1e6 * SHARE), int(5e5 * SHARE), 1000
    # In a process of its own: a command's most memory counts what it was forked from, so this one stays small.
    maker = multiprocessing.Process(target=make_data, args=(texts, n_words, classes))
    maker.start()
    maker.join()
    if maker.exitcode:
        sys.exit("the data could not be made")
    text_bytes = os.path.getsize("whole.tsv")
    size = f"{texts} texts, {n_words} words, {classes} classes"
    judge("data info", lambda n: ["data", "info", f"{n}.tsv"], size, 64 * MB + 8 * text_bytes)
    judge("data info", lambda n: ["data", "info", f"{n}-classes.tsv"], "60,000 classes", 64 * MB)
    judge("report", lambda n: ["report", f"{n}-broken"], "a result that breaks off", 256 * MB, want=3)
    judge("train", lambda n: ["train", "--data", f"{n}.tsv", "--vectors", f"{n}.vec", "--epochs", "1", "--filters", "4",
                              "--batch", "256", "-o", f"{n}-model", "-q"], size, 600 * MB + 8 * text_bytes)
    judge("eval", lambda n: ["eval", f"{n}-model", "--data", f"{n}.tsv", "--no-record"], size, 600 * MB + 8 * text_bytes)
    judge("synonyms build", lambda n: ["synonyms", "build", "--neighbours", f"{n}-sets.json", "--symmetric", "-o",
                                       f"{n}-sets", "-q"], "300,000 words", 1024 * MB)
    judge("synonyms build, one word", lambda n: ["synonyms", "build", "--neighbours", f"{n}-hub.json", "--symmetric", "-o",
                                                 f"{n}-hub", "-q"], "200,000 substitutes", 256 * MB)
    judge("synonyms stats", lambda n: ["synonyms", "stats", f"{n}-sets", "--data", f"{n}.tsv"], size, 64 * MB + 8 * text_bytes)
    judge("attack", lambda n: ["attack", f"{n}-model", "--data", f"{n}.tsv", "--synonyms", f"{n}-sets", "--attack", "greedy",
                               "--limit", "20", "--no-record", "-q"], size, 600 * MB + 8 * text_bytes)
    judge("certify", lambda n: ["certify", f"{n}-model", "--data", f"{n}.tsv", "--synonyms", f"{n}-sets", "--limit", "20",
                                "--no-record", "-q"], size, 600 * MB + 8 * text_bytes)
    long = "a text of 5 million words"
    judge("data info", lambda n: ["data", "info", f"{n}-long.tsv"], long, 512 * MB)
    judge("predict", lambda n: ["predict", "whole-model", "--file", f"{n}-long.txt"], long, 1024 * MB)
    judge("data convert", lambda n: ["data", "convert", f"{n}-long.tsv", f"{n}-long.jsonl.gz", "-q"], long, 512 * MB)
    return bad > 0


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    failed = main()
    os.chdir("/")
sys.exit(failed)
