//! The link between the thread that receives commands and the ends of a run: the source pauses at its
//! *valve*, the sink gets the output of one network after the other, and both, and the thread that reports
//! failures, report their progress.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use thalweg_exec::{Blocking, In, Out, Runtime, StreamSpec};
use thalweg_net::record::Record;
use thalweg_net::{RecordError, StrayLine};

use crate::interrupt::Interrupt;

/// The interval at which a waiting source checks whether the run ends.
const PATIENCE: Duration = Duration::from_millis(50);

/// The progress that source, sink and the thread of failures report to the main thread.
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

/// The source's side.
pub(super) struct Valve {
    orders: Receiver<Order>,
    told: Sender<Progress>,
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
        self.tell(Progress::Rests);
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

    pub(super) fn tell(&self, told: Progress) {
        // The receiver is dropped when the run ends.
        let _ = self.told.send(told);
    }
}

/// The sink's side.
pub(super) struct Outputs {
    pub(super) next: In<In<Record>>,
    told: Sender<Progress>,
}

impl Outputs {
    /// The output of the next network, after that of the previous one has ended.
    pub(super) fn next(&mut self, blocking: &mut Blocking) -> Option<In<Record>> {
        let _ = self.told.send(Progress::Written);
        blocking.pop(&mut self.next)
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        let _ = self.told.send(Progress::Over);
    }
}

/// The failures of a network while it runs.
pub(super) struct Failing {
    pub(super) errors: Receiver<RecordError>,
    pub(super) strays: Receiver<StrayLine>,
}

/// The ends of a run, for the thread of commands.
pub(super) struct Reached {
    pub(super) valve: Valve,
    pub(super) outputs: Outputs,
    /// The channel for the thread that reports failures.
    pub(super) told: Sender<Progress>,
}

/// The thread of commands' side.
pub(super) struct Reach {
    pub(super) orders: Sender<Order>,
    pub(super) told: Receiver<Progress>,
}

/// Makes both sides of the link.
pub(super) fn reach(runtime: &Runtime) -> (Reach, Reached) {
    let (tell, told) = channel();
    let (orders, taken) = channel();
    let (outputs, next) = runtime.stream(StreamSpec { capacity: Some(1), ..StreamSpec::default() });
    let reached = Reached {
        valve: Valve { orders: taken, told: tell.clone(), outputs },
        outputs: Outputs { next, told: tell.clone() },
        told: tell,
    };
    (Reach { orders, told }, reached)
}
