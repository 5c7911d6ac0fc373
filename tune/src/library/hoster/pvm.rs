//! The functions of PVM's library that the hoster calls. This module has `unsafe`, because it loads the
//! library and calls its functions.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// PVM's options: how errors are reported, and whether messages between tasks and daemons may be sent.
const AUTO_ERR: c_int = 3;
const RESERVED_TAGS: c_int = 11;
/// The tags of a request to start daemons, and of its answer.
const START_HOSTS: c_int = 0x8004_000F_u32.cast_signed();
const HOSTS_STARTED: c_int = 0x8004_0010_u32.cast_signed();
/// The encoding that every architecture can read.
const ENCODED: c_int = 0;
/// The errors with which a hoster is refused: there is another one, or hosts join at another host.
const ALREADY: c_int = -30;
const NOT_FIRST_HOST: c_int = -34;
/// The largest number of hosts that a virtual machine can have.
const HOSTS_MAX: c_int = 4095;

/// What PVM knows of a message: `struct pvmminfo`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Info {
    bytes: c_int,
    context: c_int,
    tag: c_int,
    wait_id: c_int,
    encoding: c_int,
    checksum: c_int,
    from: c_int,
    to: c_int,
}

/// What PVM knows of a host: `struct pvmhostinfo`.
#[repr(C)]
struct HostInfo {
    id: c_int,
    name: *const c_char,
    architecture: *const c_char,
    speed: c_int,
    signature: c_int,
}

#[repr(C)]
struct Interval {
    seconds: i64,
    microseconds: i64,
}

// The functions of the C library by which libraries are loaded.
unsafe extern "C" {
    fn dlopen(path: *const c_char, how: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}
/// All symbols of a library are bound when it is loaded.
const NOW: c_int = 2;

type Plain = unsafe extern "C" fn() -> c_int;
type OfTwo = unsafe extern "C" fn(c_int, c_int) -> c_int;
type OfInts = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
type Receive = unsafe extern "C" fn(c_int, c_int, *mut Interval) -> c_int;
type Begin = unsafe extern "C" fn(c_int) -> c_int;
type PackText = unsafe extern "C" fn(*const c_char) -> c_int;
type UnpackText = unsafe extern "C" fn(*mut c_char) -> c_int;
type Hosts = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut *mut HostInfo) -> c_int;
type Shell = unsafe extern "C" fn() -> *const c_char;
type OfInfo = unsafe extern "C" fn(c_int, *mut Info) -> c_int;

/// A task of PVM, which this process has become.
pub(super) struct Task {
    leave: Plain,
    register: Plain,
    receive: Receive,
    send: OfTwo,
    begin: Begin,
    pack_ints: OfInts,
    pack_text: PackText,
    unpack_ints: OfInts,
    unpack_text: UnpackText,
    info: OfInfo,
    set_info: OfInfo,
    hosts: Hosts,
    shell: Shell,
}

/// The names of the functions of PVM's library that [`Task::of`] takes, in its order.
const NAMES: [&CStr; 15] = [
    c"pvm_mytid",
    c"pvm_setopt",
    c"pvm_exit",
    c"pvm_reg_hoster",
    c"pvm_trecv",
    c"pvm_send",
    c"pvm_initsend",
    c"pvm_pkint",
    c"pvm_pkstr",
    c"pvm_upkint",
    c"pvm_upkstr",
    c"pvm_getminfo",
    c"pvm_setminfo",
    c"pvm_config",
    c"pvmgetrsh",
];

/// The addresses of the functions, in a library that is loaded for the rest of the process.
fn functions(path: &Path) -> Result<[*mut c_void; NAMES.len()], String> {
    let file = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    // SAFETY: the initialisation of PVM's library has no requirements, and the texts end with zeros.
    let found = unsafe {
        let library = dlopen(file.as_ptr(), NOW);
        if library.is_null() {
            return Err(format!("{} cannot be loaded", path.display()));
        }
        NAMES.map(|name| dlsym(library, name.as_ptr()))
    };
    match found.iter().position(|address| address.is_null()) {
        None => Ok(found),
        Some(at) => Err(format!("{} has no function `{}`", path.display(), NAMES[at].to_string_lossy())),
    }
}

/// A host that the daemon wants to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Host {
    /// The number of the host.
    pub(super) id: i32,
    /// How it is to be started; empty: by the remote shell.
    pub(super) options: String,
    /// The host's name, perhaps with a user and `@` before it.
    pub(super) address: String,
    /// The command that starts the daemon there.
    pub(super) command: String,
    /// The number of the virtual machine, if the user runs several; may be empty.
    pub(super) machine: String,
}

/// A request to start hosts.
pub(super) struct Request {
    from: c_int,
    wait_id: c_int,
    pub(super) hosts: Vec<Host>,
}

impl Task {
    /// Becomes a task of the virtual machine that the environment names.
    pub(super) fn of(path: &Path) -> Result<Task, String> {
        let [own, set, rest @ ..] = functions(path)?;
        let [leave, register, receive, send, begin, pack_ints, pack_text, rest @ ..] = rest;
        let [unpack_ints, unpack_text, info, set_info, hosts, shell] = rest;
        // SAFETY: in PVM 3.4 the functions of these names have these types. They stay, since the library is
        // never unloaded. `pvm_mytid` and `pvm_setopt` access no memory of this process.
        unsafe {
            let own: Plain = std::mem::transmute::<*mut c_void, Plain>(own);
            let set: OfTwo = std::mem::transmute::<*mut c_void, OfTwo>(set);
            set(AUTO_ERR, 0);
            let own = own();
            if own < 0 {
                return Err(format!("PVM's daemon cannot be reached (error {own})"));
            }
            set(RESERVED_TAGS, 1);
            Ok(Task {
                leave: std::mem::transmute::<*mut c_void, Plain>(leave),
                register: std::mem::transmute::<*mut c_void, Plain>(register),
                receive: std::mem::transmute::<*mut c_void, Receive>(receive),
                send: std::mem::transmute::<*mut c_void, OfTwo>(send),
                begin: std::mem::transmute::<*mut c_void, Begin>(begin),
                pack_ints: std::mem::transmute::<*mut c_void, OfInts>(pack_ints),
                pack_text: std::mem::transmute::<*mut c_void, PackText>(pack_text),
                unpack_ints: std::mem::transmute::<*mut c_void, OfInts>(unpack_ints),
                unpack_text: std::mem::transmute::<*mut c_void, UnpackText>(unpack_text),
                info: std::mem::transmute::<*mut c_void, OfInfo>(info),
                set_info: std::mem::transmute::<*mut c_void, OfInfo>(set_info),
                hosts: std::mem::transmute::<*mut c_void, Hosts>(hosts),
                shell: std::mem::transmute::<*mut c_void, Shell>(shell),
            })
        }
    }

    /// Becomes the hoster; returns `false` if another task is it.
    pub(super) fn register(&self) -> Result<bool, String> {
        // SAFETY: the function accesses no memory of this process.
        match unsafe { (self.register)() } {
            0.. => Ok(true),
            ALREADY => Ok(false),
            NOT_FIRST_HOST => Err("hosts join by the daemon of another host".to_owned()),
            error => Err(format!("PVM refuses a hoster (error {error})")),
        }
    }

    /// Leaves the virtual machine.
    pub(super) fn leave(self) {
        // SAFETY: the function accesses no memory of this process.
        unsafe { (self.leave)() };
    }

    /// The next request to start hosts, if one comes within this time.
    pub(super) fn request(&self, wait: Duration) -> Result<Option<Request>, String> {
        let mut wait =
            Interval { seconds: wait.as_secs().cast_signed(), microseconds: i64::from(wait.subsec_micros()) };
        let mut info = Info::default();
        // SAFETY: `wait` and `info` live as long as the calls, and have the types that PVM expects.
        let buffer = unsafe {
            let buffer = (self.receive)(-1, START_HOSTS, &raw mut wait);
            if buffer > 0 && (self.info)(buffer, &raw mut info) < 0 {
                return Err("PVM does not know the message that it has received".to_owned());
            }
            buffer
        };
        match buffer {
            0 => return Ok(None),
            ..0 => return Err(format!("PVM's daemon has gone (error {buffer})")),
            _ => {}
        }
        let count = self.int()?;
        if !(0..=HOSTS_MAX).contains(&count) {
            return Err(format!("PVM asks for {count} hosts"));
        }
        let bytes = info.bytes.max(0) as usize;
        let mut hosts = Vec::new();
        for _ in 0..count {
            let id = self.int()?;
            let mut host = Host { id, ..Host::default() };
            let mut for_windows = String::new();
            for text in
                [&mut host.options, &mut host.address, &mut host.command, &mut for_windows, &mut host.machine]
            {
                *text = self.text(bytes)?;
            }
            hosts.push(host);
        }
        Ok(Some(Request { from: info.from, wait_id: info.wait_id, hosts }))
    }

    fn int(&self) -> Result<i32, String> {
        let mut value = 0;
        // SAFETY: one int is unpacked, into `value`.
        match unsafe { (self.unpack_ints)(&raw mut value, 1, 1) } {
            0.. => Ok(value),
            error => Err(format!("a request to start hosts is too short (error {error})")),
        }
    }

    /// Unpacks a text of a message of `bytes` bytes.
    fn text(&self, bytes: usize) -> Result<String, String> {
        let mut text = vec![0_u8; bytes + 8];
        // SAFETY: a text and the zero after it are no longer than the message that holds them, so they fit
        // into `text`.
        let error = unsafe { (self.unpack_text)(text.as_mut_ptr().cast()) };
        if error < 0 {
            return Err(format!("a request to start hosts is too short (error {error})"));
        }
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(0);
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }

    /// Answers a request: for each host, its number, and the line of its daemon or the name of an error.
    pub(super) fn answer(&self, request: &Request, results: &[(i32, String)]) -> Result<(), String> {
        let mut count = results.len() as c_int;
        let mut info = Info::default();
        // SAFETY: the packing functions read the ints and texts, which live as long as the calls; `info` has
        // the type that PVM expects.
        let sent = unsafe {
            let buffer = (self.begin)(ENCODED);
            (self.pack_ints)(&raw mut count, 1, 1);
            for (id, result) in results {
                let mut id = *id;
                let result = CString::new(result.replace('\0', "")).unwrap_or_default();
                (self.pack_ints)(&raw mut id, 1, 1);
                (self.pack_text)(result.as_ptr());
            }
            (self.info)(buffer, &raw mut info);
            info.wait_id = request.wait_id;
            (self.set_info)(buffer, &raw mut info);
            (self.send)(request.from, HOSTS_STARTED)
        };
        if sent < 0 { Err(format!("PVM's daemon takes no answer (error {sent})")) } else { Ok(()) }
    }

    /// The hosts of the virtual machine: each has a number, and the signature of its data.
    pub(super) fn hosts(&self) -> Result<Vec<(i32, i32)>, String> {
        let (mut count, mut architectures, mut first) = (0, 0, std::ptr::null_mut());
        // SAFETY: the function writes two ints and an address, at which `count` entries are valid until the
        // next call of the function.
        unsafe {
            match (self.hosts)(&raw mut count, &raw mut architectures, &raw mut first) {
                0.. if first.is_null() || count < 0 => Ok(Vec::new()),
                0.. => {
                    let hosts = std::slice::from_raw_parts(first, count as usize);
                    Ok(hosts.iter().map(|host| (host.id, host.signature)).collect())
                }
                error => Err(format!("PVM's daemon has gone (error {error})")),
            }
        }
    }

    /// The program that runs a command on another host.
    pub(super) fn shell(&self) -> String {
        // SAFETY: the function returns the address of a text that stays, or none.
        unsafe {
            let text = (self.shell)();
            if text.is_null() {
                "rsh".to_owned()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        }
    }
}
