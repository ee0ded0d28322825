/* attack/page.c - a page of attacked texts, each with its changes marked in place. */
#include <string.h>

#include "attack/record.h"
#include "base/file.h"
#include "base/json.h"
#include "base/markup.h"

static const char style[] =
    ":root{color-scheme:light dark;--ok:#1a7f37;--bad:#c62828;--line:#8884}\n"
    "body{font:16px/1.55 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}\n"
    "article{border-top:1px solid var(--line);padding:.8rem 0}\n.m{font-size:.85rem;opacity:.75}\n"
    "p{overflow-wrap:anywhere}\n"
    "del{color:var(--bad)}ins{color:var(--ok);font-weight:600;text-decoration:none;border-bottom:"
    "2px solid}\n"
    "@media(prefers-color-scheme:dark){:root{--ok:#6fdd8b;--bad:#ff8a80}}\n"
    "details>summary{cursor:pointer}\n";

/* The page runs no script and loads nothing, and says so to the browser. */
static void put_head(markup *b, const char *title, const char *summary)
{
    char hash[CSP_HASH];
    csp_hash(style, sizeof style - 1, hash);
    put(b,
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta "
        "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '%s'\">"
        "<meta name=\"viewport\" content=\"width=device-width\">\n<style>",
        hash);
    put_trusted(b, style, sizeof style - 1);
    put(b, "</style>\n<title>%s</title><h1>%s</h1><p>%s</p>\n", title, title, summary);
}

/* The text with <del>old</del><ins>new</ins> at each change. */
static void marked(markup *b, const json_t *o)
{
    const json_t *text = json_object_get(o, "text"), *changes = json_object_get(o, "changes");
    const char *t = json_string_value(text);
    const size_t len = json_string_length(text);
    size_t done = 0, k;
    const json_t *c;
    json_array_foreach(changes, k, c)
    {
        const size_t start = (size_t)json_integer_value(json_object_get(c, "start")),
                     end = (size_t)json_integer_value(json_object_get(c, "end"));
        const json_t *to = json_object_get(c, "to");
        if (start < done || end < start || end > len || !json_is_string(to))
            continue; /* a log may come from anywhere */
        put_text(b, t + done, start - done);
        put(b, "<del>");
        put_text(b, t + start, end - start);
        put(b, "</del><ins>");
        put_text(b, json_string_value(to), json_string_length(to));
        put(b, "</ins>");
        done = end;
    }
    put_text(b, t + done, len - done);
}

static void string_of(markup *b, const json_t *o, const char *key)
{
    const json_t *s = json_object_get(o, key);
    if (json_is_string(s))
        put_text(b, json_string_value(s), json_string_length(s));
}

static void article(markup *b, const json_t *o, const record *r)
{
    put(b, "<article id=\"t%zu\"><p class=\"m\">text %zu &middot; ", r->index, r->index);
    string_of(b, o, "label");
    put(b, " %.3f", json_number_value(json_object_get(o, "before")));
    if (r->outcome == OUTCOME_SUCCESS) {
        put(b, " &rarr; <b>");
        string_of(b, o, "answer");
        put(b, "</b> (%.3f left) &middot; %zu of %zu words changed",
            json_number_value(json_object_get(o, "after")), r->changed, r->words);
    } else {
        put(b, " &middot; %s", outcome_names[r->outcome]);
    }
    put(b, " &middot; %llu queries</p>", (unsigned long long)r->queries);
    const bool open = r->outcome == OUTCOME_SUCCESS;
    if (!open)
        put(b, "<details><summary>text</summary>");
    put(b, "<p>");
    if (r->outcome == OUTCOME_ERROR)
        string_of(b, o, "error");
    else
        marked(b, o);
    put(b, "</p>");
    if (!open)
        put(b, "</details>");
    put(b, "</article>\n");
}

static stet_status flush(markup *b, atomic_file *f)
{
    TRY(markup_status(b));
    TRY(atomic_write(f, b->out.data, b->out.n));
    buf_clear(&b->out);
    return STET_OK;
}

stet_status page_write(const char *path, const char *title, const char *summary, const record *r,
                       size_t n)
{
    atomic_file f;
    TRY(atomic_open(&f, path));
    markup b = {.escape = escape_html};
    put_head(&b, title, summary);
    stet_status st = flush(&b, &f);
    for (size_t i = 0; st == STET_OK && i < n; i++) {
        json_t *o = NULL;
        if (!r[i].line)
            continue;
        st = json_read_text("record", r[i].line, strlen(r[i].line), &o);
        if (st == STET_OK)
            article(&b, o, &r[i]);
        json_decref(o);
        if (st == STET_OK)
            st = flush(&b, &f);
    }
    if (st == STET_OK)
        st = atomic_printf(&f, "</html>\n");
    markup_deinit(&b);
    if (st == STET_OK)
        return atomic_commit(&f);
    atomic_abort(&f);
    return st;
}
