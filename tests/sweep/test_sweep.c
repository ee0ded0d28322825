/* A sweep as a library user runs it: points stream, it goes on where it was stopped, its models are
 * those of single runs, and every mistake is told before anything runs. */
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "stet/job.h"
#include "stet/sweep.h"
#include "stet/train.h"
#include "test.h"

static const char *at(const char *name)
{
    static char path[8][512];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", test_dir(), name);
    return p;
}

/* 120 texts, one in four of which a swap can change; vectors; sets. */
static void write_inputs(void)
{
    static const char *const text[] = {
        "1\tthis film is good and fine", "0\tthis film is bad and poor",
        "1\tthis film is fine and great", "0\tthis film is good and awful"};
    static const char *const word[] = {"this",  "film", "is",   "good",  "fine",
                                       "great", "bad",  "poor", "awful", "and"};
    FILE *f = fopen(at("all.tsv"), "w");
    for (int i = 0; i < 120; i++)
        fprintf(f, "%s number%d\n", text[i % 4], i);
    fclose(f);
    f = fopen(at("v.txt"), "w");
    for (int w = 0; w < 10; w++) {
        fputs(word[w], f);
        for (int d = 0; d < 6; d++)
            fprintf(f, " %g", sin(1 + 7 * w + 3 * d));
        fputc('\n', f);
    }
    fclose(f);
    f = fopen(at("map.json"), "w");
    fputs("{\"good\": [\"fine\", \"great\"], \"bad\": [\"poor\", \"awful\"]}", f);
    fclose(f);
}

/* Points that were told. */
typedef struct told {
    size_t n, found, failed, done;
    double certified;
    char error[256];
    pthread_t thread;
    stet_job *stop; /* interrupted at the first point; NULL: nobody */
} told;

static void tell(void *user, const stet_sweep_point *p)
{
    told *t = user;
    CHECK(pthread_equal(pthread_self(), t->thread));
    t->n++;
    t->found += p->found;
    t->done = p->done;
    t->certified = p->value[STET_SWEEP_CERTIFIED];
    if (p->error) {
        t->failed++;
        snprintf(t->error, sizeof t->error, "%s", p->error);
    }
    if (t->stop)
        stet_job_interrupt(t->stop);
}

enum { N_TRAIN = 14 };
static const char *words[N_TRAIN];

static stet_sweep_args small_sweep(told *t)
{
    static char data[512], vectors[512], sets[512], out[512];
    write_inputs();
    snprintf(data, sizeof data, "%s", at("all.tsv"));
    snprintf(vectors, sizeof vectors, "%s", at("v.txt"));
    snprintf(sets, sizeof sets, "%s", at("map.json"));
    snprintf(out, sizeof out, "%s", at("s"));
    const char *const train[N_TRAIN] = {"--data",   data,  "--vectors", vectors, "--synonyms", sets,
                                        "--model",  "cnn", "--filters", "4",     "--batch",    "8",
                                        "--epochs", "2"};
    memcpy(words, train, sizeof words);
    *t = (told){.thread = pthread_self()};
    stet_sweep_args a = STET_SWEEP_DEFAULTS;
    a.out = out, a.betas = "0,0.1", a.seeds = "1,2", a.train = words, a.n_train = N_TRAIN;
    a.jobs = 2, a.each = tell, a.each_user = t;
    return a;
}

static void same_file(const char *x, const char *y)
{
    char *a, *b;
    size_t na, nb;
    CHECK_OK(file_read_all(x, 1 << 26, &a, &na));
    CHECK_OK(file_read_all(y, 1 << 26, &b, &nb));
    CHECK(na == nb && memcmp(a, b, na) == 0);
    mem_free(a);
    mem_free(b);
}

/* ---- tests -------------------------------------------------------------------------------- */

TEST(points_stream_and_what_is_there_is_not_done_again)
{
    told t;
    stet_sweep_args a = small_sweep(&t);
    stet_sweep_result r;
    a.test = words[1], a.attack = "greedy", a.certify = true, a.synonyms = words[5], a.limit = 20;
    CHECK_OK(stet_sweep(&a, &r));
    CHECK_EQ(t.n, 4);
    CHECK_EQ(t.found, 0);
    CHECK_EQ(t.done, 4);
    CHECK_EQ(r.points, 4);
    CHECK_EQ(r.failed, 0);
    CHECK_EQ(r.n_axes, 1);
    CHECK_STR(r.axis[0], "beta");
    CHECK_EQ(r.n_cells, 2);
    CHECK_STR(r.cell[1].value[0], "0.1");
    CHECK_EQ(r.cell[1].seeds, 2);
    for (int m = 0; m < STET_SWEEP_MEASURES; m++)
        CHECK(r.measured[m] && isfinite(r.cell[0].mean[m]));
    CHECK_LE(r.cell[0].mean[STET_SWEEP_CERTIFIED], r.cell[0].mean[STET_SWEEP_AUA]);
    CHECK_LE(r.cell[1].mean[STET_SWEEP_GBM], r.cell[0].mean[STET_SWEEP_GBM]); /* what beta is for */
    const double certified = r.cell[1].mean[STET_SWEEP_CERTIFIED];
    stet_sweep_result_deinit(&r);
    CHECK(file_exists(at("s/accuracy.svg")) && file_exists(at("s/gbm.svg")));
    struct stat before, after;
    CHECK_EQ(stat(at("s/beta-0_seed-1/train.json"), &before), 0);
    t = (told){.thread = pthread_self()};
    CHECK_OK(stet_sweep(&a, &r));
    CHECK_EQ(t.found, 4);
    CHECK_EQ(stat(at("s/beta-0_seed-1/train.json"), &after), 0);
    CHECK_EQ(before.st_ino, after.st_ino);
    CHECK_NEAR(r.cell[1].mean[STET_SWEEP_CERTIFIED], certified, 0);
    stet_sweep_result_deinit(&r);
    CHECK_EQ(unlink(at("s/beta-0_seed-1/results/certify-auto.json")), 0);
    t = (told){.thread = pthread_self()};
    CHECK_OK(stet_sweep(&a, &r)); /* only that */
    CHECK_EQ(t.found, 3);
    stet_sweep_result_deinit(&r);
}

TEST(a_point_is_the_model_of_a_run_by_itself)
{
    told t;
    stet_sweep_args a = small_sweep(&t);
    stet_sweep_result r;
    CHECK_OK(stet_sweep(&a, &r));
    stet_sweep_result_deinit(&r);
    stet_train_settings s;
    stet_rest rest;
    const char *one[N_TRAIN + 6];
    memcpy(one, words, sizeof words);
    const char *const more[] = {"--defense", "gbm", "--beta", "0.1", "-o", at("one")};
    memcpy(one + N_TRAIN, more, sizeof more);
    CHECK_OK(stet_opt_parse(stet_train_options(), &s, N_TRAIN + 6, (char *const *)one, &rest));
    stet_train_args train;
    stet_train_result result;
    void *store;
    CHECK_OK(stet_train_settings_args(&s, &train, &store));
    train.seed = 2;
    CHECK_OK(stet_train(&train, &result));
    stet_free(store);
    same_file(at("one/model.safetensors"), at("s/beta-0.1_seed-2/model.safetensors"));
    same_file(at("one/config.json"), at("s/beta-0.1_seed-2/config.json"));
}

TEST(an_interrupted_sweep_goes_on_to_the_same_models)
{
    told t;
    stet_sweep_args a = small_sweep(&t);
    stet_sweep_result r;
    stet_job *job;
    CHECK_OK(stet_sweep(&a, &r));
    stet_sweep_result_deinit(&r);
    CHECK_OK(stet_job_new(&job));
    stet_job *before = stet_job_use(job);
    a.out = at("t"), a.jobs = 1;
    t = (told){.thread = pthread_self(), .stop = job};
    CHECK_FAILS(stet_sweep(&a, &r), STET_EINTR, "interrupted");
    CHECK_LE(1, t.n);
    CHECK_LE(t.n, 3);
    CHECK(!r.cell && !r.store);
    stet_job_clear(job);
    t.stop = NULL;
    CHECK_OK(stet_sweep(&a, &r));
    CHECK_EQ(r.cell[0].seeds + r.cell[1].seeds, 4);
    stet_sweep_result_deinit(&r);
    stet_job_use(before);
    stet_job_free(job);
    same_file(at("s/beta-0_seed-2/model.safetensors"), at("t/beta-0_seed-2/model.safetensors"));
    same_file(at("s/beta-0.1_seed-2/model.safetensors"), at("t/beta-0.1_seed-2/model.safetensors"));
}

TEST(blocks_choose_settings_that_nothing_beats)
{
    told t;
    stet_sweep_args a = small_sweep(&t);
    stet_sweep_result r;
    const char *over[] = {"epochs=1,3"};
    words[7] = "sum", a.n_train = 8;
    a.betas = NULL, a.kappas = "0,0.5", a.over = over, a.n_over = 1, a.blocks = 2;
    a.test = words[1];
    CHECK_OK(stet_sweep(&a, &r));
    CHECK_EQ(r.n_cells, 4);
    CHECK_EQ(r.n_axes, 2);
    CHECK_STR(r.axis[1], "epochs");
    CHECK_STR(r.cell[1].value[1], "3");
    CHECK(!r.measured[STET_SWEEP_VALID] && !r.measured[STET_SWEEP_GBM]);
    size_t chosen = 0;
    for (size_t i = 0; i < 4; i++) {
        bool beaten = false;
        const double *x = r.cell[i].mean;
        for (size_t k = 0; k < 4; k++) {
            const double *y = r.cell[k].mean;
            beaten |= y[STET_SWEEP_SAMPLE] >= x[STET_SWEEP_SAMPLE] &&
                      y[STET_SWEEP_CERTIFIED] >= x[STET_SWEEP_CERTIFIED] &&
                      (y[STET_SWEEP_SAMPLE] > x[STET_SWEEP_SAMPLE] ||
                       y[STET_SWEEP_CERTIFIED] > x[STET_SWEEP_CERTIFIED] || k < i);
        }
        CHECK_EQ(r.cell[i].chosen, !beaten);
        chosen += r.cell[i].chosen;
    }
    CHECK_EQ(r.n_final, chosen);
    CHECK_EQ(r.final[0].seeds, 2);
    CHECK(isfinite(r.final[0].mean[STET_SWEEP_CERTIFIED]));
    stet_sweep_result_deinit(&r);
    CHECK(file_exists(at("s/frontier.sh")) && file_exists(at("s/frontier.svg")));
    a.block_share = 0.2;
    CHECK_FAILS(stet_sweep(&a, &r), STET_EUSAGE, "another --block-share");
}

TEST(a_point_that_fails_does_not_end_the_others)
{
    told t;
    stet_sweep_args a = small_sweep(&t);
    stet_sweep_result r;
    const char *over[] = {"synonyms=none.json,map.json"};
    CHECK_EQ(chdir(test_dir()), 0);
    a.betas = NULL, a.over = over, a.n_over = 1, a.seeds = "1";
    CHECK_OK(stet_sweep(&a, &r));
    CHECK_EQ(r.failed, 1);
    CHECK_EQ(t.n, 2);
    CHECK_EQ(t.failed, 1);
    CHECK(strstr(t.error, "none.json") != NULL);
    CHECK_EQ(r.cell[0].seeds, 0);
    CHECK_EQ(r.cell[1].seeds, 1);
    stet_sweep_result_deinit(&r);
    char *log;
    size_t n;
    CHECK_OK(file_read_all(at("s/synonyms-none.json_seed-1/log.txt"), 1 << 20, &log, &n));
    CHECK(strstr(log, "none.json") && log[n - 1] == '\n');
    mem_free(log);
    CHECK_OK(stet_sweep(&a, &r)); /* the other is not trained again */
    CHECK_EQ(t.found, 1);
    CHECK_EQ(r.failed, 1);
    stet_sweep_result_deinit(&r);
}

TEST(mistakes_are_told_before_anything_runs)
{
    told t;
    stet_sweep_args a = small_sweep(&t), b = a;
    stet_sweep_result r;
    const char *over[] = {"seed=1,2"}, *unknown[] = {"epoch=1"};
    b = a, b.out = NULL;
    CHECK_FAILS(stet_sweep(&b, &r), STET_EUSAGE, "expected -o DIR");
    b = a, b.betas = NULL;
    CHECK_FAILS(stet_sweep(&b, &r), STET_EUSAGE, "something to sweep over");
    b = a, b.betas = "0,x";
    CHECK_FAILS(stet_sweep(&b, &r), STET_EUSAGE, "--betas 0,x");
    b = a, b.betas = "0,,1";
    CHECK_FAILS(stet_sweep(&b, &r), STET_EUSAGE, "--betas 0,,1");
    b = a, b.seeds = NULL;
    CHECK_FAILS(stet_sweep(&b, &r), STET_EUSAGE, "--seeds");
    b = a, b.jobs = 0;
    CHECK_FAILS(stet_sweep(&b, &r), STET_EUSAGE, "--jobs 0");
    b = a, b.over = over, b.n_over = 1;
    CHECK_FAILS(stet_sweep(&b, &r), STET_EUSAGE, "--seed is not swept over this way");
    b = a, b.over = unknown, b.n_over = 1;
    CHECK_FAILS(stet_sweep(&b, &r), STET_EUSAGE, "stet train: unknown option --epoch");
    b = a, b.certify = true;
    CHECK_FAILS(stet_sweep(&b, &r), STET_EUSAGE, "need --test FILE and --synonyms SET");
    b = a, b.limit = 3;
    CHECK_FAILS(stet_sweep(&b, &r), STET_EUSAGE, "go with --attack or --certify");
    b = a, b.attack = "greedo", b.test = words[1], b.synonyms = words[5];
    CHECK_FAILS(stet_sweep(&b, &r), STET_EUSAGE, "greedo");
    b = a, b.certify = true, b.test = words[1], b.synonyms = at("none.json");
    CHECK_FAILS(stet_sweep(&b, &r), STET_EIO, "none.json");
    b = a, b.blocks = 2, b.block_share = 0;
    CHECK_FAILS(stet_sweep(&b, &r), STET_EUSAGE, "--block-share 0");
    b = a, b.blocks = 33;
    CHECK_FAILS(stet_sweep(&b, &r), STET_EUSAGE, "--blocks 33");
    b = a, b.size = sizeof b + 8;
    struct {
        stet_sweep_args a;
        uint64_t more;
    } longer = {b, 1};
    CHECK_FAILS(stet_sweep(&longer.a, &r), STET_EUSAGE, "stet_sweep");
    words[13] = "0.5";
    CHECK_FAILS(stet_sweep(&a, &r), STET_EUSAGE, "stet train: --epochs 0.5");
    words[13] = "2";
    CHECK_EQ(t.n, 0);
    CHECK(!dir_exists(at("s/beta-0_seed-1")));
    CHECK_OK(stet_sweep(&a, &r));
    stet_sweep_result_deinit(&r);
    words[13] = "3";
    CHECK_FAILS(stet_sweep(&a, &r), STET_EUSAGE, "trained with --epochs 2, not 3");
}
