/* certify/cert_export.c - the question of one text for other verifiers: a network in ONNX whose inputs
 * choose the words, and in VNN-LIB what is asked of it.
 *
 * Position p with S words has S inputs that are not negative and sum to 1: the vector that stands there is
 * their mean of the words' vectors. Corners of this are the texts of the certificate; between them is
 * what no text is, so that "unsat" (no counter-example) proves the text, and "sat" need not refute it.
 * The property asks for a counter-example: a point where another class is at least as high. */
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "certify/certifier.h"
#include "certify/onnx.h"
#include "model/cnn.h"
#include "model/kind_list.h"
#include "model/word_scores.h"

typedef struct question {
    const stet_certifier *c;
    const cert_text *t;
    const model *m;
    buf graph;
    size_t inputs;
} question;

static bool is_open(const cert_text *t, size_t p)
{
    return t->start[p + 1] - t->start[p] > 1;
}

/* The text's vectors (1, D, 1, len) from the inputs; words past the end are zero vectors. */
static stet_status put_vectors(question *q, const char *name, size_t len)
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
    onnx_floats(&q->graph, w, (const int64_t[]){(int64_t)q->inputs, (int64_t)width, 0}, weight);
    onnx_floats(&q->graph, b, (const int64_t[]){1, (int64_t)width, 0}, constant);
    onnx_shape(&q->graph, dims, (const int64_t[]){1, (int64_t)D, 1, (int64_t)len, 0});
    onnx_node(&q->graph, "Gemm", (const char *const[]){"choice", w, b, NULL}, flat, NULL);
    onnx_node(&q->graph, "Reshape", (const char *const[]){flat, dims, NULL}, name, NULL);
    mem_free(weight);
    mem_free(constant);
    return STET_OK;
}

/* Convolution, ReLU and the maximum over the text of one kernel size. */
static stet_status put_kernel(question *q, size_t i, size_t k, size_t filters, char name[64])
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
    onnx_floats(&q->graph, part[0],
                (const int64_t[]){(int64_t)filters, (int64_t)q->m->dim, 1, (int64_t)k, 0},
                model_value(q->m, (int)(2 * i)));
    onnx_floats(&q->graph, part[1], (const int64_t[]){(int64_t)filters, 0},
                model_value(q->m, (int)(2 * i + 1)));
    onnx_node(&q->graph, "Conv", (const char *const[]){from, part[0], part[1], NULL}, part[2],
              (const onnx_attr[]){{"kernel_shape", 2, {1, (int64_t)k}}, {0}});
    onnx_node(&q->graph, "Relu", (const char *const[]){part[2], NULL}, part[3], NULL);
    onnx_node(&q->graph, "MaxPool", (const char *const[]){part[3], NULL}, pooled,
              (const onnx_attr[]){{"kernel_shape", 2, {1, windows}}, {0}});
    onnx_node(&q->graph, "Flatten", (const char *const[]){pooled, NULL}, name,
              (const onnx_attr[]){{"axis", 0, {1}}, {0}});
    return STET_OK;
}

static stet_status put_network(question *q, buf *out)
{
    const model *m = q->m;
    size_t k[CNN_MAX_KERNELS], n = cnn_kernels(m, k);
    const size_t filters = (size_t)((const cnn_cfg *)m->cfg)->filters;
    const int64_t K = (int64_t)m->n_classes, F = (int64_t)(n * filters);
    char name[CNN_MAX_KERNELS][64];
    const char *features[CNN_MAX_KERNELS + 1] = {NULL};
    onnx_input(&q->graph, "choice", (const int64_t[]){1, (int64_t)q->inputs, 0});
    onnx_output(&q->graph, "logits", (const int64_t[]){1, K, 0});
    TRY(put_vectors(q, "text", q->t->n));
    for (size_t i = 0; i < n; i++) {
        TRY(put_kernel(q, i, k[i], filters, name[i]));
        features[i] = name[i];
    }
    onnx_node(&q->graph, "Concat", features, "features",
              (const onnx_attr[]){{"axis", 0, {1}}, {0}});
    onnx_floats(&q->graph, "fc.weight", (const int64_t[]){K, F, 0},
                model_value(m, model_param_id(m, "fc.weight")));
    onnx_floats(&q->graph, "fc.bias", (const int64_t[]){K, 0},
                model_value(m, model_param_id(m, "fc.bias")));
    onnx_node(&q->graph, "Gemm", (const char *const[]){"features", "fc.weight", "fc.bias", NULL},
              "logits", (const onnx_attr[]){{"transB", 0, {1}}, {0}});
    onnx_model(out, &q->graph);
    return buf_status(out);
}

static void put_property(const question *q, size_t index, const stet_tokens *tokens,
                         const stet_choices *choices, buf *b)
{
    const cert_text *t = q->t;
    buf_printf(b,
               "; Text %zu: class %d must stay the highest, whatever words are chosen.\n"
               "; Inputs are weights of words. Those of a position are not negative and sum to 1;\n"
               "; a text has a 1 for one word of each position.\n",
               index, t->label);
    for (size_t i = 0; i < q->inputs; i++)
        buf_printf(b, "(declare-const X_%zu Real)\n", i);
    for (size_t k = 0; k < q->m->n_classes; k++)
        buf_printf(b, "(declare-const Y_%zu Real)\n", k);
    size_t x = 0;
    for (size_t p = 0; p < t->n; p++) {
        if (!is_open(t, p))
            continue;
        const uint32_t n = t->start[p + 1] - t->start[p];
        buf_printf(b, "\n; position %zu:", p);
        for (uint32_t k = 0; k < n; k++)
            buf_printf(b, " %s",
                       k ? choices->text[choices->start[p] + k - 1] : stet_token_word(tokens, p));
        buf_char(b, '\n');
        for (uint32_t k = 0; k < n; k++)
            buf_printf(b, "(assert (>= X_%zu 0.0))\n(assert (<= X_%zu 1.0))\n", x + k, x + k);
        for (int side = 0; side < 2; side++) {
            buf_printf(b, "(assert (%s (+", side ? "<=" : ">=");
            for (uint32_t k = 0; k < n; k++)
                buf_printf(b, " X_%zu", x + k);
            buf_str(b, ") 1.0))\n");
        }
        x += n;
    }
    buf_str(b, "\n; another class is at least as high\n(assert (or");
    for (size_t k = 0; k < q->m->n_classes; k++)
        if ((int)k != t->label)
            buf_printf(b, "\n    (and (>= Y_%zu Y_%d))", k, t->label);
    buf_str(b, "))\n");
}

static stet_status write_file(const char *dir, size_t index, const char *ending, const buf *b)
{
    char name[64];
    snprintf(name, sizeof name, "text-%zu.%s", index, ending);
    char *path = path_join(dir, name);
    const stet_status st = path ? file_write_all(path, b->data, b->n) : STET_ENOMEM;
    mem_free(path);
    return st;
}

stet_status cert_export_check(const model *m)
{
    if (m->desc != &model_cnn || m->rule || has_word_scores(m))
        return error_set(STET_ENOTSUP, "questions are exported for models of kind 'cnn' alone");
    return STET_OK;
}

stet_status cert_export(const stet_certifier *c, size_t index, const stet_tokens *tokens,
                        const stet_choices *choices, const char *dir)
{
    question q = {.c = c, .t = &c->text, .m = c->shared->m};
    for (size_t p = 0; p < q.t->n; p++)
        q.inputs += is_open(q.t, p) ? q.t->start[p + 1] - q.t->start[p] : 0;
    if (q.inputs == 0) /* nothing can change: nothing to ask */
        return STET_OK;
    buf network = {0}, property = {0};
    stet_status st = put_network(&q, &network);
    put_property(&q, index, tokens, choices, &property);
    if (st == STET_OK)
        st = buf_status(&property);
    if (st == STET_OK)
        st = write_file(dir, index, "onnx", &network);
    if (st == STET_OK)
        st = write_file(dir, index, "vnnlib", &property);
    buf_deinit(&q.graph);
    buf_deinit(&network);
    buf_deinit(&property);
    return st;
}
