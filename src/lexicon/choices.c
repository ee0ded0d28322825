/* lexicon/choices.c - see stet/choices.h. */
#include "stet/choices.h"

#include <string.h>

#include "base/mem.h"

static stet_status begin(stet_choices *c, size_t n)
{
    TRY(mem_grow(&c->start, &c->cap_n, n + 1, sizeof *c->start));
    c->n = n;
    c->start[0] = 0;
    return STET_OK;
}

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

/* Add `text` to position i unless the model reads it as something already there. */
static stet_status add(stet_choices *c, const stet_vocab *v, uint32_t in_place, size_t i,
                       const char *text, uint32_t *n)
{
    const uint32_t word = stet_vocab_id(v, text, strlen(text));
    if (word == in_place)
        return STET_OK;
    for (uint32_t k = c->start[i]; k < *n; k++)
        if (c->word[k] == word)
            return STET_OK;
    TRY(reserve(c, *n + 1));
    c->word[*n] = word;
    c->text[(*n)++] = text;
    return STET_OK;
}

static uint32_t id_of(const stet_vocab *v, const stet_tokens *t, size_t i)
{
    return stet_vocab_id(v, stet_token_word(t, i), t->v[i].len);
}

stet_status stet_choices_of(const stet_subst *s, const stet_vocab *v, const stet_tokens *tokens,
                            size_t max_len, stet_choices *out)
{
    TRY(begin(out, tokens->n < max_len ? tokens->n : max_len));
    uint32_t n = 0;
    for (size_t i = 0; i < out->n; i++) {
        const uint32_t key = stet_subst_word_id(s, stet_token_word(tokens, i), tokens->v[i].len);
        size_t count = 0;
        const uint32_t *alt = key == UINT32_MAX ? NULL : stet_subst_of(s, key, &count);
        for (size_t k = 0; k < count; k++)
            TRY(add(out, v, id_of(v, tokens, i), i, stet_subst_word(s, alt[k]), &n));
        out->start[i + 1] = n;
    }
    return STET_OK;
}

/* The substitutes of text `which` go to the tokens that stand at its positions. */
static stet_status add_aligned(const stet_subst_texts *s, size_t which, const size_t *position,
                               const stet_vocab *v, const stet_tokens *tokens, stet_choices *out)
{
    uint32_t n = 0;
    for (size_t i = 0; i < out->n; i++) {
        size_t count;
        const char *const *alt = stet_subst_texts_at(s, which, position[i], &count);
        for (size_t k = 0; k < count; k++)
            TRY(add(out, v, id_of(v, tokens, i), i, alt[k], &n));
        out->start[i + 1] = n;
    }
    return STET_OK;
}

stet_status stet_choices_of_text(const stet_subst_texts *s, size_t i, const char *text, size_t len,
                                 const stet_vocab *v, const stet_tokens *tokens, size_t max_len,
                                 stet_choices *out)
{
    TRY(begin(out, tokens->n < max_len ? tokens->n : max_len));
    size_t *position = mem_alloc(tokens->n, sizeof *position);
    if (!position)
        return STET_ENOMEM;
    stet_subst_texts_align(s, i, text, len, tokens, position);
    const stet_status st = add_aligned(s, i, position, v, tokens, out);
    mem_free(position);
    return st;
}

void stet_choices_deinit(stet_choices *c)
{
    mem_free(c->start);
    mem_free(c->word);
    mem_free(c->text);
    *c = (stet_choices){0};
}
