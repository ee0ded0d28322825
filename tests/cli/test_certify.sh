#!/bin/sh
# Certify a small model as a user would: verdicts, file, budgets, predictions, proofs against attacks, and bad input.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1

repeat 40 '1\tthis film is good and fine number%d\n0\tthis film is bad and poor number%d\n' >data.tsv
vectors this film is good fine great bad poor awful and >vectors.txt
echo '{"good": ["fine", "awful", "unheardof"], "bad": ["poor", "great"], "poor": ["great"]}' >sets.json
for model in cnn bilstm s4; do
    "$STET" train --data data.tsv --vectors vectors.txt --synonyms sets.json --model $model --lr 0.02 --batch 8 --epochs 4 -o $model -q >/dev/null || fail "training"
    both="--data data.tsv --synonyms sets.json"
    on="$both --no-record"
    output '"undecided":0.0' "$STET" certify $model $on --complete --json -q
    output '"certified":' "$STET" certify $model $on --method ibp --json -q

    # The file does not depend on the threads, and whoever attacks agrees.
    for t in 1 2; do
        output "certified" "$STET" certify $model $on --complete --time-limit 0 --largest --threads $t -o cert$t.jsonl -q
    done
    cmp -s cert1.jsonl cert2.jsonl || fail "$model: the certificates depend on the threads"
    [ "$(wc -l <cert1.jsonl)" = 81 ] || fail "$model: $(wc -l <cert1.jsonl) lines for 80 texts"
    output "<= robust accuracy <=" "$STET" sandwich $model $both --attack exhaustive,pwws -q
    output '"attacks":{"greedy":' "$STET" sandwich $model $both --complete --attack greedy --json -q
done
output '"seed":1,' "$STET" certify cnn $on --json -q
output '"fingerprints":{"model":' "$STET" certify cnn $on --json -q
output "at most 1 of them" "$STET" certify cnn $on --budget 1 -q
output "texts proved robust to N substitutions" "$STET" certify cnn $on --largest -q

# --limit takes the texts that attacks take.
"$STET" certify cnn $on --limit 10 --seed 5 -o few.jsonl -q >/dev/null || fail "a sample"
"$STET" attack cnn $on --limit 10 --seed 5 --attack pwws --log few.log -q >/dev/null || fail "a sample under attack"
sed -n 's/^{"text":\([0-9]*\),.*/\1/p' few.jsonl >a
sed -n 's/.*"index":\([0-9]*\),.*/\1/p' few.log >b
[ -s a ] && cmp -s a b || fail "certify and attack take different samples"

# Sets of texts: only those texts, each with its own.
echo '{"this film is good and fine number0": {"3": ["awful"]}, "this film is bad and poor number1": {"1": ["great"], "5": []}}' >texts.json
output '"n":2,' "$STET" certify cnn --data data.tsv --synonyms texts.json --no-record --json -q
expect 2 "say nothing about" "$STET" predict cnn --certify --synonyms texts.json "another text"

# In the run folder for stet report.
output "certified" "$STET" certify cnn --data data.tsv --synonyms sets.json -q
grep -q '"certified"' cnn/results/certify-auto.json || fail "the result is not kept"

output "most harmful:" "$STET" predict cnn --certify --synonyms sets.json "this film is good" -q
output '"largest_budget":' "$STET" predict cnn --certify --synonyms sets.json --json "this film is good" -q
output "nothing changes the answer" "$STET" predict cnn --certify --synonyms sets.json "" -q

expect 2 "--budget" "$STET" sandwich cnn $both --budget 2
expect 2 "no attack 'nosuch'" "$STET" sandwich cnn $both --attack nosuch
echo '{"unheard": ["of"]}' >none.json
expect 0 "none.json has no substitute for any word of these texts" "$STET" certify cnn --data data.tsv --synonyms none.json --no-record
expect 2 "belong together" "$STET" predict cnn --certify "good"
expect 2 "go with --certify" "$STET" predict cnn --budget 2 "good"
expect 2 "no method 'jiont'" "$STET" certify cnn $on --method jiont
expect 2 "--synonyms" "$STET" certify cnn --data data.tsv
expect 3 "data.tsv:1" "$STET" certify cnn --data data.tsv --synonyms data.tsv
expect 1 "/no/such/folder" "$STET" certify cnn $on -o /no/such/folder/x.jsonl -q
[ ! -e /no/such/folder ] || fail "a folder was made"
expect 4 "below the required" "$STET" certify cnn $on --require 1 -q
exit $failed
