// attack.cpp - attack a classifier of one's own: any function that gives probabilities for texts.
//
//     attack DATA SETS
//
// The victim here counts words. Results come as texts are done.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <stet/stet.h>

namespace {

struct Counter {
    std::vector<std::string> good, bad;
    std::size_t asked = 0;

    static int count(const std::string &text, const std::vector<std::string> &words)
    {
        int n = 0;
        for (const std::string &w : words)
            for (std::size_t at = 0; (at = text.find(w, at)) != std::string::npos; at += w.size())
                n++;
        return n;
    }
};

// Texts in, one row of probabilities for each out: of class 0 (negative), of class 1 (positive).
stet_status ask(void *user, const char *const *texts, std::size_t n, std::size_t n_classes,
                double *prob)
{
    Counter &c = *static_cast<Counter *>(user);
    if (n_classes != 2) {
        stet_set_error("this victim knows two classes");
        return STET_EUSAGE;
    }
    c.asked += n;
    for (std::size_t i = 0; i < n; i++) {
        const double score = Counter::count(texts[i], c.good) - Counter::count(texts[i], c.bad);
        prob[2 * i + 1] = 1 / (1 + std::exp(-score));
        prob[2 * i] = 1 - prob[2 * i + 1];
    }
    return STET_OK;
}

void show(void *user, const char *line)
{
    int &shown = *static_cast<int *>(user);
    if (std::strstr(line, "\"outcome\":\"success\"") && shown++ < 1)
        std::printf("%s", line);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fprintf(stderr, "usage: attack DATA SETS\n");
        return 2;
    }
    stet_dataset *data = nullptr;
    stet_sets sets = {};
    Counter counter = {{"great", "good", "wonderful", "loved", "fine"},
                       {"bad", "boring", "terrible", "awful", "worst"}};
    int shown = 0;
    stet_attack_result r = {};
    stet_status st = stet_dataset_load(argv[1], nullptr, &data);
    if (st == STET_OK)
        st = stet_sets_load(argv[2], &sets);
    if (st == STET_OK) {
        stet_attack_args a = STET_ATTACK_DEFAULTS;
        a.data = data, a.sets = &sets;
        a.victim = ask, a.victim_user = &counter;
        a.each = show, a.each_user = &shown;
        st = stet_attack_run(&a, &r);
    }
    if (st == STET_OK)
        std::printf("%zu texts: accuracy %.3f, under attack %.3f; %zu questions\n", r.n, r.clean,
                    r.aua, counter.asked);
    else
        std::fprintf(stderr, "%s\n", stet_last_error());
    stet_sets_free(&sets);
    stet_dataset_free(data);
    return st == STET_OK ? 0 : 1;
}
