/* model/slabs.h - batches whose words are looked up where the step computes.
 *
 *     TRY(slabs_open(m, corpus, size, sets, store, &s));  corpus and sets are uploaded once
 *     TRY(slabs_take(s, pick, left, &x));                 the first `size` of texts pick[0..left)
 *     slabs_ask(s, pick + size, left - size);             what will be taken next
 *     ... a step on x ...
 *
 * A slab is up to SLAB_BATCHES batches. The host makes their heads (batch_plan), one kernel makes
 * all their rows and words, and sends how many words each has. Where there are sets, it makes the
 * rows of what may stand in the texts as well. There are two slabs: while the batches of one are
 * used, the other is made, so nobody waits for these numbers but at the start. Nothing is allocated
 * after slabs_open.
 *
 * The batches are those of batch_make and batch_number_sets, but the host has no copy of `seq.row`,
 * `word` and `set_rows`: these are names (batch.twin). */
#ifndef MODEL_SLABS_H
#define MODEL_SLABS_H

#include "model/model_impl.h"

typedef struct slabs slabs;

/* Does nothing in the model's own pass look at words on the host, as a file of rows does? And is there
 * a kernel, and the corpus not too large to be kept on a device? */
bool slabs_suit(const model *m, const stet_corpus *c, const store *s);

/* Batches of `size` texts, the last may have fewer; with what may stand in them by `sets`, unless
 * NULL. m, c and sets stay as they are. STET_EUSAGE: a text has a word that is none of the model's. */
stet_status slabs_open(const model *m, const stet_corpus *c, size_t size, const word_sets *sets,
                       store *s, slabs **out);
void slabs_close(slabs *s); /* NULL is fine */
/* pick[0..left) stays as it is until it is taken. A failure is told by slabs_take. */
void slabs_ask(slabs *s, const uint32_t *pick, size_t left);
/* The batch stays until the next but one is asked for. */
stet_status slabs_take(slabs *s, const uint32_t *pick, size_t left, batch *out);

#endif
