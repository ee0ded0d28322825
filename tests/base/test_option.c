/* tests/base/test_option.c */
#include "test.h"

#include <jansson.h>

#include "alloc_fail.h"
#include "base/error.h"
#include "base/option_impl.h"
#include "stet/option.h"

typedef struct cfg_t {
    int64_t epochs;
    double beta, rate;
    const char *out, *name;
    bool json, quiet, warm;
    int model;
    stet_strings data;
} cfg_t;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Training"),
    STET_OPT_INT("epochs", cfg_t, epochs, "10", 1, 1e6, "N", "passes over the data"),
    STET_OPT_REAL("beta", cfg_t, beta, "0.1", 0, 1, "X", "strength of the growth bound term"),
    STET_OPT_REAL("rate", cfg_t, rate, NULL, -HUGE_VAL, HUGE_VAL, "X", "anything"),
    STET_OPT_CHOICE("model", cfg_t, model, "bilstm", "cnn|bilstm|s4", "kind of network"),
    {.name = "warm",
     .type = STET_T_FLAG,
     .offset = offsetof(cfg_t, warm),
     .def = "true",
     .help = "do not start from a cold model"},
    STET_OPT_TOPIC("Files"),
    STET_OPT_OUT(cfg_t, out, NULL, "where the results go"),
    STET_OPT_STR("name", cfg_t, name, "run", "TEXT",
                 "a name for the run, which is then written into every "
                 "file that the run makes, so that results from different runs can be told apart"),
    STET_OPT_LIST("data", cfg_t, data, "FILE", "texts"),
    STET_OPT_FLAG("json", cfg_t, json, "for machines"),
    {.name = "quiet", .letter = 'q', .type = STET_T_FLAG, .offset = offsetof(cfg_t, quiet)},
    STET_OPT_END};

static stet_status set_one(const stet_opt *table, cfg_t *c, const char *setting)
{
    return opt_settings(&(opt_table){table, c}, 1, (const char *const[]){setting, NULL}, "a test");
}

enum { ARGS_MAX = STET_REST_MAX + 8 };

/* Parse a NULL-terminated list of arguments. */
static stet_status parse(cfg_t *cfg, stet_rest *rest, const char *const *args)
{
    char *argv[ARGS_MAX];
    int argc = 0;
    for (; args[argc]; argc++)
        argv[argc] = (char *)(uintptr_t)args[argc];
    memset(cfg, 0x5a, sizeof *cfg);
    return stet_opt_parse(opts, cfg, argc, argv, rest);
}
#define PARSE(cfg, rest, ...) parse(cfg, rest, (const char *const[]){__VA_ARGS__, NULL})
#define REFUSED(part, ...)                                                                         \
    do {                                                                                           \
        cfg_t c_;                                                                                  \
        stet_rest r_;                                                                              \
        CHECK_FAILS(PARSE(&c_, &r_, __VA_ARGS__), STET_EUSAGE, part);                              \
        CHECK(!strchr(stet_last_error(), '\n'));                                                   \
    } while (0)

TEST(every_field_gets_its_default)
{
    cfg_t c;
    memset(&c, 0x5a, sizeof c);
    CHECK_OK(stet_opt_defaults(opts, &c));
    CHECK_EQ(c.epochs, 10);
    CHECK_NEAR(c.beta, 0.1, 0);
    CHECK_NEAR(c.rate, 0, 0);
    CHECK_EQ(c.model, 1);
    CHECK(c.warm && !c.json && !c.quiet);
    CHECK(!c.out);
    CHECK_STR(c.name, "run");
    CHECK_EQ(c.data.n, 0);
}

TEST(values_are_read_in_every_form)
{
    cfg_t c;
    stet_rest r;
    CHECK_OK(PARSE(&c, &r, "in.tsv", "--epochs", "3", "--beta=0.5", "-o", "dir", "--json",
                   "--no-warm", "--rate", "-1e-3", "--model", "s4", "--data", "a", "--data=b", "-q",
                   "-", "--", "--epochs"));
    CHECK_EQ(c.epochs, 3);
    CHECK_NEAR(c.beta, 0.5, 0);
    CHECK_NEAR(c.rate, -1e-3, 0);
    CHECK_STR(c.out, "dir");
    CHECK(c.json && c.quiet && !c.warm);
    CHECK_EQ(c.model, 2);
    CHECK_EQ(c.data.n, 2);
    CHECK_STR(c.data.v[0], "a");
    CHECK_STR(c.data.v[1], "b");
    CHECK_EQ(r.n, 3);
    CHECK_STR(r.v[0], "in.tsv");
    CHECK_STR(r.v[1], "-");
    CHECK_STR(r.v[2], "--epochs");
}

TEST(letters_may_carry_their_value_and_stand_in_a_row)
{
    cfg_t c;
    CHECK_OK(PARSE(&c, NULL, "-odir"));
    CHECK_STR(c.out, "dir");
    CHECK_OK(PARSE(&c, NULL, "-qo", "dir"));
    CHECK_STR(c.out, "dir");
    CHECK(c.quiet);
    CHECK_OK(PARSE(&c, NULL, "-o", "-"));
    CHECK_STR(c.out, "-");
}

TEST(the_last_value_counts)
{
    cfg_t c;
    CHECK_OK(PARSE(&c, NULL, "--epochs=1", "--epochs=2", "--json", "--no-json",
                   "--name=", "--name=--x"));
    CHECK_EQ(c.epochs, 2);
    CHECK(!c.json);
    CHECK_STR(c.name, "--x");
}

TEST(ends_of_a_range_are_allowed)
{
    cfg_t c;
    CHECK_OK(PARSE(&c, NULL, "--epochs=1", "--beta=1"));
    CHECK_OK(PARSE(&c, NULL, "--epochs=1000000", "--beta=0"));
}

TEST(values_out_of_range_or_of_the_wrong_kind_are_refused)
{
    REFUSED("--epochs 0: expected an integer from 1 to 1000000", "--epochs", "0");
    REFUSED("--epochs 1000001: expected", "--epochs=1000001");
    REFUSED("--epochs 99999999999999999999: expected", "--epochs=99999999999999999999");
    REFUSED("--epochs 3.5: expected an integer", "--epochs=3.5");
    REFUSED("--epochs 3x: expected an integer", "--epochs=3x");
    REFUSED("--epochs  3: expected an integer", "--epochs= 3");
    REFUSED("--epochs : expected an integer", "--epochs=");
    REFUSED("--beta 1.01: expected a number from 0 to 1", "--beta", "1.01");
    REFUSED("--beta nan: expected a number", "--beta=nan");
    REFUSED("--beta -0.1: expected a number", "--beta", "-0.1");
    REFUSED("--rate much: expected a number", "--rate=much");
    REFUSED("--model bert: expected cnn|bilstm|s4", "--model", "bert");
    REFUSED("--model cn: expected", "--model", "cn");
    REFUSED("--model : expected", "--model=");
    REFUSED("--model cnn|bilstm: expected", "--model=cnn|bilstm");
}

TEST(unknown_and_incomplete_options_are_refused)
{
    REFUSED("unknown option --epoch; did you mean --epochs?", "--epoch", "3");
    REFUSED("unknown option --ephocs; did you mean --epochs?", "--ephocs=3");
    REFUSED("unknown option --jsno; did you mean --json?", "--jsno");
    REFUSED("unknown option --zzzzzz", "--zzzzzz");
    CHECK(!strstr(stet_last_error(), "mean"));
    REFUSED("unknown option --no-epochs", "--no-epochs");
    REFUSED("unknown option -x", "-x");
    REFUSED("unknown option -x", "-qx");
    REFUSED("--json takes no value", "--json=yes");
    REFUSED("--no-json takes no value", "--no-json=yes");
    REFUSED("--out: expected a value (PATH)", "--out");
    REFUSED("--out: expected a value (PATH)", "-o");
    REFUSED("--out: expected a value (PATH)", "--out", "--json");
    REFUSED("unknown option --", "--=x");
    static char longest[5000];
    memset(longest, '-', sizeof longest - 1);
    REFUSED("unknown option", longest);
}

/* "name=value", as models, attacks and defences take them: the first table that has the name. */
TEST(settings_find_their_table)
{
    typedef struct {
        double beta, gamma;
    } other_t;
    static const stet_opt others[] = {
        STET_OPT_REAL("beta", other_t, beta, "7", 0, 9, "X", "hidden by the first table's"),
        STET_OPT_REAL("gamma", other_t, gamma, "7", 0, 9, "X", "only here"), STET_OPT_END};
    cfg_t c;
    other_t o;
    const opt_table t[] = {{opts, &c}, {others, &o}};
#define SETTINGS(...)                                                                              \
    (stet_opt_defaults(opts, &c), stet_opt_defaults(others, &o),                                   \
     opt_settings(t, 2, (const char *const[]){__VA_ARGS__ NULL}, "thing 'x'"))
    CHECK_OK(SETTINGS("beta=0.5", "gamma=3", "name=a=b", "epochs=2", "epochs=4", ));
    CHECK(c.beta == 0.5 && o.beta == 7 && o.gamma == 3 && c.epochs == 4);
    CHECK_STR(c.name, "a=b");
    CHECK_OK(SETTINGS());
    CHECK_OK(opt_settings(t, 2, NULL, "thing 'x'"));
    CHECK_FAILS(SETTINGS("beta", ), STET_EUSAGE, "thing 'x': setting 'beta': expected name=value");
    CHECK_FAILS(SETTINGS("gama=1", ), STET_EUSAGE,
                "thing 'x' has no setting 'gama'; did you mean 'gamma'?");
    CHECK_FAILS(SETTINGS("zzzzzz=1", ), STET_EUSAGE, "thing 'x' has no setting 'zzzzzz'");
    CHECK_FAILS(SETTINGS("=1", ), STET_EUSAGE, "thing 'x' has no setting ''");
    CHECK_FAILS(SETTINGS("gamma=10", ), STET_EUSAGE, "--gamma 10: expected a number from 0 to 9");
}

TEST(too_many_and_unexpected_arguments_are_refused)
{
    cfg_t c;
    stet_rest r;
    const char *args[ARGS_MAX] = {NULL};
    for (int i = 0; i < STET_REST_MAX; i++)
        args[i] = "file";
    CHECK_OK(parse(&c, &r, args));
    args[STET_REST_MAX] = "one more";
    CHECK_FAILS(parse(&c, &r, args), STET_EUSAGE, "'one more': more than 256 arguments");
    for (int i = 0; i <= STET_REST_MAX; i++)
        args[i] = i <= STET_LIST_MAX ? "--data=x" : NULL;
    CHECK_FAILS(parse(&c, &r, args), STET_EUSAGE, "--data x: given more than 32 times");
    CHECK_FAILS(PARSE(&c, NULL, "stray"), STET_EUSAGE, "unexpected argument 'stray'");
}

TEST(one_option_may_be_set_by_name)
{
    cfg_t c;
    CHECK_OK(stet_opt_defaults(opts, &c));
    CHECK_OK(set_one(opts, &c, "epochs=4"));
    CHECK_OK(set_one(opts, &c, "json=true"));
    CHECK_OK(set_one(opts, &c, "warm=off"));
    CHECK(c.epochs == 4 && c.json && !c.warm);
    CHECK_FAILS(set_one(opts, &c, "json=maybe"), STET_EUSAGE, "--json maybe: expected true");
    CHECK_FAILS(set_one(opts, &c, "bet=1"), STET_EUSAGE, "did you mean 'beta'?");
    CHECK_FAILS(set_one(opts, &c, "epochs=-4"), STET_EUSAGE, "--epochs -4: expected");
}

TEST(a_number_too_large_for_its_type_is_refused)
{
    static const stet_opt any[] = {
        STET_OPT_INT("n", cfg_t, epochs, NULL, -HUGE_VAL, HUGE_VAL, "N", "any"), STET_OPT_END};
    cfg_t c;
    CHECK_OK(set_one(any, &c, "n=9223372036854775807"));
    CHECK(c.epochs == INT64_MAX);
    CHECK_OK(set_one(any, &c, "n=-9223372036854775808"));
    CHECK_FAILS(set_one(any, &c, "n=9223372036854775808"), STET_EUSAGE, "expected an integer");
}

TEST(a_wrong_default_is_found)
{
    static const stet_opt wrong[] = {STET_OPT_INT("n", cfg_t, epochs, "0", 1, 2, "N", "impossible"),
                                     STET_OPT_END};
    cfg_t c;
    CHECK_FAILS(stet_opt_defaults(wrong, &c), STET_EUSAGE, "--n 0: expected");
}

TEST(help_is_aligned_grouped_and_within_a_hundred_columns)
{
    char *help;
    CHECK_OK(stet_opt_help(opts, &help));
    CHECK_STR(
        help,
        "Training:\n"
        "  --epochs N             passes over the data (default 10, from 1 to 1000000)\n"
        "  --beta X               strength of the growth bound term (default 0.1, from 0 to 1)\n"
        "  --rate X               anything\n"
        "  --model cnn|bilstm|s4  kind of network (default bilstm)\n"
        "  --no-warm              do not start from a cold model\n"
        "\n"
        "Files:\n"
        "  -o, --out PATH         where the results go\n"
        "  --name TEXT            a name for the run, which is then written into every file that "
        "the run\n"
        "                         makes, so that results from different runs can be told apart "
        "(default run)\n"
        "  --data FILE ...        texts\n"
        "  --json                 for machines\n"
        "  -q, --quiet\n");
    stet_free(help);
}

TEST(no_line_of_help_is_wider_than_a_hundred_columns)
{
    char text[400];
    stet_opt one[] = {STET_OPT_FLAG("json", cfg_t, json, text), STET_OPT_END};
    bool full = false;
    for (size_t word = 1; word < 80; word++) {
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = i % (word + 1) == word ? ' ' : 'x';
        text[sizeof text - 1] = '\0';
        char *help;
        CHECK_OK(stet_opt_help(one, &help));
        for (const char *p = help; *p; p += strcspn(p, "\n") + 1) {
            CHECK_LE(strcspn(p, "\n"), 100);
            full |= strcspn(p, "\n") == 100;
        }
        stet_free(help);
    }
    CHECK(full); /* and the room is used */
}

TEST(an_over_long_left_side_gets_its_own_line)
{
    static const stet_opt wide[] = {
        STET_OPT_FLAG("json", cfg_t, json, "for machines"),
        STET_OPT_CHOICE("attack", cfg_t, model, NULL, "pwws|genetic|pso|textfooler|bae|greedy",
                        "which"),
        STET_OPT_INT("n", cfg_t, epochs, NULL, 0, 1e18, "N", "count"), STET_OPT_END};
    char *help;
    CHECK_OK(stet_opt_help(wide, &help));
    CHECK_STR(help, "  --json  for machines\n"
                    "  --attack pwws|genetic|pso|textfooler|bae|greedy\n"
                    "          which\n"
                    "  --n N   count (of at least 0)\n");
    stet_free(help);
}

TEST(an_empty_table_is_fine)
{
    static const stet_opt none[] = {STET_OPT_END};
    char *text;
    int unused;
    CHECK_OK(stet_opt_help(none, &text));
    CHECK_STR(text, "");
    stet_free(text);
    CHECK_OK(stet_opt_json(none, &unused, &text));
    CHECK_STR(text, "{}");
    stet_free(text);
}

TEST(the_echo_is_json)
{
    cfg_t c;
    CHECK_OK(PARSE(&c, NULL, "--name", "a \"b\"\n", "--data", "x", "--data", "y", "--rate=inf"));
    char *text;
    CHECK_OK(stet_opt_json(opts, &c, &text));
    CHECK_STR(text, "{\"epochs\":10,\"beta\":0.1,\"rate\":null,\"model\":\"bilstm\",\"warm\":true,"
                    "\"out\":null,\"name\":\"a \\\"b\\\"\\n\",\"data\":[\"x\",\"y\"],"
                    "\"json\":false,\"quiet\":false}");
    json_t *v = json_loads(text, 0, NULL);
    CHECK(v);
    json_decref(v);
    stet_free(text);
}

TEST(the_nearest_name_is_suggested)
{
    static const char *const names[] = {"train", "attack", "certify", "eval", "report", NULL};
    CHECK_STR(stet_did_you_mean("trian", names), "train");
    CHECK_STR(stet_did_you_mean("TRAIN", names), "train");
    CHECK_STR(stet_did_you_mean("atack", names), "attack");
    CHECK_STR(stet_did_you_mean("cert", names), "certify");
    CHECK_STR(stet_did_you_mean("evla", names), "eval");
    CHECK_STR(stet_did_you_mean("certfiy", names), "certify");
    CHECK(!stet_did_you_mean("predict", names));
    CHECK(!stet_did_you_mean("", names));
    CHECK(!stet_did_you_mean("x", names));
    static char longest[5000];
    memset(longest, 'a', sizeof longest - 1);
    CHECK(!stet_did_you_mean(longest, names));
    CHECK(!stet_did_you_mean("baaa", (const char *const[]){longest + 100, "cccc", NULL}));
}

static stet_status make_texts(void *ctx)
{
    char *help = NULL, *json = NULL;
    stet_status st = stet_opt_help(opts, &help);
    if (st == STET_OK)
        st = stet_opt_json(opts, ctx, &json);
    stet_free(help);
    stet_free(json);
    return st;
}

TEST(option_texts_survive_every_failed_allocation)
{
    cfg_t c;
    CHECK_OK(stet_opt_defaults(opts, &c));
    CHECK_LE(6, ALLOC_FAIL_LOOP(make_texts, &c));
}
