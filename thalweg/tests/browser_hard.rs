//! The page in a browser in difficult cases: a live network, one of 10,000 components, a session, tuning,
//! calls and comparison, a run that is killed, a server that is started again, keyboards and screen readers,
//! hostile names and origins. `cargo xtask test --only pictures` runs this file.

mod browser_run;
mod controlled;
mod des_run;
mod program;
mod viewed;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use browser_run::{Browser, browser};
use program::write;
use serde_json::{Value, json};
use viewed::{View, feed, free_port, live};

/// Opens every tab of the page. Each tab shows something, and no script reports an error.
fn every_tab(browser: &mut Browser) {
    let tabs = browser.value("[...document.querySelectorAll('#tabs button')].map((tab) => tab.id.slice(4))");
    for tab in tabs.as_array().expect("tabs") {
        let tab = tab.as_str().expect("a name");
        browser.value(&format!("window.thalweg.openTab('{tab}')"));
        browser.wait("document.getElementById('tab').textContent.length > 0");
    }
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
}

fn report_of(space: &Path) -> Value {
    let output =
        des_run::succeed(des_run::thalweg().arg("report").arg(space).args(["--json", "--top", "100"]));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn html(space: &Path, more: &[&str], file: &Path) {
    des_run::succeed(des_run::thalweg().arg("report").arg(space).args(more).arg("--html").arg(file));
}

fn kept(folder: &Path, name: &str, messages: usize, more: &[&str]) -> PathBuf {
    let net = write(
        folder,
        "small.snet",
        "net small connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n * 2>}];",
    );
    let space = folder.join(name);
    let input: String = (0..messages).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    let path = space.to_str().expect("UTF-8");
    let run =
        program::run(&[&[&net[..], "--monitor", "full", "--keep", "--space", path], more].concat(), &input);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    space
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn every_panel_shows_des_while_it_runs_and_agrees_with_the_report_in_the_end() {
    let Some(mut browser) = browser("every_panel_shows_des_while_it_runs") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, space) = (folder.path().join("plain"), folder.path().join("space"));
    des_run::made_file(&input, 3 << 20);
    let mut run = des_run::encrypt(&input, &folder.path().join("encrypted"), 2, "full");
    run.args(["--keep", "--space"])
        .arg(&space)
        .args(["--rate", "600", "--chunk", "1024"])
        .stderr(Stdio::null());
    let mut run = run.spawn().expect("thalweg starts");
    while !space.join("space").is_file() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let view = View::start(&space, &[]);
    browser.open(&view.address);
    browser.wait("window.thalweg.data.live.sequence > 3 && window.thalweg.data.report.components.length > 5");
    every_tab(&mut browser);
    // The page, which is paused here, agrees with the data from which it was made.
    browser.value("window.thalweg.paused = true; window.thalweg.openTab('components')");
    assert!(
        browser.value(
            "(() => { const rows = [...document.querySelectorAll('#tab tbody tr')]; const { components } = window.thalweg.data.report; \
             return rows.length === components.length && rows.every((row, n) => row.cells[0].textContent === components[n].path \
             && Number(row.cells[3].dataset.value) === components[n].work.messages_in); })()"
        ) == true
    );
    browser.value("window.thalweg.paused = false");
    assert!(run.wait().expect("it ends").success());
    browser.wait("window.thalweg.data.live.running === false");
    browser.wait("window.thalweg.data.report.window.duration_ns > 1e8");
    // When the run has ended, the page shows the whole run, in agreement with the report.
    let report = report_of(&space);
    browser.wait(&format!(
        "window.thalweg.data.report.throughput.messages_in === {}",
        report["throughput"]["messages_in"]
    ));
    assert_eq!(
        browser.text("document.getElementById('verdict-text').textContent"),
        report["verdict"]["text"]
    );
    every_tab(&mut browser);
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn ten_thousand_components_are_drawn_and_moved() {
    let Some(mut browser) = browser("ten_thousand_components_are_drawn_and_moved") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    // A net of 10 nets of 10 nets of 100 filters.
    let filter = "[{<n>} -> {<n = n + 1>}]";
    let boxes = |count: usize, part: &str| vec![part; count].join(" .. ");
    let text = format!(
        "net large {{ net hundred connect {}; net thousand connect {}; }} connect {};",
        boxes(100, filter),
        boxes(10, "hundred"),
        boxes(10, "thousand")
    );
    let net = write(folder.path(), "large.snet", &text);
    let space = folder.path().join("space");
    let path = space.to_str().expect("UTF-8");
    let run =
        program::run(&[&net, "--monitor", "full", "--keep", "--space", path], "{\"<n>\": 1}\n{\"<n>\": 2}\n");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let file = folder.path().join("large.html");
    html(&space, &[], &file);
    browser.open_file(&file);
    let count = browser.value("window.thalweg.data.networks.at(-1).nodes.length").as_u64().expect("a number");
    assert!(count >= 10_000, "{count} nodes");
    // The page begins with folded nets, so that their names can be read.
    assert!(browser.value("window.thalweg.graph.network.nodes.length").as_u64() <= Some(400));
    browser.value("window.thalweg.graph.show(window.thalweg.data.networks.length - 1)");
    let drawn = "(() => { const c = document.getElementById('graph'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 3; i < d.length; i += 4) if (d[i]) n++; return n; })()";
    browser.wait(&format!("{drawn} > 500"));
    // The view zooms from the whole network to one component.
    browser.key("g");
    for _ in 0..40 {
        browser.key("+");
    }
    browser.key("n");
    browser.key("Enter");
    browser.wait("window.thalweg.chosen !== null");
    browser.key("Escape");
    every_tab(&mut browser);
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn all_processes_of_a_session_are_on_one_page() {
    let Some(mut browser) = browser("all_processes_of_a_session_are_on_one_page") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = write(
        folder.path(),
        "two.snet",
        "net two connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n * 2>}];",
    );
    let session = folder.path().join("together");
    for messages in [300, 400] {
        let input: String = (0..messages).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
        let mut run = des_run::thalweg();
        run.args(["run", &net, "--monitor", "full", "--keep"]).env("THALWEG_SESSION", &session);
        assert!(program::fed(&mut run, &input).status.success());
    }
    let view = View::start(&session, &[]);
    browser.open(&view.address);
    let report = report_of(&session);
    assert_eq!(
        browser.text("document.getElementById('verdict-text').textContent"),
        report["verdict"]["text"]
    );
    // Each process has its lanes on one time axis: the second process began when the first process had ended.
    let lanes = browser.value("window.thalweg.timeline.rows().map((row) => row.title)");
    let lanes: Vec<&str> =
        lanes.as_array().expect("rows").iter().map(|row| row.as_str().expect("text")).collect();
    for process in ["1", "2"] {
        assert!(lanes.iter().any(|lane| lane.contains(&format!("worker {process}/"))), "{lanes:?}");
    }
    let busy = browser.value(
        "[1, 2].map((process) => { const { tasks } = window.thalweg.data.timeline; const { spans } = window.thalweg; \
         const own = tasks.map((task, n) => ({ task, lane: spans.tasks[n] })).filter(({ task }) => task.name.startsWith(`${process}/`)); \
         return [own.reduce((sum, { lane }) => sum + lane.before[0][lane.size], 0), Math.min(...own.map(({ lane }) => lane.size ? lane.start[0] : Infinity)), \
         Math.max(...own.map(({ lane }) => lane.size ? lane.end[lane.size - 1] : 0))]; })",
    );
    let figure = |process: usize, at: usize| busy[process][at].as_f64().expect("a number");
    assert!(figure(1, 1) >= figure(0, 2), "{busy}");
    for process in [0, 1] {
        let components = report["components"].as_array().expect("components");
        let own = components
            .iter()
            .filter(|one| one["path"].as_str().unwrap().starts_with(&format!("{}/", process + 1)));
        let reported_ns: f64 = own.map(|one| one["work"]["busy_ns"].as_f64().expect("full")).sum();
        assert!(
            figure(process, 0) >= reported_ns * 0.999,
            "process {process}: {reported_ns} reported, {} drawn",
            figure(process, 0)
        );
    }
    // A message of the second process is highlighted in that process's lanes.
    let stories = browser
        .value("window.thalweg.data.stories.filter((shown) => shown.story.message.startsWith('2/')).length");
    assert!(stories.as_u64() > Some(0));
    let inside = browser.value(
        "window.thalweg.data.stories.filter((shown) => shown.story.message.startsWith('2/')).every((shown) => shown.story.hops.every((hop) => hop.read_ns === null || hop.read_ns > window.thalweg.spans.tasks.find((lane, n) => window.thalweg.data.timeline.tasks[n].name.startsWith('2/') && lane.size).start[0] - 1e6))",
    );
    assert_eq!(inside, true);
    // The settings of each process begin with its number.
    let settings = browser.value("window.thalweg.data.settings.filter((one) => one.name.endsWith('/exec.quantum')).map((one) => one.name)");
    assert_eq!(settings, json!(["1/exec.quantum", "2/exec.quantum"]));
    every_tab(&mut browser);
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn what_a_tuner_decided_stands_on_the_page() {
    let Some(mut browser) = browser("what_a_tuner_decided_stands_on_the_page") else { return };
    let (mut run, reading) = live();
    feed(&mut run, 200);
    // A tuner that only advises records that it began, and that it ended.
    let tuned =
        des_run::thalweg().arg("tune").arg(run.space()).args(["--for", "2s"]).output().expect("it starts");
    assert!(tuned.status.success(), "{}", String::from_utf8_lossy(&tuned.stderr));
    let log = des_run::succeed(des_run::thalweg().args(["tune", "log"]).arg(run.space()).arg("--json"));
    let log: Vec<Value> = String::from_utf8(log.stdout)
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert!(!log.is_empty());
    let view = View::start(&run.space(), &[]);
    browser.open(&view.address);
    browser.wait(&format!("window.thalweg.data.timeline.decisions.length >= {}", log.len()));
    browser.value("window.thalweg.openTab('tuning')");
    let rows = browser.value("[...document.querySelectorAll('#tab tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))");
    for (row, decision) in rows.as_array().expect("rows").iter().zip(&log) {
        assert_eq!(row[0].as_str().expect("text"), decision["number"].to_string());
        assert_eq!(row[2], decision["what"]);
        assert_eq!(row[7], decision["why"]);
    }
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
    drop(run.child.stdin.take());
    run.end(0);
    reading.join().expect("all was read");
}

/// A program with probes, in C.
const SHOP: &str = r#"
#include "thalweg_probe.h"
static int price(int item) { THALWEG_PROBE(); return item * 3; }
int order(int items) { int sum = 0, n; THALWEG_PROBE(); for (n = 0; n < items; n++) sum += price(n); return sum; }
int main(void) { int n; for (n = 0; n < 1000; n++) order(n % 5); return 0; }
"#;

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn calls_of_a_program_with_probes_stand_on_the_page() {
    let Some(mut browser) = browser("calls_of_a_program_with_probes_stand_on_the_page") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, program) = (write(folder.path(), "shop.c", SHOP), folder.path().join("shop"));
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-I"]).arg(des_run::root().join("bindings/c")).arg(source).arg("-o").arg(&program);
    assert!(compile.status().expect("a C compiler").success());
    let spaces = folder.path().join("spaces");
    std::fs::create_dir(&spaces).expect("a folder");
    assert!(Command::new(&program).env("THALWEG_SPACES", &spaces).status().expect("it starts").success());
    let space = std::fs::read_dir(&spaces).expect("a folder").flatten().next().expect("its space").path();
    let output = des_run::succeed(des_run::thalweg().arg("calls").arg(&space).arg("--json"));
    let calls: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let file = folder.path().join("shop.html");
    html(&space, &[], &file);
    let view = View::start(&space, &[]);
    for address in [format!("file://{}", file.display()), view.address.clone()] {
        browser.open(&address);
        browser.wait("window.thalweg.calls !== null && document.getElementById('tab-calls') !== null");
        browser.value("window.thalweg.openTab('calls')");
        let rows = "[...[...document.querySelectorAll('#tab table')][AT].tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.dataset.value ?? cell.textContent))";
        let operations = browser.value(&rows.replace("AT", "0"));
        let all = calls["operations"].as_array().expect("operations");
        assert_eq!(operations.as_array().expect("rows").len(), all.len());
        for (row, operation) in operations.as_array().expect("rows").iter().zip(all) {
            assert_eq!(
                (&row[0], row[1].as_str()),
                (&operation["name"], Some(&operation["count"].to_string()[..]))
            );
        }
        // The page has the calls as a tree, with `price` below `order`.
        let tree = browser.value(&rows.replace("AT", "1"));
        assert_eq!((tree[0][0].as_str(), tree[0][1].as_str()), (Some("order"), Some("1000")));
        assert_eq!((tree[1][0].as_str().map(str::trim), tree[1][1].as_str()), (Some("price"), Some("2000")));
        let edges = browser.value("window.thalweg.calls.graph.edges.map((edge) => [edge.from, edge.to].map((at) => window.thalweg.calls.operations[at].name))");
        assert_eq!(edges, json!([["order", "price"]]));
        assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
    }
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn two_runs_stand_beside_one_another() {
    let Some(mut browser) = browser("two_runs_stand_beside_one_another") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let old = kept(folder.path(), "old", 300, &["--workers", "1"]);
    let new = kept(folder.path(), "new", 500, &["--workers", "2"]);
    let file = folder.path().join("both.html");
    html(&new, &["--compare", old.to_str().expect("UTF-8")], &file);
    browser.open_file(&file);
    check_comparison(&mut browser, &old, &new);
    // The page that `thalweg view` serves shows the same comparison as the file.
    let view = View::start(&new, &["--compare", old.to_str().expect("UTF-8")]);
    browser.open(&view.address);
    browser.wait("window.thalweg.other !== null");
    check_comparison(&mut browser, &old, &new);
}

fn check_comparison(browser: &mut Browser, old: &Path, new: &Path) {
    browser.value("window.thalweg.openTab('compare')");
    let text = browser.text("document.getElementById('compared').textContent");
    for space in [old, new] {
        let report = report_of(space);
        assert!(text.contains(report["verdict"]["text"].as_str().expect("text")), "{text}");
    }
    let figures = browser.value("[...document.querySelectorAll('#tab table')][0].tBodies[0].rows.length");
    assert_eq!(figures, 7);
    // The second table has the messages of each component in both runs.
    let rows = browser.value("[...[...document.querySelectorAll('#tab table')][1].tBodies[0].rows].map((row) => [...row.cells].slice(0, 3).map((cell) => cell.dataset.value ?? cell.textContent))");
    for (at, space) in [(1, old), (2, new)] {
        for component in report_of(space)["components"].as_array().expect("components") {
            let row =
                rows.as_array().unwrap().iter().find(|row| row[0] == component["path"]).expect("its row");
            assert_eq!(row[at].as_str().expect("a number"), component["work"]["messages_in"].to_string());
        }
    }
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn the_page_outlives_a_killed_run_and_finds_a_server_that_is_started_anew() {
    let Some(mut browser) = browser("the_page_outlives_a_killed_run") else { return };
    let (mut run, reading) = live();
    feed(&mut run, 2000);
    let port = free_port();
    let tokens = tempfile::tempdir().expect("a temporary folder");
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.env("THALWEG_SPACES", tokens.path());
        View::started(command, &run.space(), &["--port", &port])
    };
    let view = start();
    browser.open(&view.address);
    browser.wait("window.thalweg.data.live.running");
    let server = view.child.id();
    drop(view);
    browser.wait("document.getElementById('state').textContent.includes('does not answer')");
    let view = start();
    assert_ne!(view.child.id(), server);
    browser.value("window.thalweg.marked = window.thalweg.data");
    browser.wait("window.thalweg.data !== window.thalweg.marked && !document.getElementById('state').textContent.includes('does not answer')");
    // The run is killed: the page stays, and says that the run was killed.
    run.child.kill().expect("it lives");
    run.child.wait().expect("it ends");
    browser.wait("document.getElementById('state').textContent.includes('gone')");
    browser.wait("window.thalweg.data.report.window.state === 'killed'");
    browser.value("window.thalweg.openTab('components')");
    assert!(browser.value("document.querySelectorAll('#tab tbody tr').length").as_u64() > Some(0));
    reading.join().expect("all was read");
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn keys_reach_everything_and_screen_readers_get_names() {
    let Some(mut browser) = browser("keys_reach_everything") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("page.html");
    html(&kept(folder.path(), "space", 500, &[]), &[], &file);
    browser.open_file(&file);
    browser.call("Accessibility.enable", json!({}));
    let tabs = browser.value("[...document.querySelectorAll('#tabs button')].map((tab) => tab.id.slice(4))");
    for tab in tabs.as_array().expect("tabs") {
        browser.value(&format!("window.thalweg.openTab({tab})"));
        let tree = browser.call("Accessibility.getFullAXTree", json!({}));
        for node in tree["nodes"].as_array().expect("nodes").iter().filter(|node| node["ignored"] != true) {
            let role = node["role"]["value"].as_str().unwrap_or("");
            let controls = [
                "button",
                "textbox",
                "combobox",
                "tab",
                "img",
                "application",
                "Canvas",
                "link",
                "dialog",
                "tabpanel",
                "table",
            ];
            let name = node["name"]["value"].as_str().unwrap_or("");
            assert!(
                !controls.contains(&role) || !name.trim().is_empty(),
                "{tab}: a {role} has no name: {node:#}"
            );
        }
    }
    // Tab goes to every control that the mouse can press, and each shows that it has the focus.
    browser.value("window.thalweg.openTab('components'); document.activeElement.blur()");
    let wanted = browser.value("document.querySelectorAll('button:not([tabindex=\"-1\"]), select, input, canvas[tabindex=\"0\"], a[href]').length").as_u64().expect("a number");
    let mut met = std::collections::HashSet::new();
    for _ in 0..wanted + 20 {
        browser.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9 }),
        );
        browser.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9 }),
        );
        let at = browser.value(
            "(() => { const of = document.activeElement; if (!of || of === document.body) return null; const all = [...document.querySelectorAll('*')]; \
             const style = getComputedStyle(of); return [all.indexOf(of), of.matches('button, select, input, canvas, a[href]'), style.outlineStyle !== 'none' || of.matches('#skip')]; })()",
        );
        if at.is_null() {
            continue;
        }
        assert_eq!(
            at[2],
            true,
            "no outline: {}",
            browser.text("document.activeElement.outerHTML.slice(0, 200)")
        );
        if at[1] == true {
            met.insert(at[0].as_u64());
        }
    }
    assert!(met.len() as u64 >= wanted, "{} of {wanted} controls", met.len());
    // The arrow keys move from tab to tab.
    browser.value("document.getElementById('tab-components').focus()");
    browser.key("ArrowRight");
    assert_eq!(browser.text("document.activeElement.id"), "tab-latency");
    browser.key("0");
    assert_eq!(browser.text("window.thalweg.tab"), tabs[9].as_str().expect("ten tabs"));
    // With the preference for reduced motion, nothing is animated.
    assert_eq!(browser.value("document.getAnimations().length"), 0);
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn a_page_of_another_origin_gets_nothing_and_changes_nothing() {
    let Some(mut browser) = browser("a_page_of_another_origin_gets_nothing") else { return };
    let (mut run, reading) = live();
    feed(&mut run, 500);
    let view = View::start(&run.space(), &[]);
    // An attacker's page of another origin is refused, even with the token.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let evil = folder.path().join("evil.html");
    let base = format!("http://127.0.0.1:{}", view.port());
    let token = view.token();
    let text = format!(
        "<!doctype html><iframe src=\"{base}/?token={token}\"></iframe><img src=\"{base}/page.json?token={token}\"><script>\
         window.got = []; const tried = [fetch('{base}/page.json?token={token}'), fetch('{base}/page.json?token={token}', {{ mode: 'no-cors' }}), \
         fetch('{base}/apply?token={token}', {{ method: 'POST', mode: 'no-cors', body: '{{\"set\":{{\"setting\":\"exec.quantum\",\"value\":\"99\",\"gain\":null}}}}' }})]; \
         Promise.allSettled(tried).then(async (all) => {{ for (const one of all) window.got.push(one.value ? await one.value.text().catch(() => '') : ''); window.done = true; }});\
         </script>"
    );
    std::fs::write(&evil, text).expect("a file");
    browser.call("Page.navigate", json!({ "url": format!("file://{}", evil.display()) }));
    browser.wait("window.done === true");
    assert_eq!(browser.value("window.got.every((text) => text === '')"), true);
    assert_eq!(browser.value("document.images[0].naturalWidth"), 0);
    let quantum =
        des_run::succeed(des_run::thalweg().arg("get").arg(run.space()).args(["exec.quantum", "--json"]));
    assert_ne!(serde_json::from_slice::<Value>(&quantum.stdout).expect("JSON")["value"], 99);
    drop(run.child.stdin.take());
    run.end(0);
    reading.join().expect("all was read");
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn the_page_looks_as_it_did() {
    let Some(mut browser) = browser("the_page_looks_as_it_did") else { return };
    // The data are constant, and come from a report that other tests read, too.
    let report: thalweg_monitor::Report =
        serde_json::from_str(include_str!("data/report.json")).expect("a report");
    let timeline = thalweg_view::TimelinePage {
        duration_ns: 1e6,
        processes: vec![thalweg_view::Process { name: String::new(), sums_from_ns: 0.0, step_ns: 125_000.0 }],
        workers: (0..2)
            .map(|id| thalweg_view::WorkerLane {
                id,
                name: id.to_string(),
                process: 0,
                sums: (0..8)
                    .flat_map(|n| [100 * n as u32, 1000 - 100 * n as u32 - 50 * id as u32, 0, 0])
                    .collect(),
            })
            .collect(),
        ..thalweg_view::TimelinePage::default()
    };
    let page = thalweg_view::Page::of(report, "the report as text".to_owned(), timeline);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("page.html");
    std::fs::write(&file, page.file().expect("a page")).expect("a file");
    let size = json!({ "width": 1280, "height": 1000, "deviceScaleFactor": 1, "mobile": false });
    browser.call("Emulation.setDeviceMetricsOverride", size);
    for theme in ["light", "dark"] {
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        browser.call("Emulation.setEmulatedMedia", media);
        browser.open_file(&file);
        browser.wait(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))",
        );
        let shot = browser.call("Page.captureScreenshot", json!({ "format": "png" }));
        let shot = shot["data"].as_str().expect("a picture").to_owned();
        let golden = des_run::root().join(format!("thalweg/tests/data/page-{theme}.png"));
        if std::env::var_os("UPDATE").is_some() {
            // The picture is decoded by the browser itself, which can read base64.
            let bytes = browser.value(&format!("[...atob('{shot}')].map((c) => c.charCodeAt(0))"));
            let bytes: Vec<u8> =
                bytes.as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8).collect();
            std::fs::write(&golden, bytes).expect("the picture can be written");
            continue;
        }
        let known = std::fs::read(&golden).expect("a picture that a person looked at");
        // Fonts differ from machine to machine: parts of 8 × 8 points are compared, by their mean colour.
        let known = serde_json::to_string(&known).expect("numbers");
        let differ = browser.value(&format!(
            "(async () => {{ const of = async (bytes) => {{ const image = await createImageBitmap(new Blob([bytes], {{ type: 'image/png' }})); const canvas = new OffscreenCanvas(160, 125); \
             const context = canvas.getContext('2d'); context.imageSmoothingQuality = 'high'; context.drawImage(image, 0, 0, 160, 125); return context.getImageData(0, 0, 160, 125).data; }}; \
             const now = await of(Uint8Array.from(atob('{shot}'), (c) => c.charCodeAt(0))); const then = await of(Uint8Array.from({known})); let far = 0; \
             for (let n = 0; n < now.length; n += 4) if (Math.hypot(now[n] - then[n], now[n + 1] - then[n + 1], now[n + 2] - then[n + 2]) > 60) far++; return far; }})()"
        ));
        assert!(
            differ.as_u64() < Some(160 * 125 / 50),
            "{theme}: {differ} of 20,000 parts look otherwise (UPDATE=1 takes the picture anew)"
        );
    }
}
