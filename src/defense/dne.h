/* defense/dne.h - random mixtures of words and their neighbours that climb the loss: what dne.c and
 * dne_rule.c share, and what they are made of, for tests. */
#ifndef DEFENSE_DNE_H
#define DEFENSE_DNE_H

#include "defense/ascc.h"
#include "model/rule.h"

typedef struct dne_cfg {
    double alpha, decay, step;
    int64_t rounds, most, draws;
} dne_cfg;
extern const stet_opt dne_opts[];
enum { MOST_SLOTS = 1001 }; /* of a position: dne-most */

/* eta (n) of a Dirichlet distribution: parameter alpha for the first n_near and the last, alpha * decay
 * for those between. alpha 0: all of it on one of them. */
void dirichlet(const dne_cfg *c, rng *r, size_t n, size_t n_near, double *eta);

/* Words that substitutions reach in one step, then in two, each once, at most `most` a word;
 * near (n_words): how many are of one step. */
stet_status two_steps(const word_sets *s, size_t most, word_sets *out, uint32_t *near);

/* The state (n_slots, HULL_STATE) after a move up the slope, g (n_points, D) being `scale` times less than the
 * gradient with respect to the points: each word's numbers go `step` along their own, and the largest
 * is 0 again. */
node *hull_climb(tape *t, double step, double scale, const hulls *h, node *state, node *rows,
                 node *g);

typedef struct dne_state {
    dne_cfg cfg;
    word_sets sets;
    uint32_t *near, *slot; /* (vocabulary) */
    /* of this step */
    node *before; /* losses on the way, with their gradients; NULL: there were none */
    node *first;  /* the loss at the drawn mixtures */
} dne_state;

/* The logits at the last mixtures, from `state` on; s->before has the others. */
node *dne_forward(dne_state *s, const step_view *v, const batch *own, const hulls *h, node *rows,
                  node *state);
/* The loss of all of them, from that at the last. */
node *dne_loss(const dne_state *s, tape *t, node *base);

/* One answer (K) of M: the surer one is, the more it counts. */
void dne_ensemble(const double *p, size_t M, size_t K, double *out);

extern const rule_desc dne_rule;

#endif
