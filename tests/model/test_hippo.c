/* tests/model/test_hippo.c - the diagonal form against the matrix it came from. */
#include "test.h"

#include <complex.h>

#include "alloc_fail.h"
#include "base/json.h"
#include "model/hippo.h"

enum { MAX_STATE = 128, MAX_MODES = MAX_STATE / 2 };

typedef struct legs {
    size_t n; /* state size */
    double w[MAX_MODES], p[2 * MAX_MODES], b[2 * MAX_MODES];
} legs;

static legs make(size_t n_state)
{
    legs l = {.n = n_state};
    CHECK_OK(hippo_legs(n_state, l.w, l.p, l.b));
    return l;
}

static double complex lambda(const legs *l, size_t i)
{
    return -0.5 + I * l->w[i];
}

static double complex p_of(const legs *l, size_t i)
{
    return l->p[2 * i] + I * l->p[2 * i + 1];
}

static double complex b_of(const legs *l, size_t i)
{
    return l->b[2 * i] + I * l->b[2 * i + 1];
}

static double low_rank(size_t i)
{
    return sqrt((double)i + 0.5);
}

/* P^T N^k B with N = A + P P^T, by the matrix: -1/2 on the diagonal, +-P_i P_j beside it. */
static void moments(size_t n, size_t count, double *out)
{
    double x[MAX_STATE], y[MAX_STATE];
    for (size_t i = 0; i < n; i++)
        x[i] = sqrt(2 * (double)i + 1);
    for (size_t k = 0; k < count; k++) {
        out[k] = 0;
        for (size_t i = 0; i < n; i++)
            out[k] += low_rank(i) * x[i];
        for (size_t i = 0; i < n; i++) {
            y[i] = -0.5 * x[i];
            for (size_t j = 0; j < n; j++)
                if (i != j)
                    y[i] += (i > j ? -1 : 1) * low_rank(i) * low_rank(j) * x[j];
        }
        memcpy(x, y, sizeof x);
    }
}

TEST(moments_of_the_matrix_are_moments_of_the_modes)
{
    enum { COUNT = 12 };
    for (size_t n = 2; n <= MAX_STATE; n *= 2) {
        const legs l = make(n);
        double want[COUNT];
        moments(n, COUNT, want);
        for (int k = 0; k < COUNT; k++) {
            double got = 0, size = 0; /* both halves of the spectrum: twice the real part */
            for (size_t i = 0; i < n / 2; i++) {
                const double complex term =
                    conj(p_of(&l, i)) * cpow(lambda(&l, i), k) * b_of(&l, i);
                got += 2 * creal(term);
                size += 2 * cabs(term);
            }
            CHECK_NEAR(got / size, want[k] / size, 1e-12);
        }
    }
}

/* A is triangular with eigenvalues -1 .. -N; there the secular function 1 + P^*(x - Lambda)^{-1} P
 * of its diagonal-plus-low-rank form is zero. */
TEST(eigenvalues_of_the_matrix_are_zeros_of_the_secular_function)
{
    for (size_t n = 2; n <= MAX_STATE; n *= 2) {
        const legs l = make(n);
        for (size_t k = 1; k <= n; k++) {
            double sum = 1, size = 1;
            for (size_t i = 0; i < n / 2; i++) {
                const double complex term =
                    conj(p_of(&l, i)) * p_of(&l, i) / (-(double)k - lambda(&l, i));
                sum += 2 * creal(term);
                size += 2 * cabs(term);
            }
            CHECK_NEAR(sum / size, 0, 1e-12);
        }
    }
}

TEST(modes_rise_from_the_lower_half_plane_and_differ)
{
    const legs l = make(64);
    for (size_t i = 0; i < 32; i++) {
        CHECK(l.w[i] < (i + 1 < 32 ? l.w[i + 1] - 0.1 : 0));
        CHECK_NEAR(b_of(&l, i), sqrt(2) * p_of(&l, i), 1e-13);
    }
}

TEST(odd_and_empty_states_are_refused)
{
    double x[8];
    CHECK_FAILS(hippo_legs(3, x, x, x), STET_EUSAGE, "state size 3");
    CHECK_FAILS(hippo_legs(0, x, x, x), STET_EUSAGE, "positive even");
}

static stet_status make_once(void *out)
{
    return hippo_legs(8, out, (double *)out + 4, (double *)out + 12);
}

TEST(running_out_of_memory_is_reported)
{
    double x[20];
    CHECK_LE(1, ALLOC_FAIL_LOOP(make_once, x));
}

/* golden values ----------------------------------------------------------------------------- */

static double number(const json_t *list, size_t i, size_t part)
{
    return json_number_value(json_array_get(json_array_get(list, i), part));
}

TEST(four_states_agree_with_the_golden_file)
{
    const char *path = STET_SOURCE_DIR "/tests/golden/s4.json";
    json_t *root = NULL;
    CHECK_OK(json_read_file(path, &root));
    const json_t *hippo = json_object_get(root, "hippo");
    const size_t modes = json_array_size(json_object_get(hippo, "Lambda"));
    CHECK_EQ(modes, 2);
    const legs l = make(2 * modes);
    for (size_t i = 0; i < modes; i++) {
        CHECK_NEAR(l.w[i], number(json_object_get(hippo, "Lambda"), i, 1), 1e-13);
        for (size_t part = 0; part < 2; part++) {
            CHECK_NEAR(l.p[2 * i + part], number(json_object_get(hippo, "P"), i, part), 1e-13);
            CHECK_NEAR(l.b[2 * i + part], number(json_object_get(hippo, "B"), i, part), 1e-13);
        }
    }
    json_decref(root);
}
