//! `thalweg serve`: a scope server.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use thalweg_scope::{Price, Server, ServerOptions, default_socket};

use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  # serve scopes to programs of this user
  thalweg serve
  # at another socket, with 3 % of the processors
  thalweg serve ./scopes.socket --budget 3
  # pull through it
  thalweg scope tasks --server
  # what it does itself
  thalweg scope paths 'scope server'

It serves until it is interrupted, and leaves nothing behind.";

/// The arguments of `thalweg serve`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The socket to listen at; `scopes.socket` in the directory of spaces if omitted.
    #[arg(value_name = "SOCKET")]
    socket: Option<PathBuf>,
    /// Serve the user with this number as well; all users but this and your own are refused.
    #[arg(long, value_name = "UID")]
    user: Vec<u32>,
    /// The largest number of clients at a time.
    #[arg(long, value_name = "N", default_value_t = 64)]
    clients: usize,
    /// Share of this machine's processor time that all pulls together may take, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0 * Price::SHARE)]
    budget: f64,
}

pub(crate) fn main(arguments: Arguments) -> Result<(), Failure> {
    let socket = match arguments.socket {
        Some(socket) => socket,
        None => default_socket().map_err(Failure::usage)?,
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::run("cannot listen to signals", error))?;
    }
    let options = ServerOptions {
        users: arguments.user,
        clients_max: arguments.clients,
        share: arguments.budget / 100.0,
        ..ServerOptions::at(&socket)
    };
    let mut server = Server::listen(options).map_err(Failure::usage)?;
    print_stderr!("serves scopes at {}", socket.display());
    server.serve(&stop);
    let (answers, refused, _) = server.counts();
    drop(server);
    print_stderr!("{answers} answers, {refused} refused");
    Ok(())
}
