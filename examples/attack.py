"""attack.py - a classifier of one's own, a Python function, as the victim."""
import stet

GOOD = {"good", "great", "fine", "delightful", "wonderful"}


def classifier(texts):
    """How many of its words are good ones: a row (bad, good) for each text."""
    share = [min(1.0, 0.4 + 0.2 * sum(w in GOOD for w in stet.tokenize(t))) for t in texts]
    return [[1 - s, s] for s in share]


texts, labels, _ = stet.demo_data(50)
results = stet.attack(classifier, texts, labels, synonyms="builtin", classes=["bad", "good"])
print(f"accuracy {results.summary.clean:.0%}, under attack {results.summary.aua:.0%}")
for r in results:
    if r.flipped:
        print(", ".join(f"{s.word} -> {s.substitute}" for s in r.swaps))
