/* Tubes of an LSTM against the golden vectors. */
#include "certify/cert_lstm.h"
#include "certify/cert_lstm_rows.h"
#include "golden.h"

enum { D = 3, H = 2, N = 4, S = 3 };
static const double tolerance = 1e-10;

/* The BiLSTM of lstm_cert.json, in real arithmetic. */
typedef struct problem {
    arena mem;
    json_t *file;
    lstm_cell64 cell[2];
    uint32_t start[N + 1];
    double vectors[N * S * D], om[2 * H];
    lstm_head head;
    lstm_pair pair;
} problem;

static void read_cell(problem *p, int d, const char *name)
{
    const json_t *params = json_object_get(p->file, name);
    double w[4 * H * D], u[4 * H * H], b[4 * H], zero[4 * H] = {0};
    for (size_t q = 0; q < 4; q++) {
        const char gate = "ifgo"[q], W[] = {'W', gate, 0}, U[] = {'U', gate, 0},
                   B[] = {'b', gate, 0};
        CHECK_EQ(doubles(json_object_get(params, W), w + q * H * D), H * D);
        CHECK_EQ(doubles(json_object_get(params, U), u + q * H * H), H * H);
        CHECK_EQ(doubles(json_object_get(params, B), b + q * H), H);
    }
    CHECK_OK(lstm_cell64_init(&p->cell[d], D, H, w, u, b, zero, &p->mem));
}

static void read_problem(problem *p)
{
    *p = (problem){0};
    p->file = golden("lstm_cert.json");
    read_cell(p, 0, "params_fwd");
    read_cell(p, 1, "params_bwd");
    CHECK_EQ(doubles(json_object_get(p->file, "E"), p->vectors), N * S * D);
    CHECK_EQ(doubles(json_object_get(p->file, "om"), p->om), 2 * H);
    for (uint32_t i = 0; i <= N; i++)
        p->start[i] = i * S;
    p->head = (lstm_head){
        .om = p->om, .bias = json_number_value(json_object_get(p->file, "be")), .relu = true};
    cert_encoded words[2];
    for (int d = 0; d < 2; d++)
        CHECK_OK(
            cert_encode_vectors(p->vectors, N * S, D, p->cell[d].wt, 4 * H, &p->mem, &words[d]));
    CHECK_OK(lstm_pair_open(&p->pair, p->cell, lstm_exact, N, 0, p->start, words, &p->mem));
}

static void close_problem(problem *p)
{
    json_decref(p->file);
    arena_deinit(&p->mem);
}

static void check_values(const char *what, const json_t *want, const double *got)
{
    double w[64];
    const size_t n = doubles(want, w);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(w[i] - got[i]) <= tolerance))
            test_fail(__FILE__, __LINE__, "%s[%zu]: %.17g, golden %.17g", what, i, got[i], w[i]);
}

static void check_box(const char *tube, size_t step, const char *what, const json_t *want,
                      ivals got)
{
    char name[128];
    snprintf(name, sizeof name, "%s, step %zu, %s lo", tube, step, what);
    check_values(name, json_object_get(want, "lo"), got.lo);
    snprintf(name, sizeof name, "%s, step %zu, %s hi", tube, step, what);
    check_values(name, json_object_get(want, "hi"), got.hi);
}

static void check_tube(problem *p, tube_level level, const char *name)
{
    CHECK_OK(lstm_pair_build(&p->pair, level));
    const lstm_tube *tube = &p->pair.piece[0].tube[level][0];
    const json_t *steps = json_object_get(json_object_get(p->file, "fwd_tubes"), name);
    CHECK_EQ(json_array_size(steps), N);
    for (size_t t = 0; t < N; t++) {
        const json_t *step = json_array_get(steps, t), *T = json_object_get(step, "T");
        check_values("clean h", json_object_get(step, "h0"), p->pair.piece[0].text[0].h + (t + 1) * H);
        check_values("clean c", json_object_get(step, "c0"), p->pair.piece[0].text[0].c + (t + 1) * H);
        for (size_t q = 0; q < 4; q++) {
            const char gate[] = {"ifgo"[q], 0}, coefficient[] = {'P', "ifgo"[q], 0};
            check_box(name, t, gate, json_object_get(T, gate),
                      ivals_from(tube->T, t * 4 * H + q * H));
            if (q != GO)
                check_box(name, t, coefficient, json_object_get(step, coefficient),
                          ivals_from(tube->P, t * 3 * H + q * H));
        }
        check_box(name, t, "E", json_object_get(step, "E"), ivals_from(tube->E, t * H));
        check_box(name, t, "G", json_object_get(step, "G"), ivals_from(tube->G, t * H));
        check_box(name, t, "c", json_object_get(step, "c"), ivals_from(tube->c, (t + 1) * H));
        check_box(name, t, "h", json_object_get(step, "h"), ivals_from(tube->h, (t + 1) * H));
    }
}

/* The sum with at most `budget` of the drops; all of them with N. */
static double sum(const problem *p, lstm_margin m, size_t budget)
{
    double drop[N], margin = m.base;
    for (size_t i = 0; i < N; i++) {
        drop[i] = 0;
        for (size_t k = i * S + 1; k < (i + 1) * S; k++)
            drop[i] = fmax(drop[i], -p->pair.contribution[k]);
    }
    for (size_t r = 0; r < budget; r++) {
        size_t worst = 0;
        for (size_t i = 0; i < N; i++)
            worst = drop[i] > drop[worst] ? i : worst;
        margin -= drop[worst];
        drop[worst] = 0;
    }
    return margin;
}

static double golden_margin(const problem *p, const char *tube, const char *what, const char *sub)
{
    const json_t *v =
        json_object_get(json_object_get(json_object_get(p->file, "certs"), tube), what);
    if (sub)
        v = json_object_get(v, sub);
    CHECK(json_is_number(v));
    return json_number_value(v);
}

static void check_margins(problem *p, tube_level level, const char *name)
{
    const double least = json_number_value(json_object_get(p->file, "exhaustive_min"));
    const double box = lstm_box_margin(&p->pair, level, &p->head).base;
    const lstm_margin adjoint = lstm_sum_margin(&p->pair, level, FORM_ADJOINT, &p->head);
    CHECK_NEAR(box, golden_margin(p, name, "box", NULL), tolerance);
    CHECK_NEAR(adjoint.base, golden_margin(p, name, "clean", NULL), tolerance);
    CHECK_NEAR(sum(p, adjoint, N), golden_margin(p, name, "adj", NULL), tolerance);
    CHECK_LE(box, least);
    CHECK_LE(sum(p, adjoint, N), least);
}

/* Without coefficients the boxes are the same numbers. */
static void check_boxes_alone(problem *p)
{
    CHECK_OK(lstm_pair_build(&p->pair, TUBE_BOX));
    for (int d = 0; d < 2; d++) {
        const lstm_tube *a = &p->pair.piece[0].tube[TUBE_BOX][d],
                        *b = &p->pair.piece[0].tube[TUBE_IBP][d];
        CHECK(memcmp(a->T.lo, b->T.lo, sizeof(double) * N * 8 * H) == 0); /* hi follows lo */
        CHECK(memcmp(a->h.lo, b->h.lo, sizeof(double) * (N + 1) * 2 * H) == 0);
        CHECK(memcmp(a->c.lo, b->c.lo, sizeof(double) * (N + 1) * 2 * H) == 0);
    }
}

TEST(golden_interval_tube)
{
    static problem p;
    read_problem(&p);
    check_tube(&p, TUBE_IBP, "ibp");
    check_margins(&p, TUBE_IBP, "ibp");
    check_boxes_alone(&p);
    close_problem(&p);
}

TEST(golden_derivative_tube)
{
    static problem p;
    read_problem(&p);
    check_tube(&p, TUBE_GBM, "gbm_and_ibp_derivative");
    check_margins(&p, TUBE_GBM, "derivative_both");
    const lstm_margin m = lstm_sum_margin(&p.pair, TUBE_GBM, FORM_ADJOINT, &p.head);
    CHECK_NEAR(sum(&p, m, 1), golden_margin(&p, "derivative_both", "adj_r", "1"), tolerance);
    CHECK_NEAR(sum(&p, m, 2), golden_margin(&p, "derivative_both", "adj_r", "2"), tolerance);
    close_problem(&p);
}

TEST(golden_slope_tube)
{
    static problem p;
    read_problem(&p);
    check_tube(&p, TUBE_SLOPE, "slope");
    check_margins(&p, TUBE_SLOPE, "slope");
    close_problem(&p);
}

TEST(golden_affine_tube)
{
    static problem p;
    read_problem(&p);
    check_tube(&p, TUBE_AFFINE, "affine");
    check_margins(&p, TUBE_AFFINE, "affine");
    const lstm_margin m = lstm_sum_margin(&p.pair, TUBE_AFFINE, FORM_AFFINE, &p.head);
    CHECK_NEAR(sum(&p, m, N), golden_margin(&p, "affine", "aff", NULL), tolerance);
    for (size_t r = 1; r <= 2; r++) {
        const char name[] = {(char)('0' + r), 0};
        const lstm_margin affine = lstm_sum_margin(&p.pair, TUBE_AFFINE, FORM_AFFINE, &p.head);
        const double from_affine = sum(&p, affine, r);
        const lstm_margin adjoint = lstm_sum_margin(&p.pair, TUBE_AFFINE, FORM_ADJOINT, &p.head);
        CHECK_NEAR(fmax(from_affine, sum(&p, adjoint, r)), golden_margin(&p, "affine", "bud", name),
                   tolerance);
        CHECK_LE(
            golden_margin(&p, "affine", "bud", name),
            json_number_value(json_object_get(json_object_get(p.file, "exhaustive_budget"), name)));
    }
    close_problem(&p);
}

/* There are no golden lines, but they may not be worse than the best of the golden margins. */
TEST(lines_are_between_the_golden_margin_and_the_truth)
{
    static problem p;
    read_problem(&p);
    CHECK_OK(lstm_pair_build(&p.pair, TUBE_LINEAR));
    const json_t *truth = json_object_get(p.file, "exhaustive_budget");
    for (size_t r = 1; r <= N; r++) {
        const char name[] = {(char)('0' + r), 0};
        const json_t *least =
            r <= 2 ? json_object_get(truth, name) : json_object_get(p.file, "exhaustive_min");
        double best = -INFINITY;
        for (lstm_form form = FORM_ADJOINT; form < FORMS; form++)
            if (form != FORM_AFFINE) {
                const lstm_margin m = lstm_sum_margin(&p.pair, TUBE_LINEAR, form, &p.head);
                best = fmax(best, sum(&p, m, r));
            }
        CHECK_LE(best, json_number_value(least));
        CHECK_LE(r <= 2 ? golden_margin(&p, "affine", "bud", name)
                        : golden_margin(&p, "affine", "best", NULL),
                 best);
    }
    close_problem(&p);
}

/* ---- side by side ------------------------------------------------------------------------- */

/* The golden text over and over, in pieces of N words: more pieces than are walked together, and a
 * shorter one at the end. */
enum { TIMES = LSTM_ABREAST + 2, LAST = 2, LONG = TIMES * N + LAST };

static void check_piece(const lstm_piece *got, const lstm_piece *want, tube_level level, int d)
{
    const lstm_tube *a = &got->tube[level][d], *b = &want->tube[level][d];
    const size_t n = got->text[d].n, states = (n + 1) * H * sizeof(double);
    CHECK(memcmp(got->text[d].h, want->text[d].h, states) == 0);
    CHECK(memcmp(a->T.lo, b->T.lo, n * 4 * H * sizeof(double)) == 0);
    CHECK(memcmp(a->T.hi, b->T.hi, n * 4 * H * sizeof(double)) == 0);
    CHECK(memcmp(a->h.lo, b->h.lo, states) == 0);
    CHECK(memcmp(a->h.hi, b->h.hi, states) == 0);
    CHECK(memcmp(a->c.hi, b->c.hi, states) == 0);
}

/* n words of the golden text, repeated, in one reading or in pieces. */
static void open_words(problem *p, size_t n, size_t span, lstm_pair *pair)
{
    uint32_t *start = arena_new(&p->mem, uint32_t, n + 1);
    double *vectors = arena_new(&p->mem, double, n *S *D);
    CHECK(start && vectors);
    for (size_t i = 0; i <= n; i++)
        start[i] = (uint32_t)(i * S);
    for (size_t i = 0; i < n * S * D; i++)
        vectors[i] = p->vectors[i % (N * S * D)];
    cert_encoded words[2];
    for (int d = 0; d < 2; d++)
        CHECK_OK(cert_encode_vectors(vectors, n * S, D, p->cell[d].wt, 4 * H, &p->mem, &words[d]));
    CHECK_OK(lstm_pair_open(pair, p->cell, lstm_float32, n, span, start, words, &p->mem));
}

TEST(pieces_are_what_they_are_alone)
{
    static problem p;
    read_problem(&p);
    lstm_pair all, whole, last;
    open_words(&p, LONG, N, &all);
    open_words(&p, N, 0, &whole);
    open_words(&p, LAST, 0, &last);
    CHECK_EQ(all.pieces, TIMES + 1);
    for (tube_level level = TUBE_BOX; level < TUBE_LEVELS; level++) {
        CHECK_OK(lstm_pair_build(&all, level));
        CHECK_OK(lstm_pair_build(&whole, level));
        CHECK_OK(lstm_pair_build(&last, level));
        for (size_t k = 0; k < all.pieces; k++)
            for (int d = 0; d < 2; d++)
                check_piece(&all.piece[k], k < TIMES ? &whole.piece[0] : &last.piece[0], level, d);
    }
    close_problem(&p);
}

/* Sizes that fill tiles and leave some over. */
TEST(rows_in_a_product_do_not_depend_on_their_neighbours)
{
    enum { M = 7, COLS = 150, K = 33 };
    static double b[K * COLS], x[M * K], r[M * K], mid[M * COLS], rad[M * COLS], one[2][COLS];
    uint32_t seed = 1;
    for (size_t i = 0; i < K * COLS; i++)
        b[i] = (double)((seed = seed * 1664525 + 1013904223) >> 8) * 0x1p-23 - 1;
    for (size_t i = 0; i < M * K; i++) {
        x[i] = (double)((seed = seed * 1664525 + 1013904223) >> 8) * 0x1p-23 - 1;
        r[i] = (double)((seed = seed * 1664525 + 1013904223) >> 8) * 0x1p-24;
    }
    rows_range(M, COLS, K, b, x, r, mid, rad);
    for (size_t i = 0; i < M; i++) {
        rows_range(1, COLS, K, b, x + i * K, r + i * K, one[0], one[1]);
        CHECK(memcmp(one[0], mid + i * COLS, sizeof one[0]) == 0);
        CHECK(memcmp(one[1], rad + i * COLS, sizeof one[1]) == 0);
        for (size_t j = 0; j < COLS; j++) {
            double m = 0, s = 0;
            for (size_t k = 0; k < K; k++) {
                m += b[k * COLS + j] * x[i * K + k];
                s += fabs(b[k * COLS + j]) * r[i * K + k];
            }
            CHECK_NEAR(one[0][j], m, 1e-12);
            CHECK_NEAR(one[1][j], s, 1e-12);
        }
    }
}
