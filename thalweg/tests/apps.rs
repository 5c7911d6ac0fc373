//! The networks of `apps/`: they have the same results in every mode and on any number of workers.

mod des_run;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const WORKERS: [usize; 2] = [1, 2];
const MODES: [&str; 3] = ["off", "metrics", "full"];

/// The limit of memory: less than half of the memory of 20,000 stages.
const MEGABYTES_MAX: u64 = 60;
/// The number of moves of tasks in a run with moves.
const MOVES: u32 = 30;

/// A network of an app and its input.
#[derive(Clone, Copy)]
struct App {
    package: &'static str,
    network: &'static str,
    input: &'static str,
    arguments: &'static [&'static str],
}

const RT: App = App {
    package: "app-rt",
    network: "apps/rt/rt.snet",
    input: r#"{"<scenes>": 12, "<solvers>": 4, "<width>": 40, "<height>": 30}"#,
    arguments: &["--order-by", "number"],
};

const ANT: App = App {
    package: "app-ant",
    network: "apps/ant/ant.snet",
    input: r#"{"<jobs>": 12, "<ants>": 9, "<steps>": 15, "<seed>": 7}"#,
    arguments: &[],
};

const MC: App = App {
    package: "app-mc",
    network: "apps/mc/mc.snet",
    input: r#"{"spot": 100.0, "strike": 105.0, "rate": 0.03, "volatility": 0.25, "years": 1.0, "<paths>": 2000, "<batches>": 30, "<lanes>": 3, "name": "call"}"#,
    arguments: &[],
};

/// The network that encrypts by DES, with one block in each record.
const DES: App = App {
    package: "app-des",
    network: "apps/des/des.snet",
    input: include_str!("../../apps/des/src/des.rs"),
    arguments: &[
        "--input-bytes",
        "data",
        "--chunk",
        "8",
        "--with",
        des_run::WITH,
        "--output-bytes",
        "data",
        "--order-by",
        "seq",
    ],
};

impl App {
    /// The output, which must be the same on 1 and 2 workers in all modes.
    fn results(&self) -> Vec<u8> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let input = self.input_in(folder.path());
        let mut outputs = WORKERS
            .into_iter()
            .flat_map(|workers| MODES.map(|mode| (workers, mode, self.run(&input, workers, mode))));
        let (_, _, first) = outputs.next().expect("a run");
        for (workers, mode, output) in outputs {
            assert!(output == first, "{}: another result on {workers} workers, mode {mode}", self.network);
        }
        first
    }

    fn run(&self, input: &Path, workers: usize, mode: &str) -> Vec<u8> {
        let mut command = self.command(input);
        des_run::succeed(command.args(["--workers", &workers.to_string(), "--monitor", mode])).stdout
    }

    /// The kind of the verdict on a run of the application.
    fn verdict(&self, workers: usize, mode: &str) -> String {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let space = folder.path().join("space");
        let input = self.input_in(folder.path());
        let mut command = self.command(&input);
        command.args(["--workers", &workers.to_string(), "--monitor", mode, "--space"]).arg(&space);
        des_run::succeed(&mut command);
        let report = des_run::succeed(des_run::thalweg().args(["report", "--json"]).arg(&space)).stdout;
        let report: Value = serde_json::from_slice(&report).expect("JSON");
        report["verdict"]["kind"].as_str().expect("a kind").to_owned()
    }

    /// The output while tasks change workers at random.
    fn moved(&self) -> Vec<u8> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let space = folder.path().join("space");
        let mut command = self.command(Path::new("-"));
        command
            .args(["--workers", "2", "--space"])
            .arg(&space)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("thalweg starts");
        let (mut input, mut output) =
            (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let text = self.input;
        let feeder = std::thread::spawn(move || {
            input.write_all(text.as_bytes()).expect("it reads");
            // The pipe stays open, and the run goes on, until the thread drops its end of the pipe.
            input
        });
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            output.read_to_end(&mut bytes).expect("it writes");
            bytes
        });
        move_tasks(&space);
        drop(feeder.join().expect("it fed"));
        assert!(child.wait().expect("it ends").success());
        reader.join().expect("it read")
    }

    fn command(&self, input: &Path) -> Command {
        let mut command = des_run::thalweg();
        command.arg("run").arg(des_run::root().join(self.network)).arg("--boxes");
        command.arg(des_run::library_of(self.package)).args(self.arguments).arg("--input").arg(input);
        command
    }

    fn input_in(&self, folder: &Path) -> PathBuf {
        let input = folder.join("input");
        std::fs::write(&input, self.input).expect("a temporary folder takes files");
        input
    }
}

/// Moves tasks of a run from worker to worker.
fn move_tasks(space: &Path) {
    let until = Instant::now() + Duration::from_secs(60);
    let (mut moves, mut random) = (0, 1_u64);
    while moves < MOVES {
        assert!(Instant::now() < until, "{moves} moves");
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (task, worker) = (1 + (random >> 33) % 40, random >> 63);
        let mut set = des_run::thalweg();
        set.arg("set").arg(space).args([format!("task/{task}.worker"), worker.to_string()]);
        // Many numbers belong to no task, or to a task that has ended.
        let stdout = set.output().expect("thalweg starts").stdout;
        moves += u32::from(String::from_utf8_lossy(&stdout).contains("moves from"));
    }
}

#[test]
fn pictures_are_the_same_whichever_solver_draws_them() {
    let output = String::from_utf8(RT.results()).expect("JSON");
    let names = output.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect("a record");
        assert!(record["data"]["$base64"].is_string(), "a picture");
        record["name"].as_str().expect("a name").to_owned()
    });
    assert!(names.eq((0..12).map(|number| format!("{number:03}.ppm"))));
}

#[test]
fn a_network_of_a_task_a_path_is_reported_as_of_too_fine_a_grain() {
    for (workers, mode) in WORKERS.into_iter().flat_map(|workers| [(workers, "metrics"), (workers, "full")]) {
        // If other tests leave the run no processor, the verdict names the missing processor, or a preempted
        // dispatch counts as long work; so it is enough if one run of five has the right verdict.
        let mut kinds = (0..5).map(|_| MC.verdict(workers, mode));
        let named = kinds.any(|kind| kind == "grain" || kind == "contention");
        assert!(named, "{workers} workers, mode {mode}: neither grain nor contention in five runs");
    }
}

#[test]
fn the_colony_finds_the_best_order_however_its_ants_come_back() {
    let schedule: Value = serde_json::from_slice(&ANT.results()).expect("one record");
    // The test apps/ant/tests/optimum.rs finds the same cost by comparing all orders.
    assert_eq!(schedule["<tardiness>"], 1112);
    let mut order: Vec<u64> = serde_json::from_value(schedule["order"].clone()).expect("numbers");
    order.sort_unstable();
    assert!(order.into_iter().eq(0..12), "each job once");
    let large = App { input: r#"{"<jobs>": 80, "<ants>": 20, "<steps>": 5, "<seed>": 3}"#, ..ANT };
    large.results();
}

#[test]
fn the_price_is_the_same_a_path_at_a_time_and_in_batches() {
    let priced =
        |network| -> Value { serde_json::from_slice(&App { network, ..MC }.results()).expect("one record") };
    let (serial, farm) = (priced(MC.network), priced("apps/mc/farm.snet"));
    for field in ["price", "error", "exact", "<paths>"] {
        assert_eq!(serial[field], farm[field], "{field}");
    }
    assert_eq!(farm["name"], "call", "what a box does not know passes by");
    let number = |field: &str| farm[field].as_f64().expect("a number");
    assert!((number("price") - number("exact")).abs() < 3.0 * number("error"), "{farm}");
    assert!((number("exact") - 9.121_804).abs() < 1e-5, "{farm}");
}

#[test]
fn one_block_a_record_is_what_openssl_makes_of_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let expected = des_run::openssl(&DES.input_in(folder.path()));
    assert!(DES.results() == expected, "another cipher");
}

#[test]
fn tasks_that_change_workers_change_no_result() {
    for app in [
        App { input: r#"{"<scenes>": 60, "<solvers>": 4, "<width>": 60, "<height>": 45}"#, ..RT },
        App { input: r#"{"<jobs>": 60, "<ants>": 20, "<steps>": 60, "<seed>": 3}"#, ..ANT },
        MC,
        App { network: "apps/mc/farm.snet", ..MC },
        DES,
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let stayed = app.run(&app.input_in(folder.path()), 2, "metrics");
        assert!(app.moved() == stayed, "{}: another result when tasks move", app.network);
    }
}

/// Each path of the simulation is a stage of ten tasks. The input ends long before the last path has ended,
/// so the stages that are not needed any more end as well.
#[test]
fn a_replication_that_unfolds_keeps_no_stages_behind_it() {
    let option = MC.input.replace("2000", "20000");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join("input");
    std::fs::write(&input, option).expect("a temporary folder takes files");
    for workers in ["1", "2"] {
        let mut command = MC.command(&input);
        let mut child = command
            .args(["--workers", workers])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("thalweg starts");
        let status = format!("/proc/{}/status", child.id());
        let mut peak = 0;
        while child.try_wait().expect("a child").is_none() {
            peak = peak_megabytes(&status).unwrap_or(peak);
        }
        assert!((1..MEGABYTES_MAX).contains(&peak), "{peak} MB on {workers} workers");
    }
}

/// The most memory that a living process has had.
fn peak_megabytes(status: &str) -> Option<u64> {
    let status = std::fs::read_to_string(status).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? / 1024)
}

#[test]
fn what_cannot_be_computed_is_a_failed_record() {
    let option = |spot: &str, paths: i64| {
        format!(
            r#"{{"spot": {spot}, "strike": 1.5, "rate": 0.03, "volatility": 0.25, "years": 1.0, "<paths>": {paths}}}"#
        )
    };
    for (app, input, why) in [
        (&MC, option("-1.0", 9), "spot is -1"),
        (&MC, option("1.0", 0), "<paths> is 0"),
        (&MC, option("1.0", -5), "<paths> is -5"),
        (&ANT, r#"{"<jobs>": 9, "<ants>": 0, "<steps>": 1, "<seed>": 1}"#.to_owned(), "<ants> is 0"),
        (&ANT, r#"{"<jobs>": -9, "<ants>": 1, "<steps>": 1, "<seed>": 1}"#.to_owned(), "-9 jobs"),
        (
            &ANT,
            r#"{"times": [1], "weights": [], "due": [1], "<ants>": 1, "<steps>": 1, "<seed>": 1}"#.to_owned(),
            "1 to 5000 jobs",
        ),
        (&RT, pictures(1, 0, 4), "one solver at least"),
        // A solver that fails loses its token.
        (&RT, pictures(9, 2, 0), "0 × 3 pixels"),
        (&RT, r#"{"<scenes>": 0}"#.to_owned(), "matches no declared input"),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("input");
        std::fs::write(&file, &input).expect("a temporary folder takes files");
        let output = app.command(&file).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(1), "{input}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{output:?}");
    }
}

fn pictures(scenes: i64, solvers: i64, width: i64) -> String {
    format!(r#"{{"<scenes>": {scenes}, "<solvers>": {solvers}, "<width>": {width}, "<height>": 3}}"#)
}
