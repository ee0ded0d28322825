/* predict.c - the label of a text. */
#include <stdio.h>
#include <stet/stet.h>

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : "demo/robust";
    const char *text = argc > 2 ? argv[2] : "a fine film";
    stet_model *m = NULL;
    stet_predicted *p = NULL;
    stet_status st = stet_model_load(dir, &m);
    if (st == STET_OK)
        st = stet_text_predict(m, text, &p);
    if (st == STET_OK)
        printf("%s, %.1f %%\n", p->name, 100 * p->probability);
    else
        fprintf(stderr, "%s\n", stet_last_error());
    stet_result_free(p);
    stet_model_free(m);
    return st == STET_OK ? 0 : 1;
}
