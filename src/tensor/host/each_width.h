/* tensor/host/each_width.h - compile a kernel once for each width of vector registers.
 *
 *     #define KERNEL_FILE "tensor/host/panel_kernel.h"
 *     #include "tensor/host/each_width.h"
 *     ...
 *     panel_fn *fn = FOR_MACHINE(rows);      the rows_... that suits this machine
 *
 * SIMD_CLONES does this for plain loops, which the compiler vectorises for each target. A kernel
 * that is written with vectors, because it must keep them in registers, has to be written for their
 * true width: gcc holds a vector wider than the target's in memory, some fifty times slower. The
 * file finds
 *
 *     NAME(x)        x with the width's suffix, for everything it defines
 *     TARGET         attributes of its functions
 *     VECTOR_BYTES   16, 32, 64
 *     REGISTERS      16, 32
 *     LARGER(a, b)   of two vectors, lane by lane a > b ? a : b; gcc makes of that a comparison and a
 *                    choice, whose results take three times as long as those of the one instruction
 *     vec            NAME(vec): VECTOR_BYTES of real, loaded from anywhere; LANES of them */

#include "base/simd.h"
#include "tensor/tensor.h"

#ifndef TENSOR_HOST_EACH_WIDTH_H
#define TENSOR_HOST_EACH_WIDTH_H

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

typedef real vec_plain __attribute__((vector_size(16), aligned(sizeof(real)), may_alias));

#if defined(STET_MULTIVERSION) && defined(__x86_64__)
#include <immintrin.h>

typedef real vec_avx2 __attribute__((vector_size(32), aligned(sizeof(real)), may_alias));
typedef real vec_avx512 __attribute__((vector_size(64), aligned(sizeof(real)), may_alias));

/* What x86-64-v3 and -v4 have of importance here. */
static inline bool machine_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static inline bool machine_has_avx512(void)
{
    return machine_has_avx2() && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512cd");
}
#define FOR_MACHINE(x)                                                                             \
    (machine_has_avx512() ? x##_avx512 : machine_has_avx2() ? x##_avx2 : x##_plain)
#else
#define FOR_MACHINE(x) x##_plain
#endif

#ifdef STET_DOUBLE
#define MAX_WIDTH(w, a, b) ((vec)_mm##w##_max_pd((__m##w##d)(a), (__m##w##d)(b)))
typedef int64_t whole_plain __attribute__((vector_size(16)));
#else
#define MAX_WIDTH(w, a, b) ((vec)_mm##w##_max_ps((__m##w)(a), (__m##w)(b)))
typedef int32_t whole_plain __attribute__((vector_size(16)));
#endif
static ALWAYS_INLINE vec_plain larger_plain(vec_plain a, vec_plain b)
{
    const whole_plain better = a > b;
    return (vec_plain)(((whole_plain)a & better) | ((whole_plain)b & ~better));
}

#define vec NAME(vec)
#define LANES ((int)(VECTOR_BYTES / sizeof(real)))

#endif

#define NAME(x) x##_plain
#define TARGET
#define LARGER(a, b) larger_plain(a, b)
#define VECTOR_BYTES 16
#define REGISTERS 16
#include KERNEL_FILE
#undef NAME
#undef TARGET
#undef LARGER
#undef VECTOR_BYTES
#undef REGISTERS

#if defined(STET_MULTIVERSION) && defined(__x86_64__)

#define NAME(x) x##_avx2
#define TARGET __attribute__((target("arch=x86-64-v3")))
#define LARGER(a, b) MAX_WIDTH(256, a, b)
#define VECTOR_BYTES 32
#define REGISTERS 16
#include KERNEL_FILE
#undef NAME
#undef TARGET
#undef LARGER
#undef VECTOR_BYTES
#undef REGISTERS

#define NAME(x) x##_avx512
#if defined(__clang__) /* which otherwise halves these vectors */
#define TARGET __attribute__((target("arch=x86-64-v4"), min_vector_width(512)))
#else
#define TARGET __attribute__((target("arch=x86-64-v4")))
#endif
#define LARGER(a, b) MAX_WIDTH(512, a, b)
#define VECTOR_BYTES 64
#define REGISTERS 32
#include KERNEL_FILE
#undef NAME
#undef TARGET
#undef LARGER
#undef VECTOR_BYTES
#undef REGISTERS

#endif

#undef KERNEL_FILE
