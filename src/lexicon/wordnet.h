/* lexicon/wordnet.h - what others ask of WordNet besides synonyms. */
#ifndef LEXICON_WORDNET_H
#define LEXICON_WORDNET_H

#include "stet/lexicon.h"

/* The folder that stet_wordnet_open would take, `dir`, $WNSEARCHDIR, $WNHOME/dict, or the first usual place
 * that holds a database. */
enum { WORDNET_DIR = 4096 };
stet_status wordnet_find_dir(const char *dir, char out[WORDNET_DIR]);
bool wordnet_is_in(const char *dir);

typedef struct wordnet_reading {
    bool known;     /* the word or a base form of it is in the index of this part of speech */
    bool inflected; /* more often as a form of another word ("saw" of "see") than as itself */
    uint64_t count; /* how often its senses are tagged in the concordances (cntlist.rev), or,
                     * without that file, how many of them are */
} wordnet_reading;

/* How a word of any case reads as a noun, verb, adjective or adverb. */
stet_status wordnet_read(const stet_wordnet *w, const char *word, stet_pos pos,
                         wordnet_reading *out);

#endif
