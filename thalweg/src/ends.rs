//! The ends of a running network: sources that bring records, sinks that take them, and the one who tells of failures.
//!
//! ```text
//! source ─────────────► network ─────────────► sink
//! source ─┐                                 ┌─► sink {a}
//! source ─┴─► merge ──► network ──► choose ─┴─► sink {}
//! ```

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::HumanCount;
use thalweg_exec::{Blocking, In, Inputs, Out, Runtime, StreamSpec, TaskSpec};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::shape::ShapeId;
use thalweg_net::{RecordError, StrayLine, json};
use thalweg_space::{Site, Space};

use crate::control::{Outputs, Told, Valve};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::io::{Next, Sink, SinkError, Source, recorded_at, unwritable};

/// Failed records that are shown; the others are counted.
const FAILURES_SHOWN: u64 = 10;
/// How long a merge of sources waits until it looks whether it should rest.
const PATIENCE: Duration = Duration::from_millis(50);

/// What source, sink and error stream count, and what they had to say.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) records_in: AtomicU64,
    pub(crate) records_out: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// The input could not be read to its end, or the output could not be written.
    pub(crate) broken: AtomicBool,
}

impl Tally {
    /// Records that went in, came out, failed.
    pub(crate) fn counts(&self) -> String {
        let count = |counter: &AtomicU64| HumanCount(counter.load(Ordering::Relaxed));
        let (records_in, records_out) = (count(&self.records_in), count(&self.records_out));
        let failed = self.failed.load(Ordering::Relaxed);
        let failures = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        format!("{records_in} records in, {records_out} out{failures}")
    }
}

/// What source, sinks and errors of a run have in common.
pub(crate) struct Ends {
    pub(crate) space: Space,
    pub(crate) tally: Arc<Tally>,
    pub(crate) interrupt: Interrupt,
    pub(crate) stop_on_error: bool,
}

/// What goes wrong in a network while it runs.
pub(crate) struct Failing {
    pub(crate) errors: Receiver<RecordError>,
    pub(crate) strays: Receiver<StrayLine>,
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
    ) -> Result<(), Failure> {
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
    ) -> Result<(), Failure> {
        let ends = Arc::clone(self);
        runtime.spawn_blocking_attached(self.spec(name, "source")?, move |ports| {
            match &mut way {
                Way::Gate(gate) => gate.input.iter_mut().for_each(|input| ports.output(input)),
                Way::Merge(out) => ports.output(out),
            }
            move |blocking| {
                ends.read_all(blocking, &mut source, &mut way);
                if let Way::Gate(gate) = way {
                    ends.close(*gate);
                }
            }
        });
        Ok(())
    }

    fn read_all(&self, blocking: &mut Blocking, source: &mut Source, way: &mut Way) {
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
                Ok(Next::Malformed(message)) => self.failed(&format!("error[E0905]: {message}")),
                Ok(Next::Pending) => {
                    if let Err(failure) = blocking.aside(|| source.wait()) {
                        self.broke(&failure);
                        break;
                    }
                }
                Ok(Next::End) => break,
                Err(failure) => {
                    self.broke(&failure);
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

    fn check_recording(&self, gate: &mut Gate, written: std::io::Result<()>) {
        if let Err(error) = written
            && let Some(lost) = gate.recording.take()
        {
            self.broken(&format!("error[E0901]: cannot write {}: {error}", lost.name));
            self.interrupt.stop();
        }
    }

    fn close(&self, mut gate: Gate) {
        let written = gate.recording.as_mut().map_or(Ok(()), |recording| recording.file.flush());
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
    ) -> Result<(), Failure> {
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
    ) -> Result<(), Failure> {
        let ends = Arc::clone(self);
        let spec = self.spec(sink.called.as_deref().unwrap_or(name), "sink")?;
        runtime.spawn_blocking_attached(spec, move |ports| {
            ports.input(&mut output);
            outputs.iter_mut().for_each(|outputs| ports.input(&mut outputs.next));
            move |blocking| {
                if let Err(SinkError::Write(error)) = ends.write_all(blocking, &mut sink, output, outputs) {
                    // Nobody reads on: not an error of ours, but the end of the run.
                    if error.kind() != ErrorKind::BrokenPipe {
                        ends.broken(&format!("error[E0901]: cannot write {}: {error}", sink.name));
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
                    None => self.failed(&format!("error[E0905]: no --output takes the record {record}")),
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
                Err(SinkError::Record(message)) => self.failed(&format!("error[E0905]: {message}")),
                Err(error) => return Err(error),
            }
        }
        let missing = sink.finish()?;
        if missing > 0 && !self.interrupt.is_stopping() {
            self.broken(&format!("error[E0905]: {missing} records never came in the order of --order-by"));
        }
        Ok(())
    }

    /// Tells of failed records until the network has ended, and keeps them where dead letters go.
    pub(crate) fn spawn_errors(
        self: &Arc<Self>,
        networks: Receiver<Failing>,
        mut dead_letters: Option<DeadLetters>,
        told: Option<Sender<Told>>,
    ) -> Result<JoinHandle<()>, Failure> {
        let ends = Arc::clone(self);
        let tell = move || {
            for Failing { errors, strays } in networks {
                std::thread::scope(|scope| {
                    let thread = std::thread::Builder::new().name("stray lines".into());
                    if let Err(error) = thread.spawn_scoped(scope, || ends.tell_of_strays(strays)) {
                        ends.broken(&format!(
                            "error: cannot start a thread for lines that answer no record: {error}"
                        ));
                    }
                    for error in errors {
                        ends.failed(&format!("error[E0801]: {error}"));
                        let written = dead_letters.as_mut().map_or(Ok(()), |letters| letters.write(&error));
                        ends.check_letters(&mut dead_letters, written);
                    }
                });
                // Nobody listens any more when the run ends.
                told.iter().for_each(|told| _ = told.send(Told::Reported));
            }
            let written = dead_letters.as_mut().map_or(Ok(()), |letters| letters.file.flush());
            ends.check_letters(&mut dead_letters, written);
        };
        std::thread::Builder::new()
            .name("errors".into())
            .spawn(tell)
            .map_err(|error| Failure::Run(format!("cannot start a thread: {error}")))
    }

    /// Programs printed lines that answer no record: the first few are shown, and the run has failed.
    fn tell_of_strays(&self, strays: Receiver<StrayLine>) {
        for (before, stray) in strays.into_iter().enumerate() {
            match before as u64 {
                FAILURES_SHOWN => eprintln!("further lines that answer no record are not shown"),
                0..FAILURES_SHOWN => self.broken(&format!("error[E0802]: {stray}")),
                _ => {}
            }
            if self.stop_on_error {
                self.interrupt.stop();
            }
        }
    }

    /// Dead letters that cannot be written end the run.
    fn check_letters(&self, letters: &mut Option<DeadLetters>, written: std::io::Result<()>) {
        if let Err(error) = written
            && let Some(lost) = letters.take()
        {
            self.broken(&format!("error[E0901]: cannot write {}: {error}", lost.name));
            self.interrupt.stop();
        }
    }

    /// A task at an end of the network, known to observers by its name.
    fn spec(&self, name: &str, kind: &str) -> Result<TaskSpec, Failure> {
        let component = self
            .space
            .site(&Site { name, kind, ..Site::default() })
            .map_err(|error| Failure::coded("E0903", error.to_string()))?;
        Ok(TaskSpec { component, ..TaskSpec::default() })
    }

    /// A record failed: the first few are shown, all are counted.
    fn failed(&self, message: &str) {
        let before = self.tally.failed.fetch_add(1, Ordering::Relaxed);
        if before < FAILURES_SHOWN {
            eprintln!("{message}");
        } else if before == FAILURES_SHOWN {
            eprintln!("further failed records are only counted");
        }
        if self.stop_on_error {
            self.interrupt.stop();
        }
    }

    fn broke(&self, failure: &Failure) {
        match failure {
            Failure::Coded(code, message) => self.broken(&format!("error[{code}]: {message}")),
            other => self.broken(&format!("error: {other:?}")),
        }
    }

    fn broken(&self, message: &str) {
        eprintln!("{message}");
        self.tally.broken.store(true, Ordering::Relaxed);
    }
}

/// Which sink takes which records.
struct Choice {
    outs: Vec<Out<Record>>,
    /// The labels that each sink wants.
    accepts: Vec<Vec<Label>>,
    known: HashMap<ShapeId, Option<usize>>,
}

impl Choice {
    fn new(sinks: &[Sink]) -> Result<Choice, Failure> {
        let accepts: Vec<Vec<Label>> =
            sinks.iter().map(|sink| sink.accepts.clone().unwrap_or_default()).collect();
        for (number, type_) in accepts.iter().enumerate() {
            let same = |other: &Vec<Label>| {
                other.len() == type_.len() && other.iter().all(|label| type_.contains(label))
            };
            if let Some(first) = accepts[..number].iter().position(same) {
                let (first, second) = (&sinks[first].name, &sinks[number].name);
                return Err(Failure::coded(
                    "E0902",
                    format!(
                        "--output: {first} and {second} take the same records; \
                         give each a type, as in 'file:bad.jsonl?type={{error}}'"
                    ),
                ));
            }
        }
        Ok(Choice { outs: Vec::new(), accepts, known: HashMap::new() })
    }

    /// The sink that wants most of the record's labels, and none that it lacks; the first of several.
    fn of(&mut self, record: &Record) -> Option<usize> {
        let shape = record.shape();
        *self.known.entry(shape).or_insert_with(|| {
            let fitting = self.accepts.iter().enumerate().filter(|(_, labels)| shape.has_all(labels));
            fitting.rev().max_by_key(|(_, labels)| labels.len()).map(|(index, _)| index)
        })
    }
}

/// The file that keeps the records that entered, for a replay.
pub(crate) struct Recording {
    name: String,
    file: BufWriter<File>,
    began: Instant,
    line: Vec<u8>,
}

impl Recording {
    pub(crate) fn create(path: &Path) -> Result<Recording, Failure> {
        let (name, file) = created(path)?;
        Ok(Recording { name, file, began: Instant::now(), line: Vec::new() })
    }

    /// One line: when it entered, and the record.
    fn write(&mut self, record: &Record) -> std::io::Result<()> {
        let tag = recorded_at();
        self.line.clear();
        json::write_record(record, &mut self.line);
        if record.get(tag).is_none() {
            let at = self.began.elapsed().as_nanos();
            let separator = if self.line == b"{}" { "" } else { ", " };
            self.line.splice(..1, format!("{{\"{tag}\": {at}{separator}").into_bytes());
        }
        self.line.push(b'\n');
        self.file.write_all(&self.line)
    }
}

fn created(path: &Path) -> Result<(String, BufWriter<File>), Failure> {
    let name = path.display().to_string();
    let file = File::create(path).map_err(|error| unwritable(&name, &error))?;
    Ok((name, BufWriter::new(file)))
}

/// The file that keeps the records that failed.
pub(crate) struct DeadLetters {
    name: String,
    file: BufWriter<File>,
}

impl DeadLetters {
    pub(crate) fn create(path: &Path) -> Result<DeadLetters, Failure> {
        let (name, file) = created(path)?;
        Ok(DeadLetters { name, file })
    }

    /// One line: where, why, which message, and the record as a file of records has it.
    fn write(&mut self, error: &RecordError) -> std::io::Result<()> {
        let (component, reason) = (serde_json::json!(error.component), serde_json::json!(error.reason));
        let RecordError { stream, index, .. } = error;
        let mut line = format!(
            r#"{{"component":{component},"reason":{reason},"stream":{stream},"index":{index},"record":"#
        )
        .into_bytes();
        json::write_record(&error.record, &mut line);
        line.extend(b"}\n");
        self.file.write_all(&line)
    }
}
