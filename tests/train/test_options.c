/* The options of training as data: words become arguments, and what does not fit together is refused. */
#include "stet/train.h"
#include "test.h"

static stet_train_settings s;
static stet_train_args a;

static stet_status read_words(const char *const *words, void **store)
{
    stet_rest rest;
    int n = 0;
    while (words[n])
        n++;
    *store = NULL;
    const stet_status st = stet_opt_parse(stet_train_options(), &s, n, (char *const *)words, &rest);
    return st == STET_OK ? stet_train_settings_args(&s, &a, store) : st;
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(without_words_they_are_the_defaults)
{
    void *store;
    CHECK_OK(read_words(WORDS("--data", "x.tsv"), &store));
    stet_train_args own = STET_TRAIN_DEFAULTS;
    CHECK_STR(a.data, "x.tsv");
    CHECK_STR(a.model, own.model);
    CHECK_STR(a.defense, own.defense);
    CHECK_EQ(a.size, own.size);
    CHECK_EQ(a.max_len, own.max_len);
    CHECK_EQ(a.length_pool, own.length_pool);
    CHECK_EQ(a.patience, own.patience);
    CHECK_EQ(a.save_every, own.save_every);
    CHECK_EQ(a.seed, own.seed);
    CHECK_EQ(a.schedule, own.schedule);
    CHECK_EQ(a.format.header, own.format.header);
    CHECK_NEAR(a.valid_fraction, own.valid_fraction, 0);
    CHECK_NEAR(a.score_rate, own.score_rate, 0);
    CHECK_NEAR(a.teacher_weight, own.teacher_weight, 0);
    CHECK_NEAR(a.rate, own.rate, 0);
    CHECK_NEAR(a.smooth, own.smooth, 0);
    CHECK(!a.valid && !a.synonyms && !a.teacher && !a.word_scores && !a.word_layer && !a.model_settings[0]);
    stet_free(store);
}

TEST(words_go_where_they_belong)
{
    static char wide[600];
    void *store;
    memset(wide, '3', sizeof wide - 1); /* longer than any buffer of old */
    CHECK_OK(read_words(WORDS("--model", "cnn", "--filters=7", "--kernels", wide, "--defense",
                              "certified,gbm", "--beta", "0.1", "--kappa", "0.5", "--valid",
                              "v.tsv", "--fold", "2of5", "--lr", "0.25", "--vectors", "a",
                              "--vectors", "b", "--word-scores", "--word-layer=12", "-o", "run"),
                        &store));
    CHECK_STR(a.model_settings[0] + 8, wide);
    CHECK_STR(a.model_settings[1], "filters=7");
    CHECK(!a.model_settings[2]);
    CHECK_STR(a.defense_settings[0], "beta=0.1");
    CHECK_STR(a.defense_settings[1], "kappa=0.5");
    CHECK(!a.defense_settings[2]);
    CHECK_STR(a.valid, "v.tsv");
    CHECK_EQ(a.fold, 2);
    CHECK_EQ(a.folds, 5);
    CHECK_EQ(a.n_vectors, 2);
    CHECK_STR(a.vectors[1], "b");
    CHECK_NEAR(a.rate, 0.25, 0);
    CHECK(a.word_scores);
    CHECK_EQ(a.word_layer, 12);
    CHECK_STR(a.out, "run");
    stet_free(store);
}

TEST(what_does_not_fit_together_is_refused)
{
    void *store;
    CHECK_FAILS(read_words(WORDS("--hidden", "3"), &store), STET_EUSAGE,
                "--hidden is an option of model");
    CHECK_FAILS(read_words(WORDS("--beta", "3"), &store), STET_EUSAGE,
                "--beta is an option of defence 'gbm': add it to --defense");
    CHECK_FAILS(read_words(WORDS("--lr", "-3"), &store), STET_EUSAGE, "--lr");
    CHECK_FAILS(read_words(WORDS("--lr", "-0.5"), &store), STET_EUSAGE, "expected -1 or a number");
    CHECK_FAILS(read_words(WORDS("--valid", "1.5"), &store), STET_EUSAGE, "--valid 1.5");
    CHECK_FAILS(read_words(WORDS("--fold", "6of5"), &store), STET_EUSAGE, "--fold 6of5");
    CHECK_FAILS(read_words(WORDS("--teacher-of", "both"), &store), STET_EUSAGE, "needs --teacher");
    CHECK_FAILS(read_words(WORDS("--filtres", "3"), &store), STET_EUSAGE, "filters");
    CHECK(!store);
}

TEST(a_recipe_is_words_to_be_read_first)
{
    const char *const *words;
    void *store;
    CHECK_OK(read_words(WORDS("--recipe", "robust"), &store));
    stet_free(store);
    CHECK_OK(stet_train_settings_recipe(&s, &words));
    CHECK(words && strncmp(words[0], "--", 2) == 0);
    CHECK_OK(read_words(words, &store)); /* each of them is an option */
    stet_free(store);
    CHECK_OK(stet_train_settings_recipe(&s, &words));
    CHECK(!words);
    CHECK_OK(read_words(WORDS("--recipe", "none"), &store));
    stet_free(store);
    CHECK_FAILS(stet_train_settings_recipe(&s, &words), STET_EUSAGE, "--recipe none");
}
