#!/bin/sh
# A tiny BERT from the command line: texts longer than it reads, and what it cannot certify.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1

repeat 30 '1\tthis film is good and fine and great\n0\tthis film is bad and poor and awful\n0\tbad\n' >train.tsv
printf '{"good": ["fine", "great"], "bad": ["poor", "awful"]}' >sets.json
tiny="--model bert --bert-layers 1 --bert-hidden 16 --bert-heads 2 --bert-inner 32 --max-len 12 --lr 1e-2 --batch 8 --epochs 4"
for d in standard encode safer; do
    "$STET" train -q --data train.tsv $tiny --defense $d --synonyms sets.json -o $d >/dev/null 2>err || fail "train $d: $(cat err)"
done

# Texts of unlike lengths, mixed between two layers.
"$STET" train -q --data train.tsv $tiny --bert-layers 2 --defense mixada --mixada-layers 0,1,2 -o tmix >/dev/null 2>err || fail "tmix: $(cat err)"
"$STET" eval tmix --data train.tsv --no-record --json | grep -q '"accuracy":1.0,' || fail "a mixed training learned nothing"
expect 2 "expected numbers from 0 to 1 separated by commas" "$STET" train -q --data train.tsv $tiny --defense mixada --mixada-layers 2 -o x
expect 2 "'freelb' and 'mixada' cannot be combined with these settings" "$STET" train -q --data train.tsv $tiny --defense freelb,mixada --mixada-layers 1 -o x

# 100,000 words: every command reads the beginning, and says so in one line with the count.
python3 - <<'P'
long = "this film is good " * 25000
print(f"1\tthis film is good\n1\t{long}\n0\tthis film is bad", file=open("long.tsv", "w"))
print(f"this film is good\n{long}", file=open("long.txt", "w"))
P
told="of 3 texts have more than 10 pieces: the rest of each is not read"
says() { # NAME LINE COMMAND...: once on stderr
    name=$1 line=$2
    shift 2
    "$@" >out 2>err || fail "$name: $(cut -c1-300 err)"
    [ "$(grep -cxF "$line" err)" = 1 ] || fail "$name: stderr is $(cut -c1-300 err)"
}
says eval "1 $told" "$STET" eval standard --data long.tsv --no-record
says attack "1 $told" "$STET" attack standard --data long.tsv --synonyms sets.json --attack pwws,greedy --no-record
says "certify encode" "1 $told" "$STET" certify encode --data long.tsv --synonyms sets.json --no-record
says "certify safer" "1 $told" "$STET" certify safer --data long.tsv --synonyms sets.json --no-record
says predict "1 of 2 texts have more than 10 pieces: the rest of each is not read" "$STET" predict standard --file long.txt
says "predict --certify" "1 of 2 texts have more than 10 pieces: the rest of each is not read" \
    "$STET" predict encode --certify --synonyms sets.json --file long.txt
repeat 100 'this film is good and fine and great and good and fine\n' >many.txt # several batches
says "predict, a pipe" "100 of 100 texts have more than 10 pieces: the rest of each is not read" "$STET" predict standard <many.txt
says "attack --text" "1 of 1 texts have more than 10 pieces: the rest of each is not read" \
    "$STET" attack standard --synonyms sets.json --attack greedy --text "$(head -1 many.txt)"
"$STET" predict standard "this film is good" >out 2>err || fail "predict: $(cat err)"
[ ! -s err ] || fail "a short text: $(cat err)"

# As it is it has no certificates; what to use instead works.
for m in auto enumerate; do
    expect 1 "kind 'bert', which has no bounds: trained with --defense encode" "$STET" certify standard --data train.tsv --synonyms sets.json --method $m
done
"$STET" attack standard --data train.tsv --synonyms sets.json --attack exhaustive --no-record >out 2>err || fail "exhaustive: $(cat err)"
exit $failed
