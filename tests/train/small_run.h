/* tests/train/small_run.h - a corpus, vectors and sets on which a run takes milliseconds. */
#ifndef TESTS_TRAIN_SMALL_RUN_H
#define TESTS_TRAIN_SMALL_RUN_H

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "stet/lexicon.h"
#include "stet/train.h"
#include "test.h"

static const char *at(const char *name)
{
    static char path[8][256];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, 256, "%s/%s", test_dir(), name);
    return p;
}

/* Texts of filler words in which good* or bad* words decide. */
static inline void write_corpus(const char *path, size_t n, uint64_t seed)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    rng r = rng_stream(seed, STREAM_TEST, 0);
    for (size_t i = 0; i < n; i++) {
        const int label = (int)(i % 2);
        fprintf(f, "%d\t", label);
        const size_t len = 3 + rng_below(&r, 20);
        for (size_t w = 0; w < len; w++)
            if (rng_below(&r, 4) == 0)
                fprintf(f, "%s%d ", label ? "good" : "bad", (int)rng_below(&r, 5));
            else
                fprintf(f, "word%d ", (int)rng_below(&r, 30));
        fprintf(f, "%s0\n", label ? "good" : "bad");
    }
    fclose(f);
}

static inline void write_vectors(const char *path)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    rng r = rng_stream(3, STREAM_TEST, 1);
    for (int i = 0; i < 40; i++) {
        fprintf(f, i < 5 ? "good%d" : i < 10 ? "bad%d" : "word%d", i < 10 ? i % 5 : i - 10);
        for (int d = 0; d < 8; d++)
            fprintf(f, " %.4f", rng_normal(&r));
        fputc('\n', f);
    }
    fclose(f);
}

static const char *vectors[1];

static inline stet_train_args small_run(const char *kind, const char *out)
{
    write_corpus(at("train.tsv"), 300, 1);
    write_vectors(at("vectors.txt"));
    static char data[256], vec[256];
    snprintf(data, sizeof data, "%s", at("train.tsv"));
    snprintf(vec, sizeof vec, "%s", at("vectors.txt"));
    vectors[0] = vec;
    static const char
        *const cnn[] = {"filters=6", "kernels=2,3", NULL},
               *const bilstm[] = {"hidden=6", NULL}, *const s4[] = {"channels=8", "state=4", NULL},
               *const s4cnn[] = {"filters=6", "kernels=2,3", "rank=2", "state=4", NULL},
               *const sum[] = {"score-hidden=4", NULL},
               *const bert[] = {"bert-layers=2",
                                "bert-hidden=16",
                                "bert-heads=2",
                                "bert-inner=32",
                                "bert-positions=40",
                                "bert-pieces=100",
                                NULL};
    const bool is_bert = strcmp(kind, "bert") == 0;
    stet_train_args a = STET_TRAIN_DEFAULTS;
    a.data = data;
    a.vectors = vectors;
    a.n_vectors = !is_bert; /* which has its own */
    a.model = kind;
    a.model_settings = is_bert                    ? bert
                       : kind[0] == 'c'           ? cnn
                       : kind[0] == 'b'           ? bilstm
                       : strcmp(kind, "sum") == 0 ? sum
                       : strcmp(kind, "s4") == 0  ? s4
                                                  : s4cnn;
    a.out = out;
    a.batch = 16;
    a.epochs = 4;
    a.rate = 0.01;
    a.save_every = 3;
    return a;
}

static inline void same_files(const char *a, const char *b)
{
    static const char *const names[] = {"model.safetensors", "vocab.txt", "config.json",
                                        "README.md"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char pa[300], pb[300], *x, *y;
        size_t nx, ny;
        snprintf(pa, sizeof pa, "%s/%s", a, names[i]);
        snprintf(pb, sizeof pb, "%s/%s", b, names[i]);
        CHECK_OK(file_read_all(pa, 1 << 26, &x, &nx));
        CHECK_OK(file_read_all(pb, 1 << 26, &y, &ny));
        if (nx != ny || memcmp(x, y, nx) != 0)
            test_fail(__FILE__, __LINE__, "%s and %s differ", pa, pb);
        mem_free(x);
        mem_free(y);
    }
}

static const char *const kinds[] = {"cnn", "bilstm", "s4", "s4cnn"};
enum { SMALL_RUN_KINDS = sizeof kinds / sizeof *kinds };

/* good* and bad* words may be replaced among themselves. */
static inline void write_sets(const char *path)
{
    static const char *const family[] = {"good", "bad"};
    stet_subst_builder *b;
    stet_subst *s;
    CHECK_OK(stet_subst_builder_new(&b));
    for (int f = 0; f < 2; f++)
        for (int i = 0; i < 5; i++) {
            char word[8], one[8], two[8];
            snprintf(word, sizeof word, "%s%d", family[f], i);
            snprintf(one, sizeof one, "%s%d", family[f], (i + 1) % 5);
            snprintf(two, sizeof two, "%s%d", family[f], (i + 3) % 5);
            CHECK_OK(stet_subst_add_list(b, word, (const char *const[]){one, two}, 2));
        }
    CHECK_OK(stet_subst_build(b, &s));
    CHECK_OK(stet_subst_save(s, path));
    stet_subst_free(s);
    stet_subst_builder_free(b);
}

/* A progress callback: interrupts after *user steps. */
static inline void interrupt_after(void *user, const char *what, uint64_t done, uint64_t total,
                                   const char *note)
{
    (void)done, (void)total, (void)note;
    int *left = user;
    if (strncmp(what, "epoch", 5) == 0 && --*left == 0)
        stet_interrupt();
}

#endif
