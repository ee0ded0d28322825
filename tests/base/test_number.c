/* Numbers in text: a decimal point for every host. */
#include "base/number.h"

#include <locale.h>

#include "base/buf.h"
#include "base/option_impl.h"
#include "test.h"

/* A host that writes 0,5: with a locale of the machine, or one made for the test. */
static void set_comma_locale(void)
{
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") || setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
        return;
    char make[400];
    snprintf(make, sizeof make, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null",
             test_dir());
    if (system(make) != 0 || setenv("LOCPATH", test_dir(), 1) != 0 ||
        !setlocale(LC_NUMERIC, "de_DE.UTF-8"))
        SKIP("no locale with a decimal comma");
}

TEST(the_decimal_point_is_a_point_in_every_locale)
{
    typedef struct {
        double rate;
    } cfg;
    static const stet_opt opts[] = {STET_OPT_REAL("rate", cfg, rate, "0.25", 0, 1, "X", "a rate"),
                                    STET_OPT_END};
    set_comma_locale();
    char text[16];
    snprintf(text, sizeof text, "%.1f", 0.5);
    CHECK_STR(text, "0,5"); /* that is what the host sees */
    number_print(text, sizeof text, "%.1f", 0.5);
    CHECK_STR(text, "0.5");
    char *end;
    CHECK_NEAR(number_parse("2.5x", &end), 2.5, 0);
    CHECK_STR(end, "x");

    buf b = {0};
    buf_printf(&b, "%g %.2f ", 1.5, 2.25);
    buf_real(&b, 0.1);
    CHECK_STR(b.data, "1.5 2.25 0.1");
    buf_deinit(&b);

    cfg c;
    CHECK_OK(stet_opt_defaults(opts, &c));
    CHECK_NEAR(c.rate, 0.25, 0);
    CHECK_OK(opt_settings(&(opt_table){opts, &c}, 1, (const char *const[]){"rate=0.75", NULL}, ""));
    CHECK_NEAR(c.rate, 0.75, 0);
    snprintf(text, sizeof text, "%.1f", 0.5);
    CHECK_STR(text, "0,5"); /* and the host's locale stays */
}
