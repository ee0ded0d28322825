#!/bin/sh
# No program or library of ours looks for libraries in a folder of its own choice, least of all in the current one.
set -eu
command -v readelf >/dev/null || { echo "no readelf: skipped"; exit 77; }
for file in "$@"; do
    bad=$(readelf -d "$file" | grep -E 'RUNPATH|RPATH' || true)
    [ -z "$bad" ] || { echo "$file: $bad"; exit 1; }
done
