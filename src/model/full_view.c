/* model/full_view.c - views for models without incremental evaluation, or with a rule: edited texts
 * are written out and go through the forward pass in packed batches. Right for every model, and all
 * that a new one needs. */
#include <string.h>

#include "base/mem.h"
#include "model/answers.h"
#include "model/rule.h"

enum { TEXTS_AT_ONCE = 1024 }; /* written out before they are evaluated */

typedef struct full_view {
    stet_view v;
    const uint32_t *row;  /* (row_at[n]) of the opened text */
    const size_t *row_at; /* (n + 1) */
} full_view;

stet_view *full_view_new(void)
{
    full_view *v = mem_zalloc(1, sizeof *v);
    return v ? &v->v : NULL;
}

/* Rows of one word; `ids` hold rows already where a word is one (see stet_view). */
static size_t rows_of(const stet_view *p, uint32_t word, uint32_t *out)
{
    if (p->m->reader.most_rows > 1)
        return words_rows(p->words, &word, 1, out);
    out[0] = word;
    return 1;
}

stet_status full_view_open(stet_view *p)
{
    full_view *v = (full_view *)p;
    uint32_t *row = arena_new(&p->mem, uint32_t, p->n * p->m->reader.most_rows + 1);
    size_t *row_at = arena_new(&p->mem, size_t, p->n + 1);
    if (!row || !row_at)
        return STET_ENOMEM;
    row_at[0] = 0;
    for (size_t i = 0; i < p->n; i++)
        row_at[i + 1] = row_at[i] + rows_of(p, p->ids[i], row + row_at[i]);
    v->row = row;
    v->row_at = row_at;
    return model_logits_of(answers_model(p->on, p->m), row, row_at[p->n], p->logits);
}

/* The rows of the text with edits e[0..n); their number. */
static size_t write_out(const full_view *v, const stet_edit *e, size_t n, uint32_t *out)
{
    size_t made = 0, from = 0;
    for (size_t k = 0; k <= n; k++) {
        const size_t to = k < n ? e[k].pos : v->v.n;
        const size_t same = v->row_at[to] - v->row_at[from];
        memcpy(out + made, v->row + v->row_at[from], same * sizeof *out);
        made += same;
        if (k < n)
            made += rows_of(&v->v, e[k].word, out + made);
        from = to + 1;
    }
    return made;
}

static stet_status answer(const stet_view *v, const stet_corpus *c, float *logits)
{
    const model *m = answers_model(v->on, v->m);
    return m->rule ? rule_logits_all(m, c, logits) : model_network_logits(m, c, logits);
}

static stet_status some_edits(full_view *v, const stet_edit *edits, const size_t *start, size_t n,
                              float *logits)
{
    const model *m = v->v.m;
    arena *a = &v->v.mem;
    const size_t room = n * v->row_at[v->v.n] + (start[n] - start[0]) * m->reader.most_rows;
    uint32_t *rows = arena_new(a, uint32_t, room + 1);
    uint64_t *at = arena_new(a, uint64_t, n + 1);
    int32_t *label = arena_znew(a, int32_t, n);
    if (!rows || !at || !label)
        return STET_ENOMEM;
    at[0] = 0;
    for (size_t i = 0; i < n; i++)
        at[i + 1] = at[i] + write_out(v, edits + start[i], start[i + 1] - start[i], rows + at[i]);
    const stet_corpus c = {.n_texts = n,
                           .n_tokens = at[n],
                           .n_classes = m->n_classes,
                           .ids = rows,
                           .start = at,
                           .label = label};
    return answer(&v->v, &c, logits);
}

stet_status full_view_edits(stet_view *p, const stet_edit *edits, const size_t *start, size_t n,
                            float *logits)
{
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < n; i += TEXTS_AT_ONCE) {
        const size_t some = n - i < TEXTS_AT_ONCE ? n - i : TEXTS_AT_ONCE;
        const arena_mark mark = arena_save(&p->mem);
        st = some_edits((full_view *)p, edits, start + i, some, logits + i * p->m->n_classes);
        arena_restore(&p->mem, mark);
    }
    return st;
}
