/* Bounds of shares from votes, and the rules of RanMASK and SAFER: golden cases, draws, trained models
 * that vote. */
#include "train/small_run.h"

#include "base/json.h"
#include "defense/defenses.h"
#include "defense/near_words.h"
#include "defense/textcrs.h"
#include "defense/votes.h"
#include "stet/certify.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static json_t *golden_of(const char *key)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/defenses.json", STET_SOURCE_DIR);
    json_t *o;
    CHECK_OK(json_read_file(path, &o));
    json_t *part = json_incref(json_object_get(o, key));
    json_decref(o);
    CHECK(part);
    return part;
}

static double number_at(const json_t *list, size_t i)
{
    return json_number_value(json_array_get(list, i));
}

/* ---- shares ------------------------------------------------------------------------------- */

TEST(bounds_of_a_share_are_those_of_clopper_and_pearson)
{
    static const struct {
        uint64_t k, n;
        double error, lower, upper;
    } table[] = {{100, 100, 0.05, 0.970487, 1},          {100, 100, 0.001, 0.933254, 1},
                 {99, 100, 0.05, 0.953440, 0.999487},    {95, 100, 0.05, 0.897747, 0.980094},
                 {60, 100, 0.05, 0.512976, 0.682474},    {10, 10, 0.05, 0.741134, 1},
                 {9, 10, 0.05, 0.605837, 0.994884},      {0, 10, 0.05, 0, 0.258866},
                 {500, 1000, 0.05, 0.473518, 0.526482},  {990, 1000, 0.01, 0.979957, 0.995860},
                 {950, 1000, 0.001, 0.925047, 0.968756}, {4900, 5000, 0.05, 0.976427, 0.983147},
                 {5000, 5000, 0.05, 0.999401, 1}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        CHECK_NEAR(share_lower(table[i].k, table[i].n, table[i].error), table[i].lower, 1e-6);
        CHECK_NEAR(share_upper(table[i].k, table[i].n, table[i].error), table[i].upper, 1e-6);
    }
    for (uint64_t n = 1; n < 3000; n = 2 * n + 1) /* all of them: error^(1/n) */
        CHECK_NEAR(share_lower(n, n, 0.01), pow(0.01, 1 / (double)n), 1e-10);
}

TEST(a_coin_test_tells_even_votes_from_uneven_ones)
{
    json_t *safer = golden_of("safer");
    const json_t *cases = json_object_get(safer, "binomial_test");
    CHECK(json_array_size(cases) > 4);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        const uint64_t k = (uint64_t)number_at(c, 0), rest = (uint64_t)number_at(c, 1);
        CHECK_NEAR(coin_test(k, k + rest), number_at(c, 2), 1e-10);
        CHECK_NEAR(coin_test(rest, k + rest), number_at(c, 2), 1e-10);
    }
    json_decref(safer);
    CHECK_NEAR(coin_test(60, 100), 0.056888, 1e-6);
    CHECK_NEAR(coin_test(70, 100), 0.000079, 1e-6);
    CHECK_NEAR(coin_test(8, 10), 0.109375, 1e-12);
    CHECK_NEAR(coin_test(9, 10), 0.021484, 1e-6);
    CHECK_NEAR(coin_test(10, 10), 0.001953, 1e-6);
}

/* Text-CRS's votes. Its radii are not compared: stet states none (docs/defences.md). */
TEST(shares_of_two_classes_are_those_of_the_golden_file)
{
    json_t *g = golden_of("textcrs");
    const json_t *cases = json_object_get(g, "cases");
    CHECK(json_array_size(cases) > 4);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *votes = json_object_get(c, "votes");
        const size_t n_classes = json_array_size(votes);
        const size_t own = (size_t)json_integer_value(json_object_get(c, "guessed"));
        const double error = json_number_value(json_object_get(c, "a"));
        double n = 0, most = 0;
        for (size_t k = 0; k < n_classes; k++) {
            n += number_at(votes, k);
            if (k != own)
                most = fmax(most, number_at(votes, k));
        }
        const double lower = share_lower((uint64_t)number_at(votes, own), (uint64_t)n, error);
        CHECK_NEAR(lower, json_number_value(json_object_get(c, "pA")), 1e-9);
        const double upper = share_upper((uint64_t)most, (uint64_t)n, error / (double)n_classes);
        CHECK_NEAR(n_classes == 2 ? 1 - lower : fmin(1 - lower, upper),
                   json_number_value(json_object_get(c, "pB")), 1e-9);
    }
    json_decref(g);
}

/* ---- masks -------------------------------------------------------------------------------- */

/* "3/5" or a number. */
static double fraction(const json_t *v)
{
    double top, under = 1;
    if (!json_is_string(v))
        return json_number_value(v);
    CHECK(sscanf(json_string_value(v), "%lf/%lf", &top, &under) >= 1);
    return top / under;
}

TEST(masks_and_radii_are_those_of_the_golden_file)
{
    json_t *g = golden_of("ranmask");
    const json_t *counts = json_object_get(g, "masked_counts"),
                 *cases = json_object_get(g, "cases");
    for (size_t i = 0; i < json_array_size(counts); i++) {
        const json_t *c = json_array_get(counts, i);
        CHECK_EQ(masked_words((size_t)number_at(c, 0), number_at(c, 1)), number_at(c, 2));
    }
    const char *key;
    json_t *list;
    json_object_foreach(json_object_get(g, "Delta"), key, list)
    {
        unsigned L, K;
        CHECK_EQ(sscanf(key, "%u,%u", &L, &K), 2);
        for (size_t r = 0; r < json_array_size(list); r++)
            CHECK_NEAR(kept_chance(L, K, r), fraction(json_array_get(list, r)), 1e-12);
    }
    CHECK_EQ(json_array_size(cases), 9);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *votes = json_object_get(c, "votes");
        const size_t L = (size_t)json_integer_value(json_object_get(c, "L")),
                     K = (size_t)json_integer_value(json_object_get(c, "K")),
                     y = (size_t)json_integer_value(json_object_get(c, "y"));
        double n = 0;
        for (size_t k = 0; k < json_array_size(votes); k++)
            n += number_at(votes, k);
        const double p = share_lower((uint64_t)number_at(votes, y), (uint64_t)n,
                                     json_number_value(json_object_get(c, "a")));
        CHECK_NEAR(p, json_number_value(json_object_get(c, "p_low")), 1e-9);
        const size_t radius = masked_radius(L, K, p);
        const bool abstains =
            strcmp(json_string_value(json_object_get(c, "verdict")), "abstain") == 0;
        CHECK_EQ(radius == SIZE_MAX, abstains);
        if (!abstains)
            CHECK_EQ(radius, json_integer_value(json_object_get(c, "radius")));
    }
    json_decref(g);
}

/* A network whose answer to every copy is known: what is left of a share once words have changed is at
 * least what the chance says, and exactly it where every copy that shows a change is lost. */
TEST(what_changes_leave_of_a_share_is_that_of_the_golden_file)
{
    json_t *g = golden_of("ranmask"), *exact = json_object_get(g, "exact"), *set;
    const json_t *kept = json_object_get(exact, "kept"), *answer = json_object_get(exact, "answer");
    const size_t L = (size_t)json_integer_value(json_object_get(exact, "L")),
                 K = (size_t)json_integer_value(json_object_get(exact, "K")),
                 copies = json_array_size(kept);
    const json_int_t y = json_integer_value(json_object_get(exact, "y"));
    const double p = fraction(json_object_get(exact, "p"));
    size_t i, right = 0;
    for (size_t c = 0; c < copies; c++)
        right += json_integer_value(json_array_get(answer, c)) == y;
    CHECK_NEAR((double)right / (double)copies, p, 1e-12);
    json_array_foreach(json_object_get(exact, "sets"), i, set)
    {
        const json_t *changed = json_object_get(set, "changed");
        const size_t r = json_array_size(changed);
        size_t shown = 0, left = 0;
        for (size_t c = 0; c < copies; c++) {
            bool hit = false;
            for (size_t a = 0; a < r; a++)
                for (size_t b = 0; b < K; b++)
                    hit |= number_at(changed, a) == number_at(json_array_get(kept, c), b);
            shown += hit;
            left += !hit && json_integer_value(json_array_get(answer, c)) == y;
        }
        CHECK_NEAR(kept_chance(L, K, r), (double)shown / (double)copies, 1e-12);
        CHECK_NEAR(p - kept_chance(L, K, r), fraction(json_object_get(set, "p_left_beta_1")), 1e-12);
        CHECK_NEAR((double)left / (double)copies, fraction(json_object_get(set, "p_left")), 1e-12);
        CHECK_LE(p - kept_chance(L, K, r), (double)left / (double)copies + 1e-12);
    }
    CHECK_EQ(i, 5);
    json_decref(g);
}

TEST(radii_by_hand_and_their_order)
{
    CHECK_EQ(masked_radius(20, 2, 0.95), 5);
    CHECK_EQ(masked_radius(10, 3, 0.95), 1);
    CHECK_EQ(masked_radius(50, 5, 0.99), 6);
    CHECK_EQ(masked_radius(20, 2, 0.70), 2);
    CHECK_EQ(masked_radius(20, 2, 0.71), 2);
    CHECK(masked_radius(20, 2, 0.5) == SIZE_MAX);
    CHECK_EQ(masked_radius(9, 9, 1), 0); /* nothing is masked: nothing is hidden */
    for (size_t K = 1; K < 12; K++)
        for (size_t r = 0; r < 12; r++) {
            CHECK_LE(kept_chance(12, K, r), kept_chance(12, K, r + 1));
            CHECK_LE(kept_chance(12, K, r), kept_chance(12, K + 1, r));
        }
    for (double p = 0.52; p < 0.99; p += 0.01)
        CHECK(masked_radius(40, 4, p) <= masked_radius(40, 4, p + 0.01));
}

TEST(chances_that_a_copy_shows_a_change_by_hand)
{
    static const struct {
        size_t L, K;
        double chance[5]; /* of 1, 2, ... words */
    } table[] = {{10, 3, {0.3, 0.533333, 0.708333, 0.833333, 0.916667}},
                 {20, 2, {0.1, 0.194737, 0.284211, 0.368421, 0.447368}},
                 {50, 5, {0.1, 0.191837, 0.276020, 0.353040, 0.423361}},
                 {10, 1, {0.1, 0.2, 0.3, 0.4, 0.5}}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        CHECK(kept_chance(table[i].L, table[i].K, 0) == 0);
        for (size_t r = 0; r < 5; r++)
            CHECK_NEAR(kept_chance(table[i].L, table[i].K, r + 1), table[i].chance[r], 1e-6);
    }
}

/* ---- a model that votes ------------------------------------------------------------------- */

static stet_train_args run_of(const char *defense, const char *const *settings, const char *out)
{
    static char sets[256];
    stet_train_args a = small_run("cnn", out);
    snprintf(sets, sizeof sets, "%s", at("sets"));
    write_sets(sets);
    a.synonyms = sets;
    a.defense = defense;
    a.defense_settings = settings;
    return a;
}

static stet_train_args run_with(const char *const *settings, const char *out)
{
    return run_of("ranmask", settings, out);
}

static const char text[] = "good1 word2 word3 good0 good2 word7 good1 word9 good4 word2 good3";

static void read_text(const stet_model *m, uint32_t ids[64], size_t *n)
{
    stet_words *w;
    stet_reading r = {0};
    CHECK_OK(stet_model_words(m, &w));
    CHECK_OK(stet_words_read(w, text, strlen(text), &r));
    *n = words_rows(w, r.ids, r.n, ids);
    stet_reading_deinit(&r);
    stet_words_free(w);
}

static size_t seen; /* copies */
static size_t watch(const void *ctx, rng *r, const vote_text *t, uint32_t *copy)
{
    (void)ctx, (void)r;
    seen++;
    memcpy(copy, t->rows, t->n * sizeof *copy);
    return t->n;
}

static void ask_rule(const stet_model *m, const uint32_t *ids, const stet_choices *choices,
                     const stet_certify_how *how, int label, stet_certificate *out)
{
    buf evidence = {0};
    CHECK_OK(m->rule->desc->certify(m->rule, m, ids, choices, how, label, out, &evidence));
    CHECK(evidence.n);
    buf_deinit(&evidence);
}

TEST(a_model_votes_with_masks_and_says_what_is_likely)
{
    stet_train_result t;
    stet_model *m;
    stet_train_args a = run_with(
        SETTINGS("ranmask-rate=0.8", "ranmask-votes=41", "ranmask-draws=2000"), at("mask"));
    CHECK_OK(stet_train(&a, &t));
    CHECK_LE(0.8, t.valid_accuracy);
    CHECK_OK(stet_model_load(a.out, &m));
    uint32_t ids[64], start[65];
    size_t n;
    read_text(m, ids, &n);
    CHECK_EQ(n, 11);
    /* shares of 41 votes, the same each time */
    float one[2], two[2];
    CHECK_OK(model_logits_of(m, ids, n, one));
    CHECK_OK(model_logits_of(m, ids, n, two));
    CHECK(one[0] == two[0] && one[1] == two[1]);
    CHECK_NEAR(exp(one[0]) + exp(one[1]), 1, 1e-6);
    const double votes = exp(one[1]) * 42 - 0.5;
    CHECK_NEAR(votes, rint(votes), 1e-4);
    CHECK(one[1] > one[0]);
    uint64_t *count;
    vote_text words;
    arena mem = {0};
    CHECK_OK(vote_text_make(m, ids, n, &mem, &words));
    CHECK_OK(votes_certificate(&(vote_cfg){.draws = 600}, m, &(vote_of){&words, n, watch, NULL},
                               &count));
    CHECK(seen == 600 && count[0] + count[1] == 600);
    mem_free(count);
    arena_deinit(&mem);

    stet_certify_how how = STET_CERTIFY_HOW;
    stet_certificate c = {.verdict = STET_WRONG};
    const stet_certify_how few = {.method = "auto", .budget = 1};
    for (size_t i = 0; i <= n; i++)
        start[i] = (uint32_t)i;
    const stet_choices all = {.n = n, .start = start, .word = ids};
    ask_rule(m, ids, &all, &few, 1, &c);
    CHECK(c.verdict == STET_LIKELY && c.budget >= 1);
    ask_rule(m, ids, &all, &how, 1, &c);
    CHECK(c.verdict == STET_UNDECIDED && c.budget >= 1 && c.budget < n); /* not of every word */
    ask_rule(m, ids, &all, &few, 0, &c);
    CHECK(c.verdict == STET_UNDECIDED);

    stet_dataset *data;
    stet_sets sets;
    CHECK_OK(stet_dataset_load(a.data, &a.format, &data));
    CHECK_OK(stet_sets_load(a.synonyms, &sets));
    stet_certify_args args = STET_CERTIFY_DEFAULTS;
    size_t index[40];
    for (size_t i = 0; i < 40; i++)
        index[i] = i;
    args.model = m, args.data = data, args.sets = &sets, args.how.budget = 1;
    args.index = index, args.n_index = 40;
    stet_certify_result r;
    CHECK_OK(stet_certify_run(&args, &r));
    CHECK(r.certified == 0 && r.likely > 0.1 && r.confidence == 0.95);
    stet_certify_result_deinit(&r);
    stet_sets_free(&sets);
    stet_dataset_free(data);
    stet_model_free(m);
}

/* Each word is masked as often as any other, and exactly so many of them. */
TEST(masks_are_drawn_evenly)
{
    stet_train_result t;
    stet_model *m;
    stet_train_args a = run_with(SETTINGS("ranmask-rate=0.6", "ranmask-votes=3"), at("mask"));
    a.epochs = 1;
    CHECK_OK(stet_train(&a, &t));
    CHECK_OK(stet_model_load(a.out, &m));
    uint32_t ids[20];
    static uint32_t rows[20];
    size_t hidden[20] = {0};
    for (uint32_t i = 0; i < 20; i++)
        ids[i] = STET_FIRST_WORD + i;
    step_texts texts = {.n_own = 1};
    arena mem = {0};
    texts.mem = &mem;
    CHECK_OK(texts_add(&texts, ids, 20, 0));
    void *state;
    CHECK_OK(defense_ranmask.start(m->rule->cfg, m, NULL, &state));
    for (uint64_t step = 0; step < 2000; step++) {
        step_view v = {.m = m, .seed = 3, .step = step, .mem = &mem};
        texts.v[0].ids = ids;
        CHECK_OK(defense_ranmask.batch(state, &v, &texts));
        memcpy(rows, texts.v[0].ids, sizeof rows);
        size_t masked = 0;
        for (size_t i = 0; i < 20; i++) {
            masked += rows[i] == STET_UNK;
            hidden[i] += rows[i] == STET_UNK;
            CHECK(rows[i] == STET_UNK || rows[i] == ids[i]);
        }
        CHECK_EQ(masked, 12);
    }
    for (size_t i = 0; i < 20; i++)
        CHECK_NEAR((double)hidden[i] / 2000, 0.6, 0.05); /* 4.5 standard deviations */
    defense_ranmask.end(state);
    arena_deinit(&mem);
    stet_model_free(m);
}

/* ---- SAFER -------------------------------------------------------------------------------- */

/* The share of draws that every substitute of a word has in common with it: words are letters, and the
 * lists of the file, which hold the word itself, say what is drawn. */
static double least_shared(const json_t *g, char word)
{
    enum { LETTERS = 26 };
    uint32_t start[LETTERS + 1], list[128], n = 0;
    for (uint32_t w = 0; w < LETTERS; w++) {
        const char name[] = {(char)('a' + w), '\0'};
        const json_t *near = json_object_get(json_object_get(g, "P"), name);
        start[w] = n;
        for (size_t k = 0; k < json_array_size(near); k++) {
            const char *of = json_string_value(json_array_get(near, k));
            if (*of != *name)
                list[n++] = (uint32_t)(*of - 'a');
        }
    }
    start[LETTERS] = n;
    const word_sets s = {LETTERS, start, list};
    const char name[] = {word, '\0'};
    const char *others = json_string_value(json_object_get(json_object_get(g, "S"), name));
    double least = 1;
    CHECK(others);
    for (; *others; others++)
        least = fmin(least, draws_shared(&s, (uint32_t)(word - 'a'), (uint32_t)(*others - 'a')));
    return least;
}

TEST(votes_of_swaps_are_judged_as_in_the_golden_file)
{
    json_t *g = golden_of("safer");
    const json_t *Q = json_object_get(g, "Q"), *cases = json_object_get(g, "cases"),
                 *sentence = json_object_get(g, "sentence");
    double q[4];
    CHECK_EQ(json_array_size(sentence), 4);
    for (size_t R = 0; R <= 4; R++) {
        char key[4];
        for (size_t i = 0; i < 4; i++) {
            const char *word = json_string_value(json_array_get(sentence, i));
            q[i] = least_shared(g, *word);
            CHECK_NEAR(q[i], fraction(json_object_get(json_object_get(g, "q"), word)), 1e-12);
        }
        snprintf(key, sizeof key, "%zu", R);
        CHECK_NEAR(swapped_chance(q, 4, R), fraction(json_object_get(Q, key)), 1e-12);
    }
    CHECK_EQ(json_array_size(cases), 12);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *votes = json_object_get(c, "votes");
        const char *verdict = json_string_value(json_object_get(c, "verdict"));
        uint64_t count[8];
        float guess[8];
        for (size_t k = 0; k < json_array_size(votes); k++) {
            count[k] = (uint64_t)number_at(votes, k);
            guess[k] = (float)number_at(json_object_get(c, "guess"), k);
        }
        /* a tie: the lowest */
        const size_t guessed = (size_t)stet_argmax(guess, json_array_size(votes));
        CHECK_EQ(guessed, json_integer_value(json_object_get(c, "guessed")));
        const vote_bounds b = votes_bound(count, json_array_size(votes), guessed,
                                          json_number_value(json_object_get(c, "a")),
                                          json_number_value(json_object_get(c, "Q")));
        CHECK_NEAR(b.own, json_number_value(json_object_get(c, "p_low")), 1e-9);
        CHECK_NEAR(b.other, json_number_value(json_object_get(c, "p_other")), 1e-9);
        CHECK_EQ(b.abstains, strcmp(verdict, "abstain") == 0);
        if (strcmp(verdict, "wrong") != 0) /* whatever it holds of */
            CHECK_EQ(b.holds, strcmp(verdict, "certified") == 0);
    }
    json_decref(g);
}

/* Whole groups: every swap draws from the same words, and whatever most votes say stays. Small
 * neighbourhoods: swaps show. */
TEST(swaps_by_hand)
{
    enum { A, B, C, D, E, F, G, X, Y, Z, U, P, WORDS };
    /* a: d e f; d: e f g; b alone; c: x y z u; x: c z u p (4 of 5 shared); y: c u p g (3 of 5) */
    uint32_t word[] = {D, E, F, X, Y, Z, U, E, F, G, C, Z, U, P, C, U, P, G},
             start[WORDS + 1] = {0, 3, 3, 7, 10, 10, 10, 10, 14, 18, 18, 18, 18};
    const word_sets s = {WORDS, start, word};
    CHECK_NEAR(draws_shared(&s, A, D), 0.75, 1e-12);
    CHECK_NEAR(draws_shared(&s, B, B), 1, 1e-12);
    CHECK_NEAR(draws_shared(&s, C, X), 0.8, 1e-12);
    CHECK_NEAR(draws_shared(&s, C, Y), 0.6, 1e-12);
    double q[] = {0.75, 1, 0.6};
    const double one = swapped_chance(q, 3, 1), two = swapped_chance(q, 3, 2),
                 any = swapped_chance(q, 3, SIZE_MAX);
    CHECK_NEAR(one, 0.4, 1e-12);
    CHECK_NEAR(two, 0.55, 1e-12);
    CHECK_NEAR(any, 0.55, 1e-12);
    CHECK(votes_hold(0.95, 0.05, one) && !votes_hold(0.90, 0.10, one));
    CHECK(!votes_hold(1, 0, any)); /* never, if any number of words may change */
    CHECK(votes_hold(0.95, 0.03, one) && !votes_hold(0.80, 0.10, one)); /* of several classes */
}

TEST(where_no_word_is_drawn_the_vote_is_the_network_s)
{
    stet_train_result t;
    stet_model *m;
    stet_train_args a = run_of("safer", SETTINGS("safer-votes=31", "safer-draws=1000"), at("single"));
    CHECK_OK(stet_train(&a, &t));
    CHECK_OK(stet_model_load(a.out, &m));
    word_sets *lists = &((near_words *)m->rule->state)->lists.words;
    memset(lists->start, 0, (lists->n_words + 1) * sizeof *lists->start);
    rng r = rng_stream(4, STREAM_TEST, 0);
    for (int trial = 0; trial < 20; trial++) {
        uint32_t ids[12], start[13] = {0}, none[1] = {0};
        uint64_t first[2] = {0, 12};
        int32_t label = 0;
        float own[2], network[2];
        for (size_t i = 0; i < 12; i++)
            ids[i] = (uint32_t)(STET_FIRST_WORD + rng_below(&r, m->n_words - STET_FIRST_WORD));
        const stet_corpus one = {1, 12, 2, ids, first, &label};
        CHECK_OK(model_logits_of(m, ids, 12, own));
        CHECK_OK(model_network_logits(m, &one, network));
        const int answer = network[1] > network[0];
        CHECK_EQ(own[1] > own[0], answer);
        const stet_choices nothing = {.n = 12, .start = start, .word = none};
        const stet_certify_how any = STET_CERTIFY_HOW;
        for (int k = 0; k < 2; k++) { /* certified where the network is right, and only there */
            stet_certificate c = {.verdict = STET_WRONG};
            ask_rule(m, ids, &nothing, &any, k, &c);
            CHECK_EQ(c.verdict == STET_LIKELY, k == answer);
        }
    }
    stet_model_free(m);
}

/* ---- Text-CRS ----------------------------------------------------------------------------- */

TEST(ranks_fall_like_a_staircase)
{
    enum { N = 7, DRAWS = 200000 };
    double all = 0, upto[2 * N]; /* a longer list has the same beginning */
    size_t count[N] = {0};
    rng r = rng_stream(5, STREAM_TEST, 0);
    crs_chances(20, 2 * N, upto);
    for (int i = 0; i < DRAWS; i++) {
        const size_t k = crs_rank(&r, upto, N);
        CHECK(k < N);
        count[k]++;
    }
    for (int k = 0; k < N; k++)
        all += exp(-5.0 * k / 20);
    for (int k = 0; k < N; k++)
        CHECK_NEAR((double)count[k] / DRAWS, exp(-5.0 * k / 20) / all, 0.004);
}

TEST(a_rank_is_that_much_likelier_than_the_next)
{
    enum { N = 30 };
    double upto[N];
    crs_chances(50, N, upto);
    for (int k = 1; k + 1 < N; k++)
        CHECK_NEAR((upto[k + 1] - upto[k]) / (upto[k] - upto[k - 1]), 0.904837, 1e-6);
    CHECK_NEAR((upto[1] - upto[0]) / upto[0], 0.904837, 1e-6);
}

TEST(a_model_votes_with_near_words)
{
    stet_train_result t;
    stet_model *m;
    stet_train_args a = run_of("text-crs", SETTINGS("crs-scale=10", "crs-votes=31"), at("crs"));
    CHECK_OK(stet_train(&a, &t));
    CHECK_LE(0.8, t.valid_accuracy);
    CHECK_OK(stet_model_load(a.out, &m));
    uint32_t ids[64];
    size_t n, k = 0;
    float own[2], again[2];
    read_text(m, ids, &n);
    CHECK_OK(model_logits_of(m, ids, n, own));
    CHECK_OK(stet_model_save(m, at("crs-copy")));
    stet_model_free(m);
    CHECK_OK(stet_model_load(at("crs-copy"), &m));
    CHECK_OK(model_logits_of(m, ids, n, again));
    CHECK(own[1] > own[0] && memcmp(own, again, sizeof own) == 0);
    /* shares of 31 votes, half a vote added to each class: it votes */
    while (k <= 31 && fabs(exp((double)own[0]) - ((double)k + 0.5) / 32) > 1e-6)
        k++;
    CHECK(k <= 31);
    CHECK(m->rule->desc->certify == NULL);
    stet_model_free(m);
}

TEST(without_masks_every_change_shows)
{
    for (size_t L = 1; L < 40; L += 6)
        for (size_t changed = 1; changed <= L; changed++)
            CHECK_EQ(kept_chance(L, L - masked_words(L, 0), changed), 1);
    CHECK_EQ(masked_radius(20, 20, 1), 0);
}

TEST(a_model_votes_with_synonyms_and_says_what_is_likely)
{
    for (int cut = 0; cut < 2; cut++) {
        stet_train_result t;
        stet_model *m;
        stet_train_args a = run_of(
            "safer",
            SETTINGS(cut ? "safer-most=3" : "safer-most=100", "safer-votes=31", "safer-draws=1000"),
            at("safer"));
        CHECK_OK(stet_train(&a, &t));
        CHECK_LE(0.8, t.valid_accuracy);
        CHECK_OK(stet_model_load(a.out, &m));
        uint32_t ids[64], start[65] = {0}, others[64], other;
        size_t n, free = 0;
        read_text(m, ids, &n);
        for (size_t i = 0; i < n; i++) { /* good words may become any other good word */
            start[i + 1] = start[i];
            const char *word = stet_vocab_word(m->vocab, ids[i]);
            for (int k = 0; k < 5 && word[0] == 'g'; k++) {
                char name[8];
                snprintf(name, sizeof name, "good%d", k);
                other = stet_vocab_id(m->vocab, name, 5);
                if (other != ids[i])
                    others[start[i + 1]++] = other;
            }
            free += start[i + 1] > start[i];
        }
        CHECK_EQ(free, 6);
        const stet_choices all = {.n = n, .start = start, .word = others};
        const stet_certify_how any = STET_CERTIFY_HOW;
        stet_certificate c = {.verdict = STET_WRONG};
        ask_rule(m, ids, &all, &any, 1, &c);
        if (cut) /* of three words, two words share at most two: Q is at least a third a swap */
            CHECK(c.verdict == STET_UNDECIDED && c.budget <= 1);
        else
            CHECK(c.verdict == STET_LIKELY && c.budget == STET_ANY && c.margin > 0);
        ask_rule(m, ids, &all, &any, 0, &c);
        CHECK(c.verdict == STET_UNDECIDED && c.budget == 0);
        /* what was saved is what is loaded, and votes alike */
        CHECK_OK(stet_model_save(m, at("copy")));
        stet_model *again;
        float one[2], two[2];
        CHECK_OK(stet_model_load(at("copy"), &again));
        CHECK_OK(model_logits_of(m, ids, n, one));
        CHECK_OK(model_logits_of(again, ids, n, two));
        CHECK(one[0] == two[0] && one[1] == two[1] && one[1] > one[0]);
        stet_model_free(again);
        stet_model_free(m);
    }
}

/* Copies hold words of the neighbourhoods, each as often as any other. */
TEST(synonyms_are_drawn_evenly)
{
    stet_train_result t;
    stet_model *m;
    stet_train_args a = run_of("safer", SETTINGS("safer-votes=3"), at("safer"));
    a.epochs = 1;
    CHECK_OK(stet_train(&a, &t));
    CHECK_OK(stet_model_load(a.out, &m));
    const uint32_t good = stet_vocab_id(m->vocab, "good2", 5),
                   word = stet_vocab_id(m->vocab, "word3", 5);
    uint32_t ids[] = {good, word, STET_UNK};
    size_t drawn[64] = {0};
    arena mem = {0};
    step_texts texts = {.n_own = 1, .mem = &mem};
    CHECK_OK(texts_add(&texts, ids, 3, 0));
    for (uint64_t step = 0; step < 3000; step++) {
        step_view v = {.m = m, .seed = 3, .step = step, .mem = &mem};
        texts.v[0].ids = ids;
        CHECK_OK(defense_safer.batch(NULL, &v, &texts));
        CHECK(texts.v[0].ids[1] == word && texts.v[0].ids[2] == STET_UNK);
        drawn[texts.v[0].ids[0]]++;
    }
    for (int k = 0; k < 5; k++) {
        char name[8];
        snprintf(name, sizeof name, "good%d", k);
        CHECK_NEAR((double)drawn[stet_vocab_id(m->vocab, name, 5)] / 3000, 0.2, 0.035);
    }
    arena_deinit(&mem);
    stet_model_free(m);
}

TEST(a_model_answers_by_the_mean_over_mixtures)
{
    stet_train_result t;
    stet_model *m, *again;
    float one[2], two[2], network[2], alone[2];
    uint32_t ids[64];
    size_t n;
    stet_train_args a = run_of("dne", SETTINGS("dne-draws=8"), at("dne"));
    CHECK_OK(stet_train(&a, &t));
    CHECK_LE(0.8, t.valid_accuracy);
    CHECK_OK(stet_model_load(a.out, &m));
    read_text(m, ids, &n);
    CHECK_OK(model_logits_of(m, ids, n, one));
    CHECK_NEAR(exp((double)one[0]) + exp((double)one[1]), 1, 1e-5);
    CHECK(one[1] > one[0]);
    /* the same text has the same answer, also from a copy; other draws another */
    CHECK_OK(stet_model_save(m, at("dne-copy")));
    CHECK_OK(stet_model_load(at("dne-copy"), &again));
    CHECK_OK(model_logits_of(again, ids, n, two));
    CHECK(one[0] == two[0] && one[1] == two[1]);
    uint64_t start[2] = {0, n};
    int32_t label = 0;
    const stet_corpus one_text = {1, n, 2, ids, start, &label};
    CHECK_OK(model_network_logits(m, &one_text, network));
    const double p = 1 / (1 + exp((double)(network[0] - network[1])));
    CHECK(fabs(exp((double)one[1]) - p) > 1e-6); /* mixtures are no words */
    /* where no word has a neighbour, a mixture is the word */
    kept_sets *sets = again->rule->state;
    memset(sets->words.start, 0, (sets->words.n_words + 1) * sizeof *sets->words.start);
    CHECK_OK(model_logits_of(again, ids, n, alone));
    CHECK_NEAR(exp((double)alone[1]), p, 1e-5);
    stet_model_free(again);
    stet_model_free(m);
}
