//! Models of the element's protocol under loom, which runs the writer and a reader like that of
//! [`crate::reader`] in every interleaving and with every value that a weakly ordered machine may show. The
//! models run by `RUSTFLAGS="--cfg loom" cargo test --release -p thalweg-space --lib`.

use super::*;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;

const BLOCK_BYTES: u64 = 64;
const BLOCKS: u64 = 2;

/// An ordering that a run of a model leaves out, to show that the model fails without it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LeftOut {
    Nothing,
    /// The release fence after a block's number became 0.
    RollFence,
    /// Both the fence of `RollFence` and the release store of a block's number. Either the fence or the
    /// release store is enough for a reader that follows block by block.
    NumberAndFence,
    /// The release store of `head`.
    HeadRelease,
    /// The reader's acquire fence before it loads the block's number again.
    ReaderFence,
}

std::thread_local! {
    /// Loom runs all threads of a model on one thread of the system, so a thread-local value reaches all of
    /// them.
    static LEFT_OUT: std::cell::Cell<LeftOut> = const { std::cell::Cell::new(LeftOut::Nothing) };
}

fn is_left_out(what: LeftOut) -> bool {
    LEFT_OUT.get() == what
}

#[derive(Debug)]
struct Words(Vec<AtomicU64>);

impl Words {
    /// Maps each cache line of the header to one word: loom keeps a history of every word.
    fn place(at: usize) -> usize {
        match at {
            element::HEAD => 0,
            element::DROPS => 1,
            element::STATE => 2,
            element::SEQUENCE => 3,
            element::READ_POSITION => 4,
            element::READER => 5,
            element::MAGIC => 6,
            element::OWNER => 7,
            element::OWNER_NAME => 8,
            element::GENERATION => 9,
            at => 10 + (at - element::DATA) / 8,
        }
    }
}

#[derive(Clone, Debug)]
struct Model(Arc<Words>);

impl Model {
    fn new() -> Model {
        Model::of(BLOCK_BYTES)
    }

    fn of(block_bytes: u64) -> Model {
        Model::with(block_bytes, BLOCKS)
    }

    fn with(block_bytes: u64, blocks: u64) -> Model {
        let words = 10 + (block_bytes * blocks / 8) as usize;
        let model = Model(Arc::new(Words((0..words).map(|_| AtomicU64::new(0)).collect())));
        model.store(element::MAGIC, 1, Ordering::Relaxed);
        model
    }
}

impl Memory for Model {
    type Base = u64;

    fn bytes(&self) -> usize {
        element::DATA + 8 * (self.0.0.len() - 10)
    }

    fn base(&self, bias: u64) -> u64 {
        bias
    }

    unsafe fn store_unchecked(&self, base: u64, position: u64, value: u64) {
        self.store(base.wrapping_add(position) as usize, value, Ordering::Relaxed);
    }

    fn store(&self, at: usize, value: u64, order: Ordering) {
        let is_number = at >= element::DATA && order == Ordering::Release;
        let weak = is_number && is_left_out(LeftOut::NumberAndFence)
            || at == element::HEAD && is_left_out(LeftOut::HeadRelease);
        self.0.0[Words::place(at)].store(value, if weak { Ordering::Relaxed } else { order });
    }

    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.0.0[Words::place(at)].load(order)
    }

    fn fence(order: Ordering) {
        let left_out = match order {
            Ordering::Release => is_left_out(LeftOut::RollFence) || is_left_out(LeftOut::NumberAndFence),
            _ => is_left_out(LeftOut::ReaderFence),
        };
        if !left_out {
            loom::sync::atomic::fence(order);
        }
    }
}

/// Runs `model` in every interleaving with at most three preemptions.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

struct Counted(u64);

impl Kind for Counted {
    const NAME: &'static str = "model.counted";
    const DOC: &'static str = "";
    const FIELDS: &'static [crate::kind::FieldSpec] = &[crate::kind::FieldSpec::of::<u64>("count", "", "")];
    type Words = [u64; 1];
    fn words(&self, _: u32) -> [u64; 1] {
        [self.0]
    }
}

fn write(model: Model, policy: Policy, events: u64) -> Ring<Model> {
    let mut ring = Ring::new(model, BLOCK_BYTES as usize, BLOCKS as usize, policy);
    let kind = KindId::new(event::KIND_FIRST, 1);
    for count in 0..events {
        ring.emit((100 + count as u32, 0), 0, kind, &Counted(count));
    }
    ring
}

/// Copies block `number` as the reader does. Returns the counts in its events, or `None` if the block was
/// overwritten.
fn read_block(model: &Model, number: u64, head: u64) -> Option<Vec<u64>> {
    let place = element::DATA + (number % BLOCKS * BLOCK_BYTES) as usize;
    let bytes = (head - number * BLOCK_BYTES).min(BLOCK_BYTES) as usize;
    if model.load(place, Ordering::Acquire) != number + 1 {
        return None;
    }
    let words: Vec<u64> = (1..bytes / 8).map(|n| model.load(place + 8 * n, Ordering::Relaxed)).collect();
    Model::fence(Ordering::Acquire);
    if model.load(place, Ordering::Relaxed) != number + 1 {
        return None;
    }
    let (header, events) = words.split_at(3);
    let counts: Vec<u64> = events.chunks(2).map(|event| event[1]).collect();
    for (n, event) in events.chunks(2).enumerate() {
        assert_eq!(event[0], event::pack(100 + event[1] as u32, event::KIND_FIRST, 2, 0));
        assert_eq!(event[1], header[1] + n as u64, "sequence and order");
    }
    assert_eq!(header[0], 100 + header[1], "the base is the first event's time");
    Some(counts)
}

/// An event that holds a number and its successor. In the model's small blocks such an event has two parts,
/// unless the event begins a block.
struct Pair(u64);

impl Kind for Pair {
    const NAME: &'static str = "model.pair";
    const DOC: &'static str = "";
    const FIELDS: &'static [crate::kind::FieldSpec] = &[
        crate::kind::FieldSpec::of::<u64>("count", "", ""),
        crate::kind::FieldSpec::of::<u64>("next", "", ""),
    ];
    const VARIABLE: bool = true;
    type Words = [u64; 2];
    fn words(&self, _: u32) -> [u64; 2] {
        [self.0, self.0 + 1]
    }
}

/// Blocks of the ring with long events: an event may span two blocks while the third is recycled.
const BLOCKS_LONG: u64 = 3;

/// Writes events 0 to 4. Events with even numbers are short. Block 0 holds event 0 and the begin of 1, block
/// 1 the rest of 1 and event 2, block 2 event 3; event 4 recycles block 0.
fn write_long(model: Model) -> Ring<Model> {
    let mut ring = Ring::new(model, BLOCK_BYTES as usize, BLOCKS_LONG as usize, Policy::Overwrite);
    let (short, long) = (KindId::new(event::KIND_FIRST, 1), KindId::new(event::KIND_FIRST + 1, 1));
    for count in 0..5 {
        match count % 2 {
            0 => ring.emit((100, 0), 0, short, &Counted(count)),
            _ => ring.emit((100, 0), 0, long, &Pair(count)),
        }
    }
    ring
}

/// Copies the words of block `number` after its sequence, as the reader does. Returns `None` if the block was
/// overwritten.
fn copy_long(model: &Model, number: u64, end: u64) -> Option<(u64, Vec<u64>)> {
    let place = element::DATA + (number % BLOCKS_LONG * BLOCK_BYTES) as usize;
    let words = (end - number * BLOCK_BYTES).min(BLOCK_BYTES) as usize / 8;
    if model.load(place, Ordering::Acquire) != number + 1 {
        return None;
    }
    let load = |n: usize| model.load(place + 8 * n, Ordering::Relaxed);
    let copy = (load(2), (4..words).map(load).collect());
    Model::fence(Ordering::Acquire);
    (model.load(place, Ordering::Relaxed) == number + 1).then_some(copy)
}

/// Reads the events up to `end`, and joins the parts of long events as the reader does.
fn read_long(model: &Model, end: u64) -> Vec<u64> {
    let newest = end.div_ceil(BLOCK_BYTES);
    let (mut seen, mut begun, mut sequence) = (Vec::new(), None, 0);
    for number in newest.saturating_sub(BLOCKS_LONG)..newest {
        let Some((first, words)) = copy_long(model, number, end) else {
            begun = None;
            continue;
        };
        // An event that began in the block before continues here if this block's first event is its
        // successor.
        begun = begun.filter(|_| first == sequence + 1);
        sequence = first - u64::from(begun.is_some());
        let mut words = &words[..];
        while let [word, rest @ ..] = words
            && *word != 0
        {
            let (arguments, after) = rest.split_at((word >> 48 & 0xfff) as usize - 1);
            words = after;
            let long = match (word >> 32) as u16 {
                event::KIND_CONTINUATION => begun.take().map(|first: u64| vec![first, arguments[0]]),
                _ if word >> 60 != 0 => {
                    begun = Some(arguments[0]);
                    None
                }
                _ => Some(arguments.to_vec()),
            };
            if let Some(arguments) = long {
                assert_eq!(arguments[0], sequence);
                assert!(arguments.len() == 1 || arguments[1] == sequence + 1, "a part of another event");
                assert_eq!(arguments.len() as u64, 1 + sequence % 2);
                seen.push(sequence);
                sequence += 1;
            }
        }
    }
    seen
}

/// While an event in two blocks is committed and its first part overwritten, a reader gets the whole event or
/// nothing of it.
#[test]
fn a_reader_never_joins_parts_of_two_events() {
    check_long();
}

fn check_long() {
    check(|| {
        let model = Model::with(BLOCK_BYTES, BLOCKS_LONG);
        let writer = model.clone();
        let writing = loom::thread::spawn(move || write_long(writer));
        let head = model.load(element::HEAD, Ordering::Acquire);
        let seen = read_long(&model, head);
        assert!(seen.is_sorted_by(|a, b| a < b));
        let ring = writing.join().unwrap();
        assert_eq!((ring.sequence(), ring.drops()), (5, 0));
        let head = model.load(element::HEAD, Ordering::Acquire);
        // The reader discards the rest of event 1, because its beginning was overwritten.
        assert_eq!(read_long(&model, head), [2, 3, 4]);
    });
}

/// A reader that follows block by block sees the first part before the event is committed, and the second
/// part only after the commit.
#[test]
fn a_part_that_is_not_committed_is_no_event() {
    check_following_long();
}

fn check_following_long() {
    check(|| {
        let model = Model::with(BLOCK_BYTES, BLOCKS_LONG);
        let writer = model.clone();
        let writing = loom::thread::spawn(move || write_long(writer));
        for complete in 1..BLOCKS_LONG {
            let next = element::DATA + (complete * BLOCK_BYTES) as usize;
            if model.load(next + block::NUMBER, Ordering::Acquire) == complete + 1 {
                let seen = read_long(&model, complete * BLOCK_BYTES);
                let whole: &[u64] = if complete == 1 { &[0] } else { &[0, 1, 2] };
                // All events are seen unless the first block was recycled meanwhile.
                assert!(seen == whole || whole.ends_with(&seen) && !seen.contains(&1), "{seen:?}");
            }
        }
        writing.join().unwrap();
    });
}

#[test]
fn a_reader_never_takes_a_torn_or_recycled_block() {
    check_reader();
}

fn check_reader() {
    check(|| {
        let model = Model::new();
        let writer = model.clone();
        // A block holds two events, so the fifth event recycles the first block.
        let writing = loom::thread::spawn(move || write(writer, Policy::Overwrite, 5));
        let head = model.load(element::HEAD, Ordering::Acquire);
        let newest = head.div_ceil(BLOCK_BYTES);
        for number in newest.saturating_sub(2)..newest {
            let counts = read_block(&model, number, head);
            // Unless the block was recycled, it must hold everything up to head.
            if let Some(counts) = counts {
                let held = (head - number * BLOCK_BYTES).min(BLOCK_BYTES);
                assert_eq!(counts.len() as u64, (held - 32) / 16);
                assert!(counts.iter().all(|count| count / 2 == number));
            }
        }
        let ring = writing.join().unwrap();
        assert_eq!((ring.sequence(), ring.drops()), (5, 0));
    });
}

#[test]
fn a_block_is_complete_when_the_next_one_is_open() {
    check_following();
}

fn check_following() {
    check(|| {
        let model = Model::new();
        let writer = model.clone();
        let writing = loom::thread::spawn(move || write(writer, Policy::Overwrite, 5));
        let second = element::DATA + BLOCK_BYTES as usize;
        if model.load(second + block::NUMBER, Ordering::Acquire) == 2 {
            let counts = read_block(&model, 0, BLOCK_BYTES);
            assert!(counts.is_none_or(|counts| counts == [0, 1]));
        }
        writing.join().unwrap();
    });
}

/// Each fence and each release is needed: without it, a model fails. The release of a consumer's read
/// position is the exception: loom runs loads in the order of the program, so no model fails without it.
#[test]
fn an_ordering_that_is_left_out_is_missed() {
    for (what, model) in [
        (LeftOut::RollFence, check_reader as fn()),
        (LeftOut::ReaderFence, check_reader),
        (LeftOut::HeadRelease, check_reader),
        (LeftOut::NumberAndFence, check_following),
        (LeftOut::RollFence, check_long),
        (LeftOut::ReaderFence, check_long),
        (LeftOut::HeadRelease, check_long),
        (LeftOut::NumberAndFence, check_following_long),
    ] {
        let checking = std::thread::spawn(move || {
            LEFT_OUT.set(what);
            model();
        });
        assert!(checking.join().is_err(), "nothing failed without {what:?}");
    }
}

#[test]
fn a_consumer_that_frees_blocks_gets_everything_or_its_count() {
    check(|| {
        let model = Model::new();
        let writer = model.clone();
        let writing = loom::thread::spawn(move || write(writer, Policy::DropNewest, 6));
        let mut seen = Vec::new();
        let mut take = |head: u64, from: u64, to: u64| {
            for number in from..to {
                seen.extend(read_block(&model, number, head).expect("not freed, so not recycled"));
            }
            // Release, paired with the writer's acquire: the copy is complete before the writer may overwrite
            // the blocks.
            model.store(element::READ_POSITION, to * BLOCK_BYTES, Ordering::Release);
        };
        let head = model.load(element::HEAD, Ordering::Acquire);
        let whole = head / BLOCK_BYTES;
        take(head, 0, whole);
        let ring = writing.join().unwrap();
        let head = model.load(element::HEAD, Ordering::Acquire);
        take(head, whole, head.div_ceil(BLOCK_BYTES));
        assert_eq!(ring.sequence(), 6);
        assert_eq!(seen.len() as u64 + ring.drops(), 6);
        assert!(seen.is_sorted());
    });
}

/// When an element gets a new owner in the middle of a block, a reader attributes every event to the owner
/// that wrote it.
#[test]
fn a_reader_finds_the_owner_of_an_event() {
    const BYTES: u64 = 128;
    check(|| {
        let model = Model::of(BYTES);
        let writer = model.clone();
        // Owners hand the element over under a lock: for a reader they are one thread.
        let writing = loom::thread::spawn(move || {
            let mut ring = Ring::new(writer, BYTES as usize, BLOCKS as usize, Policy::Overwrite);
            let kind = KindId::new(event::KIND_FIRST, 1);
            for (number, counts) in [(1, 0..1), (2, 10..14)] {
                ring.take_over(Owner { number, thread: 0, name: NameRef(0) });
                for count in counts {
                    ring.emit((100, 0), 0, kind, &Counted(count));
                }
            }
            assert_eq!((ring.events(), ring.sequence()), (5, 4));
        });
        let head = model.load(element::HEAD, Ordering::Acquire);
        for number in 0..head.div_ceil(BYTES) {
            let place = element::DATA + (number * BYTES) as usize;
            let bytes = (head - number * BYTES).min(BYTES) as usize;
            let words: Vec<u64> =
                (4..bytes / 8).map(|n| model.load(place + 8 * n, Ordering::Relaxed)).collect();
            let (mut owner, mut at) = (1, 0);
            while at < words.len() {
                if (words[at] >> 32) as u16 == event::KIND_OWNER {
                    assert_eq!(words[at + 3], 1, "its first event");
                    owner = words[at + 1];
                    at += event::OWNER_WORDS;
                } else {
                    assert_eq!(owner == 2, words[at + 1] >= 10, "event {} is of {owner}", words[at + 1]);
                    at += 2;
                }
            }
        }
        writing.join().unwrap();
    });
}
