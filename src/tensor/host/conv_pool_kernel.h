/* tensor/host/conv_pool_kernel.h - max-pooling of conv_taps.c, included by each_width.h: the maxima
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

/* The same with the second best: a window that is not at `at`. */
TARGET static ALWAYS_INLINE void NAME(pool_two_block)(const int V, size_t k, const pooled_text *x,
                                                      const real *p, const pool_two *out)
{
    const size_t taps = x->len < k ? x->len : k;
    vec best[NAME(POOLED)], next[NAME(POOLED)];
    NAME(whole) at[NAME(POOLED)], next_at[NAME(POOLED)];
    UNROLL
    for (int v = 0; v < V; v++) {
        best[v] = *(const vec *)(p + x->row[0] * x->ld + (size_t)(v * LANES));
        for (size_t l = 1; l < taps; l++)
            best[v] += *(const vec *)(p + x->row[l] * x->ld + l * x->tap + (size_t)(v * LANES));
        next[v] = (vec){0} - (real)INFINITY;
        at[v] = next_at[v] = (NAME(whole)){0};
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
            const vec beaten = (vec)(((NAME(whole))best[v] & better) | ((NAME(whole))s & ~better));
            const NAME(whole) beaten_at = (at[v] & better) | (now & ~better);
            best[v] = (vec)(((NAME(whole))s & better) | ((NAME(whole))best[v] & ~better));
            at[v] = (now & better) | (at[v] & ~better);
            const NAME(whole) second = beaten > next[v];
            next[v] = (vec)(((NAME(whole))beaten & second) | ((NAME(whole))next[v] & ~second));
            next_at[v] = (beaten_at & second) | (next_at[v] & ~second);
        }
    }
    for (int v = 0; v < V; v++) {
        for (int j = 0; j < LANES; j++) {
            out->best[v * LANES + j] = best[v][j];
            out->at[v * LANES + j] = (uint32_t)at[v][j];
            out->next[v * LANES + j] = next[v][j];
            out->next_at[v * LANES + j] = (uint32_t)next_at[v][j];
        }
    }
}

TARGET static void NAME(pool_two)(const pooled_text *x, size_t k, size_t n, const pool_two *out)
{
    enum { MANY = NAME(POOLED) / 2 * LANES };
    for (size_t f = 0; f < n; f += n - f >= MANY ? MANY : LANES) {
        const pool_two to = {out->best + f, out->at + f, out->next + f, out->next_at + f};
        if (n - f < MANY)
            NAME(pool_two_block)(1, k, x, x->p + f, &to);
        else
            NAME(pool_two_block)(NAME(POOLED) / 2, k, x, x->p + f, &to);
    }
}
