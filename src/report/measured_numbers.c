/* report/measured_numbers.c - results as JSON: see stet/measured.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "report/measured_impl.h"
#include "stet/measured.h"

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* Takes the reference. jansson leaves out what it has no memory for. */
static stet_status finish(json_t *o, size_t failures, char **json)
{
    stet_status st = o && mem_failures() == failures
                         ? json_text(o, JSON_COMPACT, json)
                         : error_set(STET_ENOMEM, "out of memory for a result");
    json_decref(o);
    return st;
}

enum { MOST_CONFUSED = 100 }; /* classes: beyond it the matrix would be the whole file */

stet_status stet_eval_json(const stet_model *m, const stet_scores *s, char **json)
{
    *json = NULL;
    json_guard();
    const size_t failures = mem_failures();
    json_t *classes = json_array(), *confusion = json_array(), *bins = json_array();
    for (size_t c = 0; c < s->n_classes; c++) {
        json_array_append_new(classes,
                              json_pack("{s:s, s:f, s:f, s:f}", "class",
                                        stet_model_class_name(m, c), "precision", s->precision[c],
                                        "recall", s->recall[c], "f1", s->f1[c]));
        json_t *row = json_array();
        for (size_t j = 0; j < s->n_classes && s->n_classes <= MOST_CONFUSED; j++)
            json_array_append_new(row,
                                  json_integer((json_int_t)s->confusion[c * s->n_classes + j]));
        if (s->n_classes <= MOST_CONFUSED)
            json_array_append_new(confusion, row);
        else
            json_decref(row);
    }
    for (size_t b = 0; b < 15; b++)
        json_array_append_new(bins, json_pack("{s:I, s:f, s:f}", "n", (json_int_t)s->bin_count[b],
                                              "confidence", s->bin_confidence[b], "accuracy",
                                              s->bin_accuracy[b]));
    return finish(json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "accuracy",
                            number(s->accuracy), "n", (json_int_t)s->n, "loss", number(s->loss),
                            "ece", number(s->ece), "per_class", classes, "confusion", confusion,
                            "calibration", bins),
                  failures, json);
}

static json_t *redrawn(const stet_attack_result *r)
{
    json_t *o = json_pack("{s:I, s:f}", "times", (json_int_t)r->redraws, "aua", r->aua_redrawn);
    if (isfinite(r->flips_stay) && o)
        json_object_update_new(o, json_pack("{s:f, s:f}", "flips_stay", r->flips_stay,
                                            "untouched_wrong", r->untouched_wrong));
    return o;
}

stet_status stet_attack_json(const char *attack, const char *profile, const char *const *settings,
                             const stet_attack_result *r, char **json)
{
    char *text = NULL, *missing = NULL;
    json_t *set = NULL;
    *json = NULL;
    json_guard();
    TRY(stet_attack_settings(attack, profile, settings, &text, &missing));
    stet_status st = json_read_text("settings", text, strlen(text), &set);
    const size_t failures = mem_failures();
    if (st == STET_OK)
        st = finish(
            json_pack("{s:s, s:s, s:o, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
                      "s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o*}",
                      "attack", attack, "profile", profile, "settings", set, "missing", missing,
                      "n", (json_int_t)r->n, "clean", r->clean, "aua", r->aua, "success_rate",
                      r->success_rate, "queries_mean", r->queries_mean, "queries_success_mean",
                      r->queries_success_mean, "queries_failure_mean", r->queries_failure_mean,
                      "evaluations_mean", r->evaluations_mean, "changed_mean", r->changed_mean,
                      "candidates_mean", r->candidates_mean, "attackable_mean", r->attackable_mean,
                      "errors", (json_int_t)r->errors, "timeouts", (json_int_t)r->timeouts,
                      "unconfirmed", (json_int_t)r->unconfirmed, "decided", (json_int_t)r->decided,
                      "proved", (json_int_t)r->proved, "resumed", (json_int_t)r->resumed, "seconds",
                      r->seconds, "redrawn", r->redraws ? redrawn(r) : NULL),
            failures, json);
    stet_free(text);
    stet_free(missing);
    return st;
}

stet_status stet_certify_json(const stet_certify_how *how, const stet_certify_result *r,
                              char **json)
{
    *json = NULL;
    json_guard();
    const size_t failures = mem_failures();
    json_t *bins = json_array(), *budgets = json_array();
    for (size_t k = 0; k < STET_MARGIN_BINS; k++)
        json_array_append_new(bins, json_integer((json_int_t)r->margin_bins[k]));
    for (size_t k = 0; k < r->n_budget; k++)
        json_array_append_new(budgets, json_integer((json_int_t)r->budget_at_least[k]));
    json_t *o = json_pack(
        "{s:s, s:o, s:I, s:f, s:f, s:f, s:f, s:s, s:{s:o, s:o, s:o}, s:o, s:o, s:o, s:o, s:f}",
        "method", how->method ? how->method : "auto", "budget",
        how->budget == STET_ANY ? json_null() : json_integer((json_int_t)how->budget), "n",
        (json_int_t)r->n, "clean", r->clean, "certified", r->certified, "broken", r->broken,
        "undecided", r->undecided, "methods_used", r->method ? r->method : "", "margins", "lo",
        number(r->margin_lo), "hi", number(r->margin_hi), "bins", bins, "budget_at_least", budgets,
        "slack_mean", number(r->slack_mean), "candidates_mean", number(r->candidates_mean),
        "attackable_mean", number(r->attackable_mean), "seconds", r->seconds);
    if (o && r->confidence > 0) { /* of a model that votes */
        json_object_set_new(o, "likely", json_real(r->likely));
        json_object_set_new(o, "confidence", json_real(r->confidence));
    }
    if (o && r->unbounded)
        json_object_set_new(o, "unbounded", json_integer((json_int_t)r->unbounded));
    return finish(o, failures, json);
}

/* ---- growth bounds ------------------------------------------------------------------------ */

/* The next largest entry after *last (by value, then place); SIZE_MAX when there is none. */
static size_t next_largest(const double *v, size_t n, size_t last)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        const bool after = last == SIZE_MAX || v[i] < v[last] || (v[i] == v[last] && i > last);
        if (after && (best == SIZE_MAX || v[i] > v[best]))
            best = i;
    }
    return best;
}

typedef const char *name_fn(const stet_gbm *g, size_t i, char *out, size_t size);

static json_t *json_top(const stet_gbm *g, size_t top, const double *sum, size_t n,
                        name_fn *name)
{
    json_t *list = json_array();
    char text[64];
    size_t at = SIZE_MAX;
    for (size_t k = 0; k < top && (at = next_largest(sum, n, at)) != SIZE_MAX; k++)
        json_array_append_new(list, json_pack("{s:s, s:o}", "name", name(g, at, text, sizeof text),
                                              "sum", number(sum[at])));
    return list;
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* What half, nine tenths and 99 % of the entries that are not zero stay below. */
static json_t *json_entries(const stet_gbm *g)
{
    static const struct {
        const char *name;
        double share;
    } at[] = {{"median", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"largest", 1}};
    json_t *o = json_object();
    float *v = mem_alloc(g->rows * g->cols + 1, sizeof *v);
    size_t n = 0;
    for (size_t k = 0; v && k < g->rows * g->cols; k++)
        if (g->m[k] > 0 && isfinite(g->m[k]))
            v[n++] = g->m[k];
    if (v)
        qsort(v, n, sizeof *v, by_size);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        json_object_set_new(o, at[i].name,
                            n ? number((double)v[(size_t)(at[i].share * (double)(n - 1))])
                              : json_null());
    mem_free(v);
    return o;
}

stet_status stet_gbm_json(const stet_gbm *g, const char *dir, size_t top, char **json)
{
    *json = NULL;
    json_guard();
    const size_t failures = mem_failures();
    static const char *const part[STET_GBM_PARTS] = {"input", "state", "cell"};
    json_t *parts = json_object(), *contraction = json_array();
    for (size_t p = 0; p < STET_GBM_PARTS; p++)
        json_object_set_new(parts, part[p], number(g->by_part[p]));
    for (size_t d = 0; d < g->n_contraction; d++)
        json_array_append_new(contraction, number(g->contraction[d]));
    json_t *lipschitz =
        json_pack("{s:o, s:o, s:o, s:o}", "inf_inf", number(g->lipschitz.inf_inf), "one_inf",
                  number(g->lipschitz.one_inf), "one_one", number(g->lipschitz.one_one), "two_two",
                  number(g->lipschitz.two_two));
    return finish(
        json_pack("{s:o, s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "dir",
                  measured_string(dir, strlen(dir)), "model", g->kind, "boxes", g->boxes, "rows",
                  (json_int_t)g->rows, "cols", (json_int_t)g->cols, "gbm_sum", number(g->sum),
                  "entries", json_entries(g), "gbm_by_part", parts, "gbm_logits",
                  number(g->logit_sum), "lipschitz", lipschitz, "contraction", contraction, "units",
                  json_top(g, top, g->row_sum, g->rows, stet_gbm_row_name), "inputs",
                  json_top(g, top, g->col_sum, g->cols, stet_gbm_col_name)),
        failures, json);
}
