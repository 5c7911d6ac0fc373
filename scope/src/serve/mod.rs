//! The scope server: one server reads elements for all clients on its host, and sends them tuples over a Unix
//! socket.

mod client;
mod protocol;
mod server;
mod shared;
mod taken;

pub use client::Remote;
#[doc(hidden)]
pub use protocol::read_as_peers_do;
pub use protocol::{Ask, VERSION};
pub use server::{Server, ServerOptions, default_socket};
