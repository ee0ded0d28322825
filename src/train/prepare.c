/* train/prepare.c - see prepare.h. The vocabulary is made of the training part's words and, where
 * substitution sets are given, of their words, as far as the vector files have them; the validation part adds none. */
#include "train/prepare.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/strmap.h"
#include "lexicon/sets.h"
#include "train/split.h"
#include "train/teacher.h"

/* ---- data ----------------------------------------------------------------------------------- */

static stet_status load_data(const stet_train_args *a, stet_dataset **train, stet_dataset **valid)
{
    TRY(stet_dataset_load(a->data, &a->format, train));
    if (stet_dataset_classes(*train) < 2)
        return error_set(STET_EFORMAT, "%s: all texts have the same class", a->data);
    const size_t n = stet_dataset_size(*train), classes = stet_dataset_classes(*train);
    if (classes > 2 && 2 * classes > n)
        log_warn("%s: %zu classes in %zu texts; is the label in another column (--label, --text)?",
                 a->data, classes, n);
    if (a->folds) {
        stet_dataset *all = *train, *held = NULL;
        *train = NULL;
        stet_status st = split_fold(all, a->fold, a->folds, train, &held);
        stet_dataset_free(all);
        if (!a->valid)
            *valid = held;
        else
            stet_dataset_free(held);
        TRY(st);
    }
    if (a->valid) {
        stet_data_options how = a->format;
        how.like = *train;
        return stet_dataset_load(a->valid, &how, valid);
    }
    if (a->folds)
        return STET_OK;
    stet_dataset *all = *train;
    *train = NULL;
    const stet_status st = stet_train_split(all, a->valid_fraction, a->seed, train, valid);
    stet_dataset_free(all);
    return st;
}

/* ---- vocabulary and vectors --------------------------------------------------------------- */

static stet_status count_words(const stet_train_args *a, const stet_dataset *train,
                               const stet_subst *s, stet_counter *c)
{
    TRY(stet_counter_add_dataset(c, train, a->tokenizer));
    for (size_t i = 0; s && i < stet_subst_words(s); i++)
        TRY(stet_counter_add_word(c, stet_subst_word(s, (uint32_t)i), 0));
    return STET_OK;
}

/* Keep the words that have a vector; the rest are read as <unk>. */
static stet_status keep_known(stet_vocab **vocab, stet_vectors *t)
{
    const char **words = mem_alloc(t->n, sizeof *words);
    if (!words)
        return STET_ENOMEM;
    size_t n = STET_FIRST_WORD;
    for (size_t i = STET_FIRST_WORD; i < t->n; i++) {
        if (!t->known[i])
            continue;
        words[n - STET_FIRST_WORD] = stet_vocab_word(*vocab, (uint32_t)i);
        memmove(t->data + n * t->dim, t->data + i * t->dim, t->dim * sizeof *t->data);
        t->known[n++] = 1;
    }
    t->n = n;
    stet_vocab *kept;
    const stet_status st = stet_vocab_from_words(words, n - STET_FIRST_WORD, &kept);
    mem_free(words);
    TRY(st);
    stet_vocab_free(*vocab);
    *vocab = kept;
    return STET_OK;
}

static stet_status choose_words(const stet_train_args *a, const stet_counter *c, stet_vocab **vocab,
                                stet_vectors *t)
{
    TRY(stet_vocab_build(c, a->min_count, a->max_words, vocab));
    if (stet_vocab_size(*vocab) == STET_FIRST_WORD)
        return error_set(STET_EUSAGE, "%s: no word occurs %llu times, as --min-count asks", a->data,
                         (unsigned long long)a->min_count);
    TRY(stet_vectors_load(a->vectors, a->n_vectors, *vocab, t));
    if (t->n_known == 0)
        return error_set(STET_EFORMAT, "%s: has no vector for any word of %s", a->vectors[0],
                         a->data);
    return keep_known(vocab, t);
}

static stet_status load_words(const stet_train_args *a, const defense_list *defenses,
                              const stet_dataset *train, prepared *out, stet_vocab **vocab,
                              stet_vectors *t)
{
    stet_counter *c;
    TRY(stet_counter_new(&c));
    stet_status st = count_words(a, train, out->subst, c);
    if (st == STET_OK)
        st = choose_words(a, c, vocab, t);
    if (st == STET_OK)
        st = defense_list_vectors(defenses, &(vector_view){.vocab = *vocab,
                                                           .t = t,
                                                           .counts = c,
                                                           .subst = out->subst,
                                                           .seed = a->seed,
                                                           .told = &out->told});
    stet_counter_free(c);
    return st;
}

/* ---- all of it ---------------------------------------------------------------------------- */

static uint64_t fingerprint(const stet_train_args *a, const stet_dataset *train,
                            const stet_dataset *valid, const stet_subst *s, const model *m,
                            const real *target)
{
    const double numbers[] = {
        (double)a->batch, (double)a->length_pool, (double)a->epochs, (double)a->patience,
        a->rate,          a->state_rate,          a->decay,          a->dropout,
        a->clip,          (double)a->schedule,    (double)a->seed};
    const double words[] = {(double)a->word_scores, a->score_rate, a->score_decay, a->vector_rate};
    const uint64_t reading[] = {a->max_len, a->tokenizer, s ? stet_subst_fingerprint(s) : 0};
    uint64_t h = hash_bytes(numbers, sizeof numbers, stet_model_fingerprint(m));
    h = hash_bytes(a->defense, strlen(a->defense), h);
    for (const char *const *d = a->defense_settings; d && *d; d++)
        h = hash_bytes(*d, strlen(*d), h);
    h = hash_bytes(reading, sizeof reading, h);
    if (m->scores >= 0 || a->vector_rate > 0)
        h = hash_bytes(words, sizeof words, h);
    if (target) {
        h = hash_bytes(target, stet_dataset_size(train) * m->n_classes * sizeof *target, h);
        h = hash_bytes(&a->teacher_worst, sizeof a->teacher_worst, h);
    }
    if (a->schedule == STET_WARM_LINEAR)
        h = hash_bytes(&a->warmup, sizeof a->warmup, h);
    if (a->schedule == STET_COSINE && a->hold > 0)
        h = hash_bytes(&a->hold, sizeof a->hold, h);
    return h ^ stet_dataset_fingerprint(train) ^ 31 * stet_dataset_fingerprint(valid);
}

static stet_status fresh_model(const stet_train_args *a, const stet_dataset *train,
                               const stet_vocab *vocab, const stet_vectors *t, model **out)
{
    const size_t k = stet_dataset_classes(train);
    const char **names = mem_alloc(k, sizeof *names);
    if (!names)
        return STET_ENOMEM;
    for (size_t c = 0; c < k; c++)
        names[c] = stet_dataset_class_name(train, c);
    const stet_model_new_args how = {.name = a->model,
                                     .settings = a->model_settings,
                                     .vocab = vocab,
                                     .vectors = t,
                                     .tokenizer = a->tokenizer,
                                     .max_len = a->max_len,
                                     .n_classes = k,
                                     .class_names = names,
                                     .seed = a->seed,
                                     .word_scores = a->word_scores,
                                     .word_layer = a->word_layer,
                                     .init = a->init,
                                     .texts = train};
    const stet_status st = stet_model_new(&how, out);
    mem_free(names);
    return st;
}

/* What is kept is found by a text's words, so nothing may stand in their place. */
static stet_status keep_rows(model *m, const defense_list *defenses, const char *path)
{
    for (size_t i = 0; i < defenses->n; i++)
        if (defenses->d[i].desc->forward || defenses->d[i].desc->batch)
            return error_set(STET_EUSAGE, "--feature-cache: defence '%s' changes what is read",
                             defenses->d[i].desc->name);
    return m->desc->keep_rows
               ? m->desc->keep_rows(m, path)
               : error_set(STET_EUSAGE, "--feature-cache: nothing is frozen in a model of kind '%s'",
                           m->desc->name);
}

/* Words of the set that no text can hold must not join the vocabulary, nor the training. */
static stet_status keep_typed(prepared *p, const word_reader *r)
{
    stet_subst *typed = NULL;
    p->synonyms = p->subst ? stet_subst_fingerprint(p->subst) : 0;
    if (p->subst)
        TRY(subst_typed(p->subst, r, &typed));
    if (typed) {
        stet_subst_free(p->subst);
        p->subst = typed;
    }
    return STET_OK;
}

stet_status prepare(const stet_train_args *a, const defense_list *defenses, prepared *out)
{
    *out = (prepared){0};
    const model_desc *desc = model_find(a->model);
    if (!desc)
        return STET_EUSAGE;
    if (desc->reader && a->n_vectors)
        return error_set(STET_EUSAGE,
                         "a model of kind '%s' has its own vectors: leave out --vectors",
                         desc->name);
    for (size_t i = 0; desc->reader && i < defenses->n; i++)
        if (defenses->d[i].desc->vectors)
            return error_set(STET_EUSAGE,
                             "defence '%s' changes word vectors; a model of kind '%s' has its own",
                             defenses->d[i].desc->name, desc->name);
    TRY(defense_list_check_learning(defenses, a->vector_rate > 0));
    const word_reader r = {.tokenizer = a->tokenizer};
    stet_dataset *train = NULL, *valid = NULL;
    stet_vocab *vocab = NULL;
    stet_vectors t = {0};
    stet_status st = STET_OK;
    if (a->synonyms)
        st = stet_subst_load(a->synonyms, &out->subst);
    if (st == STET_OK)
        st = defense_list_check(defenses, out->subst);
    if (st == STET_OK)
        st = load_data(a, &train, &valid);
    if (st == STET_OK && !desc->reader)
        st = keep_typed(out, &r);
    if (st == STET_OK && !desc->reader)
        st = load_words(a, defenses, train, out, &vocab, &t);
    if (st == STET_OK)
        st = fresh_model(a, train, vocab, &t, &out->m);
    if (st == STET_OK && desc->reader)
        st = keep_typed(out, &out->m->reader);
    if (st == STET_OK && a->feature_cache)
        st = keep_rows(out->m, defenses, a->feature_cache);
    if (st == STET_OK)
        st = defense_list_parameters(defenses, out->m, a->seed);
    if (st == STET_OK)
        st = stet_model_encode(out->m, train, &out->train);
    if (st == STET_OK)
        st = stet_model_encode(out->m, valid, &out->valid);
    if (st == STET_OK && a->teacher)
        st = teacher_targets(a, out->m, train, &out->target);
    if (st == STET_OK)
        out->fingerprint = fingerprint(a, train, valid, out->subst, out->m, out->target);
    stet_vectors_deinit(&t);
    stet_vocab_free(vocab);
    stet_dataset_free(train);
    stet_dataset_free(valid);
    if (st != STET_OK)
        prepared_deinit(out);
    return st;
}

void prepared_deinit(prepared *p)
{
    stet_corpus_deinit(&p->train);
    stet_corpus_deinit(&p->valid);
    mem_free(p->target);
    stet_model_free(p->m);
    stet_subst_free(p->subst);
    *p = (prepared){0};
}
