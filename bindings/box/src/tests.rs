use crate::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn add(a: i64, b: i64, out: &mut Out) -> Result<(), String> {
    out.emit((a.checked_add(b).ok_or("overflow")?,));
    Ok(())
}

fn entry_add() -> BoxEntry {
    BoxEntry::new("box add ((a,b) -> (c))", add)
}

#[test]
fn a_box_takes_arguments_in_order_and_emits() {
    assert_eq!(entry_add().argument_count(), 2);
    assert_eq!(entry_add().signature().unwrap(), "box add ((a,b) -> (c))");
    let emitted = entry_add().run(vec![Value::Int(2), Value::Int(3)], 9).unwrap();
    assert_eq!(emitted, [(1, vec![Value::Int(5)])]);
}

#[test]
fn failures_say_why() {
    let fails = |arguments| entry_add().run(arguments, 9).unwrap_err();
    assert_eq!(fails(vec![Value::Int(i64::MAX), Value::Int(1)]), "overflow");
    assert_eq!(fails(vec![1i64.into(), "x".into()]), "argument 2: expected integer, found text");
    assert_eq!(fails(vec![1i64.into()]), "called with another number of arguments than it has");
    let panics = BoxEntry::new("box p ((a) -> (a))", |a: i64, _: &mut Out| {
        assert!(a > 0, "a is {a}");
    });
    assert_eq!(panics.run(vec![Value::Int(-1)], 9).unwrap_err(), "the box panicked: a is -1");
}

#[test]
fn several_variants_the_last_stays_at_the_desk() {
    let entry = BoxEntry::new("box v ((a) -> (a,b) | ())", |a: i64, out: &mut Out| {
        out.emit((a, a));
        out.emit_variant(2, ());
        out.emit((a + 1, "b"));
    });
    let mut seen = Vec::new();
    let mut host = |e: Emitted<'_>| seen.push((e.variant, e.count, e.values.to_vec()));
    let mut desk = Desk::new(1, 2);
    for _ in 0..2 {
        desk.arguments()[0] = Value::Int(7);
        assert!(desk.call(&entry, &mut host));
        let last = desk.emitted().unwrap();
        assert_eq!((last.variant, last.values.to_vec()), (1, vec![Value::Int(8), "b".into()]));
        assert!(desk.emitted().is_none() && desk.generator().is_none());
    }
    let once = [(1, 2, vec![Value::Int(7), Value::Int(7)]), (2, 0, vec![])];
    assert_eq!(seen, [once.clone(), once].concat());
}

#[test]
fn a_variant_longer_than_the_slots_is_told_and_harmless() {
    let entry = BoxEntry::new("box v ((a) -> (a))", |a: i64, out: &mut Out| out.emit((a, "x", a)));
    let mut desk = Desk::new(1, 2);
    desk.arguments()[0] = Value::Int(7);
    assert!(desk.call(&entry, &mut |_: Emitted<'_>| unreachable!("there is one only")));
    let emitted = desk.emitted().unwrap();
    assert_eq!((emitted.count, emitted.values.len()), (3, 0));
}

#[test]
fn generators_are_polled_and_follow_each_other() {
    let entry = BoxEntry::new("box g ((a) -> (<n>))", |a: i64, out: &mut Out| {
        out.emit((-1i64,));
        out.generate((0..a).map(|n| (n,)));
        out.generate((10..).map(|n: i64| (n,)));
    });
    let numbers = |limit| -> Vec<i64> {
        let emitted = entry.run(vec![Value::Int(2)], limit).unwrap();
        emitted.into_iter().map(|(_, values)| i64::from_value(values[0].clone()).unwrap()).collect()
    };
    assert_eq!(numbers(6), [-1, 0, 1, 10, 11, 12]);
    let fails = BoxEntry::new("box g (() -> (<n>))", |out: &mut Out| {
        out.generate([Ok((1i64,)), Err("second".to_owned())]);
    });
    assert_eq!(fails.run(vec![], 9).unwrap_err(), "second");
}

fn out_of_luck() -> bool {
    false
}

/// A type that counts its own drops.
struct Counted(Arc<AtomicUsize>);
impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn every_value_is_dropped_once_whatever_happens() {
    let drops = Arc::new(AtomicUsize::new(0));
    let opaque = || Value::Opaque(Opaque::new(Counted(drops.clone())));
    let keeps = BoxEntry::new("box k ((a,b) -> (a,b))", |a: Opaque, b: Opaque, out: &mut Out| {
        out.emit((a.clone(), a.clone()));
        out.emit((a, b));
    });
    drop(keeps.run(vec![opaque(), opaque()], 9).unwrap());
    assert_eq!(drops.swap(0, Ordering::Relaxed), 2, "emitted");
    let mismatch = BoxEntry::new("box k ((a,b) -> (a))", |a: Opaque, _: i64, out: &mut Out| out.emit((a,)));
    mismatch.run(vec![opaque(), opaque()], 9).unwrap_err();
    assert_eq!(drops.swap(0, Ordering::Relaxed), 2, "wrong argument");
    let panics = BoxEntry::new("box k ((a) -> (a))", |a: Opaque, out: &mut Out| {
        out.emit((a,));
        assert!(out_of_luck(), "after the emission");
    });
    panics.run(vec![opaque()], 9).unwrap_err();
    assert_eq!(drops.swap(0, Ordering::Relaxed), 1, "panicked");
    let long = BoxEntry::new("box k ((a) -> (a))", |a: Opaque, out: &mut Out| {
        out.generate(std::iter::repeat_with(move || (a.clone(),)));
    });
    assert_eq!(long.run(vec![opaque()], 5).unwrap().len(), 5);
    assert_eq!(drops.swap(0, Ordering::Relaxed), 1, "generator stopped early");
}

#[test]
fn bytes_and_texts_are_shared_until_changed() {
    let mut one = Bytes::from_vec(vec![1, 2]);
    let address = one.as_slice().as_ptr();
    one.make_mut()[0] = 5;
    assert_eq!(one.as_slice().as_ptr(), address, "in place");
    let two = one.clone();
    assert_eq!(two.as_slice().as_ptr(), address, "shared");
    one.make_mut()[0] = 6;
    assert_eq!((one.as_slice(), two.as_slice()), (&[6, 2][..], &[5, 2][..]));
    let vec = two.into_vec();
    assert_eq!(vec.as_ptr(), address, "the same memory comes back");
    let mut text = Text::from_string("äb".to_owned());
    let other = text.clone();
    text.make_mut().make_ascii_uppercase();
    assert_eq!((text.as_str(), other.as_str()), ("äB", "äb"));
    assert_eq!(Bytes::from_vec(Vec::new()).as_slice(), []);
}

#[test]
fn opaque_values_open_for_their_own_type_only() {
    let mut opaque = Opaque::new(String::from("a"));
    assert_eq!(opaque.get::<u8>(), None);
    opaque.get_mut::<String>().unwrap().push('b');
    let other = opaque.clone();
    assert_eq!(opaque.get_mut::<String>(), None, "shared");
    assert_eq!(other.get::<String>().unwrap(), "ab");
}

#[test]
fn values_go_between_threads() {
    let bytes = Bytes::from_vec(vec![7; 1000]);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let bytes = bytes.clone();
            std::thread::spawn(move || (0..1000).map(|_| usize::from(bytes.clone()[999])).sum::<usize>())
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), 7000);
    }
    assert_eq!(bytes.into_vec().len(), 1000);
}

mod exported {
    use crate::{EventField, EventKind, Parameter};

    pub(super) static GAIN: Parameter = Parameter::new(c"gain", c"percent", c"How loud", 0..=400, 100);
    pub(super) static CLIPPED: EventKind =
        EventKind::new(c"clipped", c"Too loud", &[EventField::integer(c"sample", c"")]);

    fn nothing(_: i64, _: &mut crate::Out) {}
    fn wait(out: &mut crate::Out) {
        out.emit(());
    }
    fn refuse() -> Result<(), String> {
        if GAIN.get() == 100 { Ok(()) } else { Err(format!("the gain is {}", GAIN.get())) }
    }
    fn close() {
        GAIN.set(7);
    }
    library! {
        init refuse;
        finish close;
        parameters GAIN;
        events CLIPPED;
        "box nothing ((a) -> )" => nothing,
        "box wait (() -> ())" => blocking wait
    }
}

#[test]
fn a_table_of_this_version_is_accepted() {
    // SAFETY: what `library!` exports is a table that lives for ever.
    let table = unsafe { LibraryTable::check(exported::thalweg_boxes()) }.unwrap();
    let entries = table.boxes();
    assert_eq!(entries.len(), 2);
    assert_eq!((entries[0].is_blocking(), entries[1].is_blocking()), (false, true));
    let parameters: Vec<_> = table.parameters().map(|parameter| parameter.spec().unwrap()).collect();
    assert_eq!(parameters.len(), 1);
    assert_eq!(
        (parameters[0].name.as_str(), parameters[0].range.clone(), parameters[0].value),
        ("gain", 0..=400, 100)
    );
    let events: Vec<_> = table.events().map(|kind| kind.spec().unwrap()).collect();
    assert_eq!(events[0].fields, [("sample".to_owned(), String::new(), false)]);
    assert_eq!(table.init(), Ok(()));
    let cell = std::sync::atomic::AtomicU64::new(5000);
    // SAFETY: nothing uses the parameter after this test.
    unsafe { exported::GAIN.bind(&*Box::leak(Box::new(cell))) };
    assert_eq!(exported::GAIN.get(), 400, "what stands in the cell is not believed");
    assert_eq!(table.init(), Err("the gain is 400".to_owned().into()));
    table.finish();
    assert_eq!(exported::GAIN.get(), 7);
}

#[test]
fn events_go_to_the_host_while_there_is_one() {
    use abi::event::EventHost;
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn write(_: *const EventHost, words: *const u64) {
        // SAFETY: the kind has one field.
        SEEN.fetch_add(unsafe { *words } as usize, Ordering::Relaxed);
    }
    exported::CLIPPED.write([5i64.into()]);
    // SAFETY: a static lives for ever.
    unsafe { exported::CLIPPED.bind(const { &EventHost { write } }) };
    exported::CLIPPED.write([7i64.into()]);
    assert_eq!(SEEN.load(Ordering::Relaxed), 7);
}

#[test]
fn shared_opaque_values_are_copied_when_changed() {
    let mut one = Opaque::new(vec![1]);
    one.make_mut::<Vec<i32>>().unwrap().push(2);
    let two = one.clone();
    one.make_mut::<Vec<i32>>().unwrap().push(3);
    assert_eq!((one.get(), two.get()), (Some(&vec![1, 2, 3]), Some(&vec![1, 2])));
    let _shared = one.clone();
    assert_eq!(one.make_mut::<String>(), None);
}

#[test]
fn tables_of_other_versions_are_refused_in_one_line() {
    /// The part of a library's table that is the same in all versions.
    #[repr(C)]
    struct Head {
        magic: u64,
        abi_version: u32,
        box_count: u32,
    }
    let refused = |magic, abi_version| {
        let head: &Head = Box::leak(Box::new(Head { magic, abi_version, box_count: 1 }));
        // SAFETY: the head lives for ever, and `check` reads no further than the first two fields.
        unsafe { LibraryTable::check(std::ptr::from_ref(head).cast()) }.unwrap_err().to_string()
    };
    assert!(refused(abi::MAGIC, 3).starts_with("it was built for an older box interface (3;"));
    assert!(refused(abi::MAGIC, abi::ABI_VERSION + 1).starts_with("it was built for a newer box interface"));
    assert!(refused(5, 1).contains("not the table"));
    assert!([refused(abi::MAGIC, 9), refused(5, 1)].iter().all(|line| !line.contains('\n')));
    // SAFETY: a null pointer is one of the cases that `check` looks for.
    assert!(unsafe { LibraryTable::check(std::ptr::null()) }.is_err());
}
