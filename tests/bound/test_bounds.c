/* The hooks of every kind of model: what a model has not is one clear line, and what it has is
 * named without gaps. */
#include "bound/bounded_kinds.h"

#include "test.h"

TEST(a_kind_without_bounds_says_so)
{
    model *m = small_model(0, 2, 1);
    const model_desc *own = m->desc;
    model_desc toy = *own;
    toy.name = "toy";
    m->desc = &toy;
    for (gbm_of of = GBM_OF_LAYER; of <= GBM_OF_RHO; of++)
        CHECK_FAILS(gbm_supported(m, of), STET_ENOTSUP, "no growth bounds are known for a toy");
    CHECK_FAILS(worst_supported(m, false), STET_EUSAGE, "no bounds");
    CHECK_FAILS(worst_supported(m, true), STET_EUSAGE, "no joint bounds");
    stet_gbm g;
    CHECK_FAILS(stet_gbm_of(m, &(stet_gbm_options)STET_GBM_DEFAULTS, &g), STET_ENOTSUP, "toy");
    m->desc = own;
    stet_model_free(m);
}

TEST(gain_names_the_kinds_that_have_it)
{
    FOR_EACH_BOUNDED(kind)
    {
        model *m = small_model(kind, 2, 1);
        for (gbm_of of = GBM_OF_LAYER; of <= GBM_OF_RHO; of++)
            if (of < terms_end(kind))
                CHECK_OK(gbm_supported(m, of));
            else
                CHECK_FAILS(gbm_supported(m, of), STET_EUSAGE, "are for --model bilstm, not for");
        stet_model_free(m);
    }
}

/* Every row and every column has a name of its own. */
TEST(names_are_told_apart)
{
    FOR_EACH_BOUNDED(kind)
    {
        model *m = small_model(kind, 2, 1);
        stet_gbm g;
        CHECK_OK(stet_gbm_of(m, &(stet_gbm_options)STET_GBM_DEFAULTS, &g));
        CHECK_EQ(g.part_end[STET_GBM_CELL], g.cols);
        CHECK_EQ(g.rows % g.group + g.rows % g.map, 0);
        for (int side = 0; side < 2; side++) {
            const char *(*const name)(const stet_gbm *, size_t, char *, size_t) =
                side ? stet_gbm_col_name : stet_gbm_row_name;
            const size_t n = side ? g.cols : g.rows;
            char a[64], b[64];
            for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < i; j++)
                    CHECK(strcmp(name(&g, i, a, sizeof a), name(&g, j, b, sizeof b)) != 0);
        }
        stet_gbm_deinit(&g);
        stet_model_free(m);
    }
}
