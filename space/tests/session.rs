//! Tests of sessions: with many processes that end or are killed, and with a damaged manifest.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Counted, Directory, child, options};
use thalweg_space::reader::{Item, Session, SessionStream};
use thalweg_space::{Policy, Space, SpaceOptions, discover};

const PROCESSES: u64 = 12;
const EVENTS: u64 = 2_000;

fn joining(session: &Path) -> SpaceOptions {
    SpaceOptions {
        session: Some(session.into()),
        parent: None,
        ..options(session, 4096, 32, Policy::Overwrite)
    }
}

/// A process of the session: it writes, reports that it has written, and ends with its standard input, unless
/// it is killed before.
#[test]
#[ignore = "run by another test"]
fn member_process() {
    if std::env::var_os("THALWEG_SESSION").is_none() {
        return;
    }
    // The session is named by the environment, as `thalweg run` sets it.
    let space = Space::create(SpaceOptions { name: "member".into(), ..SpaceOptions::default() }).unwrap();
    let mut writer = space.writer("w").unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    for count in 0..EVENTS {
        writer.emit(counted, &Counted { count });
    }
    eprintln!("{} written", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    drop(writer);
    space.finish();
}

/// For each process, the number of its next event; the events read so far were in order of time.
#[derive(Default)]
struct Read {
    next: BTreeMap<u32, u64>,
}

impl Read {
    fn poll(&mut self, stream: &mut SessionStream) {
        let mut time = 0;
        let mut take = |member: &thalweg_space::reader::Member, item: Item<'_>| {
            let Item::Event(event) = item else { panic!("{item:?}") };
            let next = self.next.entry(member.pid).or_default();
            assert_eq!(event.u64(event.kind.field("count").unwrap()), *next, "of {}", member.pid);
            *next += 1;
            assert!(event.time >= time, "one poll is in the order of time");
            time = event.time;
        };
        while stream.poll(1000, &mut take).unwrap() > 0 {}
    }
}

#[test]
fn many_processes_in_a_session() {
    let directory = Directory::new("session");
    let session = directory.path().join("together");
    let variables = [("THALWEG_SESSION", session.to_str().unwrap().to_string())];
    let mut children: Vec<_> = (0..PROCESSES).map(|_| child::begin("member_process", &variables)).collect();
    let mut outputs: Vec<_> =
        children.iter_mut().map(|child| BufReader::new(child.stderr.take().unwrap()).lines()).collect();
    let has_written = |lines: &mut std::io::Lines<_>| {
        lines.any(|line: std::io::Result<String>| line.unwrap().ends_with(" written"))
    };
    assert!(has_written(&mut outputs[0]));
    let mut stream = Session::open(&session).unwrap().events();
    let mut read = Read::default();
    read.poll(&mut stream);
    assert!(outputs[1..].iter_mut().all(has_written));
    read.poll(&mut stream);
    assert_eq!(read.next.len() as u64, PROCESSES);
    assert!(read.next.values().all(|count| *count == EVENTS));

    // Every second process is killed.
    for (n, child) in children.iter_mut().enumerate() {
        if n % 2 == 0 {
            child.kill().unwrap();
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }
    let mut reader = Session::open(&session).unwrap();
    let members = reader.members().unwrap().to_vec();
    assert_eq!(members.len() as u64, PROCESSES);
    for member in &members {
        let n = children.iter().position(|child| child.id() == member.pid).unwrap();
        assert_eq!(member.left_ns.is_some(), n % 2 == 1, "{member:?}");
        assert!(!member.is_alive() && member.parent_pid == std::process::id());
        assert_eq!((member.architecture.as_str(), member.name.as_str()), (std::env::consts::ARCH, "member"));
        assert!(member.left_ns.is_none_or(|left| left > member.joined_ns));
        let info = reader.space(member).unwrap().info().unwrap();
        assert_eq!((info.uuid, info.pid, info.finished), (member.uuid, member.pid, n % 2 == 1));
    }
    let listed = discover::list(directory.path()).unwrap();
    assert!(listed.iter().all(|space| space.session.as_deref() == Some(&*session) && !space.alive));
    assert_eq!(discover::sessions(directory.path()).unwrap(), std::slice::from_ref(&session));
    let cleaned = discover::clean(directory.path(), false).unwrap();
    assert_eq!((cleaned.removed.len() as u64, cleaned.problems.len()), (PROCESSES + 1, 0), "{cleaned:?}");
    assert!(!session.exists());
}

#[test]
fn clean_leaves_a_session_with_a_living_process() {
    let directory = Directory::new("living");
    let session = directory.path().join("s");
    let space = Space::create(joining(&session)).unwrap();
    let other = Space::create(joining(&session)).unwrap();
    other.finish();
    // The next process cuts off the incomplete record of a process that was killed while writing.
    let bytes = std::fs::read(session.join("session")).unwrap();
    let manifest = std::fs::OpenOptions::new().append(true).open(session.join("session")).unwrap();
    std::io::Write::write_all(&mut &manifest, &bytes[64..64 + 100]).unwrap();
    let third = Space::create(joining(&session)).unwrap();
    let mut reader = Session::open(&session).unwrap();
    let left: Vec<bool> = reader.members().unwrap().iter().map(|member| member.left_ns.is_some()).collect();
    assert_eq!(left, [false, true, false]);
    let cleaned = discover::clean(directory.path(), true).unwrap();
    assert!(cleaned.removed.is_empty() && cleaned.problems.is_empty(), "{cleaned:?}");
    for space in [space, other, third] {
        let path = space.path().to_path_buf();
        drop(space);
        discover::remove(&path).unwrap();
    }
    let cleaned = discover::clean(directory.path(), true).unwrap();
    assert!(cleaned.removed.is_empty(), "its processes, this one, live: {cleaned:?}");
}

/// While processes join, another thread removes empty directories, and no process loses its directory.
#[test]
fn joining_while_others_clean() {
    let directory = Directory::new("joining");
    let session = directory.path().join("s");
    let over = AtomicBool::new(false);
    let join = || {
        let space = Space::create(joining(&session)).unwrap();
        assert!(space.path().join("space").exists());
        discover::remove(space.path()).unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                // `clean` may report spaces that are being made or removed as unreadable, so its result is
                // ignored.
                discover::clean(directory.path(), true).unwrap();
            }
        });
        let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..50 {
                std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(join))));
            }
        }));
        over.store(true, Ordering::Release);
        joined.unwrap();
    });
}

/// When two processes remove the same space, both succeed.
#[test]
fn two_remove_the_same_space() {
    let directory = Directory::new("twice");
    let session = directory.path().join("s");
    for _ in 0..300 {
        let space = Space::create(joining(&session)).unwrap();
        let together = Barrier::new(2);
        let remove = || {
            together.wait();
            discover::remove(space.path())
        };
        let removed = std::thread::scope(|scope| {
            [scope.spawn(remove), scope.spawn(remove)].map(|removing| removing.join().unwrap())
        });
        assert!(removed.iter().all(Result::is_ok), "{removed:?}");
        assert!(!space.path().exists());
    }
}

#[test]
fn a_damaged_manifest_is_reported() {
    let directory = Directory::new("manifest");
    let session = directory.path().join("s");
    let space = Space::create(joining(&session)).unwrap();
    space.finish();
    let path = session.join("session");
    let bytes = std::fs::read(&path).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let mut errors = 0;
    for (at, byte) in bytes.iter().enumerate() {
        file.write_all_at(&[byte ^ 0x81], at as u64).unwrap();
        let opened = Session::open(&session);
        errors += u32::from(opened.is_err());
        let polled = opened.map(|session| session.events().poll(10, &mut |_, _| {}));
        errors += u32::from(polled.is_ok_and(|polled| polled.is_err()));
        file.write_all_at(&[*byte], at as u64).unwrap();
    }
    // The file lacks the end of its header.
    assert!(errors as usize > bytes.len() - 56, "{errors} of {}", bytes.len());
    for length in (0..bytes.len()).rev() {
        file.set_len(length as u64).unwrap();
        let _ = Session::open(&session).map(|session| session.events().poll(10, &mut |_, _| {}));
    }
    assert!(Session::open(&session).is_err());
}

/// Paths in a manifest lead only into the session's directory.
#[test]
fn a_manifest_names_spaces_of_its_own_only() {
    let directory = Directory::new("elsewhere");
    let [mine, theirs] = ["a", "b"].map(|name| directory.path().join(name));
    let spaces = [&mine, &theirs].map(|session| Space::create(joining(session)).unwrap());
    let name: PathBuf = spaces[1].path().file_name().unwrap().into();
    // A space of that name exists, but it is not the space that joined the session.
    std::fs::copy(theirs.join("session"), mine.join("session")).unwrap();
    assert_eq!(mine.join(name), spaces[0].path());
    let error = Session::open(&mine).unwrap().events().poll(9, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("another space"), "{error}");
}

#[test]
fn a_session_is_chosen_by_path_or_name() {
    let directory = Directory::new("chosen");
    let named = SpaceOptions {
        session: Some("named".into()),
        ..options(directory.path(), 512, 2, Policy::Overwrite)
    };
    let space = Space::create(named.clone()).unwrap();
    assert_eq!(space.path().parent().unwrap(), directory.path().join("named"));
    let both = SpaceOptions { path: Some(directory.path().join("exact")), ..named };
    let error = Space::create(both).unwrap_err().to_string();
    assert!(error.contains("one of the two"), "{error}");
}

/// Polls that are not full end what was there at the first one, although the processes write as much as is read.
#[test]
fn polls_of_a_session_that_is_written_meanwhile_end() {
    let directory = Directory::new("meanwhile");
    let session = directory.path().join("s");
    let spaces = [(); 2].map(|()| Space::create(joining(&session)).unwrap());
    let mut writers = spaces.each_ref().map(|space| {
        let mut writer = space.writer("w").unwrap();
        let counted = writer.declare::<Counted>().unwrap();
        (writer, counted)
    });
    let mut write = |events: u64| {
        for (writer, counted) in &mut writers {
            (0..events).for_each(|count| writer.emit(*counted, &Counted { count }));
        }
    };
    write(103);
    let mut stream = Session::open(&session).unwrap().events();
    let mut polls = 0;
    while stream.poll(10, &mut |_, _| {}).unwrap() == 10 {
        // Each space gets as many events as the poll may hand over.
        write(10);
        polls += 1;
        assert!(polls < 100, "more and more events are found");
    }
    assert!(polls >= 20, "the events of the first look: {polls} polls");
}
