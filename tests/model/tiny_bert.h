/* tests/model/tiny_bert.h - the BERT of golden/bert/tiny.json as a folder, as transformers writes it. */
#ifndef TESTS_MODEL_TINY_BERT_H
#define TESTS_MODEL_TINY_BERT_H

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/model_impl.h"
#include "tensor/safetensors.h"
#include "test.h"

static inline json_t *tiny_golden(void)
{
    json_t *o;
    CHECK_OK(json_read_file(STET_SOURCE_DIR "/tests/golden/bert/tiny.json", &o));
    return o;
}

static inline const char *in_folder(const char *dir, const char *name)
{
    static char *path[8];
    static int next;
    char **p = &path[next++ % 8];
    mem_free(*p);
    *p = path_join(dir, name);
    return *p;
}

static const char *const tiny_words[] = {
    "[PAD]", "[UNK]", "[CLS]",  "[SEP]", "[MASK]", "the",  "a",     "film",  "movie", "good",
    "bad",   "fine",  "##ly",   "great", "##er",   "dull", "and",   "not",   "very",  "plot",
    "actor", "scene", "##s",    "warm",  "cold",   "sad",  "happy", "funny", "it",    "is",
    "was",   "un",    "##able", "##e",   "##d",    "x",    "y",     "z",     ".",     ","};
enum { TINY_WORDS = sizeof tiny_words / sizeof *tiny_words };

static inline void tiny_vocab(const char *dir, size_t n)
{
    FILE *f = fopen(in_folder(dir, "vocab.txt"), "w");
    CHECK(f != NULL);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "%s\n", tiny_words[i]);
    fclose(f);
}

/* config.json of the golden file with one key set to a JSON text (NULL: left out). */
static inline void tiny_config(const char *dir, const char *key, const char *value)
{
    json_t *golden = tiny_golden(), *o = json_deep_copy(json_object_get(golden, "config")), *v;
    json_object_set_new(o, "model_type", json_string("bert"));
    json_object_set_new(o, "id2label",
                        json_pack("{s:s, s:s, s:s}", "0", "no", "1", "so-so", "2", "yes"));
    if (key && value) {
        char text[256];
        snprintf(text, sizeof text, "[%s]", value);
        CHECK_OK(json_read_text("value", text, strlen(text), &v));
        json_object_set(o, key, json_array_get(v, 0));
        json_decref(v);
    } else if (key) {
        json_object_del(o, key);
    }
    CHECK_OK(json_write_file(in_folder(dir, "config.json"), o));
    json_decref(o);
    json_decref(golden);
}

static inline double tiny_weight(const char *name, size_t k, size_t i)
{
    const double v = sin(1 + 0.7 * (double)k + 1.3 * (double)i);
    const size_t n = strlen(name);
    return strstr(name, "LayerNorm.weight")            ? 1 + 0.1 * v
           : strcmp(name + n - 5, ".bias") == 0        ? 0.1 * v
           : strstr(name, "embeddings.weight") != NULL ? 0.5 * v
                                                       : 0.35 * v;
}

static inline shape tiny_shape(const char *name)
{
    enum { H = 16, F = 32 };
    const bool weight = strcmp(name + strlen(name) - 7, ".weight") == 0;
    if (strstr(name, "word_emb"))
        return shape2(40, H);
    if (strstr(name, "position_emb"))
        return shape2(12, H);
    if (strstr(name, "token_type"))
        return shape2(2, H);
    const bool up = strstr(name, "intermediate") != NULL, head = strncmp(name, "cl", 2) == 0,
               down = strstr(name, ".output.dense") && !strstr(name, "attention.output");
    const size_t out = up ? F : head ? 3 : H;
    return weight && !strstr(name, "LayerNorm") ? shape2(out, down ? F : H) : shape1(out);
}

/* How the tensors are called. */
typedef enum spelling { AS_IT_IS, BARE, OLD, BOTH } spelling;

static inline void spell(spelling how, const char *name, char *out, size_t size)
{
    const char *from = name;
    if (how == BARE && strncmp(name, "bert.", 5) == 0)
        from += 5;
    snprintf(out, size, "%s%s", how == OLD ? "module." : "", from);
    char *norm = how == OLD ? strstr(out, "LayerNorm.") : NULL;
    if (norm)
        strcpy(norm + 10, strcmp(norm + 10, "weight") == 0 ? "gamma" : "beta");
}

/* model.safetensors without the last `less` of the 41 tensors. */
static inline void tiny_weights(const char *dir, spelling how, size_t less)
{
    json_t *golden = tiny_golden();
    const json_t *names = json_object_get(golden, "names");
    const size_t n = json_array_size(names) - less;
    static st_tensor t[64];
    static char text[64][128];
    for (size_t k = 0; k < n; k++) {
        const char *name = json_string_value(json_array_get(names, k));
        const shape s = tiny_shape(name);
        real *v = mem_alloc(shape_count(s), sizeof *v);
        for (size_t i = 0; i < shape_count(s); i++)
            v[i] = (real)tiny_weight(name, k, i);
        spell(how, name, text[k], sizeof text[k]);
        t[k] = (st_tensor){text[k], ST_REAL, s, v};
    }
    static const int64_t ids[12] = {0};
    t[n] = (st_tensor){"embeddings.position_ids", ST_I64, shape2(1, 12), ids}; /* to be ignored */
    t[n + 1] = t[4];
    t[n + 1].name = "module.bert.embeddings.LayerNorm.beta";
    CHECK_OK(st_write(in_folder(dir, "model.safetensors"), t, n + 1 + (how == BOTH), NULL));
    for (size_t k = 0; k < n; k++)
        mem_free((void *)t[k].data);
    json_decref(golden);
}

static inline const char *tiny_bert(void)
{
    static char path[4096];
    snprintf(path, sizeof path, "%.4000s/tiny", test_dir());
    CHECK_OK(dir_make(path));
    tiny_config(path, NULL, NULL);
    tiny_vocab(path, TINY_WORDS);
    tiny_weights(path, AS_IT_IS, 0);
    return path;
}

#endif
