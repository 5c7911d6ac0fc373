package org.thalweg.agent;

import java.io.IOException;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import org.thalweg.Layout;

/**
 * The element of a thread, and the state of the thread's calls. Written by that thread alone.
 *
 * <p>The protocol is that of docs/layout.md: arguments and first word are stored first, then the head with
 * release. An event takes no lock and no system call, except at the end of a block. A virtual thread has an
 * element only during a trace.
 */
public final class Writer {
    private static final ThreadLocal<Writer> LOCAL = new ThreadLocal<Writer>();
    /** All elements, under the lock of the class. */
    private static final List<Writer> ALL = new ArrayList<Writer>();
    /** The elements that virtual threads gave back. */
    private static final ConcurrentLinkedQueue<Writer> GIVEN_BACK = new ConcurrentLinkedQueue<Writer>();
    private static final MethodHandle IS_VIRTUAL = isVirtual();
    private static final int VIRTUAL_MAX = 4096;
    /** The time between two checks whether the reader of a full ring is alive. Each check reads a file of
     * /proc. */
    private static final long LOOK_FOR_READER_NS = 20000000;
    private static final int VIRTUAL_THREADS = 1 << 30;

    /** The number of recorded calls that enclose this point. */
    int depth;
    /** Whether the trace of this thread is not recorded. */
    boolean muted;
    /** Whether the next trace continues one that is not recorded. */
    boolean skip;
    /** Whether the trace has an identity: 1 if another process decided that it is recorded; 2 if the identity
     * is known. */
    int hasTrace;
    long traceHigh;
    long traceLow;
    private long traces;
    /** The operation and the start of each call under way. */
    private long[] frames = new long[256];

    /** The position of the next event, and the end of the block: bytes since the start, block headers
     * included. */
    private long position;
    private long end;
    /** The address that positions are relative to. */
    private long base;
    /** The high half of the times that can be expressed relative to the block's base. */
    private int high;
    private int lastLow;
    private long calledWord;
    /** The number of events of the element so far, including dropped ones. */
    private long sequence;
    private Memory memory;
    private final Space space;
    private final boolean isVirtual;

    // The following fields are used only at the end of a block.
    private long[] kindWords = new long[32];
    private int kindsDeclared;
    private long blockBytes;
    private int blockCount;
    private int policy;
    private int number;
    private int fileNumber;
    private int thread;
    private int generation;
    private boolean stalled;
    private long drops;
    private long readPosition;
    /** How long the last wait for the reader took, in nanoseconds. */
    private long waited;
    private long ownerSequence;
    private long retryAt;
    private int tries;
    private WeakReference<Thread> owner;

    private Writer(Space space, boolean isVirtual) {
        this.space = space;
        this.isVirtual = isVirtual;
    }

    private static MethodHandle isVirtual() {
        try {
            return MethodHandles.lookup().findVirtual(Thread.class, "isVirtual", MethodType.methodType(boolean.class));
        } catch (ReflectiveOperationException older) {
            return null;
        }
    }

    /** The thread's element, which is made if needed; null if there is no space. */
    public static Writer here() {
        Writer writer = LOCAL.get();
        return writer != null ? writer : open();
    }

    // ---- calls ----

    /** Begins a call; returns null if nothing is recorded. */
    Writer enter(Operation operation) {
        if (muted) {
            return null;
        }
        int d = depth;
        if (d == 0 && (skip || space.settings.get(space.sampleAt) > 1) && !beginTrace()) {
            // The depth marks this call as the outermost one of those that are not recorded.
            muted = true;
            return this;
        }
        if (2 * d + 2 > frames.length) {
            frames = Arrays.copyOf(frames, 2 * frames.length);
        }
        frames[2 * d] = operation.id;
        long now = Clock.now();
        frames[2 * d + 1] = now;
        if (Probe.PAIRS) {
            put(ProbeKinds.PROBE_ENTERED, now, operation.id | (long) Math.min(d, 0xffff) << 32);
        }
        depth = d + 1;
        return this;
    }

    /** Ends the call that had this depth when it began. */
    void exit(int d, long outcome) {
        long now = Clock.now();
        if (d != depth || d == 0) {
            unusual(d, outcome);
            return;
        }
        d--;
        depth = d;
        long operation = frames[2 * d];
        if (Probe.PAIRS) {
            put(ProbeKinds.PROBE_LEFT, now, operation | (long) Math.min(d, 0xffff) << 32 | outcome << 48);
        } else {
            called(now, operation | (long) Math.min(d, 0xffff) << 32 | outcome << 48, now - frames[2 * d + 1]);
        }
        if (d == 0) {
            hasTrace = 0;
            if (isVirtual) {
                giveBack();
            }
        }
    }

    /** Ends a call that is not recorded, or one whose inner calls did not end, as after an overflow of the
     * stack. */
    private void unusual(int d, long outcome) {
        if (d == 0) {
            muted = false;
            if (isVirtual && depth == 0) {
                giveBack();
            }
            return;
        }
        if (d <= depth) {
            cutTo(d);
            exit(d, outcome);
        }
    }

    /** Ends the calls that an exception left without running their probes: from the constructor of a super
     * class, or when the stack was full. */
    void cutTo(int d) {
        while (depth > d) {
            exit(depth, 2);
        }
    }

    /** Decides whether the trace that begins here is recorded. */
    private boolean beginTrace() {
        // If this trace continues one of another thread or process, the other one has decided whether it is
        // recorded.
        boolean left = skip;
        skip = false;
        return !left && (hasTrace != 0 || traces++ % Math.max(1, space.settings.get(space.sampleAt)) == 0);
    }

    private void called(long now, long what, long duration) {
        long first = calledWord;
        long at = position;
        if (first == 0 || at + 24 > end || (int) (now >>> 32) != high) {
            if (!makeWay(ProbeKinds.PROBE_CALLED, 24, now)) {
                return;
            }
            calledWord = first = kindWords[ProbeKinds.PROBE_CALLED.index];
            at = position;
        }
        Memory map = memory;
        long to = base + at;
        map.put(to + 8, what);
        map.put(to + 16, duration);
        map.put(to, first | now & 0xffffffffL);
        lastLow = (int) now;
        position = at + 24;
        sequence++;
        map.release(map.base + Layout.ELEMENT_HEAD, at + 24);
    }

    // ---- events ----

    private long begin(Kind kind, long ticks, int bytes) {
        if (kind.index >= kindWords.length || kindWords[kind.index] == 0 || position + bytes > end || (int) (ticks >>> 32) != high) {
            if (!makeWay(kind, bytes, ticks)) {
                return -1;
            }
        }
        return base + position;
    }

    private void commit(Kind kind, long ticks, int bytes) {
        memory.put(base + position, kindWords[kind.index] | ticks & 0xffffffffL);
        lastLow = (int) ticks;
        position += bytes;
        sequence++;
        memory.release(memory.base + Layout.ELEMENT_HEAD, position);
    }

    /** Appends an event of one word. */
    public void put(Kind kind, long ticks, long first) {
        long at = begin(kind, ticks, 16);
        if (at >= 0) {
            memory.put(at + 8, first);
            commit(kind, ticks, 16);
        }
    }

    /** Appends an event of two words. */
    public void put(Kind kind, long ticks, long first, long second) {
        long at = begin(kind, ticks, 24);
        if (at >= 0) {
            memory.put(at + 8, first);
            memory.put(at + 16, second);
            commit(kind, ticks, 24);
        }
    }

    /** Appends an event of three words. */
    public void put(Kind kind, long ticks, long first, long second, long third) {
        long at = begin(kind, ticks, 32);
        if (at >= 0) {
            memory.put(at + 8, first);
            memory.put(at + 16, second);
            memory.put(at + 24, third);
            commit(kind, ticks, 32);
        }
    }

    /** Appends an event of any number of words. */
    public void put(Kind kind, long ticks, long... words) {
        long at = begin(kind, ticks, 8 + 8 * words.length);
        if (at >= 0) {
            for (int n = 0; n < words.length; n++) {
                memory.put(at + 8 + 8L * n, words[n]);
            }
            commit(kind, ticks, 8 + 8 * words.length);
        }
    }

    /** Appends an event with texts. Text that does not fit into a block is cut, and the event is marked as
     * cut. */
    public void putTails(Kind kind, long ticks, long[] words, byte[][] tails, int[] lengths) {
        long block = memory != null ? blockBytes : Options.chosen().blockBytes();
        int room = (int) Math.min(block - Layout.BLOCK_HEADER - 8 * Layout.EVENT_OWNER_WORDS, 8L * Layout.EVENT_WORDS_MAX);
        room -= 8 * (1 + words.length);
        int all = 0;
        for (byte[] tail : tails) {
            all += tail.length + 7 & ~7;
        }
        int share = room;
        long flags = 0;
        if (all > room) {
            share = room / tails.length & ~7;
            flags = Layout.EVENT_FLAG_TRUNCATED;
            all = 0;
            for (byte[] tail : tails) {
                all += Math.min(tail.length, share) + 7 & ~7;
            }
        }
        int bytes = 8 * (1 + words.length) + all;
        if (!makeWay(kind, bytes, ticks)) {
            return;
        }
        long at = base + position;
        for (int n = 0; n < words.length; n++) {
            memory.put(at + 8 + 8L * n, words[n]);
        }
        long to = at + 8 + 8L * words.length;
        for (int n = 0; n < tails.length; n++) {
            int count = Math.min(tails[n].length, share);
            memory.putInt(at + 8 + 4L * lengths[n], count);
            if ((count & 7) != 0) {
                memory.put(to + (count & ~7), 0);
            }
            memory.putBytes(to, tails[n], count);
            to += count + 7 & ~7;
        }
        memory.put(at, kindWords[kind.index] & 0xffff00000000L | ticks & 0xffffffffL | (long) bytes / 8 << 48 | flags << 60);
        lastLow = (int) ticks;
        position += bytes;
        sequence++;
        memory.release(memory.base + Layout.ELEMENT_HEAD, position);
    }

    // ---- rare operations ----

    private void closeBlock() {
        if (position < end) {
            memory.put(base + position, 0);
            position = end;
        }
    }

    /** Counts an event as dropped. No further event is stored in this block, because its sequence number
     * would be wrong. */
    private void drop() {
        closeBlock();
        drops++;
        sequence++;
        memory.release(memory.base + Layout.ELEMENT_DROPS, drops);
    }

    private void putOwner() {
        long at = base + position;
        memory.put(at + 8, number | (long) thread << 32);
        memory.put(at + 16, 0);
        memory.put(at + 24, ownerSequence);
        memory.put(at, lastLow & 0xffffffffL | (long) Layout.EVENT_KIND_OWNER << 32 | (long) Layout.EVENT_OWNER_WORDS << 48);
        position += 8 * Layout.EVENT_OWNER_WORDS;
    }

    /** Opens the next block, with {@code ticks} as its base. */
    private void roll(long ticks) {
        closeBlock();
        long start = end;
        long block = start / blockBytes;
        long at = memory.base + Layout.ELEMENT_DATA + block % blockCount * blockBytes;
        memory.put(at, 0);
        // The following stores have release order, so a reader that sees one of them also sees the zero.
        memory.release(at + Layout.BLOCK_BASE, ticks);
        memory.release(at + Layout.BLOCK_SEQUENCE, sequence);
        memory.release(at + Layout.BLOCK_DROPS, drops);
        memory.release(at, block + 1);
        memory.put(memory.base + Layout.ELEMENT_SEQUENCE, sequence);
        position = start + Layout.BLOCK_HEADER;
        end = start + blockBytes;
        base = at - start;
        high = (int) (ticks >>> 32);
        if (generation > 1) {
            putOwner();
        }
    }

    private boolean readerIsDead() {
        long reader = memory.acquire(memory.base + Layout.ELEMENT_READER);
        return reader != 0 && Space.startOf(Long.toString(reader & 0xffffffffL)) != memory.get(memory.base + Layout.ELEMENT_READER_START);
    }

    /** Whether the next block may be written. */
    private boolean isFree() {
        long needed = Math.max(0, end + blockBytes - blockBytes * blockCount);
        if (policy == 0 || readPosition >= needed) {
            return true;
        }
        long before = readPosition;
        lookAtReader(before);
        if (readPosition >= needed) {
            return true;
        }
        if (policy != 2 || stalled) {
            return false;
        }
        boolean isFree = waitForReader(before, needed);
        // If the program unparked this thread meanwhile, parking here has used up that permit, for which the
        // program may wait later. One permit too many is harmless, since any park may return early.
        LockSupport.unpark(Thread.currentThread());
        return isFree;
    }

    private void lookAtReader(long before) {
        readPosition = Math.min(memory.acquire(memory.base + Layout.ELEMENT_READ_POSITION), end);
        if (readPosition != before) {
            stalled = false;
        }
    }

    /**
     * Parks until a sixteenth of the ring is free, or one block if that is more. The first park takes 50
     * µs, or in a large ring a quarter of the last wait, but no longer than a reader of 1 GB/s needs for a
     * 64th of the ring. Each further park is twice as long, up to a millisecond, or up to the time in which
     * such a reader reads a sixteenth of the ring. Thus waits are few, take little processor time, and are
     * at most about twice as long as the reader needs.
     */
    private boolean waitForReader(long before, long needed) {
        long begun = System.nanoTime();
        long looked = begun;
        long wanted = Math.max(needed, needed - blockBytes + blockBytes * blockCount / 16);
        long pauseMax = Math.max(1000000, blockBytes * blockCount / 16);
        long pause = Math.max(50000, Math.min(waited / 4, blockBytes * blockCount / 64));
        while (true) {
            long now = System.nanoTime();
            if (now - begun >= 1000000000L || now - looked > LOOK_FOR_READER_NS && readerIsDead()) {
                stalled = readPosition < needed;
                return !stalled;
            }
            if (now - looked > LOOK_FOR_READER_NS) {
                looked = now;
            }
            if (Thread.currentThread().isInterrupted()) {
                // An interrupted thread does not park.
                Thread.yield();
            } else {
                LockSupport.parkNanos(pause);
                pause = Math.min(2 * pause, pauseMax);
            }
            lookAtReader(before);
            if (readPosition >= wanted) {
                waited = System.nanoTime() - begun;
                return true;
            }
        }
    }

    /** Makes space for an event of this many bytes; false if the event was dropped and counted. */
    private boolean makeWay(Kind kind, int bytes, long ticks) {
        if (memory == null && (ticks < retryAt || !makeElement())) {
            // The element could not be made: it is tried again after a second, then after two, and so on.
            if (ticks >= retryAt) {
                retryAt = ticks + (Clock.FREQUENCY << tries);
                tries = Math.min(tries + 1, 10);
            }
            space.countLost(1);
            return false;
        }
        if ((kind.index >= kindWords.length || kindWords[kind.index] == 0) && !declare(kind)) {
            drop();
            return false;
        }
        if (position + bytes <= end && (int) (ticks >>> 32) == high) {
            return true;
        }
        if (position + bytes + 16 <= end) {
            memory.put(base + position, (long) Layout.EVENT_KIND_FULL_TIME << 32 | 2L << 48);
            memory.put(base + position + 8, ticks);
            position += 16;
            high = (int) (ticks >>> 32);
            return true;
        }
        if (!isFree()) {
            drop();
            return false;
        }
        roll(ticks);
        return true;
    }

    private boolean declare(Kind kind) {
        try {
            int id = Layout.EVENT_KIND_FIRST + kindsDeclared;
            Record.append(file("catalog"), kind.described(id));
            if (kind.index >= kindWords.length) {
                kindWords = Arrays.copyOf(kindWords, 2 * kind.index);
            }
            kindWords[kind.index] = (long) id << 32 | (long) kind.eventWords << 48;
            kindsDeclared++;
            return true;
        } catch (IOException full) {
            return false;
        }
    }

    private String file(String what) {
        String name = Integer.toString(fileNumber);
        return space.path + "/" + "0000".substring(Math.min(4, name.length())) + name + "." + what;
    }

    private boolean makeElement() {
        Options options = Options.chosen();
        number = fileNumber = space.newWriter();
        blockBytes = options.blockBytes();
        blockCount = options.blockCount();
        policy = options.policy();
        try {
            Record.makeCatalog(file("catalog"), number);
            Memory map = Memory.make(file("element"), Layout.ELEMENT_DATA + blockBytes * blockCount);
            map.put(map.base + Layout.ELEMENT_VERSION, Layout.VERSION | (long) policy << 32);
            map.put(map.base + Layout.ELEMENT_BLOCKS, blockBytes | (long) blockCount << 32);
            map.put(map.base + Layout.ELEMENT_PROCESS, Space.pid());
            map.put(map.base + Layout.ELEMENT_PROCESS_START, space.processStart);
            map.put(map.base + Layout.ELEMENT_WRITER, number);
            map.put(map.base + Layout.ELEMENT_FREQUENCY, Clock.FREQUENCY);
            map.release(map.base + Layout.ELEMENT_MAGIC, Layout.ELEMENT_MAGIC_VALUE);
            position = end = 0;
            memory = map;
            takeOver();
            return true;
        } catch (IOException | RuntimeException full) {
            new java.io.File(file("catalog")).delete();
            return false;
        } finally {
            space.made(number);
        }
    }

    /** Makes this thread the writer of the element. */
    private void takeOver() {
        // Readers nest calls that have the same thread number, so a virtual thread gets a number that no
        // system thread has.
        thread = isVirtual ? VIRTUAL_THREADS | number : Space.thread();
        ownerSequence = sequence;
        generation++;
        stalled = false;
        memory.put(memory.base + Layout.ELEMENT_OWNER, number | (long) thread << 32);
        memory.put(memory.base + Layout.ELEMENT_GENERATION, generation);
        memory.release(memory.base + Layout.ELEMENT_STATE, 1);
        if (generation > 1) {
            if (position + 8 * Layout.EVENT_OWNER_WORDS <= end) {
                putOwner();
                memory.release(memory.base + Layout.ELEMENT_HEAD, position);
            } else {
                closeBlock();
            }
        }
    }

    private void close() {
        if (memory != null) {
            memory.put(memory.base + Layout.ELEMENT_SEQUENCE, sequence);
            memory.release(memory.base + Layout.ELEMENT_STATE, 2);
        }
    }

    /** Closes all elements at the end of the process. */
    static synchronized void closeAll() {
        for (Writer writer : ALL) {
            if (writer.memory != null) {
                writer.memory.release(writer.memory.base + Layout.ELEMENT_STATE, 2);
            }
        }
    }

    private void giveBack() {
        LOCAL.remove();
        close();
        skip = false;
        GIVEN_BACK.add(this);
    }

    private static Writer open() {
        Space space = Space.get();
        if (space == null) {
            return null;
        }
        Thread thread = Thread.currentThread();
        Writer writer = isVirtual(thread) ? openVirtual(space) : openThread(space, thread);
        if (writer == null) {
            space.countLost(1);
        } else {
            LOCAL.set(writer);
        }
        return writer;
    }

    private static boolean isVirtual(Thread thread) {
        try {
            return IS_VIRTUAL != null && (boolean) IS_VIRTUAL.invokeExact(thread);
        } catch (Throwable never) {
            return false;
        }
    }

    private static Writer openVirtual(Space space) {
        Writer writer = GIVEN_BACK.poll();
        if (writer == null) {
            synchronized (Writer.class) {
                if (ALL.size() >= VIRTUAL_MAX) {
                    return null;
                }
                writer = new Writer(space, true);
                ALL.add(writer);
            }
            writer.makeElement();
        } else {
            writer.again();
        }
        return writer;
    }

    private static Writer openThread(Space space, Thread thread) {
        Writer writer = null;
        synchronized (Writer.class) {
            for (Writer one : ALL) {
                Thread former = one.isVirtual ? thread : one.owner.get();
                if (!one.isVirtual && (former == null || former.getState() == Thread.State.TERMINATED)) {
                    writer = one;
                    break;
                }
            }
            if (writer == null) {
                writer = new Writer(space, false);
                ALL.add(writer);
            }
            writer.owner = new WeakReference<Thread>(thread);
        }
        writer.again();
        return writer;
    }

    /** Reuses the element for another thread. */
    private void again() {
        depth = hasTrace = 0;
        muted = skip = false;
        if (memory == null) {
            makeElement();
        } else {
            close();
            number = space.newWriter();
            space.made(number);
            takeOver();
        }
    }
}
