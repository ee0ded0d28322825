/* stet/sandwich.h - robust accuracy from both sides: proofs below, attacks above, on the same texts.
 *
 *     stet_certify_args a = STET_CERTIFY_DEFAULTS;
 *     a.model = m, a.data = test, a.sets = &sets;
 *     const char *const attacks[] = {"greedy", "pwws", NULL};
 *     stet_sandwich s;
 *     if (stet_sandwich_run(&a, attacks, 1, &s) == STET_OK)
 *         printf("%.3f <= robust accuracy <= %.3f\n", s.proved.certified, s.upper);
 *     stet_sandwich_deinit(&s);
 *
 * Experimental. */
#ifndef STET_SANDWICH_H
#define STET_SANDWICH_H

#include "stet/attack.h"
#include "stet/certify.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stet_sandwich {
    stet_certify_result proved;
    size_t n_attacks;
    stet_attack_result *attacked; /* (n_attacks) in the order given */
    size_t
        survivors; /* texts that are right and that nothing flipped, a counter-example included */
    double upper;  /* their share */
    char *dispute; /* a text is both proved and flipped, so that one of the two is wrong: which, and
                         by whom; NULL: there is none */
} stet_sandwich;

/* Attacks by name, NULL at the end, with the settings of their profile openattack. STET_EUSAGE for
 * proofs with a budget: attacks change as many words as they like. On failure *out holds nothing. */
STET_API stet_status stet_sandwich_run(const stet_certify_args *proofs, const char *const *attacks,
                                       uint64_t seed, stet_sandwich *out);
STET_API void stet_sandwich_deinit(stet_sandwich *s); /* {0} is fine */

#ifdef __cplusplus
}
#endif
#endif
