/* certify/cert_encode.c - see cert_encode.h. */
#include "certify/cert_encode.h"

#include <math.h>
#include <string.h>

#include "certify/cert_lstm_rows.h"

enum { AT_ONCE = 64 }; /* words that are multiplied together */

static double length_of(const double *x, size_t n)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += x[i] * x[i];
    return sqrt(squares);
}

static stet_status encoded_init(size_t n, size_t width, arena *a, cert_encoded *out)
{
    out->x = arena_new(a, double, n *width);
    out->length = arena_new(a, double, n);
    return out->x && out->length ? STET_OK : STET_ENOMEM;
}

stet_status cert_encode_vectors(const double *vectors, size_t n, size_t D, const double *wt,
                                size_t width, arena *a, cert_encoded *out)
{
    TRY(encoded_init(n, width, a, out));
    rows_product(n, width, D, vectors, wt, out->x);
    for (size_t k = 0; k < n; k++)
        out->length[k] = length_of(vectors + k * D, D);
    return STET_OK;
}

/* ---- words that are kept ------------------------------------------------------------------ */

/* An entry: length, then the products. */
stet_status cert_encoder_init(cert_encoder *e, const model *m, const double *wt, size_t width)
{
    *e = (cert_encoder){.m = m, .wt = wt, .width = width};
    return cert_kept_init(&e->kept, m->n_words, (1 + width) * sizeof(double));
}

void cert_encoder_deinit(cert_encoder *e)
{
    cert_kept_deinit(&e->kept);
}

/* Is word k of the text there already? */
static bool recall(const cert_encoder *e, uint32_t word, size_t k, cert_encoded *out)
{
    const double *entry = cert_kept_find(&e->kept, word);
    if (!entry)
        return false;
    out->length[k] = entry[0];
    memcpy(out->x + k * e->width, entry + 1, e->width * sizeof *entry);
    return true;
}

static void keep(cert_encoder *e, uint32_t word, size_t k, const cert_encoded *out)
{
    double *entry = cert_kept_find(&e->kept, word) ? NULL : cert_kept_room(&e->kept);
    if (!entry)
        return;
    entry[0] = out->length[k];
    memcpy(entry + 1, out->x + k * e->width, e->width * sizeof *entry);
    cert_kept_publish(&e->kept, word, entry);
}

/* Words k of the text that have no entry. */
static stet_status learn(cert_encoder *e, const uint32_t *word, const size_t *at, size_t n,
                         arena *a, cert_encoded *out)
{
    const size_t D = e->m->dim;
    const arena_mark mark = arena_save(a);
    double *vectors = arena_new(a, double, n *D);
    cert_encoded new;
    if (!vectors)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < D; j++)
            vectors[i * D + j] = e->m->table[word[at[i]] * D + j];
    TRY(cert_encode_vectors(vectors, n, D, e->wt, e->width, a, &new));
    for (size_t i = 0; i < n; i++) {
        out->length[at[i]] = new.length[i];
        memcpy(out->x + at[i] * e->width, new.x + i * e->width, e->width * sizeof *new.x);
        keep(e, word[at[i]], at[i], out);
    }
    arena_restore(a, mark);
    return STET_OK;
}

stet_status cert_encode(cert_encoder *e, const cert_task *t, arena *a, cert_encoded *out)
{
    const size_t words = t->start[t->n];
    size_t at[AT_ONCE], n = 0;
    TRY(encoded_init(words, e->width, a, out));
    for (size_t k = 0; k < words; k++) {
        if (t->word[k] >= e->m->n_words)
            return error_set(STET_EUSAGE, "word %u of %zu", t->word[k], e->m->n_words);
        if (!recall(e, t->word[k], k, out))
            at[n++] = k;
        if (n == AT_ONCE || (k + 1 == words && n)) {
            TRY(learn(e, t->word, at, n, a, out));
            n = 0;
        }
    }
    return STET_OK;
}
