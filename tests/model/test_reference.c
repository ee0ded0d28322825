/* The models against PyTorch: logits of given weights, and the losses of ten training steps. */
#include "model/small_model.h"
#include "tensor/optim.h"
#include "tensor/safetensors.h"

#ifdef STET_DOUBLE
static const double tolerance = 1e-10;
#else
static const double tolerance = 1e-5;
#endif
enum { TEXTS = 6, CLASSES = 3, STEPS = 10, MAX_TOKENS = 64, ROWS = 20, DIM = 6 };

typedef struct reference {
    st_file f;
    model *m;
    uint32_t ids[MAX_TOKENS];
    uint64_t start[TEXTS + 1];
    int32_t label[TEXTS];
    stet_corpus c;
} reference;

/* The reference's table has no rows for <pad> and <unk> of its own: row i is word id i. */
static void load(reference *r, const char *name, const char *const *settings)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/%s.safetensors", STET_SOURCE_DIR, name);
    CHECK_OK(st_open(&r->f, path));
    char text[ROWS][16];
    const char *words[ROWS];
    for (int i = 0; i < ROWS - STET_FIRST_WORD; i++) {
        snprintf(text[i], sizeof text[i], "w%d", i);
        words[i] = text[i];
    }
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, ROWS - STET_FIRST_WORD, &v));
    real table[ROWS * DIM];
    float data[ROWS * DIM];
    CHECK_OK(st_read(&r->f, "embedding.weight", shape2(ROWS, DIM), table));
    for (int i = 0; i < ROWS * DIM; i++)
        data[i] = (float)table[i];
    const stet_vectors t = {.n = ROWS, .dim = DIM, .data = data};
    const stet_model_new_args how = {.name = name,
                                     .settings = settings,
                                     .vocab = v,
                                     .vectors = &t,
                                     .max_len = 32,
                                     .n_classes = CLASSES,
                                     .seed = 1};
    CHECK_OK(stet_model_new(&how, &r->m));
    stet_vocab_free(v);
    for (size_t i = 0; i < r->m->n_params; i++)
        CHECK_OK(st_read(&r->f, r->m->params[i].name, r->m->params[i].shape,
                         r->m->value + r->m->params[i].first));

    int32_t ids[MAX_TOKENS], lengths[TEXTS];
    const size_t n = shape_count(st_find(&r->f, "ids")->shape);
    CHECK_OK(st_read_bytes(&r->f, "ids", ST_I32, n, ids));
    CHECK_OK(st_read_bytes(&r->f, "lengths", ST_I32, TEXTS, lengths));
    CHECK_OK(st_read_bytes(&r->f, "label", ST_I32, TEXTS, r->label));
    for (size_t i = 0; i < n; i++)
        r->ids[i] = (uint32_t)ids[i];
    for (int i = 0; i < TEXTS; i++)
        r->start[i + 1] = r->start[i] + (uint64_t)lengths[i];
    r->c = (stet_corpus){.n_texts = TEXTS,
                         .n_tokens = n,
                         .n_classes = CLASSES,
                         .ids = r->ids,
                         .start = r->start,
                         .label = r->label};
}

static void unload(reference *r)
{
    st_close(&r->f);
    stet_model_free(r->m);
}

static void check_logits(reference *r, const char *name, double tol)
{
    real want[TEXTS * CLASSES];
    float got[TEXTS * CLASSES];
    CHECK_OK(st_read(&r->f, name, shape2(TEXTS, CLASSES), want));
    CHECK_OK(stet_model_logits(r->m, &r->c, got));
    for (int i = 0; i < TEXTS * CLASSES; i++)
        CHECK_NEAR(got[i], want[i], tol * (1 + fabs((double)want[i])));
}

static void train(reference *r, const optim_options *how, const double rate[PARAM_KINDS],
                  const double decay[PARAM_KINDS])
{
    model *m = r->m;
    optim o;
    CHECK_OK(optim_init(&o, how, &host_store, m->n_values));
    real *grad = mem_alloc(m->n_values, sizeof *grad);
    param_group *groups = mem_alloc(m->n_params, sizeof *groups);
    for (size_t i = 0; i < m->n_params; i++)
        groups[i] = (param_group){m->params[i].first, shape_count(m->params[i].shape),
                                  rate[m->params[i].kind], decay[m->params[i].kind]};
    real want[STEPS];
    CHECK_OK(st_read(&r->f, "losses", shape1(STEPS), want));
    batcher b;
    CHECK_OK(batcher_init(&b, m));
    arena a = {0};
    const uint32_t all[TEXTS] = {0, 1, 2, 3, 4, 5};
    for (int step = 0; step < STEPS; step++) {
        const arena_mark mark = arena_save(&a);
        memset(grad, 0, m->n_values * sizeof *grad);
        batch x;
        CHECK_OK(batch_make(&b, m, &r->c, all, TEXTS, &a, &x));
        tape t;
        tape_init(&t, &a, NULL, true);
        pass p;
        CHECK_OK(pass_init(&p, m, &t, NULL, grad, &x));
        node *loss = op_cross_entropy(&t, model_forward(m, &p), x.label);
        CHECK_OK(tape_backward(&t, loss));
        CHECK_NEAR(loss->value[0], want[step], (step + 1) * tolerance * (1 + want[step]));
        CHECK_OK(optim_step(&o, groups, m->n_params, m->value, grad));
        arena_restore(&a, mark);
    }
    arena_deinit(&a);
    batcher_deinit(&b);
    mem_free(groups);
    mem_free(grad);
    optim_deinit(&o);
}

static void follow(const char *name, const char *const *settings, bool decoupled)
{
    reference r = {0};
    load(&r, name, settings);
    check_logits(&r, "logits", 1e-5);
    optim_options how = OPTIM_DEFAULTS;
    how.kind = decoupled ? OPTIM_ADAMW : OPTIM_ADAM;
    train(&r, &how, (const double[PARAM_KINDS]){1e-2, 2e-2}, (const double[PARAM_KINDS]){1e-2});
    check_logits(&r, "logits_after", 1e-4);
    unload(&r);
}

TEST(cnn_follows_pytorch)
{
    static const char *const settings[] = {"kernels=2,3", "filters=4", NULL};
    follow("cnn", settings, false);
}

TEST(bilstm_follows_pytorch)
{
    static const char *const settings[] = {"hidden=5", NULL};
    follow("bilstm", settings, false);
}

TEST(s4_follows_the_dense_recurrence)
{
    static const char *const settings[] = {"channels=4", "state=6", NULL};
    follow("s4", settings, true);
}
