/* tensor/host/vec_linear.c - sums of vectors, and which instructions they run on. */
#include "base/simd.h"
#include "tensor/host/lanes.h"
#include "tensor/kernels.h"

/* Clones are static behind plain functions: see vec_math.c. */
static SIMD_CLONES void axpy(real alpha, const real *RESTRICT x, real *RESTRICT y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += alpha * x[i];
}

static SIMD_CLONES real dot(const real *x, const real *y, size_t n)
{
    return lanes_dot(x, y, n);
}

static SIMD_CLONES double sumsq(const real *x, size_t n)
{
    return wide_sumsq(x, n);
}

void vec_axpy(real alpha, const real *x, real *y, size_t n)
{
    axpy(alpha, x, y, n);
}

real vec_dot(const real *x, const real *y, size_t n)
{
    return dot(x, y, n);
}

double vec_sumsq(const real *x, size_t n)
{
    return sumsq(x, n);
}

#if defined(STET_MULTIVERSION) && defined(__x86_64__)
const char *simd_level(void)
{
    __builtin_cpu_init();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
    const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
    return v3 && v4 ? "avx512" : v3 ? "avx2" : "baseline";
}
#else
const char *simd_level(void)
{
    return "baseline"; /* or what the compiler was told to assume */
}
#endif
