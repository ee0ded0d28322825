/* cli/cmd_info.c - stet info: what this build is and what it found on this machine. */
#include "cli/commands.h"
#include "stet/info.h"

typedef struct info_cfg {
    cli_common common;
    bool ops;
} info_cfg;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Output"),
    STET_OPT_FLAG("ops", info_cfg, ops, "list the tensor ops and the devices that have them"),
    CLI_COMMON_OPTS(info_cfg),
    STET_OPT_END,
};

static stet_status print_json(const info_cfg *cfg, const stet_build_info *b)
{
    json_t *o = cli_json_start(&cmd_info, cfg);
    json_object_set_new(o, "compiler", json_string(b->compiler));
    json_object_set_new(o, "simd", json_string(b->simd));
    json_object_set_new(o, "blas", json_string(b->blas));
    json_object_set_new(o, "threads", json_integer(b->threads));
    json_object_set_new(o, "gpu", json_string(b->gpu));
    json_object_set_new(o, "wordnet", b->wordnet ? json_string(b->wordnet) : json_null());
    return cli_json_print(o);
}

static stet_status run(void *config, const stet_rest *rest)
{
    (void)rest;
    const info_cfg *cfg = config;
    const stet_build_info b = stet_info();
    if (cfg->common.json)
        return print_json(cfg, &b);
    printf("stet      %s\ncompiler  %s\nSIMD      %s (chosen at run time)\nBLAS      %s, one "
           "thread inside each of ours\n"
           "threads   %d\nGPU       %s\nWordNet   %s\n",
           b.version, b.compiler, b.simd, b.blas, b.threads, b.gpu,
           b.wordnet ? b.wordnet : "not found (Debian: wordnet-base)");
    if (cfg->ops) {
        cli_table t = {0};
        cli_row(&t, "op", "cpu", "cuda", NULL);
        for (size_t i = 0; i < stet_op_count(); i++) {
            bool cpu, cuda;
            const char *name = stet_op_support(i, &cpu, &cuda);
            cli_row(&t, name, cpu ? "yes" : "no", cuda ? "yes" : "no", NULL);
        }
        cli_table_print(&t);
    }
    return STET_OK;
}

const cli_command cmd_info = {
    .name = "info",
    .args = "",
    .summary = "print version, compiler, CPU features, BLAS, GPU and WordNet",
    .examples = "  stet info\n  stet info --ops\n",
    .opts = opts,
    .cfg_size = sizeof(info_cfg),
    .run = run,
};
