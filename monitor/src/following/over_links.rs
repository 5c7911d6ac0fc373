//! The times from input to output of a run over several nodes, of a sample of its inputs: each is followed across the
//! links, as a story is.

use std::collections::HashSet;

use thalweg_space::Error;
use thalweg_space::reader::Feed;

use crate::composing::dispatch::What;
use crate::decoding::events::{Entry, Observation};
use crate::decoding::observation::Run;
use crate::following::follower::Follower;
use crate::following::stories::{Descent, Joints};
use crate::ids::StreamId;
use crate::lineage::message::MessageId;
use crate::lineage::story::{Hop, Story};
use crate::monitor::{Batch, Moment, Monitor};
use crate::report::distribution::Times;
use crate::report::{OverLinks, Report};

/// The messages by which records enter a network.
#[derive(Default)]
struct Inputs {
    streams: HashSet<u64>,
    /// The messages of these streams; those that follow each other are one run.
    runs: Vec<Run>,
}

impl Monitor for Inputs {
    fn name(&self) -> &str {
        "inputs"
    }

    fn wants(&self) -> &[&str] {
        &["run.dispatch", "net.entry"]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            match item.what {
                What::Runtime(Observation::Entry(Entry { stream })) => _ = self.streams.insert(stream),
                What::Dispatch(dispatch) => {
                    for run in batch.writes(&dispatch).iter().filter(|run| self.streams.contains(&run.stream))
                    {
                        match self.runs.last_mut() {
                            Some(last)
                                if (last.stream, last.first + last.count) == (run.stream, run.first) =>
                            {
                                last.count += run.count;
                            }
                            _ => self.runs.push(*run),
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn restart(&mut self, _: u64) {}

    fn publish(&mut self, _: &Moment<'_>, _: &mut Report) {}
}

impl Inputs {
    fn leave_out(&mut self, stream: u64) {
        self.runs.retain(|run| run.stream != stream);
    }

    /// At most `count` of the messages, at equal distances.
    fn sample(&self, space: u32, count: u64) -> Vec<MessageId> {
        let all: u64 = self.runs.iter().map(|run| run.count).sum();
        let taken = count.min(all);
        let nth = |mut n: u64| {
            let run = self.runs.iter().find(|run| {
                let is_in = n < run.count;
                n -= if is_in { 0 } else { run.count };
                is_in
            })?;
            Some(MessageId { stream: StreamId { space, number: run.stream }, index: run.first + n })
        };
        (0..taken).filter_map(|at| nth(at * all / taken)).collect()
    }
}

/// The times from input to output in a session of processes with links between them, for at most `count` inputs; `None`
/// if the session has no links. The feed is read again for each process that the inputs pass, one after the other.
///
/// # Errors
/// As [`report`](crate::report()).
pub fn over_links<F: Feed>(feed: &F, count: u64) -> Result<Option<OverLinks>, Error> {
    let joints = Joints::read(feed)?;
    if joints.is_empty() {
        return Ok(None);
    }
    let mut inputs = Vec::new();
    for at in 0..feed.spaces().len() {
        let mut found = Inputs::default();
        let mut follower = Follower::with(feed.again()?, 1, at, vec![Box::new(&mut found)])?;
        follower.poll();
        follower.finish()?;
        // What a link brings is no input.
        joints.entries(at as u32 + 1).iter().for_each(|stream| found.leave_out(*stream));
        inputs.extend(found.sample(at as u32 + 1, count));
    }
    let mut story = Story::default();
    Descent::of(feed, joints, &mut story).follow_all(&inputs)?;
    let mut times = Times::new();
    let mut left_out = 0;
    for tree in trees(&story.hops) {
        match end_to_end_ns(tree) {
            Some(ns) => times.record(ns),
            None => left_out += 1,
        }
    }
    let end_to_end = times.summary();
    Ok(Some(OverLinks { end_to_end, left_out, clock_error_ns: story.clock_error_ns }))
}

/// The hops of each input.
fn trees(hops: &[Hop]) -> impl Iterator<Item = &[Hop]> {
    hops.chunk_by(|_, next| next.depth > 0)
}

/// The time from an input's entry until the last of its descendants left; `None` if one has not left yet, or if some of
/// it was not recorded.
fn end_to_end_ns(tree: &[Hop]) -> Option<f64> {
    let entered = tree.first()?.written_ns?;
    let is_open = |hop: &Hop| hop.fate == "in the stream" || hop.read_ns.is_none();
    if tree.iter().any(is_open) {
        return None;
    }
    // A message that went to another process has descendants there, if they were recorded.
    let goes_on = |at: usize| tree.get(at + 1).is_some_and(|next| next.depth > tree[at].depth);
    if (0..tree.len()).any(|at| tree[at].fate == "went to another process" && !goes_on(at)) {
        return None;
    }
    let left = tree.iter().filter_map(|hop| hop.read_ns).fold(entered, f64::max);
    Some(left - entered)
}
