//! Standard output of the observing commands: buffered, as wide as the terminal, and quiet when the reader goes away.

use std::io::{self, BufWriter, IsTerminal, Write};

use crate::Terminal;
use crate::failure::Failure;

/// Width where there is no terminal to ask.
const WIDTH: usize = 110;

/// Standard output.
pub(crate) struct Output {
    writer: BufWriter<io::Stdout>,
    /// Whether to use colours: bold, dim, blue and yellow, which a colour-blind person tells apart, and never colour
    /// alone.
    pub(crate) colour: bool,
    /// Characters in a line.
    pub(crate) width: usize,
    is_terminal: bool,
}

impl Output {
    pub(crate) fn new(terminal: Terminal) -> Output {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        Output {
            colour: terminal.colour && is_terminal,
            width: width(is_terminal),
            is_terminal,
            writer: BufWriter::with_capacity(1 << 16, stdout),
        }
    }

    /// Writes a text as it is.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        done(self.writer.write_all(text.as_bytes()))
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.text(text)?;
        self.text("\n")
    }

    /// Begins a new screen; where there is none, a new paragraph.
    pub(crate) fn clear(&mut self) -> Result<(), Failure> {
        self.text(if self.is_terminal { "\x1b[H\x1b[2J" } else { "\n" })
    }

    /// Hands over what is buffered.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        done(self.writer.flush())
    }

    /// A text in a style, such as `"1"` for bold.
    pub(crate) fn styled(&self, style: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn width(is_terminal: bool) -> usize {
    let from_variable = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let from_terminal = || {
        let (terminal_size::Width(columns), _) = terminal_size::terminal_size()?;
        Some(usize::from(columns))
    };
    from_variable.or_else(|| is_terminal.then(from_terminal)?).filter(|&width| width >= 40).unwrap_or(WIDTH)
}

/// A reader that went away (`| head`) has what it wanted: the command ends, quietly and well.
fn done(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::Said(0)),
        Err(error) => Err(Failure::run("cannot write to standard output", error)),
    }
}
