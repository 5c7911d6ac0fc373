"""The kinds of event and of live row that Thalweg has, by name. Written by `cargo xtask kinds` from the files in kinds/.

KINDS["exec.task_ready"].fields["task"].at is the byte of its fixed part where a field is;
ROWS["exec.task"].cells["state"].at is the number of a cell.
"""

from collections import namedtuple

import thalweg_layout as layout

Kind = namedtuple("Kind", "name hash words doc fields")
Row = namedtuple("Row", "name hash doc cells")
Field = namedtuple("Field", "name type at unit choices doc")

KINDS = {
    "space.setting_adopted": Kind("space.setting_adopted", 0xa0c933fed3e1330b, 5, "A setting's new value was adopted.", {
        "name": Field("name", layout.FIELD_NAME, 0, "", {}, "The setting."),
        "old": Field("old", layout.FIELD_U64, 8, "", {}, "Its value before."),
        "new": Field("new", layout.FIELD_U64, 16, "", {}, "Its value from here on."),
        "pid": Field("pid", layout.FIELD_U32, 24, "", {}, "The process that set it; 0: unknown."),
        "user": Field("user", layout.FIELD_U32, 28, "", {}, "The user that set it."),
        "tool": Field("tool", layout.FIELD_STR, 32, "", {}, "The tool that set it, if it said so."),
    }),
    "space.setting_leased": Kind("space.setting_leased", 0x1f92459219ad6e73, 6, "A setting was changed under a lease: it goes back to its former value unless the lease is renewed or confirmed.", {
        "name": Field("name", layout.FIELD_NAME, 0, "", {}, "The setting."),
        "value": Field("value", layout.FIELD_U64, 8, "", {}, "Its value under the lease."),
        "confirmed": Field("confirmed", layout.FIELD_U64, 16, "", {}, "The value that was confirmed last, to which it goes back."),
        "lasts": Field("lasts", layout.FIELD_U64, 24, "ns", {}, "For how long from now on, without renewal; all bits set: no time ends it."),
        "while_alive": Field("while_alive", layout.FIELD_BOOL, 32, "", {}, "Whether it ends with the process that holds it."),
        "pid": Field("pid", layout.FIELD_U32, 36, "", {}, "The process that holds it."),
        "user": Field("user", layout.FIELD_U32, 40, "", {}, "The user that holds it."),
        "tool": Field("tool", layout.FIELD_STR, 44, "", {}, "The tool that holds it, if it said so."),
    }),
    "space.setting_lease_ended": Kind("space.setting_lease_ended", 0x32d8099d63aca111, 5, "The lease of a setting is over.", {
        "name": Field("name", layout.FIELD_NAME, 0, "", {}, "The setting."),
        "value": Field("value", layout.FIELD_U64, 8, "", {}, "Its value from here on."),
        "leased": Field("leased", layout.FIELD_U64, 16, "", {}, "Its value under the lease."),
        "why": Field("why", layout.FIELD_ENUM, 24, "", {"expired": 0, "holder_died": 1, "confirmed": 2, "given_back": 3, "taken_over": 4}, "Why."),
        "pid": Field("pid", layout.FIELD_U32, 28, "", {}, "The process that held it."),
        "user": Field("user", layout.FIELD_U32, 32, "", {}, "The user that held it."),
        "tool": Field("tool", layout.FIELD_STR, 36, "", {}, "The tool that held it, if it said so."),
    }),
    "space.probes_switched": Kind("space.probes_switched", 0x3ccff26f6c646cda, 3, "Probes were switched on or off.", {
        "pattern": Field("pattern", layout.FIELD_STR, 0, "", {}, "Which: a pattern of their names."),
        "on": Field("on", layout.FIELD_BOOL, 4, "", {}, "On or off."),
        "probes": Field("probes", layout.FIELD_U32, 8, "", {}, "How many there are of that name now."),
        "pid": Field("pid", layout.FIELD_U32, 12, "", {}, "The process that switched them."),
        "user": Field("user", layout.FIELD_U32, 16, "", {}, "The user that switched them."),
    }),
    "space.command_adopted": Kind("space.command_adopted", 0x32c4c6a550a5ca80, 4, "A command was adopted.", {
        "command": Field("command", layout.FIELD_U64, 0, "", {}, "The command's number."),
        "pid": Field("pid", layout.FIELD_U32, 8, "", {}, "The process that sent it."),
        "user": Field("user", layout.FIELD_U32, 12, "", {}, "The user that sent it."),
        "target": Field("target", layout.FIELD_STR, 16, "", {}, "What it is for."),
        "name": Field("name", layout.FIELD_STR, 20, "", {}, "What is to be done."),
        "arguments": Field("arguments", layout.FIELD_STR, 24, "", {}, "With what, separated by spaces."),
        "tool": Field("tool", layout.FIELD_STR, 28, "", {}, "The tool that sent it, if it said so."),
    }),
    "space.command_leased": Kind("space.command_leased", 0x7231766c8881b307, 4, "A command was done under a lease: its inverse will be done unless the lease is renewed or confirmed.", {
        "command": Field("command", layout.FIELD_U64, 0, "", {}, "The command's number."),
        "lasts": Field("lasts", layout.FIELD_U64, 8, "ns", {}, "For how long from now on, without renewal; all bits set: no time ends it."),
        "while_alive": Field("while_alive", layout.FIELD_BOOL, 16, "", {}, "Whether it ends with the process that holds it."),
        "target": Field("target", layout.FIELD_STR, 20, "", {}, "What the inverse is for."),
        "inverse": Field("inverse", layout.FIELD_STR, 24, "", {}, "The inverse."),
        "arguments": Field("arguments", layout.FIELD_STR, 28, "", {}, "With what, separated by spaces."),
    }),
    "space.command_lease_ended": Kind("space.command_lease_ended", 0xf453166d62a63681, 3, "The lease of a command is over.", {
        "command": Field("command", layout.FIELD_U64, 0, "", {}, "The command's number. What takes it back, if it is not confirmed or taken over, is a command of this number, too."),
        "why": Field("why", layout.FIELD_ENUM, 8, "", {"expired": 0, "holder_died": 1, "confirmed": 2, "given_back": 3, "taken_over": 4}, "Why."),
        "pid": Field("pid", layout.FIELD_U32, 12, "", {}, "The process that held it."),
        "user": Field("user", layout.FIELD_U32, 16, "", {}, "The user that held it."),
        "tool": Field("tool", layout.FIELD_STR, 20, "", {}, "The tool that held it, if it said so."),
    }),
    "space.command_answered": Kind("space.command_answered", 0xcf1390ff02b21c66, 2, "A command was answered.", {
        "command": Field("command", layout.FIELD_U64, 0, "", {}, "The command's number."),
        "done": Field("done", layout.FIELD_BOOL, 8, "", {}, "Whether it was done."),
        "answer": Field("answer", layout.FIELD_STR, 12, "", {}, "What came of it, or why it failed."),
    }),
    "path.operation_completed": Kind("path.operation_completed", 0x9c87d8b9f326b67a, 4, "An operation went through a path.", {
        "operation": Field("operation", layout.FIELD_NAME, 0, "", {}, "Which operation."),
        "started": Field("started", layout.FIELD_U64, 8, "ticks", {}, "When it began."),
        "first": Field("first", layout.FIELD_U64, 16, "", {}, "Its first parameter."),
        "second": Field("second", layout.FIELD_U64, 24, "", {}, "Its second parameter."),
    }),
    "probe.called": Kind("probe.called", 0x0d0e6d8a3a0f8962, 2, "A call ended (at this event's time).", {
        "operation": Field("operation", layout.FIELD_U32, 0, "", {}, "The operation: a site of the catalog."),
        "depth": Field("depth", layout.FIELD_U16, 4, "", {}, "How many recorded calls of this thread enclosed it."),
        "outcome": Field("outcome", layout.FIELD_ENUM, 6, "", {"returned": 0, "failed": 1, "unwound": 2}, "How it ended."),
        "duration": Field("duration", layout.FIELD_U64, 8, "ticks", {}, "How long it lasted."),
    }),
    "probe.called_address": Kind("probe.called_address", 0xeec6e7f93376714b, 3, "A call ended of a function that is known by its address: the catalog's sites of the kind `mapping` say where its file lay.", {
        "address": Field("address", layout.FIELD_U64, 0, "", {}, "Where the function begins."),
        "duration": Field("duration", layout.FIELD_U64, 8, "ticks", {}, "How long it lasted."),
        "depth": Field("depth", layout.FIELD_U16, 16, "", {}, "How many recorded calls of this thread enclosed it."),
        "outcome": Field("outcome", layout.FIELD_ENUM, 18, "", {"returned": 0, "failed": 1, "unwound": 2}, "How it ended."),
    }),
    "probe.constructed": Kind("probe.constructed", 0xe9e26354aa914fe0, 3, "An object was made: its constructor ended (at this event's time).", {
        "operation": Field("operation", layout.FIELD_U32, 0, "", {}, "The constructor: a site of the catalog."),
        "depth": Field("depth", layout.FIELD_U16, 4, "", {}, "How many recorded calls of this thread enclosed it."),
        "outcome": Field("outcome", layout.FIELD_ENUM, 6, "", {"returned": 0, "failed": 1, "unwound": 2}, "How it ended."),
        "duration": Field("duration", layout.FIELD_U64, 8, "ticks", {}, "How long it lasted."),
        "object": Field("object", layout.FIELD_U64, 16, "", {}, "The object, by a number of the program's own."),
    }),
    "probe.entered": Kind("probe.entered", 0xa8918dfbcace2a6c, 1, "A call began (at this event's time); `probe.left` tells its end.", {
        "operation": Field("operation", layout.FIELD_U32, 0, "", {}, "The operation: a site of the catalog."),
        "depth": Field("depth", layout.FIELD_U16, 4, "", {}, "How many recorded calls of this thread enclose it."),
    }),
    "probe.left": Kind("probe.left", 0xd70ca5f9cbbeef1e, 1, "A call ended whose beginning `probe.entered` told.", {
        "operation": Field("operation", layout.FIELD_U32, 0, "", {}, "The operation: a site of the catalog."),
        "depth": Field("depth", layout.FIELD_U16, 4, "", {}, "How many recorded calls of this thread enclosed it."),
        "outcome": Field("outcome", layout.FIELD_ENUM, 6, "", {"returned": 0, "failed": 1, "unwound": 2}, "How it ended."),
    }),
    "probe.trace_begun": Kind("probe.trace_begun", 0xa6cafb5cf6366e17, 3, "The trace that this thread is in has this identity: that of the outermost call which encloses this event, or which comes next.", {
        "trace_high": Field("trace_high", layout.FIELD_U64, 0, "", {}, "Its identity, high half."),
        "trace_low": Field("trace_low", layout.FIELD_U64, 8, "", {}, "Low half."),
        "parent": Field("parent", layout.FIELD_U64, 16, "", {}, "The span of another thread or process that it continues; 0: it begins here."),
    }),
    "probe.handed_over": Kind("probe.handed_over", 0x36ef12fd448e3fd6, 2, "Work was handed over that goes on elsewhere: in another thread, or later.", {
        "span": Field("span", layout.FIELD_U64, 0, "", {}, "A number for it that is unique among all processes."),
        "depth": Field("depth", layout.FIELD_U16, 8, "", {}, "How many recorded calls of this thread enclose this."),
    }),
    "probe.taken_over": Kind("probe.taken_over", 0x1efe55732e11f6e4, 1, "Work was taken over: the outermost call which encloses this event, or which comes next, is what was handed over.", {
        "span": Field("span", layout.FIELD_U64, 0, "", {}, "Its number."),
    }),
    "probe.sent": Kind("probe.sent", 0x7e1f11a5d290a029, 3, "A message was sent, with the trace that this thread is in.", {
        "span": Field("span", layout.FIELD_U64, 0, "", {}, "A number for it that is unique among all processes: the parent's in a `traceparent`."),
        "bytes": Field("bytes", layout.FIELD_U64, 8, "bytes", {}, "Its bytes; 0: not known."),
        "depth": Field("depth", layout.FIELD_U16, 16, "", {}, "How many recorded calls of this thread enclose this."),
    }),
    "probe.received": Kind("probe.received", 0x6811a3f6e74b7a9e, 3, "A message was received.", {
        "span": Field("span", layout.FIELD_U64, 0, "", {}, "Its number; 0: not known."),
        "bytes": Field("bytes", layout.FIELD_U64, 8, "bytes", {}, "Its bytes; 0: not known."),
        "depth": Field("depth", layout.FIELD_U16, 16, "", {}, "How many recorded calls of this thread enclose this."),
    }),
    "probe.counted": Kind("probe.counted", 0xbbe2a2b7f013ff3c, 2, "A counter went on.", {
        "counter": Field("counter", layout.FIELD_U32, 0, "", {}, "The counter: a site of the catalog."),
        "by": Field("by", layout.FIELD_I64, 8, "", {}, "By how much."),
    }),
    "probe.gauged": Kind("probe.gauged", 0x3b5581626b8427a6, 2, "A gauge was read.", {
        "gauge": Field("gauge", layout.FIELD_U32, 0, "", {}, "The gauge: a site of the catalog."),
        "value": Field("value", layout.FIELD_F64, 8, "", {}, "What it shows."),
    }),
    "probe.logged": Kind("probe.logged", 0x23534ca54d4555b6, 2, "A line for a log.", {
        "operation": Field("operation", layout.FIELD_U32, 0, "", {}, "Where in the program: a site of the catalog; 0: not known."),
        "level": Field("level", layout.FIELD_ENUM, 4, "", {"error": 1, "warning": 2, "info": 3, "debug": 4, "trace": 5}, "How grave it is."),
        "text": Field("text", layout.FIELD_STR, 8, "", {}, "What it says."),
    }),
    "exec.worker_started": Kind("exec.worker_started", 0x0d608e1c06525f23, 4, "A worker's thread began to work.", {
        "worker": Field("worker", layout.FIELD_U32, 0, "", {}, "The worker, counted from 0."),
        "core": Field("core", layout.FIELD_I64, 8, "", {}, "The core it is bound to; -1: none."),
        "node": Field("node", layout.FIELD_I64, 16, "", {}, "The NUMA node of that core; -1: not known."),
        "clock_reading_ps": Field("clock_reading_ps", layout.FIELD_U64, 24, "ps", {}, "What a reading of the clock takes on its thread."),
    }),
    "exec.worker_parked": Kind("exec.worker_parked", 0xfe1ab76c71543182, 1, "A worker takes no part from now on: it gives its tasks away and sleeps.", {
        "worker": Field("worker", layout.FIELD_U32, 0, "", {}, "The worker."),
    }),
    "exec.worker_unparked": Kind("exec.worker_unparked", 0x85612887a9290391, 1, "A worker takes part again.", {
        "worker": Field("worker", layout.FIELD_U32, 0, "", {}, "The worker."),
    }),
    "exec.worker_waiting": Kind("exec.worker_waiting", 0xc7218d01428aa4ca, 1, "A worker found no ready task.", {
        "worker": Field("worker", layout.FIELD_U32, 0, "", {}, "The worker."),
    }),
    "exec.worker_resumed": Kind("exec.worker_resumed", 0xa1158b158f82ae30, 1, "A worker has a ready task again.", {
        "worker": Field("worker", layout.FIELD_U32, 0, "", {}, "The worker."),
    }),
    "exec.worker_ended": Kind("exec.worker_ended", 0xe53f8aa30c02c88b, 5, "A worker ended.", {
        "worker": Field("worker", layout.FIELD_U32, 0, "", {}, "The worker."),
        "busy_ticks": Field("busy_ticks", layout.FIELD_U64, 8, "ticks", {}, "Time it dispatched tasks, the little between them included."),
        "waiting_ticks": Field("waiting_ticks", layout.FIELD_U64, 16, "ticks", {}, "Time it had no ready task, but took part."),
        "own_ticks": Field("own_ticks", layout.FIELD_U64, 24, "ticks", {}, "Time between dispatches and waits that it measured: it woke others, moved tasks."),
        "kept_ticks": Field("kept_ticks", layout.FIELD_U64, 32, "ticks", {}, "Time it could have run and had no processor, as far as it was noticed at once: part of none of the others."),
    }),
    "exec.kept": Kind("exec.kept", 0x64baf84b137eb3da, 3, "For so long a worker could have run and had no processor: in the dispatch, or the wait, that ends with the next event; or in its own work that ends with this one.", {
        "worker": Field("worker", layout.FIELD_U32, 0, "", {}, "The worker."),
        "task": Field("task", layout.FIELD_U64, 8, "", {}, "The task that was dispatched; 0: none."),
        "duration_ticks": Field("duration_ticks", layout.FIELD_U64, 16, "ticks", {}, "For how long."),
    }),
    "exec.thread_used": Kind("exec.thread_used", 0xccce706443afcc19, 7, "What a thread used of its processor so far; recorded at intervals and at its end (modes metrics and full).", {
        "worker": Field("worker", layout.FIELD_U32, 0, "", {}, "The worker; 4294967295: a thread of a task's own."),
        "task": Field("task", layout.FIELD_U64, 8, "", {}, "That task, or 0."),
        "cpu_ns": Field("cpu_ns", layout.FIELD_U64, 16, "ns", {}, "Time it had a processor."),
        "preempted": Field("preempted", layout.FIELD_U64, 24, "times", {}, "How often it was put off its processor for another thread."),
        "delayed_ns": Field("delayed_ns", layout.FIELD_U64, 32, "ns", {}, "Time it could have run and had no processor; 18446744073709551615 where the kernel does not report it."),
        "own_ticks": Field("own_ticks", layout.FIELD_U64, 40, "ticks", {}, "Of a worker: its own work so far, see `exec.worker_ended`."),
        "kept_ticks": Field("kept_ticks", layout.FIELD_U64, 48, "ticks", {}, "Of a worker: for how long it was kept from its processor so far, see `exec.worker_ended`."),
    }),
    "exec.task_created": Kind("exec.task_created", 0xcb9de2664832c2a4, 5, "A task was created.", {
        "task": Field("task", layout.FIELD_U64, 0, "", {}, "The task."),
        "component": Field("component", layout.FIELD_SITE, 8, "", {}, "The component of the network it belongs to."),
        "parent": Field("parent", layout.FIELD_U64, 16, "", {}, "The task that unfolded it, or 0."),
        "replica": Field("replica", layout.FIELD_U64, 24, "", {}, "Which of the component's replicas it is."),
        "one_to_one": Field("one_to_one", layout.FIELD_BOOL, 32, "", {}, "Whether its k-th message written descends from the k-th read."),
        "blocking": Field("blocking", layout.FIELD_BOOL, 33, "", {}, "Whether it has a thread of its own."),
    }),
    "exec.task_mapped": Kind("exec.task_mapped", 0x6dcf3d8bc2ba50ec, 2, "The mapper placed a task.", {
        "task": Field("task", layout.FIELD_U64, 0, "", {}, "The task."),
        "worker": Field("worker", layout.FIELD_U32, 8, "", {}, "Its worker; 4294967295: a thread of its own."),
    }),
    "exec.task_moved": Kind("exec.task_moved", 0x992627d3afe88f2b, 2, "A task moves to another worker, where it is ready.", {
        "task": Field("task", layout.FIELD_U64, 0, "", {}, "The task."),
        "from": Field("from", layout.FIELD_U32, 8, "", {}, "Its worker until now."),
        "worker": Field("worker", layout.FIELD_U32, 12, "", {}, "Its worker from now on."),
    }),
    "exec.dispatch_base": Kind("exec.dispatch_base", 0xa1e96920a8217aed, 6, "What the dispatches of a task that follow in the same block of the element have in common; each continues where the one before ended. A number of this kind counts from 0 in each block.", {
        "number": Field("number", layout.FIELD_U32, 0, "", {}, "The number by which dispatches name it."),
        "worker": Field("worker", layout.FIELD_U32, 4, "", {}, "The worker; 4294967295: a thread of the task's own."),
        "task": Field("task", layout.FIELD_U64, 8, "", {}, "The task."),
        "input": Field("input", layout.FIELD_U64, 16, "", {}, "A stream that it reads, or 0."),
        "first_read": Field("first_read", layout.FIELD_U64, 24, "", {}, "Index of the next message that it reads there, counted from 0."),
        "output": Field("output", layout.FIELD_U64, 32, "", {}, "A stream that it writes, or 0."),
        "first_written": Field("first_written", layout.FIELD_U64, 40, "", {}, "Index of the next message that it writes there."),
    }),
    "exec.dispatch": Kind("exec.dispatch", 0x1471b0e7cb5a9c2f, 3, "A dispatch ended (at this event's time). What it read and wrote besides the streams of its base, and what else descends from what, are the events `exec.stream_read`, `exec.stream_wrote` and `exec.derived` just before.", {
        "duration_ticks": Field("duration_ticks", layout.FIELD_U32, 0, "ticks", {}, "How long it lasted."),
        "ready_ticks": Field("ready_ticks", layout.FIELD_U32, 4, "ticks", {}, "How long the task had been ready when it began."),
        "base_number": Field("base_number", layout.FIELD_U32, 8, "", {}, "The number of its base, see `exec.dispatch_base`."),
        "reads": Field("reads", layout.FIELD_U16, 12, "messages", {}, "Messages read from the base's input."),
        "writes": Field("writes", layout.FIELD_U16, 14, "messages", {}, "Messages written to the base's output."),
        "outcome": Field("outcome", layout.FIELD_ENUM, 16, "", {"blocked_input": 0, "blocked_output": 1, "yielded": 2, "ended": 3}, "Why it ended."),
        "waits_for": Field("waits_for", layout.FIELD_ENUM, 17, "", {"none": 0, "input": 1, "output": 2, "named": 3}, "The stream that it waits for since."),
        "cause": Field("cause", layout.FIELD_ENUM, 18, "", {"created": 0, "input": 1, "room": 2, "yield": 3, "end": 4, "untold": 5}, "What had made the task ready."),
        "ready_by": Field("ready_by", layout.FIELD_ENUM, 19, "", {"none": 0, "input": 1, "output": 2, "named": 3}, "The stream that had made it ready."),
        "descent": Field("descent", layout.FIELD_ENUM, 20, "", {"untold": 0, "each_from_next": 1, "all_from_one": 2}, "What the messages written descend from."),
        "parent_offset": Field("parent_offset", layout.FIELD_I16, 22, "", {}, "Index of the message that the first one written descends from, less that of the first one read."),
    }),
    "exec.dispatch_long": Kind("exec.dispatch_long", 0xea62508500bb288a, 6, "A dispatch whose numbers are too large for `exec.dispatch`.", {
        "duration_ticks": Field("duration_ticks", layout.FIELD_U64, 0, "ticks", {}, "How long it lasted."),
        "ready_ticks": Field("ready_ticks", layout.FIELD_U64, 8, "ticks", {}, "How long the task had been ready when it began."),
        "base_number": Field("base_number", layout.FIELD_U32, 16, "", {}, "The number of its base, see `exec.dispatch_base`."),
        "reads": Field("reads", layout.FIELD_U32, 20, "messages", {}, "Messages read from the base's input."),
        "writes": Field("writes", layout.FIELD_U32, 24, "messages", {}, "Messages written to the base's output."),
        "outcome": Field("outcome", layout.FIELD_ENUM, 28, "", {"blocked_input": 0, "blocked_output": 1, "yielded": 2, "ended": 3}, "Why it ended."),
        "waits_for": Field("waits_for", layout.FIELD_ENUM, 29, "", {"none": 0, "input": 1, "output": 2, "named": 3}, "The stream that it waits for since."),
        "cause": Field("cause", layout.FIELD_ENUM, 30, "", {"created": 0, "input": 1, "room": 2, "yield": 3, "end": 4, "untold": 5}, "What had made the task ready."),
        "ready_by": Field("ready_by", layout.FIELD_ENUM, 31, "", {"none": 0, "input": 1, "output": 2, "named": 3}, "The stream that had made it ready."),
        "descent": Field("descent", layout.FIELD_ENUM, 32, "", {"untold": 0, "each_from_next": 1, "all_from_one": 2}, "What the messages written descend from."),
        "parent_offset": Field("parent_offset", layout.FIELD_I64, 40, "", {}, "Index of the message that the first one written descends from, less that of the first one read."),
    }),
    "exec.dispatch_streams": Kind("exec.dispatch_streams", 0x1edba76eb9bddd18, 2, "Streams of the dispatch that comes next and that are neither its base's input nor its output.", {
        "waits_for": Field("waits_for", layout.FIELD_U64, 0, "", {}, "The stream that the task waits for since, or 0."),
        "ready_by": Field("ready_by", layout.FIELD_U64, 8, "", {}, "The stream that had made it ready, or 0."),
    }),
    "exec.message_worked": Kind("exec.message_worked", 0x6d00d648573519b7, 3, "A message was worked on, until now. Told where messages take long against telling it: see `exec.clock_budget`.", {
        "task": Field("task", layout.FIELD_U64, 0, "", {}, "The task."),
        "index": Field("index", layout.FIELD_U64, 8, "", {}, "The message's index in the stream that the task reads."),
        "duration_ticks": Field("duration_ticks", layout.FIELD_U64, 16, "ticks", {}, "For how long."),
    }),
    "exec.stream_read": Kind("exec.stream_read", 0x5518cc83770cab8c, 3, "Messages read in the dispatch that comes next, from a stream that is not its base's input.", {
        "stream": Field("stream", layout.FIELD_U64, 0, "", {}, "The stream."),
        "first": Field("first", layout.FIELD_U64, 8, "", {}, "Index of the first message, counted from 0."),
        "count": Field("count", layout.FIELD_U32, 16, "messages", {}, "How many."),
    }),
    "exec.stream_wrote": Kind("exec.stream_wrote", 0x9254f01aae8db7ef, 3, "Messages written in the dispatch that comes next, to a stream that is not its base's output.", {
        "stream": Field("stream", layout.FIELD_U64, 0, "", {}, "The stream."),
        "first": Field("first", layout.FIELD_U64, 8, "", {}, "Index of the first message, counted from 0."),
        "count": Field("count", layout.FIELD_U32, 16, "messages", {}, "How many."),
    }),
    "exec.derived": Kind("exec.derived", 0x1aacdc242d31c0df, 5, "Lineage: message `first + k` of `stream` descends from message `parent_first + k * step` of `parent_stream`.", {
        "stream": Field("stream", layout.FIELD_U64, 0, "", {}, "The stream written."),
        "first": Field("first", layout.FIELD_U64, 8, "", {}, "Index of its first message."),
        "parent_stream": Field("parent_stream", layout.FIELD_U64, 16, "", {}, "The stream read."),
        "parent_first": Field("parent_first", layout.FIELD_U64, 24, "", {}, "Index of the message that the first descends from."),
        "count": Field("count", layout.FIELD_U32, 32, "messages", {}, "How many messages of `stream`."),
        "step": Field("step", layout.FIELD_U32, 36, "", {}, "0: all from the same message; 1: each from the next."),
    }),
    "exec.deadlocked": Kind("exec.deadlocked", 0xd031267a7a987dde, 4, "A deadlock was found: this is one of the waits that none can go on from. Told once for each, up to 1,000, before the run ends.", {
        "task": Field("task", layout.FIELD_U64, 0, "", {}, "The task that waits."),
        "stream": Field("stream", layout.FIELD_U64, 8, "", {}, "The stream that it waits for, maybe one of several."),
        "peer": Field("peer", layout.FIELD_U64, 16, "", {}, "Who is at the stream's other end."),
        "for_room": Field("for_room", layout.FIELD_U8, 24, "", {}, "1: it waits for room; 0: for a message."),
    }),
    "exec.task_ended": Kind("exec.task_ended", 0x4b9211049c36bde0, 9, "A task ended. The four times add up to its life, as far as it was measured (modes metrics and full).", {
        "task": Field("task", layout.FIELD_U64, 0, "", {}, "The task."),
        "busy_ticks": Field("busy_ticks", layout.FIELD_U64, 8, "ticks", {}, "Time it ran."),
        "input_wait_ticks": Field("input_wait_ticks", layout.FIELD_U64, 16, "ticks", {}, "Time it waited for messages."),
        "output_wait_ticks": Field("output_wait_ticks", layout.FIELD_U64, 24, "ticks", {}, "Time it waited for room."),
        "ready_ticks": Field("ready_ticks", layout.FIELD_U64, 32, "ticks", {}, "Time it was ready and did not run."),
        "dispatches": Field("dispatches", layout.FIELD_U64, 40, "dispatches", {}, "How often it was dispatched."),
        "reads": Field("reads", layout.FIELD_U64, 48, "messages", {}, "Messages it read."),
        "writes": Field("writes", layout.FIELD_U64, 56, "messages", {}, "Messages it wrote."),
        "failed": Field("failed", layout.FIELD_BOOL, 64, "", {}, "Whether it ended badly."),
        "panicked": Field("panicked", layout.FIELD_BOOL, 65, "", {}, "Whether it panicked."),
    }),
    "exec.stream_opened": Kind("exec.stream_opened", 0xe29cd0569f256484, 5, "A stream has an end attached to a task, for the first time or anew.", {
        "stream": Field("stream", layout.FIELD_U64, 0, "", {}, "The stream."),
        "name": Field("name", layout.FIELD_NAME, 8, "", {}, "Its name, if it has one."),
        "reader": Field("reader", layout.FIELD_U64, 16, "", {}, "The task that reads it, or 0."),
        "writer": Field("writer", layout.FIELD_U64, 24, "", {}, "The task that writes it, or 0."),
        "capacity": Field("capacity", layout.FIELD_U64, 32, "messages", {}, "How many messages it holds."),
    }),
    "exec.stream_closed": Kind("exec.stream_closed", 0x4539eda65b603cad, 4, "Both ends of a stream are gone. Written = read + dropped.", {
        "stream": Field("stream", layout.FIELD_U64, 0, "", {}, "The stream."),
        "written": Field("written", layout.FIELD_U64, 8, "messages", {}, "Messages written to it."),
        "read": Field("read", layout.FIELD_U64, 16, "messages", {}, "Messages read from it."),
        "dropped": Field("dropped", layout.FIELD_U64, 24, "messages", {}, "Messages nobody read, because the reader had left."),
    }),
    "exec.mode_changed": Kind("exec.mode_changed", 0x5c6c312c5dbc8761, 1, "The mode from now on: recorded when the run begins, and at each change.", {
        "mode": Field("mode", layout.FIELD_U8, 0, "", {}, "0 off, 1 metrics, 2 full."),
    }),
    "exec.setting_adopted": Kind("exec.setting_adopted", 0xd0ca02e39bb47705, 3, "The runtime adopted a setting's new value.", {
        "name": Field("name", layout.FIELD_NAME, 0, "", {}, "The setting."),
        "old": Field("old", layout.FIELD_U64, 8, "", {}, "The value until now."),
        "new": Field("new", layout.FIELD_U64, 16, "", {}, "The value from now on."),
    }),
    "exec.task_failed": Kind("exec.task_failed", 0xf6416e46b0b7bf73, 2, "Why a task failed.", {
        "task": Field("task", layout.FIELD_U64, 0, "", {}, "The task."),
        "message": Field("message", layout.FIELD_STR, 8, "", {}, "What it said."),
    }),
    "net.entry": Kind("net.entry", 0x2297e4ca03522879, 1, "The stream by which records enter a network.", {
        "stream": Field("stream", layout.FIELD_U64, 0, "", {}, "The stream."),
    }),
    "net.exit": Kind("net.exit", 0x3953fb41e52a9449, 1, "The stream by which records leave a network.", {
        "stream": Field("stream", layout.FIELD_U64, 0, "", {}, "The stream."),
    }),
    "net.record_failed": Kind("net.record_failed", 0xcc35255eba461932, 5, "A record failed and left the network.", {
        "task": Field("task", layout.FIELD_U64, 0, "", {}, "The task that worked on it."),
        "component": Field("component", layout.FIELD_SITE, 8, "", {}, "The task's component."),
        "stream": Field("stream", layout.FIELD_U64, 16, "", {}, "The message: its stream …"),
        "index": Field("index", layout.FIELD_U64, 24, "", {}, "… and its number in that stream, from 0."),
        "reason": Field("reason", layout.FIELD_STR, 32, "", {}, "Why."),
    }),
    "net.record_held": Kind("net.record_held", 0xeff000e882886a2d, 3, "A component keeps a record beyond the dispatch in which it read it, and sends it on later.", {
        "task": Field("task", layout.FIELD_U64, 0, "", {}, "The task that keeps it."),
        "stream": Field("stream", layout.FIELD_U64, 8, "", {}, "The message: its stream …"),
        "index": Field("index", layout.FIELD_U64, 16, "", {}, "… and its number in that stream, from 0."),
    }),
    "control.paused": Kind("control.paused", 0xc49a31c9592edb2c, 1, "The sources rest from now on, or go on, as a command asked for.", {
        "paused": Field("paused", layout.FIELD_BOOL, 0, "", {}, "They rest."),
    }),
}

ROWS = {
    "exec.task": Row("exec.task", 0x05d279995a889a2b, "A task that exists.", {
        "state": Field("state", layout.FIELD_ENUM, 0, "", {"idle": 0, "ready": 1, "running": 2, "blocked_input": 3, "blocked_output": 4, "ended": 5}, "What it is doing."),
        "component": Field("component", layout.FIELD_SITE, 1, "", {}, "The component of the network it belongs to."),
        "replica": Field("replica", layout.FIELD_U64, 2, "", {}, "Which of the component's replicas it is."),
        "worker": Field("worker", layout.FIELD_U64, 3, "", {}, "Its worker; 4294967295: a thread of its own."),
        "dispatches": Field("dispatches", layout.FIELD_U64, 4, "dispatches", {}, "How often it was dispatched."),
        "reads": Field("reads", layout.FIELD_U64, 5, "messages", {}, "Messages it read."),
        "writes": Field("writes", layout.FIELD_U64, 6, "messages", {}, "Messages it wrote."),
        "busy_ticks": Field("busy_ticks", layout.FIELD_U64, 7, "ticks", {}, "Time it ran."),
        "input_wait_ticks": Field("input_wait_ticks", layout.FIELD_U64, 8, "ticks", {}, "Time it waited for messages."),
        "output_wait_ticks": Field("output_wait_ticks", layout.FIELD_U64, 9, "ticks", {}, "Time it waited for room."),
        "ready_ticks": Field("ready_ticks", layout.FIELD_U64, 10, "ticks", {}, "Time it was ready and did not run."),
        "failed": Field("failed", layout.FIELD_BOOL, 11, "", {}, "Whether it ended badly."),
    }),
    "exec.stream": Row("exec.stream", 0x58f71a8af1134d96, "A stream that exists.", {
        "name": Field("name", layout.FIELD_NAME, 0, "", {}, "Its name, if it has one."),
        "reader": Field("reader", layout.FIELD_U64, 1, "", {}, "The task that reads it, or 0."),
        "writer": Field("writer", layout.FIELD_U64, 2, "", {}, "The task that writes it, or 0."),
        "capacity": Field("capacity", layout.FIELD_U64, 3, "messages", {}, "How many messages it holds."),
        "written": Field("written", layout.FIELD_U64, 4, "messages", {}, "Messages written to it."),
        "read": Field("read", layout.FIELD_U64, 5, "messages", {}, "Messages read from it."),
        "dropped": Field("dropped", layout.FIELD_U64, 6, "messages", {}, "Messages nobody reads, because the reader has left."),
        "closed": Field("closed", layout.FIELD_BOOL, 7, "", {}, "Whether both its ends are gone."),
    }),
    "exec.worker": Row("exec.worker", 0xbdc45917e16f16f3, "A worker.", {
        "core": Field("core", layout.FIELD_I64, 0, "", {}, "The core it is bound to; -1: none."),
        "state": Field("state", layout.FIELD_ENUM, 1, "", {"running": 0, "waiting": 1, "ended": 2, "parked": 3}, "What it is doing."),
        "task": Field("task", layout.FIELD_U64, 2, "", {}, "The task it is on, or 0."),
        "message": Field("message", layout.FIELD_U64, 3, "", {}, "Index of the message it is on."),
        "busy_ticks": Field("busy_ticks", layout.FIELD_U64, 4, "ticks", {}, "Time it dispatched tasks, the little between them included."),
        "waiting_ticks": Field("waiting_ticks", layout.FIELD_U64, 5, "ticks", {}, "Time it had no ready task, but took part."),
        "started": Field("started", layout.FIELD_U64, 6, "ticks", {}, "When it began."),
        "updated": Field("updated", layout.FIELD_U64, 7, "ticks", {}, "When it ended, or published last."),
        "dispatches": Field("dispatches", layout.FIELD_U64, 8, "dispatches", {}, "How often it dispatched a task."),
        "events": Field("events", layout.FIELD_U64, 9, "events", {}, "Events it wrote."),
        "clock_reading_ps": Field("clock_reading_ps", layout.FIELD_U64, 10, "ps", {}, "What a reading of the clock takes on its thread."),
        "parked_ticks": Field("parked_ticks", layout.FIELD_U64, 11, "ticks", {}, "Time it took no part."),
    }),
}
