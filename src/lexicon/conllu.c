/* lexicon/conllu.c - see conllu.h and https://universaldependencies.org/format.html. */
#include "lexicon/conllu.h"

#include <string.h>

#include "base/mem.h"

enum { ID, FORM, LEMMA, UPOS, XPOS, COLUMNS = 10 };

typedef struct column {
    const char *text;
    size_t len;
} column;

stet_status conllu_open(conllu *c, const char *path)
{
    *c = (conllu){0};
    return stream_open(path, &c->in);
}

void conllu_close(conllu *c)
{
    strmap_deinit(&c->forms);
    strmap_deinit(&c->tags);
    mem_free(c->form);
    mem_free(c->tag);
    stream_close(c->in);
    *c = (conllu){0};
}

static stet_status fail(const conllu *c, const char *expected)
{
    return error_set(STET_EFORMAT, "%s:%zu: expected %s", stream_path(c->in),
                     stream_line_number(c->in), expected);
}

static size_t split(const char *line, size_t len, column *out)
{
    size_t n = 0;
    for (const char *p = line, *end = line + len;; n++) {
        const char *tab = memchr(p, '\t', (size_t)(end - p));
        if (n < COLUMNS)
            out[n] = (column){p, (size_t)((tab ? tab : end) - p)};
        if (!tab)
            return n + 1;
        p = tab + 1;
    }
}

static bool is_number(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
    }
    return len > 0;
}

/* A word has a plain number; 1-2 and 1.1 are other things. */
static bool is_range_or_empty_node(column id)
{
    size_t n = 0;
    while (n < id.len && id.text[n] >= '0' && id.text[n] <= '9')
        n++;
    return n > 0 && n < id.len && (id.text[n] == '-' || id.text[n] == '.') &&
           is_number(id.text + n + 1, id.len - n - 1);
}

/* Something that one field of a line can hold again. */
static bool is_text(column col)
{
    return col.len && !memchr(col.text, '\0', col.len) && !memchr(col.text, '\r', col.len);
}

static stet_status add_word(conllu *c, const char *line, size_t len)
{
    column col[COLUMNS];
    if (split(line, len, col) != COLUMNS)
        return fail(c, "10 columns with tabs between them");
    if (is_range_or_empty_node(col[ID]))
        return STET_OK;
    if (!is_number(col[ID].text, col[ID].len))
        return fail(c, "a number in column 1 (ID)");
    if (!is_text(col[FORM]))
        return fail(c, "a word in column 2 (FORM)");
    if (!is_text(col[XPOS]) || (col[XPOS].len == 1 && *col[XPOS].text == '_'))
        return fail(c, "a tag in column 5 (XPOS)");
    TRY(mem_grow(&c->form, &c->form_cap, c->n + 1, sizeof *c->form));
    TRY(mem_grow(&c->tag, &c->tag_cap, c->n + 1, sizeof *c->tag));
    TRY(strmap_add(&c->forms, col[FORM].text, col[FORM].len, &c->form[c->n]));
    TRY(strmap_add(&c->tags, col[XPOS].text, col[XPOS].len, &c->tag[c->n]));
    c->n++;
    return STET_OK;
}

bool conllu_next(conllu *c, stet_status *st)
{
    char *line;
    size_t len;
    *st = STET_OK;
    c->n = 0;
    while (*st == STET_OK && stream_line(c->in, &line, &len, st)) {
        if (len == 0 && c->n)
            return true;
        if (len && line[0] != '#')
            *st = add_word(c, line, len);
    }
    return *st == STET_OK && c->n;
}
