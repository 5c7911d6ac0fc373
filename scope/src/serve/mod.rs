//! A scope server: one per host, reads elements for clients beside it and hands them tuples over a Unix socket.

mod client;
mod protocol;
mod server;
mod shared;

pub use client::Remote;
pub use protocol::{Ask, VERSION};
pub use server::{Server, ServerOptions, default_socket};
