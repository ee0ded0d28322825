/* attack/pso.c - the particle swarm (Zang et al. 2020): texts drift towards their own and the
 * swarm's best.
 *
 * The three codes differ in ways that matter, so each is a setting: OpenAttack never updates its
 * bests (they start with the wrong sign), so that its swarm has two fixed attractors; TextAttack
 * adopts the best's word with probability 1 - r instead of r, and asks a whole neighbourhood for
 * every mutation. */
#include "attack/pso.h"

#include <math.h>
#include <string.h>

#include "attack/attacks.h"

static const double v_max = 3, inertia_from = 0.8, inertia_to = 0.2, c1_start = 0.8, c2_start = 0.2;
enum { WEIGHT_CAP = 10 };

static const stet_opt opts[] = {
    STET_OPT_INT("pso-population", pso_cfg, population, "20", 2, 100000, "N", "particles"),
    STET_OPT_INT("pso-iterations", pso_cfg, rounds, "20", 1, 100000, "N", "moves of the swarm"),
    STET_OPT_CHOICE("pso-choice", pso_cfg, choice, "random", "random|best|all",
                    "new words: at random, the best of a drawn position, or drawn from the best of "
                    "all positions"),
    STET_OPT_CHOICE("pso-elites", pso_cfg, elites, "frozen", "frozen|updated",
                    "bests: never updated, as in OpenAttack, or as published"),
    STET_OPT_CHOICE("pso-turn", pso_cfg, turn, "best", "best|particle",
                    "whose word is taken with probability r: published, or TextAttack's"),
    STET_OPT_CHOICE("pso-ratio", pso_cfg, ratio, "words", "words|any",
                    "change ratio: changed words, or 1/n once anything changed"),
    STET_OPT_END,
};

static const attack_profile profiles[] = {
    {"openattack", {"pso-population=20", "pso-iterations=20", NULL}, NULL},
    {"textattack",
     {"pso-population=60", "pso-iterations=20", "pso-choice=all", "pso-elites=updated",
      "pso-turn=particle", NULL},
     NULL},
    {"gbm-paper", {"pso-population=60", "pso-iterations=40", "max-candidates=7", NULL}, NULL},
    {"original",
     {"pso-population=60", "pso-iterations=20", "pso-choice=best", "pso-elites=updated",
      "max-result-change=0.25", NULL},
     NULL},
    {0},
};

/* ---- setting up --------------------------------------------------------------------------- */

stet_status pso_init(pso *o, search *s, const pso_cfg *cfg)
{
    const size_t n = s->n + 1;
    *o = (pso){.s = s, .cfg = cfg, .size = (size_t)cfg->population, .known = 1};
    o->p = arena_new(s->mem, particle, o->size);
    o->best = search_text(s);
    o->from = search_text(s);
    o->choice = search_text(s);
    o->weight = arena_new(s->mem, double, n);
    o->gain = arena_new(s->mem, double, n);
    o->rows = arena_new(s->mem, size_t, s->first[s->n] + 1);
    if (!o->p || !o->best || !o->from || !o->choice || !o->weight || !o->gain || !o->rows)
        return STET_ENOMEM;
    for (size_t k = 0; k < o->size; k++) {
        o->p[k] = (particle){
            .x = search_text(s), .own = search_text(s), .v = arena_znew(s->mem, double, n)};
        if (!o->p[k].x || !o->p[k].own || !o->p[k].v)
            return STET_ENOMEM;
    }
    for (size_t i = 0; i < s->n; i++) {
        const size_t list = s->filtered[i] || !s->listed[i] ? 0 : search_count(s, i) + 1;
        o->weight[i] = (double)(list < WEIGHT_CAP ? list : WEIGHT_CAP);
        o->weighted += list > 0;
    }
    return STET_OK;
}

void pso_velocities(pso *o)
{
    for (size_t k = 0; k < o->size; k++) {
        const double v = (2 * o->s->chance->next(o->s->chance) - 1) * v_max;
        for (size_t i = 0; i < o->s->n; i++)
            o->p[k].v[i] = v;
    }
}

/* ---- new words ---------------------------------------------------------------------------- */

static size_t draw_place(pso *o, const pick *x)
{
    const bool any_left = search_changed(o->s, x) < o->weighted;
    size_t i;
    do
        i = chance_pick(o->s->chance, o->weight, o->s->n);
    while (any_left && x[i] != PICK_ORIGINAL);
    return i;
}

/* Ask all candidates of position i in the text of search_base. */
static stet_status ask_place(pso *o, size_t i)
{
    for (size_t c = 0; c < search_count(o->s, i); c++)
        TRY(search_ask_swap(o->s, i, (pick)(c + 1), &o->rows[o->s->first[i] + c]));
    return search_spend(o->s, search_count(o->s, i));
}

/* The candidate of i with the smallest P(y), and how much it takes from `now`. */
static pick best_at(const pso *o, size_t i, double now, double *gain)
{
    pick best = PICK_ORIGINAL;
    *gain = -INFINITY;
    for (size_t c = 0; c < search_count(o->s, i); c++) {
        const double g = now - search_p(o->s, o->rows[o->s->first[i] + c]);
        if (g > *gain) {
            *gain = g;
            best = (pick)(c + 1);
        }
    }
    return best;
}

static stet_status change_best(pso *o, particle *p)
{
    search *s = o->s;
    const size_t i = draw_place(o, p->x);
    TRY(search_base(s, p->x));
    TRY(ask_place(o, i));
    TRY(search_answer(s));
    double gain;
    const pick best = best_at(o, i, search_p(s, p->row), &gain);
    if (best && gain > 0) {
        p->x[i] = best;
        p->row = o->rows[s->first[i] + best - 1];
    }
    return STET_OK;
}

/* The best candidate of every unchanged position, one of them drawn by its gain. */
static stet_status change_all(pso *o, particle *p)
{
    search *s = o->s;
    TRY(search_base(s, p->x));
    for (size_t i = 0; i < s->n; i++)
        if (search_free(s, i) && p->x[i] == PICK_ORIGINAL)
            TRY(ask_place(o, i));
    TRY(search_answer(s));
    double sum = 0;
    for (size_t i = 0; i < s->n; i++) {
        o->choice[i] = PICK_ORIGINAL;
        o->gain[i] = 0;
        if (!search_free(s, i) || p->x[i] != PICK_ORIGINAL)
            continue;
        double gain;
        o->choice[i] = best_at(o, i, search_p(s, p->row), &gain);
        o->gain[i] = fmax(0, gain);
        sum += o->gain[i];
    }
    const size_t i =
        sum > 0 ? chance_pick(s->chance, o->gain, s->n) : chance_below(s->chance, s->n);
    if (o->choice[i]) {
        p->x[i] = o->choice[i];
        p->row = o->rows[s->first[i] + o->choice[i] - 1];
    }
    return STET_OK;
}

static void change_random(pso *o, particle *p)
{
    const size_t i = draw_place(o, p->x);
    p->x[i] =
        (pick)chance_below(o->s->chance, search_count(o->s, i) + 1); /* may be the word itself */
}

static stet_status change(pso *o, particle *p)
{
    if (search_changed(o->s, p->x) >= search_max_changed(o->s))
        return STET_OK;
    switch (o->cfg->choice) {
    case PSO_BEST:
        return change_best(o, p);
    case PSO_ALL:
        return change_all(o, p);
    default:
        change_random(o, p);
        return STET_OK;
    }
}

stet_status pso_mutate(pso *o, particle *p)
{
    const double n = (double)o->s->n, changed = (double)search_changed(o->s, p->x);
    const double ratio = (o->cfg->ratio == PSO_RATIO_ANY ? fmin(1, changed) : changed) / n;
    return o->s->chance->next(o->s->chance) < 1 - 2 * ratio ? change(o, p) : STET_OK;
}

/* ---- moves -------------------------------------------------------------------------------- */

static double pull(pick a, pick b)
{
    return a == b ? -v_max : v_max;
}

/* Per position the word of `best` with probability r (TextAttack: with 1 - r). */
static void turn(pso *o, particle *p, const pick *best)
{
    for (size_t i = 0; i < o->s->n; i++) {
        const double r = 1 / (1 + exp(-p->v[i]));
        const bool hit = o->s->chance->next(o->s->chance) < r;
        if (hit == (o->cfg->turn == PSO_TURN_BEST))
            p->x[i] = best[i];
    }
}

void pso_move(pso *o, particle *p, double omega, double p1, double p2)
{
    chance *c = o->s->chance;
    for (size_t i = 0; i < o->s->n; i++)
        p->v[i] =
            omega * p->v[i] + (1 - omega) * (pull(p->x[i], p->own[i]) + pull(p->x[i], o->best[i]));
    if (c->next(c) < p1)
        turn(o, p, p->own);
    if (c->next(c) < p2)
        turn(o, p, o->best);
}

/* ---- the swarm ---------------------------------------------------------------------------- */

/* Score all particles; a success ends the attack. Known texts are free: OpenAttack has a cache, and
 * the others keep the answers of their mutations (`counted` false). */
static stet_status score(pso *o, bool counted)
{
    search *s = o->s;
    size_t fresh = 0, best = 0;
    for (size_t k = 0; k < o->size; k++) {
        TRY(search_ask(s, o->p[k].x, &o->p[k].row));
        if (o->p[k].row >= o->known) {
            o->known = o->p[k].row + 1;
            fresh++;
        }
    }
    TRY(search_answer(s));
    if (counted)
        TRY(search_spend(s, o->cfg->choice == PSO_RANDOM ? fresh : o->size));
    for (size_t k = 1; k < o->size; k++)
        if (search_p(s, o->p[k].row) < search_p(s, o->p[best].row))
            best = k;
    search_found(s, o->p[best].x, search_flipped(s, o->p[best].row));
    return s->success ? search_spend(s, 1) : STET_OK;
}

static void keep(const search *s, const pick *from, size_t from_row, pick *to, size_t *to_row)
{
    memcpy(to, from, s->n * sizeof *to);
    *to_row = from_row;
}

/* `first`: whatever they are, the present places are the best so far. */
static void update_bests(pso *o, bool first)
{
    const search *s = o->s;
    for (size_t k = 0; k < o->size; k++) {
        particle *p = &o->p[k];
        if (first || search_p(s, p->row) < search_p(s, p->own_row))
            keep(s, p->x, p->row, p->own, &p->own_row);
        if ((first && k == 0) || search_p(s, p->row) < search_p(s, o->best_row))
            keep(s, p->x, p->row, o->best, &o->best_row);
    }
}

static stet_status swarm(pso *o)
{
    search *s = o->s;
    const bool frozen = o->cfg->elites == PSO_FROZEN;
    const double T = (double)o->cfg->rounds;
    if (frozen) {
        for (size_t k = 0; k < o->size; k++)
            memcpy(o->p[k].own, o->p[k].x, s->n * sizeof *o->p[k].own);
        memcpy(o->best, o->p[0].x, s->n * sizeof *o->best);
    } else {
        TRY(score(o, o->cfg->choice == PSO_RANDOM));
        update_bests(o, true);
    }
    for (int64_t t = 0; t < o->cfg->rounds && !s->success; t++) {
        const double part = (double)t / T;
        const double omega = (inertia_from - inertia_to) * (1 - part) + inertia_to;
        const double p1 = c1_start - part * (c1_start - c2_start),
                     p2 = c2_start + part * (c1_start - c2_start);
        if (frozen)
            TRY(score(o, true));
        for (size_t k = 0; k < o->size && !s->success; k++) {
            pso_move(o, &o->p[k], omega, p1, p2);
            if (frozen && t == 0) /* their list of own bests is the list of particles until the
                                     first mutation */
                memcpy(o->p[k].own, o->p[k].x, s->n * sizeof *o->p[k].own);
        }
        if (!s->success)
            TRY(score(o, true));
        for (size_t k = 0; k < o->size && !s->success; k++)
            TRY(pso_mutate(o, &o->p[k]));
        if (!frozen && !s->success) {
            TRY(score(o, o->cfg->choice == PSO_RANDOM));
            update_bests(o, false);
        }
    }
    return STET_OK;
}

static stet_status run(search *s, const void *config)
{
    pso o;
    TRY(pso_init(&o, s, config));
    TRY(search_spend(s, 1));
    if (o.weighted == 0 || s->first[s->n] == 0)
        return STET_OK;
    for (size_t k = 0; k < o.size; k++)
        TRY(change(&o, &o.p[k])); /* row 0: all start from the original */
    pso_velocities(&o);
    return swarm(&o);
}

const attack_desc attack_pso = {
    .name = "pso",
    .summary = "a swarm of texts that drift towards the best ones",
    .opts = opts,
    .cfg_size = sizeof(pso_cfg),
    .profiles = profiles,
    .run = run,
};
