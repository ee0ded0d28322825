/* sweep/choice.c - see stet/sweep.h. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "stet/sweep.h"

/* ---- blocks ------------------------------------------------------------------------------- */

/* Is text number `at` of `of` texts of its class in stretch `k` of `parts`? */
static bool inside(size_t at, size_t of, size_t k, size_t parts)
{
    return at >= of * k / parts && at < of * (k + 1) / parts;
}

/* The texts inside or outside the stretch, in `index`; how many. `count` has room for two numbers a
 * class. */
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

static stet_status cut(const stet_dataset *d, size_t k, size_t parts, bool held_out,
                       stet_dataset **out)
{
    size_t *index = mem_alloc(stet_dataset_size(d) + 1, sizeof *index),
           *count = mem_alloc(2 * (stet_dataset_classes(d) + 1), sizeof *count);
    stet_status st = index && count ? STET_OK : STET_ENOMEM;
    const size_t n = st == STET_OK ? take(d, k, parts, held_out, count, index) : 0;
    if (st == STET_OK)
        st = n ? stet_dataset_pick(d, index, n, out)
               : error_set(STET_EUSAGE, "%zu texts are too few for blocks", stet_dataset_size(d));
    mem_free(index);
    mem_free(count);
    return st;
}

static stet_status check(const stet_dataset *d, size_t block, double share)
{
    if (!(share > 0 && share <= 0.5))
        return error_set(STET_EUSAGE, "a block of %g: expected a share above 0, at most 0.5",
                         share);
    const size_t parts = (size_t)lround(1 / share);
    if (block >= parts)
        return error_set(STET_EUSAGE, "block %zu: there are %zu blocks of %g", block + 1, parts,
                         share);
    for (size_t i = 0; i < stet_dataset_size(d); i++)
        if (stet_dataset_label(d, i) < 0)
            return error_set(STET_EUSAGE, "text %zu has no label; blocks are cut class by class",
                             i);
    return STET_OK;
}

stet_status stet_block_cut(const stet_dataset *d, size_t block, double share,
                           stet_dataset **held_out, stet_dataset **rest)
{
    stet_dataset *in = NULL, *out = NULL;
    if (held_out)
        *held_out = NULL;
    if (rest)
        *rest = NULL;
    TRY(check(d, block, share));
    const size_t parts = (size_t)lround(1 / share), k = parts - 1 - block;
    stet_status st = held_out ? cut(d, k, parts, true, &in) : STET_OK;
    if (st == STET_OK && rest)
        st = cut(d, k, parts, false, &out);
    if (st != STET_OK) {
        stet_dataset_free(in);
        return st;
    }
    if (held_out)
        *held_out = in;
    if (rest)
        *rest = out;
    return STET_OK;
}

/* ---- numbers ------------------------------------------------------------------------------ */

size_t stet_frontier(const double *clean, const double *certified, size_t n, size_t *chosen)
{
    size_t made = 0;
    for (size_t i = 0; i < n; i++) {
        bool stays = isfinite(clean[i]) && isfinite(certified[i]);
        for (size_t k = 0; stays && k < n; k++) {
            const double more = clean[k] - clean[i], proved = certified[k] - certified[i];
            stays = k == i || !(more >= 0 && proved >= 0 && (more > 0 || proved > 0 || k < i));
        }
        if (!stays)
            continue;
        size_t at = made++;
        for (; at > 0 && clean[chosen[at - 1]] > clean[i]; at--)
            chosen[at] = chosen[at - 1];
        chosen[at] = i;
    }
    return made;
}

void stet_mean_spread(const double *x, size_t n, double *mean, double *spread)
{
    double sum = 0, squares = 0;
    for (size_t k = 0; k < n; k++)
        sum += x[k];
    *mean = n ? sum / (double)n : (double)NAN;
    for (size_t k = 0; k < n; k++)
        squares += (x[k] - *mean) * (x[k] - *mean);
    *spread = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}
