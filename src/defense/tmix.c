/* defense/tmix.c - texts mixed between two layers (TMix: Chen, Yang and Yang 2020, as MixADA uses it).
 *
 * Both texts of a pair pass through the layers below by themselves, the shorter one continued by filler
 * rows up to the other's length. These read their text's own rows, and nothing reads them; above the
 * mix all rows are alike. A text is in two pairs, so it is continued once, to the longer need. */
#include <string.h>

#include "defense/mixada.h"
#include "model/word_scores.h"

typedef struct pairs {
    size_t n;                       /* texts */
    seq_index whole;                /* the batch's texts, in its order, continued */
    const uint32_t *own;            /* (tokens of the batch) where their rows stand in it */
    const uint32_t *word;           /* (whole.n_rows) */
    seq_index mixed;                /* the mixtures, from long to short */
    const uint32_t *first, *second; /* (mixed.n_tokens) rows of `whole` */
    const uint32_t *place;          /* (n) where the mixture of text b stands among them */
} pairs;

static uint32_t length(const seq_index *q, size_t b)
{
    return q->start[b + 1] - q->start[b];
}

static uint32_t longer(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static stet_status continue_texts(const step_view *v, const uint32_t *with, pairs *to)
{
    const seq_index *q = &v->x->seq;
    const size_t V = q->n_rows;
    uint32_t *start = arena_znew(v->mem, uint32_t, to->n + 1),
             *own = arena_new(v->mem, uint32_t, q->n_tokens),
             *word = arena_new(v->mem, uint32_t, V + 1);
    if (!start || !own || !word)
        return STET_ENOMEM;
    for (size_t b = 0; b < to->n; b++) {
        const uint32_t both = longer(length(q, b), length(q, with[b]));
        start[b + 1] = longer(start[b + 1], both);
        start[with[b] + 1] = longer(start[with[b] + 1], both);
    }
    for (size_t b = 0; b < to->n; b++)
        start[b + 1] += start[b];
    uint32_t *row = arena_new(v->mem, uint32_t, start[to->n]);
    if (!row)
        return STET_ENOMEM;
    for (size_t b = 0; b < to->n; b++)
        for (uint32_t i = 0; i < start[b + 1] - start[b]; i++) {
            const bool filler = i >= length(q, b);
            row[start[b] + i] = filler ? (uint32_t)V : q->row[q->start[b] + i];
            if (!filler)
                own[q->start[b] + i] = start[b] + i;
        }
    memcpy(word, v->x->word, V * sizeof *word);
    word[V] = v->m->desc->layers->filler(v->m);
    /* no text becomes longer than the longest */
    to->whole = (seq_index){to->n, start[to->n], V + 1, q->max_len, start, row};
    to->own = own;
    to->word = word;
    return STET_OK;
}

static stet_status mix_texts(const step_view *v, const uint32_t *with, pairs *to)
{
    const seq_index *q = &v->x->seq;
    uint32_t *start = arena_new(v->mem, uint32_t, to->n + 1),
             *place = arena_new(v->mem, uint32_t, to->n),
             *of_length = arena_znew(v->mem, uint32_t, q->max_len + 1), tokens = 0, at = 0;
    if (!start || !place || !of_length)
        return STET_ENOMEM;
    for (size_t b = 0; b < to->n; b++)
        of_length[longer(length(q, b), length(q, with[b]))]++;
    for (size_t len = q->max_len; len > 0; len--) { /* how many are longer */
        const uint32_t n = of_length[len];
        of_length[len] = at;
        for (uint32_t i = 0; i < n; i++, tokens += (uint32_t)len)
            start[at++] = tokens;
    }
    start[at] = tokens;
    uint32_t *first = arena_new(v->mem, uint32_t, tokens),
             *second = arena_new(v->mem, uint32_t, tokens);
    if (!first || !second)
        return STET_ENOMEM;
    for (size_t b = 0; b < to->n; b++) {
        const uint32_t len = longer(length(q, b), length(q, with[b]));
        place[b] = of_length[len]++;
        for (uint32_t i = 0; i < len; i++) {
            first[start[place[b]] + i] = to->whole.start[b] + i;
            second[start[place[b]] + i] = to->whole.start[with[b]] + i;
        }
    }
    to->mixed = (seq_index){to->n, tokens, 0, start[1], start, NULL};
    to->first = first;
    to->second = second;
    to->place = place;
    return STET_OK;
}

/* The first row of every mixture, above all layers. */
static node *through(const step_view *v, const pairs *of, size_t below, double share)
{
    const model *m = v->m;
    const model_layers *net = m->desc->layers;
    const size_t L = net->n(m), n = of->mixed.n_tokens;
    tape *t = v->p->t;
    pass low = *v->p, high = *v->p;
    low.rows = pass_rows(v->p, of->word, of->whole.n_rows);
    low.seq = &of->whole;
    node *x = net->first(m, &low);
    low.seq = v->p->seq;
    for (size_t l = 0; l < below; l++)
        x = net->layer(m, &low, op_gather(t, x, of->own, low.seq->n_tokens), x, &of->whole, l);
    high.seq = &of->mixed;
    x = op_add(t, op_scale(t, op_gather(t, x, of->first, n), share),
               op_scale(t, op_gather(t, x, of->second, n), 1 - share));
    for (size_t l = below; l + 1 < L; l++)
        x = net->layer(m, &high, x, x, NULL, l);
    node *first = op_gather(t, x, of->mixed.start, of->n);
    return below < L ? net->layer(m, &high, x, first, NULL, L - 1) : first;
}

node *tmix_logits(const step_view *v, size_t below, double share, const uint32_t *with)
{
    const model *m = v->m;
    tape *t = v->p->t;
    pairs *of = arena_znew(v->mem, pairs, 1); /* ops keep its indices until the backward pass */
    stet_status st = of ? STET_OK : STET_ENOMEM;
    if (st == STET_OK) {
        of->n = v->x->seq.n_texts;
        st = continue_texts(v, with, of);
    }
    if (st == STET_OK)
        st = mix_texts(v, with, of);
    if (st != STET_OK) {
        tape_fail(t, st);
        return NULL;
    }
    node *x = m->desc->layers->features(m, v->p, through(v, of, below, share));
    node *z = op_gather(t, model_last_layer(m, v->p, x), of->place, of->n);
    if (!has_word_scores(m))
        return z;
    return op_add(t, z, mixed_rows(t, word_scores_sum(m, v->p), of->n, share, with));
}
