/* defense/defenses.h - the descriptors; see defenses.c. */
#ifndef DEFENSE_DEFENSES_H
#define DEFENSE_DEFENSES_H

#include "defense/defense_impl.h"

extern const defense_desc defense_standard, defense_gbm, defense_certified, defense_smooth;

#endif
