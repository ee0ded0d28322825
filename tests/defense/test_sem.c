/* Synonym encoding: the groups of the golden case, and what holds of a model trained with it. */
#include "train/small_run.h"

#include "defense/defenses.h"
#include "stet/certify.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- groups ------------------------------------------------------------------------------- */

enum { MOST = 16 };

/* Which word each is read as, found by giving every word a vector of its own. */
static void groups_of(const char *const *words, size_t n, const stet_subst *s,
                      const char *const *settings, size_t code[MOST])
{
    stet_vocab *v;
    float own[MOST + STET_FIRST_WORD];
    step_metrics told = {.n = 0};
    CHECK_OK(stet_vocab_from_words(words, n, &v));
    for (size_t i = 0; i < n + STET_FIRST_WORD; i++)
        own[i] = (float)i;
    stet_vectors t = {.n = n + STET_FIRST_WORD, .dim = 1, .data = own};
    defense_list l;
    CHECK_OK(defense_list_init(&l, "sem", settings));
    CHECK_OK(defense_list_vectors(&l, &(vector_view){v, &t, NULL, s, 1, &told}));
    size_t joined = 0;
    for (size_t i = 0; i < n; i++) {
        code[i] = (size_t)own[i + STET_FIRST_WORD] - STET_FIRST_WORD;
        joined += code[i] != i;
    }
    CHECK(own[STET_PAD] == STET_PAD && own[STET_UNK] == STET_UNK);
    CHECK_EQ(metric_of(&told, "sem_joined"), joined);
    defense_list_end(&l);
    stet_vocab_free(v);
}

static void check_groups(const char *const *words, size_t n, const stet_subst *s,
                         const char *const *settings, const size_t *want)
{
    size_t code[MOST];
    groups_of(words, n, s, settings, code);
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(code[i], want[i]);
        CHECK_EQ(code[code[i]], code[i]);
    }
}

/* Six words on a line, in the order of their counts. */
static const char *const six[] = {"good", "nice", "fine", "bad", "poor", "okay"};

static stet_subst *near_on_a_line(double squared, size_t k)
{
    float at_line[] = {0, 0, 0.0F, 1.0F, 0.6F, 5.0F, 5.5F, 1.5F};
    unsigned char known[] = {0, 0, 1, 1, 1, 1, 1, 1};
    const stet_vectors t = {.n = 8, .dim = 1, .data = at_line, .known = known, .n_known = 6};
    stet_vocab *v;
    stet_subst_builder *b;
    stet_subst *s;
    CHECK_OK(stet_vocab_from_words(six, 6, &v));
    CHECK_OK(stet_subst_builder_new(&b));
    CHECK_OK(stet_subst_add_nearest(b, &t, v, k, STET_L2SQ, squared, true));
    CHECK_OK(stet_subst_build(b, &s));
    stet_subst_builder_free(b);
    stet_vocab_free(v);
    return s;
}

TEST(the_golden_words_are_grouped_as_published)
{
    stet_subst *wide = near_on_a_line(0.5, 2), *narrow = near_on_a_line(0.25, 2);
    /* good claims fine; nice takes fine's group and hands it to okay */
    check_groups(six, 6, wide, SETTINGS("sem-keep=0"), (const size_t[]){0, 0, 0, 3, 3, 0});
    check_groups(six, 6, narrow, SETTINGS("sem-keep=0"), (const size_t[]){0, 1, 1, 3, 4, 5});
    /* the most frequent words found groups of their own, as all six do by default */
    check_groups(six, 6, wide, NULL, (const size_t[]){0, 1, 2, 3, 4, 5});
    stet_subst_free(wide);
    stet_subst_free(narrow);
}

static stet_subst *sets_of(const char *const (*pairs)[2], size_t n)
{
    stet_subst_builder *b;
    stet_subst *s;
    CHECK_OK(stet_subst_builder_new(&b));
    for (size_t i = 0; i < n; i++)
        CHECK_OK(stet_subst_add_list(b, pairs[i][0], &pairs[i][1], 1));
    CHECK_OK(stet_subst_build(b, &s));
    stet_subst_builder_free(b);
    return s;
}

TEST(exempt_words_can_be_joined_and_far_neighbours_are_not_seen)
{
    static const char *const words[] = {"aa", "bb", "c", "dd", "\xc3\xa9", "ff", "gg"};
    static const char *const pairs[][2] = {{"aa", "bb"}, {"bb", "c"},  {"bb", "aa"},
                                           {"c", "dd"},  {"dd", "c"},  {"\xc3\xa9", "ff"},
                                           {"ff", "gg"}, {"gg", "aa"}, {"aa", "gone"}};
    stet_subst *s = sets_of(pairs, sizeof pairs / sizeof *pairs);
    /* aa is kept apart and claims none, but bb, to which it is the nearest with a group, joins it
     * and takes the letter c along, which dd then joins; one letter, of two bytes, claims none */
    check_groups(words, 7, s, SETTINGS("sem-keep=1"), (const size_t[]){0, 0, 0, 0, 4, 5, 5});
    /* bb sees only c, which has no group yet */
    check_groups(words, 7, s, SETTINGS("sem-keep=1", "sem-neighbours=1"),
                 (const size_t[]){0, 1, 1, 1, 4, 5, 5});
    check_groups(words, 7, s, SETTINGS("sem-groups=closed"), (const size_t[]){0, 0, 0, 0, 0, 0, 0});
    stet_subst_free(s);
}

/* ---- trained models ----------------------------------------------------------------------- */

static stet_train_args run_with(const char *kind, const char *defense, const char *const *settings,
                                const char *out)
{
    static char sets[256];
    stet_train_args a = small_run(kind, out);
    snprintf(sets, sizeof sets, "%s", at("sets"));
    write_sets(sets);
    a.synonyms = sets;
    a.defense = defense;
    a.defense_settings = settings;
    return a;
}

/* Closed groups: no substitution reaches the model, so a certificate is as good as the answer. */
TEST(every_right_answer_of_closed_groups_is_certified)
{
    for (int kind = 0; kind < 3; kind++) {
        stet_train_args a = run_with(kinds[kind], "sem", SETTINGS("sem-groups=closed"), at("sem"));
        a.epochs = 2;
        stet_train_result t;
        stet_model *m;
        CHECK_OK(stet_train(&a, &t));
        CHECK_OK(stet_model_load(a.out, &m));
        stet_dataset *data;
        stet_sets sets;
        CHECK_OK(stet_dataset_load(a.data, &a.format, &data));
        CHECK_OK(stet_sets_load(a.synonyms, &sets));
        stet_certify_args args = STET_CERTIFY_DEFAULTS;
        args.model = m, args.data = data, args.sets = &sets;
        stet_certify_result r;
        CHECK_OK(stet_certify_run(&args, &r));
        CHECK_LE(0.7, r.clean);
        CHECK_NEAR(r.certified, r.clean, 0.01); /* but for margins within rounding */
        stet_certify_result_deinit(&r);
        float one[2], two[2];
        CHECK_OK(stet_model_predict(m, "word1 good0 word2 bad3", 22, one, NULL));
        CHECK_OK(stet_model_predict(m, "word1 good4 word2 bad0", 22, two, NULL));
        CHECK(one[0] == two[0] && one[1] == two[1]);
        stet_sets_free(&sets);
        stet_dataset_free(data);
        stet_model_free(m);
    }
}

TEST(what_would_part_words_again_is_refused)
{
    stet_train_result r;
    stet_train_args a = run_with("cnn", "sem", NULL, at("none"));
    a.word_scores = true;
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "'sem' cannot be combined with word scores");
    a.word_scores = false;
    a.vector_rate = 0.1;
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE,
                "'sem' cannot be combined with vectors that learn");
    a = run_with("cnn", "sem,smooth", SETTINGS("smooth-frequency=1"), at("none"));
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "must be listed after");
    a.synonyms = NULL;
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "sem needs --synonyms");
    CHECK(!file_exists(at("none/config.json")));
}
