/* tensor/cuda/gemm.cu - products by cuBLASLt, in exact float unless the store says otherwise.
 *
 * cuBLASLt looks for an algorithm whenever a size is new, which takes longer than most products here,
 * and the number of rows is new in every step. So it is asked about a few sizes only: the rows rounded
 * up. What it advises for them is kept, and used for all numbers of rows that round to the same. */
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cstring>

#include "tensor/cuda/gemm.cuh"

extern "C" {
#include "base/mem.h"
}

/* ---- algorithms --------------------------------------------------------------------------- */

static const size_t BLAS_SPACE = (size_t)32 << 20; /* what NVIDIA advises for Hopper */

/* All that an algorithm depends on. */
struct product_key {
    uint64_t m, n, k, lda, ldb;
    uint64_t factors, sums;             /* cudaDataType, cublasComputeType_t */
    uint64_t ta, tb;                    /* transposed? */
    uint64_t a_bytes, b_bytes, c_bytes; /* of which the addresses are multiples */
};

enum { KEY_NUMBERS = sizeof(product_key) / sizeof(uint64_t), N_PLANS = 512 };

struct cuda_blas {
    cublasLtHandle_t handle;
    void *space; /* scratch of products: taken once, so that none allocates */
    product_key key[N_PLANS];
    cublasLtMatmulAlgo_t algo[N_PLANS]; /* for a key whose n is not 0 */
};

void cuda_blas_close(cuda_blas *blas)
{
    if (!blas)
        return;
    cudaFree(blas->space);
    if (blas->handle)
        cublasLtDestroy(blas->handle);
    mem_free(blas);
}

/* Made for the first product: what attacks and certificates ask needs none, and it takes a while. */
static stet_status blas_of(cuda_device *d, cuda_blas **out)
{
    *out = d->blas;
    if (d->blas)
        return STET_OK;
    cuda_blas *made = static_cast<cuda_blas *>(mem_zalloc(1, sizeof *made));
    if (!made)
        return STET_ENOMEM;
    const cudaError_t space = cudaMalloc(&made->space, BLAS_SPACE);
    const cublasStatus_t e =
        space == cudaSuccess ? cublasLtCreate(&made->handle) : CUBLAS_STATUS_ALLOC_FAILED;
    if (e == CUBLAS_STATUS_SUCCESS) {
        *out = d->blas = made;
        return STET_OK;
    }
    cuda_blas_close(made);
    return cuda_failed(d, "starting cuBLAS",
                       space == cudaSuccess ? cublasLtGetStatusString(e)
                                            : cudaGetErrorString(space));
}

/* Row-major matrices are cuBLAS's transposed ones: c^T = op(b)^T op(a)^T. */
struct product_desc {
    cublasLtMatmulDescOpaque_t how;
    cublasLtMatrixLayoutOpaque_t a, b, c;
};

static cublasStatus_t describe(const product_key &x, product_desc *s)
{
    const cublasOperation_t of_b = x.tb ? CUBLAS_OP_T : CUBLAS_OP_N,
                            of_a = x.ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cudaDataType factors = (cudaDataType)x.factors;
    const cublasStatus_t all[] = {
        cublasLtMatmulDescInit(&s->how, (cublasComputeType_t)x.sums, CUDA_R_32F),
        cublasLtMatmulDescSetAttribute(&s->how, CUBLASLT_MATMUL_DESC_TRANSA, &of_b, sizeof of_b),
        cublasLtMatmulDescSetAttribute(&s->how, CUBLASLT_MATMUL_DESC_TRANSB, &of_a, sizeof of_a),
        cublasLtMatrixLayoutInit(&s->b, factors, x.tb ? x.k : x.n, x.tb ? x.n : x.k,
                                 (int64_t)x.ldb),
        cublasLtMatrixLayoutInit(&s->a, factors, x.ta ? x.m : x.k, x.ta ? x.k : x.m,
                                 (int64_t)x.lda),
        cublasLtMatrixLayoutInit(&s->c, CUDA_R_32F, x.n, x.m, (int64_t)x.n),
    };
    for (const cublasStatus_t e : all)
        if (e != CUBLAS_STATUS_SUCCESS)
            return e;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t wish_for(const product_key &x, cublasLtMatmulPreferenceOpaque_t *wish)
{
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        uint64_t bytes;
    } aligned[] = {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, x.b_bytes},
                   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, x.a_bytes},
                   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, x.c_bytes},
                   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, x.c_bytes}};
    cublasStatus_t e = cublasLtMatmulPreferenceInit(wish);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                 &BLAS_SPACE, sizeof BLAS_SPACE);
    for (const auto &m : aligned) {
        const uint32_t bytes = (uint32_t)m.bytes;
        if (e == CUBLAS_STATUS_SUCCESS)
            e = cublasLtMatmulPreferenceSetAttribute(wish, m.what, &bytes, sizeof bytes);
    }
    return e;
}

static cublasStatus_t ask(cublasLtHandle_t handle, const product_key &x, cublasLtMatmulAlgo_t *out)
{
    product_desc s;
    cublasLtMatmulPreferenceOpaque_t wish;
    cublasLtMatmulHeuristicResult_t found = {};
    int n = 0;
    cublasStatus_t e = describe(x, &s);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = wish_for(x, &wish);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmulAlgoGetHeuristic(handle, &s.how, &s.b, &s.a, &s.c, &s.c, &wish, 1, &found,
                                           &n);
    *out = found.algo;
    return e != CUBLAS_STATUS_SUCCESS ? e : n ? found.state : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* The next number that has no more than four bits before its zeros. */
static uint64_t rounded_up(uint64_t n)
{
    uint64_t unit = 1;
    while (n > 16 * unit)
        unit *= 2;
    return (n + unit - 1) / unit * unit;
}

static size_t place_of(const product_key &x)
{
    const uint64_t *number = reinterpret_cast<const uint64_t *>(&x);
    uint64_t h = 0;
    for (int i = 0; i < KEY_NUMBERS; i++) {
        h = (h ^ number[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h % N_PLANS;
}

/* An algorithm for x with its rows rounded up. Columns are as they are: a row has no room for more. */
static cublasStatus_t plan(cuda_blas *blas, product_key x, const cublasLtMatmulAlgo_t **out)
{
    if (!x.ta)
        x.m = rounded_up(x.m);
    else if (!x.tb)
        x.k = rounded_up(x.k);
    const size_t at = place_of(x);
    *out = &blas->algo[at];
    if (std::memcmp(&blas->key[at], &x, sizeof x) == 0)
        return CUBLAS_STATUS_SUCCESS;
    blas->key[at] = product_key{};
    const cublasStatus_t e = ask(blas->handle, x, &blas->algo[at]);
    if (e == CUBLAS_STATUS_SUCCESS)
        blas->key[at] = x;
    return e;
}

static uint64_t multiple_of(const void *address)
{
    return (size_t)address % 16 == 0 ? 16 : sizeof(float);
}

/* ---- products ----------------------------------------------------------------------------- */

static stet_status product(cuda_device *d, bool ta, bool tb, size_t m, size_t n, size_t k,
                           const void *a, size_t lda, const void *b, size_t ldb,
                           cudaDataType factors, cublasComputeType_t sums, float beta, float *c)
{
    const product_key x = {m,
                           n,
                           k,
                           lda,
                           ldb,
                           (uint64_t)factors,
                           (uint64_t)sums,
                           ta,
                           tb,
                           multiple_of(a),
                           multiple_of(b),
                           multiple_of(c)};
    const cublasLtMatmulAlgo_t *algo;
    cublasLtMatmulAlgo_t own;
    product_desc s;
    cuda_blas *blas;
    TRY(blas_of(d, &blas));
    const auto multiply = [&](const cublasLtMatmulAlgo_t *by) {
        const float one = 1;
        return cublasLtMatmul(blas->handle, &s.how, &one, b, &s.b, a, &s.a, &beta, c, &s.c, c, &s.c,
                              by, blas->space, BLAS_SPACE, d->stream);
    };
    cublasStatus_t e = describe(x, &s);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = plan(blas, x, &algo);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = multiply(algo);
    if (e == CUBLAS_STATUS_NOT_SUPPORTED ||
        e == CUBLAS_STATUS_INVALID_VALUE) { /* not for these rows */
        e = ask(blas->handle, x, &own);
        if (e == CUBLAS_STATUS_SUCCESS)
            e = multiply(&own);
    }
    return e == CUBLAS_STATUS_SUCCESS ? STET_OK
                                      : cuda_failed(d, "a product", cublasLtGetStatusString(e));
}

/* The product of matrices without columns and without rows. */
static stet_status no_product(cuda_device *d, size_t n, float beta, float *c)
{
    const cudaError_t e = beta == 0 ? cudaMemsetAsync(c, 0, n * sizeof *c, d->stream) : cudaSuccess;
    return e == cudaSuccess ? STET_OK : cuda_failed(d, "a product", cudaGetErrorString(e));
}

static cublasComputeType_t float_sums(const cuda_device *d)
{
    return d->scratch.store->precision == PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                         : CUBLAS_COMPUTE_32F;
}

stet_status cuda_gemm_bf16(cuda_device *d, bool ta, bool tb, size_t m, size_t n, size_t k,
                           const __nv_bfloat16 *a, size_t lda, const __nv_bfloat16 *b, size_t ldb,
                           float beta, float *c)
{
    return product(d, ta, tb, m, n, k, a, lda, b, ldb, CUDA_R_16BF, CUBLAS_COMPUTE_32F, beta, c);
}

/* Columns of a rounded matrix: a multiple of eight, as tensor cores read them. */
static size_t rounded_cols(size_t cols)
{
    return (cols + 7) / 8 * 8;
}

struct round_entry {
    const float *from;
    __nv_bfloat16 *to;
    size_t cols, from_ld, to_ld;
    __device__ void operator()(size_t i) const
    {
        const size_t row = i / to_ld, col = i - row * to_ld;
        to[i] = __float2bfloat16_rn(col < cols ? from[row * from_ld + col] : 0);
    }
};

/* A copy of a matrix in scratch, rounded. */
static stet_status rounded(scratch *mem, const float *x, size_t rows, size_t cols, size_t ld,
                           __nv_bfloat16 **out)
{
    const size_t to_ld = rounded_cols(cols);
    *out = mem->take<__nv_bfloat16>(rows * to_ld);
    return *out ? each(mem->d, "rounding", rows * to_ld, round_entry{x, *out, cols, ld, to_ld})
                : STET_ENOMEM;
}

stet_status cuda_gemm(cuda_device *d, bool ta, bool tb, size_t m, size_t n, size_t k,
                      const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c)
{
    if (m == 0 || n == 0)
        return STET_OK;
    if (k == 0)
        return no_product(d, m * n, beta, c);
    if (!cuda_rounds(d))
        return product(d, ta, tb, m, n, k, a, lda, b, ldb, CUDA_R_32F, float_sums(d), beta, c);
    scratch mem(d);
    __nv_bfloat16 *ra, *rb;
    const size_t a_cols = ta ? m : k, b_cols = tb ? k : n;
    TRY(rounded(&mem, a, ta ? k : m, a_cols, lda, &ra));
    TRY(rounded(&mem, b, tb ? n : k, b_cols, ldb, &rb));
    return cuda_gemm_bf16(d, ta, tb, m, n, k, ra, rounded_cols(a_cols), rb, rounded_cols(b_cols),
                          beta, c);
}
