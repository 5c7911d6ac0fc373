//! Calls of a box, and the return of the records that it emits.
//!
//! The caller owns the argument slots and the output slots; all of them hold valid values at all times, so
//! neither side has to report which values it drops. The last record that a call emits stays in the output
//! slots, so a box that emits one record per call crosses the boundary once.

mod desk;

pub use desk::{Desk, Emitted, Generator, Host, Place, Rows};

use super::kept::{Keep, Keeper, Keeping, Kept, NEVER, ODD, Shelf};
use crate::value::{Argument, Mismatch, Tuple, Value};
use std::any::Any;
use std::ffi::c_void;
use std::fmt::Display;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// The result of a call.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status(u32);

impl Status {
    /// The box has emitted all records for its input.
    pub const DONE: Status = Status(0);
    /// The box failed; the host has its reason.
    pub const FAILED: Status = Status(1);
    /// A generator has more output, and the host polls it.
    pub const AGAIN: Status = Status(2);
}

/// The function of a box, which is called with the `data` of its entry.
type CallFunction =
    unsafe extern "C" fn(data: *const c_void, arguments: *mut Value, count: u32, out: *mut Out) -> Status;

/// The function that calls a box with several records in sequence, each as by [`CallFunction`], until one is
/// unusual (see [`Batch::done`]) or fails.
type BatchFunction = unsafe extern "C" fn(data: *const c_void, batch: *mut Batch, out: *mut Out) -> Status;

/// Records of one shape for a batch of calls; a call has its arguments and its output in slots of its record.
#[repr(C)]
struct Batch {
    /// The pointers to the records.
    records: *const *mut u8,
    /// The cell for the number of the message that the box works on.
    at: *const AtomicU64,
    /// The number of the message of the first record.
    first: u64,
    /// A set of bits, one for each output value that has to be an integer.
    integers: u64,
    count: u32,
    /// The number of calls that emitted one record each, of the first variant, with `output_count` values.
    /// The record after the counted ones is as its call left it.
    done: u32,
    /// The offset of the first argument, in bytes from the start of a record; `output_offset` is that of the
    /// first output value.
    argument_offset: u32,
    output_offset: u32,
    argument_count: u32,
    output_count: u32,
    /// The value of [`Out::emission`] after a call that emitted one record as the batch requires.
    usual: u64,
    /// The shelf on which each call keeps its arguments; after the batch it holds those of the call that
    /// ended the batch.
    shelf: Shelf,
}

/// A flag in [`Shelf::unusual`]: the host took a record from the call before the last one.
const EARLY: u32 = 1;

/// One box of a library.
#[repr(C)]
pub struct BoxEntry {
    /// The signature as S-Net text: UTF-8, valid as long as the library is loaded.
    signature: *const u8,
    signature_length: u64,
    /// The number of arguments of `call`.
    argument_count: u32,
    /// 1 if the box may wait for files, sockets or time; it then gets a thread of its own.
    blocking: u32,
    call: CallFunction,
    data: *const c_void,
    /// The function for batches; `None` if the host makes each call itself.
    call_batch: Option<BatchFunction>,
}

// SAFETY: `data` is a `F: Send + Sync` that lives as long as the library.
unsafe impl Send for BoxEntry {}
// SAFETY: `data` is a `F: Send + Sync` that lives as long as the library, and `call` takes it by shared
// reference.
unsafe impl Sync for BoxEntry {}

/// The output of a box during a call.
#[repr(C)]
pub struct Out {
    host: *mut c_void,
    table: *const OutTable,
    /// `capacity` valid values that belong to the host.
    values: *mut Value,
    /// While the latest record is in `values`: [`HELD`], the number of its values (the first `min(count,
    /// capacity)` slots; in the upper half) and its variant, from 1 (in the lower half). While no record is
    /// in `values`, the emission is 0. The emission is one word, so that a call writes and compares it at
    /// once.
    emission: u64,
    // This field separates the two fields that each call sets to zero: otherwise the compiler stores both
    // zeros at once, and the load of `generator.state` after the call straddles that store, which costs a box
    // a sixth of its time.
    capacity: u64,
    generator: GeneratorHandle,
}

/// The flag in [`Out::emission`] that `values` holds a record.
const HELD: u64 = 1 << 63;

/// The value of [`Out::emission`] for a record of this variant and number of values.
#[inline(always)]
const fn emission(variant: u32, count: u32) -> u64 {
    HELD | (count as u64) << 32 | variant as u64
}

// A library keeps the layout it was built with. A change of one of these numbers (or of the order of a call's
// arguments) needs a higher `ABI_VERSION`, or else old libraries would be called wrongly instead of refused.
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Out, host) == 0 && offset_of!(Out, table) == 8 && offset_of!(Out, values) == 16);
    assert!(offset_of!(Out, emission) == 24 && offset_of!(Out, capacity) == 32);
    assert!(offset_of!(Out, generator) == 40 && size_of::<Out>() == 64);
    assert!(offset_of!(BoxEntry, argument_count) == 16 && offset_of!(BoxEntry, blocking) == 20);
    assert!(offset_of!(BoxEntry, call) == 24 && offset_of!(BoxEntry, data) == 32);
    assert!(offset_of!(BoxEntry, call_batch) == 40 && size_of::<BoxEntry>() == 48);
    assert!(
        offset_of!(Batch, count) == 32 && offset_of!(Batch, usual) == 56 && offset_of!(Batch, shelf) == 64
    );
    assert!(offset_of!(Shelf, alone) == 8 && offset_of!(Shelf, unusual) == 16 && size_of::<Batch>() == 88);
};

/// The functions that the host offers during a call.
#[repr(C)]
struct OutTable {
    /// Takes the record that `values` holds, so that the slots are free again.
    take: unsafe extern "C" fn(out: *mut Out),
    /// Keeps the reason of a failure: text that should be UTF-8.
    fail: unsafe extern "C" fn(out: *mut Out, reason: *const u8, length: u64),
}

/// A box's endless output in the form that crosses the boundary; empty if `state` is null.
#[repr(C)]
#[derive(Clone, Copy)]
struct GeneratorHandle {
    state: *mut c_void,
    next: Option<unsafe extern "C" fn(state: *mut c_void, out: *mut Out) -> Status>,
    drop: Option<unsafe extern "C" fn(state: *mut c_void)>,
}

impl GeneratorHandle {
    const NONE: GeneratorHandle = GeneratorHandle { state: std::ptr::null_mut(), next: None, drop: None };
}

impl Out {
    /// Emits a record of the first variant: its values in the order of the signature.
    #[inline]
    pub fn emit<T: Tuple>(&mut self, values: T) {
        self.emit_variant(1, values);
    }

    /// Emits a record of the `variant`-th variant of the signature, counted from 1. A variant that the
    /// signature does not have, or a wrong number of values, fails the record.
    #[inline]
    pub fn emit_variant<T: Tuple>(&mut self, variant: u32, values: T) {
        if self.emission != 0 {
            // SAFETY: the host made this `Out` with its table and waits in the call.
            unsafe { ((*self.table).take)(self) }
        }
        self.emission = emission(variant, T::COUNT as u32);
        if T::COUNT <= self.capacity as usize {
            // SAFETY: the host gave `capacity` valid values, which no other code uses during the call.
            values.store(unsafe { std::slice::from_raw_parts_mut(self.values, self.capacity as usize) });
        }
    }

    /// Emits the items of an iterator, one at a time when the output has space: for long or endless output.
    /// The iterator is polled after the box returned, and dropped when it ends, fails, or the network is
    /// stopped. A second iterator in the same call follows the first.
    pub fn generate<I>(&mut self, items: I)
    where
        I: IntoIterator + 'static,
        I::IntoIter: Send + 'static,
        I::Item: Emission,
    {
        let mut items = items.into_iter();
        let mut step: Step = Box::new(move |out| match items.next() {
            Some(item) => item.emit(out).map(|()| true),
            None => Ok(false),
        });
        if !self.generator.state.is_null() {
            // SAFETY: a state that is not null was set by an earlier `generate` in the same call of the box,
            // so by this library.
            let mut first: Step = *unsafe { Box::from_raw(self.generator.state.cast::<Step>()) };
            let mut first_ended = false;
            step = Box::new(move |out| {
                if !first_ended && first(out)? {
                    return Ok(true);
                }
                first_ended = true;
                step(out)
            });
        }
        let state = Box::into_raw(Box::new(step)).cast();
        self.generator = GeneratorHandle { state, next: Some(next_step), drop: Some(drop_steps) };
    }

    /// Variant and number of values of the latest emission, if there is one.
    #[inline]
    fn held(&self) -> Option<(u32, usize)> {
        (self.emission != 0).then_some((self.emission as u32, (self.emission & !HELD) as usize >> 32))
    }

    fn fail(&mut self, reason: &str) {
        // SAFETY: the host made this `Out` with its table and waits in the call.
        unsafe { ((*self.table).fail)(self, reason.as_ptr(), reason.len() as u64) }
    }
}

/// An item of a generator: a tuple (variant 1), `Variant(n, tuple)`, or a `Result` of one.
pub trait Emission {
    /// Emits the item, or returns the reason why it is not a valid item.
    fn emit(self, out: &mut Out) -> Result<(), String>;
}

/// An item of another variant than the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant<T>(pub u32, pub T);

impl<T: Tuple> Emission for T {
    #[inline]
    fn emit(self, out: &mut Out) -> Result<(), String> {
        out.emit(self);
        Ok(())
    }
}

impl<T: Tuple> Emission for Variant<T> {
    #[inline]
    fn emit(self, out: &mut Out) -> Result<(), String> {
        out.emit_variant(self.0, self.1);
        Ok(())
    }
}

impl<T: Emission> Emission for Result<T, String> {
    fn emit(self, out: &mut Out) -> Result<(), String> {
        self?.emit(out)
    }
}

/// One step of a generator; returns `Ok(false)` at its end.
type Step = Box<dyn FnMut(&mut Out) -> Result<bool, String> + Send>;

unsafe extern "C" fn next_step(state: *mut c_void, out: *mut Out) -> Status {
    // SAFETY: the host passes the state that `Out::generate` made, and an `Out` that only this call uses.
    let (step, out) = unsafe { (&mut *state.cast::<Step>(), &mut *out) };
    finish(
        catch_unwind(AssertUnwindSafe(|| step(out))),
        out,
        |more| {
            if more { Status::AGAIN } else { Status::DONE }
        },
    )
}

unsafe extern "C" fn drop_steps(state: *mut c_void) {
    // SAFETY: the host calls this once, with the state that `Out::generate` made.
    let steps = unsafe { Box::from_raw(state.cast::<Step>()) };
    // A destructor that panics must not unwind into the host.
    drop(catch_unwind(AssertUnwindSafe(|| drop(steps))));
}

#[cold]
fn finish<T>(
    result: Result<Result<T, String>, Box<dyn Any + Send>>,
    out: &mut Out,
    status: impl FnOnce(T) -> Status,
) -> Status {
    match result {
        Ok(Ok(value)) => status(value),
        Ok(Err(reason)) => {
            out.fail(&reason);
            Status::FAILED
        }
        Err(panic) => {
            out.fail(&panic_reason(panic));
            Status::FAILED
        }
    }
}

fn panic_reason(panic: Box<dyn Any + Send>) -> String {
    let text = match panic.downcast_ref::<&str>() {
        Some(text) => Some(*text),
        None => panic.downcast_ref::<String>().map(String::as_str),
    };
    let reason = format!("the box panicked: {}", text.unwrap_or("(no message)"));
    drop(catch_unwind(AssertUnwindSafe(|| drop(panic))));
    reason
}

/// The types that a box function may return.
pub trait Outcome {
    /// `Ok`, or the reason why the box failed.
    fn outcome(self) -> Result<(), String>;
}

impl Outcome for () {
    #[inline]
    fn outcome(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: Display> Outcome for Result<(), E> {
    #[inline]
    fn outcome(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())
    }
}

/// A function that can be a box: its arguments, then the output. `Arguments` is the tuple of the arguments'
/// types.
pub trait BoxFunction<Arguments>: Send + Sync + 'static {
    /// The number of arguments.
    const COUNT: usize;
    /// The properties of each argument's type.
    #[doc(hidden)]
    const KEEPING: &'static [Keeping];
    /// Takes the arguments out of their slots, after each was kept, and runs.
    fn run(&self, arguments: &mut [Value], keep: impl Keep, out: &mut Out) -> Result<(), String>;
}

#[inline(always)]
fn argument<T: Argument>(arguments: &mut [Value], keep: impl Keep, index: usize) -> Result<T, String> {
    if T::KEEPING == Keeping::Foreign {
        leave(arguments, keep, index + 1);
    }
    let taken = T::from_slot(&mut arguments[index], keep, index);
    taken.map_err(|mismatch| wrong_argument(arguments, keep, index, &mismatch))
}

/// Records that the arguments from number `first` on stay in their slots, in case the call ends before it
/// reads them.
fn leave(arguments: &[Value], keep: impl Keep, first: usize) {
    (first..arguments.len()).for_each(|index| keep.leave(index));
}

#[cold]
#[inline(never)]
fn wrong_argument(arguments: &[Value], keep: impl Keep, index: usize, mismatch: &Mismatch) -> String {
    leave(arguments, keep, index + 1);
    format!("argument {}: {mismatch}", index + 1)
}

macro_rules! box_function {
    ($count:literal: $($name:ident $index:tt),*) => {
        impl<Function, Result, $($name),*> BoxFunction<($($name,)*)> for Function
        where
            Function: Fn($($name,)* &mut Out) -> Result + Send + Sync + 'static,
            Result: Outcome,
            $($name: Argument),*
        {
            const COUNT: usize = $count;
            const KEEPING: &'static [Keeping] = &[$($name::KEEPING),*];
            #[inline(always)]
            fn run(&self, _arguments: &mut [Value], _keep: impl Keep, out: &mut Out) -> std::result::Result<(), String> {
                self($(argument::<$name>(_arguments, _keep, $index)?,)* out).outcome()
            }
        }
    };
}

box_function!(0:);
box_function!(1: A 0);
box_function!(2: A 0, B 1);
box_function!(3: A 0, B 1, C 2);
box_function!(4: A 0, B 1, C 2, D 3);
box_function!(5: A 0, B 1, C 2, D 3, E 4);
box_function!(6: A 0, B 1, C 2, D 3, E 4, F 5);
box_function!(7: A 0, B 1, C 2, D 3, E 4, F 5, G 6);
box_function!(8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
box_function!(9: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
box_function!(10: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);

unsafe extern "C" fn call<F: BoxFunction<A>, A>(
    data: *const c_void,
    arguments: *mut Value,
    count: u32,
    out: *mut Out,
) -> Status {
    // SAFETY: `data` is the `F` that `BoxEntry::new` kept, for ever; the host gives `count` valid values and
    // an `Out`, all for the time of this call.
    let (function, arguments, out) = unsafe {
        let arguments = match count {
            0 => &mut [],
            n => std::slice::from_raw_parts_mut(arguments, n as usize),
        };
        (&*data.cast::<F>(), arguments, &mut *out)
    };
    if arguments.len() != F::COUNT {
        out.fail(WRONG_COUNT);
        return Status::FAILED;
    }
    // The unit `()` is a keeper that keeps nothing, because the host has kept the arguments before this call.
    guard(out, |out| function.run(arguments, (), out))
}

unsafe extern "C" fn call_batch<F: BoxFunction<A>, A>(
    data: *const c_void,
    batch: *mut Batch,
    out: *mut Out,
) -> Status {
    // SAFETY: `data` is the `F` that `BoxEntry::new` kept, for ever; batch and `Out` are valid for the time
    // of this call.
    let (function, out) = unsafe { (&*data.cast::<F>(), &mut *out) };
    // SAFETY: `data` is the `F` that `BoxEntry::new` kept, for ever; batch and `Out` are valid for the time
    // of this call.
    if unsafe { (*batch).argument_count } as usize != F::COUNT {
        out.fail(WRONG_COUNT);
        return Status::FAILED;
    }
    // SAFETY: each record of the host's batch has the arguments of this function, which no other code uses
    // during a call.
    guard(out, |out| unsafe {
        each_record(batch, out, F::KEEPING, |arguments, keeper, out| {
            function.run(std::slice::from_raw_parts_mut(arguments, F::COUNT), keeper, &mut *out)
        })
    })
}

/// Calls a box with the records of a batch in sequence, as long as each call emits one record as the batch
/// requires, and none fails. `call` gets a pointer to the arguments and keeps them as [odd](Keep::odd) ones,
/// except those that `keeping` declares to be on the heap or of any kind.
///
/// # Safety
/// Batch and output were prepared by [`Desk::call_in_place`] for a box with this number of arguments: a
/// record's pointer plus the offset points to that many valid values, which no other code uses meanwhile.
/// Only the host, during [`Out::emit_variant`], this function and the keeper change `unusual`; only this
/// function changes `done`.
#[inline(always)]
unsafe fn each_record<E>(
    batch: *mut Batch,
    out: *mut Out,
    keeping: &[Keeping],
    mut call: impl FnMut(*mut Value, Keeper, *mut Out) -> Result<(), E>,
) -> Result<(), E> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let Batch { records, at, first, count, argument_offset, output_offset, .. } = *batch;
        let keeper = Keeper(&raw mut (*batch).shelf);
        for done in 0..count {
            (*batch).done = done;
            (*at).store(first + u64::from(done), Ordering::Relaxed);
            let record = *records.add(done as usize);
            let arguments = record.add(argument_offset as usize).cast::<Value>();
            (*out).values = record.add(output_offset as usize).cast();
            (*out).emission = 0;
            call(arguments, keeper, out)?;
            if !((*batch).is_usual(&*out) && (*batch).shelf.unusual == 0) {
                if !Batch::is_usual_but_odd(batch, arguments, &*out) {
                    return Ok(());
                }
                continue;
            }
            for (index, keeping) in keeping.iter().enumerate() {
                let kept = &mut *(*batch).shelf.kept.add(index);
                let is_heap = *keeping == Keeping::Heap || *keeping != Keeping::Number && kept.is_heap();
                if is_heap && !kept.settle(&*arguments.add(index)) {
                    kept.let_go((*batch).output(&*out));
                }
            }
        }
        (*batch).done = count;
    }
    Ok(())
}

/// Makes the calls of a batch for a box that has no batch function. The loop is in a separate function, so
/// that the compiler can use all registers for it.
///
/// # Safety
/// The conditions of [`each_record`] hold, for the arguments of this box.
#[inline(never)]
unsafe fn call_each(entry: &BoxEntry, batch: *mut Batch, out: *mut Out) -> Status {
    let (call, data) = (entry.call, entry.data);
    // SAFETY: guaranteed by the caller; `data` belongs to `call`.
    let called = unsafe {
        let count = (*batch).argument_count;
        each_record(batch, out, &[], |arguments, keeper, out| {
            for index in 0..count as usize {
                keeper.odd(index, &*arguments.add(index));
            }
            match call(data, arguments, count, out) {
                Status::DONE => Ok(()),
                failed => Err(failed),
            }
        })
    };
    called.err().unwrap_or(Status::DONE)
}

/// The reason of a failure when the number of arguments is not that of the function.
const WRONG_COUNT: &str = "called with another number of arguments than it has";

impl Batch {
    /// Whether the last call with `out` emitted exactly one record, as the batch requires.
    #[inline(always)]
    fn is_usual(&self, out: &Out) -> bool {
        out.emission == self.usual && out.generator.state.is_null() && self.has_integers(out)
    }

    /// Whether the only unusual fact about the last call with `out` is that a value on the heap was kept,
    /// which was then released.
    ///
    /// # Safety
    /// The conditions of [`each_record`] hold; `arguments` points to the arguments of the call.
    #[inline(never)]
    unsafe fn is_usual_but_odd(batch: *mut Batch, arguments: *const Value, out: &Out) -> bool {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if (*batch).shelf.unusual != ODD || !(*batch).is_usual(out) {
                return false;
            }
            (*batch).shelf.unusual = 0;
            for index in 0..(*batch).argument_count as usize {
                let kept = &mut *(*batch).shelf.kept.add(index);
                if kept.is_heap() && !kept.settle(&*arguments.add(index)) {
                    kept.let_go((*batch).output(out));
                }
            }
        }
        true
    }

    /// The values that a usual call wrote.
    ///
    /// # Safety
    /// The last call with `out` was a usual one.
    #[inline(always)]
    unsafe fn output<'o>(&self, out: &'o Out) -> &'o [Value] {
        // SAFETY: the output has `output_count` valid values.
        unsafe { std::slice::from_raw_parts(out.values, self.output_count as usize) }
    }

    #[inline(always)]
    fn has_integers(&self, out: &Out) -> bool {
        let mut left = self.integers;
        while left != 0 {
            // SAFETY: the output has `output_count` valid values, and bits beyond are not set.
            let value = unsafe { &*out.values.add(left.trailing_zeros() as usize) };
            if !matches!(value, Value::Int(_)) {
                return false;
            }
            left &= left - 1;
        }
        true
    }
}

/// Runs a function of the library: its error or panic becomes the reason of a failure.
#[inline]
pub(super) fn guard(out: &mut Out, run: impl FnOnce(&mut Out) -> Result<(), String>) -> Status {
    match catch_unwind(AssertUnwindSafe(|| run(out))) {
        Ok(Ok(())) => Status::DONE,
        failed => finish(failed, out, |()| Status::DONE),
    }
}

impl BoxEntry {
    /// The box `function` with its signature as S-Net text, such as `box inc ((x) -> (x))`. Function and
    /// signature stay as long as this library is loaded.
    pub fn new<F: BoxFunction<A>, A: 'static>(signature: &str, function: F) -> BoxEntry {
        let signature: &'static str = String::leak(signature.to_owned());
        let data: &'static F = Box::leak(Box::new(function));
        BoxEntry {
            signature: signature.as_ptr(),
            signature_length: signature.len() as u64,
            argument_count: F::COUNT as u32,
            blocking: 0,
            call: call::<F, A>,
            data: std::ptr::from_ref(data).cast(),
            call_batch: Some(call_batch::<F, A>),
        }
    }

    /// Marks the box as one that may wait (for files, sockets, time): it gets a thread of its own, so that it
    /// never stalls a worker.
    pub fn blocking(mut self) -> BoxEntry {
        self.blocking = 1;
        self
    }

    /// Whether the box may wait.
    pub fn is_blocking(&self) -> bool {
        self.blocking != 0
    }

    /// The signature, if it is UTF-8.
    pub fn signature(&self) -> Result<&str, std::str::Utf8Error> {
        // SAFETY: made by `BoxEntry::new` of some library: text that lives as long as the library and this entry of it.
        let bytes = unsafe { std::slice::from_raw_parts(self.signature, self.signature_length as usize) };
        std::str::from_utf8(bytes)
    }

    /// The number of arguments of the function.
    pub fn argument_count(&self) -> usize {
        self.argument_count as usize
    }

    /// Runs the box on `arguments` and collects the records that it emits, up to `limit`: for tests of boxes.
    ///
    /// ```
    /// use thalweg_box::{BoxEntry, Out, Value};
    /// let half = BoxEntry::new("box half ((x) -> (x))", |x: i64, out: &mut Out| out.emit((x / 2,)));
    /// let emitted = half.run(vec![Value::Int(8)], 10).unwrap();
    /// assert_eq!(emitted, [(1, vec![Value::Int(4)])]);
    /// ```
    pub fn run(&self, arguments: Vec<Value>, limit: usize) -> Result<Vec<(u32, Vec<Value>)>, String> {
        let mut emitted: Vec<(u32, Vec<Value>)> = Vec::new();
        let mut host = |now: Emitted<'_>| {
            emitted.push((now.variant, now.values.iter_mut().map(Value::take).collect()));
        };
        let mut desk = Desk::new(arguments.len(), 16);
        for (slot, argument) in desk.arguments().iter_mut().zip(arguments) {
            *slot = argument;
        }
        let succeeded = desk.call(self, &mut host);
        desk.settle();
        if !succeeded {
            return Err(desk.failure());
        }
        if let Some(last) = desk.emitted() {
            host(last);
        }
        let mut generator = desk.generator();
        for _ in 0..limit {
            let Some(more) = &mut generator else { break };
            match desk.poll(more, &mut host) {
                Status::AGAIN => {}
                Status::DONE => generator = None,
                _ => return Err(desk.failure()),
            }
        }
        emitted.truncate(limit);
        Ok(emitted)
    }
}

impl std::fmt::Debug for BoxEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BoxEntry").field(&self.signature()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls a box of one argument with records of two slots, the second of which receives the output.
    /// Returns how many calls emitted one record each, whether the last call succeeded, the records after the
    /// calls, the number of records emitted early, and the last message number that was reported.
    fn run(entry: &BoxEntry, numbers: &[i64]) -> (usize, bool, Vec<[Value; 2]>, usize, u64) {
        let mut records: Vec<[Value; 2]> = numbers.iter().map(|&n| [Value::Int(n), Value::Int(0)]).collect();
        let pointers: Vec<*mut u8> = records.iter_mut().map(|record| record.as_mut_ptr().cast()).collect();
        let mut early = 0;
        let mut host = |emitted: Emitted<'_>| {
            assert_eq!(emitted.record.map(<[Value]>::len), Some(2));
            early += 1;
        };
        let place = Place { first_argument: 0, first_output: 1, output_count: 1, integers: 1 };
        let at = AtomicU64::new(0);
        let mut desk = Desk::new(1, 1);
        // SAFETY: each pointer points to two values, which no other code uses meanwhile.
        let rows = unsafe { Rows::new(pointers.as_ptr(), pointers.len(), 0, 2) };
        let (done, succeeded) = desk.call_in_place(entry, &place, rows, (Some(&at), 100), &mut host);
        (done, succeeded, records, early, at.into_inner())
    }

    /// A box that emits one record for each number, except that for the number 3 it does what `what` names.
    fn odd_at_three(what: &'static str) -> BoxEntry {
        BoxEntry::new("box b ((a) -> (n))", move |a: i64, out: &mut Out| {
            match what {
                _ if a != 3 => out.emit((a * 10,)),
                "none" => {}
                "two" => (0..2_i64).for_each(|k| out.emit((k,))),
                "another" => out.emit_variant(2, (a,)),
                "longer" => out.emit((a, a)),
                "no integer" => out.emit((0.5,)),
                "more to come" => {
                    out.emit((a,));
                    out.generate((0..3_i64).map(|n| (n,)));
                }
                "panic" => panic!("at three"),
                _ => return Err("at three"),
            }
            Ok(())
        })
    }

    #[test]
    fn a_batch_stops_at_the_first_unusual_record_whoever_makes_the_calls() {
        let odd = [
            "none",
            "two",
            "another",
            "longer",
            "no integer",
            "more to come",
            "panic",
            "an error",
            "nothing",
        ];
        for what in odd {
            let together = odd_at_three(what);
            let apart = BoxEntry { call_batch: None, ..odd_at_three(what) };
            let numbers: &[i64] = if what == "nothing" { &[1, 2, 4, 5] } else { &[1, 2, 3, 4] };
            let outcome = run(&together, numbers);
            assert_eq!(outcome, run(&apart, numbers), "{what}");
            let (done, succeeded, records, early, at) = outcome;
            let wanted = if what == "nothing" { (4, 103) } else { (2, 102) };
            assert_eq!((done, at), wanted, "{what}");
            assert_eq!(succeeded, !matches!(what, "panic" | "an error"), "{what}");
            assert_eq!(early, usize::from(what == "two"), "{what}");
            assert_eq!(records[1][1], Value::Int(20), "{what}");
            if done == 2 {
                assert_eq!(records[3], [Value::Int(4), Value::Int(0)], "{what}: it was not called");
            }
        }
    }

    #[test]
    #[should_panic(expected = "the records have not the slots of the box")]
    fn a_record_without_the_slots_is_not_called() {
        let place = Place { first_argument: 2, first_output: 0, output_count: 1, integers: 0 };
        // SAFETY: with a count of 0 no record is read, so the pointer may be null.
        let rows = unsafe { Rows::new(std::ptr::null(), 0, 0, 2) };
        Desk::new(1, 1).call_in_place(&odd_at_three(""), &place, rows, (None, 0), &mut |_: Emitted<'_>| {});
    }
}
