/* tests/attack/toy.h - the toy classifier of the golden cases: z = bias + sum of word weights,
 * P(class 1) = 1/(1+exp(-z)); masked and deleted words weigh nothing. Chance is a list of numbers.
 */
#ifndef TESTS_ATTACK_TOY_H
#define TESTS_ATTACK_TOY_H

#include "attack/attacks.h"
#include "test.h"

enum { TOY_MAX = 32, TOY_CANDIDATES = 8 };

typedef struct toy_victim {
    victim v;
    double bias;
    size_t n;
    uint32_t ids[TOY_MAX];
    double weight[TOY_MAX]; /* by vocabulary id */
} toy_victim;

typedef struct toy_chance {
    chance c;
    const double *u;
    size_t n, used;
} toy_chance;

/* A text: words with weights and, for each, the weights of its candidates; ends with a NULL name.
 */
typedef struct toy_word {
    const char *name;
    double weight;
    struct {
        const char *name;
        double weight;
    } with[TOY_CANDIDATES];
    bool filtered;
} toy_word;

typedef struct toy {
    toy_victim victim;
    toy_chance chance;
    search s;
    arena mem;
    attack_text text;
    const char *name[TOY_MAX];
    uint32_t ids[TOY_MAX], first[TOY_MAX], word[TOY_MAX];
    unsigned char filtered[TOY_MAX], listed[TOY_MAX];
} toy;

static double toy_next(chance *c)
{
    toy_chance *t = (toy_chance *)c;
    CHECK(t->used < t->n);
    return t->u[t->used++];
}

static stet_status toy_open(victim *v, const attack_text *t)
{
    toy_victim *o = (toy_victim *)v;
    o->n = t->n;
    memcpy(o->ids, t->ids, t->n * sizeof *t->ids);
    return STET_OK;
}

static stet_status toy_ask(victim *v, const stet_edit *edits, const size_t *start, size_t n,
                           double *prob)
{
    const toy_victim *o = (const toy_victim *)v;
    for (size_t i = 0; i < n; i++) {
        double z = o->bias;
        size_t e = start[i];
        for (size_t k = 0; k < o->n; k++) {
            const bool edited = e < start[i + 1] && edits[e].pos == k;
            const uint32_t id = edited ? edits[e++].word : o->ids[k];
            z += id == WORD_DELETED ? 0 : o->weight[id];
        }
        prob[2 * i + 1] = 1 / (1 + exp(-z));
        prob[2 * i] = 1 - prob[2 * i + 1];
    }
    return STET_OK;
}

static inline void toy_start(toy *t, const toy_word *words, double bias, const double *u,
                             size_t n_u)
{
    memset(t, 0, sizeof *t);
    uint32_t id = STET_FIRST_WORD, made = 0;
    size_t n = 0;
    for (; words[n].name; n++) {
        t->ids[n] = id;
        t->name[id] = words[n].name;
        t->victim.weight[id++] = words[n].weight;
        for (size_t c = 0; c < TOY_CANDIDATES && words[n].with[c].name; c++) {
            t->name[id] = words[n].with[c].name;
            t->victim.weight[id] = words[n].with[c].weight;
            t->word[made++] = id++;
        }
        t->first[n + 1] = made;
        t->filtered[n] = words[n].filtered;
        t->listed[n] = 1;
    }
    t->victim.v = (victim){.n_classes = 2, .open = toy_open, .ask = toy_ask};
    t->victim.bias = bias;
    t->chance = (toy_chance){.c = {.next = toy_next}, .u = u, .n = n_u};
    t->text = (attack_text){.ids = t->ids, .n = n};
    t->s = (search){.n = n,
                    .y = 1,
                    .ids = t->ids,
                    .first = t->first,
                    .word = t->word,
                    .filtered = t->filtered,
                    .listed = t->listed,
                    .mask = STET_UNK,
                    .v = &t->victim.v,
                    .chance = &t->chance.c,
                    .mem = &t->mem};
    t->s.common.window = 15;
    CHECK_OK(search_memory_new(&t->s.memory));
    CHECK_OK(search_start(&t->s, &t->text));
}

static inline void toy_end(toy *t)
{
    search_memory_free(t->s.memory);
    arena_deinit(&t->mem);
}

/* Run an attack with settings on top of a profile. */
static inline stet_status toy_run(toy *t, const char *attack, const char *profile,
                                  const char *const *settings)
{
    const attack_desc *d = attack_find(attack);
    CHECK(d != NULL);
    attack_settings set;
    CHECK_OK(attack_settings_make(d, profile, settings, &set));
    t->s.common = set.common;
    const stet_status st = d->run(&t->s, set.cfg);
    attack_settings_free(&set);
    return st;
}

/* The text found, words with spaces between. */
static inline const char *toy_text(const toy *t, const pick *x)
{
    static char out[256];
    out[0] = '\0';
    for (size_t i = 0; i < t->s.n; i++)
        snprintf(out + strlen(out), sizeof out - strlen(out), i ? " %s" : "%s",
                 t->name[search_word(&t->s, i, x[i])]);
    return out;
}

static inline double toy_p(toy *t, const pick *x)
{
    size_t row;
    CHECK_OK(search_ask(&t->s, x, &row));
    CHECK_OK(search_answer(&t->s));
    return search_p(&t->s, row);
}

static const toy_word good_film[] = {
    {"good", 1.0, {{"fine", 0.6}, {"decent", -0.2}}, false},
    {"film", 0.2, {{"movie", 0.3}, {"picture", 0.1}}, false},
    {"great", 2.0, {{"super", 1.5}, {"terrific", 0.4}}, false},
    {"fun", 0.5, {{NULL, 0}}, false},
    {0},
};

#endif
