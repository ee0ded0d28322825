/* bench/bench_vectors.c - how fast are word vectors read? A made-up GloVe file of 20,000 words and
 * 300 numbers each, all words wanted or one in ten, plain and compressed, then the real one where
 * it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "bench.h"
#include "stet/text.h"

enum { WORDS = 20000, DIM = 300 };

typedef struct load_case {
    const char *path;
    const stet_vocab *vocab;
    size_t known;
} load_case;

static void must(stet_status st)
{
    if (st != STET_OK) {
        fprintf(stderr, "%s\n", stet_last_error());
        exit(1);
    }
}

static float value(size_t word, size_t k)
{
    rng r = rng_stream(word, STREAM_BENCH, k);
    return (float)((double)rng_below(&r, 200001) - 100000) / 100000;
}

/* Every `step`-th of the words. */
static stet_vocab *make_vocab(size_t step)
{
    static char text[WORDS][8];
    static const char *words[WORDS];
    size_t n = 0;
    for (size_t i = 0; i < WORDS; i += step, n++) {
        snprintf(text[n], sizeof text[n], "w%zu", i);
        words[n] = text[n];
    }
    stet_vocab *v;
    must(stet_vocab_from_words(words, n, &v));
    return v;
}

static void make_file(const stet_vocab *v, const char *path)
{
    stet_vectors t = {.n = WORDS + STET_FIRST_WORD, .dim = DIM, .n_known = WORDS};
    t.data = calloc(t.n * DIM, sizeof *t.data);
    t.known = calloc(t.n, 1);
    if (!t.data || !t.known)
        exit(1);
    memset(t.known + STET_FIRST_WORD, 1, WORDS);
    for (size_t i = 0; i < WORDS; i++)
        for (size_t k = 0; k < DIM; k++)
            t.data[(i + STET_FIRST_WORD) * DIM + k] = value(i, k);
    must(stet_vectors_save_text(&t, v, path));
    free(t.data);
    free(t.known);
}

static void load(void *ctx)
{
    load_case *c = ctx;
    stet_vectors t;
    must(stet_vectors_load(&c->path, 1, c->vocab, &t));
    c->known = t.n_known;
    stet_vectors_deinit(&t);
}

static void check(const char *path, const stet_vocab *v, size_t step)
{
    stet_vectors t;
    must(stet_vectors_load(&path, 1, v, &t));
    double wrong = (double)(t.n - STET_FIRST_WORD - t.n_known);
    for (size_t i = 0; i < t.n_known; i++)
        for (size_t k = 0; k < DIM; k += 7)
            wrong += t.data[(i + STET_FIRST_WORD) * DIM + k] != value(i * step, k);
    bench_check(path, wrong, 0);
    stet_vectors_deinit(&t);
}

/* `size`: bytes of the plain text. */
static void report(const char *what, const char *path, const stet_vocab *v, double size)
{
    load_case c = {path, v, 0};
    const bench_time t = bench_measure(load, &c);
    bench_rate(what, "text", t, size * 1e-6, "MB/s");
    bench_rate(what, "vectors", t, (double)c.known * 1e-3, "k words/s");
}

static double file_size(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0 ? (double)sb.st_size : 0;
}

static void made_up(const char *dir)
{
    stet_vocab *all = make_vocab(1), *some = make_vocab(10);
    char plain[256], packed[256];
    snprintf(plain, sizeof plain, "%s/vectors.txt", dir);
    make_file(all, plain);
    check(plain, all, 1);
    check(plain, some, 10);
    const double size = file_size(plain);
    report("plain, every word", plain, all, size);
    report("plain, one word in ten", plain, some, size);
    static const char *const suffix[] = {"gz", "xz", "zst"};
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        char what[64];
        snprintf(what, sizeof what, "%s, every word", suffix[i]);
        snprintf(packed, sizeof packed, "%s/vectors.txt.%s", dir, suffix[i]);
        make_file(all, packed);
        check(packed, all, 1);
        report(what, packed, all, size);
        unlink(packed);
    }
    unlink(plain);
    stet_vocab_free(some);
    stet_vocab_free(all);
}

/* glove.6B.300d.core.txt.xz of $STET_DATA/glove. */
static void real(void)
{
    const char *root = getenv("STET_DATA");
    char path[4096];
    snprintf(path, sizeof path, "%s/glove/glove.6B.300d.core.txt.xz", root ? root : ".");
    if (access(path, R_OK) != 0)
        return;
    const char *paths[] = {path};
    stet_vocab *v;
    stet_vectors t;
    must(stet_vectors_load_all(paths, 1, &v, &t));
    bench_check("words of GloVe", (double)t.n_known - 69737, 0);
    stet_vectors_deinit(&t);
    report("GloVe core, xz", path, v, 180681760);
    stet_vocab_free(v);
}

int main(int argc, char **argv)
{
    bench_start(argc, argv, "vectors", "reading word vectors");
    char dir[] = "/tmp/bench-vectors-XXXXXX";
    if (!mkdtemp(dir)) {
        perror("mkdtemp");
        return 1;
    }
    made_up(dir);
    rmdir(dir);
    real();
    return bench_finish();
}
