/* model/spans.h - recurrences that start anew every `span` words: texts are cut into pieces of so many
 * words, the last one of what is left, and each piece is read as a text of its own. What is computed
 * for every word is then joined to texts again, for the pooling. A change of a word reaches no
 * further than its piece.
 *
 *     const spans cut = spans_cut(t, p->seq, span);
 *     node *states = spans_join(t, &cut, op_bilstm_states(t, p->rows, w, cut.seq, NULL));
 */
#ifndef MODEL_SPANS_H
#define MODEL_SPANS_H

#include "model/model_impl.h"

/* Words of a piece, 0: the whole text; an option of kinds with a recurrence, under this name. */
#define SPAN_OPT(T, f)                                                                             \
    STET_OPT_INT("span", T, f, "0", 0, 1 << 20, "N",                                               \
                 "bilstm, s4: the recurrence starts anew every N words; 0: never")

static inline size_t model_span(const model *m)
{
    return m->desc->span ? m->desc->span(m) : 0;
}
/* The most words that a recurrence runs over. */
static inline size_t model_steps(const model *m)
{
    const size_t span = model_span(m);
    return span && span < m->max_len ? span : m->max_len;
}
/* Where the piece of position p starts and ends in a text of n words. */
static inline size_t span_start(size_t span, size_t p)
{
    return span ? p - p % span : 0;
}
static inline size_t span_end(size_t span, size_t n, size_t p)
{
    const size_t end = span_start(span, p) + span;
    return span && end < n ? end : n;
}

/* What the recipes "robust" of recurrent models share. */
#define RECIPE_SPANS                                                                               \
    RECIPE_ROBUST, "--span", "8", "--word-scores", "--score-lr", "0.005", "--tune-vectors",        \
        "3e-4", "--smooth", "3", "--ramp", "0.3", "--clip", "1", "--batch", "32", "--dropout",     \
        "0.2", "--weight-decay", "5e-4", "--epochs", "4"

typedef struct spans {
    const seq_index *seq; /* of the pieces; of the texts themselves, where none is longer */
    const uint32_t *at; /* (T) where a text's token is among those of the pieces; NULL: the same */
    const uint32_t *of; /* (T) the other way: a piece's token among those of the texts */
} spans;

/* In memory of the tape, arrays in the host's; but seq->row is a name where it is one in the texts. */
spans spans_cut(tape *t, const seq_index *seq, size_t span);
/* x (T, c) by tokens of the pieces, as tokens of the texts. */
node *spans_join(tape *t, const spans *s, node *x);
/* Numbers that belong to tokens of the texts (the host's, or a name: tape_is_name), by tokens of the
 * pieces, of the same kind, in memory of the tape. */
const uint32_t *spans_tokens(tape *t, const spans *s, const uint32_t *of_text);

#endif
