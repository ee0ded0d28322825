/* Ranges of an LSTM over a text so long that gradients fade on the way back. */
#include "base/mem.h"
#include "base/rng.h"
#include "bound/lstm_ranges.h"
#include "test.h"

enum { WORDS = 1500, ALL = 2 * WORDS, D = 4, H = 8, WEIGHTS = 8 };

static real *normals(arena *mem, rng *r, size_t n, double spread)
{
    real *x = arena_new(mem, real, n);
    CHECK(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (real)(float)(spread * rng_normal(r));
    return x;
}

/* One text of words of its own, each with one substitute. Denormal numbers on the way back take some
 * processors three times as long. */
TEST(a_gradient_that_has_faded_is_zero)
{
    static uint32_t start[ALL + 1], word[WORDS], slot[ALL], id[WORDS];
    static const uint32_t text_start[] = {0, WORDS};
    arena mem = {0};
    tape t;
    batch_sets sets;
    rng r = rng_stream(11, STREAM_TEST, 0);
    for (uint32_t i = 0; i < WORDS; i++) {
        id[i] = start[i] = i;
        word[i] = WORDS + i;
    }
    for (size_t i = WORDS; i <= ALL; i++)
        start[i] = WORDS;
    const batch b = {.seq = {1, WORDS, WORDS, WORDS, text_start, id}, .word = id};
    tape_init(&t, &mem, NULL, true);
    const pass p = {.t = &t,
                    .table = tape_constant(&t, shape2(ALL, D), normals(&mem, &r, ALL * D, 1))};
    CHECK_OK(batch_sets_make(&(word_sets){ALL, start, word}, &p, &b, slot, &sets));
    real *grad = arena_znew(&mem, real, ALL * D);
    CHECK(grad);
    sets.rows = tape_input(&t, shape2(ALL, D), sets.rows->value, grad);
    node *w[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) {
        const shape s[] = {shape2(4 * H, D), shape2(4 * H, H), shape1(4 * H), shape1(4 * H)};
        w[i] = tape_constant(&t, s[i % 4], normals(&mem, &r, shape_count(s[i % 4]), 0.25));
    }
    node *ends = op_bilstm_ranges(&t, &sets, w, 1);
    CHECK_OK(tape_backward(&t, op_sum(&t, ends)));
    size_t zeros = 0;
    for (size_t i = 0; i < ALL * D; i++) {
        zeros += grad[i] == 0;
        CHECK(fpclassify(grad[i]) != FP_SUBNORMAL);
    }
    CHECK_LE(WORDS, zeros);
    CHECK(grad[0] != 0 && grad[WORDS * D - 1] != 0); /* where the directions end */
    arena_deinit(&mem);
}
