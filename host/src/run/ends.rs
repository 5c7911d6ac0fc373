//! The ends of a running network: sources that bring records, sinks that take them, and the one who tells of failures.
//!
//! ```text
//! source ─────────────► network ─────────────► sink
//! source ─┐                                 ┌─► sink {a}
//! source ─┴─► merge ──► network ──► choose ─┴─► sink {}
//! ```

use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use thalweg_exec::{Blocking, In, Inputs, Out, Runtime, StreamSpec, TaskSpec};
use thalweg_net::record::Record;
use thalweg_net::{RecordError, StrayLine};
use thalweg_space::{Site, Space};

use super::choice::Choice;
use super::letters::DeadLetters;
use super::recording::Recording;
use super::tally::Tally;
use super::valve::{Failing, Outputs, Told, Valve};
use crate::amount::counted;
use crate::error::{Error, chain};
use crate::interrupt::Interrupt;
use crate::io::{Lost, Malformed, Next, Raw, Sink, SinkError, Source, unwritable};
use crate::notice::{Notice, Notices};

/// Failed records that are shown; the others are counted.
const FAILURES_SHOWN: u64 = 10;
/// How long a merge of sources waits until it looks whether it should rest.
const PATIENCE: Duration = Duration::from_millis(50);

/// What source, sinks and errors of a run have in common.
pub(crate) struct Ends {
    pub(crate) space: Space,
    pub(crate) tally: Arc<Tally>,
    pub(crate) interrupt: Interrupt,
    pub(crate) notices: Notices,
    pub(crate) stop_on_error: bool,
    pub(crate) letters: Option<Mutex<DeadLetters>>,
}

/// The way into the network.
pub(crate) struct Gate {
    /// None while the network is being replaced.
    input: Option<Out<Record>>,
    valve: Option<Valve>,
    recording: Option<Recording>,
}

impl Gate {
    pub(crate) fn new(input: Out<Record>, valve: Option<Valve>, recording: Option<Recording>) -> Gate {
        Gate { input: Some(input), valve, recording }
    }
}

/// Where a source's records go.
enum Way {
    /// Into the network.
    Gate(Box<Gate>),
    /// To the merge of all sources.
    Merge(Out<Record>),
}

impl Ends {
    /// Lets the records of all `sources` into the network.
    pub(crate) fn spawn_sources(
        self: &Arc<Self>,
        runtime: &Runtime,
        mut sources: Vec<Source>,
        mut gate: Gate,
    ) -> Result<(), Error> {
        if sources.len() == 1
            && let Some(source) = sources.pop()
        {
            let name = source.name.clone().unwrap_or_else(|| "source".to_owned());
            return self.spawn_source(runtime, &name, source, Way::Gate(Box::new(gate)));
        }
        let mut inputs = Inputs::new();
        for (number, source) in sources.into_iter().enumerate() {
            let (out, input) = runtime.stream(StreamSpec::default());
            inputs.add(input);
            let name = source.name.clone().unwrap_or_else(|| format!("source{}", number + 1));
            self.spawn_source(runtime, &name, source, Way::Merge(out))?;
        }
        let ends = Arc::clone(self);
        runtime.spawn_blocking_attached(self.spec("sources", "merge")?, move |ports| {
            ports.inputs(&mut inputs);
            gate.input.iter_mut().for_each(|input| ports.output(input));
            move |blocking| {
                ends.merge(blocking, &mut inputs, &mut gate);
                ends.close(gate);
            }
        });
        Ok(())
    }

    fn spawn_source(
        self: &Arc<Self>,
        runtime: &Runtime,
        name: &str,
        mut source: Source,
        mut way: Way,
    ) -> Result<(), Error> {
        let (ends, called) = (Arc::clone(self), name.to_owned());
        runtime.spawn_blocking_attached(self.spec(name, "source")?, move |ports| {
            match &mut way {
                Way::Gate(gate) => gate.input.iter_mut().for_each(|input| ports.output(input)),
                Way::Merge(out) => ports.output(out),
            }
            move |blocking| {
                ends.read_all(blocking, &called, &mut source, &mut way);
                if let Way::Gate(gate) = way {
                    ends.close(*gate);
                }
            }
        });
        Ok(())
    }

    fn read_all(&self, blocking: &mut Blocking, called: &str, source: &mut Source, way: &mut Way) {
        loop {
            blocking.admit();
            if let Way::Gate(gate) = way
                && !self.may_enter(blocking, gate)
            {
                break;
            }
            match source.next() {
                Ok(Next::Record(record)) => {
                    let entered = match way {
                        Way::Gate(gate) => self.enter(blocking, gate, record),
                        Way::Merge(out) => blocking.feed(out, record).is_ok(),
                    };
                    if !entered {
                        break;
                    }
                    if !source.is_ready() {
                        blocking.flush();
                    }
                }
                Ok(Next::Malformed(malformed)) => self.malformed(called, &malformed),
                Ok(Next::Pending) => {
                    if let Err(failure) = blocking.aside(|| source.wait()) {
                        self.broken(&failure);
                        break;
                    }
                }
                Ok(Next::End) => break,
                Err(failure) => {
                    self.broken(&failure);
                    break;
                }
            }
        }
    }

    /// Takes the records of all sources as they come.
    fn merge(&self, blocking: &mut Blocking, inputs: &mut Inputs<Record>, gate: &mut Gate) {
        while self.may_enter(blocking, gate) {
            let Some(index) = inputs.next_index(blocking.context()) else {
                if inputs.is_empty() {
                    break;
                }
                blocking.wait_for_input(PATIENCE);
                continue;
            };
            let Some(input) = inputs.get_mut(index) else { continue };
            let goes_on = match blocking.try_pop(input) {
                Some(record) => self.enter(blocking, gate, record),
                None => {
                    if input.ended() {
                        drop(inputs.remove(blocking.context(), index));
                    }
                    true
                }
            };
            if !goes_on {
                break;
            }
        }
    }

    /// Rests if that is asked for; false: the network's input is closed for good.
    fn may_enter(&self, blocking: &mut Blocking, gate: &mut Gate) -> bool {
        if self.interrupt.is_rest_wanted()
            && let Some(valve) = &mut gate.valve
            && !valve.rest(blocking, &self.interrupt, &mut gate.input)
        {
            return false;
        }
        gate.input.is_some()
    }

    /// False: the network takes no more.
    fn enter(&self, blocking: &mut Blocking, gate: &mut Gate, record: Record) -> bool {
        let recorded = gate.recording.as_mut().map_or(Ok(()), |recording| recording.write(&record));
        self.check_recording(gate, recorded);
        let Some(input) = &mut gate.input else { return false };
        let entered = blocking.feed(input, record).is_ok();
        if entered {
            self.tally.records_in.fetch_add(1, Ordering::Relaxed);
        }
        entered
    }

    /// A recording that cannot be written ends the run.
    fn check_recording(&self, gate: &mut Gate, written: Result<(), Error>) {
        if let Err(error) = written {
            gate.recording = None;
            self.broken(&error);
            self.interrupt.stop();
        }
    }

    fn close(&self, mut gate: Gate) {
        let written = gate.recording.as_mut().map_or(Ok(()), Recording::flush);
        self.check_recording(&mut gate, written);
        gate.valve.iter().for_each(|valve| valve.tell(Told::SourceEnded));
    }

    /// Writes the network's records to all `sinks`, each to the one whose type fits best.
    pub(crate) fn spawn_sinks(
        self: &Arc<Self>,
        runtime: &Runtime,
        mut sinks: Vec<Sink>,
        mut output: In<Record>,
        mut outputs: Option<Outputs>,
    ) -> Result<(), Error> {
        if sinks.len() == 1
            && let Some(sink) = sinks.pop()
        {
            return self.spawn_sink(runtime, "sink", sink, (output, outputs));
        }
        let mut choice = Choice::new(&sinks)?;
        for (number, sink) in sinks.into_iter().enumerate() {
            let (out, input) = runtime.stream(StreamSpec::default());
            choice.outs.push(out);
            self.spawn_sink(runtime, &format!("sink{}", number + 1), sink, (input, None))?;
        }
        let ends = Arc::clone(self);
        runtime.spawn_blocking_attached(self.spec("sinks", "choice")?, move |ports| {
            ports.input(&mut output);
            outputs.iter_mut().for_each(|outputs| ports.input(&mut outputs.next));
            choice.outs.iter_mut().for_each(|out| ports.output(out));
            move |blocking| ends.choose_all(blocking, output, outputs, choice)
        });
        Ok(())
    }

    fn spawn_sink(
        self: &Arc<Self>,
        runtime: &Runtime,
        name: &str,
        mut sink: Sink,
        (mut output, mut outputs): (In<Record>, Option<Outputs>),
    ) -> Result<(), Error> {
        let ends = Arc::clone(self);
        let called = sink.called.as_deref().unwrap_or(name).to_owned();
        let spec = self.spec(&called, "sink")?;
        runtime.spawn_blocking_attached(spec, move |ports| {
            ports.input(&mut output);
            outputs.iter_mut().for_each(|outputs| ports.input(&mut outputs.next));
            move |blocking| {
                if let Err(SinkError::Write(error)) =
                    ends.write_all(blocking, &called, &mut sink, output, outputs)
                {
                    // Nobody reads on: not an error of ours, but the end of the run.
                    ends.tally.records_out.fetch_sub(sink.unwritten(), Ordering::Relaxed);
                    if error.kind() != ErrorKind::BrokenPipe {
                        ends.broken(&unwritable(&sink.name, error));
                    }
                    ends.interrupt.stop();
                }
            }
        });
        Ok(())
    }

    fn choose_all(
        &self,
        blocking: &mut Blocking,
        mut output: In<Record>,
        mut outputs: Option<Outputs>,
        mut choice: Choice,
    ) {
        loop {
            while let Some(record) = blocking.pop(&mut output) {
                match choice.of(&record) {
                    // A sink that is gone has said why.
                    Some(index) => _ = blocking.feed(&mut choice.outs[index], record),
                    None => {
                        self.refused(
                            "sinks",
                            &format!("no --output takes the record {record}"),
                            Some(&record),
                        );
                    }
                }
                if output.is_empty() {
                    blocking.flush();
                }
            }
            match outputs.as_mut().and_then(|outputs| outputs.next(blocking)) {
                Some(next) => output = next,
                None => break,
            }
        }
    }

    fn write_all(
        &self,
        blocking: &mut Blocking,
        called: &str,
        sink: &mut Sink,
        mut output: In<Record>,
        mut outputs: Option<Outputs>,
    ) -> Result<(), SinkError> {
        loop {
            if output.is_empty() {
                sink.flush()?;
            }
            let Some(record) = blocking.pop(&mut output) else {
                sink.flush()?;
                match outputs.as_mut().and_then(|outputs| outputs.next(blocking)) {
                    Some(next) => output = next,
                    None => break,
                }
                continue;
            };
            match sink.take(record) {
                Ok(()) => {
                    self.tally.records_out.fetch_add(1, Ordering::Relaxed);
                }
                Err(SinkError::Record(message, record)) => self.refused(called, &message, record.as_ref()),
                Err(error) => return Err(error),
            }
        }
        let missing = sink.finish()?;
        if missing > 0 && !self.interrupt.is_stopping() {
            let what = format!("{} never came in the order of --order-by", counted(missing, "record"));
            self.broken(&Error::coded("E0905", what));
        }
        Ok(())
    }

    /// Tells of failed records until the network has ended, and keeps them where dead letters go.
    pub(crate) fn spawn_errors(
        self: &Arc<Self>,
        networks: Receiver<Failing>,
        told: Option<Sender<Told>>,
    ) -> Result<JoinHandle<()>, Error> {
        let ends = Arc::clone(self);
        let tell = move || {
            for Failing { errors, strays } in networks {
                std::thread::scope(|scope| {
                    let thread = std::thread::Builder::new().name("stray lines".into());
                    if let Err(error) = thread.spawn_scoped(scope, || ends.tell_of_strays(strays)) {
                        let what = "cannot start a thread for lines that answer no record";
                        ends.broken(&Error::run(what).because(error));
                    }
                    while let Some(error) = ends.next_failure(&errors) {
                        ends.failed("E0801", error.to_string());
                        ends.letter(|letters| letters.failed(&error));
                    }
                });
                // Nobody listens any more when the run ends.
                told.iter().for_each(|told| _ = told.send(Told::Reported));
            }
        };
        std::thread::Builder::new()
            .name("errors".into())
            .spawn(tell)
            .map_err(|error| Error::run("cannot start a thread").because(error))
    }

    /// Programs printed lines that answer no record: the first few are shown, and the run has failed.
    fn tell_of_strays(&self, strays: Receiver<StrayLine>) {
        for (before, stray) in strays.into_iter().enumerate() {
            match before as u64 {
                FAILURES_SHOWN => self.notices.note("further lines that answer no record are not shown"),
                0..FAILURES_SHOWN => self.broken(&Error::coded("E0803", stray.to_string())),
                _ => {}
            }
            if self.stop_on_error {
                self.interrupt.stop();
            }
        }
    }

    /// The next record that failed. While there is none, the letters of those before are safe in their file.
    fn next_failure(&self, errors: &Receiver<RecordError>) -> Option<RecordError> {
        if let Ok(error) = errors.try_recv() {
            return Some(error);
        }
        self.letter(DeadLetters::flush);
        errors.recv().ok()
    }

    /// Writes a dead letter, if they are wanted; ones that cannot be written end the run.
    fn letter(&self, write: impl FnOnce(&mut DeadLetters) -> Result<(), Error>) {
        let Some(letters) = &self.letters else { return };
        let mut letters = letters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = write(&mut letters) {
            self.broken(&Error::coded("E0901", format!("{}; the run ends", chain(&why))));
            self.interrupt.stop();
        }
    }

    /// Writes the last dead letters, and says how many are lost. Call it when nothing can fail any more.
    pub(crate) fn finish_letters(&self) {
        self.letter(DeadLetters::flush);
        let Some(letters) = &self.letters else { return };
        if let Some(lost) = letters.lock().unwrap_or_else(PoisonError::into_inner).lost() {
            self.broken(&Error::coded("E0901", lost));
        }
    }

    /// Something in an input that is no record.
    fn malformed(&self, called: &str, malformed: &Malformed) {
        let Malformed { what, lost } = malformed;
        if !matches!(lost, Lost::Raw(Raw { goes_on: true, .. })) {
            self.failed("E0905", what.clone());
        }
        self.letter(|letters| match lost {
            Lost::Raw(raw) => letters.unread(called, what, raw).and_then(|()| letters.flush()),
            Lost::Record(record) => letters.refused(called, what, record).and_then(|()| letters.flush()),
            Lost::Nothing => Ok(()),
        });
    }

    /// A record that has left the network, and that no output takes.
    fn refused(&self, called: &str, why: &str, record: Option<&Record>) {
        self.failed("E0905", why.to_owned());
        if let Some(record) = record {
            self.letter(|letters| letters.refused(called, why, record).and_then(|()| letters.flush()));
        }
    }

    /// A task at an end of the network, known to observers by its name.
    fn spec(&self, name: &str, kind: &str) -> Result<TaskSpec, Error> {
        let component = self
            .space
            .site(&Site { name, kind, ..Site::default() })
            .map_err(|error| Error::coded_of("E0903", error))?;
        Ok(TaskSpec { component, ..TaskSpec::default() })
    }

    /// A record failed: the first few are shown, all are counted.
    fn failed(&self, code: &'static str, message: String) {
        let before = self.tally.failed.fetch_add(1, Ordering::Relaxed);
        if before < FAILURES_SHOWN {
            self.notices.coded(code, message);
        } else if before == FAILURES_SHOWN {
            self.notices.note("further failed records are only counted");
        }
        if self.stop_on_error {
            self.interrupt.stop();
        }
    }

    /// The run goes on, or ends in order, and has failed.
    fn broken(&self, error: &Error) {
        self.notices.give(Notice::of(error));
        self.tally.broken.store(true, Ordering::Relaxed);
    }
}
