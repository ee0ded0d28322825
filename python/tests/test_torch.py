"""PyTorch modules as stet models and as victims."""

import unittest

import numpy as np

import stet
from common import SETS, folder, test

try:
    import torch
    from torch import nn
except ImportError:
    torch = None
try:
    import transformers
except ImportError:
    transformers = None

words = ["<pad>", "<unk>"] + sorted({w for t in stet.demo_data(300, 5).texts for w in stet.tokenize(t)}
                                    | set(stet.Synonyms(SETS)))
number = {w: i for i, w in enumerate(words)}
texts = [t for t in test.texts if len(stet.tokenize(t)) >= 5]  # the widest kernel


def encode(texts):
    return [[number.get(w, 1) for w in stet.tokenize(t)] for t in texts]


if torch:
    class TextCNN(nn.Module):
        def __init__(self, classes=2, two_d=False, act=torch.relu):
            super().__init__()
            self.embedding, self.act, self.two_d = nn.Embedding(len(words), 12), act, two_d
            self.convs = nn.ModuleList([nn.Conv2d(1, 6, (k, 12)) if two_d else nn.Conv1d(12, 6, k) for k in (2, 3, 5)])
            self.fc = nn.Linear(18, classes)

        def forward(self, ids):
            x = self.embedding(ids)
            if self.two_d:
                pooled = [self.act(c(x[:, None])).squeeze(3).amax(2) for c in self.convs]
            else:
                pooled = [self.act(c(x.transpose(1, 2))).amax(2) for c in self.convs]
            return self.fc(torch.cat(pooled, 1))

    class BiLSTM(nn.Module):
        def __init__(self, pool):
            super().__init__()
            self.embedding, self.pool = nn.Embedding(len(words), 12), pool
            self.rnn = nn.LSTM(12, 7, batch_first=True, bidirectional=True)
            self.out = nn.Linear(14, 3)

        def forward(self, ids):
            states, (last, _) = self.rnn(self.embedding(ids))
            x = {"last": lambda: torch.cat([last[0], last[1]], 1), "max": lambda: states.amax(1),
                 "mean": lambda: states.mean(1)}[self.pool]()
            return self.out(x)


@unittest.skipUnless(torch, "needs torch")
class FromTorch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def same(self, module):
        """The logits of real texts, read by stet's tokeniser and by ours."""
        m = stet.from_torch(module, words)
        with torch.inference_mode():
            want = np.concatenate([module(torch.tensor([ids])).numpy() for ids in encode(texts)])
        got = m.logits(texts)
        if want.shape[1] == 1:
            got = got[:, 1:] - got[:, :1]
        np.testing.assert_allclose(got, want, atol=1e-4)
        self.assertGreater(np.ptp(want), 0.01)
        return m

    def test_cnn(self):
        m = self.same(TextCNN())
        self.assertTrue({r.verdict for r in m.certify(texts, synonyms=SETS)} <= {"certified", "undecided"})
        self.assertEqual(m.attack(texts, synonyms=SETS).summary.clean, 1)

    def test_cnn_of_images(self):
        self.same(TextCNN(two_d=True))

    def test_one_logit(self):
        self.same(TextCNN(classes=1))

    def test_bilstm(self):
        for pool in ("last", "max", "mean"):
            self.assertEqual(self.same(BiLSTM(pool)).kind, "bilstm")

    def test_saved(self):
        module = TextCNN()
        m = stet.from_torch(module, words, classes=["bad", "good"], out=f"{folder()}/torch")
        again = stet.load(f"{folder()}/torch")
        self.assertEqual(again.classes, ["bad", "good"])
        np.testing.assert_array_equal(again.predict_proba(texts), m.predict_proba(texts))

    def test_vectors_of_one_s_own(self):
        module = TextCNN()
        table = module.embedding.weight.detach().numpy()
        module.embedding = nn.Identity()
        m = stet.from_torch(module, {w: i for i, w in enumerate(words)}, table)
        with torch.inference_mode():
            want = module(torch.tensor(table[encode(texts[:1])]))
        np.testing.assert_allclose(m.logits(texts[:1]), want, atol=1e-4)

    def test_what_is_something_else(self):
        with self.assertRaisesRegex(stet.NotSupported, "answers otherwise"):
            stet.from_torch(TextCNN(act=torch.tanh), words)
        with self.assertRaisesRegex(stet.NotSupported, "one linear layer"):
            stet.from_torch(nn.Linear(2, 2), words)
        deep = BiLSTM("last")
        deep.rnn = nn.LSTM(12, 7, num_layers=2, batch_first=True, bidirectional=True)
        with self.assertRaisesRegex(stet.NotSupported, "one layer"):
            stet.from_torch(deep, words)
        with self.assertRaisesRegex(stet.UsageError, "number"):
            stet.from_torch(TextCNN(), words + ["more"])

    def test_victim(self):
        module = TextCNN()

        def padded(texts):  # to one length, so that a text has one answer
            return torch.tensor([r + [0] * (200 - len(r)) for r in encode(texts)])

        a = stet.attack(module, texts[:5], synonyms=SETS, encode=padded)
        self.assertEqual(a.summary.clean, 1)
        self.assertGreater(a.summary.queries_mean, 10)

    @unittest.skipUnless(transformers, "needs transformers")
    def test_hugging_face_pipeline(self):
        path = f"{folder()}/wordpieces.txt"
        with open(path, "w") as f:
            f.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + words[2:]))
        config = transformers.BertConfig(vocab_size=len(words) + 3, hidden_size=8, num_hidden_layers=1,
                                         num_attention_heads=2, intermediate_size=8, num_labels=3,
                                         id2label={0: "low", 1: "mid", 2: "high"})
        pipe = transformers.pipeline("text-classification", model=transformers.BertForSequenceClassification(config),
                                     tokenizer=transformers.BertTokenizerFast(path, model_max_length=64), device="cpu")
        r = stet.attack(pipe, texts[:4], synonyms=SETS)
        want = [pipe(t, truncation=True)[0]["label"] for t in texts[:4]]
        self.assertEqual([a.label for a in r], want)
        self.assertEqual(r.summary.clean, 1)


if __name__ == "__main__":
    unittest.main()
