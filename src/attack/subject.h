/* attack/subject.h - one text after the other through the attack: read, searched, checked,
 * recorded. */
#ifndef ATTACK_SUBJECT_H
#define ATTACK_SUBJECT_H

#include "attack/attack_impl.h"
#include "attack/record.h"
#include "base/rng.h"
#include "base/strmap.h"
#include "model/rule.h"

/* What all texts share. */
typedef struct attack_job {
    const stet_attack_args *a;
    const attack_desc *d;
    attack_settings set;
    struct answers *on; /* who answers for the model; NULL: its views */
    stet_words *words; /* of the run: a model's vocabulary, then those of the sets */
    stet_bound *bound;
    strmap stop;
    victim_desk *desk;            /* of a function that is the victim */
    stet_prover *prover;          /* or NULL */
    struct attack_worker *worker; /* (n_workers) */
    size_t n_workers;
    record *record; /* (n), ascending index */
    size_t n;
    /* of the texts that are done */
    size_t counted, correct, succeeded; /* with a result; right before; flipped */
    size_t errors_in_a_row;
    rule drawn;  /* with the setting `draws`: the model's rule, */
    model asked; /* and the model with that */
} attack_job;

typedef struct rng_chance {
    chance c;
    rng r;
} rng_chance;

/* What a thread keeps from text to text. */
typedef struct attack_worker {
    stet_words *words; /* a fork, for the words of the text in work */
    victim *v;
    struct search_memory *memory;
    arena mem;
    stet_reading reading, again; /* the text, and what an attack made of it */
    stet_choices choices;
    search s;
    rng_chance chance;
    const char **with; /* (first[n]) the candidates as words, beside search.word */
    attack_text text;
} attack_worker;

/* Fills in the record and appends its line. */
stet_status subject_attack(attack_job *j, attack_worker *w, record *r, buf *line);
void subject_worker_free(attack_worker *w);

/* Does a text's answer rest on draws (rule_desc.answers_draw)? Then, after the search: what other draws
 * make of the texts as the attack left them. */
bool attack_redraws(const stet_attack_args *a);
stet_status attack_redraw(const attack_job *j, stet_attack_result *out);

/* The built-in similarity: the cosine of the mean vectors of two lists of words. `user` is the
 * model. */
double similarity_mean(void *user, const stet_words *w, const uint32_t *a, const uint32_t *b,
                       size_t n);

#endif
