/* The layout of a Thalweg space. Written by `cargo xtask layout` from space/src/layout.rs and space/src/kind.rs. */
#ifndef THALWEG_LAYOUT_H
#define THALWEG_LAYOUT_H

#include <stdint.h>

/* The version of every file of a space. A reader refuses a file with a later version. */
#define THALWEG_VERSION UINT32_C(1)
/* A page: the size of every file's header. */
#define THALWEG_PAGE UINT32_C(4096)
/* A cache line: what one writer may own without disturbing another. */
#define THALWEG_LINE UINT32_C(64)
/* Magic number, "thalweg" and a kind letter; written last. */
#define THALWEG_IDENTITY_MAGIC_VALUE UINT64_C(0x536765776c616874)
/* Magic. */
#define THALWEG_IDENTITY_MAGIC UINT32_C(0)
/* Version (low half) and size of this file in bytes (high half). */
#define THALWEG_IDENTITY_VERSION UINT32_C(8)
/* UUID, 16 bytes. */
#define THALWEG_IDENTITY_UUID UINT32_C(16)
/* Process id (low half). */
#define THALWEG_IDENTITY_PID UINT32_C(32)
/* Start of the process in clock ticks since boot, field 22 of `/proc/PID/stat`. */
#define THALWEG_IDENTITY_PROCESS_START UINT32_C(40)
/* Machine's boot id, 16 bytes. */
#define THALWEG_IDENTITY_BOOT UINT32_C(48)
/* Clock: 1 TSC, 2 `CLOCK_MONOTONIC` in nanoseconds. */
#define THALWEG_IDENTITY_CLOCK UINT32_C(64)
/* Clock frequency in Hz as known at creation. */
#define THALWEG_IDENTITY_FREQUENCY UINT32_C(72)
/* First anchor: ticks, `CLOCK_MONOTONIC` ns, `CLOCK_REALTIME` ns. */
#define THALWEG_IDENTITY_ANCHOR_FIRST UINT32_C(80)
/* Second anchor: version (odd while being written), ticks, monotonic ns, real-time ns. Starts a line. */
#define THALWEG_IDENTITY_ANCHOR_SECOND UINT32_C(128)
/* In a copy of a space of another machine, the largest error of the clock's real time, plus one, in nanoseconds; 0: the clock is the machine's own. */
#define THALWEG_IDENTITY_CLOCK_ERROR UINT32_C(160)
/* State: 1 running, 2 finished. Starts a line. */
#define THALWEG_IDENTITY_STATE UINT32_C(192)
/* The number of writers so far. Writers are numbered from 1, so this is also the last writer's number. */
#define THALWEG_IDENTITY_WRITERS UINT32_C(200)
/* The number of settings. */
#define THALWEG_IDENTITY_SETTINGS UINT32_C(208)
/* The number of live chunks. */
#define THALWEG_IDENTITY_LIVE_CHUNKS UINT32_C(216)
/* Bit 0: keep; `clean` removes this space only if asked to. */
#define THALWEG_IDENTITY_FLAGS UINT32_C(224)
/* The space's present name, as a reference to the catalog; 0: still `NAME`. */
#define THALWEG_IDENTITY_NAME_NOW UINT32_C(232)
/* In a copy of a space of another machine, the process that fetches it (low half); 0: no process does. */
#define THALWEG_IDENTITY_FETCHER UINT32_C(240)
/* Start of that process. */
#define THALWEG_IDENTITY_FETCHER_START UINT32_C(248)
/* The space's first name: length as a word, then bytes. */
#define THALWEG_IDENTITY_NAME UINT32_C(256)
/* The most bytes of the name. */
#define THALWEG_IDENTITY_NAME_BYTES UINT32_C(248)
/* Host name: length, bytes. */
#define THALWEG_IDENTITY_HOST UINT32_C(512)
/* The most bytes of the host name. */
#define THALWEG_IDENTITY_HOST_BYTES UINT32_C(248)
/* Command line: length, bytes. */
#define THALWEG_IDENTITY_COMMAND UINT32_C(768)
/* The most bytes of the command line. */
#define THALWEG_IDENTITY_COMMAND_BYTES UINT32_C(3320)
/* Magic of an element. */
#define THALWEG_ELEMENT_MAGIC_VALUE UINT64_C(0x456765776c616874)
/* Magic of an archive. */
#define THALWEG_ELEMENT_MAGIC_ARCHIVE UINT64_C(0x416765776c616874)
/* Magic, written last. */
#define THALWEG_ELEMENT_MAGIC UINT32_C(0)
/* Version (low half), policy (high half): 0 overwrite, 1 drop newest, 2 wait. */
#define THALWEG_ELEMENT_VERSION UINT32_C(8)
/* Bytes of a block (low half), count of blocks (high half; 0 in an archive: block k lies at place k). */
#define THALWEG_ELEMENT_BLOCKS UINT32_C(16)
/* Process id (low half). */
#define THALWEG_ELEMENT_PROCESS UINT32_C(24)
/* Start of the process. */
#define THALWEG_ELEMENT_PROCESS_START UINT32_C(32)
/* The number of the first writer (low half). */
#define THALWEG_ELEMENT_WRITER UINT32_C(40)
/* Clock frequency in Hz. */
#define THALWEG_ELEMENT_FREQUENCY UINT32_C(48)
/* Line 2: committed position in bytes since the start, block headers included. Writer only, release. */
#define THALWEG_ELEMENT_HEAD UINT32_C(64)
/* Line 3: events dropped. Writer only. */
#define THALWEG_ELEMENT_DROPS UINT32_C(128)
/* State: 1 open, 2 closed. Writer only. */
#define THALWEG_ELEMENT_STATE UINT32_C(136)
/* Sequence of the next event, published when a block rolls and on closing. Writer only. */
#define THALWEG_ELEMENT_SEQUENCE UINT32_C(144)
/* The present writer's number (low half) and thread (high half). Writer only. */
#define THALWEG_ELEMENT_OWNER UINT32_C(152)
/* The id of the present writer's name in the process's catalog. Writer only. */
#define THALWEG_ELEMENT_OWNER_NAME UINT32_C(160)
/* The number of writers that have used this element, the present one included. Writer only. */
#define THALWEG_ELEMENT_GENERATION UINT32_C(168)
/* Position before which everything was discarded. Writer only. */
#define THALWEG_ELEMENT_DISCARDED UINT32_C(176)
/* Sequence of the first event that was not discarded. Writer only. */
#define THALWEG_ELEMENT_DISCARDED_SEQUENCE UINT32_C(184)
/* Line 4: position up to which a consumer has read; consumer only, release. */
#define THALWEG_ELEMENT_READ_POSITION UINT32_C(192)
/* The consumer's process id (0: none); consumer only. */
#define THALWEG_ELEMENT_READER UINT32_C(200)
/* Start of the consumer's process. */
#define THALWEG_ELEMENT_READER_START UINT32_C(208)
/* Bytes of the header; in a file with one element the header has a page. */
#define THALWEG_ELEMENT_HEADER UINT32_C(256)
/* The offset of the blocks. */
#define THALWEG_ELEMENT_DATA UINT32_C(4096)
/* Magic. */
#define THALWEG_POOL_MAGIC_VALUE UINT64_C(0x506765776c616874)
/* Magic, written last. */
#define THALWEG_POOL_MAGIC UINT32_C(0)
/* Version (low half), policy (high half), as in an element. */
#define THALWEG_POOL_VERSION UINT32_C(8)
/* Bytes of a block (low half), count of blocks of an element (high half). */
#define THALWEG_POOL_BLOCKS UINT32_C(16)
/* The number of elements that the pool can hold. */
#define THALWEG_POOL_SLOTS UINT32_C(24)
/* The number of elements that were ever in use; elements are used in order. Written by the process, release. Starts a line. */
#define THALWEG_POOL_USED UINT32_C(64)
/* The offset of the lines of the latest events; the elements follow at the next page. */
#define THALWEG_POOL_LINES UINT32_C(4096)
/* Bytes of a line. */
#define THALWEG_POOL_LINE_BYTES UINT32_C(64)
/* The most elements of a pool. */
#define THALWEG_POOL_SLOTS_MAX UINT32_C(4096)
/* Magic. */
#define THALWEG_LINK_MAGIC_VALUE UINT64_C(0x4b6765776c616874)
/* Magic. */
#define THALWEG_LINK_MAGIC UINT32_C(0)
/* Version (low half). */
#define THALWEG_LINK_VERSION UINT32_C(8)
/* The directory: length as a word, then bytes. The last part of the path is `thalweg-` and the space's UUID in hexadecimal. */
#define THALWEG_LINK_PATH UINT32_C(16)
/* The most bytes of the directory's path. */
#define THALWEG_LINK_PATH_BYTES UINT32_C(4072)
/* Twice the events of the element so far; one less while the line is being written. Release. */
#define THALWEG_LATEST_VERSION UINT32_C(0)
/* The time of the event. */
#define THALWEG_LATEST_TIME UINT32_C(8)
/* The event's first word, but the writer's number instead of the time, and length 0 if texts or bytes follow the fixed part. */
#define THALWEG_LATEST_FIRST UINT32_C(16)
/* The event's sequence. */
#define THALWEG_LATEST_SEQUENCE UINT32_C(24)
/* The first words of the event's arguments. */
#define THALWEG_LATEST_ARGUMENTS UINT32_C(32)
/* The number of words of arguments that the line can hold. */
#define THALWEG_LATEST_ARGUMENT_WORDS UINT32_C(4)
/* Block number + 1; 0 while the block is being recycled. */
#define THALWEG_BLOCK_NUMBER UINT32_C(0)
/* Time of the first event; its high half is that of the events after it. */
#define THALWEG_BLOCK_BASE UINT32_C(8)
/* Sequence of the first event. */
#define THALWEG_BLOCK_SEQUENCE UINT32_C(16)
/* Events dropped before this block. */
#define THALWEG_BLOCK_DROPS UINT32_C(24)
/* Bytes of the header. */
#define THALWEG_BLOCK_HEADER UINT32_C(32)
/* The smallest block. */
#define THALWEG_BLOCK_BYTES_MIN UINT32_C(512)
/* The largest block. */
#define THALWEG_BLOCK_BYTES_MAX UINT32_C(67108864)
/* Kind 0, length 0: the block has no further events. */
#define THALWEG_EVENT_KIND_PADDING UINT32_C(0)
/* Two words: the second is a full time, whose high half applies to the following events of this block. */
#define THALWEG_EVENT_KIND_FULL_TIME UINT32_C(1)
/* The writer of the following events: four words, which are this one, the number and thread of the writer (as in the element's header), the id of the writer's name, and the sequence of the writer's first event. An event of this kind has no sequence. An event of kind 2 is written when a writer takes over the element, and at the start of each of this writer's blocks; a block without such an event is the first writer's. */
#define THALWEG_EVENT_KIND_OWNER UINT32_C(2)
/* Words of an event that names the writer. */
#define THALWEG_EVENT_OWNER_WORDS UINT32_C(4)
/* More words of arguments of the previous event, which has `FLAG_CONTINUED`. A continuation has no sequence. */
#define THALWEG_EVENT_KIND_CONTINUATION UINT32_C(3)
/* Kinds below this one are reserved. */
#define THALWEG_EVENT_KIND_FIRST UINT32_C(16)
/* The event has the time of the previous event; its own 32 bits of time are ignored. */
#define THALWEG_EVENT_FLAG_SAME_TIME UINT32_C(1)
/* The time was interpolated, not read from the clock. */
#define THALWEG_EVENT_FLAG_INTERPOLATED UINT32_C(2)
/* A text or byte field was cut to fit. */
#define THALWEG_EVENT_FLAG_TRUNCATED UINT32_C(4)
/* The arguments continue in the next event, which may be in the next block. */
#define THALWEG_EVENT_FLAG_CONTINUED UINT32_C(8)
/* The longest event, or part of one that is continued, in words. */
#define THALWEG_EVENT_WORDS_MAX UINT32_C(4095)
/* The most bytes of arguments that an event has with its continuations. */
#define THALWEG_EVENT_ARGUMENT_BYTES_MAX UINT32_C(16777216)
/* Magic. */
#define THALWEG_CATALOG_MAGIC_VALUE UINT64_C(0x436765776c616874)
/* Bytes of the file's header: magic, version, writer. */
#define THALWEG_CATALOG_HEADER UINT32_C(64)
/* A record: length in bytes with this header (u32), type (u32), FNV-1a of the rest (u64), payload. */
#define THALWEG_CATALOG_RECORD_HEADER UINT32_C(16)
/* The longest record. */
#define THALWEG_CATALOG_RECORD_BYTES_MAX UINT32_C(1048576)
/* A kind of event. */
#define THALWEG_CATALOG_KIND UINT32_C(1)
/* An interned name. */
#define THALWEG_CATALOG_NAME UINT32_C(2)
/* A site of the static structure. */
#define THALWEG_CATALOG_SITE UINT32_C(3)
/* A setting's description. */
#define THALWEG_CATALOG_SETTING UINT32_C(4)
/* The name of a probe. */
#define THALWEG_CATALOG_PROBE UINT32_C(5)
/* In the file `probes`: a pattern of names and whether to switch those probes on, and the process that asks. */
#define THALWEG_CATALOG_SWITCH UINT32_C(6)
/* In the file `session`: a process joined. */
#define THALWEG_CATALOG_JOINED UINT32_C(7)
/* In the file `session`: a process left. */
#define THALWEG_CATALOG_LEFT UINT32_C(8)
/* A kind of live row. Payload: code, name, doc, count of cells, and each cell as a kind's field. Live rows of this kind have the code in their tag. */
#define THALWEG_CATALOG_ROW UINT32_C(9)
/* Magic. */
#define THALWEG_SETTINGS_MAGIC_VALUE UINT64_C(0x566765776c616874)
/* The number of changes of settings and probes. The process that makes a change stores this number, under the file's lock; release. Starts a line. */
#define THALWEG_SETTINGS_CHANGES UINT32_C(64)
/* Not 0: the process restores a setting when its lease ends. Written by the process. */
#define THALWEG_SETTINGS_KEEPS_LEASES UINT32_C(72)
/* The offset of the cells. */
#define THALWEG_SETTINGS_CELLS UINT32_C(4096)
/* Bytes of a cell. */
#define THALWEG_SETTINGS_CELL_BYTES UINT32_C(64)
/* In a cell, the value. */
#define THALWEG_SETTINGS_VALUE UINT32_C(0)
/* In a cell, a version that is odd while the cell is being set. The setter stores the version, under the file's lock; release. */
#define THALWEG_SETTINGS_CELL_VERSION UINT32_C(8)
/* In a cell, the setter: process id (low half) and user (high half). */
#define THALWEG_SETTINGS_SETTER UINT32_C(16)
/* In a cell, the version to which the following words belong, with `DESCRIBED`; any other value: an earlier build set the cell, which then has no lease. The setter stores this word and the following words. */
#define THALWEG_SETTINGS_LEASE_VERSION UINT32_C(24)
/* In a cell, the value that was confirmed last, which the end of a lease restores. */
#define THALWEG_SETTINGS_CONFIRMED UINT32_C(32)
/* In a cell, the time at which the lease ends, by `CLOCK_MONOTONIC` in nanoseconds; all bits set: no time limit. */
#define THALWEG_SETTINGS_LEASE_UNTIL UINT32_C(40)
/* In a cell, the start of the setter's process, if the lease ends with that process; else 0. */
#define THALWEG_SETTINGS_HOLDER_START UINT32_C(48)
/* In a cell, the state of the lease. */
#define THALWEG_SETTINGS_LEASE_STATE UINT32_C(56)
/* The number of cells. */
#define THALWEG_SETTINGS_CELL_COUNT UINT32_C(512)
/* The offset of the names of the tools that set the cells, one a line: length as a word, then bytes. Files of earlier builds end before this offset. */
#define THALWEG_SETTINGS_TOOLS UINT32_C(36864)
/* Bytes of a line. */
#define THALWEG_SETTINGS_TOOL_BYTES UINT32_C(64)
/* The most bytes of a tool's name. */
#define THALWEG_SETTINGS_TOOL_ROOM UINT32_C(56)
/* The highest bit of a cell's `LEASE_VERSION`. */
#define THALWEG_SETTINGS_DESCRIBED UINT64_C(0x8000000000000000)
/* A state of a lease: the setting has no lease, and its value is confirmed. */
#define THALWEG_SETTINGS_LEASE_NONE UINT32_C(0)
/* A state of a lease: the lease is in force. */
#define THALWEG_SETTINGS_LEASE_HELD UINT32_C(1)
/* A state of a lease: its holder confirmed the value. */
#define THALWEG_SETTINGS_LEASE_CONFIRMED UINT32_C(2)
/* A state of a lease: its time ran out, and the confirmed value was restored. */
#define THALWEG_SETTINGS_LEASE_EXPIRED UINT32_C(3)
/* A state of a lease: its holder died, and the confirmed value was restored. */
#define THALWEG_SETTINGS_LEASE_HOLDER_DIED UINT32_C(4)
/* A state of a lease: its holder gave it back, and the confirmed value was restored. */
#define THALWEG_SETTINGS_LEASE_GIVEN_BACK UINT32_C(5)
/* Magic. */
#define THALWEG_MAILBOX_MAGIC_VALUE UINT64_C(0x4d6765776c616874)
/* Twice the commands that were sent; one less while one is being sent, or if its sender was killed. Written by senders, or by the process while it holds the file's lock, with release ordering. Begins a cache line. */
#define THALWEG_MAILBOX_SENT_COUNT UINT32_C(64)
/* The number of ids that commands were given. Senders only, under the file's lock. */
#define THALWEG_MAILBOX_NUMBERS UINT32_C(72)
/* The offset of the slots. */
#define THALWEG_MAILBOX_SLOTS UINT32_C(4096)
/* Bytes of a slot. */
#define THALWEG_MAILBOX_SLOT_BYTES UINT32_C(4096)
/* The number of slots. */
#define THALWEG_MAILBOX_SLOT_COUNT UINT32_C(64)
/* The state of a slot: one of the constants `FREE` to `FAILED`. */
#define THALWEG_MAILBOX_STATE UINT32_C(0)
/* The command's number. */
#define THALWEG_MAILBOX_ID UINT32_C(8)
/* The sender's process id (low half) and user (high half). */
#define THALWEG_MAILBOX_SENDER UINT32_C(16)
/* Start of the sender's process. */
#define THALWEG_MAILBOX_SENDER_START UINT32_C(24)
/* Bytes of the command. */
#define THALWEG_MAILBOX_COMMAND_BYTES UINT32_C(32)
/* FNV-1a of the command's bytes. */
#define THALWEG_MAILBOX_COMMAND_HASH UINT32_C(40)
/* Bytes of the answer; receiver only. */
#define THALWEG_MAILBOX_ANSWER_BYTES UINT32_C(48)
/* Not 0: the sender does not wait for the answer. */
#define THALWEG_MAILBOX_ABANDONED UINT32_C(56)
/* The command. */
#define THALWEG_MAILBOX_COMMAND UINT32_C(64)
/* The most bytes of the command. */
#define THALWEG_MAILBOX_COMMAND_ROOM UINT32_C(1984)
/* The answer; receiver only. */
#define THALWEG_MAILBOX_ANSWER UINT32_C(2048)
/* The most bytes of the answer. */
#define THALWEG_MAILBOX_ANSWER_ROOM UINT32_C(2048)
/* A state of a slot: free. */
#define THALWEG_MAILBOX_FREE UINT32_C(0)
/* A state of a slot: the command was sent, and the receiver has not adopted it yet. Set by the sender, release. */
#define THALWEG_MAILBOX_SENT UINT32_C(1)
/* A state of a slot: the receiver adopted the command. Set by the receiver. */
#define THALWEG_MAILBOX_ADOPTED UINT32_C(2)
/* A state of a slot: the command was carried out. Set by the receiver, release. */
#define THALWEG_MAILBOX_DONE UINT32_C(3)
/* A state of a slot: the command failed. Set by the receiver, release. */
#define THALWEG_MAILBOX_FAILED UINT32_C(4)
/* Magic. */
#define THALWEG_SHARED_MAP_MAGIC_VALUE UINT64_C(0x4b6765776c616874)
/* The number of keys; release. Starts a line. */
#define THALWEG_SHARED_MAP_KEYS UINT32_C(64)
/* The offset of the slots. */
#define THALWEG_SHARED_MAP_SLOTS UINT32_C(4096)
/* Bytes of a slot. */
#define THALWEG_SHARED_MAP_SLOT_BYTES UINT32_C(448)
/* The number of slots. */
#define THALWEG_SHARED_MAP_SLOT_COUNT UINT32_C(256)
/* In a slot, the value: an integer, the bits of a float, or the length of a text. */
#define THALWEG_SHARED_MAP_VALUE UINT32_C(0)
/* In a slot, a version that is odd while the slot is being written. */
#define THALWEG_SHARED_MAP_SLOT_VERSION UINT32_C(8)
/* In a slot, the time of the value's stamp; 0: the value is the initial one. */
#define THALWEG_SHARED_MAP_TIME UINT32_C(16)
/* In a slot, the process of the session that gave the stamp (low half), and the one whose box or user wrote the value (high half). */
#define THALWEG_SHARED_MAP_WRITER UINT32_C(24)
/* In a slot, the type of the value: 1 integer, 2 float, 3 text. */
#define THALWEG_SHARED_MAP_TYPE UINT32_C(32)
/* In a slot, the initial value, as `VALUE`. */
#define THALWEG_SHARED_MAP_INITIAL UINT32_C(40)
/* In a slot, the bytes of a text. Starts a line. */
#define THALWEG_SHARED_MAP_TEXT UINT32_C(64)
/* The most bytes of a text. */
#define THALWEG_SHARED_MAP_TEXT_BYTES UINT32_C(64)
/* In a slot, the bytes of an initial text. */
#define THALWEG_SHARED_MAP_INITIAL_TEXT UINT32_C(128)
/* In a slot, the key: length as a word, then bytes. */
#define THALWEG_SHARED_MAP_KEY UINT32_C(192)
/* The most bytes of a key. */
#define THALWEG_SHARED_MAP_KEY_BYTES UINT32_C(56)
/* In a slot, what the key is for: length as a word, then bytes. */
#define THALWEG_SHARED_MAP_DOC UINT32_C(256)
/* The most bytes of what a key is for. */
#define THALWEG_SHARED_MAP_DOC_BYTES UINT32_C(184)
/* Magic. */
#define THALWEG_LIVE_MAGIC_VALUE UINT64_C(0x4c6765776c616874)
/* The offset of the rows. */
#define THALWEG_LIVE_ROWS UINT32_C(4096)
/* Bytes of a row. */
#define THALWEG_LIVE_ROW_BYTES UINT32_C(128)
/* The code of the row's kind, which the catalog describes (low byte; 0: the row is free), and the row's generation (the other bytes). */
#define THALWEG_LIVE_TAG UINT32_C(0)
/* The id of the object that the row shows. */
#define THALWEG_LIVE_ID UINT32_C(8)
/* The offset of the first cell. */
#define THALWEG_LIVE_CELLS UINT32_C(16)
/* The number of cells of a row. */
#define THALWEG_LIVE_CELL_COUNT UINT32_C(12)
/* Rows of the first chunk; each later chunk has twice as many rows as the previous one, up to the largest. */
#define THALWEG_LIVE_CHUNK_ROWS_FIRST UINT32_C(256)
/* Rows of the largest chunk. */
#define THALWEG_LIVE_CHUNK_ROWS_MAX UINT32_C(16384)
/* Magic. */
#define THALWEG_SWITCHES_MAGIC_VALUE UINT64_C(0x4f6765776c616874)
/* The offset of the words. */
#define THALWEG_SWITCHES_WORDS UINT32_C(4096)
/* Words of the first chunk; each later chunk has twice as many words as the previous one, up to the largest. */
#define THALWEG_SWITCHES_CHUNK_WORDS_FIRST UINT32_C(512)
/* Words of the largest chunk. */
#define THALWEG_SWITCHES_CHUNK_WORDS_MAX UINT32_C(65536)
#define THALWEG_FIELD_U8 UINT32_C(1)
#define THALWEG_FIELD_U16 UINT32_C(2)
#define THALWEG_FIELD_U32 UINT32_C(3)
#define THALWEG_FIELD_U64 UINT32_C(4)
#define THALWEG_FIELD_I8 UINT32_C(5)
#define THALWEG_FIELD_I16 UINT32_C(6)
#define THALWEG_FIELD_I32 UINT32_C(7)
#define THALWEG_FIELD_I64 UINT32_C(8)
#define THALWEG_FIELD_F32 UINT32_C(9)
#define THALWEG_FIELD_F64 UINT32_C(10)
/* One byte, 0 or 1. */
#define THALWEG_FIELD_BOOL UINT32_C(11)
/* A `NameRef`. */
#define THALWEG_FIELD_NAME UINT32_C(12)
/* A `SiteRef`. */
#define THALWEG_FIELD_SITE UINT32_C(13)
/* One byte; the catalog holds the choices. */
#define THALWEG_FIELD_ENUM UINT32_C(14)
/* UTF-8 text; its length stands in the fixed part. */
#define THALWEG_FIELD_STR UINT32_C(15)
/* Bytes; their length stands in the fixed part. */
#define THALWEG_FIELD_BYTES UINT32_C(16)

#endif
