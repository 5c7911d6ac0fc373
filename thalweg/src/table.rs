//! Tables of aligned columns that fit the terminal, without lines.

/// What a column is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Texts stand left and may be shortened; numbers stand right and may not.
    pub(crate) text: bool,
    /// Columns with the highest go first when the terminal is too narrow; 0 stays.
    pub(crate) drop: u8,
}

/// A column of texts.
pub(crate) const fn text(title: &'static str) -> Column {
    Column { title, text: true, drop: 0 }
}

/// A column of numbers.
pub(crate) const fn number(title: &'static str, drop: u8) -> Column {
    Column { title, text: false, drop }
}

impl Column {
    /// May be left out when the terminal is too narrow.
    pub(crate) const fn droppable(mut self, drop: u8) -> Column {
        self.drop = drop;
        self
    }
}

/// A text column is not made narrower than this.
const TEXT_MIN: usize = 14;
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
        self.rows.push((cells, marked));
    }

    /// A line after the rows.
    pub(crate) fn more(&mut self, more: Option<String>) {
        self.more = more;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table, at most `width` wide if the texts can be shortened that far.
    pub(crate) fn render(&self, width: usize, colour: bool) -> String {
        let mut shown: Vec<usize> = (0..self.columns.len()).filter(|&n| !self.says_nothing(n)).collect();
        let mut widths: Vec<usize> = (0..self.columns.len()).map(|n| self.width(n)).collect();
        let total = |shown: &[usize], widths: &[usize]| {
            shown.iter().map(|&n| widths[n] + GAP).sum::<usize>().saturating_sub(GAP)
        };
        loop {
            let over = total(&shown, &widths).saturating_sub(width);
            if over == 0 {
                break;
            }
            let widest = shown.iter().copied().filter(|&n| self.columns[n].text).max_by_key(|&n| widths[n]);
            let droppable = shown
                .iter()
                .copied()
                .filter(|&n| self.columns[n].drop > 0)
                .max_by_key(|&n| self.columns[n].drop);
            match (widest, droppable) {
                (Some(n), _) if widths[n] > 2 * TEXT_MIN => widths[n] = (widths[n] - 1).max(2 * TEXT_MIN),
                (_, Some(n)) => shown.retain(|&m| m != n),
                (Some(n), None) if widths[n] > TEXT_MIN => widths[n] -= 1,
                _ => break,
            }
        }
        let mut out = String::new();
        let titles: Vec<String> = self.columns.iter().map(|column| column.title.to_owned()).collect();
        self.line(&mut out, &titles, &shown, &widths, if colour { "\x1b[2m" } else { "" });
        for (cells, marked) in &self.rows {
            self.line(&mut out, cells, &shown, &widths, if *marked && colour { "\x1b[1m" } else { "" });
        }
        if let Some(more) = &self.more {
            out.push_str(more);
            out.push('\n');
        }
        out
    }

    /// Whether no row has anything here.
    fn says_nothing(&self, n: usize) -> bool {
        n > 0 && self.rows.iter().all(|(cells, _)| cells[n].is_empty())
    }

    fn width(&self, n: usize) -> usize {
        let cells = self.rows.iter().map(|(cells, _)| cells[n].chars().count());
        cells.chain([self.columns[n].title.chars().count()]).max().unwrap_or(0)
    }

    fn line(&self, out: &mut String, cells: &[String], shown: &[usize], widths: &[usize], style: &str) {
        let mut line = String::new();
        for (place, &n) in shown.iter().enumerate() {
            if place > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            let cell = shortened(&cells[n], widths[n]);
            let pad = " ".repeat(widths[n].saturating_sub(cell.chars().count()));
            if self.columns[n].text {
                line.push_str(&cell);
                line.push_str(&pad);
            } else {
                line.push_str(&pad);
                line.push_str(&cell);
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

/// The text in at most `width` characters: the middle goes, since paths differ at their ends.
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

    #[test]
    fn wide_enough() {
        let want = "\
NAME                                       A      BB
net/a/very/long/path/of/a/component        1  22,222
b                                    12.3 µs       4
";
        assert_eq!(sample().render(100, false), want);
    }

    #[test]
    fn narrow_shortens_then_drops() {
        let want = "\
NAME                                 A      BB
net/a/ver…path/of/a/component        1  22,222
b                              12.3 µs       4
";
        assert_eq!(sample().render(46, false), want);
        for width in [46, 40, 30, 20] {
            let longest =
                sample().render(width, false).lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= width.max(TEXT_MIN + GAP + 7), "{longest} in {width}");
        }
        assert!(!sample().render(30, false).contains("BB"));
    }

    #[test]
    fn marks_only_in_colour() {
        assert!(!sample().render(100, false).contains('\x1b'));
        assert!(sample().render(100, true).contains("\x1b[1mnet/a"));
    }

    #[test]
    fn wrapping() {
        assert_eq!(wrapped("one two three four", 9, "  "), "one two\n  three\n  four\n");
    }
}
