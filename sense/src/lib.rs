// SPDX-License-Identifier: GPL-2.0-only
//! Watches a display.
pub mod period;
pub mod record;
pub mod region;
pub mod windows;
