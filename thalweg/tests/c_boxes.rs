//! Boxes in C and C++, and boxes written for S-Net: compiled with every warning an error, run with the
//! sanitizers.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn bindings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings")
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{stderr}", output.status);
    output
}

/// The path of a shared library whose place only the compiler knows.
fn runtime(name: &str) -> Option<String> {
    let output = Command::new("c++").arg(format!("-print-file-name={name}")).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Path::new(&path).is_absolute().then_some(path)
}

/// Compiles a library with the address and undefined-behaviour sanitizers, all warnings being errors.
fn library(compiler: &str, standard: &str, sources: &[PathBuf], include: &Path, to: &Path) -> PathBuf {
    let library = to.join(format!("lib{}.so", sources[0].file_stem().unwrap().to_string_lossy()));
    let mut compile = Command::new(compiler);
    compile.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-O1", "-shared", "-fPIC"]);
    compile.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-I"]).arg(include);
    succeed(compile.args(sources).arg("-lm").arg("-o").arg(&library));
    library
}

/// The command `thalweg`, prepared to load libraries with sanitizers; a memory leak makes it fail with exit
/// code 99.
fn sanitized() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let preload: Vec<String> =
        ["libasan.so", "libubsan.so", "libstdc++.so"].iter().filter_map(|name| runtime(name)).collect();
    assert_eq!(preload.len(), 3, "the sanitizers of GCC; on Debian `apt-get install gcc g++` brings them");
    command.env("LD_PRELOAD", preload.join(":"));
    command.env("ASAN_OPTIONS", "verify_asan_link_order=0:exitcode=99:detect_leaks=1");
    command
}

/// Runs a network on the given lines; the result is the exit code, the lines of standard output in sorted
/// order, and standard error.
fn run(network: &Path, library: &Path, lines: &str, workers: &str) -> (Option<i32>, Vec<String>, String) {
    let mut command = sanitized();
    command.arg("run").arg(network).arg("--boxes").arg(library).args(["--workers", workers]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    child.stdin.take().unwrap().write_all(lines.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    (output.status.code(), lines, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn boxes_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let examples = bindings().join("c/examples");
    let library =
        library("cc", "-std=c11", &[examples.join("words.c")], &bindings().join("c"), folder.path());
    let input = "{\"text\": \"to be\", \"<id>\": 7}\n{\"samples\": [1, 2.5]}\n{\"samples\": [1, 2]}\n\
                 {\"<last>\": 3}\n{\"text\": 5, \"<id>\": 8}\n";
    for workers in ["1", "2"] {
        let (code, lines, stderr) = run(&examples.join("words.snet"), &library, input, workers);
        assert_eq!(code, Some(1), "{stderr}");
        let wanted = [
            "{\"<count>\": 2, \"<id>\": 7}",
            "{\"<n>\": 1}",
            "{\"<n>\": 2}",
            "{\"<n>\": 3}",
            "{\"mean\": 1.75}",
            "{\"word\": \"be\", \"<id>\": 7}",
            "{\"word\": \"to\", \"<id>\": 7}",
        ];
        assert_eq!(lines, wanted, "{stderr}");
        // A record that fails is reported with its original values.
        assert!(stderr.contains("text: expected a text (message 1 of stream"), "{stderr}");
        assert!(stderr.contains("{text=5, <id>=8}"), "{stderr}");
        assert!(stderr.contains("{samples=I64[1, 2]}"), "{stderr}");
    }
}

#[test]
fn boxes_in_cpp_and_their_exceptions() {
    let folder = tempfile::tempdir().unwrap();
    let examples = bindings().join("c/examples");
    let library =
        library("c++", "-std=c++17", &[examples.join("shapes.cpp")], &bindings().join("c"), folder.path());
    let input = "{\"name\": \"unit\", \"sides\": [3.0, 4.0, 5.0]}\n{\"name\": \"line\", \"sides\": [1.0]}\n\
                 {\"name\": \"square\", \"sides\": [1.0, 1, 1, 1]}\n{\"name\": \"open\", \"sides\": [1.0, 1, 9]}\n";
    let (code, lines, stderr) = run(&examples.join("shapes.snet"), &library, input, "2");
    assert_eq!(code, Some(1), "{stderr}");
    let wanted =
        ["{\"area\": 6.0, \"around\": 12.0, \"name\": \"unit\"}", "{\"around\": 4.0, \"name\": \"square\"}"];
    assert_eq!(lines.len(), 2, "{lines:?}\n{stderr}");
    for (line, wanted) in lines.iter().zip(wanted) {
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(line), parse(wanted));
    }
    assert!(stderr.contains("line: a polygon has three sides at least"), "{stderr}");
    assert!(stderr.contains("open: its sides do not meet"), "{stderr}");
}

#[test]
fn parameters_and_events_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let examples = bindings().join("c/examples");
    let library =
        library("cc", "-std=c11", &[examples.join("levels.c")], &bindings().join("c"), folder.path());
    let input = "{\"sample\": 40000}\n{\"sample\": -5}\n{\"sample\": \"no number\"}\n";
    let (code, lines, stderr) = run(&examples.join("levels.snet"), &library, input, "1");
    assert_eq!(code, Some(1), "{stderr}");
    assert_eq!(lines, ["{\"sample\": -5}", "{\"sample\": 32767}"], "{stderr}");
}

#[test]
fn what_a_box_prints_is_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("chatty.c");
    let text = "#include <stdio.h>\n#include \"thalweg.h\"\n\
        __attribute__((constructor)) static void loaded(void) { puts(\"loaded\"); }\n\
        static thalweg_status chat(const void *d, thalweg_value *a, uint32_t n, thalweg_out *out) {\n\
        (void)d, (void)n; printf(\"{\\\"x\\\": \\\"no record\\\"}\\n\"); \n\
        thalweg_value x = thalweg_take(&a[0]); thalweg_emit(out, 1, 1, &x); return THALWEG_DONE; }\n\
        static const thalweg_box boxes[] = {THALWEG_BOX(\"box chat ((x) -> (x))\", 1, chat)};\n\
        THALWEG_LIBRARY(boxes)\n";
    std::fs::write(&source, text).unwrap();
    let network = folder.path().join("chatty.snet");
    std::fs::write(&network, "net chatty { box chat ((x) -> (x)); } connect chat;").unwrap();
    let library = folder.path().join("libchatty.so");
    let mut compile = Command::new("cc");
    compile.args(["-std=gnu11", "-Wall", "-Werror", "-shared", "-fPIC", "-I"]).arg(bindings().join("c"));
    succeed(compile.arg(&source).arg("-o").arg(&library));
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.arg("run").arg(&network).arg("--boxes").arg(&library).args(more);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        child.stdin.take().unwrap().write_all(b"{\"x\": 1}\n{\"x\": 2}\n").expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let (out, stderr) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success(), "{stderr}");
        (out, stderr)
    };
    let printed = "{\"x\": \"no record\"}\n";
    let (out, stderr) = run(&[]);
    assert_eq!(out, "{\"x\": 1}\n{\"x\": 2}\n", "{stderr}");
    assert_eq!((stderr.matches(printed).count(), stderr.matches("loaded\n").count()), (2, 1), "{stderr}");
    // With `--output` the records go to a file, so standard output has only what the box prints.
    let file = folder.path().join("records.jsonl");
    let (out, stderr) = run(&["--output", file.to_str().unwrap()]);
    assert_eq!(out, format!("loaded\n{}", printed.repeat(2)), "{stderr}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "{\"x\": 1}\n{\"x\": 2}\n");
}

#[test]
fn a_leak_in_a_box_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("leaky.c");
    let text = "#include \"thalweg.h\"\n\
        static thalweg_status leak(const void *d, thalweg_value *a, uint32_t n, thalweg_out *out) {\n\
        (void)d, (void)n; thalweg_take(&a[0]); thalweg_emit(out, 1, 0, NULL); return THALWEG_DONE; }\n\
        static const thalweg_box boxes[] = {THALWEG_BOX(\"box leak ((x) -> ())\", 1, leak)};\n\
        THALWEG_LIBRARY(boxes)\n";
    std::fs::write(&source, text).unwrap();
    let network = folder.path().join("leaky.snet");
    std::fs::write(&network, "net leaky { box leak ((x) -> ()); } connect leak;").unwrap();
    let library = library("cc", "-std=c11", &[source], &bindings().join("c"), folder.path());
    let (code, _, stderr) = run(&network, &library, "{\"x\": \"a text that nobody frees\"}\n", "1");
    assert_eq!(code, Some(99), "the test of leaks tests nothing: {stderr}");
}

/// The records of a file in S-Net's XML, each as its members in order.
fn records(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read(path).unwrap();
    let all = thalweg_net::xml::Records::new(&text[..]).map(|record| {
        let record = record.unwrap();
        let mut lines = Vec::new();
        thalweg_net::xml::write_record(&record, &mut lines).unwrap();
        let mut members: Vec<String> = String::from_utf8_lossy(&lines).lines().map(str::to_owned).collect();
        members.sort();
        members
    });
    let mut all: Vec<_> = all.collect();
    all.sort();
    all
}

#[test]
fn programs_written_for_s_net() {
    let examples = bindings().join("c4snet/examples");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snet");
    let matching = ["--set", "net.feedback_entry=matching"].as_slice();
    for (examples, program, input, expected, settings) in [
        (&examples, "factorial", "small.xml", "small.expected", &[][..]),
        (&examples, "letters", "words.xml", "words.expected", &[][..]),
        (&tests, "rounds", "data/rounds.xml", "data/expected/rounds.xml", matching),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let example = examples.join(program);
        let network = example.join(format!("{program}.snet"));
        let thalweg = || Command::new(env!("CARGO_BIN_EXE_thalweg"));
        succeed(thalweg().arg("wrap").arg(&network).arg("--into").arg(folder.path()));
        let mut sources =
            vec![folder.path().join(format!("{program}_boxes.c")), folder.path().join("c4snet.c")];
        for entry in std::fs::read_dir(&example).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "c") {
                sources.push(path);
            }
        }
        let library = library("cc", "-std=c11", &sources, folder.path(), folder.path());
        let result = folder.path().join("result.xml");
        for workers in ["1", "2"] {
            let mut command = sanitized();
            command.arg("run").arg(&network).arg("--boxes").arg(&library).args(["--workers", workers]);
            command.args(settings).arg("--input").arg(example.join(input));
            succeed(command.arg("--output").arg(&result));
            assert_eq!(records(&result), records(&example.join(expected)), "{program}");
        }
    }
}

#[test]
fn a_library_is_inspected() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libwords.so");
    let source = bindings().join("c/examples/words.c");
    succeed(
        Command::new("cc")
            .args(["-std=c11", "-shared", "-fPIC", "-I"])
            .arg(bindings().join("c"))
            .arg(source)
            .arg("-o")
            .arg(&library),
    );
    let inspect = |path: &Path, json: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.arg("inspect").args(json.then_some("--json")).arg(path).output().unwrap()
    };
    let printed = String::from_utf8(inspect(&library, false).stdout).unwrap();
    assert!(printed.contains("box interface 7, 3 boxes\n  box count_to ((<last>) -> (<n>))\n"), "{printed}");
    let printed = String::from_utf8(inspect(&library, true).stdout).unwrap();
    let first: serde_json::Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
    assert_eq!(first["signature"], "(<last>) -> (<n>)");
    assert_eq!(first["blocking"], false);

    let levels = folder.path().join("liblevels.so");
    succeed(
        Command::new("cc")
            .args(["-std=c11", "-shared", "-fPIC", "-I"])
            .arg(bindings().join("c"))
            .arg(bindings().join("c/examples/levels.c"))
            .arg("-o")
            .arg(&levels),
    );
    let printed = String::from_utf8(inspect(&levels, false).stdout).unwrap();
    for line in [
        "  box scale ((sample) -> (sample))",
        "  parameter box.levels.gain = 100 percent, 0 to 400: How loud samples become",
        "  event box.levels.clipped (sample, over): A sample became too loud",
    ] {
        assert!(printed.lines().any(|one| one == line), "{printed}");
    }
    let printed = String::from_utf8(inspect(&levels, true).stdout).unwrap();
    assert!(printed.contains("\"parameter\":\"box.levels.peak\""), "{printed}");

    let none = folder.path().join("libnone.so");
    std::fs::write(folder.path().join("none.c"), "int nothing;\n").unwrap();
    succeed(
        Command::new("cc").arg("-shared").arg("-fPIC").arg(folder.path().join("none.c")).arg("-o").arg(&none),
    );
    let compiled = |name: &str, text: String| {
        let (source, library) =
            (folder.path().join(format!("{name}.c")), folder.path().join(format!("{name}.so")));
        std::fs::write(&source, text).unwrap();
        let mut command = Command::new("cc");
        command
            .args(["-shared", "-fPIC", "-I"])
            .arg(bindings().join("c"))
            .arg(source)
            .arg("-o")
            .arg(&library);
        succeed(&mut command);
        library
    };
    let table = |version: u32| {
        format!(
            "#include \"thalweg.h\"\nconst thalweg_library *thalweg_boxes(void) {{\n\
             static const thalweg_library none = {{.magic = THALWEG_MAGIC, .abi_version = {version}}};\n\
             return &none; }}\n"
        )
    };
    let (empty, old) = (compiled("empty", table(7)), compiled("old", table(6)));
    let text = folder.path().join("libtext.so");
    std::fs::write(&text, "no library").unwrap();
    for (path, why) in [
        (none.as_path(), "it exports no `thalweg_boxes`"),
        (text.as_path(), "it does not begin as an ELF file does"),
        (Path::new("/dev/zero"), "it is no regular file"),
        (empty.as_path(), "it has no boxes"),
        (old.as_path(), "it was built for an older box interface (6; this program has 7)"),
        (Path::new("libwords.so"), "cannot find the box library libwords.so"),
        (Path::new("/no/such.so"), "No such file"),
        (folder.path(), "it is a directory"),
    ] {
        let output = inspect(path, false);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(
            printed.starts_with("error[E0904]: ") && printed.contains(why) && printed.lines().count() == 1,
            "{printed}"
        );
    }
}
