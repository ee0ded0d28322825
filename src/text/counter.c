/* text/counter.c - how often each word occurs. Pieces of the data set are counted on their own, in
 * parallel, and merged in the order of the pieces: so the order of first appearance is that of the
 * texts, whatever the number of threads. */
#include "text/counter.h"

#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "text/dataset.h"

stet_status stet_counter_new(stet_counter **out)
{
    *out = mem_zalloc(1, sizeof **out);
    return *out ? STET_OK : STET_ENOMEM;
}

static stet_status add(stet_counter *c, const char *word, size_t len, uint64_t count, bool always)
{
    uint32_t id;
    TRY(mem_grow(&c->count, &c->count_cap, c->words.n + 1, sizeof *c->count));
    TRY(mem_grow(&c->always, &c->always_cap, c->words.n + 1, sizeof *c->always));
    const size_t before = c->words.n;
    TRY(strmap_add(&c->words, word, len, &id));
    if (c->words.n > before) {
        c->count[id] = 0;
        c->always[id] = false;
    }
    c->count[id] += count;
    c->always[id] = c->always[id] || always;
    c->tokens += count;
    return STET_OK;
}

typedef struct piece_counts {
    strmap words;
    uint32_t *count;
    size_t cap;
    stet_status status;
} piece_counts;

typedef struct count_job {
    const stet_dataset *d;
    stet_tokenizer kind;
    piece_counts *piece;
} count_job;

static stet_status count_tokens(piece_counts *p, const stet_tokens *t)
{
    for (size_t k = 0; k < t->n; k++) {
        uint32_t id;
        const size_t before = p->words.n;
        TRY(strmap_add(&p->words, t->words + t->v[k].word, t->v[k].len, &id));
        if (p->words.n > before) {
            TRY(mem_grow(&p->count, &p->cap, p->words.n, sizeof *p->count));
            p->count[id] = 0;
        }
        p->count[id]++;
    }
    return STET_OK;
}

static void count_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    const count_job *job = ctx;
    piece_counts *p = &job->piece[i];
    stet_tokens tokens = {0};
    size_t first, end;
    dataset_piece(job->d, i, &first, &end);
    for (size_t k = first; k < end && p->status == STET_OK; k++) {
        const stet_str text = stet_dataset_text(job->d, k);
        p->status = stet_tokenize(job->kind, text.data, text.len, &tokens);
        if (p->status == STET_OK)
            p->status = count_tokens(p, &tokens);
    }
    stet_tokens_deinit(&tokens);
}

static stet_status merge(stet_counter *c, const piece_counts *p)
{
    if (p->status != STET_OK)
        return error_set(p->status, "cannot count words: %s", stet_status_text(p->status));
    for (uint32_t w = 0; w < p->words.n; w++)
        TRY(add(c, strmap_text(&p->words, w), strmap_len(&p->words, w), p->count[w], false));
    return STET_OK;
}

stet_status stet_counter_add_dataset(stet_counter *c, const stet_dataset *d, stet_tokenizer kind)
{
    const size_t n = dataset_pieces(d);
    count_job job = {d, kind, mem_zalloc(n, sizeof *job.piece)};
    if (!job.piece)
        return STET_ENOMEM;
    pool_run(n, count_piece, &job);
    stet_status st = STET_OK;
    for (size_t i = 0; i < n; i++) {
        if (st == STET_OK)
            st = merge(c, &job.piece[i]);
        strmap_deinit(&job.piece[i].words);
        mem_free(job.piece[i].count);
    }
    mem_free(job.piece);
    return st;
}

stet_status stet_counter_add_word(stet_counter *c, const char *word, uint64_t count)
{
    if (*word == '\0')
        return error_set(STET_EUSAGE, "an empty word");
    return add(c, word, strlen(word), count, count == 0);
}

size_t stet_counter_size(const stet_counter *c)
{
    return c->words.n;
}

uint64_t stet_counter_tokens(const stet_counter *c)
{
    return c->tokens;
}

const char *stet_counter_word(const stet_counter *c, size_t i)
{
    return strmap_text(&c->words, (uint32_t)i);
}

uint64_t stet_counter_count(const stet_counter *c, size_t i)
{
    return c->count[i];
}

void stet_counter_free(stet_counter *c)
{
    if (!c)
        return;
    strmap_deinit(&c->words);
    mem_free(c->count);
    mem_free(c->always);
    mem_free(c);
}
