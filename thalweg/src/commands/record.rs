//! `thalweg record`: keep the events of a run or of all runs of a session, or the tuples of a view, in an
//! archive.

mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use thalweg_host::amount::{count, size, time};
use thalweg_host::{Recording, RecordingPlan, spaces};
use thalweg_scope::{Price, built_in};

use crate::Terminal;
use crate::commands::run::WhenFull;
use crate::failure::Failure;
use crate::units::duration;

const EXAMPLES: &str = "\
Examples:
  # the newest run, until it ends or Ctrl-C
  thalweg record --output ./kept
  # ten minutes of process 4242
  thalweg record 4242 --output ./kept --for 10min
  # a session, of each process the newest 2 GB
  thalweg record together --output ./kept --max-size 2GB
  # what a view gives, pulled every 100 ms
  thalweg record slow --output ./slow --for 1min
  thalweg record mine.toml 4242 -o ./mine
  # what was kept
  thalweg report ./kept
  thalweg events ./kept --window 4s..5s

The archive is a directory that every command takes as a space (of a session: as a session), while it is recorded or \
later. A recorder that is killed loses what it took since the last --sync; started again with the same --output, it \
goes on from there. A view's archive has the view's tuples, for `thalweg events` and `thalweg scope`; it is not gone on with.";

/// The interval at which progress is shown.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// The arguments of `thalweg record`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "thalweg record [OPTIONS] -o DIR [SPACE|SESSION]
       thalweg record [OPTIONS] -o DIR VIEW [SPACE|SESSION]")]
pub(crate) struct Arguments {
    /// A space: its path, or a name or process id that `thalweg ls` shows; or a session, with all processes
    /// that join it. The newest space if omitted. A view may come first: a name that `thalweg scope ls`
    /// lists, or a file `.toml`. With a view its tuples are kept instead of all events.
    #[arg(value_name = "VIEW|SPACE|SESSION", num_args = 0..=2)]
    what: Vec<String>,
    /// The directory of the archive: new, empty, or with an archive of the same run.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Only the events of writers (threads, collectors) with such names, where `*` stands for any characters
    /// but `/`, `**` for any, `?` for one.
    #[arg(long, value_name = "PATTERN")]
    writer: Option<String>,
    /// End after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    how_long: Option<Duration>,
    /// Remove the oldest segments when the archive (in a session: each process's) is larger than this.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Remove segments that were finished longer ago than this.
    #[arg(long, value_name = "TIME", value_parser = time)]
    max_age: Option<Duration>,
    /// The longest time until events are on the disk. A longer time makes the archive of a quiet run smaller.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    sync: Duration,
    /// The level of compression, from 1 (fast) to 19 (small); 0 keeps events uncompressed, for programs that
    /// record faster than this machine compresses.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(0..=19))]
    level: i32,
    /// Pull the view once in this time.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "100ms")]
    every: Duration,
    /// Share of this machine's processor time that pulls of the view may take, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0 * Price::SHARE)]
    budget: f64,
    /// The reaction to a full disk.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = WhenFull::Wait)]
    on_full: WhenFull,
}

impl Arguments {
    /// The options of the recorder for the archive of this directory.
    fn plan(&self, from: &Path) -> RecordingPlan {
        RecordingPlan {
            writers: self.writer.clone(),
            on_full: self.on_full.into(),
            sync: self.sync,
            level: self.level,
            max_bytes: self.max_size,
            max_age: self.max_age,
            ..RecordingPlan::of(from, &self.output)
        }
    }
}

/// Whether `name` is the name of a view, and not of a space.
fn is_view(name: &str) -> bool {
    built_in().iter().any(|view| view.name == name) || name.ends_with(".toml")
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let (view, space) = match &arguments.what[..] {
        [] => (None, None),
        [one] if is_view(one) => (Some(one), None),
        [one] => (None, Some(one.as_str())),
        [view, space, ..] => (Some(view), Some(space.as_str())),
    };
    let from = spaces::find_feed(space)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|error| Failure::run("cannot listen to Ctrl-C", error))?;
    }
    if let Some(view) = view {
        return view::main(&super::scope::read(view)?.1, from, arguments, &interrupted, terminal);
    }
    let mut recording = Recording::open(arguments.plan(&from))?;
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("a template without mistakes"));
    let begun = Instant::now();
    let mut shown = begun;
    let mut failed = None;
    loop {
        let goes_on = recording.step();
        print_problems(&mut recording, &bar, terminal);
        match goes_on {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
        let is_over = arguments.how_long.is_some_and(|time| begun.elapsed() >= time);
        if is_over || interrupted.load(Ordering::Relaxed) {
            break;
        }
        if shown.elapsed() >= PROGRESS_EVERY {
            shown = Instant::now();
            bar.set_message(progress(&recording));
            bar.tick();
        }
    }
    bar.finish_and_clear();
    if let Some(error) = failed {
        // The events that were read are still archived as far as the disk has room.
        let _ = recording.finish();
        return Err(error.into());
    }
    let seconds = begun.elapsed().as_nanos() as f64;
    let recorded = recording.finish()?;
    let each = recorded.bytes as f64 / recorded.events.max(1) as f64;
    let lost = match recorded.lost {
        0 => "none is lost".to_owned(),
        lost => format!("{} are lost, `thalweg events` says where", count(lost)),
    };
    print_stderr!(
        "{} events in {}, {each:.1} bytes each where they had {:.1}: {lost}",
        count(recorded.events),
        duration(seconds),
        recorded.event_bytes as f64 / recorded.events.max(1) as f64,
    );
    print_stderr!(
        "they are in {}: thalweg report {}",
        arguments.output.display(),
        arguments.output.display()
    );
    Ok(())
}

/// Prints problems of the recording as soon as they occur.
fn print_problems(recording: &mut Recording, bar: &ProgressBar, terminal: Terminal) {
    let mut messages = recording.problems();
    if let Some(why) = recording.full() {
        messages.push(format!(
            "the archive cannot be written: {why}: free some room; what is recorded waits in memory as long as there is room \
             for it there"
        ));
    }
    for message in messages {
        bar.suspend(|| Failure::coded("E0903", message).print(terminal));
    }
}

fn progress(recording: &Recording) -> String {
    let progress = recording.progress();
    let full = recording.full_for().map_or_else(String::new, |_| "; the disk is full".to_owned());
    let lost = if progress.lost_bytes > 0 { "; some were overwritten before they were kept" } else { "" };
    format!("{} events, {} bytes{lost}{full}", count(progress.events), count(progress.bytes))
}
