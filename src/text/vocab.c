/* text/vocab.c - words and their ids: 0 <pad>, 1 <unk>, then the words. vocab.txt has them one a
 * line, so that the line number (from 0) is the id. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/stream.h"
#include "text/counter.h"
#include "text/utf8.h"

struct stet_vocab {
    strmap words; /* number = id */
};

static const char *const reserved[STET_FIRST_WORD] = {[STET_PAD] = "<pad>", [STET_UNK] = "<unk>"};

static stet_status new_vocab(stet_vocab **out)
{
    *out = mem_zalloc(1, sizeof **out);
    if (!*out)
        return STET_ENOMEM;
    for (int i = 0; i < STET_FIRST_WORD; i++)
        TRY(strmap_add(&(*out)->words, reserved[i], strlen(reserved[i]), NULL));
    return STET_OK;
}

/* NULL, or why this cannot be a word. */
static const char *add_word(stet_vocab *v, const char *word, size_t len, stet_status *st)
{
    if (len == 0)
        return "an empty word";
    if (utf8_check(word, len) < len)
        return "a word that is not UTF-8";
    if (memchr(word, '\n', len) || word[len - 1] == '\r')
        return "a word with a line end in it";
    const size_t before = v->words.n;
    *st = strmap_add(&v->words, word, len, NULL);
    return *st == STET_OK && v->words.n == before ? "a word that is there already" : NULL;
}

static stet_status finish(stet_vocab *v, stet_status st, stet_vocab **out)
{
    if (st == STET_OK)
        *out = v;
    else
        stet_vocab_free(v);
    return st;
}

/* ---- from counts -------------------------------------------------------------------------- */

static int by_count(const void *a, const void *b, void *counter)
{
    const stet_counter *c = counter;
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (c->count[x] != c->count[y])
        return c->count[x] > c->count[y] ? -1 : 1;
    return strcmp(strmap_text(&c->words, x), strmap_text(&c->words, y));
}

stet_status stet_vocab_build(const stet_counter *c, uint64_t min_count, size_t max_words,
                             stet_vocab **out)
{
    *out = NULL;
    const size_t n = c->words.n;
    uint32_t *order = mem_alloc(n, sizeof *order);
    if (!order)
        return STET_ENOMEM;
    size_t kept = 0, n_always = 0;
    for (uint32_t w = 0; w < n; w++) {
        n_always += c->always[w];
        if (c->always[w] || c->count[w] >= min_count)
            order[kept++] = w;
    }
    qsort_r(order, kept, sizeof *order, by_count, (void *)(uintptr_t)c);

    /* The cut takes the most frequent beside those that must stay. */
    size_t others = max_words == 0 ? n : max_words > n_always ? max_words - n_always : 0;
    stet_vocab *v;
    stet_status st = new_vocab(&v);
    for (size_t i = 0; st == STET_OK && i < kept; i++) {
        const uint32_t w = order[i];
        if (!c->always[w] && others == 0)
            continue;
        others -= !c->always[w];
        st = strmap_add(&v->words, strmap_text(&c->words, w), strmap_len(&c->words, w), NULL);
    }
    mem_free(order);
    return finish(v, st, out);
}

stet_status stet_vocab_from_words(const char *const *words, size_t n, stet_vocab **out)
{
    *out = NULL;
    stet_vocab *v;
    stet_status st = new_vocab(&v);
    for (size_t i = 0; st == STET_OK && i < n; i++) {
        const char *problem = add_word(v, words[i], strlen(words[i]), &st);
        if (problem)
            st = error_set(STET_EUSAGE, "word %zu, '%.64s': %s", i, words[i], problem);
    }
    return finish(v, st, out);
}

/* ---- vocab.txt ---------------------------------------------------------------------------- */

static stet_status load_lines(stet_vocab *v, stream *s)
{
    stet_status st = STET_OK;
    char *line;
    size_t len;
    while (st == STET_OK && stream_line(s, &line, &len, &st)) {
        const size_t at = stream_line_number(s);
        if (at <= STET_FIRST_WORD) {
            if (strcmp(line, reserved[at - 1]) != 0 || len != strlen(line))
                st = error_set(STET_EFORMAT, "%s:%zu: expected %s, found '%.40s'", stream_path(s),
                               at, reserved[at - 1], line);
            continue;
        }
        const char *problem = add_word(v, line, len, &st);
        if (problem)
            st = error_set(STET_EFORMAT, "%s:%zu: %s", stream_path(s), at, problem);
    }
    if (st == STET_OK && stream_line_number(s) < STET_FIRST_WORD)
        st = error_set(STET_EFORMAT, "%s: expected <pad> and <unk> on the first two lines",
                       stream_path(s));
    return st;
}

stet_status stet_vocab_load(const char *path, stet_vocab **out)
{
    *out = NULL;
    stream *s;
    TRY(stream_open(path, &s));
    stet_vocab *v;
    stet_status st = new_vocab(&v);
    if (st == STET_OK)
        st = load_lines(v, s);
    stream_close(s);
    return finish(v, st, out);
}

stet_status stet_vocab_save(const stet_vocab *v, const char *path)
{
    atomic_file f;
    TRY(atomic_open(&f, path));
    stet_status st = STET_OK;
    for (uint32_t i = 0; st == STET_OK && i < v->words.n; i++) {
        st = atomic_write(&f, strmap_text(&v->words, i), strmap_len(&v->words, i));
        if (st == STET_OK)
            st = atomic_write(&f, "\n", 1);
    }
    if (st == STET_OK)
        return atomic_commit(&f);
    atomic_abort(&f);
    return st;
}

/* ---- looking up --------------------------------------------------------------------------- */

size_t stet_vocab_size(const stet_vocab *v)
{
    return v->words.n;
}

uint32_t stet_vocab_id(const stet_vocab *v, const char *word, size_t len)
{
    const uint32_t id = strmap_find(&v->words, word, len);
    return id == STRMAP_NONE ? STET_UNK : id;
}

const char *stet_vocab_word(const stet_vocab *v, uint32_t id)
{
    return strmap_text(&v->words, id);
}

uint64_t stet_vocab_fingerprint(const stet_vocab *v)
{
    uint64_t h = v->words.n;
    for (uint32_t i = 0; i < v->words.n; i++)
        h = hash_bytes(strmap_text(&v->words, i), strmap_len(&v->words, i), h);
    return h;
}

void stet_vocab_free(stet_vocab *v)
{
    if (!v)
        return;
    strmap_deinit(&v->words);
    mem_free(v);
}
