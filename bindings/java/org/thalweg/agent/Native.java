package org.thalweg.agent;

/** The operations that only the small library in C can perform: read the processor's counter, lock as other
 * writers do, identify the thread. */
final class Native {
    private Native() {}

    /** The ticks of the processor's counter. */
    static native long ticks();

    /** The counter's frequency in Hz; 0 if the counter is no clock on this machine. */
    static native long frequency();

    /** The system's number of the thread. */
    static native int thread();

    /** Opens a file or directory and locks it, waiting up to two seconds; a negative number if it failed. */
    static native int lock(byte[] path);

    /** Closes a locked file. */
    static native void unlock(int file);
}
