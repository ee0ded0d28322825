/* model/answers.h - the questions of many texts at once, on a device.
 *
 *     answers *a;
 *     TRY(answers_open(m, "cuda", &a));        NULL: the host answers
 *     ... many threads, each with a text of its own: view_open_on(m, a, ...), stet_view_edits()
 *     answers_close(a);
 *
 * An attack asks about some hundred variants of its text and must wait for the answers; a GPU wants
 * tens of thousands. So many more texts are under way than there are cores, each on a thread that
 * waits, and whoever finds the device free takes all that was asked until then as one batch. Nobody
 * waits for more than the batch before its own. What is answered does not depend on who shares the
 * batch.
 *
 * A kind says in its answer_desc how a device answers for it; the texts of other kinds are written out
 * and go through the forward pass there, one question after the other. A model with a rule is asked by
 * that rule alone: about whole texts that it has drawn, or about mixtures of words. */
#ifndef MODEL_ANSWERS_H
#define MODEL_ANSWERS_H

#include "model/device_args.h"
#include "model/model_impl.h"

typedef struct answers answers;

/* What a kind has for a device. */
struct answer_desc {
    device kernels; /* the device */
    /* The compiled model in the store. STET_ENOTSUP: not one of these settings. */
    stet_status (*open)(const model *m, store *s, void **out);
    void (*close)(void *own, store *s);
    /* Numbers of the device that a text's word, and a variant, need meanwhile. */
    size_t (*word_room)(const void *own), (*variant_room)(const void *own);
    size_t (*tile)(const void *own); /* variants that go together; NULL: no tiles */
    stet_status (*edits)(const void *own, const edit_batch *b, float *room);
    /* Whole texts: a variant each, without edits. And the numbers that a text, or a copy of one in a
     * mixture, needs meanwhile. */
    stet_status (*texts)(const void *own, const edit_batch *b, float *room);
    size_t (*text_room)(const void *own);
    /* NULL: there are none. */
    stet_status (*ranges)(const void *own, const range_batch *b);
    /* Mixtures of words, with the weights that are there. NULL: there are none. */
    stet_status (*mixtures)(const void *own, const mixed_batch *b, float *room);
    stet_status (*weights)(const mixed_batch *b); /* fills b->weight */
};

/* `where` as --device has it. *out = NULL: the host answers, by the model's own views. So
 * do models with a rule that asks for more than the network (rule_desc.on_device). */
stet_status answers_open(const model *m, const char *where, answers **out);
void answers_close(answers *a); /* NULL is fine */

/* Texts that should be under way at once; for NULL as many as there are threads. */
enum { ANSWERS_AT_ONCE = 256 };
size_t answers_at_once(const answers *a);
/* Around the work on a text: no more of them compute at a time than there are threads. Who asks hands
 * his turn on while he waits. NULL is fine. */
void answers_begin(answers *a);
void answers_end(answers *a);

/* Can variants be asked for? Else whole texts are written out for answers_model(). */
bool answers_edits_there(const answers *a);
/* As stet_view_edits, for rows ids[0..n), n > 0; word scores are not in it. */
stet_status answers_edits(answers *a, const uint32_t *ids, size_t n, const stet_edit *edits,
                          const size_t *start, size_t n_variants, float *logits);
/* The same of the texts of a corpus as they are, each of one row at least. */
stet_status answers_texts(answers *a, const stet_corpus *c, float *logits);
/* Of whole texts, where variants cannot be asked for: the model, whose network answers on the device.
 * Else, and for NULL, the model itself. */
const model *answers_model(const answers *a, const model *m);
/* Does the same text get other answers in another batch, by more than float's rounding? In forward
 * passes, where factors are rounded to fewer bits and where votes are counted. */
bool answers_rough(const answers *a);

/* Texts whose words are mixtures of rows: see mixed_batch. */
typedef struct mixed_texts {
    size_t n, copies;
    double alpha;
    const uint64_t *start;   /* (n + 1) where a text begins; a text has a word at least */
    const uint32_t *slot_at; /* (words + 1) */
    const uint32_t *slot;
    const uint64_t *seed;    /* (n) */
} mixed_texts;
bool answers_mixtures_there(const answers *a); /* NULL: no */
/* Logits (n, copies, K). Every question to one `answers` has the same copies and alpha. */
stet_status answers_mixtures(answers *a, const mixed_texts *t, float *logits);

/* Of a CNN: for every feature the largest window from below and from above, over all choices of words,
 * each end widened by pad (features): certify/cert_cnn_windows.c, bit by bit. */
bool answers_ranges_there(const answers *a);
stet_status answers_ranges(answers *a, size_t n, const uint32_t *start, const uint32_t *word,
                           size_t features, const real *pad, real *lo, real *hi);

/* views.c: stet_view_open, with its answers from `a` unless that is NULL. */
stet_status view_open_on(const model *m, answers *a, const stet_words *w, const uint32_t *ids,
                         size_t n, stet_view **out);
/* Logits (n, K) of n other texts, words ids[start[i] .. start[i + 1]); of views that a device answers
 * by answers_edits(). */
stet_status view_texts(stet_view *v, const uint32_t *ids, const size_t *start, size_t n,
                       float *logits);

#endif
