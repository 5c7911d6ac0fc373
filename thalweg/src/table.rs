//! Tables of aligned columns that fit the terminal, without lines.
//!
//! If the terminal is too narrow, names are shortened in their middles, prose is wrapped, and then columns
//! are left out; a line below the table names the columns that are left out. Two rows that differ never look
//! alike: names are shortened so that their differing parts are kept, and no column is left out that alone
//! distinguishes rows.

mod shape;
mod shortening;

pub(crate) use shape::{Shape, ShapeArguments};

pub(crate) use shortening::apart;
use thalweg_view::names::cut;

/// The layout of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    content: Content,
    /// The order in which columns are left out when the terminal is too narrow: highest first; a column with
    /// 0 stays.
    drop: u8,
}

/// The kind of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Names are aligned left and may be shortened, as long as they stay different.
    Names,
    /// Texts are aligned left and may be shortened.
    Texts,
    /// Sentences are aligned left and may take several lines.
    Prose,
    /// Numbers are aligned right and must not be shortened; with `true` the numbers identify rows.
    Numbers(bool),
}

/// A column of names.
pub(crate) const fn text(title: &'static str) -> Column {
    Column { title, content: Content::Names, drop: 0 }
}

/// A column of sentences.
pub(crate) const fn prose(title: &'static str) -> Column {
    Column { title, content: Content::Prose, drop: 0 }
}

/// A column of numbers.
pub(crate) const fn number(title: &'static str, drop: u8) -> Column {
    Column { title, content: Content::Numbers(false), drop }
}

/// A column of numbers that identify rows.
pub(crate) const fn id(title: &'static str, drop: u8) -> Column {
    Column { title, content: Content::Numbers(true), drop }
}

impl Column {
    /// Permits leaving the column out when the terminal is too narrow.
    pub(crate) const fn droppable(mut self, drop: u8) -> Column {
        self.drop = drop;
        self
    }

    /// A column of texts that need not stay different, because other columns identify rows.
    pub(crate) const fn loose(mut self) -> Column {
        self.content = Content::Texts;
        self
    }

    fn is_key(self) -> bool {
        matches!(self.content, Content::Names | Content::Numbers(true))
    }
}

/// The least width of a column of text.
const TEXT_MIN: usize = 14;
/// The least width of a column of prose, so that words are not broken.
const PROSE_MIN: usize = 24;
const GAP: usize = 2;

/// Rows of cells under titles.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<(Vec<String>, bool)>,
    more: Option<String>,
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new(), more: None }
    }

    /// Adds a row; `marked` rows are shown in bold.
    pub(crate) fn row(&mut self, cells: Vec<String>, marked: bool) {
        debug_assert_eq!(cells.len(), self.columns.len());
        // Very long cells are cut, because one very long name would make every row as long.
        self.rows.push((cells.iter().map(|cell| cut(cell).into_owned()).collect(), marked));
    }

    /// Sets a line that is shown below the rows.
    pub(crate) fn more(&mut self, more: Option<String>) {
        self.more = more;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, at most `shape.width` wide if it can be made so narrow; empty if the table has none
    /// of the chosen columns.
    pub(crate) fn render(&self, shape: &Shape) -> String {
        shape.meet(self.columns.iter().map(|column| column.title));
        let mut shown = match shape.chosen() {
            None => (0..self.columns.len()).filter(|&n| !self.is_blank(n)).collect(),
            Some(chosen) => match self.chosen(chosen) {
                shown if shown.is_empty() => return String::new(),
                shown => shown,
            },
        };
        let mut widths: Vec<usize> = (0..self.columns.len()).map(|n| self.width(n)).collect();
        let left_out = self.fit(&mut shown, &mut widths, shape);
        let mut out = String::new();
        let titles: Vec<String> = self.columns.iter().map(|column| column.title.to_owned()).collect();
        let colour = shape.colour;
        self.line(&mut out, &titles, &shown, &widths, if colour { "\x1b[2m" } else { "" });
        let short: Vec<_> = shown.iter().map(|&n| self.shortened(n, widths[n])).collect();
        for (row, (cells, marked)) in self.rows.iter().enumerate() {
            let mut cells = cells.clone();
            for (&n, short) in shown.iter().zip(&short) {
                if let Some(short) = short {
                    cells[n].clone_from(&short[row]);
                }
            }
            self.row_lines(&mut out, &cells, &shown, &widths, if *marked && colour { "\x1b[1m" } else { "" });
        }
        if let Some(more) = &self.more {
            out.push_str(more);
            out.push('\n');
        }
        if !left_out.is_empty() {
            let titles = left_out.iter().map(|&n| self.columns[n].title).collect::<Vec<_>>().join(", ");
            let note = format!("… not shown: {titles} (--wide, --columns or a pipe shows them)");
            out.push_str(&wrapped(&note, shape.width, "  "));
        }
        out
    }

    /// The first column, and the columns with these titles in their order; empty if the table has none of
    /// them.
    fn chosen(&self, titles: &[String]) -> Vec<usize> {
        let place = |title: &String| self.columns.iter().position(|column| column.title == title);
        let mut shown: Vec<usize> = titles.iter().filter_map(place).collect();
        if !shown.is_empty() && !shown.contains(&0) {
            shown.insert(0, 0);
        }
        shown
    }

    /// Narrows columns and leaves some out until the table has the requested width, or cannot be narrower.
    /// Returns the columns that were left out.
    fn fit(&self, shown: &mut Vec<usize>, widths: &mut [usize], shape: &Shape) -> Vec<usize> {
        let may_drop = shape.chosen().is_none();
        let mut left_out = Vec::new();
        let mut stuck = vec![false; widths.len()];
        loop {
            let total = shown.iter().map(|&n| widths[n] + GAP).sum::<usize>().saturating_sub(GAP);
            if total <= shape.width {
                break;
            }
            let narrower = shown.iter().copied().filter(|&n| !stuck[n] && widths[n] > self.width_min(n));
            let widest = narrower.max_by_key(|&n| (self.columns[n].content == Content::Prose, widths[n]));
            let droppable = may_drop.then(|| self.droppable(shown)).flatten();
            match (widest, droppable) {
                (Some(n), dropped) if widths[n] > self.width_kept(n) || dropped.is_none() => {
                    match self.is_clear_in(n, widths[n] - 1) {
                        true => widths[n] -= 1,
                        false => stuck[n] = true,
                    }
                }
                (_, Some(n)) => {
                    shown.retain(|&m| m != n);
                    left_out.push(n);
                }
                _ => break,
            }
        }
        // The column that was left out last may have been wider than necessary, so the widest column of prose
        // gets the room that remains.
        let total = shown.iter().map(|&n| widths[n] + GAP).sum::<usize>().saturating_sub(GAP);
        let prose = shown.iter().copied().filter(|&n| self.columns[n].content == Content::Prose);
        if let Some(n) = prose.max_by_key(|&n| self.width(n)) {
            widths[n] = (widths[n] + shape.width.saturating_sub(total)).min(self.width(n));
        }
        left_out.sort_unstable();
        left_out
    }

    /// The column to leave out next, which is never a column that alone distinguishes rows.
    fn droppable(&self, shown: &[usize]) -> Option<usize> {
        let mut candidates: Vec<usize> =
            shown.iter().copied().filter(|&n| self.columns[n].drop > 0).collect();
        candidates.sort_by_key(|&n| std::cmp::Reverse(self.columns[n].drop));
        candidates.into_iter().find(|&n| {
            if !self.columns[n].is_key() {
                return true;
            }
            let without: Vec<usize> = shown.iter().copied().filter(|&m| m != n).collect();
            self.kinds_of_rows(&without) == self.kinds_of_rows(shown)
        })
    }

    /// The number of rows that differ in the columns that identify rows.
    fn kinds_of_rows(&self, shown: &[usize]) -> usize {
        let keys: Vec<usize> = shown.iter().copied().filter(|&n| self.columns[n].is_key()).collect();
        let key = |(cells, _): &(Vec<String>, bool)| keys.iter().map(|&n| cells[n].clone()).collect();
        self.rows.iter().map(key).collect::<std::collections::HashSet<Vec<String>>>().len()
    }

    /// The width to which a column is narrowed before other columns are left out.
    fn width_kept(&self, n: usize) -> usize {
        if self.columns[n].content == Content::Prose { PROSE_MIN } else { 2 * TEXT_MIN }
    }

    fn width_min(&self, n: usize) -> usize {
        let title = self.columns[n].title.chars().count();
        match self.columns[n].content {
            Content::Names | Content::Texts => TEXT_MIN.max(title),
            Content::Prose => PROSE_MIN.max(title),
            Content::Numbers(_) => usize::MAX,
        }
    }

    /// Whether different cells of the column are still different when they are shortened to this width.
    fn is_clear_in(&self, n: usize, width: usize) -> bool {
        self.columns[n].content != Content::Names || apart(&self.cells(n), width).is_some()
    }

    /// A column's cells shortened to the width `width`, if any cell has to be shortened.
    fn shortened(&self, n: usize, width: usize) -> Option<Vec<String>> {
        match self.columns[n].content {
            Content::Names => apart(&self.cells(n), width),
            Content::Texts => Some(self.cells(n).iter().map(|cell| shortened(cell, width)).collect()),
            Content::Prose | Content::Numbers(_) => None,
        }
    }

    fn cells(&self, n: usize) -> Vec<&str> {
        self.rows.iter().map(|(cells, _)| cells[n].as_str()).collect()
    }

    /// Whether this column is empty in all rows.
    fn is_blank(&self, n: usize) -> bool {
        n > 0 && self.rows.iter().all(|(cells, _)| cells[n].is_empty())
    }

    fn width(&self, n: usize) -> usize {
        let cells = self.rows.iter().map(|(cells, _)| cells[n].chars().count());
        cells.chain([self.columns[n].title.chars().count()]).max().unwrap_or(0)
    }

    /// A row, in as many lines as its prose takes.
    fn row_lines(&self, out: &mut String, cells: &[String], shown: &[usize], widths: &[usize], style: &str) {
        let mut lines: Vec<Vec<String>> = vec![cells.to_vec()];
        for &n in shown.iter().filter(|&&n| self.columns[n].content == Content::Prose) {
            let text = wrapped(&cells[n], widths[n], "");
            for (at, part) in text.lines().enumerate() {
                if lines.len() <= at {
                    lines.push(vec![String::new(); cells.len()]);
                }
                part.clone_into(&mut lines[at][n]);
            }
        }
        for line in &lines {
            self.line(out, line, shown, widths, style);
        }
    }

    fn line(&self, out: &mut String, cells: &[String], shown: &[usize], widths: &[usize], style: &str) {
        let mut line = String::new();
        for (place, &n) in shown.iter().enumerate() {
            if place > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            let pad = " ".repeat(widths[n].saturating_sub(cells[n].chars().count()));
            if matches!(self.columns[n].content, Content::Numbers(_)) {
                line.push_str(&pad);
                line.push_str(&cells[n]);
            } else {
                line.push_str(&cells[n]);
                line.push_str(&pad);
            }
        }
        out.push_str(style);
        out.push_str(line.trim_end());
        if !style.is_empty() {
            out.push_str("\x1b[0m");
        }
        out.push('\n');
    }
}

/// The text in at most `width` characters: the middle is cut, because paths differ at their ends.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width || width < 3 {
        return text.to_owned();
    }
    let head = (width - 1) / 3;
    let tail = width - 1 - head;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{start}…{end}")
}

/// Text in lines of at most `width` characters, broken at blanks.
pub(crate) fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(indent);
            column = indent.chars().count();
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(&[text("NAME"), number("A", 0), number("BB", 1), number("NONE", 0)]);
        table.row(
            vec!["net/a/very/long/path/of/a/component".into(), "1".into(), "22,222".into(), String::new()],
            true,
        );
        table.row(vec!["b".into(), "12.3 µs".into(), "4".into(), String::new()], false);
        table
    }

    fn rendered(table: &Table, width: usize) -> String {
        table.render(&Shape::of(width))
    }

    /// The texts in the first column of a rendered table.
    fn names(rendered: &str) -> Vec<&str> {
        let rows = rendered.lines().skip(1).filter(|line| !line.starts_with('…') && !line.starts_with("  "));
        rows.map(|line| line.split("  ").next().unwrap_or("")).collect()
    }

    #[test]
    fn wide_enough() {
        let want = "\
NAME                                       A      BB
net/a/very/long/path/of/a/component        1  22,222
b                                    12.3 µs       4
";
        assert_eq!(rendered(&sample(), 100), want);
        assert_eq!(rendered(&sample(), usize::MAX), want);
    }

    #[test]
    fn narrow_shortens_then_drops_and_reports_it() {
        let want = "\
NAME                                 A      BB
net/a/ver…path/of/a/component        1  22,222
b                              12.3 µs       4
";
        assert_eq!(rendered(&sample(), 46), want);
        for width in [46, 40, 30, 23] {
            let text = rendered(&sample(), width);
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= width, "{longest} in {width}:\n{text}");
        }
        let narrow = rendered(&sample(), 30);
        assert!(!narrow.lines().next().unwrap().contains("BB"), "{narrow}");
        assert!(narrow.contains("… not shown: BB (--wide,"), "{narrow}");
        assert!(!narrow.contains("NONE"), "what says nothing is not missed: {narrow}");
    }

    #[test]
    fn rows_that_differ_never_look_alike() {
        let mut table = Table::new(&[text("NAME"), number("MANY DIGITS", 0), number("MORE", 1)]);
        let mut all = Vec::new();
        for outer in 0..12 {
            for inner in ["left", "right"] {
                let name = format!(
                    "network/of/many/parts/replica[{outer}]/and/the/branch/{inner}/of/the/filter/at/its/end"
                );
                table.row(vec![name.clone(), "1,234,567".into(), "7".into()], false);
                all.push(name);
            }
        }
        for width in 20..140 {
            let text = rendered(&table, width);
            let mut seen = names(&text);
            assert_eq!(seen.len(), all.len(), "{text}");
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), all.len(), "{width}:\n{text}");
        }
    }

    #[test]
    fn a_column_that_alone_distinguishes_rows_stays() {
        let table = |second: &str| {
            let mut table = Table::new(&[text("NAME"), id("ID", 3), number("SOMETHING LONG", 1)]);
            table.row(vec!["one".into(), "7".into(), "1".into()], false);
            table.row(vec![second.into(), "8".into(), "1".into()], false);
            rendered(&table, 14)
        };
        assert!(table("one").lines().next().unwrap().ends_with("ID"), "{}", table("one"));
        assert!(!table("two").lines().next().unwrap().contains("ID"), "{}", table("two"));
    }

    #[test]
    fn prose_takes_several_lines() {
        let mut table = Table::new(&[text("NAME"), prose("WHAT IT DOES"), number("N", 1)]);
        table.row(vec!["a".into(), "one two three four five six seven".into(), "1".into()], false);
        table.row(vec!["b".into(), "one".into(), "2".into()], false);
        let want = "\
NAME  WHAT IT DOES              N
a     one two three four five   1
      six seven
b     one                       2
";
        assert_eq!(rendered(&table, 33), want);
    }

    #[test]
    fn columns_are_chosen() {
        let shape = |titles: &[&str]| Shape::choosing(80, titles);
        let text = sample().render(&shape(&["bb", "none"]));
        assert_eq!(text.lines().next(), Some("NAME                                     BB  NONE"));
        assert_eq!(sample().render(&shape(&["other"])), "");
        let other = shape(&["bb", "other"]);
        sample().render(&other);
        assert_eq!(other.unknown(), Some("OTHER".to_owned()));
    }

    #[test]
    fn marks_only_in_colour() {
        assert!(!rendered(&sample(), 100).contains('\x1b'));
        let mut colour = Shape::of(100);
        colour.colour = true;
        assert!(sample().render(&colour).contains("\x1b[1mnet/a"));
    }

    #[test]
    fn wrapping() {
        assert_eq!(wrapped("one two three four", 9, "  "), "one two\n  three\n  four\n");
    }
}
