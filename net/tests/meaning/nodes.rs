//! Runs a case over three nodes in one process, each with a runtime of its own and with components placed at
//! random; channels replace the links.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex};

use thalweg_exec::{Options, Runtime};
use thalweg_net::Network;
use thalweg_net::run::{Elsewhere, FromNode, Got, Opened, Session, StartOptions, ToNode, Ways};

/// The number of parts that were opened on another node so far.
pub(crate) static OPENED: AtomicU64 = AtomicU64::new(0);

/// The number of nodes; node 0 has the inputs and outputs.
pub(crate) const NODES: usize = 3;

/// All nodes of a session.
pub(crate) struct Town {
    seed: u64,
    /// The channels by which each node receives the parts that others open on it.
    doors: [Mutex<Option<Sender<Opened>>>; NODES],
    opened: [Mutex<Receiver<Opened>>; NODES],
}

impl Town {
    pub(crate) fn new(seed: u64) -> Arc<Town> {
        let pairs: [_; NODES] = std::array::from_fn(|_| channel());
        let (doors, opened): (Vec<_>, Vec<_>) =
            pairs.into_iter().map(|(door, opened)| (Mutex::new(Some(door)), Mutex::new(opened))).unzip();
        let doors = doors.try_into().unwrap_or_else(|_| unreachable!("as many as there are nodes"));
        let opened = opened.try_into().unwrap_or_else(|_| unreachable!("as many as there are nodes"));
        Arc::new(Town { seed, doors, opened })
    }

    pub(crate) fn node(self: &Arc<Self>, here: usize) -> Arc<dyn Elsewhere> {
        Arc::new(Node { town: self.clone(), here })
    }

    fn close(&self, node: usize) {
        *self.doors[node].lock().unwrap() = None;
    }

    fn number(&self, of: &impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, of).hash(&mut hasher);
        hasher.finish()
    }
}

struct Node {
    town: Arc<Town>,
    here: usize,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.here)
    }
}

impl Elsewhere for Node {
    fn here(&self) -> usize {
        self.here
    }

    fn count(&self) -> usize {
        NODES
    }

    fn name(&self, node: usize) -> String {
        node.to_string()
    }

    fn of_place(&self, number: u64) -> usize {
        (number % NODES as u64) as usize
    }

    fn of_component(&self, path: &str) -> Option<usize> {
        let number = self.town.number(&path);
        number.is_multiple_of(3).then_some((number / 3) as usize % NODES)
    }

    fn shares_out(&self) -> bool {
        self.town.seed.is_multiple_of(5)
    }

    fn gives_back(&self) -> bool {
        self.town.seed.is_multiple_of(3)
    }

    fn begin(&self, _: Session) -> Result<(), String> {
        Ok(())
    }

    fn open(&self, node: usize, opening: &[u8]) -> Result<Ways, String> {
        let room = [1, 4, 64][self.town.number(&opening) as usize % 3];
        let ((to, entry), (exit, from)) = (way(room), way(room));
        let door = self.town.doors[node].lock().unwrap().clone().expect("it is open");
        let opened = Opened { opening: opening.to_vec(), from: entry, to: exit };
        door.send(opened).expect("it is served");
        OPENED.fetch_add(1, Ordering::Relaxed);
        Ok((to, from))
    }

    fn opened(&self) -> Option<Opened> {
        self.town.opened[self.here].lock().unwrap().recv().ok()
    }

    fn close(&self) {
        self.town.close(self.here);
    }

    fn end(&self) {}
}

fn way(room: usize) -> Ways {
    let (to, from) = sync_channel(room);
    (Box::new(To(to)), Box::new(From { from, next: None, given: Vec::new() }))
}

struct To(SyncSender<Vec<u8>>);

impl ToNode for To {
    fn push(&mut self, message: &[u8]) -> Result<(), String> {
        self.0.send(message.to_vec()).map_err(|_| "nobody reads".to_owned())
    }

    fn flush(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), String> {
        Ok(())
    }
}

struct From {
    from: Receiver<Vec<u8>>,
    next: Option<Vec<u8>>,
    given: Vec<u8>,
}

impl FromNode for From {
    fn next(&mut self) -> Result<Got<'_>, String> {
        let next = match self.next.take() {
            Some(next) => Ok(next),
            None => self.from.try_recv(),
        };
        match next {
            Ok(next) => {
                self.given = next;
                Ok(Got::Message(&self.given))
            }
            Err(TryRecvError::Empty) => Ok(Got::Nothing),
            Err(TryRecvError::Disconnected) => Ok(Got::End),
        }
    }

    fn wait(&mut self) -> Result<(), String> {
        self.next = self.next.take().or_else(|| self.from.recv().ok());
        Ok(())
    }
}

/// The nodes other than 0; `end` returns the failures there.
pub(crate) struct Others {
    town: Arc<Town>,
    serving: Vec<(Runtime, thalweg_net::run::Serving)>,
}

impl Others {
    pub(crate) fn serve(
        town: &Arc<Town>,
        network: &Network,
        options: &Options,
        limits: StartOptions,
    ) -> Others {
        let serve = |node| {
            let runtime = Runtime::new(options.clone()).unwrap();
            let serving = network.serve(&runtime, limits, town.node(node)).unwrap();
            runtime.start();
            (runtime, serving)
        };
        Others { town: town.clone(), serving: (1..NODES).map(serve).collect() }
    }

    /// Ends the nodes; returns why records failed there.
    pub(crate) fn end(self) -> Vec<String> {
        (1..NODES).for_each(|node| self.town.close(node));
        let mut failed = Vec::new();
        for (runtime, serving) in self.serving {
            assert_eq!(runtime.join().unwrap().failures, []);
            failed.extend(serving.errors.iter().map(|error| error.reason));
        }
        failed
    }
}
