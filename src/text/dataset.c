/* text/dataset.c - labelled texts in memory. */
#include "text/dataset.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "text/utf8.h"

enum { PIECE_BYTES = 1 << 20 };

size_t dataset_pieces(const stet_dataset *d)
{
    return d->n ? (size_t)(d->start[d->n] / PIECE_BYTES) + 1 : 0;
}

/* The first text that starts at or after this byte. */
static size_t first_from(const stet_dataset *d, uint64_t byte)
{
    size_t lo = 0, hi = d->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (d->start[mid] < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void dataset_piece(const stet_dataset *d, size_t piece, size_t *first, size_t *end)
{
    *first = first_from(d, (uint64_t)piece * PIECE_BYTES);
    *end = first_from(d, ((uint64_t)piece + 1) * PIECE_BYTES);
}

static stet_status add_classes(stet_dataset *d, const char *const *names, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        char number[24];
        uint32_t id;
        snprintf(number, sizeof number, "%zu", c);
        const char *name = names ? names[c] : number;
        TRY(strmap_add(&d->classes, name, strlen(name), &id));
        if (id != c)
            return error_set(STET_EUSAGE, "class name '%s' is given twice", name);
    }
    return STET_OK;
}

static stet_status fill(stet_dataset *d, const stet_str *texts, const int *labels, size_t n,
                        size_t n_classes, bool any_bytes)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t bad = any_bytes ? SIZE_MAX : utf8_check(texts[i].data, texts[i].len);
        if (bad < texts[i].len)
            return error_set(STET_EUSAGE, "text %zu: byte %zu is NUL or not UTF-8", i, bad);
        if (labels && (labels[i] < -1 || (labels[i] >= 0 && (size_t)labels[i] >= n_classes)))
            return error_set(STET_EUSAGE, "text %zu: label %d with %zu classes", i, labels[i],
                             n_classes);
        bytes += texts[i].len + 1;
    }
    d->text = mem_alloc(bytes, 1);
    d->start = mem_alloc(n + 1, sizeof *d->start);
    d->label = mem_alloc(n, sizeof *d->label);
    if (!d->text || !d->start || !d->label)
        return STET_ENOMEM;
    d->start[0] = 0;
    for (size_t i = 0; i < n; i++) {
        char *to = d->text + d->start[i];
        if (texts[i].len)
            memcpy(to, texts[i].data, texts[i].len);
        to[texts[i].len] = '\0';
        d->start[i + 1] = d->start[i] + texts[i].len + 1;
        d->label[i] = labels ? labels[i] : -1;
    }
    d->n = n;
    return STET_OK;
}

stet_status stet_dataset_new(const stet_str *texts, const int *labels, size_t n,
                             const char *const *class_names, size_t n_classes, stet_dataset **out)
{
    return dataset_of(texts, labels, n, class_names, n_classes, false, out);
}

stet_status dataset_of(const stet_str *texts, const int *labels, size_t n,
                       const char *const *class_names, size_t n_classes, bool any_bytes,
                       stet_dataset **out)
{
    *out = NULL;
    if (n_classes > INT_MAX)
        return error_set(STET_EUSAGE, "%zu classes are too many", n_classes);
    stet_dataset *d = mem_zalloc(1, sizeof *d);
    if (!d)
        return STET_ENOMEM;
    stet_status st = add_classes(d, class_names, n_classes);
    if (st == STET_OK)
        st = fill(d, texts, labels, n, n_classes, any_bytes);
    if (st == STET_OK)
        *out = d;
    else
        stet_dataset_free(d);
    return st;
}

stet_status stet_dataset_pick(const stet_dataset *d, const size_t *index, size_t n,
                              stet_dataset **out)
{
    *out = NULL;
    const size_t n_classes = stet_dataset_classes(d);
    stet_str *texts = mem_alloc(n, sizeof *texts);
    int *labels = mem_alloc(n, sizeof *labels);
    const char **names = mem_alloc(n_classes, sizeof *names);
    stet_status st = texts && labels && names ? STET_OK : STET_ENOMEM;
    for (size_t i = 0; st == STET_OK && i < n; i++) {
        if (index[i] >= d->n) {
            st = error_set(STET_EUSAGE, "text %zu of a set of %zu", index[i], d->n);
            break;
        }
        texts[i] = stet_dataset_text(d, index[i]);
        labels[i] = d->label[index[i]];
    }
    for (size_t c = 0; st == STET_OK && c < n_classes; c++)
        names[c] = stet_dataset_class_name(d, c);
    if (st == STET_OK)
        st = stet_dataset_new(texts, labels, n, names, n_classes, out);
    mem_free(texts);
    mem_free(labels);
    mem_free(names);
    return st;
}

size_t stet_dataset_sample(const stet_dataset *d, size_t limit, uint64_t seed, size_t *index)
{
    const size_t want = limit < d->n ? limit : d->n;
    rng r = rng_stream(seed, STREAM_SAMPLE, 0);
    rng_sample(&r, d->n, want, index);
    return want;
}

size_t stet_dataset_size(const stet_dataset *d)
{
    return d->n;
}

stet_str stet_dataset_text(const stet_dataset *d, size_t i)
{
    return (stet_str){d->text + d->start[i], (size_t)(d->start[i + 1] - d->start[i] - 1)};
}

int stet_dataset_label(const stet_dataset *d, size_t i)
{
    return d->label[i];
}

size_t stet_dataset_classes(const stet_dataset *d)
{
    return d->classes.n;
}

const char *stet_dataset_class_name(const stet_dataset *d, size_t c)
{
    return strmap_text(&d->classes, (uint32_t)c);
}

size_t stet_dataset_skipped(const stet_dataset *d)
{
    return d->skipped;
}

uint64_t stet_dataset_fingerprint(const stet_dataset *d)
{
    uint64_t h = hash_bytes(d->text, d->n ? (size_t)d->start[d->n] : 0, d->n);
    h = hash_bytes(d->label, d->n * sizeof *d->label, h);
    for (uint32_t c = 0; c < d->classes.n; c++)
        h = hash_bytes(strmap_text(&d->classes, c), strmap_len(&d->classes, c), h);
    return h;
}

void stet_dataset_sha256(const stet_dataset *d, char out[65])
{
    sha256 h;
    sha256_init(&h);
    for (size_t i = 0; i < d->n; i++) {
        const stet_str text = stet_dataset_text(d, i);
        char head[64];
        const int n = snprintf(head, sizeof head, "%d\t%zu\n", stet_dataset_label(d, i), text.len);
        sha256_add(&h, head, (size_t)n);
        sha256_add(&h, text.data, text.len);
        sha256_add(&h, "\n", 1);
    }
    sha256_hex(&h, out);
}

void stet_dataset_free(stet_dataset *d)
{
    if (!d)
        return;
    mem_free(d->text);
    mem_free(d->start);
    mem_free(d->label);
    strmap_deinit(&d->classes);
    mem_free(d);
}
