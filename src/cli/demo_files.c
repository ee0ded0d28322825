/* cli/demo_files.c - corpus, substitution sets and word vectors of the demonstration. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/demo.h"
#include "cli/ready_set.h"
#include "stet/lexicon.h"
#include "stet/results.h"

enum { TEST_TEXTS = 1000 };

static bool there(const char *path)
{
    return access(path, R_OK) == 0;
}

static stet_status place(char *out, const demo_cfg *cfg, const char *given, const char *name)
{
    const int n = given ? snprintf(out, DEMO_PATH, "%s", given)
                        : snprintf(out, DEMO_PATH, "%s/%s", cfg->out, name);
    return n < DEMO_PATH ? STET_OK
                         : cli_usage("%s: the path is too long", given ? given : cfg->out);
}

static stet_status load_texts(const demo_cfg *cfg, const char *path, stet_dataset **out)
{
    stet_data_options how = STET_DATA_DEFAULTS;
    if (path == cfg->data || cfg->test) { /* else it is ours */
        how.label = cfg->label;
        how.text = cfg->text;
    }
    return stet_dataset_load(path, &how, out);
}

/* ---- texts -------------------------------------------------------------------------------- */

static stet_status make_texts(const char *path, size_t n, uint64_t seed)
{
    if (there(path))
        return STET_OK;
    stet_dataset *d;
    stet_status st = stet_builtin_corpus(n, seed, &d);
    if (st != STET_OK)
        return st;
    st = stet_dataset_save(d, path);
    stet_dataset_free(d);
    return st;
}

static stet_status save_part(const stet_dataset *d, const size_t *index, size_t n, const char *path)
{
    stet_dataset *part;
    stet_status st = stet_dataset_pick(d, index, n, &part);
    if (st != STET_OK)
        return st;
    st = stet_dataset_save(part, path);
    stet_dataset_free(part);
    return st;
}

/* The user gave one file: a fifth of it, at most TEST_TEXTS, is kept for the test. */
static stet_status split(const demo_cfg *cfg, const demo_files *f)
{
    if (there(f->train) && there(f->test))
        return STET_OK;
    stet_dataset *d;
    stet_status st = load_texts(cfg, cfg->data, &d);
    if (st != STET_OK)
        return st;
    const size_t n = stet_dataset_size(d), want = n / 5 < TEST_TEXTS ? n / 5 : TEST_TEXTS;
    size_t *index = malloc((2 * n + 1) * sizeof *index), *rest = index + n;
    if (!index)
        st = cli_fail(STET_ENOMEM, "out of memory");
    else if (want == 0)
        st = cli_fail(STET_EFORMAT, "%s: %zu texts are too few to keep some for the test",
                      cfg->data, n);
    if (st == STET_OK) {
        const size_t tested = stet_dataset_sample(d, want, (uint64_t)cfg->common.seed, index);
        size_t n_rest = 0;
        for (size_t i = 0, k = 0; i < n; i++)
            if (k < tested && index[k] == i)
                k++;
            else
                rest[n_rest++] = i;
        st = save_part(d, index, tested, f->test);
        if (st == STET_OK)
            st = save_part(d, rest, n_rest, f->train);
    }
    free(index);
    stet_dataset_free(d);
    return st;
}

/* ---- sets and vectors --------------------------------------------------------------------- */

/* Of the built-in corpus, or of the user's texts with WordNet's help. */
static stet_status make_sets(const demo_cfg *cfg, const demo_files *f)
{
    const char *path = f->synonyms;
    if (there(path))
        return STET_OK;
    stet_dataset *d = NULL;
    stet_subst *s = NULL;
    stet_status st = cfg->data ? load_texts(cfg, f->train, &d) : stet_builtin_subst(&s);
    if (st == STET_OK && d)
        st = cli_ready_set(d, STET_TOK_WORD, &s);
    stet_dataset_free(d);
    if (st != STET_OK)
        return st;
    st = stet_subst_save(s, path);
    stet_subst_free(s);
    return st;
}

static stet_status make_vectors(const demo_cfg *cfg, const demo_files *f)
{
    if (there(f->vectors))
        return STET_OK;
    stet_dataset *d;
    stet_status st = load_texts(cfg, f->train, &d);
    if (st != STET_OK)
        return st;
    stet_embed_options embed = STET_EMBED_DEFAULTS;
    embed.epochs = cfg->data ? embed.epochs : 40; /* a small corpus needs more passes */
    embed.seed = (uint64_t)cfg->common.seed;
    stet_vocab *v = NULL;
    stet_vectors t = {0};
    st = stet_embed_train(d, STET_TOK_WORD, &embed, &v, &t);
    if (st == STET_OK)
        st = stet_vectors_save_text(&t, v, f->vectors);
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
    stet_dataset_free(d);
    return st;
}

/* ---- one folder, one demonstration -------------------------------------------------------- */

/* What the files depend on. Two demonstrations never mix in one folder. */
static stet_status claim_folder(const demo_cfg *cfg)
{
    char stamp[4 * DEMO_PATH];
    const int n = snprintf(stamp, sizeof stamp,
                           "model %d, texts %lld, limit %lld, epochs %lld, seed %lld, data %s, "
                           "test %s, vectors %s, synonyms %s",
                           cfg->model, (long long)cfg->texts, (long long)cfg->limit,
                           (long long)cfg->epochs, (long long)cfg->common.seed,
                           cfg->data ? cfg->data : "-", cfg->test ? cfg->test : "-",
                           cfg->vectors ? cfg->vectors : "-", cfg->synonyms ? cfg->synonyms : "-");
    if (n >= (int)sizeof stamp)
        return cli_usage("the paths are too long");
    json_t *settings = cli_json_string(stamp);
    if (!settings)
        return cli_fail(STET_ENOMEM, "out of memory");
    stet_results old = {0};
    stet_status st = stet_folder_make(cfg->out);
    if (st == STET_OK)
        st = stet_results_read(cfg->out, &old);
    for (size_t i = 0; st == STET_OK && i < old.n; i++) {
        json_t *o = strcmp(old.name[i], "demo") == 0 ? json_loads(old.json[i], 0, NULL) : NULL;
        const char *is = json_string_value(json_object_get(o, "settings"));
        if (is && strcmp(is, json_string_value(settings)) != 0)
            st = cli_usage(
                "%s holds files of other settings (%s); choose another folder with -o",
                cfg->out, is);
        json_decref(o);
    }
    if (st == STET_OK) {
        json_t *o = json_pack("{s:s, s:s, s:O}", "command", "demo", "version", stet_version(),
                              "settings", settings);
        char *text = o ? json_dumps(o, 0) : NULL;
        st = text ? stet_results_write(cfg->out, "demo", text)
                  : cli_fail(STET_ENOMEM, "out of memory");
        stet_free(text);
        json_decref(o);
    }
    json_decref(settings);
    stet_results_deinit(&old);
    return st;
}

stet_status demo_files_make(const demo_cfg *cfg, demo_files *out)
{
    const bool cut = cfg->data && !cfg->test; /* one file of the user for both */
    stet_status st = claim_folder(cfg);
    if (st == STET_OK)
        cli_note("texts, synonyms and word vectors: %s/", cfg->out);
    if (st == STET_OK)
        st = place(out->train, cfg, cut ? NULL : cfg->data, cut ? "train.jsonl" : "train.tsv");
    if (st == STET_OK)
        st = place(out->test, cfg, cfg->test, cut ? "test.jsonl" : "test.tsv");
    if (st == STET_OK)
        st = place(out->vectors, cfg, cfg->vectors, "vectors.txt");
    if (st == STET_OK)
        st = place(out->synonyms, cfg, cfg->synonyms, "synonyms.subst");
    if (st == STET_OK && cut)
        st = split(cfg, out);
    if (st == STET_OK && !cfg->data) {
        st = make_texts(out->train, (size_t)cfg->texts, (uint64_t)cfg->common.seed);
        if (st == STET_OK)
            st = make_texts(out->test, TEST_TEXTS, (uint64_t)cfg->common.seed + 1);
    }
    if (st == STET_OK && !cfg->synonyms)
        st = make_sets(cfg, out);
    if (st == STET_OK && !cfg->vectors)
        st = make_vectors(cfg, out);
    return st;
}
