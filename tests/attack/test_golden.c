/* The worked cases of the attacks, by hand and by an independent script: same texts, same
 * probabilities, same counts. Metrics, tokens and candidate rules are in test_golden_metrics.c. */
#include "attack/pso.h"
#include "attack/steps.h"
#include "base/buf.h"
#include "base/file.h"
#include "toy.h"

/* P(y) of the text with p at i. */
static double p_with(toy *t, size_t i, pick p)
{
    pick x[TOY_MAX] = {0};
    x[i] = p;
    return toy_p(t, x);
}

/* H of every position by a rule. */
static void rank_all(toy *t, int rule, pwws_ranking *r, size_t *place)
{
    for (size_t i = 0; i < t->s.n; i++)
        place[i] = i;
    *r = (pwws_ranking){.place = place, .n = t->s.n};
    CHECK_OK(pwws_rank(&t->s, rule, r));
}

TEST(pwws_weighs_saliency_and_gain)
{
    static const struct {
        double masked, saliency, phi, best, gain, h_openattack, h_textattack;
        pick choice;
    } row[] = {
        {0.845534735, 0.091491909, 0.245990144, 0.817574476, 0.119452168, 0.029384056, 0.044874881,
         2},
        {0.924141820, 0.012884824, 0.227394043, 0.930861580, 0.006165064, 0.001401899, 0.015721665,
         2},
        {0.668187772, 0.268838872, 0.293723378, 0.750260106, 0.186766538, 0.054857699, 0.073354445,
         2},
        {0.900249511, 0.036777133, 0.232892435, 0.937026644, 0, 0, 0, 0},
    };
    toy t;
    toy_start(&t, good_film, -1, NULL, 0);
    pwws_ranking oa, ta;
    size_t place[4];
    rank_all(&t, RULE_OPENATTACK, &oa, place);
    rank_all(&t, RULE_TEXTATTACK, &ta, place);
    const double clean = search_p(&t.s, 0);
    const double rest = 1 - row[3].phi; /* fun has no candidates: its share is left to the others */
    for (size_t i = 0; i < 4; i++) {
        CHECK_NEAR(p_with(&t, i, PICK_MASKED), row[i].masked, 1e-6);
        CHECK_NEAR(clean - p_with(&t, i, PICK_MASKED), row[i].saliency, 1e-6);
        CHECK_EQ(oa.best[i], row[i].choice);
        CHECK_NEAR(p_with(&t, i, oa.best[i]), row[i].best, 1e-6);
        CHECK_NEAR(clean - p_with(&t, i, oa.best[i]), row[i].gain, 1e-6);
        CHECK_NEAR(oa.h[i] * rest, row[i].h_openattack, 1e-6);
        CHECK_NEAR(ta.h[i] * rest, row[i].h_textattack, 1e-6);
        if (row[i].choice)
            CHECK_NEAR(oa.h[i] * rest / (clean - p_with(&t, i, oa.best[i])), row[i].phi, 1e-6);
    }
    CHECK_NEAR(p_with(&t, 1, 1), 0.942675824, 1e-6); /* movie helps the victim: not chosen */
    toy_end(&t);
}

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
    CHECK_NEAR(search_p(&t.s, 0) - p_with(&t, 0, PICK_MASKED), 0.118353775, 1e-6);
    CHECK_NEAR(search_p(&t.s, 0) - p_with(&t, 1, PICK_MASKED), 0.022531466, 1e-6);
    pwws_ranking r;
    size_t place[2];
    rank_all(&t, RULE_OPENATTACK, &r, place);
    CHECK_NEAR(r.h[0], 0.005856209, 1e-6);
    CHECK_NEAR(r.h[1], 0.010726391, 1e-6);
    rank_all(&t, RULE_TEXTATTACK, &r, place);
    CHECK_NEAR(r.h[0], 0.179705000, 1e-6);
    CHECK_NEAR(r.h[1], 0.168689828, 1e-6);
    CHECK_NEAR(r.h[0] / (1 - p_with(&t, 0, 1)), 0.523937264, 1e-6); /* phi */
    CHECK_NEAR(r.h[1] / (1 - p_with(&t, 1, 1)), 0.476062736, 1e-6);
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

static const double ga_draws[] = {0.05, 0.45, 0.95, 0.20, 0.70, 0.90, 0.10, 0.7,  0.3,
                                  0.1,  0.9,  0.6,  0.2,  0.8,  0.4,  0.70, 0.10, 0.65};
enum { GA_DRAWS = sizeof ga_draws / sizeof *ga_draws };

TEST(ga_of_openattack_takes_these_draws)
{
    static const char *const settings[] = {"ga-population=3", "ga-iterations=2", NULL};
    toy t;
    toy_start(&t, good_film, -1, ga_draws, GA_DRAWS);
    CHECK_OK(toy_run(&t, "ga", "openattack", settings));
    CHECK(t.s.success);
    CHECK_STR(toy_text(&t, t.s.found), "decent picture terrific fun");
    CHECK_NEAR(toy_p(&t, t.s.found), 0.450166003, 1e-6);
    CHECK_EQ(t.s.queries, 20);
    CHECK_EQ(t.chance.used, GA_DRAWS);
    toy_end(&t);
}

TEST(ga_gains_of_the_worked_generation)
{
    static const struct {
        pick x[4];
        size_t at;
        pick with;
        double gain;
    } cases[] = {
        {{0}, 0, 1, 0.028150},          {{0}, 0, 2, 0.119452},          {{0}, 1, 1, -0.005649},
        {{0}, 1, 2, 0.006165},          {{0}, 2, 1, 0.036777},          {{0}, 2, 2, 0.186767},
        {{2, 2, 0, 0}, 2, 1, 0.091234}, {{2, 2, 0, 0}, 2, 2, 0.352018},
    };
    toy t;
    toy_start(&t, good_film, -1, NULL, 0);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        pick x[4];
        memcpy(x, cases[k].x, sizeof x);
        const double before = toy_p(&t, x);
        x[cases[k].at] = cases[k].with;
        CHECK_NEAR(before - toy_p(&t, x), cases[k].gain, 1e-6);
    }
    toy_end(&t);
}

TEST(ga_parents_by_three_rules)
{
    static const double p[] = {0.817574476, 0.930861580, 0.937026644};
    static const double share[3][3] = {{0.579980574, 0.219809925, 0.200209501},
                                       {0.424262079, 0.290826741, 0.284911180},
                                       {0.253298144, 0.369514842, 0.377187014}};
    for (int rule = SELECT_OPENATTACK; rule <= SELECT_INVERTED; rule++) {
        double sum = 0;
        for (size_t k = 0; k < 3; k++)
            sum += ga_fitness(rule, p[k]);
        for (size_t k = 0; k < 3; k++)
            CHECK_NEAR(ga_fitness(rule, p[k]) / sum, share[rule][k], 1e-6);
    }
    CHECK_NEAR(ga_fitness(SELECT_OPENATTACK, p[0]), 0.182425524, 1e-6);
}

TEST(ga_never_looks_at_its_last_children)
{
    /* The draws of the worked generation, whose third member flips: with one round nobody sees it.
     */
    static const char *const settings[] = {"ga-population=3", "ga-iterations=1", NULL};
    toy t;
    toy_start(&t, good_film, -1, ga_draws, GA_DRAWS);
    CHECK_OK(toy_run(&t, "ga", "openattack", settings));
    CHECK(!t.s.success);
    CHECK_STR(toy_text(&t, t.s.found), "decent film great fun"); /* best of the first population */
    CHECK_EQ(t.s.queries, 1 + (3 + 3 + 0) + 3 + (3 + 3));
    CHECK_EQ(t.chance.used, GA_DRAWS);
    toy_end(&t);
}

TEST(ga_may_change_a_changed_word_again_when_none_is_left)
{
    static const toy_word ab[] = {
        {"a", 1, {{"x", .9}, {"y", .8}}, false}, {"b", 1, {{"z", .9}}, false}, {0}};
    /* "y b" and "a z" have the child "y z"; then a's place is drawn, once, though it is changed. */
    static const double u[] = {.1, .9, .2, .9, .2, .8, .1};
    static const char *const settings[] = {"ga-population=2", "ga-iterations=1", NULL};
    toy t;
    toy_start(&t, ab, 3, u, 7);
    CHECK_OK(toy_run(&t, "ga", "openattack", settings));
    CHECK_EQ(t.chance.used, 7);
    /* Its candidates are x and y, the one in place, but not a. */
    CHECK_EQ(t.s.queries, 1 + (2 + 1) + (1 + 1) + 2 + (2 + 1));
    CHECK_EQ(t.s.evaluations, 6); /* ab xb yb az yz xz */
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
    for (size_t i = 0; i < 4; i++) { /* r = 1/(1+exp(-V)) is 0.083173; 0.768525 or 0.5 */
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

TEST(pso_may_draw_the_word_in_place)
{
    static const double u[] = {0.20, 0.65, 0.32}; /* great, super, terrific: the first third */
    toy t;
    toy_start(&t, good_film, -1, u, 3);
    const pso_cfg cfg = {.population = 2, .rounds = 20};
    pso o;
    CHECK_OK(pso_init(&o, &t.s, &cfg));
    o.p[0].x[0] = 2;
    CHECK_OK(pso_mutate(&o, &o.p[0]));
    CHECK_EQ(t.chance.used, 3);
    CHECK_STR(toy_text(&t, o.p[0].x), "decent film great fun");
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
static double given_similarity(void *user, const stet_words *w, const uint32_t *a,
                               const uint32_t *b, size_t n)
{
    (void)w;
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

TEST(textfooler_importance_counts_a_flip_twice)
{
    static const double masked[] = {0.668187772, 0.817574476, 0.425557483, 0.768524783},
                        oa[] = {0.177346963, 0.027960259, 0.839954503, 0.077009951},
                        ta[] = {0.331812228, 0.182425524, 0.574442517, 0.231475217};
    static const pick hide[] = {PICK_MASKED, PICK_DELETED}; /* both weigh nothing here */
    toy t;
    toy_start(&t, four_greats, -2, NULL, 0);
    CHECK_NEAR(search_p(&t.s, 0), 0.845534735, 1e-6);
    for (size_t i = 0; i < 4; i++)
        for (size_t h = 0; h < 2; h++) {
            pick x[4] = {0};
            x[i] = hide[h];
            size_t row;
            CHECK_OK(search_ask(&t.s, x, &row));
            CHECK_OK(search_answer(&t.s));
            CHECK_NEAR(search_p(&t.s, row), masked[i], 1e-6);
            CHECK_NEAR(textfooler_importance(&t.s, row, RULE_OPENATTACK), oa[i], 1e-6);
            CHECK_NEAR(textfooler_importance(&t.s, row, RULE_TEXTATTACK), ta[i], 1e-6);
        }
    static const double great[] = {0.768524783, 0.524979187, 0.450166003, 0.475020813};
    for (pick c = 1; c <= 4; c++)
        CHECK_NEAR(p_with(&t, 2, c), great[c - 1], 1e-6);
    toy_end(&t);
}

/* A tagger to which `okay` is an interjection between adjectives. */
static stet_tagger *okay_is_no_adjective(void)
{
    static const char *const adjectives[] = {"great", "super", "terrific", "marvelous"};
    buf b = {0};
    for (int k = 0; k < 6; k++) {
        const char *first = k < 4 ? "good" : k == 4 ? "fine" : "decent";
        buf_printf(&b, "1\t%s\t_\t_\tJJ\t_\t_\t_\t_\t_\n2\tfilm\t_\t_\tNN\t_\t_\t_\t_\t_\n", first);
        buf_printf(&b, "3\t%s\t_\t_\tJJ\t_\t_\t_\t_\t_\n4\tfun\t_\t_\tNN\t_\t_\t_\t_\t_\n\n",
                   adjectives[k % 4]);
        buf_printf(&b, "1\t%s\t_\t_\tJJ\t_\t_\t_\t_\t_\n2\tfilm\t_\t_\tNN\t_\t_\t_\t_\t_\n", first);
        buf_str(&b, "3\tokay\t_\t_\tUH\t_\t_\t_\t_\t_\n4\tfun\t_\t_\tNN\t_\t_\t_\t_\t_\n\n");
    }
    char path[512];
    snprintf(path, sizeof path, "%s/okay.conllu", test_dir());
    CHECK_OK(file_write_all(path, b.data, b.n));
    buf_deinit(&b);
    stet_tagger *t;
    CHECK_OK(stet_tagger_train(path, 20, 1, &t));
    return t;
}

TEST(textfooler_refuses_another_part_of_speech)
{
    static const char *const settings[] = {"least-similarity=0.75", "similarity-scale=cosine",
                                           "window=3", "textfooler-importance=mask", NULL};
    static const struct {
        const char *profile;
        uint64_t queries;
    } cases[] = {{"openattack", 2 + 4 + 4 + 2 + 2}, {"textattack", 1 + 4 + 2 + 2}};
    stet_tagger *tagger = okay_is_no_adjective();
    for (size_t k = 0; k < 2; k++) {
        toy t;
        toy_start(&t, four_greats, -2, NULL, 0);
        stet_words *w;
        CHECK_OK(stet_words_new(STET_TOK_WORD, &w));
        for (uint32_t id, n = STET_FIRST_WORD; t.name[n]; n++) {
            CHECK_OK(stet_words_add(w, t.name[n], strlen(t.name[n]), &id));
            CHECK_EQ(id, n);
        }
        t.s.keep =
            (constraints){.similarity = given_similarity, .user = &t, .tagger = tagger, .words = w};
        CHECK_OK(search_start(&t.s, &t.text));
        bool fits;
        for (pick c = 1; c <= 4; c++) {
            CHECK_OK(constraint_tag(&t.s, t.s.found, 2, c, &fits));
            CHECK_EQ(fits, c != 4);
        }
        CHECK_OK(toy_run(&t, "textfooler", cases[k].profile, settings));
        CHECK(t.s.success);
        CHECK_STR(toy_text(&t, t.s.found), "fine film terrific fun");
        CHECK_NEAR(toy_p(&t, t.s.found), 0.425557483, 1e-6);
        CHECK_EQ(t.s.queries, cases[k].queries);
        stet_words_free(w);
        toy_end(&t);
    }
    stet_tagger_free(tagger);
}

static double half_a_radian(void *user, const stet_words *w, const uint32_t *a,
                            const uint32_t *b, size_t n)
{
    (void)user, (void)w, (void)a, (void)b, (void)n;
    return 0.877582562;
}

TEST(similarity_on_three_scales)
{
    static const double value[] = {
        [SCALE_COSINE] = 0.877582562, [SCALE_ANGLE] = 0.5, [SCALE_ANGLE_PI] = 0.840845057};
    toy t;
    toy_start(&t, good_film, -1, NULL, 0);
    t.s.keep.similarity = half_a_radian;
    for (int scale = SCALE_COSINE; scale <= SCALE_ANGLE_PI; scale++) {
        double alike;
        t.s.common.scale = scale;
        CHECK_OK(constraint_similarity(&t.s, t.s.found, 0, 1, &alike));
        CHECK_NEAR(alike, value[scale], 1e-6);
    }
    toy_end(&t);
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
    static const double worth[2][2] = {{.08, .21}, {.58, .56}};
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
        const int rule = cases[k].first ? RULE_OPENATTACK : RULE_TEXTATTACK;
        for (size_t i = 0; i < 2; i++) {
            pick x[2] = {0};
            x[i] = PICK_MASKED;
            size_t row;
            CHECK_OK(search_ask(&t.s, x, &row));
            CHECK_OK(search_answer(&t.s));
            CHECK_NEAR(textfooler_importance(&t.s, row, rule), worth[rule][i], 1e-9);
        }
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
    } cases[] = {{20, 3, 0, 15}, {20, 10, 3, 18}, {20, 17, 5, 20}, {9, 2, 0, 9},   {9, 6, 0, 9},
                 {9, 8, 0, 9},   {20, 7, 0, 15},  {20, 12, 5, 20}, {20, 13, 5, 20}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t from, to;
        constraint_window(cases[k].n, cases[k].i, 15, &from, &to);
        CHECK_EQ(from, cases[k].from);
        CHECK_EQ(to, cases[k].to);
    }
}
