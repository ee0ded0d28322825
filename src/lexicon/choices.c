/* lexicon/choices.c - sets bound to the words of a run, and what they allow in one text: see
 * stet/choices.h. */
#include "stet/choices.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "lexicon/sets.h"
#include "lexicon/subst.h"

struct stet_bound {
    const stet_sets *s;
    size_t left_out;
    /* sets of words */
    uint32_t *id;   /* by word of the set: its id in the run; UINT32_MAX: left out */
    uint32_t *word; /* (n_ids) by id: its number in the set, or UINT32_MAX */
    size_t n_ids;
    /* sets of texts */
    strmap odd; /* left out */
};

/* ---- reading the sets' words -------------------------------------------------------------- */

stet_status odd_words_see(odd_words *o, const word_reader *r, const char *word, bool *typed)
{
    const size_t len = strlen(word);
    TRY(reader_types(r, &o->scratch, word, len, typed));
    o->seen++;
    if (*typed)
        return STET_OK;
    if (o->n < sizeof o->example / sizeof *o->example)
        o->example[o->n] = word;
    o->n++;
    return STET_OK;
}

void odd_words_tell(const odd_words *o)
{
    if (o->n)
        log_warn("substitution sets: left out %zu of %zu words that are not read as one word or "
                 "not as they are written: '%.40s'%s%.40s%s%s",
                 o->n, o->seen, o->example[0], o->n > 1 ? ", '" : "", o->n > 1 ? o->example[1] : "",
                 o->n > 1 ? "'" : "", o->n > 2 ? ", ..." : "");
}

void odd_words_deinit(odd_words *o)
{
    stet_tokens_deinit(&o->scratch);
}

/* ---- binding ------------------------------------------------------------------------------ */

/* By id of the run: the word's number in the set. */
static stet_status number_words(stet_bound *b, const stet_words *w, size_t n_words)
{
    b->n_ids = stet_words_size(w);
    b->word = mem_alloc(b->n_ids, sizeof *b->word);
    if (!b->word)
        return STET_ENOMEM;
    memset(b->word, 0xff, b->n_ids * sizeof *b->word);
    for (uint32_t k = 0; k < n_words; k++)
        if (b->id[k] != UINT32_MAX)
            b->word[b->id[k]] = k;
    return STET_OK;
}

/* The word of the set becomes one of the run, unless it is not read as itself. */
static stet_status bind_word(stet_bound *b, stet_words *w, odd_words *odd, uint32_t k)
{
    const char *word = stet_subst_word(b->s->words, k);
    bool typed;
    TRY(odd_words_see(odd, words_reader(w), word, &typed));
    b->id[k] = UINT32_MAX;
    if (typed)
        TRY(stet_words_add(w, word, strlen(word), &b->id[k]));
    return STET_OK;
}

static stet_status bind_words(stet_bound *b, stet_words *w, odd_words *odd)
{
    const stet_subst *s = b->s->words;
    b->id = mem_alloc(s->n_words + 1, sizeof *b->id);
    if (!b->id)
        return STET_ENOMEM;
    for (uint32_t k = 0; k < s->n_words; k++)
        TRY(bind_word(b, w, odd, k));
    return number_words(b, w, s->n_words);
}

/* The words of one text and their substitutes. */
static stet_status bind_some(stet_bound *b, stet_words *w, odd_words *odd, const stet_reading *r)
{
    const stet_subst *s = b->s->words;
    b->id = mem_alloc(s->n_words + 1, sizeof *b->id);
    if (!b->id)
        return STET_ENOMEM;
    memset(b->id, 0xff, s->n_words * sizeof *b->id);
    for (size_t i = 0; i < r->n; i++) {
        const uint32_t k = stet_subst_word_id(s, stet_token_word(&r->tokens, i), r->tokens.v[i].len);
        size_t n = 0;
        const uint32_t *alt = k == UINT32_MAX ? NULL : stet_subst_of(s, k, &n);
        if (k != UINT32_MAX)
            TRY(bind_word(b, w, odd, k));
        for (size_t j = 0; j < n; j++)
            TRY(bind_word(b, w, odd, alt[j]));
    }
    return number_words(b, w, s->n_words);
}

static stet_status bind_texts(stet_bound *b, stet_words *w, odd_words *odd)
{
    const strmap *all = subst_texts_words(b->s->texts);
    for (uint32_t k = 0; k < all->n; k++) {
        const char *word = strmap_text(all, k);
        bool typed;
        uint32_t id;
        TRY(odd_words_see(odd, words_reader(w), word, &typed));
        TRY(typed ? stet_words_add(w, word, strlen(word), &id)
                  : strmap_add(&b->odd, word, strlen(word), NULL));
    }
    return STET_OK;
}

static stet_status bind(const stet_sets *s, stet_words *w, const stet_reading *r, stet_bound **out)
{
    *out = NULL;
    stet_bound *b = mem_zalloc(1, sizeof *b);
    if (!b)
        return STET_ENOMEM;
    b->s = s;
    odd_words odd = {0};
    const stet_status st = !s->words ? bind_texts(b, w, &odd)
                           : r       ? bind_some(b, w, &odd, r)
                                     : bind_words(b, w, &odd);
    b->left_out = odd.n;
    if (st == STET_OK && !r)
        odd_words_tell(&odd);
    odd_words_deinit(&odd);
    if (st == STET_OK)
        *out = b;
    else
        stet_bound_free(b);
    return st;
}

stet_status stet_sets_bind(const stet_sets *s, stet_words *w, stet_bound **out)
{
    return bind(s, w, NULL, out);
}

stet_status sets_bind_text(const stet_sets *s, stet_words *w, const stet_reading *r,
                           stet_bound **out)
{
    return bind(s, w, r, out);
}

void stet_bound_free(stet_bound *b)
{
    if (!b)
        return;
    mem_free(b->id);
    mem_free(b->word);
    strmap_deinit(&b->odd);
    mem_free(b);
}

size_t stet_bound_left_out(const stet_bound *b)
{
    return b->left_out;
}

/* The number of a word in sets of words, or UINT32_MAX. */
static uint32_t number_of(const stet_bound *b, uint32_t id)
{
    return id < b->n_ids ? b->word[id] : UINT32_MAX;
}

bool stet_bound_lists(const stet_bound *b, uint32_t id)
{
    return number_of(b, id) != UINT32_MAX;
}

/* ---- choices ------------------------------------------------------------------------------ */

/* Words and texts grow together. */
static stet_status reserve(stet_choices *c, size_t need)
{
    size_t cap = c->cap;
    TRY(mem_grow(&c->word, &cap, need, sizeof *c->word));
    cap = c->cap;
    TRY(mem_grow(&c->text, &cap, need, sizeof *c->text));
    c->cap = cap;
    return STET_OK;
}

/* The substitutes of a word: never itself, none twice. */
static stet_status of_words(const stet_bound *b, const stet_reading *r, stet_choices *out)
{
    const stet_subst *s = b->s->words;
    uint32_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        const uint32_t key = number_of(b, r->ids[i]);
        size_t count = 0;
        const uint32_t *alt = key == UINT32_MAX ? NULL : stet_subst_of(s, key, &count);
        TRY(reserve(out, n + count + 1));
        for (size_t k = 0; k < count; k++)
            if (b->id[alt[k]] != UINT32_MAX) {
                out->word[n] = b->id[alt[k]];
                out->text[n++] = stet_subst_word(s, alt[k]);
            }
        out->start[i + 1] = n;
    }
    return STET_OK;
}

/* Lists of texts may name the word in place, and a word twice. */
static bool is_new(const stet_choices *c, uint32_t from, uint32_t n, uint32_t in_place, uint32_t id)
{
    bool fresh = id != in_place && id != UINT32_MAX;
    for (uint32_t k = from; k < n && fresh; k++)
        fresh = c->word[k] != id;
    return fresh;
}

/* The substitutes of text `which` go to the tokens that stand at its positions. */
static stet_status of_aligned(const stet_bound *b, const stet_words *w, size_t which,
                              const stet_reading *r, const size_t *position, stet_choices *out)
{
    uint32_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        size_t count;
        const char *const *alt = stet_subst_texts_at(b->s->texts, which, position[i], &count);
        TRY(reserve(out, n + count + 1));
        for (size_t k = 0; k < count; k++) {
            const size_t len = strlen(alt[k]);
            const uint32_t id = stet_words_find(w, alt[k], len);
            if (!is_new(out, out->start[i], n, r->ids[i], id) ||
                strmap_find(&b->odd, alt[k], len) != STRMAP_NONE)
                continue;
            out->word[n] = id;
            out->text[n++] = alt[k];
        }
        out->start[i + 1] = n;
    }
    return STET_OK;
}

static stet_status of_text(const stet_bound *b, const stet_words *w, const stet_reading *r,
                           stet_choices *out)
{
    size_t which;
    TRY(stet_subst_texts_find(b->s->texts, r->text.data, r->text.len, &which));
    size_t *position = mem_alloc(r->tokens.n + 1, sizeof *position);
    if (!position)
        return STET_ENOMEM;
    stet_subst_texts_align(b->s->texts, which, r->text.data, r->text.len, &r->tokens, position);
    const stet_status st = of_aligned(b, w, which, r, position, out);
    mem_free(position);
    return st;
}

stet_status stet_bound_choices(const stet_bound *b, const stet_words *w, const stet_reading *r,
                               stet_choices *out)
{
    TRY(mem_grow(&out->start, &out->cap_n, r->n + 1, sizeof *out->start));
    out->n = r->n;
    out->start[0] = 0;
    out->words = w;
    return b->s->words ? of_words(b, r, out) : of_text(b, w, r, out);
}

void stet_choices_deinit(stet_choices *c)
{
    mem_free(c->start);
    mem_free(c->word);
    mem_free(c->text);
    *c = (stet_choices){0};
}

size_t stet_choices_changeable(const stet_choices *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        n += c->start[i + 1] > c->start[i];
    return n;
}
