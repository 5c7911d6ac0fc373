//! Messages on standard error.

/// Prints a line on standard error by one write, because other programs may write there, too. If the terminal
/// is closed, the line is lost, and the program goes on.
macro_rules! print_stderr {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let mut line = format!($($argument)*);
        line.push('\n');
        let _ = std::io::stderr().write_all(line.as_bytes());
    }};
}
