//! The link between the thread that receives commands and the ends of a run: the source pauses at its
//! *valve*, and the sink gets the output of one network after the other. Source, sink, and the thread that
//! reports failures, send their progress to the first thread.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use thalweg_exec::{Blocking, In, Out, Runtime, StreamSpec};
use thalweg_net::record::Record;
use thalweg_net::{RecordError, StrayLine};

use crate::interrupt::Interrupt;

/// The interval at which a waiting source checks whether the run ends.
const PATIENCE: Duration = Duration::from_millis(50);

/// The progress that the source, the sink, and the thread that reports failures, send to the main thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The source is paused.
    Rests,
    /// The source has ended: no more records enter.
    SourceEnded,
    /// All records of a network were written.
    Written,
    /// All failures of a network were reported.
    Reported,
    /// The sink has ended.
    Over,
}

/// An order of the main thread to the source while it is paused.
pub(super) enum Order {
    /// Close the network.
    Close,
    /// Continue with another network: its input, and its output for the sink.
    Open(Out<Record>, In<Record>),
    /// Continue reading.
    Go,
}

/// The source's side of the link between the main thread and the ends of the run.
pub(super) struct Valve {
    orders: Receiver<Order>,
    progress: Sender<Progress>,
    /// A channel to the sink for the outputs of further networks.
    outputs: Out<In<Record>>,
}

impl Valve {
    /// Pauses until reading may continue; false if the run ends. Closes and replaces `input` according to the
    /// orders.
    pub(super) fn rest(
        &mut self,
        blocking: &mut Blocking,
        interrupt: &Interrupt,
        input: &mut Option<Out<Record>>,
    ) -> bool {
        blocking.flush();
        self.report(Progress::Rests);
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

    pub(super) fn report(&self, progress: Progress) {
        // Sending fails only after the run has ended, when the receiver is dropped.
        let _ = self.progress.send(progress);
    }
}

/// The sink's side of the link between the main thread and the ends of the run.
pub(super) struct Outputs {
    pub(super) next: In<In<Record>>,
    progress: Sender<Progress>,
}

impl Outputs {
    /// The output of the next network, after that of the previous one has ended.
    pub(super) fn next(&mut self, blocking: &mut Blocking) -> Option<In<Record>> {
        let _ = self.progress.send(Progress::Written);
        blocking.pop(&mut self.next)
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        let _ = self.progress.send(Progress::Over);
    }
}

/// The failures of a network while it runs.
pub(super) struct Failing {
    pub(super) errors: Receiver<RecordError>,
    pub(super) strays: Receiver<StrayLine>,
}

/// What the ends of a run get from the link: the sides of the source, of the sink, and of the thread that
/// reports failures.
pub(super) struct Reached {
    pub(super) valve: Valve,
    pub(super) outputs: Outputs,
    /// The channel on which the thread that reports failures sends its progress.
    pub(super) progress: Sender<Progress>,
}

/// The main thread's side: it sends orders to the source and receives the progress of the ends.
pub(super) struct Reach {
    pub(super) orders: Sender<Order>,
    pub(super) progress: Receiver<Progress>,
}

/// Makes the two sides of the link between the main thread and the ends of a run.
pub(super) fn reach(runtime: &Runtime) -> (Reach, Reached) {
    let (sender, progress) = channel();
    let (orders, taken) = channel();
    let (outputs, next) = runtime.stream(StreamSpec { capacity: Some(1), ..StreamSpec::default() });
    let reached = Reached {
        valve: Valve { orders: taken, progress: sender.clone(), outputs },
        outputs: Outputs { next, progress: sender.clone() },
        progress: sender,
    };
    (Reach { orders, progress }, reached)
}
