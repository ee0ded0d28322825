/* defense/near_words.c - copies of a text whose words are drawn from lists of near words. */
#include "defense/near_words.h"

#include <string.h>

#include "base/mem.h"

stet_status near_words_begin(const near_kind *kind, const model *m, void **state, near_words **out)
{
    near_words *s = *out = *state = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->kind = kind;
    return votes_can_read(m, kind->defense);
}

stet_status near_words_bind(near_words *s, const model *m)
{
    TRY(set_words_make(m, s->lists.subst, &s->words));
    return kept_sets_bind(&s->lists, s->words.vocab);
}

stet_status near_words_load(const near_kind *kind, const model *m, const char *dir, void **state)
{
    near_words *s;
    TRY(near_words_begin(kind, m, state, &s));
    TRY(kept_sets_load(NULL, dir, kind->file, &s->lists));
    return near_words_bind(s, m);
}

stet_status near_words_save(const void *state, const char *dir)
{
    const near_words *s = state;
    return kept_sets_save(&s->lists, dir, s->kind->file);
}

void near_words_end(void *state)
{
    near_words *s = state;
    if (s) {
        kept_sets_deinit(&s->lists);
        set_words_deinit(&s->words);
        mem_free(s->chance);
    }
    mem_free(s);
}

const stet_subst *near_words_lists(const void *state)
{
    return ((const near_words *)state)->lists.subst;
}

/* ---- copies ------------------------------------------------------------------------------- */

typedef struct swaps {
    const near_words *s;
    const uint32_t *word; /* (n) of the text, by their numbers */
} swaps;

static size_t put_rows(const uint32_t *from, size_t n, uint32_t *to)
{
    memcpy(to, from, n * sizeof *to);
    return n;
}

static size_t swap_words(const void *ctx, rng *r, const vote_text *t, uint32_t *copy)
{
    const swaps *c = ctx;
    const set_words *w = &c->s->words;
    const word_sets *all = &c->s->lists.words;
    size_t made = 0;
    for (size_t i = 0; i < t->n; i++) {
        const uint32_t *list = all->word + all->start[c->word[i]];
        const size_t n = all->start[c->word[i] + 1] - all->start[c->word[i]];
        const size_t k = n ? c->s->kind->draw(c->s, r, n) : 0;
        if (!k)
            made += put_rows(t->rows + t->at[i], t->at[i + 1] - t->at[i], copy + made);
        else if (!w->own)
            copy[made++] = list[k - 1];
        else {
            const uint32_t *at = w->at + list[k - 1];
            made += put_rows(w->row + at[0], at[1] - at[0], copy + made);
        }
    }
    return made;
}

stet_status near_words_copies(const rule *r, const model *m, const vote_text *t, arena *mem,
                              vote_of *out)
{
    const near_words *s = r->state;
    swaps *of = arena_new(mem, swaps, 1);
    uint32_t *word = arena_new(mem, uint32_t, t->n + 1);
    if (!of || !word)
        return STET_ENOMEM;
    for (size_t i = 0; i < t->n; i++)
        word[i] = set_word_of(&s->words, m, t->rows + t->at[i], t->at[i + 1] - t->at[i]);
    *of = (swaps){s, word};
    *out = (vote_of){t, t->at[t->n] + t->n * s->words.longest, swap_words, of};
    return STET_OK;
}

stet_status near_words_predict(const rule *r, const model *m, const stet_corpus *c, float *logits)
{
    return votes_answer(near_words_copies, r, m, c, logits);
}

stet_status near_words_batch(void *state, const step_view *v, step_texts *t)
{
    (void)state;
    rng r = step_stream(v);
    for (size_t i = 0; i < t->n; i++) {
        vote_text text;
        vote_of copies;
        TRY(vote_text_make(v->m, t->v[i].ids, t->v[i].n, t->mem, &text));
        TRY(near_words_copies(v->m->rule, v->m, &text, t->mem, &copies));
        uint32_t *copy = arena_new(t->mem, uint32_t, copies.room + 1);
        if (!copy)
            return STET_ENOMEM;
        t->v[i].n = copies.draw(copies.ctx, &r, &text, copy);
        t->v[i].ids = copy;
    }
    return STET_OK;
}
