//! The settings of a process's links, which may be changed while records travel over them.

use thalweg_link::{
    BUFFER_BYTES, Encoding, FRAME_BYTES, FRAME_BYTES_MIN, PAYLOAD_BYTES_MAX, PORTS_MAX, Ports, Tuning,
    WINDOW_BYTES,
};
use thalweg_space::{Affects, NameRef};

/// The default number of links of a process that send at once, and of those that receive at once.
const PORTS: u64 = 8;

/// How links carry their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// TCP, with TLS if the nodes have it.
    Tcp,
    /// Between processes of one host, Unix sockets, which are not encrypted and only connect processes of one user.
    Unix,
    /// Between processes of one host, memory that both have, with the same conditions.
    Memory,
    /// Between two nodes, through a third one.
    Routed,
}

impl Transport {
    /// All, in the order of the setting's choices.
    const ALL: [Transport; 4] = [Transport::Tcp, Transport::Unix, Transport::Memory, Transport::Routed];
}

thalweg_space::settings! {
    /// The settings of the links of one process of a session. `Settings::DECLARED` describes each.
    pub struct Settings {
        /// Links of this process that send at once, each at an equal share of the bandwidth
        send_ports: {
            name: "link.send_ports",
            unit: "ports",
            min: 1,
            max: PORTS_MAX as u64,
            default: PORTS,
            affects: Affects::Stream,
        },
        /// Links of this process that receive at once, each at an equal share of the bandwidth
        receive_ports: {
            name: "link.receive_ports",
            unit: "ports",
            min: 1,
            max: PORTS_MAX as u64,
            default: PORTS,
            affects: Affects::Stream,
        },
        /// Bytes a second that all links of this process send together at most; 0: no limit
        send_bandwidth: {
            name: "link.send_bandwidth",
            unit: "B/s",
            max: 1 << 50,
            affects: Affects::Stream,
        },
        /// Bytes a second that all links of this process receive together at most; 0: no limit
        receive_bandwidth: {
            name: "link.receive_bandwidth",
            unit: "B/s",
            max: 1 << 50,
            affects: Affects::Stream,
        },
        /// Bytes of records that a frame carries at most
        frame_bytes: {
            name: "link.frame_bytes",
            unit: "bytes",
            min: FRAME_BYTES_MIN as u64,
            max: PAYLOAD_BYTES_MAX as u64,
            default: FRAME_BYTES as u64,
            affects: Affects::Stream,
        },
        /// Bytes that a link's sender keeps until the receiver has acknowledged them
        buffer_bytes: {
            name: "link.buffer_bytes",
            unit: "bytes",
            min: 1,
            max: 1 << 40,
            default: BUFFER_BYTES as u64,
            affects: Affects::Stream,
        },
        /// Bytes that a link's receiver holds for its task
        window_bytes: {
            name: "link.window_bytes",
            unit: "bytes",
            min: 1,
            max: 1 << 40,
            default: WINDOW_BYTES,
            affects: Affects::Stream,
        },
        /// What carries links: `unix` (sockets) and `memory` between processes of a host, `routed` through a third node
        transport: {
            name: "link.transport",
            choices: &["tcp", "unix", "memory", "routed"],
            default: 0,
            affects: Affects::Stream,
        },
        /// How frames are compressed
        encoding: {
            name: "link.encoding",
            choices: &["plain", "lz4", "zstd"],
            default: 0,
            affects: Affects::Stream,
        },
    }
}

impl Settings {
    /// Applies the present values to the links; `transport` gets the links' transport, and `adopted` gets the name, the
    /// old value and the new value of each setting that changed since the last call.
    pub(crate) fn apply(
        &self,
        tuning: &Tuning,
        (sending, receiving): (&Ports, &Ports),
        transport: impl FnOnce(Transport),
        adopted: impl Fn(NameRef, u64, u64),
    ) {
        let directions = [
            (sending, &self.send_ports, &self.send_bandwidth),
            (receiving, &self.receive_ports, &self.receive_bandwidth),
        ];
        for (ports, count, bandwidth) in directions {
            // The number is set only if it changed, because setting it wakes the links that wait for a port.
            let (count, bandwidth) = (count.load() as u32, bandwidth.load());
            if ports.count() != count {
                ports.set_count(count);
            }
            if ports.bandwidth() != bandwidth {
                ports.set_bandwidth(bandwidth);
            }
        }
        tuning.set_frame_bytes(self.frame_bytes.load() as usize);
        tuning.set_buffer_bytes(self.buffer_bytes.load() as usize);
        tuning.set_window_bytes(self.window_bytes.load());
        // `Encoding::ALL` has the order of the setting's choices, and `load` returns the index of a valid
        // choice.
        tuning.set_encoding(Encoding::ALL[self.encoding.load() as usize]);
        // `Transport::ALL` has the order of the setting's choices.
        transport(Transport::ALL[self.transport.load() as usize]);
        for tunable in self.all() {
            if let (new, Some(old)) = tunable.adopt() {
                adopted(tunable.name(), old, new);
            }
        }
    }
}
