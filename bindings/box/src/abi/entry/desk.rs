//! Where a host calls a box: its arguments, what it emits, why it failed.

use super::*;

/// One record that a box emitted, in the order of its variant.
#[derive(Debug)]
pub struct Emitted<'a> {
    /// Which variant, from 1; not yet compared with the signature.
    pub variant: u32,
    /// How many values the box gave. If they are more than there were slots, `values` is empty.
    pub count: usize,
    /// The values, to be taken; what is left is overwritten later.
    pub values: &'a mut [Value],
    /// During a call in place: the record's slots.
    pub record: Option<&'a [Value]>,
}

/// Receives the records that a box emits before its last one.
pub trait Host {
    /// Takes one record.
    fn emitted(&mut self, emitted: Emitted<'_>);
}

impl<F: FnMut(Emitted<'_>)> Host for F {
    fn emitted(&mut self, emitted: Emitted<'_>) {
        self(emitted);
    }
}

/// Where a box is called: its arguments, what it emits, and why it failed. Kept from call to call, so that a call
/// prepares next to nothing.
#[repr(C)]
pub struct Desk {
    /// First, so that the box's pointer to its output is one to the desk.
    out: Out,
    failure: Option<String>,
    arguments: Box<[Value]>,
    /// The arguments of the call that was last, as they were before it, until they are let go or given back; afterwards
    /// what is left of them means nothing.
    kept: Box<[Kept]>,
    keeps: bool,
    /// Where emissions go, unless a call is in place.
    slots: Box<[Value]>,
    /// During calls in place: the records, which slot of each the output begins with, how many slots each has.
    batch: Batch,
    first_output: usize,
    slot_count: usize,
    /// Where a call writes the number of the box's message if the host does not want it.
    nowhere: AtomicU64,
}

// SAFETY: the desk owns what its pointers lead to, except the host's, which are used during a call only.
unsafe impl Send for Desk {}

impl Desk {
    /// A desk for boxes of so many arguments, which emit at most `slot_count` values per record.
    pub fn new(argument_count: usize, slot_count: usize) -> Desk {
        let values = |count| vec![Value::default(); count].into_boxed_slice();
        let out = Out {
            host: std::ptr::null_mut(),
            table: std::ptr::null(),
            values: std::ptr::null_mut(),
            emission: 0,
            capacity: 0,
            generator: GeneratorHandle::NONE,
        };
        let batch = Batch {
            records: std::ptr::null(),
            at: std::ptr::null(),
            first: 0,
            integers: 0,
            count: 0,
            done: 0,
            argument_offset: 0,
            output_offset: 0,
            argument_count: argument_count as u32,
            output_count: 0,
            usual: 0,
            shelf: Shelf { kept: std::ptr::null_mut(), alone: 1, unusual: 0 },
        };
        let (arguments, slots) = (values(argument_count), values(slot_count));
        let kept = (0..argument_count).map(|_| Kept::NOTHING).collect();
        let (failure, keeps, nowhere) = (None, false, AtomicU64::new(0));
        Desk { out, failure, arguments, kept, keeps, slots, batch, first_output: 0, slot_count: 0, nowhere }
    }

    /// Says whether arguments are to be given back as they were even where boxes change values in place, which costs these a
    /// copy. Otherwise what was changed is named instead.
    pub fn keep_exactly(&mut self, exact: bool) {
        self.batch.shelf.alone = if exact { NEVER } else { 1 };
    }

    /// Where the arguments are put before a call. What a box left of them is still there after it.
    #[inline]
    pub fn arguments(&mut self) -> &mut [Value] {
        &mut self.arguments
    }

    /// Calls a box; whether it succeeded. All records it emitted but the last went to `host`; the last is for
    /// [`Desk::emitted`], also if the box failed after it. Then the arguments are to be let go ([`Desk::settle`]) or taken
    /// back ([`Desk::give_back`]).
    #[inline]
    pub fn call<H: Host>(&mut self, entry: &BoxEntry, host: &mut H) -> bool {
        let keeper = self.keeper();
        self.keeps = true;
        self.arguments.iter().enumerate().for_each(|(index, argument)| keeper.value(index, argument));
        let (arguments, count) = (self.arguments.as_mut_ptr(), self.arguments.len() as u32);
        let out = self.out_apart(host);
        // SAFETY: `data` belongs to `call`; the arguments are valid values; desk and host live during the call and
        // nobody else uses them.
        let status = unsafe { (entry.call)(entry.data, arguments, count, out) };
        status == Status::DONE
    }

    /// Lets what the call that was last took go: it has succeeded.
    #[inline]
    pub fn settle(&mut self) {
        if std::mem::take(&mut self.keeps) {
            self.kept.iter_mut().for_each(|kept| kept.let_go(&[]));
        }
    }

    /// Gives the arguments of the call back, with the values that they had before the call. What a box
    /// changed in place is named instead, unless [`Desk::keep_exactly`] was asked for.
    #[cold]
    pub fn give_back(&mut self, arguments: &mut [Value]) {
        if !std::mem::take(&mut self.keeps) {
            return;
        }
        for (kept, argument) in self.kept.iter_mut().zip(arguments) {
            if let Some(value) = kept.give_back() {
                *argument = value;
            }
        }
    }

    /// Keeps the arguments of the next call, for which nothing is kept yet.
    #[inline]
    fn keeper(&mut self) -> Keeper {
        self.settle();
        self.kept.iter_mut().for_each(|kept| *kept = Kept::NOTHING);
        (self.batch.shelf.kept, self.batch.shelf.unusual) = (self.kept.as_mut_ptr(), 0);
        Keeper(&raw mut self.batch.shelf)
    }

    /// Calls a function that is no box and may fail; whether it succeeded. Records that the function emits
    /// are dropped.
    pub(in crate::abi) fn run(&mut self, function: impl FnOnce(*mut Out) -> Status) -> bool {
        let status = function(self.out_apart(&mut |_: Emitted<'_>| {}));
        self.out.emission = 0;
        status == Status::DONE
    }

    /// Polls a generator once: `AGAIN` if there is more, `DONE` at its end. What it emitted went to `host`.
    pub fn poll<H: Host>(&mut self, generator: &mut Generator, host: &mut H) -> Status {
        let Some(next) = generator.handle.next else { return Status::DONE };
        let out = self.out_apart(host);
        // SAFETY: state and function were made together by `Out::generate`; the rest as in `call`.
        let status = unsafe { next(generator.handle.state, out) };
        drop(self.generator()); // An item that starts a generator: not offered.
        if let Some(last) = self.emitted() {
            host.emitted(last);
        }
        status
    }

    /// The record that the box emitted last, if it was not taken yet.
    #[inline]
    pub fn emitted(&mut self) -> Option<Emitted<'_>> {
        let (variant, count) = self.out.held()?;
        self.out.emission = 0;
        let in_slots = if count <= self.slots.len() { count } else { 0 };
        Some(Emitted { variant, count, values: &mut self.slots[..in_slots], record: None })
    }

    /// Calls a box with records, one after the other. The slots of a record hold the arguments and take the
    /// output, as `place` says. It stops at the first call that does not give exactly one record of the first
    /// variant. Returns the number of calls before that one, and whether the last call succeeded. The record
    /// of the call that stopped it stands as that call left it (see [`Desk::emitted_in_place`] and
    /// [`Desk::lift`]); the caller then releases its arguments ([`Desk::settle`]) or takes them back
    /// ([`Desk::give_back`]). `on` is where the number of the message that the box works on is written, and
    /// the number of the first.
    ///
    /// # Panics
    /// If the records have not the slots of the place.
    #[inline]
    pub fn call_in_place<H: Host>(
        &mut self,
        entry: &BoxEntry,
        place: &Place,
        records: Rows<'_>,
        on: (Option<&AtomicU64>, u64),
        host: &mut H,
    ) -> (usize, bool) {
        let Place { first_argument, first_output, output_count, integers } = *place;
        let arguments = first_argument.saturating_add(self.arguments.len());
        let outputs = first_output.saturating_add(output_count);
        assert!(arguments.max(outputs) <= records.slot_count, "the records have not the slots of the box");
        self.out.host = std::ptr::from_mut(host).cast();
        self.out.table = const { &OutTable { take: take_in_place::<H>, fail } };
        self.out.capacity = output_count as u64;
        (self.first_output, self.slot_count) = (first_output, records.slot_count);
        self.keeper();
        let nowhere = &raw const self.nowhere;
        let offset = |slot: usize| (records.slots_offset + slot * size_of::<Value>()) as u32;
        let batch = &mut self.batch;
        (batch.records, batch.count, batch.done) = (records.first, records.count as u32, 0);
        (batch.at, batch.first) = (on.0.map_or(nowhere, std::ptr::from_ref), on.1);
        (batch.argument_offset, batch.output_offset) = (offset(first_argument), offset(first_output));
        (batch.output_count, batch.integers) = (output_count as u32, integers);
        batch.usual = emission(1, output_count as u32);
        let desk = std::ptr::from_mut(self);
        // SAFETY: `data` belongs to the functions. The records' slots are valid values, borrowed for the calls and used by
        // nobody else; arguments and output are within, by the assertion. Batch and output are the desk's, and the host is
        // borrowed as long as these calls last.
        let status = unsafe {
            let batch = &raw mut (*desk).batch;
            match entry.call_batch {
                Some(call) => call(entry.data, batch, desk.cast()),
                // It does not make the calls of a batch itself.
                None => call_each(entry, batch, desk.cast()),
            }
        };
        self.keeps = self.batch.done < self.batch.count;
        (self.batch.done as usize, status == Status::DONE)
    }

    /// Variant and number of values of the record that a call in place emitted last. The values are in the record.
    #[inline]
    pub fn emitted_in_place(&mut self) -> Option<(u32, usize)> {
        let held = self.out.held();
        self.out.emission = 0;
        held
    }

    /// Moves what a call in place emitted last from the record to the desk, for [`Desk::emitted`].
    #[cold]
    pub fn lift(&mut self, record: &mut [Value], first_output: usize) {
        if let Some((_, count)) = self.out.held()
            && count <= self.out.capacity as usize
        {
            for (slot, value) in self.slots.iter_mut().zip(&mut record[first_output..][..count]) {
                *slot = value.take();
            }
        }
    }

    /// Whether the box goes on to emit: see [`Desk::generator`].
    #[inline]
    pub fn generates(&self) -> bool {
        !self.out.generator.state.is_null()
    }

    /// What the box goes on to emit.
    #[inline]
    pub fn generator(&mut self) -> Option<Generator> {
        if self.out.generator.state.is_null() {
            return None;
        }
        Some(Generator { handle: std::mem::replace(&mut self.out.generator, GeneratorHandle::NONE) })
    }

    /// Why the box failed.
    #[cold]
    pub fn failure(&mut self) -> String {
        drop(self.generator());
        self.failure.take().unwrap_or_else(|| "the box failed without a reason".to_owned())
    }

    /// The desk as a box sees it, for a call with the desk's own slots.
    #[inline]
    fn out_apart<H: Host>(&mut self, host: &mut H) -> *mut Out {
        let (slots, count) = (self.slots.as_mut_ptr(), self.slots.len());
        self.out_for(host, slots, count, const { &OutTable { take: take::<H>, fail } })
    }

    #[inline]
    fn out_for<H: Host>(
        &mut self,
        host: &mut H,
        values: *mut Value,
        capacity: usize,
        table: &'static OutTable,
    ) -> *mut Out {
        self.out.host = std::ptr::from_mut(host).cast();
        self.out.table = table;
        self.out.values = values;
        self.out.capacity = capacity as u64;
        self.out.emission = 0;
        std::ptr::from_mut(self).cast()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        drop(self.generator());
        self.settle();
    }
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Desk")
    }
}

unsafe extern "C" fn take<H: Host>(out: *mut Out) {
    // SAFETY: called by a box during a call that `Desk::out_for` prepared for this `H`; `out` is the desk, and desk
    // and host are used by nobody else meanwhile.
    unsafe {
        let (desk, host) = (&mut *out.cast::<Desk>(), (*out).host.cast::<H>());
        if let Some(emitted) = desk.emitted() {
            (*host).emitted(emitted);
        }
    }
}

unsafe extern "C" fn take_in_place<H: Host>(out: *mut Out) {
    // SAFETY: as in `take`, for a call that `Desk::call_in_place` prepared: `values` points to `capacity` slots of the record
    // lent to it, after `first_output` others. The values move to the desk before the slots are shared.
    unsafe {
        let (desk, host) = (&mut *out.cast::<Desk>(), (*out).host.cast::<H>());
        if let Some((_, count)) = desk.out.held()
            && count <= desk.out.capacity as usize
        {
            let values = std::slice::from_raw_parts_mut(desk.out.values, count);
            for (slot, value) in desk.slots.iter_mut().zip(values) {
                *slot = value.take();
            }
        }
        desk.batch.shelf.unusual |= EARLY;
        let record = std::slice::from_raw_parts(desk.out.values.sub(desk.first_output), desk.slot_count);
        if let Some(emitted) = desk.emitted() {
            (*host).emitted(Emitted { record: Some(record), ..emitted });
        }
    }
}

unsafe extern "C" fn fail(out: *mut Out, reason: *const u8, length: u64) {
    // SAFETY: as in `take`; the box gives `length` readable bytes.
    unsafe {
        let reason = match length {
            0 => &[],
            n => std::slice::from_raw_parts(reason, n as usize),
        };
        (*out.cast::<Desk>()).failure = Some(String::from_utf8_lossy(reason).into_owned());
    }
}

/// Where a box finds its arguments in a record, and where its output goes: slots side by side each.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The slot of the first argument.
    pub first_argument: usize,
    /// The slot of the first value of the output.
    pub first_output: usize,
    /// How many values the output has.
    pub output_count: usize,
    /// Which of them have to be integers, by bits.
    pub integers: u64,
}

/// Records, each of so many slots, which stand at the same distance behind what a pointer leads to.
#[derive(Debug)]
pub struct Rows<'a> {
    first: *const *mut u8,
    count: usize,
    slots_offset: usize,
    slot_count: usize,
    _records: PhantomData<&'a mut [Value]>,
}

impl<'a> Rows<'a> {
    /// `count` records: `first` leads to as many pointers, and `slots_offset` bytes behind what each leads to stand
    /// `slot_count` values.
    ///
    /// # Safety
    /// So it is, all values are valid, and nobody else uses them during `'a`.
    #[inline]
    pub unsafe fn new(
        first: *const *mut u8,
        count: usize,
        slots_offset: usize,
        slot_count: usize,
    ) -> Rows<'a> {
        Rows { first, count, slots_offset, slot_count, _records: PhantomData }
    }
}

/// The rest of a box's output, polled as the network has room. Dropping it ends the box's generator.
pub struct Generator {
    handle: GeneratorHandle,
}

// SAFETY: `Out::generate` asks for `Send`, and the thread that holds the generator is its only user.
unsafe impl Send for Generator {}

impl Drop for Generator {
    fn drop(&mut self) {
        if let Some(drop) = self.handle.drop {
            // SAFETY: called once, with the state made together with it.
            unsafe { drop(self.handle.state) }
        }
    }
}

impl std::fmt::Debug for Generator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Generator")
    }
}
