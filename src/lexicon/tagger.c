/* lexicon/tagger.c - the averaged-perceptron tagger: its file, tagging, scoring.
 *
 * A file is text, tab-separated, with one record a line: "C tag" declares a tag, "D word tag" a
 * word that always gets that tag, "W feature tag weight tag weight ..." the weights of a feature.
 * Words are tagged from left to right; the tag with the highest sum of weights wins, of equals the
 * one whose name is last in the alphabet. */
#include "lexicon/tagger.h"

#include <string.h>

#include "base/mem.h"
#include "base/stream.h"
#include "lexicon/conllu.h"
#include "text/outfile.h"

/* ---- putting a model together -------------------------------------------------------------- */

static int shown(size_t len) /* of a text in a message */
{
    return (int)(len < 60 ? len : 60);
}

stet_status tagger_add_tag(stet_tagger *t, const char *name, size_t len)
{
    if (len == 0 || strmap_find(&t->tags, name, len) != STRMAP_NONE)
        return error_set(STET_EFORMAT, "tag '%.*s' is %s", shown(len), name,
                         len ? "declared twice" : "empty");
    if (t->tags.n == TAGGER_MAX_TAGS)
        return error_set(STET_EFORMAT, "more than %d tags", TAGGER_MAX_TAGS);
    uint32_t id;
    TRY(mem_grow(&t->tag_values, &t->tag_values_cap, t->tags.n + 1, sizeof *t->tag_values));
    TRY(strmap_add(&t->tags, name, len, &id));
    t->tag_values[id] = tag_value_of(strmap_text(&t->tags, id), len);
    return STET_OK;
}

stet_status tagger_add_word(stet_tagger *t, const char *word, size_t len, uint32_t tag)
{
    if (strmap_find(&t->words, word, len) != STRMAP_NONE)
        return error_set(STET_EFORMAT, "word '%.*s' is listed twice", shown(len), word);
    uint32_t id;
    TRY(mem_grow(&t->word_tags, &t->word_tags_cap, t->words.n + 1, sizeof *t->word_tags));
    TRY(strmap_add(&t->words, word, len, &id));
    t->word_tags[id] = tag;
    return STET_OK;
}

static void use_template(stet_tagger *t, size_t which)
{
    for (size_t i = 0; i < t->n_templates; i++) {
        if (t->templates[i] == which)
            return;
    }
    t->templates[t->n_templates++] = (uint8_t)which;
}

stet_status tagger_add_feature(stet_tagger *t, const char *text, size_t len)
{
    size_t which;
    uint64_t hash;
    if (!tag_feature_parse(text, len, &which, &hash))
        return error_set(STET_EFORMAT, "feature '%.*s' is of no known kind", shown(len), text);
    if (t->feature_text.n + len >= UINT32_MAX || t->n_weights >= UINT32_MAX)
        return error_set(STET_EFORMAT, "more features than a tagger can hold");
    TRY(mem_grow(&t->features, &t->features_cap, t->n_features + 1, sizeof *t->features));
    t->features[t->n_features++] = (tag_feature){
        .text = (uint32_t)t->feature_text.n, .first = (uint32_t)t->n_weights, .hash = hash};
    use_template(t, which);
    buf_bytes(&t->feature_text, text, len);
    buf_char(&t->feature_text, '\0');
    return buf_status(&t->feature_text);
}

stet_status tagger_add_weight(stet_tagger *t, uint32_t tag, int32_t thousandths)
{
    TRY(mem_grow(&t->weights, &t->weights_cap, t->n_weights + 1, sizeof *t->weights));
    t->weights[t->n_weights++] = (tag_weight){thousandths, tag};
    t->features[t->n_features - 1].count++;
    return STET_OK;
}

static size_t slot_of(const stet_tagger *t, uint64_t hash)
{
    size_t i = hash & (t->n_slots - 1);
    while (t->slots[i].hash && t->slots[i].hash != hash)
        i = (i + 1) & (t->n_slots - 1);
    return i;
}

/* Features are told apart by 64-bit hashes alone, so two with one hash may not meet in a model. */
stet_status tagger_finish(stet_tagger *t)
{
    if (t->tags.n == 0)
        return error_set(STET_EFORMAT, "a tagger without tags");
    t->n_slots = 16;
    while (t->n_slots < 2 * t->n_features)
        t->n_slots *= 2;
    t->slots = mem_zalloc(t->n_slots, sizeof *t->slots);
    if (!t->slots)
        return STET_ENOMEM;
    for (size_t i = 0; i < t->n_features; i++) {
        const tag_feature *f = &t->features[i];
        const size_t slot = slot_of(t, f->hash);
        if (t->slots[slot].hash)
            return error_set(STET_EFORMAT, "feature '%s' is listed twice or shares its hash",
                             t->feature_text.data + f->text);
        t->slots[slot] = (tag_slot){f->hash, f->first, f->count};
    }
    return STET_OK;
}

void stet_tagger_free(stet_tagger *t)
{
    if (!t)
        return;
    builtin_tagger_free(t->builtin);
    strmap_deinit(&t->tags);
    mem_free(t->tag_values);
    strmap_deinit(&t->words);
    mem_free(t->word_tags);
    buf_deinit(&t->feature_text);
    mem_free(t->features);
    mem_free(t->weights);
    mem_free(t->slots);
    mem_free(t);
}

/* ---- the file ------------------------------------------------------------------------------ */

/* Take the next tab-separated field off a line; false when nothing is left. */
static bool next_field(stet_str *rest, stet_str *field)
{
    if (!rest->data)
        return false;
    const char *end = rest->data + rest->len, *tab = memchr(rest->data, '\t', rest->len);
    *field = (stet_str){rest->data, (size_t)((tab ? tab : end) - rest->data)};
    *rest = tab ? (stet_str){tab + 1, (size_t)(end - tab - 1)} : (stet_str){0};
    return true;
}

static bool parse_weight(stet_str s, int32_t *out)
{
    const bool minus = s.len && *s.data == '-';
    size_t digits = 0, decimals = 0;
    bool point = false;
    int64_t value = 0;
    for (size_t i = minus; i < s.len; i++) {
        const char c = s.data[i];
        if (c == '.' && !point && digits) {
            point = true;
            continue;
        }
        if (c < '0' || c > '9' || ++digits > 10)
            return false;
        value = value * 10 + (c - '0');
        decimals += point;
    }
    if (digits == 0 || decimals > 3 || (point && decimals == 0))
        return false;
    for (; decimals < 3; decimals++)
        value *= 10;
    if (value > INT32_MAX)
        return false;
    *out = (int32_t)(minus ? -value : value);
    return true;
}

static stet_status find_tag(const stet_tagger *t, stet_str name, uint32_t *tag)
{
    *tag = strmap_find(&t->tags, name.data, name.len);
    if (*tag == STRMAP_NONE)
        return error_set(STET_EFORMAT, "tag '%.*s' has no C line before", shown(name.len),
                         name.data);
    return STET_OK;
}

static stet_status read_weights(stet_tagger *t, stet_str rest)
{
    stet_str tag, weight;
    while (next_field(&rest, &tag)) {
        uint32_t id;
        int32_t value;
        TRY(find_tag(t, tag, &id));
        if (!next_field(&rest, &weight))
            return error_set(STET_EFORMAT, "tag '%s' has no weight after it", tag.data);
        if (!parse_weight(weight, &value))
            return error_set(STET_EFORMAT,
                             "weight is '%.*s', expected a number with at most three decimals",
                             shown(weight.len), weight.data);
        TRY(tagger_add_weight(t, id, value));
    }
    return STET_OK;
}

static stet_status read_word(stet_tagger *t, stet_str word, stet_str *rest)
{
    stet_str tag;
    uint32_t id;
    if (!next_field(rest, &tag))
        return error_set(STET_EFORMAT, "expected a tag after the word");
    TRY(find_tag(t, tag, &id));
    return tagger_add_word(t, word.data, word.len, id);
}

static stet_status read_record(stet_tagger *t, stet_str line)
{
    stet_str type, name;
    if (memchr(line.data, '\0', line.len))
        return error_set(STET_EFORMAT, "a NUL byte in the line");
    next_field(&line, &type);
    const char kind = type.len == 1 ? *type.data : '\0';
    if (!kind || !strchr("CDW", kind) || !next_field(&line, &name))
        return error_set(STET_EFORMAT, "expected C, D or W, a tab and a name");
    if (kind == 'W') {
        TRY(tagger_add_feature(t, name.data, name.len));
        return read_weights(t, line);
    }
    TRY(kind == 'C' ? tagger_add_tag(t, name.data, name.len) : read_word(t, name, &line));
    return line.data ? error_set(STET_EFORMAT, "more fields than a %c line has", kind) : STET_OK;
}

static stet_status read_file(stet_tagger *t, stream *in)
{
    char *line;
    size_t len;
    stet_status st = STET_OK;
    while (st == STET_OK && stream_line(in, &line, &len, &st)) {
        st = len ? read_record(t, (stet_str){line, len}) : STET_OK;
        if (st == STET_EFORMAT)
            error_prefix(st, "%s:%zu", stream_path(in), stream_line_number(in));
    }
    if (st != STET_OK)
        return st;
    st = tagger_finish(t);
    return st == STET_EFORMAT ? error_prefix(st, "%s", stream_path(in)) : st;
}

stet_status stet_tagger_load(const char *path, stet_tagger **out)
{
    *out = NULL;
    stream *in;
    TRY(stream_open(path, &in));
    stet_tagger *t = mem_zalloc(1, sizeof *t);
    const stet_status st = t ? read_file(t, in) : STET_ENOMEM;
    stream_close(in);
    if (st == STET_OK)
        *out = t;
    else
        stet_tagger_free(t);
    return st;
}

/* As Python writes a number rounded to three decimals: 2.0, -0.67, 1.844. */
static void put_weight(buf *line, int32_t thousandths)
{
    const uint32_t size = thousandths < 0 ? 0 - (uint32_t)thousandths : (uint32_t)thousandths;
    unsigned fraction = size % 1000;
    int decimals = 3;
    while (decimals > 1 && fraction % 10 == 0) {
        fraction /= 10;
        decimals--;
    }
    buf_printf(line, "%s%u.%0*u", thousandths < 0 ? "-" : "", size / 1000, decimals, fraction);
}

static void put_feature(buf *line, const stet_tagger *t, const tag_feature *f)
{
    buf_printf(line, "W\t%s", t->feature_text.data + f->text);
    for (uint32_t k = 0; k < f->count; k++) {
        const tag_weight w = t->weights[f->first + k];
        buf_printf(line, "\t%s\t", t->tag_values[w.tag].text);
        put_weight(line, w.thousandths);
    }
    buf_char(line, '\n');
}

/* Write what was collected; the buffer is empty again. */
static stet_status flush(outfile *f, buf *lines)
{
    TRY(buf_status(lines));
    TRY(outfile_write(f, lines->data, lines->n));
    buf_clear(lines);
    return STET_OK;
}

static stet_status write_model(const stet_tagger *t, outfile *f, buf *lines)
{
    for (uint32_t i = 0; i < t->tags.n; i++)
        buf_printf(lines, "C\t%s\n", strmap_text(&t->tags, i));
    for (uint32_t i = 0; i < t->words.n; i++)
        buf_printf(lines, "D\t%s\t%s\n", strmap_text(&t->words, i),
                   t->tag_values[t->word_tags[i]].text);
    TRY(flush(f, lines));
    for (size_t i = 0; i < t->n_features; i++) {
        put_feature(lines, t, &t->features[i]);
        TRY(flush(f, lines));
    }
    return STET_OK;
}

stet_status stet_tagger_save(const stet_tagger *t, const char *path)
{
    if (t->builtin)
        return error_set(STET_ENOTSUP, "%s: the built-in tagger cannot be saved to a file", path);
    outfile *f;
    buf lines = {0};
    TRY(outfile_open(path, &f));
    const stet_status st = write_model(t, f, &lines);
    buf_deinit(&lines);
    return outfile_close(f, st);
}

/* ---- tagging ------------------------------------------------------------------------------- */

static uint32_t best_tag(const stet_tagger *t, const int64_t *score)
{
    uint32_t best = 0;
    for (uint32_t k = 1; k < t->tags.n; k++) {
        if (score[k] > score[best] || (score[k] == score[best] &&
                                       strcmp(t->tag_values[k].text, t->tag_values[best].text) > 0))
            best = k;
    }
    return best;
}

static uint32_t predict(const stet_tagger *t, const tag_window *w)
{
    int64_t score[TAGGER_MAX_TAGS];
    memset(score, 0, t->tags.n * sizeof *score);
    for (size_t k = 0; k < t->n_templates; k++) {
        const tag_slot *slot = &t->slots[slot_of(t, tag_feature_hash(w, t->templates[k]))];
        for (uint32_t i = 0; i < slot->count; i++) {
            const tag_weight *weight = &t->weights[slot->first + i];
            score[weight->tag] += weight->thousandths;
        }
    }
    return best_tag(t, score);
}

stet_status stet_tagger_tag(const stet_tagger *t, const char *const *words, size_t n,
                            const char **tags)
{
    if (t->builtin)
        return builtin_tagger_tag(t->builtin, words, n, tags);
    tag_window w;
    tag_window_start(&w, words, n);
    for (size_t i = 0; i < n; i++) {
        const uint32_t listed = strmap_find(&t->words, words[i], strlen(words[i]));
        const uint32_t tag = listed != STRMAP_NONE ? t->word_tags[listed] : predict(t, &w);
        tags[i] = t->tag_values[tag].text;
        tag_window_next(&w, t->tag_values[tag]);
    }
    return STET_OK;
}

/* ---- scoring ------------------------------------------------------------------------------- */

static stet_status eval_sentence(const stet_tagger *t, const conllu *c, const char **words,
                                 const char **tags, size_t *right)
{
    for (size_t i = 0; i < c->n; i++)
        words[i] = strmap_text(&c->forms, c->form[i]);
    TRY(stet_tagger_tag(t, words, c->n, tags));
    for (size_t i = 0; i < c->n; i++)
        *right += strcmp(tags[i], strmap_text(&c->tags, c->tag[i])) == 0;
    return STET_OK;
}

stet_status stet_tagger_eval(const stet_tagger *t, const char *path, size_t *right, size_t *total)
{
    *right = *total = 0;
    conllu c;
    TRY(conllu_open(&c, path));
    const char **words = NULL, **tags = NULL;
    size_t words_cap = 0, tags_cap = 0;
    stet_status st;
    while (conllu_next(&c, &st)) {
        st = mem_grow(&words, &words_cap, c.n, sizeof *words);
        if (st == STET_OK)
            st = mem_grow(&tags, &tags_cap, c.n, sizeof *tags);
        if (st == STET_OK)
            st = eval_sentence(t, &c, words, tags, right);
        if (st != STET_OK)
            break;
        *total += c.n;
    }
    mem_free(words);
    mem_free(tags);
    conllu_close(&c);
    return st;
}
