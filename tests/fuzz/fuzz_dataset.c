/* tests/fuzz/fuzz_dataset.c - the bytes as a corpus of any format, with and without options. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "stet/text.h"
#include "text/utf8.h"

static void use(const stet_dataset *d)
{
    for (size_t i = 0; i < stet_dataset_size(d); i++) {
        const stet_str text = stet_dataset_text(d, i);
        const int label = stet_dataset_label(d, i);
        if (strlen(text.data) != text.len || utf8_check(text.data, text.len) != text.len ||
            label < -1 || label >= (int)stet_dataset_classes(d))
            abort();
    }
}

static void load(const char *path, stet_data_options how)
{
    stet_dataset *d, *again;
    if (stet_dataset_load(path, &how, &d) != STET_OK)
        return;
    use(d);
    how.like = d;
    if (stet_dataset_load(path, &how, &again) != STET_OK ||
        stet_dataset_fingerprint(again) != stet_dataset_fingerprint(d))
        abort(); /* a set has its own classes */
    stet_dataset_free(again);
    stet_dataset_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const stet_data_options ways[] = {
        {.header = -1},
        {.header = 0, .skip_bad = true},
        {.header = -1, .unlabelled = true},
        {.header = 1, .skip_bad = true, .label = "2", .text = "1,3"},
        {.header = -1, .skip_bad = true, .label = "label", .text = "text,title"},
    };
    enum { WAYS = sizeof ways / sizeof *ways };
    /* The last byte, a line end in a tidy file, chooses the format and the way. */
    const unsigned choice = size ? data[size - 1] : 0;
    stet_data_options how = ways[choice / STET_DATA_ACLIMDB % WAYS];
    how.format = (stet_data_format)(choice % STET_DATA_ACLIMDB);
    load(fuzz_file(data, size), how);
    return 0;
}
