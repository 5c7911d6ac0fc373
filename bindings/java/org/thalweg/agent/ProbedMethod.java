package org.thalweg.agent;

import java.util.HashSet;
import java.util.Set;
import org.objectweb.asm.Handle;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.commons.AdviceAdapter;

/**
 * A method with a probe. The probe begins before all other code, in a constructor before that of the super
 * class; it ends before each return, and where an exception leaves the method.
 */
final class ProbedMethod extends AdviceAdapter {
    private static final String WRITER = "org/thalweg/agent/Writer";
    private static final String PROBE = "org/thalweg/agent/Probe";
    private static final String END = "(L" + WRITER + ";I)V";
    private static final boolean HANDS_OVER = Options.chosen().executors;
    private static final Handle BOOTSTRAP = new Handle(Opcodes.H_INVOKESTATIC, PROBE, "bootstrap",
        "(Ljava/lang/invoke/MethodHandles$Lookup;Ljava/lang/String;Ljava/lang/invoke/MethodType;Ljava/lang/String;Ljava/lang/String;"
            + "Ljava/lang/String;I)Ljava/lang/invoke/CallSite;", false);

    /** The description of the method in the catalog. */
    static final class Place {
        final String operation;
        final String file;
        final int line;
        /** The version of the class file that contains the method. */
        final int version;

        Place(String operation, String file, int line, int version) {
            this.operation = operation;
            this.file = file;
            this.line = line;
            this.version = version;
        }
    }

    private final Place place;
    private final boolean isConstructor;
    /** The number of locals at the beginning of its code: the parameters. */
    private final int parameters;
    private final Label begin = new Label();
    private final Label madeSuper = new Label();
    /** The start of the last call of a constructor that may be the call of the super class's constructor. */
    private Label beforeSuper;
    private final Set<Label> handlers = new HashSet<Label>();
    private boolean isCaught;
    private int writer;
    private int depth;
    private int supers;

    ProbedMethod(MethodVisitor next, int access, String name, String descriptor, Place place) {
        super(Opcodes.ASM9, next, access, name, descriptor);
        this.place = place;
        isConstructor = name.equals("<init>");
        parameters = (Type.getArgumentsAndReturnSizes(descriptor) >> 2) - ((access & Opcodes.ACC_STATIC) != 0 ? 1 : 0);
    }

    @Override public void visitCode() {
        super.visitCode();
        String kind = isConstructor ? "constructor" : "operation";
        writer = newLocal(Type.getObjectType(WRITER));
        depth = newLocal(Type.INT_TYPE);
        if (place.version >= Opcodes.V1_7) {
            mv.visitInvokeDynamicInsn("enter", "()L" + WRITER + ";", BOOTSTRAP, place.operation, kind, place.file, place.line);
        } else {
            mv.visitLdcInsn(place.operation);
            mv.visitLdcInsn(kind);
            mv.visitLdcInsn(place.file);
            mv.visitLdcInsn(place.line);
            mv.visitMethodInsn(INVOKESTATIC, PROBE, "enter",
                "(Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;I)L" + WRITER + ";", false);
        }
        mv.visitVarInsn(ASTORE, writer);
        mv.visitVarInsn(ALOAD, writer);
        mv.visitMethodInsn(INVOKESTATIC, PROBE, "depth", "(L" + WRITER + ";)I", false);
        mv.visitVarInsn(ISTORE, depth);
        mv.visitLabel(begin);
    }

    @Override public void visitMethodInsn(int opcode, String owner, String name, String descriptor, boolean isInterface) {
        if (isConstructor && supers == 0 && opcode == INVOKESPECIAL && name.equals("<init>")) {
            beforeSuper = new Label();
            mv.visitLabel(beforeSuper);
        }
        if (HANDS_OVER) {
            handOver(owner, name, descriptor);
        }
        super.visitMethodInsn(opcode, owner, name, descriptor, isInterface);
    }

    /**
     * Hands work over if the called method gives it to an executor or to a thread. The work is the only argument, or the
     * first of two, and the second is a result, an executor or a name.
     */
    private void handOver(String owner, String name, String descriptor) {
        boolean isThread = owner.equals("java/lang/Thread") && (name.equals("<init>") || name.equals("startVirtualThread"))
            || owner.startsWith("java/lang/Thread$Builder") && (name.equals("start") || name.equals("unstarted"));
        boolean isExecutor = owner.startsWith("java/util/concurrent/")
            && (name.equals("execute") || name.equals("submit") || name.equals("runAsync") || name.equals("supplyAsync"));
        Type[] arguments = Type.getArgumentTypes(descriptor);
        if (!isThread && !isExecutor || arguments.length == 0 || arguments.length > 2) {
            return;
        }
        String work = arguments[0].getDescriptor();
        String how = work.equals("Ljava/lang/Runnable;") ? "work"
            : work.equals("Ljava/util/concurrent/Callable;") ? "call"
            : work.equals("Ljava/util/function/Supplier;") ? "supply" : null;
        if (how == null || arguments.length == 2 && arguments[1].getSize() != 1) {
            return;
        }
        if (arguments.length == 2) {
            mv.visitInsn(SWAP);
        }
        mv.visitMethodInsn(INVOKESTATIC, "org/thalweg/agent/HandedOver", how, "(" + work + ")" + work, false);
        if (arguments.length == 2) {
            mv.visitInsn(SWAP);
        }
    }

    @Override public void visitTryCatchBlock(Label start, Label end, Label handler, String type) {
        handlers.add(handler);
        super.visitTryCatchBlock(start, end, handler, type);
    }

    @Override public void visitLabel(Label label) {
        super.visitLabel(label);
        isCaught |= handlers.contains(label);
    }

    /** At a handler of an exception, ends calls that the exception left without running their probes. */
    @Override public void visitFrame(int type, int localCount, Object[] locals, int stackCount, Object[] stack) {
        super.visitFrame(type, localCount, locals, stackCount, stack);
        if (isCaught) {
            isCaught = false;
            end("caught");
        }
    }

    @Override protected void onMethodEnter() {
        if (isConstructor && supers++ == 0) {
            mv.visitLabel(madeSuper);
        }
    }

    @Override protected void onMethodExit(int opcode) {
        // An exception that is thrown here may be caught in this method.
        if (opcode != ATHROW) {
            end("returned");
        }
    }

    private void end(String how) {
        mv.visitVarInsn(ALOAD, writer);
        mv.visitVarInsn(ILOAD, depth);
        mv.visitMethodInsn(INVOKESTATIC, PROBE, how, END, false);
    }

    @Override public void visitMaxs(int maxStack, int maxLocals) {
        if (isConstructor && supers != 1) {
            throw new IllegalStateException("a constructor with several calls of others");
        }
        Label end = new Label();
        mv.visitLabel(end);
        if (!isConstructor) {
            handle(begin, end, false);
        } else {
            handle(madeSuper, end, false);
            // Verifiers allow no handler around the call of the super class's constructor itself: see
            // `caught`.
            if (place.version >= Opcodes.V1_7 && begin.getOffset() < beforeSuper.getOffset()) {
                handle(begin, beforeSuper, true);
            }
        }
        super.visitMaxs(maxStack, maxLocals);
    }

    /** Adds a handler for exceptions that leave the part of the method between these labels; it may use no
     * locals but the probe's. */
    private void handle(Label from, Label to, boolean isUnmade) {
        Label handler = new Label();
        mv.visitTryCatchBlock(from, to, handler, null);
        mv.visitLabel(handler);
        if (place.version >= Opcodes.V1_6) {
            Object[] locals = new Object[parameters + 2];
            java.util.Arrays.fill(locals, Opcodes.TOP);
            if (isUnmade) {
                locals[0] = Opcodes.UNINITIALIZED_THIS;
            }
            locals[parameters] = WRITER;
            locals[parameters + 1] = Opcodes.INTEGER;
            mv.visitFrame(Opcodes.F_NEW, locals.length, locals, 1, new Object[] {"java/lang/Throwable"});
        }
        end("unwound");
        mv.visitInsn(ATHROW);
    }
}
