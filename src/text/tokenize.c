/* text/tokenize.c - the tokenisers by name. */
#include "text/tokens.h"

#include <string.h>

static const struct {
    const char *name;
    stet_status (*run)(const char *text, size_t len, stet_tokens *out);
} tokenizers[STET_TOK_COUNT] = {
    [STET_TOK_WORD] = {"word", tokenize_word},
    [STET_TOK_KERAS] = {"keras", tokenize_keras},
};

const char *stet_tokenizer_name(stet_tokenizer kind)
{
    return (unsigned)kind < STET_TOK_COUNT ? tokenizers[kind].name : "?";
}

stet_status stet_tokenizer_parse(const char *name, stet_tokenizer *out)
{
    for (int i = 0; i < STET_TOK_COUNT; i++)
        if (strcmp(tokenizers[i].name, name) == 0) {
            *out = (stet_tokenizer)i;
            return STET_OK;
        }
    return error_set(STET_EUSAGE, "no tokenizer '%s'; there are 'word' and 'keras'", name);
}

stet_status stet_tokenize(stet_tokenizer kind, const char *text, size_t len, stet_tokens *out)
{
    out->n = out->words_n = 0;
    if ((unsigned)kind >= STET_TOK_COUNT)
        return error_set(STET_EUSAGE, "no tokenizer number %d", (int)kind);
    if (len > TEXT_MAX)
        return error_set(STET_ENOTSUP, "a text of %zu bytes is too long; the limit is %zu", len,
                         (size_t)TEXT_MAX);
    return tokenizers[kind].run(text, len, out);
}

const char *stet_token_word(const stet_tokens *t, size_t i)
{
    return t->words + t->v[i].word;
}

void stet_tokens_deinit(stet_tokens *t)
{
    mem_free(t->v);
    mem_free(t->words);
    *t = (stet_tokens){0};
}
