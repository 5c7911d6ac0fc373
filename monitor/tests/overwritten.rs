//! Tests that a report on a window counts the events of the window that were overwritten.

use thalweg_monitor::{Follower, Window};
use thalweg_space::{ElementOptions, Kind, Space, SpaceOptions};

#[derive(Kind)]
#[kind(name = "test.step")]
struct Step {
    number: u64,
}

/// The number of events of the busy writer, one a millisecond.
const EVENTS: u64 = 4000;

/// Measures windows of a space; `of` has the begin and the end of each window, in milliseconds. The space has a
/// busy writer, which overwrites its first events, and an idle writer, which overwrites none.
fn windows<const N: usize>(name: &str, of: [(u64, u64); N]) -> [Window; N] {
    let path = std::env::temp_dir().join(format!("thalweg-overwritten-{name}-{}", std::process::id()));
    let element = ElementOptions { block_bytes: 4096, block_count: 4, ..ElementOptions::default() };
    let options = SpaceOptions { path: Some(path.clone()), element, ..SpaceOptions::default() };
    let space = Space::create(options).unwrap();
    let (mut busy, mut idle) = (space.writer("busy").unwrap(), space.writer("idle").unwrap());
    let (in_busy, in_idle) = (busy.declare().unwrap(), idle.declare().unwrap());
    let clock = space.clock();
    for number in 0..EVENTS {
        let time = clock.anchor().ticks + clock.ns_to_ticks(number * 1_000_000);
        busy.emit_at(time, in_busy, &Step { number });
        if number % 100 == 50 {
            idle.emit_at(time, in_idle, &Step { number });
        }
    }
    let measured = of.map(|(from, to)| {
        let mut follower = Follower::open(&path, 1).unwrap();
        follower.between(from * 1_000_000, to * 1_000_000).unwrap();
        follower.poll();
        let report = follower.finish().unwrap();
        let says_nothing_ran = report.notes.iter().any(|note| note.text.contains("nothing ran"));
        assert!(!says_nothing_ran || report.window.lost == 0, "{:?}", report.notes);
        report.window
    });
    drop((busy, idle, space));
    std::fs::remove_dir_all(path).unwrap();
    measured
}

#[test]
fn overwritten_events_of_a_window_are_lost() {
    let [none_left, some_left, all_left] = windows("lost", [(0, 40), (100, EVENTS), (EVENTS - 20, EVENTS)]);
    assert_eq!(none_left.events, 0, "{none_left:?}");
    assert!(none_left.lost > 2000 && none_left.gaps == 1 && !none_left.complete, "{none_left:?}");
    assert!(some_left.events > 40, "{some_left:?}");
    assert!(some_left.lost > 2000 && some_left.gaps == 1 && !some_left.complete, "{some_left:?}");
    // The times of events at the edges are rounded to ticks.
    assert!((19..=21).contains(&all_left.events), "{all_left:?}");
    assert_eq!((all_left.lost, all_left.gaps), (0, 0), "{all_left:?}");
}
