/* tests/fuzz/fuzz_attack_log.c - the log of an attack that goes on; a file that is not one stays as it is. */
#include "fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attack/record.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char header[] = "{\"attack\":\"pwws\",\"version\":1,\"settings\":{}}";
    static const frame_hooks none = {.what = "fuzz"};
    record r[3] = {{.index = 0}, {.index = 2}, {.index = 7}};
    frame f;
    size_t resumed;
    char path[256];
    snprintf(path, sizeof path, "%s/log", fuzz_folder());
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd) != 0)
        abort();
    if (frame_init(&f, &none, NULL, 3) != STET_OK)
        abort();
    const stet_status st = attack_log_open(&f, path, "pwws", header, r, &resumed);
    if (st == STET_EFORMAT) {
        char *now = malloc(size + 1);
        FILE *file = fopen(path, "r");
        if (!now || !file || fread(now, 1, size + 1, file) != size || memcmp(now, data, size) != 0)
            abort();
        fclose(file);
        free(now);
    }
    frame_deinit(&f);
    return 0;
}
