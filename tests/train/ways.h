/* tests/train/ways.h - small runs of every model and defence: what every device must be able to do. */
#ifndef TESTS_TRAIN_WAYS_H
#define TESTS_TRAIN_WAYS_H

#include "small_run.h"

typedef struct way {
    const char *model, *defense; /* "+cnn": with word scores; "~cnn", "+~cnn": vectors learn */
    const char *settings[8];
} way;

/* "!bilstm", "!s4": the variants that lose least in box arithmetic. */
static const char *const largest[] = {"hidden=6", "pool=max", NULL};
/* "!cnn": with a word layer and one before the last. */
static const char *const layers[] = {"filters=6", "kernels=2,3", "dense=7", NULL};
/* "%bilstm", "%s4": the same in spans. */
static const char *const largest_spans[] = {"hidden=6", "pool=max", "span=2", NULL};
static const char *const plain_spans[] = {"channels=8",  "state=4", "s4-block=relu",
                                          "s4-pool=max", "span=2",  NULL};
static const char *const plain[] = {"channels=8", "state=4", "s4-block=relu", "s4-pool=max", NULL};

/* On a frozen encoder of random numbers; that of a CNN, with a file of its rows. */
static const char *const bilstm_head[] = {"bert-layers=2",
                                          "bert-hidden=16",
                                          "bert-heads=2",
                                          "bert-inner=32",
                                          "bert-positions=40",
                                          "bert-pieces=100",
                                          "bert-head=bilstm:hidden=6",
                                          NULL};
static const char *const cnn_head[] = {"bert-layers=2",
                                       "bert-hidden=16",
                                       "bert-heads=2",
                                       "bert-inner=32",
                                       "bert-positions=40",
                                       "bert-pieces=100",
                                       "bert-head=cnn:filters=6",
                                       NULL};

static const way ways[] = {
    {"cnn", "standard", {NULL}},
    {"bilstm", "standard", {NULL}},
    {"s4", "standard", {NULL}},
    {"cnn", "gbm", {"gbm-of=logits", "gbm-norm=init", NULL}},
    {"bilstm", "gbm", {"gbm-of=layer", "gbm-boxes=t+o", "gbm-norm=init", NULL}},
    {"bilstm", "gbm", {"gbm-of=logits", "gbm-boxes=s+i", NULL}},
    {"bilstm", "gbm", {"gbm-of=gain", "gbm-boxes=s+l", "gbm-words=2", NULL}},
    {"bilstm", "gbm", {"gbm-of=rho", NULL}},
    {"s4", "gbm", {"gbm-of=layer", NULL}},
    {"s4", "gbm", {"gbm-of=logits", NULL}},
    {"cnn", "certified,gbm", {"kappa=0.4", "ramp=0.5", "bound-share=0.6", NULL}},
    {"cnn", "certified", {"bound=joint", "eps-ramp=0.3", NULL}},
    {"bilstm", "certified,gbm", {"kappa=0.4", "ramp=0.5", NULL}},
    {"s4", "certified,gbm", {"kappa=0.4", "ramp=0.5", NULL}},
    {"s4cnn", "standard", {NULL}},
    {"+~s4cnn", "certified,gbm", {"kappa=0.4", "bound-share=0.6", NULL}},
    {"s4cnn", "certified", {"bound=joint", NULL}},
    {"sum", "standard", {NULL}},
    {"sum", "certified", {"kappa=0.4", "eps-ramp=0.3", NULL}},
    {"+cnn", "standard", {NULL}},
    {"+cnn", "certified", {"kappa=0.4", "bound=joint", NULL}},
    {"+bilstm", "certified,gbm", {"kappa=0.4", "bound-share=0.6", NULL}},
    {"+s4", "certified", {"kappa=0.4", NULL}},
    {"~cnn", "standard", {NULL}},
    {"+~cnn", "certified,gbm", {"kappa=0.4", "bound-share=0.6", NULL}},
    {"~cnn", "certified", {"bound=joint", NULL}},
    {"~bilstm", "certified,gbm", {"kappa=0.4", "gbm-boxes=s+i", NULL}},
    {"~bilstm", "gbm", {"gbm-boxes=t+o", NULL}},
    {"~s4", "certified", {"kappa=0.4", NULL}},
    {"+~!bilstm", "certified", {"kappa=0.4", NULL}},
    {"~!s4", "certified", {"kappa=0.4", NULL}},
    {"%bilstm", "certified,gbm", {"kappa=0.4", "bound-share=0.6", NULL}},
    {"%bilstm", "gbm", {"gbm-of=gain", "gbm-boxes=s+l", "gbm-words=2", NULL}},
    {"+~%s4", "certified,gbm", {"kappa=0.4", NULL}},
    {"~cnn", "certified,box-width", {"kappa=0.4", NULL}},
    {"+~cnn", "box-width", {"box-alone=yes", "box-weight=0.5", NULL}},
    {"~sum", "certified", {"kappa=0.4", NULL}},
    {"cnn", "pgd", {"pgd-norm=token", "pgd-radius=0.2", NULL}},
    {"bilstm", "freelb,gbm", {"freelb-steps=2", NULL}},
    {"s4", "freelb++", {"freelb++-steps=3", "freelb++-norm=linf", NULL}},
    {"cnn", "ascc", {"ascc-steps=3", NULL}},
    {"bilstm", "ascc,gbm", {"ascc-steps=2", "ascc-adv=1", "ascc-most=1", NULL}},
    {"cnn", "atfl", {"atfl-rounds=4", NULL}},
    {"bilstm", "atfl,gbm", {"atfl-rounds=2", "atfl-at-once=2", "atfl-cap=0.5", NULL}},
    {"cnn", "ranmask,gbm", {"ranmask-votes=3", NULL}},
    {"cnn", "dne", {"dne-rounds=2", "dne-most=4", "dne-draws=3", NULL}},
    {"cnn", "safer", {"safer-votes=3", "safer-most=3", NULL}},
    {"bert", "standard", {NULL}},
    {"bert", "freelb", {"freelb-steps=2", NULL}},
    {"bert", "ta-vat", {NULL}},
    {"cnn", "ta-vat,gbm", {"ta-vat-steps=3", NULL}},
    {"bert", "infobert", {"infobert-hidden=5", NULL}},
    {"bert", "ascc", {"ascc-steps=2", NULL}},
    {"!bert", "gbm", {"gbm-norm=init", NULL}},
    {"%bert", "gbm", {NULL}},
    {"bert", "encode", {"encode-most=3", NULL}},
    {"cnn", "text-crs", {"crs-votes=3", NULL}},
    {"cnn", "smooth,sem,certified,gbm", {"sem-keep=2", "sem-neighbours=1", NULL}},
    {"!cnn", "standard", {NULL}},
    {"+~!cnn", "certified,gbm", {"kappa=0.4", "bound-share=0.6", "gbm-of=logits", NULL}},
    {"~!cnn", "certified,box-width", {"eps-ramp=0.3", "box-alone=yes", NULL}},
    {"~!cnn", "freelb", {"freelb-steps=2", NULL}},
    {"!cnn", "ascc", {"ascc-steps=2", NULL}},
    {"!cnn", "atfl", {"atfl-rounds=2", NULL}},
    {"~!cnn", "dne", {"dne-rounds=2", "dne-draws=3", NULL}},
    {"bilstm", "gbm", {"gbm-boxes=t+l", "gbm-words=2", NULL}},
    {"cnn", "mixada", {NULL}},
};
enum { WAYS = sizeof ways / sizeof *ways };

static inline stet_train_args run_of(const way *w, const char *out)
{
    const bool scores = w->model[0] == '+', learn = w->model[scores] == '~',
               spans = w->model[scores + learn] == '%',
               variant = spans || w->model[scores + learn] == '!';
    stet_train_args a = small_run(w->model + scores + learn + variant, out);
    write_sets(at("sets"));
    static char sets[256];
    snprintf(sets, sizeof sets, "%s", at("sets"));
    a.synonyms = sets;
    a.defense = w->defense;
    a.defense_settings = w->settings;
    static char rows[512];
    snprintf(rows, sizeof rows, "%s.rows", out);
    if (variant && strcmp(a.model, "bert") == 0) {
        a.model_settings = spans ? cnn_head : bilstm_head;
        a.feature_cache = spans ? rows : NULL;
    } else if (variant && a.model[0] == 'c') {
        a.model_settings = layers;
        a.word_layer = 5;
    } else if (variant)
        a.model_settings =
            a.model[0] == 'b' ? (spans ? largest_spans : largest) : (spans ? plain_spans : plain);
    a.word_scores = scores;
    a.vector_rate = learn ? 1e-3 : 0;
    a.epochs = 2;
    a.dropout = 0.2;
    a.clip = 1;
    return a;
}

#endif
