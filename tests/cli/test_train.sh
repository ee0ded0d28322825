#!/bin/sh
# Train, eval and predict as a user would, and the same with bad input.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1

repeat 60 '1\tthis film is good and fine and great number%d\n0\tthis film is bad and poor and awful number%d\n' >train.tsv
vectors this film is good fine great bad poor awful and >vectors.txt

for model in cnn bilstm s4; do
    output "validation accuracy" "$STET" train --data train.tsv --vectors vectors.txt --model $model --lr 0.02 --batch 8 --epochs 6 -o $model -q
    output "accuracy 100" "$STET" eval $model --data train.tsv -q
    output '"accuracy":1' "$STET" eval $model --data train.tsv --json --limit 20 -q
    output "1 " "$STET" predict $model "this film is good and fine and great"
    for f in config.json model.safetensors vocab.txt train.jsonl README.md; do
        [ -s $model/$f ] || fail "$model/$f is missing"
    done
    [ -e $model/checkpoint.safetensors ] && fail "$model: a complete run keeps no checkpoint"
done
# A recipe stands before what is given: its settings are those of the run, and what is given wins.
printf '{"good": ["fine", "great"], "bad": ["poor", "awful"]}' >near.json
"$STET" synonyms build -q --neighbours near.json -o near || fail "synonyms build"
for model in sum cnn bilstm s4; do
    output "validation accuracy" "$STET" train --recipe robust --model $model --data train.tsv --vectors vectors.txt --synonyms near --epochs 2 --kappa 0.25 -o recipe -q
    grep -q 'kappa=0.25' recipe/config.json && grep -q '"epochs": 2' recipe/config.json && grep -q '"smooth_frequency": 0.5' recipe/config.json ||
        fail "$model: the recipe's settings: $(cat recipe/config.json)"
    grep -q '"word_scores": true' recipe/config.json || fail "$model: the recipe has word scores"
done
"$STET" train --recipe robust --no-word-scores --data train.tsv --vectors vectors.txt --synonyms near --epochs 1 -o recipe -q >/dev/null
grep -q '"word_scores": true' recipe/config.json && fail "the recipe won over what was given"
output "validation accuracy" "$STET" train --recipe eibc --data train.tsv --vectors vectors.txt --synonyms near --epochs 2 -o recipe -q
grep -q 'box-alpha=10' recipe/config.json && grep -q '"dense": 600' recipe/config.json &&
    grep -q '"word_layer": 200' recipe/config.json && grep -q '"hold": 0.667' recipe/config.json && grep -q '"dim": 200' recipe/config.json ||
    fail "eibc: $(cat recipe/config.json)"
grep -q "| word layer | 200 units over vectors of 6 dimensions" recipe/README.md || fail "the card: $(cat recipe/README.md)"
# Its layers: any answer is that of a TextCNN, proofs are by intervals, and the checker follows.
output "accuracy" "$STET" eval recipe --data train.tsv -q
output "AUA" "$STET" attack recipe --data train.tsv --synonyms near --attack exhaustive --limit 4 -q
output "certified " "$STET" certify recipe --data train.tsv --synonyms near --limit 20 --method ibp -o recipe.cert -q
output "20 texts stand" "$STET" verify recipe.cert --model recipe -q
expect 2 "no method 'joint' for models of kind 'cnn'; it has auto, ibp, enumerate" "$STET" certify recipe --data train.tsv --synonyms near --method joint
expect 2 "no joint bounds over substitution sets are known for training a cnn of these settings" "$STET" train --data train.tsv --vectors vectors.txt --synonyms near --defense certified --bound joint --dense 4 -o none
expect 2 "--dense" "$STET" train --data train.tsv --vectors vectors.txt --dense -1 -o none
expect 2 "--dense is an option of model 'cnn'" "$STET" train --data train.tsv --vectors vectors.txt --model s4 --dense 4 -o none
expect 2 "--word-layer" "$STET" train --data train.tsv --vectors vectors.txt --word-layer 70000 -o none
expect 2 "--word-layer: a model of kind 'bert' does not read one vector per word" "$STET" train --data train.tsv --model bert --word-layer 4 -o none
expect 2 "--dump: a saved model has no word layer to train" "$STET" bench train --data train.tsv --vectors vectors.txt --word-layer 4 --dump none
[ -e none/config.json ] && fail "a refused run wrote a model"
expect 2 "--recipe eibc: a model of kind 's4' has no such recipe" "$STET" train --recipe eibc --model s4 --data train.tsv --vectors vectors.txt -o none
expect 2 "needs --synonyms" "$STET" train --recipe robust --data train.tsv --vectors vectors.txt -o none
expect 2 "needs --tune-vectors" "$STET" train --defense box-width --data train.tsv --vectors vectors.txt --synonyms near -o none
# A complete run is not resumed: the same command tells its numbers again, another one is refused.
again="--data train.tsv --vectors vectors.txt --lr 0.02 --batch 8 -o cnn --resume"
cp cnn/model.safetensors weights
output "cnn: validation accuracy 100.00 % (epoch" "$STET" train $again --epochs 6
grep -q "is complete, nothing to resume" "$TMP/.err" || fail "stderr: $(cat "$TMP/.err")"
expect 2 "holds a complete run with epochs 6, not 7" "$STET" train $again --epochs 7
expect 2 "not \"s4\"" "$STET" train $again --epochs 6 --model s4
cmp -s weights cnn/model.safetensors || fail "the complete run was changed"
# Files that no training wrote are not replaced, least of all the data itself.
mkdir mine yours
"$STET" data convert train.tsv mine/train.jsonl -q
echo "my notes" >yours/README.md
cp mine/train.jsonl kept.jsonl
expect 2 "mine/train.jsonl: stet did not write this file" "$STET" train --data mine/train.jsonl --vectors vectors.txt -o mine
expect 2 "train.tsv: no word occurs 99999 times" "$STET" train --data train.tsv --vectors vectors.txt -o rare --min-count 99999
expect 2 "yours/README.md: stet did not write this file" "$STET" train --data train.tsv --vectors vectors.txt -o yours
cmp -s kept.jsonl mine/train.jsonl && [ "$(cat yours/README.md)" = "my notes" ] || fail "files of somebody else were replaced"
output "validation accuracy" "$STET" train --data train.tsv --vectors vectors.txt --epochs 1 -o s4 -q
# Data may be a folder, with the slash that a shell puts there.
mkdir -p corpus/0 corpus/1
repeat 4 'a good film %d %d' >corpus/1/a.txt && cp corpus/1/a.txt corpus/1/b.txt
repeat 4 'a bad film %d %d' >corpus/0/a.txt && cp corpus/0/a.txt corpus/0/b.txt
output "validation accuracy" "$STET" train --data corpus/ --vectors ./vectors.txt --valid train.tsv --epochs 1 -o folder -q
grep -q '"data": "corpus"' folder/config.json || fail "the name of the data: $(grep '"data"' folder/config.json)"
grep -q "| training data | corpus: 4 texts" folder/README.md && grep -q "| word vectors | vectors.txt |" folder/README.md || fail "the card: $(cat folder/README.md)"
sed 's/^0/2/' train.tsv >swapped3.tsv
# Folds: every text is held out once. Their models teach the texts that they have not seen.
small="--vectors vectors.txt --model sum --batch 8 --epochs 6"
for k in 1 2; do output "validation accuracy" "$STET" train --data train.tsv $small --fold ${k}of2 -o folds/$k -q; done
count() { sed -n "s/.*\"$2\": *\([0-9]*\).*/\1/p" $1/config.json; }
[ $(($(count folds/1 valid_texts) + $(count folds/2 valid_texts))) = 120 ] || fail "folds overlap"
[ "$(count folds/1 train_texts)" = "$(count folds/2 valid_texts)" ] || fail "a fold was trained on"
# Labels that are all wrong, and teachers that know better: the weight decides whom the student believes.
awk -F'\t' '{ print 1 - $1 "\t" $2 }' train.tsv >wrong.tsv
output "validation accuracy" "$STET" train --data wrong.tsv --valid train.tsv $small --teacher folds --teacher-weight 1 -o taught -q
output "accuracy 100" "$STET" eval taught --data train.tsv -q
output "validation accuracy" "$STET" train --data wrong.tsv --valid train.tsv $small --teacher folds/1,folds/2 --teacher-weight 0 -o untaught -q
output "accuracy 0.0" "$STET" eval untaught --data train.tsv -q
grep -q '"teacher": \["1", "2"\]' untaught/config.json && grep -q "| soft labels | weight 1, of folds |" taught/README.md || fail "teachers are not told"
"$STET" train --data wrong.tsv --valid train.tsv $small --teacher folds/2,folds/1 --teacher-weight 1 -o again -q >/dev/null
cmp -s taught/model.safetensors again/model.safetensors || fail "the order of teachers of different texts matters"
expect 2 "holds a complete run with" "$STET" train --data wrong.tsv --valid train.tsv $small --teacher folds --teacher-weight 0.5 -o taught --resume -q
expect 2 "every teacher has seen text" "$STET" train --data train.tsv $small --teacher folds/1 -o x
expect 2 "corpus: neither a run folder nor a folder of them" "$STET" train --data train.tsv $small --teacher corpus -o x
expect 1 "--teacher nowhere: No such file" "$STET" train --data train.tsv $small --teacher nowhere -o x
expect 2 "its classes differ from those of the data" "$STET" train --data swapped3.tsv $small --teacher folds/1 -o x
for bad in 0of2 3of2 1of1 2 of 1/2 -1of2; do expect 2 "--fold $bad: expected KofN" "$STET" train --data train.tsv $small --fold=$bad -o x; done
expect 2 "--teacher-of both needs --teacher and --defense certified" "$STET" train --data train.tsv $small --teacher folds --teacher-of both -o x
# Texts taken for labels are noticed, whatever training makes of them.
awk -F'\t' '{ print $2 "\t" $1 }' train.tsv >swapped.tsv
"$STET" train --data swapped.tsv --vectors vectors.txt --epochs 1 -o swapped >/dev/null 2>err
grep -q "warning: swapped.tsv: 120 classes in 120 texts; is the label in another column" err || fail "stderr: $(cat err)"
# A disk that is full, here a limit on files: one line, and the model that was there stays.
cp s4/model.safetensors weights
(ulimit -f 1 && expect 1 ": File too large" "$STET" train --data train.tsv --vectors vectors.txt --epochs 3 -o s4 -q; exit $failed) || failed=1
cmp -s weights s4/model.safetensors || fail "the model was damaged"
[ -z "$(ls -a s4 | grep tmp)" ] || fail "left behind: $(ls -a s4)"
"$STET" eval cnn --data train.tsv --progress always >/dev/null 2>err
tr '\r' '\n' <err | grep -q "100% 120/120" || fail "progress: $(cat err)"
tr '\r' '\n' <err | grep -q ', *$' && fail "progress ends in a comma: $(cat err)"
# Names that are not UTF-8 leave JSON whole.
odd=$(printf 'n\377me')
cp train.tsv "$odd.tsv"
output '"valid_accuracy":' "$STET" train --data "$odd.tsv" --vectors vectors.txt --epochs 1 -o "$odd" --json -q
output '"n":120' "$STET" eval "$odd" --data "$odd.tsv" --json -q
output '"gbm_sum":' "$STET" inspect "$odd" --json -q
output '"name":"n?me"' "$STET" report "$odd" --json -q
grep -q '"clean":' "$TMP/.out" || fail "the report lost its numbers: $(cat "$TMP/.out")"
output '"text":"caf�"' "$STET" predict "$odd" --json "$(printf 'caf\351')"
# Two runs do not share a folder.
"$STET" train --data train.tsv --vectors vectors.txt --epochs 100000 --patience 0 -o shared >/dev/null 2>&1 &
first=$!
while [ ! -s shared/config.json ] && kill -0 $first 2>/dev/null; do sleep 0.05; done
expect 1 "shared: another run is writing to this folder" "$STET" train --data train.tsv --vectors vectors.txt -o shared --resume
kill -TERM $first
wait $first
[ $? = 143 ] || fail "the first run was disturbed"
# Every signal that ends it leaves a checkpoint, and its own exit code; under nohup a hangup is nothing.
for signal in HUP:129 TERM:143; do
    "$STET" train --data train.tsv --vectors vectors.txt --epochs 100000 --patience 0 -o signal-${signal%:*} >/dev/null 2>&1 &
    first=$!
    while [ ! -s signal-${signal%:*}/config.json ] && kill -0 $first 2>/dev/null; do sleep 0.05; done
    kill -${signal%:*} $first
    wait $first
    [ $? = ${signal#*:} ] || fail "SIG${signal%:*} should end with ${signal#*:}"
    [ -s signal-${signal%:*}/checkpoint.safetensors ] || fail "SIG${signal%:*} left no checkpoint"
done
# Why a folder cannot be made: not that it is missing.
mkdir readonly && chmod 555 readonly
where=readonly/new
[ "$(id -u)" = 0 ] && where=train.tsv/new # a file, not a folder
"$STET" train --data train.tsv --vectors vectors.txt -o $where 2>err && fail "$where could be made"
grep -q "No such file" err && fail "the reason is lost: $(cat err)"
printf 'a good film\na bad film\n' >two.txt
output '"label":"0"' "$STET" predict cnn --file two.txt --json
[ "$("$STET" predict cnn <two.txt | wc -l)" = 2 ] || fail "predict reads standard input"
# A file is read as docs/formats.md says: unpacked, and a table by its column of texts.
gzip -c two.txt >two.txt.gz
"$STET" predict cnn --file two.txt >a.out && "$STET" predict cnn --file two.txt.gz >b.out && cmp -s a.out b.out || fail "predict reads a compressed file"
printf 'text,label\na good film,1\na bad film,0\n' >two.csv
"$STET" predict cnn --file two.csv >b.out && cmp -s a.out b.out || fail "predict reads a table: $(cat b.out)"
printf 'bad \377\n' >bytes.txt
expect 3 "bytes.txt:1" "$STET" predict cnn --file bytes.txt
"$STET" predict cnn "$(printf '%060d' 0)éééééééééé" | iconv -f UTF-8 -t UTF-8 >/dev/null || fail "predict cuts a character in two"
# Texts are answered together, in their order; whoever waits for an answer before the next line gets it.
seq 5000 | sed 's/^/film /' >many.txt
"$STET" predict cnn --json <many.txt | sed 's/.*"text":"\(.*\)"}/\1/' | cmp -s - many.txt || fail "many texts"
mkfifo in out
timeout -k 1 20 sh -c '"$1" predict cnn <in >out & exec 3>in 4<out; printf "a good film\nhalf a" >&3; read -r one <&4
    echo " line" >&3; read -r two <&4; exec 3>&-; wait $!; echo "$one, $two"' - "$STET" >told || fail "no answer before the end"
grep -q "a good film, .* half a line" told || fail "answers to waiting: $(cat told)"
printf 'good\nno\0ne\n' | "$STET" predict cnn 2>err >told
grep -q "NUL" err && grep -q good told || fail "what comes before a NUL byte is answered: $(cat told err)"
(yes "a good film" | timeout -k 1 20 "$STET" predict cnn 2>err; echo $? >status) | head -1 >/dev/null
[ "$(cat status)" = 0 ] && [ ! -s err ] || fail "answers for nobody: $(cat status err)"

printf '0\ta bad film\n7\ta strange film\n' >foreign.tsv
expect 3 "foreign.tsv:2" "$STET" eval cnn --data foreign.tsv
printf '1\ta bad film\n0\ta good film\n' >wrong.tsv
expect 4 "below the required" "$STET" eval cnn --data wrong.tsv --require 0.9 -q
printf 'good 1 2 3\nbad 1 2\n' >short.txt
expect 3 "short.txt:2" "$STET" train --data train.tsv --vectors short.txt -o bad -q
rm cnn/vocab.txt
expect 1 "vocab.txt" "$STET" eval cnn --data train.tsv
exit $failed
