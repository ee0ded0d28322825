/* Training on the GPU: the CPU's losses, the same bytes every time, and runs that change the device on
 * their way, or lose it. Skips where there is no GPU. */
#include "tensor/optim.h"
#include "ways.h"

static void need_gpu(void)
{
    store *s;
    const stet_status st = store_open("cuda", &s);
    if (st == STET_ENOTSUP)
        SKIP(stet_last_error());
    CHECK_OK(st);
    store_close(s);
}

TEST(ten_steps_have_the_losses_of_the_cpu)
{
    enum { STEPS = 10 };
    need_gpu();
    int wrong = 0;
    for (int i = 0; i < WAYS; i++) {
        double cpu[STEPS], gpu[STEPS];
        stet_train_bench b;
        stet_train_args a = run_of(&ways[i], at("never"));
        CHECK_OK(stet_train_time(&a, STEPS, NULL, cpu, STEPS, &b));
        a.device = "cuda";
        CHECK_OK(stet_train_time(&a, STEPS, NULL, gpu, STEPS, &b));
        for (int k = 0; k < STEPS; k++)
            if (!(fabs(gpu[k] - cpu[k]) <= 2e-4 * (1 + fabs(cpu[k])))) {
                fprintf(stderr, "  way %d: %s, %s: the loss of step %d is %.9g, on the CPU %.9g\n", i,
                        ways[i].model, ways[i].defense, k + 1, gpu[k], cpu[k]);
                wrong++;
                break;
            }
    }
    CHECK_EQ(wrong, 0);
}

TEST(the_same_seed_ends_in_the_same_bytes_interrupted_or_not)
{
    need_gpu();
    for (int i = 0; i < WAYS; i++) {
        stet_train_result r;
        stet_train_args a = run_of(&ways[i], at("whole"));
        a.device = "cuda";
        CHECK_OK(stet_train(&a, &r));
        a.out = at("parts");
        a.resume = false;
        int left = 7;
        stet_set_progress(interrupt_after, &left);
        CHECK_FAILS(stet_train(&a, &r), STET_EINTR, "--resume");
        stet_interrupt_clear();
        stet_set_progress(NULL, NULL);
        a.resume = true;
        CHECK_OK(stet_train(&a, &r));
        same_files(at("whole"), at("parts"));
    }
}

TEST(a_run_begun_on_one_device_ends_on_the_other)
{
    static const char *const on[] = {NULL, "cuda"};
    need_gpu();
    int wrong = 0;
    for (int i = 0; i < WAYS; i++)
        for (int first = 0; first < 2; first++) {
            stet_train_result whole, parts;
            stet_train_args a = run_of(&ways[i], at("whole"));
            a.resume = false;
            CHECK_OK(stet_train(&a, &whole));
            a.out = at("parts");
            a.device = on[first];
            int left = 9;
            stet_set_progress(interrupt_after, &left);
            CHECK_FAILS(stet_train(&a, &parts), STET_EINTR, "--resume");
            stet_interrupt_clear();
            stet_set_progress(NULL, NULL);
            a.resume = true;
            a.device = on[1 - first];
            CHECK_OK(stet_train(&a, &parts));
            CHECK_EQ(parts.steps, whole.steps);
            if (!(fabs(parts.train_loss - whole.train_loss) <=
                  2e-3 * (1 + fabs(whole.train_loss)))) {
                fprintf(stderr, "  way %d: %s, %s: the loss is %.9g, on the CPU %.9g\n", i,
                        ways[i].model, ways[i].defense, parts.train_loss, whole.train_loss);
                wrong++;
            }
        }
    CHECK_EQ(wrong, 0);
}

/* ---- failures ----------------------------------------------------------------------------- */

/* A run that was interrupted after some steps. */
static stet_train_args begun(const char *name)
{
    stet_train_result r;
    stet_train_args a = run_of(&ways[3], strdup(at(name)));
    a.device = "cuda";
    a.save_every = 2;
    int left = 7;
    stet_set_progress(interrupt_after, &left);
    CHECK_FAILS(stet_train(&a, &r), STET_EINTR, "--resume");
    stet_interrupt_clear();
    stet_set_progress(NULL, NULL);
    a.resume = true;
    return a;
}

TEST(out_of_memory_leaves_the_checkpoint)
{
    need_gpu();
    stet_train_result r;
    stet_train_args untouched = begun("untouched"), a = begun("parts");
    setenv("STET_CUDA_LIMIT", "1000000", 1);
    CHECK_FAILS(stet_train(&a, &r), STET_ENOMEM, "GPU 0 is out of memory: ");
    unsetenv("STET_CUDA_LIMIT");
    CHECK_OK(stet_train(&a, &r));
    CHECK_OK(stet_train(&untouched, &r));
    same_files(untouched.out, a.out);
}

/* Writes where there is no memory: the device is lost to this process. */
static void lose_device(void)
{
    store *s;
    optim o;
    CHECK_OK(store_open("cuda", &s));
    CHECK_OK(optim_init(&o, &(optim_options)OPTIM_DEFAULTS, s, 4));
    real *bad = (real *)(uintptr_t)4096;
    CHECK_OK(optim_step(&o, &(param_group){0, 4, 0.1, 0}, 1, bad, bad));
}

static void lose_after(void *user, const char *what, uint64_t done, uint64_t total,
                       const char *note)
{
    (void)done, (void)total, (void)note;
    int *left = user;
    if (strncmp(what, "epoch", 5) == 0 && --*left == 0)
        lose_device();
}

TEST(a_lost_device_leaves_the_checkpoint)
{
    need_gpu();
    stet_train_result r;
    stet_train_args a = begun("parts");
    int left = 3;
    stet_set_progress(lose_after, &left);
    CHECK_FAILS(stet_train(&a, &r), STET_EDEVICE, "GPU 0: ");
    CHECK_LE(left, 0);
    stet_set_progress(NULL, NULL);
    CHECK(stet_train(&a, &r) != STET_OK); /* it does not come back */
    a.device = NULL;
    CHECK_OK(stet_train(&a, &r));
}
