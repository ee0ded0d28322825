/* model/batch.c - a batch is a table of input rows and an index: texts sorted by falling length,
 * nothing padded, each distinct word once. */
#include <string.h>

#include "base/mem.h"
#include "model/model_impl.h"

stet_status batcher_init(batcher *b, const model *m)
{
    b->slot = mem_zalloc(m->n_words, sizeof *b->slot);
    return b->slot ? STET_OK : STET_ENOMEM;
}

void batcher_deinit(batcher *b)
{
    mem_free(b->slot);
    *b = (batcher){0};
}

/* ---- which texts, and where --------------------------------------------------------------- */

/* Words of a text that are read. */
static size_t text_words(const model *m, const stet_corpus *c, uint32_t i)
{
    const size_t n = (size_t)(c->start[i + 1] - c->start[i]);
    return n < model_max_rows(m) ? n : model_max_rows(m);
}

size_t text_rows(const model *m, const stet_corpus *c, uint32_t i)
{
    const size_t n = text_words(m, c, i);
    return m->reader.framed ? n + 2 : n ? n : 1;
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

size_t batch_tokens(const model *m, const stet_corpus *c, const uint32_t *pick, size_t n)
{
    size_t n_tokens = 0;
    for (size_t i = 0; i < n; i++)
        n_tokens += text_rows(m, c, pick[i]);
    return n_tokens;
}

stet_status batch_plan(const model *m, const stet_corpus *c, const uint32_t *pick, size_t n,
                       arena *a, uint32_t *head)
{
    uint32_t *start = head, *text = start + n + 1, *order = text + n;
    int32_t *label = (int32_t *)(order + n);
    TRY(sort_by_length(m, c, pick, n, a, order));
    size_t n_tokens = 0;
    for (size_t i = 0; i < n; i++) {
        text[i] = pick[order[i]];
        start[i] = (uint32_t)n_tokens;
        n_tokens += text_rows(m, c, text[i]);
        label[i] = c->label[text[i]];
    }
    start[n] = (uint32_t)n_tokens;
    return STET_OK;
}

batch batch_over(const uint32_t *head, size_t n, const uint32_t *row, size_t n_rows)
{
    return (batch){.seq = {.n_texts = n,
                           .n_tokens = head[n],
                           .n_rows = n_rows,
                           .max_len = n ? head[1] - head[0] : 0,
                           .start = head,
                           .row = row},
                   .order = head + 2 * n + 1,
                   .label = (const int32_t *)(head + 3 * n + 1),
                   .word = row + head[n]};
}

/* ---- their words -------------------------------------------------------------------------- */

text_source corpus_source(const model *m, const stet_corpus *c)
{
    return (text_source){c->ids, c->start, m->reader.framed, m->reader.before, m->reader.after};
}

void batch_ids(const text_source *from, const uint32_t *head, size_t n, uint32_t *row)
{
    const uint32_t *start = head, *text = head + n + 1;
    for (size_t i = 0; i < n; i++) {
        const uint64_t first = from->start[text[i]];
        uint32_t *to = row + start[i];
        size_t k = start[i + 1] - start[i];
        if (from->framed) {
            *to++ = from->before;
            k -= 2;
            to[k] = from->after;
        }
        if (k && from->start[text[i] + 1] == first)
            *to = STET_UNK;
        else if (k)
            memcpy(to, from->ids + first, k * sizeof *to);
    }
}

size_t batch_number(uint32_t *slot, uint32_t *row, size_t n_tokens, uint32_t *word)
{
    size_t n = 0;
    for (size_t t = 0; t < n_tokens; t++) {
        uint32_t *mine = &slot[row[t]];
        if (*mine == 0) {
            word[n] = row[t];
            *mine = (uint32_t)++n;
        }
        row[t] = *mine - 1;
    }
    for (size_t v = 0; v < n; v++)
        slot[word[v]] = 0;
    return n;
}

/* ---- what may stand in their place -------------------------------------------------------- */

/* Which words move, and the rows of every token's extremes. Returns how many words move. */
static size_t number_extremes(const seq_index *q, size_t n_rows, const set_rows *to)
{
    size_t n_moving = 0;
    for (size_t v = 0; v < q->n_rows; v++) {
        to->rank[v] = (uint32_t)n_moving;
        if (to->start[v + 1] > to->start[v])
            to->moving[n_moving++] = (uint32_t)v;
    }
    for (size_t t = 0; t < q->n_tokens; t++) {
        const uint32_t v = q->row[t];
        const bool moves = to->start[v + 1] > to->start[v];
        to->lo[t] = moves ? (uint32_t)n_rows + to->rank[v] : v;
        to->hi[t] = moves ? to->lo[t] + (uint32_t)n_moving : v;
    }
    return n_moving;
}

set_counts batch_number_sets(uint32_t *slot, const word_sets *s, const seq_index *q,
                             const set_rows *to)
{
    uint32_t *word = to->word;
    size_t n = q->n_rows, at = 0;
    for (size_t v = 0; v < n; v++)
        slot[word[v]] = (uint32_t)v + 1;
    for (size_t v = 0; v < q->n_rows; v++) {
        to->start[v] = (uint32_t)at;
        for (uint32_t k = s->start[word[v]]; k < s->start[word[v] + 1]; k++) {
            uint32_t *mine = &slot[s->word[k]];
            if (*mine == 0) {
                word[n] = s->word[k];
                *mine = (uint32_t)++n;
            }
            to->alt[at++] = *mine - 1;
        }
    }
    to->start[q->n_rows] = (uint32_t)at;
    for (size_t r = 0; r < n; r++)
        slot[word[r]] = 0;
    return (set_counts){n, at, number_extremes(q, n, to)};
}

uint32_t text_word(const model *m, const stet_corpus *c, uint32_t i, size_t p)
{
    if (m->reader.framed && (p == 0 || p + 1 == text_rows(m, c, i)))
        return p == 0 ? m->reader.before : m->reader.after;
    return c->start[i] == c->start[i + 1] ? STET_UNK : c->ids[c->start[i] + p - m->reader.framed];
}

stet_status text_check(const model *m, const stet_corpus *c, uint32_t i)
{
    const uint32_t *ids = c->ids + c->start[i];
    for (size_t p = 0; p < text_words(m, c, i); p++)
        if (ids[p] >= m->n_words)
            return error_set(STET_EUSAGE, "text %u: word id %u outside the vocabulary of %zu", i,
                             ids[p], m->n_words);
    return STET_OK;
}

stet_status batch_make(batcher *b, const model *m, const stet_corpus *c, const uint32_t *pick,
                       size_t n, arena *a, batch *out)
{
    const text_source from = corpus_source(m, c);
    const size_t n_tokens = batch_tokens(m, c, pick, n);
    uint32_t *head = arena_new(a, uint32_t, batch_head(n) + 2 * n_tokens),
             *row = head + batch_head(n), *word = row + n_tokens;
    if (!head)
        return STET_ENOMEM;
    TRY(batch_plan(m, c, pick, n, a, head));
    for (size_t i = 0; i < n; i++)
        TRY(text_check(m, c, head[n + 1 + i])); /* in batch order */
    batch_ids(&from, head, n, row);
    const size_t n_rows = batch_number(b->slot, row, n_tokens, word);
    *out = batch_over(head, n, row, n_rows);
    out->block = head;
    out->block_bytes = (size_t)(word + n_rows - head) * sizeof *head;
    return STET_OK;
}
