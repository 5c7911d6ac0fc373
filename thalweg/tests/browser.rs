//! The page in a browser: each panel of a kept run of DES, of a deadlock, of a run that lost events; its
//! agreement with the report; names with markup, which must have no effect; a live page, its changes, its
//! end. `cargo xtask test --only pictures` runs the tests of this file.

mod browser_run;
mod controlled;
mod des_run;
mod planted_run;
mod program;
mod viewed;

use std::net::TcpStream;
use std::path::{Path, PathBuf};

use browser_run::{Browser, browser};
use planted_run::planted_nets::{Cause, Net};
use planted_run::while_it_runs;
use program::write;
use serde_json::Value;
use viewed::{View, feed, live};

const TABS: [&str; 10] = [
    "components",
    "latency",
    "occupancy",
    "waiting",
    "messages",
    "workers",
    "tuning",
    "settings",
    "losses",
    "text",
];

/// The page and the report of a space.
fn page_and_report(space: &Path, folder: &Path) -> (PathBuf, Value) {
    let page = folder.join("page.html");
    des_run::succeed(des_run::thalweg().arg("report").arg(space).arg("--html").arg(&page));
    let output =
        des_run::succeed(des_run::thalweg().arg("report").arg(space).args(["--json", "--top", "100"]));
    (page, serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// Opens every tab, and checks that the page agrees with the report.
fn check(browser: &mut Browser, report: &Value) {
    let shown = browser.text("document.getElementById('verdict-text').textContent");
    assert_eq!(shown, report["verdict"]["text"].as_str().expect("a verdict"));
    let lost = browser.value("Number([...document.querySelectorAll('#verdict dd')][3].dataset.value)");
    assert_eq!(lost, report["window"]["lost"].as_f64().expect("a number"));
    for tab in TABS {
        browser.value(&format!("document.getElementById('tab-{tab}').click()"));
        browser.wait(&format!(
            "window.thalweg.tab === '{tab}' && document.getElementById('tab').textContent.length > 0"
        ));
    }
    assert_eq!(
        browser.text("document.querySelector('#tab pre').textContent").lines().next(),
        browser.text("window.thalweg.data.text").lines().next()
    );
    browser.value("document.getElementById('tab-components').click()");
    let rows = browser.value(
        "[...document.querySelectorAll('#tab tbody tr')].map((row) => [...row.cells].map((cell) => cell.dataset.value ?? cell.textContent))",
    );
    let components = report["components"].as_array().expect("a list");
    assert_eq!(rows.as_array().expect("rows").len(), components.len());
    for (row, component) in rows.as_array().expect("rows").iter().zip(components) {
        assert_eq!(row[0], component["path"]);
        // Two programs that read the same decimal number may differ in its last bit.
        let check_cell = |at: usize, expected: &Value| {
            let shown = row[at].as_str().filter(|text| !text.is_empty());
            let shown: Option<f64> = shown.map(|text| text.parse().expect("a number"));
            let near = match (shown, expected.as_f64()) {
                (Some(shown), Some(expected)) => (shown - expected).abs() <= 1e-12 * expected.abs(),
                (shown, expected) => shown == expected,
            };
            assert!(near, "{}, column {at}: {shown:?}, and {expected} in the report", component["path"]);
        };
        let work = &component["work"];
        check_cell(2, &component["tasks"]);
        check_cell(3, &work["messages_in"]);
        let processors = work["busy_ns"].as_f64().zip(report["window"]["duration_ns"].as_f64());
        check_cell(5, &processors.map(|(busy_ns, ns)| busy_ns / ns).into());
        check_cell(6, &work["shares"]["busy"]);
        check_cell(10, &work["service_ns"]);
    }
    let drawn = "(id) => { const c = document.getElementById(id); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 3; i < d.length; i += 4) if (d[i]) n++; return n; }";
    for canvas in ["graph", "timeline"] {
        assert!(browser.value(&format!("({drawn})('{canvas}')")).as_u64() > Some(500), "{canvas} is empty");
    }
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
}

fn des(folder: &Path) -> PathBuf {
    let (input, space) = (folder.join("plain"), folder.join("space"));
    des_run::made_file(&input, 1 << 20);
    let mut run = des_run::encrypt(&input, &folder.join("encrypted"), 2, "full");
    des_run::succeed(run.args(["--keep", "--space"]).arg(&space));
    space
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn a_kept_run_is_shown_as_it_is_reported() {
    let Some(mut browser) = browser("a_kept_run_is_shown_as_it_is_reported") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (page, report) = page_and_report(&des(folder.path()), folder.path());
    browser.open_file(&page);
    check(&mut browser, &report);
    // The page loaded nothing but the file itself.
    assert!(
        browser.requests().iter().all(|address| address.starts_with("file://")),
        "{:?}",
        browser.requests()
    );

    // The spans of the tasks add up to the busy time in the report.
    let busy = browser.value(
        "window.thalweg.spans.tasks.map((lane, n) => [window.thalweg.data.timeline.tasks[n].component, lane.before[0][lane.size]]).reduce((all, [path, ns]) => { all[path] = (all[path] || 0) + ns; return all; }, {})",
    );
    for component in report["components"].as_array().expect("a list") {
        let reported_ns = component["work"]["busy_ns"].as_f64().expect("full");
        let drawn = busy[component["path"].as_str().expect("text")].as_f64().unwrap_or(0.0);
        // A span also covers the time in which its thread had no processor, and which the report does not
        // count as busy.
        let rounded = component["work"]["dispatches"].as_f64().expect("full");
        assert!(
            drawn >= reported_ns - rounded,
            "{}: {reported_ns} reported, {drawn} drawn",
            component["path"]
        );
    }

    // The keyboard has the same effect as the mouse.
    let window = |browser: &mut Browser| {
        browser
            .value("[window.thalweg.from, window.thalweg.to]")
            .as_array()
            .expect("two")
            .iter()
            .map(|n| n.as_f64().expect("a number"))
            .collect::<Vec<f64>>()
    };
    let whole = window(&mut browser);
    browser.key("t");
    browser.key("+");
    let near = window(&mut browser);
    assert!(near[1] - near[0] < 0.6 * (whole[1] - whole[0]), "{whole:?} {near:?}");
    browser.key("ArrowRight");
    assert!(window(&mut browser)[0] > near[0]);
    browser.key("n");
    assert!(
        browser.value("window.thalweg.held !== null && window.thalweg.held === window.thalweg.lit") == true
    );
    browser.key("Escape");
    assert_eq!(window(&mut browser), whole);
    browser.key("u");
    assert!(browser.value("window.thalweg.timeline.rows().length > 10") == true);
    browser.key("?");
    assert!(browser.value("document.getElementById('help').open") == true);
    browser.value("document.getElementById('help').close()");

    // A window selected with the mouse in the timeline applies to all panels.
    let place = browser.place_of("timeline");
    let [left, top, width] = place;
    browser.mouse("mousePressed", left + 0.5 * width, top + 40.0, true);
    browser.mouse("mouseMoved", left + 0.7 * width, top + 40.0, true);
    assert_eq!(
        browser.value("Math.round(window.thalweg.timeline.brushed[1] - window.thalweg.timeline.brushed[0])"),
        (0.2 * width).round()
    );
    browser.mouse("mouseReleased", left + 0.7 * width, top + 40.0, true);
    let brushed = window(&mut browser);
    assert!(brushed[0] > 0.1 * whole[1] && brushed[1] < 0.9 * whole[1], "{brushed:?} of {whole:?}");
    browser.key("Escape");

    // A click on a component hides the other components.
    browser.value("window.thalweg.choose('des/initial')");
    assert_eq!(browser.value("document.querySelectorAll('#tab tbody tr').length"), 1);
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn a_message_that_is_pointed_at_lights_its_story() {
    let Some(mut browser) = browser("a_message_that_is_pointed_at_lights_its_story") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = des(folder.path());
    let (page, _) = page_and_report(&space, folder.path());
    browser.open_file(&page);
    let count = browser.value("window.thalweg.data.stories.length").as_u64().expect("a number");
    assert!(count >= 32, "{count} stories");
    // The slowest message's story is that of `thalweg message`.
    let message = browser.text("window.thalweg.data.stories[0].story.message");
    let output = des_run::succeed(des_run::thalweg().arg("message").arg(&space).args([&message, "--json"]));
    let stdout = String::from_utf8(output.stdout).expect("text");
    let same = format!(
        "JSON.stringify(window.thalweg.data.stories[0].story.hops) === JSON.stringify(({stdout}).hops)"
    );
    assert_eq!(browser.value(&same), true, "{stdout}");
    // The message is highlighted in the list, and in the timeline at the place where it was read.
    browser.value("window.thalweg.openTab('messages')");
    browser.value("document.querySelector('#tab tbody tr').dispatchEvent(new PointerEvent('pointerenter'))");
    assert!(browser.value("window.thalweg.lit === window.thalweg.data.stories[0]") == true);
    browser.value("window.thalweg.light(null, true); window.thalweg.timeline.unfold(); window.thalweg.lookAt(window.thalweg.data.stories[0])");
    // Tasks of one component may have the same name: the row is the one that was busy when the message was read.
    let lit = browser.value(
        "(() => { const app = window.thalweg; const slow = app.data.stories[0]; const hop = slow.story.hops.find((hop) => hop.read_ns !== null); \
         const busy = (lane) => { const n = lane.at(hop.read_ns + 50); return n >= 0 && lane.state[n] === 0 && lane.start[n] <= hop.read_ns + 50; }; \
         const rows = app.timeline.rows(); let y = 20; for (const row of rows) { if (row.title === hop.reader && busy(row.lane)) break; y += row.height; } \
         app.timeline.scrolled = 0; app.show(hop.read_ns - 2000, hop.read_ns + 4000); const x = app.timeline.x(hop.read_ns + 50, app.timeline.canvas.clientWidth); \
         app.timeline.hover(x, y + 5); return app.lit !== null && app.lit.story.hops.some((one) => one.reader === hop.reader && Math.abs(one.read_ns - hop.read_ns) < 1e6); })()",
    );
    assert_eq!(lit, true);
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn names_with_markup_are_text() {
    let Some(mut browser) = browser("names_with_markup_are_text") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = write(folder.path(), "odd.snet", "net odd connect [{<n>} -> {<n = n + 1>}];");
    let space = folder.path().join("</script><script>window.hit=1<!--<img src=x onerror=window.hit=1>");
    let input: String = (0..100).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    program::run(&[&net, "--monitor", "full", "--keep", "--space", space.to_str().expect("UTF-8")], &input);
    // The report has the command line, in which the space's path is, so the page has the path as text and as
    // data.
    let (page, report) = page_and_report(&space, folder.path());
    let text = std::fs::read_to_string(&page).expect("a page");
    assert!(!text.contains("<img src=x"), "markup of a name stands in the page");
    browser.open_file(&page);
    check(&mut browser, &report);
    // The names are also tested in a page all of whose names are markup.
    browser.value(
        "(() => { const odd = '<img src=x onerror=\"window.hit=1\"></table>'; const data = structuredClone(window.thalweg.data); \
         const walk = (o) => { for (const k of Object.keys(o)) { if (typeof o[k] === 'string' && !['schema', 'kind', 'what', 'role'].includes(k)) o[k] = odd; else if (o[k] && typeof o[k] === 'object') walk(o[k]); } }; \
         walk(data); data.settings[0].about = 'x'.repeat(1 << 20); window.thalweg.take(data); })()",
    );
    for tab in TABS {
        browser.value(&format!("window.thalweg.openTab('{tab}')"));
    }
    assert!(
        browser.value("document.images.length") == 0 && browser.value("window.hit === undefined") == true
    );
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn names_and_labels_of_a_megabyte_are_cut_and_the_page_stays_fast() {
    let Some(mut browser) = browser("names_and_labels_of_a_megabyte_are_cut") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = program::with_long_names(folder.path());
    let (file, report) = page_and_report(&space, folder.path());
    let view = View::start(&space, &[]);
    for address in [format!("file://{}", file.display()), view.address.clone()] {
        browser.open(&address);
        for tab in TABS {
            browser.value(&format!("window.thalweg.openTab('{tab}')"));
            browser.wait("document.getElementById('tab').textContent.length > 0");
        }
        browser.value("window.thalweg.openTab('components')");
        let rows = browser.value("document.querySelectorAll('#tab tbody tr').length").as_u64();
        assert_eq!(rows, report["components"].as_array().map(|all| all.len() as u64));
        // The shortened names differ and show that they were cut, and the page has no long text.
        assert_eq!(
            browser
                .value("new Set(window.thalweg.data.report.components.map((of) => of.path)).size")
                .as_u64(),
            rows
        );
        assert_eq!(
            browser.value("window.thalweg.data.report.components.some((of) => of.path.includes('…(cut'))"),
            true
        );
        assert_eq!(browser.value("JSON.stringify(window.thalweg.data).length < 500000 && document.body.textContent.length < 400000"), true);
        // A component is found by its shortened name.
        browser.value("window.thalweg.choose(window.thalweg.data.report.components.find((of) => of.path.includes('…(cut')).path)");
        assert!(browser.value("document.querySelectorAll('#tab tbody tr').length").as_u64() > Some(0));
        assert!(browser.value("window.thalweg.timeline.rows().length").as_u64() > Some(0));
        assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
    }
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn lost_events_are_drawn_as_gaps() {
    let Some(mut browser) = browser("lost_events_are_drawn_as_gaps") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut run, reading) = live();
    // The run is killed when its rings have wrapped around, so they hold only its end.
    let lost = |space: &Path| {
        let output = des_run::succeed(des_run::thalweg().arg("report").arg(space).arg("--json"));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        report["window"]["lost"].as_u64().expect("a number")
    };
    while lost(&run.space()) == 0 {
        feed(&mut run, 20_000);
    }
    run.child.kill().expect("it lives");
    run.child.wait().expect("it ends");
    reading.join().expect("all was read");
    let (page, report) = page_and_report(&run.space(), folder.path());
    browser.open_file(&page);
    check(&mut browser, &report);
    assert!(browser.value("window.thalweg.data.timeline.gaps.length").as_u64() > Some(0));
    browser.value("window.thalweg.openTab('losses')");
    let text = browser.text("document.getElementById('tab').textContent");
    assert!(text.contains("Where events were lost") && !text.contains("Nothing is missing"), "{text}");
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn a_deadlock_is_shown() {
    let Some(mut browser) = browser("a_deadlock_is_shown") else { return };
    while_it_runs(&Net::planted(Cause::Deadlock, 1), |path, start| {
        let view = View::start(path, &[]);
        browser.open(&view.address);
        start();
        browser.wait("window.thalweg.data.report.verdict.kind === 'deadlock'");
        let text = browser.text("window.thalweg.data.report.verdict.text");
        assert!(text.contains("net/ping") && text.contains("net/pong"), "{text}");
        browser.wait(
            "document.getElementById('verdict-text').textContent === window.thalweg.data.report.verdict.text",
        );
        browser.value("window.thalweg.openTab('waiting')");
        let tab = browser.text("document.getElementById('tab').textContent");
        assert!(tab.contains("Deadlock") && tab.contains("net/ping") && tab.contains("net/pong"), "{tab}");
        for tab in TABS {
            browser.value(&format!("window.thalweg.openTab('{tab}')"));
            browser.wait("document.getElementById('tab').textContent.length > 0");
        }
        assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
    });
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only pictures"]
fn a_live_page_follows_applies_undoes_and_survives_the_end() {
    let Some(mut browser) = browser("a_live_page_follows_applies_undoes_and_survives_the_end") else {
        return;
    };
    let (mut run, reading) = live();
    feed(&mut run, 2000);
    let view = View::start(&run.space(), &[]);
    browser.open(&view.address);
    browser.wait("window.thalweg.data.live.running");
    let first = browser.value("window.thalweg.data.live.sequence").as_u64().expect("a number");
    feed(&mut run, 2000);
    browser.wait(&format!("window.thalweg.data.live.sequence > {first}"));
    browser.wait("window.thalweg.data.report.components.length > 0");
    // A page that was updated in parts is equal to the page that a new viewer gets.
    browser.wait(
        "(async () => { const { data } = window.thalweg; const whole = await (await fetch(window.thalweg.server.address('/page.json'))).json(); \
         return data.live.sequence > 10 && whole.live.sequence === data.live.sequence && JSON.stringify(whole.timeline) === JSON.stringify(data.timeline) \
         && JSON.stringify(whole.report) === JSON.stringify(data.report) && JSON.stringify(whole.settings) === JSON.stringify(data.settings); })()",
    );

    // An applied change is set in the run, and undone again.
    let setting = |run: &controlled::Run| {
        let output =
            des_run::succeed(des_run::thalweg().arg("get").arg(run.space()).args(["exec.quantum", "--json"]));
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        value["value"].as_u64().expect("a number")
    };
    let before = setting(&run);
    browser
        .value("window.thalweg.server.apply({ set: { setting: 'exec.quantum', value: '77', gain: null } })");
    browser.wait("window.thalweg.data.live.applied.length === 1");
    assert_eq!(setting(&run), 77);
    browser.wait("document.querySelector('#applied button') !== null");
    browser.value("document.querySelector('#applied button').click()");
    browser.wait("window.thalweg.data.live.applied[0].undone");
    assert_eq!(setting(&run), before);
    // An impossible change gives a message.
    browser
        .value("window.thalweg.server.apply({ set: { setting: 'exec.quantun', value: '1', gain: null } })");
    browser.wait("document.getElementById('state').textContent.includes('did you mean `exec.quantum`')");

    // When the run ends, the page stays usable.
    drop(run.child.stdin.take());
    run.end(0);
    reading.join().expect("all was read");
    browser.wait("window.thalweg.data.live.running === false");
    browser.wait("document.getElementById('state').textContent.includes('ended')");

    // The page reports that the server does not answer.
    drop(view);
    browser.wait("document.getElementById('state').textContent.includes('does not answer')");
}

#[test]
fn strangers_are_refused() {
    let (mut run, reading) = live();
    feed(&mut run, 100);
    let view = View::start(&run.space(), &[]);
    let token = view.token().to_owned();
    let good = format!("/?token={token}");
    let status = |answer: &str| answer.split(' ').nth(1).map(str::to_owned).unwrap_or_default();
    let page = view.get(&good, "");
    assert_eq!(status(&page), "200", "{page}");
    let policy = page.lines().find(|line| line.starts_with("content-security-policy: ")).expect("a policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(status(&view.get("/", "")), "403");
    assert_eq!(status(&view.get("/?token=0123456789abcdef0123456789abcdef", "")), "403");
    assert_eq!(status(&view.get(&good, "Origin: http://evil.example\r\n")), "403");
    assert_eq!(status(&view.get(&good, "Origin: null\r\n")), "403");
    assert_eq!(status(&view.get(&good, "Sec-Fetch-Site: cross-site\r\n")), "403");
    // The server is addressed by a foreign name that resolves to this machine.
    let rebound =
        view.ask(&format!("GET {good} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"));
    assert_eq!(status(&rebound), "403");
    let host = format!("127.0.0.1:{}", view.port());
    let post = |headers: &str, body: &str| {
        view.ask(&format!(
            "POST /apply?token={token} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        ))
    };
    let body = r#"{"set":{"setting":"exec.quantum","value":"5","gain":null}}"#;
    assert_eq!(status(&post("", body)), "415");
    assert_eq!(
        status(&post("Content-Type: application/json\r\nOrigin: http://evil.example\r\n", body)),
        "403"
    );
    assert_eq!(status(&post("Content-Type: application/json\r\n", "{")), "400");
    assert_eq!(status(&post("Content-Type: application/json\r\n", &"x".repeat(1 << 17))), "400");
    let run_command = r#"{"run":{"command":"stop","arguments":[],"gain":null}}"#;
    assert_eq!(status(&post("Content-Type: application/json\r\n", run_command)), "409");
    assert_eq!(status(&post("Content-Type: application/json\r\n", body)), "200");
    assert_eq!(status(&view.get(&format!("/nothing?token={token}"), "")), "404");
    assert_eq!(status(&view.get(&format!("/story?token={token}&message=x"), "")), "400");

    // A thousand connections send nothing: later clients are answered when these connections are closed.
    let idle: Vec<Option<TcpStream>> =
        (0..1000).map(|_| TcpStream::connect(format!("127.0.0.1:{}", view.port())).ok()).collect();
    drop(idle);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while status(&view.get(&good, "")) != "200" {
        assert!(std::time::Instant::now() < until, "nobody is answered any more");
    }
    drop(run.child.stdin.take());
    run.end(0);
    reading.join().expect("all was read");
}
