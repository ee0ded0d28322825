#!/bin/sh
# The program in a bad environment: little address space, libraries in the current folder.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1

repeat 40 '1\tthis film is good and fine number%d\n0\tthis film is bad and poor number%d\n' >data.tsv
vectors this film is good fine great bad poor awful and >vectors.txt
"$STET" train --data data.tsv --vectors vectors.txt --lr 0.02 --batch 8 --epochs 2 -o cnn -q >/dev/null || fail "training"

# A library in the current folder is not ours to load.
echo "not a library" >libpng16.so.16
output "stet" "$STET" --version

# In a small address space a command works or says why it cannot; sanitizers need more than there is.
if ! nm -D "$STET" 2>/dev/null | grep -qE '__(asan|tsan)_init'; then
    output "stet" sh -c 'ulimit -v 120000; exec timeout 20 "$0" --version' "$STET"
    expect 1 "out of memory" sh -c 'ulimit -v 160000; exec timeout 20 "$0" eval cnn --data data.tsv --threads 4' "$STET"
    output "accuracy" sh -c 'ulimit -v 400000; exec timeout 20 "$0" eval cnn --data data.tsv --threads 1' "$STET"
fi
exit $failed
