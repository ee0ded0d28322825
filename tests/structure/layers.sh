#!/bin/sh
# Includes point down the list of layers only; the command-line program includes public headers only.
set -eu
cd "$1"
layers="base tensor text lexicon model bound run attack certify api defense train report sweep"
bad=0
allowed=
for layer in $layers; do
    allowed="$allowed $layer"
    [ -d "src/$layer" ] || continue
    for inc in $(grep -rhoE '#include "[a-z_]+/' "src/$layer" | sed 's/#include "//; s,/,,' | sort -u); do
        [ "$inc" = stet ] && continue
        case " $allowed " in
        *" $inc "*) ;;
        *) echo "src/$layer includes from $inc/, which is above it" && bad=1 ;;
        esac
    done
done
for inc in $(grep -rhoE '#include "[a-z_]+/' src/cli | sed 's/#include "//; s,/,,' | sort -u); do
    case "$inc" in
    stet | cli) ;;
    *) echo "src/cli includes from $inc/, which is not public" && bad=1 ;;
    esac
done
# The checker shares nothing with what it checks: base, itself, and the public headers of both.
for inc in $(grep -rhoE '#include "[a-z_0-9/]+' src/verify | sed 's/#include "//' | sort -u); do
    case "$inc" in
    base/* | verify/* | stet/status | stet/verify) ;;
    *) echo "src/verify includes $inc, but stands on base alone" && bad=1 ;;
    esac
done
# Kernels of a device are the business of tensor/ and of the folders named after a device; what host code shares with them is in tensor/host.
for file in $(grep -rlE '#include "tensor/(cpu|cuda)/' src | grep -v -e '^src/[a-z]*/cuda/' -e '^src/tensor/' -e '^src/info.c$'); do
    echo "$file includes a device's kernels" && bad=1
done
# A name in a log needs no folder: source file names are unique.
twice=$(git ls-files 'src/*.c' 'src/*.h' 'src/*.cu' 2>/dev/null | sed 's,.*/,,' | sort | uniq -d)
[ -z "$twice" ] || { echo "file names used twice: $twice" && bad=1; }
for dir in src/*/; do
    [ -n "$(ls "$dir")" ] && [ ! -f "$dir/README.md" ] && { echo "$dir has no README.md"; bad=1; }
done
exit $bad
