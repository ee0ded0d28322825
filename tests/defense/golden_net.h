/* tests/defense/golden_net.h - the small network of tests/golden/defenses.json as a kind of model:
 * h = tanh(W1 x + b1) of each word, the mean over the words, a linear layer. A step on its batch,
 * with gradients of the weights and of the word table. */
#ifndef TESTS_DEFENSE_GOLDEN_NET_H
#define TESTS_DEFENSE_GOLDEN_NET_H

#include "base/mem.h"
#include "defense/defenses.h"
#include "golden.h"

enum { NET_MOST = 256 };

static size_t net_features(const model *m)
{
    return m->dim;
}

static stet_status net_layout(model *m)
{
    const stet_status st = model_param(m, "w1", shape2(m->dim, m->dim), PARAM_PLAIN);
    return st == STET_OK ? model_param(m, "b1", shape1(m->dim), PARAM_PLAIN) : st;
}

static node *net_forward(const model *m, pass *p)
{
    (void)m;
    node *h = op_tanh(p->t, op_linear(p->t, p->rows, p->param[0], p->param[1]));
    return op_seq_mean(p->t, op_gather(p->t, h, p->seq->row, p->seq->n_tokens), p->seq);
}

static const stet_opt net_opts[] = {STET_OPT_END};
static const model_desc net_desc = {.name = "net",
                                    .summary = "of the golden file",
                                    .opts = net_opts,
                                    .cfg_size = 1,
                                    .layout = net_layout,
                                    .features = net_forward,
                                    .n_features = net_features};

static inline json_t *golden_defenses(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/defenses.json", STET_SOURCE_DIR);
    json_t *o;
    CHECK_OK(json_read_file(path, &o));
    return o;
}

static inline const json_t *at_key(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!v)
        test_fail(__FILE__, __LINE__, "the golden file has no '%s'", key);
    return v;
}

/* The model of `net` in the file, its parameters by these names, in the order of its layout. */
static inline model *golden_model(const model_desc *d, const json_t *net, const char *const *names)
{
    const json_t *table = at_key(net, "E");
    model *m;
    CHECK_OK(model_alloc(d, NULL, NULL, json_array_size(json_array_get(table, 0)), 2, &m));
    CHECK_OK(model_zeros(m));
    m->n_words = json_array_size(table);
    m->max_len = 16;
    m->table = mem_aligned(m->n_words * m->dim, sizeof *m->table);
    CHECK(m->table);
    CHECK_EQ(numbers(table, m->table), m->n_words * m->dim);
    for (int i = 0; names[i]; i++)
        CHECK_EQ(numbers(at_key(net, names[i]), model_value(m, i)),
                 shape_count(m->params[i].shape));
    return m;
}

static const char *const net_names[] = {"W1", "b1", "W2", "b2", NULL};

static inline model *golden_net(const json_t *file)
{
    return golden_model(&net_desc, at_key(file, "net"), net_names);
}

/* The texts of the golden batch. */
typedef struct net_texts {
    uint32_t ids[64];
    uint64_t start[8];
    int32_t label[8];
    uint32_t pick[8];
    stet_corpus c;
} net_texts;

static inline void golden_texts(const json_t *batch_of, net_texts *t)
{
    const json_t *ids = at_key(batch_of, "ids"), *y = at_key(batch_of, "y");
    const size_t n = json_array_size(ids);
    t->start[0] = 0;
    for (size_t b = 0; b < n; b++) {
        const json_t *text = json_array_get(ids, b);
        for (size_t i = 0; i < json_array_size(text); i++)
            t->ids[t->start[b] + i] = (uint32_t)json_integer_value(json_array_get(text, i));
        t->start[b + 1] = t->start[b] + json_array_size(text);
        t->label[b] = (int32_t)json_integer_value(json_array_get(y, b));
        t->pick[b] = (uint32_t)b;
    }
    t->c = (stet_corpus){n, t->start[n], 2, t->ids, t->start, t->label};
}

/* One step on them. */
typedef struct net_step {
    model *m;
    const char *const *names;
    net_texts texts;
    arena mem;
    tape t;
    pass p;
    batch x, own;
    batcher batches;
    learned_rows learned;
    model_weights w;
    real grad[NET_MOST];
    step_view v;
} net_step;

/* Of this model, whose parameters have these names in the file. */
static inline void net_step_of(net_step *s, const json_t *file, model *m, const char *const *names)
{
    *s = (net_step){.m = m, .names = names};
    golden_texts(at_key(file, "batch"), &s->texts);
    CHECK_OK(batcher_init(&s->batches, s->m));
    s->w = (model_weights){.store = &host_store,
                           .value = s->m->value,
                           .table = s->m->table,
                           .learn = &s->learned};
    tape_init(&s->t, &s->mem, NULL, true);
    CHECK(s->m->n_values <= NET_MOST);
    CHECK_OK(batch_make(&s->batches, s->m, &s->texts.c, s->texts.pick, s->texts.c.n_texts, &s->mem,
                        &s->x));
    CHECK_OK(pass_init(&s->p, s->m, &s->t, &s->w, s->grad, &s->x));
    CHECK_OK(batch_spread(&s->x, &s->mem, &s->own));
    s->v = (step_view){.m = s->m,
                       .w = &s->w,
                       .total_steps = 10,
                       .steps_per_epoch = 10,
                       .mem = &s->mem,
                       .batches = &s->batches,
                       .grad = s->grad,
                       .p = &s->p,
                       .x = &s->x,
                       .n_own = s->texts.c.n_texts};
}

/* With the tensors that a defence adds. */
static inline void net_step_begin_with(net_step *s, const json_t *file, const defense_desc *d,
                                       const void *cfg)
{
    model *m = golden_net(file);
    rng r = rng_stream(1, STREAM_TEST, 0);
    CHECK_OK(d->parameters(cfg, m, &r));
    net_step_of(s, file, m, net_names);
}

static inline void net_step_begin(net_step *s, const json_t *file)
{
    net_step_of(s, file, golden_net(file), net_names);
}

static inline void net_step_end(net_step *s)
{
    arena_deinit(&s->mem);
    batcher_deinit(&s->batches);
    stet_model_free(s->m);
}

/* Rows of `cols` numbers, one a word in the order of the file, in the order of the batch. */
static inline void batch_order(const net_step *s, size_t cols, const real *file, real *out)
{
    for (size_t b = 0; b < s->x.seq.n_texts; b++) {
        const uint64_t *start = s->texts.start + s->x.order[b];
        memcpy(out + s->x.seq.start[b] * cols, file + start[0] * cols,
               (start[1] - start[0]) * cols * sizeof *out);
    }
}

static inline void check_words(const net_step *s, const char *what, const json_t *want, size_t cols,
                               const real *got)
{
    real file[4096], w[4096];
    CHECK_EQ(numbers(want, file), s->x.seq.n_tokens * cols);
    batch_order(s, cols, file, w);
    for (size_t i = 0; i < s->x.seq.n_tokens * cols; i++)
        if (!(fabs((double)(w[i] - got[i])) <= gradient_tolerance))
            test_fail(__FILE__, __LINE__, "%s[%zu]: %.17g, golden %.17g", what, i, (double)got[i],
                      (double)w[i]);
}

/* (words, D): of the word table, over all that was read of it. */
static inline void table_grad(const net_step *s, real *sum)
{
    const size_t D = s->m->dim;
    memset(sum, 0, s->m->n_words * D * sizeof *sum);
    for (size_t k = 0; k < s->learned.n; k++)
        for (size_t i = 0; i < s->learned.part[k].n * D; i++)
            sum[s->learned.part[k].row[i / D] * D + i % D] += s->learned.part[k].grad[i];
}

/* Gradients by the names of the file: those of the weights, and E's over all that was read of it. */
static inline void check_grad(const net_step *s, const json_t *want)
{
    size_t seen = 0;
    for (int i = 0; s->names[i]; i++) {
        const json_t *of = json_object_get(want, s->names[i]);
        if (of)
            check_numbers(s->names[i], of, s->grad + s->m->params[i].first, gradient_tolerance);
        seen += of != NULL;
    }
    CHECK(seen > 0);
    const json_t *table = json_object_get(want, "E");
    real sum[NET_MOST];
    table_grad(s, sum);
    if (table)
        check_numbers("E", table, sum, gradient_tolerance);
}

#endif
