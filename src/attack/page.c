/* attack/page.c - a page of attacked texts, each with its changes marked in place. */
#include <string.h>

#include "attack/record.h"
#include "base/file.h"
#include "base/json.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
    "content=\"width=device-width\">\n<style>\n"
    ":root{color-scheme:light dark;--ok:#1a7f37;--bad:#c62828;--line:#8884}\n"
    "body{font:16px/1.55 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}\n"
    "article{border-top:1px solid var(--line);padding:.8rem 0}\n.m{font-size:.85rem;opacity:.75}\n"
    "del{color:var(--bad)}ins{color:var(--ok);font-weight:600;text-decoration:none;border-bottom:"
    "2px solid}\n"
    "@media(prefers-color-scheme:dark){:root{--ok:#6fdd8b;--bad:#ff8a80}}\n"
    "details>summary{cursor:pointer}\n</style>\n";

/* The text with <del>old</del><ins>new</ins> at each change. */
static void marked(buf *b, const json_t *o)
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
        buf_html(b, t + done, start - done);
        buf_str(b, "<del>");
        buf_html(b, t + start, end - start);
        buf_str(b, "</del><ins>");
        buf_html(b, json_string_value(to), json_string_length(to));
        buf_str(b, "</ins>");
        done = end;
    }
    buf_html(b, t + done, len - done);
}

static void string_of(buf *b, const json_t *o, const char *key)
{
    const json_t *s = json_object_get(o, key);
    if (json_is_string(s))
        buf_html(b, json_string_value(s), json_string_length(s));
}

static void article(buf *b, const json_t *o, const record *r)
{
    buf_printf(b, "<article id=\"t%zu\"><p class=\"m\">text %zu &middot; ", r->index, r->index);
    string_of(b, o, "label");
    buf_printf(b, " %.3f", json_number_value(json_object_get(o, "before")));
    if (r->outcome == OUTCOME_SUCCESS) {
        buf_str(b, " &rarr; <b>");
        string_of(b, o, "answer");
        buf_printf(b, "</b> (%.3f left) &middot; %zu of %zu words changed",
                   json_number_value(json_object_get(o, "after")), r->changed, r->words);
    } else {
        buf_printf(b, " &middot; %s", outcome_names[r->outcome]);
    }
    buf_printf(b, " &middot; %llu queries</p>", (unsigned long long)r->queries);
    const bool open = r->outcome == OUTCOME_SUCCESS;
    buf_str(b, open ? "<p>" : "<details><summary>text</summary><p>");
    if (r->outcome == OUTCOME_ERROR)
        string_of(b, o, "error");
    else
        marked(b, o);
    buf_str(b, open ? "</p></article>\n" : "</p></details></article>\n");
}

static stet_status flush(buf *b, atomic_file *f)
{
    TRY(buf_status(b));
    TRY(atomic_write(f, b->data, b->n));
    buf_clear(b);
    return STET_OK;
}

stet_status page_write(const char *path, const char *title, const char *summary, const record *r,
                       size_t n)
{
    atomic_file f;
    TRY(atomic_open(&f, path));
    buf b = {0};
    buf_str(&b, head);
    buf_str(&b, "<title>");
    buf_html(&b, title, strlen(title));
    buf_str(&b, "</title><h1>");
    buf_html(&b, title, strlen(title));
    buf_str(&b, "</h1><p>");
    buf_html(&b, summary, strlen(summary));
    buf_str(&b, "</p>\n");
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
    buf_deinit(&b);
    if (st == STET_OK)
        return atomic_commit(&f);
    atomic_abort(&f);
    return st;
}
