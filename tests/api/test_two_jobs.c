/* Two threads, two jobs, one model: one is cancelled, the other's results are what it would have
 * computed alone, byte for byte. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "model/small_world.h"
#include "stet/job.h"
#include "stet/simple.h"

typedef struct side {
    const world *w;
    stet_job *job;
    buf lines;
    stet_status attacked, certified;
    size_t seen;
    stet_job *cancel; /* interrupted after some lines of ours; NULL: nobody */
} side;

static void take(void *user, const char *line)
{
    side *s = user;
    const char *seconds = strstr(line, "\"seconds\":"); /* the only thing that may differ */
    buf_bytes(&s->lines, line, seconds ? (size_t)(seconds - line) : strlen(line));
    if (seconds)
        buf_str(&s->lines, strchr(seconds, ','));
    if (s->cancel && ++s->seen == 8)
        stet_job_interrupt(s->cancel);
}

static void *work(void *arg)
{
    side *s = arg;
    stet_job *before = stet_job_use(s->job);
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = s->w->m, a.data = s->w->data, a.sets = &s->w->sets, a.attack = "ga";
    a.each = take, a.each_user = s;
    stet_attack_result r;
    s->attacked = stet_attack_run(&a, &r);
    stet_certify_args c = STET_CERTIFY_DEFAULTS;
    c.model = s->w->m, c.data = s->w->data, c.sets = &s->w->sets;
    c.line = take, c.line_user = s;
    stet_certify_result rc;
    s->certified = stet_certify_run(&c, &rc);
    stet_certify_result_deinit(&rc);
    stet_job_use(before);
    return NULL;
}

TEST(a_cancelled_job_leaves_the_other_alone)
{
    for (int kind = 0; kind < 2; kind++) {
        world w;
        make(&w, kind, 10, 2);
        side alone = {.w = &w}, kept = {.w = &w}, cancelled = {.w = &w};
        work(&alone); /* for the process itself */
        CHECK_OK(alone.attacked);
        CHECK_OK(alone.certified);
        stet_model_free(w.m);
        w.m = small_model(kind, 2, 7); /* the two prepare it at the same time */
        CHECK_OK(stet_job_new(&kept.job));
        CHECK_OK(stet_job_new(&cancelled.job));
        stet_job_set_threads(kept.job, 2);
        stet_job_set_threads(cancelled.job, 2);
        kept.cancel = cancelled.job;
        cancelled.cancel = cancelled.job; /* whoever gets there first */
        pthread_t t[2];
        CHECK_EQ(pthread_create(&t[0], NULL, work, &kept), 0);
        CHECK_EQ(pthread_create(&t[1], NULL, work, &cancelled), 0);
        pthread_join(t[0], NULL);
        pthread_join(t[1], NULL);
        CHECK_OK(kept.attacked);
        CHECK_OK(kept.certified);
        CHECK_EQ(cancelled.attacked, STET_EINTR);
        CHECK_EQ(cancelled.certified, STET_EINTR); /* until it is cleared */
        CHECK_EQ(kept.lines.n, alone.lines.n);
        CHECK(memcmp(kept.lines.data, alone.lines.data, alone.lines.n) == 0);
        stet_job_clear(cancelled.job);
        cancelled.cancel = NULL;
        buf_clear(&cancelled.lines);
        work(&cancelled);
        CHECK_EQ(cancelled.lines.n, alone.lines.n);
        CHECK(memcmp(cancelled.lines.data, alone.lines.data, alone.lines.n) == 0);
        buf_deinit(&alone.lines);
        buf_deinit(&kept.lines);
        buf_deinit(&cancelled.lines);
        stet_job_free(kept.job);
        stet_job_free(cancelled.job);
        unmake(&w);
    }
}
