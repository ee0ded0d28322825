/* tests/train/test_bert_cuda.c - BERT in training on the GPU beside the CPU. Skips without a GPU. */
#include "small_run.h"
#include "tensor/store.h"

static void need_gpu(void)
{
    store *s;
    const stet_status st = store_open("cuda", &s);
    if (st == STET_ENOTSUP)
        SKIP(stet_last_error());
    CHECK_OK(st);
    store_close(s);
}

enum { STEPS = 10 };

static void losses_of(const char *where, const char *precision, const char *const *settings,
                      double dropout, double *loss)
{
    stet_train_args a = small_run("bert", NULL);
    stet_train_bench b;
    a.model_settings = settings;
    a.rate = 1e-3;
    a.dropout = dropout;
    a.device = where;
    a.precision = precision;
    CHECK_OK(stet_train_time(&a, STEPS, NULL, loss, STEPS, &b));
    CHECK_EQ(b.steps, STEPS);
}

/* Heads of 8, 32, 64 and 128 columns; the masks of dropout are the same on both. */
TEST(steps_have_the_losses_of_the_cpu)
{
    need_gpu();
    static const char *const sizes[][6] = {
        {"bert-hidden=16", "bert-heads=2", "bert-inner=32", "bert-positions=40", NULL},
        {"bert-hidden=64", "bert-heads=2", "bert-inner=128", "bert-positions=40", NULL},
        {"bert-hidden=128", "bert-heads=2", "bert-inner=128", "bert-positions=40", NULL},
        {"bert-hidden=128", "bert-heads=1", "bert-inner=128", "bert-positions=40", NULL}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int d = 0; d < 2; d++) {
            double cpu[STEPS], gpu[STEPS], again[STEPS];
            losses_of(NULL, NULL, sizes[k], d ? 0.1 : 0, cpu);
            losses_of("cuda", NULL, sizes[k], d ? 0.1 : 0, gpu);
            losses_of("cuda", NULL, sizes[k], d ? 0.1 : 0, again);
            for (int i = 0; i < STEPS; i++) {
                CHECK_NEAR(gpu[i], cpu[i], 1e-4);
                CHECK(gpu[i] == again[i]); /* the same bits every time */
            }
            CHECK(cpu[STEPS - 1] != cpu[0]);
        }
}

/* Rounded factors: near the CPU's, not the same, and the same bits every time. */
TEST(steps_in_bf16_are_near_those_of_the_cpu)
{
    need_gpu();
    static const char *const sizes[] = {"bert-hidden=64", "bert-heads=2", "bert-inner=128",
                                        "bert-positions=40", NULL};
    double cpu[STEPS], gpu[STEPS], again[STEPS], most = 0;
    losses_of(NULL, NULL, sizes, 0.1, cpu);
    losses_of("cuda", "bf16", sizes, 0.1, gpu);
    losses_of("cuda", "bf16", sizes, 0.1, again);
    for (int i = 0; i < STEPS; i++) {
        CHECK_NEAR(gpu[i], cpu[i], 0.02);
        CHECK(gpu[i] == again[i]);
        most = fmax(most, fabs(gpu[i] - cpu[i]));
    }
    CHECK(most > 1e-6);
}

TEST(a_run_ends_in_the_same_bytes_every_time)
{
    need_gpu();
    stet_train_result r;
    stet_train_args a = small_run("bert", at("one"));
    a.device = "cuda";
    a.rate = 5e-3;
    a.patience = 0;
    a.epochs = 6;
    CHECK_OK(stet_train(&a, &r));
    CHECK_LE(0.9, r.valid_accuracy);
    a.out = at("two");
    CHECK_OK(stet_train(&a, &r));
    same_files(at("one"), at("two"));
}
