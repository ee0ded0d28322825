/* defense/box_width.c - the box-width loss of EIBC (Wang et al., Findings of ACL 2023): word vectors
 * that learn are drawn together with their substitutes and kept apart from other words. For the
 * words w of the step that have substitutes S(w), and some words r drawn at random,
 *
 *     near(w) = sum over coordinates j of max over s in S(w) of |e_wj - e_sj|     (the box's width)
 *     far(w)  = mean over r of min(alpha, |e_w - e_r|_1)
 *     loss    = loss so far + weight * mean over w of max(0, near(w) - far(w) + alpha)
 *
 * An L1 width makes groups with few sharp cuts, where smoothing, which is quadratic, blurs evenly. The
 * vectors are those before a word layer.
 * EIBC itself lets no other loss reach the vectors: --box-alone. */
#include <stdlib.h>

#include "base/mem.h"
#include "bound/hulls.h"
#include "defense/defenses.h"
#include "model/word_layer.h"

enum { OTHERS = 8 }; /* random words per word */

typedef struct box_cfg {
    double weight, alpha;
    bool alone;
} box_cfg;

static const stet_opt opts[] = {
    STET_OPT_REAL("box-weight", box_cfg, weight, "0.02", 0, 1e6, "W",
                  "box-width: weight of its loss beside the loss so far"),
    STET_OPT_REAL("box-alpha", box_cfg, alpha, "5", 0, 1e6, "A",
                  "box-width: how much closer substitutes should be than other words"),
    STET_OPT_FLAG("box-alone", box_cfg, alone,
                  "box-width: vectors learn from its loss alone, as in EIBC"),
    STET_OPT_END,
};

typedef struct box_state {
    box_cfg cfg;
    word_sets sets;
    uint32_t *slot; /* (vocabulary) 1 + row of the step; zero between steps */
    node *loss;     /* of this step; NULL: no word has substitutes */
} box_state;

static void end(void *state)
{
    box_state *s = state;
    if (!s)
        return;
    word_sets_deinit(&s->sets);
    mem_free(s->slot);
    mem_free(s);
}

static stet_status start(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    box_state *s = mem_zalloc(1, sizeof *s);
    *state = s; /* the caller ends what has begun, also after a failure */
    if (!s)
        return STET_ENOMEM;
    s->cfg = *(const box_cfg *)cfg;
    TRY(word_sets_make(subst, m->vocab, &s->sets));
    s->slot = mem_zalloc(m->n_words, sizeof *s->slot);
    return s->slot ? STET_OK : STET_ENOMEM;
}

/* ---- the words of a step ------------------------------------------------------------------ */

/* Pairs of rows: each word of the step is a text of `with`, whose tokens are its partners; `own` has
 * the word's own row beside each. */
typedef struct pairs {
    seq_index with;
    uint32_t *start, *row, *own;
} pairs;

typedef struct step_words {
    uint32_t *word; /* (n) distinct */
    size_t n;
    pairs near, far;
} step_words;

static size_t set_size(const box_state *s, uint32_t word)
{
    return word < s->sets.n_words ? s->sets.start[word + 1] - s->sets.start[word] : 0;
}

static uint32_t row_of(const box_state *s, step_words *w, uint32_t word)
{
    if (!s->slot[word]) {
        w->word[w->n] = word;
        s->slot[word] = (uint32_t)++w->n;
    }
    return s->slot[word] - 1;
}

static stet_status pairs_alloc(pairs *p, size_t words, size_t n, arena *mem)
{
    p->start = arena_znew(mem, uint32_t, words + 1);
    p->row = arena_new(mem, uint32_t, n);
    p->own = arena_new(mem, uint32_t, n);
    p->with = (seq_index){.n_texts = words, .start = p->start, .row = p->row};
    return p->start && p->row && p->own ? STET_OK : STET_ENOMEM;
}

static void pair_add(pairs *p, uint32_t own, uint32_t partner)
{
    p->own[p->with.n_tokens] = own;
    p->row[p->with.n_tokens++] = partner;
}

/* A sequence has its longest text first: words by falling size of their sets. */
typedef struct sized_word {
    size_t size;
    uint32_t word;
} sized_word;

static int by_size(const void *a, const void *b)
{
    const sized_word *x = a, *y = b;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return (x->word > y->word) - (x->word < y->word);
}

/* The step's words that have substitutes; their number. */
static size_t words_with_sets(const box_state *s, const batch *x, sized_word *out, size_t *pairs_of)
{
    size_t n = 0;
    *pairs_of = 0;
    for (size_t i = 0; i < x->seq.n_rows; i++) {
        const size_t size = set_size(s, x->word[i]);
        if (size == 0 || s->slot[x->word[i]]) /* a word may have a row per position */
            continue;
        s->slot[x->word[i]] = 1;
        out[n++] = (sized_word){size, x->word[i]};
        *pairs_of += size;
    }
    for (size_t i = 0; i < n; i++)
        s->slot[out[i].word] = 0;
    qsort(out, n, sizeof *out, by_size);
    return n;
}

static void add_word(const box_state *s, step_words *w, uint32_t word, size_t k, rng *r)
{
    const uint32_t own = row_of(s, w, word);
    for (size_t i = s->sets.start[word]; i < s->sets.start[word + 1]; i++)
        pair_add(&w->near, own, row_of(s, w, s->sets.word[i]));
    for (size_t i = 0; i < OTHERS; i++)
        pair_add(&w->far, own, row_of(s, w, (uint32_t)rng_below(r, s->sets.n_words)));
    w->near.start[k + 1] = (uint32_t)w->near.with.n_tokens;
    w->far.start[k + 1] = (uint32_t)w->far.with.n_tokens;
}

static stet_status gather_words(const box_state *s, const step_view *v, step_words *w)
{
    arena *mem = v->p->t->mem;
    sized_word *list = arena_new(mem, sized_word, v->x->seq.n_rows);
    size_t n_pairs;
    if (!list)
        return STET_ENOMEM;
    const size_t n = words_with_sets(s, v->x, list, &n_pairs);
    *w = (step_words){.word = arena_new(mem, uint32_t, n * (1 + OTHERS) + n_pairs)};
    if (!w->word)
        return STET_ENOMEM;
    TRY(pairs_alloc(&w->near, n, n_pairs, mem));
    TRY(pairs_alloc(&w->far, n, n * OTHERS, mem));
    rng r = step_stream(v);
    for (size_t k = 0; k < n; k++)
        add_word(s, w, list[k].word, k, &r);
    for (size_t i = 0; i < w->n; i++)
        s->slot[w->word[i]] = 0;
    w->near.with.n_rows = w->far.with.n_rows = w->n;
    w->near.with.max_len = n ? list[0].size : 0;
    w->far.with.max_len = OTHERS;
    return STET_OK;
}

/* ---- the loss ----------------------------------------------------------------------------- */

/* (pairs, D): how far both are from each other, by coordinate. */
static node *apart(tape *t, node *rows, const pairs *p)
{
    const size_t n = p->with.n_tokens;
    return op_abs(t, op_sub(t, op_gather(t, rows, p->own, n), op_gather(t, rows, p->row, n)));
}

static node *constant(tape *t, shape s, double value)
{
    real *x = arena_new(t->mem, real, shape_count(s));
    if (!x) {
        tape_fail(t, STET_ENOMEM);
        return NULL;
    }
    for (size_t i = 0; i < shape_count(s); i++)
        x[i] = (real)value;
    return tape_numbers(t, s, x);
}

static node *box_loss(const box_state *s, const step_view *v, const step_words *w)
{
    tape *t = v->p->t;
    pass own = *v->p;
    own.learn = v->w ? v->w->learn : NULL; /* the step's own may learn nothing: --box-alone */
    node *rows = pass_vectors(&own, w->word, w->n),
         *ones = constant(t, shape2(model_vector_dim(v->m), 1), 1);
    node *near =
        op_matmul(t, op_seq_max(t, apart(t, rows, &w->near), &w->near.with), false, ones, false);
    node *far =
        op_clamp(t, op_matmul(t, apart(t, rows, &w->far), false, ones, false), 0, s->cfg.alpha);
    node *gap = op_sub(t, near, op_seq_mean(t, far, &w->far.with));
    const size_t n = w->near.with.n_texts;
    node *above = op_relu(t, op_add(t, gap, constant(t, shape2(n, 1), s->cfg.alpha)));
    return op_scale(t, op_sum(t, above), 1 / (double)n);
}

static node *loss(void *state, const step_view *v, node *base)
{
    box_state *s = state;
    tape *t = v->p->t;
    step_words *w = arena_new(t->mem, step_words, 1);
    const stet_status st = w ? gather_words(s, v, w) : STET_ENOMEM;
    if (st != STET_OK) {
        tape_fail(t, st);
        return NULL;
    }
    s->loss = w->n ? box_loss(s, v, w) : NULL;
    return s->loss ? op_add(t, base, op_scale(t, s->loss, s->cfg.weight)) : base;
}

static void metrics(void *state, step_metrics *out)
{
    const box_state *s = state;
    if (s->loss)
        metric_node(out, "box", s->loss);
    else
        metric_add(out, "box", 0);
}

static bool alone(const void *cfg)
{
    return ((const box_cfg *)cfg)->alone;
}

const defense_desc defense_box_width = {
    .name = "box-width",
    .summary = "vectors that learn are drawn together with their substitutes (EIBC's loss)",
    .opts = opts,
    .cfg_size = sizeof(box_cfg),
    .needs_sets = "--defense box-width needs --synonyms: the words to draw together",
    .needs_learning = "--defense box-width needs --tune-vectors: it moves the words' vectors",
    .alone = alone,
    .start = start,
    .loss = loss,
    .metrics = metrics,
    .end = end,
};
