/* defense/encode.c - words read as the representative of their group, in front of any model. A
 * substitute of the same group changes nothing at all; what is left of a text's substitutions is often
 * few enough to try every combination, which is an exact certificate for models without bounds.
 * docs/defences.md. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "defense/defenses.h"
#include "defense/kept_sets.h"
#include "defense/set_words.h"
#include "defense/votes.h"

typedef struct encode_cfg {
    int64_t most, tries;
} encode_cfg;

static const stet_opt opts[] = {
    STET_OPT_INT(
        "encode-most", encode_cfg, most, "100", 0, 1000000, "N",
        "encode: words of a group, at most; 0: no limit, no substitution leaves its group"),
    STET_OPT_INT("encode-tries", encode_cfg, tries, "10000", 1, 100000000, "N",
                 "encode: texts that a certificate evaluates, at most"),
    STET_OPT_END,
};

/* ---- groups ------------------------------------------------------------------------------- */

typedef struct link {
    double alike;
    uint32_t a, b;
} link;

static int most_alike_first(const void *p, const void *q)
{
    const link *x = p, *y = q;
    return x->alike != y->alike ? (x->alike < y->alike) - (x->alike > y->alike)
           : x->a != y->a       ? (x->a > y->a) - (x->a < y->a)
                                : (x->b > y->b) - (x->b < y->b);
}

static uint32_t root_of(uint32_t *code, uint32_t w)
{
    while (code[w] != w)
        w = code[w] = code[code[w]];
    return w;
}

/* Pairs of words that may stand for each other, those with the most neighbours in common first. */
static stet_status find_links(const word_sets *s, link **out, size_t *n)
{
    *n = 0;
    *out = mem_alloc(s->start[s->n_words] + 1, sizeof **out);
    if (!*out)
        return STET_ENOMEM;
    for (uint32_t w = STET_FIRST_WORD; w < s->n_words; w++)
        for (uint32_t k = s->start[w]; k < s->start[w + 1]; k++)
            if (s->word[k] >= STET_FIRST_WORD && s->word[k] != w)
                (*out)[(*n)++] = (link){draws_shared(s, w, s->word[k]), w, s->word[k]};
    qsort(*out, *n, sizeof **out, most_alike_first);
    return STET_OK;
}

/* Is word a the better representative? It has fewer rows, then the earlier one: in vocabularies by
 * frequency, the more frequent word. */
static bool is_better(const set_words *w, uint32_t a, uint32_t b)
{
    if (!w->own)
        return a < b;
    const uint32_t na = w->at[a + 1] - w->at[a], nb = w->at[b + 1] - w->at[b];
    const uint32_t ra = w->row[w->at[a]], rb = w->row[w->at[b]];
    return na != nb ? na < nb : ra != rb ? ra < rb : a < b;
}

/* code (n_words): the representative of each word's group. A pair joins its groups unless that makes too
 * large a one. */
static stet_status make_groups(const word_sets *s, const set_words *w, size_t most, uint32_t *code)
{
    link *links;
    size_t n;
    uint32_t *size = mem_alloc(s->n_words, sizeof *size);
    TRY(size ? find_links(s, &links, &n) : STET_ENOMEM);
    for (uint32_t i = 0; i < s->n_words; i++)
        code[i] = i, size[i] = 1;
    for (size_t i = 0; i < n; i++) {
        const uint32_t a = root_of(code, links[i].a), b = root_of(code, links[i].b);
        if (a == b || (most && size[a] + size[b] > most))
            continue;
        const uint32_t top = is_better(w, a, b) ? a : b, under = top == a ? b : a;
        size[top] += size[under];
        code[under] = top;
    }
    for (uint32_t i = 0; i < s->n_words; i++)
        code[i] = root_of(code, i);
    mem_free(links);
    mem_free(size);
    return STET_OK;
}

/* ---- the rule ----------------------------------------------------------------------------- */

typedef struct encode_rule {
    kept_sets code; /* the only substitute of a word is its representative */
    set_words words;
} encode_rule;

static const char file_name[] = "codes.subst";

static void rule_end(void *state)
{
    encode_rule *s = state;
    if (s) {
        kept_sets_deinit(&s->code);
        set_words_deinit(&s->words);
    }
    mem_free(s);
}

static const uint32_t *code_of(const void *ctx, size_t w, size_t *n)
{
    const uint32_t *code = (const uint32_t *)ctx + w;
    *n = *code != w;
    return code;
}

static stet_status find_codes(const encode_cfg *c, const model *m, const stet_subst *subst,
                              kept_sets *out)
{
    set_words words;
    word_sets given = {0};
    uint32_t *code = NULL;
    size_t joined = 0;
    TRY(set_words_make(m, subst, &words));
    stet_status st = word_sets_make(subst, words.vocab, &given);
    if (st == STET_OK)
        st = (code = mem_alloc(given.n_words, sizeof *code)) ? STET_OK : STET_ENOMEM;
    if (st == STET_OK)
        st = make_groups(&given, &words, (size_t)c->most, code);
    for (size_t w = 0; st == STET_OK && w < given.n_words; w++)
        joined += code[w] != w;
    if (st == STET_OK)
        st = kept_sets_make(words.vocab, code_of, code, out);
    if (st == STET_OK)
        log_info("encode: %zu of %zu words are read as another one", joined, given.n_words);
    mem_free(code);
    word_sets_deinit(&given);
    set_words_deinit(&words);
    return st;
}

static stet_status know_words(encode_rule *s, const model *m)
{
    TRY(set_words_make(m, s->code.subst, &s->words));
    return kept_sets_bind(&s->code, s->words.vocab);
}

static stet_status make(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    encode_rule *s = *state = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    TRY(votes_can_read(m, "encode"));
    TRY(find_codes(cfg, m, subst, &s->code));
    return know_words(s, m);
}

static stet_status load(const void *cfg, const model *m, const char *dir, void **state)
{
    (void)cfg;
    encode_rule *s = *state = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    TRY(votes_can_read(m, "encode"));
    TRY(kept_sets_load(NULL, dir, file_name, &s->code));
    return know_words(s, m);
}

static stet_status save(const void *state, const char *dir)
{
    return kept_sets_save(&((const encode_rule *)state)->code, dir, file_name);
}

/* ---- answers ------------------------------------------------------------------------------ */

static size_t room_for(const encode_rule *s, size_t rows)
{
    return rows * (1 + s->words.longest) + 1;
}

/* The rows that the network reads instead of n others, word by word; their number. */
static stet_status encode(const encode_rule *s, const model *m, const uint32_t *rows, size_t n,
                          arena *mem, uint32_t *out, size_t *made)
{
    const word_sets *code = &s->code.words;
    const set_words *w = &s->words;
    vote_text t;
    *made = 0;
    TRY(vote_text_make(m, rows, n, mem, &t));
    for (size_t i = 0; i < t.n; i++) {
        const uint32_t *from = rows + t.at[i];
        uint32_t many = t.at[i + 1] - t.at[i];
        const uint32_t word = set_word_of(w, m, from, many);
        const bool coded = code->start[word + 1] > code->start[word];
        const uint32_t to = coded ? code->word[code->start[word]] : word;
        if (coded && w->own) {
            from = w->row + w->at[to];
            many = w->at[to + 1] - w->at[to];
        } else if (coded) {
            from = &code->word[code->start[word]];
        }
        memcpy(out + *made, from, many * sizeof *out);
        *made += many;
    }
    return STET_OK;
}

static stet_status predict_all(const rule *r, const model *m, const stet_corpus *c, float *logits)
{
    arena mem = {0};
    const size_t n = c->n_texts, rows = (size_t)(c->start[n] - c->start[0]);
    uint32_t *ids = arena_new(&mem, uint32_t, room_for(r->state, rows));
    uint64_t *start = arena_znew(&mem, uint64_t, n + 1);
    int32_t *label = arena_znew(&mem, int32_t, n);
    stet_status st = ids && start && label ? STET_OK : STET_ENOMEM;
    for (size_t i = 0; st == STET_OK && i < n; i++) {
        const uint64_t from = c->start[i], to = c->start[i + 1];
        size_t made;
        st = encode(r->state, m, c->ids + from, (size_t)(to - from), &mem, ids + start[i], &made);
        start[i + 1] = start[i] + made;
    }
    if (st == STET_OK) {
        const stet_corpus own = {n, (size_t)start[n], m->n_classes, ids, start, label};
        st = model_network_logits(m, &own, logits);
    }
    arena_deinit(&mem);
    return st;
}

/* ---- certificates ------------------------------------------------------------------------- */

/* What a position can be read as: rows, and which choice gives them (0: the text's own word). */
typedef struct reading {
    const uint32_t *rows;
    size_t n, choice;
} reading;

typedef struct search {
    const model *m;
    const stet_choices *choices;
    arena mem;
    reading *all;           /* of position p: all[start[p] .. start[p + 1]), its own word's first */
    size_t *start;          /* (n + 1) */
    size_t *pick;           /* (n) */
    uint32_t *rows, *coded; /* of a word */
    /* Combinations that are tried together: one by one on the host, as every answer is computed there,
     * many at once on a device. */
    size_t most, n;
    uint32_t *text; /* their rows, and where each begins (n + 1) */
    uint64_t *text_at;
    size_t *picks;      /* (n, positions) */
    int32_t *no_labels; /* (n) */
    float *logits;      /* (n, K) */
    int label;
    double least; /* margin of all that were tried */
    bool broken;  /* by `pick` */
} search;

enum { TRIED_AT_ONCE = 256 };
/* Answers of a device whose margin is closer to 0 are computed again by themselves, on the host: more
 * than rounding in float moves them. */
static const double close_margin = 1e-3;

static stet_status read_word(search *x, const encode_rule *s, uint32_t word, size_t choice,
                             reading *out)
{
    const size_t most = x->m->reader.most_rows;
    x->rows[0] = word;
    const size_t n = most > 1 ? words_rows(x->choices->words, &word, 1, x->rows) : 1;
    TRY(encode(s, x->m, x->rows, n, &x->mem, x->coded, &out->n));
    uint32_t *kept = arena_new(&x->mem, uint32_t, out->n + 1);
    if (!kept)
        return STET_ENOMEM;
    memcpy(kept, x->coded, out->n * sizeof *kept);
    out->rows = kept;
    out->choice = choice;
    return STET_OK;
}

static bool known(const reading *list, size_t n, const reading *r)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].n == r->n && memcmp(list[i].rows, r->rows, r->n * sizeof *r->rows) == 0)
            return true;
    return false;
}

static stet_status read_all(search *x, const encode_rule *s, const uint32_t *ids)
{
    const stet_choices *c = x->choices;
    size_t made = 0, room = 0;
    x->all = arena_new(&x->mem, reading, c->start[c->n] + c->n + 1);
    x->start = arena_znew(&x->mem, size_t, c->n + 1);
    x->pick = arena_znew(&x->mem, size_t, c->n + 1);
    x->most = x->m->place ? TRIED_AT_ONCE : 1;
    x->logits = arena_new(&x->mem, float, x->most * x->m->n_classes);
    x->text_at = arena_znew(&x->mem, uint64_t, x->most + 1);
    x->picks = arena_new(&x->mem, size_t, x->most * c->n + 1);
    x->no_labels = arena_znew(&x->mem, int32_t, x->most);
    x->rows = arena_new(&x->mem, uint32_t, x->m->reader.most_rows + 1);
    x->coded = arena_new(&x->mem, uint32_t, room_for(s, x->m->reader.most_rows));
    if (!x->rows || !x->coded || !x->all || !x->start || !x->pick || !x->logits || !x->text_at ||
        !x->picks || !x->no_labels)
        return STET_ENOMEM;
    for (size_t p = 0; p < c->n; p++) {
        size_t longest = 0;
        for (size_t k = 0; k <= c->start[p + 1] - c->start[p]; k++) {
            reading r;
            TRY(read_word(x, s, k ? c->word[c->start[p] + k - 1] : ids[p], k, &r));
            longest = r.n > longest ? r.n : longest;
            if (!known(x->all + x->start[p], made - x->start[p], &r))
                x->all[made++] = r;
        }
        room += longest;
        x->start[p + 1] = made;
    }
    x->text = arena_new(&x->mem, uint32_t, x->most * room + 1);
    return x->text ? STET_OK : STET_ENOMEM;
}

/* How many combinations there are with at most `budget` words read as others. */
static stet_status count(search *x, size_t budget, double *out)
{
    const size_t n = x->choices->n, limit = budget < n ? budget : n;
    double *ways = arena_znew(&x->mem, double, limit + 1);
    if (!ways)
        return STET_ENOMEM;
    ways[0] = 1;
    for (size_t p = 0; p < n; p++)
        for (size_t j = limit; j > 0; j--)
            ways[j] += (double)(x->start[p + 1] - x->start[p] - 1) * ways[j - 1];
    *out = 0;
    for (size_t j = 0; j <= limit; j++)
        *out += ways[j];
    return STET_OK;
}

static double margin_of(const search *x, const float *logits)
{
    double least = INFINITY;
    for (size_t k = 0; k < x->m->n_classes; k++)
        if ((int)k != x->label)
            least = fmin(least, (double)logits[x->label] - (double)logits[k]);
    return least;
}

/* Combination i again, by itself and on the host. */
static stet_status ask_alone(const search *x, size_t i, float *logits)
{
    const model here = model_at(x->m, NULL);
    uint64_t start[2] = {0, x->text_at[i + 1] - x->text_at[i]};
    const stet_corpus one = {1,     (size_t)start[1], x->m->n_classes, x->text + x->text_at[i],
                             start, x->no_labels};
    return model_network_logits(&here, &one, logits);
}

/* The answers to all that wait: the program's own numbers, and no bounds of them. */
static stet_status try_waiting(search *x)
{
    const size_t K = x->m->n_classes, n = x->n;
    const stet_corpus texts = {n, (size_t)x->text_at[n], K, x->text, x->text_at, x->no_labels};
    x->n = 0;
    if (n == 0)
        return STET_OK;
    TRY(interrupt_status());
    TRY(model_network_logits(x->m, &texts, x->logits));
    for (size_t i = 0; i < n && !x->broken; i++) {
        float *logits = x->logits + i * K;
        if (x->m->place && fabs(margin_of(x, logits)) < close_margin)
            TRY(ask_alone(x, i, logits));
        TRY(model_check_logits(x->m, logits));
        x->least = fmin(x->least, margin_of(x, logits));
        x->broken = stet_argmax(logits, K) != x->label;
        if (x->broken)
            memcpy(x->pick, x->picks + i * x->choices->n, x->choices->n * sizeof *x->pick);
    }
    return STET_OK;
}

static stet_status try_one(search *x)
{
    uint64_t at = x->text_at[x->n];
    for (size_t p = 0; p < x->choices->n; p++) {
        const reading *r = &x->all[x->start[p] + x->pick[p]];
        memcpy(x->text + at, r->rows, r->n * sizeof *x->text);
        at += r->n;
    }
    memcpy(x->picks + x->n * x->choices->n, x->pick, x->choices->n * sizeof *x->pick);
    x->text_at[++x->n] = at;
    return x->n == x->most ? try_waiting(x) : STET_OK;
}

/* All combinations of the positions from p on. */
static stet_status try_all(search *x, size_t p, size_t left)
{
    while (p < x->choices->n && x->start[p + 1] - x->start[p] == 1)
        p++;
    if (p == x->choices->n)
        return try_one(x);
    const size_t n = left ? x->start[p + 1] - x->start[p] : 1;
    for (size_t k = 0; k < n && !x->broken; k++) {
        x->pick[p] = k;
        TRY(try_all(x, p + 1, left - (k > 0)));
    }
    if (!x->broken)
        x->pick[p] = 0;
    return STET_OK;
}

static stet_status take_edits(const search *x, stet_certificate *out)
{
    const stet_choices *c = x->choices;
    out->edits = mem_alloc(c->n + 1, sizeof *out->edits);
    if (!out->edits)
        return STET_ENOMEM;
    for (size_t p = 0; p < c->n; p++) {
        const size_t k = x->all[x->start[p] + x->pick[p]].choice;
        if (k)
            out->edits[out->n_edits++] = (stet_edit){(uint32_t)p, c->word[c->start[p] + k - 1]};
    }
    return STET_OK;
}

static stet_status judge(search *x, const encode_cfg *c, size_t budget, stet_certificate *out)
{
    double n;
    TRY(count(x, budget, &n));
    if (!(n <= (double)c->tries))
        return STET_OK;
    TRY(try_all(x, 0, budget));
    if (!x->broken)
        TRY(try_waiting(x));
    if (x->broken) {
        out->verdict = STET_BROKEN;
        return take_edits(x, out);
    }
    out->verdict = STET_CERTIFIED;
    out->margin = x->least;
    out->budget = budget < x->choices->n ? budget : STET_ANY;
    return STET_OK;
}

static stet_status certify(const rule *r, const model *m, const uint32_t *ids,
                           const stet_choices *choices, const stet_certify_how *how, int label,
                           stet_certificate *out, buf *evidence)
{
    (void)evidence; /* it proves, by trying all */
    search x = {.m = m, .choices = choices, .label = label, .least = INFINITY};
    out->verdict = STET_UNDECIDED;
    stet_status st = read_all(&x, r->state, ids);
    if (st == STET_OK)
        st = judge(&x, r->cfg, how->budget, out);
    arena_deinit(&x.mem);
    return st;
}

static const rule_desc encode_rule_desc = {
    .name = "encode",
    .opts = opts,
    .cfg_size = sizeof(encode_cfg),
    .make = make,
    .load = load,
    .save = save,
    .end = rule_end,
    .on_device = true,
    .predict_all = predict_all,
    .certify = certify,
};

/* ---- training ----------------------------------------------------------------------------- */

/* Each text as the network will read it, those that others added included. */
static stet_status encode_texts(void *state, const step_view *v, step_texts *t)
{
    (void)state;
    const encode_rule *s = v->m->rule->state;
    for (size_t i = 0; i < t->n; i++) {
        uint32_t *copy = arena_new(t->mem, uint32_t, room_for(s, t->v[i].n));
        size_t made;
        if (!copy)
            return STET_ENOMEM;
        TRY(encode(s, v->m, t->v[i].ids, t->v[i].n, t->mem, copy, &made));
        t->v[i].n = made;
        t->v[i].ids = copy;
    }
    return STET_OK;
}

const defense_desc defense_encode = {
    .name = "encode",
    .summary = "synonyms read as one word in front of any model, with exact certificates",
    .opts = opts,
    .cfg_size = sizeof(encode_cfg),
    .needs_sets = "--defense encode needs --synonyms: the words that are read as one",
    .batch = encode_texts,
    .rule = &encode_rule_desc,
};
