/* tests/lexicon/subst_test.h - small substitution sets for tests, and looking into them. */
#ifndef SUBST_TEST_H
#define SUBST_TEST_H

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "lexicon/subst.h"
#include "test.h"

/* The path of `name` in the test's folder; two of them stay valid. */
static inline const char *test_path(const char *name)
{
    static char path[2][256];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", test_dir(), name);
    return path[turn];
}

static inline const char *test_write(const char *name, const char *text)
{
    const char *path = test_path(name);
    CHECK_OK(file_write_all(path, text, strlen(text)));
    return path;
}

static inline stet_subst_builder *builder_of(const char *json)
{
    stet_subst_builder *b;
    CHECK_OK(stet_subst_builder_new(&b));
    if (json)
        CHECK_OK(stet_subst_add_neighbours(b, test_write("map.json", json)));
    return b;
}

/* Finish and release the builder. */
static inline stet_subst *built(stet_subst_builder *b)
{
    stet_subst *s;
    CHECK_OK(stet_subst_build(b, &s));
    stet_subst_builder_free(b);
    return s;
}

/* The substitutes of a word are those of `expected`, separated by spaces and in this order. */
static inline void check_list_at(const char *file, int line, const stet_subst *s, const char *word,
                                 const char *expected)
{
    size_t n;
    const uint32_t *subs = stet_subst_of(s, stet_subst_word_id(s, word, strlen(word)), &n);
    buf got = {0};
    buf_str(&got, "");
    for (size_t i = 0; i < n; i++)
        buf_printf(&got, "%s%s", i ? " " : "", stet_subst_word(s, subs[i]));
    if (strcmp(got.data, expected) != 0)
        test_fail(file, line, "substitutes of %s: \"%s\" against \"%s\"", word, got.data, expected);
    buf_deinit(&got);
}
#define CHECK_LIST(s, word, expected) check_list_at(__FILE__, __LINE__, s, word, expected)

#endif
