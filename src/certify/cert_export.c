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

typedef struct question {
    const stet_certifier *c;
    const cert_text *t;
    const model *m;
    size_t inputs;
} question;

static bool is_open(const cert_text *t, size_t p)
{
    return t->start[p + 1] - t->start[p] > 1;
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

stet_status cert_export_check(const model *m, const cert_family *f)
{
    if (!f->onnx || m->rule)
        return error_set(STET_ENOTSUP, "no questions can be exported about this model of kind '%s'",
                         m->desc->name);
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
    buf graph = {0}, network = {0}, property = {0};
    const cert_task task = cert_task_of(q.t, STET_ANY);
    stet_status st = c->shared->family->onnx(q.m, &task, &graph);
    if (st == STET_OK)
        onnx_model(&network, &graph);
    if (st == STET_OK)
        st = buf_status(&network);
    put_property(&q, index, tokens, choices, &property);
    if (st == STET_OK)
        st = buf_status(&property);
    if (st == STET_OK)
        st = write_file(dir, index, "onnx", &network);
    if (st == STET_OK)
        st = write_file(dir, index, "vnnlib", &property);
    buf_deinit(&graph);
    buf_deinit(&network);
    buf_deinit(&property);
    return st;
}
