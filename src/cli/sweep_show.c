/* cli/sweep_show.c - see sweep_show.h. */
#include "cli/sweep_show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void sweep_tell(void *user, const stet_sweep_point *p)
{
    (void)user;
    const stet_sweep_number *number = stet_sweep_numbers();
    char said[240] = "";
    if (p->error)
        cli_warn("%s: failed: %s", p->dir, p->error);
    if (p->error || p->found)
        return;
    for (int m = 0; m < STET_SWEEP_MEASURES; m++)
        if (number[m].share && !isnan(p->value[m]))
            snprintf(said + strlen(said), sizeof said - strlen(said), "%s%s %.2f %%",
                     *said ? ", " : "", number[m].name, 100 * p->value[m]);
    if (!isnan(p->value[STET_SWEEP_GBM]))
        snprintf(said + strlen(said), sizeof said - strlen(said), ", sum of M %.4g",
                 p->value[STET_SWEEP_GBM]);
    cli_note("%s: %s (%zu of %zu)", p->dir, said, p->done, p->n);
}

/* ---- a table ------------------------------------------------------------------------------ */

/* "88.12 ± 0.10", into a rotating buffer. */
static const char *number_of(const stet_sweep_cell *c, int m)
{
    return isnan(c->mean[m])                ? "-"
           : !stet_sweep_numbers()[m].share ? cli_fmt("%.5g", c->mean[m])
           : c->seeds > 1 ? cli_fmt("%.2f ± %.2f", 100 * c->mean[m], 100 * c->spread[m])
                          : cli_fmt("%.2f", 100 * c->mean[m]);
}

static const char *heading(const sweep_cfg *cfg, int m)
{
    return cfg->blocks && m == STET_SWEEP_SAMPLE ? "clean %" : stet_sweep_numbers()[m].heading;
}

/* One row of settings and what was measured; without `c`, the heading. */
static void add_row(cli_table *t, const sweep_cfg *cfg, const stet_sweep_result *r,
                    const bool *measured, const stet_sweep_cell *c, const char *mark)
{
    const char *column[64];
    size_t n = 0;
    for (size_t x = 0; x < r->n_axes; x++)
        column[n++] = c ? c->value[x] : r->axis_name[x];
    column[n++] = c ? cli_fmt("%zu", c->seeds) : "seeds";
    for (int m = 0; m < STET_SWEEP_MEASURES; m++)
        if (measured[m])
            column[n++] = c ? number_of(c, m) : heading(cfg, m);
    if (mark)
        column[n++] = mark;
    cli_row_of(t, column, n);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_t *real_or_null(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

/* A number where it is one. */
static json_t *value_json(const char *text)
{
    char *end;
    const double v = strtod(text, &end);
    return *end || !isfinite(v) ? cli_json_string(text) : json_real(v);
}

static json_t *cell_json(const sweep_cfg *cfg, const stet_sweep_result *r, const stet_sweep_cell *c)
{
    static const char *const named[] = {"smooth", "kappa", "beta"};
    json_t *o = cli_json_start(&cmd_sweep, cfg);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        json_object_set_new(o, named[i], json_null()); /* unless it is swept over */
    for (size_t x = 0; x < r->n_axes; x++)
        json_object_set_new(o, r->axis[x], value_json(c->value[x]));
    json_object_set_new(o, "seeds", json_integer((json_int_t)c->seeds));
    for (int m = 0; m < STET_SWEEP_MEASURES; m++) {
        char key[48];
        snprintf(key, sizeof key, "%s_spread", stet_sweep_numbers()[m].key);
        json_object_set_new(o, stet_sweep_numbers()[m].key, real_or_null(c->mean[m]));
        json_object_set_new(o, key, real_or_null(c->spread[m]));
    }
    return o;
}

/* ---- both --------------------------------------------------------------------------------- */

stet_status sweep_show_cells(const sweep_cfg *cfg, const stet_sweep_result *r)
{
    stet_status st = STET_OK;
    cli_table t = {0};
    add_row(&t, cfg, r, r->measured, NULL, cfg->blocks ? "frontier" : NULL);
    for (size_t i = 0; st == STET_OK && i < r->n_cells; i++) {
        const stet_sweep_cell *c = &r->cell[i];
        add_row(&t, cfg, r, r->measured, c, !cfg->blocks ? NULL : c->chosen ? "*" : "");
        if (!cfg->common.json)
            continue;
        json_t *o = cell_json(cfg, r, c);
        if (cfg->blocks) {
            json_object_set_new(o, "measured_on", json_string("blocks"));
            json_object_set_new(o, "frontier", json_boolean(c->chosen));
        }
        st = cli_json_print(o);
    }
    if (cfg->common.json)
        cli_table_drop(&t);
    else
        cli_table_print(&t);
    return st;
}

stet_status sweep_show_final(const sweep_cfg *cfg, const stet_sweep_result *r)
{
    stet_status st = STET_OK;
    cli_table t = {0};
    add_row(&t, cfg, r, r->measured_final, NULL, NULL);
    for (size_t k = 0; st == STET_OK && k < r->n_final; k++) {
        add_row(&t, cfg, r, r->measured_final, &r->final[k], NULL);
        if (cfg->common.json) {
            json_t *o = cell_json(cfg, r, &r->final[k]);
            json_object_set_new(o, "measured_on", json_string("test"));
            st = cli_json_print(o);
        }
    }
    if (cfg->common.json) {
        cli_table_drop(&t);
        return st;
    }
    printf("\nthe frontier, trained on all texts and measured on %s:\n", cfg->test);
    cli_table_print(&t);
    return st;
}
