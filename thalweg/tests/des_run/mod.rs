//! The DES network on a generated file, run by the program as a user would.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use thalweg_chance::Chance;

/// The key with which all these runs encrypt, in the form of OpenSSL's option `-K`.
pub(crate) const KEY_HEX: &str = "133457799bbcdff1";
/// The same key, as a label that is added to each record.
pub(crate) const WITH: &str = r#"{"key": {"$base64": "EzRXeZu83/E="}}"#;

/// The program under test.
pub(crate) fn thalweg() -> Command {
    Command::new(env!("CARGO_BIN_EXE_thalweg"))
}

/// The library of the DES boxes, which is built by the first call if necessary.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| library_of("app-des"))
}

/// The library of an app's boxes, which is built if necessary.
pub(crate) fn library_of(package: &str) -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "-p", package]).current_dir(root());
    let folder = Path::new(env!("CARGO_BIN_EXE_thalweg")).parent().expect("a target folder");
    if folder.ends_with("release") {
        build.arg("--release");
    }
    build.env("CARGO_TARGET_DIR", folder.parent().expect("a target folder"));
    assert!(build.status().expect("cargo runs").success(), "{package} does not build");
    folder.join(format!("lib{}.so", package.replace('-', "_")))
}

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace")
}

/// Makes a file of `bytes` bytes in which no two chunks are equal.
pub(crate) fn made_file(path: &Path, bytes: usize) {
    let content = Chance::new(bytes as u64).bytes(bytes);
    std::fs::write(path, content).expect("a temporary folder takes files");
}

/// `thalweg run` of the DES network from `input` to `output`, without output on standard output.
pub(crate) fn encrypt(input: &Path, output: &Path, workers: usize, mode: &str) -> Command {
    let mut command = thalweg();
    command.arg("run").arg(root().join("apps/des/des.snet")).arg("--boxes").arg(library());
    command.args(["--workers", &workers.to_string(), "--monitor", mode, "--with", WITH]);
    command.arg("--input").arg(input).args(["--input-bytes", "data"]);
    command.arg("--output").arg(output).args(["--output-bytes", "data", "--order-by", "seq"]);
    command.stdin(Stdio::null());
    command
}

/// OpenSSL's encryption of `input`.
pub(crate) fn openssl(input: &Path) -> Vec<u8> {
    let output = Command::new("openssl")
        .args(["enc", "-des-ecb", "-provider", "legacy", "-provider", "default", "-K", KEY_HEX, "-in"])
        .arg(input)
        .output()
        .expect("these tests compare with the `openssl` command: on Debian, `apt-get install openssl`");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Runs `command`, which must succeed.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().expect("the program starts");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
