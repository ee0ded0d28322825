/* report/paper.c - the paper's printed figures; see stet/paper.h. */
#include "stet/paper.h"

#include <math.h>
#include <string.h>

enum { CLEAN, PWWS, GA, PSO, TEXTFOOLER, MEASURES };
static const char *const measures[MEASURES] = {"clean", "pwws", "ga", "pso", "textfooler"};

/* Tables of accuracy; 0 stands for what is not printed. */
static const struct {
    const char *corpus, *model, *defense;
    double percent[MEASURES];
} accuracy[] = {
    {"imdb", "cnn", "standard", {89.7, 0.6, 2.6, 1.4, 0}},
    {"imdb", "cnn", "ibp", {81.7, 75.9, 76.0, 75.9, 0}},
    {"imdb", "cnn", "atfl", {85.0, 63.6, 66.8, 64.7, 0}},
    {"imdb", "cnn", "sem", {87.6, 62.2, 63.5, 61.5, 0}},
    {"imdb", "cnn", "ascc", {84.8, 74.0, 75.5, 74.5, 0}},
    {"imdb", "cnn", "gbm", {90.2, 76.3, 76.6, 84.3, 0}},
    {"imdb", "bilstm", "standard", {89.1, 0.2, 1.6, 0.3, 0}},
    {"imdb", "bilstm", "ibp", {77.6, 67.5, 67.8, 67.6, 0}},
    {"imdb", "bilstm", "atfl", {85.1, 72.2, 75.5, 74.0, 0}},
    {"imdb", "bilstm", "sem", {86.8, 61.9, 63.7, 62.2, 0}},
    {"imdb", "bilstm", "ascc", {84.3, 74.2, 76.8, 75.5, 0}},
    {"imdb", "bilstm", "gbm", {89.6, 76.8, 77.8, 84.3, 0}},
    {"imdb", "s4", "standard", {88.1, 0, 0, 0, 0}},
    {"imdb", "s4", "gbm", {0, 49.4, 0, 42.6, 52.6}},
    {"imdb", "bert", "standard", {92.1, 0, 0, 0, 10.3}},
    {"imdb", "bert", "mixada", {91.9, 0, 0, 0, 19.0}},
    {"imdb", "bert", "pgd", {93.2, 0, 0, 0, 26.0}},
    {"imdb", "bert", "freelb", {93.0, 0, 0, 0, 29.0}},
    {"imdb", "bert", "ta-vat", {93.0, 0, 0, 0, 28.0}},
    {"imdb", "bert", "infobert", {92.0, 0, 0, 0, 19.0}},
    {"imdb", "bert", "dne", {90.4, 0, 0, 0, 28.0}},
    {"imdb", "bert", "ascc", {87.8, 0, 0, 0, 19.4}},
    {"imdb", "bert", "safer", {93.5, 0, 0, 0, 9.5}},
    {"imdb", "bert", "ranmask", {93.2, 0, 0, 0, 22.0}},
    {"imdb", "bert", "freelb++", {93.2, 0, 0, 0, 45.3}},
    {"imdb", "bert", "text-crs", {91.5, 0, 0, 0, 84.4}},
    {"imdb", "bert", "gbm", {92.1, 0, 0, 0, 90.6}},
    {"yahoo", "cnn", "standard", {72.6, 6.8, 7.2, 4.9, 0}},
    {"yahoo", "cnn", "ibp", {63.1, 54.9, 54.9, 54.8, 0}},
    {"yahoo", "cnn", "atfl", {72.5, 62.5, 63.1, 62.5, 0}},
    {"yahoo", "cnn", "sem", {70.1, 53.8, 52.4, 51.9, 0}},
    {"yahoo", "cnn", "ascc", {69.0, 58.4, 59.6, 58.5, 0}},
    {"yahoo", "cnn", "gbm", {72.8, 66.2, 66.1, 67.3, 0}},
    {"yahoo", "bilstm", "standard", {74.7, 12.2, 9.6, 6.5, 0}},
    {"yahoo", "bilstm", "ibp", {54.3, 47.3, 47.6, 47.0, 0}},
    {"yahoo", "bilstm", "atfl", {73.6, 61.7, 60.8, 60.3, 0}},
    {"yahoo", "bilstm", "sem", {72.3, 57.0, 56.1, 55.4, 0}},
    {"yahoo", "bilstm", "ascc", {70.7, 61.7, 62.3, 61.9, 0}},
    {"yahoo", "bilstm", "gbm", {73.0, 67.0, 67.0, 68.6, 0}},
};

double stet_paper_accuracy(const char *corpus, const char *model, const char *defense,
                           const char *measure)
{
    for (size_t i = 0; i < sizeof accuracy / sizeof *accuracy; i++)
        for (size_t k = 0; k < MEASURES; k++)
            if (strcmp(accuracy[i].corpus, corpus) == 0 && strcmp(accuracy[i].model, model) == 0 &&
                strcmp(accuracy[i].defense, defense) == 0 && strcmp(measures[k], measure) == 0 &&
                accuracy[i].percent[k] > 0)
                return accuracy[i].percent[k];
    return NAN;
}

typedef struct figure {
    const char *model, *defense;
    double value;
} figure;

static double find(const figure *f, size_t n, const char *model, const char *defense)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(f[i].model, model) == 0 && strcmp(f[i].defense, defense) == 0)
            return f[i].value;
    return NAN;
}

double stet_paper_seconds(const char *model, const char *defense)
{
    static const figure epoch[] = {
        {"bilstm", "ibp", 293}, {"cnn", "ibp", 5}, {"bilstm", "gbm", 25}, {"cnn", "gbm", 2}};
    return find(epoch, sizeof epoch / sizeof *epoch, model, defense);
}

double stet_paper_growth(const char *model, const char *defense)
{
    static const figure sum[] = {{"cnn", "standard", 10475}, {"cnn", "gbm", 4010}};
    return find(sum, sizeof sum / sizeof *sum, model, defense);
}
