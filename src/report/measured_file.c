/* report/measured_file.c - see stet/measured.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/args.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "report/measured_impl.h"
#include "stet/measured.h"
#include "stet/results.h"

static stet_status no_memory(void)
{
    return error_set(STET_ENOMEM, "out of memory for a result");
}

static json_t *fingerprint(uint64_t f)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, f);
    return json_string(text);
}

static json_t *model_print(const stet_measured *m)
{
    return m->model_fingerprint ? json_string(m->model_fingerprint)
                                : fingerprint(stet_model_fingerprint(m->model));
}

static json_t *data_print(const stet_measured *m)
{
    return m->data_fingerprint ? json_string(m->data_fingerprint)
                               : fingerprint(stet_dataset_fingerprint(m->data));
}

json_t *measured_string(const char *s, size_t n)
{
    buf b = {0};
    json_t *o = NULL;
    buf_json_string(&b, s, n);
    if (buf_status(&b) == STET_OK)
        (void)!json_read_text("string", b.data, b.n, &o);
    buf_deinit(&b);
    return o;
}

static json_t *last_part(const char *path)
{
    size_t n;
    const char *part = path_last(path ? path : "", &n);
    return measured_string(part, n);
}

/* ---- identity ----------------------------------------------------------------------------- */

/* Options that say how a result is computed, shown or named, not what it is the result of; files
 * are there by their contents. */
static const char *const not_identity[] = {
    "json", "threads", "device", "progress", "quiet",    "verbose", "record", "out",         "log",
    "html", "require", "data",   "attack",   "synonyms", "top",     "show",   "certificates"};

static uint64_t fnv(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

/* Eight digits that tell results of other data, samples or settings apart. */
static void set_identity(json_t *o, const stet_measured *m)
{
    json_t *of = json_object(), *v;
    const char *key;
    json_object_foreach(json_object_get(o, "config"), key, v) if (!json_is_null(v))
        json_object_set(of, key, v);
    for (size_t i = 0; i < sizeof not_identity / sizeof *not_identity; i++)
        json_object_del(of, not_identity[i]);
    json_object_set_new(of, "data", m->data || m->data_fingerprint ? data_print(m) : json_null());
    json_object_set_new(of, "sets",
                        m->sets ? fingerprint(stet_sets_fingerprint(m->sets)) : json_null());
    char *text, hex[9];
    const stet_status st = json_text(of, JSON_COMPACT | JSON_SORT_KEYS, &text);
    json_decref(of);
    if (st != STET_OK)
        return;
    snprintf(hex, sizeof hex, "%08" PRIx32, (uint32_t)(fnv(text) >> 32));
    json_object_set_new(o, "identity", json_string(hex));
    mem_free(text);
}

/* ---- the object --------------------------------------------------------------------------- */

/* Strings with a slash are paths. */
static void shorten(json_t *v)
{
    const char *slash = json_is_string(v) ? strrchr(json_string_value(v), '/') : NULL;
    if (slash && slash[1]) {
        char *part = mem_strdup(slash + 1);
        if (part)
            json_string_set(v, part);
        mem_free(part);
    }
    for (size_t i = 0; i < json_array_size(v); i++)
        shorten(json_array_get(v, i));
}

void measured_shorten(json_t *config)
{
    const char *key;
    json_t *v;
    json_object_foreach(config, key, v) shorten(v);
}

/* What was measured: enough to tell two results apart. */
static stet_status make_head(const stet_measured *m, json_t **out)
{
    json_t *config = NULL;
    *out = NULL;
    if (m->config)
        TRY(json_read_text("config", m->config, strlen(m->config), &config));
    measured_shorten(config);
    json_t *o = json_pack("{s:i, s:s, s:s, s:o}", "schema", 1, "version", stet_version(), "command",
                          m->command, "config", config ? config : json_object());
    if (!o)
        return no_memory();
    set_identity(o, m);
    json_object_set_new(o, "seed", json_integer(m->seed));
    if (m->model || m->model_fingerprint)
        json_object_set_new(o, "model_fingerprint", model_print(m));
    *out = o;
    return STET_OK;
}

static stet_status make(const stet_measured *m, const char *numbers, json_t **out)
{
    json_t *more = NULL;
    TRY(make_head(m, out));
    if (m->data)
        json_object_set_new(*out, "data",
                            json_pack("{s:o, s:o, s:I, s:I}", "name", last_part(m->data_path),
                                      "fingerprint", data_print(m), "texts",
                                      (json_int_t)stet_dataset_size(m->data), "measured",
                                      (json_int_t)m->texts));
    if (m->sets)
        json_object_set_new(*out, "synonyms",
                            json_pack("{s:o, s:o}", "name", last_part(m->sets_path), "fingerprint",
                                      fingerprint(stet_sets_fingerprint(m->sets))));
    const stet_status st = json_read_text("numbers", numbers, strlen(numbers), &more);
    if (st == STET_OK)
        json_object_update(*out, more);
    json_decref(more);
    return st;
}

void stet_measured_init(stet_measured *m, size_t size)
{
    const stet_measured defaults = {.seed = 1};
    args_init(m, size, &defaults, sizeof defaults);
}

static stet_status take(stet_measured *own, const stet_measured *given)
{
    json_guard();
    TRY(ARGS_TAKE(own, given));
    return own->command && own->dir && own->name
               ? STET_OK
               : error_set(STET_EUSAGE, "a result needs a command, a folder and a name");
}

stet_status stet_measured_write(const stet_measured *given, const char *numbers)
{
    stet_measured m = {0};
    json_t *o = NULL;
    char *text = NULL;
    TRY(take(&m, given));
    const size_t failures = mem_failures(); /* jansson leaves out what it has no memory for */
    stet_status st = make(&m, numbers, &o);
    if (st == STET_OK)
        st = json_text(o, JSON_REAL_PRECISION(10), &text);
    if (st == STET_OK && mem_failures() != failures)
        st = no_memory();
    if (st == STET_OK)
        st = stet_results_write(m.dir, m.name, text);
    mem_free(text);
    json_decref(o);
    return st;
}

/* ---- reading ------------------------------------------------------------------------------ */

static bool same_at(const json_t *a, const json_t *b, const char *key)
{
    const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
    return x && y ? json_equal(x, y) : x == y;
}

/* DIR/results/NAME[-IDENTITY].json, if it is the result; else *out stays NULL. */
static stet_status read_if_same(const stet_measured *m, const char *identity, const json_t *head,
                                char **out)
{
    buf path = {0}, line = {0};
    json_t *o = NULL;
    bool there = false;
    buf_printf(&path, "%s/results/%s%s%s.json", m->dir, m->name, *identity ? "-" : "", identity);
    stet_status st = buf_status(&path);
    if (st == STET_OK)
        st = file_look(path.data, &there);
    if (st == STET_OK && there)
        st = json_read_own(path.data, &o);
    if (st == STET_OK && o && same_at(o, head, "command") && same_at(o, head, "identity") &&
        same_at(o, head, "model_fingerprint")) {
        json_append_line(&line, o);
        st = buf_status(&line);
        if (st == STET_OK)
            *out = buf_take(&line);
    }
    json_decref(o);
    buf_deinit(&line);
    buf_deinit(&path);
    return st;
}

/* Other results of the folder are left alone: they may be many and large. */
stet_status stet_measured_read(const stet_measured *given, char **json)
{
    stet_measured m = {0};
    json_t *head = NULL;
    *json = NULL;
    TRY(take(&m, given));
    const size_t failures = mem_failures();
    TRY(make_head(&m, &head));
    const char *identity = json_string_value(json_object_get(head, "identity"));
    stet_status st = identity && mem_failures() == failures ? STET_OK : no_memory();
    if (st == STET_OK)
        st = read_if_same(&m, "", head, json);
    if ((st == STET_OK || st == STET_EFORMAT) && !*json) { /* beside a damaged one, too */
        const stet_status other = read_if_same(&m, identity, head, json);
        st = other != STET_OK || *json ? other : st;
    }
    json_decref(head);
    return st;
}
