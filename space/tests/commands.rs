//! Tests of the requests that observers make to a process: commands with answers, settings with their
//! setters, probes switched by name.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;
use support::{Directory, of_kind, space};
use thalweg_space::mailbox::Sender;
use thalweg_space::reader::SpaceReader;
use thalweg_space::{Answer, Command, Policy, SettingSpec, Space};

/// A timeout that is long enough on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn made(name: &str) -> (Directory, Space) {
    let directory = Directory::new(name);
    let space = space(&directory, 512, 4, Policy::Overwrite);
    (directory, space)
}

fn done(result: &str) -> Answer {
    Answer::Done { result: result.into(), inverse: None }
}

#[test]
fn commands_are_taken_in_order_and_answered() {
    let (_directory, space) = made("order");
    let reader = SpaceReader::open(space.path()).unwrap();
    let error = reader.send(&Command::new("t", "n")).unwrap_err().to_string();
    assert!(error.contains("takes no commands"), "{error}");
    let mut mailbox = space.mailbox().unwrap();
    assert!(space.mailbox().is_err(), "there is one");
    assert!(mailbox.poll().unwrap().is_none());
    let first = reader.send(&Command::new("task 7", "move").with("worker 1").with("now")).unwrap();
    let second = reader.send(&Command::new("box inc", "reload")).unwrap();
    assert_eq!((first.is_adopted().unwrap(), first.answer().unwrap()), (false, None));
    let error = first.wait(Duration::from_millis(1)).unwrap_err().to_string();
    assert!(error.contains("not received yet"), "{error}");
    let received = mailbox.poll().unwrap().unwrap();
    assert_eq!(received.command(), &Command::new("task 7", "move").with("worker 1").with("now"));
    let (pid, user) = (received.sender().pid, received.sender().user);
    assert_eq!((received.id(), pid), (first.id(), std::process::id()));
    assert_eq!((first.is_adopted().unwrap(), first.answer().unwrap()), (true, None));
    let inverse = Command::new("task 7", "move").with("worker 0");
    received.done_with_inverse("moved", &inverse).unwrap();
    let expected = Answer::Done { result: "moved".into(), inverse: Some(inverse) };
    assert_eq!(first.wait(PATIENCE).unwrap(), expected);
    mailbox.poll().unwrap().unwrap().failed("no such library").unwrap();
    assert_eq!(second.wait(PATIENCE).unwrap(), Answer::Failed { why: "no such library".into() });
    assert!(mailbox.poll().unwrap().is_none());
    // A command that the process received, and drops without an answer, counts as failed.
    let third = reader.send(&Command::new("", "forget")).unwrap();
    drop(mailbox.poll().unwrap().unwrap());
    assert!(matches!(third.wait(PATIENCE).unwrap(), Answer::Failed { .. }));
    let sender = [pid.to_string(), user.to_string()];
    let adopted = of_kind(&space, "space.command_adopted");
    assert_eq!(adopted.len(), 3);
    assert_eq!(adopted[0][0], first.id().to_string());
    assert_eq!(adopted[0][1..6], [&sender[0], &sender[1], "\"task 7\"", "\"move\"", "\"worker 1 now\""]);
    assert!(adopted[0][6].contains("commands"), "the tool is this program: {}", adopted[0][6]);
    let answered = of_kind(&space, "space.command_answered");
    assert_eq!(answered[0][1..], ["true", "\"moved\""]);
    assert_eq!(answered[1][1..], ["false", "\"no such library\""]);
}

#[test]
fn a_full_mailbox_and_a_long_command_are_errors() {
    let (_directory, space) = made("full");
    let mut mailbox = space.mailbox().unwrap();
    let reader = SpaceReader::open(space.path()).unwrap();
    let mut sent: Vec<_> = (0..64).map(|n| reader.send(&Command::new("t", n.to_string())).unwrap()).collect();
    let error = reader.send(&Command::new("t", "one more")).unwrap_err().to_string();
    assert!(error.contains("is full") && error.contains("64"), "{error}");
    // The slot of a command stays taken until its answer is read, unless the sender no longer waits.
    mailbox.poll().unwrap().unwrap().done("").unwrap();
    assert!(reader.send(&Command::new("t", "one more")).is_err());
    assert_eq!(sent[0].wait(PATIENCE).unwrap(), done(""));
    sent.remove(0);
    let more = reader.send(&Command::new("t", "one more")).unwrap();
    assert_eq!(more.id(), 65);
    for n in 1..64 {
        assert_eq!(mailbox.poll().unwrap().unwrap().command().name, n.to_string());
    }
    assert_eq!(mailbox.poll().unwrap().unwrap().command().name, "one more");
    let error = reader.send(&Command::new("t", "x".repeat(3_000))).unwrap_err().to_string();
    assert!(error.contains("up to"), "{error}");
    // A long answer is cut, not lost.
    drop(sent);
    let long = reader.send(&Command::new("t", "n")).unwrap();
    mailbox.poll().unwrap().unwrap().done(&"é".repeat(5_000)).unwrap();
    let Answer::Done { result, .. } = long.wait(PATIENCE).unwrap() else { panic!() };
    assert!(result.len() > 100 && result.starts_with("éé"));
}

#[test]
fn a_damaged_command_is_refused() {
    use std::os::unix::fs::FileExt;
    let (_directory, space) = made("damaged");
    let mut mailbox = space.mailbox().unwrap();
    let reader = SpaceReader::open(space.path()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(space.path().join("mailbox")).unwrap();
    // The first of the three damages changes a byte of the command, the two others change its length.
    for (at, damage) in [(4096 + 64 + 4, 0x55u64), (4096 + 32, u64::MAX), (4096 + 32, 3)] {
        let sent = reader.send(&Command::new("target", "name")).unwrap();
        file.write_all_at(&damage.to_le_bytes(), at).unwrap();
        assert!(mailbox.poll().unwrap().is_none());
        let Answer::Failed { why } = sent.wait(PATIENCE).unwrap() else { panic!() };
        assert!(why.contains("command"), "{why}");
    }
}

/// The process that is killed: it sends commands as fast as it can.
#[test]
#[ignore = "run by the other tests"]
fn sender_process() {
    let Some(path) = std::env::var_os("THALWEG_TEST_SPACE") else { return };
    let reader = SpaceReader::open(path).unwrap();
    let parent = std::os::unix::process::parent_id();
    eprintln!("/ready");
    for n in 0u64.. {
        let text = n.to_string().repeat(50);
        let command = Command::new(text.clone(), std::process::id().to_string()).with(text);
        // The handle of the sent command is dropped at once, so the answer is not awaited.
        while reader.send(&command).is_err() {
            if std::os::unix::process::parent_id() != parent {
                return; // The test's process has died.
            }
            std::thread::yield_now();
        }
    }
}

fn sender(space: &Space) -> Child {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["sender_process", "--ignored", "--exact", "--nocapture"])
        .env("THALWEG_TEST_SPACE", space.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == "/ready")), "the child says so");
    child
}

/// When senders are killed at any moment, no command is incomplete or comes twice, and the mailbox keeps
/// working.
#[test]
fn a_sender_killed_at_any_moment_leaves_whole_commands() {
    let (_directory, space) = made("killed");
    let mut mailbox = space.mailbox().unwrap();
    let mut state = u64::from(std::process::id());
    let mut last_id = 0;
    let mut taken = 0;
    for _ in 0..20 {
        let mut senders = [sender(&space), sender(&space)];
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let enough = (state >> 33) % 200;
        let mut take = |mailbox: &mut thalweg_space::mailbox::Mailbox| {
            let received = mailbox.poll().unwrap()?;
            let Command { target, name, arguments } = received.command();
            assert_eq!(name, &received.sender().pid.to_string());
            assert_eq!(arguments, std::slice::from_ref(target));
            let number = &target[..target.len() / 50];
            assert_eq!(target, &number.repeat(50));
            assert!(received.id() > last_id, "{} after {last_id}", received.id());
            last_id = received.id();
            received.done("").unwrap();
            Some(())
        };
        let mut round = 0;
        while round < enough {
            round += u64::from(take(&mut mailbox).is_some());
        }
        senders.iter_mut().for_each(|child| child.kill().unwrap());
        for child in &mut senders {
            child.wait().unwrap();
        }
        // All commands that the killed senders had sent are received, including those that they had not
        // counted yet.
        while take(&mut mailbox).is_some() {
            round += 1;
        }
        taken += round;
        // The slots of senders that have died can be used again.
        let reader = SpaceReader::open(space.path()).unwrap();
        let sent: Vec<_> = (0..64)
            .map(|n: u64| {
                let text = n.to_string().repeat(50);
                let name = std::process::id().to_string();
                reader.send(&Command::new(text.clone(), name).with(text)).unwrap()
            })
            .collect();
        while take(&mut mailbox).is_some() {}
        assert!(sent.iter().all(|sent| sent.answer().unwrap() == Some(done(""))));
    }
    assert!(taken > 20, "{taken}");
}

/// A command whose sender was killed before counting it is received by the next poll, and later polls cost as
/// little as before.
#[test]
fn a_command_that_was_not_counted_is_taken_at_once() {
    use std::os::unix::fs::FileExt;
    use thalweg_space::layout::mailbox;
    let (_directory, space) = made("uncounted");
    let mut mailbox = space.mailbox().unwrap();
    let reader = SpaceReader::open(space.path()).unwrap();
    let file = std::fs::OpenOptions::new().read(true).write(true).open(space.path().join("mailbox")).unwrap();
    let count = || {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, mailbox::SENT_COUNT as u64).unwrap();
        u64::from_le_bytes(word)
    };
    assert!(mailbox.poll().unwrap().is_none());
    let sent = reader.send(&Command::new("t", "n")).unwrap();
    assert_eq!(count(), 2);
    file.write_all_at(&1u64.to_le_bytes(), mailbox::SENT_COUNT as u64).unwrap();
    mailbox.poll().unwrap().expect("it was sent").done("").unwrap();
    assert_eq!(sent.wait(PATIENCE).unwrap(), done(""));
    assert!(mailbox.poll().unwrap().is_none());
    assert_eq!(count(), 2, "the process has counted it");
    // While a sender holds the lock, the process does not correct the count of sent commands.
    file.write_all_at(&3u64.to_le_bytes(), mailbox::SENT_COUNT as u64).unwrap();
    let locked = std::fs::File::open(space.path().join("mailbox")).unwrap();
    locked.lock().unwrap();
    assert!(mailbox.poll().unwrap().is_none());
    assert_eq!(count(), 3);
}

#[test]
fn waiting_for_a_dead_process_ends() {
    let (_directory, space) = made("dead");
    let _mailbox = space.mailbox().unwrap();
    let reader = SpaceReader::open(space.path()).unwrap();
    let sent = reader.send(&Command::new("t", "n")).unwrap();
    // The start time in the slot is changed, as if the sender had ended and its pid were reused.
    use std::os::unix::fs::FileExt;
    let identity = std::fs::OpenOptions::new().write(true).open(space.path().join("space")).unwrap();
    identity
        .write_all_at(&1u64.to_le_bytes(), thalweg_space::layout::identity::PROCESS_START as u64)
        .unwrap();
    let error = sent.wait(PATIENCE).unwrap_err().to_string();
    assert!(error.contains("without an answer"), "{error}");
    let error = reader.send(&Command::new("t", "n")).unwrap_err().to_string();
    assert!(error.contains("has ended"), "{error}");
}

#[test]
fn a_change_of_a_setting_records_its_sender() {
    let (_directory, space) = made("audit");
    let spec = SettingSpec { name: "s", max: 9, default: 3, ..SettingSpec::PLAIN };
    let setting = space.setting(spec).unwrap();
    let other = space.setting(SettingSpec { name: "other", ..spec }).unwrap();
    assert_eq!(space.adopt().unwrap(), 0);
    let reader = SpaceReader::open(space.path()).unwrap();
    reader.set("s", 5).unwrap();
    assert_eq!((setting.load(), other.load()), (5, 3));
    assert_eq!(space.adopt().unwrap(), 1);
    reader.set("other", 4).unwrap();
    setting.set(6).unwrap();
    assert_eq!(space.adopt().unwrap(), 2);
    assert_eq!(space.adopt().unwrap(), 0);
    let mut sender = Sender { pid: std::process::id(), user: 0 };
    let adopted = of_kind(&space, "space.setting_adopted");
    sender.user = adopted[0][4].parse().unwrap();
    let tool = adopted[0][5].clone();
    assert!(tool.contains("commands"), "this program: {tool}");
    let name = |name: &str| format!("name#{}", space.name(name).unwrap().0);
    let expect = |of: &str, old: u64, new: u64| {
        let sender = [sender.pid, sender.user].map(|number| number.to_string());
        [vec![name(of), old.to_string(), new.to_string()], sender.into(), vec![tool.clone()]].concat()
    };
    assert_eq!(adopted, [expect("s", 3, 5), expect("s", 5, 6), expect("other", 3, 4)]);
    // The cell is left as a killed setter leaves it; the next setter repairs it without waiting.
    use std::os::unix::fs::FileExt;
    use thalweg_space::layout::settings;
    let file = std::fs::OpenOptions::new().write(true).open(space.path().join("settings")).unwrap();
    file.write_all_at(&99u64.to_le_bytes(), (settings::CELLS + settings::CELL_VERSION) as u64).unwrap();
    file.write_all_at(&99u64.to_le_bytes(), settings::CHANGES as u64).unwrap();
    assert_eq!(space.adopt().unwrap(), 1);
    reader.set("s", 7).unwrap();
    assert_eq!(space.adopt().unwrap(), 1);
    let adopted = of_kind(&space, "space.setting_adopted");
    assert_eq!(adopted[3][1..], ["6", "6", "0", "0", "\"\""], "its setter is unknown");
    assert_eq!(adopted[4], expect("s", 6, 7));
}

#[test]
fn probes_are_switched_by_pattern() {
    let (_directory, space) = made("probes");
    let reader = SpaceReader::open(space.path()).unwrap();
    let error = reader.switch("*", true).unwrap_err().to_string();
    assert!(error.contains("no probes"), "{error}");
    let [sent, received, done] =
        ["net.link.sent", "net.link.received", "task.done"].map(|name| space.probe(name, true).unwrap());
    reader.set("probe/net.*.on", 0).unwrap();
    assert!(!sent.is_on(), "at once: the switch is shared");
    assert_eq!(space.adopt().unwrap(), 1);
    assert_eq!([&sent, &received, &done].map(|probe| probe.is_on()), [false, false, true]);
    reader.switch("net.link.s?nt", true).unwrap();
    reader.switch("task.*", false).unwrap();
    assert_eq!(space.adopt().unwrap(), 2);
    assert_eq!([&sent, &received, &done].map(|probe| probe.is_on()), [true, false, false]);
    // Probes that are made after the switch, and the same probes made again.
    let later = space.probe("net.link.closed", true).unwrap();
    assert!(!later.is_on() && !space.probe("task.done", true).unwrap().is_on());
    assert!(space.probe("another", true).unwrap().is_on());
    let views = reader.probes().unwrap();
    let on: Vec<_> = views.iter().map(|probe| (probe.name.as_str(), probe.on)).collect();
    let expected = [
        ("net.link.sent", true),
        ("net.link.received", false),
        ("task.done", false),
        ("net.link.closed", false),
        ("another", true),
    ];
    assert_eq!(on, expected);
    let switched = of_kind(&space, "space.probes_switched");
    let pid = std::process::id().to_string();
    assert_eq!(switched[0][..4], ["\"net.*\"", "false", "2", &pid]);
    assert_eq!(switched[1][..4], ["\"net.link.s?nt\"", "true", "1", &pid]);
    assert_eq!(switched.len(), 3);
    let error = reader.set("probe/net.*.on", 2).unwrap_err().to_string();
    assert!(error.contains("0 to 1"), "{error}");
    // The file ends with half a record, as a killed process leaves it; the next process repairs the file.
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().append(true).open(space.path().join("probes")).unwrap();
    file.write_all(&[64, 0, 0, 0, 6, 0, 0, 0, 1, 2, 3]).unwrap();
    reader.switch("*", true).unwrap();
    assert_eq!(space.adopt().unwrap(), 1);
    assert!([&sent, &received, &done, &later].iter().all(|probe| probe.is_on()));
}
