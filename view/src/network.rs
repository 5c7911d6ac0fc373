//! The layout of the network of a run: components and the streams between them, complete and with nets
//! folded.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use thalweg_monitor::{Report, Stream};

use crate::layers::{Edge, Layers, Point, Size, layers};

/// The size of a drawn component.
const NODE: Size = Size { width: 190.0, height: 58.0 };
/// The size of a stream's label.
const LABEL: Size = Size { width: 74.0, height: 16.0 };
/// The largest number of depths at which the page offers to fold the network; most networks are not deeper.
const DEPTHS_MAX: usize = 6;
/// The greatest number of components for which folded networks are laid out as well.
const FOLDED_MAX: usize = 2000;

/// A network with the places at which its boxes and lines are drawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Network {
    /// The depth below which nets are folded into one node; null if no net is folded.
    pub depth: Option<usize>,
    /// The width of the drawing.
    pub width: f64,
    /// The height of the drawing.
    pub height: f64,
    /// The boxes of the drawing.
    pub nodes: Vec<Node>,
    /// The lines of the drawing.
    pub edges: Vec<Line>,
}

/// A component, or the components of a folded net.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Node {
    /// The path of the component or net.
    pub path: String,
    /// The indices of the node's components in the report.
    pub components: Vec<usize>,
    /// The horizontal position of the upper left corner.
    pub x: f64,
    /// The vertical position of the upper left corner.
    pub y: f64,
    /// The width of the box.
    pub width: f64,
    /// The height of the box.
    pub height: f64,
}

/// The streams between two nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// The index of the writing node in `nodes`.
    pub from: usize,
    /// The index of the reading node in `nodes`.
    pub to: usize,
    /// The indices of the line's streams in the report.
    pub streams: Vec<usize>,
    /// The points of the line: the coordinates x and y by turns.
    pub points: Vec<f64>,
    /// The upper left corner of its label.
    pub label: [f64; 2],
}

impl Network {
    /// The network of a report; nets below `depth` are folded.
    pub fn of(report: &Report, depth: Option<usize>) -> Network {
        let mut nodes: Vec<Node> = Vec::new();
        let mut by_path: HashMap<String, usize> = HashMap::new();
        let mut node = |path: &str| {
            let path = folded(path, depth);
            *by_path.entry(path.to_owned()).or_insert_with(|| {
                nodes.push(Node { path: path.to_owned(), ..Node::default() });
                nodes.len() - 1
            })
        };
        let mut lines: Vec<Line> = Vec::new();
        let mut by_ends: HashMap<(usize, usize), usize> = HashMap::new();
        for (n, stream) in in_flow(&report.streams) {
            let (Some(writer), Some(reader)) = (&stream.writer, &stream.reader) else { continue };
            let (from, to) = (node(writer), node(reader));
            if from == to && depth.is_some() && writer != reader {
                continue;
            }
            let at = *by_ends.entry((from, to)).or_insert_with(|| {
                lines.push(Line { from, to, ..Line::default() });
                lines.len() - 1
            });
            lines[at].streams.push(n);
        }
        let homes: Vec<usize> = report.components.iter().map(|component| node(&component.path)).collect();
        homes.into_iter().enumerate().for_each(|(component, home)| nodes[home].components.push(component));
        lay_out(nodes, lines, depth)
    }

    /// A drawing with a node for each of the names; an edge is given by the indices of its two nodes, and a
    /// number of its own.
    pub fn drawn(names: Vec<String>, edges: &[(usize, usize, usize)]) -> Network {
        let node = |(n, path)| Node { path, components: vec![n], ..Node::default() };
        let nodes = names.into_iter().enumerate().map(node).collect();
        let line =
            |&(from, to, n): &(usize, usize, usize)| Line { from, to, streams: vec![n], ..Line::default() };
        lay_out(nodes, edges.iter().map(line).collect(), None)
    }

    /// The complete network, preceded by its folded forms if it is nested.
    pub fn all_of(report: &Report) -> Vec<Network> {
        let nested = |path: &String| path.matches('/').count() + 1;
        let deepest = report.components.iter().map(|component| nested(&component.path)).max().unwrap_or(1);
        // Of a large network only the forms are made that have few nodes.
        let nodes = |depth: usize| {
            let paths = report.components.iter().map(|component| folded(&component.path, Some(depth)));
            paths.collect::<HashSet<_>>().len()
        };
        let has_few = |depth: &usize| report.components.len() <= FOLDED_MAX || nodes(*depth) <= FOLDED_MAX;
        let foldings = (1..deepest.min(DEPTHS_MAX + 1)).take_while(has_few);
        let folded = foldings.map(|depth| Network::of(report, Some(depth)));
        folded.chain([Network::of(report, None)]).collect()
    }
}

/// The streams in the order in which they are drawn: entry streams come first, so their readers are placed at
/// the left.
fn in_flow(streams: &[Stream]) -> impl Iterator<Item = (usize, &Stream)> {
    let of = move |entry: bool| {
        streams.iter().enumerate().filter(move |(_, stream)| (stream.role == "entry") == entry)
    };
    of(true).chain(of(false))
}

fn folded(path: &str, depth: Option<usize>) -> &str {
    let Some(depth) = depth else { return path };
    path.match_indices('/').nth(depth - 1).map_or(path, |(at, _)| &path[..at])
}

fn lay_out(mut nodes: Vec<Node>, mut lines: Vec<Line>, depth: Option<usize>) -> Network {
    let sizes = vec![NODE; nodes.len()];
    let edges: Vec<Edge> =
        lines.iter().map(|line| Edge { from: line.from, to: line.to, label: LABEL }).collect();
    let Layers { nodes: places, edges: routes, size } = layers(&sizes, &edges);
    for (node, Point { x, y }) in nodes.iter_mut().zip(places) {
        (node.x, node.y, node.width, node.height) = (round(x), round(y), NODE.width, NODE.height);
    }
    for (line, route) in lines.iter_mut().zip(routes) {
        line.points = route.points.iter().flat_map(|point| [round(point.x), round(point.y)]).collect();
        line.label = [round(route.label.x), round(route.label.y)];
    }
    Network { depth, width: round(size.width), height: round(size.height), nodes, edges: lines }
}

/// Rounds to tenths, which is exact enough for a drawing.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        serde_json::from_str(include_str!("../../thalweg/tests/data/report.json")).unwrap()
    }

    /// A report of a network with `components` components in parallel rows, connected by a few streams.
    fn large(components: usize, rows: usize) -> Report {
        let mut report = report();
        let (component, stream) = (report.components[0].clone(), report.streams[0].clone());
        let path = |n: usize| format!("net/part{}/box{n}", n % 7);
        report.components = (0..components)
            .map(|n| thalweg_monitor::Component { path: path(n), ..component.clone() })
            .collect();
        let mut chance = thalweg_chance::Chance::new(7);
        let along = (0..components).filter(|n| n + rows < components).map(|n| (n, n + rows));
        let across: Vec<(usize, usize)> = (0..components / 10)
            .map(|_| {
                let from = chance.below(components as u64) as usize;
                (from, (from + 1 + chance.below(5 * rows as u64) as usize) % components)
            })
            .collect();
        let ends = along.chain(across);
        report.streams = ends
            .map(|(from, to)| Stream {
                name: format!("{from} to {to}"),
                writer: Some(path(from)),
                reader: Some(path(to)),
                role: "inner".to_owned(),
                ..stream.clone()
            })
            .collect();
        report
    }

    #[test]
    fn every_component_and_stream_is_drawn_once_however_nets_are_folded() {
        for report in [report(), large(300, 10)] {
            let all = Network::all_of(&report);
            assert_eq!(all.last().unwrap().depth, None);
            for network in &all {
                let mut components: Vec<usize> =
                    network.nodes.iter().flat_map(|node| node.components.clone()).collect();
                components.sort_unstable();
                assert_eq!(
                    components,
                    (0..report.components.len()).collect::<Vec<_>>(),
                    "{:?}",
                    network.depth
                );
                for node in &network.nodes {
                    let deep = node.path.matches('/').count() + 1;
                    assert!(
                        network.depth.is_none_or(|depth| deep <= depth),
                        "{} at {:?}",
                        node.path,
                        network.depth
                    );
                    assert!(node.x >= 0.0 && node.x + node.width <= network.width + 0.2, "{node:?}");
                    assert!(node.y >= 0.0 && node.y + node.height <= network.height + 0.2, "{node:?}");
                }
                let drawn: Vec<usize> = network.edges.iter().flat_map(|line| line.streams.clone()).collect();
                let outside = |n: &usize| {
                    let stream = &report.streams[*n];
                    let at = |end: &Option<String>| folded(end.as_deref().unwrap(), network.depth).to_owned();
                    network.depth.is_none() || at(&stream.writer) != at(&stream.reader)
                };
                let known =
                    |n: &usize| report.streams[*n].writer.is_some() && report.streams[*n].reader.is_some();
                let want: Vec<usize> = (0..report.streams.len()).filter(|n| known(n) && outside(n)).collect();
                let mut sorted: Vec<usize> = drawn.clone();
                sorted.sort_unstable();
                sorted.dedup();
                assert_eq!(sorted.len(), drawn.len(), "a stream is drawn twice");
                assert!(want.iter().all(|n| sorted.binary_search(n).is_ok()), "a stream is missing");
            }
        }
    }

    /// The command `cargo test --release -p thalweg-view -- --ignored --nocapture` prints how long the layout
    /// takes.
    #[test]
    #[ignore = "measures"]
    fn ten_thousand_components() {
        for (components, rows) in [(10_000, 100), (10_000, 10), (10_000, 1), (10_000, 5000)] {
            let report = large(components, rows);
            let begun = std::time::Instant::now();
            let network = Network::of(&report, None);
            let took = begun.elapsed();
            eprintln!(
                "{components} components in {rows} rows: {took:?}, {:.0} × {:.0}",
                network.width, network.height
            );
        }
    }
}
