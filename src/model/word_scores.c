/* model/word_scores.c - see word_scores.h. */
#include "model/word_scores.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

enum { W1, B1, W2 }; /* from m->score_net on */

stet_status word_scores_lay(model *m, stet_status (*lay)(model *, const char *, shape, param_kind))
{
    const size_t H = model_score_hidden(m);
    TRY(lay(m, "word.0.weight", shape2(H, m->dim), PARAM_PLAIN));
    TRY(lay(m, "word.0.bias", shape1(H), PARAM_PLAIN));
    return lay(m, "word.1.weight", shape2(m->n_classes, H), PARAM_PLAIN);
}

void word_scores_start(const model *m, int first, rng *r)
{
    const double bound = 1 / sqrt((double)m->dim);
    init_uniform(m, first + W1, bound, r);
    init_uniform(m, first + B1, bound, r);
    init_uniform(m, first + W2, 1 / sqrt((double)model_score_hidden(m)), r);
}

void word_scores_begin(const model *m, rng *r)
{
    if (m->score_net >= (int)m->n_params)
        word_scores_start(m, m->score_net, r);
}

stet_status word_scores_add(model *m)
{
    if (m->reader.rows)
        return error_set(STET_ENOTSUP,
                         "word scores need a model that reads one vector per word, not a %s",
                         m->desc->name);
    TRY(model_add_param(m, "scores.weight", shape2(m->n_words, m->n_classes), PARAM_SCORES));
    m->scores = (int)(m->n_params + m->n_added) - 1;
    if (model_score_hidden(m) == 0)
        return STET_OK;
    if (m->desc->n_features(m) > 0) /* a kind without a network has it already */
        TRY(word_scores_lay(m, model_add_param));
    m->score_net = model_param_id(m, "word.0.weight");
    return STET_OK;
}

/* What the small network makes of rows (n, D). */
static node *from_vectors(const model *m, const pass *p, node *rows)
{
    node **w = p->param + m->score_net;
    node *x = op_relu(p->t, op_linear(p->t, rows, w[W1], w[B1]));
    return op_matmul(p->t, x, false, w[W2], true);
}

node *word_scores_rows(const model *m, const pass *p, const uint32_t *word, size_t n, node *rows)
{
    if (p->all_scores)
        return op_gather(p->t, p->all_scores, word, n);
    node *own = op_gather(p->t, p->param[m->scores], word, n);
    if (m->score_net < 0)
        return own;
    return op_add(p->t, own, from_vectors(m, p, rows ? rows : pass_rows(p, word, n)));
}

const real *word_scores_roots(tape *t, const seq_index *seq, size_t times)
{
    real *root = arena_new(t->mem, real, seq->n_texts * times);
    for (size_t i = 0; root && i < seq->n_texts * times; i++)
        root[i] = (real)sqrt((double)(seq->start[i / times + 1] - seq->start[i / times]));
    if (!root)
        tape_fail(t, STET_ENOMEM);
    return root;
}

node *word_scores_sum(const model *m, const pass *p)
{
    const seq_index *seq = p->seq;
    const real *root = word_scores_roots(p->t, seq, m->n_classes);
    node *rows = p->scores ? p->scores : word_scores_rows(m, p, p->word, seq->n_rows, p->rows);
    node *mean = op_seq_mean(p->t, op_gather(p->t, rows, seq->row, seq->n_tokens), seq);
    return op_mul(p->t, mean, tape_numbers(p->t, shape2(seq->n_texts, m->n_classes), root));
}

/* ---- fixed weights ------------------------------------------------------------------------ */

/* Those of words first .. first + n, to `out` in the store. The model's own vectors (w: NULL) are read
 * behind its word layer. */
static stet_status some_scores(const model *m, const model_weights *w, size_t first, size_t n,
                               arena *mem, store_arena *values, real *out)
{
    tape t;
    pass p = {.t = &t};
    uint32_t *word = arena_new(mem, uint32_t, n);
    if (!word)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++)
        word[i] = (uint32_t)(first + i);
    tape_init(&t, mem, values, false);
    TRY(pass_params(&p, m, w, NULL));
    node *rows = w ? NULL : tape_constant(&t, shape2(n, m->dim), m->table + first * m->dim);
    const node *y = word_scores_rows(m, &p, word, n, rows);
    TRY(tape_status(&t));
    store_copy(t.store, out, y->value, n * m->n_classes * sizeof *out);
    return STET_OK;
}

/* Those of all words; `values` (NULL: the host's memory) comes and goes with nothing but `out`. */
static stet_status make_scores(const model *m, const model_weights *w, arena *mem,
                               store_arena *values, real *out)
{
    enum { SOME = 4096 }; /* words at a time */
    const arena_mark mark = arena_save(mem);
    const store_mark held = values ? store_arena_save(values) : (store_mark){0};
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < m->n_words; i += SOME) {
        const size_t n = m->n_words - i < SOME ? m->n_words - i : SOME;
        st = some_scores(m, w, i, n, mem, values, out + i * m->n_classes);
        arena_restore(mem, mark);
        if (values)
            store_arena_restore(values, held);
    }
    return st;
}

stet_status word_scores_know(const model *m, model_weights *w, arena *mem, store_arena *values)
{
    real *scores = store_arena_alloc(values, m->n_words * m->n_classes, sizeof *scores);
    const stet_status st = scores ? make_scores(m, w, mem, values, scores) : STET_ENOMEM;
    w->scores = st == STET_OK ? scores : NULL;
    return st;
}

stet_status word_scores_compile(model *m)
{
    real *s = mem_aligned(m->n_words * m->n_classes, sizeof *s);
    arena mem = {0};
    const stet_status st = s ? make_scores(m, NULL, &mem, NULL, s) : STET_ENOMEM;
    arena_deinit(&mem);
    if (st == STET_OK)
        m->score_table = s;
    else
        mem_free_aligned(s);
    return st;
}
