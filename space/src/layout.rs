//! The layout of all files of a space, version 1: the single definition of where every shared byte lies.
//!
//! All words are 64-bit little-endian and 8-aligned. Offsets are in bytes; they are chained, so that a field
//! cannot overlap its neighbour, and the ones that other languages rely on are pinned by `const` assertions
//! below. `docs/layout.md` draws the layout; a test compares the drawing's numbers with the constants.

/// The version of every file of a space. A reader refuses a file with a later version.
pub const VERSION: u32 = 1;
/// A page: the size of every file's header.
pub const PAGE: usize = 4096;
/// A cache line: what one writer may own without disturbing another.
pub const LINE: usize = 64;

/// `space`: the process that made this space, and its clock.
pub mod identity {
    /// Magic number, "thalweg" and a kind letter; written last.
    pub const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"thalwegS");
    /// Magic.
    pub const MAGIC: usize = 0;
    /// Version (low half) and size of this file in bytes (high half).
    pub const VERSION: usize = MAGIC + 8;
    /// UUID, 16 bytes.
    pub const UUID: usize = VERSION + 8;
    /// Process id (low half).
    pub const PID: usize = UUID + 16;
    /// Start of the process in clock ticks since boot, field 22 of `/proc/PID/stat`.
    pub const PROCESS_START: usize = PID + 8;
    /// Machine's boot id, 16 bytes.
    pub const BOOT: usize = PROCESS_START + 8;
    /// Clock: 1 TSC, 2 `CLOCK_MONOTONIC` in nanoseconds.
    pub const CLOCK: usize = BOOT + 16;
    /// Clock frequency in Hz as known at creation.
    pub const FREQUENCY: usize = CLOCK + 8;
    /// First anchor: ticks, `CLOCK_MONOTONIC` ns, `CLOCK_REALTIME` ns.
    pub const ANCHOR_FIRST: usize = FREQUENCY + 8;
    /// Second anchor: version (odd while being written), ticks, monotonic ns, real-time ns. Starts a line.
    pub const ANCHOR_SECOND: usize = 128;
    /// In a copy of a space of another machine, the largest error of the clock's real time, plus one, in
    /// nanoseconds; 0: the clock is the machine's own.
    pub const CLOCK_ERROR: usize = ANCHOR_SECOND + 32;
    /// State: 1 running, 2 finished. Starts a line.
    pub const STATE: usize = 192;
    /// The number of writers so far. Writers are numbered from 1, so this is also the last writer's number.
    pub const WRITERS: usize = STATE + 8;
    /// The number of settings.
    pub const SETTINGS: usize = WRITERS + 8;
    /// The number of live chunks.
    pub const LIVE_CHUNKS: usize = SETTINGS + 8;
    /// Bit 0: keep; `clean` removes this space only if asked to.
    pub const FLAGS: usize = LIVE_CHUNKS + 8;
    /// The space's present name, as a reference to the catalog; 0: still `NAME`.
    pub const NAME_NOW: usize = FLAGS + 8;
    /// In a copy of a space of another machine, the process that fetches it (low half); 0: no process does.
    pub const FETCHER: usize = NAME_NOW + 8;
    /// Start of that process.
    pub const FETCHER_START: usize = FETCHER + 8;
    /// The space's first name: length as a word, then bytes.
    pub const NAME: usize = 256;
    /// The most bytes of the name.
    pub const NAME_BYTES: usize = 248;
    /// Host name: length, bytes.
    pub const HOST: usize = NAME + 8 + NAME_BYTES;
    /// The most bytes of the host name.
    pub const HOST_BYTES: usize = 248;
    /// Command line: length, bytes.
    pub const COMMAND: usize = HOST + 8 + HOST_BYTES;
    /// The most bytes of the command line.
    pub const COMMAND_BYTES: usize = super::PAGE - COMMAND - 8;
}

/// `NNNN.element` and `NNNN.archive`: one writer's events.
pub mod element {
    /// Magic of an element.
    pub const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"thalwegE");
    /// Magic of an archive.
    pub const MAGIC_ARCHIVE: u64 = u64::from_le_bytes(*b"thalwegA");
    /// Magic, written last.
    pub const MAGIC: usize = 0;
    /// Version (low half), policy (high half): 0 overwrite, 1 drop newest, 2 wait.
    pub const VERSION: usize = MAGIC + 8;
    /// Bytes of a block (low half), count of blocks (high half; 0 in an archive: block k lies at place k).
    pub const BLOCKS: usize = VERSION + 8;
    /// Process id (low half).
    pub const PROCESS: usize = BLOCKS + 8;
    /// Start of the process.
    pub const PROCESS_START: usize = PROCESS + 8;
    /// The number of the first writer (low half).
    pub const WRITER: usize = PROCESS_START + 8;
    /// Clock frequency in Hz.
    pub const FREQUENCY: usize = WRITER + 8;
    /// Line 2: committed position in bytes since the start, block headers included. Writer only, release.
    pub const HEAD: usize = 64;
    /// Line 3: events dropped. Writer only.
    pub const DROPS: usize = 128;
    /// State: 1 open, 2 closed. Writer only.
    pub const STATE: usize = DROPS + 8;
    /// Sequence of the next event, published when a block rolls and on closing. Writer only.
    pub const SEQUENCE: usize = STATE + 8;
    /// The present writer's number (low half) and thread (high half). Writer only.
    pub const OWNER: usize = SEQUENCE + 8;
    /// The id of the present writer's name in the process's catalog. Writer only.
    pub const OWNER_NAME: usize = OWNER + 8;
    /// The number of writers that have used this element, the present one included. Writer only.
    pub const GENERATION: usize = OWNER_NAME + 8;
    /// Position before which everything was discarded. Writer only.
    pub const DISCARDED: usize = GENERATION + 8;
    /// Sequence of the first event that was not discarded. Writer only.
    pub const DISCARDED_SEQUENCE: usize = DISCARDED + 8;
    /// Line 4: position up to which a consumer has read; consumer only, release.
    pub const READ_POSITION: usize = 192;
    /// The consumer's process id (0: none); consumer only.
    pub const READER: usize = READ_POSITION + 8;
    /// Start of the consumer's process.
    pub const READER_START: usize = READER + 8;
    /// Bytes of the header; in a file with one element the header has a page.
    pub const HEADER: usize = 4 * super::LINE;
    /// The offset of the blocks.
    pub const DATA: usize = super::PAGE;
}

/// `NNNN.pool`: many small elements of one size in a file. A page of header, a line per element with its latest event,
/// then the elements, each with the header of [`element`] (of [`element::HEADER`] bytes) and its blocks.
pub mod pool {
    /// Magic.
    pub const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"thalwegP");
    /// Magic, written last.
    pub const MAGIC: usize = 0;
    /// Version (low half), policy (high half), as in an element.
    pub const VERSION: usize = MAGIC + 8;
    /// Bytes of a block (low half), count of blocks of an element (high half).
    pub const BLOCKS: usize = VERSION + 8;
    /// The number of elements that the pool can hold.
    pub const SLOTS: usize = BLOCKS + 8;
    /// The number of elements that were ever in use; elements are used in order. Written by the process,
    /// release. Starts a line.
    pub const USED: usize = 64;
    /// The offset of the lines of the latest events; the elements follow at the next page.
    pub const LINES: usize = super::PAGE;
    /// Bytes of a line.
    pub const LINE_BYTES: usize = super::LINE;
    /// The most elements of a pool.
    pub const SLOTS_MAX: usize = 4096;

    /// The offset of the elements.
    pub const fn elements(slots: usize) -> usize {
        (LINES + slots * LINE_BYTES).next_multiple_of(super::PAGE)
    }

    /// Bytes of an element.
    pub const fn slot_bytes(block_bytes: usize, block_count: usize) -> usize {
        super::element::HEADER + block_bytes * block_count
    }
}

/// `NNNN.at`: a page that names the other directory in which the element or pool of this number lies.
pub mod link {
    /// Magic.
    pub const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"thalwegK");
    /// Magic.
    pub const MAGIC: usize = 0;
    /// Version (low half).
    pub const VERSION: usize = MAGIC + 8;
    /// The directory: length as a word, then bytes. The last part of the path is `thalweg-` and the space's
    /// UUID in hexadecimal.
    pub const PATH: usize = VERSION + 8;
    /// The most bytes of the directory's path.
    pub const PATH_BYTES: usize = super::PAGE - PATH - 8;
}

/// The line of an element's latest event, in a pool.
pub mod latest {
    /// Twice the events of the element so far; one less while the line is being written. Release.
    pub const VERSION: usize = 0;
    /// The time of the event.
    pub const TIME: usize = VERSION + 8;
    /// The event's first word, but the writer's number instead of the time, and length 0 if texts or bytes follow the
    /// fixed part.
    pub const FIRST: usize = TIME + 8;
    /// The event's sequence.
    pub const SEQUENCE: usize = FIRST + 8;
    /// The first words of the event's arguments.
    pub const ARGUMENTS: usize = SEQUENCE + 8;
    /// The number of words of arguments that the line can hold.
    pub const ARGUMENT_WORDS: usize = 4;
}

/// A block: header, then events.
pub mod block {
    /// Block number + 1; 0 while the block is being recycled.
    pub const NUMBER: usize = 0;
    /// Time of the first event; its high half is that of the events after it.
    pub const BASE: usize = NUMBER + 8;
    /// Sequence of the first event.
    pub const SEQUENCE: usize = BASE + 8;
    /// Events dropped before this block.
    pub const DROPS: usize = SEQUENCE + 8;
    /// Bytes of the header.
    pub const HEADER: usize = DROPS + 8;
    /// The smallest block.
    pub const BYTES_MIN: usize = 512;
    /// The largest block.
    pub const BYTES_MAX: usize = 1 << 26;
}

/// An event's first word: the low 32 bits of its time, 16 of kind, 12 of length in words (this one included), 4 flags.
pub mod event {
    /// Kind 0, length 0: the block has no further events.
    pub const KIND_PADDING: u16 = 0;
    /// Two words: the second is a full time, whose high half applies to the following events of this block.
    pub const KIND_FULL_TIME: u16 = 1;
    /// The writer of the following events: four words, which are this one, the number and thread of the
    /// writer (as in the element's header), the id of the writer's name, and the sequence of the writer's
    /// first event. An event of this kind has no sequence. An event of kind 2 is written when a writer takes
    /// over the element, and at the start of each of this writer's blocks; a block without such an event is
    /// the first writer's.
    pub const KIND_OWNER: u16 = 2;
    /// Words of an event that names the writer.
    pub const OWNER_WORDS: usize = 4;
    /// More words of arguments of the previous event, which has [`FLAG_CONTINUED`]. A continuation has no
    /// sequence.
    pub const KIND_CONTINUATION: u16 = 3;
    /// Kinds below this one are reserved.
    pub const KIND_FIRST: u16 = 16;
    /// The event has the time of the previous event; its own 32 bits of time are ignored.
    pub const FLAG_SAME_TIME: u8 = 1;
    /// The time was interpolated, not read from the clock.
    pub const FLAG_INTERPOLATED: u8 = 2;
    /// A text or byte field was cut to fit.
    pub const FLAG_TRUNCATED: u8 = 4;
    /// The arguments continue in the next event, which may be in the next block.
    pub const FLAG_CONTINUED: u8 = 8;
    /// The longest event, or part of one that is continued, in words.
    pub const WORDS_MAX: usize = 4095;
    /// The most bytes of arguments that an event has with its continuations.
    pub const ARGUMENT_BYTES_MAX: usize = 1 << 24;

    /// Packs a first word. `words` < 4096, `flags` < 16.
    #[inline(always)]
    pub const fn pack(time: u32, kind: u16, words: usize, flags: u8) -> u64 {
        time as u64 | (kind as u64) << 32 | (words as u64) << 48 | (flags as u64) << 60
    }
}

/// `NNNN.catalog`: append-only records.
pub mod catalog {
    /// Magic.
    pub const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"thalwegC");
    /// Bytes of the file's header: magic, version, writer.
    pub const HEADER: usize = 64;
    /// A record: length in bytes with this header (u32), type (u32), FNV-1a of the rest (u64), payload.
    pub const RECORD_HEADER: usize = 16;
    /// The longest record.
    pub const RECORD_BYTES_MAX: usize = 1 << 20;
    /// A kind of event.
    pub const KIND: u32 = 1;
    /// An interned name.
    pub const NAME: u32 = 2;
    /// A site of the static structure.
    pub const SITE: u32 = 3;
    /// A setting's description.
    pub const SETTING: u32 = 4;
    /// The name of a probe.
    pub const PROBE: u32 = 5;
    /// In the file `probes`: a pattern of names and whether to switch those probes on, and the process that asks.
    pub const SWITCH: u32 = 6;
    /// In the file `session`: a process joined.
    pub const JOINED: u32 = 7;
    /// In the file `session`: a process left.
    pub const LEFT: u32 = 8;
    /// A kind of live row. Payload: code, name, doc, count of cells, and each cell as a kind's field. Live
    /// rows of this kind have the code in their tag.
    pub const ROW: u32 = 9;
}

/// `settings`: one page of header, then a line per cell, the value in its first word.
pub mod settings {
    /// Magic.
    pub const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"thalwegV");
    /// The number of changes of settings and probes. The process that makes a change stores this number,
    /// under the file's lock; release. Starts a line.
    pub const CHANGES: usize = 64;
    /// Not 0: the process restores a setting when its lease ends. Written by the process.
    pub const KEEPS_LEASES: usize = CHANGES + 8;
    /// The offset of the cells.
    pub const CELLS: usize = super::PAGE;
    /// Bytes of a cell.
    pub const CELL_BYTES: usize = super::LINE;
    /// In a cell, the value.
    pub const VALUE: usize = 0;
    /// In a cell, a version that is odd while the cell is being set. The setter stores the version, under the
    /// file's lock; release.
    pub const CELL_VERSION: usize = VALUE + 8;
    /// In a cell, the setter: process id (low half) and user (high half).
    pub const SETTER: usize = CELL_VERSION + 8;
    /// In a cell, the version to which the following words belong, with [`DESCRIBED`]; any other value: an
    /// earlier build set the cell, which then has no lease. The setter stores this word and the following
    /// words.
    pub const LEASE_VERSION: usize = SETTER + 8;
    /// In a cell, the value that was confirmed last, which the end of a lease restores.
    pub const CONFIRMED: usize = LEASE_VERSION + 8;
    /// In a cell, the time at which the lease ends, by `CLOCK_MONOTONIC` in nanoseconds; all bits set: no
    /// time limit.
    pub const LEASE_UNTIL: usize = CONFIRMED + 8;
    /// In a cell, the start of the setter's process, if the lease ends with that process; else 0.
    pub const HOLDER_START: usize = LEASE_UNTIL + 8;
    /// In a cell, the state of the lease.
    pub const LEASE_STATE: usize = HOLDER_START + 8;
    /// The number of cells.
    pub const CELL_COUNT: usize = 512;
    /// The offset of the names of the tools that set the cells, one a line: length as a word, then bytes.
    /// Files of earlier builds end before this offset.
    pub const TOOLS: usize = CELLS + CELL_BYTES * CELL_COUNT;
    /// Bytes of a line.
    pub const TOOL_BYTES: usize = super::LINE;
    /// The most bytes of a tool's name.
    pub const TOOL_ROOM: usize = TOOL_BYTES - 8;
    /// The highest bit of a cell's [`LEASE_VERSION`].
    pub const DESCRIBED: u64 = 1 << 63;
    /// A state of a lease: the setting has no lease, and its value is confirmed.
    pub const LEASE_NONE: u64 = 0;
    /// A state of a lease: the lease is in force.
    pub const LEASE_HELD: u64 = 1;
    /// A state of a lease: its holder confirmed the value.
    pub const LEASE_CONFIRMED: u64 = 2;
    /// A state of a lease: its time ran out, and the confirmed value was restored.
    pub const LEASE_EXPIRED: u64 = 3;
    /// A state of a lease: its holder died, and the confirmed value was restored.
    pub const LEASE_HOLDER_DIED: u64 = 4;
    /// A state of a lease: its holder gave it back, and the confirmed value was restored.
    pub const LEASE_GIVEN_BACK: u64 = 5;
}

/// `mailbox`: one page of header (magic, version, a count), then slots for commands and their answers.
pub mod mailbox {
    /// Magic.
    pub const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"thalwegM");
    /// Twice the commands that were sent; one less while one is being sent, or if its sender was killed.
    /// Written by senders, or by the process while it holds the file's lock, with release ordering. Begins a
    /// cache line.
    pub const SENT_COUNT: usize = 64;
    /// The number of ids that commands were given. Senders only, under the file's lock.
    pub const NUMBERS: usize = SENT_COUNT + 8;
    /// The offset of the slots.
    pub const SLOTS: usize = super::PAGE;
    /// Bytes of a slot.
    pub const SLOT_BYTES: usize = 4096;
    /// The number of slots.
    pub const SLOT_COUNT: usize = 64;
    /// The state of a slot: one of the constants `FREE` to `FAILED`.
    pub const STATE: usize = 0;
    /// The command's number.
    pub const ID: usize = STATE + 8;
    /// The sender's process id (low half) and user (high half).
    pub const SENDER: usize = ID + 8;
    /// Start of the sender's process.
    pub const SENDER_START: usize = SENDER + 8;
    /// Bytes of the command.
    pub const COMMAND_BYTES: usize = SENDER_START + 8;
    /// FNV-1a of the command's bytes.
    pub const COMMAND_HASH: usize = COMMAND_BYTES + 8;
    /// Bytes of the answer; receiver only.
    pub const ANSWER_BYTES: usize = COMMAND_HASH + 8;
    /// Not 0: the sender does not wait for the answer.
    pub const ABANDONED: usize = ANSWER_BYTES + 8;
    /// The command.
    pub const COMMAND: usize = ABANDONED + 8;
    /// The most bytes of the command.
    pub const COMMAND_ROOM: usize = ANSWER - COMMAND;
    /// The answer; receiver only.
    pub const ANSWER: usize = 2048;
    /// The most bytes of the answer.
    pub const ANSWER_ROOM: usize = SLOT_BYTES - ANSWER;
    /// A state of a slot: free.
    pub const FREE: u64 = 0;
    /// A state of a slot: the command was sent, and the receiver has not adopted it yet. Set by the sender,
    /// release.
    pub const SENT: u64 = 1;
    /// A state of a slot: the receiver adopted the command. Set by the receiver.
    pub const ADOPTED: u64 = 2;
    /// A state of a slot: the command was carried out. Set by the receiver, release.
    pub const DONE: u64 = 3;
    /// A state of a slot: the command failed. Set by the receiver, release.
    pub const FAILED: u64 = 4;
}

/// `map`: one page of header (magic, version, the number of keys), then a slot for each key of the shared map.
/// Only the process writes this file.
pub mod shared_map {
    /// Magic.
    pub const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"thalwegK");
    /// The number of keys; release. Starts a line.
    pub const KEYS: usize = 64;
    /// The offset of the slots.
    pub const SLOTS: usize = super::PAGE;
    /// Bytes of a slot.
    pub const SLOT_BYTES: usize = 448;
    /// The number of slots.
    pub const SLOT_COUNT: usize = 256;
    /// In a slot, the value: an integer, the bits of a float, or the length of a text.
    pub const VALUE: usize = 0;
    /// In a slot, a version that is odd while the slot is being written.
    pub const SLOT_VERSION: usize = VALUE + 8;
    /// In a slot, the time of the value's stamp; 0: the value is the initial one.
    pub const TIME: usize = SLOT_VERSION + 8;
    /// In a slot, the process of the session that gave the stamp (low half), and the one whose box or user
    /// wrote the value (high half).
    pub const WRITER: usize = TIME + 8;
    /// In a slot, the type of the value: 1 integer, 2 float, 3 text.
    pub const TYPE: usize = WRITER + 8;
    /// In a slot, the initial value, as [`VALUE`].
    pub const INITIAL: usize = TYPE + 8;
    /// In a slot, the bytes of a text. Starts a line.
    pub const TEXT: usize = 64;
    /// The most bytes of a text.
    pub const TEXT_BYTES: usize = 64;
    /// In a slot, the bytes of an initial text.
    pub const INITIAL_TEXT: usize = TEXT + TEXT_BYTES;
    /// In a slot, the key: length as a word, then bytes.
    pub const KEY: usize = INITIAL_TEXT + TEXT_BYTES;
    /// The most bytes of a key.
    pub const KEY_BYTES: usize = 56;
    /// In a slot, what the key is for: length as a word, then bytes.
    pub const DOC: usize = KEY + 8 + KEY_BYTES;
    /// The most bytes of what a key is for.
    pub const DOC_BYTES: usize = SLOT_BYTES - DOC - 8;
}

/// `live.N`: one page of header (magic, version, rows), then rows.
pub mod live {
    /// Magic.
    pub const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"thalwegL");
    /// The offset of the rows.
    pub const ROWS: usize = super::PAGE;
    /// Bytes of a row.
    pub const ROW_BYTES: usize = 128;
    /// The code of the row's kind, which the catalog describes (low byte; 0: the row is free), and the row's
    /// generation (the other bytes).
    pub const TAG: usize = 0;
    /// The id of the object that the row shows.
    pub const ID: usize = TAG + 8;
    /// The offset of the first cell.
    pub const CELLS: usize = ID + 8;
    /// The number of cells of a row.
    pub const CELL_COUNT: usize = 12;
    /// Rows of the first chunk; each later chunk has twice as many rows as the previous one, up to the
    /// largest.
    pub const CHUNK_ROWS_FIRST: usize = 256;
    /// Rows of the largest chunk.
    pub const CHUNK_ROWS_MAX: usize = 16384;
}

/// `switches.N`: one page of header (magic, version), then a word for each probe, in the order of the catalog's records: 0 off, 1 on.
pub mod switches {
    /// Magic.
    pub const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"thalwegO");
    /// The offset of the words.
    pub const WORDS: usize = super::PAGE;
    /// Words of the first chunk; each later chunk has twice as many words as the previous one, up to the
    /// largest.
    pub const CHUNK_WORDS_FIRST: usize = 512;
    /// Words of the largest chunk.
    pub const CHUNK_WORDS_MAX: usize = 65536;
}

const _: () = {
    assert!(identity::ANCHOR_FIRST + 24 <= identity::ANCHOR_SECOND);
    assert!(identity::ANCHOR_SECOND + 32 <= identity::STATE);
    assert!(identity::NAME_NOW + 8 <= identity::NAME);
    assert!(identity::COMMAND_BYTES > 1024);
    assert!(element::FREQUENCY + 8 <= element::HEAD);
    assert!(element::DISCARDED_SEQUENCE + 8 <= element::READ_POSITION);
    assert!(element::READER_START + 8 <= element::HEADER);
    assert!(latest::ARGUMENTS + 8 * latest::ARGUMENT_WORDS == pool::LINE_BYTES);
    assert!(block::BYTES_MIN >= block::HEADER + 8 * event::OWNER_WORDS + 64);
    assert!(block::HEADER == 32);
    assert!(settings::LEASE_STATE + 8 == settings::CELL_BYTES);
    assert!(shared_map::INITIAL + 8 <= shared_map::TEXT);
    assert!(shared_map::DOC_BYTES == 184);
    assert!(live::CELLS + 8 * live::CELL_COUNT <= live::ROW_BYTES);
};
