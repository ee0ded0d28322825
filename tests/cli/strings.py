#!/usr/bin/env python3
"""Certificates hold for strings that a person can type: put substitutes of a certificate file into the raw
texts, let the program predict them, and compare.

    strings.py STET MODEL DATA.tsv CERT.jsonl   prints "N strings of M texts" or what is wrong
"""
import itertools, json, random, subprocess, sys

MOST = 60  # variants of a text


def spans(text, words):
    """Where each word of a certificate stands in the text."""
    at, out = 0, []
    for w in words:
        start = text.lower().index(w, at)
        out.append((start, start + len(w)))
        at = start + len(w)
    return out


def put(text, where, choice):
    for (start, end), word in reversed(list(zip(where, choice))):
        if word is not None:
            left = " " if start and not text[start - 1].isspace() else ""
            right = " " if end < len(text) and not text[end].isspace() else ""
            text = text[:start] + left + word + right + text[end:]
    return text


def main():
    stet, model, data, cert = sys.argv[1:]
    rows = [line.rstrip("\n").split("\t") for line in open(data, encoding="utf-8")]
    random.seed(1)
    strings, want, proved = [], [], 0
    for line in list(map(json.loads, open(cert, encoding="utf-8")))[1:]:
        text = rows[line["text"]][1]
        where = spans(text, line["words"])
        if line["verdict"] == "broken":
            edits = dict(map(tuple, line["edits"]))
            strings.append(put(text, where, [edits.get(i) for i in range(len(where))]))
            want.append(("after", line["after"], text))
        if line["verdict"] != "certified":
            continue
        proved += 1
        sets = [[None] + line["sets"].get(str(i), []) for i in range(len(where))]
        size = 1
        for s in sets:
            size *= len(s)
        few = itertools.product(*sets) if size <= MOST else (
            [random.choice(s) for s in sets] for _ in range(MOST))
        for choice in few:
            strings.append(put(text, where, choice))
            want.append(("label", line["label"], text))
    out = subprocess.run([stet, "predict", model, "--json", "-q"], input="\n".join(strings) + "\n",
                         capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(out) == len(strings), (len(out), len(strings))
    wrong = 0
    for got, (what, label, text), string in zip(map(json.loads, out), want, strings):
        if got["class"] != label:
            print(f"{what} {label}, but '{string}' gets {got['class']}; the text is '{text}'")
            wrong += 1
    if wrong:
        sys.exit(1)
    print(f"{len(strings)} strings of {proved} proved texts")


main()
