/* The vector functions at all exponents and a dense sample of mantissas; test_vec_math_all looks at
 * every float. */
#include "test.h"

#include "vec_math_ref.h"

enum { BLOCK = 4096 };
static const double MAX_ULP = 2;

/* BLOCK mantissas of each of the 512 signs and exponents, spread evenly over the range but for a
 * different offset each time. */
static void check_sample(const vec_case *c)
{
    static real x[BLOCK], y[BLOCK];
    for (uint32_t head = 0; head < 512; head++) {
        for (uint32_t i = 0; i < BLOCK; i++)
            x[i] = float_of(head << 23 | i << 11 | (head * 1021 + i * 7) % 2048);
        c->fn(x, y, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            const double err = ulp_error((float)y[i], c->ref((double)x[i]));
            if (!(err <= MAX_ULP))
                test_fail(__FILE__, __LINE__, "%s(%.9g) = %.9g, expected %.9g: off by %.2f ulp",
                          c->name, (double)x[i], (double)y[i], c->ref((double)x[i]), err);
        }
    }
}

TEST(every_function_is_within_2_ulp_on_a_sample_of_all_exponents)
{
    for (int i = 0; i < N_VEC_CASES; i++)
        check_sample(&vec_cases[i]);
}

TEST(special_values_come_out_as_libm_gives_them)
{
    static const real special[] = {
        0.0f,      -0.0f,     INFINITY,  -INFINITY,       NAN,
        -NAN,      1.0f,      -1.0f,     0x1p-149f,       -0x1p-149f,
        88.72284f, -103.972f, -87.3366f, 0x1.fffffep127f, -0x1.fffffep127f};
    enum { N = sizeof special / sizeof *special };
    for (int i = 0; i < N_VEC_CASES; i++) {
        real y[N];
        vec_cases[i].fn(special, y, N);
        for (int k = 0; k < N; k++) {
            const double want = vec_cases[i].ref((double)special[k]);
            const bool sign_differs = special[k] == 0 && !signbit(y[k]) != !signbit(want);
            if (sign_differs || !(ulp_error((float)y[k], want) <= MAX_ULP))
                test_fail(__FILE__, __LINE__, "%s(%.9g) = %.9g, expected %.9g", vec_cases[i].name,
                          (double)special[k], (double)y[k], want);
        }
    }
}

/* Loops end in the middle of a vector, start off its alignment, and may run in place. */
TEST(length_alignment_and_aliasing_do_not_change_a_value)
{
    enum { N = 67 };
    real x[N], whole[N], part[N];
    for (int i = 0; i < N; i++)
        x[i] = (real)(0.3 * i - 7.0);
    for (int c = 0; c < N_VEC_CASES; c++) {
        vec_cases[c].fn(x, whole, N);
        for (int first = 0; first < 3; first++) {
            for (int n = 0; first + n <= N; n++) {
                memcpy(part, x, sizeof part);
                vec_cases[c].fn(part + first, part + first, (size_t)n);
                for (int i = 0; i < N; i++) {
                    const bool inside = i >= first && i < first + n;
                    if (inside && isnan(whole[i]))
                        CHECK(isnan(part[i]));
                    else
                        CHECK_NEAR(part[i], inside ? whole[i] : x[i],
                                   inside ? fabs(1e-6 * whole[i]) : 0);
                }
            }
        }
    }
}
