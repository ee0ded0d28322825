/* defense/votes.c - see votes.h. */
#include "defense/votes.h"

#include <inttypes.h>
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

/* lgamma() tells the sign in a variable that all threads share. */
static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* The chance of at least k successes of n, each with chance p; 0 < k <= n. */
static double at_least(uint64_t k, uint64_t n, double p)
{
    const double a = (double)k, b = (double)(n - k) + 1;
    if (p <= 0 || p >= 1)
        return p <= 0 ? 0 : 1;
    const double front =
        exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(p) + b * log1p(-p));
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

/* ---- findings ----------------------------------------------------------------------------- */

size_t votes_asked(const stet_choices *choices, size_t budget)
{
    const size_t n = stet_choices_changeable(choices);
    return n < budget ? n : budget;
}

void votes_tell(const vote_cfg *c, const vote_finding *f, const stet_choices *choices,
                size_t budget, stet_certificate *out, buf *evidence)
{
    const size_t asked = votes_asked(choices, budget);
    const bool agreed = f->radius != SIZE_MAX, holds = agreed && f->radius >= asked;
    out->verdict = holds ? STET_LIKELY : STET_UNDECIDED;
    out->budget = agreed ? f->radius : 0;
    if (holds && (budget == STET_ANY || asked < budget))
        out->budget = STET_ANY;
    for (size_t k = 0; k < f->n_classes; k++)
        buf_printf(evidence, "%s%" PRIu64, k ? "," : "\"counts\":[", f->count[k]);
    buf_printf(evidence, "],\"draws\":%" PRId64 ",\"error\":", c->draws);
    buf_real(evidence, c->error);
    buf_str(evidence, ",\"confidence\":");
    buf_real(evidence, f->confidence);
    buf_printf(evidence, ",\"changeable\":%zu,\"radius\":", stet_choices_changeable(choices));
    if (agreed)
        buf_printf(evidence, "%zu", f->radius);
    else
        buf_str(evidence, "null");
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

/* Draws that are independent of each other, and of those of another rule.redraw. */
enum { TURN_ANSWER = 1, TURN_CERTIFICATE, TURNS };

/* Copies of some texts, which the network is asked about together. */
enum { COPIES = 4096 };
typedef struct vote_queue {
    const model *m;
    uint64_t *count; /* (texts, K) */
    size_t n;
    uint32_t of[COPIES], *rows;
    uint64_t start[COPIES + 1];
    int32_t label[COPIES];
    size_t cap; /* of rows */
    float *logits;
} vote_queue;

static void queue_close(vote_queue *q)
{
    if (!q)
        return;
    mem_free(q->rows);
    mem_free(q->logits);
    mem_free(q);
}

/* For so many copies in all. NULL: no memory. */
static vote_queue *queue_open(const model *m, size_t copies, uint64_t *count)
{
    vote_queue *q = mem_zalloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->m = m;
    q->count = count;
    q->logits = mem_alloc((copies < COPIES ? copies : COPIES) * m->n_classes, sizeof *q->logits);
    if (q->logits)
        return q;
    queue_close(q);
    return NULL;
}

/* The network's answers to all that wait are counted. */
static stet_status queue_ask(vote_queue *q)
{
    const size_t K = q->m->n_classes, n = q->n;
    const stet_corpus texts = {n, (size_t)q->start[n], K, q->rows, q->start, q->label};
    q->n = 0;
    TRY(model_network_logits(q->m, &texts, q->logits));
    for (size_t v = 0; v < n; v++)
        q->count[q->of[v] * K + stet_argmax(q->logits + v * K, K)]++;
    return STET_OK;
}

/* n copies of text i. The draws derive from its words and `turn`. */
static stet_status queue_copies(vote_queue *q, const vote_of *x, uint32_t i, size_t n,
                                uint64_t turn)
{
    const vote_text *t = x->text;
    rng r =
        rng_stream(hash_bytes(t->rows, t->at[t->n] * sizeof *t->rows, turn), STREAM_DEFENSE, turn);
    for (; n > 0; n--) {
        if (q->n == COPIES)
            TRY(queue_ask(q));
        const size_t at = (size_t)q->start[q->n];
        TRY(mem_grow(&q->rows, &q->cap, at + x->room + 1, sizeof *q->rows)); /* never none */
        q->of[q->n] = i;
        q->start[++q->n] = at + x->draw(x->ctx, &r, t, q->rows + at);
    }
    return STET_OK;
}

static stet_status queue_texts(vote_queue *q, vote_open *open, const rule *r, const stet_corpus *c)
{
    const vote_cfg *cfg = r->cfg;
    arena mem = {0};
    stet_status st = STET_OK;
    for (uint32_t i = 0; st == STET_OK && i < c->n_texts; i++) {
        size_t n;
        const uint32_t *rows = corpus_rows(q->m, c, i, &n);
        vote_text t;
        vote_of x;
        st = vote_text_make(q->m, rows, n, &mem, &t);
        if (st == STET_OK)
            st = open(r, q->m, &t, &mem, &x);
        if (st == STET_OK)
            st = queue_copies(q, &x, i, (size_t)cfg->votes, TURN_ANSWER + TURNS * r->redraw);
        arena_restore(&mem, (arena_mark){0});
    }
    arena_deinit(&mem);
    return st == STET_OK ? queue_ask(q) : st;
}

stet_status votes_answer(vote_open *open, const rule *r, const model *m, const stet_corpus *c,
                         float *logits)
{
    const vote_cfg *cfg = r->cfg;
    const size_t K = m->n_classes;
    const double all = (double)cfg->votes + 0.5 * (double)K;
    uint64_t *count = mem_zalloc(c->n_texts * K, sizeof *count);
    vote_queue *q = count ? queue_open(m, c->n_texts * (size_t)cfg->votes, count) : NULL;
    const stet_status st = q ? queue_texts(q, open, r, c) : STET_ENOMEM;
    for (size_t i = 0; st == STET_OK && i < c->n_texts * K; i++)
        logits[i] = (float)log(((double)count[i] + 0.5) / all);
    queue_close(q);
    mem_free(count);
    return st;
}

stet_status votes_certificate(const vote_cfg *c, const model *m, const vote_of *x, uint64_t **count)
{
    *count = mem_zalloc(m->n_classes, sizeof **count);
    vote_queue *q = *count ? queue_open(m, (size_t)c->draws, *count) : NULL;
    stet_status st = q ? queue_copies(q, x, 0, (size_t)c->draws, TURN_CERTIFICATE) : STET_ENOMEM;
    if (st == STET_OK)
        st = queue_ask(q);
    queue_close(q);
    if (st != STET_OK) {
        mem_free(*count);
        *count = NULL;
    }
    return st;
}
