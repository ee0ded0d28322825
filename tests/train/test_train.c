/* Training runs: they learn, they repeat, they survive being killed, they refuse bad input. */
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "model/model_impl.h"
#include "stet/lexicon.h"
#include "small_run.h"
#include "stet/train.h"
#include "test.h"
#include "train/run_state.h"

/* ---- tests -------------------------------------------------------------------------------- */

TEST(slow_checkpoints_take_a_twentieth_of_the_time)
{
    run_state r = {.saved_at = seconds_now(), .save_seconds = 0.05};
    CHECK(checkpoint_due(&r)); /* fast ones come whenever they are asked for */
    r.save_seconds = 2;
    CHECK(!checkpoint_due(&r));
    r.saved_at -= 39;
    CHECK(!checkpoint_due(&r));
    r.saved_at -= 2;
    CHECK(checkpoint_due(&r));
}

TEST(every_model_learns_and_loads_again)
{
    for (int k = 0; k < SMALL_RUN_KINDS; k++) {
        const char *out = at(kinds[k]);
        stet_train_args a = small_run(kinds[k], out);
        a.epochs = 8;
        a.patience = 0;
        stet_train_result r;
        CHECK_OK(stet_train(&a, &r));
        CHECK_LE(0.9, r.valid_accuracy);
        stet_model *m;
        CHECK_OK(stet_model_load(out, &m));
        float p[2];
        int label;
        CHECK_OK(stet_model_predict(m, "word1 good0 good2 good3 good1 good4 good0", 41, p, &label));
        CHECK_EQ(label, 1);
        CHECK_NEAR(p[0] + p[1], 1, 1e-6);
        char checkpoint[300];
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint.safetensors", out);
        CHECK(!file_exists(checkpoint));
        stet_model_free(m);
    }
}

/* What is saved is what was validated: a model on the vectors that the word layer makes. */
TEST(a_word_layer_is_in_the_vectors_of_the_saved_model)
{
    for (int learn = 0; learn < 2; learn++) {
        stet_train_args a = small_run("cnn", at("run"));
        a.epochs = 8;
        a.word_layer = 5;
        a.vector_rate = learn ? 1e-2 : 0;
        a.valid = a.data;
        stet_train_result r;
        CHECK_OK(stet_train(&a, &r));
        CHECK_LE(0.9, r.valid_accuracy);
        stet_model *m;
        stet_dataset *d;
        stet_scores s;
        CHECK_OK(stet_model_load(a.out, &m));
        CHECK_EQ(m->dim, 5);
        CHECK_EQ(m->n_params + m->n_added, 6);
        CHECK_OK(stet_dataset_load(a.data, &a.format, &d));
        stet_corpus c;
        CHECK_OK(stet_model_encode(m, d, &c));
        CHECK_OK(model_scores(m, NULL, NULL, &c, &s));
        CHECK_NEAR(s.accuracy, r.valid_accuracy, 1e-9);
        CHECK_NEAR(s.loss, r.valid_loss, 1e-5);
        stet_scores_deinit(&s);
        stet_corpus_deinit(&c);
        stet_dataset_free(d);
        stet_model_free(m);
    }
    stet_train_result r;
    stet_train_args a = small_run("bert", at("never"));
    a.word_layer = 5;
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "does not read one vector per word");
    a = small_run("bilstm", at("never"));
    a.word_layer = 5;
    a.defense = "gbm";
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "need vectors that no --word-layer moves");
}

/* Of a model that reads vectors itself, and of one on the rows of a BERT. */
TEST(saved_filters_are_those_of_the_state_spaces)
{
    static const char *const head[] = {"bert-layers=1",
                                       "bert-hidden=16",
                                       "bert-heads=2",
                                       "bert-inner=32",
                                       "bert-positions=40",
                                       "bert-pieces=100",
                                       "bert-head=s4cnn:filters=6:kernels=2:rank=2:state=4",
                                       NULL};
    for (int bert = 0; bert < 2; bert++) {
        stet_train_result r;
        stet_train_args a = small_run(bert ? "bert" : "s4cnn", at("run"));
        a.model_settings = bert ? head : a.model_settings;
        a.epochs = 1;
        CHECK_OK(stet_train(&a, &r));
        stet_model *m;
        CHECK_OK(stet_model_load(a.out, &m));
        const int id = model_param_id(m, bert ? "head.convs.0.weight" : "convs.0.weight");
        CHECK(id >= 0);
        const size_t bytes = shape_count(m->params[id].shape) * sizeof(real);
        real *saved = mem_alloc(1, bytes);
        CHECK(saved);
        memcpy(saved, model_value(m, id), bytes);
        memset(model_value(m, id), 0, bytes);
        arena mem = {0};
        CHECK_OK(weights_derive(NULL, m, &mem, NULL));
        CHECK(memcmp(saved, model_value(m, id), bytes) == 0);
        arena_deinit(&mem);
        mem_free(saved);
        stet_model_free(m);
    }
}

TEST(one_seed_gives_one_model_whatever_the_threads)
{
    for (int k = 0; k < SMALL_RUN_KINDS; k++) {
        stet_train_result r;
        stet_train_args a = small_run(kinds[k], at("one"));
        stet_set_threads(1);
        CHECK_OK(stet_train(&a, &r));
        a.out = at("two");
        stet_set_threads(2);
        CHECK_OK(stet_train(&a, &r));
        same_files(at("one"), at("two"));
        a.seed = 2;
        a.out = at("other");
        CHECK_OK(stet_train(&a, &r));
        char *x, *y;
        size_t nx, ny;
        CHECK_OK(file_read_all(at("one/model.safetensors"), 1 << 26, &x, &nx));
        CHECK_OK(file_read_all(at("other/model.safetensors"), 1 << 26, &y, &ny));
        CHECK(nx != ny || memcmp(x, y, nx) != 0);
        mem_free(x);
        mem_free(y);
    }
}

static void die_in_first_epoch(void *user, const char *what, uint64_t done, uint64_t total,
                               const char *note)
{
    (void)user, (void)total, (void)note;
    if (strncmp(what, "epoch", 5) == 0 && done == 2)
        _exit(9);
}

/* Every model, every schedule, another number of threads for every part; then with word scores. */
TEST(an_interrupted_run_resumes_to_the_same_bytes)
{
    static const stet_schedule schedules[] = {STET_CONSTANT, STET_COSINE, STET_STEP};
    for (int k = 0; k < 7; k++) {
        stet_train_result r;
        char whole[16], parts[16];
        snprintf(whole, sizeof whole, "w%d", k);
        snprintf(parts, sizeof parts, "p%d", k);
        stet_train_args a = small_run(k < 6 ? kinds[k % 3] : "sum", at(whole));
        a.schedule = schedules[k % 3];
        a.word_scores = k >= 3;
        a.score_decay = k >= 3 ? 1e-3 : 0;
        a.clip = 0.5;
        stet_set_threads(1);
        CHECK_OK(stet_train(&a, &r));
        a.out = at(parts);
        int left = 7;
        stet_set_progress(interrupt_after, &left);
        stet_set_threads(2);
        CHECK_FAILS(stet_train(&a, &r), STET_EINTR, "--resume");
        stet_interrupt_clear();
        a.resume = true;
        left = 29;
        stet_set_threads(3);
        CHECK_FAILS(stet_train(&a, &r), STET_EINTR, "--resume");
        stet_interrupt_clear();
        stet_set_progress(NULL, NULL);
        stet_set_threads(1);
        CHECK_OK(stet_train(&a, &r));
        same_files(at(whole), at(parts));
        CHECK_OK(stet_train(&a, &r)); /* complete: nothing to do */
    }
}

static void interrupt_validation(void *user, const char *what, uint64_t done, uint64_t total,
                                 const char *note)
{
    (void)done, (void)total, (void)note;
    int *left = user;
    if (strcmp(what, "evaluating") == 0 && --*left == 0)
        stet_interrupt();
}

/* The steps of the epoch are not lost. */
TEST(a_run_interrupted_while_it_validates_goes_on_from_there)
{
    stet_train_result r;
    stet_train_args a = small_run("cnn", at("whole"));
    a.save_every = 0;
    CHECK_OK(stet_train(&a, &r));
    a.out = at("parts");
    int left = 2;
    stet_set_progress(interrupt_validation, &left);
    CHECK_FAILS(stet_train(&a, &r), STET_EINTR, "--resume");
    stet_interrupt_clear();
    left = 0; /* counts steps from here */
    stet_set_progress(interrupt_after, &left);
    a.resume = true;
    CHECK_OK(stet_train(&a, &r));
    stet_set_progress(NULL, NULL);
    CHECK_EQ(-left, 2 * r.steps / 4); /* two of four epochs */
    same_files(at("whole"), at("parts"));
}

static double last_number(const char *text, const char *key)
{
    double v = NAN;
    for (const char *s = text; (s = strstr(s, key)); s++)
        v = strtod(s + strlen(key), NULL);
    return v;
}

/* Defences in a list, each with state or ramps of its own; the last epoch is what the folder keeps. */
TEST(a_certified_run_is_interrupted_resumed_and_kept_to_its_last_epoch)
{
    static const char *const settings[] = {"kappa=0.4", "ramp=0.5",      "eps-ramp=0.3",
                                           "beta=0.01", "gbm-norm=init", "bound-share=0.6",
                                           NULL};
    write_sets(at("sets"));
    for (int k = 0; k < 2; k++) {
        stet_train_result r;
        stet_train_args a = small_run(kinds[k], at(k ? "whole1" : "whole0"));
        a.synonyms = at("sets");
        a.smooth = 1;
        a.defense = "certified,gbm";
        a.defense_settings = settings;
        a.patience = 1;
        CHECK_OK(stet_train(&a, &r));
        CHECK_EQ(r.best_epoch, 4);
        CHECK_EQ(r.epochs, 4);
        char path[300], *text;
        size_t n;
        snprintf(path, sizeof path, "%s/train.jsonl", a.out);
        CHECK_OK(file_read_all(path, 1 << 26, &text, &n));
        CHECK(strstr(text, "\"kappa\":0,") && strstr(text, "\"eps\":0,"));
        CHECK_NEAR(last_number(text, "\"kappa\":"), 0.4, 1e-9);
        CHECK(isfinite(last_number(text, "\"gbm\":")) && last_number(text, "\"worst\":") > 0 &&
              last_number(text, "\"ce\":") > 0);
        mem_free(text);
        const char *whole = a.out;
        a.out = at(k ? "parts1" : "parts0");
        int left = 25;
        stet_set_progress(interrupt_after, &left);
        CHECK_FAILS(stet_train(&a, &r), STET_EINTR, "--resume");
        stet_interrupt_clear();
        stet_set_progress(NULL, NULL);
        a.resume = true;
        CHECK_OK(stet_train(&a, &r));
        same_files(whole, a.out);
    }
}

/* Run, kill -9 after a random and slowly growing time, resume, until a run ends by itself; how many were killed. */
static int kill_until_done(const stet_train_args *a, rng *random)
{
    for (int kills = 0; kills < 1000; kills++) {
        stet_train_result r;
        const pid_t pid = fork();
        if (pid == 0)
            _exit(stet_train(a, &r) == STET_OK ? 0 : 1);
        usleep((useconds_t)rng_below(random, 20000 + 2000 * (uint64_t)kills));
        kill(pid, SIGKILL);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status)) {
            CHECK_EQ(WEXITSTATUS(status), 0);
            return kills;
        }
    }
    test_fail(__FILE__, __LINE__, "the run never ends");
}

/* kill -9 at many moments, then --resume until it ends: the same bytes. */
TEST(a_killed_run_resumes_to_the_same_bytes)
{
    stet_train_result r;
    stet_train_args a = small_run("bilstm", at("whole"));
    CHECK_OK(stet_train(&a, &r));
    pool_shutdown(); /* no threads across fork */
    rng random = rng_stream(11, STREAM_TEST, 2);
    a.resume = true;
    int kills = 0;
    for (int round = 0; kills < 50; round++) {
        char folder[32];
        snprintf(folder, sizeof folder, "killed%d", round);
        a.out = at(folder);
        kills += kill_until_done(&a, &random);
        same_files(at("whole"), a.out);
    }
    fprintf(stderr, "  %d kills\n", kills);
}

TEST(a_journal_holds_every_step_once_after_resuming)
{
    stet_train_result r;
    stet_train_args a = small_run("cnn", at("run"));
    int left = 20;
    stet_set_progress(interrupt_after, &left);
    CHECK_FAILS(stet_train(&a, &r), STET_EINTR, "step 20");
    stet_interrupt_clear();
    stet_set_progress(NULL, NULL);
    a.resume = true;
    CHECK_OK(stet_train(&a, &r));
    char *text;
    size_t n;
    CHECK_OK(file_read_all(at("run/train.jsonl"), 1 << 26, &text, &n));
    size_t expected = 1;
    for (char *s = text; (s = strstr(s, "{\"step\":")); s++)
        CHECK_EQ(strtoull(s + 8, NULL, 10), expected++);
    CHECK_EQ(expected - 1, r.steps);
    CHECK(strstr(text, "\"valid_accuracy\"") != NULL && strstr(text, "{\"end\":true") != NULL);
    mem_free(text);
}

/* The words of write_sets in other pairs. */
static void write_other_sets(const char *path)
{
    stet_subst_builder *b;
    stet_subst *s;
    CHECK_OK(stet_subst_builder_new(&b));
    CHECK_OK(stet_subst_add_neighbours(b, at("sets")));
    CHECK_OK(stet_subst_add_list(b, "good0", (const char *const[]){"bad0"}, 1));
    CHECK_OK(stet_subst_build(b, &s));
    CHECK_OK(stet_subst_save(s, path));
    stet_subst_free(s);
    stet_subst_builder_free(b);
}

TEST(resuming_with_other_settings_is_refused)
{
    stet_train_result r;
    stet_train_args a = small_run("cnn", "");
    write_sets(at("sets"));
    write_other_sets(at("other-sets"));
    a.out = at("run");
    a.synonyms = at("sets");
    const char *other = at("other-sets"), *const kappa[] = {"kappa=0.3", NULL};
    a.defense = "certified";
    int left = 5;
    stet_set_progress(interrupt_after, &left);
    CHECK_FAILS(stet_train(&a, &r), STET_EINTR, "");
    stet_interrupt_clear();
    stet_set_progress(NULL, NULL);
    a.resume = true;
    for (int k = 0; k < 5; k++) {
        stet_train_args b = a;
        if (k == 0)
            b.rate = 0.02;
        else if (k == 1)
            b.max_len = 5;
        else if (k == 2)
            b.synonyms = other;
        else if (k == 3)
            b.schedule = STET_COSINE;
        else
            b.defense_settings = kappa;
        if (stet_train(&b, &r) != STET_EUSAGE ||
            !strstr(stet_last_error(), "other data, vectors or settings"))
            test_fail(__FILE__, __LINE__, "change %d is not seen: %s", k, stet_last_error());
    }
    CHECK_OK(stet_train(&a, &r));
}

/* What a run before has left in the folder does not pass for this one's end. */
TEST(a_run_over_an_old_one_is_resumed_from_its_beginning)
{
    stet_train_result r;
    stet_train_args a = small_run("cnn", at("whole"));
    a.seed = 2;
    CHECK_OK(stet_train(&a, &r));
    a.out = at("run");
    a.seed = 1;
    CHECK_OK(stet_train(&a, &r));
    pool_shutdown(); /* no threads across fork */
    a.seed = 2;
    a.save_every = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        stet_set_progress(die_in_first_epoch, NULL);
        stet_train(&a, &r);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(WEXITSTATUS(status), 9);
    a.resume = true;
    CHECK_OK(stet_train(&a, &r));
    same_files(at("whole"), at("run"));
}

TEST(a_run_that_diverges_says_so)
{
    for (int k = 0; k < SMALL_RUN_KINDS; k++) {
        stet_train_result r;
        stet_train_args a = small_run(kinds[k], at("run"));
        a.rate = 1e38;
        a.batch = 300; /* one step an epoch: its weights are validated before the next loss */
        CHECK_FAILS(stet_train(&a, &r), STET_EFORMAT, "diverged");
    }
}

static stet_status train_once(void *args)
{
    stet_train_result r;
    return stet_train(args, &r);
}

/* Else a complete run would be trained anew where its configuration cannot be read for want of memory. */
TEST(a_complete_run_stays_when_memory_runs_out)
{
    stet_train_result r;
    stet_train_args a = small_run("cnn", at("run"));
    write_corpus(a.data, 12, 1);
    a.epochs = 1;
    a.valid_fraction = 0.3;
    stet_set_threads(1);
    CHECK_OK(stet_train(&a, &r));
    a.resume = true;
    CHECK_LE(100, ALLOC_FAIL_LOOP(train_once, &a));
}

TEST(bad_input_is_named)
{
    stet_train_result r;
    stet_train_args a = small_run("cnn", at("run"));
    stet_train_args b = a;
    b.data = at("missing.tsv");
    CHECK_FAILS(stet_train(&b, &r), STET_EIO, "missing.tsv");
    b = a;
    b.model = "cnm";
    CHECK_FAILS(stet_train(&b, &r), STET_EUSAGE, "did you mean 'cnn'");
    b = a;
    b.defense = "standart";
    CHECK_FAILS(stet_train(&b, &r), STET_EUSAGE, "did you mean 'standard'");
    b = a;
    b.defense = "certified";
    CHECK_FAILS(stet_train(&b, &r), STET_EUSAGE, "--synonyms");
    b.defense = "gbm,standart";
    CHECK_FAILS(stet_train(&b, &r), STET_EUSAGE, "did you mean 'standard'");
    b = a;
    b.smooth = 1;
    CHECK_FAILS(stet_train(&b, &r), STET_EUSAGE, "--synonyms");
    b = a;
    b.valid_fraction = 0.0001;
    CHECK_FAILS(stet_train(&b, &r), STET_EUSAGE, "--valid");
    b = a;
    b.out = "/proc/nowhere";
    CHECK(stet_train(&b, &r) == STET_EIO);
    FILE *f = fopen(at("foreign.tsv"), "w");
    CHECK(f != NULL);
    fputs("0\tqqq rrr\n1\tsss ttt\n0\tuuu\n1\tvvv\n", f);
    fclose(f);
    b = a;
    b.data = at("foreign.tsv");
    b.valid_fraction = 0.5;
    CHECK_FAILS(stet_train(&b, &r), STET_EFORMAT, "no vector for any word");
}

TEST(file_names_may_hold_any_bytes)
{
    stet_train_result r;
    stet_train_args a = small_run("cnn", at("run"));
    char data[300], vec[300], *text;
    size_t n;
    snprintf(data, sizeof data, "%s/caf\xe9.tsv", test_dir());
    snprintf(vec, sizeof vec,
             "%s/v\xe9"
             "c.txt",
             test_dir());
    CHECK(rename(a.data, data) == 0 && rename(vectors[0], vec) == 0);
    a.data = data;
    vectors[0] = vec;
    a.epochs = 1;
    CHECK_OK(stet_train(&a, &r));
    CHECK_OK(file_read_all(at("run/config.json"), 1 << 20, &text, &n));
    CHECK(strstr(text, "\"data\": \"caf\xef\xbf\xbd.tsv\"") != NULL);
    CHECK(strstr(text, "\"vectors\": [\"v\xef\xbf\xbd"
                       "c.txt\"]") != NULL);
    mem_free(text);
    a.resume = true; /* the same run, complete */
    CHECK_OK(stet_train(&a, &r));
}

TEST(a_damaged_model_folder_is_refused)
{
    stet_train_result r;
    const char *out = at("run");
    stet_train_args a = small_run("cnn", out);
    a.epochs = 1;
    CHECK_OK(stet_train(&a, &r));
    static const char *const names[] = {"config.json", "model.safetensors", "vocab.txt"};
    for (int i = 0; i < 3; i++) {
        char path[300], *text;
        size_t n;
        snprintf(path, sizeof path, "%s/%s", out, names[i]);
        CHECK_OK(file_read_all(path, 1 << 26, &text, &n));
        stet_model *m;
        CHECK_OK(file_write_all(path, text, n / 2));
        CHECK_FAILS(stet_model_load(out, &m), STET_EFORMAT, names[i]);
        CHECK(m == NULL);
        CHECK(unlink(path) == 0);
        CHECK(stet_model_load(out, &m) == STET_EIO);
        CHECK(strstr(stet_last_error(), names[i]) != NULL);
        CHECK_OK(file_write_all(path, text, n));
        CHECK_OK(stet_model_load(out, &m));
        stet_model_free(m);
        mem_free(text);
    }
}

TEST(odd_texts_have_defined_answers)
{
    for (int k = 0; k < SMALL_RUN_KINDS; k++) {
        stet_train_result r;
        stet_train_args a = small_run(kinds[k], at(kinds[k]));
        a.epochs = 1;
        CHECK_OK(stet_train(&a, &r));
        stet_model *m;
        CHECK_OK(stet_model_load(a.out, &m));
        float empty[2], unknown[2], one[2];
        CHECK_OK(stet_model_predict(m, "", 0, empty, NULL));
        CHECK_OK(stet_model_predict(m, "zzzzz", 5, unknown, NULL));
        CHECK(memcmp(empty, unknown, sizeof empty) == 0);       /* no words: one unknown word */
        CHECK_OK(stet_model_predict(m, "good1", 5, one, NULL)); /* shorter than any kernel */
        CHECK(isfinite(one[0]));
        stet_model_free(m);
    }
}
