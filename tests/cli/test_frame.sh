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
expect 2 "--epochs" "$STET" train --epochs 0
expect 2 "--epochs" "$STET" train --epochs many
expect 2 "--model" "$STET" train --model rnn
expect 2 "expected --data" "$STET" train
expect 2 "--filters is an option of model 'cnn'" "$STET" train --data x --vectors y -o "$TMP/z" --model s4 --filters 9
expect 2 "expected bash, zsh or fish" "$STET" completion tcsh
expect 1 "no such model folder" "$STET" eval "$TMP/none" --data x
expect 1 "missing.tsv" "$STET" train --data "$TMP/missing.tsv" --vectors "$TMP/v" -o "$TMP/run"
expect 1 "" "$STET" train --data "$TMP/missing.tsv" --vectors "$TMP/v" -o /proc/nowhere
"$STET" >/dev/null 2>&1
[ $? = 2 ] || fail "no command should exit with 2"

# The completion script is one that bash can read.
if command -v bash >/dev/null; then
    "$STET" completion bash >"$TMP/c" && bash -n "$TMP/c" || fail "bash completion does not parse"
fi
exit $failed
