/* model/ensemble.c - see ensemble.h. */
#include "model/ensemble.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

typedef struct ensemble_cfg {
    int64_t members;
} ensemble_cfg;

static const stet_opt opts[] = {
    STET_OPT_INT("members", ensemble_cfg, members, "2", 2, ENSEMBLE_MOST, "N",
                 "models whose logits are added"),
    STET_OPT_END,
};

/* ---- sums --------------------------------------------------------------------------------- */

/* The sum of numbers, kept without loss as parts that do not overlap, the largest last (Shewchuk):
 * its sign is that of the last part. */
typedef struct exact {
    double part[2 * ENSEMBLE_MOST + 1];
    size_t n;
} exact;

static void exact_add(exact *s, double x)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++) {
        const double y = s->part[i], hi = x + y, back = hi - x;
        const double lo = (x - (hi - back)) + (y - back);
        if (lo != 0)
            s->part[kept++] = lo;
        x = hi;
    }
    s->n = kept;
    if (x != 0 || kept == 0)
        s->part[s->n++] = x;
}

static double exact_value(const exact *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->n; i++) /* small parts first */
        sum += s->part[i];
    return sum;
}

/* The sum for class a, less that for b. */
static exact lead(const float *logits, size_t n, size_t K, size_t a, size_t b)
{
    exact s = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        exact_add(&s, (double)logits[i * K + a]);
        exact_add(&s, -(double)logits[i * K + b]);
    }
    return s;
}

void ensemble_add(const float *logits, size_t n, size_t K, float *out)
{
    size_t best = 0;
    for (size_t c = 1; c < K; c++) {
        const exact s = lead(logits, n, K, c, best);
        if (s.part[s.n - 1] > 0)
            best = c;
    }
    for (size_t c = 0; c < K; c++) {
        const exact s = lead(logits, n, K, best, c);
        const double by = exact_value(&s);
        out[c] = -(float)fmin(by, (double)FLT_MAX);
        if (s.part[s.n - 1] > 0 && !(out[c] < 0))
            out[c] = -FLT_TRUE_MIN;
    }
}

/* ---- members ------------------------------------------------------------------------------ */

static void end(void *state)
{
    ensemble *e = state;
    for (size_t i = 0; e && e->other && e->row && i + 1 < e->n; i++) {
        stet_model_free(e->other[i]);
        mem_free(e->row[i]);
    }
    if (e) {
        mem_free(e->other);
        mem_free(e->row);
    }
    mem_free(e);
}

static stet_status check_alike(const model *m, const model *other)
{
    const char *what = other->rule                                    ? "answers by a rule itself"
                       : other->desc->reader || m->desc->reader       ? "does not read words"
                       : other->reader.tokenizer != m->reader.tokenizer ? "has another tokeniser"
                       : other->max_len != m->max_len                 ? "reads other lengths"
                       : other->n_classes != m->n_classes             ? "has other classes"
                                                                      : NULL;
    for (size_t c = 0; !what && c < m->n_classes; c++)
        if (strcmp(m->class_names[c], other->class_names[c]) != 0)
            what = "has other classes";
    return what ? error_set(STET_EUSAGE, "%s: it %s, and cannot join %s", other->folder, what,
                            m->folder)
                : STET_OK;
}

/* Takes `other` over, also after a failure. */
static stet_status join(const model *m, ensemble *e, size_t i, model *other)
{
    e->other[i] = other;
    e->row[i] = mem_alloc(m->n_words, sizeof *e->row[i]);
    if (!e->row[i])
        return STET_ENOMEM;
    for (uint32_t w = 0; w < m->n_words; w++) {
        const char *word = stet_vocab_word(m->vocab, w);
        e->row[i][w] = w < STET_FIRST_WORD ? w : stet_vocab_id(other->vocab, word, strlen(word));
    }
    return check_alike(m, other);
}

static ensemble *ensemble_new(size_t n)
{
    ensemble *e = mem_zalloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->n = n;
    e->other = mem_zalloc(n, sizeof *e->other);
    e->row = mem_zalloc(n, sizeof *e->row);
    if (e->other && e->row)
        return e;
    end(e);
    return NULL;
}

static char *member_dir(const char *dir, size_t i) /* of other[i] */
{
    char name[32];
    snprintf(name, sizeof name, "member-%zu", i + 2);
    return path_join(dir, name);
}

static stet_status load(const void *cfg, const model *m, const char *dir, void **state)
{
    ensemble *e = *state = ensemble_new((size_t)((const ensemble_cfg *)cfg)->members);
    if (!e)
        return STET_ENOMEM;
    for (size_t i = 0; i + 1 < e->n; i++) {
        char *path = member_dir(dir, i);
        stet_model *other = NULL;
        stet_status st = path ? stet_model_load(path, &other) : STET_ENOMEM;
        mem_free(path);
        if (st == STET_OK)
            st = join(m, e, i, other);
        if (st != STET_OK)
            return st == STET_EUSAGE ? error_prefix(STET_EFORMAT, "%s", dir) : st;
    }
    return STET_OK;
}

static stet_status save(const void *state, const char *dir)
{
    const ensemble *e = state;
    for (size_t i = 0; i + 1 < e->n; i++) {
        char *path = member_dir(dir, i);
        const stet_status st = path ? stet_model_save(e->other[i], path) : STET_ENOMEM;
        mem_free(path);
        TRY(st);
    }
    return STET_OK;
}

/* ---- answers ------------------------------------------------------------------------------ */

/* Logits (n, texts, K) of every member. */
static stet_status ask(const model *m, const ensemble *e, const stet_corpus *c, float *all)
{
    const size_t size = c->n_texts * m->n_classes;
    const uint64_t from = c->start[0], end_at = c->start[c->n_texts];
    uint32_t *ids = mem_alloc((size_t)end_at + 1, sizeof *ids);
    if (!ids)
        return STET_ENOMEM;
    stet_status st = model_network_logits(m, c, all);
    for (size_t i = 0; st == STET_OK && i + 1 < e->n; i++) {
        stet_corpus mapped = *c;
        mapped.ids = ids;
        for (uint64_t k = from; k < end_at; k++)
            ids[k] = e->row[i][c->ids[k]];
        st = model_network_logits(e->other[i], &mapped, all + (i + 1) * size);
    }
    mem_free(ids);
    return st;
}

static stet_status predict_all(const rule *r, const model *m, const stet_corpus *c, float *logits)
{
    const ensemble *e = r->state;
    const size_t K = m->n_classes, size = c->n_texts * K;
    float *all = mem_alloc(e->n * size + 1, sizeof *all), *one = mem_alloc(e->n * K, sizeof *one);
    stet_status st = all && one ? ask(m, e, c, all) : STET_ENOMEM;
    for (size_t t = 0; st == STET_OK && t < c->n_texts; t++) {
        for (size_t i = 0; i < e->n; i++)
            memcpy(one + i * K, all + i * size + t * K, K * sizeof *one);
        ensemble_add(one, e->n, K, logits + t * K);
    }
    mem_free(all);
    mem_free(one);
    return st;
}

const rule_desc rule_ensemble = {
    .name = "ensemble",
    .opts = opts,
    .cfg_size = sizeof(ensemble_cfg),
    .load = load,
    .save = save,
    .end = end,
    .predict_all = predict_all,
};

/* ---- making one --------------------------------------------------------------------------- */

/* What the members' trainings were is no longer that of the whole; their names are. */
static stet_status name_members(model *m, const char *const *dirs, size_t n)
{
    json_t *names = json_array();
    bool whole = names != NULL;
    for (size_t i = 0; whole && i < n; i++) {
        size_t len;
        const char *name = path_last(dirs[i], &len);
        json_t *s = json_stringn(name, len);
        whole = json_array_append_new(names, s ? s : json_string("?")) == 0;
    }
    json_decref(m->extra);
    m->extra = json_pack("{s:o}", "ensemble", names);
    return whole && m->extra ? STET_OK
                             : error_set(STET_ENOMEM, "out of memory for the configuration");
}

static stet_status combine(model *m, const char *const *dirs, size_t n)
{
    const ensemble_cfg cfg = {(int64_t)n};
    if (m->rule || m->desc->reader)
        return error_set(STET_EUSAGE, "%s: it %s, and cannot be a member", dirs[0],
                         m->rule ? "answers by a rule" : "does not read words");
    TRY(rule_attach(m, &rule_ensemble, &cfg, NULL, NULL));
    ensemble *e = m->rule->state = ensemble_new(n);
    if (!e)
        return STET_ENOMEM;
    for (size_t i = 1; i < n; i++) {
        stet_model *other;
        TRY(stet_model_load(dirs[i], &other));
        TRY(join(m, e, i - 1, other));
    }
    return name_members(m, dirs, n);
}

stet_status stet_model_ensemble(const char *const *dirs, size_t n, stet_model **out)
{
    *out = NULL;
    if (n < 2 || n > ENSEMBLE_MOST)
        return error_set(STET_EUSAGE, "an ensemble has from 2 to %d members, not %zu",
                         ENSEMBLE_MOST, n);
    stet_model *m;
    TRY(stet_model_load(dirs[0], &m));
    const stet_status st = combine(m, dirs, n);
    if (st == STET_OK)
        *out = m;
    else
        stet_model_free(m);
    return st;
}
