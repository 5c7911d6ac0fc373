//! The cases of the measurement; each is the driver of a language with one sort of probe in one phase.

pub(super) mod java;
mod native;

use super::Settings;
use super::drain::Drain;
use crate::process;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// Which rows of the table are measured.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Set {
    /// The phases T, I, C, F and W of Thalweg's probes and of rivals.
    Phases,
    /// The phases of Thalweg's probes that are compared at each value of a parameter.
    Swept,
    /// The destinations of the events of Thalweg's probes.
    Writers,
    /// The policies of Thalweg's probes for a full, small ring.
    Full,
}

/// What a run's command needs: a folder, a file and a port.
pub(super) struct Place<'a> {
    pub(super) settings: &'a Settings,
    /// The folder in which the run's process starts.
    pub(super) folder: &'a Path,
    /// The file for the raw data of the run.
    pub(super) raw: &'a Path,
    /// The address of the listener, if the case has one.
    pub(super) port: u16,
}

type Make = Box<dyn Fn(&Place) -> Command>;

/// One row of the table.
pub(super) struct Case {
    pub(super) language: &'static str,
    /// The name of the probes, with their configuration.
    pub(super) who: &'static str,
    /// The phase: T, I, C, F or W.
    pub(super) phase: char,
    pub(super) drain: Drain,
    pub(super) command: Make,
    /// The reason why the case cannot be measured on this machine, if it cannot.
    pub(super) missing: Option<String>,
}

impl Case {
    /// The case's name in the names of files.
    pub(super) fn slug(&self) -> String {
        let clean: String =
            self.who.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        format!("{}-{clean}", self.phase)
    }
}

/// All cases that the settings select, with their programs built.
pub(super) fn all(settings: &Settings) -> Result<Vec<Case>> {
    let wants = |language: &str| settings.language.as_deref().is_none_or(|only| only == language);
    let mut build = process::cargo();
    build.args(["build", "--release", "--quiet", "--locked", "-p", "thalweg"]);
    process::run(&mut build)?;
    let mut cases = Vec::new();
    if wants("java") {
        java::cases(settings, &mut cases)?;
    }
    for (language, compiler, standard) in [("c", "gcc", "gnu11"), ("c++", "g++", "c++17")] {
        if wants(language) {
            native::in_c(settings, language, compiler, standard, &mut cases)?;
        }
    }
    if wants("rust") {
        native::in_rust(settings, &mut cases)?;
    }
    if let Some(only) = &settings.only {
        cases.retain(|case| case.phase == 'T' || case.who.to_lowercase().contains(&only.to_lowercase()));
    }
    if cases.is_empty() {
        bail!("there is no driver in that language: java, c, c++ and rust have one");
    }
    Ok(cases)
}

/// The command that starts a driver, with the driver's arguments.
fn driven(mut command: Command, place: &Place) -> Command {
    let settings = place.settings;
    let clock = if settings.by_user_time { "cpu" } else { "nano" };
    command.arg(settings.seconds.to_string()).arg(settings.method_ns.to_string());
    command.arg(settings.depth.to_string()).arg(settings.threads.to_string()).arg(clock);
    command.arg(std::path::absolute(place.raw).unwrap_or_else(|_| place.raw.to_owned()));
    command
}

/// Sets Thalweg's probes to wait for the reader, so that they lose no event in phase W.
fn lossless(command: &mut Command) {
    command.env("THALWEG_PROBE_FULL", "wait").env("THALWEG_PROBE_BYTES", "64M");
}

/// The policies for a full ring of 256 KiB, with the variables that select them.
fn full_modes() -> [(&'static str, &'static [(&'static str, &'static str)]); 3] {
    [
        (
            "full: the oldest are overwritten",
            &[("THALWEG_PROBE_FULL", "overwrite"), ("THALWEG_PROBE_BYTES", "256k")],
        ),
        ("full: the newest are dropped", &[("THALWEG_PROBE_FULL", "drop"), ("THALWEG_PROBE_BYTES", "256k")]),
        ("full: the program waits", &[("THALWEG_PROBE_FULL", "wait"), ("THALWEG_PROBE_BYTES", "256k")]),
    ]
}
