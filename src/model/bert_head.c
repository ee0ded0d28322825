/* model/bert_head.c - a small model of another kind on the rows of a frozen BERT: --bert-head.
 *
 * The head is a model of its own (model.head) without vocabulary: its parameters are the last ones of
 * the whole model, its words are the rows that the encoder makes of a text's pieces, [CLS] and [SEP]
 * among them. Neither side knows the other's kind. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/bert.h"
#include "model/feature_cache.h"

/* "bilstm:hidden=128:pool=max": a kind and its settings. */
static stet_status alloc_head(model *m, const char *text, arena *mem)
{
    char *copy = arena_strndup(mem, text, strlen(text)), *rest = copy;
    const char **settings = arena_znew(mem, const char *, strlen(text) + 1);
    if (!copy || !settings)
        return STET_ENOMEM;
    const model_desc *d = model_find(strsep(&rest, ":"));
    for (size_t n = 0; rest; n++)
        settings[n] = strsep(&rest, ":");
    if (!d)
        return STET_EUSAGE;
    TRY(d->reader ? error_set(STET_EUSAGE, "a model of kind '%s' does not read vectors", d->name)
                  : model_alloc(d, settings, NULL, m->dim, m->n_classes, &m->head));
    return d->n_features(m->head)
               ? STET_OK
               : error_set(STET_EUSAGE, "a model of kind '%s' has no layers", d->name);
}

stet_status bert_head_layout(model *m)
{
    arena mem = {0};
    const char *text = bert_of(m)->head;
    stet_status st = alloc_head(m, text, &mem);
    arena_deinit(&mem);
    if (st != STET_OK)
        return error_prefix(st, "--bert-head %s", text);
    m->head->whole = m;
    m->head_first = m->n_params;
    for (size_t i = 0; i < m->n_params; i++)
        m->params[i].frozen = true;
    for (size_t i = 0; i + 2 < m->head->n_params; i++) { /* the last layer is the frame's */
        const param *p = &m->head->params[i];
        char name[80];
        snprintf(name, sizeof name, "head.%.64s", p->name);
        TRY(model_param(m, name, p->shape, p->kind));
        m->params[m->n_params - 1].frozen = p->frozen;
    }
    return STET_OK;
}

/* A layer norm's entries: |x - beta| <= |gamma| sqrt(H - 1), whatever it reads. */
void bert_row_box(const model *m, real *lo, real *hi)
{
    const int norm = bert_bare(m, (size_t)bert_of(m)->layers - 1, BERT_NORM2);
    const real *gamma = model_value(m, norm), *beta = model_value(m, norm + 1);
    for (size_t j = 0; j < m->dim; j++) {
        const double r = fabs((double)gamma[j]) * sqrt((double)m->dim - 1) * (1 + 1e-5);
        lo[j] = (real)((double)beta[j] - r);
        hi[j] = (real)((double)beta[j] + r);
    }
}

stet_status bert_keep_rows(model *m, const char *path)
{
    if (!m->head)
        return error_set(STET_EUSAGE, "--feature-cache: nothing is frozen without --bert-head");
    const bert_cfg *c = bert_of(m);
    const int64_t sizes[] = {c->layers, c->hidden, c->heads, c->inner, c->positions, c->types};
    char digest[SHA256_HEX];
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, sizes, sizeof sizes);
    sha256_add(&h, &c->eps, sizeof c->eps);
    sha256_add(&h, m->value, m->params[m->head_first].first * sizeof *m->value);
    sha256_hex(&h, digest);
    return feature_cache_open(path, digest, m->dim, &m->cache);
}

/* ---- the rows ----------------------------------------------------------------------------- */

/* Without a record, since nothing before the rows learns, unless somebody asks how words move them. */
static node *encode(const model *m, const pass *p, const seq_index *seq)
{
    pass own = *p;
    own.dropout = 0;
    own.seq = seq;
    const bool record = p->t->record;
    p->t->record = record && p->rows && p->rows->needs_grad;
    node *x = bert_rows(m, &own);
    p->t->record = record;
    return x;
}

/* Of each text by itself, so that they do not depend on the batch in which it was first met. */
static node *kept_rows(const model *m, const pass *p)
{
    const seq_index *seq = p->seq;
    const size_t H = m->dim;
    real *all = arena_new(p->t->mem, real, seq->n_tokens * H);
    uint32_t *ids = arena_new(p->t->mem, uint32_t, seq->max_len), *start;
    node *room = tape_zeros(p->t, shape2(seq->max_len, H));
    if (!all || !ids || !room) {
        tape_fail(p->t, STET_ENOMEM);
        return NULL;
    }
    for (size_t b = 0; b < seq->n_texts; b++) {
        const size_t first = seq->start[b], n = seq->start[b + 1] - first;
        bool found;
        for (size_t i = 0; i < n; i++)
            ids[i] = p->word[seq->row[first + i]];
        stet_status st = feature_cache_get(m->cache, ids, n, all + first * H, &found);
        if (st == STET_OK && !found) {
            const bool record = p->t->record;
            const tape_mark mark = tape_save(p->t);
            start = arena_znew(p->t->mem, uint32_t, 2);
            if (!start) {
                tape_fail(p->t, STET_ENOMEM);
                return NULL;
            }
            start[1] = (uint32_t)n;
            const seq_index one = {.n_texts = 1,
                                   .n_tokens = n,
                                   .n_rows = seq->n_rows,
                                   .max_len = n,
                                   .start = start,
                                   .row = seq->row + first};
            node *x = encode(m, p, &one);
            p->t->record = false;
            x = tape_carry(p->t, mark, x, room);
            p->t->record = record;
            st = tape_download(p->t, x, all + first * H);
            if (st == STET_OK)
                st = feature_cache_put(m->cache, ids, n, all + first * H);
        }
        if (st != STET_OK) {
            tape_fail(p->t, st);
            return NULL;
        }
    }
    return tape_numbers(p->t, shape2(seq->n_tokens, H), all);
}

node *bert_head_features(const model *m, pass *p)
{
    seq_index *seq = arena_new(p->t->mem, seq_index, 1);
    uint32_t *row = arena_new(p->t->mem, uint32_t, p->seq->n_tokens);
    if (!seq || !row) {
        tape_fail(p->t, STET_ENOMEM);
        return NULL;
    }
    for (size_t i = 0; i < p->seq->n_tokens; i++)
        row[i] = (uint32_t)i;
    *seq = *p->seq;
    seq->row = row;
    seq->n_rows = p->seq->n_tokens;
    const bool kept = m->cache && p->rows && !p->rows->needs_grad;
    p->head_rows = kept ? kept_rows(m, p) : encode(m, p, p->seq);
    p->head_seq = seq;
    if (!p->head_rows)
        return NULL;
    pass head = pass_of_head(m, p);
    return m->head->desc->features(m->head, &head);
}
