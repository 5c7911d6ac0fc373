//! The screen of `thalweg top`: the verdict, a table of components, workers as bars, the decisions of tuners.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};
use thalweg_monitor::{Component, Report, State, Worker};
use thalweg_view::flow::Flow;
use thalweg_view::{Decided, Decisions};

use crate::commands::look::Sort;
use crate::table::shortened;
use crate::units::{count, duration, rate, share};

/// The largest number of lines for workers.
const WORKERS_MAX: usize = 16;
/// The largest number of lines for decisions of tuners.
const DECISIONS_MAX: usize = 4;
/// The width below which the shares of waiting are left out.
const NARROW: u16 = 70;

/// The kind of text that the user is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    /// A part of a component's name, to show only such components.
    Filter,
    /// The name of a setting and its new value.
    Set,
}

/// The state of the screen.
pub(super) struct Screen {
    report: Report,
    colour: bool,
    decisions: Decisions,
    pub(super) sort: Sort,
    pub(super) filter: String,
    pub(super) scrolled: usize,
    pub(super) paused: bool,
    pub(super) ended: bool,
    pub(super) asking: Option<Asking>,
    pub(super) typed: String,
    message: String,
}

impl Screen {
    pub(super) fn new(report: Report, colour: bool, decisions: Decisions) -> Screen {
        Screen {
            report,
            colour,
            decisions,
            sort: Sort::Flow,
            filter: String::new(),
            scrolled: 0,
            paused: false,
            ended: false,
            asking: None,
            typed: String::new(),
            message: String::new(),
        }
    }

    pub(super) fn take(&mut self, report: Report) {
        self.report = report;
    }

    pub(super) fn show_message(&mut self, message: String) {
        self.message = message;
    }

    pub(super) fn ask(&mut self, asking: Asking) {
        self.asking = Some(asking);
        self.typed.clear();
    }

    /// Draws the screen.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let workers = self.report.workers.len().min(WORKERS_MAX).min(usize::from(area.height / 3)) as u16;
        let verdict = if area.height >= 20 { 3 } else { 2 };
        let decided = if area.height >= 20 { self.decisions.last(DECISIONS_MAX) } else { Vec::new() };
        let decisions = if decided.is_empty() { 0 } else { decided.len() as u16 + 1 };
        let parts = [
            Constraint::Length(1),
            Constraint::Length(verdict),
            Constraint::Min(2),
            Constraint::Length(workers + 1),
            Constraint::Length(decisions),
            Constraint::Length(1),
        ];
        let [head, verdict, table, bars, log, foot] = Layout::vertical(parts).areas(area);
        frame.render_widget(Paragraph::new(self.heading()), head);
        let text = visible(&self.report.verdict.words.text);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        frame.render_widget(Paragraph::new(text).style(bold).wrap(Wrap { trim: true }), verdict);
        self.table(frame, table);
        self.workers(frame, bars);
        let lines = decided.iter().map(|of| Line::from(decision(of)));
        let lines: Vec<Line<'_>> = [Line::from("TUNING")].into_iter().chain(lines).collect();
        frame.render_widget(Paragraph::new(lines), log);
        frame.render_widget(Paragraph::new(self.foot()), foot);
    }

    fn heading(&self) -> String {
        let Report { space, window, throughput, latency, .. } = &self.report;
        let state = match window.state {
            State::Running if self.paused => "paused here",
            State::Running => "running",
            State::Ended => "ended",
            State::Killed => "killed",
        };
        let mode = window.modes.last().map_or("?", |span| span.mode.as_str());
        let per_s = throughput.entry_per_s.map_or("?".to_owned(), rate);
        let p99 =
            latency.end_to_end.map_or(String::new(), |times| format!("  p99 {}", duration(times.p99_ns)));
        let lost = if window.lost > 0 { format!("  {} lost", count(window.lost)) } else { String::new() };
        visible(&format!("{} {state}, mode {mode}  in {per_s}{p99}{lost}", space.name))
    }

    fn foot(&self) -> String {
        match self.asking {
            Some(Asking::Filter) => format!("name holds: {}_", self.typed),
            Some(Asking::Set) => format!("set: {}_", self.typed),
            None if !self.message.is_empty() => visible(&self.message),
            None => {
                let sort = match self.sort {
                    Sort::Flow => "flow",
                    Sort::Load => "load",
                    Sort::Name => "name",
                };
                let filter =
                    if self.filter.is_empty() { String::new() } else { format!(" [{}]", self.filter) };
                format!("q quit  s order: {sort}  / filter{filter}  : set  Space pause  Up Down")
            }
        }
    }

    fn rows(&self) -> Vec<&Component> {
        let all = self.report.components.iter();
        let mut rows: Vec<&Component> = all.filter(|row| row.path.contains(&self.filter)).collect();
        match self.sort {
            Sort::Load => {}
            Sort::Name => rows.sort_by(|a, b| a.path.cmp(&b.path)),
            Sort::Flow => {
                let flow = Flow::of(&self.report);
                rows.sort_by_cached_key(|row| flow.place(&row.path));
            }
        }
        rows
    }

    fn table(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let fits = usize::from(area.height.saturating_sub(1));
        let most = self.rows().len().saturating_sub(fits);
        self.scrolled = self.scrolled.min(most);
        let wide = area.width >= NARROW;
        let numbers: &[(&str, u16)] = match wide {
            true => &[
                ("TASKS", 6),
                ("IN", 9),
                ("BUSY", 7),
                ("NO INPUT", 8),
                ("NO ROOM", 7),
                ("READY", 7),
                ("A MESSAGE", 9),
            ],
            false => &[("IN", 9), ("BUSY", 7), ("A MESSAGE", 9)],
        };
        let right: u16 = numbers.iter().map(|(_, width)| width + 1).sum();
        let name = area.width.saturating_sub(right).max(8);
        let rows = self.rows().into_iter().skip(self.scrolled).take(fits).map(|row| {
            let part = |value: Option<f64>| value.map_or(String::new(), share);
            let shares = row.work.shares;
            let busy = part(shares.map(|of| of.busy));
            let read = row.work.messages_in.map_or(String::new(), count);
            let service = row.work.service_ns.map_or(String::new(), duration);
            let texts = match wide {
                true => vec![
                    count(row.tasks),
                    read,
                    busy,
                    part(shares.map(|of| of.input_wait)),
                    part(shares.map(|of| of.output_wait)),
                    part(shares.map(|of| of.ready)),
                    service,
                ],
                false => vec![read, busy, service],
            };
            let limits = self.limits(row);
            let mark = if limits { "▲ " } else { "" };
            let first = Cell::from(shortened(&format!("{mark}{}", visible(&row.path)), usize::from(name)));
            let cells = texts.into_iter().zip(numbers).map(|(text, (_, width))| right_in(&text, *width));
            let style = if limits { self.marked() } else { Style::new() };
            Row::new([first].into_iter().chain(cells).collect::<Vec<_>>()).style(style)
        });
        let heads = numbers.iter().map(|(title, width)| right_in(title, *width));
        let head = Row::new([Cell::from("COMPONENT")].into_iter().chain(heads).collect::<Vec<_>>());
        let widths = [Constraint::Length(name)].into_iter();
        let widths = widths.chain(numbers.iter().map(|(_, width)| Constraint::Length(*width)));
        let rows: Vec<Row<'_>> = rows.collect();
        let table = Table::new(rows, widths.collect::<Vec<_>>());
        frame.render_widget(
            table.header(head.style(Style::new().add_modifier(Modifier::DIM))).column_spacing(1),
            area,
        );
    }

    /// Whether the verdict is about this component.
    fn limits(&self, component: &Component) -> bool {
        let found = &self.report.verdict.finding;
        found.component.as_deref() == Some(component.path.as_str())
            || found.task.as_ref().is_some_and(|task| task.component() == component.path)
    }

    fn marked(&self) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if self.colour { bold.fg(Color::Yellow) } else { bold }
    }

    fn workers(&self, frame: &mut Frame<'_>, area: Rect) {
        let shown = usize::from(area.height.saturating_sub(1));
        let width = usize::from(area.width.saturating_sub(24)).clamp(4, 60);
        let more = self.report.workers.len().saturating_sub(shown);
        let more = if more > 0 { format!("  … {more} more") } else { String::new() };
        let mut lines = vec![Line::from(format!("WORKERS  █ busy ▒ own or kept off · waiting{more}"))];
        lines.extend(self.report.workers.iter().take(shown).map(|worker| self.bar(worker, width)));
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn bar(&self, worker: &Worker, width: usize) -> Line<'static> {
        let Some(of) = worker.shares else { return Line::from(format!("{:>4} ?", worker.id.to_string())) };
        let cells = |share: f64| ((share * width as f64).round() as usize).min(width);
        let busy = cells(of.busy);
        let other = cells(of.own + of.kept).min(width - busy);
        let style = if self.colour { Style::new().fg(Color::Blue) } else { Style::new() };
        Line::from(vec![
            Span::raw(format!("{:>4} ", worker.id.to_string())),
            Span::styled("█".repeat(busy), style),
            Span::raw("▒".repeat(other)),
            Span::raw("·".repeat(width - busy - other)),
            Span::raw(format!(" {:>7}", share(of.busy))),
        ])
    }
}

/// A tuner's decision as a line: its number and time, what it did, what that brought, and why.
fn decision(of: &Decided) -> String {
    let sign = |part: f64| if part < 0.0 { '−' } else { '+' };
    let gain =
        of.gain.map(|[mean, ..]| format!(" ({}{})", sign(mean), share(mean.abs()))).unwrap_or_default();
    let about = [&of.change[..], &of.why].into_iter().filter(|text| !text.is_empty());
    let about = about.collect::<Vec<_>>().join(": ");
    visible(&format!("{:>4} {:>8} {}{gain} {about}", of.number, duration(of.at_ns), of.what))
}

/// The cell of a number, aligned to the right of a column of this width.
fn right_in(text: &str, width: u16) -> Cell<'static> {
    Cell::from(format!("{text:>width$}", width = usize::from(width)))
}

/// Text of a run without control characters for the terminal.
fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn report() -> Report {
        serde_json::from_str(include_str!("../../../tests/data/report.json")).unwrap()
    }

    /// The lines of the screen.
    fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn every_size_shows_the_verdict_the_components_and_the_workers() {
        let report = report();
        for (width, height) in [(80, 24), (120, 50), (40, 12), (20, 5), (1, 1)] {
            let text = drawn(&mut Screen::new(report.clone(), false, Decisions::default()), width, height)
                .join("\n");
            if width < 40 {
                continue;
            }
            let begin: String = report.verdict.words.text.chars().take(20).collect();
            assert!(text.contains(&begin), "{width} × {height}:\n{text}");
            assert!(
                text.contains("COMPONENT") && text.contains("WORKERS") && text.contains("q quit"),
                "{text}"
            );
            let limiting = report.verdict.finding.component.as_deref().unwrap();
            assert!(text.contains('▲') || width < 80, "{limiting}:\n{text}");
        }
    }

    #[test]
    fn rows_stand_in_the_order_that_was_chosen_and_the_filter_leaves_others_out() {
        let mut screen = Screen::new(report(), false, Decisions::default());
        screen.sort = Sort::Name;
        let names: Vec<String> = screen.rows().iter().map(|row| row.path.clone()).collect();
        let mut sorted = names.clone();
        sorted.sort();
        assert_eq!(names, sorted);
        screen.filter = names[0].clone();
        assert!(screen.rows().iter().all(|row| row.path.contains(&names[0])));
        screen.filter = "nothing is called so".to_owned();
        assert!(drawn(&mut screen, 80, 24).iter().any(|line| line.contains("COMPONENT")));
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        let mut odd = report();
        odd.components[0].path = "a\x1b[2Jb\u{9b}c".to_owned();
        odd.space.name = "\x07bell".to_owned();
        odd.verdict.words.text = "\x1b]0;title\x07".to_owned();
        let text = drawn(&mut Screen::new(odd, false, Decisions::default()), 120, 40).join("");
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}
