/* text/wordpiece_cut.c - a text as BERT's words: see wordpiece.h. Characters are taken one by one: what
 * becomes of one never depends on its neighbours. */
#include <string.h>
#include <utf8proc.h>

#include "text/tokens.h"
#include "text/utf8.h"
#include "text/wordpiece.h"

enum { MOST_CODES = 32 }; /* that one character decomposes into */

typedef struct cutter {
    stet_tokens *out;
    bool lower, open;   /* is a word being written? */
    size_t start, form; /* where it begins in the text, how long its form is */
} cutter;

static stet_status close_word(cutter *c, size_t end)
{
    if (c->open && c->form)
        tokens_push(c->out, c->start, end, c->form);
    c->open = false;
    return STET_OK;
}

static stet_status add_code(cutter *c, int32_t code, size_t at)
{
    if (!c->open) {
        c->open = true;
        c->start = at;
        c->form = 0;
    }
    TRY(tokens_room(c->out, c->form + 4));
    c->form += utf8_put(code, tokens_form(c->out) + c->form);
    return STET_OK;
}

static bool vanishes(int32_t code)
{
    if (code == '\t' || code == '\n' || code == '\r')
        return false;
    const utf8proc_category_t k = utf8proc_category(code);
    return code == 0 || code == 0xfffd || k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_CO;
}

static bool is_blank(int32_t code)
{
    if (code < 0x80)
        return code == ' ' || code == '\t' || code == '\n' || code == '\r';
    const utf8proc_category_t k = utf8proc_category(code);
    return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
}

static bool is_ideograph(int32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static bool is_mark(int32_t c)
{
    if (c < 0x80)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
               (c >= 123 && c <= 126);
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
        return true;
    default:
        return false;
    }
}

/* One character of the text, cleaned and normalised: a mark is a word of its own. */
static stet_status take_code(cutter *c, int32_t code, size_t at, size_t next)
{
    if (!is_mark(code))
        return add_code(c, code, at);
    TRY(close_word(c, at));
    TRY(add_code(c, code, at));
    return close_word(c, next);
}

static stet_status take_other(cutter *c, int32_t code, size_t at, size_t next)
{
    const bool alone = is_ideograph(code);
    if (alone)
        TRY(close_word(c, at));
    int32_t part[MOST_CODES];
    int boundary = 0;
    const utf8proc_ssize_t n =
        c->lower ? utf8proc_decompose_char(code, part, MOST_CODES, UTF8PROC_DECOMPOSE, &boundary)
                 : 0;
    if (n <= 0 || n > MOST_CODES)
        TRY(take_code(c, c->lower ? utf8_lower(code) : code, at, next));
    for (utf8proc_ssize_t i = 0; i < n && n <= MOST_CODES; i++)
        if (utf8proc_category(part[i]) != UTF8PROC_CATEGORY_MN)
            TRY(take_code(c, utf8_lower(part[i]), at, next));
    return alone ? close_word(c, next) : STET_OK;
}

static stet_status cut_at(cutter *c, const char *text, size_t len, size_t at, size_t *next)
{
    const unsigned char first = (unsigned char)text[at];
    *next = at + 1;
    const size_t tag = first == '<' ? break_tag(text + at, len - at) : 0;
    if (tag)
        *next = at + tag;
    if (tag || first == ' ')
        return close_word(c, at);
    if (first > ' ' && first < 0x7f)
        return take_code(c, c->lower ? ascii_lower((char)first) : (char)first, at, *next);
    int32_t code;
    *next = at + utf8_code(text + at, len - at, &code);
    if (vanishes(code))
        return STET_OK;
    return is_blank(code) ? close_word(c, at) : take_other(c, code, at, *next);
}

stet_status wordpiece_cut(bool lower, const char *text, size_t len, stet_tokens *out)
{
    out->n = out->words_n = 0;
    if (len > TEXT_MAX)
        return error_set(STET_ENOTSUP, "a text of %zu bytes is too long; the limit is %zu", len,
                         (size_t)TEXT_MAX);
    cutter c = {.out = out, .lower = lower};
    for (size_t at = 0, next; at < len; at = next)
        TRY(cut_at(&c, text, len, at, &next));
    return close_word(&c, len);
}
