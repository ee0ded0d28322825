/* A file of certificates written by hand: a line of every sort, each claim exactly as strong as the
 * checker's own bounds allow. For test_verify.c alone. */
#ifndef TESTS_VERIFY_WRITTEN_FILE_H
#define TESTS_VERIFY_WRITTEN_FILE_H

#include "../certify/harness.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "verify/ver_line.h"

enum { TEXTS = 6, NEAR = 20 }; /* word NEAR + i is close to word i, for i < NEAR */
static const char *const without[] = {"filters=6", "kernels=2,3", NULL};
static const char *const with_layer[] = {"filters=6", "kernels=2,3", "dense=8", NULL};
static bool dense; /* the model has a layer before the last, and claims are by intervals alone */

static double word_scores; /* how large scores of words are; 0: the model has none */

/* A model of three classes in test_dir(); close words are `noise` apart. */
static void make_model(double noise, uint64_t seed)
{
    const char *const *settings = dense ? with_layer : without;
    model *m = word_scores != 0 ? harness_scored("cnn", settings, 5, 3, 2, word_scores, seed)
                                : harness_model("cnn", settings, 5, 3, 2, seed);
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
        buf_printf(b, "%s{\"other\":%d,\"bound\":%.17g,\"method\":\"%s\"",
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
               "{\"stet_certificates\":2,\"kind\":\"cnn\",\"sha256\":{\"config\":\"%s\",\"weights\":"
               "\"%s\",\"vocabulary\":\"%s\",\"data\":\"%064d\",\"sets\":\"%064d\"},"
               "\"arithmetic\":{\"type\":\"float32\",\"order\":\"any\",\"fused\":\"any\"},"
               "\"budget\":1,\"texts\":%d,\"note\":{\"model\":\"m\",\"method\":\"auto\"}",
               v.sha_config, v.sha_weights, v.sha_vocabulary, 0, 7, TEXTS);
    keep_line(f, &head);
    rng r = rng_stream(4, STREAM_TEST, 9);
    int word[4];
    FIND(f, certified_line(b, 0, word, "ibp", "null"));
    FIND(f, certified_line(b, 3, word, dense ? "ibp" : "joint", "null"));
    FIND(f, certified_line(b, 4, word, dense ? "ibp" : "gbm", "1"));
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
    ver_work_deinit(&w);
    ver_model_deinit(&v);
    w = (ver_work){0};
}

#endif
