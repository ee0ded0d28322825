/* defense/infobert.h - InfoBERT: FreeLB with two terms about what representations keep of words. */
#ifndef DEFENSE_INFOBERT_H
#define DEFENSE_INFOBERT_H

#include "defense/embedding_adv.h"

typedef struct infobert_cfg {
    adv_cfg adv;
    double keep, share; /* beta and alpha of the paper */
    double low, high;   /* which words are anchors, as shares of a text's words by their gradient */
    int64_t hidden;     /* units of the scorer */
} infobert_cfg;

/* Random choices of a point: `other` (T) are positions, with repetition; `order` (n) is a permutation. */
typedef struct infobert_draws {
    uint32_t *other, *order;
} infobert_draws;

typedef struct infobert_state {
    infobert_cfg cfg;
    int scorer;   /* id of its first tensor */
    size_t chunk; /* pairs that are told apart together; 0: as many as the batch has texts */
    /* The draws of point k: with n == 0 others for T positions, else an order of n pairs. */
    void (*draw)(const struct infobert_state *s, int64_t k, size_t T, size_t n,
                 const infobert_draws *to);
    /* of this step */
    uint64_t seed, step;
    node *before, *first, *last; /* sum of the points on the way, the first, the last one's terms */
} infobert_state;

/* The anchors of a text of n words that begins at position `first`: those whose rank by rising `size` (n)
 * is from ceil(low n) to ceil(high n) - 1, as positions in rising order. How many; SIZE_MAX: no memory. */
size_t infobert_anchors(const infobert_cfg *c, const real *size, size_t first, size_t n,
                        uint32_t *out);

node *infobert_forward(infobert_state *s, const step_view *v, const batch *own, node *delta);

#endif
