//! A report as a drawing: the network as it ran, labelled with its measurements.
//!
//! Unlike the drawing of `thalweg check --graph`, which shows how a network is written, this drawing has a
//! box for every component that had tasks, including dispatchers and collectors, and a line for the streams
//! between two components. The events of the run are its only input.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use thalweg_monitor::{Component, Report, Stream, VerdictKind};
use thalweg_view::layers::{Edge, Layers, Point, Route, Size, layers};

use crate::commands::graph::{escaped, opening, quoted};
use crate::failure::Failure;
use crate::table::{apart, wrapped};
use crate::units::{count, counted, duration, rate, share};

/// The format of the drawing of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// An image.
    Svg,
    /// Input of Graphviz.
    Dot,
}

/// The largest number of components drawn.
const COMPONENTS_MAX: usize = 500;
/// The width of a character of the image's font, and the height of a line.
const CHARACTER: f64 = 7.9;
const LINE: f64 = 17.0;
const FONT_SIZE: usize = 13;
/// The length to which names are shortened.
const NAME_MAX: usize = 44;
/// Characters in a line of sentences.
const TEXT_MAX: f64 = 130.0;
/// The margin around the drawing.
const MARGIN: f64 = 24.0;
/// The colour of the component that limits the flow: colour-blind readers can distinguish vermilion from blue
/// (Okabe and Ito, 2008).
const LIMITS: &str = "#d55e00";

/// The contents of a drawing: components and streams with their labels.
struct Drawn<'r> {
    report: &'r Report,
    nodes: Vec<Node<'r>>,
    edges: Vec<Line<'r>>,
}

/// A component.
struct Node<'r> {
    path: &'r str,
    component: Option<&'r Component>,
    lines: Vec<String>,
    limits: bool,
}

/// The streams with one name between two components, drawn as one line.
struct Line<'r> {
    stream: &'r Stream,
    from: usize,
    to: usize,
    lines: Vec<String>,
    limits: bool,
}

/// The drawing of a report.
///
/// # Errors
/// Fails when the report has no components, or too many.
pub(crate) fn draw(report: &Report, format: Format) -> Result<String, Failure> {
    let drawn = Drawn::of(report)?;
    Ok(match format {
        Format::Svg => drawn.svg(),
        Format::Dot => drawn.dot(),
    })
}

impl<'r> Drawn<'r> {
    fn of(report: &'r Report) -> Result<Drawn<'r>, Failure> {
        let by_path: HashMap<&str, &Component> =
            report.components.iter().map(|component| (component.path.as_str(), component)).collect();
        let ends =
            report.streams.iter().flat_map(|stream| [stream.writer.as_deref(), stream.reader.as_deref()]);
        let all = ends.flatten().chain(report.components.iter().map(|component| component.path.as_str()));
        let mut seen = HashSet::new();
        let paths: Vec<&str> = all.filter(|path| seen.insert(*path)).collect();
        if paths.is_empty() {
            return Err(Failure::Usage(
                "there is nothing to draw: no task of this run was recorded".to_owned(),
            ));
        }
        if paths.len() > COMPONENTS_MAX {
            return Err(Failure::Usage(format!(
                "the run has {} components, of which {COMPONENTS_MAX} can be drawn at most: `--json` has all of them",
                count(paths.len() as u64)
            )));
        }
        let limit = Limit::of(report);
        let names =
            apart(&paths, NAME_MAX).unwrap_or_else(|| paths.iter().map(|&path| path.to_owned()).collect());
        let nodes: Vec<Node<'_>> = paths
            .iter()
            .zip(names)
            .map(|(&path, name)| {
                let component = by_path.get(path).copied();
                let limits = limit.is_component(path, component);
                Node { path, component, lines: node_lines(name, component, limits), limits }
            })
            .collect();
        let number: HashMap<&str, usize> = paths.iter().enumerate().map(|(n, &path)| (path, n)).collect();
        let edges = report.streams.iter().filter_map(|stream| {
            let (from, to) = (number[stream.writer.as_deref()?], number[stream.reader.as_deref()?]);
            let limits = limit.is_stream(stream);
            Some(Line { stream, from, to, lines: edge_lines(stream, limits), limits })
        });
        Ok(Drawn { report, edges: edges.collect(), nodes })
    }

    fn svg(&self) -> String {
        let nodes: Vec<Size> = self.nodes.iter().map(|node| size(&node.lines, 10.0)).collect();
        let edges: Vec<Edge> = self
            .edges
            .iter()
            .map(|line| Edge { from: line.from, to: line.to, label: size(&line.lines, 2.0) })
            .collect();
        let Layers { nodes: places, edges: routes, size: drawing } = layers(&nodes, &edges);
        let width = drawing.width.max(72.0 * CHARACTER);
        let text_width = (width / CHARACTER).min(TEXT_MAX) as usize;
        let heading = self.heading(text_width);
        let top = MARGIN + heading.len() as f64 * LINE + 10.0;
        let legend = legend(text_width);
        let height = top + drawing.height + MARGIN + legend.len() as f64 * LINE;
        let mut out = opening((width + 2.0 * MARGIN) as usize, (height + MARGIN) as usize, FONT_SIZE);
        text(&mut out, &heading, Point { x: MARGIN, y: MARGIN - LINE / 2.0 }, " font-weight=\"bold\"");
        let _ = writeln!(out, "<g transform=\"translate({MARGIN} {top:.1})\">");
        for (line, route) in self.edges.iter().zip(&routes) {
            line.draw(&mut out, route, self.nodes[line.from].path, self.nodes[line.to].path);
        }
        for ((node, place), size) in self.nodes.iter().zip(places).zip(nodes) {
            node.draw(&mut out, place, size);
        }
        out += "</g>\n";
        text(&mut out, &legend, Point { x: MARGIN, y: top + drawing.height + MARGIN }, "");
        out + "</svg>\n"
    }

    /// The heading: the run, and the limit of its flow.
    fn heading(&self, width: usize) -> Vec<String> {
        let window = &self.report.window;
        let mode = window.modes.last().map_or("unknown", |span| span.mode.as_str());
        let run = format!("{}: {} seen, mode {mode}.", self.report.space.name, duration(window.duration_ns));
        let mut lines = vec![run];
        lines.extend(wrapped(&self.report.verdict.words.text, width, "").lines().map(str::to_owned));
        lines
    }

    fn dot(&self) -> String {
        let mut out = String::from(
            "digraph run {\n    rankdir=LR; node [shape=box, fontname=monospace]; edge [fontname=monospace, arrowsize=0.7];\n",
        );
        let text = |lines: &[String]| lines.iter().map(|line| quoted(line)).collect::<Vec<_>>().join("\\n");
        let _ = writeln!(out, "    label=\"{}\"; labelloc=t;", text(&self.heading(100)));
        for (n, node) in self.nodes.iter().enumerate() {
            let limits =
                if node.limits { format!(", color=\"{LIMITS}\", penwidth=3") } else { String::new() };
            let shade = shade(node.busy());
            let _ = writeln!(
                out,
                "    n{n} [label=\"{}\", style=filled, fillcolor=\"{shade}\"{limits}];",
                text(&node.lines)
            );
        }
        for line in &self.edges {
            let limits =
                if line.limits { format!(", color=\"{LIMITS}\", penwidth=3") } else { String::new() };
            let _ = writeln!(
                out,
                "    n{} -> n{} [label=\"{}\"{limits}];",
                line.from,
                line.to,
                text(&line.lines)
            );
        }
        out + "}\n"
    }
}

impl Node<'_> {
    fn busy(&self) -> Option<f64> {
        self.component.and_then(|component| component.work.shares).map(|shares| shares.busy)
    }

    fn draw(&self, out: &mut String, at: Point, size: Size) {
        let busy = self.busy().map_or(String::new(), |busy| format!(" data-busy=\"{busy}\""));
        let limits = if self.limits { " data-limits=\"true\"" } else { "" };
        let _ = writeln!(out, "<g data-component=\"{}\"{busy}{limits}>", escaped(self.path));
        let _ = writeln!(out, "<title>{}</title>", escaped(self.path));
        let stroke =
            if self.limits { format!(" stroke=\"{LIMITS}\" stroke-width=\"3\"") } else { String::new() };
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"4\" fill=\"{}\"{stroke}/>",
            at.x,
            at.y,
            size.width,
            size.height,
            shade(self.busy())
        );
        let inside = Point { x: at.x + 10.0, y: at.y + 5.0 };
        text(out, &self.lines[..1], inside, " font-weight=\"bold\"");
        text(out, &self.lines[1..], Point { y: inside.y + LINE, ..inside }, "");
        *out += "</g>\n";
    }
}

impl Line<'_> {
    fn draw(&self, out: &mut String, route: &Route, from: &str, to: &str) {
        let known =
            |name: &str, value: Option<f64>| value.map_or(String::new(), |v| format!(" data-{name}=\"{v}\""));
        let rate = known("rate-per-s", self.stream.rate_per_s);
        let fill = known("fill", fill(self.stream));
        let limits = if self.limits { " data-limits=\"true\"" } else { "" };
        let (name, from, to) = (escaped(&self.stream.name), escaped(from), escaped(to));
        let _ = writeln!(
            out,
            "<g data-stream=\"{name}\" data-from=\"{from}\" data-to=\"{to}\"{rate}{fill}{limits}>\n<title>{name}</title>"
        );
        let stroke =
            if self.limits { format!(" stroke=\"{LIMITS}\" stroke-width=\"3\"") } else { String::new() };
        let _ = writeln!(out, "<path d=\"{}\" marker-end=\"url(#arrow)\"{stroke}/>", curve(&route.points));
        text(out, &self.lines, Point { x: route.label.x + 2.0, y: route.label.y }, "");
        *out += "</g>\n";
    }
}

/// A curve through all points that runs horizontally at each of them.
fn curve(points: &[Point]) -> String {
    let mut path = format!("M{:.1} {:.1}", points[0].x, points[0].y);
    for two in points.windows(2) {
        let (a, b) = (two[0], two[1]);
        if (a.y - b.y).abs() < 0.05 || (a.x - b.x).abs() < 0.05 {
            let _ = write!(path, "L{:.1} {:.1}", b.x, b.y);
        } else {
            let middle = (a.x + b.x) / 2.0;
            let _ = write!(path, "C{middle:.1} {:.1} {middle:.1} {:.1} {:.1} {:.1}", a.y, b.y, b.x, b.y);
        }
    }
    path
}

/// Writes lines of text into the drawing, the first below `at`.
fn text(out: &mut String, lines: &[String], at: Point, style: &str) {
    for (n, line) in lines.iter().enumerate() {
        let y = at.y + LINE * (n as f64 + 1.0) - 4.0;
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{y:.1}\" fill=\"#123\" stroke=\"none\" xml:space=\"preserve\"{style}>{}</text>",
            at.x,
            escaped(line)
        );
    }
}

fn size(lines: &[String], margin: f64) -> Size {
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    Size { width: longest as f64 * CHARACTER + 2.0 * margin, height: lines.len() as f64 * LINE + margin }
}

/// The shade of a box: the busier, the darker.
fn shade(busy: Option<f64>) -> String {
    let Some(busy) = busy else { return "#ffffff".to_owned() };
    let between = |light: f64, dark: f64| (light + (dark - light) * busy.clamp(0.0, 1.0)).round() as u8;
    format!("#{:02x}{:02x}{:02x}", between(245.0, 120.0), between(249.0, 180.0), between(254.0, 233.0))
}

fn legend(width: usize) -> Vec<String> {
    let text = "A box: the share of their time for which a component's tasks were busy (the darker the busier), and the time a message took. \
                A line: messages read in a second, and how full its streams were on average. Orange and ▲: what limits the flow.";
    wrapped(text, width, "").lines().map(str::to_owned).collect()
}

/// The label of a component.
fn node_lines(name: String, component: Option<&Component>, limits: bool) -> Vec<String> {
    let mut lines = vec![name];
    if let Some(Component { kind, tasks, work, .. }) = component {
        lines.push(if *tasks == 1 { kind.clone() } else { format!("{kind}, {}", counted(*tasks, "task")) });
        let busy = work.shares.map(|shares| {
            let each = if *tasks == 1 { "" } else { "each " };
            format!("{each}busy {}", share(shares.busy))
        });
        let service = work.service_ns.map(|ns| format!("{} a message", duration(ns)));
        let known: Vec<String> = busy.into_iter().chain(service).collect();
        lines.extend((!known.is_empty()).then(|| known.join(", ")));
        lines.extend((work.failed > 0).then(|| format!("{} failed", counted(work.failed, "message"))));
    }
    lines.extend(limits.then(|| "▲ limits the flow".to_owned()));
    lines
}

/// How full a stream was, as a share of its capacity.
fn fill(stream: &Stream) -> Option<f64> {
    Some(stream.occupancy_mean? / stream.capacity as f64).filter(|share| share.is_finite())
}

/// The label of a stream.
fn edge_lines(stream: &Stream, limits: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if !stream.name.contains(" → ") {
        lines.push(stream.name.clone());
    }
    lines.extend((stream.streams > 1).then(|| format!("{} streams", count(stream.streams))));
    match (stream.rate_per_s, stream.written) {
        (Some(per_s), _) => lines.push(rate(per_s)),
        (None, Some(written)) => lines.push(counted(written, "message")),
        (None, None) => {}
    }
    match (fill(stream), stream.full_share) {
        (Some(fill), _) => lines.push(format!("{} full", share(fill))),
        (None, Some(full)) => lines.push(format!("no room {} of the time", share(full))),
        (None, None) => {}
    }
    lines.extend(limits.then(|| "▲ limits the flow".to_owned()));
    lines
}

/// The part of the network that the verdict is about.
struct Limit<'r> {
    component: Option<&'r str>,
    stream: Option<&'r thalweg_monitor::StreamRef>,
    /// `source` or `sink`, if one of these limits the flow.
    kind: Option<&'static str>,
}

impl<'r> Limit<'r> {
    fn of(report: &'r Report) -> Limit<'r> {
        let found = &report.verdict.finding;
        let none = Limit { component: None, stream: None, kind: None };
        let kind = match found.kind {
            // These verdicts say that the network itself does not limit the flow.
            VerdictKind::Nothing
            | VerdictKind::Paused
            | VerdictKind::Unclear
            | VerdictKind::Unknown
            | VerdictKind::Contention
            | VerdictKind::Link
            | VerdictKind::Port
            | VerdictKind::Node
            | VerdictKind::Disk => return none,
            VerdictKind::Source => Some("source"),
            VerdictKind::Sink => Some("sink"),
            _ => None,
        };
        let component =
            found.component.as_deref().or_else(|| found.task.as_ref().map(|task| component_of(&task.name)));
        // If a worker limits the flow, the component on which the worker spent most time is drawn as the
        // limit.
        let on_worker = || {
            let worker =
                found.worker.filter(|_| matches!(found.kind, VerdictKind::Worker | VerdictKind::Mapping))?;
            let busiest = report.tasks.iter().find(|task| task.worker == Some(worker))?;
            Some(component_of(&busiest.name))
        };
        let stream = found.stream.as_ref();
        let component = component.or_else(|| if stream.is_none() { on_worker() } else { None });
        Limit { component, stream, kind: kind.filter(|_| component.is_none()) }
    }

    fn is_component(&self, path: &str, component: Option<&Component>) -> bool {
        self.component == Some(path)
            || self.kind.is_some_and(|kind| component.is_some_and(|component| component.kind == kind))
    }

    fn is_stream(&self, stream: &Stream) -> bool {
        self.stream.is_some_and(|limit| {
            (&limit.name, &limit.writer, &limit.reader) == (&stream.name, &stream.writer, &stream.reader)
        })
    }
}

/// A task's component, by the task's name.
fn component_of(task: &str) -> &str {
    task.rsplit_once('[').map_or(task, |(component, _)| component)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        serde_json::from_str(include_str!("../../../tests/data/report.json")).unwrap()
    }

    /// The attributes of each `element` of the image that has the attribute `key`.
    fn elements(svg: &str, element: &str, key: &str) -> Vec<HashMap<String, String>> {
        use quick_xml::events::Event;
        let mut reader = quick_xml::Reader::from_str(svg);
        let mut found = Vec::new();
        loop {
            match reader.read_event().expect("well-formed XML") {
                Event::Start(start) | Event::Empty(start) if start.name().as_ref() == element.as_bytes() => {
                    let attributes: HashMap<String, String> = start
                        .attributes()
                        .map(|attribute| {
                            let attribute = attribute.expect("an attribute");
                            let name = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
                            (name, attribute.unescape_value().expect("a value").into_owned())
                        })
                        .collect();
                    found.extend(attributes.contains_key(key).then_some(attributes));
                }
                Event::Eof => return found,
                _ => {}
            }
        }
    }

    #[test]
    fn the_drawing_has_every_component_and_stream_with_its_figures() {
        let report = report();
        let svg = draw(&report, Format::Svg).unwrap();
        let nodes = elements(&svg, "g", "data-component");
        let ends = report.streams.iter().flat_map(|stream| [stream.writer.clone(), stream.reader.clone()]);
        let of_components = report.components.iter().map(|component| Some(component.path.clone()));
        let all: HashSet<String> = ends.chain(of_components).flatten().collect();
        let drawn: HashSet<String> = nodes.iter().map(|node| node["data-component"].clone()).collect();
        assert_eq!((nodes.len(), drawn), (all.len(), all));
        for component in &report.components {
            let node =
                nodes.iter().find(|node| node["data-component"] == component.path).expect("it is drawn");
            let busy = component.work.shares.map(|shares| shares.busy.to_string());
            assert_eq!(node.get("data-busy"), busy.as_ref(), "{}", component.path);
        }
        let edges = elements(&svg, "g", "data-stream");
        let ends = |stream: &Stream| stream.writer.is_some() && stream.reader.is_some();
        assert_eq!(edges.len(), report.streams.iter().filter(|stream| ends(stream)).count());
        for stream in report.streams.iter().filter(|stream| ends(stream)) {
            let edge = edges.iter().find(|edge| edge["data-stream"] == stream.name).expect("it is drawn");
            assert_eq!(Some(&edge["data-from"]), stream.writer.as_ref());
            assert_eq!(edge.get("data-rate-per-s"), stream.rate_per_s.map(|rate| rate.to_string()).as_ref());
            let fill: f64 = edge["data-fill"].parse().unwrap();
            assert!((fill - stream.occupancy_mean.unwrap() / stream.capacity as f64).abs() < 1e-9);
        }
        let limits = elements(&svg, "g", "data-limits");
        assert_eq!(limits.len(), 1, "{limits:?}");
        assert_eq!(Some(&limits[0]["data-component"]), report.verdict.finding.component.as_ref());
        assert!(
            svg.contains("771 k/s") && svg.contains("48.8 % full") && svg.contains("each busy 90.0 %"),
            "{svg}"
        );
    }

    #[test]
    fn the_drawing_is_the_one_that_was_looked_at() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/graph.svg");
        let drawn = draw(&report(), Format::Svg).unwrap();
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &drawn).unwrap();
        }
        let known = std::fs::read_to_string(path).unwrap();
        assert!(drawn == known, "{path} is drawn otherwise: UPDATE=1 writes it anew, look at it then");
    }

    #[test]
    fn what_limits_is_marked() {
        let marked = |report: &Report| -> Vec<String> {
            let svg = draw(report, Format::Svg).unwrap();
            let name = |of: &HashMap<String, String>| {
                of.get("data-component").or(of.get("data-stream")).cloned().unwrap()
            };
            elements(&svg, "g", "data-limits").iter().map(name).collect()
        };
        let mut changed = report();
        changed.verdict.finding.component = None;
        changed.verdict.finding.task = None;
        changed.verdict.finding.worker = None;
        changed.verdict.finding.kind = VerdictKind::Sink;
        assert_eq!(marked(&changed), ["sink"]);
        changed.verdict.finding.kind = VerdictKind::Nothing;
        assert!(marked(&changed).is_empty());
        changed.verdict.finding.kind = VerdictKind::Capacity;
        let stream = changed.streams[0].clone();
        changed.verdict.finding.stream = Some(thalweg_monitor::StreamRef {
            name: stream.name.clone(),
            writer: stream.writer,
            reader: stream.reader,
        });
        assert_eq!(marked(&changed), [stream.name]);
    }

    #[test]
    fn names_are_escaped_and_nothing_is_too_much() {
        let mut odd = report();
        odd.components[0].path = "a<b>&\"c\"".to_owned();
        let svg = draw(&odd, Format::Svg).unwrap();
        assert!(
            elements(&svg, "g", "data-component").iter().any(|node| node["data-component"] == "a<b>&\"c\"")
        );
        assert!(draw(&odd, Format::Dot).unwrap().contains("a<b>&\\\"c\\\""));
        odd.streams.clear();
        odd.components.clear();
        assert!(draw(&odd, Format::Svg).is_err());
        let mut many = report();
        many.components = (0..=COMPONENTS_MAX)
            .map(|n| Component { path: format!("c{n}"), ..many.components[0].clone() })
            .collect();
        assert!(draw(&many, Format::Svg).is_err());
    }
}
