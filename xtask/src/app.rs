//! `cargo xtask app NAME`: runs one of the apps on its default input, every event recorded, and prints the report.

use crate::{demo, process};
use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use std::process::{Command, ExitCode};

/// A network that is run on records: its name, the package of its boxes, and where it lies, without `.snet` and `.jsonl`.
struct App {
    name: &'static str,
    package: &'static str,
    files: &'static str,
}

const APPS: [App; 2] = [
    App { name: "farm", package: "app-mc", files: "apps/mc/farm" },
    App { name: "mc", package: "app-mc", files: "apps/mc/mc" },
];

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let mut name = None;
    let mut workers = "2".to_owned();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("workers") => workers = arguments.value()?.string()?,
            Value(value) if name.is_none() => name = Some(value.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let names = || APPS.iter().map(|app| app.name).chain(["des"]).collect::<Vec<_>>().join(", ");
    let name = name.with_context(|| format!("which app? There are {}", names()))?;
    if name == "des" {
        return demo::run(lexopt::Parser::from_args(["--workers".to_owned(), workers]));
    }
    let app = APPS.iter().find(|app| app.name == name);
    match app {
        Some(app) => app.run(&workers),
        None => bail!("there is no app `{name}`; there are {}", names()),
    }
}

impl App {
    fn run(&self, workers: &str) -> Result<ExitCode> {
        process::require_c_compiler()?;
        let build = ["build", "--release", "--quiet", "--locked", "-p", "thalweg", "-p", self.package];
        process::run(process::cargo().args(build))?;
        let release = process::target_dir().join("release");
        let space = process::target_dir().join("app").join(self.name);
        if space.exists() {
            std::fs::remove_dir_all(&space)?;
        }
        std::fs::create_dir_all(process::target_dir().join("app"))?;
        let thalweg = || {
            let mut command = Command::new(release.join("thalweg"));
            command.current_dir(process::root());
            command
        };
        let mut network = thalweg();
        network.arg("run").arg(format!("{}.snet", self.files)).arg("--boxes");
        network.arg(release.join(format!("lib{}.so", self.package.replace('-', "_"))));
        network.arg("--input").arg(format!("{}.jsonl", self.files)).args(["--workers", workers]);
        network.args(["--monitor", "full", "--keep", "--space"]).arg(&space);
        demo::started(&mut network)?;
        demo::started(thalweg().arg("report").arg(&space))?;
        Ok(ExitCode::SUCCESS)
    }
}
