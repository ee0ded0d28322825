/* sweep/sweep_blocks.c - see sweep_impl.h: cutting the training data into blocks. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "sweep/sweep_impl.h"

static stet_status load(const json_t *train, stet_dataset **out)
{
    const char *data = json_string_value(json_object_get(train, "data"));
    stet_data_options how = STET_DATA_DEFAULTS;
    how.label = json_string_value(json_object_get(train, "label"));
    how.text = json_string_value(json_object_get(train, "text"));
    how.skip_bad = json_is_true(json_object_get(train, "skip-bad"));
    *out = NULL;
    return data ? stet_dataset_load(data, &how, out)
                : error_set(STET_EUSAGE,
                            "--blocks: expected --data FILE among the options of training");
}

/* A file that is there must hold the same texts: a run folder may have been made with them. */
static stet_status keep(const stet_dataset *part, const char *path)
{
    if (!file_exists(path))
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
               : error_set(STET_EUSAGE,
                           "%s: cut from other data, or with another --block-share; choose another "
                           "folder with -o",
                           path);
}

stet_status sweep_blocks_cut(const json_t *train, const stet_sweep_args *a, sweep_block *blocks)
{
    const double share = a->block_share;
    const size_t n = a->blocks;
    if (!(share > 0 && share <= 0.5))
        return error_set(STET_EUSAGE, "--block-share %g: expected a share above 0, at most 0.5",
                         share);
    const size_t parts = (size_t)lround(1 / share);
    char dir[SWEEP_PATH + 16];
    snprintf(dir, sizeof dir, "%s/blocks", a->out);
    if (n > parts)
        return error_set(STET_EUSAGE, "--blocks %zu: there are %zu blocks of --block-share %g", n,
                         parts, share);
    stet_dataset *d;
    stet_status st = load(train, &d);
    if (st == STET_OK)
        st = dir_make(dir);
    for (size_t b = 0; st == STET_OK && b < n; b++) {
        stet_dataset *held_out, *rest;
        snprintf(blocks[b].held_out, sizeof blocks[b].held_out, "%s/block-%zu.jsonl", dir, b + 1);
        snprintf(blocks[b].rest, sizeof blocks[b].rest, "%s/rest-%zu.jsonl", dir, b + 1);
        st = stet_block_cut(d, b, share, &held_out, &rest);
        if (st != STET_OK)
            break;
        blocks[b].texts = stet_dataset_size(held_out);
        st = keep(held_out, blocks[b].held_out);
        if (st == STET_OK)
            st = keep(rest, blocks[b].rest);
        stet_dataset_free(held_out);
        stet_dataset_free(rest);
    }
    stet_dataset_free(d);
    return st;
}
