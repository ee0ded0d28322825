#!/usr/bin/env python3
"""Exported questions (stet certify --export) in the hands of others: onnxruntime must give the program's
logits for every choice of words, and, where it is installed, Marabou must not contradict a certificate.

    onnx_question.py STET MODEL CERTIFICATES FOLDER
"""
import json, math, os, random, re, subprocess, sys

import numpy, onnx, onnxruntime

try:
    from maraboupy import Marabou, MarabouUtils
except ImportError:
    Marabou = None

stet, model, certificates, folder = sys.argv[1:]


def positions(path):
    """Words of each open position, and the label, as the property states them."""
    text = open(path).read()
    label = int(re.search(r"class (\d+) must stay", text).group(1))
    open_words = [line.split(":", 1)[1].split() for line in text.splitlines() if line.startswith("; position")]
    places = [int(line.split(":")[0].split()[2]) for line in text.splitlines() if line.startswith("; position")]
    inputs = len(re.findall(r"declare-const X_", text))
    assert inputs == sum(map(len, open_words)), path
    assert len(re.findall(r"assert \(>= \(\+", text)) == len(open_words), path
    return label, places, open_words


def one_hot(words, pick):
    x = []
    for w, k in zip(words, pick):
        x += [1.0 if i == k else 0.0 for i in range(len(w))]
    return numpy.array([x], dtype=numpy.float32)


def marabou_says(path, label, words):
    """Is there a point where another class is at least as high?"""
    network = Marabou.read_onnx(path)
    x = network.inputVars[0].flatten()
    y = network.outputVars[0].flatten()
    at = 0
    for w in words:
        eq = MarabouUtils.Equation(MarabouUtils.MarabouCore.Equation.EQ)
        for v in x[at:at + len(w)]:
            network.setLowerBound(int(v), 0.0)
            network.setUpperBound(int(v), 1.0)
            eq.addAddend(1.0, int(v))
        eq.setScalar(1.0)
        network.addEquation(eq)
        at += len(w)
    others = [k for k in range(len(y)) if k != label]
    assert len(others) == 1  # a disjunction would need one query for each
    network.addInequality([int(y[label]), int(y[others[0]])], [1.0, -1.0], 0.0)
    return network.solve(verbose=False, options=Marabou.createOptions(verbosity=0, timeoutInSeconds=60))[0]


lines = [json.loads(line) for line in open(certificates)][1:]
random.seed(1)
points = asked = agreed = worst = 0
for line in lines:
    path = os.path.join(folder, "text-%d.onnx" % line["text"])
    if line["verdict"] == "wrong" or not line["sets"]:
        assert not os.path.exists(path), path
        continue
    onnx.checker.check_model(path, full_check=True)
    label, places, words = positions(path.replace(".onnx", ".vnnlib"))
    assert label == line["label"] and places == sorted(int(p) for p in line["sets"])
    for p, w in zip(places, words):
        assert w == [line["words"][p]] + line["sets"][str(p)], (w, line["sets"])
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    clean = session.run(None, {"choice": one_hot(words, [0] * len(words))})[0][0]
    margin = clean[label] - max(v for k, v in enumerate(clean) if k != label)
    assert abs(margin - line["clean"]) < 1e-4, (margin, line["clean"])
    for _ in range(5):  # corners are texts
        pick = [random.randrange(len(w)) for w in words]
        text = list(line["words"])
        for p, w, k in zip(places, words, pick):
            text[p] = w[k]
        logits = session.run(None, {"choice": one_hot(words, pick)})[0][0]
        out = subprocess.run([stet, "predict", model, "--json", " ".join(text)], capture_output=True, text=True)
        prob = list(json.loads(out.stdout)["probabilities"].values())
        total = sum(math.exp(v - max(logits)) for v in logits)
        for a, v in zip(prob, logits):
            off = abs(a - math.exp(v - max(logits)) / total)
            worst = max(worst, off)
            assert off < 1e-4, (text, prob, logits)
        points += 1
    if Marabou and line["verdict"] in ("certified", "broken") and len(clean) == 2:
        answer = marabou_says(path, label, words)
        asked += 1
        by = {c["method"] for c in line.get("claims", [])}
        if line["verdict"] == "broken":
            assert answer in ("sat", "TIMEOUT"), (line["text"], answer)
        elif by and by <= {"ibp", "joint", "gbm", "gbm-window", "exact"}:  # these hold between the words too
            assert answer in ("unsat", "TIMEOUT"), (line["text"], answer)
        agreed += answer in ("sat", "unsat")
assert points > 0
print("%d points agree to %.1e; %s" % (points, worst, "Marabou decided %d of %d questions, all as the certificates have it"
                                      % (agreed, asked) if Marabou else "maraboupy is not installed"))
