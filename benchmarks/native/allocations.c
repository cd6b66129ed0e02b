/* Counts what is allocated, by whom ever: preloaded (LD_PRELOAD) into a process whose Python has PYTHONMALLOC=malloc, it
   sees the objects of Python and the memory of all libraries, in all threads. `allocated` tells calls and bytes so far.

   A block that is made larger counts as a new one of the whole size. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_ullong calls, bytes;

void allocated(unsigned long long out[2]) {
    out[0] = atomic_load(&calls);
    out[1] = atomic_load(&bytes);
}

static void note(size_t size) {
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&bytes, size, memory_order_relaxed);
}

/* glibc's own, by the names that it has them under as well: nothing has to be looked up. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t size) {
    note(size);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    note(count * size);
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    if (size)
        note(size);
    return __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size) {
    note(size);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    note(size);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)))
        return EINVAL;
    note(size);
    void *block = __libc_memalign(alignment, size);
    if (!block)
        return ENOMEM;
    *out = block;
    return 0;
}
