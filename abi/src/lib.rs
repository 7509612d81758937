// SPDX-License-Identifier: GPL-2.0-only
//! Every byte layout and message that crosses a boundary of limelight, and nothing else.
//!
//! [`sched`] is the boundary between the BPF scheduler and the daemon, generated from `include/sched_abi.h`;
//! [`coop`] the one between a cooperative process and both, generated from `include/coop_abi.h`;
//! [`record`] the one between the BPF program that watches one process and who asks for that, from `include/record_abi.h`;
//! [`sense`] the messages of the per-login helper to the daemon.

pub mod sense;

/// The BPF scheduler's side: see `include/sched_abi.h` for the meaning, the writers and the units of each field.
#[allow(non_camel_case_types, non_upper_case_globals, missing_docs)]
pub mod sched {
    include!(concat!(env!("OUT_DIR"), "/sched_abi.rs"));
    include!(concat!(env!("OUT_DIR"), "/stats.rs"));
}

/// Pages and messages of cooperative processes: see `include/coop_abi.h` for the rules of both sides.
#[allow(non_camel_case_types, non_upper_case_globals, missing_docs)]
pub mod coop {
    include!(concat!(env!("OUT_DIR"), "/coop_abi.rs"));
}

/// What is seen of a watched process: see `include/record_abi.h`.
#[allow(non_camel_case_types, non_upper_case_globals, missing_docs)]
pub mod record {
    include!(concat!(env!("OUT_DIR"), "/record_abi.rs"));
}

#[cfg(test)]
mod tests {
    use super::sched::*;

    /// The generated table of counter names has one row per counter of the header.
    #[test]
    fn every_counter_has_a_name_and_a_description() {
        assert_eq!(STATS.len(), LL_NR_STATS as usize);
        assert!(STATS.iter().all(|(name, description)| !name.is_empty() && !description.is_empty()));
    }
    /// A page of 4096 bytes has room for a header and 31 threads, as the header promises.
    #[test]
    fn a_page_holds_31_threads() {
        use super::coop::*;
        assert_eq!(size_of::<coop_header>() + 31 * size_of::<coop_slot>(), 4096);
        assert_eq!(COOP_SOCKET_PATH, b"/run/limelight/coop.sock\0");
    }
}
