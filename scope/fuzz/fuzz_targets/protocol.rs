//! Reads any bytes as the requests of a client to a scope server, and as the answers of a server.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| thalweg_scope::read_as_peers_do(bytes));
