//! Recording of views: the tuples of a view are written into a space of this process, which is recorded like
//! any other space.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thalweg_host::amount::count;
use thalweg_host::{Recording, spaces};
use thalweg_scope::{Backlog, Keeper, Price, Pull, Scope, Target, View};
use thalweg_space::{Space, SpaceOptions};

use super::Arguments;
use crate::Terminal;
use crate::commands::scope::print_problems;
use crate::failure::Failure;
use crate::removed::Removed;
use crate::units::{duration, rate, share};

/// The pause between two checks for tuples that can be archived.
const PAUSE: Duration = Duration::from_millis(20);

pub(super) fn main(
    view: &View,
    from: PathBuf,
    arguments: &Arguments,
    interrupted: &AtomicBool,
    terminal: Terminal,
) -> Result<(), Failure> {
    if arguments.writer.is_some() {
        let text = "`--writer` chooses of what a run records; a view chooses by the `element` of its leaf";
        return Err(Failure::Usage(text.to_owned()));
    }
    let mut scope = Scope::open(view, Target::of(from), Backlog::All)?;
    *scope.price() = Price::new(arguments.budget / 100.0);
    let mut kept = Kept::begin(arguments)?;
    let begun = Instant::now();
    let (mut lost, mut is_damaged, mut has_reported_rate) = (0, false, false);
    loop {
        let pulled = match view.pull {
            Pull::Since => scope.pull_since(),
            Pull::Latest => scope.pull_latest(),
        };
        print_problems(&pulled, terminal);
        is_damaged |= !pulled.problems.is_empty();
        lost += pulled.lost + pulled.left_out;
        let Kept { keeper, recording, .. } = &mut kept;
        keeper.keep(&pulled.batch, || archived(recording, interrupted, terminal))?;
        let is_over = arguments.how_long.is_some_and(|time| begun.elapsed() >= time);
        if pulled.is_over || is_over || interrupted.load(Ordering::Relaxed) {
            break;
        }
        let wait = scope.price().wait().max(arguments.every);
        if wait > arguments.every.mul_f64(1.05) && !std::mem::replace(&mut has_reported_rate, true) {
            let price = scope.price();
            let (share, rate) = (share(price.share()), rate(price.rate_allowed()));
            print_stderr!("pulled less often than asked: {share} of the processor time allows {rate}");
        }
        let left = arguments.how_long.map_or(wait, |time| time.saturating_sub(begun.elapsed()).min(wait));
        let until = Instant::now() + left;
        while let Some(left) = until.checked_duration_since(Instant::now())
            && !interrupted.load(Ordering::Relaxed)
        {
            archived(&mut kept.recording, interrupted, terminal)?;
            std::thread::sleep(left.min(PAUSE));
        }
    }
    kept.end(begun.elapsed(), lost, arguments)?;
    if is_damaged { Err(Failure::Reported(Failure::USAGE)) } else { Ok(()) }
}

/// Moves the written tuples into the archive. If the disk is full, waits for room, unless `--on-full` says
/// otherwise.
fn archived(recording: &mut Recording, interrupted: &AtomicBool, terminal: Terminal) -> Result<(), Failure> {
    loop {
        recording.step()?;
        for problem in recording.problems() {
            Failure::coded("E0903", problem).print(terminal);
        }
        if let Some(why) = recording.full() {
            let text = format!(
                "the archive cannot be written: {why}: free some room; the view is not pulled meanwhile"
            );
            Failure::coded("E0903", text).print(terminal);
        }
        if recording.full_for().is_none() || interrupted.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

/// The space that tuples are written into, and its archive.
struct Kept {
    keeper: Keeper,
    recording: Recording,
    /// The space is removed at the end. If the process is killed, the space stays, with all tuples that were
    /// not archived.
    space: Removed,
}

impl Kept {
    fn begin(arguments: &Arguments) -> Result<Kept, Failure> {
        let options = SpaceOptions {
            name: spaces::VIEW_RECORDER.to_owned(),
            parent: Some(spaces::parent()?),
            ..SpaceOptions::default()
        };
        let space = Space::create(options).map_err(Failure::usage)?;
        let removed = Removed::new(&space);
        let keeper = Keeper::new(space)?;
        let recording = Recording::open(arguments.plan(removed.path()))?;
        Ok(Kept { keeper, recording, space: removed })
    }

    fn end(self, took: Duration, lost: u64, arguments: &Arguments) -> Result<(), Failure> {
        let Kept { keeper, recording, space } = self;
        let tuples = keeper.kept();
        keeper.finish();
        let recorded = recording.finish()?;
        drop(space);
        let each = recorded.bytes as f64 / recorded.events.max(1) as f64;
        let missing = tuples.saturating_sub(recorded.events) + recorded.lost;
        let loss = match lost + missing {
            0 => "none is lost".to_owned(),
            lost => format!("{} are lost", count(lost)),
        };
        let took = duration(took.as_nanos() as f64);
        print_stderr!("{} tuples in {took}, {each:.1} bytes each: {loss}", count(recorded.events));
        print_stderr!(
            "they are in {}: thalweg events {}",
            arguments.output.display(),
            arguments.output.display()
        );
        Ok(())
    }
}
