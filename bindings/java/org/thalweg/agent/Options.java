package org.thalweg.agent;

import java.io.File;
import java.util.ArrayList;
import java.util.List;

/** The agent's options: {@code name=value} with commas between; an option that is missing is read from its
 * environment variable, if that is set. */
final class Options {
    private static Options chosen = new Options();

    /** Patterns of classes and operations. */
    final List<String> include = new ArrayList<String>();
    final List<String> exclude = new ArrayList<String>();
    /** The agent's own JAR. */
    String jar;
    String nativeCode = "auto";
    /** Whether a call is recorded by two events: at its begin and at its end. */
    boolean pairs;
    /** Whether work that recorded methods give to executors and threads is handed over. */
    boolean executors;
    /** Whether operations are off until they are switched on. */
    boolean startsOff;
    /** One of this many traces is recorded. */
    long sample = 1;
    private String space = present(System.getenv("THALWEG_SPACES"));
    private String session = present(System.getenv("THALWEG_SESSION"));
    private long bytes = number(present(System.getenv("THALWEG_PROBE_BYTES")), 1 << 20);
    private int policy = Math.max(0, policy(present(System.getenv("THALWEG_PROBE_FULL"))));

    static Options chosen() {
        return chosen;
    }

    /** Parses the text after the {@code =} of {@code -javaagent}. */
    static void choose(String text, String jar) {
        Options options = new Options();
        options.jar = jar;
        String last = "";
        for (String part : (text == null ? "" : text).split(",")) {
            String said = part.trim();
            if (said.isEmpty()) {
                continue;
            }
            int equals = said.indexOf('=');
            // In `include=a.*,b.*` a value without a name belongs to the option before it.
            String name = equals < 0 ? last : said.substring(0, equals).trim();
            String value = equals < 0 ? said : said.substring(equals + 1).trim();
            options.set(name, value);
            last = name;
        }
        if (options.include.isEmpty()) {
            options.include.add("*");
        }
        chosen = options;
    }

    private void set(String name, String value) {
        switch (name) {
            case "include":
                include.add(value);
                break;
            case "exclude":
                exclude.add(value);
                break;
            case "space":
                space = value;
                break;
            case "session":
                session = value;
                break;
            case "bytes":
                bytes = number(value, -1);
                wants(bytes > 0, name, value, "a number such as 64k or 16M");
                break;
            case "full":
                policy = policy(value);
                wants(policy >= 0, name, value, "overwrite, drop or wait");
                break;
            case "native":
                wants(value.equals("on") || value.equals("off") || value.equals("auto"), name, value, "on, off or auto");
                nativeCode = value;
                break;
            case "events":
                wants(value.equals("calls") || value.equals("pairs"), name, value, "calls or pairs");
                pairs = value.equals("pairs");
                break;
            case "start":
                wants(value.equals("on") || value.equals("off"), name, value, "on or off");
                startsOff = value.equals("off");
                break;
            case "boot":
                // The class `Agent` has already handled this option.
                wants(value.equals("on") || value.equals("off"), name, value, "on or off");
                break;
            case "executors":
                wants(value.equals("on") || value.equals("off"), name, value, "on or off");
                executors = value.equals("on");
                break;
            case "sample":
                sample = number(value, -1);
                wants(sample > 0, name, value, "a number from 1");
                break;
            default:
                throw new IllegalArgumentException("there is no option `" + name
                    + "`; there are include, exclude, space, session, bytes, full, sample, events, start, executors, native, boot");
        }
    }

    private static void wants(boolean good, String name, String value, String what) {
        if (!good) {
            throw new IllegalArgumentException("`" + name + "=" + value + "`: " + what + " is wanted");
        }
    }

    private static String present(String value) {
        return value == null || value.isEmpty() ? null : value;
    }

    private static int policy(String text) {
        return text == null || text.equals("overwrite") ? 0 : text.equals("drop") ? 1 : text.equals("wait") ? 2 : -1;
    }

    /** A number such as 64k or 16M. */
    private static long number(String text, long otherwise) {
        if (text == null || !text.matches("[0-9]{1,12}[kKMG]?")) {
            return otherwise;
        }
        int shift = " kMG".indexOf(text.replace('K', 'k').charAt(text.length() - 1));
        String digits = shift > 0 ? text.substring(0, text.length() - 1) : text;
        return Long.parseLong(digits) << 10 * Math.max(0, shift);
    }

    long blockBytes() {
        long block = 65536;
        while (block > 4096 && block * 4 > bytes) {
            block /= 2;
        }
        return block;
    }

    /** The number of blocks, such that a mapping has less than Java's limit of 2 GiB. */
    int blockCount() {
        return (int) Math.max(2, Math.min(bytes / blockBytes(), ((1L << 31) - (1 << 20)) / blockBytes()));
    }

    int policy() {
        return policy;
    }

    /** The directory of spaces; null if there is none. */
    String spaces() {
        if (space != null) {
            return space;
        }
        File memory = new File("/dev/shm");
        if (memory.isDirectory()) {
            return "/dev/shm/thalweg-" + Space.user();
        }
        String runtime = present(System.getenv("XDG_RUNTIME_DIR"));
        return runtime == null ? null : runtime + "/thalweg";
    }

    /** The directory of the session; null if it joins none. */
    String session() {
        if (session == null) {
            return null;
        }
        return session.indexOf('/') >= 0 ? session : spaces() + "/" + session;
    }
}
