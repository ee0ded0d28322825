/* lexicon/subst_texts.c - substitutes that hold at one position of one text only, as a language
 * model leaves them: {"the tokens joined by spaces": {"position": ["word", ...], ...}, ...}.
 *
 * The files keep neither labels nor the original text, only its tokens. But no tokeniser adds or
 * drops letters, so a text is found, and its tokens are matched to those of any other tokeniser,
 * by its ASCII letters and digits alone. */
#include "stet/lexicon.h"

#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/strmap.h"
#include "lexicon/subst.h"

typedef struct text_sets {
    stet_str text;
    size_t positions;
    const char **sub;      /* substitutes of all positions one after the other */
    const uint32_t *start; /* (positions + 1) into `sub` */
} text_sets;

struct stet_subst_texts {
    arena mem;
    strmap words;   /* substitutes */
    strmap letters; /* what find() looks for; its numbers index `text_of` */
    uint32_t *text_of;
    text_sets *v;
    size_t n;
    uint64_t fingerprint;
};

/* ---- letters and digits ------------------------------------------------------------------- */

typedef struct walk {
    const char *s;
    size_t n, at;
} walk;

/* Length of the HTML line break at s, or 0. */
static size_t break_length(const char *s, size_t n)
{
    if (n < 4 || strncasecmp(s, "<br", 3) != 0)
        return 0;
    size_t i = 3;
    while (i < n && (s[i] == ' ' || s[i] == '/'))
        i++;
    return i < n && s[i] == '>' ? i + 1 : 0;
}

/* The next letter or digit in lower case, or 0 at the end; w->at is just behind it. */
static char next_letter(walk *w)
{
    while (w->at < w->n) {
        const size_t skip = break_length(w->s + w->at, w->n - w->at);
        if (skip > 0) {
            w->at += skip;
            continue;
        }
        const unsigned char c = (unsigned char)w->s[w->at++];
        if (c < 0x80 && isalnum(c))
            return (char)tolower(c);
    }
    return 0;
}

static stet_status letters_of(const char *text, size_t len, buf *out)
{
    walk w = {text, len, 0};
    buf_clear(out);
    for (char c; (c = next_letter(&w));)
        buf_char(out, c);
    return buf_status(out);
}

/* ---- reading ------------------------------------------------------------------------------ */

static size_t count_positions(const char *text)
{
    size_t n = 1;
    for (; *text; text++)
        n += *text == ' ';
    return n;
}

static stet_status parse_position(const char *key, size_t limit, size_t *out)
{
    size_t p = 0;
    const char *c = key;
    for (; isdigit((unsigned char)*c) && p < limit; c++)
        p = p * 10 + (size_t)(*c - '0');
    if (c == key || *c || p >= limit || (key[0] == '0' && key[1]))
        return error_set(STET_EFORMAT, "position \"%.20s\", expected 0 to %zu", key, limit - 1);
    *out = p;
    return STET_OK;
}

/* First pass over a text's map: sizes of the lists into start[position + 1]. */
static stet_status measure(const json_t *map, size_t positions, uint32_t *start)
{
    for (void *it = json_object_iter((json_t *)map); it;
         it = json_object_iter_next((json_t *)map, it)) {
        size_t p;
        TRY(parse_position(json_object_iter_key(it), positions, &p));
        const json_t *list = json_object_iter_value(it);
        if (!json_is_array(list))
            return error_set(STET_EFORMAT, "position %zu: expected a list of words", p);
        start[p + 1] = (uint32_t)json_array_size(list);
    }
    for (size_t p = 0; p < positions; p++)
        start[p + 1] += start[p];
    return STET_OK;
}

static stet_status add_list(stet_subst_texts *s, const json_t *list, const char **sub)
{
    size_t i;
    const json_t *word;
    json_array_foreach(list, i, word)
    {
        if (!json_is_string(word))
            return error_set(STET_EFORMAT, "item %zu: expected a word", i + 1);
        const char *text = json_string_value(word);
        const size_t len = json_string_length(word);
        const char *fault = subst_word_fault(text, len);
        if (fault)
            return error_set(STET_EFORMAT, "item %zu: expected a word, found %s", i + 1, fault);
        uint32_t id;
        TRY(strmap_add(&s->words, text, len, &id));
        sub[i] = strmap_text(&s->words, id);
    }
    return STET_OK;
}

static stet_status add_text(stet_subst_texts *s, const char *text, const json_t *map, buf *scratch)
{
    if (!json_is_object(map))
        return error_set(STET_EFORMAT, "expected a map {\"position\": [\"word\", ...]}");
    text_sets *t = &s->v[s->n];
    t->text.len = strlen(text);
    t->text.data = arena_strndup(&s->mem, text, t->text.len);
    t->positions = count_positions(text);
    uint32_t *start = arena_znew(&s->mem, uint32_t, t->positions + 1);
    if (!t->text.data || !start)
        return STET_ENOMEM;
    TRY(measure(map, t->positions, start));
    t->start = start;
    t->sub = arena_new(&s->mem, const char *, start[t->positions] + (size_t)1);
    if (!t->sub)
        return STET_ENOMEM;
    for (void *it = json_object_iter((json_t *)map); it;
         it = json_object_iter_next((json_t *)map, it)) {
        const char *key = json_object_iter_key(it);
        size_t p = 0;
        TRY(parse_position(key, t->positions, &p));
        const stet_status st = add_list(s, json_object_iter_value(it), t->sub + start[p]);
        if (st != STET_OK)
            return st == STET_ENOMEM ? st : error_prefix(st, "position %s", key);
    }
    uint32_t id;
    const size_t known = s->letters.n;
    TRY(letters_of(text, t->text.len, scratch));
    TRY(strmap_add(&s->letters, scratch->data ? scratch->data : "", scratch->n, &id));
    if (id == known) /* of texts with the same letters the first is found */
        s->text_of[id] = (uint32_t)s->n;
    s->n++;
    return STET_OK;
}

static uint64_t fingerprint_of(const stet_subst_texts *s)
{
    uint64_t h = s->n;
    for (size_t i = 0; i < s->n; i++) {
        const text_sets *t = &s->v[i];
        h = hash_bytes(t->text.data, t->text.len, h);
        h = hash_bytes(t->start, (t->positions + 1) * sizeof *t->start, h);
        for (uint32_t j = 0; j < t->start[t->positions]; j++)
            h = hash_bytes(t->sub[j], strlen(t->sub[j]), h);
    }
    return h;
}

stet_status subst_texts_from_json(json_t *root, const char *name, stet_subst_texts **out)
{
    *out = NULL;
    if (!json_is_object(root))
        return error_set(STET_EFORMAT, "%s: expected a map {\"text\": {\"position\": [...]}}",
                         name);
    stet_subst_texts *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    const size_t n = json_object_size(root);
    s->v = mem_zalloc(n, sizeof *s->v);
    s->text_of = mem_alloc(n, sizeof *s->text_of);
    stet_status st = s->v && s->text_of ? STET_OK : STET_ENOMEM;
    buf scratch = {0};
    for (void *it = json_object_iter(root); it && st == STET_OK;
         it = json_object_iter_next(root, it)) {
        const char *text = json_object_iter_key(it);
        st = add_text(s, text, json_object_iter_value(it), &scratch);
        if (st == STET_EFORMAT)
            error_prefix(st, "%s: text %zu, \"%.40s\"", name, s->n + 1, text);
    }
    buf_deinit(&scratch);
    if (st != STET_OK) {
        stet_subst_texts_free(s);
        return st;
    }
    s->fingerprint = fingerprint_of(s);
    *out = s;
    return STET_OK;
}

stet_status stet_subst_texts_load(const char *path, stet_subst_texts **out)
{
    *out = NULL;
    json_t *root;
    TRY(json_read_file(path, &root));
    const stet_status st = subst_texts_from_json(root, path, out);
    json_decref(root);
    return st;
}

void stet_subst_texts_free(stet_subst_texts *s)
{
    if (!s)
        return;
    strmap_deinit(&s->words);
    strmap_deinit(&s->letters);
    arena_deinit(&s->mem);
    mem_free(s->text_of);
    mem_free(s->v);
    mem_free(s);
}

/* ---- looking up --------------------------------------------------------------------------- */

const strmap *subst_texts_words(const stet_subst_texts *s)
{
    return &s->words;
}

size_t stet_subst_texts_count(const stet_subst_texts *s)
{
    return s->n;
}

stet_str stet_subst_texts_text(const stet_subst_texts *s, size_t i)
{
    return i < s->n ? s->v[i].text : (stet_str){"", 0};
}

size_t stet_subst_texts_positions(const stet_subst_texts *s, size_t i)
{
    return i < s->n ? s->v[i].positions : 0;
}

const char *const *stet_subst_texts_at(const stet_subst_texts *s, size_t i, size_t p, size_t *n)
{
    if (i >= s->n || p >= s->v[i].positions) {
        *n = 0;
        return NULL;
    }
    const text_sets *t = &s->v[i];
    *n = t->start[p + 1] - t->start[p];
    return t->sub + t->start[p];
}

uint64_t stet_subst_texts_fingerprint(const stet_subst_texts *s)
{
    return s->fingerprint;
}

stet_status stet_subst_texts_find(const stet_subst_texts *s, const char *text, size_t len,
                                  size_t *out)
{
    *out = SIZE_MAX;
    buf letters = {0};
    const stet_status st = letters_of(text, len, &letters);
    if (st == STET_OK) {
        const char *key = letters.data ? letters.data : "";
        const uint32_t id = strmap_find(&s->letters, key, letters.n);
        if (id != STRMAP_NONE)
            *out = s->text_of[id];
    }
    buf_deinit(&letters);
    return st;
}

/* Letters passed when the walk stands at byte `end`. */
static size_t letters_before(walk *w, size_t letters, size_t end)
{
    walk ahead = *w;
    while (next_letter(&ahead) && ahead.at <= end) {
        *w = ahead;
        letters++;
    }
    return letters;
}

void stet_subst_texts_align(const stet_subst_texts *s, size_t i, const char *text, size_t len,
                            const stet_tokens *tokens, size_t *position)
{
    const stet_str own = stet_subst_texts_text(s, i);
    walk theirs = {text, len, 0}, ours = {own.data, own.len, 0};
    size_t seen = 0, p = 0, p_end = strcspn(own.data, " "), p_from = 0;
    size_t p_to = letters_before(&ours, 0, p_end);
    for (size_t t = 0; t < tokens->n; t++) {
        const size_t from = seen = letters_before(&theirs, seen, tokens->v[t].start);
        const size_t to = seen = letters_before(&theirs, seen, tokens->v[t].end);
        while (p_to <= from && p_end < own.len) { /* the next of our positions */
            p++;
            p_end += 1 + strcspn(own.data + p_end + 1, " ");
            p_from = p_to;
            p_to = letters_before(&ours, p_to, p_end);
        }
        position[t] = from < to && from == p_from && to == p_to ? p : SIZE_MAX;
    }
}
