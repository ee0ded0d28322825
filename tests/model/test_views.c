/* Edits must give what a full evaluation of the edited text gives, up to rounding. */
#include "model/variants.h"
#include "model/small_model.h"

enum { VARIANTS = 300 };

/* n random edits at distinct ascending positions. */
static size_t draw_edits(rng *r, size_t len, size_t most, stet_edit *out)
{
    size_t n = 0;
    const size_t want = rng_below(r, most + 1);
    for (uint32_t p = 0; p < len && n < want; p++)
        if (rng_below(r, len - p) < want - n)
            out[n++] = (stet_edit){p, (uint32_t)rng_below(r, SMALL_WORDS + STET_FIRST_WORD)};
    return n;
}

static void compare(int kind, size_t len, size_t most_edits, uint64_t seed)
{
    model *m = small_model(kind, 3, seed);
    rng r = rng_stream(seed, STREAM_TEST, len);
    uint32_t ids[SMALL_MAX_LEN];
    for (size_t i = 0; i < len; i++)
        ids[i] = (uint32_t)rng_below(&r, SMALL_WORDS + STET_FIRST_WORD);
    static stet_edit edits[VARIANTS * SMALL_MAX_LEN];
    size_t start[VARIANTS + 1] = {0};
    for (size_t i = 0; i < VARIANTS; i++)
        start[i + 1] = start[i] + draw_edits(&r, len, most_edits, edits + start[i]);

    float fast[VARIANTS * 3], slow[VARIANTS * 3];
    CHECK_OK(stet_model_compile(m));
    stet_view *v;
    CHECK_OK(stet_view_open(m, NULL, ids, len, &v));
    CHECK_OK(stet_view_edits(v, edits, start, VARIANTS, fast));
    CHECK_OK(variants_whole(m, ids, len, edits, start, VARIANTS, slow));
    const size_t none[2] = {0, 0};
    float clean[3];
    CHECK_OK(variants_whole(m, ids, len, NULL, none, 1, clean));
    for (int c = 0; c < 3; c++)
        CHECK_NEAR(stet_view_logits(v)[c], clean[c], 1e-5);
    for (size_t i = 0; i < VARIANTS * 3; i++)
        CHECK_NEAR(fast[i], slow[i], 1e-5);
    stet_view_free(v);
    stet_model_free(m);
}

TEST(single_edits_equal_full_evaluation)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++)
        for (size_t len = 1; len <= SMALL_MAX_LEN; len += 1 + len / 4)
            compare(kind, len, 1, 10 + len);
}

TEST(many_edits_equal_full_evaluation)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++)
        for (size_t len = 1; len <= SMALL_MAX_LEN; len += 1 + len / 3)
            compare(kind, len, len, 50 + len);
}

TEST(a_reopened_view_forgets_the_old_text)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        model *m = small_model(kind, 2, 5);
        CHECK_OK(stet_model_compile(m));
        const uint32_t a[] = {3, 4, 5, 6, 7, 8, 9}, b[] = {10, 11};
        stet_view *v, *fresh;
        CHECK_OK(stet_view_open(m, NULL, a, 7, &v));
        CHECK_OK(stet_view_reopen(v, b, 2));
        CHECK_OK(stet_view_open(m, NULL, b, 2, &fresh));
        const stet_edit e = {1, 12};
        const size_t start[2] = {0, 1};
        float x[2], y[2];
        CHECK_OK(stet_view_edits(v, &e, start, 1, x));
        CHECK_OK(stet_view_edits(fresh, &e, start, 1, y));
        CHECK(memcmp(x, y, sizeof x) == 0);
        CHECK(memcmp(stet_view_logits(v), stet_view_logits(fresh), sizeof x) == 0);
        stet_view_free(v);
        stet_view_free(fresh);
        stet_model_free(m);
    }
}

TEST(edits_do_not_depend_on_their_company_or_on_threads)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        model *m = small_model(kind, 2, 6);
        CHECK_OK(stet_model_compile(m));
        uint32_t ids[20];
        rng r = rng_stream(6, STREAM_TEST, 0);
        for (int i = 0; i < 20; i++)
            ids[i] = (uint32_t)rng_below(&r, SMALL_WORDS);
        stet_edit edits[200];
        size_t start[201] = {0};
        for (uint32_t i = 0; i < 200; i++) {
            edits[i] = (stet_edit){i % 20, (uint32_t)rng_below(&r, SMALL_WORDS)};
            start[i + 1] = i + 1;
        }
        float one[400], two[400], alone[2];
        stet_view *v;
        stet_set_threads(1);
        CHECK_OK(stet_view_open(m, NULL, ids, 20, &v));
        CHECK_OK(stet_view_edits(v, edits, start, 200, one));
        stet_set_threads(2);
        CHECK_OK(stet_view_edits(v, edits, start, 200, two));
        CHECK(memcmp(one, two, sizeof one) == 0);
        CHECK_OK(stet_view_edits(v, edits + 77, start, 1, alone));
        for (int c = 0; c < 2; c++)
            CHECK_NEAR(alone[c], one[2 * 77 + c], 1e-6);
        stet_view_free(v);
        stet_model_free(m);
    }
}

TEST(bad_edits_are_refused)
{
    model *m = small_model(0, 2, 7);
    const uint32_t ids[] = {2, 3, 4};
    stet_view *v;
    const uint32_t unknown[] = {9999};
    CHECK_FAILS(stet_view_open(m, NULL, unknown, 1, &v), STET_EUSAGE, "vocabulary");
    CHECK_OK(stet_view_open(m, NULL, ids, 3, &v));
    float out[2];
    const size_t one[2] = {0, 1}, both[2] = {0, 2};
    const stet_edit past = {3, 2}, foreign = {0, 9999}, twice[] = {{1, 2}, {1, 3}};
    CHECK_FAILS(stet_view_edits(v, &past, one, 1, out), STET_EUSAGE, "out of range");
    CHECK_FAILS(stet_view_edits(v, &foreign, one, 1, out), STET_EUSAGE, "out of range");
    CHECK_FAILS(stet_view_edits(v, twice, both, 1, out), STET_EUSAGE, "out of order");
    stet_view_free(v);
    stet_model_free(m);
}

/* Words that the vocabulary lacks are the row of <unk>, in the text and in edits; and a model without views
 * of its own has the same answers. */
TEST(unknown_words_and_whole_evaluation_agree_with_every_view)
{
    enum { LEN = 12, EDITS = 4 };
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        model *m = small_model(kind, 3, 21);
        CHECK_OK(stet_model_compile(m));
        const model_desc *own = m->desc;
        model_desc plain = *own; /* what a kind without views is */
        plain.compile = NULL;
        plain.view_new = NULL;
        plain.view_open = NULL;
        plain.view_edits = NULL;
        stet_words *w;
        uint32_t odd[2], ids[LEN], known[LEN];
        CHECK_OK(stet_model_words(m, &w));
        CHECK_OK(stet_words_add(w, "odd", 3, &odd[0]));
        CHECK_OK(stet_words_add(w, "even", 4, &odd[1]));
        CHECK_EQ(odd[1], odd[0] + 1);
        for (uint32_t i = 0; i < LEN; i++) {
            ids[i] = i % 5 == 0 ? odd[0] : STET_FIRST_WORD + i;
            known[i] = i % 5 == 0 ? STET_UNK : ids[i];
        }
        const stet_edit edits[EDITS] = {{2, odd[1]}, {5, 7}, {3, odd[0]}, {4, odd[1]}},
                        same[EDITS] = {{2, STET_UNK}, {5, 7}, {3, STET_UNK}, {4, STET_UNK}};
        const size_t start[] = {0, 2, 3, 4};
        float of_run[9], of_rows[9], whole[9];
        stet_view *v;
        CHECK_OK(stet_view_open(m, w, ids, LEN, &v));
        CHECK_OK(stet_view_edits(v, edits, start, 3, of_run));
        stet_view_free(v);
        CHECK_OK(stet_view_open(m, NULL, known, LEN, &v));
        CHECK_OK(stet_view_edits(v, same, start, 3, of_rows));
        CHECK_FAILS(stet_view_edits(v, edits, start, 3, of_rows), STET_EUSAGE, "out of range");
        stet_view_free(v);
        m->desc = &plain;
        CHECK_OK(stet_view_open(m, w, ids, LEN, &v));
        CHECK_OK(stet_view_edits(v, edits, start, 3, whole));
        stet_view_free(v);
        m->desc = own;
        for (size_t i = 0; i < 9; i++) {
            CHECK_NEAR(of_run[i], of_rows[i], 0);
            CHECK_NEAR(of_run[i], whole[i], 1e-5);
        }
        stet_words_free(w);
        stet_model_free(m);
    }
}
