/* tests/fuzz/fuzz_json.c - JSON texts; what was read must survive being written and read again. */
#include "fuzz.h"

#include <stdlib.h>

#include "base/json.h"

static void check_round_trip(const json_t *value)
{
    buf b = {0};
    json_t *again;
    json_append_line(&b, value);
    if (buf_status(&b) != STET_OK || json_read_text("again", b.data, b.n, &again) != STET_OK ||
        !json_equal(value, again))
        abort();
    json_decref(again);
    buf_deinit(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *value;
    if (json_read_text("input", (const char *)data, size, &value) != STET_OK)
        return 0;
    check_round_trip(value);
    int64_t i;
    double x;
    const char *s;
    (void)json_get_int(value, "input", "epochs", 0, 100, &i);
    (void)json_get_real(value, "input", "beta", &x);
    (void)json_get_str(value, "input", "name", &s);
    json_decref(value);
    return 0;
}
