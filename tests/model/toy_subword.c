/* tests/model/toy_subword.c - the smallest subword model: a word is 1 to 3 pieces, a text the mean of its
 * pieces' vectors, the answer linear. It brings its own reader and table, has no view and no bounds. Its
 * line in a list is in toy_list.c; nothing else knows of it. */
#include "base/strmap.h"
#include "model/model_impl.h"
#include "toy_subword.h"

enum { DIM = 24, PIECE = 3, MOST = 3 };

typedef struct toy_cfg {
    int64_t rows;
} toy_cfg;
static const stet_opt opts[] = {
    STET_OPT_INT("rows", toy_cfg, rows, "512", 8, 1e6, "N", "toy: vectors of pieces"),
    STET_OPT_END};

/* Three letters make a piece; the third takes the rest. */
static size_t pieces(const word_reader *r, const char *word, size_t len, uint32_t *out)
{
    const model *m = r->user;
    size_t n = 0;
    for (size_t at = 0; at < len && n < MOST; at += PIECE) {
        const size_t size = n == MOST - 1 || len - at < PIECE ? len - at : PIECE;
        out[n] = (uint32_t)(hash_bytes(word + at, size, n) % m->n_words);
        n++;
    }
    return n;
}

static stet_status reader(model *m, const reader_source *from)
{
    (void)from;
    m->dim = DIM;
    m->n_words = (size_t)((const toy_cfg *)m->cfg)->rows;
    m->reader.rows = pieces;
    m->reader.most_rows = MOST;
    m->reader.user = m;
    return STET_OK;
}

static void table(const model *m, rng *r)
{
    for (size_t i = 0; i < m->n_words * m->dim; i++)
        m->table[i] = (real)rng_normal(r);
}

static stet_status layout(model *m)
{
    (void)m; /* the last layer is everyone's */
    return STET_OK;
}

static stet_status init(const model *m, rng *r)
{
    (void)m, (void)r;
    return STET_OK;
}

static node *features(const model *m, pass *p)
{
    (void)m;
    return op_seq_mean(p->t, op_gather(p->t, p->rows, p->seq->row, p->seq->n_tokens), p->seq);
}

static size_t n_features(const model *m)
{
    return m->dim;
}

const model_desc model_toy = {.name = "toy",
                              .summary = "mean of the vectors of a text's pieces",
                              .opts = opts,
                              .cfg_size = sizeof(toy_cfg),
                              .train = {.rate = {0.05, 0.05}},
                              .reader = reader,
                              .table = table,
                              .layout = layout,
                              .init = init,
                              .features = features,
                              .n_features = n_features};
