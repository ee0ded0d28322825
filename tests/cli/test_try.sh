#!/bin/sh
# A first hour with one's own CSV and nothing downloaded: a ready set, a demonstration on the file, sentences typed at
# the model, one text attacked, a program of others beside it in the report.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1
"$STET" demo --texts 400 --epochs 8 --limit 20 -o d -q >/dev/null || fail "demo"

# Sentences on standard input, as a person would type them.
printf 'I loved it\n\nterrible boring film\nzzz\n' | "$STET" try d/standard >out 2>err || fail "try: $(cat err)"
[ "$(grep -c ' % sure$' out)" = 3 ] || fail "try answered $(cat out)"
grep -q "no word of it has a substitute" out || fail "try: $(cat out)"
grep -qE "proved: no combination|flipped by|open: no flip" out || fail "try gave no verdict: $(cat out)"
printf 'I loved it\n' | "$STET" try d/robust --json | grep -q '"verdict"' || fail "try --json"
expect 2 "run 'stet demo' first" "$STET" try
expect 2 "expected --synonyms SET" "$STET" try d
mkdir demo && mv d/robust d/synonyms.subst demo
printf 'I loved it\n' | "$STET" try | grep -q "sure" || fail "try without a folder should take demo/robust"
mv demo/robust demo/synonyms.subst d

# One text attacked: the answer the model gives is what the attack must change.
output "pwws" "$STET" attack d/standard --text "terrible boring film" --attack pwws,greedy
grep -qE -- "->|not flipped" .out || fail "attack --text: $(cat .out)"
output '"outcome"' "$STET" attack d/standard --text "terrible boring film" --attack greedy --json
expect 2 "expected --data FILE, or a run folder and --text" "$STET" attack d/standard

# A stop list and a set of one's own, from WordNet.
if [ -d /usr/share/wordnet ]; then
    awk -F '\t' 'BEGIN { print "label;text" } { print $1 ";\"" $2 "\"" }' d/train.tsv >own.csv
    output "can be replaced" "$STET" synonyms build --data own.csv -o own.subst
    output "film: " "$STET" synonyms show own.subst film
    output "Film: " "$STET" synonyms show own.subst Film
    output "the: -" "$STET" synonyms show own.subst the
    [ "$("$STET" synonyms show own.subst Film | cut -d: -f2)" = "$("$STET" synonyms show own.subst film | cut -d: -f2)" ] || fail "case matters in synonyms show"
    expect 2 "has its own filters" "$STET" synonyms build --data own.csv --top 3 -o x.subst
    output "can be replaced" "$STET" synonyms build --neighbours builtin --stop builtin -o b.subst
    "$STET" demo --data own.csv --epochs 3 --limit 20 -o own -q >out 2>err || fail "demo --data: $(cat err)"
    [ -s own/report.html ] || fail "no report of one's own texts"
fi

# Programs of others: the first failure stops, with its reason; results stand beside ours in the report.
expect 1 "no answer to the first text" "$STET" attack --victim-cmd "exit 3" --data d/test.tsv --synonyms builtin --attack pwws -q
expect 2 "--victim-dir needs --victim-cmd" "$STET" attack d/standard --victim-dir x --data d/test.tsv --synonyms builtin
if command -v python3 >/dev/null; then
    cat >victim.py <<'END'
import json, sys
for line in sys.stdin:
    texts = json.loads(line)["texts"]
    good = [0.9 if any(w in t.lower() for w in ("good", "great", "loved")) else 0.2 for t in texts]
    print(json.dumps({"probabilities": [[1 - g, g] for g in good]}), flush=True)
END
    output "pwws" "$STET" attack --victim-cmd "python3 victim.py" --victim-dir theirs --data d/test.tsv --synonyms builtin --attack pwws --profile original --limit 20
    expect 0 "both.html" "$STET" report d/standard theirs -o both.html
    grep -q "a program: python3 victim.py" both.html || fail "the program is not in the report"
fi
exit $failed
