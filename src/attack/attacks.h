/* attack/attacks.h - the attacks, in the order of `stet attack --help`. One more is one line here and
 * the file that defines it. */
#ifndef ATTACK_ATTACKS_H
#define ATTACK_ATTACKS_H

#include "attack/attack_impl.h"

#define ATTACKS(X)                                                                                 \
    X(pwws)                                                                                        \
    X(ga)                                                                                          \
    X(pso)                                                                                         \
    X(textfooler)                                                                                  \
    X(greedy)                                                                                      \
    X(exhaustive)

#define ATTACK_DECLARE(name) extern const attack_desc attack_##name;
ATTACKS(ATTACK_DECLARE)
#undef ATTACK_DECLARE

#endif
