/* defense/embedding_adv.h - a perturbation of a batch's word vectors, one row per position, that climbs
 * the loss: what PGD-K, FreeLB, FreeLB++ and TA-VAT share. */
#ifndef DEFENSE_EMBEDDING_ADV_H
#define DEFENSE_EMBEDDING_ADV_H

#include "defense/defense_args.h"
#include "defense/defense_impl.h"

typedef struct adv_cfg {
    int64_t steps;
    double step, start, radius; /* radius 0: none */
    int norm;                   /* adv_norm */
} adv_cfg;

/* Numbers in [-1, 1): entry i is number i of the stream. A constant of the tape. */
node *adv_noise(tape *t, shape s, rng stream);
/* Where it begins: for u (T, D) in [-1, 1), u start / sqrt(words of the text x D), or u start for
 * ADV_LINF. A constant of the tape. */
node *adv_begin(tape *t, const adv_cfg *c, const seq_index *seq, node *u);

/* delta + step * g / max(norm of g, 1e-8), then drawn back into the ball of `radius`; all (T, D). A
 * constant of the tape. */
node *adv_move(tape *t, const adv_cfg *c, const seq_index *seq, node *delta, node *g);

/* The defences' state. */
typedef struct adv_state adv_state;
struct adv_state {
    adv_cfg cfg;
    bool free; /* the points on the way train too */
    /* The next perturbation along g; NULL: adv_move. */
    node *(*move)(adv_state *s, tape *t, const seq_index *seq, node *delta, node *g);
    /* of this step */
    node *before; /* sum of the losses on the way, with its gradient; NULL: there were none */
    node *first;  /* the first of them */
};

/* A random beginning (T, D) for the step's batch, spread. */
node *adv_first(const adv_state *s, const step_view *v, const batch *own);
void adv_metrics(void *state, step_metrics *out); /* the hook */

/* The step's pass at the end of the climb that begins at `delta` (T, D). */
node *adv_forward(adv_state *s, const step_view *v, const batch *own, node *delta);

#endif
