/* cli/diff.c - a text with its changed words marked, wrapped for a terminal: colours there, [old ->
 * new] elsewhere. */
#include <string.h>

#include "cli/cli.h"

enum { WIDTH = 96, INDENT = 4, CONTEXT = 60 };

/* Words are written as they come; a line that would grow beyond WIDTH ends before them. */
typedef struct wrap {
    size_t at; /* columns used; 0: nothing on this line */
    bool glue; /* no space before the next word: the text has none either */
} wrap;

static size_t columns(const char *s, size_t n)
{
    size_t w = 0;
    for (size_t i = 0; i < n; i++)
        w += ((unsigned char)s[i] & 0xc0) != 0x80;
    return w;
}

static void put_word(wrap *w, const char *style, const char *s, size_t n)
{
    const size_t width = columns(s, n);
    if (w->at && !w->glue && w->at + 1 + width > WIDTH) {
        putchar('\n');
        w->at = 0;
    }
    if (w->at == 0)
        w->at = (size_t)printf("%*s", INDENT, "");
    else if (!w->glue)
        w->at += (putchar(' '), 1);
    w->glue = false;
    printf("%s%.*s%s", style, (int)n, s, *style ? cli_style("reset") : "");
    w->at += width;
}

/* The words of a stretch; what a terminal would take for its own is left out. */
static void put_words(wrap *w, const char *style, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        while (i < n && (unsigned char)s[i] <= ' ')
            i++;
        size_t end = i;
        while (end < n && (unsigned char)s[end] > ' ' && s[end] != 0x7f)
            end++;
        if (end > i)
            put_word(w, style, s + i, end - i);
        i = end > i ? end : i + 1;
    }
}

/* Of a long stretch only what is near a change. */
static void put_between(wrap *w, const char *t, size_t from, size_t to, size_t len)
{
    size_t left = from == 0 ? 0 : from + CONTEXT, right = to == len      ? len
                                                          : to < CONTEXT ? 0
                                                                         : to - CONTEXT;
    while (from > 0 && left < to && t[left] != ' ')
        left++;
    while (to < len && right > from && t[right] != ' ')
        right--;
    if (left >= right) {
        put_words(w, "", t + from, to - from);
        return;
    }
    put_words(w, "", t + from, left > from ? left - from : 0);
    put_word(w, cli_style("dim"), "...", 3);
    put_words(w, "", t + right, to - right);
}

static bool touches(const char *t, size_t at)
{
    return at > 0 && (unsigned char)t[at - 1] > ' ' && (unsigned char)t[at] > ' ';
}

static void put_change(wrap *w, const char *from, size_t n, const char *to)
{
    if (cli_colour()) {
        put_words(w, cli_style("removed"), from, n);
        put_words(w, cli_style("added"), to, strlen(to));
        return;
    }
    char both[256];
    const int size = snprintf(both, sizeof both, "[%.*s -> %s]", (int)n, from, to);
    put_words(w, "", both, size < (int)sizeof both ? (size_t)size : sizeof both - 1);
}

void cli_diff_print(const json_t *example)
{
    const json_t *text = json_object_get(example, "text"), *c;
    const char *t = json_string_value(text),
               *label = json_string_value(json_object_get(example, "label")),
               *answer = json_string_value(json_object_get(example, "answer"));
    const size_t len = json_string_length(text);
    if (!t)
        return;
    printf("  %s%s%s %.1f %% -> %.1f %%, so %s%s%s (%lld of %lld words)\n", cli_style("bold"),
           label ? label : "", cli_style("reset"),
           100 * json_number_value(json_object_get(example, "before")),
           100 * json_number_value(json_object_get(example, "after")), cli_style("bold"),
           answer ? answer : "", cli_style("reset"),
           (long long)json_integer_value(json_object_get(example, "changed")),
           (long long)json_integer_value(json_object_get(example, "words")));
    wrap w = {0};
    size_t done = 0, k;
    json_array_foreach(json_object_get(example, "changes"), k, c)
    {
        const size_t start = (size_t)json_integer_value(json_object_get(c, "start")),
                     end = (size_t)json_integer_value(json_object_get(c, "end"));
        const char *to = json_string_value(json_object_get(c, "to"));
        if (start < done || end < start || end > len || !to)
            continue;
        put_between(&w, t, done, start, len);
        w.glue = touches(t, start);
        put_change(&w, t + start, end - start, to);
        done = end;
        w.glue = touches(t, end);
    }
    put_between(&w, t, done, len, len);
    putchar('\n');
}
