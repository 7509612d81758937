// SPDX-License-Identifier: GPL-2.0-only
//! The BPF scheduler's handle: load it, feed it ratings, read what it saw, and learn why it stopped.

mod bytes;
mod config;
mod consents;
mod handle;
mod layout;
mod pages;
mod reserve;
mod standings;

pub use config::{Policy, Settings, bounds};
pub use consents::Consent;
pub use handle::{EdgeCount, Exit, ProcessStats, Scheduler, check_types, has_server};
pub use libbpf_rs::OpenObject;
pub use pages::{CoopPage, CoopPages, try_page};
pub use reserve::Refusal;
pub use standings::{CoopPlace, CoopThread, Standings};

#[allow(clippy::all, clippy::unwrap_used, clippy::expect_used, clippy::too_many_lines, unused_imports, missing_docs)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));
}
