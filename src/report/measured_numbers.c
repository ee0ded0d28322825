/* report/measured_numbers.c - the numbers of an attack and of a certification: see stet/measured.h. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
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
                      "s:I, s:I, s:I, s:I, s:I, s:I, s:f}",
                      "attack", attack, "profile", profile, "settings", set, "missing", missing,
                      "n", (json_int_t)r->n, "clean", r->clean, "aua", r->aua, "success_rate",
                      r->success_rate, "queries_mean", r->queries_mean, "queries_success_mean",
                      r->queries_success_mean, "queries_failure_mean", r->queries_failure_mean,
                      "evaluations_mean", r->evaluations_mean, "changed_mean", r->changed_mean,
                      "candidates_mean", r->candidates_mean, "attackable_mean", r->attackable_mean,
                      "errors", (json_int_t)r->errors, "timeouts", (json_int_t)r->timeouts,
                      "unconfirmed", (json_int_t)r->unconfirmed, "decided", (json_int_t)r->decided,
                      "proved", (json_int_t)r->proved, "resumed", (json_int_t)r->resumed, "seconds",
                      r->seconds),
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
    if (o && r->verdicts[STET_LIKELY]) /* of a model that votes */
        json_object_set_new(o, "likely", json_real(r->likely));
    if (o && r->unbounded)
        json_object_set_new(o, "unbounded", json_integer((json_int_t)r->unbounded));
    return finish(o, failures, json);
}
