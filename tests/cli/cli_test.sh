# tests/cli/cli_test.sh - sourced by the command-line tests: $STET is the program, $TMP a fresh folder.
#
#   expect STATUS 'part of stderr' COMMAND...    runs it; wants this exit status and, on stderr, one line with the part
#   output 'part of stdout' COMMAND...           runs it; wants status 0 and the part on stdout
#   repeat N FORMAT                              a small corpus: FORMAT N times, both its %d (or none) being 0, 1, ...
#   vectors WORD...                              six numbers for each word, made from its letters
set -u
STET=$1
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
failed=0

fail() {
    echo "FAIL: $*" >&2
    failed=1
}

expect() {
    status=$1 part=$2
    shift 2
    "$@" >"$TMP/.out" 2>"$TMP/.err" </dev/null
    got=$?
    [ "$got" = "$status" ] || fail "'$*' exited with $got, expected $status: $(cat "$TMP/.err")"
    grep -qF -- "$part" "$TMP/.err" || fail "'$*': stderr lacks '$part': $(cat "$TMP/.err")"
    [ "$status" = 0 ] || [ "$(wc -l <"$TMP/.err")" = 1 ] || fail "'$*' wrote more than one line: $(cat "$TMP/.err")"
}

output() {
    part=$1
    shift
    "$@" >"$TMP/.out" 2>"$TMP/.err" </dev/null || fail "'$*' exited with $?: $(cat "$TMP/.err")"
    grep -qF -- "$part" "$TMP/.out" || fail "'$*': stdout lacks '$part': $(head -5 "$TMP/.out")"
}

repeat() {
    i=0
    while [ $i -lt "$1" ]; do
        # shellcheck disable=SC2059
        printf "$2" $i $i
        i=$((i + 1))
    done
}

vectors() {
    for w in "$@"; do
        printf '%s' "$w"
        for k in 1 2 3 4 5 6; do printf ' 0.%d' $(((${#w} * k * 7 + $(printf '%d' "'$w") * k) % 10)); done
        echo
    done
}
