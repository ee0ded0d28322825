/* verify/verify.c - a file of certificates, line by line (docs/formats.md).
 *
 * Line 1 is about the run, every other line about one text, in the order of the data. A line ends
 * with the SHA-256 of all that stands before: not to stop a forger, who can compute it too, but so
 * that no slip of a hand or a disk passes. What stops the forger is that every claim is derived
 * anew. */
#include <string.h>

#include "base/args.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "verify/ver_exact.h"
#include "verify/ver_votes.h"

typedef struct checker {
    const stet_verify_options *how;
    stet_verify_result *r;
    ver_model model;
    ver_work work;
    arena mem;          /* of one line */
    size_t texts, next; /* stated by line 1; least index that the next text may have */
} checker;

static const char sum_key[] = ",\"sum\":\"";
enum {
    SUM_KEY = sizeof sum_key - 1,
    SUM_DIGITS = SHA256_HEX - 1,
    SUM_TAIL = SUM_KEY + SUM_DIGITS + 2
};

/* ...,"sum":"<64 digits>"} */
static stet_status check_sum(const char *line, size_t len)
{
    const char *tail = len < SUM_TAIL ? NULL : line + len - SUM_TAIL;
    if (!tail || memcmp(tail, sum_key, SUM_KEY) != 0 || memcmp(line + len - 2, "\"}", 2) != 0)
        return error_set(STET_EFORMAT, "does not end with its \"sum\" (cut off?)");
    char hex[SHA256_HEX];
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, line, len - SUM_TAIL);
    sha256_hex(&h, hex);
    if (memcmp(tail + SUM_KEY, hex, SUM_DIGITS) != 0)
        return error_set(STET_EFORMAT, "its \"sum\" is not that of the line: it was changed");
    return STET_OK;
}

static stet_status expect_text(const json_t *o, const char *key, const char *expected)
{
    const char *text;
    TRY(json_get_str(o, "first line", key, &text));
    if (expected && strcmp(text, expected) != 0)
        return error_set(STET_EFORMAT, "\"%s\" is '%.64s', expected '%s'", key, text, expected);
    return STET_OK;
}

/* Is it the digest of something: 64 digits? */
static stet_status expect_digest(const json_t *o, const char *key, const char *expected)
{
    const char *text;
    TRY(expect_text(o, key, expected));
    TRY(json_get_str(o, "first line", key, &text));
    if (strlen(text) != SUM_DIGITS || strspn(text, "0123456789abcdef") != SUM_DIGITS)
        return error_set(STET_EFORMAT, "\"%s\": expected %d hexadecimal digits", key, SUM_DIGITS);
    return STET_OK;
}

static stet_status check_identity(const checker *c, const json_t *o)
{
    static const char *const keys[] = {"config", "weights", "vocabulary", "data", "sets", NULL};
    const json_t *sha = json_object_get(o, "sha256");
    TRY(ver_only_keys(sha, "\"sha256\"", keys));
    TRY(expect_digest(sha, "config", c->model.sha_config));
    TRY(expect_digest(sha, "weights", c->model.sha_weights));
    TRY(expect_digest(sha, "vocabulary", c->model.sha_vocabulary));
    TRY(expect_digest(sha, "data", c->how->data_sha256));
    return expect_digest(sha, "sets", c->how->sets_sha256);
}

/* What the claims are about: float32 sums in any order, products fused with them or not. */
static stet_status check_arithmetic(const json_t *o)
{
    static const char *const keys[] = {"type", "order", "fused", NULL};
    const json_t *is = json_object_get(o, "arithmetic");
    TRY(ver_only_keys(is, "\"arithmetic\"", keys));
    TRY(expect_text(is, "type", "float32"));
    TRY(expect_text(is, "order", "any"));
    return expect_text(is, "fused", "any");
}

/* A file of proofs is about a model whose logits answer, a statistical one about one that votes. */
static stet_status check_sort(const checker *c, const json_t *o)
{
    const json_t *statistical = json_object_get(o, "statistical");
    if (statistical && !json_is_true(statistical))
        return error_set(STET_EFORMAT, "\"statistical\": expected true, or nothing");
    if (!statistical && c->model.votes)
        return error_set(STET_EFORMAT, "a file of proofs, but the model answers by votes");
    if (statistical && !c->model.votes)
        return error_set(STET_EFORMAT, "a statistical file, but the model does not vote");
    return STET_OK;
}

/* "note" says how the file came about. Nothing rests on it, and nothing in it is checked. */
static stet_status check_header(checker *c, const json_t *o)
{
    static const char *const proofs[] = {"stet_certificates",
                                         "kind",
                                         "sha256",
                                         "arithmetic",
                                         "budget",
                                         "texts",
                                         "note",
                                         "sum",
                                         NULL},
                             *const votes[] = {"stet_certificates",
                                               "kind",
                                               "sha256",
                                               "statistical",
                                               "rule",
                                               "lists",
                                               "budget",
                                               "texts",
                                               "note",
                                               "sum",
                                               NULL};
    int64_t version, texts;
    TRY(json_get_int(o, "first line", "stet_certificates", 2, 2, &version));
    TRY(check_sort(c, o));
    TRY(ver_only_keys(o, "first line", c->model.votes ? votes : proofs));
    TRY(expect_text(o, "kind", c->model.kind->name));
    TRY(check_identity(c, o));
    TRY(c->model.votes ? ver_votes_header(c->model.votes, o) : check_arithmetic(o));
    TRY(ver_budget_read(o, &c->r->budget));
    if (c->r->budget == 0)
        return error_set(STET_EFORMAT, "\"budget\" is 0: without changes nothing is proved");
    TRY(json_get_int(o, "first line", "texts", 0, INT64_MAX, &texts));
    c->texts = (size_t)texts;
    c->r->confidence = c->model.votes ? c->model.votes->confidence : 0;
    return STET_OK;
}

static stet_status check_text(checker *c, const json_t *o)
{
    ver_line l;
    TRY(ver_line_read(&c->model, o, &c->mem, &l));
    if (l.text.index < c->next)
        return error_set(STET_EFORMAT,
                         "text %zu: texts are not in the order of the data, each once",
                         l.text.index);
    c->next = l.text.index + 1;
    const char *problem = c->how->match ? c->how->match(c->how->user, &l.text) : NULL;
    if (problem)
        return error_set(STET_EFORMAT, "text %zu: %s", l.text.index, problem);
    const stet_status st = ver_line_check(&c->work, &l, c->r->budget, &c->mem, c->r);
    if (st != STET_OK)
        return error_prefix(st, "text %zu", l.text.index);
    size_t *const count[] = {[VER_WRONG] = &c->r->wrong,
                             [VER_CERTIFIED] = &c->r->certified,
                             [VER_BROKEN] = &c->r->broken,
                             [VER_UNDECIDED] = &c->r->undecided,
                             [VER_LIKELY] = &c->r->likely};
    ++*count[l.verdict];
    return STET_OK;
}

static void report(checker *c, size_t line)
{
    c->r->failed++;
    if (c->how->failed)
        c->how->failed(c->how->user, line, stet_last_error());
}

/* A line that does not hold is reported, and the next one looked at; only what is no fault of the
 * line ends the work. */
static stet_status check_line(checker *c, size_t number, const char *line, size_t len)
{
    json_t *o = NULL;
    stet_status st = check_sum(line, len);
    if (st == STET_OK)
        st = json_read_text("line", line, len, &o);
    if (st == STET_OK)
        st = number == 1 ? check_header(c, o) : check_text(c, o);
    json_decref(o);
    arena_restore(&c->mem, (arena_mark){0});
    c->r->texts += number > 1;
    if (st == STET_EFORMAT) {
        report(c, number);
        st = STET_OK;
    }
    return st;
}

static stet_status check_lines(checker *c, stream *s)
{
    char *line;
    size_t len, number = 0;
    stet_status st = STET_OK;
    while (st == STET_OK && stream_line(s, &line, &len, &st)) {
        st = check_line(c, ++number, line, len);
        if (number == 1 && c->r->failed)
            return st; /* about another model, or no certificates at all */
        progress("verify", c->r->texts, c->texts, NULL);
        if (st == STET_OK)
            st = interrupt_status();
    }
    if (st == STET_OK && number == 0)
        return error_set(STET_EFORMAT, "%s: empty", stream_path(s));
    if (st == STET_OK && c->r->texts != c->texts) {
        error_set(STET_EFORMAT, "the file ends after %zu of %zu texts", c->r->texts, c->texts);
        report(c, number + 1);
    }
    return st;
}

void stet_verify_options_init(stet_verify_options *a, size_t size)
{
    const stet_verify_options defaults = {0};
    args_init(a, size, &defaults, sizeof defaults);
}

stet_status stet_verify_file(const char *path, const char *model_dir,
                             const stet_verify_options *options, stet_verify_result *r)
{
    stet_verify_options own = {0};
    const double start = seconds_now();
    *r = (stet_verify_result){.least = INFINITY};
    if (options)
        TRY(ARGS_TAKE(&own, options));
    checker c = {.how = &own, .r = r};
    if (c.how->exact && !ver_exact_here())
        return error_set(STET_ENOTSUP, "this build has no GMP: nothing can be checked exactly");
    TRY(ver_model_load(model_dir, &c.model));
    c.work.m = &c.model;
    c.work.want_exact = c.how->exact;
    stream *s = NULL;
    stet_status st = stream_open(path, &s);
    if (st == STET_OK)
        st = check_lines(&c, s);
    stream_close(s);
    arena_deinit(&c.mem);
    ver_work_deinit(&c.work);
    ver_model_deinit(&c.model);
    r->seconds = seconds_now() - start;
    return st;
}
