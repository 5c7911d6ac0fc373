//! Programs that use `tracing` need one line to record their spans as calls and their events as log lines;
//! `thalweg calls` shows the call graph.
//!
//! ```no_run
//! thalweg_probe_tracing::init();
//! ```
//!
//! A program with other layers uses `registry().with(thalweg_probe_tracing::layer())`. Each time from the
//! entry of a span to its exit is a call of the operation `target::name`; spans entered within it in the same
//! thread are its callees. A span that is entered several times, as the span of an `async` function is at each
//! poll, is one call; its time is the sum of these stretches. A span that was made in a call of one thread,
//! and is first entered by another thread, counts as handed over. Each call site is an operation,
//! which can be switched like any other: `thalweg set 'probe/shop::*.on' 0`.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{LazyLock, PoisonError, RwLock};
use thalweg_probe::{Call, Handed, Level, Operation, hand_over, log};
use tracing_core::callsite::Identifier;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id};
use tracing_core::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Records spans as calls. See the [crate](self).
#[derive(Debug)]
pub struct Probes(());

/// The layer, for a program that composes its own subscriber.
pub fn layer() -> Probes {
    Probes(())
}

/// Installs the layer as the program's subscriber; returns `false` if the program already has another one,
/// which stays.
pub fn init() -> bool {
    let subscriber = tracing_subscriber::registry().with(layer());
    tracing_core::dispatcher::set_global_default(subscriber.into()).is_ok()
}

/// The operations of the call sites met so far. Operations are never dropped, because call sites live as long
/// as the program.
static OPERATIONS: LazyLock<RwLock<HashMap<Identifier, &'static Operation>>> = LazyLock::new(RwLock::default);

thread_local! {
    /// A copy of the known operations for each thread, which needs no lock.
    static KNOWN: RefCell<HashMap<Identifier, &'static Operation>> = RefCell::default();
    /// The spans that were entered and not left, with their calls.
    static ENTERED: RefCell<Vec<(u64, Call)>> = const { RefCell::new(Vec::new()) };
}

/// The operation of a call site, created at its first span or event.
fn operation(metadata: &'static Metadata<'static>) -> &'static Operation {
    let site = metadata.callsite();
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&site).copied()) {
        return known;
    }
    let mut operations = OPERATIONS.write().unwrap_or_else(PoisonError::into_inner);
    let operation = *operations.entry(site.clone()).or_insert_with(|| {
        let name: &'static str = format!("{}::{}", metadata.target(), metadata.name()).leak();
        let (name, kind) = if metadata.is_span() { (name, "operation") } else { (metadata.target(), "log") };
        let (file, line) = (metadata.file().unwrap_or(""), metadata.line().unwrap_or(0));
        Box::leak(Box::new(Operation::of_kind(name, kind, file, line)))
    });
    drop(operations);
    KNOWN.with_borrow_mut(|known| known.insert(site, operation));
    operation
}

/// The thread in which a span was created, because another thread may enter it.
struct MadeIn {
    thread: std::thread::ThreadId,
    handed: Handed,
}

/// Marks a span that was entered: a later entry resumes the span's call.
struct Begun;

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Probes {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        // A span can only be handed over if it is created within a call.
        if ENTERED.with_borrow(Vec::is_empty) {
            return;
        }
        if let Some(span) = context.span(id) {
            let made_in = MadeIn { thread: std::thread::current().id(), handed: hand_over() };
            span.extensions_mut().insert(made_in);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if ENTERED.with_borrow(Vec::is_empty) {
            let here = std::thread::current().id();
            if let Some(made_in) = span.extensions().get::<MadeIn>().filter(|made_in| made_in.thread != here)
            {
                made_in.handed.take_over();
            }
        }
        let is_resumed = span.extensions_mut().replace(Begun).is_some();
        let operation = operation(span.metadata());
        let call = if is_resumed { operation.resume() } else { operation.enter() };
        ENTERED.with_borrow_mut(|entered| entered.push((id.into_u64(), call)));
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        let left = ENTERED.with_borrow_mut(|entered| {
            let at = entered.iter().rposition(|(of, _)| *of == id.into_u64())?;
            // Spans need not be left in the reverse order of entry: the calls of inner spans end here as
            // well.
            Some(entered.split_off(at))
        });
        if let Some(mut left) = left {
            while left.pop().is_some() {}
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut text = Text(String::new());
        event.record(&mut text);
        let level = match *metadata.level() {
            tracing_core::Level::ERROR => Level::Error,
            tracing_core::Level::WARN => Level::Warning,
            tracing_core::Level::INFO => Level::Info,
            tracing_core::Level::DEBUG => Level::Debug,
            tracing_core::Level::TRACE => Level::Trace,
        };
        log(Some(operation(metadata)), level, &text.0);
    }
}

/// An event's message and fields, as one line.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, "{name}={value:?}"),
        };
    }
}
