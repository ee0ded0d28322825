/* certify/cert_resume.c - what an unfinished file of certificates says of a text: enough to go on as if
 * it had just been computed. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "certify/certifier.h"

/* A torn or edited line does not have the sum that it ends with. */
static stet_status check_sum(const char *line, size_t len)
{
    static const char key[] = ",\"sum\":\"";
    enum { TAIL = sizeof key - 1 + SHA256_HEX - 1 + 2 }; /* key, digits, "} */
    char hex[SHA256_HEX];
    sha256 h;
    if (len > TAIL && memcmp(line + len - TAIL, key, sizeof key - 1) == 0) {
        sha256_init(&h);
        sha256_add(&h, line, len - TAIL);
        sha256_hex(&h, hex);
        if (memcmp(line + len - TAIL + sizeof key - 1, hex, SHA256_HEX - 1) == 0)
            return STET_OK;
    }
    return error_set(STET_EFORMAT, "damaged: remove the file, or its lines from here on");
}

/* The family's own string, so that methods are compared by address; or the rule's. */
static const char *own_name(const cert_shared *s, const char *name)
{
    const cert_family *f = s->family;
    if (cert_by_rule(s->m))
        return strcmp(s->m->rule->desc->name, name) == 0 ? s->m->rule->desc->name : "none";
    for (size_t m = 0; f->methods[m]; m++)
        if (strcmp(f->methods[m], name) == 0)
            return f->methods[m];
    return strcmp(name, cert_enumerate_name) == 0 ? cert_enumerate_name : "none";
}

static double real_or(const json_t *v, double otherwise)
{
    return json_is_number(v) ? json_number_value(v) : otherwise;
}

/* Proofs and statements by votes never stand in one file. */
static stet_status read_verdict(const cert_shared *s, const json_t *o, stet_verdict *out)
{
    const char *name;
    TRY(json_get_str(o, "line", "verdict", &name));
    int v = 0;
    while (v < STET_VERDICTS && strcmp(stet_verdict_name((stet_verdict)v), name) != 0)
        v++;
    if (v == STET_VERDICTS)
        return error_set(STET_EFORMAT, "unknown verdict \"%.40s\"", name);
    *out = (stet_verdict)v;
    const bool votes = json_object_get(o, "votes") != NULL, by_draws = cert_by_draws(s->m);
    const bool proof = v == STET_CERTIFIED || v == STET_BROKEN;
    if ((by_draws && proof) || (!by_draws && votes) || (v == STET_LIKELY && !votes))
        return error_set(STET_EFORMAT, "verdict \"%s\" %s \"votes\": not a line of this run",
                         name, votes ? "with" : "without");
    return STET_OK;
}

/* null, or a whole number up to `most`. */
static stet_status read_whole(const json_t *o, const char *key, size_t most, size_t null,
                              size_t *out)
{
    int64_t v;
    *out = null;
    if (json_is_null(json_object_get(o, key)))
        return STET_OK;
    TRY(json_get_int(o, "line", key, 0, (int64_t)most, &v));
    *out = (size_t)v;
    return STET_OK;
}

static stet_status read_line(const cert_shared *s, const json_t *o, size_t index,
                             stet_certificate *out)
{
    const json_t *note = json_object_get(o, "note"), *reason = json_object_get(note, "reason");
    int64_t text, label;
    size_t answer, budget;
    stet_verdict verdict = STET_WRONG;
    const char *method;
    TRY(json_get_int(o, "line", "text", 0, INT64_MAX, &text));
    TRY(json_get_int(o, "line", "label", 0, (int64_t)s->m->n_classes - 1, &label));
    TRY(read_whole(o, "answer", s->m->n_classes - 1, SIZE_MAX, &answer));
    TRY(read_whole(o, "budget", s->m->max_len, STET_ANY, &budget));
    TRY(read_verdict(s, o, &verdict));
    TRY(json_get_str(note, "note", "method", &method));
    if ((size_t)text != index)
        return error_set(STET_EFORMAT, "text %lld where text %zu was expected", (long long)text,
                         index);
    if (reason && !json_is_string(reason))
        return error_set(STET_EFORMAT, "\"reason\": expected a string");
    *out = (stet_certificate){
        .verdict = verdict,
        .label = (int)label,
        .answer = answer == SIZE_MAX ? -1 : (int)answer,
        .clean = real_or(json_object_get(o, "clean"), -INFINITY),
        .probability = real_or(json_object_get(note, "probability"), NAN),
        .margin = real_or(json_object_get(note, "margin"), -INFINITY),
        .slack = real_or(json_object_get(note, "slack"), 0),
        .method = own_name(s, method),
        .confidence = cert_confidence(s->m),
        .budget = budget,
        .branches = (size_t)json_integer_value(json_object_get(note, "branches"))};
    if (reason && !(out->reason = mem_strdup(json_string_value(reason))))
        return STET_ENOMEM;
    return STET_OK;
}

stet_status cert_resume_line(const cert_shared *s, const char *line, size_t len, size_t index,
                             stet_certificate *out)
{
    json_t *o = NULL;
    TRY(check_sum(line, len));
    TRY(json_read_text("line", line, len, &o));
    const stet_status st = read_line(s, o, index, out);
    json_decref(o);
    return st;
}

/* The substitute `word` at a position, as a word of the run; UINT32_MAX: it is not in the set. */
static uint32_t id_of(const stet_choices *c, size_t pos, const char *word)
{
    for (uint32_t k = pos < c->n ? c->start[pos] : 0; pos < c->n && k < c->start[pos + 1]; k++)
        if (strcmp(c->text[k], word) == 0)
            return c->word[k];
    return UINT32_MAX;
}

stet_status cert_resume_edits(const char *line, const stet_choices *choices, stet_certificate *out)
{
    json_t *o = NULL, *edits;
    TRY(json_read_text("line", line, strlen(line), &o));
    edits = json_object_get(o, "edits");
    const size_t n = json_array_size(edits);
    out->edits = mem_alloc(n + 1, sizeof *out->edits);
    stet_status st = out->edits ? STET_OK : STET_ENOMEM;
    for (size_t i = 0; st == STET_OK && i < n; i++) {
        const json_t *e = json_array_get(edits, i);
        const char *word = json_string_value(json_array_get(e, 1));
        const size_t pos = (size_t)json_integer_value(json_array_get(e, 0));
        const uint32_t id = word ? id_of(choices, pos, word) : UINT32_MAX;
        if (id == UINT32_MAX)
            st = error_set(STET_EFORMAT, "\"edits\": a word that no set has");
        else
            out->edits[out->n_edits++] = (stet_edit){(uint32_t)pos, id};
    }
    json_decref(o);
    return st;
}
