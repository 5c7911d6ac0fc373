//! The position of a task in its network, and the state that all tasks share.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use thalweg_exec::{Context, In, Out, StreamSpec};

use super::around::Around;
use super::component::{ComponentId, Instance, Program};
use super::events::record_failed;
use super::failure::{RecordError, StrayLine};
use super::limits::Limits;
use super::message::Message;
use super::nodes::Nodes;
use super::pipe::Pipe;
use crate::record::{Ends, Record};
use crate::shield;

/// The state that all tasks of a running network share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) program: Program,
    pub(crate) failures: SyncSender<RecordError>,
    pub(crate) strays: SyncSender<StrayLine>,
    pub(crate) limits: Limits,
    /// The nodes of the network's parts, if there are several nodes.
    pub(crate) nodes: Option<Nodes>,
    /// Makes the tasks of the replicas that records need.
    pub(crate) unfold_replica: UnfoldReplica,
}

/// A replica of a star or split, before it has tasks.
#[derive(Debug)]
pub(crate) struct NewReplica {
    pub(crate) body: ComponentId,
    pub(crate) instance: Option<Arc<Instance>>,
    /// The replica's number: the number of the star's stage, or the value of the split's tag.
    pub(crate) number: u64,
    pub(crate) around: Around,
    /// The node on which the replica is made, if it is another node than this one.
    pub(crate) node: Option<usize>,
}

/// Makes the tasks of a replica that reads `input`, from the running task; returns its output.
pub(crate) type UnfoldReplica =
    fn(shared: &Arc<Shared>, cx: &mut Context<'_>, replica: &NewReplica, input: In<Record>) -> In<Record>;

/// The position of a task in its network.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    pub(crate) shared: Arc<Shared>,
    pub(crate) component: ComponentId,
    pub(crate) instance: Option<Arc<Instance>>,
}

impl Position {
    /// Makes a replica as the successor of the running task; returns the replica's input and output.
    pub(crate) fn unfold(&self, cx: &mut Context<'_>, replica: &NewReplica) -> (Out<Record>, In<Record>) {
        let (out, input) = cx.sized_stream(StreamSpec::default());
        let output = (self.shared.unfold_replica)(&self.shared, cx, replica, input);
        (out, output)
    }

    /// Fails the record that was read last from a pipe: the record leaves the network, and groups that ended
    /// with it still end.
    #[cold]
    pub(crate) fn fail_in(&self, cx: &mut Context<'_>, pipe: &mut Pipe, record: Record, reason: String) {
        let ends = record.ends();
        self.fail(cx, pipe.message(), record, reason);
        pipe.output.end(cx, ends);
    }

    /// The path of the component: the names from the main net on, with replicas.
    pub(crate) fn path(&self) -> String {
        self.shared.program.path(self.component, self.instance.as_deref())
    }

    /// Writes the path without allocating memory, for signal handlers.
    pub(crate) fn write_path(&self, out: &mut impl fmt::Write) -> fmt::Result {
        self.shared.program.write_path(self.component, self.instance.as_deref(), out)
    }

    /// Reports a line that a box's program printed and that answers no record.
    #[cold]
    pub(crate) fn complain(&self, reason: String) {
        let _ = self.shared.strays.send(StrayLine { component: self.path(), reason });
    }

    /// Removes a record from the network as failed.
    #[cold]
    pub(crate) fn fail(&self, cx: &mut Context<'_>, message: Message, record: Record, reason: String) {
        self.give_up(cx, message, record, reason, false);
    }

    /// Removes a record that a synchrocell holds from the network, because the network ends.
    #[cold]
    pub(crate) fn release(&self, cx: &mut Context<'_>, message: Message, record: Record, reason: String) {
        self.give_up(cx, message, record, reason, true);
    }

    fn give_up(
        &self,
        cx: &mut Context<'_>,
        message: Message,
        mut record: Record,
        reason: String,
        held: bool,
    ) {
        record.set_ends(Ends::NOTHING);
        shield::reveal(&mut record);
        let component = self.path();
        record_failed(cx, self.shared.program.get(self.component).site, message, &reason);
        let Message { stream, index } = message;
        let error = RecordError { component, reason, stream, index, record, held };
        // The reader of failures has ended only if the run was aborted.
        let _ = self.shared.failures.send(error);
    }
}
