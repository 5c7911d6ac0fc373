//! Lets the linker make release builds smaller, if the linker and the system's C library can do so: functions
//! with equal code are folded into one, and relocations are packed. LLD, which `rustc` uses for x86-64 Linux
//! unless another linker is chosen, can do both, and glibc reads packed relocations from version 2.36 on.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

const OPTIONS: [&str; 2] = ["-Wl,--icf=all", "-Wl,-z,pack-relative-relocs"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if variable("PROFILE") == "release" {
        for option in OPTIONS.into_iter().filter(|option| works(option)) {
            println!("cargo::rustc-link-arg-bins={option}");
        }
    }
}

/// Whether an empty program that is linked for this target with the linker's option ends without an error. A
/// program for another machine than this one cannot be tried.
fn works(option: &str) -> bool {
    let folder = variable("OUT_DIR");
    let source = Path::new(&folder).join("empty.rs");
    if std::fs::write(&source, "fn main() {}\n").is_err() {
        return false;
    }
    let mut compile = Command::new(variable("RUSTC"));
    compile.arg(&source).arg("--target").arg(variable("TARGET")).arg("--out-dir").arg(&folder);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        compile.arg("-C").arg(format!("linker={linker}"));
    }
    compile.args(variable("CARGO_ENCODED_RUSTFLAGS").split('\x1f').filter(|flag| !flag.is_empty()));
    compile.arg("-C").arg(format!("link-arg={option}"));
    succeeds(&mut compile) && succeeds(&mut Command::new(Path::new(&folder).join("empty")))
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
