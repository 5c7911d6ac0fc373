//! Any bytes as what a client says to a scope server, and as what a server answers.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| thalweg_scope::read_as_peers_do(bytes));
