/* model/model.c - a model's memory: options, parameters, class names; its forward pass. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "model/model_impl.h"
#include "tensor/kernels.h"

/* ---- parameters --------------------------------------------------------------------------- */

stet_status model_param(model *m, const char *name, shape s, param_kind kind)
{
    if (m->n_params == MAX_PARAMS)
        return error_set(STET_ENOTSUP, "a model of more than %d parameter tensors", MAX_PARAMS);
    param *p = &m->params[m->n_params++];
    snprintf(p->name, sizeof p->name, "%s", name);
    p->shape = s;
    p->kind = kind;
    p->first = m->n_values;
    m->n_values += shape_count(s);
    return STET_OK;
}

int model_param_id(const model *m, const char *name)
{
    for (size_t i = 0; i < m->n_params; i++)
        if (strcmp(m->params[i].name, name) == 0)
            return (int)i;
    return -1;
}

real *model_value(const model *m, int id)
{
    return m->value + m->params[id].first;
}

void init_uniform(const model *m, int id, double bound, rng *r)
{
    real *v = model_value(m, id);
    for (size_t i = 0; i < shape_count(m->params[id].shape); i++)
        v[i] = (real)rng_range(r, -bound, bound);
}

void init_constant(const model *m, int id, double c)
{
    real *v = model_value(m, id);
    for (size_t i = 0; i < shape_count(m->params[id].shape); i++)
        v[i] = (real)c;
}

/* ---- making and freeing ------------------------------------------------------------------- */

static stet_status apply_settings(model *m, const char *const *settings)
{
    TRY(stet_opt_defaults(m->desc->opts, m->cfg));
    for (; settings && *settings; settings++) {
        const char *eq = strchr(*settings, '=');
        if (!eq)
            return error_set(STET_EUSAGE, "model setting '%s': expected name=value", *settings);
        char *name = arena_strndup(&m->strings, *settings, (size_t)(eq - *settings));
        char *value = arena_strndup(&m->strings, eq + 1, strlen(eq + 1));
        if (!name || !value)
            return STET_ENOMEM;
        TRY(stet_opt_set(m->desc->opts, m->cfg, name, value));
    }
    return STET_OK;
}

static stet_status lay_out(model *m)
{
    TRY(m->desc->layout(m));
    TRY(model_param(m, "fc.weight", shape2(m->n_classes, m->desc->n_features(m)), PARAM_PLAIN));
    return model_param(m, "fc.bias", shape1(m->n_classes), PARAM_PLAIN);
}

stet_status model_zeros(model *m)
{
    m->value = mem_aligned(m->n_values, sizeof *m->value);
    if (!m->value)
        return STET_ENOMEM;
    memset(m->value, 0, m->n_values * sizeof *m->value);
    return STET_OK;
}

stet_status model_alloc(const model_desc *desc, const char *const *settings, size_t dim,
                        size_t n_classes, model **out)
{
    *out = NULL;
    if (n_classes < 2)
        return error_set(STET_EUSAGE, "a classifier needs at least two classes, not %zu",
                         n_classes);
    TRY(gemm_prepare());
    model *m = mem_zalloc(1, sizeof *m);
    if (!m)
        return STET_ENOMEM;
    m->desc = desc;
    m->dim = dim;
    m->n_classes = n_classes;
    m->cfg = mem_zalloc(1, desc->cfg_size);
    stet_status st = m->cfg ? apply_settings(m, settings) : STET_ENOMEM;
    if (st == STET_OK)
        st = lay_out(m);
    if (st == STET_OK)
        *out = m;
    else
        stet_model_free(m);
    return st;
}

stet_status model_class_names(model *m, const char *const *names)
{
    m->class_names = mem_zalloc(m->n_classes, sizeof *m->class_names);
    if (!m->class_names)
        return STET_ENOMEM;
    for (size_t c = 0; c < m->n_classes; c++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", c);
        m->class_names[c] = mem_strdup(names ? names[c] : number);
        if (!m->class_names[c])
            return STET_ENOMEM;
    }
    return STET_OK;
}

void stet_model_free(stet_model *m)
{
    if (!m)
        return;
    if (m->compiled)
        m->desc->compiled_free(m->compiled);
    for (size_t c = 0; m->class_names && c < m->n_classes; c++)
        mem_free(m->class_names[c]);
    mem_free(m->class_names);
    stet_vocab_free(m->vocab);
    mem_free(m->folder);
    mem_free_aligned(m->table);
    mem_free_aligned(m->value);
    json_decref(m->extra);
    mem_free(m->cfg);
    arena_deinit(&m->strings);
    mem_free(m);
}

static stet_status copy_vocab(const stet_vocab *v, stet_vocab **out)
{
    const size_t n = stet_vocab_size(v) - STET_FIRST_WORD;
    const char **words = mem_alloc(n + 1, sizeof *words);
    if (!words)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++)
        words[i] = stet_vocab_word(v, (uint32_t)i + STET_FIRST_WORD);
    const stet_status st = stet_vocab_from_words(words, n, out);
    mem_free(words);
    return st;
}

static stet_status fill_new(model *m, const stet_model_new_args *a)
{
    m->tokenizer = a->tokenizer;
    m->max_len = a->max_len;
    m->n_words = a->vectors->n;
    TRY(model_class_names(m, a->class_names));
    TRY(copy_vocab(a->vocab, &m->vocab));
    m->table = mem_aligned(m->n_words * m->dim, sizeof *m->table);
    if (!m->table)
        return STET_ENOMEM;
    memcpy(m->table, a->vectors->data, m->n_words * m->dim * sizeof *m->table);
    TRY(model_zeros(m));

    rng r = rng_stream(a->seed, STREAM_INIT, 0);
    TRY(m->desc->init(m, &r));
    const int fc = model_param_id(m, "fc.weight");
    const double bound = 1 / sqrt((double)m->desc->n_features(m));
    init_uniform(m, fc, bound, &r);
    init_uniform(m, fc + 1, bound, &r);
    return STET_OK;
}

stet_status stet_model_new(const stet_model_new_args *a, stet_model **out)
{
    *out = NULL;
    const model_desc *desc = model_find(a->name);
    if (!desc)
        return STET_EUSAGE;
    if (a->vectors->n != stet_vocab_size(a->vocab))
        return error_set(STET_EUSAGE, "%zu vectors for a vocabulary of %zu words", a->vectors->n,
                         stet_vocab_size(a->vocab));
    if (a->max_len == 0)
        return error_set(STET_EUSAGE, "max_len must be at least 1");
    model *m;
    TRY(model_alloc(desc, a->settings, a->vectors->dim, a->n_classes, &m));
    const stet_status st = fill_new(m, a);
    if (st == STET_OK)
        *out = m;
    else
        stet_model_free(m);
    return st;
}

/* ---- forward ------------------------------------------------------------------------------ */

stet_status model_nodes(const model *m, tape *t, real *grad, node **out)
{
    for (size_t i = 0; i < m->n_params; i++) {
        const param *p = &m->params[i];
        out[i] = tape_input(t, p->shape, m->value + p->first, grad ? grad + p->first : NULL);
    }
    return tape_status(t);
}

node *model_forward(const model *m, pass *p)
{
    node *x = m->desc->features(m, p);
    if (p->dropout > 0)
        x = op_dropout(p->t, x, p->dropout, p->stream);
    return op_linear(p->t, x, p->param[m->n_params - 2], p->param[m->n_params - 1]);
}

stet_status model_project_words(const model *m, const real *w, bool transposed, size_t n, real *out,
                                size_t ld)
{
    enum { ROWS = 4096 }; /* of the table, which is float whatever `real` is, at a time */
    real *rows = mem_aligned(ROWS * m->dim, sizeof *rows);
    if (!rows)
        return STET_ENOMEM;
    for (size_t r = 0; r < m->n_words; r += ROWS) {
        const size_t some = m->n_words - r < ROWS ? m->n_words - r : ROWS;
        for (size_t i = 0; i < some * m->dim; i++)
            rows[i] = m->table[r * m->dim + i];
        gemm(false, transposed, some, n, m->dim, 1, rows, m->dim, w, transposed ? m->dim : n, 0,
             out + r * ld, ld);
    }
    mem_free_aligned(rows);
    return STET_OK;
}

/* ---- what a model says of itself ---------------------------------------------------------- */

const char *stet_model_kind(const stet_model *m)
{
    return m->desc->name;
}

size_t stet_model_classes(const stet_model *m)
{
    return m->n_classes;
}

const char *stet_model_class_name(const stet_model *m, size_t c)
{
    return m->class_names[c];
}

const stet_vocab *stet_model_vocab(const stet_model *m)
{
    return m->vocab;
}

stet_tokenizer stet_model_tokenizer(const stet_model *m)
{
    return m->tokenizer;
}

size_t stet_model_max_len(const stet_model *m)
{
    return m->max_len;
}

size_t stet_model_parameters(const stet_model *m)
{
    return m->n_values;
}
