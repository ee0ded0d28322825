/* cli/reproduce_rows.c - how each row of the tables is trained: defences with the settings that their
 * authors published, where those fit this program (docs/defences.md says what differs), and recipes
 * of ours. Rates, epochs and batches that a row does not name are the model's own. */
#include "cli/reproduce.h"

#include <string.h>

#include "stet/model.h"
#include "stet/train.h"

const char repro_paper_rows[] = "standard,ibp,atfl,sem,ascc,gbm";
const char repro_bert_rows[] = "standard,mixada,pgd,freelb,ta-vat,infobert,dne,ascc,safer,ranmask,"
                               "freelb++,text-crs,gbm,encode";

#define BOUNDED "cnn bilstm s4 s4cnn sum"

static const repro_row rows[] = {
    {.name = "standard", .label = "Standard", .args = ""},
    {.name = "ibp",
     .proved = BOUNDED,
     .label = "IBP",
     .args = "--defense certified --kappa 0.8 --ramp 0.65 --eps-ramp 0.65 --bound ibp --lr 1e-3 "
             "--clip 0.25 --batch 32 --dropout 0.2 --epochs 60",
     .also = {{"bilstm", "--word-layer 100 --pool mean --schedule cosine --epochs 10"},
              {"s4", "--word-layer 100 --schedule cosine --epochs 10"}}},
    {.name = "atfl", .label = "ATFL", .args = "--defense atfl --lr 1e-3 --dropout 0 --epochs 10"},
    {.name = "sem",
     .proved = "cnn",
     .label = "SEM",
     .args = "--defense sem --lr 1e-3 --dropout 0.2"},
    {.name = "ascc",
     .proved = "cnn",
     .label = "ASCC",
     .args = "--defense ascc --lr 1e-3 --weight-decay 2e-4 --dropout 0.2 --tune-vectors 1e-3 "
             "--epochs 20",
     .bert = "--defense ascc"},
    {.name = "gbm",
     .label = "GBM",
     .args = "--defense gbm",
     .bert = "--bert-head bilstm --defense gbm --beta 3e-5 --lr 1e-3 --dropout 0.2 --clip 0.25 "
             "--batch 64 --epochs 3",
     .head = true,
     .also = {{"cnn", "--beta 1e-4"}, {"bilstm", "--beta 3e-5"}, {"s4", "--beta 1e-5"}}},
    {.name = "pgd", .label = "PGD-K", .args = "--defense pgd"},
    {.name = "freelb", .label = "FreeLB", .args = "--defense freelb"},
    {.name = "freelb++", .label = "FreeLB++", .args = "--defense freelb++"},
    {.name = "ta-vat", .label = "TA-VAT", .args = "--defense ta-vat"},
    {.name = "infobert", .label = "InfoBERT", .args = "--defense infobert"},
    {.name = "ranmask",
     .label = "RanMASK",
     .args = "--defense ranmask",
     .also = {{"bilstm", "--patience 10"}}, /* it learns nothing for some epochs */
     .bert = "--defense ranmask --ranmask-votes 11 --ranmask-draws 1000",
     .bert_proof = true,
     .votes = true},
    {.name = "safer",
     .label = "SAFER",
     .args = "--defense safer",
     .bert = "--defense safer --safer-votes 11 --safer-draws 1000",
     .bert_proof = true,
     .votes = true},
    {.name = "text-crs",
     .label = "Text-CRS",
     .args = "--defense text-crs",
     .bert = "--defense text-crs --crs-votes 11",
     .no_proof = true,
     .votes = true},
    {.name = "dne",
     .label = "DNE",
     .args = "--defense dne --lr 1e-3",
     .also = {{"bilstm", "--patience 10"}}, /* as above */
     .bert = "--defense dne --dne-draws 8",
     .no_proof = true,
     .votes = true},
    {.name = "encode",
     .label = "Encoding",
     .args = "--defense encode --encode-tries 2000",
     .bert_proof = true},
    {.name = "augment",
     .label = "Augmentation",
     .args = "--defense augment --lr 1e-3",
     .augmented = true},
    {.name = "mixada",
     .label = "MixADA",
     .args = "--defense augment,mixada --lr 1e-3",
     .bert = "--defense augment,mixada",
     .augmented = true},
    {.name = "smooth",
     .proved = "cnn",
     .label = "stet: smoothed vectors, logit bound",
     .args = "--smooth 4 --defense gbm --gbm-of logits --beta 1e-3 --lr 1e-3 --dropout 0.2 "
             "--schedule cosine --epochs 8"},
    {.name = "certified",
     .proved = BOUNDED,
     .label = "stet: worst case",
     .args = "--smooth 5.5 --smooth-frequency 0.5 --defense gbm,certified --kappa 0.45 "
             "--bound-share 0.5 --gbm-of logits --beta 3e-4 --schedule cosine --lr 1e-3 "
             "--weight-decay 5e-4 --dropout 0.2 --epochs 8",
     .also = {{"cnn", "--filters 256"},
              {"bilstm",
               "--lr 3e-3 --clip 1 --dropout 0 --smooth 7 --kappa 0.35 --bound-share 0.25 "
               "--eps-ramp 0.6"},
              {"s4", "--lr 3e-3 --clip 1 --dropout 0 --smooth 14 --kappa 0.5 --bound-share 0.25 "
                     "--eps-ramp 0.6 --epochs 6"}}},
    {.name = "robust",
     .proved = BOUNDED,
     .label = "stet: --recipe robust",
     .args = "--recipe robust"},
    {.name = "eibc", .proved = "cnn", .label = "EIBC", .args = "--recipe eibc", .only = "cnn"},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

const repro_row *repro_row_find(const char *name)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

bool repro_row_is_for(const char *name, const char *model)
{
    const char *only = repro_row_find(name)->only;
    return !only || strcmp(only, model) == 0;
}

void repro_row_names(char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < N_ROWS && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? "," : "", rows[i].name);
}

static size_t kind_of(const char *model)
{
    size_t k = 0;
    while (strcmp(stet_model_kind_name(k), model) != 0)
        k++;
    return k;
}

static void add_words(cli_stage *out, const char *args)
{
    char text[512], *save;
    snprintf(text, sizeof text, "%s", args);
    for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save))
        cell_args(out, w, NULL);
}

void repro_row_args(const repro_row *row, const char *model, cli_stage *out)
{
    add_words(out, row->bert && strcmp(model, "bert") == 0 ? row->bert : row->args);
    for (size_t k = 0; k < sizeof row->also / sizeof *row->also && row->also[k].model; k++)
        if (strcmp(row->also[k].model, model) == 0)
            add_words(out, row->also[k].args);
}

static void add_sizes(const char *const *arg, size_t n, const char *model, cli_stage *out)
{
    static const char *const sizes[] = {
        "--batch",    "--max-len", "--word-layer", "--kernels",  "--filters", "--dense", "--hidden",
        "--pool",     "--span",    "--channels",   "--state",    "--layers",  "--s4-block",
        "--s4-pool"};
    for (size_t i = 0; i + 1 < n; i++) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            if (strcmp(arg[i], sizes[k]) == 0)
                cell_args(out, arg[i], arg[i + 1], NULL);
        if (strcmp(arg[i], "--recipe") != 0)
            continue;
        const char *const *words = stet_model_kind_recipe(kind_of(model), arg[i + 1]);
        size_t many = 0;
        while (words && words[many])
            many++;
        add_sizes(words, many, model, out);
    }
}

void repro_size_args(const repro_row *row, const char *model, cli_stage *out)
{
    cli_stage all = {0};
    repro_row_args(row, model, &all);
    add_sizes((const char *const *)all.arg, all.n_args, model, out);
    stage_deinit(&all);
}

void repro_small_args(const char *model, cli_stage *out)
{
    if (strcmp(model, "bert") == 0)
        add_words(out, "--bert-hidden 32 --bert-inner 64 --max-len 48");
}

stet_model_training repro_kind(const char *model)
{
    return stet_model_kind_training(kind_of(model));
}
