//! Sharing between clients: a leaf that several views have of the same processes is read once, and operators
//! that several views have in common run once.
//!
//! Leaves are shared, and so are nodes above them whose tuples do not depend on which client pulls, or when:
//! gathering, filters, conversions, and reductions by windows of time. Each client has a scope with its other
//! operators, which begins with the shared tuples. So a reduction from one pull to the next depends only on
//! the pulls of its client.

use super::protocol::Ask;
use crate::error::Error;
use crate::leaf::Target;
use crate::operators::Every;
use crate::tree::{Backlog, Inlet, Pulled, Scope};
use crate::tuple::{Batch, ELEMENT_NONE, KIND_GAP, Tables};
use crate::view::{Pull, Step, Tree, View};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use thalweg_space::Space;

/// The shared nodes of a server.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// The shared nodes by target and tree.
    nodes: HashMap<(Target, String), Weak<Mutex<Common>>>,
    /// The legends by target. Views of the same processes have one legend, so tuples pass from one scope to
    /// another unchanged.
    legends: HashMap<Target, Weak<Tables>>,
    /// The number of nodes made so far.
    made: u64,
}

/// A shared leaf, or a shared node above one, with the tuples that wait for each of its members.
#[derive(Debug)]
struct Common {
    scope: Scope,
    is_leaf: bool,
    waiting: HashMap<u64, Queue>,
    /// The number of members so far, which numbers the next one.
    joined: u64,
    /// The most bytes that wait for one member.
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Queue {
    pulled: VecDeque<Arc<Pulled>>,
    bytes: usize,
    /// The number of tuples that were dropped because too many bytes waited, and the time of the last one.
    lost: u64,
    lost_ns: u64,
}

/// The membership of a view, or of a shared node, in the shared node below it.
#[derive(Debug)]
struct Member {
    common: Arc<Mutex<Common>>,
    number: u64,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scopes {
    /// Opens the scope that a client requests, and shares leaves that are already read for other clients.
    /// Requests for earlier events get a scope without sharing, and so do requests for live rows, because
    /// their values depend on the time of the pull.
    pub(crate) fn open(&self, ask: &Ask, own: &Space, bytes_max: usize) -> Result<Scope, Error> {
        let view = View::read(&ask.view).map_err(|problems| {
            let rendered: Vec<String> =
                problems.iter().map(|problem| problem.render("view", &ask.view)).collect();
            Error::new(rendered.join("\n"))
        })?;
        let mut scope = if ask.backlog == Backlog::Nothing && !has_rows(&view.tree) {
            let mut open = locked(&self.open);
            let tables = open.legend(&ask.target);
            // With a hold time, windows are complete at a different time for each client, so they are not
            // shared.
            let is_shared = |tree: &Tree| gives_all_the_same(tree, view.hold_ns == 0);
            Scope::of_inlets(&view, tables.clone(), &is_shared, |tree| {
                let member = open.join(&ask.target, tree, &tables, (own, bytes_max))?;
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
        let nodes: Vec<_> = locked(&self.open).nodes.values().filter_map(Weak::upgrade).collect();
        nodes.iter().filter(|common| locked(common).is_leaf).count()
    }
}

fn has_rows(tree: &Tree) -> bool {
    match tree {
        Tree::Leaf(leaf) => !leaf.rows.is_empty(),
        Tree::Gather(trees) => trees.iter().any(has_rows),
        Tree::Step(below, _) => has_rows(below),
    }
}

/// Whether the tuples of this tree do not depend on which client pulls, or when.
fn gives_all_the_same(tree: &Tree, are_windows: bool) -> bool {
    match tree {
        Tree::Leaf(_) => true,
        Tree::Gather(trees) => trees.iter().all(|tree| gives_all_the_same(tree, are_windows)),
        Tree::Step(below, step) => {
            let is_same = match step {
                Step::Filter(_) | Step::Convert { .. } => true,
                Step::Reduce { every: Every::Window(_), .. } => are_windows,
                _ => false,
            };
            is_same && gives_all_the_same(below, are_windows)
        }
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
        tree: &Tree,
        tables: &Arc<Tables>,
        (own, bytes_max): (&Space, usize),
    ) -> Result<Member, Error> {
        self.nodes.retain(|_, common| common.strong_count() > 0);
        let key = (target.clone(), format!("{tree:?}"));
        if let Some(common) = self.nodes.get(&key).and_then(Weak::upgrade) {
            return Ok(Member::new(common));
        }
        self.made += 1;
        let is_leaf = matches!(tree, Tree::Leaf(_));
        let name = format!("shared {} {}", if is_leaf { "leaf" } else { "node" }, self.made);
        let view = View::new(&name, "What do several views have in common?", tree.clone());
        let view = view.map_err(|problem| Error::new(problem.to_string()))?;
        let mut scope = if is_leaf {
            Scope::open_among(&view, target.clone(), Backlog::Nothing, tables.clone())?
        } else {
            let is_below = |tree: &Tree| !std::ptr::eq(tree, &raw const view.tree);
            Scope::of_inlets(&view, tables.clone(), &is_below, |below| {
                Ok(Box::new(self.join(target, below, tables, (own, bytes_max))?))
            })?
        };
        scope.watched_in(own)?;
        let common = Common { scope, is_leaf, waiting: HashMap::new(), joined: 0, bytes_max };
        let common = Arc::new(Mutex::new(common));
        self.nodes.insert(key, Arc::downgrade(&common));
        Ok(Member::new(common))
    }
}

impl Common {
    /// Reads new tuples for all members. The limit of waiting bytes does not apply to the member that pulls.
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
        // Tuples that waited before are for the other members.
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
            // Events that gaps among the dropped tuples count as lost are added.
            let gaps = oldest.batch.tuples().filter(|tuple| tuple.lost().is_some()).count();
            self.lost += (oldest.batch.len() - gaps) as u64 + oldest.lost;
            self.lost_ns = oldest.batch.tuples().last().map_or(self.lost_ns, |tuple| tuple.head().time_ns);
        }
    }

    /// Returns the waiting tuples, after a gap for those that were dropped.
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
