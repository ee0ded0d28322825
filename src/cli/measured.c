/* cli/measured.c - see cli/measured.h. */
#include "cli/measured.h"

#include <stdlib.h>
#include <string.h>

#include "stet/measured.h"

const char *cli_last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Strings with a slash are paths. */
static void shorten(json_t *v)
{
    if (json_is_string(v))
        json_string_set(v, cli_last_part(json_string_value(v)));
    for (size_t i = 0; i < json_array_size(v); i++)
        shorten(json_array_get(v, i));
}

void cli_shorten_paths(json_t *config)
{
    const char *key;
    json_t *v;
    json_object_foreach(config, key, v) shorten(v);
}

/* ---- results ------------------------------------------------------------------------------ */

/* As the library takes it; `config` is released by the caller. */
static stet_measured measured(const cli_measured *m, char **config)
{
    const cli_common *common = m->cfg;
    *config = NULL;
    if (stet_opt_json(m->cmd->opts, m->cfg, config) != STET_OK)
        *config = NULL;
    return (stet_measured){.size = sizeof(stet_measured),
                           .command = m->cmd->name,
                           .dir = m->dir,
                           .name = m->name,
                           .config = *config,
                           .seed = common->seed,
                           .model = m->model,
                           .data = m->data,
                           .data_path = m->data_path,
                           .texts = m->texts,
                           .sets = m->sets,
                           .sets_path = m->sets_path};
}

void cli_record(const cli_measured *m, json_t *numbers)
{
    char *config, *text = numbers ? json_dumps(numbers, 0) : NULL;
    const stet_measured as = measured(m, &config);
    if (!text || !config)
        cli_warn("warning: results not kept in %s: out of memory", m->dir);
    else if (stet_measured_write(&as, text) != STET_OK)
        cli_warn("warning: results not kept (--no-record does without): %s", stet_last_error());
    free(text);
    stet_free(config);
    json_decref(numbers);
}

json_t *cli_recorded(const cli_measured *m)
{
    char *config, *text = NULL;
    json_t *found = NULL;
    const stet_measured as = measured(m, &config);
    if (config && stet_measured_read(&as, &text) == STET_OK && text)
        found = json_loads(text, 0, NULL);
    stet_free(text);
    stet_free(config);
    return found;
}

/* ---- attacked texts ----------------------------------------------------------------------- */

/* Fewest changed words first: the shorter the way, the more telling. Then the surest before. */
static bool before(const json_t *a, const json_t *b)
{
    const json_int_t na = json_integer_value(json_object_get(a, "changed")),
                     nb = json_integer_value(json_object_get(b, "changed"));
    if (na != nb)
        return na < nb;
    return json_number_value(json_object_get(a, "before")) >
           json_number_value(json_object_get(b, "before"));
}

/* Do both begin with the same swap? One of them tells enough. */
static bool alike(const json_t *a, const json_t *b)
{
    const json_t *x = json_array_get(json_object_get(a, "changes"), 0),
                 *y = json_array_get(json_object_get(b, "changes"), 0);
    return x && y && json_equal(json_object_get(x, "from"), json_object_get(y, "from")) &&
           json_equal(json_object_get(x, "to"), json_object_get(y, "to"));
}

static void drop_keys(json_t *o, const char *const *keys)
{
    for (; *keys; keys++)
        json_object_del(o, *keys);
}

static void keep_example(cli_examples *e, json_t *o)
{
    for (size_t i = 0; i < json_array_size(e->examples); i++)
        if (alike(o, json_array_get(e->examples, i))) {
            if (!before(o, json_array_get(e->examples, i)))
                return;
            json_array_remove(e->examples, i);
            break;
        }
    size_t at = json_array_size(e->examples);
    while (at > 0 && before(o, json_array_get(e->examples, at - 1)))
        at--;
    json_array_insert(e->examples, at, o);
    if (json_array_size(e->examples) > CLI_EXAMPLES)
        json_array_remove(e->examples, CLI_EXAMPLES);
}

/* ---- every flipped text, in brief --------------------------------------------------------- */

enum { CONTEXT = 60, BRIEF = 4096 };
typedef struct brief {
    char text[BRIEF];
    size_t n;
} brief;

static void copy(brief *b, const char *s, size_t n)
{
    n = n < BRIEF - 1 - b->n ? n : BRIEF - 1 - b->n;
    memcpy(b->text + b->n, s, n);
    b->n += n;
}

/* The text from `from` to `to`; of a long stretch only its ends, cut at a space. */
static void copy_between(brief *b, const char *t, size_t from, size_t to, size_t len)
{
    size_t left = from == 0 ? 0 : from + CONTEXT, right = to < CONTEXT ? 0 : to - CONTEXT;
    right = to == len ? len : right;
    while (from > 0 && left < to && t[left] != ' ')
        left++;
    while (to < len && right > from && t[right] != ' ')
        right--;
    if (left >= right) {
        copy(b, t + from, to - from);
        return;
    }
    copy(b, t + from, left > from ? left - from : 0);
    copy(b, from == 0 ? "… " : " … ", from == 0 ? 4 : 5);
    copy(b, t + right, to - right);
}

/* The record with its text cut down; the places of its changes move along. */
static json_t *brief_of(const json_t *o)
{
    const json_t *text = json_object_get(o, "text"), *c;
    const char *t = json_string_value(text);
    const size_t len = json_string_length(text);
    json_t *changes = json_array();
    brief b = {.n = 0};
    size_t done = 0, k;
    json_array_foreach(json_object_get(o, "changes"), k, c)
    {
        const size_t start = (size_t)json_integer_value(json_object_get(c, "start")),
                     end = (size_t)json_integer_value(json_object_get(c, "end"));
        if (!t || start < done || end < start || end > len || b.n > BRIEF / 2)
            continue;
        copy_between(&b, t, done, start, len);
        const json_int_t at = (json_int_t)b.n;
        copy(&b, t + start, end - start);
        json_t *moved = json_copy((json_t *)c);
        json_object_set_new(moved, "start", json_integer(at));
        json_object_set_new(moved, "end", json_integer((json_int_t)b.n));
        json_array_append_new(changes, moved);
        done = end;
    }
    if (t)
        copy_between(&b, t, done, len, len);
    json_t *out = json_copy((json_t *)o);
    json_object_set_new(out, "changes", changes);
    json_object_set_new(out, "text", json_stringn_nocheck(b.text, b.n));
    return out;
}

void cli_examples_add(void *user, const char *line)
{
    static const char *const of_no_use[] = {"attack",      "outcome",    "adversarial",
                                            "evaluations", "candidates", NULL};
    cli_examples *e = user;
    json_t *o = json_loads(line, 0, NULL);
    const char *outcome = json_string_value(json_object_get(o, "outcome"));
    json_t *index = json_object_get(o, "index");
    const char *error = json_string_value(json_object_get(o, "error"));
    if (error && !*e->error)
        snprintf(e->error, sizeof e->error, "%s", error);
    if (outcome && strcmp(outcome, "wrong") == 0)
        json_array_append(e->wrong, index);
    if (outcome && strcmp(outcome, "success") == 0) {
        json_array_append(e->flipped, index);
        drop_keys(o, of_no_use);
        if (json_array_size(e->flips) < CLI_FLIPS)
            json_array_append_new(e->flips, brief_of(o));
        keep_example(e, o);
    }
    json_decref(o);
}

void cli_examples_init(cli_examples *e)
{
    *e = (cli_examples){json_array(), json_array(), json_array(), json_array(), ""};
}

void cli_examples_join(const cli_examples *e, json_t *numbers)
{
    json_object_update_new(numbers,
                           json_pack("{s:O, s:O, s:O, s:O}", "examples", e->examples, "flips",
                                     e->flips, "flipped", e->flipped, "wrong", e->wrong));
}

void cli_examples_deinit(cli_examples *e)
{
    json_decref(e->examples);
    json_decref(e->flips);
    json_decref(e->flipped);
    json_decref(e->wrong);
}
