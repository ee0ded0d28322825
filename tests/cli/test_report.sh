#!/bin/sh
# stet demo and stet report: results are kept and shown; a demonstration that is killed goes on where it stopped.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1
small="--texts 400 --epochs 6 --limit 20"

output "proved" "$STET" demo $small -o d
[ -s d/report.html ] || fail "no report"
output "robust" "$STET" demo $small -o d # again: everything is there
expect 2 "other settings" "$STET" demo --texts 401 --epochs 6 --limit 20 -o d
expect 2 "need --data" "$STET" demo --synonyms x -o e

# Results: another sample does not replace; --no-record leaves nothing; a folder that is read-only is worth a warning.
n() { ls d/standard/results | wc -l; }
before=$(n)
output "accuracy" "$STET" eval d/standard --data d/test.tsv --limit 30
[ "$(n)" = $((before + 1)) ] || fail "another sample should have its own result"
output "accuracy" "$STET" eval d/standard --data d/test.tsv --limit 40 --no-record
[ "$(n)" = $((before + 1)) ] || fail "--no-record wrote something"
cp -r d/standard ro && rm -rf ro/results && touch ro/results
output "accuracy" "$STET" eval ro --data d/test.tsv
grep -q "warning: results not kept" "$TMP/.err" || fail "no warning: $(cat "$TMP/.err")"

expect 0 "r.html" "$STET" report d/standard d/robust -o r.html
[ "$(tail -c 8 r.html)" = "</html>" ] || fail "the page has no end"
output "| standard |" "$STET" report d/standard d/robust --markdown
output '"command":"report"' "$STET" report d/standard d/robust --json
expect 2 "expected DIR..." "$STET" report
expect 2 "one of --markdown and --json" "$STET" report d/standard --markdown --json
expect 1 "nowhere" "$STET" report nowhere -o x.html
[ -e x.html ] && fail "a failed report left a page"

# Turned texts: plain when piped, marked where there is a terminal, plain again with NO_COLOR.
show="attack d/standard --data d/test.tsv --synonyms d/synonyms.subst --limit 200 --attack pwws --no-record"
output " -> " "$STET" $show
output "AUA" "$STET" $show --show 0
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then # a bare machine has no /dev/pts
    TERM=xterm script -qec "$STET $show --progress never" /dev/null >tty </dev/null
    grep -q "$(printf '\033\[9;31m')" tty || fail "no colours on a terminal"
    NO_COLOR=1 TERM=xterm script -qec "$STET $show --progress never" /dev/null >tty </dev/null
    grep -q "$(printf '\033')" tty && fail "colours in spite of NO_COLOR"
    TERM=dumb script -qec "$STET $show" /dev/null >tty </dev/null
    grep -q "$(printf '\033')" tty && fail "colours on a dumb terminal"
    grep -q "$(printf '\r')." tty && fail "lines written over on a dumb terminal"
else
    echo "no terminal here (script fails): colours are not tried"
fi

# Killed at different moments, then finished: the same table as in one go.
"$STET" demo $small -o whole --json -q >whole.json || fail "demo"
for t in 0.02 0.06 0.1 0.15 0.2 0.3; do
    timeout -s KILL $t "$STET" demo $small -o cut -q >/dev/null 2>&1
done
timeout -s INT 0.05 "$STET" demo $small -o cut2 -q >/dev/null 2>&1
"$STET" demo $small -o cut --json -q >cut.json || fail "a killed demonstration does not go on"
"$STET" demo $small -o cut2 --json -q >cut2.json || fail "an interrupted demonstration does not go on"
rows() { sed 's/.*"summary":\(.*\),"models".*/\1/' "$1"; }
[ "$(rows cut.json)" = "$(rows whole.json)" ] || fail "a killed demonstration ends in other numbers"
[ "$(rows cut2.json)" = "$(rows whole.json)" ] || fail "an interrupted demonstration ends in other numbers"
find cut cut2 -name '*.tmp-*' -size +0 -newer cut/report.html | grep -q . && fail "temporary files stayed"
# A sweep has more folders than two hands have fingers.
many=$(i=0; while [ $i -lt 40 ]; do echo d/standard; i=$((i + 1)); done)
# shellcheck disable=SC2086
expect 0 "many.html" "$STET" report $many -o many.html --no-bounds
exit $failed
