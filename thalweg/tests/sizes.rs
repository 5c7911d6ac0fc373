//! The reported sizes of records in streams agree with the lengths of their values and the overheads in
//! docs/report.md, for boxes in C, C++ and Rust.

mod program;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use program::{Killed, fed, write};
use serde_json::Value as Json;

/// The overheads in docs/report.md, in bytes.
const RECORD: u64 = 16;
const LABEL: u64 = 16;
const VALUE: u64 = 48;

const BOXES_C: &str = r#"
#include "thalweg.h"

/* Of its size the library knows; the program cannot. */
static uint64_t measure(const void *value) { return 1000 + *(const int64_t *)value; }
static const thalweg_opaque_kind parcels = {"parcel", NULL, free, NULL, measure, 1};

static thalweg_status pack(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    int64_t *parcel = malloc(sizeof *parcel);
    (void)data, (void)count;
    thalweg_get_int(&arguments[0], parcel);
    thalweg_emit(out, 1, 1, (thalweg_value[]){thalweg_opaque(&parcels, parcel)});
    return THALWEG_DONE;
}

static thalweg_status unpack(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    const int64_t *parcel = thalweg_get_opaque(&arguments[0], &parcels);
    int32_t numbers[7] = {0};
    (void)data, (void)count;
    thalweg_emit(out, 1, 1, (thalweg_value[]){thalweg_array(THALWEG_I32, numbers, (size_t)(*parcel % 7))});
    return THALWEG_DONE;
}

static const thalweg_box boxes[] = {
    THALWEG_BOX("box pack ((<n>) -> (parcel))", 1, pack),
    THALWEG_BOX("box unpack ((parcel) -> (numbers))", 1, unpack),
};
THALWEG_LIBRARY(boxes)
"#;

fn bindings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings")
}

fn thalweg() -> Command {
    Command::new(env!("CARGO_BIN_EXE_thalweg"))
}

fn succeed(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn compile(compiler: &str, source: &Path, to: &Path) -> String {
    let include = format!("-I{}", bindings().join("c").display());
    let mut compile = Command::new(compiler);
    compile.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", &include]).arg(source).arg("-o").arg(to);
    succeed(&mut compile);
    to.display().to_string()
}

/// The volumes of the streams in a space's report, by `writer → reader`.
fn volumes(space: &Path) -> Vec<(String, Json, Json)> {
    let report: Json = serde_json::from_slice(&succeed(thalweg().args(["report", "--json"]).arg(space)))
        .expect("it is JSON");
    let path = |end: &Json| end.as_str().unwrap_or("?").to_owned();
    let streams = report["streams"].as_array().expect("a list").iter();
    streams
        .map(|stream| {
            let ends = format!("{} → {}", path(&stream["writer"]), path(&stream["reader"]));
            (ends, stream["volume"].clone(), stream["rate_per_s"].clone())
        })
        .collect()
}

/// Checks that a stream's volume is the volume of messages of the given sizes, all of which were measured.
fn check(volumes: &[(String, Json, Json)], ends: &str, mut sizes: Vec<u64>) {
    let (_, volume, rate) =
        volumes.iter().find(|(of, ..)| of == ends).unwrap_or_else(|| panic!("{ends}: {volumes:?}"));
    let number =
        |name: &str| volume[name].as_f64().unwrap_or_else(|| panic!("{ends} has no {name}: {volume}"));
    sizes.sort_unstable();
    let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
    assert_eq!(number("sizes_taken"), sizes.len() as f64, "{ends}");
    assert!((number("mean_bytes") / mean - 1.0).abs() < 1e-9, "{ends}: {volume}, but the mean is {mean}");
    let p99 = sizes[(sizes.len() * 99).div_ceil(100) - 1] as f64;
    let off = number("p99_bytes") / p99 - 1.0;
    assert!(off.abs() <= number("p99_error") + 1e-6, "{ends}: {volume}, but the 99th percentile is {p99}");
    assert!(number("p99_error") < 0.2, "{ends}: {volume}");
    assert_eq!(number("most_bytes"), *sizes.last().expect("there are some") as f64, "{ends}");
    let bytes_per_s = rate.as_f64().expect("messages went through") * mean;
    assert!((number("bytes_per_s") / bytes_per_s - 1.0).abs() < 1e-9, "{ends}: {volume}");
}

/// Runs a network so that the size of every message is measured. Returns the volumes in the report on its
/// space.
fn run(folder: &Path, mode: &str, network: &str, boxes: &str, input: &str) -> Vec<(String, Json, Json)> {
    let space = folder.join(format!("space-{mode}"));
    let name = network.split_whitespace().nth(1).expect("net NAME");
    let network = write(folder, &format!("{name}.snet"), network);
    let mut command = thalweg();
    command.args(["run", &network, "--boxes", boxes, "--monitor", mode, "--keep", "--space"]).arg(&space);
    command.args(["--set", "exec.clock_budget=100", "--workers", "2"]);
    let output = fed(&mut command, input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    volumes(&space)
}

#[test]
fn records_of_boxes_in_c_are_as_large_as_their_values_and_shared_ones_count_whole_in_each() {
    const RECORDS: u64 = 3000;
    const NETWORK: &str = "net parcels { box pack ((<n>) -> (parcel)); box unpack ((parcel) -> (numbers)); }
        connect pack .. [{parcel} -> {parcel}; {parcel, <copy>}] .. unpack;";
    let folder = tempfile::tempdir().unwrap();
    let source = write(folder.path(), "parcels.c", BOXES_C);
    let boxes = compile("cc", Path::new(&source), &folder.path().join("libparcels.so"));
    let length = |n: u64| if n.is_multiple_of(40) { 9000 } else { n % 100 };
    let line =
        |n: u64| format!("{{\"line\": \"{}\", \"<n>\": {n}, \"<n2>\": 1}}\n", "x".repeat(length(n) as usize));
    let input: String = (0..RECORDS).map(line).collect();
    for mode in ["metrics", "full"] {
        let volumes = run(folder.path(), mode, NETWORK, &boxes, &input);
        // Labels that a box does not take stay on the record: here these are the line and a tag.
        let text = |n: u64| LABEL + VALUE + length(n);
        let parcel = |n: u64| LABEL + VALUE + 1000 + n;
        let numbers = |n: u64| LABEL + VALUE + 4 * (n % 7);
        let of = |size: &dyn Fn(u64) -> u64| (0..RECORDS).map(size).collect::<Vec<u64>>();
        let twice = |size: &dyn Fn(u64) -> u64| {
            let copies = (0..RECORDS).flat_map(|n| [size(n), size(n) + LABEL]);
            copies.collect::<Vec<u64>>()
        };
        check(&volumes, "source → parcels/pack", of(&|n| RECORD + text(n) + 2 * LABEL));
        check(&volumes, "parcels/pack → parcels/filter", of(&|n| RECORD + text(n) + LABEL + parcel(n)));
        check(&volumes, "parcels/filter → parcels/unpack", twice(&|n| RECORD + text(n) + LABEL + parcel(n)));
        check(&volumes, "parcels/unpack → sink", twice(&|n| RECORD + text(n) + LABEL + numbers(n)));
    }
}

#[test]
fn records_of_boxes_in_cpp_are_as_large_as_the_library_reports() {
    const NETWORK: &str = "net shapes { box build ((name, sides) -> (polygon));
            box measure ((polygon) -> (name, around, area) | (name, around)); }
        connect build .. measure;";
    let folder = tempfile::tempdir().unwrap();
    let source = bindings().join("c/examples/shapes.cpp");
    let boxes = compile("c++", &source, &folder.path().join("libshapes.so"));
    let sides = |n: u64| 4 + n % 20;
    let record = |n: u64| {
        let sides = vec!["1.5"; sides(n) as usize].join(", ");
        format!("{{\"name\": \"{}\", \"sides\": [{sides}]}}\n", "n".repeat(n as usize % 30))
    };
    let input: String = (0..500).map(record).collect();
    let volumes = run(folder.path(), "metrics", NETWORK, &boxes, &input);
    // A polygon consists of a string (32 bytes in GNU's C++ ABI), a vector (24 bytes), and 8 bytes for each
    // of its sides.
    let polygon = |n: u64| 32 + 24 + n % 30 + 8 * sides(n);
    let sizes = |size: &dyn Fn(u64) -> u64| (0..500).map(size).collect::<Vec<u64>>();
    check(
        &volumes,
        "source → shapes/build",
        sizes(&|n| RECORD + 2 * (LABEL + VALUE) + n % 30 + 8 * sides(n)),
    );
    check(&volumes, "shapes/build → shapes/measure", sizes(&|n| RECORD + LABEL + VALUE + polygon(n)));
    check(&volumes, "shapes/measure → sink", sizes(&|n| RECORD + 2 * LABEL + VALUE + n % 30));
}

#[test]
fn records_of_boxes_in_rust_are_as_large_as_the_library_reports() {
    const NETWORK: &str =
        "net tickets { box issue ((<number>) -> (ticket)); box stamp ((ticket) -> (ticket));
            box redeem ((ticket) -> (<number>, <stamps>)); }
        connect issue .. stamp .. stamp .. redeem;";
    let target = Path::new(env!("CARGO_BIN_EXE_thalweg")).ancestors().nth(2).unwrap().join("example-boxes");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--offline", "--release"]).current_dir(bindings().join("box/example"));
    succeed(build.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", "-D warnings"));
    let boxes = target.join("release/libexample_boxes.so").display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let number = |n: u64| n * n * n;
    let input: String = (0..400).map(|n| format!("{{\"<number>\": {}}}\n", number(n))).collect();
    let volumes = run(folder.path(), "full", NETWORK, &boxes, &input);
    // A ticket consists of a number (8 bytes) and a vector (24 bytes); each stamp is a string (24 bytes) and
    // its text.
    let stamp = |n: u64| 24 + format!("stamp {}", number(n)).len() as u64;
    let ticket = |n: u64, stamps: u64| RECORD + LABEL + VALUE + 8 + 24 + stamps * stamp(n);
    let sizes = |size: &dyn Fn(u64) -> u64| (0..400).map(size).collect::<Vec<u64>>();
    check(&volumes, "source → tickets/issue", sizes(&|_| RECORD + LABEL));
    check(&volumes, "tickets/issue → tickets/stamp", sizes(&|n| ticket(n, 0)));
    check(&volumes, "tickets/stamp → tickets/stamp#2", sizes(&|n| ticket(n, 1)));
    check(&volumes, "tickets/stamp#2 → tickets/redeem", sizes(&|n| ticket(n, 2)));
    check(&volumes, "tickets/redeem → sink", sizes(&|_| RECORD + 2 * LABEL));
}

#[test]
fn a_live_run_shows_sizes_and_so_does_one_that_was_killed() {
    const RECORDS: u64 = 2000;
    let folder = tempfile::tempdir().unwrap();
    let network = write(folder.path(), "n.snet", "net n connect [{<n>} -> {<m=1>}];");
    for mode in ["metrics", "full"] {
        let space = folder.path().join(format!("space-{mode}"));
        let mut command = thalweg();
        command
            .args(["run", &network, "--monitor", mode, "--set", "exec.clock_budget=100", "--space"])
            .arg(&space);
        let mut run = Killed::start(&mut command, folder.path());
        let mut input = run.child.stdin.take().expect("piped");
        let mut output = BufReader::new(run.child.stdout.take().expect("piped")).lines();
        let length = |n: u64| if n.is_multiple_of(25) { 3000 } else { 10 + n % 10 };
        let mut next = 0;
        let mut passed = |count: u64| {
            // Each record is written and read back before the next, so neither pipe is ever full.
            for n in next..next + count {
                let line = format!("{{\"line\": \"{}\", \"<n>\": {n}}}\n", "x".repeat(length(n) as usize));
                input.write_all(line.as_bytes()).expect("it reads");
                output.next().expect("it writes").expect("text");
            }
            next += count;
        };
        passed(RECORDS);
        // A size is measured before the record is published, and so before its answer arrives.
        let sizes = |count: u64| (0..count).map(|n| RECORD + 2 * LABEL + VALUE + length(n)).collect();
        let measured = volumes(&space);
        check(&measured, "source → n/filter", sizes(RECORDS));
        check(&measured, "n/filter → sink", sizes(RECORDS));
        passed(500);
        let measured = volumes(&space);
        check(&measured, "n/filter → sink", sizes(RECORDS + 500));
        run.child.kill().expect("it lives");
        run.child.wait().expect("it is gone");
        let measured = volumes(&space);
        check(&measured, "source → n/filter", sizes(RECORDS + 500));
        check(&measured, "n/filter → sink", sizes(RECORDS + 500));
    }
}
