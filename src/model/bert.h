/* model/bert.h - BERT (Devlin et al. 2019) as its files need it: settings, and where parameters are.
 *
 * Parameters lie by what the optimiser and the products want: matrices with weight decay first, those of
 * query, key and value one after the other, so that keys and values are one product; then biases and
 * layer norms, in the same order. Names are those of Hugging Face's BertForSequenceClassification. */
#ifndef MODEL_BERT_H
#define MODEL_BERT_H

#include "model/model_impl.h"
#include "text/wordpiece.h"

typedef struct bert_cfg {
    int64_t layers, hidden, heads, inner, positions, types, pieces;
    double eps;
    int keeps_case;
    const char *head; /* "" or NULL: [CLS] and the pooler */
} bert_cfg;

/* Ids of parameters: the embeddings, then a block for each layer, then the pooler. */
enum { BERT_WORDS, BERT_POSITIONS, BERT_TYPES, BERT_FIRST_MATRIX };
enum { BERT_Q, BERT_K, BERT_V, BERT_OUT, BERT_UP, BERT_DOWN, BERT_MATRICES };
/* The same six biases, and the two layer norms of a layer. */
enum { BERT_NORM1 = BERT_MATRICES, BERT_NORM2 = BERT_NORM1 + 2, BERT_BARES = BERT_NORM2 + 2 };

static inline const bert_cfg *bert_of(const model *m)
{
    return m->cfg;
}

static inline int bert_matrix(size_t layer, int which)
{
    return BERT_FIRST_MATRIX + (int)layer * BERT_MATRICES + which;
}

static inline int bert_pooler(const model *m) /* its weights */
{
    return bert_matrix((size_t)bert_of(m)->layers, 0);
}

static inline int bert_norm(const model *m) /* of the embeddings */
{
    return bert_pooler(m) + 1;
}

static inline int bert_bare(const model *m, size_t layer, int which)
{
    return bert_norm(m) + 2 + (int)layer * BERT_BARES + which;
}

static inline int bert_pooler_bias(const model *m)
{
    return bert_bare(m, (size_t)bert_of(m)->layers, 0);
}

/* First values of one parameter: N(0, 0.02), biases 0, norms 1 and 0. */
void bert_init_param(const model *m, int id, rng *r);

node *bert_rows(const model *m, pass *p); /* (T, H) of the last layer */

/* bert_head.c: --bert-head, a model of another kind on these rows. */
stet_status bert_head_layout(model *m);
node *bert_head_features(const model *m, pass *p);
void bert_row_box(const model *m, real *lo, real *hi);
stet_status bert_keep_rows(model *m, const char *path);

extern const model_foreign bert_foreign; /* bert_file.c */

#endif
