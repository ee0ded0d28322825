#!/bin/sh
# A small sweep: table, JSON, plots; it goes on where it was stopped; points that fail are named.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1

i=0
while [ $i -lt 40 ]; do
    printf '1\tthis film is good and fine and great\n0\tthis film is bad and poor and awful\n'
    i=$((i + 1))
done >train.tsv
for w in this film is good fine great bad poor awful and; do
    printf '%s' $w
    for k in 1 2 3 4 5 6; do printf ' 0.%d' $(((${#w} * k * 7 + $(printf '%d' "'$w") * k) % 10)); done
    echo
done >vectors.txt
printf '{"good": ["fine", "great"], "bad": ["poor", "awful"]}' >map.json
train="--data train.tsv --vectors vectors.txt --model cnn --filters 8 --lr 0.02 --batch 8 --epochs 3"

output "validation %" "$STET" sweep -o s --betas 0,0.1 --seeds 1,2 --jobs 2 --test train.tsv -- $train
for p in beta-0_seed-1 beta-0_seed-2 beta-0.1_seed-1 beta-0.1_seed-2; do
    [ -s s/$p/config.json ] && [ -s s/$p/eval.json ] && [ -s s/$p/inspect.json ] || fail "s/$p is not complete"
done
for f in accuracy.svg accuracy.png gbm.svg gbm.png; do
    [ -s s/$f ] || fail "s/$f is missing"
done
[ -z "$(ls s/*/*.part 2>/dev/null)" ] || fail "something half-done stays behind"
[ "$("$STET" sweep -q -o s --betas 0,0.1 --seeds 1,2 --json -- $train | wc -l)" = 2 ] || fail "a line for each cell"
output '"beta":0.1,"seeds":2,"valid_accuracy":1.0' "$STET" sweep -o s --betas 0,0.1 --seeds 1,2 --json -- $train

# The bound is smaller with the term than without.
sum() { sed 's/.*"gbm_sum":\([0-9.]*\).*/\1/' "s/$1/inspect.json"; }
[ "$(printf '%s\n%s\n' "$(sum beta-0.1_seed-1)" "$(sum beta-0_seed-1)" | sort -g | head -1)" = "$(sum beta-0.1_seed-1)" ] ||
    fail "beta 0.1 gives $(sum beta-0.1_seed-1), beta 0 $(sum beta-0_seed-1)"

# What is complete stays; what is missing is made; more values may be added.
touch -d '2001-01-01' s/*/train.json
rm s/beta-0.1_seed-2/inspect.json
output "0.3" "$STET" sweep -o s --betas 0,0.1,0.3 --seeds 1,2 -- $train
[ "$(find s -name train.json -newermt 2002-01-01 | wc -l)" = 2 ] || fail "complete points were trained again"
[ -s s/beta-0.1_seed-2/inspect.json ] || fail "a missing stage was not made"

output "lambda" "$STET" sweep -o l --smooths 0,2 -- $train --synonyms map.json
[ -s l/smooth-2_seed-1/config.json ] || fail "smooth-2"
grep -q '"smooth": 2.0' l/smooth-2_seed-1/config.json || fail "lambda does not reach the run"

expect 2 "expected --betas or --smooths" "$STET" sweep -o x -- $train
expect 2 "expected -o DIR" "$STET" sweep --betas 1 -- $train
expect 2 "--betas 0,x" "$STET" sweep -o x --betas 0,x -- $train
"$STET" sweep -o x --betas 0 -- --data none.tsv --vectors vectors.txt >out 2>err
[ $? = 1 ] || fail "a failed point should give status 1"
grep -q "x/beta-0_seed-1: failed: stet: none.tsv" err || fail "stderr: $(cat err)"
grep -q "1 of 1 points failed" err || fail "stderr: $(cat err)"

# Stopped and taken up again.
"$STET" sweep -q -o k --betas 0,0.01 -- $train --epochs 4000 --patience 0 >out 2>err &
pid=$!
sleep 2
kill -TERM $pid
wait $pid
[ $? = 130 ] || fail "an interrupted sweep should exit with 130, not $?: $(cat err)"
[ -s k/beta-0_seed-1/checkpoint.safetensors ] || [ -s k/beta-0_seed-1/train.json ] || fail "no checkpoint: $(cat err)"
exit $failed
