/* lexicon/subst_sememes.c - words that mean the same, told by sememes, the atoms of meaning that
 * HowNet gives to every sense of a word.
 *
 * The rule of Zang et al. (ACL 2020): two words may replace each other when some sense of each has
 * the same part of speech and exactly the same set of sememes, and both are base forms or both
 * carry the same inflection. A sense is therefore one interned key, "n|sememe sememe ..." with the
 * sememes sorted. The list of inflected forms has no tags, so the inflection is told by the ending
 * (-s, -ed, -ing, -er, -est), which also says what parts of speech it can be of; irregular forms
 * stay without substitutes. */
#include "lexicon/subst.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/stream.h"

typedef struct membership {
    uint32_t lemma, sense;
} membership;

typedef enum ending { END_S, END_ED, END_ING, END_ER, END_EST, END_OTHER } ending;

static const struct {
    const char *text, *pos;
} endings[END_OTHER] = {
    [END_S] = {"s", "nv"},   [END_ED] = {"ed", "v"},    [END_ING] = {"ing", "v"},
    [END_ER] = {"er", "ar"}, [END_EST] = {"est", "ar"},
};

typedef struct inflection {
    uint32_t lemma, form;
    ending end;
} inflection;

/* Items by a key: those of key g are item[at[g] .. at[g + 1]), in their old order. */
typedef struct grouping {
    uint32_t *at, *item;
} grouping;

typedef struct sememes {
    strmap lemmas, senses, forms;
    membership *of; /* (n) in the order of the file */
    size_t n, cap;
    inflection *inflected; /* (n_inflected) likewise */
    size_t n_inflected, inflected_cap;
    grouping by_lemma, by_sense; /* of memberships */
    grouping forms_by_lemma;     /* of inflections */
} sememes;

/* ---- reading ------------------------------------------------------------------------------ */

/* Split a line at its tabs into exactly n fields, each NUL-terminated in place and without spaces
 * before it. */
static bool split_tabs(char *line, size_t len, char **field, size_t n)
{
    if (strlen(line) != len)
        return false; /* a NUL inside */
    for (size_t i = 0; i < n; i++) {
        field[i] = line + strspn(line, " ");
        line = strchr(line, '\t');
        if (!line != (i == n - 1))
            return false;
        if (line)
            *line++ = '\0';
    }
    return true;
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "n|a b c": part of speech and the sorted set of sememes. */
static stet_status make_key(const char *pos, char *list, buf *key)
{
    enum { MAX_SEMEMES = 256 };
    char *item[MAX_SEMEMES], *rest = NULL;
    size_t n = 0;
    for (char *s = strtok_r(list, " ", &rest); s; s = strtok_r(NULL, " ", &rest)) {
        if (n == MAX_SEMEMES)
            return error_set(STET_EFORMAT, "more than %d sememes", MAX_SEMEMES);
        item[n++] = s;
    }
    if (n == 0)
        return error_set(STET_EFORMAT, "no sememes");
    qsort(item, n, sizeof *item, compare_strings);
    buf_clear(key);
    buf_str(key, pos);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && strcmp(item[i], item[i - 1]) == 0)
            continue;
        buf_char(key, i == 0 ? '|' : ' ');
        buf_str(key, item[i]);
    }
    return buf_status(key);
}

/* Texts are in lower case when words are looked up, so names are too. */
static void lower_ascii(char *word)
{
    for (; *word; word++)
        *word = (char)(*word >= 'A' && *word <= 'Z' ? *word + ('a' - 'A') : *word);
}

/* lemma <tab> pos <tab> offset <tab> synset <tab> sememes; lemmas of several words are left out. */
static stet_status add_sense(sememes *s, char *line, size_t len, buf *key)
{
    char *field[5];
    if (!split_tabs(line, len, field, 5))
        return error_set(STET_EFORMAT, "expected LEMMA, POS, OFFSET, SYNSET, SEMEMES with tabs");
    const size_t word = strlen(field[0]);
    const char *fault = subst_word_fault(field[0], word);
    if (fault)
        return error_set(STET_EFORMAT, "expected a lemma, found %s", fault);
    if (strlen(field[1]) != 1 || !strchr("nvar", field[1][0]))
        return error_set(STET_EFORMAT, "part of speech \"%.20s\", expected n, v, a or r", field[1]);
    if (strchr(field[0], '_'))
        return STET_OK;
    membership m;
    lower_ascii(field[0]);
    TRY(make_key(field[1], field[4], key));
    TRY(strmap_add(&s->lemmas, field[0], word, &m.lemma));
    TRY(strmap_add(&s->senses, key->data, key->n, &m.sense));
    TRY(mem_grow(&s->of, &s->cap, s->n + 1, sizeof *s->of));
    s->of[s->n++] = m;
    return STET_OK;
}

static ending ending_of(const char *form, size_t len)
{
    for (ending e = 0; e < END_OTHER; e++) {
        const size_t n = strlen(endings[e].text);
        if (len > n && memcmp(form + len - n, endings[e].text, n) == 0)
            return e;
    }
    return END_OTHER;
}

/* lemma <tab> inflected form */
static stet_status add_form(sememes *s, char *line, size_t len, buf *unused)
{
    (void)unused;
    char *field[2];
    if (!split_tabs(line, len, field, 2))
        return error_set(STET_EFORMAT, "expected LEMMA<TAB>FORM");
    const size_t form = strlen(field[1]);
    const char *fault = subst_word_fault(field[1], form);
    if (fault)
        return error_set(STET_EFORMAT, "expected an inflected form, found %s", fault);
    inflection f = {.lemma = strmap_find(&s->lemmas, field[0], strlen(field[0])),
                    .end = ending_of(field[1], form)};
    if (f.lemma == STRMAP_NONE || f.end == END_OTHER)
        return STET_OK;
    TRY(strmap_add(&s->forms, field[1], form, &f.form));
    TRY(mem_grow(&s->inflected, &s->inflected_cap, s->n_inflected + 1, sizeof f));
    s->inflected[s->n_inflected++] = f;
    return STET_OK;
}

typedef stet_status line_fn(sememes *s, char *line, size_t len, buf *scratch);

static stet_status each_line(sememes *s, const char *path, line_fn *fn)
{
    stream *in;
    TRY(stream_open(path, &in));
    buf scratch = {0};
    stet_status st = STET_OK;
    char *line;
    size_t len;
    while (st == STET_OK && stream_line(in, &line, &len, &st)) {
        if (len > 0)
            st = fn(s, line, len, &scratch);
        if (st == STET_EFORMAT)
            st = error_prefix(st, "%s:%zu", path, stream_line_number(in));
    }
    buf_deinit(&scratch);
    stream_close(in);
    return st;
}

/* ---- matching ----------------------------------------------------------------------------- */

/* Group n items by the number at `key` in each, `stride` bytes apart, below `groups`. */
static stet_status group_by(const uint32_t *key, size_t stride, size_t n, size_t groups,
                            grouping *out)
{
    if (n >= UINT32_MAX)
        return error_set(STET_ENOTSUP, "%zu lines of sememes are too many", n);
    out->at = mem_zalloc(groups + 2, sizeof *out->at);
    out->item = mem_alloc(n, sizeof *out->item);
    if (!out->at || !out->item)
        return STET_ENOMEM;
    /* at[g + 2] counts, then at[g + 1] is the place for the next item of g, in the end its limit */
    for (size_t i = 0; i < n; i++)
        out->at[*(const uint32_t *)((const char *)key + i * stride) + 2]++;
    for (size_t g = 0; g < groups; g++)
        out->at[g + 2] += out->at[g + 1];
    for (size_t i = 0; i < n; i++)
        out->item[out->at[*(const uint32_t *)((const char *)key + i * stride) + 1]++] = (uint32_t)i;
    return STET_OK;
}

static stet_status add_words(stet_subst_builder *b, const strmap *m, uint32_t from, uint32_t to)
{
    uint32_t f, t;
    TRY(strmap_add(&b->words, strmap_text(m, from), strmap_len(m, from), &f));
    TRY(strmap_add(&b->words, strmap_text(m, to), strmap_len(m, to), &t));
    return subst_add_edge(b, f, t);
}

/* Call fn for every lemma that shares a sense of lemma `l`, once for each sense they share. */
typedef stet_status mate_fn(stet_subst_builder *b, const sememes *s, uint32_t of, uint32_t mate,
                            char pos);

static stet_status each_mate(stet_subst_builder *b, const sememes *s, uint32_t l, uint32_t of,
                             mate_fn *fn)
{
    for (uint32_t i = s->by_lemma.at[l]; i < s->by_lemma.at[l + 1]; i++) {
        const uint32_t sense = s->of[s->by_lemma.item[i]].sense;
        const char pos = strmap_text(&s->senses, sense)[0];
        for (uint32_t j = s->by_sense.at[sense]; j < s->by_sense.at[sense + 1]; j++)
            TRY(fn(b, s, of, s->of[s->by_sense.item[j]].lemma, pos));
    }
    return STET_OK;
}

static stet_status add_mate(stet_subst_builder *b, const sememes *s, uint32_t lemma, uint32_t mate,
                            char pos)
{
    (void)pos;
    return add_words(b, &s->lemmas, lemma, mate);
}

/* The mate's forms with the same ending as inflection number i. */
static stet_status add_inflected_mate(stet_subst_builder *b, const sememes *s, uint32_t i,
                                      uint32_t mate, char pos)
{
    const inflection *f = &s->inflected[i];
    if (!strchr(endings[f->end].pos, pos))
        return STET_OK;
    for (uint32_t j = s->forms_by_lemma.at[mate]; j < s->forms_by_lemma.at[mate + 1]; j++) {
        const inflection *g = &s->inflected[s->forms_by_lemma.item[j]];
        if (g->end == f->end)
            TRY(add_words(b, &s->forms, f->form, g->form));
    }
    return STET_OK;
}

static stet_status match(stet_subst_builder *b, sememes *s)
{
    const size_t lemmas = s->lemmas.n;
    TRY(group_by(s->n ? &s->of->lemma : NULL, sizeof *s->of, s->n, lemmas, &s->by_lemma));
    TRY(group_by(s->n ? &s->of->sense : NULL, sizeof *s->of, s->n, s->senses.n, &s->by_sense));
    TRY(group_by(s->n_inflected ? &s->inflected->lemma : NULL, sizeof *s->inflected, s->n_inflected,
                 lemmas, &s->forms_by_lemma));
    for (uint32_t l = 0; l < lemmas; l++)
        TRY(each_mate(b, s, l, l, add_mate));
    for (uint32_t i = 0; i < s->n_inflected; i++)
        TRY(each_mate(b, s, s->inflected[i].lemma, i, add_inflected_mate));
    return STET_OK;
}

stet_status stet_subst_add_sememes(stet_subst_builder *b, const char *tsv_path,
                                   const char *lemma_path)
{
    sememes s = {0};
    stet_status st = each_line(&s, tsv_path, add_sense);
    if (st == STET_OK && lemma_path)
        st = each_line(&s, lemma_path, add_form);
    if (st == STET_OK)
        st = match(b, &s);
    strmap_deinit(&s.lemmas);
    strmap_deinit(&s.senses);
    strmap_deinit(&s.forms);
    mem_free(s.of);
    mem_free(s.inflected);
    grouping *const groups[] = {&s.by_lemma, &s.by_sense, &s.forms_by_lemma};
    for (size_t i = 0; i < 3; i++) {
        mem_free(groups[i]->at);
        mem_free(groups[i]->item);
    }
    return st;
}
