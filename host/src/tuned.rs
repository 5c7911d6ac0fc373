//! Files with the initial settings of a run, one `NAME = VALUE` per line. `thalweg tune --save` writes them, and `thalweg
//! run --settings` reads them.

use std::fmt;
use std::path::Path;

use crate::error::Error;

/// The value that a setting has when a run starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitialSetting {
    /// The name of the setting.
    pub name: String,
    /// The value, as a user writes it.
    pub value: String,
    /// The file and the line that say so, as `FILE:LINE`, for errors; empty if no file does.
    pub origin: String,
}

impl InitialSetting {
    /// A setting that no file names.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> InitialSetting {
        InitialSetting { name: name.into(), value: value.into(), origin: String::new() }
    }
}

/// The content of a file of settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsFile {
    /// Settings and their values, in the order of the file.
    pub settings: Vec<InitialSetting>,
    /// The workers of tasks.
    pub places: Vec<TaskPlace>,
}

/// The worker of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPlace {
    /// The name of the task.
    pub task: String,
    /// The number of the worker.
    pub worker: usize,
    /// Whether the task stays there (`task/NAME.worker`); otherwise the task only starts there (`task/NAME.first_worker`).
    pub stays: bool,
}

/// The settings of a task that say its worker: one on which it stays, and one on which it only starts.
const WORKER: &str = "worker";
const FIRST_WORKER: &str = "first_worker";

/// The task that a setting is about, and whether the task stays on its worker.
fn task_of(setting: &str) -> Option<(&str, bool)> {
    let (task, what) = setting.strip_prefix("task/")?.rsplit_once('.')?;
    match what {
        WORKER => Some((task, true)),
        FIRST_WORKER => Some((task, false)),
        _ => None,
    }
}

impl SettingsFile {
    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read, or one of its lines is no setting.
    pub fn read(path: &Path) -> Result<SettingsFile, Error> {
        let text = std::fs::read_to_string(path);
        let text =
            text.map_err(|error| Error::usage(format!("cannot read {}", path.display())).because(error))?;
        SettingsFile::parse(&text, path)
    }

    /// Parses the text of the file of settings `path`, which errors name with the wrong line.
    ///
    /// # Errors
    /// A line is no setting.
    pub fn parse(text: &str, path: &Path) -> Result<SettingsFile, Error> {
        let mut file = SettingsFile::default();
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let origin = format!("{}:{}", path.display(), n + 1);
            let wrong = |why: String| Error::usage(format!("{origin}: {why}"));
            let Some((name, value)) = line.rsplit_once('=') else {
                return Err(wrong(format!("`{line}`: a setting's name, `=` and its value are needed")));
            };
            let (name, value) = (name.trim(), value.trim());
            match task_of(name) {
                Some((task, stays)) => {
                    let worker = value.parse();
                    let worker = worker.map_err(|_| wrong(format!("`{value}` is no number of a worker")))?;
                    file.places.push(TaskPlace { task: task.to_owned(), worker, stays });
                }
                None if name.is_empty() || value.is_empty() => {
                    return Err(wrong(format!("`{line}`: a setting's name, `=` and its value are needed")));
                }
                None => {
                    file.settings.push(InitialSetting { origin, ..InitialSetting::new(name, value) });
                }
            }
        }
        Ok(file)
    }
}

/// Writes the text of the file.
impl fmt::Display for SettingsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for InitialSetting { name, value, .. } in &self.settings {
            writeln!(f, "{name} = {value}")?;
        }
        for TaskPlace { task, worker, stays } in &self.places {
            writeln!(f, "task/{task}.{} = {worker}", if *stays { WORKER } else { FIRST_WORKER })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_settings_has_settings_and_workers_of_tasks() {
        let text = "# kept\n\nexec.quantum = 256\n task/net/a[3].worker = 1\ntask/net/b.c.first_worker=0\nexec.quantum_us=1ms\n";
        let path = Path::new("a.settings");
        let file = SettingsFile::parse(text, path).unwrap();
        let setting = |name: &str, value: &str, origin: &str| InitialSetting {
            origin: origin.to_owned(),
            ..InitialSetting::new(name, value)
        };
        let expected = [
            setting("exec.quantum", "256", "a.settings:3"),
            setting("exec.quantum_us", "1ms", "a.settings:6"),
        ];
        assert_eq!(file.settings, expected);
        let place = |task: &str, worker, stays| TaskPlace { task: task.to_owned(), worker, stays };
        assert_eq!(file.places, [place("net/a[3]", 1, true), place("net/b.c", 0, false)]);
        let written = "exec.quantum = 256\nexec.quantum_us = 1ms\ntask/net/a[3].worker = 1\ntask/net/b.c.first_worker = 0\n";
        assert_eq!(file.to_string(), written);
        assert_eq!(SettingsFile::parse(written, path).unwrap().to_string(), written);
    }

    #[test]
    fn a_mistake_comes_with_its_line() {
        for (text, line, why) in [
            ("a = 1\nquantum", 2, "`=`"),
            ("task/x.worker = left", 1, "no number of a worker"),
            ("task/x.first_worker = -1", 1, "no number of a worker"),
            ("\n\n = 3", 3, "`=`"),
            ("a =", 1, "`=`"),
        ] {
            let error = SettingsFile::parse(text, Path::new("f")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("f:{line}: ")) && error.contains(why), "{text}: {error}");
        }
    }
}
