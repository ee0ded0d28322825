/* defense/defenses.h - the defences, in the order of `stet train --help`. One more is one line here
 * and the file that defines it. */
#ifndef DEFENSE_DEFENSES_H
#define DEFENSE_DEFENSES_H

#include "defense/defense_impl.h"

#define DEFENSES(X)                                                                                \
    X(standard)                                                                                    \
    X(gbm)                                                                                         \
    X(certified)                                                                                   \
    X(box_width)                                                                                   \
    X(smooth)                                                                                      \
    X(sem)                                                                                         \
    X(pgd)                                                                                         \
    X(freelb)                                                                                      \
    X(freelb_more)                                                                                 \
    X(tavat)                                                                                       \
    X(infobert)                                                                                    \
    X(ascc)                                                                                        \
    X(atfl)                                                                                        \
    X(ranmask)                                                                                     \
    X(safer)                                                                                       \
    X(textcrs)                                                                                     \
    X(encode)                                                                                      \
    X(dne)                                                                                         \
    X(augment)                                                                                     \
    X(mixada)

#define DEFENSE_DECLARE(name) extern const defense_desc defense_##name;
DEFENSES(DEFENSE_DECLARE)
#undef DEFENSE_DECLARE

#endif
