/* verify/ver_votes.c - see ver_votes.h: what counts of votes say, for RanMASK and SAFER. */
#include "verify/ver_votes.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

/* Room for the last digits of two ways to compute one number; counts are whole numbers, so no claim
 * gains a word by it unless it was that close. */
static const double DIGITS = 1e-9;

/* ---- shares ------------------------------------------------------------------------------- */

static double log_factorial(uint64_t n)
{
    int sign;
    return lgamma_r((double)n + 1, &sign);
}

/* The chance of k or more of n, each with chance p < k / n: terms that fall from the first on. */
static double tail(uint64_t k, uint64_t n, double p)
{
    double term = exp(log_factorial(n) - log_factorial(k) - log_factorial(n - k) +
                      (double)k * log(p) + (double)(n - k) * log1p(-p)),
           sum = 0;
    for (uint64_t j = k; term > sum * 1e-18; j++) {
        sum += term;
        if (j == n)
            break;
        term *= (double)(n - j) / (double)(j + 1) * p / (1 - p);
    }
    return sum;
}

double ver_share_lower(uint64_t k, uint64_t n, double error)
{
    double lo = 0, hi = (double)k / (double)n; /* there the chance is one half or more */
    if (k == n)
        return pow(error, 1 / (double)n);
    for (int i = 0; k > 0 && i < 60; i++) {
        const double p = (lo + hi) / 2;
        if (tail(k, n, p) < error)
            lo = p;
        else
            hi = p;
    }
    return lo;
}

double ver_share_upper(uint64_t k, uint64_t n, double error)
{
    return 1 - ver_share_lower(n - k, n, error);
}

/* ---- the rules ---------------------------------------------------------------------------- */

/* What a line states about votes, as far as it has been looked at. */
typedef struct finding {
    const ver_model *m;
    const ver_line *l;
    const json_t *votes;
    const uint64_t *count; /* (classes) */
    size_t changeable;
    size_t words, masked; /* RanMASK */
    double *q;            /* (changeable) SAFER, ascending */
} finding;

typedef struct ver_vote_rule {
    const char *name, *file;     /* of its lists, or NULL */
    const char *const *settings; /* those in config.json, NULL at the end */
    const char *const *keys;     /* of its own in "votes", NULL at the end */
    const char *rate;            /* the setting with the share of words that are masked, or NULL */
    bool two_bounds;             /* of shares, where there are more than two classes */
    /* Compares what the line says with its words, and keeps it. */
    stet_status (*read)(finding *f, arena *a);
    /* Does the answer stand `radius` changed words? */
    bool (*stands)(const finding *f, size_t radius);
} ver_vote_rule;

static double lower_of_label(const finding *f)
{
    const ver_votes *v = f->m->votes;
    return ver_share_lower(f->count[f->l->text.label], v->draws, v->error);
}

/* RanMASK: the nearest whole number, ties to even; two words stay where there are two. */
static size_t masked_of(size_t words, double rate)
{
    const double x = (double)words * rate, whole = floor(x);
    size_t n = (size_t)whole;
    n += x - whole > 0.5 || (x - whole == 0.5 && n % 2 == 1);
    const size_t most = words > 2 ? words - 2 : 0;
    return n < most ? n : most;
}

static stet_status ranmask_read(finding *f, arena *a)
{
    (void)a;
    int64_t words, masked;
    f->words = f->l->task.n;
    f->masked = masked_of(f->words, f->m->votes->rate);
    TRY(json_get_int(f->votes, "\"votes\"", "words", 0, INT64_MAX, &words));
    TRY(json_get_int(f->votes, "\"votes\"", "masked", 0, INT64_MAX, &masked));
    if ((size_t)words != f->words || (size_t)masked != f->masked)
        return error_set(STET_EFORMAT, "\"words\" or \"masked\": expected %zu and %zu", f->words,
                         f->masked);
    return STET_OK;
}

/* A copy keeps some of the words. The chance that it keeps none of `radius` changed ones. */
static bool ranmask_stands(const finding *f, size_t radius)
{
    double unseen = 1;
    for (size_t i = 0; i < f->words - f->masked; i++)
        unseen *=
            radius + i < f->words ? (double)(f->words - radius - i) / (double)(f->words - i) : 0;
    return lower_of_label(f) - (1 - unseen) > 0.5 - DIGITS;
}

static bool is_drawn(const ver_lists *s, uint32_t word, uint32_t of)
{
    for (uint32_t k = 0; k < s->n[of]; k++)
        if (s->word[s->first[of] + k] == word)
            return true;
    return word == of;
}

/* How much of their draws two words have in common. */
static double shared(const ver_lists *s, uint32_t a, uint32_t b)
{
    const uint32_t na = s->n[a] + 1, nb = s->n[b] + 1;
    uint32_t common = is_drawn(s, a, b);
    for (uint32_t k = 0; k < s->n[a]; k++)
        common += is_drawn(s, s->word[s->first[a] + k], b);
    return (double)common / (double)(na > nb ? na : nb);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What the words that can change share with their substitutes, at least. */
static stet_status safer_read(finding *f, arena *a)
{
    const ver_task *t = &f->l->task;
    const json_t *stated = json_object_get(f->votes, "shared");
    f->q = arena_new(a, double, f->changeable + 1);
    if (!f->q)
        return STET_ENOMEM;
    if (!json_is_array(stated) || json_array_size(stated) != f->changeable)
        return error_set(STET_EFORMAT, "\"shared\": expected %zu numbers", f->changeable);
    size_t i = 0;
    for (size_t p = 0; p < t->n; p++) {
        if (t->start[p + 1] - t->start[p] == 1)
            continue;
        double q = 1;
        for (uint32_t k = t->start[p] + 1; k < t->start[p + 1]; k++)
            q = fmin(q, shared(&f->m->votes->lists, t->word[t->start[p]], t->word[k]));
        const json_t *given = json_array_get(stated, i);
        if (!json_is_number(given) || !(fabs(json_number_value(given) - q) <= DIGITS))
            return error_set(STET_EFORMAT, "\"shared\": expected %.9g for position %zu", q, p);
        f->q[i++] = q;
    }
    qsort(f->q, f->changeable, sizeof *f->q, ascending);
    return STET_OK;
}

static bool safer_stands(const finding *f, size_t radius)
{
    const ver_votes *v = f->m->votes;
    double same = 1, own = lower_of_label(f), other = 1 - own;
    uint64_t most = 0;
    for (size_t i = 0; i < radius && i < f->changeable; i++)
        same *= f->q[i];
    for (size_t k = 0; k < f->m->classes; k++)
        if (k != (size_t)f->l->text.label && f->count[k] > most)
            most = f->count[k];
    if (f->m->classes > 2)
        other = fmin(other, ver_share_upper(most, v->draws, v->error / (double)f->m->classes));
    return own > 0.5 - DIGITS && fmax(own - (1 - same), 0) > fmin(other + (1 - same), 1) - DIGITS;
}

static const ver_vote_rule rules[] = {
    {.name = "ranmask",
     .settings = (const char *const[]){"ranmask-rate", "ranmask-votes", "ranmask-draws",
                                       "ranmask-error", NULL},
     .keys = (const char *const[]){"words", "masked", NULL},
     .rate = "ranmask-rate",
     .read = ranmask_read,
     .stands = ranmask_stands},
    {.name = "safer",
     .file = "safer.subst",
     .settings =
         (const char *const[]){"safer-most", "safer-votes", "safer-draws", "safer-error", NULL},
     .keys = (const char *const[]){"shared", NULL},
     .two_bounds = true,
     .read = safer_read,
     .stands = safer_stands},
};

/* ---- the model ---------------------------------------------------------------------------- */

static const ver_vote_rule *rule_of(const json_t *rule)
{
    const char *name = json_string_value(json_object_get(rule, "name"));
    for (size_t i = 0; name && i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].name, name) == 0)
            return &rules[i];
    return NULL;
}

bool ver_votes_known(const json_t *rule)
{
    return rule_of(rule) != NULL;
}

static stet_status read_settings(ver_votes *v)
{
    static const char what[] = "config.json: rule";
    static const char *const keys[] = {"name", "settings", NULL};
    const json_t *s = json_object_get(v->config, "settings");
    char draws[32], error[32];
    int64_t n;
    snprintf(draws, sizeof draws, "%s-draws", v->rule->name);
    snprintf(error, sizeof error, "%s-error", v->rule->name);
    TRY(ver_only_keys(v->config, what, keys));
    TRY(ver_only_keys(s, what, v->rule->settings));
    TRY(json_get_int(s, what, draws, 1, 10000000, &n));
    TRY(json_get_real(s, what, error, &v->error));
    v->draws = (uint64_t)n;
    const double most = v->rule->two_bounds ? 0.25 : 0.5;
    if (!(v->error > 0 && v->error <= most))
        return error_set(STET_EFORMAT, "%s: \"%s\" is not a chance up to %g", what, error, most);
    if (!v->rule->rate)
        return STET_OK;
    TRY(json_get_real(s, what, v->rule->rate, &v->rate));
    return v->rate >= 0 && v->rate <= 1
               ? STET_OK
               : error_set(STET_EFORMAT, "%s: \"%s\" is not between 0 and 1", what,
                           v->rule->rate);
}

static stet_status read_lists(const char *dir, const ver_model *m, arena *a, ver_votes *v)
{
    if (!v->rule->file)
        return STET_OK;
    char *path = path_join(dir, v->rule->file);
    const stet_status st = path ? ver_lists_load(path, &m->vocab, a, &v->lists) : STET_ENOMEM;
    mem_free(path);
    return st;
}

stet_status ver_votes_load(const json_t *rule, const char *dir, ver_model *m)
{
    ver_votes *v = m->votes = arena_znew(&m->mem, ver_votes, 1);
    if (!v)
        return STET_ENOMEM;
    v->rule = rule_of(rule);
    v->config = json_deep_copy(rule);
    if (!v->config)
        return error_set(STET_ENOMEM, "out of memory for a rule");
    TRY(read_settings(v));
    v->confidence = 1 - (v->rule->two_bounds && m->classes > 2 ? 2 : 1) * v->error;
    return read_lists(dir, m, &m->mem, v);
}

void ver_votes_free(ver_votes *v)
{
    if (v)
        json_decref(v->config);
}

stet_status ver_votes_header(const ver_votes *v, const json_t *header)
{
    const json_t *lists = json_object_get(header, "lists");
    if (!json_equal(json_object_get(header, "rule"), v->config))
        return error_set(STET_EFORMAT, "\"rule\" is not that of the model");
    if ((v->rule->file != NULL) != (lists != NULL) ||
        (lists && (!json_is_string(lists) || strcmp(json_string_value(lists), v->lists.sha256))))
        return error_set(STET_EFORMAT, "\"lists\" is not the digest of the model's lists");
    return STET_OK;
}

/* ---- one line ----------------------------------------------------------------------------- */

static stet_status check_keys(const finding *f)
{
    static const char *const common[] = {"counts",     "draws",  "error", "confidence",
                                         "changeable", "radius", NULL};
    const char *keys[16];
    size_t n = 0;
    for (size_t i = 0; common[i]; i++)
        keys[n++] = common[i];
    for (size_t i = 0; f->m->votes->rule->keys[i]; i++)
        keys[n++] = f->m->votes->rule->keys[i];
    keys[n] = NULL;
    return ver_only_keys(f->votes, "\"votes\"", keys);
}

/* As many votes as draws, one number for each class. */
static stet_status read_counts(finding *f, arena *a)
{
    const json_t *counts = json_object_get(f->votes, "counts");
    const ver_votes *v = f->m->votes;
    uint64_t *count = arena_new(a, uint64_t, f->m->classes), sum = 0;
    int64_t draws;
    if (!count)
        return STET_ENOMEM;
    TRY(json_get_int(f->votes, "\"votes\"", "draws", 1, INT64_MAX, &draws));
    if ((uint64_t)draws != v->draws)
        return error_set(STET_EFORMAT, "\"draws\" is %lld, the model draws %llu", (long long)draws,
                         (unsigned long long)v->draws);
    if (json_array_size(counts) != f->m->classes)
        return error_set(STET_EFORMAT, "\"counts\": expected %zu numbers", f->m->classes);
    for (size_t k = 0; k < f->m->classes; k++) {
        const json_t *c = json_array_get(counts, k);
        if (!json_is_integer(c) || json_integer_value(c) < 0 || json_integer_value(c) > draws)
            return error_set(STET_EFORMAT, "\"counts\": class %zu: expected 0 to %lld votes", k,
                             (long long)draws);
        count[k] = (uint64_t)json_integer_value(c);
        sum += count[k];
    }
    if (sum != v->draws)
        return error_set(STET_EFORMAT, "\"counts\" sum to %llu, not to the %llu draws",
                         (unsigned long long)sum, (unsigned long long)v->draws);
    f->count = count;
    return STET_OK;
}

static stet_status check_confidence(const finding *f)
{
    const ver_votes *v = f->m->votes;
    double error, confidence;
    TRY(json_get_real(f->votes, "\"votes\"", "error", &error));
    TRY(json_get_real(f->votes, "\"votes\"", "confidence", &confidence));
    if (error != v->error)
        return error_set(STET_EFORMAT, "\"error\" is %.9g, the model's is %.9g", error, v->error);
    if (!(fabs(confidence - v->confidence) <= 1e-12))
        return error_set(STET_EFORMAT, "\"confidence\" is %.9g, from the error follows %.9g",
                         confidence, v->confidence);
    return STET_OK;
}

static stet_status check_changeable(finding *f)
{
    int64_t stated;
    const ver_task *t = &f->l->task;
    for (size_t p = 0; p < t->n; p++)
        f->changeable += t->start[p + 1] - t->start[p] > 1;
    TRY(json_get_int(f->votes, "\"votes\"", "changeable", 0, INT64_MAX, &stated));
    if ((size_t)stated != f->changeable)
        return error_set(STET_EFORMAT, "\"changeable\": %zu words have substitutes", f->changeable);
    return STET_OK;
}

/* The radius follows from the counts, verdict and budget from the radius. */
static stet_status check_radius(const finding *f, size_t needed)
{
    const ver_line *l = f->l;
    const json_t *stated = json_object_get(f->votes, "radius");
    const size_t asked = f->changeable < needed ? f->changeable : needed;
    size_t budget = 0;
    bool likely = false;
    if (!json_is_null(stated)) {
        int64_t radius;
        TRY(json_get_int(f->votes, "\"votes\"", "radius", 0, INT64_MAX, &radius));
        if (!f->m->votes->rule->stands(f, (size_t)radius))
            return error_set(STET_EFORMAT, "\"radius\" is %lld: the counts do not support it",
                             (long long)radius);
        likely = (size_t)radius >= asked;
        budget = likely && (needed == VER_ANY || asked < needed) ? VER_ANY : (size_t)radius;
    }
    if (likely != (l->verdict == VER_LIKELY))
        return error_set(STET_EFORMAT, "\"verdict\": from the radius follows \"%s\"",
                         likely ? "likely" : "undecided");
    if (l->task.budget == budget)
        return STET_OK;
    return budget == VER_ANY
               ? error_set(STET_EFORMAT, "\"budget\": from the radius follows null")
               : error_set(STET_EFORMAT, "\"budget\": from the radius follows %zu", budget);
}

stet_status ver_votes_check(const ver_model *m, const ver_line *l, size_t needed, arena *a)
{
    finding f = {.m = m, .l = l, .votes = l->votes};
    if (!l->unread && (l->answer == l->text.label) != (l->verdict != VER_WRONG))
        return error_set(STET_EFORMAT, "label %d, answer %d do not fit the verdict", l->text.label,
                         l->answer);
    if (!l->unread && (l->verdict == VER_WRONG ? l->clean > 0 : l->clean < 0))
        return error_set(STET_EFORMAT, "\"clean\" is %.9g: that does not fit the verdict",
                         l->clean);
    if (!l->votes)
        return l->verdict != VER_LIKELY && l->task.budget == 0
                   ? STET_OK
                   : error_set(STET_EFORMAT, "likely, or a budget, without \"votes\"");
    if (l->verdict == VER_WRONG || l->unread)
        return error_set(STET_EFORMAT, "\"votes\" for an answer that is not the label");
    TRY(check_keys(&f));
    TRY(read_counts(&f, a));
    TRY(check_confidence(&f));
    TRY(check_changeable(&f));
    TRY(m->votes->rule->read(&f, a));
    return check_radius(&f, needed);
}
