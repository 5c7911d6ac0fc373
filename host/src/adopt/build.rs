//! From sources of boxes to a library: each file is compiled as old C wants it, and only if it changed.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::obstacle;
use super::table::write;
use crate::error::Error;

/// What sources for S-Net are compiled with. They were written for compilers that took implicit declarations, wrong pointers and
/// one variable in several files; this keeps all of that allowed.
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
/// A box called as a function of the C library is the library's own all the same.
const LINK_FLAGS: &[&str] = &["-shared", "-Wl,-Bsymbolic", "-Wl,--no-undefined"];
/// What programs for S-Net were always linked with.
const LINK_ALWAYS: &[&str] = &["-lm", "-lpthread"];

/// How a program's boxes become a library.
pub(super) struct Build<'a> {
    pub(super) compiler: &'a Path,
    /// Libraries to link.
    pub(super) link: &'a [String],
    /// Further flags for every file.
    pub(super) flags: Vec<String>,
    /// Where objects and the library go.
    pub(super) folder: &'a Path,
    /// The folder that paths in messages are relative to.
    pub(super) root: &'a Path,
}

/// What came of it.
#[derive(Default)]
pub(super) struct Built {
    pub(super) library: Option<PathBuf>,
    pub(super) compiled: usize,
    pub(super) unchanged: usize,
    /// Why boxes could not be built, one sentence for each reason.
    pub(super) obstacles: Vec<String>,
    /// Files that could not be compiled, and that no box needs.
    pub(super) put_aside: Vec<(PathBuf, String)>,
}

/// A file to compile.
pub(super) struct Unit {
    pub(super) source: PathBuf,
    /// Whether a box is missing without this file.
    pub(super) is_needed: bool,
    /// The file has a `main`, which is renamed when it is compiled.
    pub(super) has_main: bool,
}

impl Build<'_> {
    /// Compiles and links.
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
            match told(&mut command)? {
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
        match told(&mut command)? {
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
        // The compiler's messages are the source of the sentences about obstacles.
        command.env("LC_ALL", "C");
        command
    }
}

/// Runs a command; if it fails, what it said.
fn told(command: &mut Command) -> Result<Option<String>, Error> {
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

/// The files that an object was compiled from: those that a compiler listed, as make reads them.
fn read_depends(list: &Path) -> Vec<PathBuf> {
    let Ok(text) = fs::read_to_string(list) else { return Vec::new() };
    let Some((_, files)) = text.split_once(": ") else { return Vec::new() };
    // Make's syntax has a backslash before a space in a name, and before the end of a line that goes on.
    let files = files.replace("\\\n", " ").replace("\\ ", "\0");
    files.split_whitespace().map(|file| PathBuf::from(file.replace('\0', " "))).collect()
}

/// Whether `made` was made by this command of these files, as they are now.
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

/// Takes the contents of files into a hash; none if one cannot be read.
pub(super) fn hash_files(files: &[PathBuf], hasher: &mut impl Hasher) -> Option<()> {
    for file in files {
        file.hash(hasher);
        fs::read(file).ok()?.hash(hasher);
    }
    Some(())
}
