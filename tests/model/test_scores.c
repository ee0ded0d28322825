/* Scores of answers: what is counted, and answers that are no numbers. */
#include "stet/model.h"
#include "test.h"

TEST(answers_are_counted_by_class_and_by_confidence)
{
    const float logits[] = {2, 0, 0, 2, 0, 0, 1, 0}; /* sure 0, sure 1, a tie (0), less sure 0 */
    const int32_t label[] = {0, 1, 1, 0};
    stet_scores s;
    CHECK_OK(stet_scores_of(logits, label, 4, 2, &s));
    CHECK_EQ(s.n, 4);
    CHECK_NEAR(s.accuracy, 0.75, 0);
    const size_t confusion[] = {2, 0, 1, 1};
    for (int i = 0; i < 4; i++)
        CHECK_EQ(s.confusion[i], confusion[i]);
    CHECK_NEAR(s.precision[0], 2.0 / 3, 1e-12);
    CHECK_NEAR(s.recall[1], 0.5, 1e-12);
    CHECK_NEAR(s.loss, (2 * log1p(exp(-2)) + log(2) + log1p(exp(-1))) / 4, 1e-7);
    CHECK_EQ(s.bin_count[7], 1); /* confidence 1/2 of 15 bins */
    stet_scores_deinit(&s);
}

/* A model with weights that overflow answers such things. */
TEST(answers_that_are_no_numbers_are_refused)
{
    const float bad[][4] = {
        {1, 0, NAN, NAN}, {1, 0, 0, NAN}, {1, 0, INFINITY, 0}, {1, 0, -INFINITY, -INFINITY}};
    const int32_t label[] = {0, 1};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stet_scores s;
        CHECK_FAILS(stet_scores_of(bad[i], label, 2, 2, &s), STET_EFORMAT, "text 1");
        CHECK(s.confusion == NULL);
    }
}
