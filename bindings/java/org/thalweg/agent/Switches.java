package org.thalweg.agent;

import java.lang.invoke.MutableCallSite;
import java.util.ArrayList;
import java.util.List;
import org.thalweg.Layout;

/** Follows the switches of operations, so that operations that are off cost nothing: their call sites then do
 * nothing. */
final class Switches extends Thread {
    private static final long PAUSE_MS = 20;
    /** After so many pauses, operations for whose declarations the disk had no room are declared again. */
    private static final long TURNS_TO_DECLARE = 50;

    private final Space space;

    private Switches(Space space) {
        super("thalweg-switches");
        this.space = space;
    }

    static void start(Space space) {
        Switches thread = new Switches(space);
        thread.setDaemon(true);
        // The thread must not prevent the program's classes from being unloaded.
        thread.setContextClassLoader(null);
        thread.start();
    }

    @Override public void run() {
        long at = space.settings.base + Layout.SETTINGS_CHANGES;
        long seen = 0;
        for (long turn = 1; true; turn++) {
            long changes = space.settings.acquire(at);
            if (changes != seen || turn % TURNS_TO_DECLARE == 0 && space.hasUndeclared) {
                seen = changes;
                space.hasUndeclared = false;
                List<MutableCallSite> changed = new ArrayList<MutableCallSite>();
                for (Operation operation : Probe.operations()) {
                    operation.follow(changed);
                }
                if (!changed.isEmpty()) {
                    MutableCallSite.syncAll(changed.toArray(new MutableCallSite[0]));
                }
            }
            try {
                Thread.sleep(PAUSE_MS);
            } catch (InterruptedException told) {
                return;
            }
        }
    }
}
