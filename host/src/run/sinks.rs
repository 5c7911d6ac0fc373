//! Sinks: tasks that write the records that leave the network, each to the place whose type fits best.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_exec::{Blocking, In, Runtime, StreamSpec};
use thalweg_net::record::Record;

use super::choice::Choice;
use super::ends::Ends;
use super::valve::Outputs;
use crate::amount::counted;
use crate::error::Error;
use crate::io::{Sink, SinkError, unwritable};

impl Ends {
    /// Writes the network's records to all `sinks`, each to the one whose type fits best.
    pub(super) fn spawn_sinks(
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
            let (out, input) = runtime.sized_stream(StreamSpec::default());
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
                    // The reader of the output has disconnected, which is no error but ends the run.
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
                    // `feed` fails only if the sink has ended, and then the sink itself has reported the
                    // reason.
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
}
