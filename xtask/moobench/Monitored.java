package moobench;

/**
 * The class whose only method has the probe, so that an agent that instruments all methods of a class
 * instruments no method of the harness. The method calls itself {@code depth} times; the work of the
 * innermost call is done by a method without a probe.
 */
final class Monitored {
    private Monitored() {}

    static long monitored(long nanoseconds, int depth) {
        return depth > 1 ? monitored(nanoseconds, depth - 1) : Busy.busy(nanoseconds, depth);
    }
}

/** The work of the innermost call. */
final class Busy {
    private Busy() {}

    static long busy(long nanoseconds, int depth) {
        if (nanoseconds == 0) {
            return depth;
        }
        long until = System.nanoTime() + nanoseconds;
        long now;
        do {
            now = System.nanoTime();
        } while (now < until);
        return now;
    }
}
