package org.thalweg.agent;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.MutableCallSite;
import java.util.ArrayList;
import java.util.List;

/** A method, or another place of the program, whose calls are recorded. */
final class Operation {
    private static final MethodType TYPE = MethodType.methodType(Writer.class);
    private static final MethodHandle ENTER;
    private static final MethodHandle OFF = MethodHandles.constant(Writer.class, null);

    static {
        try {
            ENTER = MethodHandles.lookup().findStatic(Probe.class, "enter", MethodType.methodType(Writer.class, Operation.class));
        } catch (ReflectiveOperationException broken) {
            throw new IllegalStateException(broken);
        }
    }

    final String name;
    final String kind;
    final String file;
    final int line;
    /** The number in the catalog; 0 if the operation is not declared. */
    long id;
    /** Whether calls of the operation are not recorded; callers without a call site of their own test it. */
    volatile boolean isOff = true;
    private Memory switches;
    private long at;
    private final List<MutableCallSite> sites = new ArrayList<MutableCallSite>(1);

    Operation(String name, String kind, String file, int line) {
        this.name = name;
        this.kind = kind;
        this.file = file;
        this.line = line;
    }

    void declared(int number, Memory memory, long place) {
        id = number;
        switches = memory;
        at = place;
        isOff = memory.acquire(place) == 0;
    }

    /** A call site that calls {@link Probe#enter} while the operation is on, and does nothing while it is
     * off. */
    synchronized MutableCallSite site() {
        MutableCallSite site = new MutableCallSite(target());
        sites.add(site);
        return site;
    }

    private MethodHandle target() {
        return isOff ? OFF : MethodHandles.insertArguments(ENTER, 0, this).asType(TYPE);
    }

    /** Applies the state of the switch; changed call sites are added to the list. */
    synchronized void follow(List<MutableCallSite> changed) {
        boolean off = switches == null || switches.acquire(at) == 0;
        if (off != isOff) {
            isOff = off;
            for (MutableCallSite site : sites) {
                site.setTarget(target());
                changed.add(site);
            }
        }
    }
}
