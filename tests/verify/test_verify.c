/* Files of certificates: true ones stand, and whatever is changed in them is noticed. The claims
 * here are written by hand from the checker's own bounds, so that they are exactly as strong as can
 * be derived. */
#include <ctype.h>
#include <inttypes.h>

#include "../alloc_fail.h"
#include "../certify/harness.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "verify/ver_line.h"

enum { TEXTS = 6, NEAR = 20 }; /* word NEAR + i is close to word i, for i < NEAR */
static const char *const settings[] = {"filters=6", "kernels=2,3", NULL};

/* A model of three classes in test_dir(); close words are `noise` apart. */
static void make_model(double noise, uint64_t seed)
{
    model *m = harness_model("cnn", settings, 5, 3, 2, seed);
    rng r = rng_stream(seed, STREAM_TEST, 8);
    for (size_t i = 0; i < NEAR; i++)
        for (size_t d = 0; d < m->dim; d++)
            m->table[(STET_FIRST_WORD + NEAR + i) * m->dim + d] =
                m->table[(STET_FIRST_WORD + i) * m->dim + d] + (float)(noise * rng_normal(&r));
    CHECK_OK(stet_model_save(m, test_dir()));
    stet_model_free(m);
}

/* ---- writing ------------------------------------------------------------------------------ */

/* Lines without their sums. */
typedef struct file {
    char *line[TEXTS + 2];
    size_t n;
} file;

static void file_free(file *f)
{
    for (size_t i = 0; i < f->n; i++)
        mem_free(f->line[i]);
    *f = (file){0};
}

static void add_sum(buf *b, const char *line)
{
    char hex[SHA256_HEX];
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, line, strlen(line));
    sha256_hex(&h, hex);
    buf_printf(b, "%s,\"sum\":\"%s\"}\n", line, hex);
}

static const char *path_of(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    return path;
}

/* With fresh sums, or with those of `original`. */
static void write_file(const file *f, const file *original)
{
    buf b = {0};
    for (size_t i = 0; i < f->n; i++) {
        const size_t from = b.n;
        add_sum(&b, original ? original->line[i] : f->line[i]);
        if (!original)
            continue;
        char *tail = mem_strdup(b.data + b.n - 76); /* ,"sum":"..."} and the line end */
        b.n = from;
        buf_str(&b, f->line[i]);
        buf_str(&b, strchr(tail, ','));
        mem_free(tail);
    }
    CHECK_OK(file_write_all(path_of("cert.jsonl"), b.data, b.n));
    buf_deinit(&b);
}

typedef struct failures {
    size_t n, line;
    char why[256];
} failures;

static void note(void *user, size_t line, const char *why)
{
    failures *f = user;
    f->n++;
    f->line = line;
    snprintf(f->why, sizeof f->why, "%s", why);
}

static size_t failed_lines(const file *f, const file *original, failures *out)
{
    *out = (failures){0};
    const stet_verify_options how = {.failed = note, .user = out};
    stet_verify_result r;
    write_file(f, original);
    CHECK_OK(stet_verify_file(path_of("cert.jsonl"), test_dir(), &how, &r));
    CHECK_EQ(r.failed, out->n);
    return r.failed;
}

/* ---- true claims -------------------------------------------------------------------------- */

static ver_model v;
static ver_work w;
static const bool none[8];

static void open_words(const uint32_t *start, const uint32_t *word, size_t n, size_t budget,
                       ver_task *t)
{
    *t = (ver_task){n, start, word, budget, none};
    arena_restore(&w.mem, (arena_mark){0});
    w.t = t;
    CHECK_OK(v.kind->open(&w));
}

static double bound_of(int label, int other, const char *method, const json_t *witness)
{
    double b;
    CHECK_OK(v.kind->bound(&w, label, other, method, witness, &b));
    return b;
}

/* Three features of a joint bound, each on the side that its weight asks for. */
static json_t *witness_for(int label, int other)
{
    static const struct {
        int f, t;
        double weight;
    } use[] = {{0, 0, 1}, {1, 1, 0.5}, {7, 0, 0.25}};
    json_t *low = json_array(), *cap = json_array();
    for (size_t i = 0; i < 3; i++) {
        const size_t at = (size_t)use[i].f, n = v.features;
        const bool down = v.fc_w[(size_t)label * n + at] < v.fc_w[(size_t)other * n + at];
        json_array_append_new(down ? cap : low,
                              json_pack("[i, f, i]", use[i].f, use[i].weight, use[i].t));
    }
    return json_pack("{s:o, s:[], s:o, s:[]}", "low", low, "over", "cap", cap, "split");
}

/* {"other":..},.. for both other classes; false: nothing can be claimed. */
static bool put_claims(buf *b, int label, const char *method)
{
    bool good = true, first = true;
    for (int other = 0; other < 3; other++) {
        if (other == label)
            continue;
        json_t *witness = strcmp(method, "joint") == 0 ? witness_for(label, other) : NULL;
        const double bound = bound_of(label, other, method, witness);
        good = good && bound > 0;
        buf_printf(b, "%s{\"other\":%d,\"bound\":%.17g,\"slack\":1e-05,\"method\":\"%s\"",
                   first ? "" : ",", other, bound, method);
        if (witness) {
            char *text = json_dumps(witness, JSON_COMPACT);
            buf_printf(b, ",\"witness\":%s", text);
            free(text);
            json_decref(witness);
        }
        buf_str(b, "}");
        first = false;
    }
    return good;
}

/* The text of words a, b, ...; its answer and margin from the checker's evaluation. */
static int put_start(buf *b, size_t index, const int *word, size_t n, int label,
                     const char *verdict, const char *budget)
{
    uint32_t start[9], id[8];
    for (size_t i = 0; i <= n; i++)
        start[i] = (uint32_t)i;
    for (size_t i = 0; i < n; i++)
        id[i] = (uint32_t)(STET_FIRST_WORD + word[i]);
    ver_task t;
    open_words(start, id, n, VER_ANY, &t);
    int answer = 0;
    for (int c = 1; c < 3; c++)
        answer = bound_of(c, answer, "ibp", NULL) > 0 ? c : answer;
    label = label < 0 ? answer : label;
    double clean = INFINITY;
    for (int c = 0; c < 3; c++)
        clean = c == label ? clean : fmin(clean, bound_of(label, c, "ibp", NULL));
    buf_printf(b,
               "{\"text\":%zu,\"label\":%d,\"answer\":%d,\"verdict\":\"%s\",\"budget\":%s,"
               "\"clean\":%.17g,\"words\":[",
               index, label, answer, verdict, budget, clean);
    for (size_t i = 0; i < n; i++)
        buf_printf(b, "%s\"w%d\"", i ? "," : "", word[i]);
    buf_str(b, "],");
    return answer;
}

/* Positions 0 and 2 of a text of four words may take the close word. */
static void two_sets(const int *word, uint32_t *start, uint32_t *id)
{
    size_t k = 0;
    for (size_t i = 0; i < 4; i++) {
        start[i] = (uint32_t)k;
        id[k++] = (uint32_t)(STET_FIRST_WORD + word[i]);
        if (i % 2 == 0)
            id[k++] = (uint32_t)(STET_FIRST_WORD + NEAR + word[i]);
    }
    start[4] = (uint32_t)k;
}

static void put_sets(buf *b, const int *word)
{
    buf_printf(b, "\"sets\":{\"0\":[\"w%d\"],\"2\":[\"w%d\"]},", NEAR + word[0], NEAR + word[2]);
}

static bool certified_line(buf *b, size_t index, const int *word, const char *method,
                           const char *budget)
{
    uint32_t start[5], id[8];
    ver_task t;
    const int label = put_start(b, index, word, 4, -1, "certified", budget);
    put_sets(b, word);
    two_sets(word, start, id);
    open_words(start, id, 4, strcmp(budget, "null") == 0 ? VER_ANY : strtoul(budget, NULL, 10), &t);
    buf_str(b, "\"claims\":[");
    const bool good = put_claims(b, label, method);
    buf_str(b, "]");
    return good;
}

/* Position 0 is cut: its own word, then the other one. */
static bool tree_line(buf *b, size_t index, const int *word)
{
    uint32_t start[5], id[8], part_start[5], part[8];
    const int label = put_start(b, index, word, 4, -1, "certified", "null");
    put_sets(b, word);
    two_sets(word, start, id);
    bool good = true;
    buf_printf(b, "\"tree\":{\"at\":0,\"words\":[\"w%d\"],", word[0]);
    for (int side = 0; side < 2; side++) {
        ver_task t;
        part[0] = id[side];
        memcpy(part + 1, id + 2, 4 * sizeof *part);
        for (int i = 0; i < 5; i++)
            part_start[i] = i ? start[i] - 1 : 0;
        open_words(part_start, part, 4, VER_ANY, &t);
        buf_printf(b, "%s\"%s\":{\"claims\":[", side ? "," : "", side ? "second" : "first");
        good = put_claims(b, label, "ibp") && good;
        buf_str(b, "]}");
    }
    buf_str(b, "}");
    return good;
}

/* Another word at position 1 gives another class. */
static bool broken_line(buf *b, size_t index, const int *word)
{
    uint32_t start[5] = {0, 1, 2, 3, 4}, id[4];
    const int label = put_start(b, index, word, 4, -1, "broken", "0");
    for (int other = 0; other < 2 * NEAR; other++) {
        for (int i = 0; i < 4; i++)
            id[i] = (uint32_t)(STET_FIRST_WORD + (i == 1 ? other : word[i]));
        ver_task t;
        open_words(start, id, 4, VER_ANY, &t);
        for (int after = 0; after < 3; after++) {
            bool sure = after != label;
            for (int c = 0; c < 3; c++)
                sure = sure && (c == after || bound_of(after, c, "ibp", NULL) > 0);
            if (!sure)
                continue;
            buf_printf(b, "\"sets\":{\"1\":[\"w%d\"]},\"edits\":[[1,\"w%d\"]],\"after\":%d", other,
                       other, after);
            return true;
        }
    }
    return false;
}

static void keep_line(file *f, buf *b)
{
    f->line[f->n++] = buf_take(b);
    CHECK(f->line[f->n - 1]);
}

/* Words for which `put` can be written. */
#define FIND(f, put)                                                                               \
    do {                                                                                           \
        buf b_ = {0};                                                                              \
        bool good_ = false;                                                                        \
        for (int tries_ = 0; !good_ && tries_ < 200; tries_++) {                                   \
            buf_clear(&b_);                                                                        \
            for (int i_ = 0; i_ < 4; i_++)                                                         \
                word[i_] = (int)rng_below(&r, NEAR);                                               \
            buf *const b = &b_;                                                                    \
            good_ = put;                                                                           \
        }                                                                                          \
        CHECK(good_);                                                                              \
        keep_line(f, &b_);                                                                         \
    } while (0)

/* One line of every sort: intervals, joint with a witness, budget, tree, broken, wrong. */
static void make_file(file *f)
{
    make_model(0.02, 3);
    CHECK_OK(ver_model_load(test_dir(), &v));
    w.m = &v;
    *f = (file){0};
    buf head = {0};
    buf_printf(&head,
               "{\"stet_certificates\":1,\"model\":\"m\",\"kind\":\"cnn\",\"model_fingerprint\":\"%"
               "016" PRIx64 "\",\"synonyms_fingerprint\":\"00000000000000aa\",\"arithmetic\":"
               "\"float32\",\"method\":\"auto\",\"budget\":1,"
               "\"complete\":false,\"refine\":30,\"texts\":%d",
               v.fingerprint, TEXTS);
    keep_line(f, &head);
    rng r = rng_stream(4, STREAM_TEST, 9);
    int word[4];
    FIND(f, certified_line(b, 0, word, "ibp", "null"));
    FIND(f, certified_line(b, 3, word, "joint", "null"));
    FIND(f, certified_line(b, 4, word, "gbm", "1"));
    FIND(f, tree_line(b, 5, word));
    FIND(f, broken_line(b, 8, word));
    buf wrong = {0};
    const int label = (put_start(&wrong, 9, word, 4, -1, "wrong", "0") + 1) % 3;
    buf_clear(&wrong);
    put_start(&wrong, 9, word, 4, label, "wrong", "0");
    buf_str(&wrong, "\"sets\":{}");
    keep_line(f, &wrong);
}

static void drop_file(file *f)
{
    file_free(f);
    arena_deinit(&w.mem);
    arena_deinit(&w.keep);
    ver_model_deinit(&v);
    w = (ver_work){0};
}

/* ---- what stands -------------------------------------------------------------------------- */

TEST(true_claims_of_every_sort_stand)
{
    file f;
    failures bad;
    make_file(&f);
    write_file(&f, NULL);
    stet_verify_result r;
    CHECK_OK(stet_verify_file(path_of("cert.jsonl"), test_dir(), NULL, &r));
    if (failed_lines(&f, NULL, &bad))
        test_fail(__FILE__, __LINE__, "line %zu: %s", bad.line, bad.why);
    CHECK_EQ(r.texts, TEXTS);
    CHECK_EQ(r.certified, 4);
    CHECK_EQ(r.broken, 1);
    CHECK_EQ(r.wrong, 1);
    CHECK_EQ(r.claims, 2 * 5);
    CHECK(r.least > 0);
    drop_file(&f);
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
 * classes, margins, positions of edits and splits. Not among them: which text of the data it is,
 * the rounding included in a bound, how many steps refined it, and weaker claims. */
TEST(every_number_changed_by_hand_is_noticed)
{
    static const char *const truths[] = {"label", "answer", "clean", "other",
                                         "at",    "after",  "texts", "stet_certificates"};
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
    expect_failure(&f, 0, "\"model_fingerprint\":\"", "\"model_fingerprint\":\"0",
                   "model_fingerprint");
    expect_failure(&f, 0, "float32", "float64", "arithmetic");
    expect_failure(&f, 0, "\"budget\":1", "\"budget\":-1", "budget");
    expect_failure(&f, 0, "\"budget\":1", "\"budget\":2", "certified for 1 changed words only");
    expect_failure(&f, 0, "\"refine\"", "\"rafine\"", "rafine");
    expect_failure(&f, 1, "certified", "broken", "\"edits\"");
    expect_failure(&f, 1, "certified", "wrong", "claims");
    expect_failure(&f, 1, "certified", "sure", "unknown verdict");
    expect_failure(&f, 1, "\"method\":\"ibp\"", "\"method\":\"luck\"", "luck");
    expect_failure(&f, 1, "\"claims\":[{", "\"claims\":[{\"and\":1,", "unknown key \"and\"");
    expect_failure(&f, 1, "\"claims\":[", "\"claims\":[{},", "one for each of 2 classes");
    expect_failure(&f, 1, "\"sets\":{", "\"sets\":{\"4\":[\"w1\"],", "does not have");
    expect_failure(&f, 1, "\"sets\":{\"0\":[\"w", "\"sets\":{\"0\":[1,\"w", "position 0");
    expect_failure(&f, 1, "\"words\":[", "\"words\":[7,", "not a string");
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

TEST(a_set_that_grows_takes_the_claim_with_it)
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
    CHECK(strstr(bad.why, "model_fingerprint"));
    drop_file(&f);
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
    stet_verify_options how = {
        .match = refuse, .user = &asked, .synonyms_fingerprint = "00000000000000aa"};
    stet_verify_result r;
    CHECK_OK(stet_verify_file(path_of("cert.jsonl"), test_dir(), &how, &r));
    CHECK_EQ(asked, TEXTS);
    CHECK_EQ(r.failed, 1);
    how.synonyms_fingerprint = "00000000000000ab";
    CHECK_OK(stet_verify_file(path_of("cert.jsonl"), test_dir(), &how, &r));
    CHECK_EQ(r.failed, 1);
    CHECK_EQ(r.texts, 0);
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
    arena_deinit(&fresh.mem);
    arena_deinit(&fresh.keep);
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
