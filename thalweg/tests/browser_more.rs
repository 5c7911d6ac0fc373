//! The page in a browser: panels that follow a window of time, stories that the server is asked for, nodes and
//! links, attached programs, the lines on which waiting leads to the limit of the flow, help, print. `cargo
//! xtask test --only pictures` runs this file.

mod attached;
mod browser_run;
mod controlled;
mod des_run;
mod program;
mod viewed;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use attached::{Target, ran, until};
use browser_run::{Browser, browser};
use program::write;
use serde_json::{Value, json};
use viewed::{View, feed, live};

fn html(space: &Path, file: &Path) {
    des_run::succeed(des_run::thalweg().arg("report").arg(space).arg("--html").arg(file));
}

/// A kept run of a small network.
fn kept(folder: &Path, messages: usize) -> PathBuf {
    let net = write(
        folder,
        "small.snet",
        "net small connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n * 2>}];",
    );
    let space = folder.join("space");
    let input: String = (0..messages).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    let path = space.to_str().expect("UTF-8");
    let run = program::run(&[&net, "--monitor", "full", "--keep", "--space", path], &input);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    space
}

/// The rows of the tab's n-th table, each cell as its exact value or its text.
fn rows(browser: &mut Browser, table: usize) -> Vec<Vec<String>> {
    let rows = browser.value(&format!(
        "[...[...document.querySelectorAll('#tab table')][{table}].tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.dataset.value ?? cell.textContent))"
    ));
    serde_json::from_value(rows).expect("rows of texts")
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn all_panels_follow_the_window() {
    let Some(mut browser) = browser("all_panels_follow_the_window") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = kept(folder.path(), 30_000);
    let view = View::start(&space, &[]);
    browser.open(&view.address);
    let read = "window.thalweg.report.components.map((of) => [of.path, of.work.messages_in])";
    let whole = browser.value(read);
    assert!(browser.value("document.getElementById('about-window') === null") == true);
    let mut parts = Vec::new();
    for part in ["0, 0.5", "0.5, 1"] {
        browser.value(&format!(
            "(() => {{ const whole = window.thalweg.data.timeline.duration_ns; const [from, to] = [{part}]; window.thalweg.show(from * whole, to * whole); }})()"
        ));
        browser.wait("window.thalweg.report !== window.thalweg.data.report");
        parts.push(browser.value(read));
        // Every tab whose figures come from a report has those of the window, and says so.
        for tab in ["components", "latency", "occupancy", "waiting", "workers", "losses"] {
            browser.value(&format!("window.thalweg.openTab('{tab}')"));
            let about = browser.text("document.getElementById('about-window').textContent");
            assert!(about.contains("those of the window"), "{tab}: {about}");
        }
        let length = browser
            .value("window.thalweg.report.window.duration_ns / (window.thalweg.to - window.thalweg.from)");
        assert!((length.as_f64().expect("a number") - 1.0).abs() < 0.1, "{length}");
    }
    // Together the halves have the messages of the whole run.
    let count = |of: &Value, path: &Value| {
        let all = of.as_array().expect("rows").iter();
        all.filter(|row| row[0] == *path).filter_map(|row| row[1].as_f64()).sum::<f64>()
    };
    for row in whole.as_array().expect("rows") {
        let (all, both) =
            (row[1].as_f64().unwrap_or(0.0), count(&parts[0], &row[0]) + count(&parts[1], &row[0]));
        assert!((all - both).abs() <= 0.02 * all, "{}: {all} in all, {both} in both halves", row[0]);
        assert!(all == 0.0 || count(&parts[0], &row[0]) < all, "{}", row[0]);
    }
    browser.key("Escape");
    assert!(browser.value("window.thalweg.report === window.thalweg.data.report") == true);
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn a_file_shows_workers_and_waiting_of_the_window() {
    let Some(mut browser) = browser("a_file_shows_workers_and_waiting_of_the_window") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (space, file) = (kept(folder.path(), 2000), folder.path().join("page.html"));
    html(&space, &file);
    browser.open_file(&file);
    // The waiting of all windows of a tenth is that of the whole run.
    let sums = |browser: &mut Browser| {
        browser.value("window.thalweg.openTab('waiting')");
        let table = browser.value("[...document.querySelectorAll('#tab table')].findIndex((of) => of.tHead.rows[0].cells.length === 6)");
        let rows = rows(browser, table.as_u64().expect("a table") as usize);
        rows.iter().map(|row| row[4].parse::<f64>().expect("a time")).sum::<f64>()
    };
    let whole = sums(&mut browser);
    let mut parts = 0.0;
    for n in 0..10 {
        browser.value(&format!("(() => {{ const tenth = window.thalweg.data.timeline.duration_ns / 10; window.thalweg.show({n} * tenth, {n} * tenth + tenth); }})()"));
        parts += sums(&mut browser);
    }
    assert!((parts - whole).abs() < 0.05 * whole, "{parts} in parts, {whole} in all");
    browser.value("window.thalweg.openTab('workers')");
    for row in rows(&mut browser, 0) {
        let shares = [&row[1], &row[2]].map(|share| share.parse::<f64>().expect("a share"));
        assert!(shares[0] + shares[1] <= 1.001 && shares[0] >= 0.0, "{row:?}");
    }
    browser.value("window.thalweg.openTab('latency')");
    assert!(browser.text("document.getElementById('about-window').textContent").contains("whole run"));
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn the_server_is_asked_for_the_story_of_a_message_that_is_pointed_at() {
    let Some(mut browser) = browser("the_server_is_asked_for_the_story") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let view = View::start(&kept(folder.path(), 5000), &[]);
    browser.open(&view.address);
    // A dispatch whose messages have no story in the page.
    let found = browser.value(
        "(() => { const app = window.thalweg; app.timeline.unfold(); const { data } = app.lanes; const columns = data.spans; \
         const n = columns.lane.findIndex((lane, at) => lane >= 0 && columns.state[at] === 0 && columns.count[at] > 0 && columns.length[at] > 500 && (() => { \
         const place = app.spans.tasks[lane]; const own = [...place.index].indexOf(at); return own >= 0 && app.storyOf(data.tasks[lane].name, place.start[own], place.end[own]) === null; })()); \
         if (n < 0) return null; const lane = columns.lane[n]; const place = app.spans.tasks[lane]; const own = [...place.index].indexOf(n); \
         app.show(place.start[own] - 3000, place.end[own] + 3000); const rows = app.timeline.rows(); let y = 20; \
         for (const row of rows) { if (row.task === lane) break; y += row.height; } app.timeline.scrolled = 0; \
         app.timeline.hover(app.timeline.x((place.start[own] + place.end[own]) / 2, app.timeline.canvas.clientWidth), y + 5); \
         return [`${columns.stream[n]}:${columns.first[n]}`, data.tasks[lane].name, app.timeline.rests]; })()",
    );
    assert!(found.is_array(), "every dispatch has its story in the page");
    assert_eq!(found[0], found[2]);
    browser.wait("window.thalweg.lit !== null");
    let reader = found[1].as_str().expect("a name");
    assert!(
        browser.value(&format!("window.thalweg.lit.story.hops.some((hop) => hop.reader === '{reader}')"))
            == true
    );
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
}

/// Nodes that end when the value is dropped.
struct Nodes(Vec<Child>);

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &mut self.0 {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn nodes_and_the_links_between_them_stand_on_the_page() {
    let Some(mut browser) = browser("nodes_and_the_links_between_them_stand_on_the_page") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (cluster, spaces) = (folder.path().join("cluster"), folder.path().join("spaces"));
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.env("THALWEG_CLUSTER", &cluster).env("THALWEG_SPACES", &spaces).env_remove("THALWEG_SESSION");
        command
    };
    let mut nodes = Nodes(Vec::new());
    for name in ["a", "b"] {
        let mut node =
            command().args(["node", "--name", name]).stderr(Stdio::piped()).spawn().expect("thalweg starts");
        let mut line = String::new();
        let mut stderr = BufReader::new(node.stderr.take().expect("piped"));
        stderr.read_line(&mut line).expect("text");
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        nodes.0.push(node);
    }
    let net = write(
        folder.path(),
        "plus.snet",
        "net plus connect ([{<n>} -> {<n = n + 1>}] @ 0) .. ([{<n>} -> {<n = n * 2>}] @ 1);",
    );
    let input: String = (0..3000).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    let mut run = command();
    run.args(["run", &net, "--nodes", "a,b", "--keep", "--monitor", "full"]);
    let run = program::fed(&mut run, &input);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let session = std::fs::read_dir(&spaces).expect("spaces").flatten().next().expect("a session").path();
    let file = folder.path().join("page.html");
    html(&session, &file);
    browser.open_file(&file);
    browser.value("window.thalweg.openTab('nodes')");
    let processes = rows(&mut browser, 0);
    let names: Vec<&str> = processes.iter().map(|row| &row[1][..]).collect();
    assert!(["plus", "plus@a", "plus@b"].iter().all(|name| names.contains(name)), "{names:?}");
    // The records go from the process that reads them to node a, over one link that both ends count.
    let links = rows(&mut browser, 1);
    let of = |process: &str, direction: &str, node: &str| {
        let row = links.iter().find(|row| row[0] == process && row[1] == direction && row[2] == node);
        row.unwrap_or_else(|| panic!("{process} {direction} {node}: {links:?}")).clone()
    };
    let (out, into) = (of("plus", "→", "a"), of("plus@a", "←", "here"));
    let number = |text: &str| text.parse::<f64>().expect("a number");
    assert!(number(&out[4]) > 0.0 && number(&into[4]) > 0.0, "{links:?}");
    assert!(number(&out[6]) > 0.0, "{links:?}");
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn an_attached_program_stands_on_the_page() {
    let Some(mut browser) = browser("an_attached_program_stands_on_the_page") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut target = Target::start(folder.path(), "1");
    let code = target.code();
    let arguments = ["attach", &target.pid(), "--count", "work", "--every", "50ms"];
    let mut command = attached::thalweg(folder.path(), &arguments);
    let mut attaching = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("thalweg starts");
    until("it attaches", || target.code() != code);
    assert_eq!(target.ask("run 500"), "done 500");
    until("its space is there", || ran(folder.path(), &["calls", "attach-hot"]).status.success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.env("THALWEG_SPACES", folder.path());
    let view = View::started(command, Path::new("attach-hot"), &[]);
    browser.open(&view.address);
    browser.wait("document.getElementById('tab-calls') !== null");
    browser.value("window.thalweg.openTab('calls')");
    // The counters are read again until the attachment has published the calls.
    browser.wait("(() => { window.thalweg.readCalls(); return [...document.querySelectorAll('#tab tbody tr')].some((row) => row.cells[0].textContent.startsWith('work') && row.cells[1].dataset.value === '500'); })()");
    // A point of the attachment is switched off as a setting.
    browser.value("window.thalweg.openTab('settings')");
    assert!(browser.text("document.getElementById('tab').textContent").contains(".on"));
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
    assert!(ran(folder.path(), &["detach", &target.pid()]).status.success());
    attaching.wait().expect("it ends");
}

/// A page of a report that other tests read, too.
fn constant_page(folder: &Path, change: impl FnOnce(&mut thalweg_monitor::Report)) -> PathBuf {
    let mut report: thalweg_monitor::Report =
        serde_json::from_str(include_str!("data/report.json")).expect("a report");
    change(&mut report);
    let timeline = thalweg_view::TimelinePage { duration_ns: 1e6, ..thalweg_view::TimelinePage::default() };
    let page = thalweg_view::Page::of(report, "the report as text".to_owned(), timeline);
    let file = folder.join("constant.html");
    std::fs::write(&file, page.file().expect("a page")).expect("a file");
    file
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn lines_on_which_waiting_leads_to_the_limit_are_outlined() {
    let Some(mut browser) = browser("lines_on_which_waiting_leads_to_the_limit_are_outlined") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let wait = |waiter: &str, peer: &str, share: f64| thalweg_monitor::WaitEdge {
        waiter: Some(waiter.to_owned()),
        peer: Some(peer.to_owned()),
        what: "input".to_owned(),
        waits: 1,
        ns: share * 1e9,
        share,
    };
    // The verdict names `round`: the sink waits for the merge, and the merge for it. The source waits for
    // `initial_permutation`, from which no waiting leads on.
    let file = constant_page(folder.path(), |report| {
        assert_eq!(report.verdict.finding.component.as_deref(), Some("des/rounds/star/round"));
        report.waiting.matrix = vec![
            wait("des/merge", "des/rounds/star/round", 0.5),
            wait("sink", "des/merge", 0.3),
            wait("source", "des/initial_permutation", 0.19),
            wait("des/rounds/star", "des/rounds/star/round", 0.01),
        ];
    });
    browser.open_file(&file);
    let lines = "(() => { const { graph } = window.thalweg; return [...graph.critical()].map((n) => graph.network.edges[n]).map((line) => [graph.network.nodes[line.from].path, graph.network.nodes[line.to].path]); })()";
    let mut found: Vec<[String; 2]> = serde_json::from_value(browser.value(lines)).expect("pairs");
    found.sort();
    let pair = |from: &str, to: &str| [from.to_owned(), to.to_owned()];
    assert_eq!(found, [pair("des/merge", "sink"), pair("des/rounds/star/round", "des/merge")]);
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn help_explains_every_panel_and_figure_and_leads_to_the_documentation() {
    let Some(mut browser) = browser("help_explains_every_panel_and_figure") else { return };
    let (mut run, reading) = live();
    feed(&mut run, 500);
    let view = View::start(&run.space(), &[]);
    browser.open(&view.address);
    browser.wait("document.querySelectorAll('#verdict dt').length > 7");
    browser.key("?");
    let unexplained = browser.value(
        "(() => { const explained = new Set([...document.querySelectorAll('#help dt')].map((of) => of.textContent)); \
         const shown = [...document.querySelectorAll('#verdict dt, #tabs button, h2')].filter((of) => of.closest('#text-report') === null).map((of) => of.textContent); \
         return shown.filter((of) => !explained.has(of)); })()",
    );
    assert_eq!(unexplained, json!([]));
    let pages = browser.value(
        "[...new Set([...document.querySelectorAll('#help dd a')].map((of) => of.getAttribute('href')))]",
    );
    let pages = pages.as_array().expect("links");
    assert!(pages.len() >= 5, "{pages:?}");
    for page in pages {
        let answer = view.get(page.as_str().expect("text"), "");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\r\n\r\n# "), "{page}: {answer:.100}");
    }
    let every = browser.value("[...document.querySelectorAll('#help dd')].every((of) => of.querySelector('a') !== null && of.textContent.length > 30)");
    assert_eq!(every, true);

    // The button and the space bar pause the page.
    browser.value("document.getElementById('help').close()");
    browser.value("document.getElementById('pause').click()");
    assert_eq!(
        browser
            .value("[window.thalweg.paused, document.getElementById('pause').getAttribute('aria-pressed')]"),
        json!([true, "true"])
    );
    browser.value("document.activeElement.blur()");
    browser.key(" ");
    assert_eq!(
        browser
            .value("[window.thalweg.paused, document.getElementById('pause').getAttribute('aria-pressed')]"),
        json!([false, "false"])
    );
    drop(run.child.stdin.take());
    run.end(0);
    reading.join().expect("all was read");
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn a_printed_page_is_light_and_has_the_report_as_text() {
    let Some(mut browser) = browser("a_printed_page_is_light_and_has_the_report_as_text") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    browser.open_file(&constant_page(folder.path(), |_| {}));
    browser.value("window.thalweg.paint('dark')");
    browser.value("window.dispatchEvent(new Event('beforeprint'))");
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    let seen = browser.value(
        "(() => { const of = (id) => document.getElementById(id); const shape = (canvas) => Math.abs(canvas.clientWidth / canvas.clientHeight - canvas.width / canvas.height) < 0.02 * canvas.width / canvas.height; \
         return [getComputedStyle(of('text-report')).display !== 'none', of('text-report').textContent.includes('the report as text'), getComputedStyle(of('graph-tools')).display, \
         getComputedStyle(document.body).backgroundColor, shape(of('graph')) && shape(of('timeline'))]; })()",
    );
    assert_eq!(seen, json!([true, true, "none", "rgb(255, 255, 255)", true]));
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "" }));
    browser.value("window.dispatchEvent(new Event('afterprint'))");
    assert_eq!(browser.value("document.documentElement.dataset.theme"), "dark");
    let printed = browser.call("Page.printToPDF", json!({ "printBackground": true }));
    assert!(printed["data"].as_str().expect("a document").len() > 10_000);
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn nets_fold_and_unfold_by_keys_and_by_a_double_click() {
    let Some(mut browser) = browser("nets_fold_and_unfold") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = write(
        folder.path(),
        "nested.snet",
        "net nested { net inner connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n * 2>}]; } connect inner .. [{<n>} -> {<n = n - 1>}];",
    );
    let (space, file) = (folder.path().join("space"), folder.path().join("page.html"));
    let path = space.to_str().expect("UTF-8");
    let run = program::run(&[&net, "--monitor", "full", "--keep", "--space", path], "{\"<n>\": 1}\n");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    html(&space, &file);
    browser.open_file(&file);
    let nodes = "window.thalweg.graph.network.nodes.length";
    let unfolded = browser.value(nodes).as_u64().expect("a number");
    browser.key("g");
    let levels = browser.value("window.thalweg.data.networks.length").as_u64().expect("a number");
    assert!(levels > 1, "{levels}");
    for _ in 0..levels {
        browser.key("[");
    }
    let folded = browser.value(nodes).as_u64().expect("a number");
    assert!(folded < unfolded, "{folded} nodes, {unfolded} unfolded");
    browser.value(
        "(() => { const { graph } = window.thalweg; const node = graph.network.nodes.find((one) => one.components.length > 1); \
         const place = graph.placeOf(node); const [x, y] = [graph.x + (place.x + 20) * graph.scale, graph.y + (place.y + 20) * graph.scale]; const at = graph.canvas.getBoundingClientRect(); \
         graph.canvas.dispatchEvent(new MouseEvent('dblclick', { clientX: at.left + x, clientY: at.top + y, bubbles: true })); })()",
    );
    assert!(browser.value(nodes).as_u64() > Some(folded));
    for _ in 0..levels {
        browser.key("]");
    }
    assert_eq!(browser.value(nodes).as_u64(), Some(unfolded));
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
}
