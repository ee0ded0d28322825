/* defense/kept_sets.c - see kept_sets.h. */
#include "defense/kept_sets.h"

#include "base/file.h"
#include "base/mem.h"

static stet_status add_list(stet_subst_builder *b, const stet_vocab *v, size_t w,
                            const uint32_t *list, size_t n)
{
    const char **words = mem_alloc(n + 1, sizeof *words);
    if (!words)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++)
        words[i] = stet_vocab_word(v, list[i]);
    const stet_status st = stet_subst_add_list(b, stet_vocab_word(v, (uint32_t)w), words, n);
    mem_free(words);
    return st;
}

stet_status kept_sets_bind(kept_sets *s, const stet_vocab *v)
{
    word_sets_deinit(&s->words);
    return word_sets_make(s->subst, v, &s->words);
}

stet_status kept_sets_make(const stet_vocab *v, kept_list *list, const void *ctx, kept_sets *out)
{
    stet_subst_builder *b;
    TRY(stet_subst_builder_new(&b));
    stet_status st = STET_OK;
    for (size_t w = STET_FIRST_WORD; st == STET_OK && w < stet_vocab_size(v); w++) {
        size_t n = 0;
        const uint32_t *words = list(ctx, w, &n);
        if (words && n)
            st = add_list(b, v, w, words, n);
    }
    if (st == STET_OK)
        st = stet_subst_build(b, &out->subst);
    stet_subst_builder_free(b);
    return st == STET_OK ? kept_sets_bind(out, v) : st;
}

static stet_status copy_list(stet_subst_builder *b, const stet_subst *from, uint32_t w)
{
    size_t n = 0;
    const uint32_t *list = stet_subst_of(from, w, &n);
    const char **words = mem_alloc(n + 1, sizeof *words);
    if (!words)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++)
        words[i] = stet_subst_word(from, list[i]);
    const stet_status st = n ? stet_subst_add_list(b, stet_subst_word(from, w), words, n) : STET_OK;
    mem_free(words);
    return st;
}

stet_status kept_sets_copy(const stet_subst *from, kept_sets *out)
{
    stet_subst_builder *b;
    TRY(stet_subst_builder_new(&b));
    stet_status st = STET_OK;
    for (uint32_t w = 0; st == STET_OK && w < stet_subst_words(from); w++)
        st = copy_list(b, from, w);
    if (st == STET_OK)
        st = stet_subst_build(b, &out->subst);
    stet_subst_builder_free(b);
    return st;
}

stet_status kept_sets_bind_rows(kept_sets *s, const model *m)
{
    word_sets_deinit(&s->words);
    return piece_sets_make(s->subst, m, &s->words);
}

stet_status kept_sets_load(const stet_vocab *v, const char *dir, const char *file, kept_sets *out)
{
    char *path = path_join(dir, file);
    stet_status st = path ? stet_subst_load(path, &out->subst) : STET_ENOMEM;
    if (st == STET_OK && v)
        st = kept_sets_bind(out, v);
    mem_free(path);
    return st;
}

stet_status kept_sets_save(const kept_sets *s, const char *dir, const char *file)
{
    char *path = path_join(dir, file);
    const stet_status st = path ? stet_subst_save(s->subst, path) : STET_ENOMEM;
    mem_free(path);
    return st;
}

void kept_sets_deinit(kept_sets *s)
{
    stet_subst_free(s->subst);
    word_sets_deinit(&s->words);
    *s = (kept_sets){0};
}
