/* bound/score_ranges.c - see score_ranges.h. */
#include "bound/score_ranges.h"

#include <math.h>

#include "base/pool.h"
#include "bound/bound_ops.h"

enum { SCORES, BIAS };

typedef struct score_job {
    const score_worst_args *a;
    const node *n;
    const real *scores;
    size_t K;
} score_job;

static score_job job_of(const node *n)
{
    return (score_job){n->args, n, n->in[SCORES]->value, shape_cols(n->shape)};
}

static double lead(const score_job *j, uint32_t row, size_t k, size_t y)
{
    return (double)j->scores[row * j->K + k] - (double)j->scores[row * j->K + y];
}

/* The word of v's set that lifts class k most above y. */
static uint32_t worst_word(const score_job *j, uint32_t v, size_t k, size_t y)
{
    const batch_sets *s = j->a->s;
    uint32_t best = v;
    double most = lead(j, v, k, y);
    for (uint32_t i = s->start[v]; i < s->start[v + 1]; i++) {
        const double x = lead(j, s->alt[i], k, y);
        if (x > most) {
            most = x;
            best = s->alt[i];
        }
    }
    return best;
}

static void text_piece(void *ctx, size_t text, int worker)
{
    (void)worker;
    const score_job *j = ctx;
    const seq_index *q = j->a->s->at;
    const size_t y = (size_t)j->a->label[text], K = j->K;
    const double n = (double)(q->start[text + 1] - q->start[text]), eps = j->a->eps;
    for (size_t k = 0; k < K; k++) {
        double sum = 0;
        for (size_t t = q->start[text]; k != y && t < q->start[text + 1]; t++) {
            const uint32_t v = q->row[t], w = worst_word(j, v, k, y);
            sum += eps * lead(j, w, k, y) + (1 - eps) * lead(j, v, k, y);
        }
        const real *b = j->n->n_in > BIAS ? j->n->in[BIAS]->value : NULL;
        j->n->value[text * K + k] =
            (real)(k == y ? 0 : sum / sqrt(n) + (b ? (double)b[k] - (double)b[y] : 0));
    }
}

static stet_status worst_fwd(tape *t, node *n)
{
    (void)t;
    score_job j = job_of(n);
    pool_run(shape_rows(n->shape), text_piece, &j);
    return STET_OK;
}

static void add_lead(const score_job *j, real *d, uint32_t row, size_t k, size_t y, double g)
{
    d[row * j->K + k] += (real)g;
    d[row * j->K + y] -= (real)g;
}

/* In the order of texts and positions: few numbers, and one order of sums. */
static stet_status worst_bwd(tape *t, node *n)
{
    (void)t;
    const score_job j = job_of(n);
    const seq_index *q = j.a->s->at;
    real *d = n->in[SCORES]->grad, *db = n->n_in > BIAS ? n->in[BIAS]->grad : NULL;
    for (size_t text = 0; text < q->n_texts; text++) {
        const size_t y = (size_t)j.a->label[text];
        const double root = sqrt((double)(q->start[text + 1] - q->start[text]));
        for (size_t k = 0; k < j.K; k++) {
            const double g = (double)n->grad[text * j.K + k];
            if (k == y || g == 0)
                continue;
            for (size_t i = q->start[text]; d && i < q->start[text + 1]; i++) {
                const uint32_t v = q->row[i];
                add_lead(&j, d, worst_word(&j, v, k, y), k, y, j.a->eps * g / root);
                if (j.a->eps < 1)
                    add_lead(&j, d, v, k, y, (1 - j.a->eps) * g / root);
            }
            if (db) {
                db[k] += (real)g;
                db[y] -= (real)g;
            }
        }
    }
    return STET_OK;
}

static stet_status worst_infer(const node *n, shape *out)
{
    const score_worst_args *a = n->args;
    const size_t K = shape_cols(n->in[SCORES]->shape);
    TRY(op_expect_shape(n, SCORES, shape2(a->s->n_rows, K), "the scores"));
    if (n->n_in > BIAS)
        TRY(op_expect_count(n, BIAS, K, "the bias"));
    *out = shape2(a->s->seq->n_texts, K);
    return STET_OK;
}

const op_desc score_worst_op = {
    .name = "score_worst",
    .n_in = -1,
    .infer = worst_infer,
    .forward = {[DEV_CPU] = worst_fwd, CUDA_KERNEL(cuda_score_worst_fwd)},
    .backward = {[DEV_CPU] = worst_bwd, CUDA_KERNEL(cuda_score_worst_bwd)},
};

node *op_score_worst(tape *t, const batch_sets *s, node *scores, node *bias, const int32_t *label,
                     double eps)
{
    node *in[] = {scores, bias};
    const score_worst_args a = {s, tape_twin(t, label, s->seq->n_texts * sizeof *label), eps};
    return tape_push(t, &score_worst_op, in, bias ? 2 : 1, &a, sizeof a);
}
