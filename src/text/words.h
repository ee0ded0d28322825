/* text/words.h - how a model reads: text to words, words to rows of its table.
 *
 * A word model has one row per word: the word's id in its vocabulary, <unk>'s for all others. A subword
 * model gives rows() and has several. */
#ifndef TEXT_WORDS_H
#define TEXT_WORDS_H

#include "stet/words.h"

typedef struct word_reader word_reader;
struct word_reader {
    stet_tokenizer tokenizer;
    /* Cuts a text into words; NULL: the tokeniser does. */
    stet_status (*cut)(const word_reader *r, const char *text, size_t len, stet_tokens *out);
    const stet_vocab *vocab; /* its ids come first among the words of a run */
    size_t max_len;          /* words of a text that are read */
    size_t most_rows;        /* of one word */
    size_t max_rows;         /* of a text, without the two around it; 0: max_len * most_rows */
    /* Every text stands between two rows that are no words of it; an empty text is these two. */
    bool framed;
    uint32_t before, after;
    /* Rows of a word, 1 to most_rows of them; their number. NULL: one, by the vocabulary. <unk> is asked
     * for where a word is masked and, unless texts are framed, where a text is empty. */
    size_t (*rows)(const word_reader *r, const char *word, size_t len, uint32_t *out);
    /* The way back, for readers with several rows per word: does a word begin with this row? The word that
     * rows make, as a string of up to `size` bytes with its NUL; its length, 0: it cannot be told. Both
     * or none. */
    bool (*begins)(const word_reader *r, uint32_t row);
    size_t (*spell)(const word_reader *r, const uint32_t *rows, size_t n, char *out, size_t size);
    const void *user; /* for all of these */
};

stet_status words_new(const word_reader *r, stet_words **out); /* borrowed */
const word_reader *words_reader(const stet_words *w);

stet_status reader_cut(const word_reader *r, const char *text, size_t len, stet_tokens *out);
/* The rows of a text of words: at most n * most_rows, which `out` has room for. Their number. */
size_t words_rows(const stet_words *w, const uint32_t *ids, size_t n, uint32_t *out);
/* The same for words that are not of a run. */
size_t reader_rows(const word_reader *r, const char *word, size_t len, uint32_t *out);
/* Where the words of rows begin, and n at the end: at (n + 1); how many words. For readers that can
 * tell (reader_tells). */
size_t reader_words(const word_reader *r, const uint32_t *rows, size_t n, uint32_t *at);
static inline bool reader_tells(const word_reader *r)
{
    return !r->rows || r->begins;
}
/* See stet_words_typed; `scratch` is reused between calls. */
stet_status reader_types(const word_reader *r, stet_tokens *scratch, const char *word, size_t len,
                         bool *yes);

/* A data set as rows; max_len 0: whole texts. `cut`: how many texts are not read to their end; or
 * NULL. */
stet_status corpus_read(const stet_dataset *d, const word_reader *r, stet_corpus *out, size_t *cut);

#endif
