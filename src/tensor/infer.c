/* tensor/infer.c - the shape of each op's result, and the one place where operands are checked.
 * Most ops see a tensor as a matrix (product of all dimensions but the last, last). */
#include "tensor/joined.h"
#include "tensor/tape.h"

typedef struct text {
    char s[80];
} text;
#define SHAPE(x) shape_text((x)->shape, (text){""}.s, sizeof(text))
#define NAME(n) (n)->op->name

static size_t rows(const node *x)
{
    return shape_rows(x->shape);
}

static size_t cols(const node *x)
{
    return shape_cols(x->shape);
}

static size_t count(const node *x)
{
    return shape_count(x->shape);
}

/* One row of `x` per row of the result, `c` columns; leading dimensions stay. */
static shape with_cols(const node *x, size_t c)
{
    shape s = x->shape.rank ? x->shape : shape1(1);
    s.dim[s.rank - 1] = c;
    return s;
}

static stet_status same_shape(const node *n, shape *out)
{
    *out = n->in[0]->shape;
    return STET_OK;
}

static stet_status two_alike(const node *n, shape *out)
{
    if (!shape_equal(n->in[0]->shape, n->in[1]->shape))
        return error_set(STET_EUSAGE, "%s: shapes %s and %s differ", NAME(n), SHAPE(n->in[0]),
                         SHAPE(n->in[1]));
    return same_shape(n, out);
}

stet_status op_expect_count(const node *n, int i, size_t expected, const char *what)
{
    if (count(n->in[i]) == expected)
        return STET_OK;
    return error_set(STET_EUSAGE, "%s: %s has shape %s, expected %zu elements", NAME(n), what,
                     SHAPE(n->in[i]), expected);
}

stet_status op_expect_shape(const node *n, int i, shape expected, const char *what)
{
    if (shape_equal(n->in[i]->shape, expected))
        return STET_OK;
    return error_set(STET_EUSAGE, "%s: %s has shape %s, expected %s", NAME(n), what,
                     SHAPE(n->in[i]), shape_text(expected, (text){""}.s, sizeof(text)));
}

/* Kernels follow these indices without looking. */
static stet_status expect_sequence(const node *n, const seq_index *seq)
{
    bool good = seq->n_texts > 0 && seq->start[0] == 0 && seq->start[seq->n_texts] == seq->n_tokens;
    size_t longest = seq->max_len;
    for (size_t b = 0; good && b < seq->n_texts; b++) {
        good = seq->start[b] < seq->start[b + 1] && seq->start[b + 1] - seq->start[b] <= longest;
        longest = good ? seq->start[b + 1] - seq->start[b] : 0;
    }
    for (size_t i = 0; good && seq->row && i < seq->n_tokens; i++)
        good = seq->row[i] < seq->n_rows;
    if (good)
        return STET_OK;
    return error_set(STET_EUSAGE,
                     "%s: expected texts sorted from long to short, none empty, with rows below %zu",
                     NAME(n), seq->n_rows);
}

static stet_status expect_labels(const node *n, size_t classes)
{
    const label_args *args = n->args;
    const size_t b = rows(n->in[0]);
    if (b == 0)
        return error_set(STET_EUSAGE, "%s: the mean over no rows", NAME(n));
    for (size_t i = 0; i < b; i++)
        if (args->label[i] < 0 || (size_t)args->label[i] >= classes)
            return error_set(STET_EUSAGE, "%s: row %zu has label %d, expected 0 to %zu", NAME(n), i,
                             (int)args->label[i], classes - 1);
    return STET_OK;
}

/* matrices ----------------------------------------------------------------------------------- */

stet_status op_matmul_infer(const node *n, shape *out)
{
    const matmul_args *args = n->args;
    const node *a = n->in[0], *b = n->in[1];
    const size_t inner_a = args->ta ? rows(a) : cols(a), inner_b = args->tb ? cols(b) : rows(b);
    if (inner_a != inner_b)
        return error_set(STET_EUSAGE, "%s: %s%s times %s%s: inner sizes %zu and %zu differ",
                         NAME(n), SHAPE(a), args->ta ? "^T" : "", SHAPE(b), args->tb ? "^T" : "",
                         inner_a, inner_b);
    *out = shape2(args->ta ? cols(a) : rows(a), args->tb ? rows(b) : cols(b));
    return STET_OK;
}

stet_status op_add_bias_infer(const node *n, shape *out)
{
    TRY(op_expect_count(n, 1, cols(n->in[0]), "the bias"));
    return same_shape(n, out);
}

stet_status op_linear_infer(const node *n, shape *out)
{
    const node *x = n->in[0], *w = n->in[1];
    if (cols(w) != cols(x))
        return error_set(STET_EUSAGE, "%s: weights have shape %s, expected (outputs, %zu)", NAME(n),
                         SHAPE(w), cols(x));
    TRY(op_expect_count(n, 2, rows(w), "the bias"));
    *out = shape2(rows(x), rows(w));
    return STET_OK;
}

/* elementwise -------------------------------------------------------------------------------- */

#define SAME_SHAPE(name)                                                                           \
    stet_status op_##name##_infer(const node *n, shape *out)                                       \
    {                                                                                              \
        return same_shape(n, out);                                                                 \
    }
#define TWO_ALIKE(name)                                                                            \
    stet_status op_##name##_infer(const node *n, shape *out)                                       \
    {                                                                                              \
        return two_alike(n, out);                                                                  \
    }
TWO_ALIKE(add)
TWO_ALIKE(mix)
TWO_ALIKE(sub)
TWO_ALIKE(mul)
SAME_SHAPE(scale)
SAME_SHAPE(relu)
SAME_SHAPE(tanh)
SAME_SHAPE(sigmoid)
SAME_SHAPE(gelu)
SAME_SHAPE(exp)
SAME_SHAPE(log)
SAME_SHAPE(abs)
TWO_ALIKE(min)
TWO_ALIKE(max)

stet_status op_clamp_infer(const node *n, shape *out)
{
    const clamp_args *args = n->args;
    if (!(args->lo <= args->hi))
        return error_set(STET_EUSAGE, "%s: no number is in [%g, %g]", NAME(n), args->lo, args->hi);
    return same_shape(n, out);
}

/* reductions --------------------------------------------------------------------------------- */

stet_status op_sum_infer(const node *n, shape *out)
{
    (void)n;
    *out = (shape){.rank = 0};
    return STET_OK;
}

stet_status op_row_sum_infer(const node *n, shape *out)
{
    *out = shape1(rows(n->in[0]));
    return STET_OK;
}

/* rows --------------------------------------------------------------------------------------- */

stet_status op_gather_infer(const node *n, shape *out)
{
    const gather_args *args = n->args;
    const size_t there = rows(n->in[0]);
    if (args->permutes && args->n != there)
        return error_set(STET_EUSAGE, "%s: %zu of the rows of %s", NAME(n), args->n,
                         SHAPE(n->in[0]));
    for (size_t i = 0; args->index && i < args->n; i++)
        if (args->index[i] >= there)
            return error_set(STET_EUSAGE, "%s: index %zu is %u, but %s has %zu rows", NAME(n), i,
                             args->index[i], SHAPE(n->in[0]), there);
    *out = shape2(args->n, cols(n->in[0]));
    return STET_OK;
}

stet_status op_concat_infer(const node *n, shape *out)
{
    size_t total = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (rows(n->in[i]) != rows(n->in[0]))
            return error_set(STET_EUSAGE, "%s: %s and %s have different numbers of rows", NAME(n),
                             SHAPE(n->in[0]), SHAPE(n->in[i]));
        total += cols(n->in[i]);
    }
    if (n->n_in < 1)
        return error_set(STET_EUSAGE, "%s: no operands", NAME(n));
    *out = with_cols(n->in[0], total);
    return STET_OK;
}

stet_status op_slice_infer(const node *n, shape *out)
{
    const slice_args *args = n->args;
    const size_t c = cols(n->in[0]);
    if (args->first > c || args->n > c - args->first)
        return error_set(STET_EUSAGE, "%s: columns %zu to %zu of %s", NAME(n), args->first,
                         args->first + args->n, SHAPE(n->in[0]));
    *out = with_cols(n->in[0], args->n);
    return STET_OK;
}

stet_status op_seq_mean_infer(const node *n, shape *out)
{
    const seq_index *seq = ((const seq_args *)n->args)->seq;
    TRY(expect_sequence(n, seq));
    TRY(op_expect_shape(n, 0, shape2(seq->n_tokens, cols(n->in[0])), "the sequence"));
    *out = shape2(seq->n_texts, cols(n->in[0]));
    return STET_OK;
}

stet_status op_seq_max_infer(const node *n, shape *out)
{
    return op_seq_mean_infer(n, out);
}

/* networks ----------------------------------------------------------------------------------- */

stet_status op_dropout_infer(const node *n, shape *out)
{
    const double p = ((const dropout_args *)n->args)->p;
    if (!(p >= 0 && p < 1))
        return error_set(STET_EUSAGE, "%s: probability %g is not in [0, 1)", NAME(n), p);
    return same_shape(n, out);
}

stet_status op_layer_norm_infer(const node *n, shape *out)
{
    TRY(op_expect_count(n, 1, cols(n->in[0]), "gamma"));
    TRY(op_expect_count(n, 2, cols(n->in[0]), "beta"));
    return same_shape(n, out);
}

stet_status op_glu_infer(const node *n, shape *out)
{
    if (cols(n->in[0]) % 2)
        return error_set(STET_EUSAGE, "%s: %s has no two halves", NAME(n), SHAPE(n->in[0]));
    *out = with_cols(n->in[0], cols(n->in[0]) / 2);
    return STET_OK;
}

/* losses ------------------------------------------------------------------------------------- */

SAME_SHAPE(log_softmax)

stet_status op_cross_entropy_infer(const node *n, shape *out)
{
    if (cols(n->in[0]) < 2)
        return error_set(STET_EUSAGE, "%s: %s has fewer than two classes", NAME(n),
                         SHAPE(n->in[0]));
    TRY(expect_labels(n, cols(n->in[0])));
    *out = (shape){.rank = 0};
    return STET_OK;
}

stet_status op_bce_logits_infer(const node *n, shape *out)
{
    TRY(op_expect_shape(n, 0, shape2(rows(n->in[0]), 1), "the logit"));
    TRY(expect_labels(n, 2));
    *out = (shape){.rank = 0};
    return STET_OK;
}

stet_status op_kl_infer(const node *n, shape *out)
{
    TRY(two_alike(n, out));
    if (rows(n->in[0]) == 0)
        return error_set(STET_EUSAGE, "%s: the mean over no rows", NAME(n));
    *out = (shape){.rank = 0};
    return STET_OK;
}

/* fused sequence ops ------------------------------------------------------------------------- */

/* Filters and bias of one kernel size, from operand i on, over the rows of operand 0. */
static stet_status expect_filters(const node *n, int i)
{
    const node *x = n->in[0], *w = n->in[i];
    if (w->shape.rank != 3 || w->shape.dim[1] != cols(x) || w->shape.dim[2] == 0)
        return error_set(STET_EUSAGE, "%s: weights have shape %s, expected (F, %zu, k)", NAME(n),
                         SHAPE(w), cols(x));
    return op_expect_count(n, i + 1, w->shape.dim[0], "the bias");
}

stet_status op_conv_pool_infer(const node *n, shape *out)
{
    const seq_index *seq = ((const seq_args *)n->args)->seq;
    TRY(expect_sequence(n, seq));
    TRY(op_expect_shape(n, 0, shape2(seq->n_rows, cols(n->in[0])), "the input"));
    *out = shape2(seq->n_texts, 0);
    for (int i = 1; i < n->n_in; i += 2) {
        TRY(expect_filters(n, i));
        out->dim[1] += n->in[i]->shape.dim[0];
    }
    return STET_OK;
}

stet_status op_bilstm_infer(const node *n, shape *out)
{
    const seq_index *seq = ((const seq_args *)n->args)->seq;
    const size_t d = cols(n->in[0]), h = cols(n->in[2]);
    TRY(expect_sequence(n, seq));
    TRY(op_expect_shape(n, 0, shape2(seq->n_rows, d), "the input"));
    for (int i = 1; i < 9; i += 4) {
        TRY(op_expect_shape(n, i, shape2(4 * h, d), "w_ih"));
        TRY(op_expect_shape(n, i + 1, shape2(4 * h, h), "w_hh"));
        TRY(op_expect_count(n, i + 2, 4 * h, "b_ih"));
        TRY(op_expect_count(n, i + 3, 4 * h, "b_hh"));
    }
    *out = shape2(seq->n_texts, 2 * h);
    return STET_OK;
}

stet_status op_bilstm_states_infer(const node *n, shape *out)
{
    TRY(op_bilstm_infer(n, out));
    out->dim[0] = ((const seq_args *)n->args)->seq->n_tokens;
    return STET_OK;
}

stet_status op_s4_kernel_infer(const node *n, shape *out)
{
    const size_t h = rows(n->in[0]), states = cols(n->in[0]);
    const size_t len = ((const s4_kernel_args *)n->args)->len;
    TRY(op_expect_shape(n, 0, shape2(h, states), "a"));
    TRY(op_expect_shape(n, 1, shape2(h, states), "w"));
    TRY(op_expect_shape(n, 2, shape3(h, states, 2), "P"));
    TRY(op_expect_shape(n, 3, shape3(h, states, 2), "B"));
    TRY(op_expect_shape(n, 4, shape3(h, states, 2), "C"));
    TRY(op_expect_count(n, 5, h, "log_dt"));
    if (len == 0)
        return error_set(STET_EUSAGE, "%s: a kernel of length 0", NAME(n));
    *out = shape2(h, len);
    return STET_OK;
}

stet_status op_s4_conv_infer(const node *n, shape *out)
{
    const seq_index *seq = ((const seq_args *)n->args)->seq;
    const size_t h = cols(n->in[0]), len = cols(n->in[1]);
    TRY(expect_sequence(n, seq));
    TRY(op_expect_shape(n, 0, shape2(seq->n_tokens, h), "the input"));
    TRY(op_expect_shape(n, 1, shape2(h, len), "the kernel"));
    TRY(op_expect_count(n, 2, h, "d"));
    if (len < seq->max_len)
        return error_set(STET_EUSAGE, "%s: kernel of length %zu for a text of length %zu", NAME(n),
                         len, seq->max_len);
    return same_shape(n, out);
}

stet_status op_s4_filters_infer(const node *n, shape *out)
{
    const size_t h = rows(n->in[0]), dim = cols(n->in[0]), len = cols(n->in[1]);
    const size_t rank = ((const s4_filters_args *)n->args)->rank;
    TRY(op_expect_shape(n, 0, shape2(h, dim), "the directions"));
    TRY(op_expect_shape(n, 1, shape2(h, len), "the kernel"));
    TRY(op_expect_count(n, 2, h, "d"));
    if (rank == 0 || h % rank)
        return error_set(STET_EUSAGE, "%s: %zu state spaces are not filters of %zu each", NAME(n),
                         h, rank);
    *out = shape3(h / rank, dim, len);
    return STET_OK;
}

/* As many texts as in `seq`, in any order of length. */
static bool asks_fit(const seq_index *asks, const seq_index *seq)
{
    bool good = asks->n_texts == seq->n_texts && asks->start[0] == 0 &&
                asks->start[asks->n_texts] == asks->n_tokens;
    for (size_t b = 0; good && b < asks->n_texts; b++)
        good = asks->start[b] <= asks->start[b + 1] &&
               asks->start[b + 1] - asks->start[b] <= asks->max_len;
    return good;
}

stet_status op_attention_infer(const node *n, shape *out)
{
    const attention_args *args = n->args;
    const seq_index *seq = args->seq, *asks = args->asks;
    const size_t h = cols(n->in[0]), queries = rows(n->in[0]);
    TRY(expect_sequence(n, seq));
    TRY(op_expect_shape(n, 1, shape2(seq->n_tokens, 2 * h), "keys and values"));
    if (asks && !asks_fit(asks, seq))
        return error_set(STET_EUSAGE, "%s: the queries are not of the %zu texts of the keys",
                         NAME(n), seq->n_texts);
    if (asks ? queries != asks->n_tokens : queries != seq->n_tokens && queries != seq->n_texts)
        return error_set(STET_EUSAGE, "%s: %zu queries for %zu tokens of %zu texts", NAME(n),
                         queries, asks ? asks->n_tokens : seq->n_tokens, seq->n_texts);
    if (args->heads == 0 || h % args->heads)
        return error_set(STET_EUSAGE, "%s: %zu columns are not %zu heads of one size", NAME(n), h,
                         args->heads);
    if (!(args->p >= 0 && args->p < 1))
        return error_set(STET_EUSAGE, "%s: probability %g is not in [0, 1)", NAME(n), args->p);
    return same_shape(n, out);
}
