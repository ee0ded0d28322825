/* train/validate.c - the validation texts after an epoch: as they are, and in the worst case. */
#include <math.h>

#include "base/log.h"
#include "model/word_scores.h"
#include "train/run_state.h"

static stet_status validate(run_state *r, stet_scores *out)
{
    const stet_corpus *c = &r->p.valid;
    if (r->p.m->rule) /* which asks the model itself */
        TRY(weights_fetch(&r->w, r->p.m));
    const stet_status st = model_scores(r->p.m, &r->w, &r->values, c, out);
    if (r->p.m->rule)
        model_forget(r->p.m); /* what was compiled for that: the weights go on changing */
    return st == STET_EFORMAT ? error_prefix(st, "training diverged, a smaller --lr helps") : st;
}

static stet_status worst_share_of(run_state *r, const uint32_t *pick, size_t n, double *share)
{
    batch x;
    tape t;
    pass p;
    step_view v = run_view(r);
    tape_init(&t, &r->step_mem, &r->values, false);
    TRY(batch_make(&r->batches, r->p.m, &r->p.valid, pick, n, &r->step_mem, &x));
    TRY(pass_init(&p, r->p.m, &t, &r->w, NULL, &x));
    v.p = &p;
    v.x = &x;
    node *at = defense_list_worst_share(&r->defenses, &v);
    return tape_read(&t, &at, 1, share);
}

/* Accuracy in the worst case on the validation texts, by the bounds of the defence. */
static stet_status validate_worst_case(run_state *r, double *share)
{
    enum { SOME = 64 };
    const size_t n = r->p.valid.n_texts;
    double sum = 0;
    for (size_t i = 0; i < n; i += SOME) {
        uint32_t pick[SOME];
        const size_t some = n - i < SOME ? n - i : SOME;
        for (size_t k = 0; k < some; k++)
            pick[k] = (uint32_t)(i + k);
        const arena_mark start = arena_save(&r->step_mem);
        const store_mark held = store_arena_save(&r->values);
        const stet_status st = worst_share_of(r, pick, some, share);
        store_arena_restore(&r->values, held);
        arena_restore(&r->step_mem, start);
        TRY(st);
        TRY(interrupt_status());
        sum += *share * (double)some;
    }
    *share = sum / (double)n;
    return STET_OK;
}

/* A sum reads nothing but its words' scores, and these are the same in all texts. A rule changes what the
 * model reads, which bounds know nothing of. */
stet_status run_validate(run_state *r, stet_scores *out, double *share)
{
    const model *m = r->p.m;
    const store_mark held = store_arena_save(&r->values);
    *share = NAN;
    if (!m->desc->features && m->score_net >= 0)
        TRY(word_scores_know(m, &r->w, &r->step_mem, &r->values));
    stet_status st = validate(r, out);
    if (st == STET_OK && !m->rule && defense_list_has_worst_share(&r->defenses)) {
        st = validate_worst_case(r, share);
        if (st != STET_OK)
            stet_scores_deinit(out);
    }
    r->w.scores = NULL;
    store_arena_restore(&r->values, held);
    return st;
}
