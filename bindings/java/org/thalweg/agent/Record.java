package org.thalweg.agent;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.thalweg.Layout;

/** A record of a catalog that is being made: length, type, FNV-1a of the rest, payload, rounded up to 8
 * bytes. */
final class Record {
    private static final long FNV_START = 0xcbf29ce484222325L;
    private static final long FNV_PRIME = 0x100000001b3L;

    private byte[] bytes = new byte[256];
    private int count = Layout.CATALOG_RECORD_HEADER;

    private void room(int more) {
        if (count + more > bytes.length) {
            bytes = Arrays.copyOf(bytes, Math.max(count + more, 2 * bytes.length));
        }
    }

    Record u32(int value) {
        room(4);
        for (int n = 0; n < 4; n++) {
            bytes[count++] = (byte) (value >>> 8 * n);
        }
        return this;
    }

    Record u64(long value) {
        return u32((int) value).u32((int) (value >>> 32));
    }

    Record raw(byte[] more) {
        room(more.length);
        System.arraycopy(more, 0, bytes, count, more.length);
        count += more.length;
        return this;
    }

    /** Appends a text; a text that is too long is cut between characters. */
    Record text(String text, int most) {
        byte[] utf8 = (text == null ? "" : text).getBytes(StandardCharsets.UTF_8);
        return u32(cut(utf8, most)).raw(Arrays.copyOf(utf8, cut(utf8, most)));
    }

    static int cut(byte[] utf8, int most) {
        int end = Math.min(utf8.length, most);
        while (end < utf8.length && end > 0 && (utf8[end] & 0xc0) == 0x80) {
            end--;
        }
        return end;
    }

    byte[] sealed(int type) {
        int padding = -count & 7;
        room(padding);
        count += padding;
        long hash = FNV_START;
        for (int n = 0; n < 4; n++) {
            hash = (hash ^ (type >>> 8 * n & 0xff)) * FNV_PRIME;
        }
        for (int n = Layout.CATALOG_RECORD_HEADER; n < count; n++) {
            hash = (hash ^ (bytes[n] & 0xff)) * FNV_PRIME;
        }
        int all = count;
        count = 0;
        u32(all).u32(type).u64(hash);
        return Arrays.copyOf(bytes, all);
    }

    /** Two records that are appended at once. */
    static byte[] both(byte[] first, byte[] second) {
        byte[] both = Arrays.copyOf(first, first.length + second.length);
        System.arraycopy(second, 0, both, first.length, second.length);
        return both;
    }

    /** Makes a catalog without records. */
    static void makeCatalog(String path, int writer) throws IOException {
        java.io.File file = new java.io.File(path);
        if (!file.createNewFile()) {
            throw new IOException(path + " is there already");
        }
        Space.ownerOnly(file);
        byte[] header = new byte[Layout.CATALOG_HEADER];
        Record words = new Record();
        words.u64(Layout.CATALOG_MAGIC_VALUE).u32(Layout.VERSION).u32(0).u32(writer);
        System.arraycopy(words.bytes, Layout.CATALOG_RECORD_HEADER, header, 0, 20);
        append(path, header);
    }

    /** Appends to a catalog, all at once; a partial write, as on a full disk, is removed again. */
    static void append(String path, byte[] bytes) throws IOException {
        long before = new java.io.File(path).length();
        try (FileOutputStream out = new FileOutputStream(path, true)) {
            out.write(bytes);
        } catch (IOException full) {
            try (RandomAccessFile file = new RandomAccessFile(path, "rw")) {
                file.setLength(before);
            } catch (IOException gone) {
                full.addSuppressed(gone);
            }
            throw full;
        }
    }
}
