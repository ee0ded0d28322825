/* tests/tensor/test_s4.c - the S4 ops against golden values, the naive recurrence in double, finite
 * differences (in the double build), and themselves with other threads and other texts beside.
 *
 * Tolerances are relative to the largest entry of the array compared. The kernel is computed in
 * double and rounded once; a convolution in float sums up to 512 products and is claimed to 2e-6.
 */
#include "test.h"

#include <complex.h>

#include "alloc_fail.h"
#include "base/json.h"
#include "tensor/cpu/s4_conv.h"
#include "tensor/ops.h"

static const double KERNEL_TOL = sizeof(real) == 4 ? 1.2e-7 : 1e-13;
static const double SUM_TOL = sizeof(real) == 4 ? 2e-7 : 4e-16;
static const double CONV_TOL = sizeof(real) == 4 ? 1e-6 : 1e-13;

enum { A, W, P, B, C, LOG_DT, D, U, N_INPUTS };
static const char *const input_name[N_INPUTS] = {"a", "w", "p", "b", "c", "log_dt", "d", "u"};

/* a layer: channels, states, a packed batch -------------------------------------------------- */

enum { MAX_TEXTS = 16 };
typedef struct layer {
    size_t channels, states, len;
    seq_index seq;
    uint32_t start[MAX_TEXTS + 1], *row;
    shape shape[N_INPUTS];
    real *value[N_INPUTS], *grad[N_INPUTS];
    real *dy; /* (T, channels): the loss is sum(dy * y) */
} layer;

static real *new_reals(size_t n)
{
    real *x = calloc(n, sizeof *x);
    CHECK(x);
    return x;
}

static void fill(real *x, size_t n, rng *r, double mean, double spread)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (real)(float)(mean + spread * rng_normal(r)); /* the same numbers in both builds */
}

/* Lengths end with a 0 and fall. */
static void layer_init(layer *l, size_t channels, size_t states, const uint32_t *lengths)
{
    *l = (layer){.channels = channels, .states = states, .len = lengths[0]};
    size_t texts = 0;
    for (; lengths[texts]; texts++)
        l->start[texts + 1] = l->start[texts] + lengths[texts];
    CHECK_LE(texts, MAX_TEXTS);
    l->row = calloc(l->start[texts],
                    sizeof *l->row); /* every token reads row 0: the ops look at texts only */
    CHECK(l->row);
    l->seq = (seq_index){.n_texts = texts,
                         .n_tokens = l->start[texts],
                         .n_rows = 1,
                         .max_len = lengths[0],
                         .start = l->start,
                         .row = l->row};
    const shape per_state = shape2(channels, states), pair = shape3(channels, states, 2);
    const shape shapes[N_INPUTS] = {per_state,
                                    per_state,
                                    pair,
                                    pair,
                                    pair,
                                    shape1(channels),
                                    shape1(channels),
                                    shape2(l->start[texts], channels)};
    const double mean[N_INPUTS] = {[A] = -0.7, [W] = 6, [LOG_DT] = -3.5};
    const double spread[N_INPUTS] = {0.3, 4, 0.5, 1, 0.7, 0.7, 1, 1};
    rng r = rng_stream(11, STREAM_TEST, channels * states);
    for (int i = 0; i < N_INPUTS; i++) {
        const size_t n = shape_count(shapes[i]);
        l->shape[i] = shapes[i];
        l->value[i] = new_reals(n);
        l->grad[i] = new_reals(n);
        fill(l->value[i], n, &r, mean[i], spread[i]);
    }
    l->dy = new_reals(shape_count(shapes[U]));
    fill(l->dy, shape_count(shapes[U]), &r, 0, 1);
}

static void layer_free(layer *l)
{
    for (int i = 0; i < N_INPUTS; i++) {
        free(l->value[i]);
        free(l->grad[i]);
    }
    free(l->dy);
    free(l->row);
}

static node *input(layer *l, tape *t, int i, bool with_grad)
{
    return tape_input(t, l->shape[i], l->value[i], with_grad ? l->grad[i] : NULL);
}

/* Forward; with `wanted` (a bit per input) also backward into l->grad. y may be NULL. */
static stet_status layer_run(layer *l, arena *mem, unsigned wanted, real *y, double *loss)
{
    tape t;
    tape_init(&t, mem, NULL, true);
    node *in[N_INPUTS];
    for (int i = 0; i < N_INPUTS; i++)
        in[i] = input(l, &t, i, wanted >> i & 1);
    node *k = op_s4_kernel(&t, in[A], in[W], in[P], in[B], in[C], in[LOG_DT], l->len);
    node *out = op_s4_conv(&t, in[U], k, in[D], &l->seq);
    node *sum = op_sum(&t, op_mul(&t, out, tape_constant(&t, l->shape[U], l->dy)));
    TRY(tape_status(&t));
    if (y)
        memcpy(y, out->value, shape_count(out->shape) * sizeof *y);
    if (loss)
        *loss = (double)sum->value[0];
    return wanted ? tape_backward(&t, sum) : STET_OK;
}

static const unsigned ALL = (1u << N_INPUTS) - 1;

static void run_ok(layer *l, unsigned wanted, real *y, double *loss)
{
    arena mem = {0};
    CHECK_OK(layer_run(l, &mem, wanted, y, loss));
    arena_deinit(&mem);
}

static double largest(const double *x, size_t n)
{
    double m = 0;
    for (size_t i = 0; i < n; i++)
        m = fmax(m, fabs(x[i]));
    return m;
}

static void check_close_to(const char *what, const real *got, const double *want, size_t n,
                           double tol, double scale)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= tol * scale))
            test_fail(__FILE__, __LINE__, "%s[%zu]: %.9g against %.9g, off by %.2g of %.3g", what,
                      i, (double)got[i], want[i], fabs((double)got[i] - want[i]) / scale, scale);
}

static void check_close(const char *what, const real *got, const double *want, size_t n, double tol)
{
    check_close_to(what, got, want, n, tol, largest(want, n));
}

/* the naive form ----------------------------------------------------------------------------- */

enum { MAX_STATES = 32 };
typedef double complex states[MAX_STATES];

static double complex pair_at(const layer *l, int which, size_t at)
{
    return (double)l->value[which][2 * at] + I * (double)l->value[which][2 * at + 1];
}

typedef struct channel {
    size_t n;
    double delta, rho;
    states p, b, c, dh;
} channel;

static channel channel_of(const layer *l, size_t h)
{
    channel ch = {.n = l->states, .delta = 2 * exp(-(double)l->value[LOG_DT][h])};
    for (size_t i = 0; i < ch.n; i++) {
        const size_t at = h * l->states + i;
        ch.p[i] = pair_at(l, P, at);
        ch.b[i] = pair_at(l, B, at);
        ch.c[i] = pair_at(l, C, at);
        ch.dh[i] = 1 / (ch.delta + exp((double)l->value[A][at]) + I * (double)l->value[W][at]);
        ch.rho += 2 * creal(conj(ch.p[i]) * ch.p[i]) * creal(ch.dh[i]);
    }
    return ch;
}

static void solve(const channel *ch, const double complex *x, double complex *out)
{
    double sum = 0;
    for (size_t i = 0; i < ch->n; i++)
        sum += 2 * creal(conj(ch->p[i]) * ch->dh[i] * x[i]);
    for (size_t i = 0; i < ch->n; i++)
        out[i] = ch->dh[i] * (x[i] - ch->p[i] * sum / (1 + ch->rho));
}

/* z_t = Abar z_{t-1} + Bbar u_t, y_t = 2 Re(C.z_t) + d u_t, with Abar x = 2 delta solve(x) - x. */
static void naive_channel(const layer *l, size_t h, double *y)
{
    const channel ch = channel_of(l, h);
    states bbar;
    solve(&ch, ch.b, bbar);
    for (size_t text = 0; text < l->seq.n_texts; text++) {
        states z = {0}, x;
        for (size_t t = l->start[text]; t < l->start[text + 1]; t++) {
            const double u = (double)l->value[U][t * l->channels + h];
            double sum = (double)l->value[D][h] * u;
            solve(&ch, z, x);
            for (size_t i = 0; i < ch.n; i++) {
                z[i] = 2 * ch.delta * x[i] - z[i] + 2 * bbar[i] * u;
                sum += 2 * creal(ch.c[i] * z[i]);
            }
            y[t * l->channels + h] = sum;
        }
    }
}

static const uint32_t many_lengths[] = {512, 511, 300, 129, 128, 127, 65, 64,
                                        63,  33,  17,  8,   7,   2,   1,  0};

TEST(outputs_agree_with_the_naive_recurrence)
{
    layer l;
    layer_init(&l, 35, 32, many_lengths);
    const size_t n = shape_count(l.shape[U]);
    real *y = new_reals(n);
    double *want = calloc(n, sizeof *want);
    CHECK(want);
    run_ok(&l, 0, y, NULL);
    for (size_t h = 0; h < l.channels; h++)
        naive_channel(&l, h, want);
    check_close("y", y, want, n, CONV_TOL);
    free(want);
    free(y);
    layer_free(&l);
}

/* golden values ------------------------------------------------------------------------------ */

static size_t flatten(const json_t *x, double *out, size_t n)
{
    if (!json_is_array(x)) {
        out[n] = json_number_value(x);
        return n + 1;
    }
    for (size_t i = 0; i < json_array_size(x); i++)
        n = flatten(json_array_get(x, i), out, n);
    return n;
}

static void check_golden_case(const json_t *c)
{
    const json_t *params = json_object_get(c, "params"), *grads = json_object_get(c, "grad");
    const size_t len = (size_t)json_integer_value(json_object_get(c, "len"));
    const size_t n = json_array_size(json_object_get(params, "a"));
    const shape per_state = shape2(1, n), pair = shape3(1, n, 2);
    const shape shapes[] = {per_state, per_state, pair, pair, pair, shape1(1)};
    double x[256];
    real value[D][256], grad[D][256] = {{0}}, weight[256];
    arena mem = {0};
    tape t;
    tape_init(&t, &mem, NULL, true);
    node *in[D];
    for (int i = 0; i < D; i++) {
        CHECK_EQ(flatten(json_object_get(params, input_name[i]), x, 0), shape_count(shapes[i]));
        for (size_t j = 0; j < shape_count(shapes[i]); j++)
            value[i][j] = (real)x[j];
        in[i] = tape_input(&t, shapes[i], value[i], grad[i]);
    }
    node *k = op_s4_kernel(&t, in[A], in[W], in[P], in[B], in[C], in[LOG_DT], len);
    CHECK_OK(tape_status(&t));
    CHECK_EQ(flatten(json_object_get(c, "kernel"), x, 0), len);
    check_close("kernel", k->value, x, len, KERNEL_TOL);

    flatten(json_object_get(c, "dkernel"), x, 0);
    for (size_t i = 0; i < len; i++)
        weight[i] = (real)x[i];
    CHECK_OK(tape_backward(&t, op_sum(&t, op_mul(&t, k, tape_constant(&t, k->shape, weight)))));
    for (int i = 0; i < D; i++) {
        const size_t count = flatten(json_object_get(grads, input_name[i]), x, 0);
        check_close(input_name[i], grad[i], x, count, sizeof(real) == 4 ? 1e-6 : 1e-12);
    }
    arena_deinit(&mem);
}

TEST(kernels_and_their_gradients_agree_with_the_golden_file)
{
    json_t *root = NULL;
    CHECK_OK(json_read_file(STET_SOURCE_DIR "/tests/golden/s4.json", &root));
    const json_t *cases = json_object_get(root, "cases");
    CHECK_EQ(json_array_size(cases), 2);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_golden_case(json_array_get(cases, i));
    json_decref(root);
}

/* gradients ---------------------------------------------------------------------------------- */

/* A convolution and its gradients as sums over pairs of tokens, in double. */
typedef struct pair_sums {
    double *y, *du, *dk, *dd;
    double k_size, u_size, dy_size; /* Euclidean, of one channel, the largest over channels */
} pair_sums;

static double *new_doubles(size_t n)
{
    double *x = calloc(n, sizeof *x);
    CHECK(x);
    return x;
}

static double column_size(const real *x, size_t n, size_t stride)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i * stride] * (double)x[i * stride];
    return sqrt(sum);
}

static pair_sums sum_pairs(const layer *l, const real *k)
{
    const size_t h = l->channels, n = shape_count(l->shape[U]), len = l->len;
    pair_sums s = {new_doubles(n), new_doubles(n), new_doubles(h * len), new_doubles(h), 0, 0, 0};
    const real *u = l->value[U], *d = l->value[D];
    for (size_t c = 0; c < h; c++) {
        s.k_size = fmax(s.k_size, column_size(k + c * len, len, 1) + fabs((double)d[c]));
        s.u_size = fmax(s.u_size, column_size(u + c, l->seq.n_tokens, h));
        s.dy_size = fmax(s.dy_size, column_size(l->dy + c, l->seq.n_tokens, h));
    }
    for (size_t text = 0; text < l->seq.n_texts; text++)
        for (size_t i = l->start[text]; i < l->start[text + 1]; i++)
            for (size_t c = 0; c < h; c++) {
                const double dy = (double)l->dy[i * h + c];
                s.y[i * h + c] += (double)d[c] * (double)u[i * h + c];
                s.dd[c] += dy * (double)u[i * h + c];
                s.du[i * h + c] += dy * (double)d[c];
                for (size_t j = l->start[text]; j <= i; j++) {
                    const double ku = (double)k[c * len + i - j], uj = (double)u[j * h + c];
                    s.y[i * h + c] += ku * uj;
                    s.du[j * h + c] += dy * ku;
                    s.dk[c * len + i - j] += dy * uj;
                }
            }
    return s;
}

static void check_convolution(layer *l, size_t direct_max)
{
    const size_t h = l->channels, n = shape_count(l->shape[U]);
    real *k = new_reals(h * l->len), *dk = new_reals(h * l->len);
    rng r = rng_stream(5, STREAM_TEST, 0);
    fill(k, h * l->len, &r, 0, 0.2);
    for (int i = D; i <= U; i++)
        memset(l->grad[i], 0, shape_count(l->shape[i]) * sizeof(real));

    arena mem = {0};
    tape t;
    tape_init(&t, &mem, NULL, true);
    node *kernel = tape_input(&t, shape2(h, l->len), k, dk);
    node *y = op_s4_conv(&t, input(l, &t, U, true), kernel, input(l, &t, D, true), &l->seq);
    CHECK_OK(tape_status(&t));
    memset(y->value, 0, n * sizeof(real));
    y->grad = l->dy;
    CHECK_OK(s4_conv_forward(&t, y, direct_max));
    CHECK_OK(s4_conv_backward(&t, y, direct_max));

    const pair_sums want = sum_pairs(l, k);
    check_close_to("y", y->value, want.y, n, SUM_TOL, want.k_size * want.u_size);
    check_close_to("du", l->grad[U], want.du, n, SUM_TOL, want.k_size * want.dy_size);
    check_close_to("dK", dk, want.dk, h * l->len, SUM_TOL, want.u_size * want.dy_size);
    check_close_to("dd", l->grad[D], want.dd, h, SUM_TOL, want.u_size * want.dy_size);
    arena_deinit(&mem);
    free(want.y);
    free(want.du);
    free(want.dk);
    free(want.dd);
    free(k);
    free(dk);
}

TEST(direct_and_spectral_convolutions_agree_with_double_sums)
{
    layer l;
    layer_init(&l, 19, 1, many_lengths);
    check_convolution(&l, SIZE_MAX);
    check_convolution(&l, 0);
    check_convolution(&l, S4_DIRECT_MAX);
    layer_free(&l);
}

TEST(every_length_around_a_block_is_convolved)
{
    layer l;
    for (uint32_t len = 1; len < 140; len += len < 60 ? 7 : 1) {
        const uint32_t lengths[] = {len, 0};
        layer_init(&l, 2, 1, lengths);
        check_convolution(&l, SIZE_MAX);
        check_convolution(&l, 0);
        layer_free(&l);
    }
}

#ifdef STET_DOUBLE
/* Central differences through both ops; the entries of large arrays are sampled. */
TEST(gradients_agree_with_finite_differences)
{
    static const uint32_t lengths[] = {150, 64, 9, 1, 0};
    layer l;
    layer_init(&l, 3, 5, lengths);
    run_ok(&l, ALL, NULL, NULL);
    rng r = rng_stream(3, STREAM_TEST, 0);
    for (int i = 0; i < N_INPUTS; i++) {
        const size_t n = shape_count(l.shape[i]);
        double scale = 0;
        for (size_t j = 0; j < n; j++)
            scale = fmax(scale, fabs(l.grad[i][j]));
        CHECK(scale > 0);
        for (size_t trial = 0; trial < (n < 40 ? n : 40); trial++) {
            const size_t at = n < 40 ? trial : rng_below(&r, n);
            const real keep = l.value[i][at];
            const double step = 1e-5;
            double hi, lo;
            l.value[i][at] = keep + step;
            run_ok(&l, 0, NULL, &hi);
            l.value[i][at] = keep - step;
            run_ok(&l, 0, NULL, &lo);
            l.value[i][at] = keep;
            if (!(fabs((hi - lo) / (2 * step) - l.grad[i][at]) <= 1e-7 * scale))
                test_fail(__FILE__, __LINE__, "d%s[%zu]: %.10g by differences, %.10g by backward",
                          input_name[i], at, (hi - lo) / (2 * step), l.grad[i][at]);
        }
    }
    layer_free(&l);
}
#endif

/* The layer is linear in u, so the gradient of u along u is the loss: a check of float through both
 * ops. */
TEST(the_gradient_of_u_recovers_the_loss)
{
    layer l;
    layer_init(&l, 16, 32, many_lengths);
    double loss, along = 0, size = 0;
    run_ok(&l, ALL, NULL, &loss);
    for (size_t i = 0; i < shape_count(l.shape[U]); i++) {
        const double term = (double)l.grad[U][i] * (double)l.value[U][i];
        along += term;
        size += fabs(term);
    }
    CHECK_NEAR(along / size, loss / size, CONV_TOL);
    layer_free(&l);
}

TEST(gradients_are_added_and_only_where_wanted)
{
    static const uint32_t lengths[] = {90, 20, 3, 0};
    layer once, again;
    layer_init(&once, 17, 4, lengths);
    run_ok(&once, ALL, NULL, NULL);
    for (int i = 0; i < N_INPUTS; i++) {
        layer_init(&again, 17, 4, lengths);
        run_ok(&again, 1u << i, NULL, NULL);
        run_ok(&again, 1u << i, NULL, NULL);
        for (int j = 0; j < N_INPUTS; j++)
            for (size_t k = 0; k < shape_count(once.shape[j]); k++)
                CHECK_NEAR(again.grad[j][k], i == j ? 2 * once.grad[j][k] : 0, 0);
        layer_free(&again);
    }
    layer_free(&once);
}

/* same bits ---------------------------------------------------------------------------------- */

TEST(one_and_two_threads_give_the_same_bits)
{
    layer one, two;
    layer_init(&one, 53, 32, many_lengths);
    layer_init(&two, 53, 32, many_lengths);
    const size_t n = shape_count(one.shape[U]);
    real *y1 = new_reals(n), *y2 = new_reals(n);
    stet_set_threads(1);
    run_ok(&one, ALL, y1, NULL);
    stet_set_threads(2);
    run_ok(&two, ALL, y2, NULL);
    CHECK(memcmp(y1, y2, n * sizeof *y1) == 0);
    for (int i = 0; i < N_INPUTS; i++)
        CHECK(memcmp(one.grad[i], two.grad[i], shape_count(one.shape[i]) * sizeof(real)) == 0);
    free(y1);
    free(y2);
    layer_free(&one);
    layer_free(&two);
}

TEST(a_shorter_kernel_is_the_start_of_a_longer_one)
{
    static const uint32_t lengths[] = {200, 0};
    layer l;
    layer_init(&l, 9, 8, lengths);
    arena mem = {0};
    tape t;
    tape_init(&t, &mem, NULL, false);
    node *in[N_INPUTS];
    for (int i = 0; i < N_INPUTS; i++)
        in[i] = input(&l, &t, i, false);
    const node *all = op_s4_kernel(&t, in[A], in[W], in[P], in[B], in[C], in[LOG_DT], 200);
    for (size_t len = 1; len < 200; len += 33) {
        const node *k = op_s4_kernel(&t, in[A], in[W], in[P], in[B], in[C], in[LOG_DT], len);
        CHECK_OK(tape_status(&t));
        for (size_t h = 0; h < l.channels; h++)
            CHECK(memcmp(k->value + h * len, all->value + h * 200, len * sizeof(real)) == 0);
    }
    arena_deinit(&mem);
    layer_free(&l);
}

TEST(a_text_does_not_touch_its_neighbours)
{
    layer l;
    layer_init(&l, 16, 4, many_lengths);
    const size_t n = shape_count(l.shape[U]), h = l.channels;
    real *before = new_reals(n), *after = new_reals(n);
    run_ok(&l, 0, before, NULL);
    for (size_t i = l.start[4] * h; i < l.start[5] * h; i++)
        l.value[U][i] = (real)NAN;
    run_ok(&l, 0, after, NULL);
    for (size_t i = 0; i < n; i++)
        if (i < l.start[4] * h || i >= l.start[5] * h)
            CHECK(before[i] == after[i]);
        else
            CHECK(isnan(after[i]));
    free(before);
    free(after);
    layer_free(&l);
}

/* With a kernel of whole blocks the result of a text has the same bits in any company. */
TEST(a_text_alone_has_the_bits_it_has_in_a_batch)
{
    layer all, one;
    layer_init(&all, 16, 4, many_lengths);
    const size_t h = all.channels;
    real *y = new_reals(shape_count(all.shape[U])), *alone = new_reals(512 * h);
    run_ok(&all, 0, y, NULL);
    for (size_t text = 0; text < all.seq.n_texts; text++) {
        const uint32_t lengths[] = {many_lengths[text], 0};
        layer_init(&one, 16, 4, lengths);
        one.len = 512;
        memcpy(one.value[U], all.value[U] + all.start[text] * h, lengths[0] * h * sizeof(real));
        memcpy(one.value[D], all.value[D], h * sizeof(real));
        run_ok(&one, 0, alone, NULL);
        CHECK(memcmp(alone, y + all.start[text] * h, lengths[0] * h * sizeof(real)) == 0);
        layer_free(&one);
    }
    free(y);
    free(alone);
    layer_free(&all);
}

static stet_status run_once(void *ctx)
{
    arena mem = {0};
    const stet_status st = layer_run(ctx, &mem, ALL, NULL, NULL);
    arena_deinit(&mem);
    return st;
}

TEST(every_failed_allocation_is_reported)
{
    static const uint32_t lengths[] = {400, 0};
    layer l;
    layer_init(&l, 64, 32, lengths);
    CHECK_LE(4, ALLOC_FAIL_LOOP(run_once, &l));
    layer_free(&l);
}
