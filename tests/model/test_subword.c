/* A subword model goes through training, prediction, views and every attack as it is: nothing above its
 * file knows how it reads. */
#include "stet/attack.h"
#include "stet/certify.h"
#include "train/small_run.h"

static stet_train_args toy_run(const char *out)
{
    stet_train_args a = small_run("s4", out);
    a.model = "toy";
    a.model_settings = NULL;
    a.vectors = NULL;
    a.n_vectors = 0;
    a.rate = -1;
    a.epochs = 10;
    a.patience = 0;
    return a;
}

static stet_model *trained(const char *out)
{
    const stet_train_args a = toy_run(out);
    stet_train_result r;
    stet_model *m;
    CHECK_OK(stet_train(&a, &r));
    CHECK_LE(0.9, r.valid_accuracy);
    CHECK_OK(stet_model_load(out, &m));
    return m;
}

static stet_dataset *test_texts(void)
{
    stet_dataset *d;
    write_corpus(at("test.tsv"), 60, 2);
    CHECK_OK(stet_dataset_load(at("test.tsv"), NULL, &d));
    return d;
}

TEST(it_learns_loads_and_answers_alike_on_every_path)
{
    stet_model *m = trained(at("toy"));
    CHECK_STR(stet_model_kind(m), "toy");
    CHECK_EQ(stet_vocab_size(stet_model_vocab(m)), STET_FIRST_WORD);
    stet_dataset *d = test_texts();
    stet_corpus c;
    CHECK_OK(stet_model_encode(m, d, &c));
    CHECK(c.n_tokens > 2 * stet_dataset_size(d)); /* more pieces than words */
    float *logits = mem_alloc(c.n_texts * 2, sizeof *logits);
    CHECK_OK(stet_model_logits(m, &c, logits));
    size_t right = 0;
    for (size_t i = 0; i < c.n_texts; i++) {
        const stet_str text = stet_dataset_text(d, i);
        float p[2], q[2];
        int label;
        CHECK_OK(stet_model_predict(m, text.data, text.len, p, &label));
        stet_softmax(logits + 2 * i, 2, q);
        CHECK_NEAR(p[0], q[0], 1e-6);
        right += label == stet_dataset_label(d, i);
    }
    CHECK_LE(50, right);
    float p[2], q[2];
    CHECK_OK(stet_model_predict(m, "", 0, p, NULL));
    CHECK_OK(stet_model_predict(m, "never met", 9, q, NULL)); /* no <unk>: its pieces count */
    CHECK(p[0] != q[0]);
    mem_free(logits);
    stet_corpus_deinit(&c);
    stet_dataset_free(d);
    stet_model_free(m);
}

TEST(threads_change_no_byte)
{
    stet_train_result r;
    stet_train_args a = toy_run(at("one"));
    stet_set_threads(1);
    CHECK_OK(stet_train(&a, &r));
    stet_set_threads(2);
    a.out = at("two");
    CHECK_OK(stet_train(&a, &r));
    same_files(at("one"), at("two"));
}

/* Edits by the default view against the rewritten text, read from scratch. */
TEST(the_view_gives_what_the_rewritten_text_gives)
{
    enum { LEN = 9, VARIANTS = 200 };
    static const char *const words[] = {"good0",    "bad1", "word7", "a",     "unheardof",
                                        "goodness", "bad",  "or",    "sdlkfj"};
    stet_model *m = trained(at("toy"));
    CHECK_OK(stet_model_compile(m));
    stet_words *w;
    CHECK_OK(stet_model_words(m, &w));
    uint32_t id[LEN], ids[LEN];
    for (size_t i = 0; i < LEN; i++)
        CHECK_OK(stet_words_add(w, words[i], strlen(words[i]), &id[i]));
    CHECK(id[4] != id[8]); /* unknown, and two words all the same */
    rng r = rng_stream(4, STREAM_TEST, 3);
    for (size_t i = 0; i < LEN; i++)
        ids[i] = id[rng_below(&r, LEN)];
    static stet_edit edits[VARIANTS * LEN];
    size_t start[VARIANTS + 1] = {0};
    for (size_t i = 0; i < VARIANTS; i++) {
        start[i + 1] = start[i];
        for (uint32_t p = 0; p < LEN; p++)
            if (rng_below(&r, 3) == 0)
                edits[start[i + 1]++] = (stet_edit){p, id[rng_below(&r, LEN)]};
    }
    stet_view *v;
    float logits[VARIANTS * 2], *clean = logits;
    CHECK_OK(stet_view_open(m, w, ids, LEN, &v));
    CHECK_OK(stet_view_edits(v, edits, start, VARIANTS, logits));
    for (size_t i = 0; i < VARIANTS; i++) {
        uint32_t now[LEN];
        memcpy(now, ids, sizeof now);
        for (size_t e = start[i]; e < start[i + 1]; e++)
            now[edits[e].pos] = edits[e].word;
        char text[256] = "";
        for (size_t p = 0; p < LEN; p++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s ",
                     stet_words_word(w, now[p]));
        float by_text[2], by_view[2];
        CHECK_OK(stet_model_predict(m, text, strlen(text), by_text, NULL));
        stet_softmax(clean + 2 * i, 2, by_view);
        CHECK_NEAR(by_text[0], by_view[0], 1e-5);
    }
    CHECK_FAILS(stet_view_edits(v, &(stet_edit){0, 1000}, (const size_t[]){0, 1}, 1, logits),
                STET_EUSAGE, "out of range");
    stet_view_free(v);
    stet_words_free(w);
    stet_model_free(m);
}

TEST(every_attack_finds_what_is_there)
{
    stet_model *m = trained(at("toy"));
    stet_dataset *d = test_texts();
    static const char json[] =
        "{\"good0\": [\"good1\", \"badly\"], \"bad0\": [\"bad1\", \"goody\"], "
        "\"good2\": [\"badder\"], \"bad2\": [\"good-ish\", \"goodish\"]}";
    CHECK_OK(file_write_all(at("sets.json"), json, strlen(json)));
    stet_sets sets;
    CHECK_OK(stet_sets_load(at("sets.json"), &sets));
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = m, a.data = d, a.sets = &sets;
    stet_attack_result exact, r;
    a.attack = "exhaustive";
    CHECK_OK(stet_attack_run(&a, &exact));
    CHECK(exact.succeeded > 0 && exact.decided == exact.correct);
    for (size_t i = 0; i < stet_attacks(); i++)
        for (const char *const *p = stet_attack_profiles(); *p; p++) {
            a.attack = stet_attack_name(i);
            a.profile = *p;
            CHECK_OK(stet_attack_run(&a, &r));
            CHECK_EQ(r.correct, exact.correct);
            CHECK(r.succeeded > 0 && r.succeeded <= exact.succeeded);
        }
    static const char *const alike[] = {"similarity=mean", "least-similarity=0.9", NULL};
    a.attack = "textfooler";
    a.settings = alike;
    CHECK_OK(stet_attack_run(&a, &r));
    stet_certify_args c = STET_CERTIFY_DEFAULTS;
    c.model = m, c.data = d, c.sets = &sets;
    stet_certify_result proved;
    CHECK_FAILS(stet_certify_run(&c, &proved), STET_ENOTSUP, "kind 'toy'");
    stet_sets_free(&sets);
    stet_dataset_free(d);
    stet_model_free(m);
}

TEST(what_it_cannot_use_is_refused)
{
    stet_train_args a = toy_run(at("toy"));
    stet_train_result r;
    a.vectors = vectors;
    a.n_vectors = 1;
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "'toy' has its own vectors");
    a = toy_run(at("toy"));
    write_sets(at("sets"));
    a.synonyms = at("sets");
    a.smooth = 2;
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "changes word vectors");
    a = toy_run(at("cnn"));
    a.model = "cnn";
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "--vectors");
    a = toy_run(at("toy"));
    CHECK_OK(stet_train(&a, &r));
    char *config;
    size_t n;
    CHECK_OK(file_read_all(at("toy/config.json"), 1 << 20, &config, &n));
    char *words = strstr(config, "\"words\": 512");
    CHECK(words != NULL);
    words[9] = '7';
    CHECK_OK(file_write_all(at("toy/config.json"), config, n));
    stet_model *m;
    CHECK_FAILS(stet_model_load(at("toy"), &m), STET_EFORMAT, "a 'toy' with these settings");
    mem_free(config);
}
