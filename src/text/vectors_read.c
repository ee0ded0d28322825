/* text/vectors_read.c - files of word vectors: GloVe text, word2vec and fastText text (a first line
 * WORDS DIMENSIONS), word2vec binary.
 *
 * A file is read in large chunks. The calling thread cuts a chunk into lines, looks the words up
 * and notes where the numbers of the wanted ones begin (a hit); lines of other words are left
 * alone. Then the pool turns the hits into rows while one piece of the same run reads (and
 * decompresses) the next chunk. Chunks, hits and rows do not depend on the number of threads, nor
 * does the failure that is reported: the first one in the file.
 *
 * Some words of GloVe 840B hold spaces (". . ."), so of a line with more fields than expected the
 * last ones are the numbers. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/buffer_size.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/stream.h"
#include "text/float_text.h"
#include "text/vectors.h"

enum {
    CHUNK = BUFFER_SIZE(8 << 20, 512), /* bytes looked at in one round */
    STEP = BUFFER_SIZE(64 << 10, 64),  /* free bytes that make a read worth while */
    RECORD_CAP = 16 << 20,             /* the longest line or binary vector */
    MAX_DIM = 1 << 16,
    HITS_PER_PIECE = 32,
};

typedef struct hit {
    const char *numbers;
    size_t row;
    size_t at; /* line, or number of the vector in a binary file, from 1 */
} hit;

typedef struct chunk {
    char *data; /* a NUL stands after the last byte */
    size_t n, cap;
} chunk;

typedef struct reader {
    const char *path;
    vec_table *tab;
    stream *in;
    bool binary, header;
    size_t dim;
    size_t declared; /* vectors, says the header */
    chunk now, next;
    size_t used; /* bytes of `now` that are taken care of */
    size_t at;   /* lines taken, or vectors of a binary file */
    bool end;    /* the stream has given its last byte */
    hit *hits;
    size_t n_hits, cap_hits;
    atomic_size_t bad; /* the first hit that failed, or n_hits */
    bool reading;      /* the next chunk is being read */
    stet_status read_status;
    char read_message[1024];
} reader;

/* ---- fields ------------------------------------------------------------------------------- */

static inline bool is_gap(char c)
{
    return c == ' ' || c == '\t';
}

static inline bool is_end(char c)
{
    return c == '\n' || c == '\0';
}

/* May a number end before `p`? */
static inline bool ends_number(const char *p)
{
    return is_gap(*p) || is_end(*p) || (*p == '\r' && is_end(p[1]));
}

/* A line's length without the blanks and the CR at its end. */
static size_t trim(const char *s, size_t n)
{
    while (n > 0 && (is_gap(s[n - 1]) || s[n - 1] == '\r'))
        n--;
    return n;
}

/* Length of the field at `s`, at most `n`. */
static size_t field_len(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && !is_gap(s[i]))
        i++;
    return i;
}

static size_t skip_gap(const char *s, size_t i, size_t n)
{
    while (i < n && is_gap(s[i]))
        i++;
    return i;
}

/* Fields of a line that begins and ends with one. Bytes are summed in small counters, which lets
 * the compiler use the widest registers. */
static size_t count_fields(const char *s, size_t n)
{
    size_t fields = 1;
    for (size_t i = 1; i < n;) {
        const size_t stop = n - i < 240 ? n : i + 240;
        unsigned char starts = 0;
        for (; i < stop; i++)
            starts += is_gap(s[i - 1]) > is_gap(s[i]); /* a field after a gap */
        fields += starts;
    }
    return fields;
}

/* Where the last `count` fields of a line begin; the line has more. */
static size_t last_fields(const char *s, size_t n, size_t count)
{
    size_t i = n;
    while (count-- > 0) {
        while (is_gap(s[i - 1]))
            i--;
        while (!is_gap(s[i - 1]))
            i--;
    }
    return i;
}

static bool is_number(const char *s)
{
    float x;
    const char *end = float_parse(s, &x);
    return end && ends_number(end) && isfinite(x);
}

/* A field as it may stand in a message. */
typedef struct excerpt {
    char text[44];
} excerpt;

static excerpt excerpt_of(const char *s, size_t n)
{
    excerpt e;
    const size_t room = sizeof e.text - 4, take = n < room ? n : room;
    for (size_t i = 0; i < take; i++)
        e.text[i] = (unsigned char)s[i] < ' ' || s[i] == 0x7f ? '?' : s[i];
    strcpy(e.text + take, take < n ? "..." : "");
    return e;
}

/* ---- reading chunks ----------------------------------------------------------------------- */

/* Add bytes of the stream to `c` until CHUNK new ones are there or the stream ends. */
static stet_status fill(reader *r, chunk *c)
{
    const size_t full = c->n + CHUNK;
    while (c->n < full && !r->end) {
        TRY(mem_grow(&c->data, &c->cap, c->n + STEP + 1, 1));
        const size_t room = c->cap - 1 < full ? c->cap - 1 : full;
        size_t got;
        TRY(stream_read(r->in, c->data + c->n, room - c->n, &got));
        c->n += got;
        c->data[c->n] = '\0';
        r->end = got == 0;
    }
    return STET_OK;
}

/* What `now` has left moves to the front of `next`, to be completed there. */
static stet_status carry_rest(reader *r)
{
    const size_t rest = r->now.n - r->used;
    if (rest > RECORD_CAP && r->binary)
        return error_set(STET_EFORMAT, "%s: vector %zu does not end within %d MiB", r->path,
                         r->at + 1, RECORD_CAP >> 20);
    if (rest > RECORD_CAP)
        return error_set(STET_EFORMAT, "%s:%zu: line longer than %d MiB", r->path, r->at + 1,
                         RECORD_CAP >> 20);
    TRY(mem_grow(&r->next.data, &r->next.cap, rest + 1, 1));
    memcpy(r->next.data, r->now.data + r->used, rest);
    r->next.n = rest;
    return STET_OK;
}

/* ---- cutting: from bytes to hits ---------------------------------------------------------- */

static stet_status add_hit(reader *r, const char *word, size_t len, const char *numbers)
{
    size_t row;
    TRY(vec_table_claim(r->tab, word, len, &row));
    if (row == VEC_NO_ROW)
        return STET_OK;
    TRY(mem_grow(&r->hits, &r->cap_hits, r->n_hits + 1, sizeof *r->hits));
    r->hits[r->n_hits++] = (hit){numbers, row, r->at};
    return STET_OK;
}

/* A line of more fields than one word and the numbers: the word has spaces, unless what stands
 * before the numbers is a number too. */
static stet_status take_spaced(reader *r, const char *line, size_t n)
{
    const size_t numbers = last_fields(line, n, r->dim);
    size_t len = numbers;
    while (is_gap(line[len - 1]))
        len--;
    if (is_number(line + last_fields(line, len, 1)))
        return error_set(STET_EFORMAT, "%s:%zu: \"%s\" has %zu numbers, expected %zu", r->path,
                         r->at, excerpt_of(line, field_len(line, n)).text,
                         count_fields(line, n) - 1, r->dim);
    return add_hit(r, line, len, line + numbers);
}

static stet_status take_line(reader *r, const char *line, size_t n, bool last)
{
    if (memchr(line, '\0', n))
        return error_set(STET_EFORMAT, "%s:%zu: NUL byte in a text file", r->path, r->at);
    n = trim(line, n);
    if (n == 0 || is_gap(line[0]))
        return error_set(STET_EFORMAT, "%s:%zu: %s, expected a word and %zu numbers", r->path,
                         r->at, n == 0 ? "empty line" : "no word", r->dim);
    const size_t len = field_len(line, n);
    /* A line without its end may be cut off, so it is checked in any case. */
    if (!last && !r->tab->spaced && !vec_table_wants(r->tab, line, len))
        return STET_OK;
    const size_t fields = count_fields(line, n);
    if (fields < r->dim + 1)
        return error_set(STET_EFORMAT, "%s:%zu: \"%s\" has %zu numbers, expected %zu", r->path,
                         r->at, excerpt_of(line, len).text, fields - 1, r->dim);
    if (fields > r->dim + 1)
        return take_spaced(r, line, n);
    return add_hit(r, line, len, line + skip_gap(line, len, n));
}

static stet_status cut_lines(reader *r)
{
    const char *const end = r->now.data + r->now.n;
    while (r->used < r->now.n && !vec_table_full(r->tab)) {
        const char *const line = r->now.data + r->used;
        const char *eol = memchr(line, '\n', (size_t)(end - line));
        if (!eol && !r->end)
            break;
        const bool last = !eol;
        eol = last ? end : eol;
        r->at++;
        TRY(take_line(r, line, (size_t)(eol - line), last));
        r->used = (size_t)(eol - r->now.data) + !last;
    }
    return STET_OK;
}

static stet_status cut_off(const reader *r)
{
    return error_set(STET_EFORMAT, "%s: ends inside vector %zu of %zu", r->path, r->at + 1,
                     r->declared);
}

/* WORD, a space, 4 * dim bytes; some writers put a line end after each. */
static stet_status cut_vectors(reader *r)
{
    const size_t size = r->dim * sizeof(float);
    while (!vec_table_full(r->tab)) {
        while (r->used < r->now.n && r->now.data[r->used] == '\n')
            r->used++;
        const char *const word = r->now.data + r->used;
        const size_t left = r->now.n - r->used;
        if (r->at == r->declared && left > 0)
            return error_set(STET_EFORMAT, "%s: bytes after the last of %zu vectors", r->path,
                             r->declared);
        const char *const space = memchr(word, ' ', left);
        if (!space || (size_t)(r->now.data + r->now.n - space - 1) < size) {
            if (r->end && left > 0)
                return cut_off(r);
            break;
        }
        r->at++;
        const size_t len = (size_t)(space - word);
        if (len == 0 || memchr(word, '\0', len) || memchr(word, '\n', len))
            return error_set(STET_EFORMAT, "%s: vector %zu of %zu has no proper word: \"%s\"",
                             r->path, r->at, r->declared, excerpt_of(word, len).text);
        TRY(add_hit(r, word, len, space + 1));
        r->used = (size_t)(space - r->now.data) + 1 + size;
    }
    return STET_OK;
}

/* ---- the format --------------------------------------------------------------------------- */

static bool parse_count(const char **p, size_t cap, size_t *out)
{
    size_t value = 0;
    const char *s = *p;
    for (; *s >= '0' && *s <= '9' && value <= cap; s++)
        value = value * 10 + (size_t)(*s - '0');
    const bool ok = s > *p && value <= cap && ends_number(s);
    *p = s;
    *out = value;
    return ok;
}

/* Two whole numbers and nothing else. */
static bool is_header(const char *line, size_t n, size_t *words, size_t *dim)
{
    const char *p = line;
    if (!parse_count(&p, UINT32_MAX, words) || !is_gap(*p))
        return false;
    p += skip_gap(p, 0, n - (size_t)(p - line));
    if (!parse_count(&p, UINT32_MAX, dim))
        return false;
    return p == line + trim(line, n);
}

/* After a header: does the first vector look like floats rather than like text? */
static bool looks_binary(const char *s, size_t n, size_t dim)
{
    const char *const space = memchr(s, ' ', n);
    if (!space)
        return false;
    const size_t left = n - (size_t)(space - s), look = 4 * dim < left ? 4 * dim : left;
    for (size_t i = 0; i < look; i++) {
        const unsigned char c = (unsigned char)space[i];
        if (c >= 0x7f || (c < ' ' && c != '\t' && c != '\n' && c != '\r'))
            return true;
    }
    return false;
}

/* The dimension that a line shows: its word ends where numbers begin. */
static stet_status dim_of_line(const reader *r, size_t line_no, const char *line, size_t *dim)
{
    const char *const eol = memchr(line, '\n', r->now.n - (size_t)(line - r->now.data));
    const char *const end = eol ? eol : r->now.data + r->now.n;
    const size_t n = trim(line, (size_t)(end - line));
    *dim = 0;
    size_t field = 1;
    for (size_t i = field_len(line, n); i < n; i += field_len(line + i, n - i)) {
        i = skip_gap(line, i, n);
        field++;
        if (is_number(line + i))
            ++*dim;
        else if (*dim > 0)
            return error_set(
                STET_EFORMAT, "%s:%zu: field %zu is \"%s\", expected a finite decimal number",
                r->path, line_no, field, excerpt_of(line + i, field_len(line + i, n - i)).text);
    }
    if (*dim == 0)
        return error_set(STET_EFORMAT, "%s:%zu: expected a word and its numbers%s", r->path,
                         line_no, r->header ? "" : ", or the header WORDS DIMENSIONS");
    return STET_OK;
}

/* A word of the first line may hold spaces, or one of its numbers be wrong: the second line tells. */
static stet_status check_first_line(const reader *r, const char *line, size_t n)
{
    n = trim(line, n);
    const size_t fields = count_fields(line, n);
    const char *const eol = memchr(line, '\n', r->now.n);
    size_t dim = 0;
    if (fields - 1 == r->dim || !eol || eol + 1 == r->now.data + r->now.n ||
        dim_of_line(r, 2, eol + 1, &dim) != STET_OK || dim <= r->dim || dim >= fields)
        return STET_OK;
    size_t i = last_fields(line, n, dim), field = fields - dim + 1;
    for (; is_number(line + i); field++)
        i = skip_gap(line, i + field_len(line + i, n - i), n);
    return error_set(STET_EFORMAT, "%s:1: field %zu is \"%s\", expected a finite decimal number",
                     r->path, field, excerpt_of(line + i, field_len(line + i, n - i)).text);
}

/* The first vector must have the size that the header gives: memory is taken by it. */
static stet_status check_header(const reader *r)
{
    const char *const first = r->now.data + r->used;
    const size_t left = r->now.n - r->used;
    if (left == 0 || r->declared == 0)
        return error_set(STET_EFORMAT, "%s: no vector after the header", r->path);
    if (r->binary) {
        const char *const space = memchr(first, ' ', left);
        if ((size_t)(first + left - space - 1) < r->dim * sizeof(float))
            return cut_off(r);
        return STET_OK;
    }
    size_t dim;
    TRY(dim_of_line(r, 2, first, &dim));
    if (dim != r->dim)
        return error_set(STET_EFORMAT, "%s:2: %zu numbers, but the header says %zu", r->path, dim,
                         r->dim);
    return STET_OK;
}

static stet_status read_format(reader *r)
{
    if (r->now.n == 0)
        return error_set(STET_EFORMAT, "%s: empty file, expected word vectors", r->path);
    const char *const line = r->now.data, *const eol = memchr(line, '\n', r->now.n);
    const size_t n = eol ? (size_t)(eol - line) : r->now.n;
    r->header = is_header(line, n, &r->declared, &r->dim);
    if (!r->header) {
        TRY(dim_of_line(r, 1, line, &r->dim));
        TRY(check_first_line(r, line, n));
    }
    if (r->dim < 1 || r->dim > MAX_DIM)
        return error_set(STET_EFORMAT, "%s:1: %zu numbers per word, expected 1 to %d", r->path,
                         r->dim, MAX_DIM);
    if (r->header) {
        r->used = n + (eol != NULL);
        r->binary = looks_binary(line + r->used, r->now.n - r->used, r->dim);
        r->at = !r->binary;
        TRY(check_header(r));
    }
    return vec_table_set_dim(r->tab, r->path, r->dim);
}

/* ---- numbers: from hits to rows ----------------------------------------------------------- */

/* How many of the numbers are right; *stop is where the first wrong one stands. */
static size_t parse_text(const char *p, size_t dim, float *row, const char **stop)
{
    for (size_t k = 0; k < dim; k++) {
        while (is_gap(*p))
            p++;
        const char *const end = float_parse(p, &row[k]);
        if (!end || !ends_number(end) || !isfinite(row[k])) {
            *stop = p;
            return k;
        }
        p = end;
    }
    return dim;
}

static size_t parse_binary(const char *p, size_t dim, float *row, const char **stop)
{
    const unsigned char *b = (const unsigned char *)p;
    *stop = p;
    size_t finite = 0;
    for (size_t k = 0; k < dim; k++, b += 4) {
        const uint32_t bits =
            b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        memcpy(&row[k], &bits, sizeof bits);
        finite += finite == k && isfinite(row[k]);
    }
    return finite;
}

static size_t parse_hit(const reader *r, const hit *h, const char **stop)
{
    float *const row = r->tab->t->data + h->row * r->dim;
    return (r->binary ? parse_binary : parse_text)(h->numbers, r->dim, row, stop);
}

static stet_status bad_number(const reader *r, const hit *h)
{
    const char *stop, *const word = vec_table_word(r->tab, h->row);
    const excerpt name = excerpt_of(word, strlen(word));
    const size_t k = parse_hit(r, h, &stop) + 1;
    if (r->binary)
        return error_set(STET_EFORMAT, "%s: vector %zu (\"%s\"): number %zu is not finite", r->path,
                         h->at, name.text, k);
    size_t n = 0;
    while (!is_gap(stop[n]) && !is_end(stop[n]))
        n++;
    return error_set(STET_EFORMAT,
                     "%s:%zu: number %zu of \"%s\" is \"%s\", expected a finite decimal number",
                     r->path, h->at, k, name.text, excerpt_of(stop, n).text);
}

static void parse_hits(reader *r, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        const char *stop;
        if (parse_hit(r, &r->hits[i], &stop) == r->dim)
            continue;
        size_t bad = atomic_load(&r->bad);
        while (i < bad && !atomic_compare_exchange_weak(&r->bad, &bad, i)) {
        }
        return;
    }
}

/* Piece 0 reads the next chunk; the others parse this one. */
static void run_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    reader *const r = ctx;
    if (i > 0) {
        const size_t first = (i - 1) * HITS_PER_PIECE, end = first + HITS_PER_PIECE;
        parse_hits(r, first, end < r->n_hits ? end : r->n_hits);
    } else if (r->reading) {
        r->read_status = fill(r, &r->next);
        if (r->read_status != STET_OK)
            strncpy(r->read_message, stet_last_error(), sizeof r->read_message - 1);
    }
}

/* ---- a file ------------------------------------------------------------------------------- */

/* One chunk; r->reading tells whether another follows. */
static stet_status read_round(reader *r)
{
    r->n_hits = 0;
    stet_status st = r->binary ? cut_vectors(r) : cut_lines(r);
    const bool last = r->end || vec_table_full(r->tab);
    if (st == STET_OK && !last)
        st = carry_rest(r);
    r->reading = st == STET_OK && !last;
    /* Numbers before the place of a failure are looked at too: the first failure is reported. */
    atomic_store(&r->bad, r->n_hits);
    pool_run(1 + (r->n_hits + HITS_PER_PIECE - 1) / HITS_PER_PIECE, run_piece, r);
    const size_t bad = atomic_load(&r->bad);
    if (bad < r->n_hits)
        return bad_number(r, &r->hits[bad]);
    if (r->read_status != STET_OK)
        return error_set(r->read_status, "%s", r->read_message);
    TRY(st);
    const chunk done = r->now;
    r->now = r->next;
    r->next = done;
    r->used = 0;
    return interrupt_status();
}

/* A file that is shorter than its header says was cut off. */
static stet_status check_count(const reader *r)
{
    const size_t vectors = r->binary ? r->at : r->at - 1;
    if (!r->header || vec_table_full(r->tab) || vectors == r->declared)
        return STET_OK;
    return error_set(STET_EFORMAT, "%s: the header promises %zu vectors, the file has %zu", r->path,
                     r->declared, vectors);
}

static stet_status read_chunks(reader *r)
{
    TRY(stream_open(r->path, &r->in));
    TRY(fill(r, &r->now));
    TRY(read_format(r));
    for (r->reading = true; r->reading;) {
        TRY(read_round(r));
        progress("reading word vectors", r->at, r->declared, NULL);
    }
    return check_count(r);
}

stet_status vectors_read(const char *path, vec_table *tab)
{
    reader r = {.path = path, .tab = tab};
    const stet_status st = read_chunks(&r);
    stream_close(r.in);
    mem_free(r.now.data);
    mem_free(r.next.data);
    mem_free(r.hits);
    return st;
}
