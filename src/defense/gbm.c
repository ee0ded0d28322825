/* defense/gbm.c - training with growth bound matrices: (1 - beta) loss so far + beta times a
 * bound of how far the classifier moves when its input does, with the bound's true gradient. (The
 * code published with the paper takes the bound out of the graph, so there the term moves nothing.)
 * docs/gbm.md explains terms and boxes.
 *
 * A recurrent model's bounds hold over boxes of words and states. Boxes that follow the training are kept
 * with the checkpoint; every choice derives from (seed, step). */
#include <string.h>

#include "base/mem.h"
#include "bound/bounds.h"
#include "bound/hulls.h"
#include "defense/defenses.h"
#include "model/spans.h"

typedef enum norm_kind { NORM_SUM, NORM_MEAN, NORM_INIT } norm_kind;
typedef enum box_kind { BOX_AUTO, BOX_TO, BOX_TI, BOX_TL, BOX_SO, BOX_SI, BOX_SL } box_kind;

typedef struct gbm_cfg {
    double beta, k_v, k_h, k_c, radius, rho0;
    int of, norm, boxes, cell;
    int64_t words, horizon;
} gbm_cfg;

static const stet_opt opts[] = {
    STET_OPT_REAL("beta", gbm_cfg, beta, "1e-3", 0, 1, "B",
                  "gbm: weight of the growth bound; 1 - B is left to the cross-entropy"),
    STET_OPT_CHOICE("gbm-of", gbm_cfg, of, "layer", "layer|logits|gain|rho",
                    "gbm: bound of the layer, of the logits, over a text, or contraction"),
    STET_OPT_CHOICE("gbm-norm", gbm_cfg, norm, "sum", "sum|mean|init",
                    "gbm: sum of entries, their mean, or share of the first value"),
    STET_OPT_CHOICE("gbm-boxes", gbm_cfg, boxes, "auto", "auto|t+o|t+i|t+l|s+o|s+i|s+l",
                    "bilstm: words of the table or synonyms; states observed, invariant or local"),
    STET_OPT_CHOICE("gbm-cell", gbm_cfg, cell, "both", "both|ia|mv",
                    "bilstm: how the next cell is enclosed"),
    STET_OPT_REAL("k-v", gbm_cfg, k_v, "1", 0, 1e9, "K",
                  "gbm: weight of the bounds with respect to the input"),
    STET_OPT_REAL("k-h", gbm_cfg, k_h, "1", 0, 1e9, "K",
                  "gbm: weight of those with respect to the state"),
    STET_OPT_REAL("k-c", gbm_cfg, k_c, "1", 0, 1e9, "K",
                  "gbm: weight of those with respect to the cell"),
    STET_OPT_INT("gbm-words", gbm_cfg, words, "1", 1, 1024, "N",
                 "bilstm: words drawn per step, for boxes of synonyms or local ones"),
    STET_OPT_REAL("gbm-radius", gbm_cfg, radius, "0.05", 0, 10, "R",
                  "bilstm: half width of local boxes"),
    STET_OPT_INT("gbm-horizon", gbm_cfg, horizon, "64", 1, 4096, "N",
                 "gain: words over which deviations add up"),
    STET_OPT_REAL("gbm-rho0", gbm_cfg, rho0, "0.95", 0, 1e9, "R",
                  "rho: contraction that is good enough"),
    STET_OPT_END,
};

/* What a resumed run must have again: 1 once the boxes hold something, the term at the first step,
 * then the boxes of both directions (2, 4, H): h_lo, h_hi, c_lo, c_hi. */
enum { KEPT_BEGUN, KEPT_INITIAL, KEPT_BOXES, BOX_SIDES = 4 };

enum { FOLLOW_EVERY = 4, LOOK_BACK = 64, DRAWS = 16 };
static const double forget = 0.01;

typedef struct gbm_state {
    gbm_cfg cfg;
    const model *all, *m;       /* what is trained; what of it reads vectors and has the bounds */
    const state_bounds *states; /* NULL: the bounds hold everywhere, and nothing below is used */
    size_t H;
    bool synonyms, observed, local;
    word_sets sets;
    real *table;  /* (2, D) the table's box */
    real *eta;    /* (D) mean deviation */
    real *kept;   /* the host's copy, made when it is asked for */
    store *store; /* where the steps compute, once the first has begun */
    real *boxes;  /* (2, 4, H) there */
    /* of this step */
    gbm_report report;
    node *term;
} gbm_state;

/* ---- start and end ------------------------------------------------------------------------ */

static void end(void *state)
{
    gbm_state *s = state;
    if (!s)
        return;
    if (s->store)
        store_release(s->store, s->boxes);
    word_sets_deinit(&s->sets);
    mem_free(s->table);
    mem_free(s->kept);
    mem_free(s);
}

static stet_status choose_boxes(gbm_state *s, const stet_subst *subst)
{
    if (!subst && s->m != s->all && (s->cfg.of == GBM_OF_GAIN || s->cfg.boxes >= BOX_SO))
        return error_set(STET_EUSAGE, "--gbm-of gain and boxes of synonyms need word vectors: how "
                                      "far a word moves the rows of a frozen model is not known");
    if (s->cfg.boxes == BOX_AUTO)
        s->cfg.boxes = subst ? BOX_SO : BOX_TO;
    const box_kind b = (box_kind)s->cfg.boxes;
    s->synonyms = b == BOX_SO || b == BOX_SI || b == BOX_SL;
    s->observed = b == BOX_TO || b == BOX_SO;
    s->local = b == BOX_TL || b == BOX_SL;
    if (s->synonyms && !subst)
        return error_set(STET_EUSAGE, "--gbm-boxes with synonyms needs --synonyms");
    if (s->cfg.of == GBM_OF_GAIN && !subst)
        return error_set(STET_EUSAGE,
                         "--gbm-of gain needs --synonyms: they say how far a word can move");
    return STET_OK;
}

/* Everything about boxes. */
static stet_status start_boxes(gbm_state *s, const stet_subst *subst)
{
    TRY(choose_boxes(s, subst));
    if (s->m->raw)
        return error_set(STET_EUSAGE,
                         "--defense gbm: the boxes of a %s need vectors that no --word-layer moves",
                         s->m->desc->name);
    const size_t D = s->m->dim;
    s->table = mem_zalloc(3 * D, sizeof *s->table);
    if (!s->table)
        return STET_ENOMEM;
    s->eta = s->table + 2 * D;
    table_hull(s->m, s->table, s->table + D);
    if (!subst)
        return STET_OK;
    TRY(word_sets_make(subst, s->m->vocab, &s->sets));
    mean_deviation(&s->sets, s->m, s->eta);
    return STET_OK;
}

static size_t kept_count(const gbm_state *s)
{
    return KEPT_BOXES + 2 * BOX_SIDES * s->H;
}

static stet_status start(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    gbm_state *s = mem_zalloc(1, sizeof *s);
    *state = s; /* the caller ends what has begun, also after a failure */
    if (!s)
        return STET_ENOMEM;
    s->cfg = *(const gbm_cfg *)cfg;
    s->all = m;
    s->m = m = model_reading(m);
    TRY(gbm_supported(m, (gbm_of)s->cfg.of));
    s->states = bounds_of(m)->states;
    s->H = s->states ? s->states->units(m) : 0;
    if (m != s->all)
        subst = NULL; /* words have no vectors of their own */
    s->kept = mem_zalloc(kept_count(s), sizeof *s->kept);
    if (!s->kept)
        return STET_ENOMEM;
    return s->states ? start_boxes(s, subst) : STET_OK;
}

static size_t boxes_bytes(const gbm_state *s)
{
    return 2 * BOX_SIDES * s->H * sizeof(real);
}

static stet_status saved(void *state, real **block, size_t *n)
{
    gbm_state *s = state;
    *block = s->kept;
    *n = kept_count(s);
    return s->boxes ? store_download(s->store, s->kept + KEPT_BOXES, s->boxes, boxes_bytes(s))
                    : STET_OK;
}

/* ---- boxes of a step ---------------------------------------------------------------------- */

/* The boxes, in the store where the step computes. */
static stet_status place_boxes(gbm_state *s, store *where)
{
    if (s->boxes)
        return STET_OK;
    s->store = where;
    s->boxes = store_alloc(where, 2 * BOX_SIDES * s->H, sizeof *s->boxes);
    if (!s->boxes)
        return STET_ENOMEM;
    store_upload(where, s->boxes, s->kept + KEPT_BOXES, boxes_bytes(s));
    return STET_OK;
}

/* The kept box of a direction. */
static real *kept_box(const gbm_state *s, int direction)
{
    return s->boxes + (size_t)direction * BOX_SIDES * s->H;
}

static node *box_node(const gbm_state *s, tape *t, int direction)
{
    return tape_constant(t, shape2(BOX_SIDES, s->H), kept_box(s, direction));
}

/* Of all words; no text holds <pad>. */
static node *table_box(const gbm_state *s, const step_view *v)
{
    return v->p->learn ? op_rows_hull(v->p->t, v->p->table, STET_UNK)
                       : tape_numbers(v->p->t, shape2(2, s->m->dim), s->table);
}

/* Of a word and its substitutes. */
static node *word_box(const gbm_state *s, const step_view *v, uint32_t word)
{
    tape *t = v->p->t;
    const size_t D = s->m->dim, n = s->sets.start[word + 1] - s->sets.start[word];
    uint32_t *set = arena_new(t->mem, uint32_t, n + 1);
    real *hull = arena_new(t->mem, real, 2 * D);
    if (!set || !hull) {
        tape_fail(t, STET_ENOMEM);
        return NULL;
    }
    if (!v->p->learn) {
        word_hull(&s->sets, s->m, word, hull, hull + D);
        return tape_numbers(t, shape2(2, D), hull);
    }
    set[0] = word;
    if (n)
        memcpy(set + 1, s->sets.word + s->sets.start[word], n * sizeof *set);
    return op_rows_hull(t, op_gather(t, v->p->table, set, n + 1), 0);
}

/* Let the kept boxes follow the weights: by the states of one text of the batch, or by a new
 * invariant. */
static void follow(gbm_state *s, const step_view *v, rng *r)
{
    const pass p = pass_of_head(s->all, v->p);
    tape *t = p.t;
    const seq_index *seq = p.seq;
    const size_t b = rng_below(r, seq->n_texts), span = model_span(s->m),
                 len = seq->start[b + 1] - seq->start[b], at = span ? rng_below(r, len) : 0,
                 first = span_start(span, at); /* of a piece, if the text is read in pieces */
    box_words text = {p.rows, seq->row + seq->start[b] + first,
                      span_end(span, len, at) - first, false};
    for (int d = 0; d < 2; d++) {
        text.reverse = d == 1;
        const node *box = s->observed ? s->states->observed(s->m, &p, d, &text, box_node(s, t, d),
                                                            forget, s->kept[KEPT_BEGUN] == 0)
                                      : s->states->invariant(s->m, &p, d, table_box(s, v));
        if (box)
            store_copy(s->store, kept_box(s, d), box->value, boxes_bytes(s) / 2);
    }
    s->kept[KEPT_BEGUN] = 1;
}

/* A place in the batch: a word that can be replaced, if a few draws find one. */
typedef struct place {
    size_t text, at; /* position in the text */
} place;

static place draw_place(const gbm_state *s, const step_view *v, rng *r)
{
    const seq_index *seq = &v->x->seq;
    place p = {0, 0};
    for (int k = 0; k < DRAWS; k++) {
        const size_t token = rng_below(r, seq->n_tokens);
        for (p.text = 0; seq->start[p.text + 1] <= token; p.text++)
            ;
        p.at = token - seq->start[p.text];
        const uint32_t word = step_word(v, p.text, p.at);
        if (!s->synonyms || s->sets.start[word + 1] > s->sets.start[word])
            break;
    }
    return p;
}

/* The state in which a direction reads the word, from the LOOK_BACK words before it. */
static node *local_box(const gbm_state *s, const step_view *v, place p, int direction)
{
    const pass read = pass_of_head(s->all, v->p);
    const seq_index *seq = read.seq;
    const size_t len = seq->start[p.text + 1] - seq->start[p.text], span = model_span(s->m),
                 before = direction ? span_end(span, len, p.at) - 1 - p.at
                                    : p.at - span_start(span, p.at);
    const size_t n = before < LOOK_BACK ? before : LOOK_BACK,
                 from = direction ? p.at + 1 : p.at - n;
    const box_words words = {read.rows, seq->row + seq->start[p.text] + from, n, direction == 1};
    return s->states->around(s->m, &read, direction, &words, s->cfg.radius);
}

/* The boxes of one evaluation. */
static void step_boxes(const gbm_state *s, const step_view *v, rng *r, gbm_term_args *a)
{
    tape *t = v->p->t;
    const place p = s->synonyms || s->local ? draw_place(s, v, r) : (place){0, 0};
    a->words = s->synonyms ? word_box(s, v, step_word(v, p.text, p.at)) : table_box(s, v);
    for (int d = 0; d < 2; d++)
        a->state[d] = s->local ? local_box(s, v, p, d) : box_node(s, t, d);
}

/* ---- the loss ----------------------------------------------------------------------------- */

static gbm_term_args term_args(const gbm_state *s, tape *t)
{
    return (gbm_term_args){
        .of = (gbm_of)s->cfg.of,
        .k = {s->cfg.k_v, s->cfg.k_h, s->cfg.k_c},
        .mode = (gbm_cell_mode)s->cfg.cell,
        .eta = s->cfg.of == GBM_OF_GAIN ? tape_numbers(t, shape1(s->m->dim), s->eta) : NULL,
        .steps = (size_t)s->cfg.horizon,
        .rho0 = s->cfg.rho0};
}

/* The term over boxes: the mean over the words that were drawn. */
static stet_status term_over_boxes(gbm_state *s, const step_view *v)
{
    tape *t = v->p->t;
    rng r = step_stream(v);
    TRY(place_boxes(s, t->store));
    if (!s->local && v->step % FOLLOW_EVERY == 0)
        follow(s, v, &r);
    const size_t words = s->synonyms || s->local ? (size_t)s->cfg.words : 1;
    const double share = 1 / (double)words;
    gbm_term_args a = term_args(s, t);
    gbm_report mean = {0};
    node *sum = NULL;
    for (size_t k = 0; k < words; k++) {
        step_boxes(s, v, &r, &a);
        node *one = gbm_term(s->m, t, pass_of_head(s->all, v->p).param, &a, &s->report);
        sum = sum ? op_add(t, sum, one) : one;
        for (int p = 0; p < GBM_PARTS; p++)
            if (s->report.part[p])
                gbm_report_add(t, &mean, p,
                               words > 1 ? op_scale(t, s->report.part[p], share)
                                         : s->report.part[p]);
    }
    s->report = mean;
    s->term = words > 1 ? op_scale(t, sum, share) : sum;
    return STET_OK;
}

static stet_status divisor(gbm_state *s, tape *t, double *out)
{
    *out = s->cfg.norm == NORM_MEAN ? gbm_entries(s->m, (gbm_of)s->cfg.of) : 1;
    if (s->cfg.norm != NORM_INIT)
        return STET_OK;
    if (s->kept[KEPT_INITIAL] == 0) { /* the first step of a run waits for its term */
        double first;
        TRY(tape_read(t, &s->term, 1, &first));
        s->kept[KEPT_INITIAL] = (real)first;
    }
    *out = s->kept[KEPT_INITIAL] > 0 ? (double)s->kept[KEPT_INITIAL] : 1;
    return STET_OK;
}

static node *loss(void *state, const step_view *v, node *base)
{
    gbm_state *s = state;
    tape *t = v->p->t;
    stet_status st = STET_OK;
    if (s->states && s->m != s->all && !v->p->head_seq) {
        st = error_set(STET_ENOTSUP, "the growth bound of a %s on frozen rows needs a defence before "
                                     "it that reads plain texts",
                       s->m->desc->name);
    } else if (s->states) {
        st = term_over_boxes(s, v);
    } else {
        const gbm_term_args a = term_args(s, t);
        s->term = gbm_term(s->m, t, pass_of_head(s->all, v->p).param, &a, &s->report);
    }
    double by = 1;
    if (st == STET_OK && s->term)
        st = divisor(s, t, &by);
    if (st != STET_OK) {
        tape_fail(t, st);
        return NULL;
    }
    return op_mix(t, base, 1 - s->cfg.beta, s->term, s->cfg.beta / by);
}

static void metrics(void *state, step_metrics *out)
{
    static const char *const part[GBM_PARTS] = {"gbm_v", "gbm_h", "gbm_c"};
    const gbm_state *s = state;
    metric_node(out, "gbm", s->term);
    for (int p = 0; p < GBM_PARTS; p++)
        if (s->report.part[p]) /* a CNN has no state */
            metric_node(out, part[p], s->report.part[p]);
}

static bool reads_words(const void *state)
{
    (void)state;
    return false;
}

const defense_desc defense_gbm = {
    .name = "gbm",
    .summary = "cross-entropy and a growth bound matrix with its true gradient",
    .opts = opts,
    .cfg_size = sizeof(gbm_cfg),
    .reads_words = reads_words,
    .start = start,
    .loss = loss,
    .metrics = metrics,
    .saved = saved,
    .end = end,
};
