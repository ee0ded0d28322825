"""A grid of settings, trained and measured inside this process."""

import os
import signal
import threading
import unittest

import numpy as np

import stet
from common import SETS, folder, read, test


def write_texts(path, data):
    with open(path, "w") as f:
        for text, label in zip(data.texts, data.labels):
            f.write(f"{data.classes[label]}\t{text}\n")
    return path


def inputs():
    """Files of texts and vectors: the options of training that all tests share."""
    data = stet.demo_data(300, 7)
    words = sorted({w for text in data.texts for w in stet.tokenize(text)})
    rng = np.random.default_rng(1)
    with open(f"{folder()}/vectors.txt", "w") as f:
        for w in words:
            f.write(w + " " + " ".join(f"{x:.3f}" for x in rng.normal(size=8)) + "\n")
    return {"data": write_texts(f"{folder()}/train.tsv", data), "vectors": [f"{folder()}/vectors.txt"], "model": "cnn",
            "filters": 4, "epochs": 1, "synonyms": SETS, "word_scores": True}


class Sweeps(unittest.TestCase):
    def test_points_stream_and_stay(self):
        points, out = [], f"{folder()}/grid"
        held = write_texts(f"{folder()}/held.tsv", test)
        how = dict(seeds=[1, 2], test=held, attack="greedy", certify=True, synonyms=SETS, limit=20, jobs=2)
        s = stet.sweep(out, {"beta": [0, "1e-2"], "lr": [0.01]}, inputs(), each=points.append, **how)
        self.assertEqual((s.points, s.failed, len(points)), (4, 0, 4))
        self.assertEqual([c.settings for c in s.cells], [{"beta": "0", "lr": "0.01"}, {"beta": "1e-2", "lr": "0.01"}])
        self.assertEqual({p.dir for p in points}, {f"{out}/beta-{b}_lr-0.01_seed-{k}" for b in ("0", "1e-2") for k in (1, 2)})
        self.assertEqual([p.done for p in points], [1, 2, 3, 4])
        for c in s.cells:
            self.assertEqual(c.seeds, 2)
            self.assertLessEqual(c.mean["certified"], c.mean["aua"])
            mine = [p.numbers["certified"] for p in points if f"beta-{c.settings['beta']}_" in p.dir]
            self.assertAlmostEqual(c.mean["certified"], np.mean(mine))
            self.assertAlmostEqual(c.spread["certified"], np.std(mine, ddof=1))
        model = stet.load(points[0].dir)
        accuracy = (model.predict(test.texts) == [model.classes.index(test.classes[i]) for i in test.labels]).mean()
        self.assertAlmostEqual(points[0].numbers["accuracy"], accuracy)
        self.assertIn("word_scores", read(f"{points[0].dir}/config.json").replace("-", "_"))

        again = []
        self.assertEqual(stet.sweep(out, {"beta": "0,1e-2", "lr": 0.01}, inputs(), each=again.append, **how), s)
        self.assertTrue(all(p.found for p in again))

    def test_frontier(self):
        s = stet.sweep(f"{folder()}/front", {"kappa": [0, 0.9]}, {**inputs(), "model": "sum", "filters": None}, blocks=2,
                       test=f"{folder()}/train.tsv", jobs=2)
        at = [(c.mean["sample_accuracy"], c.mean["certified"]) for c in s.cells]
        self.assertEqual([s.cells.index(c) for c in s.frontier], sorted(stet.frontier(*zip(*at))))
        self.assertEqual([c.settings for c in s.final], [s.cells[i].settings for i in stet.frontier(*zip(*at))])
        self.assertIn("stet train", read(f"{folder()}/front/frontier.sh"))

    def test_failed_points(self):
        s = stet.sweep(f"{folder()}/bad", {"beta": [0]}, {**inputs(), "data": "none.tsv"}, each=(points := []).append)
        self.assertEqual(s.failed, 1)
        self.assertEqual(s.cells[0].seeds, 0)
        self.assertIn("none.tsv", points[0].error)

    def test_mistakes(self):
        for message, over, more in (("something to sweep over", {}, {}), ("--betas x", {"beta": ["x"]}, {}),
                                    ("unknown option --epoch", {"epoch": [1]}, {}), ("--jobs 0", {"beta": [0]}, {"jobs": 0}),
                                    ("at least 0", {"beta": [0]}, {"jobs": -1}),
                                    ("need --test", {"beta": [0]}, {"certify": True})):
            with self.assertRaisesRegex(stet.UsageError, message):
                stet.sweep(f"{folder()}/x", over, inputs(), **more)
        self.assertFalse(os.path.exists(f"{folder()}/x/beta-0_seed-1"))

    def test_an_exception_of_each_ends_it(self):
        def each(point):
            raise KeyError(point.dir)
        with self.assertRaises(KeyError):
            stet.sweep(f"{folder()}/raise", {"beta": [0, 1, 2, 3]}, {**inputs(), "epochs": 20, "patience": 0}, each=each)
        self.assertFalse(os.path.exists(f"{folder()}/raise/beta-3_seed-1/train.json"))

    def test_ctrl_c(self):
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            stet.sweep(f"{folder()}/stop", {"beta": [0, 1]}, {**inputs(), "epochs": 100000, "patience": 0}, jobs=2)
        timer.join()


if __name__ == "__main__":
    unittest.main()
