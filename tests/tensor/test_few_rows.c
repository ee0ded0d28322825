/* Gradients of which few rows are not zero: what few_rows.h finds and moves, and the products that use
 * it against plain sums in double. */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "stet/stet.h"
#include "tensor/cpu/few_rows.h"
#include "tensor/ops.h"

enum { COLS = 45, INNER = 37 }; /* more than a block of the search, and a rest */

static real *drawn(arena *mem, size_t n, rng *r)
{
    real *x = arena_new(mem, real, n);
    CHECK(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (real)(float)rng_range(r, -1, 1);
    return x;
}

/* ---- the rows themselves ------------------------------------------------------------------ */

TEST(rows_with_a_number_anywhere_are_found)
{
    arena mem = {0};
    for (size_t c = 1; c <= COLS; c += 4) {
        const size_t rows = 9;
        real *g = arena_znew(&mem, real, rows * c);
        CHECK(g);
        g[2 * c] = 1;
        g[5 * c + c - 1] = (real)-1e-30;
        g[7 * c + c / 2] = (real)NAN;
        g[8 * c] = (real)-0.0; /* is zero */
        few_rows f;
        CHECK_OK(few_rows_find(&mem, g, rows, c, &f));
        CHECK(f.few);
        CHECK_EQ(f.n, 3);
        CHECK(f.row[0] == 2 && f.row[1] == 5 && f.row[2] == 7);
    }
    arena_deinit(&mem);
}

TEST(two_thirds_of_the_rows_are_few_and_one_more_is_not)
{
    arena mem = {0};
    for (size_t rows = 0; rows <= 10; rows++)
        for (size_t live = 0; live <= rows; live++) {
            real *g = arena_znew(&mem, real, 2 * rows);
            CHECK(g);
            for (size_t i = 0; i < live; i++)
                g[2 * i + 1] = 1;
            few_rows f;
            CHECK_OK(few_rows_find(&mem, g, rows, 2, &f));
            CHECK(f.few == (3 * live <= 2 * rows));
            CHECK(!f.few || f.n == live);
        }
    arena_deinit(&mem);
}

TEST(rows_come_back_to_their_places)
{
    arena mem = {0};
    rng r = rng_stream(7, STREAM_TEST, 0);
    const size_t rows = 3000; /* several pieces */
    real *x = drawn(&mem, rows * COLS, &r), *to = drawn(&mem, rows * COLS, &r),
         *before = drawn(&mem, rows * COLS, &r);
    for (size_t i = 0; i < rows; i++)
        if (i % 5 != 3)
            memset(x + i * COLS, 0, COLS * sizeof *x);
    few_rows f;
    CHECK_OK(few_rows_find(&mem, x, rows, COLS, &f));
    CHECK_EQ(f.n, rows / 5);
    real *some = few_rows_take(&mem, &f, x, COLS);
    CHECK(some);
    CHECK(memcmp(some + COLS, x + 8 * COLS, COLS * sizeof *x) == 0);
    few_rows_put(&f, some, rows, COLS, true, to);
    CHECK(memcmp(to, x, rows * COLS * sizeof *x) == 0);
    memcpy(to, before, rows * COLS * sizeof *x);
    few_rows_put(&f, some, rows, COLS, false, to);
    for (size_t i = 0; i < rows * COLS; i++)
        CHECK(to[i] == before[i] + x[i]);
    arena_deinit(&mem);
}

/* ---- products ----------------------------------------------------------------------------- */

typedef enum kind { LINEAR, PLAIN, TRANSPOSED, KINDS } kind;

typedef struct problem {
    kind kind;
    size_t rows;
    const real *x, *w, *b,
        *dy; /* (rows, INNER), (COLS, INNER) or its transpose, (COLS), (rows, COLS) */
} problem;

typedef struct gradients {
    real *dx, *dw, *db;
} gradients;

/* Those of sum dy y. `first`: x is a result, and the product is the first to give it a gradient; else
 * gradients are added to 1. */
static gradients backward(const problem *q, bool first, arena *mem)
{
    const size_t n[] = {q->rows * INNER, COLS * INNER, COLS};
    real *to[3];
    for (int k = 0; k < 3; k++) {
        to[k] = arena_new(mem, real, n[k]);
        CHECK(to[k]);
        for (size_t i = 0; i < n[k]; i++)
            to[k][i] = first ? 0 : 1;
    }
    tape t;
    tape_init(&t, mem, NULL, true);
    node *x = tape_input(&t, shape2(q->rows, INNER), (real *)q->x, to[0]);
    node *w = tape_input(&t, q->kind == PLAIN ? shape2(INNER, COLS) : shape2(COLS, INNER),
                         (real *)q->w, to[1]);
    node *b = tape_input(&t, shape1(COLS), (real *)q->b, to[2]);
    if (first)
        x = op_scale(&t, x, 1);
    node *y = q->kind == LINEAR ? op_linear(&t, x, w, b)
                                : op_matmul(&t, x, false, w, q->kind == TRANSPOSED);
    node *dy = tape_constant(&t, shape2(q->rows, COLS), q->dy);
    CHECK_OK(tape_backward(&t, op_sum(&t, op_mul(&t, y, dy))));
    return (gradients){to[0], to[1], to[2]};
}

static void check_near(double got, double want, double size)
{
    CHECK(fabs(got - want) <= (sizeof(real) == sizeof(float) ? 1e-5 : 1e-12) * (1 + size));
}

static void check_against_sums(const problem *q, const gradients *g, double start)
{
    const size_t down = q->kind == PLAIN ? COLS : 1, across = q->kind == PLAIN ? 1 : INNER;
    for (size_t i = 0; i < q->rows; i++)
        for (size_t j = 0; j < INNER; j++) {
            double sum = start;
            for (size_t c = 0; c < COLS; c++)
                sum += (double)q->dy[i * COLS + c] * (double)q->w[c * across + j * down];
            check_near((double)g->dx[i * INNER + j], sum, COLS);
        }
    for (size_t c = 0; c < COLS; c++)
        for (size_t j = 0; j < INNER; j++) {
            double sum = start;
            for (size_t i = 0; i < q->rows; i++)
                sum += (double)q->dy[i * COLS + c] * (double)q->x[i * INNER + j];
            check_near((double)g->dw[c * across + j * down], sum, (double)q->rows);
        }
    for (size_t c = 0; q->kind == LINEAR && c < COLS; c++) {
        double sum = start;
        for (size_t i = 0; i < q->rows; i++)
            sum += (double)q->dy[i * COLS + c];
        check_near((double)g->db[c], sum, (double)q->rows);
    }
}

/* Every `step`-th row counts, from `first` on; step 0: none. */
static void check_rows(size_t rows, size_t first, size_t step)
{
    arena mem = {0};
    rng r = rng_stream(8, STREAM_TEST, rows * 100 + step);
    real *dy = drawn(&mem, rows * COLS, &r);
    for (size_t i = 0; i < rows; i++)
        if (step == 0 || i % step != first)
            memset(dy + i * COLS, 0, COLS * sizeof *dy);
    for (kind k = LINEAR; k < KINDS; k++) {
        const problem q = {k,
                           rows,
                           drawn(&mem, rows * INNER, &r),
                           drawn(&mem, COLS * INNER, &r),
                           drawn(&mem, COLS, &r),
                           dy};
        for (int fresh = 0; fresh < 2; fresh++) {
            const gradients g = backward(&q, fresh, &mem);
            check_against_sums(&q, &g, fresh ? 0 : 1);
        }
    }
    arena_deinit(&mem);
}

TEST(products_of_few_rows_are_those_of_all)
{
    check_rows(200, 0, 0);   /* none */
    check_rows(200, 0, 200); /* the first */
    check_rows(200, 199, 200);
    check_rows(200, 1, 3);
    check_rows(201, 2, 2); /* not quite half */
    check_rows(200, 0, 1); /* all: the usual way */
    check_rows(1, 0, 0);
    check_rows(1, 0, 1);
    check_rows(0, 0, 1);
}

TEST(threads_do_not_change_the_bits)
{
    arena mem = {0};
    rng r = rng_stream(9, STREAM_TEST, 0);
    const size_t rows = 20000;
    real *dy = drawn(&mem, rows * COLS, &r);
    for (size_t i = 0; i < rows; i++)
        if (rng_below(&r, 3) != 0)
            memset(dy + i * COLS, 0, COLS * sizeof *dy);
    const problem q = {LINEAR,
                       rows,
                       drawn(&mem, rows * INNER, &r),
                       drawn(&mem, COLS * INNER, &r),
                       drawn(&mem, COLS, &r),
                       dy};
    stet_set_threads(1);
    const gradients one = backward(&q, true, &mem);
    stet_set_threads(3);
    const gradients three = backward(&q, true, &mem);
    stet_set_threads(0);
    CHECK(memcmp(one.dx, three.dx, rows * INNER * sizeof *one.dx) == 0);
    CHECK(memcmp(one.dw, three.dw, COLS * INNER * sizeof *one.dw) == 0);
    CHECK(memcmp(one.db, three.db, COLS * sizeof *one.db) == 0);
    arena_deinit(&mem);
}
