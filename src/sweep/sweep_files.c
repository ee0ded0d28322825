/* sweep/sweep_files.c - see sweep_impl.h: what points are measured with. */
#include <string.h>

#include "sweep/sweep_impl.h"

stet_status sweep_files_init(sweep_files *f, const char *synonyms)
{
    *f = (sweep_files){.n = 0};
    TRY(synonyms ? stet_sets_load(synonyms, &f->sets) : STET_OK);
    pthread_mutex_init(&f->lock, NULL);
    return STET_OK;
}

void sweep_files_deinit(sweep_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        stet_dataset_free(f->data[i].d);
    mem_free(f->data);
    stet_sets_free(&f->sets);
    pthread_mutex_destroy(&f->lock);
}

static stet_status load(const char *path, bool block, const stet_model *m, stet_dataset **out)
{
    stet_data_options how = STET_DATA_DEFAULTS;
    how.label = block ? "label" : NULL;
    how.text = block ? "text" : NULL;
    return m ? stet_model_data(m, path, &how, out) : stet_dataset_load(path, &how, out);
}

static stet_status find(sweep_files *f, const char *path, bool block, const stet_model *m,
                        const stet_dataset **out)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->data[i].plain == !m && strcmp(f->data[i].path, path) == 0) {
            *out = f->data[i].d;
            return STET_OK;
        }
    stet_dataset *d;
    TRY(mem_grow(&f->data, &f->cap, f->n + 1, sizeof *f->data));
    TRY(load(path, block, m, &d));
    f->data[f->n].path = path;
    f->data[f->n].plain = !m;
    f->data[f->n++].d = d;
    *out = d;
    return STET_OK;
}

/* Every model has the same classes: those of the data that all are trained on. */
stet_status sweep_texts(sweep_files *f, const char *path, bool block, const stet_model *m,
                        const stet_dataset **out)
{
    pthread_mutex_lock(&f->lock);
    const stet_status st = find(f, path, block, m, out);
    pthread_mutex_unlock(&f->lock);
    return st;
}
