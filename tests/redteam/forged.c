/* tests/redteam/forged.c - see forged.h. */
#include "forged.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "test.h"

/* ---- files -------------------------------------------------------------------------------- */

void lines_read(const char *path, lines *out)
{
    char *all, *p;
    size_t size;
    CHECK_OK(file_read_all(path, 64 << 20, &all, &size));
    out->n = 0;
    for (p = all; out->n < MOST_LINES && *p; p++) {
        char *end = strchr(p, '\n');
        CHECK_OK(json_read_text("line", p, (size_t)(end - p), &out->line[out->n]));
        json_object_del(out->line[out->n++], "sum");
        p = end;
    }
    mem_free(all);
}

void lines_write(const char *path, const lines *l)
{
    buf b = {0};
    for (size_t i = 0; i < l->n; i++) {
        char *text = json_dumps(l->line[i], JSON_COMPACT | JSON_REAL_PRECISION(17)),
             hex[SHA256_HEX];
        const size_t n = strlen(text) - 1; /* without its last brace */
        sha256 h;
        sha256_init(&h);
        sha256_add(&h, text, n);
        sha256_hex(&h, hex);
        buf_bytes(&b, text, n);
        buf_printf(&b, ",\"sum\":\"%s\"}\n", hex);
        free(text);
    }
    CHECK_OK(file_write_all(path, b.data, b.n));
    buf_deinit(&b);
}

/* ---- mutation ----------------------------------------------------------------------------- */

/* The k-th value of a tree, and what it is part of. */
typedef struct spot {
    json_t *parent, *value;
    const char *key; /* of an object */
    size_t index;    /* of a list */
    size_t left;
} spot;

static bool find(json_t *v, spot *s)
{
    const char *key;
    json_t *child;
    size_t i;
    json_object_foreach(v, key, child)
    {
        if (s->left-- == 0) {
            *s = (spot){v, child, key, 0, 0};
            return true;
        }
        if (find(child, s))
            return true;
    }
    json_array_foreach(v, i, child)
    {
        if (s->left-- == 0) {
            *s = (spot){v, child, NULL, i, 0};
            return true;
        }
        if (find(child, s))
            return true;
    }
    return false;
}

static size_t count_values(const json_t *v)
{
    size_t n = 0, i;
    const char *key;
    json_t *child;
    json_object_foreach((json_t *)(uintptr_t)v, key, child) n += 1 + count_values(child);
    json_array_foreach((json_t *)(uintptr_t)v, i, child) n += 1 + count_values(child);
    return n;
}

static json_t *other_value(const json_t *v, size_t n_words, rng *r)
{
    static const char *const names[] = {"certified", "broken",  "undecided", "wrong",     "ibp",
                                        "joint",     "adjoint", "linear",    "enumerate", "gbm",
                                        "any",       "float32", "W3",        "<pad>",     "w1-w2"};
    static const double reals[] = {0, 1, -1, 1e308, -1e308, 1e-300, 0.5, 2};
    static const json_int_t whole[] = {0, 1, 2, 3, -1, 7, 1000000, INT64_MAX};
    if (json_is_integer(v))
        return json_integer(rng_below(r, 2) ? json_integer_value(v) + (rng_below(r, 2) ? 1 : -1)
                                            : whole[rng_below(r, 8)]);
    if (json_is_real(v))
        return json_real(rng_below(r, 2) ? json_real_value(v) * (1 + 0.01 * rng_normal(r)) +
                                               1e-5 * rng_normal(r)
                                         : reals[rng_below(r, 8)]);
    if (json_is_string(v) && rng_below(r, 2))
        return json_sprintf("w%zu", (size_t)rng_below(r, n_words));
    if (json_is_string(v))
        return json_string(names[rng_below(r, sizeof names / sizeof *names)]);
    if (json_is_null(v))
        return json_integer((json_int_t)rng_below(r, 4));
    return rng_below(r, 2) ? json_null() : json_array();
}

static void put(const spot *s, json_t *v)
{
    if (s->key)
        json_object_set_new(s->parent, s->key, v);
    else
        json_array_set_new(s->parent, s->index, v);
}

void lines_mutate(lines *l, size_t which, size_t n_words, rng *r)
{
    const size_t n = count_values(l->line[which]);
    spot s = {.left = rng_below(r, n)};
    if (!find(l->line[which], &s))
        return;
    switch (rng_below(r, 6)) {
    case 0:
        if (s.key)
            json_object_del(s.parent, s.key);
        else
            json_array_remove(s.parent, s.index);
        break;
    case 1:
        if (!s.key)
            json_array_append(s.parent, s.value);
        break;
    case 2: { /* the same key of another text */
        const size_t from = 1 + rng_below(r, l->n - 1);
        json_t *v = s.key ? json_object_get(l->line[from], s.key) : NULL;
        if (v)
            put(&s, json_deep_copy(v));
        break;
    }
    default:
        put(&s, other_value(s.value, n_words, r));
    }
}
