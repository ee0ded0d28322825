/* Filters that state spaces make: they are S4's recurrence over a window, and parameters like others to
 * all but training. */
#include "model/s4.h"
#include "model/small_model.h"

enum { S4CNN = SMALL_KINDS - 4, FILTERS = 5, RANK = 2, KERNELS = 2, PER_MAKER = S4_D + 2 };
static const size_t width[KERNELS] = {2, 5};

static model *new_model(void)
{
    CHECK(small_kinds[S4CNN].settings == small_s4cnn);
    return small_model(S4CNN, 2, 7);
}

/* A text of one window: y of S4's layer after its last word, by channel. */
static void state_spaces(const model *m, size_t kernel, const uint32_t *ids, real *out)
{
    const size_t n = width[kernel], H = FILTERS * RANK;
    const int at = 2 * KERNELS + (int)kernel * PER_MAKER;
    uint32_t start[2] = {0, (uint32_t)n}, row[8];
    real rows[8 * SMALL_DIM];
    for (size_t i = 0; i < n; i++) {
        row[i] = (uint32_t)i;
        memcpy(rows + i * m->dim, m->table + ids[i] * m->dim, m->dim * sizeof *rows);
    }
    const seq_index seq = {1, n, n, n, start, row};
    arena mem = {0};
    tape t;
    node *w[PER_MAKER];
    tape_init(&t, &mem, NULL, false);
    for (int i = 0; i < PER_MAKER; i++)
        w[i] = tape_constant(&t, m->params[at + i].shape, model_value(m, at + i));
    node *u = op_matmul(&t, tape_numbers(&t, shape2(n, m->dim), rows), false, w[S4_D + 1], true);
    node *k = op_s4_kernel(&t, w[S4_A], w[S4_W], w[S4_P], w[S4_B], w[S4_C], w[S4_LOG_DT], n);
    const node *y = op_s4_conv(&t, u, k, w[S4_D], &seq);
    CHECK_OK(tape_status(&t));
    memcpy(out, y->value + (n - 1) * H, H * sizeof *out);
    arena_deinit(&mem);
}

TEST(a_filter_is_the_sum_of_its_state_spaces_over_a_window)
{
    model *m = new_model();
    rng r = rng_stream(1, STREAM_TEST, 0);
    for (size_t kernel = 0; kernel < KERNELS; kernel++)
        for (int turn = 0; turn < 20; turn++) {
            const size_t k = width[kernel];
            uint32_t ids[8];
            real y[FILTERS * RANK];
            for (size_t i = 0; i < k; i++)
                ids[i] = (uint32_t)rng_below(&r, m->n_words);
            state_spaces(m, kernel, ids, y);
            const real *w = model_value(m, (int)(2 * kernel));
            for (size_t f = 0; f < FILTERS; f++) {
                double by_states = 0, by_filter = 0;
                for (size_t h = f * RANK; h < (f + 1) * RANK; h++)
                    by_states += (double)y[h];
                for (size_t l = 0; l < k; l++)
                    for (size_t d = 0; d < m->dim; d++)
                        by_filter += (double)w[(f * m->dim + d) * k + l] *
                                     (double)m->table[ids[l] * m->dim + d];
                CHECK_NEAR(by_filter, by_states, 1e-4);
            }
        }
    stet_model_free(m);
}

/* A pass with gradients makes the filters; one without reads those that are there. */
TEST(only_training_makes_filters)
{
    model *m = new_model();
    real *grad = mem_zalloc(m->n_values, sizeof *grad);
    CHECK(grad);
    for (int with = 0; with < 2; with++) {
        arena mem = {0};
        tape t;
        node **params;
        tape_init(&t, &mem, NULL, with);
        CHECK_OK(model_nodes(m, &t, with ? grad : NULL, &params));
        for (size_t i = 0; i < m->n_params; i++)
            CHECK((params[i]->op != NULL) == (with && m->params[i].frozen));
        for (size_t k = 0; with && k < KERNELS; k++)
            CHECK(memcmp(params[2 * k]->value, model_value(m, (int)(2 * k)),
                         shape_count(params[2 * k]->shape) * sizeof(real)) == 0);
        arena_deinit(&mem);
    }
    mem_free(grad);
    stet_model_free(m);
}

TEST(an_odd_state_is_refused)
{
    const char *const settings[] = {"state=5", NULL};
    model *m;
    CHECK_FAILS(model_alloc(model_find("s4cnn"), settings, NULL, 4, 2, &m), STET_EUSAGE,
                "--state 5: expected an even number");
}
