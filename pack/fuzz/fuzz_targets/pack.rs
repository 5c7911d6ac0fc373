//! Reads any text as a pack and as an expression. The text must either be rejected, with problems at places
//! within the text, or be accepted and evaluated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_pack::{Call, Expression, Pack, Problem, Schema, Values};

struct Row;

impl Values for Row {
    fn number(&self, field: usize) -> f64 {
        [1.5, 0.25, f64::NAN, 1.0].get(field).copied().unwrap_or(f64::NAN)
    }

    fn text(&self, field: usize) -> Option<&str> {
        (field == 4).then_some("des/star/round")
    }
}

fuzz_target!(|text: &str| {
    let mut schema = Schema::default();
    for (name, unit) in [("a", "share"), ("wait", "us"), ("gone", "B"), ("rate", "messages/s")] {
        schema.number(name, unit).expect("declared once");
    }
    schema.text("component").expect("declared once");
    match Expression::read(text, &schema) {
        Ok(expression) => drop(expression.number(&Row)),
        Err(problems) => look(text, &problems),
    }
    match Call::read(text) {
        Ok(call) => assert_eq!(Call::read(&call.to_string()), Ok(call)),
        Err(problem) => look(text, &[problem]),
    }
    match Pack::read(text, &schema) {
        Ok(pack) => drop(pack.due(&pack.measured(&Row))),
        Err(problems) => look(text, &problems),
    }
});

fn look(text: &str, problems: &[Problem]) {
    assert!(!problems.is_empty());
    for problem in problems {
        assert!(problem.span.start <= text.len());
        problem.render("text", text);
    }
}
