//! Reads any bytes as records in JSON Lines or XML: reading must not panic, and a record that was read must
//! be written so that it can be read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_net::record::Record;
use thalweg_net::{json, xml};

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, input)) = bytes.split_first() else { return };
    if kind % 2 == 0 {
        input.split(|&byte| byte == b'\n').for_each(json_line);
    } else {
        // Each step consumes input, so the number of steps is at most the number of bytes.
        xml::Records::new(input).take(input.len() + 1).flatten().for_each(|record| xml_record(&record));
    }
});

fn json_line(line: &[u8]) {
    let Ok(record) = json::read_record(line) else { return };
    let mut written = Vec::new();
    json::write_record(&record, &mut written);
    let again = json::read_record(&written).expect("what was written is JSON");
    assert_eq!(record.to_string(), again.to_string());
}

fn xml_record(record: &Record) {
    let mut written = Vec::new();
    xml::write_record(record, &mut written).expect("what was read has a form");
    let again = xml::Records::new(&written[..]).next().expect("a record").expect("what was written is XML");
    assert_eq!(record.to_string(), again.to_string());
}
