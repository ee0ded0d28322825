#!/bin/sh
# Growth bounds of small models from the command line: text, JSON, plots, two models, mistakes.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1

repeat 30 '1\tthis film is good and fine and great\n0\tthis film is bad and poor and awful\n' >train.tsv
vectors this film is good fine great bad poor awful and >vectors.txt
printf '{"good": ["fine", "great"], "bad": ["poor", "awful"]}' >map.json
"$STET" synonyms build -q --neighbours map.json -o s || fail "synonyms build"

for model in cnn bilstm s4; do
    for d in standard gbm; do
        "$STET" train -q --data train.tsv --vectors vectors.txt --model $model --defense $d --lr 0.02 --batch 8 --epochs 3 \
            -o $model-$d >/dev/null || fail "train $model with $d"
    done
    output "sum of M" "$STET" inspect $model-gbm
    output '"gbm_sum":' "$STET" inspect $model-gbm --json
    output '"lipschitz":{"inf_inf":' "$STET" inspect $model-gbm --json
    [ "$("$STET" inspect $model-standard $model-gbm --json | wc -l)" = 2 ] || fail "two models are two lines"
    output "ratio" "$STET" inspect $model-standard $model-gbm -o plots
    for f in heat heat2 entries; do
        [ -s plots/$f.svg ] || fail "plots/$f is missing"
    done
    rm -r plots
    grep -q '"gbm":[0-9.]*,"gbm_v":[0-9.]*' $model-gbm/train.jsonl || fail "$model: train.jsonl has no growth bounds"
done
output "contraction, reverse" "$STET" inspect bilstm-gbm
output "states of 20 texts" "$STET" inspect bilstm-gbm --data train.tsv --limit 20
output "synonyms of drawn words" "$STET" inspect bilstm-gbm --data train.tsv --synonyms s --words 4
for boxes in s+o s+i s+l; do
    "$STET" train -q --data train.tsv --vectors vectors.txt --model bilstm --defense gbm --gbm-boxes $boxes --synonyms s \
        --gbm-of gain --batch 8 --epochs 1 -o gain >/dev/null || fail "boxes $boxes"
    rm -r gain
done

expect 1 "no such model folder" "$STET" inspect none
expect 2 "expected DIR" "$STET" inspect
expect 2 "--synonyms" "$STET" train --data train.tsv --vectors vectors.txt --model bilstm --defense gbm --gbm-boxes s+o -o x
expect 2 "--model bilstm" "$STET" train --data train.tsv --vectors vectors.txt --defense gbm --gbm-of gain -o x
expect 2 "--beta" "$STET" train --data train.tsv --vectors vectors.txt --defense gbm --beta 2 -o x
expect 2 "an option of defence 'gbm'" "$STET" train --data train.tsv --vectors vectors.txt --beta 0.1 -o x
expect 1 "train.tsv: Not a directory" "$STET" inspect cnn-gbm -o train.tsv
expect 1 "--device cuda: stet inspect runs on the CPU only" "$STET" inspect cnn-gbm --device cuda
output "growth bounds" "$STET" inspect cnn-gbm -o new/plots
[ -s new/plots/heat.svg ] || fail "a folder is made with its parents"

# Ctrl-C ends a long inspection. (A background process of a script ignores SIGINT; SIGTERM is treated alike.)
timeout -k 20 -s TERM 1 "$STET" inspect bilstm-gbm --data train.tsv --synonyms s --words 1000000 >/dev/null 2>err
[ $? = 124 ] || fail "it was not stopped"
grep -q "interrupted" err || fail "stderr: $(cat err)"
exit $failed
