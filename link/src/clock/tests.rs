use super::*;
use proptest::prelude::*;

/// The true relation of the clocks: the client's is the server's times a rate, plus an offset.
#[derive(Clone, Copy, Debug)]
struct Truth {
    offset_ns: i64,
    drift: f64,
}

impl Truth {
    /// The client's time at the given time of the server.
    fn client(self, server_ns: i64) -> i64 {
        server_ns + self.offset_ns + (self.drift * server_ns as f64) as i64
    }

    fn exchange(self, at_ns: i64, there: i64, stay: i64, back: i64) -> Exchange {
        Exchange {
            client_sent_ns: self.client(at_ns),
            server_received_ns: at_ns + there,
            server_sent_ns: at_ns + there + stay,
            client_received_ns: self.client(at_ns + there + stay + back),
        }
    }
}

proptest! {
    /// For all delays the true difference lies within the bounds, between exchanges and after the last one.
    #[test]
    fn the_truth_is_within(
        offset_ns in -1_i64 << 50..1 << 50,
        drift in -3e-5_f64..3e-5,
        exchanges in prop::collection::vec((1_000_000_i64..5_000_000_000, 1_000_i64..2_000_000, 0_i64..1_000_000, 1_000_i64..2_000_000), 1..60),
    ) {
        let truth = Truth { offset_ns, drift };
        let mut clock = PeerClock::new(50_000.0);
        let mut now = 0;
        for (pause, there, stay, back) in exchanges {
            now += pause;
            prop_assert_eq!(clock.learn(truth.exchange(now, there, stay, back)), Learned::Agrees);
            for later in [0, 1_000_000, 1_000_000_000, 60_000_000_000] {
                let at = now + later;
                let bound = clock.bound(truth.client(at)).unwrap();
                let difference = truth.client(at) - at;
                // A nanosecond is allowed for rounding each of the true readings.
                prop_assert!(bound.low_ns - 1 <= difference && difference <= bound.high_ns + 1, "{:?} {}", bound, difference);
            }
        }
    }

    /// The bound equals that of a brute-force search over slopes: every line that a fine search finds
    /// possible lies within the bound, and some line touches the bound up to the step of the search.
    #[test]
    fn no_wider_than_needed(
        exchanges in prop::collection::vec((1_000_000_i64..1_000_000_000, 1_000_i64..200_000, 1_000_i64..200_000), 2..12),
        later in 0_i64..5_000_000_000,
    ) {
        let truth = Truth { offset_ns: 12_345, drift: 1e-5 };
        let mut clock = PeerClock::new(50_000.0);
        let mut now = 0;
        for (pause, there, back) in &exchanges {
            now += pause;
            clock.learn(truth.exchange(now, *there, 0, *back));
        }
        let at = truth.client(now) + later;
        let bound = clock.bound(at).unwrap();
        let mut highest = f64::NEG_INFINITY;
        let steps = 20_000;
        for step in 0..=steps {
            let slope = -5e-5 + 1e-4 * f64::from(step) / f64::from(steps);
            let up = clock.kept.iter().map(|l| l.high + slope * (at - l.at_ns) as f64).fold(f64::INFINITY, f64::min);
            let down = clock.kept.iter().map(|l| l.low + slope * (at - l.at_ns) as f64).fold(f64::NEG_INFINITY, f64::max);
            if up >= down {
                highest = highest.max(up);
            }
        }
        let found = clock.base_ns as f64 + highest;
        prop_assert!(found <= bound.high_ns as f64 + 1.0, "{} above {:?}", found, bound);
        // The search tries slopes in steps, so it misses the bound by at most one step of the slope times the
        // longest distance.
        let stretch = (at - clock.kept.front().unwrap().at_ns) as f64;
        let grain = 2.0 * 1e-4 / f64::from(steps) * stretch + 2.0;
        if highest.is_finite() {
            prop_assert!(bound.high_ns as f64 <= found + grain, "{:?} {} {}", bound, found, grain);
        }
    }

    /// Readings of a hostile or broken clock neither panic nor overflow.
    #[test]
    fn any_readings(readings in prop::collection::vec((any::<i64>(), any::<i64>(), any::<i64>(), any::<i64>()), 0..40), at: i64) {
        let mut clock = PeerClock::new(50_000.0);
        for (a, b, c, d) in readings {
            clock.learn(Exchange { client_sent_ns: a, server_received_ns: b, server_sent_ns: c, client_received_ns: d });
        }
        let _ = clock.bound(at).map(|bound| (bound.middle_ns(), bound.error_ns()));
    }
}

#[test]
fn exchanges_narrow_the_bound_and_drift_is_followed() {
    let truth = Truth { offset_ns: -7_000_000, drift: 2e-5 };
    let mut clock = PeerClock::new(50_000.0);
    assert_eq!(clock.bound(0), None);
    for second in 0..20 {
        clock.learn(truth.exchange(second * 1_000_000_000, 40_000, 1_000, 40_000));
    }
    let now = 19_000_000_000;
    let bound = clock.bound(truth.client(now)).unwrap();
    assert!(bound.error_ns() < 50_000, "{bound:?}");
    // At this drift a constant offset would be wrong by 1.2 ms a minute later; the line in time has half of
    // this error at most.
    let later = now + 60_000_000_000;
    let bound = clock.bound(truth.client(later)).unwrap();
    assert!(
        bound.error_ns() < 600_000 && (bound.middle_ns() - (truth.client(later) - later)).abs() < 600_000,
        "{bound:?}"
    );
}

#[test]
fn a_step_is_reported_and_the_past_is_forgotten() {
    let truth = Truth { offset_ns: 0, drift: 0.0 };
    let mut clock = PeerClock::new(50_000.0);
    for second in 0..5 {
        assert_eq!(clock.learn(truth.exchange(second * 1_000_000_000, 50_000, 0, 50_000)), Learned::Agrees);
    }
    let stepped = Truth { offset_ns: 5_000_000, drift: 0.0 };
    assert_eq!(clock.learn(stepped.exchange(6_000_000_000, 50_000, 0, 50_000)), Learned::Stepped);
    assert_eq!(clock.learn(stepped.exchange(7_000_000_000, 50_000, 0, 50_000)), Learned::Agrees);
    let bound = clock.bound(stepped.client(7_000_000_000)).unwrap();
    assert!(bound.low_ns <= 5_000_000 && 5_000_000 <= bound.high_ns, "{bound:?}");
    assert_eq!(
        clock.learn(Exchange {
            client_sent_ns: 10,
            server_received_ns: 0,
            server_sent_ns: 0,
            client_received_ns: 5
        }),
        Learned::Impossible
    );
}
