/* tests/lexicon/test_nearest.c - nearest neighbours equal brute force in double, whatever the table
 * looks like. */
#include <float.h>

#include "alloc_fail.h"
#include "base/rng.h"
#include "lexicon/nearest.h"
#include "subst_test.h"

/* ---- the reference ------------------------------------------------------------------------ */

typedef struct found {
    double value;
    uint32_t id;
} found;

static bool nearer(stet_metric metric, found a, found b)
{
    if (a.value != b.value)
        return metric == STET_COS ? a.value > b.value : a.value < b.value;
    return a.id < b.id;
}

static double reference_value(stet_metric metric, const float *a, const float *b, size_t dim)
{
    double dot = 0, aa = 0, bb = 0, squares = 0;
    for (size_t c = 0; c < dim; c++) {
        const double x = a[c], y = b[c];
        squares += (x - y) * (x - y);
        dot += x * y;
        aa += x * x;
        bb += y * y;
    }
    if (metric != STET_COS)
        return squares;
    return aa > 0 && bb > 0 ? dot / (sqrt(aa) * sqrt(bb)) : 0;
}

static bool within(const nearest_options *how, double value)
{
    const double v = how->metric == STET_L2 ? sqrt(value) : value;
    if (how->metric == STET_COS)
        return how->strict ? v > how->threshold : v >= how->threshold;
    return how->strict ? v < how->threshold : v <= how->threshold;
}

/* The k nearest of row i by looking at every other row. */
static size_t brute_force(const float *x, size_t n, size_t dim, size_t i,
                          const nearest_options *how, found *best)
{
    size_t m = 0;
    for (uint32_t j = 0; j < n; j++) {
        found f = {0, j};
        if (j != i)
            f.value = reference_value(how->metric, x + i * dim, x + (size_t)j * dim, dim);
        if (j == i || !within(how, f.value) ||
            (m == how->k && !nearer(how->metric, f, best[m - 1])))
            continue;
        size_t p = m < how->k ? m++ : m - 1;
        for (; p > 0 && nearer(how->metric, f, best[p - 1]); p--)
            best[p] = best[p - 1];
        best[p] = f;
    }
    return m;
}

/* Compare row `step` by `step`. */
static void check_exact(const float *x, size_t n, size_t dim, nearest_options how, size_t step)
{
    uint32_t *ids = mem_alloc(n, how.k * sizeof *ids);
    double *value = mem_alloc(n, how.k * sizeof *value);
    found *best = mem_alloc(how.k, sizeof *best);
    CHECK_OK(nearest_find(x, n, dim, &how, ids, value));
    for (size_t i = 0; i < n; i += step) {
        const size_t m = brute_force(x, n, dim, i, &how, best);
        for (size_t j = 0; j < how.k; j++) {
            const uint32_t expected = j < m ? best[j].id : NEAREST_NONE;
            if (ids[i * how.k + j] != expected)
                test_fail(__FILE__, __LINE__, "row %zu, neighbour %zu: %u against %u (metric %d)",
                          i, j, ids[i * how.k + j], expected, (int)how.metric);
            if (j < m)
                CHECK_NEAR(value[i * how.k + j], best[j].value, 0);
        }
    }
    mem_free(ids);
    mem_free(value);
    mem_free(best);
}

static float *random_table(size_t n, size_t dim, double scale)
{
    float *x = mem_alloc(n, dim * sizeof *x);
    rng r = rng_stream(5, STREAM_TEST, n);
    for (size_t i = 0; i < n * dim; i++)
        x[i] = (float)(scale * rng_normal(&r));
    return x;
}

/* ---- tests -------------------------------------------------------------------------------- */

TEST(every_metric_equals_brute_force)
{
    const size_t n = 1300, dim = 37; /* three blocks, the last one not full */
    float *x = random_table(n, dim, 1);
    check_exact(x, n, dim, (nearest_options){8, STET_L2, INFINITY, false}, 1);
    check_exact(x, n, dim, (nearest_options){8, STET_L2SQ, INFINITY, true}, 3);
    check_exact(x, n, dim, (nearest_options){8, STET_COS, -INFINITY, false}, 1);
    check_exact(x, n, dim, (nearest_options){1, STET_L2, INFINITY, false}, 3);
    check_exact(x, n, dim, (nearest_options){100, STET_COS, -INFINITY, false}, 9);
    mem_free(x);
}

TEST(any_number_of_rows_equals_brute_force)
{
    static const size_t sizes[] = {1, 2, 5, 63, 511, 512, 513, 1024, 1025, 2200};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        float *x = random_table(sizes[i], 5, 1);
        check_exact(x, sizes[i], 5, (nearest_options){6, STET_L2, INFINITY, false}, 7);
        mem_free(x);
    }
}

TEST(thresholds_cut_exactly)
{
    const size_t n = 700, dim = 4;
    float *x = random_table(n, dim, 1);
    for (int strict = 0; strict < 2; strict++) {
        check_exact(x, n, dim, (nearest_options){9, STET_L2, 0.5, strict}, 1);
        check_exact(x, n, dim, (nearest_options){9, STET_L2SQ, 0.3, strict}, 1);
        check_exact(x, n, dim, (nearest_options){9, STET_COS, 0.99, strict}, 1);
        check_exact(x, n, dim, (nearest_options){9, STET_L2, -1, strict}, 50);
        check_exact(x, n, dim, (nearest_options){9, STET_COS, 2, strict}, 50);
    }
    mem_free(x);
}

TEST(a_strict_threshold_leaves_out_its_own_value)
{
    const float x[] = {0, 1, 2, 4};
    uint32_t ids[4];
    nearest_options how = {1, STET_L2, 1, false};
    CHECK_OK(nearest_find(x, 4, 1, &how, ids, NULL));
    CHECK_EQ(ids[0], 1);
    CHECK_EQ(ids[1], 0); /* 0 and 2 are equally near: the smaller row */
    CHECK_EQ(ids[3], NEAREST_NONE);
    how.strict = true;
    CHECK_OK(nearest_find(x, 4, 1, &how, ids, NULL));
    CHECK_EQ(ids[0], NEAREST_NONE);
    how = (nearest_options){1, STET_L2SQ, 4, false};
    CHECK_OK(nearest_find(x, 4, 1, &how, ids, NULL));
    CHECK_EQ(ids[3], 2);
}

/* Neighbours that float products cannot tell apart: tiny differences on top of long vectors. */
TEST(differences_below_float_rounding_are_told_apart)
{
    const size_t n = 1500, dim = 50;
    float *x = random_table(n, dim, 1e-6);
    for (size_t i = 0; i < n * dim; i++)
        x[i] += 1;
    check_exact(x, n, dim, (nearest_options){8, STET_L2, INFINITY, false}, 11);
    check_exact(x, n, dim, (nearest_options){8, STET_COS, -INFINITY, false}, 11);
    mem_free(x);
}

TEST(equal_rows_come_in_the_order_of_their_numbers)
{
    const size_t n = 1500, dim = 3;
    float *x = random_table(n, dim, 1);
    for (size_t i = 0; i < n; i++)
        memcpy(x + i * dim, x + i % 4 * dim, dim * sizeof *x); /* four distinct rows */
    check_exact(x, n, dim, (nearest_options){5, STET_L2, INFINITY, false}, 1);
    check_exact(x, n, dim, (nearest_options){5, STET_COS, -INFINITY, false}, 1);
    memset(x, 0, n * dim * sizeof *x);
    check_exact(x, n, dim, (nearest_options){5, STET_L2, INFINITY, false}, 1);
    check_exact(x, n, dim, (nearest_options){5, STET_COS, -INFINITY, false}, 1);
    mem_free(x);
}

TEST(rows_of_any_length_are_compared_without_overflow)
{
    const size_t n = 600, dim = 8;
    static const double scales[] = {1e-40, 1e-30, 1e18, 1e36};
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
        float *x = random_table(n, dim, scales[s]);
        check_exact(x, n, dim, (nearest_options){4, STET_L2, INFINITY, false}, 7);
        check_exact(x, n, dim, (nearest_options){4, STET_COS, -INFINITY, false}, 7);
        for (size_t c = 0; c < dim; c++)
            x[c] = 1e37f; /* one long row makes all others short */
        check_exact(x, n, dim, (nearest_options){4, STET_L2, INFINITY, false}, 7);
        mem_free(x);
    }
}

TEST(the_result_does_not_depend_on_the_number_of_threads)
{
    const size_t n = 2000, dim = 20, k = 5;
    float *x = random_table(n, dim, 1);
    uint32_t *ids[2] = {mem_alloc(n * k, 4), mem_alloc(n * k, 4)};
    const nearest_options how = {k, STET_L2, INFINITY, false};
    for (int t = 0; t < 2; t++) {
        stet_set_threads(t == 0 ? 1 : 3);
        CHECK_OK(nearest_find(x, n, dim, &how, ids[t], NULL));
    }
    CHECK(memcmp(ids[0], ids[1], n * k * 4) == 0);
    mem_free(ids[0]);
    mem_free(ids[1]);
    mem_free(x);
}

TEST(what_is_no_number_is_refused)
{
    float x[] = {0, 1, INFINITY, 2};
    uint32_t ids[4];
    nearest_options how = {1, STET_L2, 1, false};
    CHECK_FAILS(nearest_find(x, 4, 1, &how, ids, NULL), STET_EUSAGE, "vector 2 is not finite");
    x[2] = NAN;
    CHECK_FAILS(nearest_find(x, 4, 1, &how, ids, NULL), STET_EUSAGE, "vector 2 is not finite");
    how.threshold = NAN;
    x[2] = 0;
    CHECK_FAILS(nearest_find(x, 4, 1, &how, ids, NULL), STET_EUSAGE, "not a number");
}

static stet_status find_some(void *x)
{
    uint32_t ids[20];
    const nearest_options how = {2, STET_L2, INFINITY, false};
    return nearest_find(x, 10, 3, &how, ids, NULL);
}

TEST(nearest_neighbours_survive_every_failed_allocation)
{
    float *x = random_table(10, 3, 1);
    CHECK_LE(5, ALLOC_FAIL_LOOP(find_some, x));
    mem_free(x);
}

/* ---- as a source -------------------------------------------------------------------------- */

TEST(words_without_vectors_are_nobodys_neighbours)
{
    const char *const words[] = {"zero", "one", "none", "two", "nine"};
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, 5, &v));
    float data[] = {0, 0, 0, 1, 1.5f, 2, 9};
    unsigned char known[] = {0, 0, 1, 1, 0, 1, 1};
    const stet_vectors t = {.n = 7, .dim = 1, .data = data, .known = known, .n_known = 4};
    stet_subst_builder *b = builder_of(NULL);
    CHECK_OK(stet_subst_add_nearest(b, &t, v, 2, STET_L2, 2, false));
    stet_subst *s = built(b);
    CHECK_LIST(s, "zero", "one two");
    CHECK_LIST(s, "one", "zero two");
    CHECK_LIST(s, "two", "one zero");
    CHECK_EQ(stet_subst_word_id(s, "nine", 4), UINT32_MAX);
    stet_subst_free(s);
    stet_vocab_free(v);
}

/* The whole GloVe table against brute force on a sample of rows. */
TEST(neighbours_of_glove_equal_brute_force)
{
    const char *path = test_data("glove/glove.6B.300d.core.txt.xz");
    stet_vocab *v;
    stet_vectors t;
    CHECK_OK(stet_vectors_load_all(&path, 1, &v, &t));
    CHECK_LE(65000, t.n);
    const float *x = t.data + STET_FIRST_WORD * t.dim;
    check_exact(x, 65000, t.dim, (nearest_options){8, STET_L2, INFINITY, false}, 997);
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
}
