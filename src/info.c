/* info.c - what this build and this machine are (stet/info.h). */
#include "stet/info.h"

#include "lexicon/wordnet.h"
#include "tensor/cuda/device.h"
#include "tensor/kernels.h"

/* Found once; kept for the life of the program. */
static const char *wordnet_folder(void)
{
    static char found[WORDNET_DIR];
    return *found || wordnet_find_dir(NULL, found) == STET_OK ? found : NULL;
}

stet_build_info stet_info(void)
{
    return (stet_build_info)
    {
        .version = STET_VERSION,
#if defined(__clang__)
        .compiler = "clang " __clang_version__,
#else
        .compiler = "gcc " __VERSION__,
#endif
        .simd = simd_level(), .blas = blas_name(), .threads = stet_threads(),
        .gpu = cuda_device_text(), .wordnet = wordnet_folder(),
    };
}
