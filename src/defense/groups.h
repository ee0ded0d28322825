/* defense/groups.h - groups of words that substitutions connect. */
#ifndef DEFENSE_GROUPS_H
#define DEFENSE_GROUPS_H

#include "bound/hulls.h"

/* code (n_words): the most frequent word of all that can be reached from each by substitutions, in
 * either direction, step by step. <pad> and <unk> are left alone. In sem.c. */
void groups_closed(const word_sets *s, uint32_t *code);

#endif
