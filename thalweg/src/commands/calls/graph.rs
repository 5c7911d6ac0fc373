//! The dependency graph of a program's operations, components, processes or hosts: for Graphviz, and as a picture of
//! layers.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use thalweg_monitor::Calls;

use super::By;
use crate::units::{count, duration};

/// A graph of callers and callees.
struct Graph {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    left_out: usize,
}

struct Node {
    name: String,
    count: u64,
    failed: u64,
    own_ns: f64,
}

struct Edge {
    from: usize,
    to: usize,
    count: u64,
    failed: u64,
    total_ns: f64,
    is_remote: bool,
}

impl Graph {
    /// The nodes with the most own time, at most `most` of them, and the edges between these nodes.
    fn new(calls: &Calls, by: By, most: usize) -> Graph {
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut of_operation = HashMap::new();
        let mut nodes: Vec<Node> = Vec::new();
        for operation in &calls.operations {
            let name = match by {
                By::Operation => &operation.name,
                By::Component => &operation.component,
                By::Process => &operation.process,
                By::Host => &operation.host,
            };
            let next = nodes.len();
            let at = *numbers.entry(name.clone()).or_insert(next);
            if at == next {
                nodes.push(Node { name: name.clone(), count: 0, failed: 0, own_ns: 0.0 });
            }
            nodes[at].count += operation.count;
            nodes[at].failed += operation.failed + operation.unwound;
            nodes[at].own_ns += operation.own.sum_ns;
            of_operation.insert(operation.id, at);
        }
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by(|a, b| nodes[*b].own_ns.total_cmp(&nodes[*a].own_ns));
        let left_out = order.len().saturating_sub(most);
        order.truncate(most);
        let places: HashMap<usize, usize> = order.iter().enumerate().map(|(new, old)| (*old, new)).collect();
        let mut edges: BTreeMap<(usize, usize, bool), Edge> = BTreeMap::new();
        for edge in &calls.edges {
            let place = |operation| of_operation.get(&operation).and_then(|at| places.get(at)).copied();
            let (Some(from), Some(to)) = (edge.caller.and_then(place), place(edge.callee)) else { continue };
            if from == to && by != By::Operation {
                continue;
            }
            let new = Edge { from, to, count: 0, failed: 0, total_ns: 0.0, is_remote: edge.is_remote };
            let known = edges.entry((from, to, edge.is_remote)).or_insert(new);
            known.count += edge.count;
            known.failed += edge.failed;
            known.total_ns += edge.total_ns;
        }
        let mut all: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
        let nodes = order.iter().filter_map(|old| all[*old].take()).collect();
        Graph { nodes, edges: edges.into_values().collect(), left_out }
    }

    /// The layer of each node: one more than that of its callers. Edges that close a circle are ignored.
    fn layers(&self) -> Vec<usize> {
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for edge in self.edges.iter().filter(|edge| edge.from != edge.to) {
            below[edge.from].push(edge.to);
        }
        // The search goes depth first: an edge to a node whose callees are being visited closes a circle. The
        // reversed order in which the visits of nodes end is an order along all other edges.
        let mut state = vec![0u8; self.nodes.len()];
        let mut ends = Vec::new();
        let mut back = std::collections::HashSet::new();
        let has_caller = |node: usize| self.edges.iter().any(|edge| edge.to == node && edge.from != node);
        let mut starts: Vec<usize> = (0..self.nodes.len()).collect();
        starts.sort_by_key(|node| has_caller(*node));
        for start in starts {
            let mut stack = vec![(start, 0)];
            while let Some((node, next)) = stack.pop() {
                if next == 0 {
                    if state[node] != 0 {
                        continue;
                    }
                    state[node] = 1;
                }
                match below[node].get(next) {
                    None => {
                        state[node] = 2;
                        ends.push(node);
                    }
                    Some(callee) => {
                        stack.push((node, next + 1));
                        if state[*callee] == 1 {
                            back.insert((node, *callee));
                        } else {
                            stack.push((*callee, 0));
                        }
                    }
                }
            }
        }
        let mut layers = vec![0; self.nodes.len()];
        for node in ends.into_iter().rev() {
            for callee in &below[node] {
                if !back.contains(&(node, *callee)) {
                    layers[*callee] = layers[*callee].max(layers[node] + 1);
                }
            }
        }
        layers
    }
}

/// The graph in the language of Graphviz.
pub(super) fn dot(calls: &Calls, by: By) -> String {
    let graph = Graph::new(calls, by, usize::MAX);
    let mut out = "digraph calls {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n".to_owned();
    for (at, node) in graph.nodes.iter().enumerate() {
        let errors = if node.failed > 0 { format!(", {} failed", count(node.failed)) } else { String::new() };
        let label =
            format!("{}\n{} calls{errors}\nown {}", node.name, count(node.count), duration(node.own_ns));
        let _ = writeln!(out, "  n{at} [label={}];", quoted(&label));
    }
    for edge in &graph.edges {
        let style = if edge.is_remote { ", style=dashed" } else { "" };
        let label = quoted(&label(edge));
        let _ = writeln!(out, "  n{} -> n{} [label={label}{style}];", edge.from, edge.to);
    }
    out + "}\n"
}

fn label(edge: &Edge) -> String {
    let errors = if edge.failed > 0 { format!(", {} failed", count(edge.failed)) } else { String::new() };
    format!("{}×{errors}, {}", count(edge.count), duration(edge.total_ns))
}

/// The text, escaped for Graphviz.
fn quoted(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out + "\""
}

const WIDTH: usize = 220;
const HEIGHT: usize = 46;
const BETWEEN: usize = 120;
const ROW: usize = 66;

/// The graph as a picture: a column for each layer, callers left of their callees.
pub(super) fn svg(calls: &Calls, by: By, most: usize) -> String {
    let graph = Graph::new(calls, by, most);
    let layers = graph.layers();
    let mut rows = vec![0; layers.iter().max().map_or(0, |most| most + 1)];
    let mut places = Vec::new();
    for layer in &layers {
        places.push((20 + layer * (WIDTH + BETWEEN), 20 + rows[*layer] * ROW));
        rows[*layer] += 1;
    }
    let width = 40 + rows.len().max(1) * (WIDTH + BETWEEN) - BETWEEN;
    let height = 60 + rows.iter().max().copied().unwrap_or(0) * ROW;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
         <path d=\"M0 0L8 4L0 8z\" fill=\"#555\"/></marker></defs>\n"
    );
    let most_time = graph.edges.iter().map(|edge| edge.total_ns).fold(1.0, f64::max);
    for edge in &graph.edges {
        let ((fx, fy), (tx, ty)) = (places[edge.from], places[edge.to]);
        let (fx, fy, tx, ty) = (fx + WIDTH, fy + HEIGHT / 2, tx, ty + HEIGHT / 2);
        let stroke = 1.0 + 4.0 * edge.total_ns / most_time;
        let dashes = if edge.is_remote { " stroke-dasharray=\"6 4\"" } else { "" };
        let path = if edge.from == edge.to {
            let (x, y) = (fx - WIDTH / 2, fy + HEIGHT / 2);
            format!("M{x} {y}c10 18 40 18 40 0")
        } else if tx > fx {
            let middle = (fx + tx) / 2;
            format!("M{fx} {fy}C{middle} {fy} {middle} {ty} {tx} {ty}")
        } else {
            // An edge that leads back to an earlier layer is drawn around, below the nodes.
            let low = fy.max(ty) + ROW / 2;
            format!("M{fx} {fy}C{} {low} {} {low} {tx} {ty}", fx + 60, tx.saturating_sub(60))
        };
        let title = escaped(&format!(
            "{} → {}: {}",
            graph.nodes[edge.from].name,
            graph.nodes[edge.to].name,
            label(edge)
        ));
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"#555\" stroke-width=\"{stroke:.1}\" stroke-opacity=\"0.6\"{dashes} \
             marker-end=\"url(#a)\"><title>{title}</title></path>"
        );
    }
    for (node, (x, y)) in graph.nodes.iter().zip(&places) {
        let fill = if node.failed > 0 { "#fbe3d6" } else { "#e3edf7" };
        let errors = if node.failed > 0 { format!(", {} failed", count(node.failed)) } else { String::new() };
        let about = format!("{}×{errors}, own {}", count(node.count), duration(node.own_ns));
        let _ = writeln!(
            out,
            "<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"4\" fill=\"{fill}\" \
             stroke=\"#456\"/><text x=\"{}\" y=\"{}\">{}</text><text x=\"{}\" y=\"{}\" fill=\"#444\">{}</text></g>",
            escaped(&node.name),
            x + 8,
            y + 19,
            escaped(&short(&node.name)),
            x + 8,
            y + 37,
            escaped(&about)
        );
    }
    if graph.left_out > 0 {
        let text = format!("{} nodes with less own time are left out", count(graph.left_out as u64));
        let _ = writeln!(out, "<text x=\"20\" y=\"{}\" fill=\"#444\">{text}</text>", height - 14);
    }
    out + "</svg>\n"
}

/// The end of a name that is too long for its box: the beginning is cut.
fn short(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    match letters.len().checked_sub(31) {
        Some(cut) if cut > 0 => format!("…{}", letters[cut + 1..].iter().collect::<String>()),
        _ => name.to_owned(),
    }
}

pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_monitor::{Edge, OperationCalls};

    fn calls(names: &[&str], edges: &[(u32, u32)]) -> Calls {
        let operation = |(id, name): (usize, &&str)| OperationCalls {
            id: id as u32,
            name: (*name).into(),
            ..Default::default()
        };
        let edge =
            |(from, to): &(u32, u32)| Edge { caller: Some(*from), callee: *to, count: 1, ..Edge::default() };
        Calls {
            operations: names.iter().enumerate().map(operation).collect(),
            edges: edges.iter().map(edge).collect(),
            ..Calls::default()
        }
    }

    #[test]
    fn callers_lie_in_layers_before_what_they_call_though_some_call_back() {
        let calls = calls(&["main", "a", "b", "c"], &[(0, 1), (1, 2), (0, 2), (2, 1), (2, 3), (3, 3)]);
        let graph = Graph::new(&calls, By::Operation, 10);
        let layers = graph.layers();
        let layer = |name: &str| layers[graph.nodes.iter().position(|node| node.name == name).unwrap()];
        assert_eq!((layer("main"), layer("a"), layer("b"), layer("c")), (0, 1, 2, 3));
    }

    #[test]
    fn names_of_any_kind_stay_within_their_quotes() {
        let calls = calls(&["a\"b\\c<d>&e\n"], &[]);
        assert!(dot(&calls, By::Operation).contains(r#"label="a\"b\\c<d>&e\n\n"#));
        assert!(svg(&calls, By::Operation, 5).contains("<title>a&quot;b\\c&lt;d&gt;&amp;e\u{fffd}</title>"));
    }
}
