#!/usr/bin/env python3
"""TextAttack and OpenAttack on a stet model through stet.adapters, beside stet's own attacks: verdicts first, then times.

    python3 bench/frameworks.py RUN --data test.tsv --synonyms words.subst [--texts 50] [--frameworks textattack,openattack,recipe]
            [--attacks pwws,textfooler] [--words] [--json]

RUN is a folder of `stet train`. Both frameworks run their own code: TextAttack's GreedyWordSwapWIR and UntargetedClassification, as
its recipes PWWSRen2019 and TextFoolerJin2019 put them together; OpenAttack's PWWSAttacker and TextFoolerAttacker. This script gives
them what they would download: substitutes (the sets), for OpenAttack a tokeniser (stet's) too, and in place of the sentence encoder
one that finds everything alike. Stop words and tags are off on both sides; a hidden word is one that the model does not know. stet
runs the profile of the same name. Where texts have words that the frameworks cut otherwise (don't, well-known), --words reduces them to
lower-case words of letters, as many as the model reads.

`recipe` is TextAttack's PWWSRen2019 as it stands, with WordNet and the stop words of NLTK, which must be there (nltk.download); stet
gets the same candidates, without those that it would read as several words.

The victim of all is the same model in this process, asked through the adapter by the frameworks. Times are of the attacks alone, wall
and processor time; stet's is the whole call of stet.attack(), which reads the texts and prepares the model. One thread each.
Exits with 77 where the package stet (PYTHONPATH=python STET_LIBRARY=build/release/libstet.so will do) or both frameworks are missing,
and with 1 where a verdict differs.
"""
import argparse
import json
import re
import sys
import tempfile
import time

try:
    import stet
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)

HIDDEN = "xunknownx"  # one word, not in the vocabulary


def verdict_of(result):
    """Of TextAttack: the outcome by stet's name, the words changed, the queries."""
    from textattack.attack_results import SkippedAttackResult, SuccessfulAttackResult

    if isinstance(result, SkippedAttackResult):
        return "wrong", 0, 0
    if not isinstance(result, SuccessfulAttackResult):
        return "failure", 0, result.num_queries
    changed = result.original_result.attacked_text.all_words_diff(result.perturbed_result.attacked_text)
    return "success", len(changed), result.num_queries


def of_recipe(model, sets, texts):
    """TextAttack's PWWS as it comes, but for what hides a word, which stet is to read as one; its WordNet gives stet's sets."""
    from nltk.corpus import stopwords
    from textattack.attack_recipes import PWWSRen2019

    a = PWWSRen2019.build(stet.adapters.textattack(model))
    a.search_method.unk_token = HIDDEN
    found = {w: {x.lower() for x in a.transformation._get_replacement_words(w)} for t in texts for w in stet.tokenize(t)}
    own = {w: sorted(x for x in c if x != w and stet.tokenize(x) == [x]) for w, c in found.items()}
    of_recipe.stop = f = tempfile.NamedTemporaryFile("w", suffix=".txt")  # gone with the program
    f.write("\n".join(stopwords.words("english")) + "\n")
    f.flush()
    return lambda attack: lambda text, label: verdict_of(a.attack(text, int(label))), version("textattack"), {
        "profile": "textattack", "synonyms": {w: c for w, c in own.items() if c}, "stop": f.name}


def of_textattack(model, sets, texts):
    import textattack as ta
    from textattack.constraints.pre_transformation import RepeatModification
    from textattack.goal_functions import UntargetedClassification
    from textattack.search_methods import GreedyWordSwapWIR
    from textattack.transformations import WordSwap

    class Sets(WordSwap):
        def _get_replacement_words(self, word):
            return sets.get(word.lower(), [])

    ranking = {"pwws": "weighted-saliency", "textfooler": "delete"}

    def make(attack):
        a = ta.Attack(UntargetedClassification(stet.adapters.textattack(model)), [RepeatModification()], Sets(),
                      GreedyWordSwapWIR(ranking[attack], unk_token=HIDDEN))

        return lambda text, label: verdict_of(a.attack(text, int(label)))

    return make, version("textattack"), {"profile": "textattack"}


def of_openattack(model, sets, texts):
    import OpenAttack
    from OpenAttack.attackers import textfooler
    from OpenAttack.exceptions import WordNotInDictionaryException
    from OpenAttack.tags import TAG_English
    from OpenAttack.text_process.tokenizer import Tokenizer

    class Words(Tokenizer):
        TAGS = {TAG_English}

        def do_tokenize(self, x, pos_tagging=True):
            words = stet.tokenize(x)
            return [(w, "other") for w in words] if pos_tagging else words

        def do_detokenize(self, x):
            return " ".join(x)

    class Sets(OpenAttack.substitute.word.WordSubstitute):
        TAGS = {TAG_English}

        def substitute(self, word, pos):
            if word not in sets:
                raise WordNotInDictionaryException()
            return [(w, 1.0) for w in sets[word]]

    class AlwaysAlike:
        TAGS = {TAG_English}

        def calc_score(self, a, b):
            return 1.0

    textfooler.UniversalSentenceEncoder = AlwaysAlike  # which would have to be downloaded
    victim = stet.adapters.openattack(model)
    kinds = {"pwws": OpenAttack.attackers.PWWSAttacker, "textfooler": OpenAttack.attackers.TextFoolerAttacker}

    def make(attack):
        a = kinds[attack](tokenizer=Words(), substitute=Sets(), filter_words=[], token_unk=HIDDEN)

        def one(text, label):
            if victim.get_pred([text])[0] != label:
                return "wrong", 0, 0
            found = a(victim, {"x": text, "y": label})
            changed = sum(x != y for x, y in zip(stet.tokenize(text), stet.tokenize(found))) if found else 0
            return ("success" if found else "failure"), changed, None

        return one

    return make, OpenAttack.__version__, {"profile": "openattack"}


def version(package):
    from importlib.metadata import version as of
    return of(package)


def timed(work):
    wall, cpu = time.perf_counter(), time.process_time()
    out = work()
    return out, time.perf_counter() - wall, time.process_time() - cpu


def compare(make, how, name, attack, model, data, words):
    texts, labels = data
    one = make(attack)
    theirs, wall, cpu = timed(lambda: [one(t, y) for t, y in zip(texts, labels)])
    ours, own_wall, own_cpu = timed(lambda: stet.attack(model, texts, labels, attack=attack, **how))
    right = [i for i, r in enumerate(ours) if r.outcome != "wrong"]
    differ = [i for i, r in enumerate(ours) if r.outcome != theirs[i][0]]
    changed = sum(len(ours[i].swaps) == theirs[i][1] for i in right)
    asked = sum(theirs[i][2] or 0 for i in right) / max(1, len(right))
    return differ, {
        "framework": name, "attack": attack, "model": model.kind, "texts": len(texts), "attacked": len(right), "words_mean": words,
        "same_verdict": len(texts) - len(differ), "same_changed": changed,
        "flipped": sum(r.flipped for r in ours), "their_flipped": sum(t[0] == "success" for t in theirs),
        "queries": ours.summary.queries_mean, "their_queries": asked or None,
        "ms_per_text": 1e3 * own_wall / len(texts), "their_ms_per_text": 1e3 * wall / len(texts),
        "ratio": wall / own_wall, "ratio_cpu": cpu / own_cpu}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("run")
    ap.add_argument("--data", required=True)
    ap.add_argument("--synonyms", required=True)
    ap.add_argument("--frameworks", default="textattack,openattack")
    ap.add_argument("--attacks", default="pwws,textfooler")
    ap.add_argument("--texts", type=int, default=50)
    ap.add_argument("--words", action="store_true", help="reduce texts to lower-case words")
    ap.add_argument("--json", action="store_true")
    a = ap.parse_args()
    model, data, sets = stet.load(a.run), stet.read(a.data), stet.Synonyms(a.synonyms)
    stet.set_threads(1)
    texts, labels = data.texts[: a.texts], data.labels[: a.texts]
    if a.words:
        texts = [" ".join(re.findall("[a-z]+", t.replace("<br", " ").lower())[: model.max_len]) for t in texts]
    data = texts, labels
    lists = {w: list(sets[w]) for w in sets if sets[w]}
    words = sum(len(stet.tokenize(t)) for t in data[0]) / len(data[0])
    stet.attack(model, data[0][:1], data[1][:1], synonyms=sets)  # what is done once for a model is done
    bad, compared = 0, 0
    for name in a.frameworks.split(","):
        try:
            make, number, how = {"textattack": of_textattack, "openattack": of_openattack, "recipe": of_recipe}[name](model, lists, texts)
        except (ImportError, LookupError) as missing:  # or the data of NLTK that TextAttack loads at once
            print(f"skipped {name}: {' '.join(str(missing).split())}", file=sys.stderr)
            continue
        how = {"synonyms": sets, **how, **({"synonyms": stet.Synonyms(how["synonyms"])} if "synonyms" in how else {})}
        for attack in ["pwws"] if name == "recipe" else a.attacks.split(","):
            compared += 1
            differ, r = compare(make, how, name, attack, model, data, words)
            r["version"] = number
            if a.json:
                print(json.dumps(r), flush=True)
            else:
                print(f"{name} {number}, {attack}: {r['same_verdict']} of {r['texts']} verdicts agree ({r['flipped']} and {r['their_flipped']} of "
                      f"{r['attacked']} flipped), {r['same_changed']} of {r['attacked']} change as many words; {r['their_ms_per_text']:.1f} ms "
                      f"a text against {r['ms_per_text']:.3f}: {r['ratio']:.0f} times, {r['ratio_cpu']:.0f} by processor time", flush=True)
            for i in differ:
                bad = 1
                print(f"  text {i} differs: {data[0][i]}", file=sys.stderr)
    return 77 if not compared else bad


if __name__ == "__main__":
    sys.exit(main())
