"""train.py - train a model, then certify texts as a stream."""
import stet

train, test = stet.demo_data(2000, seed=1), stet.demo_data(100, seed=2)
model = stet.train(train.texts, train.labels, synonyms="builtin", smooth=4, epochs=4, tune_vectors=0.01,
                   embed={"dim": 25, "epochs": 5})
print(f"validation accuracy {model.training.valid_accuracy:.0%}")

proved = 0
for r in stet.iter_certify(model, test.texts, test.labels, synonyms="builtin"):
    proved += r.certified
    if r.verdict == "undecided":
        print("open:", r.text)
print(f"{proved} of {len(test.texts)} texts are proved")
