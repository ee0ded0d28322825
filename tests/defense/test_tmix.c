/* Texts mixed between layers: the golden step, what a mixture with nothing of the other text is, and
 * which layers can be named. */
#include "defense/mixada.h"

#include "alloc_fail.h"
#include "golden_net.h"
#include "model/tiny_bert.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- the network of the golden file: h = tanh(A x + C (mean of the text's x) + c), twice ---- */

enum { A, C, BIAS, PER_LAYER, LAYERS = 2 };

static size_t width(const model *m)
{
    return m->dim;
}

static stet_status two_layers(model *m)
{
    static const char *const names[LAYERS][PER_LAYER] = {{"A1", "C1", "c1"}, {"A2", "C2", "c2"}};
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < PER_LAYER; i++)
            CHECK_OK(model_param(m, names[l][i],
                                 i == BIAS ? shape1(m->dim) : shape2(m->dim, m->dim), PARAM_PLAIN));
    return STET_OK;
}

static size_t n_layers(const model *m)
{
    (void)m;
    return LAYERS;
}

static uint32_t filler(const model *m)
{
    (void)m;
    return 0;
}

static node *first_rows(const model *m, const pass *p)
{
    (void)m;
    return op_gather(p->t, p->rows, p->seq->row, p->seq->n_tokens);
}

/* Where the text of each row stands among the texts. */
static const uint32_t *texts_of(tape *t, const seq_index *q)
{
    uint32_t *of = arena_new(t->mem, uint32_t, q->n_tokens);
    CHECK(of);
    for (size_t b = 0; b < q->n_texts; b++)
        for (uint32_t i = q->start[b]; i < q->start[b + 1]; i++)
            of[i] = (uint32_t)b;
    return of;
}

static node *mean_layer(const model *m, const pass *p, node *x, node *to, const seq_index *asks,
                        size_t l)
{
    (void)m;
    tape *t = p->t;
    node *const *w = p->param + PER_LAYER * l;
    node *mean = op_matmul(t, op_seq_mean(t, x, p->seq), false, w[C], true);
    if (asks || to == x) {
        const seq_index *q = asks ? asks : p->seq;
        mean = op_gather(t, mean, texts_of(t, q), q->n_tokens);
    }
    return op_tanh(t, op_add(t, op_linear(t, to, w[A], w[BIAS]), mean));
}

static node *as_it_is(const model *m, const pass *p, node *first)
{
    (void)m, (void)p;
    return first;
}

static const model_layers layers = {n_layers, filler, first_rows, mean_layer, as_it_is};

static node *read_out(const model *m, pass *p)
{
    node *x = first_rows(m, p);
    for (size_t l = 0; l < LAYERS; l++)
        x = mean_layer(m, p, x, x, NULL, l);
    return op_gather(p->t, x, p->seq->start, p->seq->n_texts);
}

static const stet_opt no_opts[] = {STET_OPT_END};
static const model_desc deep_desc = {.name = "deep",
                                     .summary = "of the golden file",
                                     .opts = no_opts,
                                     .cfg_size = 1,
                                     .layout = two_layers,
                                     .features = read_out,
                                     .layers = &layers,
                                     .n_features = width};

/* Whom text b of the batch is mixed with, by the golden order. */
static void golden_pairs(const net_step *s, const json_t *perm, uint32_t *with)
{
    uint32_t place[8];
    for (uint32_t b = 0; b < s->x.seq.n_texts; b++)
        place[s->x.order[b]] = b;
    for (size_t b = 0; b < s->x.seq.n_texts; b++)
        with[b] = place[json_integer_value(json_array_get(perm, s->x.order[b]))];
}

static void check_logits(const net_step *s, const char *what, const json_t *want, const node *z)
{
    for (size_t b = 0; b < s->x.seq.n_texts; b++)
        check_numbers(what, json_array_get(want, s->x.order[b]), z->value + b * 2, value_tolerance);
}

TEST(mixing_after_a_layer_is_the_golden_step)
{
    static const char *const names[] = {"A1", "C1", "c1", "A2", "C2", "c2", "W", "b", NULL};
    json_t *file = golden_defenses();
    const json_t *c = at_key(at_key(file, "mixada"), "tmix");
    net_step s;
    net_step_of(&s, file, golden_model(&deep_desc, at_key(c, "net"), names), names);
    uint32_t with[8];
    golden_pairs(&s, at_key(c, "perm"), with);
    const double share = json_number_value(at_key(c, "lam"));
    s.v.logits = model_forward(s.m, &s.p);
    node *z = tmix_logits(&s.v, 1, share, with),
         *base = op_cross_entropy(&s.t, s.v.logits, s.x.label),
         *mixed = mixed_loss(&s.v, z, share, with), *y = op_add(&s.t, base, mixed);
    CHECK_OK(tape_backward(&s.t, y));
    check_logits(&s, "logits", at_key(c, "logits"), s.v.logits);
    check_logits(&s, "logits_mix", at_key(c, "logits_mix"), z);
    CHECK_NEAR(base->value[0], json_number_value(at_key(c, "loss_ori")), gradient_tolerance);
    CHECK_NEAR(mixed->value[0], json_number_value(at_key(c, "loss_mix")), gradient_tolerance);
    CHECK_NEAR(y->value[0], json_number_value(at_key(c, "loss")), gradient_tolerance);
    check_grad(&s, at_key(c, "grad"));
    net_step_end(&s);
    json_decref(file);
}

/* ---- BERT ----------------------------------------------------------------------------------- */

/* Three texts of 7, 4 and 4 rows, each mixed with the next. */
static const uint32_t next_text[] = {1, 2, 0};

typedef struct bert_step {
    model *m;
    arena mem;
    tape t;
    pass p;
    batcher batches;
    batch x;
    step_view v;
} bert_step;

static void bert_step_begin(bert_step *s)
{
    static const uint32_t ids[] = {5, 7, 9, 12, 24, 6, 10, 30, 31}, all[] = {0, 1, 2};
    static const uint64_t start[] = {0, 5, 7, 9};
    static const int32_t label[] = {0, 1, 2};
    const stet_corpus c = {3, 9, 3, (uint32_t *)ids, (uint64_t *)start, (int32_t *)label};
    memset(s, 0, sizeof *s);
    CHECK_OK(stet_model_load(tiny_bert(), &s->m));
    CHECK_OK(batcher_init(&s->batches, s->m));
    tape_init(&s->t, &s->mem, NULL, false);
    CHECK_OK(batch_make(&s->batches, s->m, &c, all, 3, &s->mem, &s->x));
    CHECK_EQ(s->x.seq.start[1], 7);
    CHECK_OK(pass_init(&s->p, s->m, &s->t, NULL, NULL, &s->x));
    s->v = (step_view){.m = s->m, .mem = &s->mem, .batches = &s->batches, .p = &s->p, .x = &s->x};
    s->v.logits = model_forward(s->m, &s->p);
    CHECK_OK(tape_status(&s->t));
}

/* Logits of one mixture, from a step's memory that may run out anywhere. */
static stet_status scarce_mixture(void *ctx)
{
    const bert_step *s = ctx;
    arena mem = {0};
    tape t;
    pass p = s->p;
    step_view v = s->v;
    p.t = &t;
    v.p = &p;
    v.mem = &mem;
    tape_init(&t, &mem, NULL, false);
    stet_status st = pass_init(&p, s->m, &t, NULL, NULL, &s->x);
    if (st == STET_OK) {
        tmix_logits(&v, 1, 0.3, next_text);
        st = tape_status(&t);
    }
    arena_deinit(&mem);
    return st;
}

static void bert_step_end(bert_step *s)
{
    arena_deinit(&s->mem);
    batcher_deinit(&s->batches);
    stet_model_free(s->m);
}

/* The largest difference between the logits of text a of z and text b of the clean pass. */
static double apart(const bert_step *s, const node *z, size_t a, size_t b)
{
    double most = 0;
    CHECK(z);
    for (size_t k = 0; k < 3; k++)
        most = fmax(most, fabs((double)(z->value[a * 3 + k] - s->v.logits->value[b * 3 + k])));
    return most;
}

TEST(a_mixture_with_nothing_of_the_other_text_is_the_text)
{
    bert_step s;
    bert_step_begin(&s);
    for (size_t below = 0; below <= 2; below++) {
        const node *own = tmix_logits(&s.v, below, 1, next_text),
                   *other = tmix_logits(&s.v, below, 0, next_text),
                   *half = tmix_logits(&s.v, below, 0.5, next_text);
        for (size_t b = 0; b < 3; b++) {
            /* Fillers are read above the mix alone: where a text was continued, and there is a layer. */
            const size_t pair = next_text[b], len = s.x.seq.start[b + 1] - s.x.seq.start[b],
                         of_pair = s.x.seq.start[pair + 1] - s.x.seq.start[pair];
            CHECK((apart(&s, own, b, b) < 1e-5) == (below == 2 || len >= of_pair));
            CHECK((apart(&s, other, b, pair) < 1e-5) == (below == 2 || of_pair >= len));
            CHECK_LE(1e-3, apart(&s, half, b, b));
            CHECK_LE(1e-3, apart(&s, half, b, pair));
        }
    }
    CHECK_LE(1, ALLOC_FAIL_LOOP(scarce_mixture, &s));
    bert_step_end(&s);
}

static stet_status start_with(const model *m, const char *setting)
{
    defense_list l;
    stet_status st = defense_list_init(&l, "mixada", SETTINGS(setting));
    if (st == STET_OK)
        st = defense_list_start(&l, m, NULL);
    const word_sets *sets;
    if (st ==
        STET_OK) /* a device must leave the words of a step to the host, or may look them up */
        CHECK_EQ(defense_list_reads_words(&l, &sets), strchr(setting, '=')[1] != '\0');
    defense_list_end(&l);
    return st;
}

TEST(layers_are_named_by_the_number_of_those_below)
{
    bert_step s;
    bert_step_begin(&s);
    CHECK_OK(start_with(s.m, "mixada-layers="));
    CHECK_OK(start_with(s.m, "mixada-layers=2"));
    CHECK_OK(start_with(s.m, "mixada-layers=0,1,2"));
    CHECK_FAILS(start_with(s.m, "mixada-layers=1,3"), STET_EUSAGE, "from 0 to 2");
    CHECK_FAILS(start_with(s.m, "mixada-layers=-1"), STET_EUSAGE, "--mixada-layers -1");
    CHECK_FAILS(start_with(s.m, "mixada-layers=1,"), STET_EUSAGE, "--mixada-layers 1,");
    CHECK_FAILS(start_with(s.m, "mixada-layers=one"), STET_EUSAGE, "--mixada-layers one");
    bert_step_end(&s);
    json_t *file = golden_defenses();
    model *m = golden_net(file);
    CHECK_FAILS(start_with(m, "mixada-layers=1"), STET_EUSAGE, "needs a BERT");
    stet_model_free(m);
    json_decref(file);
}
