package org.thalweg;

/** The kinds of event and of live row that Thalweg has. Written by `cargo xtask kinds` from the files in kinds/. */
public final class Kinds {
    private Kinds() {}

    /** A setting's new value was adopted. */
    public static final class SpaceSettingAdopted {
        private SpaceSettingAdopted() {}
        public static final String NAME = "space.setting_adopted";
        public static final long HASH = 0xa0c933fed3e1330bL;
        public static final int WORDS = 5;
        /** The setting. */
        public static final int AT_NAME = 0;
        public static final int TYPE_NAME = Layout.FIELD_NAME;
        /** The previous value. */
        public static final int AT_OLD = 8;
        public static final int TYPE_OLD = Layout.FIELD_U64;
        /** The new value. */
        public static final int AT_NEW = 16;
        public static final int TYPE_NEW = Layout.FIELD_U64;
        /** The process that set the value; 0: unknown. */
        public static final int AT_PID = 24;
        public static final int TYPE_PID = Layout.FIELD_U32;
        /** The user that set the value. */
        public static final int AT_USER = 28;
        public static final int TYPE_USER = Layout.FIELD_U32;
        /** The name of the tool that set the value; empty if the tool gave none. */
        public static final int AT_TOOL = 32;
        public static final int TYPE_TOOL = Layout.FIELD_STR;
    }

    /** A setting was changed under a lease: the process restores the former value unless the lease is renewed or confirmed. */
    public static final class SpaceSettingLeased {
        private SpaceSettingLeased() {}
        public static final String NAME = "space.setting_leased";
        public static final long HASH = 0x1f92459219ad6e73L;
        public static final int WORDS = 6;
        /** The setting. */
        public static final int AT_NAME = 0;
        public static final int TYPE_NAME = Layout.FIELD_NAME;
        /** The value under the lease. */
        public static final int AT_VALUE = 8;
        public static final int TYPE_VALUE = Layout.FIELD_U64;
        /** The value that was confirmed last, which the end of the lease restores. */
        public static final int AT_CONFIRMED = 16;
        public static final int TYPE_CONFIRMED = Layout.FIELD_U64;
        /** The duration of the lease without renewal; all bits set: no time limit. */
        public static final int AT_LASTS = 24;
        public static final int TYPE_LASTS = Layout.FIELD_U64;
        /** Whether the lease ends with the process that holds it. */
        public static final int AT_WHILE_ALIVE = 32;
        public static final int TYPE_WHILE_ALIVE = Layout.FIELD_BOOL;
        /** The process that holds the lease. */
        public static final int AT_PID = 36;
        public static final int TYPE_PID = Layout.FIELD_U32;
        /** The user that holds the lease. */
        public static final int AT_USER = 40;
        public static final int TYPE_USER = Layout.FIELD_U32;
        /** The name of the tool that holds the lease; empty if the tool gave none. */
        public static final int AT_TOOL = 44;
        public static final int TYPE_TOOL = Layout.FIELD_STR;
    }

    /** The lease of a setting is over. */
    public static final class SpaceSettingLeaseEnded {
        private SpaceSettingLeaseEnded() {}
        public static final String NAME = "space.setting_lease_ended";
        public static final long HASH = 0x32d8099d63aca111L;
        public static final int WORDS = 5;
        /** The setting. */
        public static final int AT_NAME = 0;
        public static final int TYPE_NAME = Layout.FIELD_NAME;
        /** The new value. */
        public static final int AT_VALUE = 8;
        public static final int TYPE_VALUE = Layout.FIELD_U64;
        /** The value under the lease. */
        public static final int AT_LEASED = 16;
        public static final int TYPE_LEASED = Layout.FIELD_U64;
        /** Why the lease ended. */
        public static final int AT_WHY = 24;
        public static final int TYPE_WHY = Layout.FIELD_ENUM;
        public static final int CHOICE_WHY_EXPIRED = 0;
        public static final int CHOICE_WHY_HOLDER_DIED = 1;
        public static final int CHOICE_WHY_CONFIRMED = 2;
        public static final int CHOICE_WHY_GIVEN_BACK = 3;
        public static final int CHOICE_WHY_TAKEN_OVER = 4;
        /** The process that held the lease. */
        public static final int AT_PID = 28;
        public static final int TYPE_PID = Layout.FIELD_U32;
        /** The user that held the lease. */
        public static final int AT_USER = 32;
        public static final int TYPE_USER = Layout.FIELD_U32;
        /** The name of the tool that held the lease; empty if the tool gave none. */
        public static final int AT_TOOL = 36;
        public static final int TYPE_TOOL = Layout.FIELD_STR;
    }

    /** Probes were switched on or off. */
    public static final class SpaceProbesSwitched {
        private SpaceProbesSwitched() {}
        public static final String NAME = "space.probes_switched";
        public static final long HASH = 0x3ccff26f6c646cdaL;
        public static final int WORDS = 3;
        /** The pattern of the probes' names. */
        public static final int AT_PATTERN = 0;
        public static final int TYPE_PATTERN = Layout.FIELD_STR;
        /** Whether the probes were switched on. */
        public static final int AT_ON = 4;
        public static final int TYPE_ON = Layout.FIELD_BOOL;
        /** The number of probes that match the pattern now. */
        public static final int AT_PROBES = 8;
        public static final int TYPE_PROBES = Layout.FIELD_U32;
        /** The process that switched the probes. */
        public static final int AT_PID = 12;
        public static final int TYPE_PID = Layout.FIELD_U32;
        /** The user that switched the probes. */
        public static final int AT_USER = 16;
        public static final int TYPE_USER = Layout.FIELD_U32;
    }

    /** A command was adopted. */
    public static final class SpaceCommandAdopted {
        private SpaceCommandAdopted() {}
        public static final String NAME = "space.command_adopted";
        public static final long HASH = 0x32c4c6a550a5ca80L;
        public static final int WORDS = 4;
        /** The command's number. */
        public static final int AT_COMMAND = 0;
        public static final int TYPE_COMMAND = Layout.FIELD_U64;
        /** The process that sent the command. */
        public static final int AT_PID = 8;
        public static final int TYPE_PID = Layout.FIELD_U32;
        /** The user that sent the command. */
        public static final int AT_USER = 12;
        public static final int TYPE_USER = Layout.FIELD_U32;
        /** The object to which the command applies. */
        public static final int AT_TARGET = 16;
        public static final int TYPE_TARGET = Layout.FIELD_STR;
        /** The name of the command. */
        public static final int AT_NAME = 20;
        public static final int TYPE_NAME = Layout.FIELD_STR;
        /** The command's arguments, separated by spaces. */
        public static final int AT_ARGUMENTS = 24;
        public static final int TYPE_ARGUMENTS = Layout.FIELD_STR;
        /** The name of the tool that sent the command; empty if the tool gave none. */
        public static final int AT_TOOL = 28;
        public static final int TYPE_TOOL = Layout.FIELD_STR;
    }

    /** A command was carried out under a lease: the process carries out the inverse unless the lease is renewed or confirmed. */
    public static final class SpaceCommandLeased {
        private SpaceCommandLeased() {}
        public static final String NAME = "space.command_leased";
        public static final long HASH = 0x7231766c8881b307L;
        public static final int WORDS = 4;
        /** The command's number. */
        public static final int AT_COMMAND = 0;
        public static final int TYPE_COMMAND = Layout.FIELD_U64;
        /** The duration of the lease without renewal; all bits set: no time limit. */
        public static final int AT_LASTS = 8;
        public static final int TYPE_LASTS = Layout.FIELD_U64;
        /** Whether the lease ends with the process that holds it. */
        public static final int AT_WHILE_ALIVE = 16;
        public static final int TYPE_WHILE_ALIVE = Layout.FIELD_BOOL;
        /** The target of the inverse. */
        public static final int AT_TARGET = 20;
        public static final int TYPE_TARGET = Layout.FIELD_STR;
        /** The name of the inverse command. */
        public static final int AT_INVERSE = 24;
        public static final int TYPE_INVERSE = Layout.FIELD_STR;
        /** The inverse's arguments, separated by spaces. */
        public static final int AT_ARGUMENTS = 28;
        public static final int TYPE_ARGUMENTS = Layout.FIELD_STR;
    }

    /** The lease of a command is over. */
    public static final class SpaceCommandLeaseEnded {
        private SpaceCommandLeaseEnded() {}
        public static final String NAME = "space.command_lease_ended";
        public static final long HASH = 0xf453166d62a63681L;
        public static final int WORDS = 3;
        /** The command's number. The inverse, which runs unless the command was confirmed or taken over, has the same number. */
        public static final int AT_COMMAND = 0;
        public static final int TYPE_COMMAND = Layout.FIELD_U64;
        /** Why the lease ended. */
        public static final int AT_WHY = 8;
        public static final int TYPE_WHY = Layout.FIELD_ENUM;
        public static final int CHOICE_WHY_EXPIRED = 0;
        public static final int CHOICE_WHY_HOLDER_DIED = 1;
        public static final int CHOICE_WHY_CONFIRMED = 2;
        public static final int CHOICE_WHY_GIVEN_BACK = 3;
        public static final int CHOICE_WHY_TAKEN_OVER = 4;
        /** The process that held the lease. */
        public static final int AT_PID = 12;
        public static final int TYPE_PID = Layout.FIELD_U32;
        /** The user that held the lease. */
        public static final int AT_USER = 16;
        public static final int TYPE_USER = Layout.FIELD_U32;
        /** The name of the tool that held the lease; empty if the tool gave none. */
        public static final int AT_TOOL = 20;
        public static final int TYPE_TOOL = Layout.FIELD_STR;
    }

    /** A command was answered. */
    public static final class SpaceCommandAnswered {
        private SpaceCommandAnswered() {}
        public static final String NAME = "space.command_answered";
        public static final long HASH = 0xcf1390ff02b21c66L;
        public static final int WORDS = 2;
        /** The command's number. */
        public static final int AT_COMMAND = 0;
        public static final int TYPE_COMMAND = Layout.FIELD_U64;
        /** Whether the command was carried out. */
        public static final int AT_DONE = 8;
        public static final int TYPE_DONE = Layout.FIELD_BOOL;
        /** The command's result, or why it failed. */
        public static final int AT_ANSWER = 12;
        public static final int TYPE_ANSWER = Layout.FIELD_STR;
    }

    /** A value of the shared map was written, by a box of the process or by a command to it. Compare-and-set is recorded by the process that decides it, whichever process asked. */
    public static final class MapWritten {
        private MapWritten() {}
        public static final String NAME = "map.written";
        public static final long HASH = 0xfab1d7127aed6a4fL;
        public static final int WORDS = 7;
        /** The key. */
        public static final int AT_KEY = 0;
        public static final int TYPE_KEY = Layout.FIELD_NAME;
        /** Whether the value was written by compare-and-set. */
        public static final int AT_COMPARED = 8;
        public static final int TYPE_COMPARED = Layout.FIELD_BOOL;
        /** The process of the session whose box or user wrote the value. */
        public static final int AT_NODE = 16;
        public static final int TYPE_NODE = Layout.FIELD_NAME;
        /** The system's number of the process that wrote the value. */
        public static final int AT_PID = 24;
        public static final int TYPE_PID = Layout.FIELD_U32;
        /** The user that wrote the value. */
        public static final int AT_USER = 28;
        public static final int TYPE_USER = Layout.FIELD_U32;
        /** The time of the stamp: microseconds since 1970, and in the low 12 bits a count. */
        public static final int AT_STAMP = 32;
        public static final int TYPE_STAMP = Layout.FIELD_U64;
        /** The former value. */
        public static final int AT_OLD = 40;
        public static final int TYPE_OLD = Layout.FIELD_STR;
        /** The value. */
        public static final int AT_NEW = 44;
        public static final int TYPE_NEW = Layout.FIELD_STR;
        /** `box`, or the name of the tool that wrote the value. */
        public static final int AT_TOOL = 48;
        public static final int TYPE_TOOL = Layout.FIELD_STR;
    }

    /** A value of the shared map came from another process of the session, and took the place of an earlier one. */
    public static final class MapReceived {
        private MapReceived() {}
        public static final String NAME = "map.received";
        public static final long HASH = 0x5f9582089788d99aL;
        public static final int WORDS = 4;
        /** The key. */
        public static final int AT_KEY = 0;
        public static final int TYPE_KEY = Layout.FIELD_NAME;
        /** The process of the session whose box or user wrote the value. */
        public static final int AT_NODE = 8;
        public static final int TYPE_NODE = Layout.FIELD_NAME;
        /** The time of the stamp: microseconds since 1970, and in the low 12 bits a count. */
        public static final int AT_STAMP = 16;
        public static final int TYPE_STAMP = Layout.FIELD_U64;
        /** The former value. */
        public static final int AT_OLD = 24;
        public static final int TYPE_OLD = Layout.FIELD_STR;
        /** The value. */
        public static final int AT_NEW = 28;
        public static final int TYPE_NEW = Layout.FIELD_STR;
    }

    /** An operation went through a path. */
    public static final class PathOperationCompleted {
        private PathOperationCompleted() {}
        public static final String NAME = "path.operation_completed";
        public static final long HASH = 0x9c87d8b9f326b67aL;
        public static final int WORDS = 4;
        /** Which operation. */
        public static final int AT_OPERATION = 0;
        public static final int TYPE_OPERATION = Layout.FIELD_NAME;
        /** When it began. */
        public static final int AT_STARTED = 8;
        public static final int TYPE_STARTED = Layout.FIELD_U64;
        /** The operation's first parameter. */
        public static final int AT_FIRST = 16;
        public static final int TYPE_FIRST = Layout.FIELD_U64;
        /** The operation's second parameter. */
        public static final int AT_SECOND = 24;
        public static final int TYPE_SECOND = Layout.FIELD_U64;
    }

    /** A call ended (at this event's time). */
    public static final class ProbeCalled {
        private ProbeCalled() {}
        public static final String NAME = "probe.called";
        public static final long HASH = 0x0d0e6d8a3a0f8962L;
        public static final int WORDS = 2;
        /** The operation: a site of the catalog. */
        public static final int AT_OPERATION = 0;
        public static final int TYPE_OPERATION = Layout.FIELD_U32;
        /** The number of recorded calls of this thread that enclosed the call. */
        public static final int AT_DEPTH = 4;
        public static final int TYPE_DEPTH = Layout.FIELD_U16;
        /** How the call ended. */
        public static final int AT_OUTCOME = 6;
        public static final int TYPE_OUTCOME = Layout.FIELD_ENUM;
        public static final int CHOICE_OUTCOME_RETURNED = 0;
        public static final int CHOICE_OUTCOME_FAILED = 1;
        public static final int CHOICE_OUTCOME_UNWOUND = 2;
        /** The duration of the call. */
        public static final int AT_DURATION = 8;
        public static final int TYPE_DURATION = Layout.FIELD_U64;
    }

    /** A further stretch of a call ended (at this event's time): the call had paused, and `probe.called` recorded its first stretch. */
    public static final class ProbeResumed {
        private ProbeResumed() {}
        public static final String NAME = "probe.resumed";
        public static final long HASH = 0x35a5585bbbe45f04L;
        public static final int WORDS = 2;
        /** The operation: a site of the catalog. */
        public static final int AT_OPERATION = 0;
        public static final int TYPE_OPERATION = Layout.FIELD_U32;
        /** The number of recorded calls of this thread that enclosed the stretch. */
        public static final int AT_DEPTH = 4;
        public static final int TYPE_DEPTH = Layout.FIELD_U16;
        /** How the stretch ended. */
        public static final int AT_OUTCOME = 6;
        public static final int TYPE_OUTCOME = Layout.FIELD_ENUM;
        public static final int CHOICE_OUTCOME_RETURNED = 0;
        public static final int CHOICE_OUTCOME_FAILED = 1;
        public static final int CHOICE_OUTCOME_UNWOUND = 2;
        /** The duration of the stretch. */
        public static final int AT_DURATION = 8;
        public static final int TYPE_DURATION = Layout.FIELD_U64;
    }

    /** A call ended of a function that is known by its address; the catalog's sites of the kind `mapping` record at which addresses the function's file was mapped. */
    public static final class ProbeCalledAddress {
        private ProbeCalledAddress() {}
        public static final String NAME = "probe.called_address";
        public static final long HASH = 0xeec6e7f93376714bL;
        public static final int WORDS = 3;
        /** The address at which the function begins. */
        public static final int AT_ADDRESS = 0;
        public static final int TYPE_ADDRESS = Layout.FIELD_U64;
        /** The duration of the call. */
        public static final int AT_DURATION = 8;
        public static final int TYPE_DURATION = Layout.FIELD_U64;
        /** The number of recorded calls of this thread that enclosed the call. */
        public static final int AT_DEPTH = 16;
        public static final int TYPE_DEPTH = Layout.FIELD_U16;
        /** How the call ended. */
        public static final int AT_OUTCOME = 18;
        public static final int TYPE_OUTCOME = Layout.FIELD_ENUM;
        public static final int CHOICE_OUTCOME_RETURNED = 0;
        public static final int CHOICE_OUTCOME_FAILED = 1;
        public static final int CHOICE_OUTCOME_UNWOUND = 2;
    }

    /** An object was made: its constructor ended (at this event's time). */
    public static final class ProbeConstructed {
        private ProbeConstructed() {}
        public static final String NAME = "probe.constructed";
        public static final long HASH = 0xe9e26354aa914fe0L;
        public static final int WORDS = 3;
        /** The constructor: a site of the catalog. */
        public static final int AT_OPERATION = 0;
        public static final int TYPE_OPERATION = Layout.FIELD_U32;
        /** The number of recorded calls of this thread that enclosed the call. */
        public static final int AT_DEPTH = 4;
        public static final int TYPE_DEPTH = Layout.FIELD_U16;
        /** How the call ended. */
        public static final int AT_OUTCOME = 6;
        public static final int TYPE_OUTCOME = Layout.FIELD_ENUM;
        public static final int CHOICE_OUTCOME_RETURNED = 0;
        public static final int CHOICE_OUTCOME_FAILED = 1;
        public static final int CHOICE_OUTCOME_UNWOUND = 2;
        /** The duration of the call. */
        public static final int AT_DURATION = 8;
        public static final int TYPE_DURATION = Layout.FIELD_U64;
        /** The object's number, which the program chose. */
        public static final int AT_OBJECT = 16;
        public static final int TYPE_OBJECT = Layout.FIELD_U64;
    }

    /** A call began (at this event's time); `probe.left` records its end. */
    public static final class ProbeEntered {
        private ProbeEntered() {}
        public static final String NAME = "probe.entered";
        public static final long HASH = 0xa8918dfbcace2a6cL;
        public static final int WORDS = 1;
        /** The operation: a site of the catalog. */
        public static final int AT_OPERATION = 0;
        public static final int TYPE_OPERATION = Layout.FIELD_U32;
        /** The number of recorded calls of this thread that enclose the call. */
        public static final int AT_DEPTH = 4;
        public static final int TYPE_DEPTH = Layout.FIELD_U16;
    }

    /** A call ended whose beginning `probe.entered` recorded. */
    public static final class ProbeLeft {
        private ProbeLeft() {}
        public static final String NAME = "probe.left";
        public static final long HASH = 0xd70ca5f9cbbeef1eL;
        public static final int WORDS = 1;
        /** The operation: a site of the catalog. */
        public static final int AT_OPERATION = 0;
        public static final int TYPE_OPERATION = Layout.FIELD_U32;
        /** The number of recorded calls of this thread that enclosed the call. */
        public static final int AT_DEPTH = 4;
        public static final int TYPE_DEPTH = Layout.FIELD_U16;
        /** How the call ended. */
        public static final int AT_OUTCOME = 6;
        public static final int TYPE_OUTCOME = Layout.FIELD_ENUM;
        public static final int CHOICE_OUTCOME_RETURNED = 0;
        public static final int CHOICE_OUTCOME_FAILED = 1;
        public static final int CHOICE_OUTCOME_UNWOUND = 2;
    }

    /** The identity of this thread's trace, which belongs to the outermost call that encloses this event, or else to the next call. */
    public static final class ProbeTraceBegun {
        private ProbeTraceBegun() {}
        public static final String NAME = "probe.trace_begun";
        public static final long HASH = 0xa6cafb5cf6366e17L;
        public static final int WORDS = 3;
        /** The trace's identity, high half. */
        public static final int AT_TRACE_HIGH = 0;
        public static final int TYPE_TRACE_HIGH = Layout.FIELD_U64;
        /** The trace's identity, low half. */
        public static final int AT_TRACE_LOW = 8;
        public static final int TYPE_TRACE_LOW = Layout.FIELD_U64;
        /** The span of another thread or process that the trace continues; 0: the trace begins here. */
        public static final int AT_PARENT = 16;
        public static final int TYPE_PARENT = Layout.FIELD_U64;
    }

    /** A thread handed over work that continues in another thread, or later. */
    public static final class ProbeHandedOver {
        private ProbeHandedOver() {}
        public static final String NAME = "probe.handed_over";
        public static final long HASH = 0x36ef12fd448e3fd6L;
        public static final int WORDS = 2;
        /** The number of the handed-over work, unique among all processes. */
        public static final int AT_SPAN = 0;
        public static final int TYPE_SPAN = Layout.FIELD_U64;
        /** The number of recorded calls of this thread that enclose this event. */
        public static final int AT_DEPTH = 8;
        public static final int TYPE_DEPTH = Layout.FIELD_U16;
    }

    /** A thread continues work that was handed over: the work is the outermost call that encloses this event, or else the next call. */
    public static final class ProbeTakenOver {
        private ProbeTakenOver() {}
        public static final String NAME = "probe.taken_over";
        public static final long HASH = 0x1efe55732e11f6e4L;
        public static final int WORDS = 1;
        /** The number of the handed-over work. */
        public static final int AT_SPAN = 0;
        public static final int TYPE_SPAN = Layout.FIELD_U64;
    }

    /** A message was sent, with the trace that this thread is in. */
    public static final class ProbeSent {
        private ProbeSent() {}
        public static final String NAME = "probe.sent";
        public static final long HASH = 0x7e1f11a5d290a029L;
        public static final int WORDS = 3;
        /** The message's number, unique among all processes: the parent's id in a `traceparent`. */
        public static final int AT_SPAN = 0;
        public static final int TYPE_SPAN = Layout.FIELD_U64;
        /** The size of the message; 0: not known. */
        public static final int AT_BYTES = 8;
        public static final int TYPE_BYTES = Layout.FIELD_U64;
        /** The number of recorded calls of this thread that enclose this event. */
        public static final int AT_DEPTH = 16;
        public static final int TYPE_DEPTH = Layout.FIELD_U16;
    }

    /** A message was received. */
    public static final class ProbeReceived {
        private ProbeReceived() {}
        public static final String NAME = "probe.received";
        public static final long HASH = 0x6811a3f6e74b7a9eL;
        public static final int WORDS = 3;
        /** The message's number; 0: not known. */
        public static final int AT_SPAN = 0;
        public static final int TYPE_SPAN = Layout.FIELD_U64;
        /** The size of the message; 0: not known. */
        public static final int AT_BYTES = 8;
        public static final int TYPE_BYTES = Layout.FIELD_U64;
        /** The number of recorded calls of this thread that enclose this event. */
        public static final int AT_DEPTH = 16;
        public static final int TYPE_DEPTH = Layout.FIELD_U16;
    }

    /** A counter changed. */
    public static final class ProbeCounted {
        private ProbeCounted() {}
        public static final String NAME = "probe.counted";
        public static final long HASH = 0xbbe2a2b7f013ff3cL;
        public static final int WORDS = 2;
        /** The counter: a site of the catalog. */
        public static final int AT_COUNTER = 0;
        public static final int TYPE_COUNTER = Layout.FIELD_U32;
        /** The amount added to the counter. */
        public static final int AT_BY = 8;
        public static final int TYPE_BY = Layout.FIELD_I64;
    }

    /** A gauge was read. */
    public static final class ProbeGauged {
        private ProbeGauged() {}
        public static final String NAME = "probe.gauged";
        public static final long HASH = 0x3b5581626b8427a6L;
        public static final int WORDS = 2;
        /** The gauge: a site of the catalog. */
        public static final int AT_GAUGE = 0;
        public static final int TYPE_GAUGE = Layout.FIELD_U32;
        /** The gauge's value. */
        public static final int AT_VALUE = 8;
        public static final int TYPE_VALUE = Layout.FIELD_F64;
    }

    /** A line of a log. */
    public static final class ProbeLogged {
        private ProbeLogged() {}
        public static final String NAME = "probe.logged";
        public static final long HASH = 0x23534ca54d4555b6L;
        public static final int WORDS = 2;
        /** The place in the program that logged the line: a site of the catalog; 0: not known. */
        public static final int AT_OPERATION = 0;
        public static final int TYPE_OPERATION = Layout.FIELD_U32;
        /** The line's severity. */
        public static final int AT_LEVEL = 4;
        public static final int TYPE_LEVEL = Layout.FIELD_ENUM;
        public static final int CHOICE_LEVEL_ERROR = 1;
        public static final int CHOICE_LEVEL_WARNING = 2;
        public static final int CHOICE_LEVEL_INFO = 3;
        public static final int CHOICE_LEVEL_DEBUG = 4;
        public static final int CHOICE_LEVEL_TRACE = 5;
        /** The line's text. */
        public static final int AT_TEXT = 8;
        public static final int TYPE_TEXT = Layout.FIELD_STR;
    }

    /** A worker's thread began to work. */
    public static final class ExecWorkerStarted {
        private ExecWorkerStarted() {}
        public static final String NAME = "exec.worker_started";
        public static final long HASH = 0x0d608e1c06525f23L;
        public static final int WORDS = 4;
        /** The worker, counted from 0. */
        public static final int AT_WORKER = 0;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
        /** The core that the worker's thread is bound to; -1: none. */
        public static final int AT_CORE = 8;
        public static final int TYPE_CORE = Layout.FIELD_I64;
        /** The NUMA node of the worker's core; -1: not known. */
        public static final int AT_NODE = 16;
        public static final int TYPE_NODE = Layout.FIELD_I64;
        /** The time that one reading of the clock takes on the worker's thread. */
        public static final int AT_CLOCK_READING_PS = 24;
        public static final int TYPE_CLOCK_READING_PS = Layout.FIELD_U64;
    }

    /** A worker was parked: it hands its tasks to other workers and sleeps. */
    public static final class ExecWorkerParked {
        private ExecWorkerParked() {}
        public static final String NAME = "exec.worker_parked";
        public static final long HASH = 0xfe1ab76c71543182L;
        public static final int WORDS = 1;
        /** The worker. */
        public static final int AT_WORKER = 0;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
    }

    /** A parked worker dispatches tasks again. */
    public static final class ExecWorkerUnparked {
        private ExecWorkerUnparked() {}
        public static final String NAME = "exec.worker_unparked";
        public static final long HASH = 0x85612887a9290391L;
        public static final int WORDS = 1;
        /** The worker. */
        public static final int AT_WORKER = 0;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
    }

    /** A worker found no ready task. */
    public static final class ExecWorkerWaiting {
        private ExecWorkerWaiting() {}
        public static final String NAME = "exec.worker_waiting";
        public static final long HASH = 0xc7218d01428aa4caL;
        public static final int WORDS = 1;
        /** The worker. */
        public static final int AT_WORKER = 0;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
    }

    /** A worker has a ready task again. */
    public static final class ExecWorkerResumed {
        private ExecWorkerResumed() {}
        public static final String NAME = "exec.worker_resumed";
        public static final long HASH = 0xa1158b158f82ae30L;
        public static final int WORDS = 1;
        /** The worker. */
        public static final int AT_WORKER = 0;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
    }

    /** A worker ended. */
    public static final class ExecWorkerEnded {
        private ExecWorkerEnded() {}
        public static final String NAME = "exec.worker_ended";
        public static final long HASH = 0xe53f8aa30c02c88bL;
        public static final int WORDS = 5;
        /** The worker. */
        public static final int AT_WORKER = 0;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
        /** The time in which the worker dispatched tasks, with the short gaps between dispatches. */
        public static final int AT_BUSY_TICKS = 8;
        public static final int TYPE_BUSY_TICKS = Layout.FIELD_U64;
        /** The time in which the worker had no ready task, without the time in which it was parked. */
        public static final int AT_WAITING_TICKS = 16;
        public static final int TYPE_WAITING_TICKS = Layout.FIELD_U64;
        /** The measured time of the worker's own work between dispatches and waits, such as waking other workers or moving tasks. */
        public static final int AT_OWN_TICKS = 24;
        public static final int TYPE_OWN_TICKS = Layout.FIELD_U64;
        /** The time in which the worker could have run but had no processor, if the worker noticed it at once; the busy time, the waiting time and the time of own work do not include this time. */
        public static final int AT_KEPT_TICKS = 32;
        public static final int TYPE_KEPT_TICKS = Layout.FIELD_U64;
    }

    /** A worker could have run but had no processor for this duration: in the dispatch or wait that ends with the next event, or in the worker's own work that ends with this event. */
    public static final class ExecKept {
        private ExecKept() {}
        public static final String NAME = "exec.kept";
        public static final long HASH = 0x64baf84b137eb3daL;
        public static final int WORDS = 3;
        /** The worker. */
        public static final int AT_WORKER = 0;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
        /** The task that was dispatched; 0: none. */
        public static final int AT_TASK = 8;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The duration. */
        public static final int AT_DURATION_TICKS = 16;
        public static final int TYPE_DURATION_TICKS = Layout.FIELD_U64;
    }

    /** The processor time that a thread has used so far; recorded at intervals and when the thread ends (modes metrics and full). */
    public static final class ExecThreadUsed {
        private ExecThreadUsed() {}
        public static final String NAME = "exec.thread_used";
        public static final long HASH = 0xc1a32c0b9d263ed8L;
        public static final int WORDS = 9;
        /** The worker; 4294967295: a thread of a task's own. */
        public static final int AT_WORKER = 0;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
        /** The task that has this thread of its own, or 0. */
        public static final int AT_TASK = 8;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The time on a processor. */
        public static final int AT_CPU_NS = 16;
        public static final int TYPE_CPU_NS = Layout.FIELD_U64;
        /** The number of times that the kernel preempted the thread. */
        public static final int AT_PREEMPTED = 24;
        public static final int TYPE_PREEMPTED = Layout.FIELD_U64;
        /** The time in which the thread could have run but had no processor; 18446744073709551615: the kernel does not report it. */
        public static final int AT_DELAYED_NS = 32;
        public static final int TYPE_DELAYED_NS = Layout.FIELD_U64;
        /** The time of a worker's own work so far, as in `exec.worker_ended`. */
        public static final int AT_OWN_TICKS = 40;
        public static final int TYPE_OWN_TICKS = Layout.FIELD_U64;
        /** The time so far in which a worker could have run but had no processor, as in `exec.worker_ended`. */
        public static final int AT_KEPT_TICKS = 48;
        public static final int TYPE_KEPT_TICKS = Layout.FIELD_U64;
        /** The time that the thread ran in the kernel; 18446744073709551615: not measured. */
        public static final int AT_KERNEL_NS = 56;
        public static final int TYPE_KERNEL_NS = Layout.FIELD_U64;
        /** The number of page faults of the thread. */
        public static final int AT_FAULTS = 64;
        public static final int TYPE_FAULTS = Layout.FIELD_U64;
    }

    /** What a thread did in a task since the last event of this kind about the thread and the task, as another thread sampled it at intervals (modes metrics and full). */
    public static final class ExecThreadSampled {
        private ExecThreadSampled() {}
        public static final String NAME = "exec.thread_sampled";
        public static final long HASH = 0x968d7f3ded50f605L;
        public static final int WORDS = 9;
        /** The worker; 4294967295: a thread of a task's own. */
        public static final int AT_WORKER = 0;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
        /** The task. */
        public static final int AT_TASK = 8;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** What the thread did. */
        public static final int AT_DOING = 16;
        public static final int TYPE_DOING = Layout.FIELD_ENUM;
        public static final int CHOICE_DOING_RUNS = 0;
        public static final int CHOICE_DOING_LOCK = 1;
        public static final int CHOICE_DOING_READ = 2;
        public static final int CHOICE_DOING_WRITE = 3;
        public static final int CHOICE_DOING_SLEEP = 4;
        public static final int CHOICE_DOING_PAGE_FAULT = 5;
        public static final int CHOICE_DOING_OTHER = 6;
        /** The file of the kernel from which the sampler knows what the thread did. */
        public static final int AT_SOURCE = 17;
        public static final int TYPE_SOURCE = Layout.FIELD_ENUM;
        public static final int CHOICE_SOURCE_CALL = 0;
        public static final int CHOICE_SOURCE_FUNCTION = 1;
        public static final int CHOICE_SOURCE_STATE = 2;
        public static final int CHOICE_SOURCE_NOTHING = 3;
        /** The number of samples that found the thread doing this. */
        public static final int AT_LOOKS = 20;
        public static final int TYPE_LOOKS = Layout.FIELD_U32;
        /** The time that the samples in this event represent: each sample represents the time since the previous sample. */
        public static final int AT_INTERVAL_TICKS = 24;
        public static final int TYPE_INTERVAL_TICKS = Layout.FIELD_U64;
        /** The time for which the thread had a processor in the time that the samples in this event represent. */
        public static final int AT_CPU_NS = 32;
        public static final int TYPE_CPU_NS = Layout.FIELD_U64;
        /** The time for which the thread could have run but had no processor in the time that the samples in this event represent. */
        public static final int AT_DELAYED_NS = 40;
        public static final int TYPE_DELAYED_NS = Layout.FIELD_U64;
        /** The address of the lock, or the file descriptor, that the thread waits for; 0: not known. */
        public static final int AT_ON = 48;
        public static final int TYPE_ON = Layout.FIELD_U64;
        /** The time for which samples have found the thread asleep in the same dispatch; 0: the last sample found it running, or there was none. */
        public static final int AT_ASLEEP_TICKS = 56;
        public static final int TYPE_ASLEEP_TICKS = Layout.FIELD_U64;
        /** The task whose thread holds the lock, if the lock records its holder; else 0. */
        public static final int AT_HOLDER = 64;
        public static final int TYPE_HOLDER = Layout.FIELD_U64;
    }

    /** The instructions at which a worker's thread ran in a task since the last event of this kind about the worker and the task, sampled by the kernel at intervals of the thread's processor time (modes metrics and full, if the kernel permits it). */
    public static final class ExecInstructionsSampled {
        private ExecInstructionsSampled() {}
        public static final String NAME = "exec.instructions_sampled";
        public static final long HASH = 0x42e3262efbfa8ab4L;
        public static final int WORDS = 3;
        /** The worker. */
        public static final int AT_WORKER = 0;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
        /** The task. */
        public static final int AT_TASK = 8;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The number of samples. */
        public static final int AT_SAMPLES = 16;
        public static final int TYPE_SAMPLES = Layout.FIELD_U32;
        /** The number of samples in a loop that waits for another thread, such as the loop of a spin lock. */
        public static final int AT_SPINNING = 20;
        public static final int TYPE_SPINNING = Layout.FIELD_U32;
    }

    /** The processor time of a dispatch of a millisecond or more. This event precedes the event of the measured dispatch. */
    public static final class ExecDispatchUsed {
        private ExecDispatchUsed() {}
        public static final String NAME = "exec.dispatch_used";
        public static final long HASH = 0x39fa2d0ec1cfbf92L;
        public static final int WORDS = 5;
        /** The worker; 4294967295: a thread of the task's own. */
        public static final int AT_WORKER = 0;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
        /** The task. */
        public static final int AT_TASK = 8;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The duration of the dispatch, without the time in which its thread is known to have had no processor. */
        public static final int AT_DURATION_TICKS = 16;
        public static final int TYPE_DURATION_TICKS = Layout.FIELD_U64;
        /** The time of the dispatch in which its thread is known to have had no processor. */
        public static final int AT_KEPT_TICKS = 24;
        public static final int TYPE_KEPT_TICKS = Layout.FIELD_U64;
        /** The time on a processor. */
        public static final int AT_CPU_NS = 32;
        public static final int TYPE_CPU_NS = Layout.FIELD_U64;
    }

    /** The time so far that the run and the whole machine have used on the processors that the run may use. */
    public static final class ExecProcessorsUsed {
        private ExecProcessorsUsed() {}
        public static final String NAME = "exec.processors_used";
        public static final long HASH = 0xfddeb4d11a8bfe17L;
        public static final int WORDS = 7;
        /** The number of processors that the run may use. */
        public static final int AT_PROCESSORS = 0;
        public static final int TYPE_PROCESSORS = Layout.FIELD_U32;
        /** The processor time of the run's threads. */
        public static final int AT_RUN_NS = 8;
        public static final int TYPE_RUN_NS = Layout.FIELD_U64;
        /** The processor time of all processes; 18446744073709551615: the kernel does not report it. */
        public static final int AT_MACHINE_NS = 16;
        public static final int TYPE_MACHINE_NS = Layout.FIELD_U64;
        /** The time for which the run's control group was throttled, because its processor time was used up. */
        public static final int AT_THROTTLED_NS = 24;
        public static final int TYPE_THROTTLED_NS = Layout.FIELD_U64;
        /** The time spent sampling threads. */
        public static final int AT_SAMPLING_NS = 32;
        public static final int TYPE_SAMPLING_NS = Layout.FIELD_U64;
        /** The number of times that threads were sampled. */
        public static final int AT_LOOKS = 40;
        public static final int TYPE_LOOKS = Layout.FIELD_U64;
        /** The processor time of the programs that the run started, such as those of boxes that are programs, and of what these started. */
        public static final int AT_PROGRAMS_NS = 48;
        public static final int TYPE_PROGRAMS_NS = Layout.FIELD_U64;
    }

    /** A task was created, with a stream that it reads and one that it writes, if it has them. The streams in this event get no `exec.stream_opened`; the task's other streams do. This event may also be the base of dispatches, like an `exec.dispatch_base` with no message read or written yet. */
    public static final class ExecTaskCreated {
        private ExecTaskCreated() {}
        public static final String NAME = "exec.task_created";
        public static final long HASH = 0xe60dd9cf0b88626eL;
        public static final int WORDS = 8;
        /** The task. */
        public static final int AT_TASK = 0;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The component of the network that the task belongs to. */
        public static final int AT_COMPONENT = 8;
        public static final int TYPE_COMPONENT = Layout.FIELD_SITE;
        /** The task that created this task by unfolding the network, or 0. */
        public static final int AT_PARENT = 16;
        public static final int TYPE_PARENT = Layout.FIELD_U64;
        /** The number of the component's replica that the task belongs to. */
        public static final int AT_REPLICA = 24;
        public static final int TYPE_REPLICA = Layout.FIELD_U64;
        /** Whether the k-th message that the task writes descends from the k-th message that it reads. */
        public static final int AT_ONE_TO_ONE = 32;
        public static final int TYPE_ONE_TO_ONE = Layout.FIELD_BOOL;
        /** Whether the task has a thread of its own. */
        public static final int AT_BLOCKING = 33;
        public static final int TYPE_BLOCKING = Layout.FIELD_BOOL;
        /** The capacity of each of the two streams in this event. */
        public static final int AT_CAPACITY = 34;
        public static final int TYPE_CAPACITY = Layout.FIELD_U16;
        /** The task's worker; 4294967295: a thread of its own; 4294967294: given by `exec.task_mapped`. */
        public static final int AT_WORKER = 36;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
        /** A stream that the task reads, or 0. */
        public static final int AT_INPUT = 40;
        public static final int TYPE_INPUT = Layout.FIELD_U64;
        /** A stream that the task writes and that no task reads yet, or 0. */
        public static final int AT_OUTPUT = 48;
        public static final int TYPE_OUTPUT = Layout.FIELD_U64;
        /** This task's id less the id of the task that writes the input; 0: no task writes the input yet. */
        public static final int AT_WRITER_BEFORE = 56;
        public static final int TYPE_WRITER_BEFORE = Layout.FIELD_U32;
        /** The number by which dispatches name this event as their base; 4294967295: this event is not a base. */
        public static final int AT_BASE_NUMBER = 60;
        public static final int TYPE_BASE_NUMBER = Layout.FIELD_U32;
    }

    /** The mapper placed a task. */
    public static final class ExecTaskMapped {
        private ExecTaskMapped() {}
        public static final String NAME = "exec.task_mapped";
        public static final long HASH = 0x6dcf3d8bc2ba50ecL;
        public static final int WORDS = 2;
        /** The task. */
        public static final int AT_TASK = 0;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The task's worker; 4294967295: a thread of its own. */
        public static final int AT_WORKER = 8;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
    }

    /** A task moved to another worker and is ready there. */
    public static final class ExecTaskMoved {
        private ExecTaskMoved() {}
        public static final String NAME = "exec.task_moved";
        public static final long HASH = 0x992627d3afe88f2bL;
        public static final int WORDS = 2;
        /** The task. */
        public static final int AT_TASK = 0;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The task's previous worker. */
        public static final int AT_FROM = 8;
        public static final int TYPE_FROM = Layout.FIELD_U32;
        /** The task's new worker. */
        public static final int AT_WORKER = 12;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
    }

    /** A base: the fields that a task's later dispatches in the same block of the element share, so that each dispatch continues where the previous one ended. Base numbers start at 0 in each block. */
    public static final class ExecDispatchBase {
        private ExecDispatchBase() {}
        public static final String NAME = "exec.dispatch_base";
        public static final long HASH = 0xa1e96920a8217aedL;
        public static final int WORDS = 6;
        /** The number by which dispatches name this base. */
        public static final int AT_NUMBER = 0;
        public static final int TYPE_NUMBER = Layout.FIELD_U32;
        /** The worker; 4294967295: a thread of the task's own. */
        public static final int AT_WORKER = 4;
        public static final int TYPE_WORKER = Layout.FIELD_U32;
        /** The task. */
        public static final int AT_TASK = 8;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** A stream that the task reads, or 0. */
        public static final int AT_INPUT = 16;
        public static final int TYPE_INPUT = Layout.FIELD_U64;
        /** The index of the next message that the task reads from the input, counted from 0. */
        public static final int AT_FIRST_READ = 24;
        public static final int TYPE_FIRST_READ = Layout.FIELD_U64;
        /** A stream that the task writes, or 0. */
        public static final int AT_OUTPUT = 32;
        public static final int TYPE_OUTPUT = Layout.FIELD_U64;
        /** The index of the next message that the task writes to the output. */
        public static final int AT_FIRST_WRITTEN = 40;
        public static final int TYPE_FIRST_WRITTEN = Layout.FIELD_U64;
    }

    /** A dispatch ended (at this event's time). The events `exec.stream_read`, `exec.stream_wrote` and `exec.derived` just before this event record the messages of streams that the dispatch's base does not name, and any lineage that the fields of this event do not record. */
    public static final class ExecDispatch {
        private ExecDispatch() {}
        public static final String NAME = "exec.dispatch";
        public static final long HASH = 0x1471b0e7cb5a9c2fL;
        public static final int WORDS = 3;
        /** The duration of the dispatch. */
        public static final int AT_DURATION_TICKS = 0;
        public static final int TYPE_DURATION_TICKS = Layout.FIELD_U32;
        /** The time for which the task had been ready when the dispatch began. */
        public static final int AT_READY_TICKS = 4;
        public static final int TYPE_READY_TICKS = Layout.FIELD_U32;
        /** The number of the dispatch's base, see `exec.dispatch_base`. */
        public static final int AT_BASE_NUMBER = 8;
        public static final int TYPE_BASE_NUMBER = Layout.FIELD_U32;
        /** Messages read from the stream that the dispatch's base (`exec.dispatch_base`) names as input. */
        public static final int AT_READS = 12;
        public static final int TYPE_READS = Layout.FIELD_U16;
        /** Messages written to the stream that the dispatch's base (`exec.dispatch_base`) names as output. */
        public static final int AT_WRITES = 14;
        public static final int TYPE_WRITES = Layout.FIELD_U16;
        /** Why the dispatch ended. */
        public static final int AT_OUTCOME = 16;
        public static final int TYPE_OUTCOME = Layout.FIELD_ENUM;
        public static final int CHOICE_OUTCOME_BLOCKED_INPUT = 0;
        public static final int CHOICE_OUTCOME_BLOCKED_OUTPUT = 1;
        public static final int CHOICE_OUTCOME_YIELDED = 2;
        public static final int CHOICE_OUTCOME_ENDED = 3;
        /** The stream that the task has waited for since the dispatch ended. */
        public static final int AT_WAITS_FOR = 17;
        public static final int TYPE_WAITS_FOR = Layout.FIELD_ENUM;
        public static final int CHOICE_WAITS_FOR_NONE = 0;
        public static final int CHOICE_WAITS_FOR_INPUT = 1;
        public static final int CHOICE_WAITS_FOR_OUTPUT = 2;
        public static final int CHOICE_WAITS_FOR_NAMED = 3;
        /** The cause that had made the task ready. */
        public static final int AT_CAUSE = 18;
        public static final int TYPE_CAUSE = Layout.FIELD_ENUM;
        public static final int CHOICE_CAUSE_CREATED = 0;
        public static final int CHOICE_CAUSE_INPUT = 1;
        public static final int CHOICE_CAUSE_ROOM = 2;
        public static final int CHOICE_CAUSE_YIELD = 3;
        public static final int CHOICE_CAUSE_END = 4;
        public static final int CHOICE_CAUSE_UNRECORDED = 5;
        /** The stream that had made the task ready. */
        public static final int AT_READY_BY = 19;
        public static final int TYPE_READY_BY = Layout.FIELD_ENUM;
        public static final int CHOICE_READY_BY_NONE = 0;
        public static final int CHOICE_READY_BY_INPUT = 1;
        public static final int CHOICE_READY_BY_OUTPUT = 2;
        public static final int CHOICE_READY_BY_NAMED = 3;
        /** How the written messages descend from messages read. */
        public static final int AT_DESCENT = 20;
        public static final int TYPE_DESCENT = Layout.FIELD_ENUM;
        public static final int CHOICE_DESCENT_UNRECORDED = 0;
        public static final int CHOICE_DESCENT_EACH_FROM_NEXT = 1;
        public static final int CHOICE_DESCENT_ALL_FROM_ONE = 2;
        /** The index of the message that the first written message descends from, less the index of the first message read. */
        public static final int AT_PARENT_OFFSET = 22;
        public static final int TYPE_PARENT_OFFSET = Layout.FIELD_I16;
    }

    /** A dispatch whose numbers are too large for `exec.dispatch`. */
    public static final class ExecDispatchLong {
        private ExecDispatchLong() {}
        public static final String NAME = "exec.dispatch_long";
        public static final long HASH = 0xea62508500bb288aL;
        public static final int WORDS = 6;
        /** The duration of the dispatch. */
        public static final int AT_DURATION_TICKS = 0;
        public static final int TYPE_DURATION_TICKS = Layout.FIELD_U64;
        /** The time for which the task had been ready when the dispatch began. */
        public static final int AT_READY_TICKS = 8;
        public static final int TYPE_READY_TICKS = Layout.FIELD_U64;
        /** The number of the dispatch's base, see `exec.dispatch_base`. */
        public static final int AT_BASE_NUMBER = 16;
        public static final int TYPE_BASE_NUMBER = Layout.FIELD_U32;
        /** Messages read from the stream that the dispatch's base (`exec.dispatch_base`) names as input. */
        public static final int AT_READS = 20;
        public static final int TYPE_READS = Layout.FIELD_U32;
        /** Messages written to the stream that the dispatch's base (`exec.dispatch_base`) names as output. */
        public static final int AT_WRITES = 24;
        public static final int TYPE_WRITES = Layout.FIELD_U32;
        /** Why the dispatch ended. */
        public static final int AT_OUTCOME = 28;
        public static final int TYPE_OUTCOME = Layout.FIELD_ENUM;
        public static final int CHOICE_OUTCOME_BLOCKED_INPUT = 0;
        public static final int CHOICE_OUTCOME_BLOCKED_OUTPUT = 1;
        public static final int CHOICE_OUTCOME_YIELDED = 2;
        public static final int CHOICE_OUTCOME_ENDED = 3;
        /** The stream that the task has waited for since the dispatch ended. */
        public static final int AT_WAITS_FOR = 29;
        public static final int TYPE_WAITS_FOR = Layout.FIELD_ENUM;
        public static final int CHOICE_WAITS_FOR_NONE = 0;
        public static final int CHOICE_WAITS_FOR_INPUT = 1;
        public static final int CHOICE_WAITS_FOR_OUTPUT = 2;
        public static final int CHOICE_WAITS_FOR_NAMED = 3;
        /** The cause that had made the task ready. */
        public static final int AT_CAUSE = 30;
        public static final int TYPE_CAUSE = Layout.FIELD_ENUM;
        public static final int CHOICE_CAUSE_CREATED = 0;
        public static final int CHOICE_CAUSE_INPUT = 1;
        public static final int CHOICE_CAUSE_ROOM = 2;
        public static final int CHOICE_CAUSE_YIELD = 3;
        public static final int CHOICE_CAUSE_END = 4;
        public static final int CHOICE_CAUSE_UNRECORDED = 5;
        /** The stream that had made the task ready. */
        public static final int AT_READY_BY = 31;
        public static final int TYPE_READY_BY = Layout.FIELD_ENUM;
        public static final int CHOICE_READY_BY_NONE = 0;
        public static final int CHOICE_READY_BY_INPUT = 1;
        public static final int CHOICE_READY_BY_OUTPUT = 2;
        public static final int CHOICE_READY_BY_NAMED = 3;
        /** How the written messages descend from messages read. */
        public static final int AT_DESCENT = 32;
        public static final int TYPE_DESCENT = Layout.FIELD_ENUM;
        public static final int CHOICE_DESCENT_UNRECORDED = 0;
        public static final int CHOICE_DESCENT_EACH_FROM_NEXT = 1;
        public static final int CHOICE_DESCENT_ALL_FROM_ONE = 2;
        /** The index of the message that the first written message descends from, less the index of the first message read. */
        public static final int AT_PARENT_OFFSET = 40;
        public static final int TYPE_PARENT_OFFSET = Layout.FIELD_I64;
    }

    /** Streams of the next dispatch that its base (`exec.dispatch_base`) does not name. */
    public static final class ExecDispatchStreams {
        private ExecDispatchStreams() {}
        public static final String NAME = "exec.dispatch_streams";
        public static final long HASH = 0x1edba76eb9bddd18L;
        public static final int WORDS = 2;
        /** The stream that the task has waited for since the dispatch ended, or 0. */
        public static final int AT_WAITS_FOR = 0;
        public static final int TYPE_WAITS_FOR = Layout.FIELD_U64;
        /** The stream that had made the task ready, or 0. */
        public static final int AT_READY_BY = 8;
        public static final int TYPE_READY_BY = Layout.FIELD_U64;
    }

    /** A task finished processing a message (at this event's time). Recorded only if processing a message takes long compared with recording it: see `exec.clock_budget`. */
    public static final class ExecMessageWorked {
        private ExecMessageWorked() {}
        public static final String NAME = "exec.message_worked";
        public static final long HASH = 0x6d00d648573519b7L;
        public static final int WORDS = 3;
        /** The task. */
        public static final int AT_TASK = 0;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The message's index in the stream that the task reads. */
        public static final int AT_INDEX = 8;
        public static final int TYPE_INDEX = Layout.FIELD_U64;
        /** The duration. */
        public static final int AT_DURATION_TICKS = 16;
        public static final int TYPE_DURATION_TICKS = Layout.FIELD_U64;
    }

    /** Messages that the next dispatch read from a stream that its base (`exec.dispatch_base`) does not name. */
    public static final class ExecStreamRead {
        private ExecStreamRead() {}
        public static final String NAME = "exec.stream_read";
        public static final long HASH = 0x5518cc83770cab8cL;
        public static final int WORDS = 3;
        /** The stream. */
        public static final int AT_STREAM = 0;
        public static final int TYPE_STREAM = Layout.FIELD_U64;
        /** The index of the first message, counted from 0. */
        public static final int AT_FIRST = 8;
        public static final int TYPE_FIRST = Layout.FIELD_U64;
        /** The number of messages. */
        public static final int AT_COUNT = 16;
        public static final int TYPE_COUNT = Layout.FIELD_U32;
    }

    /** Messages that the next dispatch wrote to a stream that its base (`exec.dispatch_base`) does not name. */
    public static final class ExecStreamWrote {
        private ExecStreamWrote() {}
        public static final String NAME = "exec.stream_wrote";
        public static final long HASH = 0xc32e99b931772073L;
        public static final int WORDS = 3;
        /** The stream. */
        public static final int AT_STREAM = 0;
        public static final int TYPE_STREAM = Layout.FIELD_U64;
        /** The index of the first message, counted from 0. */
        public static final int AT_FIRST = 8;
        public static final int TYPE_FIRST = Layout.FIELD_U64;
        /** The number of messages. */
        public static final int AT_COUNT = 16;
        public static final int TYPE_COUNT = Layout.FIELD_U32;
        /** How the messages descend from messages that this or an earlier dispatch of the task read from the stream that its base (`exec.dispatch_base`) names as input. */
        public static final int AT_DESCENT = 20;
        public static final int TYPE_DESCENT = Layout.FIELD_ENUM;
        public static final int CHOICE_DESCENT_UNRECORDED = 0;
        public static final int CHOICE_DESCENT_EACH_FROM_NEXT = 1;
        public static final int CHOICE_DESCENT_ALL_FROM_ONE = 2;
        /** The index of the message that the first message descends from, less the index of the first message that the dispatch read from the input stream of its base. */
        public static final int AT_PARENT_OFFSET = 22;
        public static final int TYPE_PARENT_OFFSET = Layout.FIELD_I16;
    }

    /** Lineage: message `first + k` of `stream` descends from message `parent_first + k * step` of `parent_stream`. */
    public static final class ExecDerived {
        private ExecDerived() {}
        public static final String NAME = "exec.derived";
        public static final long HASH = 0x1aacdc242d31c0dfL;
        public static final int WORDS = 5;
        /** The stream written. */
        public static final int AT_STREAM = 0;
        public static final int TYPE_STREAM = Layout.FIELD_U64;
        /** The index of the first message written. */
        public static final int AT_FIRST = 8;
        public static final int TYPE_FIRST = Layout.FIELD_U64;
        /** The stream read. */
        public static final int AT_PARENT_STREAM = 16;
        public static final int TYPE_PARENT_STREAM = Layout.FIELD_U64;
        /** The index of the message that the first message written descends from. */
        public static final int AT_PARENT_FIRST = 24;
        public static final int TYPE_PARENT_FIRST = Layout.FIELD_U64;
        /** The number of messages of `stream`. */
        public static final int AT_COUNT = 32;
        public static final int TYPE_COUNT = Layout.FIELD_U32;
        /** 0: all messages descend from the same message; 1: the k-th message descends from the k-th of as many parent messages. */
        public static final int AT_STEP = 36;
        public static final int TYPE_STEP = Layout.FIELD_U32;
    }

    /** A wait that never ends, because the run is deadlocked. Before the run ends, an event is recorded for each wait that never ends, up to 1,000. */
    public static final class ExecDeadlocked {
        private ExecDeadlocked() {}
        public static final String NAME = "exec.deadlocked";
        public static final long HASH = 0xd031267a7a987ddeL;
        public static final int WORDS = 4;
        /** The task that waits. */
        public static final int AT_TASK = 0;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The stream that the task waits for, maybe one of several. */
        public static final int AT_STREAM = 8;
        public static final int TYPE_STREAM = Layout.FIELD_U64;
        /** The task at the stream's other end. */
        public static final int AT_PEER = 16;
        public static final int TYPE_PEER = Layout.FIELD_U64;
        /** 1: the task waits for room; 0: the task waits for a message. */
        public static final int AT_FOR_ROOM = 24;
        public static final int TYPE_FOR_ROOM = Layout.FIELD_U8;
    }

    /** A task ended. The busy time, the two waiting times and the ready time add up to the measured part of the task's life (modes metrics and full). */
    public static final class ExecTaskEnded {
        private ExecTaskEnded() {}
        public static final String NAME = "exec.task_ended";
        public static final long HASH = 0x4b9211049c36bde0L;
        public static final int WORDS = 9;
        /** The task. */
        public static final int AT_TASK = 0;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The time for which the task ran. */
        public static final int AT_BUSY_TICKS = 8;
        public static final int TYPE_BUSY_TICKS = Layout.FIELD_U64;
        /** The time for which the task waited for messages. */
        public static final int AT_INPUT_WAIT_TICKS = 16;
        public static final int TYPE_INPUT_WAIT_TICKS = Layout.FIELD_U64;
        /** The time for which the task waited for room in a stream. */
        public static final int AT_OUTPUT_WAIT_TICKS = 24;
        public static final int TYPE_OUTPUT_WAIT_TICKS = Layout.FIELD_U64;
        /** The time for which the task was ready but did not run. */
        public static final int AT_READY_TICKS = 32;
        public static final int TYPE_READY_TICKS = Layout.FIELD_U64;
        /** The number of the task's dispatches. */
        public static final int AT_DISPATCHES = 40;
        public static final int TYPE_DISPATCHES = Layout.FIELD_U64;
        /** The number of messages that the task read. */
        public static final int AT_READS = 48;
        public static final int TYPE_READS = Layout.FIELD_U64;
        /** The number of messages that the task wrote. */
        public static final int AT_WRITES = 56;
        public static final int TYPE_WRITES = Layout.FIELD_U64;
        /** Whether the task failed. */
        public static final int AT_FAILED = 64;
        public static final int TYPE_FAILED = Layout.FIELD_BOOL;
        /** Whether the task panicked. */
        public static final int AT_PANICKED = 65;
        public static final int TYPE_PANICKED = Layout.FIELD_BOOL;
    }

    /** A task ended without an error, and up to two streams closed with all their messages read. This event replaces `exec.task_ended` and `exec.stream_closed` if all counts fit into it. */
    public static final class ExecBriefTaskEnded {
        private ExecBriefTaskEnded() {}
        public static final String NAME = "exec.brief_task_ended";
        public static final long HASH = 0xe234c676a1c85355L;
        public static final int WORDS = 6;
        /** The task. */
        public static final int AT_TASK = 0;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The time for which the task ran. */
        public static final int AT_BUSY_TICKS = 8;
        public static final int TYPE_BUSY_TICKS = Layout.FIELD_U32;
        /** The time for which the task waited for messages. */
        public static final int AT_INPUT_WAIT_TICKS = 12;
        public static final int TYPE_INPUT_WAIT_TICKS = Layout.FIELD_U32;
        /** The time for which the task waited for room in a stream. */
        public static final int AT_OUTPUT_WAIT_TICKS = 16;
        public static final int TYPE_OUTPUT_WAIT_TICKS = Layout.FIELD_U32;
        /** The time for which the task was ready but did not run. */
        public static final int AT_READY_TICKS = 20;
        public static final int TYPE_READY_TICKS = Layout.FIELD_U32;
        /** The number of the task's dispatches. */
        public static final int AT_DISPATCHES = 24;
        public static final int TYPE_DISPATCHES = Layout.FIELD_U16;
        /** The number of messages that the task read. */
        public static final int AT_READS = 26;
        public static final int TYPE_READS = Layout.FIELD_U16;
        /** The number of messages that the task wrote. */
        public static final int AT_WRITES = 28;
        public static final int TYPE_WRITES = Layout.FIELD_U16;
        /** The number of messages that passed the first stream. */
        public static final int AT_PASSED = 30;
        public static final int TYPE_PASSED = Layout.FIELD_U16;
        /** The first stream that closed, or 0. */
        public static final int AT_STREAM = 32;
        public static final int TYPE_STREAM = Layout.FIELD_U64;
        /** The id of the second stream less the id of the first; 0: there is no second stream. */
        public static final int AT_OTHER = 40;
        public static final int TYPE_OTHER = Layout.FIELD_I32;
        /** The number of messages that passed the second stream. */
        public static final int AT_OTHER_PASSED = 44;
        public static final int TYPE_OTHER_PASSED = Layout.FIELD_U16;
    }

    /** A task was attached to an end of a stream, or, if neither task is named, the stream's capacity changed. */
    public static final class ExecStreamOpened {
        private ExecStreamOpened() {}
        public static final String NAME = "exec.stream_opened";
        public static final long HASH = 0xe29cd0569f256484L;
        public static final int WORDS = 5;
        /** The stream. */
        public static final int AT_STREAM = 0;
        public static final int TYPE_STREAM = Layout.FIELD_U64;
        /** The stream's name, if it has one. */
        public static final int AT_NAME = 8;
        public static final int TYPE_NAME = Layout.FIELD_NAME;
        /** The task that reads the stream, or 0. */
        public static final int AT_READER = 16;
        public static final int TYPE_READER = Layout.FIELD_U64;
        /** The task that writes the stream, or 0. */
        public static final int AT_WRITER = 24;
        public static final int TYPE_WRITER = Layout.FIELD_U64;
        /** The stream's capacity. */
        public static final int AT_CAPACITY = 32;
        public static final int TYPE_CAPACITY = Layout.FIELD_U64;
    }

    /** Both ends of a stream are closed. Written = read + dropped. */
    public static final class ExecStreamClosed {
        private ExecStreamClosed() {}
        public static final String NAME = "exec.stream_closed";
        public static final long HASH = 0x4539eda65b603cadL;
        public static final int WORDS = 4;
        /** The stream. */
        public static final int AT_STREAM = 0;
        public static final int TYPE_STREAM = Layout.FIELD_U64;
        /** The number of messages written to the stream. */
        public static final int AT_WRITTEN = 8;
        public static final int TYPE_WRITTEN = Layout.FIELD_U64;
        /** The number of messages read from the stream. */
        public static final int AT_READ = 16;
        public static final int TYPE_READ = Layout.FIELD_U64;
        /** Messages that no task read, because the reader had left. */
        public static final int AT_DROPPED = 24;
        public static final int TYPE_DROPPED = Layout.FIELD_U64;
    }

    /** The measured sizes of a stream's messages; recorded when both ends of the stream are closed, before `exec.stream_closed`. */
    public static final class ExecStreamSizes {
        private ExecStreamSizes() {}
        public static final String NAME = "exec.stream_sizes";
        public static final long HASH = 0xda32fec8c30d30c1L;
        public static final int WORDS = 6;
        /** The stream. */
        public static final int AT_STREAM = 0;
        public static final int TYPE_STREAM = Layout.FIELD_U64;
        /** The number of messages that the sizes represent: all up to the last one whose size was measured. */
        public static final int AT_MESSAGES = 8;
        public static final int TYPE_MESSAGES = Layout.FIELD_U64;
        /** The total size of the messages that the sizes represent. */
        public static final int AT_BYTES = 16;
        public static final int TYPE_BYTES = Layout.FIELD_U64;
        /** The smallest size measured. */
        public static final int AT_LEAST = 24;
        public static final int TYPE_LEAST = Layout.FIELD_U64;
        /** The largest size measured. */
        public static final int AT_MOST = 32;
        public static final int TYPE_MOST = Layout.FIELD_U64;
        /** The bounds of the buckets of `exec.stream_size_counts`, coded as in the live row `exec.message_sizes`. */
        public static final int AT_SCALE = 40;
        public static final int TYPE_SCALE = Layout.FIELD_U64;
    }

    /** The histogram of a stream's message sizes; `exec.stream_sizes`, the next event, has the bounds of its buckets. */
    public static final class ExecStreamSizeCounts {
        private ExecStreamSizeCounts() {}
        public static final String NAME = "exec.stream_size_counts";
        public static final long HASH = 0xe8653dfe072f1dceL;
        public static final int WORDS = 8;
        /** The stream. */
        public static final int AT_STREAM = 0;
        public static final int TYPE_STREAM = Layout.FIELD_U64;
        /** Buckets 0 to 3 of 28, 16 bits each from the lowest bit on. */
        public static final int AT_COUNTS_0 = 8;
        public static final int TYPE_COUNTS_0 = Layout.FIELD_U64;
        /** Buckets 4 to 7. */
        public static final int AT_COUNTS_1 = 16;
        public static final int TYPE_COUNTS_1 = Layout.FIELD_U64;
        /** Buckets 8 to 11. */
        public static final int AT_COUNTS_2 = 24;
        public static final int TYPE_COUNTS_2 = Layout.FIELD_U64;
        /** Buckets 12 to 15. */
        public static final int AT_COUNTS_3 = 32;
        public static final int TYPE_COUNTS_3 = Layout.FIELD_U64;
        /** Buckets 16 to 19. */
        public static final int AT_COUNTS_4 = 40;
        public static final int TYPE_COUNTS_4 = Layout.FIELD_U64;
        /** Buckets 20 to 23. */
        public static final int AT_COUNTS_5 = 48;
        public static final int TYPE_COUNTS_5 = Layout.FIELD_U64;
        /** Buckets 24 to 27. */
        public static final int AT_COUNTS_6 = 56;
        public static final int TYPE_COUNTS_6 = Layout.FIELD_U64;
    }

    /** The new mode of observation: recorded when the run begins, and at each change. */
    public static final class ExecModeChanged {
        private ExecModeChanged() {}
        public static final String NAME = "exec.mode_changed";
        public static final long HASH = 0x5c6c312c5dbc8761L;
        public static final int WORDS = 1;
        /** 0 off, 1 metrics, 2 full. */
        public static final int AT_MODE = 0;
        public static final int TYPE_MODE = Layout.FIELD_U8;
    }

    /** The runtime adopted a setting's new value. */
    public static final class ExecSettingAdopted {
        private ExecSettingAdopted() {}
        public static final String NAME = "exec.setting_adopted";
        public static final long HASH = 0xd0ca02e39bb47705L;
        public static final int WORDS = 3;
        /** The setting. */
        public static final int AT_NAME = 0;
        public static final int TYPE_NAME = Layout.FIELD_NAME;
        /** The previous value. */
        public static final int AT_OLD = 8;
        public static final int TYPE_OLD = Layout.FIELD_U64;
        /** The new value. */
        public static final int AT_NEW = 16;
        public static final int TYPE_NEW = Layout.FIELD_U64;
    }

    /** Why a task failed. */
    public static final class ExecTaskFailed {
        private ExecTaskFailed() {}
        public static final String NAME = "exec.task_failed";
        public static final long HASH = 0xf6416e46b0b7bf73L;
        public static final int WORDS = 2;
        /** The task. */
        public static final int AT_TASK = 0;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The message of the task's error. */
        public static final int AT_MESSAGE = 8;
        public static final int TYPE_MESSAGE = Layout.FIELD_STR;
    }

    /** The row of a task. */
    public static final class ExecTaskRow {
        private ExecTaskRow() {}
        public static final String NAME = "exec.task";
        public static final long HASH = 0x05d279995a889a2bL;
        /** The state. */
        public static final int CELL_STATE = 0;
        public static final int TYPE_STATE = Layout.FIELD_ENUM;
        public static final int CHOICE_STATE_IDLE = 0;
        public static final int CHOICE_STATE_READY = 1;
        public static final int CHOICE_STATE_RUNNING = 2;
        public static final int CHOICE_STATE_BLOCKED_INPUT = 3;
        public static final int CHOICE_STATE_BLOCKED_OUTPUT = 4;
        public static final int CHOICE_STATE_ENDED = 5;
        /** The component of the network that the task belongs to. */
        public static final int CELL_COMPONENT = 1;
        public static final int TYPE_COMPONENT = Layout.FIELD_SITE;
        /** The number of the component's replica that the task belongs to. */
        public static final int CELL_REPLICA = 2;
        public static final int TYPE_REPLICA = Layout.FIELD_U64;
        /** The task's worker; 4294967295: a thread of its own. */
        public static final int CELL_WORKER = 3;
        public static final int TYPE_WORKER = Layout.FIELD_U64;
        /** The number of the task's dispatches. */
        public static final int CELL_DISPATCHES = 4;
        public static final int TYPE_DISPATCHES = Layout.FIELD_U64;
        /** The number of messages that the task read. */
        public static final int CELL_READS = 5;
        public static final int TYPE_READS = Layout.FIELD_U64;
        /** The number of messages that the task wrote. */
        public static final int CELL_WRITES = 6;
        public static final int TYPE_WRITES = Layout.FIELD_U64;
        /** The time for which the task ran. */
        public static final int CELL_BUSY_TICKS = 7;
        public static final int TYPE_BUSY_TICKS = Layout.FIELD_U64;
        /** The time for which the task waited for messages. */
        public static final int CELL_INPUT_WAIT_TICKS = 8;
        public static final int TYPE_INPUT_WAIT_TICKS = Layout.FIELD_U64;
        /** The time for which the task waited for room in a stream. */
        public static final int CELL_OUTPUT_WAIT_TICKS = 9;
        public static final int TYPE_OUTPUT_WAIT_TICKS = Layout.FIELD_U64;
        /** The time for which the task was ready but did not run. */
        public static final int CELL_READY_TICKS = 10;
        public static final int TYPE_READY_TICKS = Layout.FIELD_U64;
        /** Whether the task failed. */
        public static final int CELL_FAILED = 11;
        public static final int TYPE_FAILED = Layout.FIELD_BOOL;
    }

    /** The row of a stream. */
    public static final class ExecStreamRow {
        private ExecStreamRow() {}
        public static final String NAME = "exec.stream";
        public static final long HASH = 0x58f71a8af1134d96L;
        /** The stream's name, if it has one. */
        public static final int CELL_NAME = 0;
        public static final int TYPE_NAME = Layout.FIELD_NAME;
        /** The task that reads the stream, or 0. */
        public static final int CELL_READER = 1;
        public static final int TYPE_READER = Layout.FIELD_U64;
        /** The task that writes the stream, or 0. */
        public static final int CELL_WRITER = 2;
        public static final int TYPE_WRITER = Layout.FIELD_U64;
        /** The stream's capacity. */
        public static final int CELL_CAPACITY = 3;
        public static final int TYPE_CAPACITY = Layout.FIELD_U64;
        /** The number of messages written to the stream. */
        public static final int CELL_WRITTEN = 4;
        public static final int TYPE_WRITTEN = Layout.FIELD_U64;
        /** The number of messages read from the stream. */
        public static final int CELL_READ = 5;
        public static final int TYPE_READ = Layout.FIELD_U64;
        /** The number of messages that no task reads, because the reader has left. */
        public static final int CELL_DROPPED = 6;
        public static final int TYPE_DROPPED = Layout.FIELD_U64;
        /** Whether both ends of the stream are closed. */
        public static final int CELL_CLOSED = 7;
        public static final int TYPE_CLOSED = Layout.FIELD_BOOL;
    }

    /** The measured sizes of a stream's messages. The row's id is the stream's id. */
    public static final class ExecMessageSizesRow {
        private ExecMessageSizesRow() {}
        public static final String NAME = "exec.message_sizes";
        public static final long HASH = 0x81e9d291a7b81748L;
        /** The number of messages that the sizes represent: all up to the last one whose size was measured. */
        public static final int CELL_MESSAGES = 0;
        public static final int TYPE_MESSAGES = Layout.FIELD_U64;
        /** The total size of the messages that the sizes represent. */
        public static final int CELL_BYTES = 1;
        public static final int TYPE_BYTES = Layout.FIELD_U64;
        /** The smallest size measured. */
        public static final int CELL_LEAST = 2;
        public static final int TYPE_LEAST = Layout.FIELD_U64;
        /** The largest size measured. */
        public static final int CELL_MOST = 3;
        public static final int TYPE_MOST = Layout.FIELD_U64;
        /** The bounds of the buckets. From the lowest bit on: 4 bits, c; 12 bits, b; 7 bits, u; 1 bit, set while the bounds are being changed; 40 bits, the number of sizes measured. Bucket k, from 0, counts the sizes from 2^((b + k) * 2^c / 32) bytes up to the start of bucket k + 1, in units of 2^u messages. */
        public static final int CELL_SCALE = 4;
        public static final int TYPE_SCALE = Layout.FIELD_U64;
        /** Buckets 0 to 3 of 28, 16 bits each from the lowest bit on. */
        public static final int CELL_COUNTS_0 = 5;
        public static final int TYPE_COUNTS_0 = Layout.FIELD_U64;
        /** Buckets 4 to 7. */
        public static final int CELL_COUNTS_1 = 6;
        public static final int TYPE_COUNTS_1 = Layout.FIELD_U64;
        /** Buckets 8 to 11. */
        public static final int CELL_COUNTS_2 = 7;
        public static final int TYPE_COUNTS_2 = Layout.FIELD_U64;
        /** Buckets 12 to 15. */
        public static final int CELL_COUNTS_3 = 8;
        public static final int TYPE_COUNTS_3 = Layout.FIELD_U64;
        /** Buckets 16 to 19. */
        public static final int CELL_COUNTS_4 = 9;
        public static final int TYPE_COUNTS_4 = Layout.FIELD_U64;
        /** Buckets 20 to 23. */
        public static final int CELL_COUNTS_5 = 10;
        public static final int TYPE_COUNTS_5 = Layout.FIELD_U64;
        /** Buckets 24 to 27. */
        public static final int CELL_COUNTS_6 = 11;
        public static final int TYPE_COUNTS_6 = Layout.FIELD_U64;
    }

    /** A worker. */
    public static final class ExecWorkerRow {
        private ExecWorkerRow() {}
        public static final String NAME = "exec.worker";
        public static final long HASH = 0xbdc45917e16f16f3L;
        /** The core that the worker's thread is bound to; -1: none. */
        public static final int CELL_CORE = 0;
        public static final int TYPE_CORE = Layout.FIELD_I64;
        /** The state. */
        public static final int CELL_STATE = 1;
        public static final int TYPE_STATE = Layout.FIELD_ENUM;
        public static final int CHOICE_STATE_RUNNING = 0;
        public static final int CHOICE_STATE_WAITING = 1;
        public static final int CHOICE_STATE_ENDED = 2;
        public static final int CHOICE_STATE_PARKED = 3;
        /** The task that the worker dispatches, or 0. */
        public static final int CELL_TASK = 2;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The index of the message that the task processes. */
        public static final int CELL_MESSAGE = 3;
        public static final int TYPE_MESSAGE = Layout.FIELD_U64;
        /** The time in which the worker dispatched tasks, with the short gaps between dispatches. */
        public static final int CELL_BUSY_TICKS = 4;
        public static final int TYPE_BUSY_TICKS = Layout.FIELD_U64;
        /** The time in which the worker had no ready task, without the time in which it was parked. */
        public static final int CELL_WAITING_TICKS = 5;
        public static final int TYPE_WAITING_TICKS = Layout.FIELD_U64;
        /** When the worker started. */
        public static final int CELL_STARTED = 6;
        public static final int TYPE_STARTED = Layout.FIELD_U64;
        /** When the worker ended or last published its row. */
        public static final int CELL_UPDATED = 7;
        public static final int TYPE_UPDATED = Layout.FIELD_U64;
        /** The number of the worker's dispatches. */
        public static final int CELL_DISPATCHES = 8;
        public static final int TYPE_DISPATCHES = Layout.FIELD_U64;
        /** The number of events that the worker wrote. */
        public static final int CELL_EVENTS = 9;
        public static final int TYPE_EVENTS = Layout.FIELD_U64;
        /** The time that one reading of the clock takes on the worker's thread. */
        public static final int CELL_CLOCK_READING_PS = 10;
        public static final int TYPE_CLOCK_READING_PS = Layout.FIELD_U64;
        /** The time in which the worker was parked. */
        public static final int CELL_PARKED_TICKS = 11;
        public static final int TYPE_PARKED_TICKS = Layout.FIELD_U64;
    }

    /** The stream by which records enter a network. */
    public static final class NetEntry {
        private NetEntry() {}
        public static final String NAME = "net.entry";
        public static final long HASH = 0x2297e4ca03522879L;
        public static final int WORDS = 1;
        /** The stream. */
        public static final int AT_STREAM = 0;
        public static final int TYPE_STREAM = Layout.FIELD_U64;
    }

    /** The stream by which records leave a network. */
    public static final class NetExit {
        private NetExit() {}
        public static final String NAME = "net.exit";
        public static final long HASH = 0x3953fb41e52a9449L;
        public static final int WORDS = 1;
        /** The stream. */
        public static final int AT_STREAM = 0;
        public static final int TYPE_STREAM = Layout.FIELD_U64;
    }

    /** A record failed and left the network. */
    public static final class NetRecordFailed {
        private NetRecordFailed() {}
        public static final String NAME = "net.record_failed";
        public static final long HASH = 0xcc35255eba461932L;
        public static final int WORDS = 5;
        /** The task that worked on the record. */
        public static final int AT_TASK = 0;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The task's component. */
        public static final int AT_COMPONENT = 8;
        public static final int TYPE_COMPONENT = Layout.FIELD_SITE;
        /** The stream of the record, as a message. */
        public static final int AT_STREAM = 16;
        public static final int TYPE_STREAM = Layout.FIELD_U64;
        /** The number of the record in this stream, from 0. */
        public static final int AT_INDEX = 24;
        public static final int TYPE_INDEX = Layout.FIELD_U64;
        /** The reason of the failure. */
        public static final int AT_REASON = 32;
        public static final int TYPE_REASON = Layout.FIELD_STR;
    }

    /** A component keeps a record beyond the dispatch in which it read it, and sends it on later. */
    public static final class NetRecordHeld {
        private NetRecordHeld() {}
        public static final String NAME = "net.record_held";
        public static final long HASH = 0xeff000e882886a2dL;
        public static final int WORDS = 3;
        /** The task that keeps the record. */
        public static final int AT_TASK = 0;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The stream of the record, as a message. */
        public static final int AT_STREAM = 8;
        public static final int TYPE_STREAM = Layout.FIELD_U64;
        /** The number of the record in this stream, from 0. */
        public static final int AT_INDEX = 16;
        public static final int TYPE_INDEX = Layout.FIELD_U64;
    }

    /** A type of records that the task reads: recorded before the task describes the first record of the type. */
    public static final class NetRecordType {
        private NetRecordType() {}
        public static final String NAME = "net.record_type";
        public static final long HASH = 0xd6b1a60f00df7115L;
        public static final int WORDS = 2;
        /** The task. */
        public static final int AT_TASK = 0;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The type's number in this run. */
        public static final int AT_RECORD_TYPE = 8;
        public static final int TYPE_RECORD_TYPE = Layout.FIELD_U32;
        /** The labels of the type as files show them, tags first; only the first 200 bytes of a longer text. */
        public static final int AT_LABELS = 12;
        public static final int TYPE_LABELS = Layout.FIELD_STR;
    }

    /** Describes the record on which a box begins to work. Recorded only where the box takes much longer for a record than recording this event takes: see `exec.clock_budget`. */
    public static final class NetRecordDescribed {
        private NetRecordDescribed() {}
        public static final String NAME = "net.record_described";
        public static final long HASH = 0x8f1f87694edc8132L;
        public static final int WORDS = 7;
        /** The task. */
        public static final int AT_TASK = 0;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The record's index in the stream that the task reads. */
        public static final int AT_INDEX = 8;
        public static final int TYPE_INDEX = Layout.FIELD_U64;
        /** The number of the record's type. */
        public static final int AT_RECORD_TYPE = 16;
        public static final int TYPE_RECORD_TYPE = Layout.FIELD_U32;
        /** The bytes of the record's values, without values that only a library understands. */
        public static final int AT_SIZE_BYTES = 24;
        public static final int TYPE_SIZE_BYTES = Layout.FIELD_U64;
        /** The value of the record's first tag, in the order of the type's labels; 0 without a tag. */
        public static final int AT_TAG_0 = 32;
        public static final int TYPE_TAG_0 = Layout.FIELD_I64;
        /** The value of the record's second tag; 0 without a second tag. */
        public static final int AT_TAG_1 = 40;
        public static final int TYPE_TAG_1 = Layout.FIELD_I64;
        /** The value of the record's third tag; 0 without a third tag. */
        public static final int AT_TAG_2 = 48;
        public static final int TYPE_TAG_2 = Layout.FIELD_I64;
    }

    /** From this message on, messages of a link and of a stream correspond one by one. Recorded at the first message, and whenever another message of the stream follows than the next one. */
    public static final class NetJoint {
        private NetJoint() {}
        public static final String NAME = "net.joint";
        public static final long HASH = 0x2b8c48f3d118ca94L;
        public static final int WORDS = 6;
        /** The task at this end of the link. */
        public static final int AT_TASK = 0;
        public static final int TYPE_TASK = Layout.FIELD_U64;
        /** The link's number in its session. */
        public static final int AT_LINK = 8;
        public static final int TYPE_LINK = Layout.FIELD_U64;
        /** The direction in which records travel. */
        public static final int AT_WAY = 16;
        public static final int TYPE_WAY = Layout.FIELD_ENUM;
        public static final int CHOICE_WAY_OUT = 0;
        public static final int CHOICE_WAY_IN = 1;
        /** The number of the message in the link, from 0. */
        public static final int AT_NUMBER = 24;
        public static final int TYPE_NUMBER = Layout.FIELD_U64;
        /** The stream. */
        public static final int AT_STREAM = 32;
        public static final int TYPE_STREAM = Layout.FIELD_U64;
        /** The number of the message in the stream, from 0. */
        public static final int AT_INDEX = 40;
        public static final int TYPE_INDEX = Layout.FIELD_U64;
    }

    /** A tuner decided something about this run. */
    public static final class TunerDecided {
        private TunerDecided() {}
        public static final String NAME = "tuner.decided";
        public static final long HASH = 0x784aa21bedcddf8bL;
        public static final int WORDS = 9;
        /** The decision's number. */
        public static final int AT_NUMBER = 0;
        public static final int TYPE_NUMBER = Layout.FIELD_U64;
        /** What was decided. */
        public static final int AT_WHAT = 8;
        public static final int TYPE_WHAT = Layout.FIELD_ENUM;
        public static final int CHOICE_WHAT_BEGAN = 0;
        public static final int CHOICE_WHAT_CHANGED = 1;
        public static final int CHOICE_WHAT_TRIED = 2;
        public static final int CHOICE_WHAT_KEPT = 3;
        public static final int CHOICE_WHAT_TAKEN_BACK = 4;
        public static final int CHOICE_WHAT_UNDONE = 5;
        public static final int CHOICE_WHAT_PINNED = 6;
        public static final int CHOICE_WHAT_ADVISED = 7;
        public static final int CHOICE_WHAT_ENDED = 8;
        /** The expected gain: the part by which the goal was expected to become better; not a number if unknown. */
        public static final int AT_PREDICTED = 16;
        public static final int TYPE_PREDICTED = Layout.FIELD_F64;
        /** The gain measured in the trial: the part by which the goal became better. */
        public static final int AT_GAIN = 24;
        public static final int TYPE_GAIN = Layout.FIELD_F64;
        /** The lower bound of the gain, with a confidence of 99 %. */
        public static final int AT_LEAST = 32;
        public static final int TYPE_LEAST = Layout.FIELD_F64;
        /** The upper bound of the gain. */
        public static final int AT_MOST = 40;
        public static final int TYPE_MOST = Layout.FIELD_F64;
        /** The number of pairs of windows that the trial compared. */
        public static final int AT_PAIRS = 48;
        public static final int TYPE_PAIRS = Layout.FIELD_U32;
        /** The change that the tuner decided about, in words. */
        public static final int AT_CHANGE = 52;
        public static final int TYPE_CHANGE = Layout.FIELD_STR;
        /** The settings' values that the change sets, as `NAME=VALUE`. */
        public static final int AT_VALUES = 56;
        public static final int TYPE_VALUES = Layout.FIELD_STR;
        /** The settings' values that undo the change, as `NAME=VALUE`. */
        public static final int AT_BACK = 60;
        public static final int TYPE_BACK = Layout.FIELD_STR;
        /** The model or rule that proposed the change. */
        public static final int AT_MODEL = 64;
        public static final int TYPE_MODEL = Layout.FIELD_STR;
        /** The reason for the decision. */
        public static final int AT_WHY = 68;
        public static final int TYPE_WHY = Layout.FIELD_STR;
    }

    /** A command paused the run's sources, or let them continue. */
    public static final class ControlPaused {
        private ControlPaused() {}
        public static final String NAME = "control.paused";
        public static final long HASH = 0xc49a31c9592edb2cL;
        public static final int WORDS = 1;
        /** Whether the sources are paused. */
        public static final int AT_PAUSED = 0;
        public static final int TYPE_PAUSED = Layout.FIELD_BOOL;
    }

    /** The counters of an end of a link since it was made; recorded when the end is made, five times a second, and when it ends. */
    public static final class LinkCounted {
        private LinkCounted() {}
        public static final String NAME = "link.counted";
        public static final long HASH = 0xffb2611734e5a001L;
        public static final int WORDS = 15;
        /** The link's number in its session. */
        public static final int AT_LINK = 0;
        public static final int TYPE_LINK = Layout.FIELD_U64;
        /** The node at the other end. */
        public static final int AT_NODE = 8;
        public static final int TYPE_NODE = Layout.FIELD_NAME;
        /** The direction in which records travel. */
        public static final int AT_DIRECTION = 16;
        public static final int TYPE_DIRECTION = Layout.FIELD_ENUM;
        public static final int CHOICE_DIRECTION_OUT = 0;
        public static final int CHOICE_DIRECTION_IN = 1;
        /** Messages (records, and the marks between them) that were sent or received. */
        public static final int AT_MESSAGES = 24;
        public static final int TYPE_MESSAGES = Layout.FIELD_U64;
        /** Bytes of these messages. */
        public static final int AT_PAYLOAD = 32;
        public static final int TYPE_PAYLOAD = Layout.FIELD_U64;
        /** Bytes sent or received over connections, with headers and after compression. */
        public static final int AT_WIRE = 40;
        public static final int TYPE_WIRE = Layout.FIELD_U64;
        /** Frames that were sent or received. */
        public static final int AT_FRAMES = 48;
        public static final int TYPE_FRAMES = Layout.FIELD_U64;
        /** Connections that were made; more than 1 if one broke. */
        public static final int AT_CONNECTIONS = 56;
        public static final int TYPE_CONNECTIONS = Layout.FIELD_U64;
        /** Bytes that were sent again after a connection broke. */
        public static final int AT_RESENT = 64;
        public static final int TYPE_RESENT = Layout.FIELD_U64;
        /** Bytes that are not sent yet (out), or that the task has not read yet (in). */
        public static final int AT_QUEUED = 72;
        public static final int TYPE_QUEUED = Layout.FIELD_U64;
        /** The time for which the sender waited because the receiver had no room. */
        public static final int AT_CREDIT_WAIT = 80;
        public static final int TYPE_CREDIT_WAIT = Layout.FIELD_U64;
        /** The time for which the sender waited because all ports were in use. */
        public static final int AT_PORT_WAIT = 88;
        public static final int TYPE_PORT_WAIT = Layout.FIELD_U64;
        /** The time for which the sender waited because the allowed bandwidth was used up. */
        public static final int AT_PACE_WAIT = 96;
        public static final int TYPE_PACE_WAIT = Layout.FIELD_U64;
        /** The time for which the connection accepted no bytes (out) or delivered none (in), or for which there was no connection. */
        public static final int AT_CONNECTION_WAIT = 104;
        public static final int TYPE_CONNECTION_WAIT = Layout.FIELD_U64;
        /** How the link's bytes travel; known at the sender. */
        public static final int AT_CARRIER = 112;
        public static final int TYPE_CARRIER = Layout.FIELD_ENUM;
        public static final int CHOICE_CARRIER_UNKNOWN = 0;
        public static final int CHOICE_CARRIER_TCP = 1;
        public static final int CHOICE_CARRIER_TLS = 2;
        public static final int CHOICE_CARRIER_UNIX = 3;
        public static final int CHOICE_CARRIER_MEMORY = 4;
        public static final int CHOICE_CARRIER_ROUTED = 5;
        /** Whether the link goes directly although `link.transport` is `routed`, because one of its ends is the process that began the session. */
        public static final int AT_IS_EXEMPT = 113;
        public static final int TYPE_IS_EXEMPT = Layout.FIELD_BOOL;
    }

    /** The links of a process have adopted a new value of a setting. */
    public static final class LinkSettingAdopted {
        private LinkSettingAdopted() {}
        public static final String NAME = "link.setting_adopted";
        public static final long HASH = 0x42145ef6de5b9b74L;
        public static final int WORDS = 3;
        /** The setting. */
        public static final int AT_NAME = 0;
        public static final int TYPE_NAME = Layout.FIELD_NAME;
        /** The previous value. */
        public static final int AT_OLD = 8;
        public static final int TYPE_OLD = Layout.FIELD_U64;
        /** The new value. */
        public static final int AT_NEW = 16;
        public static final int TYPE_NEW = Layout.FIELD_U64;
    }
}
