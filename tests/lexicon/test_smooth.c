/* tests/lexicon/test_smooth.c - smoothed vectors solve their equation. */
#include "alloc_fail.h"
#include "base/rng.h"
#include "subst_test.h"

enum { N = 8, DIM = 11 }; /* two panels, the second one not full */

typedef struct problem {
    stet_vocab *v;
    stet_subst *s;
    float data[N * DIM];
    unsigned char known[N];
    stet_vectors t;
} problem;

/* Words a..f (ids 2..7); f has no vector. */
static problem *small_problem(void)
{
    static problem p;
    const char *const words[] = {"a", "b", "c", "d", "e", "f"};
    CHECK_OK(stet_vocab_from_words(words, 6, &p.v));
    p.s =
        built(builder_of("{\"a\": [\"b\", \"c\", \"f\"], \"b\": [\"a\"], \"d\": [\"c\", \"zz\"]}"));
    rng r = rng_stream(3, STREAM_TEST, 0);
    for (size_t i = 0; i < N * DIM; i++)
        p.data[i] = (float)rng_normal(&r);
    memcpy(p.known, (unsigned char[]){0, 0, 1, 1, 1, 1, 1, 0}, N);
    p.t = (stet_vectors){.n = N, .dim = DIM, .data = p.data, .known = p.known, .n_known = 5};
    return &p;
}

static void release(problem *p)
{
    stet_subst_free(p->s);
    stet_vocab_free(p->v);
}

/* The pairs a-b (twice), a-c, d-c between rows 2, 3, 4, 5. */
static const int pairs[][2] = {{2, 3}, {3, 2}, {2, 4}, {5, 4}};

TEST(the_solution_satisfies_the_equation)
{
    static const double lambdas[] = {0.1, 1, 10, 1000, 1, 10}, even[N] = {1, 1, 1, 1, 1, 1, 1, 1},
                        uneven[N] = {1, 1, 3, 0.2, 1, 0.01, 7, 1};
    for (size_t l = 0; l < 6; l++) {
        const double *weight = l < 4 ? even : uneven;
        problem *p = small_problem();
        float before[N * DIM];
        memcpy(before, p->data, sizeof before);
        double residual;
        CHECK_OK(
            stet_vectors_smooth(&p->t, p->v, p->s, lambdas[l], l < 4 ? NULL : weight, &residual));
        CHECK_LE(residual, 1e-6);
        for (int c = 0; c < DIM; c++) {
            double left[N];
            for (int i = 0; i < N; i++)
                left[i] = weight[i] * p->data[i * DIM + c];
            for (size_t e = 0; e < 4; e++) {
                const int u = pairs[e][0], w = pairs[e][1];
                const double d = lambdas[l] * ((double)p->data[u * DIM + c] - p->data[w * DIM + c]);
                left[u] += d;
                left[w] -= d;
            }
            for (int i = 0; i < N; i++) /* also: rows without synonyms are unchanged */
                CHECK_NEAR(left[i], weight[i] * before[i * DIM + c], 3e-6 * (1 + lambdas[l]));
        }
        release(p);
    }
}

TEST(lambda_zero_changes_nothing_and_a_large_one_gives_the_mean)
{
    problem *p = small_problem();
    float before[N * DIM];
    memcpy(before, p->data, sizeof before);
    double residual;
    CHECK_OK(stet_vectors_smooth(&p->t, p->v, p->s, 0, NULL, &residual));
    CHECK(memcmp(before, p->data, sizeof before) == 0);
    CHECK_OK(stet_vectors_smooth(&p->t, p->v, p->s, 1e7, NULL, &residual));
    for (int c = 0; c < DIM; c++) {
        double mean = 0;
        for (int i = 2; i <= 5; i++)
            mean += before[i * DIM + c] / 4.0;
        for (int i = 2; i <= 5; i++)
            CHECK_NEAR(p->data[i * DIM + c], mean, 1e-4);
    }
    release(p);
}

TEST(a_pair_given_in_both_directions_counts_twice)
{
    const char *const words[] = {"a", "b"};
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, 2, &v));
    unsigned char known[] = {0, 0, 1, 1};
    for (int both = 0; both < 2; both++) {
        stet_subst *s =
            built(builder_of(both ? "{\"a\": [\"b\"], \"b\": [\"a\"]}" : "{\"a\": [\"b\"]}"));
        float data[] = {0, 0, 0, 3};
        stet_vectors t = {.n = 4, .dim = 1, .data = data, .known = known, .n_known = 2};
        double residual;
        CHECK_OK(stet_vectors_smooth(&t, v, s, 1, NULL, &residual));
        /* a + k (a - b) = 0, b + k (b - a) = 3 with k = 1 or 2 */
        CHECK_NEAR(data[2], both ? 1.2 : 1, 1e-5);
        CHECK_NEAR(data[3], both ? 1.8 : 2, 1e-5);
        stet_subst_free(s);
    }
    stet_vocab_free(v);
}

TEST(bad_arguments_are_refused)
{
    problem *p = small_problem();
    double residual;
    CHECK_FAILS(stet_vectors_smooth(&p->t, p->v, p->s, -1, NULL, &residual), STET_EUSAGE, "lambda");
    CHECK_FAILS(stet_vectors_smooth(&p->t, p->v, p->s, NAN, NULL, &residual), STET_EUSAGE,
                "lambda");
    p->t.n--;
    CHECK_FAILS(stet_vectors_smooth(&p->t, p->v, p->s, 1, NULL, &residual), STET_EUSAGE,
                "vocabulary of 8");
    release(p);
}

static stet_status smooth_copy(void *ctx)
{
    problem p = *(problem *)ctx;
    p.t.data = p.data;
    double residual;
    return stet_vectors_smooth(&p.t, p.v, p.s, 1, NULL, &residual);
}

TEST(smoothing_survives_every_failed_allocation)
{
    problem *p = small_problem();
    CHECK_LE(5, ALLOC_FAIL_LOOP(smooth_copy, p));
    release(p);
}

/* ---- on real vectors ---------------------------------------------------------------------- */
