//! Tests that a place where a space cannot be made or read leads to an error that names the place and the
//! reason. Each test runs in a process of its own, which drops its privileges or changes its mounts; if that
//! is not permitted, the test is skipped.

mod support;

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use support::{Directory, child, options, read_events, skip, space};
use thalweg_space::archive::Archiver;
use thalweg_space::reader::SpaceReader;
use thalweg_space::{Policy, SettingSpec, Space, SpaceOptions, default_parent, discover};

/// The user id of `nobody`; the next constant is the id of a user that is neither `nobody` nor root.
const NOBODY: u32 = 65_534;
const SOMEBODY: u32 = 54_321;

fn is_root() -> bool {
    // SAFETY: `geteuid` has no precondition.
    #[allow(unsafe_code)]
    let user = unsafe { libc::geteuid() };
    if user != 0 {
        skip("only root can become another user or mount");
    }
    user == 0
}

fn become_nobody() {
    // SAFETY: the calls have no precondition, and no other thread of the process uses its user ids.
    #[allow(unsafe_code)]
    let done = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0 && libc::setgid(NOBODY) == 0 && libc::setuid(NOBODY) == 0
    };
    assert!(done, "{}", std::io::Error::last_os_error());
}

fn make(parent: &Path) -> Result<Space, thalweg_space::Error> {
    Space::create(options(parent, 512, 2, Policy::Overwrite))
}

fn check_error(error: &thalweg_space::Error, path: &Path, what: &str) {
    let error = format!("{error:#}");
    assert!(error.contains(path.to_str().unwrap()) && error.contains(what), "{error}");
}

#[test]
fn places_of_other_users_are_refused() {
    if !is_root() {
        return;
    }
    let directory = Directory::new("users");
    let made = |name: &str, owner: u32, mode: u32| {
        let path = directory.path().join(name);
        std::fs::create_dir(&path).unwrap();
        chown(&path, Some(owner), Some(owner)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    made("roots", 0, 0o755);
    made("somebodys", SOMEBODY, 0o777);
    made("mine", NOBODY, 0o700);
    made("sealed", NOBODY, 0o500);
    let space = space(&directory, 512, 2, Policy::Overwrite);
    let spec = SettingSpec { name: "s", max: 9, default: 3, ..SettingSpec::PLAIN };
    let setting = space.setting(spec).unwrap();
    let place = directory.path().to_str().unwrap().to_string();
    let variables =
        [("THALWEG_TEST_PARENT", place), ("THALWEG_TEST_SPACE", space.path().to_str().unwrap().to_string())];
    child::run("nobodys_process", &variables);
    assert_eq!(setting.load(), 3);
}

#[test]
#[ignore = "run by another test"]
fn nobodys_process() {
    let Some(parent) = child::given::<PathBuf>("THALWEG_TEST_PARENT") else { return };
    let roots_space = child::given::<PathBuf>("THALWEG_TEST_SPACE").unwrap();
    become_nobody();
    for (name, what) in [
        ("roots", "Permission denied"),
        ("somebodys", "belongs to another user"),
        ("sealed", "Permission denied"),
        ("roots/below", "Permission denied"),
    ] {
        let path = parent.join(name);
        check_error(&make(&path).unwrap_err(), &path, what);
        let in_session = SpaceOptions { session: Some(path.clone()), ..SpaceOptions::default() };
        check_error(&Space::create(in_session).unwrap_err(), &path, what);
    }
    let mine = make(&parent.join("mine")).unwrap();
    let somewhere = parent.join("somebodys");
    check_error(&mine.elements_in(&somewhere).unwrap_err(), &somewhere, "belongs to another user");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(mine.path()), mode(&mine.path().join("space"))), (0o700, 0o600));

    // The space of another user cannot be read, set or removed.
    check_error(&SpaceReader::open(&roots_space).unwrap_err(), &roots_space, "Permission denied");
    check_error(&Archiver::open(&roots_space).unwrap_err(), &roots_space, "Permission denied");
    assert!(discover::remove(&roots_space).is_err());
    let cleaned = discover::clean(&parent, true).unwrap();
    assert!(cleaned.removed.is_empty(), "{cleaned:?}");
}

#[test]
fn a_read_only_file_system_can_be_read() {
    if !is_root() {
        return;
    }
    let directory = Directory::new("read-only");
    child::run(
        "read_only_process",
        &[("THALWEG_TEST_PARENT", directory.path().to_str().unwrap().to_string())],
    );
}

#[test]
#[ignore = "run by another test"]
fn read_only_process() {
    let Some(parent) = child::given::<PathBuf>("THALWEG_TEST_PARENT") else { return };
    if !child::mount_privately(&parent, 16 << 20) {
        skip("no file system may be mounted here");
        return;
    }
    let space = make(&parent).unwrap();
    let spec = SettingSpec { name: "s", max: 9, default: 3, ..SettingSpec::PLAIN };
    space.setting(spec).unwrap();
    let mut writer = space.writer("w").unwrap();
    let counted = writer.declare::<support::Counted>().unwrap();
    (0..10).for_each(|count| writer.emit(counted, &support::Counted { count }));
    let path = space.path().to_path_buf();
    drop((writer, space));
    child::remount_read_only(&parent);

    let (seen, problem) = read_events(&path);
    assert!(problem.is_none() && support::totals(&seen) == (10, 0), "{problem:?}");
    let reader = SpaceReader::open(&path).unwrap();
    assert_eq!(reader.settings().unwrap()[0].value, 3);
    assert_eq!(discover::list(&parent).unwrap().len(), 1);
    check_error(&reader.set("s", 5).unwrap_err(), &path, "Read-only");
    check_error(&Archiver::open(&path).unwrap_err(), &path, "Read-only");
    check_error(&make(&parent).unwrap_err(), &parent, "Read-only");
    check_error(&discover::remove(&path).unwrap_err(), &path, "Read-only");
}

#[test]
fn without_shared_memory_spaces_are_elsewhere() {
    if !is_root() {
        return;
    }
    let directory = Directory::on_disk("runtime");
    let runtime = directory.path().to_str().unwrap().to_string();
    let none = || ("THALWEG_SPACES", String::new());
    child::run("process_without_shared_memory", &[none(), ("XDG_RUNTIME_DIR", runtime)]);
    child::run("process_without_shared_memory", &[none(), ("XDG_RUNTIME_DIR", String::new())]);
}

#[test]
#[ignore = "run by another test"]
fn process_without_shared_memory() {
    let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR") else { return };
    // An empty file system over /dev hides /dev/shm from this process.
    if !child::mount_privately(Path::new("/dev"), 1 << 20) {
        skip("no file system may be mounted here");
        return;
    }
    if runtime.is_empty() {
        let error = default_parent().unwrap_err().to_string();
        assert!(error.contains("/dev/shm is missing") && error.contains("set THALWEG_SPACES"), "{error}");
        return;
    }
    let space = Space::create(SpaceOptions { name: "elsewhere".into(), ..SpaceOptions::default() }).unwrap();
    assert_eq!(space.path().parent().unwrap(), Path::new(&runtime).join("thalweg"));
    let mut writer = space.writer("w").unwrap();
    let counted = writer.declare::<support::Counted>().unwrap();
    writer.emit(counted, &support::Counted { count: 1 });
    assert_eq!(support::totals(&read_events(space.path()).0), (1, 0));
}
