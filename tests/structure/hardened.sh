#!/bin/sh
# The program and the library are built with full RELRO, without an executable stack, with checked libc calls and the stack
# protector.
set -eu
command -v readelf >/dev/null || { echo "no readelf: skipped"; exit 77; }
for file in "$@"; do
    readelf -lW "$file" | grep -q GNU_RELRO || { echo "$file: no RELRO"; exit 1; }
    readelf -dW "$file" | grep -q 'NOW' || { echo "$file: symbols are bound late"; exit 1; }
    ! readelf -lW "$file" | grep 'GNU_STACK' | grep -q 'RWE' || { echo "$file: the stack is executable"; exit 1; }
    readelf -sW --dyn-syms "$file" | grep -q '__stack_chk_fail' || { echo "$file: no stack protector"; exit 1; }
    readelf -sW --dyn-syms "$file" | grep -q '__[a-z]*_chk' || { echo "$file: libc calls are not checked"; exit 1; }
done
