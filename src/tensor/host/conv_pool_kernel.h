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

/* ---- maxima alone ------------------------------------------------------------------------- */

enum { NAME(TOPS) = TOP_FILTERS * sizeof(real) / VECTOR_BYTES }; /* vectors of a block */

/* Any k: window by window. */
TARGET static void NAME(top_windows)(const uint32_t *row, size_t len, size_t k, const real *p,
                                     real *top)
{
    const size_t taps = len < k ? len : k;
    for (int v = 0; v < NAME(TOPS); v++) {
        const real *const x = p + (size_t)(v * LANES);
        vec best = (vec){0} - (real)INFINITY;
        for (size_t t = 0; t + taps <= len; t++) {
            vec s = *(const vec *)(x + row[t] * k * TOP_FILTERS);
            for (size_t l = 1; l < taps; l++)
                s += *(const vec *)(x + (row[t + l] * k + l) * TOP_FILTERS);
            best = LARGER(s, best);
        }
        *(vec *)(top + v * LANES) = best;
    }
}

/* The windows that are open, k - 1 of them, move on by the taps of a word; x is the next one's. */
TARGET static ALWAYS_INLINE void NAME(move_on)(const size_t k, const real *x, vec *open)
{
    UNROLL
    for (size_t l = 1; l + 1 < k; l++)
        open[l - 1] = open[l] + *(const vec *)(x + (k - 1 - l) * TOP_FILTERS);
    open[k - 2] = *(const vec *)x;
}

/* 1 < k <= len, k a constant: every word is met once, and the sums have the same terms in the same
 * order. */
TARGET static ALWAYS_INLINE void NAME(top_slide)(const uint32_t *row, size_t len, const size_t k,
                                                 const real *p, real *top)
{
    vec best[NAME(TOPS)], open[NAME(TOPS)][TOP_SLIDES];
    UNROLL
    for (int v = 0; v < NAME(TOPS); v++) {
        best[v] = (vec){0} - (real)INFINITY;
        UNROLL
        for (size_t l = 0; l < TOP_SLIDES; l++)
            open[v][l] = (vec){0};
    }
    size_t t = 0;
    for (; t + 1 < k; t++) {
        UNROLL
        for (int v = 0; v < NAME(TOPS); v++)
            NAME(move_on)(k, p + row[t] * k * TOP_FILTERS + (size_t)(v * LANES), open[v]);
    }
    for (; t < len; t++) {
        UNROLL
        for (int v = 0; v < NAME(TOPS); v++) {
            const real *const x = p + row[t] * k * TOP_FILTERS + (size_t)(v * LANES);
            const vec s = open[v][0] + *(const vec *)(x + (k - 1) * TOP_FILTERS);
            best[v] = LARGER(s, best[v]);
            NAME(move_on)(k, x, open[v]);
        }
    }
    UNROLL
    for (int v = 0; v < NAME(TOPS); v++)
        *(vec *)(top + v * LANES) = best[v];
}

TARGET static void NAME(top)(const uint32_t *row, size_t len, size_t k, const real *p, real *top)
{
    if (len < k || k < 2 || k > TOP_SLIDES + 1)
        NAME(top_windows)(row, len, k, p, top);
    else if (k == 2)
        NAME(top_slide)(row, len, 2, p, top);
    else if (k == 3)
        NAME(top_slide)(row, len, 3, p, top);
    else if (k == 4)
        NAME(top_slide)(row, len, 4, p, top);
    else
        NAME(top_slide)(row, len, 5, p, top);
}

TARGET static void NAME(top_joined)(const uint32_t *row, const top_span *span, size_t n,
                                    const uint32_t *entry, size_t k, const real *p,
                                    const real *table, real *top)
{
    vec best[NAME(TOPS)];
    for (int v = 0; v < NAME(TOPS); v++)
        best[v] = (vec){0} - (real)INFINITY;
    for (size_t s = 0; s < n; s++) {
        const uint32_t e = entry[s];
        const real *x = table + e * (size_t)TOP_FILTERS;
        if (e == NO_ENTRY) {
            NAME(top)(row + span[s].first, span[s].words, k, p, top);
            x = top;
        }
        UNROLL
        for (int v = 0; v < NAME(TOPS); v++)
            best[v] = LARGER(*(const vec *)(x + v * LANES), best[v]);
    }
    for (int v = 0; v < NAME(TOPS); v++)
        *(vec *)(top + v * LANES) = best[v];
}

/* Copy `first` of a text whose words are mixtures, and the next one where C is 2. The taps of a word are
 * mixed, then windows move on as above; a text shorter than k ends in zeros. C is a constant, and k in
 * the usual cases, where loops are unrolled unasked. */
TARGET static ALWAYS_INLINE void NAME(mixed_slide)(const mixed_words *x, const size_t k,
                                                   const size_t C, size_t first, const int v,
                                                   const real *p, real *top)
{
    vec taps[MIXED_COPIES][CONV_MOST_TAPS], open[MIXED_COPIES][CONV_MOST_TAPS], best[MIXED_COPIES];
    const real *const weight = x->weight + first * x->slots;
    for (size_t c = 0; c < C; c++) {
        best[c] = (vec){0} - (real)INFINITY;
        for (size_t l = 0; l < k; l++)
            open[c][l] = (vec){0};
    }
    for (size_t t = 0; t < x->len || t < k; t++) {
        for (size_t c = 0; c < C; c++)
            for (size_t l = 0; l < k; l++)
                taps[c][l] = (vec){0};
        for (uint32_t s = t < x->len ? x->at[t] : 0; t < x->len && s < x->at[t + 1]; s++) {
            const real *const from = p + x->row[s] * k * TOP_FILTERS + (size_t)(v * LANES);
            for (size_t l = 0; l < k; l++)
                for (size_t c = 0; c < C; c++)
                    taps[c][l] +=
                        weight[c * x->slots + s] * *(const vec *)(from + l * TOP_FILTERS);
        }
        for (size_t c = 0; c < C; c++) {
            if (t + 1 >= k)
                best[c] = LARGER(open[c][0] + taps[c][k - 1], best[c]);
            for (size_t l = 1; l < k; l++)
                open[c][l - 1] = (l + 1 < k ? open[c][l] : (vec){0}) + taps[c][k - 1 - l];
        }
    }
    for (size_t c = 0; c < C; c++)
        *(vec *)(top + (first + c) * TOP_FILTERS + (size_t)(v * LANES)) = best[c];
}

/* As many copies together as there are registers for. */
TARGET static void NAME(top_mixed)(const mixed_words *x, size_t k, const real *p, real *top)
{
#define SLIDE(k)                                                                                   \
    if (x->copies - c < NAME(TOGETHER))                                                            \
        NAME(mixed_slide)(x, k, 1, c, v, p, top);                                                  \
    else                                                                                           \
        NAME(mixed_slide)(x, k, NAME(TOGETHER), c, v, p, top)
    enum { NAME(TOGETHER) = REGISTERS / 16 };
    for (size_t c = 0; c < x->copies; c += NAME(TOGETHER))
        for (int v = 0; v < NAME(TOPS); v++) {
            if (k == 3) {
                SLIDE(3);
            } else if (k == 4) {
                SLIDE(4);
            } else if (k == 5) {
                SLIDE(5);
            } else {
                SLIDE(k);
            }
        }
#undef SLIDE
}
