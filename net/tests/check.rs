//! Tests of names and types: text → codes and places. Unused definitions have a separate test.

use thalweg_net::check::{KnownBoxes, NodeKind, check_text};
use thalweg_net::syntax::Diagnostic;

/// Checks the net `main` of a text; compares `CODE line:column` of each diagnostic, separated by `, `.
#[track_caller]
fn check(text: &str, expected: &str) {
    let checked = check_text("main", text, None);
    let shown = |d: &Diagnostic| {
        let at = d.primary.as_ref().unwrap().start();
        format!("{} {}:{}", d.code, at.line, at.column)
    };
    let told = checked.diagnostics.iter().filter(|d| !matches!(d.code, "W0605" | "W0606"));
    let found: Vec<String> = told.map(shown).collect();
    let rendered: String = checked.diagnostics.iter().map(|d| d.render(false)).collect();
    assert_eq!(found.join(", "), expected, "{text}\n{rendered}");
    assert_eq!(checked.resolved.is_some(), !checked.diagnostics.iter().any(Diagnostic::is_error));
}

/// Checks a topology, with the boxes `f: a → b`, `g: b → c`, `h: (c) → (d) | (e)` defined.
#[track_caller]
fn topology(topology: &str, expected: &str) {
    let text = format!(
        "net main {{ box f ((a) -> (b)); box g ((b) -> (c)); box h ((c) -> (d) | (e)); box k ((<t>) -> (<t>)); }} connect\n{topology};"
    );
    check(&text, expected);
}

#[test]
fn sound_programs_have_no_diagnostics() {
    topology("f .. g .. h", "");
    topology("f | g | []", "");
    topology("(f | g | []) .. (g | h | [])", "");
    topology("f * {b}", "");
    topology("k * {<t>} if <t > 3>", "");
    topology("f ! <t> .. g !! <t>:<u>", "");
    topology("[| {a}, {b} |] * {a, b}", "");
    topology("[| {a}, {b} |] .. [{a, b} -> {c = a}] .. h", "");
    topology("g .. f", "");
    topology("f .. [{b} -> {a = b}] .. f", "");
    topology("f .. [{b} -> {b}; {a = b}] .. (f | g)", "");
    topology("f \\ {a}", "");
    topology("k \\ {<t>} if <t > 0>", "");
    topology("[{<t>} -> if <t > 0> then {<t = t - 1>} else {<done>}] * {<done>}", "");
    topology("(f .. g @ 2) !@ <node>", "");
    topology("(h .. ([{d} -> {c = d}] | [{e} -> {e}])) * {e}", "");
}

#[test]
fn a_label_that_was_consumed_is_missing() {
    topology("f .. f", "E0501 2:6");
    topology("f .. [{a} -> {c = a}]", "E0502 2:6");
    topology("[{<t>} -> {<u = t>}] .. k ! <t>", "E0506 2:25");
    topology("[{a} -> {b = a}] .. [{b} -> {c = a}]", "E0507 2:30");
    topology("f * {c}", "E0501 2:1, W0602 2:1");
    // A label that the input may have besides the required ones is not reported as missing.
    topology("f * {b, c}", "");
    topology("f \\ {c}", "");
    topology("f .. [| {a}, {b} |]", "E0503 2:9");
    topology("f .. (f | [{a} -> {b = a}])", "E0504 2:7");
}

#[test]
fn doubtful_topologies_give_warnings() {
    topology("(f .. [{b} -> {a = b}]) * {done}", "W0602 2:1");
    topology("k * {<done>}", "W0602 2:1");
    topology("k \\ {<t>}", "W0602 2:1");
    check("net main ({<t>} -> ...) connect [{<t>} -> {<u>}] * {<t>} if <t > 3>, {<v>}, {<u>};", "W0602 1:70");
    topology("f .. ([] | [{b} -> {b}] | f)", "W0601 2:7, W0601 2:27");
    check(
        "net main ({a} -> ...) { box x ((a) -> (b)); box y ((a, c) -> (b)); } connect\nx | y;",
        "W0601 2:5",
    );
    check(
        "net main ({a, c} -> ...) { box x ((a) -> (b)); box y ((a, c) -> (b)); } connect\nx | y;",
        "W0601 2:1",
    );
}

#[test]
fn a_declared_signature_shields() {
    let boxes = "box f ((a) -> (b)); box g ((b, c) -> (d));";
    check(&format!("net main ({{a}} -> {{d}}) {{ {boxes} }} connect f .. g;"), "E0501 1:83");
    check(&format!("net main ({{a, c}} -> {{d}}) {{ {boxes} }} connect f .. g;"), "");
    check(&format!("net main ({{a}} -> {{d}}) {{ {boxes} }} connect f;"), "E0505 1:5");
    check(&format!("net main ({{a}} -> ...) {{ {boxes} }} connect f;"), "");
    check(
        &format!("net main {{ net in ({{a}} -> {{b}}) {{ {boxes} }} connect f; {boxes} }} connect in .. g;"),
        "",
    );
    check(
        &format!("net main {{ net in ({{a}} -> {{b}}) {{ {boxes} }} connect f; {boxes} }} connect in .. in;"),
        "E0501 1:149",
    );
    check(
        "type t = {a} | u; type u = {b}; typesig s = t -> {c}; net main (s) { box f ((a) -> (c)); box g ((b) -> (c)); } connect f | g;",
        "",
    );
}

#[test]
fn names_are_resolved_in_scopes() {
    check("net main connect f;", "E0301 1:18");
    check("box f ((a) -> (a)); net main { net inner connect f; } connect inner .. f;", "");
    check("net main { net inner { box f ((a) -> (a)); } connect f; } connect inner .. f;", "E0301 1:76");
    check("box f ((a) -> (b)); net main { box f ((a) -> (a)); } connect f .. f;", "");
    check("box f ((a) -> (b)); box f ((a) -> (b)); net main connect f;", "E0302 1:25");
    check("net main connect main;", "E0305 1:18");
    check("net a connect b; net b connect a; net main connect a;", "E0305 1:15");
    check("net a;", "E0303 1:5");
    check("net lib { box f ((a) -> (b)); }; net main connect lib;", "E0307 1:51");
    check("net main (s) connect []; type t = u; type v = v;", "E0306 1:11, E0306 1:35");
    check("type t = u; type u = t; net main (t -> ...) connect [];", "E0308 1:6");
    check(
        "box f ((a, a) -> (b, b)); net main connect [{c, c} -> {c}];",
        "E0310 1:12, E0310 1:22, W0604 1:49",
    );
}

/// A file can have a name that no net can have; then the file is to be renamed.
#[test]
fn no_net_is_to_be_called_by_a_keyword() {
    let help = |name: &str, text: &str| -> String {
        check_text(name, text, None).diagnostics.iter().map(|d| d.render(false)).collect()
    };
    for name in ["net", "if", "my-net"] {
        let rendered = help(name, "net hello connect [];");
        assert!(rendered.ends_with("= help: rename the file to `hello.snet`\n"), "{rendered}");
        let rendered = help(name, "");
        assert!(
            rendered.ends_with("= help: define a net, and give the file the name of the net\n"),
            "{rendered}"
        );
    }
    let rendered = help("nets", "net hello connect [];");
    assert!(rendered.ends_with("rename the net to `nets`, or the file to `hello.snet`\n"), "{rendered}");
}

#[test]
fn errors_of_all_kinds_come_together() {
    check(
        "net main { box f ((a) -> (b)); box f ((c) -> (d)); } connect f .. inx .. f .. f;\nnet b connect yy;",
        "E0302 1:36, E0301 1:67, E0501 1:79, E0301 2:15",
    );
}

#[test]
fn boxes_need_an_implementation_with_the_same_signature() {
    let mut known = KnownBoxes::default();
    known.add("lib", "box inc ((x) -> (x))").unwrap();
    known.add("lib", "box two ((a, b) -> (c) | (d))").unwrap();
    let codes = |text: &str| -> Vec<&'static str> {
        check_text("main", text, Some(&known)).diagnostics.iter().map(|d| d.code).collect()
    };
    assert_eq!(codes("box inc ((x) -> (x)); net main connect inc;"), [""; 0]);
    assert_eq!(codes("box inx ((x) -> (x)); net main connect inx;"), ["E0401"]);
    assert_eq!(codes("box two ((b, a) -> (c) | (d)); net main connect two;"), ["E0402"]);
    assert_eq!(codes("box two ((a, b) -> (d) | (c)); net main connect two;"), ["E0402"]);
    assert_eq!(codes("box unused ((b, a) -> (d)); net main connect [];"), ["W0606"]);
}

#[test]
fn an_initialiser_brings_nothing_but_what_it_makes_unless_records_come_to_it() {
    let codes = |topology: &str| -> Vec<&'static str> {
        let text = format!("box i (-> (x)); box f ((a, x) -> (b)); net main connect {topology};");
        check_text("main", &text, None).diagnostics.iter().map(|d| d.code).collect()
    };
    assert_eq!(codes("i .. f"), ["E0501"]);
    assert_eq!(codes("[{a} -> {a}] | (i .. f)"), ["E0501"]);
    assert_eq!(codes("[{a} -> {a}] .. i .. f"), [""; 0]);
    assert_eq!(codes("[{a} -> {c = a}] .. i .. f"), ["E0501"]);
    assert_eq!(codes("[{c} -> {a = c}] | ([] .. i .. f)"), [""; 0]);
}

#[test]
fn input_variants_are_inferred() {
    let accepts = |topology: &str| -> String {
        let text = format!(
            "net main {{ box f ((a) -> (b)); box g ((b, c) -> (c)); box h ((c) -> (d) | (e)); box i (-> (x)); }} connect {topology};"
        );
        let checked = check_text("main", &text, None);
        let resolved = checked.resolved.unwrap_or_else(|| panic!("{topology}: {:?}", checked.diagnostics));
        let variants = &resolved.net(resolved.main).body.accepts;
        let show = |v: &Vec<_>| v.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        variants.iter().map(show).collect::<Vec<_>>().join(" | ")
    };
    assert_eq!(accepts("f"), "a");
    assert_eq!(accepts("f .. g"), "a c");
    assert_eq!(accepts("f .. g .. h"), "a c");
    assert_eq!(accepts("f | g | []"), " | a | b c");
    assert_eq!(accepts("(f .. [{b} -> {a = b}]) * {<done>}"), "a | <done>");
    assert_eq!(accepts("f ! <t>:<u>"), "a <t> <u>");
    assert_eq!(accepts("i"), "");
    // The second output of `h` has no `d`, unless it is inherited.
    assert_eq!(accepts("h .. [{d} -> {}]"), "c d");
    assert_eq!(accepts("h .. [{k} -> {}]"), "c k");
    assert_eq!(accepts("[| {a}, {b} |] .. f"), "a | b");
    for (topology, variants) in [
        ("[{p} -> {p}] .. ([{q} -> {q}] | [{r} -> {r}])", "p q | p r"),
        ("[{p} -> {p}] .. ([{q} -> {q}] | [])", "p | p q"),
        ("[{p} -> {q = p}] .. ([{q} -> {q}] | [{r, s} -> {}])", "p | p r s"),
        // Since `q` is made first, the branch for `r` alone never gets a record.
        ("[{p} -> {q = p}] .. ([{q} -> {q}] | [{r} -> {}])", "p"),
        ("[{p} -> {p}] .. [{q} -> {r = q}] * {r}", "p q | p r"),
        ("[] .. (f | g) .. []", "a | b c"),
        ("([{p} -> {p}] .. ([{q} -> {q}] | [{r} -> {r}])) ! <t>", "p q <t> | p r <t>"),
        ("([{p} -> {p}] .. ([{q} -> {p = q}] | [{r} -> {r}])) \\ {p}", "p r | p q r"),
        ("[{p} -> {q = p}] * {q, r}", "p r | q r"),
        ("f \\ {d}", "a"),
        ("([{p} -> {q = p}] | [{q} -> {r = q}]) * {r}", "p | q | r"),
        ("([{<t>} -> {<t>}] * {<t>} if <t > 0>) .. [{<t>, p} -> {}]", "p <t>"),
        ("[{p, <t>} -> {q = p, <t>}] * {<t>} if <t > 0>", "<t> | p <t>"),
        ("[{p} -> {q = p, <t = 1>}] * {<t>} if <t == 1>", "p | <t> | p <t>"),
        ("[| {a}, {b} |] * {a, b}", "a b | a | b"),
        ("[| {a}, {b} |] .. g", "a c | b"),
        ("[{a} -> if <1> then {b = a} else {c = a}] .. ([{b} -> {}] | [{c} -> {}])", "a | a b"),
        ("[{a} -> if <1> then {b = a} else {c = a}] .. [{d} -> {}]", "a d"),
        ("f .. (f | [{b} -> {}])", "a"),
        ("[{a} -> ] .. g", "a"),
        // A binding tag keeps a record from branches without it, even if they match more.
        ("[] .. ([{a} -> {}] | [] ! <#k>)", "a | <#k>"),
        ("[| {c}, {} |] .. [{b} -> ] * {a} .. ([{a} -> {}] | [] ! <#k>)", " | a c | b c | a c <#k>"),
        ("[{b} -> ] * {a, d} .. ([{a, d} -> {}] | [] | [{<#k>} -> {}])", "b | a d | a d <#k>"),
        // A record with `a` and `<#k>` goes to the branch that asks for both labels, and not to `[] ! <#k>`.
        ("[] .. ([{a, b} -> {}] | [] ! <#k> | [{a, <#k>} -> {}])", "a b | <#k> | a <#k>"),
    ] {
        let mut wanted: Vec<&str> = variants.split(" | ").collect();
        let found = accepts(topology);
        let mut found: Vec<&str> = found.split(" | ").collect();
        wanted.sort();
        found.sort();
        assert_eq!(found, wanted, "{topology}");
    }
}

/// The input variants of the branches of `net`.
#[test]
fn parts_in_series_take_what_any_branch_behind_takes() {
    check(
        "net main ({A, C} -> ...) connect [] | ([{A} -> {A}] .. ([{B} -> {B, <b = 1>}] | [{C} -> {C, <c = 1>}]));",
        "W0601 1:34, W0601 1:57",
    );
    check(
        "net main ({<x>, <a>, <b>} -> {<x>, <a>, <b>, <stop>}) connect\n([{<x>} -> {<x>}] .. [{<a>, <b>} -> {<a>, <b>, <stop>}] * {<stop>}) | [{<y>} -> {<y>}];",
        "W0601 2:71",
    );
}

#[test]
fn what_nobody_uses_is_told() {
    let codes = |text: &str| -> Vec<String> {
        let checked = check_text("main", text, None);
        let shown = |d: &Diagnostic| format!("{} {}", d.code, d.primary.as_ref().unwrap().start().column);
        checked.diagnostics.iter().map(shown).collect()
    };
    assert_eq!(codes("box f ((a) -> (b)); net n connect []; net main connect [];"), ["W0606 5", "W0605 25"]);
    assert_eq!(codes("type t = {a}; type u = t; net main (u -> ...) connect [];"), [""; 0]);
    assert_eq!(codes("type t = {a}; typesig s = t -> t; net main connect [];"), ["W0605 23"]);
    assert_eq!(codes("net main { box f ((a) -> (b)); net n connect f; } connect [];"), ["W0605 36"]);
    assert_eq!(codes("box f ((a) -> (b)); net main { box f ((a) -> (b)); } connect f;"), ["W0606 5"]);
    assert_eq!(codes("box f ((a) -> (b)); net main connect g;"), ["E0301 38"]);
}

#[test]
fn nets_come_after_those_they_use_and_names_are_unique() {
    let text =
        "net main { box f ((a) -> (a)); net x connect f .. f; net y connect x .. f; } connect y .. x .. [];";
    let resolved = check_text("main", text, None).resolved.unwrap();
    let names: Vec<&str> = resolved.nets.iter().map(|n| &*n.name).collect();
    assert_eq!(names, ["x", "y", "main"]);
    assert_eq!(resolved.boxes.len(), 1);
    let NodeKind::Serial(parts) = &resolved.nets[0].body.kind else { panic!() };
    assert_eq!(parts.iter().map(|p| &*p.name).collect::<Vec<_>>(), ["f", "f#2"]);
}

/// A text with thousands of errors: a limited number is reported, and quickly.
#[test]
fn very_many_errors_are_counted() {
    let boxes: String = (0..3000).map(|i| format!("box box{i}x ((a) -> (a));\n")).collect();
    let used: Vec<String> = (0..3000).map(|i| format!("bax{i}y")).collect();
    let text = format!("{boxes} net main connect {};", used.join(" | "));
    let checked = check_text("main", &text, None);
    assert_eq!(checked.diagnostics.len(), 100);
    assert!(checked.diagnostics.iter().any(|d| d.remarks.iter().any(|r| r.starts_with("2900 more"))));
    let types: String = (0..3000).map(|i| format!("type t{i} = u{i};")).collect();
    assert_eq!(check_text("main", &format!("{types} net main connect [];"), None).diagnostics.len(), 100);
}
