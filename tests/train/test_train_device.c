/* Training on a device whose memory nobody but a kernel may touch (tensor/locked_store.h): the same
 * bytes as on the host, also when the run is interrupted there, and when it goes on elsewhere. */
#include "ways.h"

#include "tensor/locked_store.h"

/* The lines of steps in train.jsonl, one after the other. */
static char *steps_of(const char *run)
{
    char path[300], *text;
    size_t n;
    snprintf(path, sizeof path, "%s/train.jsonl", run);
    CHECK_OK(file_read_all(path, 1 << 26, &text, &n));
    char *to = text;
    for (char *line = text, *end; line < text + n; line = end) {
        end = memchr(line, '\n', (size_t)(text + n - line));
        end = end ? end + 1 : text + n;
        if (strncmp(line, "{\"step\":", 8) == 0) {
            memmove(to, line, (size_t)(end - line));
            to += end - line;
        }
    }
    *to = '\0';
    return text;
}

static void same_run(const char *a, const char *b)
{
    same_files(a, b);
    char *x = steps_of(a), *y = steps_of(b);
    CHECK(strlen(x) > 0);
    if (strcmp(x, y) != 0)
        test_fail(__FILE__, __LINE__, "the steps of %s and %s differ", a, b);
    mem_free(x);
    mem_free(y);
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
        same_run(at("host"), at("locked"));
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
        same_run(at("whole"), at("parts"));
    }
}

static size_t uploads;

static void counted_upload(store *s, void *to, const void *from, size_t bytes)
{
    uploads += bytes > sizeof(real); /* the seed of a backward walk is one number */
    locked_copy(s, to, from, bytes);
}

/* The words of texts and what may stand in their place are looked up there; the heads of all batches
 * of an epoch are one slab. `more`: what else a step sends, which is lengths alone. */
TEST(steps_send_no_words_to_the_device)
{
    static const struct {
        way w;
        size_t more;
    } cases[] = {
        {{"cnn", "standard", {NULL}}, 0},
        {{"~cnn", "standard", {NULL}}, 0},
        {{"cnn", "certified", {"kappa=0.4", NULL}}, 0},
        {{"~cnn", "certified", {"bound=joint", NULL}}, 0},
        {{"~!cnn", "certified,gbm", {"kappa=0.4", NULL}}, 0},
        {{"~sum", "certified", {"kappa=0.4", NULL}}, 1},     /* roots of them */
        {{"%bilstm", "standard", {NULL}}, 1},                /* pieces */
        {{"~%bilstm", "certified", {"kappa=0.4", NULL}}, 2}, /* for clean texts, and ranges */
        {{"!bert", "standard", {NULL}}, 2}, /* positions, and tokens' own numbers */
    };
    store_desc counted = locked_desc;
    counted.upload = counted_upload;
    CHECK_OK(store_register(&counted));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stet_train_args a = run_of(&cases[i].w, at("never"));
        a.device = "locked";
        a.dropout = 0;
        stet_train_bench b;
        size_t sent[2];
        CHECK_OK(stet_train_time(&a, 0, NULL, NULL, 0, &b));
        CHECK_LE(10, b.steps_per_epoch);
        for (size_t epochs = 1; epochs <= 2; epochs++) {
            uploads = 0;
            CHECK_OK(stet_train_time(&a, epochs * b.steps_per_epoch, NULL, NULL, 0, &b));
            sent[epochs - 1] = uploads;
        }
        CHECK_EQ(sent[1], sent[0] + 1 + cases[i].more * b.steps_per_epoch);
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

/* A device that is lost after some waits. */
static int waits_left;

static stet_status lost_download(store *s, void *to, const void *const *from, size_t n,
                                 size_t bytes)
{
    if (waits_left-- <= 0)
        return error_set(STET_EDEVICE, "the device is lost");
    return locked_download(s, to, from, n, bytes);
}

static stet_status lost_receive(store *s, store_letter *l)
{
    if (waits_left-- <= 0)
        return error_set(STET_EDEVICE, "the device is lost");
    return locked_receive(s, l);
}

TEST(a_lost_device_leaves_a_checkpoint_to_go_on_from)
{
    store_desc lost = locked_desc;
    lost.name = "lost";
    lost.download = lost_download;
    lost.receive = lost_receive;
    CHECK_OK(store_register(&lost));
    stet_train_result r;
    stet_train_args a = run_of(&ways[10], at("whole"));
    CHECK_OK(stet_train(&a, &r));
    a.out = at("parts");
    a.device = "lost";
    waits_left = 40;
    CHECK_FAILS(stet_train(&a, &r), STET_EDEVICE, "the device is lost");
    CHECK(file_exists(at("parts/checkpoint.safetensors")));
    a.device = NULL;
    a.resume = true;
    CHECK_OK(stet_train(&a, &r));
    same_run(at("whole"), at("parts"));
}
