//! Spaces that a former version wrote are reported on as that version did.
//!
//! `golden/v1-killed` is of a run that was killed while it was paused, so its live table is full; `golden/v1-ended` of one that ended.
//! `golden/v2-ended` is of a run of `apps/mc` on three paths, from when a dispatch became one event and tasks, their streams and both ends of those
//! still had events of their own. All lack the zeros at the end of their elements. The reports beside them are what `thalweg report --json` printed then.

use std::path::{Path, PathBuf};

use serde_json::Value;
use thalweg_monitor::report_space;
use thalweg_space::layout::element::{BLOCKS, DATA};

/// A copy of a golden space, with its elements at their full length; gone with this.
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

/// The header, then as many blocks of as many bytes as it says.
fn restore_length(element: &Path) {
    let bytes = std::fs::read(element).unwrap();
    let half = |at: usize| u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
    let file = std::fs::OpenOptions::new().write(true).open(element).unwrap();
    file.set_len(DATA as u64 + half(BLOCKS) * half(BLOCKS + 4)).unwrap();
}

/// Where `now` lacks what `then` has or has something else. Members of objects may be added.
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
