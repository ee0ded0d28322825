/* tensor/cuda/store.cu - the memory of the first GPU, its stream, and what goes wrong there. */
#include "tensor/cuda/device.cuh"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

extern "C" {
#include "base/mem.h"
}

enum { PINNED = 1 << 16, UPLOAD_PART = 4 << 20 };

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
    cudaFree(d->numbers);
    cuda_blas_close(d->blas);
    cudaFreeHost(d->pinned);
    cudaFreeHost(d->ring);
    for (int i = 0; i < UPLOAD_PARTS; i++)
        if (d->part_read[i])
            cudaEventDestroy(d->part_read[i]);
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
    TRY(check(d, "taking host memory",
              cudaMallocHost((void **)&d->ring, (size_t)UPLOAD_PARTS * UPLOAD_PART)));
    for (int i = 0; i < UPLOAD_PARTS; i++)
        TRY(check(d, "making an event",
                  cudaEventCreateWithFlags(&d->part_read[i], cudaEventDisableTiming)));
    return STET_OK;
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
    const char *limit = std::getenv("STET_CUDA_LIMIT"); /* for tests: see README.md */
    d->limit = limit ? std::strtoull(limit, NULL, 10) : 0;
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
    cuda_device *d = of(s);
    const bool allowed = !d->limit || bytes <= d->limit - d->taken;
    const cudaError_t e = allowed ? cudaMalloc(&p, bytes ? bytes : 1) : cudaErrorMemoryAllocation;
    if (e == cudaSuccess) {
        d->taken += bytes;
        return p;
    }
    if (e == cudaErrorMemoryAllocation) {
        size_t left = 0, all = 0;
        cudaGetLastError(); /* this one is over: the device goes on */
        cudaMemGetInfo(&left, &all);
        error_set(STET_ENOMEM, "GPU %d is out of memory: %zu bytes wanted, %zu of %zu free", d->id,
                  bytes, left, all);
    } else {
        check(d, "taking memory", e);
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

/* Room for `bytes` bytes that the GPU will read. A part is filled again once it has read them. */
static char *ring_take(cuda_device *d, size_t bytes)
{
    if (bytes > UPLOAD_PART - d->part_used) {
        check(d, "marking an upload", cudaEventRecord(d->part_read[d->part], d->stream));
        d->part = (d->part + 1) % UPLOAD_PARTS;
        check(d, "the work before an upload", cudaEventSynchronize(d->part_read[d->part]));
        d->part_used = 0;
    }
    char *at = d->ring + (size_t)d->part * UPLOAD_PART + d->part_used;
    d->part_used += (bytes + 63) / 64 * 64;
    return at;
}

/* A few bytes travel as the argument of a kernel: no copy engine, no page-locked memory. */
enum { FEW_BYTES = 256 };
struct few_words {
    uint32_t word[FEW_BYTES / sizeof(uint32_t)];
    uint32_t *to;
    __device__ void operator()(size_t i) const
    {
        to[i] = word[i];
    }
};

static void upload_few(cuda_device *d, void *to, const void *from, size_t bytes)
{
    few_words f = {};
    std::memcpy(f.word, from, bytes);
    f.to = static_cast<uint32_t *>(to);
    each(d, "a copy to the GPU", bytes / sizeof(uint32_t), f); /* a failure is kept */
}

/* `from` is read before the call returns. From page-locked memory the GPU copies by itself; a copy
 * from ordinary memory would wait for the work before it. */
static void cuda_upload(store *s, void *to, const void *from, size_t bytes)
{
    cuda_device *d = of(s);
    if (bytes <= FEW_BYTES && bytes % sizeof(uint32_t) == 0 &&
        (uintptr_t)to % sizeof(uint32_t) == 0) {
        upload_few(d, to, from, bytes);
        return;
    }
    if (bytes <= UPLOAD_PART)
        from = std::memcpy(ring_take(d, bytes), from, bytes);
    check(d, "a copy to the GPU",
          cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, d->stream));
}

static void cuda_copy(store *s, void *to, const void *from, size_t bytes)
{
    check(of(s), "a copy on the GPU",
          cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, of(s)->stream));
}

/* Until the GPU has nothing to do, without holding a core: CUDA itself waits by asking again and again,
 * while other threads have the next questions to prepare. */
static void sleep_until_idle(cuda_device *d)
{
    const struct timespec little = {0, 50000};
    while (cudaStreamQuery(d->stream) == cudaErrorNotReady)
        nanosleep(&little, NULL);
}

static stet_status cuda_download(store *s, void *to, const void *const *from, size_t n,
                                 size_t bytes)
{
    cuda_device *d = of(s);
    const bool small = bytes <= PINNED && n <= PINNED / bytes;
    char *at = small ? d->pinned : static_cast<char *>(to);
    if (!small) /* of work that takes long, too */
        sleep_until_idle(d);
    for (size_t i = 0; i < n; i++)
        check(d, "a copy from the GPU",
              cudaMemcpyAsync(at + i * bytes, from[i], bytes, cudaMemcpyDeviceToHost, d->stream));
    check(d, "the work before a copy from the GPU", cudaStreamSynchronize(d->stream));
    TRY(report(d));
    if (small)
        std::memcpy(to, at, n * bytes);
    return STET_OK;
}

/* A letter's page-locked memory, which the GPU writes itself, and when it has. */
struct cuda_letter {
    cudaEvent_t written;
    uint32_t *words;
};

static void cuda_drop(store *s, store_letter *l)
{
    cuda_letter *own = static_cast<cuda_letter *>(l->own);
    if (!own)
        return;
    if (own->written) {
        check(of(s), "the work before a letter", cudaEventSynchronize(own->written));
        cudaEventDestroy(own->written);
    }
    cudaFreeHost(own->words);
    mem_free(own);
    l->own = NULL;
}

static stet_status letter_open(store *s, store_letter *l)
{
    cuda_letter *own = static_cast<cuda_letter *>(mem_zalloc(1, sizeof *own));
    if (!own)
        return STET_ENOMEM;
    l->own = own;
    TRY(check(of(s), "taking host memory", cudaMallocHost((void **)&own->words, LETTER_BYTES)));
    return check(of(s), "making an event",
                 cudaEventCreateWithFlags(&own->written, cudaEventDisableTiming));
}

struct letter_word {
    const uint32_t *from[LETTER_BYTES / sizeof(uint32_t)];
    size_t words; /* of a piece */
    uint32_t *to;
    __device__ void operator()(size_t i) const
    {
        to[i] = from[i / words][i % words];
    }
};

static stet_status cuda_send(store *s, store_letter *l, const void *const *from, size_t n,
                             size_t bytes)
{
    cuda_device *d = of(s);
    if (!l->own) {
        const stet_status st = letter_open(s, l);
        if (st != STET_OK) {
            cuda_drop(s, l);
            return st;
        }
    }
    const cuda_letter *own = static_cast<const cuda_letter *>(l->own);
    letter_word f;
    f.words = bytes / sizeof(uint32_t);
    f.to = own->words;
    for (size_t i = 0; i < n && f.words; i++)
        f.from[i] = static_cast<const uint32_t *>(from[i]);
    TRY(each(d, "sending numbers", n * f.words, f));
    return check(d, "sending numbers", cudaEventRecord(own->written, d->stream));
}

static stet_status cuda_receive(store *s, store_letter *l)
{
    cuda_device *d = of(s);
    const cuda_letter *own = static_cast<const cuda_letter *>(l->own);
    if (!own)
        return report(d);
    check(d, "the work before a copy from the GPU", cudaEventSynchronize(own->written));
    TRY(report(d));
    std::memcpy(l->data, own->words, l->bytes);
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
    cuda_send,
    cuda_receive,
    cuda_drop,
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
