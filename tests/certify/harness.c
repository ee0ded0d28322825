#include "harness.h"

#include <math.h>

#include "base/mem.h"
#include "model/s4.h"
#include "model/variants.h"

enum { WORDS = 60 };

/* ---- models and cases --------------------------------------------------------------------- */

static model *new_model(const char *kind, const char *const *settings, size_t dim, size_t classes,
                        double scale, bool scored, uint64_t seed)
{
    char text[WORDS][16];
    const char *words[WORDS];
    for (int i = 0; i < WORDS; i++) {
        snprintf(text[i], sizeof text[i], "w%d", i);
        words[i] = text[i];
    }
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, WORDS, &v));
    const size_t n = WORDS + STET_FIRST_WORD;
    float *data = mem_alloc(n * dim, sizeof *data);
    CHECK(data);
    rng r = rng_stream(seed, STREAM_TEST, 1);
    for (size_t i = 0; i < n * dim; i++)
        data[i] = (float)rng_normal(&r);
    const stet_vectors t = {.n = n, .dim = dim, .data = data};
    const stet_model_new_args how = {.name = kind,
                                     .settings = settings,
                                     .vocab = v,
                                     .vectors = &t,
                                     .max_len = HARNESS_POSITIONS,
                                     .n_classes = classes,
                                     .word_scores = scored,
                                     .seed = seed};
    model *m;
    CHECK_OK(stet_model_new(&how, &m));
    for (size_t i = 0; i < m->n_values; i++)
        m->value[i] *= (real)scale;
    stet_vocab_free(v);
    mem_free(data);
    return m;
}

model *harness_model(const char *kind, const char *const *settings, size_t dim, size_t classes,
                     double scale, uint64_t seed)
{
    model *m = new_model(kind, settings, dim, classes, scale, false, seed);
    CHECK_OK(stet_model_compile(m));
    return m;
}

model *harness_scored(const char *kind, const char *const *settings, size_t dim, size_t classes,
                      double scale, double scores, uint64_t seed)
{
    model *m = new_model(kind, settings, dim, classes, scale, true, seed);
    rng r = rng_stream(seed, STREAM_TEST, 2);
    for (size_t i = 0; i < m->n_words * classes; i++)
        model_value(m, m->scores)[i] = (real)(scores * rng_normal(&r));
    CHECK_OK(stet_model_compile(m));
    return m;
}

void harness_recompile(model *m)
{
    model_forget(m);
    CHECK_OK(stet_model_compile(m));
}

model *harness_fresh(model *m)
{
    model *fresh;
    CHECK_OK(stet_model_save(m, test_dir()));
    CHECK_OK(stet_model_load(test_dir(), &fresh));
    stet_model_free(m);
    CHECK_OK(stet_model_compile(fresh));
    return fresh;
}

static void scale_param(model *m, int id, float by)
{
    for (size_t i = 0; i < shape_count(m->params[id].shape); i++)
        m->value[m->params[id].first + i] *= by;
}

model *harness_s4_of_little(const char *const *settings, uint64_t seed)
{
    model *m = harness_model("s4", settings, 4, 3, 1, seed);
    for (size_t i = 0; i < m->n_words * m->dim; i++)
        m->table[i] *= 1e-41f;
    scale_param(m, S4_ENC_B, 0);
    scale_param(m, S4_FIRST_LAYER + S4_C, 1e15f);
    scale_param(m, S4_FIRST_LAYER + S4_D, 1e15f);
    scale_param(m, S4_FIRST_LAYER + S4_MIX_W, 1e15f);
    scale_param(m, S4_FIRST_LAYER + S4_MIX_B, 0);
    scale_param(m, S4_FIRST_LAYER + S4_NORM_W, 1e10f);
    return harness_fresh(m);
}

/* A word that is not among set[0..n). */
static uint32_t new_word(const model *m, const uint32_t *set, size_t n, rng *r)
{
    for (;;) {
        const uint32_t id = STET_FIRST_WORD + (uint32_t)rng_below(r, m->n_words - STET_FIRST_WORD);
        size_t i = 0;
        while (i < n && set[i] != id)
            i++;
        if (i == n)
            return id;
    }
}

void harness_case(const model *m, size_t n, size_t most, size_t budget, rng *r, cert_case *out)
{
    CHECK(n >= 1 && n <= HARNESS_POSITIONS && most <= HARNESS_SET);
    *out = (cert_case){0};
    for (size_t p = 0; p < n; p++) {
        const size_t from = out->start[p], count = rng_below(r, 3) ? 1 + rng_below(r, most) : 1;
        for (size_t s = 0; s < count; s++)
            out->word[from + s] = new_word(m, out->word + from, s, r);
        out->start[p + 1] = (uint32_t)(from + count);
        out->unpaid[p] = budget != STET_ANY && rng_below(r, 6) == 0;
    }
    out->task = (cert_task){.n = n,
                            .start = out->start,
                            .word = out->word,
                            .budget = budget,
                            .unpaid = rng_below(r, 2) ? out->unpaid : NULL,
                            .label = (int)rng_below(r, m->n_classes)};
}

/* ---- the truth ---------------------------------------------------------------------------- */

typedef struct variants {
    stet_edit *edits;
    size_t *start, n, n_edits, cap, cap_edits;
} variants;

/* The variant that takes word pick[p] at p, unless it changes too many positions. */
static void add_variant(variants *v, const cert_task *t, const size_t *pick)
{
    size_t paid = 0;
    for (size_t p = 0; p < t->n; p++)
        paid += pick[p] != 0 && !(t->unpaid && t->unpaid[p]);
    if (paid > t->budget)
        return;
    CHECK_OK(mem_grow(&v->start, &v->cap, v->n + 2, sizeof *v->start));
    CHECK_OK(mem_grow(&v->edits, &v->cap_edits, v->n_edits + t->n, sizeof *v->edits));
    v->start[v->n++] = v->n_edits;
    for (size_t p = 0; p < t->n; p++)
        if (pick[p])
            v->edits[v->n_edits++] = (stet_edit){(uint32_t)p, t->word[t->start[p] + pick[p]]};
    v->start[v->n] = v->n_edits;
}

static void lower(const model *m, const float *logits, size_t n, int label, double *least)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < m->n_classes; c++)
            least[c] = fmin(least[c], (double)logits[i * m->n_classes + (size_t)label] -
                                          (double)logits[i * m->n_classes + c]);
}

size_t harness_minimum(const model *m, const cert_task *t, double least[HARNESS_CLASSES])
{
    variants v = {0};
    size_t pick[HARNESS_POSITIONS] = {0}, at;
    do {
        add_variant(&v, t, pick);
        for (at = 0; at < t->n && ++pick[at] == t->start[at + 1] - t->start[at]; at++)
            pick[at] = 0;
    } while (at < t->n);

    uint32_t ids[HARNESS_POSITIONS];
    for (size_t p = 0; p < t->n; p++)
        ids[p] = t->word[t->start[p]];
    for (size_t c = 0; c < m->n_classes; c++)
        least[c] = INFINITY;
    float *logits = mem_alloc(v.n * m->n_classes, sizeof *logits);
    stet_view *view;
    CHECK(logits);
    CHECK_OK(stet_view_open(m, NULL, ids, t->n, &view));
    CHECK_OK(stet_view_edits(view, v.edits, v.start, v.n, logits));
    lower(m, logits, v.n, t->label, least);
    CHECK_OK(variants_whole(m, ids, t->n, v.edits, v.start, v.n, logits));
    lower(m, logits, v.n, t->label, least);
    stet_view_free(view);
    mem_free(logits);
    mem_free(v.edits);
    mem_free(v.start);
    return v.n;
}

/* ---- bounds ------------------------------------------------------------------------------- */

stet_status harness_init(harness *h, const cert_family *family, const model *m)
{
    *h = (harness){.family = family, .m = m};
    TRY(family->prepare(m, &h->shared));
    return family->work_new(h->shared, &h->work);
}

void harness_deinit(harness *h)
{
    h->family->work_free(h->work);
    h->family->shared_free(h->shared);
}

static stet_status bound_all(harness *h, const cert_task *t)
{
    double drop[HARNESS_POSITIONS];
    uint32_t worst[HARNESS_POSITIONS];
    TRY(h->family->open(h->work, t));
    for (size_t method = 0; h->family->methods[method]; method++) {
        cert_bound b = {.drop = drop, .worst = worst};
        TRY(h->family->bound(h->work, method, 1 - t->label, 20, &b));
    }
    return STET_OK;
}

stet_status harness_complete(void *use)
{
    const harness_use *u = use;
    harness h;
    stet_status st = harness_init(&h, u->family, u->m);
    if (st == STET_OK)
        st = bound_all(&h, &u->c->task);
    harness_deinit(&h);
    return st;
}

/* Without a budget the margin is the base less all drops; within one, less those it allows. */
static void check_parts(const cert_case *c, const cert_bound *b)
{
    const cert_task *t = &c->task;
    double scratch[HARNESS_POSITIONS], size = fabs(b->base);
    if (!b->additive || !isfinite(b->margin))
        return;
    for (size_t p = 0; p < t->n; p++) {
        CHECK(b->drop[p] >= 0 && b->worst[p] < t->start[p + 1] - t->start[p]);
        size += b->drop[p];
    }
    CHECK_NEAR(b->margin, cert_within_budget(b, t, t->budget, scratch), 1e-9 * (1 + size));
}

void harness_check(harness *h, const cert_case *c, size_t refine, double raise,
                   harness_tally *tally)
{
    const cert_task *t = &c->task;
    double least[HARNESS_CLASSES], clean[HARNESS_CLASSES], drop[HARNESS_POSITIONS];
    uint32_t worst[HARNESS_POSITIONS];
    cert_task fixed = *t;
    fixed.budget = 0;
    fixed.unpaid = NULL;
    harness_minimum(h->m, &fixed, clean);
    tally->combinations += harness_minimum(h->m, t, least);
    tally->cases++;
    CHECK_OK(h->family->open(h->work, t));
    for (int other = 0; other < (int)h->m->n_classes; other++) {
        if (other == t->label)
            continue;
        for (size_t method = 0; h->family->methods[method]; method++) {
            cert_bound b = {.drop = drop, .worst = worst};
            CHECK_OK(h->family->bound(h->work, method, other, refine, &b));
            CHECK(b.slack >= 0 && !isnan(b.margin));
            check_parts(c, &b);
            tally->bounds++;
            tally->violations += b.margin + raise > least[other];
            tally->drop[method] += clean[other] - b.margin;
        }
        tally->true_drop += clean[other] - least[other];
    }
}

/* ---- samples ------------------------------------------------------------------------------ */

/* A random combination that the budget allows: few changes or many, with equal chance. */
static void random_pick(const cert_task *t, rng *r, size_t *pick)
{
    const double share = rng_double(r);
    size_t left = t->budget;
    for (size_t p = 0; p < t->n; p++) {
        const size_t set = t->start[p + 1] - t->start[p];
        const bool free = t->unpaid && t->unpaid[p];
        pick[p] = (free || left > 0) && rng_double(r) < share ? rng_below(r, set) : 0;
        left -= pick[p] != 0 && !free && left != STET_ANY;
    }
}

static void try_variants(const model *m, const stet_view *view, variants *v, int label,
                         double *least)
{
    float *logits = mem_alloc(v->n * m->n_classes, sizeof *logits);
    CHECK(logits);
    CHECK_OK(stet_view_edits((stet_view *)view, v->edits, v->start, v->n, logits));
    lower(m, logits, v->n, label, least);
    mem_free(logits);
    v->n = v->n_edits = 0;
}

void harness_sample(harness *h, const cert_task *t, size_t refine, size_t count, rng *r,
                    harness_tally *tally)
{
    enum { BATCH = 1024 };
    const model *m = h->m;
    double margin[HARNESS_CLASSES][HARNESS_METHODS], least[HARNESS_CLASSES];
    size_t *pick = mem_zalloc(t->n, sizeof *pick);
    uint32_t *ids = mem_alloc(t->n, sizeof *ids), *worst = mem_alloc(t->n, sizeof *worst);
    double *drop = mem_alloc(t->n, sizeof *drop);
    CHECK(pick && ids && worst && drop);
    for (size_t p = 0; p < t->n; p++)
        ids[p] = t->word[t->start[p]];
    stet_view *view;
    CHECK_OK(stet_view_open(m, NULL, ids, t->n, &view));
    variants v = {0};
    CHECK_OK(h->family->open(h->work, t));
    for (size_t c = 0; c < m->n_classes; c++) {
        least[c] = INFINITY;
        for (size_t method = 0; (int)c != t->label && h->family->methods[method]; method++) {
            cert_bound b = {.drop = drop, .worst = worst};
            CHECK_OK(h->family->bound(h->work, method, (int)c, refine, &b));
            margin[c][method] = b.margin;
            for (size_t p = 0; p < t->n; p++)
                pick[p] = b.additive ? worst[p] : 0;
            add_variant(&v, t, pick);
        }
    }
    for (size_t k = 0; k < count; k++) {
        random_pick(t, r, pick);
        add_variant(&v, t, pick);
        if (v.n >= BATCH || k + 1 == count)
            try_variants(m, view, &v, t->label, least);
    }
    for (size_t c = 0; c < m->n_classes; c++)
        for (size_t method = 0; (int)c != t->label && h->family->methods[method]; method++) {
            tally->bounds++;
            tally->violations += margin[c][method] > least[c];
        }
    tally->cases++;
    tally->combinations += count;
    stet_view_free(view);
    mem_free(v.edits);
    mem_free(v.start);
    mem_free(pick);
    mem_free(ids);
    mem_free(worst);
    mem_free(drop);
}
