/* stet/info.h - what this build and this machine are, and a device's start. */
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

/* Start a device ("cuda" or "auto"; for others nothing happens) on a thread of its own, while the caller
 * reads files: a GPU takes some tenths of a second. Calls that use the device wait for it and tell of its
 * failures. Not needed, and not for several threads at once. stet_device_wait() before the program ends. */
STET_API void stet_device_start(const char *name);
STET_API void stet_device_wait(void);

/* Ops and the devices that have them: number of ops; name and whether CPU and CUDA kernels exist. */
STET_API size_t stet_op_count(void);
STET_API const char *stet_op_support(size_t i, bool *cpu, bool *cuda);

#ifdef __cplusplus
}
#endif
#endif
