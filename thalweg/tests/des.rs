//! A file through the DES network: the output is equal to OpenSSL's, and the report's accounts add up.

mod des_run;

use serde_json::Value;

const FILE_BYTES: usize = 10 << 20;
/// The default size of chunks of `thalweg run`.
const CHUNK_BYTES: usize = 16384;

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
            des_run::succeed(command.arg("--keep").arg("--space").arg(&space));
            assert!(
                std::fs::read(&output).expect("an output") == expected,
                "{workers} workers, mode {mode}: not OpenSSL's bytes"
            );
            let report = des_run::succeed(des_run::thalweg().arg("report").arg(&space).arg("--json"));
            let report: Value = serde_json::from_slice(&report.stdout).expect("a report in JSON");
            accounts_add_up(&report, mode, &format!("{workers} workers, mode {mode}"));
        }
    }
}

/// Checks every account of the report against the others.
fn accounts_add_up(report: &Value, mode: &str, context: &str) {
    let messages = FILE_BYTES.div_ceil(CHUNK_BYTES) as u64;
    assert_eq!(report["window"]["lost"], 0, "{context}: events were lost");
    assert_eq!(report["window"]["state"], "ended", "{context}");
    assert_eq!(report["throughput"]["messages_in"], messages, "{context}");
    assert_eq!(report["throughput"]["messages_out"], messages, "{context}");

    let mut shares = 0;
    let groups = [("components", true), ("tasks", true), ("workers", false)];
    for (group, in_work) in groups {
        let rows = report[group].as_array().expect("a list");
        assert!(!rows.is_empty(), "{context}: no {group}");
        for row in rows {
            let parts = if in_work { &row["work"]["shares"] } else { &row["shares"] };
            let Some(parts) = parts.as_object() else { continue };
            let parts: Vec<f64> = parts.values().map(|part| part.as_f64().expect("a share")).collect();
            let sum: f64 = parts.iter().sum();
            assert!((sum - 1.0).abs() < 1e-6, "{context}: {group} {row} adds up to {sum}");
            assert!(parts.iter().all(|part| (0.0..=1.0).contains(part)), "{context}: {group} {row}");
            shares += 1;
        }
    }
    // In mode `off` no times are measured, so there are no shares; in the other modes every task and worker
    // has shares.
    assert!(mode == "off" || shares > 20, "{context}: only {shares} rows have shares");

    if mode == "full" {
        // Every message is followed from its entry to its exit.
        let followed = &report["latency"]["end_to_end"]["count"];
        assert_eq!(*followed, messages, "{context}: {}", report["latency"]);
        // The input is known for all other messages, too, also for those that unfold the rounds.
        assert_eq!(report["latency"]["unattributed"], 0, "{context}: {}", report["latency"]);
    }

    assert_eq!(report["broken_count"], 0, "{context}: {}", report["broken"]);
    let streams = report["streams"].as_array().expect("a list");
    let mut written_in_all = 0;
    for stream in streams {
        let count =
            |name: &str| stream[name].as_u64().unwrap_or_else(|| panic!("{context}: {name} in {stream}"));
        let accounted = count("read") + count("held") + count("failed") + count("dropped");
        assert_eq!(count("written"), accounted, "{context}: {stream}");
        assert_eq!(stream["conserved"], true, "{context}: {stream}");
        written_in_all += count("written");
    }
    // Each chunk passes the source's stream, sixteen rounds, and the components before and after them.
    assert!(written_in_all >= 20 * messages, "{context}: only {written_in_all} messages on all streams");
}

#[test]
fn the_throughput_agrees_with_the_wall_clock() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (folder.path().join("plain"), folder.path().join("encrypted"));
    des_run::made_file(&input, 4 * FILE_BYTES);
    for mode in ["off", "metrics", "full"] {
        // A busy machine may delay a thread between its readings of two clocks, so each mode has twenty
        // tries.
        let mut ratios = Vec::new();
        while !ratios.iter().any(|ratio: &f64| (ratio - 1.0).abs() < 0.01) {
            assert!(ratios.len() < 20, "mode {mode}: throughput × wall clock is {ratios:?} of the messages");
            let space = folder.path().join(format!("space-{mode}-{}", ratios.len()));
            let mut command = des_run::encrypt(&input, &output, 1, mode);
            // In mode full the space holds the events of some hundred records. If more were in the network when the input ends,
            // the end of the stream behind the source, which has its count, would be overwritten before the run ends.
            command.args(["--unfinished", "100"]);
            let run = des_run::succeed(command.arg("--space").arg(&space));
            let report = des_run::succeed(des_run::thalweg().arg("report").arg(&space).arg("--json"));
            let report: Value = serde_json::from_slice(&report.stdout).expect("a report in JSON");
            let rate = report["throughput"]["entry_per_s"].as_f64().expect("a rate");
            let messages = (4 * FILE_BYTES).div_ceil(CHUNK_BYTES) as f64;
            ratios.push(rate * wall_s(&run.stderr) / messages);
        }
    }
}

/// The wall-clock time, from the run's last line: `640 records in, 640 out in 0.312345 s, …`.
fn wall_s(summary: &[u8]) -> f64 {
    let text = String::from_utf8_lossy(summary);
    let line = text
        .lines()
        .find(|line| line.contains(" records in, "))
        .unwrap_or_else(|| panic!("no summary in {text}"));
    let (_, rest) = line.split_once(" out in ").unwrap_or_else(|| panic!("no time in {line}"));
    rest.split(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no time in {line}"))
}
