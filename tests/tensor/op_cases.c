/* tests/tensor/op_cases.c - see op_cases.h. */
#include "op_cases.h"

#include "test.h"

/* sizes -------------------------------------------------------------------------------------- */

/* Rows and columns of the variants: a single entry, odd sizes, sizes around vector widths, large.
 */
static const size_t plain_rows[OP_VARIANTS] = {1, 3, 5, 150};
static const size_t plain_cols[OP_VARIANTS] = {1, 7, 33, 301};

static void *take(arena *mem, size_t count, size_t size)
{
    void *p = arena_alloc(mem, count, size);
    CHECK(p);
    return p;
}

static void operand(op_case *c, shape s, double lo, double hi)
{
    c->in[c->n_in] = s;
    c->lo[c->n_in] = lo;
    c->hi[c->n_in++] = hi;
}

static void set_labels(op_case *c, size_t n, size_t classes, rng *r, arena *mem)
{
    int32_t *label = take(mem, n, sizeof *label);
    for (size_t i = 0; i < n; i++)
        label[i] = (int32_t)rng_below(r, classes);
    c->label = label;
}

static void set_index(op_case *c, size_t n, size_t rows, rng *r, arena *mem)
{
    uint32_t *index = take(mem, n, sizeof *index);
    for (size_t i = 0; i < n; i++)
        index[i] = (uint32_t)rng_below(r, rows);
    c->index = index;
    c->count = n;
}

/* Texts of falling length over `rows` input rows; the last one has a single word. */
static void set_sequence(op_case *c, size_t texts, size_t longest, size_t rows, rng *r, arena *mem)
{
    uint32_t *start = take(mem, texts + 1, sizeof *start);
    start[0] = 0;
    for (size_t b = 0; b < texts; b++) {
        const size_t len = b == 0 ? longest : 1 + (longest - 1) * (texts - 1 - b) / texts;
        start[b + 1] = start[b] + (uint32_t)len;
    }
    set_index(c, start[texts], rows, r, mem);
    c->seq = (seq_index){texts, start[texts], rows, longest, start, c->index};
}

static void one(op_case *c, int v, rng *r, arena *mem)
{
    (void)r, (void)mem;
    operand(c, shape2(plain_rows[v], plain_cols[v]), -2, 2);
}

static void one_positive(op_case *c, int v, rng *r, arena *mem)
{
    (void)r, (void)mem;
    operand(c, shape2(plain_rows[v], plain_cols[v]), 0.5, 3);
}

static void two(op_case *c, int v, rng *r, arena *mem)
{
    one(c, v, r, mem);
    one(c, v, r, mem);
}

/* matrices ----------------------------------------------------------------------------------- */

/* The variants go through the four transpositions; the large one has a long inner size. */
static void matmul_setup(op_case *c, int v, rng *r, arena *mem)
{
    (void)r, (void)mem;
    static const size_t m[] = {1, 4, 5, 260}, k[] = {3, 2, 7, 3000}, n[] = {2, 6, 3, 150};
    c->ta = v == 1 || v == 3;
    c->tb = v == 1 || v == 2;
    operand(c, c->ta ? shape2(k[v], m[v]) : shape2(m[v], k[v]), -1, 1);
    operand(c, c->tb ? shape2(n[v], k[v]) : shape2(k[v], n[v]), -1, 1);
}

static node *matmul_apply(tape *t, node *const *in, const op_case *c)
{
    return op_matmul(t, in[0], c->ta, in[1], c->tb);
}

static void bias_setup(op_case *c, int v, rng *r, arena *mem)
{
    one(c, v, r, mem);
    operand(c, shape1(plain_cols[v]), -1, 1);
}

static void linear_setup(op_case *c, int v, rng *r, arena *mem)
{
    static const size_t outputs[] = {1, 4, 2, 60};
    one(c, v, r, mem);
    operand(c, shape2(outputs[v], plain_cols[v]), -1, 1);
    operand(c, shape1(outputs[v]), -1, 1);
}

static node *linear_apply(tape *t, node *const *in, const op_case *c)
{
    (void)c;
    return op_linear(t, in[0], in[1], in[2]);
}

/* elementwise and reductions ----------------------------------------------------------------- */

#define APPLY1(name)                                                                               \
    static node *name##_apply(tape *t, node *const *in, const op_case *c)                          \
    {                                                                                              \
        (void)c;                                                                                   \
        return op_##name(t, in[0]);                                                                \
    }
#define APPLY2(name)                                                                               \
    static node *name##_apply(tape *t, node *const *in, const op_case *c)                          \
    {                                                                                              \
        (void)c;                                                                                   \
        return op_##name(t, in[0], in[1]);                                                         \
    }
APPLY2(add_bias)
APPLY2(add)
APPLY2(sub)
APPLY2(mul)
APPLY1(relu)
APPLY1(tanh)
APPLY1(sigmoid)
APPLY1(gelu)
APPLY1(exp)
APPLY1(log)
APPLY1(abs)
APPLY2(min)
APPLY2(max)
APPLY1(sum)
APPLY1(row_sum)
APPLY1(glu)
APPLY1(log_softmax)
APPLY2(kl)

static node *scale_apply(tape *t, node *const *in, const op_case *c)
{
    (void)c;
    return op_scale(t, in[0], -1.5);
}

static node *clamp_apply(tape *t, node *const *in, const op_case *c)
{
    (void)c;
    return op_clamp(t, in[0], -0.5, 1);
}

/* rows --------------------------------------------------------------------------------------- */

static void gather_setup(op_case *c, int v, rng *r, arena *mem)
{
    static const size_t n[] = {1, 5, 4, 400};
    one(c, v, r, mem);
    set_index(c, n[v], plain_rows[v], r, mem);
    c->ta = v == 2;
    if (c->ta) { /* a permutation */
        static const uint32_t other[] = {3, 0, 4, 2, 1};
        c->index = other;
        c->count = 5;
    }
}

static node *gather_apply(tape *t, node *const *in, const op_case *c)
{
    return (c->ta ? op_permute : op_gather)(t, in[0], c->index, c->count);
}

/* One operand, then two, then three. */
static void concat_setup(op_case *c, int v, rng *r, arena *mem)
{
    (void)r, (void)mem;
    const int n = v < 3 ? v + 1 : 3;
    for (int i = 0; i < n; i++)
        operand(c, shape2(plain_rows[v], plain_cols[v] + (size_t)i), -1, 1);
}

static node *concat_apply(tape *t, node *const *in, const op_case *c)
{
    return op_concat(t, in, c->n_in);
}

static void slice_setup(op_case *c, int v, rng *r, arena *mem)
{
    one(c, v, r, mem);
    c->first = plain_cols[v] / 3;
    c->count = plain_cols[v] - 2 * c->first;
}

static node *slice_apply(tape *t, node *const *in, const op_case *c)
{
    return op_slice(t, in[0], c->first, c->count);
}

static void seq_mean_setup(op_case *c, int v, rng *r, arena *mem)
{
    static const size_t texts[] = {1, 2, 5, 20}, longest[] = {1, 4, 6, 40};
    set_sequence(c, texts[v], longest[v], 3, r, mem);
    operand(c, shape2(c->seq.n_tokens, plain_cols[v]), -1, 1);
}

static node *seq_mean_apply(tape *t, node *const *in, const op_case *c)
{
    return op_seq_mean(t, in[0], &c->seq);
}

static node *seq_max_apply(tape *t, node *const *in, const op_case *c)
{
    return op_seq_max(t, in[0], &c->seq);
}

/* networks and losses ------------------------------------------------------------------------ */

/* The same mask every time. */
static node *dropout_apply(tape *t, node *const *in, const op_case *c)
{
    (void)c;
    rng stream = rng_stream(3, STREAM_DROPOUT, 0);
    return op_dropout(t, in[0], 0.3, &stream);
}

static void layer_norm_setup(op_case *c, int v, rng *r, arena *mem)
{
    (void)r, (void)mem;
    static const size_t cols[] = {2, 7, 35, 301};
    operand(c, shape2(plain_rows[v], cols[v]), -2, 2);
    operand(c, shape1(cols[v]), 0.5, 2);
    operand(c, shape1(cols[v]), -1, 1);
}

static node *layer_norm_apply(tape *t, node *const *in, const op_case *c)
{
    (void)c;
    return op_layer_norm(t, in[0], in[1], in[2], 1e-5);
}

static void glu_setup(op_case *c, int v, rng *r, arena *mem)
{
    (void)r, (void)mem;
    static const size_t half[] = {1, 3, 17, 301};
    operand(c, shape2(plain_rows[v], 2 * half[v]), -2, 2);
}

static void cross_entropy_setup(op_case *c, int v, rng *r, arena *mem)
{
    static const size_t rows[] = {1, 3, 8, 200}, classes[] = {2, 4, 20, 2};
    operand(c, shape2(rows[v], classes[v]), -3, 3);
    set_labels(c, rows[v], classes[v], r, mem);
}

static node *cross_entropy_apply(tape *t, node *const *in, const op_case *c)
{
    return op_cross_entropy(t, in[0], c->label);
}

static void bce_logits_setup(op_case *c, int v, rng *r, arena *mem)
{
    static const size_t rows[] = {1, 3, 8, 200};
    operand(c, shape2(rows[v], 1), -4, 4);
    set_labels(c, rows[v], 2, r, mem);
}

static node *bce_logits_apply(tape *t, node *const *in, const op_case *c)
{
    return op_bce_logits(t, in[0], c->label);
}

/* fused sequence ops ------------------------------------------------------------------------- */

/* Kernel sizes 1 to 5; the longest windows reach past the short texts. */
static void conv_pool_setup(op_case *c, int v, rng *r, arena *mem)
{
    static const size_t texts[] = {1, 2, 4, 12}, longest[] = {1, 5, 9, 60},
                        rows[] = {1, 6, 20, 250};
    static const size_t d[] = {2, 3, 5, 40}, f[] = {1, 4, 3, 50}, k[] = {1, 3, 5, 4};
    set_sequence(c, texts[v], longest[v], rows[v], r, mem);
    operand(c, shape2(rows[v], d[v]), -1, 1);
    operand(c, shape3(f[v], d[v], k[v]), -1, 1);
    operand(c, shape1(f[v]), -0.5, 0.5);
}

static node *conv_pool_apply(tape *t, node *const *in, const op_case *c)
{
    return op_conv_pool(t, in[0], in[1], in[2], &c->seq);
}

static void bilstm_setup(op_case *c, int v, rng *r, arena *mem)
{
    static const size_t texts[] = {1, 2, 5, 35}, longest[] = {1, 4, 6, 40}, rows[] = {1, 5, 9, 200};
    static const size_t d[] = {2, 3, 5, 30}, h[] = {1, 4, 7, 24};
    set_sequence(c, texts[v], longest[v], rows[v], r, mem);
    operand(c, shape2(rows[v], d[v]), -1, 1);
    for (int dir = 0; dir < 2; dir++) {
        operand(c, shape2(4 * h[v], d[v]), -0.8, 0.8);
        operand(c, shape2(4 * h[v], h[v]), -0.8, 0.8);
        operand(c, shape1(4 * h[v]), -0.5, 0.5);
        operand(c, shape1(4 * h[v]), -0.5, 0.5);
    }
}

static node *bilstm_apply(tape *t, node *const *in, const op_case *c)
{
    return op_bilstm(t, in[0], in + 1, &c->seq, NULL);
}

static node *bilstm_states_apply(tape *t, node *const *in, const op_case *c)
{
    return op_bilstm_states(t, in[0], in + 1, &c->seq, NULL);
}

static void s4_kernel_setup(op_case *c, int v, rng *r, arena *mem)
{
    (void)r, (void)mem;
    static const size_t h[] = {1, 2, 3, 40}, n[] = {1, 2, 8, 32}, len[] = {1, 6, 33, 300};
    operand(c, shape2(h[v], n[v]), -1.2, 0);
    operand(c, shape2(h[v], n[v]), 0.5, 8);
    for (int i = 0; i < 3; i++)
        operand(c, shape3(h[v], n[v], 2), -1, 1);
    operand(c, shape1(h[v]), -5, -2);
    c->count = len[v];
}

static node *s4_kernel_apply(tape *t, node *const *in, const op_case *c)
{
    return op_s4_kernel(t, in[0], in[1], in[2], in[3], in[4], in[5], c->count);
}

static void s4_conv_setup(op_case *c, int v, rng *r, arena *mem)
{
    static const size_t texts[] = {1, 2, 5, 12}, longest[] = {1, 5, 17, 300}, h[] = {1, 3, 5, 70};
    set_sequence(c, texts[v], longest[v], 3, r, mem);
    operand(c, shape2(c->seq.n_tokens, h[v]), -1, 1);
    operand(c, shape2(h[v], longest[v] + (size_t)v), -1, 1);
    operand(c, shape1(h[v]), -1, 1);
}

static void s4_filters_setup(op_case *c, int v, rng *r, arena *mem)
{
    (void)r, (void)mem;
    static const size_t filters[] = {1, 2, 3, 40}, rank[] = {1, 2, 3, 4}, dim[] = {1, 5, 7, 65},
                        len[] = {1, 3, 5, 8};
    const size_t h = filters[v] * rank[v];
    operand(c, shape2(h, dim[v]), -1, 1);
    operand(c, shape2(h, len[v]), -1, 1);
    operand(c, shape1(h), -1, 1);
    c->count = rank[v];
}

static node *s4_filters_apply(tape *t, node *const *in, const op_case *c)
{
    return op_s4_filters(t, in[0], in[1], in[2], c->count);
}

static node *s4_conv_apply(tape *t, node *const *in, const op_case *c)
{
    return op_s4_conv(t, in[0], in[1], in[2], &c->seq);
}

/* Lengths around and beyond a tile of queries: all queries; rows of their own, of one text more than
 * a tile and of another none; the first of each text alone; all, with weights dropped. */
static void attention_setup(op_case *c, int v, rng *r, arena *mem)
{
    static const size_t texts[] = {1, 3, 4, 6}, longest[] = {1, 5, 70, 150}, h[] = {2, 6, 8, 48};
    static const uint32_t asks[] = {0, 2, 2, 72};
    set_sequence(c, texts[v], longest[v], 3, r, mem);
    c->count = v == 0 ? 1 : v == 3 ? 4 : 2;
    size_t queries = v == 2 ? texts[v] : c->seq.n_tokens;
    if (v == 1) {
        c->asks = (seq_index){3, asks[3], 0, 70, asks, NULL};
        queries = asks[3];
    }
    operand(c, shape2(queries, h[v]), -2, 2);
    operand(c, shape2(c->seq.n_tokens, 2 * h[v]), -2, 2);
}

static node *attention_apply(tape *t, node *const *in, const op_case *c)
{
    rng stream = rng_stream(3, STREAM_DROPOUT, 0);
    return op_attention(t, in[0], in[1], c->count, &c->seq, c->asks.n_texts ? &c->asks : NULL,
                        c->count == 4 ? 0.2 : 0, &stream);
}

/* the table ---------------------------------------------------------------------------------- */

/* The tolerances are for finite differences in double and for float against double. Sums are as
 * exact as their length and the objective's size let them be; that is what sets the larger ones. */
#define ROW(name, setup, tol, float_tol)                                                           \
    [OP_##name] = {setup, name##_apply, {NAN, NAN}, false, tol, float_tol}
#define ROW_KINKED(name, setup, tol, float_tol, a, b)                                              \
    [OP_##name] = {setup, name##_apply, {a, b}, false, tol, float_tol}
#define ROW_TIED(name, setup, tol, float_tol)                                                      \
    [OP_##name] = {setup, name##_apply, {NAN, NAN}, true, tol, float_tol}

const op_test op_tests[OP_COUNT] = {
    ROW(matmul, matmul_setup, 1e-8, 1e-4),
    ROW(add_bias, bias_setup, 1e-8, 1e-5),
    ROW(linear, linear_setup, 1e-8, 1e-5),
    ROW(add, two, 1e-10, 1e-6),
    ROW(sub, two, 1e-10, 1e-6),
    ROW(mul, two, 1e-10, 1e-6),
    ROW(scale, one, 1e-10, 1e-6),
    ROW_KINKED(relu, one, 1e-10, 1e-6, 0, NAN),
    ROW(tanh, one, 1e-10, 1e-6),
    ROW(sigmoid, one, 1e-10, 1e-6),
    ROW(gelu, one, 1e-10, 1e-6),
    ROW(exp, one, 1e-10, 1e-6),
    ROW(log, one_positive, 1e-10, 1e-6),
    ROW_KINKED(abs, one, 1e-10, 1e-6, 0, NAN),
    ROW_TIED(min, two, 1e-10, 1e-6),
    ROW_TIED(max, two, 1e-10, 1e-6),
    ROW_KINKED(clamp, one, 1e-10, 1e-6, -0.5, 1),
    ROW(sum, one, 1e-8, 1e-6),
    ROW(row_sum, one, 1e-8, 1e-6),
    ROW(gather, gather_setup, 1e-10, 1e-6),
    ROW(concat, concat_setup, 1e-10, 1e-6),
    ROW(slice, slice_setup, 1e-10, 1e-6),
    ROW(dropout, one, 1e-10, 1e-6),
    ROW(layer_norm, layer_norm_setup, 1e-8, 1e-5),
    ROW(glu, glu_setup, 1e-10, 1e-6),
    ROW(log_softmax, one, 1e-8, 1e-5),
    ROW(cross_entropy, cross_entropy_setup, 1e-8, 1e-6),
    ROW(bce_logits, bce_logits_setup, 1e-10, 1e-6),
    ROW(kl, two, 1e-8, 1e-6),
    ROW(seq_mean, seq_mean_setup, 1e-10, 1e-6),
    ROW(seq_max, seq_mean_setup, 1e-10, 1e-6),
    ROW(conv_pool, conv_pool_setup, 1e-8, 1e-5),
    ROW(bilstm, bilstm_setup, 1e-8, 1e-5),
    ROW(bilstm_states, bilstm_setup, 1e-8, 1e-5),
    ROW(s4_kernel, s4_kernel_setup, 1e-8, 1e-4),
    ROW(s4_conv, s4_conv_setup, 1e-8, 2e-5), /* up to 300 products a sum, which may cancel */
    ROW(s4_filters, s4_filters_setup, 1e-8, 1e-5),
    ROW(attention, attention_setup, 1e-8, 1e-5),
};

/* values ------------------------------------------------------------------------------------- */

static bool too_near(double x, double point)
{
    return fabs(x - point) < 0.02; /* false for NAN */
}

real *op_case_values(const op_test *test, const op_case *c, int input, real *const *before, rng *r,
                     arena *mem)
{
    const size_t n = shape_count(c->in[input]);
    real *x = take(mem, n, sizeof *x);
    for (size_t i = 0; i < n; i++) {
        double v;
        do
            v = (float)rng_range(r, c->lo[input], c->hi[input]);
        while (too_near(v, test->kink[0]) || too_near(v, test->kink[1]) ||
               (test->kink_at_tie && input == 1 && too_near(v, (double)before[0][i])));
        x[i] = (real)v;
    }
    return x;
}
