/* lexicon/tagger_train.c - training the tagger on a treebank: an averaged perceptron (Collins,
 * 2002; Freund and Schapire, 1999) that tags each sentence from left to right with its own tags as
 * history, so that it learns to live with its own mistakes.
 *
 * A wrong guess adds one to the weights of the right tag and takes one from those of the guess. The
 * result is each weight's mean over all words seen, which `total` and `stamp` give without touching
 * weights that did not change. */
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lexicon/conllu.h"
#include "lexicon/tagger.h"

/* Words seen at least so often, and nearly always with one tag, need no model. */
enum { LISTED_MIN = 20, LISTED_PERCENT = 97 };

typedef struct cell {
    int64_t total;  /* sum of the weight over the words before `stamp` */
    uint64_t stamp; /* when it last changed */
    int32_t weight;
    uint32_t tag;
} cell;

typedef struct row {
    cell *cells; /* in the trainer's arena */
    uint32_t n, cap, text;
} row;

typedef struct row_slot {
    uint64_t hash; /* 0: free */
    uint32_t row;
} row_slot;

typedef struct trainer {
    conllu bank;
    size_t *start; /* (n_sentences + 1) */
    uint32_t *form, *tag;
    size_t n_sentences, n_words, start_cap, form_cap, tag_cap;
    const char **words; /* of the longest sentence */
    uint32_t *order;

    stet_tagger *model; /* tags and listed words; the features join at the end */
    row *rows;
    size_t n_rows, rows_cap;
    row_slot *slots;
    size_t n_slots;
    buf text; /* of the rows, NUL after each */
    arena cells;
    uint64_t now; /* words the model has tagged so far */
} trainer;

/* ---- the treebank -------------------------------------------------------------------------- */

static stet_status add_sentence(trainer *t)
{
    const conllu *c = &t->bank;
    TRY(mem_grow(&t->form, &t->form_cap, t->n_words + c->n, sizeof *t->form));
    TRY(mem_grow(&t->tag, &t->tag_cap, t->n_words + c->n, sizeof *t->tag));
    TRY(mem_grow(&t->start, &t->start_cap, t->n_sentences + 2, sizeof *t->start));
    memcpy(t->form + t->n_words, c->form, c->n * sizeof *t->form);
    memcpy(t->tag + t->n_words, c->tag, c->n * sizeof *t->tag);
    t->start[t->n_sentences++] = t->n_words;
    t->n_words += c->n;
    t->start[t->n_sentences] = t->n_words;
    return STET_OK;
}

static stet_status read_bank(trainer *t, const char *path)
{
    TRY(conllu_open(&t->bank, path));
    stet_status st;
    size_t longest = 0;
    while (conllu_next(&t->bank, &st)) {
        longest = t->bank.n > longest ? t->bank.n : longest;
        TRY(add_sentence(t));
    }
    TRY(st);
    if (t->n_sentences == 0)
        return error_set(STET_EFORMAT, "%s: no sentences to train on", path);
    if (t->n_sentences > UINT32_MAX)
        return error_set(STET_ENOTSUP, "%s: more than %u sentences", path, UINT32_MAX);
    t->words = mem_alloc(longest, sizeof *t->words);
    t->order = mem_alloc(t->n_sentences, sizeof *t->order);
    return t->words && t->order ? STET_OK : STET_ENOMEM;
}

/* The treebank's tags become the model's with the same numbers. */
static stet_status declare_tags(trainer *t)
{
    const strmap *tags = &t->bank.tags;
    for (uint32_t i = 0; i < tags->n; i++)
        TRY(tagger_add_tag(t->model, strmap_text(tags, i), strmap_len(tags, i)));
    return STET_OK;
}

/* The words that always get their most frequent tag. */
static stet_status list_words(trainer *t)
{
    const strmap *forms = &t->bank.forms;
    const size_t n_tags = t->bank.tags.n;
    uint32_t *count = mem_zalloc(forms->n * n_tags, sizeof *count);
    if (!count)
        return STET_ENOMEM;
    for (size_t i = 0; i < t->n_words; i++)
        count[t->form[i] * n_tags + t->tag[i]]++;
    stet_status st = STET_OK;
    for (uint32_t f = 0; f < forms->n && st == STET_OK; f++) {
        const uint32_t *of = count + f * n_tags;
        uint64_t sum = 0, best = 0;
        for (uint32_t k = 0; k < n_tags; k++) {
            sum += of[k];
            best = of[k] > of[best] ? k : best;
        }
        if (sum >= LISTED_MIN && 100 * (uint64_t)of[best] >= LISTED_PERCENT * sum)
            st = tagger_add_word(t->model, strmap_text(forms, f), strmap_len(forms, f),
                                 (uint32_t)best);
    }
    mem_free(count);
    return st;
}

/* ---- rows of weights ----------------------------------------------------------------------- */

static row_slot *slot_of(const trainer *t, uint64_t hash)
{
    size_t i = hash & (t->n_slots - 1);
    while (t->slots[i].hash && t->slots[i].hash != hash)
        i = (i + 1) & (t->n_slots - 1);
    return &t->slots[i];
}

static stet_status grow_slots(trainer *t)
{
    trainer wider = {.n_slots = t->n_slots ? 2 * t->n_slots : 1 << 10};
    wider.slots = mem_zalloc(wider.n_slots, sizeof *wider.slots);
    if (!wider.slots)
        return STET_ENOMEM;
    for (size_t i = 0; i < t->n_slots; i++) {
        if (t->slots[i].hash)
            *slot_of(&wider, t->slots[i].hash) = t->slots[i];
    }
    mem_free(t->slots);
    t->slots = wider.slots;
    t->n_slots = wider.n_slots;
    return STET_OK;
}

/* Append the feature's text, unless a file could not tell it from another: "i-1 word+i word New
 * York City" is read as New and York City, never as New York and City. */
static stet_status add_text(trainer *t, const tag_window *w, size_t template, uint64_t hash,
                            bool *added)
{
    const size_t start = t->text.n;
    size_t which;
    uint64_t as_read;
    if (start > UINT32_MAX / 2)
        return error_set(STET_ENOTSUP, "more features than a tagger can hold");
    tag_feature_text(w, template, &t->text);
    buf_char(&t->text, '\0');
    TRY(buf_status(&t->text));
    *added = tag_feature_parse(t->text.data + start, t->text.n - start - 1, &which, &as_read) &&
             as_read == hash;
    if (!*added)
        t->text.n = start;
    return STET_OK;
}

/* *out is NULL for a feature that is left out. */
static stet_status find_or_add_row(trainer *t, const tag_window *w, size_t template, uint64_t hash,
                                   row **out)
{
    *out = NULL;
    if (2 * t->n_rows >= t->n_slots)
        TRY(grow_slots(t));
    row_slot *slot = slot_of(t, hash);
    if (!slot->hash) {
        const uint32_t text = (uint32_t)t->text.n;
        bool added = false;
        TRY(mem_grow(&t->rows, &t->rows_cap, t->n_rows + 1, sizeof *t->rows));
        TRY(add_text(t, w, template, hash, &added));
        if (!added)
            return STET_OK;
        *slot = (row_slot){hash, (uint32_t)t->n_rows};
        t->rows[t->n_rows++] = (row){.text = text};
    }
    *out = &t->rows[slot->row];
    return STET_OK;
}

static stet_status change_weight(trainer *t, row *r, uint32_t tag, int32_t by)
{
    uint32_t k = 0;
    while (k < r->n && r->cells[k].tag != tag)
        k++;
    if (k == r->cap) {
        const uint32_t cap = r->cap ? 2 * r->cap : 2;
        cell *cells = arena_new(&t->cells, cell, cap);
        if (!cells)
            return STET_ENOMEM;
        if (r->n)
            memcpy(cells, r->cells, r->n * sizeof *cells);
        r->cells = cells;
        r->cap = cap;
    }
    cell *c = &r->cells[k];
    if (k == r->n) {
        *c = (cell){.tag = tag, .stamp = t->now};
        r->n++;
    }
    c->total += (int64_t)(t->now - c->stamp) * c->weight;
    c->stamp = t->now;
    c->weight += by;
    return STET_OK;
}

/* ---- learning ------------------------------------------------------------------------------ */

static uint32_t guess(const trainer *t, const uint64_t *hash)
{
    int64_t score[TAGGER_MAX_TAGS] = {0};
    for (size_t k = 0; k < TAG_TEMPLATES; k++) {
        const row_slot *slot = slot_of(t, hash[k]);
        if (!slot->hash)
            continue;
        const row *r = &t->rows[slot->row];
        for (uint32_t i = 0; i < r->n; i++)
            score[r->cells[i].tag] += r->cells[i].weight;
    }
    uint32_t best = 0;
    for (uint32_t k = 1; k < t->bank.tags.n; k++)
        best = score[k] > score[best] ? k : best;
    return best;
}

static stet_status learn_word(trainer *t, const tag_window *w, uint32_t truth, uint32_t *guessed)
{
    uint64_t hash[TAG_TEMPLATES];
    for (size_t k = 0; k < TAG_TEMPLATES; k++)
        hash[k] = tag_feature_hash(w, k);
    *guessed = guess(t, hash);
    t->now++;
    if (*guessed == truth)
        return STET_OK;
    for (size_t k = 0; k < TAG_TEMPLATES; k++) {
        row *r;
        TRY(find_or_add_row(t, w, k, hash[k], &r));
        if (!r)
            continue;
        TRY(change_weight(t, r, truth, 1));
        TRY(change_weight(t, r, *guessed, -1));
    }
    return STET_OK;
}

static stet_status learn_sentence(trainer *t, size_t s, size_t *wrong)
{
    const size_t start = t->start[s], n = t->start[s + 1] - start;
    for (size_t i = 0; i < n; i++)
        t->words[i] = strmap_text(&t->bank.forms, t->form[start + i]);
    tag_window w;
    tag_window_start(&w, t->words, n);
    for (size_t i = 0; i < n; i++) {
        const uint32_t truth = t->tag[start + i];
        const uint32_t listed = strmap_find(&t->model->words, t->words[i], strlen(t->words[i]));
        uint32_t tag;
        if (listed != STRMAP_NONE)
            tag = t->model->word_tags[listed];
        else
            TRY(learn_word(t, &w, truth, &tag));
        *wrong += tag != truth;
        tag_window_next(&w, t->model->tag_values[tag]);
    }
    return STET_OK;
}

static stet_status learn(trainer *t, size_t epochs, uint64_t seed)
{
    TRY(grow_slots(t));
    for (size_t e = 0; e < epochs; e++) {
        rng r = rng_stream(seed, STREAM_SHUFFLE, e);
        rng_permutation(&r, t->order, t->n_sentences);
        size_t wrong = 0;
        for (size_t s = 0; s < t->n_sentences; s++) {
            TRY(learn_sentence(t, t->order[s], &wrong));
            if (s % 256 == 0) {
                progress("tag train", e * t->n_sentences + s, epochs * t->n_sentences, NULL);
                TRY(interrupt_status());
            }
        }
        log_info("epoch %zu: %.2f %% of %zu words right", e + 1,
                 100 - 100.0 * (double)wrong / (double)t->n_words, t->n_words);
    }
    return STET_OK;
}

/* ---- the result ---------------------------------------------------------------------------- */

/* 1000 * total / n to the nearest whole number, halves away from 0. */
static int32_t mean_in_thousandths(int64_t total, uint64_t n)
{
    const int64_t count = (int64_t)n, half = total < 0 ? -(count / 2) : count / 2;
    return (int32_t)((1000 * total + half) / count);
}

static stet_status keep_row(trainer *t, const row *r)
{
    bool kept = false;
    for (uint32_t k = 0; k < r->n; k++) {
        const cell *c = &r->cells[k];
        const int64_t total = c->total + (int64_t)(t->now - c->stamp) * c->weight;
        const int32_t mean = mean_in_thousandths(total, t->now);
        if (mean == 0)
            continue;
        const char *text = t->text.data + r->text;
        if (!kept)
            TRY(tagger_add_feature(t->model, text, strlen(text)));
        kept = true;
        TRY(tagger_add_weight(t->model, c->tag, mean));
    }
    return STET_OK;
}

static stet_status train(trainer *t, const char *path, size_t epochs, uint64_t seed)
{
    TRY(read_bank(t, path));
    TRY(declare_tags(t));
    TRY(list_words(t));
    TRY(learn(t, epochs, seed));
    for (size_t i = 0; i < t->n_rows; i++)
        TRY(keep_row(t, &t->rows[i]));
    return tagger_finish(t->model);
}

stet_status stet_tagger_train(const char *conllu_path, size_t epochs, uint64_t seed,
                              stet_tagger **out)
{
    *out = NULL;
    if (epochs == 0)
        return error_set(STET_EUSAGE, "training takes at least one epoch");
    trainer t = {.model = mem_zalloc(1, sizeof *t.model)};
    const stet_status st = t.model ? train(&t, conllu_path, epochs, seed) : STET_ENOMEM;
    conllu_close(&t.bank);
    mem_free(t.start);
    mem_free(t.form);
    mem_free(t.tag);
    mem_free(t.words);
    mem_free(t.order);
    mem_free(t.rows);
    mem_free(t.slots);
    buf_deinit(&t.text);
    arena_deinit(&t.cells);
    if (st == STET_OK)
        *out = t.model;
    else
        stet_tagger_free(t.model);
    return st;
}
