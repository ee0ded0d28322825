/* text/utf8.c - ASCII by table, the rest by utf8proc. */
#include "text/utf8.h"

#include <string.h>
#include <utf8proc.h>

static char_class class_of_ascii(unsigned char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return CHAR_WORD;
    if (c <= ' ' || c == 0x7f)
        return CHAR_SPACE;
    return c == '\'' || c == '`' ? CHAR_APOS : CHAR_OTHER;
}

/* Typographic variants of ASCII punctuation, and the Windows-1252 bytes that badly converted files
 * (IMDB among them) carry as C1 control characters. */
static int32_t fold(int32_t code)
{
    switch (code) {
    case 0x91:
    case 0x92:
    case 0xb4:
    case 0x2bc:
    case 0x2018:
    case 0x2019:
    case 0x201b:
        return '\'';
    case 0x93:
    case 0x94:
    case 0x201c:
    case 0x201d:
    case 0x201e:
    case 0x201f:
        return '"';
    case 0x96:
        return 0x2013;
    case 0x97:
        return 0x2014;
    default:
        return code;
    }
}

static char_class class_of(int32_t code)
{
    if (code < 0x80)
        return class_of_ascii((unsigned char)code);
    switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
        return CHAR_WORD;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return CHAR_MARK;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
        return CHAR_SPACE;
    case UTF8PROC_CATEGORY_CF:
        return CHAR_SKIP;
    default:
        return CHAR_OTHER;
    }
}

size_t utf8_code(const char *s, size_t n, int32_t *code)
{
    const utf8proc_ssize_t bytes =
        utf8proc_iterate((const utf8proc_uint8_t *)s, n < 4 ? (utf8proc_ssize_t)n : 4, code);
    if (bytes > 0)
        return (size_t)bytes;
    *code = 0xfffd;
    return 1;
}

glyph utf8_glyph(const char *s, size_t n)
{
    const unsigned char first = (unsigned char)*s;
    if (first < 0x80)
        return (glyph){first, 1, class_of_ascii(first)};
    int32_t code;
    const size_t bytes = utf8_code(s, n, &code);
    code = fold(code);
    return (glyph){code, (uint32_t)bytes, class_of(code)};
}

glyph utf8_last_glyph(const char *s, size_t n)
{
    for (size_t k = 1; k <= 4 && k <= n; k++) {
        if (((unsigned char)s[n - k] & 0xc0) == 0x80)
            continue;
        const glyph g = utf8_glyph(s + n - k, k);
        if (g.bytes == k)
            return g;
        break;
    }
    return utf8_glyph(s + n - 1, 1);
}

int32_t utf8_lower(int32_t code)
{
    return utf8proc_tolower(code);
}

int32_t utf8_upper(int32_t code)
{
    return utf8proc_toupper(code);
}

size_t utf8_put(int32_t code, char *dst)
{
    return (size_t)utf8proc_encode_char(code, (utf8proc_uint8_t *)dst);
}

size_t utf8_compose(char *s, size_t n, size_t cap)
{
    enum { LONGEST = 256 };
    utf8proc_int32_t code[LONGEST];
    utf8proc_ssize_t count =
        utf8proc_decompose((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, code, LONGEST,
                           UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    if (count <= 0 || count > LONGEST)
        return n;
    count = utf8proc_normalize_utf32(code, count, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    char out[4 * LONGEST];
    size_t size = 0;
    for (utf8proc_ssize_t i = 0; i < count; i++)
        size += utf8_put(code[i], out + size);
    if (count <= 0 || size > cap)
        return n;
    memcpy(s, out, size);
    return size;
}

/* Eight bytes at once while they are ASCII and not NUL. */
static size_t skip_ascii(const char *s, size_t i, size_t n)
{
    const uint64_t high = UINT64_C(0x8080808080808080), one = UINT64_C(0x0101010101010101);
    for (uint64_t x; i + sizeof x <= n; i += sizeof x) {
        memcpy(&x, s + i, sizeof x);
        if ((x | (x - one)) & high) /* x - one borrows into the high bit of a zero byte */
            break;
    }
    return i;
}

size_t utf8_check(const char *s, size_t n)
{
    for (size_t i = 0;;) {
        i = skip_ascii(s, i, n);
        while (i < n && (signed char)s[i] > 0)
            i++;
        if (i == n || s[i] == '\0')
            return i;
        utf8proc_int32_t code;
        const size_t left = n - i < 4 ? n - i : 4;
        const utf8proc_ssize_t bytes =
            utf8proc_iterate((const utf8proc_uint8_t *)s + i, (utf8proc_ssize_t)left, &code);
        if (bytes <= 0)
            return i;
        i += (size_t)bytes;
    }
}
