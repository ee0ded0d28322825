/* safetensors files: what is written is read, what lies is refused. */
#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tensor/safetensors.h"
#include "test.h"

static const char *path(void)
{
    static char p[128];
    snprintf(p, sizeof p, "%s/x.safetensors", test_dir());
    return p;
}

/* A file from a header text and `size` data bytes. */
static void write_raw(const char *header, uint64_t length, size_t size)
{
    buf b = {0};
    for (int i = 0; i < 8; i++)
        buf_char(&b, (char)(length >> 8 * i & 255));
    buf_str(&b, header);
    for (size_t i = 0; i < size; i++)
        buf_char(&b, (char)i);
    CHECK_OK(file_write_all(path(), b.data, b.n));
    buf_deinit(&b);
}

static void refuses(const char *header, size_t size, const char *part)
{
    write_raw(header, strlen(header), size);
    st_file f;
    CHECK_FAILS(st_open(&f, path()), STET_EFORMAT, part);
    CHECK(strstr(stet_last_error(), "x.safetensors") != NULL);
    CHECK(f.tensors == NULL && f.header == NULL);
}

TEST(what_is_written_is_read)
{
    const float a[6] = {1, -2, 3.5f, 0, 1e-30f, 7};
    const double d[2] = {0.1, -1e300};
    const int64_t l[3] = {-1, 0, INT64_MAX};
    const int32_t i[1] = {42};
    const unsigned char u[5] = {1, 2, 3, 4, 255};
    const uint16_t half[3] = {0x3c00, 0xc000, 0x0001}, brain[2] = {0x3f80, 0xc000};
    const st_tensor t[] = {{"u", ST_U8, shape1(5), u},
                           {"a", ST_F32, shape2(2, 3), a},
                           {"half", ST_F16, shape1(3), half},
                           {"d", ST_F64, shape1(2), d},
                           {"brain", ST_BF16, shape1(2), brain},
                           {"l", ST_I64, shape1(3), l},
                           {"i \"quoted\" \xc3\xa9", ST_I32, shape1(1), i},
                           {"empty", ST_F32, shape2(0, 3), NULL}};
    const char *const metadata[] = {"format", "pt", "note", "line\nbreak", NULL};
    CHECK_OK(st_write(path(), t, sizeof t / sizeof *t, metadata));
    st_file f;
    CHECK_OK(st_open(&f, path()));
    CHECK_EQ(f.n, 8);
    CHECK_STR(st_metadata(&f, "note"), "line\nbreak");
    CHECK(st_metadata(&f, "absent") == NULL);
    float x[6];
    CHECK_OK(st_read(&f, "a", shape2(2, 3), x));
    CHECK(memcmp(x, a, sizeof a) == 0);
    CHECK_OK(st_read(&f, "d", shape1(2), x));
    CHECK_NEAR(x[0], 0.1f, 0);
    CHECK_OK(st_read(&f, "half", shape1(3), x));
    CHECK(x[0] == 1 && x[1] == -2 && x[2] == 0x1p-24f);
    CHECK_OK(st_read(&f, "brain", shape1(2), x));
    CHECK(x[0] == 1 && x[1] == -2);
    int64_t ll[3];
    CHECK_OK(st_read_bytes(&f, "l", ST_I64, 3, ll));
    CHECK(memcmp(ll, l, sizeof l) == 0);
    for (size_t k = 0; k < f.n; k++) /* wide types first, so everything is aligned */
        CHECK_EQ((uintptr_t)f.tensors[k].data % st_dtype_size(f.tensors[k].type), 0);
    CHECK_EQ((uintptr_t)f.tensors[0].data % 64, 0);
    CHECK_FAILS(st_read(&f, "a", shape2(3, 2), x), STET_EFORMAT,
                "has shape (2, 3), expected (3, 2)");
    CHECK_FAILS(st_read(&f, "nope", shape1(1), x), STET_EFORMAT, "no tensor 'nope'");
    CHECK_FAILS(st_read(&f, "u", shape1(5), x), STET_EFORMAT, "floating type");
    CHECK_FAILS(st_read_bytes(&f, "l", ST_I64, 4, ll), STET_EFORMAT, "expected 4");
    st_close(&f);
}

TEST(every_half_converts_as_its_definition_says)
{
    for (unsigned h = 0; h < 65536; h++) {
        const double sign = h & 0x8000 ? -1 : 1;
        const int e = h >> 10 & 31, m = h & 1023;
        const double v = e == 0 ? m * 0x1p-24 : (1 + m / 1024.0) * pow(2, e - 15);
        const float got = half_to_float((uint16_t)h);
        if (e == 31)
            CHECK(m ? isnan(got) : isinf(got) && got * sign > 0);
        else
            CHECK(got == (float)(sign * v) && (signbit(got) != 0) == (sign < 0));
    }
}

TEST(lying_headers_are_refused)
{
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "truncated");
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "does not fill");
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9,
            "after the last tensor");
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
            "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
            4, "overlaps");
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "gap");
    refuses("{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
            "unknown dtype 'F33'");
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
            "bad dimension");
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4294967296],\"data_"
            "offsets\":[0,4]}}",
            4, "bad dimension");
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
            "dimensions");
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "data_offsets");
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "data_offsets");
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "data_offsets");
    refuses("[1,2]", 0, "not a JSON object");
    refuses("{\"a\":", 0, "x.safetensors");
    refuses("{\"a\":7}", 0, "dtype");
    write_raw("{}", 1000, 0);
    st_file f;
    CHECK_FAILS(st_open(&f, path()), STET_EFORMAT, "does not fit");
    write_raw("{}", UINT64_MAX - 3, 0);
    CHECK_FAILS(st_open(&f, path()), STET_EFORMAT, "does not fit");
    CHECK_OK(file_write_all(path(), "abc", 3));
    CHECK_FAILS(st_open(&f, path()), STET_EFORMAT, "too short");
    CHECK_FAILS(st_open(&f, "/nonexistent/x"), STET_EIO, "/nonexistent/x");
    CHECK(st_write("/nonexistent/x", NULL, 0, NULL) == STET_EIO);
}

/* Every truncation and every flipped header byte either loads or is refused; nothing reads outside. */
TEST(damaged_files_never_crash)
{
    const float a[4] = {1, 2, 3, 4};
    const st_tensor t[] = {{"weight", ST_F32, shape2(2, 2), a}, {"bias", ST_F32, shape1(2), a}};
    CHECK_OK(st_write(path(), t, 2, NULL));
    char *good;
    size_t n;
    CHECK_OK(file_read_all(path(), 1 << 20, &good, &n));
    st_file f;
    for (size_t cut = 0; cut < n; cut++) {
        CHECK_OK(file_write_all(path(), good, cut));
        CHECK(st_open(&f, path()) == STET_EFORMAT);
    }
    rng r = rng_stream(1, STREAM_TEST, 0);
    for (int turn = 0; turn < 2000; turn++) {
        char *bad = mem_alloc(n, 1);
        memcpy(bad, good, n);
        bad[rng_below(&r, n)] ^= (char)(1 << rng_below(&r, 8));
        CHECK_OK(file_write_all(path(), bad, n));
        if (st_open(&f, path()) == STET_OK) {
            float x[4];
            (void)st_read(&f, "weight", shape2(2, 2), x);
            st_close(&f);
        }
        mem_free(bad);
    }
    mem_free(good);
}
