package org.thalweg.agent;

import java.io.File;
import java.lang.instrument.Instrumentation;
import java.util.jar.JarFile;

/** The class with which the JVM starts the agent: {@code -javaagent:thalweg-agent.jar=include=com.shop.*}. */
public final class Agent {
    private Agent() {}

    public static void premain(String options, Instrumentation instrumentation) {
        start(options, instrumentation);
    }

    public static void agentmain(String options, Instrumentation instrumentation) {
        start(options, instrumentation);
    }

    private static void start(String options, Instrumentation instrumentation) {
        try {
            File jar = new File(Agent.class.getProtectionDomain().getCodeSource().getLocation().toURI());
            ClassLoader loader = Agent.class.getClassLoader();
            if (("," + options + ",").replace(" ", "").contains(",boot=on,")) {
                // All class loaders find classes of the boot loader, so no other class of the agent may be
                // loaded before the JAR is on the boot loader's path. A JVM with shared classes then prints a
                // message on its standard output and starts more slowly, so the agent extends that path only
                // with the option `boot=on`.
                instrumentation.appendToBootstrapClassLoaderSearch(new JarFile(jar));
                loader = null;
            }
            Class.forName("org.thalweg.agent.Start", true, loader)
                .getMethod("start", String.class, String.class, Instrumentation.class)
                .invoke(null, options, jar.getPath(), instrumentation);
        } catch (java.lang.reflect.InvocationTargetException refused) {
            System.err.println("thalweg: nothing is recorded: " + refused.getCause().getMessage());
        } catch (Exception | LinkageError refused) {
            System.err.println("thalweg: nothing is recorded: " + refused);
        }
    }
}
