//! Everything that a killed writer had committed is read, and the child of a fork cannot write into its
//! parent's ring.

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use support::{Counted, Directory, Seen, read_events, skip, space, totals};
use thalweg_space::reader::SpaceReader;
use thalweg_space::{ElementOptions, Policy, SettingSpec, Space, SpaceOptions, discover};

const ROUNDS: u64 = 40;

/// The process that is killed, which the tests below start with the directory in its environment.
///
/// The process acknowledges each event in a live row after committing it, so all events up to the row's count
/// must be readable.
#[test]
#[ignore = "run by the other tests"]
fn writer_process() {
    let Some(parent) = std::env::var_os("THALWEG_TEST_PARENT") else { return };
    let element = ElementOptions { block_bytes: 4096, block_count: 4, policy: Policy::Overwrite };
    let options =
        SpaceOptions { name: "crash".into(), parent: Some(parent.into()), element, ..Default::default() };
    let space = Space::create(options).unwrap();
    let row = space.live_row(support::thing(&space), 1).unwrap();
    let mut writer = space.writer("w").unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    eprintln!("{}", space.path().display());
    for count in 0.. {
        if count % 3 == 0 {
            writer.emit_same_time(counted, &Counted { count });
        } else {
            writer.emit(counted, &Counted { count });
        }
        row.cell(0).store(count + 1, Ordering::Release);
    }
}

#[test]
fn kill_9_loses_nothing_committed() {
    let directory = Directory::new("kill");
    let mut state = std::process::id() as u64;
    let mut acknowledged_in_all = 0;
    for _ in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["writer_process", "--ignored", "--exact", "--nocapture"])
            .env("THALWEG_TEST_PARENT", directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let path =
            lines.find_map(|line| line.ok().filter(|l| l.starts_with('/'))).expect("the child says where");
        let reader = SpaceReader::open(&path).unwrap();
        assert!(reader.is_alive());
        // The time of the kill is random.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let enough = (state >> 33) % 100_000;
        while reader.live_rows().unwrap()[0].cells[0] < enough {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!reader.is_alive());
        acknowledged_in_all += check_killed(Path::new(&path), &reader);
    }
    assert!(acknowledged_in_all > ROUNDS * 100, "{acknowledged_in_all}");
    let cleaned = discover::clean(directory.path(), false).unwrap();
    assert_eq!(cleaned.removed.len() as u64, ROUNDS);
    assert!(discover::list(directory.path()).unwrap().is_empty());
}

fn check_killed(path: &Path, reader: &SpaceReader) -> u64 {
    let acknowledged = reader.live_rows().unwrap()[0].cells[0];
    let (seen, problem) = read_events(path);
    assert!(problem.is_none(), "{problem:?}");
    let (events, lost) = totals(&seen);
    let total = events + lost;
    // The last event may have been committed but not acknowledged.
    assert!((acknowledged..=acknowledged + 1).contains(&total), "{acknowledged} {total}");
    // A ring of 4 blocks holds at least 3 full ones, so events can only be lost if the ring has overwritten
    // them.
    assert!(lost == 0 || events >= 3 * (4096 - 32) / 16 - 3, "{events} {lost}");
    let mut next = lost;
    for item in &seen {
        if let Seen::Event { sequence, fields, .. } = item {
            assert_eq!((*sequence, fields[0].as_str()), (next, next.to_string().as_str()));
            next += 1;
        }
    }
    acknowledged
}

#[test]
fn a_fork_does_not_write_into_the_parents_ring() {
    let directory = Directory::new("fork");
    let space = space(&directory, 512, 4, Policy::Wait { timeout: Duration::from_secs(3600) });
    let mut writer = space.writer("w").unwrap();
    let counted = writer.declare::<Counted>().unwrap();
    let spec = SettingSpec { name: "s", max: 9, default: 3, ..SettingSpec::PLAIN };
    let setting = space.setting(spec).unwrap();
    let thing = support::thing(&space);
    let row = space.live_row(thing, 1).unwrap();
    writer.emit(counted, &Counted { count: 0 });
    // SAFETY: the child calls no function that could wait for a lock of another thread, and ends with
    // `_exit`.
    #[allow(unsafe_code)]
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: `alarm` has no precondition. If the child waits for ever, the alarm ends it, and the test
        // fails.
        #[allow(unsafe_code)]
        unsafe {
            libc::alarm(20);
        }
        // The child emits more events than the ring holds, so that blocks roll; it must neither write nor
        // wait.
        for count in 100..1000 {
            writer.emit(counted, &Counted { count });
        }
        row.cell(0).store(99, Ordering::Relaxed);
        let refused = space.writer("w2").is_err() && space.live_row(thing, 2).is_err();
        let good = refused && setting.load() == 3;
        // SAFETY: `_exit` has no precondition; it ends the child without running code of other threads.
        #[allow(unsafe_code)]
        unsafe {
            libc::_exit(if good { 0 } else { 1 })
        }
    }
    let mut status = 0;
    // SAFETY: `status` is a valid reference, and the process is a child of this one.
    #[allow(unsafe_code)]
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    writer.emit(counted, &Counted { count: 1 });
    let counts = |path: &Path| {
        let seen = read_events(path).0;
        seen.into_iter().map(|s| match s {
            Seen::Event { fields, .. } => fields[0].clone(),
            gap => panic!("{gap:?}"),
        })
    };
    assert_eq!(counts(space.path()).collect::<Vec<_>>(), ["0", "1"]);
    assert_eq!(SpaceReader::open(space.path()).unwrap().live_rows().unwrap()[0].cells[0], 0);
    assert_eq!(row.cell(0).load(Ordering::Relaxed), 0);
}

#[test]
fn clean_leaves_live_kept_and_foreign_ones() {
    let directory = Directory::new("clean");
    let space = |name: &str, keep| {
        let parent = Some(directory.path().into());
        Space::create(SpaceOptions { name: name.into(), parent, keep, ..Default::default() }).unwrap()
    };
    let (live, dead, kept, foreign) =
        (space("live", false), space("dead", false), space("kept", true), space("foreign", false));
    // The process counts as dead, because the live process with that pid started at another time.
    for space in [&dead, &kept, &foreign] {
        change(&space.path().join("space"), thalweg_space::layout::identity::PROCESS_START, &[1]);
    }
    change(&foreign.path().join("space"), thalweg_space::layout::identity::HOST + 8, b"elsewhere");
    std::fs::create_dir(directory.path().join("something else")).unwrap();
    std::fs::create_dir(directory.path().join("damaged")).unwrap();
    std::fs::write(directory.path().join("damaged/space"), "").unwrap();
    let half_made = |name: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("space.new"), "").unwrap();
        path
    };
    let (abandoned, being_made) = (half_made("abandoned"), half_made("being made"));
    let making = std::fs::File::open(&being_made).unwrap();
    making.lock().unwrap();
    let alive: Vec<bool> = discover::list(directory.path()).unwrap().iter().map(|l| l.alive).collect();
    assert_eq!(alive, [false, false, false, false, false, false, true]);
    let error = SpaceReader::open(&being_made).unwrap_err().to_string();
    assert!(error.contains("is still being made"), "{error}");
    let cleaned = discover::clean(directory.path(), false).unwrap();
    assert_eq!(cleaned.removed, [abandoned.as_path(), dead.path()]);
    assert_eq!(cleaned.kept, [kept.path()]);
    assert_eq!(cleaned.problems.len(), 3);
    assert!(live.path().exists() && foreign.path().exists());
    std::fs::write(kept.path().join("a report.txt"), "precious").unwrap();
    let cleaned = discover::clean(directory.path(), true).unwrap();
    assert!(cleaned.removed.is_empty());
    assert!(kept.path().join("a report.txt").exists(), "only a space's own files are removed");
}

/// A small file system, if the test may mount one (as root).
struct SmallDisk(Directory);

impl SmallDisk {
    fn mount(kilobytes: u32) -> Option<SmallDisk> {
        let directory = Directory::new("small");
        let target = std::ffi::CString::new(directory.path().to_str().unwrap()).unwrap();
        let options = std::ffi::CString::new(format!("size={kilobytes}k")).unwrap();
        // SAFETY: all texts end with a zero and live as long as the call.
        #[allow(unsafe_code)]
        let failed = unsafe {
            libc::mount(c"none".as_ptr(), target.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast())
        };
        (failed == 0).then_some(SmallDisk(directory))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let target = std::ffi::CString::new(self.0.path().to_str().unwrap()).unwrap();
        // SAFETY: the text ends with a zero and lives as long as the call.
        #[allow(unsafe_code)]
        unsafe {
            libc::umount2(target.as_ptr(), libc::MNT_DETACH)
        };
    }
}

/// On a full disk making a writer fails with an error, existing writers keep working, and no access raises
/// `SIGBUS`.
#[test]
fn a_full_disk_is_an_error_and_no_signal() {
    let Some(disk) = SmallDisk::mount(400) else {
        return skip("mounting a small file system needs root");
    };
    let space = space(&disk.0, 16 << 10, 4, Policy::Overwrite);
    let thing = support::thing(&space);
    let mut writers = Vec::new();
    let error = loop {
        match space.writer("w") {
            Ok(writer) => writers.push(writer),
            Err(error) => break format!("{error:#}"),
        }
        assert!(writers.len() < 10);
    };
    assert!(error.contains("full") && error.contains("thalweg clean"), "{error}");
    assert!(!writers.is_empty());
    let kinds: Vec<_> = writers.iter_mut().map(|w| w.declare::<Counted>()).collect();
    for (writer, kind) in writers.iter_mut().zip(kinds) {
        // A full disk may also make the declaration of a kind fail with an error.
        let Ok(kind) = kind else { continue };
        for count in 0..20_000 {
            writer.emit(kind, &Counted { count });
        }
    }
    let full = loop {
        if let Err(error) = space.live_row(thing, 1).map(std::mem::forget) {
            break format!("{error:#}");
        }
    };
    assert!(full.contains("full"), "{full}");
    let (seen, problem) = read_events(space.path());
    assert!(problem.is_none(), "{problem:?}");
    assert!(totals(&seen).0 > 1000);
    // An archive is small, so the disk must have less than one free page.
    let mut filler = std::fs::File::create(space.path().join("filler")).unwrap();
    while std::io::Write::write_all(&mut filler, &[1; 64]).is_ok() {}
    let mut archiver = thalweg_space::archive::Archiver::open(space.path());
    let archived =
        archiver.as_mut().map_err(|e| format!("{e:#}")).and_then(|a| a.step().map_err(|e| format!("{e:#}")));
    assert!(archived.unwrap_err().contains("full"));
}

/// Events that could not be archived on a full disk are archived when it has space again: none is lost,
/// however often the archiver tried.
#[test]
fn an_archive_goes_on_without_a_hole_when_a_full_disk_has_room_again() {
    let Some(disk) = SmallDisk::mount(600) else {
        return skip("mounting a small file system needs root");
    };
    let space = space(&disk.0, 4 << 10, 4, Policy::Wait { timeout: Duration::MAX });
    let mut writer = space.writer("w").unwrap();
    let kind = writer.declare::<Counted>().unwrap();
    let mut archiver = thalweg_space::archive::Archiver::open(space.path()).unwrap();
    let filler = disk.0.path().join("filler");
    let fill = || {
        let mut file = std::fs::File::options().append(true).create(true).open(&filler).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 512]).is_ok() {}
    };
    let (mut count, mut full) = (0, 0);
    while full < 5 {
        // The ring has room for these events, so this thread, which is also the archiver, does not wait for
        // itself.
        for _ in 0..100 {
            writer.emit(kind, &Counted { count });
            count += 1;
        }
        fill();
        match archiver.step() {
            Err(error) => {
                assert!(error.is_full(), "{error}");
                // The kernel counts the free pages of a small file system separately on each processor, so a
                // page may turn out to be free.
                let again = archiver.step();
                assert!(again.is_ok() || again.unwrap_err().is_full());
                assert_eq!(archiver.dropped().unwrap(), 0);
                full += 1;
                std::fs::remove_file(&filler).unwrap();
                let begun = std::time::Instant::now();
                while let Err(error) = archiver.step() {
                    assert!(error.is_full() && begun.elapsed() < Duration::from_secs(10), "{error}");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            // The archiver succeeds if the block fits into disk space that the archive already has.
            Ok(_) => std::fs::remove_file(&filler).unwrap(),
        }
    }
    // A writer without a consumer does not wait for a free block, but drops and counts events.
    archiver.let_go().unwrap();
    for _ in 0..10_000 {
        writer.emit(kind, &Counted { count });
        count += 1;
    }
    let dropped = archiver.dropped().unwrap();
    assert!(dropped > 0);
    archiver.hold().unwrap();
    drop(writer);
    archiver.finish().unwrap();
    let (seen, problem) = read_events(space.path());
    assert!(problem.is_none(), "{problem:?}");
    assert_eq!(totals(&seen), (count - dropped, dropped));
}

fn change(path: &Path, at: usize, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, at as u64).unwrap();
}

/// The list of maps to wipe stays correct while many spaces are made and dropped at once, with forks in
/// between.
#[test]
fn maps_come_and_go_while_others_fork() {
    let directory = Directory::new("many");
    let made = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..30 {
                    let space = space(&directory, 512, 2, Policy::Overwrite);
                    let mut writer = space.writer("w").unwrap();
                    let counted = writer.declare::<Counted>().unwrap();
                    writer.emit(counted, &Counted { count: 1 });
                    assert_eq!(read_events(space.path()).0.len(), 1);
                    made.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..20 {
            // SAFETY: the child calls only `_exit`, which takes no lock and ends the child at once.
            #[allow(unsafe_code)]
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::_exit(0);
                }
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
        }
    });
    assert_eq!(made.load(Ordering::Relaxed), 90);
}
