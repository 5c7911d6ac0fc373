use super::*;
use crate::LinkId;
use proptest::prelude::*;

fn kinds() -> impl Strategy<Value = (Kind, usize)> {
    prop_oneof![
        (0..GREETING_BYTES_MAX).prop_map(|bytes| (Kind::Hello, bytes)),
        (0..GREETING_BYTES_MAX).prop_map(|bytes| (Kind::Refusal, bytes)),
        (1..PAYLOAD_BYTES_MAX).prop_map(|bytes| (Kind::Data, bytes)),
        Just((Kind::Ack, 16)),
        Just((Kind::End, 0)),
        Just((Kind::Ping, 8)),
        Just((Kind::Pong, 24)),
    ]
}

proptest! {
    #[test]
    fn headers_come_back((kind, payload_bytes) in kinds(), offset: u64, flags: u16) {
        let header = Header { flags, ..Header::new(kind, offset, payload_bytes) };
        prop_assert_eq!(Header::decode(header.encode()), Ok(header));
    }

    /// For all bytes a header is refused or keeps to the limits.
    #[test]
    fn any_header(bytes: [u8; HEADER_BYTES]) {
        if let Ok(header) = Header::decode(bytes) {
            prop_assert!(header.payload_bytes <= PAYLOAD_BYTES_MAX);
            prop_assert!(header.kind == Kind::Data || header.payload_bytes <= GREETING_BYTES_MAX);
        }
    }

    #[test]
    fn greetings_come_back(session: [u8; 16], number: u64, incarnation: u64, token: [u8; 32], node in ".{0,60}") {
        let hello = Hello { version: VERSION, link: LinkId { session, number }, incarnation, token, node };
        let bytes = hello.encode();
        let header = Header::decode(*bytes.first_chunk().unwrap()).unwrap();
        prop_assert_eq!(header.payload_bytes, bytes.len() - HEADER_BYTES);
        prop_assert_eq!(Hello::decode(&bytes[HEADER_BYTES..]), Ok(hello));
    }

    #[test]
    fn any_greeting(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Hello::decode(&bytes);
        let mut begun = b"thalwegl\x01\0\0\0".to_vec();
        begun.extend(&bytes);
        let _ = Hello::decode(&begun);
    }

    #[test]
    fn payloads_come_back(
        pieces in prop::collection::vec(any::<u8>(), 1..3000),
        repeated in 1_usize..20,
        cut in 0_usize..3000,
    ) {
        let plain = pieces.repeat(repeated);
        let (first, second) = plain.split_at(cut.min(plain.len()));
        for encoding in [Encoding::Lz4, Encoding::Zstd] {
            if let Some(payload) = encode(encoding, [first, second]) {
                prop_assert!(payload.len() < plain.len());
                prop_assert_eq!(decode(encoding, &payload), Ok(plain.clone()));
            }
        }
    }

    /// A damaged payload gives other bytes of the stated length or an error, and uses no more memory than a
    /// frame may hold.
    #[test]
    fn damaged_payloads(at in 0_usize..200, to: u8, more in prop::collection::vec(any::<u8>(), 0..100)) {
        let plain = b"the same words, the same words, the same words, the same words, the same words".repeat(9);
        for encoding in [Encoding::Lz4, Encoding::Zstd] {
            let mut payload = encode(encoding, [&plain, &[]]).unwrap();
            let at = at % payload.len();
            payload[at] = to;
            payload.extend(&more);
            if let Ok(decoded) = decode(encoding, &payload) {
                prop_assert!(decoded.len() <= PAYLOAD_BYTES_MAX);
            }
        }
    }
}

/// The bytes of the protocol are fixed by this test, because a change of them needs another version number.
#[test]
fn the_bytes_of_version_1() {
    assert_eq!(VERSION, 1);
    let header =
        Header { encoding: Encoding::Lz4, flags: ACK_WANTED, ..Header::new(Kind::Data, 0x0102_0304_0506, 7) };
    assert_eq!(header.encode(), [4, 1, 1, 0, 7, 0, 0, 0, 6, 5, 4, 3, 2, 1, 0, 0]);
    let mut ack = Vec::new();
    Ack { received: 3, consumed: 2, limit: 9 }.encode(&mut ack);
    let numbers = [[3, 0, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 0], [9, 0, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(ack, [vec![5, 0, 0, 0, 16, 0, 0, 0], numbers].concat());
    let link = LinkId { session: [8; 16], number: 5 };
    let hello = Hello { version: 1, link, incarnation: 6, token: [7; 32], node: "a".into() }.encode();
    let begin =
        [vec![1, 0, 0, 0, 81, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], b"thalwegl\x01\0\0\0\0\0\0\0".to_vec()]
            .concat();
    let rest =
        [vec![8; 16], vec![5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0], vec![7; 32], vec![b'a']].concat();
    assert_eq!(hello, [begin, rest].concat());
    let via = Via { session: [8; 16], token: [7; 32], to: 5 }.encode();
    let head = vec![9, 0, 0, 0, 48, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(via, [head, vec![8; 16], vec![7; 32]].concat());
    let header = Header::decode(*via.first_chunk().unwrap()).unwrap();
    assert_eq!(Via::decode(&header, &via[HEADER_BYTES..]).unwrap().encode(), via);
}

#[test]
fn a_refusal_is_cut_between_characters() {
    let refusal = Refusal { is_final: true, why: "ä".repeat(600) };
    let bytes = refusal.encode();
    let header = Header::decode(*bytes.first_chunk().unwrap()).unwrap();
    let read = Refusal::decode(&header, &bytes[HEADER_BYTES..]);
    assert_eq!((read.is_final, read.why), (true, "ä".repeat(256)));
}
