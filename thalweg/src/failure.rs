//! Why a command did not succeed, and the exit code for it.

use thalweg_net::syntax::Diagnostic;

use crate::Terminal;

/// A command's failure. Each kind has one exit code, so scripts can tell them apart.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad arguments or files: exit code 2. What, where, what to do.
    Usage(String),
    /// The same with a stable code, which has a page in docs/errors: exit code 2.
    Coded(&'static str, String),
    /// A text with errors: exit code 2. Shown with excerpts.
    Text(Vec<Diagnostic>),
    /// The run failed, or records failed: exit code 1.
    Run(String),
    /// Everything was said already; only the exit code is left.
    Said(u8),
    /// Interrupted by a signal: its exit code.
    Interrupted(u8),
}

impl Failure {
    /// Exit code for bad arguments and files.
    pub(crate) const USAGE: u8 = 2;

    /// A failure with its code: what, where, what to do.
    pub(crate) fn coded(code: &'static str, message: String) -> Failure {
        Failure::Coded(code, message)
    }

    /// The exit code of this failure.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) | Failure::Coded(..) | Failure::Text(_) => Failure::USAGE,
            Failure::Run(_) => 1,
            Failure::Said(code) | Failure::Interrupted(code) => *code,
        }
    }

    /// Says it on standard error.
    pub(crate) fn print(&self, terminal: Terminal) {
        match self {
            Failure::Usage(message) | Failure::Run(message) => {
                let word = if terminal.colour { "\x1b[1;31merror\x1b[0m" } else { "error" };
                say!("{word}: {message}");
            }
            Failure::Coded(code, message) => {
                let (on, off) = if terminal.colour { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
                say!("{on}error[{code}]{off}: {message}");
            }
            Failure::Text(diagnostics) => print_diagnostics(diagnostics, terminal),
            Failure::Interrupted(_) => say!("interrupted"),
            Failure::Said(_) => {}
        }
    }
}

/// Prints diagnostics on standard error, each with its excerpt.
pub(crate) fn print_diagnostics(diagnostics: &[Diagnostic], terminal: Terminal) {
    for diagnostic in diagnostics {
        say!("{}", diagnostic.render(terminal.colour));
    }
}
