/* sweep/sweep_grid.c - see sweep_impl.h: the points, and the means of their cells. */
#include "sweep/sweep_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
        return error_set(STET_EUSAGE, "--%s: the list is too long", name);
    snprintf(out->text, sizeof out->text, "%s", text);
    out->n = 0;
    char *rest = out->text;
    for (char *item; (item = strsep(&rest, ","));) {
        if (numbers && !is_number(item))
            return error_set(STET_EUSAGE,
                             "--%s %s: expected numbers of at least 0 with commas between", name,
                             text);
        if (!*item || strchr(item, '/'))
            return error_set(STET_EUSAGE,
                             "--%s %s: expected values with commas between, none of them empty or "
                             "a path: they name folders",
                             name, text);
        if (out->n == SWEEP_MOST)
            return error_set(STET_EUSAGE, "--%s: at most %d values", name, SWEEP_MOST);
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
static stet_status parse_over(const stet_sweep_args *a, sweep_grid *g)
{
    if (a->n_over > SWEEP_MOST_OVER)
        return error_set(STET_EUSAGE, "--over: at most %d times", SWEEP_MOST_OVER);
    for (size_t k = 0; k < SWEEP_MOST_OVER; k++) {
        const char *text = k < a->n_over ? a->over[k] : NULL,
                   *equals = text ? strchr(text, '=') : NULL;
        const size_t len = equals ? (size_t)(equals - text) : 0;
        if (text && (!len || len >= sizeof g->over[k]))
            return error_set(STET_EUSAGE,
                             "--over %s: expected NAME=VALUE,VALUE,... where NAME is an option of "
                             "stet train",
                             text);
        snprintf(g->over[k], sizeof g->over[k], "%.*s", (int)len, text ? text : "");
        if (is_taken(g->over[k]))
            return error_set(STET_EUSAGE, "--over %s: --%s is not swept over this way", text,
                             g->over[k]);
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
            at += (size_t)snprintf(p->dir + at, sizeof p->dir - at, "%s%s-%s", before,
                                   g->def[x].key, p->value[x]);
            before = "_";
        }
    return at < sizeof p->dir ? STET_OK
                              : error_set(STET_EUSAGE, "-o %s: the name is too long", out);
}

/* The list of an axis that has an option of its own; "1,2,3" for blocks. */
static const char *values_of(const stet_sweep_args *a, size_t x, const char *blocks)
{
    return x == SWEEP_SMOOTH  ? a->smooths
           : x == SWEEP_KAPPA ? a->kappas
           : x == SWEEP_BETA  ? a->betas
           : x == SWEEP_SEED  ? a->seeds
           : a->blocks        ? blocks
                              : NULL;
}

static stet_status parse_axes(const stet_sweep_args *a, sweep_grid *g)
{
    char blocks[SWEEP_MOST * 4] = "";
    for (size_t b = 1; b <= a->blocks && b <= SWEEP_MOST; b++)
        snprintf(blocks + strlen(blocks), sizeof blocks - strlen(blocks), "%s%zu", b > 1 ? "," : "",
                 b);
    memcpy(g->def, named_axes, sizeof g->def);
    TRY(parse_over(a, g));
    g->n = 1;
    for (size_t x = 0; x < SWEEP_AXES; x++) {
        if (x < SWEEP_OVER || x >= SWEEP_SEED)
            TRY(parse(g->def[x].option, values_of(a, x, blocks), true, &g->axis[x]));
        snprintf(g->flag[x], sizeof g->flag[x], "--%s", g->def[x].key);
        g->n *= g->axis[x].n;
    }
    return STET_OK;
}

stet_status sweep_grid_make(const stet_sweep_args *a, sweep_grid *g)
{
    TRY(parse_axes(a, g));
    g->per_cell = g->axis[SWEEP_SEED].n * g->axis[SWEEP_BLOCK].n;
    g->cells = g->n / g->per_cell;
    g->point = mem_zalloc(g->n, sizeof *g->point);
    if (!g->point)
        return STET_ENOMEM;
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < g->n; i++) {
        size_t rest = i;
        for (size_t x = SWEEP_AXES; x-- > 0; rest /= g->axis[x].n)
            g->point[i].value[x] = g->axis[x].v[rest % g->axis[x].n];
        st = sweep_name_point(g, a->out, &g->point[i]);
    }
    return st;
}

void sweep_points_free(sweep_point *p, size_t n)
{
    for (size_t i = 0; p && i < n; i++)
        for (size_t k = 0; k < SWEEP_DONE; k++)
            json_decref(p[i].record[k]);
    mem_free(p);
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

/* Where a number is found among a point's records. */
static const struct {
    sweep_stage stage;
    const char *part, *field; /* of the record; part NULL: the record itself */
} place[STET_SWEEP_MEASURES] = {
    [STET_SWEEP_VALID] = {SWEEP_TRAIN, "training", "valid_accuracy"},
    [STET_SWEEP_TEST] = {SWEEP_EVAL, NULL, "accuracy"},
    [STET_SWEEP_SAMPLE] = {SWEEP_ATTACK, NULL, "clean"},
    [STET_SWEEP_AUA] = {SWEEP_ATTACK, NULL, "aua"},
    [STET_SWEEP_CERTIFIED] = {SWEEP_CERTIFY, NULL, "certified"},
    [STET_SWEEP_GBM] = {SWEEP_INSPECT, NULL, "gbm_sum"},
    [STET_SWEEP_LOGITS] = {SWEEP_INSPECT, NULL, "gbm_logits"},
    [STET_SWEEP_LIPSCHITZ] = {SWEEP_INSPECT, "lipschitz", "inf_inf"},
};

const stet_sweep_number *stet_sweep_numbers(void)
{
    static const stet_sweep_number numbers[STET_SWEEP_MEASURES] = {
        [STET_SWEEP_VALID] = {"valid_accuracy", "validation %", "validation", true},
        [STET_SWEEP_TEST] = {"accuracy", "test %", "test", true},
        [STET_SWEEP_SAMPLE] = {"sample_accuracy", "sample %", "clean", true},
        [STET_SWEEP_AUA] = {"aua", "AUA %", "under attack", true},
        [STET_SWEEP_CERTIFIED] = {"certified", "certified %", "certified", true},
        [STET_SWEEP_GBM] = {"gbm_sum", "sum of M", "layer", false},
        [STET_SWEEP_LOGITS] = {"gbm_logits", "logits", "logits", false},
        [STET_SWEEP_LIPSCHITZ] = {"lipschitz", "Lipschitz", "Lipschitz", false},
    };
    return numbers;
}

double sweep_value(const sweep_point *p, stet_sweep_measure m)
{
    const json_t *o = p->record[place[m].stage];
    if (m == STET_SWEEP_SAMPLE && !o) /* not attacked, but certified */
        o = p->record[SWEEP_CERTIFY];
    const json_t *v =
        json_object_get(place[m].part ? json_object_get(o, place[m].part) : o, place[m].field);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

/* The mean over the blocks of one seed. */
static double value_of_seed(const sweep_point *p, size_t blocks, stet_sweep_measure m)
{
    double sum = 0;
    for (size_t b = 0; b < blocks; b++)
        sum += sweep_value(&p[b], m);
    return sum / (double)blocks;
}

static bool all_done(const sweep_point *p, size_t blocks)
{
    for (size_t b = 0; b < blocks; b++)
        if (!p[b].done)
            return false;
    return true;
}

void sweep_cell_of(const sweep_point *p, size_t seeds, size_t blocks, stet_sweep_cell *out)
{
    const sweep_point *done[SWEEP_MOST];
    out->seeds = 0;
    for (size_t k = 0; k < seeds; k++)
        if (all_done(p + k * blocks, blocks))
            done[out->seeds++] = p + k * blocks;
    for (int m = 0; m < STET_SWEEP_MEASURES; m++) {
        double value[SWEEP_MOST];
        for (size_t k = 0; k < out->seeds; k++)
            value[k] = value_of_seed(done[k], blocks, (stet_sweep_measure)m);
        stet_mean_spread(value, out->seeds, &out->mean[m], &out->spread[m]);
    }
}

void sweep_cell_at(const sweep_grid *g, size_t cell, stet_sweep_cell *out)
{
    sweep_cell_of(sweep_point_of(g, cell), g->axis[SWEEP_SEED].n, g->axis[SWEEP_BLOCK].n, out);
}

const char *sweep_number(const stet_sweep_cell *c, stet_sweep_measure m, char out[SWEEP_NUMBER])
{
    if (isnan(c->mean[m]))
        return "-";
    if (c->seeds > 1)
        snprintf(out, SWEEP_NUMBER, "%.2f ± %.2f", 100 * c->mean[m], 100 * c->spread[m]);
    else
        snprintf(out, SWEEP_NUMBER, "%.2f", 100 * c->mean[m]);
    return out;
}
