/* The worked cases about metrics, candidate rules, tokens and cut texts. Each line of them is
 * tested here or, where this program does otherwise on purpose, has its reason beside the test. */
#include <math.h>

#include "attack/attack_impl.h"
#include "base/file.h"
#include "model/small_model.h"
#include "stet/attack.h"
#include "test.h"

static const char *put(const char *name, const char *text)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    CHECK_OK(file_write_all(path, text, strlen(text)));
    return path;
}

/* ---- metrics ------------------------------------------------------------------------------ */

/* Ten texts: two that the victim gets wrong, eight attacked, five of them turned. OpenAttack
 * without a filter would attack the two as well and divide its successes by ten; here wrong texts
 * are counted, but never attacked, as both frameworks do for accuracy under attack. */
TEST(ten_texts_two_wrong_five_broken)
{
    stet_str text[10];
    int label[10];
    for (int i = 0; i < 10; i++) {
        static const char *const weak = "good plain film indeed", *const firm =
                                                                      "fine plain film yes";
        const char *t = i < 6 ? weak : firm;
        text[i] = (stet_str){t, strlen(t)};
        label[i] = i == 0 || i == 9 ? 0 : 1; /* the victim says 1 to all of them */
    }
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(text, label, 10, NULL, 2, &d));
    stet_sets sets;
    CHECK_OK(
        stet_sets_load(put("sets.json", "{\"good\": [\"poor\"], \"plain\": [\"simple\"]}"), &sets));
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.command = "sed -u -E 's/^.\"texts\":.(.*)..$/\\1/; s/\"[^\"]*(good|fine)[^\"]*\"/[0.1,0.9]/g;"
                " s/\"[^\"]*\"/[0.8,0.2]/g; s/^(.*)$/{\"probabilities\":[\\1]}/'";
    a.data = d, a.sets = &sets;
    for (int k = 0; k < 2; k++) {
        a.attack = k ? "exhaustive" : "pwws";
        stet_attack_result r;
        CHECK_OK(stet_attack_run(&a, &r));
        CHECK_EQ(r.n, 10);
        CHECK_EQ(r.correct, 8);
        CHECK_EQ(r.succeeded, 5);
        CHECK_NEAR(r.clean, .80, 1e-12);
        CHECK_NEAR(r.aua, .30, 1e-12);
        CHECK_NEAR(r.success_rate, .625, 1e-12);
    }
    stet_sets_free(&sets);
    stet_dataset_free(d);
}

/* Two of four words: 0.5. OpenAttack's rate for texts of different length or case ("A b c" against
 * "a b": 1.0) has no place here, since a substitution keeps the number of words, and words are read
 * in lower case. */
TEST(the_share_of_changed_words)
{
    const pick x[4] = {2, 0, 2, 0};
    search s = {.n = 4};
    CHECK_EQ(search_changed(&s, x), 2);

    stet_model *m = small_model(0, 2, 7);
    char *texts[] = {"w1 w2 w3 w4"};
    const stet_str text = {texts[0], strlen(texts[0])};
    int label;
    CHECK_OK(stet_model_predict(m, text.data, text.len, NULL, &label));
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(&text, &label, 1, NULL, 2, &d));
    stet_sets sets;
    CHECK_OK(stet_sets_load(put("sets.json", "{\"w1\": [\"w5\", \"w6\", \"w7\", \"w8\", \"w9\", "
                                             "\"w10\", \"w11\", \"w12\", \"w13\", \"w14\"]}"),
                            &sets));
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = m, a.data = d, a.sets = &sets, a.attack = "exhaustive";
    stet_attack_result r;
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK_EQ(r.succeeded, 1);
    CHECK_NEAR(r.changed_mean, 1.0 / 4, 1e-12);
    stet_sets_free(&sets);
    stet_dataset_free(d);
    stet_model_free(m);
}

/* ---- candidates --------------------------------------------------------------------------- */

/* Unit vectors with cosines 1, .99, .97 and .85 to the first: distances 0, .141421, .244949,
 * .547723. The frameworks count the word itself, we do not: their k less one. */
TEST(three_rules_for_neighbours)
{
    static const double cosine[] = {1, .99, .97, .85};
    static const char *const words[] = {"self", "near", "middle", "far"};
    float data[(4 + STET_FIRST_WORD) * 2] = {0};
    for (int i = 0; i < 4; i++) {
        data[2 * (STET_FIRST_WORD + i)] = (float)cosine[i];
        data[2 * (STET_FIRST_WORD + i) + 1] = (float)sqrt(1 - cosine[i] * cosine[i]);
    }
    unsigned char known[4 + STET_FIRST_WORD];
    for (size_t i = 0; i < sizeof known; i++)
        known[i] = i >= STET_FIRST_WORD;
    const stet_vectors t = {
        .n = 4 + STET_FIRST_WORD, .dim = 2, .data = data, .known = known, .n_known = 4};
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, 4, &v));
    static const struct {
        size_t k;
        stet_metric metric;
        double threshold;
        bool strict;
        size_t left;
    } rules[] = {{7, STET_L2, 0.2, true, 1},     /* as the GBM authors ran OpenAttack */
                 {49, STET_L2, 0.5, true, 2},    /* OpenAttack */
                 {8, STET_L2SQ, 0.5, false, 3}}; /* TextAttack's GA */
    for (size_t k = 0; k < 3; k++) {
        stet_subst_builder *b;
        stet_subst *s;
        CHECK_OK(stet_subst_builder_new(&b));
        CHECK_OK(stet_subst_add_nearest(b, &t, v, rules[k].k, rules[k].metric, rules[k].threshold,
                                        rules[k].strict));
        CHECK_OK(stet_subst_build(b, &s));
        size_t n;
        const uint32_t *alt = stet_subst_of(s, stet_subst_word_id(s, "self", 4), &n);
        CHECK_EQ(n, rules[k].left);
        for (size_t i = 0; i < n; i++)
            CHECK_STR(stet_subst_word(s, alt[i]), words[i + 1]);
        stet_subst_free(s);
        stet_subst_builder_free(b);
    }
    stet_vocab_free(v);
}

/* ---- tokens ------------------------------------------------------------------------------- */

/* The model's tokens are the case's. Texts are attacked in the tokens of the model, so the
 * frameworks' own (OpenAttack: it ' s well - known , isn ' t it ?; TextAttack: It's well-known
 * isn't it) do not occur: what an attack changes is exactly what the model reads. */
TEST(tokens_as_keras_cuts_them)
{
    static const char text[] = "It's well-known, isn't it?";
    static const char *const expected[] = {"it's", "well", "known", "isn't", "it"};
    stet_tokens t = {0};
    CHECK_OK(stet_tokenize(STET_TOK_KERAS, text, strlen(text), &t));
    CHECK_EQ(t.n, 5);
    for (size_t i = 0; i < 5; i++) {
        CHECK_EQ(t.v[i].len, strlen(expected[i]));
        CHECK(memcmp(stet_token_word(&t, i), expected[i], t.v[i].len) == 0);
    }
    stet_tokens_deinit(&t);
}

/* The case keeps the last words of a long text (Keras), our models the first: the rule that follows
 * is the same. What lies outside the window is not read, so it has no saliency; and here, unlike
 * there, it is no position of the attack either. */
TEST(words_outside_the_window_change_nothing)
{
    stet_model *m = small_model(0, 2, 7);
    const size_t max_len = stet_model_max_len(m);
    char text[1024] = "";
    for (size_t i = 0; i < max_len + 2; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "w%d ", i < max_len ? 1 : 2);
    const stet_str long_text = {text, strlen(text)};
    int label;
    CHECK_OK(stet_model_predict(m, text, strlen(text), NULL, &label));
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(&long_text, &label, 1, NULL, 2, &d));
    stet_sets sets;
    CHECK_OK(stet_sets_load(put("sets.json", "{\"w2\": [\"w3\", \"w4\", \"w5\"]}"), &sets));
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = m, a.data = d, a.sets = &sets, a.attack = "exhaustive";
    stet_attack_result r;
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK_EQ(r.succeeded, 0);
    CHECK_EQ(r.decided, 1);
    CHECK_NEAR(r.attackable_mean, 0, 0);
    float before[2], after[2];
    CHECK_OK(stet_model_predict(m, text, strlen(text), before, NULL));
    memcpy(strstr(text, "w2"), "w9", 2);
    CHECK_OK(stet_model_predict(m, text, strlen(text), after, NULL));
    CHECK_EQ(memcmp(before, after, sizeof before), 0);
    stet_sets_free(&sets);
    stet_dataset_free(d);
    stet_model_free(m);
}
