/* tests/train/test_train_bert.c - BERT through training, the folder and every attack. */
#include "base/json.h"
#include "small_run.h"
#include "stet/attack.h"
#include "stet/certify.h"

#include "model/tiny_bert.h" /* after small_run.h, which calls an argument `model` */

static stet_train_args bert_run(const char *out)
{
    stet_train_args a = small_run("bert", out);
    a.rate = 5e-3;
    a.epochs = 6;
    a.patience = 0;
    return a;
}

static stet_model *trained(const char *out)
{
    const stet_train_args a = bert_run(out);
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
    write_corpus(at("test.tsv"), 40, 2);
    CHECK_OK(stet_dataset_load(at("test.tsv"), NULL, &d));
    return d;
}

TEST(it_learns_from_scratch_and_answers_as_it_did)
{
    stet_model *m = trained(at("bert"));
    stet_dataset *d = test_texts();
    stet_corpus c;
    stet_scores s;
    CHECK_OK(stet_model_encode(m, d, &c));
    CHECK_OK(stet_model_scores(m, &c, &s));
    CHECK_LE(0.9, s.accuracy);
    stet_scores_deinit(&s);
    stet_corpus_deinit(&c);
    stet_dataset_free(d);
    stet_model_free(m);
}

TEST(its_settings_are_those_of_fine_tuning_where_none_are_given)
{
    stet_train_args a = bert_run(at("own"));
    a.batch = a.epochs = 0;
    a.rate = -1;
    stet_train_result r;
    json_t *o;
    CHECK_OK(stet_train(&a, &r));
    CHECK_OK(json_read_file(at("own/config.json"), &o));
    const json_t *t = json_object_get(o, "training");
    CHECK_EQ(json_integer_value(json_object_get(t, "epochs")), 3);
    CHECK_EQ(json_integer_value(json_object_get(t, "batch")), 16);
    CHECK_NEAR(json_number_value(json_object_get(t, "clip")), 1, 0);
    CHECK_NEAR(json_number_value(json_object_get(t, "rate")), 3e-5, 1e-20);
    CHECK_STR(json_string_value(json_object_get(t, "optimizer")), "adamw");
    json_decref(o);
}

TEST(threads_change_no_byte)
{
    stet_train_result r;
    stet_train_args a = bert_run(at("one"));
    a.epochs = 2;
    stet_set_threads(1);
    CHECK_OK(stet_train(&a, &r));
    stet_set_threads(2);
    a.out = at("two");
    CHECK_OK(stet_train(&a, &r));
    same_files(at("one"), at("two"));
}

/* Fine-tuning starts from what the folder has, and another start is another run. */
TEST(it_starts_from_a_folder)
{
    stet_model *m = trained(at("first"));
    stet_train_args a = bert_run(at("second"));
    stet_train_result r;
    a.model_settings = NULL;
    a.init = at("first");
    a.epochs = 1;
    a.rate = 1e-6;
    CHECK_OK(stet_train(&a, &r));
    CHECK_LE(0.9, r.valid_accuracy); /* as good as it was */
    stet_model *n;
    CHECK_OK(stet_model_load(at("second"), &n));
    CHECK(stet_model_fingerprint(n) != stet_model_fingerprint(m));
    stet_model_free(n);
    stet_model_free(m);
}

TEST(every_attack_runs)
{
    stet_model *m = trained(at("bert"));
    stet_dataset *d = test_texts();
    static const char json[] =
        "{\"good0\": [\"bad0\", \"word1\"], \"good1\": [\"bad1\"], \"bad0\": [\"good0\", "
        "\"word3\"], "
        "\"bad1\": [\"good1\", \"goodword\"], \"good2\": [\"bad2\"], \"bad2\": [\"good2\"]}";
    CHECK_OK(file_write_all(at("sets.json"), json, strlen(json)));
    stet_sets sets;
    CHECK_OK(stet_sets_load(at("sets.json"), &sets));
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = m, a.data = d, a.sets = &sets;
    stet_attack_result r;
    for (size_t i = 0; i < stet_attacks(); i++) {
        a.attack = stet_attack_name(i);
        CHECK_OK(stet_attack_run(&a, &r));
        CHECK_LE(30, r.correct);
        CHECK(r.succeeded > 0);
    }
    stet_certify_args c = STET_CERTIFY_DEFAULTS;
    c.model = m, c.data = d, c.sets = &sets;
    stet_certify_result proved;
    CHECK_FAILS(stet_certify_run(&c, &proved), STET_ENOTSUP, "kind 'bert'");
    stet_sets_free(&sets);
    stet_dataset_free(d);
    stet_model_free(m);
}

TEST(what_it_cannot_use_is_refused)
{
    stet_train_result r;
    stet_train_args a = bert_run(at("no"));
    a.n_vectors = 1;
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "'bert' has its own vectors");
    a = bert_run(at("no"));
    a.vector_rate = 0.1;
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "--tune-vectors");
    a = bert_run(at("no"));
    a.word_scores = true;
    CHECK_FAILS(stet_train(&a, &r), STET_ENOTSUP, "word scores");
    a = small_run("cnn", at("no"));
    a.init = tiny_bert();
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "starts from word vectors");
    a = bert_run(at("no"));
    a.init = tiny_bert();
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "--bert-layers: --init");
    static const char *const uneven[] = {"bert-heads=3", NULL};
    a = bert_run(at("no"));
    a.model_settings = uneven;
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "not 3 heads");
    CHECK(!file_exists(at("no/config.json")));
}
