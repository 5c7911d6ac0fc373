//! An attachment: adds points to a target, reads their figures, and undoes all changes.

mod changes;
mod followed;
mod ordered;
mod signatures;
mod swapped;

pub use followed::{Followed, Follower, Unrecorded};

use crate::blob::{BLOB, CLOCK_OFFSET, GO_BYTES};
use crate::claim::{Claim, attached_by};
use crate::code::{Beginning, Code, JUMP_BYTES, jump_from};
use crate::error::Error;
use crate::guard::{Guard, Guards};
use crate::inject::Gadgets;
use crate::kept::{Call, Keep, Ring};
use crate::memory::{Found, Memory, Record, Region};
use crate::modules::{Function, Modules};
use crate::points::{Argument, Change, Details, Figures, Layout, Only};
use crate::process::{Identity, Mapping, PAGE, Process};
use crate::refusal;
use crate::restore::{Restored, restore, worker};
use crate::stub::{self, Routines, STUB_BYTES, Stub};
use crate::tracer::{Stopped, traced};
use crate::types::{Form, Place};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Functions that throw an exception or unwind the stack: return addresses are restored before they run.
const UNWINDERS: [&str; 5] = [
    "_Unwind_RaiseException",
    "_Unwind_Resume_or_Rethrow",
    "_Unwind_ForcedUnwind",
    "_Unwind_Backtrace",
    "__pthread_unwind",
];
/// Functions that return twice, or do not return to their caller.
const NOT_TIMED: [&str; 18] = [
    "vfork",
    "__vfork",
    "__libc_vfork",
    "setjmp",
    "_setjmp",
    "__sigsetjmp",
    "sigsetjmp",
    "getcontext",
    "swapcontext",
    "setcontext",
    "makecontext",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
    "_start",
    "__restore_rt",
    "_dl_runtime_resolve_xsavec",
];
/// The time that a thread's first system call, and what follows, may take before all threads are stopped.
const CROWDED: Duration = Duration::from_millis(1);
/// The time for which detaching tries to free the attachment's memory in the target.
const PATIENCE: Duration = Duration::from_secs(5);

/// Options of an attachment.
#[derive(Debug, Default)]
pub struct Options {
    /// The guard, which undoes all changes when this process is killed; attachments may share one. Without a guard,
    /// the next attachment undoes the changes.
    pub guard: Option<Guards>,
    /// Whether the target's system calls are filtered by a filter that is known to permit those that
    /// attaching needs.
    pub is_filtered: bool,
}

/// The measurements and changes of a function; its calls are counted in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Whether to keep the times of calls.
    pub times: bool,
    /// The arguments to keep.
    pub arguments: Vec<Argument>,
    /// How the results of calls are read, if they are to be kept.
    pub results: Option<Form>,
    /// Count calls by their return addresses.
    pub callers: bool,
    /// The argument to change, and the bits that its register gets.
    pub set: Option<(Argument, u64)>,
    /// Which calls are counted, timed and changed.
    pub only: Only,
    /// Keep some calls one by one.
    pub keep: Option<Keep>,
}

/// A function that is attached to.
#[derive(Debug)]
pub struct Point {
    /// The function.
    pub function: Function,
    /// The measurements and changes.
    pub wish: Wish,
    layout: Layout,
    /// The address of the figures in the target, and their offset in the file.
    stripes: u64,
    figures: u64,
    beginning: Beginning,
    change: Option<Change>,
    one_in: u32,
    patch: Patch,
    is_on: bool,
}

impl Point {
    /// Of the counted calls, one in this number is timed and has its values kept.
    pub fn one_in(&self) -> u32 {
        self.one_in
    }

    /// Whether only some of the counted calls can be measured: something is measured besides their number, and
    /// no register has to be restored after each of them.
    pub fn can_be_thinned(&self) -> bool {
        !self.layout.is_plain() && self.change.is_none_or(|change| change.restored.is_none())
    }

    /// Whether calls are counted at present: the point was not removed, and its library is loaded.
    pub fn is_on(&self) -> bool {
        self.is_on
    }
}

/// The result of adding points.
#[derive(Clone, Copy, Debug, Default)]
pub struct Added {
    /// The time for which all threads of the target were stopped.
    pub stopped: Duration,
    /// The total time of adding the points.
    pub took: Duration,
}

/// A change of consecutive bytes of the target.
#[derive(Clone, Debug)]
struct Patch {
    address: u64,
    old: Vec<u8>,
    new: Vec<u8>,
    /// For each instruction in the replaced bytes at which a thread may stand: its address, and the address
    /// in the moved copy at which the thread continues.
    places: Vec<(u64, u64)>,
    is_unwinder: bool,
}

impl Patch {
    fn record(&self) -> Record {
        let (address, old, new) = (self.address, self.old.clone(), self.new.clone());
        match self.is_unwinder {
            true => Record::Unwinder { address, old, new },
            false => Record::Bytes { address, old, new },
        }
    }
}

/// Memory for code near a module.
#[derive(Debug)]
struct Neighbour {
    module: usize,
    region: Region,
    next: u64,
}

impl Neighbour {
    /// The addresses of the routines near the module. `leave` is where timed functions return to, which is in
    /// the memory near the first module; `table` is the table of calls under way.
    fn routines(&self, leave: u64, table: u64) -> Routines {
        let at = |offset| self.region.address + offset;
        let blob = &*BLOB;
        Routines {
            count: at(blob.count),
            unsigned: at(blob.unsigned),
            signed: at(blob.signed),
            double: at(blob.double),
            single: at(blob.single),
            enter: at(blob.enter),
            unwind: at(blob.unwind),
            once: at(blob.once),
            keep: at(blob.keep),
            caller: at(blob.caller),
            go: leave - GO_BYTES,
            table,
        }
    }

    fn place(&self) -> Result<u64, Error> {
        if self.next + STUB_BYTES > self.region.bytes {
            return Err(Error::new(
                "there is no room for so many points: detach, and attach to fewer functions",
            ));
        }
        Ok(self.region.address + self.next)
    }

    fn put(&mut self, stub: &Stub) -> Result<u64, Error> {
        let at = self.next;
        self.region
            .file
            .write_all_at(&stub.bytes, at)
            .map_err(|error| Error::of("cannot write code", error))?;
        self.next = (at + stub.bytes.len() as u64).next_multiple_of(16);
        Ok(self.region.address + at)
    }
}

/// A target with its points and changes. Dropping the attachment undoes everything.
#[derive(Debug)]
pub struct Attachment {
    process: Process,
    modules: Modules,
    gadgets: Gadgets,
    memory: Option<Memory>,
    neighbours: Vec<Neighbour>,
    points: Vec<Point>,
    /// Patches that are no points: replaced functions, inserted calls, variables, unwinders.
    others: Vec<Patch>,
    /// The functions at which calls are inserted, each with the address of the call's order.
    inserted: Vec<(u64, u64)>,
    has_unwinders: bool,
    /// The size of the vector registers, and the mask of those that exist, known after the first call that
    /// needed them.
    vectors: Option<(u64, u64)>,
    is_detached: bool,
    left: Restored,
    /// The claim is dropped before the guard, because the guard itself claims the target at its end.
    _claim: Claim,
    /// The guard is dropped last, because it checks whether any change is left.
    guard: Option<Guard>,
}

impl Attachment {
    /// Opens a process and reads its symbols. The process is not changed, except that changes which a dead
    /// process has left in it are undone. While the attachment exists, no other process can attach.
    ///
    /// # Errors
    /// The process cannot be attached to safely, permissions forbid it, or another process is attached to it.
    pub fn open(pid: i32, options: Options) -> Result<Attachment, Error> {
        let process = Process::open(pid)?;
        refusal::of_process(&process, options.is_filtered)?;
        let claim = Claim::new(&process)?;
        let mut left = Restored::default();
        if let Some(found) = Found::in_target(&process)? {
            // If the claim holds across containers, the maker has ended its attachment; otherwise a maker in
            // another container may still be attached.
            if let Some(maker) = found.maker.filter(|maker| !claim.is_everywhere && maker.lives()) {
                return Err(attached_by(process.identity, Some(maker.pid)));
            }
            left = restore(pid, PATIENCE)?;
        }
        let maps = process.maps()?;
        let modules = Modules::of(&process, &maps);
        refusal::of_code(&process, &maps, &modules)?;
        let gadgets = Gadgets::find(&process, &maps)?;
        let guard = options.guard.map(|guards| guards.watch(process.identity)).transpose()?;
        Ok(Attachment {
            process,
            modules,
            gadgets,
            memory: None,
            neighbours: Vec::new(),
            points: Vec::new(),
            others: Vec::new(),
            inserted: Vec::new(),
            has_unwinders: false,
            vectors: None,
            is_detached: false,
            left,
            _claim: claim,
            guard,
        })
    }

    /// The program and its libraries.
    pub fn modules(&self) -> &Modules {
        &self.modules
    }

    /// The target.
    pub fn target(&self) -> Identity {
        self.process.identity
    }

    /// What was restored when the process was opened, because a process that was killed had left it changed.
    pub fn left(&self) -> &Restored {
        &self.left
    }

    /// The functions that are attached to.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Attaches to functions: all of them, or none if one is refused.
    ///
    /// # Errors
    /// A function cannot be attached to; the error names it and the reason.
    pub fn add(&mut self, wishes: &[(Function, Wish)]) -> Result<Added, Error> {
        let begin = Instant::now();
        let mut prepared = Vec::new();
        for (number, (function, wish)) in wishes.iter().enumerate() {
            if let Some((other, _)) = wishes[..number].iter().find(|(other, _)| overlap(other, function)) {
                return Err(too_close(function, other.address, &other.name));
            }
            let (beginning, change) = self.prepared(function, wish)?;
            let layout = Layout::new(wish.times, &wish.arguments, wish.results, wish.callers, wish.keep);
            prepared.push((function, wish, beginning, change, layout, needs_entry(wish, change)));
        }
        let needs_unwinders = !self.has_unwinders && prepared.iter().any(|prepared| prepared.5);
        let unwinders = if needs_unwinders { self.unwinders()? } else { Vec::new() };
        let modules = wishes.iter().map(|(function, _)| function.module_index);
        let modules: Vec<usize> =
            modules.chain(unwinders.iter().map(|(function, _)| function.module_index)).collect();
        let figures: u64 = prepared.iter().map(|prepared| prepared.4.bytes() + 64).sum();
        let stopped = self.make_room(&modules, figures)?;

        let mut patches = self.unwinder_patches(&unwinders)?;
        let others = patches.len();
        let mut points = Vec::new();
        for (function, wish, beginning, change, layout, _) in prepared {
            let memory = self.memory.as_mut().expect("there is room");
            let (stripes, figures) = memory.figures(layout.bytes())?;
            let details = Details { change, only: wish.only, one_in: 1 };
            let stub = self.stub(function, &beginning, &layout, stripes, details)?;
            let place = self.neighbour(function.module_index).put(&stub)?;
            let patch = self.patch(function, place, &stub)?;
            patches.push(patch.clone());
            let (function, wish) = (function.clone(), wish.clone());
            points.push(Point {
                function,
                wish,
                layout,
                stripes,
                figures,
                beginning,
                change,
                one_in: 1,
                patch,
                is_on: true,
            });
        }
        let stopped = stopped + self.apply(&patches)?;
        self.has_unwinders |= needs_unwinders;
        self.others.extend(patches.drain(..others));
        self.points.extend(points);
        Ok(Added { stopped, took: begin.elapsed() })
    }

    /// Makes the trampoline of a point, and its descriptor. The module must have room for both.
    fn stub(
        &mut self,
        function: &Function,
        beginning: &Beginning,
        layout: &Layout,
        stripes: u64,
        what: Details,
    ) -> Result<Stub, Error> {
        let bytes = if layout.kept.is_some() || layout.callers.is_some() { 128 } else { 64 };
        let descriptor = self.memory.as_mut().expect("there is room").private(bytes)?;
        self.describe(descriptor, stripes, layout, what.change)?;
        if layout.reads_clock() {
            let first = &self.neighbours.first().expect("there is room").region;
            let written = first.file.write_all_at(&1_u64.to_le_bytes(), CLOCK_OFFSET);
            written.map_err(|error| Error::of("cannot write code", error))?;
        }
        let (_, place, routines) = self.room(function.module_index)?;
        stub::point(&function.name, place, beginning, routines, (layout, descriptor, stripes), what)
    }

    /// The patches of functions that throw or unwind. The functions' modules must have room for the
    /// trampolines.
    fn unwinder_patches(&mut self, unwinders: &[(Function, Beginning)]) -> Result<Vec<Patch>, Error> {
        let mut patches = Vec::new();
        for (function, beginning) in unwinders {
            let (neighbour, place, routines) = self.room(function.module_index)?;
            let stub = stub::unwinder(&function.name, place, beginning, routines)?;
            let place = neighbour.put(&stub)?;
            let harmless = Record::Harmless { begin: place, end: place + stub.bytes.len() as u64 };
            self.memory.as_mut().expect("there is room").record(&[harmless])?;
            patches.push(Patch { is_unwinder: true, ..self.patch(function, place, &stub)? });
        }
        Ok(patches)
    }

    /// Updates the list of loaded modules. Returns whether modules were loaded, whose functions can then be
    /// attached to.
    ///
    /// # Errors
    /// The target cannot be read, or exceptions of a loaded module could not pass timed functions.
    pub fn look(&mut self) -> Result<bool, Error> {
        let maps = self.process.maps()?;
        let has_new = self.modules.look(&self.process, &maps);
        for point in &mut self.points {
            point.is_on &= self.modules.has(point.function.module_index);
        }
        if has_new && self.has_unwinders {
            let unwinders = self.unwinders()?;
            let modules: Vec<usize> = unwinders.iter().map(|(function, _)| function.module_index).collect();
            self.make_room(&modules, 0)?;
            let patches = self.unwinder_patches(&unwinders)?;
            self.apply(&patches)?;
            self.others.extend(patches);
        }
        Ok(has_new)
    }

    /// Attaches again to a point that was removed; its figures continue from their former values.
    ///
    /// # Errors
    /// The function's library was unloaded, or its code has changed.
    pub fn renew(&mut self, point: usize) -> Result<Added, Error> {
        let begin = Instant::now();
        let Point { function, patch, is_on, .. } = &self.points[point];
        if *is_on {
            return Ok(Added::default());
        }
        if !self.modules.has(function.module_index) {
            return Err(Error::new(format!("`{}` is gone: its library was unloaded", function.name)));
        }
        // The journal already has the patch, since the point was made, so the patch can be undone.
        let patch = patch.clone();
        let stopped = self.swap(std::slice::from_ref(&patch), |patch| (&patch.old, &patch.new), true)?;
        self.points[point].is_on = true;
        Ok(Added { stopped, took: begin.elapsed() })
    }

    /// The reason why attaching to this function with this wish would be refused, if there is one.
    pub fn refusal(&self, function: &Function, wish: &Wish) -> Option<Error> {
        self.prepared(function, wish).err()
    }

    fn prepared(&self, function: &Function, wish: &Wish) -> Result<(Beginning, Option<Change>), Error> {
        let (code, beginning) = self.beginning(function)?;
        // Whether the beginning can be moved depends only on the distance to the new place, so any near
        // address serves as a test.
        beginning.at(&function.name, function.address & !0xffff)?;
        let conditions = wish.only.when.map(|when| when.argument);
        for argument in wish.arguments.iter().copied().chain(conditions) {
            may_be_read(&function.name, argument)?;
        }
        let change = wish.set.map(|set| self.change(function, &code, set)).transpose()?;
        if needs_entry(wish, change) {
            may_be_timed(function)?;
        }
        Ok((beginning, change))
    }

    /// Redirects calls of a function to another function.
    ///
    /// # Errors
    /// The replacement is not safe; the error gives the reason.
    pub fn replace(&mut self, function: &Function, with: &Function) -> Result<Added, Error> {
        let begin = Instant::now();
        if !(function.is_exported && self.modules.get(function.module_index).is_library) {
            return Err(Error::new(format!(
                "`{}` is not exported by a library: its callers may rely on registers that another function changes",
                function.name
            )));
        }
        if with.is_chosen_at_start {
            return Err(chosen(with));
        }
        self.beginning(function)?;
        self.make_room(&[function.module_index], 0)?;
        let neighbour = self.neighbour(function.module_index);
        neighbour.place()?;
        let stub = stub::replacement(with.address);
        let place = neighbour.put(&stub)?;
        let mut patch = self.patch(function, place, &stub)?;
        // No thread may stand inside the replaced bytes, because such a thread has begun the old function.
        patch.places.clear();
        let stopped = self.apply(std::slice::from_ref(&patch))?;
        self.others.push(patch);
        Ok(Added { stopped, took: begin.elapsed() })
    }

    /// Sets a variable of 1, 2, 4 or 8 bytes until detaching. Returns the variable's former value.
    ///
    /// # Errors
    /// There is no such variable, or the value is too large for it.
    pub fn set_variable(&mut self, name: &str, value: i128) -> Result<i128, Error> {
        let variable = self.modules.variable(name)?;
        let bytes = usize::try_from(variable.size).unwrap_or(0);
        if !matches!(bytes, 1 | 2 | 4 | 8) {
            return Err(Error::new(format!(
                "`{name}` has {bytes} bytes: only variables of 1, 2, 4 and 8 can be set"
            )));
        }
        let bits = 8 * bytes as u32;
        if value >= 1 << bits || value < -(1 << (bits - 1)) {
            return Err(Error::new(format!("{value} does not fit into the {bytes} bytes of `{name}`")));
        }
        self.make_room(&[], 0)?;
        let mut old = vec![0; bytes];
        let failed = |error| Error::of(&format!("cannot read `{name}`"), error);
        self.process.read(variable.address, &mut old).map_err(failed)?;
        let new = value.to_le_bytes()[..bytes].to_vec();
        let mut word = [0; 16];
        word[..bytes].copy_from_slice(&old);
        let patch = Patch { address: variable.address, old, new, places: Vec::new(), is_unwinder: false };
        if patch.old != patch.new {
            self.apply(std::slice::from_ref(&patch))?;
            self.others.push(patch);
        }
        Ok(i128::from_le_bytes(word))
    }

    /// The figures of a point.
    ///
    /// # Errors
    /// The shared memory cannot be read.
    pub fn figures(&self, point: usize) -> Result<Figures, Error> {
        let (memory, figures, layout) = self.figures_of(point)?;
        layout.figures(memory, figures)
    }

    /// The kept calls of a point, ordered by their begin, and the number of calls that could not be kept
    /// because another thread was writing the record.
    ///
    /// # Errors
    /// The shared memory cannot be read.
    pub fn kept(&self, point: usize) -> Result<(Vec<Call>, u64), Error> {
        let (memory, figures, layout) = self.figures_of(point)?;
        layout.kept.map_or(Ok((Vec::new(), 0)), |ring| ring.read(memory, figures, layout.stripe_bytes))
    }

    /// The file that contains a point's figures, their offset in the file, and their layout.
    fn figures_of(&self, point: usize) -> Result<(&File, u64, &Layout), Error> {
        let memory = self.memory.as_ref().ok_or_else(|| Error::new("nothing is attached to"))?;
        let point = &self.points[point];
        Ok((&memory.file, point.figures, &point.layout))
    }

    /// Removes a point; its figures stay. A function without a point costs nothing.
    ///
    /// # Errors
    /// The target's threads cannot be stopped.
    pub fn remove(&mut self, point: usize) -> Result<Added, Error> {
        let begin = Instant::now();
        if !self.points[point].is_on {
            return Ok(Added::default());
        }
        let patch = self.points[point].patch.clone();
        let stopped = self.take_back(std::slice::from_ref(&patch))?;
        self.points[point].is_on = false;
        Ok(Added { stopped, took: begin.elapsed() })
    }

    /// Whether the target still runs the program that this attachment changed.
    pub fn is_alive(&self) -> bool {
        let mut byte = [0];
        let is_there = |memory: &Memory| self.process.read(memory.table(), &mut byte).is_ok();
        self.process.identity.lives() && self.memory.as_ref().is_none_or(is_there)
    }

    /// Whether the process goes on with another program (`exec`), so that this attachment's changes are gone.
    pub fn runs_another_program(&self) -> bool {
        !self.is_alive() && self.process.identity.lives()
    }

    /// Detaches and undoes all changes.
    ///
    /// # Errors
    /// The target's threads cannot be stopped.
    pub fn detach(mut self) -> Result<Restored, Error> {
        self.is_detached = true;
        restore(self.process.pid(), PATIENCE)
    }

    /// Reads a function's code, and its beginning if that can be replaced.
    fn beginning(&self, function: &Function) -> Result<(Code, Beginning), Error> {
        let name = &function.name;
        if function.is_chosen_at_start {
            return Err(chosen(function));
        }
        let patches =
            self.points.iter().filter(|point| point.is_on).map(|point| &point.patch).chain(&self.others);
        let is_close = |patch: &&Patch| patch.address.abs_diff(function.address) < JUMP_BYTES as u64;
        if let Some(patch) = patches.clone().find(is_close) {
            return Err(too_close(function, patch.address, "another one"));
        }
        let len = function.size.min(1 << 20) as usize;
        let mut bytes = vec![0; len + 32];
        let read = self.process.read_some(function.address, &mut bytes);
        bytes.truncate(read);
        let code = Code::new(function.address, bytes, len);
        let beginning = code.beginning(name)?;
        let module = self.modules.get(function.module_index);
        if let Some(other) = module.begins_in(function.address + 1..beginning.end) {
            return Err(Error::new(format!(
                "`{other}` begins within the first bytes of `{name}`, which cannot be replaced then"
            )));
        }
        for (address, size) in module.parts(function) {
            let mut bytes = vec![0; size.min(1 << 20) as usize];
            let read = self.process.read_some(address, &mut bytes);
            bytes.truncate(read);
            let part = Code::new(address, bytes, read);
            if part.enters(function.address + 1..beginning.end).is_some() {
                return Err(Error::new(format!(
                    "a part of `{name}` elsewhere jumps into its first bytes: they cannot be replaced"
                )));
            }
        }
        Ok((code, beginning))
    }

    fn unwinders(&self) -> Result<Vec<(Function, Beginning)>, Error> {
        let functions = self.modules.named(&UNWINDERS).into_iter();
        let functions =
            functions.filter(|function| !self.others.iter().any(|patch| patch.address == function.address));
        functions
            .map(|function| {
                let (_, beginning) = self.beginning(&function).map_err(|error| {
                    Error::of("calls cannot be timed, since exceptions could not pass them", error)
                })?;
                Ok((function, beginning))
            })
            .collect()
    }

    fn describe(&self, at: u64, stripes: u64, layout: &Layout, change: Option<Change>) -> Result<(), Error> {
        let restored = change.and_then(|change| Some((change.restored?, change.value)));
        let (_, bytes) = layout.result.map_or(Form::UNKNOWN, |(form, _)| form).read();
        let mut words = vec![
            stripes,
            layout.stripe_bytes,
            restored.map_or(0, |(number, _)| u64::from(stub::FRAME_ARGUMENTS[number]) + 8),
            restored.map_or(0, |(_, value)| value),
            layout.result.map_or(0, |(_, histogram)| u64::from(histogram)),
            u64::from(layout.is_timed) | u64::from(layout.reads_clock()) << 1,
            64 - 8 * bytes,
            stub::how(layout.result.map_or(Form::UNKNOWN, |(form, _)| form)),
        ];
        if layout.kept.is_some() || layout.callers.is_some() {
            words.extend(layout.kept.as_ref().map_or([0; 4], Ring::described));
            words.push(layout.callers.unwrap_or(0));
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.process.write(at, &bytes).map_err(|error| Error::of("cannot write to the target", error))
    }

    fn patch(&self, function: &Function, place: u64, stub: &Stub) -> Result<Patch, Error> {
        let mut old = vec![0; JUMP_BYTES];
        self.process
            .read(function.address, &mut old)
            .map_err(|error| Error::of("cannot read the target's code", error))?;
        let new = jump_from(function.address, place, &function.name)?.to_vec();
        let places = stub.places.clone();
        Ok(Patch { address: function.address, old, new, places, is_unwinder: false })
    }

    /// Where timed functions of all modules return to.
    fn leave(&self) -> Option<u64> {
        self.neighbours.first().map(|first| first.region.address + BLOB.leave)
    }

    /// The memory for code near a module that has room, and the address of the next trampoline in it.
    fn room(&mut self, module: usize) -> Result<(&mut Neighbour, u64, Routines), Error> {
        let leave = self.leave().expect("there is room");
        let table = self.memory.as_ref().expect("there is room").table();
        let neighbour = self.neighbour(module);
        let (place, routines) = (neighbour.place()?, neighbour.routines(leave, table));
        Ok((neighbour, place, routines))
    }

    fn neighbour(&mut self, module: usize) -> &mut Neighbour {
        self.neighbours.iter_mut().rfind(|neighbour| neighbour.module == module).expect("there is room")
    }

    /// Makes the attachment's memory in the target, and the memory for code near these modules, if there is
    /// none or too little of it. Returns the time for which all threads were stopped.
    fn make_room(&mut self, modules: &[usize], figures: u64) -> Result<Duration, Error> {
        const FIGURES_BYTES: u64 = 16 << 20;
        const CODE_BYTES: u64 = 64 << 10;
        let mut needed: Vec<(usize, u64)> = Vec::new();
        for module in modules {
            let count = modules.iter().filter(|other| *other == module).count() as u64;
            let bytes = count * STUB_BYTES;
            let has = self.neighbours.iter().rfind(|neighbour| neighbour.module == *module);
            let has_room = has.is_some_and(|has| has.next + bytes <= has.region.bytes);
            if !has_room && !needed.iter().any(|(other, _)| other == module) {
                needed.push((
                    *module,
                    (BLOB.bytes.len() as u64 + bytes).next_multiple_of(PAGE).max(CODE_BYTES),
                ));
            }
        }
        if needed.is_empty() && self.memory.is_some() {
            return Ok(Duration::ZERO);
        }
        let (process, gadgets, own) = (&self.process, &self.gadgets, &self.modules);
        let has_memory = self.memory.is_some();
        let (memory, regions, lasts) = traced(|| {
            let maps = process.maps()?;
            let mut stopped = stop_worker(process, &maps)?;
            let thread = *worker(process, &stopped, &maps).expect("that is why it was stopped");
            let begin = Instant::now();
            let mut all_since = None;
            // Where more threads want processors than there are, each system call of the thread would wait for
            // the others.
            let mut hurry = || {
                if all_since.is_none() && begin.elapsed() > CROWDED {
                    all_since = Some(Instant::now());
                    stopped.complete(process)?;
                }
                Ok(())
            };
            let memory = if has_memory {
                None
            } else {
                let figures = FIGURES_BYTES.max(2 * figures);
                Some(Memory::make(process, gadgets, &thread, &maps, figures, &mut hurry)?)
            };
            let mut regions = Vec::new();
            for (module, bytes) in &needed {
                hurry()?;
                let reach = (own.get(*module).begin, own.get(*module).end);
                let made = Region::make(process, gadgets, &thread, reach, *bytes);
                let is_over = made.is_err();
                regions.push(made.map(|region| (*module, region)));
                if is_over {
                    break;
                }
            }
            let regions: Result<Vec<(usize, Region)>, Error> = regions.into_iter().collect();
            Ok((memory, regions, all_since.map_or(Duration::ZERO, |since| since.elapsed())))
        })?;
        self.memory = memory.or(self.memory.take());
        let table = self.memory.as_ref().expect("just made").table();
        for (module, region) in regions? {
            let leave = self.leave().unwrap_or(region.address + BLOB.leave);
            let code = BLOB.with(table, leave);
            region.file.write_all_at(&code, 0).map_err(|error| Error::of("cannot write code", error))?;
            let (begin, end) = (region.address + BLOB.unwind, region.address + BLOB.once);
            let mut records = vec![Record::Harmless { begin, end }];
            if self.neighbours.is_empty() {
                records.push(Record::Leave { address: leave });
            }
            self.memory.as_mut().expect("just made").record(&records)?;
            self.neighbours.push(Neighbour {
                module,
                region,
                next: (code.len() as u64).next_multiple_of(16),
            });
        }
        Ok(lasts)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if !self.is_detached {
            // If restoring fails, the guard or the next attachment restores the target.
            let _ = restore(self.process.pid(), PATIENCE);
        }
    }
}

/// Whether jumps at the beginnings of two functions would overlap.
fn overlap(one: &Function, other: &Function) -> bool {
    one.address.abs_diff(other.address) < JUMP_BYTES as u64
}

/// Whether a call needs an entry in the table of calls under way.
fn needs_entry(wish: &Wish, change: Option<Change>) -> bool {
    wish.times || wish.results.is_some() || change.is_some_and(|change| change.restored.is_some())
}

/// Whether an argument is in a register in which it can be read and changed.
fn may_be_read(name: &str, argument: Argument) -> Result<(), Error> {
    match argument.place {
        Place::Integer(0..6) | Place::Float(0..8) => Ok(()),
        Place::Integer(number) => Err(Error::new(format!(
            "argument {number} of `{name}` is in no register: without debugging information, those in the integer registers 0 to 5 are known"
        ))),
        Place::Float(number) => {
            Err(Error::new(format!("`{name}` has no floating-point register {number}: there are 0 to 7")))
        }
    }
}

fn too_close(function: &Function, to: u64, name: &str) -> Error {
    if to == function.address {
        return Error::new(format!("`{}` is attached to already", function.name));
    }
    Error::new(format!(
        "`{}` and {name} that is attached to begin within {JUMP_BYTES} bytes: there is no room for two jumps",
        function.name
    ))
}

fn chosen(function: &Function) -> Error {
    Error::new(format!(
        "which code `{}` is, is chosen when the program starts (IFUNC): attach to what was chosen, such as `__{}_avx2`",
        function.name, function.name
    ))
}

fn may_be_timed(function: &Function) -> Result<(), Error> {
    let is_unwinder = function.name.starts_with("_Unwind_") || UNWINDERS.contains(&function.name.as_str());
    if is_unwinder || NOT_TIMED.contains(&function.name.as_str()) {
        return Err(Error::new(format!(
            "`{}` does not return as other functions do: its calls can be counted, but not timed",
            function.name
        )));
    }
    Ok(())
}

/// Stops one thread that can run system calls, the first one if possible.
fn stop_worker(process: &Process, maps: &[Mapping]) -> Result<Stopped, Error> {
    const TRIES: usize = 50;
    for _ in 0..TRIES {
        let mut threads = process.threads();
        threads.sort_unstable();
        for id in threads.into_iter().take(8) {
            let stopped = Stopped::one(process, id)?;
            if worker(process, &stopped, maps).is_some() {
                return Ok(stopped);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Error::new(
        "no thread of the target stands on a stack of its own on which a system call could be made",
    ))
}
