/* tests/fuzz/fuzz_tokenize.c - both tokenisers on any bytes: spans in order, tokens joined by
 * spaces give themselves again, and replacing one word leaves the others. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "stet/option.h"
#include "stet/text.h"
#include "text/utf8.h"

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_spans(const stet_tokens *t, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < t->n; at = t->v[i++].end) {
        require(t->v[i].start >= at && t->v[i].end > t->v[i].start && t->v[i].end <= size);
        require(strlen(stet_token_word(t, i)) == t->v[i].len);
    }
}

static void check_same(const stet_tokens *a, const stet_tokens *b, size_t but, const char *word)
{
    require(a->n == b->n);
    for (size_t i = 0; i < a->n; i++)
        require(strcmp(i == but ? word : stet_token_word(a, i), stet_token_word(b, i)) == 0);
}

static void check_joined(stet_tokenizer kind, const stet_tokens *t)
{
    buf joined = {0};
    stet_tokens again = {0};
    for (size_t i = 0; i < t->n; i++) {
        buf_str(&joined, stet_token_word(t, i));
        buf_char(&joined, ' ');
    }
    require(stet_tokenize(kind, joined.data ? joined.data : "", joined.n, &again) == STET_OK);
    check_same(t, &again, t->n, "");
    stet_tokens_deinit(&again);
    buf_deinit(&joined);
}

static void check_replaced(stet_tokenizer kind, const char *text, size_t size, const stet_tokens *t,
                           size_t at)
{
    static const char *const word = "zebra";
    stet_tokens again = {0};
    char *out;
    require(stet_text_rebuild(text, size, t, &at, &word, 1, &out) == STET_OK);
    require(stet_tokenize(kind, out, strlen(out), &again) == STET_OK);
    check_same(t, &again, at, word);
    stet_tokens_deinit(&again);
    stet_free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    stet_tokens t = {0};
    for (int kind = 0; kind < STET_TOK_COUNT; kind++) {
        require(stet_tokenize((stet_tokenizer)kind, text, size, &t) == STET_OK);
        if (memchr(text, '\0', size))
            continue; /* no text of a data set has one */
        check_spans(&t, size);
        if (utf8_check(text, size) < size)
            continue;
        check_joined((stet_tokenizer)kind, &t);
        for (size_t i = 0; i < t.n && i < 16; i++)
            check_replaced((stet_tokenizer)kind, text, size, &t, i);
    }
    stet_tokens_deinit(&t);
    return 0;
}
