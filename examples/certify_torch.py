"""certify_torch.py - train a TextCNN in PyTorch, then attack and certify it with stet."""
import numpy as np
import torch
from torch import nn

import stet


class TextCNN(nn.Module):
    def __init__(self, words, dim=32, filters=32, widths=(2, 3)):
        super().__init__()
        self.embedding = nn.Embedding(words, dim, padding_idx=0)
        self.convs = nn.ModuleList([nn.Conv1d(dim, filters, k) for k in widths])
        self.fc = nn.Linear(filters * len(widths), 2)

    def forward(self, ids):
        x = self.embedding(ids).transpose(1, 2)
        return self.fc(torch.cat([torch.relu(c(x)).amax(2) for c in self.convs], 1))


torch.manual_seed(1)
train, test = stet.demo_data(1000, seed=1), stet.demo_data(100, seed=2)

# The same words as stet reads; substitutes join the vocabulary, so that the model knows them.
words = ["<pad>", "<unk>"] + sorted({w for t in train.texts for w in stet.tokenize(t)} | set(stet.Synonyms("builtin")))
number = {w: i for i, w in enumerate(words)}


def encode(texts):
    rows = [torch.tensor([number.get(w, 1) for w in stet.tokenize(t)]) for t in texts]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


net = TextCNN(len(words))
optimizer = torch.optim.Adam(net.parameters(), 0.01)
for epoch in range(4):
    for batch in torch.randperm(len(train.texts)).split(50):
        loss = nn.functional.cross_entropy(net(encode([train.texts[i] for i in batch])),
                                           torch.tensor(train.labels[batch]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

model = stet.from_torch(net, words, classes=test.classes)

with torch.no_grad():
    torch_logits = np.concatenate([net(encode([t])).numpy() for t in test.texts])
difference = np.abs(model.logits(test.texts) - torch_logits).max()
print(f"logits differ from PyTorch's by at most {difference:.1e}")
assert difference < 1e-4

attacked = model.attack(test.texts, test.labels, synonyms="builtin")
certified = model.certify(test.texts, test.labels, synonyms="builtin")
print(f"accuracy {attacked.summary.clean:.0%}, under attack {attacked.summary.aua:.0%}, "
      f"certified {certified.summary.certified:.0%}")
