#!/bin/sh
# Certified training as a user would run it, alone and in a list of defences.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1

repeat 40 '1\tthis film is good and fine and great number%d\n0\tthis film is bad and poor and awful number%d\n' >train.tsv
vectors this film is good fine great bad poor awful and >vectors.txt
echo '{"good": ["fine", "great"], "fine": ["good"], "bad": ["poor"], "poor": ["awful", "bad"]}' >neighbours.json
"$STET" synonyms build --neighbours neighbours.json -o sets -q >/dev/null || fail "no sets"

train() {
    "$STET" train -q --data train.tsv --vectors vectors.txt --lr 0.02 --batch 8 --epochs 6 "$@"
}
for case in cnn:0.5 bilstm:0.05; do
    model=${case%:*} kappa=${case#*:}
    output "epoch 6 of 6" train --model $model --synonyms sets --smooth 1 --defense certified,gbm --kappa $kappa --beta 1e-4 \
        --gbm-of logits --schedule cosine -o $model
    output "accuracy 100" "$STET" eval $model --data train.tsv -q
    grep -q "\"kappa\":$kappa,\"eps\":1" $model/train.jsonl || fail "$model: the ramp does not reach its end"
    grep -q '"gbm":' $model/train.jsonl || fail "$model: the growth bound is not logged"
    grep -q 'certified,gbm' $model/config.json || fail "$model: the defences are not in the configuration"
done
tail -3 cnn/train.jsonl | grep -q '"certified":1,' || fail "the cnn is not certified: $(tail -3 cnn/train.jsonl)"
output "epoch 6 of 6" train --synonyms sets --defense certified --bound joint -o joint

# Each epoch tells the accuracy in the worst case on the validation texts: what `certify` proves of the kept model.
(cat train.tsv; repeat 20 '1\tgood film number%d\n0\tthis film is poor and great number%d\n') >mixed.tsv
echo '{"good": ["bad"], "poor": ["great"], "fine": ["great"]}' >hard.json
for model in cnn bilstm s4; do
    train --model $model --synonyms hard.json --defense certified --kappa 0.1 --valid mixed.tsv -o w$model >/dev/null || fail "w$model"
    told=$(sed -n 's/.*"epoch":6.*"valid_worst_case":\([0-9.]*\).*/\1/p' w$model/train.jsonl)
    proved=$("$STET" certify w$model --data mixed.tsv --synonyms hard.json --method ibp --no-record --json -q | sed -n 's/.*"certified":\([0-9.]*\),.*/\1/p')
    echo "$model: worst case $told, certified $proved"
    awk "BEGIN { exit !($told > 0 && $told < 1 && $told - $proved < 0.02 && $proved - $told < 0.02) }" || fail "$model: worst case $told, but certified $proved"
done
# A model that answers by votes has none: the bounds know nothing of its draws.
train --synonyms hard.json --defense ranmask,certified --ranmask-votes 3 --valid mixed.tsv -o voting >/dev/null || fail "ranmask,certified"
grep -q '"valid_accuracy"' voting/train.jsonl || fail "no epoch: $(tail -1 voting/train.jsonl)"
grep -q '"valid_worst_case"' voting/train.jsonl && fail "the worst case of a model that votes"

expect 2 "--beta is an option of defence 'gbm': add it to --defense" train --synonyms sets --defense certified --beta 0.1 -o x
expect 2 "--kappa is an option of defence 'certified'" train --synonyms sets --defense gbm --kappa 0.1 -o x
expect 2 "did you mean 'certified'" train --synonyms sets --defense gbm,certifid -o x
expect 2 "listed twice" train --defense gbm,gbm -o x
expect 2 "--synonyms" train --defense certified -o x
expect 2 "--kappa" train --synonyms sets --defense certified --kappa 1.5 -o x
expect 2 "joint" train --synonyms sets --model bilstm --defense certified --bound joint -o x
exit $failed
