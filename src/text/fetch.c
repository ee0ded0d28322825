/* text/fetch.c - corpora and vectors from the net, by libcurl. */
#include "text/fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha1.h"
#include "stet/text.h"

/* Sizes and checksums are those that public projects record for these files, or, where the address names
 * a commit, Git's own; 0 and NULL where none was found. */
static const fetch_item catalogue[] = {
    {"imdb", "50,000 film reviews, 2 classes (Maas et al. 2011)",
     "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz", 84125825,
     "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe", NULL},
    {"ag_news", "127,600 news texts, 4 classes (Zhang et al. 2015)",
     "https://s3.amazonaws.com/fast-ai-nlp/ag_news_csv.tgz", 11784419,
     "9a8c300eabb45750237fcc669f61cb8a3448f3ef6f6098e1ce340e444f6872be", NULL},
    {"yahoo_answers", "1,460,000 questions and answers, 10 classes (Zhang et al. 2015)",
     "https://s3.amazonaws.com/fast-ai-nlp/yahoo_answers_csv.tgz", 319476345,
     "2d4277855faf8b35259009425fa8f7fe1888b5644b47165508942d000f4c96ae", NULL},
    {"sst2", "70,000 phrases of film reviews, 2 classes (Socher et al. 2013)",
     "https://dl.fbaipublicfiles.com/glue/data/SST-2.zip", 7439277,
     "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa", NULL},
    {"newsgroups20", "18,846 posts, 20 classes, split by date",
     "http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz", 0,
     "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610", NULL},
    {"glove.6B", "GloVe vectors of 400,000 words, 50 to 300 dimensions",
     "https://nlp.stanford.edu/data/glove.6B.zip", 862182613,
     "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb", NULL},
    {"glove.840B", "GloVe vectors of 2.2 million words, 300 dimensions",
     "https://nlp.stanford.edu/data/glove.840B.300d.zip", 2176768927,
     "c06db255e65095393609f19a4cfca20bf3a71e20cc53e892aafa490347e3849f", NULL},
    {"counterfitted", "counter-fitted vectors of 65,713 words (Mrksic et al. 2016)",
     "https://github.com/nmrksic/counter-fitting/raw/8cf3cf4db1074f2f80ecf728e6af68347c3b3d02/"
     "word_vectors/"
     "counter-fitted-vectors.txt.zip",
     0, NULL, "c3b88f0b560b1a695780a8d6090cdbf36e6a7f04"},
};
enum { N_CATALOGUE = sizeof catalogue / sizeof *catalogue };

const char *stet_data_known(size_t i, const char **what)
{
    if (i >= N_CATALOGUE)
        return NULL;
    if (what)
        *what = catalogue[i].what;
    return catalogue[i].name;
}

/* ---- one transfer ------------------------------------------------------------------------- */

enum next_step { STOP, GO_ON, START_OVER };
enum { TRIES = 3 };

typedef struct transfer {
    FILE *file;
    const char *title;
    uint64_t resumed; /* bytes that were there already */
} transfer;

static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up_now)
{
    (void)up_total, (void)up_now;
    const transfer *t = user;
    progress(t->title, t->resumed + (uint64_t)now, total ? t->resumed + (uint64_t)total : 0, NULL);
    return interrupted();
}

static uint64_t size_of(FILE *f)
{
    struct stat sb;
    return fstat(fileno(f), &sb) == 0 && sb.st_size > 0 ? (uint64_t)sb.st_size : 0;
}

/* A header that makes the server refuse (412) to continue a file that it has changed since we had
 * the beginning of it. NULL: none needed, or no memory for it. */
static struct curl_slist *unless_changed(const transfer *t)
{
    struct stat sb;
    struct tm tm;
    char line[64];
    if (t->resumed == 0 || fstat(fileno(t->file), &sb) != 0 || !gmtime_r(&sb.st_mtime, &tm))
        return NULL;
    static const char *const day[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char *const month[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    snprintf(line, sizeof line, "If-Unmodified-Since: %s, %02d %s %04d %02d:%02d:%02d GMT",
             day[tm.tm_wday], tm.tm_mday, month[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour,
             tm.tm_min, tm.tm_sec);
    return curl_slist_append(NULL, line);
}

static void set_options(CURL *curl, const char *url, transfer *t, char *error)
{
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https,ftp,file");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR,
                     strncasecmp(url, "https:", 6) == 0 ? "https" : "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "stet/" STET_VERSION);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L); /* nothing for a minute: give up */
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 60L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, t->file);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, t);
    curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)t->resumed);
}

/* The server cannot go on from where we were: it does not know ranges, or its file is shorter. */
static bool cannot_resume(CURLcode rc, long http)
{
    return rc == CURLE_RANGE_ERROR || rc == CURLE_BAD_DOWNLOAD_RESUME || http == 416 || http == 412;
}

/* Did all come that was announced? Where a file:// cannot be read on, libcurl takes it for the end. */
static bool cut_short(CURL *curl)
{
    curl_off_t announced = -1, came = 0;
    curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
    curl_easy_getinfo(curl, CURLINFO_SIZE_DOWNLOAD_T, &came);
    return came < announced;
}

static stet_status transfer_once(const char *url, transfer *t, enum next_step *next)
{
    char error[CURL_ERROR_SIZE] = "";
    *next = STOP;
    CURL *curl = curl_easy_init();
    if (!curl)
        return error_set(STET_ENOMEM, "cannot start libcurl");
    t->resumed = size_of(t->file);
    set_options(curl, url, t, error);
    struct curl_slist *headers = unless_changed(t);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    CURLcode rc = curl_easy_perform(curl);
    if (rc == CURLE_OK && cut_short(curl))
        rc = CURLE_PARTIAL_FILE;
    long http = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http);
    curl_easy_cleanup(curl);
    curl_slist_free_all(headers);
    const bool flushed = fflush(t->file) == 0;
    if (t->resumed > 0 && cannot_resume(rc, http)) /* libcurl takes a 416 for a success */
        *next = START_OVER;
    else if (rc == CURLE_PARTIAL_FILE && flushed)
        *next = GO_ON;
    if (rc == CURLE_OK && flushed && *next == STOP)
        return STET_OK;
    if (rc == CURLE_ABORTED_BY_CALLBACK)
        return interrupt_status();
    return error_set(STET_EIO, "%s: %s", url,
                     !flushed ? strerror(errno)
                     : *error ? error
                              : curl_easy_strerror(rc));
}

/* Append to `part` what is missing; from the beginning if the server cannot go on, and again if it
 * ended early. */
static stet_status download(const fetch_item *item, const char *part)
{
    transfer t = {.file = fopen(part, "ab"), .title = item->name ? item->name : "download"};
    if (!t.file)
        return error_set(STET_EIO, "%s: %s", part, strerror(errno));
    stet_status st = STET_OK;
    enum next_step next = GO_ON;
    if (item->size && size_of(t.file) == item->size) /* complete, but not unpacked yet */
        next = STOP;
    for (int i = 0; i < TRIES && next != STOP; i++) {
        if (next == START_OVER && ftruncate(fileno(t.file), 0) != 0) {
            st = error_set(STET_EIO, "%s: %s", part, strerror(errno));
            break;
        }
        st = transfer_once(item->url, &t, &next);
    }
    if (st != STET_OK && size_of(t.file) == 0)
        unlink(part); /* nothing to go on from */
    if (fclose(t.file) != 0 && st == STET_OK)
        st = error_set(STET_EIO, "%s: %s", part, strerror(errno));
    return st;
}

/* SHA-1 of "blob SIZE", a NUL and the content. */
static stet_status git_blob(const char *path, char out[SHA1_HEX])
{
    file_map m;
    sha1 h;
    char head[32];
    TRY(file_map_open(&m, path));
    sha1_init(&h);
    sha1_add(&h, head, (size_t)snprintf(head, sizeof head, "blob %zu", m.size) + 1);
    sha1_add(&h, m.data, m.size);
    sha1_hex(&h, out);
    file_map_close(&m);
    return STET_OK;
}

static stet_status verify(const fetch_item *item, const char *part)
{
    char sum[SHA256_HEX], blob[SHA1_HEX] = "";
    uint64_t size = 0;
    TRY(file_sha256(part, sum, &size));
    if (item->blob)
        TRY(git_blob(part, blob));
    if (!item->sha256 && !item->blob)
        log_warn("%s: no checksum is known for it; its SHA-256 is %s", item->url, sum);
    stet_status st = STET_OK;
    if (item->size && size != item->size)
        st = error_set(STET_EFORMAT, "%s: expected %llu bytes, got %llu; removed", item->url,
                       (unsigned long long)item->size, (unsigned long long)size);
    else if (item->sha256 && strcmp(sum, item->sha256) != 0)
        st = error_set(STET_EFORMAT, "%s: expected SHA-256 %s, got %s; removed", item->url,
                       item->sha256, sum);
    else if (item->blob && strcmp(blob, item->blob) != 0)
        st = error_set(STET_EFORMAT, "%s: expected Git's blob %s, got %s; removed", item->url,
                       item->blob, blob);
    if (st != STET_OK)
        unlink(part);
    return st;
}

/* ---- the whole job ------------------------------------------------------------------------ */

/* The last part of the URL's path, without query: a plain file name. */
static stet_status file_name(const char *url, char **out)
{
    const char *path = strstr(url, "://");
    path = path ? path + 3 : url;
    const size_t n = strcspn(path, "?#");
    size_t from = n;
    while (from > 0 && path[from - 1] != '/')
        from--;
    if (from == n || path[from] == '.' || from == 0)
        return error_set(STET_EUSAGE, "%s: the address does not end in a file name", url);
    *out = mem_strndup(path + from, n - from);
    return *out ? STET_OK : STET_ENOMEM;
}

static stet_status fetch_to(const fetch_item *item, const char *dir, const char *path,
                            const char *part)
{
    bool there;
    TRY(file_look(path, &there));
    if (there) {
        log_info("%s is already there", path);
        return STET_OK;
    }
    TRY(download(item, part));
    TRY(verify(item, part));
    if (unpack_is_archive(path))
        TRY(unpack(part, dir));
    if (rename(part, path) != 0)
        return error_set(STET_EIO, "%s: %s", path, strerror(errno));
    log_info("%s: done", path);
    return STET_OK;
}

stet_status fetch_get(const fetch_item *item, const char *dir)
{
    TRY(dir_make(dir));
    char *name = NULL;
    TRY(file_name(item->url, &name));
    char *path = path_join(dir, name);
    buf part = {0};
    if (path)
        buf_printf(&part, "%s.part", path);
    stet_status st = path ? buf_status(&part) : STET_ENOMEM;
    if (st == STET_OK)
        st = fetch_to(item, dir, path, part.data);
    buf_deinit(&part);
    mem_free(path);
    mem_free(name);
    return st;
}

stet_status stet_data_get(const char *name_or_url, const char *dir)
{
    return stet_data_get_checked(name_or_url, NULL, dir);
}

static bool is_sha256(const char *s)
{
    return strlen(s) == SHA256_HEX - 1 && strspn(s, "0123456789abcdef") == SHA256_HEX - 1;
}

stet_status stet_data_get_checked(const char *name_or_url, const char *sum, const char *dir)
{
    if (sum && !is_sha256(sum))
        return error_set(STET_EUSAGE, "SHA-256 '%.80s': expected 64 digits 0-9 and a-f", sum);
    fetch_item item = {.url = strstr(name_or_url, "://") ? name_or_url : NULL};
    for (size_t i = 0; i < N_CATALOGUE && !item.url; i++)
        if (strcasecmp(catalogue[i].name, name_or_url) == 0)
            item = catalogue[i];
    if (sum)
        item.sha256 = sum;
    if (item.url)
        return fetch_get(&item, dir);
    buf names = {0};
    for (size_t i = 0; i < N_CATALOGUE; i++)
        buf_printf(&names, "%s%s", i ? ", " : "", catalogue[i].name);
    stet_status st = buf_status(&names);
    if (st == STET_OK)
        st = error_set(STET_EUSAGE, "no corpus '%s'; there are %s, or give a URL", name_or_url,
                       names.data);
    buf_deinit(&names);
    return st;
}
