#!/bin/sh
# Every command of docs/cookbook.md, as it stands.
. "$(dirname "$0")/cli_test.sh"
page=$(cd "$(dirname "$0")/../../docs" && pwd)/cookbook.md
mkdir "$TMP/bin" && ln -s "$STET" "$TMP/bin/stet"
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
[ -d /usr/share/wordnet ] || { echo "skipped: no WordNet"; exit 77; }
awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on' "$page" >"$TMP/all.sh"
cd "$TMP" || exit 1
PATH=$TMP/bin:$PATH sh -eu all.sh >out 2>err || fail "the cookbook ends with $?: $(tail -n 3 err)"
for made in report.html bayes.jsonl bayes-pwws.html robust.cert both.html sweep.html; do
    [ -s $made ] || fail "the cookbook made no $made"
done
exit $failed
