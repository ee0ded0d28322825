/* tensor/cuda/store.cu - the memory of the first GPU, its stream, and what goes wrong there. */
#include "tensor/cuda/device.cuh"

#include <cstdio>
#include <cstring>

extern "C" {
#include "base/mem.h"
}

enum { PINNED = 1 << 16 };
static const size_t BLAS_SPACE = (size_t)32 << 20; /* what NVIDIA advises for Hopper */

static thread_local cuda_device *now;

cuda_device *cuda_now(void)
{
    return now;
}

static cuda_device *of(const store *s)
{
    return static_cast<cuda_device *>(s->own);
}

/* ---- failures ----------------------------------------------------------------------------- */

stet_status cuda_failed(cuda_device *d, const char *what, const char *why)
{
    if (d->status == STET_OK) {
        d->status = STET_EDEVICE;
        std::snprintf(d->message, sizeof d->message, "GPU %d: %s failed: %s", d->id, what, why);
    }
    return error_set(STET_EDEVICE, "%s", d->message);
}

static stet_status check(cuda_device *d, const char *what, cudaError_t e)
{
    return e == cudaSuccess ? STET_OK : cuda_failed(d, what, cudaGetErrorString(e));
}

stet_status cuda_launched(cuda_device *d, const char *what)
{
    return check(d, what, cudaGetLastError());
}

/* What was kept, once. A lost device fails the next call again. */
static stet_status report(cuda_device *d)
{
    const stet_status st = d->status;
    d->status = STET_OK;
    return st == STET_OK ? STET_OK : error_set(st, "%s", d->message);
}

/* ---- opening ------------------------------------------------------------------------------ */

static void cuda_close(store *s)
{
    cuda_device *d = of(s);
    if (d->stream)
        cudaStreamSynchronize(d->stream);
    store_arena_deinit(&d->scratch);
    if (d->blas)
        cublasDestroy(d->blas);
    cudaFree(d->blas_space);
    cudaFreeHost(d->pinned);
    if (d->stream)
        cudaStreamDestroy(d->stream);
    if (now == d)
        now = NULL;
    mem_free(d);
}

static stet_status open_parts(cuda_device *d)
{
    TRY(check(d, "choosing the GPU", cudaSetDevice(d->id)));
    TRY(check(d, "making a stream", cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking)));
    TRY(check(d, "taking host memory", cudaMallocHost((void **)&d->pinned, PINNED)));
    TRY(check(d, "taking memory", cudaMalloc(&d->blas_space, BLAS_SPACE)));
    cublasStatus_t e = cublasCreate(&d->blas);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasSetStream(d->blas, d->stream);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasSetWorkspace(d->blas, d->blas_space, BLAS_SPACE);
    if (e == CUBLAS_STATUS_SUCCESS) /* float products are float's: no TF32 */
        e = cublasSetMathMode(d->blas, CUBLAS_DEFAULT_MATH);
    return e == CUBLAS_STATUS_SUCCESS ? STET_OK
                                      : cuda_failed(d, "starting cuBLAS", cublasGetStatusString(e));
}

static stet_status cuda_open(store *s)
{
    int n = 0;
    const cudaError_t e = cudaGetDeviceCount(&n);
    if (e != cudaSuccess || n == 0)
        return error_set(STET_ENOTSUP, "device 'cuda': no GPU can be used here (%s)",
                         e != cudaSuccess ? cudaGetErrorString(e) : "none was found");
    cuda_device *d = static_cast<cuda_device *>(mem_zalloc(1, sizeof *d));
    if (!d)
        return STET_ENOMEM;
    d->scratch.store = s;
    s->own = d;
    const stet_status st = open_parts(d);
    if (st != STET_OK) {
        cuda_close(s);
        s->own = NULL;
    }
    return st;
}

/* ---- memory ------------------------------------------------------------------------------- */

static void *cuda_alloc(store *s, size_t bytes)
{
    void *p = NULL;
    const cudaError_t e = cudaMalloc(&p, bytes ? bytes : 1);
    if (e == cudaSuccess)
        return p;
    if (e == cudaErrorMemoryAllocation) {
        size_t left = 0, all = 0;
        cudaGetLastError(); /* this one is over: the device goes on */
        cudaMemGetInfo(&left, &all);
        error_set(STET_ENOMEM, "GPU %d is out of memory: %zu bytes wanted, %zu of %zu free",
                  of(s)->id, bytes, left, all);
    } else {
        check(of(s), "taking memory", e);
    }
    return NULL;
}

/* Waits for the device, so that no kernel still uses the block. */
static void cuda_release(store *s, void *p)
{
    check(of(s), "giving memory back", cudaFree(p));
}

static void cuda_clear(store *s, void *p, size_t bytes)
{
    check(of(s), "clearing memory", cudaMemsetAsync(p, 0, bytes, of(s)->stream));
}

/* From ordinary host memory: read before the call returns. */
static void cuda_upload(store *s, void *to, const void *from, size_t bytes)
{
    check(of(s), "a copy to the GPU",
          cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, of(s)->stream));
}

static void cuda_copy(store *s, void *to, const void *from, size_t bytes)
{
    check(of(s), "a copy on the GPU",
          cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, of(s)->stream));
}

static stet_status cuda_download(store *s, void *to, const void *const *from, size_t n,
                                 size_t bytes)
{
    cuda_device *d = of(s);
    const bool small = bytes <= PINNED && n <= PINNED / bytes;
    char *at = small ? d->pinned : static_cast<char *>(to);
    for (size_t i = 0; i < n; i++)
        check(d, "a copy from the GPU",
              cudaMemcpyAsync(at + i * bytes, from[i], bytes, cudaMemcpyDeviceToHost, d->stream));
    check(d, "the work before a copy from the GPU", cudaStreamSynchronize(d->stream));
    TRY(report(d));
    if (small)
        std::memcpy(to, at, n * bytes);
    return STET_OK;
}

static void cuda_enter(store *s)
{
    now = of(s);
}

const store_desc cuda_store_desc = {
    /* name */ "cuda",
    /* kernels */ DEV_CUDA,
    /* host */ false,
    cuda_open,
    cuda_close,
    cuda_alloc,
    cuda_release,
    cuda_clear,
    cuda_upload,
    cuda_download,
    cuda_copy,
    cuda_enter,
    /* leave */ NULL,
};

stet_status clear_if_fresh(cuda_device *d, node *x)
{
    if (!grad_is_fresh(x))
        return STET_OK;
    return check(d, "clearing a gradient",
                 cudaMemsetAsync(x->grad, 0, shape_count(x->shape) * sizeof *x->grad, d->stream));
}
