/* base/simd.h - one binary for every x86-64: functions marked SIMD_CLONES are compiled for the
 * baseline, AVX2+FMA and AVX-512, and the loader picks one at start-up. Sanitizer builds and other
 * machines compile them once. */
#ifndef BASE_SIMD_H
#define BASE_SIMD_H

/* clang 14 gives the resolvers of static functions global names, which collide between files, and does not know the
 * x86-64 levels at run time: there only the kernels of tensor/host/each_width.h have variants. */
#if defined(STET_MULTIVERSION) && defined(__x86_64__) && !defined(__clang__)
#define SIMD_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define SIMD_CLONES
#endif
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define RESTRICT restrict

#endif
