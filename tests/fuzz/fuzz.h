/* tests/fuzz/fuzz.h - hostile input for everything that reads a file.
 *
 * fuzz_<name>.c defines LLVMFuzzerTestOneInput: hand the bytes to a reader, use what it gives, and
 * release it. Any answer is right except a crash, a sanitizer's report or a hang. Good inputs to
 * start from lie in corpus/<name>/; a line `stet_fuzz(fuzz_<name>.c LAYER text)` in CMakeLists.txt
 * adds the target:
 *
 * - with STET_FUZZ (clang, the preset "fuzz") it is a libFuzzer program:
 *       fuzz_json -max_total_time=600 work-folder tests/fuzz/corpus/json
 * - otherwise driver.c runs it on the corpus and some two thousand mutations of it, always the
 *   same, as an ordinary test. A run that dies is named, and `fuzz_json CORPUS N` repeats it. */
#ifndef STET_FUZZ_H
#define STET_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The path of an in-memory file with these bytes, for readers that take a path; until the next call
 * it can be opened. It is for stet's own code: other libraries and stdio do not see it. */
const char *fuzz_file(const uint8_t *data, size_t size);

/* Whether this is a compressed file. Readers of small texts leave those to fuzz_stream: some bytes become megabytes of the
 * same character, and most of the time would go there. */
static inline bool fuzz_packed(const uint8_t *data, size_t size)
{
    return size >= 4 && (memcmp(data, "\x1f\x8b", 2) == 0 || memcmp(data, "\xfd\x37zX", 4) == 0 ||
                         memcmp(data, "\x28\xb5\x2f\xfd", 4) == 0);
}

/* A folder for readers of folders, removed at the end; in it an in-memory file, likewise; and all
 * small files that lie there taken into memory. */
const char *fuzz_folder(void);
void fuzz_put(const char *name, const uint8_t *data, size_t size);
void fuzz_take_folder(void);

#endif
