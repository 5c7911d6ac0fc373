//! The parameters of a controller's decisions.

/// The parameters of a controller's decisions.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// A change is only kept if its gain is at least this value with certainty.
    pub gain_min: f64,
    /// The number of windows after each change that are not compared, because messages that entered before
    /// the change still leave.
    pub settle: usize,
    /// The least number of pairs of windows that are compared.
    pub pairs_min: usize,
    /// The number of pairs without a clear result after which the change is taken back; three times as many
    /// while it gains `gain_min` on average.
    pub pairs_max: usize,
    /// A change that gains at least this part with certainty is kept after fewer pairs.
    pub much: f64,
    /// The loss in one pair of windows, as a fraction, at which a trial ends at once, unless windows scatter so much
    /// that such a loss is often there by chance.
    pub harm: f64,
    /// For how many seconds an action that failed is not tried again; the time doubles with each failure.
    pub rest: f64,
    /// The longest time for which an action that failed is not tried again.
    pub rest_max: f64,
    /// The greatest cost of trials, in seconds of flow.
    pub cost: f64,
    /// The greatest cost of trials, as a fraction of the time so far.
    pub cost_share: f64,
    /// The number of consecutive windows without a measurement after which a trial ends.
    pub blind_max: usize,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            gain_min: 0.02,
            settle: 1,
            pairs_min: 3,
            pairs_max: 8,
            much: 0.2,
            harm: 0.3,
            rest: 10.0,
            rest_max: 3600.0,
            cost: 0.3,
            cost_share: 0.01,
            blind_max: 3,
        }
    }
}
