/* Texts that are kept of a run, and results as JSON. */
#include "alloc_fail.h"
#include "base/json.h"
#include "base/mem.h"
#include "stet/measured.h"
#include "test.h"

static const char *const lines[] = {
    "{\"index\":0,\"outcome\":\"wrong\",\"text\":\"x\"}",
    "{\"index\":3,\"outcome\":\"success\",\"changed\":2,\"before\":0.8,\"text\":\"a good "
    "film\",\"attack\":\"ga\","
    "\"changes\":[{\"start\":2,\"end\":6,\"from\":\"good\",\"to\":\"fine\"}]}",
    "{\"index\":5,\"outcome\":\"success\",\"changed\":1,\"before\":0.7,\"text\":\"good\","
    "\"attack\":\"ga\","
    "\"changes\":[{\"start\":0,\"end\":4,\"from\":\"good\",\"to\":\"fine\"}]}",
    "{\"index\":6,\"outcome\":\"success\",\"changed\":1,\"before\":0.9,\"text\":\"bad\",\"attack\":"
    "\"ga\","
    "\"changes\":[{\"start\":0,\"end\":3,\"from\":\"bad\",\"to\":\"poor\"}]}",
    "{\"index\":7,\"outcome\":\"error\",\"error\":\"no answer\"}",
    "{\"index\":8,\"outcome\":\"failure\"}",
};

static stet_status keep_all(char **numbers)
{
    stet_kept *k;
    *numbers = mem_strdup("{\"n\":6}");
    if (!*numbers)
        return STET_ENOMEM;
    stet_status st = stet_kept_new(NULL, &k);
    if (st != STET_OK)
        return st;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        stet_kept_attacked(k, lines[i]);
    st = stet_kept_join(k, numbers);
    if (st == STET_OK)
        CHECK_STR(stet_kept_error(k), "no answer");
    stet_kept_free(k);
    return st;
}

static void check_list(const json_t *o, const char *key, size_t n, int first)
{
    const json_t *list = json_object_get(o, key), *one = json_array_get(list, 0);
    CHECK_EQ(json_array_size(list), n);
    CHECK_EQ(json_integer_value(json_is_object(one) ? json_object_get(one, "index") : one), first);
}

TEST(the_most_telling_texts_of_an_attack_are_kept)
{
    char *numbers;
    json_t *o;
    CHECK_OK(keep_all(&numbers));
    CHECK_OK(json_read_text("numbers", numbers, strlen(numbers), &o));
    CHECK_EQ(json_integer_value(json_object_get(o, "n")), 6);
    check_list(o, "wrong", 1, 0);
    check_list(o, "flipped", 3, 3);
    check_list(o, "flips", 3, 3);
    check_list(o, "examples", 2, 6); /* the surest first; of two with the same swap the shorter */
    CHECK(!json_object_get(json_array_get(json_object_get(o, "examples"), 0), "attack"));
    json_decref(o);
    mem_free(numbers);
}

static stet_status keep_and_forget(void *unused)
{
    (void)unused;
    char *numbers = NULL;
    const stet_status st = keep_all(&numbers);
    mem_free(numbers);
    return st;
}

TEST(lists_without_memory_are_an_error)
{
    CHECK_LE(20, ALLOC_FAIL_LOOP(keep_and_forget, NULL));
}

TEST(a_bound_that_is_not_finite_is_null)
{
    stet_gbm g = {.rows = 1, .cols = 2, .kind = "cnn", .sum = INFINITY, .group = 1, .map = 1};
    float m[] = {1, 3};
    double row[] = {4}, col[] = {1, 3};
    char *text;
    json_t *o;
    g.m = m, g.row_sum = row, g.col_sum = col;
    CHECK_OK(stet_gbm_json(&g, "runs/\xff", 1, &text));
    CHECK_OK(json_read_text("gbm", text, strlen(text), &o));
    CHECK(json_is_null(json_object_get(o, "gbm_sum")));
    CHECK_EQ(json_array_size(json_object_get(o, "inputs")), 1);
    CHECK_NEAR(
        json_number_value(json_object_get(json_array_get(json_object_get(o, "inputs"), 0), "sum")),
        3, 0);
    json_decref(o);
    mem_free(text);
}
