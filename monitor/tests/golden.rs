//! Checks that spaces written by former versions still give the reports of those versions.
//!
//! `golden/v1-killed` is the space of a run that was killed while it was paused, so its live table is full;
//! `golden/v1-ended` is that of a run that ended. `golden/v2-ended` is that of a run of `apps/mc` on three
//! paths, by the version in which a dispatch was already one event, but tasks, their streams and the streams'
//! ends had separate events. In all of them, the zeros at the end of the elements are removed. The reports
//! beside them are the output of `thalweg report --json` of that time.

use std::path::{Path, PathBuf};

use serde_json::Value;
use thalweg_monitor::report_space;
use thalweg_space::layout::element::{BLOCKS, DATA};

/// A copy of a golden space with its elements at their full length, removed when this value is dropped.
struct Copy(PathBuf);

impl Copy {
    fn of(name: &str) -> Copy {
        let copy = std::env::temp_dir().join(format!("thalweg-golden-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&copy).unwrap();
        for entry in std::fs::read_dir(golden().join(name)).unwrap() {
            let path = entry.unwrap().path();
            let to = copy.join(path.file_name().unwrap());
            std::fs::copy(&path, &to).unwrap();
            if path.extension().is_some_and(|extension| extension == "element") {
                restore_length(&to);
            }
        }
        Copy(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Extends an element to its full length, which follows from the number and size of blocks in its header.
fn restore_length(element: &Path) {
    let bytes = std::fs::read(element).unwrap();
    let half = |at: usize| u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
    let file = std::fs::OpenOptions::new().write(true).open(element).unwrap();
    file.set_len(DATA as u64 + half(BLOCKS) * half(BLOCKS + 4)).unwrap();
}

/// The places where `now` lacks a value of `then` or has another one. Members of objects may be added.
fn differences(then: &Value, now: &Value, at: &str) -> Vec<String> {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => then
            .iter()
            .flat_map(|(name, then)| {
                differences(then, now.get(name).unwrap_or(&Value::Null), &format!("{at}.{name}"))
            })
            .collect(),
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => {
            let pairs = then.iter().zip(now).enumerate();
            pairs.flat_map(|(index, (then, now))| differences(then, now, &format!("{at}[{index}]"))).collect()
        }
        _ if then == now => Vec::new(),
        _ => vec![format!("{at}: {now} instead of {then}")],
    }
}

#[test]
fn reports_on_spaces_of_the_former_version_stay_as_they_were() {
    for name in ["v1-killed", "v1-ended", "v2-ended"] {
        let space = Copy::of(name);
        let mut report = serde_json::to_value(report_space(&space.0, 10).unwrap()).unwrap();
        let text = std::fs::read_to_string(golden().join(format!("{name}.json"))).unwrap();
        let mut expected: Value = serde_json::from_str(&text).unwrap();
        for report in [&mut report, &mut expected] {
            report["space"]["path"] = Value::Null;
        }
        assert_eq!(differences(&expected, &report, name), [""; 0]);
    }
}
