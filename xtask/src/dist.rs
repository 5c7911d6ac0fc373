//! `cargo xtask dist`: makes an archive for machines without a toolchain: the program, the boxes of the apps,
//! headers and constants for other languages, examples, pages, completions and manual pages.
//!
//! Files have the same paths as in the source tree, so that the pages' commands and links hold in both. Built
//! files are in the folders of an installation: `bin`, `lib`, `share`.

use crate::process;
use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The apps whose boxes are in the archive.
const APPS: [&str; 5] = ["des", "audio", "ant", "mc", "rt"];
/// Files and folders of the source tree that are put into the archive unchanged.
const SOURCES: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "BENCHMARKS.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "bindings/box/DESIGN.md",
    "bindings/c",
    "bindings/c4snet",
    "bindings/java",
    "bindings/python",
    "docs",
    "editors",
    "examples/first",
    "examples/tutorial",
    "exec/DESIGN.md",
    "glob/DESIGN.md",
    "host/DESIGN.md",
    "kinds",
    "link/DESIGN.md",
    "monitor/DESIGN.md",
    "net/DESIGN.md",
    "node/DESIGN.md",
    "pack/DESIGN.md",
    "scope/DESIGN.md",
    "space/DESIGN.md",
    "space/docs",
    "tune/DESIGN.md",
    "view/DESIGN.md",
];
/// Shells, and the path below `share` where each looks for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/thalweg"),
    ("zsh", "zsh/site-functions/_thalweg"),
    ("fish", "fish/vendor_completions.d/thalweg.fish"),
];

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let mut into = process::target_dir().join("dist");
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("into") => into = std::path::absolute(PathBuf::from(arguments.value()?))?,
            other => return Err(other.unexpected().into()),
        }
    }
    let archive = make(&into)?;
    let bytes = fs::metadata(&archive)?.len();
    println!("{} ({:.1} MB)", archive.display(), bytes as f64 / 1e6);
    Ok(ExitCode::SUCCESS)
}

/// Builds everything, and packs it into an archive in `into`.
pub(crate) fn make(into: &Path) -> Result<PathBuf> {
    process::require_c_compiler()?;
    let packages: Vec<String> = APPS.iter().map(|app| format!("app-{app}")).collect();
    let mut build = process::cargo();
    build.args(["build", "--release", "--locked", "-p", "thalweg"]);
    process::run(build.args(packages.iter().flat_map(|package| ["-p", package])))?;

    // The library with the boxes of docs/language.md.
    process::run(process::cargo().args([
        "build",
        "--release",
        "--locked",
        "-p",
        "thalweg",
        "--example",
        "language_boxes",
    ]))?;

    let release = process::target_dir().join("release");
    let name = name(&release.join("thalweg"))?;
    let folder = into.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    copy(&release.join("thalweg"), &folder.join("bin/thalweg"))?;
    for app in APPS {
        let library = format!("libapp_{app}.so");
        copy(&release.join(&library), &folder.join("lib").join(&library))?;
        copy_texts_of_app(app, &folder)?;
    }
    let boxes = "liblanguage_boxes.so";
    copy(&release.join("examples").join(boxes), &folder.join("lib").join(boxes))?;
    for source in SOURCES {
        copy(&process::root().join(source), &folder.join(source))?;
    }
    write_share(&folder)?;
    let archive = into.join(format!("{name}.tar.gz"));
    // The order, times and owners of files are fixed, so that equal files make equal archives on every
    // machine.
    let same = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+w,go=rX"];
    let mut pack = Command::new("tar");
    pack.args(same).args(["-I", "gzip -n"]).arg("-cf").arg(&archive).arg("-C").arg(into).arg(&name);
    process::run(&mut pack)?;
    fs::remove_dir_all(&folder)?;
    Ok(archive)
}

/// The archive's name, such as `thalweg-0.1.0-x86_64-linux`: the program's version and its platform.
fn name(program: &Path) -> Result<String> {
    let printed = Command::new(program).arg("--version").output().context("could not start thalweg")?.stdout;
    let printed = String::from_utf8(printed)?;
    let Some(version) = printed.trim().strip_prefix("thalweg ") else {
        bail!("thalweg --version says `{printed}`")
    };
    Ok(format!("thalweg-{version}-{}-{}", std::env::consts::ARCH, std::env::consts::OS))
}

/// Copies an app's page and networks; the boxes are in the archive as a compiled library.
fn copy_texts_of_app(app: &str, folder: &Path) -> Result<()> {
    let path = Path::new("apps").join(app);
    for entry in fs::read_dir(process::root().join(&path))? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "snet" || extension == "md") {
            copy(&file, &folder.join(&path).join(file.file_name().expect("a file has a name")))?;
        }
    }
    Ok(())
}

/// Writes manual pages and completions, which the program itself prints.
fn write_share(folder: &Path) -> Result<()> {
    let (program, share) = (folder.join("bin/thalweg"), folder.join("share"));
    process::run(Command::new(&program).args(["man", "--into"]).arg(share.join("man/man1")))?;
    for (shell, file) in COMPLETIONS {
        let script = Command::new(&program).args(["completions", shell]).output()?;
        if !script.status.success() {
            bail!("no completions for {shell}: {}", String::from_utf8_lossy(&script.stderr));
        }
        let file = share.join(file);
        fs::create_dir_all(file.parent().expect("all lie in folders"))?;
        fs::write(file, script.stdout)?;
    }
    Ok(())
}

/// Copies a file, or a folder without compiled files.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        for entry in fs::read_dir(from)? {
            let entry = entry?.path();
            let name = entry.file_name().expect("an entry has a name");
            let made = [OsStr::new("target"), OsStr::new("node_modules"), OsStr::new("__pycache__")];
            if !made.contains(&name) {
                copy(&entry, &to.join(name))?;
            }
        }
        return Ok(());
    }
    fs::create_dir_all(to.parent().expect("all lie in folders"))?;
    fs::copy(from, to).with_context(|| format!("could not copy {} to {}", from.display(), to.display()))?;
    Ok(())
}
