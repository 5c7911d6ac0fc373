//! An example of a user's writer: while a program with probes runs, each of its calls becomes a line of
//! InfluxDB's line protocol.
//!
//! `cargo run -- SPACE > calls.lines` runs until the observed program ends. If the observed program was
//! started with `THALWEG_PROBE_FULL=wait`, it waits for this writer, so no events are lost, however small the
//! program's rings are.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;

use thalweg_space::reader::{Event, Item, SpaceReader};
use thalweg_space::{Clock, Error};

/// The state of the conversion to lines.
struct Lines<'a> {
    space: &'a SpaceReader,
    clock: Clock,
    operations: HashMap<u64, String>,
    out: BufWriter<std::io::Stdout>,
    lost: u64,
}

impl Lines<'_> {
    fn take(&mut self, item: &Item<'_>) -> std::io::Result<()> {
        match item {
            Item::Event(event) if event.kind.name == "probe.called" => self.call(event),
            Item::Gap { lost, .. } => {
                self.lost += lost;
                Ok(())
            }
            Item::Event(_) => Ok(()),
        }
    }

    fn call(&mut self, event: &Event<'_>) -> std::io::Result<()> {
        let field = |name: &str| event.kind.field(name).map_or(0, |field| event.u64(field));
        let operation = field("operation");
        if !self.operations.contains_key(&operation) {
            // The catalog grows while the program runs.
            let sites = self.space.sites().unwrap_or_default();
            self.operations.extend(sites.into_iter().map(|site| (site.id.0, escaped(&site.name))));
        }
        let name = self.operations.get(&operation).map_or("unknown", String::as_str);
        let nanoseconds = field("duration") as f64 * 1e9 / self.clock.hz();
        let (failed, time) = (field("outcome") != 0, self.clock.real_ns(event.time));
        writeln!(self.out, "calls,operation={name} ns={nanoseconds:.0},failed={failed} {time}")
    }
}

/// Escapes a tag's value for the line protocol.
fn escaped(text: &str) -> String {
    text.replace(',', "\\,").replace('=', "\\=").replace(' ', "\\ ").replace('\n', "\\ ")
}

fn written(path: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let space = SpaceReader::open(path)?;
    let (clock, out) = (space.info()?.clock, BufWriter::new(std::io::stdout()));
    let mut lines = Lines { space: &space, clock, operations: HashMap::new(), out, lost: 0 };
    let mut events = space.events().consuming();
    loop {
        // The check comes before the poll, so that the poll still reads the last events of a program that has
        // ended.
        let is_alive = space.is_alive();
        let mut failed = Ok(());
        let taken: Result<usize, Error> = events.poll(1 << 16, &mut |item| {
            if failed.is_ok() {
                failed = lines.take(&item);
            }
        });
        failed?;
        // The output is flushed before the next poll, because from then on the polled events may be
        // overwritten.
        lines.out.flush()?;
        match taken? {
            0 if !is_alive => return Ok(lines.lost),
            0 => std::thread::sleep(Duration::from_millis(1)),
            _ => {}
        }
    }
}

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: lines SPACE, the directory of a program's events as `thalweg ls` shows it");
        return ExitCode::from(2);
    };
    match written(&path) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(lost) => {
            eprintln!(
                "lines: {lost} events were overwritten before they could be read; with THALWEG_PROBE_FULL=wait the program waits"
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("lines: {error}");
            ExitCode::FAILURE
        }
    }
}
