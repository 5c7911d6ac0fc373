//! `thalweg diagnose` on complete recordings: suggested changes, and the gain of a change.

mod program;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs a chain of filters on `records` records, and keeps its space under this name.
fn recorded(folder: &Path, name: &str, records: u64, options: &[&str]) -> String {
    let net =
        "net steps connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n * 2>}] .. [{<n>} -> {<n = n - 3>}];";
    let net = program::write(folder, "steps.snet", net);
    let input: String = (0..records).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    let space = folder.join(name).display().to_string();
    let output = program::run(&[&[net.as_str(), "--space", &space], options].concat(), &input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    space
}

const FULL: [&str; 3] = ["--monitor", "full", "--keep"];

fn diagnose(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.arg("diagnose").args(arguments).output().expect("thalweg starts")
}

fn json(arguments: &[&str]) -> Value {
    let output = diagnose(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("{name} of {value} is a number"))
}

/// Checks that the confidence of a verdict and the shares of its alternatives add up.
fn adds_up(verdict: &Value) {
    if let Some(confidence) = verdict["confidence"].as_f64() {
        let others = verdict["alternatives"].as_array().expect("a list");
        let all = confidence + others.iter().map(|other| number(other, "share")).sum::<f64>();
        assert!((all - 1.0).abs() < 1e-6, "shares of samples are parts of a whole: {verdict}");
    }
}

#[test]
fn a_report_says_that_diagnose_may_name_another_limit() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let notes = |report: &Value| {
        let notes = report["notes"].as_array().expect("a list").iter();
        notes.filter(|note| note["code"] == "by_shares").count()
    };
    for (name, mode) in [("full", &FULL[..]), ("metrics", &["--monitor", "metrics"])] {
        let space = recorded(folder.path(), name, 5000, mode);
        let report = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
            let output = command.arg("report").arg(&space).args(arguments).output().expect("thalweg starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("text")
        };
        let by_shares: Value = serde_json::from_str(&report(&["--json"])).expect("JSON");
        let replayed = json(&[&space]);
        assert_eq!((notes(&by_shares), notes(&replayed)), (1, 0), "mode {name}");
        assert!(by_shares["replay"].is_null());
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = flat(&report(&[]));
        assert!(
            shown.contains("This verdict follows from shares of time alone; `thalweg diagnose`"),
            "{shown}"
        );
        let page = folder.path().join("page.html");
        report(&["--html", &page.display().to_string()]);
        let page = flat(&std::fs::read_to_string(&page).expect("a page"));
        // The page also has the report as text, in which some characters are escaped.
        let verdict = flat(by_shares["verdict"]["text"].as_str().expect("a sentence"));
        let verdict = verdict.split(['&', '<', '>', '"', '\'']).next().unwrap_or_default();
        for wanted in ["This verdict follows from shares of time alone", verdict] {
            assert!(page.contains(wanted), "{wanted} is on the page, too");
        }
        // The report names another limit only if diagnose says which limit the shares show.
        let verdict = &replayed["verdict"];
        if verdict["rule"] == "replayed" {
            let overruled = replayed["replay"]["overruled"].as_str().expect("the overruled sentence");
            assert!(by_shares["verdict"]["text"] == overruled || replayed["phases"] != by_shares["phases"]);
        }
    }
}

#[test]
fn a_whole_recording_gives_suggestions_or_the_reason_for_none() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = recorded(folder.path(), "space", 20_000, &[&["--workers", "2"], &FULL[..]].concat());
    let report = json(&[&space]);
    let replay = &report["replay"];
    let suggestions = replay["suggestions"].as_array().expect("a list");
    assert_eq!(replay["refused"].is_null(), replay["refused"].as_str().is_none());
    if !replay["refused"].is_null() {
        assert!(suggestions.is_empty(), "nothing is suggested that cannot be predicted: {replay}");
    }
    // The first suggestion may gain slightly less than the second if it needs less work.
    let mut before = suggestions.first().map_or(0.0, |head| number(head, "gain") / 0.95);
    for row in suggestions {
        let [gain, least, most] = ["gain", "least", "most"].map(|name| number(row, name));
        // A change that gains 5 % or more is also suggested if it gains 3 % in 70 of 100 samples, wherever the interval begins.
        let is_worth = gain >= 0.03 && (0.0 < least || gain >= 0.05);
        assert!(is_worth && least <= gain && gain <= most && gain <= before + 1e-9, "{row}");
        assert!(row["how"].as_str().is_some_and(|how| !how.is_empty()), "{row}");
        before = before.min(gain / 0.95);
    }
    adds_up(&report["verdict"]);
    // The evidence contains the overruled verdict.
    if let Some(overruled) = replay["overruled"].as_str() {
        let evidence = report["verdict"]["evidence"].to_string();
        assert!(evidence.contains(overruled.trim_end_matches('.')), "{evidence}");
    }
    let text = String::from_utf8(diagnose(&[&space, "--wide"]).stdout).expect("text");
    let is_shown =
        text.contains("WHAT WOULD HELP") || text.contains("What changes would bring is not predicted");
    assert_eq!(is_shown, !suggestions.is_empty() || !replay["refused"].is_null(), "{text}");
}

#[test]
fn what_is_no_whole_recording_is_judged_as_ever() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = recorded(folder.path(), "space", 500, &["--monitor", "metrics"]);
    let report = json(&[&space]);
    adds_up(&report["verdict"]);
    // Nothing was replayed, but the verdict may differ from that of the rules because of the sums of tasks'
    // times.
    assert_eq!(report["replay"]["replayed_per_s"], Value::Null);
    assert_eq!(report["replay"].is_null(), report["verdict"]["rule"] != "replayed");
    assert_eq!(report["phases"], Value::Array(Vec::new()));
}

#[test]
fn two_runs_are_compared_by_what_was_really_done() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let old =
        recorded(folder.path(), "old", 20_000, &[&["--workers", "1", "--capacity", "4"], &FULL[..]].concat());
    let new = recorded(
        folder.path(),
        "new",
        20_000,
        &[&["--workers", "2", "--capacity", "64"], &FULL[..]].concat(),
    );
    let comparison = json(&["--compare", &old, &new]);
    let [before, after, gain] = ["old_per_s", "new_per_s", "gain"].map(|name| number(&comparison, name));
    assert!((gain - (after / before - 1.0)).abs() < 1e-9, "{comparison}");
    let differs = |what: &str| {
        let rows = comparison["differences"].as_array().expect("a list");
        let row =
            rows.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("{what}: {comparison}"));
        (
            row["old"].as_str().unwrap_or_default().to_owned(),
            row["new"].as_str().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(differs("workers"), ("1".to_owned(), "2".to_owned()));
    assert_eq!(differs("messages that the longest stream holds"), ("4".to_owned(), "64".to_owned()));
    assert!(comparison["limits"].as_str().is_some_and(|text| !text.is_empty()));
    let text = String::from_utf8(diagnose(&["--compare", &old, &new]).stdout).expect("text");
    assert!(text.starts_with("The flow is ") && text.contains("now, and so not more: "), "{text}");
    // A run is compared with itself, so nothing differs.
    let same = json(&["--compare", &old, &old]);
    assert_eq!((number(&same, "gain"), same["differences"].as_array().map(Vec::len)), (0.0, Some(0)));
    assert!(same["least"].as_f64().is_none_or(|least| least <= 0.0));
    let text = String::from_utf8(diagnose(&["--compare", &old, &old]).stdout).expect("text");
    assert!(text.contains("Nothing that is recorded differs"), "{text}");
}

#[test]
fn without_windows_a_comparison_has_no_interval() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let old = recorded(folder.path(), "old", 500, &["--monitor", "metrics"]);
    let comparison = json(&["--compare", &old, &old]);
    assert_eq!((&comparison["least"], &comparison["most"]), (&Value::Null, &Value::Null));
}

#[test]
fn comparing_wants_two_runs_that_are_there() {
    for (arguments, wanted) in [
        (&["--compare", "one"][..], "2 values required"),
        (&["--compare", "nowhere", "nothing"], "nowhere"),
        (&["space", "--compare", "a", "b"], "cannot be used with"),
        (&["--compare", "a", "b", "--what-if"], "cannot be used with"),
    ] {
        let output = diagnose(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(wanted), "{arguments:?}: {stderr}");
    }
}
