/* lexicon/function_words.h - the stop list "builtin", for every option that takes one. */
#ifndef LEXICON_FUNCTION_WORDS_H
#define LEXICON_FUNCTION_WORDS_H

#include "base/strmap.h"

extern const char *const function_words[]; /* NULL at the end */

/* The words of a file, one per line, or of the list if `path` is "builtin", join `out`. */
stet_status stop_words_read(const char *path, strmap *out);

#endif
