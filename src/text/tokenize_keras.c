/* text/tokenize_keras.c - what Keras's text_to_word_sequence does with its default filter: lower
 * case, filter characters become spaces, split at spaces; apostrophes stay in the word. Unlike
 * there, all ASCII white space separates, so that every word fits on a line of vocab.txt. */
#include "text/tokens.h"
#include "text/utf8.h"

static const bool separator[256] = {
    [' '] = 1, ['\t'] = 1, ['\n'] = 1, ['\v'] = 1, ['\f'] = 1, ['\r'] = 1, ['!'] = 1, ['"'] = 1,
    ['#'] = 1, ['$'] = 1,  ['%'] = 1,  ['&'] = 1,  ['('] = 1,  [')'] = 1,  ['*'] = 1, ['+'] = 1,
    [','] = 1, ['-'] = 1,  ['.'] = 1,  ['/'] = 1,  [':'] = 1,  [';'] = 1,  ['<'] = 1, ['='] = 1,
    ['>'] = 1, ['?'] = 1,  ['@'] = 1,  ['['] = 1,  ['\\'] = 1, [']'] = 1,  ['^'] = 1, ['_'] = 1,
    ['`'] = 1, ['{'] = 1,  ['|'] = 1,  ['}'] = 1,  ['~'] = 1,
};

static stet_status add(stet_tokens *out, const char *text, size_t start, size_t end)
{
    TRY(tokens_room(out, FORM_GROWTH * (end - start)));
    char *form = tokens_form(out);
    size_t len = 0;
    for (size_t at = start; at < end;) {
        if ((signed char)text[at] >= 0) {
            form[len++] = ascii_lower(text[at++]);
            continue;
        }
        int32_t code;
        at += utf8_code(text + at, end - at, &code);
        len += utf8_put(utf8_lower(code), form + len);
    }
    tokens_push(out, start, end, len);
    return STET_OK;
}

stet_status tokenize_keras(const char *text, size_t len, stet_tokens *out)
{
    for (size_t at = 0; at < len; at++) {
        const size_t start = at;
        while (at < len && !separator[(unsigned char)text[at]])
            at++;
        if (at > start)
            TRY(add(out, text, start, at));
    }
    return STET_OK;
}
