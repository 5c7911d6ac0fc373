//! One process that uses the library: figures about its calls, the present values of its points, and what is
//! needed to take changes back.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use thalweg_attach::{Argument, Attachment, Figures, Form, Function, Guards, Histogram, Options, Wish};
use thalweg_pack::{By, Call, Get, Kept, Lever, Pack, Point};
use thalweg_space::Clock;

use super::calls::{END_WAIT, WAIT, function, line, make};
use super::known::Row;
use super::session::LENGTHS;

/// A function of the library whose calls are measured.
struct Watched {
    function: Function,
    wish: Wish,
    /// The function's index among the attachment's points.
    index: usize,
    /// The figures that were read last.
    now: Figures,
    /// The figures at the beginning of the present window of each length.
    before: [Figures; LENGTHS],
}

impl Watched {
    /// The function is measured anew, as the attachment's point with this index.
    fn begin_anew(&mut self, index: usize) {
        self.index = index;
        self.now = Figures::default();
        self.before = <[Figures; LENGTHS]>::default();
    }
}

/// The state of one of the pack's points in this process.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// The present value.
    pub(super) value: Option<f64>,
    /// The value before the tuner changed it; `None` if the tuner has not changed it.
    pub(super) former: Option<f64>,
    /// If the tuner does not change the point, the reason.
    pub(super) chosen: Option<String>,
    /// How many calls that look as if the application had set the point were made by the tuner itself.
    own: u64,
}

/// Why a process is not tuned.
#[derive(Debug)]
pub(super) enum NoTarget {
    /// The process does not use the library.
    Other,
    /// The process uses the library but cannot be tuned, for this reason.
    Refused(String),
}

/// What is known of a process that is tuned.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) points: Vec<State>,
    /// The values of the pack's fields in the last window.
    pub(super) row: Row,
    /// Whether a measured function was called since the last [`Target::look_at_process`].
    pub(super) has_calls: bool,
}

impl State {
    /// The state of a point in a process of another machine.
    pub(super) fn seen(value: Option<f64>, former: Option<f64>, chosen: Option<String>) -> State {
        State { value, former, chosen, own: 0 }
    }
}

impl Seen {
    /// What is known of a process that nothing was measured of yet.
    pub(super) fn nothing(pack: &Pack) -> Seen {
        let row = Row(vec![f64::NAN; pack.names.len()]);
        Seen { points: vec![State::default(); pack.points.len()], row, has_calls: true }
    }

    /// Whether a point already has the value `value`.
    pub(super) fn has(&self, point: usize, value: f64) -> bool {
        self.points[point].value == Some(value)
    }

    /// Whether the tuner has changed a point, and has not restored it.
    pub(super) fn is_changed(&self, point: usize) -> bool {
        self.points[point].former.is_some()
    }
}

/// A process of this machine that the tuner has attached to.
pub(super) struct Target {
    pub(super) pid: i32,
    /// The name by which messages refer to the process.
    pub(super) name: String,
    /// How long a call may wait for a thread.
    wait: Duration,
    attachment: Attachment,
    module: String,
    watched: Vec<Watched>,
    pub(super) seen: Seen,
    clock: Clock,
}

impl Target {
    /// Attaches to a process, if it uses the library in a version that the pack covers, and the library has
    /// the functions that the pack names.
    pub(super) fn open(
        pid: i32,
        name: String,
        pack: &Pack,
        guard: Option<Guards>,
    ) -> Result<Target, NoTarget> {
        let refused = |why: thalweg_attach::Error| NoTarget::Refused(why.to_string());
        let attachment = Attachment::open(pid, Options { guard, is_filtered: false }).map_err(refused)?;
        let module = identified(&attachment, pack)?;
        let mut target = Target {
            pid,
            name,
            wait: WAIT,
            attachment,
            module,
            watched: Vec::new(),
            seen: Seen::nothing(pack),
            clock: Clock::new(),
        };
        target.watch(pack).map_err(NoTarget::Refused)?;
        target.read_variables(pack).map_err(NoTarget::Refused)?;
        target.make_readings(pack);
        target.look_at_process();
        Ok(target)
    }

    /// Attaches to the functions that the pack's probes and points name.
    fn watch(&mut self, pack: &Pack) -> Result<(), String> {
        let mut wishes: Vec<(Function, Wish)> = Vec::new();
        let mut wish_for = |name: &str, kept: &[Kept]| {
            let function = function(&self.attachment, &self.module, name)?;
            let at = wishes.iter().position(|(known, _)| known.address == function.address);
            let at = at.unwrap_or_else(|| {
                wishes.push((function, Wish::default()));
                wishes.len() - 1
            });
            let wish = &mut wishes[at].1;
            for kept in kept {
                match kept {
                    Kept::Time => wish.times = true,
                    Kept::Result => wish.results = Some(Form::UNKNOWN),
                    Kept::Argument(number) => {
                        let argument = Argument::from(*number);
                        if !wish.arguments.contains(&argument) {
                            wish.arguments.push(argument);
                        }
                    }
                }
            }
            Ok::<(), String>(())
        };
        for probe in &pack.probes {
            let kept: Vec<Kept> = probe.keeps.iter().map(|keep| keep.what).collect();
            wish_for(&probe.function, &kept)?;
        }
        for point in &pack.points {
            match point.lever.as_ref().map(|lever| &lever.by) {
                Some(By::Argument { function, .. }) => wish_for(function, &[])?,
                Some(By::Calls { .. }) => {
                    if let Some((name, argument, _)) = choosing(point) {
                        let kept: Vec<Kept> = argument.map(Kept::Argument).into_iter().collect();
                        wish_for(name, &kept)?;
                    }
                }
                _ => {}
            }
        }
        self.attachment.add(&wishes).map_err(|error| error.to_string())?;
        let watched = wishes.into_iter().enumerate();
        self.watched = watched
            .map(|(index, (function, wish))| {
                let (now, before) = (Figures::default(), <[Figures; LENGTHS]>::default());
                Watched { function, wish, index, now, before }
            })
            .collect();
        Ok(())
    }

    /// Reads the points that are variables of the library. A value that is not the default is the
    /// application's own.
    fn read_variables(&mut self, pack: &Pack) -> Result<(), String> {
        for (number, point) in pack.points.iter().enumerate() {
            let Some((name, lever)) = variable(point) else { continue };
            let value = self.variable(name)?;
            let state = &mut self.seen.points[number];
            state.value = Some(value as f64);
            if lever.default.is_some_and(|default| default != value as f64) {
                state.chosen = Some(format!("process {} has set it to {value} itself", self.name));
            }
        }
        Ok(())
    }

    /// The value of a variable of the library, as a signed number.
    fn variable(&self, name: &str) -> Result<i64, String> {
        let reason = |error: thalweg_attach::Error| error.to_string();
        let known = self.attachment.modules().variable(&format!("{}:{name}", self.module)).map_err(reason)?;
        let unused = 64 - 8 * known.size.clamp(1, 8) as u32;
        let word = self.attachment.read(known.address).map_err(reason)?;
        Ok((word << unused).cast_signed() >> unused)
    }

    /// Whether the process still runs.
    pub(super) fn is_alive(&self) -> bool {
        self.attachment.is_alive()
    }

    /// Reads what was recorded of the calls.
    pub(super) fn read(&mut self, pack: &Pack) -> Result<(), String> {
        for watched in &mut self.watched {
            watched.now = self.attachment.figures(watched.index).map_err(|error| error.to_string())?;
        }
        self.see_choices(pack);
        Ok(())
    }

    /// Begins windows of all lengths now, so that what was recorded before does not count.
    pub(super) fn restart(&mut self, pack: &Pack) {
        // The windows of a process that has ended meanwhile are not read any more.
        let _ = self.read(pack);
        for watched in &mut self.watched {
            watched.before = std::array::from_fn(|_| watched.now.clone());
        }
    }

    /// Ends a window of the length with this number, which lasted `seconds`: the row has its values then.
    pub(super) fn end_window(&mut self, pack: &Pack, length: usize, seconds: f64) {
        let mut since = Vec::new();
        for watched in &mut self.watched {
            since.push(Window::between(&watched.before[length], &watched.now));
            watched.before[length] = watched.now.clone();
        }
        for probe in &pack.probes {
            let Some(at) = self.watched.iter().position(|watched| watched.function.name == probe.function)
            else {
                continue;
            };
            let window = &since[at];
            let row = &mut self.seen.row.0;
            row[probe.calls] = window.calls as f64;
            row[probe.calls + 1] = window.calls as f64 / seconds;
            for keep in &probe.keeps {
                let is_time = keep.what == Kept::Time;
                let scale = if is_time { 1e9 / self.clock.hz() } else { 1.0 };
                let figures = window.of(keep.what).map_or([f64::NAN; 7], |values| figures(values, scale));
                row[keep.field..keep.field + figures.len()].copy_from_slice(&figures);
            }
        }
        for (state, point) in self.seen.points.iter().zip(&pack.points) {
            if let Some(lever) = &point.lever {
                self.seen.row.0[lever.field] = state.value.or(lever.default).unwrap_or(f64::NAN);
            }
        }
        self.seen.has_calls |= pack.probes.iter().any(|probe| self.seen.row.0[probe.calls] > 0.0);
    }

    /// Detects points that the application itself has set by calls since the tuner attached.
    fn see_choices(&mut self, pack: &Pack) {
        for (number, point) in pack.points.iter().enumerate() {
            let Some((name, _)) = variable(point).filter(|_| self.seen.points[number].chosen.is_none())
            else {
                continue;
            };
            let now = self.variable(name).ok().map(|now| now as f64);
            let state = &mut self.seen.points[number];
            if now.is_some() && state.value.is_some() && now != state.value {
                state.chosen = Some(format!("process {} has set it itself", self.name));
                (state.value, state.former) = (now, None);
            }
        }
        for (state, point) in self.seen.points.iter_mut().zip(&pack.points) {
            let Some((name, argument, number)) = choosing(point).filter(|_| state.chosen.is_none()) else {
                continue;
            };
            let Some(watched) = self.watched.iter().find(|watched| watched.function.name == name) else {
                continue;
            };
            let figures = &watched.now;
            let seen = match argument {
                None => figures.calls,
                Some(argument) => {
                    let values = figures.arguments.iter().find(|(known, _)| *known == argument.into());
                    // The argument is an `int`, so the upper half of its register may contain anything:
                    // mostly it is zero, and in the tuner's own calls it repeats the sign.
                    let (number, signed) = (u64::from(number as u32), number.cast_unsigned());
                    values.map_or(0, |(_, values)| {
                        let has = |(first, last, _): &(u64, u64, u64)| {
                            (*first..=*last).contains(&number) || (*first..=*last).contains(&signed)
                        };
                        values.buckets().filter(has).map(|(_, _, count)| count).sum()
                    })
                }
            };
            if seen > state.own {
                state.chosen = Some(format!("process {} has set it itself", self.name));
                state.former = None;
            }
        }
    }

    /// Reads the system's figures of the process, and begins to look for calls anew.
    pub(super) fn look_at_process(&mut self) {
        self.seen.has_calls = false;
        let (pid, row) = (self.pid, &mut self.seen.row.0);
        row[0] = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(f64::NAN, |list| list.count() as f64);
        row[1] = limit(pid, "Max open files").unwrap_or(f64::NAN);
        let status = text_of(pid, "status").unwrap_or_default();
        let number = |field: &str| {
            let rest = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
            rest.split_whitespace().next()?.parse::<f64>().ok()
        };
        row[2] = number("VmRSS").map_or(f64::NAN, |kib| kib * 1024.0);
        row[3] = number("Threads").unwrap_or(f64::NAN);
    }

    /// Makes the pack's readings, and reads points whose values are not known yet, by calls. Returns whether
    /// a value differs from the one before. In a process without calls no thread would make the readings'
    /// calls, so nothing is read there.
    pub(super) fn make_readings(&mut self, pack: &Pack) -> bool {
        let mut changes = false;
        let mut is_reached = self.seen.has_calls;
        for reading in &pack.readings {
            let value = self.get_if(&mut is_reached, &reading.get).map_or(f64::NAN, |value| value as f64);
            let before = std::mem::replace(&mut self.seen.row.0[reading.field], value);
            changes |= before.to_bits() != value.to_bits();
        }
        for number in 0..pack.points.len() {
            let Some(lever) = &pack.points[number].lever else { continue };
            let By::Calls { get, .. } = &lever.by else { continue };
            if self.seen.points[number].value.is_some() {
                continue;
            }
            if get.calls.is_empty() {
                self.seen.points[number].value = lever.default;
                continue;
            }
            let Some(value) = self.get_if(&mut is_reached, get) else { continue };
            changes = true;
            let state = &mut self.seen.points[number];
            state.value = Some(value as f64);
            if lever.default.is_some_and(|default| default != value as f64) {
                state.chosen = Some(format!("process {} has set it to {value} itself", self.name));
            }
        }
        changes
    }

    /// A value that is read by calls, if a thread comes by; after a first attempt in vain there is no other.
    fn get_if(&mut self, is_reached: &mut bool, get: &Get) -> Option<i64> {
        let value = if *is_reached { self.get(get).ok() } else { None };
        *is_reached &= value.is_some();
        value
    }

    fn get(&mut self, get: &Get) -> Result<i64, String> {
        let came = make(&mut self.attachment, &self.module, (&get.calls, &get.at), 0, self.wait)?;
        came.value(&self.attachment, get.word.as_ref())
    }

    /// Sets a point to a value.
    pub(super) fn set(&mut self, pack: &Pack, point: usize, value: f64) -> Result<(), String> {
        let whole = value.round();
        let Some(lever) = &pack.points[point].lever else { return Ok(()) };
        let former = self.seen.points[point].value.or(lever.default);
        match &lever.by {
            By::Calls { set, get, .. } => {
                self.call(pack, set, &get.at, whole)?;
                let now = if get.calls.is_empty() { whole } else { self.get(get)? as f64 };
                if now != whole {
                    return Err(format!("the library has {now} after it was given {whole}"));
                }
            }
            By::Argument { function, number } => {
                self.change(function, Some((*number, (whole as i64).cast_unsigned())))?
            }
            By::Variable(name) => {
                let name = format!("{}:{name}", self.module);
                let before =
                    self.attachment.set_variable(&name, whole as i128).map_err(|error| error.to_string())?;
                self.seen.points[point].former.get_or_insert(before as f64);
            }
        }
        let state = &mut self.seen.points[point];
        state.value = Some(whole);
        if state.former.is_none() {
            state.former = former;
        }
        self.leave_note(pack);
        Ok(())
    }

    /// Makes calls that set a point, and counts the calls that will look as if the application had made them.
    fn call(&mut self, pack: &Pack, calls: &[Call], at: &[String], value: f64) -> Result<(), String> {
        make(&mut self.attachment, &self.module, (calls, at), value as i64, self.wait)?;
        // Several points may be set by the same function, and the calls for one look like those for the
        // others.
        for (state, point) in self.seen.points.iter_mut().zip(&pack.points) {
            let Some((name, argument, number)) = choosing(point) else { continue };
            let has = |call: &Call| {
                argument.is_none_or(|at| {
                    call.numbers().any(|(known, of)| known == at && bucket(of) == bucket(number))
                })
            };
            state.own += calls.iter().filter(|call| call.function == name && has(call)).count() as u64;
        }
        Ok(())
    }

    /// Restores the value that a point had before it was changed.
    pub(super) fn undo(&mut self, pack: &Pack, point: usize) -> Result<(), String> {
        let Some(former) = self.seen.points[point].former else { return Ok(()) };
        match pack.points[point].lever.as_ref().map(|lever| &lever.by) {
            Some(By::Argument { function, .. }) => self.change(function, None)?,
            Some(By::Calls { back, get, .. }) if !back.is_empty() => {
                self.call(pack, back, &get.at, former)?;
            }
            _ => self.set(pack, point, former)?,
        }
        let state = &mut self.seen.points[point];
        state.former = None;
        state.value = Some(former);
        self.leave_note(pack);
        Ok(())
    }

    /// Whether the function with an argument that was restored has been called since; true of other points.
    pub(super) fn has_begun_anew(&mut self, pack: &Pack, point: usize) -> bool {
        let Some(By::Argument { function, .. }) = pack.points[point].lever.as_ref().map(|lever| &lever.by)
        else {
            return true;
        };
        let watched = self.watched.iter().find(|watched| watched.function.name == *function);
        let calls = |watched: &Watched| self.attachment.figures(watched.index).map_or(0, |now| now.calls);
        watched.is_none_or(|watched| calls(watched) > 0)
    }

    /// The file of the library.
    pub(super) fn library(&self) -> &Path {
        let is_it = |module: &&thalweg_attach::Module| module.short() == self.module;
        self.attachment
            .modules()
            .all()
            .iter()
            .find(is_it)
            .map_or(Path::new(""), |module| Path::new(&module.path))
    }

    /// Replaces an argument in the calls of a function, or lets the program's own argument pass again.
    fn change(&mut self, name: &str, set: Option<(usize, u64)>) -> Result<(), String> {
        let reason = |error: thalweg_attach::Error| error.to_string();
        let Some(watched) = self.watched.iter_mut().find(|watched| watched.function.name == name) else {
            return Err(format!("`{name}` is not attached to"));
        };
        let set = set.map(|(argument, value)| (Argument::from(argument), value));
        let wish = Wish { set, ..watched.wish.clone() };
        self.attachment.remove(watched.index).map_err(reason)?;
        let index = self.attachment.points().len();
        if let Err(error) = self.attachment.add(&[(watched.function.clone(), wish.clone())]) {
            // Restores the value that a point had before the tuner changed it, if that is possible.
            let former = Wish { set: None, ..wish };
            if self.attachment.add(&[(watched.function.clone(), former)]).is_ok() {
                watched.begin_anew(index);
            }
            return Err(reason(error));
        }
        watched.begin_anew(index);
        Ok(())
    }

    /// Leaves a note for the guard with the calls that restore values if this process is killed.
    fn leave_note(&mut self, pack: &Pack) {
        let mut note = String::new();
        for (state, point) in self.seen.points.iter().zip(&pack.points) {
            let Some(By::Calls { set, back, get }) = point.lever.as_ref().map(|lever| &lever.by) else {
                continue;
            };
            if let Some(former) = state.former.filter(|former| state.value != Some(*former)) {
                let calls = if back.is_empty() { set } else { back };
                note += &line(&self.module, calls, &get.at, former as i64);
            }
        }
        self.attachment.note(&note);
    }

    /// Calls wait longer for a thread from now on, because tuning ends.
    pub(super) fn wait_longer(&mut self) {
        self.wait = END_WAIT;
    }

    /// Takes everything back, or, if `keeps`, everything except values that were set by calls.
    ///
    /// A value that is restored by calls may take [`END_WAIT`]; `renew` is called before each.
    pub(super) fn end(mut self, pack: &Pack, keeps: bool, renew: &mut dyn FnMut()) -> Result<(), String> {
        self.wait_longer();
        let mut failed = Vec::new();
        if keeps {
            self.attachment.note("");
        } else if self.is_alive() {
            for point in 0..self.seen.points.len() {
                renew();
                if let Err(why) = self.undo(pack, point) {
                    failed.push(format!("{} of process {}: {why}", pack.points[point].setting, self.name));
                }
            }
        }
        self.attachment.detach().map_err(|error| error.to_string())?;
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }
}

/// The calls by which an application itself sets a point, given by the function, and by an argument that has
/// a certain number in these calls.
fn choosing(point: &Point) -> Option<(&str, Option<usize>, i64)> {
    let By::Calls { set, .. } = &point.lever.as_ref()?.by else { return None };
    let call = set.iter().rfind(|call| call.takes_value())?;
    let (argument, number) = call.numbers().next().map_or((None, 0), |(at, number)| (Some(at), number));
    Some((call.function.as_str(), argument, number))
}

/// The bucket of an `int` in a histogram, in which calls with different numbers look alike.
fn bucket(number: i64) -> (u32, u32) {
    let number = number as u32;
    let shift = number.checked_ilog2().unwrap_or(0).saturating_sub(2);
    (number >> shift, shift)
}

/// The name of the variable that is a point, and the point's lever.
fn variable(point: &Point) -> Option<(&str, &Lever)> {
    let lever = point.lever.as_ref()?;
    if let By::Variable(name) = &lever.by { Some((name, lever)) } else { None }
}

/// The file of the library, if the process has loaded it in a version that the pack covers.
fn identified(attachment: &Attachment, pack: &Pack) -> Result<String, NoTarget> {
    let identity = pack.identity.as_ref().ok_or(NoTarget::Other)?;
    let mut files = attachment.modules().all().iter().map(|module| module.short());
    let file = files.find(|file| identity.library.matches(file)).ok_or(NoTarget::Other)?.to_owned();
    let version = file.split_once(".so").map_or("", |(_, rest)| rest.trim_start_matches('.'));
    if identity.version.as_ref().is_some_and(|known| !known.matches(version)) {
        return Err(NoTarget::Refused(format!(
            "the program has {file}, and the pack `{}` is about other versions of that library",
            pack.name
        )));
    }
    for symbol in &identity.symbols {
        function(attachment, &file, symbol).map_err(|why| {
            NoTarget::Refused(format!(
                "{why}: the pack `{}` is about another version of that library",
                pack.name
            ))
        })?;
    }
    Ok(file)
}

/// What was recorded of a function's calls in a window.
struct Window {
    calls: u64,
    ticks: Option<Histogram>,
    results: Option<Histogram>,
    arguments: Vec<(Argument, Histogram)>,
}

impl Window {
    fn between(before: &Figures, now: &Figures) -> Window {
        let since = |now: &Histogram, before: Option<&Histogram>| {
            before.map_or_else(|| now.clone(), |before| now.since(before))
        };
        let argument = |(argument, values): &(Argument, Histogram)| {
            let before = before.arguments.iter().find(|(known, _)| known == argument);
            (*argument, since(values, before.map(|(_, values)| values)))
        };
        Window {
            calls: now.calls.saturating_sub(before.calls),
            ticks: now.ticks.as_ref().map(|values| since(values, before.ticks.as_ref())),
            results: now.results.as_ref().map(|values| since(values, before.results.as_ref())),
            arguments: now.arguments.iter().map(argument).collect(),
        }
    }

    fn of(&self, kept: Kept) -> Option<&Histogram> {
        match kept {
            Kept::Time => self.ticks.as_ref(),
            Kept::Result => self.results.as_ref(),
            Kept::Argument(number) => {
                let argument = Argument::from(number);
                self.arguments.iter().find(|(known, _)| *known == argument).map(|(_, values)| values)
            }
        }
    }
}

/// The figures of a distribution, in the order of `thalweg_pack::FIGURES`. Each bucket is represented by its
/// greatest value, except for the minimum.
fn figures(values: &Histogram, scale: f64) -> [f64; 7] {
    let count = values.count();
    let sum = values.sum as f64;
    if count == 0 {
        let mut none = [f64::NAN; 7];
        none[6] = 0.0;
        return none;
    }
    let mean = sum / count as f64;
    let middle = |first: u64, last: u64| first as f64 / 2.0 + last as f64 / 2.0;
    let squares: f64 = values
        .buckets()
        .map(|(first, last, count)| count as f64 * (middle(first, last) - mean).powi(2))
        .sum();
    let at = |part: f64| {
        let wanted = (count as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        let mut found = values.buckets().find(|(_, _, count)| {
            seen += count;
            seen >= wanted
        });
        found.take().map_or(f64::NAN, |(_, last, _)| last as f64)
    };
    let least = values.buckets().next().map_or(f64::NAN, |(first, ..)| first as f64);
    let figures = [mean, (squares / count as f64).sqrt(), least, at(0.5), at(0.99), at(1.0), sum];
    figures.map(|figure| figure * scale)
}

/// What the kernel says of a process in one of its files, which is read by a single call.
fn text_of(pid: i32, file: &str) -> Option<String> {
    let mut bytes = vec![0; 8192];
    let length = std::fs::File::open(format!("/proc/{pid}/{file}")).ok()?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

fn limit(pid: i32, name: &str) -> Option<f64> {
    let text = text_of(pid, "limits")?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(f64::INFINITY),
        number => number.parse().ok(),
    }
}
