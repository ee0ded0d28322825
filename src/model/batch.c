/* model/batch.c - a batch is a table of input rows and an index: texts sorted by falling length,
 * nothing padded, each distinct word once. */
#include <string.h>

#include "base/mem.h"
#include "model/model_impl.h"

stet_status batcher_init(batcher *b, const model *m)
{
    *b = (batcher){.n_words = m->n_words};
    b->slot = mem_alloc(m->n_words, sizeof *b->slot);
    b->stamp = mem_zalloc(m->n_words, sizeof *b->stamp);
    if (b->slot && b->stamp)
        return STET_OK;
    batcher_deinit(b);
    return STET_ENOMEM;
}

void batcher_deinit(batcher *b)
{
    mem_free(b->slot);
    mem_free(b->stamp);
    *b = (batcher){0};
}

/* An empty text is read as one unknown word, or as what stands around every text. */
static size_t text_ids(const model *m, const stet_corpus *c, uint32_t i, const uint32_t **ids)
{
    static const uint32_t unknown = STET_UNK;
    const bool framed = m->reader.framed;
    const size_t n = (size_t)(c->start[i + 1] - c->start[i]);
    *ids = n || framed ? c->ids + c->start[i] : &unknown;
    return n == 0 ? !framed : n < model_max_rows(m) ? n : model_max_rows(m);
}

/* Rows of a text with those around it. */
static size_t text_rows(const model *m, const stet_corpus *c, uint32_t i)
{
    const uint32_t *ids;
    return text_ids(m, c, i, &ids) + 2 * m->reader.framed;
}

/* Falling length, ties in the given order: a counting sort over lengths. */
static stet_status sort_by_length(const model *m, const stet_corpus *c, const uint32_t *pick,
                                  size_t n, arena *a, uint32_t *order)
{
    const size_t most = model_max_rows(m) + 2 * m->reader.framed;
    uint32_t *count = arena_znew(a, uint32_t, most + 2);
    if (!count)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++)
        count[text_rows(m, c, pick[i])]++;
    uint32_t at = 0;
    for (size_t len = most + 1; len-- > 0;) {
        const uint32_t k = count[len];
        count[len] = at;
        at += k;
    }
    for (size_t i = 0; i < n; i++)
        order[count[text_rows(m, c, pick[i])]++] = (uint32_t)i;
    return STET_OK;
}

/* Number the distinct words in order of first use. */
static uint32_t slot_of(batcher *b, uint32_t word, uint32_t *words, size_t *n)
{
    if (b->stamp[word] != b->turn) {
        b->stamp[word] = b->turn;
        b->slot[word] = (uint32_t)*n;
        words[(*n)++] = word;
    }
    return b->slot[word];
}

static void next_turn(batcher *b)
{
    if (++b->turn == 0) { /* the stamps have wrapped around: start over */
        memset(b->stamp, 0, b->n_words * sizeof *b->stamp);
        b->turn = 1;
    }
}

stet_status batch_make(batcher *b, const model *m, const stet_corpus *c, const uint32_t *pick,
                       size_t n, arena *a, batch *out)
{
    const uint32_t *ids;
    size_t n_tokens = 0;
    for (size_t i = 0; i < n; i++)
        n_tokens += text_rows(m, c, pick[i]);
    const size_t count = 3 * n + 1 + 2 * n_tokens;
    uint32_t *block = arena_new(a, uint32_t, count), *order = block, *start = order + n,
             *row = start + 2 * n + 1, *word = row + n_tokens;
    if (!block)
        return STET_ENOMEM;
    int32_t *label = (int32_t *)(start + n + 1);
    TRY(sort_by_length(m, c, pick, n, a, order));

    n_tokens = 0;
    for (size_t i = 0; i < n; i++) {
        start[i] = (uint32_t)n_tokens;
        n_tokens += text_rows(m, c, pick[order[i]]);
        label[i] = c->label[pick[order[i]]];
    }
    start[n] = (uint32_t)n_tokens;

    next_turn(b);
    size_t n_rows = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t len = text_ids(m, c, pick[order[i]], &ids);
        uint32_t *to = row + start[i];
        if (m->reader.framed)
            *to++ = slot_of(b, m->reader.before, word, &n_rows);
        for (size_t p = 0; p < len; p++) {
            if (ids[p] >= m->n_words)
                return error_set(STET_EUSAGE, "text %u: word id %u outside the vocabulary of %zu",
                                 pick[order[i]], ids[p], m->n_words);
            *to++ = slot_of(b, ids[p], word, &n_rows);
        }
        if (m->reader.framed)
            *to = slot_of(b, m->reader.after, word, &n_rows);
    }

    *out = (batch){.seq = {.n_texts = n,
                           .n_tokens = n_tokens,
                           .n_rows = n_rows,
                           .max_len = n ? start[1] - start[0] : 0,
                           .start = start,
                           .row = row},
                   .order = order,
                   .word = word,
                   .label = label,
                   .block = block,
                   .block_bytes = (size_t)(word + n_rows - block) * sizeof *block};
    return STET_OK;
}
