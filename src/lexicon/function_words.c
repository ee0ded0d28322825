/* lexicon/function_words.c - the built-in stop list: pronouns, determiners, prepositions,
 * conjunctions, forms of be and have, pieces of contractions, negations, adverbs of place and time.
 * Our own, after what the lists of the frameworks hold; theirs leave out will, do, so, very, some,
 * few, many, much, own, each, because, should and might, and so does it. */
#include "lexicon/function_words.h"

#include <string.h>

#include "base/stream.h"

const char *const function_words[] = {
    /* pronouns */
    "i", "me", "my", "myself", "mine", "we", "us", "our", "ours", "ourselves", "you", "your",
    "yours", "yourself", "yourselves", "he", "him", "his", "himself", "she", "her", "hers",
    "herself", "it", "its", "itself", "they", "them", "their", "theirs", "themselves", "one", "who",
    "whom", "whose", "whoever", "whomever", "what", "whatever", "which", "whichever", "anyone",
    "anybody", "anything", "everyone", "everybody", "everything", "someone", "somebody",
    "something", "nobody", "none", "nothing",
    /* determiners */
    "a", "an", "the", "this", "that", "these", "those", "all", "another", "any", "both", "either",
    "neither", "every", "other", "others", "same", "such", "several",
    /* prepositions */
    "aboard", "about", "above", "across", "after", "against", "along", "alongside", "amid", "among",
    "amongst", "around", "as", "at", "atop", "before", "behind", "below", "beneath", "beside",
    "besides", "between", "beyond", "by", "concerning", "despite", "down", "during", "except",
    "excepting", "for", "from", "in", "inside", "into", "like", "near", "of", "off", "on", "onto",
    "out", "outside", "over", "past", "per", "regarding", "since", "through", "throughout", "till",
    "to", "toward", "towards", "under", "underneath", "unlike", "until", "unto", "up", "upon",
    "versus", "via", "with", "within", "without",
    /* conjunctions */
    "and", "but", "or", "nor", "yet", "if", "else", "although", "though", "unless", "whereas",
    "whether", "while", "whilst", "than", "lest", "once", "provided", "therefore", "thus", "hence",
    "however", "moreover", "nevertheless", "otherwise", "instead", "meanwhile",
    /* be, have, and what is left of them */
    "be", "am", "is", "are", "was", "were", "been", "being", "have", "has", "had", "having", "can",
    "cannot", "could", "would", "must", "shall", "n't", "'s", "'re", "'ve", "'ll", "'d", "'m",
    "ain", "aren", "couldn", "didn", "doesn", "don", "hadn", "hasn", "haven", "isn", "mightn",
    "mustn", "needn", "shan", "shouldn", "wasn", "weren", "won", "wouldn", "ll", "re", "ve", "s",
    "t", "d", "m", "o", "y",
    /* negations */
    "not", "no", "never",
    /* where, when, how */
    "again", "already", "also", "always", "anyhow", "anyway", "anywhere", "afterwards", "almost",
    "alone", "back", "elsewhere", "enough", "ere", "even", "ever", "everywhere", "further",
    "furthermore", "here", "hereafter", "hereby", "herein", "how", "just", "latter", "latterly",
    "more", "most", "mostly", "namely", "now", "nowhere", "only", "perhaps", "quite", "rather",
    "somehow", "sometime", "sometimes", "somewhere", "still", "then", "thence", "there",
    "thereafter", "thereby", "therein", "thereupon", "together", "too", "when", "whence",
    "whenever", "where", "whereby", "wherein", "wherever", "why", "beforehand", "formerly", NULL};

stet_status stop_words_read(const char *path, strmap *out)
{
    if (strcmp(path, "builtin") == 0) {
        for (const char *const *w = function_words; *w; w++)
            TRY(strmap_add(out, *w, strlen(*w), NULL));
        return STET_OK;
    }
    stream *f;
    TRY(stream_open(path, &f));
    char *line;
    size_t len;
    stet_status st = STET_OK;
    while (st == STET_OK && stream_line(f, &line, &len, &st))
        if (len > 0)
            st = strmap_add(out, line, len, NULL);
    stream_close(f);
    return st;
}
