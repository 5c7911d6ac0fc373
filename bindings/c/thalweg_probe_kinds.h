/* Writers of events. Written by `thalweg kinds`. */
#ifndef THALWEG_WRITERS_PROBE_H
#define THALWEG_WRITERS_PROBE_H

#include "thalweg_ring.h"

/* A call ended (at this event's time). */
static const struct thalweg_choice thalweg_choices_probe_called_outcome[] = {
    {UINT64_C(0), "returned"},
    {UINT64_C(1), "failed"},
    {UINT64_C(2), "unwound"},
};
static const struct thalweg_field thalweg_fields_probe_called[] = {
    {3, 0, "operation", "", "The operation: a site of the catalog.", 0},
    {2, 0, "depth", "", "The number of recorded calls of this thread that enclosed the call.", 0},
    {14, 3, "outcome", "", "How the call ended.", thalweg_choices_probe_called_outcome},
    {4, 0, "duration", "ticks", "The duration of the call.", 0},
};
THALWEG_SHARED struct thalweg_kind thalweg_kind_probe_called = {
    "probe.called", "A call ended (at this event's time).",
    UINT64_C(0x0d0e6d8a3a0f8962), thalweg_fields_probe_called, 4, 2, 3, 0,
};
THALWEG_HOT void thalweg_emit_probe_called_at(struct thalweg_thread *thread, uint64_t ticks, uint32_t operation, uint16_t depth, uint8_t outcome, uint64_t duration)
{
    const uint64_t words[2] = {(uint64_t)operation | (uint64_t)depth << 32 | (uint64_t)outcome << 48, (uint64_t)duration};
    thalweg_put(thread, &thalweg_kind_probe_called, ticks, words, 2);
}
THALWEG_HOT void thalweg_emit_probe_called(uint32_t operation, uint16_t depth, uint8_t outcome, uint64_t duration)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (thread) thalweg_emit_probe_called_at(thread, thalweg_now(), operation, depth, outcome, duration);
}

/* A further stretch of a call ended (at this event's time): the call had paused, and `probe.called` recorded its first stretch. */
static const struct thalweg_choice thalweg_choices_probe_resumed_outcome[] = {
    {UINT64_C(0), "returned"},
    {UINT64_C(1), "failed"},
    {UINT64_C(2), "unwound"},
};
static const struct thalweg_field thalweg_fields_probe_resumed[] = {
    {3, 0, "operation", "", "The operation: a site of the catalog.", 0},
    {2, 0, "depth", "", "The number of recorded calls of this thread that enclosed the stretch.", 0},
    {14, 3, "outcome", "", "How the stretch ended.", thalweg_choices_probe_resumed_outcome},
    {4, 0, "duration", "ticks", "The duration of the stretch.", 0},
};
THALWEG_SHARED struct thalweg_kind thalweg_kind_probe_resumed = {
    "probe.resumed", "A further stretch of a call ended (at this event's time): the call had paused, and `probe.called` recorded its first stretch.",
    UINT64_C(0x35a5585bbbe45f04), thalweg_fields_probe_resumed, 4, 2, 3, 0,
};
THALWEG_HOT void thalweg_emit_probe_resumed_at(struct thalweg_thread *thread, uint64_t ticks, uint32_t operation, uint16_t depth, uint8_t outcome, uint64_t duration)
{
    const uint64_t words[2] = {(uint64_t)operation | (uint64_t)depth << 32 | (uint64_t)outcome << 48, (uint64_t)duration};
    thalweg_put(thread, &thalweg_kind_probe_resumed, ticks, words, 2);
}
THALWEG_HOT void thalweg_emit_probe_resumed(uint32_t operation, uint16_t depth, uint8_t outcome, uint64_t duration)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (thread) thalweg_emit_probe_resumed_at(thread, thalweg_now(), operation, depth, outcome, duration);
}

/* A call ended of a function that is known by its address; the catalog's sites of the kind `mapping` record at which addresses the function's file was mapped. */
static const struct thalweg_choice thalweg_choices_probe_called_address_outcome[] = {
    {UINT64_C(0), "returned"},
    {UINT64_C(1), "failed"},
    {UINT64_C(2), "unwound"},
};
static const struct thalweg_field thalweg_fields_probe_called_address[] = {
    {4, 0, "address", "", "The address at which the function begins.", 0},
    {4, 0, "duration", "ticks", "The duration of the call.", 0},
    {2, 0, "depth", "", "The number of recorded calls of this thread that enclosed the call.", 0},
    {14, 3, "outcome", "", "How the call ended.", thalweg_choices_probe_called_address_outcome},
};
THALWEG_SHARED struct thalweg_kind thalweg_kind_probe_called_address = {
    "probe.called_address", "A call ended of a function that is known by its address; the catalog's sites of the kind `mapping` record at which addresses the function's file was mapped.",
    UINT64_C(0xeec6e7f93376714b), thalweg_fields_probe_called_address, 4, 3, 4, 0,
};
THALWEG_HOT void thalweg_emit_probe_called_address_at(struct thalweg_thread *thread, uint64_t ticks, uint64_t address, uint64_t duration, uint16_t depth, uint8_t outcome)
{
    const uint64_t words[3] = {(uint64_t)address, (uint64_t)duration, (uint64_t)depth | (uint64_t)outcome << 16};
    thalweg_put(thread, &thalweg_kind_probe_called_address, ticks, words, 3);
}
THALWEG_HOT void thalweg_emit_probe_called_address(uint64_t address, uint64_t duration, uint16_t depth, uint8_t outcome)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (thread) thalweg_emit_probe_called_address_at(thread, thalweg_now(), address, duration, depth, outcome);
}

/* An object was made: its constructor ended (at this event's time). */
static const struct thalweg_choice thalweg_choices_probe_constructed_outcome[] = {
    {UINT64_C(0), "returned"},
    {UINT64_C(1), "failed"},
    {UINT64_C(2), "unwound"},
};
static const struct thalweg_field thalweg_fields_probe_constructed[] = {
    {3, 0, "operation", "", "The constructor: a site of the catalog.", 0},
    {2, 0, "depth", "", "The number of recorded calls of this thread that enclosed the call.", 0},
    {14, 3, "outcome", "", "How the call ended.", thalweg_choices_probe_constructed_outcome},
    {4, 0, "duration", "ticks", "The duration of the call.", 0},
    {4, 0, "object", "", "The object's number, which the program chose.", 0},
};
THALWEG_SHARED struct thalweg_kind thalweg_kind_probe_constructed = {
    "probe.constructed", "An object was made: its constructor ended (at this event's time).",
    UINT64_C(0xe9e26354aa914fe0), thalweg_fields_probe_constructed, 5, 3, 4, 0,
};
THALWEG_HOT void thalweg_emit_probe_constructed_at(struct thalweg_thread *thread, uint64_t ticks, uint32_t operation, uint16_t depth, uint8_t outcome, uint64_t duration, uint64_t object)
{
    const uint64_t words[3] = {(uint64_t)operation | (uint64_t)depth << 32 | (uint64_t)outcome << 48, (uint64_t)duration, (uint64_t)object};
    thalweg_put(thread, &thalweg_kind_probe_constructed, ticks, words, 3);
}
THALWEG_HOT void thalweg_emit_probe_constructed(uint32_t operation, uint16_t depth, uint8_t outcome, uint64_t duration, uint64_t object)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (thread) thalweg_emit_probe_constructed_at(thread, thalweg_now(), operation, depth, outcome, duration, object);
}

/* A call began (at this event's time); `probe.left` records its end. */
static const struct thalweg_field thalweg_fields_probe_entered[] = {
    {3, 0, "operation", "", "The operation: a site of the catalog.", 0},
    {2, 0, "depth", "", "The number of recorded calls of this thread that enclose the call.", 0},
};
THALWEG_SHARED struct thalweg_kind thalweg_kind_probe_entered = {
    "probe.entered", "A call began (at this event's time); `probe.left` records its end.",
    UINT64_C(0xa8918dfbcace2a6c), thalweg_fields_probe_entered, 2, 1, 2, 0,
};
THALWEG_HOT void thalweg_emit_probe_entered_at(struct thalweg_thread *thread, uint64_t ticks, uint32_t operation, uint16_t depth)
{
    const uint64_t words[1] = {(uint64_t)operation | (uint64_t)depth << 32};
    thalweg_put(thread, &thalweg_kind_probe_entered, ticks, words, 1);
}
THALWEG_HOT void thalweg_emit_probe_entered(uint32_t operation, uint16_t depth)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (thread) thalweg_emit_probe_entered_at(thread, thalweg_now(), operation, depth);
}

/* A call ended whose beginning `probe.entered` recorded. */
static const struct thalweg_choice thalweg_choices_probe_left_outcome[] = {
    {UINT64_C(0), "returned"},
    {UINT64_C(1), "failed"},
    {UINT64_C(2), "unwound"},
};
static const struct thalweg_field thalweg_fields_probe_left[] = {
    {3, 0, "operation", "", "The operation: a site of the catalog.", 0},
    {2, 0, "depth", "", "The number of recorded calls of this thread that enclosed the call.", 0},
    {14, 3, "outcome", "", "How the call ended.", thalweg_choices_probe_left_outcome},
};
THALWEG_SHARED struct thalweg_kind thalweg_kind_probe_left = {
    "probe.left", "A call ended whose beginning `probe.entered` recorded.",
    UINT64_C(0xd70ca5f9cbbeef1e), thalweg_fields_probe_left, 3, 1, 2, 0,
};
THALWEG_HOT void thalweg_emit_probe_left_at(struct thalweg_thread *thread, uint64_t ticks, uint32_t operation, uint16_t depth, uint8_t outcome)
{
    const uint64_t words[1] = {(uint64_t)operation | (uint64_t)depth << 32 | (uint64_t)outcome << 48};
    thalweg_put(thread, &thalweg_kind_probe_left, ticks, words, 1);
}
THALWEG_HOT void thalweg_emit_probe_left(uint32_t operation, uint16_t depth, uint8_t outcome)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (thread) thalweg_emit_probe_left_at(thread, thalweg_now(), operation, depth, outcome);
}

/* The identity of this thread's trace, which belongs to the outermost call that encloses this event, or else to the next call. */
static const struct thalweg_field thalweg_fields_probe_trace_begun[] = {
    {4, 0, "trace_high", "", "The trace's identity, high half.", 0},
    {4, 0, "trace_low", "", "The trace's identity, low half.", 0},
    {4, 0, "parent", "", "The span of another thread or process that the trace continues; 0: the trace begins here.", 0},
};
THALWEG_SHARED struct thalweg_kind thalweg_kind_probe_trace_begun = {
    "probe.trace_begun", "The identity of this thread's trace, which belongs to the outermost call that encloses this event, or else to the next call.",
    UINT64_C(0xa6cafb5cf6366e17), thalweg_fields_probe_trace_begun, 3, 3, 4, 0,
};
THALWEG_HOT void thalweg_emit_probe_trace_begun_at(struct thalweg_thread *thread, uint64_t ticks, uint64_t trace_high, uint64_t trace_low, uint64_t parent)
{
    const uint64_t words[3] = {(uint64_t)trace_high, (uint64_t)trace_low, (uint64_t)parent};
    thalweg_put(thread, &thalweg_kind_probe_trace_begun, ticks, words, 3);
}
THALWEG_HOT void thalweg_emit_probe_trace_begun(uint64_t trace_high, uint64_t trace_low, uint64_t parent)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (thread) thalweg_emit_probe_trace_begun_at(thread, thalweg_now(), trace_high, trace_low, parent);
}

/* A thread handed over work that continues in another thread, or later. */
static const struct thalweg_field thalweg_fields_probe_handed_over[] = {
    {4, 0, "span", "", "The number of the handed-over work, unique among all processes.", 0},
    {2, 0, "depth", "", "The number of recorded calls of this thread that enclose this event.", 0},
};
THALWEG_SHARED struct thalweg_kind thalweg_kind_probe_handed_over = {
    "probe.handed_over", "A thread handed over work that continues in another thread, or later.",
    UINT64_C(0x36ef12fd448e3fd6), thalweg_fields_probe_handed_over, 2, 2, 3, 0,
};
THALWEG_HOT void thalweg_emit_probe_handed_over_at(struct thalweg_thread *thread, uint64_t ticks, uint64_t span, uint16_t depth)
{
    const uint64_t words[2] = {(uint64_t)span, (uint64_t)depth};
    thalweg_put(thread, &thalweg_kind_probe_handed_over, ticks, words, 2);
}
THALWEG_HOT void thalweg_emit_probe_handed_over(uint64_t span, uint16_t depth)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (thread) thalweg_emit_probe_handed_over_at(thread, thalweg_now(), span, depth);
}

/* A thread continues work that was handed over: the work is the outermost call that encloses this event, or else the next call. */
static const struct thalweg_field thalweg_fields_probe_taken_over[] = {
    {4, 0, "span", "", "The number of the handed-over work.", 0},
};
THALWEG_SHARED struct thalweg_kind thalweg_kind_probe_taken_over = {
    "probe.taken_over", "A thread continues work that was handed over: the work is the outermost call that encloses this event, or else the next call.",
    UINT64_C(0x1efe55732e11f6e4), thalweg_fields_probe_taken_over, 1, 1, 2, 0,
};
THALWEG_HOT void thalweg_emit_probe_taken_over_at(struct thalweg_thread *thread, uint64_t ticks, uint64_t span)
{
    const uint64_t words[1] = {(uint64_t)span};
    thalweg_put(thread, &thalweg_kind_probe_taken_over, ticks, words, 1);
}
THALWEG_HOT void thalweg_emit_probe_taken_over(uint64_t span)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (thread) thalweg_emit_probe_taken_over_at(thread, thalweg_now(), span);
}

/* A message was sent, with the trace that this thread is in. */
static const struct thalweg_field thalweg_fields_probe_sent[] = {
    {4, 0, "span", "", "The message's number, unique among all processes: the parent's id in a `traceparent`.", 0},
    {4, 0, "bytes", "bytes", "The size of the message; 0: not known.", 0},
    {2, 0, "depth", "", "The number of recorded calls of this thread that enclose this event.", 0},
};
THALWEG_SHARED struct thalweg_kind thalweg_kind_probe_sent = {
    "probe.sent", "A message was sent, with the trace that this thread is in.",
    UINT64_C(0x7e1f11a5d290a029), thalweg_fields_probe_sent, 3, 3, 4, 0,
};
THALWEG_HOT void thalweg_emit_probe_sent_at(struct thalweg_thread *thread, uint64_t ticks, uint64_t span, uint64_t bytes, uint16_t depth)
{
    const uint64_t words[3] = {(uint64_t)span, (uint64_t)bytes, (uint64_t)depth};
    thalweg_put(thread, &thalweg_kind_probe_sent, ticks, words, 3);
}
THALWEG_HOT void thalweg_emit_probe_sent(uint64_t span, uint64_t bytes, uint16_t depth)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (thread) thalweg_emit_probe_sent_at(thread, thalweg_now(), span, bytes, depth);
}

/* A message was received. */
static const struct thalweg_field thalweg_fields_probe_received[] = {
    {4, 0, "span", "", "The message's number; 0: not known.", 0},
    {4, 0, "bytes", "bytes", "The size of the message; 0: not known.", 0},
    {2, 0, "depth", "", "The number of recorded calls of this thread that enclose this event.", 0},
};
THALWEG_SHARED struct thalweg_kind thalweg_kind_probe_received = {
    "probe.received", "A message was received.",
    UINT64_C(0x6811a3f6e74b7a9e), thalweg_fields_probe_received, 3, 3, 4, 0,
};
THALWEG_HOT void thalweg_emit_probe_received_at(struct thalweg_thread *thread, uint64_t ticks, uint64_t span, uint64_t bytes, uint16_t depth)
{
    const uint64_t words[3] = {(uint64_t)span, (uint64_t)bytes, (uint64_t)depth};
    thalweg_put(thread, &thalweg_kind_probe_received, ticks, words, 3);
}
THALWEG_HOT void thalweg_emit_probe_received(uint64_t span, uint64_t bytes, uint16_t depth)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (thread) thalweg_emit_probe_received_at(thread, thalweg_now(), span, bytes, depth);
}

/* A counter changed. */
static const struct thalweg_field thalweg_fields_probe_counted[] = {
    {3, 0, "counter", "", "The counter: a site of the catalog.", 0},
    {8, 0, "by", "", "The amount added to the counter.", 0},
};
THALWEG_SHARED struct thalweg_kind thalweg_kind_probe_counted = {
    "probe.counted", "A counter changed.",
    UINT64_C(0xbbe2a2b7f013ff3c), thalweg_fields_probe_counted, 2, 2, 3, 0,
};
THALWEG_HOT void thalweg_emit_probe_counted_at(struct thalweg_thread *thread, uint64_t ticks, uint32_t counter, int64_t by)
{
    const uint64_t words[2] = {(uint64_t)counter, (uint64_t)by};
    thalweg_put(thread, &thalweg_kind_probe_counted, ticks, words, 2);
}
THALWEG_HOT void thalweg_emit_probe_counted(uint32_t counter, int64_t by)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (thread) thalweg_emit_probe_counted_at(thread, thalweg_now(), counter, by);
}

/* A gauge was read. */
static const struct thalweg_field thalweg_fields_probe_gauged[] = {
    {3, 0, "gauge", "", "The gauge: a site of the catalog.", 0},
    {10, 0, "value", "", "The gauge's value.", 0},
};
THALWEG_SHARED struct thalweg_kind thalweg_kind_probe_gauged = {
    "probe.gauged", "A gauge was read.",
    UINT64_C(0x3b5581626b8427a6), thalweg_fields_probe_gauged, 2, 2, 3, 0,
};
THALWEG_HOT void thalweg_emit_probe_gauged_at(struct thalweg_thread *thread, uint64_t ticks, uint32_t gauge, double value)
{
    const uint64_t words[2] = {(uint64_t)gauge, thalweg_bits_f64(value)};
    thalweg_put(thread, &thalweg_kind_probe_gauged, ticks, words, 2);
}
THALWEG_HOT void thalweg_emit_probe_gauged(uint32_t gauge, double value)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (thread) thalweg_emit_probe_gauged_at(thread, thalweg_now(), gauge, value);
}

/* A line of a log. */
static const struct thalweg_choice thalweg_choices_probe_logged_level[] = {
    {UINT64_C(1), "error"},
    {UINT64_C(2), "warning"},
    {UINT64_C(3), "info"},
    {UINT64_C(4), "debug"},
    {UINT64_C(5), "trace"},
};
static const struct thalweg_field thalweg_fields_probe_logged[] = {
    {3, 0, "operation", "", "The place in the program that logged the line: a site of the catalog; 0: not known.", 0},
    {14, 5, "level", "", "The line's severity.", thalweg_choices_probe_logged_level},
    {15, 0, "text", "", "The line's text.", 0},
};
THALWEG_SHARED struct thalweg_kind thalweg_kind_probe_logged = {
    "probe.logged", "A line of a log.",
    UINT64_C(0x23534ca54d4555b6), thalweg_fields_probe_logged, 3, 2, 0, 0,
};
THALWEG_HOT void thalweg_emit_probe_logged_at(struct thalweg_thread *thread, uint64_t ticks, uint32_t operation, uint8_t level, const char *text, size_t text_bytes)
{
    const uint64_t words[2] = {(uint64_t)operation | (uint64_t)level << 32, 0};
    const struct thalweg_tail tails[] = {{text, text_bytes}};
    static const unsigned char lengths[] = {2};
    thalweg_put_tails(thread, &thalweg_kind_probe_logged, ticks, words, 2, tails, lengths, 1);
}
THALWEG_HOT void thalweg_emit_probe_logged(uint32_t operation, uint8_t level, const char *text, size_t text_bytes)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (thread) thalweg_emit_probe_logged_at(thread, thalweg_now(), operation, level, text, text_bytes);
}

#endif
