//! Stories of messages: of all processes of a session, across the links between them.

use std::collections::HashMap;

use thalweg_space::Error;
use thalweg_space::reader::{Feed, Item};

use crate::following::follower::{Follower, report};
use crate::following::gathering::of_space;
use crate::ids::StreamId;
use crate::lineage::message::MessageId;
use crate::lineage::story::{Found, Hop, Story, Tracing};
use crate::report::MessageTimes;

/// The most links that a message and its descendants are followed across, one after the other.
const LINKS_MAX: usize = 64;
/// The kind of event by which both ends of a link record which message of a stream each message of the link is.
const JOINT: &str = "net.joint";
/// The name in that event for the end at which records leave.
const OUT: u64 = 0;

/// The story of one message; `None` if no event of the feed concerns the message. The feed is read twice from
/// its beginning, and twice more for each link that the message or its descendants passed.
///
/// # Errors
/// As [`report`].
pub fn story<F: Feed>(feed: &F, message: MessageId) -> Result<Option<Story>, Error> {
    let joints = Joints::read(feed)?;
    let (mut from, mut seen, mut input) = (message, false, None);
    for _ in 0..LINKS_MAX {
        let Some(at) = place(feed, from.stream.space) else { break };
        let entries = joints.entries(from.stream.space);
        let seek = traced(feed, at, |ns_per_tick| Tracing::seek(ns_per_tick, from.local(), &entries))?;
        if !seek.seen {
            break;
        }
        seen = true;
        input = seek.input.map(|input| of_place(input, from.stream.space));
        from = input.unwrap_or(from);
        match joints.other_end(from, false) {
            Some(sent) => (from, input) = (sent, None),
            None => break,
        }
    }
    if !seen {
        return Ok(None);
    }
    let mut story = Story {
        message: message.to_string(),
        input: input.map(|input| input.to_string()),
        ..Story::default()
    };
    Descent::of(feed, joints, &mut story).follow(from)?;
    Ok(Some(story))
}

/// The same message, with the number of its space.
fn of_place(message: MessageId, space: u32) -> MessageId {
    MessageId { stream: StreamId { space, ..message.stream }, ..message }
}

/// The descendants of a message, across links.
pub(super) struct Descent<'a, F> {
    feed: &'a F,
    joints: Joints,
    story: &'a mut Story,
    /// The beginning of the process in which the story begins, in nanoseconds since 1970.
    base_ns: Option<f64>,
}

/// A message that a process received, in the story of the one that was sent.
struct Received {
    message: MessageId,
    parent: String,
    depth: u64,
    /// A time before which the message was not sent.
    sent_ns: Option<f64>,
}

impl<'a, F: Feed> Descent<'a, F> {
    pub(super) fn of(feed: &'a F, joints: Joints, story: &'a mut Story) -> Descent<'a, F> {
        Descent { feed, joints, story, base_ns: None }
    }

    fn follow(&mut self, first: MessageId) -> Result<(), Error> {
        self.follow_all(&[first])
    }

    /// Follows several messages at once. The story has one tree after the other.
    pub(super) fn follow_all(&mut self, messages: &[MessageId]) -> Result<(), Error> {
        let begin =
            |&message: &MessageId| Received { message, parent: String::new(), depth: 0, sent_ns: None };
        let mut left: Vec<Received> = messages.iter().map(begin).collect();
        for round in 0.. {
            let Some(space) = left.first().map(|received| received.message.stream.space) else { break };
            if round == LINKS_MAX {
                self.story.cut_short = true;
                break;
            }
            let (of_it, others) = left.into_iter().partition(|one| one.message.stream.space == space);
            left = others;
            left.extend(self.in_space(space, of_it)?);
        }
        Ok(())
    }

    /// Follows messages in one space, in one pass over the events. Returns what their descendants were received
    /// as in other spaces.
    fn in_space(&mut self, space: u32, received: Vec<Received>) -> Result<Vec<Received>, Error> {
        let Some(at) = place(self.feed, space) else { return Ok(Vec::new()) };
        let local: Vec<MessageId> = received.iter().map(|one| one.message.local()).collect();
        let found = traced(self.feed, at, |ns_per_tick| Tracing::follow(ns_per_tick, local.clone()))?;
        self.story.cut_short |= found.cut_short;
        let info = self.feed.spaces()[at].info()?;
        let begin_ns = info.clock.real_ns(found.begin) as f64;
        let since_ns = begin_ns - *self.base_ns.get_or_insert(begin_ns);
        let error_ns = info.clock_error_ns.map(|error| error as f64);
        let mut more = Vec::new();
        for Received { message, parent, depth, sent_ns } in received {
            let part = of_space(part_of(&found, &message.local().to_string()), space);
            let mut hops = part.hops;
            let Some(first) = hops.first_mut().filter(|_| !parent.is_empty()) else {
                self.add(hops, since_ns, depth, sent_ns, &mut more);
                continue;
            };
            first.parent = Some(parent);
            self.story.clock_error_ns = match (self.story.clock_error_ns, error_ns) {
                (Some(known), Some(error)) => Some(f64::max(known, error)),
                (known, error) => known.or(error),
            };
            self.add(hops, since_ns, depth, sent_ns, &mut more);
        }
        Ok(more)
    }

    /// Adds messages to the story, after the message from which the first of them descends.
    fn add(
        &mut self,
        mut hops: Vec<Hop>,
        since_ns: f64,
        depth: u64,
        sent_ns: Option<f64>,
        more: &mut Vec<Received>,
    ) {
        // No message is received before it was sent: such times are the error of a clock.
        let mut is_early = false;
        let mut clamped = |time: &mut Option<f64>| {
            let shifted = time.map(|time| time + since_ns);
            is_early |= shifted < sent_ns && shifted.is_some();
            *time = shifted.map(|time| sent_ns.map_or(time, |sent| time.max(sent)));
        };
        for hop in &mut hops {
            clamped(&mut hop.written_ns);
            clamped(&mut hop.read_ns);
            hop.depth += depth;
        }
        self.story.clamped += u64::from(is_early);
        for hop in &mut hops {
            let Some(id) = hop.message.parse().ok() else { continue };
            if let Some(message) = self.joints.other_end(id, true) {
                "went to another process".clone_into(&mut hop.fate);
                let (parent, depth) = (hop.message.clone(), hop.depth + 1);
                // The dispatch that read the message may have begun before the message was written.
                let sent_ns = match (hop.read_ns, hop.written_ns) {
                    (Some(read), Some(written)) => Some(read.max(written)),
                    (read, written) => read.or(written),
                };
                more.push(Received { message, parent, depth, sent_ns });
            }
        }
        let parent = hops.first().and_then(|first| first.parent.clone());
        let all = &mut self.story.hops;
        let at = all.iter().position(|hop| Some(&hop.message) == parent.as_ref());
        // After the descendants that the parent has already.
        let place = at.map_or(all.len(), |at| {
            let depth = all[at].depth;
            all[at + 1..].iter().position(|hop| hop.depth <= depth).map_or(all.len(), |next| at + 1 + next)
        });
        all.splice(place..place, hops);
    }
}

/// Which messages of the streams at both ends of links are the same.
#[derive(Default)]
pub(super) struct Joints {
    runs: Vec<Run>,
}

/// From message `number` of a link on, its messages are those of a stream from `index` on.
struct Run {
    space: u32,
    link: u64,
    is_out: bool,
    number: u64,
    stream: u64,
    index: u64,
    /// The number of messages that correspond; `u64::MAX` if no later run is known.
    count: u64,
}

impl Joints {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn read<F: Feed>(feed: &F) -> Result<Joints, Error> {
        let mut joints = Joints::default();
        if feed.is_single() {
            return Ok(joints);
        }
        let mut again = feed.again()?;
        let runs = &mut joints.runs;
        let mut take = |space: usize, item: Item<'_>| {
            let Item::Event(event) = item else { return };
            if event.kind.name != JOINT {
                return;
            }
            let value = |name: &str| event.kind.field(name).map(|field| event.u64(field));
            let run = || {
                Some(Run {
                    space: space as u32 + 1,
                    link: value("link")?,
                    is_out: value("way")? == OUT,
                    number: value("number")?,
                    stream: value("stream")?,
                    index: value("index")?,
                    count: u64::MAX,
                })
            };
            runs.extend(run());
        };
        while again.poll(1 << 16, &mut take)? > 0 {}
        joints.bound();
        Ok(joints)
    }

    /// The streams of a space that get their messages from links.
    pub(super) fn entries(&self, space: u32) -> Vec<u64> {
        let received = self.runs.iter().filter(|run| run.space == space && !run.is_out);
        let mut streams: Vec<u64> = received.map(|run| run.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        streams
    }

    /// Finds the ends of all runs.
    fn bound(&mut self) {
        self.runs.sort_by_key(|run| (run.space, run.link, run.is_out, run.number));
        for at in 1..self.runs.len() {
            let (before, after) = self.runs.split_at_mut(at);
            let (Some(run), Some(next)) = (before.last_mut(), after.first()) else { continue };
            if (run.space, run.link, run.is_out) == (next.space, next.link, next.is_out) {
                run.count = next.number - run.number;
                // Messages that correspond to none lie between the runs.
                if run.stream == next.stream && next.index >= run.index {
                    run.count = run.count.min(next.index - run.index);
                }
            }
        }
    }

    /// The message at the other end of the link that carried this one: the one that was received, if this one
    /// was sent (`is_sent`), or the one that was sent, if this one was received.
    fn other_end(&self, message: MessageId, is_sent: bool) -> Option<MessageId> {
        let StreamId { space, number: stream } = message.stream;
        let here = self.runs.iter().find(|run| {
            let place = message.index.checked_sub(run.index);
            (run.space, run.stream, run.is_out) == (space, stream, is_sent)
                && place.is_some_and(|place| place < run.count)
        })?;
        let number = here.number + (message.index - here.index);
        let there = self.runs.iter().find(|run| {
            let place = number.checked_sub(run.number);
            (run.link, run.is_out) == (here.link, !is_sent) && place.is_some_and(|place| place < run.count)
        })?;
        let index = there.index + (number - there.number);
        Some(MessageId { stream: StreamId { space: there.space, number: there.stream }, index })
    }
}

/// The input messages that took longest, at most `count` and not more than a report keeps, with the stories
/// of their descendants, slowest first. The feed is read again from its beginning.
///
/// # Errors
/// As [`report`].
pub fn slowest<F: Feed>(feed: &F, count: usize) -> Result<Vec<(MessageTimes, Story)>, Error> {
    let mut slowest = report(feed.again()?, count)?.slowest;
    slowest.truncate(count);
    let ids: Vec<MessageId> = slowest.iter().filter_map(|slow| slow.message.parse().ok()).collect();
    let mut found: HashMap<String, Story> =
        stories(feed, &ids)?.into_iter().map(|story| (story.message.clone(), story)).collect();
    Ok(slowest.into_iter().filter_map(|slow| Some((slow.clone(), found.remove(&slow.message)?))).collect())
}

/// The stories of these messages and of their descendants. The feed is read again, once for each space.
///
/// # Errors
/// As [`report`].
pub fn stories<F: Feed>(feed: &F, messages: &[MessageId]) -> Result<Vec<Story>, Error> {
    let mut spaces: Vec<u32> = messages.iter().map(|id| id.stream.space).collect();
    spaces.sort_unstable();
    spaces.dedup();
    let mut stories = Vec::new();
    for space in spaces {
        let of_it = messages.iter().filter(|id| id.stream.space == space);
        let local: Vec<MessageId> = of_it.map(MessageId::local).collect();
        let Some(at) = place(feed, space) else { continue };
        let found = traced(feed, at, |ns_per_tick| Tracing::follow(ns_per_tick, local.clone()))?;
        stories.extend(local.iter().map(|id| of_space(part_of(&found, &id.to_string()), space)));
    }
    Ok(stories)
}

/// The story of `message`, which was followed together with other messages.
fn part_of(found: &Found, message: &str) -> Story {
    let mut hops = found.hops.iter().skip_while(|hop| hop.message != message);
    let first = hops.next().cloned();
    let hops = first.into_iter().chain(hops.take_while(|hop| hop.depth > 0).cloned()).collect();
    let input = Some(message.to_owned());
    Story { message: message.to_owned(), input, hops, cut_short: found.cut_short, ..Story::default() }
}

/// The place in the feed of the space that ids name by the number `space`.
fn place(feed: &impl Feed, space: u32) -> Option<usize> {
    let at = if feed.is_single() { 0 } else { (space as usize).checked_sub(1)? };
    (at < feed.spaces().len()).then_some(at)
}

/// Reads all events of the feed once and traces messages in one space.
fn traced<F: Feed>(feed: &F, space: usize, tracing: impl FnOnce(f64) -> Tracing) -> Result<Found, Error> {
    let mut tracing = tracing(1e9 / feed.spaces()[space].info()?.clock.hz());
    let mut follower = Follower::with(feed.again()?, 1, space, vec![Box::new(&mut tracing)])?;
    follower.poll();
    follower.finish()?;
    Ok(tracing.found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(space: u32, is_out: bool, number: u64, index: u64) -> Run {
        Run { space, link: 9, is_out, number, stream: u64::from(space) * 10, index, count: u64::MAX }
    }

    #[test]
    fn messages_that_correspond_to_none_are_left_out() {
        // The sender leaves out its message 5; the receiver drops message 8 of the link.
        let runs = vec![run(1, true, 0, 0), run(1, true, 5, 6), run(2, false, 0, 0), run(2, false, 9, 8)];
        let mut joints = Joints { runs };
        joints.bound();
        let other = |text: &str, is_sent: bool| {
            let message = text.parse().expect("a message");
            joints.other_end(message, is_sent).map(|other| other.to_string())
        };
        let pairs = [("1/10:0", "2/20:0"), ("1/10:4", "2/20:4"), ("1/10:6", "2/20:5"), ("1/10:10", "2/20:8")];
        for (sent, received) in pairs {
            assert_eq!(other(sent, true).as_deref(), Some(received));
            assert_eq!(other(received, false).as_deref(), Some(sent));
        }
        assert_eq!(other("1/10:5", true), None, "it was not sent");
        assert_eq!(other("1/10:9", true), None, "it was dropped when it was received");
        assert_eq!(other("1/20:0", true), None, "another stream");
        assert_eq!(other("1/10:0", false), None, "it was sent, and not received");
    }
}
