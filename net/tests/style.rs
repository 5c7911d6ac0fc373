//! Programs in the style in which people write S-Net: each one must check without an error, laid out or not.

use std::path::Path;

use thalweg_net::check::{Files, analyse};
use thalweg_net::syntax::{Source, format};

/// Checks the net `main` of a text, and again after laying it out; `others` are files beside it.
#[track_caller]
fn check_with(text: &str, others: &[(&str, &str)], expected: &[&str]) {
    let laid_out = format(&Source::new("main.snet", text)).unwrap_or_default();
    for text in [text, laid_out.as_str()] {
        let mut files = Files::default();
        files.give(Path::new("main.snet"), text);
        others.iter().for_each(|(name, text)| files.give(Path::new(name), *text));
        let analysis = analyse(Path::new("main.snet"), &files, None);
        let rendered: String = analysis.diagnostics.iter().map(|d| d.render(false)).collect();
        let codes: Vec<&str> = analysis.diagnostics.iter().map(|d| d.code).collect();
        assert_eq!(codes, expected, "{text}\n{rendered}");
        assert!(analysis.resolved.is_some());
    }
}

#[track_caller]
fn check(text: &str) {
    check_with(text, &[], &[]);
}

#[test]
fn a_first_line_metadata_and_boxes_with_code() {
    check(
        "//! snet 2.0\n<metadata>\n  <interface name=\"C4SNet\"/>\n  <note>a > b; { </note>\n</metadata>\nnet main connect []",
    );
    check(
        "net main {
            box foo ((A, B) -> (C)) { <<< C4SNet | void *foo(void *h, void *a) { return a->x >> 2; } >>> }
            box bar((C)->(D)|(E,<ok>)) {
                <metadata> <box name=\"bar\"/> </metadata>
                <<<C|int x = 1;>>>
            };
            box done ((D) -> );
        } connect foo .. bar .. (done | [{E, <ok>} -> {E}])",
    );
}

#[test]
fn recursion_by_stars_and_counters() {
    check(
        "net main ({n} -> {r})
        {
          box leq1 ((n) -> (n, p));
          box cond ((p) -> (<T>) | (<F>));
          box mult ((n, r) -> (n, r));
          box sub  ((n) -> (n));
        }
        connect
          [{n} -> {n, r = n, <fresh>}] .. [{<fresh>} -> {}]
          .. ( leq1 .. cond .. ( [{<T>, r} -> {r, <stop>}] | [{<F>, n, r} -> {n, r}] .. mult .. sub ) ) * {<stop>} .. [{<stop>} -> {}];",
    );
    check("net main connect [{<n>} -> if <n > 0> then {<n = n - 1>} else {<done>}] * {<done>}");
    check(
        "net main { box step ((x, <i>) -> (x, <i>)); } connect [{} -> {<i=0>}] .. step * {<i>} if <i >= 0x10 || i == 010>",
    );
}

#[test]
fn guards_with_comparisons_inside_angle_brackets() {
    check("net main { box f ((<t>) -> (<t>)); } connect f * {<t>} if <t>3>, {<t>} if <(t>1)&&t<-5>");
    check("net main { box f ((<t>) -> (<t>)); } connect (f * {<t>} if <t > max(1, abs(-t))>) ! <t>");
    check("net main { box f ((a, <t>) -> (a, <t>)); } connect f \\ {<t>} if <t % 2 == 0 ? 1 : !t>");
    check(
        "net main connect [{a, <t>} -> if <t>0> then {a, <t>}; {<u = t * 2>} else if <t == 0> then else {a}]",
    );
}

#[test]
fn types_and_signatures_with_names() {
    check(
        "type point = {x, y};
         type shape = point | {<circle>, r};
         typesig move = shape -> point, {} -> ...;
         net main (move) connect [] | [{x, y} -> {x, y}] | [{<circle>, r} -> {x = r, y = r}]",
    );
    check(
        "net main ({a, b, <t>} | {c} -> {d}, -> ...) { box f ((a, b, <t>) -> (d)); box g ((c) -> (d)); box i (-> (d)); } connect f | g | i",
    );
    check("net main ({a} ->) { box sink ((a) ->); } connect sink");
}

#[test]
fn nets_in_nets_and_in_other_files() {
    check(
        "net main
        {
          net solve {
            box try ((board) -> (board, <k>) | (board, <done>));
            net one ({board, <k>} -> {board, <k>} | {board, <done>}) connect try;
          }
          connect (one !! <k>) ** {<done>};
        }
        connect [{board} -> {board, <k = 0>}] .. solve .. [{<done>} -> {}]",
    );
    let other = "net help { box own ((q) -> (q)); } connect own";
    check_with(
        "net main { net help; net help2 ({q} -> {q}) connect help; } connect help .. help2 .. help",
        &[("help.snet", other)],
        &[],
    );
    check_with(
        "net main connect help .. far;",
        &[("help.snet", other), ("far.snet", "net far connect help .. help;")],
        &[],
    );
}

#[test]
fn synchrocells_placement_and_ranges() {
    check("net main ({a} | {b} -> {a, b}) connect [| {a}, {b} |] * {a, b}");
    check("net main connect ([|{a, <i>}, {b, <i>} if <i > 0>|] * {a, b, <i>}) ! <i>");
    check(
        "net main { box f ((chunk, <node>) -> (chunk)); } connect f !@ <node> .. [{chunk} -> {<node = 1>, <hi = 4>, chunk}] .. (f @ 2 !!@ <node>:<hi>)",
    );
    check("net main { box f ((<#key>, a) -> (b)); box g ((a) -> (b)); } connect f | g | []");
    check("net main { box f ((a) -> (b)); } connect ((f || []) | [{<x>} -> {}]) !! <t>:<u>");
}

#[test]
fn initialisers_and_filters_that_make_many_records() {
    check("net main { box start (-> (x, <n>)); box use ((x, <n>) -> (y)); } connect start .. use");
    check("net main connect [{a, b} -> {a}; {b}; {c = a, <first>}; {}] .. [{} ->]");
    check("net main connect [{a, <t>} -> {z = a, a, <t>, <u = t + 0x1f>, <#v = min(t, 017)>}]");
}

#[test]
fn nothing_more_than_it_needs() {
    check("net main connect []");
    check("net main{}connect[];");
    check("net main { /* no box */ } connect // one\n[] /* two */ .. [] ;");
    check(
        "<metadata></metadata> net main { <metadata>m</metadata> box f(()->()); } connect f; <metadata>end</metadata>",
    );
}
