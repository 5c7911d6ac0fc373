package org.thalweg.agent;

import java.lang.instrument.Instrumentation;

/** The start of the agent, in the class loader from which its classes are used. */
public final class Start {
    private static boolean done;

    private Start() {}

    public static synchronized void start(String options, String jar, Instrumentation instrumentation) {
        if (done) {
            throw new IllegalStateException("the agent is there already");
        }
        try {
            Options.choose(options, jar);
        } catch (RuntimeException refused) {
            // After the agent has refused its options, probes of the program itself record nothing either.
            Space.refuse();
            throw refused;
        }
        if ("off".equals(System.getenv("THALWEG_PROBE"))) {
            return;
        }
        done = true;
        Transformer transformer = new Transformer(Options.chosen());
        instrumentation.addTransformer(transformer, false);
        Runtime.getRuntime().addShutdownHook(new NothingMatched(transformer));
    }

    /** Says at the end of the program that none of its classes had probes, and that it recorded nothing else. */
    private static final class NothingMatched extends Thread {
        private final Transformer transformer;

        NothingMatched(Transformer transformer) {
            super("thalweg-matched");
            this.transformer = transformer;
        }

        @Override public void run() {
            if (!transformer.hasChanged() && !Space.isDecided()) {
                StringBuilder patterns = new StringBuilder();
                for (String pattern : Options.chosen().include) {
                    patterns.append(patterns.length() == 0 ? "" : ",").append(pattern);
                }
                System.err.println("thalweg: nothing is recorded: no class of the program matches include=" + patterns
                    + " (a class inside another is named as com.shop.Shop$Cart)");
            }
        }
    }
}
