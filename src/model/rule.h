/* model/rule.h - how a trained defence answers: what is made of the network's logits.
 *
 * A rule (votes over drawn texts, an average over a neighbourhood) belongs to the model from its
 * first training step on: whoever asks the model, be it predict, eval, a view, an attack or a
 * certificate, is given the rule's answer. config.json keeps its name and settings under "rule";
 * the loader finds the code by that name in a table that the layers above fill before main
 * (rule_register), and refuses a model whose rule it does not have.
 *
 * The same text always has the same answer: what a rule draws derives from its settings and from
 * the words of the text. */
#ifndef MODEL_RULE_H
#define MODEL_RULE_H

#include "base/buf.h"
#include "model/model_impl.h"
#include "stet/certify.h"
#include "stet/lexicon.h"

typedef struct rule rule;
typedef struct rule_desc {
    const char *name;
    const stet_opt *opts; /* numbers, choices and flags */
    size_t cfg_size;
    /* Tensors that it needs beside the network's: model_add_param() for each. `r` is where first
     * values are drawn from; NULL: they will be read from a file. May be NULL. */
    stet_status (*parameters)(const void *cfg, model *m, rng *r);
    /* What it needs to know, at the start of a training; or from the folder of a model; and into
     * that folder. `state` is the rule's own memory, which `end` releases, also after a failure. Any
     * may be NULL. */
    stet_status (*make)(const void *cfg, const model *m, const stet_subst *s, void **state);
    stet_status (*load)(const void *cfg, const model *m, const char *dir, void **state);
    stet_status (*save)(const void *state, const char *dir);
    void (*end)(void *state);
    /* The answers for texts, a thousand at most, as logits (n_texts, K): for votes, the logarithms of
     * their shares. It may be asked from several threads at once; model_network_logits() is what it
     * asks. */
    stet_status (*predict_all)(const rule *r, const model *m, const stet_corpus *c, float *logits);
    /* Or that for one text (n > 0), where many at once are no faster. */
    stet_status (*predict)(const rule *r, const model *m, const uint32_t *ids, size_t n,
                           float *logits);
    bool on_device; /* it asks nothing but the network, wherever that is (model.place) */
    bool mixes; /* it asks about mixtures of words, not about texts (model_desc.mixtures) */
    /* Its own certificate: verdict, margin, budget, method. `label` is the answer already. A verdict
     * that rests on draws is STET_LIKELY, never STET_CERTIFIED; `evidence` then gets the members of a
     * JSON object that it follows from ("votes" in docs/formats.md). `ids` and choices are rows where
     * a word is one row, else words of choices->words. NULL: models with this rule have no
     * certificates. */
    stet_status (*certify)(const rule *r, const model *m, const uint32_t *ids,
                           const stet_choices *choices, const stet_certify_how *how, int label,
                           stet_certificate *out, buf *evidence);
    /* That certificate rests on draws and proves nothing: the chance, above 0, that the bounds behind
     * it hold. NULL: it rests on none. */
    double (*confidence)(const void *cfg, size_t n_classes);
    bool answers_draw; /* answers rest on draws, which `redraw` chooses: predict_all, not predict */
    /* The lists of words that a certificate depends on. NULL: it does not depend on any. */
    const stet_subst *(*lists)(const void *state);
} rule_desc;

/* The rule of one model. */
struct rule {
    const rule_desc *desc;
    void *cfg, *state;
    /* Which draws: 0 are a text's own, other numbers are independent of these and of each other.
     * With mean_of > 0 the answer is the mean over the draws redraw .. redraw + mean_of - 1. */
    uint64_t redraw, mean_of;
};

void rule_register(const rule_desc *d);       /* before main, or before the first model is loaded */
const rule_desc *rule_find(const char *name); /* NULL: unknown, message set */

/* Give a model its rule: a copy of `cfg`, or, where that is NULL, the defaults and `settings`
 * ("name=value"). Tensors are laid out, `state` is still to be made or loaded. */
stet_status rule_attach(model *m, const rule_desc *d, const void *cfg, const char *const *settings,
                        rng *r);
void rule_free(rule *r); /* NULL is fine */

/* Of a model that has one: the answer for a text of n > 0 rows, and for some texts. */
stet_status rule_logits(const model *m, const uint32_t *ids, size_t n, float *logits);
stet_status rule_logits_all(const model *m, const stet_corpus *c, float *logits);
/* The rows of a corpus's text as a model reads them: not too many, and one at least. */
const uint32_t *corpus_rows(const model *m, const stet_corpus *c, size_t i, size_t *n);

/* Logits (n_texts, K) of the network alone, whatever the model's rule; from any thread. */
stet_status model_network_logits(const model *m, const stet_corpus *c, float *logits);
/* Is there a compiled model of these weights on the host whose network is all that answers: can its
 * model_desc.texts and mixtures be asked? */
bool model_compiled_here(const model *m);

#endif
