package moobench;

import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;

/**
 * Calls {@link Monitored#monitored} as MooBench does, for SECONDS seconds. How long each outermost call takes
 * is recorded in bins of a second; only the second half of the bins is used.
 *
 * <p>moobench.Moo SECONDS METHOD_NS DEPTH THREADS CLOCK FILE: CLOCK is nano for the wall clock, or cpu
 * for the thread's user time, which the paper used.
 */
public final class Moo {
    private static final int LINEAR = 2048;
    private static final int BUCKETS = LINEAR + 32 * 53;

    /** Whether a ring by hand takes the place of the probe. The value is a constant for the compiler. */
    private static final boolean BY_HAND = System.getProperty("moobench.ring") != null;

    private Moo() {}

    private static long called(long nanoseconds, int depth) {
        return BY_HAND ? Hand.monitored(nanoseconds, depth) : Monitored.monitored(nanoseconds, depth);
    }

    private static int bucket(long duration) {
        if (duration < LINEAR) {
            return (int) Math.max(duration, 0);
        }
        int power = 63 - Long.numberOfLeadingZeros(duration);
        return LINEAR + (power - 11) * 32 + (int) (duration >>> power - 5 & 31);
    }

    /** A thread's calls. */
    private static final class Calls extends Thread {
        final long[] counts;
        final long[] sums;
        final long[] histogram = new long[BUCKETS];
        long kept;
        long cpuNs;
        private final long methodNs;
        private final int depth;
        private final boolean byUserTime;
        private final CountDownLatch begin;

        Calls(int seconds, long methodNs, int depth, boolean byUserTime, CountDownLatch begin) {
            counts = new long[seconds];
            sums = new long[seconds];
            this.methodNs = methodNs;
            this.depth = depth;
            this.byUserTime = byUserTime;
            this.begin = begin;
        }

        @Override public void run() {
            begin.countDown();
            try {
                begin.await();
            } catch (InterruptedException told) {
                return;
            }
            long start = System.nanoTime();
            for (int second = 0; second < counts.length; second++) {
                if (byUserTime) {
                    binByUserTime(second, start + 1000000000L * (second + 1));
                } else {
                    bin(second, start + 1000000000L * (second + 1));
                }
                if (second + 1 == counts.length / 2) {
                    Arrays.fill(histogram, 0);
                    cpuNs = processorTime();
                }
            }
            cpuNs = processorTime() - cpuNs;
        }

        private static long processorTime() {
            return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        }

        private void bin(int second, long until) {
            long count = 0;
            long sum = 0;
            long after;
            do {
                long before = System.nanoTime();
                kept += called(methodNs, depth);
                after = System.nanoTime();
                histogram[bucket(after - before)]++;
                sum += after - before;
                count++;
            } while (after < until);
            counts[second] = count;
            sums[second] = sum;
        }

        private void binByUserTime(int second, long until) {
            ThreadMXBean bean = ManagementFactory.getThreadMXBean();
            long count = 0;
            long sum = 0;
            do {
                long before = bean.getCurrentThreadUserTime();
                kept += called(methodNs, depth);
                long duration = bean.getCurrentThreadUserTime() - before;
                histogram[bucket(duration)]++;
                sum += duration;
                count++;
            } while (System.nanoTime() < until);
            counts[second] = count;
            sums[second] = sum;
        }
    }

    /** The processor time of all threads, those of the JVM included. */
    private static long processTime() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    public static void main(String[] arguments) throws Exception {
        int seconds = Integer.parseInt(arguments[0]);
        int threads = Integer.parseInt(arguments[3]);
        CountDownLatch begin = new CountDownLatch(threads);
        Calls[] all = new Calls[threads];
        System.gc();
        for (int n = 0; n < threads; n++) {
            all[n] = new Calls(seconds, Long.parseLong(arguments[1]), Integer.parseInt(arguments[2]), arguments[4].equals("cpu"), begin);
            all[n].start();
        }
        begin.await();
        Thread.sleep(1000L * (seconds / 2));
        long processNs = processTime();
        for (Calls calls : all) {
            calls.join();
        }
        processNs = processTime() - processNs;
        try (PrintWriter out = new PrintWriter(arguments[5], "UTF-8")) {
            out.println("process " + processNs);
            for (int n = 0; n < threads; n++) {
                out.println("cpu " + n + " " + all[n].cpuNs);
                for (int second = 0; second < seconds; second++) {
                    out.println("bin " + n + " " + second + " " + all[n].counts[second] + " " + all[n].sums[second]);
                }
                for (int bucket = 0; bucket < BUCKETS; bucket++) {
                    if (all[n].histogram[bucket] > 0) {
                        out.println("bucket " + n + " " + bucket + " " + all[n].histogram[bucket]);
                    }
                }
            }
        }
    }
}
