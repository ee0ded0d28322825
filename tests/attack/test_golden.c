/* The worked cases of the attacks, by hand and by an independent script: same texts, same
 * probabilities, same counts. */
#include "attack/pso.h"
#include "attack/record.h"
#include "toy.h"

TEST(pwws_of_openattack_writes_the_largest_gains_first)
{
    toy t;
    toy_start(&t, good_film, -1, NULL, 0);
    CHECK_NEAR(search_p(&t.s, 0), 0.937026644, 1e-6);
    CHECK_OK(toy_run(&t, "pwws", "openattack", NULL));
    CHECK(t.s.success);
    CHECK_STR(toy_text(&t, t.s.found), "decent film terrific fun");
    CHECK_NEAR(toy_p(&t, t.s.found), 0.475020813, 1e-6);
    CHECK_EQ(t.s.queries, 18);
    toy_end(&t);
}

TEST(pwws_of_textattack_finds_the_same_with_fewer_queries)
{
    toy t;
    toy_start(&t, good_film, -1, NULL, 0);
    CHECK_OK(toy_run(&t, "pwws", "textattack", NULL));
    CHECK(t.s.success);
    CHECK_STR(toy_text(&t, t.s.found), "decent film terrific fun");
    CHECK_EQ(t.s.queries, 15);
    toy_end(&t);
}

static const toy_word two_orders[] = {
    {"a1", 0.5, {{"a2", 0.45}}, false}, {"b1", 0.1, {{"b2", 0.0}}, false}, {0}};

TEST(pwws_orders_by_gain_or_by_score)
{
    /* A budget that ends after the first substitution shows which came first. */
    static const char *const one_step[] = {"budget=9", NULL}, *const ta_step[] = {"budget=6", NULL};
    toy t;
    toy_start(&t, two_orders, 0.1, NULL, 0);
    CHECK_NEAR(search_p(&t.s, 0), 0.668187772, 1e-6);
    CHECK_EQ(toy_run(&t, "pwws", "openattack", one_step), OVER_BUDGET);
    CHECK_EQ(t.s.found[1], 1); /* b1 first; a1 is written as the budget runs out */
    toy_end(&t);
    toy_start(&t, two_orders, 0.1, NULL, 0);
    CHECK_EQ(toy_run(&t, "pwws", "textattack", ta_step), OVER_BUDGET);
    CHECK_STR(toy_text(&t, t.s.found), "a2 b1");
    toy_end(&t);
}

TEST(pwws_of_openattack_writes_what_hurts_it_too)
{
    static const toy_word worse[] = {{"a", 1, {{"x", 2}}, false},
                                     {"the", 0, {{"an", 1}}, true},
                                     {"b", 1, {{"y", 2}}, false},
                                     {0}};
    toy t;
    toy_start(&t, worse, 0, NULL, 0);
    CHECK_OK(toy_run(&t, "pwws", "openattack", NULL));
    CHECK(!t.s.success);
    CHECK_STR(toy_text(&t, t.s.found), "x the y");
    CHECK_EQ(t.s.queries, 1 + 4 + (2 + 2 + 2) + 2); /* the stop word costs queries, but stays */
    toy_end(&t);
    toy_start(&t, worse, 0, NULL, 0);
    CHECK_OK(toy_run(&t, "pwws", "textattack", NULL));
    CHECK_STR(toy_text(&t, t.s.found), "a the b");
    toy_end(&t);
}

TEST(ga_of_openattack_takes_these_draws)
{
    static const double u[] = {0.05, 0.45, 0.95, 0.20, 0.70, 0.90, 0.10, 0.7,  0.3,
                               0.1,  0.9,  0.6,  0.2,  0.8,  0.4,  0.70, 0.10, 0.65};
    static const char *const settings[] = {"ga-population=3", "ga-iterations=2", NULL};
    toy t;
    toy_start(&t, good_film, -1, u, sizeof u / sizeof *u);
    CHECK_OK(toy_run(&t, "ga", "openattack", settings));
    CHECK(t.s.success);
    CHECK_STR(toy_text(&t, t.s.found), "decent picture terrific fun");
    CHECK_NEAR(toy_p(&t, t.s.found), 0.450166003, 1e-6);
    CHECK_EQ(t.s.queries, 20);
    CHECK_EQ(t.chance.used, sizeof u / sizeof *u);
    toy_end(&t);
}

TEST(ga_has_nothing_to_do_when_all_words_stay)
{
    static const toy_word all[] = {{"a", 1, {{"x", 0}}, true}, {"b", 1, {{"y", 0}}, true}, {0}};
    toy t;
    toy_start(&t, all, 0, NULL, 0);
    CHECK_OK(toy_run(&t, "ga", "openattack", NULL));
    CHECK(!t.s.success);
    CHECK_EQ(t.s.queries, 1);
    toy_end(&t);
}

/* Two particles: good film super fun, decent film great fun; one move at t = 0. */
static void move_two(toy *t, pso *o, pso_cfg *cfg, int turn, size_t best)
{
    static const double u[] = {0.10, 0.3, 0.3, 0.3, 0.3, 0.05, 0.3, 0.3, 0.3, 0.3,
                               0.10, 0.3, 0.3, 0.3, 0.3, 0.05, 0.3, 0.3, 0.3, 0.3};
    toy_start(t, good_film, -1, u, sizeof u / sizeof *u);
    *cfg = (pso_cfg){.population = 2, .rounds = 20, .turn = turn};
    CHECK_OK(pso_init(o, &t->s, cfg));
    o->p[0].x[2] = o->p[0].own[2] = 1;
    o->p[1].x[0] = o->p[1].own[0] = 2;
    CHECK_NEAR(toy_p(t, o->p[0].x), 0.900249511, 1e-6);
    CHECK_NEAR(toy_p(t, o->p[1].x), 0.817574476, 1e-6);
    memcpy(o->best, o->p[best].x, t->s.n * sizeof *o->best);
    for (size_t i = 0; i < 4; i++)
        o->p[0].v[i] = -1.5, o->p[1].v[i] = 1.5;
    for (size_t k = 0; k < 2; k++)
        pso_move(o, &o->p[k], 0.8, 0.8, 0.2);
}

TEST(pso_of_openattack_moves_the_better_onto_the_worse)
{
    toy t;
    pso o;
    pso_cfg cfg;
    move_two(&t, &o, &cfg, PSO_TURN_BEST, 0);
    CHECK_STR(toy_text(&t, o.p[0].x), "good film super fun");
    CHECK_STR(toy_text(&t, o.p[1].x), "good film super fun");
    for (size_t i = 0; i < 4; i++) {
        CHECK_NEAR(o.p[0].v[i], -2.4, 1e-6);
        CHECK_NEAR(o.p[1].v[i], i % 2 ? 0 : 1.2, 1e-6);
    }
    toy_end(&t);
}

TEST(pso_as_published_and_with_swapped_roles)
{
    toy t;
    pso o;
    pso_cfg cfg;
    move_two(&t, &o, &cfg, PSO_TURN_BEST, 1);
    CHECK_STR(toy_text(&t, o.p[0].x), "good film super fun");
    CHECK_STR(toy_text(&t, o.p[1].x), "decent film great fun");
    CHECK_NEAR(o.p[0].v[0], -1.2, 1e-6);
    CHECK_NEAR(o.p[0].v[1], -2.4, 1e-6);
    CHECK_NEAR(o.p[1].v[2], 0, 1e-6);
    toy_end(&t);
    move_two(&t, &o, &cfg, PSO_TURN_PARTICLE, 1);
    CHECK_STR(toy_text(&t, o.p[0].x), "decent film great fun");
    CHECK_STR(toy_text(&t, o.p[1].x), "decent film great fun");
    toy_end(&t);
}

TEST(pso_starts_and_mutates_by_these_draws)
{
    static const double u[] = {0.25, 0.75, 0.20, 0.10, 0.65, 0.9};
    toy t;
    toy_start(&t, good_film, -1, u, 6);
    const pso_cfg cfg = {.population = 2, .rounds = 20};
    pso o;
    CHECK_OK(pso_init(&o, &t.s, &cfg));
    pso_velocities(&o);
    CHECK_NEAR(o.p[0].v[3], -1.5, 1e-12);
    CHECK_NEAR(o.p[1].v[0], 1.5, 1e-12);
    o.p[0].x[0] = 2;
    CHECK_OK(pso_mutate(&o, &o.p[0]));
    CHECK_STR(toy_text(&t, o.p[0].x), "decent film terrific fun");
    CHECK_NEAR(toy_p(&t, o.p[0].x), 0.475020813, 1e-6);
    toy_end(&t);
}

TEST(pso_mutates_less_the_more_has_changed)
{
    static const double u[] = {0.0, 0.49, 0.65, 0.4};
    toy t;
    toy_start(&t, good_film, -1, u, 4);
    pso_cfg cfg = {.population = 2, .rounds = 20, .ratio = PSO_RATIO_WORDS};
    pso o;
    CHECK_OK(pso_init(&o, &t.s, &cfg));
    o.p[0].x[0] = 2, o.p[0].x[1] = 1;
    CHECK_OK(pso_mutate(&o, &o.p[0])); /* half of the words: never */
    CHECK_EQ(t.chance.used, 1);
    cfg.ratio = PSO_RATIO_ANY;
    CHECK_OK(pso_mutate(&o, &o.p[0])); /* 1 - 2/4 */
    CHECK_STR(toy_text(&t, o.p[0].x), "decent movie super fun");
    toy_end(&t);
}

static const toy_word four_greats[] = {
    {"good", 1.0, {{"fine", 0.6}, {"decent", -0.2}}, false},
    {"film", 0.2, {{"movie", 0.3}, {"picture", 0.1}}, false},
    {"great", 2.0, {{"super", 1.5}, {"terrific", 0.4}, {"marvelous", 0.1}, {"okay", 0.2}}, false},
    {"fun", 0.5, {{NULL, 0}}, false},
    {0},
};

/* Similarities of the case, by the word that is put in; `okay` is set by the test. */
static double okay_similarity = .90;
static double given_similarity(void *user, const uint32_t *a, const uint32_t *b, size_t n)
{
    const toy *t = user;
    static const struct {
        const char *name;
        double value;
    } table[] = {{"super", .95}, {"terrific", .80}, {"marvelous", .70},
                 {"okay", .90},  {"fine", .9},      {"decent", .8}};
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; a[i] != b[i] && k < 6; k++)
            if (strcmp(t->name[b[i]], table[k].name) == 0)
                return k == 3 ? okay_similarity : table[k].value;
    return 1;
}

static void fool(toy *t, const char *profile, const char *least, const char *expected)
{
    const char *settings[] = {least, "similarity-scale=cosine", "window=3",
                              "textfooler-importance=mask", NULL};
    toy_start(t, four_greats, -2, NULL, 0);
    CHECK_NEAR(search_p(&t->s, 0), 0.845534735, 1e-6);
    t->s.keep.similarity = given_similarity;
    t->s.keep.user = t;
    CHECK_OK(toy_run(t, "textfooler", profile, settings));
    CHECK(t->s.success);
    CHECK_STR(toy_text(t, t->s.found), expected);
}

TEST(textfooler_takes_the_closest_that_turns)
{
    toy t;
    fool(&t, "openattack", "least-similarity=0.75", "good film okay fun");
    CHECK_NEAR(toy_p(&t, t.s.found), 0.475020813, 1e-6);
    CHECK_EQ(t.s.queries, 2 + 4 + 4 + 2);
    toy_end(&t);
    fool(&t, "openattack", "least-similarity=0.65", "good film okay fun");
    toy_end(&t);
}

TEST(textfooler_goes_on_with_the_next_word)
{
    toy t;
    okay_similarity = .60; /* nobody that turns is allowed: the penalty of 1 leaves terrific, then
                              fine is the closest */
    fool(&t, "openattack", "least-similarity=0.75", "fine film terrific fun");
    CHECK_NEAR(toy_p(&t, t.s.found), 0.425557483, 1e-6);
    toy_end(&t);
    fool(&t, "textattack", "least-similarity=0.75", "fine film terrific fun");
    CHECK_EQ(t.s.queries, 1 + 4 + 2 + 2); /* what is not allowed is not asked */
    toy_end(&t);
}

/* Three classes; the answers are given, and the first position whose candidate is asked is
 * remembered. */
static size_t asked_first;
static stet_status three_classes(victim *v, const stet_edit *e, const size_t *start, size_t n,
                                 double *prob)
{
    static const double clean[] = {.50, .30, .20},
                        hidden[2][3] = {{.42, .29, .29}, {.44, .45, .11}};
    (void)v;
    for (size_t i = 0; i < n; i++) {
        const bool edited = start[i + 1] > start[i],
                   masked = edited && e[start[i]].word == STET_UNK;
        memcpy(prob + 3 * i, masked ? hidden[e[start[i]].pos] : clean, sizeof clean);
        if (edited && !masked && asked_first == SIZE_MAX)
            asked_first = e[start[i]].pos;
    }
    return STET_OK;
}

TEST(textfooler_adds_what_the_new_class_gains)
{
    static const toy_word ab[] = {{"a", 0, {{"x", 0}}, false}, {"b", 0, {{"y", 0}}, false}, {0}};
    static const char *const by_mask[] = {"textfooler-importance=mask", NULL};
    static const struct {
        const char *profile;
        size_t first;
    } cases[] = {{"openattack", 1}, {"original", 1}, {"textattack", 0}};
    for (size_t k = 0; k < 3; k++) {
        toy t;
        toy_start(&t, ab, 0, NULL, 0);
        t.victim.v.ask = three_classes;
        t.victim.v.n_classes = 3;
        t.s.y = 0;
        CHECK_OK(search_start(&t.s, &t.text));
        asked_first = SIZE_MAX;
        CHECK_OK(toy_run(&t, "textfooler", cases[k].profile, by_mask));
        CHECK_EQ(asked_first, cases[k].first);
        toy_end(&t);
    }
}

TEST(windows_of_fifteen_words)
{
    static const struct {
        size_t n, i, from, to;
    } cases[] = {{20, 3, 0, 15}, {20, 10, 3, 18}, {20, 17, 5, 20}, {9, 2, 0, 9},
                 {9, 8, 0, 9},   {20, 7, 0, 15},  {20, 12, 5, 20}, {20, 13, 5, 20}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t from, to;
        constraint_window(cases[k].n, cases[k].i, 15, &from, &to);
        CHECK_EQ(from, cases[k].from);
        CHECK_EQ(to, cases[k].to);
    }
}
