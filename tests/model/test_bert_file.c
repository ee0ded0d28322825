/* tests/model/test_bert_file.c - folders of BERT: every spelling of them, what is wrong with a wrong one,
 * and the same answers on every path. */
#include <sys/stat.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "base/rng.h"
#include "tiny_bert.h"

static const char *const texts[] = {"The film was good and funny, not dull.", "", "bad",
                                    "a great movie. unable, finely, colder!",
                                    "x y z x y z x y z x y z x y z x y z"};
enum { TEXTS = sizeof texts / sizeof *texts };

static void answers(const model *m, float p[TEXTS][3])
{
    for (size_t i = 0; i < TEXTS; i++)
        CHECK_OK(stet_model_predict(m, texts[i], strlen(texts[i]), p[i], NULL));
}

static model *loaded(const char *dir)
{
    model *m;
    CHECK_OK(stet_model_load(dir, &m));
    return m;
}

TEST(every_spelling_of_the_tensors_is_the_same_model)
{
    const char *dir = tiny_bert();
    float want[TEXTS][3], got[TEXTS][3];
    model *m = loaded(dir);
    CHECK_EQ(stet_model_classes(m), 3);
    CHECK_STR(stet_model_class_name(m, 1), "so-so");
    CHECK_STR(stet_model_kind(m), "bert");
    answers(m, want);
    stet_model_free(m);
    static const spelling all[] = {BARE, OLD};
    for (int k = 0; k < 2; k++) {
        tiny_weights(dir, all[k], 0);
        m = loaded(dir);
        answers(m, got);
        CHECK(memcmp(got, want, sizeof got) == 0);
        stet_model_free(m);
    }
}

TEST(a_saved_folder_is_the_same_model_and_others_can_read_it)
{
    model *m = loaded(tiny_bert()), *again;
    float want[TEXTS][3], got[TEXTS][3];
    answers(m, want);
    const char *dir = in_folder(test_dir(), "saved");
    CHECK_OK(stet_model_save(m, dir));
    again = loaded(in_folder(test_dir(), "saved"));
    answers(again, got);
    CHECK(memcmp(got, want, sizeof got) == 0);
    stet_identity a, b;
    CHECK_OK(stet_model_identity(m, &a));
    CHECK_OK(stet_model_identity(again, &b));
    CHECK_STR(a.config, b.config);
    CHECK_STR(a.weights, b.weights);
    CHECK_STR(a.vocabulary, b.vocabulary);
    CHECK(stet_model_fingerprint(m) == stet_model_fingerprint(again));
    stet_model_free(again);
    json_t *o;
    const char *saved = in_folder(test_dir(), "saved");
    CHECK_OK(json_read_file(in_folder(saved, "config.json"), &o));
    static const char *const keys[] = {"architectures", "vocab_size", "hidden_size", "id2label",
                                       "max_position_embeddings"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        CHECK(json_object_get(o, keys[i]) != NULL);
    /* without what is ours, it is a folder of others: the same again */
    static const char *const ours[] = {"stet", "format", "sha256", "settings", "model", "classes"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        json_object_del(o, ours[i]);
    CHECK_OK(json_write_file(in_folder(in_folder(test_dir(), "saved"), "config.json"), o));
    json_decref(o);
    again = loaded(in_folder(test_dir(), "saved"));
    answers(again, got);
    CHECK(memcmp(got, want, sizeof got) == 0);
    stet_model_free(again);
    stet_model_free(m);
}

static void refused(const char *dir, stet_status code, const char *part)
{
    model *m;
    CHECK_FAILS(stet_model_load(dir, &m), code, part);
    CHECK(m == NULL);
}

TEST(a_configuration_that_is_no_bert_is_named)
{
    const char *dir = tiny_bert();
    static const struct {
        const char *key, *value, *part;
        stet_status code;
    } bad[] = {
        {"model_type", "\"roberta\"", "type 'roberta' was made by another program", STET_ENOTSUP},
        {"hidden_act", "\"gelu_new\"", "hidden_act 'gelu_new'", STET_ENOTSUP},
        {"position_embedding_type", "\"relative_key\"", "'relative_key'", STET_ENOTSUP},
        {"is_decoder", "true", "is_decoder", STET_ENOTSUP},
        {"hidden_size", NULL, "hidden_size", STET_EFORMAT},
        {"hidden_size", "15", "15", STET_EFORMAT},
        {"num_attention_heads", "3", "a width of 16 is not 3 heads", STET_EFORMAT},
        {"vocab_size", "39", "vocab.txt: 40 pieces, but config.json says 39", STET_EFORMAT},
        {"num_hidden_layers", "1", "encoder.layer.1.attention.self.query", STET_EFORMAT},
        {"num_hidden_layers", "3", "has no tensor 'bert.encoder.layer.2", STET_EFORMAT},
        {"intermediate_size", "31", "intermediate.dense.weight", STET_EFORMAT},
        {"max_position_embeddings", "13", "position_embeddings.weight", STET_EFORMAT},
        {"intermediate_size", "1000000", "cannot hold the", STET_EFORMAT},
        {"id2label", "{\"0\": \"a\"}", "fewer than two classes", STET_EFORMAT},
        {"id2label", "{\"0\": \"a\", \"2\": \"b\"}", "no name for class 1", STET_EFORMAT},
        {"id2label", "{\"0\": \"a\", \"1\": \"b\"}", "classifier.weight", STET_EFORMAT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tiny_config(dir, bad[i].key, bad[i].value);
        refused(dir, bad[i].code, bad[i].part);
    }
    tiny_config(dir, "hidden_act", NULL); /* gelu is what it is where nothing is said */
    stet_model_free(loaded(dir));
}

TEST(weights_that_do_not_fit_are_named)
{
    const char *dir = tiny_bert();
    tiny_weights(dir, BOTH, 0);
    refused(dir, STET_EFORMAT, "'bert.embeddings.LayerNorm.bias' is there twice, under two names");
    tiny_weights(dir, AS_IT_IS, 2);
    refused(dir, STET_EFORMAT, "has no classifier of 3 classes");
    tiny_weights(dir, AS_IT_IS, 4);
    refused(dir, STET_EFORMAT, "has no tensor 'bert.pooler.dense.weight'");
    tiny_weights(dir, AS_IT_IS, 0);
    CHECK_EQ(truncate(in_folder(dir, "model.safetensors"), 20000), 0);
    refused(dir, STET_EFORMAT, "model.safetensors");
    CHECK_EQ(unlink(in_folder(dir, "model.safetensors")), 0);
    refused(dir, STET_EIO, "model.safetensors: No such file");
    CHECK_OK(file_write_all(in_folder(dir, "pytorch_model.bin"), "x", 1));
    refused(dir, STET_ENOTSUP, "has pytorch_model.bin; save it again");
}

TEST(a_vocabulary_of_another_size_is_named)
{
    const char *dir = tiny_bert();
    tiny_vocab(dir, 38);
    refused(dir, STET_EFORMAT, "vocab.txt: 38 pieces, but config.json says 40");
    tiny_vocab(dir, 3);
    refused(dir, STET_EFORMAT, "has no piece [SEP]");
    CHECK_EQ(unlink(in_folder(dir, "vocab.txt")), 0);
    refused(dir, STET_EIO, "vocab.txt");
}

TEST(case_is_kept_where_the_tokeniser_says_so)
{
    const char *dir = tiny_bert();
    float lower[3], same[3], kept[3];
    model *m = loaded(dir);
    CHECK_OK(stet_model_predict(m, "good film", 9, lower, NULL));
    CHECK_OK(stet_model_predict(m, "GOOD film", 9, same, NULL));
    CHECK(memcmp(lower, same, sizeof same) == 0);
    stet_model_free(m);
    static const char cased[] = "{\"do_lower_case\": false}",
                      mixed[] = "{\"do_lower_case\": true, \"strip_accents\": false}";
    CHECK_OK(file_write_all(in_folder(dir, "tokenizer_config.json"), cased, strlen(cased)));
    m = loaded(dir);
    CHECK_OK(stet_model_predict(m, "GOOD film", 9, kept, NULL));
    CHECK(kept[0] != lower[0]);
    stet_model_free(m);
    CHECK_OK(file_write_all(in_folder(dir, "tokenizer_config.json"), mixed, strlen(mixed)));
    refused(dir, STET_ENOTSUP, "strip_accents");
}

/* ---- starting from a folder --------------------------------------------------------------- */

static stet_status start(const char *kind, const char *dir, size_t classes, const char *setting,
                         model **out)
{
    const char *const settings[] = {setting, NULL};
    const stet_model_new_args how = {.name = kind,
                                     .init = dir,
                                     .settings = settings,
                                     .max_len = 64,
                                     .n_classes = classes,
                                     .seed = 3};
    return stet_model_new(&how, out);
}

TEST(a_new_model_takes_the_folders_weights_and_draws_what_is_missing)
{
    const char *dir = tiny_bert();
    model *old = loaded(dir), *m;
    CHECK_OK(start("bert", dir, 3, NULL, &m));
    CHECK(memcmp(m->value, old->value, m->n_values * sizeof *m->value) == 0);
    CHECK_EQ(stet_model_max_len(m), 12); /* no more than there are positions */
    stet_model_free(m);
    CHECK_OK(start("bert", dir, 5, NULL, &m)); /* other classes: a new classifier */
    const int head = model_param_id(m, "classifier.weight");
    CHECK_EQ(m->params[head].shape.dim[0], 5);
    double squares = 0;
    for (size_t i = 0; i < 5 * 16; i++)
        squares += (double)(model_value(m, head)[i] * model_value(m, head)[i]);
    CHECK_NEAR(sqrt(squares / 80), 0.02, 0.006);
    CHECK(memcmp(m->table, old->table, 40 * 16 * sizeof *m->table) == 0);
    stet_model_free(m);
    stet_model_free(old);
    tiny_weights(dir, AS_IT_IS, 4); /* without pooler and classifier */
    CHECK_OK(start("bert", dir, 2, NULL, &m));
    CHECK(model_value(m, model_param_id(m, "bert.pooler.dense.weight"))[3] != 0);
    stet_model_free(m);
    tiny_weights(dir, AS_IT_IS, 5);
    CHECK_FAILS(start("bert", dir, 2, NULL, &m), STET_EFORMAT, "has no tensor");
}

TEST(what_init_cannot_do_is_said)
{
    const char *dir = tiny_bert();
    model *m;
    CHECK_FAILS(start("bert", dir, 3, "bert-layers=4", &m), STET_EUSAGE, "--bert-layers: --init");
    CHECK_FAILS(start("bert", "/nowhere", 3, NULL, &m), STET_EIO, "/nowhere: no such folder");
    CHECK_FAILS(start("bert", NULL, 3, NULL, &m), STET_EUSAGE, "needs --init FOLDER");
    tiny_config(dir, "model_type", "\"gpt2\"");
    CHECK_FAILS(start("bert", dir, 3, NULL, &m), STET_EFORMAT, "not the configuration of a bert");
}

/* ---- every path --------------------------------------------------------------------------- */

TEST(a_text_is_answered_alike_alone_and_among_others)
{
    model *m = loaded(tiny_bert());
    stet_str s[TEXTS];
    for (size_t i = 0; i < TEXTS; i++)
        s[i] = (stet_str){texts[i], strlen(texts[i])};
    stet_dataset *d;
    stet_corpus c;
    CHECK_OK(stet_dataset_new(s, (const int[TEXTS]){0}, TEXTS, NULL, 3, &d));
    CHECK_OK(stet_model_encode(m, d, &c));
    CHECK_EQ(c.start[2] - c.start[1], 0); /* an empty text is [CLS] [SEP] */
    float logits[TEXTS][3], alone[TEXTS][3], p[3];
    CHECK_OK(stet_model_logits(m, &c, logits[0]));
    answers(m, alone);
    for (size_t i = 0; i < TEXTS; i++) {
        stet_softmax(logits[i], 3, p);
        for (int k = 0; k < 3; k++)
            CHECK_NEAR(p[k], alone[i][k], 1e-6);
    }
    stet_corpus_deinit(&c);
    stet_dataset_free(d);
    stet_model_free(m);
}

/* Edits change the number of pieces, push words out of the window and pull them in. */
TEST(the_view_gives_what_the_rewritten_text_gives)
{
    enum { LEN = 10, VARIANTS = 100 };
    static const char *const words[] = {"film",   "greater", "unable", "x",
                                        "finely", "scenes",  ".",      "qqq"};
    enum { N = sizeof words / sizeof *words };
    model *m = loaded(tiny_bert());
    stet_words *w;
    CHECK_OK(stet_model_compile(m));
    CHECK_OK(stet_model_words(m, &w));
    uint32_t id[N], ids[LEN];
    for (size_t i = 0; i < N; i++)
        CHECK_OK(stet_words_add(w, words[i], strlen(words[i]), &id[i]));
    rng r = rng_stream(4, STREAM_TEST, 3);
    for (size_t i = 0; i < LEN; i++)
        ids[i] = id[rng_below(&r, N)];
    static stet_edit edits[VARIANTS * LEN];
    size_t start_of[VARIANTS + 1] = {0};
    for (size_t i = 0; i < VARIANTS; i++) {
        start_of[i + 1] = start_of[i];
        for (uint32_t p = 0; p < LEN; p++)
            if (rng_below(&r, 3) == 0)
                edits[start_of[i + 1]++] = (stet_edit){p, id[rng_below(&r, N)]};
    }
    stet_view *v;
    static float logits[VARIANTS * 3];
    CHECK_OK(stet_view_open(m, w, ids, LEN, &v));
    CHECK_OK(stet_view_edits(v, edits, start_of, VARIANTS, logits));
    for (size_t i = 0; i < VARIANTS; i++) {
        uint32_t now[LEN];
        char text[512] = "";
        float by_text[3], by_view[3];
        memcpy(now, ids, sizeof now);
        for (size_t e = start_of[i]; e < start_of[i + 1]; e++)
            now[edits[e].pos] = edits[e].word;
        for (size_t p = 0; p < LEN; p++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s ",
                     stet_words_word(w, now[p]));
        CHECK_OK(stet_model_predict(m, text, strlen(text), by_text, NULL));
        stet_softmax(logits + 3 * i, 3, by_view);
        for (int k = 0; k < 3; k++)
            CHECK_NEAR(by_text[k], by_view[k], 1e-5);
    }
    stet_view_free(v);
    CHECK_OK(stet_view_open(m, w, NULL, 0, &v)); /* an empty text */
    float p[3], q[3];
    stet_softmax(stet_view_logits(v), 3, p);
    CHECK_OK(stet_model_predict(m, "", 0, q, NULL));
    CHECK_NEAR(p[0], q[0], 1e-6);
    stet_view_free(v);
    stet_words_free(w);
    stet_model_free(m);
}

TEST(a_very_long_text_is_cut)
{
    enum { WORDS = 100000 };
    model *m = loaded(tiny_bert());
    char *text = mem_alloc(2 * WORDS, 1);
    for (size_t i = 0; i < WORDS; i++)
        memcpy(text + 2 * i, i < 10 ? "x " : "y ", 2);
    float p[3], q[3];
    CHECK_OK(stet_model_predict(m, text, 2 * WORDS, p, NULL));
    CHECK_OK(stet_model_predict(m, text, 20, q, NULL));
    CHECK(memcmp(p, q, sizeof p) == 0);
    FILE *f = fopen(in_folder(test_dir(), "long.tsv"), "w");
    CHECK(f != NULL);
    fprintf(f, "0\t%.20s\n1\t%.*s\n1\t%.22s\n", text, 2 * WORDS, text, text);
    fclose(f);
    stet_dataset *d;
    stet_corpus c;
    size_t cut;
    CHECK_OK(stet_dataset_load(in_folder(test_dir(), "long.tsv"), NULL, &d));
    CHECK_OK(corpus_read(d, &m->reader, &c, &cut));
    CHECK_EQ(cut, 2);
    stet_corpus_deinit(&c);
    stet_dataset_free(d);
    mem_free(text);
    stet_model_free(m);
}

static stet_status use(void *dir)
{
    model *m;
    float p[3];
    TRY(stet_model_load(dir, &m));
    const stet_status st = stet_model_predict(m, "a fine film", 11, p, NULL);
    stet_model_free(m);
    return st;
}

TEST(a_folder_is_used_whole_or_not_at_all)
{
    stet_set_threads(1);
    CHECK_LE(100, ALLOC_FAIL_LOOP(use, (void *)tiny_bert()));
}
