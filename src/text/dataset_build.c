/* text/dataset_build.c - rows become a data set: labels to classes, texts to one block. */
#include "text/dataset.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "text/utf8.h"

/* More classes than this are a sign that the wrong column was taken for the label. */
enum { MAX_CLASSES = 1 << 16 };

stet_status builder_init(data_builder *b, const char *path, const stet_data_options *how)
{
    *b = (data_builder){.how = how, .path = path};
    b->d = mem_zalloc(1, sizeof *b->d);
    if (!b->d)
        return STET_ENOMEM;
    TRY(mem_grow(&b->d->start, &b->start_cap, 1, sizeof *b->d->start));
    b->d->start[0] = 0;
    for (size_t c = 0; how->like && c < stet_dataset_classes(how->like); c++) {
        const char *name = stet_dataset_class_name(how->like, c);
        TRY(strmap_add(&b->d->classes, name, strlen(name), NULL));
    }
    return STET_OK;
}

void builder_deinit(data_builder *b)
{
    stet_dataset_free(b->d);
    b->d = NULL;
}

stet_status builder_text(data_builder *b, const char *s, size_t n)
{
    /* a space before, a NUL after */
    TRY(mem_grow(&b->d->text, &b->text_cap, b->text_n + n + 2, 1));
    if (n > 0 && b->text_n > b->d->start[b->d->n])
        b->d->text[b->text_n++] = ' ';
    if (n > 0)
        memcpy(b->d->text + b->text_n, s, n);
    b->text_n += n;
    return STET_OK;
}

stet_status builder_bad(data_builder *b, size_t line, const char *fmt, ...)
{
    char message[512], place[32] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    if (line)
        snprintf(place, sizeof place, ":%zu", line);
    b->text_n = (size_t)b->d->start[b->d->n];
    if (!b->how->skip_bad)
        return error_set(STET_EFORMAT, "%s%s: %s", b->path, place, message);
    if (b->d->skipped++ == 0)
        log_warn("%s%s: %s; skipped", b->path, place, message);
    return STET_OK;
}

static void trim(const char **s, size_t *n)
{
    while (*n > 0 && (**s == ' ' || **s == '\t'))
        (*s)++, (*n)--;
    while (*n > 0 && ((*s)[*n - 1] == ' ' || (*s)[*n - 1] == '\t'))
        (*n)--;
}

/* "neg, pos", or the first few and "...". */
static void list_classes(const strmap *classes, char *out, size_t size)
{
    enum { SHOWN = 8 };
    size_t n = 0;
    for (uint32_t c = 0; c < classes->n && c <= SHOWN && n < size; c++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", c ? ", " : "",
                              c < SHOWN ? strmap_text(classes, c) : "...");
}

/* The class of this label; STRMAP_NONE if that makes the row a bad one that is skipped. */
static stet_status find_class(data_builder *b, size_t line, const char *label, size_t n,
                              uint32_t *id)
{
    strmap *classes = &b->d->classes;
    *id = STRMAP_NONE;
    if (n == 0)
        return builder_bad(b, line, "the label is empty");
    if (utf8_check(label, n) < n)
        return builder_bad(b, line, "the label is not UTF-8");
    *id = strmap_find(classes, label, n);
    if (*id != STRMAP_NONE)
        return STET_OK;
    if (b->how->like) {
        char known[256] = "none";
        list_classes(classes, known, sizeof known);
        return builder_bad(b, line, "class '%.*s' is not one of those of the training set: %s",
                           n < 64 ? (int)n : 64, label, known);
    }
    if (classes->n == MAX_CLASSES)
        return error_set(STET_EFORMAT, "%s: more than %d classes; is this column the label?",
                         b->path, MAX_CLASSES);
    return strmap_add(classes, label, n, id);
}

stet_status builder_row(data_builder *b, size_t line, const char *label, size_t label_n)
{
    stet_dataset *d = b->d;
    const size_t begin = (size_t)d->start[d->n], len = b->text_n - begin;
    TRY(builder_text(b, "", 0)); /* room for the NUL */
    const size_t bad = utf8_check(d->text + begin, len);
    if (bad < len)
        return builder_bad(b, line, "byte %zu of the text, 0x%02x, is %s", bad + 1,
                           (unsigned)(unsigned char)d->text[begin + bad],
                           d->text[begin + bad] ? "not UTF-8" : "NUL");
    uint32_t id = 0;
    if (!b->how->unlabelled) {
        trim(&label, &label_n);
        TRY(find_class(b, line, label, label_n, &id));
        if (id == STRMAP_NONE)
            return STET_OK;
    }
    TRY(mem_grow(&d->start, &b->start_cap, d->n + 2, sizeof *d->start));
    TRY(mem_grow(&d->label, &b->label_cap, d->n + 1, sizeof *d->label));
    d->label[d->n] = b->how->unlabelled ? -1 : (int32_t)id;
    d->text[b->text_n++] = '\0';
    d->start[++d->n] = b->text_n;
    return STET_OK;
}

/* ---- classes in order --------------------------------------------------------------------- */

static bool is_integer(const char *s)
{
    s += *s == '-' || *s == '+';
    const size_t n = strlen(s);
    return n > 0 && n <= 18 && strspn(s, "0123456789") == n;
}

typedef struct class_name {
    const char *name;
    long long value; /* where all names are numbers */
    uint32_t old;
} class_name;

static int by_value(const void *a, const void *b)
{
    const class_name *x = a, *y = b;
    return x->value != y->value ? (x->value < y->value ? -1 : 1) : strcmp(x->name, y->name);
}

/* Numbers in numerical order, names in that of their bytes, whatever the order of the rows. */
static stet_status sort_classes(stet_dataset *d)
{
    const size_t n = d->classes.n;
    strmap sorted = {0};
    class_name *names = mem_alloc(n, sizeof *names);
    uint32_t *new_of = mem_alloc(n, sizeof *new_of);
    stet_status st = names && new_of ? STET_OK : STET_ENOMEM;
    bool numbers = true;
    for (uint32_t c = 0; st == STET_OK && c < n; c++) {
        names[c] = (class_name){.name = strmap_text(&d->classes, c), .old = c};
        numbers = numbers && is_integer(names[c].name);
    }
    for (size_t c = 0; st == STET_OK && numbers && c < n; c++)
        names[c].value = strtoll(names[c].name, NULL, 10);
    if (st == STET_OK)
        qsort(names, n, sizeof *names, by_value);
    for (uint32_t c = 0; st == STET_OK && c < n; c++) {
        new_of[names[c].old] = c;
        st = strmap_add(&sorted, names[c].name, strlen(names[c].name), NULL);
    }
    if (st == STET_OK) {
        for (size_t i = 0; i < d->n; i++)
            d->label[i] = (int32_t)new_of[d->label[i]];
        const strmap old = d->classes;
        d->classes = sorted;
        sorted = old;
    }
    strmap_deinit(&sorted);
    mem_free(names);
    mem_free(new_of);
    return st;
}

stet_status builder_finish(data_builder *b, stet_dataset **out)
{
    stet_dataset *d = b->d;
    if (d->skipped)
        log_warn("%s: bad rows left out: %zu", b->path, d->skipped);
    if (d->n == 0)
        return error_set(STET_EFORMAT,
                         d->skipped ? "%s: no good row among %zu" : "%s: no texts in it", b->path,
                         d->skipped);
    if (!b->how->unlabelled && !b->how->like)
        TRY(sort_classes(d));
    void *text = mem_resize(d->text, b->text_n, 1);
    if (!text)
        return STET_ENOMEM;
    d->text = text;
    *out = d;
    b->d = NULL;
    return STET_OK;
}
