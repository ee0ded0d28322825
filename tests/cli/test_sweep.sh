#!/bin/sh
# A small sweep: table, JSON, plots; it goes on where it was stopped; points that fail are named.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1

repeat 40 '1\tthis film is good and fine and great\n0\tthis film is bad and poor and awful\n' >train.tsv
vectors this film is good fine great bad poor awful and >vectors.txt
printf '{"good": ["fine", "great"], "bad": ["poor", "awful"]}' >map.json
train="--data train.tsv --vectors vectors.txt --model cnn --filters 8 --lr 0.02 --batch 8 --epochs 3"

output "validation %" "$STET" sweep -o s --betas 0,0.1 --seeds 1,2 --jobs 2 --test train.tsv -- $train
for p in beta-0_seed-1 beta-0_seed-2 beta-0.1_seed-1 beta-0.1_seed-2; do
    [ -s s/$p/config.json ] && [ -s s/$p/results/eval.json ] && [ -s s/$p/results/inspect.json ] || fail "s/$p is not complete"
done
for f in accuracy.svg gbm.svg; do
    [ -s s/$f ] || fail "s/$f is missing"
done
[ -z "$(ls s/*/*.part 2>/dev/null)" ] || fail "something half-done stays behind"
[ "$("$STET" sweep -q -o s --betas 0,0.1 --seeds 1,2 --json -- $train | wc -l)" = 2 ] || fail "a line for each cell"
output '"beta":0.1,"seeds":2,"valid_accuracy":1.0' "$STET" sweep -o s --betas 0,0.1 --seeds 1,2 --json -- $train

# The bound is smaller with the term than without.
sum() { sed -n 's/.*"gbm_sum": *\([0-9.]*\).*/\1/p' "s/$1/results/inspect.json"; }
[ "$(printf '%s\n%s\n' "$(sum beta-0.1_seed-1)" "$(sum beta-0_seed-1)" | sort -g | head -1)" = "$(sum beta-0.1_seed-1)" ] ||
    fail "beta 0.1 gives $(sum beta-0.1_seed-1), beta 0 $(sum beta-0_seed-1)"

# What is complete stays; what is missing is made; more values may be added.
old() { find "$@" -type f -exec touch -d '2001-01-01' {} +; }
fresh() { find s -path "$1" -newermt 2002-01-01 | wc -l; }
old s/*/train.json s/*/results
rm s/beta-0.1_seed-2/results/inspect.json
output "0.3" "$STET" sweep -o s --betas 0,0.1,0.3 --seeds 1,2 --test train.tsv -- $train
[ "$(fresh '*/train.json')" = 2 ] || fail "complete points were trained again"
[ "$(fresh '*/results/eval.json')" = 2 ] || fail "complete points were measured again"
[ "$(fresh '*/results/inspect.json')" = 3 ] || fail "a missing stage was not made, or too many were"

# A folder that was swept with other settings is refused: its numbers would stand under the new ones.
expect 2 "s/beta-0_seed-1: trained with --lr 0.02, not 0.03" "$STET" sweep -o s --betas 0 -- $train --lr 0.03
expect 2 "s/beta-0_seed-1: trained with --model \"cnn\", not \"s4\"" "$STET" sweep -o s --betas 0 -- --data train.tsv --vectors vectors.txt --model s4
output "validation %" "$STET" sweep -o s --betas 0 -- $(echo "$train" | sed "s,train.tsv,$TMP/train.tsv,;s,vectors.txt,./vectors.txt,") --threads 1
expect 2 "stet train: --lr nan" "$STET" sweep -o x --betas 0 -- $train --lr nan

# Attacked and proved accuracy of the same sample, in the table, as JSON and in the plot.
measure="--test train.tsv --attack greedy --certify --synonyms map.json"
old s/*/train.json s/*/results
output "AUA %" "$STET" sweep -o s --betas 0,0.1 --seeds 1,2 $measure --limit 8 -- $train
grep -q "test %.*AUA %.*certified %.*sum of M" "$TMP/.out" || fail "columns: $(head -1 "$TMP/.out")"
grep -q "under attack .*certified .*(4 of 4)" "$TMP/.err" || fail "stderr: $(cat "$TMP/.err")"
grep -q "under attack" s/accuracy.svg && grep -q "certified" s/accuracy.svg || fail "lines of the plot"
[ "$(fresh '*/results/eval.json')" = 0 ] || fail "what was measured is measured again"
[ "$(fresh '*/results/attack-greedy-openattack.json')" = 4 ] || fail "attacks"
[ "$(fresh '*/results/certify-auto.json')" = 4 ] || fail "proofs"
same() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p"; }
"$STET" attack s/beta-0_seed-1 --data train.tsv --attack greedy --synonyms map.json --limit 8 --no-record --json >one
"$STET" attack s/beta-0_seed-2 --data train.tsv --attack greedy --synonyms map.json --limit 8 --no-record --json >two
"$STET" sweep -q -o s --betas 0 --seeds 1,2 $measure --limit 8 --json -- $train >cell
echo "$(same aua <one) $(same aua <two) $(same aua <cell)" |
    awk '{ d = ($1 + $2) / 2 - $3; exit !(NF == 3 && d < 1e-9 && d > -1e-9) }' || fail "aua is not the mean: $(cat cell)"
grep -q '"certified":[01]' cell || fail "certified: $(cat cell)"

# Measured once: by the sweep, or by hand with the same settings. Another sample, other texts of the same name or a
# model that was trained anew are something else.
old s/*/results
rm -r s/beta-0_seed-1/results
"$STET" certify s/beta-0_seed-1 --data train.tsv --synonyms map.json --limit 8 >out || fail "certify"
old s/*/results
output "AUA %" "$STET" sweep -o s --betas 0,0.1 --seeds 1,2 $measure --limit 8 -- $train
[ "$(fresh '*/results/certify*')" = 0 ] || fail "certified again: $(find s -path '*/results/certify*' -newermt 2002-01-01)"
[ "$(fresh '*/results/attack*')" = 1 ] || fail "attacked again"
rm -r s/beta-0_seed-2/results
for command in "eval" "inspect" "certify --synonyms map.json --limit 8" "attack --attack greedy --synonyms map.json --limit 8"; do
    "$STET" ${command%% *} s/beta-0_seed-2 --data train.tsv $(echo "$command" | sed 's/^[a-z]*//') >out || fail "$command"
done
old s/*/results
output "AUA %" "$STET" sweep -o s --betas 0,0.1 --seeds 1,2 $measure --limit 8 -- $train
[ -z "$(find s -path '*/results/*' -newermt 2002-01-01)" ] || fail "what was measured by hand is measured again: $(ls s/beta-0_seed-2/results)"
output "AUA %" "$STET" sweep -o s --betas 0 $measure --limit 6 -- $train
[ "$(fresh 's/beta-0_seed-1/results/certify-auto-*.json')" = 1 ] || fail "another sample was not proved"
old s/*/results
mv train.tsv kept && head -60 kept >train.tsv
output "AUA %" "$STET" sweep -o s --betas 0 $measure --limit 6 -- $train
[ "$(fresh 's/beta-0_seed-1/results/attack*')" = 1 ] || fail "other texts were not attacked"
mv kept train.tsv
old s/*/results
find s/beta-0_seed-1 -maxdepth 1 -type f -delete
output "AUA %" "$STET" sweep -o s --betas 0 $measure --limit 8 -- $train --lr 0.01
[ "$(fresh 's/beta-0_seed-1/results/certify-auto.json')" = 1 ] || fail "a new model was not proved"

# Every axis goes to its option of training and names the folders.
output "kappa" "$STET" sweep -o a --kappas 0,0.2 --betas 0.1 -- $train --synonyms map.json
grep -q "kappa  *beta  *seeds" "$TMP/.out" || fail "columns: $(head -1 "$TMP/.out")"
grep -q '"kappa": 0.2\|kappa=0.2' a/kappa-0.2_beta-0.1_seed-1/config.json || fail "kappa does not reach the run"
grep -q 'certified,gbm' a/kappa-0.2_beta-0.1_seed-1/config.json || fail "both defences"
output "kappa" "$STET" sweep -o b --kappas 0.2 -- $train --synonyms map.json --defense certified,gbm --beta 0.1
grep -q 'certified,gbm' b/kappa-0.2_seed-1/config.json || fail "--defense after -- names more"

expect 1 "train.tsv: Not a directory" "$STET" sweep -o train.tsv --betas 0 -- $train
output "lambda" "$STET" sweep -o new/l --smooths 0,2 -- $train --synonyms map.json
[ -s new/l/smooth-2_seed-1/config.json ] || fail "smooth-2"
grep -q '"smooth": 2.0' new/l/smooth-2_seed-1/config.json || fail "lambda does not reach the run"

expect 2 "expected --betas, --kappas, --smooths or --over" "$STET" sweep -o x -- $train
expect 2 "expected -o DIR" "$STET" sweep --betas 1 -- $train
expect 2 "--betas 0,x" "$STET" sweep -o x --betas 0,x -- $train
expect 2 "--kappas -1" "$STET" sweep -o x --kappas -1 -- $train
expect 2 "need --test FILE and --synonyms SET" "$STET" sweep -o x --betas 0 --certify --test train.tsv -- $train
expect 2 "need --test FILE and --synonyms SET" "$STET" sweep -o x --betas 0 --attack greedy --synonyms map.json -- $train
expect 2 "go with --attack or --certify" "$STET" sweep -o x --betas 0 --test train.tsv --limit 3 -- $train
expect 2 "greedo" "$STET" sweep -o x --betas 0 $(echo $measure | sed s/greedy/greedo/) -- $train
expect 1 "none.json" "$STET" sweep -o x --betas 0 --test train.tsv --certify --synonyms none.json -- $train
[ ! -e x/beta-0_seed-1 ] || fail "training began before the options were checked"
"$STET" sweep -o x --betas 0 -- --data none.tsv --vectors vectors.txt >out 2>err
[ $? = 1 ] || fail "a failed point should give status 1"
grep -q "x/beta-0_seed-1: failed: none.tsv" err || fail "stderr: $(cat err)"
grep -q "1 of 1 points failed" err || fail "stderr: $(cat err)"

# Any other option of training by its name; words are values, too.
output "epochs" "$STET" sweep -o o --over epochs=1,2 --over schedule=constant,cosine -- $train
grep -q "epochs  schedule  *seeds" "$TMP/.out" || fail "columns: $(head -1 "$TMP/.out")"
grep -q '"epochs": 2' o/epochs-2_schedule-cosine_seed-1/config.json || fail "--over does not reach the run"
"$STET" sweep -q -o o --over epochs=1,2 --over schedule=constant,cosine --json -- $train >cells
grep -q '"epochs":2.0,"schedule":"cosine","seeds":1' cells || fail "JSON of --over: $(cat cells)"
expect 2 "--over epochs: expected NAME=VALUE" "$STET" sweep -o x --over epochs -- $train
expect 2 "--over seed=1,2: --seed is not swept over this way" "$STET" sweep -o x --over seed=1,2 -- $train
expect 2 "stet train: unknown option --epoch" "$STET" sweep -o x --over epoch=1 -- $train
expect 2 "none of them empty or a path" "$STET" sweep -o x --over vectors=a/b,c -- $train

# The frontier: blocks are the ends of the classes, one after the other, and the rest is the rest.
i=0
while [ $i -lt 120 ]; do
    case $((i % 4)) in
    0) echo "1	this film is good and fine number$i" ;;
    1) echo "0	this film is bad and poor number$i" ;;
    2) echo "1	this film is fine and great number$i" ;;
    3) echo "0	this film is good and awful number$i" ;;
    esac
    i=$((i + 1))
done >all.tsv
sum="--data all.tsv --vectors vectors.txt --synonyms map.json --model sum --batch 8 --epochs 3"
grid="--blocks 2 --kappas 0,0.5,0.9 --seeds 1,2"
output "frontier" "$STET" sweep -o f $grid --jobs 2 -- $sum
tail -12 all.tsv | sort >want
sed 's/.*"label": *"\(.\)".*"text": *"\(.*\)".*/\1\t\2/' f/blocks/block-1.jsonl | sort >got
cmp -s want got || fail "block 1: $(cat got)"
for b in 1 2; do
    cat f/blocks/block-$b.jsonl f/blocks/rest-$b.jsonl | sed 's/.*"label": *"\(.\)".*"text": *"\(.*\)".*/\1\t\2/' | sort >got
    sort all.tsv | cmp -s - got || fail "block $b and the rest are not all texts"
done
[ "$(cat f/blocks/block-[12].jsonl | wc -l)" = 24 ] && [ -z "$(sort f/blocks/block-[12].jsonl | uniq -d)" ] || fail "blocks overlap"
grep -q '"data": "rest-2.jsonl"' f/kappa-0.5_seed-2_block-2/config.json || fail "a block was not held out"
[ "$(find f -path '*results/certify*' | wc -l)" = 12 ] || fail "every point is certified on its block"
[ ! -e f/final ] || fail "trained on all texts without --test"
[ -s f/frontier.svg ] && sh -n f/frontier.sh || fail "frontier.svg, frontier.sh"

# The choice is right: no cell beats a chosen one, and each other one is beaten.
"$STET" sweep -q -o f $grid --json -- $sum >cells
[ "$(wc -l <cells)" = 3 ] || fail "a line for each cell"
sed 's/.*"sample_accuracy":\([0-9.]*\).*"certified":\([0-9.]*\).*"frontier":\([a-z]*\).*/\1 \2 \3/' cells |
    awk 'NF != 3 { bad = 1 } { c[NR] = $1; p[NR] = $2; f[NR] = $3 == "true"; n += f[NR] }
        END { for (i = 1; i <= NR; i++) { beaten = 0
                for (k = 1; k <= NR; k++)
                    if (k != i && c[k] >= c[i] && p[k] >= p[i] && (c[k] > c[i] || p[k] > p[i] || k < i)) beaten = 1
                if (beaten == f[i]) bad = 1 }
            exit bad || !n }' || fail "the choice: $(cat cells)"
# A mean over blocks, then over seeds.
for k in 1 2; do for b in 1 2; do grep -ho '"certified": *[0-9.]*' f/kappa-0.5_seed-${k}_block-$b/results/certify-auto.json; done; done |
    awk -v is="$(grep '"kappa":0.5,' cells | same certified)" '{ s += $2 } END { d = s / 4 - is; exit !(NR == 4 && d * d < 1e-12) }' || fail "mean of the cell"

# The script's commands are those of the final runs: nothing is left to do after it.
sh -c 'stet() { "'"$STET"'" "$@" -q; }; . ./f/frontier.sh train.tsv' >out 2>err || fail "frontier.sh: $(cat err)"
chosen=$(grep -c '"frontier":true' cells)
[ "$(ls f/final | wc -l)" = $((2 * chosen)) ] || fail "frontier.sh trained $(ls f/final)"
cp -r f/final before
output "measured on train.tsv" "$STET" sweep -o f $grid --test train.tsv -- $sum
for d in before/*; do cmp -s $d/model.safetensors f/final/${d#before/}/model.safetensors || fail "frontier.sh and --test differ: $d"; done
[ "$(find f -path '*-block-*/results/*' -name 'certify*' | grep -c train.tsv)" = 0 ] || fail "a block's model was measured on the test texts"
"$STET" sweep -q -o f $grid --test train.tsv --json -- $sum | tail -$chosen >cells
[ "$(grep -c '"measured_on":"test"' cells)" = $chosen ] || fail "JSON of the final runs: $(cat cells)"

# What is there stays; other data is refused.
old f/*/train.json f/*/results f/final/*/train.json
output "frontier" "$STET" sweep -o f $grid --test train.tsv -- $sum
[ -z "$(find f -name train.json -newermt 2002-01-01)$(find f -path '*results*' -name '*.json' -newermt 2002-01-01 | grep -v final)" ] || fail "computed again"
expect 2 "block-1.jsonl: cut from other data" "$STET" sweep -o f $grid -- $sum --data train.tsv
expect 2 "block-1.jsonl: cut from other data, or with another --block-share" "$STET" sweep -o f $grid --block-share 0.2 -- $sum
expect 2 "there are 2 blocks of --block-share 0.5" "$STET" sweep -o x --blocks 3 --block-share 0.5 --kappas 0 -- $sum
expect 2 "--blocks needs --synonyms SET" "$STET" sweep -o x --blocks 1 --over epochs=1 -- --data all.tsv --vectors vectors.txt
expect 2 "expected --data FILE" "$STET" sweep -o x --blocks 1 --kappas 0 -- --synonyms map.json

# Stopped and taken up again.
"$STET" sweep -q -o k --betas 0,0.01 -- $train --epochs 4000 --patience 0 >out 2>err &
pid=$!
while [ ! -s k/beta-0_seed-1/checkpoint.safetensors ] && kill -0 $pid 2>/dev/null; do sleep 0.1; done
kill -TERM $pid
wait $pid
[ $? = 143 ] || fail "an interrupted sweep should exit with 143, not $?: $(cat err)"
[ -s k/beta-0_seed-1/checkpoint.safetensors ] || fail "no checkpoint: $(cat err)"

# A kind without growth bounds: everything else is measured.
output "validation %" "$STET" sweep -o sum --kappas 0.3 -- --data train.tsv --vectors vectors.txt --synonyms map.json --model sum --epochs 1

# Stopped while it measures: at once, and the model is not trained again.
awk '{ for (i = 0; i < 6000; i++) print $0, "good", "bad", i }' train.tsv >many.tsv
slow="--betas 0 --test many.tsv --attack ga --synonyms map.json"
"$STET" sweep -o m $slow -- $train >out 2>err &
pid=$!
while [ ! -s m/beta-0_seed-1/results/inspect.json ] && kill -0 $pid 2>/dev/null; do sleep 0.1; done
kill -TERM $pid
wait $pid
[ $? = 143 ] || fail "an interrupted measurement should exit with 143, not $?: $(cat err)"
grep -q failed err && fail "stopped is not failed: $(cat err)"
[ ! -e m/beta-0_seed-1/results/attack-ga-openattack.json ] || fail "the attack was too quick to be stopped"
old m/beta-0_seed-1/train.json
output "AUA %" "$STET" sweep -o m $slow --limit 20 -- $train
[ -z "$(find m -name train.json -newermt 2002-01-01)" ] || fail "trained again"
exit $failed
