"""Other frameworks; those that are not installed are stood in for, or skipped."""

import copy
import pickle
import sys
import types
import unittest
from unittest import mock

import numpy as np

import stet
from common import SETS, model, test

try:
    import sklearn.base
    import sklearn.utils.validation
except ImportError:
    sklearn = None

SMALL = {"epochs": 12, "patience": 0, "filters": 8, "embed": {"dim": 8, "epochs": 2}, "tune_vectors": 0.01, "lr": 0.01}

if sklearn:
    def words(X):
        return [" ".join(f"w{i}x{int(4 * v)}" for i, v in enumerate(row)) for row in X]

    class OfNumbers(stet.adapters.Classifier):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.input_tags.string, tags.input_tags.two_d_array = False, True
            return tags

        def fit(self, X, y=None):
            return super().fit(words(sklearn.utils.validation.validate_data(self, X)), y)

        def predict(self, X):
            self._fitted()
            return super().predict(words(sklearn.utils.validation.validate_data(self, X, reset=False)))

        def predict_proba(self, X):
            self._fitted()
            return super().predict_proba(words(sklearn.utils.validation.validate_data(self, X, reset=False)))


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

    @unittest.skipUnless(sklearn and hasattr(sklearn.base.BaseEstimator, "__sklearn_tags__"), "needs scikit-learn 1.6")
    def test_estimator_checks(self):
        """scikit-learn's checks feed tables of numbers. With every row written as a text, all but these apply."""
        from sklearn.utils.estimator_checks import check_estimator

        not_for_texts = {"check_fit2d_1feature": "no vectors can be trained on texts of one word"}
        done = check_estimator(OfNumbers(settings={**SMALL, "epochs": 3}), on_skip=None, on_fail=None,
                               expected_failed_checks=not_for_texts)
        failed = [(d["check_name"], str(d["exception"])) for d in done if d["status"] == "failed"]
        self.assertEqual(failed, [])
        self.assertGreater(sum(d["status"] == "passed" for d in done), 45)
        with self.assertWarnsRegex(Warning, "Can't test estimator"):  # which is about texts, and says so
            check_estimator(stet.adapters.Classifier(settings=SMALL))

    def test_copies(self):
        for c in (pickle.loads(pickle.dumps(model())), copy.deepcopy(model())):
            np.testing.assert_array_equal(c.predict_proba(test.texts), model().predict_proba(test.texts))
            self.assertEqual((c.path, c.classes), (model().path, model().classes))
        sets = pickle.loads(pickle.dumps(stet.Synonyms(SETS)))
        self.assertEqual({w: sets[w] for w in sets}, {w: stet.Synonyms(SETS)[w] for w in stet.Synonyms(SETS)})


if __name__ == "__main__":
    unittest.main()
