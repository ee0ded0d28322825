/* attack/steps.h - steps of the attacks, apart so that tests can look at their numbers one by one;
 * those of the swarm are in pso.h. */
#ifndef ATTACK_STEPS_H
#define ATTACK_STEPS_H

#include "attack/attack_impl.h"

enum { RULE_OPENATTACK, RULE_TEXTATTACK }; /* of pwws, ga and textfooler */

/* PWWS: what a position is worth, and what would stand there. */
typedef struct pwws_ranking {
    double *h;     /* (n) phi times gain or score, phi being a softmax over what may change */
    pick *best;    /* (s->n) the substitute that lowers P(y) most; 0 where there is none */
    size_t *place; /* (n) ranked positions: set by the caller */
    size_t n;
} pwws_ranking;
stet_status pwws_rank(search *s, int rule, pwws_ranking *r);

/* GA: the weight of a parent whose P(y) is p. */
enum { SELECT_OPENATTACK, SELECT_BOLTZMANN, SELECT_INVERTED };
double ga_fitness(int selection, double p);

/* TextFooler: what hiding a word does, `row` being the text without it. */
double textfooler_importance(const search *s, size_t row, int rule);

#endif
