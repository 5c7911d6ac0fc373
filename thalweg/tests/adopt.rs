//! `thalweg adopt` on programs in the style of S-Net's published ones (`tests/snet/`), and on obstacles.

mod program;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use program::write;
use serde_json::Value;

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snet")
}

fn adopt(folder: &Path, into: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.arg("adopt").arg(folder).arg("--into").arg(into).args(arguments).env_remove("CC");
    command.output().expect("thalweg starts")
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The programs of a folder as `--json` lists them.
fn objects(folder: &Path, into: &Path, arguments: &[&str]) -> Vec<Value> {
    let output = adopt(folder, into, &[arguments, &["--json"]].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("an object a program")).collect()
}

/// A folder that is removed with the test, with a folder in it for output.
struct Try {
    folder: tempfile::TempDir,
}

impl Try {
    /// A folder with one program that consists of these files.
    fn of(files: &[(&str, &str)]) -> Try {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("program")).expect("it takes folders");
        files.iter().for_each(|(name, text)| _ = write(&folder.path().join("program"), name, text));
        Try { folder }
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    fn made(&self) -> PathBuf {
        self.folder.path().join("into")
    }

    /// The obstacles of the only program.
    #[track_caller]
    fn check(&self, arguments: &[&str], code: i32, wanted: &str) {
        let output = adopt(&self.program(), &self.made(), arguments);
        assert_eq!(output.status.code(), Some(code), "{}", printed(&output));
        assert!(printed(&output).contains(wanted), "{}", printed(&output));
    }
}

const NET: (&str, &str) = ("p.snet", "net p { box f ((x) -> (x)); } connect f;");
const INPUT: (&str, &str) =
    ("in.xml", "<record><field label='x'>(int)5</field></record><record type='terminate' />");

fn box_f(body: &str) -> String {
    format!("#include <C4SNet.h>\nvoid *f(void *hnd, c4snet_data_t *x) {{ {body} return hnd; }}\n")
}

#[test]
fn programs_in_the_style_of_s_nets_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = adopt(&programs(), folder.path(), &[]);
    let (into, here) = (folder.path().display().to_string(), programs().display().to_string());
    let shown = printed(&output).replace(&into, "INTO").replace(&format!("{here}/"), "");
    let shown = shown.replace("./tests/snet/", "");
    let golden = programs().join("adopted.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&golden, &shown).expect("it can be written");
    }
    let wanted = std::fs::read_to_string(&golden).expect("what is expected");
    assert_eq!(shown, wanted, "UPDATE=1 writes it anew");
    assert_eq!(output.status.code(), Some(1));

    // The second call compiles nothing, and leaves out the runs whose inputs succeeded before.
    for object in objects(&programs(), folder.path(), &[]) {
        let name = object["name"].as_str().expect("a name");
        // A file that cannot be compiled is tried again.
        assert_eq!(object["compiled"], i32::from(name == "ancient"), "{name}");
        for input in object["inputs"].as_array().expect("inputs") {
            assert_eq!(input["fresh"], object["state"] == "fails", "{name}");
        }
    }
}

#[test]
fn what_changed_is_compiled_and_run_again() {
    let tried = Try::of(&[
        NET,
        ("f.c", &box_f("C4SNetOut(hnd, 1, x);")),
        INPUT,
        ("in.expected", "<record><field label='x'>(int)5</field></record>"),
    ]);
    let of = |arguments: &[&str]| objects(&tried.program(), &tried.made(), arguments).remove(0);
    let first = of(&[]);
    assert_eq!((&first["state"], &first["compiled"]), (&"runs".into(), &3.into()), "{first}");
    let again = of(&[]);
    assert_eq!((&again["compiled"], &again["inputs"][0]["fresh"]), (&0.into(), &false.into()), "{again}");
    assert_eq!(of(&["--afresh"])["inputs"][0]["fresh"], true);

    write(&tried.program(), "f.c", &box_f("C4SNetFree(x);"));
    let changed = of(&[]);
    assert_eq!((&changed["state"], &changed["compiled"]), (&"fails".into(), &1.into()), "{changed}");
    let why = changed["inputs"][0]["why"].as_str().expect("why");
    assert!(
        why.starts_with("on 1 worker, 1 record expected, 0 came; missing: <field label=\"x\">(int)5</field>"),
        "{why}"
    );

    // If the expected output or a header has changed, the program is run again.
    write(&tried.program(), "in.expected", "<record type='terminate' />");
    assert_eq!(of(&[])["state"], "runs");
    write(&tried.program(), "f.h", "#define TAKE C4SNetFree(x)\n");
    write(&tried.program(), "f.c", &(String::from("#include \"f.h\"\n") + &box_f("TAKE;")));
    assert_eq!(of(&[])["compiled"], 1);
    write(&tried.program(), "f.h", "#define TAKE C4SNetOut(hnd, 1, x)\n");
    let changed = of(&[]);
    assert_eq!((&changed["state"], &changed["compiled"]), (&"fails".into(), &1.into()), "{changed}");
}

#[test]
fn what_stands_in_the_way_is_a_sentence() {
    let check = |body: &str, files: &[(&str, &str)], arguments: &[&str], wanted: &str| {
        let text = box_f(body);
        Try::of(&[&[NET, ("f.c", text.as_str()), INPUT], files].concat()).check(arguments, 1, wanted);
    };
    check("C4SNetOut(hnd, 1, x", &[], &[], "in the way: f.c:2 cannot be compiled: expected");
    check(
        "shrink(x);",
        &[],
        &[],
        "in the way: the function shrink is not defined: name the library that has it (--link NAME)\n",
    );
    let makefile = ("Makefile", "all:\n\tcc *.c -lsnet -lshrink -lm\n");
    check("shrink(x);", &[makefile], &[], "its Makefile links shrink: --link shrink");
    check("", &[], &["--link", "no_such_library"], "there is no library libno_such_library: install it");
    check(
        "for (;;);",
        &[],
        &["--limit", "1"],
        "in.xml: it did not end within 1 s (--limit says how long it may take)",
    );
    check("*(volatile int *)8 = 1;", &[], &[], "in the way: in.xml: p/f crashed by SIGSEGV");
    check("C4SNetOut(hnd, 2, x);", &[], &[], "p/f: C4SNetOut with a variant that the box does not declare");
    let bad = ("in.expected", "<record><field label='x'>5</field></record>");
    check("C4SNetOut(hnd, 1, x);", &[bad], &[], "in.xml: its expectation cannot be read: byte");
    let twice = [
        ("a.c", "int help(void) { return other(); } int same = 1;"),
        ("b.c", "int other(void) { return 1; } int same = 2;"),
    ];
    check("help();", &twice, &[], "in the way: `same` is defined in several files: keep one of them");

    Try::of(&[NET, INPUT]).check(
        &[],
        1,
        "in the way: there is no function `f` in C for the box of that name",
    );
    let inside = ("p.snet", "net p { box f ((x) -> (x)) { <<< C | out(x); >>> } } connect f;");
    Try::of(&[inside]).check(
        &[],
        1,
        "the code of the box `f` stands in the network's text, which is not compiled",
    );
    let broken = ("p.snet", "net p { box f ((x) -> (x)); } connect g;");
    Try::of(&[broken]).check(&[], 1, "in the way: there is no net or box named `g` (p.snet:1:39)");
    let tried = Try::of(&[("f.c", &box_f(""))]);
    std::fs::write(tried.program().join("p.snet"), b"// gr\xfc\xdfe\nnet p connect [];")
        .expect("it takes files");
    tried.check(&[], 1, "p.snet`: it is not UTF-8 text (byte 5): convert it (iconv -f latin1 -t utf-8)");
    let generated = ("p.c", "void *f(void *h) { return SNetInRun(h); }");
    Try::of(&[NET, generated]).check(&[], 1, "the box `f` is only in p.c, which S-Net's compiler wrote");
}

#[test]
fn a_library_is_linked() {
    let text = "int value = triple(*(int *)C4SNetGetData(x)); C4SNetFree(x); C4SNetOut(hnd, 1, C4SNetCreate(CTYPE_int, 1, &value));";
    let expected = ("in.expected", "<record><field label='x'>(int)15</field></record>");
    let tried = Try::of(&[NET, ("f.c", &box_f(text)), INPUT, expected]);
    let (library, object) = (tried.folder.path().join("libtriple.a"), tried.folder.path().join("triple.o"));
    let source = write(tried.folder.path(), "triple.c", "int triple(int x) { return FACTOR * x; }");
    let compile = ["-fPIC", "-DFACTOR=3", "-c", &source, "-o"];
    assert!(Command::new("cc").args(compile).arg(&object).status().expect("cc").success());
    assert!(Command::new("ar").arg("rcs").arg(&library).arg(&object).status().expect("ar").success());
    tried.check(&[], 1, "the function triple is not defined");
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.arg("adopt").arg(tried.program()).arg("--into").arg(tried.made()).arg("-ltriple");
    let output =
        command.env_remove("CC").env("LIBRARY_PATH", tried.folder.path()).output().expect("it starts");
    assert!(printed(&output).contains("in.xml: 1 record out, as expected"), "{}", printed(&output));
}

#[test]
fn a_cell_that_waits_may_be_an_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let watched = programs().join("watched");
    assert_eq!(adopt(&watched, folder.path(), &[]).status.code(), Some(0));
    let output = adopt(&watched, folder.path(), &["--strict-end"]);
    assert_eq!(output.status.code(), Some(1));
    let wanted = "in the way: input.xml: watched/parallel/synchrocell: the synchrocell still waits for {b, <seen>} at the end";
    assert!(printed(&output).contains(wanted), "{}", printed(&output));
}

#[test]
fn wrong_arguments_are_reported() {
    let tried = Try::of(&[("readme.txt", "no program")]);
    tried.check(&[], 2, "there is no NAME.snet");
    let one = Try::of(&[NET, ("f.c", &box_f("C4SNetOut(hnd, 1, x);"))]);
    one.check(&["--cc", "/no/such/cc"], 2, "cannot start the C compiler /no/such/cc: install one");
    one.check(&["--limit", "0"], 2, "--limit");
    one.check(&[], 0, "builds   p  p.snet");
    let output = adopt(Path::new("/no/such/folder"), &one.made(), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(printed(&output).contains("error[E0901]: /no/such/folder is no folder that can be read"));
}
