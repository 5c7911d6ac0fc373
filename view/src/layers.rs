//! Computes the positions of the boxes and lines of a drawing: a graph in layers from left to right.
//!
//! Each edge leads from one layer to a later layer; edges that close a circle are laid out backwards. The
//! label of an edge is a box of its own in a layer between two layers of boxes, so labels cover nothing. The
//! boxes of a layer are ordered by the mean place of their neighbours, as in Sugiyama, Tagawa and Toda (IEEE
//! Transactions on Systems, Man, and Cybernetics 11 (2), 1981).

use std::collections::HashMap;

use crate::flow;

/// The size of a box, of a label, or of the drawing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Size {
    /// The extent from left to right.
    pub width: f64,
    /// The extent from top to bottom.
    pub height: f64,
}

/// A line from one box to another, or to itself.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The box that the edge leaves.
    pub from: usize,
    /// The box that the edge leads to.
    pub to: usize,
    /// The size of the edge's label.
    pub label: Size,
}

/// A position relative to the upper left corner.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// The distance from the left.
    pub x: f64,
    /// The distance from the top.
    pub y: f64,
}

/// A drawing.
#[derive(Debug)]
pub struct Layers {
    /// The upper left corners of the boxes.
    pub nodes: Vec<Point>,
    /// The routes of the edges.
    pub edges: Vec<Route>,
    /// The size of the drawing.
    pub size: Size,
}

/// The route of an edge.
#[derive(Debug)]
pub struct Route {
    /// The upper left corner of its label.
    pub label: Point,
    /// The points of the route, connected by curves that are horizontal at each point; the route begins and
    /// ends at the sides of boxes.
    pub points: Vec<Point>,
}

/// The distance between layers; [`GAP_Y`] is the distance between boxes of one layer.
const GAP_X: f64 = 22.0;
const GAP_Y: f64 = 20.0;
/// The space below a box for the line of an edge to itself.
const LOOP: f64 = 20.0;
/// The greatest number of layers in which space is reserved for an edge that passes through them.
const PASSED_MAX: usize = 64;
/// The number of passes that order layers by their neighbours.
const SWEEPS: usize = 8;

/// An element of a layer: a box, a label, or a point that an edge passes.
struct Vertex {
    layer: usize,
    size: Size,
    /// The distance from the element's top to the line of the edge that passes it.
    line: f64,
    before: Vec<usize>,
    behind: Vec<usize>,
    y: f64,
}

impl Vertex {
    fn new(layer: usize, size: Size, line: f64) -> Vertex {
        Vertex { layer, size, line, before: Vec::new(), behind: Vec::new(), y: 0.0 }
    }

    fn line_y(&self) -> f64 {
        self.y + self.line
    }
}

/// Lays out boxes of these sizes and the edges between them.
pub fn layers(nodes: &[Size], edges: &[Edge]) -> Layers {
    let layer = layers_of(nodes.len(), edges);
    let mut vertices: Vec<Vertex> = Vec::new();
    let mut below = vec![0.0; nodes.len()];
    for edge in edges.iter().filter(|edge| edge.from == edge.to) {
        below[edge.from] += edge.label.height + LOOP;
    }
    for (n, size) in nodes.iter().enumerate() {
        let whole = Size { width: size.width, height: size.height + below[n] };
        vertices.push(Vertex::new(layer[n], whole, size.height / 2.0));
    }
    let chains: Vec<Vec<usize>> = edges.iter().map(|edge| chain(edge, &layer, &mut vertices)).collect();
    let mut rows = vec![Vec::new(); layer.iter().max().map_or(0, |most| most + 1)];
    for n in order_of(nodes.len(), edges).into_iter().chain(nodes.len()..vertices.len()) {
        rows[vertices[n].layer].push(n);
    }
    sort(&mut rows, &vertices);
    stack(&rows, &mut vertices);
    let columns = columns(&rows, &vertices);
    let x = |n: usize| columns[vertices[n].layer].0;
    let placed: Vec<Point> = (0..nodes.len())
        .map(|n| {
            // Each box is centred in the column of its layer.
            let column = columns[vertices[n].layer];
            Point { x: column.0 + (column.1 - nodes[n].width) / 2.0, y: vertices[n].y }
        })
        .collect();
    let ports = Ports::of(nodes.len(), &vertices);
    let routes = edges.iter().zip(&chains).map(|(edge, chain)| {
        if edge.from == edge.to {
            return to_itself(placed[edge.from], nodes[edge.from], edge);
        }
        let (left, right) = match layer[edge.from] < layer[edge.to] {
            true => (edge.from, edge.to),
            false => (edge.to, edge.from),
        };
        let mut points =
            vec![Point { x: placed[left].x + nodes[left].width, y: ports.behind[&(left, chain[0])] }];
        for &n in chain {
            let y = vertices[n].line_y();
            points.push(Point { x: x(n), y });
            points.push(Point { x: x(n) + columns[vertices[n].layer].1, y });
        }
        let y = ports.before[&(right, chain[chain.len() - 1])];
        points.push(Point { x: placed[right].x, y });
        if left != edge.from {
            points.reverse();
        }
        Route { label: Point { x: x(chain[0]), y: vertices[chain[0]].y }, points }
    });
    let edges: Vec<Route> = routes.collect();
    let width = columns.last().map_or(0.0, |&(x, width)| x + width);
    let height = vertices.iter().map(|vertex| vertex.y + vertex.size.height).fold(0.0, f64::max);
    Layers { nodes: placed, edges, size: Size { width, height } }
}

fn order_of(count: usize, edges: &[Edge]) -> Vec<usize> {
    flow::order(count, &edges.iter().map(|edge| (edge.from, edge.to)).collect::<Vec<_>>())
}

/// The layer of each box: boxes have even layers, labels odd layers.
fn layers_of(count: usize, edges: &[Edge]) -> Vec<usize> {
    let order = order_of(count, edges);
    let mut place = vec![0; count];
    order.iter().enumerate().for_each(|(at, &n)| place[n] = at);
    let mut next = vec![Vec::new(); count];
    for edge in edges.iter().filter(|edge| edge.from != edge.to) {
        let (left, right) = match place[edge.from] < place[edge.to] {
            true => (edge.from, edge.to),
            false => (edge.to, edge.from),
        };
        next[left].push(right);
    }
    let mut layer = vec![0; count];
    for &n in &order {
        for &to in &next[n] {
            layer[to] = layer[to].max(layer[n] + 2);
        }
    }
    // Boxes at the end of the flow, which have no outgoing edge, are placed in the last layer.
    let last = layer.iter().copied().max().unwrap_or(0);
    let (mut reads, mut writes) = (vec![false; count], vec![false; count]);
    for edge in edges {
        (writes[edge.from], reads[edge.to]) = (true, true);
    }
    for n in (0..count).filter(|&n| reads[n] && !writes[n]) {
        layer[n] = last;
    }
    layer
}

/// The vertices that an edge passes between its ends, from left to right, beginning with its label. In an
/// edge that passes very many layers, only the first layers get vertices.
fn chain(edge: &Edge, layer: &[usize], vertices: &mut Vec<Vertex>) -> Vec<usize> {
    if edge.from == edge.to {
        return Vec::new();
    }
    let (left, right) = match layer[edge.from] < layer[edge.to] {
        true => (edge.from, edge.to),
        false => (edge.to, edge.from),
    };
    let mut chain = Vec::new();
    let mut before = left;
    let last = layer[right].min(layer[left] + PASSED_MAX);
    for at in layer[left] + 1..last.max(layer[left] + 2) {
        let size = if chain.is_empty() { edge.label } else { Size::default() };
        let n = vertices.len();
        vertices.push(Vertex::new(at, size, size.height));
        vertices[before].behind.push(n);
        vertices[n].before.push(before);
        chain.push(n);
        before = n;
    }
    vertices[before].behind.push(right);
    vertices[right].before.push(before);
    chain
}

/// Puts each layer in the order of the means of its neighbours' places.
fn sort(rows: &mut [Vec<usize>], vertices: &[Vertex]) {
    let mut place = vec![0.0; vertices.len()];
    let settle = |row: &[usize], place: &mut Vec<f64>| {
        row.iter().enumerate().for_each(|(at, &n)| place[n] = at as f64);
    };
    rows.iter().for_each(|row| settle(row, &mut place));
    for sweep in 0..SWEEPS {
        let forward = sweep % 2 == 0;
        for at in 0..rows.len() {
            let row = if forward {
                &mut rows[at]
            } else {
                let last = rows.len() - 1;
                &mut rows[last - at]
            };
            let mean = |n: usize| {
                let near = if forward { &vertices[n].before } else { &vertices[n].behind };
                if near.is_empty() {
                    place[n]
                } else {
                    near.iter().map(|&m| place[m]).sum::<f64>() / near.len() as f64
                }
            };
            let mut wanted: Vec<(f64, usize)> = row.iter().map(|&n| (mean(n), n)).collect();
            wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
            *row = wanted.into_iter().map(|(_, n)| n).collect();
            let row = row.clone();
            settle(&row, &mut place);
        }
    }
}

/// Gives each vertex a height at which its edges are as level as the other vertices of its layer allow.
fn stack(rows: &[Vec<usize>], vertices: &mut [Vertex]) {
    for row in rows {
        let mut y = 0.0;
        for &n in row {
            vertices[n].y = y;
            y += vertices[n].size.height + GAP_Y;
        }
    }
    for sweep in 0..2 * SWEEPS {
        for at in 0..rows.len() {
            let row = if sweep % 2 == 0 { &rows[at] } else { &rows[rows.len() - 1 - at] };
            let wanted: Vec<f64> = row.iter().map(|&n| wanted(n, sweep, vertices)).collect();
            let mut free = f64::NEG_INFINITY;
            for (&n, &wanted) in row.iter().zip(&wanted) {
                vertices[n].y = wanted.max(free);
                free = vertices[n].y + vertices[n].size.height + GAP_Y;
            }
            // The mean of the shifts is subtracted, so that the boxes of the layer are pushed up and down
            // equally.
            let pushed: f64 = row.iter().zip(&wanted).map(|(&n, wanted)| vertices[n].y - wanted).sum();
            let back = pushed / row.len().max(1) as f64;
            row.iter().for_each(|&n| vertices[n].y -= back);
        }
    }
    let top = vertices.iter().map(|vertex| vertex.y).fold(f64::INFINITY, f64::min);
    vertices.iter_mut().for_each(|vertex| vertex.y -= top);
}

/// The top of a vertex at which its edges to the neighbouring layer would be level.
fn wanted(n: usize, sweep: usize, vertices: &[Vertex]) -> f64 {
    let near = match sweep % 2 {
        0 => &vertices[n].before,
        _ => &vertices[n].behind,
    };
    if near.is_empty() {
        return vertices[n].y;
    }
    near.iter().map(|&m| vertices[m].line_y()).sum::<f64>() / near.len() as f64 - vertices[n].line
}

/// The left side and the width of each layer.
fn columns(rows: &[Vec<usize>], vertices: &[Vertex]) -> Vec<(f64, f64)> {
    let mut x = 0.0;
    let each = rows.iter().map(|row| {
        let width = row.iter().map(|&n| vertices[n].size.width).fold(0.0, f64::max);
        let left = x;
        x += width + GAP_X;
        (left, width)
    });
    each.collect()
}

/// The positions at which edges begin on a box's left (`before`) and right side (`behind`), in the order of
/// the neighbours' heights.
struct Ports {
    before: HashMap<(usize, usize), f64>,
    behind: HashMap<(usize, usize), f64>,
}

impl Ports {
    fn of(boxes: usize, vertices: &[Vertex]) -> Ports {
        let side = |near: fn(&Vertex) -> &Vec<usize>| {
            let mut ports = HashMap::new();
            for (n, vertex) in vertices.iter().enumerate().take(boxes) {
                let mut near = near(vertex).clone();
                near.sort_by(|&a, &b| vertices[a].line_y().total_cmp(&vertices[b].line_y()));
                let middle = (near.len() as f64 - 1.0) / 2.0;
                let step = (2.0 * vertex.line / (near.len() as f64 + 1.0)).min(12.0);
                for (at, neighbour) in near.into_iter().enumerate() {
                    ports.entry((n, neighbour)).or_insert(vertex.line_y() + (at as f64 - middle) * step);
                }
            }
            ports
        };
        Ports { before: side(|vertex| &vertex.before), behind: side(|vertex| &vertex.behind) }
    }
}

/// The route of an edge from a box to itself, below the box.
fn to_itself(at: Point, size: Size, edge: &Edge) -> Route {
    let (bottom, below) = (at.y + size.height, at.y + size.height + LOOP - 6.0);
    let (left, right) = (at.x + 10.0, at.x + size.width - 10.0);
    let points = vec![
        Point { x: right, y: bottom },
        Point { x: right, y: below },
        Point { x: left, y: below },
        Point { x: left, y: bottom },
    ];
    let label = Point { x: at.x + (size.width - edge.label.width) / 2.0, y: below + 2.0 };
    Route { label, points }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlap(a: (Point, Size), b: (Point, Size)) -> bool {
        let apart =
            |a: f64, a_size: f64, b: f64, b_size: f64| a + a_size <= b + 1e-6 || b + b_size <= a + 1e-6;
        !apart(a.0.x, a.1.width, b.0.x, b.1.width) && !apart(a.0.y, a.1.height, b.0.y, b.1.height)
    }

    /// Checks that boxes and labels do not overlap, that all lie within the drawing, and that edges begin and
    /// end at the sides of their boxes.
    fn check(nodes: &[Size], edges: &[Edge]) {
        let drawn = layers(nodes, edges);
        assert_eq!((drawn.nodes.len(), drawn.edges.len()), (nodes.len(), edges.len()));
        let boxes = drawn.nodes.iter().copied().zip(nodes.iter().copied());
        let labels = drawn.edges.iter().map(|route| route.label).zip(edges.iter().map(|edge| edge.label));
        let all: Vec<(Point, Size)> = boxes.chain(labels).collect();
        for (n, a) in all.iter().enumerate() {
            assert!(a.0.x >= 0.0 && a.0.y >= 0.0, "{a:?}");
            assert!(a.0.x + a.1.width <= drawn.size.width + 1e-6, "{a:?} in {:?}", drawn.size);
            assert!(a.0.y + a.1.height <= drawn.size.height + 1e-6, "{a:?} in {:?}", drawn.size);
            for b in &all[n + 1..] {
                assert!(!overlap(*a, *b), "{a:?} and {b:?}: {edges:?}");
            }
        }
        for (edge, route) in edges.iter().zip(&drawn.edges) {
            let on_side = |point: &Point, node: usize| {
                let (at, size) = (drawn.nodes[node], nodes[node]);
                let inside = |value: f64, from: f64, length: f64| {
                    value >= from - 1e-6 && value <= from + length + 1e-6
                };
                inside(point.x, at.x, size.width) && inside(point.y, at.y, size.height)
            };
            assert!(on_side(&route.points[0], edge.from), "{edge:?}: {route:?}");
            assert!(on_side(route.points.last().unwrap(), edge.to), "{edge:?}: {route:?}");
        }
    }

    #[test]
    fn nothing_stands_on_anything_else() {
        check(&[], &[]);
        let mut chance = thalweg_chance::Chance::new(3);
        let size = |chance: &mut thalweg_chance::Chance| Size {
            width: 40.0 + chance.below(200) as f64,
            height: 20.0 + chance.below(60) as f64,
        };
        for _ in 0..300 {
            let nodes: Vec<Size> = (0..1 + chance.below(14)).map(|_| size(&mut chance)).collect();
            let mut edges: Vec<Edge> = Vec::new();
            for _ in 0..chance.below(25) {
                let mut end = || chance.below(nodes.len() as u64) as usize;
                let (from, to) = (end(), end());
                // In the test at most one edge leads from a box to itself.
                if from != to || edges.iter().all(|edge| (edge.from, edge.to) != (from, to)) {
                    edges.push(Edge { from, to, label: size(&mut chance) });
                }
            }
            // A label below a box is not wider than the box.
            for edge in edges.iter_mut().filter(|edge| edge.from == edge.to) {
                edge.label.width = edge.label.width.min(nodes[edge.from].width);
            }
            check(&nodes, &edges);
        }
    }

    #[test]
    fn the_flow_goes_from_left_to_right() {
        let node = Size { width: 100.0, height: 40.0 };
        let edge = |from, to| Edge { from, to, label: Size { width: 50.0, height: 20.0 } };
        let drawn = layers(&[node; 4], &[edge(0, 1), edge(1, 2), edge(2, 1), edge(2, 3)]);
        assert!(drawn.nodes.windows(2).all(|two| two[0].x + 100.0 < two[1].x), "{:?}", drawn.nodes);
        // The edge that leads back is drawn from right to left.
        let back = &drawn.edges[2].points;
        assert!(back[0].x > back[back.len() - 1].x);
    }
}
