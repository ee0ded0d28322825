#!/bin/sh
# Installs into a scratch folder and uses what is there as a stranger would: find_package and pkg-config, C and C++,
# the shared and the static library; runs every example; looks for leaks. Arguments: source, build, compilers.
set -u
source=$1 build=$2 cc=$3 cxx=$4
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
fail() {
    echo "FAIL: $*" >&2
    failed=1
}
must() { "$@" >"$tmp/log" 2>&1 || { fail "$*: $(tail -n 20 "$tmp/log")"; exit 1; }; }
command -v pkg-config >/dev/null || { echo "skipped: no pkg-config"; exit 77; }

must cmake --install "$build" --prefix "$tmp/prefix"
cd "$tmp" || exit 1
lib=$(dirname "$(find prefix -name libstet.so)")
PKG_CONFIG_PATH=$tmp/$lib/pkgconfig LD_LIBRARY_PATH=$tmp/$lib
export PKG_CONFIG_PATH LD_LIBRARY_PATH

# ---- pkg-config: our folders and nothing else
flags() { for f in $(pkg-config "$@" stet); do realpath -m "${f#-[IL]}" | sed "s,^$PWD/,," ; done; }
[ "$(flags --cflags)" = "prefix/include" ] || fail "pkg-config --cflags: $(pkg-config --cflags stet)"
pkg-config --libs stet | grep -qE -- '-L[^ ]* -lstet *$' || fail "pkg-config --libs: $(pkg-config --libs stet)"
[ "$(pkg-config --modversion stet)" = "$("prefix/bin/stet" --version | cut -d' ' -f2)" ] || fail "versions differ"

# ---- models and texts for the examples
must prefix/bin/stet demo --texts 300 --epochs 3 --limit 10 -o demo -q

# predict certify train sweep attack certify_all, from this folder
try_all() {
    out=$("$1/predict" demo/standard "a great film") || fail "$1/predict"
    echo "$out" | grep -qE '^(positive|negative), [0-9.]+ %$' || fail "$1/predict: $out"
    "$1/predict" no/such/folder >out 2>err && fail "$1/predict went on without a model"
    grep -q "no/such/folder" err || fail "$1/predict: $(cat err)"
    out=$("$1/certify" demo/robust demo/synonyms.subst "a great film") || fail "$1/certify"
    echo "$out" | grep -qE 'proved|flipped|open' || fail "$1/certify: $out"
    rm -rf runs && out=$("$1/train" demo/train.tsv demo/vectors.txt runs 2 2>/dev/null) || fail "$1/train"
    echo "$out" | grep -q "validation texts" || fail "$1/train: $out"
    rm -rf swept && out=$("$1/sweep" demo/train.tsv demo/vectors.txt demo/synonyms.subst swept 0,0.9 1 2>err) || fail "$1/sweep"
    echo "$out" | grep -qE '^kappa 0(\.9)?: clean 0\.[0-9]+, certified 0\.[0-9]+, chosen$' || fail "$1/sweep: $out"
    [ "$(grep -c "(4 of 4)" err)" = 1 ] || fail "$1/sweep: $(cat err)"
    [ "$("$1/sweep" demo/train.tsv demo/vectors.txt demo/synonyms.subst swept 0,0.9 1 2>err)" = "$out" ] || fail "$1/sweep again"
    "$1/sweep" demo/train.tsv demo/vectors.txt demo/synonyms.subst swept 0,x 1 >out 2>err && fail "$1/sweep with a bad list"
    grep -q "0,x: expected numbers" err || fail "$1/sweep: $(cat err)"
    head -n 20 demo/test.tsv >some.tsv
    out=$("$1/attack" some.tsv demo/synonyms.subst) || fail "$1/attack"
    echo "$out" | grep -q "20 texts: accuracy" || fail "$1/attack: $out"
    out=$("$1/certify_all" demo/robust some.tsv demo/synonyms.subst) || fail "$1/certify_all"
    [ "$(echo "$out" | grep -cE '^[0-9]+ (certified|wrong|undecided|broken)$')" = 20 ] || fail "$1/certify_all: $out"
    "$1/certify_all" demo/robust demo/train.tsv demo/synonyms.subst 5 >out 2>err && fail "$1/certify_all was not stopped"
    grep -q "^interrupted$" err || fail "$1/certify_all: $(cat err)"
}

# ---- CMake
must cmake -S "$source/examples" -B cmake -DCMAKE_PREFIX_PATH="$tmp/prefix" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx"
must cmake --build cmake
try_all cmake

# ---- pkg-config, both libraries
strict="-Wall -Wextra -Wpedantic -Werror"
mkdir shared static
for src in "$source"/examples/*.c "$source"/examples/*.cpp; do
    name=$(basename "$src" | sed 's/\..*//')
    case "$src" in *.c) compile="$cc -std=c11 -D_POSIX_C_SOURCE=200809L" ;; *) compile="$cxx -std=c++14 -pthread" ;; esac
    # shellcheck disable=SC2046,SC2086
    must $compile $strict "$src" $(pkg-config --cflags --libs stet) -o "shared/$name"
    # shellcheck disable=SC2046,SC2086
    must $compile $strict "$src" $(pkg-config --cflags stet) "$lib/libstet.a" \
        $(pkg-config --static --libs stet | sed 's/-lstet //') -o "static/$name"
done
readelf -d shared/predict | grep -q 'libstet\.so\.[0-9]*\.[0-9]*\]' || fail "the library's name has no minor version"
readelf -d static/predict | grep -q 'libstet' && fail "the static program needs the shared library"
try_all shared
out=$(env -u LD_LIBRARY_PATH static/predict demo/standard "a great film") || fail "static/predict"
[ "$out" = "$(shared/predict demo/standard "a great film")" ] || fail "static and shared disagree: $out"

# ---- every struct of arguments in C++, as its macro and its function have it
cat >all.cpp <<'END'
#define STET_EXPERIMENTAL
#include <cstdio>
#include <cstring>
#include <stet/stet.h>
template <typename T> int same(const T &macro, void (*init)(T *, std::size_t))
{
    T own;
    init(&own, sizeof own);
    return std::memcmp(&macro.size, &own.size, sizeof own.size) == 0 && own.size == sizeof own ? 0 : 1;
}
int main()
{
    int bad = 0;
    stet_train_args t = STET_TRAIN_DEFAULTS;
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    stet_certify_args c = STET_CERTIFY_DEFAULTS;
    stet_certify_how h = STET_CERTIFY_HOW;
    stet_data_options d = STET_DATA_DEFAULTS;
    stet_embed_options e = STET_EMBED_DEFAULTS;
    stet_gbm_options g = STET_GBM_DEFAULTS;
    stet_sweep_args s = STET_SWEEP_DEFAULTS;
    bad += same(t, stet_train_args_init) + same(a, stet_attack_args_init) + same(c, stet_certify_args_init);
    bad += same(d, stet_data_options_init) + same(e, stet_embed_options_init) + same(g, stet_gbm_options_init);
    bad += same(s, stet_sweep_args_init) + (std::strcmp(s.seeds, "1") != 0) + (s.jobs != 1);
    bad += t.epochs != 0 || t.format.header != -1 || std::strcmp(a.attack, "pwws") || h.budget != STET_ANY;
    bad += c.how.refine != h.refine || stet_version_number() != STET_VERSION_NUMBER;
    std::printf("%d %d.%d.%d\n", bad, STET_VERSION_MAJOR, STET_VERSION_MINOR, STET_VERSION_PATCH);
    return bad;
}
END
# shellcheck disable=SC2046,SC2086
must "$cxx" -std=c++17 $strict all.cpp $(pkg-config --cflags --libs stet) -o all
[ "$(./all)" = "0 $(pkg-config --modversion stet)" ] || fail "defaults in C++: $(./all)"

# ---- the rest of what is installed
[ -s prefix/share/man/man1/stet.1 ] || fail "no man page"
for file in bash-completion/completions/stet zsh/site-functions/_stet fish/vendor_completions.d/stet.fish; do
    [ -s "prefix/share/$file" ] || fail "no $file"
done
for h in prefix/include/stet/*.h; do
    grep -q "\"$(echo "$h" | sed 's,.*/\(stet/.*\),\1,')\"" prefix/include/stet/*.h || [ "$(basename "$h")" = stet.h ] ||
        fail "$h is reached from no header"
done
# README shows the program that is tested here.
sed -n '/^```c$/,/^```$/p' "$source/README.md" | sed '1d;$d' | cmp -s - "$source/examples/predict.c" ||
    fail "README.md and examples/predict.c differ"

# ---- a host that uses jansson itself, replaces our allocator, and shuts us down
cat >host.c <<'END'
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <stet/stet.h>
static size_t of_host, of_stet;
static void *host_alloc(size_t n) { of_host++; return malloc(n); }
/* Ours are marked: a block of somebody else is noticed. */
static void *resize(void *user, void *p, size_t n)
{
    size_t *q = p ? (size_t *)p - 2 : NULL;
    (void)user, of_stet++;
    if (q && q[0] != 7777)
        abort();
    q = realloc(q, n + 2 * sizeof *q);
    if (q)
        q[0] = 7777;
    return q ? q + 2 : NULL;
}
static void release(void *user, void *p)
{
    size_t *q = (size_t *)p - 2;
    (void)user;
    if (q[0] != 7777)
        abort();
    q[0] = 0;
    free(q);
}
int main(void)
{
    json_malloc_t get;
    json_free_t give;
    stet_model *m;
    stet_predicted *p;
    json_set_alloc_funcs(host_alloc, free);
    stet_set_allocator(resize, release, NULL);
    stet_set_threads(4);
    const char *texts[] = {"a fine film", "a poor film", "the worst of all", "great"};
    float prob[4][2];
    if (stet_model_load("demo/standard", &m) != STET_OK || stet_text_predict(m, "a fine film", &p) != STET_OK ||
        stet_texts_predict(m, texts, 4, prob[0], NULL) != STET_OK)
        return fprintf(stderr, "%s\n", stet_last_error()), 1;
    stet_identity is;
    stet_verify_result v;
    stet_certified *c;
    stet_sets sets;
    char *page;
    const char *dirs[] = {"demo/standard"};
    stet_report_args report;
    stet_report_args_init(&report, sizeof report);
    report.dirs = dirs, report.n_dirs = 1;
    if (stet_sets_load("demo/synonyms.subst", &sets) != STET_OK ||
        stet_text_certify(m, &sets, "a fine film", -1, NULL, &c) != STET_OK || stet_model_identity(m, &is) != STET_OK ||
        stet_verify_file("demo.cert", "demo/standard", NULL, &v) != STET_OK || v.failed ||
        stet_report(&report, &page) != STET_OK)
        return fprintf(stderr, "%s\n", stet_last_error()), 1;
    stet_free(page);
    stet_result_free(c);
    stet_sets_free(&sets);
    stet_result_free(p);
    stet_model_free(m);
    stet_shutdown();
    json_get_alloc_funcs(&get, &give);
    if (get != host_alloc || give != free || of_stet == 0)
        return fprintf(stderr, "jansson's allocator is not the host's any more\n"), 1;
    const size_t before = of_host;
    json_decref(json_object());
    return of_host > before ? 0 : 1;
}
END
must prefix/bin/stet certify demo/standard --data demo/test.tsv --limit 3 --synonyms demo/synonyms.subst -o demo.cert
# shellcheck disable=SC2046
must "$cc" -std=c11 host.c $(pkg-config --cflags --libs stet) -ljansson -o host
./host || fail "host"
if command -v valgrind >/dev/null; then
    valgrind -q --leak-check=full --show-leak-kinds=definite,possible --errors-for-leak-kinds=definite,possible \
        --error-exitcode=9 ./host >log 2>&1 || fail "valgrind: $(tail -n 30 log)"
fi
exit $failed
