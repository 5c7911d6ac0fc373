package org.thalweg.agent;

import java.security.SecureRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicLong;

/** Explicit probes of a program, beside its calls: with the agent, or without it if the JAR is on the class
 * path. */
public final class Probes {
    private static final long SPAN_BASE = new SecureRandom().nextLong();
    private static final AtomicLong SPANS = new AtomicLong();

    private Probes() {}

    /** Adds to a counter. */
    public static void count(String name, long by) {
        Operation operation = Probe.operation(name, "counter", "", 0);
        Writer writer = operation.writer();
        if (writer != null) {
            ProbeKinds.emitProbeCountedAt(writer, Clock.now(), operation.id, by);
        }
    }

    /** Records the value of a gauge. */
    public static void gauge(String name, double value) {
        Operation operation = Probe.operation(name, "gauge", "", 0);
        Writer writer = operation.writer();
        if (writer != null) {
            ProbeKinds.emitProbeGaugedAt(writer, Clock.now(), operation.id, value);
        }
    }

    /** Writes a log line; {@code level} is 1 error, 2 warning, 3 info, 4 debug or 5 trace. */
    public static void log(String place, int level, String text) {
        Operation operation = Probe.operation(place, "log", "", 0);
        Writer writer = operation.writer();
        if (writer != null) {
            ProbeKinds.emitProbeLoggedAt(writer, Clock.now(), operation.id, level, text);
        }
    }

    private static long newSpan() {
        // A bijection of the count, so no two spans of a process are equal; the random number makes the spans
        // of different processes differ.
        long span = (SPANS.incrementAndGet() ^ SPAN_BASE) * 0x9e3779b97f4a7c15L;
        return span == 0 ? 1 : span;
    }

    private static int depth(Writer writer) {
        return Math.min(writer.depth, 0xffff);
    }

    /** Records that work is handed to another thread, or will be done later, and returns the number of the
     * work; 0 if this thread records nothing. */
    public static long handOver() {
        Writer writer = Writer.here();
        if (writer == null || writer.muted) {
            return 0;
        }
        long span = newSpan();
        ProbeKinds.emitProbeHandedOverAt(writer, Clock.now(), span, depth(writer));
        return span;
    }

    /** Begins the work with this number: the outermost call that encloses this one, or else the next call in
     * this thread, belongs to the work. */
    public static void takeOver(long span) {
        Writer writer = Writer.here();
        if (writer == null || writer.muted) {
            return;
        }
        if (span == 0) {
            // The work was handed over in a trace that is not recorded.
            writer.skip = writer.depth == 0;
            return;
        }
        if (writer.depth == 0) {
            writer.hasTrace = Math.max(writer.hasTrace, 1);
        }
        ProbeKinds.emitProbeTakenOverAt(writer, Clock.now(), span);
    }

    /** The work, handed over now and taken over by the thread that runs it. */
    public static Runnable handedOver(Runnable work) {
        return new HandedOver.Work(work, handOver());
    }

    /** The work, handed over now and taken over by the thread that calls it. */
    public static <T> Callable<T> handedOver(Callable<T> work) {
        return new HandedOver.Call<T>(work, handOver());
    }

    /** The W3C {@code traceparent} of a message that is sent now, whose size is {@code bytes} (0 if not
     * known). Empty if nothing is recorded. */
    public static String traceparent(long bytes) {
        Writer writer = Writer.here();
        if (writer == null || writer.muted) {
            return "";
        }
        long span = newSpan();
        if (writer.hasTrace != 2) {
            writer.traceHigh = newSpan();
            writer.traceLow = newSpan();
            if (writer.depth > 0) {
                writer.hasTrace = 2;
            }
            ProbeKinds.emitProbeTraceBegunAt(writer, Clock.now(), writer.traceHigh, writer.traceLow, 0);
        }
        ProbeKinds.emitProbeSentAt(writer, Clock.now(), span, bytes, depth(writer));
        return String.format("00-%016x%016x-%016x-01", writer.traceHigh, writer.traceLow, span);
    }

    /** Continues the trace of a message that was received; false if the text is no {@code traceparent}. */
    public static boolean continueTrace(String text, long bytes) {
        if (text == null || !text.matches("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
            || text.startsWith("ff") || text.startsWith("00") && text.length() != 55) {
            return false;
        }
        long high = Long.parseUnsignedLong(text.substring(3, 19), 16);
        long low = Long.parseUnsignedLong(text.substring(19, 35), 16);
        long span = Long.parseUnsignedLong(text.substring(36, 52), 16);
        if ((high | low) == 0 || span == 0) {
            return false;
        }
        Writer writer = Writer.here();
        if (writer == null) {
            return true;
        }
        if ((Integer.parseInt(text.substring(53, 55), 16) & 1) == 0) {
            // The sender's trace is not recorded, so this thread's trace is not recorded either, unless it
            // has begun.
            writer.skip = writer.depth == 0;
            return true;
        }
        if (!writer.muted) {
            writer.traceHigh = high;
            writer.traceLow = low;
            writer.hasTrace = 2;
            ProbeKinds.emitProbeTraceBegunAt(writer, Clock.now(), high, low, span);
            ProbeKinds.emitProbeReceivedAt(writer, Clock.now(), span, bytes, depth(writer));
        }
        return true;
    }
}
