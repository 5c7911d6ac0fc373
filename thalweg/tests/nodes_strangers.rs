//! Strangers that connect to the sockets to which the links of a run go.

mod cluster;
#[allow(dead_code, reason = "only processes and their sockets are needed")]
mod faulty;
mod program;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use cluster::{Cluster, numbers, out, stderr};
use thalweg_link::secure::KNOCK;

/// The connections of strangers.
const STRANGERS: u32 = 10_000;
/// The connections that strangers hold open.
const HELD: usize = 600;
/// Connections that say nothing, to one process: more than it keeps.
const SILENT: usize = 600;
/// A part of a run has few descriptors, and up to 256 connections whose greeting has not come.
const DESCRIPTORS_MAX: usize = 350;

/// What a stranger sends: nothing, half of a greeting, garbage, a greeting with another token, a wish to be
/// passed on, the begin of a handshake of TLS, and a knock with a proof that it has made up.
fn greeting(round: u32) -> Vec<u8> {
    let framed = |kind: u8, bytes: u8| vec![kind, 0, 0, 0, bytes, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    match round % 7 {
        0 => Vec::new(),
        1 => [framed(1, 80), b"thalwegl\x01\0\0\0".to_vec()].concat(),
        2 => (0..100).map(|n: u32| (n * round + n) as u8).collect(),
        3 => [framed(1, 80), b"thalwegl\x01\0\0\0\0\0\0\0".to_vec(), vec![7; 64]].concat(),
        4 => [framed(9, 48), vec![7; 48]].concat(),
        5 => [&KNOCK[..], &[7; 32]].concat(),
        _ => [&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[7; 300]].concat(),
    }
}

#[test]
fn strangers_at_the_sockets_of_links_get_nowhere() {
    for more in [&[][..], &["--tls"]] {
        let mut cluster = Cluster::of(&[]);
        if !more.is_empty() {
            let made = cluster.command().args(["node", "init"]).output().expect("thalweg starts");
            assert!(made.status.success(), "{}", stderr(&made));
        }
        cluster.start("a", more);
        let net = cluster.net("plus.snet", "net plus connect ([{<n>} -> {<n = n + 1>}]) @ 0;");
        let mut command = cluster.command();
        command.args(["run", &net, "--nodes", "a"]);
        let mut run = program::started(&mut command);
        let mut input = run.stdin.take().expect("piped");
        let mut output = BufReader::new(run.stdout.take().expect("piped"));
        let mut pass = |n: u32| {
            writeln!(input, "{{\"<n>\": {n}}}").and_then(|()| input.flush()).expect("it reads");
            let mut line = String::new();
            output.read_line(&mut line).expect("text");
            assert_eq!(line, format!("{{\"<n>\": {}}}\n", n + 1));
        };
        pass(0);
        let [part] = faulty::children(cluster.nodes[0].1.id())[..] else { panic!("one part") };
        // Both ends of the run have a socket for links.
        let addresses: Vec<String> = [part, run.id()].into_iter().flat_map(faulty::listening).collect();
        assert_eq!(addresses.len(), 2, "{addresses:?}");
        let (mut held, mut connected, mut answered) = (std::collections::VecDeque::new(), 0, 0);
        let mut longest = Duration::ZERO;
        for round in 0..STRANGERS {
            let address = &addresses[round as usize % 2];
            // A process that has no room for connections refuses some.
            let Ok(mut stranger) = TcpStream::connect(address) else { continue };
            connected += 1;
            let _ = stranger.write_all(&greeting(round / 2));
            held.push_back(stranger);
            if held.len() > HELD {
                let mut oldest = held.pop_front().expect("one");
                oldest.set_nonblocking(true).expect("a socket");
                let mut answer = Vec::new();
                let _ = oldest.read_to_end(&mut answer);
                // A refusal, and with TLS the answer to a knock and an alert, are the only answers.
                answered += usize::from(!answer.is_empty());
                let rest = answer.strip_prefix(&KNOCK).map_or(&answer[..], |rest| &rest[16..]);
                assert!(matches!(rest.first(), None | Some(3 | 21)), "{answer:?}");
            }
            if round % 200 == 0 {
                let begun = Instant::now();
                pass(round);
                longest = longest.max(begun.elapsed());
            }
        }
        assert!(connected > STRANGERS * 9 / 10, "{connected} connections");
        assert!(answered > 0 && longest < Duration::from_secs(2), "{answered} answers, {longest:?}");
        drop(held);
        for (process, address) in [part, run.id()].into_iter().zip(&addresses) {
            let silent: Vec<_> = (0..SILENT).filter_map(|_| TcpStream::connect(address).ok()).collect();
            pass(0);
            let held = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it runs").count();
            assert!(silent.len() == SILENT && held < DESCRIPTORS_MAX, "{held} descriptors");
        }
        (0..100).for_each(pass);
        drop(input);
        let mut said = String::new();
        run.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        assert!(run.wait().expect("it ends").success(), "{said}");
        let again = cluster.run(&[&net, "--nodes", "a"], &numbers(10));
        assert_eq!(out(&again).lines().count(), 10, "{}", stderr(&again));
    }
}
