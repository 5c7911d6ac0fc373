//! Checks that spans of `tracing` become calls of the same nesting, that events become log lines, and that a
//! span entered in another thread continues its trace.

use std::collections::BTreeMap;
use std::future::Future as _;
use std::task::{Context, Poll, Waker};
use thalweg_space::reader::{Item, SpaceReader};

#[tracing::instrument]
fn outer(times: u32) {
    for n in 0..times {
        inner(n);
    }
    tracing::warn!(times, "done");
}

#[tracing::instrument]
fn inner(n: u32) {
    let _ = n;
}

/// A function that is polled three times.
#[tracing::instrument]
async fn pausing() {
    for _ in 0..2 {
        inner(7);
        let mut is_first = true;
        std::future::poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) })
            .await;
    }
}

#[test]
fn spans_become_calls() {
    let parent = std::env::temp_dir().join(format!("thalweg-tracing-{}", std::process::id()));
    #[allow(unsafe_code)]
    // SAFETY: this is the only test of this program, and no thread reads the environment yet.
    unsafe {
        std::env::set_var("THALWEG_SPACES", &parent);
    }
    assert!(thalweg_probe_tracing::init());
    assert!(!thalweg_probe_tracing::init(), "a program has one subscriber");
    outer(3);
    let span = tracing::info_span!("here").in_scope(|| tracing::info_span!("elsewhere"));
    std::thread::spawn(move || span.in_scope(|| ())).join().unwrap();
    let mut future = Box::pin(pausing());
    while future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
    // Its span is entered once more while the future is dropped.
    drop(future);
    let path = std::fs::read_dir(&parent).unwrap().next().unwrap().unwrap().path();
    let reader = SpaceReader::open(path).unwrap();
    let names: BTreeMap<u64, String> =
        reader.sites().unwrap().into_iter().map(|site| (site.id.0, site.name)).collect();
    let mut resumed = Vec::new();
    let (mut calls, mut lines, mut handed, mut taken) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    reader
        .events()
        .poll(usize::MAX, &mut |item| {
            let Item::Event(event) = item else { panic!("a gap") };
            let number = |name: &str| event.u64(event.kind.field(name).unwrap());
            match event.kind.name.as_str() {
                "probe.resumed" => resumed.push((names[&number("operation")].clone(), number("depth"))),
                "probe.called" => calls.push((names[&number("operation")].clone(), number("depth"))),
                "probe.logged" => {
                    lines.push((number("level"), event.str(event.kind.field("text").unwrap()).into_owned()))
                }
                "probe.handed_over" => handed.push(number("span")),
                "probe.taken_over" => taken.push(number("span")),
                other => panic!("{other}"),
            }
        })
        .unwrap();
    let call = |name: &str, depth: u64| (format!("spans::{name}"), depth);
    let wanted = [
        call("inner", 1),
        call("inner", 1),
        call("inner", 1),
        call("outer", 0),
        call("here", 0),
        call("elsewhere", 0),
        call("inner", 1),
        call("pausing", 0),
        call("inner", 1),
    ];
    assert_eq!(calls, wanted);
    assert_eq!(resumed, vec![call("pausing", 0); 3]);
    assert_eq!(lines, [(2, "done times=3".to_owned())]);
    assert_eq!(taken.len(), 1);
    assert!(handed.contains(&taken[0]));
    std::fs::remove_dir_all(parent).unwrap();
}
