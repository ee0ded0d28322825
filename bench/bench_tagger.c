/* bench/bench_tagger.c - how fast are tags and synonyms? Needs the treebank and NLTK's weights of
 * $STET_DATA/postag, and WordNet. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "lexicon/conllu.h"
#include "stet/lexicon.h"
#include "stet/option.h"

enum { MAX_WORDS = 30000, MAX_SENTENCES = 4000 };

static void must(stet_status st)
{
    if (st != STET_OK) {
        fprintf(stderr, "%s\n", stet_last_error());
        exit(1);
    }
}

static const char *data_file(const char *name)
{
    static char path[4][1024];
    static unsigned turn;
    const char *root = getenv("STET_DATA");
    if (!root) {
        puts("set STET_DATA to the folder of real data");
        exit(0);
    }
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/postag/%s", root, name);
    return p;
}

/* The sentences of a treebank; `bank` owns the words. */
typedef struct corpus {
    conllu bank;
    const char *words[MAX_WORDS], *tags[MAX_WORDS];
    size_t start[MAX_SENTENCES + 1], n_sentences, n_words;
} corpus;

static void load_corpus(corpus *c, const char *path)
{
    stet_status st;
    must(conllu_open(&c->bank, path));
    while (conllu_next(&c->bank, &st)) {
        if (c->n_sentences == MAX_SENTENCES || c->n_words + c->bank.n > MAX_WORDS)
            break;
        for (size_t i = 0; i < c->bank.n; i++)
            c->words[c->n_words + i] = strmap_text(&c->bank.forms, c->bank.form[i]);
        c->n_words += c->bank.n;
        c->start[++c->n_sentences] = c->n_words;
    }
    must(st);
}

typedef struct tag_run {
    const stet_tagger *tagger;
    corpus *corpus;
} tag_run;

static void tag_all(void *ctx)
{
    const tag_run *r = ctx;
    corpus *c = r->corpus;
    for (size_t s = 0; s < c->n_sentences; s++)
        must(stet_tagger_tag(r->tagger, c->words + c->start[s], c->start[s + 1] - c->start[s],
                             c->tags + c->start[s]));
}

static void bench_tagger(const char *who, stet_tagger *t, corpus *c, double least)
{
    size_t right, total;
    must(stet_tagger_eval(t, data_file("en_ewt-ud-test.conllu.xz"), &right, &total));
    const double accuracy = (double)right / (double)total;
    bench_check(who, accuracy < least ? least - accuracy : 0, 0);
    tag_run r = {t, c};
    bench_rate("EWT test", who, bench_measure(tag_all, &r), (double)c->n_words, "words/s");
    stet_tagger_free(t);
}

typedef struct synonym_run {
    const stet_wordnet *wordnet;
    const corpus *corpus;
    size_t found;
} synonym_run;

static void look_up_all(void *ctx)
{
    synonym_run *r = ctx;
    r->found = 0;
    for (size_t i = 0; i < r->corpus->n_words; i++) {
        char **list;
        size_t n;
        must(stet_wordnet_synonyms(r->wordnet, r->corpus->words[i], STET_OTHER, STET_WN_TEXTATTACK,
                                   &list, &n));
        stet_free(list);
        r->found += n;
    }
}

int main(int argc, char **argv)
{
    bench_start(argc, argv, "tagger", "tags and WordNet synonyms of web text, one thread");
    static corpus c;
    load_corpus(&c, data_file("en_ewt-ud-test.conllu.xz"));
    stet_tagger *t;
    must(stet_tagger_load(data_file("averaged_perceptron_tagger.tsv.xz"), &t));
    bench_tagger("NLTK's weights", t, &c, 0.85);
    must(stet_tagger_train(data_file("en_ewt-ud-train.conllu.xz"), 5, 1, &t));
    bench_tagger("trained on EWT", t, &c, 0.935);
    must(stet_tagger_builtin(&t));
    bench_tagger("built-in", t, &c, 0.85);

    stet_wordnet *w;
    must(stet_wordnet_open(NULL, &w));
    synonym_run r = {w, &c, 0};
    look_up_all(&r);
    bench_check("WordNet", r.found > c.n_words ? 0 : 1, 0);
    bench_rate("EWT test", "WordNet, all parts of speech", bench_measure(look_up_all, &r),
               (double)c.n_words, "words/s");
    stet_wordnet_free(w);
    conllu_close(&c.bank);
    return bench_finish();
}
