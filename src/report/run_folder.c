/* report/run_folder.c - reads what a run folder has to say. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "report/report_impl.h"

const char *str_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

double num_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

/* ---- train.jsonl -------------------------------------------------------------------------- */

static stet_status add_epoch(run_folder *r, const double v[EPOCH_VALUES], double epoch)
{
    for (size_t k = 0; k < EPOCH_VALUES; k++) {
        TRY(mem_grow(&r->value[k], &r->cap[k], r->n_epochs + 1, sizeof *r->value[k]));
        r->value[k][r->n_epochs] = v[k];
    }
    TRY(mem_grow(&r->epoch, &r->cap[EPOCH_VALUES], r->n_epochs + 1, sizeof *r->epoch));
    r->epoch[r->n_epochs++] = epoch;
    return STET_OK;
}

/* Steps carry the growth bound; an epoch's value is their mean. A journal that a kill cut short
 * ends in half a line: what is before it counts. */
static stet_status read_journal(const char *path, run_folder *r)
{
    if (!file_exists(path))
        return STET_OK;
    stream *s;
    TRY(file_plain(path, SIZE_MAX));
    TRY(stream_open(path, &s));
    stet_status st = STET_OK;
    json_t *o;
    double growth = 0, steps = 0;
    while (st == STET_OK && json_next_line(s, &o, &st)) {
        const double bound = num_of(o, "gbm");
        if (isfinite(bound)) {
            growth += bound;
            steps++;
        }
        if (json_object_get(o, "valid_loss")) {
            const double v[EPOCH_VALUES] = {num_of(o, "train_loss"), num_of(o, "valid_loss"),
                                            num_of(o, "valid_accuracy"),
                                            steps > 0 ? growth / steps : NAN};
            st = add_epoch(r, v, num_of(o, "epoch"));
            growth = steps = 0;
        }
        json_decref(o);
    }
    stream_close(s);
    return st == STET_EFORMAT ? STET_OK : st;
}

/* ---- results and bounds ------------------------------------------------------------------- */

static stet_status take_result(void *ctx, const char *name, json_t *o)
{
    run_folder *r = ctx;
    return json_object_set_new(o, "file", json_string(name)) == 0 &&
                   json_array_append(r->results, o) == 0
               ? STET_OK
               : error_set(STET_ENOMEM, "out of memory for the results of %s", r->dir);
}

static stet_status read_results(run_folder *r)
{
    r->results = json_array();
    return r->results ? results_each(r->dir, take_result, r) : STET_ENOMEM;
}

static stet_status read_model(run_folder *r, bool bounds)
{
    stet_model *m;
    TRY(stet_model_load(r->dir, &m));
    snprintf(r->fingerprint, sizeof r->fingerprint, "%016" PRIx64, stet_model_fingerprint(m));
    const stet_gbm_options how = STET_GBM_DEFAULTS;
    stet_status st = bounds ? stet_gbm_of(m, &how, &r->gbm) : STET_OK;
    r->has_gbm = bounds && st == STET_OK;
    stet_model_free(m);
    return st == STET_ENOTSUP ? STET_OK : st;
}

static stet_status read_in(const char *dir, const char *name,
                           stet_status (*read)(const char *path, run_folder *r), run_folder *r)
{
    char *path = path_join(dir, name);
    const stet_status st = path ? read(path, r) : STET_ENOMEM;
    mem_free(path);
    return st;
}

static stet_status read_config(const char *path, run_folder *r)
{
    TRY(json_read_own(path, &r->config));
    return json_is_object(r->config) ? STET_OK
                                     : error_set(STET_EFORMAT, "%s: expected an object", path);
}

/* A program that was attacked with --victim-cmd has results, and no model of ours. */
static stet_status is_foreign(const char *dir, bool *out)
{
    char *config = path_join(dir, "config.json"), *results = path_join(dir, "results");
    *out = config && results && !file_exists(config) && dir_exists(results);
    const stet_status st = config && results ? STET_OK : STET_ENOMEM;
    mem_free(config);
    mem_free(results);
    return st;
}

stet_status run_folder_read(const char *dir, bool bounds, run_folder *out)
{
    *out = (run_folder){.dir = dir};
    stet_status st = is_foreign(dir, &out->foreign);
    if (st == STET_OK && !out->foreign)
        st = read_in(dir, "config.json", read_config, out);
    if (st == STET_OK && !out->foreign)
        st = read_in(dir, "train.jsonl", read_journal, out);
    if (st == STET_OK)
        st = read_results(out);
    if (st == STET_OK && !out->foreign)
        st = read_model(out, bounds);
    if (st == STET_OK && out->foreign && json_array_size(out->results) == 0)
        st = error_set(STET_EFORMAT, "%s: no model and no results", dir);
    return st;
}

void run_folder_deinit(run_folder *r)
{
    json_decref(r->config);
    json_decref(r->results);
    for (size_t k = 0; k < EPOCH_VALUES; k++)
        mem_free(r->value[k]);
    mem_free(r->epoch);
    stet_gbm_deinit(&r->gbm);
    *r = (run_folder){0};
}

bool run_folder_current(const run_folder *r, const json_t *result)
{
    const char *f = str_of(result, "model_fingerprint");
    return !*f || strcmp(f, r->fingerprint) == 0;
}

void run_folder_recipe(const run_folder *r, buf *out)
{
    if (r->foreign) {
        buf_printf(out, "a program: %s",
                   str_of(json_object_get(json_array_get(r->results, 0), "config"), "victim-cmd"));
        return;
    }
    const json_t *t = json_object_get(r->config, "training");
    buf_str(out, str_of(r->config, "model"));
    if (*str_of(t, "defense"))
        buf_printf(out, ", %s", str_of(t, "defense"));
    const json_t *set = json_object_get(t, "defense_settings");
    for (size_t i = 0; i < json_array_size(set); i++) {
        const char *s = json_string_value(json_array_get(set, i));
        buf_printf(out, "%s%s", i ? ", " : " (", s ? s : "");
    }
    buf_str(out, json_array_size(set) ? ")" : "");
    if (json_is_true(json_object_get(r->config, "word_scores")))
        buf_str(out, ", word scores");
    if (num_of(t, "vector_rate") > 0)
        buf_printf(out, ", vectors learned (%g)", num_of(t, "vector_rate"));
    if (num_of(t, "smooth") > 0)
        buf_printf(out, ", vectors smoothed over synonyms (%g)", num_of(t, "smooth"));
}
