/* lexicon/subst.c - substitution sets as one block of bytes that is the same in memory and on disk.
 *
 * The image (docs/formats.md) is a header, the word list in ascending byte order, and the lists of
 * substitutes in compressed rows. A file is mapped and used in place, so loading costs one pass of
 * checks. Only words that take part in a pair are in it and their order is fixed, so that one
 * relation has one image and one fingerprint, whatever it was made from. */
#include "lexicon/subst.h"

#include <string.h>

#include "base/mem.h"
#include "text/utf8.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "substitution sets are mapped as they lie on disk: little-endian machines only"
#endif

typedef struct image_header {
    char magic[8];
    uint32_t version, reserved0;
    uint64_t fingerprint; /* of every byte after this field */
    uint64_t words, pairs, text_bytes;
    uint64_t reserved[2];
} image_header;
_Static_assert(sizeof(image_header) == 64, "the header is 64 bytes on disk");

static const char MAGIC[8] = {'S', 'T', 'E', 'T', 'S', 'U', 'B', 'S'};
enum { VERSION = 1, HASHED_FROM = 24 };

/* Size of an image; the counts are at most UINT32_MAX, so nothing can overflow. */
static uint64_t image_bytes(uint64_t words, uint64_t pairs, uint64_t text_bytes)
{
    return sizeof(image_header) + 4 * (2 * (words + 1) + pairs) + text_bytes;
}

static uint64_t image_fingerprint(const void *image, size_t size)
{
    return hash_bytes((const char *)image + HASHED_FROM, size - HASHED_FROM, 0);
}

static void point_into(stet_subst *s, const void *image)
{
    const image_header *h = image;
    s->n_words = h->words;
    s->n_pairs = h->pairs;
    s->text_at = (const uint32_t *)(h + 1);
    s->start = s->text_at + s->n_words + 1;
    s->subs = s->start + s->n_words + 1;
    s->text = (const char *)(s->subs + s->n_pairs);
    s->fingerprint = h->fingerprint;
    s->image = image;
    s->image_size = image_bytes(h->words, h->pairs, h->text_bytes);
}

stet_status subst_new(size_t words, size_t pairs, size_t text_bytes, subst_parts *parts,
                      stet_subst **out)
{
    *out = NULL;
    if (words >= UINT32_MAX || pairs > UINT32_MAX || text_bytes > UINT32_MAX)
        return error_set(STET_ENOTSUP, "substitution set too large: %zu words, %zu pairs", words,
                         pairs);
    const size_t size = image_bytes(words, pairs, text_bytes);
    stet_subst *s = mem_zalloc(1, sizeof *s);
    image_header *h = mem_zalloc(size, 1);
    if (!s || !h) {
        mem_free(s);
        mem_free(h);
        return STET_ENOMEM;
    }
    memcpy(h->magic, MAGIC, sizeof MAGIC);
    h->version = VERSION;
    h->words = words;
    h->pairs = pairs;
    h->text_bytes = text_bytes;
    s->owned = h;
    point_into(s, h);
    parts->text_at = (uint32_t *)(h + 1);
    parts->start = parts->text_at + words + 1;
    parts->subs = parts->start + words + 1;
    parts->text = (char *)(parts->subs + pairs);
    *out = s;
    return STET_OK;
}

void subst_seal(stet_subst *s)
{
    image_header *h = s->owned;
    h->fingerprint = s->fingerprint = image_fingerprint(s->image, s->image_size);
}

/* ---- checks ------------------------------------------------------------------------------- */

const char *subst_word_fault(const char *word, size_t len)
{
    if (len == 0)
        return "an empty word";
    if (utf8_check(word, len) < len)
        return "invalid UTF-8 or a NUL";
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)word[i] <= ' ' || word[i] == 0x7f)
            return "a space or control character";
    return NULL;
}

bool subst_is_image(const void *data, size_t size)
{
    return size >= sizeof MAGIC && memcmp(data, MAGIC, sizeof MAGIC) == 0;
}

static stet_status check_header(const void *image, size_t size, const char *name)
{
    const image_header *h = image;
    if (!subst_is_image(image, size))
        return error_set(STET_EFORMAT, "%s: not a substitution set: expected \"%.8s\"", name,
                         MAGIC);
    if (size < sizeof *h)
        return error_set(STET_EFORMAT, "%s: %zu bytes, expected a header of %zu", name, size,
                         sizeof *h);
    if (h->version != VERSION)
        return error_set(STET_EFORMAT, "%s: version %u, this program reads version %d", name,
                         h->version, VERSION);
    if (h->reserved0 || h->reserved[0] || h->reserved[1])
        return error_set(STET_EFORMAT, "%s: reserved header fields must be zero", name);
    if (h->words >= UINT32_MAX || h->pairs > UINT32_MAX || h->text_bytes > UINT32_MAX)
        return error_set(STET_EFORMAT, "%s: a count in the header is above 2^32", name);
    const uint64_t expected = image_bytes(h->words, h->pairs, h->text_bytes);
    if (size != expected)
        return error_set(STET_EFORMAT, "%s: %zu bytes, but its header announces %llu", name, size,
                         (unsigned long long)expected);
    if (h->fingerprint != image_fingerprint(image, size))
        return error_set(STET_EFORMAT, "%s: fingerprint mismatch: the file was changed or damaged",
                         name);
    return STET_OK;
}

/* Words lie one after the other, each valid and with its NUL, in ascending order. */
static stet_status check_words(const stet_subst *s, size_t text_bytes, const char *name)
{
    const uint32_t *at = s->text_at;
    if (at[0] != 0 || at[s->n_words] != text_bytes)
        return error_set(STET_EFORMAT, "%s: word list does not fill its %zu bytes", name,
                         text_bytes);
    for (size_t i = 0; i < s->n_words; i++) {
        if (at[i + 1] > text_bytes || at[i + 1] < at[i] + (uint64_t)2)
            return error_set(STET_EFORMAT, "%s: word %zu has a bad offset %u", name, i, at[i + 1]);
        const char *word = s->text + at[i];
        if (s->text[at[i + 1] - 1] != '\0')
            return error_set(STET_EFORMAT, "%s: word %zu does not end in a NUL", name, i);
        const char *fault = subst_word_fault(word, at[i + 1] - at[i] - 1);
        if (fault)
            return error_set(STET_EFORMAT, "%s: word %zu has %s", name, i, fault);
        if (i > 0 && strcmp(s->text + at[i - 1], word) >= 0)
            return error_set(STET_EFORMAT, "%s: word %zu is out of order", name, i);
    }
    return STET_OK;
}

/* Rows tile `subs`; each holds known words, not its own and none twice. */
static stet_status check_lists(const stet_subst *s, const char *name)
{
    if (s->start[0] != 0 || s->start[s->n_words] != s->n_pairs)
        return error_set(STET_EFORMAT, "%s: lists do not fill the %zu pairs", name, s->n_pairs);
    uint32_t *seen = mem_zalloc(s->n_words + 1, sizeof *seen); /* last list a word was in, plus 1 */
    if (!seen)
        return STET_ENOMEM;
    stet_status st = STET_OK;
    for (uint32_t i = 0; i < s->n_words && st == STET_OK; i++) {
        if (s->start[i + 1] < s->start[i] || s->start[i + 1] > s->n_pairs) {
            st = error_set(STET_EFORMAT, "%s: list of word %u has a bad offset %u", name, i,
                           s->start[i + 1]);
            break;
        }
        for (uint32_t j = s->start[i]; j < s->start[i + 1]; j++) {
            const uint32_t to = s->subs[j];
            if (to >= s->n_words || to == i || seen[to] == i + 1) {
                st = error_set(STET_EFORMAT, "%s: list of word %u: %u is %s", name, i, to,
                               to >= s->n_words ? "no word"
                               : to == i        ? "the word"
                                                : "repeated");
                break;
            }
            seen[to] = i + 1;
        }
    }
    mem_free(seen);
    return st;
}

stet_status subst_view(stet_subst *s, const void *image, size_t size, const char *name)
{
    TRY(check_header(image, size, name));
    point_into(s, image);
    TRY(check_words(s, ((const image_header *)image)->text_bytes, name));
    return check_lists(s, name);
}

/* ---- the object --------------------------------------------------------------------------- */

stet_status subst_from_json(json_t *map, const char *name, stet_subst **out)
{
    *out = NULL;
    stet_subst_builder *b;
    TRY(stet_subst_builder_new(&b));
    stet_status st = subst_add_json(b, map, name);
    if (st == STET_OK)
        st = stet_subst_build(b, out);
    stet_subst_builder_free(b);
    return st;
}

stet_status subst_read_json(const char *path, json_t **out)
{
    const stet_status st = json_read_file(path, out);
    return st == STET_EFORMAT ? error_prefix(st, "neither a built set nor a JSON map") : st;
}

static stet_status load_json(const char *path, stet_subst **out)
{
    json_t *map;
    TRY(subst_read_json(path, &map));
    const stet_status st = subst_from_json(map, path, out);
    json_decref(map);
    return st;
}

stet_status stet_subst_load(const char *path, stet_subst **out)
{
    *out = NULL;
    if (strcmp(path, "builtin") == 0)
        return stet_builtin_subst(out);
    if (strcmp(path, "-") == 0)
        return load_json(path, out);
    stet_subst *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    stet_status st = file_map_open(&s->map, path);
    const bool json = st == STET_OK && !subst_is_image(s->map.data, s->map.size);
    if (st == STET_OK && !json)
        st = subst_view(s, s->map.data, s->map.size, path);
    if (st != STET_OK || json) {
        stet_subst_free(s);
        return st == STET_OK ? load_json(path, out) : st;
    }
    *out = s;
    return STET_OK;
}

stet_status stet_subst_save(const stet_subst *s, const char *path)
{
    return file_write_all(path, s->image, s->image_size);
}

void stet_subst_free(stet_subst *s)
{
    if (!s)
        return;
    file_map_close(&s->map);
    mem_free(s->owned);
    mem_free(s);
}

size_t stet_subst_words(const stet_subst *s)
{
    return s->n_words;
}

const char *stet_subst_word(const stet_subst *s, uint32_t id)
{
    return id < s->n_words ? s->text + s->text_at[id] : NULL;
}

uint32_t stet_subst_word_id(const stet_subst *s, const char *word, size_t len)
{
    if (memchr(word, '\0', len))
        return UINT32_MAX;
    size_t lo = 0, hi = s->n_words;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const char *at = s->text + s->text_at[mid];
        int order = strncmp(word, at, len);
        if (order == 0)
            order = at[len] == '\0' ? 0 : -1; /* a longer word comes after its own beginning */
        if (order == 0)
            return (uint32_t)mid;
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return UINT32_MAX;
}

const uint32_t *stet_subst_of(const stet_subst *s, uint32_t id, size_t *n)
{
    if (id >= s->n_words) {
        *n = 0;
        return NULL;
    }
    *n = s->start[id + 1] - s->start[id];
    return s->subs + s->start[id];
}

size_t stet_subst_pairs(const stet_subst *s)
{
    return s->n_pairs;
}

uint64_t stet_subst_fingerprint(const stet_subst *s)
{
    return s->fingerprint;
}
