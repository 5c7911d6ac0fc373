package org.thalweg.agent;

/** What only the small library in C can do: read the processor's counter, lock as other writers do, name the thread. */
final class Native {
    private Native() {}

    /** Ticks of the processor's counter. */
    static native long ticks();

    /** Its frequency in Hz; 0: it is no clock here. */
    static native long frequency();

    /** The thread's number for the system. */
    static native int thread();

    /** Opens a file or directory and locks it, waiting up to two seconds; a negative number: it could not. */
    static native int lock(byte[] path);

    /** Closes what was locked. */
    static native void unlock(int file);
}
