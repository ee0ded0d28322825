/* lexicon/tagger_builtin.c - Penn tags without a trained model: a list of function words, WordNet's
 * counts of how often a word is a noun, verb, adjective or adverb, a little of the context, and
 * endings for the rest. Without WordNet the list and the endings do what they can. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "lexicon/tagger.h"
#include "lexicon/wordnet.h"

struct builtin_tagger {
    stet_wordnet *wordnet; /* NULL: not on this machine */
    strmap words;
    const char **word_tags; /* (words.n) */
    size_t word_tags_cap;
};

/* ---- function words ------------------------------------------------------------------------ */

/* A word of several tags stands here with its most frequent one; listed_tag() knows some others. */
static const struct {
    const char *tag, *words;
} function_words[] = {
    {"DT", "a an the this these those each every any some no another all both either neither"},
    {"IN", "of in on at by for with from about as into like through after over between against "
           "during without before under around among if because while since though although "
           "whether than until till upon per via toward towards despite unlike within beyond "
           "except above below behind across along inside outside off out up down near past that "
           "@ amid besides beside onto throughout unless amongst versus vs worth atop next"},
    {"TO", "to na"},
    {"CC", "and or but nor & plus n 'n"},
    {"PRP", "i you he she it we they me him us them myself yourself himself herself itself "
            "ourselves themselves yourselves mine yours hers ours theirs u ya y'all"},
    {"PRP$", "my your his its our their her ur"},
    {"MD", "can could may might must shall should will would 'll 'd ca wo ought"},
    {"WDT", "which whatever whichever"},
    {"WP", "who whom what whoever"},
    {"WP$", "whose"},
    {"WRB", "when where why how whenever wherever"},
    {"EX", "there"},
    {"PDT", "such"},
    {"POS", "'s '"},
    {"RB", "not n't very too also so just then now never always again here ever even still "
           "already only perhaps maybe quite rather almost away back instead else soon yet once "
           "however therefore thus enough nt as-is together ago forward apart afterwards"},
    {"RBR", "more less"},
    {"RBS", "most least"},
    {"JJ", "other same own many several few first second third last next new good great much"},
    {"JJR", "better"},
    {"JJS", "best"},
    {"NN", "something anything nothing everything someone anyone everyone nobody anybody somebody "
           "everybody none today tomorrow yesterday tonight thanks %"},
    {"NNS", "people"},
    {"CD", "one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty "
           "forty fifty sixty hundred thousand million billion zero"},
    {"VB", "be let"},
    {"VBP", "am are 'm 're 've have do"},
    {"VBZ", "is has does"},
    {"VBD", "was were had did"},
    {"VBN", "been done"},
    {"VBG", "being having doing"},
    {"UH", "yes please oh hey lol ok okay wow hi hello yeah yep um uh haha"},
    {".", ". ! ?"},
    {",", ", /"},
    {":", ": ; - -- --- ... .. …"},
    {"-LRB-", "( [ {"},
    {"-RRB-", ") ] }"},
    {"``", "`` “"},
    {"''", "'' ” \""},
    {"$", "$ £ € us$"},
    {"#", "#"},
};

static stet_status list_words(builtin_tagger *b)
{
    for (size_t k = 0; k < sizeof function_words / sizeof *function_words; k++) {
        for (const char *p = function_words[k].words; *p;) {
            const size_t len = strcspn(p, " ");
            uint32_t id;
            TRY(strmap_add(&b->words, p, len, &id));
            TRY(mem_grow(&b->word_tags, &b->word_tags_cap, b->words.n, sizeof *b->word_tags));
            b->word_tags[id] = function_words[k].tag;
            p += len + (p[len] == ' ');
        }
    }
    return STET_OK;
}

/* ---- small questions ----------------------------------------------------------------------- */

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool ends_with(const char *s, const char *suffix)
{
    const size_t n = strlen(s), m = strlen(suffix);
    return n > m && strcmp(s + n - m, suffix) == 0; /* more than the ending alone */
}

static bool is_one_of(const char *s, const char *list)
{
    const size_t n = strlen(s);
    for (const char *p = list; *p;) {
        const size_t len = strcspn(p, " ");
        if (len == n && memcmp(p, s, n) == 0)
            return true;
        p += len + (p[len] == ' ');
    }
    return false;
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* ---- the context --------------------------------------------------------------------------- */

/* The word to be tagged; the tags before it are set. */
typedef struct place {
    const builtin_tagger *b;
    const char *const *words;
    const char *const *tags;
    size_t n, i;
    const char *word;   /* its lower case */
    bool capitals_tell; /* are capitals a sign of names here? */
    bool quote_is_open;
} place;

static const char *tag_before(const place *p, size_t k)
{
    return k <= p->i ? p->tags[p->i - k] : "";
}

static bool next_is_one_of(const place *p, const char *list)
{
    return p->i + 1 < p->n && is_one_of(p->words[p->i + 1], list);
}

/* How far back the nearest word is that is no adverb ("not" is one). */
static size_t steps_over_adverbs(const place *p)
{
    size_t k = 1;
    while (k < 4 && starts_with(tag_before(p, k), "RB"))
        k++;
    return k;
}

static bool follows(const place *p, const char *list)
{
    const size_t k = steps_over_adverbs(p);
    return k <= p->i && is_one_of(p->words[p->i - k], list);
}

static bool wants_base_form(const place *p)
{
    return is_one_of(tag_before(p, steps_over_adverbs(p)), "TO MD") ||
           follows(p, "do does did let please help");
}

static bool wants_participle(const place *p)
{
    return follows(p, "be is are am was were been being 's 're 'm has have had having 've get got");
}

/* How much likelier than usual each part of speech is after a tag, times 100: counted once on the
 * words of English web text. */
static const struct {
    const char *after;
    uint16_t factor[STET_OTHER]; /* noun verb adjective adverb */
} contexts[] = {
    {"DT PRP$ POS PDT WP$", {160, 9, 151, 16}},
    {"TO MD", {1, 334, 1, 66}},
    {"PRP WP EX WDT WRB", {9, 275, 24, 144}},
    {"NN NNS NNP NNPS", {117, 98, 36, 123}},
    {"JJ JJR JJS CD", {196, 6, 49, 17}},
    {"RB RBR RBS", {7, 186, 171, 163}},
    {"VB VBD VBG VBN VBP VBZ", {45, 105, 146, 239}},
    {"IN RP", {131, 48, 137, 51}},
    {"CC", {70, 128, 109, 139}},
};

static uint64_t likelihood(const place *p, stet_pos pos)
{
    for (size_t k = 0; k < sizeof contexts / sizeof *contexts; k++) {
        if (is_one_of(tag_before(p, 1), contexts[k].after))
            return contexts[k].factor[pos];
    }
    return 100;
}

/* ---- one word ------------------------------------------------------------------------------ */

/* The function words whose tag depends on what stands beside them. */
static const char *listed_tag(const place *p, const char *usual)
{
    const char *w = p->word, *before = tag_before(p, 1);
    const bool at_end = p->i + 1 == p->n || next_is_one_of(p, ". , ! ? ; : ) and or but to in");
    if (strcmp(w, "her") == 0)
        return at_end ? "PRP" : "PRP$";
    if (strcmp(w, "that") == 0)
        return starts_with(before, "NN")                        ? "WDT"
               : at_end || next_is_one_of(p, "is was 's would") ? "DT"
                                                                : "IN";
    if (strcmp(w, "'s") == 0)
        return is_one_of(before, "PRP EX WP DT WRB RB") ? "VBZ" : "POS";
    if (strcmp(w, "there") == 0)
        return next_is_one_of(p, "is are was were 's has have will would may") ? "EX" : "RB";
    if (strcmp(w, "like") == 0)
        return wants_base_form(p) ? "VB" : strcmp(before, "PRP") == 0 ? "VBP" : "IN";
    if (is_one_of(w, "up out off down") && starts_with(before, "VB"))
        return "RP";
    if (is_one_of(w, "have do") && wants_base_form(p))
        return "VB";
    if (strcmp(w, "\"") == 0)
        return p->quote_is_open ? "''" : "``";
    if (strcmp(p->words[p->i], "US") == 0)
        return "NNP";
    if (is_one_of(w, "had did") && wants_participle(p))
        return "VBN";
    return usual;
}

static const char *verb_tag(const place *p, bool inflected)
{
    if (ends_with(p->word, "ing"))
        return "VBG";
    if (inflected && ends_with(p->word, "s"))
        return "VBZ";
    const bool after_subject =
        is_one_of(tag_before(p, steps_over_adverbs(p)), "PRP NN NNS NNP NNPS WDT WP EX");
    if (inflected)
        return !wants_participle(p) && after_subject ? "VBD" : "VBN";
    return !wants_base_form(p) && after_subject ? "VBP" : "VB";
}

static const char *open_class_tag(const place *p, stet_pos pos, bool inflected)
{
    switch (pos) {
    case STET_NOUN:
        return inflected ? "NNS" : "NN";
    case STET_VERB:
        return verb_tag(p, inflected);
    case STET_ADJ:
        return !inflected ? "JJ" : ends_with(p->word, "st") ? "JJS" : "JJR";
    default:
        return !inflected ? "RB" : ends_with(p->word, "st") ? "RBS" : "RBR";
    }
}

/* By WordNet; *tag stays NULL for a word that it does not have. */
static stet_status wordnet_tag(const place *p, const char **tag)
{
    uint64_t best = 0;
    for (int pos = 0; p->b->wordnet && pos < STET_OTHER; pos++) {
        wordnet_reading r;
        TRY(wordnet_read(p->b->wordnet, p->word, (stet_pos)pos, &r));
        uint64_t score = r.known ? (2 * r.count + 1) * likelihood(p, (stet_pos)pos) : 0;
        if (pos == STET_VERB) /* its count is spread over more forms than the others' */
            score /= 3;
        if (score > best) {
            best = score;
            *tag = open_class_tag(p, (stet_pos)pos, r.inflected);
        }
    }
    return STET_OK;
}

/* By endings, for words that no list has; the first that fits. */
static const char *ending_tag(const place *p)
{
    static const struct {
        const char *ending;
        stet_pos pos;
        bool inflected;
    } rules[] = {
        {"ing", STET_VERB, true},   {"ed", STET_VERB, true},   {"ize", STET_VERB, false},
        {"ise", STET_VERB, false},  {"ify", STET_VERB, false}, {"ly", STET_ADV, false},
        {"wards", STET_ADV, false}, {"ous", STET_ADJ, false},  {"ful", STET_ADJ, false},
        {"able", STET_ADJ, false},  {"ible", STET_ADJ, false}, {"less", STET_ADJ, false},
        {"ish", STET_ADJ, false},   {"ive", STET_ADJ, false},  {"ic", STET_ADJ, false},
        {"al", STET_ADJ, false},    {"ary", STET_ADJ, false},  {"est", STET_ADJ, true},
        {"ss", STET_NOUN, false},   {"us", STET_NOUN, false},  {"is", STET_NOUN, false},
        {"s", STET_NOUN, true},
    };
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
        if (ends_with(p->word, rules[k].ending))
            return open_class_tag(p, rules[k].pos, rules[k].inflected);
    }
    return strchr(p->word, '-') ? "JJ" : "NN";
}

static bool is_ordinal(const char *number)
{
    return ends_with(number, "st") || ends_with(number, "nd") || ends_with(number, "rd") ||
           ends_with(number, "th");
}

/* "Washington Post", not "Yesterday I". */
static bool next_is_name(const place *p)
{
    const char *next = p->i + 1 < p->n ? p->words[p->i + 1] : "";
    char lowered[TAG_WORD_MAX + 1];
    lowered[tag_lower(next, strlen(next), lowered)] = '\0';
    return is_upper(next[0]) && strmap_find(&p->b->words, lowered, strlen(lowered)) == STRMAP_NONE;
}

static stet_status tag_place(const place *p, const char **tag)
{
    const char *raw = p->words[p->i];
    const bool capital = is_upper(raw[0]) && p->capitals_tell;
    const uint32_t listed = strmap_find(&p->b->words, p->word, strlen(p->word));
    *tag = NULL;
    if (listed != STRMAP_NONE)
        *tag = listed_tag(p, p->b->word_tags[listed]);
    else if (is_digit(raw[0]) || (raw[0] && is_digit(raw[1]) && strchr("-+.'$", raw[0])))
        *tag = is_ordinal(raw) ? "JJ" : "CD";
    else if (strspn(raw, ".!?") == strlen(raw))
        *tag = ".";
    else if (strpbrk(p->word, "abcdefghijklmnopqrstuvwxyz") == NULL && (raw[0] & 0x80) == 0)
        *tag = "SYM";
    else if (capital && (p->i > 0 || next_is_name(p)))
        *tag = "NNP";
    else
        TRY(wordnet_tag(p, tag));
    if (!*tag)
        *tag = capital ? "NNP" : ending_tag(p);
    return STET_OK;
}

/* ---- sentences ----------------------------------------------------------------------------- */

/* In a heading or a shout every word has a capital, so a capital says nothing. */
static bool capitals_tell(const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (words[i][0] >= 'a' && words[i][0] <= 'z')
            return true;
    }
    return n < 3;
}

stet_status builtin_tagger_tag(const builtin_tagger *b, const char *const *words, size_t n,
                               const char **tags)
{
    place p = {.b = b, .words = words, .tags = tags, .n = n};
    p.capitals_tell = capitals_tell(words, n);
    for (; p.i < n; p.i++) {
        char lowered[TAG_WORD_MAX + 1];
        lowered[tag_lower(words[p.i], strlen(words[p.i]), lowered)] = '\0';
        p.word = lowered;
        TRY(tag_place(&p, &tags[p.i]));
        p.quote_is_open ^= strcmp(lowered, "\"") == 0;
    }
    return STET_OK;
}

static stet_status fill(builtin_tagger *b)
{
    TRY(list_words(b));
    char dir[WORDNET_DIR];
    const bool there = wordnet_find_dir(NULL, dir) == STET_OK && wordnet_is_in(dir);
    const stet_status st = stet_wordnet_open(NULL, &b->wordnet);
    if (there || st != STET_EIO)
        return st;
    log_warn("tagging by endings alone: %s", stet_last_error());
    return STET_OK;
}

stet_status stet_tagger_builtin(stet_tagger **out)
{
    *out = NULL;
    stet_tagger *t = mem_zalloc(1, sizeof *t);
    if (!t)
        return STET_ENOMEM;
    t->builtin = mem_zalloc(1, sizeof *t->builtin);
    const stet_status st = t->builtin ? fill(t->builtin) : STET_ENOMEM;
    if (st == STET_OK)
        *out = t;
    else
        stet_tagger_free(t);
    return st;
}

void builtin_tagger_free(builtin_tagger *b)
{
    if (!b)
        return;
    stet_wordnet_free(b->wordnet);
    strmap_deinit(&b->words);
    mem_free(b->word_tags);
    mem_free(b);
}
