//! Copies of the spaces of nodes on other machines, in the directory of the session: observers read them like
//! the spaces of this machine. They are fetched over the control connections, while somebody looks at the
//! session (`thalweg_space::copies`), and always if the session is kept.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use thalweg_link::{Exchange, Learned, PeerClock};
use thalweg_space::archive::{ClockMap, SpaceCopy};
use thalweg_space::copies::{self, Copies, CopyState};
use thalweg_space::discover;
use thalweg_space::reader::SpaceReader;
use thalweg_space::{Clock, Space};

use crate::channel::{Refused, hex};
use crate::talk::Talk;

/// How often a copy is updated, at most.
const FETCH_EVERY: Duration = Duration::from_millis(100);
/// How often the copy of a session that is kept is updated if nobody looks.
const KEEP_EVERY: Duration = Duration::from_millis(500);
/// How long after its last look an observer counts as looking.
const LOOKS_FOR: Duration = Duration::from_millis(2500);
/// How long nobody has looked when a copy is removed, if the session is not kept.
const FORGET_AFTER: Duration = Duration::from_secs(15);
/// The bytes of one answer, least and most, and the time that one may take: the state of the node is polled in
/// between, and an answer that takes too long would make the node seem lost.
const BYTES: (usize, usize) = (16 << 10, 1 << 20);
const ANSWER: Duration = Duration::from_millis(20);
/// How long the last events are fetched when the session ends: of one that is kept, and of one at which
/// somebody looks.
const LAST: (Duration, Duration) = (Duration::from_secs(120), Duration::from_secs(2));
/// The exchanges of times before the first copy, and before each update.
const EXCHANGES: (usize, usize) = (8, 2);
/// The most that the clocks of two machines drift apart, with the errors of their frequencies, in nanoseconds
/// a second.
const DRIFT_MAX: f64 = 500_000.0;

/// All copies of a session.
#[derive(Debug)]
pub(crate) struct CopyBook {
    session: PathBuf,
    copies: Copies,
    states: Mutex<(Vec<CopyState>, bool)>,
}

impl CopyBook {
    pub(crate) fn new(session: &Path) -> CopyBook {
        let states = Mutex::new((Vec::new(), true));
        CopyBook { session: session.to_owned(), copies: Copies::begin(session), states }
    }

    /// Notes how far the copy of a node is, or why it goes no further.
    fn note(&self, node: &str, until_ns: Option<u64>, missing: &str) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let at = states.0.iter().position(|state| state.node == node).unwrap_or_else(|| {
            states.0.push(CopyState { node: node.to_owned(), ..CopyState::default() });
            states.0.len() - 1
        });
        let state = &mut states.0[at];
        state.until_ns = until_ns.unwrap_or(state.until_ns);
        missing.clone_into(&mut state.missing);
        // An error is ignored: the file is only for observers, and a full disk is reported by what needs it.
        let _ = self.copies.write(&states.0, states.1);
    }

    /// All nodes have ended. What was kept stays, with the reasons why something is missing.
    pub(crate) fn end(&self, is_kept: bool) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.1 = false;
        match is_kept && !states.0.is_empty() {
            true => _ = self.copies.write(&states.0, false),
            false => {
                self.copies.end();
                for state in &states.0 {
                    // An error is ignored: `thalweg clean` removes what is left.
                    let _ = discover::remove(&self.session.join(copy_name(&state.node)));
                }
            }
        }
    }
}

/// Whether the space that a node has opened lies in a directory of this machine.
pub(crate) fn is_near(opened: &Value) -> bool {
    let path = opened["space"].as_str().unwrap_or_default();
    let info = SpaceReader::open(path).and_then(|reader| reader.info());
    info.is_ok_and(|info| opened["uuid"] == json!(hex(&info.uuid)))
}

/// The copy of one node's space.
pub(crate) struct Fetching {
    node: String,
    book: Arc<CopyBook>,
    keep: bool,
    /// The space of this process.
    own: SpaceReader,
    clock: Clock,
    /// The frequency of the node's clock, as the node knows it.
    hz: u64,
    peer: PeerClock,
    /// The first exchange since the clocks were comparable: ticks of the node's clock, and the time by this
    /// process's.
    first: Option<(u64, i64)>,
    last: (u64, i64),
    copy: Option<SpaceCopy>,
    /// When the present round began, in nanoseconds since 1970.
    round_ns: Option<u64>,
    until_ns: u64,
    fetched: Option<Instant>,
    bytes: usize,
    /// Nothing more is fetched.
    is_over: bool,
}

impl Fetching {
    /// `opened` is the node's answer when it opened its parts.
    pub(crate) fn new(
        node: &str,
        opened: &Value,
        own: &Space,
        book: Arc<CopyBook>,
        keep: bool,
    ) -> Option<Fetching> {
        let own = SpaceReader::open(own.path()).ok()?;
        book.note(node, Some(0), "");
        Some(Fetching {
            node: node.to_owned(),
            book,
            keep,
            own,
            clock: Clock::new(),
            hz: opened["hz"].as_u64().filter(|hz| *hz > 0)?,
            peer: PeerClock::new(DRIFT_MAX),
            first: None,
            last: (0, 0),
            copy: None,
            round_ns: None,
            until_ns: 0,
            fetched: None,
            bytes: BYTES.0,
            is_over: false,
        })
    }

    /// Fetches some of what the node has recorded, if that is due. Returns whether more is to be fetched at
    /// once.
    ///
    /// # Errors
    /// The connection is broken. That the node refuses, or that this machine cannot write the copy, only ends
    /// the copy.
    pub(crate) fn look(&mut self, talk: &mut Talk) -> Result<bool, Refused> {
        if self.is_over {
            return Ok(false);
        }
        self.set(talk)?;
        let now = now_ns();
        let wanted = self.book.copies.wanted_ns();
        let quiet = wanted.map_or(u64::MAX, |wanted| now.saturating_sub(wanted));
        let is_watched = u128::from(quiet) < LOOKS_FOR.as_nanos();
        let since = self.fetched.map_or(Duration::MAX, |fetched| fetched.elapsed());
        let is_new = is_watched && wanted > Some(self.until_ns);
        let is_due = self.round_ns.is_some()
            || is_new
            || since >= FETCH_EVERY && is_watched
            || since >= KEEP_EVERY && self.keep;
        if is_due {
            return self.fetch(talk, false);
        }
        if !self.keep && u128::from(quiet) > FORGET_AFTER.as_nanos() {
            self.forget(talk)?;
        }
        Ok(false)
    }

    /// Passes on what observers of the copy want the node to set.
    fn set(&mut self, talk: &mut Talk) -> Result<(), Refused> {
        let Some(copy) = &self.copy else { return Ok(()) };
        let asked = copies::taken(copy.path());
        if asked.is_empty() {
            return Ok(());
        }
        match talk.ask("set", json!({"settings": asked}), &[]) {
            // The observer sees that the value was not adopted.
            Err(refused) if !refused.is_broken => Ok(()),
            answered => answered.map(drop),
        }
    }

    /// Removes a copy that nobody reads any more, so that the next one begins with the events that the node
    /// has then.
    fn forget(&mut self, talk: &mut Talk) -> Result<(), Refused> {
        let Some(copy) = self.copy.take() else { return Ok(()) };
        let _ = copy.remove();
        talk.ask("unfetch", json!({}), &[]).map(drop)
    }

    /// Fetches what is left when the node's tasks have ended.
    pub(crate) fn finish(&mut self, talk: &mut Talk) -> Result<bool, Refused> {
        let wanted = self.book.copies.wanted_ns();
        let is_watched = wanted.is_some_and(|wanted| {
            u128::from(now_ns().saturating_sub(wanted)) < LOOKS_FOR.as_nanos() && self.copy.is_some()
        });
        let patience = if self.keep { LAST.0 } else { LAST.1 };
        let until = Instant::now() + patience;
        if self.is_over || !(self.keep || is_watched) {
            return Ok(false);
        }
        // The present round has to end first: the last one takes what came since.
        while self.round_ns.is_some() && !self.is_over && Instant::now() < until {
            self.fetch(talk, false)?;
        }
        while !self.is_over && self.fetch(talk, true)? {
            if Instant::now() > until {
                let limit = patience.as_secs();
                self.stop(&format!("the last events were not there {limit} s after the end of the run"));
            }
        }
        let is_whole = !self.is_over;
        if is_whole {
            self.publish(false);
        }
        self.is_over = true;
        Ok(is_whole)
    }

    /// The node is lost: what was fetched stays.
    pub(crate) fn lose(&mut self, why: &str) {
        if !self.is_over {
            self.stop(&format!("node {} is lost: {why}", self.node));
        }
    }

    fn stop(&mut self, why: &str) {
        self.publish(false);
        self.is_over = true;
        self.book.note(&self.node, None, why);
    }

    fn fetch(&mut self, talk: &mut Talk, is_last: bool) -> Result<bool, Refused> {
        if self.round_ns.is_none() {
            self.exchange(talk, if self.first.is_none() { EXCHANGES.0 } else { EXCHANGES.1 })?;
            self.round_ns = Some(now_ns());
        }
        let begun = Instant::now();
        let (answer, pieces) = match talk.ask("fetch", json!({"most": self.bytes, "last": is_last}), &[]) {
            Ok(answered) => answered,
            Err(refused) if refused.is_broken => return Err(refused),
            Err(refused) => {
                self.stop(&format!("node {} cannot send its events: {}", self.node, refused.why));
                return Ok(false);
            }
        };
        self.bytes = match begun.elapsed() {
            took if took > ANSWER => self.bytes / 2,
            took if took < ANSWER / 2 => self.bytes * 2,
            _ => self.bytes,
        };
        self.bytes = self.bytes.clamp(BYTES.0, BYTES.1);
        if let Err(error) = self.write(&pieces) {
            self.stop(&format!("the copy of node {} cannot be written: {error:#}", self.node));
            return Ok(false);
        }
        if answer["complete"] != json!(true) {
            return Ok(true);
        }
        self.fetched = Some(Instant::now());
        self.publish(true);
        self.until_ns = self.round_ns.take().unwrap_or(self.until_ns);
        if !self.is_over {
            self.book.note(&self.node, Some(self.until_ns), "");
        }
        Ok(false)
    }

    fn write(&mut self, pieces: &[u8]) -> Result<(), thalweg_space::Error> {
        let copy = match &mut self.copy {
            Some(copy) => copy,
            none => none.insert(SpaceCopy::create(&self.book.session, &copy_name(&self.node))?),
        };
        copy.take(pieces)
    }

    fn publish(&mut self, lives: bool) {
        let map = self.clock_map();
        let Some((copy, map)) = self.copy.as_mut().zip(map) else { return };
        if let Err(error) = copy.publish(map, lives) {
            self.is_over = true;
            let why = format!("the copy of node {} cannot be written: {error:#}", self.node);
            self.book.note(&self.node, None, &why);
        }
    }

    /// Compares the clocks.
    fn exchange(&mut self, talk: &mut Talk, count: usize) -> Result<(), Refused> {
        for _ in 0..count {
            let own = |clock: &Clock| ns(clock.now(), clock.hz().round() as u64);
            let client_sent_ns = own(&self.clock);
            let (answer, _) = talk.ask("ticks", json!({}), &[])?;
            let client_received_ns = own(&self.clock);
            let ticks = |key: &str| answer[key].as_u64().unwrap_or_default();
            let (received, sent) = (ticks("received"), ticks("sent"));
            let learned = self.peer.learn(Exchange {
                client_sent_ns,
                server_received_ns: ns(received, self.hz),
                server_sent_ns: ns(sent, self.hz),
                client_received_ns,
            });
            if learned == Learned::Impossible {
                continue;
            }
            self.last = (sent, client_received_ns);
            if learned == Learned::Stepped || self.first.is_none() {
                self.first = Some(self.last);
            }
        }
        Ok(())
    }

    /// Which times by this machine's clock the times of the node's events are.
    fn clock_map(&self) -> Option<ClockMap> {
        let own = self.own.info().ok()?.clock;
        let hz = self.clock.hz().round();
        let moment = |(ticks, at_ns): (u64, i64)| {
            let bound = self.peer.bound(at_ns)?;
            let own_ns = ns(ticks, self.hz).saturating_add(bound.middle_ns());
            let own_ticks = (own_ns as f64 / 1e9 * hz) as u64;
            Some(((ticks, own.real_ns(own_ticks)), bound.error_ns().unsigned_abs()))
        };
        let (first, first_error) = moment(self.first?)?;
        let (last, last_error) = moment(self.last)?;
        Some(ClockMap { first, last, error_ns: first_error.max(last_error) })
    }
}

/// The name of the directory of a node's copy.
fn copy_name(node: &str) -> String {
    format!("node-{node}")
}

/// Ticks of a clock as nanoseconds since its start.
fn ns(ticks: u64, hz: u64) -> i64 {
    (u128::from(ticks) * 1_000_000_000 / u128::from(hz.max(1))).try_into().unwrap_or(i64::MAX)
}

/// Nanoseconds since 1970.
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
