#!/bin/sh
# The libraries export stet_ names and nothing else.
set -eu
bad=$(nm -D --defined-only "$1" | awk '$2 ~ /[TDBRVWi]/ && $3 !~ /^stet_/ { print $3 }')
[ -z "$bad" ] || { echo "exported by $1: $bad"; exit 1; }
[ "$(nm -D --defined-only "$1" | grep -c ' stet_')" -gt 20 ] || { echo "$1 exports too little"; exit 1; }
if [ -n "${2:-}" ]; then
    bad=$(nm -g --defined-only "$2" | awk 'NF == 3 && $2 ~ /[TDBRVWi]/ && $3 !~ /^stet_/ { print $3 }')
    [ -z "$bad" ] || { echo "global in $2: $bad"; exit 1; }
fi
