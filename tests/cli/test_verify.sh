#!/bin/sh
# Certificates of small trained models, checked by the other code; edited ones, other sources, mistakes.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1

repeat 30 '1\tthis film is good and fine and great\n0\tthis film is bad and poor and awful\n1\ta good film\n0\tbad\n' >train.tsv
vectors this film a is good fine great bad poor awful and >vectors.txt
printf '{"good": ["fine", "great"], "bad": ["poor", "awful"], "film": ["fine", "unheard"]}' >near.json
printf '{"good": ["bad", "great"], "bad": ["good", "awful"], "film": ["fine"]}' >far.json
"$STET" synonyms build -q --neighbours near.json -o near || fail "synonyms build"
"$STET" synonyms build -q --neighbours far.json -o far || fail "synonyms build"

# The sum of a line is the SHA-256 of what stands before it; with sha256sum a forger has it too.
forge() { # FILE LINE SED-EXPRESSION
    head -n $(($2 - 1)) "$1"
    body=$(sed -n "${2}p" "$1" | sed 's/,"sum":"[0-9a-f]*"}$//' | sed "$3")
    printf '%s,"sum":"%s"}\n' "$body" "$(printf '%s' "$body" | sha256sum | cut -d' ' -f1)"
    tail -n +$(($2 + 1)) "$1"
}

# KIND, or KIND-and-something: a sum with a small network, kinds with word scores, with the largest states;
# in spans of three words; three of them together.
for model in cnn bilstm bilstm-max bilstm-max-span sum sum-net cnn-scores bilstm-scores s4-scores s4-relu s4-relu-span s4-bare-span ensemble s4; do
    kind=${model%%-*}
    small=$(case $kind in cnn) echo --filters 8 ;; bilstm) echo --hidden 6 ;; s4) echo --channels 8 --state 4 ;; esac)
    small="$small $(case $model in *-net) echo --score-hidden 4 ;; *-scores) echo --word-scores ;; *-max*) echo --pool max ;; *-relu*) echo --s4-block relu --s4-pool max ;; *-bare*) echo --s4-block bare --s4-pool max ;; esac)"
    case $model in *-span) small="$small --span 3" ;; esac
    if [ $kind = ensemble ]; then
        output "answer as one" "$STET" ensemble cnn-scores sum bilstm -o ensemble
    else
        "$STET" train -q --data train.tsv --vectors vectors.txt --model $kind $small --lr 0.02 --batch 8 --epochs 5 -o $model >/dev/null ||
            fail "train $model"
    fi
    for how in "near" "near --budget 1" "near --largest" "far --complete" "far --budget 1 --complete"; do
        set -- $how
        sets=$1
        shift
        "$STET" certify $model --data train.tsv --limit 6 --synonyms $sets "$@" -o cert.jsonl >/dev/null || fail "certify $model, $how"
        output "stand" "$STET" verify cert.jsonl --model $model --data train.tsv --synonyms $sets
        output '"failed":0' "$STET" verify cert.jsonl --model $model --json
    done
    "$STET" certify $model --data train.tsv --limit 6 --synonyms near --budget 1 -o cert.jsonl >/dev/null
    grep -q '"certified"' cert.jsonl && output "certified text: at most 1" "$STET" verify cert.jsonl --model $model
    output '"budget":1,' "$STET" verify cert.jsonl --model $model --json
    if "$STET" verify cert.jsonl --model $model --exact >exact.txt 2>&1; then
        case $kind in cnn | sum) exact='\([0-9]*\) of \1$' ;; *) exact='0 of' ;; esac
        grep -q "exact arithmetic: $exact" exact.txt || fail "$model: --exact: $(cat exact.txt)"
        output '"exact":' "$STET" verify cert.jsonl --model $model --exact --json
    else
        grep -q "no GMP" exact.txt || fail "$model: --exact: $(cat exact.txt)"
    fi
    line=$(grep -n '"bound":' cert.jsonl | head -1 | cut -d: -f1)
    sed 's/"bound":/"bound":1/' cert.jsonl >edited.jsonl
    [ -z "$line" ] || expect 3 "not hold" "$STET" verify edited.jsonl --model $model
    if [ -n "$line" ] && command -v sha256sum >/dev/null; then
        forge cert.jsonl "$line" 's/"bound"/"bound"/' >same.jsonl
        cmp -s cert.jsonl same.jsonl || fail "a line forged as it was is another"
        forge cert.jsonl "$line" 's/"bound":/"bound":9/' >forged.jsonl
        expect 3 "not hold" "$STET" verify forged.jsonl --model $model
        "$STET" verify forged.jsonl --model $model 2>/dev/null | grep -q "^line $line: text .* claimed 9" || fail "$model: the forged line is not named"
    fi
done

# An ensemble is all of its members: a part too few, a method that a member does not have, or another member does not hold.
"$STET" certify ensemble --data train.tsv --limit 6 --synonyms near -o all.jsonl >/dev/null
line=$(grep -n '"witness":' all.jsonl | head -1 | cut -d: -f1)
[ -n "$line" ] || fail "no text of the ensemble is proved"
if command -v sha256sum >/dev/null; then
    forge all.jsonl "$line" 's/"witness":\[{"method":"[a-z]*"},/"witness":[/' >forged.jsonl
    "$STET" verify forged.jsonl --model ensemble 2>/dev/null | grep -q "a part for each of 3 members" || fail "a member less"
    forge all.jsonl "$line" 's/{"method":"exact"}/{"method":"ibp"}/' >forged.jsonl
    "$STET" verify forged.jsonl --model ensemble 2>/dev/null | grep -q 'unknown method "ibp" of a sum' || fail "a method of another kind"
fi
cp -r ensemble other && rm -r other/member-2 && cp -r sum-net other/member-2
expect 3 "not hold" "$STET" verify all.jsonl --model other
"$STET" verify all.jsonl --model other 2>/dev/null | grep -q '"config" is' || fail "another member is not named"
rm -r other/member-3
expect 1 "member-3" "$STET" verify all.jsonl --model other
expect 1 "member-3" "$STET" eval other --data train.tsv
expect 2 "expected -o DIR" "$STET" ensemble cnn sum
expect 2 "answers by a rule itself, and cannot join" "$STET" ensemble cnn ensemble -o x
[ ! -e x ] || fail "an ensemble that cannot be left a folder"

# A model that votes: what its draws make likely is stated with its confidence and proves nothing.
for rule in "ranmask --ranmask-rate 0.8" safer; do
    set -- $rule
    "$STET" train -q --data train.tsv --vectors vectors.txt --filters 8 --lr 0.02 --batch 8 --epochs 5 --defense "$@" --synonyms near -o "$1" >/dev/null ||
        fail "train $1"
    output "holds at confidence 0.95: no proof" "$STET" certify "$1" --data train.tsv --limit 6 --synonyms near --budget 1 -o votes.jsonl
    output '"confidence":0.95' "$STET" certify "$1" --data train.tsv --limit 6 --synonyms near --budget 1 --json
    output "likely at confidence 0.95: " "$STET" verify votes.jsonl --model "$1" --data train.tsv --synonyms near
    output "taken on trust" "$STET" verify votes.jsonl --model "$1"
    output '"certified":0,' "$STET" verify votes.jsonl --model "$1" --json
    output ", no proof: " "$STET" predict "$1" --certify --synonyms near "bad bad awful"
    if "$STET" certify "$1" --data train.tsv --limit 6 --synonyms near --budget 1 --largest | grep -q "proved robust"; then
        fail "$1: votes are called proofs"
    fi
    likely=$("$STET" verify votes.jsonl --model "$1" --json | sed 's/.*"likely":\([0-9]*\).*/\1/')
    [ "$likely" -gt 0 ] || fail "$1: no text is likely"
    expect 4 "0 texts are certified" "$STET" verify votes.jsonl --model "$1" --require 1
    expect 4 "0 of 6 texts are certified" "$STET" verify votes.jsonl --model "$1" --expect-certified
    expect 4 "below the required" "$STET" certify "$1" --data train.tsv --limit 6 --synonyms near --budget 1 --require 0.01
    "$STET" report "$1" -o votes.html >/dev/null 2>&1 && grep -q 'likely: holds with a confidence, no proof: [1-9]' votes.html ||
        fail "$1: the report says nothing of what is likely"
    if command -v sha256sum >/dev/null; then
        line=$(grep -n '"likely"' votes.jsonl | head -1 | cut -d: -f1)
        forge votes.jsonl "$line" 's/"likely"/"certified"/' >forged.jsonl
        expect 3 "not hold" "$STET" verify forged.jsonl --model "$1"
        forge votes.jsonl "$line" 's/"counts":\[/"counts":[1/' >forged.jsonl
        expect 3 "not hold" "$STET" verify forged.jsonl --model "$1"
        # An unfinished file is gone on with, but not from a line that no run like it writes.
        for edit in 's/"likely"/"certified"/' 's/"votes":/"claims":/' 's/"label":[01]/"label":2/' 's/"answer":[01]/"answer":-5/' \
            's/"budget":[0-9a-z]*/"budget":9000000000000000000/' 's/"note":{/"note":{"reason":5,/'; do
            forge votes.jsonl "$line" "$edit" | head -n "$line" >votes-more.jsonl.part
            expect 3 "votes-more.jsonl.part:$line:" "$STET" certify "$1" --data train.tsv --limit 6 --synonyms near --budget 1 -o votes-more.jsonl
        done
        rm votes-more.jsonl.part
    fi
    expect 3 "not hold" "$STET" verify votes.jsonl --model cnn
    expect 3 "not hold" "$STET" verify cert.jsonl --model "$1"
done
# One that votes is no member of an ensemble, whatever the folder holds.
rm -rf other && cp -r ensemble other && rm -r other/member-2 && cp -r ranmask other/member-2
expect 3 "other/member-2: not a model that can join others" "$STET" verify all.jsonl --model other

expect 3 "not hold" "$STET" verify cert.jsonl --model cnn
"$STET" verify cert.jsonl --model cnn 2>/dev/null | grep -q "kind" || fail "another model is not named"
expect 3 "not hold" "$STET" verify cert.jsonl --model s4 --synonyms far
head -n 3 cert.jsonl >cut.jsonl
expect 3 "not hold" "$STET" verify cut.jsonl --model s4
sed 's/good/fine/' train.tsv >other.tsv
expect 3 "not hold" "$STET" verify cert.jsonl --model s4 --data other.tsv
# A forger who states the sum of other texts, or of other sets, still has the wrong words in the lines.
swap_sum() { # OPTIONS: the first line states what they have
    was=$("$STET" verify cert.jsonl --model s4 "$@" 2>/dev/null | sed -n "s/^line 1: .* is '\([0-9a-f]*\)', expected '\([0-9a-f]*\)'.*/s,\1,\2,/p")
    [ -n "$was" ] || fail "verify $*: no sum to forge"
    forge cert.jsonl 1 "$was" >forged.jsonl
    "$STET" verify forged.jsonl --model s4 "$@" >out 2>err && fail "forged for $* and not noticed"
}
swap_sum --data other.tsv
grep -q "position [0-9]*: not the word of the data" out || fail "other words: $(cat out)"
awk '{ print 1 - $1 "\t" substr($0, 3) }' train.tsv >turned.tsv
swap_sum --data turned.tsv
grep -q "not the label of the data" out || fail "other labels: $(cat out)"
head -n 1 train.tsv >one.tsv && echo "0	bad" >>one.tsv
swap_sum --data one.tsv
grep -q "the data has 2 texts only" out || fail "too few texts: $(cat out)"
swap_sum --data train.tsv --synonyms far
grep -q "not the substitutes of the sets" out || fail "other sets: $(cat out)"
# What is expected of a file, beyond that it holds.
certified=$("$STET" verify cert.jsonl --model s4 --json | sed 's/.*"certified":\([0-9]*\).*/\1/')
output "stand" "$STET" verify cert.jsonl --model s4 --require "$certified"
expect 4 "fewer than the required" "$STET" verify cert.jsonl --model s4 --require 7
expect 4 "not all" "$STET" verify cert.jsonl --model s4 --require 0 --expect-certified
forge cert.jsonl 1 's/"texts":6/"texts":0/' | head -n 1 >none.jsonl
output "0 texts stand" "$STET" verify none.jsonl --model s4
expect 4 "not all" "$STET" verify none.jsonl --model s4 --expect-certified
# The configuration is part of what the certificates are about.
cp -r s4 shorter
sed 's/"max_len": *[0-9]*/"max_len": 3/' s4/config.json >shorter/config.json
cmp -s s4/config.json shorter/config.json && fail "config.json is as it was"
"$STET" verify cert.jsonl --model shorter 2>/dev/null | grep -q '"config"' || fail "another configuration is not noticed"
# A setting that the checker does not know may change answers.
cp -r bilstm-max odd
sed 's/"pool": *"max"/"pool": "odd"/' bilstm-max/config.json >odd/config.json
expect 3 "'pool' is 'odd'" "$STET" verify cert.jsonl --model odd
sed 's/"pool":/"pooling":/' bilstm-max/config.json >odd/config.json
expect 3 "a setting 'pooling'" "$STET" verify cert.jsonl --model odd
# A model in other spans, or none, is another model.
cp -r bilstm-max-span odd-span
"$STET" certify bilstm-max-span --data train.tsv --limit 6 --synonyms near -o span.jsonl >/dev/null
sed 's/"span": *3/"span": 2/' bilstm-max-span/config.json >odd-span/config.json
"$STET" verify span.jsonl --model odd-span 2>/dev/null | grep -q '"config"' || fail "other spans are not noticed"
sed 's/"pool": *"max",//' bilstm-max-span/config.json >odd-span/config.json
expect 3 "'span' has a 'pool'" "$STET" verify span.jsonl --model odd-span
sed 's/"span": *3/"span": "3"/' bilstm-max-span/config.json >odd-span/config.json
expect 3 "span" "$STET" verify span.jsonl --model odd-span
# A model whose numbers overflow says so, whoever asks.
if command -v python3 >/dev/null; then
    cp -r cnn huge
    python3 - huge/model.safetensors <<'END'
import json, os, struct, sys
path = sys.argv[1]
config = os.path.join(os.path.dirname(path), "config.json")
settings = json.load(open(config))
settings.pop("sha256", None)  # digests, if it has them
json.dump(settings, open(config, "w"))
data = bytearray(open(path, "rb").read())
n = struct.unpack("<Q", data[:8])[0]
for name, t in json.loads(data[8:8 + n]).items():
    if name in ("convs.0.bias", "fc.weight"):
        a, b = t["data_offsets"]
        data[8 + n + a:8 + n + b] = struct.pack("<f", 3e38) * ((b - a) // 4)
open(path, "wb").write(data)
END
    expect 3 "not finite" "$STET" predict huge "a good film"
    expect 3 "not finite" "$STET" predict huge --json "a good film"
fi
expect 2 "--model" "$STET" verify cert.jsonl
expect 1 "none" "$STET" verify none --model s4
expect 1 "config.json" "$STET" verify cert.jsonl --model none
expect 3 "not hold" "$STET" verify train.tsv --model s4
exit $failed
