package org.thalweg.agent;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import org.thalweg.Layout;

/** The space of this process: its directory, identity, catalog, settings and switches, and the session it
 * joins. The space is made with the first operation. */
final class Space {
    private static volatile Space made;
    private static volatile boolean failed;

    final String path;
    final Memory identity;
    final Memory settings;
    /** The address of the value of `probe.sample`. */
    final long sampleAt;
    private final long lostAt;
    private final List<Memory> switches = new ArrayList<Memory>();
    private final List<Switch> switched = new ArrayList<Switch>();
    private long switchedRead = Layout.CATALOG_HEADER;
    private final byte[] uuid = new byte[16];
    private final byte[] boot = boot();
    final long processStart = startOf("self");
    /** Whether there are operations that are not declared. */
    volatile boolean hasUndeclared;
    private int sites;
    private int probes;
    private int writers;
    /** The numbers of the elements that threads are making at this moment. */
    private final java.util.TreeSet<Integer> making = new java.util.TreeSet<Integer>();
    private boolean inSession;

    /** A pattern of probes that was switched, and its state. */
    private static final class Switch {
        final boolean on;
        final Pattern pattern;

        Switch(boolean on, Pattern pattern) {
            this.on = on;
            this.pattern = pattern;
        }
    }

    /** The space, which is made if needed; null if it cannot be made. */
    static Space get() {
        Space space = made;
        return space != null || failed ? space : make();
    }

    /** Whether the process has a space, or could not make one. */
    static synchronized boolean isDecided() {
        return made != null || failed;
    }

    /** Prevents any space from being made from now on. */
    static synchronized void refuse() {
        failed = true;
    }

    private static synchronized Space make() {
        if (made == null && !failed) {
            if ("off".equals(System.getenv("THALWEG_PROBE"))) {
                failed = true;
                return null;
            }
            try {
                Space space = new Space();
                made = space;
                Switches.start(space);
                Runtime.getRuntime().addShutdownHook(new Thread("thalweg-end") {
                    @Override public void run() {
                        made.finish();
                    }
                });
            } catch (IOException | RuntimeException why) {
                failed = made == null;
                if (failed) {
                    System.err.println("thalweg: nothing is recorded: " + why);
                }
            }
        }
        return made;
    }

    private Space() throws IOException {
        Options options = Options.chosen();
        String parent = options.spaces();
        if (parent == null) {
            throw new IOException("there is neither /dev/shm nor XDG_RUNTIME_DIR; `space=DIR` says where it may write");
        }
        String session = options.session();
        String within = session == null ? parent : session;
        makeDirectories(within);
        String name = programName();
        path = makeDirectory(within, name);
        int lock = Library.IS_THERE ? Native.lock(path.getBytes(StandardCharsets.UTF_8)) : -1;
        try {
            identity = Memory.make(path + "/space.new", Layout.PAGE);
            settings = Memory.make(path + "/settings", Layout.SETTINGS_TOOLS + Layout.SETTINGS_TOOL_BYTES * Layout.SETTINGS_CELL_COUNT);
            Record.makeCatalog(path + "/0000.catalog", 0);
            Record.makeCatalog(path + "/probes", 0);
            settings.put(settings.base + 8, Layout.VERSION);
            settings.release(settings.base, Layout.SETTINGS_MAGIC_VALUE);
            writeIdentity(name);
            sampleAt = makeSetting(0, "probe.sample", "Of so many traces one is recorded", "traces", 1, options.sample, false);
            lostAt = makeSetting(1, "probe.lost", "Events for which no element could be made", "events", 0, 0, true);
            makeSetting(2, "probe.full", "What happens when a thread's memory is full", "", 0, options.policy(), true, "overwrite", "drop", "wait");
            makeSetting(3, "probe.bytes", "The memory for each thread's events", "B", 0, options.blockBytes() * options.blockCount(), true);
            Files.move(Paths.get(path + "/space.new"), Paths.get(path + "/space"));
            if (session != null) {
                inSession = true;
                join(session, name);
            }
        } catch (IOException | RuntimeException why) {
            remove();
            throw why;
        } finally {
            if (lock >= 0) {
                Native.unlock(lock);
            }
        }
    }

    private void remove() {
        File[] files = new File(path).listFiles();
        for (File file : files == null ? new File[0] : files) {
            file.delete();
        }
        new File(path).delete();
    }

    // ---- the machine ----

    static byte[] all(InputStream in) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        byte[] part = new byte[8192];
        for (int count = in.read(part); count >= 0; count = in.read(part)) {
            out.write(part, 0, count);
        }
        return out.toByteArray();
    }

    private static byte[] read(String path) {
        try (InputStream in = new FileInputStream(path)) {
            return all(in);
        } catch (IOException absent) {
            return new byte[0];
        }
    }

    private static String text(String path) {
        return new String(read(path), StandardCharsets.UTF_8);
    }

    private static String[] stat(String process) {
        String line = text("/proc/" + process + "/stat");
        int name = line.lastIndexOf(')');
        return name < 0 ? new String[0] : line.substring(name + 2).trim().split(" ");
    }

    static int pid() {
        try {
            return Integer.parseInt(Files.readSymbolicLink(Paths.get("/proc/self")).toString());
        } catch (IOException | RuntimeException absent) {
            return 0;
        }
    }

    /** The start time of a process, which is field 22 of /proc/PID/stat. */
    static long startOf(String process) {
        String[] fields = stat(process);
        return fields.length > 19 ? Long.parseLong(fields[19]) : 0;
    }

    static String user() {
        for (String line : text("/proc/self/status").split("\n")) {
            String[] words = line.split("\\s+");
            if (words[0].equals("Uid:") && words.length > 2) {
                return words[2];
            }
        }
        return "0";
    }

    /** The system's number of the calling thread. */
    static int thread() {
        if (Library.IS_THERE) {
            return Native.thread();
        }
        try {
            String link = Files.readSymbolicLink(Paths.get("/proc/thread-self")).toString();
            return Integer.parseInt(link.substring(link.lastIndexOf('/') + 1));
        } catch (IOException | RuntimeException absent) {
            return 0;
        }
    }

    private static byte[] boot() {
        byte[] id = new byte[16];
        String digits = text("/proc/sys/kernel/random/boot_id").replaceAll("[^0-9a-f]", "");
        for (int n = 0; 2 * n + 2 <= digits.length() && n < 16; n++) {
            id[n] = (byte) Integer.parseInt(digits.substring(2 * n, 2 * n + 2), 16);
        }
        return id;
    }

    private static long realTime() {
        java.time.Instant now = java.time.Instant.now();
        return now.getEpochSecond() * 1000000000L + now.getNano();
    }

    private static String host() {
        return text("/proc/sys/kernel/hostname").trim();
    }

    /** The program's name: the last part of the main class's name, or the JAR's name. */
    private static String programName() {
        String command = System.getProperty("sun.java.command", "").trim();
        String first = command.isEmpty() ? "java" : command.split(" ")[0];
        first = first.substring(first.lastIndexOf('/') + 1);
        if (first.endsWith(".jar")) {
            return first.substring(0, first.length() - 4);
        }
        return first.substring(first.lastIndexOf('.') + 1);
    }

    static void ownerOnly(File file) {
        file.setReadable(false, false);
        file.setWritable(false, false);
        file.setReadable(true, true);
        file.setWritable(true, true);
    }

    private static void makeDirectories(String path) throws IOException {
        File folder = new File(path);
        if (!folder.isDirectory()) {
            File above = folder.getAbsoluteFile().getParentFile();
            if (above != null) {
                makeDirectories(above.getPath());
            }
            if (folder.mkdir()) {
                ownerOnly(folder);
                folder.setExecutable(false, false);
                folder.setExecutable(true, true);
            } else if (!folder.isDirectory()) {
                throw new IOException("the directory " + path + " cannot be made");
            }
        }
    }

    /** Makes a directory for the space: NAME-PID. */
    private static String makeDirectory(String parent, String name) throws IOException {
        StringBuilder safe = new StringBuilder();
        for (byte c : name.getBytes(StandardCharsets.UTF_8)) {
            boolean good = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.';
            if (safe.length() < 64) {
                safe.append(good && !(safe.length() == 0 && c == '.') ? (char) c : '_');
            }
        }
        for (int again = 0; again < 10000; again++) {
            File folder = new File(parent, safe + "-" + pid() + (again == 0 ? "" : "." + again));
            if (folder.mkdir()) {
                ownerOnly(folder);
                folder.setExecutable(false, false);
                folder.setExecutable(true, true);
                return folder.getPath();
            }
            if (!folder.exists()) {
                break;
            }
        }
        throw new IOException("in " + parent + " no directory can be made");
    }

    // ---- the contents of files ----

    private void putText(int at, int room, String text) {
        byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
        int count = Record.cut(utf8, room);
        identity.put(identity.base + at, count);
        identity.putBytes(identity.base + at + 8, utf8, count);
    }

    private void anchor(int at) {
        long before = Clock.now();
        long monotonic = System.nanoTime();
        long after = Clock.now();
        identity.put(identity.base + at, before + (after - before) / 2);
        identity.put(identity.base + at + 8, monotonic);
        identity.put(identity.base + at + 16, realTime());
    }

    private void writeIdentity(String name) {
        new SecureRandom().nextBytes(uuid);
        uuid[6] = (byte) (uuid[6] & 0x0f | 0x40);
        uuid[8] = (byte) (uuid[8] & 0x3f | 0x80);
        long base = identity.base;
        identity.put(base + Layout.IDENTITY_VERSION, Layout.VERSION | (long) Layout.PAGE << 32);
        identity.putBytes(base + Layout.IDENTITY_UUID, uuid, 16);
        identity.put(base + Layout.IDENTITY_PID, pid());
        identity.put(base + Layout.IDENTITY_PROCESS_START, processStart);
        identity.putBytes(base + Layout.IDENTITY_BOOT, boot, 16);
        identity.put(base + Layout.IDENTITY_CLOCK, Clock.IS_COUNTER ? 1 : 2);
        identity.put(base + Layout.IDENTITY_FREQUENCY, Clock.FREQUENCY);
        anchor(Layout.IDENTITY_ANCHOR_FIRST);
        identity.put(base + Layout.IDENTITY_STATE, 1);
        putText(Layout.IDENTITY_NAME, Layout.IDENTITY_NAME_BYTES, name);
        putText(Layout.IDENTITY_HOST, Layout.IDENTITY_HOST_BYTES, host());
        putText(Layout.IDENTITY_COMMAND, Layout.IDENTITY_COMMAND_BYTES, text("/proc/self/cmdline").replace('\0', ' ').trim());
        identity.release(base + Layout.IDENTITY_MAGIC, Layout.IDENTITY_MAGIC_VALUE);
    }

    private long makeSetting(int cell, String name, String doc, String unit, long min, long value, boolean isShown, String... choices)
        throws IOException {
        long at = settings.base + Layout.SETTINGS_CELLS + (long) cell * Layout.SETTINGS_CELL_BYTES;
        settings.put(at + Layout.SETTINGS_CONFIRMED, value);
        settings.put(at + Layout.SETTINGS_LEASE_VERSION, Layout.SETTINGS_DESCRIBED);
        settings.put(at + Layout.SETTINGS_VALUE, value);
        Record record = new Record();
        record.u64(cell).u64(min).u64(choices.length - 1).u64(cell == 0 ? 1 : value);
        record.text(name, 256).text(doc, 512).text(unit, 64).u32(choices.length);
        for (String choice : choices) {
            record.text(choice, 64);
        }
        record.text("run", 16).text(isShown ? "never" : "by what is made next", 32).text(isShown ? "nothing" : "set back", 16);
        Record.append(path + "/0000.catalog", record.sealed(Layout.CATALOG_SETTING));
        identity.release(identity.base + Layout.IDENTITY_SETTINGS, cell + 1);
        return at + Layout.SETTINGS_VALUE;
    }

    // ---- the session ----

    private void join(String session, String name) throws IOException {
        String parent = stat("self").length > 1 ? stat("self")[1] : "0";
        Record record = new Record();
        record.raw(uuid).u32(pid()).u32((int) Long.parseLong(parent)).u64(processStart).u64(startOf(parent)).raw(boot).u64(realTime());
        record.text(new File(path).getName(), 1024).text(name, 256).text(host(), 256);
        record.text(System.getProperty("os.arch", "").equals("amd64") ? "x86_64" : "aarch64", 16);
        manifest(session, record.sealed(Layout.CATALOG_JOINED));
    }

    /** Appends to the session's manifest, which is created if it does not exist, after cutting off a record
     * that a killed process left incomplete. */
    private static void manifest(String session, byte[] record) throws IOException {
        String manifest = session + "/session";
        if (!new File(manifest).exists()) {
            String fresh = manifest + ".new-" + thread();
            new File(fresh).delete();
            Record.makeCatalog(fresh, 0);
            try {
                Files.createLink(Paths.get(manifest), Paths.get(fresh));
            } catch (java.nio.file.FileAlreadyExistsException another) {
                // Another process has created the manifest meanwhile.
            }
            new File(fresh).delete();
        }
        int lock = Library.IS_THERE ? Native.lock(manifest.getBytes(StandardCharsets.UTF_8)) : -1;
        try {
            if (lock >= 0) {
                cutOff(manifest);
            }
            // Without the lock, incomplete records are not cut off; the new record is still appended by a
            // single write.
            Record.append(manifest, record);
        } finally {
            if (lock >= 0) {
                Native.unlock(lock);
            }
        }
    }

    private static int u32(byte[] bytes, int at) {
        return bytes[at] & 0xff | (bytes[at + 1] & 0xff) << 8 | (bytes[at + 2] & 0xff) << 16 | bytes[at + 3] << 24;
    }

    private static void cutOff(String manifest) throws IOException {
        byte[] all = read(manifest);
        int at = Layout.CATALOG_HEADER;
        while (at + 16 <= all.length) {
            int bytes = u32(all, at);
            if (bytes < 16 || bytes % 8 != 0 || bytes > all.length - at) {
                break;
            }
            at += bytes;
        }
        if (at < all.length) {
            try (RandomAccessFile file = new RandomAccessFile(manifest, "rw")) {
                file.setLength(at);
            }
        }
    }

    // ---- elements and operations ----

    /** The number of a further writer. */
    synchronized int newWriter() {
        making.add(++writers);
        return writers;
    }

    /** The element with this number is complete, or could not be made. */
    synchronized void made(int number) {
        making.remove(number);
        publishWriters();
    }

    /** Publishes the number up to which no element is being made: readers take all elements up to it as complete. */
    private void publishWriters() {
        identity.release(identity.base + Layout.IDENTITY_WRITERS, making.isEmpty() ? writers : making.first() - 1);
    }

    /** Counts events for which there was no element. */
    void countLost(long count) {
        settings.add(lostAt, count);
    }

    private static int switchesOf(int chunk) {
        return (int) Math.min((long) Layout.SWITCHES_CHUNK_WORDS_FIRST << Math.min(chunk, 16), Layout.SWITCHES_CHUNK_WORDS_MAX);
    }

    /** Declares an operation and its switch; false if that failed. */
    synchronized boolean declare(Operation operation) {
        int chunk = 0;
        int number = probes;
        while (number >= switchesOf(chunk)) {
            number -= switchesOf(chunk++);
        }
        try {
            if (chunk == switches.size()) {
                switches.add(makeSwitches(chunk));
            }
            Memory memory = switches.get(chunk);
            long at = memory.base + Layout.SWITCHES_WORDS + 8L * number;
            boolean on = !Options.chosen().startsOff;
            memory.put(at, on ? 1 : 0);
            byte[] probe = new Record().u32(1).text(operation.name, 24000).sealed(Layout.CATALOG_PROBE);
            Record site = new Record().u64(sites + 1).u64(0).u32(operation.line).u32(0);
            site.text(operation.name, 24000).text(operation.kind, 64).text(operation.file, 4096);
            Record.append(path + "/0000.catalog", Record.both(probe, site.sealed(Layout.CATALOG_SITE)));
            probes++;
            sites++;
            // A process that switches probes from here on finds this probe; switches made earlier are in the
            // space's file `probes`.
            readSwitched();
            for (Switch said : switched) {
                if (said.pattern.matches(operation.name)) {
                    memory.put(at, said.on ? 1 : 0);
                }
            }
            operation.declared(sites, memory, at);
            return true;
        } catch (IOException full) {
            hasUndeclared = true;
            return false;
        }
    }

    private Memory makeSwitches(int chunk) throws IOException {
        int words = switchesOf(chunk);
        Memory memory = Memory.make(path + "/switches." + chunk, Layout.SWITCHES_WORDS + 8L * words);
        for (int n = 0; n < words; n++) {
            memory.put(memory.base + Layout.SWITCHES_WORDS + 8L * n, 1);
        }
        memory.put(memory.base + 8, Layout.VERSION);
        memory.release(memory.base, Layout.SWITCHES_MAGIC_VALUE);
        return memory;
    }

    private void readSwitched() {
        if (new File(path + "/probes").length() <= switchedRead) {
            return;
        }
        byte[] all = read(path + "/probes");
        int at = (int) switchedRead;
        while (at + 16 <= all.length) {
            int bytes = u32(all, at);
            if (bytes < 16 || bytes > all.length - at) {
                break;
            }
            if (u32(all, at + 4) == Layout.CATALOG_SWITCH && bytes >= 32) {
                int length = u32(all, at + 28);
                if (length >= 0 && length <= bytes - 32) {
                    String pattern = new String(all, at + 32, length, StandardCharsets.UTF_8);
                    switched.add(new Switch(u32(all, at + 16) != 0, new Pattern(pattern, '/')));
                }
            }
            at += bytes;
        }
        switchedRead = at;
    }

    /** Marks the orderly end of the process. */
    private void finish() {
        Writer.closeAll();
        long at = identity.base + Layout.IDENTITY_ANCHOR_SECOND;
        long version = identity.get(at) | 1;
        identity.release(at, version);
        anchor(Layout.IDENTITY_ANCHOR_SECOND + 8);
        identity.release(at, version + 1);
        identity.release(identity.base + Layout.IDENTITY_STATE, 2);
        if (inSession) {
            try {
                manifest(Options.chosen().session(), new Record().raw(uuid).u64(realTime()).sealed(Layout.CATALOG_LEFT));
            } catch (IOException gone) {
                // The directory was removed, so no reader looks for the mark.
            }
        }
    }
}
