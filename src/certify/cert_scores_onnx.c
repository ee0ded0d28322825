/* certify/cert_scores_onnx.c - word scores of one text as part of an ONNX graph: they add
 *
 *     (choice . scores of the open positions' words + scores of the other words) / sqrt n
 *
 * to the logits of a network, or, where there is none, to the biases. See cert_export.c. */
#include <math.h>

#include "base/mem.h"
#include "certify/cert_scores.h"
#include "certify/onnx.h"
#include "model/word_scores.h"

static void add_score(const model *m, uint32_t word, double share, double *to)
{
    for (size_t k = 0; k < m->n_classes; k++)
        to[k] += (double)m->score_table[word * m->n_classes + k] * share;
}

/* rows (inputs, K) and fixed (K) */
static void fill(const model *m, const cert_task *t, double *fixed, float *rows)
{
    const double share = 1 / sqrt((double)t->n);
    const size_t K = m->n_classes;
    size_t row = 0;
    for (size_t p = 0; p < t->n; p++)
        for (uint32_t i = t->start[p]; i < t->start[p + 1]; i++) {
            if (t->start[p + 1] - t->start[p] == 1) {
                add_score(m, t->word[i], share, fixed);
                continue;
            }
            for (size_t k = 0; k < K; k++)
                rows[row * K + k] = (float)((double)m->score_table[t->word[i] * K + k] * share);
            row++;
        }
}

stet_status cert_scores_onnx(const model *m, const cert_task *t, const char *network, buf *graph)
{
    const size_t K = m->n_classes;
    size_t inputs = 0;
    for (size_t p = 0; p < t->n; p++)
        inputs += t->start[p + 1] - t->start[p] > 1 ? t->start[p + 1] - t->start[p] : 0;
    double *fixed = mem_zalloc(K, sizeof *fixed);
    float *rows = mem_alloc(inputs * K, sizeof *rows), *constant = mem_alloc(K, sizeof *constant);
    const bool room = fixed && rows && constant;
    if (room) {
        const real *bias = model_value(m, (int)m->n_params - 1);
        fill(m, t, fixed, rows);
        for (size_t k = 0; k < K; k++)
            constant[k] = (float)(fixed[k] + (network ? 0 : (double)bias[k]));
        onnx_floats(graph, "scores.words", (const int64_t[]){(int64_t)inputs, (int64_t)K, 0}, rows);
        onnx_floats(graph, "scores.fixed", (const int64_t[]){1, (int64_t)K, 0}, constant);
        onnx_node(graph, "Gemm",
                  (const char *const[]){"choice", "scores.words", "scores.fixed", NULL},
                  network ? "scores" : "logits", NULL);
    }
    if (room && network)
        onnx_node(graph, "Add", (const char *const[]){network, "scores", NULL}, "logits", NULL);
    mem_free(fixed);
    mem_free(rows);
    mem_free(constant);
    return room ? buf_status(graph) : STET_ENOMEM;
}
