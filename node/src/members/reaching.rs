//! Reaching the nodes of a run: their names and versions, and which libraries they lack.

use std::path::{Path, PathBuf};

use serde_json::json;
use thalweg_host::{Error, libraries};

use crate::channel::Refused;
use crate::cluster::{Known, is_name};
use crate::store::hash_of;
use crate::talk::Talk;

/// The bytes of a library that one message carries.
const PIECE_BYTES: usize = 1 << 20;

/// A connected node that has all libraries.
pub(super) struct Reached {
    pub(super) talk: Talk,
    /// The hashes of the libraries.
    pub(super) libraries: Vec<String>,
}

/// Whether the nodes of a run listen with TLS; all do, or none.
pub(super) fn is_secure(nodes: &[Reached]) -> Result<bool, Error> {
    let is_secure = |node: &&Reached| node.talk.channel().is_secure();
    let plain = nodes.iter().find(|node| !is_secure(node));
    match (nodes.iter().find(is_secure), plain) {
        (Some(secure), Some(plain)) => {
            let [secure, plain] = [secure, plain].map(|node| node.talk.known());
            Err(Error::usage(format!(
                "node {} listens at {}, on its machine alone, and node {} at {}: a run has nodes of one kind; start {} with \
                 --listen HOST:PORT, or with --tls where all are on one machine",
                plain.name, plain.address, secure.name, secure.address, plain.name
            )))
        }
        (secure, _) => Ok(secure.is_some()),
    }
}

/// The file of a library and its hash.
pub(super) fn library(named: &Path) -> Result<(PathBuf, String), Error> {
    let path = libraries::find(named)?;
    let hash = hash_of(&path).map_err(|error| {
        Error::coded("E0904", format!("cannot read the box library {}", path.display())).because(error)
    })?;
    Ok((path, hash))
}

/// Asks a node for its name and abilities.
pub(super) fn greet(talk: &mut Talk) -> Result<String, Error> {
    let Known { name, address } = talk.known().clone();
    talk.set_patience(crate::LEASE).map_err(Error::run_of)?;
    // Both machines know from now on which certificates are revoked.
    let certificates = talk.cluster().certificates();
    let (answer, _) = talk
        .ask("who", json!({"revoked": certificates.revoked()}), &[])
        .map_err(|refused| Error::run(format!("node {name} at {address}: {}", refused.why)))?;
    for (key, own) in [("version", env!("CARGO_PKG_VERSION")), ("architecture", std::env::consts::ARCH)] {
        let theirs = answer[key].as_str().unwrap_or("unknown");
        if theirs != own {
            return Err(Error::run(format!(
                "node {name} at {address} has the {key} {theirs}, and this program {own}"
            )));
        }
    }
    certificates.revoke(&crate::part::texts(&answer["revoked"]))?;
    let name = answer["name"].as_str().unwrap_or(&name).to_owned();
    if let Some(shown) = talk.channel().shown().filter(|_| is_name(&name)) {
        certificates.saw(&name, &shown);
    }
    Ok(name)
}

/// Sends a library that the node lacks.
pub(super) fn send_library(talk: &mut Talk, path: &Path, hash: &str) -> Result<(), Refused> {
    if talk.ask("has", json!({ "hash": hash }), &[])?.0["has"] == json!(true) {
        return Ok(());
    }
    let bytes = std::fs::read(path)
        .map_err(|error| Refused::new(format!("cannot read {}: {error}", path.display())))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut pieces = bytes.chunks(PIECE_BYTES).peekable();
    let mut head = json!({ "hash": hash, "name": name });
    while let Some(piece) = pieces.next() {
        head["last"] = json!(pieces.peek().is_none());
        talk.ask("put", head, piece)?;
        head = json!({});
    }
    Ok(())
}
