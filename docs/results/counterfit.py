#!/usr/bin/env python3
"""Word vectors fitted to lists of synonyms and antonyms (counter-fitting: Mrksic et al. 2016), for the paper's candidate sets.

    counterfit.py --vectors FILE... --synonyms FILE... --antonyms FILE... --words FILE -o FILE

Twenty rounds. In each, a word moves by a tenth of the mean of what its pairs ask for, and is scaled to length 1 again:
synonyms come together, antonyms part until they are at right angles, and words that were near each other stay as near.
Distances are 1 - cosine. A list has two words a line; --words: those to keep, one a line. Files may be .xz. Needs numpy."""
import argparse
import lzma

import numpy as np

ROUNDS, STEP, NEAR, APART = 20, 0.1, 0.2, 1.0


def lines(path):
    with (lzma.open if path.endswith(".xz") else open)(path, "rt", encoding="utf-8") as f:
        yield from f


def read_vectors(paths, words):
    names, rows = [], []
    for path in paths:
        for line in lines(path):
            name, _, numbers = line.partition(" ")
            if name in words:
                names.append(name)
                rows.append(np.array(numbers.split(), dtype=np.float32))
    return names, unit(np.array(rows))


def unit(v):
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def read_pairs(paths, number):
    pairs = set()
    for path in paths:
        for line in lines(path):
            both = {number[w] for w in line.split() if w in number}
            if len(both) == 2:
                pairs.add((min(both), max(both)))
    return pairs


def near_pairs(v, known):
    """Pairs that are near each other and not known, and their distances."""
    found = {}
    for first in range(0, len(v), 2048):
        cosine = v[first:first + 2048] @ v.T
        for i, j in np.argwhere(cosine >= 1 - NEAR).tolist():
            if i + first < j and (i + first, j) not in known:
                found[i + first, j] = 1 - cosine[i, j]
    pairs = sorted(found)
    return as_array(pairs), np.array([found[p] for p in pairs], dtype=np.float32)


def as_array(pairs):
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


def distance(v, pairs):
    return 1 - (v[pairs[:, 0]] * v[pairs[:, 1]]).sum(1)


def move(v, rules):
    """One round. A rule: pairs, which of them are active, and whether these come together (1) or part (-1)."""
    way, count = np.zeros_like(v), np.zeros(len(v), np.float32)
    for pairs, active, sign in rules:
        a, b = pairs[active].T
        cosine = (v[a] * v[b]).sum(1, keepdims=True)
        np.add.at(way, a, sign * (v[b] - cosine * v[a]))
        np.add.at(way, b, sign * (v[a] - cosine * v[b]))
        np.add.at(count, a, 1)
        np.add.at(count, b, 1)
    return unit(v + STEP * way / np.maximum(count, 1)[:, None])


def main():
    p = argparse.ArgumentParser()
    for name in ("vectors", "synonyms", "antonyms"):
        p.add_argument("--" + name, nargs="+", required=True)
    p.add_argument("--words", required=True)
    p.add_argument("-o", "--out", required=True)
    a = p.parse_args()
    names, v = read_vectors(a.vectors, {line.strip() for line in lines(a.words)})
    number = {w: i for i, w in enumerate(names)}
    apart = read_pairs(a.antonyms, number)
    together = read_pairs(a.synonyms, number) - apart
    stay, was = near_pairs(v, apart | together)
    apart, together = as_array(apart), as_array(together)
    for _ in range(ROUNDS):
        v = move(v, [(apart, distance(v, apart) < APART, -1), (together, distance(v, together) > 0, 1),
                     (stay, distance(v, stay) > was, 1)])
    with open(a.out, "w", encoding="utf-8") as f:
        for name, row in zip(names, v):
            f.write(name + " " + " ".join(f"{x:.6g}" for x in row) + "\n")


main()
