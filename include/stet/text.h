/* stet/text.h - from files to word ids: corpora, tokenisers, vocabulary, word vectors.
 *
 *     stet_dataset *data;
 *     stet_data_options how = STET_DATA_DEFAULTS;
 *     if (stet_dataset_load("train.tsv.xz", &how, &data) != STET_OK) ...
 *     for (size_t i = 0; i < stet_dataset_size(data); i++)
 *         puts(stet_dataset_text(data, i).data);
 *     stet_dataset_free(data);
 *
 * Loaded objects never change, so threads may share them freely. */
#ifndef STET_TEXT_H
#define STET_TEXT_H

#include "stet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stet_str {
    const char *data; /* UTF-8, NUL-terminated, may hold no NUL */
    size_t len;
} stet_str;

/* ---- corpora ------------------------------------------------------------------------------ */

/* Labelled texts. Formats, told by content and name: TSV (label<TAB>text), CSV (RFC 4180), JSON
 * lines, fastText (__label__x text), an aclImdb folder (neg/ and pos/); plain, .gz, .xz or .zst; "-" is standard input. */
typedef struct stet_dataset stet_dataset;

typedef enum stet_data_format {
    STET_DATA_AUTO,
    STET_DATA_TSV,
    STET_DATA_CSV,
    STET_DATA_JSONL,
    STET_DATA_FASTTEXT,
    STET_DATA_ACLIMDB
} stet_data_format;

typedef struct stet_data_options {
    size_t size; /* of this struct; 0 counts as what this header says */
    stet_data_format format;
    const char *label; /* column or field by name or number from 1; NULL: the usual one */
    const char *text;  /* columns or fields, comma-separated, joined by a space; NULL: the usual */
    int header;        /* CSV/TSV first line: 1 names, 0 data, -1 decide */
    bool skip_bad;     /* count and report bad lines instead of failing */
    bool unlabelled;   /* every line is a text; label -1 */
    const stet_dataset *like; /* classes must be those of this one (a test set), or NULL */
} stet_data_options;
#ifdef __cplusplus
#define STET_DATA_DEFAULTS STET_DEFAULTS_CXX(stet_data_options)
#else
#define STET_DATA_DEFAULTS                                                                         \
    {                                                                                              \
        .size = sizeof(stet_data_options), .header = -1                                            \
    }
#endif
STET_API void stet_data_options_init(stet_data_options *a,
                                     size_t size); /* sizeof(stet_data_options) */

STET_API stet_status stet_dataset_load(const char *path, const stet_data_options *how,
                                       stet_dataset **out);
/* One from memory: labels 0..n_classes-1 (or -1), names may be NULL. Copies everything. */
STET_API stet_status stet_dataset_new(const stet_str *texts, const int *labels, size_t n,
                                      const char *const *class_names, size_t n_classes,
                                      stet_dataset **out);
/* The texts `index[0..n)` of `d` as a new set with the same classes. */
STET_API stet_status stet_dataset_pick(const stet_dataset *d, const size_t *index, size_t n,
                                       stet_dataset **out);
/* The seeded sample of at most `limit` texts that every command takes for --limit: indices in ascending order. `index` holds min(limit, n) entries. */
STET_API size_t stet_dataset_sample(const stet_dataset *d, size_t limit, uint64_t seed,
                                    size_t *index);
STET_API size_t stet_dataset_size(const stet_dataset *d);
STET_API stet_str stet_dataset_text(const stet_dataset *d, size_t i);
STET_API int stet_dataset_label(const stet_dataset *d, size_t i);
STET_API size_t stet_dataset_classes(const stet_dataset *d);
STET_API const char *stet_dataset_class_name(const stet_dataset *d, size_t c);
STET_API size_t stet_dataset_skipped(const stet_dataset *d); /* bad lines left out */
STET_API uint64_t stet_dataset_fingerprint(const stet_dataset *d);
/* SHA-256 of the texts and their classes' numbers: "LABEL<TAB>BYTES<LF>text<LF>" for each. */
STET_API void stet_dataset_sha256(const stet_dataset *d, char out[65]);
/* Write in a format told by the name (.tsv, .csv, .jsonl, then .gz/.xz/.zst); atomic. */
STET_API stet_status stet_dataset_save(const stet_dataset *d, const char *path);
STET_API void stet_dataset_free(stet_dataset *d);

/* Fetch a known corpus or any URL into `dir`: resumes, checks size and checksum, unpacks. */
STET_API stet_status stet_data_get(const char *name_or_url, const char *dir);
/* The same, and the file must have this SHA-256 (64 digits; NULL: the recorded one, if there is one). */
STET_API stet_status stet_data_get_checked(const char *name_or_url, const char *sha256,
                                           const char *dir);
/* The names it knows, i = 0, 1, ..., with a line about each (`what` may be NULL); NULL past the end. */
STET_API const char *stet_data_known(size_t i, const char **what);

/* ---- tokenisers --------------------------------------------------------------------------- */

typedef enum stet_tokenizer {
    STET_TOK_WORD, /* lower case, <br> dropped, contractions split as GloVe's vocabulary has them */
    STET_TOK_KERAS, /* lower case, the Keras filter characters become spaces, apostrophes stay */
    STET_TOK_COUNT
} stet_tokenizer;
STET_API const char *stet_tokenizer_name(stet_tokenizer kind);
STET_API stet_status stet_tokenizer_parse(const char *name, stet_tokenizer *out);

typedef struct stet_token {
    uint32_t start, end; /* byte span in the text */
    uint32_t word, len;  /* normalised form: stet_tokens.words + word, len bytes, NUL after it */
} stet_token;

/* Reused between calls; {0} is valid. */
typedef struct stet_tokens {
    stet_token *v;
    size_t n, cap;
    char *words; /* normalised forms one after the other */
    size_t words_n, words_cap;
} stet_tokens;

STET_API stet_status stet_tokenize(stet_tokenizer kind, const char *text, size_t len,
                                   stet_tokens *out);
STET_API const char *stet_token_word(const stet_tokens *t, size_t i);
STET_API void stet_tokens_deinit(stet_tokens *t);
/* The text with token `at[k]` replaced by `with[k]` (ascending `at`), case pattern and spacing kept;
 * n 0 gives the original bytes. A new string for stet_free(). */
STET_API stet_status stet_text_rebuild(const char *text, size_t len, const stet_tokens *t,
                                       const size_t *at, const char *const *with, size_t n,
                                       char **out);

/* ---- vocabulary --------------------------------------------------------------------------- */

enum { STET_PAD = 0, STET_UNK = 1, STET_FIRST_WORD = 2 };
typedef struct stet_vocab stet_vocab;

/* Count words of texts, then cut and freeze. After a failed call a counter is only good for stet_counter_free. */
typedef struct stet_counter stet_counter;
STET_API stet_status stet_counter_new(stet_counter **out);
STET_API stet_status stet_counter_add_dataset(stet_counter *c, const stet_dataset *d,
                                              stet_tokenizer kind);
STET_API stet_status stet_counter_add_word(stet_counter *c, const char *word,
                                           uint64_t count); /* 0: only make it present */
STET_API size_t stet_counter_size(const stet_counter *c);
STET_API uint64_t stet_counter_tokens(const stet_counter *c);
STET_API const char *stet_counter_word(const stet_counter *c,
                                       size_t i); /* order of first appearance */
STET_API uint64_t stet_counter_count(const stet_counter *c, size_t i);
STET_API void stet_counter_free(stet_counter *c);

/* Words counted at least `min_count` times (added with count 0: always), at most `max_words` (0: all), sorted by
 * falling count, ties by bytes. */
STET_API stet_status stet_vocab_build(const stet_counter *c, uint64_t min_count, size_t max_words,
                                      stet_vocab **out);
STET_API stet_status stet_vocab_from_words(const char *const *words, size_t n,
                                           stet_vocab **out); /* without <pad>, <unk> */
/* vocab.txt: one word per line, the line's number is its id. */
STET_API stet_status stet_vocab_load(const char *path, stet_vocab **out);
STET_API stet_status stet_vocab_save(const stet_vocab *v, const char *path);
STET_API size_t stet_vocab_size(const stet_vocab *v); /* <pad> and <unk> counted */
STET_API uint32_t stet_vocab_id(const stet_vocab *v, const char *word,
                                size_t len); /* STET_UNK if absent */
STET_API const char *stet_vocab_word(const stet_vocab *v, uint32_t id);
STET_API uint64_t stet_vocab_fingerprint(const stet_vocab *v);
STET_API void stet_vocab_free(stet_vocab *v);

/* ---- word ids of a data set --------------------------------------------------------------- */

/* Texts as word ids (of a model: as rows of its table), one after the other: text i is ids[start[i] .. start[i+1]). Tokenised in parallel. */
typedef struct stet_corpus {
    size_t n_texts, n_tokens, n_classes;
    uint32_t *ids;   /* (n_tokens) */
    uint64_t *start; /* (n_texts + 1) */
    int32_t *label;  /* (n_texts) */
} stet_corpus;

/* `max_len` 0: whole texts; else the first max_len tokens. */
STET_API stet_status stet_corpus_encode(const stet_dataset *d, const stet_vocab *v,
                                        stet_tokenizer kind, size_t max_len, stet_corpus *out);
STET_API void stet_corpus_deinit(stet_corpus *c);

/* ---- word vectors ------------------------------------------------------------------------- */

/* A table with one row per vocabulary id. Rows of words that no file has are zero and not known; so
 * is <pad>. The row of <unk> is the mean of the known rows. */
typedef struct stet_vectors {
    size_t n, dim;
    float *data;          /* (n, dim), 64-byte aligned */
    unsigned char *known; /* (n) 1 where a vector was found */
    size_t n_known;       /* words found; <pad> and <unk> are not among them */
} stet_vectors;

/* GloVe, word2vec and fastText text and word2vec binary, told by content; plain or compressed. The first vector of a
 * word counts, in the order of files and lines. Only the words of `v` are kept, the lines of others are skipped unread;
 * reading stops when every word has its vector. A bad file is STET_EFORMAT with file and line. */
STET_API stet_status stet_vectors_load(const char *const *paths, size_t n_paths,
                                       const stet_vocab *v, stet_vectors *out);
/* Every word of the files, in their order, with a vocabulary made of them; words that are not UTF-8 are left out. */
STET_API stet_status stet_vectors_load_all(const char *const *paths, size_t n_paths, stet_vocab **v,
                                           stet_vectors *out);
/* The known words as GloVe text, each number with the fewest digits that read back as the same float. Atomic;
 * compressed when the name ends in .gz, .xz or .zst; "-" is standard output. */
STET_API stet_status stet_vectors_save_text(const stet_vectors *t, const stet_vocab *v,
                                            const char *path);
STET_API stet_status stet_vectors_save_binary(const stet_vectors *t, const stet_vocab *v,
                                              const char *path); /* word2vec */
STET_API void stet_vectors_deinit(stet_vectors *t);

/* Train vectors on a corpus: co-occurrence weighted by 1/distance and the GloVe objective. The same seed gives the
 * same bytes whatever the number of threads. */
typedef struct stet_embed_options {
    size_t size; /* of this struct; 0 counts as what this header says */
    size_t dim, window, epochs;
    uint64_t min_count, seed;  /* rarer words get no vector */
    double rate, x_max, alpha; /* AdaGrad's rate; a pair counts min(1, (x / x_max)^alpha) */
} stet_embed_options;
#ifdef __cplusplus
#define STET_EMBED_DEFAULTS STET_DEFAULTS_CXX(stet_embed_options)
#else
#define STET_EMBED_DEFAULTS                                                                        \
    {                                                                                              \
        .size = sizeof(stet_embed_options), .dim = 100, .window = 10, .epochs = 15,                \
        .min_count = 2, .seed = 1, .rate = 0.05, .x_max = 10, .alpha = 0.75                        \
    }
#endif
STET_API void stet_embed_options_init(stet_embed_options *a,
                                      size_t size); /* sizeof(stet_embed_options) */
STET_API stet_status stet_embed_train(const stet_dataset *d, stet_tokenizer kind,
                                      const stet_embed_options *how, stet_vocab **v,
                                      stet_vectors *out);

#ifdef __cplusplus
}
#endif
#endif
