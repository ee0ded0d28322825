/* train/split.c - see split.h, and stet/train.h for the public functions. */
#include "train/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/strmap.h"

/* ---- a share at random -------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

stet_status stet_train_split(const stet_dataset *all, double share, uint64_t seed,
                             stet_dataset **train, stet_dataset **valid)
{
    const size_t n = stet_dataset_size(all);
    const size_t held = share > 0 && share < 1 ? (size_t)((double)n * share + 0.5) : 0;
    *train = *valid = NULL;
    if (held == 0 || held >= n)
        return error_set(STET_EUSAGE,
                         "--valid %g of %zu texts leaves nothing to train or to validate on", share,
                         n);
    uint32_t *order = mem_alloc(n, sizeof *order);
    size_t *index = mem_alloc(n, sizeof *index);
    stet_status st = order && index ? STET_OK : STET_ENOMEM;
    if (st == STET_OK) {
        rng r = rng_stream(seed, STREAM_SPLIT, 0);
        rng_permutation(&r, order, n);
        for (size_t i = 0; i < n; i++)
            index[i] = order[i];
        qsort(index, held, sizeof *index, ascending);
        qsort(index + held, n - held, sizeof *index, ascending);
        st = stet_dataset_pick(all, index, held, valid);
    }
    if (st == STET_OK)
        st = stet_dataset_pick(all, index + held, n - held, train);
    if (st != STET_OK) {
        stet_dataset_free(*valid);
        *valid = NULL;
    }
    mem_free(order);
    mem_free(index);
    return st;
}

/* ---- folds -------------------------------------------------------------------------------- */

stet_status fold_parse(const char *text, size_t *fold, size_t *folds)
{
    unsigned long k = 0, n = 0;
    char rest;
    *fold = *folds = 0;
    if (text && (strspn(text, "0123456789of") != strlen(text) ||
                 sscanf(text, "%5luof%5lu%c", &k, &n, &rest) != 2 || n < 2 || k < 1 || k > n))
        return error_set(STET_EUSAGE, "--fold %s: expected KofN, such as 2of5", text);
    *fold = k;
    *folds = n;
    return STET_OK;
}

size_t fold_of(stet_str text, size_t folds)
{
    return (size_t)(hash_bytes(text.data, text.len, 7) % folds) + 1;
}

stet_status split_fold(const stet_dataset *all, size_t fold, size_t folds,
                              stet_dataset **train, stet_dataset **held)
{
    const size_t n = stet_dataset_size(all);
    size_t *index = mem_alloc(2 * n + 1, sizeof *index), in = 0, out = 0;
    if (!index)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (fold_of(stet_dataset_text(all, i), folds) == fold)
            index[n + out++] = i;
        else
            index[in++] = i;
    stet_status st = in && out ? STET_OK
                               : error_set(STET_EUSAGE,
                                           "--fold %zuof%zu of %zu texts leaves "
                                           "nothing to train or to validate on",
                                           fold, folds, n);
    if (st == STET_OK)
        st = stet_dataset_pick(all, index + n, out, held);
    if (st == STET_OK)
        st = stet_dataset_pick(all, index, in, train);
    if (st != STET_OK) {
        stet_dataset_free(*held);
        *held = NULL;
    }
    mem_free(index);
    return st;
}

stet_status stet_train_fold(const stet_dataset *all, const char *fold, stet_dataset **train,
                            stet_dataset **valid)
{
    size_t k, n;
    *train = *valid = NULL;
    TRY(fold_parse(fold ? fold : "", &k, &n));
    return split_fold(all, k, n, train, valid);
}
