//! The folder by which a user's nodes find each other. The folder contains the token that all nodes know, the
//! certificates of this machine, the address of each node of this machine, and the addresses of nodes of
//! other machines that joined the nodes of this machine.

use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use thalweg_host::Error;
use thalweg_link::secure::{Identity, PrivateKey};

use crate::certificates::{self, Certificates, Invitation, May};
use crate::channel::{Channel, Token, hex, random, unhex};

/// The environment variable that names another folder than the default.
const VARIABLE: &str = "THALWEG_CLUSTER";

/// The folder of a cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    folder: PathBuf,
    token: Token,
}

/// A node's entry in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The node's name.
    pub name: String,
    /// The address at which the node listens: `HOST:PORT`, or `tls/HOST:PORT` with TLS.
    pub address: String,
}

/// What [`Cluster::revoke`] has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// For each certificate the hosts that it is for.
    pub hosts: Vec<String>,
    /// The nodes that were not reached, with the reasons.
    pub missed: Vec<(String, String)>,
}

impl Cluster {
    /// Opens the cluster in this folder; by default in the one that `THALWEG_CLUSTER` names, else in
    /// `thalweg/cluster` in the user's configuration folder. If there is no cluster, a new one is made, with
    /// a new token.
    ///
    /// # Errors
    /// The folder cannot be made or read, or others than its owner may read it.
    pub fn open(folder: Option<&Path>) -> Result<Cluster, Error> {
        let folder = match folder {
            Some(folder) => folder.to_owned(),
            None => usual_folder()?,
        };
        let failed = |what: &str, error: std::io::Error| {
            Error::usage(format!("cannot {what} the cluster's folder {}", folder.display())).because(error)
        };
        let nodes = folder.join("nodes");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&nodes)
            .map_err(|error| failed("make", error))?;
        let mode = folder.metadata().map_err(|error| failed("read", error))?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(Error::usage(format!(
                "others than you may read the cluster's folder {}, and with it the token that lets them run programs as you: \
                 chmod 700 {}",
                folder.display(),
                folder.display()
            )));
        }
        let token = token(&folder.join("token")).map_err(|error| failed("read the token in", error))?;
        Ok(Cluster { folder, token })
    }

    /// The token that all nodes of the cluster know.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// What this machine shows of itself to nodes of other machines.
    ///
    /// # Errors
    /// The machine has no certificate, or its files are damaged.
    pub fn identity(&self) -> Result<Identity, Error> {
        self.certificates().identity()
    }

    pub(crate) fn certificates(&self) -> Certificates {
        Certificates::of(&self.folder)
    }

    /// Makes the certificate of this machine for these hosts, and the cluster's authority if it has none.
    /// Returns all hosts that the certificate is for.
    ///
    /// # Errors
    /// Another machine has the authority's key, or a host is none.
    pub fn make_certificates(&self, hosts: &[String], days: u32) -> Result<Vec<String>, Error> {
        let hosts = certificates::hosts(hosts);
        self.certificates().make(&hosts, days)?;
        Ok(hosts)
    }

    /// Makes an invitation by which one other machine gets a certificate, as text.
    ///
    /// # Errors
    /// This machine does not have the authority's key.
    pub fn invite(&self, valid: Duration, may: May) -> Result<String, Error> {
        self.certificates().invite(valid, may)
    }

    /// Gets a certificate for this machine from the node at `address`, with an invitation made there. Returns
    /// all hosts that the certificate is for.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the invitation.
    pub fn enroll(
        &mut self,
        address: &str,
        invitation: &str,
        hosts: &[String],
        days: u32,
    ) -> Result<Vec<String>, Error> {
        let invitation = Invitation::parse(invitation)?;
        let hosts = certificates::hosts(hosts);
        let key = PrivateKey::generate().map_err(Error::run)?;
        let mut channel = Channel::enroll(address, &invitation)
            .map_err(|error| Error::usage(format!("cannot reach the node at {address}")).because(error))?;
        let asked = json!({
            "secret": hex(&invitation.secret), "key": hex(key.public()), "hosts": hosts, "days": days,
        });
        let (answer, _) = channel
            .ask("enroll", asked, &[])
            .map_err(|refused| Error::usage(format!("the node at {address} refuses: {}", refused.why)))?;
        let text = |name: &str| answer[name].as_str().unwrap_or_default();
        let token = unhex(text("token")).ok_or_else(|| Error::run("the node has sent no token"))?;
        self.certificates().keep(&key, text("authority"), text("certificate"))?;
        self.certificates().write("token", &format!("{}\n", hex(&token)))?;
        self.token = token;
        Ok(hosts)
    }

    /// Revokes the certificates of the machine of this node, or of this host: this machine, and all nodes that it
    /// reaches, refuse them from now on. Returns for each certificate the hosts that it is for, and the known nodes
    /// that were not reached, with the reasons.
    ///
    /// # Errors
    /// No certificate is known by this name, or the folder cannot be written.
    pub fn revoke(&self, named: &str) -> Result<Revoked, Error> {
        let certificates = self.certificates();
        // A node that runs shows which certificate its machine has now.
        if let Some(node) = self.known().iter().find(|node| node.name == named)
            && let Ok(channel) = self.connect(node)
            && let Some(shown) = channel.shown()
        {
            certificates.saw(named, &shown);
        }
        let found = certificates.of_machine(named)?;
        if found.is_empty() {
            return Err(Error::usage(format!(
                "no certificate of another machine is known by the name {named}: name a node, or a host that `thalweg node init \
                 --host` named there"
            )));
        }
        let all: Vec<String> = found.iter().map(|(shown, _)| hex(shown)).collect();
        certificates.revoke(&all)?;
        let mut revoked =
            Revoked { hosts: found.into_iter().map(|(_, hosts)| hosts).collect(), missed: Vec::new() };
        for node in self.known().iter().filter(|node| node.address.starts_with("tls/")) {
            if let Err(why) = self.say_revoked(node) {
                revoked.missed.push((node.name.clone(), why));
            }
        }
        Ok(revoked)
    }

    fn say_revoked(&self, node: &Known) -> Result<(), String> {
        let mut channel = self.connect(node).map_err(|error| thalweg_host::chain(&error))?;
        channel.set_patience(Some(crate::LEASE)).map_err(|error| error.to_string())?;
        let asked = json!({"revoked": self.certificates().revoked()});
        channel.ask("revoke", asked, &[]).map(drop).map_err(|refused| refused.why)
    }

    /// The cluster's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder that has a file for each known node.
    pub(crate) fn nodes_folder(&self) -> PathBuf {
        self.folder.join("nodes")
    }

    /// The known nodes, by name; some may have ended.
    pub fn known(&self) -> Vec<Known> {
        let entries = std::fs::read_dir(self.nodes_folder()).into_iter().flatten().flatten();
        let read = |entry: std::fs::DirEntry| {
            let name = entry.file_name().into_string().ok().filter(|name| is_name(name))?;
            let address = std::fs::read_to_string(entry.path()).ok()?.trim().to_owned();
            Some(Known { name, address })
        };
        let mut known: Vec<Known> = entries.filter_map(read).collect();
        known.sort_by(|a, b| a.name.cmp(&b.name));
        known
    }

    /// The node with this name, or at this address.
    ///
    /// # Errors
    /// There is no such node.
    pub fn find(&self, named: &str) -> Result<Known, Error> {
        let known = self.known();
        if let Some(found) = known.iter().find(|node| node.name == named) {
            return Ok(found.clone());
        }
        if named.contains(':') {
            return Ok(Known { name: named.to_owned(), address: named.to_owned() });
        }
        let names: Vec<&str> = known.iter().map(|node| node.name.as_str()).collect();
        let hint = match names.as_slice() {
            [] => format!("no node was started yet: `thalweg node --name {named}` starts one"),
            names => {
                format!("known are {}; `thalweg node --name {named}` starts another one", names.join(", "))
            }
        };
        Err(Error::usage(format!("there is no node {named}: {hint}")))
    }

    /// Connects to a node.
    ///
    /// # Errors
    /// No process listens at the address, or the node is not of this cluster.
    pub fn connect(&self, node: &Known) -> Result<Channel, Error> {
        self.reach(node, Duration::MAX).map_err(|error| {
            Error::usage(format!("cannot reach node {} at {}", node.name, node.address)).because(error)
        })
    }

    /// Connects to a node; each attempt to make a connection takes at most `most`.
    pub(crate) fn reach(&self, node: &Known, most: Duration) -> std::io::Result<Channel> {
        let identity = || self.identity().map_err(|error| thalweg_host::chain(&error));
        Channel::connect_within(&node.address, &self.token, identity, most)
    }

    /// Writes a node's address into the folder.
    pub(crate) fn note(&self, node: &Known) -> std::io::Result<()> {
        let path = self.folder.join("nodes").join(&node.name);
        let new = self.folder.join(format!(".{}-{}", node.name, std::process::id()));
        std::fs::write(&new, format!("{}\n", node.address))?;
        std::fs::rename(new, path)
    }

    /// Removes a node from the folder, if the folder still has the same address for it.
    pub fn forget(&self, node: &Known) {
        let path = self.folder.join("nodes").join(&node.name);
        if std::fs::read_to_string(&path).is_ok_and(|address| address.trim() == node.address) {
            // An error is ignored: another process may have removed the file already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether this is a valid name of a node.
pub(crate) fn is_name(name: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' || byte == b'.';
    !name.is_empty() && name.len() <= 64 && name.bytes().all(is_fine) && !name.starts_with('.')
}

fn usual_folder() -> Result<PathBuf, Error> {
    let path = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = path(std::env::var_os(VARIABLE))
        .or_else(|| Some(path(std::env::var_os("XDG_CONFIG_HOME"))?.join("thalweg/cluster")))
        .or_else(|| Some(path(std::env::var_os("HOME"))?.join(".config/thalweg/cluster")));
    folder.ok_or_else(|| {
        Error::usage(format!(
            "there is no place for the cluster's folder: HOME is not set; set {VARIABLE} to a folder"
        ))
    })
}

/// The token in this file, which is made if there is none.
fn token(path: &Path) -> std::io::Result<Token> {
    if !path.exists() {
        let token = hex(&random::<32>()?);
        // Each process writes a file of its own, and a link never replaces an existing file: of processes
        // that begin together, the first one makes the token, and all read the same.
        let mine = path.with_extension(hex(&random::<8>()?));
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&mine);
        let linked = made
            .and_then(|mut file| file.write_all(format!("{token}\n").as_bytes()))
            .and_then(|()| std::fs::hard_link(&mine, path));
        let _ = std::fs::remove_file(&mine);
        if let Err(error) = linked
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(error);
        }
    }
    let text = std::fs::read_to_string(path)?;
    unhex(text.trim()).ok_or_else(|| {
        std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            format!("{} is no token: 64 hexadecimal digits", path.display()),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::Cluster;
    use std::sync::Barrier;

    #[test]
    fn all_that_make_a_cluster_together_have_one_token() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..50 {
            let (folder, begin) = (folder.path().join(round.to_string()), Barrier::new(8));
            let open = || {
                begin.wait();
                Cluster::open(Some(&folder)).map(|cluster| *cluster.token())
            };
            let tokens: Vec<_> = std::thread::scope(|scope| {
                let opening: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
                opening.into_iter().map(|one| one.join().unwrap().unwrap()).collect()
            });
            assert!(tokens.iter().all(|token| *token == tokens[0]), "round {round}");
            let files: Vec<_> =
                std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
            assert_eq!(files.len(), 2, "the token and the folder of nodes: {files:?}");
        }
    }
}
