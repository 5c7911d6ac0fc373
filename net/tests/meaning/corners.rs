//! Corner cases by name: networks, records in, records out.

use thalweg_chance::Chance;

use crate::boxes::DECLARATIONS;
use crate::generator::Case;
use crate::runs::{Verdict, shown_run, try_case};

/// Runs a network with all options, and compares the output with `output` (in this order, if `ordered`), and
/// the failures with `failed`; the interpreter has to agree.
#[track_caller]
fn check_with(ordered: bool, net: &str, input: &[&str], output: &[&str], failed: &[&str]) {
    let boxes: String = DECLARATIONS.iter().map(|declaration| format!("{declaration};\n")).collect();
    let text = if net.contains("connect") { net.to_owned() } else { format!("net main connect {net};") };
    let case = Case {
        net: format!("{boxes}{text}"),
        records: input.iter().map(|record| (*record).to_owned()).collect(),
    };
    for options in 0..4 {
        let (mut found, mut reasons) = shown_run(&case, options);
        let mut wanted: Vec<String> = output.iter().map(|record| crate::runs::normal(record)).collect();
        if !ordered {
            found.sort();
            wanted.sort();
        }
        reasons.sort();
        assert_eq!(found, wanted, "{net}, options {options}");
        assert_eq!(reasons.len(), failed.len(), "{net}: {reasons:?}");
        for (reason, wanted) in reasons.iter().zip(failed) {
            assert!(reason.contains(wanted), "{net}: {reason}");
        }
        let verdict = try_case(&case, options);
        assert!(matches!(verdict, Verdict::Right), "{net}: {verdict:?}");
    }
}

#[track_caller]
fn check(net: &str, input: &[&str], output: &[&str]) {
    check_with(false, net, input, output, &[]);
}

#[track_caller]
fn check_in_order(net: &str, input: &[&str], output: &[&str]) {
    check_with(true, net, input, output, &[]);
}

#[test]
fn a_record_leaves_a_star_before_the_first_replica() {
    for star in ["*", "**"] {
        check_in_order(&format!("inc {star} {{c}}"), &[r#"{"a": 1, "c": 2}"#], &[r#"{"a": 1, "c": 2}"#]);
    }
}

#[test]
fn a_tie_goes_to_the_leftmost_branch() {
    check("(turn | turn) || turn", &[r#"{"a": 1}"#], &[r#"{"b": 1}"#]);
    let input = [r#"{"a": 1, "b": 1}"#; 40];
    for (net, k) in [
        ("[{a} -> {<k = 1>}] | [{a} -> {<k = 2>}]", 1),
        ("[{a} -> {<k = 1>}] || [{b} -> {<k = 2>}]", 1),
        ("[] | ([{b} -> {<k = 1>}] || [{a} -> {<k = 2>}]) | [{a} -> {<k = 3>}]", 1),
        ("[{c} -> {<k = 1>}] | ([{a} -> {<k = 2>}] | [{b} -> {<k = 3>}]) ** {<k>}", 2),
    ] {
        let wanted = |label: &str| format!(r#"{{"{label}": 1, "<k>": {k}}}"#);
        let wanted = wanted(if net.contains("{b} -> {<k = 1>}") { "a" } else { "b" });
        check(net, &input, &[wanted.as_str(); 40]);
    }
}

#[test]
fn a_branch_takes_what_any_way_through_it_takes() {
    let net = "[] | ([{a} -> {a}] .. ([{b} -> {b, <n = 1>}] | [{c} -> {c, <k = 1>}]))";
    check(
        net,
        &[r#"{"a": 1, "b": 2}"#, r#"{"a": 1, "c": 3}"#, r#"{"a": 4}"#],
        &[r#"{"a": 1, "b": 2, "<n>": 1}"#, r#"{"a": 1, "c": 3, "<k>": 1}"#, r#"{"a": 4}"#],
    );
    check(
        "([{<x>} -> {<x>}] .. [{<a>, <b>} -> {<a>, <b>, <stop>}] * {<stop>}) | [{<y>} -> {<y>}]",
        &[r#"{"<x>": 1, "<a>": 2, "<b>": 3}"#, r#"{"<x>": 1, "<stop>": 2}"#, r#"{"<y>": 1}"#],
        &[r#"{"<x>": 1, "<a>": 2, "<b>": 3, "<stop>": 0}"#, r#"{"<x>": 1, "<stop>": 2}"#, r#"{"<y>": 1}"#],
    );
    check(
        "[] | (([{a} -> {a}] .. ([{b} -> {b}] | [{c} -> {c}])) ! <n>) .. [{} -> {<k = 1>}]",
        &[r#"{"a": 1, "c": 3, "<n>": 1}"#],
        &[r#"{"a": 1, "c": 3, "<n>": 1, "<k>": 1}"#],
    );
    check(
        "[] | ((([{<x>} -> {<n = x>}] | [{<n>} -> {<n = n - 1>}]) .. ([{b} -> {b}] | [{c} -> {c}])) \\ {<n>} if <n > 0>)",
        &[r#"{"<x>": 2, "c": 3}"#],
        &[r#"{"<n>": 0, "c": 3}"#],
    );
}

#[test]
fn by_demand_a_tie_goes_where_there_is_room() {
    let records = vec![r#"{"a": 1}"#.to_owned(); 40];
    for operator in ["|", "||"] {
        let net = format!("[{{a}} -> {{<k = 1>}}] {operator} [{{a}} -> {{<k = 2>}}]");
        for (options, branches) in [(0, 1), (2, 1), (4, 2)] {
            let (mut found, failed) = run_alone(&net, records.clone(), options);
            assert_eq!((found.len(), failed.len()), (40, 0));
            found.sort();
            found.dedup();
            assert_eq!(found.len(), branches, "{net}, options {options}");
        }
    }
}

#[test]
fn a_record_without_a_match_fails_alone() {
    for parallel in ["|", "||"] {
        let net = format!("inc {parallel} none");
        let input = [r#"{"c": 1}"#, r#"{"a": 1}"#, r#"{"c": 2}"#];
        check_with(false, &net, &input, &[r#"{"a": 2}"#], &["no branch takes", "no branch takes"]);
    }
}

#[test]
fn what_is_consumed_is_not_inherited_unless_it_is_made_again() {
    check("turn", &[r#"{"a": 1, "b": 7, "c": 3}"#], &[r#"{"b": 1, "c": 3}"#]);
    check("[{a, b} -> {b = a}]", &[r#"{"a": 1, "b": 7, "c": 3}"#], &[r#"{"b": 1, "c": 3}"#]);
}

#[test]
fn a_cell_joins_once_and_is_then_the_identity() {
    check_in_order(
        "[| {a}, {b} |]",
        &[r#"{"c": 0}"#, r#"{"a": 1, "c": 1}"#, r#"{"a": 2}"#, r#"{"b": 3, "c": 9}"#, r#"{"b": 4}"#],
        &[r#"{"c": 0}"#, r#"{"a": 2}"#, r#"{"a": 1, "b": 3, "c": 1}"#, r#"{"b": 4}"#],
    );
}

#[test]
fn one_record_may_fill_a_cell_alone() {
    check_in_order(
        "[| {a}, {b} |]",
        &[r#"{"a": 1, "b": 2}"#, r#"{"a": 3}"#],
        &[r#"{"a": 1, "b": 2}"#, r#"{"a": 3}"#],
    );
}

#[test]
fn a_cell_filled_in_part_is_reported_at_the_end() {
    let input = [r#"{"a": 1}"#, r#"{"a": 2}"#];
    check_with(true, "[| {a}, {b}, {c} |]", &input, &[r#"{"a": 2}"#], &["waits for {b} and {c}"]);
    for star in ["*", "**"] {
        let net = format!("[| {{a}}, {{b}} |] {star} {{a, b}}");
        check_with(true, &net, &input, &[], &["waits for {b}", "waits for {b}"]);
    }
}

#[test]
fn a_star_of_cells_pairs_again_and_again() {
    for star in ["*", "**"] {
        check(
            &format!("[| {{a}}, {{b}} |] {star} {{a, b}}"),
            &[r#"{"a": 1}"#, r#"{"a": 2}"#, r#"{"b": 3}"#, r#"{"a": 4}"#, r#"{"b": 5}"#, r#"{"b": 6}"#],
            &[r#"{"a": 1, "b": 3}"#, r#"{"a": 2, "b": 5}"#, r#"{"a": 4, "b": 6}"#],
        );
    }
}

/// Records of two shapes that mostly take turns: the star joins those that do without putting them into a cell.
fn turns(chance: &mut Chance, count: u64, others: u64) -> Vec<String> {
    let mut is_first = true;
    let record = |n: u64| {
        is_first = if chance.below(8) == 0 { is_first } else { !is_first };
        let label = if is_first { "a" } else { "b" };
        match chance.below(12) {
            0 if others > 1 => format!(r#"{{"a": {n}, "b": {n}}}"#),
            1 if others > 0 => format!(r#"{{"c": {n}, "{label}": {n}, "<t>": {}}}"#, n % 7),
            _ => format!(r#"{{"{label}": {n}, "<t>": {}}}"#, n % 7),
        }
    };
    (0..count).map(record).collect()
}

#[test]
fn a_star_of_cells_pairs_records_as_the_interpreter_does() {
    for net in [
        "[| {a}, {b} |] ** {a, b}",
        "[| {b}, {a} |] ** {a, b}",
        "([| {a}, {b} |] ** {a, b}) .. [{a} -> {a}]",
        "[| {a}, {b} |] ** {a, b}, {c}",
        "[| {a}, {b}, {c} |] ** {a, b, c}",
    ] {
        let mut right = 0;
        for seed in 0..20 {
            let records = turns(&mut Chance::new(seed), 12, seed % 3);
            let case = Case { net: format!("net main connect {net};"), records };
            for options in 0..4 {
                let verdict = try_case(&case, options);
                assert!(!verdict.is_wrong(), "{net}, options {options}: {verdict:?}\n{case}");
                right += u32::from(matches!(verdict, Verdict::Right));
            }
        }
        assert!(right >= 40, "{net}: only {right} of 80 cases were compared");
    }
}

#[test]
fn a_star_of_cells_pairs_many_records_in_the_order_in_which_they_complete_a_cell() {
    for seed in 0..20 {
        let records = turns(&mut Chance::new(seed), 500, 1);
        let (mut firsts, mut seconds): (Vec<_>, Vec<_>) =
            records.iter().enumerate().partition(|(_, record)| record.contains("\"a\""));
        let pairs = firsts.len().min(seconds.len());
        let held = firsts.len().max(seconds.len()) - pairs;
        firsts.truncate(pairs);
        seconds.truncate(pairs);
        let mut pairs: Vec<_> = firsts.iter().zip(&seconds).collect();
        pairs.sort_by_key(|(first, second)| first.0.max(second.0));
        // A joined record has all labels of the record with `a`, and `b` of the other.
        let joined = |(first, second): &(&(usize, &String), &(usize, &String))| {
            let record = first.1.trim_end_matches('}');
            crate::runs::normal(&format!("{record}, \"b\": {}}}", second.0))
        };
        let wanted: Vec<String> = pairs.iter().map(joined).collect();
        let case = Case { net: "net main connect [| {a}, {b} |] * {a, b};".to_owned(), records };
        for options in 0..4 {
            let (found, failed) = shown_run(&case, options);
            assert_eq!(found, wanted, "seed {seed}, options {options}");
            assert_eq!(failed.len(), held, "{failed:?}");
        }
    }
}

#[test]
fn a_cell_in_every_replica() {
    check(
        "[| {a}, {b} |] ! <k>",
        &[r#"{"a": 1, "<k>": 1}"#, r#"{"a": 2, "<k>": 2}"#, r#"{"b": 3, "<k>": 2}"#, r#"{"b": 4, "<k>": 1}"#],
        &[r#"{"a": 2, "b": 3, "<k>": 2}"#, r#"{"a": 1, "b": 4, "<k>": 1}"#],
    );
}

#[test]
fn what_a_cell_gives_belongs_to_the_record_that_completed_it() {
    check_in_order(
        "([| {a}, {b} |] .. [{} -> {<n = 1>}]) || [{c} -> {<n = 2>}]",
        &[r#"{"a": 1}"#, r#"{"c": 2}"#, r#"{"b": 3}"#, r#"{"c": 4}"#],
        &[r#"{"<n>": 2}"#, r#"{"a": 1, "b": 3, "<n>": 1}"#, r#"{"<n>": 2}"#],
    );
}

#[test]
fn deterministic_combinators_nest_around_boxes_of_many_and_of_no_outputs() {
    let input = [
        r#"{"a": 1, "<n>": 2}"#,
        r#"{"b": 1, "<n>": 0}"#,
        r#"{"a": 2, "<n>": 0}"#,
        r#"{"a": 3, "<n>": 1}"#,
        r#"{"b": 4, "c": 4}"#,
    ];
    check_in_order(
        "((twice .. ([{a, <n>} -> {a, <n = n - 1>}] ** {<n>} if <n <= 0>)) !! <n>) || none || [{b, c} -> {c}]",
        &input,
        &[
            r#"{"a": 1, "<n>": 0}"#,
            r#"{"a": -1, "<n>": 0}"#,
            r#"{"a": 2, "<n>": 0}"#,
            r#"{"a": -2, "<n>": 0}"#,
            r#"{"a": 3, "<n>": 0}"#,
            r#"{"a": -3, "<n>": 0}"#,
            r#"{"c": 4}"#,
        ],
    );
}

#[test]
fn free_combinators_inside_deterministic_ones_keep_groups_together() {
    check_in_order(
        "(((inc | [{b} -> {b}]) .. (inc * {a} if <k == 1>)) ! <k>) || [{c} -> {c}]",
        &[r#"{"a": 1, "<k>": 1}"#, r#"{"c": 5}"#, r#"{"a": 7, "<k>": 1}"#],
        &[r#"{"a": 2, "<k>": 1}"#, r#"{"c": 5}"#, r#"{"a": 8, "<k>": 1}"#],
    );
}

#[test]
fn a_feedback_with_many_outputs() {
    check(
        r"[{<n>} -> if <n > 0> then {<n = n - 1>}; {<n = n - 1>} else {<n = 0 - 1>}] \ {<n>} if <n >= 0>",
        &[r#"{"<n>": 3, "a": 1}"#, r#"{"<n>": -5}"#],
        &[&[r#"{"<n>": -1, "a": 1}"#; 8][..], &[r#"{"<n>": -1}"#]].concat(),
    );
}

#[test]
fn what_enters_a_feedback_is_not_tested() {
    check(r"[{<n>} -> {<n = n - 1>}] \ {<n>}", &[], &[]);
    check(r"[{<n>} -> {<k = n>}] \ {<n>}", &[r#"{"<n>": 1}"#], &[r#"{"<k>": 1}"#]);
    check(r"[] \ {a}", &[r#"{"b": 1}"#], &[r#"{"b": 1}"#]);
}

#[test]
fn feedbacks_nest_and_stay_in_their_groups() {
    check_in_order(
        r"((([{<n>} -> {<n = n - 1>}] \ {<n>} if <n > 0>) .. [{<k>, <n>} -> {<k = k - 1>, <n = 2>}]) \ {<k>} if <k > 0>) || [{c} -> {c}]",
        &[r#"{"<n>": 3, "<k>": 2}"#, r#"{"c": 1}"#, r#"{"<n>": 1, "<k>": 5}"#],
        &[r#"{"<n>": 2, "<k>": 0}"#, r#"{"c": 1}"#, r#"{"<n>": 2, "<k>": 0}"#],
    );
}

#[test]
fn a_range_sends_a_copy_to_each_value() {
    for split in ["!", "!!", "!@", "!!@"] {
        check_with(
            false,
            &format!("[{{}} -> {{<t = 1>}}] {split} <k>:<n>"),
            &[
                r#"{"<k>": 1, "<n>": 3}"#,
                r#"{"<k>": 2, "<n>": 1}"#,
                r#"{"<k>": -1, "<n>": -1}"#,
                r#"{"<k>": 0}"#,
            ],
            &[&[r#"{"<k>": 1, "<n>": 3, "<t>": 1}"#; 3][..], &[r#"{"<k>": -1, "<n>": -1, "<t>": 1}"#]]
                .concat(),
            &["the range 2 to 1 is empty", "which chooses the replica"],
        );
    }
}

#[test]
fn a_shield_hides_a_label_of_the_same_name() {
    check(
        "net part ({a} -> ...) connect ([{a} -> {a, b = a}] .. none .. []) | [{a, b} -> {a = b}]; net main connect part .. part;",
        &[r#"{"a": 1, "b": 5}"#],
        &[],
    );
    check(
        "net part ({a} -> ...) connect [{a} -> {a, <n = 7>}] .. [{<n>} -> {}] .. twice; net main connect part || none;",
        &[r#"{"a": 1, "<n>": 5}"#],
        &[r#"{"a": 1, "<n>": 5}"#, r#"{"a": -1, "<n>": 5}"#],
    );
}

#[test]
fn placed_parts_mean_the_same() {
    check("(inc @ 1) .. (turn @ 7 | none) @ 2", &[r#"{"a": 1, "c": 2}"#], &[r#"{"b": 2, "c": 2}"#]);
    check("inc !@ <k>", &[r#"{"a": 1, "<k>": -3}"#], &[r#"{"a": 2, "<k>": -3}"#]);
}

#[test]
fn a_binding_tag_has_to_be_asked_for_and_is_not_inherited() {
    check_with(
        false,
        "inc | [{a, <#b>} -> {<#b = b + 1>, <k = 1>}]",
        &[r#"{"a": 1, "<b>": 4, "<#b>": 2}"#, r#"{"a": 1}"#, r##"{"a": 1, "<#c>": 2}"##],
        &[r##"{"<b>": 4, "<#b>": 5, "<k>": 1}"##, r#"{"a": 2}"#],
        &["no branch takes"],
    );
}

#[test]
fn guards_and_expressions_fault_the_record_alone() {
    let input = [r#"{"a": 1, "<n>": 0}"#, r#"{"a": 2, "<n>": 2}"#];
    check_with(true, "inc * {a} if <6 / n == 3>", &input, &[r#"{"a": 2, "<n>": 2}"#], &["division by zero"]);
    check_with(
        true,
        "[{<n>} -> {<n = 9223372036854775806 + n>}]",
        &input,
        &[r#"{"a": 1, "<n>": 9223372036854775806}"#],
        &["does not fit into 64 bits"],
    );
    let net = r"[{<n>} -> {<n = n - 1>}] \ {<n>} if <1 / n > 0>";
    check_with(false, net, &[r#"{"<n>": 2}"#, r#"{"<n>": 0}"#], &[r#"{"<n>": -1}"#], &["division by zero"]);
}

/// Runs a network without the interpreter, which cannot follow networks with too many outcomes.
fn run_alone(net: &str, records: Vec<String>, options: u64) -> (Vec<String>, Vec<String>) {
    let boxes: String = DECLARATIONS.iter().map(|declaration| format!("{declaration};\n")).collect();
    shown_run(&Case { net: format!("{boxes}net main connect {net};"), records }, options)
}

#[test]
fn a_range_of_more_values_than_replicas_fails_the_record_alone() {
    let records = [r#"{"a": 1, "<k>": -1, "<n>": 9223372036854775807}"#, r#"{"a": 1, "<k>": 3, "<n>": 3}"#];
    for split in ["!", "!!"] {
        let (found, reasons) =
            run_alone(&format!("inc {split} <k>:<n>"), records.map(str::to_owned).into(), 0);
        assert_eq!(found, [crate::runs::normal(r#"{"a": 2, "<k>": 3, "<n>": 3}"#)]);
        assert!(matches!(&*reasons, [reason] if reason.contains("at most")), "{reasons:?}");
    }
}

#[test]
fn many_records_in_a_row_that_go_the_same_way_stay_in_order() {
    let record = |label: &str, number: usize| format!(r#"{{"{label}": 1, "<m>": 1, "<n>": {number}}}"#);
    let (mut records, mut wanted) = (Vec::new(), Vec::new());
    for number in 0..500 {
        let label = if number / 7 % 3 == 0 { "a" } else { "b" };
        records.push(record(label, number));
        wanted.push(crate::runs::normal(&record(label, number)));
        if label == "b" {
            wanted.push(crate::runs::normal(&record("c", number)));
        }
    }
    let branches = "([{a} -> {a}] || [{b} -> {b}; {c = b}])";
    for net in [branches, &format!("({branches} || [{{c}} -> {{c}}])"), &format!("({branches} !! <m>)")] {
        for options in 0..4 {
            assert_eq!(
                run_alone(net, records.clone(), options),
                (wanted.clone(), Vec::new()),
                "{net}, options {options}"
            );
        }
    }
}

/// The next records mostly go to different branches and replicas; some give two records, none, or fail.
#[test]
fn records_that_go_different_ways_stay_in_order() {
    let mut chance = thalweg_chance::Chance::new(0x051e_71e5);
    let (mut records, mut wanted, mut failures) = (Vec::new(), Vec::new(), 0);
    let mut tags = [0; 2];
    for number in 0..600 {
        let branch = ["a", "b", "d"][chance.below(3) as usize];
        if chance.below(30) > 0 {
            tags = [chance.below(5), chance.below(3)];
        }
        let [k, m] = tags;
        let record = |label: &str| format!(r#"{{"{label}": 1, "<k>": {k}, "<m>": {m}, "<n>": {number}}}"#);
        if chance.below(40) == 0 {
            records.push(record(branch).replace("<k>", "<l>"));
            failures += 1;
            continue;
        }
        records.push(record(branch));
        let given: &[&str] = match branch {
            "a" => &["a"],
            "b" => &["b", "c"],
            _ => &[],
        };
        wanted.extend(given.iter().map(|label| crate::runs::normal(&record(label))));
    }
    let branches = "([{a} -> {a}] || [{b} -> {b}; {c = b}] || [{d} -> {b = d}] .. none)";
    for net in [
        &format!("{branches} !! <k>"),
        &format!("({branches} !! <k>) !! <m>"),
        &format!("([] !! <k>) .. ({branches} !! <n>)"),
        &format!(
            "([{{<m>}} -> {{<m>, <j = m>}}] .. ([{{<j>}} -> {{<j = j + 1>}}] ** {{<j>}} if <j == 3>) .. [{{<j>}} -> {{}}] .. {branches}) !! <k>"
        ),
    ] {
        for options in 0..8 {
            let (found, reasons) = run_alone(net, records.clone(), options);
            assert!(
                found == wanted,
                "{net}, options {options}: {} records for {}",
                found.len(),
                wanted.len()
            );
            assert_eq!(reasons.len(), failures, "{net}, options {options}: {reasons:?}");
        }
    }
}
