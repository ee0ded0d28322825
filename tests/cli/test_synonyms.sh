#!/bin/sh
# Substitution sets from the command line: sources, filters, looking into a set, and mistakes.
. "$(dirname "$0")/cli_test.sh"

cat >"$TMP/map.json" <<'END'
{"good": ["fine", "bad", "nice"], "film": ["movie", "a"], "a": ["one"]}
END
printf 'a\nthe\n' >"$TMP/stop"
printf 'bad good\n' >"$TMP/antonyms"
printf 'good\nnice\n\nfilm\nmovie\n' >"$TMP/words"
printf 'nice pleasant\n' >"$TMP/pairs"
printf '0\tA good film\n1\tno nice one\n' >"$TMP/data.tsv"
printf 'good 1 0\nnice 1 0.1\nbad 0 1\n' >"$TMP/vectors.txt"

output "words        7, of which 2 can be replaced" \
    "$STET" synonyms build --neighbours "$TMP/map.json" --stop "$TMP/stop" -o "$TMP/s"
output "good: fine bad nice" "$STET" synonyms show "$TMP/s" good
output "film: movie a" "$STET" synonyms show "$TMP/s" film
output "a: -" "$STET" synonyms show "$TMP/s" a
output '"word":"good","substitutes":["fine","bad","nice"]' "$STET" synonyms show --json "$TMP/map.json" good
output '"pairs":5' "$STET" synonyms stats "$TMP/s" --json
output '"tokens_replaceable":0.333333' "$STET" synonyms stats "$TMP/s" --data "$TMP/data.tsv" --json
output '"symmetric_share":1.0' "$STET" synonyms stats builtin --json

"$STET" synonyms build -q --neighbours "$TMP/map.json" --pairs "$TMP/pairs" --antonyms "$TMP/antonyms" \
    --top 1 --symmetric --min-length 4 -o "$TMP/t" || fail "build with filters"
output "good: fine" "$STET" synonyms show "$TMP/t" good
output "pleasant: nice" "$STET" synonyms show "$TMP/t" pleasant
output "movie: film" "$STET" synonyms show "$TMP/t" movie
"$STET" synonyms build -q --neighbours "$TMP/s" --vocab "$TMP/words" -o "$TMP/t" || fail "build with a vocabulary"
output "good: nice" "$STET" synonyms show "$TMP/t" good
"$STET" synonyms build -q --nearest "$TMP/vectors.txt" -k 1 --metric cos --threshold 0.5 -o "$TMP/t" || fail "nearest"
output "nice: good" "$STET" synonyms show "$TMP/t" nice
output "bad: -" "$STET" synonyms show "$TMP/t" bad
if [ -r /usr/share/wordnet/index.noun ]; then
    "$STET" synonyms build -q --wordnet textattack --words "$TMP/words" -o "$TMP/t" || fail "WordNet"
    output "movie: film picture pic flick" "$STET" synonyms show "$TMP/t" movie
fi

# Nothing half-done stays behind, and one line says what is wrong.
expect 2 "needs --out" "$STET" synonyms build --neighbours "$TMP/map.json"
expect 2 "or a source: --neighbours" "$STET" synonyms build -o "$TMP/u"
expect 2 "--wordnet needs words" "$STET" synonyms build --wordnet openattack -o "$TMP/u"
expect 2 "--threshold high: expected a number" \
    "$STET" synonyms build --nearest "$TMP/vectors.txt" --threshold high -o "$TMP/u"
expect 3 "neither a built set nor a JSON map: $TMP/words:1:" "$STET" synonyms stats "$TMP/words"
expect 3 "map.json.bad:1:" sh -c "head -c 20 '$TMP/map.json' >'$TMP/map.json.bad'; '$STET' synonyms stats '$TMP/map.json.bad'"
expect 3 "fingerprint mismatch" sh -c "(head -c 64 '$TMP/s'; printf x; tail -c +66 '$TMP/s') >'$TMP/s.bad'; '$STET' synonyms stats '$TMP/s.bad'"
expect 3 "its header announces" sh -c "head -c 80 '$TMP/s' >'$TMP/s.bad'; '$STET' synonyms show '$TMP/s.bad' good"
expect 3 "words:1: expected two words" "$STET" synonyms build --pairs "$TMP/words" -o "$TMP/u"
expect 1 "nowhere" "$STET" synonyms build --neighbours "$TMP/map.json" -o "$TMP/nowhere/u"
[ ! -e "$TMP/u" ] || fail "a failed build left its file behind"
exit $failed
