/* Boxes: of words and of states. */
#include "bound/hulls.h"
#include "bound/lstm_boxes.h"

#include "bound/gbm_lstm_ops.h"
#include "model/bilstm.h"
#include "model/small_model.h"
#include "test.h"

enum { KIND = 1, H = 7, N = 20 };

/* ---- states ------------------------------------------------------------------------------- */

typedef struct text {
    uint32_t index[N];
    real rows[(SMALL_WORDS + STET_FIRST_WORD) * SMALL_DIM];
    real h[(N + 1) * H], c[(N + 1) * H];
} text;

static void random_text(const model *m, text *x, rng *r)
{
    for (size_t i = 0; i < m->n_words * m->dim; i++)
        x->rows[i] = m->table[i];
    for (size_t i = 0; i < N; i++)
        x->index[i] = (uint32_t)(STET_UNK + rng_below(r, SMALL_WORDS + 1));
}

TEST(reading_a_text_gives_the_states_of_the_model)
{
    static text x;
    rng r = rng_stream(31, STREAM_TEST, 0);
    model *m = small_model(KIND, 2, 1);
    random_text(m, &x, &r);
    arena mem = {0};
    tape t;
    node **params;
    const uint32_t start[2] = {0, N};
    const seq_index seq = {1, N, m->n_words, N, start, x.index};
    tape_init(&t, &mem, NULL, false);
    CHECK_OK(model_nodes(m, &t, NULL, &params));
    pass p = {.t = &t,
              .param = params,
              .rows = tape_constant(&t, shape2(m->n_words, m->dim), x.rows),
              .seq = &seq};
    const node *y = m->desc->features(m, &p);
    CHECK_OK(tape_status(&t));
    for (int d = 0; d < 2; d++) {
        const lstm_weights w = gbm_lstm_weights(m, d);
        CHECK_OK(lstm_read(&w, x.rows, x.index, N, d == 1, &mem, x.h, x.c));
        for (size_t i = 0; i < H; i++) {
            CHECK_NEAR(x.h[N * H + i], y->value[(size_t)d * H + i], 1e-5);
            CHECK(x.h[i] == 0 && x.c[i] == 0);
        }
    }
    arena_deinit(&mem);
    stet_model_free(m);
}

static void own_box(state_box *b, real ends[4][H])
{
    *b = (state_box){ends[0], ends[1], ends[2], ends[3]};
}

TEST(observed_boxes_hold_what_was_seen_and_forget_slowly)
{
    real ends[4][H] = {{0}}, h[2 * H], c[2 * H];
    state_box b;
    own_box(&b, ends);
    for (size_t i = 0; i < 2 * H; i++) {
        h[i] = (real)i / 100;
        c[i] = -(real)i;
    }
    box_observe(&b, H, h, c, 2, 0.01, true);
    for (size_t i = 0; i < H; i++)
        CHECK(b.h_lo[i] == h[i] && b.h_hi[i] == h[H + i] && b.c_lo[i] == c[H + i] &&
              b.c_hi[i] == c[i]);
    const real width = b.c_hi[0] - b.c_lo[0];
    box_observe(&b, H, h, c, 1, 0.01, false); /* the second state is not seen again */
    CHECK(b.h_lo[0] == h[0] && b.c_hi[0] == c[0]);
    CHECK_NEAR(b.c_lo[0], (double)c[H] + 0.01 * (double)width, 1e-5);
    box_observe(&b, H, h, c, 2, 0.01, false);
    CHECK(b.c_lo[0] == c[H]);
}

TEST(local_boxes_stay_within_what_h_can_be)
{
    real ends[4][H];
    const real h[H] = {0, 0.99f, -0.99f, 0.5f}, c[H] = {0, 3};
    state_box b;
    own_box(&b, ends);
    box_around(&b, H, h, c, 0.05);
    CHECK_NEAR(b.h_lo[0], -0.05, 1e-6);
    CHECK(b.h_hi[1] == 1 && b.h_lo[2] == -1);
    CHECK_NEAR(b.c_hi[1], 3.05, 1e-6);
}

/* Texts of random vectors from the box, corners among them, and every state is inside. */
TEST(no_text_leaves_the_invariant)
{
    static text x;
    real ends[4][H];
    state_box b;
    own_box(&b, ends);
    double used = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        rng r = rng_stream(32, STREAM_TEST, seed);
        model *m = small_model(KIND, 2, seed);
        for (size_t i = 0; i < m->n_values; i++)
            m->value[i] *= (real)rng_range(&r, 0.5, 4);
        real v[2][SMALL_DIM];
        for (size_t i = 0; i < SMALL_DIM; i++) {
            const double at = rng_normal(&r), half = rng_double(&r);
            v[0][i] = (real)(at - half), v[1][i] = (real)(at + half);
        }
        arena mem = {0};
        const lstm_weights w = gbm_lstm_weights(m, (int)(seed % 2));
        CHECK_OK(box_invariant(&w, v[0], v[1], N, &mem, &b));
        for (int trial = 0; trial < 50; trial++) {
            for (size_t t = 0; t < N; t++) {
                x.index[t] = (uint32_t)t;
                for (size_t i = 0; i < SMALL_DIM; i++) {
                    const real at = (real)(trial % 2 ? (double)rng_below(&r, 2) : rng_double(&r));
                    x.rows[t * SMALL_DIM + i] = v[0][i] + (v[1][i] - v[0][i]) * at;
                }
            }
            CHECK_OK(lstm_read(&w, x.rows, x.index, N, false, &mem, x.h, x.c));
            for (size_t k = 0; k < (N + 1) * H; k++) {
                const size_t i = k % H;
                CHECK_LE((double)b.h_lo[i] - 1e-5, x.h[k]);
                CHECK_LE(x.h[k], (double)b.h_hi[i] + 1e-5);
                CHECK_LE((double)b.c_lo[i] * (1 + 1e-5) - 1e-5, x.c[k]);
                CHECK_LE(x.c[k], (double)b.c_hi[i] * (1 + 1e-5) + 1e-5);
                used =
                    fmax(used, fabs((double)x.c[k]) / fmax((double)b.c_hi[i], (double)-b.c_lo[i]));
            }
        }
        arena_deinit(&mem);
        stet_model_free(m);
    }
    fprintf(stderr, "  largest |c| / invariant %.2f\n", used);
    CHECK_LE(0.2, used); /* not so wide that it would hide a mistake */
}

/* ---- words -------------------------------------------------------------------------------- */

static stet_subst *small_subst(void)
{
    static const char *const a[] = {"w3", "w9", "nowhere"}, *const b[] = {"w1"},
                             *const c[] = {"w2"};
    stet_subst_builder *builder;
    stet_subst *s;
    CHECK_OK(stet_subst_builder_new(&builder));
    CHECK_OK(stet_subst_add_list(builder, "w1", a, 3));
    CHECK_OK(stet_subst_add_list(builder, "w3", b, 1));
    CHECK_OK(stet_subst_add_list(builder, "elsewhere", c, 1));
    CHECK_OK(stet_subst_build(builder, &s));
    stet_subst_builder_free(builder);
    return s;
}

TEST(hulls_hold_a_word_and_its_substitutes)
{
    model *m = small_model(KIND, 2, 2);
    stet_subst *s = small_subst();
    word_sets sets;
    CHECK_OK(word_sets_make(s, m->vocab, &sets));
    const uint32_t w1 = STET_FIRST_WORD + 1,
                   others[] = {STET_FIRST_WORD + 3, STET_FIRST_WORD + 9, STET_UNK};
    CHECK_EQ(sets.start[w1 + 1] - sets.start[w1], 3);
    for (int k = 0; k < 3; k++)
        CHECK_EQ(sets.word[sets.start[w1] + (uint32_t)k],
                 others[k]); /* what has no vector is read as <unk> */
    CHECK_EQ(sets.start[m->n_words], 4);

    real lo[SMALL_DIM], hi[SMALL_DIM], all_lo[SMALL_DIM], all_hi[SMALL_DIM], eta[SMALL_DIM];
    word_hull(&sets, m, w1, lo, hi);
    table_hull(m, all_lo, all_hi);
    mean_deviation(&sets, m, eta);
    for (size_t j = 0; j < SMALL_DIM; j++) {
        const real *t = m->table + j;
        double least = t[w1 * SMALL_DIM], most = least, far = 0;
        for (int k = 0; k < 3; k++) {
            least = fmin(least, t[others[k] * SMALL_DIM]);
            most = fmax(most, t[others[k] * SMALL_DIM]);
            far = fmax(far, fabs((double)t[others[k] * SMALL_DIM] - (double)t[w1 * SMALL_DIM]));
        }
        CHECK_NEAR(lo[j], least, 0);
        CHECK_NEAR(hi[j], most, 0);
        CHECK(all_lo[j] <= lo[j] && hi[j] <= all_hi[j]);
        const double back = fabs((double)t[(w1 + 2) * SMALL_DIM] - (double)t[w1 * SMALL_DIM]);
        CHECK_NEAR(eta[j], (far + back) / 2, 1e-6);
    }
    word_hull(&sets, m, STET_FIRST_WORD, lo, hi); /* w0 has none */
    for (size_t j = 0; j < SMALL_DIM; j++)
        CHECK(lo[j] == hi[j]);
    word_sets_deinit(&sets);
    stet_subst_free(s);
    stet_model_free(m);
}
