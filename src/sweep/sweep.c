/* sweep/sweep.c - see stet/sweep.h: the whole sweep, from its arguments to its result. */
#include <string.h>

#include "base/args.h"
#include "base/file.h"
#include "stet/attack.h"
#include "sweep/sweep_impl.h"

/* What a result points into. */
struct stet_sweep_store {
    sweep_grid grid;
    sweep_block blocks[SWEEP_MOST];
    const char *axis[SWEEP_AXES], *axis_name[SWEEP_AXES];
    size_t at[SWEEP_AXES]; /* which axes of the grid these are */
    const char **value;    /* (cells and final ones, n_axes) */
    size_t n_values;
};

void stet_sweep_args_init(stet_sweep_args *a, size_t size)
{
    const stet_sweep_args defaults = STET_SWEEP_DEFAULTS;
    args_init(a, size, &defaults, sizeof defaults);
}

/* Every mistake is told before the first run starts. */
static stet_status check(const stet_sweep_args *a)
{
    if (!a->out)
        return error_set(STET_EUSAGE, "expected -o DIR");
    if (!a->betas && !a->kappas && !a->smooths && !a->n_over)
        return error_set(STET_EUSAGE, "expected --betas, --kappas, --smooths or --over: something "
                                      "to sweep over");
    if (!a->seeds)
        return error_set(STET_EUSAGE, "expected --seeds");
    if (a->jobs < 1 || a->jobs > 1024)
        return error_set(STET_EUSAGE, "--jobs %zu: expected a number from 1 to 1024", a->jobs);
    if (a->blocks > SWEEP_MOST)
        return error_set(STET_EUSAGE, "--blocks %zu: expected at most %d", a->blocks, SWEEP_MOST);
    if (!a->blocks && (a->attack || a->certify) && !(a->test && a->synonyms))
        return error_set(STET_EUSAGE, "--attack and --certify need --test FILE and --synonyms SET");
    if (!a->blocks && !a->attack && !a->certify && (a->limit || a->synonyms))
        return error_set(
            STET_EUSAGE,
            "--limit and --synonyms go with --attack or --certify; what training needs "
            "comes after --");
    return a->attack ? stet_attack_settings(a->attack, "openattack", NULL, NULL, NULL) : STET_OK;
}

/* ---- the result --------------------------------------------------------------------------- */

static void note_measured(const sweep *s, bool measured[STET_SWEEP_MEASURES])
{
    static const sweep_stage stage[STET_SWEEP_MEASURES] = {
        SWEEP_TRAIN,   SWEEP_EVAL,    SWEEP_ATTACK,  SWEEP_ATTACK,
        SWEEP_CERTIFY, SWEEP_INSPECT, SWEEP_INSPECT, SWEEP_INSPECT};
    for (size_t i = 0; i < s->n; i++)
        for (int m = 0; m < STET_SWEEP_MEASURES; m++)
            measured[m] |= sweep_wants(s, &s->point[i], stage[m]);
    measured[STET_SWEEP_SAMPLE] |= s->certify;
    if (s->frontier) /* validation texts and the block are the same */
        measured[STET_SWEEP_VALID] = false;
}

static stet_status result_start(sweep_grid *g, stet_sweep_result *out)
{
    struct stet_sweep_store *store = out->store;
    for (size_t x = 0; x < SWEEP_SEED; x++)
        if (g->axis[x].v[0]) {
            store->axis[out->n_axes] = g->def[x].key;
            store->axis_name[out->n_axes] = g->def[x].name;
            store->at[out->n_axes++] = x;
        }
    out->axis = store->axis;
    out->axis_name = store->axis_name;
    out->cell = mem_zalloc(2 * g->cells, sizeof *out->cell);
    store->value = mem_zalloc(2 * g->cells * out->n_axes, sizeof *store->value);
    return out->cell && store->value ? STET_OK : STET_ENOMEM;
}

static void result_cell(stet_sweep_result *out, const sweep_point *first, size_t seeds,
                        size_t blocks, bool chosen, stet_sweep_cell *cell)
{
    struct stet_sweep_store *store = out->store;
    const char **value = store->value + store->n_values;
    for (size_t k = 0; k < out->n_axes; k++)
        value[k] = first->value[store->at[k]];
    store->n_values += out->n_axes;
    cell->value = value;
    cell->chosen = chosen;
    sweep_cell_of(first, seeds, blocks, cell);
}

void stet_sweep_result_deinit(stet_sweep_result *r)
{
    if (r->store) {
        sweep_points_free(r->store->grid.point, r->store->grid.n);
        mem_free(r->store->value);
    }
    mem_free(r->store);
    mem_free(r->cell);
    *r = (stet_sweep_result){0};
}

/* ---- the frontier ------------------------------------------------------------------------- */

static stet_status check_points(const sweep *s)
{
    for (size_t i = 0; i < s->n; i++)
        TRY(sweep_point_check(s, &s->point[i]));
    return STET_OK;
}

/* The chosen settings, trained on all texts and measured on the test texts. */
static stet_status run_final(const sweep *final, size_t n, stet_sweep_result *out)
{
    const size_t seeds = final->g->axis[SWEEP_SEED].n;
    TRY(check_points(final));
    TRY(sweep_run(final));
    note_measured(final, out->measured_final);
    out->points = final->n;
    out->failed = sweep_failed(final);
    out->final = out->cell + out->n_cells;
    out->n_final = n;
    for (size_t k = 0; k < n; k++)
        result_cell(out, &final->point[k * seeds], seeds, 1, true, &out->final[k]);
    return STET_OK;
}

static stet_status choose(const sweep *s, const sweep_block *blocks, size_t *chosen,
                          stet_sweep_result *out)
{
    size_t n;
    sweep final = *s;
    TRY(sweep_frontier(s->g, chosen, &n));
    for (size_t k = 0; k < n; k++)
        out->cell[chosen[k]].chosen = true;
    TRY(sweep_final_points(s->g, s->a.out, chosen, n, &final.point));
    final.n = n * s->g->axis[SWEEP_SEED].n;
    stet_status st = sweep_frontier_script(s->g, &final, blocks, chosen, n);
    if (st == STET_OK && s->a.test)
        st = run_final(&final, n, out);
    if (st == STET_OK)
        st = sweep_frontier_plot(s->g, &final, chosen, n);
    sweep_points_free(final.point, final.n);
    return st;
}

/* ---- running ------------------------------------------------------------------------------ */

/* Every point gets its block; sets are those of training unless others are named. `words` are the
 * options of training alone. */
static stet_status hold_out(sweep *s, const json_t *train, sweep_block *blocks)
{
    TRY(sweep_blocks_cut(train, &s->a, blocks));
    for (size_t i = 0; i < s->n; i++) {
        const sweep_block *b = &blocks[i % s->a.blocks];
        s->point[i].held_out = b->held_out;
        s->point[i].rest = b->rest;
    }
    return STET_OK;
}

static stet_status run_grid(sweep *s, stet_sweep_result *out)
{
    const sweep_grid *g = s->g;
    TRY(check_points(s));
    TRY(sweep_run(s));
    note_measured(s, out->measured);
    out->points = s->n;
    out->failed = sweep_failed(s);
    out->n_cells = g->cells;
    for (size_t i = 0; i < g->cells; i++)
        result_cell(out, sweep_point_of(g, i), g->axis[SWEEP_SEED].n, g->axis[SWEEP_BLOCK].n, false,
                    &out->cell[i]);
    if (!s->a.blocks)
        return sweep_plots(s);
    if (out->failed) /* a choice needs all of them */
        return STET_OK;
    size_t *chosen = mem_alloc(g->cells, sizeof *chosen);
    const stet_status st = chosen ? choose(s, out->store->blocks, chosen, out) : STET_ENOMEM;
    mem_free(chosen);
    return st;
}

static stet_status run_with(sweep *s, const json_t *train, stet_sweep_result *out)
{
    sweep_files files;
    if (s->a.blocks && !s->a.synonyms)
        s->a.synonyms = json_string_value(json_object_get(train, "synonyms"));
    if (s->a.blocks && !s->a.synonyms)
        return error_set(STET_EUSAGE, "--blocks needs --synonyms SET, here or among the options of "
                                      "training");
    TRY(dir_make(s->a.out));
    if (s->a.blocks)
        TRY(hold_out(s, train, out->store->blocks));
    TRY(sweep_files_init(&files, s->a.synonyms));
    s->files = &files;
    const stet_status st = run_grid(s, out);
    sweep_files_deinit(&files);
    return st;
}

static stet_status run(const stet_sweep_args *a, stet_sweep_result *out)
{
    sweep_grid *g = &out->store->grid;
    json_t *train = NULL;
    sweep_line line;
    TRY(sweep_grid_make(a, g));
    TRY(result_start(g, out));
    sweep s = {.a = *a,
               .g = g,
               .point = g->point,
               .n = g->n,
               .certify = a->certify || a->blocks,
               .frontier = a->blocks > 0};
    if (a->blocks) {
        TRY(sweep_line_read(a->train, a->n_train, &line));
        TRY(sweep_line_json(&line, &train));
    }
    const stet_status st = run_with(&s, train, out);
    json_decref(train);
    return st;
}

stet_status stet_sweep(const stet_sweep_args *given, stet_sweep_result *out)
{
    stet_sweep_args a = STET_SWEEP_DEFAULTS;
    *out = (stet_sweep_result){0};
    json_guard();
    TRY(ARGS_TAKE(&a, given));
    TRY(check(&a));
    out->store = mem_zalloc(1, sizeof *out->store);
    const stet_status st = out->store ? run(&a, out) : STET_ENOMEM;
    if (st != STET_OK)
        stet_sweep_result_deinit(out);
    return st;
}
