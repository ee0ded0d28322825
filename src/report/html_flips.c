/* report/html_flips.c - flipped texts, with the changed words marked: a few that tell most, then
 * all of them, which a script can filter. */
#include <math.h>

#include "report/html.h"

/* ---- who withstood what ------------------------------------------------------------------- */

/* What is known about another model and the same text: proved, flipped by some attack on the same
 * sample, or withstood all of those. */
static void put_other(const report *r, const summary *s, size_t run, const json_t *mine,
                      json_int_t index, markup *b)
{
    size_t tried = 0;
    const char *last = "", *flipped_by = NULL;
    bool proved = false, wrong = false;
    for (size_t j = 0; j < s->n_cols; j++) {
        const json_t *o = s->cell[run][j];
        if (!o || !same_sample(mine, o))
            continue;
        if (s->col[j].kind == MEASURE_CERTIFIED && !json_is_integer(json_object_get(o, "budget")))
            proved |= has_text(o, "proved_texts", index);
        if (s->col[j].kind != MEASURE_ATTACK || !json_is_array(flipped_of(o)))
            continue;
        tried++;
        last = s->col[j].label;
        wrong |= has_text(o, "wrong", index);
        if (has_text(o, "flipped", index) || has_text(o, "turned", index))
            flipped_by = s->col[j].label;
    }
    if (wrong || (!proved && !tried))
        return;
    put(b, "<span class=\"%s\">", flipped_by ? "fell" : "stands");
    put_dot(b, run);
    put(b, "%s", r->run[run].name);
    if (proved)
        put(b, " stands: proved");
    else if (flipped_by)
        put(b, " was flipped by %s", flipped_by);
    else if (tried == 1)
        put(b, " withstood %s", last);
    else
        put(b, " withstood all %zu attacks", tried);
    put(b, "</span>");
}

/* ---- which examples ----------------------------------------------------------------------- */

static bool withstands(const json_t *mine, const json_t *other, json_int_t index)
{
    return json_is_array(flipped_of(other)) && same_sample(mine, other) &&
           !has_text(other, "flipped", index) && !has_text(other, "turned", index) &&
           !has_text(other, "wrong", index);
}

typedef struct pick {
    const json_t *example;
    size_t col, withstood; /* by other models */
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
                p.withstood += i != run && withstands(s->cell[run][j], s->cell[i][j], index);
            size_t at = n;
            while (at > 0 &&
                   (p.withstood > out[at - 1].withstood ||
                    (p.withstood == out[at - 1].withstood &&
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

/* Bars of the probability of the true class before and after. */
static void put_move(markup *b, const json_t *e)
{
    const double before = num_of(e, "before"), after = num_of(e, "after");
    put(b, "<div class=\"move\"><span>before</span>");
    put_bar(b, "track", before);
    put(b, "<span>%.1f %% %s</span><span>after</span>", 100 * before, str_of(e, "label"));
    put_bar(b, "track flipped", after);
    put(b, "<span>%.1f %% %s, so <b>%s</b></span></div>", 100 * after, str_of(e, "label"),
        str_of(e, "answer"));
}

static void put_example(const report *r, const summary *s, size_t run, const pick *p, markup *b)
{
    const json_t *e = p->example;
    const json_int_t index = json_integer_value(json_object_get(e, "index"));
    put(b, "<article><p class=\"who\"><span>");
    put_dot(b, run);
    put(b,
        "<b>%s</b> flipped by %s</span><span>%.0f of %.0f words changed</span>"
        "<span>%.0f queries</span>",
        r->run[run].name, s->col[p->col].label, num_of(e, "changed"), num_of(e, "words"),
        num_of(e, "queries"));
    for (size_t i = 0; i < r->n; i++)
        if (i != run)
            put_other(r, s, i, s->cell[run][p->col], index, b);
    put(b, "<span>text %lld</span></p>\n<p class=\"text\">", (long long)index);
    html_marked(b, e, true);
    put(b, "</p>");
    put_move(b, e);
    if (json_string_length(json_object_get(e, "text")) > 700) {
        put(b, "<details><summary>the whole text</summary><p class=\"text\">");
        html_marked(b, e, false);
        put(b, "</p></details>");
    }
    put(b, "</article>\n");
}

/* ---- all of them -------------------------------------------------------------------------- */

/* Flips are kept in the order of their texts. */
static const json_t *flip_at(const summary *s, size_t run, size_t col, json_int_t index)
{
    const json_t *flips = json_object_get(s->cell[run][col], "flips");
    size_t lo = 0, hi = s->col[col].kind == MEASURE_ATTACK ? json_array_size(flips) : 0;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        const json_t *o = json_array_get(flips, mid);
        const json_int_t at = json_integer_value(json_object_get(o, "index"));
        if (at == index)
            return o;
        *(at < index ? &lo : &hi) = at < index ? mid + 1 : mid;
    }
    return NULL;
}

/* One model, one text: the way with the fewest changes, and every attack that found one. */
static bool shortest_here(const summary *s, size_t run, size_t col, const json_t *flip)
{
    const json_int_t index = json_integer_value(json_object_get(flip, "index"));
    const double mine = num_of(flip, "changed");
    for (size_t j = 0; j < s->n_cols; j++) {
        const json_t *o = j == col ? NULL : flip_at(s, run, j, index);
        const double other = num_of(o, "changed");
        if (o && (other < mine || (other == mine && j < col)))
            return false;
    }
    return true;
}

static void put_flip(const report *r, const summary *s, size_t run, size_t col, const json_t *e,
                     markup *b)
{
    const json_int_t index = json_integer_value(json_object_get(e, "index"));
    put(b, "<li data-model=\"%zu\"><span class=\"who\">", run);
    put_dot(b, run);
    put(b, "<b>%s</b>, text %lld, %s → %s, %.0f changed, by", r->run[run].name, (long long)index,
        str_of(e, "label"), str_of(e, "answer"), num_of(e, "changed"));
    for (size_t j = 0; j < s->n_cols; j++)
        if (j == col || flip_at(s, run, j, index))
            put(b, " %s", s->col[j].label);
    put(b, "</span> ");
    html_marked(b, e, false);
    put(b, "</li>\n");
}

static size_t put_all(const report *r, const summary *s, markup *b)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        for (size_t j = 0; j < s->n_cols; j++) {
            const json_t *flips = json_object_get(s->cell[i][j], "flips"), *o;
            size_t k;
            if (s->col[j].kind != MEASURE_ATTACK)
                continue;
            json_array_foreach(flips, k, o) if (shortest_here(s, i, j, o))
            {
                put_flip(r, s, i, j, o, b);
                n++;
            }
        }
    return n;
}

/* The form is hidden until the script, which makes it work, shows it. */
static void put_filter(const report *r, const summary *s, markup *b)
{
    put(b, "<form class=\"filter\" hidden><label>find <input type=\"search\" name=\"find\" "
           "placeholder=\"a word, a class, text 12\"></label> <label>model <select name=\"model\">"
           "<option value=\"\">all</option>");
    for (size_t i = 0; i < r->n; i++)
        put(b, "<option value=\"%zu\">%s</option>", i, r->run[i].name);
    put(b, "</select></label> <label>attack <select name=\"attack\"><option value=\"\">all"
           "</option>");
    for (size_t j = 0; j < s->n_cols; j++)
        if (s->col[j].kind == MEASURE_ATTACK)
            put(b, "<option>%s</option>", s->col[j].label);
    put(b, "</select></label> <output></output></form>\n");
}

static void put_list(const report *r, const summary *s, markup *b)
{
    markup list = {.escape = escape_html};
    const size_t n = put_all(r, s, &list);
    if (n > 0) {
        put(b, "<details class=\"all\"><summary>all %zu flipped texts, in brief</summary>\n", n);
        put_filter(r, s, b);
        put(b, "<ul class=\"flips\">\n");
        put_part(b, &list);
        put(b, "</ul></details>\n");
    }
    markup_deinit(&list);
}

void html_flips(const report *r, markup *b)
{
    enum { EACH = 4 };
    bool begun = false;
    for (size_t k = 0; k < r->n_data; k++) {
        bool here = false;
        for (size_t i = 0; i < r->n; i++) {
            pick p[EACH + 1];
            const size_t n = choose(r, &r->data[k], i, p, EACH);
            if (n && !begun)
                put(b, "<section id=\"texts\"><h2>Flipped texts</h2>\n<p>Each of these texts was "
                       "classified correctly before words were swapped for substitutes of the "
                       "set. A set may hold substitutes that do not fit everywhere "
                       "(<em>outstanding</em> for a bill is <em>unpaid</em>, for a film it is "
                       "not), so read a change before you judge it. Texts that another model "
                       "withstood come first, then those with the fewest changes.</p>\n");
            if (n && !here)
                put(b, "<div class=\"texts\">\n");
            begun |= n > 0;
            here |= n > 0;
            for (size_t e = 0; e < n; e++)
                put_example(r, &r->data[k], i, &p[e], b);
        }
        if (here) {
            put(b, "</div>\n");
            put_list(r, &r->data[k], b);
        }
    }
    if (begun)
        put(b, "</section>\n");
}
