/* sweep/sweep_frontier.c - see sweep_impl.h: choosing, and the script that trains the choice. */
#include <string.h>

#include "base/file.h"
#include "sweep/sweep_impl.h"

/* ---- choosing ----------------------------------------------------------------------------- */

stet_status sweep_frontier(const sweep_grid *g, size_t *chosen, size_t *n)
{
    double *clean = mem_alloc(2 * g->cells, sizeof *clean), *certified = clean + g->cells;
    if (!clean)
        return STET_ENOMEM;
    for (size_t i = 0; i < g->cells; i++) {
        stet_sweep_cell c;
        sweep_cell_at(g, i, &c);
        clean[i] = c.mean[STET_SWEEP_SAMPLE];
        certified[i] = c.mean[STET_SWEEP_CERTIFIED];
    }
    *n = stet_frontier(clean, certified, g->cells, chosen);
    mem_free(clean);
    return STET_OK;
}

stet_status sweep_final_points(const sweep_grid *g, const char *out, const size_t *chosen, size_t n,
                               sweep_point **points)
{
    const size_t seeds = g->axis[SWEEP_SEED].n;
    char dir[SWEEP_PATH];
    if ((size_t)snprintf(dir, sizeof dir, "%s/final", out) >= sizeof dir)
        return error_set(STET_EUSAGE, "-o %s: the name is too long", out);
    *points = mem_zalloc(n * seeds + 1, sizeof **points);
    if (!*points)
        return STET_ENOMEM;
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

static stet_status put_train(FILE *f, const sweep *final, const sweep_point *p)
{
    sweep_words w;
    TRY(sweep_train_words(final, p, &w));
    fputs("stet train", f);
    for (size_t i = 0; i < w.n; i++)
        put_word(f, w.v[i]);
    fputc('\n', f);
    return STET_OK;
}

static void put_certify(FILE *f, const sweep *final, const sweep_point *p)
{
    fputs("[ -z \"$1\" ] || stet certify", f);
    put_word(f, p->dir);
    fputs(" --data \"$1\" --synonyms", f);
    put_word(f, final->a.synonyms);
    fputc('\n', f);
}

static stet_status put_cell(FILE *f, const sweep_grid *g, const sweep *final, size_t cell, size_t k)
{
    const size_t seeds = g->axis[SWEEP_SEED].n;
    char name[512], clean[SWEEP_NUMBER], certified[SWEEP_NUMBER];
    stet_sweep_cell c;
    sweep_cell_at(g, cell, &c);
    sweep_cell_name(g, cell, SWEEP_SEED, name, sizeof name);
    fprintf(f, "\n# %s: clean %s %%, certified %s %%\n", name,
            sweep_number(&c, STET_SWEEP_SAMPLE, clean),
            sweep_number(&c, STET_SWEEP_CERTIFIED, certified));
    for (size_t i = k * seeds; i < (k + 1) * seeds; i++) {
        TRY(put_train(f, final, &final->point[i]));
        put_certify(f, final, &final->point[i]);
    }
    return STET_OK;
}

stet_status sweep_frontier_script(const sweep_grid *g, const sweep *final,
                                  const sweep_block *blocks, const size_t *chosen, size_t n)
{
    const size_t seeds = g->axis[SWEEP_SEED].n;
    char path[SWEEP_PATH + 16];
    atomic_file f;
    snprintf(path, sizeof path, "%s/frontier.sh", final->a.out);
    TRY(atomic_open(&f, path));
    stet_status st = atomic_printf(
        &f,
        "#!/bin/sh\n"
        "# Settings that no other beats in both clean and certified accuracy, chosen on %zu "
        "block%s of %zu\n# consecutive training texts; accuracies are means over %zu seed%s, ± "
        "their deviation.\n"
        "#     sh frontier.sh [TEST]\n"
        "# trains each on all texts and certifies TEST. Run it where the sweep ran.\n",
        g->axis[SWEEP_BLOCK].n, g->axis[SWEEP_BLOCK].n > 1 ? "s" : "", blocks[0].texts, seeds,
        seeds > 1 ? "s" : "");
    for (size_t k = 0; st == STET_OK && k < n; k++)
        st = put_cell(f.stream, g, final, chosen[k], k);
    if (st == STET_OK)
        return atomic_commit(&f);
    atomic_abort(&f);
    return st;
}
