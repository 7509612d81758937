// SPDX-License-Identifier: GPL-2.0-only
//! Messages of the per-login helper to the daemon.
