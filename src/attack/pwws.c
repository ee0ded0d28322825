/* attack/pwws.c - PWWS (Ren et al. 2019): words in the order of saliency times what their best
 * substitute gains.
 *
 * `openattack` fixes each substitute on the original text and writes them all, also those that help
 * the victim; `textattack` ranks by the substitute's score instead of its gain, looks again at
 * every step and keeps improvements. */
#include <math.h>

#include "attack/attacks.h"
#include "attack/steps.h"

enum { CHAIN = 16 }; /* prefixes of the chain of substitutes that are asked at once */

typedef struct pwws_cfg {
    int rule, mask;
} pwws_cfg;

static const stet_opt opts[] = {
    STET_OPT_CHOICE("pwws-rule", pwws_cfg, rule, "openattack", "openattack|textattack",
                    "whose order and substitution"),
    STET_OPT_CHOICE("pwws-mask", pwws_cfg, mask, "unk", "unk|pad",
                    "what hides a word for its saliency"),
    STET_OPT_END,
};

static const attack_profile profiles[] = {
    {"openattack", {"pwws-rule=openattack", NULL}, NULL},
    {"textattack", {"pwws-rule=textattack", NULL}, NULL},
    {"gbm-paper", {"pwws-rule=openattack", "max-candidates=7", NULL}, NULL},
    {"original", {"pwws-rule=openattack", "pwws-mask=pad", NULL}, "named entities"},
    {0},
};

/* One batch: every ranked position masked, and every candidate of each in the original text. A stop
 * word, or a word without candidates, costs the frameworks queries too, but is never changed; its
 * saliency would only scale those of the others, so it is not asked. */
static stet_status ask_all(search *s, const pwws_ranking *r, size_t *masked, size_t *swapped)
{
    TRY(search_base(s, s->found));
    for (size_t k = 0; k < r->n; k++) {
        const size_t i = r->place[k];
        if (!search_free(s, i))
            continue;
        TRY(search_ask_swap(s, i, PICK_MASKED, &masked[k]));
        for (size_t c = 0; c < search_count(s, i); c++)
            TRY(search_ask_swap(s, i, (pick)(c + 1), &swapped[s->first[i] + c]));
    }
    return search_answer(s);
}

stet_status pwws_rank(search *s, int rule, pwws_ranking *r)
{
    size_t *masked = arena_new(s->mem, size_t, r->n + 1),
           *swapped = arena_new(s->mem, size_t, s->first[s->n] + 1);
    r->h = arena_znew(s->mem, double, r->n + 1);
    r->best = arena_znew(s->mem, pick, s->n + 1);
    if (!masked || !swapped || !r->h || !r->best)
        return STET_ENOMEM;
    TRY(ask_all(s, r, masked, swapped));
    const double clean = search_p(s, 0);
    double sum = 0;
    for (size_t k = 0; k < r->n; k++)
        if (search_free(s, r->place[k]))
            sum += exp(clean - search_p(s, masked[k]));
    for (size_t k = 0; k < r->n; k++) {
        const size_t i = r->place[k];
        if (!search_free(s, i))
            continue;
        double least = INFINITY;
        for (size_t c = 0; c < search_count(s, i); c++) {
            const double p = search_p(s, swapped[s->first[i] + c]);
            if (p < least) {
                least = p;
                r->best[i] = (pick)(c + 1);
            }
        }
        const double phi = exp(clean - search_p(s, masked[k])) / sum;
        r->h[k] = phi * ((rule == RULE_OPENATTACK ? clean : 1) - least);
    }
    return STET_OK;
}

/* Write the substitutes one after the other, also where they do not help, until the victim turns.
 */
static stet_status write_chain(search *s, const pwws_ranking *r, const size_t *order)
{
    pick *x = search_text(s);
    if (!x)
        return STET_ENOMEM;
    size_t rows[CHAIN], left = search_max_changed(s);
    for (size_t k = 0; k < r->n && left > 0; k += CHAIN) {
        const size_t end = k + CHAIN < r->n ? k + CHAIN : r->n;
        TRY(search_near(s, x));
        for (size_t j = k; j < end; j++) {
            const size_t i = r->place[order[j]];
            if (!s->filtered[i])
                x[i] = r->best[i];
            TRY(search_ask(s, x, &rows[j - k]));
        }
        TRY(search_answer(s));
        for (size_t j = k; j < end; j++) {
            const size_t i = r->place[order[j]];
            if (s->filtered[i])
                continue;
            if (r->best[i] && left-- == 0)
                return STET_OK;
            s->found[i] = r->best[i];
            TRY(search_spend(s, 1));
            if (search_flipped(s, rows[j - k])) {
                s->success = true;
                return search_spend(s, 1); /* the framework asks once more to be sure */
            }
        }
    }
    return STET_OK;
}

static stet_status run(search *s, const void *config)
{
    const pwws_cfg *cfg = config;
    const bool oa = cfg->rule == RULE_OPENATTACK;
    s->mask = cfg->mask ? STET_PAD : STET_UNK;
    pwws_ranking r = {.place = arena_new(s->mem, size_t, s->n + 1)};
    if (!r.place)
        return STET_ENOMEM;
    for (size_t i = 0; i < s->n; i++)
        if (oa || !s->filtered[i])
            r.place[r.n++] = i;
    if (r.n == 0)
        return search_spend(s, 1);
    size_t queries = oa ? 1 + r.n + 1 : 1 + r.n;
    for (size_t k = 0; k < r.n; k++) {
        const size_t c = search_count(s, r.place[k]);
        queries += c ? c + oa : 0;
    }
    TRY(search_spend(s, queries));
    TRY(pwws_rank(s, cfg->rule, &r));
    size_t *order = order_falling(s->mem, r.h, r.n);
    if (!order)
        return STET_ENOMEM;
    if (oa)
        return write_chain(s, &r, order);
    for (size_t k = 0; k < r.n; k++)
        order[k] = r.place[order[k]];
    return walk_improving(s, order, r.n);
}

const attack_desc attack_pwws = {
    .name = "pwws",
    .summary = "words by saliency times gain, each replaced by its best substitute",
    .opts = opts,
    .cfg_size = sizeof(pwws_cfg),
    .profiles = profiles,
    .run = run,
};
