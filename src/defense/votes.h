/* defense/votes.h - what counts of votes say of the shares behind them, and draws for rules that
 * vote. Nothing here is a proof: every bound holds with a stated probability. */
#ifndef DEFENSE_VOTES_H
#define DEFENSE_VOTES_H

#include "bound/hulls.h"
#include "model/rule.h"

/* Clopper and Pearson: the share behind k successes of n is at least / at most this, each but for a
 * chance of `error`. Within 1e-10, on the safe side. */
double share_lower(uint64_t k, uint64_t n, double error);
double share_upper(uint64_t k, uint64_t n, double error);
/* The chance that a fair coin splits n as unevenly as k against n - k, or more. */
double coin_test(uint64_t k, uint64_t n);

/* RanMASK. m of L words are masked: the nearest whole number to rate * L (ties to even), but two words
 * stay where there are two. */
size_t masked_words(size_t L, double rate);
/* The chance that a copy of L words that keeps K shows one of r given words. */
double kept_chance(size_t L, size_t K, size_t r);
/* The most words that may change, whatever they become, while a share p stays above one half;
 * SIZE_MAX: p is not above it as it is. */
size_t masked_radius(size_t L, size_t K, double p);

/* SAFER. The share of draws that two words have in common, where each is drawn as any word of its list
 * or as itself; of lists of different sizes, of the longer one. */
double draws_shared(const word_sets *s, uint32_t a, uint32_t b);
/* q (n) says for each word how much of its draws every substitute of it shares: the chance that
 * R changed words show, at most. Sorts q. */
double swapped_chance(double *q, size_t n, size_t R);
/* Does the majority of `label` stay, when changes show with a chance of at most `changed`? Lower bound
 * of its share, upper bound of any other's; wrong with a chance of `error`, twice that where there
 * are more than two classes. */
typedef struct vote_bounds {
    double own, other;
    bool abstains, holds;
} vote_bounds;
static inline bool votes_hold(double own, double other, double changed)
{
    return (own - changed > 0 ? own - changed : 0) > (other + changed < 1 ? other + changed : 1);
}
vote_bounds votes_bound(const uint64_t *count, size_t n_classes, size_t label, double error,
                        double changed);

/* Settings of every rule that votes: the first field of its own. */
typedef struct vote_cfg {
    int64_t votes, draws;
    double error;
} vote_cfg;
#define VOTE_OPTS(name, T, most)                                                                   \
    STET_OPT_INT(name "-votes", T, vote.votes, "100", 1, 1000000, "N",                             \
                 name ": copies that vote on an answer"),                                          \
        STET_OPT_INT(name "-draws", T, vote.draws, "5000", 1, 10000000, "N",                       \
                     name ": copies that a certificate counts"),                                   \
        STET_OPT_REAL(name "-error", T, vote.error, "0.05", 1e-9, most, "P",                       \
                      name ": chance that a bound of a certificate may be wrong")

/* How many words of a text may change within a budget. */
size_t votes_asked(const stet_choices *choices, size_t budget);
/* What counts say of a text: verdict and budget, and as JSON what they follow from. */
typedef struct vote_finding {
    const uint64_t *count;
    size_t n_classes;
    double confidence;
    size_t radius; /* the most changed words that stand; SIZE_MAX: too few votes agree */
} vote_finding;
void votes_tell(const vote_cfg *c, const vote_finding *f, const stet_choices *choices,
                size_t budget, stet_certificate *out, buf *evidence);

/* A text of rows as words, those that the model reads. */
typedef struct vote_text {
    const uint32_t *rows, *at; /* word i is rows[at[i] .. at[i + 1]) */
    size_t n;
} vote_text;
/* STET_ENOTSUP: a model whose words cannot be told from its rows. */
stet_status votes_can_read(const model *m, const char *defense);
stet_status vote_text_make(const model *m, const uint32_t *rows, size_t n, arena *mem,
                           vote_text *out);
/* The text that a certificate is asked for (rule_desc.certify): of rows, or of words. */
stet_status vote_text_asked(const model *m, const uint32_t *ids, const stet_choices *choices,
                            arena *mem, vote_text *out);

/* Copies of a text, of up to `room` rows, which draw(ctx, r, text, copy) writes and gives the length
 * of. */
typedef size_t vote_draw(const void *ctx, rng *r, const vote_text *t, uint32_t *copy);
typedef struct vote_of {
    const vote_text *text;
    size_t room;
    vote_draw *draw;
    const void *ctx;
} vote_of;
/* Says what is drawn of a text, in memory of `mem`. */
typedef stet_status vote_open(const rule *r, const model *m, const vote_text *t, arena *mem,
                              vote_of *out);
/* The answers of a rule that votes, whose settings begin with a vote_cfg: logarithms of the shares,
 * half a vote added to each class. */
stet_status votes_answer(vote_open *open, const rule *r, const model *m, const stet_corpus *c,
                         float *logits);
/* Counts (K) for a certificate, of copies that are independent of those of the answer: a new block for
 * mem_free. */
stet_status votes_certificate(const vote_cfg *c, const model *m, const vote_of *x,
                              uint64_t **count);

#endif
