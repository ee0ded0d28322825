/* cli/sweep_grid.c - see sweep_grid.h. */
#include "cli/sweep_grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "stet/sweep.h"

/* ---- the grid ----------------------------------------------------------------------------- */

static const sweep_axis named_axes[SWEEP_AXES] = {
    [SWEEP_SMOOTH] = {"smooths", "smooth", "lambda", NULL},
    [SWEEP_KAPPA] = {"kappas", "kappa", "kappa", "certified"},
    [SWEEP_BETA] = {"betas", "beta", "beta", "gbm"},
    [SWEEP_SEED] = {"seeds", "seed", "seed", NULL},
    [SWEEP_BLOCK] = {"blocks", "block", "block", NULL},
};

static bool is_number(const char *text)
{
    char *end;
    const double v = strtod(text, &end);
    return end != text && !*end && v >= 0 && isfinite(v);
}

/* "0,1e-4" as texts. Without a list there is one value, NULL. */
static stet_status parse(const char *name, const char *text, bool numbers, sweep_list *out)
{
    *out = (sweep_list){.n = 1};
    if (!text)
        return STET_OK;
    if (strlen(text) >= sizeof out->text)
        return cli_usage("--%s: the list is too long", name);
    snprintf(out->text, sizeof out->text, "%s", text);
    out->n = 0;
    char *rest = out->text;
    for (char *item; (item = strsep(&rest, ","));) {
        if (numbers && !is_number(item))
            return cli_usage("--%s %s: expected numbers of at least 0 with commas between", name,
                             text);
        if (!*item || strchr(item, '/'))
            return cli_usage("--%s %s: expected values with commas between, none of them empty or "
                             "a path: they name folders",
                             name, text);
        if (out->n == SWEEP_MOST)
            return cli_usage("--%s: at most %d values", name, SWEEP_MOST);
        out->v[out->n++] = item;
    }
    return STET_OK;
}

/* Options that a point's folder, its seed, its data and the other axes decide. */
static bool is_taken(const char *key)
{
    static const char *const names[] = {"out", "resume", "data", "valid", NULL};
    for (const char *const *n = names; *n; n++)
        if (strcmp(key, *n) == 0)
            return true;
    for (size_t x = 0; x < SWEEP_AXES; x++)
        if (named_axes[x].key && strcmp(key, named_axes[x].key) == 0)
            return true;
    return false;
}

/* "tune-vectors=1e-4,2e-4" */
static stet_status parse_over(const stet_strings *over, sweep_grid *g)
{
    if (over->n > SWEEP_MOST_OVER)
        return cli_usage("--over: at most %d times", SWEEP_MOST_OVER);
    for (size_t k = 0; k < SWEEP_MOST_OVER; k++) {
        const char *text = k < over->n ? over->v[k] : NULL, *equals = text ? strchr(text, '=') : NULL;
        const size_t len = equals ? (size_t)(equals - text) : 0;
        if (text && (!len || len >= sizeof g->over[k]))
            return cli_usage("--over %s: expected NAME=VALUE,VALUE,... where NAME is an option of "
                             "stet train",
                             text);
        snprintf(g->over[k], sizeof g->over[k], "%.*s", (int)len, text ? text : "");
        if (is_taken(g->over[k]))
            return cli_usage("--over %s: --%s is not swept over this way", text, g->over[k]);
        g->def[SWEEP_OVER + k] = (sweep_axis){"over", g->over[k], g->over[k], NULL};
        const stet_status st =
            parse("over", text ? equals + 1 : NULL, false, &g->axis[SWEEP_OVER + k]);
        if (st != STET_OK)
            return st;
    }
    return STET_OK;
}

stet_status sweep_name_point(const sweep_grid *g, const char *out, sweep_point *p)
{
    size_t at = (size_t)snprintf(p->dir, sizeof p->dir, "%s", out);
    const char *before = "/";
    for (size_t x = 0; x < SWEEP_AXES && at < sizeof p->dir; x++)
        if (p->value[x]) {
            at += (size_t)snprintf(p->dir + at, sizeof p->dir - at, "%s%s-%s", before, g->def[x].key,
                                   p->value[x]);
            before = "_";
        }
    return at < sizeof p->dir ? STET_OK : cli_usage("-o %s: the name is too long", out);
}

stet_status sweep_grid_make(const char *out, const char *const values[SWEEP_AXES],
                            const stet_strings *over, size_t blocks, sweep_grid *g)
{
    char numbers[SWEEP_MOST * 4] = "";
    for (size_t b = 1; b <= blocks && b <= SWEEP_MOST; b++)
        snprintf(numbers + strlen(numbers), sizeof numbers - strlen(numbers), "%s%zu",
                 b > 1 ? "," : "", b);
    memcpy(g->def, named_axes, sizeof g->def);
    stet_status st = parse_over(over, g);
    g->n = 1;
    for (size_t x = 0; st == STET_OK && x < SWEEP_AXES; x++) {
        if (x < SWEEP_OVER || x >= SWEEP_SEED)
            st = parse(g->def[x].option,
                       x != SWEEP_BLOCK ? values[x]
                       : blocks         ? numbers
                                        : NULL,
                       true, &g->axis[x]);
        g->n *= g->axis[x].n;
    }
    if (st != STET_OK)
        return st;
    g->point = calloc(g->n, sizeof *g->point);
    if (!g->point)
        return cli_fail(STET_ENOMEM, "out of memory");
    g->per_cell = g->axis[SWEEP_SEED].n * g->axis[SWEEP_BLOCK].n;
    g->cells = g->n / g->per_cell;
    for (size_t i = 0; st == STET_OK && i < g->n; i++) {
        size_t rest = i;
        for (size_t x = SWEEP_AXES; x-- > 0; rest /= g->axis[x].n)
            g->point[i].value[x] = g->axis[x].v[rest % g->axis[x].n];
        st = sweep_name_point(g, out, &g->point[i]);
    }
    return st;
}

void sweep_grid_free(sweep_grid *g)
{
    free(g->point);
    g->point = NULL;
}

const sweep_point *sweep_point_of(const sweep_grid *g, size_t cell)
{
    return &g->point[cell * g->per_cell];
}

void sweep_cell_name(const sweep_grid *g, size_t cell, size_t end, char *out, size_t size)
{
    size_t at = 0;
    *out = '\0';
    for (size_t x = 0; x < end && at < size; x++)
        if (sweep_point_of(g, cell)->value[x])
            at += (size_t)snprintf(out + at, size - at, "%s%s %s", at ? ", " : "", g->def[x].name,
                                   sweep_point_of(g, cell)->value[x]);
}

/* ---- results ------------------------------------------------------------------------------ */

const sweep_measured sweep_measures[SWEEP_MEASURES] = {
    [SWEEP_VALID] = {SWEEP_TRAIN, "training", "valid_accuracy", "valid_accuracy", "validation %",
                     "validation", true},
    [SWEEP_TEST] = {SWEEP_EVAL, NULL, "accuracy", "accuracy", "test %", "test", true},
    [SWEEP_SAMPLE] = {SWEEP_ATTACK, NULL, "clean", "sample_accuracy", "sample %", "clean", true},
    [SWEEP_AUA] = {SWEEP_ATTACK, NULL, "aua", "aua", "AUA %", "under attack", true},
    [SWEEP_CERTIFIED] = {SWEEP_CERTIFY, NULL, "certified", "certified", "certified %", "certified",
                         true},
    [SWEEP_GBM] = {SWEEP_INSPECT, NULL, "gbm_sum", "gbm_sum", "sum of M", "layer", false},
    [SWEEP_LOGITS] = {SWEEP_INSPECT, NULL, "gbm_logits", "gbm_logits", "logits", "logits", false},
    [SWEEP_LIPSCHITZ] = {SWEEP_INSPECT, "lipschitz", "inf_inf", "lipschitz", "Lipschitz",
                         "Lipschitz", false},
};

double sweep_value(const sweep_point *p, sweep_measure m)
{
    const sweep_measured *w = &sweep_measures[m];
    const json_t *o = p->record[w->stage];
    if (m == SWEEP_SAMPLE && !o) /* not attacked, but certified */
        o = p->record[SWEEP_CERTIFY];
    const json_t *v = json_object_get(w->part ? json_object_get(o, w->part) : o, w->field);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

/* The mean over the blocks of one seed. */
static double value_of_seed(const sweep_point *p, size_t blocks, sweep_measure m)
{
    double sum = 0;
    for (size_t b = 0; b < blocks; b++)
        sum += sweep_value(&p[b], m);
    return sum / (double)blocks;
}

static bool all_done(const sweep_point *p, size_t blocks)
{
    for (size_t b = 0; b < blocks; b++)
        if (p[b].stage != SWEEP_DONE)
            return false;
    return true;
}

sweep_cell sweep_cell_of(const sweep_point *p, size_t seeds, size_t blocks)
{
    sweep_cell c = {0};
    const sweep_point *done[SWEEP_MOST];
    for (size_t k = 0; k < seeds; k++)
        if (all_done(p + k * blocks, blocks))
            done[c.seeds++] = p + k * blocks;
    for (sweep_measure m = 0; m < SWEEP_MEASURES; m++) {
        double value[SWEEP_MOST];
        for (size_t k = 0; k < c.seeds; k++)
            value[k] = value_of_seed(done[k], blocks, m);
        stet_mean_spread(value, c.seeds, &c.mean[m], &c.spread[m]);
    }
    return c;
}

sweep_cell sweep_cell_at(const sweep_grid *g, size_t cell)
{
    return sweep_cell_of(sweep_point_of(g, cell), g->axis[SWEEP_SEED].n, g->axis[SWEEP_BLOCK].n);
}

const char *sweep_number(const sweep_cell *c, sweep_measure m)
{
    return isnan(c->mean[m])          ? "-"
           : !sweep_measures[m].share ? cli_fmt("%.5g", c->mean[m])
           : c->seeds > 1 ? cli_fmt("%.2f ± %.2f", 100 * c->mean[m], 100 * c->spread[m])
                          : cli_fmt("%.2f", 100 * c->mean[m]);
}
