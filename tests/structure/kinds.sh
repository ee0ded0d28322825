#!/bin/sh
# A kind of model is what docs/contributing.md says: a line of model/kind_list.h, a file for the model, one for its
# bounds, descriptors that the linker asks for. Above model/ nothing else knows a kind by name.
set -eu
cd "$1"
bad=0
say() {
    echo "$*"
    bad=1
}
kinds=$(sed -n 's/^ *KIND(\([a-z0-9_]*\)).*/\1/p' src/model/kind_list.h)
[ -n "$kinds" ] || say "no kinds in src/model/kind_list.h"
sources=$(find src -name '*.c' -o -name '*.h' -o -name '*.cu')
for kind in $kinds; do
    for file in "src/model/$kind.c" "src/bound/bounds_$kind.c"; do
        [ -f "$file" ] || say "$kind has no $file"
    done
    # One that reads in its own way has a test of its own instead.
    grep -q "{\"$kind\"," tests/model/small_model.h || [ -f "tests/model/test_$kind.c" ] ||
        say "$kind has no row in tests/model/small_model.h"
    # The checker shares no list with what it checks: it has a row of its own, unless there is nothing to check.
    grep -rqE "cert_$kind = \{(0)?\};" src/certify || grep -rq "= {\"$kind\"," src/verify ||
        say "$kind has certificates, but src/verify cannot check them"
    # "sum" is also a plain word: a norm, a key of what inspect prints. The paper's tables speak of its models.
    # shellcheck disable=SC2086
    found=$(grep -nE "\\b(model|bounds|cert)_$kind([^a-z0-9_.]|\$)|\"$kind\"" $sources |
        grep -vE "^src/(base|tensor|text|lexicon|model|verify)/|^src/(report/paper|cli/(reproduce_rows|cmd_reproduce)).c:|const model_bounds bounds_$kind =|const cert_family cert_$kind =|STET_OPT_CHOICE\(\"(model|gbm-norm)\"|\"sum\", number|json_object_get\(one, \"sum\"\)" || true)
    [ -z "$found" ] || say "a kind known by name above model/:
$found"
    found=$(grep -rn "include \"model/$kind.h\"" src/attack src/defense src/train src/report || true)
    [ -z "$found" ] || say "a layer that serves every kind looks into one:
$found"
done
exit $bad
