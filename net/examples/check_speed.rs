//! Measures the time of checking ten thousand lines of nets, boxes, filters, stars and choices, as the best
//! of several runs.
//!
//!     cargo run --release -p thalweg-net --example check_speed

use std::fmt::Write as _;
use std::time::Instant;

use thalweg_net::check::check_text;

fn program(nets: usize) -> String {
    let mut text = String::new();
    for i in 0..nets {
        let _ = write!(
            text,
            "net part{i} ({{a, <n>}} -> ...) {{\n    box f{i} ((a) -> (b) | (c));\n    \
             box g{i} ((b) -> (a));\n}} connect\n    (f{i} .. (g{i} | [{{c}} -> {{a = c}}])) * {{<n>}} if <n > {i}>;\n"
        );
    }
    let used: Vec<String> = (0..nets).map(|i| format!("part{i}")).collect();
    text + "net main connect\n" + &used.join(" ..\n") + ";\n"
}

fn main() {
    let text = program(1700);
    let lines = text.lines().count();
    let mut best = f64::MAX;
    for _ in 0..15 {
        let start = Instant::now();
        let checked = check_text("main", &text, None);
        best = best.min(start.elapsed().as_secs_f64());
        assert!(checked.resolved.is_some(), "{}", checked.diagnostics[0].render(false));
    }
    #[allow(clippy::print_stdout)]
    {
        println!("{lines} lines: {:.1} ms", best * 1e3);
    }
}
