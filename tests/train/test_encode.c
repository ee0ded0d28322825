/* tests/train/test_encode.c - words read as representatives: certificates against every string that the
 * sets allow, for a model that reads words and one that reads pieces. */
#include "small_run.h"
#include "stet/certify.h"

static const struct {
    const char *word, *other[2];
} sets[] = {
    {"good0", {"good1", "bad4"}}, {"good1", {"good0", "bad4"}}, {"good2", {"good3", "bad4"}},
    {"good3", {"good2", "bad4"}}, {"bad0", {"bad1", "good4"}},  {"bad1", {"bad0", "good4"}},
    {"bad2", {"bad3", "good4"}},  {"bad3", {"bad2", "good4"}},  {"word1", {"word2"}}};
enum { N_SETS = sizeof sets / sizeof *sets };
static const char sets_json[] = "{\"good0\": [\"good1\", \"bad4\"], "
                                "\"good1\": [\"good0\", \"bad4\"], "
                                "\"good2\": [\"good3\", \"bad4\"], "
                                "\"good3\": [\"good2\", \"bad4\"], "
                                "\"bad0\": [\"bad1\", \"good4\"], "
                                "\"bad1\": [\"bad0\", \"good4\"], "
                                "\"bad2\": [\"bad3\", \"good4\"], "
                                "\"bad3\": [\"bad2\", \"good4\"], "
                                "\"word1\": [\"word2\"]}";

static stet_model *encoded(const char *kind, const char *const *settings)
{
    static const char *const spelt[] = {"bert-layers=1",
                                        "bert-hidden=16",
                                        "bert-heads=2",
                                        "bert-inner=32",
                                        "bert-positions=64",
                                        "bert-pieces=50",
                                        NULL};
    static char path[256], out[256];
    snprintf(path, sizeof path, "%s", at("sets.json"));
    snprintf(out, sizeof out, "%s", at(kind));
    CHECK_OK(file_write_all(path, sets_json, strlen(sets_json)));
    stet_train_args a = small_run(kind, out);
    stet_train_result r;
    stet_model *m;
    if (kind[0] == 'b')
        a.model_settings = spelt;
    a.rate = 1e-2;
    a.epochs = 6;
    a.patience = 0;
    a.synonyms = path;
    a.defense = "encode";
    a.defense_settings = settings;
    CHECK_OK(stet_train(&a, &r));
    CHECK_LE(0.8, r.valid_accuracy);
    CHECK_OK(stet_model_load(out, &m));
    return m;
}

/* ---- every string ------------------------------------------------------------------------- */

typedef struct brute {
    const stet_model *m;
    const char *word[64];
    size_t n;
    int label;
    bool flipped;
} brute;

static void ask(brute *b)
{
    char text[2048] = "";
    int label;
    for (size_t i = 0; i < b->n; i++) {
        strcat(text, b->word[i]);
        strcat(text, " ");
    }
    CHECK_OK(stet_model_predict(b->m, text, strlen(text), NULL, &label));
    b->flipped |= label != b->label;
}

static void try_words(brute *b, size_t i, size_t left)
{
    if (i == b->n) {
        ask(b);
        return;
    }
    const char *own = b->word[i];
    try_words(b, i + 1, left);
    for (size_t s = 0; left && s < N_SETS; s++)
        for (size_t k = 0; k < 2 && strcmp(sets[s].word, own) == 0 && sets[s].other[k]; k++) {
            b->word[i] = sets[s].other[k];
            try_words(b, i + 1, left - 1);
        }
    b->word[i] = own;
}

static bool flips(const stet_model *m, stet_str text, int label, size_t budget)
{
    brute b = {.m = m, .label = label};
    static char copy[2048];
    char *rest = copy, *word;
    snprintf(copy, sizeof copy, "%.*s", (int)text.len, text.data);
    while ((word = strsep(&rest, " ")))
        if (*word)
            b.word[b.n++] = word;
    try_words(&b, 0, budget);
    return b.flipped;
}

/* ---- certificates ------------------------------------------------------------------------- */

typedef struct heard {
    const stet_model *m;
    const stet_dataset *d;
    size_t budget, n[STET_VERDICTS];
    bool compare;
} heard;

static void hear(void *user, size_t index, const stet_certified_text *t, const stet_certificate *c)
{
    heard *h = user;
    const stet_str text = stet_dataset_text(h->d, index);
    h->n[c->verdict]++;
    if (!h->compare)
        return;
    CHECK(c->verdict != STET_UNDECIDED);
    if (c->verdict == STET_WRONG)
        return;
    CHECK_EQ(c->verdict == STET_BROKEN, flips(h->m, text, c->label, h->budget));
    CHECK_EQ(c->verdict == STET_BROKEN, c->n_edits > 0);
    CHECK_LE(c->n_edits, h->budget);
    for (size_t i = 0; i < c->n_edits; i++) /* words of that position's set */
        for (uint32_t k = t->choices->start[c->edits[i].pos];; k++) {
            CHECK(k < t->choices->start[c->edits[i].pos + 1]);
            if (t->choices->word[k] == c->edits[i].word)
                break;
        }
}

static heard certify(const stet_model *m, size_t budget, bool compare)
{
    stet_dataset *d;
    stet_sets words;
    write_corpus(at("test.tsv"), 60, 2);
    CHECK_OK(stet_dataset_load(at("test.tsv"), NULL, &d));
    CHECK_OK(stet_sets_load(at("sets.json"), &words));
    heard h = {.m = m, .d = d, .budget = budget, .compare = compare};
    stet_certify_args a = STET_CERTIFY_DEFAULTS;
    a.model = m, a.data = d, a.sets = &words;
    a.how.budget = budget;
    a.each = hear;
    a.each_user = &h;
    stet_certify_result r;
    CHECK_OK(stet_certify_run(&a, &r));
    stet_certify_result_deinit(&r);
    stet_sets_free(&words);
    stet_dataset_free(d);
    return h;
}

static const char *const pairs[] = {"encode-most=2", NULL};
static const char *const both[] = {"cnn", "bert"};

TEST(certificates_say_what_every_string_says)
{
    for (int k = 0; k < 2; k++) {
        stet_model *m = encoded(both[k], pairs);
        const heard all = certify(m, STET_ANY, true), one = certify(m, 1, true);
        CHECK(all.n[STET_CERTIFIED] > 10 && all.n[STET_BROKEN] > 3);
        CHECK_LE(all.n[STET_CERTIFIED], one.n[STET_CERTIFIED]);
        stet_model_free(m);
    }
}

TEST(no_substitution_leaves_a_group_without_limit)
{
    static const char *const closed[] = {"encode-most=0", "encode-tries=1", NULL};
    stet_model *m = encoded("bert", (const char *const[]){"encode-most=1", NULL});
    heard h = certify(m, STET_ANY, true); /* nothing is joined: the model as it is */
    CHECK(h.n[STET_BROKEN] > 3);
    stet_model_free(m);
    static const char *const words[] = {"word9 good0 bad4", "word9 good1 bad4", "word9 good2 bad4",
                                        "word9 bad4 bad4"};
    float p[2], q[2];
    stet_train_args a = small_run("bert", at("closed"));
    stet_train_result r;
    a.epochs = 1;
    static char path[256], out[256];
    snprintf(path, sizeof path, "%s", at("sets.json"));
    snprintf(out, sizeof out, "%s", at("closed"));
    a.out = out;
    a.synonyms = path;
    a.defense = "encode";
    a.defense_settings = closed;
    CHECK_OK(stet_train(&a, &r));
    CHECK_OK(stet_model_load(out, &m));
    for (size_t i = 0; i < 4; i++) { /* one group */
        CHECK_OK(stet_model_predict(m, words[i], strlen(words[i]), i ? q : p, NULL));
        CHECK(i == 0 || p[0] == q[0]);
    }
    h = certify(m, STET_ANY, true);
    CHECK_EQ(h.n[STET_BROKEN] + h.n[STET_UNDECIDED], 0);
    stet_model_free(m);
}

TEST(a_text_with_too_many_combinations_is_undecided)
{
    static const char *const few[] = {"encode-most=2", "encode-tries=40", NULL};
    stet_model *m = encoded("bert", few);
    const heard h = certify(m, STET_ANY, false);
    CHECK(h.n[STET_UNDECIDED] > 3 && h.n[STET_CERTIFIED] > 3);
    stet_model_free(m);
}

TEST(a_file_of_codes_that_is_gone_is_told)
{
    stet_model *m = encoded("bert", pairs);
    stet_model_free(m);
    CHECK_OK(file_remove(at("bert/codes.subst")));
    CHECK_FAILS(stet_model_load(at("bert"), &m), STET_EIO, "codes.subst");
}
