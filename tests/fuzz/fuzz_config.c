/* tests/fuzz/fuzz_config.c - config.json of a model folder whose other files are whole; a model that loads can be asked. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static stet_model *made;
    if (fuzz_packed(data, size))
        return 0;
    if (!made) {
        made = fuzz_model();
        if (stet_model_save(made, fuzz_folder()) != STET_OK)
            abort();
        fuzz_take_folder();
    }
    fuzz_put("config.json", data, size);
    stet_model *m;
    if (stet_model_load(fuzz_folder(), &m) != STET_OK)
        return 0;
    float *prob = malloc(stet_model_classes(m) * sizeof *prob);
    if (prob)
        (void)stet_model_predict(m, "good w1 film", 12, prob, NULL);
    free(prob);
    stet_model_free(m);
    return 0;
}
