/* cli/sweep_jobs.c - see sweep_jobs.h: a point's stages as commands. */
#include "cli/sweep_jobs.h"

#include <string.h>

#include "cli/commands.h"
#include "stet/bound.h"

/* The kind of the last --model that training is given. */
static const char *kind_trained(const sweep *s)
{
    for (size_t i = s->n_train_args; i-- > 0;) {
        if (strncmp(s->train_args[i], "--model=", 8) == 0)
            return s->train_args[i] + 8;
        if (i + 1 < s->n_train_args && strcmp(s->train_args[i], "--model") == 0)
            return s->train_args[i + 1];
    }
    return "";
}

/* Growth bounds are left out where the kind has none. */
static bool inspects(const sweep *s)
{
    const char *kind = kind_trained(s);
    return !s->frontier && (!*kind || stet_gbm_known(kind));
}

bool sweep_wants(const sweep *s, sweep_stage stage)
{
    return stage == SWEEP_EVAL      ? s->source.data && !s->frontier
           : stage == SWEEP_INSPECT ? inspects(s)
           : stage == SWEEP_ATTACK  ? s->attack != NULL
           : stage == SWEEP_CERTIFY ? s->certify
                                    : true;
}

/* Options that the user gives come after the defences of the axes, so that --defense may name more,
 * and before the point's own values. A block is the validation set, too. */
static void train_stage(const sweep *s, const sweep_point *p, cli_stage *out)
{
    char defense[64] = "", option[64];
    for (size_t x = 0; x < SWEEP_AXES; x++)
        if (p->value[x] && s->axes[x].defense)
            snprintf(defense + strlen(defense), sizeof defense - strlen(defense), "%s%s",
                     *defense ? "," : "", s->axes[x].defense);
    out->output = "train.json";
    cell_option(out, "--defense", *defense ? defense : NULL);
    for (size_t i = 0; i < s->n_train_args; i++)
        cell_args(out, s->train_args[i], NULL);
    for (size_t x = 0; x < SWEEP_BLOCK; x++)
        if (p->value[x]) {
            snprintf(option, sizeof option, "--%s", s->axes[x].key);
            cell_option(out, option, p->value[x]);
        }
    if (p->held_out)
        cell_args(out, "--data", p->rest, "--valid", p->held_out, "--label", "label", "--text",
                  "text", NULL);
    cell_args(out, "-o", p->dir, "--resume", NULL);
}

static void measure_stage(const sweep *s, const sweep_point *p, sweep_stage stage, cli_stage *out)
{
    const bool swaps = stage == SWEEP_ATTACK || stage == SWEEP_CERTIFY;
    const cli_source from = {.data = p->held_out ? p->held_out : s->source.data,
                             .label = p->held_out ? "label" : NULL,
                             .text = p->held_out ? "text" : NULL,
                             .synonyms = swaps ? s->source.synonyms : NULL,
                             .limit = swaps ? s->source.limit : 0};
    cell_args(out, p->dir, NULL);
    cell_source(out, &from);
    cell_number(out, "--seed", s->seed);
    snprintf(out->result, sizeof out->result, "%s", out->cmd->name);
    if (stage == SWEEP_INSPECT) {
        cell_args(out, "--top", "0", NULL);
        out->plain_classes = true;
    }
    if (stage == SWEEP_ATTACK) {
        cell_args(out, "--attack", s->attack, "--profile", SWEEP_PROFILE, NULL);
        snprintf(out->result, sizeof out->result, "attack-%s-" SWEEP_PROFILE, s->attack);
    }
    if (stage == SWEEP_CERTIFY)
        snprintf(out->result, sizeof out->result, "certify-auto");
}

static void add_point(sweep *s, sweep_point *p)
{
    static const cli_command *const command[SWEEP_DONE] = {&cmd_train, &cmd_eval, &cmd_inspect,
                                                           &cmd_attack, &cmd_certify};
    cli_cell *x = cells_add(&s->cells, p->dir);
    x->user = p;
    for (sweep_stage k = 0; k < SWEEP_DONE; k++) {
        if (!sweep_wants(s, k))
            continue;
        cli_stage *stage = cell_add(x, command[k]);
        if (k == SWEEP_TRAIN)
            train_stage(s, p, stage);
        else
            measure_stage(s, p, k, stage);
    }
}

/* What the cell came to, in the words of the sweep. What training said of the model is in
 * config.json. */
static void take(const sweep *s, const cli_cell *x)
{
    sweep_point *p = x->user;
    char config[sizeof p->dir + 16];
    size_t at = 0;
    for (p->stage = 0; p->stage < SWEEP_DONE && at < x->at; p->stage++) {
        if (!sweep_wants(s, p->stage))
            continue;
        json_decref(p->record[p->stage]);
        snprintf(config, sizeof config, "%s/config.json", p->dir);
        p->record[p->stage] = p->stage == SWEEP_TRAIN ? json_load_file(config, 0, NULL)
                                                      : json_incref(x->stage[at].record);
        at++;
    }
    p->stage = cell_done(x) ? SWEEP_DONE : p->stage;
    p->failed = x->failed;
}

static void point_done(const cli_cells *c, const cli_cell *x)
{
    const sweep *s = c->user;
    take(s, x);
    if (s->done)
        s->done(s, x->user);
}

void sweep_plan(sweep *s)
{
    s->cells = (cli_cells){.jobs = s->jobs, .threads = s->threads, .done = point_done, .user = s};
    for (size_t i = 0; i < s->n; i++)
        add_point(s, &s->point[i]);
}

stet_status sweep_run(sweep *s)
{
    const stet_status st = cells_run(&s->cells);
    for (size_t i = 0; i < s->cells.n; i++)
        take(s, s->cells.v[i]);
    return st;
}

size_t sweep_failed(const sweep *s)
{
    return cells_failed(&s->cells);
}

void sweep_deinit(sweep *s)
{
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < SWEEP_DONE; k++)
            json_decref(s->point[i].record[k]);
    cells_deinit(&s->cells);
}
