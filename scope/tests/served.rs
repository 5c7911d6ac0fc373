//! Tests a scope server with clients that share nodes, are slow, violate the protocol, have another version,
//! or are not allowed.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thalweg_scope::{
    Ask, Backlog, Leaf, Pulled, Remote, Scope, Server, ServerOptions, Target, Tree, VERSION, Value, View,
};
use thalweg_space::{ElementOptions, Kind, Policy, Space, SpaceOptions, Writer};

#[derive(Kind)]
#[kind(name = "test.counted")]
struct Counted {
    number: u64,
}

const VIEW: &str =
    "format = 1\nname = \"counted\"\nabout = \"Which are counted?\"\n[[leaf]]\nkinds = [\"test.counted\"]\n";

struct World {
    folder: tempfile::TempDir,
    space: Space,
    writer: Writer,
    next: u64,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let element = ElementOptions { block_bytes: 1 << 16, block_count: 64, policy: Policy::Overwrite };
        let options =
            SpaceOptions { parent: Some(folder.path().join("spaces")), element, ..Default::default() };
        let space = Space::create(options).unwrap();
        let writer = space.writer("writer").unwrap();
        World { folder, space, writer, next: 0 }
    }

    fn write(&mut self, count: u64) {
        let counted = self.writer.declare::<Counted>().unwrap();
        for number in self.next..self.next + count {
            self.writer.emit(counted, &Counted { number });
        }
        self.next += count;
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("scopes.socket")
    }

    fn options(&self) -> ServerOptions {
        let spaces = Some(self.folder.path().join("served"));
        ServerOptions { share: 1.0, spaces, ..ServerOptions::at(self.socket()) }
    }

    fn ask(&self, backlog: Backlog) -> Ask {
        Ask { view: VIEW.to_owned(), target: Target::of(self.space.path()), backlog }
    }
}

/// A server in a thread, until it is dropped.
struct Served {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<(u64, u64, usize)>>,
    space: PathBuf,
}

impl Served {
    fn begin(options: ServerOptions) -> Served {
        let mut server = Server::listen(options).unwrap();
        let space = server.space().to_path_buf();
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let thread = std::thread::spawn(move || {
            server.serve(&until);
            server.counts()
        });
        Served { stop, thread: Some(thread), space }
    }

    fn end(mut self) -> (u64, u64, usize) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn numbers(pulled: &Pulled) -> Vec<u64> {
    assert!(pulled.problems.is_empty(), "{:?}", pulled.problems);
    let number = |value| match value {
        Some(Value::Unsigned(number)) => number,
        other => panic!("{other:?}"),
    };
    pulled
        .batch
        .tuples()
        .filter(|tuple| tuple.lost().is_none())
        .map(|tuple| number(tuple.field("number")))
        .collect()
}

#[test]
fn a_client_gets_what_a_scope_beside_it_would() {
    let mut world = World::new();
    let served = Served::begin(world.options());
    world.write(100);
    let mut remote = Remote::open(&world.socket(), &world.ask(Backlog::All)).unwrap();
    let pulled = remote.pull(None).unwrap();
    assert_eq!(numbers(&pulled), (0..100).collect::<Vec<_>>());
    let first = pulled.batch.tuples().next().unwrap();
    assert_eq!(&*first.element().unwrap().name, "writer");
    assert_eq!(first.process().unwrap().pid, std::process::id());
    assert_eq!(pulled.bound_ns, Some(85));
    assert!(pulled.cost_ns > 0);
    world.write(5);
    assert_eq!(numbers(&remote.pull(Some(thalweg_scope::Pull::Latest)).unwrap()), [104]);
    assert_eq!(numbers(&remote.pull(None).unwrap()), [100, 101, 102, 103, 104]);
    drop(remote);
    let (answers, refused, _) = served.end();
    assert_eq!((answers, refused), (3, 0));
}

#[test]
fn clients_with_the_same_view_share_what_is_read_and_each_gets_all() {
    let mut world = World::new();
    let served = Served::begin(world.options());
    let mut remotes: Vec<Remote> =
        (0..3).map(|_| Remote::open(&world.socket(), &world.ask(Backlog::Nothing)).unwrap()).collect();
    remotes.iter_mut().for_each(|remote| drop(remote.pull(None).unwrap()));
    let mut got = vec![Vec::new(); 3];
    for round in 0..30 {
        world.write(10);
        // Each client pulls at its own intervals.
        for (n, remote) in remotes.iter_mut().enumerate().filter(|(n, _)| round % (n + 1) == 0) {
            got[n].extend(numbers(&remote.pull(None).unwrap()));
        }
    }
    for (n, remote) in remotes.iter_mut().enumerate() {
        got[n].extend(numbers(&remote.pull(None).unwrap()));
        assert_eq!(got[n], (0..300).collect::<Vec<_>>(), "client {n}");
    }
    let (_, _, scopes) = served.end();
    assert_eq!(scopes, 1, "one for all three");
}

/// The number of tuples that each shared leaf has read, from the server's own collectors.
fn read_by_leaves(server: &Path) -> Vec<u64> {
    let leaf = Leaf::of_kinds(["path.operation_completed"]).element("scope/shared leaf */root");
    let tree = Tree::leaf(leaf).reduce(["element.name"], [("read", "sum first")]);
    let view = View::new("read", "How much was read?", tree).unwrap();
    let mut scope = Scope::open(&view, Target::of(server), Backlog::All).unwrap();
    let pulled = scope.pull();
    pulled.batch.tuples().map(|tuple| tuple.field("read").unwrap().number().unwrap() as u64).collect()
}

#[test]
fn views_with_an_equal_leaf_cost_one_read_and_each_has_its_own_reduction() {
    let mut world = World::new();
    let served = Served::begin(world.options());
    let open = |world: &World, steps: &str| {
        let view = format!("{VIEW}{steps}");
        let ask = Ask { view, ..world.ask(Backlog::Nothing) };
        Remote::open(&world.socket(), &ask).unwrap()
    };
    let even = "[[step]]\ndo = \"filter\"\nwhen = \"number >= 900\"\n";
    let counted = "[[step]]\ndo = \"reduce\"\n[step.values]\ncount = \"count\"\nsum = \"sum number\"\n";
    let (mut plain, mut filtered, mut reduced) =
        (open(&world, ""), open(&world, even), open(&world, counted));
    for remote in [&mut plain, &mut filtered, &mut reduced] {
        drop(remote.pull(None).unwrap());
    }
    let mut seen = (Vec::new(), Vec::new());
    for round in 0..10 {
        world.write(100);
        seen.0.extend(numbers(&plain.pull(None).unwrap()));
        if round % 3 == 0 {
            seen.1.extend(numbers(&filtered.pull(None).unwrap()));
        }
    }
    seen.1.extend(numbers(&filtered.pull(None).unwrap()));
    assert_eq!(seen.0, (0..1000).collect::<Vec<_>>());
    assert_eq!(seen.1, (900..1000).collect::<Vec<_>>());
    // The reduction covers the time between two pulls of this client, however often other clients pulled.
    let pulled = reduced.pull(None).unwrap();
    assert_eq!(pulled.batch.len(), 1);
    let of =
        |pulled: &Pulled, field: &str| pulled.batch.tuples().next().unwrap().field(field).unwrap().number();
    assert_eq!((of(&pulled, "count"), of(&pulled, "sum")), (Some(1000.0), Some(499_500.0)));
    // A client that connects later gets no earlier tuples, and the other clients still get all of theirs.
    world.write(10);
    let mut late = open(&world, "");
    world.write(5);
    assert_eq!(numbers(&late.pull(None).unwrap()), (1010..1015).collect::<Vec<_>>());
    assert_eq!(numbers(&plain.pull(None).unwrap()), (1000..1015).collect::<Vec<_>>());
    assert_eq!(of(&reduced.pull(None).unwrap(), "count"), Some(15.0));
    // A view with another leaf adds a leaf to the server; the server's leaf ends when its last client ends.
    let other =
        Ask { view: VIEW.replace("[\"test.counted\"]", "[\"test.*\"]"), ..world.ask(Backlog::Nothing) };
    drop(Remote::open(&world.socket(), &other).unwrap());
    assert_eq!(read_by_leaves(&served.space), [1015], "each tuple was read once for four");
    let (_, _, leaves) = served.end();
    assert!((1..=2).contains(&leaves), "{leaves}");
}

#[test]
fn what_views_begin_with_alike_is_computed_once() {
    let mut world = World::new();
    let served = Served::begin(world.options());
    let open = |world: &World, steps: &str| {
        let ask = Ask { view: format!("{VIEW}{steps}"), ..world.ask(Backlog::Nothing) };
        Remote::open(&world.socket(), &ask).unwrap()
    };
    let large = "[[step]]\ndo = \"filter\"\nwhen = \"number >= 900\"\n";
    let counted =
        format!("{large}[[step]]\ndo = \"reduce\"\nevery = \"1 ns\"\n[step.values]\nsum = \"sum number\"\n");
    let (mut first, mut second) = (open(&world, &counted), open(&world, &counted));
    let (mut filtered, mut plain) = (open(&world, large), open(&world, ""));
    let mut got = (Vec::new(), Vec::new(), 0, 0);
    let sums = |remote: &mut Remote| -> Vec<f64> {
        let pulled = remote.pull(None).unwrap();
        pulled.batch.tuples().map(|tuple| tuple.field("sum").unwrap().number().unwrap()).collect()
    };
    for round in 0..10 {
        world.write(100);
        got.0.extend(sums(&mut first));
        got.3 += numbers(&plain.pull(None).unwrap()).len();
        if round % 3 == 0 {
            got.1.extend(sums(&mut second));
            got.2 += numbers(&filtered.pull(None).unwrap()).len();
        }
    }
    got.0.extend(sums(&mut first));
    got.1.extend(sums(&mut second));
    got.2 += numbers(&filtered.pull(None).unwrap()).len();
    assert_eq!(got.0.iter().sum::<f64>(), (900..1000).sum::<u64>() as f64);
    assert_eq!((&got.1, got.2, got.3), (&got.0, 100, 1000));
    let names = |pattern: &str| {
        let leaf = Leaf::of_kinds(["path.operation_completed"]).element(pattern);
        let tree = Tree::leaf(leaf).reduce(["element.name"], [("pulls", "count")]);
        let view = View::new("names", "Which nodes are pulled?", tree).unwrap();
        Scope::open(&view, Target::of(&served.space), Backlog::All).unwrap().pull().batch.len()
    };
    assert_eq!((names("scope/shared leaf */root"), names("scope/shared node */root")), (1, 2));
    served.end();
}

#[test]
fn what_waits_for_a_client_that_does_not_pull_is_bounded_and_counted() {
    let mut world = World::new();
    let served = Served::begin(ServerOptions { waiting_bytes_max: 100_000, ..world.options() });
    let open = |world: &World| Remote::open(&world.socket(), &world.ask(Backlog::Nothing)).unwrap();
    let (mut eager, mut lazy) = (open(&world), open(&world));
    drop(eager.pull(None).unwrap());
    drop(lazy.pull(None).unwrap());
    let mut taken = 0;
    for _ in 0..100 {
        world.write(1000);
        taken += numbers(&eager.pull(None).unwrap()).len();
    }
    assert_eq!(taken, 100_000);
    let pulled = lazy.pull(None).unwrap();
    let numbers = numbers(&pulled);
    // A tuple takes 40 bytes.
    assert!((1000..=2500).contains(&numbers.len()), "{}", numbers.len());
    assert_eq!(pulled.lost + numbers.len() as u64, 100_000, "what is not there is counted");
    assert_eq!(pulled.batch.tuples().next().unwrap().lost(), Some(pulled.lost), "where it was");
    assert_eq!(numbers, (100_000 - numbers.len() as u64..100_000).collect::<Vec<_>>());
    served.end();
}

/// Sends the greeting of a client and then any bytes; returns the server's answer.
fn rude(socket: &Path, version: u32, more: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = b"thalwegS".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(more);
    let _ = stream.write_all(&bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = (body.len() as u32 + 1).to_le_bytes().to_vec();
    frame.push(kind);
    frame.extend(body);
    frame
}

#[test]
fn a_client_of_another_version_is_answered_in_a_line() {
    let world = World::new();
    let served = Served::begin(world.options());
    let answer = rude(&world.socket(), VERSION + 6, &[]);
    assert_eq!(
        answer,
        format!(
            "this scope server speaks version {VERSION} of its protocol, and you speak {}\n",
            VERSION + 6
        )
    );
    let mut stream = UnixStream::connect(world.socket()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // The server closes the connection without having read all bytes, so an error is possible and ignored.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.contains("thalweg scope --server") && answer.lines().count() == 1, "{answer}");
    served.end();
}

#[test]
fn rude_clients_are_refused_and_harm_nobody() {
    let mut world = World::new();
    let served = Served::begin(world.options());
    world.write(3);
    let mut good = Remote::open(&world.socket(), &world.ask(Backlog::All)).unwrap();
    let check = |more: &[u8], expected: &str| {
        let answer = rude(&world.socket(), VERSION, more);
        assert!(answer.contains(expected), "{expected}: {answer:?}");
    };
    check(&frame(9, &[]), "first request must name its view");
    check(&frame(2, &[0]), "first request must name its view");
    check(&frame(1, b"\x00\x05\x00\x00\x00ab"), "it ends too early");
    check(&frame(1, b"\x07\x01\x00\x00\x00a"), "unknown kind of target");
    // The answer to an invalid view states its mistakes.
    let mut open = b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00".to_vec();
    open.extend((7_u32).to_le_bytes());
    open.extend(b"name=17");
    check(&frame(1, &open), "a view begins with `format = 1`");
    // A frame that is announced and not sent, or larger than any request, closes the connection.
    check(&[1, 0, 0, 0x7f, 1], "");
    check(&u32::MAX.to_le_bytes(), "");
    assert_eq!(numbers(&good.pull(None).unwrap()), [0, 1, 2]);
    let (_, refused, _) = served.end();
    assert!(refused >= 5, "{refused}");
}

#[test]
fn one_that_floods_is_refused() {
    let world = World::new();
    let served = Served::begin(ServerOptions { requests_per_s: 20, ..world.options() });
    let mut more = frame(1, &{
        let path = world.space.path().to_str().unwrap();
        let mut open = vec![0];
        open.extend((path.len() as u32).to_le_bytes());
        open.extend(path.as_bytes());
        open.extend([1, 0, 0, 0, 0, 0, 0, 0, 0]);
        open.extend((VIEW.len() as u32).to_le_bytes());
        open.extend(VIEW.as_bytes());
        open
    });
    let opened = more.clone();
    more.extend(frame(2, &[1]));
    more.extend(frame(2, &[7]));
    let answer = rude(&world.socket(), VERSION, &more);
    assert!(answer.contains("unknown kind of pull"), "{answer:?}");
    let mut flood = opened;
    (0..1000).for_each(|_| flood.extend(frame(2, &[2])));
    let answer = rude(&world.socket(), VERSION, &flood);
    assert!(answer.contains("more than 20 requests in a second"), "{answer:?}");
    let (answers, refused, _) = served.end();
    assert!(answers < 200 && refused == 2, "{answers} answers, {refused} refused");
}

#[test]
fn a_client_that_never_reads_is_cut_off() {
    let mut world = World::new();
    let served = Served::begin(ServerOptions { patience: Duration::from_millis(300), ..world.options() });
    world.write(100_000);
    // This client requests megabytes and reads nothing.
    let mut stream = UnixStream::connect(world.socket()).unwrap();
    let path = world.space.path().to_str().unwrap().to_owned();
    let mut open = vec![0];
    open.extend((path.len() as u32).to_le_bytes());
    open.extend(path.as_bytes());
    open.extend([0; 9]);
    open.extend((VIEW.len() as u32).to_le_bytes());
    open.extend(VIEW.as_bytes());
    let mut bytes = b"thalwegS".to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(frame(1, &open));
    bytes.extend(frame(2, &[1]));
    stream.write_all(&bytes).unwrap();
    // The server closes the connection before it has sent the whole answer, so reading ends early.
    let begin = std::time::Instant::now();
    loop {
        match stream.write_all(&[0]) {
            Err(_) => break,
            Ok(()) => std::thread::sleep(Duration::from_millis(20)),
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "it is not cut off");
    }
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 4_000_000, "{} bytes", rest.len());
    served.end();
}

#[test]
fn there_is_one_server_at_a_socket_and_what_a_dead_one_left_is_no_hindrance() {
    let world = World::new();
    // A socket file without a listener, as a killed server leaves it.
    drop(std::os::unix::net::UnixListener::bind(world.socket()).unwrap());
    let served = Served::begin(world.options());
    let mode = std::fs::metadata(world.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let second = Server::listen(world.options());
    assert!(second.unwrap_err().to_string().contains("listens at"));
    assert!(served.space.exists());
    let space = served.space.clone();
    served.end();
    assert!(!world.socket().exists() && !space.exists(), "it leaves nothing");
    std::fs::write(world.socket(), "a file").unwrap();
    let refused = Server::listen(world.options()).unwrap_err().to_string();
    assert!(refused.contains("is no socket"), "{refused}");
}

#[test]
fn too_many_clients_are_refused() {
    let world = World::new();
    let served = Served::begin(ServerOptions { clients_max: 2, ..world.options() });
    let open = || Remote::open(&world.socket(), &world.ask(Backlog::Nothing));
    let kept = (open().unwrap(), open().unwrap());
    let refused = open().unwrap_err().to_string();
    assert!(refused.contains("has 2 clients already"), "{refused}");
    drop(kept);
    served.end();
}

#[test]
fn the_server_is_seen_by_scopes() {
    let mut world = World::new();
    let served = Served::begin(world.options());
    world.write(7);
    let mut remote = Remote::open(&world.socket(), &world.ask(Backlog::All)).unwrap();
    assert_eq!(numbers(&remote.pull(None).unwrap()).len(), 7);
    let paths = thalweg_scope::built_in().iter().find(|view| view.name == "paths").unwrap();
    let ask = Ask { view: paths.text.to_owned(), target: Target::of(&served.space), backlog: Backlog::All };
    let pulled = Remote::open(&world.socket(), &ask).unwrap().pull(None).unwrap();
    let row = |tuple: &thalweg_scope::Tuple<'_>| {
        format!(
            "{:?} {:?} {:?}",
            tuple.field("element.name").unwrap(),
            tuple.field("operation").unwrap(),
            tuple.field("operations").unwrap()
        )
    };
    let rows: Vec<String> = pulled.batch.tuples().map(|tuple| row(&tuple)).collect();
    assert!(rows.iter().any(|row| row.contains("scope/counted/root") && row.contains("pull")), "{rows:?}");
    served.end();
}

/// Another user's program: it prints what the server answers.
#[test]
#[ignore = "run by another test, as another user"]
fn stranger() {
    let Some(socket) =
        std::env::args().find_map(|argument| argument.strip_prefix("--skip=").map(PathBuf::from))
    else {
        return;
    };
    let mut text = Vec::new();
    let answer = UnixStream::connect(socket).map(|mut stream| stream.read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text).into_owned();
    std::io::stderr()
        .write_all(
            format!("answer: {text}{}\n", answer.err().map_or(String::new(), |e| e.to_string())).as_bytes(),
        )
        .unwrap();
}

#[test]
fn other_users_are_refused_unless_they_are_allowed() {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let world = World::new();
    std::fs::set_permissions(world.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let answered = |options: ServerOptions| {
        let served = Served::begin(options);
        let mut stranger = std::process::Command::new(std::env::current_exe().unwrap());
        stranger.args(["stranger", "--ignored", "--exact", "--nocapture"]);
        stranger.arg(format!("--skip={}", world.socket().display())).uid(NOBODY);
        let output = stranger.output();
        served.end();
        output.ok().map(|output| String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let by_mode = answered(world.options());
    let Some(by_mode) = by_mode.filter(|text| text.contains("answer: ")) else {
        let line = "\nskipped: other_users_are_refused_unless_they_are_allowed: it cannot be another user\n";
        return std::io::stdout().write_all(line.as_bytes()).unwrap();
    };
    assert!(by_mode.contains("ermission denied"), "{by_mode}");
    let by_name = answered(ServerOptions { users: vec![NOBODY - 1], ..world.options() });
    assert!(by_name.is_some_and(|text| text.contains("does not serve user 65534")));
    let allowed = answered(ServerOptions {
        users: vec![NOBODY],
        patience: Duration::from_millis(100),
        ..world.options()
    });
    assert!(allowed.is_some_and(|text| text.contains("answer: ")
        && !text.contains("does not serve")
        && !text.contains("denied")));
}
