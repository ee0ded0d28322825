/* train/prepare.h - from files to what the loop needs: split corpora, vocabulary, vectors, a fresh model.
 * Vectors and parameters pass through the hands of the defences. */
#ifndef TRAIN_PREPARE_H
#define TRAIN_PREPARE_H

#include "defense/defense_impl.h"
#include "stet/train.h"

typedef struct prepared {
    stet_subst *subst; /* its words that are read as themselves; or NULL */
    uint64_t synonyms; /* fingerprint of the set as it was given */
    stet_corpus train, valid;
    real *target; /* (texts of train, K) soft labels; NULL: the labels stand */
    model *m;
    uint64_t fingerprint; /* of everything that decides the run's bytes */
    step_metrics told;    /* what defences say of the vectors */
} prepared;

stet_status prepare(const stet_train_args *a, const defense_list *defenses, prepared *out);
void prepared_deinit(prepared *p);

#endif
