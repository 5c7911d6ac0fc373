//! The drawing of a network: components in series from left to right, branches one below the other.
//!
//! A component is a box in a grid of cells, composed of the grid boxes of its parts: parts in series stand
//! side by side, branches are stacked, and stars and splits have a frame whose title shows the operator. The
//! same layout is drawn with characters and as SVG.

use std::fmt::Write as _;

use thalweg_net::check::{NetId, Node, NodeKind, Resolved};
use thalweg_net::syntax::ast::{LabelAt, Pattern};
use thalweg_view::names::cut;

/// The largest number of components that are drawn; beyond it a net is drawn as one box with their name.
const COMPONENTS_MAX: usize = 2000;

/// A drawing in cells; a cell is a character of the terminal.
struct Part {
    width: usize,
    height: usize,
    /// The row at which the streams enter and leave.
    row: usize,
    form: Form,
}

enum Form {
    /// A component with its name.
    Leaf(String),
    /// The parts of a combinator or net, each with the column and row of its upper left corner.
    Group { frame: Option<String>, parts: Vec<(usize, usize, Part)>, parallel: bool },
}

/// The columns between components in series, and the rows between branches.
const GAP: usize = 4;
const ROWS: usize = 1;

struct Layout<'a> {
    resolved: &'a Resolved,
    left: usize,
}

fn layout(resolved: &Resolved) -> Part {
    let mut layout = Layout { resolved, left: COMPONENTS_MAX };
    layout.net(resolved.main)
}

impl Layout<'_> {
    fn net(&mut self, id: NetId) -> Part {
        let net = self.resolved.net(id);
        let inside = self.node(&net.body);
        framed(format!("net {}", net.name), inside)
    }

    fn node(&mut self, node: &Node) -> Part {
        self.left = self.left.saturating_sub(1);
        match &node.kind {
            NodeKind::Box(_) => leaf(node.name.to_string()),
            NodeKind::Net(id) if self.left > 0 => self.net(*id),
            NodeKind::Net(_) => leaf(format!("net {} …", node.name)),
            NodeKind::Filter(filter) => leaf(match &filter.rule {
                Some(rule) => {
                    let outputs = rule.action.records().map(|r| {
                        let labels: Vec<String> = r.items.iter().map(|i| i.label.to_string()).collect();
                        format!("{{{}}}", labels.join(", "))
                    });
                    let outputs: Vec<String> = outputs.collect();
                    let guarded = if rule.action.guarded.is_empty() { "" } else { "if … " };
                    format!("[{} -> {guarded}{}]", rule.pattern, outputs.join("; ")).replace("-> ]", "->]")
                }
                None => "[]".into(),
            }),
            NodeKind::Synchrocell(patterns) => leaf(format!("[| {} |]", shown(patterns))),
            NodeKind::Serial(parts) => {
                let parts = parts.iter().map(|part| self.node(part)).collect();
                series(parts)
            }
            NodeKind::Parallel { branches, deterministic } => {
                let parts = branches.iter().map(|part| self.node(part)).collect();
                let branches = parallel(parts);
                if *deterministic { framed("in order".into(), branches) } else { branches }
            }
            NodeKind::Star { body, exits, deterministic } => {
                let sign = if *deterministic { "**" } else { "*" };
                framed(format!("{sign} {}", shown(exits)), self.node(body))
            }
            NodeKind::Feedback { body, backs } => framed(format!("\\ {}", shown(backs)), self.node(body)),
            NodeKind::Split { body, from, to, deterministic, placed } => {
                let sign =
                    format!("{}{}", if *deterministic { "!!" } else { "!" }, if *placed { "@" } else { "" });
                framed(format!("{sign} {}", tags(from, to.as_ref())), self.node(body))
            }
            NodeKind::Place { body, place } => framed(format!("@ {place}"), self.node(body)),
        }
    }
}

fn shown(patterns: &[Pattern]) -> String {
    let each = |p: &Pattern| format!("{}{}", p.labels, if p.guard.is_some() { " if …" } else { "" });
    patterns.iter().map(each).collect::<Vec<_>>().join(", ")
}

fn tags(from: &LabelAt, to: Option<&LabelAt>) -> String {
    let to = to.map_or(String::new(), |to| format!(":{}", to.label));
    format!("{}{to}", from.label)
}

fn leaf(text: String) -> Part {
    let text = cut(&text).into_owned();
    Part { width: text.chars().count() + 4, height: 3, row: 1, form: Form::Leaf(text) }
}

fn framed(title: String, inside: Part) -> Part {
    let title = cut(&title).into_owned();
    let width = (inside.width + 4).max(title.chars().count() + 4);
    let (height, row) = (inside.height + 2, inside.row + 1);
    let parts = vec![(2, 1, inside)];
    Part { width, height, row, form: Form::Group { frame: Some(title), parts, parallel: false } }
}

fn series(parts: Vec<Part>) -> Part {
    let row = parts.iter().map(|p| p.row).max().unwrap_or(0);
    let (mut column, mut height) = (0, 0);
    let mut placed = Vec::new();
    for part in parts {
        let (width, top) = (part.width, row - part.row);
        height = height.max(top + part.height);
        placed.push((column, top, part));
        column += width + GAP;
    }
    let width = column.saturating_sub(GAP);
    Part { width, height, row, form: Form::Group { frame: None, parts: placed, parallel: false } }
}

fn parallel(parts: Vec<Part>) -> Part {
    let inner = parts.iter().map(|p| p.width).max().unwrap_or(0);
    let (mut top, mut placed) = (0, Vec::new());
    for part in parts {
        let height = part.height;
        placed.push((GAP, top, part));
        top += height + ROWS;
    }
    let height = top.saturating_sub(ROWS);
    let rows: Vec<usize> = placed.iter().map(|(_, top, part)| top + part.row).collect();
    let row = (rows[0] + rows[rows.len() - 1]) / 2;
    Part {
        width: inner + 2 * GAP,
        height,
        row,
        form: Form::Group { frame: None, parts: placed, parallel: true },
    }
}

/// A drawing surface of cells.
trait Canvas {
    /// Draws a frame with a title in its upper edge; for a single component the title stands inside.
    fn frame(&mut self, column: usize, row: usize, part: &Part, title: &str);
    /// Draws a horizontal line from one column to another, with an arrow at its end if `arrow` is set.
    fn across(&mut self, row: usize, from: usize, to: usize, arrow: bool);
    /// Draws a vertical line.
    fn down(&mut self, column: usize, from: usize, to: usize);
}

/// Draws a part; streams enter and leave at its edges.
fn draw(part: &Part, column: usize, top: usize, canvas: &mut impl Canvas) {
    let (frame, parts, parallel) = match &part.form {
        Form::Leaf(text) => return canvas.frame(column, top, part, text),
        Form::Group { frame, parts, parallel } => (frame, parts, *parallel),
    };
    if let Some(title) = frame {
        canvas.frame(column, top, part, title);
    }
    let (row, right) = (top + part.row, column + part.width);
    let mut at = column + usize::from(frame.is_some());
    if parallel {
        let rows = parts.iter().map(|(_, t, p)| top + t + p.row);
        let (first, last) = (rows.clone().min().unwrap_or(row), rows.max().unwrap_or(row));
        canvas.down(column + 1, first, last);
        canvas.down(right - 2, first, last);
        canvas.across(row, column, column + 2, false);
        canvas.across(row, right - 2, right, false);
    }
    for (x, y, inner) in parts {
        draw(inner, column + x, top + y, canvas);
        let inner_row = top + y + inner.row;
        let end = column + x + inner.width;
        if parallel {
            canvas.across(inner_row, column + 1, column + x, true);
            canvas.across(inner_row, end, right - 1, false);
        } else {
            canvas.across(inner_row, at, column + x, true);
            at = end;
        }
    }
    if frame.is_some() {
        canvas.across(row, at, right - 1, false);
    }
}

/// The largest number of cells drawn with characters.
const CELLS_MAX: usize = 1 << 22;

/// The network in characters, ending in a line break; `None` if it is too large.
pub(super) fn text(resolved: &Resolved) -> Option<String> {
    let part = layout(resolved);
    if (part.width + 2 * GAP).saturating_mul(part.height) > CELLS_MAX {
        return None;
    }
    let mut page = Page { rows: vec![vec![' '; part.width + 2 * GAP]; part.height] };
    page.across(part.row, 0, GAP, true);
    page.across(part.row, GAP + part.width, 2 * GAP + part.width, true);
    draw(&part, GAP, 0, &mut page);
    let mut out = String::new();
    for row in page.rows {
        let line: String = row.into_iter().collect();
        let _ = writeln!(out, "{}", line.trim_end());
    }
    Some(out)
}

struct Page {
    rows: Vec<Vec<char>>,
}

impl Page {
    fn put(&mut self, column: usize, row: usize, c: char) {
        self.rows[row][column] = c;
    }
}

impl Canvas for Page {
    fn frame(&mut self, column: usize, row: usize, part: &Part, title: &str) {
        let (right, bottom) = (column + part.width - 1, row + part.height - 1);
        for x in column..=right {
            self.put(x, row, '─');
            self.put(x, bottom, '─');
        }
        for y in row..=bottom {
            self.put(column, y, '│');
            self.put(right, y, '│');
        }
        for (x, y, c) in [(column, row, '┌'), (right, row, '┐'), (column, bottom, '└'), (right, bottom, '┘')]
        {
            self.put(x, y, c);
        }
        let inside = matches!(part.form, Form::Leaf(_));
        for (i, c) in title.chars().enumerate() {
            self.put(column + 2 + i, row + usize::from(inside), c);
        }
    }

    fn across(&mut self, row: usize, from: usize, to: usize, arrow: bool) {
        for x in from..to {
            let c = match self.rows[row][x] {
                '│' | '┼' => '┼',
                _ => '─',
            };
            self.put(x, row, c);
        }
        if arrow && to > from {
            self.put(to - 1, row, '▶');
        }
    }

    fn down(&mut self, column: usize, from: usize, to: usize) {
        (from..=to).for_each(|y| self.put(column, y, '│'));
    }
}

/// Size of a cell in an image.
const CELL: (usize, usize) = (9, 20);

/// The network as an SVG image.
pub(super) fn svg(resolved: &Resolved) -> String {
    let part = layout(resolved);
    let (width, height) = ((part.width + 2 * GAP) * CELL.0, (part.height + 1) * CELL.1);
    let mut image = Image { out: opening(width, height, 14) };
    image.across(part.row, 0, GAP, true);
    image.across(part.row, GAP + part.width, 2 * GAP + part.width, true);
    draw(&part, GAP, 0, &mut image);
    image.out + "</svg>\n"
}

/// The beginning of an SVG image on white, with `#arrow` for the ends of lines; `</svg>` ends it.
pub(crate) fn opening(width: usize, height: usize, font_size: usize) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"monospace\" font-size=\"{font_size}\" fill=\"none\" stroke=\"#345\">\n\
         <defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#345\" stroke=\"none\"/></marker></defs>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\" stroke=\"none\"/>\n"
    )
}

struct Image {
    out: String,
}

impl Canvas for Image {
    fn frame(&mut self, column: usize, row: usize, part: &Part, title: &str) {
        let (x, y) = (column * CELL.0, row * CELL.1 + CELL.1 / 2);
        let (width, height) = (part.width * CELL.0, (part.height - 1) * CELL.1);
        let leaf = matches!(part.form, Form::Leaf(_));
        let fill = if leaf { " fill=\"#eef3fa\"" } else { " stroke-dasharray=\"5 3\"" };
        let _ = writeln!(
            self.out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\"{fill}/>"
        );
        let (x, y) = (x + 2 * CELL.0, if leaf { y + CELL.1 + 5 } else { y + 15 });
        let _ = writeln!(
            self.out,
            "<text x=\"{x}\" y=\"{y}\" fill=\"#123\" stroke=\"none\">{}</text>",
            escaped(title)
        );
    }

    fn across(&mut self, row: usize, from: usize, to: usize, arrow: bool) {
        if to <= from {
            return;
        }
        let (y, x, to) = (row * CELL.1 + CELL.1 / 2, from * CELL.0, to * CELL.0);
        let end = if arrow { " marker-end=\"url(#arrow)\"" } else { "" };
        let _ = writeln!(self.out, "<path d=\"M{x} {y}H{to}\"{end}/>");
    }

    fn down(&mut self, column: usize, from: usize, to: usize) {
        let x = column * CELL.0;
        let (from, to) = (from * CELL.1 + CELL.1 / 2, to * CELL.1 + CELL.1 / 2);
        let _ = writeln!(self.out, "<path d=\"M{x} {from}V{to}\"/>");
    }
}

/// The text escaped for SVG, also for attributes.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The text escaped for a quoted string in the language of Graphviz.
pub(crate) fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// The network in the language of Graphviz: a cluster for each net and combinator, an edge for each stream.
pub(super) fn dot(resolved: &Resolved) -> String {
    let mut graph = Graph { out: String::new(), clusters: 0, nodes: 0 };
    graph.out +=
        "digraph network {\n    rankdir=LR; node [shape=box, fontname=monospace]; edge [arrowsize=0.7];\n";
    graph.out += "    in [shape=point]; out [shape=point];\n";
    let (entries, exits) = graph.part(&layout(resolved), 1);
    entries.iter().for_each(|&n| graph.edge("in", &format!("n{n}")));
    exits.iter().for_each(|&n| graph.edge(&format!("n{n}"), "out"));
    graph.out + "}\n"
}

struct Graph {
    out: String,
    clusters: usize,
    nodes: usize,
}

impl Graph {
    fn edge(&mut self, from: &str, to: &str) {
        let _ = writeln!(self.out, "    {from} -> {to};");
    }

    /// Writes edges from each node of `from` to each of `to`, through a point where the streams join if both
    /// have several nodes.
    fn connect(&mut self, from: &[usize], to: &[usize], pad: &str) {
        if from.len() > 1 && to.len() > 1 {
            self.nodes += 1;
            let join = [self.nodes];
            let _ = writeln!(self.out, "{pad}n{} [shape=point];", join[0]);
            self.connect(from, &join, pad);
            return self.connect(&join, to, pad);
        }
        for from in from {
            to.iter().for_each(|to| self.edge(&format!("n{from}"), &format!("n{to}")));
        }
    }

    /// Writes a part. Returns the nodes at which streams enter and leave the part.
    fn part(&mut self, part: &Part, depth: usize) -> (Vec<usize>, Vec<usize>) {
        let pad = "    ".repeat(depth);
        let (frame, parts, parallel) = match &part.form {
            Form::Leaf(text) => {
                self.nodes += 1;
                let _ = writeln!(self.out, "{pad}n{} [label=\"{}\"];", self.nodes, quoted(text));
                return (vec![self.nodes], vec![self.nodes]);
            }
            Form::Group { frame, parts, parallel } => (frame, parts, *parallel),
        };
        if let Some(title) = frame {
            self.clusters += 1;
            let _ = writeln!(
                self.out,
                "{pad}subgraph cluster{} {{ label=\"{}\"; style=dashed;",
                self.clusters,
                quoted(title)
            );
        }
        let (mut entries, mut exits) = (Vec::new(), Vec::new());
        for (i, (_, _, inner)) in parts.iter().enumerate() {
            let (first, last) = self.part(inner, depth + usize::from(frame.is_some()));
            if parallel {
                entries.extend(first);
                exits.extend(last);
                continue;
            }
            if i == 0 {
                entries = first;
            } else {
                self.connect(&exits, &first, &pad);
            }
            exits = last;
        }
        if frame.is_some() {
            let _ = writeln!(self.out, "{pad}}}");
        }
        (entries, exits)
    }
}
