/* train.c - train a classifier with progress on the screen; Ctrl-C leaves a checkpoint, and the same
 * command goes on from there.
 *
 *     train DATA VECTORS FOLDER [EPOCHS] */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <stet/stet.h>

static stet_job *job;

static void on_signal(int sig)
{
    (void)sig;
    stet_job_interrupt(job);
}

static void draw(void *user, const char *what, uint64_t done, uint64_t total, const char *note)
{
    (void)user;
    fprintf(stderr, "\r%s %llu/%llu %s   ", what, (unsigned long long)done,
            (unsigned long long)total, note);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: train DATA VECTORS FOLDER [EPOCHS]\n");
        return 2;
    }
    struct stat there;
    char checkpoint[4096];
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint.safetensors", argv[3]);
    stet_train_args a = STET_TRAIN_DEFAULTS;
    const char *vectors[] = {argv[2]};
    a.data = argv[1], a.vectors = vectors, a.n_vectors = 1, a.out = argv[3];
    a.epochs = argc > 4 ? (size_t)atoi(argv[4]) : 10;
    a.resume = stat(checkpoint, &there) == 0;

    stet_train_result r;
    stet_status st = stet_job_new(&job);
    if (st == STET_OK) {
        signal(SIGINT, on_signal);
        stet_job_set_progress(job, draw, NULL);
        stet_job_use(job);
        st = stet_train(&a, &r);
        stet_job_use(NULL);
        stet_job_free(job);
        fputc('\n', stderr);
    }
    if (st == STET_OK)
        printf("%s: accuracy %.3f on %zu validation texts\n", argv[3], r.valid_accuracy, r.n_valid);
    else
        fprintf(stderr, "%s\n", stet_last_error());
    return st == STET_OK ? 0 : 1;
}
