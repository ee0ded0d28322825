/* A network of two layers learns what no single layer can, and learns the same bytes every time. */
#include "test.h"

#include "base/strmap.h"
#include "tensor/ops.h"
#include "tensor/optim.h"

enum { N = 512, H = 96, STEPS = 150, PARAMS = 2 * H + H + 2 * H + 2 };

typedef struct outcome {
    double first_loss, last_loss, accuracy;
    uint64_t params;
} outcome;

/* Four noisy clusters, labelled as exclusive or. */
static void make_task(real *x, int32_t *label)
{
    rng r = rng_stream(1, STREAM_TEST, 0);
    for (size_t i = 0; i < N; i++) {
        const int a = (int)rng_below(&r, 2), b = (int)rng_below(&r, 2);
        x[2 * i] = (real)(2 * a - 1 + 0.3 * rng_normal(&r));
        x[2 * i + 1] = (real)(2 * b - 1 + 0.3 * rng_normal(&r));
        label[i] = a ^ b;
    }
}

static node *network(tape *t, const real *x, real *p, real *g, rng *dropout)
{
    node *w = tape_input(t, shape2(H, 2), p, g);
    node *b = tape_input(t, shape1(H), p + 2 * H, g + 2 * H);
    node *v = tape_input(t, shape2(2, H), p + 3 * H, g + 3 * H);
    node *c = tape_input(t, shape1(2), p + 5 * H, g + 5 * H);
    node *h = op_tanh(t, op_linear(t, tape_constant(t, shape2(N, 2), x), w, b));
    return op_linear(t, dropout ? op_dropout(t, h, 0.1, dropout) : h, v, c);
}

static outcome learn(uint64_t seed, int threads)
{
    static real x[2 * N], p[PARAMS], g[PARAMS];
    static int32_t label[N];
    stet_set_threads(threads);
    make_task(x, label);
    rng init = rng_stream(seed, STREAM_INIT, 0), dropout = rng_stream(seed, STREAM_DROPOUT, 0);
    for (size_t i = 0; i < PARAMS; i++)
        p[i] = (real)(0.5 * rng_normal(&init));

    arena mem = {0};
    optim o;
    const optim_options how = OPTIM_DEFAULTS;
    const param_group all = {0, PARAMS, 0.02, 0};
    outcome out = {0};
    CHECK_OK(optim_init(&o, &how, &host_store, PARAMS));
    const arena_mark start = arena_save(&mem);
    for (int step = 0; step < STEPS; step++) {
        tape t;
        tape_init(&t, &mem, NULL, true);
        memset(g, 0, sizeof g);
        node *loss = op_cross_entropy(&t, network(&t, x, p, g, &dropout), label);
        CHECK_OK(tape_backward(&t, loss));
        out.last_loss = (double)loss->value[0];
        out.first_loss = step ? out.first_loss : out.last_loss;
        CHECK_OK(optim_step(&o, &all, 1, p, g));
        arena_restore(&mem, start);
    }
    tape t;
    tape_init(&t, &mem, NULL, false);
    const node *logits = network(&t, x, p, g, NULL);
    CHECK_OK(tape_status(&t));
    for (size_t i = 0; i < N; i++)
        out.accuracy += ((logits->value[2 * i + 1] > logits->value[2 * i]) == label[i]) / (double)N;
    out.params = hash_bytes(p, sizeof p, 0);
    optim_deinit(&o);
    arena_deinit(&mem);
    return out;
}

TEST(two_layers_learn_exclusive_or)
{
    const outcome o = learn(1, 1);
    CHECK_LE(0.5, o.first_loss);
    CHECK_LE(o.last_loss, 0.1);
    CHECK_LE(0.98, o.accuracy);
}

TEST(one_seed_gives_one_result_for_any_number_of_threads)
{
    const outcome one = learn(7, 1), again = learn(7, 1), two = learn(7, 2), other = learn(8, 1);
    CHECK(one.params == again.params);
    CHECK(one.params == two.params);
    CHECK(one.last_loss == two.last_loss);
    CHECK(one.params != other.params);
}
