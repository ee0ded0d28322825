#!/bin/sh
# Every header compiles alone; the public ones as C++ too.
set -eu
cd "$1"
cc=$2
bad=0
for h in include/stet/*.h $(git ls-files 'src/*.h' 2>/dev/null || find src -name '*.h'); do
    case "$h" in
    */command_list.h | *_kernel.h | */each_width.h) continue ;; # expanded in place, not included alone
    esac
    "$cc" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Iinclude -Isrc -I/usr/include/x86_64-linux-gnu/openblas-pthread -fsyntax-only \
        -Wno-unused-function -x c "$h" || { echo "$h does not compile alone" && bad=1; }
done
if command -v g++ >/dev/null; then
    for h in include/stet/*.h; do
        g++ -std=c++17 -Iinclude -fsyntax-only -x c++ "$h" || { echo "$h does not compile as C++" && bad=1; }
    done
fi
# Names that a host sees begin with STET_ or stet_: macros, and the enumerators of every header.
other=$(grep -nE '^ *# *define +[A-Za-z_]' include/stet/*.h | grep -vE 'define +STET_' || true)
[ -z "$other" ] || { echo "macros without a prefix: $other" && bad=1; }
for h in include/stet/*.h; do
    other=$("$cc" -E -P -Iinclude "$h" | tr '\n' ' ' | grep -oE 'enum( stet_[a-z_0-9]+)? *\{[^}]*\}' |
        grep -oE '[{,] *[A-Za-z_][A-Za-z0-9_]*' | tr -d '{, ' | grep -vE '^(STET_|_)' || true)
    [ -z "$other" ] || { echo "$h: enumerators without a prefix: $other" && bad=1; }
done
exit $bad
