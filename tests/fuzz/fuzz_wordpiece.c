/* tests/fuzz/fuzz_wordpiece.c - BERT's vocabulary and texts: a vocabulary up to a line "TEXT", then a
 * text. Pieces are of the vocabulary, spans lie in the text in order, and words read again are the same
 * words. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "text/wordpiece.h"

static void require(bool good)
{
    if (!good)
        abort();
}

static void read_text(const wordpiece *w, const char *text, size_t size)
{
    stet_tokens t = {0}, again = {0};
    require(wordpiece_cut(w->lower, text, size, &t) == STET_OK);
    for (size_t i = 0; i < t.n; i++) {
        uint32_t piece[WORDPIECE_MOST];
        const char *word = stet_token_word(&t, i);
        require(t.v[i].start < t.v[i].end && t.v[i].end <= size);
        require(i == 0 || t.v[i - 1].start <= t.v[i].start);
        const size_t n = wordpiece_pieces(w, word, t.v[i].len, piece);
        require(n >= 1 && n <= WORDPIECE_MOST);
        for (size_t k = 0; k < n; k++)
            require(piece[k] < w->piece.n);
        require(wordpiece_cut(w->lower, word, t.v[i].len, &again) == STET_OK);
        require(again.n == 1 && again.v[0].len == t.v[i].len &&
                memcmp(stet_token_word(&again, 0), word, t.v[i].len) == 0);
    }
    stet_tokens_deinit(&t);
    stet_tokens_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char small[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nb\n##b\n!\n";
    const char *bytes = (const char *)data;
    const char *text = size > 5 ? memmem(bytes, size, "TEXT\n", 5) : NULL;
    const size_t head = text ? (size_t)(text - bytes) : 0, rest = text ? head + 5 : 0;
    wordpiece w;
    if (wordpiece_parse("fuzz", bytes, head, size % 2, &w) != STET_OK)
        require(wordpiece_parse("small", small, strlen(small), size % 2, &w) == STET_OK);
    if (size > rest)
        read_text(&w, bytes + rest, size - rest);
    wordpiece_deinit(&w);
    return 0;
}
