package org.thalweg.agent;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.Buffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import org.thalweg.Layout;

/**
 * A mapped file of zeroes, and the stores that its protocol needs.
 *
 * <p>If the JVM has memory access by addresses and does not warn about it (before 24), addresses are used,
 * else buffers and VarHandles. An {@code at} is the result of {@link #place}, plus bytes.
 */
final class Memory {
    /** Whether memory is accessed by addresses. The JIT compiler treats this final field as a constant. */
    static final boolean BY_ADDRESS;
    /** Release and acquire of a buffer's long, if VarHandles exist and are needed. */
    private static final MethodHandle RELEASE;
    private static final MethodHandle ACQUIRE;

    static {
        boolean byAddress = false;
        MethodHandle release = null;
        MethodHandle acquire = null;
        int version = version();
        if (version < 24) {
            try {
                byAddress = Direct.works();
            } catch (Throwable absent) {
                byAddress = false;
            }
        }
        if (!byAddress) {
            try {
                MethodHandles.Lookup lookup = MethodHandles.lookup();
                Object handle = MethodHandles.class.getMethod("byteBufferViewVarHandle", Class.class, ByteOrder.class)
                    .invoke(null, long[].class, ByteOrder.LITTLE_ENDIAN);
                Class<?> varHandle = Class.forName("java.lang.invoke.VarHandle");
                Class<?> mode = Class.forName("java.lang.invoke.VarHandle$AccessMode");
                Method toHandle = varHandle.getMethod("toMethodHandle", mode);
                release = ((MethodHandle) toHandle.invoke(handle, mode.getField("SET_RELEASE").get(null)))
                    .asType(MethodType.methodType(void.class, MappedByteBuffer.class, int.class, long.class));
                acquire = ((MethodHandle) toHandle.invoke(handle, mode.getField("GET_ACQUIRE").get(null)))
                    .asType(MethodType.methodType(long.class, MappedByteBuffer.class, int.class));
            } catch (Throwable absent) {
                // The JVM has neither addresses nor VarHandles, so stores are plain, which is enough if the
                // processor keeps their order.
                release = null;
            }
        }
        BY_ADDRESS = byAddress;
        RELEASE = release;
        ACQUIRE = acquire;
    }

    final MappedByteBuffer buffer;
    /** The base of every {@code at}. */
    final long base;

    private Memory(MappedByteBuffer buffer) {
        this.buffer = buffer;
        base = BY_ADDRESS ? Direct.address(buffer) : 0;
    }

    /** The JVM's version: 8, 11, 17. */
    static int version() {
        String text = System.getProperty("java.specification.version", "8");
        try {
            return Integer.parseInt(text.startsWith("1.") ? text.substring(2) : text);
        } catch (NumberFormatException other) {
            return 8;
        }
    }

    /** Makes a file of zeroes and maps it; its memory is reserved, so that a store to it cannot fail. */
    static Memory make(String path, long bytes) throws IOException {
        // A channel is closed if an interrupted thread uses it, so the interrupt is cleared meanwhile.
        boolean interrupted = Thread.interrupted();
        try {
            java.io.File name = new java.io.File(path);
            if (!name.createNewFile()) {
                throw new IOException(path + " is there already");
            }
            try (RandomAccessFile file = new RandomAccessFile(name, "rw")) {
                Space.ownerOnly(name);
                byte[] zeroes = new byte[(int) Math.min(bytes, 1 << 16)];
                for (long done = 0; done < bytes; done += zeroes.length) {
                    file.write(zeroes, 0, (int) Math.min(zeroes.length, bytes - done));
                }
                MappedByteBuffer buffer = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, bytes);
                buffer.order(ByteOrder.LITTLE_ENDIAN);
                Memory memory = new Memory(buffer);
                for (long at = 0; at < bytes; at += Layout.PAGE) {
                    memory.put(memory.base + at, 0);
                }
                return memory;
            } catch (IOException | RuntimeException | Error failed) {
                name.delete();
                throw failed;
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }


    void put(long at, long value) {
        if (BY_ADDRESS) {
            Direct.put(at, value);
        } else {
            buffer.putLong((int) at, value);
        }
    }

    long get(long at) {
        return BY_ADDRESS ? Direct.get(at) : buffer.getLong((int) at);
    }

    void release(long at, long value) {
        if (BY_ADDRESS) {
            Direct.release(at, value);
        } else {
            releaseBuffer(buffer, (int) at, value);
        }
    }

    long acquire(long at) {
        return BY_ADDRESS ? Direct.acquire(at) : acquireBuffer(buffer, (int) at);
    }

    /** Adds to a word that other threads may add to. */
    void add(long at, long more) {
        if (BY_ADDRESS) {
            Direct.add(at, more);
        } else {
            synchronized (this) {
                put(at, get(at) + more);
            }
        }
    }

    void putBytes(long at, byte[] bytes, int count) {
        if (BY_ADDRESS) {
            Direct.putBytes(at, bytes, count);
        } else {
            for (int n = 0; n < count; n++) {
                buffer.put((int) at + n, bytes[n]);
            }
        }
    }

    void putInt(long at, int value) {
        if (BY_ADDRESS) {
            Direct.putInt(at, value);
        } else {
            buffer.putInt((int) at, value);
        }
    }

    private static void releaseBuffer(MappedByteBuffer buffer, int at, long value) {
        if (RELEASE == null) {
            buffer.putLong(at, value);
            return;
        }
        try {
            RELEASE.invokeExact(buffer, at, value);
        } catch (Throwable failed) {
            throw new IllegalStateException(failed);
        }
    }

    private static long acquireBuffer(MappedByteBuffer buffer, int at) {
        if (ACQUIRE == null) {
            return buffer.getLong(at);
        }
        try {
            return (long) ACQUIRE.invokeExact(buffer, at);
        } catch (Throwable failed) {
            throw new IllegalStateException(failed);
        }
    }

    /** Access by addresses: a separate class, which is loaded only if such access exists. */
    static final class Direct {
        private static final sun.misc.Unsafe UNSAFE = unsafe();
        private static final long ADDRESS = addressOffset();

        private Direct() {}

        private static sun.misc.Unsafe unsafe() {
            try {
                Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
                field.setAccessible(true);
                return (sun.misc.Unsafe) field.get(null);
            } catch (ReflectiveOperationException | RuntimeException absent) {
                return null;
            }
        }

        private static long addressOffset() {
            try {
                return UNSAFE == null ? -1 : UNSAFE.objectFieldOffset(Buffer.class.getDeclaredField("address"));
            } catch (ReflectiveOperationException | RuntimeException absent) {
                return -1;
            }
        }

        static boolean works() {
            if (UNSAFE == null || ADDRESS < 0 || ByteOrder.nativeOrder() != ByteOrder.LITTLE_ENDIAN) {
                return false;
            }
            ByteBuffer probe = ByteBuffer.allocateDirect(16).order(ByteOrder.LITTLE_ENDIAN);
            long at = address(probe);
            release(at, 0x1234567812345678L);
            return probe.getLong(0) == 0x1234567812345678L;
        }

        static long address(ByteBuffer buffer) {
            return UNSAFE.getLong(buffer, ADDRESS);
        }

        static void put(long at, long value) {
            UNSAFE.putLong(at, value);
        }

        static void putInt(long at, int value) {
            UNSAFE.putInt(at, value);
        }

        static void add(long at, long more) {
            UNSAFE.getAndAddLong(null, at, more);
        }

        static long get(long at) {
            return UNSAFE.getLong(at);
        }

        static void release(long at, long value) {
            UNSAFE.putOrderedLong(null, at, value);
        }

        static long acquire(long at) {
            return UNSAFE.getLongVolatile(null, at);
        }

        static void putBytes(long at, byte[] bytes, int count) {
            UNSAFE.copyMemory(bytes, sun.misc.Unsafe.ARRAY_BYTE_BASE_OFFSET, null, at, count);
        }
    }
}
