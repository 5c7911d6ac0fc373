//! The meaning of networks: the runtime compared with an interpreter of the specification, on random networks
//! and records.

mod boxes;
mod corners;
mod decisions;
#[path = "../records/evaluate.rs"]
mod evaluate;
mod generator;
mod nodes;
mod oracle;
mod routes;
mod rules;
mod runs;
mod types;
mod typing;
mod world;

use std::collections::BTreeMap;
use std::path::Path;

use generator::Case;
use runs::{NOT_FUSED, Verdict, try_case, try_over_nodes, try_switched, watch};

/// Runs the kept cases: each of them failed once, before a fault was corrected.
#[test]
fn kept_cases() {
    let _watch = watch();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/meaning/corpus");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let case = Case::read(&std::fs::read_to_string(&path).unwrap());
        for options in 0..16 {
            let verdict = try_case(&case, options);
            assert!(matches!(verdict, Verdict::Right), "{}: {verdict:?}\n{case}", path.display());
            let verdict = try_switched(&case, options);
            assert!(matches!(verdict, Verdict::Right), "switched, {}: {verdict:?}\n{case}", path.display());
        }
        count += 1;
    }
    assert!(count > 0, "there are no kept cases");
}

fn random_cases(from: u64, wanted: u64) {
    random_cases_by(try_case, from, wanted);
}

fn random_cases_by(try_case: impl Fn(&Case, u64) -> Verdict, from: u64, wanted: u64) {
    let _watch = watch();
    let mut verdicts = BTreeMap::new();
    let (mut right, mut seed) = (0, from);
    while right < wanted {
        let case = Case::random(seed);
        let verdict = try_case(&case, seed);
        if let Verdict::Wrong(why) = &verdict {
            let least = case.reduced(|case| (0..16).any(|i| try_case(case, seed + i).is_wrong()));
            panic!("seed {seed}: {why}\nKeep this in tests/meaning/corpus:\n{least}");
        }
        right += u64::from(matches!(verdict, Verdict::Right));
        *verdicts.entry(verdict.word()).or_insert(0_u64) += 1;
        seed += 1;
        assert!(seed - from < 20 * wanted, "hardly any network is right: {verdicts:?}");
    }
}

#[test]
fn random_networks() {
    random_cases(0, 5_000);
}

#[test]
fn more_random_networks() {
    random_cases(1 << 32, 5_000);
}

/// Records are handed on to the next component and written to its stream by turns, as `net.fuse` says at that moment.
#[test]
fn random_networks_while_fusing_is_switched() {
    random_cases_by(try_switched, 1 << 34, 2_000);
}

/// Components at random places of three nodes; some of the parts keep the records that were sent to them.
#[test]
fn random_networks_over_random_nodes() {
    random_cases_by(try_over_nodes, 1 << 33, 1_000);
    let opened = nodes::OPENED.load(std::sync::atomic::Ordering::Relaxed);
    assert!(opened > 2_000, "{opened} parts were on other nodes");
}

/// The number in an environment variable.
fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Ten thousand cases; the environment variables `CASES` and `SEED` set their number and the first one, so a
/// long run can be done in parts.
#[test]
#[ignore = "takes minutes"]
fn ten_thousand_random_networks_over_random_nodes() {
    random_cases_by(try_over_nodes, from_environment("SEED", 1 << 42), from_environment("CASES", 10_000));
}

/// A hundred thousand cases; `CASES` and `SEED` set their number and the first one.
#[test]
#[ignore = "takes minutes"]
fn a_hundred_thousand_random_networks_while_fusing_is_switched() {
    random_cases_by(try_switched, from_environment("SEED", 1 << 43), from_environment("CASES", 100_000));
}

/// A million cases, with `cargo xtask test --long`; `CASES` and `SEED` set their number and the first one. With
/// `FUSE=on` or `FUSE=off`, `net.fuse` is so in all cases; otherwise it is on in every second group of eight.
#[test]
#[ignore = "takes half an hour"]
fn a_million_random_networks() {
    let options = match std::env::var("FUSE").as_deref() {
        Ok("on") => |seed: u64| seed & !NOT_FUSED,
        Ok("off") => |seed: u64| seed | NOT_FUSED,
        Ok(other) => panic!("FUSE={other}: it is on or off"),
        Err(_) => |seed: u64| seed,
    };
    let try_case = |case: &Case, seed: u64| try_case(case, options(seed));
    random_cases_by(try_case, from_environment("SEED", 1 << 40), from_environment("CASES", 1_000_000));
}
