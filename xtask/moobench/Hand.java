package moobench;

import java.io.File;
import java.io.RandomAccessFile;
import java.lang.reflect.Field;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.util.concurrent.atomic.AtomicInteger;
import org.thalweg.agent.Clock;
import sun.misc.Unsafe;

/**
 * The least cost that a probe could have: it writes a record of each call (the end, the duration, the
 * operation and the depth) in a ring of mapped memory, by stores that were written by hand into the method.
 * The clock is the one that Thalweg's agent reads. The file has the number of records written, the number of
 * records read, the number of records for which there is room, and then the records.
 */
final class Hand {
    private static final long RECORDS = 1 << 21;
    private static final int HEADER = 4096;
    private static final boolean WAITS = "waits".equals(System.getProperty("moobench.ring"));
    private static final Unsafe MEMORY;
    private static final AtomicInteger COUNT = new AtomicInteger();
    private static final ThreadLocal<Hand> HERE = new ThreadLocal<Hand>();

    static {
        try {
            Field field = Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            MEMORY = (Unsafe) field.get(null);
        } catch (ReflectiveOperationException broken) {
            throw new IllegalStateException(broken);
        }
    }

    private final MappedByteBuffer map;
    private final long base;
    private long written;
    private long read;

    private Hand() throws Exception {
        String folder = System.getenv("THALWEG_SPACES");
        int number = COUNT.incrementAndGet();
        File made = new File(folder, ".ring." + number);
        try (RandomAccessFile file = new RandomAccessFile(made, "rw")) {
            file.setLength(HEADER + 24 * RECORDS);
            map = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, HEADER + 24 * RECORDS);
        }
        Field address = java.nio.Buffer.class.getDeclaredField("address");
        base = MEMORY.getLong(map, MEMORY.objectFieldOffset(address));
        for (long at = 0; at < HEADER + 24 * RECORDS; at += 4096) {
            MEMORY.putLong(base + at, 0);
        }
        MEMORY.putLong(base + 128, RECORDS);
        if (!made.renameTo(new File(folder, "ring." + number))) {
            throw new IllegalStateException("the ring has no place");
        }
    }

    private static Hand here() {
        Hand hand = HERE.get();
        if (hand == null) {
            try {
                hand = new Hand();
            } catch (Exception broken) {
                throw new IllegalStateException(broken);
            }
            HERE.set(hand);
        }
        return hand;
    }

    private void waitForRoom() {
        while (written - read >= RECORDS) {
            read = MEMORY.getLongVolatile(null, base + 64);
            if (written - read >= RECORDS) {
                Thread.yield();
            }
        }
    }

    private void put(long begin, int depth) {
        long now = Clock.now();
        if (WAITS && written - read >= RECORDS) {
            waitForRoom();
        }
        long at = base + HEADER + 24 * (written & RECORDS - 1);
        MEMORY.putLong(at, now);
        MEMORY.putLong(at + 8, now - begin);
        MEMORY.putLong(at + 16, 1L | (long) depth << 32);
        MEMORY.putOrderedLong(null, base, ++written);
    }

    static long monitored(long nanoseconds, int depth) {
        Hand hand = here();
        long begin = Clock.now();
        try {
            return depth > 1 ? monitored(nanoseconds, depth - 1) : Busy.busy(nanoseconds, depth);
        } finally {
            hand.put(begin, depth);
        }
    }
}
