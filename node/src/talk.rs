//! The control connection of a run to one node. A connection that breaks is made again, and no question is
//! carried out twice: questions are numbered, and the node keeps its last answer ([`crate::held`]).

use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_host::Error;

use crate::channel::{Channel, Refused};
use crate::cluster::{Cluster, Known};

/// How long a node may take to load a network.
pub(crate) const OPENING: Duration = Duration::from_secs(60);
/// The pauses between attempts to connect again.
const PAUSES: std::ops::Range<Duration> = Duration::from_millis(2)..Duration::from_millis(100);

/// The control connection to a node.
pub(crate) struct Talk {
    known: Known,
    cluster: Cluster,
    channel: Channel,
    /// The name by which the node finds the session of a connection that broke.
    key: String,
    /// The number of the last question.
    number: u64,
    /// How long the node may be silent.
    patience: Duration,
}

impl Talk {
    /// Connects to a node. `key` names what belongs to the connection on this node; nobody else knows it.
    pub(crate) fn connect(cluster: &Cluster, known: &Known, key: String) -> Result<Talk, Error> {
        let channel = cluster.connect(known)?;
        let (known, cluster) = (known.clone(), cluster.clone());
        Ok(Talk { known, cluster, channel, key, number: 0, patience: crate::LEASE })
    }

    pub(crate) fn known(&self) -> &Known {
        &self.known
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Whether the certificate that the node has shown is revoked.
    pub(crate) fn is_revoked(&self) -> bool {
        self.channel.shown().is_some_and(|shown| self.cluster.certificates().is_revoked(&shown))
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Sets how long the node may be silent.
    pub(crate) fn set_patience(&mut self, patience: Duration) -> io::Result<()> {
        self.patience = patience;
        self.channel.set_patience(Some(patience))
    }

    /// Asks the node; if the connection breaks, over a new one.
    pub(crate) fn ask(&mut self, what: &str, with: Value, blob: &[u8]) -> Result<(Value, Vec<u8>), Refused> {
        let until = Instant::now() + self.patience;
        let with = self.numbered(with);
        loop {
            match self.channel.ask(what, with.clone(), blob) {
                Err(refused) if refused.is_cut => self.connect_again(refused, until)?,
                answered => return answered,
            }
        }
    }

    /// Sends a request that the node may take long to carry out. The wait for the answer lasts at most
    /// [`OPENING`], and only as long as the node still accepts new connections.
    pub(crate) fn ask_long(&mut self, what: &str, with: Value) -> Result<Value, Refused> {
        let until = Instant::now() + OPENING;
        let with = self.numbered(with);
        loop {
            let Talk { known, cluster, channel, .. } = self;
            let goes_on = || Instant::now() < until && cluster.connect(known).is_ok();
            match channel.ask_while(what, with.clone(), goes_on) {
                Err(refused) if refused.is_cut => {
                    self.connect_again(refused, until.min(Instant::now() + self.patience))?;
                }
                answered => return answered.map(|(answer, _)| answer),
            }
        }
    }

    fn numbered(&mut self, mut with: Value) -> Value {
        self.number += 1;
        with["number"] = json!(self.number);
        if self.number == 1 {
            with["key"] = json!(self.key);
        }
        with
    }

    /// Makes a new connection for what belonged to the one that broke. The attempts end when the node's
    /// process is gone, when the node has nothing of this run, or at `until`.
    fn connect_again(&mut self, cut: Refused, until: Instant) -> Result<(), Refused> {
        let mut pause = PAUSES.start;
        let mut last = None;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(match last {
                    Some(why) => {
                        Refused { why: format!("{}, and no new one is made: {why}", cut.why), ..cut }
                    }
                    None => cut,
                });
            }
            match self.connected_again(left) {
                Ok((channel, Ok(()))) => {
                    self.channel = channel;
                    return Ok(());
                }
                Ok((_, Err(refused))) if refused.is_cut => last = Some(refused.why),
                // The first question did not arrive, or arrives twice; it changes nothing on the node.
                Ok((channel, Err(_))) if self.number == 1 => {
                    self.channel = channel;
                    return Ok(());
                }
                Ok(_) => return Err(cut),
                // No process listens at the node's address any more.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(cut),
                Err(error) => last = Some(error.to_string()),
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(PAUSES.end);
        }
    }

    /// A new connection, and whether the node continues what belonged to the one before.
    fn connected_again(&self, left: Duration) -> io::Result<(Channel, Result<(), Refused>)> {
        let mut channel = self.cluster.reach(&self.known, left)?;
        channel.set_patience(Some(left))?;
        let asked = json!({"key": self.key, "wait_ms": left.as_millis() as u64});
        let resumed = channel.ask("resume", asked, &[]).map(drop);
        channel.set_patience(Some(self.patience))?;
        Ok((channel, resumed))
    }
}
