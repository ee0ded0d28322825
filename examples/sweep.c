/* sweep.c - choose a setting on held-out texts: train over a grid, certify, keep what nothing beats. Stop
 * it whenever you like; the same command goes on.
 *
 *     sweep DATA VECTORS SYNONYMS FOLDER [KAPPAS [EPOCHS]] */
#define STET_EXPERIMENTAL
#include <stdio.h>
#include <stet/stet.h>

static void tell(void *user, const stet_sweep_point *p)
{
    (void)user;
    if (p->error)
        fprintf(stderr, "%s: %s\n", p->dir, p->error);
    else
        fprintf(stderr, "%s: certified %.3f (%zu of %zu)\n", p->dir, p->value[STET_SWEEP_CERTIFIED],
                p->done, p->n);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: sweep DATA VECTORS SYNONYMS FOLDER [KAPPAS [EPOCHS]]\n");
        return 2;
    }
    const char *train[] = {
        "--data",     argv[1], "--vectors", argv[2], /* as `stet train` takes them */
        "--synonyms", argv[3], "--model",   "sum",   "--epochs", argc > 6 ? argv[6] : "10"};
    stet_sweep_args a = STET_SWEEP_DEFAULTS;
    a.out = argv[4], a.kappas = argc > 5 ? argv[5] : "0,0.5,0.9";
    a.train = train, a.n_train = sizeof train / sizeof *train;
    a.blocks = 2, a.jobs = 2, a.each = tell;

    stet_sweep_result r;
    if (stet_sweep(&a, &r) != STET_OK) {
        fprintf(stderr, "%s\n", stet_last_error());
        return 1;
    }
    for (size_t i = 0; i < r.n_cells; i++)
        printf("kappa %s: clean %.3f, certified %.3f%s\n", r.cell[i].value[0],
               r.cell[i].mean[STET_SWEEP_SAMPLE], r.cell[i].mean[STET_SWEEP_CERTIFIED],
               r.cell[i].chosen ? ", chosen" : "");
    const int failed = r.failed > 0;
    stet_sweep_result_deinit(&r);
    return failed;
}
