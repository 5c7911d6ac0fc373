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
        instrumentation.addTransformer(new Transformer(Options.chosen()), false);
    }
}
