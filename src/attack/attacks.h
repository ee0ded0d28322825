/* attack/attacks.h - the descriptors; see attacks.c. */
#ifndef ATTACK_ATTACKS_H
#define ATTACK_ATTACKS_H

#include "attack/attack_impl.h"

extern const attack_desc attack_pwws, attack_ga, attack_pso, attack_textfooler, attack_greedy,
    attack_exhaustive;

#endif
