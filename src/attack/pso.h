/* attack/pso.h - the steps of the particle swarm, apart so that tests can take them one by one. */
#ifndef ATTACK_PSO_H
#define ATTACK_PSO_H

#include "attack/attack_impl.h"

enum { PSO_RANDOM, PSO_BEST, PSO_ALL };    /* how a particle gets a changed word */
enum { PSO_FROZEN, PSO_UPDATED };          /* bests */
enum { PSO_TURN_BEST, PSO_TURN_PARTICLE }; /* whose word is taken with probability r */
enum {
    PSO_RATIO_WORDS,
    PSO_RATIO_ANY
}; /* changed words over all; or 1/n whenever anything changed */

typedef struct pso_cfg {
    int64_t population, rounds;
    int choice, elites, turn, ratio;
} pso_cfg;

typedef struct particle {
    pick *x, *own; /* (n) where it is, its best place */
    double *v;     /* (n) velocity */
    size_t row, own_row;
} particle;

typedef struct pso {
    search *s;
    const pso_cfg *cfg;
    size_t size;
    particle *p;
    pick *best; /* (n) the swarm's */
    size_t best_row;
    double *weight; /* (n) of the positions */
    size_t weighted;
    pick *from;   /* (n) scratch */
    size_t *rows; /* scratch: first[n] + 1 */
    double *gain; /* (n) scratch */
    pick *choice; /* (n) scratch */
    size_t known; /* rows before this one have been counted */
} pso;

stet_status pso_init(pso *o, search *s, const pso_cfg *cfg);
void pso_velocities(pso *o); /* one draw a particle */
void pso_move(pso *o, particle *p, double omega, double p1, double p2);
stet_status pso_mutate(pso *o, particle *p);

#endif
