/* The bounds of certified training against the golden vectors of the specification. */
#include "base/mem.h"
#include "bound/bound_ops.h"
#include "bound/conv_joint.h"
#include "bound/lstm_ranges.h"
#include "bound/s4_gate_norm.h"
#include "bound/s4_ranges.h"
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

/* ---- the networks of the golden file ------------------------------------------------------- */

/* Small networks that begin with a linear map of every word, which no kind of model here has in front of
 * a convolution or an LSTM. They are put together from the ops of training: ranges of the map over each
 * word's set; then, where the next op wants words, the corners of these boxes, whose ranges are the
 * box's. */
enum { IBP_WORDS = 12, IBP_TOKENS = 8, IBP_CORNERS = 4, IBP_ROWS = 1 + IBP_CORNERS, IBP_TEXTS = 2 };

typedef struct ibp_net {
    const json_t *net, *want;
    double eps, kappa;
    arena mem;
    tape t;
    seq_index seq; /* of both texts */
    uint32_t text_start[IBP_TEXTS + 1];
    int32_t label[IBP_TEXTS];
    size_t n_params;
    struct {
        const char *name;
        const size_t *order; /* number i of the file is number order[i] here; NULL: i */
        real *grad;
    } param[10];
    node *side[RANGE_SIDES]; /* (T, 2): what the map makes of words */
} ibp_net;

static const json_t *key_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!v)
        test_fail(__FILE__, __LINE__, "the golden file has no '%s'", key);
    return v;
}

static real *ibp_numbers(ibp_net *x, size_t n)
{
    real *own = arena_znew(&x->mem, real, n);
    CHECK(own);
    return own;
}

/* A weight of the file with a gradient. */
static node *ibp_param(ibp_net *x, const char *name, shape s, const size_t *order)
{
    const size_t n = shape_count(s);
    real *file = ibp_numbers(x, n), *value = ibp_numbers(x, n), *grad = ibp_numbers(x, n);
    CHECK_EQ(numbers(key_of(x->net, name), file), n);
    for (size_t i = 0; i < n; i++)
        value[order ? order[i] : i] = file[i];
    x->param[x->n_params].name = name;
    x->param[x->n_params].order = order;
    x->param[x->n_params++].grad = grad;
    return tape_input(&x->t, s, value, grad);
}

static node *ibp_constant(ibp_net *x, shape s, const real *value)
{
    real *own = ibp_numbers(x, shape_count(s));
    if (value)
        memcpy(own, value, shape_count(s) * sizeof *own);
    return tape_constant(&x->t, s, own);
}

/* Sets over rows of a table; rows without a set may be anything. */
static void ibp_sets(ibp_net *x, const word_sets *s, node *table, const seq_index *seq,
                     const uint32_t *id, batch_sets *out)
{
    static uint32_t slot[IBP_TOKENS * IBP_ROWS + IBP_WORDS];
    batch *b = arena_znew(&x->mem, batch, 1);
    CHECK(b);
    *b = (batch){.seq = *seq, .word = id};
    const pass p = {.t = &x->t, .table = table};
    CHECK_OK(batch_sets_make(s, &p, b, slot, out));
}

/* The words of both texts, their sets, and the map of each. */
static void ibp_begin(ibp_net *x, const json_t *file, const char *kind, const char *eps)
{
    static uint32_t start[IBP_WORDS + 1], word[32], id[IBP_WORDS], row[IBP_TOKENS];
    const json_t *c = key_of(key_of(file, "ibp"), kind), *texts = key_of(c, "words");
    const json_t *set[IBP_WORDS] = {NULL};
    *x = (ibp_net){.net = key_of(c, "net"), .want = key_of(c, eps)};
    x->eps = atof(eps + strlen("eps_"));
    x->kappa = json_number_value(key_of(x->want, "kappa"));
    CHECK_EQ(json_array_size(texts), IBP_TEXTS);
    uint32_t T = 0, n = 0;
    for (size_t b = 0; b < IBP_TEXTS; b++) {
        const json_t *places = json_array_get(texts, b);
        x->label[b] = (int32_t)json_integer_value(json_array_get(key_of(c, "y"), b));
        for (size_t i = 0; i < json_array_size(places); i++) {
            const json_t *words = json_array_get(places, i);
            row[T] = (uint32_t)json_integer_value(json_array_get(words, 0));
            set[row[T++]] = words;
        }
        x->text_start[b + 1] = T;
    }
    CHECK(T <= IBP_TOKENS && x->text_start[1] >= T - x->text_start[1]);
    for (uint32_t w = 0; w < IBP_WORDS; w++) {
        id[w] = w;
        start[w] = n;
        for (size_t s = 1; s < json_array_size(set[w]); s++)
            word[n++] = (uint32_t)json_integer_value(json_array_get(set[w], s));
    }
    start[IBP_WORDS] = n;
    x->seq = (seq_index){IBP_TEXTS, T, IBP_WORDS, x->text_start[1], x->text_start, row};
    tape_init(&x->t, &x->mem, NULL, true);
    real *E = ibp_numbers(x, IBP_WORDS * 3);
    CHECK_EQ(numbers(key_of(key_of(file, "net"), "E"), E), IBP_WORDS * 3);
    batch_sets *sets = arena_znew(&x->mem, batch_sets, 1);
    CHECK(sets);
    node *table = tape_constant(&x->t, shape2(IBP_WORDS, 3), E);
    ibp_sets(x, &(word_sets){IBP_WORDS, start, word}, table, &x->seq, id, sets);
    node *map[] = {ibp_param(x, "R", shape2(2, 3), NULL), ibp_param(x, "rb", shape1(2), NULL),
                   sets->rows};
    const set_ranges_args a = {sets, x->eps};
    node *box = tape_push(&x->t, &s4_encoder_ranges_op, map, 3, &a, sizeof a),
         *centre = op_slice(&x->t, box, 0, 2), *radius = op_slice(&x->t, box, 2, 2);
    x->side[RANGE_VALUE] = op_linear(&x->t, op_gather(&x->t, table, row, T), map[0], map[1]);
    x->side[RANGE_LOWER] = op_sub(&x->t, centre, radius);
    x->side[RANGE_UPPER] = op_add(&x->t, centre, radius);
    CHECK_OK(tape_status(&x->t));
}

/* Lower and upper ends (T, 2) under a key of every text; only the first case has them. */
static void ibp_check_ends(const ibp_net *x, const char *key, const node *lo, const node *hi,
                           bool relu)
{
    const json_t *texts = key_of(x->want, "texts");
    for (size_t b = 0; x->eps == 1 && b < IBP_TEXTS; b++)
        for (int upper = 0; upper < 2; upper++) {
            const json_t *box = key_of(json_array_get(texts, b), key);
            const node *end = upper ? hi : lo;
            real want[2 * IBP_TOKENS];
            const size_t n = numbers(key_of(box, upper ? "hi" : "lo"), want);
            CHECK_EQ(n, 2 * (x->text_start[b + 1] - x->text_start[b]));
            for (size_t i = 0; i < n; i++) {
                const double w = relu ? fmax(0, (double)want[i]) : (double)want[i];
                CHECK_NEAR(end->value[2 * x->text_start[b] + i], w,
                           value_tolerance * (1 + fabs(w)));
            }
        }
}

/* From features of every position to the loss, logits that an interval has, and gradients. */
static void ibp_end(ibp_net *x, node *const of_token[RANGE_SIDES])
{
    tape *t = &x->t;
    const json_t *texts = key_of(x->want, "texts"), *grad = key_of(x->want, "grad");
    node *mean[RANGE_SIDES];
    for (int s = 0; s < RANGE_SIDES; s++)
        mean[s] = op_seq_mean(t, of_token[s], &x->seq);
    /* one logit: that of class 1, where class 0 has none */
    node *last = ibp_param(x, "w", shape2(1, 2), NULL),
         *w = op_matmul(t, ibp_constant(x, shape2(2, 1), (real[]){0, 1}), false, last, false),
         *b = op_row_sum(t, op_matmul(t, ibp_constant(x, shape2(2, 1), (real[]){0, 1}), false,
                                      ibp_param(x, "c", shape2(1, 1), NULL), false));
    static const int32_t one[] = {1, 1}, zero[] = {0, 0};
    node *val = mean[RANGE_VALUE], *lo = mean[RANGE_LOWER], *hi = mean[RANGE_UPPER],
         *clean = op_cross_entropy(t, worst_logits(t, val, val, w, b, x->label), x->label),
         *worst = op_cross_entropy(t, worst_logits(t, lo, hi, w, b, x->label), x->label),
         *loss = op_mix(t, worst, x->kappa, clean, 1 - x->kappa);
    const node *logit = worst_logits(t, val, val, w, b, zero),
               *top = worst_logits(t, lo, hi, w, b, zero),
               *low = worst_logits(t, lo, hi, w, b, one);
    double of_clean = 0, of_worst = 0;
    CHECK_OK(tape_backward(t, loss));
    for (size_t i = 0; i < IBP_TEXTS; i++) {
        const json_t *of_text = json_array_get(texts, i);
        of_clean += json_number_value(key_of(of_text, "loss_clean")) / IBP_TEXTS;
        of_worst += json_number_value(key_of(of_text, "loss_cert")) / IBP_TEXTS;
        CHECK_NEAR(logit->value[2 * i + 1], json_number_value(key_of(of_text, "logit")),
                   2 * value_tolerance);
        CHECK_NEAR(-low->value[2 * i], json_number_value(key_of(of_text, "logit_lo")),
                   2 * value_tolerance);
        CHECK_NEAR(top->value[2 * i + 1], json_number_value(key_of(of_text, "logit_hi")),
                   2 * value_tolerance);
    }
    CHECK_NEAR(clean->value[0], of_clean, value_tolerance);
    CHECK_NEAR(worst->value[0], of_worst, value_tolerance);
    CHECK_NEAR(loss->value[0], json_number_value(key_of(x->want, "loss")), value_tolerance);
    CHECK_EQ(x->n_params, json_object_size(grad));
    for (size_t i = 0; i < x->n_params; i++) {
        real want[16];
        const size_t n = numbers(key_of(grad, x->param[i].name), want);
        for (size_t k = 0; k < n; k++) {
            const size_t at = x->param[i].order ? x->param[i].order[k] : k;
            const double got = (double)x->param[i].grad[at], g = (double)want[k];
            if (!(fabs(got - g) <= gradient_tolerance * (1 + fabs(g))))
                test_fail(__FILE__, __LINE__, "%s[%zu]: %.17g, golden %.17g", x->param[i].name, k,
                          got, g);
        }
    }
    arena_deinit(&x->mem);
}

/* A table whose row IBP_ROWS p is position p as it is, followed by the corners of its box; a row of zeros
 * at the end. Sets: every position's corners. */
static node *ibp_corners(ibp_net *x, word_sets *sets)
{
    static uint32_t start[IBP_TOKENS * IBP_ROWS + 2], word[IBP_TOKENS * IBP_CORNERS],
        from[IBP_TOKENS * IBP_ROWS + 1];
    const size_t T = x->seq.n_tokens, n = T * IBP_ROWS + 1;
    real *keep = ibp_numbers(x, n * 6);
    uint32_t n_words = 0;
    for (uint32_t r = 0; r < n; r++) {
        const uint32_t p = r / IBP_ROWS, corner = r % IBP_ROWS;
        from[r] = p < T ? p : 0;
        start[r] = n_words;
        /* value, lower ends, upper ends: two columns each */
        for (uint32_t d = 0; p < T && d < 2; d++)
            keep[r * 6 + (corner ? 2 + 2 * ((corner - 1) >> d & 1) : 0) + d] = 1;
        for (uint32_t k = 1; p < T && corner == 0 && k < IBP_ROWS; k++)
            word[n_words++] = r + k;
    }
    start[n] = n_words;
    *sets = (word_sets){n, start, word};
    static const real add[] = {1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1};
    node *all = op_gather(&x->t, op_concat(&x->t, x->side, RANGE_SIDES), from, n);
    return op_matmul(&x->t, op_mul(&x->t, all, ibp_constant(x, shape2(n, 6), keep)), false,
                     ibp_constant(x, shape2(6, 2), add), false);
}

static void ibp_relu(ibp_net *x)
{
    ibp_check_ends(x, "first", x->side[RANGE_LOWER], x->side[RANGE_UPPER], false);
    for (int s = 0; s < RANGE_SIDES; s++)
        x->side[s] = op_relu(&x->t, x->side[s]);
}

/* Its convolution has a result at every position, the ops here one for the whole text: every window is a
 * text of its own, with a word of zeros where it leaves the text. */
static void ibp_cnn(const json_t *file, const char *eps)
{
    enum { K = 3 };
    static uint32_t start[IBP_TOKENS + 1], row[IBP_TOKENS * K], id[IBP_TOKENS * IBP_ROWS + 1];
    ibp_net x;
    word_sets sets;
    batch_sets of_windows;
    ibp_begin(&x, file, "cnn", eps);
    ibp_relu(&x);
    node *table = ibp_corners(&x, &sets);
    const size_t T = x.seq.n_tokens;
    for (uint32_t r = 0; r < sets.n_words; r++)
        id[r] = r;
    for (uint32_t b = 0; b < IBP_TEXTS; b++)
        for (uint32_t p = x.text_start[b]; p < x.text_start[b + 1]; p++) {
            start[p + 1] = K * (p + 1);
            for (uint32_t l = 0; l < K; l++) {
                const bool in = p + l >= x.text_start[b] + 1 && p + l < x.text_start[b + 1] + 1;
                row[K * p + l] = (uint32_t)(in ? IBP_ROWS * (p + l - 1) : IBP_ROWS * T);
            }
        }
    const seq_index windows = {T, K * T, sets.n_words, K, start, row};
    ibp_sets(&x, &sets, table, &windows, id, &of_windows);
    size_t order[2 * 2 * K]; /* the file's taps come before its channels */
    for (size_t f = 0; f < 2; f++)
        for (size_t l = 0; l < K; l++)
            for (size_t d = 0; d < 2; d++)
                order[(f * K + l) * 2 + d] = (f * 2 + d) * K + l;
    node *w = ibp_param(&x, "K", shape3(2, 2, K), order), *b = ibp_param(&x, "kb", shape1(2), NULL),
         *y = op_conv_ranges(&x.t, &of_windows, w, b, 1, false), *side[RANGE_SIDES];
    for (size_t s = 0; s < RANGE_SIDES; s++)
        side[s] = op_slice(&x.t, y, 2 * s, 2);
    CHECK_OK(tape_status(&x.t));
    ibp_check_ends(&x, "conv", side[RANGE_LOWER], side[RANGE_UPPER], true);
    ibp_end(&x, side);
}

/* Gates are i f o g there, i f g o here. */
static void ibp_lstm(const json_t *file, const char *eps)
{
    static uint32_t row[IBP_TOKENS], id[IBP_TOKENS * IBP_ROWS + 1];
    static const size_t units[] = {0, 1, 2, 3, 6, 7, 4, 5};
    ibp_net x;
    word_sets sets;
    batch_sets s;
    ibp_begin(&x, file, "lstm", eps);
    ibp_relu(&x);
    node *table = ibp_corners(&x, &sets);
    for (uint32_t r = 0; r < sets.n_words; r++)
        id[r] = r;
    for (uint32_t p = 0; p < x.seq.n_tokens; p++)
        row[p] = IBP_ROWS * p;
    const seq_index seq = {IBP_TEXTS,     x.seq.n_tokens, sets.n_words,
                           x.seq.max_len, x.text_start,   row};
    ibp_sets(&x, &sets, table, &seq, id, &s);
    size_t order[16];
    for (size_t i = 0; i < 16; i++)
        order[i] = 2 * units[i / 2] + i % 2;
    node *w[8] = {ibp_param(&x, "X", shape2(8, 2), order), ibp_param(&x, "U", shape2(8, 2), order),
                  ibp_param(&x, "z", shape1(8), units), ibp_constant(&x, shape1(8), NULL)};
    for (int i = 4; i < 8; i++) /* backwards: nothing */
        w[i] = ibp_constant(&x, i < 6 ? shape2(8, 2) : shape1(8), NULL);
    node *ends = op_bilstm_states_ranges(&x.t, &s, w, 1),
         *side[] = {op_slice(&x.t, op_bilstm_states(&x.t, table, w, &seq, NULL), 0, 2),
                    op_slice(&x.t, ends, 0, 2), op_slice(&x.t, ends, 4, 2)};
    CHECK_OK(tape_status(&x.t));
    const json_t *texts = key_of(x.want, "texts");
    for (size_t b = 0; x.eps == 1 && b < IBP_TEXTS; b++)
        for (size_t p = 0; p < x.text_start[b + 1] - x.text_start[b]; p++) {
            const json_t *h = json_array_get(key_of(json_array_get(texts, b), "h"), p);
            const size_t at = 2 * (x.text_start[b] + p);
            check_numbers("lower ends", key_of(h, "lo"), side[RANGE_LOWER]->value + at,
                          value_tolerance);
            check_numbers("upper ends", key_of(h, "hi"), side[RANGE_UPPER]->value + at,
                          value_tolerance);
        }
    ibp_end(&x, side);
}

/* The kernel is that of two real states, B C exp(-A t); nothing stands between GELU and the mean, as in no
 * block of the kind. */
static void ibp_s4(const json_t *file, const char *eps)
{
    enum { L = 4 };
    static const real lag[L] = {0, -1, -2, -3}, every[L] = {1, 1, 1, 1};
    ibp_net x;
    ibp_begin(&x, file, "s4", eps);
    ibp_check_ends(&x, "first", x.side[RANGE_LOWER], x.side[RANGE_UPPER], false);
    tape *t = &x.t;
    CHECK_EQ(x.seq.max_len, L);
    node *a = ibp_param(&x, "A", shape2(2, 1), NULL), *b = ibp_param(&x, "Bc", shape2(2, 1), NULL),
         *c = ibp_param(&x, "Cc", shape2(2, 1), NULL), *d = ibp_param(&x, "Dd", shape1(2), NULL),
         *decay = op_exp(t, op_matmul(t, a, false, ibp_constant(&x, shape2(1, L), lag), false)),
         *k = op_mul(
             t, decay,
             op_matmul(t, op_mul(t, b, c), false, ibp_constant(&x, shape2(1, L), every), false));
    node *k_d[] = {k, d}, *size = tape_push(t, &s4_magnitude_op, k_d, 2, NULL, 0);
    node *lo = x.side[RANGE_LOWER], *hi = x.side[RANGE_UPPER],
         *centre = op_s4_conv(t, op_mix(t, lo, 0.5, hi, 0.5), k, d, &x.seq),
         *radius = op_s4_conv(t, op_mix(t, hi, 0.5, lo, -0.5), size,
                              ibp_constant(&x, shape1(2), NULL), &x.seq),
         *box = op_gelu_box(t, centre, radius), *middle = op_slice(t, box, 0, 2),
         *half = op_slice(t, box, 2, 2);
    node *side[] = {op_gelu(t, op_s4_conv(t, x.side[RANGE_VALUE], k, d, &x.seq)),
                    op_sub(t, middle, half), op_add(t, middle, half)};
    CHECK_OK(tape_status(t));
    ibp_check_ends(&x, "y", op_sub(t, centre, radius), op_add(t, centre, radius), false);
    ibp_check_ends(&x, "gelu", side[RANGE_LOWER], side[RANGE_UPPER], false);
    ibp_end(&x, side);
}

TEST(interval_training_is_that_of_the_golden_file)
{
    static void (*const kinds[])(const json_t *, const char *) = {ibp_cnn, ibp_lstm, ibp_s4};
    json_t *file = golden("../defenses.json");
    for (int k = 0; k < 3; k++) {
        kinds[k](file, "eps_1");
        kinds[k](file, "eps_0.6");
    }
    json_decref(file);
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
