//! Standard output of the observing commands: it is buffered, fits the width of the terminal, and gives no
//! error when its reader has closed the pipe.

use std::io::{self, BufWriter, IsTerminal, Write};

use crate::Terminal;
use crate::failure::Failure;
use crate::table::{Shape, ShapeArguments, Table};

/// The width of sentences if standard output is no terminal.
const WIDTH: usize = 110;
/// The least width of sentences: narrower text is unreadable.
const WIDTH_MIN: usize = 20;

/// Writes a line at once.
pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    done(writeln!(stdout, "{text}"))?;
    done(stdout.flush())
}

/// Standard output.
pub(crate) struct Output {
    writer: BufWriter<io::Stdout>,
    /// Whether to use colours: bold, dim, blue and yellow, which colour-blind persons can distinguish. Colour
    /// is never the only sign of something.
    pub(crate) colour: bool,
    /// The number of characters in a line.
    pub(crate) width: usize,
    /// The layout of tables; without a terminal their width is not limited.
    pub(crate) shape: Shape,
    is_terminal: bool,
    /// Output that is held back until all chosen columns are known to exist.
    held: Option<String>,
}

impl Output {
    pub(crate) fn new(terminal: Terminal) -> Output {
        Output::shaped(terminal, &ShapeArguments::default())
    }

    /// An output with tables of this shape.
    pub(crate) fn shaped(terminal: Terminal, arguments: &ShapeArguments) -> Output {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let colour = terminal.colour && is_terminal;
        let width = width(is_terminal);
        let shape = Shape::new(arguments, width.unwrap_or(usize::MAX), colour);
        Output {
            colour,
            width: width.unwrap_or(WIDTH),
            held: shape.chosen().map(|_| String::new()),
            shape,
            is_terminal,
            writer: BufWriter::with_capacity(1 << 16, stdout),
        }
    }

    /// Writes a text as it is, without wrapping it.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        match &mut self.held {
            Some(held) => held.push_str(text),
            None => done(self.writer.write_all(text.as_bytes()))?,
        }
        Ok(())
    }

    /// Writes a table.
    pub(crate) fn table(&mut self, table: &Table) -> Result<(), Failure> {
        let text = table.render(&self.shape);
        self.text(&text)
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.text(text)?;
        self.text("\n")
    }

    /// Begins a new screen on a terminal, else a new paragraph.
    pub(crate) fn clear(&mut self) -> Result<(), Failure> {
        self.text(if self.is_terminal { "\x1b[H\x1b[2J" } else { "\n" })
    }

    /// Writes the buffered text.
    ///
    /// # Errors
    /// Fails when a chosen column is in none of the tables; in this case nothing is written.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        if let Some(held) = &mut self.held {
            let held = std::mem::take(held);
            if let Some(unknown) = self.shape.unknown().filter(|_| !self.shape.titles().is_empty()) {
                let titles = self.shape.titles().join(", ");
                return Err(Failure::Usage(format!(
                    "no table here has a column `{unknown}`: there are {titles}"
                )));
            }
            done(self.writer.write_all(held.as_bytes()))?;
        }
        done(self.writer.flush())
    }

    /// A text in a style, such as `"1"` for bold.
    pub(crate) fn styled(&self, style: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The number of characters in a line; `None` if it is not limited.
fn width(is_terminal: bool) -> Option<usize> {
    let from_variable = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let from_terminal = || {
        let (terminal_size::Width(columns), _) = terminal_size::terminal_size()?;
        Some(usize::from(columns))
    };
    let width: usize = from_variable.or_else(|| is_terminal.then(from_terminal)?)?;
    Some(width.max(WIDTH_MIN))
}

/// Turns the error of a closed pipe (`| head`) into success, so that the command ends without a message.
fn done(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::Reported(0)),
        Err(error) => Err(Failure::run("cannot write to standard output", error)),
    }
}
