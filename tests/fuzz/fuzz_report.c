/* tests/fuzz/fuzz_report.c - a run folder with one bad file: its results, its journal or its configuration (the first byte
 * says which). What can be read makes three reports. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz_model.h"
#include "stet/report.h"
#include "stet/results.h"

static void put_text(const char *name, const char *text)
{
    fuzz_put(name, (const uint8_t *)text, strlen(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char config[] =
        "{\"stet\":\"0.1.0\",\"format\":1,\"model\":\"cnn\",\"classes\":[\"a\",\"b\"],"
        "\"training\":{\"epochs\":3,\"seed\":1}}";
    static const char journal[] =
        "{\"epoch\":1,\"train_loss\":0.5,\"valid_accuracy\":0.9,\"valid_loss\":0.4}\n";
    char results[256];
    snprintf(results, sizeof results, "%s/results", fuzz_folder());
    mkdir(results, 0700);
    put_text("config.json", config);
    put_text("train.jsonl", journal);
    put_text("results/a.json", "{\"schema\":1,\"command\":\"eval\",\"accuracy\":0.9}");
    static const char *const names[] = {"results/a.json", "train.jsonl", "config.json"};
    if (size > 0)
        fuzz_put(names[data[0] % 3], data + 1, size - 1);
    stet_results r = {0};
    (void)stet_results_read(fuzz_folder(), &r);
    stet_results_deinit(&r);
    const char *const dirs[] = {fuzz_folder()};
    for (int format = 0; format < 3; format++) {
        char *page;
        if (stet_report(&(stet_report_args){.dirs = dirs,
                                            .n_dirs = 1,
                                            .format = (stet_report_format)format,
                                            .no_bounds = true},
                        &page) == STET_OK)
            stet_free(page);
    }
    return 0;
}
