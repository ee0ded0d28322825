/* tests/fuzz/fuzz_bert.c - config.json of a folder of BERT as others write it, whose other files are whole;
 * a model that loads can be asked. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "stet/model.h"

static void make_folder(void)
{
    static const char *const settings[] = {
        "bert-layers=1", "bert-hidden=4",    "bert-heads=2",   "bert-inner=8",
        "bert-types=1",  "bert-positions=8", "bert-pieces=20", NULL};
    const stet_str text = {"a good film", 11};
    stet_dataset *d;
    stet_model *m;
    if (stet_dataset_new(&text, NULL, 1, NULL, 0, &d) != STET_OK ||
        stet_model_new(&(stet_model_new_args){.name = "bert",
                                              .settings = settings,
                                              .texts = d,
                                              .max_len = 8,
                                              .n_classes = 2,
                                              .seed = 1},
                       &m) != STET_OK ||
        stet_model_save(m, fuzz_folder()) != STET_OK)
        abort();
    stet_model_free(m);
    stet_dataset_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    if (!made) {
        make_folder();
        fuzz_take_folder();
    }
    made = true;
    fuzz_put("config.json", data, size);
    stet_model *m;
    if (stet_model_load(fuzz_folder(), &m) != STET_OK)
        return 0;
    float *prob = malloc(stet_model_classes(m) * sizeof *prob);
    if (prob)
        (void)stet_model_predict(m, "a good bad film", 15, prob, NULL);
    free(prob);
    stet_model_free(m);
    return 0;
}
