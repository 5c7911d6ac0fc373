//! Tests of writing and reading: kinds, times, policies, settings, live rows, names.

mod support;

use proptest::prelude::*;
use std::time::{Duration, Instant};
use support::{Counted, Directory, Seen, options, read_events, space, totals};
use thalweg_space::archive::Archiver;
use thalweg_space::reader::{Item, SpaceReader, Value};
use thalweg_space::{
    Adoption, Affects, ElementOptions, Kind, KindEnum, KindId, NameRef, Policy, Row, SettingSpec, Site,
    SiteRef, Space, SpaceOptions, Undo,
};

/// A kind with a field of each type.
#[derive(Kind)]
#[kind(name = "test.every_type")]
struct EveryType<'a> {
    a: u8,
    b: u16,
    c: u32,
    d: u64,
    e: i8,
    f: i16,
    g: i32,
    h: i64,
    i: f32,
    j: f64,
    k: bool,
    l: NameRef,
    m: SiteRef,
    n: Colour,
    /// A text.
    o: &'a str,
    #[field(unit = "bytes")]
    p: &'a [u8],
    q: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, KindEnum)]
enum Colour {
    Red,
    DeepBlue = 7,
}

#[test]
fn kinds_known_at_run_time_only_are_read_like_others() {
    use thalweg_space::kind::{FieldSpec, Schema};
    const FIELDS: &[FieldSpec] = &[
        FieldSpec::of::<i64>("count", "records", "How many"),
        FieldSpec::of::<f64>("mean", "", "Their mean"),
    ];
    let directory = Directory::new("schema");
    let space = space(&directory, 4096, 4, Policy::Overwrite);
    let mut writer = space.writer("library").unwrap();
    let schema = Schema { name: "box.seen", doc: "Records were seen", fields: FIELDS };
    let kind = writer.declare_schema(&schema).unwrap();
    let again = writer.declare_schema(&schema).unwrap();
    writer.emit_words(kind, &[-3i64 as u64, 0.5f64.to_bits()]);
    writer.emit_words(again, &[4, 1.5f64.to_bits()]);
    let (seen, problem) = read_events(space.path());
    assert!(problem.is_none(), "{problem:?}");
    let fields = |seen: &Seen| match seen {
        Seen::Event { kind, fields, .. } if kind == "box.seen" => Some(fields.join(" ")),
        _ => None,
    };
    assert_eq!(seen.iter().filter_map(fields).collect::<Vec<_>>(), ["-3 0.5", "4 1.5"]);
    const MANY: &[FieldSpec] = &[FieldSpec::of::<i64>("one", "", ""); 9];
    const SMALL: &[FieldSpec] = &[FieldSpec::of::<u8>("small", "", "")];
    for fields in [&[][..], MANY, SMALL] {
        let wrong = writer.declare_schema(&Schema { name: "box.wrong", doc: "", fields }).unwrap_err();
        assert!(wrong.to_string().contains("one to eight numbers of 64 bits"), "{wrong}");
    }
}

/// A kind of event without fields.
#[derive(Kind)]
#[kind(name = "test.bare")]
struct Bare;

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_type_comes_back(
        (a, b, c, d) in any::<(u8, u16, u32, u64)>(),
        (e, f, g, h) in any::<(i8, i16, i32, i64)>(),
        (i, j, k) in (-1e30f32..1e30, -1e300f64..1e300, any::<bool>()),
        (l, m, q) in any::<(u64, u64, u8)>(),
        blue in any::<bool>(),
        o in ".{0,40}",
        p in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let n = if blue { Colour::DeepBlue } else { Colour::Red };
        let (l, m) = (NameRef(l), SiteRef(m));
        let directory = Directory::new("types");
        let space = space(&directory, 1024, 2, Policy::Overwrite);
        let mut writer = space.writer("w").unwrap();
        let kind = writer.declare::<EveryType<'static>>().unwrap();
        writer.emit(kind, &EveryType { a, b, c, d, e, f, g, h, i, j, k, l, m, n, o: &o, p: &p, q });
        let reader = SpaceReader::open(space.path()).unwrap();
        let mut count = 0;
        reader.events().poll(10, &mut |item| {
            let Item::Event(event) = item else { panic!("{item:?}") };
            count += 1;
            let values: Vec<Value<'_>> = event.fields().map(|(_, value)| value).collect();
            let choice = if blue { (7, Some("deep_blue")) } else { (0, Some("red")) };
            let expected = vec![
                Value::Unsigned(a.into()), Value::Unsigned(b.into()), Value::Unsigned(c.into()), Value::Unsigned(d),
                Value::Signed(e.into()), Value::Signed(f.into()), Value::Signed(g.into()), Value::Signed(h),
                Value::Float(i.into()), Value::Float(j), Value::Bool(k), Value::Name(l), Value::Site(m),
                Value::Choice(choice.0, choice.1), Value::Text(o.clone().into()), Value::Bytes(&p),
                Value::Unsigned(q.into()),
            ];
            assert_eq!(values, expected);
            assert_eq!(event.i64(event.kind.field("g").unwrap()), i64::from(g));
            assert_eq!(event.choice("n"), choice.1);
            assert_eq!(event.str(event.kind.field("o").unwrap()), o.as_str());
            assert!(!event.is_truncated());
        }).unwrap();
        prop_assert_eq!(count, 1);
    }

    /// Events have any times, forwards and backwards, near and far, and some have the time of the event
    /// before. From some event on all events are read as written, and the earlier ones are counted as lost.
    #[test]
    fn times_and_sequences_come_back(
        steps in prop::collection::vec((0u8..4, any::<i64>(), any::<u8>()), 1..400),
        block in 9u32..12,
        count in 2usize..5,
    ) {
        let directory = Directory::new("times");
        let space = space(&directory, 1 << block, count, Policy::Overwrite);
        let mut writer = space.writer("w").unwrap();
        let counted = writer.declare::<Counted>().unwrap();
        let bare = writer.declare::<Bare>().unwrap();
        let mut time = 1u64 << 63;
        let mut written = Vec::new();
        for (n, (how, step, far)) in steps.iter().enumerate() {
            match how {
                0 => time = time.wrapping_add_signed(step >> (far % 64)),
                1 => time = time.wrapping_add(u64::from(*far)),
                _ => {}
            }
            if *how == 2 && n > 0 {
                writer.emit_same_time(counted, &Counted { count: n as u64 });
                written.push((time, "test.counted", vec![n.to_string()]));
            } else {
                writer.emit_at(time, bare, &Bare);
                written.push((time, "test.bare", vec![]));
            }
        }
        drop(writer);
        let (seen, problem) = read_events(space.path());
        prop_assert!(problem.is_none(), "{problem:?}");
        let lost = match &seen[0] {
            Seen::Gap { lost, from_sequence: 0, .. } => *lost as usize,
            _ => 0,
        };
        let events = &seen[usize::from(lost > 0)..];
        prop_assert_eq!(events.len() + lost, written.len());
        for (n, (event, (time, kind, fields))) in events.iter().zip(&written[lost..]).enumerate() {
            let expected = Seen::Event {
                time: *time, writer: 1, sequence: (lost + n) as u64, kind: kind.to_string(), fields: fields.clone(),
            };
            prop_assert_eq!(event, &expected);
        }
    }

    /// An archiver that keeps up loses no event, whatever is written through however small a ring.
    #[test]
    fn archive_keeps_everything(bursts in prop::collection::vec(1u64..40, 1..60), count in 2usize..4) {
        let directory = Directory::new("archive");
        let space = space(&directory, 512, count, Policy::Wait { timeout: Duration::from_secs(0) });
        let mut writer = space.writer("w").unwrap();
        let counted = writer.declare::<Counted>().unwrap();
        let mut archiver = Archiver::open(space.path()).unwrap();
        let mut total = 0;
        for burst in bursts {
            for _ in 0..burst.min(20) {
                writer.emit(counted, &Counted { count: total });
                total += 1;
            }
            archiver.step().unwrap();
        }
        prop_assert_eq!(writer.drops(), 0);
        drop(writer);
        let halfway = read_events(space.path());
        archiver.finish().unwrap();
        let (seen, problem) = read_events(space.path());
        prop_assert!(problem.is_none());
        prop_assert_eq!(totals(&seen), (total, 0));
        prop_assert_eq!(&halfway.0, &seen);
        // The archive can be read after the element was removed.
        std::fs::remove_file(space.path().join("0001.element")).unwrap();
        prop_assert_eq!(&read_events(space.path()).0, &seen);
    }
}

#[test]
fn overlong_text_is_cut_and_marked() {
    /// Text.
    #[derive(Kind)]
    #[kind(name = "test.text")]
    struct Text<'a> {
        first: &'a str,
        second: &'a str,
    }
    let directory = Directory::new("long");
    for block_bytes in [512, 64 << 10] {
        let space = space(&directory, block_bytes, 2, Policy::Overwrite);
        let mut writer = space.writer("w").unwrap();
        let kind = writer.declare::<Text<'static>>().unwrap();
        let long = "é".repeat(100_000);
        writer.emit(kind, &Text { first: "short", second: &long });
        writer.emit_same_time(kind, &Text { first: &long, second: &long });
        let mut lengths = Vec::new();
        SpaceReader::open(space.path())
            .unwrap()
            .events()
            .poll(9, &mut |item| {
                let Item::Event(event) = item else { panic!("{item:?}") };
                assert!(event.is_truncated());
                let text = |name| event.str(event.kind.field(name).unwrap());
                lengths.push((text("first").len(), text("second").len()));
                assert!(text("second").starts_with("éé"));
            })
            .unwrap();
        assert_eq!(lengths.len(), 2);
        assert_eq!(lengths[0].0, 5);
        assert!(lengths[1].1 > block_bytes.min(32 << 10) / 4, "{lengths:?}");
    }
}

#[test]
fn a_kind_that_fits_no_block_is_refused() {
    struct Huge;
    impl Kind for Huge {
        const NAME: &'static str = "test.huge";
        const DOC: &'static str = "";
        const FIELDS: &'static [thalweg_space::kind::FieldSpec] =
            &[thalweg_space::kind::FieldSpec::of::<u64>("a", "", ""); 80];
        type Words = [u64; 80];
        fn words(&self, _: u32) -> [u64; 80] {
            [0; 80]
        }
    }
    let directory = Directory::new("huge");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let error = space.writer("w").unwrap().declare::<Huge>().unwrap_err().to_string();
    assert!(error.contains("test.huge") && error.contains("larger blocks"), "{error}");
}

#[test]
fn drop_newest_counts_until_a_consumer_reads() {
    let directory = Directory::new("drop");
    let space = space(&directory, 512, 2, Policy::DropNewest);
    let mut writer = space.writer("w").unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    for count in 0..100 {
        writer.emit(counted, &Counted { count });
    }
    // A block of 512 bytes has 480 bytes for events of 16 bytes.
    assert_eq!(writer.drops(), 40);
    let (seen, _) = read_events(space.path());
    assert_eq!(totals(&seen), (60, 40));
    assert_eq!(seen.last(), Some(&Seen::Gap { writer: 1, lost: 40, from_sequence: 60 }));
    let mut archiver = Archiver::open(space.path()).unwrap();
    archiver.step().unwrap();
    for count in 100..110 {
        writer.emit(counted, &Counted { count });
    }
    assert_eq!(writer.drops(), 40);
    drop(writer);
    archiver.finish().unwrap();
    let (seen, _) = read_events(space.path());
    assert_eq!(totals(&seen), (70, 40));
    assert_eq!(seen[60], Seen::Gap { writer: 1, lost: 40, from_sequence: 60 });
}

/// After a large event was dropped, a small one must not be written into the same block, where it would get
/// the sequence number of the dropped event.
#[test]
fn drops_of_large_events_keep_the_sequence_right() {
    let directory = Directory::new("mixed");
    let space = space(&directory, 512, 2, Policy::DropNewest);
    let mut writer = space.writer("w").unwrap();
    let kind = writer.declare::<EveryType<'static>>().unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    let (l, m, n) = (NameRef(0), SiteRef(0), Colour::Red);
    let mut archiver = Archiver::open(space.path()).unwrap();
    for count in 0..300 {
        if count % 3 == 0 {
            let d = count;
            let (a, b, c, e, f, g, h, i, j, k, q) = (1, 2, 3, -1, -2, -3, -4, 0.5, 0.25, true, 9);
            writer.emit(
                kind,
                &EveryType { a, b, c, d, e, f, g, h, i, j, k, l, m, n, o: "text", p: b"bytes", q },
            );
        } else {
            writer.emit_same_time(counted, &Counted { count });
        }
        if count % 50 == 0 {
            archiver.step().unwrap();
        }
    }
    assert!(writer.drops() > 50);
    drop(writer);
    let (seen, problem) = read_events(space.path());
    assert!(problem.is_none());
    let (events, lost) = totals(&seen);
    assert_eq!(events + lost, 300);
    for item in seen {
        if let Seen::Event { sequence, kind, fields, .. } = item {
            let count = if kind == "test.counted" { &fields[0] } else { &fields[3] };
            assert_eq!(*count, sequence.to_string());
        }
    }
}

#[test]
fn a_reader_that_follows_sees_drops_once_and_in_order() {
    let directory = Directory::new("follow");
    let space = space(&directory, 512, 2, Policy::DropNewest);
    let mut writer = space.writer("w").unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    let mut archiver = Archiver::open(space.path()).unwrap();
    let reader = SpaceReader::open(space.path()).unwrap();
    let mut stream = reader.events();
    let (mut events, mut lost, mut next) = (0, 0, 0);
    for count in 0..5_000 {
        writer.emit(counted, &Counted { count });
        if count % 7 == 0 {
            stream
                .poll(usize::MAX, &mut |item| match item {
                    Item::Event(event) => {
                        assert_eq!(event.sequence, next);
                        assert_eq!(event.u64(event.kind.field("count").unwrap()), next);
                        (events, next) = (events + 1, next + 1);
                    }
                    Item::Gap { lost: more, from_sequence, .. } => {
                        assert_eq!(from_sequence, next);
                        (lost, next) = (lost + more, next + more);
                    }
                })
                .unwrap();
            assert_eq!(next, count + 1);
        }
        if count % 97 == 0 {
            archiver.step().unwrap();
        }
    }
    assert!(lost > 0 && events > 0);
    assert!(lost <= writer.drops());
}

#[test]
fn following_by_block_takes_whole_blocks_and_the_rest_at_the_end() {
    let directory = Directory::new("by-block");
    let space = space(&directory, 512, 4, Policy::Overwrite);
    let mut writer = space.writer("w").unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    let mut stream = SpaceReader::open(space.path()).unwrap().events().by_block();
    let mut next = 0;
    let mut taken = Vec::new();
    let mut poll = |next: &mut u64| {
        let before = *next;
        let check = &mut |item: Item<'_>| {
            let Item::Event(event) = item else { panic!("{item:?}") };
            assert_eq!(event.sequence, *next);
            *next += 1;
        };
        stream.poll(usize::MAX, check).unwrap();
        *next - before
    };
    for count in 0..100 {
        writer.emit(counted, &Counted { count });
        taken.extend(Some(poll(&mut next)).filter(|n| *n > 0));
    }
    assert_eq!(taken, [30, 30, 30]);
    drop(writer);
    assert_eq!(poll(&mut next), 10);
}

#[test]
fn wait_runs_out_once_and_then_drops() {
    let directory = Directory::new("wait");
    let timeout = Duration::from_millis(30);
    let space = space(&directory, 512, 2, Policy::Wait { timeout });
    let mut writer = space.writer("w").unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    let start = Instant::now();
    for count in 0..1060 {
        writer.emit(counted, &Counted { count });
    }
    assert!(start.elapsed() >= timeout);
    assert_eq!(writer.drops(), 1000, "one wait, then drops: {:?}", start.elapsed());
}

#[test]
fn wait_ends_when_the_consumer_is_dead() {
    let directory = Directory::new("dead");
    let space = space(&directory, 512, 2, Policy::Wait { timeout: Duration::from_secs(3600) });
    let mut writer = space.writer("w").unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    // Process 1 has another start time, as if the consumer had ended and another process had got its pid.
    let header = thalweg_space::layout::element::READER as u64;
    let file = std::fs::OpenOptions::new().write(true).open(space.path().join("0001.element")).unwrap();
    use std::os::unix::fs::FileExt;
    file.write_all_at(&[1u64.to_le_bytes(), 12345u64.to_le_bytes()].concat(), header).unwrap();
    for count in 0..100 {
        writer.emit(counted, &Counted { count });
    }
    assert_eq!(writer.drops(), 40);
}

#[test]
fn wait_with_an_archiver_in_another_thread_loses_nothing() {
    let directory = Directory::new("keep");
    let space = space(&directory, 1024, 2, Policy::Wait { timeout: Duration::from_secs(60) });
    let mut writer = space.writer("w").unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    let mut archiver = Archiver::open(space.path()).unwrap();
    let writing = std::thread::spawn(move || {
        for count in 0..20_000 {
            writer.emit(counted, &Counted { count });
        }
        writer.drops()
    });
    while !writing.is_finished() {
        archiver.step().unwrap();
    }
    assert_eq!(writing.join().unwrap(), 0);
    archiver.finish().unwrap();
    assert_eq!(totals(&read_events(space.path()).0), (20_000, 0));
}

#[test]
fn writers_are_merged_in_time_order() {
    let directory = Directory::new("merge");
    let space = space(&directory, 512, 64, Policy::Overwrite);
    let mut writers: Vec<_> = (0..3).map(|n| space.writer(&format!("w{n}")).unwrap()).collect();
    let kinds: Vec<KindId<Counted>> = writers.iter_mut().map(|w| w.declare().unwrap()).collect();
    // The writers write in a pseudo-random order.
    let mut state = 12345u64;
    for time in 0..1000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let n = (state >> 33) as usize % 3;
        writers[n].emit_at(1_000_000 + time, kinds[n], &Counted { count: time });
    }
    let (seen, problem) = read_events(space.path());
    assert!(problem.is_none());
    let times: Vec<u64> = seen
        .iter()
        .map(|s| match s {
            Seen::Event { time, .. } => *time,
            gap => panic!("{gap:?}"),
        })
        .collect();
    assert_eq!(times, (1_000_000..1_001_000).collect::<Vec<_>>());
}

/// A writer overwrites as fast as it can while a reader reads. The reader gets only correct events, and
/// counts the others as lost.
#[test]
fn concurrent_reader_sees_no_wrong_event() {
    let directory = Directory::new("race");
    let space = space(&directory, 512, 3, Policy::Overwrite);
    let mut writer = space.writer("w").unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    let reader = SpaceReader::open(space.path()).unwrap();
    let total = 3_000_000;
    let writing = std::thread::spawn(move || {
        for count in 0..total {
            writer.emit_at(count * 3, counted, &Counted { count });
        }
    });
    let (mut events, mut next) = (0u64, 0u64);
    let mut stream = reader.events();
    loop {
        let over = writing.is_finished();
        let taken = stream.poll(10_000, &mut |item| match item {
            Item::Event(event) => {
                let count = event.u64(event.kind.field("count").unwrap());
                assert_eq!((event.sequence, event.time, count), (next, next * 3, next));
                (events, next) = (events + 1, next + 1);
            }
            Item::Gap { lost, from_sequence, .. } => {
                assert_eq!(from_sequence, next);
                next += lost;
            }
        });
        if taken.unwrap() == 0 && over {
            break;
        }
    }
    writing.join().unwrap();
    assert_eq!(next, total);
    assert!(events > 0);
}

#[test]
fn settings_are_shared_and_kept_in_range() {
    let directory = Directory::new("settings");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let spec = SettingSpec {
        name: "monitor.mode",
        doc: "How much is observed.",
        default: 1,
        choices: &["off", "metrics", "full"],
        affects: Affects::Task,
        adoption: Adoption::NextDispatch,
        ..SettingSpec::PLAIN
    }
    .bounded();
    let setting = space.setting(spec).unwrap();
    assert_eq!(setting.load(), 1);
    let reader = SpaceReader::open(space.path()).unwrap();
    reader.set("monitor.mode", 2).unwrap();
    assert_eq!(setting.load(), 2);
    assert_eq!(space.setting(spec).unwrap().load(), 2, "the same name is the same cell");
    setting.set(0).unwrap();
    let views = reader.settings().unwrap();
    assert_eq!(views.len(), 1);
    assert_eq!((views[0].value, views[0].default, views[0].choices.len()), (0, 1, 3));
    assert_eq!((views[0].max, views[0].affects), (2, Some(Affects::Task)));
    assert_eq!((views[0].adoption, views[0].undo), (Some(Adoption::NextDispatch), Some(Undo::SetBack)));
    for error in [setting.set(3).unwrap_err(), reader.set("monitor.mode", 3).unwrap_err()] {
        assert!(error.to_string().contains("out of range"), "{error}");
    }
    let error = reader.set("monitor.mood", 1).unwrap_err().to_string();
    assert!(error.contains("monitor.mode"), "{error}");
    assert!(space.setting(SettingSpec { default: 9, ..spec }).is_err());
    for n in 1..512 {
        space.setting(SettingSpec { name: &format!("s{n}"), ..spec }).unwrap();
    }
    let error = space.setting(SettingSpec { name: "one more", ..spec }).unwrap_err().to_string();
    assert!(error.contains("one more"), "{error}");
}

#[test]
fn live_rows_come_and_go_with_generations() {
    #[derive(Row)]
    #[row(name = "test.other")]
    struct Other {
        count: u64,
    }
    let directory = Directory::new("live");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let reader = SpaceReader::open(space.path()).unwrap();
    assert!(reader.live_rows().unwrap().is_empty());
    let thing = support::thing(&space);
    let rows: Vec<_> = (0..2000).map(|id| space.live_row(thing, id).unwrap()).collect();
    rows[1999].cell(11).store(5, std::sync::atomic::Ordering::Relaxed);
    let views = reader.live_rows().unwrap();
    assert_eq!(views.len(), 2000);
    assert_eq!(views.iter().find(|v| v.id == 1999).unwrap().cells[11], 5);
    drop(rows);
    assert!(reader.live_rows().unwrap().is_empty());
    let other = space.row_kind::<Other>().unwrap();
    assert_ne!(thing, other);
    let row = space.live_row(other, 7).unwrap();
    let views = reader.live_rows().unwrap();
    assert_eq!((views[0].kind_name(), views[0].id, views[0].cells), ("test.other", 7, [0; 12]));
    assert_eq!(row.generation(), views[0].generation);
    assert!(row.generation() > 1);
}

#[test]
fn cells_are_found_by_name_in_rows_of_other_versions_too() {
    mod later {
        /// A later version of the row, with one more cell and the cells in another order.
        #[derive(thalweg_space::Row)]
        #[row(name = "test.versioned")]
        pub(crate) struct Later {
            pub(crate) added: u64,
            pub(crate) is_open: bool,
            pub(crate) count: u64,
        }
    }
    #[derive(Debug, PartialEq, Row)]
    #[row(name = "test.versioned", former = 3)]
    struct Versioned {
        count: u64,
        is_open: bool,
        #[field(absent = -1)]
        core: i64,
    }
    let directory = Directory::new("versioned");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let kind = space.row_kind::<later::Later>().unwrap();
    assert_eq!(space.row_kind::<later::Later>().unwrap(), kind);
    let row = space.live_row(kind, 1).unwrap();
    let later = later::Later { added: 9, is_open: true, count: 8 };
    for (cell, value) in later.cells().into_iter().enumerate() {
        row.cell(cell).store(value, std::sync::atomic::Ordering::Relaxed);
    }
    let mut views = SpaceReader::open(space.path()).unwrap().live_rows().unwrap();
    let view = &mut views[0];
    assert_eq!(view.read::<Versioned>(), Some(Versioned { count: 8, is_open: true, core: -1 }));
    assert!(view.read::<support::Thing>().is_none());
    // The row is changed to what a space of the former version has.
    (view.kind, view.code, view.cells[2]) = (None, 3, 7);
    assert_eq!(view.read::<Versioned>(), Some(Versioned { count: 9, is_open: true, core: 7 }));
    view.code = 2;
    assert!(view.read::<Versioned>().is_none());
}

/// The first chunk has 256 rows, so a second chunk would show that rows were lost or kept for ever.
#[test]
fn a_thread_gives_back_the_live_rows_that_it_kept() {
    let directory = Directory::new("kept");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let thing = support::thing(&space);
    let take = |count| (0..count).map(|id| space.live_row(thing, id).unwrap()).collect::<Vec<_>>();
    let of_main = take(100);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let kept = space.keep_live_rows();
            drop(of_main);
            (0..3).for_each(|_| drop(take(150)));
            let reader = SpaceReader::open(space.path()).unwrap();
            assert!(reader.live_rows().unwrap().is_empty(), "what is kept has no owner");
            let again = space.live_row(thing, 1).unwrap();
            assert!(again.generation() > 1);
            drop(kept);
        });
    });
    let all = take(256);
    let reader = SpaceReader::open(space.path()).unwrap();
    assert_eq!(reader.live_rows().unwrap().len(), 256);
    assert!(!space.path().join("live.1").exists());
    drop(all);
}

#[test]
fn names_and_sites_come_back() {
    let directory = Directory::new("names");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let reader = SpaceReader::open(space.path()).unwrap();
    let name = space.name("a stream").unwrap();
    assert_eq!(space.name("a stream").unwrap(), name);
    assert_ne!(space.name("another").unwrap(), name);
    assert_eq!(reader.name(name).as_deref(), Some("a stream"));
    assert_eq!(reader.name(NameRef::NONE), None);
    assert_eq!(reader.name(NameRef(99)), None);
    assert_eq!(reader.names().unwrap().len(), 2);
    let net =
        space.site(&Site { name: "main", kind: "net", file: "a.snet", line: 1, ..Site::default() }).unwrap();
    let inc = space.site(&Site { name: "inc", kind: "box", parent: Some(net), ..Site::default() }).unwrap();
    let sites = reader.sites().unwrap();
    assert_eq!(sites.len(), 2);
    assert_eq!((sites[1].id, sites[1].parent, sites[1].name.as_str()), (inc, net, "inc"));
}

#[test]
fn identity_has_the_process_and_the_times() {
    let directory = Directory::new("identity");
    let start = Instant::now();
    let space = space(&directory, 64 << 10, 16, Policy::Overwrite);
    let took = start.elapsed();
    let reader = SpaceReader::open(space.path()).unwrap();
    let info = reader.info().unwrap();
    assert_eq!(
        (info.pid, info.name.as_str(), info.command.as_str()),
        (std::process::id(), "test", "test --command")
    );
    assert!(reader.is_alive() && !info.finished && !info.keep);
    let real = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i128;
    let ours = i128::from(info.clock.real_ns(space.clock().now()));
    assert!((real - ours).abs() < 1_000_000_000, "{real} {ours}");
    space.finish();
    assert!(reader.info().unwrap().finished);
    assert!(took < Duration::from_secs(1), "{took:?}");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(space.path()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn bad_places_and_sizes_are_reported() {
    let directory = Directory::new("bad");
    let check = |options: SpaceOptions, words: &str| {
        let error = Space::create(options).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let good = || options(directory.path(), 512, 2, Policy::Overwrite);
    let element =
        |block_bytes, block_count| ElementOptions { block_bytes, block_count, policy: Policy::Overwrite };
    check(SpaceOptions { element: element(500, 2), ..good() }, "power of two");
    check(SpaceOptions { element: element(512, 1), ..good() }, "2 to");
    check(SpaceOptions { parent: Some("/proc/nowhere".into()), ..good() }, "/proc/nowhere");
    check(SpaceOptions { path: Some("/dev/null/x".into()), ..good() }, "/dev/null/x");
    std::fs::write(directory.path().join("file"), "x").unwrap();
    check(SpaceOptions { path: Some(directory.path().into()), ..good() }, "not empty");
    let exact = directory.path().join("exact");
    let space = Space::create(SpaceOptions { path: Some(exact.clone()), ..good() }).unwrap();
    assert_eq!(space.path(), exact);
    // Reserving more space than any file system has returns an error, and leaves no incomplete file.
    let error = space.writer_with("w", element(64 << 20, 1 << 24)).unwrap_err().to_string();
    assert!(error.contains("0001.element"), "{error}");
    assert!(!exact.join("0001.element").exists());
    space.writer("w").unwrap();
    assert_eq!(SpaceReader::open(&exact).unwrap().writers().unwrap().len(), 1);
}

/// A writer can move between threads, and all threads can share a space.
#[test]
fn threads_may_have_what_they_need() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<thalweg_space::Writer>();
    send::<Space>();
    sync::<Space>();
    send::<thalweg_space::LiveRow>();
    sync::<thalweg_space::LiveRow>();
    send::<thalweg_space::Setting>();
    sync::<thalweg_space::Setting>();
    send::<SpaceReader>();
    send::<thalweg_space::reader::EventStream>();
    send::<KindId<Counted>>();
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "declared by another writer")]
fn a_kind_of_another_writer_is_a_programmers_error() {
    let directory = Directory::new("other");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let counted = space.writer("one").unwrap().declare::<Counted>().unwrap();
    space.writer("two").unwrap().emit(counted, &Counted { count: 1 });
}

/// A kind written by hand that visits more bytes than it announced causes a panic, and does not write
/// elsewhere.
#[test]
#[should_panic(expected = "more bytes than it announced")]
fn a_kind_that_lies_about_its_bytes_is_stopped() {
    struct Liar(std::cell::Cell<usize>);
    impl Kind for Liar {
        const NAME: &'static str = "test.liar";
        const DOC: &'static str = "";
        const FIELDS: &'static [thalweg_space::kind::FieldSpec] =
            &[thalweg_space::kind::FieldSpec::of::<&[u8]>("a", "", "")];
        type Words = [u64; 1];
        fn words(&self, _: u32) -> [u64; 1] {
            [0]
        }
        fn tails(&self, visit: &mut dyn FnMut(&[u8])) {
            // The first call is for the sizes of the fields, the second for their bytes.
            let asked = self.0.replace(self.0.get() + 1);
            for _ in 0..if asked == 1 { 1000 } else { 1 } {
                visit(b"eight by");
            }
        }
    }
    let directory = Directory::new("liar");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let mut writer = space.writer("w").unwrap();
    let kind = writer.declare::<Liar>().unwrap();
    writer.emit(kind, &Liar(std::cell::Cell::new(0)));
}

/// A reader reads two versions of a kind, of which one has added fields, by the fields' names.
#[test]
fn a_reader_reads_kinds_with_added_fields() {
    #[derive(Clone, Copy, KindEnum)]
    enum State {
        #[allow(dead_code)]
        Idle,
        Busy,
    }
    mod yesterday {
        #[derive(thalweg_space::Kind)]
        #[kind(name = "test.evolving")]
        pub(super) struct Evolving<'a> {
            pub(super) small: u8,
            pub(super) text: &'a str,
        }
    }
    /// Today.
    #[derive(Kind)]
    #[kind(name = "test.evolving")]
    struct Evolving<'a> {
        /// A field that a later version added before the others.
        #[field(unit = "ticks")]
        added: u64,
        small: u8,
        /// Added in between.
        bytes: &'a [u8],
        text: &'a str,
        state: State,
    }
    let directory = Directory::new("evolution");
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let mut writer = space.writer("w").unwrap();
    let old = writer.declare::<yesterday::Evolving<'static>>().unwrap();
    let new = writer.declare::<Evolving<'static>>().unwrap();
    writer.emit(old, &yesterday::Evolving { small: 1, text: "old" });
    writer.emit(new, &Evolving { added: 7, small: 2, bytes: b"xyz", text: "new", state: State::Busy });
    let mut seen = Vec::new();
    let reader = SpaceReader::open(space.path()).unwrap();
    reader
        .events()
        .poll(9, &mut |item| {
            let Item::Event(event) = item else { panic!("{item:?}") };
            let field = |name| event.kind.field(name);
            assert_eq!(event.kind.name, "test.evolving");
            seen.push((
                event.u64(field("small").unwrap()),
                event.str(field("text").unwrap()).into_owned(),
                field("added").map(|field| event.u64(field)),
                field("bytes").map(|field| event.bytes(field).to_vec()),
                event.choice("state").map(str::to_string),
            ));
        })
        .unwrap();
    let expected = [
        (1, "old".to_string(), None, None, None),
        (2, "new".to_string(), Some(7), Some(b"xyz".to_vec()), Some("busy".to_string())),
    ];
    assert_eq!(seen, expected);
}

/// A reader that begins in the middle returns the same events, from there on, as a reader of all events.
#[test]
fn reading_begins_at_a_time_or_a_sequence() {
    let directory = Directory::new("seek");
    for (blocks, archived) in [(64, false), (4, false), (4, true)] {
        let space = space(&directory, 512, blocks, Policy::Overwrite);
        let mut writers = [space.writer("a").unwrap(), space.writer("b").unwrap()];
        let kinds = [writers[0].declare::<Counted>().unwrap(), writers[1].declare::<Counted>().unwrap()];
        let mut archiver = archived.then(|| Archiver::open(space.path()).unwrap());
        for count in 0..1_000u64 {
            let n = (count % 3 == 0) as usize;
            writers[n].emit_at(count * 10, kinds[n], &Counted { count });
            if count % 20 == 0
                && let Some(archiver) = &mut archiver
            {
                archiver.step().unwrap();
            }
        }
        let (all, _) = read_events(space.path());
        let reader = SpaceReader::open(space.path()).unwrap();
        let read = |mut stream: thalweg_space::reader::EventStream| {
            let mut seen = Vec::new();
            stream.poll(usize::MAX, &mut |item| seen.push(support::see(&item))).unwrap();
            seen
        };
        for time in [0, 1, 4_995, 9_000, 9_990, 9_991, u64::MAX] {
            let expected: Vec<Seen> = all
                .iter()
                .filter(|item| matches!(item, Seen::Event { time: at, .. } if *at >= time))
                .cloned()
                .collect();
            assert_eq!(read(reader.events().since(time)), expected, "{blocks} blocks, from {time}");
        }
        for first in [0, 1, 250, 600, 660, 666] {
            let seen = read(reader.events().from_sequence(1, first));
            let of_writer = |seen: &[Seen]| -> Vec<Seen> {
                let of = seen.iter().filter(|item| match item {
                    Seen::Event { writer, sequence, .. } => *writer == 1 && *sequence >= first,
                    Seen::Gap { .. } => false,
                });
                of.cloned().collect()
            };
            assert_eq!(of_writer(&seen), of_writer(&all), "{blocks} blocks, from {first}");
            let before = seen
                .iter()
                .filter(|item| matches!(item, Seen::Event { writer: 1, sequence, .. } if *sequence < first));
            assert_eq!(before.count(), 0);
            // Events after the start that were overwritten count as lost.
            let events = of_writer(&seen).len() as u64;
            let lost: u64 = seen
                .iter()
                .map(|item| match item {
                    Seen::Gap { writer: 1, lost, from_sequence } => {
                        assert!(*from_sequence >= first);
                        *lost
                    }
                    _ => 0,
                })
                .sum();
            assert_eq!(events + lost, 666 - first, "{blocks} blocks, from {first}");
        }
    }
}
