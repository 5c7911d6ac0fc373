//! Tests of the layout: the drawing in `docs/layout.md` has the offsets of the constants, and a committed
//! space of version 1 can still be decoded.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use support::{Seen, options, read_events, skip};
use thalweg_space::archive::Archiver;
use thalweg_space::kind::FieldType;
use thalweg_space::layout::{
    self, block, catalog, element, event, identity, latest, link, live, mailbox, pool, settings, shared_map,
    switches,
};
use thalweg_space::reader::{Item, SpaceReader};
use thalweg_space::{Kind, KindEnum, NameRef, Policy, SettingSpec, Site, SiteRef, Space, SpaceOptions};

/// The numbers that the drawing shows: file or structure, field, offset.
fn offsets() -> Vec<(&'static str, &'static str, usize)> {
    vec![
        ("space", "magic", identity::MAGIC),
        ("space", "version", identity::VERSION),
        ("space", "uuid", identity::UUID),
        ("space", "pid", identity::PID),
        ("space", "process start", identity::PROCESS_START),
        ("space", "boot id", identity::BOOT),
        ("space", "clock", identity::CLOCK),
        ("space", "frequency", identity::FREQUENCY),
        ("space", "first anchor", identity::ANCHOR_FIRST),
        ("space", "second anchor", identity::ANCHOR_SECOND),
        ("space", "state", identity::STATE),
        ("space", "writers", identity::WRITERS),
        ("space", "settings", identity::SETTINGS),
        ("space", "live chunks", identity::LIVE_CHUNKS),
        ("space", "flags", identity::FLAGS),
        ("space", "name", identity::NAME),
        ("space", "host", identity::HOST),
        ("space", "command", identity::COMMAND),
        ("element", "magic", element::MAGIC),
        ("element", "version, policy", element::VERSION),
        ("element", "block bytes, block count", element::BLOCKS),
        ("element", "pid", element::PROCESS),
        ("element", "process start", element::PROCESS_START),
        ("element", "first writer", element::WRITER),
        ("element", "frequency", element::FREQUENCY),
        ("element", "head", element::HEAD),
        ("element", "drops", element::DROPS),
        ("element", "state", element::STATE),
        ("element", "sequence", element::SEQUENCE),
        ("element", "owner", element::OWNER),
        ("element", "owner's name", element::OWNER_NAME),
        ("element", "generation", element::GENERATION),
        ("element", "discarded", element::DISCARDED),
        ("element", "discarded events", element::DISCARDED_SEQUENCE),
        ("element", "read position", element::READ_POSITION),
        ("element", "reader pid", element::READER),
        ("element", "reader start", element::READER_START),
        ("element", "blocks", element::DATA),
        ("pool", "magic", pool::MAGIC),
        ("pool", "version, policy", pool::VERSION),
        ("pool", "block bytes, block count", pool::BLOCKS),
        ("pool", "slots", pool::SLOTS),
        ("pool", "used", pool::USED),
        ("pool", "lines", pool::LINES),
        ("link", "magic", link::MAGIC),
        ("link", "version", link::VERSION),
        ("link", "path", link::PATH),
        ("latest", "version", latest::VERSION),
        ("latest", "time", latest::TIME),
        ("latest", "first word", latest::FIRST),
        ("latest", "sequence", latest::SEQUENCE),
        ("latest", "arguments", latest::ARGUMENTS),
        ("block", "number + 1", block::NUMBER),
        ("block", "base time", block::BASE),
        ("block", "first sequence", block::SEQUENCE),
        ("block", "drops before", block::DROPS),
        ("block", "events", block::HEADER),
        ("catalog", "records", catalog::HEADER),
        ("settings", "changes", settings::CHANGES),
        ("settings", "keeps leases", settings::KEEPS_LEASES),
        ("settings", "cells", settings::CELLS),
        ("settings", "tools", settings::TOOLS),
        ("cell", "value", settings::VALUE),
        ("cell", "version", settings::CELL_VERSION),
        ("cell", "setter", settings::SETTER),
        ("cell", "lease version", settings::LEASE_VERSION),
        ("cell", "confirmed", settings::CONFIRMED),
        ("cell", "lease until", settings::LEASE_UNTIL),
        ("cell", "holder start", settings::HOLDER_START),
        ("cell", "lease state", settings::LEASE_STATE),
        ("mailbox", "sent", mailbox::SENT_COUNT),
        ("mailbox", "numbers", mailbox::NUMBERS),
        ("mailbox", "slots", mailbox::SLOTS),
        ("slot", "state", mailbox::STATE),
        ("slot", "number", mailbox::ID),
        ("slot", "sender", mailbox::SENDER),
        ("slot", "sender start", mailbox::SENDER_START),
        ("slot", "command bytes", mailbox::COMMAND_BYTES),
        ("slot", "command hash", mailbox::COMMAND_HASH),
        ("slot", "answer bytes", mailbox::ANSWER_BYTES),
        ("slot", "abandoned", mailbox::ABANDONED),
        ("slot", "command", mailbox::COMMAND),
        ("slot", "answer", mailbox::ANSWER),
        ("map", "keys", shared_map::KEYS),
        ("map", "slots", shared_map::SLOTS),
        ("key", "value", shared_map::VALUE),
        ("key", "slot version", shared_map::SLOT_VERSION),
        ("key", "time", shared_map::TIME),
        ("key", "writer", shared_map::WRITER),
        ("key", "type", shared_map::TYPE),
        ("key", "initial", shared_map::INITIAL),
        ("key", "text", shared_map::TEXT),
        ("key", "initial text", shared_map::INITIAL_TEXT),
        ("key", "name", shared_map::KEY),
        ("key", "doc", shared_map::DOC),
        ("switches", "words", switches::WORDS),
        ("live", "rows", live::ROWS),
        ("row", "tag", live::TAG),
        ("row", "id", live::ID),
        ("row", "cells", live::CELLS),
    ]
}

/// The lines ` OFFSET  FIELD  …` under each heading `## … (`NAME`)` of the drawing.
fn drawn(text: &str) -> BTreeMap<(String, String), usize> {
    let mut section = String::new();
    let mut drawn = BTreeMap::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.split('`').nth(1).unwrap_or("").to_string();
        }
        let mut columns = line.split("  ").map(str::trim).filter(|c| !c.is_empty());
        let offset = columns.next().and_then(|c| c.parse().ok());
        if let (Some(offset), Some(field)) = (offset, columns.next()) {
            drawn.insert((section.clone(), field.to_string()), offset);
        }
    }
    drawn
}

#[test]
fn the_drawing_is_true() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/layout.md")).unwrap();
    let expected: BTreeMap<_, _> =
        offsets().into_iter().map(|(s, f, at)| ((s.to_string(), f.to_string()), at)).collect();
    assert_eq!(drawn(&text), expected, "docs/layout.md and src/layout.rs disagree");
    for (what, value) in [
        ("version", layout::VERSION as usize),
        ("cells of a settings file", settings::CELL_COUNT),
        ("bytes of a setting's cell", settings::CELL_BYTES),
        ("slots of a mailbox", mailbox::SLOT_COUNT),
        ("bytes of a slot", mailbox::SLOT_BYTES),
        ("bytes of a command", mailbox::COMMAND_ROOM),
        ("keys of the shared map", shared_map::SLOT_COUNT),
        ("bytes of a key's slot", shared_map::SLOT_BYTES),
        ("bytes of a key's text", shared_map::TEXT_BYTES),
        ("bytes of a row", live::ROW_BYTES),
        ("cells of a row", live::CELL_COUNT),
        ("rows of the first chunk", live::CHUNK_ROWS_FIRST),
        ("rows of the largest chunk", live::CHUNK_ROWS_MAX),
        ("switches of the first chunk", switches::CHUNK_WORDS_FIRST),
        ("switches of the largest chunk", switches::CHUNK_WORDS_MAX),
        ("words of the longest event, or part of one", event::WORDS_MAX),
        ("bytes of arguments of an event, at most", event::ARGUMENT_BYTES_MAX),
        ("bytes of an element's header", element::HEADER),
        ("bytes of a line of a pool", pool::LINE_BYTES),
        ("elements of a pool, at most", pool::SLOTS_MAX),
        ("first kind of a writer's own", usize::from(event::KIND_FIRST)),
    ] {
        assert!(text.contains(&format!("| {what} | {value} |")), "docs/layout.md lacks: {what} {value}");
    }
}

/// A kind of event with one field of each type.
#[derive(Kind)]
#[kind(name = "golden.sample")]
struct Sample<'a> {
    /// A number.
    #[field(unit = "bytes")]
    small: u8,
    large: u64,
    signed: i16,
    float: f64,
    name: NameRef,
    site: SiteRef,
    colour: Colour,
    text: &'a str,
    bytes: &'a [u8],
}

#[derive(Clone, Copy, KindEnum)]
enum Colour {
    Blue,
}

/// Counts.
#[derive(Kind)]
#[kind(name = "golden.count")]
struct Count {
    count: u64,
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

/// Makes the golden space of the current version. When the version grows, run this with `--ignored`, commit
/// the result, and keep the older spaces.
#[test]
#[ignore = "writes tests/golden"]
fn make_golden() {
    let path = golden();
    let _ = std::fs::remove_dir_all(&path);
    let directory = support::Directory::new("golden");
    let options = options(directory.path(), 512, 2, Policy::Overwrite);
    let space =
        Space::create(SpaceOptions { name: "golden".into(), path: Some(path), keep: true, ..options })
            .unwrap();
    let name = space.name("a name").unwrap();
    let net =
        space.site(&Site { name: "main", kind: "net", file: "a.snet", line: 1, column: 2, parent: None });
    let inc = Site { name: "inc", kind: "box", parent: Some(net.unwrap()), ..Site::default() };
    let site = space.site(&inc).unwrap();
    let (doc, unit) = ("How much.", "messages");
    let spec =
        SettingSpec { name: "exec.quantum", doc, unit, min: 1, max: 4096, default: 64, ..SettingSpec::PLAIN };
    space.setting(spec).unwrap().set(100).unwrap();
    let row = space.live_row(support::thing(&space), 42).unwrap();
    row.cell(0).store(1000, Ordering::Relaxed);
    let mut writer = space.writer("worker 0").unwrap();
    let sample = writer.declare::<Sample<'static>>().unwrap();
    let count = writer.declare::<Count>().unwrap();
    let colour = Colour::Blue;
    let event = Sample {
        small: 1,
        large: 2,
        signed: -3,
        float: 0.5,
        name,
        site,
        colour,
        text: "tëxt",
        bytes: &[1, 2, 255],
    };
    writer.emit_at(1_000, sample, &event);
    writer.emit_same_time(count, &Count { count: 1 });
    writer.emit_at(1 << 40, count, &Count { count: 2 });
    writer.emit_interpolated((1 << 40) + 5, count, &Count { count: 3 });
    let mut archiver = Archiver::open(space.path()).unwrap();
    archiver.step().unwrap();
    for n in 4..100 {
        writer.emit_at((1 << 40) + n, count, &Count { count: n });
        if n == 30 {
            archiver.step().unwrap();
        }
    }
    // The writer and the row are not dropped, as if the process was killed.
    std::mem::forget((writer, row));
}

/// A text.
#[derive(Kind)]
#[kind(name = "golden.letter")]
struct Letter<'a> {
    number: u64,
    text: &'a str,
    bytes: &'a [u8],
}

fn golden_of_long_events() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-long")
}

/// The lengths of the text and of the bytes of each golden letter.
const LENGTHS: [(usize, usize); 9] =
    [(2000, 0), (10, 10), (700, 900), (0, 440), (3, 448), (8, 8), (300, 9), (600, 600), (10, 10)];

fn letter_text(number: usize) -> String {
    (0..LENGTHS[number].0).map(|at| char::from(b'a' + ((number + at / 8) % 26) as u8)).collect()
}

/// Makes a golden space as [`make_golden`] does, with events that are longer than a block.
#[test]
#[ignore = "writes tests/golden"]
fn make_golden_of_long_events() {
    let path = golden_of_long_events();
    let _ = std::fs::remove_dir_all(&path);
    let directory = support::Directory::new("golden");
    let options = options(directory.path(), 512, 6, Policy::Overwrite);
    let space = SpaceOptions { name: "golden".into(), path: Some(path), keep: true, ..options };
    let space = Space::create(space).unwrap();
    let mut writer = space.writer("first").unwrap();
    for (number, (_, bytes)) in LENGTHS.into_iter().enumerate() {
        if number == 6 {
            drop(writer);
            writer = space.writer("second").unwrap();
        }
        let letter = writer.declare::<Letter<'static>>().unwrap();
        let (text, bytes) = (letter_text(number), vec![number as u8; bytes]);
        let event = Letter { number: number as u64, text: &text, bytes: &bytes };
        writer.emit_at((1 << 40) + number as u64, letter, &event);
    }
    std::mem::forget(writer);
}

#[test]
fn golden_space_of_long_events_is_decoded() {
    let mut read = Vec::new();
    let mut lost = 0;
    let mut take = |item: Item<'_>| match item {
        Item::Gap { lost: more, .. } => lost += more,
        Item::Event(event) => {
            let field = |name| event.kind.field(name).unwrap();
            let number = event.u64(field("number")) as usize;
            let (text, bytes) = (event.str(field("text")), event.bytes(field("bytes")));
            assert_eq!((&*text, bytes), (&*letter_text(number), &*vec![number as u8; LENGTHS[number].1]));
            assert!(!event.is_truncated());
            assert_eq!(event.time, (1 << 40) + number as u64);
            read.push((event.writer, event.sequence, number));
        }
    };
    let reader = SpaceReader::open(golden_of_long_events()).unwrap();
    while reader.events().poll(usize::MAX, &mut take).unwrap() == 0 {}
    // The beginning of the fourth letter is overwritten.
    assert_eq!(read, [(1, 4, 4), (1, 5, 5), (2, 0, 6), (2, 1, 7), (2, 2, 8)]);
    assert_eq!(lost, 4);
}

/// Settings of a former version are read, without values for fields that it did not write.
#[test]
fn golden_settings_of_a_former_version_are_read() {
    let settings = SpaceReader::open(golden_of_settings()).unwrap().settings().unwrap();
    let values: Vec<_> = settings.iter().map(|s| (s.name.as_str(), s.value, s.default, s.max)).collect();
    assert_eq!(
        values,
        [
            ("exec.quantum", 100, 64, 4096),
            ("monitor.mode", 2, 1, 2),
            ("torn", 7, 1, 9),
            ("untouched", 1, 1, 9)
        ]
    );
    assert_eq!(settings[1].choices, ["off", "metrics", "full"]);
    for setting in settings {
        assert_eq!((setting.affects, setting.adoption, setting.undo), (None, None, None));
        assert!(setting.lease.is_none());
    }
}

#[test]
fn golden_space_of_version_1_is_decoded() {
    let reader = SpaceReader::open(golden()).unwrap();
    let info = reader.info().unwrap();
    assert_eq!((info.version, info.name.as_str(), info.command.as_str()), (1, "golden", "test --command"));
    assert!(!info.finished && info.keep && !reader.is_alive());
    let setting = &reader.settings().unwrap()[0];
    assert_eq!(
        (setting.name.as_str(), setting.value, setting.default, setting.max),
        ("exec.quantum", 100, 64, 4096)
    );
    let row = &reader.live_rows().unwrap()[0];
    // This golden space was made by a version that did not describe the kinds of rows.
    assert_eq!((&row.kind, row.code, row.id, row.generation, row.cells[4]), (&None, 2, 42, 1, 1000));
    assert_eq!(reader.name(NameRef(1)).as_deref(), Some("a name"));
    assert_eq!(reader.sites().unwrap()[1].parent, SiteRef(1));
    assert_eq!(reader.writers().unwrap()[0].name, "worker 0");
    let (seen, problem) = read_events(&golden());
    assert!(problem.is_none(), "{problem:?}");
    let event = |time, sequence, kind: &str, fields: &[&str]| Seen::Event {
        time,
        writer: 1,
        sequence,
        kind: kind.into(),
        fields: fields.iter().map(|f| f.to_string()).collect(),
    };
    let sample = ["1", "2", "-3", "0.5", "name#1", "site#2", "blue", "\"tëxt\"", "0102ff"];
    let mut expected =
        vec![event(1_000, 0, "golden.sample", &sample), event(1_000, 1, "golden.count", &["1"])];
    for count in 2..100u64 {
        let time = (1 << 40) + if count == 2 { 0 } else { count.max(5) };
        let time = if count > 3 { (1 << 40) + count } else { time };
        expected.push(event(time, count, "golden.count", &[&count.to_string()]));
    }
    let first_kept = |seen: &[Seen]| seen.iter().position(|s| matches!(s, Seen::Gap { .. }));
    let gap = first_kept(&seen).expect("the ring came around");
    let Seen::Gap { lost, from_sequence, .. } = seen[gap] else { unreachable!() };
    assert_eq!(from_sequence as usize, gap);
    assert_eq!(seen[..gap], expected[..gap]);
    assert_eq!(seen[gap + 1..], expected[gap + lost as usize..]);
}

fn golden_of_settings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-settings")
}

/// Makes a golden space as [`make_golden`] does, with settings: a setting of numbers and a setting of choices
/// that were set, a setting whose setter was killed in the middle, and a setting that was never set. The
/// committed space is from a version without `Affects` and without leases.
#[test]
#[ignore = "writes tests/golden"]
fn make_golden_of_settings() {
    use std::os::unix::fs::FileExt;
    let path = golden_of_settings();
    let _ = std::fs::remove_dir_all(&path);
    let directory = support::Directory::new("golden");
    let options = options(directory.path(), 512, 2, Policy::Overwrite);
    let space = SpaceOptions { name: "golden".into(), path: Some(path), keep: true, ..options };
    let space = Space::create(space).unwrap();
    let (doc, unit) = ("How much.", "messages");
    let spec =
        SettingSpec { name: "exec.quantum", doc, unit, min: 1, max: 4096, default: 64, ..SettingSpec::PLAIN };
    space.setting(spec).unwrap().set(100).unwrap();
    let choices = &["off", "metrics", "full"][..];
    let spec = SettingSpec { name: "monitor.mode", max: 2, default: 1, choices, ..SettingSpec::PLAIN };
    let mode = space.setting(spec).unwrap();
    mode.set(0).unwrap();
    mode.set(2).unwrap();
    let torn = SettingSpec { name: "torn", choices: &[], max: 9, ..spec };
    space.setting(torn).unwrap();
    space.setting(SettingSpec { name: "untouched", ..torn }).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(space.path().join("settings")).unwrap();
    let cell = (settings::CELLS + 2 * settings::CELL_BYTES) as u64;
    file.write_all_at(&1u64.to_le_bytes(), cell + settings::CELL_VERSION as u64).unwrap();
    file.write_all_at(&7u64.to_le_bytes(), cell + settings::VALUE as u64).unwrap();
}

/// An item in the form in which the Python decoder prints it.
fn line(seen: &Seen) -> String {
    match seen {
        Seen::Event { time, writer, sequence, kind, fields } => {
            let mut line = format!("event\t{time}\t{writer}\t{sequence}\t{kind}");
            for field in fields {
                line = line + "\t" + field;
            }
            line
        }
        Seen::Gap { writer, lost, from_sequence } => format!("gap\t{writer}\t{lost}\t{from_sequence}"),
    }
}

/// A decoder in Python that uses only the generated constants reads the same events of the golden space as
/// the reader in Rust.
#[test]
fn a_decoder_in_python_reads_the_same_events() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/python");
    for (golden, events) in [(golden(), 50), (golden_of_long_events(), 4)] {
        let mut python = std::process::Command::new("python3");
        python.arg("-B").arg(folder.join("thalweg_events.py")).arg(&golden);
        let Ok(output) = python.output() else {
            return skip("there is no python3");
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8(output.stdout).unwrap();
        let expected: Vec<String> = read_events(&golden).0.iter().map(line).collect();
        assert!(expected.len() > events && expected.iter().any(|line| line.starts_with("gap")));
        assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    }
}

/// The generated files have every constant of the drawing, under the name that the drawing gives it.
#[test]
fn the_generated_constants_are_those_of_this_build() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings");
    let [c, java, python] =
        ["c/thalweg_layout.h", "java/org/thalweg/Layout.java", "python/thalweg_layout.py"]
            .map(|path| std::fs::read_to_string(folder.join(path)).unwrap());
    for (name, value) in [
        ("VERSION", u64::from(layout::VERSION)),
        ("IDENTITY_COMMAND", identity::COMMAND as u64),
        ("IDENTITY_COMMAND_BYTES", identity::COMMAND_BYTES as u64),
        ("ELEMENT_HEAD", element::HEAD as u64),
        ("ELEMENT_READER_START", element::READER_START as u64),
        ("ELEMENT_DATA", element::DATA as u64),
        ("BLOCK_HEADER", block::HEADER as u64),
        ("BLOCK_BYTES_MAX", block::BYTES_MAX as u64),
        ("EVENT_KIND_FIRST", event::KIND_FIRST.into()),
        ("EVENT_KIND_CONTINUATION", event::KIND_CONTINUATION.into()),
        ("EVENT_FLAG_CONTINUED", event::FLAG_CONTINUED.into()),
        ("CATALOG_RECORD_BYTES_MAX", catalog::RECORD_BYTES_MAX as u64),
        ("SETTINGS_CELLS", settings::CELLS as u64),
        ("LIVE_CELLS", live::CELLS as u64),
        ("LIVE_CHUNK_ROWS_MAX", live::CHUNK_ROWS_MAX as u64),
        ("FIELD_ENUM", FieldType::Enum as u64),
    ] {
        assert!(c.contains(&format!("#define THALWEG_{name} UINT32_C({value})\n")), "C: {name}");
        assert!(java.contains(&format!(" int {name} = {value};\n")), "Java: {name}");
        assert!(python.contains(&format!("\n{name} = {value}\n")), "Python: {name}");
    }
    let magic = format!("{:#018x}", element::MAGIC_VALUE);
    assert!(c.contains(&format!("ELEMENT_MAGIC_VALUE UINT64_C({magic})")));
    assert!(java.contains(&format!("long ELEMENT_MAGIC_VALUE = {magic}L;")));
    assert!(python.contains(&format!("ELEMENT_MAGIC_VALUE = {magic}")));
}

/// The C header compiles by itself and when it is included twice.
#[test]
fn the_c_header_compiles() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c");
    let mut compiler = std::process::Command::new("cc");
    compiler.args([
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-pedantic",
        "-Werror",
        "-fsyntax-only",
        "-x",
        "c",
        "-",
        "-I",
    ]);
    compiler.arg(folder).stdin(std::process::Stdio::piped());
    let mut child = compiler.spawn().expect("Rust links with cc");
    let source =
        b"#include \"thalweg_layout.h\"\n#include \"thalweg_kinds.h\"\n#include \"thalweg_kinds.h\"\n\
        int at[THALWEG_ELEMENT_HEAD == 64 && THALWEG_KIND_EXEC_DISPATCH_AT_BASE_NUMBER == 8 ? 1 : -1];\n";
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), source).unwrap();
    assert!(child.wait().unwrap().success());
}
