//! Nodes with TLS: machines that join by an invitation, equal results, clear refusals, and strangers that get
//! nowhere.

mod certified;
mod cluster;
mod program;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use certified::certify;
use cluster::{Cluster, numbers, out, sorted, stderr};
use serde_json::json;
use thalweg_link::secure::KNOCK;

/// The alert of TLS by which an end refuses a proof.
const DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// A machine that has begun a cluster, and its nodes, which listen with TLS.
fn machine(nodes: &[&str]) -> Cluster {
    let mut cluster = Cluster::of(&[]);
    init(&cluster, &[]);
    nodes.iter().for_each(|name| cluster.start(name, &["--tls"]));
    cluster
}

fn node(cluster: &Cluster, arguments: &[&str]) -> Output {
    cluster.command().arg("node").args(arguments).output().expect("thalweg starts")
}

fn init(cluster: &Cluster, more: &[&str]) -> String {
    let made = node(cluster, &[&["init", "--host", "node.example"], more].concat());
    assert!(made.status.success(), "{}", stderr(&made));
    stderr(&made)
}

fn invite(cluster: &Cluster, more: &[&str]) -> String {
    let invited = node(cluster, &[&["invite"], more].concat());
    assert!(invited.status.success(), "{}", stderr(&invited));
    out(&invited).trim().to_owned()
}

/// The address of a node, without `tls/`.
fn bare(cluster: &Cluster, name: &str) -> String {
    let address = cluster.address(name);
    address.strip_prefix("tls/").expect("a node with TLS").to_owned()
}

#[test]
fn a_machine_joins_by_an_invitation_that_is_good_once() {
    let first = machine(&["a"]);
    let address = first.address("a");
    let mut second = Cluster::of(&[]);
    let token = invite(&first, &[]);
    let made = init(&second, &["--join", &address, "--token", &token]);
    assert!(made.contains("a certificate for node.example, "), "{made}");
    second.start("b", &["--tls", "--join", &address]);
    // Each machine knows both nodes, and runs networks over them.
    let net = "net two connect ([{<n>} -> {<n = n + 1>}] @ 1) .. ([{<n>} -> {<n = n * 2>}] @ 0);";
    for machine in [&first, &second] {
        let net = machine.net("two.snet", net);
        let over = machine.run(&[&net, "--nodes", "a,b"], &numbers(500));
        assert_eq!(sorted(&over), sorted(&machine.run(&[&net], &numbers(500))));
    }
    let third = Cluster::of(&[]);
    let again = node(&third, &["init", "--join", &address, "--token", &token]);
    assert!(
        stderr(&again).contains("it has no invitation with this token, which is good once"),
        "{}",
        stderr(&again)
    );
    let wrong = node(&third, &["init", "--join", &address, "--token", "water"]);
    assert!(stderr(&wrong).contains("this is no token of `thalweg node invite`"), "{}", stderr(&wrong));
    // A token with the fingerprint of another authority does not trust this node.
    let token = invite(&first, &[]);
    let (secret, _) = token.split_once('.').expect("two parts");
    let other = format!("{secret}.{}", "0".repeat(64));
    let other = node(&third, &["init", "--join", &address, "--token", &other]);
    assert!(stderr(&other).contains("its certificate is of another cluster"), "{}", stderr(&other));
    let not_first = node(&second, &["invite"]);
    assert!(stderr(&not_first).contains("only the machine on which"), "{}", stderr(&not_first));
}

#[test]
fn a_machine_that_may_only_see_runs_nothing() {
    let first = machine(&["a"]);
    let address = first.address("a");
    let second = Cluster::of(&[]);
    init(&second, &["--join", &address, "--token", &invite(&first, &["--may", "see"])]);
    std::fs::write(second.path("cluster").join("nodes/a"), format!("{address}\n")).expect("a folder");
    let seen = second.command().args(["nodes", "--json"]).output().expect("thalweg starts");
    assert!(out(&seen).contains("\"alive\":true"), "{}", out(&seen));
    let net = second.net("one.snet", "net one connect [{<n>} -> {<n = n + 1>}];");
    let over = second.run(&[&net, "--nodes", "a"], "{\"<n>\": 1}\n");
    assert!(!over.status.success() && out(&over).is_empty());
    assert!(stderr(&over).contains("lets it see nodes, and not run programs"), "{}", stderr(&over));
}

#[test]
fn networks_over_nodes_with_tls_give_what_they_give_on_one() {
    let cluster = machine(&["a", "b", "c"]);
    let texts = [
        "([{<n>} -> {<n = n + 1>}] @ 1) .. ([{<n>} -> {<n = n * 2>}] @ 0) .. ([{<n>} -> {<n = n - 3>}] @ 2)",
        "[{<n>} -> {<n = n + 1>}] !@ <k>",
        "([{<n>} -> {<n = n + 1>}] @ 1) !! <k> .. [{<n>} -> {<n = n * 2>}] @ 0",
        "([{<n>} -> {<n = n / 2>}] @ 1) ** {<n>} if <n < 2>",
    ];
    for text in texts {
        let net = cluster.net("drawn.snet", &format!("net drawn connect {text};"));
        for encoding in ["plain", "zstd"] {
            let set = format!("link.encoding={encoding}");
            let over = cluster.run(&[&net, "--nodes", "a,b,c", "--set", &set], &numbers(2_000));
            assert_eq!(sorted(&over), sorted(&cluster.run(&[&net], &numbers(2_000))), "{text}, {encoding}");
        }
    }
}

/// Replaces the certificate of the machine by one of its authority that expired in 2001.
fn expire(folder: &Path) {
    let of_2001 = Duration::from_secs(978_307_200);
    certify(folder, folder, of_2001);
}

#[test]
fn refusals_say_what_to_do() {
    let first = machine(&["a"]);
    let address = first.address("a");
    let net = first.net("one.snet", "net one connect [{<n>} -> {<n = n + 1>}];");
    let runs = |cluster: &Cluster, at: &str, expected: &str| {
        let over = cluster.run(&[&net, "--nodes", at], "{\"<n>\": 1}\n");
        assert!(!over.status.success() && out(&over).is_empty(), "{at}");
        assert!(stderr(&over).contains(expected), "{at}: {}", stderr(&over));
    };
    let starts = |cluster: &Cluster, more: &[&str], expected: &str| {
        let refused = node(cluster, &[&["--name", "z"], more].concat());
        assert!(!refused.status.success());
        assert!(stderr(&refused).contains(expected), "{more:?}: {}", stderr(&refused));
    };
    // No certificate.
    let none = Cluster::of(&[]);
    starts(&none, &["--tls"], "there is no certificate in");
    runs(&none, &address, "there is no certificate in");
    starts(&none, &["--listen", "0.0.0.0:0"], "is no address for others: name the one");
    // Another cluster.
    let other = machine(&[]);
    runs(&other, &address, "it refuses the token of this machine: it belongs to another cluster");
    // The wrong host: `ip6-localhost` and the like are not in the certificate.
    starts(
        &first,
        &["--tls", "--listen", "127.0.0.9:0"],
        "not for 127.0.0.9: `thalweg node init --host 127.0.0.9`",
    );
    // Of two ends, only one with TLS.
    runs(&first, &format!("tcp/{}", bare(&first, "a")), "it expects TLS: its address begins with tls/");
    let mut plain = Cluster::of(&["p"]);
    let at = plain.address("p");
    runs(&first, &format!("tls/{at}"), "it does not speak TLS");
    // A run with nodes of both kinds.
    init(&plain, &[]);
    plain.start("s", &["--tls"]);
    runs(&plain, "p,s", "a run has nodes of one kind; start p with --listen");
    // A certificate that has expired: of this machine, then of the node.
    expire(&first.path("cluster"));
    runs(&first, &address, "it refuses the certificate of this machine, which has expired");
    starts(&first, &["--tls"], "its certificate expired on 2001-01-01");
    init(&first, &[]);
    let over = first.run(&[&net, "--nodes", "a"], "{\"<n>\": 1}\n");
    assert_eq!(out(&over), "{\"<n>\": 2}\n", "{}", stderr(&over));
}

/// What a client of one connection to the node sent.
fn record(cluster: &Cluster, name: &str) -> Vec<u8> {
    let to = bare(cluster, name);
    let relay = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = format!("tls/{}", relay.local_addr().expect("a port"));
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeping = kept.clone();
    std::thread::spawn(move || {
        while let Ok((mut from, _)) = relay.accept() {
            let mut to = TcpStream::connect(&to).expect("a node");
            let (mut back_from, mut back_to) =
                (to.try_clone().expect("a socket"), from.try_clone().expect("a socket"));
            std::thread::spawn(move || {
                _ = std::io::copy(&mut back_from, &mut back_to);
                _ = back_to.shutdown(std::net::Shutdown::Both);
            });
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                keeping.lock().expect("no panic").extend(&bytes[..read]);
                _ = to.write_all(&bytes[..read]);
            }
            _ = to.shutdown(std::net::Shutdown::Both);
        }
    });
    let net = cluster.net("one.snet", "net one connect [{<n>} -> {<n = n + 1>}];");
    let over = cluster.run(&[&net, "--nodes", &at], "{\"<n>\": 1}\n");
    assert_eq!(out(&over), "{\"<n>\": 2}\n", "{}", stderr(&over));
    let kept = kept.lock().expect("no panic").clone();
    assert!(kept.len() > 1_000, "control of a run");
    kept
}

#[test]
fn strangers_get_nowhere_and_hinder_nobody() {
    let cluster = machine(&["a"]);
    let recording = record(&cluster, "a");
    let token = std::fs::read_to_string(cluster.path("cluster/token")).expect("a cluster");
    assert!(!recording.windows(64).any(|bytes| bytes == token.trim().as_bytes()));
    let address = bare(&cluster, "a");
    // Openssl knows no token, so the node does not answer its handshake.
    let mut openssl = Command::new("openssl")
        .args(["s_client", "-connect", &address, "-quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl");
    let mut input = openssl.stdin.take().expect("piped");
    // An error means that it has ended.
    let _ = input.write_all(b"thalwgn1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    let ended = openssl.wait_with_output().expect("it ends, since the node closes the connection");
    assert!(ended.stdout.is_empty(), "the node says nothing: {:?}", ended.stdout);
    drop(input);
    // What a member sent is refused before the node computes a handshake: its proof was for another number.
    let mut replays = TcpStream::connect(&address).expect("a node");
    replays.write_all(&recording).expect("a socket");
    let mut answer = Vec::new();
    replays.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    // The connection may be reset, because the node reads only the beginning.
    let _ = replays.read_to_end(&mut answer);
    assert!(recording.starts_with(&KNOCK) && answer.starts_with(&KNOCK), "{answer:?}");
    let rest = answer.get(24..).unwrap_or_default();
    assert!(rest.is_empty() || *rest == DENIED, "no handshake: {answer:?}");
    // 10,000 connections, of which half stay open as long as the node lets them, while a run goes on.
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let strangers = scope.spawn(|| {
            let mut held = std::collections::VecDeque::new();
            let mut made = 0_u32;
            while made < 10_000 {
                let Ok(mut stream) = TcpStream::connect(&address) else { continue };
                let garbage: Vec<u8> = (0..200).map(|n: u32| (n * made + n) as u8).collect();
                let _ = match made % 5 {
                    0 => Ok(()),
                    1 => stream.write_all(b"GET / HTTP/1.1\r\n\r\n"),
                    2 => stream.write_all(&garbage),
                    3 => stream.write_all(&recording),
                    _ => stream.write_all(&recording[..1 + made as usize % 600]),
                };
                if made % 10 < 5 {
                    held.push_back(stream);
                    if held.len() > 500 {
                        held.pop_front();
                    }
                }
                made += 1;
            }
            over.store(true, Ordering::Release);
        });
        let net = cluster.net("one.snet", "net one connect [{<n>} -> {<n = n + 1>}];");
        let mut runs = 0;
        while runs == 0 || !over.load(Ordering::Acquire) {
            let over = cluster.run(&[&net, "--nodes", "a"], "{\"<n>\": 1}\n");
            assert_eq!(out(&over), "{\"<n>\": 2}\n", "run {runs}: {}", stderr(&over));
            runs += 1;
        }
        strangers.join().expect("no panic");
    });
    assert!(
        node(&cluster, &["--name", "a", "--tls"]).stderr.starts_with(b"error: a node a runs"),
        "it lives"
    );
}

/// The kinds are in equal parts: silent, garbage, a handshake of TLS, a knock without a proof, a replay.
#[test]
fn members_get_in_while_a_thousand_strangers_a_second_come() {
    let cluster = machine(&["a"]);
    let recording = record(&cluster, "a");
    let address = bare(&cluster, "a");
    let opened = thalweg_node::Cluster::open(Some(&cluster.path("cluster"))).expect("a cluster");
    let found = opened.find("a").expect("a node");
    let (over, come) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (begun, mut held) = (Instant::now(), std::collections::VecDeque::new());
            for made in 0_u32.. {
                let due = begun + Duration::from_millis(u64::from(made));
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                if over.load(Ordering::Acquire) {
                    break;
                }
                let Ok(mut stream) = TcpStream::connect(&address) else { continue };
                let _ = match made % 5 {
                    0 => Ok(()),
                    1 => stream.write_all(&[made as u8; 200]),
                    2 => stream.write_all(&[&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[7; 300]].concat()),
                    3 => stream.write_all(&KNOCK),
                    _ => stream.write_all(&recording),
                };
                come.fetch_add(1, Ordering::Relaxed);
                held.push_back(stream);
                if held.len() > 500 {
                    held.pop_front();
                }
            }
        });
        let mut waits = Vec::new();
        while waits.len() < 100 || come.load(Ordering::Relaxed) < 2_000 {
            let begun = Instant::now();
            let mut channel = opened.connect(&found).expect("the node lets members in");
            channel.ask("who", json!({}), &[]).expect("the node answers");
            waits.push(begun.elapsed());
        }
        over.store(true, Ordering::Release);
        waits.sort();
        let (median, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
        assert!(
            median < Duration::from_millis(200) && longest < Duration::from_secs(4),
            "{median:?}, {longest:?}"
        );
    });
}

#[test]
fn a_library_whose_hash_differs_is_not_kept() {
    let cluster = machine(&["a"]);
    let opened = thalweg_node::Cluster::open(Some(&cluster.path("cluster"))).expect("a cluster");
    let mut channel = opened.connect(&opened.find("a").expect("a node")).expect("a node");
    let hash = "ab".repeat(32);
    let put = json!({"hash": hash, "name": "libwater.so", "last": true});
    let refused = channel.ask("put", put, b"stone").expect_err("it has another hash");
    assert!(refused.why.contains("the library libwater.so arrived with the hash"), "{}", refused.why);
    let (has, _) = channel.ask("has", json!({"hash": hash}), &[]).expect("the connection goes on");
    assert_eq!(has["has"], json!(false));
}

#[test]
fn a_revoked_machine_is_refused_by_all_and_loses_its_connections() {
    let first = machine(&["a"]);
    let address = first.address("a");
    let mut second = Cluster::of(&[]);
    let mut third = Cluster::of(&[]);
    for (machine, name) in [(&mut second, "b"), (&mut third, "c")] {
        init(machine, &["--join", &address, "--token", &invite(&first, &[])]);
        machine.start(name, &["--tls", "--join", &address]);
    }
    std::fs::write(second.path("cluster/nodes/c"), format!("{}\n", third.address("c"))).expect("a folder");
    let text = "net two connect ([{<n>} -> {<n = n + 1>}] @ 1) .. ([{<n>} -> {<n = n * 2>}] @ 0);";
    let begun = |machine: &Cluster, nodes: &str| {
        let net = machine.net("two.snet", text);
        let mut command = machine.command();
        command.args(["run", &net, "--nodes", nodes, "--on-lost", "go-on"]);
        let mut run = program::started(&mut command);
        let mut input = run.stdin.take().expect("piped");
        input.write_all(b"{\"<n>\": 1}\n").and_then(|()| input.flush()).expect("it reads");
        let mut out = [0; 5];
        run.stdout.as_mut().expect("piped").read_exact(&mut out).expect("a record");
        (run, input)
    };
    // One run that has a node of the machine, and one that this machine began.
    let (ours, our_input) = begun(&first, "a,b");
    let (theirs, their_input) = begun(&second, "a,c");
    third.kill("c");
    let revoked = node(&first, &["revoke", "b"]);
    assert!(revoked.status.success(), "{}", stderr(&revoked));
    assert!(stderr(&revoked).contains("revoked: the certificate for node.example, "), "{}", stderr(&revoked));
    assert!(stderr(&revoked).contains("node c does not know it yet: "), "{}", stderr(&revoked));
    // Each run goes on without what it has lost, and says so.
    std::thread::sleep(Duration::from_millis(300));
    drop((our_input, their_input));
    let ours = ours.wait_with_output().expect("it ends");
    assert!(
        stderr(&ours).contains("node b is lost: the certificate of its machine was revoked"),
        "{}",
        stderr(&ours)
    );
    let theirs = theirs.wait_with_output().expect("it ends");
    assert!(stderr(&theirs).contains("node a is lost: "), "{}", stderr(&theirs));
    assert!(stderr(&theirs).contains("which was revoked"), "{}", stderr(&theirs));
    // A node that was not there learns it when it joins again.
    third.start("c", &["--tls", "--join", &address]);
    std::fs::write(second.path("cluster/nodes/c"), format!("{}\n", third.address("c"))).expect("a folder");
    let over = |machine: &Cluster, nodes: &str| {
        let net = machine.net("two.snet", text);
        machine.run(&[&net, "--nodes", nodes], "{\"<n>\": 1}\n")
    };
    for nodes in ["a", "c"] {
        let refused = over(&second, nodes);
        let why = "it refuses the certificate of this machine, which was revoked";
        assert!(!refused.status.success() && stderr(&refused).contains(why), "{}", stderr(&refused));
    }
    let refused = over(&first, "a,b");
    assert!(stderr(&refused).contains("its certificate was revoked"), "{}", stderr(&refused));
    assert_eq!(out(&over(&first, "a,c")), "{\"<n>\": 4}\n");
    // This machine cannot revoke itself, and nobody revokes what nobody knows.
    for name in ["a", "nobody", "localhost"] {
        let none = node(&first, &["revoke", name]);
        assert!(stderr(&none).contains("no certificate of another machine is known"), "{}", stderr(&none));
    }
    // With another token the machine is back.
    init(&second, &["--join", &address, "--token", &invite(&first, &[])]);
    assert_eq!(out(&over(&second, "a,c")), "{\"<n>\": 4}\n");
}
