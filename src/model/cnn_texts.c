/* model/cnn_texts.c - whole texts of a compiled CNN, many at once: copies of a text that a rule has drawn,
 * or texts whose words are mixtures.
 *
 * They share most of their words, so the projections of all words of the texts are laid together, some
 * filters at a time: what a text reads of them is then in the nearest caches.
 *
 * They share most of their windows too, because few words take turns at a position. So texts of one
 * length are cut into spans of a few words. Where these have few combinations, the maximum of each
 * combination over the windows of the span is computed once, and a text looks it up. A word that is
 * rare at its position has no part in that; its spans are computed as they are. A window's sum has
 * the same terms in the same order in any case, so the answers have the same bits. */
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/simd.h"
#include "model/answers.h"
#include "model/cnn.h"
#include "model/rule.h"
#include "tensor/host/conv_taps.h"

_Static_assert((int)CNN_MAX_TAPS <= (int)CONV_MOST_TAPS, "kernels that mixtures have no room for");

/* ---- texts of one length -------------------------------------------------------------------- */

enum {
    FEW = 128,       /* fewer texts share too little */
    RARE = 64,       /* a word is rare if fewer than one text in so many has it at the position */
    SAMPLE = 8,      /* one text in so many is looked at to know that */
    WORTH = 4,       /* a window has an entry for every combination if each serves so many texts */
    WORTH_SPAN = 16, /* and a span of several windows if each serves so many */
    COLUMNS = 16,    /* positions that are copied together */
    TILE = 64        /* texts that are numbered together */
};

/* Words of the texts at each position that are not rare. */
typedef struct choices {
    size_t n, len;       /* texts, words */
    uint16_t *digit;     /* (len, n): which of its position's words; NO_DIGIT: a rare one */
    uint32_t *at, *word; /* those of position t are word[at[t] .. at[t + 1]) */
} choices;
#define NO_DIGIT UINT16_MAX

/* The texts as one kernel size sees them. */
typedef struct cut {
    size_t n_spans;
    top_span *span;  /* (n_spans) */
    uint32_t *at;    /* (n_spans + 1) its first entry; no entries: computed as it is */
    uint32_t *entry; /* (n, n_spans) */
} cut;

typedef struct group {
    size_t first, n; /* texts */
    choices words;
    cut by[CNN_MAX_KERNELS]; /* no spans: the texts share too little */
} group;

/* The words `column` (n) of position t get their digits, by a sample of them. For all words, count is
 * 0 and digit is NO_DIGIT, and stays so. */
static void choose(choices *c, size_t t, const uint32_t *column, uint32_t *count, uint16_t *digit)
{
    uint32_t *const word = c->word + c->at[t];
    uint16_t *const to = c->digit + t * c->n;
    size_t n = 0, kept = 0, texts = 0; /* that have a word that is kept */
    for (size_t i = 0; i < c->n; i += SAMPLE)
        if (count[column[i]]++ == 0)
            word[n++] = column[i];
    for (size_t k = 0; k < n; k++) {
        const uint32_t w = word[k];
        if (count[w] * RARE * SAMPLE >= c->n) {
            texts += count[w];
            word[kept++] = w;
        }
        count[w] = 0;
    }
    if (texts * SAMPLE * 2 < c->n) /* most have a rare one */
        kept = 0;
    for (size_t k = 0; k < kept; k++)
        digit[word[k]] = (uint16_t)k;
    for (size_t i = 0; i < c->n; i++)
        to[i] = digit[column[i]];
    for (size_t k = 0; k < kept; k++)
        digit[word[k]] = NO_DIGIT;
    c->at[t + 1] = c->at[t] + (uint32_t)kept;
}

/* Texts row (n, len), whose words are below n_words. */
static stet_status choices_make(const uint32_t *row, size_t n, size_t len, size_t n_words,
                                arena *mem, choices *c)
{
    *c = (choices){.n = n, .len = len};
    c->digit = arena_new(mem, uint16_t, n * len);
    c->at = arena_new(mem, uint32_t, len + 1);
    /* so many a position are kept at most, and at the last one there is room for all that are met */
    c->word = arena_new(mem, uint32_t, len * RARE + n_words);
    uint32_t *count = arena_znew(mem, uint32_t, n_words),
             *column = arena_new(mem, uint32_t, COLUMNS * n);
    uint16_t *digit = arena_new(mem, uint16_t, n_words);
    if (!c->digit || !c->at || !c->word || !count || !column || !digit)
        return STET_ENOMEM;
    memset(digit, 0xff, n_words * sizeof *digit); /* NO_DIGIT */
    c->at[0] = 0;
    for (size_t t = 0; t < len; t += COLUMNS) {
        const size_t some = len - t < COLUMNS ? len - t : COLUMNS;
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < some; j++)
                column[j * n + i] = row[i * len + t + j];
        for (size_t j = 0; j < some; j++)
            choose(c, t + j, column + j * n, count, digit);
    }
    return STET_OK;
}

static size_t words_at(const choices *c, size_t t)
{
    return c->at[t + 1] - c->at[t];
}

/* Spans for windows of k words. */
static void cut_text(const choices *c, size_t k, cut *out)
{
    const size_t windows = c->len - k + 1;
    size_t n = 0, entries = 0;
    for (size_t t = 0, end; t < windows; t = end) {
        size_t all = 1; /* combinations */
        for (size_t l = 0; l < k && all <= c->n; l++)
            all *= words_at(c, t + l);
        end = t + 1;
        if (all * WORTH > c->n)
            all = 0;
        if (!all && n && out->at[n - 1] == entries) { /* those before have no entries either */
            out->span[n - 1].words++;
            continue;
        }
        for (size_t more; all && end < windows; end++, all = more) {
            more = all * words_at(c, end + k - 1);
            if (more == 0 || more * WORTH_SPAN > c->n)
                break;
        }
        out->span[n] = (top_span){(uint32_t)t, (uint32_t)(end - t + k - 1)};
        out->at[n++] = (uint32_t)entries;
        entries += all;
    }
    out->at[n] = (uint32_t)entries;
    out->n_spans = n;
}

/* Entries of texts i .. i + n of one span, n <= TILE: the digits of its words as one number. */
SIMD_CLONES
static void number_entries(const choices *c, const cut *by, size_t s, size_t i, size_t n,
                           uint32_t *RESTRICT entry)
{
    const top_span *span = &by->span[s];
    for (size_t x = 0; x < n; x++)
        entry[x] = by->at[s] < by->at[s + 1] ? 0 : NO_ENTRY;
    for (size_t t = span->first; t < (size_t)span->first + span->words; t++) {
        const uint16_t *RESTRICT digit = c->digit + t * c->n + i;
        const uint32_t base = (uint32_t)words_at(c, t);
        for (size_t x = 0; x < n; x++)
            entry[x] = digit[x] == NO_DIGIT || entry[x] == NO_ENTRY ? NO_ENTRY
                                                                    : entry[x] * base + digit[x];
    }
    for (size_t x = 0; x < n; x++)
        entry[x] = entry[x] == NO_ENTRY ? NO_ENTRY : entry[x] + by->at[s];
}

static stet_status cut_make(const choices *c, size_t k, arena *mem, cut *out)
{
    uint32_t entry[TILE];
    out->span = arena_new(mem, top_span, c->len);
    out->at = arena_new(mem, uint32_t, c->len + 1);
    if (!out->span || !out->at)
        return STET_ENOMEM;
    cut_text(c, k, out);
    out->entry = arena_new(mem, uint32_t, c->n * out->n_spans);
    if (!out->entry)
        return STET_ENOMEM;
    for (size_t i = 0; i < c->n; i += TILE) {
        const size_t n = c->n - i < TILE ? c->n - i : TILE;
        for (size_t s = 0; s < out->n_spans; s++) {
            number_entries(c, out, s, i, n, entry);
            for (size_t x = 0; x < n; x++)
                out->entry[(i + x) * out->n_spans + s] = entry[x];
        }
    }
    return STET_OK;
}

/* ---- all texts ------------------------------------------------------------------------------ */

typedef struct texts_job {
    const model *m;
    const cnn_compiled *c;
    size_t n, n_words;
    const uint32_t *word;  /* (n_words) that occur, each once */
    const uint32_t *row;   /* the texts, or the slots of mixtures, as numbers of these */
    const uint64_t *start; /* (n + 1) of the texts */
    group *groups;         /* texts of one length that follow each other */
    size_t n_groups;
    const mixed_texts *mixed; /* or, in place of both, texts of mixtures: n are all copies */
    const real *weight;
    real *pooled; /* (n, kernels F): features */
    float *logits;
    atomic_bool failed; /* out of memory */
} texts_job;

static size_t length(const texts_job *j, size_t i)
{
    return (size_t)(j->start[i + 1] - j->start[i]);
}

/* Words get numbers by the order in which they come. */
typedef struct numbering {
    uint32_t *number; /* (vocabulary) + 1; 0: not met */
    uint32_t *word;
} numbering;

static stet_status numbering_begin(texts_job *j, size_t rows, arena *mem, numbering *out)
{
    const size_t words = j->m->n_words;
    out->number = arena_znew(mem, uint32_t, words);
    j->word = out->word = arena_new(mem, uint32_t, rows < words ? rows : words);
    return out->number && out->word ? STET_OK : STET_ENOMEM;
}

static void number_rows(texts_job *j, const numbering *x, const uint32_t *ids, size_t n,
                        uint32_t *row)
{
    for (size_t t = 0; t < n; t++) {
        uint32_t *const at = &x->number[ids[t]];
        if (!*at) {
            x->word[j->n_words++] = ids[t];
            *at = (uint32_t)j->n_words;
        }
        row[t] = *at - 1;
    }
}

static stet_status number_texts(texts_job *j, const stet_corpus *c, arena *mem)
{
    size_t rows = 0;
    for (size_t i = 0, n; i < c->n_texts; i++) {
        corpus_rows(j->m, c, i, &n);
        rows += n;
    }
    uint32_t *row = arena_new(mem, uint32_t, rows);
    uint64_t *start = arena_new(mem, uint64_t, c->n_texts + 1);
    numbering x;
    if (!row || !start)
        return STET_ENOMEM;
    TRY(numbering_begin(j, rows, mem, &x));
    start[0] = 0;
    for (size_t i = 0, n; i < c->n_texts; i++) {
        const uint32_t *ids = corpus_rows(j->m, c, i, &n);
        number_rows(j, &x, ids, n, row + start[i]);
        start[i + 1] = start[i] + n;
    }
    j->row = row, j->start = start;
    return STET_OK;
}

static stet_status number_slots(texts_job *j, arena *mem)
{
    const mixed_texts *t = j->mixed;
    const size_t slots = t->slot_at[t->start[t->n]];
    uint32_t *row = arena_new(mem, uint32_t, slots);
    numbering x;
    if (!row)
        return STET_ENOMEM;
    TRY(numbering_begin(j, slots, mem, &x));
    number_rows(j, &x, t->slot, slots, row);
    j->row = row;
    return STET_OK;
}

static stet_status group_texts(texts_job *j, arena *mem)
{
    j->groups = arena_new(mem, group, j->n);
    if (!j->groups)
        return STET_ENOMEM;
    for (size_t i = 0; i < j->n;) {
        group *const g = &j->groups[j->n_groups++];
        *g = (group){.first = i};
        while (i < j->n && length(j, i) == length(j, g->first))
            i++;
        g->n = i - g->first;
        if (g->n < FEW)
            continue;
        TRY(choices_make(j->row + j->start[g->first], g->n, length(j, g->first), j->n_words, mem,
                         &g->words));
        for (size_t k = 0; k < j->c->n_kernels; k++)
            if (j->c->k[k] <= g->words.len)
                TRY(cut_make(&g->words, j->c->k[k], mem, &g->by[k]));
    }
    return STET_OK;
}

static size_t blocks_of(const cnn_compiled *c)
{
    return (c->filters + TOP_FILTERS - 1) / TOP_FILTERS;
}

/* Some filters of one kernel size. */
typedef struct block {
    size_t kernel, k, f, n; /* filters f .. f + n */
    real *p;                /* (n_words, k, TOP_FILTERS) */
    real *table;            /* (entries, TOP_FILTERS) */
    top_kernel *top;
    joined_kernel *joined;
    mixed_kernel *mixed;
} block;

/* Every combination of the words of every span. */
static stet_status fill_table(const choices *c, const cut *by, const block *b)
{
    uint32_t *row = mem_alloc(2 * c->len, sizeof *row), *digit = row + c->len;
    if (!row)
        return STET_ENOMEM;
    for (size_t s = 0; s < by->n_spans; s++) {
        const uint32_t *at = c->at + by->span[s].first;
        const size_t n = by->span[s].words;
        memset(digit, 0, n * sizeof *digit);
        for (size_t e = by->at[s]; e < by->at[s + 1]; e++) {
            for (size_t t = 0; t < n; t++)
                row[t] = c->word[at[t] + digit[t]];
            b->top(row, n, b->k, b->p, b->table + e * TOP_FILTERS);
            for (size_t t = n; t-- > 0 && ++digit[t] == at[t + 1] - at[t];) /* the next one */
                digit[t] = 0;
        }
    }
    mem_free(row);
    return STET_OK;
}

/* Bias and ReLU after the maximum. */
static void put_features(const texts_job *j, const block *b, size_t text, const real *top)
{
    const real *const bias = model_value(j->m, (int)(2 * b->kernel + 1)) + b->f;
    real *const y = j->pooled + (text * j->c->n_kernels + b->kernel) * j->c->filters + b->f;
    for (size_t x = 0; x < b->n; x++)
        y[x] = top[x] + bias[x] > 0 ? top[x] + bias[x] : 0;
}

static stet_status block_texts(const texts_job *j, const group *g, const block *b)
{
    const cut *by = &g->by[b->kernel];
    real top[TOP_FILTERS];
    if (by->n_spans)
        TRY(fill_table(&g->words, by, b));
    for (size_t i = 0; i < g->n; i++) {
        const uint32_t *row = j->row + j->start[g->first + i];
        if (by->n_spans)
            b->joined(row, by->span, by->n_spans, by->entry + i * by->n_spans, b->k, b->p, b->table,
                      top);
        else
            b->top(row, length(j, g->first), b->k, b->p, top);
        put_features(j, b, g->first + i, top);
    }
    return STET_OK;
}

static void block_mixtures(const texts_job *j, const block *b)
{
    const mixed_texts *t = j->mixed;
    const size_t slots = t->slot_at[t->start[t->n]];
    real top[MIXED_COPIES * TOP_FILTERS];
    for (size_t i = 0; i < t->n; i++)
        for (size_t copy = 0, n; copy < t->copies; copy += n) {
            n = t->copies - copy < MIXED_COPIES ? t->copies - copy : MIXED_COPIES;
            const mixed_words x = {(size_t)(t->start[i + 1] - t->start[i]),
                                   n,
                                   slots,
                                   t->slot_at + t->start[i],
                                   j->row,
                                   j->weight + copy * slots};
            b->mixed(&x, b->k, b->p, top);
            for (size_t c = 0; c < n; c++)
                put_features(j, b, i * t->copies + copy + c, top + c * TOP_FILTERS);
        }
}

/* A block of filters, all texts. */
static void block_piece(void *ctx, size_t piece, int worker)
{
    (void)worker;
    texts_job *j = ctx;
    const cnn_compiled *c = j->c;
    block b = {.kernel = piece / blocks_of(c),
               .f = piece % blocks_of(c) * TOP_FILTERS,
               .top = conv_top_kernel(),
               .joined = conv_joined_kernel(),
               .mixed = conv_mixed_kernel()};
    size_t entries = 0;
    b.k = c->k[b.kernel];
    b.n = c->filters - b.f < TOP_FILTERS ? c->filters - b.f : TOP_FILTERS;
    for (size_t g = 0; g < j->n_groups; g++) {
        const cut *by = &j->groups[g].by[b.kernel];
        const size_t own = by->n_spans ? by->at[by->n_spans] : 0;
        entries = own > entries ? own : entries;
    }
    b.p = mem_aligned((j->n_words * b.k + entries) * TOP_FILTERS, sizeof *b.p);
    if (!b.p) {
        atomic_store(&j->failed, true);
        return;
    }
    b.table = b.p + j->n_words * b.k * TOP_FILTERS;
    if (b.n < TOP_FILTERS)
        memset(b.p, 0, j->n_words * b.k * TOP_FILTERS * sizeof *b.p);
    for (size_t w = 0; w < j->n_words; w++)
        for (size_t l = 0; l < b.k; l++)
            memcpy(b.p + (w * b.k + l) * TOP_FILTERS,
                   c->word + j->word[w] * c->width + c->first[b.kernel] + l * c->filters + b.f,
                   b.n * sizeof *b.p);
    if (j->mixed)
        block_mixtures(j, &b);
    for (size_t g = 0; g < j->n_groups; g++)
        if (block_texts(j, &j->groups[g], &b) != STET_OK)
            atomic_store(&j->failed, true);
    mem_free_aligned(b.p);
}

enum { LAST = 64 }; /* texts that go through the last layers together */

static void last_piece(void *ctx, size_t piece, int worker)
{
    (void)worker;
    texts_job *j = ctx;
    const size_t first = piece * LAST, n = j->n - first < LAST ? j->n - first : LAST;
    if (cnn_logits(j->m, j->pooled + first * j->c->n_kernels * j->c->filters, n,
                   j->logits + first * j->m->n_classes) != STET_OK)
        atomic_store(&j->failed, true);
}

static stet_status answer(texts_job *j, const stet_corpus *c, arena *mem)
{
    j->c = j->m->compiled;
    TRY(j->mixed ? number_slots(j, mem) : number_texts(j, c, mem));
    TRY(cnn_need(j->m, j->word, 1, j->n_words));
    if (!j->mixed)
        TRY(group_texts(j, mem));
    j->pooled = arena_new(mem, real, j->n * cnn_pooled(j->m));
    if (!j->pooled)
        return STET_ENOMEM;
    pool_run(j->c->n_kernels * blocks_of(j->c), block_piece, j);
    if (!atomic_load(&j->failed))
        pool_run((j->n + LAST - 1) / LAST, last_piece, j);
    return atomic_load(&j->failed) ? STET_ENOMEM : STET_OK;
}

static stet_status answer_or_say(texts_job *j, const stet_corpus *c)
{
    arena mem = {0};
    stet_status st = answer(j, c, &mem);
    if (st == STET_ENOMEM)
        st = error_set(st, "out of memory for %zu texts", j->n);
    arena_deinit(&mem);
    return st;
}

stet_status cnn_texts(const model *m, const stet_corpus *c, float *logits)
{
    texts_job j = {.m = m, .n = c->n_texts, .logits = logits};
    return answer_or_say(&j, c);
}

stet_status cnn_mixtures(const model *m, const mixed_texts *t, const real *weight, float *logits)
{
    texts_job j = {.m = m, .n = t->n * t->copies, .mixed = t, .weight = weight, .logits = logits};
    return answer_or_say(&j, NULL);
}
