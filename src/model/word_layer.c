/* model/word_layer.c - see word_layer.h. */
#include "model/word_layer.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

enum { WEIGHT, BIAS }; /* from m->word_layer on */

stet_status word_layer_add(model *m, const stet_vectors *vectors, rng *r)
{
    m->raw_dim = vectors->dim;
    m->raw = mem_aligned(m->n_words * m->raw_dim, sizeof *m->raw);
    if (!m->raw)
        return STET_ENOMEM;
    for (size_t i = 0; i < m->n_words * m->raw_dim; i++)
        m->raw[i] = vectors->data[i];
    const size_t first = m->n_params + m->n_added;
    TRY(model_add_param(m, "word_layer.weight", shape2(m->dim, m->raw_dim), PARAM_PLAIN));
    TRY(model_add_param(m, "word_layer.bias", shape1(m->dim), PARAM_PLAIN));
    m->word_layer = (int)first;
    for (size_t i = first; i < first + 2; i++) {
        m->params[i].aside = true;
        init_uniform(m, (int)i, 1 / sqrt((double)m->raw_dim), r);
    }
    return word_layer_fold(m);
}

node *word_layer_rows(const pass *p, node *vectors)
{
    node *const *w = p->word_layer;
    return w ? op_relu(p->t, op_linear(p->t, vectors, w[WEIGHT], w[BIAS])) : vectors;
}

/* Words first .. first + n. */
static stet_status fold(model *m, size_t first, size_t n, arena *mem)
{
    tape t;
    pass p = {.t = &t};
    tape_init(&t, mem, NULL, false);
    TRY(pass_params(&p, m, NULL, NULL));
    const node *u = word_layer_rows(
        &p, tape_constant(&t, shape2(n, m->raw_dim), m->raw + first * m->raw_dim));
    TRY(tape_status(&t));
    return tape_download(&t, u, m->table + first * m->dim);
}

stet_status word_layer_fold(model *m)
{
    enum { ROWS = 4096 }; /* at a time */
    arena mem = {0};
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && m->raw && i < m->n_words; i += ROWS) {
        st = fold(m, i, m->n_words - i < ROWS ? m->n_words - i : ROWS, &mem);
        arena_restore(&mem, (arena_mark){0});
    }
    arena_deinit(&mem);
    return st;
}
