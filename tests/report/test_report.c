/* Reports of small run folders: what is on the page, what must not be, and what happens to bad
 * folders. */
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>

#include "alloc_fail.h"
#include "base/mem.h"
#include "report/report_impl.h"
#include "stet/model.h"
#include "stet/report.h"
#include "stet/results.h"
#include "test.h"

static const char *inside(const char *name)
{
    static char path[8][4096];
    static size_t next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", test_dir(), name);
    return p;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* A model that was never trained, with a training journal of two epochs. Returns its fingerprint.
 */
static const char *make_run(const char *name, uint64_t seed)
{
    static char print[4][17];
    static size_t next;
    char *out = print[next++ % 4];
    static const char *const words[] = {"good", "bad", "film"};
    static const char *const classes[] = {"<negative>", "positive"};
    static const char *const small[] = {"kernels=2", "filters=3", NULL};
    float data[5 * 4];
    unsigned char known[5] = {0, 0, 1, 1, 1};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        data[i] = (float)(i % 7) / 7.0f;
    stet_vectors v = {.n = 5, .dim = 4, .data = data, .known = known, .n_known = 3};
    stet_vocab *vocab;
    stet_model *m;
    CHECK_OK(stet_vocab_from_words(words, 3, &vocab));
    const stet_model_new_args a = {.name = "cnn",
                                   .settings = small,
                                   .vocab = vocab,
                                   .vectors = &v,
                                   .max_len = 16,
                                   .n_classes = 2,
                                   .class_names = classes,
                                   .seed = seed};
    CHECK_OK(stet_model_new(&a, &m));
    mkdir(inside(name), 0777);
    CHECK_OK(stet_model_save(m, inside(name)));
    snprintf(out, sizeof print[0], "%016llx", (unsigned long long)stet_model_fingerprint(m));
    char journal[128];
    snprintf(journal, sizeof journal, "%s/train.jsonl", name);
    put(inside(journal), "{\"step\":1,\"loss\":0.7,\"gbm\":3}\n{\"epoch\":1,\"train_loss\":0.7,"
                         "\"valid_accuracy\":0.5,\"valid_loss\":0.6}\n"
                         "{\"step\":2,\"loss\":0.5,\"gbm\":2}\n{\"epoch\":2,\"train_loss\":0.5,"
                         "\"valid_accuracy\":0.75,\"valid_loss\":0.4}\n{\"st");
    stet_model_free(m);
    stet_vocab_free(vocab);
    return out;
}

static void measured(const char *run, const char *print, const char *name, const char *numbers)
{
    char json[4096];
    snprintf(json, sizeof json,
             "{\"seed\":1,\"model_fingerprint\":\"%s\",\"data\":{\"name\":\"test.tsv\","
             "\"fingerprint\":\"f1\",\"texts\":100,\"measured\":50},"
             "\"synonyms\":{\"name\":\"s.subst\"},%s}",
             print, numbers);
    CHECK_OK(stet_results_write(inside(run), name, json));
}

static const char evil[] = "<img src=x onerror=alert(1)>";

static void make_two(void)
{
    char attack[2048];
    snprintf(attack, sizeof attack,
             "\"command\":\"attack\",\"attack\":\"pwws\",\"profile\":\"original\",\"n\":50,"
             "\"clean\":0.9,\"aua\":0.25,\"turned\":[3],\"wrong\":[],"
             "\"examples\":[{\"index\":3,\"label\":\"positive\",\"answer\":\"%s\",\"before\":0.9,"
             "\"after\":0.125,\"queries\":7,\"words\":4,"
             "\"changed\":1,\"text\":\"a good film "
             "%s\",\"changes\":[{\"start\":2,\"end\":6,\"from\":\"good\",\"to\":\"%s\"},"
             "{\"start\":900,\"end\":901,\"to\":\"outside\"}]}]",
             evil, evil, evil);
    const char *a = make_run("alpha", 1), *b = make_run("beta", 2);
    measured("alpha", a, "eval", "\"command\":\"eval\",\"accuracy\":0.875");
    measured("alpha", a, "attack-pwws-original", attack);
    measured("beta", b, "attack-pwws-original",
             "\"command\":\"attack\",\"attack\":\"pwws\",\"profile\":\"original\",\"n\":50,"
             "\"clean\":0.9,\"aua\":0.75,\"turned\":[],\"wrong\":[]");
    measured(
        "beta", b, "certify-auto",
        "\"command\":\"certify\",\"method\":\"auto\",\"budget\":null,\"n\":50,\"clean\":0.9,"
        "\"certified\":0.625,\"broken\":0.05,"
        "\"undecided\":0.225,\"seconds\":1,\"margins\":{\"lo\":-1,\"hi\":1,\"bins\":[1,2,3,4]},"
        "\"examples\":[{\"index\":1,\"label\":\"positive\",\"verdict\":\"certified\",\"clean\":2,"
        "\"margin\":0.5,\"text\":\"a proved "
        "film\",\"harm\":[{\"start\":9,\"end\":13,\"from\":\"film\",\"to\":\"<i>\",\"drop\":0.5}]}"
        "]");
    measured("beta", "0000000000000000", "eval",
             "\"command\":\"eval\",\"accuracy\":0.0625"); /* of other weights */
}

static char *report_of(stet_report_format format, size_t n)
{
    const char *const dirs[] = {inside("alpha"), inside("beta"), inside("gamma")};
    const stet_report_args a = {.dirs = dirs, .n_dirs = n, .format = format};
    char *page;
    CHECK_OK(stet_report(&a, &page));
    return page;
}

#define HAS(page, part) CHECK(strstr(page, part) != NULL)
#define LACKS(page, part) CHECK(strstr(page, part) == NULL)

TEST(a_page_shows_what_was_measured)
{
    make_two();
    char *page = report_of(STET_REPORT_HTML, 2);
    HAS(page, ">87.5<small>75.6–94.1</small>");
    HAS(page, ">25.0<small>15.1–38.5</small>");
    HAS(page, ">75.0<small>");
    HAS(page, ">62.5<small>");
    HAS(page, "<del>good</del><ins>");
    HAS(page, "beta withstood PWWS");
    HAS(page, "12.5 % positive");
    HAS(page, "proved: no combination flips it 62.5 %");
    HAS(page, "a proved <span class=\"harm5\" title=\"→ &lt;i&gt;: 0.500\">film</span>");
    HAS(page, "Most harmful: film → &lt;i&gt; (0.500)");
    HAS(page, "Proved margins");
    HAS(page, "growth bounds of alpha");
    HAS(page, "Validation accuracy");
    HAS(page, "Growth bound in the loss");
    HAS(page, "1 results were left out");
    LACKS(page, ">6.2<small>"); /* stale */
    HAS(page, "</html>");
    stet_free(page);
}

/* ---- what the page claims ----------------------------------------------------------------- */

#define ATTACK(name, clean, aua, more)                                                             \
    "\"command\":\"attack\",\"attack\":\"" name "\",\"profile\":\"original\",\"n\":50,"            \
    "\"clean\":" #clean ",\"aua\":" #aua "," more

TEST(clean_accuracy_is_that_of_the_texts_that_were_attacked)
{
    const char *a = make_run("alpha", 1);
    measured("alpha", a, "eval", "\"command\":\"eval\",\"accuracy\":0.875,\"n\":100");
    measured("alpha", a, "attack-pwws-original", ATTACK("pwws", 0.96, 0.5, "\"flipped\":[]"));
    char *page = report_of(STET_REPORT_HTML, 1);
    HAS(page, "accuracy of alpha from 96.0\xc2\xa0% to 50.0\xc2\xa0% (36.6–63.4)");
    HAS(page, "clean<small>all texts</small>");
    HAS(page, "clean<small>attacked texts</small>");
    stet_free(page);
}

TEST(what_other_draws_make_of_an_attack_is_said_of_each_profile)
{
    const char *a = make_run("alpha", 1);
    measured("alpha", a, "attack-pwws-original",
             ATTACK("pwws", 0.9, 0.5, "\"flipped\":[3],\"redrawn\":{\"aua\":0.625,\"flips_stay\":0.25,"
                                      "\"untouched_wrong\":0.125}"));
    measured("alpha", a, "attack-pwws-gbm-paper",
             "\"command\":\"attack\",\"attack\":\"pwws\",\"profile\":\"gbm-paper\",\"n\":50,"
             "\"clean\":0.9,\"aua\":0.9,\"flipped\":[],\"redrawn\":{\"aua\":0.875}");
    measured("alpha", a, "attack-pwws-original-2",
             ATTACK("pwws", 0.9, 0.75, "\"flipped\":[3],\"settings\":{\"draws\":8}"));
    for (int f = 0; f < 2; f++) {
        char *page = report_of(f ? STET_REPORT_MARKDOWN : STET_REPORT_HTML, 1);
        HAS(page, "original, mean of 8 answers");
        HAS(page, "After PWWS (gbm-paper) it classifies 87.5 % of the texts correctly with other "
                  "draws. After PWWS (original) it classifies 62.5 % of the texts correctly with "
                  "other draws, and 25.0 % of the flips stay; without any swap the same texts are "
                  "misclassified 12.5 % of the time.");
        stet_free(page);
    }
}

TEST(an_attack_on_the_mean_of_answers_is_none_on_the_model)
{
    const char *a = make_run("alpha", 1);
    measured("alpha", a, "attack-pwws-original", ATTACK("pwws", 0.9, 0.5, "\"flipped\":[3]"));
    measured("alpha", a, "attack-pwws-original-2",
             ATTACK("pwws", 0.8, 0.25, "\"flipped\":[3,4],\"settings\":{\"draws\":8}"));
    char *page = report_of(STET_REPORT_HTML, 1);
    HAS(page, "accuracy of alpha from 90.0\xc2\xa0% to 50.0\xc2\xa0%");
    HAS(page, "mean of 8 answers");
    stet_free(page);
    page = report_of(STET_REPORT_JSON, 1);
    HAS(page, "\"worst\":0.5,");
    HAS(page, "\"aua\":{\"pwws\":0.5}");
    stet_free(page);
}

TEST(a_flip_of_a_model_that_votes_is_no_counter_example)
{
    const char *a = make_run("alpha", 1);
    measured("alpha", a, "attack-pwws-original", ATTACK("pwws", 0.9, 0.5, "\"flipped\":[3,4]"));
    for (int votes = 0; votes < 2; votes++) {
        measured("alpha", a, "certify-auto",
                 votes ? "\"command\":\"certify\",\"method\":\"auto\",\"budget\":null,\"n\":50,"
                         "\"clean\":0.9,\"certified\":0,\"broken\":0,\"undecided\":0.4,"
                         "\"likely\":0.5,\"confidence\":0.95,\"seconds\":1"
                       : "\"command\":\"certify\",\"method\":\"auto\",\"budget\":null,\"n\":50,"
                         "\"clean\":0.9,\"certified\":0.5,\"broken\":0,\"undecided\":0.4,"
                         "\"seconds\":1");
        char *page = report_of(STET_REPORT_HTML, 1);
        if (votes)
            LACKS(page, "a counter-example is known");
        else
            HAS(page, "a counter-example is known");
        stet_free(page);
    }
}

TEST(nothing_is_best_within_the_interval_of_another)
{
    const char *a = make_run("alpha", 1), *b = make_run("beta", 2);
    measured("alpha", a, "attack-pwws-original", ATTACK("pwws", 0.9, 0.5, "\"flipped\":[]"));
    measured("beta", b, "attack-pwws-original", ATTACK("pwws", 0.9, 0.6, "\"flipped\":[]"));
    char *page = report_of(STET_REPORT_HTML, 2);
    LACKS(page, "class=\"best\"");
    stet_free(page);
    measured("beta", b, "attack-pwws-original", ATTACK("pwws", 0.9, 0.88, "\"flipped\":[]"));
    page = report_of(STET_REPORT_HTML, 2);
    HAS(page, "class=\"best\"");
    stet_free(page);
}

TEST(a_model_that_another_attack_flipped_does_not_stand)
{
    static const char example[] =
        "\"flipped\":[3],\"wrong\":[],\"examples\":[{\"index\":3,"
        "\"label\":\"positive\",\"answer\":\"negative\",\"before\":0.9,"
        "\"after\":0.1,\"changed\":1,\"words\":3,\"text\":\"a good film\","
        "\"changes\":[{\"start\":2,\"end\":6,\"to\":\"fine\"}]}]";
    char attack[1024];
    const char *a = make_run("alpha", 1), *b = make_run("beta", 2);
    snprintf(attack, sizeof attack, ATTACK("pwws", 0.9, 0.5, "%s"), example);
    measured("alpha", a, "attack-pwws-original", attack);
    measured("beta", b, "attack-pwws-original", ATTACK("pwws", 0.9, 0.8, "\"flipped\":[]"));
    measured("beta", b, "attack-ga-original", ATTACK("ga", 0.9, 0.8, "\"flipped\":[3]"));
    char *page = report_of(STET_REPORT_HTML, 2);
    HAS(page, "beta was flipped by GA");
    LACKS(page, "beta stands");
    LACKS(page, "beta withstood");
    stet_free(page);
    measured("beta", b, "attack-ga-original", ATTACK("ga", 0.9, 0.8, "\"flipped\":[4]"));
    page = report_of(STET_REPORT_HTML, 2);
    HAS(page, "beta withstood all 2 attacks");
    stet_free(page);
    measured("beta", b, "certify-auto",
             "\"command\":\"certify\",\"method\":\"auto\",\"budget\":null,\"n\":50,"
             "\"clean\":0.9,\"certified\":0.6,\"broken\":0,\"undecided\":0.3,\"seconds\":1,"
             "\"proved_texts\":[1,3],\"broken_texts\":[]");
    page = report_of(STET_REPORT_HTML, 2);
    HAS(page, "beta stands: proved");
    HAS(page, "flipped: a counter-example is known 2.0 %"); /* text 4, by GA */
    HAS(page, "open: neither proved nor flipped 28.0 %");
    stet_free(page);
}

TEST(unequal_candidates_are_warned_of)
{
    const char *a = make_run("alpha", 1), *b = make_run("beta", 2);
    measured("alpha", a, "attack-pwws-original",
             ATTACK("pwws", 0.9, 0.5, "\"flipped\":[],\"candidates_mean\":4.44"));
    measured("beta", b, "attack-pwws-original",
             ATTACK("pwws", 0.9, 0.6, "\"flipped\":[],\"candidates_mean\":5.54"));
    char *page = report_of(STET_REPORT_HTML, 2);
    HAS(page, "PWWS faced 4.44 candidates a word with alpha and 5.54 with beta");
    stet_free(page);
}

TEST(runs_that_differ_in_their_seed_are_one_row_with_a_deviation)
{
    const char *a = make_run("alpha", 1), *b = make_run("beta", 2);
    measured("alpha", a, "attack-pwws-original", ATTACK("pwws", 0.9, 0.5, "\"flipped\":[]"));
    measured("beta", b, "attack-pwws-original", ATTACK("pwws", 0.9, 0.6, "\"flipped\":[]"));
    char *page = report_of(STET_REPORT_HTML, 2);
    HAS(page, "id=\"study\"");
    HAS(page, "<td>55.0 <small>± 7.1</small></td>");
    stet_free(page);
}

/* As if a run with these settings had trained the model. */
static void trained(const char *run, const char *settings)
{
    char file[64], text[8192];
    snprintf(file, sizeof file, "%s/config.json", run);
    FILE *f = fopen(inside(file), "r");
    const size_t n = f ? fread(text, 1, sizeof text - 512, f) : 0;
    CHECK(f && fclose(f) == 0 && n > 0);
    text[n] = 0;
    char *end = strrchr(text, '}');
    CHECK(end != NULL);
    snprintf(end, 512, ", \"training\": {%s}}", settings);
    put(inside(file), text);
}

TEST(a_setting_is_compared_only_among_runs_that_differ_in_nothing_else)
{
    static const char *const run[] = {"alpha", "beta", "gamma"};
    for (int other = 0; other < 2; other++) {
        for (int i = 0; i < 3; i++) {
            const char *print = make_run(run[i], 1);
            char settings[256];
            snprintf(settings, sizeof settings,
                     "\"defense\":\"%s\",\"smooth\":%d,\"seed\":%d,\"rate\":%s",
                     "standard", i, i, other && i == 2 ? "0.1" : "0.2");
            trained(run[i], settings);
            measured(run[i], print, "attack-pwws-original",
                     ATTACK("pwws", 0.9, 0.5, "\"flipped\":[]"));
        }
        char *page = report_of(STET_REPORT_HTML, 3);
        CHECK((strstr(page, "Accuracy over smoothing") != NULL) == !other);
        stet_free(page);
    }
}

TEST(a_program_of_others_stands_beside_our_models)
{
    const char *a = make_run("alpha", 1);
    measured("alpha", a, "attack-pwws-original", ATTACK("pwws", 0.9, 0.5, "\"flipped\":[]"));
    mkdir(inside("beta"), 0777);
    measured("beta", "", "attack-pwws-original",
             "\"config\":{\"victim-cmd\":\"python3 bayes.py\"}," ATTACK("pwws", 0.8, 0.3,
                                                                        "\"flipped\":[]"));
    char *page = report_of(STET_REPORT_HTML, 2);
    HAS(page, "a program: python3 bayes.py");
    HAS(page, ">30.0<small>");
    stet_free(page);
}

TEST(an_interval_is_that_of_wilson)
{
    double lo, hi;
    stet_interval(0.5, 50, &lo, &hi);
    CHECK_NEAR(lo, 0.3664, 1e-4);
    CHECK_NEAR(hi, 0.6336, 1e-4);
    stet_interval(1, 10, &lo, &hi);
    CHECK_NEAR(lo, 0.7225, 1e-4);
    CHECK_NEAR(hi, 1, 1e-12);
    stet_interval(0, 0, &lo, &hi);
    CHECK(isnan(lo) && isnan(hi));
}

TEST(nothing_in_a_file_can_become_markup)
{
    make_two();
    char *page = report_of(STET_REPORT_HTML, 2);
    LACKS(page, evil);
    HAS(page, "&lt;img src=x");
    LACKS(page, "<negative>");
    LACKS(page, "outside");
    stet_free(page);
    page = report_of(STET_REPORT_MARKDOWN, 2);
    LACKS(page, evil);
    LACKS(page, "<img");
    stet_free(page);
}

TEST(tables_of_the_caller_come_first_and_need_no_folders)
{
    static const char *const cell[] = {"defence", "clean", "<b>ibp|</b>", "81.7 ±2"};
    const stet_sheet sheet = {
        .title = "table <1>", .note = "so it is", .cell = cell, .rows = 2, .cols = 2};
    stet_report_args a = {.sheets = &sheet, .n_sheets = 1, .format = STET_REPORT_HTML};
    char *page;
    CHECK_OK(stet_report(&a, &page));
    HAS(page, "<a href=\"#sheets\">Tables</a>");
    HAS(page, "<h3>table &lt;1&gt;</h3>");
    HAS(page,
        "<th scope=\"row\">&lt;b&gt;ibp|&lt;/b&gt;</th><td data-label=\"clean\">81.7 ±2</td>");
    LACKS(page, "Nothing has been measured");
    stet_free(page);
    a.format = STET_REPORT_MARKDOWN;
    CHECK_OK(stet_report(&a, &page));
    HAS(page, "| defence | clean |\n| --- | --- |\n| ");
    HAS(page, "ibp\\|");
    HAS(page, " | 81.7 ±2 |\n\nso it is\n");
    LACKS(page, "## Models");
    stet_free(page);
    a.format = STET_REPORT_JSON;
    CHECK_OK(stet_report(&a, &page));
    json_t *o = json_loads(page, 0, NULL),
           *row = json_array_get(
               json_object_get(json_array_get(json_object_get(o, "tables"), 0), "rows"), 1);
    CHECK_STR(json_string_value(json_array_get(row, 1)), "81.7 ±2");
    json_decref(o);
    stet_free(page);
}

TEST(a_page_loads_nothing)
{
    make_two();
    char *page = report_of(STET_REPORT_HTML, 2);
    LACKS(page, "http:");
    LACKS(page, "https:");
    LACKS(page, "src=\"");
    LACKS(page, "url(");
    LACKS(page, "@import");
    HAS(page, "default-src 'none'");
    stet_free(page);
}

TEST(one_folder_without_results_still_has_a_page)
{
    make_run("alpha", 1);
    char *page = report_of(STET_REPORT_HTML, 1);
    HAS(page, "Nothing has been measured yet");
    HAS(page, "id=\"settings\"");
    LACKS(page, "href=\"#texts\"");
    stet_free(page);
}

TEST(markdown_and_json_say_the_same)
{
    make_two();
    char *page = report_of(STET_REPORT_MARKDOWN, 2);
    HAS(page, "| alpha | 87.5 (75.6 to 94.1) | 90.0 (78.6 to 95.7) | 25.0 (15.1 to 38.5) | |");
    HAS(page, "| beta | | 90.0 (78.6 to 95.7) | 75.0 (61.5 to 84.9) | 62.5 (48.6 to 74.6) |");
    HAS(page, "~~good~~ **");
    stet_free(page);
    page = report_of(STET_REPORT_JSON, 2);
    json_t *o = json_loads(page, 0, NULL);
    const json_t *rows = json_object_get(json_array_get(json_object_get(o, "summary"), 0), "rows");
    CHECK_EQ(json_array_size(rows), 2);
    CHECK(json_number_value(
              json_object_get(json_object_get(json_array_get(rows, 0), "aua"), "pwws")) == 0.25);
    CHECK(json_number_value(json_object_get(json_array_get(rows, 1), "certified")) == 0.625);
    CHECK(json_is_null(json_object_get(json_array_get(rows, 0), "certified")));
    CHECK_EQ(json_integer_value(json_object_get(o, "stale_results")), 1);
    CHECK_EQ(json_array_size(json_object_get(o, "models")), 2);
    json_decref(o);
    stet_free(page);
}

TEST(folders_that_are_none_are_named)
{
    char *page;
    const char *const none[] = {inside("nowhere")};
    const stet_report_args a = {.dirs = none, .n_dirs = 1};
    CHECK_FAILS(stet_report(&a, &page), STET_EIO, "nowhere");
    CHECK(page == NULL);
    CHECK_FAILS(stet_report(&(stet_report_args){.dirs = none}, &page), STET_EUSAGE, "run folders");
    make_run("alpha", 1);
    put(inside("alpha/config.json"), "[]");
    const char *const bad[] = {inside("alpha")};
    CHECK_FAILS(stet_report(&(stet_report_args){.dirs = bad, .n_dirs = 1}, &page), STET_EFORMAT,
                "config.json");
}

/* Writing only: under want of memory jansson 2.14 may read past its buffer while it parses. */
static stet_status write_all(void *r)
{
    stet_status (*const page[])(const report *, buf *) = {report_html, report_markdown,
                                                          report_json};
    stet_status st = STET_OK;
    for (size_t k = 0; st == STET_OK && k < 3; k++) {
        const size_t failures = mem_failures();
        buf b = {0};
        st = page[k](r, &b);
        if (st == STET_OK && mem_failures() != failures)
            st = error_set(STET_ENOMEM, "noticed by the caller");
        buf_deinit(&b);
    }
    return st;
}

TEST(pages_survive_every_failed_allocation)
{
    make_two();
    static report r;
    const stet_report_args a = {0};
    r.a = &a;
    r.n = 2;
    CHECK_OK(run_folder_read(inside("alpha"), true, &r.run[0]));
    CHECK_OK(run_folder_read(inside("beta"), true, &r.run[1]));
    CHECK_OK(report_summarise(&r));
    CHECK_LE(100, ALLOC_FAIL_LOOP(write_all, &r));
    run_folder_deinit(&r.run[0]);
    run_folder_deinit(&r.run[1]);
    mem_free(r.data);
}
