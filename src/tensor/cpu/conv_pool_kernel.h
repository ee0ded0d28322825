/* tensor/cpu/conv_pool_kernel.h - max-pooling of conv_taps.c, included by each_width.h: the maxima
 * of some vectors of filters, and where they are, stay in registers while the windows of a text
 * pass. */

#ifdef STET_DOUBLE
typedef int64_t NAME(whole) __attribute__((vector_size(VECTOR_BYTES)));
#else
typedef int32_t NAME(whole) __attribute__((vector_size(VECTOR_BYTES)));
#endif
enum { NAME(POOLED) = REGISTERS / 4 }; /* vectors: half of the registers for maxima and places */

/* V vectors of filters from p on. V is a constant, and k in the usual cases. */
TARGET static ALWAYS_INLINE void NAME(pool_block)(const int V, size_t k, const pooled_text *x,
                                                  const real *p, real *best_out, uint32_t *at_out)
{
    const size_t taps = x->len < k ? x->len : k;
    vec best[NAME(POOLED)];
    NAME(whole) at[NAME(POOLED)];
    UNROLL
    for (int v = 0; v < V; v++) {
        best[v] = *(const vec *)(p + x->row[0] * x->ld + (size_t)(v * LANES));
        for (size_t l = 1; l < taps; l++)
            best[v] += *(const vec *)(p + x->row[l] * x->ld + l * x->tap + (size_t)(v * LANES));
        at[v] = (NAME(whole)){0};
    }
    NAME(whole) now = {0};
    for (size_t t = 1; t + k <= x->len; t++) {
        now += 1;
        UNROLL
        for (int v = 0; v < V; v++) {
            vec s = *(const vec *)(p + x->row[t] * x->ld + (size_t)(v * LANES));
            for (size_t l = 1; l < k; l++)
                s += *(const vec *)(p + x->row[t + l] * x->ld + l * x->tap + (size_t)(v * LANES));
            const NAME(whole) better = s > best[v];
            best[v] = (vec)(((NAME(whole))s & better) | ((NAME(whole))best[v] & ~better));
            at[v] = (now & better) | (at[v] & ~better);
        }
    }
    for (int v = 0; v < V; v++) {
        for (int j = 0; j < LANES; j++) {
            best_out[v * LANES + j] = best[v][j];
            at_out[v * LANES + j] = (uint32_t)at[v][j];
        }
    }
}

TARGET static void NAME(pool)(const pooled_text *x, size_t k, size_t n, real *best, uint32_t *at)
{
#define POOL(V, k) NAME(pool_block)(V, k, x, x->p + f, best + f, at + f)
    enum { MANY = NAME(POOLED) * LANES };
    for (size_t f = 0; f < n; f += n - f >= MANY ? MANY : LANES) {
        if (n - f < MANY)
            POOL(1, k);
        else if (k == 3)
            POOL(NAME(POOLED), 3);
        else if (k == 4)
            POOL(NAME(POOLED), 4);
        else if (k == 5)
            POOL(NAME(POOLED), 5);
        else
            POOL(NAME(POOLED), k);
    }
#undef POOL
}
