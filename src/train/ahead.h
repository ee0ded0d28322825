/* train/ahead.h - batches made while the step before them computes, by a thread of their own or on the
 * device.
 *
 *     TRY(ahead_take(a, pick, left, &x));       // made already, where it was asked for
 *     ahead_ask(a, pick + size, left - size);
 *     ... a step on x ...
 *
 * Who makes a batch does not change it. */
#ifndef TRAIN_AHEAD_H
#define TRAIN_AHEAD_H

#include "model/model_impl.h"

typedef struct batch_ahead batch_ahead;

/* Batches of `size` texts, the last may have fewer. Their words and what may stand in their place by
 * `sets` (or NULL) are looked up on the device `on`, and the host has no copy of them
 * (model/slabs.h); NULL: a thread makes them, without sets. */
stet_status ahead_open(const model *m, const stet_corpus *c, size_t size, store *on,
                       const word_sets *sets, batch_ahead **out);
void ahead_close(batch_ahead *a); /* NULL is fine */
/* Begin with the first batch of texts pick[0..left), or with several of them; they stay as they are
 * until they are taken. */
void ahead_ask(batch_ahead *a, const uint32_t *pick, size_t left);
/* The first batch of these texts, made now unless it was asked for last. It stays until the next but
 * one is begun. */
stet_status ahead_take(batch_ahead *a, const uint32_t *pick, size_t left, batch *out);

#endif
