/* attack/victim_function.c - a function of the host as the victim: variants as texts in, probabilities
 * out, as many at once as the attack asks about. */
#include <math.h>
#include <string.h>

#include "attack/attack_impl.h"
#include "base/mem.h"

static const double sum_tolerance = 1e-3;

typedef struct function_victim {
    victim v;
    const stet_attack_args *a;
    const stet_words *words;
    const attack_text *text;
    pthread_mutex_t *turn; /* one call at a time */
    char **texts;          /* (cap) */
    size_t cap;
} function_victim;

stet_status attack_text_edited(const attack_text *t, const stet_words *w, const stet_edit *edits,
                               size_t n, char **out)
{
    size_t *at = mem_alloc(n + 1, sizeof *at);
    const char **with = mem_alloc(n + 1, sizeof *with);
    *out = NULL;
    stet_status st = at && with ? STET_OK : STET_ENOMEM;
    for (size_t k = 0; st == STET_OK && k < n; k++) {
        at[k] = edits[k].pos;
        with[k] = edits[k].word == WORD_DELETED ? "" : stet_words_word(w, edits[k].word);
    }
    if (st == STET_OK)
        st = stet_text_rebuild(t->text.data, t->text.len, t->tokens, at, with, n, out);
    mem_free(at);
    mem_free(with);
    return st;
}

const char *victim_row_wrong(const double *prob, size_t k)
{
    double sum = 0;
    for (size_t c = 0; c < k; c++) {
        if (!(prob[c] >= 0))
            return "a probability is not a number from 0 to 1";
        sum += prob[c];
    }
    return fabs(sum - 1) <= sum_tolerance ? NULL : "the probabilities of a text do not sum to 1";
}

static stet_status open_text(victim *v, const attack_text *t)
{
    ((function_victim *)v)->text = t;
    return STET_OK;
}

static stet_status call(const function_victim *f, size_t n, double *prob)
{
    const size_t K = f->v.n_classes;
    for (size_t i = 0; i < n * K; i++)
        prob[i] = -1; /* what it does not fill in is noticed */
    stet_set_error("");
    pthread_mutex_lock(f->turn);
    const stet_status st =
        f->a->victim(f->a->victim_user, (const char *const *)f->texts, n, K, prob);
    pthread_mutex_unlock(f->turn);
    if (st == STET_EINTR)
        return error_set(STET_EINTR, "%s", *stet_last_error() ? stet_last_error() : "interrupted");
    if (st != STET_OK) /* whatever it was, it is about this text */
        return error_set(STET_EIO, "%s",
                         *stet_last_error() ? stet_last_error() : "the victim failed");
    for (size_t i = 0; i < n; i++) {
        const char *wrong = victim_row_wrong(prob + i * K, K);
        if (wrong)
            return error_set(STET_EFORMAT, "victim: %s", wrong);
    }
    return STET_OK;
}

static stet_status ask(victim *v, const stet_edit *edits, const size_t *first, size_t n,
                       double *prob)
{
    function_victim *f = (function_victim *)v;
    TRY(mem_grow(&f->texts, &f->cap, n, sizeof *f->texts));
    stet_status st = STET_OK;
    size_t made = 0;
    for (; st == STET_OK && made < n; made++)
        st = attack_text_edited(f->text, f->words, edits + first[made],
                                first[made + 1] - first[made], &f->texts[made]);
    if (st == STET_OK)
        st = call(f, n, prob);
    while (made > 0)
        stet_free(f->texts[--made]);
    return st;
}

static void free_victim(victim *v)
{
    mem_free(((function_victim *)v)->texts);
    mem_free(v);
}

stet_status victim_of_function(const stet_attack_args *a, const stet_words *w, size_t n_classes,
                               pthread_mutex_t *turn, victim **out)
{
    function_victim *f = mem_zalloc(1, sizeof *f);
    if (!f)
        return STET_ENOMEM;
    f->v = (victim){.n_classes = n_classes, .open = open_text, .ask = ask, .free = free_victim};
    f->a = a;
    f->words = w;
    f->turn = turn;
    *out = &f->v;
    return STET_OK;
}
