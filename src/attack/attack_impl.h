/* attack/attack_impl.h - what an attack is and what it sees: a victim that answers, words that may
 * stand at each position, chance, and a budget. Adding one: a file that defines an attack_desc, a
 * line in attacks.h, a test, a section in docs/attacks.md. */
#ifndef ATTACK_ATTACK_IMPL_H
#define ATTACK_ATTACK_IMPL_H

#include "base/arena.h"
#include "stet/attack.h"
#include "stet/choices.h"

/* ---- the victim --------------------------------------------------------------------------- */

/* The word of an edit that takes the word at its position out of the text. */
#define WORD_DELETED UINT32_MAX

/* A text under attack. */
typedef struct attack_text {
    stet_str text;
    const stet_tokens *tokens;
    const uint32_t *ids; /* (n) */
    size_t n;            /* positions that the victim reads; 0 for an empty text */
} attack_text;

/* Answers class probabilities for edits of the text last opened. One thread at a time. */
typedef struct victim {
    size_t n_classes; /* K */
    stet_status (*open)(struct victim *v, const attack_text *t);
    /* (n, K): variant i applies edits[start[i] .. start[i+1]) to the opened text, ascending
     * positions. */
    stet_status (*ask)(struct victim *v, const stet_edit *edits, const size_t *start, size_t n,
                       double *prob);
    /* The next questions will be near this variant; a hint, may be NULL. */
    stet_status (*near)(struct victim *v, const stet_edit *edits, size_t n);
    void (*free)(struct victim *v);
} victim;

struct answers;
/* Edits speak words of `w`, borrowed; of a model, NULL means ids of its vocabulary. `on`: who answers
 * for the model (model/answers.h); NULL: its views. */
stet_status victim_of_model(const stet_model *m, struct answers *on, const stet_words *w,
                            victim **out);

/* Where the texts under attack meet before they ask a function: `workers` of them at a time, `texts`
 * in all, each of which is told of when it is done. */
typedef struct victim_desk victim_desk;
stet_status victim_desk_new(const stet_attack_args *a, size_t workers, size_t texts,
                            victim_desk **out); /* to be freed after a failure, too */
void victim_desk_text_done(victim_desk *d);
void victim_desk_free(victim_desk *d); /* NULL is fine */
stet_status victim_of_function(victim_desk *desk, const stet_words *w, victim **out);
/* The text with edits made, as a new string for stet_free(). */
stet_status attack_text_edited(const attack_text *t, const stet_words *w, const stet_edit *edits,
                               size_t n, char **out);
/* A row of probabilities: K numbers from 0 on that sum to 1. NULL, or what is wrong with it. */
const char *victim_row_wrong(const double *prob, size_t k);
stet_status victim_of_command(const char *command, double timeout, const stet_words *w,
                              size_t n_classes, victim **out);

/* ---- chance ------------------------------------------------------------------------------- */

/* Where an attack draws from; tests give it a list of numbers. */
typedef struct chance {
    double (*next)(struct chance *c); /* [0, 1) */
} chance;
size_t chance_below(chance *c, size_t n);                      /* floor(u * n) */
size_t chance_pick(chance *c, const double *weight, size_t n); /* as rng_pick */

/* ---- settings of every attack ------------------------------------------------------------- */

typedef enum similarity_kind { SIMILARITY_NONE, SIMILARITY_MEAN } similarity_kind;
typedef enum similarity_scale { SCALE_COSINE, SCALE_ANGLE, SCALE_ANGLE_PI } similarity_scale;

typedef struct attack_common {
    int64_t max_candidates; /* of a word; 0: all */
    double max_change;      /* share of words that may change; 0: all */
    double max_result;      /* a success that changed more does not count; 0: all count */
    int64_t budget;         /* queries per text; 0: no limit */
    int similarity, scale;
    double least_similarity;
    int64_t window; /* words around a change that are compared */
    bool proofs;    /* ask for a cheap proof first, and leave the texts that have one */
    int64_t draws;  /* of a model that draws: an answer is the mean over so many; 0: its own */
} attack_common;

/* What a substitution must keep: see constraints.c. Any part may be absent. */
typedef struct constraints {
    stet_similarity_fn *similarity;
    void *user;
    const stet_tagger *tagger;
    const stet_words *words;
} constraints;

/* ---- the search --------------------------------------------------------------------------- */

/* The choice at a position: 0 the original word, k its k-th candidate. A text is an array of n
 * picks. */
typedef uint16_t pick;
enum {
    PICK_ORIGINAL = 0,
    PICK_MASKED = UINT16_MAX,
    PICK_DELETED = UINT16_MAX - 1,
    MAX_CANDIDATES = UINT16_MAX - 2
};

/* Leaves an attack whose budget is spent; the frame makes a failure of it. */
#define OVER_BUDGET ((stet_status)64)
/* Leaves one whose time is up: the text has no result. */
#define OVER_TIME ((stet_status)65)

typedef struct search {
    /* the problem */
    size_t n, n_classes;   /* positions, K */
    int y;                 /* the class that should be left */
    const uint32_t *ids;   /* (n) */
    const uint32_t *first; /* (n + 1): candidates of position i are word[first[i] .. first[i+1]) */
    const uint32_t *word;
    const unsigned char *filtered; /* (n) 1: a stop word, never changed */
    const unsigned char *listed;   /* (n) 1: the sets know the word, if only as itself */
    uint32_t mask;                 /* what PICK_MASKED reads as */
    attack_common common;
    double deadline; /* on seconds_now(); 0: none */
    constraints keep;
    stet_prover *prover; /* NULL: nobody knows more than the search finds out */
    size_t worker;       /* who asks it, about */
    stet_choices may;    /* what may stand at each position that search_free() says */
    const char **tags;   /* (n) tags of the original words; NULL without a tagger */
    victim *v;
    chance *chance;
    arena *mem; /* of this text */

    /* the outcome */
    pick *found;                   /* (n) the text that flipped the victim, or the last one tried */
    bool success, complete;        /* complete: every variant was seen */
    bool proved;                   /* left, since nothing can turn the victim */
    uint64_t queries, evaluations; /* as the frameworks count; variants computed */

    struct search_memory *memory; /* asked and answered, see search.c */
} search;

stet_status search_memory_new(struct search_memory **out); /* reused from text to text */
void search_memory_free(struct search_memory *m);
/* Open the text: its own probabilities become row 0. The fields of the problem are already set. */
stet_status search_start(search *s, const attack_text *t);

static inline size_t search_count(const search *s, size_t i) /* candidates of position i */
{
    return s->first[i + 1] - s->first[i];
}
static inline bool search_free(const search *s, size_t i) /* may position i change? */
{
    return !s->filtered[i] && search_count(s, i) > 0;
}
uint32_t search_word(const search *s, size_t i, pick p);
pick *search_text(search *s); /* a new copy of the original; NULL: out of memory */
size_t search_changed(const search *s, const pick *x);
size_t search_max_changed(const search *s); /* by common.max_change */

/* Ask about a text; its row is fixed at once, the answer is there after search_answer. Equal texts
 * have one row. */
stet_status search_ask(search *s, const pick *x, size_t *row);
/* The same for many texts that differ from one in a single position: name that text, then the
 * swaps. */
stet_status search_base(search *s, const pick *x);
stet_status search_ask_swap(search *s, size_t i, pick p, size_t *row);
stet_status search_answer(search *s); /* all that was asked, as one batch */
/* Coming questions are near x: lets the victim start from there. */
stet_status search_near(search *s, const pick *x);
const double *search_prob(const search *s, size_t row); /* (K); valid until the next search_ask */
double search_p(const search *s, size_t row);           /* of class y: attacks make it small */
double search_margin(const search *s,
                     size_t row); /* log odds of y against the best other class: <= 0 is flipped */
bool search_flipped(const search *s, size_t row); /* another class is the answer */
int most_probable(const double *prob, size_t k);  /* the first of equals */
/* Is it proved that nothing flips the victim? Then s->proved, and the attack may leave. Costs no
 * query. */
stet_status search_ask_proof(search *s, bool hard);
/* Count queries as a framework does; OVER_BUDGET when there are not that many left. */
stet_status search_spend(search *s, size_t n);
void search_found(search *s, const pick *x, bool success);

/* ---- constraints -------------------------------------------------------------------------- */

stet_status constraint_start(search *s); /* of a text just opened */
/* How alike the text x and x with p at i are around i, on the scale of the settings; 1 without a
 * measure. */
stet_status constraint_similarity(search *s, const pick *x, size_t i, pick p, double *out);
/* Does p at i in x have a tag that may stand for the original's? Without a tagger every word does.
 */
stet_status constraint_tag(search *s, const pick *x, size_t i, pick p, bool *out);
/* First and one past the last of the `width` words around i in a text of n words. */
void constraint_window(size_t n, size_t i, size_t width, size_t *from, size_t *to);

/* TextAttack's greedy loop: positions in order, each takes its best candidate if that lowers P(y),
 * constraints are checked before the victim is asked; ends at the first success. Leaves the outcome
 * in the search. */
stet_status walk_improving(search *s, const size_t *order, size_t n);

/* Every combination, if there are no more than `cap`: leaves the worst one, and s->complete. */
stet_status search_everything(search *s, uint64_t cap);

/* Positions 0..n-1 by falling value, equal ones in their order; NULL: out of memory. */
size_t *order_falling(arena *mem, const double *value, size_t n);

/* ---- attacks ------------------------------------------------------------------------------ */

typedef struct attack_profile {
    const char *name;
    const char *settings[12]; /* "name=value", NULL at the end */
    const char *missing;      /* what of it is not in this program; NULL: nothing */
} attack_profile;

typedef struct attack_desc {
    const char *name, *summary;
    const stet_opt *opts;
    size_t cfg_size;
    const attack_profile *profiles;       /* a NULL name at the end; NULL: the same in all */
    bool (*asks_proofs)(const void *cfg); /* NULL: never */
    stet_status (*run)(search *s, const void *cfg);
} attack_desc;

extern const attack_desc *const attack_descs[];   /* attacks.c, NULL at the end */
const attack_desc *attack_find(const char *name); /* NULL: unknown, message set */

/* The settings of one run. */
typedef struct attack_settings {
    attack_common common;
    void *cfg; /* the attack's own */
    const char *missing;
} attack_settings;
stet_status attack_settings_make(const attack_desc *d, const char *profile,
                                 const char *const *settings, attack_settings *out);
void attack_settings_free(attack_settings *s);

#endif
