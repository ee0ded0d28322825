"""Models, proofs, attacks and errors."""

import json
import os
import signal
import threading
import time
import unittest

import numpy as np

import stet
from common import SETS, folder, model, read, test


class Predicts(unittest.TestCase):
    def test_one_and_many_agree(self):
        m = model()
        prob, labels = m.predict_proba(test.texts), m.predict(test.texts)
        self.assertEqual(prob.shape, (60, 2))
        self.assertEqual(prob.dtype, np.float32)
        np.testing.assert_allclose(prob.sum(axis=1), 1, atol=1e-5)
        np.testing.assert_array_equal(prob.argmax(axis=1), labels)
        self.assertGreater((labels == test.labels).mean(), 0.6)
        one = m.predict(test.texts[0])
        self.assertEqual((one.label, one.number), (m.classes[labels[0]], labels[0]))
        np.testing.assert_allclose(one.probabilities, prob[0], atol=1e-6)

    def test_logits(self):
        x = model().logits(test.texts)
        e = np.exp(x - x.max(axis=1, keepdims=True))
        np.testing.assert_allclose(e / e.sum(axis=1, keepdims=True), model().predict_proba(test.texts), atol=1e-5)

    def test_no_texts(self):
        self.assertEqual(model().predict_proba([]).shape, (0, 2))

    def test_saved_model_is_the_same(self):
        model().save(f"{folder()}/saved")
        again = stet.load(f"{folder()}/saved")
        np.testing.assert_array_equal(again.predict_proba(test.texts), model().predict_proba(test.texts))

    def test_threads_share_a_model(self):
        want, got = model().predict_proba(test.texts), []
        threads = [threading.Thread(target=lambda: got.append(model().predict_proba(test.texts))) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for g in got:
            np.testing.assert_array_equal(g, want)
        self.assertEqual(len(got), 4)


class Certifies(unittest.TestCase):
    def test_file_is_verified(self):
        path = f"{folder()}/cert.jsonl"
        r = model().certify(test.texts, test.labels, synonyms=SETS, file=path)
        self.assertEqual(len(r), 60)
        self.assertEqual(r.summary.n, 60)
        self.assertEqual(r.column("certified").mean(), r.summary.certified)
        self.assertTrue(0 < r.summary.certified <= r.summary.clean)
        checked = stet.verify(path, model())
        self.assertTrue(checked)
        self.assertEqual((checked.texts, checked.certified), (60, int(r.column("certified").sum())))
        self.assertEqual(stet.verify(path, model(), test.texts, test.labels, synonyms=SETS).certified, checked.certified)
        self.assertTrue(stet.verify(path, model().path, synonyms=SETS))

        for texts, labels, sets in ((["another text"] + test.texts[1:], test.labels, SETS), (test.texts, 1 - test.labels, SETS),
                                    (test.texts, test.labels, {"film": ["movie"]})):
            self.assertRegex(stet.verify(path, model(), texts, labels, synonyms=sets).failures[0][1], '"(data|sets)" is')
        with self.assertRaisesRegex(stet.UsageError, "labels without texts"):
            stet.verify(path, model(), labels=test.labels)

        lines = read(path).replace('"verdict":"wrong"', '"verdict":"certified"')
        with open(path, "w") as f:
            f.write(lines)
        self.assertFalse(stet.verify(path, model()))
        self.assertTrue(stet.verify(path, model()).failures)

    def test_stream_is_the_same(self):
        def plain(results):
            return [{k: v for k, v in r.data.items() if k != "seconds"} for r in results]
        streamed = list(stet.iter_certify(model(), test.texts, test.labels, synonyms=SETS))
        self.assertEqual(plain(streamed), plain(model().certify(test.texts, test.labels, synonyms=SETS)))
        self.assertEqual([r.text for r in streamed], test.texts)

    def test_one(self):
        many = model().certify(test.texts, synonyms=SETS, complete=True)
        for text, r in zip(test.texts[:10], many):
            one = model().certify(text, synonyms=SETS)
            self.assertEqual((one.verdict, one.label, one.answer), (r.verdict, r.label, r.answer))
            self.assertAlmostEqual(one.probability, r.probability, 5)
            self.assertAlmostEqual(model().predict_proba([text]).max(), r.probability, 5)
            self.assertEqual(r.data["text"], text)
        broken = next(r for r in many if r.verdict == "broken")
        flipped = broken.text
        for s in reversed(broken.swaps):
            flipped = flipped[:s.start] + s.substitute + flipped[s.end:]
        self.assertNotEqual(model().predict(flipped).label, broken.answer)

    def test_characters_not_bytes(self):
        r = model().certify("Très génial – a delightful, stupid film", synonyms=SETS)
        for s in r.harm:
            self.assertEqual(r.text[s.start:s.end].lower(), s.word)
        self.assertTrue(r.harm)

    def test_wrong_label(self):
        text = test.texts[0]
        other = 1 - model().predict(text).number
        r = model().certify(text, other, synonyms=SETS)
        self.assertEqual((r.verdict, r.label), ("wrong", model().classes[other]))


class Attacks(unittest.TestCase):
    def test_flips_are_real(self):
        r = model().attack(test.texts, test.labels, synonyms=SETS)
        self.assertEqual(len(r), 60)
        flipped = [a for a in r if a.flipped]
        self.assertEqual(len(flipped), r.summary.succeeded)
        self.assertGreater(len(flipped), 0)
        for a in flipped:
            self.assertEqual(model().predict(a.adversarial).label, a.answer)
            self.assertNotEqual(a.answer, a.label)
            sets = stet.Synonyms(SETS)
            self.assertTrue(all(s.substitute in sets[s.word] for s in a.swaps))

    def test_never_above_a_proof(self):
        proofs = model().certify(test.texts, test.labels, synonyms=SETS)
        attacked = model().attack(test.texts, test.labels, synonyms=SETS, attack="greedy")
        self.assertFalse(any(p.certified and a.flipped for p, a in zip(proofs, attacked)))

    def test_log_is_resumed(self):
        path = f"{folder()}/attack.jsonl"
        first = model().attack(test.texts, test.labels, synonyms=SETS, log=path)
        again = model().attack(test.texts, test.labels, synonyms=SETS, log=path)
        self.assertEqual((first.summary.resumed, again.summary.resumed), (0, 60))
        self.assertEqual([a.data for a in first], [a.data for a in again])

    def test_names_as_labels(self):
        names = [test.classes[i] for i in test.labels]
        a = model().attack(test.texts, names, synonyms=SETS)
        b = model().attack(test.texts, test.labels, synonyms=SETS)
        self.assertEqual(a.column("outcome").tolist(), b.column("outcome").tolist())

    def test_leaving_a_stream_early(self):
        stream = stet.iter_attack(model(), test.texts, test.labels, synonyms=SETS)
        self.assertEqual(next(stream).text, test.texts[0])
        stream.close()
        self.assertEqual(len(model().predict(test.texts)), 60)


class Victims(unittest.TestCase):
    def test_function_is_attacked_like_the_model(self):
        sizes = []

        def ask(texts):
            sizes.append(len(texts))
            return model().predict_proba(texts)

        a = stet.attack(ask, test.texts[:20], test.labels[:20], synonyms=SETS)
        b = stet.attack(model(), test.texts[:20], test.labels[:20], synonyms=SETS)
        self.assertEqual(a.column("outcome").tolist(), b.column("outcome").tolist())
        self.assertEqual(a.column("adversarial").tolist(), b.column("adversarial").tolist())
        self.assertGreater(max(sizes), 10)  # in batches

    def test_texts_ask_together_on_this_thread(self):
        sizes, threads = [], set()

        def ask(texts):
            sizes.append(len(texts))
            threads.add(threading.get_ident())
            return model().predict_proba(texts)

        a = stet.attack(ask, test.texts, test.labels, synonyms=SETS, batch=50)
        self.assertEqual(max(sizes), 50)
        self.assertGreater(np.mean(sizes), 20)
        self.assertEqual(threads, {threading.get_ident()})
        b = list(stet.iter_attack(ask, test.texts, test.labels, synonyms=SETS, batch=1000))
        self.assertEqual([r.outcome for r in a], [r.outcome for r in b])
        self.assertEqual(threads, {threading.get_ident()})
        with self.assertRaisesRegex(stet.UsageError, "batch 0"):
            stet.attack(ask, test.texts, test.labels, synonyms=SETS, batch=0)

    def test_a_stream_that_is_left(self):
        for r in stet.iter_attack(model().predict_proba, test.texts * 50, list(test.labels) * 50, synonyms=SETS):
            self.assertEqual(r.index, 0)
            break

    def test_logits_and_single_numbers(self):
        a = stet.attack(model().logits, test.texts[:10], synonyms=SETS)
        b = stet.attack(lambda t: model().predict_proba(t)[:, 1], test.texts[:10], synonyms=SETS)
        self.assertEqual(a.column("outcome").tolist(), b.column("outcome").tolist())

    def test_predict_proba(self):
        class Pipeline:
            classes_ = ["bad", "good"]
            predict_proba = staticmethod(lambda texts: model().predict_proba(texts))
        r = stet.attack(Pipeline(), test.texts[:10], ["bad"] * 10, synonyms=SETS)
        self.assertEqual(r[0].label, "bad")

    def test_what_it_raises_is_raised(self):
        calls = []

        def ask(texts):
            calls.append(len(texts))
            if len(calls) > 3:
                raise KeyError("mine")
            return model().predict_proba(texts)

        with self.assertRaisesRegex(KeyError, "mine"):
            stet.attack(ask, test.texts, test.labels, synonyms=SETS)
        self.assertEqual(len(calls), 4)

    def test_bad_answers(self):
        for answer, why in [(lambda t: np.zeros((1, 1, 1)), "shape"),
                            (lambda t: np.full((len(t), 2), np.nan), "not finite")]:
            with self.assertRaisesRegex(stet.UsageError, why):
                stet.attack(answer, test.texts, test.labels, synonyms=SETS)
        with self.assertRaisesRegex(TypeError, "no classifier"):
            stet.attack(3, test.texts, test.labels, synonyms=SETS)


class Interrupts(unittest.TestCase):
    def setUp(self):
        # Shells start what they put in the background with Ctrl-C ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

    def press(self, work, caught_elsewhere=False):
        """Ctrl-C while `work` runs. The kernel may give the signal to any thread that does not block it."""
        timer = threading.Timer(1 if caught_elsewhere else 0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        if caught_elsewhere:
            self.addCleanup(signal.pthread_sigmask, signal.SIG_SETMASK,
                            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]))
        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            work()
        self.assertLess(time.monotonic() - began, 60)
        timer.join()

    def test_attack(self):
        self.press(lambda: model().attack(test.texts * 3000, list(test.labels) * 3000, synonyms=SETS, attack="ga"))
        self.assertEqual(len(model().attack(test.texts[:2], synonyms=SETS)), 2)  # and on it goes

    def test_signal_that_another_thread_caught(self):
        d = stet.demo_data(500, 3)
        self.press(lambda: stet.train(d.texts, d.labels, epochs=1000, patience=0), True)

    def test_victim(self):
        def slow(texts):
            time.sleep(0.01)
            return model().predict_proba(texts)
        self.press(lambda: stet.attack(slow, test.texts * 100, list(test.labels) * 100, synonyms=SETS))

    def test_stream(self):
        def read():
            for _ in stet.iter_attack(model(), test.texts * 3000, list(test.labels) * 3000, synonyms=SETS,
                                      attack="ga"):
                pass
        self.press(read)

    def test_progress_that_raises(self):
        def progress(*_):
            raise KeyError("enough")
        with self.assertRaisesRegex(KeyError, "enough"):
            d = stet.demo_data(2000, 3)
            stet.train(d.texts, d.labels, epochs=10000, patience=0, progress=progress)

    def test_train(self):
        d = stet.demo_data(5000, 3)
        self.press(lambda: stet.train(d.texts, d.labels, epochs=1000, patience=0))


class Errors(unittest.TestCase):
    def test_messages_are_the_library_s(self):
        with self.assertRaisesRegex(stet.FileError, "nowhere: no such model folder") as e:
            stet.load("nowhere")
        self.assertIsInstance(e.exception, OSError)
        with self.assertRaisesRegex(stet.UsageError, "brute"):
            model().attack(test.texts, test.labels, synonyms=SETS, attack="brute")
        with self.assertRaisesRegex(stet.UsageError, "no setting|unknown|no option"):
            model().attack(test.texts, test.labels, synonyms=SETS, no_such=1)

    def test_arguments(self):
        for wrong, why in [((test.texts, [0]), "60 texts but 1 labels"), ((test.texts, ["x"] * 60), "'x' is none of"),
                           ((["a\0b"], [0]), "NUL"), ((test.texts, [9] * 60), "9")]:
            with self.assertRaisesRegex(stet.UsageError, why):
                model().certify(*wrong, synonyms=SETS)
        with self.assertRaisesRegex(TypeError, "expected a string"):
            model().predict([3])
        with self.assertRaisesRegex(stet.UsageError, "NUL"):
            model().predict(["a\0b"])
        with self.assertRaisesRegex(TypeError, "list of texts"):
            model().predict_proba("one")
        with self.assertRaisesRegex(stet.UsageError, "training needs labels"):
            stet.train(["a"])
        with self.assertRaisesRegex(stet.UsageError, "transformer"):
            stet.train(["a"], [0], model="transformer")

    def test_bad_file(self):
        path = f"{folder()}/bad.tsv"
        with open(path, "wb") as f:
            f.write(b"0\tfine\n1\t\xff\n")
        with self.assertRaisesRegex(stet.FormatError, "bad.tsv"):
            stet.read(path)


class Trains(unittest.TestCase):
    def test_same_seed_same_model(self):
        d = stet.demo_data(200, 3)
        args = dict(epochs=2, filters=8, embed={"dim": 8, "epochs": 2})
        a, b = (stet.train(d.texts, d.labels, **args) for _ in range(2))
        np.testing.assert_array_equal(a.predict_proba(test.texts), b.predict_proba(test.texts))
        c = stet.train(d.texts, d.labels, **args, seed=2)
        self.assertFalse(np.array_equal(a.predict_proba(test.texts), c.predict_proba(test.texts)))
        self.assertEqual((a.classes, a.training.epochs), (["0", "1"], 2))
        self.assertIsNone(a.path)

    def test_spans(self):
        """A recurrence in spans: saved and loaded, attacked, certified, its certificates checked."""
        d = stet.demo_data(400, 3)
        args = dict(model="bilstm", hidden=4, pool="max", epochs=2, embed={"dim": 8, "epochs": 2})
        m = stet.train(d.texts, d.labels, span=3, out=f"{folder()}/spans", **args)
        whole = stet.train(d.texts, d.labels, **args)
        self.assertFalse(np.array_equal(m.predict_proba(test.texts), whole.predict_proba(test.texts)))
        again = stet.load(f"{folder()}/spans")
        np.testing.assert_array_equal(m.predict_proba(test.texts), again.predict_proba(test.texts))
        some = test.texts[:20], test.labels[:20]
        attacked = again.attack(*some, synonyms=SETS, attack="greedy")
        proofs = again.certify(*some, synonyms=SETS, file=f"{folder()}/spans.jsonl")
        self.assertFalse(any(p.certified and a.flipped for p, a in zip(proofs, attacked)))
        self.assertTrue(stet.verify(f"{folder()}/spans.jsonl", again))

    def test_votes(self):
        """Of a model that votes nothing is proved: what is likely has a confidence, in a file too."""
        d = stet.demo_data(400, 3)
        m = stet.train(d.texts, d.labels, out=f"{folder()}/votes", epochs=4, filters=16, lr=0.01, defense="ranmask",
                       ranmask_draws=300, ranmask_votes=11, embed={"dim": 8, "epochs": 2})
        proofs = m.certify(test.texts[:20], test.labels[:20], synonyms=SETS, budget=1, file=f"{folder()}/votes.jsonl")
        self.assertEqual({p.confidence for p in proofs}, {0.95})
        self.assertFalse(any(p.certified for p in proofs))
        self.assertIn("likely", [p.verdict for p in proofs])
        checked = stet.verify(f"{folder()}/votes.jsonl", m)
        self.assertEqual((checked.likely, checked.certified), (sum(p.verdict == "likely" for p in proofs), 0))
        self.assertEqual(model().certify(test.texts[0], synonyms=SETS).confidence, 0)

    def test_recipe(self):
        d = stet.demo_data(400, 3)
        seen = []
        m = stet.train(d.texts, d.labels, synonyms=SETS, recipe="robust", model="sum", epochs=2,
                       embed={"dim": 8, "epochs": 2}, out=f"{folder()}/recipe",
                       progress=lambda *a: seen.append(a))
        config = json.loads(read(f"{folder()}/recipe/config.json"))
        self.assertIn("certified", config["training"]["defense"])
        self.assertEqual(m.kind, "sum")
        self.assertTrue(seen)

    def test_report(self):
        page = stet.report(model().path)
        self.assertTrue(page.lower().startswith("<!doctype html"))
        stet.report([model().path], f"{folder()}/report.md", title="Mine")
        self.assertIn("Mine", read(f"{folder()}/report.md"))


class Words(unittest.TestCase):
    def test_dictionary(self):
        s = stet.Synonyms({"film": ["movie", "picture"], "good": ["great"]})
        self.assertEqual(s["film"], ["movie", "picture"])
        self.assertEqual(s["nothing"], [])
        s.save(f"{folder()}/own.subst")
        self.assertEqual(list(stet.Synonyms(f"{folder()}/own.subst")), sorted(["film", "movie", "picture", "good", "great"]))

    def test_tokens(self):
        self.assertEqual(stet.tokenize("Don't miss it!"), ["do", "n't", "miss", "it", "!"])
        self.assertEqual(stet.tokenize("Don't miss it!", "keras"), ["don't", "miss", "it"])

    def test_data(self):
        with open(f"{folder()}/d.tsv", "w") as f:
            f.write("good\tfine film\nbad\tdull film\n")
        texts, labels, classes = stet.read(f"{folder()}/d.tsv")
        self.assertEqual((texts, labels.tolist(), classes), (["fine film", "dull film"], [1, 0], ["bad", "good"]))


class Shows(unittest.TestCase):
    def test_html(self):
        r = model().attack(test.texts, test.labels, synonyms=SETS)
        flipped = next(a for a in r if a.flipped)
        page = flipped._repr_html_()
        for s in flipped.swaps:
            self.assertIn(f"<ins>{s.substitute}</ins>", page)
        self.assertIn("under attack", r._repr_html_())
        line = {"outcome": "success", "label": "<u>", "answer": "b", "before": 0.9,
                "changes": [{"position": 1, "start": 4, "end": 8, "from": "good", "to": "<s>"}]}
        made = stet.Attacked(json.dumps(line).encode(), "<i> good <i>")._repr_html_()
        self.assertIn("&lt;i&gt; <del>good</del><ins>&lt;s&gt;</ins> &lt;i&gt;", made)
        self.assertNotIn("<u>", made)
        c = model().certify("a <b>fine</b> film", synonyms=SETS)
        self.assertIn("&lt;b&gt;", c._repr_html_())
        self.assertIn("background", model().explain("a fine film", synonyms=SETS)._repr_html_())


class Choice(unittest.TestCase):
    def test_blocks(self):
        data = stet.demo_data(100, 3)
        parts = [stet.block(data, k, 0.25) for k in (1, 2, 3, 4)]
        self.assertEqual(sorted(t for held_out, _ in parts for t in held_out.texts), sorted(data.texts))
        for held_out, rest in parts:
            self.assertEqual(sorted(held_out.texts + rest.texts), sorted(data.texts))
            self.assertAlmostEqual(held_out.labels.mean(), rest.labels.mean(), 1)
        with self.assertRaisesRegex(stet.UsageError, "4 blocks"):
            stet.block(data, 5, 0.25)
        with self.assertRaisesRegex(stet.UsageError, "from 1"):
            stet.block(data, 0)

    def test_frontier(self):
        self.assertEqual(stet.frontier([0.9, 0.8, 0.85, 0.9], [0.5, 0.7, 0.5, 0.5]), [1, 0])
        self.assertEqual(stet.frontier([], []), [])
        with self.assertRaisesRegex(stet.UsageError, "as many"):
            stet.frontier([1], [1, 2])


if __name__ == "__main__":
    unittest.main()
