/* lexicon/conllu.h - sentences of a CoNLL-U treebank as words and their language-specific tags
 * (XPOS, Penn's in English). Comments, multiword tokens (1-2) and empty nodes (1.1) are passed
 * over.
 *
 *     conllu c;
 *     TRY(conllu_open(&c, path));
 *     while (conllu_next(&c, &st)) ...   // c.n words: c.form[i], c.tag[i]
 *     conllu_close(&c); */
#ifndef LEXICON_CONLLU_H
#define LEXICON_CONLLU_H

#include "base/stream.h"
#include "base/strmap.h"

typedef struct conllu {
    strmap forms, tags;   /* every distinct one so far */
    uint32_t *form, *tag; /* (n) the current sentence, numbers in the maps */
    size_t n, form_cap, tag_cap;
    stream *in;
} conllu;

stet_status conllu_open(conllu *c, const char *path); /* plain or compressed */
/* The next sentence of at least one word; false at the end or on failure (*st is not STET_OK). */
bool conllu_next(conllu *c, stet_status *st);
void conllu_close(conllu *c); /* fine on {0} */

#endif
