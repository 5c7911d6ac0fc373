//! Scopes that clients share: those with the same view of the same processes are pulled once for all of them.

use super::protocol::Ask;
use crate::error::Error;
use crate::tree::{Backlog, Pulled, Scope};
use crate::tuple::{Batch, ELEMENT_NONE, KIND_GAP};
use crate::view::{Pull, View};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use thalweg_space::Space;

/// The scopes of a server.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    open: Mutex<HashMap<Ask, Weak<Mutex<Common>>>>,
}

/// A scope, and what waits for each of its members.
#[derive(Debug)]
pub(crate) struct Common {
    scope: Scope,
    waiting: HashMap<u64, Queue>,
    /// Bytes that wait for one member at most.
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Queue {
    pulled: VecDeque<Arc<Pulled>>,
    bytes: usize,
    /// Tuples that were left out because too much waited, and the time of the last.
    lost: u64,
    lost_ns: u64,
}

/// A client's part in a scope.
#[derive(Debug)]
pub(crate) struct Member {
    common: Arc<Mutex<Common>>,
    number: u64,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scopes {
    /// Opens what a client asks for, or shares what another asked for. Who wants what was there before has a scope of its own.
    pub(crate) fn open(
        &self,
        ask: &Ask,
        number: u64,
        own: &Space,
        bytes_max: usize,
    ) -> Result<(Member, String), Error> {
        let view = View::read(&ask.view).map_err(|problems| {
            let rendered: Vec<String> =
                problems.iter().map(|problem| problem.render("view", &ask.view)).collect();
            Error::new(rendered.join("\n"))
        })?;
        let mut open = locked(&self.open);
        open.retain(|_, common| common.strong_count() > 0);
        let is_shared = ask.backlog == Backlog::Nothing;
        let known = open.get(ask).and_then(Weak::upgrade).filter(|_| is_shared);
        let common = match known {
            Some(common) => common,
            None => {
                let mut scope = Scope::open(&view, ask.target.clone(), ask.backlog)?;
                scope.watched_in(own)?;
                let common = Arc::new(Mutex::new(Common { scope, waiting: HashMap::new(), bytes_max }));
                if is_shared {
                    open.insert(ask.clone(), Arc::downgrade(&common));
                }
                common
            }
        };
        locked(&common).waiting.insert(number, Queue::default());
        Ok((Member { common, number }, view.name))
    }

    /// How many scopes are open.
    pub(crate) fn count(&self) -> usize {
        locked(&self.open).values().filter(|common| common.strong_count() > 0).count()
    }
}

impl Member {
    /// Pulls for this member; what others have not pulled yet waits for them.
    pub(crate) fn pull(&self, how: Option<Pull>) -> (Vec<Arc<Pulled>>, u64) {
        let mut common = locked(&self.common);
        let how = how.unwrap_or(common.scope.view().pull);
        if how == Pull::Latest {
            let pulled = common.scope.pull_latest();
            let cost = pulled.cost_ns;
            return (vec![Arc::new(pulled)], cost);
        }
        let pulled = Arc::new(common.scope.pull_since());
        let cost = pulled.cost_ns;
        let bytes_max = common.bytes_max;
        for (number, queue) in &mut common.waiting {
            // Who pulls gets what was pulled, however much it is.
            queue.add(pulled.clone(), if *number == self.number { usize::MAX } else { bytes_max });
        }
        let taken = common.waiting.get_mut(&self.number).map(Queue::take).unwrap_or_default();
        (taken, cost)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        locked(&self.common).waiting.remove(&self.number);
    }
}

impl Queue {
    fn add(&mut self, pulled: Arc<Pulled>, bytes_max: usize) {
        self.bytes += pulled.batch.bytes();
        self.pulled.push_back(pulled);
        while self.bytes > bytes_max {
            let Some(oldest) = self.pulled.pop_front() else { return };
            self.bytes -= oldest.batch.bytes();
            // Events that were lost before are lost, too.
            let gaps = oldest.batch.tuples().filter(|tuple| tuple.lost().is_some()).count();
            self.lost += (oldest.batch.len() - gaps) as u64 + oldest.lost;
            self.lost_ns = oldest.batch.tuples().last().map_or(self.lost_ns, |tuple| tuple.head().time_ns);
        }
    }

    /// What waits, after a gap for what was left out.
    fn take(&mut self) -> Vec<Arc<Pulled>> {
        let queue = std::mem::take(self);
        let mut taken = Vec::with_capacity(queue.pulled.len() + 1);
        if queue.lost > 0 {
            let legend = queue.pulled.front().map(|pulled| pulled.batch.legend().clone()).unwrap_or_default();
            let mut batch = Batch { legend, ..Batch::default() };
            batch.begin((queue.lost_ns, 0), ELEMENT_NONE, KIND_GAP, 0);
            batch.words.extend([queue.lost, 0]);
            taken.push(Arc::new(Pulled { batch, lost: queue.lost, ..Pulled::default() }));
        }
        taken.extend(queue.pulled);
        taken
    }
}
