/* What a library shares with whoever observes its network: a parameter, state that it publishes, events of its own.
 *
 *     cc -std=c11 -shared -fPIC -O2 -I.. levels.c -o liblevels.so
 *     yes '{"sample": 20000}' | thalweg run levels.snet --boxes ./liblevels.so > /dev/null &
 *     thalweg set box.levels.gain 200
 *     thalweg get 'box.*'
 *     thalweg events --kind box.levels.clipped
 */
#include "thalweg.h"

static thalweg_parameter gain = THALWEG_PARAMETER("levels.gain", "percent", "How loud samples become", 0, 400, 100);
static thalweg_parameter peak = THALWEG_PARAMETER("levels.peak", "", "The loudest sample so far", 0, 32767, 0);

static const thalweg_event_field clipped_fields[] = {{"sample", "", THALWEG_INT}, {"over", "", THALWEG_FLOAT}};
static thalweg_event_kind clipped = THALWEG_EVENT("levels.clipped", "A sample became too loud", clipped_fields);

static thalweg_status scale(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    int64_t sample, scaled;
    (void)data, (void)count;
    if (!thalweg_get_int(&arguments[0], &sample)) return thalweg_fail(out, "sample: expected an integer");
    scaled = sample * (int64_t)thalweg_read(&gain) / 100;
    if (scaled > INT16_MAX || scaled < -INT16_MAX) {
        double over = (double)(scaled < 0 ? -scaled : scaled) / INT16_MAX;
        thalweg_event(&clipped, (uint64_t[]){thalweg_word(sample), thalweg_float_word(over)});
        scaled = scaled < 0 ? -INT16_MAX : INT16_MAX;
    }
    if ((uint64_t)(scaled < 0 ? -scaled : scaled) > thalweg_read(&peak))
        thalweg_publish(&peak, (uint64_t)(scaled < 0 ? -scaled : scaled));
    thalweg_emit(out, 1, 1, (thalweg_value[]){thalweg_int(scaled)});
    return THALWEG_DONE;
}

/* Runs before the first sample, and refuses a gain of 0, because the network would only give silence. */
static thalweg_status begin(thalweg_out *out) {
    return thalweg_read(&gain) == 0 ? thalweg_fail(out, "the gain is 0") : THALWEG_DONE;
}

static void end(void) { thalweg_publish(&peak, 0); }

static const thalweg_box boxes[] = {THALWEG_BOX("box scale ((sample) -> (sample))", 1, scale)};
static thalweg_parameter *const parameters[] = {&gain, &peak};
static thalweg_event_kind *const events[] = {&clipped};
THALWEG_LIBRARY_WITH(boxes, parameters, THALWEG_COUNT(parameters), events, THALWEG_COUNT(events), begin, end)
