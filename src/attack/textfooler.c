/* attack/textfooler.c - TextFooler (Jin et al. 2020): words by importance, each replaced by the
 * substitute that keeps the meaning best among those that turn the victim, or by the one that hurts
 * most.
 *
 * `openattack` (and the original) ask the victim about every candidate and then weigh similarity
 * and tag; `textattack` checks them first and takes only improvements. */
#include <math.h>

#include "attack/attacks.h"
#include "attack/steps.h"

enum { BY_MASK, BY_DELETION };

typedef struct textfooler_cfg {
    int rule, importance;
} textfooler_cfg;

static const stet_opt opts[] = {
    STET_OPT_CHOICE("textfooler-rule", textfooler_cfg, rule, "openattack", "openattack|textattack",
                    "whose loop over the words"),
    STET_OPT_CHOICE("textfooler-importance", textfooler_cfg, importance, "mask", "mask|delete",
                    "how a word is hidden to see its weight"),
    STET_OPT_END,
};

static const char no_encoder[] =
    "sentence encoder USE (see --similarity); parts of speech only with --tagger";
static const attack_profile profiles[] = {
    {"openattack", {"least-similarity=0.5", NULL}, no_encoder},
    {"textattack",
     {"textfooler-rule=textattack", "textfooler-importance=delete", "max-candidates=50",
      "similarity-scale=angle-pi", "least-similarity=0.840845057", NULL},
     no_encoder},
    {"gbm-paper", {"least-similarity=0.5", "max-candidates=7", NULL}, no_encoder},
    {"original",
     {"max-candidates=50", "similarity-scale=angle", "least-similarity=0.7", NULL},
     no_encoder},
    {0},
};

/* ---- importance --------------------------------------------------------------------------- */

double textfooler_importance(const search *s, size_t row, int rule)
{
    const double *hidden = search_prob(s, row), *clean = search_prob(s, 0);
    if (rule == RULE_TEXTATTACK)
        return 1 - hidden[s->y];
    double value = clean[s->y] - hidden[s->y];
    const int b = most_probable(hidden, s->n_classes);
    if (b != s->y)
        value += hidden[b] - clean[b];
    return value;
}

/* The positions `place` (n of them) by falling importance, in place. */
static stet_status rank(search *s, const textfooler_cfg *cfg, size_t *place, size_t n)
{
    double *value = arena_new(s->mem, double, n + 1);
    size_t *rows = arena_new(s->mem, size_t, n + 1);
    if (!value || !rows)
        return STET_ENOMEM;
    TRY(search_base(s, s->found));
    for (size_t k = 0; k < n; k++)
        TRY(search_ask_swap(s, place[k], cfg->importance == BY_MASK ? PICK_MASKED : PICK_DELETED,
                            &rows[k]));
    TRY(search_answer(s));
    for (size_t k = 0; k < n; k++)
        value[k] = textfooler_importance(s, rows[k], cfg->rule);
    const size_t *order = order_falling(s->mem, value, n);
    if (!order)
        return STET_ENOMEM;
    for (size_t k = 0; k < n; k++)
        rows[k] = place[order[k]];
    for (size_t k = 0; k < n; k++)
        place[k] = rows[k];
    return STET_OK;
}

/* ---- OpenAttack's loop -------------------------------------------------------------------- */

/* The candidate to write at i: *turns if it ends the attack; 0 leaves the word. */
static stet_status choose(search *s, const pick *x, size_t i, size_t *rows, pick *best, bool *turns)
{
    const size_t n = search_count(s, i);
    TRY(search_base(s, x));
    for (size_t c = 0; c < n; c++)
        TRY(search_ask_swap(s, i, (pick)(c + 1), &rows[c]));
    TRY(search_spend(s, n));
    TRY(search_answer(s));
    const double least_similarity =
        s->n < (size_t)s->common.window ? 0.1 : s->common.least_similarity;
    double closest = -INFINITY, least = INFINITY;
    pick lowest = PICK_ORIGINAL;
    *turns = false;
    for (size_t c = 0; c < n; c++) {
        double alike;
        bool tag;
        TRY(constraint_similarity(s, x, i, (pick)(c + 1), &alike));
        TRY(constraint_tag(s, x, i, (pick)(c + 1), &tag));
        const bool far = alike < least_similarity;
        if (search_flipped(s, rows[c]) && !far && tag && alike > closest) {
            closest = alike;
            *best = (pick)(c + 1);
            *turns = true;
        }
        const double value = search_p(s, rows[c]) + far + !tag;
        if (value < least) {
            least = value;
            lowest = (pick)(c + 1);
        }
    }
    if (!*turns) /* against the original text, not the current one: so it is in the reference */
        *best = least < search_p(s, 0) ? lowest : PICK_ORIGINAL;
    return STET_OK;
}

static stet_status walk(search *s, const size_t *place, size_t n, size_t *rows)
{
    pick *x = search_text(s);
    if (!x)
        return STET_ENOMEM;
    const size_t most = search_max_changed(s);
    size_t changed = 0;
    for (size_t k = 0; k < n && changed < most; k++) {
        const size_t i = place[k];
        pick best;
        bool turns;
        TRY(choose(s, x, i, rows, &best, &turns));
        if (best == PICK_ORIGINAL)
            continue;
        x[i] = best;
        changed++;
        search_found(s, x, turns);
        if (turns)
            return search_spend(s, 2); /* verified by the attacker, then by the framework */
        TRY(search_near(s, x));
    }
    return STET_OK;
}

static stet_status run(search *s, const void *config)
{
    const textfooler_cfg *cfg = config;
    const bool oa = cfg->rule == RULE_OPENATTACK;
    s->mask = STET_UNK;
    size_t *place = arena_new(s->mem, size_t, s->n + 1),
           *rows = arena_new(s->mem, size_t, s->first[s->n] + 1), n = 0;
    if (!place || !rows)
        return STET_ENOMEM;
    size_t ranked = 0; /* by the framework: also words without candidates, which have no effect */
    for (size_t i = 0; i < s->n; i++) {
        ranked += oa || !s->filtered[i];
        if (search_free(s, i))
            place[n++] = i;
    }
    TRY(search_spend(s, (oa ? 2 : 1) + ranked));
    TRY(rank(s, cfg, place, n));
    return oa ? walk(s, place, n, rows) : walk_improving(s, place, n);
}

const attack_desc attack_textfooler = {
    .name = "textfooler",
    .summary = "words by importance, replaced by the closest substitute that flips the answer",
    .opts = opts,
    .cfg_size = sizeof(textfooler_cfg),
    .profiles = profiles,
    .run = run,
};
