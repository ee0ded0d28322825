/* tests/fuzz/fuzz_attack_log.c - the log of an attack that goes on; a file that is not one stays as it is. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attack/record.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char header[] = "{\"attack\":\"pwws\",\"version\":1,\"settings\":{}}";
    record r[3] = {{.index = 0}, {.index = 2}, {.index = 7}};
    attack_log log;
    size_t resumed;
    fuzz_put("log", data, size);
    char path[256];
    snprintf(path, sizeof path, "%s/log", fuzz_folder());
    const stet_status st = attack_log_open(&log, path, "pwws", header, r, 3, &resumed);
    attack_log_close(&log);
    if (st == STET_EFORMAT) {
        char *now = malloc(size + 1);
        FILE *f = fopen(path, "r");
        if (!now || !f || fread(now, 1, size + 1, f) != size || memcmp(now, data, size) != 0)
            abort();
        fclose(f);
        free(now);
    }
    for (int i = 0; i < 3; i++)
        mem_free(r[i].line);
    return 0;
}
