use super::*;
use proptest::prelude::*;

/// Sends all that the pace allows, with a thread that wakes late by the times `lateness_ns` in turn. Returns
/// the time and the bytes of each send.
fn sent(rates: &[u64], frame_bytes: u64, lateness_ns: &[u64], duration_ns: u64) -> Vec<(u64, u64)> {
    let mut pace = Pace::default();
    let (mut now, mut turns, mut sent) = (0, 0, Vec::new());
    while now < duration_ns {
        let rate = rates[(now * rates.len() as u64 / duration_ns) as usize];
        match pace.allowance(now, rate) {
            Ok(bytes) => {
                let bytes = bytes.min(frame_bytes);
                pace.spend(now, bytes);
                sent.push((now, bytes));
                // A frame takes time to write.
                now += 2_000;
            }
            Err(then) => {
                assert!(then > now, "it would not wait");
                now = then + lateness_ns[turns % lateness_ns.len()];
                turns += 1;
            }
        }
    }
    sent
}

/// The most bytes in any window of 100 ms that begins with a send.
fn most_in_a_window(sent: &[(u64, u64)]) -> u64 {
    let (mut first, mut within, mut most) = (0, 0, 0);
    for (at, bytes) in sent {
        within += bytes;
        while sent[first].0 + WINDOW_NS <= *at {
            within -= sent[first].1;
            first += 1;
        }
        most = most.max(within);
    }
    most
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// No window exceeds the rate, and with enough to send at least 99 % of the rate are used.
    #[test]
    fn never_more_and_hardly_less(
        rate in 20_000_u64..2_000_000_000,
        frame_bytes in 512_u64..300_000,
        lateness_ns in prop::collection::vec(0_u64..4_000_000, 1..20),
    ) {
        let duration_ns = 3_000_000_000;
        let sent = sent(&[rate], frame_bytes, &lateness_ns, duration_ns);
        let most = most_in_a_window(&sent);
        prop_assert!(most <= window_bytes(rate), "{} of {}", most, window_bytes(rate));
        // The first second is not counted, because bucket and window are still filling then.
        let later: u64 = sent.iter().filter(|(at, _)| *at >= 1_000_000_000).map(|(_, bytes)| bytes).sum();
        // The test expects 99 % of the rate only where neither the 2 µs that each frame takes nor the size of
        // frames, of which only whole ones fit into a window, limits the rate further.
        let possible = 2 * rate;
        if frame_bytes * 500_000 > possible {
            // A thread that was late catches up in a burst, and a window may begin and end with such a burst.
            let latest = *lateness_ns.iter().max().unwrap();
            let lost = 1.5 * latest as f64 / WINDOW_NS as f64;
            let share = if window_bytes(rate) >= 500 * frame_bytes { 0.9925 - lost } else { 0.94 - lost };
            prop_assert!(later as f64 >= share * possible as f64, "{} of {}", later, possible);
        }
    }

    /// When the rate changes, every window keeps to the highest rate in it.
    #[test]
    fn the_rate_may_change(rates in prop::collection::vec(20_000_u64..50_000_000, 2..6), lateness_ns in prop::collection::vec(0_u64..3_000_000, 1..9)) {
        let sent = sent(&rates, 65_536, &lateness_ns, 2_000_000_000);
        let highest = rates.iter().copied().max().unwrap();
        prop_assert!(most_in_a_window(&sent) <= window_bytes(highest));
    }
}

#[test]
fn after_a_rest_no_burst_exceeds_the_window() {
    let mut pace = Pace::default();
    let rate = 10_000_000;
    assert!(pace.allowance(5_000_000_000, rate).unwrap() <= rate / 100);
}
