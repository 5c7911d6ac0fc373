//! Control of a run from other processes: pause, resume, drain, stop, another network in its place, and libraries anew.
//!
//! The source rests between two records when it is asked to. Then its end of the network can be closed, so that what is
//! inside leaves; when all of it has, as records or as failures, another network is started, and source, sink and
//! the thread that tells of failures get its ends. The main thread takes the commands; the three only hear of it by their
//! channels.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use thalweg_exec::{Blocking, In, Out, Runtime, StreamSpec};
use thalweg_net::library::unload_unused;
use thalweg_net::record::Record;
use thalweg_net::run::StartOptions;
use thalweg_net::{Boxes, Loading, Network, Running};
use thalweg_space::mailbox::{Mailbox, Received};
use thalweg_space::{Command, Space};

use crate::ends::Failing;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::libraries;
use crate::mailbox;
use crate::rest::RestEvents;

/// How long the main thread sleeps when there was no command, and a waiting source until it looks whether the run ends.
const IDLE: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_millis(50);
/// How long a reload waits for calls of the old library before it answers.
const CALLS_MAX: Duration = Duration::from_secs(2);

/// What source, sink and the thread of failures tell the main thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// The source rests.
    Rests,
    /// The source has ended: nothing enters any more.
    SourceEnded,
    /// All records of a network were written.
    Written,
    /// All failures of a network were told.
    Reported,
    /// The sink has ended.
    Over,
}

/// What the source is told while it rests.
enum Order {
    /// Close the network.
    Close,
    /// Here is another: its input, and its output for the sink.
    Open(Out<Record>, In<Record>),
    /// Go on reading.
    Go,
}

/// The source's side.
pub(crate) struct Valve {
    orders: Receiver<Order>,
    told: Sender<Told>,
    /// To the sink: outputs of further networks.
    outputs: Out<In<Record>>,
}

impl Valve {
    /// Rests until it may go on; false if the run ends. Closes and replaces `input` as it is told.
    pub(crate) fn rest(
        &mut self,
        blocking: &mut Blocking,
        interrupt: &Interrupt,
        input: &mut Option<Out<Record>>,
    ) -> bool {
        blocking.flush();
        self.tell(Told::Rests);
        loop {
            match self.orders.recv_timeout(PATIENCE) {
                Ok(Order::Go) => return true,
                Ok(Order::Close) => {
                    drop(input.take());
                    blocking.flush();
                }
                Ok(Order::Open(next, output)) => {
                    *input = Some(next);
                    if blocking.push(&mut self.outputs, output).is_err() {
                        return false;
                    }
                }
                Err(RecvTimeoutError::Timeout) if !interrupt.is_stopping() && !blocking.stopping() => {}
                Err(_) => return false,
            }
        }
    }

    pub(crate) fn tell(&self, told: Told) {
        // Nobody listens any more when the run ends.
        let _ = self.told.send(told);
    }
}

/// The sink's side.
pub(crate) struct Outputs {
    pub(crate) next: In<In<Record>>,
    told: Sender<Told>,
}

impl Outputs {
    /// The output of the next network, when that of the one before has ended.
    pub(crate) fn next(&mut self, blocking: &mut Blocking) -> Option<In<Record>> {
        let _ = self.told.send(Told::Written);
        blocking.pop(&mut self.next)
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        let _ = self.told.send(Told::Over);
    }
}

/// Takes commands for a run.
pub(crate) struct Control {
    mailbox: Mailbox,
    boxes: Boxes,
    network: Network,
    limits: StartOptions,
    path: PathBuf,
    interrupt: Interrupt,
    orders: Sender<Order>,
    failures: Sender<Failing>,
    told: Receiver<Told>,
    is_paused: bool,
    rest_events: RestEvents,
    /// The source rests; it has ended; the sink has.
    rests: bool,
    source_ended: bool,
    is_over: bool,
    /// Of the network that runs: all its records were written; all its failures were told.
    written: bool,
    reported: bool,
}

/// The ends of a run that a [`Control`] reaches.
pub(crate) struct Reached {
    pub(crate) valve: Valve,
    pub(crate) outputs: Outputs,
    /// For the thread that tells of failures.
    pub(crate) told: Sender<Told>,
}

impl Control {
    /// Takes commands through the mailbox of `space` for a run of `network`, which was read from `path`.
    pub(crate) fn new(
        space: &Space,
        runtime: &Runtime,
        (network, limits, path, boxes): (Network, StartOptions, &Path, Boxes),
        failures: Sender<Failing>,
        interrupt: Interrupt,
    ) -> Result<(Control, Reached), Failure> {
        let mailbox = space.mailbox().map_err(|error| Failure::coded("E0903", error.to_string()))?;
        let rest_events =
            RestEvents::new(space).map_err(|error| Failure::coded("E0903", error.to_string()))?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (tell, told) = channel();
        let (orders, taken) = channel();
        let (outputs, next) = runtime.stream(StreamSpec { capacity: Some(1), ..StreamSpec::default() });
        let reached = Reached {
            valve: Valve { orders: taken, told: tell.clone(), outputs },
            outputs: Outputs { next, told: tell.clone() },
            told: tell,
        };
        let control = Control {
            mailbox,
            boxes,
            network,
            limits,
            path,
            interrupt,
            orders,
            failures,
            told,
            is_paused: false,
            rest_events,
            rests: false,
            source_ended: false,
            is_over: false,
            written: false,
            reported: false,
        };
        Ok((control, reached))
    }

    /// Takes commands until the run is over. `counts` says how many records went in, out, and failed.
    pub(crate) fn serve(mut self, runtime: &Runtime, counts: impl Fn() -> String) -> Result<(), Failure> {
        runtime.start();
        while !self.is_over {
            runtime.space().inspect(|space| space.note_alive());
            let polled = self.mailbox.poll();
            match polled.map_err(|error| Failure::coded("E0903", error.to_string()))? {
                Some(received) => self.answer(runtime, received, &counts)?,
                None => {
                    unload_unused();
                    self.hear(IDLE);
                }
            }
        }
        Ok(())
    }

    fn answer(
        &mut self,
        runtime: &Runtime,
        received: Received,
        counts: &impl Fn() -> String,
    ) -> Result<(), Failure> {
        let command = received.command().clone();
        if command.name == "move" {
            let answered = mailbox::answer(received, &runtime.mover());
            return answered.map_err(|error| Failure::coded("E0903", error.to_string()));
        }
        let before = self.path.clone();
        let done = match command.name.as_str() {
            "pause" => self.pause().map(|()| "paused"),
            "resume" => self.resume().map(|()| "resumed"),
            "drain" => self.drain(runtime).map(|()| "drained and paused"),
            "load" => self.load(runtime, &command.arguments).map(|()| "loaded"),
            "reload" => self.reload(runtime, &command.arguments),
            "stop" => {
                self.interrupt.stop();
                Ok("stopping")
            }
            other => {
                Err(format!("a run takes load, reload, move, pause, resume, drain and stop, not `{other}`"))
            }
        };
        self.rest_events.note(self.is_paused);
        let answered = match (done, command.name.as_str()) {
            (Err(why), _) => received.failed(&why),
            (Ok(done), "load") => {
                let inverse = Command::new("run", "load").with(before.to_string_lossy());
                received.done_with_inverse(&format!("{done}: {}", counts()), &inverse)
            }
            (Ok(done), "pause") => {
                received.done_with_inverse(&format!("{done}: {}", counts()), &Command::new("run", "resume"))
            }
            (Ok(done), _) => received.done(&format!("{done}: {}", counts())),
        };
        answered.map_err(|error| Failure::coded("E0903", error.to_string()))
    }

    /// Notes what the others tell, for a while at most.
    fn hear(&mut self, patience: Duration) {
        if let Ok(told) = self.told.recv_timeout(patience) {
            self.note(told);
        }
    }

    fn note(&mut self, told: Told) {
        match told {
            Told::Rests => self.rests = true,
            Told::SourceEnded => self.source_ended = true,
            Told::Over => self.is_over = true,
            Told::Written => self.written = true,
            // One without tasks has told all its failures from the start.
            Told::Reported => self.reported = true,
        }
    }

    fn pause(&mut self) -> Result<(), String> {
        self.let_rest()?;
        self.is_paused = true;
        Ok(())
    }

    fn resume(&mut self) -> Result<(), String> {
        self.is_paused = false;
        self.go();
        Ok(())
    }

    fn drain(&mut self, runtime: &Runtime) -> Result<(), String> {
        self.empty()?;
        self.is_paused = true;
        self.open(runtime)
    }

    fn load(&mut self, runtime: &Runtime, arguments: &[String]) -> Result<(), String> {
        let (path, libraries) = arguments.split_first().ok_or("load takes the path of a network")?;
        let mut boxes = self.boxes.clone();
        for library in libraries {
            libraries::add(&mut boxes, Path::new(library), Loading::Replaceable)
                .map_err(|why| format!("error[E0904]: {why}"))?;
        }
        let network = Network::load(Path::new(path), &boxes).map_err(|diagnostics| {
            let told: Vec<String> = diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect();
            format!("the network that runs goes on; {path} has errors:\n{}", told.join("\n"))
        })?;
        self.empty()?;
        let network_before = std::mem::replace(&mut self.network, network);
        let opened = self.open(runtime).or_else(|why| {
            self.network = network_before;
            self.open(runtime)?;
            Err(format!("{why}; the network before goes on"))
        });
        if opened.is_ok() {
            (self.path, self.boxes) = (PathBuf::from(path), boxes);
        }
        if !self.is_paused {
            self.go();
        }
        opened
    }

    /// Lets the network go on with the boxes that a library's file has now.
    fn reload(&mut self, runtime: &Runtime, arguments: &[String]) -> Result<&'static str, String> {
        let [path] = arguments else { return Err("reload takes the path of a library".to_owned()) };
        let refused = |error: thalweg_net::Error| format!("{error}; the boxes before go on");
        let boxes = self.boxes.reload(Path::new(path)).map_err(refused)?;
        let replacement = self.network.reload(&self.boxes, &boxes, runtime.space()).map_err(refused)?;
        self.boxes = boxes;
        let (tell, finished) = channel();
        let replace = move || {
            replacement.finish();
            // Nobody listens after a while.
            let _ = tell.send(());
        };
        let thread = std::thread::Builder::new().name("reload".into()).spawn(replace);
        thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(match finished.recv_timeout(CALLS_MAX) {
            Ok(()) => "reloaded",
            Err(_) => "reloaded, but calls of the old library go on",
        })
    }

    /// Lets the source rest.
    fn let_rest(&mut self) -> Result<(), String> {
        self.interrupt.rest(true);
        while !self.rests {
            if self.source_ended || self.is_over {
                return Err(ENDING.to_owned());
            }
            self.hear(PATIENCE);
        }
        Ok(())
    }

    /// Lets all records leave the network, and the network end.
    fn empty(&mut self) -> Result<(), String> {
        self.let_rest()?;
        self.send(Order::Close)?;
        while !self.written || !self.reported {
            self.hear(PATIENCE);
            if self.source_ended || self.is_over {
                return Err(ENDING.to_owned());
            }
        }
        Ok(())
    }

    /// Starts the network in the place of the one that has ended.
    fn open(&mut self, runtime: &Runtime) -> Result<(), String> {
        let Running { input, output, errors, strays } =
            self.network.start_with(runtime, self.limits).map_err(|error| error.to_string())?;
        runtime.start();
        (self.written, self.reported) = (false, false);
        self.failures.send(Failing { errors, strays }).map_err(|_| ENDING.to_owned())?;
        self.send(Order::Open(input, output))
    }

    fn go(&mut self) {
        self.rests = false;
        self.interrupt.rest(false);
        // A source that has ended needs no order.
        let _ = self.send(Order::Go);
    }

    fn send(&self, order: Order) -> Result<(), String> {
        self.orders.send(order).map_err(|_| ENDING.to_owned())
    }
}

const ENDING: &str =
    "the input has ended, or the run was stopped: it ends by itself when all records have left";
