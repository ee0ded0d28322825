/* certify/cert_points.c - the model at single points: variants of the text, and the search for one
 * that changes the answer.
 *
 * A bound that fails names the words it fears. They are often a counter-example already, or near
 * one: the search goes down from there, then the strongest attack tries its own way. */
#include <math.h>
#include <string.h>

#include "attack/attacks.h"
#include "base/log.h"
#include "base/rng.h"
#include "certify/certifier.h"
#include "model/answers.h"

enum { SWEEPS = 24 };
static const char *const attack_settings_of_search[] = {"greedy-restarts=2", "greedy-exact=0",
                                                        "greedy-trim=no", "budget=200000", NULL};

static stet_status margin_of(const stet_certifier *c, const float *logits, double *margin)
{
    const int label = c->text.label;
    double best = -INFINITY;
    for (int k = 0; k < (int)c->shared->m->n_classes; k++) {
        if (!isfinite(logits[k]))
            return error_set(STET_EFORMAT, "the model gives logits that are not finite");
        if (k != label && logits[k] > best)
            best = logits[k];
    }
    *margin = logits[label] - best;
    return STET_OK;
}

/* The ids of a point. */
static uint32_t *write_out(stet_certifier *c, const uint32_t *choice)
{
    const cert_text *t = &c->text;
    uint32_t *ids = arena_new(&c->mem, uint32_t, t->n);
    for (size_t p = 0; ids && p < t->n; p++)
        ids[p] = t->word[t->start[p] + choice[p]];
    return ids;
}

stet_status cert_margin_at(stet_certifier *c, const uint32_t *choice, double *margin)
{
    const arena_mark start = arena_save(&c->mem);
    const uint32_t *ids = write_out(c, choice);
    if (!ids)
        return STET_ENOMEM;
    stet_status st = c->view ? stet_view_reopen(c->view, ids, c->text.n)
                             : view_open_on(c->shared->m, c->shared->on, NULL, ids, c->text.n,
                                            &c->view);
    arena_restore(&c->mem, start);
    return st == STET_OK ? margin_of(c, stet_view_logits(c->view), margin) : st;
}

stet_status cert_margins_of(stet_certifier *c, const stet_edit *swaps, size_t n, double *margin)
{
    const arena_mark mark = arena_save(&c->mem);
    const size_t k = c->shared->m->n_classes;
    size_t *start = arena_new(&c->mem, size_t, n + 1);
    stet_edit *edits = arena_new(&c->mem, stet_edit, n + 1);
    float *logits = arena_new(&c->mem, float, n *k + 1);
    if (!start || !edits || !logits)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        start[i] = i;
        edits[i] =
            (stet_edit){swaps[i].pos, c->text.word[c->text.start[swaps[i].pos] + swaps[i].word]};
    }
    start[n] = n;
    stet_status st = stet_view_edits(c->view, edits, start, n, logits);
    for (size_t i = 0; st == STET_OK && i < n; i++)
        st = margin_of(c, logits + i * k, &margin[i]);
    arena_restore(&c->mem, mark);
    return st;
}

stet_status cert_confirm(stet_certifier *c, const uint32_t *choice, bool *broken)
{
    const arena_mark mark = arena_save(&c->mem);
    const uint32_t *ids = write_out(c, choice);
    float *logits = arena_new(&c->mem, float, c->shared->m->n_classes);
    if (!ids || !logits)
        return STET_ENOMEM;
    const stet_status st = model_logits_of(c->shared->m, ids, c->text.n, logits);
    c->after = st == STET_OK ? stet_argmax(logits, c->shared->m->n_classes) : c->text.label;
    *broken = c->after != c->text.label;
    arena_restore(&c->mem, mark);
    return st;
}

/* ---- the search --------------------------------------------------------------------------- */

stet_status cert_worst_point(stet_certifier *c, const cert_bound *b, const cert_task *t,
                             uint32_t *choice)
{
    size_t left = t->budget;
    memset(choice, 0, t->n * sizeof *choice);
    if (!b->additive)
        return STET_OK;
    const arena_mark mark = arena_save(&c->mem);
    const size_t *order = order_falling(&c->mem, b->drop, t->n);
    if (!order)
        return STET_ENOMEM;
    for (size_t k = 0; k < t->n; k++) {
        const size_t p = order[k];
        const bool unpaid = t->unpaid && t->unpaid[p];
        if (b->drop[p] <= 0 || (!unpaid && left == 0))
            continue;
        choice[p] = b->worst[p];
        left -= !unpaid && left != STET_ANY;
    }
    arena_restore(&c->mem, mark);
    return STET_OK;
}

typedef struct sweep {
    stet_edit *swaps; /* (n, at most the words of the text) position and choice */
    double *margin;
    size_t n;
} sweep;

/* Every swap that keeps the budget. */
static void list_swaps(const cert_text *t, const uint32_t *choice, sweep *s)
{
    size_t changed = 0;
    for (size_t p = 0; p < t->n; p++)
        changed += choice[p] != 0;
    s->n = 0;
    for (size_t p = 0; p < t->n; p++)
        for (uint32_t k = 0; k < t->start[p + 1] - t->start[p]; k++)
            if (k != choice[p] && (choice[p] != 0 || changed < t->budget))
                s->swaps[s->n++] = (stet_edit){(uint32_t)p, k};
}

/* How far below 0 a margin should be so that no other order of the same sums gives the label. */
static double clearly(const stet_certifier *c)
{
    double slack = 0;
    for (size_t k = 0; k < c->proof.n_classes; k++)
        slack = fmax(slack, c->proof.claim[k].slack);
    return -2 * slack;
}

/* Best swap after best swap, from `choice`, until none helps or the answer has clearly changed. */
static stet_status go_down(stet_certifier *c, uint32_t *choice, bool *broken)
{
    const cert_text *t = &c->text;
    const size_t words = t->start[t->n];
    sweep s = {.swaps = arena_new(&c->mem, stet_edit, words),
               .margin = arena_new(&c->mem, double, words)};
    if (!s.swaps || !s.margin)
        return STET_ENOMEM;
    double margin;
    TRY(cert_margin_at(c, choice, &margin));
    for (int turn = 0; turn < SWEEPS && margin > clearly(c) && !cert_out_of_time(c); turn++) {
        TRY(interrupt_status());
        list_swaps(t, choice, &s);
        TRY(cert_margins_of(c, s.swaps, s.n, s.margin));
        size_t best = s.n;
        for (size_t i = 0; i < s.n; i++)
            if (s.margin[i] < margin) {
                margin = s.margin[i];
                best = i;
            }
        if (best == s.n)
            break;
        choice[s.swaps[best].pos] = s.swaps[best].word;
        TRY(cert_margin_at(c, choice, &margin));
    }
    return margin <= 0 ? cert_confirm(c, choice, broken) : STET_OK;
}

stet_status cert_strengthen(stet_certifier *c, uint32_t *choice)
{
    const arena_mark mark = arena_save(&c->mem);
    const int after = c->after;
    uint32_t *further = arena_new(&c->mem, uint32_t, c->text.n);
    if (!further)
        return STET_ENOMEM;
    memcpy(further, choice, c->text.n * sizeof *choice);
    bool broken = false;
    TRY(go_down(c, further, &broken));
    if (broken)
        memcpy(choice, further, c->text.n * sizeof *choice);
    else
        c->after = after;
    arena_restore(&c->mem, mark);
    return STET_OK;
}

typedef struct stream_chance {
    chance c;
    rng r;
} stream_chance;

static double next_number(chance *c)
{
    return rng_double(&((stream_chance *)c)->r);
}

/* The text as attacks see it: sets without the own word. */
static stet_status as_search(stet_certifier *c, chance *draws, search *s)
{
    const cert_text *t = &c->text;
    uint32_t *ids = arena_new(&c->mem, uint32_t, t->n),
             *first = arena_znew(&c->mem, uint32_t, t->n + 1),
             *word = arena_new(&c->mem, uint32_t, t->start[t->n]);
    unsigned char *none = arena_znew(&c->mem, unsigned char, t->n);
    if (!ids || !first || !word || !none)
        return STET_ENOMEM;
    uint32_t made = 0;
    for (size_t p = 0; p < t->n; p++) {
        ids[p] = t->word[t->start[p]];
        for (uint32_t k = t->start[p] + 1; k < t->start[p + 1]; k++)
            word[made++] = t->word[k];
        first[p + 1] = made;
    }
    *s = (search){.n = t->n,
                  .y = t->label,
                  .ids = ids,
                  .first = first,
                  .word = word,
                  .filtered = none,
                  .listed = none,
                  .mask = STET_UNK,
                  .v = c->victim,
                  .chance = draws,
                  .mem = &c->mem,
                  .memory = c->memory};
    return STET_OK;
}

/* The strongest attack, within a number of queries. */
static stet_status attack(stet_certifier *c, uint32_t *choice, bool *broken)
{
    const cert_text *t = &c->text;
    if (!c->memory)
        TRY(search_memory_new(&c->memory));
    if (!c->victim)
        TRY(victim_of_model(c->shared->m, c->shared->on, NULL, &c->victim));
    stream_chance draws = {.c = {.next = next_number}, .r = rng_stream(1, STREAM_ATTACK, 0)};
    search s;
    TRY(as_search(c, &draws.c, &s));
    const attack_text text = {.ids = s.ids, .n = s.n};
    attack_settings set;
    TRY(attack_settings_make(&attack_greedy, "original", attack_settings_of_search, &set));
    s.common = set.common;
    if (t->budget < t->n) /* half a word less: the share is rounded up */
        s.common.max_change = ((double)t->budget - 0.5) / (double)t->n;
    stet_status st = search_start(&s, &text);
    if (st == STET_OK)
        st = attack_greedy.run(&s, set.cfg);
    attack_settings_free(&set);
    if (st != STET_OK && st != OVER_BUDGET)
        return st;
    for (size_t p = 0; p < t->n; p++)
        choice[p] = s.found[p]; /* a pick is 0 for the own word, k for its k-th candidate */
    if (s.success)
        TRY(cert_confirm(c, choice, broken));
    return *broken ? cert_strengthen(c, choice) : STET_OK;
}

stet_status cert_find_break(stet_certifier *c, uint32_t *choice, bool *broken)
{
    const arena_mark mark = arena_save(&c->mem);
    const cert_task t = cert_task_of(&c->text, c->text.budget);
    *broken = false;
    stet_status st = cert_worst_point(c, &c->proof.sum, &t, choice);
    if (st == STET_OK)
        st = go_down(c, choice, broken);
    if (st == STET_OK && !*broken && !cert_out_of_time(c))
        st = attack(c, choice, broken);
    arena_restore(&c->mem, mark);
    return st;
}
