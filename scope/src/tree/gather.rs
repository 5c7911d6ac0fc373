//! Gathering: the sources of a leaf are read in branches, by threads, and merged by time.

use super::held::Held;
use super::price::thread_ns;
use super::pulled::Pulled;
use super::shape::Shape;
use crate::leaf::{Source, Taken};
use crate::operators::{During, Moment, Part, Reduce};
use crate::tuple::{Batch, Tables, merge};
use crate::view::{Leaf, Pull, Stage, Tree};
use std::sync::Arc;
use std::time::Instant;

/// The source of a leaf's tuples if they are read once for several scopes.
pub(crate) trait Inlet: Send {
    /// Returns all tuples since the last pull, in successive batches, or the latest tuple of each element.
    fn pull(&mut self, pull: Pull) -> Vec<Arc<Pulled>>;
}

/// A leaf with its sources, and the operators that run on each tuple where it is read.
pub(crate) struct Gatherer {
    pub(crate) leaf: Leaf,
    /// The part of the view that is shared with other scopes; `None` once the leaf has its inlet.
    pub(crate) shared: Option<Tree>,
    pub(crate) sources: Vec<Reading>,
    /// The inlet of a leaf that reads nothing itself.
    pub(crate) inlet: Option<Box<dyn Inlet>>,
    /// Whether the inlet may give more tuples.
    is_fed: bool,
    /// The operators that run on each tuple.
    pub(crate) each: Vec<Stage>,
    /// The reduction of the leaf's tuples, of which each branch makes a part.
    pub(crate) part: Option<Reduce>,
    /// Tuples that are held back, because earlier ones may still come.
    held: Held,
    workers: Vec<Worker>,
}

/// The approximate limit of tuples of 64 bytes that all sources together give in one pull; the next pulls
/// return the rest.
const PULL_TUPLES_MAX: usize = 1 << 22;

/// A source, and its position of reading.
pub(crate) struct Reading {
    pub(crate) source: Source,
    /// The time of the last tuple that was read, if the source had more than the limit of a pull.
    stopped_ns: Option<u64>,
    /// When the source was last read. Unless `stopped_ns` is set, everything until then was read.
    read_ns: u64,
    /// Whether this pull reads the source.
    is_due: bool,
}

impl From<Source> for Reading {
    fn from(source: Source) -> Reading {
        Reading { source, stopped_ns: None, read_ns: 0, is_due: true }
    }
}

/// The state of a thread that reads branches.
struct Worker {
    each: Vec<Stage>,
    part: Option<Reduce>,
}

/// The result of a leaf in a pull.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) batch: Batch,
    pub(crate) part: Part,
    /// The time after which more tuples will come.
    pub(crate) stopped_ns: Option<u64>,
    pub(crate) problems: Vec<String>,
    pub(crate) left_out: u64,
    /// The number of tuples that were read, including those that were left out later.
    pub(crate) read: u64,
    /// Processor time of threads other than the caller's.
    pub(crate) cost_ns: u64,
    /// Whether the tuples' times are from several clocks without a known bound on their differences.
    pub(crate) is_unbounded: bool,
}

/// The parameters of reading in a pull.
#[derive(Clone, Copy)]
pub(crate) struct Pass {
    pub(crate) pull: Pull,
    pub(crate) shape: Shape,
    pub(crate) moment: Moment,
    pub(crate) hold_ns: u64,
    pub(crate) begun: Instant,
}

impl Gatherer {
    pub(crate) fn new(leaf: Leaf) -> Gatherer {
        Gatherer {
            leaf,
            shared: None,
            sources: Vec::new(),
            inlet: None,
            is_fed: false,
            each: Vec::new(),
            part: None,
            held: Held::default(),
            workers: Vec::new(),
        }
    }

    /// Replaces the leaf's sources by this inlet.
    pub(crate) fn fed_by(&mut self, inlet: Box<dyn Inlet>) {
        (self.inlet, self.is_fed) = (Some(inlet), true);
    }

    /// Ends the threads; the next pull makes new ones.
    pub(crate) fn reshape(&mut self) {
        self.workers.clear();
    }

    /// Whether no source will give more, so that all held tuples are to be handed over.
    pub(crate) fn is_over(&self) -> bool {
        self.sources.is_empty() && !self.is_fed && self.held.is_empty()
    }

    /// Gathers tuples that were read for several scopes.
    fn pull_inlet(&mut self, pulled: Vec<Arc<Pulled>>, pass: Pass, tables: &Arc<Tables>) -> Gathered {
        self.work_with(1);
        let mut gathered = Gathered::default();
        let mut batches = Vec::with_capacity(pulled.len());
        for pulled in pulled {
            gathered.problems.extend(pulled.problems.iter().cloned());
            gathered.left_out += pulled.left_out;
            gathered.cost_ns += pulled.aside_ns;
            gathered.is_unbounded |= pulled.bound_ns.is_none();
            gathered.stopped_ns = pulled.stopped_ns;
            self.is_fed = !pulled.is_over;
            // The last scope that uses the batch gets it without a copy.
            let batch = Arc::try_unwrap(pulled).map(|pulled| pulled.batch);
            let (mut batch, mut out) =
                (batch.unwrap_or_else(|pulled| pulled.batch.clone()), Batch::default());
            self.workers[0].work(&mut batch, &mut out, pass, tables, &mut gathered);
            batches.push(in_order(out));
        }
        self.gather(batches, pass, &mut gathered, tables);
        gathered
    }

    /// Makes threads until there are `threads` of them.
    fn work_with(&mut self, threads: usize) {
        while self.workers.len() < threads {
            let each = self.each.iter().filter_map(Stage::of_each).collect();
            self.workers.push(Worker { each, part: self.part.as_ref().map(Reduce::part) });
        }
    }

    /// Reads all sources.
    pub(crate) fn pull(&mut self, pass: Pass, tables: &Arc<Tables>) -> Gathered {
        if let Some(inlet) = &mut self.inlet {
            let pulled = inlet.pull(pass.pull);
            return self.pull_inlet(pulled, pass, tables);
        }
        let Shape { threads, fan_out, .. } = pass.shape;
        let count = self.choose(pass);
        let limit = pass.shape.buffer.min(PULL_TUPLES_MAX / count.max(1)).max(64);
        let pass = Pass { shape: Shape { buffer: limit, ..pass.shape }, ..pass };
        let threads = threads.min(count.div_ceil(fan_out)).max(1);
        self.work_with(threads);
        let mut readings: Vec<&mut Reading> =
            self.sources.iter_mut().filter(|reading| reading.is_due).collect();
        let branches = readings.chunks_mut(fan_out);
        let mut gathered = Gathered::default();
        let mut batches = Vec::new();
        if threads == 1 {
            self.workers[0].read(branches, pass, tables, (&mut gathered, &mut batches));
        } else {
            let mut shares: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
            for (n, branch) in branches.enumerate() {
                shares[n * threads / count.div_ceil(fan_out)].push(branch);
            }
            std::thread::scope(|scope| {
                let read = |(share, worker)| scope.spawn(move || read_aside(share, worker, pass, tables));
                let running: Vec<_> = shares.into_iter().zip(&mut self.workers).map(read).collect();
                for thread in running {
                    let (made, more) = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    batches.extend(more);
                    gathered.add(made);
                }
            });
        }
        if pass.pull == Pull::Since {
            gathered.stopped_ns = self.sources.iter().filter_map(Reading::limit_ns).min();
        }
        self.gather(batches, pass, &mut gathered, tables);
        self.sources.retain(|reading| !reading.source.is_ended());
        gathered
    }

    /// Chooses which sources this pull reads; returns their number. When more tuples are held than the limit
    /// of a source, only the quarter of the sources that is furthest behind is read, because the others wait
    /// for it.
    fn choose(&mut self, pass: Pass) -> usize {
        let is_much = pass.pull == Pull::Since
            && self.held.len() > pass.shape.buffer
            && self.sources.iter().any(|reading| reading.stopped_ns.is_some());
        let until = is_much.then(|| {
            let mut known: Vec<u64> = self.sources.iter().map(Reading::read_until).collect();
            let quarter = known.len() / 4;
            *known.select_nth_unstable(quarter).1
        });
        for reading in &mut self.sources {
            reading.is_due = until.is_none_or(|until| reading.read_until() <= until);
        }
        self.sources.iter().filter(|reading| reading.is_due).count()
    }

    /// Merges the tuples that were read with the held ones, and holds those of times for which more tuples
    /// may come.
    fn gather(&mut self, mut batches: Vec<Batch>, pass: Pass, gathered: &mut Gathered, tables: &Tables) {
        let kinds = &tables.now().kinds;
        if pass.pull == Pull::Since {
            let is_over = !self.is_fed && self.sources.iter().all(|reading| reading.source.is_ended());
            let mut until = gathered.stopped_ns.unwrap_or(u64::MAX);
            if pass.hold_ns > 0 && !is_over {
                until = until.min(pass.moment.now_ns.saturating_sub(pass.hold_ns));
            }
            // Held tuples were read earlier, so they precede new ones of the same time.
            batches = self.held.due(batches, until, kinds);
        }
        gathered.batch = merged_by_levels(batches, pass, |batches| merge(batches, kinds));
    }
}

/// Merges batches by levels of nodes.
fn merged_by_levels(mut batches: Vec<Batch>, pass: Pass, node: impl Fn(Vec<Batch>) -> Batch) -> Batch {
    if pass.pull == Pull::Latest {
        // The latest tuples, one for each element, stay in the order of the elements.
        return batches.into_iter().reduce(|first, next| node(vec![first, next])).unwrap_or_default();
    }
    let fan_out = pass.shape.fan_out.max(2);
    for _ in 1..pass.shape.depth {
        if batches.len() <= fan_out {
            break;
        }
        let mut next = Vec::with_capacity(batches.len() / fan_out + 1);
        while !batches.is_empty() {
            let rest = batches.split_off(fan_out.min(batches.len()));
            next.push(node(std::mem::replace(&mut batches, rest)));
        }
        batches = next;
    }
    node(batches)
}

/// Puts a batch into the order of time. In the input, an event that was committed late comes after later
/// ones. The events of an element stay in order.
fn in_order(mut batch: Batch) -> Batch {
    if !batch.heads.is_sorted_by_key(|head| head.time_ns) {
        batch.heads.sort_by_key(|head| head.time_ns);
    }
    batch
}

impl Reading {
    /// The time until which everything was read.
    fn read_until(&self) -> u64 {
        self.stopped_ns.unwrap_or(self.read_ns)
    }

    /// The time after which tuples must be held, because more may come; `None`: everything was read.
    fn limit_ns(&self) -> Option<u64> {
        (self.stopped_ns.is_some() || !self.is_due).then(|| self.read_until())
    }
}

impl Gathered {
    fn add(&mut self, other: Gathered) {
        self.problems.extend(other.problems);
        self.left_out += other.left_out;
        self.read += other.read;
        self.cost_ns += other.cost_ns;
        for (window, groups) in other.part {
            self.left_out += self.part.entry(window).or_default().merge(groups);
        }
    }
}

/// Reads the branches of a thread other than the caller's.
fn read_aside(
    share: Vec<&mut [&mut Reading]>,
    worker: &mut Worker,
    pass: Pass,
    tables: &Arc<Tables>,
) -> (Gathered, Vec<Batch>) {
    let mut gathered = Gathered::default();
    let begin = thread_ns();
    let mut batches = Vec::with_capacity(share.len());
    worker.read(share.into_iter(), pass, tables, (&mut gathered, &mut batches));
    gathered.cost_ns = thread_ns().saturating_sub(begin);
    (gathered, batches)
}

impl Worker {
    /// Reads branches, and makes a batch of each.
    fn read<'r, 'b: 'r>(
        &mut self,
        branches: impl Iterator<Item = &'r mut [&'b mut Reading]>,
        pass: Pass,
        tables: &Arc<Tables>,
        (gathered, batches): (&mut Gathered, &mut Vec<Batch>),
    ) {
        for branch in branches {
            if let [reading] = branch {
                batches.push(self.read_in(reading, pass, tables, gathered));
                continue;
            }
            let mut gathers = Vec::with_capacity(branch.len());
            for reading in branch.iter_mut() {
                gathers.push(self.read_in(reading, pass, tables, gathered));
            }
            let kinds = &tables.now().kinds;
            batches.push(match pass.pull {
                Pull::Since => merge(gathers, kinds),
                Pull::Latest => gathers.into_iter().fold(Batch::default(), |mut all, batch| {
                    all.append(batch, kinds);
                    all
                }),
            });
        }
    }

    fn read_in(
        &mut self,
        reading: &mut Reading,
        pass: Pass,
        tables: &Arc<Tables>,
        gathered: &mut Gathered,
    ) -> Batch {
        let (batch, taken) = self.read_one(&mut reading.source, pass, tables, gathered);
        if pass.pull == Pull::Since {
            (reading.stopped_ns, reading.read_ns) = (taken.stopped_ns, pass.moment.now_ns);
        }
        gathered.problems.extend(taken.problem);
        batch
    }

    fn read_one(
        &mut self,
        source: &mut Source,
        pass: Pass,
        tables: &Arc<Tables>,
        gathered: &mut Gathered,
    ) -> (Batch, Taken) {
        let mut out = Batch::default();
        let mut batch = Batch::default();
        let mut take = |batch: &mut Batch| self.work(batch, &mut out, pass, tables, gathered);
        source.begin_pull(pass.begun);
        let (now_ns, shape) = (pass.moment.now_ns, pass.shape);
        match pass.pull {
            Pull::Since => {
                let taken = source.since((shape.batch, shape.buffer), now_ns, &mut batch, &mut take);
                (in_order(out), taken)
            }
            Pull::Latest => {
                let taken = source.latest(now_ns, &mut batch, &mut take);
                (out, taken)
            }
        }
    }

    /// Runs the operators on each tuple of a batch, and appends it to others.
    fn work(
        &mut self,
        batch: &mut Batch,
        out: &mut Batch,
        pass: Pass,
        tables: &Arc<Tables>,
        gathered: &mut Gathered,
    ) {
        if batch.is_empty() {
            return batch.clear();
        }
        gathered.read += batch.len() as u64;
        let (legend, problems) = (tables.now(), Vec::new());
        let mut during = During { moment: pass.moment, legend, tables, problems, left_out: 0 };
        for stage in &mut self.each {
            match stage {
                Stage::Filter(filter) => filter.apply(batch, &mut during),
                Stage::Convert(convert) => convert.apply(batch, &mut during),
                _ => {}
            }
        }
        if let Some(part) = &mut self.part {
            part.take(batch, &mut gathered.part, &mut during);
        }
        gathered.problems.append(&mut during.problems);
        gathered.left_out += during.left_out;
        out.append(std::mem::take(batch), &during.legend.kinds);
    }
}
