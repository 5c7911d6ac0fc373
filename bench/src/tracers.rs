//! Rivals of group `event`: other tracers that record the same event.

use crate::cores::on_cores;
use crate::measure::{Contestant, repeated};
use std::cell::RefCell;
use std::hint::black_box;
use std::io;
use thalweg_space::Clock;
use tracing_subscriber::layer::SubscriberExt;

/// The number of events in a sample of tracers that keep all events in memory, or take a microsecond for one.
const FEW: u64 = 20_000;

/// Calls `work` a fixed number of times for each sample; the figure is nanoseconds a call.
fn few(
    name: &'static str,
    version: &'static str,
    mut work: impl FnMut(u64) + 'static,
) -> Contestant<'static> {
    Contestant::new(name, version, move || {
        let took = on_cores(1, || repeated(FEW, &mut work));
        Ok(took.as_secs_f64() * 1e9 / FEW as f64)
    })
}

pub(crate) fn quanta_clock() -> Contestant<'static> {
    let clock = quanta::Clock::new();
    Contestant::nanoseconds("quanta, its clock alone", env!("VERSION_quanta"), 1, move |count| {
        let mut sum = 0;
        let took = on_cores(1, || repeated(count, |_| sum ^= clock.raw()));
        black_box(sum);
        Ok(took)
    })
}

pub(crate) fn fastrace_span() -> Contestant<'static> {
    use fastrace::local::LocalSpan;
    use fastrace::prelude::{Span, SpanContext};
    let name = "fastrace span, not reported";
    Contestant::nanoseconds(name, env!("VERSION_fastrace"), 1, |count| {
        // A parent can hold only some ten thousand spans, so spans are collected in groups; the collection is
        // part of the measured time.
        let group = 1_000;
        Ok(on_cores(1, || {
            repeated(count / group, |_| {
                let root = Span::root("root", SpanContext::random());
                let guard = root.set_local_parent();
                for _ in 0..group {
                    drop(black_box(LocalSpan::enter_with_local_parent("bench")));
                }
                drop(guard);
                root.cancel();
            })
        }))
    })
}

/// A zone consists of two events. The client keeps all events if no profiler is connected.
pub(crate) fn tracy_zone() -> Contestant<'static> {
    let mut client = None;
    few("Tracy zone, no profiler", env!("VERSION_tracy-client"), move |_| {
        client.get_or_insert_with(tracy_client::Client::start);
        drop(black_box(tracy_client::span!("bench", 0)));
    })
}

pub(crate) fn tracing_event() -> Contestant<'static> {
    let name = "tracing, a subscriber that stores time and number";
    Contestant::nanoseconds(name, env!("VERSION_tracing"), 1, |count| {
        let dispatch = tracing::Dispatch::new(Storing(Clock::new()));
        Ok(on_cores(1, || {
            let work = || repeated(count, |number| tracing::trace!(number));
            tracing::dispatcher::with_default(&dispatch, work)
        }))
    })
}

/// Formats a line of text, which is discarded.
pub(crate) fn tracing_fmt() -> Contestant<'static> {
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(io::sink).finish();
    let dispatch = tracing::Dispatch::new(subscriber);
    few("tracing, fmt to nowhere", env!("VERSION_tracing-subscriber"), move |number| {
        tracing::dispatcher::with_default(&dispatch, || tracing::trace!(number));
    })
}

/// Writes JSON in a separate thread; the output is discarded.
pub(crate) fn tracing_chrome() -> Contestant<'static> {
    let (layer, guard) =
        tracing_chrome::ChromeLayerBuilder::new().writer(io::sink()).include_args(true).build();
    let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
    few("tracing, chrome to nowhere", env!("VERSION_tracing-chrome"), move |number| {
        let _ = &guard;
        tracing::dispatcher::with_default(&dispatch, || tracing::trace!(number));
    })
}

thread_local! {
    static STORED: RefCell<(usize, Vec<[u64; 2]>)> = RefCell::new((0, vec![[0; 2]; 1 << 16]));
}

/// A minimal subscriber of `tracing` that records the contents of Thalweg's event.
struct Storing(Clock);

impl tracing::Subscriber for Storing {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut number = Number(0);
        event.record(&mut number);
        STORED.with_borrow_mut(|(at, ring)| {
            ring[*at & 0xffff] = [self.0.now(), number.0];
            *at += 1;
        });
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

struct Number(u64);

impl tracing::field::Visit for Number {
    fn record_u64(&mut self, _: &tracing::field::Field, value: u64) {
        self.0 = value;
    }
    fn record_debug(&mut self, _: &tracing::field::Field, _: &dyn std::fmt::Debug) {}
}
