/* lexicon/wordnet.c - a reader of WordNet's database files (wndb(5WN)) and the two ways in which
 * attacks take synonyms from them.
 *
 * index.POS says in which synsets a lemma is, as byte offsets into data.POS, most frequent sense
 * first; data.POS holds the synsets. Both are mapped and read in place, so an open database has no
 * state that changes. Offsets are checked when they are followed: an index and a data file that do
 * not belong together give an error, not wrong words. */
#include "lexicon/wordnet.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "lexicon/morph.h"

typedef struct part {
    wn_file index, data, exceptions;
} part;

struct stet_wordnet {
    part parts[STET_OTHER];
    wn_file counts; /* cntlist.rev, empty when there is none */
};

static const char *const part_names[STET_OTHER] = {"noun", "verb", "adj", "adv"};

static const char *const usual_places[] = {
    "/usr/share/wordnet",          "/usr/local/share/wordnet",       "/usr/local/WordNet-3.0/dict",
    "/usr/local/WordNet-3.1/dict", "/opt/homebrew/opt/wordnet/dict", NULL,
};

/* ---- opening ------------------------------------------------------------------------------- */

bool wordnet_is_in(const char *dir)
{
    char path[WORDNET_DIR + 16];
    snprintf(path, sizeof path, "%s/index.noun", dir);
    return file_exists(path);
}

/* A place that the user named is taken as it is, so that a typing error shows. */
stet_status wordnet_find_dir(const char *dir, char out[WORDNET_DIR])
{
    const char *named = dir ? dir : getenv("WNSEARCHDIR"), *home = getenv("WNHOME");
    if (named || home) {
        const int n = snprintf(out, WORDNET_DIR, named ? "%s" : "%s/dict", named ? named : home);
        return n < WORDNET_DIR ? STET_OK
                               : error_set(STET_EIO, "the name of WordNet's folder is too long");
    }
    for (size_t i = 0; usual_places[i]; i++) {
        if (wordnet_is_in(usual_places[i])) {
            snprintf(out, WORDNET_DIR, "%s", usual_places[i]);
            return STET_OK;
        }
    }
    return error_set(STET_EIO,
                     "no WordNet found in %s or the other usual places: install Debian's "
                     "wordnet-base or set WNSEARCHDIR",
                     usual_places[0]);
}

static stet_status open_part(part *p, const char *dir, const char *name)
{
    char file[32];
    snprintf(file, sizeof file, "index.%s", name);
    TRY(wn_file_open(&p->index, dir, file));
    snprintf(file, sizeof file, "data.%s", name);
    TRY(wn_file_map(&p->data, dir, file));
    snprintf(file, sizeof file, "%s.exc", name);
    return wn_file_open(&p->exceptions, dir, file);
}

static stet_status open_counts(wn_file *counts, const char *dir)
{
    char *path = path_join(dir, "cntlist.rev");
    if (!path)
        return STET_ENOMEM;
    const bool there = file_exists(path);
    mem_free(path);
    return there ? wn_file_open(counts, dir, "cntlist.rev") : STET_OK;
}

stet_status stet_wordnet_open(const char *dir, stet_wordnet **out)
{
    *out = NULL;
    char place[WORDNET_DIR];
    TRY(wordnet_find_dir(dir, place));
    stet_wordnet *w = mem_zalloc(1, sizeof *w);
    stet_status st = w ? STET_OK : STET_ENOMEM;
    for (int p = 0; p < STET_OTHER && st == STET_OK; p++)
        st = open_part(&w->parts[p], place, part_names[p]);
    if (st == STET_OK)
        st = open_counts(&w->counts, place);
    if (st != STET_OK) {
        stet_wordnet_free(w);
        return st;
    }
    *out = w;
    return STET_OK;
}

void stet_wordnet_free(stet_wordnet *w)
{
    if (!w)
        return;
    for (int p = 0; p < STET_OTHER; p++) {
        wn_file_close(&w->parts[p].index);
        wn_file_close(&w->parts[p].data);
        wn_file_close(&w->parts[p].exceptions);
    }
    wn_file_close(&w->counts);
    mem_free(w);
}

/* ---- index lines --------------------------------------------------------------------------- */

/* An index line: LEMMA POS SYNSETS POINTERS [SYMBOL...] SENSES TAGGED_SENSES OFFSET... */
typedef struct entry {
    uint32_t synsets, tagged;
    wn_fields offsets; /* the rest of the line */
} entry;

enum { MAX_SYNSETS = 65535, MAX_SYMBOLS = 255 };

static stet_status read_entry(const wn_file *index, stet_str line, entry *out)
{
    wn_fields f = {index, line.data, line.data + line.len};
    stet_str word;
    uint32_t symbols, senses;
    TRY(wn_fields_word(&f, "lemma", &word));
    TRY(wn_fields_word(&f, "pos", &word));
    TRY(wn_fields_number(&f, "synset_cnt", 10, MAX_SYNSETS, &out->synsets));
    TRY(wn_fields_number(&f, "p_cnt", 10, MAX_SYMBOLS, &symbols));
    for (uint32_t i = 0; i < symbols; i++)
        TRY(wn_fields_word(&f, "ptr_symbol", &word));
    TRY(wn_fields_number(&f, "sense_cnt", 10, MAX_SYNSETS, &senses));
    TRY(wn_fields_number(&f, "tagsense_cnt", 10, MAX_SYNSETS, &out->tagged));
    out->offsets = f;
    return STET_OK;
}

/* Lower case of an ASCII word; 0 if it is longer than any entry. */
static size_t lower(const char *word, char out[MORPH_WORD_MAX + 1])
{
    const size_t len = strlen(word);
    if (len > MORPH_WORD_MAX)
        return 0;
    for (size_t i = 0; i <= len; i++)
        out[i] = (char)(word[i] >= 'A' && word[i] <= 'Z' ? word[i] - 'A' + 'a' : word[i]);
    return len;
}

/* ---- synonyms ------------------------------------------------------------------------------ */

/* Words found so far: NUL-terminated, one after the other. */
typedef struct collector {
    const part *part;
    stet_wn_variant variant;
    stet_str token;
    buf text;
    size_t n;
} collector;

static bool collected(const collector *c, const char *word)
{
    for (const char *p = c->text.data, *end = p + c->text.n; p < end; p += strlen(p) + 1) {
        if (strcmp(p, word) == 0)
            return true;
    }
    return false;
}

/* What comes before the first underscore or space, leading ones apart. */
static stet_str first_word(stet_str s)
{
    while (s.len && (*s.data == '_' || *s.data == ' ')) {
        s.data++;
        s.len--;
    }
    size_t n = 0;
    while (n < s.len && s.data[n] != '_' && s.data[n] != ' ')
        n++;
    return (stet_str){s.data, n};
}

static bool is_word_byte(char c)
{
    return isalnum((unsigned char)c) || (unsigned char)c >= 0x80 || (c && strchr("'-_*@`", c));
}

/* TextAttack's test: exactly one run of word bytes after the marks at its front ("st." is one
 * word, "A.D." is two). */
static bool is_one_word(stet_str s)
{
    size_t words = 0;
    for (size_t i = 0; i < s.len;) {
        while (i < s.len && (!is_word_byte(s.data[i]) || strchr("'-_*@", s.data[i])))
            i++;
        words += i < s.len;
        while (i < s.len && is_word_byte(s.data[i]))
            i++;
    }
    return words == 1;
}

/* attacks.md 3.5. The comparison with the token is before lower-casing, as OpenAttack has it: the
 * noun "march" keeps "march" from {March, Mar}. */
static stet_status add_lemma(collector *c, stet_str lemma)
{
    const bool open_attack = c->variant == STET_WN_OPENATTACK;
    if (open_attack)
        lemma = first_word(lemma);
    else if (memchr(lemma.data, '_', lemma.len) || !is_one_word(lemma))
        return STET_OK;
    if (lemma.len == 0 ||
        (lemma.len == c->token.len && memcmp(lemma.data, c->token.data, lemma.len) == 0))
        return STET_OK;

    char word[MORPH_WORD_MAX + 1];
    if (lemma.len > MORPH_WORD_MAX)
        return STET_OK;
    memcpy(word, lemma.data, lemma.len);
    word[lemma.len] = '\0';
    if (open_attack)
        lower(word, word);
    if (c->n && collected(c, word))
        return STET_OK;
    buf_bytes(&c->text, word, lemma.len + 1);
    c->n++;
    return buf_status(&c->text);
}

/* In data.adj a word may carry a mark of where it stands: "galore(ip)". */
static stet_str without_marker(stet_str word)
{
    const char *open =
        word.len && word.data[word.len - 1] == ')' ? memchr(word.data, '(', word.len) : NULL;
    return (stet_str){word.data, open ? (size_t)(open - word.data) : word.len};
}

/* A data line: OFFSET LEX_FILENUM SS_TYPE WORDS WORD LEX_ID [WORD LEX_ID...] ... */
static stet_status add_synset(collector *c, uint32_t offset)
{
    wn_fields f;
    stet_str word;
    uint32_t written, number, words;
    TRY(wn_fields_at(&c->part->data, offset, &f));
    TRY(wn_fields_number(&f, "synset_offset", 10, UINT32_MAX, &written));
    if (written != offset)
        return error_set(STET_EFORMAT, "%s: offset %u: synset_offset is %u, expected %u",
                         c->part->data.path, offset, written, offset);
    TRY(wn_fields_number(&f, "lex_filenum", 10, 99, &number));
    TRY(wn_fields_word(&f, "ss_type", &word));
    TRY(wn_fields_number(&f, "w_cnt", 16, 255, &words));
    for (uint32_t i = 0; i < words; i++) {
        TRY(wn_fields_word(&f, "word", &word));
        TRY(wn_fields_number(&f, "lex_id", 16, 255, &number));
        TRY(add_lemma(c, without_marker(word)));
    }
    return STET_OK;
}

static stet_status add_form(void *ctx, const char *form, size_t len)
{
    collector *c = ctx;
    stet_str line;
    entry e;
    if (!wn_file_find(&c->part->index, form, len, &line))
        return STET_OK;
    TRY(read_entry(&c->part->index, line, &e));
    for (uint32_t i = 0; i < e.synsets; i++) {
        uint32_t offset;
        TRY(wn_fields_number(&e.offsets, "synset_offset", 10, UINT32_MAX, &offset));
        TRY(add_synset(c, offset));
    }
    return STET_OK;
}

/* Pointers and text as one block. */
static stet_status hand_over(const collector *c, char ***out, size_t *n)
{
    const size_t table = (c->n + 1) * sizeof(char *);
    char **block = mem_alloc(table + c->text.n, 1);
    if (!block)
        return STET_ENOMEM;
    char *text = (char *)block + table;
    if (c->text.n)
        memcpy(text, c->text.data, c->text.n);
    for (size_t i = 0; i < c->n; i++, text += strlen(text) + 1)
        block[i] = text;
    block[c->n] = NULL;
    *out = block;
    *n = c->n;
    return STET_OK;
}

static bool is_form_of_be(stet_str token)
{
    static const char *const forms[] = {"be", "is", "are", "am"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (token.len == strlen(forms[i]) && memcmp(token.data, forms[i], token.len) == 0)
            return true;
    }
    return false;
}

stet_status stet_wordnet_synonyms(const stet_wordnet *w, const char *word, stet_pos pos,
                                  stet_wn_variant variant, char ***out, size_t *n)
{
    *out = NULL;
    *n = 0;
    char lowered[MORPH_WORD_MAX + 1];
    const size_t len = lower(word, lowered);
    const bool all = variant == STET_WN_TEXTATTACK;
    collector c = {.variant = variant, .token = {word, strlen(word)}};
    if (!all)
        c.token = first_word(c.token);

    stet_status st = STET_OK;
    if (all || !is_form_of_be(c.token)) {
        for (int p = 0; p < STET_OTHER && st == STET_OK; p++) {
            if (!all && p != (int)pos)
                continue;
            c.part = &w->parts[p];
            st = morph_forms(&c.part->exceptions, (stet_pos)p, lowered, len, add_form, &c);
        }
    }
    if (st == STET_OK)
        st = hand_over(&c, out, n);
    buf_deinit(&c.text);
    return st;
}

/* ---- readings ------------------------------------------------------------------------------ */

enum { ITSELF, BASE_FORM };
typedef struct reader {
    const stet_wordnet *w;
    stet_pos pos;
    bool started;  /* the first form to come is the word itself */
    bool known[2]; /* ITSELF, BASE_FORM */
    uint64_t counts[2];
} reader;

/* Sum over the senses of a lemma: the lines LEMMA%TYPE:... SENSE COUNT, where the type is 1 to 4 in
 * our order and 5 for adjective satellites. */
static stet_status count_senses(const wn_file *counts, const char *lemma, size_t len, stet_pos pos,
                                uint64_t *sum)
{
    char key[MORPH_WORD_MAX + 1];
    memcpy(key, lemma, len);
    key[len++] = '%';
    for (size_t i = wn_file_lower_bound(counts, key, len); i < counts->n; i++) {
        const stet_str line = wn_file_line(counts, i);
        if (line.len <= len || memcmp(line.data, key, len) != 0)
            break;
        const int type = line.data[len] == '5' ? STET_ADJ : line.data[len] - '1';
        if (type != (int)pos)
            continue;
        wn_fields f = {counts, line.data, line.data + line.len};
        stet_str word;
        uint32_t number;
        TRY(wn_fields_word(&f, "sense_key", &word));
        TRY(wn_fields_number(&f, "sense_number", 10, MAX_SYNSETS, &number));
        TRY(wn_fields_number(&f, "tag_cnt", 10, UINT32_MAX, &number));
        *sum += number;
    }
    return STET_OK;
}

static stet_status read_form(void *ctx, const char *form, size_t len)
{
    reader *r = ctx;
    const int what = r->started ? BASE_FORM : ITSELF;
    const wn_file *index = &r->w->parts[r->pos].index;
    stet_str line;
    r->started = true;
    if (!wn_file_find(index, form, len, &line))
        return STET_OK;
    r->known[what] = true;
    if (r->w->counts.n)
        return count_senses(&r->w->counts, form, len, r->pos, &r->counts[what]);
    entry e;
    TRY(read_entry(index, line, &e));
    r->counts[what] += e.tagged;
    return STET_OK;
}

stet_status wordnet_read(const stet_wordnet *w, const char *word, stet_pos pos,
                         wordnet_reading *out)
{
    char lowered[MORPH_WORD_MAX + 1];
    const size_t len = lower(word, lowered);
    reader r = {.w = w, .pos = pos};
    TRY(morph_forms(&w->parts[pos].exceptions, pos, lowered, len, read_form, &r));
    *out = (wordnet_reading){
        .known = r.known[ITSELF] || r.known[BASE_FORM],
        .inflected =
            r.known[BASE_FORM] && (!r.known[ITSELF] || r.counts[BASE_FORM] > r.counts[ITSELF]),
        .count = r.counts[ITSELF] + r.counts[BASE_FORM],
    };
    return STET_OK;
}
