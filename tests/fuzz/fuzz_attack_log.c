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
    static char path[256];
    static int fd = -1; /* stays open: half of the time went into opening */
    if (fd < 0) {
        snprintf(path, sizeof path, "%s/log", fuzz_folder());
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    }
    if (ftruncate(fd, (off_t)size) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    if (frame_init(&f, &none, NULL, 3) != STET_OK)
        abort();
    const stet_status st = attack_log_open(&f, path, "pwws", header, r, &resumed);
    if (st == STET_EFORMAT) {
        char *now = malloc(size + 1);
        if (!now || pread(fd, now, size + 1, 0) != (ssize_t)size || memcmp(now, data, size) != 0)
            abort();
        free(now);
    }
    frame_deinit(&f);
    return 0;
}
