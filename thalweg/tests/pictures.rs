//! Pages and drawings as files: their contents for runs that ended, were killed, or are damaged, and the
//! errors if none can be made.

mod des_run;
mod program;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use program::write;
use thalweg_monitor::{Batch, Follower, Moment, Monitor, Report, What};
use thalweg_view::{Shared, Timeline, TimelinePage};

const PICTURES: [&str; 5] = ["graph", "timeline", "latency", "occupancy", "waiting"];

/// A small run that is kept.
fn kept(folder: &Path, mode: &str) -> PathBuf {
    let net = write(
        folder,
        "small.snet",
        "net small connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n * 2>}];",
    );
    let space = folder.join(mode);
    let input: String = (0..500).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    let run =
        program::run(&[&net, "--monitor", mode, "--keep", "--space", space.to_str().expect("UTF-8")], &input);
    assert!(run.status.success());
    space
}

fn drawing(space: &Path, picture: &str) -> String {
    let output = des_run::succeed(des_run::thalweg().arg("report").arg(space).args(["--svg", picture]));
    String::from_utf8(output.stdout).expect("text")
}

/// Parses a drawing as XML.
fn well_formed(drawing: &str) {
    let mut reader = quick_xml::Reader::from_str(drawing);
    while !matches!(reader.read_event().expect("well-formed XML"), quick_xml::events::Event::Eof) {}
    assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"));
}

#[test]
fn every_picture_is_drawn_in_every_mode() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for mode in ["off", "metrics", "full"] {
        let space = kept(folder.path(), mode);
        for picture in PICTURES {
            let drawn = drawing(&space, picture);
            well_formed(&drawn);
            assert!(!drawn.contains("NaN") && !drawn.contains("inf\""), "{mode} {picture}: {drawn}");
        }
        assert_eq!(drawing(&space, "latency").contains("not known"), mode != "full");
    }
    // The picture is equal to the drawing that `--graph svg` makes.
    let space = folder.path().join("full");
    let output = des_run::succeed(des_run::thalweg().arg("report").arg(&space).args(["--graph", "svg"]));
    assert_eq!(drawing(&space, "graph").into_bytes(), output.stdout);
    let timeline = drawing(&space, "timeline");
    assert!(timeline.contains("worker 0") && timeline.contains(">source<"), "{timeline}");
}

#[test]
fn a_page_holds_the_report_and_a_window_is_a_part_of_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = kept(folder.path(), "full");
    let page = folder.path().join("page.html");
    des_run::succeed(des_run::thalweg().arg("report").arg(&space).arg("--html").arg(&page));
    let text = std::fs::read_to_string(&page).expect("a page");
    assert!(text.len() < 500_000 && text.contains("COMPONENT") && text.contains("Content-Security-Policy"));
    for window in ["1ms", "1ms..1s"] {
        des_run::succeed(
            des_run::thalweg().arg("report").arg(&space).args(["--window", window, "--html"]).arg(&page),
        );
    }
    // The page can also be written to standard output.
    let output = des_run::succeed(des_run::thalweg().arg("report").arg(&space).args(["--html", "-"]));
    assert!(output.stdout.starts_with(b"<!doctype html>"));
}

#[test]
fn what_cannot_be_written_or_read_is_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = kept(folder.path(), "full");
    let report = |arguments: &[&str]| {
        let output =
            des_run::thalweg().arg("report").arg(&space).args(arguments).output().expect("thalweg starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, why) = report(&["--html", "/nowhere/at/all.html"]);
    assert!(code == Some(2) && why.contains("/nowhere/at/all.html"), "{why}");
    assert_eq!(report(&["--html", "x.html", "--json"]).0, Some(2));
    assert_eq!(report(&["--svg", "nothing"]).0, Some(2));
}

#[test]
fn names_of_a_megabyte_are_cut_in_pictures_and_whole_in_json() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = program::with_long_names(folder.path());
    let report = |arguments: &[&str]| {
        let output = des_run::succeed(des_run::thalweg().arg("report").arg(&space).args(arguments));
        String::from_utf8(output.stdout).expect("text")
    };
    let whole = report(&["--json"]);
    assert!(whole.contains(&program::long_name()[..400_000]), "the name is missing");
    let text = report(&[]);
    let page = report(&["--html", "-"]);
    let pictures: Vec<String> = PICTURES.iter().map(|picture| report(&["--svg", picture])).collect();
    for (what, shown) in
        [("text", &text), ("page", &page), ("graph", &pictures[0]), ("timeline", &pictures[1])]
    {
        assert!(shown.len() < 500_000, "{what}: {} bytes", shown.len());
        assert!(shown.contains('…'), "{what}: nothing says that names were cut");
    }
    pictures.iter().for_each(|drawn| well_formed(drawn));
    // The drawing of `thalweg check` has the same names.
    let net = folder.path().join("long.snet");
    for format in ["svg", "text", "dot"] {
        let drawn = des_run::succeed(des_run::thalweg().arg("check").arg(&net).args(["--graph", format]));
        assert!(drawn.stdout.len() < 500_000, "{format}: {} bytes", drawn.stdout.len());
    }
}

/// A monitor that sums the busy time of each task, independently of the timeline.
#[derive(Default)]
struct Busy {
    ticks: HashMap<u64, (u64, u64)>,
    ns: HashMap<u64, (f64, u64)>,
}

impl Monitor for Busy {
    fn name(&self) -> &str {
        "busy"
    }

    fn wants(&self) -> &[&str] {
        &["run.dispatch"]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            if let What::Dispatch(dispatch) = item.what {
                let (ticks, count) = self.ticks.entry(dispatch.task).or_default();
                *ticks += dispatch.end - dispatch.start;
                *count += 1;
            }
        }
    }

    fn publish(&mut self, moment: &Moment<'_>, _report: &mut Report) {
        self.ns =
            self.ticks.iter().map(|(&task, &(ticks, count))| (task, (moment.ns(ticks), count))).collect();
    }
}

/// The timeline of a space with at most `spans_max` single spans, and the sums that the monitor computed.
fn timeline_of(space: &Path, spans_max: usize) -> (TimelinePage, HashMap<u64, (f64, u64)>) {
    let (timeline, mut busy) = (Shared::new(Timeline::new(spans_max)), Busy::default());
    let mut follower = Follower::open(space, 10).expect("a space");
    follower.add(Box::new(timeline.clone()));
    follower.add(Box::new(&mut busy));
    follower.poll();
    follower.finish().expect("a report");
    (timeline.look(|timeline| TimelinePage::clone(timeline.page())), busy.ns)
}

#[test]
fn spans_and_sums_agree_with_the_count_of_dispatches() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = kept(folder.path(), "full");
    for spans_max in [1 << 20, 100] {
        let (page, busy) = timeline_of(&space, spans_max);
        assert_eq!(page.tasks.len(), busy.len());
        let mut drawn = vec![(0.0, 0u64); page.tasks.len()];
        for n in 0..page.spans.lane.len() {
            if let (Ok(lane), 0) = (usize::try_from(page.spans.lane[n]), page.spans.state[n]) {
                drawn[lane].0 += page.spans.length[n] as f64;
                drawn[lane].1 += 1;
            }
        }
        for (task, drawn) in page.tasks.iter().zip(&drawn) {
            let (ns, count) = busy[&task.id.expect("one task")];
            // The time in each cell of the timeline is rounded to a thousandth of its length.
            let summed: f64 = task
                .sums
                .iter()
                .step_by(4)
                .map(|&part| f64::from(part) * page.processes[0].step_ns / 1000.0)
                .sum();
            let rounded = page.processes[0].step_ns / 2000.0 * (task.sums.len() / 4) as f64 + 1.0;
            assert!((summed - ns).abs() <= rounded, "{}: {summed} summed, {ns} recorded", task.name);
            if spans_max > 100 {
                assert_eq!((drawn.1, page.exact_from_ns), (count, Some(0.0)), "{}", task.name);
                assert!(
                    (drawn.0 - ns).abs() <= count as f64,
                    "{}: {} drawn, {ns} recorded",
                    task.name,
                    drawn.0
                );
            }
        }
        if spans_max == 100 {
            assert!(page.spans.lane.len() <= 100 && page.exact_from_ns > Some(0.0));
        }
        // The ends of spans never decrease, and no span is longer than the run.
        assert!(page.spans.end.iter().all(|&later| later >= 0));
        assert!(page.spans.length.iter().all(|&ns| ns >= 0 && ns as f64 <= page.duration_ns + 1.0));
    }
}
