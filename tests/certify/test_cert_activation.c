/* Sigmoid and tanh over intervals: no sampled point leaves its range, slope or line. */
#include "base/rng.h"
#include "certify/cert_activation.h"
#include "test.h"

enum { TRIALS = 20000, POINTS = 33 };

typedef struct sample {
    bool is_tanh;
    double m; /* in [a, b] */
    act_point a, b;
} sample;

/* Intervals from 1e-7 to 20 wide, some of them of width 0. */
static sample draw(rng *r)
{
    sample s = {.is_tanh = rng_below(r, 2)};
    const double lo = 4 * rng_normal(r),
                 width = rng_below(r, 20) ? pow(10, rng_double(r) * 8.3 - 7) : 0;
    const double places[] = {0, 1, rng_double(r)};
    s.a = act_at(s.is_tanh, lo);
    s.b = act_at(s.is_tanh, lo + width);
    s.m = fmin(lo + width, lo + width * places[rng_below(r, 3)]);
    return s;
}

static long double exact(bool is_tanh, long double x)
{
    return is_tanh ? tanhl(x) : 1 / (1 + expl(-x));
}

TEST(ranges_derivatives_slopes_and_lines_hold_every_point)
{
    rng r = rng_stream(1, STREAM_TEST, 0);
    double tightest = 1;
    for (size_t k = 0; k < TRIALS; k++) {
        const sample s = draw(&r);
        const ival range = act_range(s.is_tanh, s.a, s.b), d = act_derivatives(s.is_tanh, s.a, s.b);
        const ival slope = act_slopes(s.is_tanh, act_at(s.is_tanh, s.m), s.a, s.b);
        const act_line line = act_line_over(s.is_tanh, act_at(s.is_tanh, s.m), s.a, s.b);
        const long double f_m = exact(s.is_tanh, s.m);
        long double furthest = 0;
        CHECK(d.lo <= slope.lo && slope.hi <= d.hi);
        for (size_t j = 0; j < POINTS; j++) {
            const long double x = s.a.x + ((long double)s.b.x - s.a.x) * j / (POINTS - 1);
            const long double f = exact(s.is_tanh, x), off = f - line.slope * (x - s.m) - line.at;
            CHECK(range.lo <= f && f <= range.hi);
            CHECK(-line.off <= off && off <= line.off);
            furthest = fmaxl(furthest, fabsl(off));
            if (fabsl(x - s.m) > 1e-7) {
                const long double secant = (f - f_m) / (x - s.m), own = 1e-18L / fabsl(x - s.m);
                CHECK(slope.lo <= secant + own && secant - own <= slope.hi);
            }
        }
        if (line.off > 1e-9)
            tightest = fmin(tightest, (double)(furthest / line.off));
    }
    CHECK_LE(0.9, tightest); /* the line's error is no more than it has to be */
}

/* Where the chord is so flat that 1 - slope is 1, the line's error is still that of the bend at 0. */
TEST(lines_over_huge_intervals_hold_every_point)
{
    for (int left = 0; left <= 30; left += 3)
        for (int right = 0; right <= 30; right++)
            for (int is_tanh = 0; is_tanh < 2; is_tanh++) {
                const double lo = -pow(10, left), hi = pow(10, right);
                const act_line line = act_line_over(is_tanh, act_at(is_tanh, 0),
                                                    act_at(is_tanh, lo), act_at(is_tanh, hi));
                for (double x = fmax(lo, -60); x <= fmin(hi, 60); x += 0.5) {
                    const long double off = exact(is_tanh, x) - line.slope * x - line.at;
                    CHECK(-line.off <= off && off <= line.off);
                }
            }
}
