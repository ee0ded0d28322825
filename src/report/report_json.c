/* report/report_json.c - the report for programs: what the page shows, as one object. */
#include <math.h>

#include "report/report_impl.h"

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *curve(const double *v, size_t n)
{
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(a, number(v[i]));
    return a;
}

static json_t *bounds_of(const run_folder *r)
{
    const stet_gbm *g = &r->gbm;
    return json_pack("{s:o, s:o, s:s, s:I, s:I, s:{s:o, s:o, s:o, s:o}}", "gbm_sum", number(g->sum),
                     "gbm_logits", number(g->logit_sum), "boxes", g->boxes, "rows",
                     (json_int_t)g->rows, "cols", (json_int_t)g->cols, "lipschitz", "inf_inf",
                     number(g->lipschitz.inf_inf), "one_inf", number(g->lipschitz.one_inf),
                     "one_one", number(g->lipschitz.one_one), "two_two",
                     number(g->lipschitz.two_two));
}

static json_t *model_of(const run_folder *r)
{
    static const char *const names[EPOCH_VALUES] = {"train_loss", "valid_loss", "valid_accuracy",
                                                    "gbm"};
    json_t *curves = json_pack("{s:o}", "epoch", curve(r->epoch, r->n_epochs));
    for (size_t k = 0; k < EPOCH_VALUES; k++)
        json_object_set_new(curves, names[k], curve(r->value[k], r->n_epochs));
    json_t *o =
        json_pack("{s:s, s:s, s:O, s:o, s:O}", "name", r->name, "fingerprint", r->fingerprint,
                  "config", r->config, "training_curves", curves, "results", r->results);
    if (r->has_gbm)
        json_object_set_new(o, "bounds", bounds_of(r));
    return o;
}

static share first_of(const summary *s, size_t run, measure kind)
{
    for (size_t j = 0; j < s->n_cols; j++)
        if (s->col[j].kind == kind && s->cell[run][j])
            return share_at(s, run, j);
    return (share){.value = NAN};
}

/* The share under its key, its interval under the same key of "intervals". */
static void set_share(json_t *row, json_t *intervals, const char *key, share s)
{
    json_object_set_new(row, key, number(s.value));
    if (isfinite(s.value) && isfinite(s.lo))
        json_object_set_new(intervals, key, json_pack("[f, f]", s.lo, s.hi));
}

static json_t *row_of(const report *r, const summary *s, size_t i)
{
    const share none = {.value = NAN}, all = first_of(s, i, MEASURE_CLEAN),
                sample = first_of(s, i, MEASURE_SAMPLE);
    const size_t worst = summary_worst(s, i), proved = summary_proved(s, i);
    json_t *row = json_pack("{s:s}", "model", r->run[i].name), *intervals = json_object(),
           *aua = json_object(), *aua_intervals = json_object();
    set_share(row, intervals, "clean", isfinite(all.value) ? all : sample);
    set_share(row, intervals, "sample_clean", isfinite(sample.value) ? sample : all);
    set_share(row, intervals, "worst", worst == SIZE_MAX ? none : share_at(s, i, worst));
    set_share(row, intervals, "certified", proved == SIZE_MAX ? none : share_at(s, i, proved));
    for (size_t j = 0; j < s->n_cols; j++)
        if (is_attack(s, i, j))
            set_share(aua, aua_intervals, str_of(s->cell[i][j], "attack"), share_at(s, i, j));
    json_object_set_new(row, "aua", aua);
    json_object_set_new(intervals, "aua", aua_intervals);
    json_object_set_new(row, "intervals", intervals);
    return row;
}

static json_t *table_of(const report *r, const summary *s)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < r->n; i++)
        json_array_append_new(rows, row_of(r, s, i));
    return json_pack("{s:O, s:o}", "data", s->data, "rows", rows);
}

stet_status report_json(const report *r, buf *out)
{
    json_t *models = json_array(), *tables = json_array();
    for (size_t i = 0; i < r->n; i++)
        json_array_append_new(models, model_of(&r->run[i]));
    for (size_t k = 0; k < r->n_data; k++)
        json_array_append_new(tables, table_of(r, &r->data[k]));
    json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:I}", "schema", 1, "version",
                          STET_VERSION, "command", "report", "title", title_of(r), "summary",
                          tables, "models", models, "stale_results", (json_int_t)r->stale);
    if (!o)
        return error_set(STET_ENOMEM, "out of memory for the report");
    if (r->a->n_sheets)
        json_object_set_new(o, "tables", json_sheets(r));
    json_append_line(out, o);
    json_decref(o);
    return buf_status(out);
}
