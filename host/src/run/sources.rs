//! Sources: tasks that read records and send them into the network, directly or through a merge.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thalweg_exec::{Blocking, Inputs, Out, Runtime, StreamSpec};
use thalweg_net::record::Record;

use super::ends::Ends;
use super::recording::Recording;
use super::valve::{Progress, Valve};
use crate::error::Error;
use crate::io::{Next, Source};

/// The interval at which a waiting merge of sources checks whether it should pause.
const PATIENCE: Duration = Duration::from_millis(50);

/// The entrance to the network.
pub(super) struct Gate {
    /// The input; `None` while the network is being replaced.
    input: Option<Out<Record>>,
    valve: Option<Valve>,
    recording: Option<Recording>,
}

impl Gate {
    pub(super) fn new(input: Out<Record>, valve: Option<Valve>, recording: Option<Recording>) -> Gate {
        Gate { input: Some(input), valve, recording }
    }
}

/// The destination of a source's records.
enum Way {
    /// Records go into the network.
    Gate(Box<Gate>),
    /// Records go to the merge of all sources.
    Merge(Out<Record>),
}

impl Ends {
    /// Starts the tasks that send the records of all `sources` into the network.
    pub(super) fn spawn_sources(
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
            let (out, input) = runtime.sized_stream(StreamSpec::default());
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

    /// Sends the records of all sources into the network, in the order of arrival.
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

    /// Pauses if a pause was requested; returns false if the network's input is closed for good.
    fn may_enter(&self, blocking: &mut Blocking, gate: &mut Gate) -> bool {
        if self.interrupt.is_rest_wanted()
            && let Some(valve) = &mut gate.valve
            && !valve.rest(blocking, &self.interrupt, &mut gate.input)
        {
            return false;
        }
        gate.input.is_some()
    }

    /// Sends a record into the network; false if the network accepts no more.
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

    /// Ends the run if a recording cannot be written.
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
        gate.valve.iter().for_each(|valve| valve.report(Progress::SourceEnded));
    }
}
