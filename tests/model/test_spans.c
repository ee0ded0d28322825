/* A recurrence in spans against the same weights on the pieces of the text, each read by itself. */
#include "model/spans.h"

#include "base/json.h"
#include "model/small_model.h"
#include "test.h"

enum { TEXTS = 6 };
static const size_t lengths[TEXTS] = {1, 4, 5, 13, 8, 32};

/* Features (n_texts, F) of texts that follow each other in `ids`, by the forward pass. */
static void features_of(const model *m, uint32_t *ids, const uint64_t *start, size_t n, double *out)
{
    const size_t F = m->desc->n_features(m);
    int32_t label[64] = {0};
    uint32_t pick[64];
    for (uint32_t i = 0; i < n; i++)
        pick[i] = i;
    const stet_corpus c = {n, start[n], m->n_classes, ids, (uint64_t *)start, label};
    arena mem = {0};
    batcher b;
    batch x;
    tape t;
    pass p;
    CHECK_OK(batcher_init(&b, m));
    CHECK_OK(batch_make(&b, m, &c, pick, n, &mem, &x));
    tape_init(&t, &mem, NULL, false);
    CHECK_OK(pass_init(&p, m, &t, NULL, NULL, &x));
    const node *f = m->desc->features(m, &p);
    CHECK_OK(tape_status(&t));
    for (size_t i = 0; i < n * F; i++)
        out[x.order[i / F] * F + i % F] = (double)f->value[i];
    batcher_deinit(&b);
    arena_deinit(&mem);
}

static bool pools_by_mean(int kind)
{
    for (const char *const *s = small_kinds[kind].settings; *s; s++)
        if (strcmp(*s, "pool=max") == 0 || strcmp(*s, "s4-pool=max") == 0)
            return false;
    return true;
}

/* Cut by hand: the largest or the mean over the pieces' features. */
static void by_pieces(const model *m, bool mean, uint32_t *ids, size_t n, size_t span, double *out)
{
    const size_t F = m->desc->n_features(m);
    uint64_t start[64] = {0};
    size_t pieces = 0;
    for (size_t p = 0; p < n; p += span)
        start[++pieces] = p + span < n ? p + span : n;
    static double f[64 * 64];
    features_of(m, ids, start, pieces, f);
    for (size_t i = 0; i < F; i++) {
        out[i] = mean ? 0 : -INFINITY;
        for (size_t k = 0; k < pieces; k++) {
            const double share = (double)(start[k + 1] - start[k]) / (double)n, y = f[k * F + i];
            out[i] = mean ? out[i] + share * y : y > out[i] ? y : out[i];
        }
    }
}

TEST(a_text_in_spans_is_its_pieces_read_by_themselves)
{
    int kinds = 0;
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        model *m = small_model(kind, 2, 5 + (uint64_t)kind);
        const size_t span = model_span(m), F = m->desc->n_features(m);
        uint32_t ids[64 * TEXTS];
        uint64_t start[TEXTS + 1] = {0};
        static double all[TEXTS * 64], pieces[64];
        rng r = rng_stream(9, STREAM_TEST, (uint64_t)kind);
        for (size_t i = 0; i < TEXTS; i++)
            start[i + 1] = start[i] + lengths[i];
        for (size_t i = 0; i < start[TEXTS]; i++)
            ids[i] = (uint32_t)(STET_UNK + rng_below(&r, SMALL_WORDS));
        if (span)
            features_of(m, ids, start, TEXTS, all);
        for (size_t i = 0; span && i < TEXTS; i++) {
            by_pieces(m, pools_by_mean(kind), ids + start[i], lengths[i], span, pieces);
            for (size_t k = 0; k < F; k++)
                CHECK_NEAR(all[i * F + k], pieces[k], 2e-6);
        }
        kinds += span > 0;
        stet_model_free(m);
    }
    CHECK_EQ(kinds, 6);
}

/* Pieces are sorted by falling length, and the way back to the texts is the inverse. */
TEST(pieces_are_sorted_and_joined)
{
    const uint32_t start[] = {0, 7, 13, 16, 17};
    uint32_t row[17];
    for (uint32_t i = 0; i < 17; i++)
        row[i] = 100 + i;
    const seq_index seq = {4, 17, 200, 7, start, row};
    arena mem = {0};
    tape t;
    tape_init(&t, &mem, NULL, false);
    const spans cut = spans_cut(&t, &seq, 3);
    CHECK_EQ(cut.seq->n_texts, 3 + 2 + 1 + 1);
    CHECK_EQ(cut.seq->max_len, 3);
    CHECK_EQ(cut.seq->start[cut.seq->n_texts], 17);
    for (size_t i = 0; i + 1 < cut.seq->n_texts; i++)
        CHECK_LE(cut.seq->start[i + 2] - cut.seq->start[i + 1],
                 cut.seq->start[i + 1] - cut.seq->start[i]);
    for (size_t i = 0; i < 17; i++)
        CHECK_EQ(cut.seq->row[cut.at[i]], 100 + i);
    const uint32_t *tokens = spans_tokens(&t, &cut, row);
    CHECK_OK(tape_status(&t));
    CHECK(memcmp(tokens, cut.seq->row, sizeof row) == 0);
    const spans whole = spans_cut(&t, &seq, 7), none = spans_cut(&t, &seq, 0);
    CHECK(whole.seq == &seq && none.seq == &seq && !whole.at && !none.at);
    arena_deinit(&mem);
}

/* A model without spans keeps the settings, and so the digest, that it had before there were any. */
TEST(no_span_leaves_no_setting)
{
    model *m = small_model(9, 2, 1);
    json_t *settings;
    CHECK_OK(model_settings(m, &settings));
    CHECK(!json_object_get(settings, "span"));
    json_decref(settings);
    stet_model_free(m);
}
