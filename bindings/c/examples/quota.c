/* Boxes that share a quota, on all nodes of a run: `grant` numbers records, each number once, up to `map.quota`. */
#include "thalweg.h"

static thalweg_map_key quota = THALWEG_MAP_INT("quota", "The most records that are granted, on all nodes together", 3);
static thalweg_map_key granted = THALWEG_MAP_INT("granted", "Records that were granted", 0);

static thalweg_status grant(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    bool swapped = false;
    int64_t number = 0;
    thalweg_value values[2];
    (void)data, (void)count;
    /* Another box, perhaps on another node, may take the number first: then the next one is tried. */
    while (!swapped) {
        number = thalweg_map_int(&granted);
        if (number >= thalweg_map_int(&quota)) return thalweg_fail(out, "the quota is used up");
        if (thalweg_map_swap_int(&granted, number, number + 1, &swapped, out) != THALWEG_DONE) return THALWEG_FAILED;
    }
    values[0] = thalweg_take(&arguments[0]);
    values[1] = thalweg_int(number + 1);
    thalweg_emit(out, 1, 2, values);
    return THALWEG_DONE;
}

static const thalweg_box boxes[] = {THALWEG_BLOCKING_BOX("box grant ((job) -> (job, <number>))", 1, grant)};
static thalweg_map_key *const keys[] = {&quota, &granted};
THALWEG_LIBRARY_WITH_MAP(boxes, NULL, 0, NULL, 0, keys, THALWEG_COUNT(keys), NULL, NULL)
