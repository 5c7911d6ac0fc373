//! The state that telemetry keeps for a stream: its row in the live table.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use thalweg_space::NameRef;

use super::board::Board;
use super::kinds::{StreamClosed, StreamOpened};
use super::recorder::Recorder;
use super::rows::{Cells, StreamRow, put};
use super::sizes::Sizes;
use crate::slab;

/// A stream's access to the space: none, the runtime's board, or a row. A stream has a row from its first
/// measured message on; if the stream has a name, from its beginning.
pub(crate) struct StreamTelemetry(
    /// A counted reference to the board or null (both marked by [`UNSHOWN`]), or a [`ShownStream`], which
    /// then holds the reference to the board. The pointer never goes back to an earlier state.
    AtomicPtr<u8>,
);

/// The lowest bit, which is set in a pointer to a board and clear in a pointer to a [`ShownStream`].
const UNSHOWN: usize = 1;

/// The live row of a stream, with the state that belongs to it.
pub(crate) struct ShownStream {
    row: Cells,
    sizes: Sizes,
    /// The counted reference to the board, which [`StreamTelemetry`] drops.
    board: *const Board,
}

impl StreamTelemetry {
    /// The telemetry of a stream without a space.
    pub(crate) fn none() -> StreamTelemetry {
        StreamTelemetry(AtomicPtr::new(std::ptr::without_provenance_mut(UNSHOWN)))
    }

    pub(crate) fn new(board: &Arc<Board>, id: u64, name: NameRef, capacity: u32) -> StreamTelemetry {
        if board.space().is_none() {
            return StreamTelemetry::none();
        }
        let share = Arc::into_raw(board.clone()).cast_mut().cast::<u8>();
        let observed = StreamTelemetry(AtomicPtr::new(share.map_addr(|address| address | UNSHOWN)));
        if name != NameRef::NONE
            && let Some(row) = observed.show(id, capacity)
        {
            put(row, StreamRow::NAME, name.0);
        }
        observed
    }

    /// Shows in the row which task got the stream's writing or reading end.
    pub(crate) fn attached_to(&self, task: u64, writes: bool) {
        if let Some(row) = self.row() {
            put(row, if writes { StreamRow::WRITER } else { StreamRow::READER }, task);
        }
    }

    #[inline(always)]
    fn shown(&self) -> Option<&ShownStream> {
        let pointer = self.0.load(Ordering::Acquire);
        // SAFETY: a `ShownStream` is kept as long as `self`; the low bit distinguishes it from a board.
        (pointer.addr() & UNSHOWN == 0).then(|| unsafe { &*pointer.cast::<ShownStream>() })
    }

    /// The stream's row, if it has one.
    #[inline(always)]
    pub(crate) fn row(&self) -> Option<&Cells> {
        self.shown().map(|shown| &shown.row)
    }

    /// The samples of the stream's message sizes, if the stream has a row.
    pub(super) fn sizes(&self) -> Option<&Sizes> {
        self.shown().map(|shown| &shown.sizes)
    }

    /// Whether the size of a message before index `end` must be measured.
    #[inline]
    pub(crate) fn sizes_are_due(&self, end: usize) -> bool {
        self.sizes().is_some_and(|sizes| sizes.are_due(end))
    }

    /// Whether it is known that no message before index `end` must be measured.
    #[inline]
    pub(crate) fn no_sizes_are_due(&self, end: usize) -> bool {
        self.sizes().is_some_and(|sizes| !sizes.are_due(end))
    }

    /// Whether the stream is recorded at all.
    pub(super) fn is_watched(&self) -> bool {
        self.board().is_some()
    }

    /// The board through which the stream is recorded.
    pub(crate) fn board(&self) -> Option<&Board> {
        // SAFETY: the counted reference to the board is kept as long as `self`.
        unsafe { self.share().as_ref() }
    }

    /// The counted reference to the board; null without a space.
    fn share(&self) -> *const Board {
        let pointer = self.0.load(Ordering::Acquire);
        if pointer.addr() & UNSHOWN != 0 {
            return unmarked(pointer);
        }
        self.shown().map_or(std::ptr::null(), |shown| shown.board)
    }

    /// The stream's row, which is made now if the stream has none. Any thread may call this function.
    #[cold]
    pub(crate) fn show(&self, id: u64, capacity: u32) -> Option<&Cells> {
        let pointer = self.0.load(Ordering::Acquire);
        if pointer.addr() & UNSHOWN == 0 {
            return self.row();
        }
        let share = unmarked(pointer);
        // SAFETY: the counted reference to the board is kept as long as `self`.
        let board = unsafe { share.as_ref() }?;
        let row = Cells::new(board.live_row(|rows| rows.stream, id));
        put(&row, StreamRow::CAPACITY, u64::from(capacity));
        let made = slab::make(ShownStream { row, sizes: Sizes::new(id), board: share }).as_ptr();
        let first = self.0.compare_exchange(pointer, made.cast(), Ordering::AcqRel, Ordering::Acquire);
        if first.is_err() {
            // SAFETY: the thread of the other end has stored its row first, so no other thread has seen this
            // value.
            unsafe { slab::free_value(NonNull::new_unchecked(made)) }
        }
        self.row()
    }
}

/// The board to which a pointer with the mark [`UNSHOWN`] points.
fn unmarked(pointer: *mut u8) -> *const Board {
    pointer.map_addr(|address| address & !UNSHOWN).cast_const().cast()
}

impl Drop for StreamTelemetry {
    fn drop(&mut self) {
        let (share, pointer) = (self.share(), self.0.load(Ordering::Acquire));
        if share.is_null() {
            return;
        }
        // SAFETY: `self` owns the reference and the `ShownStream`, and no other thread has `self` any more.
        // The row is dropped first, while the board still keeps its space.
        unsafe {
            if pointer.addr() & UNSHOWN == 0 {
                slab::free_value(NonNull::new_unchecked(pointer.cast::<ShownStream>()));
            }
            drop(Arc::from_raw(share));
        }
    }
}

/// What telemetry needs to know of a stream. Methods about an end are called by the thread that has that end.
pub(crate) trait WatchedStream {
    fn number(&self) -> u64;
    fn holds(&self) -> u32;
    fn telemetry(&self) -> &StreamTelemetry;
    /// The number of messages written (if `writes`) or read, published or not. Messages that the reader
    /// dropped when it left count as read.
    fn position(&self, writes: bool) -> usize;
    /// The number of messages written (if `writes`) or read so far in the dispatch that uses the end, without
    /// those that the reader dropped.
    fn passed_now(&self, writes: bool) -> usize;
    /// Whether the dispatch that uses the end found the stream full (if `writes`) or empty.
    fn blocks(&self, writes: bool) -> bool;
    /// The number of messages that no task read: those written after the reader left (if `writes`), or those
    /// that the reader dropped when it left.
    fn lost(&self, writes: bool) -> usize;
    /// The task at the reading end (if `writes`) or at the writing end of the stream, or 0.
    fn peer(&self, writes: bool) -> u64;
    /// The numbers of messages written, read and dropped. The numbers are valid when both ends are gone.
    fn totals(&self) -> (u64, u64, u64);

    /// The stream's live row, which is made now if the stream has none; `task`, which belongs to the calling
    /// thread, writes the stream (if `writes`) or reads it.
    fn shown_by(&self, task: u64, writes: bool) -> Option<&Cells> {
        let row = self.telemetry().row();
        if row.is_some() { row } else { self.show_for(task, writes) }
    }

    #[cold]
    fn show_for(&self, task: u64, writes: bool) -> Option<&Cells> {
        let row = self.telemetry().show(self.number(), self.holds())?;
        let (own, other) = match writes {
            true => (StreamRow::WRITER, StreamRow::READER),
            false => (StreamRow::READER, StreamRow::WRITER),
        };
        put(row, own, task);
        // A task that gets the other end at the same time writes its own number into the row, and that store
        // must not be overwritten.
        let peer = self.peer(writes);
        _ = row[other].compare_exchange(0, peer, Ordering::Relaxed, Ordering::Relaxed);
        Some(row)
    }

    /// Shows in the stream's live row the position of the end that `task` has, if any message has passed that
    /// end. Returns whether the size of a written message must be measured.
    #[inline(always)]
    fn show_position(&self, task: u64, writes: bool) -> bool {
        match self.telemetry().shown() {
            Some(ShownStream { row, sizes, .. }) => {
                self.put_position(row, writes);
                writes && sizes.are_due(self.position(true))
            }
            None => self.show_first_position(task, writes),
        }
    }

    #[cold]
    #[inline(never)]
    fn show_first_position(&self, task: u64, writes: bool) -> bool {
        let lost = self.lost(writes);
        let passed = if writes { self.position(true) + lost } else { self.position(false) - lost };
        if passed > 0
            && let Some(row) = self.shown_by(task, writes)
        {
            self.put_position(row, writes);
        }
        writes && self.telemetry().sizes_are_due(self.position(true))
    }

    #[inline(always)]
    fn put_position(&self, row: &Cells, writes: bool) {
        if writes {
            let lost = self.lost(true);
            put(row, StreamRow::WRITTEN, (self.position(true) + lost) as u64);
            if lost > 0 {
                put(row, StreamRow::DROPPED, lost as u64);
            }
        } else {
            put(row, StreamRow::READ, (self.position(false) - self.lost(false)) as u64);
        }
    }
}

/// The event for the writing or reading end of a stream that was attached to `task`; `peer` has the other
/// end.
pub(super) fn opened(stream: &impl WatchedStream, task: u64, writes: bool, peer: u64) -> StreamOpened {
    let (reader, writer) = if writes { (peer, task) } else { (task, peer) };
    let name = stream.telemetry().row().map_or(0, |row| row[StreamRow::NAME].load(Ordering::Relaxed));
    let capacity = u64::from(stream.holds());
    StreamOpened { stream: stream.number(), name: NameRef(name), reader, writer, capacity }
}

/// Records the measured message sizes of a stream after both its ends are gone.
pub(super) fn write_sizes(stream: &impl WatchedStream, recorder: &mut Recorder, now: u64) {
    if let Some(sizes) = stream.telemetry().sizes() {
        sizes.write(recorder, now, stream.number());
    }
}

/// The event for a stream after both its ends are gone. The call also updates the stream's row.
pub(super) fn closed(stream: &impl WatchedStream) -> StreamClosed {
    let (written, read, dropped) = stream.totals();
    if let Some(row) = stream.telemetry().row() {
        put(row, StreamRow::WRITTEN, written);
        put(row, StreamRow::READ, read);
        put(row, StreamRow::DROPPED, dropped);
        put(row, StreamRow::CLOSED, 1);
    }
    StreamClosed { stream: stream.number(), written, read, dropped }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use thalweg_space::reader::SpaceReader;
    use thalweg_space::{Space, SpaceOptions};

    #[test]
    fn both_ends_of_a_stream_may_show_it_first_and_give_all_back() {
        let folder = std::env::temp_dir().join(format!("thalweg-exec-shown-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let space =
            Space::create(SpaceOptions { parent: Some(folder.clone()), ..SpaceOptions::default() }).unwrap();
        let reader = SpaceReader::open(space.path()).unwrap();
        let board = Arc::new(Board::new(Some(space.clone())).unwrap());
        for round in 1..200 {
            let name = NameRef(round % 2);
            let observed = StreamTelemetry::new(&board, round, name, 7);
            assert_eq!(observed.row().is_some(), name != NameRef::NONE);
            std::thread::scope(|threads| {
                for _ in 0..2 {
                    threads.spawn(|| {
                        let row = observed.show(round, 7).expect("the space has room");
                        assert!(row.seen_row().is_some() && std::ptr::eq(row, observed.row().unwrap()));
                        assert!(std::ptr::eq(observed.board().unwrap(), &*board));
                    });
                }
            });
            let rows = reader.live_rows().unwrap();
            assert_eq!((rows.len(), rows[0].id, rows[0].cell("capacity")), (1, round, Some(7)));
            assert_eq!(rows[0].cell("name"), Some(name.0));
            drop(observed);
            assert_eq!((reader.live_rows().unwrap().len(), Arc::strong_count(&board)), (0, 1));
        }
        drop(StreamTelemetry::new(&board, 1, NameRef::NONE, 7));
        assert_eq!(Arc::strong_count(&board), 1);
        drop(board);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
