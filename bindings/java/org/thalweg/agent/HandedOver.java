package org.thalweg.agent;

import java.util.concurrent.Callable;
import java.util.concurrent.RunnableFuture;
import java.util.function.Supplier;

/**
 * Work that belongs to the trace in which it was handed over. With the agent's option {@code executors=on},
 * recorded methods call these functions before they give work to an executor or to a thread.
 */
public abstract class HandedOver {
    private final long span;

    private HandedOver(long span) {
        this.span = span;
    }

    /** Whether the calling thread is inside a recorded call, or inside one that is left out. */
    private static boolean isInTrace() {
        Writer writer = Writer.here();
        return writer != null && (writer.depth > 0 || writer.muted);
    }

    /**
     * The work, handed over if that changes nothing for the executor: work that it may compare with other work or use
     * as a future stays as it is.
     */
    public static Runnable work(Runnable work) {
        boolean isPlain = work != null && !(work instanceof HandedOver || work instanceof Comparable || work instanceof RunnableFuture);
        return isPlain && isInTrace() ? Probes.handedOver(work) : work;
    }

    public static <T> Callable<T> call(Callable<T> work) {
        return work != null && !(work instanceof HandedOver) && isInTrace() ? Probes.handedOver(work) : work;
    }

    public static <T> Supplier<T> supply(Supplier<T> work) {
        return work != null && isInTrace() ? new Supply<T>(work, Probes.handOver()) : work;
    }

    /** Work without a result. */
    static final class Work extends HandedOver implements Runnable {
        private final Runnable work;

        Work(Runnable work, long span) {
            super(span);
            this.work = work;
        }

        @Override public void run() {
            Probes.takeOver(super.span);
            work.run();
        }
    }

    /** Work with a result. */
    static final class Call<T> extends HandedOver implements Callable<T> {
        private final Callable<T> work;

        Call(Callable<T> work, long span) {
            super(span);
            this.work = work;
        }

        @Override public T call() throws Exception {
            Probes.takeOver(super.span);
            return work.call();
        }
    }

    /** Work with a result that cannot fail. */
    static final class Supply<T> extends HandedOver implements Supplier<T> {
        private final Supplier<T> work;

        Supply(Supplier<T> work, long span) {
            super(span);
            this.work = work;
        }

        @Override public T get() {
            Probes.takeOver(super.span);
            return work.get();
        }
    }
}
