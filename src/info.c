/* info.c - what this build and this machine are (stet/info.h). */
#include "stet/info.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "bound/bound_ops.h"
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

static pthread_t starter;
static bool starting;

static void *start_device(void *none)
{
    cuda_device_start();
    return none;
}

void stet_device_start(const char *name)
{
    if (starting || !name || (strcmp(name, "cuda") != 0 && strcmp(name, "auto") != 0))
        return;
    sigset_t all, before; /* signals are for the program's own threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    starting = pthread_create(&starter, NULL, start_device, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void stet_device_wait(void)
{
    if (starting)
        pthread_join(starter, NULL);
    starting = false;
}

/* Op i of all layers' tables, or NULL. */
static const op_desc *op_at(size_t i)
{
    if (i < OP_COUNT)
        return &op_table[i];
    for (const op_desc *const *d = bound_ops; *d; d++)
        if (i-- == OP_COUNT)
            return *d;
    return NULL;
}

size_t stet_op_count(void)
{
    size_t n = OP_COUNT;
    while (op_at(n))
        n++;
    return n;
}

const char *stet_op_support(size_t i, bool *cpu, bool *cuda)
{
    const op_desc *d = op_at(i);
    if (!d)
        return NULL;
    *cpu = op_support(d, DEV_CPU);
    *cuda = op_support(d, DEV_CUDA);
    return d->name;
}
