/* The box that group `boxes` measures, and the function that it calls. */
#include "thalweg.h"

THALWEG_EXPORT int64_t inc_plain(int64_t x);

__attribute__((noinline)) int64_t inc_plain(int64_t x) { return x + 1; }

static thalweg_status inc(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    int64_t x;
    (void)data, (void)count;
    if (!thalweg_get_int(&arguments[0], &x)) return thalweg_fail(out, "x: expected an integer");
    thalweg_emit(out, 1, 1, (thalweg_value[]){thalweg_int(inc_plain(x))});
    return THALWEG_DONE;
}

static const thalweg_box boxes[] = {THALWEG_BOX("box inc ((x) -> (x))", 1, inc)};
THALWEG_LIBRARY(boxes)
