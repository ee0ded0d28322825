// certify_all.cpp - certificates for the texts of a file, as they are found, in a job that another
// thread may stop.
//
//     certify_all MODEL DATA SETS [TEXTS]
//
// After TEXTS texts the job is stopped from a thread of its own.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <stet/stet.h>

namespace {

struct Watch {
    std::atomic<long> seen{0};
};

void take(void *user, const char *line)
{
    Watch &w = *static_cast<Watch *>(user);
    const std::string s(line);
    const std::size_t at = s.find("\"verdict\":\"");
    std::printf("%ld %s\n", w.seen++, s.substr(at + 11, s.find('"', at + 11) - at - 11).c_str());
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 4) {
        std::fprintf(stderr, "usage: certify_all MODEL DATA SETS [TEXTS]\n");
        return 2;
    }
    const long most = argc > 4 ? std::atol(argv[4]) : 0;
    stet_model *model = nullptr;
    stet_dataset *data = nullptr;
    stet_sets sets = {};
    stet_job *job = nullptr;
    stet_certify_result r = {};
    stet_status st = stet_model_load(argv[1], &model);
    if (st == STET_OK)
        st = stet_dataset_load(argv[2], nullptr, &data);
    if (st == STET_OK)
        st = stet_sets_load(argv[3], &sets);
    if (st == STET_OK)
        st = stet_job_new(&job);
    if (st == STET_OK) {
        Watch watch;
        std::atomic<bool> done{false};
        std::thread stopper([&] {
            while (!done && (most == 0 || watch.seen < most))
                std::this_thread::yield();
            stet_job_interrupt(job);
        });
        stet_certify_args a = STET_CERTIFY_DEFAULTS;
        a.model = model, a.data = data, a.sets = &sets;
        a.line = take, a.line_user = &watch;
        stet_job *before = stet_job_use(job);
        st = stet_certify_run(&a, &r);
        stet_job_use(before);
        done = true;
        stopper.join();
    }
    if (st == STET_OK)
        std::printf("%zu texts: accuracy %.3f, certified %.3f\n", r.n, r.clean, r.certified);
    else
        std::fprintf(stderr, "%s\n", stet_last_error());
    stet_certify_result_deinit(&r);
    stet_job_free(job);
    stet_sets_free(&sets);
    stet_dataset_free(data);
    stet_model_free(model);
    return st == STET_OK ? 0 : 1;
}
