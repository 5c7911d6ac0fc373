package org.thalweg.agent;

import java.lang.invoke.MutableCallSite;
import java.util.ArrayList;
import java.util.List;
import org.thalweg.Layout;

/** Follows the switches of operations, so that operations that are off cost nothing: their call sites then do
 * nothing. */
final class Switches extends Thread {
    private static final long PAUSE_MS = 20;

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
        while (true) {
            long changes = space.settings.acquire(at);
            if (changes != seen) {
                seen = changes;
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
