package org.thalweg.agent;

import java.lang.invoke.CallSite;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.concurrent.ConcurrentHashMap;

/** The functions that instrumented methods call. */
public final class Probe {
    /** Whether a call is recorded by two events. The JIT compiler treats this final field as a constant. */
    static final boolean PAIRS = Options.chosen().pairs;
    private static final ConcurrentHashMap<String, Operation> OPERATIONS = new ConcurrentHashMap<String, Operation>();

    private Probe() {}

    /** Links a call site at which a call begins. */
    public static CallSite bootstrap(MethodHandles.Lookup lookup, String ignored, MethodType type, String name, String kind, String file, int line) {
        return operation(name, kind, file, line).site();
    }

    /** The operation with this name, which is declared if needed. */
    static Operation operation(String name, String kind, String file, int line) {
        Operation operation = OPERATIONS.get(name);
        if (operation == null) {
            synchronized (OPERATIONS) {
                operation = OPERATIONS.get(name);
                if (operation == null) {
                    operation = new Operation(name, kind, file, line);
                    Space space = Space.get();
                    if (space != null) {
                        space.declare(operation);
                    }
                    OPERATIONS.put(name, operation);
                }
            }
        }
        return operation;
    }

    static Iterable<Operation> operations() {
        return OPERATIONS.values();
    }

    /** Begins a call. */
    static Writer enter(Operation operation) {
        Writer writer = Writer.here();
        return writer == null ? null : writer.enter(operation);
    }

    /** Begins a call in a class that is too old for call sites. */
    public static Writer enter(String name, String kind, String file, int line) {
        Operation operation = operation(name, kind, file, line);
        Writer writer = operation.writer();
        return writer == null ? null : writer.enter(operation);
    }

    /** The depth that must be passed to the end of the call. */
    public static int depth(Writer writer) {
        return writer == null ? 0 : writer.depth;
    }

    /** Handles an exception that a call catches: calls inside it that have not ended are over. */
    public static void caught(Writer writer, int depth) {
        if (writer != null && depth > 0 && writer.depth > depth) {
            writer.cutTo(depth);
        }
    }

    /** Ends a call that returned. */
    public static void returned(Writer writer, int depth) {
        if (writer != null) {
            writer.exit(depth, 0);
        }
    }

    /** Ends a call that an exception left. */
    public static void unwound(Writer writer, int depth) {
        if (writer != null) {
            writer.exit(depth, 2);
        }
    }
}
