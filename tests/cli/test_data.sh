#!/bin/sh
# Corpora from the command line: looked at, converted, fetched, and mistakes.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1

printf '1\tA good film, I liked it\n0\tbad\n1\t\n' >train.tsv
printf '1\tok\nno tab\n0\tfine\n' >bad.tsv
printf 'good 1 2\nfilm 0 1\nbad -1 0\n' >vectors.txt
printf 'Class Index,Title,Description\n3,"a, ""b""","two\nlines"\n4,c,d\n' >news.csv

output "texts    3" "$STET" data info train.tsv
output "length   mean 2.7, median 1, 90 % up to 7, longest 7 tokens" "$STET" data info train.tsv
output "known    37.50 % of the tokens" "$STET" data info train.tsv --vectors vectors.txt
output '"texts":3,"skipped":0,"classes":{"0":1,"1":2},"tokens":8' "$STET" data info train.tsv --json
output '"known_tokens":0.375' "$STET" data info train.tsv --vectors vectors.txt --json
output "tokens   7 (keras)" "$STET" data info train.tsv --tokenizer keras
output "texts    2 (1 bad lines left out)" "$STET" data info bad.tsv --skip-bad -q
output '"classes":{"3":1,"4":1}' "$STET" data info news.csv --json
[ "$(printf 'one\ntwo\n' | "$STET" data info - --unlabelled | head -1)" = "texts    2" ] || fail "standard input"

"$STET" data convert -q news.csv news.jsonl.xz && "$STET" data convert -q news.jsonl.xz news.tsv || fail "convert"
[ "$(head -1 news.tsv)" = "3	a, \"b\" two lines" ] || fail "converted: $(head -1 news.tsv)"
[ "$("$STET" data convert -q train.tsv -)" = "$(cat train.tsv)" ] || fail "converted to standard output"
[ "$("$STET" data convert -q train.tsv - --limit 2 | wc -l)" = 2 ] || fail "a sample of two"
output '"texts":2' "$STET" data convert --json --skip-bad -q bad.tsv x.tsv

output "imdb" "$STET" data get
output '"glove.6B":' "$STET" data get --json
expect 0 "done" "$STET" data get "file://$TMP/train.tsv" -o got
sum=$(sha256sum train.tsv | cut -d' ' -f1)
expect 0 "done" "$STET" data get "file://$TMP/train.tsv" --sha256 "$sum" -o checked
expect 3 "expected SHA-256" "$STET" data get "file://$TMP/train.tsv" --sha256 "$(echo "$sum" | tr 0-9 1-90)" -o unlike
[ -z "$(ls unlike)" ] || fail "a file that is another stays"
expect 2 "64 digits" "$STET" data get "file://$TMP/train.tsv" --sha256 12 -o unlike
expect 2 "checks one file" "$STET" data get imdb sst2 --sha256 "$sum" -o unlike
cmp -s train.tsv got/train.tsv || fail "fetched a copy"

expect 3 "bad.tsv:2: expected at least 2 columns, found 1" "$STET" data info bad.tsv
expect 3 "news.csv:1: no column 'mood'" "$STET" data info news.csv --label mood
expect 1 "none.tsv" "$STET" data info none.tsv
expect 1 "none.txt" "$STET" data info train.tsv --vectors none.txt
expect 2 "expected FILE" "$STET" data info
expect 2 "must end in .tsv" "$STET" data convert train.tsv out.doc
expect 2 "no corpus 'imbd'" "$STET" data get imbd
expect 1 "no/such/out.tsv" "$STET" data convert train.tsv no/such/out.tsv
[ -e out.doc ] && fail "a refused conversion left a file"
exit $failed
