/* Training on a device whose memory nobody but a kernel may touch (tensor/locked_store.h): the same
 * bytes as on the host, also when the run is interrupted there, and when it goes on elsewhere. */
#include "small_run.h"
#include "tensor/locked_store.h"

typedef struct way {
    const char *model, *defense; /* "+cnn": with word scores; "~cnn", "+~cnn": vectors learn */
    const char *settings[8];
} way;

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
    {"~sum", "certified", {"kappa=0.4", NULL}},
    {"cnn", "pgd", {"pgd-norm=token", "pgd-radius=0.2", NULL}},
    {"bilstm", "freelb,gbm", {"freelb-steps=2", NULL}},
    {"s4", "freelb++", {"freelb++-steps=3", "freelb++-norm=linf", NULL}},
    {"cnn", "ascc", {"ascc-steps=3", NULL}},
    {"bilstm", "ascc,gbm", {"ascc-steps=2", "ascc-adv=1", "ascc-most=1", NULL}},
    {"cnn", "atfl", {"atfl-rounds=4", NULL}},
    {"bilstm", "atfl,gbm", {"atfl-rounds=2", "atfl-at-once=2", "atfl-cap=0.5", NULL}},
    {"cnn", "ranmask,gbm", {"ranmask-votes=3", NULL}},
    {"cnn", "safer", {"safer-votes=3", "safer-most=3", NULL}},
    {"cnn", "smooth,sem,certified,gbm", {"sem-keep=2", "sem-neighbours=1", NULL}},
};
enum { WAYS = sizeof ways / sizeof *ways };

static stet_train_args run_of(const way *w, const char *out)
{
    const bool scores = w->model[0] == '+', learn = w->model[scores] == '~';
    stet_train_args a = small_run(w->model + scores + learn, out);
    write_sets(at("sets"));
    static char sets[256];
    snprintf(sets, sizeof sets, "%s", at("sets"));
    a.synonyms = sets;
    a.defense = w->defense;
    a.defense_settings = w->settings;
    a.word_scores = scores;
    a.vector_rate = learn ? 1e-3 : 0;
    a.epochs = 2;
    a.dropout = 0.2;
    a.clip = 1;
    return a;
}

TEST(training_never_touches_device_memory_outside_kernels)
{
    CHECK_OK(store_register(&locked_desc));
    for (int i = 0; i < WAYS; i++) {
        stet_train_result r;
        stet_train_args a = run_of(&ways[i], at("host"));
        CHECK_OK(stet_train(&a, &r));
        CHECK_LE(10, r.steps);
        a.out = at("locked");
        a.device = "locked";
        CHECK_OK(stet_train(&a, &r));
        same_files(at("host"), at("locked"));
    }
}

TEST(a_run_on_a_device_resumes_there_and_elsewhere)
{
    CHECK_OK(store_register(&locked_desc));
    for (int i = 0; i < WAYS; i++) {
        stet_train_result r;
        stet_train_args a = run_of(&ways[i], at("whole"));
        CHECK_OK(stet_train(&a, &r));
        a.out = at("parts");
        a.resume = false;
        a.device = "locked";
        int left = 7;
        stet_set_progress(interrupt_after, &left);
        CHECK_FAILS(stet_train(&a, &r), STET_EINTR, "--resume");
        stet_interrupt_clear();
        a.resume = true;
        left = 13;
        CHECK_FAILS(stet_train(&a, &r), STET_EINTR, "--resume");
        stet_interrupt_clear();
        stet_set_progress(NULL, NULL);
        a.device = NULL; /* begun on one device, ended on another */
        CHECK_OK(stet_train(&a, &r));
        same_files(at("whole"), at("parts"));
    }
}

TEST(an_unknown_device_is_refused_before_anything_is_written)
{
    stet_train_result r;
    stet_train_args a = run_of(&ways[0], at("never"));
    a.device = "tpu";
    CHECK_FAILS(stet_train(&a, &r), STET_ENOTSUP, "no device 'tpu'");
    CHECK(!file_exists(at("never/config.json")));
}
