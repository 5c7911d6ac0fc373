package moobench;

/**
 * The class whose only method has the probe, so that an agent which takes all methods of a class takes none of the harness's. It calls itself
 * {@code depth} times; what the innermost call does is not a method with a probe.
 */
final class Monitored {
    private Monitored() {}

    static long monitored(long nanoseconds, int depth) {
        return depth > 1 ? monitored(nanoseconds, depth - 1) : Busy.busy(nanoseconds, depth);
    }
}

/** What the innermost call does. */
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
