/* Bounds over substitution sets: sound by enumeration and sampling, exact where they claim it,
 * gradients by finite differences. */
#include "bound/worst_case.h"

#include "base/pool.h"
#include "model/small_model.h"
#include "model/word_scores.h"
#include "test.h"

enum { TEXTS = 5, ALTS = 3, N_WORDS = SMALL_WORDS + STET_FIRST_WORD };

/* Models and bounds. */
static const struct {
    int kind;
    bool joint;
    const char *name;
} cases[] = {{0, false, "cnn, ibp"},
             {0, true, "cnn, joint"},
             {1, false, "bilstm, ibp"},
             {2, false, "s4"},
             {3, false, "s4 of two layers"},
             {4, false, "cnn with scores, ibp"},
             {4, true, "cnn with scores, joint"},
             {5, false, "bilstm with scores"},
             {6, false, "s4 with scores"},
             {7, false, "sum"},
             {8, false, "sum with a network"},
             {9, false, "bilstm, largest states"},
             {10, false, "bilstm with scores, mean states"},
             {11, false, "s4, relu, largest"},
             {12, false, "s4 of two layers with scores, relu"},
             {13, false, "s4, largest"},
             {14, false, "bilstm, largest states, spans"},
             {15, false, "bilstm with scores, mean states, spans"},
             {16, false, "s4 with scores, relu, largest, spans"},
             {17, false, "s4 of two layers, spans"},
             {18, false, "s4, mean, spans"},
             {19, false, "s4 with scores, bare, largest, spans"},
             {20, false, "s4 of two layers, bare"},
             {21, false, "cnn with a layer before the last"},
             {22, false, "cnn with scores and a layer before the last"}};
enum { CASES = sizeof cases / sizeof *cases, DENSE = CASES - 2 };

static bool is_kind(int which, const char *name)
{
    return strcmp(small_kinds[cases[which].kind].name, name) == 0;
}

/* A model, sets for two words out of three, texts with lengths from 1 on. */
typedef struct world {
    model *m;
    bool joint;
    word_sets sets;
    uint32_t start[N_WORDS + 1], word[N_WORDS * ALTS];
    uint32_t ids[TEXTS * SMALL_MAX_LEN];
    uint64_t text_start[TEXTS + 1];
    int32_t label[TEXTS];
    uint32_t slot[N_WORDS];
    batcher batches;
    const model_weights *weights; /* NULL: the model's own */
} world;

static const size_t short_lengths[TEXTS] = {5, 1, 4, 3, 2}, long_lengths[TEXTS] = {17, 1, 30, 9, 3};

static void world_make(world *w, int which, size_t n_classes, const size_t *lengths, uint64_t seed)
{
    rng r = rng_stream(seed, STREAM_TEST, 3);
    memset(w, 0, sizeof *w);
    w->m = small_model(cases[which].kind, n_classes, seed);
    w->joint = cases[which].joint;
    size_t n = 0;
    for (uint32_t i = 0; i < N_WORDS; i++) {
        w->start[i] = (uint32_t)n;
        const size_t alts = i % 3 == 0 || i < STET_FIRST_WORD ? 0 : 1 + rng_below(&r, ALTS);
        for (size_t a = 0; a < alts; a++) {
            const uint32_t other = (uint32_t)(STET_UNK + rng_below(&r, SMALL_WORDS + 1));
            bool known = other == i;
            for (size_t b = w->start[i]; b < n; b++)
                known |= w->word[b] == other;
            if (!known)
                w->word[n++] = other;
        }
    }
    w->start[N_WORDS] = (uint32_t)n;
    w->sets = (word_sets){N_WORDS, w->start, w->word};
    for (size_t i = 0; i < TEXTS; i++) {
        w->text_start[i + 1] = w->text_start[i] + lengths[i];
        w->label[i] = (int32_t)(i % n_classes);
    }
    for (size_t i = 0; i < w->text_start[TEXTS]; i++)
        w->ids[i] = (uint32_t)(STET_UNK + rng_below(&r, SMALL_WORDS + 1));
    CHECK_OK(batcher_init(&w->batches, w->m));
}

static void world_free(world *w)
{
    batcher_deinit(&w->batches);
    stet_model_free(w->m);
}

/* Texts of the corpus one after the other: features (TEXTS, F) and logits (TEXTS, K) by the model's
 * own forward pass. */
static void plain_pass(world *w, const uint32_t *ids, double *features, double *logits)
{
    const stet_corpus c = {TEXTS,           w->text_start[TEXTS], w->m->n_classes,
                           (uint32_t *)ids, w->text_start,        w->label};
    const size_t F = w->m->desc->n_features(w->m), K = w->m->n_classes;
    const uint32_t pick[TEXTS] = {0, 1, 2, 3, 4};
    arena mem = {0};
    batch x;
    tape t;
    pass p;
    CHECK_OK(batch_make(&w->batches, w->m, &c, pick, TEXTS, &mem, &x));
    tape_init(&t, &mem, NULL, false);
    CHECK_OK(pass_init(&p, w->m, &t, NULL, NULL, &x));
    const node *f = F ? w->m->desc->features(w->m, &p) : NULL, *z = model_forward(w->m, &p);
    CHECK_OK(tape_status(&t));
    for (size_t b = 0; b < TEXTS; b++) {
        for (size_t i = 0; i < F; i++)
            features[x.order[b] * F + i] = (double)f->value[b * F + i];
        for (size_t k = 0; k < K; k++)
            logits[x.order[b] * K + k] = (double)z->value[b * K + k];
    }
    arena_deinit(&mem);
}

/* What the bounds say, by text of the corpus. */
typedef struct said {
    double side[RANGE_SIDES][TEXTS * 64]; /* (TEXTS, F) */
    double worst[TEXTS * 4];              /* (TEXTS, K) */
    double logits[TEXTS * 4];             /* (TEXTS, K) */
    double loss, share;
} said;

/* `grad` (n_values): gradients of the parameters; `dtable` (vocabulary, D): of the vectors. */
static void bounds_pass(world *w, double eps, real *grad, real *dtable, said *out)
{
    const stet_corpus c = {TEXTS,  w->text_start[TEXTS], w->m->n_classes,
                           w->ids, w->text_start,        w->label};
    const size_t F = w->m->desc->n_features(w->m), K = w->m->n_classes;
    const uint32_t pick[TEXTS] = {0, 1, 2, 3, 4};
    arena mem = {0};
    batch x;
    tape t;
    pass p;
    node *side[RANGE_SIDES], *logits, *worst;
    batch_sets sets;
    CHECK_OK(batch_make(&w->batches, w->m, &c, pick, TEXTS, &mem, &x));
    tape_init(&t, &mem, NULL, grad != NULL);
    CHECK_OK(pass_init(&p, w->m, &t, w->weights, grad, &x));
    if (dtable) {
        p.table = tape_input(&t, p.table->shape, w->m->table, dtable);
        p.rows = op_gather(&t, p.table, x.word, x.seq.n_rows);
    }
    CHECK_OK(batch_sets_make(&w->sets, &p, &x, w->slot, &sets));
    const worst_args a = {.s = &sets, .label = x.label, .eps = eps, .joint = w->joint};
    if (F)
        range_features(w->m, &p, &sets, eps, side);
    worst_forward(w->m, &p, &a, &logits, &worst);
    node *loss = op_add(&t, op_cross_entropy(&t, worst, x.label),
                        op_scale(&t, op_cross_entropy(&t, logits, x.label), 0.5));
    CHECK_OK(tape_status(&t));
    for (size_t b = 0; b < TEXTS; b++) {
        for (int s = 0; s < RANGE_SIDES; s++)
            for (size_t i = 0; i < F; i++)
                out->side[s][x.order[b] * F + i] = (double)side[s]->value[b * F + i];
        for (size_t k = 0; k < K; k++) {
            out->worst[x.order[b] * K + k] = (double)worst->value[b * K + k];
            out->logits[x.order[b] * K + k] = (double)logits->value[b * K + k];
        }
    }
    out->loss = (double)loss->value[0];
    out->share = (double)worst_share(&t, worst, x.label)->value[0];
    if (grad)
        CHECK_OK(tape_backward(&t, loss));
    for (size_t i = 0; i < N_WORDS; i++)
        CHECK_EQ(w->slot[i], 0);
    arena_deinit(&mem);
}

static const double slack = sizeof(real) == 4 ? 2e-5 : 1e-12;

/* Every text of `ids` obeys the bounds. */
static void check_obeys(world *w, const said *b, const uint32_t *ids)
{
    const size_t F = w->m->desc->n_features(w->m), K = w->m->n_classes;
    double features[TEXTS * 64], logits[TEXTS * 4];
    plain_pass(w, ids, features, logits);
    for (size_t i = 0; i < TEXTS * F; i++) {
        CHECK_LE(b->side[RANGE_LOWER][i], features[i] + slack);
        CHECK_LE(features[i], b->side[RANGE_UPPER][i] + slack);
    }
    for (size_t text = 0; text < TEXTS; text++)
        for (size_t k = 0; k < K; k++)
            CHECK_LE(logits[text * K + k] - logits[text * K + (size_t)w->label[text]],
                     b->worst[text * K + k] + slack);
}

static uint32_t draw_word(const world *w, uint32_t word, uint64_t number)
{
    const uint32_t n = w->start[word + 1] - w->start[word];
    const uint64_t k = number % (n + 1);
    return k == 0 ? word : w->word[w->start[word] + k - 1];
}

TEST(sampled_texts_obey_the_bounds)
{
    for (int which = 0; which < CASES; which++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            world w;
            static said b;
            world_make(&w, which, seed % 2 ? 2 : 3, seed < 3 ? long_lengths : short_lengths, seed);
            bounds_pass(&w, 1, NULL, NULL, &b);
            rng r = rng_stream(seed, STREAM_TEST, 4);
            for (int n = 0; n < 300; n++) {
                uint32_t ids[TEXTS * SMALL_MAX_LEN];
                for (size_t i = 0; i < w.text_start[TEXTS]; i++)
                    ids[i] = draw_word(&w, w.ids[i], rng_below(&r, 1 << 20));
                check_obeys(&w, &b, ids);
            }
            world_free(&w);
        }
}

/* Short texts: all combinations. The upper ends of a CNN's features are attained, and the worst case of
 * a sum. */
TEST(no_combination_of_short_texts_breaks_a_bound)
{
    for (int which = 0; which < CASES; which++)
        for (uint64_t seed = 11; seed <= 13; seed++) {
            world w;
            static said b;
            world_make(&w, which, 2 + seed % 2, short_lengths, seed);
            bounds_pass(&w, 1, NULL, NULL, &b);
            const size_t F = w.m->desc->n_features(w.m), K = w.m->n_classes;
            double top[TEXTS * 64], features[TEXTS * 64], logits[TEXTS * 4], lead[TEXTS * 4];
            for (size_t i = 0; i < TEXTS * F; i++)
                top[i] = -INFINITY;
            for (size_t i = 0; i < TEXTS * K; i++)
                lead[i] = -INFINITY;
            for (uint64_t number = 0; number < 1024; number++) { /* (ALTS + 1) ^ 5 */
                uint32_t ids[TEXTS * SMALL_MAX_LEN];
                for (size_t t = 0; t < TEXTS; t++) {
                    uint64_t left = number;
                    for (size_t i = w.text_start[t]; i < w.text_start[t + 1]; i++, left /= ALTS + 1)
                        ids[i] = draw_word(&w, w.ids[i], left % (ALTS + 1));
                }
                check_obeys(&w, &b, ids);
                plain_pass(&w, ids, features, logits);
                for (size_t i = 0; i < TEXTS * F; i++)
                    top[i] = fmax(top[i], features[i]);
                for (size_t i = 0; i < TEXTS * K; i++)
                    lead[i] = fmax(lead[i], logits[i] - logits[i / K * K + (size_t)w.label[i / K]]);
            }
            for (size_t i = 0; is_kind(which, "cnn") && which < DENSE && i < TEXTS * F; i++)
                CHECK_NEAR(top[i], b.side[RANGE_UPPER][i], slack);
            for (size_t i = 0; is_kind(which, "sum") && i < TEXTS * K; i++)
                CHECK_NEAR(lead[i], b.worst[i], slack);
            for (size_t t = 0; t < TEXTS; t++)
                CHECK(b.worst[t * K + (size_t)w.label[t]] == 0);
            world_free(&w);
        }
}

/* Without sets, or with substitutes at no distance, ranges are points; they grow with eps. */
TEST(ranges_grow_from_a_point_with_eps)
{
    for (int which = 0; which < CASES; which++) {
        world w;
        static said b[3];
        world_make(&w, which, 2, long_lengths, 5);
        const size_t F = w.m->desc->n_features(w.m);
        double features[TEXTS * 64], logits[TEXTS * 4], width[3] = {0};
        plain_pass(&w, w.ids, features, logits);
        for (int e = 0; e < 3; e++) {
            bounds_pass(&w, e / 2.0, NULL, NULL, &b[e]);
            for (size_t i = 0; i < TEXTS * 2; i++) {
                const double lead = logits[i] - logits[i / 2 * 2 + (size_t)w.label[i / 2]];
                CHECK_NEAR(b[e].logits[i], logits[i], slack);
                CHECK(e > 0 ? b[e].worst[i] >= b[e - 1].worst[i] - slack
                            : fabs(b[e].worst[i] - lead) <= slack);
            }
            for (size_t i = 0; i < TEXTS * F; i++) {
                CHECK_NEAR(b[e].side[RANGE_VALUE][i], features[i], slack);
                width[e] += b[e].side[RANGE_UPPER][i] - b[e].side[RANGE_LOWER][i];
                CHECK(e == 0 ||
                      (b[e].side[RANGE_UPPER][i] + slack >= b[e - 1].side[RANGE_UPPER][i] &&
                       b[e].side[RANGE_LOWER][i] - slack <= b[e - 1].side[RANGE_LOWER][i]));
            }
        }
        CHECK_NEAR(width[0], 0, 100 * slack);
        CHECK(F == 0 || (width[2] > width[1] && width[1] > width[0] + 0.1));
        memset(w.start, 0, sizeof w.start);
        bounds_pass(&w, 1, NULL, NULL, &b[0]);
        for (size_t i = 0; i < TEXTS * F; i++)
            CHECK_NEAR(b[0].side[RANGE_UPPER][i], b[0].side[RANGE_LOWER][i], slack);
        world_free(&w);
    }
}

/* One more substitute for every word, where there is another. */
static void widen(world *w, uint64_t seed)
{
    const world old = *w;
    rng r = rng_stream(seed, STREAM_TEST, 6);
    size_t n = 0;
    for (uint32_t i = 0; i < N_WORDS; i++) {
        const uint32_t from = old.start[i], count = old.start[i + 1] - from;
        w->start[i] = (uint32_t)n;
        memcpy(w->word + n, old.word + from, count * sizeof *w->word);
        n += count;
        for (bool known = true; known && i >= STET_FIRST_WORD;) {
            const uint32_t other = (uint32_t)(STET_UNK + rng_below(&r, SMALL_WORDS + 1));
            known = other == i;
            for (uint32_t k = 0; k < count; k++)
                known |= old.word[from + k] == other;
            if (!known)
                w->word[n++] = other;
        }
    }
    w->start[N_WORDS] = (uint32_t)n;
    CHECK_EQ(n, old.start[N_WORDS] + SMALL_WORDS);
}

/* Lower ends do not rise, upper ends do not fall, and no rival comes to be further below. */
TEST(a_wider_set_never_shrinks_a_range)
{
    for (int which = 0; which < CASES; which++)
        for (uint64_t seed = 51; seed < 55; seed++)
            for (int part = 1; part <= 2; part++) {
                world w;
                static said narrow, wide;
                world_make(&w, which, 2 + seed % 2, seed < 53 ? long_lengths : short_lengths, seed);
                bounds_pass(&w, part / 2.0, NULL, NULL, &narrow);
                widen(&w, seed);
                bounds_pass(&w, part / 2.0, NULL, NULL, &wide);
                const size_t F = w.m->desc->n_features(w.m), K = w.m->n_classes;
                double grown = 0;
                for (size_t i = 0; i < TEXTS * F; i++) {
                    CHECK_LE(wide.side[RANGE_LOWER][i], narrow.side[RANGE_LOWER][i] + slack);
                    CHECK_LE(narrow.side[RANGE_UPPER][i], wide.side[RANGE_UPPER][i] + slack);
                }
                for (size_t i = 0; i < TEXTS * K; i++) {
                    CHECK_LE(narrow.worst[i], wide.worst[i] + slack);
                    grown += wide.worst[i] - narrow.worst[i];
                }
                CHECK(grown > 0.01); /* there are more words */
                world_free(&w);
            }
}

/* A convolution of one word, lifted above ReLU, is a linear map: in texts of one word each end of each
 * feature is what some word of the set gives, and with short steps towards it, too. */
TEST(both_ends_of_a_linear_map_are_attained)
{
    enum { WORDS = 40, MOST = 5, D = 7, F = 9 };
    const double lift = 20, tol = sizeof(real) == 4 ? 1e-5 : 1e-12;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        rng r = rng_stream(seed, STREAM_TEST, 7);
        const double eps = seed % 2 ? 1 : 0.3;
        uint32_t start[WORDS + 1], word[WORDS * MOST], id[WORDS],
            slot[WORDS] = {0}, text[WORDS + 1], row[WORDS], n = 0;
        real E[WORDS * D], w[F * D], b[F];
        for (uint32_t i = 0; i < WORDS; i++) {
            const uint32_t count = (uint32_t)rng_below(&r, MOST + 1);
            start[i] = n;
            for (uint32_t k = 0; k < count; k++)
                word[n++] = (i + 1 + k + (uint32_t)rng_below(&r, 2) * MOST) % WORDS;
            id[i] = row[i] = text[i] = i;
        }
        start[WORDS] = n;
        text[WORDS] = WORDS;
        for (size_t i = 0; i < WORDS * D; i++)
            E[i] = (real)rng_normal(&r);
        for (size_t i = 0; i < F * D; i++)
            w[i] = (real)rng_normal(&r);
        for (size_t i = 0; i < F; i++)
            b[i] = (real)(lift + rng_normal(&r));
        arena mem = {0};
        tape t;
        batch_sets sets;
        tape_init(&t, &mem, NULL, false);
        const pass p = {.t = &t, .table = tape_constant(&t, shape2(WORDS, D), E)};
        const batch x = {.seq = {WORDS, WORDS, WORDS, 1, text, row}, .word = id};
        CHECK_OK(batch_sets_make(&(word_sets){WORDS, start, word}, &p, &x, slot, &sets));
        const node *y = op_conv_ranges(&t, &sets, tape_constant(&t, shape3(F, D, 1), w),
                                       tape_constant(&t, shape1(F), b), eps, false);
        CHECK_OK(tape_status(&t));
        for (uint32_t i = 0; i < WORDS; i++)
            for (size_t f = 0; f < F; f++) {
                double own = 0, least, most;
                for (size_t d = 0; d < D; d++)
                    own += (double)w[f * D + d] * (double)E[i * D + d];
                least = most = own;
                for (uint32_t k = start[i]; k < start[i + 1]; k++) {
                    double other = 0;
                    for (size_t d = 0; d < D; d++)
                        other += (double)w[f * D + d] * (double)E[word[k] * D + d];
                    least = fmin(least, own + eps * (other - own));
                    most = fmax(most, own + eps * (other - own));
                }
                const real *at = y->value + i * RANGE_SIDES * F + f;
                CHECK_NEAR(at[RANGE_LOWER * F], least + (double)b[f], tol);
                CHECK_NEAR(at[RANGE_UPPER * F], most + (double)b[f], tol);
            }
        arena_deinit(&mem);
    }
}

/* The same texts by intervals and jointly. */
TEST(the_joint_bound_is_never_worse_than_intervals)
{
    double gained = 0, gap = 0;
    for (uint64_t seed = 31; seed < 41; seed++) {
        world w;
        static said b[2];
        world_make(&w, 0, 2 + seed % 2, long_lengths, seed);
        for (int joint = 0; joint < 2; joint++) {
            w.joint = joint;
            bounds_pass(&w, 1, NULL, NULL, &b[joint]);
        }
        const size_t K = w.m->n_classes;
        for (size_t i = 0; i < TEXTS * K; i++) {
            CHECK_LE(b[1].worst[i], b[0].worst[i] + slack);
            const double clean = b[0].logits[i] - b[0].logits[i / K * K + (size_t)w.label[i / K]];
            gap += b[0].worst[i] - clean;
            gained += b[0].worst[i] - b[1].worst[i];
        }
        world_free(&w);
    }
    fprintf(stderr, "  the joint bound takes %.0f %% off the intervals' distance\n",
            100 * gained / gap);
    CHECK(gained > 0.1 * gap);
}

TEST(the_share_counts_texts_whose_rivals_stay_below)
{
    real value[] = {0, -1, 2, 0, -0.5, 0, -3, 0};
    const int32_t label[] = {0, 1, 1, 1};
    arena mem = {0};
    tape t;
    tape_init(&t, &mem, NULL, true);
    node *share = worst_share(&t, tape_constant(&t, shape2(4, 2), value), label);
    CHECK_OK(tape_status(&t));
    CHECK_NEAR(share->value[0], 0.75, 1e-12);
    arena_deinit(&mem);
}

/* Where nothing can be replaced the worst case is the text itself, whatever dropout leaves of it: the
 * same units in values and in both ends, also where values come from a pass of their own. */
TEST(dropout_leaves_the_same_units_everywhere)
{
    CHECK(small_kinds[cases[DENSE].kind].settings == small_cnn_dense);
    for (int which = 0; which < CASES; which++)
        for (int apart = 0; apart < 2; apart++) {
            world w;
            world_make(&w, which, 3, long_lengths, 9);
            memset(w.start, 0, sizeof w.start);
            const stet_corpus c = {TEXTS, w.text_start[TEXTS], 3, w.ids, w.text_start, w.label};
            const uint32_t pick[TEXTS] = {0, 1, 2, 3, 4};
            arena mem = {0};
            batch x, same;
            tape t;
            pass p;
            batch_sets sets;
            rng drops = rng_stream(5, STREAM_DROPOUT, 1);
            node *logits, *worst;
            CHECK_OK(batch_make(&w.batches, w.m, &c, pick, TEXTS, &mem, &x));
            tape_init(&t, &mem, NULL, false);
            CHECK_OK(pass_init(&p, w.m, &t, NULL, NULL, &x));
            p.dropout = 0.5;
            p.stream = &drops;
            same = x;
            CHECK_OK(batch_sets_make(&w.sets, &p, apart ? &same : &x, w.slot, &sets));
            const worst_args a = {.s = &sets, .label = x.label, .eps = 1, .joint = w.joint};
            worst_forward(w.m, &p, &a, &logits, &worst);
            CHECK_OK(tape_status(&t));
            for (size_t i = 0; i < TEXTS * 3; i++)
                CHECK_NEAR(worst->value[i],
                           logits->value[i] - logits->value[i / 3 * 3 + (size_t)x.label[i / 3]],
                           10 * slack);
            arena_deinit(&mem);
            world_free(&w);
        }
}

/* The clean logits come with the worst ones, from the same scores: those of a pass of their own. And
 * where the scores of all words are known, passes without gradients read these. */
TEST(sums_are_those_of_a_plain_pass_and_of_known_scores)
{
    for (int which = 0; which < CASES; which++) {
        if (!is_kind(which, "sum"))
            continue;
        world w;
        static said made, known;
        double features[1], logits[TEXTS * 4];
        world_make(&w, which, 3, long_lengths, 9);
        bounds_pass(&w, 1, NULL, NULL, &made);
        plain_pass(&w, w.ids, features, logits);
        arena mem = {0};
        store_arena values = {.store = &host_store};
        model_weights weights;
        CHECK_OK(weights_init(&weights, w.m, &host_store));
        CHECK_OK(word_scores_know(w.m, &weights, &mem, &values));
        w.weights = &weights;
        bounds_pass(&w, 1, NULL, NULL, &known);
        for (size_t i = 0; i < TEXTS * 3; i++) {
            CHECK_NEAR(made.logits[i], logits[i], slack);
            CHECK_NEAR(known.logits[i], logits[i], slack);
            CHECK_NEAR(known.worst[i], made.worst[i], slack);
        }
        weights.scores[3 * STET_UNK] += 1; /* they are what is read */
        for (size_t i = 0; i < w.text_start[TEXTS]; i++)
            w.ids[i] = STET_UNK;
        bounds_pass(&w, 1, NULL, NULL, &known);
        plain_pass(&w, w.ids, features, logits);
        for (size_t text = 0; text < TEXTS; text++)
            CHECK_NEAR(known.logits[3 * text] - logits[3 * text],
                       sqrt((double)(w.text_start[text + 1] - w.text_start[text])), slack);
        real *grad = mem_zalloc(w.m->n_values, sizeof *grad); /* a step has scores of its own */
        CHECK(grad);
        bounds_pass(&w, 1, grad, NULL, &known);
        for (size_t i = 0; i < TEXTS * 3; i++)
            CHECK_NEAR(known.logits[i], logits[i], slack);
        mem_free(grad);
        store_arena_deinit(&values);
        arena_deinit(&mem);
        world_free(&w);
    }
}

TEST(threads_do_not_change_a_bit)
{
    for (int which = 0; which < CASES; which++) {
        world w;
        static said b[2];
        world_make(&w, which, 3, long_lengths, 6);
        real *grad[2];
        for (int i = 0; i < 2; i++) {
            stet_set_threads(i + 1);
            grad[i] = mem_zalloc(w.m->n_values, sizeof(real));
            CHECK(grad[i]);
            bounds_pass(&w, 0.7, grad[i], NULL, &b[i]);
        }
        CHECK(b[0].loss == b[1].loss &&
              memcmp(grad[0], grad[1], w.m->n_values * sizeof(real)) == 0);
        mem_free(grad[0]);
        mem_free(grad[1]);
        world_free(&w);
    }
}

#ifdef STET_DOUBLE
TEST(gradients_equal_finite_differences)
{
    double worst = 0;
    for (int which = 0; which < CASES; which++)
        for (uint64_t seed = 21; seed < 27; seed++) {
            world w;
            static said b;
            world_make(&w, which, 2 + seed % 2, seed < 24 ? long_lengths : short_lengths, seed);
            const double eps = seed % 3 ? 1 : 0.6;
            rng r = rng_stream(seed, STREAM_TEST, 5);
            /* parameters, then vectors, as one block of numbers */
            const size_t own = w.m->n_values, n = own + w.m->n_words * w.m->dim;
            real *grad = mem_zalloc(n, sizeof *grad), *step = mem_zalloc(n, sizeof *step);
            CHECK(grad && step);
            bounds_pass(&w, eps, grad, grad + own, &b);
            double slope = 0, size = 0, error = INFINITY;
            for (size_t i = 0; i < n; i++) {
                slope += grad[i] * (step[i] = rng_normal(&r) / 10);
                size += fabs(grad[i]);
            }
            CHECK(size > 0);
            for (double e = 1e-6; error > 1e-6 && e > 5e-9;
                 e /= 10) { /* a tie may be near: shrink */
                double side[2];
                for (int s = 0; s < 2; s++) {
                    for (size_t i = 0; i < n; i++)
                        *(i < own ? w.m->value + i : w.m->table + i - own) +=
                            (s ? 2 * e : -e) * step[i];
                    bounds_pass(&w, eps, NULL, NULL, &b);
                    side[s] = b.loss;
                }
                for (size_t i = 0; i < n; i++)
                    *(i < own ? w.m->value + i : w.m->table + i - own) -= e * step[i];
                error =
                    fmin(error, fabs((side[1] - side[0]) / (2 * e) - slope) / (1e-3 + fabs(slope)));
            }
            if (error > 1e-5)
                test_fail(__FILE__, __LINE__, "%s, seed %d: relative error %g", cases[which].name,
                          (int)seed, error);
            worst = fmax(worst, error);
            mem_free(grad);
            mem_free(step);
            world_free(&w);
        }
    fprintf(stderr, "  worst relative error %.2g\n", worst);
}
#endif
