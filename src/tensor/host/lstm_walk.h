/* tensor/host/lstm_walk.h - the way of a piece of work through time. A piece is one direction of one
 * group of texts; these are sorted by falling length, so those still running at a step are the
 * first few. The reverse direction starts at each text's own end. */
#ifndef TENSOR_HOST_LSTM_WALK_H
#define TENSOR_HOST_LSTM_WALK_H

#include "tensor/tensor.h"

enum { LSTM_GROUP = 16 }; /* texts of a piece */

/* Texts b .. b + n run at step t, and are rows row .. row + n of what is kept. */
typedef struct lstm_walk {
    size_t dir, b, n, t, row;
} lstm_walk;

static inline size_t lstm_groups(const seq_index *q)
{
    return (q->n_texts + LSTM_GROUP - 1) / LSTM_GROUP;
}

static inline size_t text_len(const seq_index *q, size_t b)
{
    return q->start[b + 1] - q->start[b];
}

/* Piece 2 g + d is direction d of group g. */
static inline lstm_walk walk_start(const seq_index *q, size_t piece)
{
    const size_t b = piece / 2 * LSTM_GROUP, left = q->n_texts - b;
    return (lstm_walk){piece % 2, b, left < LSTM_GROUP ? left : LSTM_GROUP, 0, q->start[b]};
}

/* How many of the texts that run now have a next step. */
static inline size_t walk_going_on(const seq_index *q, const lstm_walk *w)
{
    size_t n = w->n;
    while (n && text_len(q, w->b + n - 1) <= w->t + 1)
        n--;
    return n;
}

/* The token that text r of the piece reads at this step. */
static inline size_t walk_token(const seq_index *q, const lstm_walk *w, size_t r)
{
    const uint32_t *start = q->start + w->b + r;
    return w->dir ? start[1] - 1 - w->t : start[0] + w->t;
}

#endif
