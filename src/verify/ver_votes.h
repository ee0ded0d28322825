/* verify/ver_votes.h - statements about models that answer by votes. None of them is a proof: each
 * holds at a confidence, and the counts of votes it rests on come from draws, which are not drawn
 * again here. What follows from the counts is computed anew. */
#ifndef VERIFY_VER_VOTES_H
#define VERIFY_VER_VOTES_H

#include "verify/ver_line.h"

/* Clopper and Pearson: but for a chance of `error`, the share behind k of n is at least / at most. */
double ver_share_lower(uint64_t k, uint64_t n, double error);
double ver_share_upper(uint64_t k, uint64_t n, double error);

/* Words that a word is drawn from beside itself, by numbers of the vocabulary. */
typedef struct ver_lists {
    const uint32_t *first, *n, *word; /* word[first[w]] and the n[w] - 1 behind it */
    char sha256[SHA256_HEX];
} ver_lists;
/* A built set (docs/formats.md) of words that are all in the vocabulary. */
stet_status ver_lists_load(const char *path, const strmap *vocab, arena *a, ver_lists *out);

/* How a model votes: "rule" of its config.json. */
typedef struct ver_votes {
    const struct ver_vote_rule *rule;
    json_t *config; /* owned */
    uint64_t draws;
    double error, confidence;
    double rate;     /* RanMASK: share of the words that a copy masks */
    ver_lists lists; /* SAFER */
} ver_votes;

/* Is this "rule" one of votes that can be checked? */
bool ver_votes_known(const json_t *rule);
/* For a model that is otherwise read. */
stet_status ver_votes_load(const json_t *rule, const char *dir, ver_model *m);
void ver_votes_free(ver_votes *v); /* NULL is fine */
/* STET_EFORMAT where the header of a file does not say what is known of the model. */
stet_status ver_votes_header(const ver_votes *v, const json_t *header);
/* As ver_line_check. */
stet_status ver_votes_check(const ver_model *m, const ver_line *l, size_t needed, arena *a);

#endif
