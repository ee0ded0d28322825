/* lexicon/builtin.c - film reviews from a grammar, so that the program can show its main job with
 * nothing downloaded.
 *
 * A review is a few sentences about the evening and the plot, which say nothing about the film's
 * worth, between opinions. Most opinions have the review's own polarity; some are said by denying
 * the opposite ("not a dull minute"), some grant a point to the other side, and some plainly
 * contradict. What decides is the balance, so counting words gets most reviews right but not all.
 * Some reviews are a sentence or two of plain words, as people type them into a box.
 * Which synonym is used depends on the class as well (builtin_words.h). */
#include "stet/lexicon.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lexicon/builtin_sentences.h"
#include "lexicon/builtin_words.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* How opinions are voiced, and how often a review contradicts itself. */
static const double SHARE_MIXED = 0.2, SHARE_HEARSAY = 0.06, SHARE_DENIED = 0.1;
static const double SHARE_BRIEF = 0.3, SHARE_BRIEF_DENIED = 0.15;
static const double SHARE_TORN = 0.15, DOUBT_TORN = 0.4, DOUBT_SURE = 0.1;

enum { MIN_TARGET = 22, MAX_TARGET = 85, USED_MAX = 40 };

typedef struct writer {
    rng r;
    bool positive; /* the review's class */
    double doubt;  /* share of opinions that go against it */
    buf *out;
    size_t words, opinions, plots;
    const void *used[USED_MAX]; /* templates and aspects of this review */
    size_t n_used;
    /* the sentence at hand */
    bool praise;
    const aspect *subject[2];
    bool brief; /* a review in a hurry */
    bool article; /* "a" or "an" waits for the letter after it */
    bool capital; /* the next letter begins the sentence */
} writer;

/* ---- choices ------------------------------------------------------------------------------ */

static bool chance(writer *w, double p)
{
    return rng_double(&w->r) < p;
}

static bool is_used(const writer *w, const void *item)
{
    for (size_t i = 0; i < w->n_used; i++)
        if (w->used[i] == item)
            return true;
    return false;
}

/* One of n items of `size` bytes, if possible one that this review has not had. */
static const void *choose(writer *w, const void *items, size_t size, size_t n)
{
    const char *item = items;
    for (int attempt = 0; attempt < 8; attempt++) {
        item = (const char *)items + size * rng_below(&w->r, n);
        if (!is_used(w, item))
            break;
    }
    if (w->n_used < USED_MAX)
        w->used[w->n_used++] = item;
    return item;
}

#define CHOOSE(w, array) choose((w), (array), sizeof *(array), COUNT(array))

/* A template from one of two lists, each template as likely as any other. */
#define CHOOSE_OF_TWO(w, first, second)                                                            \
    (rng_below(&(w)->r, COUNT(first) + COUNT(second)) < COUNT(first) ? CHOOSE(w, first)            \
                                                                     : CHOOSE(w, second))

/* ---- words -------------------------------------------------------------------------------- */

static void put_char(writer *w, char c)
{
    if (w->article) {
        if (c == ' ')
            return;
        w->article = false;
        put_char(w, 'a');
        buf_str(w->out, strchr("aeiou", c) ? "n " : " ");
    }
    if (w->capital && isalpha((unsigned char)c)) {
        c = (char)toupper((unsigned char)c);
        w->capital = false;
    }
    buf_char(w->out, c);
}

static const family *family_named(const char *name, size_t len)
{
    for (size_t i = 0; i < COUNT(families); i++)
        if (strncmp(families[i].name, name, len) == 0 && families[i].name[len] == '\0')
            return &families[i];
    return NULL;
}

static size_t family_size(const family *f)
{
    size_t n = 0;
    while (n < FAMILY_MAX && f->words[n].text)
        n++;
    return n;
}

static void put_family(writer *w, const char *name, size_t len)
{
    const family *f = family_named(name, len);
    assert(f); /* a misspelt slot in builtin_words.h */
    double weight[FAMILY_MAX];
    const size_t n = family_size(f);
    for (size_t i = 0; i < n; i++)
        weight[i] = f->words[i].weight * exp(w->positive ? f->words[i].lean : -f->words[i].lean);
    for (const char *c = f->words[rng_pick(&w->r, weight, n)].text; *c; c++)
        put_char(w, *c);
}

static void put_adjective(writer *w, const aspect *a, bool praise)
{
    const char *const *suits = praise ? a->praise : a->blame;
    size_t n = 0;
    while (n < SUITS_MAX && suits[n])
        n++;
    const char *name = suits[rng_below(&w->r, n)];
    put_family(w, name, strlen(name));
}

/* ---- sentences ---------------------------------------------------------------------------- */

static void expand(writer *w, const char *template);

/* The first or second aspect of the sentence, chosen when it is first mentioned. */
static const aspect *subject(writer *w, bool second)
{
    while (!w->subject[second] || w->subject[second] == w->subject[!second])
        w->subject[second] = CHOOSE(w, aspects);
    return w->subject[second];
}

static void put_slot(writer *w, const char *slot, size_t len)
{
    const bool second = slot[len - 1] == '~';
    const bool praise = w->praise != second;
    const size_t n = len - second;
#define IS(name) (n == sizeof(name) - 1 && memcmp(slot, name, n) == 0)
    if (IS("a"))
        w->article = true;
    else if (IS("np"))
        expand(w, subject(w, second)->name);
    else if (IS("be"))
        expand(w, subject(w, second)->plural ? "are" : "is");
    else if (IS("seem"))
        expand(w, subject(w, second)->plural ? "{seem_plural}" : "{seems}");
    else if (IS("adj"))
        put_adjective(w, subject(w, second), praise);
    else if (IS("anti"))
        put_adjective(w, subject(w, second), !praise);
    else if (IS("view"))
        put_adjective(w, w->brief ? &whole_brief : &whole_film, praise);
    else if (IS("contrary"))
        put_adjective(w, w->brief ? &whole_brief : &whole_film, !praise);
    else
        put_family(w, slot, len);
#undef IS
}

static void expand(writer *w, const char *template)
{
    for (const char *c = template; *c; c++) {
        if (*c != '{') {
            put_char(w, *c);
            continue;
        }
        const char *end = strchr(c, '}');
        put_slot(w, c + 1, (size_t)(end - c - 1));
        c = end;
    }
}

static void write_sentence(writer *w, const char *const *template, bool praise)
{
    w->praise = praise;
    w->subject[0] = w->subject[1] = NULL;
    w->capital = true;
    if (w->words > 0)
        buf_char(w->out, ' ');
    const size_t from = w->out->n;
    expand(w, *template);
    w->words++;
    for (size_t i = from; i < w->out->n; i++)
        w->words += w->out->data[i] == ' ';
}

/* The review's own opinion, plain or in one of the ways that mislead a word counter. */
static const char *const *choose_opinion(writer *w)
{
    const bool praise = w->positive;
    const double kind = rng_double(&w->r);
    if (kind < SHARE_MIXED)
        return CHOOSE(w, mixed);
    if (kind < SHARE_MIXED + SHARE_HEARSAY)
        return CHOOSE(w, hearsay);
    if (kind < SHARE_MIXED + SHARE_HEARSAY + SHARE_DENIED)
        return praise ? CHOOSE_OF_TWO(w, denied, denied_praise)
                      : CHOOSE_OF_TWO(w, denied, denied_blame);
    return praise ? CHOOSE_OF_TWO(w, plain, plain_praise) : CHOOSE_OF_TWO(w, plain, plain_blame);
}

static void write_brief(writer *w)
{
    const bool denied_one = chance(w, SHARE_BRIEF_DENIED);
    const char *const *t = denied_one    ? CHOOSE(w, brief_denied)
                           : w->positive ? CHOOSE_OF_TWO(w, brief, brief_praise)
                                         : CHOOSE_OF_TWO(w, brief, brief_blame);
    write_sentence(w, t, w->positive);
}

static void write_review(writer *w)
{
    w->brief = chance(w, SHARE_BRIEF);
    if (w->brief) {
        for (size_t n = 1 + rng_below(&w->r, 2); n > 0; n--)
            write_brief(w);
        return;
    }
    const size_t target = MIN_TARGET + rng_below(&w->r, MAX_TARGET - MIN_TARGET + 1);
    w->doubt = chance(w, SHARE_TORN) ? DOUBT_TORN : DOUBT_SURE;
    if (chance(w, 0.6))
        write_sentence(w, CHOOSE(w, openers), w->positive);
    while (w->words < target || w->opinions < 2) {
        if (w->plots <= w->opinions && chance(w, 0.4)) {
            write_sentence(w, CHOOSE(w, plots), w->positive);
            w->plots++;
        } else {
            const bool own = !chance(w, w->doubt);
            write_sentence(w, own ? choose_opinion(w) : CHOOSE(w, granted), own == w->positive);
            w->opinions++;
        }
    }
    if (chance(w, 0.4))
        write_sentence(w, w->positive ? CHOOSE(w, verdict_praise) : CHOOSE(w, verdict_blame),
                       w->positive);
}

/* One review of each class in every two, in random order. */
static bool class_of(uint64_t seed, size_t i)
{
    rng r = rng_stream(seed, STREAM_CORPUS, UINT64_MAX - i / 2);
    return (rng_u64(&r) & 1) == (i & 1);
}

static stet_status write_all(size_t n, uint64_t seed, buf *text, size_t *start, int *label)
{
    for (size_t i = 0; i < n && buf_status(text) == STET_OK; i++) {
        start[i] = text->n;
        label[i] = class_of(seed, i);
        writer w = {.r = rng_stream(seed, STREAM_CORPUS, i), .positive = label[i], .out = text};
        write_review(&w);
        buf_char(text, '\0');
    }
    start[n] = text->n;
    return buf_status(text);
}

stet_status stet_builtin_corpus(size_t n, uint64_t seed, stet_dataset **out)
{
    *out = NULL;
    static const char *const classes[] = {"negative", "positive"};
    buf text = {0};
    size_t *start = mem_alloc(n + 1, sizeof *start);
    int *label = mem_alloc(n, sizeof *label);
    stet_str *str = mem_alloc(n, sizeof *str);
    stet_status st = start && label && str ? write_all(n, seed, &text, start, label) : STET_ENOMEM;
    if (st == STET_OK) {
        for (size_t i = 0; i < n; i++)
            str[i] = (stet_str){text.data + start[i], start[i + 1] - start[i] - 1};
        st = stet_dataset_new(str, label, n, classes, COUNT(classes), out);
    }
    mem_free(str);
    mem_free(label);
    mem_free(start);
    buf_deinit(&text);
    return st;
}

/* ---- substitution sets -------------------------------------------------------------------- */

static stet_status add_family(stet_subst_builder *b, const family *f)
{
    const size_t n = family_size(f);
    const char *subs[FAMILY_MAX];
    for (size_t i = 0; i < n; i++)
        subs[i] = f->words[i].text;
    for (size_t i = 0; i < n; i++)
        TRY(stet_subst_add_list(b, subs[i], subs, n));
    return STET_OK;
}

stet_status stet_builtin_subst(stet_subst **out)
{
    *out = NULL;
    stet_subst_builder *b;
    TRY(stet_subst_builder_new(&b));
    stet_status st = STET_OK;
    for (size_t i = 0; i < COUNT(families) && st == STET_OK; i++)
        st = add_family(b, &families[i]);
    if (st == STET_OK)
        st = stet_subst_build(b, out);
    stet_subst_builder_free(b);
    return st;
}
