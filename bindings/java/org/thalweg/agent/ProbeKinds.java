package org.thalweg.agent;

/** Writers of events. Written by `thalweg kinds`. */
public final class ProbeKinds {
    private ProbeKinds() {}

    /** A call ended (at this event's time). */
    public static final Kind PROBE_CALLED = new Kind(
        "probe.called", "A call ended (at this event's time).", 0x0d0e6d8a3a0f8962L, 3
        , new Kind.Field(3, "operation", "", "The operation: a site of the catalog.", new long[] {}, new String[] {})
        , new Kind.Field(2, "depth", "", "The number of recorded calls of this thread that enclosed the call.", new long[] {}, new String[] {})
        , new Kind.Field(14, "outcome", "", "How the call ended.", new long[] {0L, 1L, 2L}, new String[] {"returned", "failed", "unwound"})
        , new Kind.Field(4, "duration", "ticks", "The duration of the call.", new long[] {}, new String[] {})
    );
    public static void emitProbeCalled(long operation, int depth, int outcome, long duration) {
        Writer writer = Writer.here();
        if (writer != null) emitProbeCalledAt(writer, Clock.now(), operation, depth, outcome, duration);
    }
    public static void emitProbeCalledAt(Writer writer, long ticks, long operation, int depth, int outcome, long duration) {
        writer.put(PROBE_CALLED, ticks, (operation & 0xffffffffL) | (depth & 0xffffL) << 32 | (outcome & 0xffL) << 48, duration);
    }

    /** A further stretch of a call ended (at this event's time): the call had paused, and `probe.called` recorded its first stretch. */
    public static final Kind PROBE_RESUMED = new Kind(
        "probe.resumed", "A further stretch of a call ended (at this event's time): the call had paused, and `probe.called` recorded its first stretch.", 0x35a5585bbbe45f04L, 3
        , new Kind.Field(3, "operation", "", "The operation: a site of the catalog.", new long[] {}, new String[] {})
        , new Kind.Field(2, "depth", "", "The number of recorded calls of this thread that enclosed the stretch.", new long[] {}, new String[] {})
        , new Kind.Field(14, "outcome", "", "How the stretch ended.", new long[] {0L, 1L, 2L}, new String[] {"returned", "failed", "unwound"})
        , new Kind.Field(4, "duration", "ticks", "The duration of the stretch.", new long[] {}, new String[] {})
    );
    public static void emitProbeResumed(long operation, int depth, int outcome, long duration) {
        Writer writer = Writer.here();
        if (writer != null) emitProbeResumedAt(writer, Clock.now(), operation, depth, outcome, duration);
    }
    public static void emitProbeResumedAt(Writer writer, long ticks, long operation, int depth, int outcome, long duration) {
        writer.put(PROBE_RESUMED, ticks, (operation & 0xffffffffL) | (depth & 0xffffL) << 32 | (outcome & 0xffL) << 48, duration);
    }

    /** A call ended of a function that is known by its address; the catalog's sites of the kind `mapping` record at which addresses the function's file was mapped. */
    public static final Kind PROBE_CALLED_ADDRESS = new Kind(
        "probe.called_address", "A call ended of a function that is known by its address; the catalog's sites of the kind `mapping` record at which addresses the function's file was mapped.", 0xeec6e7f93376714bL, 4
        , new Kind.Field(4, "address", "", "The address at which the function begins.", new long[] {}, new String[] {})
        , new Kind.Field(4, "duration", "ticks", "The duration of the call.", new long[] {}, new String[] {})
        , new Kind.Field(2, "depth", "", "The number of recorded calls of this thread that enclosed the call.", new long[] {}, new String[] {})
        , new Kind.Field(14, "outcome", "", "How the call ended.", new long[] {0L, 1L, 2L}, new String[] {"returned", "failed", "unwound"})
    );
    public static void emitProbeCalledAddress(long address, long duration, int depth, int outcome) {
        Writer writer = Writer.here();
        if (writer != null) emitProbeCalledAddressAt(writer, Clock.now(), address, duration, depth, outcome);
    }
    public static void emitProbeCalledAddressAt(Writer writer, long ticks, long address, long duration, int depth, int outcome) {
        writer.put(PROBE_CALLED_ADDRESS, ticks, address, duration, (depth & 0xffffL) | (outcome & 0xffL) << 16);
    }

    /** An object was made: its constructor ended (at this event's time). */
    public static final Kind PROBE_CONSTRUCTED = new Kind(
        "probe.constructed", "An object was made: its constructor ended (at this event's time).", 0xe9e26354aa914fe0L, 4
        , new Kind.Field(3, "operation", "", "The constructor: a site of the catalog.", new long[] {}, new String[] {})
        , new Kind.Field(2, "depth", "", "The number of recorded calls of this thread that enclosed the call.", new long[] {}, new String[] {})
        , new Kind.Field(14, "outcome", "", "How the call ended.", new long[] {0L, 1L, 2L}, new String[] {"returned", "failed", "unwound"})
        , new Kind.Field(4, "duration", "ticks", "The duration of the call.", new long[] {}, new String[] {})
        , new Kind.Field(4, "object", "", "The object's number, which the program chose.", new long[] {}, new String[] {})
    );
    public static void emitProbeConstructed(long operation, int depth, int outcome, long duration, long object) {
        Writer writer = Writer.here();
        if (writer != null) emitProbeConstructedAt(writer, Clock.now(), operation, depth, outcome, duration, object);
    }
    public static void emitProbeConstructedAt(Writer writer, long ticks, long operation, int depth, int outcome, long duration, long object) {
        writer.put(PROBE_CONSTRUCTED, ticks, (operation & 0xffffffffL) | (depth & 0xffffL) << 32 | (outcome & 0xffL) << 48, duration, object);
    }

    /** A call began (at this event's time); `probe.left` records its end. */
    public static final Kind PROBE_ENTERED = new Kind(
        "probe.entered", "A call began (at this event's time); `probe.left` records its end.", 0xa8918dfbcace2a6cL, 2
        , new Kind.Field(3, "operation", "", "The operation: a site of the catalog.", new long[] {}, new String[] {})
        , new Kind.Field(2, "depth", "", "The number of recorded calls of this thread that enclose the call.", new long[] {}, new String[] {})
    );
    public static void emitProbeEntered(long operation, int depth) {
        Writer writer = Writer.here();
        if (writer != null) emitProbeEnteredAt(writer, Clock.now(), operation, depth);
    }
    public static void emitProbeEnteredAt(Writer writer, long ticks, long operation, int depth) {
        writer.put(PROBE_ENTERED, ticks, (operation & 0xffffffffL) | (depth & 0xffffL) << 32);
    }

    /** A call ended whose beginning `probe.entered` recorded. */
    public static final Kind PROBE_LEFT = new Kind(
        "probe.left", "A call ended whose beginning `probe.entered` recorded.", 0xd70ca5f9cbbeef1eL, 2
        , new Kind.Field(3, "operation", "", "The operation: a site of the catalog.", new long[] {}, new String[] {})
        , new Kind.Field(2, "depth", "", "The number of recorded calls of this thread that enclosed the call.", new long[] {}, new String[] {})
        , new Kind.Field(14, "outcome", "", "How the call ended.", new long[] {0L, 1L, 2L}, new String[] {"returned", "failed", "unwound"})
    );
    public static void emitProbeLeft(long operation, int depth, int outcome) {
        Writer writer = Writer.here();
        if (writer != null) emitProbeLeftAt(writer, Clock.now(), operation, depth, outcome);
    }
    public static void emitProbeLeftAt(Writer writer, long ticks, long operation, int depth, int outcome) {
        writer.put(PROBE_LEFT, ticks, (operation & 0xffffffffL) | (depth & 0xffffL) << 32 | (outcome & 0xffL) << 48);
    }

    /** The identity of this thread's trace, which belongs to the outermost call that encloses this event, or else to the next call. */
    public static final Kind PROBE_TRACE_BEGUN = new Kind(
        "probe.trace_begun", "The identity of this thread's trace, which belongs to the outermost call that encloses this event, or else to the next call.", 0xa6cafb5cf6366e17L, 4
        , new Kind.Field(4, "trace_high", "", "The trace's identity, high half.", new long[] {}, new String[] {})
        , new Kind.Field(4, "trace_low", "", "The trace's identity, low half.", new long[] {}, new String[] {})
        , new Kind.Field(4, "parent", "", "The span of another thread or process that the trace continues; 0: the trace begins here.", new long[] {}, new String[] {})
    );
    public static void emitProbeTraceBegun(long trace_high, long trace_low, long parent) {
        Writer writer = Writer.here();
        if (writer != null) emitProbeTraceBegunAt(writer, Clock.now(), trace_high, trace_low, parent);
    }
    public static void emitProbeTraceBegunAt(Writer writer, long ticks, long trace_high, long trace_low, long parent) {
        writer.put(PROBE_TRACE_BEGUN, ticks, trace_high, trace_low, parent);
    }

    /** A thread handed over work that continues in another thread, or later. */
    public static final Kind PROBE_HANDED_OVER = new Kind(
        "probe.handed_over", "A thread handed over work that continues in another thread, or later.", 0x36ef12fd448e3fd6L, 3
        , new Kind.Field(4, "span", "", "The number of the handed-over work, unique among all processes.", new long[] {}, new String[] {})
        , new Kind.Field(2, "depth", "", "The number of recorded calls of this thread that enclose this event.", new long[] {}, new String[] {})
    );
    public static void emitProbeHandedOver(long span, int depth) {
        Writer writer = Writer.here();
        if (writer != null) emitProbeHandedOverAt(writer, Clock.now(), span, depth);
    }
    public static void emitProbeHandedOverAt(Writer writer, long ticks, long span, int depth) {
        writer.put(PROBE_HANDED_OVER, ticks, span, (depth & 0xffffL));
    }

    /** A thread continues work that was handed over: the work is the outermost call that encloses this event, or else the next call. */
    public static final Kind PROBE_TAKEN_OVER = new Kind(
        "probe.taken_over", "A thread continues work that was handed over: the work is the outermost call that encloses this event, or else the next call.", 0x1efe55732e11f6e4L, 2
        , new Kind.Field(4, "span", "", "The number of the handed-over work.", new long[] {}, new String[] {})
    );
    public static void emitProbeTakenOver(long span) {
        Writer writer = Writer.here();
        if (writer != null) emitProbeTakenOverAt(writer, Clock.now(), span);
    }
    public static void emitProbeTakenOverAt(Writer writer, long ticks, long span) {
        writer.put(PROBE_TAKEN_OVER, ticks, span);
    }

    /** A message was sent, with the trace that this thread is in. */
    public static final Kind PROBE_SENT = new Kind(
        "probe.sent", "A message was sent, with the trace that this thread is in.", 0x7e1f11a5d290a029L, 4
        , new Kind.Field(4, "span", "", "The message's number, unique among all processes: the parent's id in a `traceparent`.", new long[] {}, new String[] {})
        , new Kind.Field(4, "bytes", "bytes", "The size of the message; 0: not known.", new long[] {}, new String[] {})
        , new Kind.Field(2, "depth", "", "The number of recorded calls of this thread that enclose this event.", new long[] {}, new String[] {})
    );
    public static void emitProbeSent(long span, long bytes, int depth) {
        Writer writer = Writer.here();
        if (writer != null) emitProbeSentAt(writer, Clock.now(), span, bytes, depth);
    }
    public static void emitProbeSentAt(Writer writer, long ticks, long span, long bytes, int depth) {
        writer.put(PROBE_SENT, ticks, span, bytes, (depth & 0xffffL));
    }

    /** A message was received. */
    public static final Kind PROBE_RECEIVED = new Kind(
        "probe.received", "A message was received.", 0x6811a3f6e74b7a9eL, 4
        , new Kind.Field(4, "span", "", "The message's number; 0: not known.", new long[] {}, new String[] {})
        , new Kind.Field(4, "bytes", "bytes", "The size of the message; 0: not known.", new long[] {}, new String[] {})
        , new Kind.Field(2, "depth", "", "The number of recorded calls of this thread that enclose this event.", new long[] {}, new String[] {})
    );
    public static void emitProbeReceived(long span, long bytes, int depth) {
        Writer writer = Writer.here();
        if (writer != null) emitProbeReceivedAt(writer, Clock.now(), span, bytes, depth);
    }
    public static void emitProbeReceivedAt(Writer writer, long ticks, long span, long bytes, int depth) {
        writer.put(PROBE_RECEIVED, ticks, span, bytes, (depth & 0xffffL));
    }

    /** A counter changed. */
    public static final Kind PROBE_COUNTED = new Kind(
        "probe.counted", "A counter changed.", 0xbbe2a2b7f013ff3cL, 3
        , new Kind.Field(3, "counter", "", "The counter: a site of the catalog.", new long[] {}, new String[] {})
        , new Kind.Field(8, "by", "", "The amount added to the counter.", new long[] {}, new String[] {})
    );
    public static void emitProbeCounted(long counter, long by) {
        Writer writer = Writer.here();
        if (writer != null) emitProbeCountedAt(writer, Clock.now(), counter, by);
    }
    public static void emitProbeCountedAt(Writer writer, long ticks, long counter, long by) {
        writer.put(PROBE_COUNTED, ticks, (counter & 0xffffffffL), by);
    }

    /** A gauge was read. */
    public static final Kind PROBE_GAUGED = new Kind(
        "probe.gauged", "A gauge was read.", 0x3b5581626b8427a6L, 3
        , new Kind.Field(3, "gauge", "", "The gauge: a site of the catalog.", new long[] {}, new String[] {})
        , new Kind.Field(10, "value", "", "The gauge's value.", new long[] {}, new String[] {})
    );
    public static void emitProbeGauged(long gauge, double value) {
        Writer writer = Writer.here();
        if (writer != null) emitProbeGaugedAt(writer, Clock.now(), gauge, value);
    }
    public static void emitProbeGaugedAt(Writer writer, long ticks, long gauge, double value) {
        writer.put(PROBE_GAUGED, ticks, (gauge & 0xffffffffL), Double.doubleToRawLongBits(value));
    }

    /** A line of a log. */
    public static final Kind PROBE_LOGGED = new Kind(
        "probe.logged", "A line of a log.", 0x23534ca54d4555b6L, 0
        , new Kind.Field(3, "operation", "", "The place in the program that logged the line: a site of the catalog; 0: not known.", new long[] {}, new String[] {})
        , new Kind.Field(14, "level", "", "The line's severity.", new long[] {1L, 2L, 3L, 4L, 5L}, new String[] {"error", "warning", "info", "debug", "trace"})
        , new Kind.Field(15, "text", "", "The line's text.", new long[] {}, new String[] {})
    );
    public static void emitProbeLogged(long operation, int level, String text) {
        Writer writer = Writer.here();
        if (writer != null) emitProbeLoggedAt(writer, Clock.now(), operation, level, text);
    }
    public static void emitProbeLoggedAt(Writer writer, long ticks, long operation, int level, String text) {
        writer.putTails(PROBE_LOGGED, ticks, new long[] {(operation & 0xffffffffL) | (level & 0xffL) << 32, 0L}, new byte[][] {Kind.bytes(text)}, new int[] {2});
    }
}
