/* certify.c - what substitutions can do to a text: a proof that nothing, or the text that flips.
 *
 *     certify MODEL SETS TEXT */
#include <stdio.h>
#include <stet/stet.h>

static void tell(const stet_certified *c)
{
    printf("%s, %.1f %%\n", c->name, 100 * c->probability);
    if (c->verdict == STET_CERTIFIED)
        printf("proved: none of %zu substitutes for %zu words changes that, nor all of them\n",
               c->substitutes, c->changeable);
    else if (c->text)
        printf("flipped by %zu swap%s: %s\n", c->n_swaps, c->n_swaps == 1 ? "" : "s", c->text);
    else
        printf("open, proved for up to %zu swaps\n", c->budget);
    for (size_t k = 0; k < c->n_harm && k < 3; k++)
        printf("  %s -> %s may take %.2f of a margin of %.2f\n", c->harm[k].from, c->harm[k].to,
               c->harm[k].drop, c->clean);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: certify MODEL SETS TEXT\n");
        return 2;
    }
    stet_model *m = NULL;
    stet_sets sets = {0};
    stet_certified *c = NULL;
    stet_status st = stet_model_load(argv[1], &m);
    if (st == STET_OK)
        st = stet_sets_load(argv[2], &sets);
    if (st == STET_OK)
        st = stet_text_certify(m, &sets, argv[3], -1, NULL, &c);
    if (st == STET_OK)
        tell(c);
    else
        fprintf(stderr, "%s\n", stet_last_error());
    stet_result_free(c);
    stet_sets_free(&sets);
    stet_model_free(m);
    return st == STET_OK ? 0 : 1;
}
