//! Builds a library from sources of boxes: each file is compiled with the options that old C needs, and only
//! if it changed.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::obstacle;
use super::table::write;
use crate::error::Error;

/// The compiler's options for C sources written for S-Net. Such sources were written for compilers that
/// accepted implicit declarations, wrong pointer types and one variable defined in several files; with these
/// options a present compiler accepts them, too.
const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g",
    "-w",
    "-fPIC",
    "-fcommon",
    "-fgnu89-inline",
    "-Wno-implicit-int",
    "-Wno-implicit-function-declaration",
    "-Wno-int-conversion",
    "-Wno-incompatible-pointer-types",
    "-Wno-return-mismatch",
];
/// The linker's options. A call of a box that has the name of a function of the C library must call the box
/// in the library of boxes.
const LINK_FLAGS: &[&str] = &["-shared", "-Wl,-Bsymbolic", "-Wl,--no-undefined"];
/// The libraries that programs for S-Net were always linked with.
const LINK_ALWAYS: &[&str] = &["-lm", "-lpthread"];

/// The options for building a library of a program's boxes.
pub(super) struct Build<'a> {
    pub(super) compiler: &'a Path,
    /// Libraries to link.
    pub(super) link: &'a [String],
    /// Further flags for every file.
    pub(super) flags: Vec<String>,
    /// The folder for objects and the library.
    pub(super) folder: &'a Path,
    /// The folder that paths in messages are relative to.
    pub(super) root: &'a Path,
}

/// The result of a build.
#[derive(Default)]
pub(super) struct Built {
    pub(super) library: Option<PathBuf>,
    pub(super) compiled: usize,
    pub(super) unchanged: usize,
    /// Why boxes could not be built, one sentence for each reason.
    pub(super) obstacles: Vec<String>,
    /// Files that could not be compiled and that no box needs, each with the reason.
    pub(super) put_aside: Vec<(PathBuf, String)>,
}

/// A file to compile.
pub(super) struct Unit {
    pub(super) source: PathBuf,
    /// Whether a box is missing without this file.
    pub(super) is_needed: bool,
    /// Whether the file has a `main`, which is renamed when it is compiled.
    pub(super) has_main: bool,
}

impl Build<'_> {
    /// Compiles the units and links the library.
    pub(super) fn run(&self, name: &str, units: &[Unit]) -> Result<Built, Error> {
        let mut built = Built::default();
        let mut objects = Vec::new();
        for (number, unit) in units.iter().enumerate() {
            let stem = unit.source.file_stem().unwrap_or_default().to_string_lossy();
            let object = self.folder.join(format!("{number}-{stem}.o"));
            let mut command = self.command();
            command.args(FLAGS).args(&self.flags);
            if unit.has_main {
                command.arg(format!("-Dmain=thalweg_main_{number}"));
            }
            let depends = object.with_extension("d");
            command.arg("-MMD").arg("-MF").arg(&depends).arg("-c").arg(&unit.source).arg("-o").arg(&object);
            let is_made = |object: &Path| is_unchanged(object, &command, &read_depends(&depends));
            if is_made(&object) {
                built.unchanged += 1;
                objects.push(object);
                continue;
            }
            built.compiled += 1;
            match run_compiler(&mut command)? {
                None => {
                    note_made(&object, &command, &read_depends(&depends))?;
                    objects.push(object);
                }
                Some(text) if unit.is_needed => {
                    built.obstacles.push(obstacle::of_compiling(&unit.source, &text, self.root));
                }
                Some(text) => {
                    let why = obstacle::of_compiling(&unit.source, &text, self.root);
                    built.put_aside.push((unit.source.clone(), why));
                }
            }
        }
        if built.obstacles.is_empty() {
            self.link(name, &objects, &mut built)?;
        }
        Ok(built)
    }

    fn link(&self, name: &str, objects: &[PathBuf], built: &mut Built) -> Result<(), Error> {
        let library = self.folder.join(format!("lib{name}.so"));
        let mut command = self.command();
        command.args(LINK_FLAGS).args(objects);
        command.args(self.link.iter().map(|library| format!("-l{library}"))).args(LINK_ALWAYS);
        command.arg("-o").arg(&library);
        if is_unchanged(&library, &command, objects) {
            built.library = Some(library);
            return Ok(());
        }
        match run_compiler(&mut command)? {
            None => {
                note_made(&library, &command, objects)?;
                built.library = Some(library);
            }
            Some(text) => built.obstacles.extend(obstacle::of_linking(&text, &built.put_aside)),
        }
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.compiler);
        // The compiler's messages must be in English, because they are parsed for obstacles.
        command.env("LC_ALL", "C");
        command
    }
}

/// Runs a command; returns its messages if it fails.
fn run_compiler(command: &mut Command) -> Result<Option<String>, Error> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| {
        let compiler = command.get_program().to_string_lossy().into_owned();
        Error::usage(format!(
            "cannot start the C compiler {compiler}: install one (on Debian, apt-get install gcc) or name one with --cc"
        ))
        .because(error)
    })?;
    Ok((!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// The files that an object depends on, from the list in the syntax of make that the compiler wrote.
fn read_depends(list: &Path) -> Vec<PathBuf> {
    let Ok(text) = fs::read_to_string(list) else { return Vec::new() };
    let Some((_, files)) = text.split_once(": ") else { return Vec::new() };
    // In the syntax of make, a backslash stands before a space in a name, and before the end of a line that
    // continues on the next one.
    let files = files.replace("\\\n", " ").replace("\\ ", "\0");
    files.split_whitespace().map(|file| PathBuf::from(file.replace('\0', " "))).collect()
}

/// Whether the file `made` was made by `command` from `files` in their present state.
fn is_unchanged(made: &Path, command: &Command, files: &[PathBuf]) -> bool {
    let noted = fs::read_to_string(stamp(made)).unwrap_or_default();
    made.is_file() && !files.is_empty() && fingerprint(command, files).is_some_and(|now| now == noted)
}

fn note_made(made: &Path, command: &Command, files: &[PathBuf]) -> Result<(), Error> {
    write(&stamp(made), &fingerprint(command, files).unwrap_or_default())
}

fn stamp(made: &Path) -> PathBuf {
    let mut name = made.file_name().unwrap_or_default().to_owned();
    name.push(".made");
    made.with_file_name(name)
}

fn fingerprint(command: &Command, files: &[PathBuf]) -> Option<String> {
    let mut hasher = DefaultHasher::new();
    command.get_program().hash(&mut hasher);
    command.get_args().for_each(|argument| argument.hash(&mut hasher));
    hash_files(files, &mut hasher)?;
    Some(format!("{:016x}\n", hasher.finish()))
}

/// Adds the contents of files to a hash; `None` if one cannot be read.
pub(super) fn hash_files(files: &[PathBuf], hasher: &mut impl Hasher) -> Option<()> {
    for file in files {
        file.hash(hasher);
        fs::read(file).ok()?.hash(hasher);
    }
    Some(())
}
