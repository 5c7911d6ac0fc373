//! `thalweg ls`, `set` and `clean` on spaces and sessions that other programs made.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_space::{Space, SpaceOptions};

/// A directory of spaces of its own for a test, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("thalweg-spaces-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn space(&self, name: &str, session: Option<&str>) -> Space {
        let (parent, session) = (Some(self.0.clone()), session.map(PathBuf::from));
        Space::create(SpaceOptions { name: name.into(), parent, session, ..SpaceOptions::default() }).unwrap()
    }

    fn thalweg(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(arguments).env("THALWEG_SPACES", &self.0).env_remove("THALWEG_SESSION").output().unwrap()
    }

    /// What a command prints that succeeds.
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.thalweg(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn ls_shows_sessions_with_their_processes() {
    let place = Place::new("ls");
    let alone = place.space("alone", None);
    let members = [place.space("first", Some("together")), place.space("second", Some("together"))];
    members[1].finish();
    let shown = place.says(&["ls"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[1].starts_with(name(alone.path())), "{shown}");
    assert!(lines[2].starts_with("together") && lines[2].contains("2 joined, 1 left, 2 running"), "{shown}");
    for (line, member) in lines[3..].iter().zip(&members) {
        assert!(line.starts_with(&format!("  {}", name(member.path()))), "{shown}");
    }
    assert_eq!(lines.len(), 5, "{shown}");
    let objects: Vec<serde_json::Value> =
        place.says(&["ls", "--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let session = objects.iter().find(|object| object["state"] == "session").unwrap();
    assert_eq!(session["processes"].as_array().unwrap().len(), 2);
    assert_eq!(session["processes"][0]["space"], name(members[0].path()));
    assert_eq!(objects.iter().filter(|object| object["session"] == session["path"]).count(), 2);
    // What is in a session is found by its name as any other space; the session itself is none.
    assert!(place.thalweg(&["get", name(members[0].path())]).status.code() == Some(2), "it has no settings");
    let output = place.thalweg(&["report", session["path"].as_str().unwrap()]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is a session"), "{output:?}");
}

#[test]
fn clean_removes_a_session_of_the_dead() {
    let place = Place::new("clean");
    let net = place.0.join("pass.snet");
    std::fs::write(&net, "net pass connect [];").unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["run", net.to_str().unwrap()])
        .env("THALWEG_SPACES", &place.0)
        .env("THALWEG_SESSION", "together")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let session = place.0.join("together");
    assert!(session.join("session").exists(), "the environment says which session");
    place.says(&["clean"]);
    assert!(!session.exists());
}

#[test]
fn set_switches_probes_by_pattern() {
    let place = Place::new("probe");
    let space = place.space("probed", None);
    let [link, disk] = ["net.link.sent", "disk.read"].map(|name| space.probe(name, true).unwrap());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                space.adopt().unwrap();
                std::thread::yield_now();
            }
        });
        let pid = std::process::id().to_string();
        let shown = place.says(&["set", &pid, "probe/net.*.on", "0"]);
        assert!(shown.contains("probe/net.*.on = 0, adopted after"), "{shown}");
        assert!(!link.is_on() && disk.is_on());
        let shown = place.says(&["events", &pid]);
        assert!(shown.contains("space.probes_switched") && shown.contains("net.*"), "{shown}");
        place.says(&["set", "probed", "probe/*.on", "1"]);
        assert!(link.is_on() && disk.is_on());
        let refused = place.thalweg(&["set", &pid, "probe/net.*.on", "2"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("out of range"), "{refused:?}");
        over.store(true, Ordering::Release);
    });
}
