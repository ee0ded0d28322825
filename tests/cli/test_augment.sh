#!/bin/sh
# Adversarial texts with their true labels, and a training that reads them.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1

repeat 40 'up\tthis film is good and fine and great\ndown\tthis film is bad and poor and awful\n' >train.tsv
vectors this film is good fine great bad poor awful and odd >vectors.txt
printf '{"good": ["odd"], "fine": ["odd"], "great": ["odd"], "bad": ["good", "odd"], "poor": ["fine", "odd"], "awful": ["great", "odd"]}' >map.json
train="--data train.tsv --vectors vectors.txt --synonyms map.json --model cnn --filters 8 --lr 0.02 --batch 8 --epochs 3 -q"
"$STET" train $train -o plain >out || fail "train"

output "adversarial" "$STET" augment plain --data train.tsv --synonyms map.json --attack greedy --limit 30 -o more.tsv
n=$(wc -l <more.tsv)
[ "$n" -gt 0 ] || fail "nothing was flipped"
grep -vq "odd\|good" more.tsv && fail "a text without a swap: $(grep -v 'odd\|good' more.tsv | head -1)"
[ -z "$(sort more.tsv | comm -12 - "$(sort train.tsv >sorted; echo sorted)")" ] || fail "texts of the data among them"
# Their labels are the true ones: the model is wrong about every one of them.
"$STET" eval plain --data more.tsv --no-record --json | grep -q '"accuracy":0.0,' || fail "the model is right about flipped texts"
# The same again; from a log.
"$STET" augment plain --data train.tsv --synonyms map.json --attack greedy --limit 30 -o again.tsv --log l.jsonl --json >out || fail "again"
cmp -s more.tsv again.tsv || fail "the same seed gives other texts"
"$STET" augment plain --data train.tsv --synonyms map.json --attack greedy --limit 30 -o all.jsonl --log l.jsonl --json >out || fail "from a log"
[ "$(wc -l <all.jsonl)" = "$n" ] || fail "from a log: $(wc -l <all.jsonl)"
grep -q "\"adversarial\":$n," out || fail "JSON: $(cat out)"

# Texts that training holds out are not attacked. Each text here has a word of its own, which is in the vocabulary only if
# the text was trained on.
awk 'BEGIN { for (i = 0; i < 40; i++) printf i % 2 ? "up\tthis film is good mine%c%c\n" : "down\tthis film is bad mine%c%c\n", 97 + i / 8, 97 + i % 8 }' >own.tsv
{ cat vectors.txt; sed 's/.*mine/mine/; s/$/ 0.1 0.2 0.3 0.4 0.5 0.6/' own.tsv; } >own.txt
"$STET" train -q --data own.tsv --vectors own.txt --synonyms map.json --filters 8 --lr 0.02 --batch 8 --epochs 6 --valid 0.25 --seed 7 -o owned >out || fail "train on own words"
for held in "0.25 30" "0 40" "0.5 20"; do
    rm -f own.jsonl
    "$STET" augment owned --data own.tsv --synonyms map.json --valid "${held% *}" --seed 7 --log own.jsonl -o own-flipped.tsv >out || fail "--valid ${held% *}"
    [ "$(grep -c '"outcome"' own.jsonl)" = "${held#* }" ] || fail "--valid ${held% *}: $(grep -c '"outcome"' own.jsonl) texts were attacked"
done
"$STET" augment owned --data own.tsv --synonyms map.json --valid 0.25 --seed 7 --limit 25 --attack greedy -o own-flipped.tsv >out || fail "--valid 0.25"
[ -s own-flipped.tsv ] || fail "no text with a word of its own was flipped"
for word in $(grep -o 'mine[a-z]*' own-flipped.tsv); do
    grep -qx "$word" owned/vocab.txt || fail "$word was held out, and its text attacked"
done
# The same with a fold held out.
"$STET" train -q --data own.tsv --vectors own.txt --synonyms map.json --filters 8 --lr 0.02 --batch 8 --epochs 6 --fold 2of3 -o folded >out || fail "train on folds"
"$STET" augment folded --data own.tsv --synonyms map.json --fold 2of3 --log fold.jsonl --attack greedy -o fold-flipped.tsv >out || fail "--fold"
[ "$(grep -c '"outcome"' fold.jsonl)" = "$(grep -c '^mine' folded/vocab.txt)" ] || fail "--fold: $(grep -c '"outcome"' fold.jsonl) texts were attacked"
for word in $(grep -o 'mine[a-z]*' fold.jsonl); do
    grep -qx "$word" folded/vocab.txt || fail "$word was held out as a fold, and its text attacked"
done
expect 2 "expected KofN" "$STET" augment folded --data own.tsv --synonyms map.json --fold 4of3 -o x.tsv
expect 2 "leaves nothing to train" "$STET" augment owned --data own.tsv --synonyms map.json --valid 0.001 -o x.tsv

# Trained on, they are right; validation texts are not among them.
"$STET" train $train --defense augment --augment-texts more.tsv -o wiser >out || fail "train --defense augment"
"$STET" eval wiser --data more.tsv --no-record --json | grep -q '"accuracy":0.0,' && fail "they were not learned"
grep -q '"train_texts": *72' wiser/config.json || fail "the data changed"
"$STET" train $train --defense augment,mixada --mixada-alpha 0.4 --augment-texts more.tsv -o mixed >out || fail "mixada"
grep -q '"mixada_mixed"' mixed/train.jsonl || fail "no metric of mixtures"

expect 2 "expected -o FILE" "$STET" augment plain --data train.tsv --synonyms map.json
expect 2 "no attack" "$STET" augment plain --data train.tsv --synonyms map.json --attack magic -o x.tsv
expect 2 "expected --data FILE and --synonyms SET" "$STET" augment plain -o x.tsv
expect 1 "none/x.tsv" "$STET" augment plain --data train.tsv --synonyms map.json -o none/x.tsv
expect 2 "needs --augment-texts FILE" "$STET" train $train --defense augment -o x
expect 1 "none.tsv" "$STET" train $train --defense augment --augment-texts none.tsv -o x
printf 'sideways\ta film\n' >bad.tsv
expect 3 "sideways" "$STET" train $train --defense augment --augment-texts bad.tsv -o x
exit $failed
