//! The reader and writer of comma-separated values (RFC 4180).
//!
//! The first line has the labels, written as in JSON: `x`, `<n>`, `<#b>`, and any other text for a field of a
//! foreign name. A cell of a tag is an integer; a cell of a field is an integer or a float if it has the form
//! of one, else text. An empty cell means that the record lacks the label. CSV has no types: the text `12` is
//! read back as an integer.
//!
//! If a quoted cell spans several lines and the row is then invalid, its quote was not closed: the row ends
//! with the line on which the quote opened, and the lines after that line are read again as rows of their
//! own.

use std::io;
use std::path::Path;
use std::sync::Arc;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, WriteResult, Writer, WriterBuilder};
use memchr::{memchr, memchr_iter};
use thalweg_box::{Text, Value};
use thalweg_net::json::{self, Names};
use thalweg_net::label::{Label, LabelKind};
use thalweg_net::record::Record;
use thalweg_net::shape::{self, ShapeId};

use super::compression::Compression;
use super::place::Input;
use super::step::{Lost, Malformed, Next};
use crate::interrupt::Interrupt;

/// A row that is too long is passed on as failed in pieces of this many bytes.
const PIECE_BYTES: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The separator of the cells of a CSV file.
pub(super) fn separator(path: &Path) -> u8 {
    let (_, path) = Compression::of_name(path);
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tsv")) { b'\t' } else { b',' }
}

/// The records of a file with a line of labels and a line for each record.
pub(crate) struct Csv {
    pub(crate) input: Input,
    separator: u8,
    reader: Reader,
    row: Row,
    names: Arc<Names>,
    columns: Option<Columns>,
    text: RowText,
    /// The number of line ends that were read.
    lines: u64,
    /// Whether the present row is too long, so that the rest of its line is dropped.
    skips: bool,
    bytes_max: usize,
}

/// The text of a row: one line, or several lines if quotes are open at the ends of lines.
#[derive(Default)]
struct RowText {
    bytes: Vec<u8>,
    /// The number of bytes of the row that were passed to the parser of cells.
    read: usize,
    /// The line on which the row begins, from 1.
    first_line: u64,
    /// Whether the row is complete.
    is_whole: bool,
    is_last: bool,
    quotes: Quotes,
    /// The first cell that contains an end of line: the line on which the cell's quote opens, and the
    /// position where the next line starts.
    over_lines: Option<(u64, usize)>,
}

/// The state of the parser within a cell.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Quotes {
    #[default]
    CellBegins,
    Unquoted,
    Quoted,
    /// The parser is behind a quote in a quoted cell; the quote ends the cell, or is the first half of a
    /// doubled quote.
    Behind,
}

/// The cells of the row so far.
struct Row {
    bytes: Vec<u8>,
    length: usize,
    /// The end of each cell.
    ends: Vec<usize>,
    count: usize,
    /// Whether the row is too long, so that the rest of the row is dropped.
    too_long: bool,
}

/// The labels of the columns.
struct Columns {
    labels: Vec<Label>,
    shape: ShapeId,
    /// The slot of each column's value in a record.
    slots: Vec<usize>,
}

impl Csv {
    pub(crate) fn new(input: Input, separator: u8, names: Arc<Names>, bytes_max: usize) -> Csv {
        let reader = ReaderBuilder::new().delimiter(separator).build();
        let row = Row { bytes: vec![0; 1 << 12], length: 0, ends: vec![0; 64], count: 0, too_long: false };
        Csv {
            input,
            separator,
            reader,
            row,
            names,
            columns: None,
            text: RowText::default(),
            lines: 0,
            skips: false,
            bytes_max,
        }
    }

    /// The next record.
    pub(crate) fn next(&mut self, interrupt: &Interrupt) -> io::Result<Next> {
        loop {
            if self.text.is_whole {
                if let Some(next) = self.read_cells()? {
                    return Ok(next);
                }
                continue;
            }
            if interrupt.is_stopping() {
                return Ok(Next::End);
            }
            if !self.input.is_ready()? {
                return Ok(Next::Pending);
            }
            if self.skips && self.input.kept_bytes() >= PIECE_BYTES {
                return Ok(self.too_long(true));
            }
            if let Some(next) = self.read_line()? {
                return Ok(next);
            }
        }
    }

    /// Reads more of the row's text, up to the end of a line.
    fn read_line(&mut self) -> io::Result<Option<Next>> {
        let text = &mut self.text;
        if text.bytes.is_empty() && !self.skips {
            self.input.begin();
            text.first_line = self.lines + 1;
        }
        let is_first = self.input.is_at_begin();
        let available = self.input.fill_buf()?;
        if is_first && available.starts_with(BYTE_ORDER_MARK) {
            self.input.consume(BYTE_ORDER_MARK.len());
            return Ok(None);
        }
        if available.is_empty() {
            if std::mem::take(&mut self.skips) {
                return Ok(Some(self.too_long(false)));
            }
            if let (Quotes::Quoted, Some(open)) = (text.quotes, text.over_lines) {
                return self.unclosed(open).map(Some);
            }
            if text.bytes.is_empty() {
                return Ok(Some(Next::End));
            }
            (text.is_whole, text.is_last) = (true, true);
            return Ok(None);
        }
        let end = memchr(b'\n', available);
        let taken = end.map_or(available.len(), |end| end + 1);
        let too_long = self.skips || text.bytes.len() + taken > self.bytes_max;
        if too_long {
            if let Some(open) = text.over_lines {
                return self.unclosed(open).map(Some);
            }
            self.input.consume(taken);
            self.lines += u64::from(end.is_some());
            self.skips = end.is_none();
            self.text.bytes.clear();
            return Ok(end.is_some().then(|| self.too_long(false)));
        }
        let before = text.bytes.len();
        text.bytes.extend_from_slice(&available[..taken]);
        self.input.consume(taken);
        let is_closed = text.follow_quotes(before, self.separator, self.lines + 1);
        self.lines += u64::from(end.is_some());
        match text.over_lines {
            Some(open) if !is_closed => self.unclosed(open).map(Some),
            _ => {
                text.is_whole = end.is_some() && text.quotes != Quotes::Quoted;
                Ok(None)
            }
        }
    }

    /// Ends the row on the line where its quote opened; the lines after that line are read again.
    fn unclosed(&mut self, (line, end): (u64, usize)) -> io::Result<Next> {
        let text = std::mem::take(&mut self.text);
        self.lines -= memchr_iter(b'\n', &text.bytes[end..]).count() as u64;
        self.input.give_back(&text.bytes[end..]);
        self.reader.reset();
        self.row.clear();
        let name = &self.input.name;
        let what = format!("{name}:{line}: the quote that opens on this line is not closed");
        match self.columns {
            Some(_) => Ok(self.malformed(what, line, false)),
            None => Err(io::Error::new(io::ErrorKind::InvalidData, what)),
        }
    }

    /// Parses cells of the row's text, up to the end of a row; the text contains several rows if its lines
    /// end in carriage returns only.
    fn read_cells(&mut self) -> io::Result<Option<Next>> {
        let (text, row) = (&mut self.text, &mut self.row);
        let (bytes, ends) = (&mut row.bytes[row.length..], &mut row.ends[row.count..]);
        let rest = &text.bytes[text.read..];
        let (result, taken, written, ended) = self.reader.read_record(rest, bytes, ends);
        text.read += taken;
        row.length += written;
        row.count += ended;
        match result {
            ReadRecordResult::InputEmpty if text.is_last && taken > 0 => {}
            ReadRecordResult::InputEmpty | ReadRecordResult::End => {
                text.bytes.clear();
                (text.read, text.is_whole, text.over_lines) = (0, false, None);
                text.quotes = Quotes::CellBegins;
            }
            ReadRecordResult::OutputFull => row.lengthen(self.bytes_max),
            ReadRecordResult::OutputEndsFull => row.widen(),
            ReadRecordResult::Record => {
                let next = self.record();
                self.row.clear();
                return next;
            }
        }
        Ok(None)
    }

    /// The record of the row; `None` if the row is the line of labels.
    fn record(&mut self) -> io::Result<Option<Next>> {
        if self.row.too_long {
            return Ok(Some(self.too_long(false)));
        }
        let Some(columns) = &self.columns else {
            let read = Columns::read(&self.row, &self.names);
            self.columns = Some(read.map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))?);
            return Ok(None);
        };
        match (columns.record(&self.row), self.text.over_lines) {
            (Ok(record), _) => Ok(Some(Next::Record(record))),
            (Err(_), Some(open)) if self.row.count != columns.labels.len() => self.unclosed(open).map(Some),
            (Err(what), _) => {
                let line = self.text.first_line;
                let what = format!("{}:{line}: {what}", self.input.name);
                Ok(Some(self.malformed(what, line, false)))
            }
        }
    }

    /// The error of a row that is too long, with a piece of the row.
    fn too_long(&mut self, goes_on: bool) -> Next {
        let (name, line, most) = (&self.input.name, self.text.first_line, self.bytes_max);
        let what = format!(
            "{name}:{line}: a row of more than {most} bytes or {} cells; --record-bytes allows for more",
            Row::CELLS_MAX
        );
        self.malformed(what, line, goes_on)
    }

    fn malformed(&mut self, what: String, line: u64, goes_on: bool) -> Next {
        let raw = self.input.raw(Some(line), goes_on).map(|mut raw| {
            // Ends of lines before the row are skipped here, because the parser of cells skips them, too.
            let before = raw.bytes.iter().take_while(|byte| b"\r\n".contains(byte)).count();
            raw.bytes.drain(..before);
            raw.byte += before as u64;
            let behind = raw.bytes.iter().rev().take_while(|byte| b"\r\n".contains(byte)).count();
            raw.bytes.truncate(raw.bytes.len() - behind);
            raw
        });
        Next::Malformed(Malformed { what, lost: raw.map_or(Lost::Nothing, Lost::Raw) })
    }
}

impl RowText {
    /// Follows the quotes in the text after `begin`, on this line. Returns false if a cell with a line end in
    /// it was not closed, because the text after its quote belongs to no cell.
    fn follow_quotes(&mut self, begin: usize, separator: u8, line: u64) -> bool {
        let piece = &self.bytes[begin..];
        if self.quotes == Quotes::CellBegins && memchr(b'"', piece).is_none() {
            return true;
        }
        for (at, &byte) in piece.iter().enumerate() {
            let is_end = byte == separator || byte == b'\n' || byte == b'\r';
            self.quotes = match (self.quotes, byte) {
                (Quotes::Quoted, b'"') => Quotes::Behind,
                (Quotes::Quoted, b'\n') => {
                    self.over_lines.get_or_insert((line, begin + at + 1));
                    Quotes::Quoted
                }
                (Quotes::Quoted, _) => Quotes::Quoted,
                (Quotes::CellBegins | Quotes::Behind, b'"') => Quotes::Quoted,
                (_, _) if is_end => Quotes::CellBegins,
                (Quotes::Behind, _) if self.over_lines.is_some() => return false,
                _ => Quotes::Unquoted,
            };
        }
        true
    }
}

impl Row {
    const CELLS_MAX: usize = 1 << 16;

    fn cells(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends[..self.count]).map(|(start, &end)| &self.bytes[start..end])
    }

    /// Makes space for more bytes of the row; if that would exceed the limit, the bytes read so far are
    /// dropped.
    fn lengthen(&mut self, bytes_max: usize) {
        if self.bytes.len() >= bytes_max {
            self.too_long = true;
            self.length = 0;
        } else {
            self.bytes.resize((2 * self.bytes.len()).min(bytes_max), 0);
        }
    }

    fn widen(&mut self) {
        if self.ends.len() >= Row::CELLS_MAX {
            self.too_long = true;
            self.count = 0;
        } else {
            self.ends.resize(2 * self.ends.len(), 0);
        }
    }

    fn clear(&mut self) {
        (self.length, self.count, self.too_long) = (0, 0, false);
    }
}

impl Columns {
    fn read(row: &Row, names: &Names) -> Result<Columns, String> {
        let mut labels = Vec::new();
        for (number, cell) in row.cells().enumerate() {
            let text = std::str::from_utf8(cell).map_err(|_| {
                format!("the first line must have labels; its cell {} is not UTF-8", number + 1)
            })?;
            let label =
                names.of_column(text).map_err(|what| format!("the first line must have labels; {what}"))?;
            if labels.contains(&label) {
                return Err(format!("the label {label} stands twice in the first line"));
            }
            labels.push(label);
        }
        let shape = shape::from_data(&labels).map_err(|error| error.to_string())?;
        let slot = |&label| shape.slot(label).expect("the shape was made of these labels");
        let slots = labels.iter().map(slot).collect();
        Ok(Columns { labels, shape, slots })
    }

    fn record(&self, row: &Row) -> Result<Record, String> {
        if row.count != self.labels.len() {
            let (found, wanted) = (row.count, self.labels.len());
            return Err(format!("the row has {found} cells, the first line {wanted} labels"));
        }
        if row.cells().any(<[u8]>::is_empty) {
            let present = self.labels.iter().zip(row.cells()).filter(|(_, cell)| !cell.is_empty());
            let pairs: Result<Vec<_>, String> =
                present.map(|(&label, cell)| Ok((label, value(label, cell)?))).collect();
            return Ok(Record::from_pairs(pairs?));
        }
        let mut record = Record::with_shape(self.shape);
        for ((&label, &slot), cell) in self.labels.iter().zip(&self.slots).zip(row.cells()) {
            record.slots_mut()[slot] = value(label, cell)?;
        }
        Ok(record)
    }
}

fn value(label: Label, cell: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(cell).map_err(|_| format!("the cell of {label} is not UTF-8"))?;
    if label.is_integer() {
        let number = text.trim().parse();
        return number.map(Value::Int).map_err(|_| format!("{text:?} for {label} is no integer of 64 bits"));
    }
    Ok(match number(text) {
        // A number keeps its spelling if the network does not name its label, so no box reads it as a number.
        Some(Value::Float(number)) if !label.is_of_program() => json::spelled(number, text),
        Some(number) => number,
        None => Value::Text(Text::from_string(text.to_owned())),
    })
}

/// The text as a number, if writing the number gives the same text: no plus sign and no needless zeros.
fn number(text: &str) -> Option<Value> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let first = *digits.first().filter(|first| first.is_ascii_digit())?;
    if first == b'0' && digits.get(1).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    if digits.iter().all(u8::is_ascii_digit) {
        return if text == "-0" { None } else { text.parse().ok().map(Value::Int) };
    }
    let is_written_as_float = digits.iter().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(byte));
    let float: f64 = text.parse().ok().filter(|_| is_written_as_float)?;
    float.is_finite().then_some(Value::Float(float))
}

/// Writes records as rows; the columns are the labels of the first record.
pub(crate) struct CsvWriter {
    writer: Writer,
    names: Arc<Names>,
    columns: Vec<Label>,
}

impl CsvWriter {
    pub(crate) fn new(separator: u8, names: Arc<Names>) -> CsvWriter {
        CsvWriter { writer: WriterBuilder::new().delimiter(separator).build(), names, columns: Vec::new() }
    }

    /// Appends the row of `record`, and before the first row the line of labels. `Err` describes a value that
    /// CSV cannot express; in that case nothing was appended.
    pub(crate) fn write(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), String> {
        let begin = out.len();
        if self.columns.is_empty() {
            let shape = record.shape();
            self.columns = shape.shown().iter().map(|&slot| shape.labels()[usize::from(slot)]).collect();
            let names: Vec<String> = self.columns.iter().map(|&label| self.names.column_of(label)).collect();
            self.row(names.iter().map(String::as_bytes), out);
        }
        if let Some(label) = record.shape().labels().iter().find(|label| !self.columns.contains(label)) {
            let columns: Vec<String> = self.columns.iter().map(Label::to_string).collect();
            return Err(format!(
                "{label} is no column of this CSV output; its columns are those of the first record: {}",
                columns.join(", ")
            ));
        }
        let cells: Result<Vec<Vec<u8>>, String> = self
            .columns
            .iter()
            .map(|&label| record.get(label).map_or(Ok(Vec::new()), |v| cell(label, v)))
            .collect();
        match cells {
            Ok(cells) => {
                self.row(cells.iter().map(Vec::as_slice), out);
                Ok(())
            }
            Err(what) => {
                out.truncate(begin);
                Err(what)
            }
        }
    }

    fn row<'a>(&mut self, cells: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
        for (number, cell) in cells.enumerate() {
            if number > 0 {
                self.put(2, out, |writer, room| writer.delimiter(room));
            }
            // Each byte may become two bytes, and the cell gets quotes and a separator.
            self.put(2 * cell.len() + 4, out, |writer, room| {
                let (result, _, written) = writer.field(cell, room);
                (result, written)
            });
        }
        self.put(8, out, |writer, room| writer.terminator(room));
    }

    fn put(
        &mut self,
        room: usize,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Writer, &mut [u8]) -> (WriteResult, usize),
    ) {
        let begin = out.len();
        out.resize(begin + room, 0);
        let (result, written) = write(&mut self.writer, &mut out[begin..]);
        debug_assert_eq!(result, WriteResult::InputEmpty, "there was room for the worst");
        out.truncate(begin + written);
    }
}

fn cell(label: Label, value: &Value) -> Result<Vec<u8>, String> {
    match value {
        Value::Int(number) => Ok(number.to_string().into_bytes()),
        // The decimal point makes the number a float when it is read again.
        Value::Float(number) => Ok(format!("{number:?}").into_bytes()),
        Value::Text(text) if text.is_json() => match json::plain(text) {
            // A number that was read from text is written as it was spelled there.
            Some(Value::Int(_) | Value::Float(_) | Value::Array(_)) => Ok(text.as_str().as_bytes().to_vec()),
            Some(value) => cell(label, &value),
            None if text.as_str() == "null" => Ok(Vec::new()),
            None => Ok(text.as_str().as_bytes().to_vec()),
        },
        Value::Text(text) => Ok(text.as_str().as_bytes().to_vec()),
        Value::Array(array) if array.is_scalar() => Ok(match array.to_integers() {
            Some(numbers) => numbers[0].to_string().into_bytes(),
            None => format!("{:?}", array.to_floats()[0]).into_bytes(),
        }),
        Value::Array(_) => {
            let mut list = Vec::new();
            json::write_value(value, &mut list);
            Ok(list)
        }
        other => {
            let kind = match label.kind() {
                LabelKind::Field => other.kind(),
                LabelKind::Tag | LabelKind::BindingTag => "an odd value",
            };
            Err(format!("{label} is {kind}, which has no form in CSV; write JSON instead"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &[u8], bytes_max: usize) -> Vec<Result<Record, String>> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("in.csv");
        std::fs::write(&path, text).expect("a file");
        let mut csv = Csv::new(
            Input::file(&path).unwrap_or_else(|_| panic!("a file")),
            b',',
            Arc::default(),
            bytes_max,
        );
        let mut all = Vec::new();
        loop {
            match csv.next(&Interrupt::default()) {
                Ok(Next::Record(record)) => all.push(Ok(record)),
                Ok(Next::Malformed(Malformed { what, .. })) => {
                    all.push(Err(what.rsplit_once("in.csv:").unwrap().1.to_owned()));
                }
                Ok(Next::End) => return all,
                Ok(Next::Pending) => panic!("a file is ready"),
                Err(error) => {
                    all.push(Err(error.to_string()));
                    return all;
                }
            }
        }
    }

    fn shown(text: &str) -> Vec<String> {
        read(text.as_bytes(), 1 << 16)
            .into_iter()
            .map(|one| one.map_or_else(|e| e, |r| r.to_string()))
            .collect()
    }

    #[test]
    fn cells_are_what_they_are_written_as() {
        // A label that a program names has its values read as numbers, however they are spelled.
        Label::field("x");
        let text = "x,name,<n>\r\n1,\"a, \"\"b\"\"\nc\",7\n-2.5e3,007,-1\n,1.0.0,0\n";
        assert_eq!(
            shown(text),
            [
                "{name=\"a, \\\"b\\\"\\nc\", x=1, <n>=7}",
                "{name=\"007\", x=-2500, <n>=-1}",
                "{name=\"1.0.0\", <n>=0}"
            ]
        );
        assert_eq!(shown("\u{feff}a\n9223372036854775808\n"), ["{a=\"9223372036854775808\"}"]);
        assert_eq!(shown("nobody_asks\n1.10\n"), ["{nobody_asks=1.10}"]);
    }

    #[test]
    fn a_bad_row_is_reported_with_its_line_and_the_next_is_read() {
        let text = "a,<n>\n1,x\n1\n2,2\n";
        assert_eq!(
            shown(text),
            [
                "2: \"x\" for <n> is no integer of 64 bits",
                "3: the row has 1 cells, the first line 2 labels",
                "{a=2, <n>=2}"
            ]
        );
        assert_eq!(shown("a b, c ,<n\n1,2,3\n"), ["{_x3C_n=3, a_x20_b=1, c=2}"]);
        assert_eq!(shown("a,a\n"), ["the label a stands twice in the first line"]);
        assert!(read(b"a\n\xff\n", 99)[0].as_ref().unwrap_err().contains("not UTF-8"));
    }

    #[test]
    fn an_unclosed_quote_costs_its_row_alone() {
        let unclosed = |line: u64| format!("{line}: the quote that opens on this line is not closed");
        let fine = |a: &str, b: &str| format!("{{a={a}, b={b}}}");
        // An unclosed quote is detected by the text after the next quote, by the number of cells, or by the
        // end of the input.
        assert_eq!(
            shown("a,b\n1,\"oops\n2,\"fine\"\n3,4\n"),
            [unclosed(2), fine("2", "\"fine\""), fine("3", "4")]
        );
        assert_eq!(
            shown("a,b\n1,\"x\",\"oops\n\"p\nq\",2\n3,4\n"),
            [unclosed(2), fine("\"p\\nq\"", "2"), fine("3", "4")]
        );
        assert_eq!(
            shown("a,b\n1,2\n3,\"oops\n4,5\n6,7"),
            [fine("1", "2"), unclosed(3), fine("4", "5"), fine("6", "7")]
        );
    }

    #[test]
    fn a_row_that_is_too_long_is_dropped_alone() {
        let text = format!("a,b\n{},1\n2,3\n", "x".repeat(100_000));
        let all = read(text.as_bytes(), 5000);
        assert!(all[0].as_ref().unwrap_err().contains("more than 5000 bytes"), "{all:?}");
        assert_eq!(all[1].as_ref().map(ToString::to_string), Ok("{a=2, b=3}".to_owned()));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "[a-c<>#,\"\r\n0-9.e\\-]{0,60}", bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(text.as_bytes(), 16);
            let _ = read(&[text.as_bytes(), &bytes].concat(), 1 << 10);
        }

        #[test]
        fn what_is_written_is_read_again(rows in prop::collection::vec((any::<String>(), any::<i64>(), proptest::num::f64::NORMAL), 1..6)) {
            let record = |(text, number, float): &(String, i64, f64)| Record::from_pairs([
                // A text that does not look like a number, and values of other types.
                (Label::field("t"), Value::from(&*format!("t{text}"))),
                (Label::tag("n"), Value::Int(*number)),
                (Label::field("f"), Value::Float(*float)),
            ]);
            let mut writer = CsvWriter::new(b',', Arc::default());
            let mut out = Vec::new();
            for row in &rows {
                writer.write(&record(row), &mut out).unwrap();
            }
            let all = read(&out, 1 << 20);
            prop_assert_eq!(all.len(), rows.len());
            for (row, read) in rows.iter().zip(all) {
                prop_assert_eq!(record(row).to_string(), read.unwrap().to_string());
            }
        }
    }
}
