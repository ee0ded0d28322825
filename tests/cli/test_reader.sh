#!/bin/sh
# Words of sets that no text can hold are told and left out; what is proved holds for typed strings.
. "$(dirname "$0")/cli_test.sh"
here=$(cd "$(dirname "$0")" && pwd)
cd "$TMP" || exit 1

repeat 10 '1\tA fine film: I didn'\''t sleep! number%d.5\n0\tThis boring film is bad (and boring...) it'\''s no%d good-natured fun\n' >data.tsv
vectors this film is a fine good great bad poor awful dull boring sleep mind numbing and "n't" did no fun natured . , - >vectors.txt
# On every path: a word in capitals, an accent by itself, two words in one, the names of rows.
printf '{"fine": ["Boring", "dull", "unheardof", "other"], "good": ["mind-numbing", "<pad>", "<unk>", "great", "5"],
 "Film": ["movie"], "bad": ["nai\314\210ve", "na\303\257ve", "poor", "great", "didn'\''t"], "did": ["7", "o'\''brien"], "fun": ["boring"]}' >sets.json
told="left out 7 of 23 words that are not read as one word or not as they are written: '"
on="--data data.tsv --synonyms sets.json"
for model in cnn bilstm s4; do
    for t in word keras; do
        [ $t = word ] || [ $model = cnn ] || continue
        "$STET" train $on --vectors vectors.txt --tokenizer $t --model $model --lr 0.02 --batch 8 --epochs 4 -o $model-$t >/dev/null 2>.err || fail "training"
        grep -q "left out" .err || fail "$model $t: train tells nothing: $(cat .err)"
        [ $t = keras ] || grep -qF "$told" .err || fail "$model $t: train: $(cat .err)"
        "$STET" certify $model-$t $on --complete --no-record -o cert.jsonl >/dev/null 2>.err || fail "certify $(cat .err)"
        grep -q "left out" .err || fail "$model $t: certify tells nothing"
        "$STET" attack $model-$t $on --attack pwws --no-record --limit 5 2>.err >/dev/null || fail "attack $(cat .err)"
        grep -q "left out" .err || fail "$model $t: attack tells nothing"
        "$here/strings.py" "$STET" $model-$t data.tsv cert.jsonl >.out 2>&1 || fail "$model $t: $(tail -3 .out)"
        grep -q "strings of [1-9]" .out || fail "$model $t: nothing was proved: $(cat .out)"
        output "stand: " "$STET" verify cert.jsonl --model $model-$t $on -q
    done
done
! grep -q "Boring\|numbing" cert.jsonl || fail "a word that no text can hold is in a certificate"
grep -q '"unheardof","other"' cert.jsonl || fail "two unknown words have become one"

# The example that was once certified: the typed word was read as another one.
echo '{"fine": ["Boring"]}' >capital.json # "a Boring film"
output "words that can change: 0" "$STET" predict cnn-word --certify --synonyms capital.json "a fine film"
grep -q "left out 1 of 2 words" .err || fail "predict tells nothing: $(cat .err)"
repeat 20 '1\ta fine film\n0\ta boring film\n' >plain.tsv
printf 'fine 0.9 0.1\nboring -0.9 0.2\nfilm 0.9 0.1\na 0.9 0.1\n' >plain.txt
"$STET" train --data plain.tsv --vectors plain.txt --lr 0.02 --batch 4 --epochs 12 -o plain -q >/dev/null || fail "training"
"$STET" certify plain --data plain.tsv --synonyms capital.json --no-record -o cert.jsonl -q >/dev/null || fail "certify"
"$here/strings.py" "$STET" plain plain.tsv cert.jsonl >.out 2>&1 || fail "$(tail -3 .out)"

# A set is built without them.
"$STET" synonyms build --neighbours sets.json -o s.subst --json >.out 2>.err || fail "build"
grep -q '"left_out":7' .out || fail "build counts $(cat .out)"
grep -qF "$told" .err || fail "build tells $(cat .err)"
output "dull unheardof other" "$STET" synonyms show s.subst fine
"$STET" certify cnn-word --data data.tsv --synonyms s.subst --no-record >/dev/null 2>.err || fail "certify"
! grep -q "left out" .err || fail "a built set has nothing to be left out"
"$STET" synonyms build --neighbours sets.json --tokenizer keras -o k.subst --json -q | grep -q '"left_out":5' || fail "keras counts otherwise"
exit $failed
