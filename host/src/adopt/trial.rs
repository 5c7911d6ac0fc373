//! Trials of a program: a run on one of its inputs, compared with the expected records.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use thalweg_net::xml;

use super::build::hash_files;
use super::obstacle;
use super::table::write;
use crate::amount::counted;
use crate::error::Error;

/// The numbers of workers with which each input is run; results must not depend on the number.
const WORKERS: [&str; 2] = ["1", "2"];
/// The most bytes of a run's messages that are kept.
const PRINTED_MAX: u64 = 1 << 20;

/// The result of running a program on an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The output is as expected, on one and on two workers.
    Agrees,
    /// The program ran; there is no expected output.
    Ran,
    /// The output differs; the text says how.
    Differs(String),
    /// The program did not run; the text says why.
    Fails(String),
}

/// An input of a program, with its result.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The file of records.
    pub input: PathBuf,
    /// The file with the expected records, if there is one.
    pub expected: Option<PathBuf>,
    /// The result.
    pub outcome: Outcome,
    /// The number of output records.
    pub records_out: u64,
    /// The warnings of the run.
    pub warnings: Vec<String>,
    /// Whether the program ran on this input in this call. If not, nothing on which the program depends has
    /// changed since its last run.
    pub is_fresh: bool,
}

/// The program to try, and the options of its runs.
pub(super) struct Tried<'a> {
    pub(super) thalweg: &'a Path,
    pub(super) network: &'a Path,
    /// The files of the network.
    pub(super) texts: Vec<PathBuf>,
    pub(super) library: Option<&'a Path>,
    /// Arguments of every run, such as settings.
    pub(super) arguments: Vec<String>,
    pub(super) folder: &'a Path,
    pub(super) limit: Duration,
    pub(super) afresh: bool,
}

impl Tried<'_> {
    /// Runs the program on `input`, which has the given number among the program's inputs.
    pub(super) fn on(&self, number: usize, input: &Path, expected: Option<PathBuf>) -> Result<Trial, Error> {
        let mut trial = Trial {
            input: input.to_owned(),
            expected,
            outcome: Outcome::Ran,
            records_out: 0,
            warnings: Vec::new(),
            is_fresh: true,
        };
        let stem = input.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (output, stamp) = (
            self.folder.join(format!("{number}-{stem}.out.xml")),
            self.folder.join(format!("{number}-{stem}.tried")),
        );
        let now = self.fingerprint(&trial);
        let noted = fs::read_to_string(&stamp).unwrap_or_default();
        let mut noted = noted.lines();
        if !self.afresh && output.is_file() && now.is_some() && noted.next() == now.as_deref() {
            trial.is_fresh = false;
            trial.records_out = noted.next().and_then(|count| count.parse().ok()).unwrap_or(0);
            trial.warnings = noted.map(str::to_owned).collect();
            trial.outcome = if trial.expected.is_some() { Outcome::Agrees } else { Outcome::Ran };
            return Ok(trial);
        }
        let _ = fs::remove_file(&stamp);
        self.run(&mut trial, &output)?;
        if let (Outcome::Agrees | Outcome::Ran, Some(now)) = (&trial.outcome, now) {
            let lines = [vec![now, trial.records_out.to_string()], trial.warnings.clone()].concat();
            write(&stamp, &(lines.join("\n") + "\n"))?;
        }
        Ok(trial)
    }

    fn run(&self, trial: &mut Trial, output: &Path) -> Result<(), Error> {
        let wanted = match trial.expected.as_deref().map(canonical) {
            Some(Err(why)) => {
                trial.outcome = Outcome::Fails(format!("its expectation cannot be read: {why}"));
                return Ok(());
            }
            Some(Ok(wanted)) => Some(wanted),
            None => None,
        };
        // The space of a run that crashes is kept beside the results, so that `thalweg report` can show the
        // crash.
        let space = output.with_extension("space");
        for workers in WORKERS {
            let _ = fs::remove_dir_all(&space);
            let printed = match self.once(&trial.input, output, &space, workers)? {
                Ok(printed) => printed,
                Err(why) => {
                    trial.outcome = Outcome::Fails(why);
                    return Ok(());
                }
            };
            let warnings = printed.lines().filter_map(|line| line.strip_prefix("warning[W0607]: "));
            trial.warnings = warnings.map(str::to_owned).collect();
            let got = match canonical(output) {
                Ok(got) => got,
                Err(why) => {
                    trial.outcome = Outcome::Fails(format!("its result cannot be read: {why}"));
                    return Ok(());
                }
            };
            trial.records_out = got.len() as u64;
            let _ = fs::remove_dir_all(&space);
            let Some(wanted) = &wanted else { continue };
            if let Some(how) = difference(wanted, &got) {
                trial.outcome = Outcome::Differs(format!(
                    "on {}, {how}",
                    counted(workers.parse().unwrap_or(1), "worker")
                ));
                return Ok(());
            }
            trial.outcome = Outcome::Agrees;
        }
        Ok(())
    }

    /// Runs the program once; returns its messages, or why it failed.
    fn once(
        &self,
        input: &Path,
        output: &Path,
        space: &Path,
        workers: &str,
    ) -> Result<Result<String, String>, Error> {
        let mut run = Command::new(self.thalweg);
        run.arg("run").arg(self.network).args(["--workers", workers, "--monitor", "off"]);
        run.args(["--input-format", "xml", "--output-format", "xml"]).args(&self.arguments);
        if let Some(library) = self.library {
            run.arg("--boxes").arg(library);
        }
        // The paths are absolute, so they cannot be read as schemes or names.
        run.arg("--input").arg(input).arg("--output").arg(output).arg("--space").arg(space);
        let spawned = run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let cannot = |error| Error::run("cannot start thalweg run").because(error);
        let mut child = spawned.map_err(cannot)?;
        let printed = child.stderr.take();
        // Output beyond the limit is read and dropped, so that the run goes on.
        let reader = std::thread::spawn(move || {
            let (mut text, mut rest) = (Vec::new(), Vec::new());
            if let Some(mut printed) = printed {
                let _ = printed.by_ref().take(PRINTED_MAX).read_to_end(&mut text);
                while printed.by_ref().take(PRINTED_MAX).read_to_end(&mut rest).is_ok_and(|count| count > 0) {
                    rest.clear();
                }
            }
            String::from_utf8_lossy(&text).into_owned()
        });
        let deadline = Instant::now() + self.limit;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(cannot)? {
                break Some(status);
            }
            if Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let printed = reader.join().unwrap_or_default();
        Ok(match status {
            Some(status) if status.success() => Ok(printed),
            Some(status) => {
                Err(obstacle::of_running(&printed).unwrap_or_else(|| format!("the run ended with {status}")))
            }
            None => Err(format!(
                "it did not end within {} s (--limit says how long it may take)",
                self.limit.as_secs()
            )),
        })
    }

    /// A hash of everything on which the outcome depends; `None` if a file among it cannot be read.
    fn fingerprint(&self, trial: &Trial) -> Option<String> {
        let mut hasher = DefaultHasher::new();
        let program = fs::metadata(self.thalweg).ok()?;
        (program.len(), program.modified().ok()?).hash(&mut hasher);
        (self.network, &self.arguments).hash(&mut hasher);
        hash_files(&self.texts, &mut hasher)?;
        let files = [self.library.map(Path::to_owned), Some(trial.input.clone()), trial.expected.clone()];
        hash_files(&files.into_iter().flatten().collect::<Vec<_>>(), &mut hasher)?;
        Some(format!("{:016x}", hasher.finish()))
    }
}

/// The records of a file in an order of their own: the members of each record are sorted, and so are the
/// records.
fn canonical(path: &Path) -> Result<Vec<String>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut records = Vec::new();
    for record in xml::Records::new(BufReader::new(file)) {
        let record = record.map_err(|error| error.to_string())?;
        let mut text = Vec::new();
        xml::write_record(&record, &mut text).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&text);
        let mut members: Vec<&str> = text.lines().skip(1).map(str::trim).collect();
        members.retain(|member| *member != "</record>");
        members.sort_unstable();
        records.push(members.join(" "));
    }
    records.sort_unstable();
    Ok(records)
}

/// The differences between the actual and the expected records.
fn difference(wanted: &[String], got: &[String]) -> Option<String> {
    if wanted == got {
        return None;
    }
    let count = |records: &[String], one: &String| records.iter().filter(|record| *record == one).count();
    let missing = wanted.iter().find(|record| count(wanted, record) > count(got, record));
    let extra = got.iter().find(|record| count(got, record) > count(wanted, record));
    let example = |what: &str, record: Option<&String>| {
        record.map(|record| format!("; {what}: {record}")).unwrap_or_default()
    };
    let counts = format!("{} expected, {} came", counted(wanted.len() as u64, "record"), got.len());
    Some(counts + &example("missing", missing) + &example("unexpected", extra))
}
