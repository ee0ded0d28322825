/* attack/greedy.c - the strongest attack here: steepest descent of the margin over whole
 * neighbourhoods, which incremental evaluation makes cheap.
 *
 * One sweep asks every candidate of every position on the current text, orders the positions by
 * what their best candidate gains, and tries all prefixes of that order, so that one sweep changes
 * as many words as pay together; then the next sweep starts from the best of them. Where no prefix
 * and no single swap helps, a beam of the best pairs is tried, then the search starts again from
 * random texts; a small space is at last searched as a whole. A success is trimmed: changes that it
 * does not need are taken back.
 *
 * Most of the time would go into texts that nothing flips. So a prover is asked: for a cheap proof at
 * once, for any proof after the first sweep, which flips most of what can be flipped. */
#include <math.h>
#include <string.h>

#include "attack/attacks.h"

typedef struct greedy_cfg {
    int64_t restarts, sweeps, beam, exact;
    bool trim, proofs;
} greedy_cfg;

static const stet_opt opts[] = {
    STET_OPT_INT("greedy-restarts", greedy_cfg, restarts, "6", 0, 10000, "N",
                 "random starts after the first descent"),
    STET_OPT_INT("greedy-sweeps", greedy_cfg, sweeps, "50", 1, 10000, "N",
                 "sweeps of a descent, at most"),
    STET_OPT_INT("greedy-beam", greedy_cfg, beam, "8", 0, 1000, "N",
                 "swaps whose pairs are tried where single ones do not help"),
    STET_OPT_INT("greedy-exact", greedy_cfg, exact, "4096", 0, 1e8, "N",
                 "where all else failed, try every combination if there are at most this many"),
    {STET_OPT_FIELD("greedy-trim", STET_T_FLAG, greedy_cfg, trim), .def = "yes",
     .help = "take back changes that a success does not need"},
    {STET_OPT_FIELD("greedy-proofs", STET_T_FLAG, greedy_cfg, proofs), .def = "yes",
     .help = "leave a text as soon as a certificate proves that nothing flips it"},
    STET_OPT_END,
};

typedef struct descent {
    search *s;
    pick *x;       /* (n) where it stands */
    double margin; /* of x */
    size_t *rows;  /* (first[n] + n) of a sweep's questions */
    double *gain;  /* (n) of the best swap of each position */
    pick *best;    /* (n) that swap */
    size_t limit;  /* words that may change */
} descent;

static void move_to(descent *d, const pick *x, size_t row)
{
    if (x != d->x)
        memcpy(d->x, x, d->s->n * sizeof *x);
    d->margin = search_margin(d->s, row);
    if (search_flipped(d->s, row))
        search_found(d->s, d->x, true);
}

/* Ask every swap at every position, the original word among them; leave the best of each position.
 */
static stet_status look_around(descent *d)
{
    search *s = d->s;
    const size_t changed = search_changed(s, d->x);
    TRY(search_near(s, d->x));
    size_t asked = 0;
    for (size_t i = 0; i < s->n; i++)
        for (size_t p = 0; search_free(s, i) && p <= search_count(s, i); p++)
            if (p != d->x[i])
                TRY(search_ask_swap(s, i, (pick)p, &d->rows[asked++]));
    TRY(search_spend(s, asked));
    TRY(search_answer(s));
    asked = 0;
    for (size_t i = 0; i < s->n; i++) {
        d->gain[i] = -INFINITY;
        d->best[i] = d->x[i];
        for (size_t p = 0; search_free(s, i) && p <= search_count(s, i); p++) {
            if (p == d->x[i])
                continue;
            const double gain = d->margin - search_margin(s, d->rows[asked++]);
            if (gain > d->gain[i] && !(d->x[i] == PICK_ORIGINAL && changed >= d->limit)) {
                d->gain[i] = gain;
                d->best[i] = (pick)p;
            }
        }
    }
    return STET_OK;
}

/* Try the prefixes of the gaining swaps; *moved tells whether the best of them is an improvement.
 */
static stet_status take_prefix(descent *d, const size_t *order, bool *moved)
{
    search *s = d->s;
    pick *x = arena_new(s->mem, pick, s->n + 1), *best = arena_new(s->mem, pick, s->n + 1);
    if (!x || !best)
        return STET_ENOMEM;
    memcpy(x, d->x, s->n * sizeof *x);
    size_t n = 0, changed = search_changed(s, x);
    for (size_t k = 0; k < s->n && d->gain[order[k]] > 0; k++) {
        const size_t i = order[k];
        const size_t after = changed + (x[i] == PICK_ORIGINAL) - (d->best[i] == PICK_ORIGINAL);
        if (after > d->limit)
            break;
        changed = after;
        x[i] = d->best[i];
        TRY(search_ask(s, x, &d->rows[n++]));
    }
    TRY(search_spend(s, n));
    TRY(search_answer(s));
    size_t take = n; /* the first prefix that flips the victim, else the lowest margin */
    for (size_t k = 0; k < n; k++) {
        if (search_flipped(s, d->rows[k])) {
            take = k;
            break;
        }
        if (search_margin(s, d->rows[k]) < (take < n ? search_margin(s, d->rows[take]) : d->margin))
            take = k;
    }
    *moved = take < n;
    if (!*moved)
        return STET_OK;
    memcpy(best, d->x, s->n * sizeof *x);
    for (size_t k = 0; k <= take; k++)
        best[order[k]] = d->best[order[k]];
    move_to(d, best, d->rows[take]);
    return STET_OK;
}

/* No single swap helps: pairs of the least bad ones may. */
static stet_status take_pair(descent *d, const size_t *order, size_t beam, bool *moved)
{
    search *s = d->s;
    beam = beam < s->n ? beam : s->n;
    pick *x = arena_new(s->mem, pick, s->n + 1);
    size_t *rows = arena_new(s->mem, size_t, beam * beam + 1);
    if (!x || !rows)
        return STET_ENOMEM;
    memcpy(x, d->x, s->n * sizeof *x);
    size_t asked = 0;
    for (size_t k = 0; k < beam * beam; k++) {
        const size_t i = order[k / beam], j = order[k % beam];
        rows[k] = SIZE_MAX;
        x[i] = d->best[i];
        x[j] = d->best[j];
        if (k / beam < k % beam && search_changed(s, x) <= d->limit) {
            TRY(search_ask(s, x, &rows[k]));
            asked++;
        }
        x[i] = d->x[i];
        x[j] = d->x[j];
    }
    TRY(search_spend(s, asked));
    TRY(search_answer(s));
    size_t take = SIZE_MAX;
    for (size_t k = 0; k < beam * beam; k++)
        if (rows[k] != SIZE_MAX &&
            search_margin(s, rows[k]) <
                (take == SIZE_MAX ? d->margin : search_margin(s, rows[take])))
            take = k;
    *moved = take != SIZE_MAX;
    if (*moved) {
        x[order[take / beam]] = d->best[order[take / beam]];
        x[order[take % beam]] = d->best[order[take % beam]];
        move_to(d, x, rows[take]);
    }
    return STET_OK;
}

static stet_status descend(descent *d, const greedy_cfg *cfg, bool first)
{
    search *s = d->s;
    bool moved = true;
    for (int64_t sweep = 0; moved && !s->success && !s->proved && sweep < cfg->sweeps; sweep++) {
        const arena_mark start = arena_save(s->mem);
        TRY(look_around(d));
        const size_t *order = order_falling(s->mem, d->gain, s->n);
        if (!order)
            return STET_ENOMEM;
        TRY(take_prefix(d, order, &moved));
        if (!moved)
            TRY(take_pair(d, order, (size_t)cfg->beam, &moved));
        arena_restore(s->mem, start);
        if (first && sweep == 0 && !s->success)
            TRY(search_ask_proof(s, true));
    }
    return STET_OK;
}

/* A random text within the limit on changes. */
static stet_status start_again(descent *d)
{
    search *s = d->s;
    size_t changed = 0, row;
    for (size_t i = 0; i < s->n; i++) {
        d->x[i] = PICK_ORIGINAL;
        if (search_free(s, i) && changed < d->limit && s->chance->next(s->chance) < 0.5)
            d->x[i] = (pick)chance_below(s->chance, search_count(s, i) + 1);
        changed += d->x[i] != PICK_ORIGINAL;
    }
    TRY(search_ask(s, d->x, &row));
    TRY(search_spend(s, 1));
    TRY(search_answer(s));
    move_to(d, d->x, row);
    return STET_OK;
}

/* Take changes back while the victim stays flipped: all single reversals at once, the least costly
 * one is kept. */
static stet_status trim(search *s, size_t *rows)
{
    while (true) {
        TRY(search_near(s, s->found));
        size_t n = 0, best = s->n;
        double least = 0;
        for (size_t i = 0; i < s->n; i++)
            if (s->found[i] != PICK_ORIGINAL)
                TRY(search_ask_swap(s, i, PICK_ORIGINAL, &rows[n++]));
        TRY(search_answer(s));
        TRY(search_spend(s, n));
        n = 0;
        for (size_t i = 0; i < s->n; i++) {
            if (s->found[i] == PICK_ORIGINAL)
                continue;
            const size_t row = rows[n++];
            if (search_flipped(s, row) && (best == s->n || search_margin(s, row) < least)) {
                best = i;
                least = search_margin(s, row);
            }
        }
        if (best == s->n)
            return STET_OK;
        s->found[best] = PICK_ORIGINAL;
    }
}

static stet_status run(search *s, const void *config)
{
    const greedy_cfg *cfg = config;
    descent d = {.s = s,
                 .x = search_text(s),
                 .margin = search_margin(s, 0),
                 .rows = arena_new(s->mem, size_t, s->first[s->n] + s->n + 1),
                 .gain = arena_new(s->mem, double, s->n + 1),
                 .best = arena_new(s->mem, pick, s->n + 1),
                 .limit = search_max_changed(s)};
    if (!d.x || !d.rows || !d.gain || !d.best)
        return STET_ENOMEM;
    TRY(search_spend(s, 1));
    if (s->first[s->n] == 0)
        return STET_OK;
    TRY(search_ask_proof(s, false));
    TRY(descend(&d, cfg, true));
    for (int64_t r = 0; r < cfg->restarts && !s->success && !s->proved; r++) {
        TRY(start_again(&d));
        TRY(descend(&d, cfg, false));
    }
    if (!s->success && !s->proved) {
        search_found(s, d.x, false);
        TRY(search_everything(s, (uint64_t)cfg->exact));
    }
    const stet_status st = s->success && cfg->trim ? trim(s, d.rows) : STET_OK;
    return st == OVER_BUDGET ? STET_OK : st; /* untrimmed, but a success */
}

static bool asks_proofs(const void *config)
{
    return ((const greedy_cfg *)config)->proofs;
}

const attack_desc attack_greedy = {
    .name = "greedy",
    .summary = "descent over whole neighbourhoods with restarts; the strongest, for our own models",
    .opts = opts,
    .cfg_size = sizeof(greedy_cfg),
    .asks_proofs = asks_proofs,
    .run = run,
};
