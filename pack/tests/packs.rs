//! Tests of packs: a complete one, ones with mistakes, and damaged ones.

use proptest::prelude::*;
use thalweg_pack::{By, Call, Change, Pack, Schema, Values, When};

const NARROW: &str = r#"
format = 1
name = "narrow-streams"
about = "Streams that hold few messages make their ends wake each other too often."
area = "network"

[[measure]]
name = "turns"
is = "min(stream.full_share, stream.empty_share)"
unit = "share"

[[measure]]
name = "wanted"
is = "max(64, 4 * stream.capacity)"

[[condition]]
name = "narrow"
when = "turns > 10 % and stream.capacity <= 16"
says = "Both ends of the stream wait in turn."

[[model]]
name = "period"
is = "stream.service / (1 - turns)"
unit = "us"

[[point]]
setting = "exec.capacity"
min = 1
max = 100

[[action]]
on = "narrow"
set = "exec.capacity"
to = "wanted * 10"
unless = "memory > 1 GB"
gain = "period"

[[action]]
on = "narrow"
command = ["move", "task 1", "worker 2"]
inverse = ["move", "task 1", "worker 1"]
"#;

fn schema() -> Schema {
    let mut schema = Schema::default();
    for (name, unit) in [
        ("stream.full_share", "share"),
        ("stream.empty_share", "share"),
        ("stream.capacity", "messages"),
        ("stream.service", "ns"),
        ("memory", "MB"),
    ] {
        schema.number(name, unit).unwrap();
    }
    schema
}

struct Row([f64; 5]);

impl Values for Row {
    fn number(&self, field: usize) -> f64 {
        self.0[field]
    }
}

#[test]
fn a_pack_describes_what_is_to_be_done() {
    let pack = Pack::read(NARROW, &schema()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(
        (pack.name.as_str(), pack.area.as_str(), pack.measures.len()),
        ("narrow-streams", "network", 2)
    );
    let due = |row: Row| {
        let measured = pack.measured(&row);
        pack.due(&measured).into_iter().map(|(_, value)| value).collect::<Vec<_>>()
    };
    // The setting's expression gives 64 · 10, which is clamped to the point's limit 100; the command has no
    // value.
    assert_eq!(due(Row([0.3, 0.2, 8.0, 500.0, 10.0])), [Some(100.0), None]);
    assert_eq!(due(Row([0.3, 0.2, 8.0, 500.0, 2000.0])), [None], "memory keeps the setting as it is");
    assert_eq!(due(Row([0.3, 0.05, 8.0, 500.0, 10.0])), []);
    assert_eq!(due(Row([f64::NAN, 0.2, 8.0, 500.0, 10.0])), [], "what is not known is no reason to act");
    let row = Row([0.5, 0.5, 8.0, 500.0, 10.0]);
    assert_eq!(pack.models[pack.actions[0].gain.unwrap()].is.number(&pack.measured(&row)), 1000.0);
    assert!(matches!(&pack.actions[1].change, Change::Command { inverse, .. } if inverse[2] == "worker 1"));
}

#[test]
fn probes_of_a_library_are_fields() {
    let text = r#"
format = 1
name = "mpi"
about = "Point to point messages of MPI."
area = "mpi"

[identity]
library = "libmpi.so*"
symbols = ["MPI_Send"]

[[probe]]
name = "send"
function = "MPI_Send"
at = "exit"
fields = { count = "messages", took = "us", peer = "text" }

[[measure]]
name = "slow"
is = "send.took / max(send.count, 1)"
unit = "us"

[[condition]]
name = "late"
when = "slow > 1 ms and send.peer like \"node*\""
says = "Sends wait for the receiver."
"#;
    let pack = Pack::read(text, &Schema::default()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(pack.probes[0].at, When::Exit);
    assert!(pack.identity.unwrap().library.matches("libmpi.so.40"));
    let fields: Vec<usize> = pack.probes[0].fields.iter().map(|(_, number)| *number).collect();
    assert_eq!(fields.len(), 3);
}

/// The examples in `docs/packs.md` are valid packs.
#[test]
fn the_examples_of_the_page_are_packs() {
    let page = include_str!("../../docs/packs.md");
    let examples: Vec<&str> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        let pack = Pack::read(example, &schema());
        assert!(
            pack.is_ok(),
            "{}",
            pack.unwrap_err().iter().map(|p| p.render("packs.md", example)).collect::<String>()
        );
    }
}

/// Checks that the pack with this change is rejected for this reason at this line.
fn wrong(from: &str, to: &str, reason: &str, line: usize) {
    assert!(NARROW.contains(from), "{from}");
    let text = NARROW.replacen(from, to, 1);
    let problems = Pack::read(&text, &schema()).expect_err(to);
    let found: Vec<String> = problems.iter().map(|p| format!("{} {}", p.place(&text).0, p)).collect();
    assert!(
        found.iter().any(|found| found.contains(reason) && found.starts_with(&format!("{line} "))),
        "{to}: {found:#?}"
    );
}

#[test]
fn mistakes_are_named_with_their_line() {
    wrong("format = 1", "format = 2", "this is format 2; format 1 is known", 1);
    wrong("area = \"network\"", "aera = \"network\"", "a pack needs `area`", 1);
    wrong("area = \"network\"", "aera = \"network\"", "did you mean `area`?", 5);
    wrong("unit = \"share\"", "unit = \"ms\"", "the expression is a plain number, and `ms` is a time", 10);
    wrong("unit = \"us\"", "unit = \"usec\"", "there is no unit `usec`", 24);
    wrong("turns > 10 %", "turn > 10 %", "did you mean `turns`?", 18);
    wrong("stream.capacity <= 16", "stream.capacity", "a number where true or false", 18);
    wrong("name = \"wanted\"", "name = \"turns\"", "`turns` is declared twice", 13);
    wrong("on = \"narrow\"", "on = \"narow\"", "did you mean `narrow`?", 32);
    wrong("set = \"exec.capacity\"", "set = \"exec.quantum\"", "there is no point `exec.quantum`", 33);
    wrong("gain = \"period\"", "gain = \"rate\"", "there is no model `rate`", 36);
    wrong("min = 1", "min = 1000", "no value lies between 1000 and 100", 26);
    wrong("inverse = [", "# ", "needs `inverse`", 38);
    wrong("min = 1", "min = \"1\"", "`min` has to be a number", 28);
    wrong("name = \"period\"", "name = \"period", "", 22);
    // The place within the expression is exact, also after escapes.
    let text = NARROW.replace("stream.full_share, ", "stream.fall_share, ");
    let problem = &Pack::read(&text, &schema()).unwrap_err()[0];
    assert_eq!(&text[problem.span.clone()], "stream.fall_share");
    assert!(
        problem.render("narrow.toml", &text).contains("--> narrow.toml:9:11"),
        "{}",
        problem.render("narrow.toml", &text)
    );
}

/// Values in which every field has the same number.
struct Always(f64);

impl Values for Always {
    fn number(&self, _field: usize) -> f64 {
        self.0
    }
}

const LIBRARY: &str = r#"format = 1
name = "pvm"
about = "Fragments."
area = "library"
progress = "send.rate"

[identity]
library = "libpvm3.so*"
version = "3.4*"
symbols = ["pvm_send"]

[[probe]]
name = "send"
function = "pvm_psend"
at = "entry"
keeps = { length = "argument 3 in B", took = "time" }

[[reading]]
name = "hosts"
get = ["pvm_config(&hosts, 0, 0)"]
value = "hosts"
at = ["pvm_send"]

[[point]]
setting = "fragment"
unit = "B"
set = ["pvm_setopt(10, $)"]
get = ["pvm_getopt(10)"]
at = ["pvm_send"]
default = 4080

[[point]]
setting = "encoding"
argument = "pvm_initsend:0"

[[condition]]
name = "large"
when = "send.length.p99 > fragment and send.took.mean > 1 us and hosts < 2"
says = "Messages are large."

[[action]]
on = "large"
set = "fragment"
to = "send.length.p99 / 1 B"
forbidden_by = ["large"]
keep = "unless worse"
follows = true
"#;

#[test]
fn a_pack_describes_how_a_library_is_set() {
    let pack = Pack::read(LIBRARY, &Schema::default()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(pack.names[..3], ["send.length.mean", "send.length.deviation", "send.length.least"]);
    assert_eq!(pack.names[pack.probes[0].calls], "send.calls");
    let [fragment, encoding] = &pack.points[..] else { panic!("two points") };
    let By::Calls { set, get, .. } = &fragment.lever.as_ref().expect("a lever").by else { panic!("calls") };
    assert_eq!((set[0].to_string(), get.at[0].as_str()), ("pvm_setopt(10, $)".to_owned(), "pvm_send"));
    let by = &encoding.lever.as_ref().expect("a lever").by;
    assert_eq!(*by, By::Argument { function: "pvm_initsend".to_owned(), number: 0 });
    let action = &pack.actions[0];
    assert!(action.is_trusted && action.follows && action.forbidden == [0]);
}

#[test]
fn mistakes_about_libraries_are_named_with_their_line() {
    let wrong = |from: &str, to: &str, reason: &str, line: usize| {
        assert!(LIBRARY.contains(from), "{from}");
        let text = LIBRARY.replacen(from, to, 1);
        let problems = Pack::read(&text, &Schema::default()).expect_err(to);
        let found: Vec<String> = problems.iter().map(|p| format!("{} {}", p.place(&text).0, p)).collect();
        let is_named = |found: &String| found.contains(reason) && found.starts_with(&format!("{line} "));
        assert!(found.iter().any(is_named), "{to}: {found:#?}");
    };
    wrong("send.rate", "send.rat", "did you mean `send.rate`?", 5);
    wrong("version", "versio", "did you mean `version`?", 9);
    wrong("argument 3 in B", "argument 7", "only 0 to 5 can be kept", 16);
    wrong("argument 3 in B", "argument 3 in bits", "there is no unit `bits`", 16);
    wrong("value = \"hosts\"", "value = \"host\"", "did you mean `hosts`?", 21);
    wrong("pvm_setopt(10, $)", "pvm_setopt(10)", "no call of `set` has `$`", 24);
    wrong("pvm_setopt(10, $)", "pvm_setopt(10; $)", "`10; $` is no argument", 27);
    wrong("pvm_initsend:0", "pvm_initsend", "written FUNCTION:NUMBER", 34);
    wrong("[\"large\"]", "[\"larg\"]", "did you mean `large`?", 45);
    wrong("unless worse", "always", "`keep` is `surely better` or `unless worse`", 46);
    wrong("follows = true", "follows = 1", "`follows` has to be true or false", 47);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn damaged_packs_about_libraries_are_refused_or_understood(
        at in 0..LIBRARY.len(), gone in 0usize..30, new in "[a-z\\[\\]\"=\n $&*(),'ö0-9.]{0,12}"
    ) {
        let end = (at + gone).min(LIBRARY.len());
        let text = format!("{}{new}{}", &LIBRARY[..at], &LIBRARY[end..]);
        match Pack::read(&text, &Schema::default()) {
            Ok(pack) => {
                pack.due(&pack.measured(&Always(3.0)));
            }
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                for problem in problems {
                    prop_assert!(!problem.render("pack.toml", &text).is_empty());
                }
            }
        }
    }

    #[test]
    fn any_call_is_refused_or_written_again(text in "[a-z]{0,3}[($&*')]{0,2}[a-z0-9$&*', ()-]{0,12}[)]{0,1}") {
        match Call::read(&text) {
            Ok(call) => prop_assert_eq!(Call::read(&call.to_string()), Ok(call)),
            Err(problem) => prop_assert!(problem.span.end <= text.len()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// A damaged pack is either rejected or accepted, without a panic.
    #[test]
    fn damaged_packs_are_refused_or_understood(at in 0..NARROW.len(), gone in 0usize..30, new in "[a-z\\[\\]\"=\n ö0-9.]{0,12}") {
        let end = (at + gone).min(NARROW.len());
        let text = format!("{}{new}{}", &NARROW[..at], &NARROW[end..]);
        match Pack::read(&text, &schema()) {
            Ok(pack) => {
                let row = Row([0.3, 0.2, 8.0, 500.0, 10.0]);
                let measured = pack.measured(&row);
                pack.due(&measured);
            }
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                for problem in problems {
                    prop_assert!(!problem.render("pack.toml", &text).is_empty());
                }
            }
        }
    }
}
