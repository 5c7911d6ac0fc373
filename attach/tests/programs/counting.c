/* Loaded before other libraries: counts calls of `kept`, and passes them on to the library's `kept`. */
#define _GNU_SOURCE
#include <dlfcn.h>

static long (*next)(long, long);
static long count;

__attribute__((constructor)) static void find(void) { next = (long (*)(long, long))dlsym(RTLD_NEXT, "kept"); }

long kept(long a, long b)
{
    __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    return next(a, b);
}
