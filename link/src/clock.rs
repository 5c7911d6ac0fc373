//! Bounds on the clock of another host, computed from exchanges of times. The bounds are guaranteed, not
//! estimated.
//!
//! In an exchange the client reads its clock, the server reads its own twice, and the client reads its clock
//! again. Because no message arrives before it was sent, the difference *client − server* lies between
//! `client_sent − server_received` and `client_received − server_sent`. Clocks drift (5–30 µs a second are
//! typical), so the difference is a line over time. All lines that respect every exchange's bounds and have
//! no more than a stated drift are possible, and the bound at a moment is the interval from the lowest to the
//! highest value of these lines at that moment. See SKaMPI (Hoefler, Schneider, Lumsdaine 2008) and Huygens
//! (Geng et al. 2018) for the method.

use std::collections::VecDeque;

/// The number of exchanges that are kept.
const KEPT_MAX: usize = 24;

/// Four readings: two of the client's clock around two of the server's, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The client's clock before it sent the question.
    pub client_sent_ns: i64,
    /// The server's clock when the question had arrived.
    pub server_received_ns: i64,
    /// The server's clock before it answered.
    pub server_sent_ns: i64,
    /// The client's clock when the answer had arrived.
    pub client_received_ns: i64,
}

/// The two values between which the difference *client − server* lies at some time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The lowest possible difference.
    pub low_ns: i64,
    /// The highest possible difference.
    pub high_ns: i64,
}

impl Bound {
    /// The middle of the bound.
    pub fn middle_ns(&self) -> i64 {
        self.low_ns + (self.high_ns - self.low_ns) / 2
    }

    /// Half of the bound's width, which is the largest error of the middle.
    pub fn error_ns(&self) -> i64 {
        self.high_ns.saturating_sub(self.low_ns).saturating_add(1) / 2
    }
}

/// The result of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// The exchange agrees with those before.
    Agrees,
    /// The exchange contradicts those before, because one of the clocks was set or drifts more than was
    /// stated. The former exchanges are then forgotten.
    Stepped,
    /// The exchange contradicts itself (an answer before its question) and is ignored.
    Impossible,
}

/// The bounds on another host's clock.
#[derive(Clone, Debug)]
pub struct PeerClock {
    /// The most that the clocks drift apart, in nanoseconds per nanosecond.
    drift_max: f64,
    /// The lower bound of the first exchange. Other bounds are stored relative to the first exchange's bound,
    /// because the difference of two hosts' clocks may be too large for an `f64` to hold to the nanosecond.
    base_ns: i64,
    kept: VecDeque<Line>,
}

/// The bounds from one exchange: at `at_ns` of the client's clock the difference was within them.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// The client's clock before it sent the question; it gives the order of exchanges that overlap in time.
    sent_ns: i64,
    at_ns: i64,
    low: f64,
    high: f64,
}

impl PeerClock {
    /// The clock of a peer with which no times were exchanged yet, and which drifts from the client's by at
    /// most this many nanoseconds per second.
    pub fn new(drift_ns_per_s: f64) -> PeerClock {
        PeerClock { drift_max: drift_ns_per_s / 1e9, base_ns: 0, kept: VecDeque::new() }
    }

    /// Adds an exchange.
    pub fn learn(&mut self, exchange: Exchange) -> Learned {
        let Exchange { client_sent_ns, server_received_ns, server_sent_ns, client_received_ns } = exchange;
        let round_trip = client_received_ns.checked_sub(client_sent_ns);
        let at_server = server_sent_ns.checked_sub(server_received_ns);
        let (Some(round_trip), Some(at_server)) = (round_trip, at_server) else { return Learned::Impossible };
        let low = client_sent_ns.checked_sub(server_received_ns);
        let high = client_received_ns.checked_sub(server_sent_ns);
        let (Some(low), Some(high)) = (low, high) else { return Learned::Impossible };
        if round_trip < 0 || at_server < 0 || low > high {
            return Learned::Impossible;
        }
        // Both clocks drift during the exchange, so the bound in the middle of the exchange is widened by
        // this much.
        let spare = self.drift_max * round_trip as f64;
        let at_ns = client_sent_ns + round_trip / 2;
        let relative = |ns: i64, base: i64| ns.saturating_sub(base) as f64;
        let stepped = self.kept.back().is_some_and(|last| client_sent_ns < last.sent_ns)
            || self.line(at_ns).is_some_and(|(lowest, highest)| {
                lowest > relative(high, self.base_ns) + spare || highest < relative(low, self.base_ns) - spare
            });
        if stepped {
            self.kept.clear();
        }
        if self.kept.is_empty() {
            self.base_ns = low;
        }
        let base = self.base_ns;
        self.kept.push_back(Line {
            sent_ns: client_sent_ns,
            at_ns,
            low: relative(low, base) - spare,
            high: relative(high, base) + spare,
        });
        if self.kept.len() > KEPT_MAX {
            self.forget_one();
        }
        if stepped { Learned::Stepped } else { Learned::Agrees }
    }

    /// Forgets the exchange with the widest bounds, but neither the first nor the last.
    fn forget_one(&mut self) {
        let inner = 1..self.kept.len() - 1;
        let width = |index: &usize| self.kept[*index].high - self.kept[*index].low;
        let widest = inner.max_by(|a, b| width(a).total_cmp(&width(b)));
        self.kept.remove(widest.unwrap_or(0));
    }

    /// The bound of the difference *client − server* at this time of the client's clock; `None` before the
    /// first exchange.
    pub fn bound(&self, at_ns: i64) -> Option<Bound> {
        let (low, high) = self.line(at_ns)?;
        Some(Bound {
            low_ns: self.base_ns.saturating_add(low.floor() as i64),
            high_ns: self.base_ns.saturating_add(high.ceil() as i64),
        })
    }

    /// The bound at this time, relative to `base_ns`.
    fn line(&self, at_ns: i64) -> Option<(f64, f64)> {
        let high = self.highest(at_ns, |line| (line.low, line.high))?;
        // The lowest value is the negative of the highest value for the negated bounds.
        let low = -self.highest(at_ns, |line| (-line.high, -line.low))?;
        Some((low, high))
    }

    /// The highest value at `at_ns` of a line that keeps within all bounds. The line with the highest value
    /// touches two bounds, or touches one bound and has the greatest possible slope.
    fn highest(&self, at_ns: i64, bounds: impl Fn(&Line) -> (f64, f64)) -> Option<f64> {
        let origin = self.kept.front()?.at_ns;
        let x = |at: i64| at.wrapping_sub(origin) as f64;
        let lines: Vec<_> = self
            .kept
            .iter()
            .map(|line| {
                let (low, high) = bounds(line);
                (x(line.at_ns), low, high)
            })
            .collect();
        let target = x(at_ns);
        // Given a slope, the highest line is the one that touches the lowest of the upper bounds; that line
        // is possible if it stays above all lower bounds. The lowest upper bound and the highest lower bound
        // are piecewise linear in the slope, so only slopes at their corners have to be tried.
        let mut slopes = vec![-self.drift_max, self.drift_max];
        for (index, a) in lines.iter().enumerate() {
            for b in &lines[index + 1..] {
                let (a, b) = if a.0 <= b.0 { (a, b) } else { (b, a) };
                let apart = b.0 - a.0;
                if apart > 0.0 {
                    slopes.extend([(b.2 - a.2) / apart, (b.2 - a.1) / apart, (b.1 - a.2) / apart]);
                }
            }
        }
        let value = |slope: f64| {
            let upper = lines.iter().map(|(x, _, high)| high - slope * x).fold(f64::INFINITY, f64::min);
            let lower = lines.iter().map(|(x, low, _)| low - slope * x).fold(f64::NEG_INFINITY, f64::max);
            // The tolerance covers the rounding of nanoseconds since an epoch, not errors of the clocks.
            (upper - lower >= -1e-3).then_some(upper + slope * target)
        };
        let within = slopes.into_iter().filter(|slope| slope.abs() <= self.drift_max);
        let possible = within.filter_map(value).max_by(f64::total_cmp);
        // If no line respects all bounds, the widest bound that each exchange alone allows is used.
        possible.or_else(|| {
            let spread = |(x, _, high): &(f64, f64, f64)| high + self.drift_max * (target - x).abs();
            lines.iter().map(spread).min_by(f64::total_cmp)
        })
    }
}

#[cfg(test)]
mod tests;
