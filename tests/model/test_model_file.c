/* The model folder: what is written when memory runs out, sizes that a file only claims. */
#include <sys/stat.h>

#include "alloc_fail.h"
#include "base/file.h"
#include "base/json.h"
#include "small_model.h"

static stet_status save(void *m)
{
    return stet_model_save(m, test_dir());
}

/* In particular no class is missing from a configuration that was written. */
TEST(a_model_is_saved_whole_or_not_at_all)
{
    model *m = small_model(0, 3, 1);
    CHECK_LE(20, ALLOC_FAIL_LOOP(save, m));
    stet_model *back;
    CHECK_OK(stet_model_load(test_dir(), &back));
    CHECK_EQ(stet_model_classes(back), 3);
    CHECK(stet_model_fingerprint(back) == stet_model_fingerprint(m));
    stet_model_free(back);
    stet_model_free(m);
}

/* Load, predict, compile, open a text, edit it; nothing of the configuration may be missing. */
static stet_status use(void *unused)
{
    (void)unused;
    stet_model *m;
    TRY(stet_model_load(test_dir(), &m));
    const size_t extra = json_object_size(m->extra);
    float prob[2], logits[4];
    const uint32_t ids[] = {2, 3, 4, 5};
    const stet_edit edits[] = {{0, 7}, {1, 8}, {3, 9}};
    stet_view *v = NULL;
    stet_status st = stet_model_predict(m, "w1 w2 w3", 8, prob, NULL);
    if (st == STET_OK)
        st = stet_model_compile(m);
    if (st == STET_OK)
        st = stet_view_open(m, NULL, ids, 4, &v);
    if (st == STET_OK)
        st = stet_view_edits(v, edits, (const size_t[]){0, 1, 3}, 2, logits);
    stet_view_free(v);
    stet_model_free(m);
    CHECK(st != STET_OK || extra == 3);
    return st;
}

TEST(every_model_is_used_whole_or_not_at_all)
{
    stet_set_threads(1);
    for (int k = 0; k < SMALL_KINDS; k++) {
        model *m = small_model(k, 2, 1);
        m->extra = json_pack("{s:{s:i}, s:s, s:i}", "training", "seed", 1, "a", "b", "c", 3);
        CHECK_OK(stet_model_save(m, test_dir()));
        stet_model_free(m);
        CHECK_LE(100, ALLOC_FAIL_LOOP(use, NULL));
    }
}

/* What adds to scores needs them, in a new model and in a folder. */
TEST(a_small_network_of_words_needs_their_scores)
{
    enum { CNN_NET = SMALL_KINDS - 3 };
    CHECK(small_kinds[CNN_NET].settings == small_cnn_net);
    stet_vocab *v;
    stet_model *m;
    CHECK_OK(stet_vocab_from_words((const char *[]){"a"}, 1, &v));
    static const float data[(1 + STET_FIRST_WORD) * 2];
    const stet_vectors t = {.n = 1 + STET_FIRST_WORD, .dim = 2, .data = (float *)data};
    const stet_model_new_args how = {.name = "cnn",
                                     .settings = small_cnn_net,
                                     .vocab = v,
                                     .vectors = &t,
                                     .max_len = 4,
                                     .n_classes = 2};
    CHECK_FAILS(stet_model_new(&how, &m), STET_EUSAGE, "give --word-scores as well");
    stet_vocab_free(v);

    char path[4096], *text;
    size_t n;
    m = small_model(CNN_NET, 2, 1);
    CHECK_OK(stet_model_save(m, test_dir()));
    stet_model_free(m);
    snprintf(path, sizeof path, "%s/config.json", test_dir());
    CHECK_OK(file_read_all(path, 1 << 20, &text, &n));
    char *at = strstr(text, "\"word_scores\": true");
    CHECK(at);
    memcpy(at, "\"other_notes\"", 13);
    CHECK_OK(file_write_all(path, text, n));
    mem_free(text);
    CHECK_FAILS(stet_model_load(test_dir(), &m), STET_EFORMAT, "a model with 'score-hidden'");
}

/* Allocations above a limit fail, as on a machine with little memory, and are counted. */
static size_t refused;

static void *small_resize(void *user, void *p, size_t size)
{
    (void)user;
    if (size <= 16 << 20)
        return realloc(p, size);
    refused++;
    return NULL;
}

static void small_release(void *user, void *p)
{
    (void)user;
    free(p);
}

TEST(memory_is_taken_for_what_the_file_holds_not_for_what_it_claims)
{
    model *m = small_model(1, 2, 1);
    CHECK_OK(stet_model_save(m, test_dir()));
    char path[300], *text;
    size_t n;
    snprintf(path, sizeof path, "%s/config.json", test_dir());
    CHECK_OK(file_read_all(path, 1 << 20, &text, &n));
    char *hidden = strstr(text, "\"hidden\": 7");
    CHECK(hidden != NULL);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fprintf(f, "%.*s\"hidden\": 8000%s", (int)(hidden - text), text, hidden + 11);
    fclose(f);
    mem_free(text);
    stet_model *bad;
    stet_set_allocator(small_resize, small_release, NULL);
    CHECK_FAILS(stet_model_load(test_dir(), &bad), STET_EFORMAT, "model.safetensors");
    stet_set_allocator(NULL, NULL, NULL);
    CHECK_EQ(refused, 0);
    stet_model_free(m);
}
