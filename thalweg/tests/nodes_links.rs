//! The transports of links between the processes of a run: each gives the same results, and links move from one to
//! another while records go over them.

mod cluster;
mod des_run;
#[allow(dead_code, reason = "only signals are needed")]
mod faulty;
mod program;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Output;

use cluster::{Cluster, numbers, out, sorted, stderr};

const TRANSPORTS: [&str; 4] = ["tcp", "unix", "memory", "routed"];

fn set(cluster: &Cluster, arguments: &[&str]) -> Output {
    cluster.command().arg("set").args(arguments).output().expect("thalweg starts")
}

/// A run of one of the applications.
struct App {
    /// The package, and the network.
    of: (&'static str, &'static str),
    input: String,
    more: Vec<String>,
}

/// The five applications.
fn apps(plain: &Path) -> Vec<App> {
    let option = r#"{"spot": 100.0, "strike": 105.0, "rate": 0.03, "volatility": 0.25, "years": 1.0, "<paths>": 300, "<batches>": 30, "<lanes>": 3}"#;
    let chirp = des_run::root().join("apps/audio/tests/data/chirp.ogg");
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    let plain = plain.to_str().expect("UTF-8");
    let key = r#"{"key": {"$base64": "EzRXeZu83/E="}}"#;
    vec![
        App { of: ("app-mc", "apps/mc/farm.snet"), input: option.to_owned(), more: vec![] },
        App {
            of: ("app-rt", "apps/rt/rt.snet"),
            input: r#"{"<scenes>": 12, "<solvers>": 4, "<width>": 40, "<height>": 30}"#.to_owned(),
            more: texts(&["--order-by", "number"]),
        },
        App {
            of: ("app-audio", "apps/audio/audio.snet"),
            input: format!("{{\"file\": {:?}}}", chirp.to_str().expect("UTF-8")),
            more: texts(&["--output-bytes", "data"]),
        },
        App {
            of: ("app-des", "apps/des/des.snet"),
            input: String::new(),
            more: texts(&[
                "--input",
                plain,
                "--input-bytes",
                "data",
                "--chunk",
                "4096",
                "--with",
                key,
                "--output-bytes",
                "data",
                "--order-by",
                "seq",
            ]),
        },
        App {
            of: ("app-ant", "apps/ant/ant.snet"),
            input: r#"{"<jobs>": 12, "<ants>": 9, "<steps>": 15, "<seed>": 7}"#.to_owned(),
            more: vec![],
        },
    ]
}

impl App {
    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let (package, net) = self.of;
        let net = des_run::root().join(net).display().to_string();
        let library = des_run::library_of(package).to_str().expect("UTF-8").to_owned();
        let mut own = vec![net, "--boxes".to_owned(), library];
        own.extend(self.more.clone());
        own.extend(more.iter().map(|&one| one.to_owned()));
        own
    }

    fn run(&self, cluster: &Cluster, more: &[&str]) -> Output {
        let arguments = self.arguments(more);
        cluster.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &self.input)
    }

    /// Runs over nodes, and moves all links to another transport again and again until the run has ended. Returns how
    /// often they moved, too.
    fn run_moving(&self, cluster: &Cluster, nodes: &str) -> (Output, usize) {
        let mut command = cluster.command();
        command.arg("run").args(self.arguments(&["--nodes", nodes]));
        let mut run = program::started(&mut command);
        let net = Path::new(self.of.1).file_stem().expect("a name").to_str().expect("UTF-8");
        let session = format!("{net}-nodes-{}", run.id());
        let (mut input, text) = (run.stdin.take().expect("piped"), self.input.clone());
        let feeding = std::thread::spawn(move || _ = input.write_all(text.as_bytes()));
        let read = |mut from: Box<dyn Read + Send>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                from.read_to_end(&mut bytes).expect("it ends or sends");
                bytes
            })
        };
        let stdout = read(Box::new(run.stdout.take().expect("piped")));
        let stderr = read(Box::new(run.stderr.take().expect("piped")));
        let mut moves = 0;
        let status = loop {
            if let Some(status) = run.try_wait().expect("it runs") {
                break status;
            }
            let transport = TRANSPORTS[(moves + 1) % TRANSPORTS.len()];
            moves += usize::from(set(cluster, &[&session, "link.transport", transport]).status.success());
        };
        feeding.join().expect("it only writes");
        let [stdout, stderr] = [stdout, stderr].map(|thread| thread.join().expect("it read"));
        (Output { status, stdout, stderr }, moves)
    }
}

#[test]
fn the_applications_give_the_same_by_each_transport() {
    let cluster = Cluster::of(&["a", "b", "c", "d"]);
    let text: Vec<u8> = (0..200_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    let plain = cluster.path("plain");
    std::fs::write(&plain, &text).expect("written");
    for app in apps(&plain) {
        let mut moves = 0;
        let alone = app.run(&cluster, &[]);
        assert!(alone.status.success() && !alone.stdout.is_empty(), "{:?}: {}", app.of, stderr(&alone));
        if app.of.0 == "app-des" {
            assert!(alone.stdout == des_run::openssl(&plain), "another cipher");
        }
        for nodes in ["a", "a,b", "a,b,c,d"] {
            for transport in TRANSPORTS {
                let how = format!("link.transport={transport}");
                let over = app.run(&cluster, &["--nodes", nodes, "--set", &how]);
                assert!(over.status.success(), "{:?} over {nodes}, {how}: {}", app.of, stderr(&over));
                assert!(over.stdout == alone.stdout, "{:?} over {nodes}, {how}: another result", app.of);
            }
            let (over, moved) = app.run_moving(&cluster, nodes);
            assert!(over.status.success(), "{:?} over {nodes}, moving: {}", app.of, stderr(&over));
            assert!(over.stdout == alone.stdout, "{:?} over {nodes}, moving: another result", app.of);
            moves += moved;
        }
        assert!(moves > 0, "{:?}: no link moved", app.of);
    }
}

#[test]
fn records_keep_their_order_while_links_move() {
    let cluster = Cluster::of(&["a", "b", "c"]);
    let net = cluster.net(
        "two.snet",
        "net two connect (([{<n>} -> {<n = n + 1000>}] @ 1) !! <k> .. [{<n>} -> {<n = n + 1000>}]) @ 0;",
    );
    let mut command = cluster.command();
    command.args(["run", &net, "--nodes", "a,b,c", "--rate", "4000"]);
    let mut run = program::started(&mut command);
    let session = format!("two-nodes-{}", run.id());
    let mut input = run.stdin.take().expect("piped");
    let feeding = std::thread::spawn(move || _ = input.write_all(numbers(8_000).as_bytes()));
    let mut output = BufReader::new(run.stdout.take().expect("piped"));
    let mut lines = String::new();
    output.read_line(&mut lines).expect("text");
    let reading = std::thread::spawn(move || {
        output.read_to_string(&mut lines).expect("text");
        lines
    });
    let mut moves = 0;
    while run.try_wait().expect("it runs").is_none() {
        let transport = TRANSPORTS[(moves + 1) % TRANSPORTS.len()];
        moves += usize::from(set(&cluster, &[&session, "link.transport", transport]).status.success());
    }
    feeding.join().expect("it only writes");
    assert_eq!(reading.join().expect("it read"), out(&cluster.run(&[&net], &numbers(8_000))));
    assert!(moves >= 3, "{moves} moves");
}

/// Links between the nodes a and b go through c, which runs no part.
#[test]
fn a_node_without_parts_passes_links_on() {
    let cluster = Cluster::of(&["a", "b", "c"]);
    let net = cluster.net(
        "nested.snet",
        "net nested connect ([{<n>} -> {<n = n + 1>}] .. ([{<n>} -> {<n = n * 2>}] @ 1)) @ 0;",
    );
    let alone = cluster.run(&[&net], &numbers(2_000));
    let of_c = |transport: &str| {
        let how = format!("link.transport={transport}");
        let over = cluster.run(&[&net, "--nodes", "a,b,c", "--set", &how], &numbers(2_000));
        assert_eq!(sorted(&over), sorted(&alone), "{transport}");
        let stderr = stderr(&over);
        stderr.lines().find(|line| line.starts_with("node c: ")).expect("what it did").to_owned()
    };
    let direct = of_c("tcp");
    assert!(direct.contains(" 0 B sent, 0 B received"), "{direct}");
    let routed = of_c("routed");
    assert!(routed.contains("kB sent") && routed.contains("kB received"), "{routed}");
}

/// Links between a and b go through c until it is lost, and then through the process of the run.
#[test]
fn the_loss_of_a_node_that_passes_links_on_loses_no_record() {
    let net = "net nested connect ([{<n>} -> {<n = n + 1>}] .. ([{<n>} -> {<n = n * 2>}] @ 1)) @ 0;";
    for signal in ["-KILL", "-STOP"] {
        let cluster = Cluster::of(&["a", "b", "c"]);
        let net = cluster.net("nested.snet", net);
        let mut command = cluster.command();
        command.args(["run", &net, "--nodes", "a,b,c", "--rate", "2000", "--on-lost", "go-on"]);
        command.args(["--lease", "400ms", "--set", "link.transport=routed"]);
        let mut run = program::started(&mut command);
        let mut input = run.stdin.take().expect("piped");
        let feeding = std::thread::spawn(move || _ = input.write_all(numbers(3_000).as_bytes()));
        let mut output = BufReader::new(run.stdout.take().expect("piped"));
        let mut lines = String::new();
        output.read_line(&mut lines).expect("text");
        let (_, node) = cluster.nodes.iter().find(|(name, _)| name == "c").expect("a node");
        // The process of the node's part is what passes links on.
        for process in faulty::family(node.id()) {
            faulty::signal(signal, &[process]);
        }
        output.read_to_string(&mut lines).expect("text");
        feeding.join().expect("it only writes");
        let mut stderr = String::new();
        run.stderr.take().expect("piped").read_to_string(&mut stderr).expect("text");
        faulty::signal("-CONT", &faulty::family(node.id()));
        assert_eq!(run.wait().expect("it ends").code(), Some(1), "{stderr}");
        assert!(stderr.contains("error[E0804]: node c is lost: it "), "{stderr}");
        assert!(!stderr.contains("E0801"), "{signal}: {stderr}");
        let mut got: Vec<&str> = lines.lines().collect();
        got.sort_unstable();
        assert_eq!(got, sorted(&cluster.run(&[&net], &numbers(3_000))), "{signal}: {stderr}");
    }
}
