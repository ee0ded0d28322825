/* Ops of the defences: the GPU against the CPU. Skips where there is no GPU. */
#include "defense/dne.h"
#include "defense/embedding_adv.h"
#include "defense/tavat.h"
#include "tensor/gpu_case.h"

enum { TEXTS = 6, TOKENS = 100, DIM = 37, WORDS = 21, MOST = 5 };

static const uint32_t start[TEXTS + 1] = {0, 50, 80, 95, 98, 99, 100};

/* Texts of words drawn from WORDS. */
static seq_index *texts(gpu_case *c)
{
    seq_index *seq = arena_new(c->mem, seq_index, 1);
    uint32_t *row = arena_new(c->mem, uint32_t, TOKENS);
    CHECK(seq && row);
    for (int i = 0; i < TOKENS; i++)
        row[i] = (uint32_t)rng_below(&c->r, WORDS);
    *seq = (seq_index){TEXTS, TOKENS, WORDS, 50, start, row};
    return seq;
}

static node *moved(gpu_case *c, int variant)
{
    static const int norms[] = {ADV_L2, ADV_LINF, ADV_TOKEN};
    const adv_cfg how = {.step = 0.3, .radius = variant / 3 ? 0.2 : 0, .norm = norms[variant % 3]};
    node *delta = gpu_input(c, shape2(TOKENS, DIM), -0.1, 0.1);
    return adv_move(&c->t, &how, texts(c), delta, gpu_input(c, shape2(TOKENS, DIM), -1, 1));
}

static node *moved_in_parts(gpu_case *c, int variant)
{
    const adv_cfg how = {.step = 0.3, .radius = variant ? 0.2 : 0};
    node *of_text = gpu_input(c, shape2(TOKENS, DIM), -0.1, 0.1),
         *of_words = gpu_input(c, shape2(TOKENS, DIM), -0.1, 0.1);
    return tavat_move(&c->t, &how, texts(c), of_text, of_words,
                      gpu_input(c, shape2(TOKENS, DIM), -1, 1));
}

static node *drawn(gpu_case *c, int variant)
{
    const rng r = rng_stream(7, STREAM_DEFENSE, (uint64_t)variant);
    return adv_noise(&c->t, shape2(variant ? 3 * TOKENS : 1, DIM), r);
}

static node *begun(gpu_case *c, int variant)
{
    const adv_cfg how = {.start = 0.3, .norm = variant ? ADV_LINF : ADV_L2};
    return adv_begin(&c->t, &how, texts(c), gpu_input(c, shape2(TOKENS, DIM), -1, 1));
}

TEST(beginnings_are_the_cpus)
{
    gpu_check("adv_noise", drawn, 2, 0);
    gpu_check("adv_begin", begun, 2, 0);
}

TEST(moves_of_word_vectors_are_the_cpus)
{
    gpu_check("adv_move", moved, 6, 1e-6);
    gpu_check("tavat_move", moved_in_parts, 2, 1e-6);
}

/* Every word has up to MOST substitutes of rows WORDS .. 2 WORDS, and itself. */
static hulls *slots(gpu_case *c)
{
    const seq_index *seq = texts(c);
    hulls *h = arena_new(c->mem, hulls, 1);
    uint32_t *first = arena_znew(c->mem, uint32_t, WORDS + 1),
             *row = arena_new(c->mem, uint32_t, WORDS * (MOST + 1)),
             *begin = arena_znew(c->mem, uint32_t, TOKENS + 1);
    CHECK(h && first && row && begin);
    for (uint32_t v = 0; v < WORDS; v++) {
        const uint32_t n = v % (MOST + 1);
        for (uint32_t k = 0; k < n; k++)
            row[first[v] + k] = WORDS + (v + 3 * k) % WORDS;
        row[first[v] + n] = v;
        first[v + 1] = first[v] + n + 1;
    }
    for (size_t i = 0; i < TOKENS; i++)
        begin[i + 1] = begin[i] + first[seq->row[i] + 1] - first[seq->row[i]];
    *h = (hulls){.first = first,
                 .row = row,
                 .of = seq->row,
                 .start = begin,
                 .n_tokens = TOKENS,
                 .n_words = WORDS,
                 .n_rows = 2 * WORDS,
                 .n_points = TOKENS,
                 .n_slots = begin[TOKENS]};
    return h;
}

static node *state_of(gpu_case *c, const hulls *h)
{
    real *x = gpu_numbers(c, h->n_slots * HULL_STATE, -2, 2);
    for (size_t i = 0; i < h->n_slots; i++) /* a second moment is positive */
        x[i * HULL_STATE + HULL_V] = (real)fabs((double)x[i * HULL_STATE + HULL_V]);
    return tape_numbers(&c->t, shape2(h->n_slots, HULL_STATE), x);
}

static node *points(gpu_case *c, int variant)
{
    (void)variant;
    const hulls *h = slots(c);
    return hull_points(&c->t, h, state_of(c, h), gpu_input(c, shape2(h->n_rows, DIM), -1, 1));
}

static node *step(gpu_case *c, int variant)
{
    const hulls *h = slots(c);
    const ascc_cfg how = {.rate = 2, .alpha = 10};
    node *state = state_of(c, h), *rows = gpu_input(c, shape2(h->n_rows, DIM), -1, 1);
    return hull_step(&c->t, &how, h, state, rows, gpu_input(c, shape2(TOKENS, DIM), -1, 1),
                     1 + variant);
}

static node *climbed(gpu_case *c, int variant)
{
    const hulls *h = slots(c);
    node *state = state_of(c, h), *rows = gpu_input(c, shape2(h->n_rows, DIM), -1, 1);
    return hull_climb(&c->t, variant ? 10 : 0.5, variant ? 1 : 0.3, h, state, rows,
                      gpu_input(c, shape2(TOKENS, DIM), -1, 1));
}

TEST(mixtures_of_substitutes_are_the_cpus)
{
    gpu_check("hull_points", points, 2, 1e-5);
}

TEST(steps_of_the_search_for_mixtures_are_the_cpus)
{
    gpu_check("hull_step", step, 3, 1e-5);
    gpu_check("hull_climb", climbed, 2, 1e-5);
}
