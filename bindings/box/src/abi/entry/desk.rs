//! The host's side of a call: the box's arguments, its output, and its reason for failing.

use super::*;

/// One record that a box emitted, in the order of its variant.
#[derive(Debug)]
pub struct Emitted<'a> {
    /// The variant, from 1; not yet compared with the signature.
    pub variant: u32,
    /// The number of values that the box gave. If there are more values than slots, `values` is empty.
    pub count: usize,
    /// The values, which may be taken out; the host later overwrites those that remain.
    pub values: &'a mut [Value],
    /// The record's slots, during a call in place.
    pub record: Option<&'a [Value]>,
}

/// Receives the records that a box emits before its last one.
pub trait Host {
    /// Receives one record.
    fn emitted(&mut self, emitted: Emitted<'_>);
}

impl<F: FnMut(Emitted<'_>)> Host for F {
    fn emitted(&mut self, emitted: Emitted<'_>) {
        self(emitted);
    }
}

/// The memory for the calls of a box: its arguments, its output, and its reason for failing. The memory is
/// reused from call to call, so that a call has almost nothing to prepare.
#[repr(C)]
pub struct Desk {
    /// The first field, so that the box's pointer to its output is also a pointer to the desk.
    out: Out,
    failure: Option<String>,
    arguments: Box<[Value]>,
    /// The arguments of the last call, as they were before it, until they are released or given back;
    /// afterwards the contents have no meaning.
    kept: Box<[Kept]>,
    keeps: bool,
    /// The slots for output, unless a call is in place.
    slots: Box<[Value]>,
    /// The batch of calls in place; `first_output` is the slot where the output begins, and `slot_count` the
    /// number of slots of each record.
    batch: Batch,
    first_output: usize,
    slot_count: usize,
    /// The cell for the message's number if the host does not observe it.
    nowhere: AtomicU64,
}

// SAFETY: the desk owns the data that its pointers point to, except the host's, which are used during a call
// only.
unsafe impl Send for Desk {}

impl Desk {
    /// A desk for boxes with this number of arguments, which emit at most `slot_count` values per record.
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

    /// Sets whether arguments are given back unchanged even if a box changes them: boxes then change copies.
    /// If `exact` is false, a value that a box changed in place is replaced by a text that says so.
    pub fn keep_exactly(&mut self, exact: bool) {
        self.batch.shelf.alone = if exact { NEVER } else { 1 };
    }

    /// The slots for the arguments of a call. After the call, they hold the values that the box left in them.
    #[inline]
    pub fn arguments(&mut self) -> &mut [Value] {
        &mut self.arguments
    }

    /// Calls a box; returns whether it succeeded. All records that the box emitted but the last one were
    /// passed to `host`; [`Desk::emitted`] returns the last one, even if the box failed after it. After the
    /// call, the arguments must be released ([`Desk::settle`]) or taken back ([`Desk::give_back`]).
    #[inline]
    pub fn call<H: Host>(&mut self, entry: &BoxEntry, host: &mut H) -> bool {
        let keeper = self.keeper();
        self.keeps = true;
        self.arguments.iter().enumerate().for_each(|(index, argument)| keeper.value(index, argument));
        let (arguments, count) = (self.arguments.as_mut_ptr(), self.arguments.len() as u32);
        let out = self.out_apart(host);
        // SAFETY: `data` belongs to `call`; the arguments are valid values; desk and host live during the
        // call and no other code uses them.
        let status = unsafe { (entry.call)(entry.data, arguments, count, out) };
        status == Status::DONE
    }

    /// Releases the arguments of the last call, which has succeeded.
    #[inline]
    pub fn settle(&mut self) {
        if std::mem::take(&mut self.keeps) {
            self.kept.iter_mut().for_each(|kept| kept.let_go(&[]));
        }
    }

    /// Gives back the arguments of the call, with the values that they had before it. Values that a box
    /// changed in place are only named, unless [`Desk::keep_exactly`] was requested.
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

    /// Keeps the arguments of the next call, none of which is kept yet.
    #[inline]
    fn keeper(&mut self) -> Keeper {
        self.settle();
        match &mut *self.kept {
            // Most boxes have few arguments; a loop would be unrolled for many.
            [] => {}
            [one] => one.forget(),
            [one, other] => [one, other].into_iter().for_each(Kept::forget),
            more => more.iter_mut().for_each(Kept::forget),
        }
        (self.batch.shelf.kept, self.batch.shelf.unusual) = (self.kept.as_mut_ptr(), 0);
        Keeper(&raw mut self.batch.shelf)
    }

    /// Calls a function that is no box and may fail; returns whether it succeeded. Records that the function
    /// emits are dropped.
    pub(in crate::abi) fn run(&mut self, function: impl FnOnce(*mut Out) -> Status) -> bool {
        let status = function(self.out_apart(&mut |_: Emitted<'_>| {}));
        self.out.emission = 0;
        status == Status::DONE
    }

    /// Polls a generator once: `AGAIN` if there is more, `DONE` at its end. The generator's output was passed
    /// to `host`.
    pub fn poll<H: Host>(&mut self, generator: &mut Generator, host: &mut H) -> Status {
        let Some(next) = generator.handle.next else { return Status::DONE };
        let out = self.out_apart(host);
        // SAFETY: state and function were made together by `Out::generate`; desk and host live during the
        // call, and no other code uses them.
        let status = unsafe { next(generator.handle.state, out) };
        drop(self.generator()); // An item of a generator cannot start another one.
        if let Some(last) = self.emitted() {
            host.emitted(last);
        }
        status
    }

    /// The last record that the box emitted, unless it was taken already.
    #[inline]
    pub fn emitted(&mut self) -> Option<Emitted<'_>> {
        let (variant, count) = self.out.held()?;
        self.out.emission = 0;
        let in_slots = if count <= self.slots.len() { count } else { 0 };
        Some(Emitted { variant, count, values: &mut self.slots[..in_slots], record: None })
    }

    /// Calls a box with records in sequence. The slots of a record hold the arguments and receive the output,
    /// according to `place`. The calls stop at the first one that does not emit exactly one record of the
    /// first variant. Returns the number of calls before the last call, and whether the last call succeeded.
    /// The last call leaves its record unchanged for [`Desk::emitted_in_place`] and [`Desk::lift`]; the
    /// caller then releases the record's arguments ([`Desk::settle`]) or takes them back
    /// ([`Desk::give_back`]). `on` is the cell for the number of the message that the box works on, and the
    /// number of the first message.
    ///
    /// # Panics
    /// If the records have fewer slots than the place requires.
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
        // SAFETY: `data` belongs to the functions of `entry`. The records' slots are valid values, borrowed
        // for the calls and used by no other code; the assertion ensures that arguments and output lie within
        // a record. The desk owns batch and output, and the host is borrowed as long as these calls last.
        let status = unsafe {
            let batch = &raw mut (*desk).batch;
            match entry.call_batch {
                Some(call) => call(entry.data, batch, desk.cast()),
                // The box has no batch function.
                None => call_each(entry, batch, desk.cast()),
            }
        };
        self.keeps = self.batch.done < self.batch.count;
        (self.batch.done as usize, status == Status::DONE)
    }

    /// Variant and number of values of the last record that a call in place emitted. The values are in the
    /// record.
    #[inline]
    pub fn emitted_in_place(&mut self) -> Option<(u32, usize)> {
        let held = self.out.held();
        self.out.emission = 0;
        held
    }

    /// Moves the last output of a call in place from the record to the desk, for [`Desk::emitted`].
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

    /// Whether the box continues with a generator: see [`Desk::generator`].
    #[inline]
    pub fn generates(&self) -> bool {
        !self.out.generator.state.is_null()
    }

    /// The generator with which the box continues.
    #[inline]
    pub fn generator(&mut self) -> Option<Generator> {
        if self.out.generator.state.is_null() {
            return None;
        }
        Some(Generator { handle: std::mem::replace(&mut self.out.generator, GeneratorHandle::NONE) })
    }

    /// The reason why the box failed.
    #[cold]
    pub fn failure(&mut self) -> String {
        drop(self.generator());
        self.failure.take().unwrap_or_else(|| "the box failed without a reason".to_owned())
    }

    /// The output for a call with the desk's own slots, in the form for boxes.
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
    // SAFETY: called by a box during a call that `Desk::out_for` prepared for this `H`; `out` is the desk,
    // and no other code uses desk and host meanwhile.
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

/// The slots of a box's arguments and of its output in a record; each are adjacent slots.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The slot of the first argument.
    pub first_argument: usize,
    /// The slot of the first value of the output.
    pub first_output: usize,
    /// The number of values of the output.
    pub output_count: usize,
    /// A set of bits, one for each output value that has to be an integer.
    pub integers: u64,
}

/// Records with this number of slots each, at the same offset from the address in a pointer.
#[derive(Debug)]
pub struct Rows<'a> {
    first: *const *mut u8,
    count: usize,
    slots_offset: usize,
    slot_count: usize,
    _records: PhantomData<&'a mut [Value]>,
}

impl<'a> Rows<'a> {
    /// `count` records: `first` points to as many pointers, and at `slots_offset` bytes from each address
    /// there are `slot_count` values.
    ///
    /// # Safety
    /// The description above holds, all values are valid, and no other code uses them during `'a`.
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

/// The remaining output of a box, polled when the network has space. Dropping the value ends the box's
/// generator.
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
