#!/bin/sh
# The frame: help, version, unknown commands and options, exit codes.
. "$(dirname "$0")/cli_test.sh"

output "stet 0." "$STET" --version
output "usage: stet COMMAND" "$STET" help
output "--vectors" "$STET" help train
output "--vectors" "$STET" train --help
output "Examples" "$STET" train -h
output "data info" "$STET" help data
output "SIMD" "$STET" info
output '"schema":1' "$STET" info --json
output "matmul" "$STET" info --ops
output ".TH STET 1" "$STET" man
output "complete -o filenames -F _stet stet" "$STET" completion bash
output "complete -c stet" "$STET" completion fish

expect 2 "did you mean 'train'" "$STET" trian
expect 2 "did you mean --epochs" "$STET" train --epoch 3
expect 2 "--epochs" "$STET" train --epochs -1
expect 2 "--epochs" "$STET" train --epochs many
expect 2 "--model" "$STET" train --model rnn
expect 2 "expected --data" "$STET" train
expect 2 "missing: --vectors;" "$STET" train --data x -o "$TMP/z"
expect 2 "--lr -0.5: expected -1 or" "$STET" train --data x --vectors y -o "$TMP/z" --lr -0.5
expect 2 "--filters is an option of models 'cnn' and 's4cnn'" "$STET" train --data x --vectors y -o "$TMP/z" --model s4 --filters 9
expect 2 "expected bash, zsh or fish" "$STET" completion tcsh
expect 1 "no such model folder" "$STET" eval "$TMP/none" --data x
expect 1 "missing.tsv" "$STET" train --data "$TMP/missing.tsv" --vectors "$TMP/v" -o "$TMP/run"
expect 1 "" "$STET" train --data "$TMP/missing.tsv" --vectors "$TMP/v" -o /proc/nowhere
expect 2 "no command 'data inof', did you mean 'data info'?" "$STET" data inof
expect 2 "unexpected argument 'extra'" "$STET" train extra
"$STET" >/dev/null 2>&1
[ $? = 2 ] || fail "no command should exit with 2"

# What is printed must arrive: a full disk and a closed file are failures, and no file is opened in the place of a
# closed one. A reader that goes away, such as head, is no failure; the program stops and says nothing.
lost() {
    part=$1
    shift
    "$@" 2>"$TMP/.err" </dev/null
    got=$?
    [ $got = 1 ] && grep -q "^stet: standard output: $part" "$TMP/.err" || fail "'$*' exited with $got: $(cat "$TMP/.err")"
}
for command in --version help "train --help" info "info --json" man; do
    # shellcheck disable=SC2086
    if [ -c /dev/full ]; then lost "No space left" "$STET" $command >/dev/full; fi
    # shellcheck disable=SC2086
    lost "Bad file" "$STET" $command >&-
done
(yes "A fine film." | timeout -k 1 20 "$STET" tag run 2>"$TMP/.err"; echo $? >"$TMP/.status") | head -1 >/dev/null
[ "$(cat "$TMP/.status")" = 0 ] || fail "tagging for nobody ended with $(cat "$TMP/.status")"
[ -s "$TMP/.err" ] && fail "words about a closed pipe: $(cat "$TMP/.err")"
(sleep 0.2; "$STET" help train 2>"$TMP/.err"; echo $? >"$TMP/.status") | true
[ "$(cat "$TMP/.status")" = 0 ] && [ ! -s "$TMP/.err" ] || fail "help into a closed pipe: $(cat "$TMP/.status" "$TMP/.err")"
mkfifo "$TMP/quiet"
sleep 20 >"$TMP/quiet" &
sleeper=$!
timeout -k 1 -s INT 0.5 "$STET" tag run <"$TMP/quiet" >/dev/null 2>&1
[ $? = 124 ] || fail "Ctrl-C did not end a command that waits for standard input"
kill $sleeper

# The completion script is one that bash can read.
if command -v bash >/dev/null; then
    "$STET" completion bash >"$TMP/c" && bash -n "$TMP/c" || fail "bash completion does not parse"
fi
exit $failed
