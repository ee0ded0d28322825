/* info.c - what this build and this machine are (stet/info.h). */
#include "stet/info.h"

#include <stdlib.h>

#include "base/file.h"
#include "stet/option.h"
#include "tensor/cuda/device.h"
#include "tensor/kernels.h"

static const char *wordnet_folder(void)
{
    const char *places[] = { getenv("WNSEARCHDIR"), "/usr/share/wordnet", "/usr/local/share/wordnet" };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *index = places[i] ? path_join(places[i], "index.noun") : NULL;
        const bool there = index && file_exists(index);
        stet_free(index);
        if (there)
            return places[i];
    }
    return NULL;
}

stet_build_info stet_info(void)
{
    return (stet_build_info){
        .version = STET_VERSION,
#if defined(__clang__)
        .compiler = "clang " __clang_version__,
#else
        .compiler = "gcc " __VERSION__,
#endif
        .simd = simd_level(),
        .blas = blas_name(),
        .threads = stet_threads(),
        .gpu = cuda_device_text(),
        .wordnet = wordnet_folder(),
    };
}
