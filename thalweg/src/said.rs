//! What the program says on standard error.

/// Says a line on standard error, in one piece: other programs may write there, too. If the terminal is gone, the
/// line is lost, and the program goes on.
macro_rules! say {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let mut line = format!($($argument)*);
        line.push('\n');
        let _ = std::io::stderr().write_all(line.as_bytes());
    }};
}
