/* A layer that words go through alone: rows of a pass, their gradient, and the model without it. */
#include <math.h>
#include <string.h>

#include "model/small_model.h"
#include "model/word_layer.h"

enum { CNN, UNITS = 7, WORDS = 6 };
static const uint32_t words[WORDS] = {5, 9, 5, 2, 30, 11};

static model *new_model(int kind)
{
    small_word_layer = UNITS;
    model *m = small_model(kind, 3, 4);
    small_word_layer = 0;
    CHECK_EQ(m->dim, UNITS);
    CHECK_EQ(m->raw_dim, SMALL_DIM);
    return m;
}

/* u of a word, by its definition. */
static double unit_of(const model *m, uint32_t word, size_t j)
{
    const real *a = model_value(m, m->word_layer) + j * m->raw_dim;
    double sum = (double)model_value(m, m->word_layer + 1)[j];
    for (size_t d = 0; d < m->raw_dim; d++)
        sum += (double)a[d] * (double)m->raw[word * m->raw_dim + d];
    return sum > 0 ? sum : 0;
}

static void check_table(const model *m)
{
    size_t off = 0;
    for (uint32_t w = 0; w < m->n_words; w++)
        for (size_t j = 0; j < UNITS; j++) {
            CHECK_NEAR(m->table[w * UNITS + j], unit_of(m, w, j), 1e-5);
            off += m->table[w * UNITS + j] == 0;
        }
    CHECK(off > 10 && off < m->n_words * UNITS - 10); /* both sides of the ReLU */
}

/* sum of c * rows, its gradient with respect to parameters and to the vectors of `words`. */
static double weighed(const model *m, const double *c, real *grad, real *dvectors)
{
    arena mem = {0};
    tape t;
    pass p = {.t = &t};
    learned_rows learned = {.n = 0};
    model_weights w;
    CHECK_OK(weights_init(&w, m, &host_store));
    w.learn = &learned;
    tape_init(&t, &mem, NULL, true);
    CHECK_OK(pass_params(&p, m, &w, grad));
    node *rows = pass_rows(&p, words, WORDS);
    real by[WORDS * UNITS];
    for (size_t i = 0; i < WORDS * UNITS; i++)
        by[i] = (real)c[i];
    node *y = op_sum(&t, op_mul(&t, rows, tape_numbers(&t, shape2(WORDS, UNITS), by)));
    CHECK_OK(tape_status(&t));
    CHECK_EQ(shape_cols(rows->shape), UNITS);
    for (size_t i = 0; i < WORDS * UNITS; i++)
        CHECK_NEAR(rows->value[i], unit_of(m, words[i / UNITS], i % UNITS), 1e-5);
    const double value = (double)y->value[0];
    if (dvectors) {
        CHECK_OK(tape_backward(&t, y));
        CHECK_EQ(learned.n, 1);
        CHECK(learned.part[0].n == WORDS && learned.part[0].row == words);
        memcpy(dvectors, learned.part[0].grad, WORDS * SMALL_DIM * sizeof *dvectors);
    }
    weights_deinit(&w);
    arena_deinit(&mem);
    return value;
}

TEST(rows_have_gone_through_the_layer_and_so_do_gradients)
{
    model *m = new_model(CNN);
    rng r = rng_stream(1, STREAM_TEST, 0);
    const size_t n = m->n_values, rows = m->n_words * m->raw_dim;
    real *grad = mem_zalloc(n, sizeof *grad), *to = mem_zalloc(n + rows, sizeof *to),
         dvectors[WORDS * SMALL_DIM];
    double c[WORDS * UNITS], slope = 0, size = 0;
    CHECK(grad && to);
    for (size_t i = 0; i < WORDS * UNITS; i++)
        c[i] = rng_normal(&r);
    weighed(m, c, grad, dvectors);
    for (size_t i = 0; i < n + rows; i++)
        to[i] = (real)rng_normal(&r);
    for (size_t i = 0; i < n; i++) {
        slope += (double)(grad[i] * to[i]);
        size += fabs((double)(grad[i] * to[i]));
    }
    for (size_t i = 0; i < WORDS * SMALL_DIM; i++)
        slope += (double)(dvectors[i] * to[n + words[i / SMALL_DIM] * SMALL_DIM + i % SMALL_DIM]);
    const double h = sizeof(real) == sizeof(double) ? 1e-7 : 1e-3,
                 tolerance = sizeof(real) == sizeof(double) ? 1e-6 : 2e-2;
    double side[2];
    for (int k = 0; k < 2; k++) {
        const real step = (real)(k ? 2 * h : -h);
        for (size_t i = 0; i < n; i++)
            m->value[i] += step * to[i];
        for (size_t i = 0; i < rows; i++)
            m->raw[i] += step * to[n + i];
        side[k] = weighed(m, c, NULL, NULL);
    }
    CHECK(size > 1);
    CHECK_NEAR((side[1] - side[0]) / (2 * h), slope, tolerance * size);
    mem_free(grad);
    mem_free(to);
    stet_model_free(m);
}

TEST(the_table_is_made_when_weights_are_fetched)
{
    model *m = new_model(CNN);
    check_table(m);
    model_weights w;
    CHECK_OK(weights_init(&w, m, &host_store));
    CHECK(w.table == m->raw);
    for (size_t i = 0; i < m->n_words * m->raw_dim; i++)
        m->raw[i] *= -1;
    model_value(m, m->word_layer + 1)[3] += 1;
    CHECK_OK(weights_fetch(&w, m));
    check_table(m);
    weights_deinit(&w);
    stet_model_free(m);
}

#ifndef STET_DOUBLE
/* What is saved answers alike, and has no layer. */
TEST(a_saved_model_has_its_vectors_and_no_layer)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        model *m = new_model(kind), *plain;
        CHECK_OK(stet_model_save(m, test_dir()));
        CHECK_OK(stet_model_load(test_dir(), &plain));
        CHECK_EQ(plain->dim, UNITS);
        CHECK(!plain->raw && plain->word_layer == -1);
        CHECK_EQ(plain->n_params + plain->n_added, m->n_params + m->n_added - 2);
        CHECK(memcmp(plain->table, m->table, m->n_words * UNITS * sizeof *m->table) == 0);
        CHECK_EQ(model_param_id(plain, "word_layer.weight"), -1);
        stet_identity a, b;
        CHECK_OK(stet_model_identity(m, &a));
        CHECK_OK(stet_model_identity(plain, &b));
        CHECK_STR(a.weights, b.weights);
        CHECK_STR(a.config, b.config);
        float x[3], y[3];
        CHECK_OK(model_logits_of(m, words, WORDS, x));
        CHECK_OK(model_logits_of(plain, words, WORDS, y));
        for (int k = 0; k < 3; k++)
            CHECK_NEAR(x[k], y[k], 1e-4);
        stet_model_free(m);
        stet_model_free(plain);
    }
}
#endif
