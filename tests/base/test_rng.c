/* tests/base/test_rng.c */
#include "test.h"

#include "base/rng.h"

TEST(a_stream_is_the_same_for_all_time)
{
    rng r = rng_stream(1, STREAM_TEST, 0);
    CHECK_EQ(rng_u64(&r), UINT64_C(0x80ca337eca259fc7));
    CHECK_EQ(rng_u64(&r), UINT64_C(0x7ddba9ab840c5b80));
}

TEST(streams_differ_in_seed_purpose_and_index)
{
    rng a = rng_stream(1, STREAM_TEST, 0),
        b[] = {rng_stream(2, STREAM_TEST, 0), rng_stream(1, STREAM_INIT, 0),
               rng_stream(1, STREAM_TEST, 1)};
    for (int i = 0; i < 3; i++) {
        rng c = a;
        int same = 0;
        for (int k = 0; k < 1000; k++)
            same += rng_u64(&c) == rng_u64(&b[i]);
        CHECK_EQ(same, 0);
    }
}

TEST(a_saved_stream_continues_exactly)
{
    rng r = rng_stream(5, STREAM_SHUFFLE, 3);
    for (int i = 0; i < 100; i++)
        rng_normal(&r);
    rng saved = r;
    for (int i = 0; i < 100; i++)
        CHECK_EQ(rng_u64(&r), rng_u64(&saved));
}

/* Chi-squared of `n` draws over 256 cells has mean 255 and standard deviation 22.6. */
static double chi_squared(const unsigned count[256], double n)
{
    double sum = 0;
    for (int i = 0; i < 256; i++)
        sum += (count[i] - n / 256) * (count[i] - n / 256) / (n / 256);
    return sum;
}

TEST(every_byte_of_a_draw_is_uniform)
{
    enum { N = 100000 };
    for (int byte = 0; byte < 8; byte++) {
        unsigned count[256] = {0};
        rng r = rng_stream(7, STREAM_TEST, 0);
        for (int i = 0; i < N; i++)
            count[rng_u64(&r) >> (8 * byte) & 255]++;
        CHECK_LE(chi_squared(count, N), 255 + 5 * 22.6);
        CHECK_LE(255 - 5 * 22.6, chi_squared(count, N));
    }
}

/* The way streams are used most: one draw from each of many. */
TEST(first_draws_of_neighbouring_streams_are_uniform)
{
    enum { N = 100000 };
    unsigned low[256] = {0}, high[256] = {0};
    for (uint64_t i = 0; i < N; i++) {
        rng r = rng_stream(0, STREAM_ATTACK, i);
        const uint64_t x = rng_u64(&r);
        low[x & 255]++;
        high[x >> 56]++;
    }
    CHECK_LE(chi_squared(low, N), 255 + 5 * 22.6);
    CHECK_LE(chi_squared(high, N), 255 + 5 * 22.6);
}

TEST(flipping_one_bit_of_the_seed_flips_half_of_the_draw)
{
    double flipped = 0;
    for (int bit = 0; bit < 64; bit++) {
        rng a = rng_stream(99, STREAM_TEST, 4),
            b = rng_stream(99 ^ UINT64_C(1) << bit, STREAM_TEST, 4);
        for (int i = 0; i < 64; i++)
            flipped += __builtin_popcountll(rng_u64(&a) ^ rng_u64(&b));
    }
    CHECK_NEAR(flipped / (64 * 64), 32, 0.5);
}

TEST(uniform_numbers_stay_in_range_with_the_right_moments)
{
    enum { N = 200000 };
    rng r = rng_stream(3, STREAM_TEST, 0);
    double sum = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        const double x = rng_double(&r), y = rng_range(&r, -2, 3);
        const float f = rng_float(&r);
        CHECK(x >= 0 && x < 1 && f >= 0 && f < 1 && y >= -2 && y < 3);
        sum += x;
        squares += x * x;
    }
    CHECK_NEAR(sum / N, 0.5, 0.003);
    CHECK_NEAR(squares / N, 1.0 / 3, 0.003);
}

TEST(a_narrow_range_never_reaches_its_end)
{
    rng r = rng_stream(3, STREAM_TEST, 1);
    const double lo = 1, hi = nextafter(1, 2);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(rng_range(&r, lo, hi) == lo, true);
}

TEST(normal_numbers_have_the_right_moments)
{
    enum { N = 200000 };
    rng r = rng_stream(4, STREAM_INIT, 0);
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
    for (int i = 0; i < N; i++) {
        const double x = rng_normal(&r);
        CHECK(isfinite(x));
        m1 += x;
        m2 += x * x;
        m3 += x * x * x;
        m4 += x * x * x * x;
    }
    CHECK_NEAR(m1 / N, 0, 0.01);
    CHECK_NEAR(m2 / N, 1, 0.02);
    CHECK_NEAR(m3 / N, 0, 0.05);
    CHECK_NEAR(m4 / N, 3, 0.15);
}

TEST(gamma_numbers_have_the_right_moments)
{
    enum { N = 400000 };
    static const double shape[] = {0.3, 1, 2.5};
    for (int k = 0; k < 3; k++) {
        const double a = shape[k];
        double mean = 0, square = 0, cube = 0;
        rng r = rng_stream(4, STREAM_TEST, (uint64_t)k);
        for (int i = 0; i < N; i++) {
            const double x = rng_gamma(&r, a);
            CHECK(x >= 0);
            mean += x / N;
            square += (x - a) * (x - a) / N;
            cube += (x - a) * (x - a) * (x - a) / N;
        }
        CHECK_NEAR(mean, a, 0.01);
        CHECK_NEAR(square, a, 0.03);
        CHECK_NEAR(cube, 2 * a, 0.2);
    }
    rng r = rng_stream(4, STREAM_TEST, 0);
    CHECK(rng_gamma(&r, 0) == 0);
}

TEST(below_reaches_all_and_nothing_else)
{
    rng r = rng_stream(5, STREAM_TEST, 0);
    unsigned seen[7] = {0};
    for (int i = 0; i < 7000; i++) {
        const uint64_t k = rng_below(&r, 7);
        CHECK(k < 7);
        seen[k]++;
    }
    for (int k = 0; k < 7; k++)
        CHECK_NEAR(seen[k], 1000, 200);
    CHECK_EQ(rng_below(&r, 1), 0);
    CHECK_EQ(rng_below(&r, 0), 0);
    for (int i = 0; i < 1000; i++)
        CHECK(rng_below(&r, UINT64_MAX) < UINT64_MAX);
}

TEST(a_permutation_holds_every_number_once)
{
    enum { N = 1000 };
    uint32_t p[N];
    bool seen[N] = {false};
    rng r = rng_stream(6, STREAM_SHUFFLE, 0);
    rng_permutation(&r, p, N);
    int fixed = 0;
    for (uint32_t i = 0; i < N; i++) {
        CHECK(p[i] < N && !seen[p[i]]);
        seen[p[i]] = true;
        fixed += p[i] == i;
    }
    CHECK_LE(fixed, 10); /* one is expected */
    rng_permutation(&r, p, 0);
    rng_permutation(&r, p, 1);
    CHECK_EQ(p[0], 0);
}

TEST(all_permutations_of_three_are_equally_likely)
{
    rng r = rng_stream(6, STREAM_SHUFFLE, 1);
    int count[27] = {0};
    for (int i = 0; i < 6000; i++) {
        uint32_t p[3];
        rng_permutation(&r, p, 3);
        count[p[0] * 9 + p[1] * 3 + p[2]]++;
    }
    const int orders[6] = {5, 7, 11, 15, 19, 21};
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(count[orders[i]], 1000, 150);
}

TEST(a_weighted_choice_counts_the_entries_up_to_u)
{
    const double w[] = {0, 1, 0, 2, 1, 0};
    CHECK_EQ(weighted_pick(0, w, 6), 1);
    CHECK_EQ(weighted_pick(0.24, w, 6), 1);
    CHECK_EQ(weighted_pick(0.25, w, 6), 3); /* equal counts as passed */
    CHECK_EQ(weighted_pick(0.74, w, 6), 3);
    CHECK_EQ(weighted_pick(0.75, w, 6), 4);
    CHECK_EQ(weighted_pick(nextafter(1, 0), w, 6), 4); /* never a trailing zero */
    const double one[] = {5};
    CHECK_EQ(weighted_pick(0.9999, one, 1), 0);
}

/* First parents of B1 in the notes on attacks: selection .58 .22 .20, draws .20, .70, .90, .10. */
TEST(a_weighted_choice_agrees_with_the_worked_example)
{
    const double w[] = {0.182425524, 0.069138420, 0.062973356};
    CHECK_EQ(weighted_pick(0.20, w, 3), 0);
    CHECK_EQ(weighted_pick(0.70, w, 3), 1);
    CHECK_EQ(weighted_pick(0.90, w, 3), 2);
    CHECK_EQ(weighted_pick(0.10, w, 3), 0);
}

TEST(weighted_choices_follow_their_weights)
{
    const double w[] = {1, 0, 3, 6};
    int count[4] = {0};
    rng r = rng_stream(8, STREAM_ATTACK, 0);
    for (int i = 0; i < 10000; i++)
        count[rng_pick(&r, w, 4)]++;
    CHECK_NEAR(count[0], 1000, 150);
    CHECK_EQ(count[1], 0);
    CHECK_NEAR(count[2], 3000, 200);
    CHECK_NEAR(count[3], 6000, 200);
}
