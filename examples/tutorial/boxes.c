/* Boxes of the tutorial (docs/tutorial.md): a camera's frames are taken, made smooth, and searched for bright spots.
 *
 *     cc -std=c11 -shared -fPIC -O2 -I bindings/c examples/tutorial/boxes.c -o libframes.so
 */
#include "thalweg.h"

enum { SIDE = 64, PIXELS = SIDE * SIDE, ROUNDS = 40, BRIGHT = 1500 };

/* A frame with noise and a few bright spots, which depend on its number alone. Pixels have 16 bits of fraction. */
static thalweg_status take(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    int64_t frame, *pixels;
    void *room;
    thalweg_value emitted[2];
    uint64_t state;
    (void)data, (void)count;
    if (!thalweg_get_int(&arguments[0], &frame)) return thalweg_fail(out, "frame: expected an integer");
    emitted[0] = thalweg_array_room(THALWEG_I64, PIXELS, &room);
    emitted[1] = thalweg_int(frame);
    pixels = room;
    state = (uint64_t)frame + 1;
    for (int at = 0; at < PIXELS; at++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        pixels[at] = (int64_t)(state >> 54) + ((state >> 32) % 500 == 0 ? 100000 : 0);
    }
    thalweg_emit(out, 1, 2, emitted);
    return THALWEG_DONE;
}

/* Replaces each pixel by the mean of itself and its neighbours, many times over, which takes most of the
   run's time. */
static thalweg_status smooth(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    const void *elements;
    void *room;
    size_t length;
    int64_t now[PIXELS], next[PIXELS];
    thalweg_value picture;
    (void)data, (void)count;
    if (!thalweg_get_array(&arguments[0], THALWEG_I64, &elements, &length) || length != PIXELS)
        return thalweg_fail(out, "pixels: expected 4096 integers");
    memcpy(now, elements, sizeof now);
    memcpy(next, elements, sizeof next);
    for (int round = 0; round < ROUNDS; round++) {
        for (int at = SIDE + 1; at < PIXELS - SIDE - 1; at++)
            next[at] = (4 * now[at] + now[at - 1] + now[at + 1] + now[at - SIDE] + now[at + SIDE]) / 8;
        memcpy(now, next, sizeof now);
    }
    picture = thalweg_array_room(THALWEG_I64, PIXELS, &room);
    memcpy(room, now, sizeof now);
    thalweg_emit(out, 1, 1, &picture);
    return THALWEG_DONE;
}

/* Counts the bright pixels. */
static thalweg_status spots(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    const void *elements;
    size_t length;
    int64_t found = 0;
    (void)data, (void)count;
    if (!thalweg_get_array(&arguments[0], THALWEG_I64, &elements, &length))
        return thalweg_fail(out, "pixels: expected integers");
    for (size_t at = 0; at < length; at++) found += ((const int64_t *)elements)[at] > BRIGHT;
    thalweg_emit(out, 1, 1, (thalweg_value[]){thalweg_int(found)});
    return THALWEG_DONE;
}

static const thalweg_box boxes[] = {
    THALWEG_BOX("box take ((<frame>) -> (pixels, <frame>))", 1, take),
    THALWEG_BOX("box smooth ((pixels) -> (pixels))", 1, smooth),
    THALWEG_BOX("box spots ((pixels) -> (spots))", 1, spots),
};
THALWEG_LIBRARY(boxes)
