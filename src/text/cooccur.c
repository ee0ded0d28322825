/* text/cooccur.c - co-occurrence counts, row by row.
 *
 * The places where each word occurs are listed first (a counting sort). Then the row of a word is
 * the sum over its places of the neighbours there, added up in one dense scratch row per worker: no
 * hash table, no sorting of pairs, and each row is summed by one worker in the order of the text,
 * so the counts are the same bits for any number of threads. */
#include "text/cooccur.h"

#include <string.h>

#include "base/mem.h"
#include "base/pool.h"

typedef struct scratch {
    double *sum;       /* (n_words) zero between rows */
    uint32_t *touched; /* (n_words) columns of the row at work, by first appearance */
} scratch;

typedef struct counter {
    size_t n_words, window;
    uint32_t *ids; /* the texts, STET_PAD before, between and after them */
    size_t
        *place; /* where in `ids` each word occurs: those of w at place[first[w] .. first[w+1]) */
    size_t *first;   /* (n_words + 1) */
    double *weight;  /* (window + 1) by distance */
    scratch *worker; /* (n_workers) */
    size_t n_workers;
    cooc *out;
    stet_status status[COOC_GROUPS];
} counter;

static stet_status join_texts(counter *c, const stet_corpus *corpus)
{
    c->ids = mem_alloc(corpus->n_tokens + corpus->n_texts + 1, sizeof *c->ids);
    if (!c->ids)
        return STET_ENOMEM;
    size_t n = 0;
    c->ids[n++] = STET_PAD;
    for (size_t i = 0; i < corpus->n_texts; i++) {
        const size_t len = corpus->start[i + 1] - corpus->start[i];
        if (len)
            memcpy(c->ids + n, corpus->ids + corpus->start[i], len * sizeof *c->ids);
        n += len;
        c->ids[n++] = STET_PAD;
    }
    return STET_OK;
}

static stet_status list_places(counter *c, const stet_corpus *corpus)
{
    const size_t n = corpus->n_tokens + corpus->n_texts + 1;
    c->place = mem_alloc(n, sizeof *c->place);
    c->first = mem_zalloc(c->n_words + 2, sizeof *c->first);
    if (!c->place || !c->first)
        return STET_ENOMEM;
    /* first[w + 2] counts, then first[w + 1] is where the next place of w goes, and ends as its
     * end. */
    for (size_t i = 0; i < n; i++)
        c->first[c->ids[i] + 2]++;
    for (size_t w = 2; w < c->n_words + 2; w++)
        c->first[w] += c->first[w - 1];
    for (size_t i = 0; i < n; i++)
        c->place[c->first[c->ids[i] + 1]++] = i;
    return STET_OK;
}

static stet_status make_scratch(counter *c)
{
    c->weight = mem_zalloc(c->window + 1, sizeof *c->weight);
    c->worker = mem_zalloc((size_t)stet_threads(), sizeof *c->worker);
    if (!c->weight || !c->worker)
        return STET_ENOMEM;
    for (size_t d = 1; d <= c->window; d++)
        c->weight[d] = 1.0 / (double)d;
    c->n_workers = (size_t)stet_threads();
    for (size_t i = 0; i < c->n_workers; i++) {
        c->worker[i].sum = mem_zalloc(c->n_words, sizeof *c->worker[i].sum);
        c->worker[i].touched = mem_alloc(c->n_words, sizeof *c->worker[i].touched);
        if (!c->worker[i].sum || !c->worker[i].touched)
            return STET_ENOMEM;
    }
    return STET_OK;
}

/* Add the neighbours on one side of the place `at`. */
static size_t add_side(const counter *c, scratch *s, const uint32_t *at, ptrdiff_t step, size_t n)
{
    for (size_t d = 1; d <= c->window; d++) {
        const uint32_t id = at[step * (ptrdiff_t)d];
        if (id == STET_PAD)
            break;
        if (id == STET_UNK)
            continue;
        if (s->sum[id] == 0)
            s->touched[n++] = id;
        s->sum[id] += c->weight[d];
    }
    return n;
}

static stet_status count_row(const counter *c, scratch *s, uint32_t row)
{
    size_t n = 0;
    for (size_t i = c->first[row]; i < c->first[row + 1]; i++) {
        n = add_side(c, s, c->ids + c->place[i], -1, n);
        n = add_side(c, s, c->ids + c->place[i], 1, n);
    }
    stet_status st = STET_OK;
    for (size_t i = 0; i < n; i++) {
        const uint32_t col = s->touched[i];
        cooc_block *const b = &c->out->block[row % COOC_GROUPS][col % COOC_GROUPS];
        if (st == STET_OK)
            st = mem_grow(&b->v, &b->cap, b->n + 1, sizeof *b->v);
        if (st == STET_OK)
            b->v[b->n++] = (cooc_entry){row, col, (float)s->sum[col]};
        s->sum[col] = 0;
    }
    return st;
}

static void count_group(void *ctx, size_t group, int worker)
{
    counter *const c = ctx;
    const size_t first = group < STET_FIRST_WORD ? group + COOC_GROUPS : group;
    for (size_t row = first; row < c->n_words && c->status[group] == STET_OK; row += COOC_GROUPS)
        c->status[group] = count_row(c, &c->worker[worker], (uint32_t)row);
}

static stet_status count_all(counter *c)
{
    pool_run(COOC_GROUPS, count_group, c);
    for (size_t p = 0; p < COOC_GROUPS; p++) {
        if (c->status[p] != STET_OK)
            return error_set(c->status[p], "out of memory while counting pairs of words");
        for (size_t q = 0; q < COOC_GROUPS; q++)
            c->out->n += c->out->block[p][q].n;
    }
    return STET_OK;
}

stet_status cooc_count(const stet_corpus *corpus, size_t n_words, size_t window, cooc *out)
{
    *out = (cooc){0};
    counter c = {.n_words = n_words, .window = window, .out = out};
    stet_status st = join_texts(&c, corpus);
    if (st == STET_OK)
        st = list_places(&c, corpus);
    if (st == STET_OK)
        st = make_scratch(&c);
    if (st == STET_OK)
        st = count_all(&c);
    for (size_t i = 0; i < c.n_workers; i++) {
        mem_free(c.worker[i].sum);
        mem_free(c.worker[i].touched);
    }
    mem_free(c.worker);
    mem_free(c.weight);
    mem_free(c.first);
    mem_free(c.place);
    mem_free(c.ids);
    if (st != STET_OK)
        cooc_deinit(out);
    return st;
}

void cooc_deinit(cooc *x)
{
    for (size_t p = 0; p < COOC_GROUPS; p++)
        for (size_t q = 0; q < COOC_GROUPS; q++)
            mem_free(x->block[p][q].v);
    *x = (cooc){0};
}
