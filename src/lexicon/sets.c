/* lexicon/sets.c - sets of words and sets of texts behind one name (stet/choices.h). */
#include "lexicon/sets.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "lexicon/subst.h"

/* ---- loading ------------------------------------------------------------------------------ */

/* Sets of texts map to maps, sets of words to lists. */
static bool maps_texts(json_t *root)
{
    void *first = json_is_object(root) ? json_object_iter(root) : NULL;
    return first && json_is_object(json_object_iter_value(first));
}

stet_status stet_sets_load(const char *path, stet_sets *out)
{
    *out = (stet_sets){0};
    bool built = strcmp(path, "builtin") == 0;
    if (!built)
        TRY(subst_is_built(path, &built));
    if (built)
        return stet_subst_load(path, &out->words);
    json_t *root;
    TRY(subst_read_json(path, &root));
    const stet_status st = maps_texts(root) ? subst_texts_from_json(root, path, &out->texts)
                                            : subst_from_json(root, path, &out->words);
    json_decref(root);
    return st;
}

void stet_sets_free(stet_sets *s)
{
    stet_subst_free(s->words);
    stet_subst_texts_free(s->texts);
    *s = (stet_sets){0};
}

uint64_t stet_sets_fingerprint(const stet_sets *s)
{
    return s->words ? stet_subst_fingerprint(s->words) : stet_subst_texts_fingerprint(s->texts);
}

static void hash_text(sha256 *h, const char *text, char end)
{
    sha256_add(h, text, strlen(text));
    sha256_add(h, &end, 1);
}

/* WORD<TAB>SUBSTITUTE<LF>..., in the order of the sets. */
static void hash_words(sha256 *h, const stet_subst *s)
{
    for (uint32_t w = 0; w < stet_subst_words(s); w++) {
        size_t n;
        const uint32_t *sub = stet_subst_of(s, w, &n);
        for (size_t k = 0; k < n; k++) {
            hash_text(h, stet_subst_word(s, w), '\t');
            hash_text(h, stet_subst_word(s, sub[k]), '\n');
        }
    }
}

/* TEXT<TAB>POSITION<TAB>SUBSTITUTE<LF>... */
static void hash_texts(sha256 *h, const stet_subst_texts *s)
{
    for (size_t i = 0; i < stet_subst_texts_count(s); i++)
        for (size_t p = 0; p < stet_subst_texts_positions(s, i); p++) {
            size_t n;
            const char *const *sub = stet_subst_texts_at(s, i, p, &n);
            for (size_t k = 0; k < n; k++) {
                char at[32];
                snprintf(at, sizeof at, "%zu", p);
                hash_text(h, stet_subst_texts_text(s, i).data, '\t');
                hash_text(h, at, '\t');
                hash_text(h, sub[k], '\n');
            }
        }
}

void stet_sets_sha256(const stet_sets *s, char out[65])
{
    sha256 h;
    sha256_init(&h);
    if (s->words)
        hash_words(&h, s->words);
    else
        hash_texts(&h, s->texts);
    sha256_hex(&h, out);
}

/* ---- the texts they speak about ----------------------------------------------------------- */

/* Texts of `d` that are in the file; of several copies the first. */
static stet_status known_texts(const stet_subst_texts *s, const stet_dataset *d, size_t *index,
                               size_t *n)
{
    bool *seen = mem_zalloc(stet_subst_texts_count(s), sizeof *seen);
    stet_status st = seen ? STET_OK : STET_ENOMEM;
    *n = 0;
    for (size_t i = 0; st == STET_OK && i < stet_dataset_size(d); i++) {
        const stet_str text = stet_dataset_text(d, i);
        size_t which;
        st = stet_subst_texts_find(s, text.data, text.len, &which);
        if (st == STET_OK && which != SIZE_MAX && !seen[which]) {
            seen[which] = true;
            index[(*n)++] = i;
        }
    }
    mem_free(seen);
    return st;
}

stet_status stet_sets_sample(const stet_sets *s, const stet_dataset *d, size_t limit, uint64_t seed,
                             size_t *index, size_t *n)
{
    if (!s->texts) {
        *n = stet_dataset_sample(d, limit ? limit : stet_dataset_size(d), seed, index);
        return STET_OK;
    }
    TRY(known_texts(s->texts, d, index, n));
    if (limit == 0 || limit >= *n)
        return STET_OK;
    size_t *chosen = mem_alloc(limit, sizeof *chosen);
    if (!chosen)
        return STET_ENOMEM;
    rng r = rng_stream(seed, STREAM_SAMPLE, 0);
    rng_sample(&r, *n, limit, chosen);
    for (size_t k = 0; k < limit; k++)
        index[k] = index[chosen[k]]; /* chosen[k] >= k */
    mem_free(chosen);
    *n = limit;
    return STET_OK;
}

/* Sets of texts cannot say anything about another text. */
static stet_status check_text(const stet_sets *s, const stet_dataset *d, size_t index)
{
    if (stet_dataset_label(d, index) < 0)
        return error_set(STET_EUSAGE, "text %zu has no label", index);
    size_t which = 0;
    const stet_str text = stet_dataset_text(d, index);
    if (s->texts)
        TRY(stet_subst_texts_find(s->texts, text.data, text.len, &which));
    return which == SIZE_MAX
               ? error_set(STET_EUSAGE, "text %zu is not among the texts of the sets", index)
               : STET_OK;
}

static stet_status check_texts(const stet_sets *s, const stet_dataset *d, const size_t *index,
                               size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (index[i] >= stet_dataset_size(d) || (i > 0 && index[i] <= index[i - 1]))
            return error_set(STET_EUSAGE, "text %zu: indices must ascend and be of this data set",
                             index[i]);
        TRY(check_text(s, d, index[i]));
    }
    return STET_OK;
}

/* k n / shards without overflow. */
static size_t boundary(size_t n, size_t k, size_t shards)
{
    return n / shards * k + n % shards * k / shards;
}

stet_status stet_shard(size_t n, size_t shard, size_t shards, size_t *from, size_t *to)
{
    *from = 0, *to = n;
    if (!shard != !shards || shard > shards || shards > UINT32_MAX)
        return error_set(STET_EUSAGE, "there is no part %zu of %zu of the texts", shard, shards);
    if (shards) {
        *from = boundary(n, shard - 1, shards);
        *to = boundary(n, shard, shards);
    }
    return STET_OK;
}

stet_status sets_take_texts(const stet_sets *s, const stet_dataset *d, const size_t *index,
                            size_t n_index, size_t shard, size_t shards, size_t **out, size_t *n)
{
    size_t from, to;
    *n = n_index;
    *out = mem_alloc((index ? n_index : stet_dataset_size(d)) + 1, sizeof **out);
    if (!*out)
        return STET_ENOMEM;
    stet_status st = STET_OK;
    if (index)
        memcpy(*out, index, n_index * sizeof *index);
    else
        st = stet_sets_sample(s, d, 0, 0, *out, n);
    if (st == STET_OK)
        st = check_texts(s, d, *out, *n);
    if (st == STET_OK)
        st = stet_shard(*n, shard, shards, &from, &to);
    if (st != STET_OK) {
        mem_free(*out);
        *out = NULL;
        return st;
    }
    memmove(*out, *out + from, (to - from) * sizeof **out);
    *n = to - from;
    return STET_OK;
}

/* ---- a second look ------------------------------------------------------------------------ */

static bool allow_word(const stet_subst *s, const stet_tokens *tokens, size_t i, const char *word)
{
    const uint32_t id = stet_subst_word_id(s, stet_token_word(tokens, i), tokens->v[i].len);
    size_t n = 0;
    const uint32_t *alt = id == UINT32_MAX ? NULL : stet_subst_of(s, id, &n);
    for (size_t k = 0; k < n; k++)
        if (strcmp(stet_subst_word(s, alt[k]), word) == 0)
            return true;
    return false;
}

stet_status stet_sets_allow(const stet_sets *s, const char *text, size_t len,
                            const stet_tokens *tokens, size_t i, const char *word, bool *out)
{
    *out = false;
    if (!s->texts) {
        *out = allow_word(s->words, tokens, i, word);
        return STET_OK;
    }
    size_t which, n;
    TRY(stet_subst_texts_find(s->texts, text, len, &which));
    size_t *position = mem_alloc(tokens->n, sizeof *position);
    if (!position)
        return STET_ENOMEM;
    stet_subst_texts_align(s->texts, which, text, len, tokens, position);
    const char *const *alt = stet_subst_texts_at(s->texts, which, position[i], &n);
    for (size_t k = 0; k < n && !*out; k++)
        *out = strcmp(alt[k], word) == 0;
    mem_free(position);
    return STET_OK;
}
