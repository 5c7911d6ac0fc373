//! A library of boxes, as its users build one (`crate-type = ["cdylib"]`): the tests of `thalweg-net` load it.

use std::sync::atomic::{AtomicI64, Ordering};

use thalweg_box::{Bytes, Opaque, Out};

/// The number of tickets that exist.
static LIVE: AtomicI64 = AtomicI64::new(0);

/// A value that only this library understands.
struct Ticket(i64);

impl Drop for Ticket {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

fn issue(number: i64, out: &mut Out) {
    LIVE.fetch_add(1, Ordering::SeqCst);
    out.emit((Opaque::new(Ticket(number)), Bytes::from_vec(vec![number as u8; 100])));
}

/// Emits the ticket twice; refuses the number 13 and panics at 14.
fn copy(ticket: Opaque, out: &mut Out) -> Result<(), String> {
    let number = ticket.get::<Ticket>().ok_or("not a ticket of this library")?.0;
    out.emit((ticket.clone(),));
    assert!(number != 14, "fourteen");
    if number == 13 {
        return Err("thirteen".to_owned());
    }
    out.emit((ticket,));
    Ok(())
}

fn redeem(ticket: Opaque, mut data: Bytes, out: &mut Out) -> Result<(), String> {
    let number = ticket.get::<Ticket>().ok_or("not a ticket of this library")?.0;
    data.make_mut()[0] = 255;
    out.emit((number, data.as_slice().len() as i64));
    Ok(())
}

fn live(_: i64, out: &mut Out) {
    out.emit((LIVE.load(Ordering::SeqCst),));
}

/// Emits the tickets of a series, one at a time.
fn series(count: i64, out: &mut Out) {
    let data = Bytes::from_vec(vec![1; 100]);
    out.generate((0..count).map(move |number| {
        LIVE.fetch_add(1, Ordering::SeqCst);
        (Opaque::new(Ticket(number)), data.clone())
    }));
}

thalweg_box::library! {
    "box issue ((n) -> (ticket, data))" => issue,
    "box copy ((ticket) -> (ticket))" => copy,
    "box redeem ((ticket, data) -> (n, <length>))" => redeem,
    "box live ((q) -> (live))" => live,
    "box series ((count) -> (ticket, data))" => blocking series,
}
