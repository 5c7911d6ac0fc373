package org.thalweg;

/** The layout of a Thalweg space. Written by `cargo xtask layout` from space/src/layout.rs and space/src/kind.rs. */
public final class Layout {
    private Layout() {}

    /** The version of every file of a space. A reader refuses a file with a later version. */
    public static final int VERSION = 1;

    /** A page: the size of every file's header. */
    public static final int PAGE = 4096;

    /** A cache line: what one writer may own without disturbing another. */
    public static final int LINE = 64;

    /** Magic number, "thalweg" and a kind letter; written last. */
    public static final long IDENTITY_MAGIC_VALUE = 0x536765776c616874L;

    /** Magic. */
    public static final int IDENTITY_MAGIC = 0;

    /** Version (low half) and size of this file in bytes (high half). */
    public static final int IDENTITY_VERSION = 8;

    /** UUID, 16 bytes. */
    public static final int IDENTITY_UUID = 16;

    /** Process id (low half). */
    public static final int IDENTITY_PID = 32;

    /** Start of the process in clock ticks since boot, field 22 of `/proc/PID/stat`. */
    public static final int IDENTITY_PROCESS_START = 40;

    /** Machine's boot id, 16 bytes. */
    public static final int IDENTITY_BOOT = 48;

    /** Clock: 1 TSC, 2 `CLOCK_MONOTONIC` in nanoseconds. */
    public static final int IDENTITY_CLOCK = 64;

    /** Clock frequency in Hz as known at creation. */
    public static final int IDENTITY_FREQUENCY = 72;

    /** First anchor: ticks, `CLOCK_MONOTONIC` ns, `CLOCK_REALTIME` ns. */
    public static final int IDENTITY_ANCHOR_FIRST = 80;

    /** Second anchor: version (odd while being written), ticks, monotonic ns, real-time ns. Starts a line. */
    public static final int IDENTITY_ANCHOR_SECOND = 128;

    /** In a copy of a space of another machine, the largest error of the clock's real time, plus one, in nanoseconds; 0: the clock is the machine's own. */
    public static final int IDENTITY_CLOCK_ERROR = 160;

    /** State: 1 running, 2 finished. Starts a line. */
    public static final int IDENTITY_STATE = 192;

    /** The number of writers so far. Writers are numbered from 1, so this is also the last writer's number. */
    public static final int IDENTITY_WRITERS = 200;

    /** The number of settings. */
    public static final int IDENTITY_SETTINGS = 208;

    /** The number of live chunks. */
    public static final int IDENTITY_LIVE_CHUNKS = 216;

    /** Bit 0: keep; `clean` removes this space only if asked to. */
    public static final int IDENTITY_FLAGS = 224;

    /** The space's present name, as a reference to the catalog; 0: still `NAME`. */
    public static final int IDENTITY_NAME_NOW = 232;

    /** In a copy of a space of another machine, the process that fetches it (low half); 0: no process does. */
    public static final int IDENTITY_FETCHER = 240;

    /** Start of that process. */
    public static final int IDENTITY_FETCHER_START = 248;

    /** The space's first name: length as a word, then bytes. */
    public static final int IDENTITY_NAME = 256;

    /** The most bytes of the name. */
    public static final int IDENTITY_NAME_BYTES = 248;

    /** Host name: length, bytes. */
    public static final int IDENTITY_HOST = 512;

    /** The most bytes of the host name. */
    public static final int IDENTITY_HOST_BYTES = 248;

    /** Command line: length, bytes. */
    public static final int IDENTITY_COMMAND = 768;

    /** The most bytes of the command line. */
    public static final int IDENTITY_COMMAND_BYTES = 3320;

    /** Magic of an element. */
    public static final long ELEMENT_MAGIC_VALUE = 0x456765776c616874L;

    /** Magic of an archive. */
    public static final long ELEMENT_MAGIC_ARCHIVE = 0x416765776c616874L;

    /** Magic, written last. */
    public static final int ELEMENT_MAGIC = 0;

    /** Version (low half), policy (high half): 0 overwrite, 1 drop newest, 2 wait. */
    public static final int ELEMENT_VERSION = 8;

    /** Bytes of a block (low half), count of blocks (high half; 0 in an archive: block k lies at place k). */
    public static final int ELEMENT_BLOCKS = 16;

    /** Process id (low half). */
    public static final int ELEMENT_PROCESS = 24;

    /** Start of the process. */
    public static final int ELEMENT_PROCESS_START = 32;

    /** The number of the first writer (low half). */
    public static final int ELEMENT_WRITER = 40;

    /** Clock frequency in Hz. */
    public static final int ELEMENT_FREQUENCY = 48;

    /** Line 2: committed position in bytes since the start, block headers included. Writer only, release. */
    public static final int ELEMENT_HEAD = 64;

    /** Line 3: events dropped. Writer only. */
    public static final int ELEMENT_DROPS = 128;

    /** State: 1 open, 2 closed. Writer only. */
    public static final int ELEMENT_STATE = 136;

    /** Sequence of the next event, published when a block rolls and on closing. Writer only. */
    public static final int ELEMENT_SEQUENCE = 144;

    /** The present writer's number (low half) and thread (high half). Writer only. */
    public static final int ELEMENT_OWNER = 152;

    /** The id of the present writer's name in the process's catalog. Writer only. */
    public static final int ELEMENT_OWNER_NAME = 160;

    /** The number of writers that have used this element, the present one included. Writer only. */
    public static final int ELEMENT_GENERATION = 168;

    /** Position before which everything was discarded. Writer only. */
    public static final int ELEMENT_DISCARDED = 176;

    /** Sequence of the first event that was not discarded. Writer only. */
    public static final int ELEMENT_DISCARDED_SEQUENCE = 184;

    /** Line 4: position up to which a consumer has read; consumer only, release. */
    public static final int ELEMENT_READ_POSITION = 192;

    /** The consumer's process id (0: none); consumer only. */
    public static final int ELEMENT_READER = 200;

    /** Start of the consumer's process. */
    public static final int ELEMENT_READER_START = 208;

    /** Bytes of the header; in a file with one element the header has a page. */
    public static final int ELEMENT_HEADER = 256;

    /** The offset of the blocks. */
    public static final int ELEMENT_DATA = 4096;

    /** Magic. */
    public static final long POOL_MAGIC_VALUE = 0x506765776c616874L;

    /** Magic, written last. */
    public static final int POOL_MAGIC = 0;

    /** Version (low half), policy (high half), as in an element. */
    public static final int POOL_VERSION = 8;

    /** Bytes of a block (low half), count of blocks of an element (high half). */
    public static final int POOL_BLOCKS = 16;

    /** The number of elements that the pool can hold. */
    public static final int POOL_SLOTS = 24;

    /** The number of elements that were ever in use; elements are used in order. Written by the process, release. Starts a line. */
    public static final int POOL_USED = 64;

    /** The offset of the lines of the latest events; the elements follow at the next page. */
    public static final int POOL_LINES = 4096;

    /** Bytes of a line. */
    public static final int POOL_LINE_BYTES = 64;

    /** The most elements of a pool. */
    public static final int POOL_SLOTS_MAX = 4096;

    /** Magic. */
    public static final long LINK_MAGIC_VALUE = 0x4b6765776c616874L;

    /** Magic. */
    public static final int LINK_MAGIC = 0;

    /** Version (low half). */
    public static final int LINK_VERSION = 8;

    /** The directory: length as a word, then bytes. The last part of the path is `thalweg-` and the space's UUID in hexadecimal. */
    public static final int LINK_PATH = 16;

    /** The most bytes of the directory's path. */
    public static final int LINK_PATH_BYTES = 4072;

    /** Twice the events of the element so far; one less while the line is being written. Release. */
    public static final int LATEST_VERSION = 0;

    /** The time of the event. */
    public static final int LATEST_TIME = 8;

    /** The event's first word, but the writer's number instead of the time, and length 0 if texts or bytes follow the fixed part. */
    public static final int LATEST_FIRST = 16;

    /** The event's sequence. */
    public static final int LATEST_SEQUENCE = 24;

    /** The first words of the event's arguments. */
    public static final int LATEST_ARGUMENTS = 32;

    /** The number of words of arguments that the line can hold. */
    public static final int LATEST_ARGUMENT_WORDS = 4;

    /** Block number + 1; 0 while the block is being recycled. */
    public static final int BLOCK_NUMBER = 0;

    /** Time of the first event; its high half is that of the events after it. */
    public static final int BLOCK_BASE = 8;

    /** Sequence of the first event. */
    public static final int BLOCK_SEQUENCE = 16;

    /** Events dropped before this block. */
    public static final int BLOCK_DROPS = 24;

    /** Bytes of the header. */
    public static final int BLOCK_HEADER = 32;

    /** The smallest block. */
    public static final int BLOCK_BYTES_MIN = 512;

    /** The largest block. */
    public static final int BLOCK_BYTES_MAX = 67108864;

    /** Kind 0, length 0: the block has no further events. */
    public static final int EVENT_KIND_PADDING = 0;

    /** Two words: the second is a full time, whose high half applies to the following events of this block. */
    public static final int EVENT_KIND_FULL_TIME = 1;

    /** The writer of the following events: four words, which are this one, the number and thread of the writer (as in the element's header), the id of the writer's name, and the sequence of the writer's first event. An event of this kind has no sequence. An event of kind 2 is written when a writer takes over the element, and at the start of each of this writer's blocks; a block without such an event is the first writer's. */
    public static final int EVENT_KIND_OWNER = 2;

    /** Words of an event that names the writer. */
    public static final int EVENT_OWNER_WORDS = 4;

    /** More words of arguments of the previous event, which has `FLAG_CONTINUED`. A continuation has no sequence. */
    public static final int EVENT_KIND_CONTINUATION = 3;

    /** Kinds below this one are reserved. */
    public static final int EVENT_KIND_FIRST = 16;

    /** The event has the time of the previous event; its own 32 bits of time are ignored. */
    public static final int EVENT_FLAG_SAME_TIME = 1;

    /** The time was interpolated, not read from the clock. */
    public static final int EVENT_FLAG_INTERPOLATED = 2;

    /** A text or byte field was cut to fit. */
    public static final int EVENT_FLAG_TRUNCATED = 4;

    /** The arguments continue in the next event, which may be in the next block. */
    public static final int EVENT_FLAG_CONTINUED = 8;

    /** The longest event, or part of one that is continued, in words. */
    public static final int EVENT_WORDS_MAX = 4095;

    /** The most bytes of arguments that an event has with its continuations. */
    public static final int EVENT_ARGUMENT_BYTES_MAX = 16777216;

    /** Magic. */
    public static final long CATALOG_MAGIC_VALUE = 0x436765776c616874L;

    /** Bytes of the file's header: magic, version, writer. */
    public static final int CATALOG_HEADER = 64;

    /** A record: length in bytes with this header (u32), type (u32), FNV-1a of the rest (u64), payload. */
    public static final int CATALOG_RECORD_HEADER = 16;

    /** The longest record. */
    public static final int CATALOG_RECORD_BYTES_MAX = 1048576;

    /** A kind of event. */
    public static final int CATALOG_KIND = 1;

    /** An interned name. */
    public static final int CATALOG_NAME = 2;

    /** A site of the static structure. */
    public static final int CATALOG_SITE = 3;

    /** A setting's description. */
    public static final int CATALOG_SETTING = 4;

    /** The name of a probe. */
    public static final int CATALOG_PROBE = 5;

    /** In the file `probes`: a pattern of names and whether to switch those probes on, and the process that asks. */
    public static final int CATALOG_SWITCH = 6;

    /** In the file `session`: a process joined. */
    public static final int CATALOG_JOINED = 7;

    /** In the file `session`: a process left. */
    public static final int CATALOG_LEFT = 8;

    /** A kind of live row. Payload: code, name, doc, count of cells, and each cell as a kind's field. Live rows of this kind have the code in their tag. */
    public static final int CATALOG_ROW = 9;

    /** Magic. */
    public static final long SETTINGS_MAGIC_VALUE = 0x566765776c616874L;

    /** The number of changes of settings and probes. The process that makes a change stores this number, under the file's lock; release. Starts a line. */
    public static final int SETTINGS_CHANGES = 64;

    /** Not 0: the process restores a setting when its lease ends. Written by the process. */
    public static final int SETTINGS_KEEPS_LEASES = 72;

    /** The offset of the cells. */
    public static final int SETTINGS_CELLS = 4096;

    /** Bytes of a cell. */
    public static final int SETTINGS_CELL_BYTES = 64;

    /** In a cell, the value. */
    public static final int SETTINGS_VALUE = 0;

    /** In a cell, a version that is odd while the cell is being set. The setter stores the version, under the file's lock; release. */
    public static final int SETTINGS_CELL_VERSION = 8;

    /** In a cell, the setter: process id (low half) and user (high half). */
    public static final int SETTINGS_SETTER = 16;

    /** In a cell, the version to which the following words belong, with `DESCRIBED`; any other value: an earlier build set the cell, which then has no lease. The setter stores this word and the following words. */
    public static final int SETTINGS_LEASE_VERSION = 24;

    /** In a cell, the value that was confirmed last, which the end of a lease restores. */
    public static final int SETTINGS_CONFIRMED = 32;

    /** In a cell, the time at which the lease ends, by `CLOCK_MONOTONIC` in nanoseconds; all bits set: no time limit. */
    public static final int SETTINGS_LEASE_UNTIL = 40;

    /** In a cell, the start of the setter's process, if the lease ends with that process; else 0. */
    public static final int SETTINGS_HOLDER_START = 48;

    /** In a cell, the state of the lease. */
    public static final int SETTINGS_LEASE_STATE = 56;

    /** The number of cells. */
    public static final int SETTINGS_CELL_COUNT = 512;

    /** The offset of the names of the tools that set the cells, one a line: length as a word, then bytes. Files of earlier builds end before this offset. */
    public static final int SETTINGS_TOOLS = 36864;

    /** Bytes of a line. */
    public static final int SETTINGS_TOOL_BYTES = 64;

    /** The most bytes of a tool's name. */
    public static final int SETTINGS_TOOL_ROOM = 56;

    /** The highest bit of a cell's `LEASE_VERSION`. */
    public static final long SETTINGS_DESCRIBED = 0x8000000000000000L;

    /** A state of a lease: the setting has no lease, and its value is confirmed. */
    public static final int SETTINGS_LEASE_NONE = 0;

    /** A state of a lease: the lease is in force. */
    public static final int SETTINGS_LEASE_HELD = 1;

    /** A state of a lease: its holder confirmed the value. */
    public static final int SETTINGS_LEASE_CONFIRMED = 2;

    /** A state of a lease: its time ran out, and the confirmed value was restored. */
    public static final int SETTINGS_LEASE_EXPIRED = 3;

    /** A state of a lease: its holder died, and the confirmed value was restored. */
    public static final int SETTINGS_LEASE_HOLDER_DIED = 4;

    /** A state of a lease: its holder gave it back, and the confirmed value was restored. */
    public static final int SETTINGS_LEASE_GIVEN_BACK = 5;

    /** Magic. */
    public static final long MAILBOX_MAGIC_VALUE = 0x4d6765776c616874L;

    /** Twice the commands that were sent; one less while one is being sent, or if its sender was killed. Written by senders, or by the process while it holds the file's lock, with release ordering. Begins a cache line. */
    public static final int MAILBOX_SENT_COUNT = 64;

    /** The number of ids that commands were given. Senders only, under the file's lock. */
    public static final int MAILBOX_NUMBERS = 72;

    /** The offset of the slots. */
    public static final int MAILBOX_SLOTS = 4096;

    /** Bytes of a slot. */
    public static final int MAILBOX_SLOT_BYTES = 4096;

    /** The number of slots. */
    public static final int MAILBOX_SLOT_COUNT = 64;

    /** The state of a slot: one of the constants `FREE` to `FAILED`. */
    public static final int MAILBOX_STATE = 0;

    /** The command's number. */
    public static final int MAILBOX_ID = 8;

    /** The sender's process id (low half) and user (high half). */
    public static final int MAILBOX_SENDER = 16;

    /** Start of the sender's process. */
    public static final int MAILBOX_SENDER_START = 24;

    /** Bytes of the command. */
    public static final int MAILBOX_COMMAND_BYTES = 32;

    /** FNV-1a of the command's bytes. */
    public static final int MAILBOX_COMMAND_HASH = 40;

    /** Bytes of the answer; receiver only. */
    public static final int MAILBOX_ANSWER_BYTES = 48;

    /** Not 0: the sender does not wait for the answer. */
    public static final int MAILBOX_ABANDONED = 56;

    /** The command. */
    public static final int MAILBOX_COMMAND = 64;

    /** The most bytes of the command. */
    public static final int MAILBOX_COMMAND_ROOM = 1984;

    /** The answer; receiver only. */
    public static final int MAILBOX_ANSWER = 2048;

    /** The most bytes of the answer. */
    public static final int MAILBOX_ANSWER_ROOM = 2048;

    /** A state of a slot: free. */
    public static final int MAILBOX_FREE = 0;

    /** A state of a slot: the command was sent, and the receiver has not adopted it yet. Set by the sender, release. */
    public static final int MAILBOX_SENT = 1;

    /** A state of a slot: the receiver adopted the command. Set by the receiver. */
    public static final int MAILBOX_ADOPTED = 2;

    /** A state of a slot: the command was carried out. Set by the receiver, release. */
    public static final int MAILBOX_DONE = 3;

    /** A state of a slot: the command failed. Set by the receiver, release. */
    public static final int MAILBOX_FAILED = 4;

    /** Magic. */
    public static final long SHARED_MAP_MAGIC_VALUE = 0x4b6765776c616874L;

    /** The number of keys; release. Starts a line. */
    public static final int SHARED_MAP_KEYS = 64;

    /** The offset of the slots. */
    public static final int SHARED_MAP_SLOTS = 4096;

    /** Bytes of a slot. */
    public static final int SHARED_MAP_SLOT_BYTES = 448;

    /** The number of slots. */
    public static final int SHARED_MAP_SLOT_COUNT = 256;

    /** In a slot, the value: an integer, the bits of a float, or the length of a text. */
    public static final int SHARED_MAP_VALUE = 0;

    /** In a slot, a version that is odd while the slot is being written. */
    public static final int SHARED_MAP_SLOT_VERSION = 8;

    /** In a slot, the time of the value's stamp; 0: the value is the initial one. */
    public static final int SHARED_MAP_TIME = 16;

    /** In a slot, the process of the session that gave the stamp (low half), and the one whose box or user wrote the value (high half). */
    public static final int SHARED_MAP_WRITER = 24;

    /** In a slot, the type of the value: 1 integer, 2 float, 3 text. */
    public static final int SHARED_MAP_TYPE = 32;

    /** In a slot, the initial value, as `VALUE`. */
    public static final int SHARED_MAP_INITIAL = 40;

    /** In a slot, the bytes of a text. Starts a line. */
    public static final int SHARED_MAP_TEXT = 64;

    /** The most bytes of a text. */
    public static final int SHARED_MAP_TEXT_BYTES = 64;

    /** In a slot, the bytes of an initial text. */
    public static final int SHARED_MAP_INITIAL_TEXT = 128;

    /** In a slot, the key: length as a word, then bytes. */
    public static final int SHARED_MAP_KEY = 192;

    /** The most bytes of a key. */
    public static final int SHARED_MAP_KEY_BYTES = 56;

    /** In a slot, what the key is for: length as a word, then bytes. */
    public static final int SHARED_MAP_DOC = 256;

    /** The most bytes of what a key is for. */
    public static final int SHARED_MAP_DOC_BYTES = 184;

    /** Magic. */
    public static final long LIVE_MAGIC_VALUE = 0x4c6765776c616874L;

    /** The offset of the rows. */
    public static final int LIVE_ROWS = 4096;

    /** Bytes of a row. */
    public static final int LIVE_ROW_BYTES = 128;

    /** The code of the row's kind, which the catalog describes (low byte; 0: the row is free), and the row's generation (the other bytes). */
    public static final int LIVE_TAG = 0;

    /** The id of the object that the row shows. */
    public static final int LIVE_ID = 8;

    /** The offset of the first cell. */
    public static final int LIVE_CELLS = 16;

    /** The number of cells of a row. */
    public static final int LIVE_CELL_COUNT = 12;

    /** Rows of the first chunk; each later chunk has twice as many rows as the previous one, up to the largest. */
    public static final int LIVE_CHUNK_ROWS_FIRST = 256;

    /** Rows of the largest chunk. */
    public static final int LIVE_CHUNK_ROWS_MAX = 16384;

    /** Magic. */
    public static final long SWITCHES_MAGIC_VALUE = 0x4f6765776c616874L;

    /** The offset of the words. */
    public static final int SWITCHES_WORDS = 4096;

    /** Words of the first chunk; each later chunk has twice as many words as the previous one, up to the largest. */
    public static final int SWITCHES_CHUNK_WORDS_FIRST = 512;

    /** Words of the largest chunk. */
    public static final int SWITCHES_CHUNK_WORDS_MAX = 65536;

    public static final int FIELD_U8 = 1;

    public static final int FIELD_U16 = 2;

    public static final int FIELD_U32 = 3;

    public static final int FIELD_U64 = 4;

    public static final int FIELD_I8 = 5;

    public static final int FIELD_I16 = 6;

    public static final int FIELD_I32 = 7;

    public static final int FIELD_I64 = 8;

    public static final int FIELD_F32 = 9;

    public static final int FIELD_F64 = 10;

    /** One byte, 0 or 1. */
    public static final int FIELD_BOOL = 11;

    /** A `NameRef`. */
    public static final int FIELD_NAME = 12;

    /** A `SiteRef`. */
    public static final int FIELD_SITE = 13;

    /** One byte; the catalog holds the choices. */
    public static final int FIELD_ENUM = 14;

    /** UTF-8 text; its length stands in the fixed part. */
    public static final int FIELD_STR = 15;

    /** Bytes; their length stands in the fixed part. */
    public static final int FIELD_BYTES = 16;
}
