/* Three boxes in C: texts into words, numbers into their mean, and an endless counter.
 *
 *     cc -std=c11 -shared -fPIC -O2 -I.. words.c -o libwords.so
 *     echo '{"text": "to be or not"}' | thalweg run words.snet --boxes ./libwords.so
 */
#include "thalweg.h"

#include <stdio.h>

/* Emits a record for each word, and how many there were. */
static thalweg_status words(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    const char *text;
    size_t length, at = 0;
    int64_t found = 0;
    thalweg_value kept;
    (void)data, (void)count;
    if (!thalweg_get_text(&arguments[0], &text, &length)) return thalweg_fail(out, "text: expected a text");
    kept = thalweg_take(&arguments[0]); /* emitting may write over the argument */
    while (at < length) {
        size_t begin;
        while (at < length && text[at] == ' ') at++;
        begin = at;
        while (at < length && text[at] != ' ') at++;
        if (at > begin) {
            thalweg_emit(out, 1, 1, (thalweg_value[]){thalweg_text_of(text + begin, at - begin)});
            found++;
        }
    }
    thalweg_emit(out, 2, 1, (thalweg_value[]){thalweg_int(found)});
    thalweg_drop(&kept);
    return THALWEG_DONE;
}

/* The mean of an array of doubles. */
static thalweg_status mean(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    const void *elements;
    const double *numbers;
    size_t length, index;
    double sum = 0;
    char reason[100];
    (void)data, (void)count;
    if (!thalweg_get_array(&arguments[0], THALWEG_F64, &elements, &length)) {
        snprintf(reason, sizeof reason, "samples: expected an array of doubles, found kind %d", (int)arguments[0].kind);
        return thalweg_fail(out, reason);
    }
    if (length == 0) return thalweg_fail(out, "samples: no number has no mean");
    numbers = (const double *)elements;
    for (index = 0; index < length; index++) sum += numbers[index];
    thalweg_emit(out, 1, 1, (thalweg_value[]){thalweg_float(sum / (double)length)});
    return THALWEG_DONE;
}

struct counter {
    int64_t next, last;
};

static thalweg_status count_on(void *state, thalweg_out *out) {
    struct counter *counter = (struct counter *)state;
    if (counter->next > counter->last) return THALWEG_DONE;
    thalweg_emit(out, 1, 1, (thalweg_value[]){thalweg_int(counter->next++)});
    return THALWEG_AGAIN;
}

/* Counts to a number, as fast as the network takes it. */
static thalweg_status count_to(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    struct counter *counter;
    int64_t last;
    (void)data, (void)count;
    if (!thalweg_get_int(&arguments[0], &last)) return thalweg_fail(out, "<last>: expected an integer");
    counter = (struct counter *)malloc(sizeof *counter);
    if (counter == NULL) return thalweg_fail(out, "no memory");
    counter->next = 1;
    counter->last = last;
    thalweg_generate(out, counter, count_on, free);
    return THALWEG_DONE;
}

static const thalweg_box boxes[] = {
    THALWEG_BOX("box words ((text) -> (word) | (<count>))", 1, words),
    THALWEG_BOX("box mean ((samples) -> (mean))", 1, mean),
    THALWEG_BOX("box count_to ((<last>) -> (<n>))", 1, count_to),
};
THALWEG_LIBRARY(boxes)
