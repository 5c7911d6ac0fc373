//! The example programs of PVM and of MPICH, as Debian has them, print the same while they are tuned.

mod machine;
mod tuner;

use machine::{Machine, skipped};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_tune::What;
use thalweg_tune::library::ours;
use tuner::tune_for;

/// PVM's examples (Debian's package `pvm-examples`) with their input, as commands of the shell. Left out are
/// those that print how the processor's time was shared out among their tasks (`ge`, `gs.pvm`), and those that
/// a user ends.
const EXAMPLES: [&str; 18] = [
    "hello.pvm",
    "master1",
    "fmaster1",
    "spmd",
    "fspmd",
    "echo 300 8 | gexample",
    "fgexample",
    "gexamp 8",
    "echo 4 20 | trsg",
    "printf '4\\n20\\n' | frsg",
    "thb 8",
    "hitc",
    "tst",
    "tjl",
    "inherit1",
    "joinleave 2000",
    "timing",
    "dbwtest & dbwtest; wait",
];
/// Examples that measure times, of which only the form of the lines is compared.
const OF_TIMES: [&str; 2] = ["timing", "dbwtest & dbwtest; wait"];
/// How long the examples are tuned.
const TUNED: Duration = Duration::from_secs(15);

/// What an example printed, without what is different in each run: the numbers of tasks, the order of lines
/// that several tasks print, and, if `is_of_times`, all numbers.
fn known(output: &str, is_of_times: bool) -> Vec<String> {
    let is_task = |word: &str| {
        let hexadecimal = word.trim_start_matches("0x").trim_start_matches('t');
        let is_number = |radix| u32::from_str_radix(hexadecimal, radix).is_ok_and(|id| id >> 18 == 1);
        word.len() >= 5 && (is_number(16) || is_number(10))
    };
    let word = |word: &str| match word {
        // Among times, 300000 µs look like the number of a task.
        _ if is_task(word) => if is_of_times { "" } else { "TASK" }.to_owned(),
        _ if is_of_times => word.replace(|c: char| c.is_ascii_digit(), ""),
        _ => word.to_owned(),
    };
    let line = |line: &str| {
        let letters = |c: char| !c.is_ascii_alphanumeric() && (!is_of_times || c != '.');
        line.split(letters).filter(|word| !word.is_empty()).map(word).collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = output.lines().map(line).collect();
    lines.sort();
    lines
}

/// Runs an example; returns its status and what it printed.
fn run(mut shell: Command, example: &str) -> (Option<i32>, Vec<String>) {
    let example_and_errors = format!("({example}) 2>&1");
    shell.args(["-k", "1", "60", "sh", "-c", &example_and_errors]).stdin(Stdio::null());
    let output = shell.output().expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    (output.status.code(), known(&text, OF_TIMES.contains(&example)))
}

#[test]
fn examples_of_pvm_print_the_same() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    if !Path::new("/usr/bin/gexamp").exists() {
        return skipped("no examples of PVM (Debian's package pvm-examples)");
    }
    let shell = || machine.command("timeout");
    let expected: BTreeMap<&str, _> = EXAMPLES.map(|example| (example, run(shell(), example))).into();
    for (example, (_, lines)) in &expected {
        assert!(!lines.is_empty(), "`{example}` prints nothing");
    }
    // Most examples end before a trial would. A ping-pong beside them lets the tuner keep changes, which it
    // then makes in the examples, too.
    let mut beside = machine.run(&["120", "0", "0", "0", "0", "100000"]);
    let processes = [beside.processes(), vec![machine.daemon(), std::process::id().cast_signed()]].concat();
    let (seen, result, wrong) = std::thread::scope(|scope| {
        let examples = scope.spawn(|| {
            let (begin, mut wrong, mut rounds) = (Instant::now(), Vec::new(), 0);
            while begin.elapsed() < TUNED || rounds < 2 {
                for example in EXAMPLES {
                    let got = run(shell(), example);
                    if got != expected[example] {
                        wrong.push(format!("`{example}` printed {got:#?}, and not {:#?}", expected[example]));
                    }
                }
                rounds += 1;
            }
            wrong
        });
        let pack = ours("pvm").expect("ours");
        let (seen, result) = tune_for(Duration::from_secs(300), pack, processes, |_| examples.is_finished());
        (seen, result, examples.join().expect("the examples"))
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A task that ended no call before the tuner ended keeps its values, and the tuner reports that.
    assert!(result.as_ref().map_or_else(|why| why.contains("no thread entered"), |_| true), "{result:?}");
    let kept = |of: &str| seen.has(What::Kept, of);
    assert!(kept("pvm.fragment") || kept("pvm.encoding") || kept("pvm.route"), "{:?}", seen.decisions);
    let tasks = beside.processes();
    let others = seen.windows.iter().filter(|(pid, _)| !tasks.contains(pid) && *pid != machine.daemon());
    assert!(others.count() > 0, "no example was measured");
    assert!(!beside.is_attached() && beside.ended_well());
}

/// The folder in which Debian's package `mpich-doc` has MPICH's examples.
const OF_MPICH: &str = "/usr/share/doc/mpich/examples";

#[test]
fn examples_of_mpich_print_the_same() {
    let has_compiler = Command::new("mpicc.mpich").arg("--version").output().is_ok();
    if !has_compiler || !Path::new(OF_MPICH).join("icpi.c").exists() {
        return skipped("no MPICH, or no examples of it (Debian's packages mpich, libmpich-dev, mpich-doc)");
    }
    let folder = tempfile::tempdir().expect("a folder");
    // `icpi` computes with as many intervals as its input says, until it says 0.
    let input = [&["40000000"; 150][..], &["100", "4000", "0"]].concat().join("\\n");
    for (name, input) in [("cpi", ""), ("hellow", ""), ("srtest", ""), ("icpi", &input[..])] {
        let program = folder.path().join(name);
        let source = Path::new(OF_MPICH).join(format!("{name}.c"));
        let mut compile = Command::new("mpicc.mpich");
        let compiled = compile.arg("-O1").arg(source).arg("-o").arg(&program).arg("-lm").status();
        assert!(compiled.is_ok_and(|status| status.success()), "{name} is compiled");
        let script =
            format!("printf '{input}\\n' | exec mpirun.mpich -n 4 {}", program.to_str().expect("a path"));
        let run = || {
            let output = Command::new("timeout").args(["60", "sh", "-c", &script]).output().expect("a shell");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            // The wall-clock time is different in each run.
            let text = text.lines().filter(|line| !line.contains("wall clock time"));
            let mut lines: Vec<String> = text.map(str::to_owned).collect();
            lines.sort();
            (output.status.code(), lines)
        };
        let expected = run();
        assert_eq!(expected.0, Some(0), "{name}: {:?}", expected.1);
        let ended = std::sync::atomic::AtomicBool::new(false);
        let got = std::thread::scope(|scope| {
            let example = scope.spawn(|| (0..3).map(|_| run()).collect::<Vec<_>>());
            while !example.is_finished() {
                // Without a process that uses MPICH, the tuner refuses; some examples end very soon.
                let own = vec![std::process::id().cast_signed()];
                let pack = ours("mpich").expect("ours");
                let (seen, _) = tune_for(Duration::from_secs(60), pack, own, |_| example.is_finished());
                if !seen.windows.is_empty() {
                    ended.store(true, std::sync::atomic::Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            example.join().expect("the example")
        });
        assert!(got.iter().all(|got| *got == expected), "{name} printed {got:#?}, and not {expected:#?}");
        if name == "icpi" {
            assert!(ended.into_inner(), "no rank was measured");
        }
    }
}

#[test]
fn what_differs_in_each_run_is_left_out() {
    assert_eq!(known("i'm t40002\nfrom 262147: 12.5 ms", false), ["from TASK 12 5 ms", "i m TASK"]);
    assert_eq!(known("5  300000 us\n", true), known("7     99 us\n", true));
    assert_ne!(known("I got 100.000 from 1", false), known("I got 200.000 from 1", false));
}
