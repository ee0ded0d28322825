/* The tape itself: what is recorded, what fails and how, and what memory a step takes. */
#include "test.h"

#include <string.h>

#include "alloc_fail.h"
#include "base/mem.h"
#include "tensor/ops.h"

static real numbers[4096], numbers_grad[4096];

static tape new_tape(arena *mem, bool record)
{
    tape t;
    tape_init(&t, mem, NULL, record);
    return t;
}

TEST(a_gradient_flows_through_every_path)
{
    arena mem = {0};
    tape t = new_tape(&mem, true);
    real x = 3, dx = 10;
    node *n = tape_input(&t, shape1(1), &x, &dx);
    node *loss = op_add(&t, op_mul(&t, n, n), op_scale(&t, n, 4)); /* x^2 + 4x */
    CHECK_NEAR(loss->value[0], 21, 0);
    CHECK_OK(tape_backward(&t, loss));
    CHECK_NEAR(dx, 10 + 10, 0); /* added to what was there */
    CHECK_OK(tape_backward(&t, loss));
    CHECK_NEAR(dx, 10 + 20, 0); /* walking again adds again */
    arena_deinit(&mem);
}

TEST(an_operand_may_be_used_twice_by_one_op)
{
    arena mem = {0};
    tape t = new_tape(&mem, true);
    real x = 3, dx = 0;
    node *n = op_scale(&t, tape_input(&t, shape1(1), &x, &dx), 1);
    CHECK_OK(tape_backward(&t, op_add(&t, op_add(&t, n, n), op_sub(&t, n, n))));
    CHECK_NEAR(dx, 2, 0);
    arena_deinit(&mem);
}

TEST(constants_and_unused_results_get_no_gradient)
{
    arena mem = {0};
    tape t = new_tape(&mem, true);
    real x = 2, dx = 0;
    node *n = tape_input(&t, shape1(1), &x, &dx);
    node *fixed = tape_constant(&t, shape1(1), &x);
    node *unused = op_exp(&t, n);
    node *loss = op_mul(&t, n, fixed);
    CHECK_OK(tape_backward(&t, loss));
    CHECK_NEAR(dx, 2, 0);
    CHECK(!fixed->grad);
    CHECK(!unused->grad);
    CHECK_OK(tape_backward(&t, op_exp(&t, fixed))); /* nothing to do */
    CHECK_NEAR(dx, 2, 0);
    arena_deinit(&mem);
}

TEST(inference_gives_the_same_values_and_keeps_no_list)
{
    arena mem = {0};
    rng r = rng_stream(1, STREAM_TEST, 0);
    for (size_t i = 0; i < 60; i++)
        numbers[i] = (real)rng_range(&r, -1, 1);
    real expected = 0;
    for (int record = 1; record >= 0; record--) {
        tape t = new_tape(&mem, record);
        node *x = tape_input(&t, shape2(6, 10), numbers, numbers_grad);
        node *g = tape_constant(&t, shape1(10), numbers),
             *b = tape_constant(&t, shape1(10), numbers);
        node *y = op_sum(&t, op_glu(&t, op_layer_norm(&t, x, g, b, 1e-5)));
        CHECK_OK(tape_status(&t));
        if (record)
            expected = y->value[0];
        else
            CHECK(y->value[0] == expected && t.n == 0 && !y->needs_grad);
    }
    arena_deinit(&mem);
}

TEST(a_failure_is_reported_once_and_stops_what_follows)
{
    arena mem = {0};
    tape t = new_tape(&mem, true);
    node *a = tape_input(&t, shape2(2, 3), numbers, NULL);
    node *bad = op_matmul(&t, a, false, a, false);
    CHECK(!bad);
    CHECK(!op_tanh(&t, op_add(&t, bad, a)));
    CHECK(!tape_input(&t, shape1(1), numbers, NULL));
    CHECK_FAILS(tape_backward(&t, bad), STET_EUSAGE,
                "matmul: (2, 3) times (2, 3): inner sizes 3 and 2");
    arena_deinit(&mem);
}

TEST(wrong_operands_get_a_sentence)
{
    arena mem = {0};
    const uint32_t index[] = {1, 7}, start[] = {0, 2, 2};
    const int32_t label[] = {0, 3};
    const seq_index empty_text = {2, 2, 8, 2, start, index};
    const struct {
        int what;
        const char *message;
    } bad[] = {{0, "add: shapes (2, 3) and (3, 2) differ"},
               {1, "gather: index 1 is 7, but (2, 3) has 2 rows"},
               {2, "cross_entropy: row 1 has label 3, expected 0 to 2"},
               {3, "slice: columns 2 to 4 of (2, 3)"},
               {4, "dropout: probability 1 is not in [0, 1)"},
               {5, "glu: (2, 3) has no two halves"},
               {6, "seq_mean: expected texts sorted from long to short"},
               {7, "linear: the bias has shape (2, 3), expected 2 elements"},
               {8, "clamp: no number is in [1, 0]"},
               {9, "concat: (2, 3) and (3, 2) have different numbers of rows"},
               {10, "gather: 1 of the rows of (2, 3)"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tape t = new_tape(&mem, true);
        rng r = rng_stream(1, STREAM_TEST, 0);
        node *a = tape_input(&t, shape2(2, 3), numbers, NULL);
        node *b = tape_input(&t, shape2(3, 2), numbers, NULL);
        switch (bad[i].what) {
        case 0:
            CHECK(!op_add(&t, a, b));
            break;
        case 1:
            CHECK(!op_gather(&t, a, index, 2));
            break;
        case 2:
            CHECK(!op_cross_entropy(&t, a, label));
            break;
        case 3:
            CHECK(!op_slice(&t, a, 2, 2));
            break;
        case 4:
            CHECK(!op_dropout(&t, a, 1, &r));
            break;
        case 5:
            CHECK(!op_glu(&t, a));
            break;
        case 6:
            CHECK(!op_seq_mean(&t, a, &empty_text));
            break;
        case 7:
            CHECK(!op_linear(&t, a, a, a));
            break;
        case 8:
            CHECK(!op_clamp(&t, a, 1, 0));
            break;
        case 9:
            CHECK(!op_concat(&t, (node *[]){a, b}, 2));
            break;
        case 10:
            CHECK(!op_permute(&t, a, index, 1));
            break;
        }
        CHECK_FAILS(tape_status(&t), STET_EUSAGE, bad[i].message);
    }
    arena_deinit(&mem);
}

TEST(a_missing_kernel_is_named_with_its_device)
{
    arena mem = {0};
    tape t = new_tape(&mem, true);
    const store_desc desc = {.name = "cuda", .kernels = DEV_CUDA, .host = true};
    t.store = &(store){.desc = &desc};
    if (op_table[OP_scale].forward[DEV_CUDA])
        SKIP("this build has a CUDA backend");
    node *x = tape_input(&t, shape1(4), numbers, numbers_grad);
    CHECK(!op_scale(&t, x, 2));
    CHECK_FAILS(tape_status(&t), STET_ENOTSUP, "op scale has no forward kernel on cuda");
    arena_deinit(&mem);
}

TEST(backward_wants_one_number)
{
    arena mem = {0};
    tape t = new_tape(&mem, true);
    node *x = tape_input(&t, shape1(4), numbers, numbers_grad);
    CHECK_FAILS(tape_backward(&t, op_exp(&t, x)), STET_EINTERNAL, "one element");
    arena_deinit(&mem);
}

TEST(dropout_keeps_the_mean_and_follows_its_stream)
{
    enum { N = 200000 };
    arena mem = {0};
    tape t = new_tape(&mem, true);
    real *ones = arena_new(&mem, real, N), *grad = arena_znew(&mem, real, N);
    for (size_t i = 0; i < N; i++)
        ones[i] = 1;
    rng r = rng_stream(1, STREAM_DROPOUT, 0);
    const rng saved = r;
    node *x = tape_input(&t, shape1(N), ones, grad);
    node *first = op_dropout(&t, x, 0.3, &r), *second = op_dropout(&t, x, 0.3, &r);
    r = saved;
    node *again = op_dropout(&t, x, 0.3, &r);
    size_t kept = 0, same = 0, neighbours = 0;
    for (size_t i = 0; i < N; i++) {
        const double y = (double)first->value[i];
        CHECK(y == 0 || fabs(y - 1 / 0.7) < 1e-6);
        CHECK(first->value[i] == again->value[i]);
        kept += y != 0;
        same += (y != 0) == (second->value[i] != 0);
        neighbours += i > 0 && y != 0 && first->value[i - 1] != 0;
    }
    /* five standard deviations of N draws are 0.006 */
    CHECK_NEAR((double)kept / N, 0.7, 0.006);
    CHECK_NEAR((double)same / N, 0.58, 0.006);
    CHECK_NEAR((double)neighbours / N, 0.49, 0.008);
    CHECK_OK(tape_backward(&t, op_sum(&t, first)));
    for (size_t i = 0; i < N; i++)
        CHECK(grad[i] == first->value[i]); /* the mask is the gradient */
    arena_deinit(&mem);
}

TEST(losses_stay_finite_for_huge_logits)
{
    arena mem = {0};
    tape t = new_tape(&mem, true);
    real z[] = {1e4f, -1e4f, -1e4f, 1e4f}, dz[4] = {0}, u[] = {-1e4f, 1e4f}, du[2] = {0};
    const int32_t label[] = {1, 1};
    node *ce = op_cross_entropy(&t, tape_input(&t, shape2(2, 2), z, dz), label);
    node *bce = op_bce_logits(&t, tape_input(&t, shape2(2, 1), u, du), label);
    CHECK_NEAR(ce->value[0], 1e4, 1e-2);
    CHECK_NEAR(bce->value[0], 5e3, 1e-2);
    CHECK_OK(tape_backward(&t, op_add(&t, ce, bce)));
    CHECK_NEAR(dz[0], 0.5, 1e-6);
    CHECK_NEAR(dz[2], 0, 1e-6);
    CHECK_NEAR(du[0], -0.5, 1e-6);
    CHECK_NEAR(du[1], 0, 1e-6);
    arena_deinit(&mem);
}

TEST(a_nan_is_not_hidden)
{
    arena mem = {0};
    tape t = new_tape(&mem, false);
    real bad = NAN, good = 1;
    node *x = tape_constant(&t, shape1(1), &bad), *y = tape_constant(&t, shape1(1), &good);
    node *results[] = {op_relu(&t, x),   op_abs(&t, x),    op_clamp(&t, x, -1, 1),
                       op_min(&t, x, y), op_min(&t, y, x), op_max(&t, x, y),
                       op_max(&t, y, x), op_gelu(&t, x),   op_tanh(&t, x)};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        CHECK(isnan(results[i]->value[0]));
    arena_deinit(&mem);
}

TEST(a_learner_is_set_by_the_first_walk_and_added_to_by_the_next)
{
    enum { N = 6 };
    arena mem = {0};
    real x[N] = {1, 2, 3, 4, 5, 6}, *garbage = arena_new(&mem, real, 4 * N);
    CHECK(garbage);
    for (size_t i = 0; i < 4 * N; i++) /* what a step before has left there */
        garbage[i] = 77;
    arena_restore(&mem, (arena_mark){0});
    tape t = new_tape(&mem, true);
    node *read = tape_learner(&t, shape2(2, 3), x), *unread = tape_learner(&t, shape2(2, 3), x);
    static const uint32_t row[] = {1};
    node *loss = op_sum(&t, op_gather(&t, read, row, 1));
    for (int walk = 1; walk <= 2; walk++) {
        CHECK_OK(tape_backward(&t, loss));
        for (size_t i = 0; i < N; i++) {
            CHECK_NEAR(read->grad[i], i < 3 ? 0 : walk, 0);
            CHECK_NEAR(unread->grad[i], 0, 0);
        }
    }
    tape still = new_tape(&mem, true); /* a loss that reads nothing that learns */
    node *alone = tape_learner(&still, shape1(N), x);
    memset(alone->grad, 1, N * sizeof *alone->grad);
    CHECK_OK(tape_backward(&still, op_sum(&still, tape_constant(&still, shape1(N), x))));
    for (size_t i = 0; i < N; i++)
        CHECK_NEAR(alone->grad[i], 0, 0);
    tape fixed = new_tape(&mem, false);
    CHECK(!tape_learner(&fixed, shape1(N), x)->needs_grad);
    arena_deinit(&mem);
}

/* One step of a small network that uses most kinds of scratch memory. */
static stet_status training_step(arena *mem)
{
    enum { B = 128, D = 70, H = 150 };
    static real x[B * D], w[H * D], b[H], gamma[H], beta[H], v[2 * H], c[2];
    static real dw[H * D], db[H], dgamma[H], dbeta[H], dv[2 * H], dc[2];
    static int32_t label[B];
    rng r = rng_stream(2, STREAM_DROPOUT, 0);
    for (size_t i = 0; i < H * D; i++)
        w[i] = (real)rng_range(&r, -1, 1);
    for (size_t i = 0; i < B * D; i++)
        x[i] = (real)rng_range(&r, -1, 1);
    const arena_mark mark = arena_save(mem);
    tape t;
    tape_init(&t, mem, NULL, true);
    node *h = op_linear(&t, tape_constant(&t, shape2(B, D), x), tape_input(&t, shape2(H, D), w, dw),
                        tape_input(&t, shape1(H), b, db));
    h = op_layer_norm(&t, op_gelu(&t, h), tape_input(&t, shape1(H), gamma, dgamma),
                      tape_input(&t, shape1(H), beta, dbeta), 1e-5);
    h = op_dropout(&t, h, 0.2, &r);
    node *logits =
        op_linear(&t, h, tape_input(&t, shape2(2, H), v, dv), tape_input(&t, shape1(2), c, dc));
    node *loss = op_add(&t, op_cross_entropy(&t, logits, label), op_scale(&t, op_sum(&t, h), 1e-3));
    const stet_status st = tape_backward(&t, loss);
    arena_restore(mem, mark);
    return st;
}

TEST(a_step_takes_no_memory_after_the_first)
{
    arena mem = {0};
    CHECK_OK(training_step(&mem));
    const size_t grown = mem.grown, allocations = mem_count();
    for (int i = 0; i < 5; i++)
        CHECK_OK(training_step(&mem));
    CHECK_EQ(mem.grown, grown);
    CHECK_EQ(mem_count(), allocations);
    arena_deinit(&mem);
}

static stet_status one_step(void *ctx)
{
    (void)ctx;
    arena mem = {0};
    const stet_status st = training_step(&mem);
    arena_deinit(&mem);
    return st;
}

TEST(a_step_survives_every_failed_allocation)
{
    CHECK_LE(4, ALLOC_FAIL_LOOP(one_step, NULL));
}
