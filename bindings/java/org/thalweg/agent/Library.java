package org.thalweg.agent;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.Method;

/** Finds and loads the library in C: beside the JAR, or extracted from it into a folder where files can be
 * written and executed. */
final class Library {
    static final String NAME = "libthalweg_agent.so";
    /** Whether the library is loaded. */
    static final boolean IS_THERE = load();

    private Library() {}

    private static boolean load() {
        String wish = Options.chosen().nativeCode;
        if (wish.equals("off") || (!wish.equals("on") && Memory.version() >= 24 && !isAllowed())) {
            return false;
        }
        String jar = Options.chosen().jar;
        if (jar != null) {
            File beside = new File(new File(jar).getAbsoluteFile().getParentFile(), NAME);
            if (beside.isFile() && loads(beside)) {
                return true;
            }
        }
        byte[] code = code();
        if (code == null) {
            return false;
        }
        for (String folder : new String[] {Options.chosen().spaces(), System.getProperty("java.io.tmpdir"), "/var/tmp", "."}) {
            if (folder != null && new File(folder).isDirectory()) {
                // If files cannot be made or executed in a folder, as in many containers, the next one is
                // tried.
                File file = new File(folder, ".thalweg-agent-" + Space.pid() + "-" + System.nanoTime() + ".so");
                boolean done = write(file, code) && loads(file);
                file.delete();
                if (done) {
                    return true;
                }
            }
        }
        return false;
    }

    /** From version 24 on a JVM prints a warning when a library is loaded, unless it was allowed by {@code
     * --enable-native-access=ALL-UNNAMED}. */
    private static boolean isAllowed() {
        try {
            Object module = Class.class.getMethod("getModule").invoke(Library.class);
            Method asks = Class.forName("java.lang.Module").getMethod("isNativeAccessEnabled");
            return (Boolean) asks.invoke(module);
        } catch (ReflectiveOperationException | RuntimeException absent) {
            return false;
        }
    }

    private static boolean loads(File file) {
        try {
            System.load(file.getAbsolutePath());
            return true;
        } catch (UnsatisfiedLinkError | RuntimeException refused) {
            return false;
        }
    }

    private static boolean write(File file, byte[] code) {
        try (OutputStream out = new FileOutputStream(file)) {
            out.write(code);
            return true;
        } catch (IOException refused) {
            return false;
        }
    }

    private static byte[] code() {
        String machine = System.getProperty("os.arch", "");
        try (InputStream in = ClassLoader.getSystemResourceAsStream("native/" + machine + "/" + NAME)) {
            if (in == null) {
                return null;
            }
            return Space.all(in);
        } catch (IOException broken) {
            return null;
        }
    }
}
