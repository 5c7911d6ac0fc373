//! A European call option on a share whose price is a geometric Brownian motion: the payoff of one path, and
//! the value of the option (Black and Scholes, The Pricing of Options and Corporate Liabilities, 1973).

/// The number of steps of a price path.
const STEPS: u64 = 64;
/// The unit of payoffs, which are integers so that sums do not depend on the order of addition.
const UNIT: f64 = 1.0 / (1 << 16) as f64;

/// The option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// The share's price now.
    pub spot: f64,
    /// The price for which the share may be bought at the end.
    pub strike: f64,
    /// The risk-free interest rate per year.
    pub rate: f64,
    /// The share's volatility per year.
    pub volatility: f64,
    /// Years until the end.
    pub years: f64,
}

/// The sums of the payoffs of paths, in whole units, so that they do not depend on the order of addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The sum of the payoffs.
    pub sum: i64,
    /// The sum of the payoffs' squares.
    pub squares: i64,
}

impl Sums {
    /// These sums with the payoff of one more path added.
    ///
    /// # Errors
    /// When the sums get too large for 64 bits.
    pub fn with(self, payoff: i64) -> Result<Sums, &'static str> {
        let square = (payoff as f64 * payoff as f64 * UNIT).round() as i64;
        self.merge(Sums { sum: payoff, squares: square })
    }

    /// These sums with the sums of other paths added.
    ///
    /// # Errors
    /// When the sums get too large for 64 bits.
    pub fn merge(self, other: Sums) -> Result<Sums, &'static str> {
        let sums = self.sum.checked_add(other.sum).zip(self.squares.checked_add(other.squares));
        let (sum, squares) = sums.ok_or("the payoffs add up to more than 64 bits hold: price fewer paths")?;
        Ok(Sums { sum, squares })
    }
}

impl Call {
    /// Checks that all values are numbers for which there is a price.
    ///
    /// # Errors
    /// When a value is out of range.
    pub fn checked(self) -> Result<Call, String> {
        for (name, value) in [
            ("spot", self.spot),
            ("strike", self.strike),
            ("volatility", self.volatility),
            ("years", self.years),
        ] {
            if !(value > 0.0 && value < 1e6) {
                return Err(format!("{name} is {value}: it must be more than 0 and less than a million"));
            }
        }
        if self.rate.abs() < 1.0 {
            Ok(self)
        } else {
            Err(format!("rate is {}: 0.03 are three percent", self.rate))
        }
    }

    /// The payoff of path number `path` at the end, in units.
    pub fn payoff(&self, path: u64) -> i64 {
        let mut random = Random::of(path);
        let step = self.years / STEPS as f64;
        let drift = (self.rate - self.volatility * self.volatility / 2.0) * step;
        let spread = self.volatility * step.sqrt();
        let mut price = self.spot;
        for _ in 0..STEPS / 2 {
            let (first, second) = random.normals();
            price *= (drift + spread * first).exp();
            price *= (drift + spread * second).exp();
        }
        ((price - self.strike).max(0.0) / UNIT).round() as i64
    }

    /// The present price and its standard error, from the payoffs of `paths` paths.
    pub fn price(&self, sums: Sums, paths: u64) -> (f64, f64) {
        let (count, discount) = (paths as f64, (-self.rate * self.years).exp());
        let mean = sums.sum as f64 * UNIT / count;
        let variance = (sums.squares as f64 * UNIT / count - mean * mean).max(0.0);
        (discount * mean, discount * (variance / count).sqrt())
    }

    /// The exact present price.
    pub fn exact(&self) -> f64 {
        let spread = self.volatility * self.years.sqrt();
        let growth = (self.rate + self.volatility * self.volatility / 2.0) * self.years;
        let d1 = ((self.spot / self.strike).ln() + growth) / spread;
        let discounted = self.strike * (-self.rate * self.years).exp();
        self.spot * normal_distribution(d1) - discounted * normal_distribution(d1 - spread)
    }
}

/// The standard normal distribution, within 7.5e-8 (Abramowitz and Stegun, 26.2.17).
fn normal_distribution(x: f64) -> f64 {
    const B: [f64; 5] = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let tail = B.iter().rev().fold(0.0, |sum, b| (sum + b) * t);
    let above = tail * (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if x < 0.0 { above } else { 1.0 - above }
}

/// Pseudo-random numbers (splitmix64), a stream for each path.
struct Random(u64);

impl Random {
    /// The stream of a path; the streams of neighbouring paths are independent.
    fn of(path: u64) -> Random {
        Random(Random(path).next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A random number greater than 0 and at most 1.
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Two independent normal numbers (Box and Muller, 1958).
    fn normals(&mut self) -> (f64, f64) {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        (radius * cosine, radius * sine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(strike: f64, volatility: f64) -> Call {
        Call { spot: 100.0, strike, rate: 0.05, volatility, years: 1.0 }
    }

    /// The example in Hull, Options, Futures, and Other Derivatives: the price is 4.76 for S = 42, K = 40,
    /// r = 0.1, σ = 0.2 and half a year.
    #[test]
    fn the_exact_price_is_the_textbooks() {
        let hulls = Call { spot: 42.0, strike: 40.0, rate: 0.1, volatility: 0.2, years: 0.5 };
        assert!((hulls.exact() - 4.759_4).abs() < 1e-4, "{}", hulls.exact());
        assert!((call(100.0, 0.2).exact() - 10.450_6).abs() < 1e-4);
    }

    #[test]
    fn paths_pay_what_the_option_is_worth() {
        for (strike, volatility) in [(80.0, 0.1), (100.0, 0.2), (130.0, 0.4)] {
            let call = call(strike, volatility);
            let paths = 40_000;
            let sums =
                (1..=paths).try_fold(Sums::default(), |sums, path| sums.with(call.payoff(path))).unwrap();
            let (price, error) = call.price(sums, paths);
            assert!(
                (price - call.exact()).abs() < 3.0 * error,
                "{price} ± {error}, exactly {}",
                call.exact()
            );
            assert!(error > 0.0 && error < 0.02 * call.spot * volatility, "{error}");
        }
    }

    #[test]
    fn sums_that_are_too_large_are_an_error() {
        let large = Sums { sum: i64::MAX, squares: 0 };
        assert!(large.with(1).unwrap_err().contains("fewer paths"));
    }

    #[test]
    fn what_has_no_price_is_refused() {
        for broken in [call(0.0, 0.2), call(f64::NAN, 0.2), call(100.0, -1.0), call(100.0, f64::INFINITY)] {
            assert!(broken.checked().is_err(), "{broken:?}");
        }
        assert!(Call { rate: 3.0, ..call(100.0, 0.2) }.checked().unwrap_err().contains("0.03"));
    }
}
