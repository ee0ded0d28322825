/* cli/cmd_reproduce.c - stet reproduce: the tables and figures of the growth bound paper, on its
 * corpora or any other, beside what the paper prints. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/reproduce.h"
#include "stet/attack.h"
#include "stet/model.h"

static char rows_help[640];

__attribute__((constructor)) static void fill_help(void)
{
    char names[320];
    repro_row_names(names, sizeof names);
    snprintf(rows_help, sizeof rows_help,
             "rows, of: %s; all: every one of them (docs/reproduce.md has their settings)", names);
}

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Corpus"),
    STET_OPT_STR("data", reproduce_cfg, data, NULL, "FILE",
                 "labelled texts to train on; without it, the built-in corpus"),
    STET_OPT_STR("test", reproduce_cfg, test, NULL, "FILE",
                 "labelled texts to measure on; without it, part of --data"),
    STET_OPT_STR("label", reproduce_cfg, label, NULL, "COLUMN", "column or field of the label"),
    STET_OPT_STR("text", reproduce_cfg, text, NULL, "COLUMN,...", "columns or fields of the text"),
    STET_OPT_FLAG("skip-bad", reproduce_cfg, skip_bad, "skip malformed lines and report how many"),
    STET_OPT_LIST("vectors", reproduce_cfg, vectors, "FILE",
                  "word vectors; without them, trained on the texts"),
    STET_OPT_STR("synonyms", reproduce_cfg, synonyms, NULL, "SET",
                 "substitution sets at full strength; without it, from WordNet"),
    STET_OPT_STR("paper-synonyms", reproduce_cfg, paper_synonyms, NULL, "SET",
                 "the paper's candidate sets; without it, made as its code does: eight nearest "
                 "words at a distance below 0.2"),
    STET_OPT_LIST(
        "nearest", reproduce_cfg, nearest, "FILE",
        "counter-fitted vectors to make them from; without it, --vectors scaled to length "
        "1, among the words of --synonyms"),
    STET_OPT_TOPIC("Rows and columns"),
    STET_OPT_STR("models", reproduce_cfg, models, "cnn,bilstm", "NAME,...", "kinds of classifier"),
    STET_OPT_STR("defenses", reproduce_cfg, defenses, repro_paper_rows, "NAME,...", rows_help),
    STET_OPT_STR("attacks", reproduce_cfg, attacks, "pwws,ga,pso,textfooler,greedy", "NAME,...",
                 "columns; beta and examples take the first"),
    {STET_OPT_FIELD("certify", STET_T_FLAG, reproduce_cfg, certify), .def = "true",
     .help = "leave out the certified share"},
    STET_OPT_STR("seeds", reproduce_cfg, seeds, "1", "N,N,...",
                 "a run of every row for each; tables show the median"),
    STET_OPT_STR("betas", reproduce_cfg, betas, "0,1e-5,1e-4,1e-3", "B,B,...",
                 "beta: weights of the growth bound"),
    STET_OPT_CHOICE("paper", reproduce_cfg, paper, "imdb", "imdb|yahoo",
                    "whose printed figures to show beside ours"),
    STET_OPT_TOPIC("Effort"),
    STET_OPT_INT("limit", reproduce_cfg, limit, "0", 0, 1e12, "N",
                 "test texts to attack and to prove: a sample drawn by --seed, the same for every "
                 "run; 0: 1000, or 20 with --quick"),
    STET_OPT_INT("epochs", reproduce_cfg, epochs, "0", 0, 1e6, "N",
                 "passes over the data; 0: those of each row, or 3 with --quick"),
    STET_OPT_INT("steps", reproduce_cfg, steps, "0", 0, 1e9, "N",
                 "time: training steps of each of three rounds; 0: 30, or 3 and one round with "
                 "--quick"),
    STET_OPT_INT("texts", reproduce_cfg, texts, "0", 0, 1e6, "N",
                 "training texts of the built-in corpus; 0: 5000, or 1200 with --quick"),
    STET_OPT_FLAG("quick", reproduce_cfg, quick,
                  "small runs that show how it works; their figures mean nothing"),
    STET_OPT_TOPIC("Running"),
    STET_OPT_OUT(reproduce_cfg, out, "reproduce", "folder: a run folder for each row and seed"),
    STET_OPT_INT("jobs", reproduce_cfg, jobs, "1", 1, 1024, "N",
                 "runs side by side; they share the threads"),
    {STET_OPT_FIELD("run", STET_T_FLAG, reproduce_cfg, run), .def = "true",
     .help = "start nothing: show the results so far"},
    CLI_COMMON_OPTS(reproduce_cfg),
    STET_OPT_END,
};

/* ---- lists ------------------------------------------------------------------------------- */

static stet_status split(const char *name, const char *text, repro_list *out)
{
    if (strlen(text) >= sizeof out->text)
        return cli_usage("--%s: the list is too long", name);
    strcpy(out->text, text);
    out->n = 0;
    for (char *save, *item = strtok_r(out->text, ",", &save); item;
         item = strtok_r(NULL, ",", &save)) {
        if (out->n == REPRO_MOST)
            return cli_usage("--%s: at most %d values", name, REPRO_MOST);
        out->v[out->n++] = item;
    }
    return out->n ? STET_OK : cli_usage("--%s: expected something between the commas", name);
}

/* ---- what there is to reproduce ----------------------------------------------------------- */

static const repro_list s4_rows = {.v = {"standard", "gbm"}, .n = 2};

static bool has_proofs(const char *model, const char *row)
{
    const repro_row *x = repro_row_find(row);
    return repro_kind(model).reads_itself ? x->bert_proof : !x->no_proof;
}

static void plan_accuracy(reproduction *r, const char *model, const repro_list *rows)
{
    for (size_t k = 0; k < r->seeds.n; k++)
        for (size_t i = 0; i < rows->n; i++)
            if (repro_row_is_for(rows->v[i], model))
                repro_measure(r, model, rows->v[i], NULL, r->seeds.v[k], &r->attacks,
                              r->cfg->certify && has_proofs(model, rows->v[i]));
}

static void plan_table1(reproduction *r)
{
    for (size_t m = 0; m < r->models.n; m++)
        plan_accuracy(r, r->models.v[m], &r->defenses);
}
static void show_table1(reproduction *r)
{
    for (size_t m = 0; m < r->models.n; m++)
        show_accuracy(r, "table1", r->models.v[m], &r->defenses);
}

static void plan_s4(reproduction *r)
{
    plan_accuracy(r, "s4", &s4_rows);
}
static void show_s4(reproduction *r)
{
    show_accuracy(r, "s4", "s4", &s4_rows);
}

/* Those of --defenses, or of the paper's table of BERT. */
static void bert_rows(const reproduction *r, repro_list *out)
{
    *out = r->defenses;
    if (strcmp(r->cfg->defenses, repro_paper_rows) == 0)
        split("defenses", repro_bert_rows, out);
}

static void plan_bert(reproduction *r)
{
    repro_list rows;
    bert_rows(r, &rows);
    plan_accuracy(r, "bert", &rows);
}
static void show_bert(reproduction *r)
{
    repro_list rows;
    bert_rows(r, &rows);
    show_accuracy(r, "bert", "bert", &rows);
}

static void plan_beta(reproduction *r)
{
    const repro_list first = {.v = {r->attacks.v[0]}, .n = 1};
    for (size_t k = 0; k < r->seeds.n; k++)
        for (size_t i = 0; i < r->betas.n; i++)
            repro_measure(r, r->models.v[0], "gbm", r->betas.v[i], r->seeds.v[k], &first, false);
}

static void plan_time(reproduction *r)
{
    for (size_t k = 0; k < r->seeds.n; k++)
        for (size_t m = 0; m < r->models.n; m++)
            for (size_t i = 0; i < r->rounds * r->defenses.n; i++) {
                const char *model = r->models.v[m], *row = r->defenses.v[i % r->defenses.n];
                repro_clock of = {model, row, r->seeds.v[k], i / r->defenses.n, true};
                if (!repro_row_is_for(row, model))
                    continue;
                repro_time(r, &of);
                of.standard = false;
                repro_time(r, &of);
            }
}

static void plan_bounds(reproduction *r)
{
    for (size_t m = 0; m < r->models.n; m++)
        repro_inspect(r, r->models.v[m]);
}

static void plan_examples(reproduction *r)
{
    const repro_list first = {.v = {r->attacks.v[0]}, .n = 1};
    for (size_t m = 0; m < r->models.n; m++)
        for (size_t i = 0; i < s4_rows.n; i++)
            repro_measure(r, r->models.v[m], s4_rows.v[i], NULL, r->seeds.v[0], &first, false);
}

static const struct {
    const char *name;
    void (*plan)(reproduction *r), (*show)(reproduction *r);
    bool alone; /* not among `all` */
} parts[] = {
    {"table1", plan_table1, show_table1, false},
    {"s4", plan_s4, show_s4, false},
    {"bert", plan_bert, show_bert, true},
    {"beta", plan_beta, show_beta, false},
    {"time", plan_time, show_time, false},
    {"heatmap", plan_bounds, show_growth, false},
    {"distribution", plan_bounds, show_entries, false},
    {"examples", plan_examples, show_examples, false},
};
enum { N_PARTS = sizeof parts / sizeof *parts };

/* ---- options ------------------------------------------------------------------------------ */

static stet_status check_numbers(const char *name, const repro_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        char *end;
        const double v = strtod(l->v[i], &end);
        if (end == l->v[i] || *end || !(v >= 0 && v < 9e15))
            return cli_usage("--%s %s: expected a number of at least 0", name, l->v[i]);
    }
    return STET_OK;
}

static stet_status check_rows(const reproduction *r)
{
    char names[320];
    repro_row_names(names, sizeof names);
    for (size_t i = 0; i < r->defenses.n; i++)
        if (!repro_row_find(r->defenses.v[i]))
            return cli_usage("--defenses %s: expected one of %s", r->defenses.v[i], names);
    for (size_t i = 0; i < r->models.n; i++) {
        bool known = false;
        for (size_t k = 0; k < stet_model_kinds(); k++)
            known |= strcmp(stet_model_kind_name(k), r->models.v[i]) == 0;
        if (!known)
            return cli_usage("--models %s: no such kind of model", r->models.v[i]);
    }
    stet_status st = STET_OK;
    for (size_t k = 0; k < REPRO_SETTINGS; k++)
        for (size_t i = 0; st == STET_OK && i < r->attacks.n; i++)
            st = stet_attack_settings(r->attacks.v[i], r->setting[k].profile, NULL, NULL, NULL);
    return st;
}

static stet_status read_lists(reproduction *r)
{
    const reproduce_cfg *cfg = r->cfg;
    char every[320];
    repro_row_names(every, sizeof every);
    stet_status st = split("models", cfg->models, &r->models);
    if (st == STET_OK)
        st = split("defenses", strcmp(cfg->defenses, "all") == 0 ? every : cfg->defenses,
                   &r->defenses);
    if (st == STET_OK)
        st = split("attacks", cfg->attacks, &r->attacks);
    if (st == STET_OK)
        st = split("seeds", cfg->seeds, &r->seeds);
    if (st == STET_OK)
        st = check_numbers("seeds", &r->seeds);
    if (st == STET_OK)
        st = split("betas", cfg->betas, &r->betas);
    if (st == STET_OK)
        st = check_numbers("betas", &r->betas);
    return st == STET_OK ? check_rows(r) : st;
}

/* Names of parts, then what stands after `--`. */
static stet_status read_parts(const stet_rest *rest, bool wanted[N_PARTS], reproduction *r)
{
    size_t n = 0;
    for (; n < rest->n && rest->v[n][0] != '-'; n++) {
        const bool all = strcmp(rest->v[n], "all") == 0;
        bool known = all;
        for (size_t i = 0; i < N_PARTS; i++)
            if ((all && !parts[i].alone) || strcmp(rest->v[n], parts[i].name) == 0)
                known = wanted[i] = true;
        if (!known)
            return cli_usage("'%s': expected table1, s4, bert, beta, time, heatmap, "
                             "distribution, examples or all",
                             rest->v[n]);
    }
    if (n == 0)
        return cli_usage("expected what to reproduce: table1, s4, bert, beta, time, "
                         "heatmap, distribution, examples or all");
    r->train_args = rest->v + n;
    r->n_train_args = rest->n - n;
    return STET_OK;
}

static stet_status check_paths(const reproduce_cfg *cfg)
{
    if ((cfg->test || cfg->vectors.n || cfg->synonyms) && !cfg->data)
        return cli_usage("--test, --vectors and --synonyms need --data");
    if (strlen(cfg->out) > DEMO_PATH / 2)
        return cli_usage("-o: the path is too long");
    return STET_OK;
}

/* ---- running ------------------------------------------------------------------------------ */

static void note_done(const cli_cells *c, const cli_cell *x)
{
    size_t done = 0;
    for (size_t i = 0; i < c->n; i++)
        done += cell_done(c->v[i]);
    cli_note("%s (%zu of %zu)", x->dir, done, c->n);
}

static stet_status run_cells(reproduction *r, cli_cells *c, size_t jobs)
{
    const reproduce_cfg *cfg = r->cfg;
    const long cores =
        cfg->common.threads ? (long)cfg->common.threads : sysconf(_SC_NPROCESSORS_ONLN);
    c->jobs = cfg->run ? jobs : 0;
    c->threads = cores / (long)jobs > 1 ? cores / (long)jobs : 1;
    c->done = note_done;
    return cells_run(c);
}

static void print_sheet(const repro_sheet *t)
{
    cli_table out = {0};
    printf("\n%s\n\n", t->title);
    for (size_t i = 0; i < t->n / t->s.cols; i++)
        cli_row_of(&out, (const char *const *)t->cell + i * t->s.cols, t->s.cols);
    cli_table_print(&out);
}

static void print_examples(const json_t *rows)
{
    const json_t *o;
    size_t i;
    json_array_foreach(rows, i, o)
    {
        if (!json_object_get(o, "example"))
            continue;
        printf("\n%s, %s, %s:\n", json_string_value(json_object_get(o, "model")),
               json_string_value(json_object_get(o, "defense")),
               json_string_value(json_object_get(o, "attack")));
        cli_diff_print(json_object_get(o, "example"));
    }
}

static stet_status print_json(const reproduction *r)
{
    stet_status st = STET_OK;
    const json_t *row;
    size_t i;
    json_array_foreach(r->rows, i, row)
    {
        json_t *o = cli_json_start(&cmd_reproduce, r->cfg);
        json_object_update(o, (json_t *)row);
        st = st == STET_OK ? cli_json_print(o) : (json_decref(o), st);
    }
    return st;
}

static void print_text(const reproduction *r)
{
    for (size_t i = 0; i < r->n_sheets; i++)
        if (!r->sheet[i].text)
            print_sheet(&r->sheet[i]);
        else
            print_examples(r->rows);
    const char *last = "";
    for (size_t i = 0; i < r->n_sheets; i++) /* tables of one kind have one note */
        if (strcmp(r->sheet[i].note, last) != 0 && !r->sheet[i].text) {
            putchar('\n');
            cli_wrap(r->sheet[i].note, 96);
            last = r->sheet[i].note;
        }
    fflush(stdout);
}

static stet_status write_json(const reproduction *r)
{
    char path[REPRO_PATH];
    snprintf(path, sizeof path, "%s/reproduce.json", r->cfg->out);
    json_t *o = cli_json_start(&cmd_reproduce, r->cfg);
    json_object_set(o, "rows", r->rows);
    const int failed = json_dump_file(o, path, JSON_INDENT(1) | JSON_REAL_PRECISION(10));
    json_decref(o);
    return failed ? cli_fail(STET_EIO, "%s: cannot write", path) : STET_OK;
}

/* The tables, alone as Markdown; as HTML with the runs of the first seed, which are read anew. */
static stet_status write_page(reproduction *r, stet_report_format format, const char *name)
{
    char path[REPRO_PATH];
    stet_sheet *sheets = malloc((r->n_sheets + 1) * sizeof *sheets);
    const char **dirs = malloc((r->runs.n + 1) * sizeof *dirs);
    if (!sheets || !dirs)
        cli_no_memory();
    for (size_t i = 0; i < r->n_sheets; i++) {
        repro_sheet *t = &r->sheet[i];
        t->s.title = t->title;
        t->s.note = *t->note ? t->note : NULL;
        t->s.cell = (const char *const *)t->cell;
        t->s.rows = t->n / t->s.cols;
        sheets[i] = t->s;
    }
    stet_report_args a = {.title = "Growth bound matrices: the paper's tables, measured again",
                          .format = format,
                          .sheets = sheets,
                          .n_sheets = r->n_sheets,
                          .dirs = dirs};
    enum { MOST_RUNS = 64 };
    char end[64];
    snprintf(end, sizeof end, "_seed-%s", r->seeds.v[0]);
    for (size_t i = 0; format == STET_REPORT_HTML && i < r->runs.n && a.n_dirs < MOST_RUNS; i++) {
        const cli_cell *x = r->runs.v[i];
        const char *tail = strstr(x->dir, end);
        if (cell_done(x) && tail && strcmp(tail, end) == 0)
            dirs[a.n_dirs++] = x->dir;
    }
    snprintf(path, sizeof path, "%s/%s", r->cfg->out, name);
    const stet_status st = stet_report_write(&a, path);
    free(sheets);
    free(dirs);
    return st;
}

static stet_status show(reproduction *r, const bool wanted[N_PARTS])
{
    r->rows = json_array();
    for (size_t i = 0; i < N_PARTS; i++)
        if (wanted[i])
            parts[i].show(r);
    stet_status st = write_json(r);
    if (st == STET_OK)
        st = write_page(r, STET_REPORT_MARKDOWN, "reproduce.md");
    const bool json = r->cfg->common.json;
    if (st == STET_OK && json)
        st = print_json(r);
    else if (st == STET_OK)
        print_text(r);
    if (st == STET_OK) /* last: it takes longest */
        st = write_page(r, STET_REPORT_HTML, "report.html");
    if (st == STET_OK && !json)
        printf("\nThe same as a page: %s/report.html, reproduce.md, reproduce.json\n", r->cfg->out);
    return st;
}

static stet_status work(reproduction *r, const bool wanted[N_PARTS])
{
    stet_status st = repro_files(r);
    for (size_t i = 0; st == STET_OK && i < N_PARTS; i++)
        if (wanted[i])
            parts[i].plan(r);
    if (st == STET_OK)
        st = run_cells(r, &r->runs, (size_t)r->cfg->jobs);
    if (st == STET_OK)
        st = run_cells(r, &r->figures, 1);
    if (st == STET_OK)
        st = run_cells(r, &r->clock, 1);
    return st == STET_OK ? show(r, wanted) : st;
}

static void tear_down(reproduction *r)
{
    for (size_t i = 0; i < r->n_sheets; i++) {
        for (size_t k = 0; k < r->sheet[i].n; k++)
            free(r->sheet[i].cell[k]);
        free(r->sheet[i].cell);
    }
    free(r->sheet);
    json_decref(r->rows);
    cells_deinit(&r->runs);
    cells_deinit(&r->figures);
    cells_deinit(&r->clock);
}

static stet_status run(void *config, const stet_rest *rest)
{
    const reproduce_cfg *cfg = config;
    static reproduction r;
    bool wanted[N_PARTS] = {false};
    r = (reproduction){
        .cfg = cfg,
        .corpus = cfg->paper ? "yahoo" : "imdb",
        .limit = cfg->limit   ? cfg->limit
                 : cfg->quick ? 20
                              : 1000,
        .epochs = cfg->epochs  ? cfg->epochs
                  : cfg->quick ? 3
                               : 0,
        .steps = cfg->steps   ? cfg->steps
                 : cfg->quick ? 3
                              : 30,
        .rounds = cfg->quick ? 1 : REPRO_ROUNDS,
        .flipped = cfg->quick ? 50 : 2000,
        .setting = {[REPRO_FULL] = {.name = "full", .label = "full", .profile = "original"},
                    [REPRO_PAPER] = {.name = "paper", .label = "paper's", .profile = "gbm-paper"}}};
    stet_status st = check_paths(cfg);
    if (st == STET_OK)
        st = read_parts(rest, wanted, &r);
    if (st == STET_OK)
        st = read_lists(&r);
    if (st == STET_OK)
        st = work(&r, wanted);
    const size_t failed = cells_failed(&r.runs) + cells_failed(&r.figures) + cells_failed(&r.clock),
                 all = r.runs.n + r.figures.n + r.clock.n;
    if (st == STET_OK && failed)
        st = cli_fail(STET_EIO, "%zu of %zu runs failed; run the same command again to retry them",
                      failed, all);
    tear_down(&r);
    return st;
}

const cli_command cmd_reproduce = {
    .name = "reproduce",
    .args = "WHAT... [-- TRAIN OPTIONS]",
    .summary = "repeat the tables of the growth bound paper, beside its printed figures",
    .details =
        "WHAT is table1 (defences, models and attacks), s4 (the S4 model), bert (BERT with the "
        "defences of its table; not among all, weights by `-- --init FOLDER`), beta (accuracy "
        "against "
        "the weight of the growth bound), time (an epoch of training with each defence), heatmap "
        "and distribution (the growth bound matrix, standard and trained with the bound), examples "
        "(flipped texts), or all. Every row and seed is a run folder inside the output folder; "
        "what "
        "is there is not done again, so the same command continues work that was stopped, and you "
        "can add rows, columns and seeds later. Every model is attacked twice: with the given "
        "substitution sets, and with the paper's own candidate sets. Options after `--` go to "
        "every "
        "`stet train`. docs/reproduce.md says what each row is and how to read the tables.",
    .examples =
        "  stet reproduce all --quick\n"
        "  stet reproduce table1 --data imdb/train.tsv.xz --test imdb/test.tsv.xz \\\n"
        "    --vectors glove.6B.300d.txt --synonyms jia.subst --nearest counter-fitted-vectors.txt "
        "\\\n    --seeds 1,2,3 --jobs 4 -o tables\n"
        "  stet reproduce table1 --data yahoo/train.csv --test yahoo/test.csv --label 1 "
        "--text 2,3,4 \\\n    --vectors glove.6B.300d.txt --paper yahoo -o yahoo-tables -- "
        "--max-len 256\n",
    .opts = opts,
    .cfg_size = sizeof(reproduce_cfg),
    .on_gpu = true, /* training */
    .max_args = STET_REST_MAX,
    .run = run,
};
