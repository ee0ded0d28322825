#!/usr/bin/env python3
"""Tables of docs/results.md from the files in docs/results.

    build.py              write the tables between <!-- table: NAME --> and <!-- end --> anew, from NAME.json
    build.py --check      say whether that would change anything (exit status 1)
    build.py --take FILE  a `stet report --json` without its texts and curves, ready to be kept as NAME.json

Everything outside the markers is written by hand. A file has "machine" and "settings" (a sentence each) and one of

    "rows" with "seeds"   [{"model", "settings", "values": one a seed, "paper"}]: values, median, the paper's figure
    "columns" and "rows"  a plain table
    "report"              what --take made; "paper" may give {"title": {"clean": ..., "pwws": ...}} rows to stand below
    "reproduce"           rows of `stet reproduce`'s reproduce.json, also "label", "sample" among the measures (clean
                          accuracy on the attacked texts), "from" of a measure that another command gave and "likely"
                          of one that is no proof; behind a median of fewer seeds than the row has, their number in brackets
"""
import json
import re
import statistics
import sys
import textwrap
from pathlib import Path

here = Path(__file__).resolve().parent
page = here.parent / "results.md"
marker = re.compile(r"(<!-- table: ([a-z0-9-]+) -->\n).*?(<!-- end -->)", re.S)
attacks = [("pwws", "PWWS"), ("ga", "GA"), ("pso", "PSO"), ("textfooler", "TextFooler"), ("greedy", "greedy")]


def number(x, digits=1):
    return "" if x is None else f"{x:.{digits}f}"


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join(["---"] * len(columns)) + " |"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def by_seed(o):
    columns = ["model", "settings"] + [f"seed {s}" for s in o["seeds"]] + ["median", "paper"]
    rows = [[r["model"], r["settings"]] + [number(v, 2) for v in r["values"]] +
            [number(statistics.median(r["values"]), 2), number(r.get("paper"))] for r in o["rows"]]
    return table(columns, rows)


def wrap(text):
    return textwrap.fill(text, 98, break_long_words=False, break_on_hyphens=False)


def recipe(model):
    t = model["config"].get("training", {})
    text = ", ".join([model["config"]["model"], t.get("defense", "")] + t.get("defense_settings", []))
    return text + (f", vectors smoothed ({t['smooth']:g})" if t.get("smooth") else "")


def samples(report):
    """How many texts each kind of number is about, and with which seeds."""
    seen = {}
    for model in report["models"]:
        for r in model["results"]:
            if "data" in r and r["command"] in ("eval", "attack", "certify"):
                seen.setdefault(r["command"], set()).add((r["data"]["measured"], r["seed"]))
    names = {"eval": "clean", "attack": "under attack", "certify": "proved"}
    return "; ".join(f"{names[c]}: {', '.join(f'{n} texts (seed {s})' for n, s in sorted(seen[c]))}" for c in names if c in seen)


def from_report(o):
    report, shown = o["report"], []
    for summary in report["summary"]:
        for row, model in zip(summary["rows"], report["models"]):
            share = lambda x: "" if x is None else number(100 * x)
            # Attacked accuracy is compared with clean accuracy on the same texts.
            sample = next((r["clean"] for r in model["results"] if r["command"] in ("attack", "certify")), None)
            shown.append([row["model"], recipe(model), share(row["clean"]), share(sample)] +
                         [share(row["aua"].get(key)) for key, _ in attacks] + [share(row["certified"])])
    for name, row in o.get("paper", {}).items():
        shown.append([name, "as published", number(row.get("clean")), ""] + [number(row.get(key)) for key, _ in attacks] +
                     [number(row.get("certified"))])
    return (table(["model", "recipe", "clean", "clean, attacked texts"] + [label for _, label in attacks] + ["proved"], shown) +
            "\n" + wrap(samples(report).capitalize() + ".") + "\n")


names = {"standard": "Standard", "ibp": "IBP", "atfl": "ATFL", "sem": "SEM", "ascc": "ASCC", "gbm": "GBM", "pgd": "PGD-K",
         "freelb": "FreeLB", "freelb++": "FreeLB++", "ranmask": "RanMASK", "safer": "SAFER", "text-crs": "Text-CRS", "dne": "DNE", "augment": "Augmentation", "mixada": "MixADA", "smooth": "stet: smoothed vectors, logit bound",
         "eibc": "EIBC", "certified": "stet: worst case", "robust": "stet: `--recipe robust`"}
sets_names = {"full": "Full-strength sets, attacks as published", "paper": "The paper's candidate sets and settings"}


def figure(m):
    """Median and the longer side of its 95 % interval; a star: not measured by the column's own command; likely: no proof."""
    if not m or "median" not in m:
        return ""
    half = max(m["hi"] - m["median"], m["median"] - m["lo"])
    kind = "likely " if "likely" in m else ""
    return f"{kind}{100 * m['median']:.1f} ±{100 * half:.1f}" + ("*" if "from" in m else "")


def printed(m):
    return number(100 * m["printed"]) if m and "printed" in m else ""


def freedom(row):
    return f"{row['attackable_mean']:.1f} x {row['candidates_mean']:.2f}" if "attackable_mean" in row else ""


def accuracy_rows(rows):
    keys = ["clean", "sample"] + [k for k, _ in attacks] + ["certified"]
    shown = []
    for r in rows:
        m = r["measures"]
        seeds = len(m["clean"]["values"])
        fewer = lambda x: f" ({len(x['values'])})" if x and len(x.get("values", [])) not in (0, seeds) else ""
        shown.append([r.get("label", names[r["defense"]]), seeds, freedom(r)] + [figure(m.get(k)) + fewer(m.get(k)) for k in keys])
        if any(printed(m.get(k)) for k in keys):
            shown.append(["the paper prints", "", ""] + [printed(m.get(k)) for k in keys])
    return table(["defence", "seeds", "words x subst.", "clean", "clean, sample"] + [label for _, label in attacks] + ["certified"], shown)


def beta_rows(rows):
    """Each figure: the median and, in brackets, the value of every seed."""
    each = lambda m: f"{figure(m)} ({', '.join(number(100 * v) for v in m['values'])})"
    short = lambda b: f"{b:.0e}".replace("e-0", "e-") if b else "0"
    shown = [[short(r["beta"]), r["sets"], freedom(r), each(r["measures"]["clean"]), each(r["measures"]["pwws"])] for r in rows]
    return table(["beta", "sets", "words x subst.", "clean", "PWWS"], shown)


def from_reproduce(o):
    rows = o["reproduce"]
    if rows[0]["what"] == "beta":
        return beta_rows(rows)
    parts = {sets: [r for r in rows if r["sets"] == sets] for sets in sets_names}
    return "\n".join(f"{sets_names[sets]}:\n\n" + accuracy_rows(part) for sets, part in parts.items() if part)


def render(name):
    o = json.loads((here / f"{name}.json").read_text())
    body = (from_report(o) if "report" in o else from_reproduce(o) if "reproduce" in o else
            by_seed(o) if "seeds" in o else table(o["columns"], o["rows"]))
    notes = [f"{key.capitalize()}: {o[key]}" for key in ("settings", "machine") if o.get(key)]
    return body + ("\n" + wrap(" ".join(notes)) + "\n" if notes else "")


def take(path):
    """What tables and their readers need: no texts, no curves, no lists of indices."""
    report = json.loads(Path(path).read_text())
    for model in report["models"]:
        for key in ("training_curves", "bounds"):
            model.pop(key, None)
        for result in model["results"]:
            for key in ("examples", "flips", "flipped", "turned", "proved_texts", "broken_texts", "wrong", "per_class", "confusion", "calibration", "units", "inputs", "margins", "config"):
                result.pop(key, None)
    json.dump({"machine": "", "settings": "", "report": report}, sys.stdout, indent=1, ensure_ascii=False)
    print()


def main(args):
    if args[:1] == ["--take"]:
        take(args[1])
        return 0
    old = page.read_text()
    new = marker.sub(lambda m: m[1] + render(m[2]) + m[3], old)
    used = {m[2] for m in marker.finditer(old)}
    unused = sorted(p.stem for p in here.glob("*.json") if p.stem not in used)
    if args[:1] == ["--check"]:
        if old != new or unused:
            print("docs/results.md is old: ./run docs" if old != new else f"no table shows {', '.join(unused)}")
        return int(old != new or bool(unused))
    page.write_text(new)
    return 0


sys.exit(main(sys.argv[1:]))
