/* train/prepare.h - from files to what the loop needs: split corpora, vocabulary, vectors, a fresh model. */
#ifndef TRAIN_PREPARE_H
#define TRAIN_PREPARE_H

#include "defense/defense_impl.h"
#include "stet/train.h"

typedef struct prepared {
    stet_subst *subst; /* or NULL */
    stet_corpus train, valid;
    model *m;
    uint64_t fingerprint; /* of everything that decides the run's bytes */
    double smooth_residual;
} prepared;

stet_status prepare(const stet_train_args *a, prepared *out);
void prepared_deinit(prepared *p);

#endif
