// SPDX-License-Identifier: GPL-2.0-only
//! What an option may be. Who gives something else is told option and value by clap, and bounds and unit by this.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Takes a number within `bounds`, of `unit`: for clap.
pub fn number<T>(
    bounds: RangeInclusive<T>,
    unit: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| match text.trim().parse::<T>() {
        Ok(number) if bounds.contains(&number) => Ok(number),
        _ => Err(format!("give a number from {} to {}, in {unit}", bounds.start(), bounds.end())),
    }
}

/// Takes a number of milliseconds within `bounds`, which are in nanoseconds.
pub fn millis(bounds: &RangeInclusive<u64>) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    let ms = |ns: &u64| *ns as f64 / 1e6;
    number(ms(bounds.start())..=ms(bounds.end()), "ms")
}
