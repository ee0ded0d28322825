/* cli/source.c - see cli/source.h. */
#include "cli/source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stet/simple.h"

stet_status cli_data_load(const cli_source *s, const stet_model *m, stet_dataset **out)
{
    stet_data_options how = STET_DATA_DEFAULTS;
    how.label = s->label;
    how.text = s->text;
    how.skip_bad = s->skip_bad;
    return m ? stet_model_data(m, s->data, &how, out) : stet_dataset_load(s->data, &how, out);
}

static stet_status choose_texts(const cli_source *s, uint64_t seed, cli_texts *out)
{
    out->index = malloc((stet_dataset_size(out->data) + 1) * sizeof *out->index);
    if (!out->index)
        return cli_fail(STET_ENOMEM, "out of memory");
    const stet_status st =
        stet_sets_sample(&out->sets, out->data, (size_t)s->limit, seed, out->index, &out->n_index);
    if (st == STET_OK && out->n_index == 0 && out->sets.texts)
        return cli_usage("--synonyms %s: none of its %zu texts is in %s", s->synonyms,
                         stet_subst_texts_count(out->sets.texts), s->data);
    return st;
}

/* "2/4": the second quarter of the sample. */
static stet_status take_shard(const char *shard, cli_texts *t)
{
    unsigned i = 0, n = 0;
    char rest = 0;
    size_t from, to;
    if (sscanf(shard, "%u/%u%c", &i, &n, &rest) != 2 || i < 1 || i > n)
        return cli_usage("--shard %s: expected I/N (part I of N), such as 1/4", shard);
    const stet_status st = stet_shard(t->n_index, i, n, &from, &to);
    if (st == STET_OK) {
        memmove(t->index, t->index + from, (to - from) * sizeof *t->index);
        t->n_index = to - from;
    }
    return st;
}

stet_status cli_cut_add(cli_cut *c, const stet_model *m, const char *text, size_t len)
{
    size_t pieces;
    const stet_status st = stet_text_cut(m, text, len, &pieces);
    c->texts++;
    if (st == STET_OK && pieces) {
        c->pieces = pieces;
        c->cut++;
    }
    return st;
}

void cli_cut_note(const cli_cut *c)
{
    if (c->cut)
        cli_note("%zu of %zu texts have more than %zu pieces: the rest of each is not read", c->cut,
                 c->texts, c->pieces);
}

static stet_status tell_cut(const cli_texts *t)
{
    cli_cut c = {0};
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < t->n_index; i++) {
        const stet_str text = stet_dataset_text(t->data, t->index[i]);
        st = cli_cut_add(&c, t->model, text.data, text.len);
    }
    cli_cut_note(&c);
    return st;
}

stet_status cli_texts_load(const cli_source *s, const char *dir, uint64_t seed, cli_texts *out)
{
    if (!s->data || !s->synonyms)
        return cli_usage("expected --data FILE and --synonyms SET");
    stet_status st = dir ? stet_model_load(dir, &out->model) : STET_OK;
    if (st == STET_OK)
        st = cli_data_load(s, out->model, &out->data);
    if (st == STET_OK)
        st = stet_sets_load(s->synonyms, &out->sets);
    if (st == STET_OK)
        st = choose_texts(s, seed, out);
    if (st == STET_OK && s->shard)
        st = take_shard(s->shard, out);
    if (st == STET_OK && out->model)
        st = tell_cut(out);
    return st;
}

void cli_texts_free(cli_texts *t)
{
    free(t->index);
    stet_sets_free(&t->sets);
    stet_dataset_free(t->data);
    stet_model_free(t->model);
    *t = (cli_texts){0};
}

void cli_note_no_swaps(const cli_source *s)
{
    cli_note(
        "warning: --synonyms %s has no substitute for any word of these texts: nothing was tried",
        s->synonyms);
}

stet_status cli_sets_beside(const char *dir, char *out, size_t size)
{
    const int n = snprintf(out, size, "%s/../synonyms.subst", dir);
    if (n > 0 && (size_t)n < size && access(out, R_OK) == 0)
        return STET_OK;
    return cli_usage("expected --synonyms SET; 'stet synonyms build --data FILE -o SET' makes one "
                     "from WordNet");
}
