/* cli/reproduce_plan.c - files of a reproduction, and the commands that fill its folders. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/reproduce.h"

/* ---- files -------------------------------------------------------------------------------- */

/* What the paper's code does: eight nearest words, the word itself counted, at a distance below 0.2 of
 * counter-fitted vectors, which have length 1. */
enum { PAPER_K = 7 };
static const double PAPER_DISTANCE = 0.2;

static void scale_to_one(stet_vectors *t)
{
    for (size_t i = 0; i < t->n; i++) {
        float *v = t->data + i * t->dim;
        double sum = 0;
        for (size_t k = 0; k < t->dim; k++)
            sum += (double)v[k] * (double)v[k];
        for (size_t k = 0; k < t->dim && sum > 0; k++)
            v[k] = (float)((double)v[k] / sqrt(sum));
    }
}

/* The words of the full sets: without counter-fitted vectors, the paper's sets are made among them. */
static stet_status words_of_sets(const char *path, stet_vocab **out)
{
    stet_subst *s;
    stet_status st = stet_subst_load(path, &s);
    if (st != STET_OK)
        return st;
    const size_t n = stet_subst_words(s);
    const char **word = malloc((n + 1) * sizeof *word);
    if (!word)
        cli_no_memory();
    for (size_t i = 0; i < n; i++)
        word[i] = stet_subst_word(s, (uint32_t)i);
    st = stet_vocab_from_words(word, n, out);
    free(word);
    stet_subst_free(s);
    return st;
}

static stet_status nearest_words(const reproduction *r, stet_subst_builder *b)
{
    const stet_strings *given = &r->cfg->nearest;
    stet_vocab *words = NULL;
    stet_vectors t = {0};
    stet_status st = given->n ? stet_vectors_load_all(given->v, given->n, &words, &t)
                              : words_of_sets(r->setting[REPRO_FULL].sets, &words);
    if (st == STET_OK && given->n == 0) {
        st = stet_vectors_load(r->vectors, r->n_vectors, words, &t);
        if (st == STET_OK)
            scale_to_one(&t);
    }
    if (st == STET_OK)
        st = stet_subst_add_nearest(b, &t, words, PAPER_K, STET_L2, PAPER_DISTANCE, true);
    stet_vectors_deinit(&t);
    stet_vocab_free(words);
    return st;
}

static stet_status make_paper_sets(const reproduction *r, const char *path)
{
    if (access(path, R_OK) == 0)
        return STET_OK;
    stet_subst_builder *b = NULL;
    stet_subst *s = NULL;
    stet_status st = stet_subst_builder_new(&b);
    if (st == STET_OK)
        st = nearest_words(r, b);
    if (st == STET_OK)
        st = stet_subst_drop_stop_words(b, "builtin");
    if (st == STET_OK)
        st = stet_subst_build(b, &s);
    if (st == STET_OK)
        st = stet_subst_save(s, path);
    stet_subst_free(s);
    stet_subst_builder_free(b);
    return st;
}

stet_status repro_files(reproduction *r)
{
    const reproduce_cfg *cfg = r->cfg;
    const demo_cfg want = {.common = cfg->common,
                           .out = cfg->out,
                           .data = cfg->data,
                           .test = cfg->test,
                           .vectors = cfg->vectors.n ? cfg->vectors.v[0] : NULL,
                           .synonyms = cfg->synonyms,
                           .label = cfg->label,
                           .text = cfg->text,
                           .texts = cfg->texts   ? cfg->texts
                                    : cfg->quick ? 1200
                                                 : 5000};
    stet_status st = demo_files_make(&want, &r->f);
    if (st != STET_OK)
        return st;
    static const char *own[1];
    own[0] = r->f.vectors;
    r->vectors = cfg->vectors.n ? cfg->vectors.v : own;
    r->n_vectors = cfg->vectors.n ? cfg->vectors.n : 1;
    const bool theirs = cfg->data && cfg->test; /* else the texts were written anew */
    r->data = (cli_source){.data = r->f.train,
                           .label = theirs ? cfg->label : NULL,
                           .text = theirs ? cfg->text : NULL,
                           .skip_bad = cfg->skip_bad};
    r->test = r->data;
    r->test.data = r->f.test;
    snprintf(r->setting[REPRO_FULL].sets, REPRO_PATH, "%s", r->f.synonyms);
    char *paper = r->setting[REPRO_PAPER].sets;
    if (cfg->paper_synonyms)
        snprintf(paper, REPRO_PATH, "%s", cfg->paper_synonyms);
    else
        snprintf(paper, REPRO_PATH, "%s/paper.subst", cfg->out);
    return cfg->paper_synonyms ? STET_OK : make_paper_sets(r, paper);
}

/* ---- names -------------------------------------------------------------------------------- */

void repro_run_dir(const reproduction *r, const char *model, const char *row, const char *beta,
                   const char *seed, char out[REPRO_PATH])
{
    snprintf(out, REPRO_PATH, "%s/%s_%s%s%s_seed-%s", r->cfg->out, model, row, beta ? "-" : "",
             beta ? beta : "", seed);
}

static void time_dir(const reproduction *r, const repro_clock *of, char out[REPRO_PATH])
{
    snprintf(out, REPRO_PATH, "%s/time/%s_%s%s_seed-%s_round-%zu", r->cfg->out, of->model,
             of->standard ? "standard-as-" : "", of->row, of->seed, of->round + 1);
}

void repro_figure_dir(const reproduction *r, const char *model, char out[REPRO_PATH])
{
    snprintf(out, REPRO_PATH, "%s/figures/%s", r->cfg->out, model);
}

const cli_cell *repro_find(const cli_cells *c, const char *dir)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->v[i]->dir, dir) == 0)
            return c->v[i];
    return NULL;
}

/* ---- runs --------------------------------------------------------------------------------- */

static void on_device(const reproduction *r, cli_stage *s)
{
    if (strcmp(cli_device(&r->cfg->common), "cpu") != 0)
        cell_args(s, "--device", cli_device(&r->cfg->common), NULL);
}

static bool is_bert(const char *model)
{
    return repro_kind(model).reads_itself;
}

/* Where an edit costs little, as in a TextCNN, attacks and proofs stay on the CPU: a GPU would only be
 * waited for. Votes read whole texts anew. */
static void attack_where(const reproduction *r, const char *model, const char *row, cli_stage *s)
{
    if (repro_kind(model).slow_edits || repro_row_find(row)->votes)
        on_device(r, s);
}

/* Every model knows the full sets, so that all are attacked with the same words. What the user gives
 * after `--` comes last and counts. `sizes_of` is a row that gives its sizes to this one, or NULL. */
static void training_as(const reproduction *r, const char *model, const char *row,
                        const char *sizes_of, const char *beta, const char *seed, cli_stage *s)
{
    cell_args(s, "--data", r->data.data, "--model", model, NULL);
    cell_option(s, "--label", r->data.label);
    cell_option(s, "--text", r->data.text);
    if (r->data.skip_bad)
        cell_args(s, "--skip-bad", NULL);
    for (size_t i = 0; i < r->n_vectors && !repro_kind(model).reads_itself; i++)
        cell_args(s, "--vectors", r->vectors[i], NULL);
    cell_args(s, "--synonyms", r->setting[REPRO_FULL].sets, NULL);
    const bool own = is_bert(model) && repro_row_find(row)->head;
    if (!own)
        repro_row_args(repro_row_find(row), model, s);
    if (sizes_of)
        repro_size_args(repro_row_find(sizes_of), model, s);
    if (r->epochs)
        cell_number(s, "--epochs", r->epochs);
    if (r->cfg->quick) /* a rate that learns something in a few steps */
        cell_args(s, "--lr", "2e-3", NULL);
    if (r->cfg->quick && r->n_train_args == 0)
        repro_small_args(model, s);
    for (size_t i = 0; i < r->n_train_args; i++)
        cell_args(s, r->train_args[i], NULL);
    if (own)
        repro_row_args(repro_row_find(row), model, s);
    cell_option(s, "--beta", beta);
    cell_args(s, "--seed", seed, NULL);
    on_device(r, s);
}

static void training(const reproduction *r, const char *model, const char *row, const char *beta,
                     const char *seed, cli_stage *s)
{
    training_as(r, model, row, NULL, beta, seed, s);
}

static bool has_stage(const cli_cell *x, const char *result, const char *synonyms)
{
    for (size_t i = 0; i < x->n_stages; i++) {
        const char *of = x->stage[i].source.synonyms;
        if (strcmp(x->stage[i].result, result) == 0 &&
            (!synonyms || (of && strcmp(of, synonyms) == 0)))
            return true;
    }
    return false;
}

/* What the user gave for an option of training; NULL: nothing. */
static const char *given(const reproduction *r, const char *option)
{
    const char *value = NULL;
    const size_t n = strlen(option);
    for (size_t i = 0; i < r->n_train_args; i++) {
        const char *arg = r->train_args[i];
        if (strncmp(arg, option, n) == 0 && arg[n] == '=')
            value = arg + n + 1;
        else if (strcmp(arg, option) == 0 && i + 1 < r->n_train_args)
            value = r->train_args[i + 1];
    }
    return value;
}

/* The texts that training holds out are not attacked. */
static void leave_held_out(const reproduction *r, cli_stage *s)
{
    const char *share = given(r, "--valid");
    char *end;
    if (share && !(strtod(share, &end) > 0 && *end == '\0')) /* a file of them */
        share = "0";
    cell_option(s, "--valid", share);
    cell_option(s, "--fold", given(r, "--fold"));
}

/* How many training texts augmentation attacks. */
static int64_t to_flip(const reproduction *r, const char *model)
{
    return is_bert(model) ? r->flipped / 4 : r->flipped;
}

/* A standard model in the run's folder, and training texts that an attack on it flips. */
static void flip_texts(const reproduction *r, const char *model, const char *seed, cli_cell *x,
                       const char *texts)
{
    char base[REPRO_PATH + 16], log[REPRO_PATH + 32];
    snprintf(base, sizeof base, "%s/standard", x->dir);
    snprintf(log, sizeof log, "%s/flipped-log.jsonl", x->dir);
    cli_stage *s = cell_add(x, &cmd_train);
    s->output = "standard.json";
    training(r, model, "standard", NULL, seed, s);
    cell_args(s, "-o", base, "--resume", NULL);
    s = cell_add(x, &cmd_augment);
    s->output = "flipped.json";
    cli_source from = r->data;
    from.synonyms = r->setting[REPRO_FULL].sets;
    from.limit = to_flip(r, model);
    cell_args(s, base, "-o", texts, "--log", log, NULL);
    cell_source(s, &from);
    cell_args(s, "--seed", seed, NULL);
    leave_held_out(r, s);
    attack_where(r, model, "standard", s);
}

int64_t repro_limit(const reproduction *r, const char *model, const char *row)
{
    return is_bert(model) && repro_row_find(row)->votes ? (r->limit + 3) / 4 : r->limit;
}

cli_cell *repro_run(reproduction *r, const char *model, const char *row, const char *beta,
                    const char *seed)
{
    char dir[REPRO_PATH];
    repro_run_dir(r, model, row, beta, seed, dir);
    cli_cell *x = (cli_cell *)repro_find(&r->runs, dir);
    if (x)
        return x;
    x = cells_add(&r->runs, dir);
    char texts[REPRO_PATH + 32];
    snprintf(texts, sizeof texts, "%s/flipped.jsonl", dir);
    if (repro_row_find(row)->augmented)
        flip_texts(r, model, seed, x, texts);
    cli_stage *s = cell_add(x, &cmd_train);
    s->output = "train.json";
    training(r, model, row, beta, seed, s);
    cell_option(s, "--augment-texts", repro_row_find(row)->augmented ? texts : NULL);
    cell_args(s, "-o", dir, "--resume", NULL);
    s = cell_add(x, &cmd_eval);
    snprintf(s->result, sizeof s->result, "eval");
    cell_args(s, dir, NULL);
    cli_source from = r->test;
    if (is_bert(model) && repro_row_find(row)->votes) { /* the sample that is attacked */
        from.limit = repro_limit(r, model, row);
        cell_number(s, "--seed", r->cfg->common.seed);
    }
    cell_source(s, &from);
    on_device(r, s);
    return x;
}

/* The sample of --limit is the same for every run: it is drawn by --seed of this command. */
static cli_stage *measuring(reproduction *r, const char *model, const char *row, cli_cell *x,
                            const cli_command *cmd, const repro_setting *by, const char *result)
{
    if (has_stage(x, result, by->sets))
        return NULL;
    cli_stage *s = cell_add(x, cmd);
    cli_source from = r->test;
    from.synonyms = by->sets;
    from.limit = repro_limit(r, model, row);
    snprintf(s->result, sizeof s->result, "%s", result);
    cell_args(s, x->dir, NULL);
    cell_source(s, &from);
    cell_number(s, "--seed", r->cfg->common.seed);
    attack_where(r, model, row, s);
    return s;
}

void repro_measure(reproduction *r, const char *model, const char *row, const char *beta,
                   const char *seed, const repro_list *attacks, bool certify)
{
    cli_cell *x = repro_run(r, model, row, beta, seed);
    const char *proved = repro_row_find(row)->proved;
    const char *proofs = proved && strstr(proved, model) ? "yes" : "no";
    for (size_t k = 0; k < REPRO_SETTINGS; k++) {
        const repro_setting *by = &r->setting[k];
        char result[96], log[REPRO_PATH + 128];
        for (size_t i = 0; i < attacks->n; i++) {
            snprintf(result, sizeof result, "attack-%s-%s", attacks->v[i], by->profile);
            cli_stage *s = measuring(r, model, row, x, &cmd_attack, by, result);
            snprintf(log, sizeof log, "%s/%s.jsonl", x->dir, result);
            if (s) /* with the log, an attack that is stopped goes on from its last text */
                cell_args(s, "--attack", attacks->v[i], "--profile", by->profile, "--proofs", proofs,
                          "--log", log, NULL);
            if (s && repro_kind(model).slow_edits && strcmp(attacks->v[i], "greedy") == 0)
                cell_args(s, "--greedy-proofs", proofs, NULL); /* slow as well, and most would fail */
        }
        cli_stage *s =
            certify ? measuring(r, model, row, x, &cmd_certify, by, "certify-auto") : NULL;
        if (s && is_bert(model) && cli_needs_gpu(&r->cfg->common) && !repro_row_find(row)->votes)
            cell_args(s, "--device", "cuda", NULL); /* what is exact is so in float */
    }
}

void repro_inspect(reproduction *r, const char *model)
{
    char dir[REPRO_PATH], run[2][REPRO_PATH];
    static const char *const row[2] = {"standard", "gbm"};
    cli_source from = r->test;
    from.skip_bad = false; /* inspect has no such option */
    for (size_t i = 0; i < 2; i++) {
        cli_cell *x = repro_run(r, model, row[i], NULL, r->seeds.v[0]);
        snprintf(run[i], REPRO_PATH, "%s", x->dir);
        if (has_stage(x, "inspect", NULL))
            continue;
        cli_stage *s = cell_add(x, &cmd_inspect);
        snprintf(s->result, sizeof s->result, "inspect");
        s->plain_classes = true;
        cell_args(s, x->dir, "--top", "0", NULL);
        cell_source(s, &from);
    }
    repro_figure_dir(r, model, dir);
    if (repro_find(&r->figures, dir))
        return;
    cli_stage *s = cell_add(cells_add(&r->figures, dir), &cmd_inspect);
    s->output = "inspect.json";
    cell_args(s, run[0], run[1], "-o", dir, "--top", "0", "--no-record", NULL);
    cell_source(s, &from);
}

static bool has_sizes(const repro_clock *of)
{
    cli_stage s = {0};
    repro_size_args(repro_row_find(of->row), of->model, &s);
    const bool has = s.n_args > 0;
    stage_deinit(&s);
    return has;
}

/* As many training texts as an attack would try to flip: they take as long as the flipped ones. */
static void stand_in_texts(const reproduction *r, const char *model, cli_cell *x,
                           const char *texts)
{
    cli_stage *s = cell_add(x, &cmd_data_convert);
    s->output = "texts.json";
    cell_args(s, r->data.data, texts, NULL);
    cell_option(s, "--label", r->data.label);
    cell_option(s, "--text", r->data.text);
    if (r->data.skip_bad)
        cell_args(s, "--skip-bad", NULL);
    cell_number(s, "--limit", to_flip(r, model));
}

void repro_time(reproduction *r, const repro_clock *of)
{
    char dir[REPRO_PATH], texts[REPRO_PATH + 32];
    time_dir(r, of, dir);
    if (repro_find(&r->clock, dir) || (of->standard && !has_sizes(of)))
        return;
    cli_cell *x = cells_add(&r->clock, dir);
    const bool augmented = !of->standard && repro_row_find(of->row)->augmented;
    snprintf(texts, sizeof texts, "%s/texts.jsonl", dir);
    if (augmented)
        stand_in_texts(r, of->model, x, texts);
    cli_stage *s = cell_add(x, &cmd_bench_train);
    s->output = "time.json";
    training_as(r, of->model, of->standard ? "standard" : of->row, of->standard ? of->row : NULL,
                NULL, of->seed, s);
    cell_option(s, "--augment-texts", augmented ? texts : NULL);
    cell_number(s, "--steps", r->steps);
}

const cli_cell *repro_timed(const reproduction *r, const repro_clock *of)
{
    char dir[REPRO_PATH];
    repro_clock own = *of;
    if (of->standard && !has_sizes(of))
        own.row = "standard", own.standard = false;
    time_dir(r, &own, dir);
    return repro_find(&r->clock, dir);
}
