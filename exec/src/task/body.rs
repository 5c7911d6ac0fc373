//! A task's *body*: the value that a user gave for the task. The body lies behind the task's cell, in the
//! same block of memory, so making a task allocates once.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::slab::UNIT;
use crate::stop::Stop;
use crate::task::cell::{Held, Ring, TaskCell};
use crate::task::context::{Context, HandedOn, PassesTo, Ports, Progress, Task};

/// The functions and the size of a body; the runtime does not know the body's type. Each function gets the
/// address of the body, a value of [`Task`]. The address must be valid for the call, and no other reference to
/// the body may live.
#[repr(C)]
pub(crate) struct Methods {
    held: Held,
    attach: unsafe fn(*mut u8, &mut Ports<'_>),
    run: unsafe fn(*mut u8, &mut Context<'_>) -> Stop,
    passes_to: unsafe fn(*mut u8, HandedOn<'_>) -> Option<NonNull<Ring>>,
    work_on: unsafe fn(*mut u8, HandedOn<'_>, Progress<'_>) -> usize,
    /// Drops the body.
    drop: unsafe fn(*mut u8),
    /// Moves the body into a box; `None` if there is no body.
    boxed: unsafe fn(*mut u8) -> Option<Box<dyn Task>>,
    /// The functions of a cell of the same size without a body, which do nothing.
    none: Option<&'static Methods>,
}

/// The functions for a cell that has no body and no room for one.
pub(crate) const BODILESS: &Methods = &Methods::none(0);

impl Methods {
    const fn none(bytes: usize) -> Methods {
        Methods {
            held: Held { bytes },
            attach: |_, _| (),
            run: |_, _| Stop::Ended,
            passes_to: |_, _| None,
            work_on: |_, _, _| 0,
            drop: |_| (),
            boxed: |_| None,
            none: None,
        }
    }

    /// The beginning of the methods, valid as a pointer to all of them.
    fn held(&'static self) -> NonNull<Held> {
        NonNull::from(self).cast()
    }

    /// The methods for a cell that has room for such a body, and none yet.
    pub(crate) fn empty(&'static self) -> NonNull<Held> {
        self.none.unwrap_or(self).held()
    }

    const fn of<T: Task>() -> &'static Methods {
        const {
            let bytes = size_of::<T>().next_multiple_of(UNIT);
            // SAFETY: callers of these functions guarantee that a body of this type is at the address.
            &unsafe {
                Methods {
                    held: Held { bytes },
                    attach: |body, ports| (*body.cast::<T>()).attach(ports),
                    run: |body, cx| (*body.cast::<T>()).run(cx),
                    passes_to: |body, next| {
                        (*body.cast::<T>()).passes_to(next).map(|PassesTo { ring, .. }| ring)
                    },
                    work_on: |body, messages, progress| (*body.cast::<T>()).work_on(messages, progress),
                    drop: |body| body.cast::<T>().drop_in_place(),
                    boxed: |body| Some(Box::new(body.cast::<T>().read())),
                    none: Some(&Methods::none(size_of::<T>().next_multiple_of(UNIT))),
                }
            }
        }
    }
}

impl TaskCell {
    /// The address of the body.
    #[inline(always)]
    fn body(&self) -> *mut u8 {
        // The block of memory goes on behind the cell, so the address is valid if there is a body.
        std::ptr::from_ref(self).cast_mut().wrapping_add(1).cast()
    }

    #[inline(always)]
    fn methods(&self) -> &'static Methods {
        // SAFETY: the pointer came from `Methods::held`, because only this module makes a `Held`.
        unsafe { self.methods.get().cast::<Methods>().as_ref() }
    }

    /// Gives the task a body, by moving the value there.
    ///
    /// # Safety
    /// The cell was made with the methods of this value and has no body, and no other thread uses the cell's
    /// body yet.
    pub(crate) unsafe fn embody(&self, given: &mut dyn Given) {
        // SAFETY: guaranteed by the caller: behind the cell there is room for the value.
        unsafe { given.move_to(self.body()) };
        self.methods.set(given.methods().held());
    }

    /// Names the body's ports; see [`Task::attach`].
    ///
    /// # Safety
    /// This is the task's own thread, or no other thread has seen the task; no other call to the body is
    /// under way. The same holds for the calls below.
    pub(crate) unsafe fn attach_body(&self, ports: &mut Ports<'_>) {
        // SAFETY: guaranteed by the caller.
        unsafe { (self.methods().attach)(self.body(), ports) }
    }

    /// Runs the body: see [`Task::run`]. A task without a body has ended.
    ///
    /// # Safety
    /// See [`TaskCell::attach_body`].
    #[inline(always)]
    pub(crate) unsafe fn run_body(&self, cx: &mut Context<'_>) -> Stop {
        // SAFETY: guaranteed by the caller.
        unsafe { (self.methods().run)(self.body(), cx) }
    }

    /// The stream by which the body passes these messages on: see [`Task::passes_to`].
    ///
    /// # Safety
    /// See [`TaskCell::attach_body`].
    #[inline]
    pub(crate) unsafe fn body_passes_to(&self, next: HandedOn<'_>) -> Option<NonNull<Ring>> {
        // SAFETY: guaranteed by the caller.
        unsafe { (self.methods().passes_to)(self.body(), next) }
    }

    /// Lets the body work on messages in place: see [`Task::work_on`].
    ///
    /// # Safety
    /// See [`TaskCell::attach_body`].
    #[inline]
    pub(crate) unsafe fn body_works_on(&self, messages: HandedOn<'_>, progress: Progress<'_>) -> usize {
        // SAFETY: guaranteed by the caller.
        unsafe { (self.methods().work_on)(self.body(), messages, progress) }
    }

    /// Drops the body, if there is one.
    ///
    /// # Safety
    /// See [`TaskCell::attach_body`].
    pub(crate) unsafe fn drop_body(&self) {
        let methods = self.take_methods();
        // SAFETY: guaranteed by the caller; the cell has no body any more.
        unsafe { (methods.drop)(self.body()) }
    }

    /// Moves the body into a box.
    ///
    /// # Safety
    /// See [`TaskCell::attach_body`].
    pub(crate) unsafe fn take_body(&self) -> Option<Box<dyn Task>> {
        let methods = self.take_methods();
        // SAFETY: guaranteed by the caller; the cell has no body any more.
        unsafe { (methods.boxed)(self.body()) }
    }

    fn take_methods(&self) -> &'static Methods {
        let methods = self.methods();
        self.methods.set(methods.none.unwrap_or(methods).held());
        methods
    }
}

/// A user's value on its way to a cell.
pub(crate) trait Given {
    /// Names the value's ports; see [`Task::attach`].
    fn attach(&mut self, ports: &mut Ports<'_>);

    fn methods(&self) -> &'static Methods;

    /// Moves the value into a box.
    fn boxed(&mut self) -> Option<Box<dyn Task>>;

    /// Moves the value to an address.
    ///
    /// # Safety
    /// At the address there is memory for the value.
    unsafe fn move_to(&mut self, body: *mut u8);
}

/// A value that is dropped unless it is moved away.
struct Offered<'a, T> {
    task: &'a mut ManuallyDrop<T>,
    is_there: bool,
}

impl<T: Task> Offered<'_, T> {
    /// Takes the value; `None` if it was taken before.
    #[inline]
    fn take(&mut self) -> Option<T> {
        // SAFETY: the value is there, and is neither taken nor dropped again.
        std::mem::take(&mut self.is_there).then(|| unsafe { ManuallyDrop::take(self.task) })
    }
}

impl<T> Drop for Offered<'_, T> {
    fn drop(&mut self) {
        if self.is_there {
            // SAFETY: the value was not taken, and is not used after this.
            unsafe { ManuallyDrop::drop(self.task) }
        }
    }
}

impl<T: Task> Given for Offered<'_, T> {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        if self.is_there {
            self.task.attach(ports);
        }
    }

    fn methods(&self) -> &'static Methods {
        Methods::of::<T>()
    }

    fn boxed(&mut self) -> Option<Box<dyn Task>> {
        Some(Box::new(self.take()?))
    }

    unsafe fn move_to(&mut self, body: *mut u8) {
        debug_assert!(align_of::<T>() <= UNIT);
        if let Some(task) = self.take() {
            // SAFETY: guaranteed by the caller.
            unsafe { body.cast::<T>().write(task) }
        }
    }
}

/// Calls `give` with a value that can be moved to a cell.
pub(crate) fn give<R>(task: impl Task, give: impl FnOnce(&mut dyn Given) -> R) -> R {
    fn fits<T: Task>(_: &T) -> bool {
        align_of::<T>() <= UNIT
    }
    if fits(&task) {
        give(&mut Offered { task: &mut ManuallyDrop::new(task), is_there: true })
    } else {
        give(&mut Offered { task: &mut ManuallyDrop::new(Aligned(Box::new(task))), is_there: true })
    }
}

/// A value with a larger alignment than cells have.
struct Aligned<T>(Box<T>);

impl<T: Task> Task for Aligned<T> {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.0.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        self.0.run(cx)
    }

    fn passes_to(&mut self, next: HandedOn<'_>) -> Option<PassesTo<'_>> {
        self.0.passes_to(next)
    }

    fn work_on(&mut self, messages: HandedOn<'_>, progress: Progress<'_>) -> usize {
        self.0.work_on(messages, progress)
    }
}
