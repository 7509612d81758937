// SPDX-License-Identifier: GPL-2.0-only
//! Redline's specifications (OSDI 2008, section 3): what a program is promised, C ms of CPU in every T ms.
//!
//! The problem: a promise needs a figure for each program, and files of figures rot. ananicy's rules are 15,796 names kept by
//! hand; nobody can say which of them are still true, and a mistake in one is found by nobody. The idea: few lines, each of which says
//! where it comes from and whether it was measured; every bound is checked where the line is read; and what is wrong is said with
//! file, line, field and what is allowed, while everything else stays in force. A program without a line loses nothing but the promise.
//!
//! Two forms say the same. [`tab`] is the paper's own, one line for a program: `/usr/bin/mplayer:Iact:5:30:IR:-:-`. [`toml`] has
//! the same fields by name, and can also name an app or a unit, for programs that have no path of their own (Flatpak, scripts, Java).
//! [`Specs::load`] reads both from [`Places`]. [`suggest`] finds the figures for a program from watching it, [`recorded`] from a recording.
//!
//! What it is bad at: a path is compared as it is written, though /usr/bin/vim may be a link to /usr/bin/vim.basic, and though any user can show
//! a program of his own as /usr/bin/vim, in a mount namespace of his own. Whoever loads specifications resolves each path once, follows
//! links, and from then on knows the program by its file, not by its name.

mod cgroup;
mod complaint;
pub mod fields;
mod model;
mod places;
pub mod recorded;
mod specs;
pub mod suggest;
pub mod tab;
mod text;
pub mod toml;

pub use complaint::{Complaint, Found};
pub use model::{Kind, Source, Spec, Target};
pub use places::{Places, Trust};
pub use specs::{Loaded, MAX_SPECS, Specs};
pub use text::printable;
