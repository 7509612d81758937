// SPDX-License-Identifier: GPL-2.0-only
//! The arithmetic of ratings: one scale for input and output, the average over time, the share of a slice.

use crate::settings::Settings;

/// Largest visible change that is believed, in thousandths of % of the screen per period: the whole screen 100 times a
/// second. A reporter that claims more gains nothing by it.
const MOST_CHANGED_MPCT: u64 = 10_000_000;

/// Thousandths of % from %; what is not a number, or negative, is 0.
pub(crate) fn changed_mpct(changed_pct: f64) -> u64 {
    // A float cast saturates and takes NaN to 0.
    ((changed_pct * 1000.0) as u64).min(MOST_CHANGED_MPCT)
}

/// C_tout on the scale of C_tin (4.3: "output ratings are normalized to the same scale as the input ratings"; how,
/// is left open). Linear: the client that changed most of what the person sees gets K, the others in proportion.
///
/// * Less than `output_full_pct` changed by everybody does not earn K: on a quiet screen a small change stays small.
/// * Less than `output_least_pct` is no output: 0.
/// * Anything more is worth at least twice `rating_least_milli`, so that the average of 4.3 makes it positive: a
///   small display beside a film is HUCOUT too ("all processes that have positive output ratings", 5.1), with a
///   shorter slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputScale {
    /// What is no output, and what earns K, in thousandths of % of the screen per period.
    least_mpct: u64,
    most_mpct: u64,
    /// What they earn, in thousandths.
    least_milli: u32,
    full_milli: u32,
}

impl OutputScale {
    /// For a period in which the client that changed most changed `most_mpct`.
    pub fn new(settings: &Settings, most_mpct: u64) -> Self {
        OutputScale {
            least_mpct: changed_mpct(settings.output_least_pct).max(1),
            most_mpct: most_mpct.max(changed_mpct(settings.output_full_pct)).max(1),
            least_milli: 2 * settings.rating_least_milli,
            full_milli: settings.full_milli(),
        }
    }

    /// The rating, in thousandths, of a client that changed so much, in thousandths of % of the screen per period.
    pub fn milli(&self, changed_mpct: u64) -> u32 {
        if changed_mpct < self.least_mpct {
            return 0;
        }
        let full = u64::from(self.full_milli);
        let milli = (full * changed_mpct / self.most_mpct).min(full) as u32;
        milli.max(self.least_milli)
    }
}

/// P = (P + P_t) / 2 (4.3, step 3); below `rating_least_milli` it is 0.
pub(crate) fn average(settings: &Settings, rating_milli: u32, temporal_milli: u64) -> u32 {
    let average = ((u64::from(rating_milli) + temporal_milli) / 2).min(u64::from(u32::MAX)) as u32;
    if average < settings.rating_least_milli { 0 } else { average }
}

/// The share of the full slice that a rating earns, per mille (5.1): the highest rating of the class gets 1000; lower
/// ones "a lower allocation, but more than their proportion (e.g. a rating of 0.3 of the maximal rating can lead to an
/// allocation of 0.5)", so that a newcomer can build up its rating.
///
/// The straight line through those two points, (2 + 5 r) / 7: 1000 at r = 1, 500 at 0.3, and never below 285, which
/// also keeps the smallest slice from costing more in switches than it gives. A rating above `most_milli` gets
/// 1000.
pub fn slice_share_pm(rating_milli: u32, most_milli: u32) -> u32 {
    if rating_milli >= most_milli {
        return 1000;
    }
    let (rating, most) = (u64::from(rating_milli), u64::from(most_milli));
    ((2000 * most + 5000 * rating) / (7 * most)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 5.1's two points: the maximum gets all, 0.3 of it gets half.
    #[test]
    fn the_slice_goes_through_the_papers_points() {
        assert_eq!(slice_share_pm(10_000, 10_000), 1000);
        assert_eq!(slice_share_pm(3_000, 10_000), 500);
        assert_eq!(slice_share_pm(0, 10_000), 285);
        assert_eq!(slice_share_pm(0, 0), 1000);
    }

    /// The largest output gets K, others in proportion; a quiet screen gives no K; a cursor is nothing; a film
    /// hides nobody.
    #[test]
    fn outputs_share_the_scale_of_input() {
        let settings = Settings::default();
        let output_milli = |settings, changed, most| OutputScale::new(settings, most).milli(changed);
        assert_eq!(output_milli(&settings, 250_000, 250_000), 10_000);
        assert_eq!(output_milli(&settings, 125_000, 250_000), 5_000);
        assert_eq!(output_milli(&settings, 2_500, 2_500), 5_000);
        assert_eq!(output_milli(&settings, 40, 40), 0);
        assert_eq!(output_milli(&settings, 300, 250_000), 500);
        assert_eq!(average(&settings, 0, 500), 250);
    }

    /// What is no number, negative or beyond belief does no harm.
    #[test]
    fn lies_about_output_are_bounded() {
        assert_eq!(changed_mpct(f64::NAN), 0);
        assert_eq!(changed_mpct(-1.0), 0);
        assert_eq!(changed_mpct(f64::INFINITY), MOST_CHANGED_MPCT);
        assert_eq!(changed_mpct(12.5), 12_500);
    }

    /// A rating that nothing feeds halves and ends at the threshold, at 0, not near it.
    #[test]
    fn a_rating_alone_ends() {
        let settings = Settings::default();
        let mut rating = 10_000;
        let mut seen = vec![];
        while rating > 0 {
            rating = average(&settings, rating, 0);
            seen.push(rating);
        }
        assert_eq!(seen, [5_000, 2_500, 1_250, 625, 312, 0]);
    }

    proptest! {
        /// A higher rating never gets a shorter slice, and never less than its proportion.
        #[test]
        fn slices_rise_and_exceed_the_proportion(low in 0u32..20_000, more in 0u32..20_000, most in 1u32..20_000) {
            let high = low + more;
            prop_assert!(slice_share_pm(low, most) <= slice_share_pm(high, most));
            prop_assert!(slice_share_pm(low, most) <= 1000);
            prop_assert!(u64::from(slice_share_pm(low, most)) >= (1000 * u64::from(low) / u64::from(most)).min(1000));
        }
    }
}
