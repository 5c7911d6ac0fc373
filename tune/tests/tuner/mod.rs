//! A tuner of a library as tests use it, with the program of the test as its helper.

use std::io::Write;
use std::process::Command;
use std::time::Duration;
use thalweg_tune::What;
use thalweg_tune::library::{Library, LibraryProgress, hoster, read, tune_library};

/// The reports of a tuner: decisions with their times, and each process that it refused.
#[derive(Default)]
#[allow(dead_code, reason = "not every test looks at everything")]
pub(crate) struct Seen {
    pub(crate) decisions: Vec<(f64, What, String, String)>,
    pub(crate) refused: Vec<String>,
    /// For each window of a process, the process and the number of decisions made before the window.
    pub(crate) windows: Vec<(i32, usize)>,
    /// For each window with packed ints, its end and the size of the largest array.
    pub(crate) ints: Vec<(f64, f64)>,
}

impl Seen {
    pub(crate) fn has(&self, what: What, change: &str) -> bool {
        self.decisions.iter().any(|(_, known, text, _)| *known == what && text.contains(change))
    }
}

/// The command of a hoster: this program, which runs [`this_program_is_a_hoster`].
fn helper() -> Option<Command> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args(["--exact", "--nocapture", "tuner::this_program_is_a_hoster"]);
    Some(command)
}

#[test]
fn this_program_is_a_hoster() {
    if std::env::var_os("THALWEG_HOSTER_OF").is_none() {
        return;
    }
    let mut lines = std::io::stdout();
    // The tests' framework may have begun a line.
    writeln!(lines).expect("a line");
    let ended = hoster(Box::new(std::io::stdin()), Box::new(lines));
    assert!(ended.is_ok(), "{ended:?}");
}

/// Tunes the processes until `enough` is true, for at most half a minute.
#[allow(dead_code, reason = "not every test has the same patience")]
pub(crate) fn tune(
    pack: &str,
    processes: Vec<i32>,
    enough: impl Fn(&Seen) -> bool,
) -> (Seen, Result<u64, String>) {
    tune_for(Duration::from_secs(30), pack, processes, enough)
}

/// Tunes the processes until `enough` is true, at most for this time.
pub(crate) fn tune_for(
    at_most: Duration,
    pack: &str,
    processes: Vec<i32>,
    enough: impl Fn(&Seen) -> bool,
) -> (Seen, Result<u64, String>) {
    let pack = read("pack", pack).unwrap_or_else(|bad| panic!("{bad}"));
    let library = Library {
        pack: &pack,
        processes,
        halves: Vec::new(),
        keep: false,
        advise: false,
        lasts: Some(at_most),
        pinned: Vec::new(),
        guard: &|| None,
        helper: &helper,
        orders: None,
    };
    let seen = std::cell::RefCell::new(Seen::default());
    let mut report = |progress: &LibraryProgress<'_>| match progress {
        LibraryProgress::Decision(decision) => {
            eprintln!("{:.2} {} {} {}", decision.at, decision.what, decision.change, decision.why);
            let of = (decision.at, decision.what, decision.change.clone(), decision.why.clone());
            seen.borrow_mut().decisions.push(of);
        }
        LibraryProgress::Refused(_, why) => {
            eprintln!("refused {why}");
            seen.borrow_mut().refused.push((*why).to_owned());
        }
        LibraryProgress::Window(pid, at, fields) => {
            let mut seen = seen.borrow_mut();
            let decisions = seen.decisions.len();
            seen.windows.push((pid.parse().expect("a number"), decisions));
            let most = fields.iter().find(|(name, _)| *name == "ints.items.most");
            seen.ints.extend(most.map(|(_, most)| (*at, *most)));
        }
        LibraryProgress::Noted(text) => eprintln!("{text}"),
        LibraryProgress::Attached(_) => {}
    };
    let result = tune_library(&library, &|| enough(&seen.borrow()), &mut report);
    (seen.into_inner(), result)
}
