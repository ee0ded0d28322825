/* stet/info.h - what this build and this machine are. */
#ifndef STET_INFO_H
#define STET_INFO_H

#include "stet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stet_build_info {
    const char *version, *compiler, *simd, *blas;
    int threads;
    const char *gpu;     /* name of the first CUDA device, or why there is none */
    const char *wordnet; /* folder of the WordNet database, or NULL */
} stet_build_info;

/* The strings live as long as the program. */
STET_API stet_build_info stet_info(void);

/* Ops and the devices that have them: number of ops; name and whether CPU and CUDA kernels exist. */
STET_API size_t stet_op_count(void);
STET_API const char *stet_op_support(size_t i, bool *cpu, bool *cuda);

#ifdef __cplusplus
}
#endif
#endif
