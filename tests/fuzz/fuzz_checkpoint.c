/* tests/fuzz/fuzz_checkpoint.c - the checkpoint of a run of a small model. */
#include "fuzz.h"

#include "fuzz_model.h"
#include "train/run_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static run_state r;
    if (!r.p.m) {
        const optim_options how = OPTIM_DEFAULTS;
        r.p.m = fuzz_model();
        r.p.fingerprint = 0x0123456789abcdef;
        r.store = &host_store;
        r.w.value = malloc(r.p.m->n_values * sizeof *r.w.value);
        if (!r.w.value || optim_init(&r.opt, &how, r.store, r.p.m->n_values) != STET_OK)
            abort();
    }
    r.checkpoint_path = (char *)(uintptr_t)fuzz_file(data, size);
    (void)checkpoint_load(&r);
    return 0;
}
