/* bound/lstm_ranges.h - ranges of a bidirectional LSTM's last states over substitution sets, on the
 * tape. */
#ifndef BOUND_LSTM_RANGES_H
#define BOUND_LSTM_RANGES_H

#include "bound/batch_sets.h"

/* Interval arithmetic step by step (gbm.md 6b, level 0) for the texts of `s`: lower ends, then
 * upper ends, of op_bilstm's result, as (B, 4 H). The word's part of a gate is the exact range over
 * its set, the state's part is bounded by centre and radius. w[8] as in op_bilstm; substitutes at
 * `eps` of their distance from the word. Gradients reach all weights and rows. */
node *op_bilstm_ranges(tape *t, const batch_sets *s, node *const w[8], double eps);
/* The same of op_bilstm_states: the states after every token, (T, 4 H). */
node *op_bilstm_states_ranges(tape *t, const batch_sets *s, node *const w[8], double eps);
/* What either projected of the batch's own words: op_bilstm_made of them. NULL on a device without it. */
node *bilstm_ranges_made(tape *t, const node *ranges);

#endif
