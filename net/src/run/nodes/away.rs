//! A part of a network that runs on another node: two tasks here, two there.
//!
//! ```text
//!   here                              there
//!   records ─► sender ─── link ────► entry ─► the part
//!   records ◄─ receiver ◄── link ─── exit ◄──────┘
//! ```
//! A record that was sent is *under way* until it has come back. The sender can know whether a record has
//! come back only if each record is a group of its own: inside a deterministic combinator, or where the user
//! wants lost records back as failed records. If each record is a group, the sender keeps each record until
//! the receiver sees the end of the record's group. Otherwise the sender and the receiver only count records.
//!
//! When a node is lost, every record that is sent to it from then on fails, and so do all records that are
//! kept. Groups that end after failed records still end, so a task that waits for a group continues.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use thalweg_exec::{Blocking, Context, In, Out, Ports, Stop, Task};

use super::elsewhere::{Elsewhere, FromNode, Got, Opening, ToNode};
use super::joint::{Passage, Way as Side};
use super::under_way::{Held, UnderWay};
use crate::record::{Ends, Record};
use crate::run::input::Input;
use crate::run::message::Message;
use crate::run::position::Position;
use crate::shape::ShapeId;
use crate::wire::{Decoder, Encoder};

/// A part of the network that runs on another node: its position, the node, and what is needed to open it
/// there.
pub(crate) struct Away {
    pub(crate) position: Position,
    pub(crate) elsewhere: Arc<dyn Elsewhere>,
    pub(crate) node: usize,
    pub(crate) opening: Opening,
    /// Whether each record is a group of its own in the part.
    pub(crate) tracked: bool,
}

/// The two tasks of a part on another node.
pub(crate) fn tasks(
    away: Away,
    input: In<Record>,
    out: Out<Record>,
) -> (PartSender, PartReceiver, Arc<UnderWay>) {
    let Away { position, elsewhere, node, opening, tracked } = away;
    let under_way = Arc::<UnderWay>::default();
    let (handing, handed) = sync_channel(1);
    let receiver = PartReceiver {
        position: position.clone(),
        tracked,
        under_way: under_way.clone(),
        handed,
        out,
        decoder: Decoder::default(),
    };
    let sender = PartSender {
        position,
        elsewhere,
        node,
        opening: opening.encode(),
        tracked,
        under_way: under_way.clone(),
        handing: Some(handing),
        input: Input::new(input),
        encoder: Encoder::default(),
        bytes: Vec::new(),
        passage: Passage::new(None, Side::Out),
    };
    (sender, receiver, under_way)
}

/// The task that sends records to a part.
pub(crate) struct PartSender {
    position: Position,
    elsewhere: Arc<dyn Elsewhere>,
    node: usize,
    opening: Vec<u8>,
    tracked: bool,
    under_way: Arc<UnderWay>,
    /// The channel that hands the receiver its end of the link; nothing is sent when the part cannot be
    /// opened.
    handing: Option<SyncSender<Box<dyn FromNode>>>,
    input: Input,
    encoder: Encoder,
    bytes: Vec<u8>,
    passage: Passage,
}

type Way = Option<Box<dyn ToNode>>;

impl PartSender {
    pub(crate) fn run(mut self, blocking: &mut Blocking) {
        let mut way = self.open(blocking);
        loop {
            if self.input.is_empty()
                && let Some(to) = &mut way
                && let Err(why) = blocking.aside(|| to.flush())
            {
                self.lose(&mut way, why);
            }
            let Some(record) = self.input.next_blocking(blocking) else { break };
            self.send(blocking, &mut way, record);
        }
        self.under_way.over();
        if let Some(to) = way
            && let Err(why) = blocking.aside(|| to.finish())
        {
            self.lose(&mut None, why);
        }
    }

    fn open(&mut self, blocking: &mut Blocking) -> Way {
        let (elsewhere, node, opening) = (&self.elsewhere, self.node, &self.opening);
        let opened = blocking.aside(|| elsewhere.open(node, opening));
        let handing = self.handing.take();
        match opened {
            Ok((to, from)) => {
                self.passage = Passage::new(to.number(), Side::Out);
                // The receiver has ended only if the run was aborted.
                if let Some(handing) = handing {
                    let _ = handing.send(from);
                }
                Some(to)
            }
            Err(why) => {
                self.lose(&mut None, why);
                None
            }
        }
    }

    fn lose(&self, way: &mut Way, why: String) {
        *way = None;
        // The reason names the node already if the fabric knew that the node is lost.
        let lost = format!("node {} is lost: ", self.elsewhere.name(self.node));
        self.under_way.lose(if why.starts_with(&lost) { why } else { lost + &why });
    }

    fn send(&mut self, blocking: &mut Blocking, way: &mut Way, mut record: Record) {
        let (ends, message) = (record.ends(), self.input.message());
        let is_mark = record.shape() == ShapeId::MARK;
        if let Some(why) = self.under_way.lost() {
            *way = None;
            return self.fail(blocking, record, message, &why);
        }
        if self.tracked {
            record.set_ends(Ends::GROUP);
        }
        self.bytes.clear();
        if let Err(why) = self.encoder.write(&record, &mut self.bytes) {
            // A mark is sent in place of the record, so that the groups that end after it end in order.
            let mark = Record::mark(record.ends());
            record.set_ends(ends);
            self.position.fail(blocking.context(), message, record, why.to_string());
            if mark.ends() == Ends::NOTHING {
                return;
            }
            self.bytes.clear();
            // A mark has no values that could be refused.
            let _ = self.encoder.write(&mark, &mut self.bytes);
            return self.push(blocking, way, Held { record: None, message, ends }, None);
        }
        if !is_mark {
            self.under_way.sent_one();
        }
        let (kept, spare) = match (self.tracked, is_mark) {
            (_, true) => (None, None),
            (true, false) => (Some(record), None),
            (false, false) => (None, Some(record)),
        };
        self.push(blocking, way, Held { record: kept, message, ends }, spare);
    }

    /// Sends the bytes. `spare` is the record, if `held` does not keep it.
    fn push(&mut self, blocking: &mut Blocking, way: &mut Way, held: Held, spare: Option<Record>) {
        let message = held.message;
        if self.tracked {
            // The record is registered before it is sent, because its answer must be recognised.
            self.under_way.hold(held);
        }
        let Some(to) = way else { return };
        self.passage.pass(blocking.context(), message.stream, message.index);
        if let Err(why) = to.push(&self.bytes) {
            self.lose(way, why);
            if let (Some(record), Some(why)) = (spare, self.under_way.lost()) {
                self.position.fail(blocking.context(), message, record, why.to_string());
            }
        }
    }

    /// Fails a record, because the part is lost.
    fn fail(&mut self, blocking: &mut Blocking, record: Record, message: Message, why: &str) {
        let is_mark = record.shape() == ShapeId::MARK;
        if self.tracked {
            let ends = record.ends();
            self.under_way.hold(Held { record: (!is_mark).then_some(record), message, ends });
        } else if !is_mark {
            self.position.fail(blocking.context(), message, record, why.to_owned());
        }
    }
}

/// The task that receives the output of a part.
pub(crate) struct PartReceiver {
    position: Position,
    tracked: bool,
    under_way: Arc<UnderWay>,
    handed: Receiver<Box<dyn FromNode>>,
    out: Out<Record>,
    decoder: Decoder,
}

/// How receiving ended.
enum End {
    Well,
    Lost(String),
    /// The output's reader has ended.
    Unwanted,
}

impl PartReceiver {
    pub(crate) fn run(mut self, blocking: &mut Blocking) {
        let handed = &self.handed;
        if let Ok(mut from) = blocking.aside(|| handed.recv()) {
            match self.receive(blocking, &mut *from) {
                End::Well if self.under_way.is_over() => {}
                End::Well => self.under_way.lose("the part ended there before its input did".to_owned()),
                End::Lost(why) => self.under_way.lose(why),
                End::Unwanted => return,
            }
        }
        if let Some(why) = self.under_way.lost() {
            self.give_back(blocking, &why);
        }
    }

    fn receive(&mut self, blocking: &mut Blocking, from: &mut dyn FromNode) -> End {
        let (mut passage, mut written) = (Passage::new(from.number(), Side::In), 0);
        loop {
            let record = match from.next() {
                Ok(Got::Message(bytes)) => match self.decoder.read(bytes) {
                    Ok(record) => record,
                    Err(why) => return End::Lost(format!("it sent what is no record: {why}")),
                },
                Ok(Got::Nothing) => match blocking.aside(|| from.wait()) {
                    Ok(()) => continue,
                    Err(why) => return End::Lost(why),
                },
                Ok(Got::End) => return End::Well,
                Err(why) => return End::Lost(why),
            };
            match self.settled(record) {
                Ok(Some(record)) => {
                    passage.pass(blocking.context(), self.out.id(), written);
                    written += 1;
                    if blocking.feed(&mut self.out, record).is_err() {
                        return End::Unwanted;
                    }
                }
                Ok(None) => passage.skip(),
                Err(why) => return End::Lost(why),
            }
        }
    }

    /// Returns a received record with the marks of the groups that end after it here.
    fn settled(&mut self, mut record: Record) -> Result<Option<Record>, String> {
        let is_mark = record.shape() == ShapeId::MARK;
        let ends = match record.ends() {
            Ends::NOTHING => Ends::NOTHING,
            _ if !self.tracked => return Err("it ends groups where there are none".to_owned()),
            _ => self.under_way.settle().ok_or("it answers more than it was sent")?,
        };
        if !is_mark {
            self.under_way.back_one();
        }
        record.set_ends(ends);
        Ok((!is_mark || ends != Ends::NOTHING).then_some(record))
    }

    /// Fails the records that were sent and will not come back, if they were kept.
    fn give_back(&mut self, blocking: &mut Blocking, why: &str) {
        let under_way = self.under_way.clone();
        while self.tracked
            && let Some(Held { record, message, ends }) = blocking.aside(|| under_way.next_lost())
        {
            if let Some(record) = record {
                self.position.fail(blocking.context(), message, record, why.to_owned());
            }
            if ends != Ends::NOTHING && blocking.push(&mut self.out, Record::mark(ends)).is_err() {
                return;
            }
        }
    }
}

/// Writes the records from another node into a part that the node has opened on this node.
pub(crate) fn enter(blocking: &mut Blocking, mut from: Box<dyn FromNode>, mut out: Out<Record>) {
    let mut decoder = Decoder::default();
    let (mut passage, mut written) = (Passage::new(from.number(), Side::In), 0);
    loop {
        let record = match from.next() {
            Ok(Got::Message(bytes)) => decoder.read(bytes),
            Ok(Got::Nothing) => match blocking.aside(|| from.wait()) {
                Ok(()) => continue,
                Err(_) => return,
            },
            // The node that has opened the part is lost, and so are all readers of the part's output.
            Ok(Got::End) | Err(_) => return,
        };
        let Ok(record) = record else { return };
        passage.pass(blocking.context(), out.id(), written);
        written += 1;
        if blocking.feed(&mut out, record).is_err() {
            return;
        }
    }
}

/// Sends the records that leave a part back to the node that has opened it.
pub(crate) fn leave(
    blocking: &mut Blocking,
    position: &Position,
    input: In<Record>,
    mut to: Box<dyn ToNode>,
) {
    let (mut input, mut encoder, mut bytes) = (Input::new(input), Encoder::default(), Vec::new());
    let mut passage = Passage::new(to.number(), Side::Out);
    loop {
        if input.is_empty() && blocking.aside(|| to.flush()).is_err() {
            return;
        }
        let Some(record) = input.next_blocking(blocking) else { break };
        bytes.clear();
        if let Err(why) = encoder.write(&record, &mut bytes) {
            let ends = record.ends();
            position.fail(blocking.context(), input.message(), record, why.to_string());
            if ends == Ends::NOTHING {
                continue;
            }
            bytes.clear();
            let _ = encoder.write(&Record::mark(ends), &mut bytes);
        }
        let message = input.message();
        passage.pass(blocking.context(), message.stream, message.index);
        if to.push(&bytes).is_err() {
            return;
        }
    }
    // If the node does not receive the end, it is lost.
    let _ = blocking.aside(|| to.finish());
}

/// The last task of the network, which passes the output on. When this task ends, parts that other nodes open
/// here are not needed any more.
pub(crate) struct Last {
    pub(crate) input: In<Record>,
    pub(crate) out: Out<Record>,
    pub(crate) elsewhere: Arc<dyn Elsewhere>,
}

impl Task for Last {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.out);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let mut left = cx.quantum();
        while left > 0 {
            let count = self.input.upcoming(cx, left).len();
            match self.input.transfer(cx, count, &mut self.out) {
                0 if count > 0 => return Stop::OutputFull,
                0 if self.input.ended() => return Stop::Ended,
                0 => return Stop::InputEmpty,
                moved => left -= moved,
            }
        }
        Stop::QuantumSpent
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        self.elsewhere.close();
    }
}
