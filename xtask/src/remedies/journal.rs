//! The journal of measurements: one JSON object a line, so a run that was killed can be continued.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Measurements, by seed and name.
pub(super) struct Journal {
    file: File,
    known: HashMap<(u64, String), Value>,
}

impl Journal {
    /// Opens or creates the journal. An incomplete last line is ignored.
    pub(super) fn open(path: &Path) -> Result<Journal> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("could not read {}", path.display())),
        };
        let file = OpenOptions::new().create(true).append(true).open(path);
        let mut file = file.with_context(|| format!("could not open {}", path.display()))?;
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        let mut known = HashMap::new();
        for line in text.lines() {
            let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
            let (Some(seed), Some(name)) = (entry["seed"].as_u64(), entry["name"].as_str()) else { continue };
            known.insert((seed, name.to_owned()), entry["value"].clone());
        }
        Ok(Journal { file, known })
    }

    /// The measurement with this name.
    pub(super) fn get(&self, seed: u64, name: &str) -> Option<&Value> {
        self.known.get(&(seed, name.to_owned()))
    }

    /// The value with this name; it is measured now if the journal does not have it. A measurement that fails
    /// is written as `{"failed": why}`.
    pub(super) fn measured(
        &mut self,
        seed: u64,
        name: &str,
        measure: impl FnOnce() -> Result<Value>,
    ) -> Result<Value> {
        if let Some(known) = self.get(seed, name) {
            return Ok(known.clone());
        }
        self.measured_again(seed, name, measure)
    }

    /// Measures the value with this name anew; the new value replaces a former one.
    pub(super) fn measured_again(
        &mut self,
        seed: u64,
        name: &str,
        measure: impl FnOnce() -> Result<Value>,
    ) -> Result<Value> {
        let value = measure().unwrap_or_else(|error| json!({ "failed": format!("{error:#}") }));
        let mut line = json!({ "seed": seed, "name": name, "value": value }).to_string();
        line.push('\n');
        self.file.write_all(line.as_bytes())?;
        self.known.insert((seed, name.to_owned()), value.clone());
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_not_measured_again_and_a_cut_line_is_left_out() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("thalweg-journal-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let path = folder.join("journal.jsonl");
        let mut journal = Journal::open(&path)?;
        journal.measured(1, "a", || Ok(json!(2.5)))?;
        journal.measured(1, "b", || anyhow::bail!("broken"))?;
        std::fs::OpenOptions::new().append(true).open(&path)?.write_all(b"{\"seed\": 2, \"na")?;
        let mut journal = Journal::open(&path)?;
        assert_eq!(journal.measured(1, "a", || anyhow::bail!("again"))?, json!(2.5));
        assert_eq!(journal.get(1, "b"), Some(&json!({ "failed": "broken" })));
        journal.measured(3, "c", || Ok(json!(0)))?;
        journal.measured_again(3, "c", || Ok(json!(1)))?;
        let journal = Journal::open(&path)?;
        assert_eq!((journal.get(3, "c"), journal.get(2, "a")), (Some(&json!(1)), None));
        std::fs::remove_dir_all(&folder)?;
        Ok(())
    }
}
