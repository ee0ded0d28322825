"""What the tests share: small models trained once, and the built-in corpus."""

import functools
import tempfile

import stet

SETS = "builtin"
test = stet.demo_data(60, 99)


@functools.lru_cache(None)
def folder() -> str:
    return tempfile.mkdtemp(prefix="stet-test-")


@functools.lru_cache(None)
def model(kind: str = "cnn", **settings) -> stet.Model:
    d = stet.demo_data(1500, 7)
    size = {"filters": 16} if kind == "cnn" else {"hidden": 8}
    return stet.train(d.texts, [d.classes[i] for i in d.labels], model=kind, out=f"{folder()}/{kind}", epochs=4,
                      synonyms=SETS, lr=0.01, dropout=0, tune_vectors=0.01, embed={"dim": 16, "epochs": 4}, **size, **settings)


def read(path: str) -> str:
    with open(path) as f:
        return f.read()
