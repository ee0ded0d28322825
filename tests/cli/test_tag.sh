#!/bin/sh
# Tags from the command line: training, scoring, tagging, and mistakes.
. "$(dirname "$0")/cli_test.sh"

word() { # number, form, tag
    printf '%s\t%s\t_\t_\t%s\t_\t_\t_\t_\t_\n' "$1" "$2" "$3"
}
{
    word 1 the DT && word 2 old JJ && word 3 man NN && word 4 sleeps VBZ && echo
    word 1 the DT && word 2 old NN && word 3 man VBP && word 4 boats NNS && echo
} >"$TMP/bank.conllu"
echo "1 the DT" >"$TMP/bad.conllu"

expect 0 "wrote" "$STET" tag train --data "$TMP/bank.conllu" -o "$TMP/tagger.tsv.xz" --epochs 20
"$STET" tag train -q --data "$TMP/bank.conllu" -o "$TMP/again.tsv.xz" --epochs 20
cmp -s "$TMP/tagger.tsv.xz" "$TMP/again.tsv.xz" || fail "two trainings with one seed differ"
output "8 words: accuracy 100.00 %" "$STET" tag eval "$TMP/tagger.tsv.xz" "$TMP/bank.conllu"
output '"accuracy":1.0,"n":8' "$STET" tag eval --json "$TMP/tagger.tsv.xz" "$TMP/bank.conllu"
output "man	VBP" "$STET" tag run --tagger "$TMP/tagger.tsv.xz" "the old man boats"
output '"words":["the","old"]' "$STET" tag run --json --tagger "$TMP/tagger.tsv.xz" "the old"
output "n't	RB" "$STET" tag run "I don't know."
[ "$(printf 'The film.\nA film.\n' | "$STET" tag run -q | wc -l)" = 8 ] || fail "two lines of standard input"

expect 2 "needs --data FILE and --out FILE" "$STET" tag train
expect 2 "TAGGER FILE" "$STET" tag eval builtin
expect 3 "bad.conllu:1: expected 10 columns" "$STET" tag train --data "$TMP/bad.conllu" -o "$TMP/x"
expect 3 "bad.conllu:1: expected C, D or W" "$STET" tag eval "$TMP/bad.conllu" "$TMP/bank.conllu"
expect 1 "No such file" "$STET" tag run --tagger "$TMP/none" word
expect 4 "is below" "$STET" tag eval --require 1 builtin "$TMP/bank.conllu"
[ -e "$TMP/x" ] && fail "a failed training left a file"
exit $failed
