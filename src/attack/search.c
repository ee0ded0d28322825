/* attack/search.c - the core under every attack: texts as picks, a memory of what was asked,
 * batches.
 *
 * A question is the sorted list of edits against the original. Its 64-bit hash names its row: with
 * some 10^5 questions a text, two different ones meet with probability below 10^-9, and a success
 * is evaluated again in full in any case. */
#include <math.h>
#include <string.h>

#include "attack/attack_impl.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/strmap.h"

typedef struct slot {
    uint64_t hash; /* 0: empty */
    size_t row;
} slot;

typedef struct search_memory {
    slot *slots;
    size_t n_slots; /* power of two */
    double *prob;   /* (rows, K) */
    size_t rows, cap_prob;
    stet_edit *edits; /* of the questions not yet answered */
    size_t *start;
    size_t asked, cap_edits, cap_start;
    stet_edit *base; /* of search_base */
    size_t n_base, cap_base;
} search_memory;

enum { FIRST_SLOTS = 4096, TIMED_PIECE = 512 };

stet_status search_memory_new(search_memory **out)
{
    *out = mem_zalloc(1, sizeof **out);
    return *out ? STET_OK : STET_ENOMEM;
}

void search_memory_free(search_memory *m)
{
    if (!m)
        return;
    mem_free(m->slots);
    mem_free(m->prob);
    mem_free(m->edits);
    mem_free(m->start);
    mem_free(m->base);
    mem_free(m);
}

static stet_status forget(search_memory *m)
{
    m->rows = m->asked = 0;
    if (m->n_slots > FIRST_SLOTS ||
        !m->slots) { /* a long search must not slow down the short ones after it */
        mem_free(m->slots);
        m->slots = mem_alloc(FIRST_SLOTS, sizeof *m->slots);
        m->n_slots = m->slots ? FIRST_SLOTS : 0;
        if (!m->slots)
            return STET_ENOMEM;
    }
    memset(m->slots, 0, m->n_slots * sizeof *m->slots);
    return STET_OK;
}

/* ---- texts -------------------------------------------------------------------------------- */

uint32_t search_word(const search *s, size_t i, pick p)
{
    switch (p) {
    case PICK_ORIGINAL:
        return s->ids[i];
    case PICK_MASKED:
        return s->mask;
    case PICK_DELETED:
        return WORD_DELETED;
    default:
        return s->word[s->first[i] + p - 1];
    }
}

pick *search_text(search *s)
{
    return arena_znew(s->mem, pick, s->n + 1);
}

size_t search_changed(const search *s, const pick *x)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += x[i] != PICK_ORIGINAL;
    return n;
}

size_t search_max_changed(const search *s)
{
    const double share = s->common.max_change;
    return share > 0 && share < 1 ? (size_t)ceil(share * (double)s->n) : s->n;
}

/* ---- asking ------------------------------------------------------------------------------- */

stet_status search_start(search *s, const attack_text *t)
{
    s->success = s->complete = s->proved = false;
    s->queries = s->evaluations = 0;
    s->n_classes = s->v->n_classes;
    s->found = search_text(s);
    if (!s->found)
        return STET_ENOMEM;
    TRY(constraint_start(s));
    TRY(forget(s->memory));
    TRY(s->v->open(s->v, t));
    size_t row;
    TRY(search_ask(s, s->found, &row));
    return search_answer(s);
}

static slot *find_slot(slot *slots, size_t n, uint64_t hash)
{
    size_t k = hash & (n - 1);
    while (slots[k].hash && slots[k].hash != hash)
        k = (k + 1) & (n - 1);
    return &slots[k];
}

static stet_status grow_slots(search_memory *m)
{
    slot *wide = mem_zalloc(4 * m->n_slots, sizeof *wide);
    if (!wide)
        return STET_ENOMEM;
    for (size_t k = 0; k < m->n_slots; k++)
        if (m->slots[k].hash)
            *find_slot(wide, 4 * m->n_slots, m->slots[k].hash) = m->slots[k];
    mem_free(m->slots);
    m->slots = wide;
    m->n_slots *= 4;
    return STET_OK;
}

/* The row of the n edits that lie behind those already asked; they stay there if the question is
 * new. */
static stet_status take_row(search *s, size_t n, size_t *row)
{
    search_memory *m = s->memory;
    const stet_edit *e = m->edits + (m->asked ? m->start[m->asked] : 0);
    const uint64_t hash = hash_bytes(e, n * sizeof *e, n) | 1;
    if (2 * m->rows >= m->n_slots)
        TRY(grow_slots(m));
    slot *k = find_slot(m->slots, m->n_slots, hash);
    if (!k->hash) {
        TRY(mem_grow(&m->start, &m->cap_start, m->asked + 2, sizeof *m->start));
        TRY(mem_grow(&m->prob, &m->cap_prob, (m->rows + 1) * s->n_classes, sizeof *m->prob));
        *k = (slot){hash, m->rows++};
        if (m->asked == 0)
            m->start[0] = 0;
        m->start[m->asked + 1] = m->start[m->asked] + n;
        m->asked++;
    }
    *row = k->row;
    return STET_OK;
}

static stet_edit *room(search_memory *m, size_t n)
{
    const size_t used = m->asked ? m->start[m->asked] : 0;
    return mem_grow(&m->edits, &m->cap_edits, used + n, sizeof *m->edits) == STET_OK
               ? m->edits + used
               : NULL;
}

static size_t edits_of(const search *s, const pick *x, stet_edit *e)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (x[i] != PICK_ORIGINAL)
            e[n++] = (stet_edit){(uint32_t)i, search_word(s, i, x[i])};
    return n;
}

stet_status search_ask(search *s, const pick *x, size_t *row)
{
    stet_edit *e = room(s->memory, s->n + 1);
    return e ? take_row(s, edits_of(s, x, e), row) : STET_ENOMEM;
}

stet_status search_base(search *s, const pick *x)
{
    search_memory *m = s->memory;
    TRY(mem_grow(&m->base, &m->cap_base, s->n + 1, sizeof *m->base));
    m->n_base = edits_of(s, x, m->base);
    return STET_OK;
}

stet_status search_ask_swap(search *s, size_t i, pick p, size_t *row)
{
    search_memory *m = s->memory;
    stet_edit *e = room(m, m->n_base + 1);
    if (!e)
        return STET_ENOMEM;
    size_t n = 0, k = 0;
    while (k < m->n_base && m->base[k].pos < i)
        e[n++] = m->base[k++];
    if (p != PICK_ORIGINAL)
        e[n++] = (stet_edit){(uint32_t)i, search_word(s, i, p)};
    if (k < m->n_base && m->base[k].pos == i)
        k++;
    while (k < m->n_base)
        e[n++] = m->base[k++];
    return take_row(s, n, row);
}

/* Questions i to i + n of those asked; a victim's edits start at 0. */
static stet_status ask_some(search *s, size_t i, size_t n, double *prob)
{
    search_memory *m = s->memory;
    const size_t first = m->start[i];
    for (size_t k = i; k <= i + n; k++)
        m->start[k] -= first;
    const stet_status st = s->v->ask(s->v, m->edits + first, m->start + i, n, prob);
    m->start[i + n] += first; /* where the next ones begin */
    return st;
}

stet_status search_answer(search *s)
{
    search_memory *m = s->memory;
    if (m->asked == 0)
        return STET_OK;
    const size_t n = m->asked, piece = s->deadline > 0 ? TIMED_PIECE : n;
    double *prob = m->prob + (m->rows - n) * s->n_classes;
    m->asked = 0;
    for (size_t i = 0; i < n; i += piece) {
        const size_t some = n - i < piece ? n - i : piece;
        if (s->deadline > 0 && seconds_now() > s->deadline)
            return OVER_TIME;
        TRY(ask_some(s, i, some, prob + i * s->n_classes));
        s->evaluations += some;
    }
    return STET_OK;
}

stet_status search_near(search *s, const pick *x)
{
    TRY(search_base(s, x));
    return s->v->near ? s->v->near(s->v, s->memory->base, s->memory->n_base) : STET_OK;
}

/* ---- answers ------------------------------------------------------------------------------ */

const double *search_prob(const search *s, size_t row)
{
    return s->memory->prob + row * s->n_classes;
}

double search_p(const search *s, size_t row)
{
    return search_prob(s, row)[s->y];
}

double search_margin(const search *s, size_t row)
{
    const double *p = search_prob(s, row);
    double other = 0;
    for (size_t c = 0; c < s->n_classes; c++)
        if ((int)c != s->y && p[c] > other)
            other = p[c];
    const double tiny = 1e-300; /* keeps the logarithm finite */
    return log(p[s->y] + tiny) - log(other + tiny);
}

int most_probable(const double *prob, size_t k)
{
    size_t best = 0;
    for (size_t c = 1; c < k; c++)
        if (prob[c] > prob[best])
            best = c;
    return (int)best;
}

bool search_flipped(const search *s, size_t row)
{
    return most_probable(search_prob(s, row), s->n_classes) != s->y;
}

stet_status search_ask_proof(search *s, bool hard)
{
    if (!s->prover || s->proved)
        return STET_OK;
    return s->prover->proved(s->prover, s->worker, s->ids, &s->may, s->y, hard, &s->proved);
}

stet_status search_spend(search *s, size_t n)
{
    const uint64_t budget = (uint64_t)s->common.budget;
    if (budget && s->queries + n > budget) {
        s->queries++; /* as OpenAttack shows it */
        return OVER_BUDGET;
    }
    s->queries += n;
    return STET_OK;
}

void search_found(search *s, const pick *x, bool success)
{
    memmove(s->found, x, s->n * sizeof *x);
    s->success = success;
}

/* ---- chance and order --------------------------------------------------------------------- */

size_t chance_below(chance *c, size_t n)
{
    const size_t k = (size_t)(c->next(c) * (double)n);
    return k < n ? k : n - 1;
}

size_t chance_pick(chance *c, const double *weight, size_t n)
{
    return weighted_pick(c->next(c), weight, n);
}

/* Merge sort: stable, and an attack's order must not depend on the C library. */
static void merge_order(size_t *order, size_t *spare, const double *value, size_t n)
{
    if (n < 2)
        return;
    const size_t half = n / 2;
    merge_order(order, spare, value, half);
    merge_order(order + half, spare, value, n - half);
    size_t a = 0, b = half, k = 0;
    while (a < half || b < n)
        spare[k++] =
            b == n || (a < half && !(value[order[b]] > value[order[a]])) ? order[a++] : order[b++];
    memcpy(order, spare, n * sizeof *order);
}

size_t *order_falling(arena *mem, const double *value, size_t n)
{
    size_t *order = arena_new(mem, size_t, n + 1), *spare = arena_new(mem, size_t, n + 1);
    if (!order || !spare)
        return NULL;
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    merge_order(order, spare, value, n);
    return order;
}
