/* cli/cmd_predict.c - stet predict: the label and probabilities of texts given as arguments, in a file, or on
 * standard input, one a line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "stet/model.h"

typedef struct predict_cfg {
    cli_common common;
    const char *file;
} predict_cfg;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Input"),
    STET_OPT_STR("file", predict_cfg, file, NULL, "FILE", "texts, one a line; without it and without TEXT, standard input"),
    CLI_COMMON_OPTS(predict_cfg),
    STET_OPT_END,
};

static stet_status print_json(const stet_model *m, const char *text, const float *prob, int label)
{
    json_t *p = json_object();
    for (size_t c = 0; c < stet_model_classes(m); c++)
        json_object_set_new(p, stet_model_class_name(m, c), json_real(prob[c]));
    json_t *line = json_string(text);
    return cli_json_print(json_pack("{s:s, s:i, s:f, s:o, s:o}", "label", stet_model_class_name(m, (size_t)label), "class", label,
                                    "probability", (double)prob[label], "probabilities", p, "text", line ? line : json_null()));
}

static stet_status predict(const predict_cfg *cfg, const stet_model *m, const char *text, size_t len, float *prob)
{
    int label;
    const stet_status st = stet_model_predict(m, text, len, prob, &label);
    if (st != STET_OK)
        return st;
    if (cfg->common.json)
        return print_json(m, text, prob, label);
    const int shown = len > 70 ? 67 : (int)len;
    printf("%s%-12s%s %.4f  %.*s%s\n", cli_style("bold"), stet_model_class_name(m, (size_t)label), cli_style("reset"), (double)prob[label],
           shown, text, len > 70 ? "..." : "");
    return STET_OK;
}

static stet_status predict_lines(const predict_cfg *cfg, const stet_model *m, float *prob)
{
    const bool file = cfg->file && strcmp(cfg->file, "-") != 0;
    FILE *f = file ? fopen(cfg->file, "r") : stdin;
    if (!f)
        return cli_fail(STET_EIO, "%s: %s", cfg->file, strerror(errno));
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    stet_status st = STET_OK;
    while (st == STET_OK && (n = getline(&line, &cap, f)) >= 0) {
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            line[--n] = '\0';
        st = predict(cfg, m, line, (size_t)n, prob);
    }
    if (st == STET_OK && ferror(f))
        st = cli_fail(STET_EIO, "%s: %s", file ? cfg->file : "standard input", strerror(errno));
    free(line);
    if (file)
        fclose(f);
    return st;
}

static stet_status run(void *config, const stet_rest *rest)
{
    const predict_cfg *cfg = config;
    stet_model *m = NULL;
    stet_status st = stet_model_load(rest->v[0], &m);
    float *prob = st == STET_OK ? malloc(stet_model_classes(m) * sizeof *prob) : NULL;
    if (st == STET_OK && !prob)
        st = cli_fail(STET_ENOMEM, "out of memory");
    for (size_t i = 1; st == STET_OK && i < rest->n; i++)
        st = predict(cfg, m, rest->v[i], strlen(rest->v[i]), prob);
    if (st == STET_OK && (rest->n == 1 || cfg->file))
        st = predict_lines(cfg, m, prob);
    free(prob);
    stet_model_free(m);
    return st;
}

const cli_command cmd_predict = {
    .name = "predict",
    .args = "DIR [TEXT...]",
    .summary = "label and probabilities of texts",
    .examples = "  stet predict runs/cnn \"a fine film\"\n  stet predict runs/cnn --json < reviews.txt\n",
    .opts = opts,
    .cfg_size = sizeof(predict_cfg),
    .min_args = 1,
    .max_args = STET_LIST_MAX,
    .run = run,
};
