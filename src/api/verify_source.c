/* api/verify_source.c - see stet/certify.h: are the texts and sets of a certificate file those that it
 * should be about? Read by the ordinary readers: the checker itself knows neither tokenisers nor
 * lexicons. */
#include <stdio.h>
#include <string.h>

#include "base/args.h"
#include "base/error.h"
#include "stet/certify.h"

typedef struct source {
    stet_verify_options given;
    const stet_dataset *data;
    const stet_sets *sets;
    stet_model *model;
    stet_words *words; /* of the run, and a fork for those of the text in work */
    stet_words *own;
    stet_bound *bound;
    stet_reading reading;
    stet_choices choices;
    char problem[160];
    stet_status status; /* STET_ENOMEM: no fault of the line that is looked at */
} source;

static const char *differ(source *s, const char *fmt, size_t position) PRINTF_LIKE(2, 0);
static const char *differ(source *s, const char *fmt, size_t position)
{
    snprintf(s->problem, sizeof s->problem, fmt, position);
    return s->problem;
}

static const char *failure(source *s, stet_status st)
{
    if (st == STET_ENOMEM)
        s->status = st;
    return stet_last_error();
}

static const char *match_sets(source *s, const stet_verify_text *t)
{
    const stet_status st = stet_bound_choices(s->bound, s->own, &s->reading, &s->choices);
    if (st != STET_OK)
        return failure(s, st);
    for (size_t p = 0; p < t->n; p++) {
        const size_t n = s->choices.start[p + 1] - s->choices.start[p];
        bool same = n == t->start[p + 1] - t->start[p];
        for (size_t k = 0; same && k < n; k++)
            same = strcmp(s->choices.text[s->choices.start[p] + k],
                          t->substitute[t->start[p] + k]) == 0;
        if (!same)
            return differ(s, "position %zu: not the substitutes of the sets", p);
    }
    return NULL;
}

static const char *match(void *user, const stet_verify_text *t)
{
    source *s = user;
    if (t->index >= stet_dataset_size(s->data))
        return differ(s, "the data has %zu texts only", stet_dataset_size(s->data));
    if (stet_dataset_label(s->data, t->index) != t->label)
        return "not the label of the data";
    const stet_str text = stet_dataset_text(s->data, t->index);
    stet_words_forget(s->own);
    const stet_status st = stet_words_read(s->own, text.data, text.len, &s->reading);
    if (st != STET_OK)
        return failure(s, st);
    const size_t n = s->reading.n;
    for (size_t p = 0; p < t->n && p < n; p++)
        if (strcmp(stet_token_word(&s->reading.tokens, p), t->word[p]) != 0)
            return differ(s, "position %zu: not the word of the data", p);
    if (n != t->n)
        return differ(s, "the text of the data has %zu words", n);
    return s->sets ? match_sets(s, t) : NULL;
}

static void failed(void *user, size_t line, const char *why)
{
    const source *s = user;
    if (s->given.failed)
        s->given.failed(s->given.user, line, why);
}

static stet_status source_open(source *s, const char *model_dir)
{
    TRY(stet_model_load(model_dir, &s->model));
    TRY(stet_model_words(s->model, &s->words));
    if (s->sets)
        TRY(stet_sets_bind(s->sets, s->words, &s->bound));
    return stet_words_fork(s->words, &s->own);
}

static void source_close(source *s)
{
    stet_reading_deinit(&s->reading);
    stet_choices_deinit(&s->choices);
    stet_bound_free(s->bound);
    stet_words_free(s->own);
    stet_words_free(s->words);
    stet_model_free(s->model);
}

stet_status stet_verify_against(const char *path, const char *model_dir, const stet_dataset *data,
                                const stet_sets *sets, const stet_verify_options *options,
                                stet_verify_result *r)
{
    char data_sha256[65], sets_sha256[65];
    source s = {.data = data, .sets = sets};
    if (options)
        TRY(ARGS_TAKE(&s.given, options));
    stet_verify_options how = s.given;
    how.size = sizeof how;
    how.match = data ? match : NULL;
    how.failed = failed;
    how.user = &s;
    if (data) {
        stet_dataset_sha256(data, data_sha256);
        how.data_sha256 = data_sha256;
    }
    if (sets) {
        stet_sets_sha256(sets, sets_sha256);
        how.sets_sha256 = sets_sha256;
    }
    stet_status st = data ? source_open(&s, model_dir) : STET_OK;
    if (st == STET_OK)
        st = stet_verify_file(path, model_dir, &how, r);
    if (st == STET_OK && s.status != STET_OK)
        st = error_set(s.status, "out of memory for the texts of %s", path);
    source_close(&s);
    return st;
}
