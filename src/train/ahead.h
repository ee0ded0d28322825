/* train/ahead.h - batches made by a thread of their own while the step before them computes.
 *
 *     TRY(ahead_take(a, pick, n, &x));       // made already, where it was asked for
 *     ahead_ask(a, next_pick, n_next);
 *     ... a step on x ...
 *
 * Who makes a batch does not change it. */
#ifndef TRAIN_AHEAD_H
#define TRAIN_AHEAD_H

#include "model/model_impl.h"

typedef struct batch_ahead batch_ahead;

stet_status ahead_open(const model *m, const stet_corpus *c, batch_ahead **out);
void ahead_close(batch_ahead *a); /* NULL is fine */
/* Begin with the batch of texts pick[0..n), which stay as they are until it is taken. */
void ahead_ask(batch_ahead *a, const uint32_t *pick, size_t n);
/* The batch of these texts, made now unless it was asked for last. It stays until the next but one
 * is begun. */
stet_status ahead_take(batch_ahead *a, const uint32_t *pick, size_t n, batch *out);

#endif
