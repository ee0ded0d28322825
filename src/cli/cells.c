/* cli/cells.c - see cells.h: cells and their stages, and which of them are done. The processes are in
 * cell_jobs.c. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cell_jobs.h"
#include "cli/measured.h"

/* ---- making ------------------------------------------------------------------------------- */

static char *copy_of(const char *s)
{
    char *out = strdup(s);
    return out ? out : cli_no_memory();
}

/* Room for one more after n; the sizes are powers of two. */
static void *grown(void *v, size_t n, size_t each)
{
    if (n & (n - 1))
        return v;
    void *out = realloc(v, (n ? 2 * n : 1) * each);
    return out ? out : cli_no_memory();
}

cli_cell *cells_add(cli_cells *c, const char *dir)
{
    c->v = grown(c->v, c->n, sizeof *c->v);
    cli_cell *x = calloc(1, sizeof *x);
    if (!x)
        cli_no_memory();
    x->dir = copy_of(dir);
    return c->v[c->n++] = x;
}

cli_stage *cell_add(cli_cell *x, const cli_command *cmd)
{
    x->stage = grown(x->stage, x->n_stages, sizeof *x->stage);
    cli_stage *s = &x->stage[x->n_stages++];
    *s = (cli_stage){.cmd = cmd};
    return s;
}

static void add_arg(cli_stage *s, const char *text)
{
    s->arg = grown(s->arg, s->n_args, sizeof *s->arg);
    s->arg[s->n_args++] = copy_of(text);
}

void cell_args(cli_stage *s, const char *first, ...)
{
    va_list args;
    va_start(args, first);
    for (const char *a = first; a; a = va_arg(args, const char *))
        add_arg(s, a);
    va_end(args);
}

void cell_option(cli_stage *s, const char *name, const char *value)
{
    if (value)
        cell_args(s, name, value, NULL);
}

void cell_number(cli_stage *s, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    cell_args(s, name, text, NULL);
}

void cell_source(cli_stage *s, const cli_source *from)
{
    s->source = *from;
    cell_option(s, "--data", from->data);
    cell_option(s, "--label", from->label);
    cell_option(s, "--text", from->text);
    cell_option(s, "--synonyms", from->synonyms);
    if (from->skip_bad)
        cell_args(s, "--skip-bad", NULL);
    if (from->limit)
        cell_number(s, "--limit", from->limit);
}

bool cell_done(const cli_cell *x)
{
    return x->at == x->n_stages;
}

const json_t *cell_record(const cli_cell *x, const char *name, const char *synonyms)
{
    for (size_t i = 0; i < x->n_stages; i++) {
        const cli_stage *s = &x->stage[i];
        const char *of = s->source.synonyms;
        if (strcmp(s->output ? s->output : s->result, name) == 0 &&
            (!synonyms || (of && strcmp(of, synonyms) == 0)))
            return s->record;
    }
    return NULL;
}

size_t cells_failed(const cli_cells *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        n += c->v[i]->failed;
    return n;
}

/* ---- files that results are about --------------------------------------------------------- */

/* Texts and sets, each read once. Every model has the same classes: those of the data that all are
 * trained on. */
typedef struct file {
    char *path;
    bool plain_classes;
    stet_dataset *data;
    stet_sets sets;
    char print[17]; /* fingerprint of the data: taken once, not for every result */
} file;
typedef struct cell_files {
    file *data, *sets;
    size_t n_data, n_sets;
} cell_files;

static void print_of(uint64_t fingerprint, char out[17])
{
    snprintf(out, 17, "%016" PRIx64, fingerprint);
}

static const file *texts_of(cli_cells *c, const cli_stage *s, const stet_model *m)
{
    cell_files *f = c->files;
    if (!s->source.data)
        return NULL;
    for (size_t i = 0; i < f->n_data; i++)
        if (f->data[i].plain_classes == s->plain_classes &&
            strcmp(f->data[i].path, s->source.data) == 0)
            return &f->data[i];
    stet_dataset *d = NULL;
    if (cli_data_load(&s->source, s->plain_classes ? NULL : m, &d) != STET_OK)
        return NULL; /* the command will say so */
    f->data = grown(f->data, f->n_data, sizeof *f->data);
    file *added = &f->data[f->n_data++];
    *added = (file){.path = copy_of(s->source.data), .plain_classes = s->plain_classes, .data = d};
    print_of(stet_dataset_fingerprint(d), added->print);
    return added;
}

static const stet_sets *sets_of(const cli_cells *c, const char *path)
{
    for (size_t i = 0; path && i < c->files->n_sets; i++)
        if (strcmp(c->files->sets[i].path, path) == 0)
            return &c->files->sets[i].sets;
    return NULL;
}

static stet_status load_sets(cli_cells *c, const char *path)
{
    cell_files *f = c->files;
    stet_sets sets = {0};
    if (!path || sets_of(c, path))
        return STET_OK;
    const stet_status st = stet_sets_load(path, &sets);
    if (st != STET_OK)
        return st;
    f->sets = grown(f->sets, f->n_sets, sizeof *f->sets);
    f->sets[f->n_sets++] = (file){.path = copy_of(path), .sets = sets};
    return STET_OK;
}

static void free_files(cell_files *f)
{
    for (size_t i = 0; f && i < f->n_data; i++) {
        stet_dataset_free(f->data[i].data);
        free(f->data[i].path);
    }
    for (size_t i = 0; f && i < f->n_sets; i++) {
        stet_sets_free(&f->sets[i].sets);
        free(f->sets[i].path);
    }
    if (f) {
        free(f->data);
        free(f->sets);
    }
    free(f);
}

/* ---- what is there already ---------------------------------------------------------------- */

/* The settings of the stage's command, as it would understand its arguments; NULL: it would not. */
static void *settings_of(const cli_cells *c, const cli_stage *s)
{
    void *cfg = calloc(1, s->cmd->cfg_size);
    stet_rest rest;
    size_t skip;
    char **v = cell_command(c, s, &skip);
    size_t n = 0;
    while (v[n])
        n++;
    const stet_status st =
        cfg ? cli_parse(s->cmd, (int)(n - skip), v + skip, cfg, &rest) : STET_ENOMEM;
    if (st == STET_ENOMEM)
        cli_no_memory();
    free(v);
    if (st == STET_OK)
        return cfg;
    free(cfg);
    return NULL;
}

static json_t *measured(cli_cells *c, const cli_cell *x, const cli_stage *s, const stet_model *m,
                        const char *print)
{
    void *cfg = settings_of(c, s);
    const file *texts = cfg ? texts_of(c, s, m) : NULL;
    json_t *found =
        cfg ? cli_recorded(&(cli_measured){.cmd = s->cmd,
                                           .cfg = cfg,
                                           .dir = x->dir,
                                           .name = s->result,
                                           .model = m,
                                           .model_fingerprint = print,
                                           .data = texts ? texts->data : NULL,
                                           .data_fingerprint = texts ? texts->print : NULL,
                                           .sets = sets_of(c, s->source.synonyms)})
            : NULL;
    free(cfg);
    return found;
}

/* Options that say how a command runs, not what comes out. */
static bool is_of_no_effect(const char *option)
{
    static const char *const names[] = {"out",      "resume", "save-every", "json",   "threads",
                                        "progress", "quiet",  "verbose",    "device", NULL};
    for (const char *const *n = names; *n; n++)
        if (strcmp(option, *n) == 0)
            return true;
    return false;
}

/* What a file was made with must be what is asked for now: the table would show numbers of other
 * settings. Options that the program of then did not know are passed over. */
static stet_status same_settings(const cli_cell *x, const char *made, json_t *now, json_t *then)
{
    const char *key;
    json_t *v;
    stet_status st = STET_OK;
    cli_shorten_paths(now);
    cli_shorten_paths(then);
    json_object_foreach(now, key, v)
    {
        const size_t as_printed = JSON_ENCODE_ANY | JSON_REAL_PRECISION(10);
        char *is = json_dumps(v, as_printed),
             *was = json_dumps(json_object_get(then, key), as_printed);
        if (st == STET_OK && is && was && strcmp(is, was) != 0 && !is_of_no_effect(key))
            st = cli_usage("%s: %s with --%s %s, not %s; choose another folder with -o", x->dir,
                           made, key, was, is);
        stet_free(is);
        stet_free(was);
    }
    return st;
}

/* The first object of a file. */
static json_t *output_of(const cli_cell *x, const cli_stage *s)
{
    char path[CELL_PATH];
    cell_path(x, s->output, path);
    return json_load_file(path, JSON_DISABLE_EOF_CHECK, NULL);
}

static stet_status check(cli_cells *c, const cli_cell *x, const cli_stage *s)
{
    void *cfg = settings_of(c, s);
    if (!cfg)
        return cli_usage("stet %s: %s", s->cmd->name, stet_last_error());
    json_t *o = s->output ? output_of(x, s) : NULL, *now = cli_json_start(s->cmd, cfg),
           *then = json_object_get(o, "config");
    const char *made = strcmp(s->cmd->name, "train") == 0 ? "trained" : "made";
    stet_status st = then ? same_settings(x, made, json_object_get(now, "config"), then) : STET_OK;
    json_decref(o);
    json_decref(now);
    free(cfg);
    return st == STET_OK ? load_sets(c, s->source.synonyms) : st;
}

void cell_skip_done(cli_cells *c, cli_cell *x)
{
    stet_model *m = NULL;
    char print[17];
    for (size_t i = x->at; i < x->n_stages; i++) { /* also behind one that is missing */
        cli_stage *s = &x->stage[i];
        if (s->record)
            continue;
        if (!s->output && !m) {
            if (stet_model_load(x->dir, &m) != STET_OK)
                break;
            print_of(stet_model_fingerprint(m), print);
        }
        s->record = s->output ? output_of(x, s) : measured(c, x, s, m, print);
    }
    stet_model_free(m);
    while (x->at < x->n_stages && x->stage[x->at].record)
        x->at++;
}

stet_status cells_run(cli_cells *c)
{
    stet_status st = STET_OK;
    if (!c->files && !(c->files = calloc(1, sizeof *c->files)))
        cli_no_memory();
    for (size_t i = 0; st == STET_OK && i < c->n; i++)
        for (size_t k = 0; st == STET_OK && k < c->v[i]->n_stages; k++)
            st = check(c, c->v[i], &c->v[i]->stage[k]);
    return st == STET_OK ? cell_jobs_run(c) : st;
}

void stage_deinit(cli_stage *s)
{
    for (size_t i = 0; i < s->n_args; i++)
        free(s->arg[i]);
    free(s->arg);
    json_decref(s->record);
}

void cells_deinit(cli_cells *c)
{
    for (size_t i = 0; i < c->n; i++) {
        cli_cell *x = c->v[i];
        for (size_t k = 0; k < x->n_stages; k++)
            stage_deinit(&x->stage[k]);
        free(x->stage);
        free(x->dir);
        free(x);
    }
    free(c->v);
    free_files(c->files);
    *c = (cli_cells){0};
}
