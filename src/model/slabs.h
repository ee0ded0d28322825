/* model/slabs.h - batches whose words are looked up where the step computes.
 *
 *     TRY(slabs_open(m, corpus, size, store, &s));        the corpus is uploaded once
 *     TRY(slabs_take(s, pick, left, &x));                 the first `size` of texts pick[0..left)
 *     slabs_ask(s, pick + size, left - size);             what will be taken next
 *     ... a step on x ...
 *
 * A slab is up to SLAB_BATCHES batches. The host makes their heads (batch_plan), one kernel makes
 * all their rows and words, and sends how many words each has. There are two slabs: while the
 * batches of one are used, the other is made, so nobody waits for these numbers but at the start.
 * Nothing is allocated after slabs_open.
 *
 * The batches are those of batch_make, but the host has no copy of `seq.row` and `word`: these are
 * names (batch.twin). */
#ifndef MODEL_SLABS_H
#define MODEL_SLABS_H

#include "model/model_impl.h"

typedef struct slabs slabs;

/* Does nothing in the model's own pass look at rows and words on the host? And is there a kernel, and
 * the corpus not too large to be kept on a device? */
bool slabs_suit(const model *m, const stet_corpus *c, const store *s);

/* Batches of `size` texts, the last may have fewer. m and c stay as they are. STET_EUSAGE: a text has
 * a word that is none of the model's. */
stet_status slabs_open(const model *m, const stet_corpus *c, size_t size, store *s, slabs **out);
void slabs_close(slabs *s); /* NULL is fine */
/* pick[0..left) stays as it is until it is taken. A failure is told by slabs_take. */
void slabs_ask(slabs *s, const uint32_t *pick, size_t left);
/* The batch stays until the next but one is asked for. */
stet_status slabs_take(slabs *s, const uint32_t *pick, size_t left, batch *out);

#endif
