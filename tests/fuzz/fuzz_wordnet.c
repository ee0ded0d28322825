/* tests/fuzz/fuzz_wordnet.c - the input is four files with a line "%%" between them: index.noun,
 * data.noun, noun.exc and cntlist.rev; the rest of the database is empty. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lexicon/wordnet.h"
#include "stet/lexicon.h"
#include "stet/option.h"

enum { GIVEN = 4, FILES = 13 };
static const char *const names[FILES] = {
    "index.noun", "data.noun", "noun.exc", "cntlist.rev", "index.verb", "index.adj", "index.adv",
    "data.verb",  "data.adj",  "data.adv", "verb.exc",    "adj.exc",    "adv.exc"};
static char dir[] = "/tmp/fuzz-wordnet-XXXXXX";
static int memory[FILES];

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static void path_of(char path[64], const char *name)
{
    snprintf(path, 64, "%s/%s", dir, name);
}

static void remove_dir(void)
{
    char path[64];
    for (size_t i = 0; i < FILES; i++) {
        path_of(path, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

/* The folder holds links to files in memory. */
static void make_dir(void)
{
    char path[64], target[64];
    if (!mkdtemp(dir))
        die("mkdtemp");
    atexit(remove_dir);
    for (size_t i = 0; i < FILES; i++) {
        memory[i] = memfd_create(names[i], MFD_CLOEXEC);
        snprintf(target, sizeof target, "/proc/self/fd/%d", memory[i]);
        path_of(path, names[i]);
        if (symlink(target, path) != 0)
            die("symlink");
    }
}

static void write_files(const uint8_t *data, size_t size)
{
    const uint8_t *p = data, *end = data + size;
    for (size_t i = 0; i < GIVEN; i++) {
        const uint8_t *mark = memmem(p, (size_t)(end - p), "%%\n", 3);
        const size_t n = (size_t)((mark ? mark : end) - p);
        if (ftruncate(memory[i], 0) != 0 || pwrite(memory[i], p, n, 0) != (ssize_t)n)
            die("memfd");
        p = mark ? mark + 3 : end;
    }
}

static void look_up(const stet_wordnet *w, const char *word)
{
    for (int pos = 0; pos <= STET_OTHER; pos++) {
        char **list;
        size_t n;
        wordnet_reading r;
        const stet_wn_variant variant = pos == STET_OTHER ? STET_WN_TEXTATTACK : STET_WN_OPENATTACK;
        if (stet_wordnet_synonyms(w, word, (stet_pos)pos, variant, &list, &n) == STET_OK) {
            for (size_t i = 0; i < n; i++) {
                if (!*list[i])
                    abort();
            }
        }
        stet_free(list);
        if (pos < STET_OTHER)
            (void)wordnet_read(w, word, (stet_pos)pos, &r);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!memory[0])
        make_dir();
    write_files(data, size);
    stet_wordnet *w;
    if (stet_wordnet_open(dir, &w) != STET_OK)
        return 0;
    static const char *const words[] = {"cat", "cats", "mice", "Tom", "be", "a"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        look_up(w, words[i]);
    stet_wordnet_free(w);
    return 0;
}
