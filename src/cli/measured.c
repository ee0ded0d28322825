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
                           .sets_path = m->sets_path,
                           .model_fingerprint = m->model_fingerprint,
                           .data_fingerprint = m->data_fingerprint};
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
