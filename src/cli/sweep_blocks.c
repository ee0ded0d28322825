/* cli/sweep_blocks.c - see sweep_frontier.h: cutting the training data into blocks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/sweep_frontier.h"
#include "stet/results.h"

static stet_status load(const json_t *train, stet_dataset **out)
{
    const char *data = json_string_value(json_object_get(train, "data"));
    stet_data_options how = STET_DATA_DEFAULTS;
    how.label = json_string_value(json_object_get(train, "label"));
    how.text = json_string_value(json_object_get(train, "text"));
    how.skip_bad = json_is_true(json_object_get(train, "skip-bad"));
    *out = NULL;
    return data ? stet_dataset_load(data, &how, out)
                : cli_usage("--blocks: expected --data FILE among the options of training");
}

/* Is text number `at` of `of` texts of its class in stretch `k` of `parts`? */
static bool inside(size_t at, size_t of, size_t k, size_t parts)
{
    return at >= of * k / parts && at < of * (k + 1) / parts;
}

/* The texts inside or outside the stretch, in `index`; how many. */
static size_t take(const stet_dataset *d, size_t k, size_t parts, bool held_out, size_t *count,
                   size_t *index)
{
    const size_t n = stet_dataset_size(d), classes = stet_dataset_classes(d);
    size_t *seen = count + classes, taken = 0;
    memset(count, 0, 2 * classes * sizeof *count);
    for (size_t i = 0; i < n; i++)
        count[stet_dataset_label(d, i)]++;
    for (size_t i = 0; i < n; i++) {
        const size_t c = (size_t)stet_dataset_label(d, i);
        if (inside(seen[c]++, count[c], k, parts) == held_out)
            index[taken++] = i;
    }
    return taken;
}

/* A file that is there must hold the same texts: a run folder may have been made with them. */
static stet_status keep(const stet_dataset *part, const char *path)
{
    if (access(path, F_OK) != 0)
        return stet_dataset_save(part, path);
    stet_dataset *old;
    const stet_data_options how = STET_DATA_DEFAULTS;
    const stet_status st = stet_dataset_load(path, &how, &old);
    if (st != STET_OK)
        return st;
    char is[65], was[65];
    stet_dataset_sha256(part, is);
    stet_dataset_sha256(old, was);
    stet_dataset_free(old);
    return strcmp(is, was) == 0
               ? STET_OK
               : cli_usage("%s: cut from other data, or with another --block-share; choose another "
                           "folder with -o",
                           path);
}

static stet_status cut(const stet_dataset *d, size_t k, size_t parts, bool held_out,
                       const char *path, size_t *texts)
{
    size_t *index = malloc((stet_dataset_size(d) + 1) * sizeof *index),
           *count = malloc(2 * (stet_dataset_classes(d) + 1) * sizeof *count);
    if (!index || !count)
        cli_no_memory();
    *texts = take(d, k, parts, held_out, count, index);
    stet_dataset *part = NULL;
    stet_status st = *texts ? stet_dataset_pick(d, index, *texts, &part)
                            : cli_usage("--blocks: %zu texts are too few", stet_dataset_size(d));
    if (st == STET_OK)
        st = keep(part, path);
    stet_dataset_free(part);
    free(index);
    free(count);
    return st;
}

stet_status sweep_blocks_cut(const json_t *train, const char *out, size_t n, double share,
                             sweep_block *blocks)
{
    const size_t parts = (size_t)lround(1 / share);
    char dir[1024];
    snprintf(dir, sizeof dir, "%s/blocks", out);
    if (n > parts)
        return cli_usage("--blocks %zu: there are %zu blocks of --block-share %g", n, parts, share);
    stet_dataset *d;
    stet_status st = load(train, &d);
    if (st == STET_OK)
        st = stet_folder_make(dir);
    for (size_t b = 0; st == STET_OK && b < n; b++) {
        size_t others;
        snprintf(blocks[b].held_out, sizeof blocks[b].held_out, "%s/block-%zu.jsonl", dir, b + 1);
        snprintf(blocks[b].rest, sizeof blocks[b].rest, "%s/rest-%zu.jsonl", dir, b + 1);
        st = cut(d, parts - 1 - b, parts, true, blocks[b].held_out, &blocks[b].texts);
        if (st == STET_OK)
            st = cut(d, parts - 1 - b, parts, false, blocks[b].rest, &others);
    }
    stet_dataset_free(d);
    return st;
}
