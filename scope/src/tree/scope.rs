//! A scope: a view on running processes, which is read by pulls.

use super::choosing::Choosing;
use super::gather::{Gathered, Gatherer, Inlet, Pass};
use super::price::Price;
use super::pulled::Pulled;
use super::shape::Shape;
use super::watch::Watch;
use crate::error::Error;
use crate::leaf::{Clocks, Finder, Found, Source, Target};
use crate::operators::{During, Making, Moment, Names, Part, Reduce, top};
use crate::tuple::{Batch, ELEMENT_NONE, Tables, merge};
use crate::view::{Leaf, Pull, Stage, Step, Tree, View, leaf_names, stage};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_pack::Problem;
use thalweg_space::Space;
use thalweg_space::reader::SpaceReader;

/// The most problems that are remembered, so that a scope reports each once.
const PROBLEMS_MAX: usize = 1000;

/// Which of the events that were recorded before a scope is opened the scope reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backlog {
    /// All events that elements still hold.
    #[default]
    All,
    /// Events of at most this age.
    Last(Duration),
    /// No earlier events.
    Nothing,
}

/// A view on running processes. A scope reads nothing and holds no lock between two pulls.
///
/// ```
/// use thalweg_scope::{Backlog, Leaf, Scope, Target, Tree, Value, View};
/// use thalweg_space::{CollectorOptions, Kind, Space, SpaceOptions};
///
/// /// A beat.
/// #[derive(Kind)]
/// #[kind(name = "example.beat")]
/// struct Beat {
///     queued: u64,
/// }
/// # let parent = std::env::temp_dir().join(format!("thalweg-scope-{}", std::process::id()));
/// # std::fs::create_dir_all(&parent).unwrap();
/// # let options = SpaceOptions { name: "beats".into(), parent: Some(parent.clone()), ..Default::default() };
/// // Usually in another process:
/// let space = Space::create(options)?;
/// let mut path = space.collector::<Beat>("to node 3", CollectorOptions::default())?;
/// path.record(&Beat { queued: 7 });
///
/// let tree = Tree::leaf(Leaf::of_kinds(["example.beat"])).filter("queued > 5");
/// let view = View::new("queues", "Which paths have more than five waiting?", tree).unwrap();
/// let mut scope = Scope::open(&view, Target::of(space.path()), Backlog::All)?;
/// let pulled = scope.pull_since();
/// assert_eq!(pulled.batch.tuples().next().unwrap().field("queued"), Some(Value::Unsigned(7)));
/// assert!(scope.pull_since().batch.is_empty(), "none twice");
/// # std::fs::remove_dir_all(parent).unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scope {
    view: View,
    root: Node,
    leaves: Vec<Gatherer>,
    /// Looks for processes; `None` if the scope reads only from inlets.
    finder: Option<Finder>,
    shape: Shape,
    /// Chooses the shape; `None`: a shape was set.
    choosing: Option<Choosing>,
    clocks: Clocks,
    tables: Arc<Tables>,
    price: Price,
    watch: Option<Watch>,
    /// The time before which events of processes found at the first look are not read.
    since_ns: u64,
    before_ns: u64,
    /// The time of the latest tuple that was handed over.
    handed_ns: u64,
    reported: HashSet<String>,
    found: bool,
}

enum Node {
    Leaf(usize),
    Gather(Vec<Node>),
    Step(Box<Node>, Stage),
}

impl Scope {
    /// Opens a view on the target's processes. Each pull looks for further processes.
    ///
    /// # Errors
    /// When the view is invalid, or the target has no space.
    pub fn open(view: &View, target: Target, backlog: Backlog) -> Result<Scope, Error> {
        Scope::open_among(view, target, backlog, Arc::default())
    }

    /// Opens a view with a legend that other scopes share.
    pub(crate) fn open_among(
        view: &View,
        target: Target,
        backlog: Backlog,
        tables: Arc<Tables>,
    ) -> Result<Scope, Error> {
        let now = now_ns();
        let since_ns = match backlog {
            Backlog::All => 0,
            Backlog::Last(span) => now.saturating_sub(span.as_nanos() as u64),
            Backlog::Nothing => now,
        };
        let finder = Some(Finder::new(target));
        let mut scope = Scope { finder, since_ns, ..Scope::of(view, tables, &|_| false)? };
        let problems = scope.find()?;
        match problems.into_iter().next() {
            Some(problem) if !scope.found && !scope.is_open() => Err(Error::new(problem)),
            _ => Ok(scope),
        }
    }

    /// Opens a view on tuples that are read for several scopes: `inlet` returns the inlets of the shared
    /// trees; their tuples have this legend. All leaves have to be in shared trees.
    pub(crate) fn of_inlets(
        view: &View,
        tables: Arc<Tables>,
        is_shared: &dyn Fn(&Tree) -> bool,
        mut inlet: impl FnMut(&Tree) -> Result<Box<dyn Inlet>, Error>,
    ) -> Result<Scope, Error> {
        let mut scope = Scope::of(view, tables, is_shared)?;
        for leaf in &mut scope.leaves {
            if let Some(tree) = leaf.shared.take() {
                leaf.fed_by(inlet(&tree)?);
            }
        }
        Ok(scope)
    }

    fn of(view: &View, tables: Arc<Tables>, is_shared: &dyn Fn(&Tree) -> bool) -> Result<Scope, Error> {
        let mut leaves = Vec::new();
        let built = build(&view.tree, &mut leaves, is_shared);
        let (root, _) = built.map_err(|problem| Error::new(format!("view `{}`: {problem}", view.name)))?;
        Ok(Scope {
            view: view.clone(),
            root,
            leaves,
            finder: None,
            shape: Shape::default(),
            choosing: Some(Choosing::default()),
            clocks: Clocks::default(),
            tables,
            price: Price::new(Price::SHARE),
            watch: None,
            since_ns: 0,
            before_ns: 0,
            handed_ns: 0,
            reported: HashSet::new(),
            found: false,
        })
    }

    /// Whether other processes may join.
    fn is_open(&self) -> bool {
        self.finder.as_ref().is_some_and(Finder::is_open)
    }

    /// Sets the shape for all further pulls, without an effect on which tuples are pulled. Without this call
    /// the scope chooses its shape by the times of pulls, within its limit of processor time.
    pub fn reshape(&mut self, shape: Shape) {
        self.choosing = None;
        self.shape = shape.clamped();
        self.leaves.iter_mut().for_each(Gatherer::reshape);
    }

    /// The shape of the scope.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The view of the scope.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The processor time that the scope's pulls took, and its limit.
    pub fn price(&mut self) -> &mut Price {
        &mut self.price
    }

    /// How many processes the scope reads.
    pub fn processes(&self) -> usize {
        self.leaves.iter().map(|leaf| leaf.sources.len()).max().unwrap_or(0)
    }

    /// The spaces of the processes that the scope reads, each with the process's index in the legend, for
    /// data that tuples lack.
    pub fn spaces(&self) -> impl Iterator<Item = (u32, &SpaceReader)> {
        let longest = self.leaves.iter().max_by_key(|leaf| leaf.sources.len());
        longest.into_iter().flat_map(|leaf| &leaf.sources).map(|reading| reading.source.space())
    }

    /// Makes collectors in this space for the nodes of the scope, so that other scopes can observe this one.
    ///
    /// # Errors
    /// When the file system is full.
    pub fn watched_in(&mut self, space: &Space) -> Result<(), Error> {
        self.watch = Some(Watch::new(space, &self.view.name, self.leaves.len())?);
        Ok(())
    }

    /// Pulls in the way that the view's `pull` names.
    pub fn pull(&mut self) -> Pulled {
        self.pull_as(self.view.pull)
    }

    /// Pulls all tuples since the last pull, in order of time, with gaps where events are lost.
    pub fn pull_since(&mut self) -> Pulled {
        self.pull_as(Pull::Since)
    }

    /// Pulls the latest tuple of each element and of each live row.
    pub fn pull_latest(&mut self) -> Pulled {
        self.pull_as(Pull::Latest)
    }

    fn pull_as(&mut self, pull: Pull) -> Pulled {
        let begun = self.price.begin();
        if let Some(choosing) = &mut self.choosing {
            self.shape = choosing.begin(begun.at, self.price.per_s());
        }
        let started = self.watch.as_ref().map(Watch::start);
        let mut pulled = Pulled::default();
        match self.find() {
            Ok(problems) => pulled.problems = problems,
            Err(error) => pulled.problems.push(format!("{error:#}")),
        }
        // The wall clock may be set back, so the time of a pull is at least that of the last.
        let moment =
            Moment { now_ns: now_ns().max(self.before_ns), before_ns: self.before_ns, ..Moment::default() };
        let pass = Pass { pull, shape: self.shape, moment, hold_ns: self.view.hold_ns, begun: begun.at };
        let mut gathered = self.gather(pass, &mut pulled);
        let of_leaves = || gathered.iter().flatten();
        let read = of_leaves().map(|gathered| gathered.read).sum();
        pulled.stopped_ns = of_leaves().filter_map(|gathered| gathered.stopped_ns).min();
        let is_unbounded = of_leaves().any(|gathered| gathered.is_unbounded);
        let stopped_ns = pulled.stopped_ns.unwrap_or(u64::MAX);
        let is_over = self.leaves.iter().all(Gatherer::is_over) && !self.is_open();
        let complete_ns = stopped_ns.min(moment.now_ns.saturating_sub(self.view.hold_ns));
        let moment = Moment { complete_ns, is_end: is_over, ..moment };
        let (tables, mut problems) = (self.tables.clone(), Vec::new());
        let mut during =
            During { moment, legend: tables.now(), tables: &tables, problems: Vec::new(), left_out: 0 };
        let mut batch = evaluate(&mut self.root, &mut gathered, &mut during);
        problems.append(&mut during.problems);
        pulled.left_out += during.left_out;
        batch.legend = tables.now();
        if pull == Pull::Since {
            // Tuples that an operator makes have no single time of recording, so they do not count as late.
            let of_elements =
                || batch.heads.iter().filter(|head| head.element != ELEMENT_NONE).map(|head| head.time_ns);
            pulled.late = of_elements().filter(|time_ns| *time_ns < self.handed_ns).count() as u64;
            self.handed_ns = of_elements().fold(self.handed_ns, u64::max);
        }
        pulled.lost = batch.lost();
        pulled.problems.extend(problems);
        self.report_once(&mut pulled.problems);
        pulled.bound_ns = self.clocks.bound_ns().filter(|_| !is_unbounded);
        pulled.is_over = is_over;
        self.before_ns = moment.now_ns;
        if let (Some(watch), Some(started)) = (&mut self.watch, started) {
            watch.root(started, batch.len() as u64, batch.bytes() as u64);
        }
        pulled.batch = batch;
        let (now, cost_ns) = self.price.end(begun);
        pulled.aside_ns = pulled.cost_ns;
        pulled.cost_ns += cost_ns;
        self.price.pay_at(now, pulled.cost_ns);
        if let Some(choosing) = &mut self.choosing {
            choosing.end(now, read, pulled.cost_ns);
        }
        pulled
    }

    fn gather(&mut self, pass: Pass, pulled: &mut Pulled) -> Vec<Option<Gathered>> {
        let mut all = Vec::with_capacity(self.leaves.len());
        for (n, leaf) in self.leaves.iter_mut().enumerate() {
            let started = self.watch.as_ref().map(Watch::start);
            let sources = leaf.sources.len() as u64;
            let mut gathered = leaf.pull(pass, &self.tables);
            if let (Some(watch), Some(started)) = (&mut self.watch, started) {
                watch.leaf(n, started, gathered.batch.len() as u64, sources);
            }
            pulled.problems.append(&mut gathered.problems);
            pulled.left_out += gathered.left_out;
            pulled.cost_ns += gathered.cost_ns;
            all.push(Some(gathered));
        }
        all
    }

    fn report_once(&mut self, problems: &mut Vec<String>) {
        let reported = &mut self.reported;
        problems.retain(|problem| reported.len() < PROBLEMS_MAX && reported.insert(problem.clone()));
    }

    /// Looks for processes; returns the errors of those that cannot be read.
    fn find(&mut self) -> Result<Vec<String>, Error> {
        let is_first = self.before_ns == 0 && !self.found;
        let Some(finder) = &mut self.finder else { return Ok(Vec::new()) };
        let found = finder.look()?;
        let mut problems = Vec::new();
        for process in found {
            // A process that joins later is read from its beginning.
            let since_ns = if is_first { self.since_ns } else { 0 };
            self.found |= self.open_process(&process, since_ns, &mut problems);
        }
        Ok(problems)
    }

    fn open_process(&mut self, process: &Found, since_ns: u64, problems: &mut Vec<String>) -> bool {
        let mut is_readable = true;
        for leaf in &mut self.leaves {
            match Source::open(process, &leaf.leaf, &self.clocks, &self.tables, since_ns) {
                Ok(source) => leaf.sources.extend(source.map(Into::into)),
                Err(error) => {
                    is_readable = false;
                    problems.push(format!("{error:#}"));
                }
            }
        }
        is_readable
    }
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scope({}, {} processes)", self.view.name, self.processes())
    }
}

/// Makes the nodes of a tree. Operators on single tuples move to the leaf where the tuples are read. A shared
/// subtree becomes a leaf.
fn build(
    tree: &Tree,
    leaves: &mut Vec<Gatherer>,
    is_shared: &dyn Fn(&Tree) -> bool,
) -> Result<(Node, Names), Problem> {
    match tree {
        shared if is_shared(shared) => {
            let mut gatherer = Gatherer::new(Leaf::default());
            gatherer.shared = Some(shared.clone());
            leaves.push(gatherer);
            let names = shared.names().map_err(|mut problems| problems.remove(0))?;
            Ok((Node::Leaf(leaves.len() - 1), names))
        }
        Tree::Leaf(leaf) => {
            let names = leaf_names(leaf).map_err(|mut problems| problems.remove(0))?;
            let mut gatherer = Gatherer::new(leaf.clone());
            if let Some(when) = &leaf.when {
                let (filter, _) = staged(&Step::Filter(when.clone()), names.clone())?;
                gatherer.each.push(filter);
            }
            leaves.push(gatherer);
            Ok((Node::Leaf(leaves.len() - 1), names))
        }
        Tree::Gather(trees) => {
            let nodes = trees.iter().map(|tree| Ok(build(tree, leaves, is_shared)?.0));
            let nodes = nodes.collect::<Result<_, Problem>>()?;
            Ok((Node::Gather(nodes), tree.names().map_err(|mut problems| problems.remove(0))?))
        }
        Tree::Step(below, step) => {
            let (node, names) = build(below, leaves, is_shared)?;
            let (stage, names) = staged(step, names)?;
            if let Node::Leaf(leaf) = node {
                let gatherer = &mut leaves[leaf];
                match &stage {
                    Stage::Filter(_) | Stage::Convert(_) => {
                        gatherer.each.push(stage);
                        return Ok((Node::Leaf(leaf), names));
                    }
                    Stage::Reduce(reduce) => gatherer.part = Some(reduce.part()),
                    _ => {}
                }
            }
            Ok((Node::Step(Box::new(node), stage), names))
        }
    }
}

fn staged(step: &Step, names: Names) -> Result<(Stage, Names), Problem> {
    stage(step, names).map_err(|mut wrong| wrong.remove(0).1)
}

fn evaluate(node: &mut Node, gathered: &mut [Option<Gathered>], during: &mut During<'_>) -> Batch {
    match node {
        Node::Leaf(leaf) => gathered[*leaf].take().map_or_else(Batch::default, |gathered| gathered.batch),
        Node::Gather(nodes) => {
            let batches: Vec<Batch> = nodes.iter_mut().map(|node| evaluate(node, gathered, during)).collect();
            merge(batches, &during.legend.kinds)
        }
        Node::Step(below, stage) => {
            let part = match &**below {
                Node::Leaf(leaf) => {
                    gathered[*leaf].as_mut().map(|gathered| std::mem::take(&mut gathered.part))
                }
                _ => None,
            };
            let mut batch = evaluate(below, gathered, during);
            let legend = during.legend.clone();
            match stage {
                Stage::Filter(filter) => filter.apply(&mut batch, during),
                Stage::Convert(convert) => convert.apply(&mut batch, during),
                Stage::Reduce(reduce) => finish(reduce, part, &mut batch, during),
                Stage::Top { by, count, names } => top(by, *count, names, &mut batch, during),
                Stage::Limit(limit) => limit.apply(&mut batch, during),
                Stage::Own { operator, kinds } => {
                    batch.legend = legend;
                    let mut out = Batch::default();
                    let mut making = Making { batch: &mut out, tables: during.tables, kinds };
                    operator.apply(&batch, &during.moment, &mut making);
                    batch = out;
                    during.legend = during.tables.now();
                }
            }
            batch
        }
    }
}

/// Completes a reduction from the part that was made where the tuples were read, or from the batch if there
/// is none.
fn finish(reduce: &mut Reduce, part: Option<Part>, batch: &mut Batch, during: &mut During<'_>) {
    let mut part = part.unwrap_or_default();
    reduce.take(batch, &mut part, during);
    reduce.merge(part, during);
    reduce.finish(batch, during);
}

/// The current time in nanoseconds since 1970.
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
