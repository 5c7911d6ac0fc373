//! `cargo xtask demo`: encrypts a real file through the DES network on two workers with every event recorded,
//! decrypts it again, compares the results with OpenSSL and the original, and prints the report.

use crate::process;
use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The key of the demonstration, in the form of OpenSSL's `-K`.
const KEY_HEX: &str = "133457799bbcdff1";
/// The same key of eight bytes, in the form of the network's records.
pub(crate) const WITH_KEY: &str = r#"{"key": {"$base64": "EzRXeZu83/E="}}"#;
const WITH_KEY_DECRYPT: &str = r#"{"key": {"$base64": "EzRXeZu83/E="}, "<decrypt>": 1}"#;
/// The least size of the input: with a smaller input, the run is too short for a report.
const FILE_BYTES_MIN: u64 = 10 << 20;

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let mut file: Option<PathBuf> = None;
    let mut workers = "2".to_owned();
    let mut view = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("file") => file = Some(arguments.value()?.into()),
            Long("workers") => workers = arguments.value()?.string()?,
            Long("view") => view = true,
            other => return Err(other.unexpected().into()),
        }
    }
    process::require_c_compiler()?;

    println!("== build");
    process::run(process::cargo().args([
        "build",
        "--release",
        "--locked",
        "-p",
        "thalweg",
        "-p",
        "app-des",
    ]))?;

    let folder = process::target_dir().join("demo");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let plain = match file {
        Some(file) => std::path::absolute(file)?,
        None => real_file(&folder)?,
    };
    let bytes = fs::metadata(&plain).with_context(|| format!("cannot read {}", plain.display()))?.len();
    println!(
        "\n== encrypt {} ({:.1} MB) on {workers} workers, every event recorded",
        plain.display(),
        bytes as f64 / 1e6
    );
    let encrypted = folder.join("encrypted.des");
    let space = folder.join("space");
    if space.exists() {
        fs::remove_dir_all(&space)?;
    }
    let mut encrypt = network(&workers, &plain, &encrypted, WITH_KEY);
    encrypt.args(["--monitor", "full", "--keep", "--space"]).arg(&space);
    started(&mut encrypt)?;

    println!("\n== decrypt it again");
    let decrypted = folder.join("decrypted");
    started(&mut network(&workers, &encrypted, &decrypted, WITH_KEY_DECRYPT))?;

    println!("\n== verify");
    same(&plain, &decrypted)?;
    println!("decrypting gives back the original, byte for byte");
    compare_with_openssl(&plain, &encrypted)?;
    fs::remove_file(decrypted)?;

    println!("\n== report");
    let mut report = thalweg();
    started(report.arg("report").arg(&space))?;
    if view {
        println!("\n== look at it (Ctrl-C ends)");
        started(thalweg().arg("view").arg(&space))?;
    }
    println!("\nThe space stays in {}; try:", space.display());
    println!("  {} view {}", shown_path(&program("thalweg")), space.display());
    println!("  {} events {} --limit 20", shown_path(&program("thalweg")), space.display());
    Ok(ExitCode::SUCCESS)
}

/// The file that `cargo build --release` made for `name`.
fn program(name: &str) -> PathBuf {
    process::target_dir().join("release").join(name)
}

fn thalweg() -> Command {
    let mut command = Command::new(program("thalweg"));
    command.current_dir(process::root());
    command
}

/// `thalweg run` of the DES network from `input` to `output`; `with` has the key.
fn network(workers: &str, input: &Path, output: &Path, with: &str) -> Command {
    let mut command = thalweg();
    command.args(["run", "apps/des/des.snet", "--boxes"]).arg(program("libapp_des.so"));
    // Chunks are large, so streams hold few of them, to keep the data in the processor's cache.
    command.args(["--workers", workers, "--capacity", "8", "--with", with]);
    command.arg("--input").arg(input).args(["--input-bytes", "data"]);
    command.arg("--output").arg(output).args(["--output-bytes", "data", "--order-by", "seq"]);
    command
}

/// Shows the command line, then runs it.
pub(crate) fn started(command: &mut Command) -> Result<()> {
    println!("$ {}", process::shown(command));
    std::io::stdout().flush()?;
    process::run(command)
}

fn shown_path(path: &Path) -> String {
    path.strip_prefix(process::root()).unwrap_or(path).display().to_string()
}

/// A file of at least 10 MB that every machine with a Rust toolchain has: a library of the compiler. If there
/// is no such library, the file is generated.
fn real_file(folder: &Path) -> Result<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output =
        Command::new(rustc).args(["--print", "sysroot"]).output().context("could not start rustc")?;
    let libraries = Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("lib");
    let mut found: Option<(u64, PathBuf)> = None;
    for entry in fs::read_dir(&libraries).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let smaller = found.as_ref().is_none_or(|(bytes, _)| metadata.len() < *bytes);
        if metadata.is_file() && metadata.len() >= FILE_BYTES_MIN && smaller {
            found = Some((metadata.len(), entry.path()));
        }
    }
    match found {
        Some((_, path)) => Ok(path),
        None => made_file(folder),
    }
}

/// Makes 16 MB of numbered lines.
fn made_file(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("made.txt");
    let mut file = std::io::BufWriter::new(fs::File::create(&path)?);
    for line in 0..400_000 {
        writeln!(file, "line {line:>10} of a file to be encrypted")?;
    }
    file.flush()?;
    Ok(path)
}

/// Fails unless OpenSSL encrypts `plain` to the same bytes; prints a message if OpenSSL is missing.
pub(crate) fn compare_with_openssl(plain: &Path, encrypted: &Path) -> Result<()> {
    if !process::is_installed("openssl", "version") {
        println!("not compared with OpenSSL: `openssl` is missing (Debian: apt-get install openssl)");
        return Ok(());
    }
    let reference = encrypted.with_extension("openssl");
    let mut openssl = Command::new("openssl");
    openssl.args(["enc", "-des-ecb", "-provider", "legacy", "-provider", "default", "-K", KEY_HEX, "-in"]);
    process::run(openssl.arg(plain).arg("-out").arg(&reference))?;
    same(encrypted, &reference)?;
    println!("OpenSSL's des-ecb gives the same {} bytes", fs::metadata(&reference)?.len());
    fs::remove_file(reference)?;
    Ok(())
}

/// Fails unless both files hold the same bytes.
fn same(left: &Path, right: &Path) -> Result<()> {
    let (a, b) = (fs::read(left)?, fs::read(right)?);
    if a != b {
        let at = a.iter().zip(&b).position(|(x, y)| x != y).unwrap_or(a.len().min(b.len()));
        bail!("{} and {} differ from byte {at} on", left.display(), right.display());
    }
    Ok(())
}
