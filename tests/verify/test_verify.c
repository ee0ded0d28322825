/* Files of certificates: true ones stand, and whatever is changed in them is noticed. */
#include <ctype.h>

#include "../alloc_fail.h"
#include "written_file.h"

/* ---- what stands -------------------------------------------------------------------------- */

static void expect_all_to_stand(void)
{
    file f;
    failures bad;
    make_file(&f);
    write_file(&f, NULL);
    stet_verify_result r;
    CHECK_OK(stet_verify_file(path_of("cert.jsonl"), test_dir(), NULL, &r));
    if (failed_lines(&f, NULL, &bad))
        test_fail(__FILE__, __LINE__, "line %zu: %s", bad.line, bad.why);
    CHECK_EQ(r.budget, 1);
    CHECK_EQ(r.texts, TEXTS);
    CHECK_EQ(r.certified, 4);
    CHECK_EQ(r.broken, 1);
    CHECK_EQ(r.wrong, 1);
    CHECK_EQ(r.claims, 2 * 5);
    CHECK(r.least > 0);
    drop_file(&f);
}

TEST(true_claims_of_every_sort_stand)
{
    for (int k = 0; k < 2; k++) {
        dense = k;
        word_scores = 0;
        expect_all_to_stand();
        word_scores = 0.3;
        expect_all_to_stand();
    }
}

/* ---- numbers ------------------------------------------------------------------------------ */

/* The next number outside strings at or after *at; its length, 0: none. */
static size_t next_number(const char *line, size_t *at)
{
    bool quoted = false;
    for (size_t i = 0; line[i]; i++) {
        quoted ^= line[i] == '"';
        if (quoted || i < *at || !(isdigit((unsigned char)line[i]) || line[i] == '-'))
            continue;
        *at = i;
        return strspn(line + i, "-+.0123456789eE");
    }
    return 0;
}

/* The key that a number belongs to. */
static bool has_key(const char *line, size_t at, const char *key)
{
    const size_t n = strlen(key);
    return at > n + 3 && memcmp(line + at - n - 2, key, n) == 0 && line[at - 1] == ':';
}

static char *with_number(const char *line, size_t at, size_t len, double x, bool whole)
{
    buf b = {0};
    buf_bytes(&b, line, at);
    buf_printf(&b, whole ? "%.0f" : "%.17g", x);
    buf_str(&b, line + at + len);
    return buf_take(&b);
}

/* Every number, moved up and down. With the old sum each change is noticed. With a fresh one, those
 * that make a line say more than is true, or something else than the model: bounds raised, answers,
 * classes, margins, budgets, positions of edits and splits. Not among them: which text of the data it
 * is, and weaker claims. */
static void expect_numbers_to_matter(void)
{
    static const char *const truths[] = {"label", "answer", "clean", "other",
                                         "at",    "after",  "texts", "stet_certificates"};
    static const char *const claimless[] = {"broken", "wrong"};
    file f;
    failures bad;
    size_t numbers = 0, strong = 0;
    make_file(&f);
    for (size_t i = 0; i < f.n; i++) {
        char *line = f.line[i];
        size_t len;
        for (size_t at = 0; (len = next_number(line, &at)) > 0; at += len) {
            const double x = strtod(line + at, NULL);
            const bool whole = !strpbrk(line + at, ".e") || strcspn(line + at, ".e") >= len;
            for (int up = 0; up < 2; up++) {
                const double y =
                    whole ? x + (up ? 1 : -1) : x + (up ? 1e-3 : -1e-3) * (1 + fabs(x));
                file original = f;
                f.line[i] = with_number(line, at, len, y, whole);
                numbers++;
                if (failed_lines(&f, &original, &bad) == 0)
                    test_fail(__FILE__, __LINE__, "old sum: line %zu, byte %zu: %s", i + 1, at,
                              f.line[i]);
                bool must = up && has_key(line, at, "bound");
                for (size_t k = 0; k < sizeof truths / sizeof *truths; k++)
                    must = must || has_key(line, at, truths[k]);
                for (size_t k = 0; k < sizeof claimless / sizeof *claimless; k++)
                    must = must || (has_key(line, at, "budget") && strstr(line, claimless[k]));
                strong += must;
                if (failed_lines(&f, NULL, &bad) == 0 && must)
                    test_fail(__FILE__, __LINE__, "fresh sum: line %zu, byte %zu: %s", i + 1, at,
                              f.line[i]);
                mem_free(f.line[i]);
                f.line[i] = line;
            }
        }
    }
    CHECK_LE(60, numbers);
    CHECK_LE(30, strong);
    drop_file(&f);
}

TEST(every_number_changed_by_hand_is_noticed)
{
    expect_numbers_to_matter();
    word_scores = 0.3;
    expect_numbers_to_matter();
    dense = true;
    expect_numbers_to_matter();
}

/* One replacement in one line, with a fresh sum: the reason given contains `part`. */
static void expect_failure(file *f, size_t line, const char *from, const char *to, const char *part)
{
    char *old = f->line[line], *at = strstr(old, from);
    if (!at)
        test_fail(__FILE__, __LINE__, "line %zu has no '%s': %s", line + 1, from, old);
    buf b = {0};
    failures bad;
    buf_bytes(&b, old, (size_t)(at - old));
    buf_str(&b, to);
    buf_str(&b, at + strlen(from));
    f->line[line] = buf_take(&b);
    if (failed_lines(f, NULL, &bad) != 1 || !strstr(bad.why, part) ||
        (bad.line != line + 1 && line > 0))
        test_fail(__FILE__, __LINE__, "%zu failures, line %zu: '%s', expected '%s'", bad.n,
                  bad.line, bad.why, part);
    mem_free(f->line[line]);
    f->line[line] = old;
}

TEST(what_is_changed_is_named)
{
    file f;
    make_file(&f);
    expect_failure(&f, 0, "\"kind\":\"cnn\"", "\"kind\":\"s4\"", "\"kind\" is 's4'");
    expect_failure(&f, 0, "\"config\":\"", "\"config\":\"0", "config");
    expect_failure(&f, 0, "\"weights\":\"", "\"weights\":\"0", "weights");
    expect_failure(&f, 0, "\"vocabulary\":\"", "\"vocabulary\":\"0", "vocabulary");
    expect_failure(&f, 0, "\"data\":\"0", "\"data\":\"", "data");
    expect_failure(&f, 0, "\"sets\":\"0", "\"sets\":\"x", "sets");
    expect_failure(&f, 0, "\"sets\":\"0", "\"set\":\"0", "unknown key \"set\"");
    expect_failure(&f, 0, "float32", "float64", "\"type\" is 'float64'");
    expect_failure(&f, 0, "\"order\":\"any\"", "\"order\":\"one\"", "order");
    expect_failure(&f, 0, "\"budget\":1", "\"budget\":-1", "budget");
    expect_failure(&f, 0, "\"budget\":1", "\"budget\":0", "nothing is proved");
    expect_failure(&f, 0, "\"budget\":1", "\"budget\":2", "certified for 1 changed words only");
    expect_failure(&f, 0, "\"note\"", "\"nota\"", "nota");
    expect_failure(&f, 1, "\"budget\":null", "\"budget\":0", "claims for no change");
    expect_failure(&f, 4, "\"claims\":[", "\"over_budget\":true,\"claims\":[", "without claims");
    expect_failure(&f, 5, "\"budget\":0", "\"budget\":7", "without claims");
    expect_failure(&f, 6, "\"budget\":0", "\"budget\":7", "without claims");
    expect_failure(&f, 6, "\"budget\":0", "\"budget\":null", "without claims");
    expect_failure(&f, 1, "\"method\"", "\"slack\":1e308,\"method\"", "unknown key \"slack\"");
    expect_failure(&f, 1, "certified", "broken", "\"edits\"");
    expect_failure(&f, 1, "certified", "wrong", "claims");
    expect_failure(&f, 1, "certified", "sure", "unknown verdict");
    expect_failure(&f, 1, "\"method\":\"ibp\"", "\"method\":\"luck\"", "luck");
    expect_failure(&f, 1, "\"claims\":[{", "\"claims\":[{\"and\":1,", "unknown key \"and\"");
    expect_failure(&f, 1, "\"claims\":[", "\"claims\":[{},", "one for each of 2 classes");
    expect_failure(&f, 1, "\"sets\":{", "\"sets\":{\"4\":[\"w1\"],", "does not have");
    expect_failure(&f, 1, "\"sets\":{\"0\":[\"w", "\"sets\":{\"0\":[1,\"w", "position 0");
    expect_failure(&f, 1, "\"words\":[", "\"words\":[7,", "not a string");
    expect_failure(&f, 1, "\"words\":[", "\"words\":[\"<pad>\",", "'<pad>' does not read as one");
    expect_failure(&f, 1, "\"sets\":{\"0\":[\"w", "\"sets\":{\"0\":[\"Boring\",\"w",
                   "'Boring' does not read as one");
    expect_failure(&f, 1, "\"sets\":{\"0\":[\"w", "\"sets\":{\"0\":[\"two words\",\"w",
                   "'two words' does not read as one");
    expect_failure(&f, 2, "[0,1.0,0]", "[99,1.0,0]", "no such feature");
    expect_failure(&f, 2, "[0,1.0,0]", "[0,1.0,9]", "no such window");
    expect_failure(&f, 2, "[0,1.0,0]", "[0,-1.0,0]", "a weight from 0 to 1");
    expect_failure(&f, 2, "[0,1.0,0]", "[0,1.0]", "bad entry");
    expect_failure(&f, 2, "\"low\"", "\"cap\"", "");
    expect_failure(&f, 4, "\"first\"", "\"third\"", "third");
    expect_failure(&f, 4, "\"words\":[", "\"words\":[\"w59\",",
                   ""); /* the text's words come first */
    expect_failure(&f, 4, "\"at\":0", "\"at\":1", "not cut into two parts");
    expect_failure(&f, 4, "\"at\":0", "\"at\":2", "not left at position 2");
    expect_failure(&f, 5, "\"edits\":[[1,", "\"edits\":[[0,", "may not stand at position 0");
    expect_failure(&f, 5, "\"edits\":[[1,", "\"edits\":[[1,1,", "expected [position, word]");
    expect_failure(&f, 5, "\"edits\":[[", "\"edits\":[],\"e\":[[", "unknown key");
    drop_file(&f);
}

static void expect_sets_to_matter(void)
{
    file f;
    make_file(&f);
    size_t caught = 0;
    for (int word = 0; word < NEAR; word++) { /* a far word beside the close one */
        char set[64];
        snprintf(set, sizeof set, "\"sets\":{\"0\":[\"w%d\",", word);
        char *old = f.line[1], *at = strstr(old, "\"sets\":{\"0\":[");
        buf b = {0};
        failures bad;
        buf_bytes(&b, old, (size_t)(at - old));
        buf_str(&b, set);
        buf_str(&b, at + strlen("\"sets\":{\"0\":["));
        f.line[1] = buf_take(&b);
        caught += failed_lines(&f, NULL, &bad) == 1;
        mem_free(f.line[1]);
        f.line[1] = old;
    }
    CHECK_LE(NEAR - 2, caught);
    drop_file(&f);
}

TEST(a_set_that_grows_takes_the_claim_with_it)
{
    expect_sets_to_matter();
    dense = true;
    expect_sets_to_matter();
}

/* Methods that end in the last layer say nothing of one with another before it; and without it, it is
 * another model. */
TEST(a_layer_before_the_last_is_part_of_the_claim)
{
    file f;
    dense = true;
    make_file(&f);
    expect_failure(&f, 1, "\"method\":\"ibp\"", "\"method\":\"joint\"", "unknown method");
    expect_failure(&f, 1, "\"method\":\"ibp\"", "\"method\":\"gbm\"", "unknown method");
    char *data;
    size_t size;
    stet_verify_result r;
    CHECK_OK(file_read_all(path_of("config.json"), 1 << 20, &data, &size));
    char *at = strstr(data, "\"dense\": 8");
    CHECK(at);
    at[9] = '7';
    CHECK_OK(file_write_all(path_of("config.json"), data, size));
    CHECK_FAILS(stet_verify_file(path_of("cert.jsonl"), test_dir(), NULL, &r), STET_EFORMAT,
                "dense.weight");
    at[9] = '0';
    CHECK_OK(file_write_all(path_of("config.json"), data, size));
    CHECK_FAILS(stet_verify_file(path_of("cert.jsonl"), test_dir(), NULL, &r), STET_EFORMAT,
                "dense");
    memcpy(at, "\"tense\"", 7);
    CHECK_OK(file_write_all(path_of("config.json"), data, size));
    CHECK_FAILS(stet_verify_file(path_of("cert.jsonl"), test_dir(), NULL, &r), STET_EFORMAT,
                "a setting 'tense'");
    mem_free(data);
    drop_file(&f);
}

/* ---- lines -------------------------------------------------------------------------------- */

TEST(lines_that_are_missing_cut_swapped_or_doubled_are_noticed)
{
    file f;
    failures bad;
    make_file(&f);
    file g = f;
    g.n--;
    CHECK_EQ(failed_lines(&g, NULL, &bad), 1);
    CHECK(strstr(bad.why, "ends after 5 of 6"));
    g = f;
    g.line[2] = f.line[1];
    CHECK_EQ(failed_lines(&g, NULL, &bad), 1);
    CHECK(strstr(bad.why, "order"));
    g = f;
    g.line[2] = f.line[3];
    g.line[3] = f.line[2];
    CHECK_EQ(failed_lines(&g, NULL, &bad), 1);
    CHECK_EQ(bad.line, 4);
    g = f;
    g.line[1] = f.line[0];
    CHECK_EQ(failed_lines(&g, NULL, &bad), 1);

    write_file(&f, NULL);
    char *data;
    size_t size;
    CHECK_OK(file_read_all(path_of("cert.jsonl"), 1 << 20, &data, &size));
    for (size_t cut = 1; cut < size; cut += cut < 800 ? 1 : 13) {
        if (data[cut - 1] == '\n' && cut < 2)
            continue;
        CHECK_OK(file_write_all(path_of("cert.jsonl"), data, cut));
        stet_verify_result r;
        CHECK_OK(stet_verify_file(path_of("cert.jsonl"), test_dir(), NULL, &r));
        CHECK(r.failed > 0 || cut == size - 1); /* the last line end alone is not missed */
    }
    mem_free(data);
    drop_file(&f);
}

TEST(another_model_is_noticed)
{
    file f;
    failures bad;
    make_file(&f);
    make_model(0.02, 4);
    CHECK_EQ(failed_lines(&f, NULL, &bad), 1);
    CHECK(strstr(bad.why, "weights"));
    drop_file(&f);
}

/* A score changed, or left out: it is another model, whatever the claims say. */
TEST(other_scores_are_noticed)
{
    file f;
    failures bad;
    char *data;
    size_t size;
    word_scores = 0.3;
    make_file(&f);
    CHECK_EQ(failed_lines(&f, NULL, &bad), 0);
    word_scores = 0.30001;
    make_model(0.02, 3);
    CHECK_EQ(failed_lines(&f, NULL, &bad), 1);
    CHECK(strstr(bad.why, "weights"));
    word_scores = 0.3;
    make_model(0.02, 3);
    CHECK_OK(file_read_all(path_of("config.json"), 1 << 20, &data, &size));
    char *at = strstr(data, "\"word_scores\": true");
    CHECK(at);
    memcpy(at + 15, "null", 4);
    CHECK_OK(file_write_all(path_of("config.json"), data, size));
    stet_verify_result r;
    CHECK_FAILS(stet_verify_file(path_of("cert.jsonl"), test_dir(), NULL, &r), STET_EFORMAT,
                "word_scores");
    memcpy(at, "\"other_thing\"", 13);
    CHECK_OK(file_write_all(path_of("config.json"), data, size));
    CHECK_EQ(failed_lines(&f, NULL, &bad), 1);
    CHECK(strstr(bad.why, "config"));
    mem_free(data);
    drop_file(&f);
}

/* The sum model: its claims are exact, so that hardly more can be claimed, and no less. */
TEST(a_claim_about_a_sum_is_exact)
{
    static const char *const plain[] = {NULL}, *const net[] = {"score-hidden=4", NULL};
    size_t stood = 0;
    for (int k = 0; k < 40; k++) {
        model *m =
            harness_fresh(harness_scored("sum", k % 2 ? net : plain, 5, 3, 1, 1, (uint64_t)k));
        CHECK_OK(ver_model_load(test_dir(), &v));
        w.m = &v;
        rng r = rng_stream((uint64_t)k, STREAM_TEST, 12);
        cert_case c;
        double least[HARNESS_CLASSES];
        harness_case(m, 4, 3, k % 3 ? (size_t)(k % 3) : STET_ANY, &r, &c);
        harness_minimum(m, &c.task, least);
        const ver_task t = {4, c.task.start, c.task.word, c.task.budget,
                            c.task.unpaid ? c.task.unpaid : none};
        w.t = &t;
        CHECK_OK(v.kind->open(&w));
        for (int other = 0; other < 3; other++) {
            if (other == c.task.label)
                continue;
            const double own = bound_of(c.task.label, other, "exact", NULL);
            CHECK_LE(own, least[other]);
            CHECK_NEAR(own, least[other], 1e-4);
            stood++;
        }
        stet_model_free(m);
        ver_work_deinit(&w);
        ver_model_deinit(&v);
        w = (ver_work){0};
    }
    CHECK_EQ(stood, 80);
}

static const char *refuse(void *user, const stet_verify_text *t)
{
    ++*(size_t *)user;
    return t->index == 5 ? "the data has another word" : NULL;
}

TEST(texts_are_compared_where_asked)
{
    file f;
    make_file(&f);
    write_file(&f, NULL);
    size_t asked = 0;
    char sets[65], data[65];
    snprintf(sets, sizeof sets, "%064d", 7);
    snprintf(data, sizeof data, "%064d", 0);
    stet_verify_options how = {
        .match = refuse, .user = &asked, .sets_sha256 = sets, .data_sha256 = data};
    stet_verify_result r;
    CHECK_OK(stet_verify_file(path_of("cert.jsonl"), test_dir(), &how, &r));
    CHECK_EQ(asked, TEXTS);
    CHECK_EQ(r.failed, 1);
    for (int k = 0; k < 2; k++) {
        char *const of = k ? sets : data;
        of[3] = '1';
        CHECK_OK(stet_verify_file(path_of("cert.jsonl"), test_dir(), &how, &r));
        CHECK_EQ(r.failed, 1);
        CHECK_EQ(r.texts, 0);
        of[3] = '0';
    }
    drop_file(&f);
}

/* ---- bad input ---------------------------------------------------------------------------- */

TEST(a_bad_model_folder_is_an_error)
{
    stet_verify_result r;
    file f;
    make_file(&f);
    write_file(&f, NULL);
    CHECK_FAILS(stet_verify_file(path_of("none"), test_dir(), NULL, &r), STET_EIO, "none");
    CHECK_FAILS(stet_verify_file(path_of("cert.jsonl"), "/nowhere", NULL, &r), STET_EIO,
                "config.json");
    char *data;
    size_t size;
    CHECK_OK(file_read_all(path_of("model.safetensors"), 1 << 20, &data, &size));
    for (size_t cut = 0; cut < size; cut += 97) {
        CHECK_OK(file_write_all(path_of("model.safetensors"), data, cut));
        CHECK_FAILS(stet_verify_file(path_of("cert.jsonl"), test_dir(), NULL, &r), STET_EFORMAT,
                    "");
    }
    char *longer = mem_alloc(size + 4, 1);
    memcpy(longer, data, size);
    memset(longer + size, 0, 4);
    CHECK_OK(file_write_all(path_of("model.safetensors"), longer, size + 4));
    CHECK_FAILS(stet_verify_file(path_of("cert.jsonl"), test_dir(), NULL, &r), STET_EFORMAT,
                "belong to none");
    mem_free(longer);
    float nan = NAN;
    memcpy(data + size - sizeof nan, &nan, sizeof nan);
    CHECK_OK(file_write_all(path_of("model.safetensors"), data, size));
    CHECK_FAILS(stet_verify_file(path_of("cert.jsonl"), test_dir(), NULL, &r), STET_EFORMAT,
                "not finite");
    mem_free(data);
    CHECK_OK(file_write_all(path_of("cert.jsonl"), "", 0));
    make_model(0.02, 3);
    CHECK_FAILS(stet_verify_file(path_of("cert.jsonl"), test_dir(), NULL, &r), STET_EFORMAT,
                "empty");
    CHECK_OK(file_write_all(path_of("vocab.txt"), "<pad>\n<unk>\n", 12));
    CHECK_FAILS(stet_verify_file(path_of("cert.jsonl"), test_dir(), NULL, &r), STET_EFORMAT,
                "vocab.txt");
    drop_file(&f);
}

/* Lines are parsed beforehand: jansson 2.14 ends the program when memory runs out inside a string.
 */
static stet_status check_lines(void *lines)
{
    ver_work fresh = {.m = &v};
    arena mem = {0};
    stet_verify_result r = {.least = INFINITY};
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < TEXTS; i++) {
        ver_line l;
        st = ver_line_read(&v, ((json_t **)lines)[i], &mem, &l);
        if (st == STET_OK)
            st = ver_line_check(&fresh, &l, 1, &mem, &r);
    }
    arena_deinit(&mem);
    ver_work_deinit(&fresh);
    return st;
}

TEST(running_out_of_memory_is_an_answer)
{
    file f;
    json_t *line[TEXTS];
    make_file(&f);
    for (size_t i = 0; i < TEXTS; i++) {
        buf b = {0};
        buf_printf(&b, "%s}", f.line[i + 1]);
        CHECK_OK(json_read_text("line", b.data, b.n, &line[i]));
        buf_deinit(&b);
    }
    CHECK_LE(3, ALLOC_FAIL_LOOP(check_lines, line));
    for (size_t i = 0; i < TEXTS; i++)
        json_decref(line[i]);
    drop_file(&f);
}
