//! Sequence diagrams of classes of traces: for Mermaid, for PlantUML, and as a picture.

use std::fmt::Write as _;

use thalweg_monitor::{Sequence, SequenceCall};

use super::graph::escaped;
use crate::units::{count, duration};

/// The format of a diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Text for Mermaid.
    Mermaid,
    /// Text for PlantUML.
    Plantuml,
    /// An SVG image.
    Svg,
}

/// A step from one component to another. Components are given by their numbers; the caller of the outermost
/// call is `None`.
enum Step<'a> {
    Call { from: Option<usize>, to: usize, call: &'a SequenceCall },
    Return { from: usize, to: Option<usize>, call: &'a SequenceCall },
    Loop { times: u64 },
    End,
}

/// A trace's components and steps, in order.
struct Diagram<'a> {
    components: Vec<&'a str>,
    steps: Vec<Step<'a>>,
}

impl<'a> Diagram<'a> {
    fn of(root: &'a SequenceCall) -> Diagram<'a> {
        let mut diagram = Diagram { components: Vec::new(), steps: Vec::new() };
        diagram.add(None, root);
        diagram
    }

    /// Adds a call and its callees. The recursion of this function is at most as deep as the drawn calls are
    /// nested.
    fn add(&mut self, from: Option<usize>, call: &'a SequenceCall) {
        let known = self.components.iter().position(|component| *component == call.component);
        let to = known.unwrap_or_else(|| {
            self.components.push(&call.component);
            self.components.len() - 1
        });
        if call.times > 1 {
            self.steps.push(Step::Loop { times: call.times });
        }
        self.steps.push(Step::Call { from, to, call });
        call.calls.iter().for_each(|inner| self.add(Some(to), inner));
        self.steps.push(Step::Return { from: to, to: from, call });
        if call.times > 1 {
            self.steps.push(Step::End);
        }
    }
}

/// What a step's arrow says: the operation's name without its component, and the time of the call.
fn label(call: &SequenceCall) -> String {
    let name = call.name.strip_prefix(call.component.as_str()).unwrap_or(&call.name);
    let name = name.trim_start_matches([':', '.']);
    let each = duration(call.total_ns / call.times.max(1) as f64);
    let failed = if call.failed > 0 { format!(", {} failed", count(call.failed)) } else { String::new() };
    format!("{name} {each}{failed}")
}

fn title(sequence: &Sequence, number: usize, all: usize) -> String {
    format!(
        "class {number} of {all}: {} traces, the slowest {}",
        count(sequence.count),
        duration(sequence.slowest_ns)
    )
}

/// The diagram of one class.
pub(super) fn printed(sequence: &Sequence, number: usize, all: usize, format: Format) -> String {
    let diagram = Diagram::of(&sequence.root);
    let title = title(sequence, number, all);
    match format {
        Format::Mermaid => mermaid(&diagram, &title),
        Format::Plantuml => plantuml(&diagram, &title),
        Format::Svg => svg(&diagram, &title),
    }
}

fn mermaid(diagram: &Diagram<'_>, title: &str) -> String {
    // A line break would end a line of the diagram languages, and the other characters would begin a comment.
    let plain = |text: &str| {
        let letter = |letter: char| match letter {
            '#' => "#35;".to_owned(),
            ';' => "#59;".to_owned(),
            '\n' | '\r' => " ".to_owned(),
            other => other.to_string(),
        };
        text.chars().map(letter).collect::<String>()
    };
    let mut out = format!("---\ntitle: \"{title}\"\n---\nsequenceDiagram\n    actor caller\n");
    for (at, component) in diagram.components.iter().enumerate() {
        let _ = writeln!(out, "    participant p{at} as {}", plain(component));
    }
    let participant =
        |component: Option<usize>| component.map_or_else(|| "caller".to_owned(), |at| format!("p{at}"));
    for step in &diagram.steps {
        let _ = match step {
            Step::Call { from, to, call } => {
                writeln!(out, "    {}->>+p{to}: {}", participant(*from), plain(&label(call)))
            }
            Step::Return { from, to, call } => {
                let arrow = if call.failed > 0 { "--x" } else { "-->>" };
                writeln!(
                    out,
                    "    p{from}{arrow}-{}: {}",
                    participant(*to),
                    if call.failed > 0 { "failed" } else { " " }
                )
            }
            Step::Loop { times } => writeln!(out, "    loop {} times", count(*times)),
            Step::End => writeln!(out, "    end"),
        };
    }
    out
}

fn plantuml(diagram: &Diagram<'_>, title: &str) -> String {
    let plain = |text: &str| text.replace(['"', '\n', '\r'], "'");
    let mut out = format!("@startuml\ntitle {title}\nactor caller\n");
    for (at, component) in diagram.components.iter().enumerate() {
        let _ = writeln!(out, "participant \"{}\" as p{at}", plain(component));
    }
    let participant =
        |component: Option<usize>| component.map_or_else(|| "caller".to_owned(), |at| format!("p{at}"));
    for step in &diagram.steps {
        let _ = match step {
            Step::Call { from, to, call } => {
                writeln!(out, "{} -> p{to} ++ : {}", participant(*from), plain(&label(call)))
            }
            Step::Return { call, .. } => {
                writeln!(out, "return{}", if call.failed > 0 { " failed" } else { "" })
            }
            Step::Loop { times } => writeln!(out, "loop {} times", count(*times)),
            Step::End => writeln!(out, "end"),
        };
    }
    out + "@enduml\n"
}

const COLUMN: usize = 230;
const ROW: usize = 28;
const TOP: usize = 84;

fn svg(diagram: &Diagram<'_>, title: &str) -> String {
    let x = |component: Option<usize>| 60 + component.map_or(0, |at| at + 1) * COLUMN;
    let width = 60 + diagram.components.len() * COLUMN + 180;
    let height = TOP + (diagram.steps.len() + 2) * ROW;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
         <path d=\"M0 0L8 4L0 8z\" fill=\"#555\"/></marker></defs>\n<text x=\"20\" y=\"22\">{}</text>\n",
        escaped(title)
    );
    let names = std::iter::once((None, "caller"))
        .chain(diagram.components.iter().enumerate().map(|(at, name)| (Some(at), *name)));
    for (component, name) in names {
        let at = x(component);
        let _ = writeln!(
            out,
            "<line x1=\"{at}\" x2=\"{at}\" y1=\"{}\" y2=\"{}\" stroke=\"#aab\" stroke-dasharray=\"4 3\"/>\
             <text x=\"{at}\" y=\"{}\" text-anchor=\"middle\" font-weight=\"bold\">{}</text>",
            TOP - 20,
            height - ROW,
            TOP - 28,
            escaped(name)
        );
    }
    let mut loops = Vec::new();
    for (row, step) in diagram.steps.iter().enumerate() {
        let y = TOP + row * ROW;
        let (from, to, call, dashes) = match step {
            Step::Call { from, to, call } => (x(*from), x(Some(*to)), call, ""),
            Step::Return { from, to, call } => (x(Some(*from)), x(*to), call, " stroke-dasharray=\"5 4\""),
            Step::Loop { times } => {
                loops.push((y, *times));
                continue;
            }
            Step::End => {
                let (begin, times) = loops.pop().unwrap_or((y, 1));
                let inset = 10 + 6 * loops.len();
                let _ = writeln!(
                    out,
                    "<rect x=\"{inset}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#88a\" rx=\"3\"/>\
                     <text x=\"{}\" y=\"{begin}\" fill=\"#557\">{}×</text>",
                    begin - 14,
                    width - 2 * inset,
                    y - begin + 10,
                    inset + 6,
                    count(times)
                );
                continue;
            }
        };
        let colour = if call.failed > 0 { "#c53030" } else { "#555" };
        let path =
            if from == to { format!("M{from} {}h34v12h-32", y - 8) } else { format!("M{from} {y}L{to} {y}") };
        let text = match step {
            Step::Call { .. } => label(call),
            _ => String::new(),
        };
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\"{dashes} marker-end=\"url(#a)\"/><text x=\"{}\" y=\"{}\">{}</text>",
            from.min(to) + if from == to { 40 } else { 8 },
            y - 5,
            escaped(&text)
        );
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, component: &str, times: u64, failed: u64, calls: Vec<SequenceCall>) -> SequenceCall {
        SequenceCall {
            name: name.to_owned(),
            component: component.to_owned(),
            times,
            failed,
            total_ns: 1000.0 * times as f64,
            calls,
        }
    }

    fn example() -> Sequence {
        let inner = vec![call("db::get", "db", 3, 0, vec![]), call("shop::check;#1", "shop", 1, 1, vec![])];
        Sequence { count: 5, slowest_ns: 9000.0, root: call("shop::order", "shop", 1, 0, inner) }
    }

    #[test]
    fn mermaid_opens_and_closes_what_is_active() {
        let text = printed(&example(), 1, 2, Format::Mermaid);
        let wanted = "---\ntitle: \"class 1 of 2: 5 traces, the slowest 9.00 µs\"\n---\nsequenceDiagram\n    actor caller\n    participant p0 as shop\n    \
                      participant p1 as db\n    caller->>+p0: order 1.00 µs\n    loop 3 times\n    p0->>+p1: get 1.00 µs\n    p1-->>-p0:  \n    end\n    \
                      p0->>+p0: check#59;#35;1 1.00 µs, 1 failed\n    p0--x-p0: failed\n    p0-->>-caller:  \n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn plantuml_returns_from_every_call() {
        let text = printed(&example(), 1, 2, Format::Plantuml);
        assert_eq!(text.matches(" ++ :").count(), 3, "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("return")).count(), 3);
        assert_eq!((text.matches("\nloop ").count(), text.matches("\nend\n").count()), (1, 1));
    }

    #[test]
    fn a_picture_has_a_line_for_each_component_and_step() {
        let text = printed(&example(), 1, 2, Format::Svg);
        assert_eq!((text.matches("<line ").count(), text.matches("marker-end").count()), (3, 6), "{text}");
        assert!(text.contains("3×") && text.contains("check;#1"));
    }
}
