/* certify/cert_file.c - certificates as JSON lines (docs/formats.md). Each line ends with the
 * SHA-256 of what stands before it, so that an edit by hand is noticed. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "certify/certifier.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "model/ensemble.h"

/* 17 digits: reads back as the same number. */
static void put_real(buf *b, double x)
{
    char text[40];
    snprintf(text, sizeof text, isfinite(x) ? "%.17g" : "null", x);
    for (char *p = text; *p; p++)
        if (*p == ',')
            *p = '.'; /* whatever the host's locale */
    buf_str(b, text);
}

static void put_string(buf *b, const char *s)
{
    buf_json_string(b, s, strlen(s));
}

static void put_budget(buf *b, size_t budget)
{
    if (budget == STET_ANY)
        buf_str(b, ",\"budget\":null");
    else
        buf_printf(b, ",\"budget\":%zu", budget);
}

/* Ends the line that began at `from`. */
static void put_sum(buf *b, size_t from)
{
    if (buf_status(b) != STET_OK)
        return;
    char hex[SHA256_HEX];
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, b->data + from, b->n - from);
    sha256_hex(&h, hex);
    buf_printf(b, ",\"sum\":\"%s\"}\n", hex);
}

/* ---- claims ------------------------------------------------------------------------------- */

static int append(const char *text, size_t n, void *b)
{
    buf_bytes(b, text, n);
    return buf_status(b) == STET_OK ? 0 : -1;
}

static void put_claims(buf *b, const stet_certifier *c, const cert_proof *p)
{
    bool first = true;
    buf_char(b, '[');
    for (size_t k = 0; k < p->n_classes; k++) {
        const cert_claim *claim = &p->claim[k];
        if ((int)k == p->label)
            continue;
        buf_printf(b, "%s{\"other\":%zu,\"bound\":", first ? "" : ",", k);
        put_real(b, claim->bound);
        buf_printf(b, ",\"method\":\"%s\"", cert_method_name(c->shared->family, claim->method));
        if (claim->witness) {
            buf_str(b, ",\"witness\":");
            if (json_dump_callback(claim->witness, append, b, JSON_COMPACT) != 0 &&
                buf_status(b) == STET_OK)
                b->status = error_set(STET_ENOMEM, "out of memory: a witness");
        }
        buf_char(b, '}');
        first = false;
    }
    buf_char(b, ']');
}

stet_status cert_claims_text(const stet_certifier *c, const cert_proof *p, char **out)
{
    buf b = {0};
    put_claims(&b, c, p);
    const stet_status st = buf_status(&b);
    *out = st == STET_OK ? buf_take(&b) : NULL;
    buf_deinit(&b);
    return st;
}

/* ---- words -------------------------------------------------------------------------------- */

/* A choice as a word. */
static const char *word_of(const stet_choices *choices, const stet_tokens *tokens, size_t pos,
                           uint32_t choice)
{
    return choice ? choices->text[choices->start[pos] + choice - 1] : stet_token_word(tokens, pos);
}

static void put_words(buf *b, const stet_tokens *tokens, const stet_choices *choices)
{
    buf_str(b, ",\"words\":[");
    for (size_t p = 0; p < choices->n; p++) {
        if (p)
            buf_char(b, ',');
        put_string(b, stet_token_word(tokens, p));
    }
    buf_str(b, "],\"sets\":{");
    bool first = true;
    for (size_t p = 0; p < choices->n; p++) {
        if (choices->start[p + 1] == choices->start[p])
            continue;
        buf_printf(b, "%s\"%zu\":[", first ? "" : ",", p);
        first = false;
        for (uint32_t k = choices->start[p]; k < choices->start[p + 1]; k++) {
            if (k > choices->start[p])
                buf_char(b, ',');
            put_string(b, choices->text[k]);
        }
        buf_char(b, ']');
    }
    buf_char(b, '}');
}

/* ---- trees -------------------------------------------------------------------------------- */

typedef struct tree_ink {
    buf *b;
    const cert_tree *tree;
    const stet_tokens *tokens;
    const stet_choices *choices;
} tree_ink;

static void put_split(const tree_ink *k, const cert_node *v)
{
    const cert_node *first = &k->tree->node[v->child];
    buf_printf(k->b, "{\"at\":%" PRIu32 ",\"words\":[", first->pos);
    for (uint32_t i = 0; i < first->n_set; i++) {
        if (i)
            buf_char(k->b, ',');
        put_string(k->b, word_of(k->choices, k->tokens, first->pos, first->set[i]));
    }
    buf_str(k->b, "],\"first\":");
}

/* Depth first and without recursion: a tree may be as deep as its text has words. */
static void put_tree(const tree_ink *k)
{
    size_t at = 0;
    for (;;) {
        const cert_node *v = &k->tree->node[at];
        if (v->child != SIZE_MAX) {
            put_split(k, v);
            at = v->child;
            continue;
        }
        if (v->empty)
            buf_str(k->b, "{\"over_budget\":true}");
        else
            buf_printf(k->b, "{\"claims\":%s}", v->claims ? v->claims : "[]");
        for (; v->parent != SIZE_MAX; v = &k->tree->node[at]) { /* up to the next second child */
            const size_t second = k->tree->node[v->parent].child + 1;
            if (at < second) {
                buf_str(k->b, ",\"second\":");
                at = second;
                break;
            }
            buf_char(k->b, '}');
            at = v->parent;
        }
        if (at == 0)
            return;
    }
}

/* ---- statements that rest on draws -------------------------------------------------------- */

/* Which rule answers, with all its settings, and the digest of the lists that it depends on. */
static stet_status put_rule(buf *b, const rule *r)
{
    json_t *settings;
    char *text, lists[SHA256_HEX];
    TRY(settings_json(r->desc->opts, r->cfg, &settings));
    json_t *o = json_pack("{s:s, s:o}", "name", r->desc->name, "settings", settings);
    const stet_status st = o ? json_text(o, JSON_COMPACT | JSON_REAL_PRECISION(17), &text)
                             : error_set(STET_ENOMEM, "out of memory for a header");
    json_decref(o);
    TRY(st);
    buf_printf(b, ",\"statistical\":true,\"rule\":%s", text);
    mem_free(text);
    if (r->desc->lists) {
        stet_sets_sha256(&(stet_sets){.words = (stet_subst *)(uintptr_t)r->desc->lists(r->state)},
                         lists); /* only read */
        buf_printf(b, ",\"lists\":\"%s\"", lists);
    }
    return buf_status(b);
}

/* ---- lines -------------------------------------------------------------------------------- */

stet_status cert_file_header(const stet_certify_args *a, size_t texts, buf *b)
{
    const size_t from = b->n;
    size_t len;
    const char *name = path_last(a->model_name ? a->model_name : "", &len);
    stet_identity is;
    char data[SHA256_HEX], sets[SHA256_HEX];
    TRY(stet_model_identity(a->model, &is));
    stet_dataset_sha256(a->data, data);
    stet_sets_sha256(a->sets, sets);
    buf_printf(b,
               "{\"stet_certificates\":2,\"kind\":\"%s\",\"sha256\":{\"config\":\"%s\",\"weights\":"
               "\"%s\",\"vocabulary\":\"%s\",\"data\":\"%s\",\"sets\":\"%s\"}",
               ensemble_of(a->model) ? "ensemble" : stet_model_kind(a->model), is.config, is.weights, is.vocabulary, data, sets);
    if (cert_by_draws(a->model))
        TRY(put_rule(b, a->model->rule));
    else
        buf_str(b, ",\"arithmetic\":{\"type\":\"float32\",\"order\":\"any\",\"fused\":\"any\"}");
    put_budget(b, a->how.budget);
    buf_printf(b, ",\"texts\":%zu,\"note\":{\"model\":", texts);
    buf_json_string(b, name, len);
    buf_printf(b, ",\"method\":\"%s\",\"complete\":%s,\"refine\":%zu,\"largest\":%s",
               a->how.method ? a->how.method : "auto", a->how.complete ? "true" : "false",
               a->how.refine, a->how.largest ? "true" : "false");
    buf_str(b, ",\"time_limit\":");
    put_real(b, a->how.time_limit);
    buf_char(b, '}');
    put_sum(b, from);
    return buf_status(b);
}

static void put_edits(buf *b, const stet_certifier *c, const stet_tokens *tokens,
                      const stet_choices *choices, const stet_certificate *r)
{
    buf_str(b, ",\"edits\":[");
    for (size_t i = 0; i < r->n_edits; i++) {
        const uint32_t pos = r->edits[i].pos, start = c->text.start[pos];
        uint32_t choice = 0;
        while (c->text.id[start + choice] != r->edits[i].word)
            choice++;
        buf_printf(b, "%s[%" PRIu32 ",", i ? "," : "", pos);
        put_string(b, word_of(choices, tokens, pos, choice));
        buf_char(b, ']');
    }
    buf_printf(b, "],\"after\":%d", c->after);
}

/* What the summary of a run needs beside the claims; nobody checks it. */
static void put_note(buf *b, const stet_certificate *r)
{
    buf_str(b, ",\"note\":{\"probability\":");
    put_real(b, r->probability);
    buf_str(b, ",\"margin\":");
    put_real(b, r->margin);
    buf_str(b, ",\"slack\":");
    put_real(b, r->slack);
    buf_printf(b, ",\"method\":\"%s\"", r->method);
    if (r->branches)
        buf_printf(b, ",\"branches\":%zu", r->branches);
    if (r->reason) {
        buf_str(b, ",\"reason\":");
        put_string(b, r->reason);
    }
    buf_char(b, '}');
}

stet_status cert_file_line(const stet_certifier *c, size_t index, const stet_tokens *tokens,
                           const stet_choices *choices, const stet_certificate *r, buf *b)
{
    const size_t from = b->n;
    buf_printf(b, "{\"text\":%zu,\"label\":%d,\"answer\":", index, r->label);
    if (r->answer < 0)
        buf_str(b, "null");
    else
        buf_printf(b, "%d", r->answer);
    buf_printf(b, ",\"verdict\":\"%s\"", stet_verdict_name(r->verdict));
    put_budget(b, r->budget);
    buf_str(b, ",\"clean\":");
    put_real(b, r->clean);
    put_words(b, tokens, choices);
    if (c->evidence.n) {
        buf_str(b, ",\"votes\":{");
        buf_bytes(b, c->evidence.data, c->evidence.n);
        buf_char(b, '}');
    } else if (r->verdict == STET_CERTIFIED && c->tree.n > 1) {
        buf_str(b, ",\"tree\":");
        put_tree(&(tree_ink){b, &c->tree, tokens, choices});
    } else if (r->verdict == STET_CERTIFIED || r->budget > 0) {
        buf_str(b, ",\"claims\":");
        put_claims(b, c, &c->proof);
    }
    if (r->verdict == STET_BROKEN)
        put_edits(b, c, tokens, choices, r);
    put_note(b, r);
    put_sum(b, from);
    return buf_status(b);
}
