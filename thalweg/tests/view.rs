//! The server of pages: any part of the timeline in full detail, the data stored beside a run that has ended,
//! the address, and refused requests.
#![allow(clippy::needless_range_loop, reason = "a state is a place in several lists")]

mod controlled;
mod des_run;
mod program;
mod viewed;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use controlled::Run;
use program::write;
use serde_json::Value;
use viewed::{View, feed, free_port, live};

/// Runs `messages` messages through two filters and keeps the run's space.
fn kept(folder: &Path, messages: usize) -> PathBuf {
    let net = "net small connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n * 2>}];";
    kept_of(folder, net, (0..messages).map(|n| format!("{{\"<n>\": {n}}}\n")).collect())
}

/// Runs a network on the given input and keeps the run's space.
fn kept_of(folder: &Path, net: &str, input: String) -> PathBuf {
    let net = write(folder, "small.snet", net);
    let space = folder.join("kept");
    let path = space.to_str().expect("UTF-8");
    let run = program::run(
        &[&net, "--monitor", "full", "--workers", "2", "--quantum", "1", "--keep", "--space", path],
        &input,
    );
    assert!(run.status.success());
    space
}

fn page(space: &Path, file: &Path) -> String {
    des_run::succeed(des_run::thalweg().arg("report").arg(space).arg("--html").arg(file));
    std::fs::read_to_string(file).expect("a page")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {}", &text[..text.len().min(300)]))
}

/// The time that each task spent in each state between two times, computed from the single spans of a
/// timeline.
fn by_spans(timeline: &Value, from: f64, to: f64) -> Vec<[f64; 4]> {
    let column = |name: &str| -> Vec<i64> {
        let numbers = timeline["spans"][name].as_array().expect("a column");
        numbers.iter().map(|number| number.as_i64().expect("a whole number")).collect()
    };
    let (lanes, states, ends, lengths) = (column("lane"), column("state"), column("end"), column("length"));
    let mut sums = vec![[0.0; 4]; timeline["tasks"].as_array().expect("tasks").len()];
    let mut end = timeline["exact_from_ns"].as_f64().expect("exact");
    for n in 0..lanes.len() {
        end += ends[n] as f64;
        let inside = end.min(to) - (end - lengths[n] as f64).max(from);
        if lanes[n] >= 0 && inside > 0.0 {
            sums[lanes[n] as usize][states[n] as usize] += inside;
        }
    }
    sums
}

/// Compares a timeline's spans with the times that tasks were in each state.
fn same_times(part: &Value, want: &[[f64; 4]], from: f64, to: f64) {
    let tasks = part["tasks"].as_array().expect("tasks");
    for ((task, want), drawn) in tasks.iter().zip(want).zip(by_spans(part, from, to)) {
        for state in 0..4 {
            // The ends and lengths of spans are rounded to nanoseconds.
            let near = (drawn[state] - want[state]).abs() <= 1e-4 * (to - from) + 2000.0;
            assert!(
                near,
                "{} {state} from {from} to {to}: {} recorded, {} in the page",
                task["name"], drawn[state], want[state]
            );
        }
    }
}

#[test]
fn what_is_kept_beside_a_run_makes_the_same_page_and_is_made_anew_when_the_run_is_another() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = kept(folder.path(), 30_000);
    let file = folder.path().join("page.html");
    let first = page(&space, &file);
    let pictures = space.join("pictures");
    let bytes = std::fs::read(&pictures).expect("pictures are kept");
    assert!(!space.join("pictures.new").exists());
    // The page made from the stored data is the same as the page made from the events.
    assert_eq!(page(&space, &file), first);
    assert_eq!(std::fs::read(&pictures).expect("pictures"), bytes);
    // Stored data that are damaged, truncated or of another run are replaced.
    for damaged in [b"no pictures".to_vec(), bytes[..bytes.len() / 2].to_vec(), Vec::new()] {
        std::fs::write(&pictures, &damaged).expect("it can be written");
        assert_eq!(page(&space, &file).len(), first.len());
        assert_eq!(std::fs::read(&pictures).expect("pictures").len(), bytes.len());
    }
    let segment = std::fs::read_dir(&space).expect("a space").flatten().map(|entry| entry.path());
    let segment = segment.filter(|path| path.extension().is_some_and(|end| end == "segment")).max();
    let segment = segment.expect("a segment");
    let modified = std::fs::File::options().append(true).open(&segment).expect("a segment");
    modified.set_modified(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(7)).expect("a time");
    page(&space, &file);
    assert_ne!(std::fs::read(&pictures).expect("pictures"), bytes, "what it was made from is noted");
    // The stored data are removed with the run.
    des_run::succeed(des_run::thalweg().args(["clean", "--all"]).env("THALWEG_SPACES", folder.path()));
    assert!(!space.exists());
}

#[test]
fn any_window_is_drawn_span_by_span_or_in_sums_that_agree_with_all_spans() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = kept(folder.path(), 12_000);
    let view = View::start(&space, &[]);
    let whole = json(&view.body("/page.json"));
    let duration = whole["timeline"]["duration_ns"].as_f64().expect("a number");
    // The page's file has all spans of this run, made in a separate pass.
    let all = &whole["timeline"];
    assert_eq!(all["exact_from_ns"].as_f64(), Some(0.0), "the run is small enough");
    for (from, to) in [(0.4, 0.401), (0.1, 0.2), (0.0, 1.0), (0.97, 1.0)] {
        let (from, to) = (from * duration, to * duration);
        let part = json(&view.body(&format!("/timeline?from={from}&to={to}")));
        let want = by_spans(all, from, to);
        if part["exact_from_ns"].is_null() {
            // The sums are those of whole cells, which may begin before the window and end after it.
            let step = part["processes"][0]["step_ns"].as_f64().expect("a step");
            let tasks = part["tasks"].as_array().expect("tasks");
            for (task, want) in tasks.iter().zip(&want) {
                let sums = task["sums"].as_array().expect("sums");
                assert!(sums.len() / 4 <= 1024);
                for state in 0..4 {
                    let drawn: f64 =
                        sums.iter().skip(state).step_by(4).map(|part| part.as_f64().unwrap()).sum();
                    let drawn = drawn * step / 1000.0;
                    let rounded = 2.0 * step + sums.len() as f64 / 4.0 * step / 1000.0;
                    assert!(
                        (drawn - want[state]).abs() <= rounded,
                        "{}: {drawn}, {}",
                        task["name"],
                        want[state]
                    );
                }
            }
        } else {
            same_times(&part, &want, from, to);
        }
    }
    // Other windows are compared too, also with waits across an edge of the window.
    let mut chance = thalweg_chance::Chance::new(7);
    for _ in 0..25 {
        let part = chance.below(1000) as f64 / 1000.0;
        let (from, length) = (part * 0.99 * duration, duration * 10_f64.powi(-(2 + chance.below(3) as i32)));
        let to = (from + length).min(duration);
        let drawn = json(&view.body(&format!("/timeline?from={from}&to={to}")));
        assert!(!drawn["exact_from_ns"].is_null(), "{from} to {to}");
        same_times(&drawn, &by_spans(all, from, to), from, to);
    }
    let exact = json(&view.body(&format!("/timeline?from={}&to={}", 0.4 * duration, 0.401 * duration)));
    assert!(!exact["exact_from_ns"].is_null(), "a small window is drawn span by span");
    for bad in ["", "?from=1", "?from=2&to=1", "?from=nan&to=inf", "?from=x&to=y"] {
        let and = if bad.is_empty() { "?" } else { "&" };
        let answer = view.get(&format!("/timeline{bad}{and}token={}", view.token()), "");
        assert!(answer.starts_with("HTTP/1.1 400"), "{bad}: {answer}");
    }
}

/// Waits until this many messages have left a run.
fn at_rest(run: &Run, messages: u64) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let output =
            des_run::thalweg().arg("report").arg(run.space()).arg("--json").output().expect("it starts");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if report["throughput"]["messages_out"].as_u64() == Some(messages) {
            return;
        }
        assert!(Instant::now() < until, "{}", report["throughput"]);
    }
}

/// A wait is shown even if it begins before, and ends after, all events that are read for a window.
#[test]
fn a_wait_that_began_long_before_a_window_and_goes_on_long_behind_it_is_drawn() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net =
        "net small connect ([{<idle>} -> {<idle>}] | [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n + 1>}]);";
    let idle = "{\"<idle>\": 1}\n";
    let busy: String = (0..60_000).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    let space = kept_of(folder.path(), net, [idle, &busy, idle].concat());
    let view = View::start(&space, &[]);
    let whole = json(&view.body("/page.json"));
    let events = whole["report"]["window"]["events"].as_u64().expect("a count");
    assert!(events > 300_000, "{events} events");
    let duration = whole["timeline"]["duration_ns"].as_f64().expect("a number");
    let (from, to) = (0.5 * duration, 0.52 * duration);
    let part = json(&view.body(&format!("/timeline?from={from}&to={to}")));
    assert!(!part["exact_from_ns"].is_null(), "it is drawn span by span");
    let drawn = by_spans(&part, from, to);
    let tasks = part["tasks"].as_array().expect("tasks");
    let idle = drawn.iter().zip(tasks).find(|(_, task)| {
        let streams = whole["report"]["components"].as_array().expect("components");
        let of = streams.iter().find(|of| of["path"] == task["component"]).expect("its component");
        of["work"]["messages_in"] == 2
    });
    let (times, task) = idle.unwrap_or_else(|| panic!("{}", whole["report"]["components"]));
    assert!(
        (times[1] - (to - from)).abs() <= 0.01 * (to - from),
        "{}: {times:?} of {}",
        task["name"],
        to - from
    );
}

/// Starts a run in mode full with one message a dispatch, and a thread that reads the run's output.
fn start_in_full(net: &str) -> (Run, std::thread::JoinHandle<()>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut run = Run::start_in(folder, net, &["--monitor", "full", "--quantum", "1"]);
    let mut output = run.child.stdout.take().expect("piped");
    let reading = std::thread::spawn(move || {
        let _ = std::io::copy(&mut output, &mut std::io::sink());
    });
    (run, reading)
}

/// The events of tasks' creations are overwritten before the first read.
#[test]
fn tasks_whose_creation_was_overwritten_are_called_by_their_names() {
    let net = "net first connect [{<n>, <left>} -> {<n>, <left = left - 1>}] ** {<left>} if <left <= 0>;";
    let (mut run, reading) = start_in_full(net);
    let messages = 8000;
    let input = run.child.stdin.as_mut().expect("piped");
    for n in 0..messages {
        writeln!(input, "{{\"<n>\": {n}, \"<left>\": 20}}").expect("it reads");
    }
    // The run rests when every task has run since it was created.
    at_rest(&run, messages);
    let output = des_run::thalweg().arg("events").arg(run.space()).arg("--json").output().expect("it starts");
    let created = String::from_utf8_lossy(&output.stdout).matches("exec.task_created").count();
    assert!(created < 10, "{created} creations are there still");
    let view = View::start(&run.space(), &[]);
    let page = json(&view.body("/page.json"));
    let tasks = page["timeline"]["tasks"].as_array().expect("tasks");
    assert!(tasks.len() > 15, "{} lanes", tasks.len());
    for task in tasks {
        let (name, component) =
            (task["name"].as_str().expect("text"), task["component"].as_str().expect("text"));
        assert!(
            (component.starts_with("first") || matches!(component, "source" | "sink"))
                && name.starts_with(component),
            "{task}"
        );
    }
    drop(run.child.stdin.take());
    run.end(0);
    reading.join().expect("all was read");
}

#[test]
fn older_detail_of_a_run_that_goes_on_is_read_from_its_rings() {
    let (mut run, reading) = live();
    feed(&mut run, 100);
    // All tasks wait: the page's open waits must agree with the waits as recorded later.
    at_rest(&run, 100);
    let view = View::start(&run.space(), &[]);
    // The page has every span as long as there are few.
    let first = json(&view.body("/page.json"));
    assert_eq!(first["timeline"]["exact_from_ns"].as_f64(), Some(0.0));
    let (from, to) = (0.0, 0.9 * first["timeline"]["duration_ns"].as_f64().expect("a number"));
    let host = format!("127.0.0.1:{}", view.port());
    let until = Instant::now() + Duration::from_secs(60);
    // When there are more, the page has only the last 2,000 spans.
    loop {
        let page = json(&view.body("/page.json"));
        if page["timeline"]["exact_from_ns"].as_f64() > Some(to) {
            break;
        }
        assert!(Instant::now() < until, "so few spans: {}", page["timeline"]["exact_from_ns"]);
        feed(&mut run, 500);
        // The page is updated only while there is a viewer.
        let mut events = TcpStream::connect(&host).expect("it listens");
        let line = format!("GET /events?token={} HTTP/1.1\r\nHost: {host}\r\n\r\n", view.token());
        events.write_all(line.as_bytes()).expect("it reads");
        let mut some = [0; 4096];
        for _ in 0..50 {
            let _ = events.read(&mut some);
        }
    }
    // Earlier spans are requested from the server, and are equal to those that the first page had.
    let part = json(&view.body(&format!("/timeline?from={from}&to={to}")));
    assert!(!part["exact_from_ns"].is_null(), "the rings have it still");
    let (then, now) = (by_spans(&first["timeline"], from, to), by_spans(&part, from, to));
    assert!(then.iter().map(|of| of[0]).sum::<f64>() > 0.0);
    for (task, (then, now)) in part["tasks"].as_array().expect("tasks").iter().zip(then.iter().zip(&now)) {
        for state in 0..4 {
            let near = (then[state] - now[state]).abs() <= 0.01 * (to - from) + 2000.0;
            assert!(near, "{} {state}: {} then, {} now", task["name"], then[state], now[state]);
        }
    }
    drop(run.child.stdin.take());
    run.end(0);
    reading.join().expect("all was read");
}

#[test]
fn a_window_whose_events_are_overwritten_is_drawn_in_sums() {
    let net = "net first connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n + 1>}];";
    let (mut run, reading) = start_in_full(net);
    feed(&mut run, 100);
    at_rest(&run, 100);
    let view = View::start(&run.space(), &[]);
    let first = json(&view.body("/page.json"));
    let to = 0.9 * first["timeline"]["duration_ns"].as_f64().expect("a number");
    let window = || json(&view.body(&format!("/timeline?from=0&to={to}")));
    assert!(!window()["exact_from_ns"].is_null(), "the rings have it still");
    // The worker's element holds fewer events than these messages make.
    feed(&mut run, 100_000);
    at_rest(&run, 100_100);
    let part = window();
    assert_eq!(part["exact_from_ns"], Value::Null, "{} gaps", part["gaps"]);
    let sums = part["tasks"].as_array().expect("tasks").iter();
    let sums = sums.flat_map(|task| task["sums"].as_array().expect("sums")).filter_map(Value::as_u64);
    assert!(sums.sum::<u64>() > 0, "the sums were made before");
    drop(run.child.stdin.take());
    run.end(0);
    reading.join().expect("all was read");
}

#[test]
fn without_viewers_no_events_are_read_and_the_next_viewer_sees_the_present() {
    let net = "net first connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n + 1>}];";
    let (mut run, reading) = start_in_full(net);
    feed(&mut run, 100);
    at_rest(&run, 100);
    let view = View::start(&run.space(), &["--window", "300ms"]);
    let page = || json(&view.body("/page.json"));
    assert_eq!(page()["timeline"]["gaps"].as_array().map(Vec::len), Some(0));
    // The worker's element holds fewer events than these messages make.
    feed(&mut run, 100_000);
    at_rest(&run, 100_100);
    let host = format!("127.0.0.1:{}", view.port());
    let mut events = TcpStream::connect(&host).expect("it listens");
    let line = format!("GET /events?token={} HTTP/1.1\r\nHost: {host}\r\n\r\n", view.token());
    events.write_all(line.as_bytes()).expect("it reads");
    let viewer = std::thread::spawn(move || std::io::copy(&mut events, &mut std::io::sink()));
    let until = Instant::now() + Duration::from_secs(60);
    let read = |page: &Value| page["report"]["throughput"]["messages_in"].as_u64();
    // The overwritten events are a gap in the timeline, and do not count in the window of the figures.
    let gap = loop {
        let page = page();
        if let Some(gap) = page["timeline"]["gaps"].get(0) {
            break gap["lost"].as_u64().expect("a count");
        }
        assert!(Instant::now() < until, "no gap: {}", page["report"]["window"]);
    };
    assert!(gap > 10_000, "{gap} events are in the gap");
    while read(&page()) != Some(0) {
        assert!(Instant::now() < until, "messages are read in a window in which the run rests");
    }
    feed(&mut run, 50);
    loop {
        let page = page();
        assert_eq!(page["report"]["window"]["lost"], 0);
        if read(&page) > Some(0) {
            break;
        }
        assert!(Instant::now() < until, "no message is seen");
    }
    drop(run.child.stdin.take());
    run.end(0);
    reading.join().expect("all was read");
    drop(view);
    let _ = viewer.join();
}

/// A run that records many events is shown by short windows of them, and by counters.
#[test]
fn a_run_with_very_many_events_is_shown_by_samples_and_by_counters() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = write(
        folder.path(),
        "fast.snet",
        "net fast connect [{<seq>} -> {<seq = seq + 1>}] .. [{<seq>} -> {<seq = seq + 1>}];",
    );
    let space = folder.path().join("space");
    let mut command = des_run::thalweg();
    command.args([
        "run",
        &net,
        "--monitor",
        "full",
        "--workers",
        "1",
        "--quantum",
        "1",
        "--rate",
        "20000",
        "--input",
        "/dev/zero",
    ]);
    command.args(["--input-bytes", "zeros", "--output", "/dev/null", "--output-bytes", "zeros", "--space"]);
    let run = command.arg(&space).stdin(std::process::Stdio::null()).spawn().expect("it starts");
    let run = Killed(run);
    let until = Instant::now() + Duration::from_secs(60);
    while !des_run::thalweg().arg("get").arg(&space).output().is_ok_and(|output| output.status.success()) {
        assert!(Instant::now() < until, "no space");
    }
    let view = View::start(&space, &["--window", "300ms"]);
    let host = format!("127.0.0.1:{}", view.port());
    let mut events = TcpStream::connect(&host).expect("it listens");
    let line = format!("GET /events?token={} HTTP/1.1\r\nHost: {host}\r\n\r\n", view.token());
    events.write_all(line.as_bytes()).expect("it reads");
    let viewer = std::thread::spawn(move || std::io::copy(&mut events, &mut std::io::sink()));
    let is_sampled = |page: &Value| {
        page["report"]["notes"]
            .as_array()
            .is_some_and(|notes| notes.iter().any(|note| note["code"] == "sampled"))
    };
    let page = loop {
        let page = json(&view.body("/page.json"));
        // The lanes begin with what was left in the run's elements.
        let is_long = page["timeline"]["duration_ns"].as_f64() > Some(3e9);
        let is_whole = is_long && page["report"]["window"]["lost"] == 0;
        if is_sampled(&page)
            && is_whole
            && page["report"]["latency"]["end_to_end"]["count"].as_u64() > Some(100)
        {
            break page;
        }
        assert!(
            Instant::now() < until,
            "no samples: {} {}",
            page["report"]["window"],
            page["report"]["latency"]
        );
    };
    // The figures of a sample are whole: nothing counts as lost, and all accounts add up.
    let report = &page["report"];
    assert_eq!((&report["window"]["lost"], &report["window"]["complete"]), (&json("0"), &json("true")));
    assert!(!report["notes"].to_string().contains("do not add up"), "{}", report["notes"]);
    // The worker does all the work of the filters.
    let filters = report["components"].as_array().expect("components").iter();
    let busy: f64 = filters
        .filter(|of| of["kind"] == "filter")
        .filter_map(|of| of["work"]["shares"]["busy"].as_f64())
        .sum();
    assert!((0.002..1.0).contains(&busy), "the filters are busy {busy} of the time");
    lanes_are_full(&page);
    drop((run, view));
    let _ = viewer.join();
}

/// Checks a page without single spans whose lanes are summed from counters.
fn lanes_are_full(page: &Value) {
    // The lanes, which are summed from counters, are full: every task is in some state all the time.
    let step = page["timeline"]["processes"][0]["step_ns"].as_f64().expect("a step");
    let until_ns = page["timeline"]["duration_ns"].as_f64().expect("a time");
    assert_eq!(page["timeline"]["exact_from_ns"], Value::Null);
    assert_eq!(page["timeline"]["gaps"].as_array().map(Vec::len), Some(0));
    let tasks = page["timeline"]["tasks"].as_array().expect("tasks");
    assert!(tasks.len() >= 4, "{} lanes", tasks.len());
    for task in tasks {
        let sums: Vec<f64> =
            task["sums"].as_array().expect("sums").iter().filter_map(Value::as_f64).collect();
        let drawn = sums.iter().sum::<f64>() * step / 1000.0;
        assert!(
            drawn > 0.7 * until_ns && drawn < 1.05 * until_ns,
            "{}: {drawn} ns of {until_ns} ns are drawn",
            task["name"]
        );
    }
}

/// A process that is killed when it is no longer needed.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether two figures, or all figures of two objects, are the same within a tolerance. Counts are equal.
/// Times may differ by one bucket of a histogram (up to 0.4 %): the rate of the clock is measured more
/// exactly with time, and a quantile may pass a bucket's edge.
fn near(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(Value::Number(one)), Some(Value::Number(other))) if one.is_f64() && other.is_f64() => {
            let (one, other) = (one.as_f64().unwrap_or(f64::NAN), other.as_f64().unwrap_or(f64::NAN));
            (one - other).abs() <= 4e-3 * one.abs()
        }
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            one.len() == other.len() && one.iter().all(|(name, value)| near(Some(value), other.get(name)))
        }
        (one, other) => one.is_some() && one == other,
    }
}

#[test]
fn the_page_of_a_run_that_goes_on_agrees_with_the_report() {
    let (mut run, reading) = live();
    feed(&mut run, 700);
    at_rest(&run, 700);
    let reported = || {
        let output =
            des_run::thalweg().arg("report").arg(run.space()).args(["--json", "--top", "100"]).output();
        json(&String::from_utf8_lossy(&output.expect("it starts").stdout))
    };
    let changing =
        |report: &Value| ["/window/events", "/verdict/kind"].map(|what| report.pointer(what).cloned());
    let until = Instant::now() + Duration::from_secs(60);
    // The page's window begins with the run, as the window of the report does. The page is compared if the
    // reports before and after it are equal: the runtime's last events come a moment after the last message,
    // and the verdict may change while a run rests.
    let (_view, page, report) = loop {
        let before = reported();
        let view = View::start(&run.space(), &["--window", "3600s"]);
        let page = json(&view.body("/page.json"));
        let report = reported();
        if changing(&before) == changing(&report) {
            break (view, page, report);
        }
        assert!(Instant::now() < until, "reports on a run at rest go on to change");
    };
    let same = |what: &str| {
        let (on_page, in_report) = (page["report"].pointer(what), report.pointer(what));
        assert!(near(on_page, in_report), "{what}: {on_page:?} on the page, {in_report:?} reported");
    };
    for what in [
        "/throughput/messages_in",
        "/throughput/messages_out",
        "/window/events",
        "/window/lost",
        "/latency",
        "/verdict/kind",
    ] {
        same(what);
    }
    let components = report["components"].as_array().expect("components");
    assert_eq!(page["report"]["components"].as_array().map(Vec::len), Some(components.len()));
    // Components are sorted by their load; shares change with time, but the order of components that worked
    // does not.
    for component in components {
        let pages = page["report"]["components"].as_array().expect("components");
        let at = pages.iter().position(|of| of["path"] == component["path"]).expect("its row");
        for what in [
            "tasks",
            "work/messages_in",
            "work/messages_out",
            "work/dispatches",
            "work/busy_ns",
            "work/service_ns",
        ] {
            let in_report = component.pointer(&format!("/{what}"));
            let on_page = pages[at].pointer(&format!("/{what}"));
            assert!(
                near(on_page, in_report),
                "{} {what}: {on_page:?} on the page, {in_report:?} reported",
                component["path"]
            );
        }
    }
    drop(run.child.stdin.take());
    run.end(0);
    reading.join().expect("all was read");
}

#[test]
fn a_run_with_many_events_is_shown_before_its_messages_have_stories() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = write(
        folder.path(),
        "many.snet",
        "net many connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n + 1>}];",
    );
    let space = folder.path().join("space");
    let input: String = (0..250_000).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    let path = space.to_str().expect("UTF-8");
    let run = program::run(&[&net, "--monitor", "full", "--quantum", "1", "--keep", "--space", path], &input);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let view = View::start(&space, &[]);
    let host = format!("127.0.0.1:{}", view.port());
    let mut events = TcpStream::connect(&host).expect("it listens");
    let line = format!("GET /events?token={} HTTP/1.1\r\nHost: {host}\r\n\r\n", view.token());
    events.write_all(line.as_bytes()).expect("it reads");
    let (mut text, mut some) = (String::new(), [0; 1 << 16]);
    while !text.contains("\"stories\":[{") {
        let count = events.read(&mut some).expect("the server sends a page with stories");
        assert!(count > 0, "the server ended: {} bytes", text.len());
        text.push_str(&String::from_utf8_lossy(&some[..count]));
    }
    let early = text.find("\"stories\":[]").expect("a page without stories comes first");
    let events: f64 =
        json(&view.body("/page.json"))["report"]["window"]["events"].as_f64().expect("a number");
    assert!(events >= 1e6 && early < text.len(), "{events} events");
}

#[test]
fn an_address_beyond_this_machine_is_refused_with_advice() {
    let output = des_run::thalweg().args(["view", "--address", "0.0.0.0"]).output().expect("it starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr.contains("127.0.0.1") && stderr.contains("ssh -L") && stderr.trim_end().lines().count() <= 3,
        "{stderr}"
    );
}

#[test]
fn a_server_that_is_started_anew_at_its_port_has_its_address_and_nobody_else_knows_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = kept(folder.path(), 100);
    let port = free_port();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.env("THALWEG_SPACES", folder.path());
        View::started(command, &space, &["--port", &port])
    };
    let first = start().address.clone();
    let place = folder.path().join(format!("view-{port}.token"));
    assert_eq!(std::fs::metadata(&place).expect("it is kept").permissions().mode() & 0o777, 0o600);
    assert_eq!(start().address, first);
    // A token that other users could have read is not used again.
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    assert_ne!(start().address, first);
    std::fs::write(&place, "short").expect("it is ours");
    assert!(start().token().len() == 32);
}

#[test]
fn slow_clients_and_a_thousand_connections_hinder_nobody() {
    let (mut run, reading) = live();
    feed(&mut run, 2000);
    let view = View::start(&run.space(), &[]);
    let connect = || TcpStream::connect(format!("127.0.0.1:{}", view.port()));
    let host = format!("127.0.0.1:{}", view.port());
    // Some clients request events and read nothing, and some send a byte and wait.
    let mut slow = Vec::new();
    for n in 0..40 {
        let Ok(mut stream) = connect() else { continue };
        let line = format!("GET /events?token={} HTTP/1.1\r\nHost: {host}\r\n\r\n", view.token());
        let part = if n % 2 == 0 { line.as_bytes() } else { b"G" };
        let _ = stream.write_all(part);
        slow.push(stream);
    }
    // Other clients are served in spite of the slow ones, each page within a few seconds.
    for _ in 0..5 {
        feed(&mut run, 200);
        let begun = Instant::now();
        assert!(json(&view.body("/page.json"))["schema"] == "thalweg.page");
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    }
    // A thousand clients send requests at once: connections above the limit are closed, and none hangs.
    let mut many: Vec<TcpStream> = (0..1000).filter_map(|_| connect().ok()).collect();
    for stream in &mut many {
        let line =
            format!("GET /?token={} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", view.token());
        let _ = stream.write_all(line.as_bytes());
    }
    let mut answered = 0;
    for stream in &mut many {
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => answered += usize::from(answer.starts_with(b"HTTP/1.1 200")),
            Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "one hangs"),
        }
    }
    assert!(answered >= 100, "{answered} were answered");
    drop((many, slow));
    let until = Instant::now() + Duration::from_secs(30);
    while !view.get(&format!("/?token={}", view.token()), "").starts_with("HTTP/1.1 200") {
        assert!(Instant::now() < until, "nobody is answered any more");
    }
    // The descriptors of the closed connections are freed.
    let count = || std::fs::read_dir(format!("/proc/{}/fd", view.child.id())).expect("it lives").count();
    while count() > 100 {
        assert!(Instant::now() < until, "{} descriptors", count());
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(run.child.stdin.take());
    run.end(0);
    reading.join().expect("all was read");
}

#[test]
fn a_damaged_space_is_served_as_far_as_it_can_be_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = kept(folder.path(), 2000);
    let mut chance = thalweg_chance::Chance::new(29);
    for entry in std::fs::read_dir(&space).expect("a space").flatten() {
        let Ok(mut bytes) = std::fs::read(entry.path()) else { continue };
        if !entry.file_name().to_string_lossy().ends_with(".segment") || bytes.len() < 500 {
            continue;
        }
        for _ in 0..20 {
            let at = 200 + chance.below(bytes.len() as u64 - 200) as usize;
            bytes[at] = chance.below(256) as u8;
        }
        std::fs::write(entry.path(), bytes).expect("it is ours");
    }
    let view = View::start(&space, &[]);
    assert!(view.address.starts_with("http://127.0.0.1:"), "{}", view.address);
    let until = Instant::now() + Duration::from_secs(60);
    // The server either shows all readable events, or reports that there are none.
    loop {
        let answer = view.get(&format!("/page.json?token={}", view.token()), "");
        if answer.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(answer.starts_with("HTTP/1.1 503"), "{}", answer.lines().next().unwrap_or_default());
        if answer.contains("cannot be shown") {
            return;
        }
        assert!(Instant::now() < until, "nothing is shown");
        std::thread::sleep(Duration::from_millis(50));
    }
    view.body("/timeline?from=0&to=1000000");
}
