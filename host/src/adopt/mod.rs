//! Programs written for S-Net: finds them in a folder, compiles their boxes, tries them on their inputs, and
//! reports each obstacle in one sentence.
//!
//! ```text
//! folder ──► networks ──► sources of their boxes ──► a library ──► runs on the inputs ──► Program
//!            what no other   generators and compiler     old C's      beside what is
//!            network uses    output left out             flags        expected
//! ```
//! A program is a network (`NAME.snet`) that no other network of its folder uses. A program's boxes are the C
//! functions with the boxes' names in the files nearest to the network; files that these files use belong to
//! the program, too. A program's inputs are the files of records in and below its folder. The results of an
//! earlier call are used again if nothing has changed on which they depend.

mod build;
mod c_source;
mod folder;
mod obstacle;
mod table;
mod trial;

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg_net::check::{Analysis, Files, Node, NodeKind, Resolved, analyse};

use self::build::{Build, Unit};
use self::folder::Folder;
use self::obstacle::shown;
use self::trial::Tried;
use crate::amount::counted;
use crate::error::Error;

pub use self::table::write_table;
pub use self::trial::{Outcome, Trial};

/// The most errors of a network's text that are reported.
const ERRORS_MAX: usize = 3;

/// The folders to adopt, and the options.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// Folders with programs.
    pub folders: Vec<PathBuf>,
    /// The folder into which libraries, objects and results are written.
    pub into: PathBuf,
    /// The C compiler.
    pub compiler: PathBuf,
    /// The names of libraries with which boxes are linked: `jpeg` for `-ljpeg`.
    pub link: Vec<String>,
    /// Further flags for every file in C.
    pub flags: Vec<String>,
    /// The program that runs networks: `thalweg` itself.
    pub thalweg: PathBuf,
    /// Whether a record that a synchrocell still holds at the end is an error.
    pub strict_end: bool,
    /// How long a run may take.
    pub limit: Duration,
    /// Whether inputs are tried again although nothing has changed.
    pub afresh: bool,
}

/// The result of adopting a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The program runs on all its inputs, and gives the expected records where expectations exist.
    Runs,
    /// The program's boxes are compiled; it has no input.
    Builds,
    /// The run on some input fails, or gives other records than expected.
    Fails,
    /// The program cannot be run at all.
    Blocked,
}

/// A program and the result of adopting it.
#[derive(Clone, Debug)]
pub struct Program {
    /// The network's name.
    pub name: String,
    /// The file with the network.
    pub network: PathBuf,
    /// The folder that paths in sentences are relative to.
    pub root: PathBuf,
    /// The library of the program's boxes, if the program has boxes and they could be compiled.
    pub library: Option<PathBuf>,
    /// How many files were compiled now, and how many had not changed.
    pub compiled: usize,
    /// See `compiled`.
    pub unchanged: usize,
    /// Why the program cannot run, one sentence for each reason.
    pub obstacles: Vec<String>,
    /// The differences from S-Net that do not keep the program from running, one sentence for each.
    pub notes: Vec<String>,
    /// C files in and below the program's folder that do not belong to its boxes, each with the reason.
    pub left_out: Vec<(PathBuf, String)>,
    /// The inputs that the program was run with, each with the result.
    pub trials: Vec<Trial>,
    /// The arguments of `thalweg run` with which the program runs as in S-Net.
    pub arguments: Vec<String>,
}

impl Program {
    /// The result for the program.
    pub fn state(&self) -> State {
        let is_good = |trial: &Trial| matches!(trial.outcome, Outcome::Agrees | Outcome::Ran);
        match self.trials.as_slice() {
            _ if !self.obstacles.is_empty() => State::Blocked,
            [] => State::Builds,
            trials if trials.iter().all(is_good) => State::Runs,
            _ => State::Fails,
        }
    }
}

impl Adoption {
    /// Adopts every program of the folders; each is passed to `found` as soon as it has been tried. Returns
    /// their number.
    ///
    /// # Errors
    /// If a folder cannot be read or has no program, the output folder cannot be written, or there is no C
    /// compiler. What keeps a single program from running is no error of this call, but listed in
    /// [`Program::obstacles`].
    pub fn run(&self, mut found: impl FnMut(Program) -> Result<(), Error>) -> Result<usize, Error> {
        let absolute = |path: &Path| {
            std::path::absolute(path)
                .map_err(|error| Error::usage(format!("{} is no path", path.display())).because(error))
        };
        let into = absolute(&self.into)?;
        let mut count = 0;
        for root in &self.folders {
            let root = absolute(root)?;
            if !root.is_dir() {
                return Err(Error::coded(
                    "E0901",
                    format!("{} is no folder that can be read", root.display()),
                ));
            }
            let folder = Folder::read(&root, &into)?;
            let several = self.folders.len() > 1;
            let prefix = root.file_name().filter(|_| several).map_or(into.clone(), |name| into.join(name));
            let candidates = Candidates { adoption: self, root: &root, folder: &folder, into: prefix };
            let networks = candidates.networks();
            count += networks.len();
            for (at, (network, analysis)) in networks.iter().enumerate() {
                let others: Vec<&Path> = networks
                    .iter()
                    .enumerate()
                    .filter(|(other, _)| *other != at)
                    .map(|(_, (path, _))| *path)
                    .collect();
                found(candidates.program(network, analysis, &others)?)?;
            }
        }
        if count == 0 {
            let folders: Vec<String> =
                self.folders.iter().map(|folder| folder.display().to_string()).collect();
            return Err(Error::usage(format!("no program in {}: there is no NAME.snet", folders.join(", "))));
        }
        Ok(count)
    }
}

/// A folder whose programs are adopted.
struct Candidates<'a> {
    adoption: &'a Adoption,
    root: &'a Path,
    folder: &'a Folder,
    into: PathBuf,
}

impl Candidates<'_> {
    /// The networks that no other network uses.
    fn networks(&self) -> Vec<(&Path, Analysis)> {
        let all: Vec<(&Path, Analysis)> = self
            .folder
            .networks
            .iter()
            .map(|path| (path.as_path(), analyse(path, &Files::default(), None)))
            .collect();
        let used: HashSet<PathBuf> = all
            .iter()
            .flat_map(|(path, analysis)| {
                let sources = analysis.index.sources.iter().map(|source| source.path().to_owned());
                sources.filter(move |source| source != path)
            })
            .collect();
        let uses_each_other = all.iter().all(|(path, _)| used.contains(*path));
        all.into_iter().filter(|(path, _)| uses_each_other || !used.contains(*path)).collect()
    }

    fn program(&self, network: &Path, analysis: &Analysis, others: &[&Path]) -> Result<Program, Error> {
        let name = network.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let home = network.parent().unwrap_or(self.root);
        let mut program = Program {
            name: name.clone(),
            network: network.to_owned(),
            root: self.root.to_owned(),
            library: None,
            compiled: 0,
            unchanged: 0,
            obstacles: Vec::new(),
            notes: Vec::new(),
            left_out: Vec::new(),
            trials: Vec::new(),
            arguments: Vec::new(),
        };
        let metadata: String =
            analysis.index.sources.iter().map(|source| metadata_of(source.text())).collect();
        program.notes.extend(note_of_observers(&metadata));
        let Some(resolved) = &analysis.resolved else {
            let errors = analysis.diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
            let messages = errors.filter_map(|diagnostic| obstacle::of_running(&diagnostic.render(false)));
            let mut messages: Vec<String> = messages.map(|message| self.shortened(&message)).collect();
            let foreign = messages.iter_mut().filter(|message| message.contains("it is not UTF-8 text"));
            foreign.for_each(|message| message.push_str(": convert it (iconv -f latin1 -t utf-8)"));
            program.obstacles = messages.iter().take(ERRORS_MAX).cloned().collect();
            let more = messages.len().saturating_sub(ERRORS_MAX) as u64;
            if more > 0 {
                let shown = shown(network, self.root);
                let more = counted(more, "further error");
                program.obstacles.push(format!("there are {more}, which `thalweg check {shown}` lists"));
            }
            return Ok(program);
        };
        self.note_meaning(resolved, &mut program);
        let apart = |folder: &Path| others.iter().any(|other| is_apart(other, folder, home));
        let choice = self.choose(resolved, home, &metadata, &apart);
        program.obstacles = choice.obstacles;
        program.left_out = choice.left_out;
        program.notes.extend(choice.notes);
        let relative = home.strip_prefix(self.root).unwrap_or(Path::new(""));
        let mut output = self.into.join(relative);
        if relative.file_name().is_none_or(|last| last.to_string_lossy() != name) {
            output.push(&name);
        }
        if program.obstacles.is_empty() && !choice.units.is_empty() {
            self.build(&name, resolved, home, &output, choice.units, &mut program)?;
        }
        if program.obstacles.is_empty() {
            self.try_inputs(resolved, home, &output, &apart, others, &mut program)?;
        }
        Ok(program)
    }

    /// The sentence, with paths shortened to be relative to the root.
    fn shortened(&self, sentence: &str) -> String {
        sentence.replace(&format!("{}/", self.root.display()), "")
    }

    /// Notes the settings with which the network behaves as in S-Net.
    fn note_meaning(&self, resolved: &Resolved, program: &mut Program) {
        let mut settings = Vec::new();
        let has_feedback =
            resolved.nets.iter().any(|net| has(&net.body, &|kind| matches!(kind, NodeKind::Feedback { .. })));
        if has_feedback {
            settings.push("net.feedback_entry=matching");
            program.notes.push(
                "records that match no pattern of a feedback pass it by, as in S-Net (net.feedback_entry=matching)".to_owned(),
            );
        }
        if begins_with_initialiser(resolved, &resolved.net(resolved.main).body) {
            settings.push("net.initialisers=records");
            program.notes.push(
                "a box without input that the network begins with runs once for each record, as in S-Net \
                 (net.initialisers=records)"
                    .to_owned(),
            );
        }
        program.arguments =
            settings.iter().flat_map(|setting| ["--set".to_owned(), (*setting).to_owned()]).collect();
        if self.adoption.strict_end {
            program.arguments.push("--strict-end".to_owned());
        }
    }

    /// Chooses the sources of the boxes: the files with functions of the boxes' names, then the files that
    /// these use.
    fn choose(
        &self,
        resolved: &Resolved,
        home: &Path,
        metadata: &str,
        apart: &dyn Fn(&Path) -> bool,
    ) -> Choice {
        let mut choice = Choice::default();
        let sources = &self.folder.sources;
        let mut chosen: BTreeSet<&Path> = BTreeSet::new();
        let mut names: HashSet<&str> = HashSet::from(["main"]);
        for declared in resolved.boxes.iter().filter(|declared| declared.command().is_none()) {
            let name: &str = &declared.name;
            names.insert(name);
            let of_name = sources
                .iter()
                .filter(|(_, source)| source.defined.contains(name) && !source.is_compiler_output());
            let nearest = of_name.min_by_key(|(path, _)| {
                (distance(home, path), path.file_stem().is_none_or(|stem| stem != name), *path)
            });
            match nearest {
                Some((path, _)) => _ = chosen.insert(path),
                None => {
                    choice.obstacles.push(self.of_missing_box(name, !declared.codes.is_empty(), metadata))
                }
            }
        }
        let needed = chosen.clone();
        let homes: BTreeSet<&Path> = chosen.iter().filter_map(|path| path.parent()).chain([home]).collect();
        let in_reach = |path: &Path| homes.iter().any(|home| path.starts_with(home)) && !apart(path);
        let mut waiting: Vec<&Path> = chosen.iter().copied().collect();
        while let Some(path) = waiting.pop() {
            let user = &sources[path];
            let mut used: Vec<&str> = user.named.iter().map(String::as_str).collect();
            used.retain(|name| !user.defined.contains(*name) && !names.contains(name));
            used.sort_unstable();
            for name in used {
                let fits = |(path, source): &(&PathBuf, &c_source::CSource)| {
                    let is_used = !source.has_main() || user.called.contains(name);
                    source.defined.contains(name) && is_used && !source.is_compiler_output() && in_reach(path)
                };
                if let Some((path, _)) =
                    sources.iter().filter(fits).min_by_key(|(path, _)| (distance(home, path), *path))
                {
                    names.insert(name);
                    if chosen.insert(path) {
                        waiting.push(path);
                    }
                }
            }
        }
        for (path, source) in sources.iter().filter(|(path, _)| path.starts_with(home) && !apart(path)) {
            if chosen.contains(path.as_path()) {
                if source.has_main() {
                    let what = format!("{} has a box and a main, which is put aside", shown(path, self.root));
                    choice.notes.push(what);
                }
                continue;
            }
            let why = if source.is_compiler_output() {
                "output of S-Net's compiler"
            } else if source.has_main() {
                "a program of its own"
            } else {
                "no box uses it"
            };
            choice.left_out.push((path.clone(), why.to_owned()));
        }
        choice.units = chosen
            .iter()
            .map(|path| Unit {
                source: (*path).to_owned(),
                is_needed: needed.contains(path),
                has_main: sources[*path].has_main(),
            })
            .collect();
        choice
    }

    /// The sentence that says why no function was found for a box.
    fn of_missing_box(&self, name: &str, has_code: bool, metadata: &str) -> String {
        const ADVICE: &str = "Thalweg calls boxes in C, C++ and Rust, so write it in one of them";
        if has_code {
            return format!(
                "the code of the box `{name}` stands in the network's text, which is not compiled: move it to a file in C"
            );
        }
        let of_module = |path: &&PathBuf| {
            fs::read_to_string(path)
                .is_ok_and(|text| text.contains(&format!("{name}(")) || text.contains(&format!("{name} (")))
        };
        if let Some(module) = self.folder.sac.iter().find(of_module) {
            return format!("the box `{name}` is written in SAC ({}): {ADVICE}", shown(module, self.root));
        }
        if metadata.contains("SAC4SNet") || metadata.contains("SAC2SNet") {
            return format!("the box `{name}` has the interface SAC4SNet: {ADVICE}");
        }
        let wrapper = self.folder.sources.iter().find(|(_, source)| source.defined.contains(name));
        if let Some((path, _)) = wrapper {
            let path = shown(path, self.root);
            return format!(
                "the box `{name}` is only in {path}, which S-Net's compiler wrote: add the source of the box"
            );
        }
        format!(
            "there is no function `{name}` in C for the box of that name: add the file that has it to the folder"
        )
    }

    fn build(
        &self,
        name: &str,
        resolved: &Resolved,
        home: &Path,
        output: &Path,
        mut units: Vec<Unit>,
        program: &mut Program,
    ) -> Result<(), Error> {
        let table = write_table(name, resolved, output)?;
        for source in [table, output.join("c4snet.c")] {
            units.push(Unit { source, is_needed: true, has_main: false });
        }
        let below = self.folder.headers.iter().filter(|folder| folder.starts_with(home) && *folder != home);
        let folders = [output, home].into_iter().chain(below.map(PathBuf::as_path));
        let mut flags: Vec<String> = folders.map(include).collect();
        // Compilers must not treat a box as the function of the C library with the same name.
        flags.extend(resolved.boxes.iter().map(|declared| format!("-fno-builtin-{}", declared.name)));
        flags.extend(self.adoption.flags.iter().cloned());
        let Adoption { compiler, link, .. } = self.adoption;
        let built = Build { compiler, link, flags, folder: output, root: self.root }.run(name, &units)?;
        program.library = built.library;
        (program.compiled, program.unchanged) = (built.compiled, built.unchanged);
        let hint = self.linked_by_makefiles(home);
        let with_hint = |obstacle: String| match hint.as_slice() {
            [first, ..] if obstacle.contains("--link NAME") => {
                format!("{obstacle}; its Makefile links {}: --link {first}", hint.join(", "))
            }
            _ => obstacle,
        };
        program.obstacles.extend(built.obstacles.into_iter().map(with_hint));
        if program.obstacles.is_empty() {
            program.left_out.extend(built.put_aside);
        }
        Ok(())
    }

    /// The libraries that the Makefiles of a program name, and that are not linked.
    fn linked_by_makefiles(&self, home: &Path) -> Vec<String> {
        let near = self.folder.makefiles.iter().filter(|path| path.starts_with(home));
        let texts = near.filter_map(|path| fs::read(path).ok());
        let mut libraries = BTreeSet::new();
        for text in texts {
            for word in String::from_utf8_lossy(&text).split_whitespace() {
                let Some(library) = word.strip_prefix("-l") else { continue };
                let is_known = matches!(library, "m" | "pthread" | "c" | "lpel" | "rt")
                    || ["snet", "SNet", "C4SNet", "SAC", "distrib", "threading", "pcl"]
                        .iter()
                        .any(|of| library.starts_with(of));
                if !library.is_empty()
                    && !is_known
                    && !library.contains('$')
                    && !self.adoption.link.iter().any(|l| l == library)
                {
                    libraries.insert(library.to_owned());
                }
            }
        }
        libraries.into_iter().collect()
    }

    fn try_inputs(
        &self,
        resolved: &Resolved,
        home: &Path,
        output: &Path,
        apart: &dyn Fn(&Path) -> bool,
        others: &[&Path],
        program: &mut Program,
    ) -> Result<(), Error> {
        let records: Vec<&Path> = self.folder.records.iter().map(PathBuf::as_path).collect();
        let own =
            |path: &&Path| path.starts_with(home) && !apart(path) && !is_of_another(path, program, others);
        let inputs: Vec<&Path> = records.iter().copied().filter(own).collect();
        let expectations: HashSet<PathBuf> = inputs.iter().filter_map(|input| expected(input)).collect();
        let inputs = inputs.into_iter().filter(|path| !expectations.contains(*path) && !is_result(path));
        fs::create_dir_all(output).map_err(|error| table::unwritable(output, error))?;
        let tried = Tried {
            thalweg: &self.adoption.thalweg,
            network: &program.network,
            texts: resolved.sources.iter().map(|source| source.path().to_owned()).collect(),
            library: program.library.as_deref(),
            arguments: program.arguments.clone(),
            folder: output,
            limit: self.adoption.limit,
            afresh: self.adoption.afresh,
        };
        let trials: Result<Vec<Trial>, Error> =
            inputs.enumerate().map(|(number, input)| tried.on(number, input, expected(input))).collect();
        program.trials = trials?;
        for trial in &mut program.trials {
            let input = format!("{}: ", shown(&trial.input, self.root));
            if let Outcome::Fails(why) = &mut trial.outcome {
                let reason = self.shortened(why);
                *why = reason.strip_prefix(&input).unwrap_or(&reason).to_owned();
            }
        }
        Ok(())
    }
}

/// The sources chosen for a program's boxes, and what was noticed while choosing.
#[derive(Default)]
struct Choice {
    units: Vec<Unit>,
    obstacles: Vec<String>,
    notes: Vec<String>,
    left_out: Vec<(PathBuf, String)>,
}

fn include(folder: &Path) -> String {
    format!("-I{}", folder.display())
}

/// Whether a path belongs to another program, whose folder lies below `home`, the folder of this program.
fn is_apart(other: &Path, path: &Path, home: &Path) -> bool {
    other
        .parent()
        .is_some_and(|folder| folder != home && folder.starts_with(home) && path.starts_with(folder))
}

/// Whether an input belongs, by its name, to another program of the folder.
fn is_of_another(input: &Path, program: &Program, others: &[&Path]) -> bool {
    let stem = input.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let fit = |name: &str| if stem.starts_with(name) { name.len() } else { 0 };
    let beside = others.iter().filter(|other| other.parent() == program.network.parent());
    let best = beside.map(|other| fit(&other.file_stem().unwrap_or_default().to_string_lossy())).max();
    best.is_some_and(|best| best > fit(&program.name))
}

/// The distance of a file from a folder, in steps from folder to folder; a step up counts as four steps down.
fn distance(home: &Path, file: &Path) -> usize {
    let common = home.components().zip(file.components()).take_while(|(a, b)| a == b).count();
    let up = home.components().count() - common;
    4 * up + file.components().count() - common
}

fn has(node: &Node, is_meant: &dyn Fn(&NodeKind) -> bool) -> bool {
    is_meant(&node.kind) || node.parts().any(|part| has(part, is_meant))
}

/// Whether the first component of a network is a box without input.
fn begins_with_initialiser(resolved: &Resolved, node: &Node) -> bool {
    match &node.kind {
        NodeKind::Box(id) => resolved.box_use(*id).signature.input.is_none(),
        NodeKind::Net(net) => begins_with_initialiser(resolved, &resolved.net(*net).body),
        NodeKind::Serial(_) | NodeKind::Place { .. } => {
            node.parts().next().is_some_and(|first| begins_with_initialiser(resolved, first))
        }
        _ => false,
    }
}

/// The file with the records that a run of this input should give.
fn expected(input: &Path) -> Option<PathBuf> {
    let folder = input.parent()?;
    let name = input.file_stem()?.to_string_lossy().into_owned();
    let names = [
        format!("{name}.expected"),
        format!("{name}.expected.xml"),
        format!("{name}.out"),
        format!("{name}.out.xml"),
        format!("{name}.ref"),
        format!("{name}-expected.xml"),
        format!("{name}-out.xml"),
        format!("expected/{name}.xml"),
        format!("expected/{name}"),
        name,
    ];
    names.iter().map(|name| folder.join(name)).find(|path| path != input && path.is_file())
}

/// Whether a file of records is an actual or expected output, by its name.
fn is_result(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let folder =
        path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let ends =
        [".expected", ".expected.xml", ".out", ".out.xml", ".ref", "-expected.xml", "-out.xml", "output.xml"];
    folder == "expected" || name == "output" || ends.iter().any(|end| name.ends_with(end))
}

/// The metadata in a network's text.
fn metadata_of(text: &str) -> String {
    let mut metadata = String::new();
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once("<metadata") {
        let (inside, after) = behind.split_once("</metadata").unwrap_or((behind, ""));
        metadata.push_str(inside);
        rest = after;
    }
    metadata
}

fn note_of_observers(metadata: &str) -> Option<String> {
    let observers = metadata.matches("<observer").count() + metadata.matches("<snet:observer").count();
    (observers > 0).then(|| {
        format!(
            "its metadata asks for {}, not started here: `thalweg run --monitor full --keep` and `thalweg events` show each \
             record's way",
            counted(observers as u64, "observer")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_file_is_below() {
        let home = Path::new("/p/net");
        let mut files = ["/p/boxes/a.c", "/p/net/boxes/old/a.c", "/p/net/a.c"].map(Path::new);
        files.sort_by_key(|file| distance(home, file));
        assert_eq!(files, ["/p/net/a.c", "/p/net/boxes/old/a.c", "/p/boxes/a.c"].map(Path::new));
    }

    #[test]
    fn observers_are_counted_in_metadata_only() {
        let text = "// <observer />\n<metadata><observer type=\"before\" /><observer type=\"after\"/></metadata> net a connect [];";
        assert!(note_of_observers(&metadata_of(text)).unwrap().contains("asks for 2 observers"));
        assert_eq!(note_of_observers(&metadata_of("net a connect [];")), None);
    }
}
