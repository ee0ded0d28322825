/* train/checkpoint.c - one safetensors file that lets a killed run end in the same bytes: weights,
 * optimiser, position, early stopping, the defence's own state. Random choices need no saving: they
 * derive from (seed, epoch or step). */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "model/word_layer.h"
#include "tensor/safetensors.h"
#include "train/run_state.h"

enum { N_INT = 7, N_REAL = 4 };

static void fingerprint_text(const run_state *r, char out[17])
{
    snprintf(out, 17, "%016" PRIx64, r->p.fingerprint);
}

/* What defence i wants to have again, and its name in the file; no block: nothing. */
static stet_status own_state(const run_state *r, size_t i, char name[64], real **block, size_t *n)
{
    const defense_desc *d = r->defenses.d[i].desc;
    snprintf(name, 64, "defense.%s", d->name);
    *block = NULL;
    return d->saved ? d->saved(r->defenses.d[i].state, block, n) : STET_OK;
}

/* The blocks that live in the run's store: name in the file, place, count. */
enum { N_BLOCKS = 6 };
typedef struct block {
    const char *name;
    real *at;
    size_t n;
} block;

static size_t blocks_of(const run_state *r, block out[N_BLOCKS])
{
    const size_t n = r->p.m->n_values, rows = r->p.m->n_words * model_vector_dim(r->p.m);
    out[0] = (block){"params", r->w.value, n};
    out[1] = (block){"adam.m", r->opt.m, n};
    out[2] = (block){"adam.v", r->opt.v, n};
    if (!r->w.learn)
        return 3;
    out[3] = (block){"vectors", r->w.table, rows};
    out[4] = (block){"vectors.adam.m", r->vectors.m, rows};
    out[5] = (block){"vectors.adam.v", r->vectors.v, rows};
    return 6;
}

/* `host` has room for all blocks. */
static stet_status write_all(run_state *r, const block *b, size_t n_blocks, real *host)
{
    const int64_t ints[N_INT] = {(int64_t)r->at.epoch,       (int64_t)r->at.step_in_epoch,
                                 (int64_t)r->at.step,        (int64_t)r->at.log_size,
                                 (int64_t)r->opt.step,       (int64_t)r->stop.epoch,
                                 (int64_t)r->stop.best_epoch};
    const double reals[N_REAL] = {r->at.loss_sum, r->at.train_loss, r->at.valid_loss, r->stop.best};
    st_tensor t[N_BLOCKS + 2 + MAX_DEFENSES];
    char name[MAX_DEFENSES][64];
    size_t n = 0;
    for (size_t i = 0; i < n_blocks; host += b[i++].n) {
        TRY(store_download(r->store, host, b[i].at, b[i].n * sizeof *host));
        t[n++] = (st_tensor){b[i].name, ST_REAL, shape1(b[i].n), host};
    }
    t[n++] = (st_tensor){"position", ST_I64, shape1(N_INT), ints};
    t[n++] = (st_tensor){"scores", ST_F64, shape1(N_REAL), reals};
    for (size_t i = 0; i < r->defenses.n; i++) {
        size_t own_count;
        real *own;
        TRY(own_state(r, i, name[i], &own, &own_count));
        if (own)
            t[n++] = (st_tensor){name[i], ST_REAL, shape1(own_count), own};
    }
    char print[17];
    fingerprint_text(r, print);
    const char *const metadata[] = {"run", print, NULL};
    return st_write(r->checkpoint_path, t, n, metadata);
}

bool checkpoint_due(const run_state *r)
{
    enum { SHARE = 20 };
    const double short_enough = 0.1;
    return r->save_seconds < short_enough || seconds_now() - r->saved_at >= SHARE * r->save_seconds;
}

stet_status checkpoint_save(run_state *r)
{
    const double start = seconds_now();
    block b[N_BLOCKS];
    const size_t n = blocks_of(r, b);
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += b[i].n;
    real *host = mem_aligned(count, sizeof *host);
    const stet_status st = host ? write_all(r, b, n, host) : STET_ENOMEM;
    mem_free_aligned(host);
    r->saved_at = seconds_now();
    r->save_seconds = r->saved_at - start;
    return st;
}

static stet_status read_all(run_state *r, const st_file *f, real *host)
{
    char print[17];
    fingerprint_text(r, print);
    const char *saved = st_metadata(f, "run");
    if (!saved || strcmp(saved, print) != 0)
        return error_set(STET_EUSAGE,
                         "%s: made with other data, vectors or settings: resume with those, or "
                         "start without --resume",
                         r->checkpoint_path);
    int64_t ints[N_INT];
    double reals[N_REAL];
    block b[N_BLOCKS];
    const size_t n = blocks_of(r, b);
    for (size_t i = 0; i < n; i++) {
        TRY(st_read(f, b[i].name, shape1(b[i].n), host));
        store_upload(r->store, b[i].at, host, b[i].n * sizeof *host);
    }
    TRY(st_read_bytes(f, "position", ST_I64, N_INT, ints));
    TRY(st_read_bytes(f, "scores", ST_F64, N_REAL, reals));
    for (size_t i = 0; i < r->defenses.n; i++) {
        char name[64];
        size_t count;
        real *own;
        TRY(own_state(r, i, name, &own, &count));
        if (own)
            TRY(st_read(f, name, shape1(count), own));
    }
    for (int i = 0; i < N_INT; i++)
        if (ints[i] < 0)
            return error_set(STET_EFORMAT, "%s: negative position", r->checkpoint_path);
    r->at = (position){.epoch = (uint64_t)ints[0],
                       .step_in_epoch = (uint64_t)ints[1],
                       .step = (uint64_t)ints[2],
                       .log_size = (uint64_t)ints[3],
                       .loss_sum = reals[0],
                       .train_loss = reals[1],
                       .valid_loss = reals[2]};
    r->opt.step = (uint64_t)ints[4];
    r->stop.epoch = (uint64_t)ints[5];
    r->stop.best_epoch = (uint64_t)ints[6];
    r->stop.best = reals[3];
    return STET_OK;
}

stet_status checkpoint_load(run_state *r)
{
    if (!file_exists(r->checkpoint_path))
        return error_set(STET_EIO, "%s: no checkpoint to resume from", r->checkpoint_path);
    st_file f;
    TRY(st_open(&f, r->checkpoint_path));
    const size_t rows = r->p.m->n_words * model_vector_dim(r->p.m), values = r->p.m->n_values;
    real *host = mem_aligned(r->w.learn && rows > values ? rows : values, sizeof *host);
    const stet_status st = host ? read_all(r, &f, host) : STET_ENOMEM;
    mem_free_aligned(host);
    st_close(&f);
    return st;
}
