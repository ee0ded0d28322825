/* tests/base/test_markup.c */
#include "test.h"

#include "base/markup.h"

TEST(strings_are_escaped_and_literals_are_not)
{
    markup m = {.escape = escape_html};
    put(&m, "<a href=\"%s\">%.*s%c</a>%%", "\"'><script>", 3, "R&Debt", '<');
    CHECK_STR(m.out.data, "<a href=\"&quot;&#39;&gt;&lt;script&gt;\">R&amp;D&lt;</a>%");
    markup_deinit(&m);
}

TEST(numbers_are_what_printf_makes_of_them)
{
    markup m = {.escape = escape_html};
    put(&m, "%d %zu %lld %ld %u %5.2f|%-4d|%.4g %x %08.3f %*d %e", -3, (size_t)7, 1LL << 40, -9L,
        4000000000u, 3.14159, 12, 1234567.0, 255, 2.5, 4, 6, 1.0);
    char want[256];
    snprintf(want, sizeof want, "%d %zu %lld %ld %u %5.2f|%-4d|%.4g %x %08.3f %*d %e", -3,
             (size_t)7, 1LL << 40, -9L, 4000000000u, 3.14159, 12, 1234567.0, 255, 2.5, 4, 6, 1.0);
    CHECK_STR(m.out.data, want);
    markup_deinit(&m);
}

TEST(control_characters_do_not_reach_a_page)
{
    markup m = {.escape = escape_html};
    put_text(&m, "a\0b\x1b[2Jc\n", 9);
    CHECK_STR(m.out.data, "a\xef\xbf\xbd"
                          "b\xef\xbf\xbd[2Jc\n");
    markup_deinit(&m);
}

TEST(markdown_has_no_life_of_its_own)
{
    markup m = {.escape = escape_markdown};
    put(&m, "| %s |", "a|b\n[x](http://y) <b> *c* `d` www.e.f g@h ![i]");
    CHECK_STR(m.out.data, "| a\\|b \\[x\\](http&#58;//y) &lt;b&gt; \\*c\\* \\`d\\` www&#46;e.f "
                          "g&#64;h \\!\\[i\\] |");
    markup_deinit(&m);
}

TEST(a_part_brings_its_failure)
{
    markup m = {.escape = escape_html}, part = {.escape = escape_html};
    put(&part, "<i>");
    put_part(&m, &part);
    CHECK_STR(m.out.data, "<i>");
    part.out.status = STET_ENOMEM;
    put_part(&m, &part);
    CHECK_EQ(markup_status(&m), STET_ENOMEM);
    markup_deinit(&m);
    markup_deinit(&part);
}

/* printf '%s' 'alert(1)' | openssl dgst -sha256 -binary | base64 */
TEST(a_hash_is_what_a_browser_computes)
{
    char hash[CSP_HASH];
    csp_hash("alert(1)", 8, hash);
    CHECK_STR(hash, "sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI=");
}
