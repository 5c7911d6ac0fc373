//! Group `boxes`: the cost of a call of a box beyond its function, for a box in C and one in a Rust cdylib.

use crate::cores::on_cores;
use crate::measure::{Case, Contestant, Goal};
use crate::record::{self, Course};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Instant;
use thalweg_box::Value;
use thalweg_net::label::Label;
use thalweg_net::{Boxes, Network};

/// The number of boxes in a row.
const ROW: usize = 16;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let c = || library(&C).as_deref().map_err(Clone::clone);
    let rust = || library(&RUST).as_deref().map_err(Clone::clone);
    vec![
        case("a record with an integer through a box in C", c(), Goal::OverAtMost(12.0)),
        case("a record with an integer through a box in a Rust cdylib", rust(), Goal::OverAtMost(12.0)),
    ]
}

fn case(name: &str, library: Result<&'static Path, String>, goal: Goal) -> Case<'static> {
    Case {
        group: "boxes",
        name: name.to_owned(),
        params: vec![("workers", "1".to_owned()), ("mode", "off".to_owned())],
        unit: "ns",
        ours: ours(library),
        rivals: Vec::new(),
        limit: Some(direct()),
        goal,
    }
}

fn ours(library: Result<&Path, String>) -> Contestant<'static> {
    match library.and_then(network) {
        Ok(network) => {
            let value = |_, n| Value::Int(n as i64);
            let course = Course::of(vec![Label::field("x")], value);
            Contestant::nanoseconds("thalweg", "", ROW as u64, move |records| {
                on_cores(1, || record::run(1, &network, &course, records))
            })
        }
        Err(why) => Contestant::missing("thalweg", "", why),
    }
}

fn network(library: &Path) -> Result<Network, String> {
    let mut boxes = Boxes::new();
    boxes.load_library(library).map_err(|error| error.to_string())?;
    let row = ["inc"; ROW].join(" .. ");
    let text = format!("net course {{ box inc ((x) -> (x)); }} connect {row};");
    Network::parse("course", &text, &boxes)
        .map_err(|wrong| wrong.iter().map(|diagnostic| diagnostic.render(false)).collect())
}

/// The function of the box in C, called by its address.
fn direct() -> Contestant<'static> {
    type Function = unsafe extern "C" fn(i64) -> i64;
    let loaded = library(&C).as_ref().map_err(Clone::clone).and_then(|path| {
        // SAFETY: the library was just compiled from `boxes.c`; it has no initialisers.
        unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())
    });
    let library = match loaded {
        Ok(library) => library,
        Err(why) => return Contestant::missing("direct call", "", why),
    };
    Contestant::nanoseconds("direct call", "", 1, move |calls| {
        // SAFETY: `boxes.c` defines the function with this type.
        let inc = unsafe { library.get::<Function>(b"inc_plain") }.map_err(|error| error.to_string())?;
        let begin = Instant::now();
        let mut x = 0;
        for _ in 0..calls {
            // SAFETY: `inc` has the type with which `boxes.c` defines it, and the function only computes.
            x = unsafe { black_box(*inc)(x) };
        }
        black_box(x);
        Ok(begin.elapsed())
    })
}

/// The path of a library that is built once, or the reason why it could not be built.
type Made = OnceLock<Result<PathBuf, String>>;

/// A library of boxes, and the function that builds it.
type Library = (Made, fn(&Path) -> Result<PathBuf, String>);

static C: Library = (OnceLock::new(), in_c);
static RUST: Library = (OnceLock::new(), in_rust);

fn library(made: &'static Library) -> &'static Result<PathBuf, String> {
    made.0.get_or_init(|| made.1(Path::new(env!("CARGO_MANIFEST_DIR"))))
}

fn in_c(bench: &Path) -> Result<PathBuf, String> {
    let library = made_in().join("libboxes.so");
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-O2", "-shared", "-fPIC", "-I"]).arg(bench.join("../bindings/c"));
    succeed(compile.arg(bench.join("src/boxes.c")).arg("-o").arg(&library))?;
    Ok(library)
}

fn in_rust(bench: &Path) -> Result<PathBuf, String> {
    let target = made_in().join("example");
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--quiet", "--offline", "--manifest-path"]);
    build.arg(bench.join("../bindings/box/example/Cargo.toml")).env("CARGO_TARGET_DIR", &target);
    succeed(&mut build)?;
    Ok(target.join("release/libexample_boxes.so"))
}

/// The folder for built libraries, beside this program.
fn made_in() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program.parent().unwrap_or(Path::new(".")).to_owned()
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    Err(told.lines().next().unwrap_or("it failed without a word").to_owned())
}
