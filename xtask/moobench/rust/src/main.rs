//! MooBench's calls with the probes of rivals in Rust: `moobench-rivals MODE SECONDS METHOD_NS DEPTH THREADS
//! nano FILE`.

#[path = "../harness.rs"]
mod harness;

use fastrace::collector::{Config, Reporter, SpanRecord};
use fastrace::prelude::{Span, SpanContext};
use harness::busy;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Duration;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::prelude::*;

#[inline(never)]
#[tracing::instrument(name = "monitored", skip_all)]
fn by_tracing(time: Duration, depth: u32) -> u64 {
    if depth > 1 { by_tracing(time, depth - 1) + 1 } else { busy(time) }
}

#[inline(never)]
#[fastrace::trace(name = "monitored")]
fn inner_fastrace(time: Duration, depth: u32) -> u64 {
    if depth > 1 { inner_fastrace(time, depth - 1) + 1 } else { busy(time) }
}

/// A trace of fastrace has a root span; the calls are child spans in the thread of the root.
fn by_fastrace(time: Duration, depth: u32) -> u64 {
    let root = Span::root("trace", SpanContext::random());
    let _here = root.set_local_parent();
    inner_fastrace(time, depth)
}

#[inline(never)]
fn by_tracy(time: Duration, depth: u32) -> u64 {
    let _zone = tracy_client::span!("monitored", 0);
    if depth > 1 { by_tracy(time, depth - 1) + 1 } else { busy(time) }
}

/// A reporter that receives spans, and writes a line for each if there is a file.
struct Lines(Option<BufWriter<File>>);

impl Reporter for Lines {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        let Some(file) = &mut self.0 else { return };
        for span in spans {
            let (id, parent) = (span.span_id.0, span.parent_id.0);
            writeln!(
                file,
                "{:x};{id:x};{parent:x};{};{};{}",
                span.trace_id.0, span.name, span.begin_time_unix_ns, span.duration_ns
            )
            .expect("the disk has room");
        }
    }
}

fn file(name: &str) -> BufWriter<File> {
    BufWriter::new(File::create(name).expect("the folder can be written"))
}

fn main() {
    harness::run(|mode| match mode {
        "tracing-off" => by_tracing,
        "tracing-thalweg" => {
            thalweg_probe_tracing::init();
            by_tracing
        }
        "tracing-registry" => {
            // Spans are made and closed, but no layer records them.
            tracing_subscriber::registry().init();
            by_tracing
        }
        "tracing-lines" => {
            let file = std::sync::Mutex::new(file("lines"));
            tracing_subscriber::fmt()
                .with_span_events(FmtSpan::CLOSE)
                .with_writer(file)
                .with_ansi(false)
                .init();
            by_tracing
        }
        "fastrace-off" => inner_fastrace,
        "fastrace-nobody" => {
            fastrace::set_reporter(Lines(None), Config::default());
            by_fastrace
        }
        "fastrace-lines" => {
            fastrace::set_reporter(Lines(Some(file("lines"))), Config::default());
            by_fastrace
        }
        "tracy" => {
            tracy_client::Client::start();
            by_tracy
        }
        other => panic!("there is no mode `{other}`"),
    });
    fastrace::flush();
}
