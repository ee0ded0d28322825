/* report/html_marked.c - a text with its changed words marked, or its words coloured by the harm that
 * a substitute may do there. */
#include <math.h>
#include <strings.h>

#include "report/html.h"

/* ---- a text with its changes -------------------------------------------------------------- */

typedef struct change {
    size_t start, end; /* bytes of the text */
    const char *to;
} change;

/* The k-th change, if it is inside the text and after `from`: a file may come from anywhere. */
static bool change_at(const json_t *changes, size_t k, size_t from, size_t len, change *out)
{
    const json_t *c = json_array_get(changes, k);
    const json_int_t start = json_integer_value(json_object_get(c, "start")),
                     end = json_integer_value(json_object_get(c, "end"));
    if (start < (json_int_t)from || end <= start || end > (json_int_t)len)
        return false;
    *out = (change){(size_t)start, (size_t)end, str_of(c, "to")};
    return true;
}

enum { CONTEXT = 110 }; /* bytes shown on either side of a change */

/* Line breaks of web pages, which no tokeniser reads, are shown as the spaces that they stand for.
 */
static void put_prose(markup *b, const char *s, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i + 3 < n; i++) {
        const char *end = strncasecmp(s + i, "<br", 3) == 0 ? memchr(s + i, '>', n - i) : NULL;
        if (!end || s[i + 3 + strspn(s + i + 3, " /")] != '>')
            continue;
        put_text(b, s + from, i - from);
        put(b, " ");
        from = (size_t)(end - s) + 1;
        i = from - 1;
    }
    put_text(b, s + from, n - from);
}

/* From `at` to the left or right by CONTEXT, then on to a space, where no character is cut. */
static size_t context_before(const char *t, size_t at)
{
    size_t i = at > CONTEXT ? at - CONTEXT : 0;
    while (i > 0 && (t[i - 1] != ' ' || t[i] == '/')) /* not within "<br />" */
        i--;
    return i;
}

static size_t context_after(const char *t, size_t at, size_t len)
{
    size_t i = at + CONTEXT < len ? at + CONTEXT : len;
    while (i < len && (t[i] != ' ' || t[i + 1] == '/'))
        i++;
    return i;
}

/* Text from `done` to `next`; of a long stretch only what is near a change, if `brief`. */
static void put_between(markup *b, const char *t, size_t done, size_t next, size_t len, bool brief)
{
    const size_t left = done == 0 ? 0 : context_after(t, done, len),
                 right = next == len ? len : context_before(t, next);
    if (!brief || left >= right) {
        put_prose(b, t + done, next - done);
        return;
    }
    put_prose(b, t + done, left - done);
    put(b, " … ");
    put_prose(b, t + right, next - right);
}

void html_marked(markup *b, const json_t *example, bool brief)
{
    const json_t *text = json_object_get(example, "text"),
                 *changes = json_object_get(example, "changes");
    const char *t = json_string_value(text);
    const size_t len = json_string_length(text);
    size_t done = 0;
    if (!t)
        return;
    if (brief && json_array_size(changes) == 0) { /* its beginning */
        const size_t end = context_after(t, 2 * CONTEXT < len ? 2 * CONTEXT : len, len);
        put_prose(b, t, end);
        put(b, "%s", end < len ? " …" : "");
        return;
    }
    for (size_t k = 0; k < json_array_size(changes); k++) {
        change c;
        if (!change_at(changes, k, done, len, &c))
            continue;
        put_between(b, t, done, c.start, len, brief);
        put(b, "<del>");
        put_prose(b, t + c.start, c.end - c.start);
        put(b, "</del><ins>");
        put(b, "%s", c.to);
        put(b, "</ins>");
        done = c.end;
    }
    put_between(b, t, done, len, len, brief);
}

/* ---- harm --------------------------------------------------------------------------------- */

/* The entry of `harm` that is nearest after `from`, or NULL. */
static const json_t *next_harm(const json_t *harm, size_t from, size_t len, change *out)
{
    const json_t *best = NULL;
    for (size_t k = 0; k < json_array_size(harm); k++) {
        change c;
        if (change_at(harm, k, from, len, &c) && (!best || c.start < out->start)) {
            best = json_array_get(harm, k);
            *out = c;
        }
    }
    return best;
}

void html_harm(markup *b, const json_t *example)
{
    enum { SHADES = 5 };
    const json_t *text = json_object_get(example, "text"), *harm = json_object_get(example, "harm"),
                 *h;
    const char *t = json_string_value(text);
    const size_t len = json_string_length(text);
    double most = 0;
    for (size_t k = 0; k < json_array_size(harm); k++) {
        const double drop = num_of(json_array_get(harm, k), "drop");
        most = isfinite(drop) ? fmax(most, drop) : most;
    }
    if (!t)
        return;
    size_t done = 0;
    change c = {0};
    while ((h = next_harm(harm, done, len, &c))) {
        const double drop = num_of(h, "drop");
        const int shade = most > 0 && drop > 0 ? (int)ceil(SHADES * fmin(1, drop / most)) : 0;
        put_prose(b, t + done, c.start - done);
        put(b, "<span class=\"harm%d\" title=\"→ %s: %.3f\">", shade, c.to, drop);
        put_text(b, t + c.start, c.end - c.start);
        put(b, "</span>");
        done = c.end;
    }
    put_prose(b, t + done, len - done);
}
