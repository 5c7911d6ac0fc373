//! Drawings for papers: timeline, latency, occupancy, waiting. The drawing of the network is the one that
//! `thalweg report --graph svg` makes.

use std::fmt::Write as _;

use thalweg_monitor::{Distribution, Report};

use crate::lanes::{Process, TimelinePage};
use crate::page::escaped;
use crate::palette::{FAINT, INK, LINE, STATES};
use crate::summary;
use crate::units::{duration, share};

/// The width of all drawings.
const WIDTH: f64 = 960.0;
/// The horizontal position at which bars begin, right of the names.
const LEFT: f64 = 250.0;
/// The margin at the right side.
const RIGHT: f64 = 20.0;
/// The height of a lane, including the space between lanes.
const LANE: f64 = 18.0;
/// The height of the header above the lanes.
const HEAD: f64 = 46.0;
/// The largest number of lanes that are drawn.
const LANES_MAX: usize = 80;
/// If there are more spans than this number of columns, they are summed in columns.
const COLUMNS: usize = 700;
/// The largest number of characters of a name.
const NAME_MAX: usize = 36;

/// The text of an SVG drawing.
struct Drawing(String);

impl Drawing {
    fn new(title: &str, height: f64) -> Drawing {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">"
        );
        let _ = writeln!(out, "<title>{}</title>", escaped(title));
        let _ = writeln!(out, "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>");
        let mut drawing = Drawing(out);
        drawing.text(8.0, 16.0, INK, title, " font-size=\"13\" font-weight=\"bold\"");
        drawing
    }

    fn text(&mut self, x: f64, y: f64, colour: &str, text: &str, more: &str) {
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{colour}\"{more}>{}</text>",
            escaped(text)
        );
    }

    fn rect(&mut self, at: [f64; 4], colour: &str, more: &str) {
        let [x, y, width, height] = at;
        let _ = writeln!(
            self.0,
            "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" fill=\"{colour}\"{more}/>"
        );
    }

    fn line(&mut self, from: [f64; 2], to: [f64; 2], colour: &str) {
        let ([x0, y0], [x1, y1]) = (from, to);
        let _ = writeln!(
            self.0,
            "<path d=\"M{x0:.1} {y0:.1}L{x1:.1} {y1:.1}\" stroke=\"{colour}\" fill=\"none\"/>"
        );
    }

    fn name(&mut self, y: f64, name: &str) {
        let shown = shortened(name);
        self.text(8.0, y + LANE - 6.0, INK, &shown, "");
    }

    /// Draws the marks of time above the lanes.
    fn axis(&mut self, whole_ns: f64, height: f64) {
        let step = step_of(whole_ns / 7.0);
        let mut at = 0.0;
        while at <= whole_ns {
            let x = LEFT + at / whole_ns.max(1.0) * (WIDTH - LEFT - RIGHT);
            self.line([x, HEAD - 10.0], [x, height - 8.0], LINE);
            // Near the right edge the text is placed left of the line, because right of the line there is no
            // space.
            let (x, more) = if x + 60.0 > WIDTH { (x - 2.0, " text-anchor=\"end\"") } else { (x + 2.0, "") };
            self.text(x, HEAD - 12.0, FAINT, &duration(at), more);
            at += step;
        }
    }

    /// Draws the legend of the states' colours.
    fn states(&mut self) {
        let words = ["busy", "waits for messages", "waits for room", "ready"];
        for (n, (word, colour)) in words.iter().zip(STATES).enumerate() {
            let x = LEFT + 200.0 + n as f64 * 128.0;
            self.rect([x, 7.0, 10.0, 10.0], colour, "");
            self.text(x + 14.0, 16.0, FAINT, word, "");
        }
    }

    fn end(self) -> String {
        self.0 + "</svg>\n"
    }
}

/// Shortens a name that is too long to its beginning and its end.
fn shortened(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    if chars.len() <= NAME_MAX {
        return name.to_owned();
    }
    let half = (NAME_MAX - 1) / 2;
    let (begin, end) = (&chars[..NAME_MAX - 1 - half], &chars[chars.len() - half..]);
    format!("{}…{}", begin.iter().collect::<String>(), end.iter().collect::<String>())
}

/// The smallest number that is 1, 2 or 5 times a power of ten and not less than `wanted`.
fn step_of(wanted: f64) -> f64 {
    let power = 10f64.powf(wanted.max(1.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|&step| step >= wanted).unwrap_or(power)
}

/// Draws the states of every worker and every task over time.
pub fn timeline(report: &Report, page: &TimelinePage) -> String {
    let lanes = page.workers.len() + page.tasks.len().min(LANES_MAX);
    let height = HEAD + lanes as f64 * LANE + 24.0;
    let mut drawing = Drawing::new(&format!("{}: timeline", report.space.name), height);
    drawing.states();
    drawing.axis(page.duration_ns, height);
    let whole = page.duration_ns.max(1.0);
    let mut y = HEAD;
    for worker in &page.workers {
        drawing.name(y, &format!("worker {}", worker.name));
        columns(&mut drawing, page.processes.get(worker.process), &worker.sums, y, whole);
        y += LANE;
    }
    let lanes = exact_lanes(page);
    for (task, spans) in page.tasks.iter().zip(&lanes).take(LANES_MAX) {
        drawing.name(y, &task.name);
        match spans {
            Some(spans) => {
                for &(state, start, end) in spans {
                    let x = |ns: f64| LEFT + ns / whole * (WIDTH - LEFT - RIGHT);
                    drawing.rect([x(start), y + 3.0, x(end) - x(start), LANE - 6.0], STATES[state], "");
                }
            }
            None => columns(&mut drawing, page.processes.get(task.process), &task.sums, y, whole),
        }
        y += LANE;
    }
    if page.tasks.len() > LANES_MAX {
        drawing.text(8.0, y + 14.0, FAINT, &format!("… {} more tasks", page.tasks.len() - LANES_MAX), "");
    }
    for gap in &page.gaps {
        let x = |ns: f64| LEFT + ns / whole * (WIDTH - LEFT - RIGHT);
        let width = (x(gap.to_ns) - x(gap.from_ns)).max(1.0);
        let more = format!(" fill-opacity=\"0.25\" data-lost=\"{}\"", gap.lost);
        drawing.rect([x(gap.from_ns), HEAD - 6.0, width, y - HEAD + 6.0], INK, &more);
    }
    drawing.end()
}

/// The spans of one task: state, start, and end of each.
type Exact = Vec<(usize, f64, f64)>;

/// The single spans of each task, if all of its spans are known and there are not too many to draw.
fn exact_lanes(page: &TimelinePage) -> Vec<Option<Exact>> {
    let mut lanes: Vec<Option<Exact>> = page.tasks.iter().map(|task| task.id.map(|_| Vec::new())).collect();
    let Some(from) = page.exact_from_ns.filter(|&from| from <= 0.0) else { return vec![None; lanes.len()] };
    let mut end = from;
    let spans = &page.spans;
    for n in 0..spans.lane.len() {
        end += spans.end[n] as f64;
        let Some(Some(lane)) = usize::try_from(spans.lane[n]).ok().and_then(|lane| lanes.get_mut(lane))
        else {
            continue;
        };
        lane.push((spans.state[n] as usize, end - spans.length[n] as f64, end));
    }
    lanes.into_iter().map(|lane| lane.filter(|spans| spans.len() <= COLUMNS)).collect()
}

/// Draws the sums of a lane in columns; in each column the states are stacked.
fn columns(drawing: &mut Drawing, process: Option<&Process>, sums: &[u32], y: f64, whole: f64) {
    let Some(process) = process else { return };
    let cells = sums.chunks_exact(summary::STATES);
    let together = cells.len().div_ceil(COLUMNS).max(1);
    for (n, cells) in sums.chunks(summary::STATES * together).enumerate() {
        let start = process.sums_from_ns + (n * together) as f64 * process.step_ns;
        let width = process.step_ns * together as f64 / whole * (WIDTH - LEFT - RIGHT);
        let x = LEFT + start / whole * (WIDTH - LEFT - RIGHT);
        let mut bottom = y + LANE - 3.0;
        for (state, colour) in STATES.iter().enumerate() {
            let sum: u32 = cells.iter().skip(state).step_by(summary::STATES).sum();
            let part = (f64::from(sum) / (1000.0 * together as f64)).min(1.0) * (LANE - 6.0);
            if part >= 0.05 {
                let width = width.min(WIDTH - RIGHT - x).max(0.1);
                drawing.rect([x, bottom - part, width, part], colour, "");
                bottom -= part;
            }
        }
    }
}

/// Draws the quantiles of latencies, and of the time of a message in each component.
pub fn latency(report: &Report) -> String {
    let latencies = [
        ("service", report.latency.service),
        ("waiting", report.latency.waiting),
        ("end to end", report.latency.end_to_end),
    ];
    let known: Vec<(String, Distribution)> =
        latencies.into_iter().filter_map(|(name, times)| Some((name.to_owned(), times?))).collect();
    let boxes =
        report.components.iter().filter_map(|component| Some((component, component.work.service_ns?)));
    let boxes: Vec<_> = boxes.take(LANES_MAX).collect();
    let height = HEAD + (known.len() + boxes.len()) as f64 * LANE + 40.0;
    let mut drawing = Drawing::new(&format!("{}: latency of input messages", report.space.name), height);
    let least = known.iter().map(|(_, of)| of.min_ns).fold(f64::INFINITY, f64::min).max(1.0);
    let most = known.iter().map(|(_, of)| of.max_ns).fold(10.0 * least.min(1e18), f64::max);
    let x = |ns: f64| LEFT + (ns.max(least) / least).ln() / (most / least).ln() * (WIDTH - LEFT - RIGHT);
    if known.is_empty() {
        drawing.text(8.0, HEAD, FAINT, "latencies are not known: run with --monitor full", "");
    } else {
        let mut mark = 10f64.powf(least.log10().ceil());
        while mark <= most {
            drawing.line([x(mark), HEAD - 10.0], [x(mark), HEAD + known.len() as f64 * LANE], LINE);
            drawing.text(x(mark) + 2.0, HEAD - 12.0, FAINT, &duration(mark), "");
            mark *= 10.0;
        }
    }
    let mut y = HEAD;
    for (name, of) in &known {
        drawing.name(y, name);
        drawing.line([x(of.min_ns), y + LANE / 2.0], [x(of.max_ns), y + LANE / 2.0], FAINT);
        let data = format!(" data-p50=\"{}\" data-p99=\"{}\"", of.p50_ns, of.p99_ns);
        drawing.rect(
            [x(of.p50_ns), y + 3.0, (x(of.p90_ns) - x(of.p50_ns)).max(1.0), LANE - 6.0],
            STATES[0],
            &data,
        );
        drawing.rect(
            [x(of.p90_ns), y + 5.0, (x(of.p99_ns) - x(of.p90_ns)).max(1.0), LANE - 10.0],
            STATES[3],
            "",
        );
        drawing.rect([x(of.max_ns) - 1.0, y + 3.0, 2.0, LANE - 6.0], STATES[2], "");
        y += LANE;
    }
    y += 8.0;
    drawing.text(8.0, y + 12.0, FAINT, "Time of a message, by component", "");
    y += 18.0;
    let longest = boxes.iter().map(|(_, ns)| *ns).fold(1.0, f64::max);
    for (component, ns) in boxes {
        drawing.name(y, &component.path);
        let width = ns / longest * (WIDTH - LEFT - RIGHT - 80.0);
        drawing.rect([LEFT, y + 3.0, width.max(0.5), LANE - 6.0], STATES[0], "");
        drawing.text(LEFT + width + 5.0, y + LANE - 6.0, FAINT, &duration(ns), "");
        y += LANE;
    }
    drawing.end()
}

/// Draws the number of messages in streams over time.
pub fn occupancy(report: &Report) -> String {
    let known = report.streams.iter().filter_map(|stream| Some((stream, stream.occupancy.as_ref()?)));
    let known: Vec<_> = known.filter(|(stream, _)| stream.capacity > 0).take(LANES_MAX).collect();
    let height = HEAD + known.len() as f64 * LANE + 24.0;
    let mut drawing =
        Drawing::new(&format!("{}: how full streams were (darker is fuller)", report.space.name), height);
    let whole = report.window.duration_ns.max(1.0);
    if known.is_empty() {
        drawing.text(8.0, HEAD, FAINT, "how full streams were is not known: run with --monitor full", "");
    } else {
        drawing.axis(whole, height);
    }
    for (n, (stream, over_time)) in known.iter().enumerate() {
        let y = HEAD + n as f64 * LANE;
        drawing.name(y, &stream.name);
        let most = (stream.capacity * stream.streams).max(1) as f64;
        for (at, held) in over_time.messages.iter().enumerate() {
            let start = over_time.from_ns + at as f64 * over_time.step_ns;
            let x = LEFT + start / whole * (WIDTH - LEFT - RIGHT);
            let width = over_time.step_ns / whole * (WIDTH - LEFT - RIGHT);
            let full = (held / most).clamp(0.0, 1.0);
            if full >= 0.005 && x < WIDTH - RIGHT {
                let width = width.min(WIDTH - RIGHT - x);
                drawing.rect(
                    [x, y + 2.0, width, LANE - 4.0],
                    STATES[0],
                    &format!(" fill-opacity=\"{full:.2}\""),
                );
            }
        }
    }
    drawing.end()
}

/// Draws the waiting matrix of components.
pub fn waiting(report: &Report) -> String {
    const UNKNOWN: &str = "not known";
    let matrix = &report.waiting.matrix;
    let mut names: Vec<&str> = Vec::new();
    for edge in matrix {
        for end in [&edge.waiter, &edge.peer] {
            let name = end.as_deref().unwrap_or(UNKNOWN);
            if !names.contains(&name) && names.len() < LANES_MAX {
                names.push(name);
            }
        }
    }
    let height = HEAD + names.len() as f64 * LANE + 24.0;
    let title = format!("{}: rows waited for columns (darker is longer)", report.space.name);
    let mut drawing = Drawing::new(&title, height);
    if names.is_empty() {
        drawing.text(8.0, HEAD, FAINT, "who waited for whom is not known: run with --monitor full", "");
    }
    let size = ((WIDTH - LEFT - RIGHT) / names.len().max(1) as f64).min(44.0);
    let most = matrix.iter().map(|edge| edge.ns).fold(1.0, f64::max);
    for (n, name) in names.iter().enumerate() {
        let y = HEAD + n as f64 * LANE;
        drawing.name(y, &format!("{} {name}", n + 1));
        drawing.text(LEFT + n as f64 * size + 3.0, HEAD - 6.0, FAINT, &(n + 1).to_string(), "");
        drawing.line([LEFT, y], [LEFT + names.len() as f64 * size, y], LINE);
    }
    for edge in matrix {
        let place =
            |end: &Option<String>| names.iter().position(|name| *name == end.as_deref().unwrap_or(UNKNOWN));
        let (Some(row), Some(column)) = (place(&edge.waiter), place(&edge.peer)) else { continue };
        // Waiting for messages is drawn in the left half of a cell, waiting for room in the right half.
        let (half, colour) = if edge.what == "input" { (0.0, STATES[0]) } else { (0.5, STATES[2]) };
        let at =
            [LEFT + (column as f64 + half) * size, HEAD + row as f64 * LANE + 1.0, size / 2.0, LANE - 2.0];
        let data = format!(
            " fill-opacity=\"{:.2}\" data-ns=\"{}\" data-share=\"{}\"",
            0.15 + 0.85 * edge.ns / most,
            edge.ns,
            escaped(&share(edge.share))
        );
        drawing.rect(at, colour, &data);
    }
    if !names.is_empty() {
        let meaning = "left half, blue: for messages; right half, orange: for room";
        drawing.text(8.0, height - 8.0, FAINT, meaning, "");
    }
    drawing.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::{GapPage, Spans, TaskLane, WorkerLane};

    fn report() -> Report {
        serde_json::from_str(include_str!("../../thalweg/tests/data/report.json")).unwrap()
    }

    /// The report of a small network whose waits and streams are known.
    fn full_report() -> Report {
        let mut report = report();
        report.window.duration_ns = 4e6;
        let capacity = report.streams[0].capacity.max(1) as f64;
        for (n, stream) in report.streams.iter_mut().enumerate() {
            stream.streams = 1;
            let messages = (0..8).map(|at| capacity * f64::from(at) / 7.0 / (n + 1) as f64).collect();
            stream.occupancy = Some(thalweg_monitor::Occupancy { from_ns: 0.0, step_ns: 5e5, messages });
        }
        let edge = |waiter: &str, peer: Option<&str>, what: &str, ns| thalweg_monitor::WaitEdge {
            waiter: Some(waiter.to_owned()),
            peer: peer.map(str::to_owned),
            what: what.to_owned(),
            waits: 3,
            ns,
            share: ns / 4e6,
        };
        report.waiting.matrix = vec![
            edge("des/merge", Some("des/rounds/star/round"), "input", 2e6),
            edge("source", Some("des/merge"), "room", 1.5e6),
            edge("sink", None, "input", 0.5e6),
        ];
        report
    }

    /// Two tasks on a worker, one of them summed, and a gap.
    fn small() -> TimelinePage {
        let task = |name: &str, id, sums: &[u32]| TaskLane {
            id,
            name: name.to_owned(),
            component: name.to_owned(),
            process: 0,
            worker: Some(0),
            sums: sums.to_vec(),
        };
        TimelinePage {
            duration_ns: 1e6,
            exact_from_ns: Some(0.0),
            processes: vec![Process { name: String::new(), sums_from_ns: 0.0, step_ns: 250_000.0 }],
            workers: vec![WorkerLane {
                id: 0,
                name: "0".to_owned(),
                process: 0,
                sums: vec![1000, 0, 0, 0, 500, 500, 0, 0, 0, 1000, 0, 0],
            }],
            tasks: vec![
                task("net/<first>", Some(1), &[500, 500, 0, 0]),
                task("net/many", None, &[250, 250, 250, 250, 0, 0, 1000, 0]),
            ],
            spans: Spans {
                lane: vec![0, 0, -1],
                state: vec![0, 3, 1],
                worker: vec![0, 0, 0],
                end: vec![200_000, 300_000, 0],
                length: vec![200_000, 300_000, 100_000],
                peer: vec![-1; 3],
                stream: vec![-1; 3],
                first: vec![0; 3],
                count: vec![1, 0, 0],
            },
            gaps: vec![GapPage { from_ns: 600_000.0, to_ns: 700_000.0, lost: 17, worker: None }],
            decisions: Vec::new(),
            links: Vec::new(),
        }
    }

    /// Compares a drawing with the approved one; a different drawing is written beside it.
    fn check(name: &str, drawn: &str) -> Option<String> {
        let mut reader = quick_xml::Reader::from_str(drawn);
        while !matches!(reader.read_event().expect("well-formed XML"), quick_xml::events::Event::Eof) {}
        let path = format!("{}/tests/golden/{name}.svg", env!("CARGO_MANIFEST_DIR"));
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        (golden != drawn).then(|| {
            let new = std::env::temp_dir().join(format!("{name}.new.svg"));
            std::fs::write(&new, drawn).expect("a temporary folder");
            format!("{path} differs from {}: look at it, and copy it if it is right", new.display())
        })
    }

    #[test]
    fn drawings_are_those_that_were_looked_at() {
        let drawn = [
            check("timeline", &timeline(&report(), &small())),
            check("latency", &latency(&report())),
            check("occupancy", &occupancy(&full_report())),
            check("waiting", &waiting(&full_report())),
        ];
        let differ: Vec<String> = drawn.into_iter().flatten().collect();
        assert!(differ.is_empty(), "{differ:#?}");
    }

    #[test]
    fn a_report_that_knows_nothing_is_drawn_as_that() {
        let mut empty = report();
        empty.streams.clear();
        empty.components.clear();
        empty.waiting.matrix.clear();
        empty.latency = thalweg_monitor::Latency::default();
        for drawn in
            [timeline(&empty, &TimelinePage::default()), latency(&empty), occupancy(&empty), waiting(&empty)]
        {
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        }
        assert!(latency(&empty).contains("not known") && waiting(&empty).contains("not known"));
    }

    #[test]
    fn names_are_escaped() {
        let mut odd = report();
        odd.space.name = "<script>&\"'\u{1}".to_owned();
        odd.components[0].path = "</svg><x>".to_owned();
        let drawn = latency(&odd) + &timeline(&odd, &small());
        assert!(
            !drawn.contains("<script")
                && !drawn.contains("<x>")
                && !drawn.contains('\u{1}')
                && drawn.contains("net/&lt;first&gt;")
        );
    }
}
