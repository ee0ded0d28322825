#!/bin/sh
# Attack a small model as a user would: table, JSON, log, page, resume, a program as the victim, and bad input.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1

repeat 40 '1\tthis film is good and fine number%d\n0\tthis film is bad and poor number%d\n' >data.tsv
vectors this film is good fine great bad poor awful and >vectors.txt
echo '{"good": ["fine", "awful"], "bad": ["poor", "great"], "poor": ["great"]}' >sets.json
echo film >stop.txt
"$STET" train --data data.tsv --vectors vectors.txt --synonyms sets.json --lr 0.02 --batch 8 --epochs 6 -o cnn -q >/dev/null || fail "training"

output "AUA" "$STET" attack cnn --data data.tsv --synonyms sets.json --stop stop.txt -q
output '"candidates_mean":' "$STET" attack cnn --data data.tsv --synonyms sets.json --attack pwws --limit 20 --json -q
output '"profile":"gbm-paper"' "$STET" attack cnn --data data.tsv --synonyms sets.json --attack ga --profile gbm-paper --json -q
for profile in openattack textattack gbm-paper original; do
    output "textfooler" "$STET" attack cnn --data data.tsv --synonyms sets.json --profile $profile --similarity mean --tagger builtin -q
done

# Sets of texts: only those texts, each with its own.
echo '{"this film is good and fine number0": {"3": ["awful"]}, "this film is bad and poor number1": {"1": ["great"], "5": []}}' >texts.json
output '"n":2,' "$STET" attack cnn --data data.tsv --synonyms texts.json --attack exhaustive --json -q
output '"n":1,' "$STET" attack cnn --data data.tsv --synonyms texts.json --attack pwws --limit 1 --json -q
echo '{"no such text": {"0": ["yes"]}}' >other.json
expect 2 "none of its 1 texts" "$STET" attack cnn --data data.tsv --synonyms other.json
echo '{"no such text": {"7": ["yes"]}}' >other.json
expect 3 "position" "$STET" attack cnn --data data.tsv --synonyms other.json

# Texts that are certified are left, and that is told; nothing else changes.
echo '{"film": ["and"]}' >film.json
greedy() { "$STET" attack cnn --data data.tsv --synonyms film.json --attack greedy --json "$@" 2>/dev/null; }
number() { grep -o "\"$1\":[0-9.]*" | cut -d: -f2; }
greedy --greedy-proofs no >searched.json
greedy >proved.json
[ "$(number aua <searched.json)" = "$(number aua <proved.json)" ] || fail "proofs change a verdict"
[ "$(number proved <searched.json)" = 0 ] && [ "$(number proved <proved.json)" -gt 0 ] || fail "the count of proved texts"
expect 0 "$(number proved <proved.json) texts are certified" "$STET" attack cnn --data data.tsv --synonyms film.json --attack greedy
output "certified, so nothing can flip it" "$STET" attack cnn --synonyms film.json --attack greedy --text "this film is bad and poor" -q

# A limit of time: texts over it are apart.
output '"timeouts":80,' "$STET" attack cnn --data data.tsv --synonyms sets.json --attack pwws --time-limit 1e-9 --json -q
output '"timeouts":0,' "$STET" attack cnn --data data.tsv --synonyms sets.json --attack pwws --time-limit 1000 --stop builtin --json -q
expect 1 "/no/such/file" "$STET" attack cnn --data data.tsv --synonyms sets.json --stop /no/such/file --attack pwws

# One and two threads, and a log cut in the middle: the same bytes.
for t in 1 2; do
    output "greedy" "$STET" attack cnn --data data.tsv --synonyms sets.json --attack ga,greedy --threads $t --log log$t.jsonl --html page.html -q
done
cmp -s log1.jsonl log2.jsonl || fail "the log depends on the threads"
[ -s page-ga.html ] && [ -s page-greedy.html ] || fail "the pages are missing"
head -c 3000 log1.jsonl >cut.jsonl
output "ga" "$STET" attack cnn --data data.tsv --synonyms sets.json --attack ga,greedy --log cut.jsonl -q
cmp -s log1.jsonl cut.jsonl || fail "a resumed log differs"

# Killed without warning while it works: the same command goes on and ends in the same bytes.
i=0
while [ $i -lt 4000 ]; do printf '%d\tthis film is %s and %s number%d\n' $((i % 2)) $([ $((i % 2)) = 1 ] && echo "good fine" || echo "bad poor") $i; i=$((i + 1)); done >many.tsv
big() { exec "$STET" attack cnn --data many.tsv --synonyms sets.json --attack ga --ga-population 200 --ga-iterations 60 --threads $1 --no-record -q --log $2; }
(big 1 whole.jsonl) >/dev/null
killed=0
for pause in 0.02 0.05 0.1 0.2; do
    (big 2 killed.jsonl) >/dev/null 2>&1 &
    victim=$!
    sleep $pause
    kill -9 $victim 2>/dev/null && killed=$((killed + 1))
    wait $victim 2>/dev/null
done
[ $killed -gt 0 ] || fail "nothing was killed"
(big 2 killed.jsonl) >/dev/null
cmp -s whole.jsonl killed.jsonl || fail "a killed and resumed log differs"

# A file that is not a log stays as it is, to the byte.
printf 'precious and without a line end' >precious
printf '{"attack": "dog", "bites": 3}\nlast' >near
printf 'line\nlast' >lines
for file in precious near lines; do
    cp $file before
    expect 3 "$file:1: not the log of an attack" "$STET" attack cnn --data data.tsv --synonyms sets.json --attack ga --log $file -q
    cmp -s $file before || fail "--log changed $file"
done
mkfifo fifo
expect 1 "fifo" timeout 10 "$STET" attack cnn --data data.tsv --synonyms sets.json --attack ga --log fifo -q
sed 's/"outcome":"success"\(.*\)"adversarial"/"outcome":"success"\1"other"/' log1.jsonl >no-text.jsonl
expect 3 "no \"adversarial\"" "$STET" attack cnn --data data.tsv --synonyms sets.json --attack ga,greedy --log no-text.jsonl -q
head -c 20 log1.jsonl >begun.jsonl
output "ga" "$STET" attack cnn --data data.tsv --synonyms sets.json --attack ga,greedy --log begun.jsonl -q
cmp -s log1.jsonl begun.jsonl || fail "a log cut in its first line does not go on"
expect 3 "other settings" "$STET" attack cnn --data data.tsv --synonyms sets.json --attack ga --seed 2 --log log1.jsonl

printf '#!/bin/sh\nsed -u -E %s\n' "'s/^.\"texts\":.(.*)..\$/\\1/; s/\"[^\"]*good[^\"]*\"/[0.1,0.9]/g; s/\"[^\"]*\"/[0.8,0.2]/g; s/^(.*)\$/{\"probabilities\":[\\1]}/'" >victim.sh
output "pwws" "$STET" attack --victim-cmd "sh victim.sh" --data data.tsv --synonyms sets.json --attack pwws -q
expect 1 "without an answer" "$STET" attack --victim-cmd "exit 1" --data data.tsv --synonyms sets.json --attack pwws -q
expect 1 "did not answer within" "$STET" attack --victim-cmd "exec sleep 60" --victim-timeout 0.05 --data data.tsv --synonyms sets.json --attack pwws -q

expect 2 "did you mean 'pwws'" "$STET" attack cnn --data data.tsv --synonyms sets.json --attack pwsw
expect 2 "option of attack 'ga'" "$STET" attack cnn --data data.tsv --synonyms sets.json --attack pwws --ga-population 4
expect 2 "either a model folder" "$STET" attack --data data.tsv --synonyms sets.json
expect 2 "--synonyms" "$STET" attack cnn --data data.tsv
expect 1 "nowhere/page.html: No such file" "$STET" attack cnn --data data.tsv --synonyms sets.json --html nowhere/page.html --log early.jsonl -q
[ ! -e early.jsonl ] || fail "attacked before it was clear that the page can be written"
echo '{"unheard": ["of"]}' >none.json
expect 0 "none.json has no substitute for any word of these texts" "$STET" attack cnn --data data.tsv --synonyms none.json --attack pwws,ga --no-record
[ "$(grep -c warning "$TMP/.err")" = 1 ] || fail "one warning is enough: $(cat "$TMP/.err")"
expect 0 "not tried, and counted as not flipped" "$STET" attack cnn --data data.tsv --synonyms sets.json --attack exhaustive --exhaustive-cap 1 --no-record
output "exhaustive" "$STET" attack cnn --data data.tsv --synonyms sets.json --attack exhaustive --no-record
grep -q "not tried" "$TMP/.err" && fail "every text was decided: $(cat "$TMP/.err")"
output "pwws" "$STET" attack cnn --data data.tsv --synonyms sets.json --attack pwws --time-limit 1e-9 --no-record
grep -q "substitute for no word" "$TMP/.err" && fail "no text was counted, so nothing is known of their words"
expect 4 "below the required" "$STET" attack cnn --data data.tsv --synonyms sets.json --attack greedy --require 1 -q
exit $failed
