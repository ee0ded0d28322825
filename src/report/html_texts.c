/* report/html_texts.c - texts that were turned, with the changed words marked, and what was proved.
 */
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
static void put_text(buf *b, const char *s, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i + 3 < n; i++) {
        const char *end = strncasecmp(s + i, "<br", 3) == 0 ? memchr(s + i, '>', n - i) : NULL;
        if (!end || s[i + 3 + strspn(s + i + 3, " /")] != '>')
            continue;
        buf_html(b, s + from, i - from);
        buf_char(b, ' ');
        from = (size_t)(end - s) + 1;
        i = from - 1;
    }
    buf_html(b, s + from, n - from);
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
static void put_between(buf *b, const char *t, size_t done, size_t next, size_t len, bool brief)
{
    const size_t left = done == 0 ? 0 : context_after(t, done, len),
                 right = next == len ? len : context_before(t, next);
    if (!brief || left >= right) {
        put_text(b, t + done, next - done);
        return;
    }
    put_text(b, t + done, left - done);
    buf_str(b, " … ");
    put_text(b, t + right, next - right);
}

static void put_marked(buf *b, const json_t *example, bool brief)
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
        put_text(b, t, end);
        buf_str(b, end < len ? " …" : "");
        return;
    }
    for (size_t k = 0; k < json_array_size(changes); k++) {
        change c;
        if (!change_at(changes, k, done, len, &c))
            continue;
        put_between(b, t, done, c.start, len, brief);
        buf_str(b, "<del>");
        buf_html(b, t + c.start, c.end - c.start);
        buf_str(b, "</del><ins>");
        esc(b, c.to);
        buf_str(b, "</ins>");
        done = c.end;
    }
    put_between(b, t, done, len, len, brief);
}

/* Bars of a probability before and after. */
static void put_move(buf *b, const json_t *e)
{
    const double before = 100 * num_of(e, "before"), after = 100 * num_of(e, "after");
    buf_str(b, "<div class=\"move\"><span>before</span><span class=\"track\">");
    buf_printf(b, "<i style=\"width:%.1f%%\"></i></span><span>%.1f %% ", before, before);
    esc(b, str_of(e, "label"));
    buf_printf(b,
               "</span><span>after</span><span class=\"track turned\"><i "
               "style=\"width:%.1f%%\"></i></span><span>%.1f %% ",
               after, after);
    esc(b, str_of(e, "label"));
    buf_str(b, ", so: <b>");
    esc(b, str_of(e, "answer"));
    buf_str(b, "</b></span></div>");
}

/* ---- which examples ----------------------------------------------------------------------- */

static bool listed(const json_t *list, json_int_t index)
{
    size_t k;
    const json_t *v;
    json_array_foreach(list, k, v) if (json_integer_value(v) == index) return true;
    return false;
}

/* Did this attack leave the same text with `other` as it was? Only where both saw the same sample.
 */
static bool stands(const json_t *mine, const json_t *other, json_int_t index)
{
    return other && json_is_array(json_object_get(other, "turned")) &&
           num_of(mine, "seed") == num_of(other, "seed") &&
           num_of(json_object_get(mine, "data"), "measured") ==
               num_of(json_object_get(other, "data"), "measured") &&
           !listed(json_object_get(other, "turned"), index) &&
           !listed(json_object_get(other, "wrong"), index);
}

typedef struct pick {
    const json_t *example;
    size_t col, standing; /* models that stand on it */
} pick;

/* The examples of one model over all its attacks: those that others withstand first, then the
 * shortest way; each text once. */
static size_t choose(const report *r, const summary *s, size_t run, pick *out, size_t most)
{
    size_t n = 0;
    for (size_t j = 0; j < s->n_cols; j++) {
        const json_t *list = json_object_get(s->cell[run][j], "examples");
        for (size_t k = 0; s->col[j].kind == MEASURE_ATTACK && k < json_array_size(list); k++) {
            pick p = {json_array_get(list, k), j, 0};
            const json_int_t index = json_integer_value(json_object_get(p.example, "index"));
            bool again = false;
            for (size_t i = 0; i < n; i++)
                again |= json_integer_value(json_object_get(out[i].example, "index")) == index;
            for (size_t i = 0; i < r->n; i++)
                p.standing += i != run && stands(s->cell[run][j], s->cell[i][j], index);
            size_t at = n;
            while (at > 0 &&
                   (p.standing > out[at - 1].standing ||
                    (p.standing == out[at - 1].standing &&
                     num_of(p.example, "changed") < num_of(out[at - 1].example, "changed"))))
                at--;
            if (again || at >= most)
                continue;
            n = n < most ? n + 1 : most;
            memmove(out + at + 1, out + at, (n - 1 - at) * sizeof *out);
            out[at] = p;
        }
    }
    return n;
}

static void put_example(const report *r, const summary *s, size_t run, const pick *p, buf *b)
{
    const json_t *e = p->example;
    const json_int_t index = json_integer_value(json_object_get(e, "index"));
    buf_str(b, "<article><p class=\"who\"><span>");
    put_dot(b, run);
    buf_str(b, "<b>");
    esc(b, r->run[run].name);
    buf_str(b, "</b> turned by ");
    esc(b, s->col[p->col].label);
    buf_printf(b, "</span><span>%.0f of %.0f words changed</span><span>%.0f queries</span>",
               num_of(e, "changed"), num_of(e, "words"), num_of(e, "queries"));
    for (size_t i = 0; i < r->n; i++)
        if (i != run && stands(s->cell[run][p->col], s->cell[i][p->col], index)) {
            buf_str(b, "<span class=\"stands\">");
            put_dot(b, i);
            esc(b, r->run[i].name);
            buf_str(b, " stands</span>");
        }
    buf_printf(b, "<span>text %lld</span></p>\n<p class=\"text\">", (long long)index);
    put_marked(b, e, true);
    buf_str(b, "</p>");
    put_move(b, e);
    if (json_string_length(json_object_get(e, "text")) > 700) {
        buf_str(b, "<details><summary>the whole text</summary><p class=\"text\">");
        put_marked(b, e, false);
        buf_str(b, "</p></details>");
    }
    buf_str(b, "</article>\n");
}

void html_examples(const report *r, buf *b)
{
    enum { EACH = 4 };
    bool begun = false;
    for (size_t k = 0; k < r->n_data; k++)
        for (size_t i = 0; i < r->n; i++) {
            pick p[EACH + 1];
            const size_t n = choose(r, &r->data[k], i, p, EACH);
            if (n && !begun)
                buf_str(b, "<section id=\"texts\"><h2>Texts that turned</h2>\n<p>A reader would "
                           "give these texts the same label before and "
                           "after. Fewest changed words first; texts that another model withstands "
                           "come before those that none does.</p>\n<div class=\"texts\">\n");
            begun |= n > 0;
            for (size_t e = 0; e < n; e++)
                put_example(r, &r->data[k], i, &p[e], b);
        }
    buf_str(b, begun ? "</div></section>\n" : "");
}

/* ---- certificates ------------------------------------------------------------------------- */

static void put_verdicts(const json_t *o, buf *b)
{
    const double certified = num_of(o, "certified"), undecided = num_of(o, "undecided"),
                 broken = num_of(o, "broken"), clean = num_of(o, "clean");
    const struct {
        const char *class, *label;
        double share;
    } part[] = {{"certified", "proved to stand", certified},
                {"undecided", "neither proved nor turned", undecided},
                {"broken", "a counter-example is known", broken},
                {"wrong", "wrong as it is", 1 - clean}};
    enum { PARTS = sizeof part / sizeof *part };
    buf_str(b, "<div class=\"verdicts\">");
    for (size_t k = 0; k < PARTS; k++)
        if (part[k].share > 0)
            buf_printf(b, "<i class=\"%s\" style=\"width:%.2f%%\" title=\"%s: %.1f %%\"></i>",
                       part[k].class, 100 * part[k].share, part[k].label, 100 * part[k].share);
    buf_str(b, "</div>\n<p class=\"note\">");
    for (size_t k = 0; k < PARTS; k++)
        if (part[k].share > 0)
            buf_printf(b, "<span class=\"key %s\"></span>%s %.1f %% &ensp; ", part[k].class,
                       part[k].label, 100 * part[k].share);
    buf_printf(b, "<br>%.0f texts, %.2g s a text</p>\n", num_of(o, "n"),
               num_of(o, "seconds") / fmax(1, num_of(o, "n")));
}

static stet_status put_margins(const report *r, const summary *s, buf *b)
{
    enum { MOST_BINS = 64 };
    stet_plot *p;
    TRY(stet_plot_new(&(stet_plot_options){.title = "proved margins",
                                           .x_label = "smallest margin that is proved",
                                           .y_label = "texts",
                                           .width = CHART_WIDTH,
                                           .height = CHART_HEIGHT},
                      &p));
    bool any = false;
    for (size_t i = 0; i < r->n; i++) {
        double edge[MOST_BINS + 1] = {0}, height[MOST_BINS];
        size_t n = 0;
        for (size_t j = 0; j < s->n_cols; j++) {
            const json_t *m = json_object_get(s->cell[i][j], "margins"),
                         *bins = json_object_get(m, "bins");
            if (s->col[j].kind != MEASURE_CERTIFIED || n > 0 || json_array_size(bins) > MOST_BINS)
                continue;
            const double lo = num_of(m, "lo"), hi = num_of(m, "hi");
            n = isfinite(lo) && hi > lo ? json_array_size(bins) : 0;
            for (size_t k = 0; k < n; k++)
                height[k] = json_number_value(json_array_get(bins, k));
            for (size_t k = 0; k <= n && n > 0; k++)
                edge[k] = lo + (hi - lo) * (double)k / (double)n;
        }
        any |= n > 0;
        stet_plot_histogram(p, r->run[i].name, edge, height, n);
    }
    if (any) {
        buf_str(b, "<div class=\"charts\">");
        TRY(html_figure(
            p, "", "Proved margins of the right answers",
            "Above zero: no substitution can turn the answer. Further right: by how much.", b));
        buf_str(b, "</div>\n");
        return STET_OK;
    }
    stet_plot_free(p);
    return STET_OK;
}

/* The swaps that take most of the margin, as far as the bound knows. */
static void put_harm(const json_t *e, buf *b)
{
    enum { SHOWN = 3 };
    const json_t *list = json_object_get(e, "harm");
    if (json_array_size(list))
        buf_str(b, "<p class=\"note\">Most harm may do ");
    for (size_t k = 0; k < json_array_size(list) && k < SHOWN; k++) {
        const json_t *h = json_array_get(list, k);
        buf_str(b, k ? ", " : "");
        esc(b, str_of(h, "from"));
        buf_str(b, " → ");
        esc(b, str_of(h, "to"));
        if (isfinite(num_of(h, "drop")))
            buf_printf(b, " (%.3f)", num_of(h, "drop"));
    }
    buf_str(b, json_array_size(list) ? ".</p>" : "");
}

static void put_certificate(const json_t *e, buf *b)
{
    buf_str(b, "<article><p class=\"who\"><span><b>");
    esc(b, str_of(e, "label"));
    buf_str(b, "</b>, ");
    esc(b, str_of(e, "verdict"));
    buf_str(b, "</span>");
    if (isfinite(num_of(e, "margin")))
        buf_printf(b, "<span>margin %.3f as it is, at least %.3f whatever is swapped</span>",
                   num_of(e, "clean"), num_of(e, "margin"));
    if (isfinite(num_of(e, "variants_log10")))
        buf_printf(b, "<span>10<sup>%.0f</sup> variants</span>", num_of(e, "variants_log10"));
    buf_printf(b, "<span>text %.0f</span></p>\n<p class=\"text\">", num_of(e, "index"));
    put_marked(b, e, true);
    buf_str(b, "</p>");
    put_harm(e, b);
    buf_str(b, "</article>\n");
}

stet_status html_certificates(const report *r, buf *b)
{
    enum { EACH = 3 };
    bool begun = false;
    for (size_t k = 0; k < r->n_data; k++) {
        const summary *s = &r->data[k];
        bool here = false;
        for (size_t j = 0; j < s->n_cols; j++)
            for (size_t i = 0; i < r->n; i++) {
                if (!s->cell[i][j] || s->col[j].kind != MEASURE_CERTIFIED)
                    continue;
                if (!begun)
                    buf_str(b, "<section id=\"proofs\"><h2>Proofs</h2>\n<p>A proof covers every "
                               "combination of the allowed substitutes at "
                               "once, rounding of the program included. Where neither a proof nor "
                               "a counter-example was found, "
                               "nothing is claimed.</p>\n");
                begun = here = true;
                buf_str(b, "<h3>");
                put_dot(b, i);
                esc(b, r->run[i].name);
                buf_printf(b, " <small>%s</small></h3>\n", s->col[j].note);
                put_verdicts(s->cell[i][j], b);
                const json_t *list = json_object_get(s->cell[i][j], "examples");
                if (json_array_size(list))
                    buf_str(b, "<details><summary>texts, those with the most variants "
                               "first</summary><div class=\"texts\">\n");
                for (size_t e = 0; e < json_array_size(list) && e < EACH; e++)
                    put_certificate(json_array_get(list, e), b);
                buf_str(b, json_array_size(list) ? "</div></details>\n" : "");
            }
        if (here)
            TRY(put_margins(r, s, b));
    }
    buf_str(b, begun ? "</section>\n" : "");
    return STET_OK;
}
