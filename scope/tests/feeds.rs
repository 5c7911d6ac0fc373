//! Tests scopes as feeds, by which monitors and commands read events.

use std::path::Path;
use thalweg_scope::{Leaf, ScopeFeed, Target};
use thalweg_space::reader::{Feed, Item, PathFeed};
use thalweg_space::{Kind, Space, SpaceOptions};

#[derive(Kind)]
#[kind(name = "test.step")]
struct Step {
    number: u64,
}

#[derive(Kind)]
#[kind(name = "test.pause")]
struct Pause {
    number: u64,
}

/// A process with two writers, each of which records steps and pauses.
fn process(name: &str, parent: Option<&Path>, session: Option<&Path>) -> Space {
    let space = Space::create(SpaceOptions {
        name: name.to_owned(),
        parent: parent.map(Path::to_path_buf),
        session: session.map(Path::to_path_buf),
        ..Default::default()
    })
    .unwrap();
    // Both writers exist at the same time, so each has an element of its own.
    let writers = ["worker 1", "source"].map(|name| space.writer(name).unwrap());
    for mut writer in writers {
        let (step, pause) = (writer.declare::<Step>().unwrap(), writer.declare::<Pause>().unwrap());
        for number in 0..50 {
            writer.emit(step, &Step { number });
            writer.emit(pause, &Pause { number });
        }
    }
    space
}

/// The events that a feed hands over: index of the space, writer, kind and number.
fn all(feed: &mut impl Feed) -> Vec<(usize, u32, String, u64)> {
    let mut seen = Vec::new();
    let mut take = |place: usize, item: Item<'_>| {
        if let Item::Event(event) = item {
            let number = event.u64(event.kind.field("number").unwrap());
            seen.push((place, event.writer, event.kind.name.clone(), number));
        }
    };
    while feed.poll(7, &mut take).unwrap() > 0 {}
    seen
}

#[test]
fn a_scope_of_everything_is_what_the_space_or_session_has() {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("session");
    let spaces = [process("a", None, Some(&session)), process("b", None, Some(&session))];
    for (path, count) in [(session.as_path(), 400), (spaces[0].path(), 200)] {
        let mut feed = ScopeFeed::of(path).unwrap();
        let expected = all(&mut PathFeed::open(path).unwrap());
        assert_eq!(expected.len(), count);
        assert_eq!(all(&mut feed), expected);
        assert_eq!(all(&mut feed.again().unwrap()), expected);
        assert_eq!(feed.is_single(), count == 200);
    }
}

#[test]
fn a_leaf_chooses_processes_elements_and_kinds() {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("session");
    let _spaces = [process("left", None, Some(&session)), process("right", None, Some(&session))];
    let leaf = Leaf::of_kinds(["*.step"]).element("worker *").process("r*");
    let mut feed = ScopeFeed::open(Target::of(&session), leaf).unwrap();
    let seen = all(&mut feed);
    assert_eq!(feed.spaces().len(), 2);
    let expected: Vec<_> = (0..50).map(|number| (1, 1, "test.step".to_owned(), number)).collect();
    assert_eq!(seen, expected);
    let leaf = Leaf::default().element("source");
    let seen = all(&mut ScopeFeed::open(Target::of(&session), leaf).unwrap());
    assert!(seen.len() == 200 && seen.iter().all(|(_, writer, ..)| *writer == 2), "{}", seen.len());
}

#[test]
fn all_processes_of_a_machine_join_as_they_begin() {
    let folder = tempfile::tempdir().unwrap();
    let first = process("first", Some(folder.path()), None);
    let leaf = Leaf::of_kinds(["test.pause"]);
    let mut feed = ScopeFeed::open(Target::All(folder.path().to_path_buf()), leaf).unwrap();
    feed.look().unwrap();
    assert_eq!(all(&mut feed).len(), 100);
    // Directories are listed ten times a second at most.
    std::thread::sleep(std::time::Duration::from_millis(150));
    let second = process("second", Some(folder.path()), None);
    feed.look().unwrap();
    let seen = all(&mut feed);
    assert!(seen.len() == 100 && seen.iter().all(|(place, ..)| *place == 1), "{}", seen.len());
    assert!(feed.is_open() && !feed.is_single());
    drop((first, second));
}

#[test]
fn what_only_views_can_do_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let space = process("one", Some(folder.path()), None);
    for leaf in [Leaf::of_rows(["**"]), Leaf::default().component("a"), Leaf::default().when("number > 1")] {
        let refused = ScopeFeed::open(Target::of(space.path()), leaf).unwrap_err().to_string();
        assert!(refused.contains("as they are"), "{refused}");
    }
    assert!(ScopeFeed::of("/nowhere/at/all").is_err());
}
