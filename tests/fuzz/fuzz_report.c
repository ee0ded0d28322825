/* tests/fuzz/fuzz_report.c - a run folder with one bad file: its results, its journal or its configuration. What can be read
 * makes a report. The first byte says which file, and which of the three kinds of report, or the results alone. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz_model.h"
#include "stet/option.h"
#include "stet/report.h"
#include "stet/results.h"

enum { FILES = 3 };
static const char *const names[FILES] = {"results/a.json", "train.jsonl", "config.json"};
static char config[4096]; /* as the model has it */
static const char *const good[FILES] = {
    "{\"schema\":1,\"command\":\"eval\",\"accuracy\":0.9}",
    "{\"epoch\":1,\"train_loss\":0.5,\"valid_accuracy\":0.9,\"valid_loss\":0.4}\n", config};

static void put_good(size_t i)
{
    fuzz_put(names[i], (const uint8_t *)good[i], strlen(good[i]));
}

static void path_of(char path[256], const char *name)
{
    snprintf(path, 256, "%s/%s", fuzz_folder(), name);
}

static void make_folder(void)
{
    char path[256];
    stet_model *m = fuzz_model();
    if (stet_model_save(m, fuzz_folder()) != STET_OK)
        abort();
    stet_model_free(m);
    fuzz_take_folder();
    path_of(path, "config.json");
    FILE *f = fopen(path, "r");
    if (!f || fread(config, 1, sizeof config - 1, f) == 0 || fclose(f) != 0)
        abort();
    path_of(path, "results");
    mkdir(path, 0700);
    path_of(path, names[0]); /* to be listed */
    if (!(f = fopen(path, "w")) || fclose(f) != 0)
        abort();
    for (size_t i = 0; i < FILES; i++)
        put_good(i);
}

static bool report(stet_report_format format)
{
    const char *const dirs[] = {fuzz_folder()};
    char *page;
    if (stet_report(
            &(stet_report_args){.dirs = dirs, .n_dirs = 1, .format = format, .no_bounds = true},
            &page) != STET_OK)
        return false;
    stet_free(page);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static size_t bad = FILES; /* of the last run */
    if (size == 0 || fuzz_packed(data + 1, size - 1))
        return 0;
    if (bad == FILES) {
        make_folder();
        if (!report(STET_REPORT_JSON))
            abort(); /* good files make a report */
    } else if (bad != data[0] % FILES) {
        put_good(bad);
    }
    bad = data[0] % FILES;
    fuzz_put(names[bad], data + 1, size - 1);
    const int way = data[0] / FILES % 4;
    if (way < 3) {
        (void)report((stet_report_format)way);
        return 0;
    }
    stet_results r = {0};
    (void)stet_results_read(fuzz_folder(), &r);
    stet_results_deinit(&r);
    return 0;
}
