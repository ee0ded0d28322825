/* verify/ver_lists.c - the lists of words that a rule draws from, read from the model's folder. */
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "verify/ver_votes.h"

enum { HEAD = 64, VERSION = 1 };

typedef struct image {
    const char *path, *data, *text;
    size_t size, words, pairs, text_size;
    const char *at, *start, *sub; /* little-endian u32: (words + 1), (words + 1), (pairs) */
    uint32_t *id, *seen; /* (words) its number in the vocabulary; the last list it was in, + 1 */
} image;

static uint64_t number(const char *p, size_t bytes)
{
    uint64_t v = 0;
    while (bytes-- > 0)
        v = v << 8 | (unsigned char)p[bytes];
    return v;
}

static uint32_t entry(const char *list, size_t i)
{
    return (uint32_t)number(list + 4 * i, 4);
}

static stet_status read_head(image *x)
{
    if (x->size < HEAD || memcmp(x->data, "STETSUBS", 8) != 0 || number(x->data + 8, 4) != VERSION)
        return error_set(STET_EFORMAT, "%s: not a built set of version %d", x->path, VERSION);
    const uint64_t W = number(x->data + 24, 8), P = number(x->data + 32, 8),
                   T = number(x->data + 40, 8);
    if (W >= UINT32_MAX || P > UINT32_MAX || T > UINT32_MAX ||
        x->size != HEAD + 4 * (2 * (W + 1) + P) + T)
        return error_set(STET_EFORMAT, "%s: not as long as its header says", x->path);
    x->words = (size_t)W, x->pairs = (size_t)P, x->text_size = (size_t)T;
    x->at = x->data + HEAD;
    x->start = x->at + 4 * (W + 1);
    x->sub = x->start + 4 * (W + 1);
    x->text = x->sub + 4 * P;
    if (entry(x->at, 0) != 0 || entry(x->at, x->words) != T || entry(x->start, 0) != 0 ||
        entry(x->start, x->words) != P)
        return error_set(STET_EFORMAT, "%s: words or lists do not fill their room", x->path);
    return STET_OK;
}

/* Every word by its number in the vocabulary. They ascend, so that none is there twice: a list that
 * holds one word under several numbers would share too much. */
static stet_status read_words(image *x, const strmap *vocab)
{
    const char *before = "";
    for (size_t w = 0; w < x->words; w++) {
        const uint32_t from = entry(x->at, w), to = entry(x->at, w + 1);
        if (from >= to || to > x->text_size || x->text[to - 1] != '\0')
            return error_set(STET_EFORMAT, "%s: word %zu has a bad place", x->path, w);
        if (strcmp(before, x->text + from) >= 0)
            return error_set(STET_EFORMAT, "%s: word %zu is out of order", x->path, w);
        before = x->text + from;
        x->id[w] = strmap_find(vocab, x->text + from, to - from - 1);
        if (x->id[w] == STRMAP_NONE || x->id[w] <= VER_UNK)
            return error_set(STET_EFORMAT, "%s: word %zu is not in the vocabulary", x->path, w);
    }
    return STET_OK;
}

static void hash_word(const image *x, size_t w, char end, sha256 *h)
{
    const uint32_t from = entry(x->at, w);
    sha256_add(h, x->text + from, entry(x->at, w + 1) - from - 1);
    sha256_add(h, &end, 1);
}

static stet_status read_list(const image *x, size_t w, uint32_t *first, uint32_t *n, uint32_t *word,
                             sha256 *h)
{
    const uint32_t from = entry(x->start, w), to = entry(x->start, w + 1);
    if (from > to || to > x->pairs)
        return error_set(STET_EFORMAT, "%s: list %zu has a bad place", x->path, w);
    first[x->id[w]] = from;
    n[x->id[w]] = to - from;
    for (uint32_t k = from; k < to; k++) {
        const uint32_t other = entry(x->sub, k);
        if (other >= x->words || other == w || x->seen[other] == w + 1)
            return error_set(STET_EFORMAT, "%s: list %zu holds no word, its own, or one twice",
                             x->path, w);
        x->seen[other] = (uint32_t)w + 1;
        word[k] = x->id[other];
        hash_word(x, w, '\t', h);
        hash_word(x, other, '\n', h);
    }
    return STET_OK;
}

static stet_status read_image(image *x, const strmap *vocab, arena *a, ver_lists *out)
{
    sha256 h;
    TRY(read_head(x));
    uint32_t *first = arena_znew(a, uint32_t, vocab->n), *n = arena_znew(a, uint32_t, vocab->n),
             *word = arena_new(a, uint32_t, x->pairs + 1);
    x->id = arena_new(a, uint32_t, x->words + 1);
    x->seen = arena_znew(a, uint32_t, x->words + 1);
    if (!first || !n || !word || !x->id || !x->seen)
        return STET_ENOMEM;
    TRY(read_words(x, vocab));
    sha256_init(&h);
    for (size_t w = 0; w < x->words; w++)
        TRY(read_list(x, w, first, n, word, &h));
    sha256_hex(&h, out->sha256);
    out->first = first, out->n = n, out->word = word;
    return STET_OK;
}

stet_status ver_lists_load(const char *path, const strmap *vocab, arena *a, ver_lists *out)
{
    image x = {.path = path};
    char *data;
    TRY(file_read_all(path, (size_t)1 << 34, &data, &x.size));
    x.data = data;
    const stet_status st = read_image(&x, vocab, a, out);
    mem_free(data);
    return st;
}
