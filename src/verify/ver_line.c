/* verify/ver_line.c - from JSON to words, sets and what is said about them. */
#include "verify/ver_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const verdicts[] = {"wrong", "certified", "broken", "undecided", "likely"};

stet_status ver_only_keys(const json_t *o, const char *what, const char *const *keys)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)o, key, v)
    {
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0)
            i++;
        if (!keys[i])
            return error_set(STET_EFORMAT, "%s: unknown key \"%.40s\"", what, key);
    }
    return STET_OK;
}

stet_status ver_budget_read(const json_t *o, size_t *out)
{
    const json_t *v = json_object_get(o, "budget");
    *out = VER_ANY;
    if (json_is_null(v))
        return STET_OK;
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return error_set(STET_EFORMAT, "\"budget\": expected null or a number of words");
    *out = (size_t)json_integer_value(v);
    return STET_OK;
}

static uint32_t id_of(const ver_model *m, const char *word)
{
    const uint32_t id = strmap_find(&m->vocab, word, strlen(word));
    return id == STRMAP_NONE ? VER_UNK : id;
}

static stet_status read_words(const ver_model *m, const json_t *o, arena *a, ver_line *l)
{
    const json_t *words = json_object_get(o, "words");
    const size_t n = json_array_size(words);
    if (!json_is_array(words) || n > m->max_len)
        return error_set(STET_EFORMAT, "\"words\": expected a list of at most %zu", m->max_len);
    const char **word = arena_new(a, const char *, n + 1);
    if (!word)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        word[i] = json_string_value(json_array_get(words, i));
        if (!word[i])
            return error_set(STET_EFORMAT, "\"words\": word %zu is not a string", i);
        if (!m->reads(word[i]))
            return error_set(STET_EFORMAT, "\"words\": '%.40s' does not read as one word", word[i]);
    }
    l->text.word = word;
    l->text.n = n;
    return STET_OK;
}

/* A word stands for another one, and is listed once. Two unknown words are two, though the model
 * reads both as <unk>. */
static stet_status check_set(const char *in_place, const char *const *sub, size_t n, size_t p)
{
    for (size_t i = 0; i < n; i++) {
        bool same = strcmp(sub[i], in_place) == 0;
        for (size_t j = 0; j < i && !same; j++)
            same = strcmp(sub[i], sub[j]) == 0;
        if (same)
            return error_set(STET_EFORMAT, "\"sets\": position %zu has the word '%.40s' twice", p,
                             sub[i]);
    }
    return STET_OK;
}

static stet_status read_sets(const ver_model *m, const json_t *o, arena *a, ver_line *l)
{
    const json_t *sets = json_object_get(o, "sets");
    if (!json_is_object(sets))
        return error_set(STET_EFORMAT, "\"sets\": expected an object");
    size_t total = 0;
    const char *key;
    json_t *set;
    json_object_foreach((json_t *)(uintptr_t)sets, key, set) total += json_array_size(set);
    const size_t n = l->text.n, positions = n ? n : 1; /* no word reads as one unknown word */
    size_t *start = arena_new(a, size_t, n + 1);
    const char **substitute = arena_new(a, const char *, total + 1);
    uint32_t *first = arena_new(a, uint32_t, positions + 1),
             *id = arena_new(a, uint32_t, positions + total);
    bool *unpaid = arena_znew(a, bool, positions);
    if (!start || !substitute || !first || !id || !unpaid)
        return STET_ENOMEM;
    size_t k = 0, seen = 0;
    for (size_t p = 0; p < n; p++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", p);
        set = json_object_get(sets, name);
        start[p] = k;
        first[p] = (uint32_t)(p + k);
        id[p + k] = id_of(m, l->text.word[p]);
        for (size_t i = 0; i < json_array_size(set); i++, k++) {
            substitute[k] = json_string_value(json_array_get(set, i));
            if (!substitute[k])
                return error_set(STET_EFORMAT, "\"sets\": position %zu: expected words", p);
            if (!m->reads(substitute[k]))
                return error_set(STET_EFORMAT,
                                 "\"sets\": position %zu: '%.40s' does not read as one word", p,
                                 substitute[k]);
            id[p + k + 1] = id_of(m, substitute[k]);
        }
        if (set && start[p] == k)
            return error_set(STET_EFORMAT, "\"sets\": position %zu: expected a list of words", p);
        TRY(check_set(l->text.word[p], substitute + start[p], k - start[p], p));
        seen += set != NULL;
    }
    if (seen != json_object_size(sets))
        return error_set(STET_EFORMAT, "\"sets\": a position that the text does not have");
    if (n == 0) {
        first[0] = 0;
        id[0] = VER_UNK;
    }
    start[n] = k;
    first[positions] = (uint32_t)(positions + k);
    l->text.start = start;
    l->text.substitute = substitute;
    l->task.n = positions;
    l->task.start = first;
    l->task.word = id;
    l->task.unpaid = unpaid;
    return STET_OK;
}

/* A proof and a statement by votes never stand in one file. */
static stet_status check_sort(bool statistical, ver_verdict v)
{
    if (statistical && (v == VER_CERTIFIED || v == VER_BROKEN))
        return error_set(STET_EFORMAT, "a \"%s\" text in a statistical file, which proves nothing",
                         verdicts[v]);
    if (!statistical && v == VER_LIKELY)
        return error_set(STET_EFORMAT, "a \"likely\" text in a file of proofs");
    return STET_OK;
}

static stet_status read_verdict(const ver_model *m, const json_t *o, ver_line *l)
{
    const char *name;
    TRY(json_get_str(o, "line", "verdict", &name));
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++)
        if (strcmp(name, verdicts[i]) == 0) {
            l->verdict = (ver_verdict)i;
            return check_sort(m->votes != NULL, l->verdict);
        }
    return error_set(STET_EFORMAT, "unknown verdict \"%.40s\"", name);
}

/* Which parts a verdict has. */
static stet_status read_proof(const ver_model *m, const json_t *o, ver_line *l)
{
    l->claims = json_object_get(o, "claims");
    l->tree = json_object_get(o, "tree");
    l->edits = json_object_get(o, "edits");
    if (l->claims && l->tree)
        return error_set(STET_EFORMAT, "both \"claims\" and \"tree\"");
    if (l->verdict == VER_CERTIFIED && !l->claims && !l->tree)
        return error_set(STET_EFORMAT, "certified without \"claims\" or \"tree\"");
    if (l->verdict == VER_WRONG && (l->claims || l->tree))
        return error_set(STET_EFORMAT, "claims about a text that the model already gets wrong");
    const bool broken = l->verdict == VER_BROKEN;
    if (broken != (l->edits != NULL) || broken != (json_object_get(o, "after") != NULL))
        return error_set(STET_EFORMAT,
                         "\"edits\" and \"after\" belong to a broken text and to no other");
    int64_t after = 0;
    if (broken)
        TRY(json_get_int(o, "line", "after", 0, (int64_t)m->classes - 1, &after));
    l->after = (int)after;
    return STET_OK;
}

stet_status ver_line_read(const ver_model *m, const json_t *o, arena *a, ver_line *out)
{
    static const char *const keys[] = {"text",  "label", "answer", "verdict", "budget",
                                       "clean", "words", "sets",   "claims",  "tree",
                                       "edits", "after", "note",   "sum",     NULL},
                             *const of_votes[] = {"text",   "label", "answer", "verdict",
                                                  "budget", "clean", "words",  "sets",
                                                  "votes",  "note",  "sum",    NULL};
    *out = (ver_line){0};
    int64_t index, label, answer;
    TRY(json_get_int(o, "line", "text", 0, INT64_MAX, &index));
    TRY(read_verdict(m, o, out));
    TRY(ver_only_keys(o, "line", m->votes ? of_votes : keys));
    TRY(json_get_int(o, "line", "label", 0, (int64_t)m->classes - 1, &label));
    out->unread = json_is_null(json_object_get(o, "answer"));
    answer = -1;
    if (!out->unread) {
        TRY(json_get_int(o, "line", "answer", 0, (int64_t)m->classes - 1, &answer));
        TRY(json_get_real(o, "line", "clean", &out->clean));
    }
    out->text.index = (size_t)index;
    out->text.label = (int)label;
    out->answer = (int)answer;
    if (out->unread && out->verdict != VER_UNDECIDED)
        return error_set(STET_EFORMAT, "a verdict on a text without an answer");
    TRY(read_words(m, o, a, out));
    TRY(read_sets(m, o, a, out));
    TRY(ver_budget_read(o, &out->task.budget));
    out->votes = json_object_get(o, "votes");
    return m->votes ? STET_OK : read_proof(m, o, out);
}
