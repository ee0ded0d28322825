/* model/spans.c - see spans.h. Ops want their texts by falling length, so the pieces are sorted. */
#include "model/spans.h"

static size_t piece_len(const seq_index *seq, size_t text, size_t first, size_t span)
{
    const size_t left = seq->start[text + 1] - first;
    return left < span ? left : span;
}

/* next[len]: of each length the number of the first piece, by falling length. How many there are. */
static size_t number_pieces(const seq_index *seq, size_t span, uint32_t *next)
{
    size_t n = 0;
    for (size_t b = 0; b < seq->n_texts; b++)
        for (size_t first = seq->start[b]; first < seq->start[b + 1]; first += span)
            next[piece_len(seq, b, first, span)]++;
    for (size_t len = span + 1; len-- > 0;) {
        const uint32_t count = next[len];
        next[len] = (uint32_t)n;
        n += count;
    }
    return n;
}

spans spans_cut(tape *t, const seq_index *seq, size_t span)
{
    const spans whole = {.seq = seq};
    if (span == 0 || seq->max_len <= span)
        return whole;
    const size_t T = seq->n_tokens;
    seq_index *cut = arena_new(t->mem, seq_index, 1);
    uint32_t *next = arena_znew(t->mem, uint32_t, span + 1);
    const size_t n = next ? number_pieces(seq, span, next) : 0, count = n + 1 + 2 * T;
    uint32_t *from = arena_new(t->mem, uint32_t, n + 1), /* a piece's first token in its text */
        *start = arena_new(t->mem, uint32_t, count), *at = start + n + 1, *of = at + T;
    if (!cut || !next || !from || !start) {
        tape_fail(t, STET_ENOMEM);
        return whole;
    }
    for (size_t b = 0; b < seq->n_texts; b++)
        for (size_t first = seq->start[b]; first < seq->start[b + 1]; first += span) {
            const size_t len = piece_len(seq, b, first, span), i = next[len]++;
            from[i] = (uint32_t)first;
            start[i + 1] = (uint32_t)len;
        }
    start[0] = 0;
    for (size_t i = 0; i < n; i++) {
        start[i + 1] += start[i];
        for (size_t k = 0; k < start[i + 1] - start[i]; k++) {
            of[start[i] + k] = from[i] + (uint32_t)k;
            at[from[i] + k] = start[i] + (uint32_t)k;
        }
    }
    tape_twin(t, start, count * sizeof *start); /* all of it at once */
    const spans s = {cut, at, of};
    *cut = (seq_index){n, T, seq->n_rows, span, start, NULL};
    cut->row = spans_tokens(t, &s, seq->row);
    return s;
}

node *spans_join(tape *t, const spans *s, node *x)
{
    return s->at ? op_permute(t, x, s->at, s->seq->n_tokens) : x;
}

/* ---- numbers of tokens -------------------------------------------------------------------- */

static stet_status cpu_reorder(const uint32_t *x, const uint32_t *from, size_t n, uint32_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = x[from[i]];
    return STET_OK;
}

static stet_status (*const kernels[DEV_COUNT])(const uint32_t *x, const uint32_t *from, size_t n,
                                               uint32_t *out) = {[DEV_CPU] = cpu_reorder,
                                                                 CUDA_KERNEL(cuda_reorder)};

const uint32_t *spans_tokens(tape *t, const spans *s, const uint32_t *of_text)
{
    if (!s->at)
        return of_text;
    const size_t n = s->seq->n_tokens, bytes = n * sizeof *of_text;
    uint32_t *out = arena_new(t->mem, uint32_t, n);
    if (!out) {
        tape_fail(t, STET_ENOMEM);
        return of_text;
    }
    if (!tape_is_name(t, of_text)) {
        cpu_reorder(of_text, s->of, n, out);
        return out;
    }
    const uint32_t *x = tape_twin(t, of_text, bytes), *from = tape_twin(t, s->of, bytes);
    uint32_t *made = tape_memory(t, n, sizeof *made);
    if (tape_status(t) != STET_OK)
        return out;
    tape_twin_is(t, out, bytes, 0, made);
    store_enter(t->store);
    const stet_status st = kernels[t->store->desc->kernels](x, from, n, made);
    store_leave(t->store);
    if (st != STET_OK)
        tape_fail(t, st);
    return out;
}
