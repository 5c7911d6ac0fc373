//! `thalweg view`: the page of a run, served on this machine while the run goes on.

mod measuring;
mod server;

use std::io::{IsTerminal, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use thalweg_host::amount::time;
use thalweg_host::spaces;

use crate::commands::report::page;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  # the newest run, in the browser
  thalweg view
  # the run of process 4242, four times a second
  thalweg view 4242 --every 250ms
  # a kept run; the address is printed, nothing is opened
  thalweg view ./kept-run --no-open
  # the newest run, and an older one beside it
  thalweg view --compare ./kept-run

The address holds a token: anyone who has it may look, and change settings of the run. The server listens on this machine \
only; from another one, `ssh -L 8080:127.0.0.1:8080 HOST` with --port 8080 leads there. It serves until it is \
interrupted, also when the run has ended. `thalweg report --html FILE` writes the same page into a file.";

/// The arguments of `thalweg view`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A space: its path, or a name or process id that `thalweg ls` shows; or a session. The newest space if
    /// omitted.
    #[arg(value_name = "SPACE")]
    space: Option<String>,
    /// The port; any free port if omitted. A server that is started again at the same port has the same
    /// address.
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// The address to listen at, which must be on this machine.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    address: IpAddr,
    /// An older run, to be shown beside this one.
    #[arg(long, value_name = "OLDER")]
    compare: Option<String>,
    /// The interval at which the page is updated while the run goes on.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    every: Duration,
    /// The length of the window of the verdict and the figures while the run goes on.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2s")]
    window: Duration,
    /// Do not open a browser.
    #[arg(long)]
    no_open: bool,
}

/// The shortest interval between updates: a viewer sees no faster changes, which would only cost time.
const EVERY_MIN: Duration = Duration::from_millis(50);

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.address != Ipv4Addr::LOCALHOST {
        return Err(Failure::Usage(format!(
            "the page is served at 127.0.0.1 and not at {}, since anyone who has its address may change the run: from another machine, \
             `ssh -L 8080:127.0.0.1:8080 HOST` leads here, with --port 8080",
            arguments.address
        )));
    }
    let path = spaces::find_feed(arguments.space.as_deref())?;
    let other = arguments.compare.as_deref().map(|older| other(older, &path)).transpose()?;
    let token = token(arguments.port).map_err(|error| Failure::run("cannot make a token", error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()
        .map_err(|error| Failure::run("cannot begin to serve", error))?;
    let every = arguments.every.max(EVERY_MIN);
    let measured = measuring::begin(&path, every, arguments.window.max(every))?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port))
            .await
            .map_err(|error| Failure::run(format!("cannot listen at port {}", arguments.port), error))?;
        let port = listener.local_addr().map_err(|error| Failure::run("cannot listen", error))?.port();
        let address = format!("http://127.0.0.1:{port}/?token={token}");
        crate::output::print_line(&address)?;
        if !arguments.no_open && std::io::stdout().is_terminal() {
            open(&address);
        }
        server::serve(listener, server::Site::new(&path, token, port, measured).beside(other)).await
    })
}

/// The run to compare with, as JSON, with a comparison if this run has ended.
fn other(older: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    let follower = thalweg_monitor::Follower::open(path, 1).map_err(Failure::usage)?;
    let newer = Some(path).filter(|_| !follower.is_running());
    let other = page::other(&spaces::find_feed(Some(older))?, newer)?;
    thalweg_view::names::json(&other)
        .map(String::into_bytes)
        .map_err(|error| Failure::run("cannot write the other run's report", error))
}

/// The token of a server at the port `port`. A server that is started again at a port takes the token of the
/// former server there, so that open pages can connect again.
fn token(port: u16) -> std::io::Result<String> {
    let place =
        spaces::parent().ok().filter(|_| port != 0).map(|folder| folder.join(format!("view-{port}.token")));
    if let Some(known) = place.as_deref().and_then(kept_token) {
        return Ok(known);
    }
    let token = new_token()?;
    if let Some(place) = place {
        // If the token cannot be stored, the next server at this port has another address.
        let _ = std::fs::remove_file(&place);
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place);
        let _ = file.and_then(|mut file| file.write_all(token.as_bytes()));
    }
    Ok(token)
}

/// The token stored in the file `place`, if the file belongs to this user and no other user can have read or
/// written it.
fn kept_token(place: &Path) -> Option<String> {
    let about = std::fs::symlink_metadata(place).ok()?;
    let us = std::fs::metadata("/proc/self").ok()?.uid();
    let is_ours = about.is_file() && about.uid() == us && about.mode() & 0o077 == 0;
    let token = std::fs::read_to_string(place).ok().filter(|_| is_ours)?;
    (token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(token)
}

/// A new token: 128 random bits in hexadecimal.
fn new_token() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Asks the desktop, if there is one, to show the page.
fn open(address: &str) {
    let has_screen = std::env::var_os("DISPLAY").or_else(|| std::env::var_os("WAYLAND_DISPLAY")).is_some();
    if !has_screen || !Path::new("/usr/bin/xdg-open").exists() {
        return;
    }
    let mut command = Command::new("/usr/bin/xdg-open");
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        std::thread::spawn(move || child.wait());
    }
}
