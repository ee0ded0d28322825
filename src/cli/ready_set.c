/* cli/ready_set.c - see cli/ready_set.h. */
#include "cli/ready_set.h"

static stet_status words_of(const stet_dataset *d, stet_tokenizer how, stet_vocab **out)
{
    stet_counter *c = NULL;
    stet_status st = stet_counter_new(&c);
    if (st == STET_OK)
        st = stet_counter_add_dataset(c, d, how);
    if (st == STET_OK)
        st = stet_vocab_build(c, 1, 0, out);
    stet_counter_free(c);
    return st;
}

static stet_status fill(stet_subst_builder *b, const stet_vocab *words)
{
    stet_wordnet *w = NULL;
    stet_tagger *tagger = NULL;
    stet_status st = stet_wordnet_open(NULL, &w);
    if (st == STET_OK)
        st = stet_subst_add_wordnet(b, w, words, STET_WN_TEXTATTACK);
    if (st == STET_OK)
        st = stet_subst_keep_vocab(b, words);
    if (st == STET_OK)
        st = stet_tagger_builtin(&tagger);
    if (st == STET_OK)
        st = stet_subst_keep_same_pos(b, tagger);
    if (st == STET_OK)
        st = stet_subst_keep_top(b, READY_TOP);
    if (st == STET_OK)
        st = stet_subst_drop_stop_words(b, "builtin");
    stet_tagger_free(tagger);
    stet_wordnet_free(w);
    return st;
}

stet_status cli_ready_set(const stet_dataset *d, stet_tokenizer how, stet_subst **out)
{
    *out = NULL;
    stet_vocab *words = NULL;
    stet_subst_builder *b = NULL;
    stet_status st = words_of(d, how, &words);
    if (st == STET_OK)
        st = stet_subst_builder_new(&b);
    if (st == STET_OK)
        st = fill(b, words);
    if (st == STET_OK)
        st = stet_subst_build(b, out);
    stet_subst_builder_free(b);
    stet_vocab_free(words);
    return st;
}
