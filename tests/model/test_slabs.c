/* Batches of slabs on a device whose memory nobody but a kernel may touch. */
#include "slab_case.h"

#include "tensor/locked_store.h"

static size_t uploads, allocations;

static void counted_upload(store *s, void *to, const void *from, size_t bytes)
{
    uploads++;
    locked_copy(s, to, from, bytes);
}

static void *counted_alloc(store *s, size_t bytes)
{
    allocations++;
    return locked_alloc(s, bytes);
}

static store *counted_store(void)
{
    static store_desc counted;
    store *s;
    counted = locked_desc;
    counted.upload = counted_upload;
    counted.alloc = counted_alloc;
    CHECK_OK(store_register(&counted));
    CHECK_OK(store_open("locked", &s));
    return s;
}

TEST(slabs_make_the_batches_of_the_host_and_never_wait)
{
    store *s = counted_store();
    for (int i = 0; i < SLAB_CASES; i++) {
        allocations = 0;
        slabs_make_the_same(&slab_cases[i], s, &uploads);
        /* ids, starts, slots, two slabs; start and words of sets */
        CHECK_EQ(allocations, slab_cases[i].near ? 7 : 5);
    }
    store_close(s);
}

TEST(a_word_outside_the_vocabulary_is_named_before_anything_is_made)
{
    store *s = counted_store();
    const slab_case k = {50, 20, 7, 40, 30, false, 0};
    const model m = slab_model(&k);
    stet_corpus c = slab_corpus(&k);
    slabs *made;
    size_t text = 3, cut = 0;
    while (c.start[text] == c.start[text + 1])
        text++;
    while (c.start[cut + 1] - c.start[cut] <= 20)
        cut++;
    c.ids[c.start[cut] + 20] = 99; /* nobody reads so far */
    CHECK_OK(slabs_open(&m, &c, k.size, NULL, s, &made));
    slabs_close(made);
    c.ids[c.start[text]] = 50;
    char message[80];
    snprintf(message, sizeof message, "text %zu: word id 50 outside the vocabulary of 50", text);
    CHECK_FAILS(slabs_open(&m, &c, k.size, NULL, s, &made), STET_EUSAGE, message);
    stet_corpus_deinit(&c);
    store_close(s);
}
