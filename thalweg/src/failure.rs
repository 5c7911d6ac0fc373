//! Failures of commands, and their exit codes.

use thalweg_host::{Error, ErrorKind, chain, exit_code};
use thalweg_net::syntax::Diagnostic;

use crate::Terminal;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// A command's failure. Each kind of failure has one exit code, so scripts can distinguish them.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad arguments or files: exit code 2. The text says what is wrong, where, and what to do.
    Usage(String),
    /// Bad arguments or files with a stable code, which has a page in docs/errors: exit code 2.
    Coded(&'static str, String),
    /// A text with errors: exit code 2. The errors are shown with excerpts of the text.
    Text(Vec<Diagnostic>),
    /// The run failed, or records failed: exit code 1.
    Run(String),
    /// The failure was printed already; only the exit code remains.
    Reported(u8),
    /// A failure of a run; its exit code follows from the kind of the error.
    Host(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Host(error)
    }
}

impl From<thalweg_scope::Error> for Failure {
    fn from(error: thalweg_scope::Error) -> Failure {
        Failure::usage(error)
    }
}

impl Failure {
    /// The exit code for bad arguments and files.
    pub(crate) const USAGE: u8 = 2;

    /// A failure with a stable code, such as E0203, and a message that says what is wrong, where, and what to
    /// do.
    pub(crate) fn coded(code: &'static str, message: String) -> Failure {
        Failure::Coded(code, message)
    }

    /// A failure by bad arguments or files, with this error's message.
    pub(crate) fn usage(error: impl Into<Source>) -> Failure {
        Error::usage_of(error).into()
    }

    /// A failure of the run in the step `doing`, with the cause `because`.
    pub(crate) fn run(doing: impl Into<String>, because: impl Into<Source>) -> Failure {
        Error::run(doing).because(because).into()
    }

    /// A failure with a stable code, such as E0203, and with its cause.
    pub(crate) fn coded_because(
        code: &'static str,
        message: impl Into<String>,
        because: impl Into<Source>,
    ) -> Failure {
        Error::coded(code, message).because(because).into()
    }

    /// The exit code of this failure.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) | Failure::Coded(..) | Failure::Text(_) => Failure::USAGE,
            Failure::Run(_) => 1,
            Failure::Reported(code) => *code,
            Failure::Host(error) => match error.kind() {
                ErrorKind::Usage => Failure::USAGE,
                ErrorKind::Run => 1,
                ErrorKind::Interrupted(signal) => exit_code(signal),
            },
        }
    }

    /// The failure as a text.
    pub(crate) fn text(&self) -> String {
        match self {
            Failure::Usage(message) | Failure::Run(message) | Failure::Coded(_, message) => message.clone(),
            Failure::Host(error) => chain(error),
            Failure::Text(_) => "a text has errors".to_owned(),
            Failure::Reported(_) => String::new(),
        }
    }

    /// Prints the failure on standard error.
    pub(crate) fn print(&self, terminal: Terminal) {
        match self {
            Failure::Usage(message) | Failure::Run(message) => print_error(None, message, terminal),
            Failure::Coded(code, message) => print_error(Some(code), message, terminal),
            Failure::Text(diagnostics) => print_diagnostics(diagnostics, terminal),
            Failure::Host(error) => match error.kind() {
                ErrorKind::Interrupted(_) => print_stderr!("interrupted"),
                _ if !error.diagnostics().is_empty() => print_diagnostics(error.diagnostics(), terminal),
                _ => print_error(error.code(), &chain(error), terminal),
            },
            Failure::Reported(_) => {}
        }
    }
}

fn print_error(code: Option<&str>, message: &str, terminal: Terminal) {
    let (on, off) = if terminal.colour { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    let code = code.map_or(String::new(), |code| format!("[{code}]"));
    print_stderr!("{on}error{code}{off}: {message}");
}

/// Prints diagnostics on standard error, each with its excerpt.
pub(crate) fn print_diagnostics(diagnostics: &[Diagnostic], terminal: Terminal) {
    for diagnostic in diagnostics {
        print_stderr!("{}", diagnostic.render(terminal.colour));
    }
}
