/* cli/sweep_frontier.c - see sweep_frontier.h: choosing, and what is written about the choice. */
#include "cli/sweep_frontier.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stet/plot.h"
#include "stet/sweep.h"

/* ---- choosing ----------------------------------------------------------------------------- */

size_t sweep_frontier(const sweep_grid *g, size_t *chosen)
{
    double *clean = malloc(2 * g->cells * sizeof *clean + 1), *certified = clean + g->cells;
    if (!clean)
        cli_no_memory();
    for (size_t i = 0; i < g->cells; i++) {
        const sweep_cell c = sweep_cell_at(g, i);
        clean[i] = c.mean[SWEEP_SAMPLE];
        certified[i] = c.mean[SWEEP_CERTIFIED];
    }
    const size_t n = stet_frontier(clean, certified, g->cells, chosen);
    free(clean);
    return n;
}

stet_status sweep_final_points(const sweep_grid *g, const char *out, const size_t *chosen, size_t n,
                               sweep_point **points)
{
    const size_t seeds = g->axis[SWEEP_SEED].n;
    char dir[1024];
    snprintf(dir, sizeof dir, "%s/final", out);
    *points = calloc(n * seeds + 1, sizeof **points);
    if (!*points)
        cli_no_memory();
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < n * seeds; i++) {
        sweep_point *p = &(*points)[i];
        memcpy(p->value, sweep_point_of(g, chosen[i / seeds])->value, sizeof p->value);
        p->value[SWEEP_SEED] = g->axis[SWEEP_SEED].v[i % seeds];
        p->value[SWEEP_BLOCK] = NULL;
        st = sweep_name_point(g, dir, p);
    }
    return st;
}

/* ---- the script --------------------------------------------------------------------------- */

/* As a shell reads it back. */
static void put_word(FILE *f, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./,:=+@%";
    if (*word && strspn(word, plain) == strlen(word)) {
        fprintf(f, " %s", word);
        return;
    }
    fputs(" '", f);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", f);
        else
            fputc(*word, f);
    fputc('\'', f);
}

static void put_train(FILE *f, const cli_stage *s)
{
    fprintf(f, "stet %s", s->cmd->name);
    for (size_t i = 0; i < s->n_args; i++)
        put_word(f, s->arg[i]);
    fputc('\n', f);
}

static void put_certify(FILE *f, const sweep *final, const sweep_point *p)
{
    fputs("[ -z \"$1\" ] || stet certify", f);
    put_word(f, p->dir);
    fputs(" --data \"$1\" --synonyms", f);
    put_word(f, final->source.synonyms);
    fputc('\n', f);
}

static void put_script(FILE *f, const sweep_grid *g, const sweep *final, const sweep_block *blocks,
                       const size_t *chosen, size_t n)
{
    const size_t seeds = g->axis[SWEEP_SEED].n;
    fprintf(f,
            "#!/bin/sh\n"
            "# Settings that no other beats in both clean and certified accuracy, chosen on %zu "
            "block%s of %zu\n# consecutive training texts; accuracies are means over %zu seed%s, ± "
            "their deviation.\n"
            "#     sh frontier.sh [TEST]\n"
            "# trains each on all texts and certifies TEST. Run it where the sweep ran.\n",
            g->axis[SWEEP_BLOCK].n, g->axis[SWEEP_BLOCK].n > 1 ? "s" : "", blocks[0].texts, seeds,
            seeds > 1 ? "s" : "");
    for (size_t k = 0; k < n; k++) {
        char name[512];
        const sweep_cell c = sweep_cell_at(g, chosen[k]);
        sweep_cell_name(g, chosen[k], SWEEP_SEED, name, sizeof name);
        fprintf(f, "\n# %s: clean %s %%, certified %s %%\n", name, sweep_number(&c, SWEEP_SAMPLE),
                sweep_number(&c, SWEEP_CERTIFIED));
        for (size_t i = k * seeds; i < (k + 1) * seeds; i++) {
            put_train(f, &final->cells.v[i]->stage[0]);
            put_certify(f, final, &final->point[i]);
        }
    }
}

stet_status sweep_frontier_script(const sweep_grid *g, const sweep *final, const char *out,
                                  const sweep_block *blocks, const size_t *chosen, size_t n)
{
    char path[1100], part[1120];
    snprintf(path, sizeof path, "%s/frontier.sh", out);
    snprintf(part, sizeof part, "%s.part", path);
    FILE *f = fopen(part, "w");
    if (!f)
        return cli_fail(STET_EIO, "%s: %s", part, strerror(errno));
    put_script(f, g, final, blocks, chosen, n);
    const bool failed = ferror(f);
    if (fclose(f) == 0 && !failed && rename(part, path) == 0)
        return STET_OK;
    const stet_status st = cli_fail(STET_EIO, "%s: %s", path, strerror(errno));
    remove(part);
    return st;
}

/* ---- the plot ----------------------------------------------------------------------------- */

/* A place for every cell, and one that is not a number after it where points stand alone. */
typedef struct dots {
    double *x, *y, *spread;
    size_t n;
} dots;

static dots dots_new(size_t most)
{
    dots d = {malloc(2 * most * sizeof *d.x + 1), malloc(2 * most * sizeof *d.y + 1),
              malloc(2 * most * sizeof *d.spread + 1), 0};
    if (!d.x || !d.y || !d.spread)
        cli_no_memory();
    return d;
}

static void dots_add(dots *d, const sweep_cell *c, bool alone)
{
    d->x[d->n] = 100 * c->mean[SWEEP_SAMPLE];
    d->y[d->n] = 100 * c->mean[SWEEP_CERTIFIED];
    d->spread[d->n++] = 100 * c->spread[SWEEP_CERTIFIED];
    if (alone)
        d->x[d->n] = d->y[d->n] = d->spread[d->n] = NAN, d->n++;
}

static void dots_draw(dots *d, stet_plot *p, const char *name)
{
    if (d->n)
        stet_plot_line(p, name, d->x, d->y, d->spread, d->n);
    free(d->x);
    free(d->y);
    free(d->spread);
}

stet_status sweep_frontier_plot(const sweep_grid *g, const sweep *final, const char *out,
                                const size_t *chosen, size_t n)
{
    const size_t seeds = g->axis[SWEEP_SEED].n;
    stet_plot *p;
    stet_status st = stet_plot_new(&(stet_plot_options){.title = "Certified against clean accuracy",
                                                        .x_label = "clean accuracy (%)",
                                                        .y_label = "certified accuracy (%)"},
                                   &p);
    if (st != STET_OK)
        return st;
    dots front = dots_new(g->cells), others = dots_new(g->cells), test = dots_new(g->cells);
    for (size_t k = 0; k < n; k++) {
        const sweep_cell block = sweep_cell_at(g, chosen[k]),
                         here = sweep_cell_of(&final->point[k * seeds], seeds, 1);
        dots_add(&front, &block, false);
        if (here.seeds)
            dots_add(&test, &here, false);
    }
    for (size_t i = 0; i < g->cells; i++) {
        const sweep_cell c = sweep_cell_at(g, i);
        bool is_chosen = !c.seeds;
        for (size_t k = 0; k < n; k++)
            is_chosen |= chosen[k] == i;
        if (!is_chosen)
            dots_add(&others, &c, true);
    }
    dots_draw(&front, p, "frontier on the blocks");
    dots_draw(&others, p, "other settings");
    dots_draw(&test, p, "frontier on the test texts");
    char path[1100];
    snprintf(path, sizeof path, "%s/frontier.svg", out);
    st = stet_plot_save(p, path);
    stet_plot_free(p);
    return st;
}
