/* verify/ver_ensemble.c - several models whose logits are added: "rule": {"name": "ensemble"} in
 * config.json, the other members in the folders member-2, member-3, ... The sums are compared without
 * rounding, so that the margin is the sum of the members' margins, and each of these has the bound that
 * its own kind gives. A claim's witness has a method, and perhaps a witness, for every member. */
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "verify/ver_line.h"

/* ---- members ------------------------------------------------------------------------------ */

static stet_status load_other(const char *dir, size_t number, const ver_model *first,
                              ver_model *out)
{
    char name[32];
    snprintf(name, sizeof name, "member-%zu", number);
    char *path = path_join(dir, name);
    if (!path)
        return STET_ENOMEM;
    stet_status st = ver_model_load(path, out);
    if (st == STET_OK && (out->kind == &ver_ensemble || out->votes || out->reads != first->reads ||
                          out->max_len != first->max_len || out->classes != first->classes ||
                          strcmp(out->class_names, first->class_names) != 0)) {
        st = error_set(STET_EFORMAT, "%s: not a model that can join others, or it reads otherwise",
                       path);
        ver_model_deinit(out);
    }
    mem_free(path);
    return st;
}

/* The rows of a member for the words of the first one; what it does not know is unknown to it. */
static uint32_t *rows_of(const ver_model *first, const ver_model *other, arena *a)
{
    uint32_t *row = arena_new(a, uint32_t, first->n_words);
    for (uint32_t w = 0; row && w < first->n_words; w++) {
        const uint32_t at =
            strmap_find(&other->vocab, strmap_text(&first->vocab, w), strmap_len(&first->vocab, w));
        row[w] = w <= VER_UNK ? w : at == STRMAP_NONE ? VER_UNK : at;
    }
    return row;
}

static void hash_members(ver_model *m)
{
    sha256 h[3];
    char *const to[3] = {m->sha_config, m->sha_weights, m->sha_vocabulary};
    for (size_t k = 0; k < 3; k++) {
        sha256_init(&h[k]);
        for (size_t i = 0; i < m->n_members; i++) {
            const ver_model *x = &m->member[i];
            const char *const part[3] = {x->sha_config, x->sha_weights, x->sha_vocabulary};
            sha256_add(&h[k], part[k], SHA256_HEX - 1);
            sha256_add(&h[k], "\n", 1);
        }
    }
    for (size_t k = 0; k < 3; k++)
        sha256_hex(&h[k], to[k]);
}

stet_status ver_ensemble_load(const json_t *rule, const char *dir, ver_model *m)
{
    static const char *const keys[] = {"name", "settings", NULL}, *const settings[] = {"members", NULL};
    const json_t *set = json_object_get(rule, "settings");
    int64_t n;
    TRY(ver_only_keys(rule, "\"rule\"", keys));
    TRY(ver_only_keys(set, "\"rule\"", settings));
    TRY(json_get_int(set, "settings of the rule", "members", 2, VER_MEMBERS, &n));
    m->member = mem_zalloc((size_t)n, sizeof *m->member);
    m->row = arena_znew(&m->mem, uint32_t *, (size_t)n);
    if (!m->member || !m->row)
        return STET_ENOMEM;
    m->member[0] = *m; /* the first one: a view of it, released with it */
    m->member[0].member = NULL;
    for (m->n_members = 1; m->n_members < (size_t)n; m->n_members++) {
        const size_t i = m->n_members;
        TRY(load_other(dir, i + 1, m, &m->member[i]));
        m->row[i] = rows_of(m, &m->member[i], &m->mem);
        if (!m->row[i]) {
            ver_model_deinit(&m->member[i]);
            return STET_ENOMEM;
        }
    }
    m->kind = &ver_ensemble;
    hash_members(m);
    return STET_OK;
}

/* ---- tasks -------------------------------------------------------------------------------- */

static stet_status open(ver_work *w)
{
    const ver_model *m = w->m;
    const size_t words = w->t->start[w->t->n];
    if (!w->member && !(w->member = mem_zalloc(m->n_members, sizeof *w->member)))
        return STET_ENOMEM;
    w->n_members = m->n_members;
    for (size_t i = 0; i < m->n_members; i++) {
        ver_task *t = arena_new(&w->mem, ver_task, 1);
        uint32_t *word = arena_new(&w->mem, uint32_t, words);
        if (!t || !word)
            return STET_ENOMEM;
        for (size_t k = 0; k < words; k++)
            word[k] = i ? m->row[i][w->t->word[k]] : w->t->word[k];
        *t = *w->t;
        t->word = word;
        w->member[i].m = &m->member[i];
        TRY(ver_open_task(&w->member[i], t));
    }
    return STET_OK;
}

/* ---- bounds ------------------------------------------------------------------------------- */

static stet_status bound_by(ver_work *x, int label, int other, const json_t *part, double *out)
{
    static const char *const keys[] = {"method", "witness", NULL};
    const ver_kind *kind = x->m->kind;
    const char *method;
    TRY(ver_only_keys(part, "a member's part", keys));
    TRY(json_get_str(part, "a member's part", "method", &method));
    const char *const *known = kind->methods;
    while (*known && strcmp(*known, method) != 0)
        known++;
    if (!*known)
        return error_set(STET_EFORMAT, "claim: unknown method \"%.40s\" of a %s", method,
                         kind->name);
    return kind->bound(x, label, other, method, json_object_get(part, "witness"), out);
}

/* Without a witness: the value, or, for "best", whatever method gives most. */
static stet_status bound_alone(ver_work *x, int label, int other, bool best, double *out)
{
    const ver_kind *kind = x->m->kind;
    TRY(kind->bound(x, label, other, kind->value, NULL, out));
    for (const char *const *m = kind->methods; best && *m; m++) {
        double more;
        TRY(kind->bound(x, label, other, *m, NULL, &more));
        *out = more > *out ? more : *out;
    }
    return STET_OK;
}

static stet_status bound(ver_work *w, int label, int other, const char *method,
                         const json_t *witness, double *out)
{
    ver_sum sum = {0};
    if (witness && json_array_size(witness) != w->n_members)
        return error_set(STET_EFORMAT, "claim: expected a part for each of %zu members",
                         w->n_members);
    for (size_t i = 0; i < w->n_members; i++) {
        double own;
        TRY(witness ? bound_by(&w->member[i], label, other, json_array_get(witness, i), &own)
                    : bound_alone(&w->member[i], label, other, strcmp(method, "best") == 0, &own));
        if (!(own > -INFINITY)) {
            *out = -INFINITY;
            return STET_OK;
        }
        ver_add(&sum, own, 0);
    }
    *out = ver_lower(&sum);
    return STET_OK;
}

static double margin(const ver_work *w, int label, int other)
{
    double sum = 0;
    for (size_t i = 0; i < w->n_members; i++)
        sum += w->member[i].m->kind->margin(&w->member[i], label, other);
    return sum;
}

static const char *const methods[] = {"cheap", "best", NULL};
const ver_kind ver_ensemble = {"ensemble", methods, "cheap", open, bound, margin};
