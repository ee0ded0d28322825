/* defense/votes.c - see votes.h. */
#include "defense/votes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strmap.h"

/* ---- shares ------------------------------------------------------------------------------- */

/* The continued fraction of the incomplete beta function, by Lentz's method. */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 / fmax(fabs(1 - (a + b) * x / (a + 1)), tiny), h;
    d = 1 - (a + b) * x / (a + 1) < 0 ? -d : d;
    h = d;
    for (int i = 1; i < 100000; i++) {
        const double even = i * (b - i) * x / ((a + 2 * i - 1) * (a + 2 * i)),
                     odd = -(a + i) * (a + b + i) * x / ((a + 2 * i) * (a + 2 * i + 1));
        d = 1 / (1 + even * d + tiny);
        c = 1 + even / c;
        h *= d * c;
        d = 1 / (1 + odd * d + tiny);
        c = 1 + odd / c;
        h *= d * c;
        if (fabs(d * c - 1) < 1e-15)
            break;
    }
    return h;
}

/* The chance of at least k successes of n, each with chance p; 0 < k <= n. */
static double at_least(uint64_t k, uint64_t n, double p)
{
    const double a = (double)k, b = (double)(n - k) + 1;
    if (p <= 0 || p >= 1)
        return p <= 0 ? 0 : 1;
    const double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(p) + b * log1p(-p));
    return p < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, p) / a
                                     : 1 - front * beta_fraction(b, a, 1 - p) / b;
}

double share_lower(uint64_t k, uint64_t n, double error)
{
    double lo = 0, hi = 1;
    if (k == 0)
        return 0;
    for (int i = 0; i < 60; i++) {
        const double p = (lo + hi) / 2;
        if (at_least(k, n, p) < error)
            lo = p;
        else
            hi = p;
    }
    return fmax(lo - 1e-11, 0);
}

double share_upper(uint64_t k, uint64_t n, double error)
{
    return 1 - share_lower(n - k, n, error);
}

double coin_test(uint64_t k, uint64_t n)
{
    const uint64_t more = k > n - k ? k : n - k;
    return 2 * more == n ? 1 : fmin(1, 2 * at_least(more, n, 0.5));
}

/* ---- masks -------------------------------------------------------------------------------- */

size_t masked_words(size_t L, double rate)
{
    const size_t most = L > 2 ? L - 2 : 0, m = (size_t)rint((double)L * rate);
    return m < most ? m : most;
}

double kept_chance(size_t L, size_t K, size_t r)
{
    double hidden = 1;
    for (size_t i = 0; i < r; i++)
        hidden *= i < L - K ? (double)(L - K - i) / (double)(L - i) : 0;
    return 1 - hidden;
}

size_t masked_radius(size_t L, size_t K, double p)
{
    size_t r = 0;
    if (!(p > 0.5))
        return SIZE_MAX;
    while (r < L && p - kept_chance(L, K, r + 1) > 0.5)
        r++;
    return r;
}

/* ---- swaps -------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool is_near(const word_sets *s, uint32_t word, uint32_t of)
{
    bool found = word == of;
    for (uint32_t k = s->start[of]; k < s->start[of + 1] && !found; k++)
        found = s->word[k] == word;
    return found;
}

double draws_shared(const word_sets *s, uint32_t a, uint32_t b)
{
    const size_t na = s->start[a + 1] - s->start[a] + 1, nb = s->start[b + 1] - s->start[b] + 1;
    size_t common = is_near(s, a, b);
    for (uint32_t k = s->start[a]; k < s->start[a + 1]; k++)
        common += is_near(s, s->word[k], b);
    return (double)common / (double)(na > nb ? na : nb);
}

double swapped_chance(double *q, size_t n, size_t R)
{
    double same = 1;
    qsort(q, n, sizeof *q, ascending);
    for (size_t i = 0; i < n && i < R; i++)
        same *= q[i];
    return 1 - same;
}

vote_bounds votes_bound(const uint64_t *count, size_t n_classes, size_t label, double error,
                        double changed)
{
    uint64_t n = 0, other = 0;
    for (size_t k = 0; k < n_classes; k++) {
        n += count[k];
        if (k != label && count[k] > other)
            other = count[k];
    }
    vote_bounds b = {.own = share_lower(count[label], n, error)};
    b.other = 1 - b.own;
    if (n_classes > 2)
        b.other = fmin(b.other, share_upper(other, n, error / (double)n_classes));
    b.abstains = !(b.own > 0.5);
    b.holds = !b.abstains && votes_hold(b.own, b.other, changed);
    return b;
}

/* ---- votes -------------------------------------------------------------------------------- */

stet_status votes_can_read(const model *m, const char *defense)
{
    return reader_tells(&m->reader)
               ? STET_OK
               : error_set(STET_ENOTSUP,
                           "defence '%s' needs a model whose rows belong to words, not a %s",
                           defense, m->desc->name);
}

stet_status vote_text_make(const model *m, const uint32_t *rows, size_t n, arena *mem,
                           vote_text *out)
{
    uint32_t *at = arena_new(mem, uint32_t, n + 1);
    if (!at)
        return STET_ENOMEM;
    const size_t words = reader_words(&m->reader, rows, n, at);
    *out = (vote_text){rows, at, words < m->max_len ? words : m->max_len};
    return STET_OK;
}

stet_status vote_text_asked(const model *m, const uint32_t *ids, const stet_choices *choices,
                            arena *mem, vote_text *out)
{
    const size_t n = choices->n || m->reader.framed ? choices->n : 1;
    if (m->reader.most_rows == 1)
        return vote_text_make(m, ids, n, mem, out);
    uint32_t *rows = arena_new(mem, uint32_t, n * m->reader.most_rows + 1);
    if (!rows)
        return STET_ENOMEM;
    return vote_text_make(m, rows, words_rows(choices->words, ids, n, rows), mem, out);
}

enum { COPIES = 256 }; /* at a time */

enum { TURN_ANSWER = 1, TURN_CERTIFICATE }; /* draws that are independent of each other */

/* count (K) += answers of the network to n copies. The draws derive from the text's words and `turn`. */
static stet_status votes_count(const model *m, const vote_of *x, size_t n, uint64_t turn,
                               uint64_t *count)
{
    const size_t K = m->n_classes, most = n < COPIES ? n : COPIES;
    const vote_text *t = x->text;
    arena mem = {0};
    uint32_t *copies = arena_new(&mem, uint32_t, most * x->room + 1);
    uint64_t *start = arena_new(&mem, uint64_t, most + 1);
    int32_t *label = arena_znew(&mem, int32_t, most);
    float *logits = arena_new(&mem, float, most *K);
    stet_status st = copies && start && label && logits ? STET_OK : STET_ENOMEM;
    rng r =
        rng_stream(hash_bytes(t->rows, t->at[t->n] * sizeof *t->rows, turn), STREAM_DEFENSE, turn);
    for (size_t done = 0; st == STET_OK && done < n; done += most) {
        const size_t now = n - done < most ? n - done : most;
        start[0] = 0;
        for (size_t v = 0; v < now; v++)
            start[v + 1] = start[v] + x->draw(x->ctx, &r, t, copies + start[v]);
        const stet_corpus texts = {now, (size_t)start[now], K, copies, start, label};
        st = model_network_logits(m, &texts, logits);
        for (size_t v = 0; st == STET_OK && v < now; v++)
            count[stet_argmax(logits + v * K, K)]++;
    }
    arena_deinit(&mem);
    return st;
}

stet_status votes_answer(const vote_cfg *c, const model *m, const vote_of *x, float *logits)
{
    uint64_t *count = mem_zalloc(m->n_classes, sizeof *count);
    const stet_status st =
        count ? votes_count(m, x, (size_t)c->votes, TURN_ANSWER, count) : STET_ENOMEM;
    double all = 0;
    for (size_t k = 0; st == STET_OK && k < m->n_classes; k++)
        all += (double)count[k] + 0.5;
    for (size_t k = 0; st == STET_OK && k < m->n_classes; k++)
        logits[k] = (float)log(((double)count[k] + 0.5) / all);
    mem_free(count);
    return st;
}

stet_status votes_certificate(const vote_cfg *c, const model *m, const vote_of *x, uint64_t **count)
{
    *count = mem_zalloc(m->n_classes, sizeof **count);
    const stet_status st =
        *count ? votes_count(m, x, (size_t)c->draws, TURN_CERTIFICATE, *count) : STET_ENOMEM;
    if (st != STET_OK) {
        mem_free(*count);
        *count = NULL;
    }
    return st;
}
