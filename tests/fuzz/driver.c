/* tests/fuzz/driver.c - a fuzz target as an ordinary test: PROGRAM CORPUS [RUN]
 *
 * Run 0 .. n-1 are the n files of the corpus as they are; the runs after them are mutations, each
 * made from its own random stream, so that run N is the same whenever it is repeated. */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"

enum { RUNS = 2000, SEEDS_MAX = 64, SEED_SIZE_MAX = 1 << 20, RUN_SECONDS = 60 };

typedef struct bytes {
    uint8_t *data;
    size_t n;
} bytes;

static bytes seeds[SEEDS_MAX];
static size_t n_seeds;

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* the same order in every locale */
}

static bool load_seeds(const char *corpus)
{
    struct dirent **entries;
    const int n = scandir(corpus, &entries, NULL, by_name);
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.' && n_seeds < SEEDS_MAX) {
            char *path = path_join(corpus, entries[i]->d_name), *data;
            bytes *seed = &seeds[n_seeds];
            if (path && file_read_all(path, SEED_SIZE_MAX, &data, &seed->n) == STET_OK) {
                seed->data = (uint8_t *)data;
                n_seeds++;
            }
            mem_free(path);
        }
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return n_seeds > 0;
}

static size_t below(rng *r, size_t n)
{
    return n ? (size_t)rng_below(r, n) : 0;
}

/* One change of `b`, which has room for `cap` bytes. */
static void mutate(bytes *b, size_t cap, rng *r)
{
    static const uint8_t telling[] = {0, 1, 0x7f, 0x80, 0xff, '"', '\\', '{', '[', '\n', '\t', '-'};
    const size_t at = below(r, b->n), span = 1 + below(r, b->n - at < 16 ? b->n - at : 16);
    const bytes other = seeds[below(r, n_seeds)];
    const size_t from = below(r, other.n), take = below(r, other.n - from + 1);
    switch (b->n ? rng_below(r, 7) : 6) {
    case 0: /* flip a bit */
        b->data[at] ^= (uint8_t)(1u << rng_below(r, 8));
        break;
    case 1: /* any byte */
        b->data[at] = (uint8_t)rng_u64(r);
        break;
    case 2: /* a byte with a meaning */
        b->data[at] = telling[rng_below(r, sizeof telling)];
        break;
    case 3: /* cut the end off */
        b->n = at;
        break;
    case 4: /* take some bytes out */
        if (at + span <= b->n) {
            memmove(b->data + at, b->data + at + span, b->n - at - span);
            b->n -= span;
        }
        break;
    case 5: /* repeat some bytes */
        if (at + span <= b->n && b->n + span <= cap) {
            memmove(b->data + at + span, b->data + at, b->n - at);
            b->n += span;
        }
        break;
    default: /* continue like another seed */
        if (at + take <= cap) {
            memcpy(b->data + at, other.data + from, take);
            b->n = at + take > b->n ? at + take : b->n;
        }
    }
}

/* The target sees a block of exactly the input's size, so that reading past it is noticed. */
static void run_exact(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        exit(2);
    memcpy(copy, data, n);
    alarm(RUN_SECONDS);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static void run(size_t number)
{
    if (number < n_seeds) {
        run_exact(seeds[number].data, seeds[number].n);
        return;
    }
    rng r = rng_stream(1, STREAM_TEST, number);
    const bytes seed = seeds[below(&r, n_seeds)];
    const size_t cap = seed.n + 4096;
    bytes input = {malloc(cap), seed.n};
    if (!input.data)
        exit(2);
    memcpy(input.data, seed.data, seed.n);
    for (size_t changes = 1 + below(&r, 6); changes > 0; changes--)
        mutate(&input, cap, &r);
    run_exact(input.data, input.n);
    free(input.data);
}

static void release_seeds(void)
{
    for (size_t i = 0; i < n_seeds; i++)
        mem_free(seeds[i].data);
}

/* In a child, so that a death can be told from the number it had reached. */
static int run_all(const char *program, const char *corpus)
{
    size_t *reached =
        mmap(NULL, sizeof *reached, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (reached == MAP_FAILED)
        return 2;
    const pid_t pid = fork();
    if (pid == 0) {
        for (*reached = 0; *reached < RUNS; ++*reached)
            run(*reached);
        release_seeds();
        exit(0);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (status == 0) {
        printf("%d runs\n", RUNS);
        return 0;
    }
    if (WIFSIGNALED(status))
        fprintf(stderr, "died: %s\n", strsignal(WTERMSIG(status)));
    fprintf(stderr, "run %zu failed; repeat it with: %s %s %zu\n", *reached, program, corpus,
            *reached);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 2 || !load_seeds(argv[1])) {
        fprintf(stderr, "usage: %s CORPUS [RUN]: no files in the corpus\n", argv[0]);
        return 2;
    }
    if (argc == 2) {
        const int rc = run_all(argv[0], argv[1]);
        release_seeds();
        return rc;
    }
    run(strtoul(argv[2], NULL, 10));
    release_seeds();
    return 0;
}
