//! The figures of an attachment: as a table, as JSON, and as events of a space, so that other commands read
//! them.

use std::time::Instant;

use serde_json::json;
use thalweg_attach::{
    Argument, Attachment, Figures, Function, Histogram, Restored, Scale, Unrecorded, Which, Wish,
};
use thalweg_probe::kinds::{Counted, Gauged};
use thalweg_space::{Clock, Command, KindId, Site, Space, SpaceOptions, Writer};

use crate::failure::Failure;
use crate::output::Output;
use crate::removed::Removed;
use crate::table::{Table, number, text as column};
use crate::units::{count, duration, rate, share};

use super::distribution;
use super::events::{self, Events};
use super::held::Held;
use super::kept::{Columns, Kept, Times};
use super::types::Signatures;
use super::undone::{self, Changes};

/// The costs of a counted call, of one that is left out of what is measured, and of a call that is timed or has
/// its result kept, in ns, rounded up from the measurements in BENCHMARKS.md.
const COUNTED_NS: f64 = 2.0;
const LEFT_OUT_NS: f64 = 3.0;
const TIMED_NS: f64 = 26.0;
/// The cost of each argument that is kept, in ns: of an integer, and of a floating-point number.
const ARGUMENT_NS: f64 = 6.0;
const FLOAT_NS: f64 = 13.0;
/// The cost of keeping a call one by one, in ns.
const KEPT_NS: f64 = 2.0;
/// The name of this command in the audit of a space.
pub(super) const TOOL: &str = "thalweg attach";
/// Of a point that costs too much, one call in this number is measured at least; if that still costs too much,
/// the point is removed.
const ONE_IN_MAX: u32 = 1 << 10;

/// The figures of all points, with the writer and the space that publish them.
pub(super) struct Shown {
    clock: Clock,
    begin: Instant,
    begin_ticks: u64,
    last: Instant,
    points: Vec<PointShown>,
    /// The space must not be dropped before its writer.
    writer: Writer,
    counted: KindId<Counted>,
    gauged: KindId<Gauged>,
    held: Held,
    /// What has to be undone.
    changes: Changes,
    events: Events,
    /// The target's process id.
    pid: i32,
    space: Space,
    /// Removes the space, unless the user wants to keep it; it is the last field, because fields are dropped
    /// in order and the space is still used by the others.
    _removed: Option<Removed>,
}

struct PointShown {
    name: String,
    module: String,
    call_ns: f64,
    /// Of the calls, one in this number is measured, and all are counted.
    one_in: u32,
    /// The ids in the space: of the operation whose calls are recorded as events, and of the counter of calls
    /// that were not recorded.
    operation: Option<u32>,
    dropped: Option<u32>,
    unrecorded: Unrecorded,
    columns: Columns,
    /// Where calls came from: the place, its module, and the number of calls.
    callers: Vec<(String, String, u64)>,
    kept: Kept,
    now: Figures,
    before: Figures,
    per_s: f64,
    /// Whether the point was removed because it cost too much.
    is_off: bool,
    counter: u32,
    median: u32,
    slow: u32,
}

impl Shown {
    /// Makes the space, before anything is done to the process.
    pub(super) fn new(attachment: &Attachment, keep: bool) -> Result<Shown, Failure> {
        let failed = |error| Failure::run("cannot make the space of the figures", error);
        let pid = attachment.target().pid;
        let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let options = SpaceOptions {
            name: format!("attach-{}", program.trim_end().replace('/', "-")),
            keep,
            ..SpaceOptions::default()
        };
        let space = Space::create(options).map_err(failed)?;
        let mut writer = space.writer("attach").map_err(failed)?;
        let (counted, gauged) = (writer.declare().map_err(failed)?, writer.declare().map_err(failed)?);
        undone::left(&space, attachment);
        let now = Instant::now();
        let clock = Clock::new();
        Ok(Shown {
            begin_ticks: clock.now(),
            clock,
            begin: now,
            last: now,
            points: Vec::new(),
            writer,
            counted,
            gauged,
            held: Held::default(),
            changes: Changes::default(),
            events: Events::default(),
            pid,
            _removed: (!keep).then(|| Removed::new(&space)),
            space,
        })
    }

    /// Adds the points that the attachment got since the last call.
    pub(super) fn extend(&mut self, attachment: &Attachment, signatures: &Signatures) -> Result<(), Failure> {
        let space = &self.space;
        let site = |name: &str, kind| {
            let failed = |error| Failure::run("cannot note a function in the space", error);
            let site = space.site(&Site { name, kind, ..Site::default() }).map_err(failed)?;
            u32::try_from(site.0).map_err(|_| Failure::Usage("too many functions for a space".to_owned()))
        };
        for (number, point) in attachment.points().iter().enumerate().skip(self.points.len()) {
            let name = point.function.readable();
            let needs_return = point.wish.times || point.wish.results.is_some();
            let every = is_every(&point.wish);
            if every {
                events::check(&self.clock)?;
            }
            let columns = Columns::new(signatures.of(&point.function).cloned(), &point.wish);
            self.held.point(space, number, point, &name, &columns);
            self.points.push(PointShown {
                counter: site(&name, "counter")?,
                median: site(&format!("{name}.median_ns"), "gauge")?,
                slow: site(&format!("{name}.p99_ns"), "gauge")?,
                module: point.function.module.clone(),
                call_ns: if needs_return { TIMED_NS } else { COUNTED_NS }
                    + point.wish.arguments.iter().map(argument_ns).sum::<f64>()
                    + if point.wish.callers { ARGUMENT_NS } else { 0.0 }
                    + if point.wish.keep.is_some() { KEPT_NS } else { 0.0 },
                operation: every.then(|| site(&name, "operation")).transpose()?,
                dropped: every.then(|| site(&format!("{name}.dropped"), "counter")).transpose()?,
                unrecorded: Unrecorded::default(),
                callers: Vec::new(),
                kept: Kept::default(),
                columns,
                now: Figures::default(),
                before: Figures::default(),
                per_s: 0.0,
                is_off: false,
                one_in: point.one_in(),
                name,
            });
        }
        Ok(())
    }

    /// Records in the space what an option of this command has done, as if it had been a command to the space.
    pub(super) fn done(&self, name: &str, arguments: &str, result: &str) {
        let command = Command::new(format!("process {}", self.pid), name).with(arguments);
        // The audit is a record and no condition: what was done stays done if it cannot be recorded.
        let _ = self.space.record_own(&command, TOOL, result);
    }

    /// Notes a change that ends with the attachment, also for the guard.
    pub(super) fn ends(&mut self, attachment: &mut Attachment, address: u64, done: String, back: String) {
        self.changes.add(address, done, back);
        attachment.note(&self.changes.note());
    }

    /// Notes a call that undoes what another one has done, for the guard.
    pub(super) fn ends_by_call(&mut self, attachment: &mut Attachment, line: String) {
        self.changes.calls.insert(0, line);
        attachment.note(&self.changes.note());
    }

    /// Lets the guard make no such call any more.
    pub(super) fn ends_by_no_call(&mut self, attachment: &mut Attachment) {
        if !std::mem::take(&mut self.changes.calls).is_empty() {
            attachment.note(&self.changes.note());
        }
    }

    /// Records the end of the changes, and why they ended.
    pub(super) fn undone(&self, restored: &Restored, why: &str) {
        self.changes.undone(&self.space, self.pid, restored, why);
    }

    /// Makes a setting for a variable that was set, so that other programs can set the variable, too.
    pub(super) fn variable(&mut self, name: &str, value: i128) {
        self.held.variable(&self.space, name, value as u64);
    }

    /// Makes a setting that switches off what replaces a function or is inserted at it.
    pub(super) fn switch(&mut self, kind: &str, name: &str, function: &Function) {
        self.held.switch(&self.space, &format!("{kind}/{name}.on"), function);
    }

    /// Applies settings that were changed in the space.
    pub(super) fn adopt(&mut self, attachment: &mut Attachment) {
        // A lease that cannot be ended now, because the settings cannot be read, ends at the next call.
        let _ = self.space.see_to_leases();
        self.held.adopt(attachment);
        let _ = self.space.adopt();
        for (point, shown) in attachment.points().iter().zip(&mut self.points) {
            (shown.is_off, shown.one_in) = (!point.is_on(), point.one_in());
        }
    }

    /// Reads the figures, and writes the increases to the space.
    pub(super) fn look(&mut self, attachment: &Attachment) -> Result<(), Failure> {
        let seconds = self.last.elapsed().as_secs_f64().max(1e-6);
        self.last = Instant::now();
        for (index, point) in self.points.iter_mut().enumerate() {
            let figures = attachment.figures(index).map_err(Failure::usage)?;
            point.before = std::mem::replace(&mut point.now, figures);
            point.kept = match point.operation {
                Some(_) => Kept::default(),
                None => {
                    Kept::new(attachment.kept(index).map_err(Failure::usage)?, &point.columns, attachment)
                }
            };
            let callers = point.now.callers.iter().flat_map(|callers| &callers.counts);
            point.callers = callers.map(|(address, calls)| place(attachment, *address, *calls)).collect();
            let calls = point.now.calls - point.before.calls;
            point.per_s = calls as f64 / seconds;
            if calls > 0 {
                self.writer.emit(self.counted, &Counted { counter: point.counter, by: calls.cast_signed() });
            }
            let Some(ticks) = &point.now.ticks else { continue };
            let since =
                point.before.ticks.as_ref().map_or_else(|| ticks.clone(), |before| ticks.since(before));
            for (gauge, part) in [(point.median, 0.5), (point.slow, 0.99)] {
                if let Some(ticks) = since.quantile(part) {
                    self.writer
                        .emit(self.gauged, &Gauged { gauge, value: self.clock.ticks_to_ns(ticks) as f64 });
                }
            }
        }
        Ok(())
    }

    /// Writes an event for each call that has ended, of the functions for which events were asked for.
    pub(super) fn follow(&mut self, attachment: &Attachment) -> Result<(), Failure> {
        if self.points.iter().all(|point| point.operation.is_none()) {
            return Ok(());
        }
        let sites: Vec<u32> = self.points.iter().map(|point| point.operation.unwrap_or(0)).collect();
        self.events.write(attachment, &self.space, &self.clock, &sites)?;
        for (number, point) in self.points.iter_mut().enumerate() {
            let Some(counter) = point.dropped else { continue };
            let unrecorded = self.events.unrecorded(number);
            let by = unrecorded.overwritten - point.unrecorded.overwritten;
            if by > 0 {
                self.writer.emit(self.counted, &Counted { counter, by: by.cast_signed() });
            }
            point.unrecorded = unrecorded;
        }
        Ok(())
    }

    /// Keeps the points' cost below the fraction `budget` of a processor, the costliest first: measures fewer of
    /// its calls, or removes it if counting alone costs too much; and prints what was done.
    pub(super) fn keep_budget(&mut self, attachment: &mut Attachment, budget: f64) -> Result<(), Failure> {
        loop {
            let on = || self.points.iter().enumerate().filter(|(_, point)| !point.is_off);
            let sum: f64 = on().map(|(_, point)| point.cost()).sum();
            let most = on().max_by(|(_, a), (_, b)| a.cost().total_cmp(&b.cost()));
            let Some((index, point)) = most.filter(|_| sum > budget) else { return Ok(()) };
            let costs = format!("{} costs {} of a processor", point.name, share(point.cost()));
            let allowed = share(budget);
            let can_be_thinned = attachment.points()[index].can_be_thinned();
            match can_be_thinned.then(|| point.thinned(sum - budget)).flatten() {
                Some(one_in) => {
                    attachment.thin(index, one_in.into()).map_err(Failure::usage)?;
                    self.points[index].one_in = one_in;
                    self.held.thinned(index, one_in);
                    print_stderr!(
                        "{costs}: from now on one call in {one_in} is measured, and all are counted; {allowed} are allowed"
                    );
                }
                None => {
                    attachment.remove(index).map_err(Failure::usage)?;
                    self.points[index].is_off = true;
                    self.held.switched_off(index);
                    print_stderr!("{costs} and is taken away: {allowed} are allowed");
                }
            }
        }
    }

    /// Prints the figures; `of_process` says whether they are those of one of several processes.
    pub(super) fn print(&self, output: &mut Output, is_json: bool, of_process: bool) -> Result<(), Failure> {
        let seconds = self.begin.elapsed().as_secs_f64().max(1e-6);
        if is_json {
            for point in &self.points {
                output.line(&self.object(point, seconds).to_string())?;
            }
            return output.flush();
        }
        if self.points.is_empty() {
            return Ok(());
        }
        if of_process {
            let name = self.space.path().file_name().unwrap_or_default().to_string_lossy();
            output.line(&format!("process {} ({name})", self.pid))?;
        }
        let mut table = Table::new(&[
            column("FUNCTION").loose(),
            number("CALLS", 0),
            number("RATE", 1),
            number("MEAN", 2),
            number("MEDIAN", 1),
            number("99 %", 2),
            number("COST", 3),
            column("MODULE"),
        ]);
        for point in &self.points {
            let per_s = point.now.calls as f64 / seconds;
            let times = point.now.ticks.as_ref();
            let at = |part| {
                times
                    .and_then(|ticks| ticks.quantile(part))
                    .map_or_else(String::new, |ticks| self.time(ticks))
            };
            let mean = times
                .filter(|ticks| ticks.count() > 0)
                .map_or_else(String::new, |ticks| self.time(ticks.sum / ticks.count()));
            let cost = share(per_s * point.mean_ns() / 1e9);
            let cells = vec![
                point.name.clone(),
                count(point.now.calls),
                rate(per_s),
                mean,
                at(0.5),
                at(0.99),
                cost,
                point.module.clone(),
            ];
            table.row(cells, false);
        }
        output.table(&table)?;
        for point in &self.points {
            if point.one_in > 1 {
                let (name, one_in) = (&point.name, point.one_in);
                output.line(&format!("one call in {one_in} of {name} is measured, and all are counted"))?;
            }
            self.values(point, output)?;
            print_callers(point, output)?;
            self.timed(|times| point.kept.print(&point.name, &point.columns, times, output))?;
            print_without(point, output)?;
        }
        output.flush()
    }

    /// The distributions of arguments and results.
    fn values(&self, point: &PointShown, output: &mut Output) -> Result<(), Failure> {
        let argument = |argument: &Argument| match point.columns.declared(*argument) {
            declared if declared.is_empty() => format!("argument {}", point.columns.number(*argument)),
            declared => format!("argument {} ({declared})", point.columns.number(*argument)),
        };
        let arguments = point.now.arguments.iter();
        let arguments = arguments.map(|(of, values)| (argument(of), point.columns.of(*of), values));
        let results = point.now.results.iter();
        let results = results.map(|values| ("result".to_owned(), point.columns.of_result(), values));
        for (what, of, values) in arguments.chain(results).filter(|(.., values)| values.count() > 0) {
            let what = format!("{what} of {}", point.name);
            distribution::print(&what, of.map(|(_, form)| form), values, output)?;
        }
        Ok(())
    }

    /// Calls `show` with the conversion from ticks to times.
    fn timed<T>(&self, show: impl FnOnce(&Times<'_>) -> T) -> T {
        show(&Times { begin: self.begin_ticks, ns: &|ticks| self.clock.ticks_to_ns(ticks) })
    }

    fn time(&self, ticks: u64) -> String {
        duration(self.clock.ticks_to_ns(ticks) as f64)
    }

    fn object(&self, point: &PointShown, seconds: f64) -> serde_json::Value {
        let columns = &point.columns;
        let times = point.now.ticks.as_ref().map(|ticks| {
            let ns = |part| ticks.quantile(part).map(|ticks| self.clock.ticks_to_ns(ticks));
            let mean_ns = ticks.sum.checked_div(ticks.count()).map(|ticks| self.clock.ticks_to_ns(ticks));
            json!({ "count": ticks.count(), "mean_ns": mean_ns, "median_ns": ns(0.5), "p99_ns": ns(0.99) })
        });
        let arguments: serde_json::Map<String, serde_json::Value> = point
            .now
            .arguments
            .iter()
            .map(|(argument, values)| {
                let object = distribution::object(columns.of(*argument), values);
                (columns.number(*argument).to_string(), object)
            })
            .collect();
        let result = |values: &Histogram| distribution::object(columns.of_result(), values);
        let results = point.now.results.as_ref().map(result);
        json!({
            "pid": self.pid, "function": point.name, "module": point.module, "seconds": seconds, "calls": point.now.calls, "not_timed": point.now.not_timed,
            "times": times, "arguments": arguments, "results": results, "is_off": point.is_off,
            "callers": callers_object(point), "kept": self.timed(|times| point.kept.object(&point.columns, times)), "not_kept": point.kept.without,
            "without_event": point.unrecorded.overwritten + point.unrecorded.without_end,
            "one_in": point.one_in, "cost": point.now.calls as f64 / seconds * point.mean_ns() / 1e9,
        })
    }
}

impl PointShown {
    /// The mean cost of a call, in ns.
    fn mean_ns(&self) -> f64 {
        let left_out = LEFT_OUT_NS.min(self.call_ns);
        left_out + (self.call_ns - left_out) / f64::from(self.one_in)
    }

    /// The fraction of a processor that the calls cost.
    fn cost(&self) -> f64 {
        self.per_s * self.mean_ns() / 1e9
    }

    /// Of how many calls one has to be measured, so that the cost falls by `excess`; `None` if counting alone
    /// costs more than what is left then, or hardly any call would be measured.
    fn thinned(&self, excess: f64) -> Option<u32> {
        let counting = self.per_s * LEFT_OUT_NS.min(self.call_ns) / 1e9;
        let measuring = self.cost() - counting;
        let left = measuring - excess;
        if left <= 0.0 {
            return None;
        }
        let one_in = (f64::from(self.one_in) * measuring / left).ceil() as u32;
        one_in.checked_next_power_of_two().filter(|one_in| (self.one_in + 1..=ONE_IN_MAX).contains(one_in))
    }
}

fn argument_ns(argument: &Argument) -> f64 {
    match argument.form.scale() {
        Scale::Float => FLOAT_NS,
        _ => ARGUMENT_NS,
    }
}

/// A place that a call came from, as text for people: the function, and the distance from its beginning to
/// the place where the call returns to.
fn place(attachment: &Attachment, address: u64, calls: u64) -> (String, String, u64) {
    // The address is the one to which the call returns, so the byte before it is looked up: the call may be
    // the last instruction of its function.
    match attachment.modules().at(address - 1) {
        Some((function, offset)) => {
            (format!("{}+{:#x}", function.readable(), offset + 1), function.module, calls)
        }
        None => (format!("{address:#x}"), String::new(), calls),
    }
}

/// Prints of how many calls something is missing.
fn print_without(point: &PointShown, output: &mut Output) -> Result<(), Failure> {
    let Unrecorded { overwritten, without_end } = point.unrecorded;
    for (calls, what) in [
        (overwritten, "have no event: they came faster than they were read"),
        (without_end, "have no event: exceptions or longjmp left them"),
        (point.kept.without, "were not kept: other threads were writing their records"),
        (point.now.not_timed, "were not timed: too many were under way"),
    ] {
        if calls > 0 {
            output.line(&format!("{} calls of {} {what}", count(calls), point.name))?;
        }
    }
    Ok(())
}

fn print_callers(point: &PointShown, output: &mut Output) -> Result<(), Failure> {
    let Some(callers) = &point.now.callers else { return Ok(()) };
    output.line(&format!("\ncallers of {}", point.name))?;
    let mut table =
        Table::new(&[column("CALLER").loose(), number("CALLS", 0), number("SHARE", 0), column("MODULE")]);
    for (place, module, calls) in &point.callers {
        let part = *calls as f64 / point.now.calls.max(1) as f64;
        table.row(vec![place.clone(), count(*calls), share(part), module.clone()], false);
    }
    output.table(&table)?;
    if callers.left_out > 0 {
        output.line(&format!("{} calls came from further places", count(callers.left_out)))?;
    }
    Ok(())
}

/// The callers of a point's function, as JSON.
fn callers_object(point: &PointShown) -> Vec<serde_json::Value> {
    let object = |(place, module, calls): &(String, String, u64)| serde_json::json!({ "caller": place, "module": module, "calls": calls });
    point.callers.iter().map(object).collect()
}

fn is_every(wish: &Wish) -> bool {
    wish.keep.is_some_and(|keep| keep.which == Which::Every)
}
