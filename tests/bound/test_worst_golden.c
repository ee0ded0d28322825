/* The bounds of certified training against the golden vectors of the specification. */
#include "base/mem.h"
#include "bound/conv_joint.h"
#include "bound/lstm_ranges.h"
#include "bound/s4_gate_norm.h"
#include "bound/worst_case.h"
#include "golden.h"

enum { N = 4, MAX_SET = 8, MAX_DIM = 4 };

/* One text of N positions, each a word of its own with its own set: E[position][word][coordinate],
 * the clean word first. */
typedef struct text {
    arena mem;
    tape t;
    batch_sets sets;
} text;

static void text_make(text *x, const json_t *E, size_t dim)
{
    static uint32_t start[N * MAX_SET + 1], word[N * MAX_SET], slot[N * MAX_SET], row[N], id[N];
    static uint32_t text_start[] = {0, N};
    *x = (text){.mem = {0}};
    size_t n = N;
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
    *b = (batch){.seq = {1, N, N, N, text_start, row}, .word = id};
    tape_init(&x->t, &x->mem, NULL, false);
    const pass p = {.t = &x->t, .table = tape_constant(&x->t, shape2(n, dim), rows)};
    CHECK_OK(batch_sets_make(&sets, &p, b, slot, &x->sets));
    CHECK_EQ(x->sets.n_rows, n);
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
