/* model/model.c - a model's memory: options, parameters, class names; its forward pass. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/args.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/option_impl.h"
#include "model/feature_cache.h"
#include "model/rule.h"
#include "model/word_layer.h"
#include "model/word_scores.h"
#include "tensor/kernels.h"

/* ---- parameters --------------------------------------------------------------------------- */

static stet_status lay_param(model *m, const char *name, shape s, param_kind kind)
{
    const size_t n = m->n_params + m->n_added;
    TRY(mem_grow(&m->params, &m->cap_params, n + 1, sizeof *m->params));
    param *p = &m->params[n];
    *p = (param){0};
    snprintf(p->name, sizeof p->name, "%s", name);
    p->shape = s;
    p->kind = kind;
    p->first = m->n_values;
    m->n_values += shape_count(s);
    return STET_OK;
}

stet_status model_param(model *m, const char *name, shape s, param_kind kind)
{
    TRY(lay_param(m, name, s, kind));
    m->n_params++;
    return STET_OK;
}

stet_status model_add_param(model *m, const char *name, shape s, param_kind kind)
{
    const size_t before = m->n_values;
    TRY(lay_param(m, name, s, kind));
    m->n_added++;
    real *old = m->value;
    if (!old)
        return STET_OK;
    const stet_status st = model_zeros(m);
    if (st == STET_OK)
        memcpy(m->value, old, before * sizeof *old);
    mem_free_aligned(old);
    return st;
}

/* Where the last layer's weights and bias are called what. */
static const char *last_layer(const model *m, const char *part, char out[64])
{
    snprintf(out, 64, "%s.%s", m->desc->last_layer ? m->desc->last_layer : "fc", part);
    return out;
}

int model_param_id(const model *m, const char *name)
{
    for (size_t i = 0; i < m->n_params + m->n_added; i++)
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
    const opt_table table = {m->desc->opts, m->cfg};
    char owner[64];
    snprintf(owner, sizeof owner, "model '%s'", m->desc->name);
    TRY(stet_opt_defaults(m->desc->opts, m->cfg));
    for (; settings && *settings; settings++) {
        const char *kept = arena_strndup(&m->strings, *settings, strlen(*settings));
        if (!kept)
            return STET_ENOMEM;
        TRY(opt_settings(&table, 1, (const char *const[]){kept, NULL}, owner));
    }
    return STET_OK;
}

static stet_status lay_out(model *m)
{
    TRY(m->desc->layout(m));
    const size_t features = m->desc->n_features(m);
    char name[64];
    m->table_param = m->desc->learns_table ? 0 : -1;
    if (features)
        TRY(model_param(m, last_layer(m, "weight", name), shape2(m->n_classes, features),
                        PARAM_PLAIN));
    return model_param(m, last_layer(m, "bias", name), shape1(m->n_classes),
                       m->desc->last_layer ? PARAM_BARE : PARAM_PLAIN);
}

stet_status model_zeros(model *m)
{
    m->value = mem_aligned(m->n_values, sizeof *m->value);
    if (!m->value)
        return STET_ENOMEM;
    memset(m->value, 0, m->n_values * sizeof *m->value);
    if (m->table_param >= 0)
        m->table = model_value(m, m->table_param);
    if (m->head)
        m->head->value = model_value(m, (int)m->head_first);
    return STET_OK;
}

stet_status model_table(model *m)
{
    if (m->table_param >= 0)
        return STET_OK;
    m->table = mem_aligned(m->n_words * m->dim, sizeof *m->table);
    return m->table ? STET_OK : STET_ENOMEM;
}

stet_status model_alloc(const model_desc *desc, const char *const *settings,
                        const reader_source *from, size_t dim, size_t n_classes, model **out)
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
    m->scores = m->score_net = m->table_param = m->word_layer = -1;
    m->dim = dim;
    m->n_classes = n_classes;
    m->cfg = mem_zalloc(1, desc->cfg_size);
    m->reader.most_rows = 1;
    stet_status st = m->cfg ? model_kept_init(m) : STET_ENOMEM;
    if (st == STET_OK)
        st = apply_settings(m, settings);
    if (st == STET_OK && desc->reader)
        st = desc->reader(m, from);
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
    model_kept_deinit(m); /* may be about what the rule knows */
    rule_free(m->rule);
    if (m->head)
        m->head->value = NULL; /* ours */
    stet_model_free(m->head);
    feature_cache_close(m->cache);
    for (size_t c = 0; m->class_names && c < m->n_classes; c++)
        mem_free(m->class_names[c]);
    mem_free(m->class_names);
    stet_vocab_free(m->vocab);
    mem_free(m->folder);
    if (m->desc->reader_free)
        m->desc->reader_free(m->own);
    if (m->table_param < 0)
        mem_free_aligned(m->table);
    mem_free_aligned(m->raw);
    mem_free_aligned(m->value);
    mem_free(m->params);
    json_decref(m->extra);
    mem_free(m->cfg);
    arena_deinit(&m->strings);
    mem_free(m);
}

void model_read_by(model *m, stet_vocab *vocab, stet_tokenizer tokenizer, size_t max_len)
{
    m->vocab = vocab;
    m->reader.vocab = vocab;
    m->reader.tokenizer = tokenizer;
    if (m->reader.framed) { /* max_len counts rows, the two around a text among them */
        const size_t most = m->reader.max_rows + 2;
        m->max_len = max_len < 3 ? 3 : max_len < most ? max_len : most;
        m->reader.max_rows = m->reader.max_len = m->max_len - 2;
    } else {
        m->max_len = m->reader.max_len = max_len;
    }
}

/* Without words where none are given. */
static stet_status copy_vocab(const stet_vocab *v, stet_vocab **out)
{
    const size_t n = v ? stet_vocab_size(v) - STET_FIRST_WORD : 0;
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
    TRY(model_class_names(m, a->class_names));
    stet_vocab *vocab;
    TRY(copy_vocab(m->desc->reader ? NULL : a->vocab, &vocab));
    model_read_by(m, vocab, a->tokenizer, a->max_len);
    if (!m->desc->reader)
        m->n_words = a->vectors->n;
    TRY(model_table(m));
    for (size_t i = 0; !m->desc->reader && !a->word_layer && i < m->n_words * m->dim; i++)
        m->table[i] = a->vectors->data[i];
    TRY(model_zeros(m));

    rng r = rng_stream(a->seed, STREAM_INIT, 0);
    if (a->init)
        return m->desc->foreign->load(m, a->init, &r);
    if (m->desc->table)
        m->desc->table(m, &r);
    TRY(m->desc->init(m, &r));
    const int fc = model_param_id(m, "fc.weight");
    if (fc >= 0) {
        const double bound = 1 / sqrt((double)m->desc->n_features(m));
        init_uniform(m, fc, bound, &r);
        init_uniform(m, fc + 1, bound, &r);
    }
    const bool scored = a->word_scores || m->desc->n_features(m) == 0;
    if (!scored && model_score_hidden(m))
        return error_set(STET_EUSAGE,
                         "--score-hidden %zu adds to word scores: give --word-scores as well",
                         model_score_hidden(m));
    if (scored)
        TRY(word_scores_add(m));
    word_scores_begin(m, &r);
    return a->word_layer ? word_layer_add(m, a->vectors, &r) : STET_OK;
}

/* Settings, and with --init those that the folder has. */
static stet_status alloc_new(const model_desc *desc, const stet_model_new_args *a, model **out)
{
    const reader_source from = {a->init, a->texts};
    const size_t dim = desc->reader ? 0 : a->word_layer ? a->word_layer : a->vectors->dim;
    if (desc->reader && a->word_layer)
        return error_set(STET_EUSAGE,
                         "--word-layer: a model of kind '%s' does not read one vector per word",
                         desc->name);
    if (!a->init)
        return model_alloc(desc, a->settings, &from, dim, a->n_classes, out);
    if (!desc->foreign)
        return error_set(STET_EUSAGE,
                         "--init: a model of kind '%s' starts from word vectors, not from a folder",
                         desc->name);
    return model_alloc_foreign(desc, a->init, a->settings, a->n_classes, out);
}

void stet_model_new_args_init(stet_model_new_args *a, size_t size)
{
    const stet_model_new_args defaults = {0};
    args_init(a, size, &defaults, sizeof defaults);
}

stet_status stet_model_new(const stet_model_new_args *given, stet_model **out)
{
    stet_model_new_args own = {0}, *a = &own;
    *out = NULL;
    TRY(ARGS_TAKE(a, given));
    const model_desc *desc = model_find(a->name);
    if (!desc)
        return STET_EUSAGE;
    if (!desc->reader && (!a->vectors || !a->vocab))
        return error_set(STET_EUSAGE, "a model of kind '%s' needs a vocabulary and word vectors",
                         desc->name);
    if (!desc->reader && a->vectors->n != stet_vocab_size(a->vocab))
        return error_set(STET_EUSAGE, "%zu vectors for a vocabulary of %zu words", a->vectors->n,
                         stet_vocab_size(a->vocab));
    if (a->max_len == 0)
        return error_set(STET_EUSAGE, "max_len must be at least 1");
    model *m;
    TRY(alloc_new(desc, a, &m));
    const stet_status st = fill_new(m, a);
    if (st == STET_OK)
        *out = m;
    else
        stet_model_free(m);
    return st;
}

/* ---- forward ------------------------------------------------------------------------------ */

stet_status weights_init(model_weights *w, const model *m, store *s)
{
    *w = (model_weights){.store = s, .value = m->value, .table = model_vectors(m)};
    if (s->desc->host)
        return STET_OK;
    const size_t values = m->n_values * sizeof *w->value,
                 table = m->n_words * model_vector_dim(m) * sizeof *w->table;
    const bool frozen = m->table_param < 0;
    w->value = store_alloc(s, values, 1);
    w->table = frozen ? store_alloc(s, table, 1) : NULL;
    if (!w->value || (frozen && !w->table)) {
        weights_deinit(w);
        return STET_ENOMEM;
    }
    store_upload(s, w->value, m->value, values);
    if (frozen)
        store_upload(s, w->table, model_vectors(m), table);
    return STET_OK;
}

void weights_deinit(model_weights *w)
{
    if (w->store && !w->store->desc->host) {
        store_release(w->store, w->value);
        store_release(w->store, w->table);
    }
    *w = (model_weights){0};
}

stet_status weights_fetch(const model_weights *w, model *m)
{
    if (!w->store->desc->host) {
        TRY(store_download(w->store, m->value, w->value, m->n_values * sizeof *m->value));
        if (w->learn)
            TRY(store_download(w->store, model_vectors(m), w->table,
                               m->n_words * model_vector_dim(m) * sizeof *m->table));
    }
    return word_layer_fold(m);
}

static void derive(const model *m, tape *t, node **nodes)
{
    const model *reads = model_reading(m);
    if (reads->desc->derive)
        reads->desc->derive(reads, t, nodes + (m->head ? m->head_first : 0));
}

static stet_status param_nodes(const model *m, tape *t, real *value, real *grad, node ***out)
{
    const size_t n = m->n_params + m->n_added;
    *out = arena_new(t->mem, node *, n);
    if (!*out)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const param *p = &m->params[i];
        (*out)[i] =
            tape_input(t, p->shape, value + p->first, grad && !p->frozen ? grad + p->first : NULL);
    }
    if (grad)
        derive(m, t, *out);
    return tape_status(t);
}

stet_status weights_derive(const model_weights *w, const model *m, arena *mem, store_arena *values)
{
    if (!model_reading(m)->desc->derive)
        return STET_OK;
    real *value = w ? w->value : m->value;
    const size_t n = m->n_params + m->n_added;
    tape t;
    node **nodes;
    tape_init(&t, mem, values, false);
    TRY(param_nodes(m, &t, value, NULL, &nodes));
    derive(m, &t, nodes);
    TRY(tape_status(&t));
    for (size_t i = 0; i < n; i++)
        if (nodes[i]->op)
            store_copy(t.store, value + m->params[i].first, nodes[i]->value,
                       shape_count(nodes[i]->shape) * sizeof *value);
    return STET_OK;
}

stet_status model_nodes(const model *m, tape *t, real *grad, node ***out)
{
    return param_nodes(m, t, m->value, grad, out);
}

stet_status pass_params(pass *p, const model *m, const model_weights *w, real *grad)
{
    const model_weights own = {
        .store = &host_store, .value = m->value, .table = model_vectors(m)};
    if (!w)
        w = &own;
    TRY(param_nodes(m, p->t, w->value, grad, &p->param));
    p->table = m->table_param >= 0
                   ? p->param[m->table_param]
                   : tape_constant(p->t, shape2(m->n_words, model_vector_dim(m)), w->table);
    p->word_layer = m->raw ? p->param + m->word_layer : NULL;
    p->learn = grad ? w->learn : NULL;
    p->all_scores = !grad && w->scores
                        ? tape_constant(p->t, shape2(m->n_words, m->n_classes), w->scores)
                        : NULL;
    return tape_status(p->t);
}

node *pass_vectors(const pass *p, const uint32_t *word, size_t n)
{
    node *rows = op_gather(p->t, p->table, word, n);
    if (!p->learn || !rows)
        return rows;
    if (p->learn->n == MAX_ROW_PARTS) {
        tape_fail(p->t, error_set(STET_EINTERNAL, "a step reads more than %d parts of the table",
                                  MAX_ROW_PARTS));
        return NULL;
    }
    rows = tape_learner(p->t, rows->shape, rows->value);
    if (!rows)
        return NULL;
    const bool there = tape_is_name(p->t, word);
    p->learn->part[p->learn->n++] =
        (row_part){.row = word,
                   .n = n,
                   .grad = rows->grad,
                   .at = there ? tape_twin(p->t, word, n * sizeof *word) : NULL};
    return rows;
}

node *pass_rows(const pass *p, const uint32_t *word, size_t n)
{
    return word_layer_rows(p, pass_vectors(p, word, n));
}

node *pass_text_rows(const pass *p)
{
    return p->rows ? p->rows : pass_rows(p, p->word, p->seq->n_rows);
}

stet_status pass_init(pass *p, const model *m, tape *t, const model_weights *w, real *grad,
                      const batch *x)
{
    *p = (pass){.t = t, .seq = &x->seq, .word = x->word};
    if (x->twin)
        tape_twin_is(t, x->block, x->block_bytes, x->known, x->twin);
    else
        tape_twin(t, x->block, x->block_bytes);
    TRY(pass_params(p, m, w, grad));
    p->scores_alone = !m->desc->features;
    if (!p->scores_alone)
        p->rows = pass_text_rows(p);
    return tape_status(t);
}

pass pass_of_head(const model *m, const pass *p)
{
    pass own = *p;
    if (m->head) {
        own.param = p->param + m->head_first;
        own.rows = p->head_rows;
        own.seq = p->head_seq;
        own.word = NULL;
    }
    return own;
}

node *model_add_scores(const model *m, const pass *p, node *logits)
{
    if (!has_word_scores(m))
        return logits;
    node *sum = word_scores_sum(m, p);
    return logits ? op_add(p->t, logits, sum) : op_add_bias(p->t, sum, p->param[m->n_params - 1]);
}

node *model_last_layer(const model *m, const pass *p, node *features)
{
    if (p->dropout > 0)
        features = op_dropout(p->t, features, p->dropout, p->stream);
    return op_linear(p->t, features, p->param[m->n_params - 2], p->param[m->n_params - 1]);
}

node *model_forward(const model *m, pass *p)
{
    if (!m->desc->features)
        return model_add_scores(m, p, NULL);
    p->features = m->desc->features(m, p);
    return model_add_scores(m, p, model_last_layer(m, p, p->features));
}

stet_status model_project_words(const model *m, const real *w, bool transposed, size_t n, real *out,
                                size_t ld)
{
    enum { ROWS = 4096 }; /* at a time */
    for (size_t r = 0; r < m->n_words; r += ROWS) {
        const size_t some = m->n_words - r < ROWS ? m->n_words - r : ROWS;
        TRY(gemm(false, transposed, some, n, m->dim, 1, m->table + r * m->dim, m->dim, w,
                 transposed ? m->dim : n, 0, out + r * ld, ld));
    }
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
    return m->reader.tokenizer;
}

size_t stet_model_max_len(const stet_model *m)
{
    return m->max_len;
}
