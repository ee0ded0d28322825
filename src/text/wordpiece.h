/* text/wordpiece.h - how BERT reads: text to words, words to pieces of a fixed vocabulary.
 *
 *     wordpiece w;
 *     TRY(wordpiece_load("bert/vocab.txt", true, &w));
 *     stet_tokens t = {0};
 *     TRY(wordpiece_cut(w.lower, text, len, &t));
 *     uint32_t piece[WORDPIECE_MOST];
 *     n = wordpiece_pieces(&w, stet_token_word(&t, 0), t.v[0].len, piece);
 *
 * Words: white space and every punctuation mark and ideograph separate; control characters vanish;
 * unless the model is cased, letters lose their case and accents. <br> is white space, as for the
 * other tokenisers. What a text says is never taken for a special piece: "[SEP]" is [ sep ].
 * Pieces: the longest that fits, from the left; "##x" continues a word. Where nothing fits, or beyond
 * a hundred characters, the whole word is [UNK].
 *
 * A loaded vocabulary never changes: threads may share it. */
#ifndef TEXT_WORDPIECE_H
#define TEXT_WORDPIECE_H

#include "base/strmap.h"
#include "stet/text.h"

enum { WORDPIECE_MOST = 100 }; /* pieces, and characters, of a word */

typedef struct wordpiece {
    strmap piece; /* every line of vocab.txt in order: its number is the id */
    strmap inner; /* those that continue a word, without their ## */
    uint32_t *inner_id;
    size_t cap_inner, longest;    /* bytes of the longest piece */
    bool lower;                   /* case and accents are dropped */
    uint32_t pad, unknown, begin, end, mask; /* [PAD], [UNK], [CLS], [SEP], [MASK] */
} wordpiece;

/* vocab.txt, one piece a line. STET_EFORMAT names the line that is empty or there twice, or the special
 * piece that is missing. */
stet_status wordpiece_load(const char *path, bool lower, wordpiece *out);
/* The same from lines in memory; `what` names them in messages. */
stet_status wordpiece_parse(const char *what, const char *lines, size_t size, bool lower,
                            wordpiece *out);
/* A vocabulary for texts without one: special pieces, all characters, the most frequent words, `most`
 * pieces at most. Rare words are spelt. */
stet_status wordpiece_from_counts(const stet_counter *c, size_t most, bool lower, wordpiece *out);
stet_status wordpiece_save(const wordpiece *w, const char *path);
void wordpiece_deinit(wordpiece *w); /* {0} is fine */

stet_status wordpiece_cut(bool lower, const char *text, size_t len, stet_tokens *out);
/* Pieces of a word as it was cut: 1 to WORDPIECE_MOST. */
size_t wordpiece_pieces(const wordpiece *w, const char *word, size_t len, uint32_t *out);

#endif
