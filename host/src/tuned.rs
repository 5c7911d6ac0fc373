//! Files with the initial settings of a run, one `NAME = VALUE` per line, as `thalweg tune --save` writes
//! them.

use std::path::Path;

use crate::error::Error;

/// The content of a file of settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsFile {
    /// Settings and their values, in the order of the file.
    pub settings: Vec<(String, String)>,
    /// The names of tasks, each with its worker.
    pub places: Vec<(String, usize)>,
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
        SettingsFile::parse(&text)
            .map_err(|(line, why)| Error::usage(format!("{}:{line}: {why}", path.display())))
    }

    /// Parses the text of a file of settings; an error contains the number of the wrong line.
    ///
    /// # Errors
    /// A line is no setting.
    pub fn parse(text: &str) -> Result<SettingsFile, (usize, String)> {
        let mut file = SettingsFile::default();
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: String| (n + 1, why);
            let Some((name, value)) = line.rsplit_once('=') else {
                return Err(wrong(format!("`{line}`: a setting's name, `=` and its value are needed")));
            };
            let (name, value) = (name.trim(), value.trim());
            match name.strip_prefix("task/").and_then(|name| name.strip_suffix(".worker")) {
                Some(task) => {
                    let worker = value.parse();
                    let worker = worker.map_err(|_| wrong(format!("`{value}` is no number of a worker")))?;
                    file.places.push((task.to_owned(), worker));
                }
                None if name.is_empty() || value.is_empty() => {
                    return Err(wrong(format!("`{line}`: a setting's name, `=` and its value are needed")));
                }
                None => file.settings.push((name.to_owned(), value.to_owned())),
            }
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_settings_has_settings_and_workers_of_tasks() {
        let text = "# kept\n\nexec.quantum = 256\n task/net/a[3].worker = 1\nexec.quantum_us=1ms\n";
        let file = SettingsFile::parse(text).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(file.settings, [pair("exec.quantum", "256"), pair("exec.quantum_us", "1ms")]);
        assert_eq!(file.places, [("net/a[3]".to_owned(), 1)]);
    }

    #[test]
    fn a_mistake_comes_with_its_line() {
        for (text, line, why) in [
            ("a = 1\nquantum", 2, "`=`"),
            ("task/x.worker = left", 1, "no number of a worker"),
            ("\n\n = 3", 3, "`=`"),
            ("a =", 1, "`=`"),
        ] {
            let (at, error) = SettingsFile::parse(text).unwrap_err();
            assert!(at == line && error.contains(why), "{text}: {at} {error}");
        }
    }
}
