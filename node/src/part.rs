//! The process that runs a session's parts on one node. The node sends requests to the process over the
//! socket that is its standard input, and ends it by closing that socket.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_exec::{Mode, Options, Runtime};
use thalweg_host::{Error, chain, libraries, settings};
use thalweg_net::crash::CrashWatch;
use thalweg_net::library::unload_unused;
use thalweg_net::run::{Elsewhere, Opened, Serving, Session, StartOptions, Ways};
use thalweg_net::{Boxes, CALLS_MAX, Loading, Network, RecordError, StrayLine};
use thalweg_space::archive::SpaceSource;
use thalweg_space::reader::SpaceReader;
use thalweg_space::{ElementOptions, Policy, SharedMap, Space, SpaceOptions};

use crate::certificates::Certificates;
use crate::channel::{BLOB_MAX, Channel, Refused, hex, unhex};
use crate::fabric::Fabric;
use crate::keeper::Keeper;
use crate::placement::Placement;
use crate::shared_map::Exchange;

/// The most failed records in one answer.
const FAILURES_MAX: usize = 1000;

/// How long parts may take to end when the process that began the session has ended its own. A task that
/// waits longer waits for a process that has ended.
const ENDING_MAX: Duration = Duration::from_secs(5);

/// Which components are on which node, as every process of a session computes it.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    pub(crate) placement: Placement,
    pub(crate) shares_out: bool,
    pub(crate) gives_back: bool,
}

impl Map {
    /// The node for a number in the network's text. Numbers beyond the last node begin again with the first.
    /// The process that began the session is not counted.
    pub(crate) fn of_place(count: usize, number: u64) -> usize {
        match count as u64 {
            0 | 1 => 0,
            count => 1 + (number % (count - 1)) as usize,
        }
    }

    pub(crate) fn of_component(&self, names: &[String], path: &str) -> Option<usize> {
        let node = self.placement.node_of(path)?;
        names.iter().position(|name| name == node)
    }
}

/// Serves the parts of one session until the node ends the session, or is gone.
///
/// # Errors
/// Standard input is no socket of a node.
pub fn serve_part() -> Result<(), Error> {
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(Error::usage_of)?;
    let mut channel = Channel::private(UnixStream::from(socket));
    let mut part = None;
    loop {
        let (head, _) = match channel.receive() {
            Ok(Some(question)) => question,
            // The node is gone, and with it every user of this process.
            Ok(None) if part.is_some() => std::process::exit(1),
            Ok(None) => return Ok(()),
            Err(error) => {
                return Err(
                    Error::usage("this command is started by `thalweg node`, for a session").because(error)
                );
            }
        };
        let what = head["do"].as_str().unwrap_or_default();
        let answer = match (what, &mut part) {
            ("open", None) => Part::open(&head).map(|(opened, answer)| {
                part = Some(opened);
                (answer, Vec::new())
            }),
            (_, Some(part)) => part.answer(what, &head),
            _ => Err(Refused::new(format!("`{what}` cannot be asked of a session that is not open"))),
        };
        if channel.answer(answer).is_err() {
            std::process::exit(1);
        }
        if what == "close" {
            return Ok(());
        }
    }
}

/// The parts of a session that run in this process.
struct Part {
    fabric: Arc<Fabric>,
    runtime: Option<Runtime>,
    space: Space,
    shared_map: SharedMap,
    /// What the process that began the session knows of the shared map.
    exchange: Exchange,
    /// Whether every event is kept.
    is_kept: bool,
    /// The thread that keeps every event, until the session ends.
    keeper: Option<Keeper>,
    /// What is sent of the space to the process that began the session, if that is on another machine.
    source: Option<SpaceSource>,
    /// The network whose parts run here, and its boxes.
    program: Program,
    map: Map,
    options: StartOptions,
    errors: Receiver<RecordError>,
    strays: Receiver<StrayLine>,
    /// Failures that did not fit into the last answer.
    waiting: VecDeque<Vec<u8>>,
    /// The thread that waits for the end of all tasks.
    joining: Option<JoinHandle<Value>>,
    /// When the end of the session was first asked for.
    ending_since: Option<Instant>,
    _crash_watch: CrashWatch,
}

/// A network as the process that began the session sent it.
struct Program {
    network: Network,
    boxes: Boxes,
    /// The libraries' files.
    libraries: Vec<PathBuf>,
}

impl Program {
    /// Writes the texts into a new folder inside the session's folder, and reads the network.
    fn read(asked: &Value) -> Result<Program, Error> {
        let text = |key: &str| asked[key].as_str().unwrap_or_default();
        let is = |key: &str| asked[key] == json!(true);
        let folder = Path::new(text("folder")).join(asked["number"].as_u64().unwrap_or_default().to_string());
        write_files(&folder, &asked["files"])?;
        let libraries: Vec<PathBuf> = texts(&asked["libraries"]).into_iter().map(PathBuf::from).collect();
        let loading = if is("replaceable") { Loading::Replaceable } else { Loading::Stays };
        let mut boxes = libraries::load(&libraries, loading)?;
        if is("allow_exec") {
            boxes.allow_commands();
        }
        let network = Network::load(&folder.join(text("main")), &boxes).map_err(Error::text)?;
        Ok(Program { network, boxes, libraries })
    }
}

pub(crate) fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

pub(crate) fn pairs(value: &Value) -> Vec<(String, String)> {
    let pair = |pair: &Value| Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned()));
    value.as_array().into_iter().flatten().filter_map(pair).collect()
}

/// The number of processes over which replicas are distributed.
fn count_of(asked: &Value) -> usize {
    asked["count"].as_u64().unwrap_or(1) as usize
}

fn refuse(error: &Error) -> Refused {
    let shown: Vec<String> = error.diagnostics().iter().map(|diagnostic| diagnostic.render(false)).collect();
    Refused::new(if shown.is_empty() { chain(error) } else { shown.join("\n") })
}

impl Part {
    fn open(asked: &Value) -> Result<(Part, Value), Refused> {
        Part::try_open(asked).map_err(|error| refuse(&error))
    }

    fn try_open(asked: &Value) -> Result<(Part, Value), Error> {
        let text = |key: &str| asked[key].as_str().unwrap_or_default();
        let is = |key: &str| asked[key] == json!(true);
        let program = Program::read(asked)?;
        let names = texts(&asked["names"]);
        let here = asked["here"].as_u64().unwrap_or_default() as usize;
        let session = unhex(text("session")).ok_or_else(|| Error::usage("the session has no number"))?;
        let token = unhex(text("token")).ok_or_else(|| Error::usage("the session has no token"))?;
        let name = names.get(here).cloned().unwrap_or_default();
        let identity = match asked["cluster"].as_str() {
            Some(folder) => Some(Certificates::of(Path::new(folder)).identity()?),
            None => None,
        };
        let fabric =
            Fabric::new(here, names, (session, token), text("host"), identity).map_err(Error::run)?;
        fabric.set_count(count_of(asked));
        let map = Map {
            placement: Placement::of_lines(pairs(&asked["placement"])),
            shares_out: is("shares_out"),
            gives_back: is("gives_back"),
        };
        let space = space(asked, &format!("{}@{name}", program.network.name()))?;
        fabric.declare(Some(&space)).map_err(Error::run)?;
        // Before libraries are loaded, because their boxes may write values.
        let shared_map = space.shared_map().map_err(Error::run_of)?;
        shared_map.join(here, &fabric.names());
        let runtime = runtime(asked, &space)?;
        let crash_watch = CrashWatch::new(space.path())
            .map_err(|error| Error::run("cannot watch for crashes of boxes").because(error))?;
        let options = StartOptions { exact_failures: is("exact_failures"), ..StartOptions::default() };
        let (Serving { errors, strays }, fingerprint) =
            serve(&program, (&runtime, options), &fabric, map.clone())?;
        runtime.start();
        set(&pairs(&asked["settings"]), &space)?;
        fabric.look();
        let keeper = is("keep").then(|| Keeper::start(space.path())).transpose()?;
        let answer = json!({
            "address": fabric.address(),
            "fingerprint": fingerprint,
            "space": space.path().to_string_lossy(),
            "uuid": uuid_of(&space),
            "hz": space.clock().hz().round() as u64,
        });
        let part = Part {
            fabric,
            runtime: Some(runtime),
            space,
            exchange: Exchange::new(shared_map.clone(), 0),
            shared_map,
            is_kept: keeper.is_some(),
            keeper,
            source: None,
            program,
            map,
            options,
            errors,
            strays,
            waiting: VecDeque::new(),
            joining: None,
            ending_since: None,
            _crash_watch: crash_watch,
        };
        Ok((part, answer))
    }

    fn answer(&mut self, what: &str, asked: &Value) -> Result<(Value, Vec<u8>), Refused> {
        for lost in asked["lost"].as_array().into_iter().flatten() {
            let (node, why) = (lost[0].as_u64().unwrap_or(u64::MAX) as usize, lost[1].as_str());
            self.fabric.lose(node, why.unwrap_or("it is lost"));
        }
        self.fabric.look();
        self.exchange.asked(asked);
        match what {
            "meet" => {
                self.exchange.meet();
                self.fabric.meet(&texts(&asked["addresses"]));
                Ok((json!({}), Vec::new()))
            }
            "add" => {
                // A node that joins is added by all before it is counted by any.
                let node = asked["node"].as_u64().unwrap_or(u64::MAX) as usize;
                let text = |key: &str| asked[key].as_str().unwrap_or_default();
                self.fabric.add(node, text("name"), text("address"));
                self.shared_map.know(&self.fabric.names());
                Ok((json!({}), Vec::new()))
            }
            "count" => {
                self.fabric.set_count(count_of(asked));
                Ok((json!({}), Vec::new()))
            }
            "renew" => self.renew(asked).map(|answer| (answer, Vec::new())).map_err(|error| refuse(&error)),
            "reload" => self.reload(asked).map(|answer| (answer, Vec::new())).map_err(|error| refuse(&error)),
            "poll" => Ok(self.poll()),
            "ticks" => {
                let clock = self.space.clock();
                Ok((json!({"received": clock.now(), "sent": clock.now()}), Vec::new()))
            }
            "fetch" => self.fetch(asked).map_err(|error| Refused::new(format!("{error:#}"))),
            "set" => {
                let space = SpaceReader::open(self.space.path()).map(|space| space.called("thalweg set"));
                let set = space.and_then(|space| {
                    let all = asked["settings"].as_array().into_iter().flatten();
                    let mut pairs = all.filter_map(|one| Some((one[0].as_str()?, one[1].as_u64()?)));
                    pairs.try_for_each(|(name, value)| space.set(name, value))
                });
                set.map(|()| (json!({}), Vec::new())).map_err(|error| Refused::new(format!("{error:#}")))
            }
            "unfetch" => {
                self.source = None;
                Ok((json!({}), Vec::new()))
            }
            "end" => {
                self.end();
                Ok(self.poll())
            }
            "close" => Ok((json!({}), Vec::new())),
            _ => Err(Refused::new(format!("`{what}` cannot be asked of a session"))),
        }
    }

    /// Serves the parts of another network, in place of the one that has ended.
    fn renew(&mut self, asked: &Value) -> Result<Value, Error> {
        let program = Program::read(asked)?;
        let runtime = self.runtime.as_ref().ok_or_else(|| Error::run("the session ends"))?;
        self.fabric.reopen().map_err(Error::run)?;
        let (serving, fingerprint) =
            serve(&program, (runtime, self.options), &self.fabric, self.map.clone())?;
        (self.errors, self.strays) = (serving.errors, serving.strays);
        self.fabric.set_count(count_of(asked));
        let name = self.fabric.name(self.fabric.here()).unwrap_or_default();
        // An error is ignored, because the name in the space is only shown to observers.
        let _ = self.space.rename(&format!("{}@{name}", program.network.name()));
        self.program = program;
        Ok(json!({"fingerprint": fingerprint}))
    }

    /// Replaces a library by another file, in all parts.
    fn reload(&mut self, asked: &Value) -> Result<Value, Error> {
        let files = texts(&asked["libraries"]);
        let [old, new] = files.as_slice() else {
            return Err(Error::usage("a reload names a library and its replacement"));
        };
        let Program { network, boxes, libraries } = &mut self.program;
        // The network may have no box of this library.
        let Some(library) = libraries.iter_mut().find(|library| library.as_path() == Path::new(old)) else {
            return Ok(json!({}));
        };
        let replaced = boxes.replace(Path::new(old), Path::new(new)).map_err(Error::run_of)?;
        let replacement = network.reload(boxes, &replaced, Some(&self.space)).map_err(Error::run_of)?;
        (*boxes, *library) = (replaced, new.into());
        let finished = replacement.finish_apart();
        let finished = finished.map_err(|error| Error::run("cannot start a thread").because(error))?;
        let is_finished = finished.recv_timeout(CALLS_MAX).is_ok();
        Ok(json!({"finished": is_finished}))
    }

    /// What happened since the last call: failed records as bytes, each after its length, and other reports
    /// as JSON.
    fn poll(&mut self) -> (Value, Vec<u8>) {
        unload_unused();
        let mut over = false;
        while self.waiting.len() < FAILURES_MAX {
            match self.errors.try_recv() {
                Ok(mut error) => {
                    let here = self.fabric.name(self.fabric.here()).unwrap_or_default();
                    error.component = format!("{} on {here}", error.component);
                    self.waiting.push_back(error.to_bytes());
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    over = true;
                    break;
                }
            }
        }
        let mut blob = Vec::new();
        while let Some(failure) = self.waiting.front()
            && (blob.is_empty() || blob.len() + failure.len() + 4 <= BLOB_MAX)
        {
            if failure.len() + 4 <= BLOB_MAX {
                blob.extend((failure.len() as u32).to_le_bytes());
                blob.extend(failure);
            }
            self.waiting.pop_front();
        }
        let strays: Vec<Value> =
            self.strays.try_iter().map(|stray| json!([stray.component, stray.reason])).collect();
        let is_joined = self.joining.as_ref().is_some_and(JoinHandle::is_finished);
        let mut answer = json!({ "strays": strays });
        let unreachable = self.fabric.unreachable();
        if !unreachable.is_empty() {
            let shown = unreachable.iter().map(|one| json!([one.node, one.why, one.is_own]));
            answer["unreachable"] = shown.collect();
        }
        if over
            && is_joined
            && self.waiting.is_empty()
            && let Some(joining) = self.joining.take()
        {
            answer["ended"] = joining.join().unwrap_or_else(|_| json!({"broken": "its runtime panicked"}));
        }
        // After it is known whether all tasks have ended, so the last answer has all that boxes wrote.
        self.exchange.answer(&mut answer);
        (answer, blob)
    }

    /// Sends what was recorded since the last call.
    fn fetch(&mut self, asked: &Value) -> Result<(Value, Vec<u8>), thalweg_space::Error> {
        let source = match &mut self.source {
            Some(source) => source,
            none => none.insert(match self.is_kept {
                true => SpaceSource::of_kept(self.space.path()),
                false => SpaceSource::open(self.space.path())?,
            }),
        };
        let most = asked["most"].as_u64().map_or(0, |most| (most as usize).min(BLOB_MAX / 2));
        let mut pieces = Vec::new();
        let is_complete = source.pieces(most, asked["last"] == json!(true), &mut pieces)?;
        Ok((json!({"complete": is_complete}), pieces))
    }

    /// Opens no more parts, and starts a thread that waits until all open parts have ended.
    fn end(&mut self) {
        self.fabric.close();
        self.keeper.iter().for_each(Keeper::session_ends);
        let is_stuck = self.joining.as_ref().is_some_and(|joining| !joining.is_finished());
        if self.ending_since.get_or_insert_with(Instant::now).elapsed() > ENDING_MAX && is_stuck {
            self.fabric.give_up();
        }
        let Some(runtime) = self.runtime.take() else { return };
        let (space, keeper, fabric) = (self.space.clone(), self.keeper.take(), self.fabric.clone());
        self.joining = Some(std::thread::spawn(move || {
            let ended = runtime.join();
            let (sent, received) = fabric.carried();
            let did = json!({"processor_s": processor_s(), "sent": sent, "received": received});
            space.finish();
            let kept = keeper.map_or(Ok(()), Keeper::finish);
            if let Err(error) = kept {
                return json!({"broken": format!("events could not be kept: {error}"), "did": did});
            }
            match ended {
                Ok(summary) => {
                    let failures: Vec<&str> =
                        summary.failures.iter().map(|failure| failure.message.as_str()).collect();
                    json!({"tasks": summary.tasks, "failed": summary.failed, "failures": failures, "did": did})
                }
                Err(error) => json!({"broken": format!("{error:#}")}),
            }
        }));
    }
}

/// Starts to serve the parts of a network; returns the network's fingerprint, too.
fn serve(
    program: &Program,
    (runtime, options): (&Runtime, StartOptions),
    fabric: &Arc<Fabric>,
    map: Map,
) -> Result<(Serving, String), Error> {
    let fingerprint = Arc::new(Mutex::new(0));
    let there = There { fabric: fabric.clone(), map, fingerprint: fingerprint.clone() };
    let serving = program.network.serve(runtime, options, Arc::new(there)).map_err(Error::run_of)?;
    let fingerprint = *fingerprint.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((serving, format!("{fingerprint:016x}")))
}

/// The session that a network on a node other than 0 gets.
#[derive(Debug)]
struct There {
    fabric: Arc<Fabric>,
    map: Map,
    fingerprint: Arc<Mutex<u64>>,
}

impl Elsewhere for There {
    fn here(&self) -> usize {
        self.fabric.here()
    }

    fn count(&self) -> usize {
        self.fabric.count()
    }

    fn name(&self, node: usize) -> String {
        self.fabric.name(node).unwrap_or_else(|| format!("number {node}"))
    }

    fn of_place(&self, number: u64) -> usize {
        Map::of_place(self.fabric.count(), number)
    }

    fn of_component(&self, path: &str) -> Option<usize> {
        self.map.of_component(&self.fabric.names(), path)
    }

    fn shares_out(&self) -> bool {
        self.map.shares_out
    }

    fn gives_back(&self) -> bool {
        self.map.gives_back
    }

    fn begin(&self, session: Session) -> Result<(), String> {
        *self.fingerprint.lock().unwrap_or_else(PoisonError::into_inner) = session.fingerprint();
        Ok(())
    }

    fn open(&self, node: usize, opening: &[u8]) -> Result<Ways, String> {
        self.fabric.open(node, opening)
    }

    fn opened(&self) -> Option<Opened> {
        self.fabric.opened()
    }

    // The control connection closes parts, so nothing happens here.
    fn close(&self) {}

    fn end(&self) {}
}

/// Writes the texts of the network into the folder. Names are relative to the folder and must not lead out of
/// it.
fn write_files(folder: &Path, files: &Value) -> Result<(), Error> {
    for (name, text) in pairs(files) {
        let path = Path::new(&name);
        let is_inside = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !is_inside {
            return Err(Error::usage(format!("{name}: a net that is not beside the network cannot be sent")));
        }
        let path = folder.join(path);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&path, text))
            .map_err(|error| Error::run(format!("cannot write {}", path.display())).because(error))?;
    }
    Ok(())
}

/// The number by which a space is recognised on another machine.
pub(crate) fn uuid_of(space: &Space) -> String {
    let info = SpaceReader::open(space.path()).and_then(|reader| reader.info());
    info.map_or_else(|_| String::new(), |info| hex(&info.uuid))
}

fn space(asked: &Value, name: &str) -> Result<Space, Error> {
    let keep = asked["keep"] == json!(true);
    let policy = if keep { Policy::Wait { timeout: Duration::MAX } } else { Policy::Overwrite };
    let options = SpaceOptions {
        name: name.to_owned(),
        session: asked["gather"].as_str().map(PathBuf::from).filter(|session| session.is_dir()),
        keep,
        element: ElementOptions { policy, ..ElementOptions::default() },
        ..SpaceOptions::default()
    };
    Space::create(options).map_err(|error| Error::coded_of("E0903", error))
}

fn runtime(asked: &Value, space: &Space) -> Result<Runtime, Error> {
    let mode = match asked["mode"].as_str() {
        Some("off") => Mode::Off,
        Some("full") => Mode::Full,
        _ => Mode::Metrics,
    };
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = asked["workers"].as_u64().map_or(all, |workers| workers as usize);
    let options = Options { workers, mode, space: Some(space.clone()), ..Options::default() };
    Runtime::new(options).map_err(|error| Error::coded_of("E0902", error))
}

/// The processor time of this process, in seconds.
fn processor_s() -> f64 {
    // Linux shows the times in hundredths of a second on all machines. The fields follow the name, which may
    // contain any characters.
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() as f64 / 100.0
}

/// Sets settings.
pub(crate) fn set(changes: &[(String, String)], space: &Space) -> Result<(), Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let reader = SpaceReader::open(space.path()).map_err(Error::usage_of)?;
    let all = reader.settings().map_err(Error::usage_of)?;
    for (name, value) in changes {
        let value = settings::value_of(settings::known(&all, name)?, value)?;
        reader.set(name, value).map_err(Error::usage_of)?;
    }
    Ok(())
}
