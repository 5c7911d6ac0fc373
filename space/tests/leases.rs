//! Tests that leases of settings and commands end by their terms, when their holder dies, or when another
//! process takes over.

mod support;

use proptest::prelude::*;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use support::{Directory, child, of_kind, space};
use thalweg_chance::Chance;
use thalweg_space::layout::settings as layout;
use thalweg_space::lease::{Lease, Terms};
use thalweg_space::reader::SpaceReader;
use thalweg_space::{Answer, Command, Policy, Setting, SettingSpec, Space};

const HOURS: Duration = Duration::from_secs(10_000);
const NOW: Duration = Duration::ZERO;
const PATIENCE: Duration = Duration::from_secs(60);

fn made(name: &str) -> (Directory, Space, Setting) {
    let directory = Directory::new(name);
    let space = space(&directory, 4096, 4, Policy::Overwrite);
    let setting =
        space.setting(SettingSpec { name: "s", max: 100, default: 3, ..SettingSpec::PLAIN }).unwrap();
    space.see_to_leases().unwrap();
    (directory, space, setting)
}

fn reader(space: &Space, tool: &str) -> SpaceReader {
    SpaceReader::open(space.path()).unwrap().called(tool)
}

/// For each ended lease: the value now, the value under the lease, the reason, and the tool.
fn ended(space: &Space) -> Vec<String> {
    let ended = of_kind(space, "space.setting_lease_ended");
    ended.iter().map(|f| format!("{} {} {} {}", f[1], f[2], f[3], f[6].trim_matches('"'))).collect()
}

#[test]
fn a_lease_that_ran_out_is_put_back() {
    let (_directory, space, setting) = made("expires");
    let tuner = reader(&space, "tuner");
    let lease = tuner.lease("s", 7, Terms::lasting(HOURS)).unwrap();
    assert_eq!(space.see_to_leases().unwrap(), 1);
    assert_eq!(space.see_to_leases().unwrap(), 0);
    assert_eq!(setting.load(), 7);
    let view = &tuner.settings().unwrap()[0];
    let (held, setter) = (view.lease.clone().unwrap(), view.setter.clone().unwrap());
    assert_eq!((held.confirmed, held.while_alive), (3, false));
    assert!(held.left.is_some_and(|left| left > HOURS / 2 && left <= HOURS));
    assert_eq!((setter.pid, setter.tool.as_str()), (std::process::id(), "tuner"));
    let mut lease = tuner.lease("s", 8, Terms::lasting(NOW)).map(|short| (lease, short)).unwrap();
    assert!(lease.0.renew().is_err(), "the same tool has another lease now");
    assert_eq!(space.see_to_leases().unwrap(), 1);
    assert_eq!(setting.load(), 3);
    let error = lease.1.renew().unwrap_err().to_string();
    assert!(error.contains("ran out") && error.contains("3"), "{error}");
    let view = &tuner.settings().unwrap()[0];
    assert_eq!((view.value, &view.lease), (3, &None));
    let leased = of_kind(&space, "space.setting_leased");
    assert_eq!(leased.len(), 1, "{leased:?}");
    assert_eq!(
        (&*leased[0][1], &*leased[0][2], &*leased[0][4], &*leased[0][7]),
        ("7", "3", "false", "\"tuner\"")
    );
    assert_eq!(ended(&space), ["3 8 expired tuner"]);
}

#[test]
fn a_lease_is_renewed_confirmed_or_given_back() {
    let (_directory, space, setting) = made("renewed");
    let tuner = reader(&space, "tuner");
    let mut lease = tuner.lease("s", 7, Terms::lasting(HOURS).while_alive()).unwrap();
    lease.renew().unwrap();
    lease.set(8).unwrap();
    assert!(lease.set(101).is_err());
    space.see_to_leases().unwrap();
    assert_eq!(setting.load(), 8);
    lease.give_back().unwrap();
    assert_eq!(setting.load(), 3, "at once");
    space.see_to_leases().unwrap();
    let lease = tuner.lease("s", 9, Terms::living()).unwrap();
    space.see_to_leases().unwrap();
    lease.confirm().unwrap();
    assert_eq!(space.see_to_leases().unwrap(), 1);
    assert_eq!((setting.load(), &tuner.settings().unwrap()[0].lease), (9, &None));
    // The next lease restores this value at its end.
    let lease = tuner.lease("s", 10, Terms::lasting(NOW)).unwrap();
    space.see_to_leases().unwrap();
    assert_eq!(setting.load(), 9);
    drop(lease);
    // The end of a lease is also reported if the lease was confirmed before the process had seen it.
    tuner.lease("s", 11, Terms::lasting(HOURS)).unwrap().confirm().unwrap();
    space.see_to_leases().unwrap();
    let expected =
        ["3 8 given_back tuner", "9 9 confirmed tuner", "9 10 expired tuner", "11 11 confirmed tuner"];
    assert_eq!(ended(&space), expected);
}

#[test]
fn a_change_of_a_setting_takes_its_lease_over() {
    let (_directory, space, setting) = made("taken");
    let (a, b) = (reader(&space, "a"), reader(&space, "b"));
    let mut of_a = a.lease("s", 10, Terms::lasting(HOURS)).unwrap();
    space.see_to_leases().unwrap();
    let of_b = b.lease("s", 20, Terms::lasting(HOURS)).unwrap();
    let error = of_a.renew().unwrap_err().to_string();
    assert!(error.contains("set to 20 by b"), "{error}");
    space.see_to_leases().unwrap();
    of_b.give_back().unwrap();
    assert_eq!(setting.load(), 3, "not what a tried");
    space.see_to_leases().unwrap();
    let of_a = a.lease("s", 10, Terms::lasting(HOURS)).unwrap();
    space.see_to_leases().unwrap();
    // A change by a person ends the lease.
    b.set("s", 30).unwrap();
    assert!(of_a.confirm().is_err());
    space.see_to_leases().unwrap();
    assert_eq!(setting.load(), 30);
    assert_eq!(ended(&space), ["20 10 taken_over a", "3 20 given_back b", "30 10 taken_over a"]);
}

#[test]
fn what_cannot_be_put_back_has_no_lease() {
    let (_directory, space, _setting) = made("refused");
    space.setting(SettingSpec { name: "shown", ..SettingSpec::SHOWN }).unwrap();
    let tuner = reader(&space, "tuner");
    let terms = Terms::lasting(HOURS);
    let refused = |name: &str, value, terms| tuner.lease(name, value, terms).unwrap_err().to_string();
    assert!(refused("s", 101, terms).contains("out of range"));
    assert!(refused("s", 1, Terms::default()).contains("no end"));
    assert!(refused("shown", 1, terms).contains("publishes a figure"));
    assert!(refused("probe/a.on", 1, terms).contains("probes"));
    assert!(refused("t", 1, terms).contains("there is no setting"));
    // The process of this space does not end leases.
    let directory = Directory::new("untended");
    let other = support::space(&directory, 512, 2, Policy::Overwrite);
    other.setting(SettingSpec { name: "s", ..SettingSpec::PLAIN }).unwrap();
    let error = reader(&other, "tuner").lease("s", 1, terms).unwrap_err().to_string();
    assert!(error.contains("takes no leases"), "{error}");
}

/// Another process holds the lock and makes no progress.
#[test]
fn a_lock_that_is_held_too_long_keeps_no_value() {
    let (_directory, space, setting) = made("locked");
    let lease = reader(&space, "tuner").lease("s", 7, Terms::lasting(NOW)).unwrap();
    let file = std::fs::File::open(space.path().join("settings")).unwrap();
    file.lock().unwrap();
    let begun = Instant::now();
    while setting.load() == 7 {
        space.see_to_leases().unwrap();
        std::thread::sleep(Duration::from_millis(1));
        assert!(begun.elapsed() < PATIENCE);
    }
    assert!(begun.elapsed() > Duration::from_secs(1), "the lock is waited for: {:?}", begun.elapsed());
    assert_eq!(setting.load(), 3);
    drop((file, lease));
    // A child process that another test starts may inherit the descriptor of the locked file, and thus hold
    // the lock, until it executes its program.
    while space.see_to_leases().unwrap() == 0 {
        assert!(begun.elapsed() < PATIENCE);
    }
    assert_eq!((setting.load(), ended(&space)), (3, vec!["3 7 expired tuner".to_string()]));
}

/// Ends leases until the condition holds. A child process that another test starts may hold the lock of the
/// settings' file until it executes its program, so a lease may end only after several tries.
fn look_until(space: &Space, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    loop {
        space.see_to_leases().unwrap();
        if is_so() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "the lease is never seen to");
    }
}

/// Whatever the file of settings contains, the process keeps working, and the values that it sets are in
/// range.
#[test]
fn hostile_settings_are_never_trusted() {
    let (_directory, space, setting) = made("hostile");
    let file = std::fs::OpenOptions::new().write(true).open(space.path().join("settings")).unwrap();
    let mut random = Chance::new(7);
    for round in 0..2000 {
        for _ in 0..4 {
            let at = layout::CELLS + 8 * (random.next() % 8) as usize;
            let at = if random.next().is_multiple_of(4) {
                layout::TOOLS + 8 * (random.next() % 8) as usize
            } else {
                at
            };
            let small = random.next() % 6;
            let word = match random.next() % 4 {
                0 => random.next(),
                1 => small | layout::DESCRIBED,
                2 => u64::MAX,
                _ => small,
            };
            file.write_all_at(&word.to_le_bytes(), at as u64).unwrap();
        }
        if round % 2 == 0 {
            // Sets all lease words of the cell to random values.
            let version = 2 * (1 << 32 | round);
            for (at, word) in [
                (layout::CELL_VERSION, version),
                (layout::LEASE_VERSION, version | layout::DESCRIBED),
                (layout::LEASE_STATE, layout::LEASE_HELD),
                (layout::LEASE_UNTIL, random.next() % 3),
            ] {
                file.write_all_at(&word.to_le_bytes(), (layout::CELLS + at) as u64).unwrap();
            }
        }
        let view = || SpaceReader::open(space.path()).unwrap().settings().unwrap().remove(0);
        look_until(&space, || round % 2 != 0 || view().lease.is_none() && setting.load() <= 100);
        let view = view();
        let tool = view.setter.map_or_else(String::new, |setter| setter.tool);
        assert!(!tool.contains(char::is_control) && tool.len() <= 3 * layout::TOOL_ROOM, "{tool:?}");
    }
}

// ---- against a model

#[derive(Clone, Debug)]
enum Step {
    Set(u8, u64),
    Lease(u8, u64, bool),
    Renew(u8),
    Change(u8, u64),
    Confirm(u8),
    GiveBack(u8),
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    let (tool, value) = (0..3u8, 0..=100u64);
    prop_oneof![
        1 => (tool.clone(), value.clone()).prop_map(|(tool, value)| Step::Set(tool, value)),
        3 => (tool.clone(), value.clone(), any::<bool>())
            .prop_map(|(tool, value, ends)| Step::Lease(tool, value, ends)),
        1 => tool.clone().prop_map(Step::Renew),
        1 => (tool.clone(), value).prop_map(|(tool, value)| Step::Change(tool, value)),
        1 => tool.clone().prop_map(Step::Confirm),
        1 => tool.prop_map(Step::GiveBack),
        3 => Just(Step::Look),
    ]
}

/// A model of a setting with its leases.
#[derive(Debug)]
struct Model {
    value: u64,
    confirmed: u64,
    /// The lease's holder, and whether the lease's time is over.
    lease: Option<(u8, bool)>,
}

impl Model {
    fn holds(&self, tool: u8) -> bool {
        self.lease.is_some_and(|(holder, _)| holder == tool)
    }

    fn look(&mut self) {
        if self.lease.is_some_and(|(_, over)| over) {
            (self.value, self.lease) = (self.confirmed, None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn holders_of_one_setting_are_as_the_model(steps in prop::collection::vec(step(), 1..60)) {
        let (_directory, space, setting) = made("model");
        let readers = ["a", "b", "c"].map(|tool| reader(&space, tool));
        let mut leases: [Option<Lease>; 3] = Default::default();
        let mut model = Model { value: 3, confirmed: 3, lease: None };
        for step in steps {
            match step {
                Step::Set(tool, value) => {
                    readers[usize::from(tool)].set("s", value).unwrap();
                    model = Model { value, confirmed: value, lease: None };
                }
                Step::Lease(tool, value, ends) => {
                    let terms = Terms::lasting(if ends { NOW } else { HOURS });
                    leases[usize::from(tool)] = Some(readers[usize::from(tool)].lease("s", value, terms).unwrap());
                    (model.value, model.lease) = (value, Some((tool, ends)));
                }
                Step::Renew(tool) => if let Some(lease) = &mut leases[usize::from(tool)] {
                    prop_assert_eq!(lease.renew().is_ok(), model.holds(tool));
                },
                Step::Change(tool, value) => if let Some(lease) = &mut leases[usize::from(tool)] {
                    let changed = lease.set(value).is_ok();
                    prop_assert_eq!(changed, model.holds(tool));
                    if changed {
                        model.value = value;
                    }
                },
                Step::Confirm(tool) => if let Some(lease) = leases[usize::from(tool)].take() {
                    let confirmed = lease.confirm().is_ok();
                    prop_assert_eq!(confirmed, model.holds(tool));
                    if confirmed {
                        model = Model { value: model.value, confirmed: model.value, lease: None };
                    }
                },
                Step::GiveBack(tool) => if let Some(lease) = leases[usize::from(tool)].take() {
                    let given_back = lease.give_back().is_ok();
                    prop_assert_eq!(given_back, model.holds(tool));
                    if given_back {
                        model = Model { value: model.confirmed, lease: None, ..model };
                    }
                },
                Step::Look => {
                    let is_over = model.lease.is_some_and(|(_, ends)| ends);
                    look_until(&space, || !is_over || readers[0].settings().unwrap()[0].lease.is_none());
                    model.look();
                }
            }
            let view = readers[0].settings().unwrap().remove(0);
            prop_assert_eq!((setting.load(), view.value), (model.value, model.value));
            let holder = view.lease.is_some().then(|| view.setter.unwrap().tool);
            let expected = model.lease.map(|(tool, _)| ["a", "b", "c"][usize::from(tool)].to_string());
            prop_assert_eq!(holder, expected);
            prop_assert_eq!(view.lease.map_or(model.confirmed, |lease| lease.confirmed), model.confirmed);
        }
        // At the end no value of a trial remains.
        drop(leases);
        readers[0].lease("s", 99, Terms::lasting(NOW)).unwrap().renew().unwrap();
        look_until(&space, || setting.load() == model.confirmed);
    }
}

// ---- commands

/// The state of a process: whether commands have paused it, and the place to which commands have moved it.
#[derive(Debug, PartialEq, Eq)]
struct Moved {
    paused: bool,
    place: u64,
}

impl Moved {
    /// Carries out all waiting commands, and answers with their inverses.
    fn serve(&mut self, mailbox: &mut thalweg_space::mailbox::Mailbox) {
        while let Some(received) = mailbox.poll().unwrap() {
            let command = received.command().clone();
            let before = self.place;
            match command.name.as_str() {
                "pause" | "resume" => {
                    let other = if command.name == "pause" { "resume" } else { "pause" };
                    let now = command.name == "pause";
                    match std::mem::replace(&mut self.paused, now) == now {
                        true => received.done("already").unwrap(),
                        false => received.done_with_inverse("", &Command::new("run", other)).unwrap(),
                    }
                }
                "move" => {
                    self.place = command.arguments[0].parse().unwrap();
                    let back = Command::new(command.target, "move").with(before.to_string());
                    received.done_with_inverse("", &back).unwrap();
                }
                _ => received.done("").unwrap(),
            }
        }
    }
}

fn with_mailbox(name: &str) -> (Directory, Space, thalweg_space::mailbox::Mailbox, Moved) {
    let (directory, space, _) = made(name);
    let mailbox = space.mailbox().unwrap().reversible(&[&["pause", "resume"], &["move"]]);
    (directory, space, mailbox, Moved { paused: false, place: 0 })
}

fn moved_to(place: u64) -> Command {
    Command::new("task 7", "move").with(place.to_string())
}

#[test]
fn a_command_is_taken_back_when_its_lease_is_over() {
    let (_directory, space, mut mailbox, mut run) = with_mailbox("commands");
    let tuner = reader(&space, "tuner");
    let pause = Command::new("run", "pause");
    let lease = tuner.send_leased(&pause, Terms::lasting(NOW)).unwrap();
    run.serve(&mut mailbox);
    assert!(matches!(lease.sent().wait(PATIENCE).unwrap(), Answer::Done { inverse: Some(_), .. }));
    // The lease was over as soon as it began, and its inverse was the next command.
    assert!(!run.paused);
    let error = std::thread::scope(|scope| {
        let asking = scope.spawn(move || lease.renew(PATIENCE).unwrap_err().to_string());
        while !asking.is_finished() {
            run.serve(&mut mailbox);
        }
        asking.join().unwrap()
    });
    assert!(error.contains("is over"), "{error}");
    // A command without an inverse gets no lease and is not carried out.
    let refused = tuner.send_leased(&Command::new("run", "drain"), Terms::living()).unwrap();
    run.serve(&mut mailbox);
    let Answer::Failed { why } = refused.sent().wait(PATIENCE).unwrap() else { panic!("it was done") };
    assert!(why.contains("`drain` has no lease") && why.contains("pause"), "{why}");
    assert!(tuner.send_leased(&pause, Terms::default()).is_err());
    let ended = of_kind(&space, "space.command_lease_ended");
    assert_eq!(ended.len(), 1);
    assert_eq!((&*ended[0][0], &*ended[0][1], &*ended[0][4]), ("1", "expired", "\"tuner\""));
    let leased = of_kind(&space, "space.command_leased");
    assert_eq!((leased.len(), &*leased[0][4]), (1, "\"resume\""));
}

#[test]
fn the_lease_of_a_command_is_renewed_confirmed_or_given_back() {
    let (_directory, space, mut mailbox, mut run) = with_mailbox("asked");
    let tuner = reader(&space, "tuner");
    let lease = tuner.send_leased(&moved_to(1), Terms::lasting(HOURS).while_alive()).unwrap();
    run.serve(&mut mailbox);
    let tuner = &tuner;
    std::thread::scope(|scope| {
        let asking = scope.spawn(move || {
            lease.renew(PATIENCE).unwrap();
            lease.give_back(PATIENCE).unwrap();
            let lease = tuner.send_leased(&moved_to(2), Terms::living()).unwrap();
            lease.sent().wait(PATIENCE).unwrap();
            lease.confirm(PATIENCE).unwrap();
        });
        while !asking.is_finished() {
            run.serve(&mut mailbox);
        }
        asking.join().unwrap();
    });
    run.serve(&mut mailbox);
    assert_eq!(run.place, 2);
    let ended = of_kind(&space, "space.command_lease_ended");
    let why: Vec<_> = ended.iter().map(|fields| &*fields[1]).collect();
    assert_eq!(why, ["given_back", "confirmed"]);
}

/// A later command of the group takes over the lease, and its inverse restores the state before all leases.
#[test]
fn a_later_command_takes_the_lease_over() {
    let (_directory, space, mut mailbox, mut run) = with_mailbox("over");
    let (a, b) = (reader(&space, "a"), reader(&space, "b"));
    let pause = Command::new("run", "pause");
    let of_a = [
        a.send_leased(&moved_to(1), Terms::lasting(HOURS)).unwrap(),
        a.send_leased(&pause, Terms::lasting(HOURS)).unwrap(),
    ];
    run.serve(&mut mailbox);
    assert_eq!(run, Moved { paused: true, place: 1 });
    let of_b = [
        b.send_leased(&moved_to(2), Terms::lasting(Duration::from_millis(20))).unwrap(),
        b.send_leased(&pause, Terms::lasting(Duration::from_millis(20))).unwrap(),
    ];
    run.serve(&mut mailbox);
    let begun = Instant::now();
    while run != (Moved { paused: false, place: 0 }) {
        run.serve(&mut mailbox);
        assert!(begun.elapsed() < PATIENCE, "{run:?}");
    }
    // A command without a lease is permanent.
    let held = a.send_leased(&moved_to(3), Terms::lasting(HOURS)).unwrap();
    b.send(&moved_to(4)).unwrap();
    run.serve(&mut mailbox);
    assert_eq!(run.place, 4);
    drop((of_a, of_b, held));
    let ended = of_kind(&space, "space.command_lease_ended");
    let why: Vec<_> = ended.iter().map(|f| format!("{} {}", f[1], f[4].trim_matches('"'))).collect();
    assert_eq!(why[..2], ["taken_over a", "taken_over a"]);
    assert_eq!(why[2..4], ["expired b", "expired b"]);
    assert_eq!(why[4..], ["taken_over a"]);
}

// ---- holders that are killed

/// The process that is killed: it renews its lease as fast as it can.
#[test]
#[ignore = "run by the other tests"]
fn holder_process() {
    let Some(path) = std::env::var_os("THALWEG_TEST_SPACE") else { return };
    let lasts = Duration::from_millis(child::given("THALWEG_TEST_LASTS").unwrap());
    let terms = Terms::lasting(lasts);
    let terms = if lasts == HOURS { terms.while_alive() } else { terms };
    let mut lease = SpaceReader::open(path).unwrap().called("holder").lease("s", 50, terms).unwrap();
    eprintln!("/ready");
    for n in 0.. {
        let renewed = if n % 3 == 0 { lease.set(50 + n % 7) } else { lease.renew() };
        if renewed.is_err() {
            return; // The test's process has died or is slow.
        }
    }
}

/// The longest delay until a value is restored: the process checks every 20 ms, and has to get a processor of
/// a busy machine.
const SLACK: Duration = Duration::from_millis(1500);

/// In all rounds the value is restored within the lease's time, although the process only checks now and
/// then.
#[test]
fn a_lease_whose_holder_is_killed_at_any_moment_is_put_back_in_time() {
    const ROUNDS: usize = 100;
    let (_directory, space, setting) = made("killed");
    let mut random = Chance::new(1);
    let mut latest = Duration::ZERO;
    let (over, is_over) = std::sync::mpsc::channel::<()>();
    let observed = &space;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The loop lasts until the other thread ends, even by a panic.
            while is_over.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Timeout) {
                observed.see_to_leases().unwrap();
            }
        });
        let _over = over;
        for round in 0..ROUNDS {
            // Half of the leases have a short time; the others end when their holder dies.
            let lasts = if round % 2 == 0 { Duration::from_millis(50) } else { HOURS };
            let variables = [
                ("THALWEG_TEST_SPACE", space.path().display().to_string()),
                ("THALWEG_TEST_LASTS", lasts.as_millis().to_string()),
            ];
            let mut holder = child::begin("holder_process", &variables);
            holder.stdin.take();
            let mut lines = BufReader::new(holder.stderr.take().unwrap()).lines();
            assert!(lines.any(|line| line.is_ok_and(|line| line == "/ready")), "the holder says so");
            std::thread::sleep(Duration::from_micros(random.next() % 20_000));
            holder.kill().unwrap();
            let killed = Instant::now();
            holder.wait().unwrap();
            let within = if lasts == HOURS { SLACK } else { lasts + SLACK };
            while setting.load() != 3 {
                assert!(killed.elapsed() < within, "round {round}: it is still {}", setting.load());
                std::thread::sleep(Duration::from_micros(200));
            }
            latest = latest.max(killed.elapsed().saturating_sub(if lasts == HOURS { NOW } else { lasts }));
            // The event that reports the end follows immediately.
            while ended(&space).len() <= round {
                assert!(killed.elapsed() < within + PATIENCE, "round {round}: no event");
                std::thread::yield_now();
            }
        }
    });
    eprintln!("put back at most {latest:?} after its time");
    let ended = ended(&space);
    assert_eq!(ended.len(), ROUNDS, "{ended:?}");
    for (round, ended) in ended.iter().enumerate() {
        // If a setter was killed during its first write, the value that it was about to set is unknown.
        let good = ended.starts_with("3 5") && ended.ends_with(" holder") || ended == "3 3 holder_died ";
        let why = if round % 2 == 0 { "expired" } else { "holder_died" };
        assert!(good && (ended.contains(why) || ended.contains("holder_died")), "{round}: {ended}");
    }
}
