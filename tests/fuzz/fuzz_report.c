/* tests/fuzz/fuzz_report.c - a run folder with one bad file: its results, its journal or its configuration. What can be read
 * makes a report. The first byte says which file, which of the three kinds of report, or the results alone, and whether the
 * folder is that of a program that was attacked, which has results and nothing else. */
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

/* A result that can be listed; its bytes are in memory. */
static void make_results(const char *folder, const char *file)
{
    char path[256];
    path_of(path, folder);
    mkdir(path, 0700);
    path_of(path, file);
    FILE *f = fopen(path, "w");
    if (!f || fclose(f) != 0)
        abort();
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
    path_of(path, "program");
    mkdir(path, 0700);
    make_results("program/results", "program/results/a.json");
    make_results("results", names[0]);
    for (size_t i = 0; i < FILES; i++)
        put_good(i);
}

static bool report(const char *folder, stet_report_format format)
{
    char *page;
    if (stet_report(
            &(stet_report_args){.dirs = &folder, .n_dirs = 1, .format = format, .no_bounds = true},
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
        if (!report(fuzz_folder(), STET_REPORT_JSON))
            abort(); /* good files make a report */
        bad = 0;
    }
    char folder[256];
    const int way = data[0] / FILES % 4;
    if (data[0] / FILES / 4 % 2) {
        path_of(folder, "program");
        fuzz_put("program/results/a.json", data + 1, size - 1);
    } else {
        snprintf(folder, sizeof folder, "%s", fuzz_folder());
        if (bad != data[0] % FILES)
            put_good(bad);
        bad = data[0] % FILES;
        fuzz_put(names[bad], data + 1, size - 1);
    }
    if (way < 3) {
        (void)report(folder, (stet_report_format)way);
        return 0;
    }
    stet_results r = {0};
    (void)stet_results_read(folder, &r);
    stet_results_deinit(&r);
    return 0;
}
