/* Bounds and worst cases on the GPU against the CPU: values and all gradients, twice for the same
 * bits. Skips where there is no GPU. */
#include "base/rng.h"
#include "bound/gbm_ops.h"
#include "bound/lstm_box_ops.h"
#include "bound/worst_case.h"
#include "test.h"

enum { WORDS = 150, N = WORDS + STET_FIRST_WORD, DIM = 20, TEXTS = 19, LONGEST = 70, MOST_ALTS = 40 };

typedef struct bound_case {
    const char *name, *model;
    const char *const *settings;
    bool scores, joint, gbm;
    size_t n_classes;
    double eps, dropout;
} bound_case;

static const char *const cnn[] = {"filters=37", "kernels=2,3,4,5", NULL};
static const char *const wide[] = {"filters=100", "kernels=1,9", NULL};
static const char *const sum_net[] = {"score-hidden=6", NULL};
static const char *const lstm_small[] = {"hidden=6", NULL}, *const lstm_32[] = {"hidden=32", NULL},
                         *const lstm_64[] = {"hidden=64", NULL},
                         *const lstm_odd[] = {"hidden=45", NULL},
                         *const lstm_128[] = {"hidden=128", NULL};
static const char *const lstm_max[] = {"hidden=64", "pool=max", NULL},
                         *const lstm_mean[] = {"hidden=45", "pool=mean", NULL};
static const char *const s4_relu[] = {"channels=64", "state=64", "s4-block=relu", "s4-pool=max",
                                      NULL},
                         *const s4_max[] = {"channels=8", "state=4", "s4-pool=max", NULL};
static const char *const lstm_span[] = {"hidden=64", "pool=max", "span=8", NULL},
                         *const s4_span[] = {"channels=64", "state=64", "s4-block=relu",
                                             "s4-pool=max", "span=8", NULL},
                         *const s4_bare[] = {"channels=64", "state=64", "s4-block=bare",
                                             "s4-pool=max", "span=8", NULL};
static const char *const s4_small[] = {"channels=8", "state=4", NULL},
                         *const s4_64[] = {"channels=64", "state=64", NULL},
                         *const s4_deep[] = {"channels=40", "state=16", "layers=2", NULL};

/* Only cases whose gradients float can tell. With no way at all a BiLSTM's boxes have no width, so that
 * nothing saturates: what comes back to the two ends grows with |U| in every step, with opposite signs,
 * and their sum is lost in rounding. 45 units are too many for that, 6 are not. */
static const bound_case cases[] = {
    {"cnn, ibp", "cnn", cnn, false, false, false, 2, 1, 0},
    {"cnn, ibp, three classes, dropout", "cnn", cnn, false, false, false, 3, 1, 0.4},
    {"cnn, ibp, part of the way", "cnn", cnn, false, false, false, 2, 0.6, 0},
    {"cnn, ibp, no way at all", "cnn", cnn, false, false, false, 2, 0, 0},
    {"cnn, ibp, growth bounds", "cnn", cnn, false, false, true, 3, 1, 0},
    {"cnn, ibp, scores", "cnn", cnn, true, false, false, 3, 0.7, 0.2},
    {"wide cnn, ibp, scores", "cnn", wide, true, false, true, 2, 1, 0.5},
    {"cnn, joint", "cnn", cnn, false, true, false, 2, 1, 0},
    {"cnn, joint, three classes, dropout", "cnn", cnn, false, true, false, 3, 1, 0.4},
    {"cnn, joint, part of the way, scores", "cnn", cnn, true, true, false, 3, 0.6, 0},
    {"wide cnn, joint", "cnn", wide, false, true, false, 4, 1, 0.5},
    {"sum", "sum", NULL, true, false, false, 3, 1, 0},
    {"sum with a network", "sum", sum_net, true, false, false, 2, 0.5, 0},
    {"bilstm of 6", "bilstm", lstm_small, false, false, false, 2, 1, 0},
    {"bilstm of 32, part of the way, dropout", "bilstm", lstm_32, false, false, false, 3, 0.6, 0.4},
    {"bilstm of 64", "bilstm", lstm_64, false, false, false, 2, 1, 0},
    {"bilstm of 64, scores", "bilstm", lstm_64, true, false, false, 3, 0.7, 0.2},
    {"bilstm of 128, part of the way", "bilstm", lstm_128, false, false, false, 2, 0.6, 0},
    {"bilstm of 45", "bilstm", lstm_odd, false, false, false, 2, 1, 0},
    {"bilstm of 45, part of the way", "bilstm", lstm_odd, false, false, false, 2, 0.3, 0},
    {"bilstm of 6, no way at all", "bilstm", lstm_small, false, false, false, 3, 0, 0},
    {"s4 of 8", "s4", s4_small, false, false, true, 2, 1, 0},
    {"s4 of 64, part of the way, dropout", "s4", s4_64, false, false, true, 3, 0.6, 0.4},
    {"s4 of two layers, scores", "s4", s4_deep, true, false, true, 2, 1, 0},
    {"bilstm of 64, largest states, scores", "bilstm", lstm_max, true, false, false, 3, 0.7, 0.2},
    {"bilstm of 45, mean states", "bilstm", lstm_mean, false, false, false, 2, 1, 0},
    {"s4 of 64, relu, largest", "s4", s4_relu, true, false, true, 2, 1, 0.3},
    {"bilstm of 64, largest states, spans", "bilstm", lstm_span, true, false, false, 2, 1, 0.1},
    {"s4 of 64, relu, largest, spans", "s4", s4_span, true, false, true, 2, 1, 0.1},
    {"s4 of 64, bare, largest, spans", "s4", s4_bare, true, false, true, 2, 1, 0.1},
    {"s4 of 8, largest", "s4", s4_max, false, false, true, 3, 0.6, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- a world ------------------------------------------------------------------------------ */

/* A model, sets for two words out of three (one of them large), texts of all lengths from 1 on. */
typedef struct world {
    model *m;
    word_sets sets;
    uint32_t start[N + 1], word[N * MOST_ALTS], slot[N];
    uint32_t ids[TEXTS * LONGEST];
    uint64_t text_start[TEXTS + 1];
    int32_t label[TEXTS];
    batcher batches;
} world;

static void make_sets(world *w, rng *r)
{
    size_t n = 0;
    for (uint32_t i = 0; i < N; i++) {
        w->start[i] = (uint32_t)n;
        const size_t alts = i % 3 == 0 || i < STET_FIRST_WORD ? 0
                            : i == 7                          ? MOST_ALTS
                                                              : 1 + rng_below(r, 5);
        for (size_t a = 0; a < alts; a++) {
            const uint32_t other = (uint32_t)(STET_UNK + rng_below(r, WORDS + 1));
            bool known = other == i;
            for (size_t b = w->start[i]; b < n; b++)
                known |= w->word[b] == other;
            if (!known)
                w->word[n++] = other;
        }
    }
    w->start[N] = (uint32_t)n;
    w->sets = (word_sets){N, w->start, w->word};
}

static void world_make(world *w, const bound_case *c, uint64_t seed)
{
    rng r = rng_stream(seed, STREAM_TEST, 5);
    memset(w, 0, sizeof *w);
    static char text[WORDS][16];
    const char *words[WORDS];
    static float data[N * DIM];
    for (int i = 0; i < WORDS; i++) {
        snprintf(text[i], sizeof text[i], "w%d", i);
        words[i] = text[i];
    }
    for (int i = DIM; i < N * DIM; i++)
        data[i] = (float)rng_normal(&r);
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, WORDS, &v));
    const stet_vectors t = {.n = N, .dim = DIM, .data = data};
    CHECK_OK(stet_model_new(&(stet_model_new_args){.name = c->model,
                                                   .settings = c->settings,
                                                   .vocab = v,
                                                   .vectors = &t,
                                                   .max_len = LONGEST,
                                                   .n_classes = c->n_classes,
                                                   .word_scores = c->scores,
                                                   .seed = seed},
                            &w->m));
    stet_vocab_free(v);
    for (size_t i = 0; i < w->m->n_values; i++) /* nothing is zero or tied */
        w->m->value[i] += (real)(0.1 * rng_normal(&r));
    make_sets(w, &r);
    for (size_t i = 0; i < TEXTS; i++) {
        w->text_start[i + 1] = w->text_start[i] + (i < 8 ? i + 1 : 9 + rng_below(&r, LONGEST - 8));
        w->label[i] = (int32_t)rng_below(&r, c->n_classes);
    }
    for (size_t i = 0; i < w->text_start[TEXTS]; i++)
        w->ids[i] = (uint32_t)(STET_UNK + rng_below(&r, WORDS + 1));
    CHECK_OK(batcher_init(&w->batches, w->m));
}

static void world_free(world *w)
{
    batcher_deinit(&w->batches);
    stet_model_free(w->m);
}

/* ---- one pass ----------------------------------------------------------------------------- */

/* Numbers one after the other, and what each part is. */
enum { MAX_PARTS = 16 };
typedef struct results {
    real *x;
    size_t n, end[MAX_PARTS];
    const char *what[MAX_PARTS];
    int parts;
} results;

static void take(results *r, const char *what, store *s, const real *from, size_t n, arena *mem)
{
    real *x = arena_new(mem, real, r->n + n);
    CHECK(x && r->parts < MAX_PARTS);
    if (r->n)
        memcpy(x, r->x, r->n * sizeof *x);
    CHECK_OK(store_download(s, x + r->n, from, n * sizeof *x));
    r->x = x;
    r->n += n;
    r->what[r->parts] = what;
    r->end[r->parts++] = r->n;
}

static void take_node(results *r, const char *what, store *s, const node *n, arena *mem)
{
    take(r, what, s, n->value, shape_count(n->shape), mem);
}

/* The loss of a pass over all texts, and everything that it gives. */
static results run_case(world *w, const bound_case *c, store_arena *values, arena *mem)
{
    store *s = values ? values->store : &host_store;
    const stet_corpus texts = {TEXTS,  w->text_start[TEXTS], w->m->n_classes,
                               w->ids, w->text_start,        w->label};
    uint32_t pick[TEXTS];
    for (uint32_t i = 0; i < TEXTS; i++)
        pick[i] = i;
    results out = {0};
    model_weights weights;
    learned_rows learned = {.n = 0};
    batch x;
    tape t;
    pass p;
    batch_sets sets;
    node *logits, *worst;
    rng drops = rng_stream(3, STREAM_TEST, 6);
    CHECK_OK(weights_init(&weights, w->m, s));
    weights.learn = &learned;
    real *grad = store_alloc(s, w->m->n_values, sizeof *grad);
    CHECK(grad);
    store_clear(s, grad, w->m->n_values * sizeof *grad);
    CHECK_OK(batch_make(&w->batches, w->m, &texts, pick, TEXTS, mem, &x));
    tape_init(&t, mem, values, true);
    CHECK_OK(pass_init(&p, w->m, &t, &weights, grad, &x));
    p.dropout = c->dropout;
    p.stream = &drops;
    CHECK_OK(batch_sets_make(&w->sets, &p, &x, w->slot, &sets));
    sets.seq = p.seq;
    const worst_args a = {.s = &sets, .label = x.label, .eps = c->eps, .joint = c->joint};
    worst_forward(w->m, &p, &a, &logits, &worst);
    node *loss = op_add(&t, op_cross_entropy(&t, worst, x.label),
                        op_scale(&t, op_cross_entropy(&t, logits, x.label), 0.5));
    for (int of = GBM_OF_LAYER; c->gbm && of <= GBM_OF_LOGITS; of++) {
        gbm_report report;
        const gbm_term_args how = {.of = (gbm_of)of, .k = {1}};
        node *term = gbm_term(w->m, &t, p.param, &how, &report);
        loss = op_add(&t, loss, op_scale(&t, term, 1e-2));
        CHECK_OK(tape_status(&t));
        take_node(&out, "a growth bound", s, term, mem);
    }
    CHECK_OK(tape_backward(&t, loss));
    take_node(&out, "the logits", s, logits, mem);
    take_node(&out, "the worst case", s, worst, mem);
    take_node(&out, "the share that holds", s, worst_share(&t, worst, x.label), mem);
    take_node(&out, "the loss", s, loss, mem);
    take(&out, "gradients of parameters", s, grad, w->m->n_values, mem);
    for (size_t i = 0; i < learned.n; i++)
        take(&out, "gradients of rows", s, learned.part[i].grad, learned.part[i].n * DIM, mem);
    store_release(s, grad);
    weights_deinit(&weights);
    return out;
}

static const char *part_of(const results *r, size_t i)
{
    int k = 0;
    while (i >= r->end[k])
        k++;
    return r->what[k];
}

static store *gpu(void)
{
    store *s;
    const stet_status st = store_open("cuda", &s);
    if (st == STET_ENOTSUP)
        SKIP(stet_last_error());
    CHECK_OK(st);
    return s;
}

/* How many numbers are wrong; the first is told. */
static int check_case(const bound_case *c, uint64_t seed, store_arena *values)
{
    static world w;
    arena mem = {0};
    int wrong = 0;
    world_make(&w, c, seed);
    const store_mark start = store_arena_save(values);
    const results cpu = run_case(&w, c, NULL, &mem), got = run_case(&w, c, values, &mem),
                  again = run_case(&w, c, values, &mem);
    CHECK_EQ(cpu.n, got.n);
    for (size_t i = 0; i < cpu.n; i++)
        if (!(fabs((double)got.x[i] - (double)cpu.x[i]) <= 2e-5 * (1 + fabs((double)cpu.x[i]))) &&
            wrong++ == 0)
            fprintf(stderr, "  %s, seed %d: %s: number %zu of %zu is %.9g, on the CPU %.9g\n", c->name,
                    (int)seed, part_of(&cpu, i), i, cpu.n, (double)got.x[i], (double)cpu.x[i]);
    if (memcmp(got.x, again.x, got.n * sizeof *got.x) != 0)
        test_fail(__FILE__, __LINE__, "%s: other bits the second time", c->name);
    store_arena_restore(values, start);
    world_free(&w);
    arena_deinit(&mem);
    return wrong;
}

TEST(worst_cases_agree_with_the_cpu_and_give_the_same_bits_every_time)
{
    store_arena values = {.store = gpu()};
    int wrong = 0;
    for (int i = 0; i < CASES; i++)
        for (uint64_t seed = 1; seed <= 3; seed++)
            wrong += check_case(&cases[i], seed, &values);
    CHECK_EQ(wrong, 0);
    store_arena_deinit(&values);
    store_close(values.store);
}

/* The world itself is as wide as the cases say, and the CPU's numbers can be told apart. */
TEST(the_cases_reach_what_they_are_for)
{
    static world w;
    arena mem = {0};
    for (int i = 0; i < CASES; i++) {
        world_make(&w, &cases[i], 1);
        CHECK_LE(33, w.start[8] - w.start[7]); /* more words than a warp has lanes */
        const results r = run_case(&w, &cases[i], NULL, &mem);
        size_t nonzero = 0;
        for (size_t k = 0; k < r.n; k++)
            nonzero += r.x[k] != 0;
        CHECK_LE(2 * TEXTS * cases[i].n_classes, nonzero);
        world_free(&w);
    }
    arena_deinit(&mem);
}

/* ---- boxes of rows ------------------------------------------------------------------------ */

TEST(the_box_of_rows_is_the_cpus)
{
    enum { ROWS = 3001, COLS = 45 };
    store_arena values = {.store = gpu()};
    arena mem = {0};
    real *x = arena_new(&mem, real, ROWS * COLS), box[2][2 * COLS];
    rng r = rng_stream(8, STREAM_TEST, 7);
    CHECK(x);
    for (size_t i = 0; i < ROWS * COLS; i++)
        x[i] = (real)rng_normal(&r);
    for (size_t first = 0; first < ROWS; first += 1500)
        for (int side = 0; side < 2; side++) {
            tape t;
            tape_init(&t, &mem, side ? &values : NULL, false);
            const node *y = op_rows_hull(&t, tape_numbers(&t, shape2(ROWS, COLS), x), first);
            CHECK_OK(tape_status(&t));
            CHECK_OK(tape_download(&t, y, box[side]));
            CHECK(side == 0 || memcmp(box[0], box[1], sizeof box[0]) == 0);
        }
    arena_deinit(&mem);
    store_arena_deinit(&values);
    store_close(values.store);
}
