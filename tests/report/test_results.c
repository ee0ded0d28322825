/* Results in a run folder: written whole, never silently replaced by those of something else, read
 * back in order. */
#include <sys/stat.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "stet/measured.h"
#include "stet/results.h"
#include "test.h"

static const char *inside(const char *name)
{
    static char path[4][4096];
    static size_t next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", test_dir(), name);
    return p;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

TEST(a_folder_without_results_has_none)
{
    stet_results r;
    CHECK_OK(stet_results_read(test_dir(), &r));
    CHECK_EQ(r.n, 0);
    stet_results_deinit(&r);
    CHECK_OK(stet_results_read(inside("nowhere"), &r));
    CHECK_EQ(r.n, 0);
    stet_results_deinit(&r);
}

TEST(results_come_back_in_the_order_of_their_names)
{
    CHECK_OK(stet_results_write(test_dir(), "eval", "{\"accuracy\":0.5}"));
    CHECK_OK(stet_results_write(test_dir(), "attack-pwws-original", "{\"aua\":0.25}"));
    put(inside("results/notes.txt"), "not a result");
    put(inside("results/.hidden.json"), "nor this");
    stet_results r;
    CHECK_OK(stet_results_read(test_dir(), &r));
    CHECK_EQ(r.n, 2);
    CHECK(strcmp(r.name[0], "attack-pwws-original") == 0);
    CHECK(strcmp(r.name[1], "eval") == 0);
    CHECK(strstr(r.json[0], "0.25") != NULL);
    stet_results_deinit(&r);
}

TEST(a_result_of_something_else_is_not_replaced)
{
    CHECK_OK(stet_results_write(test_dir(), "eval", "{\"identity\":\"aa\",\"n\":1}"));
    CHECK_OK(stet_results_write(test_dir(), "eval", "{\"identity\":\"bb\",\"n\":2}"));
    CHECK_OK(stet_results_write(test_dir(), "eval", "{\"identity\":\"aa\",\"n\":3}"));
    CHECK_OK(stet_results_write(test_dir(), "eval", "{\"identity\":\"bb\",\"n\":4}"));
    stet_results r;
    CHECK_OK(stet_results_read(test_dir(), &r));
    CHECK_EQ(r.n, 2);
    CHECK(strcmp(r.name[0], "eval") == 0 || strcmp(r.name[0], "eval-bb") == 0);
    for (size_t i = 0; i < r.n; i++)
        CHECK(strstr(r.json[i], strcmp(r.name[i], "eval") == 0 ? "\"n\":3" : "\"n\":4") != NULL);
    stet_results_deinit(&r);
}

TEST(a_damaged_result_is_kept_and_named)
{
    CHECK_OK(stet_results_write(test_dir(), "eval", "{}"));
    put(inside("results/eval.json"), "{\"n\":");
    stet_results r;
    CHECK_FAILS(stet_results_read(test_dir(), &r), STET_EFORMAT, "eval.json");
    CHECK_EQ(r.n, 0);
    CHECK_OK(stet_results_write(test_dir(), "eval", "{\"identity\":\"cc\"}"));
    CHECK(access(inside("results/eval-cc.json"), R_OK) == 0);
    put(inside("results/eval.json"), "[1]");
    CHECK_FAILS(stet_results_read(test_dir(), &r), STET_EFORMAT, "expected a JSON object");
}

TEST(names_and_texts_that_are_none_are_refused)
{
    CHECK_FAILS(stet_results_write(test_dir(), "../up", "{}"), STET_EFORMAT, "plain name");
    CHECK_FAILS(stet_results_write(test_dir(), "", "{}"), STET_EFORMAT, "plain name");
    CHECK_FAILS(stet_results_write(test_dir(), "x", "{\"identity\":\"a/b\"}"), STET_EFORMAT,
                "plain name");
    CHECK_FAILS(stet_results_write(test_dir(), "x", "[]"), STET_EFORMAT, "JSON object");
    CHECK_FAILS(stet_results_write(test_dir(), "x", "{"), STET_EFORMAT, "x:1");
    CHECK_FAILS(stet_results_write("/proc/nowhere", "x", "{}"), STET_EIO, "/proc/nowhere");
}

static stet_measured measured(const char *dir, const char *config)
{
    stet_measured m;
    stet_measured_init(&m, sizeof m);
    m.command = "attack", m.dir = dir, m.name = "attack-pwws", m.config = config;
    return m;
}

TEST(what_was_measured_is_found_again_by_its_settings)
{
    stet_measured m =
        measured(test_dir(), "{\"limit\":10,\"data\":\"here/test.tsv\",\"threads\":4}");
    char *json;
    CHECK_OK(stet_measured_read(&m, &json));
    CHECK(!json);
    CHECK_OK(stet_measured_write(&m, "{\"aua\":0.5}"));
    CHECK(access(inside("results/attack-pwws.json"), R_OK) == 0);
    m.config = "{\"limit\":10,\"data\":\"there/test.tsv\",\"threads\":1}"; /* the same, elsewhere */
    CHECK_OK(stet_measured_read(&m, &json));
    CHECK(json && strstr(json, "0.5"));
    CHECK(strstr(json, "test.tsv") && !strstr(json, "here/"));
    stet_free(json);
    m.config = "{\"limit\":20}";
    CHECK_OK(stet_measured_read(&m, &json));
    CHECK(!json);
    CHECK_OK(stet_measured_write(&m, "{\"aua\":0.25}")); /* beside it */
    m.config = "{\"limit\":10}";
    CHECK_OK(stet_measured_read(&m, &json));
    CHECK(json && strstr(json, "0.5"));
    stet_free(json);
    m.command = NULL;
    CHECK_FAILS(stet_measured_write(&m, "{}"), STET_EUSAGE, "needs a command");
    m = measured(test_dir(), "{\"limit\":");
    CHECK_FAILS(stet_measured_write(&m, "{}"), STET_EFORMAT, "config");
    m.config = NULL;
    CHECK_FAILS(stet_measured_write(&m, "{"), STET_EFORMAT, "numbers");
}

TEST(other_results_of_the_folder_are_not_read)
{
    const stet_measured m = measured(test_dir(), "{\"limit\":10}");
    char *json;
    CHECK_OK(stet_measured_write(&m, "{\"aua\":0.5}"));
    put(inside("results/attack-pwws-long.json"), "damaged");
    put(inside("results/eval.json"), "damaged");
    CHECK_OK(stet_measured_read(&m, &json));
    CHECK(json && strstr(json, "0.5"));
    stet_free(json);
    put(inside("results/attack-pwws.json"), "damaged");
    CHECK_FAILS(stet_measured_read(&m, &json), STET_EFORMAT, "attack-pwws.json");
    CHECK_OK(stet_measured_write(&m, "{\"aua\":0.75}")); /* beside the damaged one */
    CHECK_OK(stet_measured_read(&m, &json));
    CHECK(json && strstr(json, "0.75"));
    stet_free(json);
}

TEST(fingerprints_that_are_known_are_taken)
{
    stet_measured m = measured(test_dir(), "{\"limit\":10}");
    char *json;
    m.model_fingerprint = "00000000000000aa", m.data_fingerprint = "00000000000000bb";
    CHECK_OK(stet_measured_write(&m, "{\"aua\":0.5}"));
    CHECK_OK(stet_measured_read(&m, &json));
    CHECK(json && strstr(json, "00000000000000aa"));
    stet_free(json);
    m.model_fingerprint = "00000000000000ab"; /* the model has changed since */
    CHECK_OK(stet_measured_read(&m, &json));
    CHECK(!json);
    m.model_fingerprint = "00000000000000aa", m.data_fingerprint = "00000000000000bc";
    CHECK_OK(stet_measured_read(&m, &json));
    CHECK(!json);
}

static stet_status write_measured(void *dir)
{
    const stet_measured m = measured(dir, "{\"limit\":10,\"data\":\"here/test.tsv\"}");
    char *json = NULL;
    stet_status st = stet_measured_write(&m, "{\"aua\":0.5}");
    if (st == STET_OK)
        st = stet_measured_read(&m, &json);
    stet_free(json);
    return st;
}

TEST(what_was_measured_survives_every_failed_allocation)
{
    CHECK_LE(20, ALLOC_FAIL_LOOP(write_measured, (void *)test_dir()));
}

static stet_status write_and_read(void *dir)
{
    stet_status st = stet_results_write(dir, "eval", "{\"identity\":\"aa\",\"n\":1}");
    if (st == STET_OK)
        st = stet_results_write(dir, "eval", "{\"identity\":\"bb\",\"n\":1}");
    stet_results r;
    if (st == STET_OK)
        st = stet_results_read(dir, &r);
    if (st == STET_OK)
        stet_results_deinit(&r);
    return st;
}

TEST(results_survive_every_failed_allocation)
{
    CHECK_LE(20, ALLOC_FAIL_LOOP(write_and_read, (void *)test_dir()));
}
