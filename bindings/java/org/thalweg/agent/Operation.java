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
    private static final MethodHandle NOT_RECORDED;

    static {
        try {
            NOT_RECORDED = MethodHandles.lookup().findStatic(Operation.class, "notRecorded", TYPE);
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

    /** Counts a call that cannot be recorded, because the disk had no room to declare the operation. */
    private static Writer notRecorded() {
        Space space = Space.get();
        if (space != null) {
            space.countLost(1);
        }
        return null;
    }

    /** The thread's writer if calls of the operation are recorded, else null. A call that cannot be recorded
     * is counted. */
    Writer writer() {
        if (isOff) {
            return id == 0 ? notRecorded() : null;
        }
        return Writer.here();
    }

    private MethodHandle target() {
        if (id == 0) {
            return Space.get() == null ? OFF : NOT_RECORDED;
        }
        return isOff ? OFF : MethodHandles.insertArguments(ENTER, 0, this).asType(TYPE);
    }

    /** Applies the state of the switch, after another try to declare an operation that is not declared yet.
     * Changed call sites are added to the list. */
    synchronized void follow(List<MutableCallSite> changed) {
        boolean isNew = id == 0;
        if (isNew) {
            Space space = Space.get();
            if (space == null || !space.declare(this)) {
                return;
            }
        }
        boolean off = switches.acquire(at) == 0;
        if (isNew || off != isOff) {
            isOff = off;
            for (MutableCallSite site : sites) {
                site.setTarget(target());
                changed.add(site);
            }
        }
    }
}
