/* cli/cmd_report.c - stet report: one page about a set of run folders. */
#include <string.h>

#include "cli/commands.h"
#include "stet/report.h"

typedef struct report_cfg {
    cli_common common;
    const char *out, *title;
    bool markdown, bounds;
} report_cfg;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Report"),
    STET_OPT_OUT(report_cfg, out, NULL,
                 "the page; without it report.html, or for --markdown and --json standard output"),
    STET_OPT_FLAG("markdown", report_cfg, markdown, "Markdown instead of HTML"),
    STET_OPT_STR("title", report_cfg, title, NULL, "TEXT", "heading of the page"),
    {STET_OPT_FIELD("bounds", STET_T_FLAG, report_cfg, bounds), .def = "true",
     .help = "leave out growth bounds, which are computed from the weights"},
    CLI_COMMON_OPTS(report_cfg),
    STET_OPT_END,
};

static stet_status run(void *config, const stet_rest *rest)
{
    const report_cfg *cfg = config;
    if (cfg->markdown && cfg->common.json)
        return cli_usage("expected one of --markdown and --json");
    const stet_report_args a = {.dirs = rest->v,
                                .n_dirs = rest->n,
                                .title = cfg->title,
                                .no_bounds = !cfg->bounds,
                                .format = cfg->markdown      ? STET_REPORT_MARKDOWN
                                          : cfg->common.json ? STET_REPORT_JSON
                                                             : STET_REPORT_HTML};
    const char *out = cfg->out ? cfg->out : a.format == STET_REPORT_HTML ? "report.html" : "-";
    if (strcmp(out, "-") != 0) {
        const stet_status st = stet_report_write(&a, out);
        if (st == STET_OK)
            cli_note("%s", out);
        return st;
    }
    char *page;
    const stet_status st = stet_report(&a, &page);
    if (st == STET_OK)
        fputs(page, stdout);
    stet_free(page);
    return st;
}

const cli_command cmd_report = {
    .name = "report",
    .args = "DIR...",
    .summary = "write one page about run folders: accuracy, attacks, proofs, flipped texts",
    .details = "The page is one file that loads nothing, so you can open it from disk, mail "
               "or print it. It shows the results that `stet eval`, `stet attack`, `stet "
               "certify` and `stet inspect` left in the folders; run those first. A folder of "
               "`stet attack --victim-dir` is shown too.",
    .examples = "  stet report runs/standard runs/robust -o report.html\n  stet report runs/* "
                "--markdown > report.md\n",
    .opts = opts,
    .cfg_size = sizeof(report_cfg),
    .min_args = 1,
    .max_args = STET_REST_MAX,
    .run = run,
};
