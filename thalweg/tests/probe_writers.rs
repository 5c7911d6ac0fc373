//! Destinations of probes' events besides the archive: tables, and a user's own writer outside of the
//! workspace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A process that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program with probes, and a folder for its space.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        let description = "/// Somebody said something.\nkind shop.said {\n    number: i32\n    price: f64 in euro\n    yes: bool\n    text: text\n}\n";
        std::fs::write(place.path("shop.kinds"), description).unwrap();
        let kinds = place.thalweg(&["kinds", place.path("shop.kinds").to_str().unwrap(), "--language", "c"]);
        std::fs::write(place.path("shop.h"), kinds.stdout).unwrap();
        let mut compile = Command::new("gcc");
        compile
            .args(["-std=gnu11", "-O2", "-Wall", "-Werror", "-pthread", "-I"])
            .arg(root().join("bindings/c"));
        compile.arg("-I").arg(place.folder.path()).arg(root().join("thalweg/tests/data/probed/calls.c"));
        succeed(compile.arg("-o").arg(place.path("calls")));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("calls"));
        command.args(arguments).env("THALWEG_SPACES", self.path("spaces")).env_remove("THALWEG_SESSION");
        command
    }

    fn try_thalweg(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(arguments).env("THALWEG_SPACES", self.path("spaces")).output().unwrap()
    }

    fn thalweg(&self, arguments: &[&str]) -> Output {
        let output = self.try_thalweg(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// Waits for the space of the program.
    fn space(&self) -> String {
        let begun = Instant::now();
        loop {
            let mut entries = std::fs::read_dir(self.path("spaces")).into_iter().flatten();
            if let Some(Ok(entry)) = entries.next()
                && entry.path().join("space").exists()
            {
                return entry.path().display().to_string();
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "no space is made");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The example of a writer, built outside of the workspace as a user would build it.
fn writer() -> &'static Path {
    static WRITER: OnceLock<PathBuf> = OnceLock::new();
    WRITER.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("writer");
        let mut build = Command::new(env!("CARGO"));
        build
            .args(["build", "--quiet", "--offline", "--manifest-path"])
            .arg(root().join("examples/writer/Cargo.toml"));
        succeed(build.env("CARGO_TARGET_DIR", &target));
        target.join("debug/lines")
    })
}

const CALLS: u64 = 100_000;

/// The program's ring holds a tenth of its events, so the program waits for the writer, and each call becomes
/// one line.
#[test]
fn a_writer_of_ones_own_loses_nothing() {
    let (place, writer) = (Place::new(), writer());
    let mut program = place.run(&[&CALLS.to_string()]);
    program.env("THALWEG_PROBE_FULL", "wait").env("THALWEG_PROBE_BYTES", "256k");
    let mut program = Killed(program.spawn().unwrap());
    let lines = succeed(Command::new(writer).arg(place.space()));
    assert!(program.0.wait().unwrap().success());
    let mut counts: BTreeMap<(String, bool), u64> = BTreeMap::new();
    let mut last = 0;
    for line in String::from_utf8(lines.stdout).unwrap().lines() {
        let line = line.strip_prefix("calls,operation=").unwrap();
        let (operation, rest) = line.rsplit_once(" ns=").unwrap();
        let (fields, time) = rest.split_once(' ').unwrap();
        let (ns, failed) = fields.split_once(",failed=").unwrap();
        assert!(ns.parse::<u64>().is_ok(), "{line}");
        let time: u64 = time.parse().unwrap();
        assert!(time >= last, "{time} comes after {last}");
        last = time;
        *counts.entry((operation.to_owned(), failed == "true")).or_default() += 1;
    }
    let failed = CALLS.div_ceil(3);
    let wanted = [
        (("other".to_owned(), false), CALLS),
        ((r#"work\,\ of\ "two"\ words"#.to_owned(), false), CALLS - failed),
        ((r#"work\,\ of\ "two"\ words"#.to_owned(), true), failed),
    ];
    assert_eq!(counts, BTreeMap::from(wanted));
}

/// When the writer is killed, a program that waited for it goes on, and ends.
#[test]
fn a_program_whose_own_writer_is_killed_goes_on() {
    let (place, writer) = (Place::new(), writer());
    let mut program = place.run(&[&(10 * CALLS).to_string()]);
    program.env("THALWEG_PROBE_FULL", "wait").env("THALWEG_PROBE_BYTES", "256k");
    let mut program = Killed(program.spawn().unwrap());
    let mut writer = Command::new(writer);
    // The writer's output is not read, so the writer blocks when the pipe is full, and the program waits for
    // the writer.
    let mut writer = Killed(writer.arg(place.space()).stdout(Stdio::piped()).spawn().unwrap());
    let element = PathBuf::from(place.space()).join("0001.element");
    let begun = Instant::now();
    let consumed = |element: &Path| {
        let bytes = std::fs::read(element).unwrap_or_default();
        bytes.get(READER_AT..READER_AT + 4).map(|word| u32::from_le_bytes(word.try_into().unwrap()))
    };
    while consumed(&element) != Some(writer.0.id()) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the writer does not say that it consumes");
        std::thread::sleep(Duration::from_millis(1));
    }
    writer.0.kill().unwrap();
    writer.0.wait().unwrap();
    assert!(program.0.wait().unwrap().success());
    let calls = place.thalweg(&["calls", &place.space(), "--json"]).stdout;
    let calls: serde_json::Value = serde_json::from_slice(&calls).unwrap();
    let counted = calls["calls"].as_u64().unwrap() + calls["lost"].as_u64().unwrap();
    assert_eq!(counted, 20 * CALLS, "{} lost", calls["lost"]);
}

/// The offset of the consuming process in the header of an element.
const READER_AT: usize = thalweg_space::layout::element::READER;

/// The rows of a table, read by the module `csv` of Python.
fn rows(csv: &[u8], place: &Place) -> Vec<Vec<String>> {
    std::fs::write(place.path("table.csv"), csv).unwrap();
    let script = "import csv, json, sys\nprint(json.dumps(list(csv.reader(open(sys.argv[1], newline='')))))";
    let output = succeed(Command::new("python3").arg("-c").arg(script).arg(place.path("table.csv")));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Another program's reader of such tables gets the values that were written, whatever characters are in
/// them.
#[test]
fn events_as_a_table() {
    let place = Place::new();
    let text = "a,b \"c\"\nnext, größe 価格";
    succeed(&mut place.run(&["4", text]));
    let space = place.space();
    let table = rows(&place.thalweg(&["events", &space, "--kind", "probe.called", "--csv"]).stdout, &place);
    let columns =
        ["time_s", "writer", "sequence", "operation", "operation_name", "depth", "outcome", "duration_ns"];
    assert_eq!(table[0], columns);
    let calls: Vec<(&str, &str, &str)> =
        table[1..].iter().map(|row| (row[4].as_str(), row[5].as_str(), row[6].as_str())).collect();
    let work = "work, of \"two\" words";
    let wanted = (0..4).flat_map(|n| {
        [("other", "1", "returned"), (work, "0", if n % 3 == 0 { "failed" } else { "returned" })]
    });
    assert_eq!(calls, wanted.collect::<Vec<_>>());
    for row in &table[1..] {
        assert!(row[0].parse::<f64>().is_ok() && row[7].parse::<u64>().is_ok(), "{row:?}");
    }
    let limited =
        place.thalweg(&["events", &space, "--kind", "probe.called", "--csv", "--limit", "2"]).stdout;
    assert_eq!(rows(&limited, &place).len(), 3, "the columns' names are no event");
    let own = rows(&place.thalweg(&["events", &space, "--kind", "shop.*", "--csv"]).stdout, &place);
    assert_eq!(own.len(), 2);
    assert_eq!(own[0][3..], ["number", "price", "yes", "text"]);
    assert_eq!(own[1][3..], ["-7", "2.5", "true", text]);
    let both = place.try_thalweg(&["events", &space, "--csv"]);
    let stderr = String::from_utf8_lossy(&both.stderr).into_owned();
    assert_eq!(both.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("`probe.called`") && stderr.contains("--kind shop.said"), "{stderr}");
    let named =
        String::from_utf8(place.thalweg(&["events", &space, "--kind", "probe.called"]).stdout).unwrap();
    assert_eq!(named.matches("(other)").count(), 4, "{named}");
}

/// Recordings with and without columns and compression have the same events.
#[test]
fn an_archive_of_events_as_they_are_has_the_same_events() {
    let place = Place::new();
    succeed(&mut place.run(&["2000", "end"]));
    let space = place.space();
    let wanted = place.thalweg(&["events", &space, "--json"]).stdout;
    let mut bytes = Vec::new();
    for level in ["0", "1"] {
        let kept = place.path(&format!("kept-{level}")).display().to_string();
        place.thalweg(&["record", &space, "--level", level, "--output", &kept]);
        assert!(place.thalweg(&["events", &kept, "--json"]).stdout == wanted, "level {level}");
        bytes.push(std::fs::metadata(Path::new(&kept).join("000001.segment")).unwrap().len());
    }
    assert!(bytes[0] > 3 * bytes[1], "{bytes:?}");
}
