/* The bounds of certified training against the golden vectors of the specification. */
#include "base/mem.h"
#include "bound/conv_joint.h"
#include "bound/lstm_ranges.h"
#include "bound/s4_gate_norm.h"
#include "bound/worst_case.h"
#include "golden.h"

enum { MOST = 4, MAX_SET = 8, MAX_DIM = 4 };

/* Texts, each position a word of its own with its own set: E[position][word][coordinate], the clean
 * word first. */
typedef struct text {
    arena mem;
    tape t;
    batch_sets sets;
} text;

/* `lengths` (n_texts) fall. */
static void texts_make(text *x, const json_t *E, size_t dim, const uint32_t *lengths,
                       size_t n_texts)
{
    static uint32_t start[MOST * MAX_SET + 1], word[MOST * MAX_SET], slot[MOST * MAX_SET],
        row[MOST], id[MOST], text_start[MOST + 1];
    const uint32_t N = (uint32_t)json_array_size(E);
    *x = (text){.mem = {0}};
    size_t n = N;
    CHECK(N <= MOST);
    for (size_t i = 0; i < n_texts; i++)
        text_start[i + 1] = text_start[i] + lengths[i];
    CHECK_EQ(text_start[n_texts], N);
    memset(start, 0, sizeof start);
    for (uint32_t p = 0; p < N; p++) {
        row[p] = id[p] = p;
        start[p] = (uint32_t)n - N;
        for (size_t s = 1; s < json_array_size(json_array_get(E, p)); s++, n++)
            word[n - N] = (uint32_t)n;
    }
    for (size_t i = N; i <= n; i++)
        start[i] = (uint32_t)n - N;
    const word_sets sets = {n, start, word};
    batch *b = arena_znew(&x->mem, batch, 1);
    real *rows = arena_new(&x->mem, real, n * dim), *next = rows + N * dim;
    CHECK(b && rows);
    for (size_t p = 0; p < N; p++) {
        const json_t *words = json_array_get(E, p);
        CHECK_EQ(numbers(json_array_get(words, 0), rows + p * dim), dim);
        for (size_t s = 1; s < json_array_size(words); s++)
            next += numbers(json_array_get(words, s), next);
    }
    *b = (batch){.seq = {n_texts, N, N, lengths[0], text_start, row}, .word = id};
    tape_init(&x->t, &x->mem, NULL, false);
    const pass p = {.t = &x->t, .table = tape_constant(&x->t, shape2(n, dim), rows)};
    CHECK_OK(batch_sets_make(&sets, &p, b, slot, &x->sets));
    CHECK_EQ(x->sets.n_rows, n);
}

static void text_make(text *x, const json_t *E, size_t dim)
{
    texts_make(x, E, dim, &(uint32_t){(uint32_t)json_array_size(E)}, 1);
}

static node *constant(text *x, shape s, const json_t *v)
{
    real *value = arena_new(&x->mem, real, shape_count(s));
    CHECK(value);
    CHECK_EQ(numbers(v, value), shape_count(s));
    return tape_constant(&x->t, s, value);
}

static double number(const json_t *o, const char *a, const char *b)
{
    const json_t *v = json_object_get(json_object_get(o, a), b);
    CHECK(json_is_number(v));
    return json_number_value(v);
}

TEST(interval_and_joint_bounds_of_a_cnn_are_the_golden_ones)
{
    json_t *o = golden("cnn.json");
    const json_t *cert = json_object_get(o, "cert"), *params = json_object_get(o, "params");
    text x;
    text_make(&x, json_object_get(cert, "E"), 2);
    node *conv[4] = {constant(&x, shape3(2, 2, 2), json_object_get(params, "W2")),
                     constant(&x, shape1(2), json_object_get(params, "b2")),
                     constant(&x, shape3(2, 2, 3), json_object_get(params, "W3")),
                     constant(&x, shape1(2), json_object_get(params, "b3"))};
    node *w = constant(&x, shape2(2, 4), json_object_get(params, "F")),
         *b = constant(&x, shape1(2), json_object_get(params, "fb"));
    const int32_t label = (int32_t)json_integer_value(json_object_get(cert, "y"));
    node *windows[2], *side[RANGE_SIDES];
    for (int i = 0; i < 2; i++)
        windows[i] = op_conv_ranges(&x.t, &x.sets, conv[2 * i], conv[2 * i + 1], 1, true);
    for (size_t s = 0; s < RANGE_SIDES; s++) {
        node *part[] = {op_slice(&x.t, windows[0], 2 * s, 2), op_slice(&x.t, windows[1], 2 * s, 2)};
        side[s] = op_concat(&x.t, part, 2);
    }
    const joint_args a = {
        .s = &x.sets, .eps = 1, .n = 2, .ranges = {windows[0], windows[1]}, .label = &label};
    const node *clean = worst_logits(&x.t, side[0], side[0], w, b, &label),
               *ibp = worst_logits(&x.t, side[RANGE_LOWER], side[RANGE_UPPER], w, b, &label),
               *joint = op_conv_joint(&x.t, &a, conv, w, b);
    CHECK_OK(tape_status(&x.t));
    const double tol = sizeof(real) == 4 ? 1e-6 : 1e-12;
    CHECK_NEAR(-clean->value[1 - label], number(cert, "bounds", "clean"), tol);
    CHECK_NEAR(-ibp->value[1 - label], number(cert, "bounds", "ibp"), tol);
    CHECK_NEAR(-joint->value[1 - label], number(cert, "bounds", "lin_ibp"), tol);
    arena_deinit(&x.mem);
    json_decref(o);
}

/* Gates in nn.LSTM's order. */
static node *gates(text *x, const json_t *params, char kind, shape each)
{
    const size_t n = shape_count(each);
    real *value = arena_new(&x->mem, real, 4 * n);
    CHECK(value);
    for (size_t g = 0; g < 4; g++) {
        const char name[] = {kind, "ifgo"[g], '\0'};
        CHECK_EQ(numbers(json_object_get(params, name), value + g * n), n);
    }
    shape all = each;
    all.dim[0] *= 4;
    return tape_constant(&x->t, all, value);
}

TEST(interval_bounds_of_a_bilstm_are_the_golden_ones)
{
    json_t *o = golden("lstm_cert.json");
    text x;
    text_make(&x, json_object_get(o, "E"), 3);
    static const real zeros[8];
    node *w[8];
    for (int d = 0; d < 2; d++) {
        const json_t *params = json_object_get(o, d ? "params_bwd" : "params_fwd");
        w[4 * d] = gates(&x, params, 'W', shape2(2, 3));
        w[4 * d + 1] = gates(&x, params, 'U', shape2(2, 2));
        w[4 * d + 2] = gates(&x, params, 'b', shape1(2));
        w[4 * d + 3] = tape_constant(&x.t, shape1(8), zeros);
    }
    const node *ends = op_bilstm_ranges(&x.t, &x.sets, w, 1);
    CHECK_OK(tape_status(&x.t));
    real om[4];
    CHECK_EQ(numbers(json_object_get(o, "om"), om), 4);
    double box = json_number_value(json_object_get(o, "be"));
    for (size_t i = 0; i < 4; i++) /* the golden head reads relu(h) */
        box += (double)om[i] * fmax(0, (double)ends->value[om[i] >= 0 ? i : 4 + i]);
    CHECK_NEAR(box, number(json_object_get(o, "certs"), "ibp", "box"),
               sizeof(real) == 4 ? 1e-6 : 1e-12);
    arena_deinit(&x.mem);
    json_decref(o);
}

/* A closed gate (a = 0) leaves the layer norm of u: the golden box of r goes in, that of n comes
 * out. */
TEST(ranges_of_a_layer_norm_are_the_golden_ones)
{
    enum { T = 4, H = 4 };
    json_t *o = golden("s4_cert.json");
    const json_t *boxes = json_object_get(o, "boxes");
    arena mem = {0};
    tape t;
    tape_init(&t, &mem, NULL, false);
    real lo[2][T * H], hi[2][T * H], centre[T * H], radius[T * H];
    static const char *const names[] = {"r", "n"};
    for (int b = 0; b < 2; b++) {
        const json_t *box = json_object_get(boxes, names[b]);
        CHECK_EQ(numbers(json_object_get(box, "lo"), lo[b]), T * H);
        CHECK_EQ(numbers(json_object_get(box, "hi"), hi[b]), T * H);
    }
    for (size_t i = 0; i < T * H; i++) {
        centre[i] = (lo[0][i] + hi[0][i]) / 2;
        radius[i] = (hi[0][i] - lo[0][i]) / 2;
    }
    static const real zeros[T * 2 * H], ones[H] = {1, 1, 1, 1};
    node *x = tape_constant(&t, shape2(T, 2 * H), zeros);
    const node *y = op_s4_gate_norm(
        &t, x, x, tape_constant(&t, shape2(T, H), centre), tape_constant(&t, shape2(T, H), radius),
        tape_constant(&t, shape1(H), ones), tape_constant(&t, shape1(H), zeros), 1e-5);
    CHECK_OK(tape_status(&t));
    for (size_t i = 0; i < T * H; i++) {
        const real *row = y->value + i / H * 2 * H + i % H;
        CHECK_NEAR(row[0] - row[H], lo[1][i], sizeof(real) == 4 ? 1e-5 : 1e-11);
        CHECK_NEAR(row[0] + row[H], hi[1][i], sizeof(real) == 4 ? 1e-5 : 1e-11);
    }
    arena_deinit(&mem);
    json_decref(o);
}

/* ---- intervals by hand -------------------------------------------------------------------- */

static node *values(text *x, shape s, const real *v)
{
    real *own = arena_new(&x->mem, real, shape_count(s));
    CHECK(own);
    memcpy(own, v, shape_count(s) * sizeof *own);
    return tape_constant(&x->t, s, own);
}

static void texts_of(text *x, const char *sets, size_t dim, const uint32_t *lengths, size_t n_texts)
{
    json_t *E = json_loads(sets, 0, NULL);
    CHECK(E);
    texts_make(x, E, dim, lengths, n_texts);
    json_decref(E);
}

static void text_of(text *x, const char *sets, size_t dim)
{
    json_t *E = json_loads(sets, 0, NULL);
    CHECK(E);
    text_make(x, E, dim);
    json_decref(E);
}

static const double by_hand = sizeof(real) == 4 ? 2e-6 : 1e-6; /* as many digits as are printed */

/* Ranges of the map (1 -2; 0.5 1) x + (0, -1), before ReLU: lower ends, upper ends. */
static void check_affine(const char *sets, double eps, const double want[4])
{
    text x;
    text_of(&x, sets, 2);
    const double lift = 20; /* away from ReLU */
    node *w = values(&x, shape3(2, 2, 1), (real[]){1, -2, 0.5, 1}),
         *b = values(&x, shape1(2), (real[]){(real)lift, (real)lift - 1});
    const node *y = op_conv_ranges(&x.t, &x.sets, w, b, eps, false);
    CHECK_OK(tape_status(&x.t));
    for (size_t i = 0; i < 4; i++)
        CHECK_NEAR((double)y->value[2 + i] - lift, want[i], 4 * by_hand);
    arena_deinit(&x.mem);
}

TEST(boxes_of_an_affine_map_by_hand)
{
    /* the corners of a box have the box's range */
    check_affine("[[[0,-1],[2,-1],[0,1],[2,1]]]", 1, (double[]){-2, -2, 4, 1});
    check_affine("[[[1,1],[1,3]]]", 1, (double[]){-5, 0.5, -1, 2.5});
    /* candidates go through the map one by one: a box around them would give [-4, 2] x [-1, 2] */
    check_affine("[[[1,0],[0,1],[2,2]]]", 1, (double[]){-2, -0.5, 1, 2});
    check_affine("[[[1,0],[0,1],[2,2]]]", 0.5, (double[]){-0.5, -0.5, 1, 0.75});
    check_affine("[[[1,0],[0,1],[2,2]]]", 0, (double[]){1, -0.5, 1, -0.5});
}

TEST(pooled_boxes_and_worst_losses_by_hand)
{
    text x;
    text_of(&x, "[[[0,-1],[2,-1],[0,1],[2,1]], [[1,1],[1,3]]]", 2);
    node *w = values(&x, shape3(2, 2, 1), (real[]){1, -2, 0.5, 1}),
         *b = values(&x, shape1(2), (real[]){0, -1});
    node *y = op_conv_ranges(&x.t, &x.sets, w, b, 1, false), *lo = op_slice(&x.t, y, 2, 2),
         *hi = op_slice(&x.t, y, 4, 2);
    const double want[] = {0, 0.5, 4, 2.5};
    CHECK_OK(tape_status(&x.t));
    for (size_t i = 0; i < 4; i++)
        CHECK_NEAR(y->value[2 + i], want[i], by_hand);
    /* the lead of class 1 is (1, -1) f + 0.25, in [-2.25, 3.75]: not proved for either label */
    node *last = values(&x, shape2(2, 2), (real[]){0, 0, 1, -1}),
         *bias = values(&x, shape1(2), (real[]){0, 0.25});
    static const int32_t one = 1, zero = 0;
    CHECK_NEAR(worst_logits(&x.t, lo, hi, last, bias, &one)->value[0], 2.25, by_hand);
    CHECK_NEAR(worst_logits(&x.t, lo, hi, last, bias, &zero)->value[1], 3.75, by_hand);
    /* worst losses of a logit in [-0.5, 2] */
    node *worst = values(&x, shape2(1, 2), (real[]){0.5, 0});
    CHECK_NEAR(op_cross_entropy(&x.t, worst, &one)->value[0], 0.974077, by_hand);
    worst = values(&x, shape2(1, 2), (real[]){0, 2});
    CHECK_NEAR(op_cross_entropy(&x.t, worst, &zero)->value[0], 2.126928, by_hand);
    arena_deinit(&x.mem);
}

/* Each position a text: its ends are those of its own words. Then the mean over both. */
TEST(the_mean_over_positions_by_hand)
{
    text x;
    texts_of(&x, "[[[0,-1],[2,-1],[0,1],[2,1]], [[1,1],[1,3]]]", 2, (uint32_t[]){1, 1}, 2);
    node *w = values(&x, shape3(2, 2, 1), (real[]){1, -2, 0.5, 1}),
         *b = values(&x, shape1(2), (real[]){0, -1});
    static const uint32_t both[] = {0, 2}, row[] = {0, 1};
    const seq_index seq = {1, 2, 2, 2, both, row};
    node *each = op_conv_ranges(&x.t, &x.sets, w, b, 1, false);
    const node *mean = op_seq_mean(&x.t, op_slice(&x.t, each, 2, 4), &seq);
    CHECK_OK(tape_status(&x.t));
    const double want[] = {0, 0, 4, 1, 0, 0.5, 0, 2.5}, of_both[] = {0, 0.25, 2, 1.75};
    for (size_t i = 0; i < 4; i++) {
        CHECK_NEAR(each->value[2 + i], want[i], by_hand);
        CHECK_NEAR(each->value[8 + i], want[4 + i], by_hand);
        CHECK_NEAR(mean->value[i], of_both[i], by_hand);
    }
    arena_deinit(&x.mem);
}

/* Logits between two ends, through a last layer that changes nothing. */
static double worst_loss(const real lo[2], const real hi[2], int32_t label)
{
    text x = {.mem = {0}};
    tape_init(&x.t, &x.mem, NULL, false);
    node *same = values(&x, shape2(2, 2), (real[]){1, 0, 0, 1}),
         *none = values(&x, shape1(2), (real[]){0, 0});
    node *worst = worst_logits(&x.t, values(&x, shape2(1, 2), lo), values(&x, shape2(1, 2), hi),
                               same, none, &label);
    const node *loss = op_cross_entropy(&x.t, worst, &label);
    CHECK_OK(tape_status(&x.t));
    const double y = (double)loss->value[0];
    arena_deinit(&x.mem);
    return y;
}

TEST(losses_of_worst_logits_by_hand)
{
    const real lo[] = {1, 0}, hi[] = {2, 0.5}, for_0[] = {1, 0.5}, for_1[] = {2, 0};
    /* a label's own lower end against the other's upper end */
    CHECK_NEAR(worst_loss(lo, hi, 0), 0.474077, by_hand);
    CHECK_NEAR(worst_loss(lo, hi, 1), 2.126928, by_hand);
    /* the corners themselves; what is worst for one label is best for the other */
    CHECK_NEAR(worst_loss(for_0, for_0, 0), 0.474077, by_hand);
    CHECK_NEAR(worst_loss(for_0, for_0, 1), 0.974077, by_hand);
    CHECK_NEAR(worst_loss(for_1, for_1, 0), 0.126928, by_hand);
    CHECK_NEAR(worst_loss(for_1, for_1, 1), 2.126928, by_hand);
}

/* y = -2 x + b, x in [1, 3]: the upper end is at 1, and so is its gradient; the word at 3 has none.
 */
TEST(the_gradient_of_an_end_is_its_own_words)
{
    text x;
    text_of(&x, "[[[1],[3]]]", 1);
    tape_init(&x.t, &x.mem, NULL, true);
    static real w = -2, b = 10, dw, db, word[] = {1, 3}, dword[2];
    x.sets.rows = tape_input(&x.t, shape2(2, 1), word, dword);
    node *y = op_conv_ranges(&x.t, &x.sets, tape_input(&x.t, shape3(1, 1, 1), &w, &dw),
                             tape_input(&x.t, shape1(1), &b, &db), 1, false);
    CHECK_OK(tape_backward(&x.t, op_sum(&x.t, op_slice(&x.t, y, 2, 1))));
    CHECK_NEAR(y->value[2], 8, by_hand);
    CHECK_NEAR(dw, 1, by_hand);
    CHECK_NEAR(db, 1, by_hand);
    CHECK_NEAR(dword[0], -2, by_hand);
    CHECK_NEAR(dword[1], 0, by_hand);
    arena_deinit(&x.mem);
}

/* One unit that reads numbers forwards; (B, 4): its lower end, that of a unit backwards that does
 * nothing, the upper ends. */
static const node *lstm_ends(text *x)
{
    static const real none[4];
    node *w[8];
    /* i (1, 0.5, 0), f (0.5, -0.5, 1), g (2, -1, 0), o (-1, 1, 0): word, state, bias */
    w[0] = values(x, shape2(4, 1), (real[]){1, 0.5, 2, -1});
    w[1] = values(x, shape2(4, 1), (real[]){0.5, -0.5, -1, 1});
    w[2] = values(x, shape1(4), (real[]){0, 1, 0, 0});
    w[3] = w[6] = w[7] = values(x, shape1(4), none);
    w[4] = w[5] = values(x, shape2(4, 1), none);
    const node *ends = op_bilstm_ranges(&x->t, &x->sets, w, 1);
    CHECK_OK(tape_status(&x->t));
    return ends;
}

static void check_lstm(const char *sets, double lo, double hi)
{
    text x;
    text_of(&x, sets, 1);
    const node *ends = lstm_ends(&x);
    CHECK_NEAR(ends->value[0], lo, by_hand);
    CHECK_NEAR(ends->value[2], hi, by_hand);
    arena_deinit(&x.mem);
}

TEST(boxes_of_one_lstm_unit_by_hand)
{
    check_lstm("[[[-0.5],[1]]]", -0.314701, 0.378070);
    check_lstm("[[[-0.5],[1]], [[0]]]", -0.327516, 0.359738);
    /* points that the boxes hold */
    check_lstm("[[[1]]]", 0.163350, 0.163350);
    check_lstm("[[[-0.5]]]", -0.174203, -0.174203);
    check_lstm("[[[1]], [[0]]]", 0.214380, 0.214380);
    check_lstm("[[[-0.5]], [[0]]]", -0.060165, -0.060165);
    /* in one batch the shorter text stays where its last word left it */
    text x;
    texts_of(&x, "[[[-0.5],[1]], [[0]], [[-0.5],[1]]]", 1, (uint32_t[]){2, 1}, 2);
    const node *ends = lstm_ends(&x);
    CHECK_NEAR(ends->value[0], -0.327516, by_hand);
    CHECK_NEAR(ends->value[2], 0.359738, by_hand);
    CHECK_NEAR(ends->value[4], -0.314701, by_hand);
    CHECK_NEAR(ends->value[6], 0.378070, by_hand);
    arena_deinit(&x.mem);
}
