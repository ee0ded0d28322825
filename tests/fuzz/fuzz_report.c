/* tests/fuzz/fuzz_report.c - a run folder with one bad file: its results, its journal or its configuration. What can be read
 * makes a report. The first byte says which file, and which of the three kinds of report. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stet/option.h"
#include "stet/report.h"
#include "stet/results.h"

enum { FILES = 3 };
static const char *const names[FILES] = {"results/a.json", "train.jsonl", "config.json"};
static const char config[] =
    "{\"stet\":\"0.1.0\",\"format\":1,\"model\":\"cnn\",\"classes\":[\"a\",\"b\"],"
    "\"training\":{\"epochs\":3,\"seed\":1}}";
static const char *const good[FILES] = {
    "{\"schema\":1,\"command\":\"eval\",\"accuracy\":0.9}",
    "{\"epoch\":1,\"train_loss\":0.5,\"valid_accuracy\":0.9,\"valid_loss\":0.4}\n", config};

static void put_good(size_t i)
{
    fuzz_put(names[i], (const uint8_t *)good[i], strlen(good[i]));
}

static void make_folder(void)
{
    char results[256];
    snprintf(results, sizeof results, "%s/results", fuzz_folder());
    mkdir(results, 0700);
    for (size_t i = 0; i < FILES; i++)
        put_good(i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static size_t bad = FILES; /* of the last run */
    if (size == 0)
        return 0;
    if (bad == FILES)
        make_folder();
    else if (bad != data[0] % FILES)
        put_good(bad);
    bad = data[0] % FILES;
    fuzz_put(names[bad], data + 1, size - 1);
    stet_results r = {0};
    (void)stet_results_read(fuzz_folder(), &r);
    stet_results_deinit(&r);
    const char *const dirs[] = {fuzz_folder()};
    const stet_report_args how = {.dirs = dirs,
                                  .n_dirs = 1,
                                  .format = (stet_report_format)(data[0] / FILES % 3),
                                  .no_bounds = true};
    char *page;
    if (stet_report(&how, &page) == STET_OK)
        stet_free(page);
    return 0;
}
