"""certify.py [MODEL [SYNONYMS [TEXT]]] - a proof that substitutes change nothing, or the text that flips."""
import sys

import stet

folder, synonyms, text = (sys.argv[1:] + ["demo/robust", "demo/synonyms.subst", "a fine film"][len(sys.argv) - 1:])[:3]
model = stet.load(folder)
r = model.certify(text, synonyms=synonyms)
print(f"{r.answer}: {r.verdict}")
for s in r.swaps:
    print(f"  {s.word} -> {s.substitute}")
