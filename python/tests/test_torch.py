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


    class StateSpace(nn.Module):
        """A kernel of 2 Re(C Abar^l Bbar): S4D by zero-order hold; with p and b, the S4 of stet by the bilinear rule."""

        def __init__(self, h, n, low_rank):
            super().__init__()
            names = ("log_a_real", "a_imag", "c") if low_rank else ("log_A_real", "A_imag", "C")
            for name, value in zip(names, (torch.full((h, n), -0.7), 3.1 * torch.arange(n).repeat(h, 1), torch.randn(h, n, 2))):
                setattr(self, name, nn.Parameter(value * torch.empty_like(value).uniform_(0.9, 1.1)))
            self.log_dt, self.low_rank = nn.Parameter(torch.empty(h).uniform_(-5, -2)), low_rank
            if low_rank:
                self.p, self.b = nn.Parameter(0.3 * torch.randn(h, n, 2)), nn.Parameter(torch.randn(h, n, 2))

        def forward(self, length):
            dt = torch.exp(self.log_dt.double())[:, None]
            if not self.low_rank:
                lam, c = -torch.exp(self.log_A_real.double()) + 1j * self.A_imag.double(), torch.view_as_complex(self.C.double())
                powers = torch.exp(lam[..., None] * dt[..., None] * torch.arange(length))
                return 2 * torch.einsum("hn,hnl->hl", c * (torch.exp(lam * dt) - 1) / lam, powers).real.float()
            lam = -torch.exp(self.log_a_real.double()) - 1j * self.a_imag.double()
            p, b, c = (torch.view_as_complex(x.double()) for x in (self.p, self.b, self.c))
            both = lambda z: torch.cat([z, z.conj()], 1)
            a = torch.diag_embed(both(lam)) - both(p)[:, :, None] * both(p).conj()[:, None, :]
            eye = torch.eye(a.shape[1], dtype=a.dtype)
            left = torch.linalg.inv(eye - dt[..., None] / 2 * a)
            step, z, out = left @ (eye + dt[..., None] / 2 * a), left @ (dt[..., None] * both(b)[:, :, None]), []
            for _ in range(length):
                out.append(2 * (c[:, None] @ z[:, : c.shape[1]]).real[:, 0, 0])
                z = step @ z
            return torch.stack(out, 1).float()

    class S4(nn.Module):
        def __init__(self, low_rank=False, layers=2, width=8, block="glu", pool="mean", pre_norm=False):
            super().__init__()
            self.embedding, self.block, self.pool, self.pre_norm = nn.Embedding(len(words), 12), block, pool, pre_norm
            self.encoder = nn.Linear(12, width) if width != 12 else nn.Identity()
            self.kernels = nn.ModuleList([StateSpace(width, 4, low_rank) for _ in range(layers)])
            for k in self.kernels:
                k.D = nn.Parameter(torch.randn(width))
            if block == "glu":
                self.mixes = nn.ModuleList([nn.Linear(width, 2 * width) if low_rank else nn.Conv1d(width, 2 * width, 1)
                                            for _ in range(layers)])
                self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(layers)])
            else:
                self.mixes = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
            self.decoder = nn.Linear(width, 2)

        def forward(self, ids):
            u = self.encoder(self.embedding(ids))
            n = u.shape[1]
            for i, kernel in enumerate(self.kernels):
                v = self.norms[i](u) if self.pre_norm else u
                k = torch.fft.rfft(kernel(n), 2 * n)
                y = torch.fft.irfft(torch.fft.rfft(v.transpose(1, 2), 2 * n) * k, 2 * n)[..., :n].transpose(1, 2) + v * kernel.D
                mix = self.mixes[i]
                if self.block != "glu":
                    u = mix(torch.relu(y))
                    continue
                z = nn.functional.gelu(y)
                z = mix(z.transpose(1, 2)).transpose(1, 2) if isinstance(mix, nn.Conv1d) else mix(z)
                u = u + nn.functional.glu(z, dim=2)
                u = u if self.pre_norm else self.norms[i](u)
            return self.decoder(u.amax(1) if self.pool == "max" else u.mean(1))


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

    def test_s4(self):
        for how in ({}, {"low_rank": True}, {"width": 12, "layers": 1}, {"block": "relu", "pool": "max"},
                    {"low_rank": True, "pool": "max", "layers": 1}):
            with self.subTest(**how):
                self.assertEqual(self.same(S4(**how)).kind, "s4")
        with self.assertRaisesRegex(stet.NotSupported, "answers otherwise"):
            stet.from_torch(S4(pre_norm=True), words)
        module = S4()
        del module.kernels[1].D
        with self.assertRaisesRegex(stet.NotSupported, "state space with"):
            stet.from_torch(module, words)
        module = S4()
        module.norms[1] = nn.Identity()
        with self.assertRaisesRegex(stet.NotSupported, "layer norm"):
            stet.from_torch(module, words)

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
