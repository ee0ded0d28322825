"""TextAttack and OpenAttack themselves, where they are installed, on a stet model."""

import os
import subprocess
import sys
import unittest

import stet
from common import SETS, folder, model, test

try:
    import textattack
except (ImportError, LookupError):  # or the data that it loads at once
    textattack = None

compare = os.path.join(os.path.dirname(__file__), "..", "..", "bench", "frameworks.py")


class Frameworks(unittest.TestCase):
    def same_verdicts(self, name):
        data = f"{folder()}/texts.tsv"
        with open(data, "w") as f:
            f.writelines(f"{test.classes[y]}\t{t}\n" for t, y in zip(test.texts, test.labels))
        model()  # trains it
        done = subprocess.run([sys.executable, compare, f"{folder()}/cnn", "--data", data, "--synonyms", SETS, "--texts", "12",
                               "--frameworks", name], capture_output=True, text=True)
        if done.returncode == 77:
            self.skipTest(done.stderr.splitlines()[-1])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("12 of 12 verdicts agree"), 2, done.stdout)

    def test_textattack(self):
        self.same_verdicts("textattack")

    def test_openattack(self):
        self.same_verdicts("openattack")

    @unittest.skipUnless(textattack, "needs textattack and the data of NLTK that it loads")
    def test_our_results_as_theirs(self):
        from textattack.attack_results import FailedAttackResult, SkippedAttackResult, SuccessfulAttackResult
        from textattack.metrics import AttackSuccessRate

        ours = model().attack(test.texts[:30], test.labels[:30], synonyms=SETS)
        theirs = stet.adapters.textattack_results(model(), ours)
        kinds = {"success": SuccessfulAttackResult, "failure": FailedAttackResult, "wrong": SkippedAttackResult}
        self.assertEqual([type(r) for r in theirs], [kinds[r.outcome] for r in ours])
        numbers = AttackSuccessRate().calculate(theirs)
        self.assertAlmostEqual(numbers["attack_success_rate"], 100 * ours.summary.success_rate, delta=0.01)
        self.assertAlmostEqual(numbers["attack_accuracy_perc"], 100 * ours.summary.aua, delta=0.01)
        self.assertEqual([r.perturbed_result.num_queries for r in theirs if isinstance(r, SuccessfulAttackResult)],
                         [r.queries for r in ours if r.flipped])


if __name__ == "__main__":
    unittest.main()
