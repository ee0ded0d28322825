/* tests/train/test_train_bert.c - BERT through training, the folder and every attack. */
#include <unistd.h>

#include "base/json.h"
#include "small_run.h"
#include "stet/attack.h"
#include "stet/certify.h"

#include "defense/defenses.h"
#include "defense/votes.h"
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

/* ---- votes -------------------------------------------------------------------------------- */

/* Words of several pieces: few whole words are known. */
static const char *const spelt[] = {"bert-layers=1",
                                    "bert-hidden=16",
                                    "bert-heads=2",
                                    "bert-inner=32",
                                    "bert-positions=64",
                                    "bert-pieces=50",
                                    NULL};

static stet_model *voter(const char *defense, const char *const *settings, const char *out)
{
    stet_train_args a = bert_run(out);
    stet_train_result r;
    stet_model *m;
    static char sets[256];
    snprintf(sets, sizeof sets, "%s", at("sets"));
    write_sets(sets);
    a.synonyms = sets;
    a.model_settings = spelt;
    a.defense = defense;
    a.defense_settings = settings;
    CHECK_OK(stet_train(&a, &r));
    CHECK_LE(0.8, r.valid_accuracy);
    CHECK_OK(stet_model_load(out, &m));
    return m;
}

/* The same votes whether a text is alone, in a corpus, or opened in a view: (n texts, 2). */
static void same_votes(stet_model *m, const stet_dataset *d)
{
    stet_corpus c;
    CHECK_OK(stet_model_encode(m, d, &c));
    float *logits = mem_alloc(c.n_texts * 2, sizeof *logits), p[2], q[2];
    CHECK_OK(stet_model_logits(m, &c, logits));
    CHECK_OK(stet_model_compile(m));
    for (size_t i = 0; i < 10; i++) {
        const stet_str text = stet_dataset_text(d, i);
        CHECK_OK(stet_model_predict(m, text.data, text.len, p, NULL));
        stet_softmax(logits + 2 * i, 2, q);
        CHECK_NEAR(p[0], q[0], 1e-7);
        stet_words *w;
        stet_reading r = {0};
        stet_view *v;
        CHECK_OK(stet_model_words(m, &w));
        CHECK_OK(stet_words_read(w, text.data, text.len, &r));
        CHECK_OK(stet_view_open(m, w, r.ids, r.n, &v));
        stet_softmax(stet_view_logits(v), 2, q);
        CHECK_NEAR(p[0], q[0], 1e-7);
        stet_view_free(v);
        stet_reading_deinit(&r);
        stet_words_free(w);
    }
    mem_free(logits);
    stet_corpus_deinit(&c);
}

/* The texts that a defence makes of one in a step, as strings. */
typedef struct words_seen {
    char word[64][64];
    size_t n;
} words_seen;

static void spell_out(const model *m, const uint32_t *rows, size_t n, words_seen *out)
{
    uint32_t at_row[256];
    out->n = reader_words(&m->reader, rows, n, at_row);
    for (size_t i = 0; i < out->n; i++)
        if (!m->reader.spell(&m->reader, rows + at_row[i], at_row[i + 1] - at_row[i], out->word[i],
                             64))
            strcpy(out->word[i], "?");
}

static void drawn(const model *m, const defense_desc *d, void *state, uint64_t step,
                  const uint32_t *rows, size_t n, words_seen *out)
{
    arena mem = {0};
    step_texts t = {.n_own = 1, .mem = &mem};
    const step_view v = {.m = m, .seed = 3, .step = step, .mem = &mem};
    CHECK_OK(texts_add(&t, rows, n, 0));
    CHECK_OK(d->batch(state, &v, &t));
    spell_out(m, t.v[0].ids, t.v[0].n, out);
    arena_deinit(&mem);
}

TEST(noise_acts_on_whole_words)
{
    static const char text[] = "good0 word17 bad3 word29 good4 word11 word12 word13 good1 bad0";
    static const char *const masks[] = {"ranmask-rate=0.6", "ranmask-votes=3", NULL},
                             *const swaps[] = {"safer-votes=3", NULL};
    for (int k = 0; k < 2; k++) {
        stet_model *m = voter(k ? "safer" : "ranmask", k ? swaps : masks, at("noise"));
        stet_words *w;
        stet_reading r = {0};
        uint32_t rows[256];
        CHECK_OK(stet_model_words(m, &w));
        CHECK_OK(stet_words_read(w, text, strlen(text), &r));
        const size_t n = words_rows(w, r.ids, r.n, rows);
        CHECK(r.n == 10 && n > 20); /* several pieces a word */
        words_seen as, now;
        spell_out(m, rows, n, &as);
        CHECK_EQ(as.n, 10);
        CHECK_STR(as.word[1], "word17");
        const defense_desc *d = k ? &defense_safer : &defense_ranmask;
        void *state = NULL;
        if (d->start)
            CHECK_OK(d->start(m->rule->cfg, m, NULL, &state));
        size_t changed = 0;
        for (uint64_t step = 0; step < 200; step++) {
            size_t hidden = 0;
            drawn(m, d, state, step, rows, n, &now);
            CHECK_EQ(now.n, 10);
            for (size_t i = 0; i < 10; i++) {
                hidden += strcmp(now.word[i], "?") == 0;
                changed += strcmp(now.word[i], as.word[i]) != 0;
                if (k == 0) /* hidden, or as it was */
                    CHECK(now.word[i][0] == '?' || strcmp(now.word[i], as.word[i]) == 0);
                else /* of the same family, and words without one stay */
                    CHECK(as.word[i][0] == 'w' ? strcmp(now.word[i], as.word[i]) == 0
                                               : strncmp(now.word[i], as.word[i], 3) == 0);
            }
            CHECK_EQ(hidden, k ? 0 : 6);
        }
        CHECK_NEAR((double)changed / 200, k ? 5 * 0.8 : 6, k ? 0.3 : 0);
        if (d->end)
            d->end(state);
        stet_reading_deinit(&r);
        stet_words_free(w);
        stet_model_free(m);
    }
}

static stet_certify_result likely_of(stet_model *m, const stet_dataset *d, size_t budget)
{
    stet_sets sets;
    stet_certify_result r;
    CHECK_OK(stet_sets_load(at("sets"), &sets));
    stet_certify_args a = STET_CERTIFY_DEFAULTS;
    a.model = m, a.data = d, a.sets = &sets, a.how.budget = budget;
    CHECK_OK(stet_certify_run(&a, &r));
    stet_sets_free(&sets);
    return r;
}

TEST(it_votes_with_masks_and_says_what_is_likely)
{
    static const char *const settings[] = {"ranmask-rate=0.6", "ranmask-votes=21",
                                           "ranmask-draws=300", NULL};
    stet_model *m = voter("ranmask", settings, at("mask"));
    stet_dataset *d = test_texts();
    same_votes(m, d);
    stet_certify_result r = likely_of(m, d, 1);
    CHECK(r.certified == 0 && r.likely > 0.1 && r.likely < 1);
    stet_certify_result_deinit(&r);
    stet_dataset_free(d);
    stet_model_free(m);
}

/* Pieces have vectors, words have none: what is near is what the fewest substitutions reach. */
static void near_words_are_substitutes(const char *path)
{
    static const char *const family[] = {"good", "bad"};
    stet_subst *s;
    CHECK_OK(stet_subst_load(path, &s));
    for (int i = 0; i < 10; i++) {
        char word[8], other[8];
        size_t n;
        snprintf(word, sizeof word, "%s%d", family[i / 5], i % 5);
        const uint32_t *near = stet_subst_of(s, stet_subst_word_id(s, word, strlen(word)), &n);
        CHECK_EQ(n, 2);
        for (int k = 0; k < 2; k++) {
            bool there = false;
            snprintf(other, sizeof other, "%s%d", family[i / 5], (i + (k ? 3 : 1)) % 5);
            for (size_t j = 0; j < n; j++)
                there |= strcmp(stet_subst_word(s, near[j]), other) == 0;
            CHECK(there);
        }
    }
    stet_subst_free(s);
}

/* Whole groups: every swap draws from the same words. Small neighbourhoods: swaps show. */
TEST(it_votes_with_synonyms_and_says_what_is_likely)
{
    static const char *const whole[] = {"safer-votes=21", "safer-draws=300", NULL},
                             *const cut[] = {"safer-votes=21", "safer-draws=300", "safer-most=3",
                                             NULL};
    stet_dataset *d = test_texts();
    stet_model *m = voter("safer", whole, at("whole"));
    same_votes(m, d);
    stet_certify_result r = likely_of(m, d, STET_ANY), s;
    CHECK(r.certified == 0 && r.likely > 0.5);
    stet_model_free(m);
    m = voter("safer", cut, at("cut"));
    s = likely_of(m, d, STET_ANY);
    CHECK(s.likely < r.likely);
    near_words_are_substitutes(at("cut/safer.subst"));
    stet_certify_result_deinit(&r);
    stet_certify_result_deinit(&s);
    stet_dataset_free(d);
    stet_model_free(m);
}

/* ---- a teacher ---------------------------------------------------------------------------- */

TEST(it_teaches_a_certified_cnn)
{
    static char teacher[256], sets_path[256];
    snprintf(teacher, sizeof teacher, "%s", at("teacher"));
    stet_model_free(trained(teacher));
    snprintf(sets_path, sizeof sets_path, "%s", at("sets"));
    write_sets(sets_path);
    stet_model *m[2];
    for (int k = 0; k < 2; k++) {
        stet_train_args a = small_run("cnn", at(k ? "taught" : "alone"));
        stet_train_result r;
        static const char *const half[] = {"kappa=0.5", NULL};
        a.synonyms = sets_path;
        a.defense = "certified";
        a.defense_settings = half;
        a.rate = 1e-2;
        a.epochs = 4;
        a.teacher = k ? teacher : NULL;
        CHECK_OK(stet_train(&a, &r));
        CHECK_LE(0.9, r.valid_accuracy);
        CHECK_OK(stet_model_load(a.out, &m[k]));
    }
    CHECK(stet_model_fingerprint(m[0]) != stet_model_fingerprint(m[1]));
    stet_dataset *d = test_texts();
    stet_sets sets;
    CHECK_OK(stet_sets_load(sets_path, &sets));
    stet_certify_args c = STET_CERTIFY_DEFAULTS;
    c.model = m[1], c.data = d, c.sets = &sets;
    stet_certify_result proved;
    CHECK_OK(stet_certify_run(&c, &proved));
    CHECK_LE(0.5, proved.certified);
    stet_certify_result_deinit(&proved);
    stet_sets_free(&sets);
    stet_dataset_free(d);
    stet_model_free(m[0]);
    stet_model_free(m[1]);
}

TEST(a_teacher_that_cannot_teach_is_named)
{
    stet_train_args a = small_run("cnn", at("no"));
    stet_train_result r;
    a.teacher = tiny_bert(); /* of three classes */
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "its classes differ");
    CHECK_EQ(unlink(in_folder(a.teacher, "vocab.txt")), 0);
    CHECK_FAILS(stet_train(&a, &r), STET_EIO, "vocab.txt");
    CHECK(!file_exists(at("no/config.json")));
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
