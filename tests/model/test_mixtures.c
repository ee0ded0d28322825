/* Texts of a compiled model whose words are mixtures: the answers of the forward pass on mixed
 * vectors, and the same bits in any company. */
#include "model/mixed_reference.h"
#include "model/small_model.h"

enum { TEXTS = 12, COPIES = 11, K = 3, WORDS = TEXTS * SMALL_MAX_LEN, SLOTS = 5 * WORDS };

/* cnn: plain, with a dense layer, wide; bilstm: last, largest, mean state, and the latter two in spans */
static const int kinds[] = {0, 21, 23, 1, 9, 10, 14, 15};
enum { KINDS = sizeof kinds / sizeof *kinds };

static uint64_t start[TEXTS + 1], seed[TEXTS];
static uint32_t slot_at[WORDS + 1], slot[SLOTS];
static real weight[COPIES * SLOTS];
static const mixed_texts all = {TEXTS, COPIES, 1, start, slot_at, slot, seed};

/* Mixtures of up to five words, in texts of all lengths, the longest neither first nor last. */
static void make_texts(void)
{
    rng r = rng_stream(6, STREAM_TEST, 4);
    for (size_t i = 0, w = 0; i < TEXTS; i++) {
        seed[i] = 100 + i;
        for (size_t n = i < 8 ? i + 1 : SMALL_MAX_LEN - 3 * (i - 8); n > 0; n--, w++) {
            slot_at[w + 1] = slot_at[w] + 1 + (uint32_t)(rng_below(&r, 2) * rng_below(&r, 5));
            for (uint32_t s = slot_at[w]; s < slot_at[w + 1]; s++)
                slot[s] = STET_FIRST_WORD + (uint32_t)rng_below(&r, SMALL_WORDS);
        }
        start[i + 1] = w;
    }
    for (size_t i = 0; i < TEXTS; i++)
        for (size_t copy = 0; copy < COPIES; copy++)
            for (size_t w = start[i]; w < start[i + 1]; w++) {
                double eta[5];
                const size_t n = slot_at[w + 1] - slot_at[w];
                reference_weights(seed[i], copy, w - start[i], n, 1, eta);
                for (size_t s = 0; s < n; s++)
                    weight[copy * slot_at[start[TEXTS]] + slot_at[w] + s] = (real)eta[s];
            }
}

/* The network alone answers: words have no scores. */
static model *compiled_model(int kind)
{
    model *m = small_model(kind, K, 5);
    for (size_t i = 0; m->scores >= 0 && i < m->n_words * K; i++)
        model_value(m, m->scores)[i] = 0;
    CHECK_OK(stet_model_compile(m));
    return m;
}

TEST(mixtures_are_those_of_vectors)
{
    static float here[TEXTS * COPIES * K], there[TEXTS * COPIES * K];
    make_texts();
    for (size_t k = 0; k < KINDS; k++) {
        model *m = compiled_model(kinds[k]);
        reference_mixtures(m, &all, there);
        CHECK_OK(m->desc->mixtures(m, &all, weight, here));
        for (size_t i = 0; i < TEXTS * COPIES * K; i++)
            CHECK_NEAR(here[i], there[i], 1e-5);
        stet_model_free(m);
    }
}

/* Text i alone, its slots numbered anew. */
static void ask_alone(const model *m, size_t i, float *logits)
{
    static uint32_t own_at[WORDS + 1];
    static real own_weight[COPIES * SLOTS];
    const uint32_t first = slot_at[start[i]], slots = slot_at[start[i + 1]] - first,
                   before = slot_at[start[TEXTS]];
    const uint64_t own_start[] = {0, start[i + 1] - start[i]};
    for (size_t w = 0; w <= own_start[1]; w++)
        own_at[w] = slot_at[start[i] + w] - first;
    for (size_t copy = 0; copy < COPIES; copy++)
        memcpy(own_weight + copy * slots, weight + copy * before + first, slots * sizeof *weight);
    const mixed_texts one = {1, COPIES, 1, own_start, own_at, slot + first, seed + i};
    CHECK_OK(m->desc->mixtures(m, &one, own_weight, logits));
}

TEST(a_text_has_the_same_bits_in_any_company)
{
    static float together[TEXTS * COPIES * K], alone[COPIES * K];
    make_texts();
    for (size_t k = 0; k < KINDS; k++) {
        model *m = compiled_model(kinds[k]);
        CHECK_OK(m->desc->mixtures(m, &all, weight, together));
        for (size_t i = 0; i < TEXTS; i++) {
            ask_alone(m, i, alone);
            CHECK(memcmp(alone, together + i * COPIES * K, sizeof alone) == 0);
        }
        const mixed_texts none = {0, COPIES, 1, start, slot_at, slot, seed};
        CHECK_OK(m->desc->mixtures(m, &none, weight, alone));
        stet_model_free(m);
    }
}
