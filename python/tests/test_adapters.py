"""Other frameworks; those that are not installed are stood in for, or skipped."""

import sys
import types
import unittest
from unittest import mock

import numpy as np

import stet
from common import SETS, model, test

try:
    import sklearn
except ImportError:
    sklearn = None

SMALL = {"epochs": 12, "patience": 0, "filters": 8, "embed": {"dim": 8, "epochs": 2}, "tune_vectors": 0.01, "lr": 0.01}


def module(name, **names):
    m = types.ModuleType(name)
    m.__dict__.update(names)
    return m


class Wrappers(unittest.TestCase):
    """The frameworks' base classes are abstract and small; these are as they have them."""

    def test_textattack(self):
        wrappers = module("textattack.models.wrappers", ModelWrapper=type("ModelWrapper", (), {}))
        with mock.patch.dict(sys.modules, {"textattack": module("textattack"), "textattack.models.wrappers": wrappers,
                                           "textattack.models": module("textattack.models")}):
            w = stet.adapters.textattack(model())
        self.assertIsInstance(w, wrappers.ModelWrapper)
        np.testing.assert_allclose(w(test.texts[:3]), model().predict_proba(test.texts[:3]), atol=1e-6)
        np.testing.assert_allclose(w(test.texts).sum(axis=1), 1, atol=1e-12)

    def test_openattack(self):
        base = type("Classifier", (), {})
        with mock.patch.dict(sys.modules, {"OpenAttack": module("OpenAttack", Classifier=base)}):
            v = stet.adapters.openattack(model())
        self.assertIsInstance(v, base)
        np.testing.assert_array_equal(v.get_prob(test.texts[:3]).argmax(axis=1), v.get_pred(test.texts[:3]))


class Estimator(unittest.TestCase):
    def test_fit(self):
        d = stet.demo_data(600, 4)
        names = np.array(["zwei", "eins"])[d.labels]  # sorted otherwise than numbered
        c = stet.adapters.Classifier(synonyms=SETS, settings=SMALL).fit(d.texts, names)
        self.assertEqual(c.classes_.tolist(), ["eins", "zwei"])
        prob = c.predict_proba(d.texts)
        self.assertEqual(c.predict(d.texts).tolist(), c.classes_[prob.argmax(axis=1)].tolist())
        self.assertGreater(c.score(d.texts, names), 0.7)
        self.assertGreater(c.certify(d.texts[:50], names[:50]).summary.clean, 0.7)
        self.assertGreater(c.attack(d.texts[:50], names[:50]).summary.clean, 0.7)

    def test_before_fit(self):
        with self.assertRaisesRegex(Exception, "not fitted"):
            stet.adapters.Classifier().predict(["a"])
        with self.assertRaisesRegex(ValueError, "one class"):
            stet.adapters.Classifier().fit(["a", "b"], [1, 1])

    @unittest.skipUnless(sklearn, "needs scikit-learn")
    def test_in_scikit_learn(self):
        from sklearn.base import clone
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import cross_val_score
        from sklearn.pipeline import make_pipeline

        d = stet.demo_data(300, 4)
        c = stet.adapters.Classifier(settings=SMALL, seed=3)
        self.assertEqual(clone(c).get_params(), c.get_params())
        self.assertEqual(len(cross_val_score(c, d.texts, d.labels, cv=2)), 2)
        pipe = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(d.texts, d.labels)
        r = stet.attack(pipe, test.texts[:10], test.labels[:10], synonyms=SETS)
        for a in r:
            if a.flipped:
                self.assertEqual(str(pipe.predict([a.adversarial])[0]), a.answer)


if __name__ == "__main__":
    unittest.main()
