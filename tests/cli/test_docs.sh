#!/bin/sh
# docs/commands is what the program says about itself, docs/results.md what the result files say; ./run docs writes them anew.
. "$(dirname "$0")/cli_test.sh"
docs=$(dirname "$0")/../../docs/commands

"$STET" man --markdown | cmp -s - "$docs/README.md" || fail "docs/commands/README.md is old: ./run docs"
pages=1
"$STET" man --names >"$TMP/names" || fail "stet man --names"
while read -r name; do
    page=$(echo "$name" | tr ' ' -).md
    "$STET" man --markdown "$name" | cmp -s - "$docs/$page" || fail "docs/commands/$page is old: ./run docs"
    pages=$((pages + 1))
done <"$TMP/names"
[ "$(ls "$docs" | wc -l)" = "$pages" ] || fail "docs/commands has pages of commands that are no more"
expect 2 "no command" "$STET" man --markdown nonsense

if command -v python3 >/dev/null; then
    python3 "$(dirname "$0")/docs_check.py" "$STET" "$(cd "$docs/../.." && pwd)" || fail "stale lines in the documentation"
    python3 "$docs/../results/build.py" --check || fail "docs/results.md"
fi

# Completion and the man page know every command and every option.
for shell in bash zsh fish; do
    "$STET" completion $shell >"$TMP/$shell"
done
"$STET" man >"$TMP/man"
while read -r name; do
    first=${name%% *}
    for shell in bash zsh fish; do
        grep -qw -- "$first" "$TMP/$shell" || fail "$shell completion lacks $name"
    done
    grep -q "^.SS stet $name" "$TMP/man" || fail "the man page lacks $name"
    "$STET" man --markdown "$name" | sed -n 's/^| `\(-., \)\{0,1\}--\([a-z0-9-]*\).*/\2/p' | while read -r option; do
        grep -q -- "--$option" "$TMP/bash" || echo "$name --$option"
        grep -q -- "-l $option" "$TMP/fish" || echo "$name --$option (fish)"
    done >"$TMP/lacks"
    [ -s "$TMP/lacks" ] && fail "completion lacks $(cat "$TMP/lacks")"
done <"$TMP/names"
for shell in bash zsh fish; do
    command -v $shell >/dev/null || continue
    $shell -n "$TMP/$shell" || fail "$shell cannot read its completion"
done
exit $failed
