/* defense/ascc.h - points in the convex hulls of words and their substitutes: what ascc.c searches.
 *
 * Every position of a batch has slots, the substitutes of its word and then the word itself, with
 * one number each, whose softmax over the position's slots says how much of their vectors is in the
 * position's point. */
#ifndef DEFENSE_ASCC_H
#define DEFENSE_ASCC_H

#include "bound/hulls.h"
#include "defense/defense_args.h"
#include "defense/defense_impl.h"

typedef struct ascc_cfg {
    int64_t steps, most;
    double rate, alpha, kl, adv;
} ascc_cfg;

/* The sets by the model's rows, for a defence that reads vectors of several words at a position; an error
 * by its name for models where that cannot be: with word scores. */
stet_status mixing_sets(const char *defense, const model *m, const stet_subst *s, word_sets *out);

/* In memory of the step. `slot` (vocabulary) is scratch that comes and goes zeroed. At most `most`
 * substitutes a word. */
stet_status hulls_make(const word_sets *s, const batch *x, size_t most, uint32_t *slot, arena *mem,
                       hulls *out);
/* hulls_make has a point for every position. Here positions of one word share it where the word has no
 * substitute: `own` is the batch with the points as its rows. */
stet_status hulls_share(const batch *x, arena *mem, hulls *h, batch *own);

/* The same in the tape's store, for kernels. */
hulls hulls_twin(tape *t, const hulls *h);

/* p (n) = softmax of w[0], w[stride], ...; their entropy. */
double hull_weights(const real *w, size_t stride, size_t n, double *p);

/* How far a vector e (D) lies along the gradient g of a point. */
double hull_slope(const real *g, const real *e, size_t D);

/* The points (n_points, D) of a state among rows (n_rows, D), for which they have a gradient. */
node *hull_points(tape *t, const hulls *h, node *state, node *rows);

/* The state after the k-th step (k = 1, 2, ...) of Adam down the slope of F + alpha * the mean entropy,
 * where g (n_points, D) is F's gradient with respect to the points. */
node *hull_step(tape *t, const ascc_cfg *c, const hulls *h, node *state, node *rows, node *g,
                int64_t k);

/* The state after all steps: points where the answers are far from those of the batch itself, `clean`
 * (B, K), but few words are mixed. */
node *ascc_search(const ascc_cfg *c, const step_view *v, const batch *own, const hulls *h,
                  node *rows, node *clean, node *state);
/* loss + kl * KL(clean || at the points) + adv * cross-entropy there. */
node *ascc_loss(const ascc_cfg *c, const step_view *v, const batch *own, node *points, node *base,
                node **kl);

#endif
