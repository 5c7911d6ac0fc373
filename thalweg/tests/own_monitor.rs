//! The example of a user's own monitor, built as a user would build it and applied to a real run.

mod des_run;

use std::process::{Command, Stdio};

#[test]
fn a_monitor_outside_of_the_workspace_measures_a_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let space = folder.path().join("kept");
    let net = folder.path().join("spread.snet");
    std::fs::write(&net, "net spread connect ([{<n>} -> {<n = n + 1>}] ! <k>);").expect("a file");
    let mut run = des_run::thalweg();
    run.arg("run").arg(&net).args(["--monitor", "full", "--keep", "--space"]).arg(&space);
    let mut child =
        run.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    {
        use std::io::Write;
        let mut input = child.stdin.take().expect("piped");
        for n in 0..300 {
            writeln!(input, r#"{{"<n>": {n}, "<k>": {}}}"#, n % 3).expect("it reads");
        }
    }
    assert!(child.wait().expect("it ends").success());

    let manifest = des_run::root().join("examples/monitor/Cargo.toml");
    let mut own = Command::new(env!("CARGO"));
    own.args(["run", "--quiet", "--offline", "--manifest-path"]).arg(&manifest).arg("--").arg(&space);
    own.env("CARGO_TARGET_DIR", folder.path().join("target"));
    let output = own.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report["overhead"]["bytes"].as_u64() > Some(0), "{}", report["overhead"]);
    let measurements = report["measurements"].as_array().expect("measurements");
    let jain = measurements.iter().find(|m| m["name"] == "fairness.jain").expect("it published");
    let rows = jain["value"]["table"].as_array().expect("a table");
    assert!(rows.iter().any(|row| row[1].as_f64() == Some(1.0)), "{jain}");
}
