/* cli/sweep_jobs.c - see sweep_jobs.h. */
#include "cli/sweep_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/measured.h"

extern char **environ;

enum { MAX_ARGS = SWEEP_TRAIN_ARGS + 32, PATH = 1100, SIGNALLED = 128 };

const sweep_axis sweep_axes[SWEEP_AXES] = {
    [SWEEP_SMOOTH] = {"smooths", "smooth", "lambda", NULL},
    [SWEEP_KAPPA] = {"kappas", "kappa", "kappa", "certified"},
    [SWEEP_BETA] = {"betas", "beta", "beta", "gbm"},
    [SWEEP_SEED] = {"seeds", "seed", "seed", NULL},
};

static const cli_command *const stage_command[SWEEP_DONE] = {&cmd_train, &cmd_eval, &cmd_inspect,
                                                             &cmd_attack, &cmd_certify};

static void in_dir(const sweep_point *p, const char *name, char out[PATH])
{
    snprintf(out, PATH, "%s/%s", p->dir, name);
}

bool sweep_wants(const sweep *s, sweep_stage stage)
{
    return stage == SWEEP_EVAL      ? s->source.data != NULL
           : stage == SWEEP_ATTACK  ? s->attack != NULL
           : stage == SWEEP_CERTIFY ? s->certify
                                    : true;
}

/* ---- commands ----------------------------------------------------------------------------- */

typedef struct arguments {
    const char *v[MAX_ARGS + 1];
    size_t n;
    char threads[24], seed[24], limit[24], defense[64], option[SWEEP_AXES][16];
} arguments;

static void push(arguments *a, const char *name, const char *value)
{
    if (!value || a->n + 2 > MAX_ARGS)
        return;
    if (name)
        a->v[a->n++] = name;
    a->v[a->n++] = value;
}

static const char *number(char out[24], int64_t v)
{
    snprintf(out, 24, "%lld", (long long)v);
    return out;
}

/* Options that the user gives come after the defences of the axes, so that --defense may name more,
 * and before the point's own values. */
static void train_command(const sweep *s, const sweep_point *p, arguments *a)
{
    for (size_t x = 0; x < SWEEP_AXES; x++)
        if (p->value[x] && sweep_axes[x].defense)
            snprintf(a->defense + strlen(a->defense), sizeof a->defense - strlen(a->defense),
                     "%s%s", *a->defense ? "," : "", sweep_axes[x].defense);
    push(a, "--defense", *a->defense ? a->defense : NULL);
    for (size_t i = 0; i < s->n_train_args; i++)
        push(a, NULL, s->train_args[i]);
    for (size_t x = 0; x < SWEEP_AXES; x++) {
        snprintf(a->option[x], sizeof a->option[x], "--%s", sweep_axes[x].key);
        push(a, a->option[x], p->value[x]);
    }
    push(a, "-o", p->dir);
    push(a, NULL, "--resume");
}

static void measure_command(const sweep *s, const sweep_point *p, arguments *a)
{
    const bool swaps = p->stage == SWEEP_ATTACK || p->stage == SWEEP_CERTIFY;
    push(a, NULL, p->dir);
    push(a, "--data", s->source.data);
    push(a, "--seed", number(a->seed, s->seed));
    push(a, "--top", p->stage == SWEEP_INSPECT ? "0" : NULL);
    push(a, "--attack", p->stage == SWEEP_ATTACK ? s->attack : NULL);
    push(a, "--profile", p->stage == SWEEP_ATTACK ? SWEEP_PROFILE : NULL);
    push(a, "--synonyms", swaps ? s->source.synonyms : NULL);
    push(a, "--limit", swaps ? number(a->limit, s->source.limit) : NULL);
}

static void command_of(const sweep *s, const sweep_point *p, arguments *a)
{
    *a = (arguments){.n = 0};
    push(a, NULL, "stet");
    push(a, NULL, stage_command[p->stage]->name);
    if (p->stage == SWEEP_TRAIN)
        train_command(s, p, a);
    else
        measure_command(s, p, a);
    push(a, NULL, "--json");
    push(a, "--progress", "never");
    push(a, "--threads", number(a->threads, s->threads));
}

/* ---- what is there already ---------------------------------------------------------------- */

/* The texts as the stage's command reads them. Every point has the same classes: those of the data
 * that all are trained on. */
static const stet_dataset *texts_of(sweep *s, sweep_stage stage, const stet_model *m)
{
    const bool plain = stage == SWEEP_INSPECT;
    if (s->source.data && !s->data[plain] &&
        cli_data_load(&s->source, plain ? NULL : m, &s->data[plain]) != STET_OK)
        return NULL; /* the command will say so */
    return s->data[plain];
}

/* The settings of the stage's command, as it would understand its arguments. */
static void *settings_of(const sweep *s, const sweep_point *p, arguments *a)
{
    const cli_command *cmd = stage_command[p->stage];
    void *cfg = calloc(1, cmd->cfg_size);
    stet_rest rest;
    command_of(s, p, a);
    const stet_status st =
        cfg ? stet_opt_parse(cmd->opts, cfg, (int)a->n - 2, (char *const *)a->v + 2, &rest)
            : STET_ENOMEM;
    if (st == STET_ENOMEM)
        cli_no_memory();
    if (st == STET_OK)
        return cfg;
    free(cfg);
    return NULL;
}

static json_t *measured(sweep *s, const sweep_point *p, const stet_model *m)
{
    char name[64];
    snprintf(name, sizeof name, "%s", stage_command[p->stage]->name);
    if (p->stage == SWEEP_ATTACK)
        snprintf(name, sizeof name, "attack-%s-" SWEEP_PROFILE, s->attack);
    if (p->stage == SWEEP_CERTIFY)
        snprintf(name, sizeof name, "certify-auto");
    const bool swaps = p->stage == SWEEP_ATTACK || p->stage == SWEEP_CERTIFY;
    arguments a;
    void *cfg = settings_of(s, p, &a);
    json_t *found = cfg ? cli_recorded(&(cli_measured){.cmd = stage_command[p->stage],
                                                       .cfg = cfg,
                                                       .dir = p->dir,
                                                       .name = name,
                                                       .model = m,
                                                       .data = texts_of(s, p->stage, m),
                                                       .sets = swaps ? &s->sets : NULL})
                        : NULL;
    free(cfg);
    return found;
}

/* Options that say how a point is trained, not to what end. */
static bool is_of_no_effect(const char *option)
{
    static const char *const names[] = {"out",      "resume", "save-every", "json",   "threads",
                                        "progress", "quiet",  "verbose",    "device", NULL};
    for (const char *const *n = names; *n; n++)
        if (strcmp(option, *n) == 0)
            return true;
    return false;
}

/* What a point was trained with must be what is asked for now: the table would show numbers of other settings.
 * Options that the program of then did not know are passed over. */
static stet_status same_settings(const sweep_point *p, json_t *now, json_t *then)
{
    const char *key;
    json_t *v;
    stet_status st = STET_OK;
    cli_shorten_paths(now);
    cli_shorten_paths(then);
    json_object_foreach(now, key, v)
    {
        const size_t as_printed = JSON_ENCODE_ANY | JSON_REAL_PRECISION(10);
        char *is = json_dumps(v, as_printed),
             *was = json_dumps(json_object_get(then, key), as_printed);
        if (st == STET_OK && is && was && strcmp(is, was) != 0 && !is_of_no_effect(key))
            st = cli_usage("%s: trained with --%s %s, not %s; choose another folder with -o",
                           p->dir, key, was, is);
        stet_free(is);
        stet_free(was);
    }
    return st;
}

/* Every mistake among the options of training, and every folder of another sweep, is told before the first run. */
static stet_status check_training(const sweep *s, const sweep_point *p)
{
    arguments a;
    void *cfg = settings_of(s, p, &a);
    if (!cfg)
        return cli_usage("stet train: %s", stet_last_error());
    char output[PATH];
    in_dir(p, "train.json", output);
    json_t *o = json_load_file(output, 0, NULL), *now = cli_json_start(&cmd_train, cfg),
           *then = json_object_get(o, "config");
    const stet_status st = then ? same_settings(p, json_object_get(now, "config"), then) : STET_OK;
    json_decref(o);
    json_decref(now);
    free(cfg);
    return st;
}

/* Training is complete when its output is there; what it said of the model is in config.json. */
static json_t *trained(const sweep_point *p)
{
    char output[PATH], config[PATH];
    in_dir(p, "train.json", output);
    in_dir(p, "config.json", config);
    return access(output, R_OK) == 0 ? json_load_file(config, 0, NULL) : NULL;
}

/* Past every stage that is done or not wanted. */
static void skip_done(sweep *s, sweep_point *p)
{
    stet_model *m = NULL;
    for (; p->stage != SWEEP_DONE; p->stage++) {
        if (!sweep_wants(s, p->stage))
            continue;
        if (p->stage != SWEEP_TRAIN && !m && stet_model_load(p->dir, &m) != STET_OK)
            break;
        json_t *r = p->stage == SWEEP_TRAIN ? trained(p) : measured(s, p, m);
        if (!r)
            break;
        p->record[p->stage] = r;
    }
    stet_model_free(m);
}

/* ---- processes ---------------------------------------------------------------------------- */

/* Where standard output goes: train.json while it is written; what is measured goes to DIR/results
 * by itself. */
static void output_of(const sweep_point *p, char out[PATH])
{
    if (p->stage == SWEEP_TRAIN)
        in_dir(p, "train.json.part", out);
    else
        snprintf(out, PATH, "/dev/null");
}

/* Messages go to log.txt. */
static bool start(const sweep *s, sweep_point *p)
{
    char out[PATH], log[PATH];
    arguments a;
    command_of(s, p, &a);
    mkdir(p->dir, 0777);
    output_of(p, out);
    in_dir(p, "log.txt", log);
    posix_spawn_file_actions_t files;
    if (posix_spawn_file_actions_init(&files) != 0)
        return false;
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out, O_WRONLY | O_CREAT | O_TRUNC,
                                     0666);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC,
                                     0666);
    const int failed =
        posix_spawn(&p->pid, "/proc/self/exe", &files, NULL, (char *const *)a.v, environ);
    posix_spawn_file_actions_destroy(&files);
    if (failed)
        p->pid = 0;
    return !failed;
}

/* The last line that a failed command wrote. */
static void explain(const sweep_point *p, const char *what)
{
    char path[PATH], line[512] = "", next[512];
    in_dir(p, "log.txt", path);
    FILE *f = fopen(path, "r");
    while (f && fgets(next, sizeof next, f))
        memcpy(line, next, sizeof line);
    if (f)
        fclose(f);
    line[strcspn(line, "\n")] = '\0';
    cli_note("%s: %s%s%s", p->dir, what, *line ? ": " : "", line);
}

/* ---- scheduling --------------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;

static void on_stop(int sig)
{
    cli_caught(sig);
    stopped = 1;
}

/* Training leaves train.json only when it came to its end. */
static bool keep_output(const sweep_point *p, bool good)
{
    char part[PATH], final[PATH];
    if (p->stage != SWEEP_TRAIN)
        return true;
    in_dir(p, "train.json.part", part);
    in_dir(p, "train.json", final);
    return good ? rename(part, final) == 0 : unlink(part) == 0;
}

/* One finished process: what it was to leave must be there. */
static void finish(sweep *s, sweep_point *p, int status)
{
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    const sweep_stage stage = p->stage;
    p->pid = 0;
    const bool kept = keep_output(p, code == 0);
    if (code == 0 && kept)
        skip_done(s, p);
    if (p->stage == SWEEP_DONE && s->done)
        s->done(s, p);
    if (p->stage != stage)
        return;
    stopped |= code > SIGNALLED;
    p->failed = code <= SIGNALLED && !(stopped && WIFSIGNALED(status));
    if (p->failed)
        explain(p, code == 0 ? "cannot keep the result" : "failed");
}

static size_t running(const sweep *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += s->point[i].pid != 0;
    return n;
}

/* Start what there is room for: points that have begun first. */
static void fill(sweep *s)
{
    size_t n = running(s);
    for (size_t i = 0; i < s->n && n < s->jobs; i++) {
        sweep_point *p = &s->point[i];
        if (p->pid || p->failed || p->stage == SWEEP_DONE)
            continue;
        if (start(s, p)) {
            n++;
        } else {
            p->failed = true;
            explain(p, strerror(errno));
        }
    }
}

/* A signal was ours alone: pass it on. Training writes a checkpoint first; what measures has
 * nothing to save. */
static void stop_all(const sweep *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->point[i].pid)
            kill(s->point[i].pid, s->point[i].stage == SWEEP_TRAIN ? SIGINT : SIGKILL);
}

static void wait_one(sweep *s)
{
    int status;
    const pid_t pid = waitpid(-1, &status, 0);
    if (pid < 0 && errno == EINTR)
        stop_all(s);
    for (size_t i = 0; i < s->n; i++)
        if (pid > 0 && s->point[i].pid == pid)
            finish(s, &s->point[i], status);
}

stet_status sweep_run(sweep *s)
{
    const struct sigaction stop = {.sa_handler = on_stop}; /* no restart: waitpid returns */
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    enum { N_SIGNALS = sizeof signals / sizeof *signals };
    struct sigaction before[N_SIGNALS];
    stopped = 0;
    for (int i = 0; i < N_SIGNALS; i++) {
        sigaction(signals[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &stop, NULL);
    }
    stet_status st = s->source.synonyms ? stet_sets_load(s->source.synonyms, &s->sets) : STET_OK;
    for (size_t i = 0; st == STET_OK && i < s->n; i++)
        st = check_training(s, &s->point[i]);
    for (size_t i = 0; st == STET_OK && !stopped && i < s->n; i++)
        skip_done(s, &s->point[i]);
    while (st == STET_OK) {
        if (!stopped)
            fill(s);
        if (running(s) == 0)
            break;
        wait_one(s);
    }
    for (int i = 0; i < N_SIGNALS; i++)
        sigaction(signals[i], &before[i], NULL);
    return stopped ? cli_fail(STET_EINTR, "interrupted; the same command goes on from here") : st;
}

void sweep_deinit(sweep *s)
{
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < SWEEP_DONE; k++)
            json_decref(s->point[i].record[k]);
    stet_dataset_free(s->data[0]);
    stet_dataset_free(s->data[1]);
    stet_sets_free(&s->sets);
}
