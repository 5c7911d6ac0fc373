package org.thalweg.agent;

import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/** Inserts probes into the methods of the classes that the patterns name. A class that cannot be changed is
 * left unchanged. */
final class Transformer implements ClassFileTransformer {
    /** Classes of the platform, and of agents, which are not part of the program. */
    private static final String[] NEVER = {
        "java/", "javax/", "jdk/", "sun/", "com/sun/", "org/thalweg/agent/", "net/bytebuddy/", "kieker/", "io/opentelemetry/javaagent/",
    };

    private final List<Pattern> include = new ArrayList<Pattern>();
    private final List<Pattern> includeClass = new ArrayList<Pattern>();
    private final List<Pattern> exclude = new ArrayList<Pattern>();
    /** Whether a class has probes. */
    private volatile boolean hasChanged;
    /** Whether the classes of a class loader can use the agent's classes. */
    private final Map<ClassLoader, Boolean> sees = Collections.synchronizedMap(new WeakHashMap<ClassLoader, Boolean>());

    Transformer(Options options) {
        for (String text : options.include) {
            Pattern pattern = new Pattern(text, Pattern.NONE);
            include.add(pattern);
            includeClass.add(pattern);
            if (pattern.ofClass() != null) {
                includeClass.add(pattern.ofClass());
            }
        }
        for (String text : options.exclude) {
            exclude.add(new Pattern(text, Pattern.NONE));
        }
    }

    private static boolean any(List<Pattern> patterns, String name) {
        for (int n = 0; n < patterns.size(); n++) {
            if (patterns.get(n).matches(name)) {
                return true;
            }
        }
        return false;
    }

    @Override public byte[] transform(ClassLoader loader, String internalName, Class<?> redefined, ProtectionDomain domain, byte[] code) {
        if (internalName == null || redefined != null) {
            return null;
        }
        for (String prefix : NEVER) {
            if (internalName.startsWith(prefix)) {
                return null;
            }
        }
        try {
            String name = internalName.replace('/', '.');
            if (!any(includeClass, name) || any(exclude, name) || loader == null || !seesOurs(loader)) {
                return null;
            }
            return changed(name, code);
        } catch (Throwable refused) {
            // The program continues with its class unchanged.
            return null;
        }
    }

    boolean hasChanged() {
        return hasChanged;
    }

    private boolean seesOurs(ClassLoader loader) {
        Boolean known = sees.get(loader);
        if (known == null) {
            try {
                known = Class.forName("org.thalweg.agent.Probe", false, loader) == Probe.class;
            } catch (ClassNotFoundException | LinkageError other) {
                known = false;
            }
            sees.put(loader, known);
        }
        return known;
    }

    private byte[] changed(String name, byte[] code) {
        ClassReader reader = new ClassReader(code);
        Survey survey = new Survey(name);
        reader.accept(survey, ClassReader.SKIP_FRAMES);
        if (survey.names.isEmpty()) {
            return null;
        }
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        reader.accept(new Change(writer, survey), ClassReader.EXPAND_FRAMES);
        hasChanged = true;
        return writer.toByteArray();
    }

    /** The methods of a class that have probes, with their names and lines. */
    private final class Survey extends ClassVisitor {
        /** The names, by name and descriptor. */
        final Map<String, String> names = new HashMap<String, String>();
        final Map<String, Integer> lines = new HashMap<String, Integer>();
        final Map<String, Integer> overloads = new HashMap<String, Integer>();
        String file = "";
        private final String className;

        Survey(String className) {
            super(Opcodes.ASM9);
            this.className = className;
        }

        @Override public void visitSource(String source, String debug) {
            file = source == null ? "" : source;
        }

        @Override public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
            boolean hasCode = (access & (Opcodes.ACC_ABSTRACT | Opcodes.ACC_NATIVE)) == 0;
            boolean isMade = (access & Opcodes.ACC_BRIDGE) != 0 || (access & Opcodes.ACC_SYNTHETIC) != 0 && name.startsWith("access$");
            if (!hasCode || isMade || name.equals("<clinit>")) {
                return null;
            }
            final String key = name + descriptor;
            Integer count = overloads.get(name);
            overloads.put(name, count == null ? 1 : count + 1);
            String full = className + "." + name;
            if ((any(include, className) || any(include, full)) && !any(exclude, full)) {
                names.put(key, full);
            }
            return new MethodVisitor(Opcodes.ASM9) {
                @Override public void visitLineNumber(int line, org.objectweb.asm.Label start) {
                    if (!lines.containsKey(key)) {
                        lines.put(key, line);
                    }
                }
            };
        }

        /** The name of a method's operation; methods with the same name are distinguished by their
         * parameters. */
        String operation(String name, String descriptor) {
            String full = names.get(name + descriptor);
            if (full == null || overloads.get(name) < 2) {
                return full;
            }
            StringBuilder text = new StringBuilder(full).append('(');
            String comma = "";
            for (Type type : Type.getArgumentTypes(descriptor)) {
                String of = type.getClassName();
                text.append(comma).append(of.substring(of.lastIndexOf('.') + 1));
                comma = ", ";
            }
            return text.append(')').toString();
        }
    }

    /** Inserts the probes. */
    private static final class Change extends ClassVisitor {
        private final Survey survey;
        private int version;
        private String owner;

        Change(ClassVisitor next, Survey survey) {
            super(Opcodes.ASM9, next);
            this.survey = survey;
        }

        @Override public void visit(int version, int access, String name, String signature, String superName, String[] interfaces) {
            this.version = version & 0xffff;
            owner = name;
            super.visit(version, access, name, signature, superName, interfaces);
        }

        @Override public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
            MethodVisitor next = super.visitMethod(access, name, descriptor, signature, exceptions);
            String operation = survey.operation(name, descriptor);
            if (operation == null) {
                return next;
            }
            Integer line = survey.lines.get(name + descriptor);
            ProbedMethod.Place place = new ProbedMethod.Place(operation, survey.file, line == null ? 0 : line, version);
            return new ProbedMethod(next, access, name, descriptor, place);
        }
    }
}
