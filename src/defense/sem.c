/* defense/sem.c - synonym encoding (Wang, Jin and He 2021): words that may stand for each other are
 * read as one word, the most frequent of them. docs/defences.md.
 *
 * The encoding is in the word vectors: every word of a group has the vector of its representative.
 * So it holds wherever the model is asked, and a certificate needs no rule of its own: a substitute
 * of the same group moves nothing, and bounds over the sets that are left are exact in that. Words
 * in the vocabulary stand in the order of their counts, which is the order of the encoding. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "bound/hulls.h"
#include "defense/defenses.h"
#include "defense/groups.h"

typedef struct sem_cfg {
    int64_t neighbours, keep;
    int groups;
} sem_cfg;

enum { GROUPS_GREEDY, GROUPS_CLOSED };

static const stet_opt opts[] = {
    STET_OPT_INT("sem-neighbours", sem_cfg, neighbours, "10", 1, 1000000, "K",
                 "sem: the first K substitutes of a word are its neighbours"),
    STET_OPT_INT("sem-keep", sem_cfg, keep, "15", 0, 1000000, "N",
                 "sem: the N most frequent words found a group instead of joining one"),
    STET_OPT_CHOICE("sem-groups", sem_cfg, groups, "greedy", "greedy|closed",
                    "sem: groups as published, or closed: no substitution leaves its group"),
    STET_OPT_END,
};

/* ---- the code ----------------------------------------------------------------------------- */

static bool one_letter(const char *word)
{
    size_t letters = 0;
    for (; *word; word++)
        letters += ((unsigned char)*word & 0xC0) != 0x80;
    return letters == 1;
}

/* code[w]: the word that w is read as; 0 (which is <pad>): none yet. In the order of falling counts a
 * word joins the group of its nearest neighbour that has one, or founds a group, and takes its
 * neighbours without a group along. */
static void encode_greedy(const sem_cfg *c, const stet_vocab *v, const word_sets *s, uint32_t *code)
{
    for (uint32_t w = STET_FIRST_WORD; w < s->n_words; w++) {
        if (code[w])
            continue;
        code[w] = w;
        if (w - STET_FIRST_WORD < c->keep || one_letter(stet_vocab_word(v, w)))
            continue;
        const uint32_t *near = s->word + s->start[w];
        size_t n = s->start[w + 1] - s->start[w];
        n = n < (size_t)c->neighbours ? n : (size_t)c->neighbours;
        for (size_t i = n; i-- > 0;)
            if (near[i] != STET_UNK && code[near[i]])
                code[w] = code[near[i]]; /* the first of the list is the last to be seen */
        for (size_t i = 0; i < n; i++)
            if (near[i] != STET_UNK && !code[near[i]])
                code[near[i]] = code[w];
    }
}

static uint32_t root_of(uint32_t *code, uint32_t w)
{
    while (code[w] != w)
        w = code[w] = code[code[w]];
    return w;
}

/* Connected components: whatever the sets allow, step after step, stays in a group. */
void groups_closed(const word_sets *s, uint32_t *code)
{
    for (uint32_t w = STET_FIRST_WORD; w < s->n_words; w++)
        code[w] = w;
    for (uint32_t w = STET_FIRST_WORD; w < s->n_words; w++)
        for (size_t i = s->start[w]; i < s->start[w + 1]; i++) {
            if (s->word[i] == STET_UNK)
                continue;
            const uint32_t a = root_of(code, w), b = root_of(code, s->word[i]);
            code[a < b ? b : a] = a < b ? a : b; /* the more frequent one stays */
        }
    for (uint32_t w = STET_FIRST_WORD; w < s->n_words; w++)
        code[w] = root_of(code, w);
}

static stet_status encode(const sem_cfg *c, const stet_vocab *v, const stet_subst *subst,
                          uint32_t **out)
{
    word_sets s = {0};
    uint32_t *code = *out = mem_zalloc(stet_vocab_size(v), sizeof *code);
    if (!code)
        return STET_ENOMEM;
    const stet_status st = word_sets_make(subst, v, &s);
    code[STET_UNK] = STET_UNK;
    if (st == STET_OK && c->groups == GROUPS_CLOSED)
        groups_closed(&s, code);
    else if (st == STET_OK)
        encode_greedy(c, v, &s, code);
    word_sets_deinit(&s);
    return st;
}

/* ---- hooks -------------------------------------------------------------------------------- */

static stet_status vectors(const void *cfg, const vector_view *v)
{
    uint32_t *code;
    size_t joined = 0;
    const stet_status st = encode(cfg, v->vocab, v->subst, &code);
    for (size_t w = STET_FIRST_WORD; st == STET_OK && w < v->t->n; w++) {
        if (code[w] == w)
            continue;
        joined++; /* a representative keeps its own vector, so the order does not matter */
        memcpy(v->t->data + w * v->t->dim, v->t->data + code[w] * v->t->dim,
               v->t->dim * sizeof *v->t->data);
    }
    mem_free(code);
    if (st == STET_OK) {
        metric_add(v->told, "sem_joined", (double)joined);
        log_info("sem: %zu of %zu words are read as another one", joined,
                 v->t->n - STET_FIRST_WORD);
    }
    return st;
}

/* Nothing may have parted the words of a group. */
static stet_status start(const void *cfg, const model *m, const stet_subst *s, void **state)
{
    (void)state;
    if (m->reader.rows)
        return error_set(STET_ENOTSUP,
                         "defence 'sem' needs a model that reads one vector per word, not a %s",
                         m->desc->name);
    if (m->scores >= 0)
        return error_set(STET_EUSAGE, "defence 'sem' cannot be combined with word scores: words "
                                      "that it merges would keep scores of their own");
    uint32_t *code;
    stet_status st = encode(cfg, m->vocab, s, &code);
    for (size_t w = STET_FIRST_WORD; st == STET_OK && w < m->n_words; w++)
        if (memcmp(m->table + w * m->dim, m->table + code[w] * m->dim, m->dim * sizeof *m->table) !=
            0)
            st = error_set(STET_EUSAGE,
                           "defence 'sem' must be listed after those that change word vectors");
    mem_free(code);
    return st;
}

const defense_desc defense_sem = {
    .name = "sem",
    .summary = "synonyms read as one word (synonym encoding)",
    .opts = opts,
    .cfg_size = sizeof(sem_cfg),
    .needs_sets = "--defense sem needs --synonyms: the words that are read as one",
    .ties_words = true,
    .vectors = vectors,
    .start = start,
};
