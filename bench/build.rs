//! Passes to the benchmarks the versions of the rivals from `Cargo.lock`, and the version of the compiler.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = std::fs::read_to_string("Cargo.lock").expect("bench/Cargo.lock is committed");
    for package in lock.split("[[package]]").skip(1) {
        if let (Some(name), Some(version)) = (value(package, "name"), value(package, "version")) {
            println!("cargo::rustc-env=VERSION_{name}={version}");
        }
    }
    let rustc = std::env::var("RUSTC").expect("cargo sets RUSTC");
    let told = Command::new(rustc).arg("--version").output().expect("the compiler runs").stdout;
    println!("cargo::rustc-env=BENCH_RUSTC={}", String::from_utf8_lossy(&told).trim());
}

/// The text of `key = "text"` in one entry of the lock file.
fn value<'a>(package: &'a str, key: &str) -> Option<&'a str> {
    package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'))
}
