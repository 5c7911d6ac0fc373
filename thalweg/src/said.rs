//! What the program says on standard error.

/// Says a line on standard error. Where nobody can read it any more (the terminal is gone) it is lost, and the program goes on.
macro_rules! say {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($argument)*);
    }};
}
