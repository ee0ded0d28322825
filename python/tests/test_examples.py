"""The programs of examples/, each run as a user runs it."""

import os
import subprocess
import sys
import unittest

from common import SETS, model

examples = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")

try:
    import torch
except ImportError:
    torch = None


class Examples(unittest.TestCase):
    def example(self, name, *args):
        r = subprocess.run([sys.executable, os.path.join(examples, name), *args], capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def test_certify(self):
        out = self.example("certify.py", model().path, SETS, "a delightful film")
        self.assertRegex(out, "^(negative|positive): (certified|broken)")

    def test_attack(self):
        out = self.example("attack.py")
        self.assertRegex(out, r"accuracy \d+%, under attack \d+%\n.* -> ")

    def test_train(self):
        self.assertRegex(self.example("train.py"), r"[1-9]\d* of 100 texts are proved")

    @unittest.skipUnless(torch, "needs torch")
    def test_certify_torch(self):
        out = self.example("certify_torch.py")
        self.assertIn("logits differ from PyTorch's by at most", out)
        self.assertRegex(out, r"accuracy ([7-9]\d|100)%")


if __name__ == "__main__":
    unittest.main()
