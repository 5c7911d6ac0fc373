package truth;

import java.io.BufferedWriter;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.io.RandomAccessFile;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.util.ArrayList;
import java.util.Scanner;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadFactory;
import org.thalweg.agent.Probes;

/** What generated programs write of their calls, without probes: a line a call, the operations that enclose it and how it ended. */
public final class Truth {
    /** What a program throws. */
    public static final class Boom extends RuntimeException {
        public Boom() {
            super("boom", null, false, false);
        }
    }

    /** A program's roots. */
    public interface Roots {
        void call(int which);
    }

    private static final ThreadLocal<Truth> HERE = new ThreadLocal<Truth>();
    /** Does what is handed over. */
    private static final ExecutorService OTHERS = Executors.newCachedThreadPool(new ThreadFactory() {
        @Override public Thread newThread(Runnable work) {
            Thread thread = new Thread(work);
            thread.setDaemon(true);
            return thread;
        }
    });

    /** Nothing is handed over: threads are virtual, and many. */
    private static volatile boolean isAlone;

    private final PrintWriter out;
    private final String file;
    private final ArrayList<Future<?>> handed = new ArrayList<Future<?>>();
    private int handedCount;
    private final ArrayList<String> path = new ArrayList<String>();
    private long random;
    private int budget;

    private Truth(String file, long seed) throws IOException {
        this.file = file;
        out = new PrintWriter(new BufferedWriter(new OutputStreamWriter(new FileOutputStream(file), "UTF-8")));
        random = seed * 0x9e3779b97f4a7c15L + 1;
    }

    /** A number below this. */
    public static int below(int limit) {
        Truth here = HERE.get();
        here.random ^= here.random << 13;
        here.random ^= here.random >>> 7;
        here.random ^= here.random << 17;
        return (int) Long.remainderUnsigned(here.random >>> 11, limit);
    }

    /** Whether one call more may be made. */
    public static boolean more() {
        Truth here = HERE.get();
        return here.path.size() < 12 && here.budget-- > 0;
    }

    /** A call begins; how many enclose it. */
    public static int enter(String operation) {
        Truth here = HERE.get();
        here.path.add(operation);
        return here.path.size() - 1;
    }

    /** The same where only an argument can be computed. */
    public static int enter(String operation, int argument) {
        enter(operation);
        return argument;
    }

    /** How many calls are under way. */
    public static int level() {
        return HERE.get().path.size();
    }

    /** The calls above this level end. */
    public static void cut(int level, char how) {
        Truth here = HERE.get();
        while (here.path.size() > level) {
            here.out.println(String.join("/", here.path) + " " + how);
            here.path.remove(here.path.size() - 1);
        }
    }

    /** Another thread makes one of the program's calls, in the trace of this one; whoever has handed it over goes on. */
    public static void handOver(final Roots roots, final int which) {
        if (isAlone) {
            roots.call(which);
            return;
        }
        final Truth here = HERE.get();
        final ArrayList<String> path = new ArrayList<String>(here.path);
        final String file = here.file + "-" + here.handedCount++;
        final long seed = here.random + here.handedCount;
        here.handed.add(OTHERS.submit(Probes.handedOver(new Runnable() {
            @Override public void run() {
                try {
                    Truth there = new Truth(file, seed);
                    there.path.addAll(path);
                    there.budget = 10;
                    HERE.set(there);
                    try {
                        roots.call(which);
                    } catch (Boom boom) {
                        // It may fail.
                    }
                    there.awaited();
                    there.out.close();
                    HERE.remove();
                } catch (IOException broken) {
                    throw new IllegalStateException(broken);
                }
            }
        })));
    }

    /** What was handed over from here has been done. */
    private void awaited() {
        try {
            for (Future<?> work : handed) {
                work.get();
            }
        } catch (Exception broken) {
            throw new IllegalStateException(broken);
        }
        handed.clear();
    }

    private static Thread roots(final Roots roots, final String file, final long seed, final int count, final boolean isVirtual) throws Exception {
        Runnable work = new Runnable() {
            @Override public void run() {
                try {
                    Truth here = new Truth(file, seed);
                    HERE.set(here);
                    for (int n = 0; n < count; n++) {
                        here.budget = 60;
                        try {
                            roots.call(below(1000));
                        } catch (Boom boom) {
                            // A root may fail.
                        }
                        here.awaited();
                    }
                    here.out.close();
                } catch (IOException broken) {
                    throw new IllegalStateException(broken);
                }
            }
        };
        if (isVirtual) {
            return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, work);
        }
        Thread thread = new Thread(work);
        thread.start();
        return thread;
    }

    private static void endless(String file, int threads) throws Exception {
        final MappedByteBuffer counters =
            new RandomAccessFile(file, "rw").getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 4096);
        counters.order(ByteOrder.LITTLE_ENDIAN);
        for (int n = 0; n < threads; n++) {
            final int at = 16 * n;
            new Thread() {
                @Override public void run() {
                    for (long calls = 1; true; calls++) {
                        counters.putLong(at, calls);
                        Loops.one();
                        counters.putLong(at + 8, calls);
                        for (int pause = 0; pause < 300; pause++) {
                            Loops.sink += pause;
                        }
                    }
                }
            }.start();
        }
    }

    /** What is called for ever, and on demand. */
    public static final class Loops {
        static volatile long sink;

        private Loops() {}

        static void one() {}

        static void two() {}
    }

    /** trees CLASS SEED COUNT THREADS FILE [virtual] | many FIRST LAST COUNT FILE | endless THREADS FILE | alternate. */
    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("endless")) {
            endless(arguments[2], Integer.parseInt(arguments[1]));
            return;
        }
        if (arguments[0].equals("many")) {
            for (int seed = Integer.parseInt(arguments[1]); seed <= Integer.parseInt(arguments[2]); seed++) {
                String of = arguments[4] + "." + seed;
                trees("g" + seed + ".Program", seed, Integer.parseInt(arguments[3]), seed % 4 + 1, of, false);
            }
            return;
        }
        if (arguments[0].equals("alternate")) {
            Scanner in = new Scanner(System.in);
            while (in.hasNextInt()) {
                int calls = in.nextInt();
                for (int n = 0; n < calls; n++) {
                    Loops.one();
                    Loops.two();
                }
                System.out.println(calls);
            }
            return;
        }
        trees(arguments[1], Long.parseLong(arguments[2]), Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]), arguments[5],
            arguments.length > 6);
    }

    private static void trees(String program, long seed, int count, int threads, String truth, boolean isVirtual) throws Exception {
        isAlone = isVirtual;
        Roots roots = (Roots) Class.forName(program).getDeclaredConstructor().newInstance();
        // Two waves: threads of the second take over the elements of the first.
        for (int wave = 0; wave < 2; wave++) {
            Thread[] all = new Thread[threads];
            for (int n = 0; n < threads; n++) {
                String file = truth + "." + wave + "-" + n;
                all[n] = roots(roots, file, seed * 1000 + wave * 100 + n, count, isVirtual);
            }
            for (Thread thread : all) {
                thread.join();
            }
        }
    }
}
