/* attack/ga.c - the genetic attack (Alzantot et al. 2018): a population of texts, better parents
 * mate, children change one more word each.
 *
 * `openattack` changes one drawn position a child and picks parents by 1 - P(y); `textattack` tries
 * positions until one helps, limits the changed words, and - its sign is wrong - prefers the worse
 * parents. */
#include <math.h>
#include <string.h>

#include "attack/attacks.h"
#include "attack/steps.h"

static const double temperature = 0.3;

typedef struct ga_cfg {
    int64_t population, rounds;
    int rule, selection;
} ga_cfg;

static const stet_opt opts[] = {
    STET_OPT_INT("ga-population", ga_cfg, population, "20", 2, 100000, "N",
                 "texts of a generation"),
    STET_OPT_INT("ga-iterations", ga_cfg, rounds, "20", 1, 100000, "N", "generations"),
    STET_OPT_CHOICE("ga-rule", ga_cfg, rule, "openattack", "openattack|textattack",
                    "how a child changes a word"),
    STET_OPT_CHOICE("ga-selection", ga_cfg, selection, "openattack",
                    "openattack|boltzmann|inverted",
                    "weight of a parent: 1-P, exp((1-P)/0.3), or TextAttack's exp(-(1-P)/0.3)"),
    STET_OPT_END,
};

static const char no_model[] = "language model (candidates are not filtered by one)";
static const attack_profile profiles[] = {
    {"openattack", {"ga-population=20", "ga-iterations=20", NULL}, NULL},
    {"textattack",
     {"ga-population=60", "ga-iterations=40", "ga-rule=textattack", "ga-selection=inverted",
      "max-change=0.2", "max-candidates=8", NULL},
     no_model},
    {"gbm-paper", {"ga-population=60", "ga-iterations=40", "max-candidates=7", NULL}, NULL},
    {"original",
     {"ga-population=60", "ga-iterations=20", "ga-selection=boltzmann", "max-candidates=8",
      "max-result-change=0.25", NULL},
     no_model},
    {0},
};

typedef struct member {
    pick *x;      /* (n) */
    double *left; /* (n) textattack: weights of the positions it may still change */
    size_t row;
} member;

typedef struct ga {
    search *s;
    const ga_cfg *cfg;
    size_t size;
    member *now, *next;
    double *weight;  /* (n) of the positions */
    size_t weighted; /* positions with a weight */
    double *fitness; /* (size) */
    size_t *parent;  /* (2 size) */
    size_t *place;   /* (size) where each child changes, n: nowhere */
    size_t *asked;   /* (size) how many candidates were asked there */
    size_t *rows;    /* (size, most): answers of one batch */
    size_t most;     /* candidates of any position */
} ga;

/* ---- OpenAttack's change of one word ------------------------------------------------------ */

static size_t draw_place(ga *g, const pick *x)
{
    const bool any_left = search_changed(g->s, x) < g->weighted;
    size_t i;
    do
        i = chance_pick(g->s->chance, g->weight, g->s->n);
    while (any_left && x[i] != PICK_ORIGINAL);
    return i;
}

/* Draw positions for members from..size first, then ask for all of them in one batch. */
static stet_status perturb(ga *g, member *m, size_t from)
{
    search *s = g->s;
    for (size_t k = from; k < g->size; k++) {
        const size_t i = g->place[k] = draw_place(g, m[k].x);
        const bool full =
            m[k].x[i] == PICK_ORIGINAL && search_changed(s, m[k].x) >= search_max_changed(s);
        const size_t n = g->asked[k] = full ? 0 : search_count(s, i);
        TRY(search_base(s, m[k].x));
        TRY(search_ask(s, m[k].x, &m[k].row));
        for (size_t c = 0; c < n; c++)
            TRY(search_ask_swap(s, i, (pick)(c + 1), &g->rows[k * g->most + c]));
        if (n)
            TRY(search_spend(s, n + 1));
    }
    TRY(search_answer(s));
    for (size_t k = from; k < g->size; k++) {
        const size_t i = g->place[k];
        for (size_t c = 0; c < g->asked[k]; c++) {
            const size_t row = g->rows[k * g->most + c];
            if (search_p(s, row) < search_p(s, m[k].row)) {
                m[k].row = row;
                m[k].x[i] = (pick)(c + 1);
            }
        }
    }
    return STET_OK;
}

/* ---- TextAttack's ------------------------------------------------------------------------- */

static size_t count_positive(const double *w, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        k += w[i] > 0;
    return k;
}

/* Draw positions until a swap helps; each that does not is out for this call. */
static stet_status improve_one(ga *g, member *m, double *local)
{
    search *s = g->s;
    memcpy(local, m->left, s->n * sizeof *local);
    const size_t changed = search_changed(s, m->x);
    for (size_t tries = count_positive(local, s->n); tries > 0 && count_positive(local, s->n) > 0;
         tries--) {
        const size_t i = chance_pick(s->chance, local, s->n);
        if (!search_free(s, i) || m->x[i] != PICK_ORIGINAL || changed >= search_max_changed(s))
            continue;
        const size_t n = search_count(s, i);
        TRY(search_base(s, m->x));
        for (size_t c = 0; c < n; c++)
            TRY(search_ask_swap(s, i, (pick)(c + 1), &g->rows[c]));
        TRY(search_spend(s, n));
        TRY(search_answer(s));
        size_t best = 0;
        for (size_t c = 1; c < n; c++)
            if (search_p(s, g->rows[c]) < search_p(s, g->rows[best]))
                best = c;
        local[i] = 0;
        if (search_p(s, g->rows[best]) < search_p(s, m->row)) {
            m->x[i] = (pick)(best + 1);
            m->row = g->rows[best];
            m->left[i] = 0;
            return STET_OK;
        }
    }
    return STET_OK;
}

static stet_status improve(ga *g, member *m, size_t from)
{
    search *s = g->s;
    for (size_t k = from; k < g->size; k++)
        TRY(search_ask(s, m[k].x, &m[k].row));
    TRY(search_answer(s));
    const arena_mark start = arena_save(s->mem);
    double *local = arena_new(s->mem, double, s->n + 1);
    if (!local)
        return STET_ENOMEM;
    for (size_t k = from; k < g->size; k++)
        TRY(improve_one(g, &m[k], local));
    arena_restore(s->mem, start);
    return STET_OK;
}

static stet_status change(ga *g, member *m, size_t from)
{
    return g->cfg->rule == RULE_OPENATTACK ? perturb(g, m, from) : improve(g, m, from);
}

/* ---- generations -------------------------------------------------------------------------- */

static size_t best_of(const ga *g)
{
    size_t best = 0;
    for (size_t k = 1; k < g->size; k++)
        if (search_p(g->s, g->now[k].row) < search_p(g->s, g->now[best].row))
            best = k;
    return best;
}

double ga_fitness(int selection, double p)
{
    const double score = 1 - p;
    if (selection == SELECT_OPENATTACK)
        return score;
    return exp((selection == SELECT_BOLTZMANN ? score : -score) / temperature);
}

/* Weights of the parents; false when there is nothing to choose by. */
static bool weigh(ga *g)
{
    double sum = 0;
    for (size_t k = 0; k < g->size; k++) {
        g->fitness[k] = ga_fitness(g->cfg->selection, search_p(g->s, g->now[k].row));
        sum += g->fitness[k];
    }
    return sum > 0;
}

static void cross(ga *g, const member *a, const member *b, member *child)
{
    search *s = g->s;
    const bool oa = g->cfg->rule == RULE_OPENATTACK;
    for (size_t i = 0; i < s->n; i++) {
        const bool low = s->chance->next(s->chance) < 0.5;
        const member *from = low == oa ? a : b; /* the other side of the coin in TextAttack */
        child->x[i] = from->x[i];
        child->left[i] = from->left[i];
    }
}

static void copy(const search *s, const member *from, member *to)
{
    memcpy(to->x, from->x, s->n * sizeof *to->x);
    memcpy(to->left, from->left, s->n * sizeof *to->left);
    to->row = from->row;
}

static stet_status breed(ga *g, size_t best)
{
    search *s = g->s;
    const size_t children = g->size - 1;
    for (size_t k = 0; k < 2 * children; k++)
        g->parent[k] = chance_pick(s->chance, g->fitness, g->size);
    copy(s, &g->now[best], &g->next[0]);
    for (size_t k = 0; k < children; k++)
        cross(g, &g->now[g->parent[k]], &g->now[g->parent[children + k]], &g->next[k + 1]);
    if (g->cfg->rule == RULE_TEXTATTACK)
        TRY(search_spend(s, children));
    TRY(change(g, g->next, 1));
    member *swap = g->now;
    g->now = g->next;
    g->next = swap;
    return STET_OK;
}

static stet_status evolve(ga *g)
{
    search *s = g->s;
    const bool oa = g->cfg->rule == RULE_OPENATTACK;
    for (int64_t round = 0; round < g->cfg->rounds; round++) {
        if (oa)
            TRY(search_spend(s, g->size));
        const size_t best = best_of(g);
        search_found(s, g->now[best].x, search_flipped(s, g->now[best].row));
        if (s->success)
            return oa ? search_spend(s, 1) : STET_OK;
        if (!weigh(g))
            return STET_OK;
        TRY(breed(g, best));
    }
    return STET_OK;
}

/* ---- setting up --------------------------------------------------------------------------- */

/* OpenAttack counts the word itself, and words that have no other weigh 1; TextAttack gives every
 * position at least 1. */
static void weigh_places(ga *g)
{
    search *s = g->s;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < s->n; i++)
        least = search_count(s, i) < least ? search_count(s, i) : least;
    const double floor_weight = fmax(1, floor(0.1 * (double)least));
    for (size_t i = 0; i < s->n; i++) {
        const double count = (double)search_count(s, i);
        if (g->cfg->rule == RULE_TEXTATTACK)
            g->weight[i] = fmax(floor_weight, s->filtered[i] ? 0 : count);
        else
            g->weight[i] = s->filtered[i] || !s->listed[i] ? 0 : count + 1;
        g->most = search_count(s, i) > g->most ? search_count(s, i) : g->most;
    }
    g->weighted = count_positive(g->weight, s->n);
}

static member *members(const ga *g)
{
    search *s = g->s;
    member *m = arena_new(s->mem, member, g->size);
    for (size_t k = 0; m && k < g->size; k++) {
        m[k] = (member){.x = search_text(s), .left = arena_new(s->mem, double, s->n + 1)};
        if (!m[k].x || !m[k].left)
            return NULL;
        memcpy(m[k].left, g->weight, s->n * sizeof *m[k].left);
    }
    return m;
}

static stet_status run(search *s, const void *config)
{
    const ga_cfg *cfg = config;
    ga g = {.s = s,
            .cfg = cfg,
            .size = (size_t)cfg->population,
            .weight = arena_new(s->mem, double, s->n + 1)};
    if (!g.weight)
        return STET_ENOMEM;
    weigh_places(&g);
    g.now = members(&g);
    g.next = members(&g);
    g.fitness = arena_new(s->mem, double, g.size);
    g.parent = arena_new(s->mem, size_t, 2 * g.size);
    g.place = arena_new(s->mem, size_t, g.size);
    g.asked = arena_new(s->mem, size_t, g.size);
    g.rows = arena_new(s->mem, size_t, g.size * (g.most + 1));
    if (!g.now || !g.next || !g.fitness || !g.parent || !g.place || !g.asked || !g.rows)
        return STET_ENOMEM;
    TRY(search_spend(s, 1));
    if (g.weighted == 0 || g.most == 0)
        return STET_OK;
    TRY(change(&g, g.now, 0));
    return evolve(&g);
}

const attack_desc attack_ga = {
    .name = "ga",
    .summary = "genetic search over populations of texts",
    .opts = opts,
    .cfg_size = sizeof(ga_cfg),
    .profiles = profiles,
    .run = run,
};
