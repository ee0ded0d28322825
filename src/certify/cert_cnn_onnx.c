/* certify/cert_cnn_onnx.c - the text CNN of one text as an ONNX graph: the choice of words goes in,
 * logits come out. See cert_export.c. */
#include <stdio.h>

#include "base/mem.h"
#include "certify/cert_cnn.h"
#include "certify/onnx.h"
#include "model/word_scores.h"

typedef struct network {
    const model *m;
    const cert_task *t;
    buf *graph;
    size_t inputs;
} network;

static bool is_open(const cert_task *t, size_t p)
{
    return t->start[p + 1] - t->start[p] > 1;
}

/* The text's vectors (1, D, 1, len) from the inputs; words past the end are zero vectors. */
static stet_status put_vectors(network *q, const char *name, size_t len)
{
    const size_t D = q->m->dim, width = D * len;
    float *weight = mem_zalloc(q->inputs * width, sizeof *weight),
          *constant = mem_zalloc(width, sizeof *constant);
    if (!weight || !constant) {
        mem_free(weight);
        mem_free(constant);
        return STET_ENOMEM;
    }
    size_t row = 0;
    for (size_t p = 0; p < q->t->n; p++)
        for (uint32_t k = q->t->start[p]; k < q->t->start[p + 1]; k++) {
            const float *v = q->m->table + q->t->word[k] * D;
            float *to = is_open(q->t, p) ? weight + row++ * width : constant;
            for (size_t d = 0; d < D; d++)
                to[d * len + p] = v[d];
        }
    char w[80], b[80], flat[80], dims[80];
    snprintf(w, sizeof w, "%s.words", name);
    snprintf(b, sizeof b, "%s.fixed", name);
    snprintf(flat, sizeof flat, "%s.flat", name);
    snprintf(dims, sizeof dims, "%s.shape", name);
    onnx_floats(q->graph, w, (const int64_t[]){(int64_t)q->inputs, (int64_t)width, 0}, weight);
    onnx_floats(q->graph, b, (const int64_t[]){1, (int64_t)width, 0}, constant);
    onnx_shape(q->graph, dims, (const int64_t[]){1, (int64_t)D, 1, (int64_t)len, 0});
    onnx_node(q->graph, "Gemm", (const char *const[]){"choice", w, b, NULL}, flat, NULL);
    onnx_node(q->graph, "Reshape", (const char *const[]){flat, dims, NULL}, name, NULL);
    mem_free(weight);
    mem_free(constant);
    return STET_OK;
}

/* Convolution, ReLU and the maximum over the text of one kernel size. */
static stet_status put_kernel(network *q, size_t i, size_t k, size_t filters, char name[64])
{
    const size_t n = q->t->n;
    char from[64] = "text", part[4][64];
    static const char *const parts[] = {"weight", "bias", "conv", "relu"};
    if (n < k) { /* a text of its own, filled up */
        snprintf(from, sizeof from, "text%zu", k);
        TRY(put_vectors(q, from, k));
    }
    for (int j = 0; j < 4; j++)
        snprintf(part[j], sizeof part[j], "convs.%zu.%s", i, parts[j]);
    char pooled[64];
    snprintf(pooled, sizeof pooled, "convs.%zu.max", i);
    snprintf(name, 64, "convs.%zu.feature", i);
    const int64_t windows = n < k ? 1 : (int64_t)(n - k + 1);
    onnx_floats(q->graph, part[0],
                (const int64_t[]){(int64_t)filters, (int64_t)q->m->dim, 1, (int64_t)k, 0},
                model_value(q->m, (int)(2 * i)));
    onnx_floats(q->graph, part[1], (const int64_t[]){(int64_t)filters, 0},
                model_value(q->m, (int)(2 * i + 1)));
    onnx_node(q->graph, "Conv", (const char *const[]){from, part[0], part[1], NULL}, part[2],
              (const onnx_attr[]){{"kernel_shape", 2, {1, (int64_t)k}}, {0}});
    onnx_node(q->graph, "Relu", (const char *const[]){part[2], NULL}, part[3], NULL);
    onnx_node(q->graph, "MaxPool", (const char *const[]){part[3], NULL}, pooled,
              (const onnx_attr[]){{"kernel_shape", 2, {1, windows}}, {0}});
    onnx_node(q->graph, "Flatten", (const char *const[]){pooled, NULL}, name,
              (const onnx_attr[]){{"axis", 0, {1}}, {0}});
    return STET_OK;
}

/* x W^T + b with the parameters `name`.weight (out, in) and `name`.bias. */
static void put_linear(network *q, const char *from, const char *name, size_t in, size_t out,
                       const char *to)
{
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    onnx_floats(q->graph, weight, (const int64_t[]){(int64_t)out, (int64_t)in, 0},
                model_value(q->m, model_param_id(q->m, weight)));
    onnx_floats(q->graph, bias, (const int64_t[]){(int64_t)out, 0},
                model_value(q->m, model_param_id(q->m, bias)));
    onnx_node(q->graph, "Gemm", (const char *const[]){from, weight, bias, NULL}, to,
              (const onnx_attr[]){{"transB", 0, {1}}, {0}});
}

stet_status cnn_onnx(const model *m, const cert_task *t, buf *graph)
{
    network net = {.m = m, .t = t, .graph = graph}, *q = &net;
    for (size_t p = 0; p < t->n; p++)
        net.inputs += is_open(t, p) ? t->start[p + 1] - t->start[p] : 0;
    size_t k[CNN_MAX_KERNELS], n = cnn_kernels(m, k);
    const size_t filters = (size_t)((const cnn_cfg *)m->cfg)->filters;
    const size_t K = m->n_classes, F = n * filters, dense = m->desc->n_features(m);
    char name[CNN_MAX_KERNELS][64];
    const char *features[CNN_MAX_KERNELS + 1] = {NULL};
    onnx_input(q->graph, "choice", (const int64_t[]){1, (int64_t)q->inputs, 0});
    onnx_output(q->graph, "logits", (const int64_t[]){1, (int64_t)K, 0});
    TRY(put_vectors(q, "text", q->t->n));
    for (size_t i = 0; i < n; i++) {
        TRY(put_kernel(q, i, k[i], filters, name[i]));
        features[i] = name[i];
    }
    onnx_node(q->graph, "Concat", features, "features", (const onnx_attr[]){{"axis", 0, {1}}, {0}});
    const char *last = "features";
    if (cnn_dense(m) >= 0) {
        put_linear(q, "features", "dense", F, dense, "dense.sum");
        last = "dense.relu";
        onnx_node(q->graph, "Relu", (const char *const[]){"dense.sum", NULL}, last, NULL);
    }
    const bool scored = has_word_scores(m);
    put_linear(q, last, "fc", dense, K, scored ? "network" : "logits");
    return scored ? cert_scores_onnx(m, t, "network", graph) : buf_status(graph);
}
