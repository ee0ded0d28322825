/* model/bilstm_mixtures.c - texts of a compiled BiLSTM whose words are mixtures. The compiled model
 * keeps the input projections of all words: these are mixed, and the copies of many texts walk
 * together.
 *
 * Texts go by falling length, so those still running at a step are the first rows. A word that is no
 * mixture is read where it lies. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "model/answers.h"
#include "model/bilstm.h"
#include "tensor/host/panel.h"

enum { ROWS = 48 }; /* copies of a piece, which fit the second cache with a direction's weights */

typedef struct mixed_job {
    const model *m;
    const bilstm_compiled *c;
    const mixed_texts *t;
    const real *weight; /* (copies, slots) */
    size_t *order;      /* (n) texts by falling length */
    float *logits;
    real *room; /* one of room_size for each worker */
    size_t room_size;
} mixed_job;

/* A piece: n of all copies in that order, and what it works in. */
typedef struct mixed_rows {
    size_t n;
    size_t text[ROWS], copy[ROWS], len[ROWS];
    real *h, *s;   /* (ROWS, P) */
    real *z, *mix; /* (ROWS, G) */
    real *parts;   /* (most slots of a word, G) */
    real *last[2]; /* (ROWS, P): what the classifier sees */
} mixed_rows;

static size_t room_size(const mixed_job *j)
{
    const mixed_texts *t = j->t;
    size_t most = 0;
    for (size_t w = 0; w < t->start[t->n]; w++)
        most = t->slot_at[w + 1] - t->slot_at[w] > most ? t->slot_at[w + 1] - t->slot_at[w] : most;
    return ROWS * (4 * j->c->P + 2 * j->c->G) + most * j->c->G;
}

static mixed_rows rows_of(const mixed_job *j, size_t piece, int worker)
{
    const bilstm_compiled *c = j->c;
    const mixed_texts *t = j->t;
    const size_t first = piece * ROWS, left = t->n * t->copies - first;
    real *room = j->room + (size_t)worker * j->room_size;
    mixed_rows x = {.n = left < ROWS ? left : ROWS};
    for (size_t r = 0; r < x.n; r++) {
        x.text[r] = j->order[(first + r) / t->copies];
        x.copy[r] = (first + r) % t->copies;
        x.len[r] = (size_t)(t->start[x.text[r] + 1] - t->start[x.text[r]]);
    }
    x.h = room;
    x.s = x.h + ROWS * c->P;
    x.last[0] = x.s + ROWS * c->P;
    x.last[1] = x.last[0] + ROWS * c->P;
    x.z = x.last[1] + ROWS * c->P;
    x.mix = x.z + ROWS * c->G;
    x.parts = x.mix + ROWS * c->G;
    return x;
}

/* What rows r .. r + n, copies of one text, read in direction d at `pos`: a row of the table that they
 * share, or a mixture of its own for each. */
static void read_word(const mixed_job *j, int d, const mixed_rows *x, size_t r, size_t n,
                      size_t pos, const real **word)
{
    const mixed_texts *t = j->t;
    const size_t G = j->c->G, all = t->slot_at[t->start[t->n]];
    const uint32_t *at = t->slot_at + t->start[x->text[r]] + pos, slots = at[1] - at[0];
    const real *table = j->c->word[d], *only = table + t->slot[at[0]] * G;
    for (size_t k = 0; k < n; k++)
        word[r + k] = slots == 1 ? only : x->mix + (r + k) * G;
    if (slots == 1)
        return;
    for (uint32_t s = 0; s < slots; s++)
        memcpy(x->parts + s * G, table + t->slot[at[0] + s] * G, G * sizeof *x->parts);
    for (size_t col = 0; col < G; col += PANEL)
        panel_kernel()(n, slots, (panel_left){j->weight + x->copy[r] * all + at[0], all, 1},
                       (panel_right){x->parts + col, G}, (panel_start){.zero = true},
                       x->mix + r * G + col, G);
}

static void walk(const mixed_job *j, int d, mixed_rows *x)
{
    const bilstm_compiled *c = j->c;
    const size_t P = c->P;
    const real *word[ROWS];
    bilstm_pool_none(c->pool, ROWS * P, x->last[d]);
    for (size_t step = 0, n = x->n; step < x->len[0]; step++) {
        while (x->len[n - 1] <= step)
            n--;
        for (size_t r = 0, next; r < n; r = next) {
            for (next = r + 1; next < n && x->text[next] == x->text[r];)
                next++;
            read_word(j, d, x, r, next - r, d ? x->len[r] - 1 - step : step, word);
            if (bilstm_starts(c->span, x->len[r], d, step)) {
                memset(x->h + r * P, 0, (next - r) * P * sizeof *x->h);
                memset(x->s + r * P, 0, (next - r) * P * sizeof *x->s);
            }
        }
        lstm_step_read(&c->cell[d], n, word, x->h, x->s, x->z);
        for (size_t r = 0; c->pool != POOL_LAST && r < n; r++)
            bilstm_pool_add(c->pool, P, x->h + r * P, x->last[d] + r * P);
    }
    if (c->pool == POOL_LAST)
        memcpy(x->last[d], x->h, x->n * P * sizeof *x->h);
}

static void mixed_piece(void *ctx, size_t piece, int worker)
{
    const mixed_job *j = ctx;
    const size_t P = j->c->P, K = j->m->n_classes;
    mixed_rows x = rows_of(j, piece, worker);
    walk(j, 0, &x);
    walk(j, 1, &x);
    for (size_t r = 0; r < x.n; r++)
        bilstm_head(j->m, x.len[r], x.last[0] + r * P, x.last[1] + r * P,
                    j->logits + (x.text[r] * j->t->copies + x.copy[r]) * K);
}

/* Texts by falling length: sorted by pairs of length and number. */
typedef struct text_len {
    size_t len, i;
} text_len;

static int longer_first(const void *a, const void *b)
{
    const text_len *x = a, *y = b;
    return x->len != y->len ? x->len < y->len ? 1 : -1 : (x->i > y->i) - (x->i < y->i);
}

static stet_status order_texts(mixed_job *j, arena *mem)
{
    const mixed_texts *t = j->t;
    text_len *by = arena_new(mem, text_len, t->n);
    j->order = arena_new(mem, size_t, t->n);
    if (!by || !j->order)
        return STET_ENOMEM;
    for (size_t i = 0; i < t->n; i++)
        by[i] = (text_len){(size_t)(t->start[i + 1] - t->start[i]), i};
    qsort(by, t->n, sizeof *by, longer_first);
    for (size_t i = 0; i < t->n; i++)
        j->order[i] = by[i].i;
    return STET_OK;
}

stet_status bilstm_mixtures(const model *m, const mixed_texts *t, const real *weight, float *logits)
{
    arena mem = {0};
    mixed_job j = {.m = m, .c = m->compiled, .t = t, .weight = weight, .logits = logits};
    stet_status st = t->n ? order_texts(&j, &mem) : STET_OK;
    j.room_size = room_size(&j);
    j.room = arena_new(&mem, real, (size_t)stet_threads() * j.room_size);
    if (st == STET_OK && j.room)
        pool_run((t->n * t->copies + ROWS - 1) / ROWS, mixed_piece, &j);
    else
        st = error_set(STET_ENOMEM, "out of memory for %zu texts", t->n * t->copies);
    arena_deinit(&mem);
    return st;
}
