/* cli/ready_set.h - substitution sets with nothing to choose: the synonyms of WordNet for the words
 * of a corpus. */
#ifndef CLI_READY_SET_H
#define CLI_READY_SET_H

#include "stet/lexicon.h"

/* WordNet's synonyms of the texts' words, both in the texts and of one part of speech; the first
 * READY_TOP of each word; function words stay as they are. */
enum { READY_TOP = 8 };
stet_status cli_ready_set(const stet_dataset *d, stet_tokenizer how, stet_subst **out);

#endif
