// SPDX-License-Identifier: GPL-2.0-only
//! The numbers the papers leave open: default, unit, range and what raising each costs, once, for the code, the command
//! line and the manual.

use thiserror::Error;

/// A setting that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// No setting has that name.
    #[error("no policy setting is called '{name}'; there are: {known}")]
    Unknown {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The value is no number, or out of range.
    #[error("policy setting {name}={value}: give a number from {least} to {most} ({unit})")]
    Range {
        /// The setting.
        name: &'static str,
        /// The value given.
        value: String,
        /// Least value.
        least: String,
        /// Greatest value.
        most: String,
        /// Its unit.
        unit: &'static str,
    },
    /// Two settings contradict each other.
    #[error("policy setting {low}={low_value} is above {high}={high_value}: lower {low} or raise {high}")]
    Order {
        /// The setting that must not be the larger one.
        low: &'static str,
        /// Its value.
        low_value: String,
        /// The setting that must not be the smaller one.
        high: &'static str,
        /// Its value.
        high_value: String,
    },
}

/// One line of the table of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Name, as in `--set name=value`.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Default, as text.
    pub default: String,
    /// Least and greatest value, as text.
    pub range: (String, String),
    /// What it is, why the default, what raising it costs.
    pub text: &'static str,
}

macro_rules! settings {
    ($($name:ident: $type:ty = $default:expr, $least:expr, $most:expr, $unit:expr, $text:expr;)*) => {
        /// The policy's settings.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Settings {
            $(#[doc = $text] #[doc = concat!("\n\nUnit: ", $unit, ".")] pub $name: $type,)*
        }

        impl Default for Settings {
            fn default() -> Self {
                Settings { $($name: $default,)* }
            }
        }

        impl Settings {
            /// All settings, for help texts.
            pub fn table() -> Vec<About> {
                vec![$(About {
                    name: stringify!($name),
                    unit: $unit,
                    default: <$type>::to_string(&$default),
                    range: (<$type>::to_string(&$least), <$type>::to_string(&$most)),
                    text: $text,
                },)*]
            }

            /// Set one by name, from text.
            ///
            /// # Errors
            /// An unknown name, or a value that is no number or out of range; nothing is changed then.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingsError> {
                let mut changed = self.clone();
                match name {
                    $(stringify!($name) => match value.trim().parse::<$type>() {
                        Ok(number) => changed.$name = number,
                        Err(_) => return Err(SettingsError::Range {
                            name: stringify!($name),
                            value: value.to_string(),
                            least: <$type>::to_string(&$least),
                            most: <$type>::to_string(&$most),
                            unit: $unit,
                        }),
                    },)*
                    _ => return Err(SettingsError::Unknown {
                        name: name.to_string(),
                        known: [$(stringify!($name)),*].join(", "),
                    }),
                }
                changed.in_range()?;
                *self = changed;
                Ok(())
            }

            fn in_range(&self) -> Result<(), SettingsError> {
                $(if !($least..=$most).contains(&self.$name) {
                    return Err(SettingsError::Range {
                        name: stringify!($name),
                        value: self.$name.to_string(),
                        least: <$type>::to_string(&$least),
                        most: <$type>::to_string(&$most),
                        unit: $unit,
                    });
                })*
                Ok(())
            }
        }
    };
}

settings! {
    input_memory_s: u32 = 10, 1, 600, "seconds",
        "How long a process stays HuC after its last input: HuC's K (4.1.2). 10: longer than the pauses inside a \
         burst of typing or reading, shorter than it takes to turn to something else. Raising it keeps programs \
         urgent that the person has left.";
    rating_least_milli: u32 = 250, 1, 500, "thousandths of a rating",
        "A rating below this is 0 (4.3 halves for ever; somewhere it has to end). 250: a process that nothing \
         reaches any more leaves its class within six seconds. Raising it forgets sooner; lowering it makes the \
         tail longer.";
    output_full_pct: f64 = 5.0, 0.01, 1000.0, "% of the screen changed per second",
        "Output ratings are put on the scale of input ratings (4.3): the client that changed most of the screen \
         gets K, but only if it changed this much. 5: a line of text five times a second is half of it, any film \
         is far above. Raising it lowers the output ratings of quiet screens.";
    output_least_pct: f64 = 0.25, 0.0, 100.0, "% of the screen changed per second",
        "Less visible change than this is no output. 0.25: a blinking cursor (0.01 to 0.05) or a clock's seconds \
         do not make a process HuC, a line of text does. Raising it makes small displays, such as meters, count \
         for nothing.";
    crowd_weight_pm: u32 = 1000, 0, 100_000, "thousandths",
        "How much all processes that serve the person only through one other weigh together beside others of their \
         class, in thousandths of what that one weighs. 1000: a compilation that prints into a terminal counts as much as the \
         terminal, however many its processes. 0: each has the weight of its own rating, as in the paper. \
         Raising it lets what runs behind a window take more from other windows.";
    server_least_milli: u32 = 500, 0, 10000, "thousandths of a rating",
        "The input rating a display server keeps while nobody does anything. The server handles an input event \
         before anyone can report it: rated 0, it would keep the first key after a pause waiting behind \
         everything. 0 is the paper to the letter. Raising it gives the server longer slices beside HUCIN \
         processes.";
    hub_enter: u32 = 40, 2, 100000, "processes",
        "A process is a hub when it recently both woke and was woken by this many others that do not descend from \
         it. 40: more than any desktop program talks to both ways; a shell's jobs, make's children, a browser's \
         or tmux's own processes descend from it and do not count. Raising it lets ratings flow through busier \
         processes.";
    hub_leave: u32 = 20, 1, 100000, "processes",
        "A process recognised by fan-out is no hub any more below this many. Half of hub_enter, so that one on \
         the edge does not flap. Raising it ends hubs sooner.";
    hub_passes: u32 = 3, 1, 60, "passes",
        "How many passes in a row the fan-out must last: a burst of short jobs is no hub. Raising it recognises \
         hubs later.";
}

impl Settings {
    /// # Errors
    /// A value out of range, or two that contradict each other.
    pub fn validate(&self) -> Result<(), SettingsError> {
        self.in_range()?;
        if self.hub_leave > self.hub_enter {
            return Err(SettingsError::Order {
                low: "hub_leave",
                low_value: self.hub_leave.to_string(),
                high: "hub_enter",
                high_value: self.hub_enter.to_string(),
            });
        }
        if self.output_least_pct > self.output_full_pct {
            return Err(SettingsError::Order {
                low: "output_least_pct",
                low_value: self.output_least_pct.to_string(),
                high: "output_full_pct",
                high_value: self.output_full_pct.to_string(),
            });
        }
        Ok(())
    }

    /// K on the scale of ratings, in thousandths.
    pub fn full_milli(&self) -> u32 {
        self.input_memory_s * 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults are inside their own ranges.
    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(Settings::default().validate(), Ok(()));
    }

    /// A bad value names the setting, the value, the range and the unit, and changes nothing.
    #[test]
    fn a_bad_value_is_refused_in_words_and_changes_nothing() {
        for bad in ["0", "-1", "ten", "601", "NaN", ""] {
            let mut settings = Settings::default();
            let message = settings.set("input_memory_s", bad).unwrap_err().to_string();
            assert!(message.contains(&format!("input_memory_s={bad}")), "{message}");
            assert!(message.contains("1 to 600 (seconds)"), "{message}");
            assert_eq!(settings, Settings::default());
        }
        let mut settings = Settings::default();
        assert!(settings.set("output_full_pct", "NaN").is_err());
        assert!(settings.set("output_full_pct", "inf").is_err());
    }

    /// An unknown name lists the known ones.
    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let message = Settings::default().set("k", "1").unwrap_err().to_string();
        assert!(message.contains("'k'") && message.contains("input_memory_s"), "{message}");
    }

    /// Settings that contradict each other are found, whichever of the two was set last.
    #[test]
    fn contradictions_are_found() {
        let mut settings = Settings::default();
        settings.set("hub_leave", "41").unwrap();
        assert!(settings.validate().unwrap_err().to_string().contains("hub_enter=40"));
        let mut settings = Settings::default();
        settings.set("output_least_pct", "6").unwrap();
        assert!(matches!(settings.validate(), Err(SettingsError::Order { .. })));
    }

    /// Every setting can be set to its own default by the name in the table.
    #[test]
    fn the_table_is_complete_and_true() {
        for about in Settings::table() {
            let mut settings = Settings::default();
            settings.set(about.name, &about.default).unwrap();
            assert_eq!(settings, Settings::default());
            assert!(!about.text.is_empty() && !about.unit.is_empty());
        }
    }
}
