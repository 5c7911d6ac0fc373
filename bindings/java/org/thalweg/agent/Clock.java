package org.thalweg.agent;

/** The space's clock: the processor's counter if the library in C is loaded, else {@code System.nanoTime}. */
public final class Clock {
    /** Whether ticks are those of the processor's counter. The JIT compiler treats this final field as a
     * constant. */
    static final boolean IS_COUNTER;
    /** The number of ticks in a second. */
    static final long FREQUENCY;

    static {
        long frequency = 0;
        if (Library.IS_THERE) {
            frequency = Native.frequency();
        }
        IS_COUNTER = frequency > 0;
        FREQUENCY = frequency > 0 ? frequency : 1000000000L;
    }

    private Clock() {}

    /** The present time. {@code nanoTime} is {@code CLOCK_MONOTONIC} on Linux. */
    public static long now() {
        return IS_COUNTER ? Native.ticks() : System.nanoTime();
    }
}
