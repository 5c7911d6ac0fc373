//! The project's automation, in Rust: a person can run everything that the continuous integration runs.
//!
//! `cargo xtask demo` shows the program's main use on real data, `cargo xtask test` all tests, `cargo xtask
//! bench` the measurements.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "this is a command-line program")]

mod app;
mod bench;
#[path = "../../thalweg/tests/browser_run/mod.rs"]
mod browser_run;
#[cfg(test)]
mod circles;
mod committed;
mod demo;
mod dist;
mod docs;
mod foreign;
mod kinds;
#[cfg(test)]
mod layers;
mod layout;
mod leftovers;
mod moobench;
mod noded;
mod paper;
mod pictures;
mod process;
mod remedies;
mod sanitizer;
#[cfg(test)]
mod sizes;
mod snet_suite;
#[cfg(test)]
mod sources;
mod terminal;
mod test;
mod tuned;
mod viewed;
mod watch;
#[cfg(test)]
mod words;

use anyhow::{Result, bail};
use lexopt::prelude::*;
use std::process::ExitCode;

const HELP: &str = "\
Automation for Thalweg.

usage: cargo xtask COMMAND

  app NAME [--workers N]             run one of the apps on its default input, print the report (`app --help`)
  demo [--file FILE] [--workers N] [--view]   encrypt a real file through the DES network, verify it, print the report, show it in the browser
  test [--only STEP] [--long]        everything CI runs; ends with a count of tests
  test --list                        the steps, in order
  dist [--into DIR]                  an archive with program, boxes of the apps, headers, pages: for people without a toolchain
  docs [--into DIR]                  all pages as one site with search (needs mdbook: `cargo install mdbook`)
  kinds                              write the descriptions of kinds, and what is generated from them
  layout                             write the layout's constants for C, Java and Python
  moobench [OPTIONS]                 what a probe costs in Java, C, C++ and Rust, and in rivals (`moobench --help`)
  paper lpel [OPTIONS]               the tables of the LPEL paper, ours beside theirs (`paper --help`)
  paper mate [OPTIONS]               the tables of the MATE paper, ours beside theirs (`paper mate --help`)
  pictures [--into DIR]              the README's pictures of the page and of `top`, from a real run (needs Chromium and tmux)
  remedies [OPTIONS]                 verdicts against remedies that were tried (`remedies --help`)
  snet-suite FOLDER…                 `thalweg adopt` as a release build: programs written for S-Net
  bench [GROUP] [--json] [--check]   the measurements, rivals included (`bench --help`)

Build output goes where CARGO_TARGET_DIR says, else to target/.
";

fn main() -> ExitCode {
    match dispatch() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The commands that `HELP` describes as a whole; the others have a help of their own.
const DESCRIBED: [&str; 7] = ["demo", "dist", "docs", "kinds", "layout", "snet-suite", "test"];

fn dispatch() -> Result<ExitCode> {
    let mut arguments = lexopt::Parser::from_env();
    let Some(first) = arguments.next()? else {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    };
    match first {
        Long("help") | Short('h') => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        Value(command) if DESCRIBED.contains(&&*command.to_string_lossy()) && asks_for_help() => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        Value(command) => match command.to_string_lossy().as_ref() {
            "app" => app::run(arguments),
            "bench" => bench::run(arguments),
            "demo" => demo::run(arguments),
            "dist" => dist::run(arguments),
            "docs" => docs::run(arguments),
            "kinds" => kinds::run(arguments),
            "layout" => layout::run(arguments),
            "moobench" => moobench::run(arguments),
            "paper" => paper::run(arguments),
            "pictures" => pictures::run(arguments),
            "remedies" => remedies::run(arguments),
            "snet-suite" => snet_suite::run(arguments),
            "test" => test::run(arguments),
            other => bail!("there is no command `{other}`; `cargo xtask --help` lists them"),
        },
        other => Err(other.unexpected().into()),
    }
}

fn asks_for_help() -> bool {
    std::env::args_os().skip(2).any(|argument| argument == "--help" || argument == "-h")
}
