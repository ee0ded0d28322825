/* model/word_layer.h - a layer that every word's vector goes through alone, before the network reads it:
 *
 *     u_w = ReLU(A v_w + b)
 *
 * It exists in training only. A word's row depends on no other word, so the finished model is one
 * whose vectors are the u_w: that is what m->table holds, what is saved, and all that views, attacks,
 * bounds, certificates and the checker ever see. In training pass_rows() gives rows that went through
 * the layer, of clean texts and of substitutes alike; the vectors themselves are in m->raw, learn
 * there (--tune-vectors), and are what smoothing and the box-width loss work on. weights_fetch()
 * makes m->table anew. A checkpoint holds A, b, and the vectors that learn. */
#ifndef MODEL_WORD_LAYER_H
#define MODEL_WORD_LAYER_H

#include "model/model_impl.h"

/* Give a new model of dim rows a layer over these vectors, with random weights from `r`. */
stet_status word_layer_add(model *m, const stet_vectors *vectors, rng *r);
/* What p's layer makes of vectors (n, raw_dim): (n, dim); the vectors where there is no layer. */
node *word_layer_rows(const pass *p, node *vectors);
/* m->table anew from m->raw and the layer's weights; nothing where there is no layer. */
stet_status word_layer_fold(model *m);

/* The vectors that a run starts from and trains: m->raw, or else the table. */
static inline real *model_vectors(const model *m)
{
    return m->raw ? m->raw : m->table;
}
static inline size_t model_vector_dim(const model *m)
{
    return m->raw ? m->raw_dim : m->dim;
}

#endif
