//! The option pricing networks: the same price in every mode and on any number of workers, and the right one.

mod des_run;

use std::path::Path;

use serde_json::Value;

const WORKERS: [usize; 2] = [1, 2];
const MODES: [&str; 3] = ["off", "metrics", "full"];

/// What `network` gives for 2,000 paths, which must be the same however it is run.
fn priced(network: &str) -> Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join("option.jsonl");
    let option = r#"{"spot": 100.0, "strike": 105.0, "rate": 0.03, "volatility": 0.25, "years": 1.0, "<paths>": 2000, "<batches>": 30, "<lanes>": 3, "name": "call"}"#;
    std::fs::write(&input, option).expect("a temporary folder takes files");
    let outputs: Vec<Value> = WORKERS
        .into_iter()
        .flat_map(|workers| MODES.map(|mode| run(network, &input, workers, mode)))
        .collect();
    assert!(outputs.iter().all(|output| *output == outputs[0]), "{outputs:?}");
    assert_eq!(outputs[0]["name"], "call", "what a box does not know passes by");
    outputs[0].clone()
}

fn run(network: &str, input: &Path, workers: usize, mode: &str) -> Value {
    let mut command = des_run::thalweg();
    command.arg("run").arg(des_run::root().join(network)).arg("--boxes").arg(des_run::library_of("app-mc"));
    command.args(["--workers", &workers.to_string(), "--monitor", mode, "--input"]).arg(input);
    let output = des_run::succeed(&mut command).stdout;
    serde_json::from_slice(&output).expect("one record")
}

#[test]
fn both_networks_give_the_same_price_within_three_standard_errors() {
    let (serial, farm) = (priced("apps/mc/mc.snet"), priced("apps/mc/farm.snet"));
    for field in ["price", "error", "exact", "<paths>"] {
        assert_eq!(serial[field], farm[field], "{field}");
    }
    let number = |field: &str| farm[field].as_f64().expect("a number");
    assert!((number("price") - number("exact")).abs() < 3.0 * number("error"), "{farm}");
    assert!((number("exact") - 9.121_804).abs() < 1e-5, "{farm}");
}

#[test]
fn an_option_that_has_no_price_is_a_failed_record() {
    for (spot, paths, why) in
        [("-1.0", 9, "spot is -1"), ("1.0", 0, "<paths> is 0"), ("1.0", -5, "<paths> is -5")]
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let input = folder.path().join("option.jsonl");
        let option = format!(
            r#"{{"spot": {spot}, "strike": 1.5, "rate": 0.03, "volatility": 0.25, "years": 1.0, "<paths>": {paths}}}"#
        );
        std::fs::write(&input, option).expect("a temporary folder takes files");
        let mut command = des_run::thalweg();
        command.arg("run").arg(des_run::root().join("apps/mc/mc.snet")).arg("--boxes");
        command.arg(des_run::library_of("app-mc")).arg("--input").arg(&input);
        let output = command.output().expect("the program starts");
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{output:?}");
    }
}
