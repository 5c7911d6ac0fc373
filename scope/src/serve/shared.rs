//! What clients share: a leaf that several views have of the same processes is read once for all of them.
//!
//! Each client has a scope of its own, with its own operators, which begins with what is read for all. So what a view reduces from one pull
//! to the next is that client's, however others pull.

use super::protocol::Ask;
use crate::error::Error;
use crate::leaf::Target;
use crate::tree::{Backlog, Inlet, Pulled, Scope};
use crate::tuple::{Batch, ELEMENT_NONE, KIND_GAP, Tables};
use crate::view::{Leaf, Pull, Tree, View};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use thalweg_space::Space;

/// What a server reads.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// By target and leaf.
    leaves: HashMap<(Target, String), Weak<Mutex<Common>>>,
    /// Views of the same processes have one legend: tuples go from one scope to the other as they are.
    legends: HashMap<Target, Weak<Tables>>,
    /// Leaves so far.
    made: u64,
}

/// A leaf that is read, and what waits for each of its members.
#[derive(Debug)]
struct Common {
    scope: Scope,
    waiting: HashMap<u64, Queue>,
    /// Members so far: their numbers.
    joined: u64,
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

/// A view's part in a leaf.
#[derive(Debug)]
struct Member {
    common: Arc<Mutex<Common>>,
    number: u64,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scopes {
    /// Opens what a client asks for; what others read already is read for it, too. Who wants what was there before has a scope of its
    /// own, and so has who wants live rows, which are as they are at each pull.
    pub(crate) fn open(&self, ask: &Ask, own: &Space, bytes_max: usize) -> Result<Scope, Error> {
        let view = View::read(&ask.view).map_err(|problems| {
            let rendered: Vec<String> =
                problems.iter().map(|problem| problem.render("view", &ask.view)).collect();
            Error::new(rendered.join("\n"))
        })?;
        let mut scope = if ask.backlog == Backlog::Nothing && !has_rows(&view.tree) {
            let mut open = locked(&self.open);
            let tables = open.legend(&ask.target);
            Scope::of_inlets(&view, tables.clone(), |leaf| {
                let member = open.join(&ask.target, leaf, &tables, (own, bytes_max))?;
                Ok(Box::new(member))
            })?
        } else {
            Scope::open(&view, ask.target.clone(), ask.backlog)?
        };
        scope.watched_in(own)?;
        Ok(scope)
    }

    /// How many leaves the server reads for one client or more.
    pub(crate) fn count(&self) -> usize {
        locked(&self.open).leaves.values().filter(|common| common.strong_count() > 0).count()
    }
}

fn has_rows(tree: &Tree) -> bool {
    match tree {
        Tree::Leaf(leaf) => !leaf.rows.is_empty(),
        Tree::Gather(trees) => trees.iter().any(has_rows),
        Tree::Step(below, _) => has_rows(below),
    }
}

impl Open {
    fn legend(&mut self, target: &Target) -> Arc<Tables> {
        self.legends.retain(|_, tables| tables.strong_count() > 0);
        self.legends.get(target).and_then(Weak::upgrade).unwrap_or_else(|| {
            let tables = Arc::default();
            self.legends.insert(target.clone(), Arc::downgrade(&tables));
            tables
        })
    }

    fn join(
        &mut self,
        target: &Target,
        leaf: &Leaf,
        tables: &Arc<Tables>,
        (own, bytes_max): (&Space, usize),
    ) -> Result<Member, Error> {
        self.leaves.retain(|_, common| common.strong_count() > 0);
        let key = (target.clone(), format!("{leaf:?}"));
        if let Some(common) = self.leaves.get(&key).and_then(Weak::upgrade) {
            return Ok(Member::new(common));
        }
        self.made += 1;
        let name = format!("shared {}", self.made);
        let view = View::new(&name, "What do several views read?", Tree::leaf(leaf.clone()));
        let view = view.map_err(|problem| Error::new(problem.to_string()))?;
        let mut scope = Scope::open_among(&view, target.clone(), Backlog::Nothing, tables.clone())?;
        scope.watched_in(own)?;
        let common = Common { scope, waiting: HashMap::new(), joined: 0, bytes_max };
        let common = Arc::new(Mutex::new(common));
        self.leaves.insert(key, Arc::downgrade(&common));
        Ok(Member::new(common))
    }
}

impl Common {
    /// Reads what is new, for all members: for the one that pulls however much it is.
    fn read(&mut self, number: u64) {
        let pulled = Arc::new(self.scope.pull_since());
        for (member, queue) in &mut self.waiting {
            queue.add(pulled.clone(), if *member == number { usize::MAX } else { self.bytes_max });
        }
    }
}

impl Member {
    fn new(common: Arc<Mutex<Common>>) -> Member {
        let mut of_all = locked(&common);
        of_all.joined += 1;
        let number = of_all.joined;
        // What was before is for the others.
        if !of_all.waiting.is_empty() {
            of_all.read(number);
        }
        of_all.waiting.insert(number, Queue::default());
        drop(of_all);
        Member { common, number }
    }
}

impl Inlet for Member {
    fn pull(&mut self, pull: Pull) -> Vec<Arc<Pulled>> {
        let mut common = locked(&self.common);
        if pull == Pull::Latest {
            return vec![Arc::new(common.scope.pull_latest())];
        }
        common.read(self.number);
        common.waiting.get_mut(&self.number).map(Queue::take).unwrap_or_default()
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
