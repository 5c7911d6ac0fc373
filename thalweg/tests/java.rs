//! Programs in Java under the agent: `thalweg calls` agrees with the counts that the programs write
//! themselves. `cargo xtask test --only java` builds the agent, fetches what the tests need from Maven
//! Central, and runs them.

#[path = "java/faults.rs"]
mod faults;
#[path = "java/generated.rs"]
mod generated;
mod rounds;
mod slow_reader;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rounds::{rounds, side_by_side};
use serde_json::Value;
use slow_reader::{processor_time, read_slowly};
use tempfile::TempDir;

/// The number of generated programs that run in JVMs of their own.
const PROGRAMS: u64 = 24;
/// The number of further programs with names in ASCII.
const OF_ASCII: u64 = 2;
/// The number of all programs for `cargo xtask test --only java`; the next constant is the number of programs
/// that one JVM runs one after the other.
const ALL_PROGRAMS: u64 = 1000;
const OF_A_JVM: u64 = 61;

/// The parts of the generated programs that are not recorded.
const LEFT_OUT: &str = "exclude=truth.*,exclude=*.Dispatch.*,exclude=*.Dispatch,exclude=*.call_*,exclude=*.Program.n?,exclude=*lambda$*,\
     exclude=*.Program.<init>,exclude=*Does*,exclude=*.<clinit>";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn named(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable);
    PathBuf::from(path.unwrap_or_else(|| panic!("`cargo xtask test --only java` sets {variable}")))
}

/// The folder with the programs' classes.
fn classes() -> &'static Path {
    static CLASSES: OnceLock<PathBuf> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("java");
        let sources = folder.join("sources");
        let _ = std::fs::remove_dir_all(&folder);
        let mut compile = Command::new("javac");
        compile.arg("-cp").arg(named("THALWEG_AGENT")).args([
            "-encoding",
            "UTF-8",
            "-source",
            "8",
            "-target",
            "8",
            "-Xlint:-options",
            "-nowarn",
            "-d",
        ]);
        compile.arg(folder.join("classes")).arg(root().join("thalweg/tests/data/java/Truth.java"));
        for seed in 1..=rounds(PROGRAMS + OF_ASCII, ALL_PROGRAMS + OF_ASCII) {
            let package = format!("g{seed}");
            let is_ascii = (PROGRAMS + 1..=PROGRAMS + OF_ASCII).contains(&seed);
            let file = sources.join(&package).join("Program.java");
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, generated::program(&package, seed, is_ascii)).unwrap();
            compile.arg(file);
        }
        compile.arg("-J-Xmx1g");
        let output = compile.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        folder.join("classes")
    })
}

/// A folder for the space of a program.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A JVM with the agent and these options of it.
    fn java(&self, options: &str) -> Command {
        let mut command = Command::new("java");
        let agent = named("THALWEG_AGENT");
        let space = self.folder.path().join("spaces");
        // The options come last, because the last of two equal ones counts.
        command.arg(format!("-javaagent:{}=bytes=16M,space={},{options}", agent.display(), space.display()));
        command.args(["-Xshare:auto", "-XX:TieredStopAtLevel=1"]).arg("-cp").arg(classes());
        command.env("THALWEG_SPACES", space).env_remove("THALWEG_SESSION");
        command
    }

    fn thalweg(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(arguments).env("THALWEG_SPACES", self.folder.path().join("spaces"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn space(&self) -> String {
        let spaces = std::fs::read_dir(self.folder.path().join("spaces")).unwrap();
        spaces.map(|entry| entry.unwrap().path().display().to_string()).next().unwrap()
    }

    fn calls(&self) -> Value {
        serde_json::from_str(&self.thalweg(&["calls", &self.space(), "--json"])).unwrap()
    }

    /// The counts of calls and failures of each path, as the program wrote them.
    fn written(&self) -> Paths {
        let mut paths = Paths::new();
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with("truth.") {
                for line in std::fs::read_to_string(path).unwrap().lines() {
                    let (operations, how) = line.rsplit_once(' ').unwrap();
                    let figures = paths.entry(operations.to_owned()).or_default();
                    figures.0 += 1;
                    figures.1 += u64::from(how != "r");
                }
            }
        }
        paths
    }
}

/// For each path, the number of calls, and the number of calls that an exception left.
type Paths = BTreeMap<String, (u64, u64)>;

/// The counts of each path, as `thalweg calls` reports them.
fn reported_counts(calls: &Value) -> Paths {
    let operations = calls["operations"].as_array().unwrap().iter();
    let names: BTreeMap<u64, &str> = operations
        .map(|operation| (operation["id"].as_u64().unwrap(), operation["name"].as_str().unwrap()))
        .collect();
    let mut paths: Vec<String> = Vec::new();
    let mut counts = Paths::new();
    for node in calls["tree"].as_array().unwrap() {
        let name = names[&node["operation"].as_u64().unwrap()];
        let path = match node["parent"].as_u64() {
            Some(parent) => format!("{}/{name}", paths[parent as usize]),
            None => name.to_owned(),
        };
        // Calls of a path and work that was handed over on that path are separate nodes, whose figures are
        // added here.
        let figures = counts.entry(path.clone()).or_default();
        figures.0 += node["count"].as_u64().unwrap();
        figures.1 += node["failed"].as_u64().unwrap();
        paths.push(path);
    }
    counts
}

fn succeed(command: &mut Command, context: &str) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{context}: {} {stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Checks the calls of a program against those that it wrote. Returns their number.
fn assert_as_written(place: &Place, context: &str) -> u64 {
    let calls = place.calls();
    assert_eq!(calls["lost"], 0, "{context}");
    assert_eq!(calls["notes"], serde_json::json!([]), "{context}");
    let (written, reported) = (place.written(), reported_counts(&calls));
    assert!(written.len() > 1, "{context}");
    for (path, figures) in &written {
        assert_eq!(reported.get(path), Some(figures), "{context}: {path}");
    }
    assert_eq!(
        reported.len(),
        written.len(),
        "{context}: {:?}",
        reported.keys().find(|path| !written.contains_key(*path))
    );
    written.values().map(|(count, _)| count).sum()
}

fn trees(place: &Place, options: &str, seed: u64, threads: u64) -> Command {
    let mut command = place.java(&format!("include=g*,{LEFT_OUT}{options}"));
    command.args(["truth.Truth", "trees", &format!("g{seed}.Program"), &seed.to_string(), "15"]);
    command.arg(threads.to_string()).arg(place.path("truth"));
    command
}

const OPTIONS: [&str; 4] = ["", ",native=off", ",events=pairs", ",boot=on"];

/// Hundreds of random trees with recursion, exceptions, constructors, overloads, names in any script, threads
/// that begin and end, and work that is handed over to executors.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn call_trees_are_those_that_generated_programs_made() {
    classes();
    side_by_side(PROGRAMS, "random call trees in Java, a JVM each", |round| {
        let (place, seed) = (Place::new(), round + 1);
        let options = OPTIONS[seed as usize % 4];
        let context = format!("program {seed}{options}");
        let stdout = succeed(&mut trees(&place, options, seed, seed % 4 + 1), &context);
        // With a longer boot path a JVM warns that it shares fewer classes.
        assert!(stdout.is_empty() || options == ",boot=on", "program {seed}: {stdout}");
        assert_as_written(&place, &context)
    });
}

/// The other generated programs, of which each JVM runs many.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn call_trees_of_many_programs_in_one_jvm() {
    let (begin, last) = (PROGRAMS + OF_ASCII + 1, rounds(0, ALL_PROGRAMS + OF_ASCII));
    let jvms = (last + 1).saturating_sub(begin).div_ceil(OF_A_JVM);
    classes();
    let what = format!("random call trees in Java, {OF_A_JVM} programs in a JVM");
    side_by_side(jvms, &what, |jvm| {
        let first = begin + jvm * OF_A_JVM;
        let until = (first + OF_A_JVM - 1).min(last);
        let options = OPTIONS[jvm as usize % 4];
        let place = Place::new();
        let mut command = place.java(&format!("include=g*,{LEFT_OUT}{options}"));
        command.args([
            "truth.Truth",
            "many",
            &first.to_string(),
            &until.to_string(),
            "15",
            &place.path("truth"),
        ]);
        let context = format!("programs {first} to {until}{options}");
        succeed(&mut command, &context);
        assert_as_written(&place, &context)
    });
}

/// A client in Java calls a server in Rust, which calls a library in C that calls back: three writers in two
/// processes record one tree.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn a_trace_crosses_java_rust_and_c() {
    let place = Place::new();
    let session = place.path("session");
    let library = place.path("libpair.so");
    let mut compile = Command::new("gcc");
    compile.args(["-std=gnu11", "-O2", "-shared", "-fPIC", "-pthread", "-I"]).arg(root().join("bindings/c"));
    succeed(compile.arg(root().join("thalweg/tests/data/probed/pair.c")).arg("-o").arg(&library), "gcc");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "-p", "thalweg", "--example", "probed"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    succeed(build.current_dir(root()), "cargo");
    let program = Path::new(env!("CARGO_BIN_EXE_thalweg")).parent().unwrap().join("examples/probed");
    let mut server = Command::new(program);
    server
        .args(["serve", &library])
        .env("THALWEG_SESSION", &session)
        .env("THALWEG_SPACES", place.path("spaces"));
    let mut server = Killed(server.stdout(Stdio::piped()).spawn().unwrap());
    let mut port = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let main = "import java.io.*; import java.net.Socket; import org.thalweg.agent.Probes;
        public class Client {
            static void ask(int port, String text) throws IOException {
                Socket socket = new Socket(\"127.0.0.1\", port);
                PrintStream out = new PrintStream(socket.getOutputStream(), true);
                out.println(text);
                new BufferedReader(new InputStreamReader(socket.getInputStream())).readLine();
                socket.close();
            }
            static void order(int port) throws IOException { ask(port, Probes.traceparent(55)); }
            static void browse(int port) throws IOException { order(port); order(port); }
            public static void main(String[] a) throws IOException {
                int port = Integer.parseInt(a[0]);
                for (int n = 0; n < 5; n++) browse(port);
                ask(port, \"end\");
            } }";
    std::fs::write(place.path("Client.java"), main).unwrap();
    let agent = named("THALWEG_AGENT").display().to_string();
    let mut compile = Command::new("javac");
    succeed(compile.args(["-cp", &agent, "-d", &place.path("classes"), &place.path("Client.java")]), "javac");
    let mut client = Command::new("java");
    client.arg(format!("-javaagent:{agent}=include=Client.order,include=Client.browse,session={session}"));
    client.arg("-cp").arg(place.path("classes")).args(["Client", port.trim()]);
    succeed(client.env("THALWEG_SPACES", place.path("spaces")), "the client");
    assert!(server.0.wait().unwrap().success());
    let calls: Value = serde_json::from_str(&place.thalweg(&["calls", &session, "--json"])).unwrap();
    let paths: Vec<(String, u64)> =
        reported_counts(&calls).into_iter().map(|(path, (count, _))| (path, count)).collect();
    let wanted = [
        ("Client.browse", 5),
        ("Client.browse/Client.order", 10),
        ("Client.browse/Client.order/rust_request", 10),
        ("Client.browse/Client.order/rust_request/c_work", 10),
        ("Client.browse/Client.order/rust_request/c_work/rust_inner", 20),
    ];
    assert_eq!(paths, wanted.map(|(path, count)| (path.to_owned(), count)));
    assert_eq!(calls["notes"], serde_json::json!([]));
}

/// With `executors=on`, work that recorded methods give to executors and threads belongs to their traces;
/// without, it begins traces of its own. Work that an executor compares or cancels goes on as before.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn work_for_executors_and_threads_is_handed_over() {
    const GIVEN: u64 = 8;
    let main = "import java.util.concurrent.*;
        public class Gives {
            static ExecutorService pool = Executors.newFixedThreadPool(2);
            static ExecutorService sorted = new ThreadPoolExecutor(1, 1, 1, TimeUnit.SECONDS, new PriorityBlockingQueue<Runnable>());
            static void work() {}
            static class First implements Runnable, Comparable<First> {
                public void run() { work(); }
                public int compareTo(First other) { return 0; }
            }
            static Integer result() { work(); return 7; }
            static void give() throws Exception {
                Runnable plain = () -> work();
                pool.submit(plain).get();
                pool.submit(plain, \"done\").get();
                if (pool.submit((Callable<Integer>) () -> result()).get() != 7) throw new Error();
                CountDownLatch latch = new CountDownLatch(1);
                pool.execute(() -> { work(); latch.countDown(); });
                latch.await();
                if (CompletableFuture.supplyAsync(() -> result()).get() != 7) throw new Error();
                CompletableFuture.runAsync(plain, pool).get();
                Thread one = new Thread(plain);
                one.start();
                one.join();
                Thread named = new Thread(plain, \"named\");
                named.start();
                named.join();
            }
            static void compare() throws Exception {
                for (int n = 0; n < 9; n++) sorted.execute(new First());
                sorted.shutdown();
                sorted.awaitTermination(9, TimeUnit.SECONDS);
            }
            public static void main(String[] a) throws Exception { give(); give(); compare(); pool.shutdown(); } }";
    for (option, is_handed) in [(",executors=on", true), ("", false)] {
        let place = Place::new();
        std::fs::write(place.path("Gives.java"), main).unwrap();
        let mut compile = Command::new("javac");
        succeed(compile.args(["-d", &place.path("classes"), &place.path("Gives.java")]), "javac");
        let include = "include=Gives.give,include=Gives.work,include=Gives.compare";
        let mut run = place.java(&format!("{include}{option}"));
        let error = run.arg("-cp").arg(place.path("classes")).arg("Gives").output().unwrap();
        assert!(error.status.success(), "{option}: {}", String::from_utf8_lossy(&error.stderr));
        let calls = place.calls();
        let counts = reported_counts(&calls);
        let count = |path: &str| counts.get(path).map_or(0, |(count, _)| *count);
        assert_eq!(
            count("Gives.give/Gives.work"),
            if is_handed { 2 * GIVEN } else { 0 },
            "{option}: {counts:?}"
        );
        assert_eq!(count("Gives.work"), if is_handed { 9 } else { 2 * GIVEN + 9 }, "{option}: {counts:?}");
        assert_eq!(calls["notes"], serde_json::json!([]), "{option}");
    }
}

/// A `traceparent` that is valid by the W3C's recommendation is continued, and no other text.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn traceparents_follow_the_recommendation() {
    let place = Place::new();
    let main = "import java.nio.file.*; import org.thalweg.agent.Probes;
        public class Accepts { public static void main(String[] a) throws Exception {
            for (String line : Files.readAllLines(Paths.get(a[0]))) {
                int space = line.indexOf(' ');
                boolean is = Probes.continueTrace(line.substring(space + 1), 0);
                if (is != line.startsWith(\"good\")) System.out.println(line);
            } } }";
    std::fs::write(place.path("Accepts.java"), main).unwrap();
    let agent = named("THALWEG_AGENT").display().to_string();
    let mut compile = Command::new("javac");
    succeed(
        compile.args(["-cp", &agent, "-d", &place.path("classes"), &place.path("Accepts.java")]),
        "javac",
    );
    let mut run = place.java("include=Accepts.*");
    let table = root().join("thalweg/tests/data/probed/traceparents.txt");
    run.arg("-cp").arg(place.path("classes")).arg("-Dfile.encoding=UTF-8").arg("Accepts").arg(table);
    assert_eq!(succeed(&mut run, "the program"), "", "these are taken for what they are not");
}

/// Each of many operations has its call and its exact name: in any script, of 10 KB.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn operations_may_be_many_and_have_any_names() {
    const OF_A_CLASS: u64 = 500;
    const SCRIPTS: [&str; 6] = ["order", "größe", "заказ", "価格", "سعر", "π_$"];
    let place = Place::new();
    let classes_count = rounds(20, 2000);
    let (mut main, mut wanted) = (String::new(), BTreeMap::new());
    let mut compile = Command::new("javac");
    compile.args(["-encoding", "UTF-8", "-nowarn", "-J-Xmx4g", "-d", &place.path("classes")]);
    for class in 0..classes_count {
        let (mut methods, mut all) = (String::new(), String::new());
        for n in 0..OF_A_CLASS {
            let mut name = format!("{}{n}", SCRIPTS[(n % 6) as usize]);
            if n == 17 && class % 7 == 0 {
                name += &"x".repeat(10_240 - name.len());
            }
            methods += &format!("static int {name}() {{ return {n}; }}\n");
            all += &format!("sum += C{class}.{name}();\n");
            wanted.insert(format!("many.C{class}.{name}"), 1);
        }
        let text = format!(
            "package many;\nclass C{class} {{\n{methods}}}\nclass A{class} {{ static int all() {{ int sum = 0;\n{all}return sum; }} }}\n"
        );
        let file = place.path(&format!("C{class}.java"));
        std::fs::write(&file, text).unwrap();
        compile.arg(file);
        main += &format!("sum += A{class}.all();\n");
    }
    let file = place.path("Main.java");
    let text = format!(
        "package many;\npublic class Main {{ public static void main(String[] a) {{ int sum = 0;\n{main}System.out.println(sum); }} }}\n"
    );
    std::fs::write(&file, text).unwrap();
    succeed(compile.arg(file), "javac");
    let mut run = place.java("include=many.C*,bytes=128M");
    let printed = succeed(run.arg("-cp").arg(place.path("classes")).arg("many.Main"), "the program");
    let sum: u64 = (0..OF_A_CLASS).sum();
    assert_eq!(printed.trim(), (sum * classes_count).to_string());
    let calls = place.calls();
    assert_eq!((&calls["lost"], &calls["not_recorded"]), (&Value::from(0), &Value::from(0)));
    let counts = calls["operations"].as_array().unwrap().iter();
    let counts: BTreeMap<String, u64> = counts
        .map(|one| (one["name"].as_str().unwrap().to_owned(), one["count"].as_u64().unwrap()))
        .collect();
    assert!(counts == wanted, "{} of {} operations", counts.len(), wanted.len());
}

/// A virtual thread needs an element only during a trace: 50 threads with 15 traces each need at most one
/// element each, and `main` needs one.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn calls_of_virtual_threads_are_recorded() {
    let Some(java) = later_java() else {
        let line = "\nskipped: calls_of_virtual_threads_are_recorded: there is no JVM from version 21 on in /usr/lib/jvm\n";
        // The line is written past the test harness, which would hide it, so that the test command can count
        // it.
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        return;
    };
    let place = Place::new();
    let plain = trees(&place, "", 1, 50);
    let mut command = Command::new(java);
    command.args(plain.get_args()).arg("virtual").env("THALWEG_SPACES", place.path("spaces"));
    assert_eq!(succeed(&mut command, "virtual threads"), "");
    assert_as_written(&place, "virtual threads");
    let elements = std::fs::read_dir(place.space()).unwrap().flatten();
    let elements =
        elements.filter(|entry| entry.path().extension().is_some_and(|end| end == "element")).count();
    assert!(elements <= 51, "{elements}");
}

fn later_java() -> Option<PathBuf> {
    for entry in std::fs::read_dir("/usr/lib/jvm").ok()?.flatten() {
        let release = std::fs::read_to_string(entry.path().join("release")).unwrap_or_default();
        let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""));
        let major =
            version.and_then(|version| version.split('.').next()?.trim_end_matches('"').parse::<u32>().ok());
        if major.is_some_and(|major| major >= 21) {
            return Some(entry.path().join("bin/java"));
        }
    }
    None
}

/// Kieker's or OpenTelemetry's agent instruments the same methods, loaded before our agent or after it.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn another_agent_does_not_disturb() {
    for (seed, other, is_first) in [
        (PROGRAMS + 1, "THALWEG_OTHER_AGENT", true),
        (PROGRAMS + 2, "THALWEG_OTHER_AGENT", false),
        (PROGRAMS + 1, "THALWEG_OPENTELEMETRY", false),
        (PROGRAMS + 2, "THALWEG_OPENTELEMETRY", true),
    ] {
        let place = Place::new();
        let plain = trees(&place, "", seed, 2);
        let mut arguments: Vec<_> = plain.get_args().map(|argument| argument.to_owned()).collect();
        arguments.insert(usize::from(!is_first), format!("-javaagent:{}", named(other).display()).into());
        let mut command = Command::new("java");
        command.arg(format!(
            "-Dkieker.monitoring.writer.filesystem.FileWriter.customStoragePath={}",
            place.folder.path().display()
        ));
        command.arg(format!("-Dotel.instrumentation.methods.include=g{seed}.Program[call]"));
        for option in ["traces.exporter=console", "metrics.exporter=none", "logs.exporter=none"] {
            command.arg(format!("-Dotel.{option}"));
        }
        command.args(arguments).env("KIEKER_SIGNATURES_INCLUDE", format!("g{seed}.Program"));
        let output = command.env("THALWEG_SPACES", place.path("spaces")).output().unwrap();
        let (context, said) = (format!("beside {other}, first: {is_first}"), output.stderr);
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success(), "{context}: {said}");
        assert_as_written(&place, &context);
        let kieker = std::fs::read_dir(place.folder.path()).unwrap().flatten();
        let kieker = kieker.filter(|entry| entry.file_name().to_string_lossy().starts_with("kieker-"));
        let is_at_work =
            if other == "THALWEG_OTHER_AGENT" { kieker.count() > 0 } else { said.contains("Program.call") };
        assert!(is_at_work, "{context}: {said}");
    }
}

/// A program that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The counters of the program's threads: calls begun, calls done.
fn counters(path: &str) -> Vec<(u64, u64)> {
    let bytes = std::fs::read(path).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap());
    (0..2).map(|thread| (word(2 * thread), word(2 * thread + 1))).collect()
}

/// After `kill -9` at random moments, every call that was finished is recorded, and none that was not begun.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn what_was_recorded_survives_the_program() {
    side_by_side(rounds(40, 300), "kills of a program in Java", |round| {
        let place = Place::new();
        let truth = place.path("counted");
        std::fs::write(&truth, vec![0; 4096]).unwrap();
        let mut command = place
            .java(["include=truth.Truth$Loops", "include=truth.Truth$Loops,native=off"][round as usize % 2]);
        let mut killed = Killed(command.args(["truth.Truth", "endless", "2", &truth]).spawn().unwrap());
        let mut slept = Duration::ZERO;
        while counters(&truth).iter().any(|(_, done)| *done < 10 + 2003 * (round % 40)) {
            let pause = Duration::from_micros(100 + 37 * round);
            std::thread::sleep(pause);
            // Only time in which this thread runs counts: the machine may stop all processes.
            slept += pause;
            assert!(slept < Duration::from_secs(60), "nothing is called");
        }
        killed.0.kill().unwrap();
        killed.0.wait().unwrap();
        let (least, most) =
            counters(&truth).iter().fold((0, 0), |(least, most), (begun, done)| (least + done, most + begun));
        let calls = place.calls();
        // If the ring wrapped around, the overwritten calls are counted as lost.
        let counted = calls["calls"].as_u64().unwrap() + calls["lost"].as_u64().unwrap();
        assert!((least..=most).contains(&counted), "round {round}: {counted} of {least} to {most}");
        counted
    });
}

/// A recording may begin at any moment while threads make their elements.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn a_recording_begins_while_threads_make_their_elements() {
    for round in 0..6 {
        let place = Place::new();
        let truth = place.path("counted");
        std::fs::write(&truth, vec![0; 4096]).unwrap();
        let mut command = place.java("include=truth.Truth$Loops");
        let _killed = Killed(command.args(["truth.Truth", "endless", "8", &truth]).spawn().unwrap());
        let spaces = place.path("spaces");
        let is_there = || {
            let mut found = std::fs::read_dir(&spaces).into_iter().flatten().flatten();
            found.any(|space| space.path().join("space").exists())
        };
        let begun = Instant::now();
        while !is_there() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no space is made");
            std::thread::sleep(Duration::from_micros(300));
        }
        std::thread::sleep(Duration::from_millis(5 * round));
        place.thalweg(&["record", &place.space(), "--output", &place.path("archive"), "--for", "1s"]);
    }
}

/// A thread that waits for a slow reader most of the time takes little processor time.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn waiting_for_a_slow_reader_takes_little_processor_time() {
    const LONG: Duration = Duration::from_secs(3);
    let place = Place::new();
    let mut command = place.java("include=truth.Truth$Loops,full=wait");
    command.args(["truth.Truth", "alternate"]).stdin(Stdio::piped());
    let mut child = Killed(command.spawn().unwrap());
    writeln!(child.0.stdin.as_mut().unwrap(), "1000000000").unwrap();
    let spaces = place.path("spaces");
    let begun = Instant::now();
    let is_there = || {
        let mut found = std::fs::read_dir(&spaces).into_iter().flatten().flatten();
        found.any(|space| space.path().join("space").exists())
    };
    while !is_there() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no space is made");
        std::thread::sleep(Duration::from_millis(1));
    }
    let space = PathBuf::from(place.space());
    // The JVM starts and compiles meanwhile.
    read_slowly(&space, LONG);
    let before = processor_time(child.0.id());
    let read = read_slowly(&space, LONG);
    let taken = processor_time(child.0.id()) - before;
    assert!(read > 100_000, "{read} events were read");
    assert!(taken < LONG / 2, "{taken:?} of {LONG:?}, for {read} events");
}

/// Operations are switched by patterns, and traces sampled, while the program runs; an operation that is off
/// at the start records nothing.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn operations_are_switched_while_the_program_runs() {
    let place = Place::new();
    let mut command = place.java("include=truth.Truth$Loops,start=off");
    command.args(["truth.Truth", "alternate"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Killed(command.spawn().unwrap());
    let mut input = child.0.stdin.take().unwrap();
    let mut output = BufReader::new(child.0.stdout.take().unwrap());
    let mut call = |calls: u64| {
        writeln!(input, "{calls}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), calls.to_string());
    };
    let recorded = || place.calls()["calls"].as_u64().unwrap();
    call(10);
    assert_eq!(recorded(), 0);
    // The agent polls its switches, so calls are made until the expected number of them is recorded.
    let mut until = |each: u64| {
        let begun = Instant::now();
        loop {
            let before = recorded();
            call(20);
            if recorded() == before + 20 * each {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "the switch is not followed");
        }
    };
    let space = place.space();
    place.thalweg(&["set", &space, "probe/truth.*.on", "1"]);
    until(2);
    place.thalweg(&["set", &space, "probe/*.one.on", "0"]);
    until(1);
    place.thalweg(&["set", &space, "probe/*.t??.on", "0"]);
    until(0);
    let before = recorded();
    place.thalweg(&["set", &space, "probe/**.on", "1"]);
    until(2);
    let now = recorded();
    assert!(now > before);
    place.thalweg(&["set", &space, "probe.sample", "10"]);
    call(100);
    assert_eq!(recorded() - now, 20);
}

/// Wrong options of the agent, and places where it cannot write: the agent prints the reason on standard
/// error, and the program goes on.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn a_program_goes_on_where_nothing_can_be_recorded() {
    let place = Place::new();
    let agent = named("THALWEG_AGENT").display().to_string();
    for (options, expected) in [
        ("inlude=a.*", "there is no option `inlude`"),
        ("bytes=many", "`bytes=many`: a number such as 64k or 16M is wanted"),
        ("full=never", "overwrite, drop or wait is wanted"),
        ("include=g1.*,space=/proc/nowhere", "the directory /proc/nowhere cannot be made"),
    ] {
        let mut command = Command::new("java");
        command.arg(format!("-javaagent:{agent}={options}")).arg("-cp").arg(classes());
        command.args(["truth.Truth", "trees", "g1.Program", "1", "3", "1"]).arg(place.path("truth"));
        let spaces = place.path("spaces");
        let output = command.env("THALWEG_SPACES", &spaces).env_remove("THALWEG_SESSION").output().unwrap();
        assert!(!Path::new(&spaces).exists(), "{options}: a space was made");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && output.stdout.is_empty(), "{options}: {error}");
        assert!(
            error.starts_with("thalweg: nothing is recorded: ") && error.contains(expected),
            "{options}: {error}"
        );
    }
}

/// If no class matches the patterns, the agent says so when the program ends, with the patterns.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn patterns_that_match_no_class_are_told() {
    let place = Place::new();
    let agent = named("THALWEG_AGENT").display().to_string();
    for (include, is_told) in [("nowhere.*,elsewhere.*", true), ("org.h2.tools.*", false)] {
        let mut command = Command::new("java");
        command.arg(format!("-javaagent:{agent}=include={include}")).arg("-cp");
        command.arg(named("THALWEG_FOREIGN_PROGRAM")).args(["org.h2.tools.Shell", "-help"]);
        let output = command.env("THALWEG_SPACES", place.path("spaces")).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{include}: {error}");
        let said =
            format!("thalweg: nothing is recorded: no class of the program matches include={include} (");
        assert_eq!(error.starts_with(&said), is_told, "{include}: {error}");
        assert_eq!(error.is_empty(), !is_told, "{include}: {error}");
        assert_eq!(Path::new(&place.path("spaces")).exists(), !is_told, "{include}");
    }
}

/// The agent needs no writable temporary folder, which many containers lack.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn no_temporary_folder_is_needed() {
    let place = Place::new();
    let plain = trees(&place, "", 5, 1);
    let mut command = Command::new("java");
    command.arg("-Djava.io.tmpdir=/proc/nowhere").args(plain.get_args());
    succeed(command.env("THALWEG_SPACES", place.path("spaces")), "without a temporary folder");
    assert_as_written(&place, "without a temporary folder");
}

/// H2, a database from Maven Central, gives the same answers with and without the agent, and its calls are
/// recorded.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn a_foreign_program_runs_as_without_the_agent() {
    let place = Place::new();
    let mut statements = "create table t(id int primary key, name varchar(20));".to_owned();
    for n in 0..40 {
        statements += &format!("insert into t values({n}, 'name {n}');");
    }
    statements += "select count(*), sum(id), max(name) from t where id > 3;";
    let run = |command: &mut Command| {
        command.arg("-cp").arg(named("THALWEG_FOREIGN_PROGRAM")).arg("org.h2.tools.Shell");
        command.args(["-url", "jdbc:h2:mem:one", "-sql", &statements]);
        succeed(command, "the database")
    };
    let without: Vec<String> = run(&mut Command::new("java")).lines().map(str::to_owned).collect();
    let mut command = place.java("include=org.h2.*,bytes=64M");
    let with: Vec<String> = run(&mut command).lines().map(str::to_owned).collect();
    // The last line has the time of the statement.
    let answer =
        |lines: &[String]| lines.iter().filter(|line| !line.contains(" ms)")).cloned().collect::<Vec<_>>();
    assert_eq!(answer(&with), answer(&without));
    assert!(with.iter().any(|line| line.contains("774") && line.contains("name 9")), "{with:?}");
    let calls = place.calls();
    assert_eq!((calls["lost"].as_u64(), &calls["notes"]), (Some(0), &serde_json::json!([])));
    let count = |name: &str| {
        let operations = calls["operations"].as_array().unwrap().iter();
        operations.filter(|one| one["name"] == name).map(|one| one["count"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(count("org.h2.tools.Shell.main"), 1);
    assert_eq!(count("org.h2.command.dml.Insert.insertRows"), 40);
    assert!(calls["calls"].as_u64().unwrap() > 10_000);
}

/// A class generated from a description writes its arguments: numbers of all widths, texts in any script,
/// names that are words of Java.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn writers_made_from_a_description_write_what_they_are_given() {
    let place = Place::new();
    let kinds = "/// A \"thing\" */ \\u happened.\nkind shop.thing {\n    int: u8\n    class: i8\n    small: i16\n    \
                 big: u64\n    share: f64\n    text: text\n    good: bool\n    raw: bytes\n    why: enum { new = 0, old = 3 }\n}\n";
    std::fs::write(place.path("shop.kinds"), kinds).unwrap();
    let made = place.thalweg(&["kinds", &place.path("shop.kinds"), "--language", "java"]);
    std::fs::write(place.path("ShopKinds.java"), made).unwrap();
    let main = "public class Main { public static void main(String[] a) { \
                ShopKinds.emitShopThing(200, (byte) -3, (short) -300, -1L, 0.25, \"größe 価格 𝒳\", true, new byte[] {1, 2, 3}, 3); \
                org.thalweg.agent.Probes.count(\"items\", 7); } }";
    std::fs::write(place.path("Main.java"), main).unwrap();
    let agent = named("THALWEG_AGENT").display().to_string();
    let mut compile = Command::new("javac");
    compile.args(["-encoding", "UTF-8", "-cp", &agent, "-d", &place.path("classes")]);
    succeed(compile.arg(place.path("ShopKinds.java")).arg(place.path("Main.java")), "javac");
    let mut run = Command::new("java");
    run.arg("-cp").arg(format!("{agent}:{}", place.path("classes"))).arg("Main");
    succeed(run.env("THALWEG_SPACES", place.path("spaces")).env_remove("THALWEG_SESSION"), "Main");
    let events = place.thalweg(&["events", &place.space(), "--kind", "shop.*"]);
    for part in [
        "int=200",
        "class=-3",
        "small=-300",
        "big=18446744073709551615",
        "share=0.25",
        "text=\"größe 価格 𝒳\"",
        "why=old",
    ] {
        assert!(events.contains(part), "{part}: {events}");
    }
    assert_eq!(place.calls()["counters"][0]["sum"], 7, "{}", place.calls()["counters"]);
}
